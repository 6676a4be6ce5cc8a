/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "model/ortrain-model-private.h"
#include "runtime/ortrain-input-conversion-private.h"
#include "runtime/ortrain-non-finite-private.h"
#include "session/ortrain-training-session-private.h"
#include "session/ortrain-training-session-signals-private.h"

#include <math.h>

/* ---- feeds ---- */

/* Binds feeds that were converted; graph: that of the run. */
gboolean
ortrain_training_session_bind_checked (OrtrainTrainingSession *self, OrtrainTrainingRun run, OrtrainGraph *graph,
                                       OrtrainTensorDict *feeds, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  if (ortrain_training_session_bind_feeds (self, run, feeds, &local_error))
    return TRUE;
  if (!ortrain_inputs_check_labels (graph, feeds, error))
    return FALSE;
  if (run == ORTRAIN_TRAINING_RUN_TRAIN && g_error_matches (local_error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
    ortrain_training_session_explain_budget (self, feeds, local_error);
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
               "The loss of training step %" G_GUINT64_FORMAT " is %g", self->n_train_steps + 1,
               ortrain_training_session_normalize (loss));
  return FALSE;
}

static gboolean
run_phases (OrtrainTrainingSession *self, OrtrainStepBlock *step, GCancellable *cancellable, double *loss,
            GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  const gboolean immediate = self->graph->immediate;
  double factor;
  if (immediate && !ortrain_training_session_get_factor (self, self->n_updates, &factor, error))
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
   * backward pass, whose errors the forward pass would have met before, is not interrupted. Otherwise the partial
   * results of an interrupted step are never used. */
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
  if (ortrain_parameter_store_save_buffers (self->store, 0, NULL))
    text = ortrain_non_finite_explain (graph, &config, feeds, phase, step, self->n_updates, &self->failed_item);
  ortrain_parameter_store_restore_buffers (self->store, 0);
  return text;
}

char *
ortrain_training_session_explain_gradients (OrtrainTrainingSession *self, OrtrainTensorDict *inputs)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph->training, inputs, NULL);
  OrtrainStepBlock step = ortrain_training_session_make_step (self);
  step.step--; /* the training step was counted already */
  return feeds != NULL ? explain (self, self->graph->training, feeds, ORTRAIN_PHASE_BACKWARD, &step) : NULL;
}

char *
ortrain_training_session_explain_evaluation (OrtrainTrainingSession *self, OrtrainTensorDict *inputs)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph->evaluation_loss, inputs, NULL);
  OrtrainStepBlock step = ortrain_training_session_make_step (self);
  return feeds != NULL ? explain (self, self->graph->evaluation_loss, feeds, ORTRAIN_PHASE_FORWARD, &step) : NULL;
}

gboolean
ortrain_training_session_run_check_finite (OrtrainTrainingSession *self, GError **error)
{
  if (!ortrain_training_session_wait_pending (self, 0, error) || !ortrain_training_session_take_memory (self, error))
    return FALSE;
  for (guint i = 0; i < self->store->n_parameters; i++)
    if (!ortrain_non_finite_check (&self->store->parameters[i], self->store->parameters[i].address,
                                   g_array_index (self->graph->parameters, OrtrainTrainedTensor, i).initial,
                                   "Parameter", self->n_updates, error))
      return FALSE;
  for (guint i = 0; i < self->store->n_buffers; i++)
    if (!ortrain_non_finite_check (&self->store->buffers[i], self->store->buffers[i].address,
                                   g_array_index (self->graph->buffers, OrtrainTrainedTensor, i).initial, "Buffer",
                                   self->n_updates, error))
      return FALSE;
  return TRUE;
}

/**
 * ortrain_training_session_check_finite:
 * @self: a session
 * @error: return location for an error
 *
 * Checks that all parameters and buffers are finite, apart from infinities that the model holds at the same places. It
 * reads all of them once.
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

/* Whether the device may be given the bound step whole. Without an update, its gradients must not be added to others: a
 * failure is found only after both phases have run. */
static gboolean
can_submit_bound (OrtrainTrainingSession *self, OrtrainStepParts parts)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  return ortrain_training_session_can_submit_steps (self, parts) && ortrain_executor_can_join_phases (executor) &&
         (parts == ORTRAIN_STEP_PART_TRAIN || ortrain_executor_is_guarded (executor));
}

/* Binds the converted feeds, and first waits for pending steps if the memory of a plan is about to move, or if this
 * step runs in another way than they do. A handler that is called then may bind other feeds. */
