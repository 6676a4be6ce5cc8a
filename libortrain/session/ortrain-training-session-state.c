/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include "core/ortrain-text-private.h"
#include "model/ortrain-model-private.h"

#include <string.h>

static gboolean
copy_into (OrtrainTensorDict *dict, const OrtrainPersistentTensor *stored, gconstpointer address, GError **error)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_stored_copy (stored, address, error);
  if (tensor == NULL)
    return FALSE;
  ortrain_tensor_dict_set (dict, stored->name, tensor);
  return TRUE;
}

/* Losses in float32 alone are scaled. */
static void
unscale (OrtrainTensor *gradient, double scale)
{
  float *numbers = ortrain_tensor_peek_writable (gradient);
  const gint64 n = ortrain_tensor_get_n_elements (gradient);
  for (gint64 i = 0; i < n; i++)
    numbers[i] = (float) (numbers[i] / scale);
}

void
ortrain_training_session_note_scaler (OrtrainTrainingSession *self, const OrtrainScalerState *state)
{
  g_mutex_lock (&self->lock);
  self->loss_scale = state->loss_scale;
  self->n_overflows = (guint64) state->overflows;
  g_mutex_unlock (&self->lock);
}

/**
 * ortrain_training_session_get_loss_scale: (get-property loss-scale)
 * @self: a session
 *
 * Gets the factor of the loss in the next training step. Any thread may call it; it waits as
 * [method@TrainingSession.get_step] does.
 *
 * Returns: the scale; 1 where the loss is not scaled
 */
double
ortrain_training_session_get_loss_scale (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 1);
  ortrain_training_session_try_wait_pending (self);
  g_mutex_lock (&self->lock);
  const double scale = self->loss_scale;
  g_mutex_unlock (&self->lock);
  return scale;
}

/**
 * ortrain_training_session_get_n_overflows: (get-property n-overflows)
 * @self: a session
 *
 * Gets how many updates were left out because scaled gradients were not finite. Any thread may call it; it waits as
 * [method@TrainingSession.get_step] does.
 *
 * Returns: the number of updates
 */
guint64
ortrain_training_session_get_n_overflows (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  ortrain_training_session_try_wait_pending (self);
  g_mutex_lock (&self->lock);
  const guint64 n = self->n_overflows;
  g_mutex_unlock (&self->lock);
  return n;
}

/**
 * ortrain_training_session_get_gradients:
 * @self: a session
 * @error: return location for an error
 *
 * Copies the gradients: the sums over the steps since the last update, or those that the last update used, without the
 * scale of the loss. With [property@TrainingOptions:accumulation-steps], each step counts in a sum by its
 * [method@TrainingSession.get_step_weight], in units of the first one's. Errors are
 * %ORTRAIN_SESSION_ERROR_STATE before the first step, and where [property@TrainingOptions:immediate-updates] keeps
 * none, %ORTRAIN_SESSION_ERROR_BUSY, and those of [error@TensorError].
 *
 * Returns: (transfer full): the gradients by the names of their parameters; %NULL on error
 */
OrtrainTensorDict *
ortrain_training_session_get_gradients (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  if (!ortrain_training_session_enter (self, TRUE, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  gboolean ok = self->has_gradients && !self->graph->immediate;
  if (self->graph->immediate)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "Gradients are not kept with immediate updates; set immediate-updates to off in the options before "
                 "creating the session");
  else if (!ok)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "There are no gradients yet; call train_step first");
  for (guint i = 0; i < self->store->n_parameters && ok; i++)
    {
      const OrtrainPersistentTensor gradient = ortrain_stored_get_gradient (&self->store->parameters[i]);
      ok = copy_into (dict, &gradient, gradient.address, error);
      if (ok && self->gradient_scale != 1)
        unscale (ortrain_tensor_dict_get (dict, gradient.name), self->gradient_scale);
    }
  ortrain_training_session_leave (self);
  return ok ? g_steal_pointer (&dict) : NULL;
}

