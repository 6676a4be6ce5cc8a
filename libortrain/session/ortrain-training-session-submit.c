/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps that are submitted to a device without waiting for what becomes of them.
 *
 * A step is submitted whole: forward, backward and update. What the host would look at before an update is looked at on the
 * device: a fault, or a number that a StepGuard does not let pass, stays in the fault word, and updates do nothing from
 * there on, nor do those of a step that is submitted behind it. When the host finds the fault, it puts counters and buffers
 * back to where they were before that step, and runs it again phase by phase, which ends as it does where nothing is
 * submitted ahead. */
#include "session/ortrain-training-session-private.h"
#include "session/ortrain-training-session-signals-private.h"

#include <string.h>

static gboolean
has_padding (const OrtrainParameterStore *store)
{
  for (guint i = 0; i < store->n_parameters; i++)
    if (store->parameters[i].padding_row >= 0 && store->parameters[i].gradient != NULL)
      return TRUE;
  return FALSE;
}

static gboolean
clips (OrtrainTrainingSession *self)
{
  return ortrain_training_options_get_max_grad_norm (self->options) > 0 && self->graph->norm != NULL;
}

gboolean
ortrain_training_session_may_skip_updates (OrtrainTrainingSession *self)
{
  return self->graph->overflows != NULL || (clips (self) && !ortrain_training_options_get_stop_on_nan (self->options));
}

static gboolean
can_submit (OrtrainTrainingSession *self)
{
  return self->results != NULL && !self->is_repeating && !ortrain_training_session_wants_phases (self) &&
         !ortrain_step_arena_shrinks (self->arena) && !ortrain_update_set_is_custom (self->store->updates);
}

gboolean
ortrain_training_session_can_submit_update (OrtrainTrainingSession *self)
{
  return can_submit (self) && self->broken_at_once == ORTRAIN_UPDATE_NONE_BROKEN &&
         ortrain_executor_can_join_phases (self->last_trained);
}

gboolean
ortrain_training_session_can_submit_steps (OrtrainTrainingSession *self)
{
  return can_submit (self) && self->n_accumulated == 0;
}

guint
ortrain_training_session_get_n_submitted (OrtrainTrainingSession *self)
{
  guint n = 0;
  for (guint i = 0; i < G_N_ELEMENTS (self->submitted); i++)
    n += self->submitted[i].is_open;
  return n;
}

/* ---- submitting ---- */

/* Copies of what an update, or a whole step, has found, and the mark behind them. */
static gboolean
read_results (OrtrainTrainingSession *self, guint slot, GError **error)
{
  const OrtrainTrainingGraph *graph = self->graph;
  const OrtrainSubmittedStep *submitted = &self->submitted[slot];
  OrtrainExecutor *executor = self->last_trained;
  OrtrainStepOutcome *result = ortrain_step_readback_get (self->results, slot);
  const gsize loss_bytes = graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64 ? sizeof (double) : sizeof (float);
  const gboolean at_once = submitted->has_step && graph->broken_at_once != NULL;
  result->broken = ORTRAIN_UPDATE_NONE_BROKEN;
  result->broken_at_once = submitted->has_step ? ORTRAIN_UPDATE_NONE_BROKEN : submitted->broken_at_once;
  return (!submitted->has_step ||
          ortrain_executor_submit_read (executor, graph->loss, &result->loss, loss_bytes, error)) &&
         (!submitted->has_norm ||
          ortrain_executor_submit_read (executor, graph->norm, &result->norm, sizeof result->norm, error)) &&
         (graph->broken == NULL ||
          ortrain_executor_submit_read (executor, graph->broken, &result->broken, sizeof result->broken, error)) &&
         (!at_once || ortrain_executor_submit_read (executor, graph->broken_at_once, &result->broken_at_once,
                                                    sizeof result->broken_at_once, error)) &&
         (graph->overflows == NULL ||
          ortrain_parameter_store_submit_read_scaler (self->store, &result->scaler, error)) &&
         ortrain_device_context_read_fault (self->device_context, &result->fault, error) &&
         ortrain_step_readback_mark (self->results, slot, error);
}

