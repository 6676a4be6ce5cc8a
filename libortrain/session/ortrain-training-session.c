/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include "core/ortrain-home-private.h"
#include "memory/ortrain-memory-report-private.h"
#include "model/ortrain-model-private.h"
#include "optim/ortrain-adamw.h"
#include "session/ortrain-padding-rows-private.h"
#include "transform/ortrain-optimizer-private.h"

#include <math.h>
#include <string.h>

/**
 * OrtrainTrainingSession:
 *
 * Trains a model: owns its parameters, their gradients, the state of the optimizer, and the memory of a step.
 *
 * [method@TrainingSession.train_step] runs the model forward and backward. Gradients add up until
 * [method@TrainingSession.optimizer_step] uses them, or [method@TrainingSession.zero_gradients] drops them.
 *
 * ```c
 * g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
 * double loss = ortrain_training_session_train_step (session, batch, &error);
 * ortrain_training_session_optimizer_step (session, &error);
 * ```
 *
 * Make sessions with their `new` function only: on an object made in another way, every method fails with
 * [error@SessionError.NOT_INITIALIZED]. `g_object_run_dispose()` gives the memory back before the last reference is
 * gone.
 *
 * One call at a time: a call that comes while another is running, from another thread or from a handler in the middle
 * of a step, fails with [error@SessionError.BUSY]; handlers may read (gradients, state, plan). A call that fails leaves
 * parameters, gradients and buffers as they were. Signals arrive on the main context that was the thread's default when
 * the session was made; those of a synchronous call come during the call, on the calling thread.
 */
G_DEFINE_FINAL_TYPE (OrtrainTrainingSession, ortrain_training_session, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_MODEL,
  PROP_OPTIONS,
  PROP_STEP,
  PROP_N_TRAIN_STEPS,
  PROP_MEMORY_PLAN,
  PROP_TRAINING_GRAPH,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

enum
{
  PRE_FORWARD,
  POST_FORWARD,
  PRE_BACKWARD,
  POST_BACKWARD,
  PRE_UPDATE,
  POST_UPDATE,
  N_PHASES,
  OVERFLOW = N_PHASES,
  PLAN_CHANGED,
  NOT_FINITE,
  N_SIGNALS
};

static guint signals[N_SIGNALS];
static const char *const phase_signals[] = { "pre-forward",   "post-forward", "pre-backward",
                                             "post-backward", "pre-update",   "post-update" };
static const char *const phase_names[] = { "pre_forward",   "post_forward", "pre_backward",
                                           "post_backward", "pre_update",   "post_update" };

/* ---- signals ---- */

typedef struct
{
  guint signal;
  OrtrainMemoryReport *report;
  OrtrainMemoryPlan *plan;
} Message;

static void
message_free (gpointer data)
{
  Message *message = data;
  g_clear_pointer (&message->report, ortrain_memory_report_free);
  g_clear_object (&message->plan);
  g_free (message);
}

static void
emit (GObject *object, guint slot, gpointer data)
{
  Message *message = data;
  if (message->signal < N_PHASES)
    g_signal_emit (object, signals[message->signal], 0, message->report);
  else if (message->signal == PLAN_CHANGED)
    g_signal_emit (object, signals[PLAN_CHANGED], 0, message->plan);
  else
    g_signal_emit (object, signals[message->signal], 0);
}

/* report and plan: taken */
static void
tell (OrtrainTrainingSession *self, guint signal, OrtrainMemoryReport *report, OrtrainMemoryPlan *plan)
{
  Message message = { signal, report, plan };
  if (ortrain_mailbox_is_on_owner (self->mailbox))
    {
      emit (G_OBJECT (self), 0, &message);
      g_clear_pointer (&message.report, ortrain_memory_report_free);
      g_clear_object (&message.plan);
    }
  else
    ortrain_mailbox_post (self->mailbox, G_OBJECT (self), 0, g_memdup2 (&message, sizeof message), message_free);
}

static guint64
persistent_bytes (OrtrainTrainingSession *self)
{
  return self->store->block_bytes;
}

/* The position of a phase boundary in the plan. */
static guint
boundary (OrtrainTrainingSession *self, guint phase)
{
  if (phase == PRE_FORWARD)
    return 0;
  if (phase == POST_FORWARD || phase == PRE_BACKWARD)
    return ortrain_memory_plan_get_first_backward_step (self->plan);
  return ortrain_memory_plan_get_n_steps (self->plan);
}

/* The number of the training step that a phase belongs to, from 1. */
static guint64
step_of (OrtrainTrainingSession *self, guint phase)
{
  return self->n_train_steps + (phase == PRE_UPDATE || phase == POST_UPDATE ? 0 : 1);
}

static OrtrainMemoryReport *
make_report (OrtrainTrainingSession *self, guint phase)
{
  OrtrainMemoryPlan *plan = self->plan;
  guint position = boundary (self, phase);
  gboolean updating = phase == PRE_UPDATE || phase == POST_UPDATE;
  guint64 persistent = persistent_bytes (self);
  guint64 live = updating ? 0 : ortrain_memory_plan_get_live_bytes (plan, position);
  guint64 peak = persistent + ortrain_memory_plan_get_high_water (plan, position);
  guint64 cached = persistent + ortrain_step_arena_get_size (self->arena);
  OrtrainMemoryReport report = {
    .rank = ortrain_training_options_get_rank (self->options),
    .step = step_of (self, phase),
    .phase = phase_names[phase],
    .allocated = persistent + live,
    .step_peak = peak,
    .cached = cached,
    .inactive = cached - persistent - live,
    .param = self->store->bytes[ORTRAIN_CATEGORY_PARAMETER],
    .grad = self->store->bytes[ORTRAIN_CATEGORY_GRADIENT],
    .buffer = self->store->buffers_bytes,
    .state = self->store->bytes[ORTRAIN_CATEGORY_STATE],
    .constant = ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_CONSTANT),
    .input = self->input_bytes,
  };
  if (!updating)
    {
      report.activation = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_ACTIVATION, position);
      report.temporary = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_TEMPORARY, position);
      report.workspace = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_WORKSPACE, position);
      report.output = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_OUTPUT, position);
    }
  self->max_allocated = MAX (self->max_allocated, peak);
  self->max_cached = MAX (self->max_cached, cached);
  self->max_inactive = MAX (self->max_inactive, report.inactive);
  report.max_allocated = self->max_allocated;
  report.max_cached = self->max_cached;
  report.max_inactive = self->max_inactive;
  return ortrain_memory_report_new (&report);
}

