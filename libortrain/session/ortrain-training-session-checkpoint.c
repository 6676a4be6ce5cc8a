/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include "checkpoint/ortrain-checkpoint.h"
#include "core/ortrain-log-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "core/ortrain-trace-private.h"

#include <math.h>
#include <string.h>

/* The contents of a session's checkpoint: sections of tensors (list_sections) and values (the table `entries`).
 * Gradients that wait for an update are not kept: a checkpoint is taken between updates, and the steps since the last
 * one are run again.
 *
 * Loading checks all of it before it changes anything; then it applies sections and values, which fail only where a
 * device or a file does. */
#define FORMAT 1u

/* ---- sections ---- */

/* Tensors of the session under one name: the contents of a list, or a state of each of them. */
typedef struct
{
  char *name;
  const OrtrainPersistentTensor *list; /* [n] */
  guint n;
  gint state; /* of the optimizer; -1: the contents */
} Section;

static void
section_free (gpointer data)
{
  Section *section = data;
  g_free (section->name);
  g_free (section);
}

static void
add_section (GPtrArray *sections, const char *name, const OrtrainPersistentTensor *list, guint n, gint state)
{
  Section *section = g_new (Section, 1);
  *section = (Section){ g_strdup (name), list, n, state };
  g_ptr_array_add (sections, section);
}

static GPtrArray *
list_sections (OrtrainTrainingSession *self)
{
  const OrtrainParameterStore *store = self->store;
  GPtrArray *sections = g_ptr_array_new_with_free_func (section_free);
  add_section (sections, "parameters", store->parameters, store->n_parameters, -1);
  add_section (sections, "buffers", store->buffers, store->n_buffers, -1);
  for (guint k = 0; k < ortrain_update_set_get_n_states (store->updates); k++)
    {
      g_autofree char *name = g_strconcat ("optimizer.", ortrain_update_set_get_state_name (store->updates, k), NULL);
      add_section (sections, name, store->parameters, store->n_parameters, (gint) k);
    }
  return sections;
}

/* Address and form of tensor `i` of a section in the session. */
static OrtrainPersistentTensor
view_stored (OrtrainTrainingSession *self, const Section *section, guint i)
{
  OrtrainPersistentTensor stored = section->list[i];
  if (section->state < 0)
    return stored;
  const OrtrainStateForm *form = ortrain_update_set_get_state_form (self->store->updates, i);
  stored.address = stored.states[section->state];
  stored.dtype = form->dtype;
  stored.dims = (gint64 *) form->dims; /* read */
  stored.rank = form->rank;
  return stored;
}

static OrtrainTensorDict *
peek_section (OrtrainTrainingSession *self, const Section *section, GError **error)
{
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  for (guint i = 0; i < section->n; i++)
    {
      const OrtrainPersistentTensor stored = view_stored (self, section, i);
      g_autoptr (OrtrainTensor) tensor = ortrain_stored_peek (&stored, stored.address, error);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (dict, stored.name, tensor);
    }
  return g_steal_pointer (&dict);
}

static gboolean
check_section (OrtrainTrainingSession *self, OrtrainCheckpoint *checkpoint, const Section *section, GError **error)
{
  OrtrainTensorDict *dict = ortrain_checkpoint_get_tensors (checkpoint, section->name);
  guint size = dict != NULL ? ortrain_tensor_dict_get_size (dict) : 0;
  if (size != section->n)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                   "Section '%s' of the checkpoint has %u tensors, the session has %u",
                   ortrain_text_show (section->name), size, section->n);
      return FALSE;
    }
  for (guint i = 0; i < section->n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (dict, section->list[i].name);
      if (tensor == NULL)
        {
          g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                       "Section '%s' of the checkpoint has no '%s'", ortrain_text_show (section->name),
                       ortrain_text_show (section->list[i].name));
          return FALSE;
        }
      const OrtrainPersistentTensor stored = view_stored (self, section, i);
      const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
      if (dtype != stored.dtype || ortrain_tensor_get_rank (tensor) != stored.rank ||
          (stored.rank > 0 &&
           memcmp (ortrain_tensor_peek_dims (tensor), stored.dims, stored.rank * sizeof (gint64)) != 0))
        {
          g_autofree char *want = ortrain_shape_to_string (stored.dims, stored.rank);
          const char *hint = section->state < 0 || dtype == stored.dtype ? ""
                             : stored.dtype == ORTRAIN_DTYPE_UINT8 ? "; create the session with state-precision f32"
                             : dtype == ORTRAIN_DTYPE_UINT8        ? "; create the session with state-precision int8"
                                                                   : "";
          g_autofree char *have =
              ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
          g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                       "Tensor '%s' in section '%s' of the checkpoint is %s %s, in the session it is %s %s%s",
                       ortrain_text_show (section->list[i].name), ortrain_text_show (section->name),
                       ortrain_dtype_get_name (dtype), have, ortrain_dtype_get_name (stored.dtype), want, hint);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
