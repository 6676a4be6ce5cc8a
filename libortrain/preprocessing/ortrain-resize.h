/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_RESIZE (ortrain_resize_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainResize, ortrain_resize, ORTRAIN, RESIZE, OrtrainImageTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_resize_new (guint width, guint height);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_resize_new_for_shorter_side (guint shorter_side);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_resize_get_width (OrtrainResize *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_resize_get_height (OrtrainResize *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_resize_get_shorter_side (OrtrainResize *self);

G_END_DECLS
