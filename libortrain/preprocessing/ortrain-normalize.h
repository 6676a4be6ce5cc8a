/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_NORMALIZE (ortrain_normalize_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainNormalize, ortrain_normalize, ORTRAIN, NORMALIZE, OrtrainImageTransform)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTransform *ortrain_normalize_new (const double *mean, gsize n_mean, const double *std, gsize n_std,
                                         GError **error);
ORTRAIN_AVAILABLE_IN_ALL
const double *ortrain_normalize_get_mean (OrtrainNormalize *self, gsize *n);
ORTRAIN_AVAILABLE_IN_ALL
const double *ortrain_normalize_get_std (OrtrainNormalize *self, gsize *n);

G_END_DECLS