static gboolean
is_printed (OrtrainTrainingSession *self, guint phase)
{
  if (!ortrain_training_options_get_print_memory (self->options) ||
      ortrain_training_options_get_rank (self->options) != 0)
    return FALSE;
  guint64 step = step_of (self, phase);
  return step < 10 || (step & (step - 1)) == 0;
}

static gboolean
has_handlers (OrtrainTrainingSession *self, guint signal)
{
  return g_signal_has_handler_pending (self, signals[signal], 0, FALSE);
}

static void
reach (OrtrainTrainingSession *self, guint phase)
{
  gboolean printed = is_printed (self, phase), handled = has_handlers (self, phase);
  if (!printed && !handled)
    return;
  OrtrainMemoryReport *report = make_report (self, phase);
  if (printed)
    {
      g_autofree char *line = ortrain_memory_report_to_string (report);
      g_log_structured ("Ortrain-Memory", G_LOG_LEVEL_MESSAGE, "MESSAGE", "%s", line);
    }
  if (handled)
    tell (self, phase, report, NULL);
  else
    ortrain_memory_report_free (report);
}

/* ---- who uses the session ---- */

static gboolean
check_initialized (OrtrainTrainingSession *self, GError **error)
{
  if (self->graph != NULL)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
               "the session was not made by its constructor, or its memory was given back");
  return FALSE;
}

gboolean
ortrain_training_session_claim (OrtrainTrainingSession *self, GError **error)
{
  if (!g_atomic_int_compare_and_exchange (&self->busy, 0, 1))
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY, "the session is busy with another call");
      return FALSE;
    }
  if (!check_initialized (self, error))
    {
      g_atomic_int_set (&self->busy, 0);
      return FALSE;
    }
  self->depth = 1;
  return TRUE;
}

void
ortrain_training_session_adopt (OrtrainTrainingSession *self)
{
  g_atomic_pointer_set (&self->holder, g_thread_self ());
}

gboolean
ortrain_training_session_enter (OrtrainTrainingSession *self, gboolean reading, GError **error)
{
  if (g_atomic_int_get (&self->busy) && g_atomic_pointer_get (&self->holder) == g_thread_self () &&
      (reading || !self->in_step))
    {
      if (!check_initialized (self, error))
        return FALSE;
      self->depth++;
      return TRUE;
    }
  if (!ortrain_training_session_claim (self, error))
    return FALSE;
  ortrain_training_session_adopt (self);
  return TRUE;
}

