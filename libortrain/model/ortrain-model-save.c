/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"

#include "core/ortrain-worker-private.h"

/* Writing a model as it was read. */

/**
 * ortrain_model_save:
 * @self: a model
 * @path: (type filename): where to
 * @error: return location for an error
 *
 * Writes the model as it was read. Weights in files of their own are written to one file, named as @path with `.data`
 * appended. An existing file is replaced when the new one is complete on disk.
 *
 * Returns: %FALSE with an error of [error@ModelError]
 */
gboolean
ortrain_model_save (OrtrainModel *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  return ortrain_model_export (self, path, NULL, error);
}

static void
save_in_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  GError *error = NULL;
  if (!g_cancellable_set_error_if_cancelled (cancellable, &error) && ortrain_model_save (source, data, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_model_save_async:
 * @self: a model
 * @path: (type filename): where to
 * @cancellable: (nullable): a cancellable; a file that is being written is not broken off
 * @callback: (scope async): called when the file is written
 * @user_data: data for @callback
 *
 * Like [method@Model.save], on another thread. @callback runs on the thread-default main context of the caller.
 */
void
ortrain_model_save_async (OrtrainModel *self, const char *path, GCancellable *cancellable, GAsyncReadyCallback callback,
                          gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_MODEL (self));
  g_return_if_fail (path != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, ortrain_model_save_async);
  g_task_set_check_cancellable (task, FALSE); /* a file that was written is reported as written */
  g_task_set_task_data (task, g_strdup (path), g_free);
  ortrain_task_run_in_thread (task, save_in_thread);
}

/**
 * ortrain_model_save_finish:
 * @self: a model
 * @result: the result that the callback got
 * @error: return location for an error
 *
 * Finishes [method@Model.save_async]. It fails as [method@Model.save] does, or with %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_model_save_finish (OrtrainModel *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_model_save_async), FALSE);
  return g_task_propagate_boolean (G_TASK (result), error);
}

/**
 * ortrain_model_to_bytes:
 * @self: a model
 * @error: return location for an error
 *
 * Gets the contents of the model's file. External data stay where they are.
 *
 * Returns: (transfer full): the bytes; %NULL with an error of [error@ModelError]
 */
GBytes *
ortrain_model_to_bytes (OrtrainModel *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  return ortrain_model_export_bytes (self, NULL, error);
}
