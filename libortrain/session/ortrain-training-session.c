/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include "model/ortrain-model-private.h"
#include "optim/ortrain-adamw.h"
#include "options/ortrain-plan-environment-private.h"
#include "session/ortrain-training-session-signals-private.h"
#include "training-graph/ortrain-nondifferentiable-outputs-private.h"
#include "training-graph/ortrain-padding-rows-private.h"
#include "training-graph/ortrain-precision-private.h"
#include "training-graph/ortrain-stop-gradient-private.h"
#include "training-graph/ortrain-update-graph-private.h"
#include "transform/ortrain-passes-private.h"

#include <string.h>

/* Reports of phases that wait for an owner who does not take them. */
#define MAX_REPORTS 4096

/**
 * OrtrainTrainingSession:
 *
 * Trains a model: owns its parameters, their gradients, the state of the optimizer, and the memory of a step.
 *
 * ```python
 * options = Ortrain.TrainingOptions(optimizer=Ortrain.AdamW(learning_rate=1e-3))
 * options.add_loss(Ortrain.CrossEntropyLoss(output="logits", target="labels"))
 * session = Ortrain.TrainingSession(Ortrain.Model("model.onnx"), options)
 * for epoch in range(3):
 *     loss = session.train_step({"x": x, "labels": labels})
 *     session.optimizer_step()
 * print(session.eval_step({"x": x})["logits"].numpy().argmax(axis=1))
 * session.export("trained.onnx")
 * ```
 *
 * ```c
 * g_autoptr (OrtrainTrainingSession) session =
 *     ortrain_training_session_new (model, options, &error);
 * double loss = ortrain_training_session_train_step (session, batch, &error);
 * ortrain_training_session_optimizer_step (session, &error);
 * ```
 *
 * [method@TrainingSession.train_step] runs the model forward and backward, and accumulates the gradients until
 * [method@TrainingSession.optimizer_step] uses them, or [method@TrainingSession.zero_gradients] drops them.
 * [class@Trainer] is a loop around this.
 *
 * One call at a time: a call that comes while another is running, from another thread or from a handler in the middle
 * of a step, fails with %ORTRAIN_SESSION_ERROR_BUSY; handlers may read gradients, state and plan. A call that fails
 * leaves parameters, gradients and buffers as they were, unless its documentation says otherwise. Signals arrive on the
 * main context that was the thread's default when the session was created; those of a synchronous call come during the
 * call, on the calling thread.
 *
 * Create sessions with their `new` functions only: on an object from `g_object_new()`, every method fails with
 * %ORTRAIN_SESSION_ERROR_NOT_INITIALIZED. `g_object_run_dispose()` frees the memory before the last reference goes.
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
  PROP_LOSS_SCALE,
  PROP_N_OVERFLOWS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

/* ---- who uses the session ---- */

static gboolean
check_initialized (OrtrainTrainingSession *self, GError **error)
{
  if (self->graph != NULL)
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
               "The session was disposed of, or not created by its constructor; use TrainingSession.new");
  return FALSE;
}

gboolean
ortrain_training_session_claim (OrtrainTrainingSession *self, GError **error)
{
  if (!ortrain_session_lock_claim (&self->session_lock, error))
    return FALSE;
  if (check_initialized (self, error))
    return TRUE;
  ortrain_session_lock_leave (&self->session_lock);
  return FALSE;
}

void
ortrain_training_session_adopt (OrtrainTrainingSession *self)
{
  ortrain_session_lock_adopt (&self->session_lock);
}

static gboolean
enter (OrtrainTrainingSession *self, gboolean reading, GError **error)
{
  if (ortrain_session_lock_is_held (&self->session_lock) && (reading || !self->in_step))
    {
      if (!check_initialized (self, error))
        return FALSE;
      ortrain_session_lock_enter_again (&self->session_lock);
      return TRUE;
    }
  if (!ortrain_training_session_claim (self, error))
    return FALSE;
  ortrain_training_session_adopt (self);
  return TRUE;
}

gboolean
ortrain_training_session_enter_step (OrtrainTrainingSession *self, GError **error)
{
  return enter (self, FALSE, error);
}