void
ortrain_training_session_leave (OrtrainTrainingSession *self)
{
  if (--self->depth > 0)
    return;
  g_atomic_pointer_set (&self->holder, NULL);
  g_atomic_int_set (&self->busy, 0);
}

/* ---- making ---- */

static gboolean
make (OrtrainTrainingSession *self, OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  const OrtrainProvider *provider = ortrain_provider_get_cpu ();
  OrtrainGraph *model_graph = ortrain_model_get_graph (model, error);
  if (model_graph == NULL)
    return FALSE;
  g_autoptr (GHashTable) padding_rows = ortrain_padding_rows_find (model);
  g_autoptr (OrtrainTrainingGraph) graph = ortrain_training_graph_new (model_graph, options, padding_rows, error);
  if (graph == NULL)
    return FALSE;
  self->model = g_object_ref (model);
  self->options = g_object_ref (options);
  if (ortrain_training_options_get_optimizer (options) == NULL)
    {
      g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-3);
      ortrain_training_options_set_optimizer (options, optimizer);
    }
  self->seed = ortrain_training_options_get_seed (options);
  self->pool = ortrain_thread_pool_new (ortrain_training_options_get_threads (options));
  self->store = ortrain_parameter_store_new (graph, ortrain_training_options_get_optimizer (options), provider, error);
  if (self->store == NULL)
    return FALSE;
  self->arena = ortrain_step_arena_new (provider);
  OrtrainExecutorConfig config = {
    .provider = provider,
    .pool = self->pool,
    .fixed_partition = ortrain_training_options_get_deterministic (options),
    .training = TRUE,
    .arena = self->arena,
    .resolve = ortrain_parameter_store_resolve,
    .resolve_data = self->store,
    .optimize = ortrain_optimize_static_graph,
  };
  self->training = ortrain_executor_new (graph->training, &config, error);
  if (self->training == NULL)
    return FALSE;
  config.training = FALSE;
  self->evaluation = ortrain_executor_new (graph->evaluation, &config, error);
  if (self->evaluation == NULL)
    return FALSE;
  self->evaluation_loss = ortrain_executor_new (graph->evaluation_loss, &config, error);
  if (self->evaluation_loss == NULL)
    return FALSE;
  static const OrtrainCategory held[] = { ORTRAIN_CATEGORY_PARAMETER, ORTRAIN_CATEGORY_GRADIENT, ORTRAIN_CATEGORY_STATE,
                                          ORTRAIN_CATEGORY_BUFFER };
  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    {
      ortrain_executor_set_persistent (self->training, held[i], self->store->bytes[held[i]]);
      ortrain_executor_set_persistent (self->evaluation, held[i], self->store->bytes[held[i]]);
      ortrain_executor_set_persistent (self->evaluation_loss, held[i], self->store->bytes[held[i]]);
    }
  self->graph = g_steal_pointer (&graph);
  return TRUE;
}

/**
 * ortrain_training_session_new:
 * @model: a model
 * @options: what to train, and how
 * @error: return location for an error
 *
 * Makes a session: builds the gradient graph, takes the memory for parameters, gradients and state, and copies the
 * model's weights into it. The model is not changed. If the options have no optimizer, they are given an AdamW.
 *
 * Blocks for as long as it takes to read the weights.
 *
 * Returns: (transfer full): the session, %NULL on error
 */
OrtrainTrainingSession *
ortrain_training_session_new (OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (model), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (options), NULL);

  g_autoptr (OrtrainTrainingSession) self = g_object_new (ORTRAIN_TYPE_TRAINING_SESSION, NULL);
  if (!make (self, model, options, error))
    return NULL;
  return g_steal_pointer (&self);
}

typedef struct
{
  OrtrainTrainingSession *session; /* made on the caller's context, which is to own it */
  OrtrainModel *model;
  OrtrainTrainingOptions *options;
} NewData;

static void
new_data_free (gpointer data)
{
  NewData *new_data = data;
  g_clear_object (&new_data->session);
  g_clear_object (&new_data->model);
  g_clear_object (&new_data->options);
  g_free (new_data);
}

