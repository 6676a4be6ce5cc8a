/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-trainer-private.h"

#include "checkpoint/ortrain-checkpoint.h"
#include "data/ortrain-data-loader.h"
#include "session/ortrain-evaluation-private.h"
#include "session/ortrain-training-history-private.h"
#include "session/ortrain-training-session-private.h"

#include <math.h>

/* What a checkpoint keeps of a training beside the session: enough to go on in the middle of an epoch. */
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
  ortrain_trainer_tell (self, ORTRAIN_TRAINER_EVENT, g_file_new_for_path (self->checkpoint_dir), g_object_unref);
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
  if (!ortrain_trainer_wants_progress (self))
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
  ortrain_trainer_tell (self, ORTRAIN_TRAINER_PROGRESS, progress, (GDestroyNotify) ortrain_progress_free);
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
      !ortrain_evaluate_dataset (self->session, self->validation, self->batch_size, cancellable,
                                 &record->validation_loss, &record->metric, error))
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
  ortrain_trainer_tell (self, ORTRAIN_TRAINER_EVENT, g_object_ref (record), g_object_unref);
  *stop = self->patience > 0 && fit->waited >= self->patience && fit->epoch < self->epochs;
  return save_checkpoint (self, fit, error);
}

OrtrainTrainingHistory *
ortrain_trainer_run_fit (OrtrainTrainer *self, GCancellable *cancellable, GError **error)
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