apply_section (OrtrainTrainingSession *self, OrtrainCheckpoint *checkpoint, const Section *section, GError **error)
{
  OrtrainTensorDict *dict = ortrain_checkpoint_get_tensors (checkpoint, section->name);
  for (guint i = 0; i < section->n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (dict, section->list[i].name);
      const OrtrainPersistentTensor stored = view_stored (self, section, i);
      if (!ortrain_device_context_write (stored.device_context, stored.address, ortrain_tensor_peek (tensor),
                                         ortrain_tensor_get_n_bytes (tensor), error) ||
          !ortrain_device_context_wait (stored.device_context, NULL, error) ||
          !ortrain_tensor_check_file (tensor, error))
        {
          g_prefix_error (error, "Section '%s' was loaded only in part: ", ortrain_text_show (section->name));
          return FALSE;
        }
    }
  return TRUE;
}

/* ---- values ---- */

/* The values of a checkpoint that were checked, and are applied next. */
typedef struct
{
  const char *path;
  guint64 n_updates, n_train_steps, seed;
  gboolean has_scaler;
  OrtrainScalerState scaler;
  GVariant *schedule, *metadata; /* of the checkpoint; NULL: none */
} Loaded;

typedef struct
{
  const char *key;
  /* NULL without an error: the session has no such value. Transfer full, also where it is floating. */
  GVariant *(*save) (OrtrainTrainingSession *self, GError **error);
  /* value: NULL, the checkpoint has none; NULL: it is for those who read the file */
  gboolean (*check) (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error);
} Entry;

/* Counts of steps; doubles, which schedules compute with, are exact up to here. */
#define MAX_COUNT ((guint64) 1 << 53)

static gboolean
get_uint64 (GVariant *variant, const char *key, guint64 most, guint64 *value, GError **error)
{
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

static gboolean
refuse_value (const char *key, GVariant *value, const char *what, GError **error)
{
  g_autofree char *text = g_variant_print (value, FALSE);
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "Checkpoint value '%s' is %s, not %s",
               ortrain_text_show (key), ortrain_text_show (text), what);
  return FALSE;
}

static GVariant *
save_format (OrtrainTrainingSession *self, GError **error)
{
  return g_variant_new_uint32 (FORMAT);
}

static gboolean
check_format (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  if (value == NULL)
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
                 "'%s' is not a checkpoint of a training session", ortrain_text_show_path (loaded->path));
  else if (!g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32) || g_variant_get_uint32 (value) > FORMAT)
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_VERSION,
                 "'%s' was written by a newer version of the library; update the library",
                 ortrain_text_show_path (loaded->path));
  else
    return TRUE;
  return FALSE;
}

static const char *
get_optimizer_name (OrtrainTrainingSession *self)
{
  return G_OBJECT_TYPE_NAME (ortrain_update_set_get_optimizer (self->store->updates));
}

static GVariant *
save_optimizer (OrtrainTrainingSession *self, GError **error)
{
  return g_variant_new_string (get_optimizer_name (self));
}

static gboolean
check_optimizer (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  const char *have =
      value != NULL && g_variant_is_of_type (value, G_VARIANT_TYPE_STRING) ? g_variant_get_string (value, NULL) : "";
  const char *want = get_optimizer_name (self);
  if (g_str_equal (have, want))
    return TRUE;
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
               "The checkpoint has the state of %s, but the session trains with %s",
               ortrain_text_show (ortrain_text_name_type (have)), ortrain_text_name_type (want));
  return FALSE;
}

static GVariant *
save_updates (OrtrainTrainingSession *self, GError **error)
{
  return g_variant_new_uint64 (self->n_updates);
}

static gboolean
check_updates (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  return get_uint64 (value, key, MAX_COUNT, &loaded->n_updates, error);
}

static GVariant *
save_train_steps (OrtrainTrainingSession *self, GError **error)
{
  return g_variant_new_uint64 (self->n_train_steps);
}

static gboolean
check_train_steps (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  return get_uint64 (value, key, MAX_COUNT, &loaded->n_train_steps, error);
}

static GVariant *
save_seed (OrtrainTrainingSession *self, GError **error)
{
  return g_variant_new_uint64 (self->seed);
}

static gboolean
check_seed (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  return get_uint64 (value, key, G_MAXUINT64, &loaded->seed, error);
}

static GVariant *
save_schedule (OrtrainTrainingSession *self, GError **error)
{
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  return schedule != NULL ? ortrain_lr_schedule_save_state (schedule) : NULL;
}

