/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-worker-private.h"
#include "session/ortrain-inference-session.h"

/* A session created in another thread. */

typedef struct
{
  OrtrainModel *model;
  OrtrainSessionOptions *options;
} NewData;

static void
new_data_free (gpointer data)
{
  NewData *self = data;
  g_object_unref (self->model);
  g_clear_object (&self->options);
  g_free (self);
}

static void
new_in_thread (GTask *task, gpointer source, gpointer task_data, GCancellable *cancellable)
{
  NewData *data = task_data;
  GError *error = NULL;
  OrtrainInferenceSession *self = ortrain_inference_session_new (data->model, data->options, &error);
  if (self != NULL)
    g_task_return_pointer (task, self, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_inference_session_new_async:
 * @model: a model
 * @options: (nullable): switches, or %NULL for the default ones
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when the session is created
 * @user_data: data for @callback
 *
 * Creates a session in another thread, see [ctor@InferenceSession.new].
 */
void
ortrain_inference_session_new_async (OrtrainModel *model, OrtrainSessionOptions *options, GCancellable *cancellable,
                                     GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_MODEL (model));
  g_return_if_fail (options == NULL || ORTRAIN_IS_SESSION_OPTIONS (options));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  g_autoptr (GTask) task = g_task_new (NULL, cancellable, callback, user_data);
  NewData *data = g_new0 (NewData, 1);
  data->model = g_object_ref (model);
  g_set_object (&data->options, options);
  g_task_set_source_tag (task, ortrain_inference_session_new_async);
  g_task_set_task_data (task, data, new_data_free);
  ortrain_task_run_in_thread (task, new_in_thread);
}

/**
 * ortrain_inference_session_new_finish: (constructor)
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [func@InferenceSession.new_async]. It fails as [ctor@InferenceSession.new] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the session; %NULL on error
 */
OrtrainInferenceSession *
ortrain_inference_session_new_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_inference_session_new_async), NULL);
  return g_task_propagate_pointer (G_TASK (result), error);
}
