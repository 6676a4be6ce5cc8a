/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-fit-private.h"

#include "optim/ortrain-epoch-schedule-private.h"
#include "runtime/ortrain-executor-private.h"
#include "trainer/ortrain-evaluation-private.h"
#include "trainer/ortrain-metric-private.h"
#include "trainer/ortrain-training-history-private.h"

#include <math.h>

/* The mean over the steps of the epoch so far, with their weights. */
static double
get_mean_loss (const OrtrainFit *fit)
{
  return fit->weight != 0 ? fit->sum / fit->weight : fit->n_summed > 0 ? fit->sum : NAN;
}

static void
emit_progress (OrtrainTrainer *self, OrtrainFit *fit)
{
  guint64 n_steps = ortrain_data_loader_get_n_batches (fit->loader);
  double items_per_second, seconds_left;
  ortrain_fit_measure (self, fit, &items_per_second, &seconds_left);
  const gint64 now = g_get_monotonic_time ();
  const gboolean shows =
      self->display.active && (fit->step == n_steps || now - fit->shown >= ORTRAIN_PROGRESS_INTERVAL);
  if (!shows && !ortrain_trainer_wants_progress (self))
    return;
  fit->shown = shows ? now : fit->shown;
  OrtrainProgress *progress = g_atomic_rc_box_new0 (OrtrainProgress);
  double total = (double) n_steps * self->epochs;
  *progress = (OrtrainProgress){
    .fraction = total > 0 ? MIN (1.0, ((double) fit->epoch * (double) n_steps + (double) fit->step) / total) : 1.0,
    .loss = fit->last_loss,
    .mean_loss = fit->n_summed > 0 ? get_mean_loss (fit) : fit->last_loss,
    .learning_rate = fit->learning_rate,
    .metric = fit->last_metric,
    .seconds = g_timer_elapsed (fit->timer, NULL),
    .epoch = fit->epoch + 1,
    .n_epochs = self->epochs,
    .step = fit->step,
    .n_steps = n_steps,
    .items_per_second = items_per_second,
    .seconds_left = seconds_left,
    .skipped_updates = fit->n_skipped,
  };
  ortrain_trainer_emit (self, ORTRAIN_TRAINER_PROGRESS, progress, (GDestroyNotify) ortrain_progress_free);
}

/* Updates that were left out since this was last called. */
static void
count_skipped (OrtrainTrainer *self, OrtrainFit *fit)
{
  const guint64 n_skipped = ortrain_training_session_peek_n_skipped (self->session);
  const guint64 n = n_skipped - fit->n_skipped_by_then;
  fit->n_skipped += n;
  fit->n_left_out += n;
  fit->n_skipped_by_then = n_skipped;
}

/* Adds the loss of a step that has ended to those of the epoch. */
static void
count_loss (OrtrainTrainer *self, OrtrainFit *fit, guint64 number)
{
  const OrtrainStepResult *result = ortrain_training_session_peek_result (self->session, number);
  g_return_if_fail (result != NULL);
  const double loss = result->loss, weight = result->weight;
  OrtrainMemoryPlan *plan = ortrain_training_session_peek_plan (self->session);
  if (plan != NULL)
    fit->peak_bytes = MAX (fit->peak_bytes, ortrain_memory_plan_get_peak_bytes (plan));
  fit->step++;
  fit->last_loss = loss;
  fit->sum += weight != 0 ? loss * weight : loss;
  fit->weight += weight;
  fit->n_summed++;
  fit->n_uncounted += weight == 0;
  count_skipped (self, fit);
  fit->history->n_steps++;
  g_array_append_val (fit->history->losses, loss);
}

/* Why an update of these gradients was refused: the step is run again, which it cannot with parameters that are broken.
 */
static void
propagate_update_error (OrtrainTrainer *self, OrtrainFit *fit, OrtrainTensorDict *batch, GError **error,
                        GError *local_error)
{
  if (batch == NULL || !g_error_matches (local_error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE) ||
      !ortrain_training_session_run_check_finite (self->session, NULL))
    {
      g_propagate_error (error, local_error);
      return;
    }
  g_autofree char *reason = ortrain_training_session_explain_gradients (self->session, batch);
  ortrain_evaluation_propagate (self->session, fit->loader, reason, error, local_error);
}

