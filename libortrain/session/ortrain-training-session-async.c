/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include <math.h>

/* The asynchronous variants run on the session's own thread. */

/* A kind of call: the function that the worker runs, which returns NULL on error, and the functions that free its
 * argument and its result. */
typedef struct
{
  gpointer (*run) (OrtrainTrainingSession *self, gpointer argument, GCancellable *cancellable, GError **error);
  GDestroyNotify free_argument, free_result;
  gboolean goes_on; /* may run after submitted steps without waiting for them */
} Call;

typedef struct
{
  const Call *call;
  gpointer argument;
  GThread *caller; /* no reference */
} Request;

static void
request_free (gpointer data)
{
  Request *request = data;
  if (request->argument != NULL)
    request->call->free_argument (request->argument);
  g_free (request);
}

static void
run_request (GTask *task, gpointer source, gpointer task_data, GCancellable *cancellable)
{
  OrtrainTrainingSession *self = source;
  const Request *request = task_data;
  GError *error = NULL;
  ortrain_training_session_adopt (self);
  gpointer result = NULL;
  if (request->call->goes_on || ortrain_training_session_wait_pending (self, 0, &error))
    result = request->call->run (self, request->argument, cancellable, &error);
  ortrain_step_queue_replace_submitter (self->queue, request->caller);
  ortrain_training_session_leave (self);
  if (result != NULL)
    g_task_return_pointer (task, result, request->call->free_result);
  else
    g_task_return_error (task, error);
}

/* Claims the session, or returns the error through the task. argument: taken */
static void
start (OrtrainTrainingSession *self, const Call *call, gpointer argument, GCancellable *cancellable,
       GAsyncReadyCallback callback, gpointer user_data, gpointer tag)
{
  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  GError *error = NULL;
  Request *request = g_new (Request, 1);
  *request = (Request){ call, argument, g_thread_self () };
  g_task_set_task_data (task, request, request_free);
  g_task_set_source_tag (task, tag);
  g_task_set_check_cancellable (
      task, FALSE); /* work that was done is reported as done; other work returns the error itself */
  if (g_cancellable_set_error_if_cancelled (cancellable, &error) || !ortrain_training_session_claim (self, &error))
    g_task_return_error (task, error);
  else if (!ortrain_worker_run (self->worker, task, run_request, &error))
    {
      ortrain_training_session_leave (self);
      g_task_return_error (task, error);
    }
}

static gpointer
train_step (OrtrainTrainingSession *self, gpointer inputs, GCancellable *cancellable, GError **error)
{
  double loss;
  return ortrain_training_session_run_train_step (self, inputs, cancellable, &loss, error)
             ? g_memdup2 (&loss, sizeof loss)
             : NULL;
}

static const Call train_step_call = { train_step, g_object_unref, g_free, TRUE };

/**
 * ortrain_training_session_train_step_async:
 * @self: a session
 * @inputs: one tensor for each input of the model and each target; not to be changed until the step is done
 * @cancellable: (nullable): a cancellable, looked at between the nodes of the model
 * @callback: (scope async): called when the step is done
 * @user_data: data for @callback
 *
 * Runs the model forward and backward on the thread of the session, see [method@TrainingSession.train_step]. A step
 * that was cancelled leaves everything as it was.
 */
void
ortrain_training_session_train_step_async (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                           GCancellable *cancellable, GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs));

  start (self, &train_step_call, g_object_ref (inputs), cancellable, callback, user_data,
         ortrain_training_session_train_step_async);
}

/**
 * ortrain_training_session_train_step_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.train_step_async]. It fails as [method@TrainingSession.train_step] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: the loss; not a number on error
 */
double
ortrain_training_session_train_step_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NAN);
  g_return_val_if_fail (g_task_is_valid (result, self), NAN);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_train_step_async), NAN);

  g_autofree double *loss = g_task_propagate_pointer (G_TASK (result), error);
  return loss != NULL ? *loss : NAN;
}

static gpointer
optimizer_step (OrtrainTrainingSession *self, gpointer nothing, GCancellable *cancellable, GError **error)
{
  return GINT_TO_POINTER (ortrain_training_session_run_optimizer_step (self, error));
}

static const Call optimizer_step_call = { optimizer_step, NULL, NULL, TRUE };

/**
 * ortrain_training_session_optimizer_step_async:
 * @self: a session
 * @cancellable: (nullable): a cancellable; an update that has begun is completed
 * @callback: (scope async): called when the parameters are updated
 * @user_data: data for @callback
 *
 * Updates the parameters on the thread of the session, see [method@TrainingSession.optimizer_step].
 */
void
ortrain_training_session_optimizer_step_async (OrtrainTrainingSession *self, GCancellable *cancellable,
                                               GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));

  start (self, &optimizer_step_call, NULL, cancellable, callback, user_data,
         ortrain_training_session_optimizer_step_async);
}

/**
 * ortrain_training_session_optimizer_step_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.optimizer_step_async]. It fails as [method@TrainingSession.optimizer_step] does, or
 * with %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_optimizer_step_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_optimizer_step_async), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}

static gpointer
train_and_update (OrtrainTrainingSession *self, gpointer inputs, GCancellable *cancellable, GError **error)
{
  return GINT_TO_POINTER (ortrain_training_session_run_train_and_update (self, inputs, cancellable, error));
}

static const Call train_and_update_call = { train_and_update, g_object_unref, NULL, TRUE };

/**
 * ortrain_training_session_train_and_update_async:
 * @self: a session
 * @inputs: one tensor for each input of the model and each target; not to be changed until the call is done
 * @cancellable: (nullable): a cancellable; a step that was submitted to a device is completed
 * @callback: (scope async): called when the step is done, or submitted
 * @user_data: data for @callback
 *
 * Runs a training step and the update after it on the thread of the session, see
 * [method@TrainingSession.train_and_update].
 */
