/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include "checkpoint/ortrain-checkpoint.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>
#include <string.h>

/* What a checkpoint of a session holds: the sections "parameters", "buffers" and one for each state of the optimizer
 * ("optimizer.exp_avg"), and the values below. Gradients that wait for an update are not kept: a checkpoint is taken
 * between updates, and the steps since the last one are run again. */
#define FORMAT 1u
#define KEY_FORMAT "ortrain-session"
#define KEY_OPTIMIZER "optimizer"
#define KEY_UPDATES "updates"
#define KEY_TRAIN_STEPS "train-steps"
#define KEY_SEED "seed"
#define KEY_SCHEDULE "schedule"
#define KEY_METADATA "metadata"
#define KEY_MODEL_PATH "model-path"
#define KEY_TIES "ties"
#define KEY_LOSS_SCALE "loss-scale"
#define KEY_TOLERATED "loss-scale-tolerated"

/* state -1: the contents. What they are like in the session. */
static OrtrainPersistentTensor
view_stored (OrtrainTrainingSession *self, const OrtrainPersistentTensor *list, guint i, gint state)
{
  OrtrainPersistentTensor stored = list[i];
  if (state < 0)
    return stored;
  const OrtrainStateForm *form = ortrain_update_set_get_state_form (self->store->updates, i);
  stored.address = stored.states[state];
  stored.dtype = form->dtype;
  stored.dims = (gint64 *) form->dims; /* read */
  stored.rank = form->rank;
  return stored;
}

static OrtrainTensorDict *
peek_section (OrtrainTrainingSession *self, const OrtrainPersistentTensor *list, guint n, gint state, GError **error)
{
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  for (guint i = 0; i < n; i++)
    {
      const OrtrainPersistentTensor stored = view_stored (self, list, i, state);
      g_autoptr (OrtrainTensor) tensor = ortrain_stored_peek (&stored, stored.address, error);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (dict, stored.name, tensor);
    }
  return g_steal_pointer (&dict);
}

static char *
state_section (OrtrainTrainingSession *self, guint state)
{
  return g_strconcat ("optimizer.", ortrain_update_set_get_state_name (self->store->updates, state), NULL);
}

static OrtrainCheckpoint *
make_checkpoint (OrtrainTrainingSession *self, GError **error)
{
  OrtrainParameterStore *store = self->store;
  if (!ortrain_training_session_take_memory (self, error))
    return NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_new ();
  g_autoptr (OrtrainTensorDict) parameters = peek_section (self, store->parameters, store->n_parameters, -1, error);
  g_autoptr (OrtrainTensorDict) buffers =
      parameters != NULL ? peek_section (self, store->buffers, store->n_buffers, -1, error) : NULL;
  if (buffers == NULL)
    return NULL;
  ortrain_checkpoint_set_tensors (checkpoint, "parameters", parameters);
  ortrain_checkpoint_set_tensors (checkpoint, "buffers", buffers);
  for (guint k = 0; k < ortrain_update_set_get_n_states (store->updates); k++)
    {
      g_autoptr (OrtrainTensorDict) states =
          peek_section (self, store->parameters, store->n_parameters, (gint) k, error);
      g_autofree char *section = state_section (self, k);
      if (states == NULL)
        return NULL;
      ortrain_checkpoint_set_tensors (checkpoint, section, states);
    }
  ortrain_checkpoint_set_value (checkpoint, KEY_FORMAT, g_variant_new_uint32 (FORMAT));
  ortrain_checkpoint_set_value (
      checkpoint, KEY_OPTIMIZER,
      g_variant_new_string (G_OBJECT_TYPE_NAME (ortrain_update_set_get_optimizer (store->updates))));
  ortrain_checkpoint_set_value (checkpoint, KEY_UPDATES, g_variant_new_uint64 (self->n_updates));
  ortrain_checkpoint_set_value (checkpoint, KEY_TRAIN_STEPS, g_variant_new_uint64 (self->n_train_steps));
  ortrain_checkpoint_set_value (checkpoint, KEY_SEED, g_variant_new_uint64 (self->seed));
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  g_autoptr (GVariant) state = schedule != NULL ? ortrain_lr_schedule_save_state (schedule) : NULL;
  if (state != NULL)
    ortrain_checkpoint_set_value (checkpoint, KEY_SCHEDULE, state);

  OrtrainScalerState scaler;
  if (store->overflows_name != NULL)
    {
      if (!ortrain_parameter_store_read_scaler (store, &scaler, error))
        return NULL;
      ortrain_checkpoint_set_value (
          checkpoint, KEY_LOSS_SCALE,
          g_variant_new ("(dxx)", (double) scaler.loss_scale, scaler.good_steps, scaler.overflows));
      if (store->tolerated_name != NULL)
        ortrain_checkpoint_set_value (checkpoint, KEY_TOLERATED, g_variant_new_uint64 ((guint64) scaler.tolerated));
    }

  GVariantBuilder ties;
  g_variant_builder_init (&ties, G_VARIANT_TYPE ("a(ssb)"));
  for (guint i = 0; i < self->graph->ties->len; i++)
    {
      const OrtrainTrainingTie *tie = &g_array_index (self->graph->ties, OrtrainTrainingTie, i);
      g_variant_builder_add (&ties, "(ssb)", tie->first, tie->second, tie->transposed);
    }
  ortrain_checkpoint_set_value (checkpoint, KEY_TIES, g_variant_builder_end (&ties));

  if (ortrain_model_get_path (self->model) != NULL)
    ortrain_checkpoint_set_value (checkpoint, KEY_MODEL_PATH,
                                  g_variant_new_bytestring (ortrain_model_get_path (self->model)));
  GVariantBuilder builder;
  GHashTableIter iter;
  gpointer key, value;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->metadata);
  while (g_hash_table_iter_next (&iter, &key, &value))
    g_variant_builder_add (&builder, "{ss}", key, value);
  g_mutex_unlock (&self->lock);
  ortrain_checkpoint_set_value (checkpoint, KEY_METADATA, g_variant_builder_end (&builder));
  return g_steal_pointer (&checkpoint);
}

