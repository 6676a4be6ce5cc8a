/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-choices-private.h"
#include "cuda/ortrain-cuda-context-private.h"
#include "cuda/ortrain-cuda-dnn-maker-private.h"
#include "cuda/ortrain-cuda-dnn-stored-private.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Asking cuDNN which engines compute a graph, choosing one, running it. */

#define WORKSPACE_ALIGNMENT 256
#define SPARE_WORKSPACE ((gsize) 96 << 20) /* at most, for an engine that is hardly ever needed */

typedef struct
{
  cudnnBackendDescriptor_t config; /* NULL: not made yet */
  gsize workspace_bytes;
  guint notes;
  gboolean is_compiled; /* by the library, when an execution plan is made: that takes a second or two */
} Engine;

struct _OrtrainDnnPlan
{
  GMutex lock;
  OrtrainDnnGraph graph;
  GPtrArray *descriptors; /* cudnnBackendDescriptor_t; as long as the plan */
  cudnnBackendDescriptor_t operations;
  Engine engines[ORTRAIN_DNN_MAX_ENGINES];
  OrtrainDnnEngine settings[ORTRAIN_DNN_MAX_ENGINES]; /* of them */
  guint n_engines;
  gsize workspace_bytes;
  char *refusal; /* no engine */
  char *key;     /* in the disk cache */
  gboolean measures, remembered;
  const char *device_json; /* of the target, which outlives it */
  OrtrainCudaContext *context;
  guint refused_notes;
  gsize workspace_limit;
  cudnnBackendDescriptor_t execution;
  gboolean failed; /* no engine could be made ready */
  union
  {
    float f32;
    gint32 i32;
  } values[ORTRAIN_DNN_MAX_TENSORS];
};

/* ---- graphs ---- */

