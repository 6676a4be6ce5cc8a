/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "model/ortrain-model-private.h"
#include "session/ortrain-feeds-private.h"
#include "session/ortrain-non-finite-private.h"
#include "session/ortrain-training-session-private.h"
#include "session/ortrain-training-session-signals-private.h"

#include <math.h>

/* ---- feeds ---- */

/* Binds feeds that were converted; graph: that of the run. */
static gboolean
bind (OrtrainTrainingSession *self, OrtrainTrainingRun run, OrtrainGraph *graph, OrtrainTensorDict *feeds,
      GError **error)
{
  g_autoptr (GError) local_error = NULL;
  if (ortrain_training_session_bind_feeds (self, run, feeds, &local_error))
    return TRUE;
  if (ortrain_feeds_check_labels (graph, feeds, error))
    g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

static guint64
count_bytes (OrtrainTensorDict *dict)
{
  guint64 bytes = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (dict); i++)
    bytes += ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (dict, i));
  return bytes;
}

/* ---- steps ---- */

static double
normalize (double value)
{
  return isnan (value) ? NAN : value;
}

static gboolean
read_loss (OrtrainTrainingSession *self, double *loss, GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  if (self->graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64)
    return ortrain_executor_read (executor, self->graph->loss, loss, sizeof *loss, error);
  float single;
  if (!ortrain_executor_read (executor, self->graph->loss, &single, sizeof single, error))
    return FALSE;
  *loss = single;
  return TRUE;
}

/* What a training step is run with, again too. */
static OrtrainStepBlock
make_step (OrtrainTrainingSession *self)
{
  return (OrtrainStepBlock){ .seed = self->seed, .step = (guint32) self->n_train_steps };
}

static gboolean
current_factor (OrtrainTrainingSession *self, guint64 step, double *factor, GError **error)
{
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  *factor = 1.0;
  return schedule == NULL || ortrain_lr_schedule_evaluate (schedule, step, factor, error);
}

/* Parameters that move in the backward pass do so once for each update, and nothing holds their gradients. */
static gboolean
check_immediate (OrtrainTrainingSession *self, GError **error)
{
  if (!self->graph->immediate)
    return TRUE;
  if (self->n_accumulated > 0)
    g_set_error (
        error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
        "Parameters were updated already, as immediate-updates is set; call optimizer_step before the next train_step");
  else if (ortrain_training_options_get_max_grad_norm (self->options) > 0)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "Option 'max-grad-norm' was set after updates had become immediate, which keeps no gradients to clip; "
                 "set it, or immediate-updates to off, before creating the session");
  else
    return TRUE;
  return FALSE;
}

/* For updates in the backward pass. */
static gboolean
write_scalars_at_once (OrtrainTrainingSession *self, double factor, GError **error)
{
  const double *scalars =
      ortrain_update_set_fill_scalars (self->store->updates, self->n_updates + 1, factor, 1.0, 0.0, error);
  return scalars != NULL && ortrain_parameter_store_write_scalars (self->store, scalars, error);
}

/* A loss that is not finite, when that is an error. */
static gboolean
check_loss (OrtrainTrainingSession *self, double loss, GError **error)
{
  if (G_LIKELY (isfinite (loss)))
    return TRUE;
  ortrain_training_session_emit (self, ORTRAIN_TRAINING_NOT_FINITE);
  if (!ortrain_training_options_get_stop_on_nan (self->options))
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
               "The loss of training step %" G_GUINT64_FORMAT " is %g", self->n_train_steps + 1, normalize (loss));
  return FALSE;
}

/* Whether forward and backward can be submitted as one. What fails is found behind both: gradients of earlier steps, which
 * are added to in place, and parameters that move would not be as they were. */