gboolean
ortrain_training_session_run_save_checkpoint (OrtrainTrainingSession *self, const char *path, GCancellable *cancellable,
                                              GError **error)
{
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  if (self->graph->immediate && self->n_accumulated > 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "Cannot save a checkpoint between train_step and optimizer_step with immediate-updates; call "
                   "optimizer_step first");
      return FALSE;
    }
  g_autoptr (OrtrainCheckpoint) checkpoint = make_checkpoint (self, error);
  if (checkpoint == NULL)
    return FALSE;
  /* so that a checkpoint can be exported as a model without the file it came from */
  g_autoptr (GBytes) model = ortrain_model_to_bytes (self->model, error);
  if (model == NULL)
    return FALSE;
  ortrain_checkpoint_set_file (checkpoint, "model.onnx", model);
  return ortrain_checkpoint_save (checkpoint, path, cancellable, error);
}

/* ---- loading: all is checked before anything is changed ---- */

static gboolean
check_section (OrtrainTrainingSession *self, OrtrainCheckpoint *checkpoint, const char *section,
               const OrtrainPersistentTensor *list, guint n, gint state, GError **error)
{
  OrtrainTensorDict *dict = ortrain_checkpoint_get_tensors (checkpoint, section);
  guint size = dict != NULL ? ortrain_tensor_dict_get_size (dict) : 0;
  if (size != n)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                   "Section '%s' of the checkpoint has %u tensors, the session has %u", ortrain_text_show (section),
                   size, n);
      return FALSE;
    }
  for (guint i = 0; i < n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (dict, list[i].name);
      if (tensor == NULL)
        {
          g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                       "Section '%s' of the checkpoint has no '%s'", ortrain_text_show (section),
                       ortrain_text_show (list[i].name));
          return FALSE;
        }
      const OrtrainPersistentTensor stored = view_stored (self, list, i, state);
      const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
      if (dtype != stored.dtype || ortrain_tensor_get_rank (tensor) != stored.rank ||
          (stored.rank > 0 &&
           memcmp (ortrain_tensor_peek_dims (tensor), stored.dims, stored.rank * sizeof (gint64)) != 0))
        {
          g_autofree char *want = ortrain_shape_to_string (stored.dims, stored.rank);
          const char *hint = state < 0 || dtype == stored.dtype    ? ""
                             : stored.dtype == ORTRAIN_DTYPE_UINT8 ? "; create the session with state-precision f32"
                             : dtype == ORTRAIN_DTYPE_UINT8        ? "; create the session with state-precision int8"
                                                                   : "";
          g_autofree char *have =
              ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
          g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                       "Tensor '%s' in section '%s' of the checkpoint is %s %s, in the session it is %s %s%s",
                       ortrain_text_show (list[i].name), ortrain_text_show (section), ortrain_dtype_get_name (dtype),
                       have, ortrain_dtype_get_name (stored.dtype), want, hint);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