void
ortrain_training_session_train_and_update_async (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                 GCancellable *cancellable, GAsyncReadyCallback callback,
                                                 gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs));

  start (self, &train_and_update_call, g_object_ref (inputs), cancellable, callback, user_data,
         ortrain_training_session_train_and_update_async);
}

/**
 * ortrain_training_session_train_and_update_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.train_and_update_async]. It fails as [method@TrainingSession.train_and_update] does,
 * or with %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_train_and_update_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_train_and_update_async), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}

static gpointer
eval_step (OrtrainTrainingSession *self, gpointer inputs, GCancellable *cancellable, GError **error)
{
  return ortrain_training_session_run_eval_step (self, inputs, cancellable, error);
}

static const Call eval_step_call = { eval_step, g_object_unref, g_object_unref };

/**
 * ortrain_training_session_eval_step_async:
 * @self: a session
 * @inputs: one tensor for each input of the model, and each target if the loss is wanted; not to be changed meanwhile
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when the outputs are computed
 * @user_data: data for @callback
 *
 * Runs the model on the thread of the session, see [method@TrainingSession.eval_step].
 */
void
ortrain_training_session_eval_step_async (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                          GCancellable *cancellable, GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs));

  start (self, &eval_step_call, g_object_ref (inputs), cancellable, callback, user_data,
         ortrain_training_session_eval_step_async);
}

/**
 * ortrain_training_session_eval_step_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.eval_step_async]. It fails as [method@TrainingSession.eval_step] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the model's outputs, and `loss` if targets were given; %NULL on error
 */
OrtrainTensorDict *
ortrain_training_session_eval_step_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_eval_step_async), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

static gpointer
export_file (OrtrainTrainingSession *self, gpointer path, GCancellable *cancellable, GError **error)
{
  return GINT_TO_POINTER (ortrain_training_session_run_export (self, path, error));
}

static const Call export_call = { export_file, g_free, NULL };

/**
 * ortrain_training_session_export_async:
 * @self: a session
 * @path: (type filename): the file to write
 * @cancellable: (nullable): a cancellable; a file that is being written is completed
 * @callback: (scope async): called when the file is on disk
 * @user_data: data for @callback
 *
 * Writes the model on the thread of the session, see [method@TrainingSession.export].
 */
void
ortrain_training_session_export_async (OrtrainTrainingSession *self, const char *path, GCancellable *cancellable,
                                       GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (path != NULL);

  start (self, &export_call, g_strdup (path), cancellable, callback, user_data, ortrain_training_session_export_async);
}

/**
 * ortrain_training_session_export_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.export_async]. It fails as [method@TrainingSession.export] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_export_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_export_async), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}

static gpointer
save_checkpoint (OrtrainTrainingSession *self, gpointer path, GCancellable *cancellable, GError **error)
{
  return GINT_TO_POINTER (ortrain_training_session_run_save_checkpoint (self, path, cancellable, error));
}

static const Call save_checkpoint_call = { save_checkpoint, g_free, NULL };

/**
 * ortrain_training_session_save_checkpoint_async:
 * @self: a session
 * @path: (type filename): a folder
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when it is on disk
 * @user_data: data for @callback
 *
 * Saves a checkpoint on the thread of the session, see [method@TrainingSession.save_checkpoint].
 */
void
ortrain_training_session_save_checkpoint_async (OrtrainTrainingSession *self, const char *path,
                                                GCancellable *cancellable, GAsyncReadyCallback callback,
                                                gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (path != NULL);

  start (self, &save_checkpoint_call, g_strdup (path), cancellable, callback, user_data,
         ortrain_training_session_save_checkpoint_async);
}

/**
 * ortrain_training_session_save_checkpoint_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.save_checkpoint_async]. It fails as [method@TrainingSession.save_checkpoint] does,
 * or with %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_save_checkpoint_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_save_checkpoint_async), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}

static gpointer
load_checkpoint (OrtrainTrainingSession *self, gpointer path, GCancellable *cancellable, GError **error)
{
  return GINT_TO_POINTER (ortrain_training_session_run_load_checkpoint (self, path, NULL, NULL, error));
}

static const Call load_checkpoint_call = { load_checkpoint, g_free, NULL };

/**
 * ortrain_training_session_load_checkpoint_async:
 * @self: a session
 * @path: (type filename): a folder
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when it is loaded
 * @user_data: data for @callback
 *
 * Resumes from a checkpoint on the thread of the session, see [method@TrainingSession.load_checkpoint].
 */
void
ortrain_training_session_load_checkpoint_async (OrtrainTrainingSession *self, const char *path,
                                                GCancellable *cancellable, GAsyncReadyCallback callback,
                                                gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (path != NULL);

  start (self, &load_checkpoint_call, g_strdup (path), cancellable, callback, user_data,
         ortrain_training_session_load_checkpoint_async);
}

/**
 * ortrain_training_session_load_checkpoint_finish:
 * @self: a session
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@TrainingSession.load_checkpoint_async]. It fails as [method@TrainingSession.load_checkpoint] does,
 * or with %G_IO_ERROR_CANCELLED.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_load_checkpoint_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_load_checkpoint_async), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
