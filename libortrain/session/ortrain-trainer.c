/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-trainer.h"

#include "checkpoint/ortrain-checkpoint.h"
#include "core/ortrain-home-private.h"
#include "data/ortrain-data-loader.h"
#include "grad/ortrain-cross-entropy-loss.h"
#include "session/ortrain-training-history-private.h"
#include "session/ortrain-training-session-private.h"

#include <math.h>

/**
 * OrtrainTrainer:
 *
 * The training loop: epochs over a dataset, with validation, checkpoints and an early end.
 *
 * A session is busy for others while its trainer works. Cancelling ends the loop between two updates, with
 * [error@Gio.IOErrorEnum.CANCELLED]; if there is a folder for checkpoints, one is saved first, and training can go on
 * from there with the `resume` property.
 *
 * The metric is the accuracy on the validation data, for models trained with a cross entropy. Signals arrive on the
 * main context that was the thread's default when the trainer was made; those of [method@Trainer.fit] come during the
 * call. The properties are read while training goes on, and not to be changed then.
 */

struct _OrtrainTrainer
{
  GObject parent_instance;
  guint epochs;
  guint batch_size;
  gboolean shuffle;
  gboolean drop_last;
  guint64 seed;
  OrtrainDataset *validation;
  char *checkpoint_dir;
  guint checkpoint_steps;
  gboolean resume;
  guint patience;
  OrtrainTrainingSession *session;
  OrtrainDataset *dataset;
  OrtrainMailbox *mailbox;
};