load_section (OrtrainCheckpoint *checkpoint, const char *section, const OrtrainPersistentTensor *list, guint n,
              gint state, GError **error)
{
  OrtrainTensorDict *dict = ortrain_checkpoint_get_tensors (checkpoint, section);
  for (guint i = 0; i < n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (dict, list[i].name);
      if (!ortrain_device_context_write (list[i].device_context, state < 0 ? list[i].address : list[i].states[state],
                                         ortrain_tensor_peek (tensor), ortrain_tensor_get_n_bytes (tensor), error) ||
          !ortrain_device_context_wait (list[i].device_context, NULL, error) ||
          !ortrain_tensor_check_file (tensor, error))
        {
          g_prefix_error (error, "Section '%s' was loaded only in part: ", ortrain_text_show (section));
          return FALSE;
        }
    }
  return TRUE;
}

/* Counts of steps; doubles, which schedules compute with, are exact up to here. */
#define MAX_COUNT ((guint64) 1 << 53)

static gboolean
get_uint64 (OrtrainCheckpoint *checkpoint, const char *key, guint64 most, guint64 *value, GError **error)
{
  GVariant *variant = ortrain_checkpoint_get_value (checkpoint, key);
  gboolean right = FALSE;
  if (variant != NULL && g_variant_is_of_type (variant, G_VARIANT_TYPE_UINT64))
    {
      *value = g_variant_get_uint64 (variant);
      right = *value <= most;
    }
  else if (variant != NULL && g_variant_is_of_type (variant, G_VARIANT_TYPE_INT64))
    {
      *value = (guint64) g_variant_get_int64 (variant);
      right = g_variant_get_int64 (variant) >= 0 && *value <= most;
    }
  if (right)
    return TRUE;
  g_autofree char *text = variant != NULL ? g_variant_print (variant, FALSE) : g_strdup ("missing");
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "Checkpoint value '%s' is %s, not an integer from 0 to %" G_GUINT64_FORMAT, ortrain_text_show (key),
               ortrain_text_show (text), most);
  return FALSE;
}

/* Older checkpoints, and those of sessions that do not scale the loss, have none: the scale stays as it is. */
static gboolean
get_scaler (OrtrainCheckpoint *checkpoint, OrtrainScalerState *state, gboolean *found, GError **error)
{
  GVariant *variant = ortrain_checkpoint_get_value (checkpoint, KEY_LOSS_SCALE);
  double scale = 0;
  *found = variant != NULL;
  if (variant == NULL)
    return TRUE;
  if (g_variant_is_of_type (variant, G_VARIANT_TYPE ("(dxx)")))
    g_variant_get (variant, "(dxx)", &scale, &state->good_steps, &state->overflows);
  state->loss_scale = (float) scale;
  guint64 tolerated = 0;
  if (ortrain_checkpoint_get_value (checkpoint, KEY_TOLERATED) != NULL &&
      !get_uint64 (checkpoint, KEY_TOLERATED, MAX_COUNT, &tolerated, error))
    return FALSE;
  state->tolerated = (gint64) tolerated;
  if (isfinite (state->loss_scale) && state->loss_scale > 0 && state->good_steps >= 0 && state->overflows >= 0)
    return TRUE;
  g_autofree char *text = g_variant_print (variant, FALSE);
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "Checkpoint value '" KEY_LOSS_SCALE "' is %s, not a scale and two counts", ortrain_text_show (text));
  return FALSE;
}