static OrtrainTensorDict *
get_tensors (OrtrainTrainingSession *self, gboolean with_buffers, GError **error)
{
  if (!ortrain_training_session_enter (self, TRUE, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  gboolean ok = ortrain_training_session_take_memory (self, error);
  for (guint i = 0; i < self->store->n_parameters && ok; i++)
    ok = copy_into (dict, &self->store->parameters[i], self->store->parameters[i].address, error);
  for (guint i = 0; with_buffers && i < self->store->n_buffers && ok; i++)
    ok = copy_into (dict, &self->store->buffers[i], self->store->buffers[i].address, error);
  ortrain_training_session_leave (self);
  return ok ? g_steal_pointer (&dict) : NULL;
}

/**
 * ortrain_training_session_get_parameters:
 * @self: a session
 * @error: return location for an error
 *
 * Copies the trained parameters. Errors are %ORTRAIN_SESSION_ERROR_BUSY, and those of [error@TensorError] and
 * [error@DeviceError].
 *
 * Returns: (transfer full): the parameters by the names of their initializers; %NULL on error
 */
OrtrainTensorDict *
ortrain_training_session_get_parameters (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  return get_tensors (self, FALSE, error);
}

/**
 * ortrain_training_session_get_state:
 * @self: a session
 * @error: return location for an error
 *
 * Copies the trained parameters and the buffers, such as running statistics. It fails as
 * [method@TrainingSession.get_parameters] does.
 *
 * Returns: (transfer full): the tensors by the names of their initializers; %NULL on error
 */
OrtrainTensorDict *
ortrain_training_session_get_state (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  return get_tensors (self, TRUE, error);
}

/**
 * ortrain_training_session_set_parameters:
 * @self: a session
 * @parameters: parameters or buffers by the names of their initializers; those that are left out keep their contents
 * @error: return location for an error
 *
 * Sets parameters and buffers, and values computed from them, such as 16-bit copies. All are checked and read before
 * one is changed, so that nothing is changed if one of them does not fit or cannot be read; tensors that are mapped
 * from a file, or on another device, are in the memory of the host meanwhile.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_FEED for unknown names and for other types or shapes, %ORTRAIN_SESSION_ERROR_BUSY,
 * and those of [error@TensorError] and [error@DeviceError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_set_parameters (OrtrainTrainingSession *self, OrtrainTensorDict *parameters, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (parameters), FALSE);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return FALSE;
  gboolean ok = ortrain_training_session_take_memory (self, error) &&
                ortrain_parameter_store_set (self->store, parameters, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_set_state:
 * @self: a session
 * @state: parameters and buffers by the names of their initializers; those that are left out keep their contents
 * @error: return location for an error
 *
 * Sets parameters and buffers. It fails as [method@TrainingSession.set_parameters] does.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_set_state (OrtrainTrainingSession *self, OrtrainTensorDict *state, GError **error)
{
  return ortrain_training_session_set_parameters (self, state, error);
}

/* [rows, columns] → [columns, rows] */
static OrtrainTensor *
transpose (const OrtrainPersistentTensor *stored, GError **error)
{
  const gint64 rows = stored->dims[0], columns = stored->dims[1], dims[] = { columns, rows };
  const gsize size = ortrain_dtype_get_size (stored->dtype);
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (stored->dtype, dims, 2, error);
  if (tensor == NULL)
    {
      g_prefix_error (error, "Transposing '%s': ", ortrain_text_show (stored->name));
      return NULL;
    }
  g_autofree gpointer copy = NULL;
  const guint8 *source =
      ortrain_device_context_view (stored->device_context, stored->address, stored->bytes, &copy, error);
  guint8 *destination = ortrain_tensor_peek_writable (tensor);
  if (source == NULL && stored->bytes > 0)
    {
      g_object_unref (tensor);
      return NULL;
    }
  for (gint64 i = 0; i < rows; i++)
    for (gint64 j = 0; j < columns; j++)
      memcpy (destination + (gsize) (j * rows + i) * size, source + (gsize) (i * columns + j) * size, size);
  return tensor;
}

gboolean
ortrain_training_session_run_export (OrtrainTrainingSession *self, const char *path, GError **error)
{
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  if (self->store->block == NULL) /* the model's own contents are right */
    return ortrain_model_export (self->model, path, tensors, error);
  OrtrainPersistentTensor *const lists[] = { self->store->parameters, self->store->buffers };
  const guint lengths[] = { self->store->n_parameters, self->store->n_buffers };
  for (guint l = 0; l < 2; l++)
    for (guint i = 0; i < lengths[l]; i++)
      {
        OrtrainTensor *tensor = ortrain_stored_peek (&lists[l][i], lists[l][i].address, error);
        if (tensor == NULL)
          return FALSE;
        g_hash_table_insert (tensors, (gpointer) lists[l][i].name, tensor);
      }
  for (guint i = 0; i < self->graph->ties->len; i++)
    {
      const OrtrainTrainingTie *tie = &g_array_index (self->graph->ties, OrtrainTrainingTie, i);
      OrtrainPersistentTensor *first = ortrain_parameter_store_find (self->store, tie->first);
      if (first == NULL)
        continue; /* not trained: the file's own contents are right */
      OrtrainTensor *tensor =
          tie->transposed ? transpose (first, error) : ortrain_stored_peek (first, first->address, error);
      if (tensor == NULL)
        return FALSE;
      g_hash_table_insert (tensors, tie->second, tensor);
    }
  return ortrain_model_export (self->model, path, tensors, error);
}

/**
 * ortrain_training_session_export:
 * @self: a session
 * @path: (type filename): the file to write
 * @error: return location for an error
 *
 * Writes the model as it was read, with the weights as they are now: names, operator set and structure stay. An
 * existing file is replaced only when the new one is complete on disk. Errors are those of [error@ModelError],
 * %ORTRAIN_TENSOR_ERROR_CHANGED for a file of the model that was changed, and %ORTRAIN_SESSION_ERROR_BUSY.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_export (OrtrainTrainingSession *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  if (!ortrain_training_session_enter (self, TRUE, error))
    return FALSE;
  gboolean ok = ortrain_training_session_run_export (self, path, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_get_n_parameters:
 * @self: a session
 *
 * Counts the elements of the tensors that are trained; those of tied tensors once.
 *
 * Returns: their number; 0 if the session was not created by its constructor
 */
guint64
ortrain_training_session_get_n_parameters (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  guint64 n = 0;
  for (guint i = 0; self->store != NULL && i < self->store->n_parameters; i++)
    n += (guint64) self->store->parameters[i].n_elements;
  return n;
}
