/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#define ORTRAIN_TYPE_ARRAY_MODEL (ortrain_array_model_get_type ())
G_DECLARE_FINAL_TYPE (OrtrainArrayModel, ortrain_array_model, ORTRAIN, ARRAY_MODEL, GObject)

/* A list model over an array of objects that somebody else changes; that one calls refresh after a change. */
OrtrainArrayModel *ortrain_array_model_new (GType item_type, GPtrArray *array);
void ortrain_array_model_refresh (OrtrainArrayModel *self);
