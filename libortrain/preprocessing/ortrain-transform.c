/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-transform.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"

/**
 * OrtrainTransform:
 *
 * Changes the items of a dataset, one by one, as they are read: [class@TransformedDataset] applies a list of
 * transforms. The library's own are those for pictures, such as [class@RandomCrop] and [class@Normalize], and
 * [class@FunctionTransform], which calls a function. A function, in Python and JavaScript, may stand where a transform
 * is expected.
 *
 * To write a class of one's own, implement [vfunc@Transform.apply]. Its random choices may depend only on the seed that
 * it is given: then a training that is repeated, or resumed, sees the same items.
 *
 * ```python
 * class Noise(Ortrain.Transform):
 *     def do_apply(self, item, seed):
 *         rng = np.random.default_rng(seed)
 *         item["x"] = item["x"].numpy() + rng.normal(0, 0.1, item["x"].shape).astype(np.float32)
 *         return True
 *
 * dataset = Ortrain.TransformedDataset(Ortrain.TensorDataset("train.npz"), [Noise()], seed=1)
 * Ortrain.Trainer(session, dataset, batch_size=4).fit()
 * ```
 *
 * The methods of a class that was derived elsewhere run on the thread that asked for the items; in asynchronous
 * training, on the main context of that thread.
 */

typedef struct
{
  gboolean thread_safe;
} OrtrainTransformPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (OrtrainTransform, ortrain_transform, G_TYPE_OBJECT)

static void
ortrain_transform_class_init (OrtrainTransformClass *klass)
{
}

static void
ortrain_transform_init (OrtrainTransform *self)
{
}

typedef struct
{
  OrtrainTransform *self;
  OrtrainTensorDict *item;
  guint64 seed;
  gboolean applied;
  GError **error;
} ContextCall;

static gboolean
apply (OrtrainTransform *self, OrtrainTensorDict *item, guint64 seed, GError **error)
{
  GError *local_error = NULL;
  OrtrainTransformClass *klass = ORTRAIN_TRANSFORM_GET_CLASS (self);
  if (klass->apply == NULL)
    g_set_error (&local_error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "%s does not implement apply",
                 ortrain_text_name_class (self));
  else if (klass->apply (self, item, seed, &local_error))
    return TRUE;
  if (local_error == NULL) /* languages with exceptions may return FALSE without an error */
    g_set_error (&local_error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                 "apply of %s returned false, and set no error", ortrain_text_name_class (self));
  g_propagate_error (error, local_error);
  return FALSE;
}

static void
apply_in_context (gpointer data)
{
  ContextCall *call = data;
  call->applied = apply (call->self, call->item, call->seed, call->error);
}

/**
 * ortrain_transform_apply:
 * @self: a transform
 * @item: the tensors of one item, without a dimension for the batch, which are replaced
 * @seed: a number below 2^53 for random choices
 * @error: return location for an error
 *
 * Changes an item. [class@TransformedDataset] does this for each item that is read.
 *
 * Errors are %ORTRAIN_DATA_ERROR_MISMATCH for an item that the transform cannot take, those of [error@TensorError], and
 * those of derived classes.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_transform_apply (OrtrainTransform *self, OrtrainTensorDict *item, guint64 seed, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRANSFORM (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (item), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (!ortrain_transform_is_thread_safe (self) && ortrain_dispatch_has_context ())
    {
      ContextCall call = { .self = self, .item = item, .seed = seed, .error = error };
      ortrain_dispatch_call (apply_in_context, &call);
      return call.applied;
    }
  return apply (self, item, seed, error);
}

/**
 * ortrain_transform_is_thread_safe:
 * @self: a transform
 *
 * Gets whether several threads may apply it at once, as [property@DataLoader:prefetch] needs it. Those of the library
 * are thread-safe but for [class@FunctionTransform]; a class that was written in Python or JavaScript never is.
 *
 * Returns: %TRUE if they may
 */
gboolean
ortrain_transform_is_thread_safe (OrtrainTransform *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRANSFORM (self), FALSE);
  OrtrainTransformPrivate *priv = ortrain_transform_get_instance_private (self);
  return priv->thread_safe;
}

/**
 * ortrain_transform_set_thread_safe: (skip)
 * @self: a transform
 * @thread_safe: whether it may be applied by several threads at once
 *
 * For classes and functions written in C, before the transform is used. The default is %FALSE.
 */
void
ortrain_transform_set_thread_safe (OrtrainTransform *self, gboolean thread_safe)
{
  g_return_if_fail (ORTRAIN_IS_TRANSFORM (self));
  OrtrainTransformPrivate *priv = ortrain_transform_get_instance_private (self);
  priv->thread_safe = thread_safe;
}