G_DEFINE_FINAL_TYPE (OrtrainTrainer, ortrain_trainer, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_EPOCHS,
  PROP_BATCH_SIZE,
  PROP_SHUFFLE,
  PROP_DROP_LAST,
  PROP_SEED,
  PROP_VALIDATION,
  PROP_CHECKPOINT_DIR,
  PROP_CHECKPOINT_STEPS,
  PROP_RESUME,
  PROP_PATIENCE,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

enum
{
  PROGRESS,
  EPOCH_ENDED,
  CHECKPOINT_SAVED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

/* ---- signals ---- */

#define SLOT_EVENT 0    /* each one arrives */
#define SLOT_PROGRESS 1 /* the latest counts */

static void
deliver (GObject *object, guint slot, gpointer message)
{
  if (slot == SLOT_PROGRESS)
    g_signal_emit (object, signals[PROGRESS], 0, message);
  else if (ORTRAIN_IS_EPOCH_RECORD (message))
    g_signal_emit (object, signals[EPOCH_ENDED], 0, message);
  else
    g_signal_emit (object, signals[CHECKPOINT_SAVED], 0, g_file_peek_path (message));
}

/* message: taken */
static void
tell (OrtrainTrainer *self, guint slot, gpointer message, GDestroyNotify free_message)
{
  if (!ortrain_mailbox_is_on_owner (self->mailbox))
    {
      ortrain_mailbox_post (self->mailbox, G_OBJECT (self), slot, message, free_message);
      return;
    }
  deliver (G_OBJECT (self), slot, message);
  free_message (message);
}

/* ---- evaluation ---- */

/* Counts right answers for the first cross entropy among the losses. */
static gboolean
count_right (OrtrainTrainer *self, OrtrainTensorDict *batch, OrtrainTensorDict *outputs, guint64 *n_right, guint64 *n,
             GError **error)
{
  GListModel *losses = ortrain_training_options_get_losses (self->session->options);
  for (guint i = 0; i < g_list_model_get_n_items (losses); i++)
    {
      g_autoptr (OrtrainLoss) loss = g_list_model_get_item (losses, i);
      if (!ORTRAIN_IS_CROSS_ENTROPY_LOSS (loss))
        continue;
      OrtrainCrossEntropyLoss *entropy = ORTRAIN_CROSS_ENTROPY_LOSS (loss);
      OrtrainTensor *logits = ortrain_tensor_dict_get (outputs, ortrain_loss_get_output (loss));
      OrtrainTensor *target = ortrain_tensor_dict_get (batch, ortrain_loss_get_target (loss));
      if (logits == NULL || target == NULL)
        return TRUE;
      g_autoptr (OrtrainTensor) answers =
          ortrain_tensor_argmax (logits, ortrain_cross_entropy_loss_get_axis (entropy), error);
      if (answers == NULL)
        return FALSE;
      gint64 ignored = ortrain_cross_entropy_loss_get_ignore_index (entropy);
      gint64 length = MIN (ortrain_tensor_get_n_elements (answers), ortrain_tensor_get_n_elements (target));
      for (gint64 k = 0; k < length; k++)
        {
          gint64 want = (gint64) ortrain_tensor_get_scalar (target, k);
          if (want == ignored && ignored != G_MININT64)
            continue;
          *n += 1;
          *n_right += (gint64) ortrain_tensor_get_scalar (answers, k) == want;
        }
      return TRUE;
    }
  return TRUE;
}

static gint64
count_items (OrtrainTensorDict *batch)
{
  OrtrainTensor *first = ortrain_tensor_dict_get_size (batch) > 0 ? ortrain_tensor_dict_get_tensor (batch, 0) : NULL;
  return first != NULL && ortrain_tensor_get_rank (first) > 0 ? ortrain_tensor_get_dim (first, 0) : 1;
}

/* The claim on the session is held. */
static gboolean
evaluate (OrtrainTrainer *self, OrtrainDataset *dataset, GCancellable *cancellable, double *loss, double *metric,
          GError **error)
{
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, self->batch_size);
  double sum = 0;
  guint64 n_items = 0, n_right = 0, n_answers = 0;
  gboolean any_loss = FALSE;
  ortrain_data_loader_set_shuffle (loader, FALSE);
  for (;;)
    {
      g_autoptr (GError) local_error = NULL;
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &local_error);
      if (batch == NULL && local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (batch == NULL)
        break;
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      g_autoptr (OrtrainTensorDict) outputs =
          ortrain_training_session_run_eval_step (self->session, batch, cancellable, error);
      if (outputs == NULL || !count_right (self, batch, outputs, &n_right, &n_answers, error))
        return FALSE;
      OrtrainTensor *value = ortrain_tensor_dict_get (outputs, "loss");
      gint64 n = count_items (batch);
      if (value != NULL)
        {
          sum += ortrain_tensor_get_scalar (value, 0) * (double) n;
          any_loss = TRUE;
        }
      n_items += (guint64) n;
    }
  *loss = any_loss && n_items > 0 ? sum / (double) n_items : NAN;
  *metric = n_answers > 0 ? (double) n_right / (double) n_answers : -1;
  return TRUE;
}

/* ---- the loop ---- */

#define KEY_LOADER "trainer.loader"
#define KEY_EPOCH "trainer.epoch"
#define KEY_BEST "trainer.best-loss"
#define KEY_WAITED "trainer.waited"

typedef struct
{
  OrtrainDataLoader *loader;
  OrtrainTrainingHistory *history;
  GTimer *timer;
  guint epoch;     /* from 0 */
  guint64 step;    /* in the epoch */
  guint n_waiting; /* steps since the last update */
  double sum;      /* of the losses of the epoch */
  guint64 n_summed;
  double last_loss, last_metric;
  double best_loss;
  guint waited; /* epochs without a lesser loss */
} Fit;

static gboolean
save_checkpoint (OrtrainTrainer *self, Fit *fit, GError **error)
{
  if (self->checkpoint_dir == NULL)
    return TRUE;
  g_autoptr (GVariant) state = ortrain_data_loader_get_state (fit->loader);
  g_autofree char *loader = g_variant_print (state, TRUE);
  g_autofree char *epoch = g_strdup_printf ("%u", fit->epoch);
  g_autofree char *waited = g_strdup_printf ("%u", fit->waited);
  char best[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_dtostr (best, sizeof best, fit->best_loss);
  ortrain_training_session_set_metadata (self->session, KEY_LOADER, loader);
  ortrain_training_session_set_metadata (self->session, KEY_EPOCH, epoch);
  ortrain_training_session_set_metadata (self->session, KEY_WAITED, waited);
  ortrain_training_session_set_metadata (self->session, KEY_BEST, best);
  if (!ortrain_training_session_run_save_checkpoint (self->session, self->checkpoint_dir, NULL, error))
    return FALSE;
  tell (self, SLOT_EVENT, g_file_new_for_path (self->checkpoint_dir), g_object_unref);
  return TRUE;
}

static gboolean
resume (OrtrainTrainer *self, Fit *fit, GError **error)
{
  if (!self->resume || self->checkpoint_dir == NULL || !ortrain_checkpoint_exists (self->checkpoint_dir))
    return TRUE;
  if (!ortrain_training_session_run_load_checkpoint (self->session, self->checkpoint_dir, error))
    return FALSE;
  const char *loader = ortrain_training_session_get_metadata (self->session, KEY_LOADER);
  const char *epoch = ortrain_training_session_get_metadata (self->session, KEY_EPOCH);
  const char *best = ortrain_training_session_get_metadata (self->session, KEY_BEST);
  const char *waited = ortrain_training_session_get_metadata (self->session, KEY_WAITED);
  if (loader == NULL)
    return TRUE; /* saved by hand: parameters only */
  g_autoptr (GVariant) state = g_variant_parse (NULL, loader, NULL, NULL, error);
  if (state == NULL || !ortrain_data_loader_set_state (fit->loader, state, error))
    return FALSE;
  guint64 number = 0;
  if (epoch != NULL && g_ascii_string_to_unsigned (epoch, 10, 0, G_MAXUINT, &number, NULL))
    fit->epoch = (guint) number;
  if (waited != NULL && g_ascii_string_to_unsigned (waited, 10, 0, G_MAXUINT, &number, NULL))
    fit->waited = (guint) number;
  if (best != NULL)
    fit->best_loss = g_ascii_strtod (best, NULL);
  guint64 position = 0;
  if (g_variant_lookup (state, "position", "t", &position))
    fit->step = (position + self->batch_size - 1) / self->batch_size;
  return TRUE;
}

static void
tell_progress (OrtrainTrainer *self, Fit *fit)
{
  if (!g_signal_has_handler_pending (self, signals[PROGRESS], 0, FALSE))
    return;
  guint64 n_steps = ortrain_data_loader_get_n_batches (fit->loader);
  OrtrainProgress *progress = g_atomic_rc_box_new0 (OrtrainProgress);
  double total = (double) n_steps * self->epochs;
  *progress = (OrtrainProgress){
    .fraction = total > 0 ? MIN (1.0, ((double) fit->epoch * (double) n_steps + (double) fit->step) / total) : 1.0,
    .loss = fit->last_loss,
    .mean_loss = fit->n_summed > 0 ? fit->sum / (double) fit->n_summed : fit->last_loss,
    .learning_rate = ortrain_training_session_get_current_learning_rate (self->session),
    .metric = fit->last_metric,
    .seconds = g_timer_elapsed (fit->timer, NULL),
    .epoch = fit->epoch + 1,
    .n_epochs = self->epochs,
    .step = fit->step,
    .n_steps = n_steps,
  };
  tell (self, SLOT_PROGRESS, progress, (GDestroyNotify) ortrain_progress_free);
}

static gboolean
update (OrtrainTrainer *self, Fit *fit, gboolean epoch_ends, GError **error)
{
  fit->n_waiting = 0;
  if (!ortrain_training_session_run_optimizer_step (self->session, error))
    return FALSE;
  if (self->checkpoint_steps > 0 && !epoch_ends && self->session->n_updates % self->checkpoint_steps == 0)
    return save_checkpoint (self, fit, error);
  return TRUE;
}

/* Cancelling between two updates leaves a checkpoint to go on from. */
static gboolean
is_cancelled (OrtrainTrainer *self, Fit *fit, GCancellable *cancellable, GError **error)
{
  if (!g_cancellable_is_cancelled (cancellable))
    return FALSE;
  if (save_checkpoint (self, fit, error))
    g_cancellable_set_error_if_cancelled (cancellable, error);
  return TRUE;
}

static gboolean
run_epoch (OrtrainTrainer *self, Fit *fit, GCancellable *cancellable, GError **error)
{
  guint n_accumulated = ortrain_training_options_get_accumulation_steps (self->session->options);
  fit->sum = 0;
  fit->n_summed = 0;
  for (;;)
    {
      if (fit->n_waiting == 0 && is_cancelled (self, fit, cancellable, error))
        return FALSE;
      g_autoptr (GError) local_error = NULL;
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (fit->loader, &local_error);
      if (batch == NULL && local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (batch == NULL)
        break;
      double loss = ortrain_training_session_run_train_step (self->session, batch, NULL, &local_error);
      if (local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      fit->step++;
      fit->n_waiting++;
      fit->last_loss = loss;
      fit->sum += loss;
      fit->n_summed++;
      fit->history->n_steps++;
      g_array_append_val (fit->history->losses, loss);
      if (fit->n_waiting >= n_accumulated && !update (self, fit, FALSE, error))
        return FALSE;
      tell_progress (self, fit);
    }
  return fit->n_waiting == 0 || update (self, fit, TRUE, error);
}

static gboolean
end_epoch (OrtrainTrainer *self, Fit *fit, double began, GCancellable *cancellable, gboolean *stop, GError **error)
{
  OrtrainEpochRecord *record = g_object_new (ORTRAIN_TYPE_EPOCH_RECORD, NULL);
  record->epoch = fit->epoch + 1;
  record->loss = fit->n_summed > 0 ? fit->sum / (double) fit->n_summed : NAN;
  record->validation_loss = NAN;
  record->metric = -1;
  g_list_store_append (G_LIST_STORE (fit->history->epochs), record);
  g_object_unref (record); /* the list keeps it */
  if (self->validation != NULL &&
      !evaluate (self, self->validation, cancellable, &record->validation_loss, &record->metric, error))
    return FALSE;
  fit->last_metric = record->metric;
  double watched = isnan (record->validation_loss) ? record->loss : record->validation_loss;
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->session->options);
  if (schedule != NULL && isfinite (watched))
    ortrain_lr_schedule_observe (schedule, watched);
  record->learning_rate = ortrain_training_session_get_current_learning_rate (self->session);
  record->seconds = g_timer_elapsed (fit->timer, NULL) - began;
  if (isnan (fit->best_loss) || watched < fit->best_loss)
    {
      fit->best_loss = watched;
      fit->waited = 0;
    }
  else
    fit->waited++;
  fit->epoch++;
  fit->step = 0;
  tell (self, SLOT_EVENT, g_object_ref (record), g_object_unref);
  *stop = self->patience > 0 && fit->waited >= self->patience && fit->epoch < self->epochs;
  return save_checkpoint (self, fit, error);
}

/* The claim on the session is held by this thread. */
static OrtrainTrainingHistory *
run_fit (OrtrainTrainer *self, GCancellable *cancellable, GError **error)
{
  Fit fit = { .last_loss = NAN, .last_metric = -1, .best_loss = NAN };
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (self->dataset, self->batch_size);
  g_autoptr (OrtrainTrainingHistory) history = g_object_new (ORTRAIN_TYPE_TRAINING_HISTORY, NULL);
  g_autoptr (GTimer) timer = g_timer_new ();
  gboolean ok = TRUE, stop = FALSE;
  ortrain_data_loader_set_shuffle (loader, self->shuffle);
  ortrain_data_loader_set_seed (loader, self->seed);
  ortrain_data_loader_set_drop_last (loader, self->drop_last);
  fit.loader = loader;
  fit.history = history;
  fit.timer = timer;
  ok = resume (self, &fit, error);
  while (ok && !stop && fit.epoch < self->epochs)
    {
      double began = g_timer_elapsed (timer, NULL);
      ok = run_epoch (self, &fit, cancellable, error) && end_epoch (self, &fit, began, cancellable, &stop, error);
    }
  history->stopped_early = stop;
  history->seconds = g_timer_elapsed (timer, NULL);
  return ok ? g_steal_pointer (&history) : NULL;
}

static gboolean
check_made (OrtrainTrainer *self, GError **error)
{
  if (self->session != NULL && self->dataset != NULL)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
               "the trainer was not made by its constructor");
  return FALSE;
}

static void
ortrain_trainer_finalize (GObject *object)
{
  OrtrainTrainer *self = ORTRAIN_TRAINER (object);

  g_clear_pointer (&self->checkpoint_dir, g_free);
  g_clear_object (&self->validation);
  g_clear_object (&self->session);
  g_clear_object (&self->dataset);
  ortrain_mailbox_unref (self->mailbox);

  G_OBJECT_CLASS (ortrain_trainer_parent_class)->finalize (object);
}

static void
ortrain_trainer_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainTrainer *self = ORTRAIN_TRAINER (object);
  switch (property_id)
    {
    case PROP_EPOCHS:
      g_value_set_uint (value, self->epochs);
      break;
    case PROP_BATCH_SIZE:
      g_value_set_uint (value, self->batch_size);
      break;
    case PROP_SHUFFLE:
      g_value_set_boolean (value, self->shuffle);
      break;
    case PROP_DROP_LAST:
      g_value_set_boolean (value, self->drop_last);
      break;
    case PROP_SEED:
      g_value_set_uint64 (value, self->seed);
      break;
    case PROP_VALIDATION:
      g_value_set_object (value, self->validation);
      break;
    case PROP_CHECKPOINT_DIR:
      g_value_set_string (value, self->checkpoint_dir);
      break;
    case PROP_CHECKPOINT_STEPS:
      g_value_set_uint (value, self->checkpoint_steps);
      break;
    case PROP_RESUME:
      g_value_set_boolean (value, self->resume);
      break;
    case PROP_PATIENCE:
      g_value_set_uint (value, self->patience);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_trainer_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainTrainer *self = ORTRAIN_TRAINER (object);
  switch (property_id)
    {
    case PROP_EPOCHS:
      ortrain_trainer_set_epochs (self, g_value_get_uint (value));
      break;
    case PROP_BATCH_SIZE:
      ortrain_trainer_set_batch_size (self, g_value_get_uint (value));
      break;
    case PROP_SHUFFLE:
      ortrain_trainer_set_shuffle (self, g_value_get_boolean (value));
      break;
    case PROP_DROP_LAST:
      ortrain_trainer_set_drop_last (self, g_value_get_boolean (value));
      break;
    case PROP_SEED:
      ortrain_trainer_set_seed (self, g_value_get_uint64 (value));
      break;
    case PROP_VALIDATION:
      ortrain_trainer_set_validation (self, g_value_get_object (value));
      break;
    case PROP_CHECKPOINT_DIR:
      ortrain_trainer_set_checkpoint_dir (self, g_value_get_string (value));
      break;
    case PROP_CHECKPOINT_STEPS:
      ortrain_trainer_set_checkpoint_steps (self, g_value_get_uint (value));
      break;
    case PROP_RESUME:
      ortrain_trainer_set_resume (self, g_value_get_boolean (value));
      break;
    case PROP_PATIENCE:
      ortrain_trainer_set_patience (self, g_value_get_uint (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_trainer_class_init (OrtrainTrainerClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_trainer_finalize;
  object_class->get_property = ortrain_trainer_get_property;
  object_class->set_property = ortrain_trainer_set_property;

  /**
   * OrtrainTrainer:epochs: (getter get_epochs) (setter set_epochs)
   *
   * The number of epochs.
   */
  properties[PROP_EPOCHS] = g_param_spec_uint ("epochs", NULL, NULL, 1, G_MAXUINT, 1,
                                               G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:batch-size: (getter get_batch_size) (setter set_batch_size)
   *
   * The number of items of a batch.
   */
  properties[PROP_BATCH_SIZE] = g_param_spec_uint (
      "batch-size", NULL, NULL, 1, G_MAXUINT, 32, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:shuffle: (getter get_shuffle) (setter set_shuffle)
   *
   * Whether each epoch takes the items in a new order.
   */
  properties[PROP_SHUFFLE] = g_param_spec_boolean (
      "shuffle", NULL, NULL, TRUE, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:drop-last: (getter get_drop_last) (setter set_drop_last)
   *
   * Whether a last batch that is not full is left out.
   */
  properties[PROP_DROP_LAST] = g_param_spec_boolean (
      "drop-last", NULL, NULL, FALSE, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:seed: (getter get_seed) (setter set_seed)
   *
   * The seed of the orders.
   */
  properties[PROP_SEED] = g_param_spec_uint64 ("seed", NULL, NULL, 0, G_MAXUINT64, 0,
                                               G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:validation: (getter get_validation) (setter set_validation)
   *
   * The data that the model is tried on after each epoch.
   */
  properties[PROP_VALIDATION] =
      g_param_spec_object ("validation", NULL, NULL, ORTRAIN_TYPE_DATASET,
                           G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:checkpoint-dir: (getter get_checkpoint_dir) (setter set_checkpoint_dir)
   *
   * The folder that checkpoints are saved in.
   */
  properties[PROP_CHECKPOINT_DIR] = g_param_spec_string (
      "checkpoint-dir", NULL, NULL, NULL, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:checkpoint-steps: (getter get_checkpoint_steps) (setter set_checkpoint_steps)
   *
   * The number of updates between two checkpoints; 0 for one after each epoch.
   */
  properties[PROP_CHECKPOINT_STEPS] =
      g_param_spec_uint ("checkpoint-steps", NULL, NULL, 0, G_MAXUINT, 0,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:resume: (getter get_resume) (setter set_resume)
   *
   * Whether training goes on from the checkpoint, if there is one.
   */
  properties[PROP_RESUME] = g_param_spec_boolean ("resume", NULL, NULL, FALSE,
                                                  G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:patience: (getter get_patience) (setter set_patience)
   *
   * The number of epochs without a lesser loss after which training ends; 0 for no such end.
   */
  properties[PROP_PATIENCE] = g_param_spec_uint ("patience", NULL, NULL, 0, G_MAXUINT, 0,
                                                 G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);

  /**
   * OrtrainTrainer::progress:
   * @self: the trainer
   * @progress: how far it is
   *
   * Emitted after training steps. Of an asynchronous training only the latest progress arrives when the main loop is
   * busy.
   */
  signals[PROGRESS] = g_signal_new ("progress", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                    G_TYPE_NONE, 1, ORTRAIN_TYPE_PROGRESS);
  /**
   * OrtrainTrainer::epoch-ended:
   * @self: the trainer
   * @record: what came of the epoch
   *
   * Emitted at the end of each epoch, after the validation.
   */
  signals[EPOCH_ENDED] = g_signal_new ("epoch-ended", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                       G_TYPE_NONE, 1, ORTRAIN_TYPE_EPOCH_RECORD);
  /**
   * OrtrainTrainer::checkpoint-saved:
   * @self: the trainer
   * @path: (type filename): the folder
   *
   * Emitted when a checkpoint is on disk.
   */
  signals[CHECKPOINT_SAVED] = g_signal_new ("checkpoint-saved", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                            NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
ortrain_trainer_init (OrtrainTrainer *self)
{
  self->epochs = 1;
  self->batch_size = 32;
  self->shuffle = TRUE;
  self->mailbox = ortrain_mailbox_new (deliver);
}

/**
 * ortrain_trainer_new:
 * @session: a session
 * @dataset: the data to train on: one tensor for each input of the model and each target
 *
 * Makes a trainer.
 *
 * Returns: (transfer full): the new object
 */
OrtrainTrainer *
ortrain_trainer_new (OrtrainTrainingSession *session, OrtrainDataset *dataset)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (session), NULL);
  g_return_val_if_fail (ORTRAIN_IS_DATASET (dataset), NULL);

  OrtrainTrainer *self = g_object_new (ORTRAIN_TYPE_TRAINER, NULL);
  self->session = g_object_ref (session);
  self->dataset = g_object_ref (dataset);
  return self;
}

/**
 * ortrain_trainer_get_epochs: (get-property epochs)
 * @self: the object
 *
 * Gets the number of epochs.
 *
 * Returns: the number of epochs
 */
guint
ortrain_trainer_get_epochs (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->epochs;
}

/**
 * ortrain_trainer_set_epochs: (set-property epochs)
 * @self: the object
 * @epochs: the number of epochs
 *
 * Sets the number of epochs.
 */
void
ortrain_trainer_set_epochs (OrtrainTrainer *self, guint epochs)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  if (self->epochs == epochs)
    return;
  self->epochs = epochs;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_EPOCHS]);
}

/**
 * ortrain_trainer_get_batch_size: (get-property batch-size)
 * @self: the object
 *
 * Gets the number of items of a batch.
 *
 * Returns: the number of items of a batch
 */
guint
ortrain_trainer_get_batch_size (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->batch_size;
}

/**
 * ortrain_trainer_set_batch_size: (set-property batch-size)
 * @self: the object
 * @batch_size: the number of items of a batch
 *
 * Sets the number of items of a batch.
 */
void
ortrain_trainer_set_batch_size (OrtrainTrainer *self, guint batch_size)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  if (self->batch_size == batch_size)
    return;
  self->batch_size = batch_size;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_BATCH_SIZE]);
}

/**
 * ortrain_trainer_get_shuffle: (get-property shuffle)
 * @self: the object
 *
 * Gets whether each epoch takes the items in a new order.
 *
 * Returns: whether each epoch takes the items in a new order
 */
gboolean
ortrain_trainer_get_shuffle (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->shuffle;
}

/**
 * ortrain_trainer_set_shuffle: (set-property shuffle)
 * @self: the object
 * @shuffle: whether each epoch takes the items in a new order
 *
 * Sets whether each epoch takes the items in a new order.
 */
void
ortrain_trainer_set_shuffle (OrtrainTrainer *self, gboolean shuffle)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  shuffle = !!shuffle;
  if (self->shuffle == shuffle)
    return;
  self->shuffle = shuffle;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SHUFFLE]);
}

/**
 * ortrain_trainer_get_drop_last: (get-property drop-last)
 * @self: the object
 *
 * Gets whether a last batch that is not full is left out.
 *
 * Returns: whether a last batch that is not full is left out
 */
gboolean
ortrain_trainer_get_drop_last (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->drop_last;
}

/**
 * ortrain_trainer_set_drop_last: (set-property drop-last)
 * @self: the object
 * @drop_last: whether a last batch that is not full is left out
 *
 * Sets whether a last batch that is not full is left out.
 */
void
ortrain_trainer_set_drop_last (OrtrainTrainer *self, gboolean drop_last)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  drop_last = !!drop_last;
  if (self->drop_last == drop_last)
    return;
  self->drop_last = drop_last;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_DROP_LAST]);
}

/**
 * ortrain_trainer_get_seed: (get-property seed)
 * @self: the object
 *
 * Gets the seed of the orders.
 *
 * Returns: the seed of the orders
 */
guint64
ortrain_trainer_get_seed (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->seed;
}

/**
 * ortrain_trainer_set_seed: (set-property seed)
 * @self: the object
 * @seed: the seed of the orders
 *
 * Sets the seed of the orders.
 */
void
ortrain_trainer_set_seed (OrtrainTrainer *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  if (self->seed == seed)
    return;
  self->seed = seed;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SEED]);
}

/**
 * ortrain_trainer_get_validation: (get-property validation)
 * @self: the object
 *
 * Gets the data that the model is tried on after each epoch.
 *
 * Returns: (transfer none) (nullable): the data that the model is tried on after each epoch
 */
OrtrainDataset *
ortrain_trainer_get_validation (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->validation;
}

/**
 * ortrain_trainer_set_validation: (set-property validation)
 * @self: the object
 * @validation: (nullable): the data that the model is tried on after each epoch
 *
 * Sets the data that the model is tried on after each epoch.
 */
void
ortrain_trainer_set_validation (OrtrainTrainer *self, OrtrainDataset *validation)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  g_return_if_fail (validation == NULL || G_TYPE_CHECK_INSTANCE_TYPE (validation, ORTRAIN_TYPE_DATASET));
  if (!g_set_object (&self->validation, validation))
    return;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_VALIDATION]);
}

