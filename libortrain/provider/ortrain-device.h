/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

#include <gio/gio.h>

G_BEGIN_DECLS

#define ORTRAIN_TYPE_DEVICE (ortrain_device_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainDevice, ortrain_device, ORTRAIN, DEVICE, GObject)

ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_device_list (void);

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_device_get_name (OrtrainDevice *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_device_get_index (OrtrainDevice *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_device_get_description (OrtrainDevice *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_device_get_reason (OrtrainDevice *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_device_get_total_memory (OrtrainDevice *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_device_get_available_memory (OrtrainDevice *self);
ORTRAIN_AVAILABLE_IN_ALL
GVariant *ortrain_device_get_counters (OrtrainDevice *self);

G_END_DECLS
