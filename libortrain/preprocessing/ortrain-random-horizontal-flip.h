/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_RANDOM_HORIZONTAL_FLIP (ortrain_random_horizontal_flip_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainRandomHorizontalFlip, ortrain_random_horizontal_flip, ORTRAIN, RANDOM_HORIZONTAL_FLIP,
                      OrtrainImageTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_random_horizontal_flip_new (double probability);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_random_horizontal_flip_get_probability (OrtrainRandomHorizontalFlip *self);

G_END_DECLS