static void
new_in_thread (GTask *task, gpointer source_object, gpointer task_data, GCancellable *cancellable)
{
  NewData *data = task_data;
  GError *error = NULL;
  ortrain_home_enter (g_task_get_context (task));
  gboolean made = make (data->session, data->model, data->options, &error);
  ortrain_home_enter (NULL);
  if (made)
    g_task_return_pointer (task, g_object_ref (data->session), g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_training_session_new_async:
 * @model: a model
 * @options: what to train, and how; not to be changed until the session is there
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when the session is there
 * @user_data: data for @callback
 *
 * Makes a session without blocking.
 */
void
ortrain_training_session_new_async (OrtrainModel *model, OrtrainTrainingOptions *options, GCancellable *cancellable,
                                    GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_MODEL (model));
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (options));

  g_autoptr (GTask) task = g_task_new (NULL, cancellable, callback, user_data);
  NewData *data = g_new0 (NewData, 1);
  g_task_set_source_tag (task, ortrain_training_session_new_async);
  data->session = g_object_new (ORTRAIN_TYPE_TRAINING_SESSION, NULL);
  data->model = g_object_ref (model);
  data->options = g_object_ref (options);
  g_task_set_task_data (task, data, new_data_free);
  g_task_run_in_thread (task, new_in_thread);
}

/**
 * ortrain_training_session_new_finish:
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [func@TrainingSession.new_async].
 *
 * Returns: (transfer full): the session, %NULL on error
 */
OrtrainTrainingSession *
ortrain_training_session_new_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- feeds ---- */

/* Labels are often bytes or 32-bit integers, while a graph wants int64: targets of any integer type are taken.
 * Everything else must be of the right type. Returns a new reference. */
static OrtrainTensorDict *
convert_targets (OrtrainTrainingSession *self, OrtrainGraph *graph, OrtrainTensorDict *inputs, GError **error)
{
  OrtrainTensorDict *converted = NULL;
  for (guint i = 0; self->graph->targets[i] != NULL; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (inputs, self->graph->targets[i]);
      OrtrainValue *value = ortrain_graph_find_value (graph, self->graph->targets[i]);
      if (tensor == NULL || value == NULL || value->dtype != ORTRAIN_DTYPE_INT64)
        continue;
      OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
      if (dtype == ORTRAIN_DTYPE_INT64 || !ortrain_dtype_is_integer (dtype))
        continue;
      g_autoptr (OrtrainTensor) wide = ortrain_tensor_cast (tensor, ORTRAIN_DTYPE_INT64, error);
      if (wide == NULL)
        {
          g_clear_object (&converted);
          return NULL;
        }
      if (converted == NULL)
        {
          converted = ortrain_tensor_dict_new ();
          for (guint k = 0; k < ortrain_tensor_dict_get_size (inputs); k++)
            ortrain_tensor_dict_set (converted, ortrain_tensor_dict_get_name (inputs, k),
                                     ortrain_tensor_dict_get_tensor (inputs, k));
        }
      ortrain_tensor_dict_set (converted, self->graph->targets[i], wide);
    }
  return converted != NULL ? converted : g_object_ref (inputs);
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
  gconstpointer address = ortrain_executor_peek (self->training, self->graph->loss);
  if (address == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE, "the loss is not computed by the plan");
      return FALSE;
    }
  *loss = self->graph->loss_dtype == ORTRAIN_DTYPE_FLOAT64 ? *(const double *) address : *(const float *) address;
  return TRUE;
}

static gboolean
run_phases (OrtrainTrainingSession *self, GCancellable *cancellable, double *loss, GError **error)
{
  OrtrainKernelFrame frame = {
    .pool = self->pool,
    .seed = self->seed,
    .step = (guint32) self->n_train_steps,
    .accumulate_gradients = self->n_accumulated > 0,
  };
  reach (self, PRE_FORWARD);
  if (!ortrain_executor_run (self->training, ORTRAIN_PHASE_FORWARD, &frame, cancellable, error) ||
      !read_loss (self, loss, error))
    return FALSE;
  if (!isfinite (*loss))
    {
      if (has_handlers (self, NOT_FINITE))
        tell (self, NOT_FINITE, NULL, NULL);
      if (ortrain_training_options_get_stop_on_nan (self->options))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
                       "the loss of training step %" G_GUINT64_FORMAT " is %g", self->n_train_steps + 1,
                       normalize (*loss));
          return FALSE;
        }
    }
  reach (self, POST_FORWARD);
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  reach (self, PRE_BACKWARD);
  /* Gradients of earlier steps are added to in place and could not be had back: then the backward pass, whose errors
   * the forward pass would have met before, is not left half done. Otherwise what a break leaves behind is never used.
   */
  if (self->n_accumulated == 0)
    self->has_gradients = FALSE;
  if (!ortrain_executor_run (self->training, ORTRAIN_PHASE_BACKWARD, &frame,
                             self->n_accumulated == 0 ? cancellable : NULL, error))
    return FALSE;
  ortrain_parameter_store_zero_padding (self->store);
  self->has_gradients = TRUE;
  reach (self, POST_BACKWARD);
  return TRUE;
}

