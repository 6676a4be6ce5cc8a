/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-function-transform.h"

/**
 * OrtrainFunctionTransform:
 *
 * A transform that calls a function. In Python the function takes an item, and the seed if it has a second parameter,
 * and returns a mapping, or nothing if it changed the item itself; a list of transforms may have the function in its
 * place.
 *
 * ```python
 * def double(item):
 *     return {**item, "x": item["x"].numpy() * 2}
 *
 * source = Ortrain.TensorDataset("train.npz")
 * same = Ortrain.TransformedDataset(source, [Ortrain.FunctionTransform(double)])
 * dataset = Ortrain.TransformedDataset(source, [double, Ortrain.FunctionTransform(double)])
 * print(dataset[0]["x"].numpy() / same[0]["x"].numpy())       # 2
 * ```
 *
 * The function is called on the thread that asked for the items, and in asynchronous training on the main context of
 * that thread; nothing that it transforms is read ahead.
 */
struct _OrtrainFunctionTransform
{
  OrtrainTransform parent_instance;
  OrtrainTransformFunc function;
  gpointer user_data;
  GDestroyNotify destroy;
};

G_DEFINE_FINAL_TYPE (OrtrainFunctionTransform, ortrain_function_transform, ORTRAIN_TYPE_TRANSFORM)

static gboolean
ortrain_function_transform_apply (OrtrainTransform *transform, OrtrainTensorDict *item, guint64 seed, GError **error)
{
  OrtrainFunctionTransform *self = ORTRAIN_FUNCTION_TRANSFORM (transform);
  return self->function == NULL || self->function (item, seed, self->user_data, error);
}

static void
ortrain_function_transform_finalize (GObject *object)
{
  OrtrainFunctionTransform *self = ORTRAIN_FUNCTION_TRANSFORM (object);
  if (self->destroy != NULL)
    self->destroy (self->user_data);
  G_OBJECT_CLASS (ortrain_function_transform_parent_class)->finalize (object);
}

static void
ortrain_function_transform_class_init (OrtrainFunctionTransformClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = ortrain_function_transform_finalize;
  ORTRAIN_TRANSFORM_CLASS (klass)->apply = ortrain_function_transform_apply;
}

static void
ortrain_function_transform_init (OrtrainFunctionTransform *self)
{
}

/**
 * ortrain_function_transform_new:
 * @function: (scope notified) (closure user_data) (destroy destroy): the function
 * @user_data: data for @function
 * @destroy: frees @user_data when the transform is freed
 *
 * Creates a transform that calls @function for each item, and passes on its errors.
 *
 * Returns: (transfer full) (type OrtrainFunctionTransform): the transform
 */
OrtrainTransform *
ortrain_function_transform_new (OrtrainTransformFunc function, gpointer user_data, GDestroyNotify destroy)
{
  g_return_val_if_fail (function != NULL, NULL);
  OrtrainFunctionTransform *self = g_object_new (ORTRAIN_TYPE_FUNCTION_TRANSFORM, NULL);
  self->function = function;
  self->user_data = user_data;
  self->destroy = destroy;
  return ORTRAIN_TRANSFORM (self);
}