gboolean
ortrain_training_session_run_load_checkpoint (OrtrainTrainingSession *self, const char *path,
                                              OrtrainMetadataCheck check, gpointer data, GError **error)
{
  OrtrainParameterStore *store = self->store;
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (path, error);
  if (checkpoint == NULL)
    return FALSE;
  GVariant *format = ortrain_checkpoint_get_value (checkpoint, KEY_FORMAT);
  if (format == NULL)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                   "'%s' is not a checkpoint of a training session", ortrain_text_show_path (path));
      return FALSE;
    }
  if (!g_variant_is_of_type (format, G_VARIANT_TYPE_UINT32) || g_variant_get_uint32 (format) > FORMAT)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_VERSION,
                   "'%s' was written by a newer version of the library; update the library",
                   ortrain_text_show_path (path));
      return FALSE;
    }
  guint64 updates, train_steps, seed;
  if (!get_uint64 (checkpoint, KEY_UPDATES, MAX_COUNT, &updates, error) ||
      !get_uint64 (checkpoint, KEY_TRAIN_STEPS, MAX_COUNT, &train_steps, error) ||
      !get_uint64 (checkpoint, KEY_SEED, G_MAXUINT64, &seed, error) ||
      !check_section (self, checkpoint, "parameters", store->parameters, store->n_parameters, -1, error) ||
      !check_section (self, checkpoint, "buffers", store->buffers, store->n_buffers, -1, error))
    return FALSE;
  GVariant *optimizer = ortrain_checkpoint_get_value (checkpoint, KEY_OPTIMIZER);
  const char *have = optimizer != NULL && g_variant_is_of_type (optimizer, G_VARIANT_TYPE_STRING)
                         ? g_variant_get_string (optimizer, NULL)
                         : "";
  const char *want = G_OBJECT_TYPE_NAME (ortrain_update_set_get_optimizer (store->updates));
  if (!g_str_equal (have, want))
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                   "The checkpoint has the state of %s, but the session trains with %s",
                   ortrain_text_show (ortrain_text_name_type (have)), ortrain_text_name_type (want));
      return FALSE;
    }
  guint n_states = ortrain_update_set_get_n_states (store->updates);
  for (guint k = 0; k < n_states; k++)
    {
      g_autofree char *section = state_section (self, k);
      if (!check_section (self, checkpoint, section, store->parameters, store->n_parameters, (gint) k, error))
        return FALSE;
    }
  GVariant *metadata = ortrain_checkpoint_get_value (checkpoint, KEY_METADATA);
  if (metadata != NULL && !g_variant_is_of_type (metadata, G_VARIANT_TYPE ("a{ss}")))
    {
      g_autofree char *text = g_variant_print (metadata, FALSE);
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                   "Checkpoint value '" KEY_METADATA "' is %s, not a list of strings", ortrain_text_show (text));
      return FALSE;
    }
  OrtrainScalerState scaler = { 0 };
  gboolean has_scaler;
  if (!get_scaler (checkpoint, &scaler, &has_scaler, error))
    return FALSE;
  if (check != NULL && !check (metadata, data, error))
    return FALSE;
  if (!ortrain_training_session_take_memory (self, error))
    return FALSE;
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  GVariant *state = ortrain_checkpoint_get_value (checkpoint, KEY_SCHEDULE);
  g_autoptr (GVariant) before = state != NULL && schedule != NULL ? ortrain_lr_schedule_save_state (schedule) : NULL;
  if (state != NULL && schedule != NULL && !ortrain_lr_schedule_load_state (schedule, state))
    {
      g_autofree char *text = g_variant_print (state, FALSE);
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                   "Checkpoint value '" KEY_SCHEDULE "' is %s, which is not a state of %s", ortrain_text_show (text),
                   ortrain_text_name_class (schedule));
      return FALSE;
    }

  gboolean loaded = load_section (checkpoint, "parameters", store->parameters, store->n_parameters, -1, error) &&
                    load_section (checkpoint, "buffers", store->buffers, store->n_buffers, -1, error);
  for (guint k = 0; k < n_states && loaded; k++)
    {
      g_autofree char *section = state_section (self, k);
      loaded = load_section (checkpoint, section, store->parameters, store->n_parameters, (gint) k, error);
    }
  /* operators read the copies: these are updated from the loaded part, even after an error */
  if (!ortrain_parameter_store_refresh_copies (store, loaded ? error : NULL) || !loaded)
    {
      if (before != NULL)
        ortrain_lr_schedule_load_state (schedule, before);
      return FALSE;
    }
  if (has_scaler && store->overflows_name != NULL)
    {
      if (!ortrain_parameter_store_write_scaler (store, &scaler, error))
        return FALSE;
      ortrain_training_session_note_scaler (self, &scaler);
    }
  g_mutex_lock (&self->lock);
  self->n_updates = updates;
  self->n_train_steps = train_steps;
  self->seed = seed;
  self->n_accumulated = 0;
  self->has_gradients = FALSE;
  g_hash_table_remove_all (self->metadata);
  if (metadata != NULL)
    {
      GVariantIter iter;
      char *key, *value;
      g_variant_iter_init (&iter, metadata);
      while (g_variant_iter_next (&iter, "{ss}", &key, &value))
        g_hash_table_insert (self->metadata, key, value);
    }
  g_mutex_unlock (&self->lock);
  return TRUE;
}