static gboolean
can_join_gradients (OrtrainTrainingSession *self)
{
  return self->results != NULL && !self->graph->immediate && self->n_accumulated == 0 &&
         !ortrain_training_session_wants_phases (self) &&
         ortrain_executor_can_join_phases (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
}

/* Forward and backward, with one wait for both. */
static gboolean
run_gradients (OrtrainTrainingSession *self, OrtrainStepBlock *step, GCancellable *cancellable, double *loss,
               GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  OrtrainStepResult *result = ortrain_step_results_get (self->results, 0);
  const gboolean wide = self->graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64;
  ortrain_step_block_set_accumulate (step, FALSE);
  self->has_gradients = FALSE;
  if (!ortrain_execution_begin (self->execution, step, error))
    return FALSE;
  const gboolean submitted =
      ortrain_executor_submit (executor, ORTRAIN_PROGRAM_GRADIENTS, ORTRAIN_PHASE_FORWARD, cancellable, error) &&
      ortrain_executor_submit_read (executor, self->graph->loss, &result->loss, wide ? sizeof (double) : sizeof (float),
                                    error);
  OrtrainFault fault;
  if (!ortrain_execution_wait (self->execution, &fault, submitted ? error : NULL) || !submitted)
    return FALSE;
  *loss = wide ? result->loss.wide : result->loss.single;
  const guint backward = ortrain_memory_plan_get_first_backward_step (ortrain_executor_get_plan (executor));
  if ((fault.code != ORTRAIN_FAULT_NONE && fault.step < backward &&
       !ortrain_executor_check_fault (executor, &fault, &self->failed_item, error)) ||
      !check_loss (self, *loss, error) || !ortrain_executor_check_fault (executor, &fault, &self->failed_item, error) ||
      !ortrain_executor_check_feeds (executor, error))
    return FALSE;
  ortrain_parameter_store_zero_padding (self->store);
  self->has_gradients = TRUE;
  self->gradient_scale = self->loss_scale;
  self->broken_at_once = ORTRAIN_UPDATE_NONE_BROKEN;
  return TRUE;
}

static gboolean
run_phases (OrtrainTrainingSession *self, OrtrainStepBlock *step, GCancellable *cancellable, double *loss,
            GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  const gboolean immediate = self->graph->immediate;
  double factor;
  if (immediate && !current_factor (self, self->n_updates, &factor, error))
    return FALSE;
  ortrain_step_block_set_accumulate (step, self->n_accumulated > 0);
  ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_PRE_FORWARD);
  if (immediate && !write_scalars_at_once (self, factor, error))
    return FALSE;
  if (!ortrain_executor_run (executor, ORTRAIN_PHASE_FORWARD, step, cancellable, &self->failed_item, error) ||
      !read_loss (self, loss, error))
    return FALSE;
  if (!check_loss (self, *loss, error))
    return FALSE;
  ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_POST_FORWARD);
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_PRE_BACKWARD);
  /* Gradients of earlier steps are added to in place and cannot be restored, nor can parameters that move: then the
   * backward pass, whose errors the forward pass would have met before, is not interrupted. Otherwise what an
   * interruption leaves behind is never used. */
  if (self->n_accumulated == 0)
    self->has_gradients = FALSE;
  if (immediate && !ortrain_model_check_files (self->model, error))
    return FALSE;
  const gboolean whole = immediate || self->n_accumulated > 0;
  if (!ortrain_executor_run (executor, ORTRAIN_PHASE_BACKWARD, step, whole ? NULL : cancellable, &self->failed_item,
                             error))
    return FALSE;
  self->broken_at_once = ORTRAIN_UPDATE_NONE_BROKEN;
  if (immediate && !ortrain_executor_read (executor, self->graph->broken_at_once, &self->broken_at_once,
                                           sizeof self->broken_at_once, error))
    return FALSE;
  ortrain_parameter_store_zero_padding (self->store);
  self->has_gradients = TRUE;
  self->gradient_scale = self->loss_scale;
  ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_POST_BACKWARD);
  return TRUE;
}

/* ---- values that are not finite ---- */

static char *
explain (OrtrainTrainingSession *self, OrtrainGraph *graph, OrtrainTensorDict *feeds, OrtrainPhase phase,
         const OrtrainStepBlock *step)
{
  OrtrainExecutorConfig config = ortrain_training_session_get_config (self);
  char *text = NULL;
  if (ortrain_parameter_store_save_buffers (self->store, NULL))
    text = ortrain_non_finite_explain (graph, &config, feeds, phase, step, self->n_updates, &self->failed_item);
  ortrain_parameter_store_restore_buffers (self->store);
  return text;
}

