/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-inference-session.h"

#include "core/ortrain-text-private.h"
#include "core/ortrain-worker-private.h"
#include "model/ortrain-model-private.h"
#include "ops/upgrade/ortrain-standard-form-private.h"
#include "options/ortrain-plan-environment-private.h"
#include "plan/ortrain-memory-report-private.h"
#include "runtime/ortrain-bound-outputs-private.h"
#include "runtime/ortrain-executor-private.h"
#include "runtime/ortrain-input-conversion-private.h"
#include "runtime/ortrain-interpreter-private.h"
#include "session/ortrain-io-binding-private.h"
#include "session/ortrain-session-lock-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "training-graph/ortrain-precision-private.h"
#include "transform/ortrain-mixed-precision-private.h"
#include "transform/ortrain-passes-private.h"

/**
 * OrtrainInferenceSession:
 *
 * Runs a model.
 *
 * ```python
 * session = Ortrain.InferenceSession(Ortrain.Model("model.onnx"))
 * outputs = session.run({"x": x})
 * print(outputs["logits"].numpy().argmax(axis=1))
 * ```
 *
 * For each set of input shapes, a memory plan is created once. A run with known shapes allocates nothing but the
 * outputs that it returns, and not even those with an [class@IoBinding]. Weights are used in the mapped file, where the
 * device can read them.
 *
 * Any thread may use a session; runs wait for one another. [method@InferenceSession.run_async] runs on a thread of the
 * session, and calls back on the main context that was the caller's thread default. `g_object_run_dispose()` frees the
 * memory at once; later calls fail with %ORTRAIN_SESSION_ERROR_STATE.
 *
 * Create sessions with [ctor@InferenceSession.new] only: those from `g_object_new()` fail every call with
 * %ORTRAIN_SESSION_ERROR_NOT_INITIALIZED.
 */
struct _OrtrainInferenceSession
{
  GObject parent_instance;

  OrtrainModel *model;
  OrtrainSessionOptions *options;
  OrtrainGraph *graph;
  char **outputs;          /* that are computed; NULL: all */
  OrtrainSessionLock lock; /* guards the following; runs wait for one another */
  OrtrainDeviceContext *device_context;
  OrtrainPlanContext *plan_context; /* of all graphs and plans */
  OrtrainExecutor *executor;
  OrtrainStepArena *arena;
  gboolean ignores_declarations; /* the graph is the one without the file's declarations */
  OrtrainMemoryPlan *plan;       /* of the last run */
  gboolean data_dependent;       /* all runs need the interpreter */
  gboolean disposed;
  guint64 seed;
  guint32 n_runs;
  gboolean print_memory;
  guint64 max_allocated;
  OrtrainWorker *worker; /* for asynchronous runs */
};

