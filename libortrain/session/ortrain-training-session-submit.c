/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps that are submitted to a device without waiting for their outcome.
 *
 * A step is submitted whole: forward and backward, with or without an update. The checks that the host would make
 * before an update are made on the device: a fault, or a number that a StepGuard does not let pass, stays in the fault
 * word, and updates do nothing from there on, nor do those of a step that is submitted after it. When the host finds
 * the fault, it puts counters and buffers back to where they were before that step, and runs it again phase by phase,
 * which ends as it does where nothing is submitted ahead. */
#include "core/ortrain-log-private.h"
#include "core/ortrain-trace-private.h"
#include "model/ortrain-model-private.h"
#include "session/ortrain-training-session-private.h"
#include "session/ortrain-training-session-signals-private.h"

#include <math.h>
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
  return ortrain_step_queue_get_readback (self->queue) != NULL &&
         !ortrain_step_queue_has (self->queue, ORTRAIN_STEP_REPEATING) && !ortrain_training_session_wants_phases (self);
}

/* An update by the host, or an arena that gives memory back between steps, needs the end of a step. */
static gboolean
updates_on_device (OrtrainTrainingSession *self)
{
  return !ortrain_step_arena_shrinks (self->arena) && !ortrain_update_set_is_custom (self->store->updates);
}

gboolean
ortrain_training_session_can_submit_update (OrtrainTrainingSession *self)
{
  return can_submit (self) && updates_on_device (self) && self->broken_at_once == ORTRAIN_UPDATE_NONE_BROKEN &&
         ortrain_executor_can_join_phases (self->last_trained);
}

gboolean
ortrain_training_session_can_submit_steps (OrtrainTrainingSession *self, OrtrainStepParts parts)
{
  return can_submit (self) && self->n_accumulated == 0 &&
         (parts == ORTRAIN_STEP_PART_TRAIN ? !self->graph->immediate : updates_on_device (self));
}

guint
ortrain_training_session_get_n_submitted (OrtrainTrainingSession *self)
{
  return ortrain_step_queue_get_n_open (self->queue);
}

/* ---- submitting ---- */

/* Copies the results of an update, or of a whole step, and sets the mark after the copies. */
static gboolean
read_results (OrtrainTrainingSession *self, const OrtrainQueuedStep *step, GError **error)
{
  const OrtrainTrainingGraph *graph = self->graph;
  OrtrainExecutor *executor = self->last_trained;
  OrtrainStepReadback *readback = ortrain_step_queue_get_readback (self->queue);
  OrtrainStepOutcome *result = ortrain_step_readback_get (readback, step->slot);
  const gsize loss_bytes = graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64 ? sizeof (double) : sizeof (float);
  const gboolean trains = (step->parts & ORTRAIN_STEP_PART_TRAIN) != 0;
  const gboolean updates = (step->parts & ORTRAIN_STEP_PART_UPDATE) != 0;
  const gboolean at_once = trains && updates && graph->broken_at_once != NULL;
  result->broken = ORTRAIN_UPDATE_NONE_BROKEN;
  result->broken_at_once = trains ? ORTRAIN_UPDATE_NONE_BROKEN : step->broken_at_once;
  return (!trains || ortrain_executor_submit_read (executor, graph->loss, &result->loss, loss_bytes, error)) &&
         (!step->has_norm ||
          ortrain_executor_submit_read (executor, graph->norm, &result->norm, sizeof result->norm, error)) &&
         (!updates || graph->broken == NULL ||
          ortrain_executor_submit_read (executor, graph->broken, &result->broken, sizeof result->broken, error)) &&
         (!at_once || ortrain_executor_submit_read (executor, graph->broken_at_once, &result->broken_at_once,
                                                    sizeof result->broken_at_once, error)) &&
         (!updates || graph->overflows == NULL ||
          ortrain_parameter_store_submit_read_scaler (self->store, &result->scaler, error)) &&
         ortrain_device_context_read_fault (self->device_context, &result->fault, error) &&
         ortrain_step_readback_mark (readback, step->slot, error);
}