char *
ortrain_training_session_explain_gradients (OrtrainTrainingSession *self, OrtrainTensorDict *inputs)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_feeds_convert (self->graph->training, inputs, NULL);
  OrtrainStepBlock step = make_step (self);
  step.step--; /* the training step was counted already */
  return feeds != NULL ? explain (self, self->graph->training, feeds, ORTRAIN_PHASE_BACKWARD, &step) : NULL;
}

char *
ortrain_training_session_explain_evaluation (OrtrainTrainingSession *self, OrtrainTensorDict *inputs)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_feeds_convert (self->graph->evaluation_loss, inputs, NULL);
  OrtrainStepBlock step = make_step (self);
  return feeds != NULL ? explain (self, self->graph->evaluation_loss, feeds, ORTRAIN_PHASE_FORWARD, &step) : NULL;
}

gboolean
ortrain_training_session_run_check_finite (OrtrainTrainingSession *self, GError **error)
{
  if (!ortrain_training_session_take_memory (self, error))
    return FALSE;
  for (guint i = 0; i < self->store->n_parameters; i++)
    if (!ortrain_non_finite_check (&self->store->parameters[i], self->store->parameters[i].address, "Parameter",
                                   self->n_updates, error))
      return FALSE;
  for (guint i = 0; i < self->store->n_buffers; i++)
    if (!ortrain_non_finite_check (&self->store->buffers[i], self->store->buffers[i].address, "Buffer", self->n_updates,
                                   error))
      return FALSE;
  return TRUE;
}

/**
 * ortrain_training_session_check_finite:
 * @self: a session
 * @error: return location for an error
 *
 * Checks that all parameters and buffers are finite. It reads all of them once.
 *
 * [class@Trainer] and the `ortrain` command call it before they write a checkpoint or a model;
 * [method@TrainingSession.export] and [method@TrainingSession.save_checkpoint] do not. It fails with
 * %ORTRAIN_SESSION_ERROR_NOT_FINITE, which names the first number that is not finite.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_check_finite (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);

  if (!ortrain_training_session_enter (self, TRUE, error))
    return FALSE;
  gboolean ok = ortrain_training_session_run_check_finite (self, error);
  ortrain_training_session_leave (self);
  return ok;
}

double
ortrain_training_session_run_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                         GCancellable *cancellable, GError **error)
{
  self->failed_item = -1;
  if (!check_immediate (self, error))
    return NAN;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_feeds_convert (self->graph->training, inputs, error);
  if (feeds == NULL || !ortrain_model_check_files (self->model, error) ||
      !bind (self, ORTRAIN_TRAINING_RUN_TRAIN, self->graph->training, feeds, error) ||
      !ortrain_training_session_take_memory (self, error))
    return NAN;
  if (self->last_trained != self->executors[ORTRAIN_TRAINING_RUN_TRAIN])
    {
      g_clear_pointer (&self->last_trained, ortrain_executor_free);
      self->last_trained = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
    }
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
  if (plan != self->plan)
    {
      g_mutex_lock (&self->lock);
      g_set_object (&self->plan, plan);
      g_mutex_unlock (&self->lock);
      ortrain_training_session_emit (self, ORTRAIN_TRAINING_PLAN_CHANGED);
    }
  self->input_bytes = count_bytes (feeds);

  double loss = NAN;
  GError *local_error = NULL;
  OrtrainStepBlock step = make_step (self);
  self->in_step = TRUE;
  gboolean ok =
      ortrain_parameter_store_save_buffers (self->store, &local_error) &&
      (can_join_gradients (self) ? run_gradients : run_phases) (self, &step, cancellable, &loss, &local_error);
  if (ok && !ortrain_model_check_files (self->model, &local_error))
    {
      /* frozen weights are read where the file is mapped: the gradients cannot be trusted, those of the steps before,
       * which were added to, included */
      ok = FALSE;
      self->n_accumulated = 0;
      self->has_gradients = FALSE;
    }
  if (!ok)
    {
      ortrain_model_explain_error (self->model, &local_error);
      ortrain_parameter_store_restore_buffers (self->store);
    }
  if (g_error_matches (local_error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE))
    {
      g_autofree char *reason = explain (self, self->graph->training, feeds, ORTRAIN_PHASE_FORWARD, &step);
      if (reason != NULL)
        {
          g_autofree char *message = g_steal_pointer (&local_error->message);
          local_error->message = g_strdup_printf ("%s: %s", message, reason);
        }
    }
  self->in_step = FALSE;
  ortrain_executor_release_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
  if (!ok)
    {
      g_propagate_error (error, local_error);
      return NAN;
    }
  self->n_accumulated++;
  g_mutex_lock (&self->lock);
  self->n_train_steps++;
  g_mutex_unlock (&self->lock);
  self->max_allocated = MAX (self->max_allocated, ortrain_memory_plan_get_peak_bytes (plan));
  self->last_loss = normalize (loss);
  return self->last_loss;
}