enum
{
  PROP_0,
  PROP_MODEL,
  PROP_MEMORY_PLAN,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (OrtrainInferenceSession, ortrain_inference_session, G_TYPE_OBJECT)

static void
ortrain_inference_session_dispose (GObject *object)
{
  OrtrainInferenceSession *self = ORTRAIN_INFERENCE_SESSION (object);
  ortrain_session_lock_wait (&self->lock);
  self->disposed = TRUE;
  g_clear_pointer (&self->executor, ortrain_executor_free);
  g_clear_pointer (&self->arena, ortrain_step_arena_unref);
  g_clear_pointer (&self->device_context, ortrain_device_context_free);
  g_clear_pointer (&self->plan_context, ortrain_plan_context_unref);
  g_clear_object (&self->plan);
  g_clear_object (&self->graph);
  ortrain_session_lock_leave (&self->lock);
  ortrain_worker_stop (self->worker);
  G_OBJECT_CLASS (ortrain_inference_session_parent_class)->dispose (object);
}

static void
ortrain_inference_session_finalize (GObject *object)
{
  OrtrainInferenceSession *self = ORTRAIN_INFERENCE_SESSION (object);
  g_clear_object (&self->model);
  g_clear_object (&self->options);
  g_strfreev (self->outputs);
  ortrain_worker_free (self->worker);
  ortrain_session_lock_clear (&self->lock);
  G_OBJECT_CLASS (ortrain_inference_session_parent_class)->finalize (object);
}

static void
ortrain_inference_session_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainInferenceSession *self = ORTRAIN_INFERENCE_SESSION (object);
  switch (property_id)
    {
    case PROP_MODEL:
      g_value_set_object (value, self->model);
      break;
    case PROP_MEMORY_PLAN:
      g_value_take_object (value, ortrain_inference_session_get_memory_plan (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_inference_session_class_init (OrtrainInferenceSessionClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->dispose = ortrain_inference_session_dispose;
  object_class->finalize = ortrain_inference_session_finalize;
  object_class->get_property = ortrain_inference_session_get_property;

  /**
   * OrtrainInferenceSession:model: (getter get_model)
   *
   * The model that is run. Read-only.
   */
  properties[PROP_MODEL] = g_param_spec_object ("model", NULL, NULL, ORTRAIN_TYPE_MODEL, flags);
  /**
   * OrtrainInferenceSession:memory-plan: (getter get_memory_plan)
   *
   * The memory plan of the last run; %NULL before the first one, and for models whose shapes depend on computed data.
   * Read-only.
   */
  properties[PROP_MEMORY_PLAN] = g_param_spec_object ("memory-plan", NULL, NULL, ORTRAIN_TYPE_MEMORY_PLAN, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_inference_session_init (OrtrainInferenceSession *self)
{
  self->worker = ortrain_worker_new ();
  ortrain_session_lock_init (&self->lock);
}

static gboolean
has_name (OrtrainValue *value, gpointer names)
{
  return g_hash_table_contains (names, value->name);
}

static gboolean
apply_precision (OrtrainInferenceSession *self, OrtrainGraph *graph, GError **error)
{
  const OrtrainMixedPrecision request = {
    .dtype = ortrain_precision_get_dtype (ortrain_session_options_get_precision (self->options)),
  };
  return request.dtype == ORTRAIN_DTYPE_FLOAT32 || ortrain_apply_mixed_precision (graph, &request, error);
}

/* A copy with the outputs that are asked for. */
static OrtrainGraph *
copy_graph (OrtrainInferenceSession *self, OrtrainGraph *source)
{
  OrtrainGraph *copy = ortrain_graph_clone (source);
  if (self->outputs != NULL)
    {
      g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
      for (guint i = 0; self->outputs[i] != NULL; i++)
        g_hash_table_add (names, self->outputs[i]);
      ortrain_graph_filter_outputs (copy, has_name, names);
      ortrain_graph_remove_dead (copy);
    }
  return copy;
}

static OrtrainExecutor *
make_executor (OrtrainInferenceSession *self, OrtrainGraph *source, OrtrainGraph **graph, GError **error)
{
  g_autoptr (OrtrainGraph) copy = copy_graph (self, source);
  const gboolean optimize = ortrain_session_options_get_optimize (self->options);
  if ((optimize && !ortrain_optimize_symbolic_graph (copy, ortrain_device_context_get_provider (self->device_context),
                                                     self->plan_context, error)) ||
      !apply_precision (self, copy, error))
    return NULL;
  const OrtrainExecutorConfig config = {
    .device_context = self->device_context,
    .arena = self->arena,
    .optimize = optimize ? ortrain_optimize_static_graph : ortrain_complete_static_graph,
    .context = self->plan_context,
    .memory_budget = ortrain_session_options_get_memory_budget (self->options),
    .max_plans = ortrain_session_options_get_max_plans (self->options),
  };
  OrtrainExecutor *executor = ortrain_executor_new (copy, &config, error);
  if (executor != NULL)
    *graph = g_steal_pointer (&copy);
  return executor;
}

/* Outputs first: the plan depends on where they are. */
static gboolean
bind_operands (OrtrainExecutor *executor, OrtrainTensorDict *feeds, OrtrainTensorDict *bound, GError **error)
{
  ortrain_executor_clear_outputs (executor);
  for (guint k = 0; bound != NULL && k < ortrain_tensor_dict_get_size (bound); k++)
    if (!ortrain_executor_bind_output (executor, ortrain_tensor_dict_get_name (bound, k),
                                       ortrain_tensor_dict_get_tensor (bound, k), error))
      return FALSE;
  return ortrain_executor_bind (executor, feeds, NULL, error);
}

/* Feeds that the declarations of the file do not allow, though its operators may: the session goes on with a graph that
 * was inferred without them. FALSE with `error` as it was when the operators do not allow the feeds either. by_nodes:
 * set where that graph has to be run node by node. */
static gboolean
bind_without_declarations (OrtrainInferenceSession *self, OrtrainTensorDict *feeds, OrtrainTensorDict *bound,
                           gboolean *by_nodes, GError **error)
{
  if (self->ignores_declarations || !(g_error_matches (*error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DECLARATION) ||
                                      g_error_matches (*error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED)))
    return FALSE;
  g_autoptr (OrtrainGraph) source = ortrain_model_make_undeclared_graph (self->model, NULL), graph = NULL;
  g_autoptr (OrtrainExecutor) executor = source != NULL ? make_executor (self, source, &graph, NULL) : NULL;
  GError *local_error = NULL;
  if (executor == NULL)
    return FALSE;
  if (!bind_operands (executor, feeds, bound, &local_error))
    {
      const gboolean depends = g_error_matches (local_error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT);
      g_clear_error (&local_error);
      if (!depends)
        return FALSE;
      *by_nodes = TRUE;
    }
  g_clear_pointer (&self->executor, ortrain_executor_free);
  self->executor = g_steal_pointer (&executor);
  g_clear_object (&self->graph);
  self->graph = g_steal_pointer (&graph);
  self->ignores_declarations = TRUE;
  g_clear_error (error);
  return TRUE;
}

/* The whole graph; where that cannot be built, the part of it that the outputs need. */
static OrtrainGraph *
get_source (OrtrainModel *model, const char *const *outputs, GError **error)
{
  OrtrainGraph *file = ortrain_model_get_file_graph (model);
  for (guint i = 0; outputs != NULL && file != NULL && outputs[i] != NULL; i++)
    {
      OrtrainValue *output = ortrain_graph_find_value (file, outputs[i]);
      if (output != NULL && output->is_output)
        continue;
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "The model has no output '%s'",
                   ortrain_text_show (outputs[i]));
      return NULL;
    }
  g_autoptr (GError) local_error = NULL;
  OrtrainGraph *whole = ortrain_model_get_graph (model, &local_error);
  if (whole != NULL)
    return g_object_ref (whole);
  if (outputs != NULL && file != NULL)
    return ortrain_model_make_graph_of (model, outputs, error);
  g_propagate_error (error, g_steal_pointer (&local_error));
  return NULL;
}

/**
 * ortrain_inference_session_new:
 * @model: a model
 * @options: (nullable): switches, or %NULL for the default ones
 * @error: return location for a #GError
 *
 * Creates a session. Several sessions may share a model.
 *
 * Returns: (transfer full): a new session; %NULL with an error of [error@ModelError], [error@GraphError],
 *   [error@DeviceError] or [error@SessionError]; unknown operators are all listed in one
 */
OrtrainInferenceSession *
ortrain_inference_session_new (OrtrainModel *model, OrtrainSessionOptions *options, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (model), NULL);
  g_return_val_if_fail (options == NULL || ORTRAIN_IS_SESSION_OPTIONS (options), NULL);

  g_autoptr (OrtrainSessionOptions) defaults =
      options == NULL ? ortrain_session_options_new () : g_object_ref (options);
  const char *const *outputs = ortrain_session_options_get_outputs (defaults);
  g_autoptr (OrtrainGraph) source = get_source (model, outputs, error);
  if (source == NULL)
    return NULL;
  g_autoptr (OrtrainInferenceSession) self = g_object_new (ORTRAIN_TYPE_INFERENCE_SESSION, NULL);
  self->model = g_object_ref (model);
  self->options = g_object_ref (defaults);
  self->outputs = g_strdupv ((char **) outputs);
  self->seed = ortrain_session_options_get_seed (defaults);
  self->print_memory = ortrain_session_options_get_print_memory (defaults);
  const OrtrainProviderOptions provider_options = {
    .device_index = ortrain_session_options_get_device_index (defaults),
    .n_threads = ortrain_session_options_get_threads (defaults),
    .fixed_partition = ortrain_session_options_get_deterministic (defaults),
    .memory_limit = ortrain_session_options_get_device_memory_limit (defaults),
    .conv_algo_search = ortrain_session_options_get_cudnn_conv_algo_search (defaults),
    .allow_tf32 = ortrain_session_options_get_allow_tf32 (defaults),
  };
  g_autoptr (OrtrainProvider) provider =
      ortrain_provider_open (ortrain_session_options_get_provider (defaults), &provider_options, error);
  OrtrainArenaConfig arena_config;
  if (provider == NULL || (self->device_context = ortrain_device_context_new (provider, NULL, error)) == NULL ||
      !ortrain_arena_config_parse (ortrain_session_options_get_arena_config (defaults), &arena_config, error))
    return NULL;
  self->plan_context = ortrain_options_make_plan_context (provider);
  self->arena = ortrain_step_arena_new (
      provider, ortrain_session_options_get_memory_pattern (defaults) ? NULL : &arena_config, NULL);
  self->executor = make_executor (self, source, &self->graph, error);
  return self->executor != NULL && ortrain_model_check_files (model, error) ? g_steal_pointer (&self) : NULL;
}

/**
 * ortrain_inference_session_make_model:
 * @self: a session
 * @error: return location for an error
 *
 * Creates a model of the session's computation: the outputs that it was created for, in its precision, with weights
 * converted and with Cast nodes where types change. Nodes are those of the file in the form of operator set 21 or of
 * the first later one that has all of them, before they are fused, and ONNX's operators only, so that stock ONNX
 * Runtime runs the model when it is saved (its CPU provider has float16 for most operators, and bfloat16 for few).
 *
 * ```python
 * options = Ortrain.SessionOptions(precision=Ortrain.Precision.FP16)
 * Ortrain.InferenceSession(Ortrain.Model("model.onnx"), options).make_model().save("half.onnx")
 * ```
 *
 * Errors are those of [ctor@InferenceSession.new].
 *
 * Returns: (transfer full): a new model; %NULL on error
 */
OrtrainModel *
ortrain_inference_session_make_model (OrtrainInferenceSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  if (self->model == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
                   "The session was not created by its constructor; use InferenceSession.new");
      return NULL;
    }
  g_autoptr (OrtrainGraph) source = get_source (self->model, (const char *const *) self->outputs, error);
  if (source == NULL)
    return NULL;
  g_autoptr (OrtrainGraph) graph = copy_graph (self, source);
  if (!apply_precision (self, graph, error) || !ortrain_ops_to_standard_form (graph, error))
    return NULL;
  return ortrain_model_new_from_graph (graph, error);
}

/* Called with the lock held. */
static gboolean
check_ready (OrtrainInferenceSession *self, GError **error)
{
  if (self->disposed)
    g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE, "The session was disposed of");
  else if (self->executor == NULL)
    g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED,
                         "The session was not created by its constructor; use InferenceSession.new");
  return !self->disposed && self->executor != NULL;
}

static gboolean
check_known_feeds (OrtrainInferenceSession *self, OrtrainTensorDict *feeds, GError **error)
{
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (feeds, i);
      const OrtrainValue *value = ortrain_graph_find_value (self->graph, name);
      if (value == NULL || value->kind != ORTRAIN_VALUE_INPUT)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "The model has no input '%s'",
                       ortrain_text_show (name));
          return FALSE;
        }
    }
  return TRUE;
}

