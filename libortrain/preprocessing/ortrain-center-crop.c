/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-center-crop.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "preprocessing/ortrain-image-transform-private.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainCenterCrop:
 *
 * Cuts the middle out of a picture. Where the picture is smaller, zeros stand around it.
 *
 * ```python
 * item = Ortrain.TensorDict({"image": np.arange(25, dtype=np.float32).reshape(1, 5, 5)})
 * Ortrain.CenterCrop(3, 3).apply(item, 0)
 * print(item["image"].numpy()[0, 0])                          # 6 7 8
 * ```
 */
struct _OrtrainCenterCrop
{
  OrtrainImageTransform parent_instance;
  guint width;
  guint height;
};

G_DEFINE_FINAL_TYPE (OrtrainCenterCrop, ortrain_center_crop, ORTRAIN_TYPE_IMAGE_TRANSFORM)

enum
{
  PROP_WIDTH = 1,
  PROP_HEIGHT,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

/* Half of the pixels to cut; of an odd number, the even half, as Python rounds it. Missing pixels are added on both
 * sides, the odd one at the end. */
static gint64
find_begin (gint64 n, gint64 wanted)
{
  const gint64 left = n - wanted;
  if (left < 0)
    return -(-left / 2);
  return left / 2 + (left % 2 != 0 && left / 2 % 2 != 0);
}

static OrtrainTensor *
ortrain_center_crop_run (OrtrainImageTransform *transform, OrtrainTensor *image, guint64 seed, GError **error)
{
  OrtrainCenterCrop *self = ORTRAIN_CENTER_CROP (transform);
  const gint64 *dims = ortrain_tensor_peek_dims (image);
  return ortrain_image_crop (image, find_begin (dims[1], self->height), find_begin (dims[2], self->width), self->height,
                             self->width, error);
}

static void
ortrain_center_crop_class_init (OrtrainCenterCropClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_IMAGE_TRANSFORM_CLASS (klass)->run = ortrain_center_crop_run;

  /**
   * OrtrainCenterCrop:width: (getter get_width)
   *
   * How many columns are left. Construct-only. Default: 1.
   */
  properties[PROP_WIDTH] = ortrain_field_at (g_param_spec_uint ("width", NULL, NULL, 1, 1048576, 1, flags),
                                             G_STRUCT_OFFSET (OrtrainCenterCrop, width));

  /**
   * OrtrainCenterCrop:height: (getter get_height)
   *
   * How many rows are left. Construct-only. Default: 1.
   */
  properties[PROP_HEIGHT] = ortrain_field_at (g_param_spec_uint ("height", NULL, NULL, 1, 1048576, 1, flags),
                                              G_STRUCT_OFFSET (OrtrainCenterCrop, height));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_center_crop_init (OrtrainCenterCrop *self)
{
}

/**
 * ortrain_center_crop_new:
 * @width: how many columns are left, at least 1
 * @height: how many rows are left, at least 1
 *
 * Creates a transform that cuts out the middle.
 *
 * Returns: (transfer full) (type OrtrainCenterCrop): the transform
 */
OrtrainTransform *
ortrain_center_crop_new (guint width, guint height)
{
  g_return_val_if_fail (width > 0 && height > 0, NULL);
  return g_object_new (ORTRAIN_TYPE_CENTER_CROP, "width", width, "height", height, NULL);
}

/**
 * ortrain_center_crop_get_width: (get-property width)
 * @self: a transform
 *
 * Gets how many columns are left.
 *
 * Returns: the value
 */
guint
ortrain_center_crop_get_width (OrtrainCenterCrop *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CENTER_CROP (self), 0);
  return self->width;
}

/**
 * ortrain_center_crop_get_height: (get-property height)
 * @self: a transform
 *
 * Gets how many rows are left.
 *
 * Returns: the value
 */
guint
ortrain_center_crop_get_height (OrtrainCenterCrop *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CENTER_CROP (self), 0);
  return self->height;
}