/**
 * ortrain_training_session_train_step:
 * @self: a session
 * @inputs: one tensor for each input of the model and each target; labels may be of any integer type
 * @error: return location for an error
 *
 * Runs the model forward and backward, and accumulates the gradients with those of the steps since the last update. It
 * blocks until the step is done.
 *
 * The first step for new shapes creates a plan, which takes longer; it is kept for later steps. The first step of all
 * allocates the memory of parameters, gradients and state, unless another method has done so, and copies the model's
 * weights into it. Steps of known shapes allocate nothing.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_FEED for tensors that are missing, unknown, or of a wrong type or shape,
 * %ORTRAIN_SESSION_ERROR_INDEX for labels or indices out of range, %ORTRAIN_SESSION_ERROR_NOT_FINITE for a loss that is
 * not finite ([property@TrainingOptions:stop-on-nan]), %ORTRAIN_TENSOR_ERROR_CHANGED for a mapped file that was
 * changed, and others of [error@SessionError], [error@GraphError] and [error@PlanError]. With
 * %ORTRAIN_DEVICE_ERROR_NO_MEMORY nothing has changed: the same step may be tried again, or one that needs less.
 *
 * Returns: the loss; not a number on error
 */
double
ortrain_training_session_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NAN);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NAN);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return NAN;
  double loss = ortrain_training_session_run_train_step (self, inputs, NULL, error);
  ortrain_training_session_leave (self);
  return loss;
}

/**
 * ortrain_training_session_get_current_learning_rate:
 * @self: a session
 *
 * Gets the learning rate of the next update, with the schedule and without the groups. Any thread may call it, also
 * while another call runs; a schedule of your own is then evaluated on the calling thread.
 *
 * Returns: the learning rate; not a number if the schedule fails, as the next update then will
 */
double
ortrain_training_session_get_current_learning_rate (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  double factor;
  if (self->options == NULL || ortrain_training_options_get_optimizer (self->options) == NULL)
    return 0;
  if (!current_factor (self, ortrain_training_session_get_step (self), &factor, NULL))
    return NAN;
  return ortrain_optimizer_get_learning_rate (ortrain_training_options_get_optimizer (self->options)) * factor;
}

/* Gradients of which the norm is not finite, when that is an error: the parameters are as they were, the gradients are
 * dropped. */
static gboolean
refuse_gradients (OrtrainTrainingSession *self, double norm, GError **error)
{
  gboolean finite = TRUE;
  for (guint i = 0; i < self->store->n_parameters && finite; i++)
    {
      const OrtrainStored gradient = ortrain_stored_get_gradient (&self->store->parameters[i]);
      finite = ortrain_non_finite_check (&gradient, gradient.address, "the gradient of parameter", 0, error);
    }
  if (finite) /* each number is, their squares are not */
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE, "the norm of all gradients is %g",
                 normalize (norm));
  g_prefix_error (error, "Update %" G_GUINT64_FORMAT " was skipped: ", self->n_updates + 1);
  return FALSE;
}

/* The phase `update` of the last training step's plan. norm: NULL when it is not asked for; *broken: the first
 * parameter that is left with numbers that are not finite. */