/* A schedule says whether it takes a state by taking it: it gets its own back at once. */
static gboolean
check_schedule (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  loaded->schedule = schedule != NULL ? value : NULL;
  if (loaded->schedule == NULL)
    return TRUE;
  g_autoptr (GVariant) before = ortrain_lr_schedule_save_state (schedule);
  const gboolean ok = ortrain_lr_schedule_load_state (schedule, value);
  if (before != NULL)
    ortrain_lr_schedule_load_state (schedule, before);
  if (ok)
    return TRUE;
  g_autofree char *text = g_variant_print (value, FALSE);
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH,
               "Checkpoint value '%s' is %s, which is not a state of %s", key, ortrain_text_show (text),
               ortrain_text_name_class (schedule));
  return FALSE;
}

static GVariant *
save_loss_scale (OrtrainTrainingSession *self, GError **error)
{
  OrtrainScalerState scaler;
  if (self->store->overflows_name == NULL || !ortrain_parameter_store_read_scaler (self->store, &scaler, error))
    return NULL;
  return g_variant_new ("(dxx)", (double) scaler.loss_scale, scaler.good_steps, scaler.overflows);
}

/* Older checkpoints, and those of sessions that do not scale the loss, have none: the scale stays as it is. */
static gboolean
check_loss_scale (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  OrtrainScalerState *state = &loaded->scaler;
  double scale = 0;
  loaded->has_scaler = value != NULL && self->store->overflows_name != NULL;
  if (value == NULL)
    return TRUE;
  if (g_variant_is_of_type (value, G_VARIANT_TYPE ("(dxx)")))
    g_variant_get (value, "(dxx)", &scale, &state->good_steps, &state->overflows);
  state->loss_scale = (float) scale;
  if (isfinite (state->loss_scale) && state->loss_scale > 0 && state->good_steps >= 0 && state->overflows >= 0)
    return TRUE;
  return refuse_value (key, value, "a scale and two counts", error);
}

static GVariant *
save_tolerated (OrtrainTrainingSession *self, GError **error)
{
  OrtrainScalerState scaler;
  if (self->store->tolerated_name == NULL || !ortrain_parameter_store_read_scaler (self->store, &scaler, error))
    return NULL;
  return g_variant_new_uint64 ((guint64) scaler.tolerated);
}

static gboolean
check_tolerated (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  guint64 tolerated = 0;
  if (value != NULL && !get_uint64 (value, key, MAX_COUNT, &tolerated, error))
    return FALSE;
  loaded->scaler.tolerated = (gint64) tolerated;
  return TRUE;
}

static GVariant *
save_ties (OrtrainTrainingSession *self, GError **error)
{
  GVariantBuilder ties;
  g_variant_builder_init (&ties, G_VARIANT_TYPE ("a(ssb)"));
  for (guint i = 0; i < self->graph->ties->len; i++)
    {
      const OrtrainTrainingTie *tie = &g_array_index (self->graph->ties, OrtrainTrainingTie, i);
      g_variant_builder_add (&ties, "(ssb)", tie->first, tie->second, tie->transposed);
    }
  return g_variant_builder_end (&ties);
}

static GVariant *
save_model_path (OrtrainTrainingSession *self, GError **error)
{
  const char *path = ortrain_model_get_path (self->model);
  return path != NULL ? g_variant_new_bytestring (path) : NULL;
}

static GVariant *
save_metadata (OrtrainTrainingSession *self, GError **error)
{
  GVariantBuilder builder;
  GHashTableIter iter;
  gpointer key, value;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->metadata);
  while (g_hash_table_iter_next (&iter, &key, &value))
    g_variant_builder_add (&builder, "{ss}", key, value);
  g_mutex_unlock (&self->lock);
  return g_variant_builder_end (&builder);
}

static gboolean
check_metadata (OrtrainTrainingSession *self, const char *key, GVariant *value, Loaded *loaded, GError **error)
{
  loaded->metadata = value;
  return value == NULL || g_variant_is_of_type (value, G_VARIANT_TYPE ("a{ss}")) ||
         refuse_value (key, value, "a list of strings", error);
}

static const Entry entries[] = {
  { "ortrain-session", save_format, check_format },
  { "optimizer", save_optimizer, check_optimizer },
  { "updates", save_updates, check_updates },
  { "train-steps", save_train_steps, check_train_steps },
  { "seed", save_seed, check_seed },
  { "schedule", save_schedule, check_schedule },
  { "loss-scale", save_loss_scale, check_loss_scale },
  { "loss-scale-tolerated", save_tolerated, check_tolerated },
  { "ties", save_ties, NULL },
  { "model-path", save_model_path, NULL },
  { "metadata", save_metadata, check_metadata },
};

/* ---- saving ---- */