OrtrainQueuedStep *
ortrain_training_session_queue_step (OrtrainTrainingSession *self, OrtrainStepParts parts)
{
  OrtrainQueuedStep *step = ortrain_step_queue_begin (self->queue, parts);
  step->has_norm = (parts & ORTRAIN_STEP_PART_UPDATE) != 0 && (clips (self) || self->graph->overflows != NULL);
  step->stops = ortrain_training_options_get_stop_on_nan (self->options);
  step->n_train_steps = self->n_train_steps;
  step->n_updates = self->n_updates;
  step->gradient_scale = self->loss_scale;
  step->broken_at_once = self->broken_at_once;
  if (parts == ORTRAIN_STEP_PART_UPDATE)
    {
      step->result.loss = self->last_loss;
      step->result.weight = self->step_weight;
    }
  return step;
}

void
ortrain_training_session_end_step (OrtrainTrainingSession *self, OrtrainQueuedStep *step, gboolean ok)
{
  const gboolean updates = (step->parts & ORTRAIN_STEP_PART_UPDATE) != 0;
  step->result.n_updates = step->n_updates + (ok && updates && !step->is_left_out ? 1 : 0);
  step->result.item = self->failed_item;
  if (!ok)
    step->result.loss = NAN;
  ORTRAIN_LOG (ORTRAIN_LOG_STEP, "step %" G_GUINT64_FORMAT "%s%s: loss %g, %" G_GUINT64_FORMAT " updates%s",
               step->number, (step->parts & ORTRAIN_STEP_PART_TRAIN) != 0 ? ", training" : "",
               updates ? ", update" : "", step->result.loss, step->result.n_updates,
               !ok                 ? "; failed"
               : step->is_left_out ? "; the update was left out"
                                   : "");
  ortrain_step_queue_end (self->queue, step,
                          !ok                 ? ORTRAIN_STEP_FAILED
                          : step->is_left_out ? ORTRAIN_STEP_SKIPPED
                                              : ORTRAIN_STEP_DONE);
}

/* A step with an update counts from now on, as the next one is submitted before its end is known; a failed step is
 * taken back. A step without an update is waited for. */
static void
count_submitted (OrtrainTrainingSession *self, OrtrainQueuedStep *step)
{
  ortrain_step_queue_submit (self->queue, step);
  if (step->parts == ORTRAIN_STEP_PART_TRAIN)
    return;
  self->n_accumulated = 0;
  g_mutex_lock (&self->lock);
  self->n_train_steps += (step->parts & ORTRAIN_STEP_PART_TRAIN) != 0;
  self->n_updates++;
  g_mutex_unlock (&self->lock);
}

/* Whether the previous update may turn out to have been skipped, so that the number of the next one is not certain. At
 * most one update can be in this state. */
static gboolean
previous_update_unknown (OrtrainTrainingSession *self)
{
  G_STATIC_ASSERT (ORTRAIN_N_STEP_RESULTS == 2);
  const OrtrainQueuedStep *step = ortrain_step_queue_peek_oldest (self->queue);
  const gboolean fails =
      step != NULL && (step->parts & ORTRAIN_STEP_PART_TRAIN) != 0 && step->stops && self->graph->overflows == NULL;
  return step != NULL && step->has_norm && !fails;
}

/* From memory that the device copies from while the host goes on. */
static gboolean
write_scalars (OrtrainTrainingSession *self, const OrtrainQueuedStep *step, double factor, double mean, GError **error)
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
  double *told = ortrain_step_readback_get_scalars (ortrain_step_queue_get_readback (self->queue), step->slot);
  memcpy (told, scalars, ortrain_update_set_get_n_written (self->store->updates) * sizeof *told);
  return ortrain_parameter_store_write_scalars (self->store, told, error);
}