static cudnnBackendDescriptor_t
make_tensor (Maker *self, const OrtrainDnnTensor *tensor, gint64 id)
{
  cudnnBackendDescriptor_t descriptor = make (self, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const bool yes = true;
  set_enum (self, descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, tensor->type);
  set (self, descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor->rank, tensor->dims);
  set (self, descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, tensor->rank, tensor->strides);
  set_int (self, descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  set_int (self, descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  if (tensor->flags & ORTRAIN_DNN_VIRTUAL)
    set (self, descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
  if (tensor->flags & ORTRAIN_DNN_BY_VALUE)
    set (self, descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
  finalize (self, descriptor, "a tensor");
  return descriptor;
}

/* Makes the window of a convolution, or of a pool. */
static cudnnBackendDescriptor_t
make_window (Maker *self, const OrtrainDnnOperation *operation)
{
  static const cudnnBackendAttributeName_t names[][6] = {
    { CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
      CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS },
    { CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS,
      CUDNN_ATTR_RESAMPLE_POST_PADDINGS, CUDNN_ATTR_RESAMPLE_STRIDES, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS },
  };
  const OrtrainDnnWindow *window = &operation->window;
  const gboolean pool = window->size[0] > 0;
  const gint64 *const values[] = { window->pad_begin, window->pad_end, window->stride,
                                   pool ? window->size : window->dilation };
  cudnnBackendDescriptor_t descriptor =
      make (self, pool ? CUDNN_BACKEND_RESAMPLE_DESCRIPTOR : CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set_enum (self, descriptor, names[pool][0], CUDNN_TYPE_DATA_TYPE, operation->precision);
  set_int (self, descriptor, names[pool][1], window->rank);
  for (guint i = 0; i < 4; i++)
    set (self, descriptor, names[pool][2 + i], CUDNN_TYPE_INT64, window->rank, values[i]);
  if (pool)
    {
      set_enum (self, descriptor, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, operation->mode);
      set_enum (self, descriptor, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
      set_enum (self, descriptor, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE,
                operation->mode == CUDNN_RESAMPLE_MAXPOOL ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD);
    }
  else
    set_enum (self, descriptor, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  finalize (self, descriptor, "a window");
  return descriptor;
}

static void
set_convolution (Maker *self, cudnnBackendDescriptor_t descriptor, const OrtrainDnnOperation *operation,
                 const cudnnBackendDescriptor_t *operands)
{
#define CONVOLUTION_NAME(kind, part) CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##part
#define CONVOLUTION_NAMES(kind, a, b, c)                                                                               \
  {                                                                                                                    \
    CONVOLUTION_NAME (kind, CONV_DESC), CONVOLUTION_NAME (kind, a), CONVOLUTION_NAME (kind, b),                        \
        CONVOLUTION_NAME (kind, c), CONVOLUTION_NAME (kind, ALPHA), CONVOLUTION_NAME (kind, BETA)                      \
  }
  /* in the order of the descriptors' types */
  static const cudnnBackendAttributeName_t names[][6] = { CONVOLUTION_NAMES (FORWARD, X, W, Y),
                                                          CONVOLUTION_NAMES (BWD_FILTER, DY, X, DW),
                                                          CONVOLUTION_NAMES (BWD_DATA, DY, W, DX) };
  const cudnnBackendAttributeName_t *name =
      names[operation->type - CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR];
  const float factors[] = { 1, 0 };
  set_descriptor (self, descriptor, name[0], make_window (self, operation));
  for (guint i = 0; i < 3; i++)
    set_descriptor (self, descriptor, name[1 + i], operands[i]);
  for (guint i = 0; i < 2; i++)
    set (self, descriptor, name[4 + i], CUDNN_TYPE_FLOAT, 1, &factors[i]);
}

static void
set_pool (Maker *self, cudnnBackendDescriptor_t descriptor, const OrtrainDnnOperation *operation,
          const cudnnBackendDescriptor_t *operands)
{
  const gboolean forward = operation->type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
#define POOL_NAME(x, dy) forward ? CUDNN_ATTR_OPERATION_RESAMPLE_FWD_##x : CUDNN_ATTR_OPERATION_RESAMPLE_BWD_##dy
  set_descriptor (self, descriptor, POOL_NAME (DESC, DESC), make_window (self, operation));
  set_descriptor (self, descriptor, POOL_NAME (XDESC, DYDESC), operands[0]);
  set_descriptor (self, descriptor, POOL_NAME (YDESC, DXDESC), operands[1]);
}

static void
set_pointwise (Maker *self, cudnnBackendDescriptor_t descriptor, const OrtrainDnnOperation *operation,
               const cudnnBackendDescriptor_t *operands)
{
  static const cudnnBackendAttributeName_t names[] = { CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_TDESC };
  cudnnBackendDescriptor_t mode = make (self, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set_enum (self, mode, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, operation->mode);
  set_enum (self, mode, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, operation->precision);
  if (operation->axis >= 0)
    set_int (self, mode, CUDNN_ATTR_POINTWISE_AXIS, operation->axis);
  finalize (self, mode, "a pointwise operation's mode");
  set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
  for (guint i = 0; i < 4; i++)
    if (operands[i] != NULL)
      set_descriptor (self, descriptor, names[i], operands[i]);
}

static cudnnBackendDescriptor_t
make_operation (Maker *self, const OrtrainDnnOperation *operation, const cudnnBackendDescriptor_t *tensors)
{
  static const cudnnBackendAttributeName_t overrides[] = { CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                                                           CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                                                           CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC };
  cudnnBackendDescriptor_t operands[4], detail;
  cudnnBackendDescriptor_t descriptor = make (self, (cudnnBackendDescriptorType_t) operation->type);
  for (guint i = 0; i < 4; i++)
    operands[i] = operation->operands[i] >= 0 ? tensors[operation->operands[i]] : NULL;
  if (operation->window.size[0] > 0)
    set_pool (self, descriptor, operation, operands);
  else if (operation->window.rank > 0)
    set_convolution (self, descriptor, operation, operands);
  else if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
    set_pointwise (self, descriptor, operation, operands);
  else if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
    {
      detail = make (self, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
      set_enum (self, detail, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, operation->precision);
      finalize (self, detail, "a product's type");
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_MATMUL_ADESC, operands[0]);
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_MATMUL_BDESC, operands[1]);
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_MATMUL_CDESC, operands[2]);
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC, detail);
      for (guint i = 0; i < 3; i++)
        if (operation->overrides[i] >= 0)
          set_descriptor (self, descriptor, overrides[i], tensors[operation->overrides[i]]);
    }
  else if (operation->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
    {
      detail = make (self, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
      set_enum (self, detail, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation->mode);
      set_enum (self, detail, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, operation->precision);
      finalize (self, detail, "a reduction's operator");
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, operands[0]);
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, operands[1]);
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC, detail);
    }
  else
    {
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, operands[0]);
      set_descriptor (self, descriptor, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, operands[1]);
    }
  finalize (self, descriptor, "an operation");
  return descriptor;
}

/* handle: NULL, where the graph is for a device that is described, not opened */
static cudnnBackendDescriptor_t
make_graph (Maker *self, const OrtrainDnnGraph *graph, cudnnHandle_t handle)
{
  cudnnBackendDescriptor_t tensors[ORTRAIN_DNN_MAX_TENSORS], operations[ORTRAIN_DNN_MAX_OPERATIONS];
  for (gint64 i = 0; i < graph->n_tensors; i++)
    tensors[i] = make_tensor (self, &graph->tensors[i], i + 1);
  for (gint64 i = 0; i < graph->n_operations; i++)
    operations[i] = make_operation (self, &graph->operations[i], tensors);
  cudnnBackendDescriptor_t descriptor = make (self, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set (self, descriptor, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->n_operations, operations);
  if (handle != NULL)
    set (self, descriptor, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  finalize (self, descriptor, "the graph");
  return descriptor;
}

/* ---- engines ---- */

static cudnnBackendDescriptor_t
make_device (Maker *self, const char *json)
{
  cudnnBackendDescriptor_t descriptor = make (self, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set (self, descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (gint64) strlen (json) + 1, json);
  finalize (self, descriptor, "the description of a device");
  return descriptor;
}

static guint
read_notes (Maker *self, cudnnBackendDescriptor_t engine)
{
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  guint bits = 0;
  const gint64 n = get (self, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  for (gint64 i = 0; i < n; i++)
    bits |= 1u << notes[i];
  return bits;
}

/* Numbers rounded to less than the operands have, and sums in an order of chance. */
static guint
find_refused_notes (const OrtrainDnnGraph *graph, const OrtrainDnnTarget *target)
{
  const guint always = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC |
                       1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION | 1u << CUDNN_NUMERICAL_NOTE_FFT;
  if (graph->tensors[0].type != CUDNN_DATA_FLOAT || target->allow_tf32)
    return always;
  return always | 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
}

static gboolean
reads_compiled (Maker *self, cudnnBackendDescriptor_t engine)
{
  cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  gboolean found = FALSE;
  const gint64 n = get (self, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                        CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, notes);
  for (gint64 i = 0; i < n; i++)
    found = found || notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  return found;
}

/* FALSE where it cannot be read, and so not be made again. cuDNN fills as many descriptors as it has knobs. */
static gboolean
read_knobs (const OrtrainCudnn *api, cudnnBackendDescriptor_t config, OrtrainDnnEngine *settings)
{
  cudnnBackendDescriptor_t choices[ORTRAIN_DNN_MAX_KNOBS];
  Maker maker = { api, g_ptr_array_new (), NULL };
  for (guint i = 0; i < ORTRAIN_DNN_MAX_KNOBS; i++)
    choices[i] = make (&maker, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  const gint64 n = get (&maker, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        ORTRAIN_DNN_MAX_KNOBS, choices);
  settings->n_knobs = (guint) CLAMP (n, 0, ORTRAIN_DNN_MAX_KNOBS);
  for (guint i = 0; i < settings->n_knobs; i++)
    {
      gint32 type = 0;
      int64_t value = 0;
      get (&maker, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
      get (&maker, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
      settings->knobs[i].type = type;
      settings->knobs[i].value = value;
    }
  forget (api, maker.descriptors);
  const gboolean ok = maker.error == NULL && n <= ORTRAIN_DNN_MAX_KNOBS;
  g_clear_error (&maker.error);
  return ok;
}

/* A configuration as the heuristics gave it to an earlier process, made when it is needed. FALSE: cuDNN does not make
 * it any more, or not with this workspace, or it is not allowed. */
static gboolean
make_config (const OrtrainCudnn *api, OrtrainDnnPlan *plan, guint place)
{
  const OrtrainDnnEngine *settings = &plan->settings[place];
  cudnnBackendDescriptor_t choices[ORTRAIN_DNN_MAX_KNOBS];
  int64_t bytes = -1;
  Maker maker = { api, plan->descriptors, NULL };
  if (plan->engines[place].config != NULL)
    return TRUE;
  cudnnBackendDescriptor_t engine = make (&maker, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  set_descriptor (&maker, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, plan->operations);
  set_int (&maker, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, settings->number);
  if (plan->device_json != NULL)
    set_descriptor (&maker, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, make_device (&maker, plan->device_json));
  finalize (&maker, engine, "an engine");
  for (guint k = 0; k < settings->n_knobs; k++)
    {
      choices[k] = make (&maker, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
      set_enum (&maker, choices[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, settings->knobs[k].type);
      set_int (&maker, choices[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, settings->knobs[k].value);
      finalize (&maker, choices[k], "a knob");
    }
  cudnnBackendDescriptor_t config = make (&maker, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  set_descriptor (&maker, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (settings->n_knobs > 0)
    set (&maker, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, settings->n_knobs, choices);
  finalize (&maker, config, "a configuration");
  get (&maker, config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  const guint notes = read_notes (&maker, engine);
  const gboolean is_compiled = reads_compiled (&maker, engine);
  const gboolean ok = maker.error == NULL && (notes & plan->refused_notes) == 0 && bytes == settings->workspace_bytes;
  if (ok)
    {
      plan->engines[place].config = config;
      plan->engines[place].notes = notes;
      plan->engines[place].is_compiled = is_compiled;
    }
  g_clear_error (&maker.error);
  return ok;
}

/* The engines that an earlier process found, if the first of them still exists. */
static gboolean
find_known_engines (const OrtrainCudnn *api, OrtrainDnnPlan *plan)
{
  const guint n = ortrain_dnn_cache_read_engines (plan->key, plan->settings);
  gboolean ok = n > 0;
  for (guint i = 0; i < n && ok; i++)
    {
      const gint64 bytes = plan->settings[i].workspace_bytes;
      ok = bytes >= 0 && (guint64) bytes <= plan->workspace_limit;
      plan->engines[i] = (Engine){ .workspace_bytes = (gsize) bytes };
    }
  plan->n_engines = ok && make_config (api, plan, 0) ? n : 0;
  return plan->n_engines > 0;
}

/* Adds the engines that the heuristics name, in their order, without those that are refused. Returns whether the
 * settings of all of them could be read. */
static gboolean
ask (Maker *self, OrtrainDnnPlan *plan, cudnnBackendHeurMode_t mode)
{
  cudnnBackendDescriptor_t heuristics = make (self, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor (self, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, plan->operations);
  set_enum (self, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (plan->device_json != NULL)
    set_descriptor (self, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, make_device (self, plan->device_json));
  finalize (self, heuristics, "the heuristics");
  const gint64 n = get (self, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
  g_autofree cudnnBackendDescriptor_t *configs = g_new0 (cudnnBackendDescriptor_t, (gsize) n + 1);
  for (gint64 i = 0; i < n; i++)
    configs[i] = make (self, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const gint64 n_found =
      n > 0 ? get (self, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, configs) : 0;
  gboolean readable = TRUE;
  for (gint64 i = 0; i < MIN (n, n_found) && plan->n_engines < ORTRAIN_DNN_MAX_ENGINES && self->error == NULL; i++)
    {
      int64_t bytes = 0, number = -1;
      OrtrainDnnEngine *settings = &plan->settings[plan->n_engines];
      cudnnBackendDescriptor_t engine = make (self, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      get (self, configs[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
      get (self, configs[i], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
      get (self, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
      const guint notes = read_notes (self, engine);
      const gboolean is_compiled = reads_compiled (self, engine);
      if (self->error == NULL && (notes & plan->refused_notes) == 0 && bytes >= 0 &&
          (gsize) bytes <= plan->workspace_limit)
        {
          plan->engines[plan->n_engines++] = (Engine){ configs[i], (gsize) bytes, notes, is_compiled };
          *settings = (OrtrainDnnEngine){ .number = number, .workspace_bytes = bytes };
          readable = read_knobs (self->api, configs[i], settings) && readable;
        }
      g_clear_error (&self->error); /* of one engine */
    }
  return readable;
}

/* ---- plans ---- */

static OrtrainDnnPlan *
plan_new (const OrtrainCudnn *api, const OrtrainDnnGraph *graph, const OrtrainDnnTarget *target, const char *key)
{
  OrtrainDnnPlan *self = g_new0 (OrtrainDnnPlan, 1);
  g_mutex_init (&self->lock);
  self->graph = *graph;
  self->descriptors = g_ptr_array_new ();
  self->key = g_strdup_printf ("%" G_GSIZE_FORMAT " %s", api->cudnnGetVersion (), key);
  self->device_json = target->device_json;
  self->context = target->context;
  self->workspace_limit = target->workspace_limit;
  self->refused_notes = find_refused_notes (graph, target);
  self->measures = target->search == ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE && target->device_json == NULL;
  for (gint64 i = 0; i < graph->n_tensors; i++)
    if (graph->tensors[i].type == CUDNN_DATA_INT32)
      self->values[i].i32 = (gint32) graph->tensors[i].value;
    else
      self->values[i].f32 = (float) graph->tensors[i].value;

  Maker maker = { api, self->descriptors, NULL };
  self->operations = make_graph (&maker, graph, NULL);
  self->remembered = maker.error == NULL && find_known_engines (api, self);
  if (maker.error == NULL && !self->remembered)
    {
      gboolean readable = ask (&maker, self, CUDNN_HEUR_MODE_A);
      g_autoptr (GError) first = g_steal_pointer (&maker.error); /* heuristics that find nothing may give an error */
      if (self->n_engines == 0)
        readable = ask (&maker, self, CUDNN_HEUR_MODE_FALLBACK);
      if (maker.error == NULL)
        maker.error = g_steal_pointer (&first);
      if (self->n_engines > 0 && readable)
        ortrain_dnn_cache_write_engines (self->key, self->settings, self->n_engines);
    }
  if (self->n_engines == 0)
    self->refusal = maker.error != NULL ? g_strdup (maker.error->message) : g_strdup ("cuDNN has no engine for it");
  g_clear_error (&maker.error);
  /* of the first one, and room for another, if the first cannot be made; of all that are to be measured */
  gsize least = G_MAXSIZE;
  for (guint i = 0; i < self->n_engines; i++)
    {
      if (i == 0 || self->measures)
        self->workspace_bytes = MAX (self->workspace_bytes, self->engines[i].workspace_bytes);
      else
        least = MIN (least, self->engines[i].workspace_bytes);
    }
  if (least <= SPARE_WORKSPACE)
    self->workspace_bytes = MAX (self->workspace_bytes, least);
  return self;
}

static char *
make_key (const OrtrainDnnGraph *graph, const OrtrainDnnTarget *target)
{
  GChecksum *sum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree char *options = g_strdup_printf ("%s %s %d %d %" G_GSIZE_FORMAT, target->device, target->device_json,
                                              target->allow_tf32, target->search, target->workspace_limit);
  g_checksum_update (sum, (const guchar *) options, -1);
  g_checksum_update (sum, (const guchar *) graph->tensors,
                     (gssize) (graph->n_tensors * (gint64) sizeof *graph->tensors));
  g_checksum_update (sum, (const guchar *) graph->operations,
                     (gssize) (graph->n_operations * (gint64) sizeof *graph->operations));
  char *key = g_strdup (g_checksum_get_string (sum));
  g_checksum_free (sum);
  return key;
}

OrtrainDnnPlan *
ortrain_dnn_plan (const OrtrainDnnGraph *graph, const OrtrainDnnTarget *target, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (target->context);
  static GMutex lock;
  static GHashTable *plans;
  static gsize told;
  const OrtrainCudnn *api = ortrain_cuda_open_cudnn (error);
  if (api == NULL)
    {
      if (g_once_init_enter (&told))
        {
          g_message ("Convolutions and attention run by plain kernels, which are slower%s%s", error != NULL ? ": " : "",
                     error != NULL ? (*error)->message : "");
          g_once_init_leave (&told, 1);
        }
      return NULL;
    }
  g_autofree char *key = make_key (graph, target);
  /* a compiled plan is loaded on one device; an entry on the disk is for all devices of the kind */
  g_autofree char *own = g_strdup_printf (
      "%s %d", key, target->context != NULL ? (int) ortrain_cuda_context_get_device (target->context) : -1);
  g_mutex_lock (&lock);
  if (plans == NULL)
    plans = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  OrtrainDnnPlan *self = g_hash_table_lookup (plans, own);
  if (self == NULL)
    {
      self = plan_new (api, graph, target, key);
      g_hash_table_insert (plans, g_steal_pointer (&own), self);
    }
  g_mutex_unlock (&lock);
  if (self->refusal == NULL)
    return self;
  g_set_error_literal (error, ortrain_cuda_library->plan_error_quark (), ORTRAIN_PLAN_ERROR_NO_KERNEL, self->refusal);
  return NULL;
}

/* Never nothing, and with room to align it: a call's workspace is aligned to less than libraries like. */
gsize
ortrain_dnn_plan_get_workspace_bytes (const OrtrainDnnPlan *self)
{
  return self->workspace_bytes + WORKSPACE_ALIGNMENT;
}

guint
ortrain_dnn_plan_get_n_engines (const OrtrainDnnPlan *self)
{
  return self->n_engines;
}

gboolean
ortrain_dnn_plan_is_remembered (const OrtrainDnnPlan *self)
{
  return self->remembered;
}

guint
ortrain_dnn_plan_get_notes (OrtrainDnnPlan *self, guint engine)
{
  g_mutex_lock (&self->lock); /* plans are shared by all sessions */
  const guint notes =
      make_config (ortrain_cuda_open_cudnn (NULL), self, engine) ? self->engines[engine].notes : G_MAXUINT;
  g_mutex_unlock (&self->lock);
  return notes;
}

gboolean
ortrain_dnn_plan_is_compiled (OrtrainDnnPlan *self, guint engine)
{
  return make_config (ortrain_cuda_open_cudnn (NULL), self, engine) && self->engines[engine].is_compiled;
}

/* ---- running ---- */

static gboolean
execute (const OrtrainCudnn *api, OrtrainDnnPlan *self, cudnnBackendDescriptor_t execution,
         const OrtrainKernelCall *call, void *const *addresses, gpointer workspace, GError **error)
{
  int64_t ids[ORTRAIN_DNN_MAX_TENSORS];
  void *places[ORTRAIN_DNN_MAX_TENSORS];
  gint64 n = 0;
  for (gint64 i = 0; i < self->graph.n_tensors; i++)
    if (!(self->graph.tensors[i].flags & ORTRAIN_DNN_VIRTUAL))
      {
        ids[n] = i + 1;
        places[n++] = self->graph.tensors[i].flags & ORTRAIN_DNN_BY_VALUE ? (void *) &self->values[i] : addresses[i];
      }
  Maker maker = { api, g_ptr_array_new (), NULL };
  cudnnBackendDescriptor_t pack = make (&maker, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set (&maker, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
  set (&maker, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, places);
  set (&maker, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finalize (&maker, pack, "the addresses");
  if (maker.error == NULL)
    remember (&maker, api->cudnnBackendExecute (ortrain_cuda_get_stream (call)->dnn, execution, pack), "execution");
  forget (api, maker.descriptors);
  if (maker.error == NULL)
    return TRUE;
  g_propagate_error (error, maker.error);
  return FALSE;
}

static cudnnBackendDescriptor_t
compile (Maker *maker, OrtrainDnnPlan *self, guint place)
{
  cudnnBackendDescriptor_t descriptor = NULL;
  for (guint with_handle = 0; with_handle < 2; with_handle++)
    {
      g_clear_error (&maker->error);
      descriptor = make (maker, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      cudnnHandle_t handle = with_handle && self->context != NULL ? ortrain_cuda_context_get_dnn (self->context)
                                                                  : NULL; /* of the process: it outlives streams */
      if (handle != NULL)
        set (maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
      set_descriptor (maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, self->engines[place].config);
      finalize (maker, descriptor, "the execution plan");
      if (maker->error == NULL)
        break;
    }
  return descriptor;
}

/* NULL with an error: this engine cannot run, others may. Kernels that the library would have to compile are looked for
 * in the disk cache, and kept there. */
static cudnnBackendDescriptor_t
make_execution (const OrtrainCudnn *api, OrtrainDnnPlan *self, guint place, const OrtrainCudaProvider *provider,
                GError **error)
{
  Maker maker = { api, self->descriptors, NULL };
  if (!make_config (api, self, place))
    {
      g_set_error_literal (error, ortrain_cuda_library->plan_error_quark (), ORTRAIN_PLAN_ERROR_NO_KERNEL,
                           "cuDNN: an engine that an earlier process has chosen cannot be made");
      return NULL;
    }
  const gboolean is_kept = self->engines[place].is_compiled && self->context != NULL;
  g_autofree char *key =
      is_kept ? ortrain_dnn_stored_make_key (self->key, &self->settings[place], self->context) : NULL;
  cudnnBackendDescriptor_t descriptor =
      is_kept ? ortrain_dnn_stored_restore (&maker, key, self->context, self->workspace_bytes) : NULL;
  const gboolean is_restored = descriptor != NULL;
  if (!is_restored)
    descriptor = compile (&maker, self, place);
  int64_t bytes = 0;
  get (&maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  if (maker.error == NULL && (bytes < 0 || (gsize) bytes > self->workspace_bytes))
    maker.error =
        g_error_new (ortrain_cuda_library->plan_error_quark (), ORTRAIN_PLAN_ERROR_NO_KERNEL,
                     "cuDNN: an engine needs %" G_GINT64_FORMAT " bytes of workspace, %" G_GSIZE_FORMAT " are planned",
                     (gint64) bytes, self->workspace_bytes);
  if (maker.error != NULL)
    {
      g_propagate_error (error, maker.error);
      return NULL;
    }
  if (is_kept)
    ORTRAIN_CUDA_COUNT (provider, is_restored ? "dnn-plans-restored" : "dnn-plans-compiled");
  if (is_kept && !is_restored)
    ortrain_dnn_stored_keep (api, key, descriptor);
  return descriptor;
}

typedef struct
{
  const OrtrainCudnn *api;
  OrtrainDnnPlan *plan;
  cudnnBackendDescriptor_t execution;
  const OrtrainKernelCall *call;
  void *const *addresses;
  gpointer workspace;
} Execution;

static gboolean
execute_again (gpointer data)
{
  const Execution *self = data;
  return execute (self->api, self->plan, self->execution, self->call, self->addresses, self->workspace, NULL);
}

static cudnnBackendDescriptor_t
search (const OrtrainCudnn *api, OrtrainDnnPlan *self, const OrtrainKernelCall *call, void *const *addresses,
        gpointer workspace)
{
  cudnnBackendDescriptor_t best = NULL;
  double least = INFINITY;
  guint place = 0;
  for (guint i = 0; i < self->n_engines; i++)
    {
      cudnnBackendDescriptor_t execution =
          make_execution (api, self, i, ortrain_cuda_get_stream (call)->provider, NULL);
      Execution tried = { api, self, execution, call, addresses, workspace };
      const double time = execution != NULL
                              ? ortrain_cuda_choices_time (ortrain_cuda_get_stream (call), execute_again, &tried)
                              : INFINITY;
      if (time < least)
        {
          least = time;
          best = execution;
          place = i;
        }
    }
  if (best != NULL)
    ortrain_dnn_cache_write_fastest (self->key, self->settings, place);
  return best;
}

static gboolean
make_ready (const OrtrainCudnn *api, OrtrainDnnPlan *self, const OrtrainKernelCall *call, void *const *addresses,
            gpointer workspace, GError **error)
{
  const gint fastest = self->measures ? ortrain_dnn_cache_read_fastest (ortrain_cuda_get_stream (call)->provider,
                                                                        self->key, self->settings, self->n_engines)
                                      : -1;
  if (fastest >= 0)
    self->execution = make_execution (api, self, (guint) fastest, ortrain_cuda_get_stream (call)->provider, NULL);
  if (self->execution == NULL && self->measures && !ortrain_cuda_get_stream (call)->is_captured)
    self->execution = search (api, self, call, addresses, workspace);
  for (guint i = 0; self->execution == NULL && i < self->n_engines; i++)
    if (self->engines[i].workspace_bytes <= self->workspace_bytes)
      {
        g_clear_error (error);
        self->execution = make_execution (api, self, i, ortrain_cuda_get_stream (call)->provider, error);
      }
  if (self->execution != NULL)
    g_clear_error (error);
  return self->execution != NULL;
}

static gboolean
open_handle (const OrtrainCudnn *api, OrtrainStream *stream, GError **error)
{
  cudnnHandle_t handle = NULL;
  Maker maker = { api, NULL, NULL };
  if (stream->dnn != NULL)
    return TRUE;
  remember (&maker, api->cudnnCreate (&handle), "opening it");
  if (maker.error == NULL)
    remember (&maker, api->cudnnSetStream (handle, stream->stream), "choosing a stream");
  stream->dnn = handle;
  if (maker.error == NULL)
    return TRUE;
  g_propagate_error (error, maker.error);
  return FALSE;
}

gboolean
ortrain_dnn_run (OrtrainDnnPlan *self, const OrtrainKernelCall *call, void *const *addresses, gpointer workspace)
{
  const OrtrainCudnn *api = ortrain_cuda_open_cudnn (NULL);
  OrtrainStream *stream = ortrain_cuda_get_stream (call);
  g_autoptr (GError) error = NULL;
  workspace = (gpointer) (((guintptr) workspace + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT);
  g_mutex_lock (&self->lock);
  const gboolean is_new = !self->failed && self->execution == NULL;
  if (is_new)
    self->failed = !open_handle (api, stream, &error) || !make_ready (api, self, call, addresses, workspace, &error);
  const gboolean runs = !self->failed;
  const gboolean is_error = !runs && ortrain_cuda_is_strict ();
  const char *reason = error != NULL ? error->message : "cuDNN cannot run an operation";
  if (is_error)
    ortrain_cuda_fail (call, "%s; ORTRAIN_CUDA_STRICT forbids a slower kernel in its place", reason);
  else if (!runs && is_new)
    g_message ("%s; a plain kernel, which is slower, takes its place", reason);
  else if (runs && (!open_handle (api, stream, &error) ||
                    !execute (api, self, self->execution, call, addresses, workspace, &error)))
    ortrain_cuda_fail (call, "%s", error->message);
  g_mutex_unlock (&self->lock);
  ORTRAIN_CUDA_COUNT (stream->provider, runs ? "dnn-runs" : "dnn-fallbacks");
  return runs || is_error;
}
