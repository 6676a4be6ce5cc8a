/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-image-transform-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/**
 * OrtrainImageTransform:
 *
 * The base class of the transforms of pictures. They take one tensor of an item, [channels, height, width], and leave
 * the others as they are. Classes cannot be derived from it; see [class@Transform] for that.
 *
 * ```python
 * item = Ortrain.TensorDict({"left": np.zeros((3, 8, 8), np.float32), "right": np.zeros((3, 8, 8), np.float32)})
 * Ortrain.CenterCrop(4, 4, input="right").apply(item, 0)
 * print(item["left"].shape, item["right"].shape)              # (3, 8, 8) (3, 4, 4)
 * ```
 *
 * Transforms of pictures do not change once they are in use, and then any number of threads may use them.
 */
typedef struct
{
  char *input;
} OrtrainImageTransformPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (OrtrainImageTransform, ortrain_image_transform, ORTRAIN_TYPE_TRANSFORM)

enum
{
  PROP_INPUT = 1,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static OrtrainImageTransformPrivate *
get_private (OrtrainImageTransform *self)
{
  return ortrain_image_transform_get_instance_private (self);
}

/* The name of the picture: the one that was given, or of the only tensor that can be one. */
static const char *
find_image (OrtrainImageTransform *self, OrtrainTensorDict *item, GError **error)
{
  const char *found = NULL, *input = get_private (self)->input;
  const guint n = ortrain_tensor_dict_get_size (item);
  if (input != NULL && ortrain_tensor_dict_contains (item, input))
    return get_private (self)->input;
  for (guint i = 0; input == NULL && i < n; i++)
    {
      if (ortrain_tensor_get_rank (ortrain_tensor_dict_get_tensor (item, i)) != 3)
        continue;
      if (found != NULL)
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "Both '%s' and '%s' can be the picture; set input to the name of one", ortrain_text_show (found),
                       ortrain_text_show (ortrain_tensor_dict_get_name (item, i)));
          return NULL;
        }
      found = ortrain_tensor_dict_get_name (item, i);
    }
  if (found != NULL)
    return found;
  g_auto (GStrv) names = ortrain_tensor_dict_get_names (item);
  g_autofree char *list = g_strjoinv ("', '", names);
  if (input != NULL)
    g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The item has no tensor '%s'; it has '%s'",
                 ortrain_text_show (input), ortrain_text_show_list (list));
  else
    g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                 "None of the tensors '%s' is a picture, [channels, height, width]", ortrain_text_show_list (list));
  return NULL;
}

static gboolean
ortrain_image_transform_apply (OrtrainTransform *transform, OrtrainTensorDict *item, guint64 seed, GError **error)
{
  OrtrainImageTransform *self = ORTRAIN_IMAGE_TRANSFORM (transform);
  OrtrainTensor *(*run) (OrtrainImageTransform *, OrtrainTensor *, guint64, GError **) =
      ORTRAIN_IMAGE_TRANSFORM_GET_CLASS (self)->run;
  if (run == NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "%s is derived from ImageTransform; derive it from Transform", ortrain_text_name_class (self));
      return FALSE;
    }
  const char *name = find_image (self, item, error);
  OrtrainTensor *image = name != NULL ? ortrain_tensor_dict_get (item, name) : NULL;
  if (image == NULL || ortrain_tensor_peek_checked (image, error) == NULL)
    return FALSE;
  const gsize rank = ortrain_tensor_get_rank (image);
  if (rank != 3)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "'%s' has %" G_GSIZE_FORMAT " dimensions, a picture has 3: [channels, height, width]",
                   ortrain_text_show (name), rank);
      return FALSE;
    }
  g_autoptr (OrtrainTensor) result = run (self, image, seed, error);
  if (result == NULL || !ortrain_tensor_check_file (image, error))
    return FALSE;
  ortrain_tensor_dict_set (item, name, result);
  return TRUE;
}