static void
print_memory (OrtrainInferenceSession *self, OrtrainMemoryPlan *plan)
{
  OrtrainMemoryReport fields = { .step = self->n_runs, .phase = "post_forward" };
  const gsize held = MIN (ortrain_memory_plan_get_arena_bytes (plan), ortrain_step_arena_get_size (self->arena));
  fields.allocated = ortrain_memory_plan_get_live_bytes (plan, ortrain_memory_plan_get_n_steps (plan));
  self->max_allocated = MAX (self->max_allocated, held);
  fields.max_allocated = fields.max_cached = self->max_allocated;
  fields.step_peak = fields.cached = held;
  fields.inactive = fields.max_inactive = held - fields.allocated;
  g_autoptr (OrtrainMemoryReport) report = ortrain_memory_report_new (&fields);
  g_autofree char *line = ortrain_memory_report_to_string (report);
  g_log_structured ("Ortrain-Memory", G_LOG_LEVEL_MESSAGE, "MESSAGE", "%s", line);
}

static gboolean
has_branches (const OrtrainGraph *graph)
{
  for (guint t = 0; t < graph->nodes->len; t++)
    if (ortrain_node_has_flag (graph->nodes->pdata[t], ORTRAIN_OP_CONTROL))
      return TRUE;
  return FALSE;
}

