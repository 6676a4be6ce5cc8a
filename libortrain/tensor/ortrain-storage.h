/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "core/ortrain-dtype.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_STORAGE (ortrain_storage_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainStorage, ortrain_storage, ORTRAIN, STORAGE, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainStorage *ortrain_storage_new (gsize n_bytes, GError **error); /* aligned to 64 bytes, zeroed */

ORTRAIN_AVAILABLE_IN_ALL
OrtrainStorage *ortrain_storage_new_for_bytes (GBytes *bytes);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainStorage *ortrain_storage_new_for_address (gsize address, gsize n_bytes, gboolean writable, const GValue *owner);

ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_storage_get_address (OrtrainStorage *self);

ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_storage_get_n_bytes (OrtrainStorage *self);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_storage_get_writable (OrtrainStorage *self);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_storage_release (OrtrainStorage *self);

G_END_DECLS
