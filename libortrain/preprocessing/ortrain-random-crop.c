/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-random-crop.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-philox-private.h"
#include "preprocessing/ortrain-image-transform-private.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainRandomCrop:
 *
 * Cuts a part out of a picture, at a place that is another one for each item in each epoch. With a padding, zeros are
 * put around the picture before.
 *
 * ```python
 * item = Ortrain.TensorDict({"image": np.ones((3, 32, 32), np.float32)})
 * Ortrain.RandomCrop(32, 32, padding=4).apply(item, 7)
 * print(item["image"].shape)                                  # (3, 32, 32)
 * ```
 */
struct _OrtrainRandomCrop
{
  OrtrainImageTransform parent_instance;
  guint width;
  guint height;
  guint padding;
};

G_DEFINE_FINAL_TYPE (OrtrainRandomCrop, ortrain_random_crop, ORTRAIN_TYPE_IMAGE_TRANSFORM)

enum
{
  PROP_WIDTH = 1,
  PROP_HEIGHT,
  PROP_PADDING,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static OrtrainTensor *
ortrain_random_crop_run (OrtrainImageTransform *transform, OrtrainTensor *image, guint64 seed, GError **error)
{
  OrtrainRandomCrop *self = ORTRAIN_RANDOM_CROP (transform);
  const gint64 *dims = ortrain_tensor_peek_dims (image);
  const gint64 padding = self->padding;
  const gint64 rows = dims[1] + 2 * padding - self->height, columns = dims[2] + 2 * padding - self->width;
  if (rows < 0 || columns < 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "A part of %u x %u cannot be cut out of a picture of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
                   " with a padding of %u (width x height)",
                   self->width, self->height, dims[2], dims[1], self->padding);
      return NULL;
    }
  const OrtrainPhiloxKey key = { seed, 0, ORTRAIN_RANDOM_CROP_NODE };
  guint32 words[4];
  ortrain_philox (&key, 0, words);
  /* the bias is one in 2^32 / rows */
  const gint64 top = (gint64) ((guint64) words[0] * (guint64) (rows + 1) >> 32);
  const gint64 left = (gint64) ((guint64) words[1] * (guint64) (columns + 1) >> 32);
  return ortrain_image_crop (image, top - padding, left - padding, self->height, self->width, error);
}

static void
ortrain_random_crop_class_init (OrtrainRandomCropClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_IMAGE_TRANSFORM_CLASS (klass)->run = ortrain_random_crop_run;

  /**
   * OrtrainRandomCrop:width: (getter get_width)
   *
   * How many columns are left. Construct-only. Default: 1.
   */
  properties[PROP_WIDTH] = ortrain_field_at (g_param_spec_uint ("width", NULL, NULL, 1, 1048576, 1, flags),
                                             G_STRUCT_OFFSET (OrtrainRandomCrop, width));

  /**
   * OrtrainRandomCrop:height: (getter get_height)
   *
   * How many rows are left. Construct-only. Default: 1.
   */
  properties[PROP_HEIGHT] = ortrain_field_at (g_param_spec_uint ("height", NULL, NULL, 1, 1048576, 1, flags),
                                              G_STRUCT_OFFSET (OrtrainRandomCrop, height));

  /**
   * OrtrainRandomCrop:padding: (getter get_padding)
   *
   * How many zeros are put on each side of the picture before. Construct-only. Default: 0.
   */
  properties[PROP_PADDING] = ortrain_field_at (g_param_spec_uint ("padding", NULL, NULL, 0, 1048576, 0, flags),
                                               G_STRUCT_OFFSET (OrtrainRandomCrop, padding));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_random_crop_init (OrtrainRandomCrop *self)
{
}

/**
 * ortrain_random_crop_new:
 * @width: how many columns are left, at least 1
 * @height: how many rows are left, at least 1
 * @padding: how many zeros are put on each side before
 *
 * Creates a transform that cuts out a part at a random place. It fails with %ORTRAIN_DATA_ERROR_MISMATCH for a picture
 * that is smaller than the part.
 *
 * Returns: (transfer full) (type OrtrainRandomCrop): the transform
 */
OrtrainTransform *
ortrain_random_crop_new (guint width, guint height, guint padding)
{
  g_return_val_if_fail (width > 0 && height > 0, NULL);
  return g_object_new (ORTRAIN_TYPE_RANDOM_CROP, "width", width, "height", height, "padding", padding, NULL);
}

/**
 * ortrain_random_crop_get_width: (get-property width)
 * @self: a transform
 *
 * Gets how many columns are left.
 *
 * Returns: the value
 */
guint
ortrain_random_crop_get_width (OrtrainRandomCrop *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RANDOM_CROP (self), 0);
  return self->width;
}

/**
 * ortrain_random_crop_get_height: (get-property height)
 * @self: a transform
 *
 * Gets how many rows are left.
 *
 * Returns: the value
 */
guint
ortrain_random_crop_get_height (OrtrainRandomCrop *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RANDOM_CROP (self), 0);
  return self->height;
}

/**
 * ortrain_random_crop_get_padding: (get-property padding)
 * @self: a transform
 *
 * Gets how many zeros are put on each side of the picture before.
 *
 * Returns: the value
 */
guint
ortrain_random_crop_get_padding (OrtrainRandomCrop *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RANDOM_CROP (self), 0);
  return self->padding;
}