/**
 * ortrain_trainer_get_checkpoint_dir: (get-property checkpoint-dir)
 * @self: the object
 *
 * Gets the folder that checkpoints are saved in.
 *
 * Returns: (transfer none) (nullable): the folder that checkpoints are saved in
 */
const char *
ortrain_trainer_get_checkpoint_dir (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->checkpoint_dir;
}

/**
 * ortrain_trainer_set_checkpoint_dir: (set-property checkpoint-dir)
 * @self: the object
 * @checkpoint_dir: (nullable): the folder that checkpoints are saved in
 *
 * Sets the folder that checkpoints are saved in.
 */
void
ortrain_trainer_set_checkpoint_dir (OrtrainTrainer *self, const char *checkpoint_dir)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  if (g_strcmp0 (self->checkpoint_dir, checkpoint_dir) == 0)
    return;
  g_free (self->checkpoint_dir);
  self->checkpoint_dir = g_strdup (checkpoint_dir);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CHECKPOINT_DIR]);
}

/**
 * ortrain_trainer_get_checkpoint_steps: (get-property checkpoint-steps)
 * @self: the object
 *
 * Gets the number of updates between two checkpoints; 0 for one after each epoch.
 *
 * Returns: the number of updates between two checkpoints; 0 for one after each epoch
 */