static OrtrainSubmittedStep *
begin_submitted (OrtrainTrainingSession *self, guint *slot)
{
  *slot = self->next_slot;
  OrtrainSubmittedStep *submitted = &self->submitted[*slot];
  g_clear_object (&submitted->feeds);
  *submitted = (OrtrainSubmittedStep){
    .has_norm = clips (self) || self->graph->overflows != NULL,
    .stops = ortrain_training_options_get_stop_on_nan (self->options),
    .n_train_steps = self->n_train_steps,
    .n_updates = self->n_updates,
    .gradient_scale = self->loss_scale,
    .broken_at_once = self->broken_at_once,
  };
  return submitted;
}

/* It counts from now on; what fails is taken back. */
static void
end_submitted (OrtrainTrainingSession *self, OrtrainSubmittedStep *submitted)
{
  submitted->is_open = TRUE;
  g_atomic_pointer_set (&self->submitter, g_thread_self ());
  self->next_slot = (self->next_slot + 1) % G_N_ELEMENTS (self->submitted);
  self->n_accumulated = 0;
  g_mutex_lock (&self->lock);
  self->n_train_steps += submitted->has_step;
  self->n_updates++;
  g_mutex_unlock (&self->lock);
}

/* Whether the update before may turn out to have been left out, so that the next one is not the one that it is counted as.
 * There is one at most of which that is not known. */
static gboolean
previous_update_unknown (OrtrainTrainingSession *self)
{
  gboolean may = FALSE;
  G_STATIC_ASSERT (ORTRAIN_N_STEP_RESULTS == 2);
  for (guint i = 0; i < G_N_ELEMENTS (self->submitted); i++)
    {
      const OrtrainSubmittedStep *submitted = &self->submitted[i];
      const gboolean fails = submitted->has_step && submitted->stops && self->graph->overflows == NULL;
      may = may || (submitted->is_open && submitted->has_norm && !fails);
    }
  return may;
}

/* From memory that the device copies from while the host goes on. */
static gboolean
write_scalars (OrtrainTrainingSession *self, guint slot, double factor, double mean, GError **error)
{
  const double max_norm = self->graph->immediate ? 0.0 : ortrain_training_options_get_max_grad_norm (self->options);
  const double *scalars =
      ortrain_update_set_fill_scalars (self->store->updates, self->n_updates + 1, factor, mean, max_norm, error);
  if (scalars == NULL)
    return FALSE;
  if (previous_update_unknown (self))
    {
      if (!ortrain_training_session_get_factor (self, self->n_updates - 1, &factor, error))
        return FALSE;
      ortrain_update_set_fill_skipped (self->store->updates, self->n_updates, factor);
    }
  double *told = ortrain_step_readback_get_scalars (self->results, slot);
  memcpy (told, scalars, ortrain_update_set_get_n_written (self->store->updates) * sizeof *told);
  return ortrain_parameter_store_write_scalars (self->store, told, error);
}

/* The same for the scalars of a step. */
static const OrtrainStepBlock *
write_step_block (OrtrainTrainingSession *self, guint slot, gboolean guards)
{
  OrtrainStepBlock *told = &ortrain_step_readback_get (self->results, slot)->step;
  *told = ortrain_training_session_make_step (self);
  told->guards = guards;
  return told;
}

gboolean
ortrain_training_session_submit_update (OrtrainTrainingSession *self, double factor, GError **error)
{
  const double mean = ortrain_training_session_get_mean_factor (self);
  guint slot;
  OrtrainSubmittedStep *submitted = begin_submitted (self, &slot);
  const gboolean ok =
      (self->graph->immediate || write_scalars (self, slot, factor, mean, error)) &&
      ortrain_device_context_begin (self->device_context, write_step_block (self, slot, FALSE), error) &&
      ortrain_executor_submit (self->last_trained, ORTRAIN_PROGRAM_PHASE, ORTRAIN_PHASE_UPDATE, NULL, error) &&
      read_results (self, slot, error);
  if (ok)
    end_submitted (self, submitted);
  else
    ortrain_device_context_wait (self->device_context, NULL, NULL);
  return ok;
}

/* The calls of a step. Rows of padding are no part of the plan: they lie between two ranges. */
static gboolean
submit_calls (OrtrainTrainingSession *self, GError **error)
{
  OrtrainExecutor *executor = self->last_trained;
  if (!has_padding (self->store))
    return ortrain_executor_submit (executor, ORTRAIN_PROGRAM_STEP, ORTRAIN_PHASE_FORWARD, NULL, error);
  if (!ortrain_executor_submit (executor, ORTRAIN_PROGRAM_GRADIENTS, ORTRAIN_PHASE_FORWARD, NULL, error))
    return FALSE;
  ortrain_parameter_store_zero_padding (self->store);
  return ortrain_executor_submit (executor, ORTRAIN_PROGRAM_PHASE, ORTRAIN_PHASE_UPDATE, NULL, error);
}

