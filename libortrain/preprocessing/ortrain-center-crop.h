/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_CENTER_CROP (ortrain_center_crop_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainCenterCrop, ortrain_center_crop, ORTRAIN, CENTER_CROP, OrtrainImageTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_center_crop_new (guint width, guint height);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_center_crop_get_width (OrtrainCenterCrop *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_center_crop_get_height (OrtrainCenterCrop *self);

G_END_DECLS