guint
ortrain_trainer_get_checkpoint_steps (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->checkpoint_steps;
}

/**
 * ortrain_trainer_set_checkpoint_steps: (set-property checkpoint-steps)
 * @self: the object
 * @checkpoint_steps: the number of updates between two checkpoints; 0 for one after each epoch
 *
 * Sets the number of updates between two checkpoints; 0 for one after each epoch.
 */
void
ortrain_trainer_set_checkpoint_steps (OrtrainTrainer *self, guint checkpoint_steps)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  if (self->checkpoint_steps == checkpoint_steps)
    return;
  self->checkpoint_steps = checkpoint_steps;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CHECKPOINT_STEPS]);
}

/**
 * ortrain_trainer_get_resume: (get-property resume)
 * @self: the object
 *
 * Gets whether training goes on from the checkpoint, if there is one.
 *
 * Returns: whether training goes on from the checkpoint, if there is one
 */
gboolean
ortrain_trainer_get_resume (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->resume;
}

/**
 * ortrain_trainer_set_resume: (set-property resume)
 * @self: the object
 * @resume: whether training goes on from the checkpoint, if there is one
 *
 * Sets whether training goes on from the checkpoint, if there is one.
 */
void
ortrain_trainer_set_resume (OrtrainTrainer *self, gboolean resume)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  resume = !!resume;
  if (self->resume == resume)
    return;
  self->resume = resume;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_RESUME]);
}