static void
ortrain_image_transform_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  g_value_set_string (value, ortrain_image_transform_get_input (ORTRAIN_IMAGE_TRANSFORM (object)));
}

static void
ortrain_image_transform_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  ortrain_image_transform_set_input (ORTRAIN_IMAGE_TRANSFORM (object), g_value_get_string (value));
}

static void
ortrain_image_transform_finalize (GObject *object)
{
  g_free (get_private (ORTRAIN_IMAGE_TRANSFORM (object))->input);
  G_OBJECT_CLASS (ortrain_image_transform_parent_class)->finalize (object);
}

static void
ortrain_image_transform_class_init (OrtrainImageTransformClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->finalize = ortrain_image_transform_finalize;
  object_class->get_property = ortrain_image_transform_get_property;
  object_class->set_property = ortrain_image_transform_set_property;
  ORTRAIN_TRANSFORM_CLASS (klass)->apply = ortrain_image_transform_apply;

  /**
   * OrtrainImageTransform:input: (getter get_input) (setter set_input)
   *
   * The name of the picture among the tensors of an item; %NULL for the only one with three dimensions. To be set
   * before the transform is used. Default: %NULL.
   */
  properties[PROP_INPUT] = g_param_spec_string ("input", NULL, NULL, NULL,
                                                G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_image_transform_init (OrtrainImageTransform *self)
{
  ortrain_transform_set_thread_safe (ORTRAIN_TRANSFORM (self), TRUE);
}

/**
 * ortrain_image_transform_get_input: (get-property input)
 * @self: a transform
 *
 * Gets the name of the picture among the tensors of an item.
 *
 * Returns: (nullable): the name; %NULL for the only tensor with three dimensions
 */
const char *
ortrain_image_transform_get_input (OrtrainImageTransform *self)
{
  g_return_val_if_fail (ORTRAIN_IS_IMAGE_TRANSFORM (self), NULL);
  return get_private (self)->input;
}

/**
 * ortrain_image_transform_set_input: (set-property input)
 * @self: a transform
 * @input: (nullable): the name, or %NULL for the only tensor with three dimensions
 *
 * Sets the name of the picture among the tensors of an item, before the transform is used.
 */
void
ortrain_image_transform_set_input (OrtrainImageTransform *self, const char *input)
{
  g_return_if_fail (ORTRAIN_IS_IMAGE_TRANSFORM (self));
  OrtrainImageTransformPrivate *priv = get_private (self);
  if (g_strcmp0 (priv->input, input) == 0)
    return;
  g_free (priv->input);
  priv->input = g_strdup (input);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_INPUT]);
}

OrtrainTensor *
ortrain_image_crop (OrtrainTensor *image, gint64 top, gint64 left, gint64 height, gint64 width, GError **error)
{
  const gint64 *dims = ortrain_tensor_peek_dims (image);
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (image));
  g_autoptr (OrtrainTensor) result =
      ortrain_tensor_new (ortrain_tensor_get_dtype (image), (gint64[]){ dims[0], height, width }, 3, error);
  if (result == NULL)
    return NULL;
  const guint8 *from = ortrain_tensor_peek (image);
  guint8 *to = ortrain_tensor_peek_writable (result);
  const gint64 first = MAX (left, 0), n = MIN (left + width, dims[2]) - first;
  for (gint64 c = 0; n > 0 && c < dims[0]; c++)
    for (gint64 y = MAX (-top, 0); y < height && top + y < dims[1]; y++)
      memcpy (to + (gsize) ((c * height + y) * width + first - left) * size,
              from + (gsize) ((c * dims[1] + top + y) * dims[2] + first) * size, (gsize) n * size);
  return g_steal_pointer (&result);
}

gboolean
ortrain_image_check_float (OrtrainImageTransform *self, OrtrainTensor *image, GError **error)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (image);
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    return TRUE;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
               "The picture is %s, float32 is needed: put ToFloat before", ortrain_dtype_get_name (dtype));
  return FALSE;
}
