/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe-engines.h"

/* The functions that turn a graph of the provider's into descriptors are its own. */
#include "cuda/ortrain-cuda-dnn.c"

/* cuDNN's handle for the device in use. */
static cudnnHandle_t
get_handle (GError **error)
{
  OrtrainCudaContext *context = ortrain_cuda_context_open (0, error);
  return context != NULL ? ortrain_cuda_context_get_dnn (context) : NULL;
}

static char *
read_description (Maker *maker, cudnnHandle_t handle)
{
  cudnnBackendDescriptor_t descriptor = make (maker, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set (maker, descriptor, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  finalize (maker, descriptor, "the description of the device");
  const gint64 n = get (maker, descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, NULL);
  if (maker->error != NULL || n <= 0)
    return NULL;
  char *text = g_malloc0 ((gsize) n + 1);
  get (maker, descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, text);
  return text;
}

char *
probe_describe_device (GError **error)
{
  const OrtrainCudnn *api = ortrain_cuda_open_cudnn (error);
  if (api == NULL)
    return NULL;
  Maker maker = { api, g_ptr_array_new (), NULL };
  cudnnHandle_t handle = get_handle (&maker.error);
  char *text = handle != NULL ? read_description (&maker, handle) : NULL;
  forget (api, maker.descriptors);
  if (maker.error != NULL)
    {
      g_propagate_error (error, maker.error);
      g_clear_pointer (&text, g_free);
    }
  else if (text == NULL)
    g_set_error_literal (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
                         "cuDNN gives no description of the device");
  return text;
}

/* Engines in the order of the heuristics, at most ORTRAIN_DNN_MAX_ENGINES. */
static gint64
find_configs (Maker *self, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, const char *device,
              cudnnBackendDescriptor_t *configs)
{
  cudnnBackendDescriptor_t heuristics = make (self, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor (self, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set_enum (self, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (device != NULL)
    set_descriptor (self, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, make_device (self, device));
  finalize (self, heuristics, "the heuristics");
  for (guint i = 0; i < ORTRAIN_DNN_MAX_ENGINES; i++)
    configs[i] = make (self, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  return MIN (get (self, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   ORTRAIN_DNN_MAX_ENGINES, configs),
              ORTRAIN_DNN_MAX_ENGINES);
}

static void
add_configs (Probe *probe, Maker *self, const cudnnBackendDescriptor_t *configs, gint64 n)
{
  probe_begin_array (probe, "engines");
  for (gint64 i = 0; i < n && self->error == NULL; i++)
    {
      int64_t bytes = -1, number = -1;
      cudnnBackendDescriptor_t engine = make (self, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      get (self, configs[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
      get (self, configs[i], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
      get (self, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
      const guint notes = read_notes (self, engine);
      probe_begin (probe, NULL);
      probe_add_int (probe, "number", number);
      probe_add_int (probe, "workspace_bytes", bytes);
      probe_add_bool (probe, "uses_tensor_cores", notes & 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
      probe_add_bool (probe, "is_in_order", !(notes & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
      probe_end (probe);
    }
  probe_end_array (probe);
}

/* Milliseconds; less than 0: it is refused. */
static double
finalize_execution (const OrtrainCudnn *api, cudnnBackendDescriptor_t config, cudnnHandle_t handle, GError **error)
{
  Maker maker = { api, g_ptr_array_new (), NULL };
  const gint64 begin = g_get_monotonic_time ();
  cudnnBackendDescriptor_t descriptor = make (&maker, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (handle != NULL)
    set (&maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set_descriptor (&maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  finalize (&maker, descriptor, "the execution plan");
  const double milliseconds = (double) (g_get_monotonic_time () - begin) / 1e3;
  forget (api, maker.descriptors);
  if (maker.error == NULL)
    return milliseconds;
  g_propagate_error (error, maker.error);
  return -1;
}

static void
add_executions (Probe *probe, Maker *self, cudnnBackendDescriptor_t config, cudnnHandle_t handle)
{
  static const char *const names[] = { "plan_without_handle", "plan_with_handle" };
  for (guint with_handle = 0; with_handle < 2; with_handle++)
    {
      g_autoptr (GError) error = NULL;
      const double milliseconds = finalize_execution (self->api, config, with_handle ? handle : NULL, &error);
      probe_begin (probe, names[with_handle]);
      probe_add_bool (probe, "made", error == NULL);
      if (error == NULL)
        probe_add_double (probe, "milliseconds", milliseconds);
      else
        probe_add_text (probe, "error", error->message);
      probe_end (probe);
    }
}

static void
add_answer (Probe *probe, const char *name, const OrtrainDnnGraph *graph, cudnnHandle_t handle, gboolean in_graph,
            const char *device)
{
  static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
  static const char *const mode_names[] = { "first_choice", "fallback" };
  const OrtrainCudnn *api = ortrain_cuda_open_cudnn (NULL);
  cudnnBackendDescriptor_t configs[ORTRAIN_DNN_MAX_ENGINES];
  Maker maker = { api, g_ptr_array_new (), NULL };
  gboolean planned = FALSE;
  probe_begin (probe, name);
  cudnnBackendDescriptor_t descriptor = make_graph (&maker, graph, in_graph ? handle : NULL);
  if (maker.error != NULL)
    probe_add_text (probe, "error", maker.error->message);
  for (guint m = 0; m < G_N_ELEMENTS (modes) && descriptor != NULL; m++)
    {
      g_clear_error (&maker.error);
      probe_begin (probe, mode_names[m]);
      const gint64 n = find_configs (&maker, descriptor, modes[m], device, configs);
      add_configs (probe, &maker, configs, n);
      if (maker.error != NULL)
        probe_add_text (probe, "error", maker.error->message);
      else if (n > 0 && !planned && device == NULL)
        {
          add_executions (probe, &maker, configs[0], handle);
          planned = TRUE;
        }
      probe_end (probe);
    }
  g_clear_error (&maker.error);
  forget (api, maker.descriptors);
  probe_end (probe);
}

void
probe_add_engines (Probe *self, const OrtrainDnnGraph *graph, const char *device)
{
  Maker maker = { ortrain_cuda_open_cudnn (NULL), NULL, NULL };
  cudnnHandle_t handle = get_handle (&maker.error);
  g_clear_error (&maker.error);
  add_answer (self, "without_handle", graph, handle, FALSE, NULL);
  add_answer (self, "with_handle", graph, handle, TRUE, NULL);
  if (device != NULL)
    add_answer (self, "with_description", graph, handle, FALSE, device);
}

/* ---- running ---- */

typedef struct
{
  OrtrainDnnPlan *plan;
  const OrtrainKernelCall *call;
  void *const *addresses;
  void *workspace;
} Run;

static gboolean
submit_run (gpointer data)
{
  const Run *run = data;
  return ortrain_dnn_run (run->plan, run->call, run->addresses, run->workspace);
}

/* The execution plan as JSON, and how long a process takes that finds it instead of compiling. */
static void
add_stored (Probe *self, const OrtrainDnnPlan *plan, OrtrainCudaContext *context)
{
  Maker maker = { ortrain_cuda_open_cudnn (NULL), g_ptr_array_new (), NULL };
  cudnnHandle_t handle = context != NULL ? ortrain_cuda_context_get_dnn (context) : NULL;
  const gint64 n =
      plan->execution != NULL && handle != NULL
          ? get (&maker, plan->execution, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, NULL)
          : 0;
  probe_add_int (self, "json_bytes", n);
  if (n > 0)
    {
      g_autofree char *text = g_malloc0 ((gsize) n);
      get (&maker, plan->execution, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, text);
      const gint64 begin = g_get_monotonic_time ();
      cudnnBackendDescriptor_t restored = make (&maker, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      set (&maker, restored, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
      set (&maker, restored, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, text);
      finalize (&maker, restored, "a plan from JSON");
      probe_add_double (self, "ms_restore", (double) (g_get_monotonic_time () - begin) / 1e3);
    }
  if (maker.error != NULL)
    probe_add_text (self, "json_error", maker.error->message);
  g_clear_error (&maker.error);
  forget (maker.api, maker.descriptors);
}

void
probe_add_run (Probe *self, const OrtrainDnnGraph *graph, void *const *addresses)
{
  OrtrainCudaProvider provider = { .n_processors = 1 };
  OrtrainStream stream = { .stream = self->stream, .provider = &provider };
  const OrtrainKernelContext context = { .stream = &stream };
  const OrtrainKernelCall call = { .context = &context };
  g_autoptr (GError) error = NULL;
  const OrtrainDnnTarget target = { .context = ortrain_cuda_context_open (0, &error),
                                    .device = "the device in use",
                                    .workspace_limit = (gsize) 2 << 30 };
  g_clear_error (&error);
  Run run = { .call = &call, .addresses = addresses };
  gint64 begin = g_get_monotonic_time ();
  run.plan = ortrain_dnn_plan (graph, &target, &error);
  probe_begin (self, "run");
  probe_add_double (self, "ms_plan", (double) (g_get_monotonic_time () - begin) / 1e3);
  if (run.plan == NULL)
    probe_add_text (self, "error", error->message);
  else if (probe_check (self, cudaMalloc (&run.workspace, ortrain_dnn_plan_get_workspace_bytes (run.plan)),
                        "workspace"))
    {
      begin = g_get_monotonic_time ();
      const gboolean runs = submit_run (&run);
      cudaStreamSynchronize (self->stream);
      probe_add_bool (self, "runs", runs);
      probe_add_int (self, "workspace_bytes", (gint64) ortrain_dnn_plan_get_workspace_bytes (run.plan));
      probe_add_double (self, "ms_first", (double) (g_get_monotonic_time () - begin) / 1e3);
      if (runs)
        {
          probe_add_double (self, "milliseconds", probe_measure (self, self->is_small ? 1 : 5, submit_run, &run));
          add_stored (self, run.plan, target.context);
        }
      cudaFree (run.workspace);
    }
  probe_end (self);
  if (stream.dnn != NULL)
    ortrain_cuda_open_cudnn (NULL)->cudnnDestroy (stream.dnn);
}