double
ortrain_training_session_run_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                         GCancellable *cancellable, GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = convert_targets (self, self->graph->training, inputs, error);
  if (feeds == NULL || !ortrain_executor_bind (self->training, feeds, NULL, error))
    return NAN;
  OrtrainMemoryPlan *plan = ortrain_executor_get_plan (self->training);
  if (plan != self->plan)
    {
      g_set_object (&self->plan, plan);
      if (has_handlers (self, PLAN_CHANGED))
        tell (self, PLAN_CHANGED, NULL, g_object_ref (plan));
    }
  self->input_bytes = count_bytes (feeds);

  double loss = NAN;
  self->in_step = TRUE;
  ortrain_parameter_store_save_buffers (self->store);
  gboolean ok = run_phases (self, cancellable, &loss, error);
  if (!ok)
    ortrain_parameter_store_restore_buffers (self->store);
  self->in_step = FALSE;
  ortrain_executor_release_feeds (self->training);
  if (!ok)
    return NAN;
  self->n_accumulated++;
  self->n_train_steps++;
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
 * Runs the model forward and backward, and adds the gradients to those of the steps since the last update.
 *
 * The first step for new shapes makes a plan, which takes longer; it is kept for later steps. No memory is allocated by
 * steps of known shapes. Blocks for as long as the step takes.
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

static double
current_factor (OrtrainTrainingSession *self)
{
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  double factor = 1.0;
  if (schedule != NULL)
    ortrain_lr_schedule_evaluate (schedule, self->n_updates, &factor);
  return factor;
}

gboolean
ortrain_training_session_run_optimizer_step (OrtrainTrainingSession *self, GError **error)
{
  if (self->n_accumulated == 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "there are no gradients to update with: call train_step before optimizer_step");
      return FALSE;
    }
  double scale = ortrain_training_options_get_accumulation_steps (self->options) > 1 ? 1.0 / self->n_accumulated : 1.0;
  double max_norm = ortrain_training_options_get_max_grad_norm (self->options);
  gboolean overflow = FALSE, ok = TRUE;
  self->in_step = TRUE;
  reach (self, PRE_UPDATE);
  if (max_norm > 0)
    {
      double norm = ortrain_update_set_norm (self->store->updates, self->pool) * scale;
      self->last_gradient_norm = normalize (norm);
      overflow = !isfinite (norm);
      scale *= MIN (1.0, max_norm / (norm + 1e-6));
    }
  /* Gradients that are not finite would make every parameter so: the update is left out, and told. */
  if (!overflow)
    ok = ortrain_update_set_run (self->store->updates, self->pool, self->n_updates + 1, current_factor (self), scale,
                                 error);
  if (ok)
    {
      self->n_accumulated = 0;
      if (!overflow)
        self->n_updates++;
      reach (self, POST_UPDATE);
      if (overflow && has_handlers (self, OVERFLOW))
        tell (self, OVERFLOW, NULL, NULL);
    }
  self->in_step = FALSE;
  return ok;
}

/**
 * ortrain_training_session_optimizer_step:
 * @self: a session
 * @error: return location for an error
 *
 * Moves the parameters by the gradients of the steps since the last update, clipped if the options say so. Fails with
 * [error@SessionError.STATE] if there were none.
 *
 * Clipping with gradients that are not finite leaves the update out, and emits [signal@TrainingSession::overflow].
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
 * ortrain_training_session_zero_gradients:
 * @self: a session
 * @error: return location for an error
 *
 * Drops the gradients of the steps since the last update.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_zero_gradients (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return FALSE;
  ortrain_parameter_store_zero_gradients (self->store);
  self->n_accumulated = 0;
  ortrain_training_session_leave (self);
  return TRUE;
}

OrtrainTensorDict *
ortrain_training_session_run_eval_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                        GCancellable *cancellable, GError **error)
{
  gboolean with_loss = self->graph->targets[0] == NULL;
  for (guint i = 0; self->graph->targets[i] != NULL && !with_loss; i++)
    with_loss = ortrain_tensor_dict_contains (inputs, self->graph->targets[i]);
  OrtrainExecutor *executor = with_loss ? self->evaluation_loss : self->evaluation;
  OrtrainGraph *graph = with_loss ? self->graph->evaluation_loss : self->graph->evaluation;
  g_autoptr (OrtrainTensorDict) feeds = convert_targets (self, graph, inputs, error);
  if (feeds == NULL || !ortrain_executor_bind (executor, feeds, NULL, error))
    return NULL;
  OrtrainKernelFrame frame = { .pool = self->pool, .seed = self->seed, .step = (guint32) self->n_train_steps };
  self->in_step = TRUE;
  gboolean ok = ortrain_executor_run (executor, ORTRAIN_PHASE_FORWARD, &frame, cancellable, error);
  self->in_step = FALSE;
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
 * Runs the model as it stands, as it is used for inference: stored statistics in batch normalisation, no dropout.
 * Changes nothing.
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

/* ---- state ---- */