static gboolean
submit_step (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, GError **error)
{
  double factor;
  if (!ortrain_training_session_get_factor (self, self->n_updates, &factor, error) ||
      !ortrain_training_session_weigh (self, feeds, NULL, error) ||
      !ortrain_training_session_write_weight (self, error))
    return FALSE;
  const gboolean goes_on = ortrain_training_session_get_n_submitted (self) > 0;
  guint slot;
  OrtrainSubmittedStep *submitted = begin_submitted (self, &slot);
  const OrtrainStepBlock *step = write_step_block (self, slot, submitted->stops);
  submitted->has_step = TRUE;
  self->has_gradients = FALSE;
  const gboolean ok = write_scalars (self, slot, factor, 1.0, error) &&
                      ortrain_parameter_store_save_buffers (self->store, slot, error) &&
                      (goes_on ? ortrain_device_context_begin_chained
                               : ortrain_device_context_begin) (self->device_context, step, error) &&
                      submit_calls (self, error) && read_results (self, slot, error);
  if (!ok)
    {
      ortrain_device_context_wait (self->device_context, NULL, NULL);
      ortrain_parameter_store_restore_buffers (self->store, slot);
      return FALSE;
    }
  submitted->weight = self->step_weight;
  submitted->feeds = g_object_ref (feeds);
  submitted->feed_slot = self->input_staging != NULL ? ortrain_input_staging_get_current (self->input_staging) : 0;
  self->has_gradients = TRUE;
  self->gradient_scale = submitted->gradient_scale;
  end_submitted (self, submitted);
  return TRUE;
}

gboolean
ortrain_training_session_run_train_and_update (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                               GCancellable *cancellable, GError **error)
{
  const gboolean submits = ortrain_training_session_can_submit_steps (self);
  self->failed_behind = FALSE;
  if (!ortrain_training_session_wait_pending (self, submits ? 1 : 0, error) ||
      g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  if (submits)
    {
      g_autoptr (OrtrainTensorDict) feeds = ortrain_training_session_begin_step (self, inputs, error);
      OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
      if (feeds == NULL)
        return FALSE;
      if (ortrain_executor_can_join_phases (executor) && ortrain_executor_is_guarded (executor))
        {
          OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
          self->in_step = TRUE;
          const gboolean ok = submit_step (self, feeds, error);
          self->in_step = FALSE;
          ortrain_executor_release_feeds (executor);
          ortrain_training_session_note_peak (self, plan);
          return ok;
        }
      ortrain_executor_release_feeds (executor);
    }
  g_autoptr (GError) local_error = NULL;
  ortrain_training_session_run_train_step (self, inputs, cancellable, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  return ortrain_training_session_run_optimizer_step (self, error);
}

/* ---- what became of them ---- */

static void
rollback_counters (OrtrainTrainingSession *self, const OrtrainSubmittedStep *submitted, guint64 n_more)
{
  g_mutex_lock (&self->lock);
  self->n_train_steps = submitted->n_train_steps + (submitted->has_step ? n_more : 0);
  self->n_updates = submitted->n_updates + n_more;
  g_mutex_unlock (&self->lock);
}

/* The step that was submitted behind this one, which has had no effect but on buffers; NULL: there is none. */
static OrtrainSubmittedStep *
find_next (OrtrainTrainingSession *self, guint slot)
{
  OrtrainSubmittedStep *next = &self->submitted[(slot + 1) % G_N_ELEMENTS (self->submitted)];
  return next->is_open ? next : NULL;
}

/* Runs a step again, phase by phase. */
static gboolean
repeat (OrtrainTrainingSession *self, const OrtrainSubmittedStep *submitted, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = g_object_ref (submitted->feeds);
  if (self->input_staging != NULL)
    {
      OrtrainTensorDict *staged = ortrain_executor_make_staged_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN],
                                                                      submitted->feed_slot, feeds, error);
      if (staged == NULL)
        return FALSE;
      g_set_object (&feeds, staged);
      g_object_unref (staged);
    }
  self->is_repeating = TRUE;
  ortrain_training_session_run_train_step (self, feeds, NULL, &local_error);
  const gboolean ok = local_error == NULL && ortrain_training_session_run_optimizer_step (self, &local_error);
  self->is_repeating = FALSE;
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&local_error));
  return ok;
}