gboolean
ortrain_training_session_enter (OrtrainTrainingSession *self, gboolean reading, GError **error)
{
  const gboolean nested = ortrain_session_lock_is_held (&self->session_lock);
  if (!enter (self, reading, error))
    return FALSE;
  if (nested || ortrain_training_session_wait_pending (self, 0, error))
    return TRUE;
  ortrain_training_session_leave (self);
  return FALSE;
}

void
ortrain_training_session_leave (OrtrainTrainingSession *self)
{
  ortrain_session_lock_leave (&self->session_lock);
}

/* ---- creating ---- */

OrtrainExecutorConfig
ortrain_training_session_get_config (OrtrainTrainingSession *self)
{
  const OrtrainOffload offload = ortrain_training_options_get_offload (self->options);
  const gboolean reads_host = ortrain_device_context_get_provider (self->device_context)->klass->reads_host;
  return (OrtrainExecutorConfig){
    .device_context = self->device_context,
    .training = TRUE,
    .arena = self->arena,
    .resolve = ortrain_parameter_store_resolve,
    .resolve_data = self->store,
    .optimize = ortrain_optimize_static_graph,
    .context = self->plan_context,
    .recompute_level = ortrain_training_options_get_memory_opt_level (self->options),
    .memory_budget = ortrain_training_options_get_memory_budget (self->options),
    .offloads = offload == ORTRAIN_OFFLOAD_ON || (offload == ORTRAIN_OFFLOAD_AUTO && !reads_host),
  };
}

gboolean
ortrain_training_session_take_memory (OrtrainTrainingSession *self, GError **error)
{
  if (!ortrain_parameter_store_take_memory (self->store, error))
    return FALSE;
  g_clear_object (&self->graph->without_updates); /* it is decided now */
  return TRUE;
}

/* ---- from a model ---- */

/* The whole graph, or the part of it that is known. */
static OrtrainGraph *
get_graph (OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL);
  GListModel *losses = ortrain_training_options_get_losses (options);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  if (graph != NULL)
    return g_object_ref (graph);
  if (ortrain_model_get_file_graph (model) == NULL || g_list_model_get_n_items (losses) == 0)
    {
      graph = ortrain_model_get_graph (model, error);
      return graph != NULL ? g_object_ref (graph) : NULL;
    }
  for (guint i = 0; i < g_list_model_get_n_items (losses); i++)
    {
      g_autoptr (OrtrainLoss) loss = g_list_model_get_item (losses, i);
      if (ortrain_loss_get_output (loss) != NULL)
        g_strv_builder_add (builder, ortrain_loss_get_output (loss));
    }
  g_auto (GStrv) names = g_strv_builder_end (builder);
  return ortrain_model_make_known_graph (model, (const char *const *) names, error);
}

static OrtrainProvider *
open_provider (OrtrainTrainingOptions *options, GError **error)
{
  const OrtrainProviderOptions provider_options = {
    .device_index = ortrain_training_options_get_device_index (options),
    .n_threads = ortrain_training_options_get_threads (options),
    .fixed_partition = ortrain_training_options_get_deterministic (options),
    .memory_limit = ortrain_training_options_get_device_memory_limit (options),
    .conv_algo_search = ortrain_training_options_get_cudnn_conv_algo_search (options),
    .allow_tf32 = ortrain_training_options_get_allow_tf32 (options),
  };
  return ortrain_provider_open (ortrain_training_options_get_provider (options), &provider_options, error);
}