static gboolean
bind_alone (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, OrtrainStepParts parts, GError **error)
{
  for (;;)
    {
      if (!ortrain_training_session_bind_checked (self, ORTRAIN_TRAINING_RUN_TRAIN, self->graph->training, feeds,
                                                  error))
        return FALSE;
      OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
      OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
      const guint64 n_binds = ortrain_executor_get_n_binds (executor);
      const gboolean goes_on = plan == self->plan && can_submit_bound (self, parts);
      if (!ortrain_executor_check_trainable (plan, error) ||
          (!goes_on && !ortrain_training_session_wait_pending (self, 0, error)))
        {
          ortrain_executor_release_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
          return FALSE;
        }
      if (executor == self->executors[ORTRAIN_TRAINING_RUN_TRAIN] && n_binds == ortrain_executor_get_n_binds (executor))
        return TRUE;
    }
}

/* Makes the plan of the bound feeds that of the session, of which signals and properties tell. */
static void
note_plan (OrtrainTrainingSession *self)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  if (self->last_trained != executor)
    {
      g_clear_pointer (&self->last_trained, ortrain_executor_free);
      self->last_trained = executor;
    }
  const gboolean is_new = plan != self->plan;
  if (!is_new && plan == self->last_plan)
    return;
  g_mutex_lock (&self->lock);
  g_set_object (&self->last_plan, plan);
  g_set_object (&self->plan, plan);
  g_mutex_unlock (&self->lock);
  if (is_new)
    ortrain_training_session_emit (self, ORTRAIN_TRAINING_PLAN_CHANGED);
}

/* Checks and binds the inputs of a training step. parts: the parts to run as one, if possible. Transfer full. */
static OrtrainTensorDict *
bind_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, OrtrainStepParts parts, GError **error)
{
  self->failed_item = -1;
  self->failed_update = FALSE;
  if (!check_immediate (self, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph->training, inputs, error);
  if (feeds == NULL || !ortrain_model_check_files (self->model, error) || !bind_alone (self, feeds, parts, error))
    return NULL;
  if (!ortrain_training_session_take_memory (self, error))
    {
      ortrain_executor_release_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
      return NULL;
    }
  note_plan (self);
  self->input_bytes = count_bytes (feeds);
  return g_steal_pointer (&feeds);
}

OrtrainQueuedStep *
ortrain_training_session_begin_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, OrtrainStepParts parts,
                                     GError **error)
{
  OrtrainTensorDict *feeds = bind_step (self, inputs, parts, error);
  if (feeds == NULL)
    return NULL;
  OrtrainQueuedStep *step =
      ortrain_training_session_queue_step (self, can_submit_bound (self, parts) ? parts : ORTRAIN_STEP_PART_TRAIN);
  step->feeds = feeds;
  return step;
}

/* Reads a reason for a number that is not finite by running the step once more. */
static void
add_reason (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, const OrtrainStepBlock *block, GError *error)
{
  g_autofree char *reason = explain (self, self->graph->training, feeds, ORTRAIN_PHASE_FORWARD, block);
  if (reason == NULL)
    return;
  g_autofree char *message = g_steal_pointer (&error->message);
  error->message = g_strdup_printf ("%s: %s", message, reason);
}

gboolean
ortrain_training_session_run_bound (OrtrainTrainingSession *self, OrtrainQueuedStep *step, OrtrainTensorDict *feeds,
                                    GCancellable *cancellable, GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  if (!ortrain_training_session_weigh (self, feeds, NULL, error) ||
      !ortrain_training_session_write_weight (self, error))
    {
      ortrain_executor_release_feeds (executor);
      return FALSE;
    }
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (executor);
  double loss = NAN;
  GError *local_error = NULL;
  OrtrainStepBlock block = ortrain_training_session_make_step (self);
  self->in_step = TRUE;
  gboolean ok = ortrain_parameter_store_save_buffers (self->store, step->slot, &local_error) &&
                run_phases (self, &block, cancellable, &loss, &local_error);
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
      ortrain_parameter_store_restore_buffers (self->store, step->slot);
    }
  if (g_error_matches (local_error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE))
    add_reason (self, feeds, &block, local_error);
  self->in_step = FALSE;
  ortrain_executor_release_feeds (executor);
  if (!ok)
    {
      g_propagate_error (error, local_error);
      return FALSE;
    }
  ortrain_training_session_count_step (self);
  g_mutex_lock (&self->lock);
  self->n_train_steps++;
  g_mutex_unlock (&self->lock);
  ortrain_training_session_note_peak (self, plan);
  step->result.weight = self->step_weight;
  self->last_loss = step->result.loss = ortrain_training_session_normalize (loss);
  return TRUE;
}

gboolean
ortrain_training_session_repeat (OrtrainTrainingSession *self, OrtrainQueuedStep *step, OrtrainTensorDict *inputs,
                                 GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = bind_step (self, inputs, step->parts, error);
  double factor;
  return feeds != NULL && ortrain_training_session_run_bound (self, step, feeds, NULL, error) &&
         (step->parts == ORTRAIN_STEP_PART_TRAIN ||
          (ortrain_training_session_get_factor (self, self->n_updates, &factor, error) &&
           ortrain_training_session_run_update (self, step, factor, error)));
}

