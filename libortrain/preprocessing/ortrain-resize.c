/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-resize.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "preprocessing/ortrain-image-transform-private.h"
#include "preprocessing/ortrain-resample-private.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainResize:
 *
 * Brings a picture to another size, by bilinear interpolation. A picture that gets smaller is averaged over the area
 * that a new pixel covers (antialiasing), as torchvision and Pillow do it.
 *
 * ```python
 * item = Ortrain.TensorDict({"image": np.ones((3, 60, 80), np.float32)})
 * Ortrain.Resize(shorter_side=30).apply(item, 0)
 * print(item["image"].shape)                                  # (3, 30, 40)
 * Ortrain.Resize(16, 12).apply(item, 0)
 * print(item["image"].shape)                                  # (3, 12, 16)
 * ```
 */
struct _OrtrainResize
{
  OrtrainImageTransform parent_instance;
  guint width;
  guint height;
  guint shorter_side;
};

G_DEFINE_FINAL_TYPE (OrtrainResize, ortrain_resize, ORTRAIN_TYPE_IMAGE_TRANSFORM)

enum
{
  PROP_WIDTH = 1,
  PROP_HEIGHT,
  PROP_SHORTER_SIDE,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static OrtrainTensor *
ortrain_resize_run (OrtrainImageTransform *transform, OrtrainTensor *image, guint64 seed, GError **error)
{
  OrtrainResize *self = ORTRAIN_RESIZE (transform);
  const gint64 *dims = ortrain_tensor_peek_dims (image);
  gint64 width = self->width, height = self->height;
  if (!ortrain_image_check_float (transform, image, error))
    return NULL;
  if (dims[1] == 0 || dims[2] == 0 || (width > 0) != (height > 0) || (width > 0) == (self->shorter_side > 0))
    {
      if (dims[1] == 0 || dims[2] == 0)
        g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The picture has no pixels");
      else
        g_set_error (
            error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
            "The size is %u x %u, with a shorter side of %u: either width and height are needed, or shorter-side",
            self->width, self->height, self->shorter_side);
      return NULL;
    }
  if (self->shorter_side > 0)
    {
      const gint64 shorter = MIN (dims[1], dims[2]);
      width = dims[2] * self->shorter_side / shorter;
      height = dims[1] * self->shorter_side / shorter;
    }
  if (height == dims[1] && width == dims[2])
    return g_object_ref (image);
  g_autoptr (OrtrainTensor) result =
      ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ dims[0], height, width }, 3, error);
  if (result == NULL || !ortrain_resample (ortrain_tensor_peek (image), dims[0], dims[1], dims[2],
                                           ortrain_tensor_peek_writable (result), height, width, error))
    return NULL;
  return g_steal_pointer (&result);
}

static void
ortrain_resize_class_init (OrtrainResizeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_IMAGE_TRANSFORM_CLASS (klass)->run = ortrain_resize_run;

  /**
   * OrtrainResize:width: (getter get_width)
   *
   * The new number of columns; 0 with a shorter side. Construct-only. Default: 0.
   */
  properties[PROP_WIDTH] = ortrain_field_at (g_param_spec_uint ("width", NULL, NULL, 0, 1048576, 0, flags),
                                             G_STRUCT_OFFSET (OrtrainResize, width));

  /**
   * OrtrainResize:height: (getter get_height)
   *
   * The new number of rows; 0 with a shorter side. Construct-only. Default: 0.
   */
  properties[PROP_HEIGHT] = ortrain_field_at (g_param_spec_uint ("height", NULL, NULL, 0, 1048576, 0, flags),
                                              G_STRUCT_OFFSET (OrtrainResize, height));

  /**
   * OrtrainResize:shorter-side: (getter get_shorter_side)
   *
   * The new size of the shorter side, where width and height are 0: the other one keeps its ratio to it.
   * Construct-only. Default: 0.
   */
  properties[PROP_SHORTER_SIDE] =
      ortrain_field_at (g_param_spec_uint ("shorter-side", NULL, NULL, 0, 1048576, 0, flags),
                        G_STRUCT_OFFSET (OrtrainResize, shorter_side));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_resize_init (OrtrainResize *self)
{
}

/**
 * ortrain_resize_new:
 * @width: the new number of columns, at least 1
 * @height: the new number of rows, at least 1
 *
 * Creates a transform that changes the size, whatever the ratio of the sides was.
 *
 * Returns: (transfer full) (type OrtrainResize): the transform
 */
OrtrainTransform *
ortrain_resize_new (guint width, guint height)
{
  g_return_val_if_fail (width > 0 && height > 0, NULL);
  return g_object_new (ORTRAIN_TYPE_RESIZE, "width", width, "height", height, NULL);
}

/**
 * ortrain_resize_new_for_shorter_side:
 * @shorter_side: the new size of the shorter side, at least 1
 *
 * Creates a transform that changes the size and keeps the ratio of the sides.
 *
 * Returns: (transfer full) (type OrtrainResize): the transform
 */
OrtrainTransform *
ortrain_resize_new_for_shorter_side (guint shorter_side)
{
  g_return_val_if_fail (shorter_side > 0, NULL);
  return g_object_new (ORTRAIN_TYPE_RESIZE, "shorter-side", shorter_side, NULL);
}

/**
 * ortrain_resize_get_width: (get-property width)
 * @self: a transform
 *
 * Gets the new number of columns.
 *
 * Returns: the value
 */
guint
ortrain_resize_get_width (OrtrainResize *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RESIZE (self), 0);
  return self->width;
}

/**
 * ortrain_resize_get_height: (get-property height)
 * @self: a transform
 *
 * Gets the new number of rows.
 *
 * Returns: the value
 */
guint
ortrain_resize_get_height (OrtrainResize *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RESIZE (self), 0);
  return self->height;
}

/**
 * ortrain_resize_get_shorter_side: (get-property shorter-side)
 * @self: a transform
 *
 * Gets the new size of the shorter side, where width and height are 0: the other one keeps its ratio to it.
 *
 * Returns: the value
 */
guint
ortrain_resize_get_shorter_side (OrtrainResize *self)
{
  g_return_val_if_fail (ORTRAIN_IS_RESIZE (self), 0);
  return self->shorter_side;
}
