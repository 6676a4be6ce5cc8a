/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-random-horizontal-flip.h"

#include "core/ortrain-field-private.h"
#include "core/ortrain-philox-private.h"
#include "preprocessing/ortrain-image-transform-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/**
 * OrtrainRandomHorizontalFlip:
 *
 * Mirrors a picture, left to right, for some of the items, others in each epoch.
 *
 * ```python
 * item = Ortrain.TensorDict({"image": np.float32([[[1, 2, 3]]])})
 * Ortrain.RandomHorizontalFlip(probability=1).apply(item, 7)
 * print(item["image"].numpy())                                # 3 2 1
 * ```
 */
struct _OrtrainRandomHorizontalFlip
{
  OrtrainImageTransform parent_instance;
  double probability;
};

G_DEFINE_FINAL_TYPE (OrtrainRandomHorizontalFlip, ortrain_random_horizontal_flip, ORTRAIN_TYPE_IMAGE_TRANSFORM)

enum
{
  PROP_PROBABILITY = 1,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static OrtrainTensor *
ortrain_random_horizontal_flip_run (OrtrainImageTransform *transform, OrtrainTensor *image, guint64 seed,
                                    GError **error)
{
  OrtrainRandomHorizontalFlip *self = ORTRAIN_RANDOM_HORIZONTAL_FLIP (transform);
  const OrtrainPhiloxKey key = { seed, 0, ORTRAIN_RANDOM_FLIP_NODE };
  guint32 words[4];
  ortrain_philox (&key, 0, words);
  if (!(ortrain_philox_to_float (words[0]) < self->probability))
    return g_object_ref (image);
  const gint64 *dims = ortrain_tensor_peek_dims (image);
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (image));
  OrtrainTensor *result = ortrain_tensor_new_uninitialized (ortrain_tensor_get_dtype (image), dims, 3, error);
  if (result == NULL)
    return NULL;
  const guint8 *from = ortrain_tensor_peek (image);
  guint8 *to = ortrain_tensor_peek_writable (result);
  const gint64 width = dims[2];
  for (gint64 row = 0; row < dims[0] * dims[1]; row++, from += (gsize) width * size, to += (gsize) width * size)
    for (gint64 x = 0; x < width; x++)
      if (size == 4)
        memcpy (to + 4 * x, from + 4 * (width - 1 - x), 4);
      else
        memcpy (to + (gsize) x * size, from + (gsize) (width - 1 - x) * size, size);
  return result;
}

static void
ortrain_random_horizontal_flip_class_init (OrtrainRandomHorizontalFlipClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_IMAGE_TRANSFORM_CLASS (klass)->run = ortrain_random_horizontal_flip_run;

  /**
   * OrtrainRandomHorizontalFlip:probability: (getter get_probability)
   *
   * How often a picture is mirrored. By default every other one is, 0.5. Construct-only.
   */
  properties[PROP_PROBABILITY] = ortrain_field_at (g_param_spec_double ("probability", NULL, NULL, 0, 1, 0.5, flags),
                                                   G_STRUCT_OFFSET (OrtrainRandomHorizontalFlip, probability));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_random_horizontal_flip_init (OrtrainRandomHorizontalFlip *self)
{
}

/**
 * ortrain_random_horizontal_flip_new:
 * @probability: how often a picture is mirrored, from 0 to 1
 *
 * Creates a transform that mirrors some of the pictures.
 *
 * Returns: (transfer full) (type OrtrainRandomHorizontalFlip): the transform
 */
OrtrainTransform *
ortrain_random_horizontal_flip_new (double probability)
{
  g_return_val_if_fail (probability >= 0 && probability <= 1, NULL);
  return g_object_new (ORTRAIN_TYPE_RANDOM_HORIZONTAL_FLIP, "probability", probability, NULL);
}

/**
 * ortrain_random_horizontal_flip_get_probability: (get-property probability)
 * @self: a transform
 *
 * Gets how often a picture is mirrored.
 *
 * Returns: the value
 */
double
ortrain_random_horizontal_flip_get_probability (OrtrainRandomHorizontalFlip *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RANDOM_HORIZONTAL_FLIP (self), 0);
  return self->probability;
}