/**
 * ortrain_trainer_get_patience: (get-property patience)
 * @self: the object
 *
 * Gets the number of epochs without a lesser loss after which training ends; 0 for no such end.
 *
 * Returns: the number of epochs without a lesser loss after which training ends; 0 for no such end
 */
guint
ortrain_trainer_get_patience (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->patience;
}

/**
 * ortrain_trainer_set_patience: (set-property patience)
 * @self: the object
 * @patience: the number of epochs without a lesser loss after which training ends; 0 for no such end
 *
 * Sets the number of epochs without a lesser loss after which training ends; 0 for no such end.
 */
void
ortrain_trainer_set_patience (OrtrainTrainer *self, guint patience)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  if (self->patience == patience)
    return;
  self->patience = patience;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PATIENCE]);
}

/**
 * ortrain_trainer_get_session:
 * @self: a trainer
 *
 * Gets the session.
 *
 * Returns: (transfer none) (nullable): the session
 */
OrtrainTrainingSession *
ortrain_trainer_get_session (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->session;
}

/**
 * ortrain_trainer_get_dataset:
 * @self: a trainer
 *
 * Gets the data that is trained on.
 *
 * Returns: (transfer none) (nullable): the dataset
 */
OrtrainDataset *
ortrain_trainer_get_dataset (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->dataset;
}