/* Node by node. Only a run that succeeds has the session do so from now on: without branches for all feeds, else for
 * those like these. */
static gboolean
run_by_nodes (OrtrainInferenceSession *self, OrtrainTensorDict *feeds, OrtrainTensorDict *bound,
              const OrtrainStepBlock *step, GCancellable *cancellable, OrtrainTensorDict **results, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  if (!check_known_feeds (self, feeds, error))
    return FALSE;
  OrtrainHostContext context;
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  if (provider->klass->reads_host)
    ortrain_host_context_init (&context, provider, ortrain_device_context_get_stream (self->device_context));
  else
    ortrain_host_context_init (&context, ortrain_provider_get_host (), NULL);
  context.step = *step;
  g_autoptr (OrtrainTensorDict) host = ortrain_inputs_to_host (feeds, error);
  if (host == NULL)
    return FALSE;
  g_autoptr (OrtrainTensorDict) outputs =
      ortrain_interpreter_run (self->graph, host, &context, cancellable, &local_error);
  gboolean by_nodes = TRUE;
  if (outputs == NULL && bind_without_declarations (self, feeds, bound, &by_nodes, &local_error))
    outputs = ortrain_interpreter_run (self->graph, host, &context, cancellable, &local_error);
  gboolean ok = outputs != NULL && ortrain_model_check_files (self->model, &local_error);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds) && ok; i++)
    ok = ortrain_tensor_check_file (ortrain_tensor_dict_get_tensor (feeds, i), &local_error);
  if (!ok)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (bound != NULL && !ortrain_bound_outputs_write (bound, outputs, error))
    return FALSE;
  g_clear_object (&self->plan);
  if (has_branches (self->graph))
    ortrain_executor_keep_unplanned (self->executor);
  else
    self->data_dependent = TRUE;
  self->n_runs++;
  *results = g_steal_pointer (&outputs);
  return TRUE;
}