gboolean
ortrain_training_session_run_begun (OrtrainTrainingSession *self, OrtrainQueuedStep *step, GCancellable *cancellable,
                                    GError **error)
{
  if (can_submit_bound (self, step->parts))
    return ortrain_training_session_submit_step (self, step, cancellable, error);
  g_autoptr (OrtrainTensorDict) feeds = g_object_ref (step->feeds);
  ortrain_step_queue_move (self->queue, step, ORTRAIN_STEP_RUNNING);
  const gboolean ok = ortrain_training_session_run_bound (self, step, feeds, cancellable, error);
  ortrain_training_session_end_step (self, step, ok);
  return ok;
}

gboolean
ortrain_training_session_run_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                         GCancellable *cancellable, double *loss, GError **error)
{
  *loss = NAN;
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  OrtrainQueuedStep *step = ortrain_training_session_begin_step (self, inputs, ORTRAIN_STEP_PART_TRAIN, error);
  if (step == NULL || !ortrain_training_session_run_begun (self, step, cancellable, error) ||
      !ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  *loss = self->last_loss;
  return TRUE;
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
 * Tensors of other types than those of the inputs and targets are converted: floating types into each other, rounded,
 * where no number becomes infinite; integers and truth values into types that have exactly these numbers. Others are
 * errors that name the first number that does not fit. [method@TrainingSession.eval_step] and [class@InferenceSession]
 * do the same.
 *
 * The first step for new shapes creates a plan, which takes longer; it is kept for later steps. The first step of all
 * allocates the memory of parameters, gradients and state, unless another method has done so, and copies the model's
 * weights into it. Steps of known shapes allocate nothing.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_FEED for tensors that are missing, unknown, or of a wrong type or shape, such as
 * one item where batch normalization then has one value per channel, %ORTRAIN_SESSION_ERROR_INDEX for labels or indices
 * out of range, %ORTRAIN_SESSION_ERROR_NOT_FINITE for a loss that is not finite
 * ([property@TrainingOptions:stop-on-nan]), %ORTRAIN_TENSOR_ERROR_CHANGED for a mapped file that was changed, and
 * others of [error@SessionError], [error@GraphError] and [error@PlanError]. With %ORTRAIN_DEVICE_ERROR_NO_MEMORY
 * nothing has changed: the same step may be tried again, or one that needs less.
 *
 * Returns: the loss; not a number on error
 */
double
ortrain_training_session_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NAN);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NAN);

  if (!ortrain_training_session_enter_step (self, error))
    return NAN;
  double loss;
  ortrain_training_session_run_train_step (self, inputs, NULL, &loss, error);
  ortrain_training_session_leave (self);
  return loss;
}

/* The caller gets the sum of the losses. */
static void
take_losses (OrtrainTrainingSession *self, OrtrainTensorDict *outputs)
{
  OrtrainTensor *sum = ortrain_tensor_dict_get (outputs, self->graph->evaluation_loss_name);
  GStrv names = self->graph->each_loss;
  self->each_loss[0] = sum != NULL ? ortrain_tensor_get_scalar (sum, 0) : NAN;
  if (sum != NULL && !ortrain_tensor_dict_contains (outputs, "loss"))
    ortrain_tensor_dict_set (outputs, "loss", sum);
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      self->each_loss[i] = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, names[i]), 0);
      ortrain_tensor_dict_remove (outputs, names[i]);
    }
}

OrtrainTensorDict *
ortrain_training_session_run_eval_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                        GCancellable *cancellable, GError **error)
{
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return NULL;
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
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (graph, inputs, error);
  if (feeds == NULL || !ortrain_training_session_bind_checked (self, run, graph, feeds, error) ||
      !ortrain_training_session_take_memory (self, error) ||
      (with_loss && !ortrain_training_session_weigh (self, feeds, self->each_weight, error)))
    return NULL;
  OrtrainExecutor *executor = self->executors[run];
  const OrtrainStepBlock step = ortrain_training_session_make_step (self);
  self->in_step = TRUE;
  gboolean ok = ortrain_executor_run (executor, ORTRAIN_PHASE_FORWARD, &step, cancellable, &self->failed_item, error);
  self->in_step = FALSE;
  ok = ok && ortrain_model_check_files (self->model, error);
  OrtrainTensorDict *outputs = ok ? ortrain_executor_take_outputs (executor, error) : NULL;
  ortrain_executor_release_feeds (executor);
  ortrain_step_arena_end_run (self->arena);
  if (outputs != NULL && with_loss)
    take_losses (self, outputs);
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