/**
 * ortrain_training_session_save_checkpoint:
 * @self: a session
 * @path: (type filename): a folder, created if it does not exist
 * @error: return location for an error
 *
 * Saves everything that training needs to be resumed: parameters, buffers, the state of the optimizer, the counts of
 * steps, the seed, the state of the schedule, the model, and the metadata. If the process dies meanwhile, the previous
 * checkpoint is still complete. Gradients that wait for an update are not saved.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_STATE between the two halves of a step with
 * [property@TrainingOptions:immediate-updates], %ORTRAIN_SESSION_ERROR_BUSY, and those of [method@Checkpoint.save]:
 * [error@CheckpointError], [error@TensorError] and [error@Gio.IOErrorEnum].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_save_checkpoint (OrtrainTrainingSession *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  if (!ortrain_training_session_enter (self, TRUE, error))
    return FALSE;
  gboolean ok = ortrain_training_session_run_save_checkpoint (self, path, NULL, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_load_checkpoint:
 * @self: a session, created from the same model with the same choice of parameters and the same kind of optimizer
 * @path: (type filename): a folder
 * @error: return location for an error
 *
 * Resumes from a checkpoint: what follows has the same bits as if training had never stopped. If the checkpoint does
 * not fit, nothing is changed.
 *
 * Errors are %ORTRAIN_CHECKPOINT_ERROR_MISMATCH for a checkpoint of another model, choice of parameters or optimizer,
 * those of [func@Checkpoint.load], and %ORTRAIN_SESSION_ERROR_BUSY.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_load_checkpoint (OrtrainTrainingSession *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return FALSE;
  gboolean ok = ortrain_training_session_run_load_checkpoint (self, path, NULL, NULL, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_set_metadata:
 * @self: a session
 * @key: a name
 * @value: (nullable): a text; %NULL to remove the entry
 *
 * Keeps a text with the session and in its checkpoints, such as the position in the data.
 */
void
ortrain_training_session_set_metadata (OrtrainTrainingSession *self, const char *key, const char *value)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_SESSION (self));
  g_return_if_fail (key != NULL);

  g_mutex_lock (&self->lock);
  if (value != NULL)
    g_hash_table_insert (self->metadata, g_strdup (key), g_strdup (value));
  else
    g_hash_table_remove (self->metadata, key);
  g_mutex_unlock (&self->lock);
}

/**
 * ortrain_training_session_get_metadata:
 * @self: a session
 * @key: a name
 *
 * Gets a text that was set, or that came with a checkpoint.
 *
 * Returns: (transfer none) (nullable): the text, owned by the session; %NULL if there is none
 */
const char *
ortrain_training_session_get_metadata (OrtrainTrainingSession *self, const char *key)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (key != NULL, NULL);

  g_mutex_lock (&self->lock);
  const char *text = g_hash_table_lookup (self->metadata, key), *kept = NULL;
  if (text != NULL && (kept = g_hash_table_lookup (self->texts, text)) == NULL)
    {
      kept = g_strdup (text);
      g_hash_table_insert (self->texts, (char *) kept, (char *) kept);
    }
  g_mutex_unlock (&self->lock);
  return kept;
}
