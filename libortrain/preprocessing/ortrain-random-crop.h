/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_RANDOM_CROP (ortrain_random_crop_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainRandomCrop, ortrain_random_crop, ORTRAIN, RANDOM_CROP, OrtrainImageTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_random_crop_new (guint width, guint height, guint padding);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_random_crop_get_width (OrtrainRandomCrop *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_random_crop_get_height (OrtrainRandomCrop *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_random_crop_get_padding (OrtrainRandomCrop *self);

G_END_DECLS