static gboolean
copy_into (OrtrainTensorDict *dict, const OrtrainStored *stored, gconstpointer address, GError **error)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_stored_copy (stored, address, error);
  if (tensor == NULL)
    return FALSE;
  ortrain_tensor_dict_set (dict, stored->name, tensor);
  return TRUE;
}

/**
 * ortrain_training_session_get_gradients:
 * @self: a session
 * @error: return location for an error
 *
 * Gets copies of the gradients: the sums over the steps since the last update, or those that the last update used.
 *
 * Returns: (transfer full): the gradients by the names of their parameters, %NULL on error
 */
OrtrainTensorDict *
ortrain_training_session_get_gradients (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  if (!ortrain_training_session_enter (self, TRUE, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  gboolean ok = self->has_gradients;
  if (!ok)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "there are no gradients: call train_step first");
  for (guint i = 0; i < self->store->n_parameters && ok; i++)
    ok = copy_into (dict, &self->store->parameters[i], self->store->parameters[i].gradient, error);
  ortrain_training_session_leave (self);
  return ok ? g_steal_pointer (&dict) : NULL;
}

static OrtrainTensorDict *
get_tensors (OrtrainTrainingSession *self, gboolean with_buffers, GError **error)
{
  if (!ortrain_training_session_enter (self, TRUE, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  gboolean ok = TRUE;
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
 * Gets copies of the trained parameters.
 *
 * Returns: (transfer full): the parameters by the names of their initializers, %NULL on error
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
 * Gets copies of the trained parameters and of the buffers, such as running statistics.
 *
 * Returns: (transfer full): the tensors by the names of their initializers, %NULL on error
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
 * @parameters: parameters or buffers by the names of their initializers; not all need be there
 * @error: return location for an error
 *
 * Sets parameters. If one of them does not fit, nothing is changed.
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
  gboolean ok = ortrain_parameter_store_set (self->store, parameters, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_set_state:
 * @self: a session
 * @state: parameters and buffers by the names of their initializers; not all need be there
 * @error: return location for an error
 *
 * Sets parameters and buffers. If one of them does not fit, nothing is changed.
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
transpose (const OrtrainStored *stored, GError **error)
{
  const gint64 rows = stored->dims[0], columns = stored->dims[1], dims[] = { columns, rows };
  const gsize size = ortrain_dtype_get_size (stored->dtype);
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (stored->dtype, dims, 2, error);
  if (tensor == NULL)
    return NULL;
  const guint8 *from = stored->address;
  guint8 *to = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < rows; i++)
    for (gint64 j = 0; j < columns; j++)
      memcpy (to + (gsize) (j * rows + i) * size, from + (gsize) (i * columns + j) * size, size);
  return tensor;
}

gboolean
ortrain_training_session_run_export (OrtrainTrainingSession *self, const char *path, GError **error)
{
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  OrtrainStored *const lists[] = { self->store->parameters, self->store->buffers };
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
      OrtrainStored *first = ortrain_parameter_store_find (self->store, tie->first);
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
 * Writes the model as it was read, with the weights as they are now. Names, operator set and structure stay. What is at
 * @path is replaced only when everything is on disk.
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

/* ---- what it is ---- */

/**
 * ortrain_training_session_plan:
 * @self: a session
 * @inputs: inputs as for a training step; of most of them only the shapes matter
 * @error: return location for an error
 *
 * Makes the plan of a training step without running it.
 *
 * Returns: (transfer full): the plan, %NULL on error
 */
OrtrainMemoryPlan *
ortrain_training_session_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NULL);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return NULL;
  OrtrainMemoryPlan *plan = NULL;
  g_autoptr (OrtrainTensorDict) feeds = convert_targets (self, self->graph->training, inputs, error);
  if (feeds != NULL && ortrain_executor_bind (self->training, feeds, NULL, error))
    plan = g_object_ref (ortrain_executor_get_plan (self->training));
  ortrain_executor_release_feeds (self->training);
  ortrain_training_session_leave (self);
  return plan;
}

/**
 * ortrain_training_session_get_model: (get-property model)
 * @self: a session
 *
 * Gets the model that is trained, as it was read.
 *
 * Returns: (transfer none) (nullable): the model
 */
OrtrainModel *
ortrain_training_session_get_model (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  return self->model;
}

/**
 * ortrain_training_session_get_options: (get-property options)
 * @self: a session
 *
 * Gets the options.
 *
 * Returns: (transfer none) (nullable): the options
 */
OrtrainTrainingOptions *
ortrain_training_session_get_options (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  return self->options;
}

/**
 * ortrain_training_session_get_training_graph: (get-property training-graph)
 * @self: a session
 *
 * Gets the training graph: the forward pass, the losses and the backward pass. It is there to be looked at and saved.
 *
 * Returns: (transfer none) (nullable): the graph
 */
OrtrainGraph *
ortrain_training_session_get_training_graph (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  return self->graph != NULL ? self->graph->training : NULL;
}

/**
 * ortrain_training_session_get_memory_plan: (get-property memory-plan)
 * @self: a session
 *
 * Gets the plan of the last training step.
 *
 * Returns: (transfer none) (nullable): the plan, %NULL before the first step
 */
OrtrainMemoryPlan *
ortrain_training_session_get_memory_plan (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  return self->plan;
}

/**
 * ortrain_training_session_get_step: (get-property step)
 * @self: a session
 *
 * Gets the number of updates made so far.
 *
 * Returns: the number
 */
guint64
ortrain_training_session_get_step (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  return self->n_updates;
}

/**
 * ortrain_training_session_get_n_train_steps: (get-property n-train-steps)
 * @self: a session
 *
 * Gets the number of training steps made so far.
 *
 * Returns: the number
 */
guint64
ortrain_training_session_get_n_train_steps (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  return self->n_train_steps;
}

/**
 * ortrain_training_session_get_current_learning_rate:
 * @self: a session
 *
 * Gets the learning rate that the next update will use, with the schedule and without the groups.
 *
 * Returns: the learning rate
 */
double
ortrain_training_session_get_current_learning_rate (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  if (self->options == NULL || ortrain_training_options_get_optimizer (self->options) == NULL)
    return 0;
  return ortrain_optimizer_get_learning_rate (ortrain_training_options_get_optimizer (self->options)) *
         current_factor (self);
}

/**
 * ortrain_training_session_get_last_gradient_norm:
 * @self: a session
 *
 * Gets the norm of all gradients together before they were clipped in the last update. It is computed only if the
 * options ask for clipping.
 *
 * Returns: the norm, 0 if none was computed
 */
double
ortrain_training_session_get_last_gradient_norm (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  return self->last_gradient_norm;
}

/**
 * ortrain_training_session_get_memory_report:
 * @self: a session
 *
 * Gets a report on the session's memory between steps. Before the first step there is no plan, and nothing to report.
 *
 * Returns: (transfer full) (nullable): the report
 */
OrtrainMemoryReport *
ortrain_training_session_get_memory_report (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  if (!ortrain_training_session_enter (self, TRUE, NULL))
    return NULL;
  OrtrainMemoryReport *report = self->plan != NULL ? make_report (self, POST_UPDATE) : NULL;
  ortrain_training_session_leave (self);
  return report;
}

/* ---- class ---- */

static void
ortrain_training_session_dispose (GObject *object)
{
  OrtrainTrainingSession *self = ORTRAIN_TRAINING_SESSION (object);

  /* In the middle of a call the memory is still in use; it goes with the last reference, which calls hold too. */
  if (g_atomic_int_get (&self->busy))
    {
      G_OBJECT_CLASS (ortrain_training_session_parent_class)->dispose (object);
      return;
    }
  g_clear_pointer (&self->worker, ortrain_training_worker_free);
  g_clear_pointer (&self->training, ortrain_executor_free);
  g_clear_pointer (&self->evaluation, ortrain_executor_free);
  g_clear_pointer (&self->evaluation_loss, ortrain_executor_free);
  g_clear_object (&self->plan);
  g_clear_pointer (&self->arena, ortrain_step_arena_unref);
  g_clear_pointer (&self->store, ortrain_parameter_store_free);
  g_clear_pointer (&self->graph, ortrain_training_graph_free);
  g_clear_pointer (&self->pool, ortrain_thread_pool_unref);

  G_OBJECT_CLASS (ortrain_training_session_parent_class)->dispose (object);
}

static void
ortrain_training_session_finalize (GObject *object)
{
  OrtrainTrainingSession *self = ORTRAIN_TRAINING_SESSION (object);

  g_clear_object (&self->model);
  g_clear_object (&self->options);
  g_clear_pointer (&self->mailbox, ortrain_mailbox_unref);
  g_clear_pointer (&self->metadata, g_hash_table_unref);

  G_OBJECT_CLASS (ortrain_training_session_parent_class)->finalize (object);
}

static void
ortrain_training_session_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainTrainingSession *self = ORTRAIN_TRAINING_SESSION (object);
  switch (property_id)
    {
    case PROP_MODEL:
      g_value_set_object (value, self->model);
      break;
    case PROP_OPTIONS:
      g_value_set_object (value, self->options);
      break;
    case PROP_STEP:
      g_value_set_uint64 (value, self->n_updates);
      break;
    case PROP_N_TRAIN_STEPS:
      g_value_set_uint64 (value, self->n_train_steps);
      break;
    case PROP_MEMORY_PLAN:
      g_value_set_object (value, self->plan);
      break;
    case PROP_TRAINING_GRAPH:
      g_value_set_object (value, ortrain_training_session_get_training_graph (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_training_session_class_init (OrtrainTrainingSessionClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->dispose = ortrain_training_session_dispose;
  object_class->finalize = ortrain_training_session_finalize;
  object_class->get_property = ortrain_training_session_get_property;

  /**
   * OrtrainTrainingSession:model: (getter get_model)
   *
   * The model that is trained.
   */
  properties[PROP_MODEL] = g_param_spec_object ("model", NULL, NULL, ORTRAIN_TYPE_MODEL, flags);
  /**
   * OrtrainTrainingSession:options: (getter get_options)
   *
   * The options.
   */
  properties[PROP_OPTIONS] = g_param_spec_object ("options", NULL, NULL, ORTRAIN_TYPE_TRAINING_OPTIONS, flags);
  /**
   * OrtrainTrainingSession:step: (getter get_step)
   *
   * The number of updates made so far. Changes are not notified: ask for it, or use a signal.
   */
  properties[PROP_STEP] = g_param_spec_uint64 ("step", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainTrainingSession:n-train-steps: (getter get_n_train_steps)
   *
   * The number of training steps made so far. Changes are not notified.
   */
  properties[PROP_N_TRAIN_STEPS] = g_param_spec_uint64 ("n-train-steps", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainTrainingSession:memory-plan: (getter get_memory_plan)
   *
   * The plan of the last training step. Changes are told by [signal@TrainingSession::plan-changed].
   */
  properties[PROP_MEMORY_PLAN] = g_param_spec_object ("memory-plan", NULL, NULL, ORTRAIN_TYPE_MEMORY_PLAN, flags);
  /**
   * OrtrainTrainingSession:training-graph: (getter get_training_graph)
   *
   * The training graph.
   */
  properties[PROP_TRAINING_GRAPH] = g_param_spec_object ("training-graph", NULL, NULL, ORTRAIN_TYPE_GRAPH, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);

  /**
   * OrtrainTrainingSession::pre-forward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted before the forward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::post-forward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted after the forward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::pre-backward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted before the backward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::post-backward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted after the backward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::pre-update:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted before the optimizer moves the parameters.
   */
  /**
   * OrtrainTrainingSession::post-update:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted after the optimizer moved the parameters.
   */
  for (guint i = 0; i < N_PHASES; i++)
    signals[i] = g_signal_new (phase_signals[i], G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                               G_TYPE_NONE, 1, ORTRAIN_TYPE_MEMORY_REPORT);
  /**
   * OrtrainTrainingSession::overflow:
   * @self: the session
   *
   * Emitted when an update was left out because the gradients were not finite.
   */
  signals[OVERFLOW] =
      g_signal_new ("overflow", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
  /**
   * OrtrainTrainingSession::plan-changed:
   * @self: the session
   * @plan: the plan that training steps use from now on
   *
   * Emitted when a training step uses another plan than the one before.
   */
  signals[PLAN_CHANGED] = g_signal_new ("plan-changed", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                        NULL, G_TYPE_NONE, 1, ORTRAIN_TYPE_MEMORY_PLAN);
  /**
   * OrtrainTrainingSession::not-finite:
   * @self: the session
   *
   * Emitted when the loss of a training step is not a finite number.
   */
  signals[NOT_FINITE] =
      g_signal_new ("not-finite", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void
ortrain_training_session_init (OrtrainTrainingSession *self)
{
  self->mailbox = ortrain_mailbox_new (emit);
  self->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
}