/* The same for the scalars of a step. */
static const OrtrainStepBlock *
write_step_block (OrtrainTrainingSession *self, const OrtrainQueuedStep *step)
{
  OrtrainStepBlock *told = &ortrain_step_readback_get (ortrain_step_queue_get_readback (self->queue), step->slot)->step;
  *told = ortrain_training_session_make_step (self);
  told->guards = step->stops && step->parts == (ORTRAIN_STEP_PART_TRAIN | ORTRAIN_STEP_PART_UPDATE);
  return told;
}

/* Counts a step that the device has taken; another one ends here. */
static gboolean
finish_submission (OrtrainTrainingSession *self, OrtrainQueuedStep *step, gboolean ok)
{
  if (ok)
    count_submitted (self, step);
  else
    {
      ortrain_device_context_wait (self->device_context, NULL, NULL);
      ortrain_training_session_end_step (self, step, FALSE);
    }
  return ok;
}

gboolean
ortrain_training_session_submit_update (OrtrainTrainingSession *self, OrtrainQueuedStep *step, double factor,
                                        GError **error)
{
  const double mean = ortrain_training_session_get_mean_factor (self);
  const gboolean ok =
      (self->graph->immediate || write_scalars (self, step, factor, mean, error)) &&
      ortrain_device_context_begin (self->device_context, write_step_block (self, step), error) &&
      ortrain_executor_submit (self->last_trained, ORTRAIN_PROGRAM_PHASE, ORTRAIN_PHASE_UPDATE, NULL, error) &&
      read_results (self, step, error);
  return finish_submission (self, step, ok);
}

/* The calls of a step. Rows of padding are no part of the plan: they lie between two ranges. */
static gboolean
submit_calls (OrtrainTrainingSession *self, OrtrainStepParts parts, GCancellable *cancellable, GError **error)
{
  OrtrainExecutor *executor = self->last_trained;
  const gboolean updates = (parts & ORTRAIN_STEP_PART_UPDATE) != 0;
  if (updates && !has_padding (self->store))
    return ortrain_executor_submit (executor, ORTRAIN_PROGRAM_STEP, ORTRAIN_PHASE_FORWARD, cancellable, error);
  if (!ortrain_executor_submit (executor, ORTRAIN_PROGRAM_GRADIENTS, ORTRAIN_PHASE_FORWARD, cancellable, error))
    return FALSE;
  ortrain_parameter_store_zero_padding (self->store);
  return !updates ||
         ortrain_executor_submit (executor, ORTRAIN_PROGRAM_PHASE, ORTRAIN_PHASE_UPDATE, cancellable, error);
}

/* Tells the device the scalars of a step, and gives it the calls. */
static gboolean
submit_whole (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GCancellable *cancellable, GError **error)
{
  double factor;
  const gboolean goes_on = ortrain_step_queue_get_n_open (self->queue) > 0;
  if ((step->parts & ORTRAIN_STEP_PART_UPDATE) != 0 &&
      (!ortrain_training_session_get_factor (self, self->n_updates, &factor, error) ||
       !write_scalars (self, step, factor, 1.0, error)))
    return FALSE;
  if (!ortrain_training_session_weigh (self, step->feeds, NULL, error) ||
      !ortrain_training_session_write_weight (self, error))
    return FALSE;
  step->result.weight = self->step_weight;
  const OrtrainStepBlock *block = write_step_block (self, step);
  self->has_gradients = FALSE;
  const gboolean ok = ortrain_parameter_store_save_buffers (self->store, step->slot, error) &&
                      (goes_on ? ortrain_device_context_begin_chained
                               : ortrain_device_context_begin) (self->device_context, block, error) &&
                      submit_calls (self, step->parts, cancellable, error) && read_results (self, step, error);
  if (ok)
    return TRUE;
  ortrain_device_context_wait (self->device_context, NULL, NULL);
  ortrain_parameter_store_restore_buffers (self->store, step->slot);
  return FALSE;
}