static gboolean
build (OrtrainTrainingSession *self, OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  g_autoptr (OrtrainGraph) model_graph = get_graph (model, options, error);
  if (model_graph == NULL)
    return FALSE;
  g_autoptr (GHashTable) padding_rows = ortrain_padding_rows_find (model);
  g_autoptr (GHashTable) detached = ortrain_stop_gradient_find_detached (model);
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_training_options_get_optimizer (options) != NULL
                                               ? g_object_ref (ortrain_training_options_get_optimizer (options))
                                               : ortrain_adamw_new (1e-3);
  ortrain_update_rule_init (&self->rule, options, optimizer, ortrain_precision_has_fp16 (model_graph),
                            ortrain_training_options_get_immediate_updates (options));
  if (!ortrain_optimizer_check_state_precision (optimizer, error) ||
      !ortrain_precision_check (model_graph, options, &self->rule, error))
    return FALSE;
  g_autoptr (OrtrainProvider) provider = open_provider (options, error);
  if (provider == NULL)
    return FALSE;
  self->plan_context = ortrain_options_make_plan_context (provider);
  g_autoptr (OrtrainTrainingGraph) graph = ortrain_training_graph_new (model_graph, options, &self->rule, padding_rows,
                                                                       detached, provider, self->plan_context, error);
  if (graph == NULL)
    return FALSE;
  self->model = g_object_ref (model);
  self->options = g_object_ref (options);
  self->loss_scale = self->gradient_scale = self->rule.scaling.is_on ? (float) self->rule.scaling.initial : 1.0;
  ortrain_training_options_set_optimizer (options, optimizer);
  self->seed = ortrain_training_options_get_seed (options);
  self->each_loss = g_new0 (double, graph->counts->len);
  self->each_weight = g_new0 (double, graph->counts->len);
  if ((self->device_context = ortrain_device_context_new (provider, NULL, error)) == NULL)
    return FALSE;
  self->store = ortrain_parameter_store_new (graph, &self->rule, optimizer, self->device_context, error);
  if (self->store == NULL)
    return FALSE;
  OrtrainArenaConfig arena_config;
  if (!ortrain_arena_config_parse (ortrain_training_options_get_arena_config (options), &arena_config, error))
    return FALSE;
  self->arena =
      ortrain_step_arena_new (provider, ortrain_training_options_get_memory_pattern (options) ? NULL : &arena_config,
                              ortrain_training_options_get_offload_folder (options));
  OrtrainStepReadback *readback = NULL;
  if (provider->klass->capture != NULL &&
      (readback = ortrain_step_readback_new (self->device_context,
                                             ortrain_update_set_get_n_written (self->store->updates), error)) == NULL)
    return FALSE;
  ortrain_step_queue_set_readback (self->queue, readback);
  if (!provider->klass->reads_host)
    self->input_staging = ortrain_input_staging_new (self->device_context);
  if (!ortrain_training_session_make_executors (self, graph, self->executors, error))
    return FALSE;
  if (!ortrain_model_check_files (model, error))
    return FALSE;
  self->graph = g_steal_pointer (&graph);
  return TRUE;
}

/**
 * ortrain_training_session_new:
 * @model: a model
 * @options: the options of the training
 * @error: return location for an error
 *
 * Creates a session: builds the gradient graph, and plans the memory of parameters, gradients and state. The model is
 * not changed. Options without an optimizer are given an [class@AdamW].
 *
 * The memory itself is allocated, and the model's weights are copied into it, by the first method that needs contents:
 * a step, or one that reads or writes parameters. Until then a session can be looked at and planned however large it
 * is, and the model's weights must stay as they are.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_NOT_TRAINABLE and %ORTRAIN_SESSION_ERROR_OPTION for a model, losses or options that
 * do not fit together, and those of [error@ModelError], [error@GraphError], [error@DeviceError] and
 * [error@TensorError].
 *
 * Returns: (transfer full): the session; %NULL on error
 */
OrtrainTrainingSession *
ortrain_training_session_new (OrtrainModel *model, OrtrainTrainingOptions *options, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (model), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (options), NULL);

  g_autoptr (OrtrainTrainingSession) self = g_object_new (ORTRAIN_TYPE_TRAINING_SESSION, NULL);
  if (!build (self, model, options, error))
    return NULL;
  return g_steal_pointer (&self);
}

typedef struct
{
  OrtrainTrainingSession *session; /* created on the caller's context, which is to own it */
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
  if (build (data->session, data->model, data->options, &error))
    g_task_return_pointer (task, g_object_ref (data->session), g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_training_session_new_async:
 * @model: a model
 * @options: the options of the training; not to be changed until the session is there
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when the session is there
 * @user_data: data for @callback
 *
 * Creates a session on another thread, see [ctor@TrainingSession.new].
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
  ortrain_task_run_in_thread (task, new_in_thread);
}

/**
 * ortrain_training_session_new_finish:
 * @result: the result
 * @error: return location for an error
 *
 * Finishes [func@TrainingSession.new_async]. It fails as [ctor@TrainingSession.new] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the session; %NULL on error
 */
OrtrainTrainingSession *
ortrain_training_session_new_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_training_session_new_async), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- properties ---- */