/**
 * ortrain_trainer_fit:
 * @self: a trainer
 * @cancellable: (nullable): a cancellable, looked at between updates
 * @error: return location for an error
 *
 * Trains, and blocks until it is done.
 *
 * Returns: (transfer full): what came of it, %NULL on error
 */
OrtrainTrainingHistory *
ortrain_trainer_fit (OrtrainTrainer *self, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);

  if (!check_made (self, error) || !ortrain_training_session_claim (self->session, error))
    return NULL;
  ortrain_training_session_adopt (self->session);
  OrtrainTrainingHistory *history = run_fit (self, cancellable, error);
  ortrain_training_session_leave (self->session);
  return history;
}

static gpointer
fit_in_thread (gpointer data)
{
  GTask *task = data;
  OrtrainTrainer *self = g_task_get_source_object (task);
  GError *error = NULL;
  ortrain_home_enter (g_task_get_context (task));
  ortrain_training_session_adopt (self->session);
  OrtrainTrainingHistory *history = run_fit (self, g_task_get_cancellable (task), &error);
  ortrain_training_session_leave (self->session);
  if (history != NULL)
    g_task_return_pointer (task, history, g_object_unref);
  else
    g_task_return_error (task, error);
  g_object_unref (task);
  return NULL;
}

/**
 * ortrain_trainer_fit_async:
 * @self: a trainer
 * @cancellable: (nullable): a cancellable, looked at between updates
 * @callback: (scope async): called when training has ended
 * @user_data: data for @callback
 *
 * Trains in a thread of its own, see [method@Trainer.fit].
 */