static gboolean
run_update_phase (OrtrainTrainingSession *self, double *norm, gint64 *broken, GError **error)
{
  const OrtrainStepBlock step = make_step (self);
  *broken = ORTRAIN_UPDATE_NONE_BROKEN;
  if (norm == NULL && self->graph->broken == NULL)
    return TRUE;
  OrtrainScalerState scaler = { 1, 0, 0 };
  const gboolean scaled = self->graph->overflows != NULL;
  if (!(ortrain_executor_run (self->last_trained, ORTRAIN_PHASE_UPDATE, &step, NULL, NULL, error) &&
        (norm == NULL ||
         ortrain_executor_submit_read (self->last_trained, self->graph->norm, norm, sizeof *norm, error)) &&
        (self->graph->broken == NULL ||
         ortrain_executor_submit_read (self->last_trained, self->graph->broken, broken, sizeof *broken, error)) &&
        (scaled ? ortrain_parameter_store_read_scaler (self->store, &scaler, error)
                : ortrain_execution_wait (self->execution, NULL, error))))
    return FALSE;
  if (scaled)
    ortrain_training_session_note_scaler (self, &scaler);
  return TRUE;
}

/* An optimizer of the user may fail half way, or write what no training goes on with: then nothing has happened. */
static gboolean
run_custom_update (OrtrainTrainingSession *self, double scale, GError **error)
{
  OrtrainParameterStore *store = self->store;
  if (!ortrain_parameter_store_begin_update (store, error))
    return FALSE;
  gboolean ok = ortrain_update_set_run (store->updates, self->n_updates + 1, scale, error);
  if (ok && ortrain_training_options_get_stop_on_nan (self->options))
    {
      for (guint i = 0; i < store->n_parameters && ok; i++)
        {
          const OrtrainStored *stored = &store->parameters[i];
          ok = ortrain_non_finite_check (stored, ortrain_parameter_store_get_host_address (store, stored->address),
                                         "Parameter", self->n_updates, error);
        }
      if (!ok)
        g_prefix_error (error, "%s in update %" G_GUINT64_FORMAT ": ",
                        G_OBJECT_TYPE_NAME (ortrain_update_set_get_optimizer (store->updates)), self->n_updates + 1);
    }
  if (ok)
    return ortrain_parameter_store_end_update (store, TRUE, error);
  ortrain_parameter_store_end_update (store, FALSE, NULL);
  return FALSE;
}

/* Moves what has not moved yet. overflow: the gradients are not finite, and nothing has moved. */
static gboolean
run_update (OrtrainTrainingSession *self, double factor, double *norm, gboolean *overflow, gint64 *broken,
            GError **error)
{
  OrtrainUpdateSet *updates = self->store->updates;
  const double max_norm = ortrain_training_options_get_max_grad_norm (self->options);
  const double mean =
      ortrain_training_options_get_accumulation_steps (self->options) > 1 ? 1.0 / self->n_accumulated : 1.0;
  const gboolean clips = max_norm > 0 && self->graph->norm != NULL;
  const gboolean checks = clips || self->graph->overflows != NULL;
  const double scale = self->loss_scale; /* before it changes */
  *overflow = FALSE;
  if (!self->graph->immediate)
    {
      const double *scalars =
          ortrain_update_set_fill_scalars (updates, self->n_updates + 1, factor, mean, max_norm, error);
      if (scalars == NULL || !ortrain_parameter_store_write_scalars (self->store, scalars, error))
        return FALSE;
    }
  if (!run_update_phase (self, checks ? norm : NULL, broken, error))
    return FALSE;
  if (self->graph->immediate)
    *broken = MIN (*broken, self->broken_at_once);
  if (checks)
    {
      g_mutex_lock (&self->lock);
      self->last_gradient_norm = normalize (*norm);
      g_mutex_unlock (&self->lock);
      *overflow = !isfinite (*norm);
    }
  if (*overflow || !ortrain_update_set_is_custom (updates))
    return TRUE;
  return run_custom_update (self, mean / scale * (clips ? MIN (1.0, max_norm / (*norm + 1e-6)) : 1.0), error);
}

/* An update that left numbers that are not finite, when that is an error. The parameters have their new values. */
static gboolean
refuse_parameters (OrtrainTrainingSession *self, guint broken, GError **error)
{
  const OrtrainStored *stored = &self->store->parameters[broken];
  const double learning_rate = ortrain_update_set_get_learning_rate (self->store->updates, broken);
  g_autofree char *cause = stored->gradient != NULL ? ortrain_non_finite_describe (stored, stored->gradient) : NULL;
  g_autofree char *text =
      cause != NULL ? g_strdup_printf ("its gradient holds %s", cause)
                    : g_strdup_printf ("its gradient is %s, and the learning rate is %g",
                                       stored->gradient != NULL ? "finite" : "not kept", normalize (learning_rate));
  g_autofree char *held = ortrain_non_finite_describe (stored, stored->address);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
               "Parameter '%s' holds %s after update %" G_GUINT64_FORMAT
               ": %s; reduce the learning rate or set max-grad-norm",
               ortrain_text_show (stored->name), held, self->n_updates, text);
  return FALSE;
}