/* Whether a checkpoint is due after the last update, if that was not left out. */
static gboolean
is_save_due (OrtrainTrainer *self)
{
  return self->checkpoint_steps > 0 &&
         ortrain_training_session_peek_n_updates (self->session) % self->checkpoint_steps == 0;
}

/* batch: of the last step; NULL at the end of an epoch */
static gboolean
update (OrtrainTrainer *self, OrtrainFit *fit, OrtrainTensorDict *batch, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  const gboolean epoch_ends = batch == NULL;
  fit->n_waiting = 0;
  if (!ortrain_training_session_run_optimizer_step (self->session, &local_error) ||
      !ortrain_training_session_wait_pending (self->session, 0, &local_error))
    {
      propagate_update_error (self, fit, batch, error, g_steal_pointer (&local_error));
      return FALSE;
    }
  count_skipped (self, fit);
  return epoch_ends || !is_save_due (self) || ortrain_fit_save_checkpoint (self, fit, error);
}

/* Cancelling between two updates leaves a checkpoint to go on from. */
static gboolean
is_cancelled (OrtrainTrainer *self, OrtrainFit *fit, GCancellable *cancellable, GError **error)
{
  if (!g_cancellable_is_cancelled (cancellable))
    return FALSE;
  if (ortrain_fit_save_checkpoint (self, fit, error))
    g_cancellable_set_error_if_cancelled (cancellable, error);
  return TRUE;
}

/* Whether to end here, between two updates, because a handler or another thread has asked for it. An epoch whose steps
 * are done is ended as always. */
static gboolean
is_stopped (OrtrainTrainer *self, OrtrainFit *fit)
{
  return g_atomic_int_get (&self->stop_asked) && fit->step > 0 &&
         fit->step < ortrain_data_loader_get_n_batches (fit->loader);
}

static gboolean
stop_in_epoch (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  fit->stopped = TRUE;
  return ortrain_fit_save_checkpoint (self, fit, error);
}

/* ---- steps that are submitted ahead ---- */

static void
ahead_clear (Ahead *ahead)
{
  g_clear_object (&ahead->batch);
  g_clear_pointer (&ahead->before, g_variant_unref);
}

static void
forget_ahead (OrtrainFit *fit)
{
  for (guint i = 0; i < fit->n_ahead; i++)
    ahead_clear (&fit->ahead[i]);
  fit->n_ahead = 0;
}

/* The error of a step, which may be one before that of the loader's last batch. */
static void
propagate_step_error (OrtrainTrainer *self, OrtrainFit *fit, OrtrainTensorDict *batch, GError **error,
                      GError *local_error)
{
  g_autoptr (OrtrainTensorDict) again = NULL;
  const guint64 failed = ortrain_training_session_get_failed_step (self->session);
  for (guint i = 0; i < fit->n_ahead; i++)
    if (fit->ahead[i].number == failed)
      {
        if (ortrain_data_loader_set_state (fit->loader, fit->ahead[i].before, NULL))
          again = ortrain_trainer_read_batch (self, fit->loader, NULL); /* from which rows are items */
        batch = fit->ahead[i].batch;
      }
  if (ortrain_training_session_has_failed_in_update (self->session))
    propagate_update_error (self, fit, batch, error, local_error);
  else
    ortrain_evaluation_propagate (self->session, fit->loader, NULL, error, local_error);
  forget_ahead (fit);
}

/* Counts steps until n are left of which the loss is not known. quietly: the progress of the last of them is left to
 * the caller. */