/* Runs the program for these feeds, or the interpreter. With a binding, its outputs are written in place. Called with
 * the lock held. results: may be NULL when all outputs are bound. */
static gboolean
run_locked (OrtrainInferenceSession *self, OrtrainTensorDict *given, OrtrainTensorDict *bound,
            GCancellable *cancellable, OrtrainTensorDict **results, GError **error)
{
  if (!check_ready (self, error))
    return FALSE;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph, given, error);
  if (feeds == NULL)
    return FALSE;
  const OrtrainStepBlock step = { .seed = self->seed, .step = self->n_runs };
  g_autoptr (GError) local_error = NULL;
  guint n_plans = ortrain_executor_get_n_plans (self->executor);
  gboolean by_nodes = self->data_dependent;

  if (!by_nodes && !bind_operands (self->executor, feeds, bound, &local_error) &&
      !bind_without_declarations (self, feeds, bound, &by_nodes, &local_error))
    {
      by_nodes = g_error_matches (local_error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT);
      if (!by_nodes)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
    }
  if (by_nodes)
    return run_by_nodes (self, feeds, bound, &step, cancellable, results, error);

  g_set_object (&self->plan, ortrain_executor_get_plan (self->executor));
  gboolean ok = ortrain_executor_run (self->executor, ORTRAIN_PHASE_FORWARD, &step, cancellable, NULL, error);
  ortrain_executor_release_feeds (self->executor);
  if (!ok || !ortrain_model_check_files (self->model, error)) /* weights are read where the file is mapped */
    return FALSE;
  self->n_runs++;
  if (self->print_memory && ortrain_executor_get_n_plans (self->executor) != n_plans)
    print_memory (self, self->plan);
  ok = bound != NULL && ortrain_tensor_dict_get_size (bound) == self->graph->outputs->len;
  if (!ok)
    {
      *results = ortrain_executor_take_outputs (self->executor, error);
      ok = *results != NULL;
    }
  ortrain_step_arena_end_run (self->arena);
  return ok;
}

