/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-export.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-worker-private.h"
#include "model/ortrain-model-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* [n, m] → [m, n] */
static OrtrainTensor *
transpose (OrtrainTensor *tensor, GError **error)
{
  const gint64 *from_dims = ortrain_tensor_peek_dims (tensor);
  const gint64 dims[2] = { from_dims[1], from_dims[0] };
  OrtrainTensor *result = ortrain_tensor_new_uninitialized (ortrain_tensor_get_dtype (tensor), dims, 2, error);
  if (result == NULL)
    return NULL;
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (tensor));
  const guint8 *source = ortrain_tensor_peek (tensor);
  guint8 *destination = ortrain_tensor_peek_writable (result);
  for (gint64 i = 0; i < dims[0]; i++)
    for (gint64 k = 0; k < dims[1]; k++)
      memcpy (destination + (gsize) (i * dims[1] + k) * size, source + (gsize) (k * dims[0] + i) * size, size);
  if (!ortrain_tensor_check_file (tensor, error))
    g_clear_object (&result);
  return result;
}

/**
 * ortrain_checkpoint_export:
 * @self: a checkpoint that a [class@TrainingSession] saved
 * @path: (type filename): the file to write
 * @error: return location for an error
 *
 * Writes the user's model with the weights of the checkpoint, as [method@TrainingSession.export] does.
 *
 * Errors are %ORTRAIN_CHECKPOINT_ERROR_MISMATCH if the checkpoint has no model, and those of [error@ModelError] and
 * [error@TensorError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_checkpoint_export (OrtrainCheckpoint *self, const char *path, GError **error)
{
  return ortrain_checkpoint_export_with_limits (self, path, NULL, error);
}

/**
 * ortrain_checkpoint_export_with_limits:
 * @self: a checkpoint that a [class@TrainingSession] saved
 * @path: (type filename): the file to write
 * @limits: (nullable): limits for the model that the checkpoint was made from, or %NULL for the defaults
 * @error: return location for an error
 *
 * Like [method@Checkpoint.export], with limits of your own: for a model whose files of weights are links, for instance.
 * Errors are those of [method@Checkpoint.export].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_checkpoint_export_with_limits (OrtrainCheckpoint *self, const char *path, OrtrainModelLimits *limits,
                                       GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (limits == NULL || ORTRAIN_IS_MODEL_LIMITS (limits), FALSE);
  GBytes *bytes = ortrain_checkpoint_get_file (self, "model.onnx");
  GVariant *model_path = ortrain_checkpoint_get_value (self, "model-path");
  const char *file = model_path != NULL && g_variant_is_of_type (model_path, G_VARIANT_TYPE_BYTESTRING)
                         ? g_variant_get_bytestring (model_path)
                         : NULL;
  g_autofree char *directory = file != NULL ? g_path_get_dirname (file) : NULL;
  g_autoptr (OrtrainModel) model = NULL;
  if (bytes != NULL)
    model = ortrain_model_new_from_bytes_with_limits (bytes, directory, limits, error);
  else if (file != NULL)
    model = ortrain_model_new_from_file_with_limits (file, limits, error);
  else
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                 "The checkpoint has no model; only those of training sessions do");
  if (model == NULL)
    return FALSE;

  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  static const char *const sections[] = { "parameters", "buffers" };
  for (guint s = 0; s < G_N_ELEMENTS (sections); s++)
    {
      OrtrainTensorDict *dict = ortrain_checkpoint_get_tensors (self, sections[s]);
      for (guint i = 0; dict != NULL && i < ortrain_tensor_dict_get_size (dict); i++)
        g_hash_table_insert (tensors, g_strdup (ortrain_tensor_dict_get_name (dict, i)),
                             g_object_ref (ortrain_tensor_dict_get_tensor (dict, i)));
    }
  GVariant *ties = ortrain_checkpoint_get_value (self, "ties");
  if (ties != NULL && g_variant_is_of_type (ties, G_VARIANT_TYPE ("a(ssb)")))
    {
      GVariantIter iter;
      const char *first, *second;
      gboolean transposed;
      g_variant_iter_init (&iter, ties);
      while (g_variant_iter_next (&iter, "(&s&sb)", &first, &second, &transposed))
        {
          OrtrainTensor *tensor = g_hash_table_lookup (tensors, first);
          if (tensor == NULL || (transposed && ortrain_tensor_get_rank (tensor) != 2))
            continue;
          OrtrainTensor *other = transposed ? transpose (tensor, error) : g_object_ref (tensor);
          if (other == NULL)
            return FALSE;
          g_hash_table_insert (tensors, g_strdup (second), other);
        }
    }
  return ortrain_model_export (model, path, tensors, error);
}

static void
export_in_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  GError *error = NULL;
  if (!g_cancellable_set_error_if_cancelled (cancellable, &error) && ortrain_checkpoint_export (source, data, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_checkpoint_export_async:
 * @self: a checkpoint
 * @path: (type filename): where to
 * @cancellable: (nullable): a cancellable; a file that is being written is not broken off
 * @callback: (scope async): called when the file is written
 * @user_data: data for @callback
 *
 * Like [method@Checkpoint.export], on another thread. @callback runs on the thread-default main context of the caller.
 */
void
ortrain_checkpoint_export_async (OrtrainCheckpoint *self, const char *path, GCancellable *cancellable,
                                 GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (path != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, ortrain_checkpoint_export_async);
  g_task_set_check_cancellable (task, FALSE); /* a file that was written is reported as written */
  g_task_set_task_data (task, g_strdup (path), g_free);
  ortrain_task_run_in_thread (task, export_in_thread);
}

/**
 * ortrain_checkpoint_export_finish:
 * @self: a checkpoint
 * @result: the result that the callback got
 * @error: return location for an error
 *
 * Finishes [method@Checkpoint.export_async]. It fails as [method@Checkpoint.export] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_checkpoint_export_finish (OrtrainCheckpoint *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_checkpoint_export_async), FALSE);
  return g_task_propagate_boolean (G_TASK (result), error);
}
