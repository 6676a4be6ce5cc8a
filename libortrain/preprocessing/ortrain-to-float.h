/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TO_FLOAT (ortrain_to_float_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainToFloat, ortrain_to_float, ORTRAIN, TO_FLOAT, OrtrainImageTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_to_float_new (double scale);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_to_float_get_scale (OrtrainToFloat *self);

G_END_DECLS
