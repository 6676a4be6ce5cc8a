/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-transform.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_IMAGE_TRANSFORM (ortrain_image_transform_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainImageTransform, ortrain_image_transform, ORTRAIN, IMAGE_TRANSFORM, OrtrainTransform)

/**
 * OrtrainImageTransformClass:
 * @parent_class: the parent class
 *
 * The class structure of [class@ImageTransform].
 */
struct _OrtrainImageTransformClass
{
  OrtrainTransformClass parent_class;

  /*< private >*/
  OrtrainTensor *(*run) (OrtrainImageTransform *self, OrtrainTensor *image, guint64 seed, GError **error);
  gpointer reserved[7];
};

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_image_transform_get_input (OrtrainImageTransform *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_image_transform_set_input (OrtrainImageTransform *self, const char *input);

G_END_DECLS