gboolean
ortrain_training_session_submit_step (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GCancellable *cancellable,
                                      GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  self->in_step = TRUE;
  const gint64 begin = ortrain_trace_begin ();
  const gboolean ok = submit_whole (self, step, cancellable, error);
  ortrain_trace_end (begin, "step", "submission of a step", NULL);
  self->in_step = FALSE;
  if (ok)
    {
      step->feed_slot = self->input_staging != NULL ? ortrain_input_staging_get_current (self->input_staging) : 0;
      self->has_gradients = TRUE;
      self->gradient_scale = step->gradient_scale;
      self->broken_at_once = ORTRAIN_UPDATE_NONE_BROKEN;
    }
  finish_submission (self, step, ok);
  ortrain_executor_release_feeds (executor);
  ortrain_training_session_note_peak (self, plan);
  return ok;
}

gboolean
ortrain_training_session_run_train_and_update (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                               GCancellable *cancellable, GError **error)
{
  const OrtrainStepParts parts = ORTRAIN_STEP_PART_TRAIN | ORTRAIN_STEP_PART_UPDATE;
  const guint n_under_way = ortrain_training_session_can_submit_steps (self, parts) ? 1 : 0;
  if (!ortrain_training_session_wait_pending (self, n_under_way, error) ||
      g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  OrtrainQueuedStep *step = ortrain_training_session_begin_step (self, inputs, parts, error);
  if (step == NULL)
    return FALSE;
  const gboolean updates = step->parts == parts;
  return ortrain_training_session_run_begun (self, step, updates ? NULL : cancellable, error) &&
         (updates || ortrain_training_session_run_optimizer_step (self, error));
}

/* ---- outcomes ---- */

static void
rollback_counters (OrtrainTrainingSession *self, const OrtrainQueuedStep *step, guint64 n_more)
{
  g_mutex_lock (&self->lock);
  self->n_train_steps = step->n_train_steps + ((step->parts & ORTRAIN_STEP_PART_TRAIN) != 0 ? n_more : 0);
  self->n_updates = step->n_updates + n_more;
  g_mutex_unlock (&self->lock);
}

/* Runs a step again, phase by phase, as the options say now. */
static gboolean
repeat (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = g_object_ref (step->feeds);
  ortrain_step_queue_move (self->queue, step, ORTRAIN_STEP_REPEATING);
  step->stops = ortrain_training_options_get_stop_on_nan (self->options);
  if (self->input_staging != NULL)
    {
      OrtrainTensorDict *staged = ortrain_executor_make_staged_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN],
                                                                      step->feed_slot, feeds, error);
      if (staged == NULL)
        return FALSE;
      g_set_object (&feeds, staged);
      g_object_unref (staged);
    }
  return ortrain_training_session_repeat (self, step, feeds, error);
}

static gboolean
rerun_failed_step (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GError **error)
{
  OrtrainQueuedStep *next = ortrain_step_queue_peek_after (self->queue, step);
  if (!ortrain_device_context_wait (self->device_context, NULL, error))
    return FALSE;
  rollback_counters (self, step, 0);
  ortrain_parameter_store_restore_buffers (self->store, step->slot);
  self->has_gradients = FALSE;
  const gboolean ok = repeat (self, step, error);
  if (next != NULL && ok)
    ortrain_step_queue_move (self->queue, next, ORTRAIN_STEP_DROPPED);
  else if (next != NULL)
    ortrain_step_queue_end (self->queue, next, ORTRAIN_STEP_DISCARDED);
  return ok;
}

static gboolean
fail_parameters (OrtrainTrainingSession *self, OrtrainQueuedStep *step, gint64 broken, GError **error)
{
  OrtrainQueuedStep *next = ortrain_step_queue_peek_after (self->queue, step);
  rollback_counters (self, step, 1);
  if (next != NULL && ortrain_device_context_wait (self->device_context, NULL, error))
    {
      ortrain_parameter_store_restore_buffers (self->store, next->slot);
      self->has_gradients = FALSE; /* they are those of the next step */
      ortrain_step_queue_end (self->queue, next, ORTRAIN_STEP_DISCARDED);
    }
  return ortrain_training_session_refuse_parameters (self, (guint) broken, error);
}