void
ortrain_trainer_fit_async (OrtrainTrainer *self, GCancellable *cancellable, GAsyncReadyCallback callback,
                           gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  GError *error = NULL;
  g_task_set_source_tag (task, ortrain_trainer_fit_async);
  g_task_set_check_cancellable (task, FALSE); /* a training that was done before it saw the cancelling is told */
  if (!check_made (self, &error) || !ortrain_training_session_claim (self->session, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  g_thread_unref (g_thread_new ("ortrain-trainer", fit_in_thread, g_object_ref (task)));
}

/**
 * ortrain_trainer_fit_finish:
 * @self: a trainer
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@Trainer.fit_async].
 *
 * Returns: (transfer full): what came of the training, %NULL on error
 */
OrtrainTrainingHistory *
ortrain_trainer_fit_finish (OrtrainTrainer *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * ortrain_trainer_evaluate:
 * @self: a trainer
 * @dataset: data with targets
 * @cancellable: (nullable): a cancellable, looked at between batches
 * @loss: (out) (optional): the mean loss; not a number if there are no targets
 * @metric: (out) (optional): the accuracy, -1 if no loss is a cross entropy
 * @error: return location for an error
 *
 * Tries the model on some data, in batches of the trainer's size, and blocks until it is done.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_trainer_evaluate (OrtrainTrainer *self, OrtrainDataset *dataset, GCancellable *cancellable, double *loss,
                          double *metric, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_DATASET (dataset), FALSE);

  double a = NAN, b = -1;
  if (!check_made (self, error) || !ortrain_training_session_enter (self->session, FALSE, error))
    return FALSE;
  gboolean ok = evaluate (self, dataset, cancellable, &a, &b, error);
  ortrain_training_session_leave (self->session);
  if (loss != NULL)
    *loss = isnan (a) ? NAN : a;
  if (metric != NULL)
    *metric = b;
  return ok;
}