static gboolean
rerun_failed_step (OrtrainTrainingSession *self, guint slot, GError **error)
{
  const OrtrainSubmittedStep *submitted = &self->submitted[slot];
  OrtrainSubmittedStep *next = find_next (self, slot);
  if (!ortrain_device_context_wait (self->device_context, NULL, error))
    return FALSE;
  rollback_counters (self, submitted, 0);
  ortrain_parameter_store_restore_buffers (self->store, slot);
  self->has_gradients = FALSE;
  const gboolean ok = repeat (self, submitted, error);
  if (next != NULL)
    {
      next->is_dropped = ok;
      next->is_open = ok;
    }
  return ok;
}

static gboolean
fail_parameters (OrtrainTrainingSession *self, guint slot, gint64 broken, GError **error)
{
  OrtrainSubmittedStep *next = find_next (self, slot);
  rollback_counters (self, &self->submitted[slot], 1);
  if (next != NULL && ortrain_device_context_wait (self->device_context, NULL, error))
    {
      ortrain_parameter_store_restore_buffers (self->store, (slot + 1) % G_N_ELEMENTS (self->submitted));
      self->has_gradients = FALSE; /* they are those of the next step */
      next->is_open = FALSE;
    }
  return ortrain_training_session_refuse_parameters (self, (guint) broken, error);
}

/* What the step behind this one was submitted with was not known then. */
static void
note_scaler (OrtrainTrainingSession *self, guint slot, const OrtrainScalerState *scaler)
{
  OrtrainSubmittedStep *next = find_next (self, slot);
  ortrain_training_session_note_scaler (self, scaler);
  if (next != NULL)
    self->gradient_scale = next->gradient_scale = self->loss_scale;
}

static void
note_left_out (OrtrainTrainingSession *self, guint slot)
{
  OrtrainSubmittedStep *next = find_next (self, slot);
  self->submitted[slot].is_left_out = TRUE;
  g_mutex_lock (&self->lock);
  self->n_updates--;
  self->n_skipped++;
  g_mutex_unlock (&self->lock);
  if (next != NULL)
    next->n_updates--;
}

/* Results that are there. */
static gboolean
look_at (OrtrainTrainingSession *self, guint slot, GError **error)
{
  const OrtrainSubmittedStep *submitted = &self->submitted[slot];
  const OrtrainStepOutcome *result = ortrain_step_readback_get (self->results, slot);
  const gint64 broken = MIN (result->broken, result->broken_at_once);
  if (result->fault.code != ORTRAIN_FAULT_NONE && broken == ORTRAIN_UPDATE_NONE_BROKEN)
    return submitted->has_step ? rerun_failed_step (self, slot, error)
                               : ortrain_executor_check_fault (self->last_trained, &result->fault, NULL, error);
  if (submitted->has_step)
    {
      const double loss = self->graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64 ? result->loss.wide : result->loss.single;
      self->last_loss = ortrain_training_session_normalize (loss);
      if (!isfinite (loss))
        ortrain_training_session_emit (self, ORTRAIN_TRAINING_NOT_FINITE);
    }
  if (self->graph->overflows != NULL)
    note_scaler (self, slot, &result->scaler);
  if (submitted->has_norm)
    {
      g_mutex_lock (&self->lock);
      self->last_gradient_norm = ortrain_training_session_normalize (result->norm);
      g_mutex_unlock (&self->lock);
    }
  if (submitted->has_norm && !isfinite (result->norm))
    {
      note_left_out (self, slot);
      ortrain_training_session_emit (self, ORTRAIN_TRAINING_OVERFLOW);
      if (submitted->stops && !ortrain_training_session_is_overflow_expected (self, submitted->gradient_scale))
        return ortrain_training_session_refuse_gradients (self, result->norm, error);
    }
  return broken == ORTRAIN_UPDATE_NONE_BROKEN || !submitted->stops || fail_parameters (self, slot, broken, error);
}