/**
 * ortrain_training_session_get_model: (get-property model)
 * @self: a session
 *
 * Gets the model as its file has it, with its own weights; [method@TrainingSession.export] writes the trained ones.
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
 * Gets the options that the session was created with.
 *
 * Returns: (transfer none) (nullable): the value
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
 * Gets the forward pass, the losses, the gradients and the updates as one graph, before the passes that need shapes. It
 * is there to be looked at and saved.
 *
 * Returns: (transfer none) (nullable): the graph
 */
OrtrainGraph *
ortrain_training_session_get_training_graph (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_mutex_lock (&self->lock);
  OrtrainGraph *graph = self->graph != NULL ? self->graph->training : NULL;
  g_mutex_unlock (&self->lock);
  return graph;
}

/**
 * ortrain_training_session_get_notes:
 * @self: a session
 *
 * Lists decisions about losses, updates and outputs that were made when the session was created: that a loss starts
 * from the scores before a softmax at the end of the model, which gradients are kept, which outputs are not computed,
 * and why; and of the last plan, that a recompute level above 0 saves nothing, and which clusters of a recompute
 * configuration would take more memory than they save.
 *
 * Returns: (transfer full) (array zero-terminated=1): one sentence each
 */
char **
ortrain_training_session_get_notes (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_autoptr (GStrvBuilder) notes = g_strv_builder_new ();
  g_mutex_lock (&self->lock);
  if (self->graph != NULL)
    g_strv_builder_addv (notes, (const char **) self->graph->notes);
  if (self->last_plan != NULL && ortrain_memory_plan_get_n_layers (self->last_plan) == 0 &&
      ortrain_training_options_get_memory_opt_level (self->options) > 0)
    g_strv_builder_add (notes, "nothing is recomputed: the model has no layers that would save something");
  const char *dropped = self->last_plan != NULL ? ortrain_memory_plan_get_dropped_clusters (self->last_plan) : NULL;
  if (dropped != NULL)
    {
      g_autofree char *note = g_strconcat (
          "memory-opt-config: computing these again takes more memory than it saves, so that they are kept: ", dropped,
          NULL);
      g_strv_builder_add (notes, note);
    }
  g_mutex_unlock (&self->lock);
  return g_strv_builder_end (notes);
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
  g_mutex_lock (&self->lock);
  OrtrainMemoryPlan *plan = self->plan;
  if (plan != NULL && !g_ptr_array_find (self->handed_out, plan, NULL))
    g_ptr_array_add (self->handed_out, g_object_ref (plan));
  g_mutex_unlock (&self->lock);
  return plan;
}

/**
 * ortrain_training_session_get_step: (get-property step)
 * @self: a session
 *
 * Gets how many updates there have been. Any thread may call it. On a device that computes by itself, the thread that
 * submitted an update waits here where it may have been left out ([class@LossScaler], clipping without stop-on-nan).
 *
 * Returns: the number
 */
guint64
ortrain_training_session_get_step (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  if (ortrain_step_queue_get_readback (self->queue) != NULL && ortrain_training_session_may_skip_updates (self))
    ortrain_training_session_try_wait_pending (self);
  g_mutex_lock (&self->lock);
  guint64 n = self->n_updates;
  g_mutex_unlock (&self->lock);
  return n;
}

/**
 * ortrain_training_session_get_n_train_steps: (get-property n-train-steps)
 * @self: a session
 *
 * Gets how often the model was run forward and backward.
 *
 * Returns: the number
 */
guint64
ortrain_training_session_get_n_train_steps (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  g_mutex_lock (&self->lock);
  guint64 n = self->n_train_steps;
  g_mutex_unlock (&self->lock);
  return n;
}

/**
 * ortrain_training_session_get_memory_report:
 * @self: a session
 *
 * Reports on the session's memory between steps.
 *
 * Returns: (transfer full) (nullable): the report; %NULL before the first step, and while a call runs on another thread
 */