/* The step after this one was submitted before the scale was known. */
static void
note_scaler (OrtrainTrainingSession *self, const OrtrainQueuedStep *step, const OrtrainScalerState *scaler)
{
  OrtrainQueuedStep *next = ortrain_step_queue_peek_after (self->queue, step);
  ortrain_training_session_note_scaler (self, scaler);
  if (next != NULL)
    self->gradient_scale = next->gradient_scale = self->loss_scale;
}

static void
note_left_out (OrtrainTrainingSession *self, OrtrainQueuedStep *step)
{
  OrtrainQueuedStep *next = ortrain_step_queue_peek_after (self->queue, step);
  step->is_left_out = TRUE;
  g_mutex_lock (&self->lock);
  self->n_updates--;
  self->n_skipped++;
  g_mutex_unlock (&self->lock);
  if (next != NULL)
    next->n_updates--;
}

/* The norm of the gradients, which says whether there was an update. */
static gboolean
look_at_norm (OrtrainTrainingSession *self, OrtrainQueuedStep *step, double norm, GError **error)
{
  step->result.norm = ortrain_training_session_normalize (norm);
  g_mutex_lock (&self->lock);
  self->last_gradient_norm = step->result.norm;
  g_mutex_unlock (&self->lock);
  if (isfinite (norm))
    return TRUE;
  note_left_out (self, step);
  ortrain_training_session_emit (self, ORTRAIN_TRAINING_OVERFLOW);
  return !step->stops || ortrain_training_session_is_overflow_expected (self, step->gradient_scale) ||
         ortrain_training_session_refuse_gradients (self, norm, error);
}

/* A step without an update: files that it has read must be as they were, or its gradients cannot be trusted. */
static gboolean
count_gradients (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GError **error)
{
  GError *local_error = NULL;
  if (ortrain_model_check_files (self->model, &local_error) &&
      ortrain_executor_check_feeds (self->last_trained, &local_error))
    {
      ortrain_training_session_count_step (self);
      g_mutex_lock (&self->lock);
      self->n_train_steps++;
      g_mutex_unlock (&self->lock);
      return TRUE;
    }
  ortrain_parameter_store_restore_buffers (self->store, step->slot);
  self->has_gradients = FALSE;
  ortrain_model_explain_error (self->model, &local_error);
  g_propagate_error (error, local_error);
  return FALSE;
}

/* Results that are there. */
static gboolean
look_at (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GError **error)
{
  const OrtrainStepOutcome *result =
      ortrain_step_readback_get (ortrain_step_queue_get_readback (self->queue), step->slot);
  const gint64 broken = MIN (result->broken, result->broken_at_once);
  const gboolean trains = (step->parts & ORTRAIN_STEP_PART_TRAIN) != 0;
  const gboolean updates = (step->parts & ORTRAIN_STEP_PART_UPDATE) != 0;
  const double loss = self->graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64 ? result->loss.wide : result->loss.single;
  const gboolean has_fault = result->fault.code != ORTRAIN_FAULT_NONE && broken == ORTRAIN_UPDATE_NONE_BROKEN;
  if (has_fault && !trains)
    return ortrain_executor_check_fault (self->last_trained, &result->fault, NULL, error);
  if (has_fault || (!updates && step->stops && !isfinite (loss)))
    return rerun_failed_step (self, step, error);
  if (trains)
    {
      self->last_loss = step->result.loss = ortrain_training_session_normalize (loss);
      if (!isfinite (loss))
        ortrain_training_session_emit (self, ORTRAIN_TRAINING_NOT_FINITE);
    }
  if (!updates)
    return count_gradients (self, step, error);
  if (self->graph->overflows != NULL)
    note_scaler (self, step, &result->scaler);
  if (step->has_norm && !look_at_norm (self, step, result->norm, error))
    return FALSE;
  return broken == ORTRAIN_UPDATE_NONE_BROKEN || !step->stops || fail_parameters (self, step, broken, error);
}