static gboolean
settle_one (OrtrainTrainingSession *self, GError **error)
{
  const guint n_open = ortrain_training_session_get_n_submitted (self);
  const guint slot = (self->next_slot + G_N_ELEMENTS (self->submitted) - n_open) % G_N_ELEMENTS (self->submitted);
  OrtrainSubmittedStep *submitted = &self->submitted[slot];
  gboolean ok;
  self->failed_item = -1;
  self->is_settling = TRUE;
  if (submitted->is_dropped)
    {
      submitted->is_open = submitted->is_dropped = FALSE;
      ok = repeat (self, submitted, error);
    }
  else
    {
      ok = ortrain_step_readback_await (self->results, slot, error);
      submitted->is_open = FALSE;
      ok = ok && look_at (self, slot, error);
    }
  self->is_settling = FALSE;
  submitted->loss = ok && submitted->has_step ? self->last_loss : NAN;
  self->failed_behind = !ok;
  g_clear_object (&submitted->feeds);
  return ok;
}

/* A step that has to be run before any other. */
static gboolean
has_dropped (OrtrainTrainingSession *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->submitted); i++)
    if (self->submitted[i].is_open && self->submitted[i].is_dropped)
      return TRUE;
  return FALSE;
}

gboolean
ortrain_training_session_wait_pending (OrtrainTrainingSession *self, guint n, GError **error)
{
  if (G_UNLIKELY (self->outcome != NULL))
    {
      g_propagate_error (error, g_steal_pointer (&self->outcome));
      return FALSE;
    }
  while (!self->is_repeating && (ortrain_training_session_get_n_submitted (self) > n || has_dropped (self)))
    if (!settle_one (self, error))
      return FALSE;
  return TRUE;
}

void
ortrain_training_session_store_pending_error (OrtrainTrainingSession *self)
{
  GError *error = NULL;
  if (self->outcome == NULL && !self->in_step && !self->is_settling &&
      !ortrain_training_session_wait_pending (self, 0, &error))
    self->outcome = error;
}

void
ortrain_training_session_set_submitter (OrtrainTrainingSession *self, GThread *thread)
{
  g_atomic_pointer_compare_and_exchange (&self->submitter, g_thread_self (), thread);
}

void
ortrain_training_session_try_wait_pending (OrtrainTrainingSession *self)
{
  if (g_atomic_pointer_get (&self->submitter) != g_thread_self () || !ortrain_training_session_enter_step (self, NULL))
    return;
  ortrain_training_session_store_pending_error (self);
  ortrain_training_session_leave (self);
}

void
ortrain_training_session_discard_pending (OrtrainTrainingSession *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->submitted); i++)
    {
      self->submitted[i].is_open = FALSE;
      g_clear_object (&self->submitted[i].feeds);
    }
  g_clear_error (&self->outcome);
}

/* ---- calls ---- */

/**
 * ortrain_training_session_train_and_update:
 * @self: a session
 * @inputs: one tensor for each input of the model and each target; labels may be of any integer type
 * @error: return location for an error
 *
 * Runs a training step and the update behind it, as [method@TrainingSession.train_step] and
 * [method@TrainingSession.optimizer_step] do one after the other, with the same results to the bit.
 *
 * On a device that computes by itself, such as a GPU, it submits both as one piece of work and returns without waiting
 * for it; up to two steps are under way. [method@TrainingSession.get_last_loss] waits for the loss. What became of a
 * step is known to the next call but one of this function, and to every other method that uses the session: a step that
 * fails is an error of that call, as it would have been of this one, and neither it nor a step that was submitted behind
 * it has changed anything. @inputs may be changed as soon as this returns, but for tensors in the memory of the device,
 * which must stay as they are until another call has waited. Where a handler of a phase is connected, where gradients of
 * earlier steps are kept, and on the CPU, it waits.
 *
 * Errors are those of [method@TrainingSession.train_step] and [method@TrainingSession.optimizer_step].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_train_and_update (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), FALSE);

  if (!ortrain_training_session_enter_step (self, error))
    return FALSE;
  const gboolean ok = ortrain_training_session_run_train_and_update (self, inputs, NULL, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_get_last_loss:
 * @self: a session
 * @error: return location for an error
 *
 * Gets the loss of the last training step; it waits for steps that were submitted by
 * [method@TrainingSession.train_and_update], and fails where one of them has failed, with an error of
 * [error@SessionError] or [error@DeviceError].
 *
 * Returns: the loss; not a number on error, and before the first step
 */
double
ortrain_training_session_get_last_loss (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NAN);

  if (!ortrain_training_session_enter (self, TRUE, error))
    return NAN;
  const double loss = self->n_train_steps > 0 ? self->last_loss : NAN;
  ortrain_training_session_leave (self);
  return loss;
}