OrtrainMemoryReport *
ortrain_training_session_get_memory_report (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  if (!ortrain_training_session_enter (self, TRUE, NULL))
    return NULL;
  OrtrainMemoryReport *report =
      self->plan != NULL ? ortrain_training_session_make_report (self, ORTRAIN_TRAINING_POST_UPDATE) : NULL;
  ortrain_training_session_leave (self);
  return report;
}

/**
 * ortrain_training_session_get_arena_statistics:
 * @self: a session
 *
 * Gets the statistics of the arena of a session with [property@TrainingOptions:memory-pattern] off. The memory of a
 * step is allocated and given back before its kernels run, in their order: none of it is in use between two calls.
 *
 * ```python
 * options = Ortrain.TrainingOptions(losses=[Ortrain.CrossEntropyLoss.new("logits", "labels")], memory_pattern=False)
 * session = Ortrain.TrainingSession.new(Ortrain.Model("model.onnx"), options)
 * print(session.get_arena_statistics().total_allocated_bytes)
 * ```
 *
 * Returns: (transfer full) (nullable): the statistics; %NULL with a memory pattern, after a dispose, and while a call
 * runs on another thread
 */
OrtrainArenaStatistics *
ortrain_training_session_get_arena_statistics (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  if (!ortrain_training_session_enter (self, TRUE, NULL))
    return NULL;
  OrtrainArenaStatistics *statistics = ortrain_step_arena_get_statistics (self->arena);
  ortrain_training_session_leave (self);
  return statistics;
}

/* ---- class ---- */

static void
ortrain_training_session_dispose (GObject *object)
{
  OrtrainTrainingSession *self = ORTRAIN_TRAINING_SESSION (object);

  /* In the middle of a call the memory is still in use; it is freed with the last reference, and calls hold one,
   * too. */
  if (!ortrain_session_lock_claim (&self->session_lock, NULL))
    {
      G_OBJECT_CLASS (ortrain_training_session_parent_class)->dispose (object);
      return;
    }
  ortrain_worker_stop (self->worker);
  if (self->device_context != NULL)
    ortrain_device_context_drain (self->device_context);
  ortrain_step_queue_discard (self->queue);
  if (self->last_trained != self->executors[ORTRAIN_TRAINING_RUN_TRAIN])
    g_clear_pointer (&self->last_trained, ortrain_executor_free);
  ortrain_training_session_free_executors (self->executors);
  self->last_trained = NULL;
  g_mutex_lock (&self->lock);
  g_clear_object (&self->plan);
  g_clear_object (&self->last_plan);
  OrtrainTrainingGraph *graph = g_steal_pointer (&self->graph);
  g_mutex_unlock (&self->lock);
  g_clear_pointer (&self->arena, ortrain_step_arena_unref);
  g_clear_pointer (&self->store, ortrain_parameter_store_free);
  g_clear_pointer (&graph, ortrain_training_graph_free);
  g_ptr_array_set_size (self->old_graphs, 0);
  ortrain_step_queue_set_readback (self->queue, NULL);
  g_clear_pointer (&self->input_staging, ortrain_input_staging_free);
  g_clear_pointer (&self->device_context, ortrain_device_context_free);
  ortrain_session_lock_leave (&self->session_lock);

  G_OBJECT_CLASS (ortrain_training_session_parent_class)->dispose (object);
}