static gboolean
settle (OrtrainTrainer *self, OrtrainFit *fit, guint n, gboolean quietly, GError **error)
{
  while (fit->n_ahead > n)
    {
      g_autoptr (GError) local_error = NULL;
      if (!ortrain_training_session_wait_pending (self->session, fit->n_ahead - 1, &local_error))
        {
          propagate_step_error (self, fit, fit->ahead[0].batch, error, g_steal_pointer (&local_error));
          return FALSE;
        }
      const guint64 number = fit->ahead[0].number;
      count_loss (self, fit, number);
      fit->learning_rate = ortrain_training_session_get_learning_rate_after (
          self->session, ortrain_training_session_peek_result (self->session, number)->n_updates);
      ahead_clear (&fit->ahead[0]);
      memmove (fit->ahead, fit->ahead + 1, (MAX_AHEAD - 1) * sizeof *fit->ahead);
      fit->n_ahead--;
      memset (&fit->ahead[fit->n_ahead], 0, sizeof *fit->ahead);
      if (!ortrain_fit_log_step (fit, error))
        return FALSE;
      if (fit->n_ahead > n || !quietly)
        emit_progress (self, fit);
    }
  return TRUE;
}

/* A handler that is called between steps finds the session as it is then, and may stop it there. */
static gboolean
calls_between_steps (OrtrainTrainer *self)
{
  return ortrain_trainer_wants_progress (self) && ortrain_signal_queue_is_on_owner (self->signal_queue);
}

/* Whether a checkpoint is due that depends on updates of which it is not known whether they were left out. */
static gboolean
may_save (OrtrainTrainer *self)
{
  OrtrainTrainingSession *session = self->session;
  const guint64 n_updates = ortrain_training_session_peek_n_updates (session);
  const guint n_submitted = ortrain_training_session_get_n_submitted (session);
  if (self->checkpoint_steps == 0 || !ortrain_training_session_may_skip_updates (session))
    return FALSE;
  for (guint i = 0; i <= n_submitted && i <= n_updates; i++)
    if ((n_updates - i) % self->checkpoint_steps == 0)
      return TRUE;
  return FALSE;
}

/* A step whose loss is read when the next one is submitted, unless it has run already or something depends on it. */
static gboolean
submit_step (OrtrainTrainer *self, OrtrainFit *fit, OrtrainTensorDict *batch, GVariant *before, GError **error)
{
  OrtrainTrainingSession *session = self->session;
  g_autoptr (GError) local_error = NULL;
  ortrain_fit_show_start (self, fit, batch);
  const gboolean ok = ortrain_training_session_run_train_and_update (session, batch, NULL, &local_error);
  if (!ok)
    {
      propagate_step_error (self, fit, batch, error, g_steal_pointer (&local_error));
      return FALSE;
    }
  fit->ahead[fit->n_ahead++] = (Ahead){
    .batch = g_object_ref (batch),
    .before = g_variant_ref (before),
    .number = ortrain_training_session_get_last_step (session),
  };
  const gboolean has_run = ortrain_training_session_get_n_submitted (session) == 0;
  const gboolean waits = has_run || may_save (self) || calls_between_steps (self);
  if (!settle (self, fit, waits ? 0 : 1, waits, error))
    return FALSE;
  if (is_save_due (self) && !(settle (self, fit, 0, TRUE, error) && ortrain_fit_save_checkpoint (self, fit, error)))
    return FALSE;
  if (fit->n_ahead == 0)
    emit_progress (self, fit);
  return TRUE;
}

