/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-to-float.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "preprocessing/ortrain-image-transform-private.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainToFloat:
 *
 * Converts a picture to float32, each element multiplied by a factor: bytes from 0 to 255 become numbers from 0 to 1.
 *
 * ```python
 * item = Ortrain.TensorDict({"image": np.uint8([[[0, 51, 255]]])})
 * Ortrain.ToFloat().apply(item, 0)
 * print(item["image"].numpy())                                # 0 0.2 1
 * ```
 */
struct _OrtrainToFloat
{
  OrtrainImageTransform parent_instance;
  double scale;
};

G_DEFINE_FINAL_TYPE (OrtrainToFloat, ortrain_to_float, ORTRAIN_TYPE_IMAGE_TRANSFORM)

enum
{
  PROP_SCALE = 1,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static OrtrainTensor *
ortrain_to_float_run (OrtrainImageTransform *transform, OrtrainTensor *image, guint64 seed, GError **error)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (image);
  if (!ortrain_dtype_is_convertible (dtype))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "A picture of %s cannot be converted",
                   ortrain_dtype_get_name (dtype));
      return NULL;
    }
  OrtrainTensor *result =
      ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, ortrain_tensor_peek_dims (image), 3, error);
  if (result != NULL)
    ortrain_convert_elements (dtype, ortrain_tensor_peek (image), ORTRAIN_DTYPE_FLOAT32,
                              ortrain_tensor_peek_writable (result), ortrain_tensor_get_n_elements (image),
                              ORTRAIN_TO_FLOAT (transform)->scale);
  return result;
}

static void
ortrain_to_float_class_init (OrtrainToFloatClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_IMAGE_TRANSFORM_CLASS (klass)->run = ortrain_to_float_run;

  /**
   * OrtrainToFloat:scale: (getter get_scale)
   *
   * The factor of each element, in double precision. By default 1/255. Construct-only.
   */
  properties[PROP_SCALE] =
      ortrain_field_at (g_param_spec_double ("scale", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 1.0 / 255, flags),
                        G_STRUCT_OFFSET (OrtrainToFloat, scale));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_to_float_init (OrtrainToFloat *self)
{
}

/**
 * ortrain_to_float_new:
 * @scale: the factor of each element, for instance 1/255
 *
 * Creates a transform that converts to float32.
 *
 * Returns: (transfer full) (type OrtrainToFloat): the transform
 */
OrtrainTransform *
ortrain_to_float_new (double scale)
{
  return g_object_new (ORTRAIN_TYPE_TO_FLOAT, "scale", scale, NULL);
}

/**
 * ortrain_to_float_get_scale: (get-property scale)
 * @self: a transform
 *
 * Gets the factor of each element, in double precision.
 *
 * Returns: the value
 */
double
ortrain_to_float_get_scale (OrtrainToFloat *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TO_FLOAT (self), 0);
  return self->scale;
}