/* The device has not answered: neither it nor a step after it counts. */
static void
lose_steps (OrtrainTrainingSession *self, OrtrainQueuedStep *step)
{
  OrtrainQueuedStep *next = ortrain_step_queue_peek_after (self->queue, step);
  rollback_counters (self, step, 0);
  self->has_gradients = FALSE;
  if (next != NULL)
    ortrain_step_queue_end (self->queue, next, ORTRAIN_STEP_DISCARDED);
}

static gboolean
end_oldest (OrtrainTrainingSession *self, GError **error)
{
  OrtrainQueuedStep *step = ortrain_step_queue_peek_oldest (self->queue);
  gboolean ok;
  self->failed_item = -1;
  self->in_step = TRUE; /* handlers that are told of it may read */
  if (step->state == ORTRAIN_STEP_DROPPED)
    ok = repeat (self, step, error);
  else
    {
      ok = ortrain_step_readback_await (ortrain_step_queue_get_readback (self->queue), step->slot, error);
      ortrain_step_queue_move (self->queue, step, ORTRAIN_STEP_ENDING);
      if (ok)
        ok = look_at (self, step, error);
      else
        lose_steps (self, step);
    }
  self->in_step = FALSE;
  ortrain_training_session_end_step (self, step, ok);
  return ok;
}

gboolean
ortrain_training_session_wait_pending (OrtrainTrainingSession *self, guint n, GError **error)
{
  GError *stored = ortrain_step_queue_steal_error (self->queue);
  if (G_UNLIKELY (stored != NULL))
    {
      g_propagate_error (error, stored);
      return FALSE;
    }
  /* a step that was dropped has to be run before any other */
  while (
      !ortrain_step_queue_has (self->queue, ORTRAIN_STEP_REPEATING) &&
      (ortrain_step_queue_get_n_open (self->queue) > n || ortrain_step_queue_has (self->queue, ORTRAIN_STEP_DROPPED)))
    if (!end_oldest (self, error))
      return FALSE;
  return TRUE;
}

void
ortrain_training_session_store_pending_error (OrtrainTrainingSession *self)
{
  GError *error = NULL;
  const gboolean is_ending = ortrain_step_queue_has (self->queue, ORTRAIN_STEP_ENDING) ||
                             ortrain_step_queue_has (self->queue, ORTRAIN_STEP_REPEATING);
  if (!self->in_step && !is_ending && !ortrain_training_session_wait_pending (self, 0, &error))
    ortrain_step_queue_store_error (self->queue, error);
}

void
ortrain_training_session_try_wait_pending (OrtrainTrainingSession *self)
{
  if (!ortrain_step_queue_is_submitter (self->queue) || !ortrain_training_session_enter_step (self, NULL))
    return;
  ortrain_training_session_store_pending_error (self);
  ortrain_training_session_leave (self);
}

/* ---- calls ---- */

/**
 * ortrain_training_session_train_and_update:
 * @self: a session
 * @inputs: one tensor for each input of the model and each target; labels may be of any integer type
 * @error: return location for an error
 *
 * Runs a training step and the update after it, as [method@TrainingSession.train_step] and
 * [method@TrainingSession.optimizer_step] do one after the other, with the same results to the bit.
 *
 * On a device that computes by itself, such as a GPU, it submits both as one piece of work and returns without waiting
 * for it; up to two steps are under way. [method@TrainingSession.get_last_loss] waits for the loss. The outcome of a
 * step is known to the next call but one of this function, and to every other method that uses the session: a step that
 * fails is an error of that call, as it would have been of this one, and neither it nor a step that was submitted after
 * it has changed anything. @inputs may be changed as soon as this returns, but for tensors in the memory of the device,
 * which must stay as they are until another call has waited. Where a handler of a phase is connected, where gradients
 * of earlier steps are kept, and on the CPU, it waits.
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