/* Steps with an update each, on a device that computes by itself. */
static gboolean
run_epoch_ahead (OrtrainTrainer *self, OrtrainFit *fit, GCancellable *cancellable, GError **error)
{
  while (ortrain_training_session_can_submit_whole (self->session))
    {
      if (g_cancellable_is_cancelled (cancellable))
        {
          if (settle (self, fit, 0, FALSE, error))
            is_cancelled (self, fit, cancellable, error);
          return FALSE;
        }
      if (is_stopped (self, fit))
        return settle (self, fit, 0, FALSE, error) && stop_in_epoch (self, fit, error);
      g_autoptr (GError) local_error = NULL;
      g_autoptr (GVariant) before = ortrain_data_loader_get_state (fit->loader);
      g_autoptr (OrtrainTensorDict) batch = ortrain_trainer_read_batch (self, fit->loader, &local_error);
      if (batch == NULL && (local_error == NULL || !settle (self, fit, 0, FALSE, error)))
        {
          fit->trained = local_error == NULL && settle (self, fit, 0, FALSE, error);
          return fit->trained;
        }
      if (batch == NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (!submit_step (self, fit, batch, before, error))
        return FALSE;
    }
  return settle (self, fit, 0, FALSE, error);
}

static gboolean
run_epoch (OrtrainTrainer *self, OrtrainFit *fit, GCancellable *cancellable, GError **error)
{
  guint n_accumulated =
      ortrain_training_options_get_accumulation_steps (ortrain_training_session_get_options (self->session));
  if (n_accumulated == 1 && !run_epoch_ahead (self, fit, cancellable, error))
    return FALSE;
  while (!fit->trained && !fit->stopped)
    {
      gboolean first = fit->n_waiting == 0;
      if (first && is_cancelled (self, fit, cancellable, error))
        return FALSE;
      if (first && is_stopped (self, fit))
        return stop_in_epoch (self, fit, error);
      g_autoptr (GError) local_error = NULL;
      g_autoptr (GVariant) before = first && cancellable != NULL ? ortrain_data_loader_get_state (fit->loader) : NULL;
      g_autoptr (OrtrainTensorDict) batch = ortrain_trainer_read_batch (self, fit->loader, &local_error);
      if (batch == NULL && local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (batch == NULL)
        break;
      ortrain_fit_show_start (self, fit, batch);
      /* An interrupted step leaves no trace, but the gradients of the steps before it cannot be restored: then
       * cancelling waits for the update. */
      double loss;
      const gboolean ok = ortrain_training_session_run_train_step (self->session, batch, first ? cancellable : NULL,
                                                                   &loss, &local_error);
      if (!ok && first && g_cancellable_is_cancelled (cancellable) &&
          ortrain_data_loader_set_state (fit->loader, before, NULL) && is_cancelled (self, fit, cancellable, error))
        return FALSE;
      if (!ok)
        {
          ortrain_evaluation_propagate (self->session, fit->loader, NULL, error, g_steal_pointer (&local_error));
          return FALSE;
        }
      fit->n_waiting++;
      count_loss (self, fit, ortrain_training_session_get_last_step (self->session));
      if (fit->n_waiting >= n_accumulated && !update (self, fit, batch, error))
        return FALSE;
      fit->learning_rate = ortrain_training_session_get_current_learning_rate (self->session);
      if (!ortrain_fit_log_step (fit, error))
        return FALSE;
      emit_progress (self, fit);
    }
  if (fit->stopped)
    return TRUE;
  if (fit->n_waiting > 0 && !update (self, fit, NULL, error))
    return FALSE;
  fit->trained = TRUE;
  return TRUE;
}

static gboolean
ends_early (OrtrainTrainer *self, OrtrainFit *fit)
{
  return self->patience > 0 && fit->waited >= self->patience && fit->epoch < self->epochs;
}

static gboolean
compute_metrics (OrtrainTrainer *self, OrtrainEpochRecord *record, GError **error)
{
  const guint n = g_list_model_get_n_items (self->metrics);
  record->value_names = g_new0 (char *, n + 1);
  record->values = g_new0 (double, n);
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainMetric) metric = g_list_model_get_item (self->metrics, i);
      record->value_names[i] = g_strdup (ortrain_metric_get_title (metric));
      if (!ortrain_metric_compute (metric, &record->values[i], error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
end_epoch (OrtrainTrainer *self, OrtrainFit *fit, double began, GCancellable *cancellable, gboolean *stop,
           GError **error)
{
  g_autoptr (OrtrainEpochRecord) record = g_object_new (ORTRAIN_TYPE_EPOCH_RECORD, NULL);
  g_autoptr (GError) local_error = NULL;
  const double trained = g_timer_elapsed (fit->timer, NULL);
  record->epoch = fit->epoch + 1;
  record->loss = get_mean_loss (fit);
  record->skipped_updates = fit->n_skipped;
  record->uncounted_steps = fit->n_uncounted;
  record->validation_loss = NAN;
  record->metric = -1;
  record->peak_bytes = fit->peak_bytes;
  if (ortrain_training_options_get_stop_on_nan (ortrain_training_session_get_options (self->session)) &&
      !ortrain_training_session_run_check_finite (self->session, error))
    return FALSE;
  if (self->validation != NULL && !ortrain_evaluate_dataset (self, self->validation, cancellable,
                                                             &record->validation_loss, &record->metric, &local_error))
    {
      if (!g_cancellable_is_cancelled (cancellable) || !is_cancelled (self, fit, cancellable, error))
        g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (self->validation != NULL && !compute_metrics (self, record, error))
    return FALSE;
  ortrain_object_list_append (ORTRAIN_OBJECT_LIST (fit->history->epochs), record);
  fit->last_metric = record->metric;
  const double value = ortrain_monitor_get_value (&fit->history->monitor, record);
  OrtrainLrSchedule *schedule =
      ortrain_training_options_get_schedule (ortrain_training_session_get_options (self->session));
  if (schedule != NULL && isfinite (value)) /* schedules expect an observed value that falls */
    ortrain_lr_schedule_observe (schedule, fit->history->monitor.lower_is_better ? value : -value);
  record->learning_rate = ortrain_training_session_get_current_learning_rate (self->session);
  record->seconds = g_timer_elapsed (fit->timer, NULL) - began;
  const gboolean best = ortrain_monitor_is_better (&fit->history->monitor, value, fit->best);
  if (best)
    {
      fit->best = value;
      fit->waited = 0;
    }
  else
    fit->waited++;
  fit->epoch++;
  fit->step = 0;
  fit->sum = fit->weight = 0;
  fit->n_summed = fit->n_uncounted = fit->n_skipped = 0;
  fit->peak_bytes = 0;
  fit->trained = FALSE;
  if (!ortrain_fit_log_epoch (fit, record, error) || (best && !ortrain_fit_keep_best (self, fit, error)))
    return FALSE;
  ortrain_trainer_emit (self, ORTRAIN_TRAINER_EVENT, g_object_ref (record), g_object_unref);
  const gboolean asked = g_atomic_int_get (&self->stop_asked) && fit->epoch < self->epochs;
  *stop = ends_early (self, fit) || asked;
  fit->last_pause = g_timer_elapsed (fit->timer, NULL) - trained;
  fit->paused += fit->last_pause;
  gboolean due = asked || (self->checkpoint_epochs > 0 &&
                           (fit->epoch % self->checkpoint_epochs == 0 || *stop || fit->epoch == self->epochs));
  return !due || ortrain_fit_save_checkpoint (self, fit, error);
}

/* Before anything is changed. */
static gboolean
check_logs (OrtrainTrainer *self, GError **error)
{
  for (guint i = 0; self->logs != NULL && self->logs[i] != NULL; i++)
    if (!ortrain_training_log_check_path (self->logs[i], error))
      return FALSE;
  return TRUE;
}

/* A last batch of one item may have too little for batch normalization: that is known before anything is trained. */
static gboolean
check_last_batch (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  const guint64 n = ortrain_dataset_get_length (self->dataset);
  if (n == 0 || self->batch_size == 1 || (n % self->batch_size != 1 && n != 1) || (self->drop_last && n != 1) ||
      ortrain_training_session_get_n_buffer_elements (self->session) == 0 || fit->epoch >= self->epochs)
    return TRUE;
  g_autoptr (GError) local_error = NULL;
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (self->dataset, 1);
  ortrain_data_loader_set_shuffle (loader, FALSE);
  g_autoptr (OrtrainTensorDict) batch = ortrain_trainer_read_batch (self, loader, &local_error);
  if (batch == NULL)
    return TRUE; /* the training will say so */
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_run_plan (self->session, batch, &local_error);
  if (plan == NULL || ortrain_executor_check_trainable (plan, &local_error))
    return TRUE;
  g_propagate_prefixed_error (error, g_steal_pointer (&local_error),
                              "The last batch of %" G_GUINT64_FORMAT " items in batches of %u has one item: ", n,
                              self->batch_size);
  return FALSE;
}

/* The epochs of the schedule are those of the training. */
static void
begin_epochs (OrtrainTrainer *self, OrtrainFit *fit)
{
  OrtrainLrSchedule *schedule =
      ortrain_training_options_get_schedule (ortrain_training_session_get_options (self->session));
  const guint64 n_batches = ortrain_data_loader_get_n_batches (fit->loader);
  const guint accumulation_steps =
      MAX (ortrain_training_options_get_accumulation_steps (ortrain_training_session_get_options (self->session)), 1);
  if (schedule != NULL && n_batches > 0)
    ortrain_lr_schedule_begin_epochs (schedule, (n_batches + accumulation_steps - 1) / accumulation_steps,
                                      ortrain_training_session_peek_n_updates (self->session));
}

/* A training that has not changed the parameters has no result. */
static gboolean
check_updates (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  OrtrainTrainingSession *session = self->session;
  if (fit->n_left_out == 0 || ortrain_training_session_peek_n_updates (session) > fit->n_updates_before || fit->stopped)
    return TRUE;
  const OrtrainLossScaling *scaling = ortrain_training_session_peek_loss_scaling (session);
  const double scale = ortrain_training_session_get_loss_scale (session);
  g_autofree char *cause =
      !scaling->is_on ? g_strdup ("gradients were not finite; reduce the learning rate, and look at the data")
      : scaling->is_dynamic
          ? g_strdup_printf ("the scaled gradients are not finite in float16, with a loss scale that has fallen to %g; "
                             "train more steps, begin with a lower scale (initial-scale of the loss-scaler), or set "
                             "the precision to bf16 or f32",
                             scale)
          : g_strdup_printf ("the scaled gradients are not finite in float16, with a loss scale of %g; set a lower or "
                             "a dynamic one (loss-scaler), or set the precision to bf16 or f32",
                             scale);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
               "All %" G_GUINT64_FORMAT " updates were skipped, nothing was trained: %s", fit->n_left_out, cause);
  return FALSE;
}

/* The claim on the session is held by this thread. */
static OrtrainTrainingHistory *
run_fit (OrtrainTrainer *self, GCancellable *cancellable, GError **error)
{
  OrtrainFit fit = { .last_loss = NAN, .last_metric = -1, .best = NAN };
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (self->dataset, self->batch_size);
  g_autoptr (OrtrainTrainingHistory) history = g_object_new (ORTRAIN_TYPE_TRAINING_HISTORY, NULL);
  g_autoptr (GTimer) timer = g_timer_new ();
  gboolean ok = TRUE, stop = FALSE;
  ortrain_data_loader_set_shuffle (loader, self->shuffle);
  ortrain_data_loader_set_seed (loader, self->seed);
  ortrain_data_loader_set_drop_last (loader, self->drop_last);
  ortrain_data_loader_set_prefetch (loader, self->prefetch);
  fit.loader = loader;
  fit.history = history;
  fit.timer = timer;
  begin_epochs (self, &fit);
  fit.learning_rate = ortrain_training_session_get_current_learning_rate (self->session);
  if (!ortrain_monitor_take (&history->monitor, self, error) ||
      !ortrain_training_session_wait_pending (self->session, 0, error))
    return NULL;
  ortrain_training_session_decide_updates (self->session);
  ok = check_logs (self, error) && ortrain_fit_resume (self, &fit, error) && ortrain_fit_open_logs (self, &fit, error);
  begin_epochs (self, &fit); /* the resumed training may have had other ones */
  fit.n_skipped_by_then = ortrain_training_session_peek_n_skipped (self->session);
  fit.n_updates_before = ortrain_training_session_peek_n_updates (self->session);
  ok = ok && check_last_batch (self, &fit, error);
  stop = ok && ends_early (self, &fit);
  if (ok && fit.trained)
    ortrain_fit_show_start (self, &fit, NULL);
  while (ok && !stop && fit.epoch < self->epochs)
    {
      double began = g_timer_elapsed (timer, NULL);
      ok = (fit.trained || run_epoch (self, &fit, cancellable, error)) &&
           (fit.stopped || end_epoch (self, &fit, began, cancellable, &stop, error));
      stop = stop || fit.stopped;
    }
  forget_ahead (&fit);
  if (self->display.active)
    ortrain_trainer_emit (self, ORTRAIN_TRAINER_END, NULL, NULL);
  g_clear_pointer (&fit.logs, g_ptr_array_unref);
  ok = ok && check_updates (self, &fit, error) && ortrain_fit_restore_best (self, &fit, error);
  g_clear_object (&fit.best_state);
  history->stopped_early = stop;
  history->seconds = g_timer_elapsed (timer, NULL);
  return ok ? g_steal_pointer (&history) : NULL;
}

/* ---- Calls ---- */

static gboolean
check_made (OrtrainTrainer *self, GError **error)
{
  if (self->session != NULL && self->dataset != NULL)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
               "The trainer was not created by its constructor; use Trainer.new");
  return FALSE;
}

/**
 * ortrain_trainer_fit:
 * @self: a trainer
 * @cancellable: (nullable): a cancellable, looked at between updates
 * @error: return location for an error
 *
 * Trains, and blocks until it is done. With a [property@Trainer:patience], the session has the parameters of the best
 * epoch then, unless [property@Trainer:restore-best] says otherwise. Updates are immediate where nothing needs the
 * gradients, unless [property@TrainingOptions:immediate-updates] says otherwise.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_OPTION for a [property@Trainer:monitor] that epochs do not have,
 * %G_IO_ERROR_CANCELLED, those of the dataset, those of [method@TrainingSession.train_step] and
 * [method@TrainingSession.optimizer_step] and, with a folder for checkpoints, those of [error@CheckpointError] and
 * [error@Gio.IOErrorEnum], the latter of logs, too. %ORTRAIN_SESSION_ERROR_INDEX and %ORTRAIN_SESSION_ERROR_NOT_FINITE
 * name the item of the dataset, where one is to blame. A training all of whose updates were skipped, as gradients were
 * not finite
 * ([class@LossScaler]), ends with %ORTRAIN_SESSION_ERROR_NOT_FINITE, too.
 *
 * Returns: (transfer full): the results; %NULL on error
 */
OrtrainTrainingHistory *
ortrain_trainer_fit (OrtrainTrainer *self, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);

  if (!check_made (self, error) || !ortrain_training_session_claim (self->session, error))
    return NULL;
  g_atomic_int_set (&self->stop_asked, FALSE);
  ortrain_trainer_begin_display (self);
  ortrain_training_session_adopt (self->session);
  OrtrainTrainingHistory *history = run_fit (self, cancellable, error);
  ortrain_training_session_leave (self->session);
  return history;
}

/* Runs func on the session's own thread, with the claim on the session. */
static void
start (OrtrainTrainer *self, GTask *task, GTaskThreadFunc func)
{
  GError *error = NULL;
  g_task_set_check_cancellable (task, FALSE); /* work that was done before the cancellation is reported as done */
  if (!check_made (self, &error) || !ortrain_training_session_claim (self->session, &error))
    g_task_return_error (task, error);
  else if (g_atomic_int_set (&self->stop_asked, FALSE), ortrain_trainer_begin_display (self),
           !ortrain_training_session_start_task (self->session, task, func, &error))
    {
      ortrain_training_session_leave (self->session);
      g_task_return_error (task, error);
    }
}

static void
fit_in_thread (GTask *task, gpointer source, gpointer nothing, GCancellable *cancellable)
{
  OrtrainTrainer *self = source;
  GError *error = NULL;
  ortrain_training_session_adopt (self->session);
  OrtrainTrainingHistory *history = run_fit (self, cancellable, &error);
  ortrain_training_session_leave (self->session);
  if (history != NULL)
    g_task_return_pointer (task, history, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_trainer_fit_async:
 * @self: a trainer
 * @cancellable: (nullable): a cancellable, looked at between updates
 * @callback: (scope async): called when training has ended
 * @user_data: data for @callback
 *
 * Trains on the own thread of the session, see [method@Trainer.fit].
 */
void
ortrain_trainer_fit_async (OrtrainTrainer *self, GCancellable *cancellable, GAsyncReadyCallback callback,
                           gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, ortrain_trainer_fit_async);
  start (self, task, fit_in_thread);
}

/**
 * ortrain_trainer_fit_finish:
 * @self: a trainer
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [method@Trainer.fit_async]. It fails as [method@Trainer.fit] does.
 *
 * Returns: (transfer full): the results; %NULL on error
 */
OrtrainTrainingHistory *
ortrain_trainer_fit_finish (OrtrainTrainer *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_trainer_fit_async), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * ortrain_trainer_evaluate:
 * @self: a trainer
 * @dataset: data with targets
 * @cancellable: (nullable): a cancellable, looked at between batches
 * @loss: (out) (optional): the mean loss; not a number if there are no targets, or none that counts
 * @metric: (out) (optional): the accuracy, -1 if no loss is a cross entropy
 * @error: return location for an error
 *
 * Evaluates the model on some data, in batches of the size that the trainer uses, and blocks until that is done;
 * metrics that were added to the trainer have their values then, see [method@Metric.compute]. In the mean of a loss,
 * each batch is weighted by the number of elements that its own loss is the mean of
 * ([method@TrainingSession.get_step_weight]), such as its labels that are not ignored: the mean does not depend on the
 * size of batches. Errors are %G_IO_ERROR_CANCELLED, those of the dataset, and those of
 * [method@TrainingSession.eval_step].
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
  gboolean ok = ortrain_evaluate_dataset (self, dataset, cancellable, &a, &b, error);
  ortrain_training_session_leave (self->session);
  if (loss != NULL)
    *loss = isnan (a) ? NAN : a;
  if (metric != NULL)
    *metric = b;
  return ok;
}

static void
evaluate_in_thread (GTask *task, gpointer source, gpointer dataset, GCancellable *cancellable)
{
  OrtrainTrainer *self = source;
  GError *error = NULL;
  double *found = g_new (double, 2);
  ortrain_training_session_adopt (self->session);
  gboolean ok = ortrain_evaluate_dataset (self, dataset, cancellable, &found[0], &found[1], &error);
  ortrain_training_session_leave (self->session);
  if (ok)
    g_task_return_pointer (task, found, g_free);
  else
    {
      g_free (found);
      g_task_return_error (task, error);
    }
}

/**
 * ortrain_trainer_evaluate_async:
 * @self: a trainer
 * @dataset: data with targets
 * @cancellable: (nullable): a cancellable, looked at between batches
 * @callback: (scope async): called when it is done
 * @user_data: data for @callback
 *
 * Tries the model on the own thread of the session, see [method@Trainer.evaluate].
 */
void
ortrain_trainer_evaluate_async (OrtrainTrainer *self, OrtrainDataset *dataset, GCancellable *cancellable,
                                GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  g_return_if_fail (ORTRAIN_IS_DATASET (dataset));

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, ortrain_trainer_evaluate_async);
  g_task_set_task_data (task, g_object_ref (dataset), g_object_unref);
  start (self, task, evaluate_in_thread);
}

/**
 * ortrain_trainer_evaluate_finish:
 * @self: a trainer
 * @result: the result
 * @loss: (out) (optional): the mean loss; not a number if there are no targets
 * @metric: (out) (optional): the accuracy, -1 if no loss is a cross entropy
 * @error: return location for an error
 *
 * Finishes [method@Trainer.evaluate_async]. It fails as [method@Trainer.evaluate] does.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_trainer_evaluate_finish (OrtrainTrainer *self, GAsyncResult *result, double *loss, double *metric,
                                 GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_trainer_evaluate_async), FALSE);

  g_autofree double *found = g_task_propagate_pointer (G_TASK (result), error);
  if (loss != NULL)
    *loss = found != NULL && !isnan (found[0]) ? found[0] : NAN;
  if (metric != NULL)
    *metric = found != NULL ? found[1] : -1;
  return found != NULL;
}