static void
ortrain_training_session_finalize (GObject *object)
{
  OrtrainTrainingSession *self = ORTRAIN_TRAINING_SESSION (object);

  g_clear_object (&self->model);
  g_clear_object (&self->options);
  g_clear_pointer (&self->signal_queue, ortrain_signal_queue_unref);
  g_clear_pointer (&self->metadata, g_hash_table_unref);
  g_clear_pointer (&self->texts, g_hash_table_unref);
  g_free (self->each_loss);
  g_free (self->each_weight);
  g_clear_pointer (&self->handed_out, g_ptr_array_unref);
  g_clear_pointer (&self->old_graphs, g_ptr_array_unref);
  g_clear_pointer (&self->worker, ortrain_worker_free);
  g_clear_pointer (&self->queue, ortrain_step_queue_free);
  g_clear_pointer (&self->plan_context, ortrain_plan_context_unref);
  ortrain_session_lock_clear (&self->session_lock);
  g_mutex_clear (&self->lock);

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
      g_value_set_uint64 (value, ortrain_training_session_get_step (self));
      break;
    case PROP_N_TRAIN_STEPS:
      g_value_set_uint64 (value, ortrain_training_session_get_n_train_steps (self));
      break;
    case PROP_LOSS_SCALE:
      g_value_set_double (value, ortrain_training_session_get_loss_scale (self));
      break;
    case PROP_N_OVERFLOWS:
      g_value_set_uint64 (value, ortrain_training_session_get_n_overflows (self));
      break;
    case PROP_MEMORY_PLAN:
      g_mutex_lock (&self->lock);
      g_value_set_object (value, self->plan);
      g_mutex_unlock (&self->lock);
      break;
    case PROP_TRAINING_GRAPH:
      g_mutex_lock (&self->lock);
      g_value_set_object (value, self->graph != NULL ? self->graph->training : NULL);
      g_mutex_unlock (&self->lock);
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
   * The model as its file has it, with its own weights; [method@TrainingSession.export] writes the trained ones.
   * Read-only.
   */
  properties[PROP_MODEL] = g_param_spec_object ("model", NULL, NULL, ORTRAIN_TYPE_MODEL, flags);
  /**
   * OrtrainTrainingSession:options: (getter get_options)
   *
   * The options that the session was created with. The optimizer, its groups and the schedule may be changed between
   * steps. Read-only.
   */
  properties[PROP_OPTIONS] = g_param_spec_object ("options", NULL, NULL, ORTRAIN_TYPE_TRAINING_OPTIONS, flags);
  /**
   * OrtrainTrainingSession:step: (getter get_step)
   *
   * How many updates there have been. Read-only; changes are not notified.
   */
  properties[PROP_STEP] = g_param_spec_uint64 ("step", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainTrainingSession:n-train-steps: (getter get_n_train_steps)
   *
   * How often the model was run forward and backward. Read-only; changes are not notified.
   */
  properties[PROP_N_TRAIN_STEPS] = g_param_spec_uint64 ("n-train-steps", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainTrainingSession:memory-plan: (getter get_memory_plan)
   *
   * The plan of the last training step. Read-only; [signal@TrainingSession::plan-changed] is emitted when it changes.
   */
  properties[PROP_MEMORY_PLAN] = g_param_spec_object ("memory-plan", NULL, NULL, ORTRAIN_TYPE_MEMORY_PLAN, flags);
  /**
   * OrtrainTrainingSession:training-graph: (getter get_training_graph)
   *
   * The forward pass, the losses, the gradients and the updates as one graph, before the passes that need shapes. Do
   * not change it. Read-only.
   */
  properties[PROP_TRAINING_GRAPH] = g_param_spec_object ("training-graph", NULL, NULL, ORTRAIN_TYPE_GRAPH, flags);
  /**
   * OrtrainTrainingSession:loss-scale: (getter get_loss_scale)
   *
   * The factor of the loss in the next training step, see [class@LossScaler]; 1 where the loss is not scaled.
   * Read-only; changes are not notified.
   */
  properties[PROP_LOSS_SCALE] = g_param_spec_double ("loss-scale", NULL, NULL, 0, G_MAXDOUBLE, 1, flags);
  /**
   * OrtrainTrainingSession:n-overflows: (getter get_n_overflows)
   *
   * How many updates were left out because scaled gradients were not finite. Read-only; changes are not notified.
   */
  properties[PROP_N_OVERFLOWS] = g_param_spec_uint64 ("n-overflows", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);

  ortrain_training_session_install_signals (klass);
}

static void
ortrain_training_session_init (OrtrainTrainingSession *self)
{
  self->signal_queue = ortrain_signal_queue_new (ortrain_training_session_deliver, MAX_REPORTS);
  self->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->texts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->handed_out = g_ptr_array_new_with_free_func (g_object_unref);
  self->old_graphs = g_ptr_array_new_with_free_func ((GDestroyNotify) ortrain_training_graph_free);
  self->worker = ortrain_worker_new ();
  self->queue = ortrain_step_queue_new ();
  ortrain_session_lock_init (&self->session_lock);
  g_mutex_init (&self->lock);
}