/* A scale that can still fall makes up for it. */
static gboolean
is_overflow_expected (const OrtrainTrainingSession *self)
{
  const OrtrainLossScaling *scaling = &self->rule.scaling;
  return scaling->is_on && (!scaling->is_dynamic || self->gradient_scale > scaling->minimum);
}

gboolean
ortrain_training_session_run_optimizer_step (OrtrainTrainingSession *self, GError **error)
{
  self->failed_item = -1;
  if (self->n_accumulated == 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "There are no gradients to update with; call train_step before optimizer_step");
      return FALSE;
    }
  double factor;
  if (!current_factor (self, self->n_updates, &factor, error))
    return FALSE;
  double norm = 0;
  gint64 broken = ORTRAIN_UPDATE_NONE_BROKEN;
  gboolean overflow = FALSE;
  self->in_step = TRUE;
  ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_PRE_UPDATE);
  gboolean ok = run_update (self, factor, &norm, &overflow, &broken, error);
  if (ok)
    {
      self->n_accumulated = 0;
      if (!overflow)
        {
          g_mutex_lock (&self->lock);
          self->n_updates++;
          g_mutex_unlock (&self->lock);
        }
      ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_POST_UPDATE);
      if (overflow)
        ortrain_training_session_emit (self, ORTRAIN_TRAINING_OVERFLOW);
      if (overflow && !is_overflow_expected (self) && ortrain_training_options_get_stop_on_nan (self->options))
        ok = refuse_gradients (self, norm, error);
      if (broken != ORTRAIN_UPDATE_NONE_BROKEN && ortrain_training_options_get_stop_on_nan (self->options))
        ok = refuse_parameters (self, (guint) broken, error);
    }
  self->in_step = FALSE;
  return ok;
}

/**
 * ortrain_training_session_optimizer_step:
 * @self: a session
 * @error: return location for an error
 *
 * Updates the parameters by the mean of the gradients of the steps since the last update, clipped if the options say
 * so.
 *
 * With clipping, or where the loss is scaled ([class@LossScaler]), gradients that are not finite are dropped without an
 * update, and [signal@TrainingSession::overflow] is emitted; with [property@TrainingOptions:stop-on-nan] that is
 * %ORTRAIN_SESSION_ERROR_NOT_FINITE, unless a lower scale, or a static one, is expected to help. So is, with that
 * option, an update that leaves a parameter with numbers that are not finite: the error names the parameter, which
 * keeps them; resume from a checkpoint.
 *
 * Other errors are %ORTRAIN_SESSION_ERROR_STATE if there are no gradients, those of the schedule and of an optimizer of
 * your own, after which no parameter has changed, and those of [error@DeviceError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_optimizer_step (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return FALSE;
  gboolean ok = ortrain_training_session_run_optimizer_step (self, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_get_last_gradient_norm:
 * @self: a session
 *
 * Gets the Euclidean norm of all gradients together before the last update clipped them. It is computed only with
 * clipping.
 *
 * Returns: the norm; 0 if none was computed
 */
double
ortrain_training_session_get_last_gradient_norm (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  g_mutex_lock (&self->lock);
  double norm = self->last_gradient_norm;
  g_mutex_unlock (&self->lock);
  return norm;
}