static OrtrainCheckpoint *
make_checkpoint (OrtrainTrainingSession *self, GError **error)
{
  if (!ortrain_training_session_take_memory (self, error))
    return NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_new ();
  g_autoptr (GPtrArray) sections = list_sections (self);
  for (guint i = 0; i < sections->len; i++)
    {
      const Section *section = sections->pdata[i];
      g_autoptr (OrtrainTensorDict) tensors = peek_section (self, section, error);
      if (tensors == NULL)
        return NULL;
      ortrain_checkpoint_set_tensors (checkpoint, section->name, tensors);
    }
  for (guint i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      GError *local_error = NULL;
      GVariant *value = entries[i].save (self, &local_error);
      if (local_error != NULL)
        {
          g_propagate_error (error, local_error);
          return NULL;
        }
      if (value == NULL)
        continue;
      g_variant_take_ref (value);
      ortrain_checkpoint_set_value (checkpoint, entries[i].key, value);
      g_variant_unref (value);
    }
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
  const gint64 begin = ortrain_trace_begin ();
  const gboolean ok = ortrain_checkpoint_save (checkpoint, path, cancellable, error);
  ortrain_trace_end (begin, "checkpoint", "save", path);
  if (ok)
    ORTRAIN_LOG (ORTRAIN_LOG_CHECKPOINT, "saved %s after %" G_GUINT64_FORMAT " updates", ortrain_text_show_path (path),
                 self->n_updates);
  return ok;
}

/* ---- loading ---- */

static gboolean
check_all (OrtrainTrainingSession *self, OrtrainCheckpoint *checkpoint, GPtrArray *sections, Loaded *loaded,
           GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (entries); i++)
    if (entries[i].check != NULL &&
        !entries[i].check (self, entries[i].key, ortrain_checkpoint_get_value (checkpoint, entries[i].key), loaded,
                           error))
      return FALSE;
  for (guint i = 0; i < sections->len; i++)
    if (!check_section (self, checkpoint, sections->pdata[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
apply_sections (OrtrainTrainingSession *self, OrtrainCheckpoint *checkpoint, GPtrArray *sections, GError **error)
{
  gboolean ok = TRUE;
  for (guint i = 0; i < sections->len && ok; i++)
    ok = apply_section (self, checkpoint, sections->pdata[i], error);
  /* operators read the copies: these are updated from the loaded part, even after an error */
  return ortrain_parameter_store_refresh_copies (self->store, ok ? error : NULL) && ok;
}

/* Cannot fail. */
static void
apply_values (OrtrainTrainingSession *self, const Loaded *loaded)
{
  if (loaded->schedule != NULL)
    ortrain_lr_schedule_load_state (ortrain_training_options_get_schedule (self->options), loaded->schedule);
  if (loaded->has_scaler)
    ortrain_training_session_note_scaler (self, &loaded->scaler);
  g_mutex_lock (&self->lock);
  self->n_updates = loaded->n_updates;
  self->n_train_steps = loaded->n_train_steps;
  self->seed = loaded->seed;
  self->n_accumulated = 0;
  self->has_gradients = FALSE;
  g_hash_table_remove_all (self->metadata);
  if (loaded->metadata != NULL)
    {
      GVariantIter iter;
      char *key, *value;
      g_variant_iter_init (&iter, loaded->metadata);
      while (g_variant_iter_next (&iter, "{ss}", &key, &value))
        g_hash_table_insert (self->metadata, key, value);
    }
  g_mutex_unlock (&self->lock);
}

gboolean
ortrain_training_session_run_load_checkpoint (OrtrainTrainingSession *self, const char *path,
                                              OrtrainMetadataCheck check, gpointer data, GError **error)
{
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  const gint64 begin = ortrain_trace_begin ();
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (path, error);
  if (checkpoint == NULL)
    return FALSE;
  Loaded loaded = { .path = path };
  g_autoptr (GPtrArray) sections = list_sections (self);
  if (!check_all (self, checkpoint, sections, &loaded, error) ||
      (check != NULL && !check (loaded.metadata, data, error)) || !ortrain_training_session_take_memory (self, error))
    return FALSE;
  if (!apply_sections (self, checkpoint, sections, error) ||
      (loaded.has_scaler && !ortrain_parameter_store_write_scaler (self->store, &loaded.scaler, error)))
    return FALSE;
  apply_values (self, &loaded);
  ortrain_trace_end (begin, "checkpoint", "load", path);
  ORTRAIN_LOG (ORTRAIN_LOG_CHECKPOINT, "loaded %s: %" G_GUINT64_FORMAT " updates", ortrain_text_show_path (path),
               self->n_updates);
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
 * Resumes from a checkpoint: later steps have the same bits as if training had never stopped. If the checkpoint does
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
 * Returns: (transfer none) (nullable): the text, owned by the session; %NULL if there is no such entry
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
