/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

/* A class implements `run`: image: [channels, height, width], any type, in memory of the host; transfer full: another
 * tensor, or the same one. Nothing of a transform changes once it is in use: any number of threads apply it. */

/* Numbers of transforms, which separate their random numbers from each other's. */
#define ORTRAIN_RANDOM_CROP_NODE 0x63726f70u
#define ORTRAIN_RANDOM_FLIP_NODE 0x666c6970u

/* A part of a picture: [channels, height, width] from the row `top` and the column `left`, which may be negative;
 * pixels outside of the picture are zero. */
OrtrainTensor *ortrain_image_crop (OrtrainTensor *image, gint64 top, gint64 left, gint64 height, gint64 width,
                                   GError **error);
/* FALSE and an error for a picture that is not float32. */
gboolean ortrain_image_check_float (OrtrainImageTransform *self, OrtrainTensor *image, GError **error);