/**
 * ortrain_training_session_zero_gradients:
 * @self: a session
 * @error: return location for an error
 *
 * Drops the gradients of the steps since the last update. It fails with %ORTRAIN_SESSION_ERROR_STATE where
 * [property@TrainingOptions:immediate-updates] has used them already, or with another error of [error@SessionError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_zero_gradients (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return FALSE;
  const gboolean ok = !self->graph->immediate || self->n_accumulated == 0;
  if (!ok)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "Parameters were updated already, as immediate-updates is set; call optimizer_step");
  else
    {
      ortrain_parameter_store_zero_gradients (self->store);
      self->n_accumulated = 0;
    }
  ortrain_training_session_leave (self);
  return ok;
}

OrtrainTensorDict *
ortrain_training_session_run_eval_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                        GCancellable *cancellable, GError **error)
{
  self->failed_item = -1;
  gboolean with_loss = self->graph->targets[0] == NULL;
  for (guint i = 0; self->graph->targets[i] != NULL && !with_loss; i++)
    with_loss = ortrain_tensor_dict_contains (inputs, self->graph->targets[i]);
  const OrtrainTrainingRun run = with_loss ? ORTRAIN_TRAINING_RUN_EVALUATE_LOSS : ORTRAIN_TRAINING_RUN_EVALUATE;
  OrtrainGraph *graph = with_loss ? self->graph->evaluation_loss : self->graph->evaluation;
  if (graph->outputs->len == 0)
    {
      g_autofree char *notes = g_strjoinv ("; ", self->graph->notes);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "The model has no output that can be computed%s%s", *notes != '\0' ? ": " : "",
                   ortrain_text_show_list (notes));
      return NULL;
    }
  g_autoptr (OrtrainTensorDict) feeds = ortrain_feeds_convert (graph, inputs, error);
  if (feeds == NULL || !bind (self, run, graph, feeds, error) || !ortrain_training_session_take_memory (self, error))
    return NULL;
  OrtrainExecutor *executor = self->executors[run];
  const OrtrainStepBlock step = make_step (self);
  self->in_step = TRUE;
  gboolean ok = ortrain_executor_run (executor, ORTRAIN_PHASE_FORWARD, &step, cancellable, &self->failed_item, error);
  self->in_step = FALSE;
  ok = ok && ortrain_model_check_files (self->model, error);
  OrtrainTensorDict *outputs = ok ? ortrain_executor_take_outputs (executor, error) : NULL;
  ortrain_executor_release_feeds (executor);
  if (outputs != NULL && with_loss && !ortrain_tensor_dict_contains (outputs, "loss"))
    {
      OrtrainTensor *loss = ortrain_tensor_dict_get (outputs, self->graph->evaluation_loss_name);
      if (loss != NULL)
        ortrain_tensor_dict_set (outputs, "loss", loss);
    }
  return outputs;
}

/**
 * ortrain_training_session_eval_step:
 * @self: a session
 * @inputs: one tensor for each input of the model; and each target, if the loss is wanted
 * @error: return location for an error
 *
 * Runs the model as it is used for inference: stored statistics in batch normalisation, no dropout. It changes nothing.
 * Batch normalisation that the file itself has in training form (`training_mode`) uses the statistics of the batch, as
 * it does when the exported file is run. It fails as [method@TrainingSession.train_step] does.
 *
 * Returns: (transfer full): the model's outputs, and `loss` if targets were given; %NULL on error
 */
OrtrainTensorDict *
ortrain_training_session_eval_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NULL);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return NULL;
  OrtrainTensorDict *outputs = ortrain_training_session_run_eval_step (self, inputs, NULL, error);
  ortrain_training_session_leave (self);
  return outputs;
}

/**
 * ortrain_training_session_plan:
 * @self: a session
 * @inputs: inputs as for a training step; of most of them only the shapes matter
 * @error: return location for an error
 *
 * Creates the plan of a training step without running it. This allocates nothing but the plan itself: a model, or a
 * batch, that is larger than memory can be planned. Errors are %ORTRAIN_SESSION_ERROR_FEED and others of
 * [error@SessionError], and those of [error@GraphError] and [error@PlanError].
 *
 * Returns: (transfer full): the plan; %NULL on error
 */
OrtrainMemoryPlan *
ortrain_training_session_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NULL);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return NULL;
  OrtrainMemoryPlan *plan = NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_feeds_convert (self->graph->training, inputs, error);
  if (feeds != NULL && bind (self, ORTRAIN_TRAINING_RUN_TRAIN, self->graph->training, feeds, error))
    plan = g_object_ref (ortrain_executor_get_plan (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]));
  ortrain_executor_release_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
  ortrain_training_session_leave (self);
  return plan;
}