/**
 * ortrain_inference_session_run:
 * @self: a session
 * @feeds: one tensor for each input of the model
 * @error: return location for a #GError
 *
 * Runs the model, after any run that is in progress.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_FEED for inputs that are missing, unknown, or of a wrong type or shape,
 * %ORTRAIN_SESSION_ERROR_INDEX for indices out of range, %ORTRAIN_SESSION_ERROR_STATE after a dispose,
 * %ORTRAIN_TENSOR_ERROR_CHANGED for a mapped file that was changed, and those of [error@GraphError], [error@PlanError]
 * and [error@DeviceError].
 *
 * Returns: (transfer full): the outputs by name; %NULL on error
 */
OrtrainTensorDict *
ortrain_inference_session_run (OrtrainInferenceSession *self, OrtrainTensorDict *feeds, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (feeds), NULL);

  OrtrainTensorDict *results = NULL;
  ortrain_session_lock_wait (&self->lock);
  run_locked (self, feeds, NULL, NULL, &results, error);
  ortrain_session_lock_leave (&self->lock);
  return results;
}

static void
run_in_worker (GTask *task, gpointer source, gpointer feeds, GCancellable *cancellable)
{
  OrtrainInferenceSession *self = source;
  GError *error = NULL;
  OrtrainTensorDict *results = NULL;
  if (g_task_return_error_if_cancelled (task))
    return;
  ortrain_session_lock_wait (&self->lock);
  run_locked (self, feeds, NULL, cancellable, &results, &error);
  ortrain_session_lock_leave (&self->lock);
  if (results != NULL)
    g_task_return_pointer (task, results, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_inference_session_run_async:
 * @self: a session
 * @feeds: one tensor for each input of the model
 * @cancellable: (nullable): to stop between two nodes
 * @callback: (scope async) (closure user_data): called when it is done
 * @user_data: data for @callback
 *
 * Runs the model on the session's own thread; several calls run one after the other. The tensors must not be written
 * until it is done. @callback is called on the main context that is the thread's default one now.
 */
void
ortrain_inference_session_run_async (OrtrainInferenceSession *self, OrtrainTensorDict *feeds, GCancellable *cancellable,
                                     GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self));
  g_return_if_fail (ORTRAIN_IS_TENSOR_DICT (feeds));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  GError *error = NULL;
  g_task_set_source_tag (task, ortrain_inference_session_run_async);
  g_task_set_check_cancellable (task, FALSE);
  /* the caller may change its dict while the run waits */
  OrtrainTensorDict *copy = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (feeds, i), ortrain_tensor_dict_get_tensor (feeds, i));
  g_task_set_task_data (task, copy, g_object_unref);
  if (!ortrain_worker_run (self->worker, task, run_in_worker, &error))
    g_task_return_error (task, error);
}

/**
 * ortrain_inference_session_run_finish:
 * @self: a session
 * @result: the result that the callback was given
 * @error: return location for a #GError
 *
 * Finishes [method@InferenceSession.run_async]. It fails as [method@InferenceSession.run] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the outputs by name; %NULL on error
 */
OrtrainTensorDict *
ortrain_inference_session_run_finish (OrtrainInferenceSession *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_inference_session_run_async), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * ortrain_inference_session_bind:
 * @self: a session
 *
 * Creates an empty binding, for [method@InferenceSession.run_with_binding].
 *
 * Returns: (transfer full): a new binding
 */
OrtrainIoBinding *
ortrain_inference_session_bind (OrtrainInferenceSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  return ortrain_io_binding_new ();
}

/**
 * ortrain_inference_session_run_with_binding:
 * @self: a session
 * @binding: bound inputs and outputs
 * @error: return location for a #GError
 *
 * Runs the model with bound inputs, into bound outputs; outputs that are not bound are new tensors. If all are bound
 * and the shapes have been seen before, nothing is allocated. An output may share memory with an input, see
 * [class@IoBinding].
 *
 * It fails as [method@InferenceSession.run] does, with %ORTRAIN_SESSION_ERROR_FEED for bound outputs of another type or
 * shape, or in memory of each other, of a weight, or of a mapped file, and with %ORTRAIN_TENSOR_ERROR_LAYOUT for those
 * that are read-only.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_inference_session_run_with_binding (OrtrainInferenceSession *self, OrtrainIoBinding *binding, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_IO_BINDING (binding), FALSE);

  g_autoptr (OrtrainTensorDict) results = NULL;
  ortrain_session_lock_wait (&self->lock);
  gboolean ok = check_ready (self, error) && ortrain_io_binding_check (binding, self->model, error) &&
                run_locked (self, ortrain_io_binding_get_inputs (binding), ortrain_io_binding_peek_bound (binding),
                            NULL, &results, error);
  ortrain_session_lock_leave (&self->lock);
  if (ok)
    ortrain_io_binding_set_results (binding, results);
  return ok;
}

/**
 * ortrain_inference_session_get_model: (get-property model)
 * @self: a session
 *
 * Gets the model that is run.
 *
 * Returns: (transfer none) (nullable): the model
 */
OrtrainModel *
ortrain_inference_session_get_model (OrtrainInferenceSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  return self->model;
}

/**
 * ortrain_inference_session_get_arena_statistics:
 * @self: a session
 *
 * Gets the statistics of the arena of a session with [property@SessionOptions:memory-pattern] off. The memory of a run
 * is allocated and given back before its kernels run, in their order: none of it is in use between two runs.
 *
 * ```python
 * options = Ortrain.SessionOptions(memory_pattern=False, arena_config="shrink=1")
 * session = Ortrain.InferenceSession(Ortrain.Model("model.onnx"), options)
 * session.run({"x": x})
 * print(session.get_arena_statistics().num_arena_shrinkages)
 * ```
 *
 * May be called from any thread.
 *
 * Returns: (transfer full) (nullable): the statistics; %NULL with a memory pattern, and after a dispose
 */
OrtrainArenaStatistics *
ortrain_inference_session_get_arena_statistics (OrtrainInferenceSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  ortrain_session_lock_wait (&self->lock);
  OrtrainArenaStatistics *statistics = self->arena != NULL ? ortrain_step_arena_get_statistics (self->arena) : NULL;
  ortrain_session_lock_leave (&self->lock);
  return statistics;
}

/**
 * ortrain_inference_session_get_memory_plan: (get-property memory-plan)
 * @self: a session
 *
 * Gets the memory plan of the last run; %NULL before the first one, and for models whose shapes depend on computed
 * data. May be called from any thread.
 *
 * Returns: (transfer full) (nullable): the value
 */
OrtrainMemoryPlan *
ortrain_inference_session_get_memory_plan (OrtrainInferenceSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  ortrain_session_lock_wait (&self->lock);
  OrtrainMemoryPlan *plan = self->plan != NULL ? g_object_ref (self->plan) : NULL;
  ortrain_session_lock_leave (&self->lock);
  return plan;
}

static char **
get_names (OrtrainInferenceSession *self, gboolean inputs)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  OrtrainGraph *graph = self->model != NULL ? ortrain_model_get_graph (self->model, NULL) : NULL;
  if (graph == NULL && self->model != NULL)
    graph = ortrain_model_get_file_graph (self->model);
  GPtrArray *values = graph == NULL ? NULL : inputs ? graph->inputs : graph->outputs;
  for (guint i = 0; values != NULL && i < values->len; i++)
    {
      const OrtrainValue *value = values->pdata[i];
      if (inputs ? value->kind == ORTRAIN_VALUE_INPUT
                 : self->outputs == NULL || g_strv_contains ((const char *const *) self->outputs, value->name))
        g_strv_builder_add (builder, value->name);
    }
  return g_strv_builder_end (builder);
}

/**
 * ortrain_inference_session_get_input_names:
 * @self: a session
 *
 * Lists the inputs that have to be fed, in the order of the model.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names
 */
char **
ortrain_inference_session_get_input_names (OrtrainInferenceSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  return get_names (self, TRUE);
}

/**
 * ortrain_inference_session_get_output_names:
 * @self: a session
 *
 * Lists the outputs that are computed, in the order of the model.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names
 */
char **
ortrain_inference_session_get_output_names (OrtrainInferenceSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_INFERENCE_SESSION (self), NULL);

  return get_names (self, FALSE);
}
