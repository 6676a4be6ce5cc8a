/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-update.h"

/* ---- prepare ---- */

/* The tensors of a node, without addresses. */
typedef struct
{
  guint32 n_tensors, n_states, n_spans;
  bool stochastic;
  guint32 copy_outputs[ORTRAIN_UPDATE_MAX_TENSORS]; /* 0: there is no copy */
  Tensor tensors[ORTRAIN_UPDATE_MAX_TENSORS];
} Layout;

static gboolean
prepare_tensor (OrtrainKernelSetup *setup, Layout *layout, guint t, GError **error)
{
  const guint in = 3 + t * (2 + layout->n_states), out = t * (1 + layout->n_states);
  Tensor *tensor = &layout->tensors[t];
  const gboolean wide = tensor->dtype == ORTRAIN_DTYPE_FLOAT64;
  setup->inplace[out] = G_GUINT64_CONSTANT (1) << in;
  if (tensor->gradient == ORTRAIN_DTYPE_FLOAT64 && !wide)
    return ortrain_cuda_refuse (setup, error, "the gradient is float64, the parameter is not");
  if (tensor->copy_dtype != ORTRAIN_DTYPE_UNDEFINED && tensor->dtype != ORTRAIN_DTYPE_FLOAT32)
    return ortrain_cuda_refuse (setup, error, "only parameters of float32 have copies");
  for (guint k = 0; k < layout->n_states; k++)
    {
      const OrtrainDType dtype = setup->inputs[in + 2 + k].dtype;
      const OrtrainDType floating = wide ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32;
      if (k == 0)
        tensor->in_blocks = !wide && dtype == ORTRAIN_DTYPE_UINT8;
      if (dtype != (tensor->in_blocks ? ORTRAIN_DTYPE_UINT8 : floating))
        return ortrain_cuda_refuse (setup, error, "a state is of another type than float32 or uint8");
      setup->inplace[out + 1 + k] = G_GUINT64_CONSTANT (1) << (in + 2 + k);
    }
  return TRUE;
}

static gboolean
prepare_update (OrtrainKernelSetup *setup, GError **error)
{
  gsize n = 0, n_copies = 0;
  const gint64 *parameters = ORTRAIN_CUDA_INTS (setup, "parameters", &n);
  const gint64 *copies = ORTRAIN_CUDA_INTS (setup, "copies", &n_copies);
  const guint n_states = (guint) ORTRAIN_CUDA_INT (setup, "states", 0);
  if (n_states > ORTRAIN_UPDATE_MAX_STATES || n > ORTRAIN_UPDATE_MAX_TENSORS || setup->n_inputs > 64 ||
      setup->n_outputs > ORTRAIN_KERNEL_MAX_OUTPUTS)
    return ortrain_cuda_refuse (setup, error, "there are %u tensors, more than %u", (guint) n,
                                (guint) ORTRAIN_UPDATE_MAX_TENSORS);
  if (n == 0)
    return ortrain_cuda_refuse (setup, error, "there is no tensor");
  Layout *layout = g_new0 (Layout, 1);
  setup->constants = layout;
  setup->constants_free = g_free;
  layout->n_tensors = (guint32) n;
  layout->n_states = n_states;
  layout->stochastic = ORTRAIN_CUDA_INT (setup, "stochastic_rounding", 0) != 0;
  guint copy = (guint) n * (1 + n_states) + 1; /* output */
  gint64 n_spans = 0;
  for (guint t = 0; t < n; t++)
    {
      const OrtrainOperand *w = &setup->inputs[3 + t * (2 + n_states)];
      Tensor *tensor = &layout->tensors[t];
      tensor->n = w->n_elements;
      tensor->dtype = (guint8) w->dtype;
      tensor->gradient = (guint8) w[1].dtype;
      tensor->parameter = (guint32) parameters[t];
      tensor->copy_dtype = t < n_copies ? (guint8) copies[t] : (guint8) ORTRAIN_DTYPE_UNDEFINED;
      if (tensor->copy_dtype != ORTRAIN_DTYPE_UNDEFINED)
        layout->copy_outputs[t] = copy++;
      n_spans += get_n_spans (tensor);
      setup->workspace_bytes += get_scratch_bytes (tensor);
      if (n_spans > G_MAXINT32)
        return ortrain_cuda_refuse (setup, error, "the tensors have too many elements");
      if (!prepare_tensor (setup, layout, t, error))
        return FALSE;
    }
  layout->n_spans = (guint32) n_spans;
  return TRUE;
}

/* Sums that only grow are never in 8 bits. */
static gboolean
prepare_adagrad (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_update (setup, error))
    return FALSE;
  const Layout *layout = (const Layout *) setup->constants;
  for (guint t = 0; t < layout->n_tensors; t++)
    if (layout->tensors[t].in_blocks)
      return ortrain_cuda_refuse (setup, error, "sums are not kept in 8 bits");
  return TRUE;
}

/* ---- moving ---- */

static __device__ void
store_parameter (const Update &p, const Tensor &tensor, gint64 i, int n, const float w[4])
{
  if (p.stochastic && tensor.dtype == ORTRAIN_DTYPE_BFLOAT16)
    store4_stochastic (p, tensor.parameter, tensor.w, i, n, w);
  else
    store4_any (tensor.dtype, tensor.w, i, n, w);
  if (tensor.copy != NULL)
    store4_any (tensor.copy_dtype, tensor.copy, i, n, w);
}

template <typename Rule>
static __device__ bool
move_floats (const Update &p, const Tensor &tensor, const typename Rule::Math &c, gint64 i, int n)
{
  float w[4], g[4], s[ORTRAIN_UPDATE_MAX_STATES][4] = {};
  bool broken = false;
  load4_any (w, tensor.dtype, tensor.w, i, n);
  load4_any (g, tensor.gradient, tensor.g, i, n);
  for (int k = 0; k < ORTRAIN_UPDATE_MAX_STATES; k++)
    if (k < (int) p.n_states)
      load4<float> (s[k], tensor.states[k], i, n);
  for (int k = 0; k < 4; k++)
    {
      const float before = w[k];
      Rule::move (c, &w[k], g[k], &s[0][k], &s[1][k], p.n_states > 0);
      broken = broken || (k < n && is_broken (tensor.dtype, before, w[k]));
    }
  for (int k = 0; k < ORTRAIN_UPDATE_MAX_STATES; k++)
    if (k < (int) p.n_states)
      store4<float> (tensor.states[k], i, n, s[k]);
  store_parameter (p, tensor, i, n, w);
  return broken;
}

template <typename Rule>
static __device__ bool
move_doubles (const Update &p, const Tensor &tensor, const typename Rule::Math &c, gint64 i, int n)
{
  double *w = (double *) tensor.w + i, *s0 = (double *) tensor.states[0] + i, *s1 = (double *) tensor.states[1] + i;
  bool broken = false;
  for (int k = 0; k < n; k++)
    {
      double g[4], next = w[k];
      load4_any (g, tensor.gradient, tensor.g, i + k, 1);
      Rule::move (c, &next, g[0], s0 + k, s1 + k, p.n_states > 0);
      broken = broken || (!isfinite (next) && !(isinf (w[k]) && next == w[k]));
      w[k] = next;
    }
  return broken;
}

template <typename Rule>
static __device__ bool
move_blocks (const Update &p, const Tensor &tensor, const typename Rule::Math &c, gint64 i, int n)
{
  float w[4], g[4], s[ORTRAIN_UPDATE_MAX_STATES][4] = {};
  bool broken = false;
  load4_any (w, tensor.dtype, tensor.w, i, n);
  load4_any (g, tensor.gradient, tensor.g, i, n);
  load_codes<true> (s[0], tensor.states[0], i);
  if (p.n_states > 1)
    load_codes<false> (s[1], tensor.states[1], i);
  for (int k = 0; k < 4; k++)
    {
      const float before = w[k];
      Rule::move (c, &w[k], g[k], &s[0][k], &s[1][k], true);
      broken = broken || (k < n && is_broken (tensor.dtype, before, w[k]));
    }
  store_codes<true> (tensor.states[0], i, n, s[0]);
  if (p.n_states > 1)
    store_codes<false> (tensor.states[1], i, n, s[1]);
  store_parameter (p, tensor, i, n, w);
  return broken;
}

/* A tensor of one kind is moved by the kernel for it; in the others, blocks with it have nothing to do. */
enum Kind
{
  FLOATS,
  DOUBLES,
  BLOCKS,
};

static __host__ __device__ Kind
get_kind (const Tensor &tensor)
{
  return tensor.in_blocks ? BLOCKS : tensor.dtype == ORTRAIN_DTYPE_FLOAT64 ? DOUBLES : FLOATS;
}

template <typename Rule, Kind kind> struct Mover;

template <typename Rule> struct Mover<Rule, FLOATS>
{
  static __device__ bool
  move (const Update &p, const Tensor &tensor, const typename Rule::Math &c, gint64 i, int n)
  {
    return move_floats<Rule> (p, tensor, c, i, n);
  }
};

template <typename Rule> struct Mover<Rule, DOUBLES>
{
  static __device__ bool
  move (const Update &p, const Tensor &tensor, const typename Rule::Math &c, gint64 i, int n)
  {
    return move_doubles<Rule> (p, tensor, c, i, n);
  }
};

template <typename Rule> struct Mover<Rule, BLOCKS>
{
  static __device__ bool
  move (const Update &p, const Tensor &tensor, const typename Rule::Math &c, gint64 i, int n)
  {
    return move_blocks<Rule> (p, tensor, c, i, n);
  }
};

template <typename Rule, Kind kind, int capacity>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 3) update_kernel (ORTRAIN_CUDA_LARGE (Table<capacity>) table)
{
  ORTRAIN_CUDA_SHARED (typename Rule::Math, shared, 1);
  ORTRAIN_CUDA_SHARED (int, any_broken, 33);
  const Update &p = table.update;
  const Tensor &tensor = table.tensors[find_tensor (table, blockIdx.x)];
  const unsigned span = blockIdx.x - tensor.first_span;
  const gint64 begin = (gint64) span * SPAN;
  const gint64 end = begin + SPAN < tensor.n ? begin + SPAN : tensor.n;
  const bool moves = is_moving (p);
  /* where a warp takes a block, its lanes stay together */
  const gint64 lane = kind == BLOCKS ? 4 * (gint64) (threadIdx.x % ORTRAIN_CUDA_WARP) : 0;
  if (kind != get_kind (tensor))
    return; /* all threads alike */
  if (threadIdx.x == 0)
    shared[0] = Rule::begin (p, tensor);
  __syncthreads ();
  const typename Rule::Math &c = shared[0]; /* left there: eighteen registers fewer */
  bool broken = false;
  for (gint64 i = begin + 4 * threadIdx.x; i - lane < end; i += 4 * ORTRAIN_CUDA_BLOCK)
    {
      const int n = end - i < 4 ? (int) (end > i ? end - i : 0) : 4;
      if (!moves)
        {
          /* the copies of parameters that stay as they are */
          float w[4];
          if (kind == DOUBLES || tensor.copy == NULL)
            break;
          load4<float> (w, tensor.w, i, n);
          store4_any (tensor.copy_dtype, tensor.copy, i, n, w);
        }
      else
        broken = Mover<Rule, kind>::move (p, tensor, c, i, n) || broken;
    }
  const int all = ortrain_block_reduce<OrtrainMax> ((int) broken, any_broken);
  if (threadIdx.x == 0)
    get_reports (&tensor)[span] = (guint8) all;
}

/* The first parameter of each node that is left with numbers that are not finite. A block for each. */
template <int capacity>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) broken_kernel (ORTRAIN_CUDA_LARGE (Table<capacity>) table)
{
  ORTRAIN_CUDA_SHARED (unsigned, scratch, 33);
  const unsigned n_tensors = table.update.n_tensors;
  unsigned t = 0, first = n_tensors;
  for (unsigned end = n_tensors; t < end;) /* the first tensor of the node */
    {
      const unsigned middle = (t + end) / 2;
      if (table.tensors[middle].node < blockIdx.x)
        t = middle + 1;
      else
        end = middle;
    }
  gint64 *result = table.tensors[t].result;
  if (result == NULL)
    return; /* all threads alike */
  for (; t < n_tensors && table.tensors[t].node == blockIdx.x; t++)
    {
      const guint8 *reports = get_reports (&table.tensors[t]);
      const gint64 n_spans = get_n_spans (&table.tensors[t]);
      for (gint64 i = threadIdx.x; i < n_spans; i += ORTRAIN_CUDA_BLOCK)
        first = reports[i] && t < first ? t : first;
    }
  first = ortrain_block_reduce<OrtrainMin> (first, scratch);
  if (threadIdx.x == 0)
    *result = first < n_tensors ? (gint64) table.tensors[first].parameter : ORTRAIN_UPDATE_NONE_BROKEN;
}

/* ---- LAMB's first pass ---- */

static __device__ float
lamb_direction (const OrtrainLambMath &c, float w, float g, float *m, float *v)
{
  return ortrain_lamb_direction_f32 (&c, w, g, m, v);
}

static __device__ double
lamb_direction (const OrtrainLambMath &c, double w, double g, double *m, double *v)
{
  return ortrain_lamb_direction_f64 (&c, w, g, m, v);
}

template <typename T>
static __device__ void
lamb_elements (const Tensor &tensor, const OrtrainLambMath &c, gint64 i, int n, double sums[2])
{
  T w[4], g[4], m[4], v[4];
  load4_any (w, tensor.dtype, tensor.w, i, n);
  load4_any (g, tensor.gradient, tensor.g, i, n);
  load4<T> (m, tensor.states[0], i, n);
  load4<T> (v, tensor.states[1], i, n);
  for (int k = 0; k < 4; k++)
    {
      if (k >= n)
        break;
      const T d = lamb_direction (c, w[k], g[k], &m[k], &v[k]);
      sums[0] += isfinite (w[k]) ? (double) w[k] * (double) w[k] : 0;
      sums[1] += (double) d * (double) d;
    }
  store4<T> (tensor.states[0], i, n, m);
  store4<T> (tensor.states[1], i, n, v);
}

/* Moments in 8 bits stay as they are until the second pass. */
static __device__ void
lamb_blocks (const Tensor &tensor, const OrtrainLambMath &c, gint64 i, int n, double sums[2])
{
  float w[4], g[4], m[4], v[4];
  load4_any (w, tensor.dtype, tensor.w, i, n);
  load4_any (g, tensor.gradient, tensor.g, i, n);
  load_codes<true> (m, tensor.states[0], i);
  load_codes<false> (v, tensor.states[1], i);
  for (int k = 0; k < 4; k++)
    {
      if (k >= n)
        break;
      const float d = lamb_direction (c, w[k], g[k], &m[k], &v[k]);
      sums[0] += isfinite (w[k]) ? (double) w[k] * (double) w[k] : 0;
      sums[1] += (double) d * (double) d;
    }
}

template <int capacity>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lamb_kernel (ORTRAIN_CUDA_LARGE (Table<capacity>) table)
{
  ORTRAIN_CUDA_SHARED (OrtrainLambMath, shared, 1);
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  const Tensor &tensor = table.tensors[find_tensor (table, blockIdx.x)];
  const unsigned span = blockIdx.x - tensor.first_span;
  const gint64 begin = (gint64) span * SPAN;
  const gint64 end = begin + SPAN < tensor.n ? begin + SPAN : tensor.n;
  double sums[2] = { 0, 0 };
  if (!is_moving (table.update))
    return; /* all threads alike */
  if (threadIdx.x == 0)
    shared[0] = get_lamb_math (table.update, tensor);
  __syncthreads ();
  const OrtrainLambMath c = shared[0];
  for (gint64 i = begin + 4 * threadIdx.x; i < end; i += 4 * ORTRAIN_CUDA_BLOCK)
    {
      const int n = end - i < 4 ? (int) (end - i) : 4;
      if (tensor.in_blocks)
        lamb_blocks (tensor, c, i, n, sums);
      else if (tensor.dtype == ORTRAIN_DTYPE_FLOAT64)
        lamb_elements<double> (tensor, c, i, n, sums);
      else
        lamb_elements<float> (tensor, c, i, n, sums);
    }
  for (int k = 0; k < 2; k++)
    {
      const double sum = ortrain_block_reduce<OrtrainSum> (sums[k], scratch);
      if (threadIdx.x == 0)
        get_sums (&tensor, k)[span] = sum;
    }
}

/* The ratio of each tensor: a block for each. */
template <int capacity>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lamb_ratio_kernel (ORTRAIN_CUDA_LARGE (Table<capacity>) table)
{
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  const Tensor &tensor = table.tensors[blockIdx.x];
  const gint64 n_spans = get_n_spans (&tensor);
  double sums[2] = { 0, 0 };
  if (!is_moving (table.update))
    return;
  for (gint64 i = threadIdx.x; i < n_spans; i += ORTRAIN_CUDA_BLOCK)
    for (int k = 0; k < 2; k++)
      sums[k] += get_sums (&tensor, k)[i];
  for (int k = 0; k < 2; k++)
    sums[k] = ortrain_block_reduce<OrtrainSum> (sums[k], scratch);
  if (threadIdx.x == 0)
    {
      const OrtrainLambMath c = get_lamb_math (table.update, tensor);
      tensor.scratch[0] = ortrain_lamb_ratio (&c, sums[0], sums[1]);
    }
}

/* ---- run ---- */

/* Where the results are not written over the operands, they begin as copies of them. */
static void
take_operands (const OrtrainKernelCall *call)
{
  const Layout *layout = (const Layout *) call->constants;
  const cudaStream_t stream = ortrain_cuda_get_stream (call)->stream;
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      const void *const *in = call->inputs + 3 + t * (2 + layout->n_states);
      void *const *out = call->outputs + t * (1 + layout->n_states);
      const gsize n = (gsize) layout->tensors[t].n;
      const gsize size = ortrain_cuda_library->dtype_get_size ((OrtrainDType) layout->tensors[t].dtype);
      if (out[0] != in[0] && n > 0)
        cudaMemcpyAsync (out[0], in[0], n * size, cudaMemcpyDefault, stream);
      const gsize blocks = (gsize) ORTRAIN_STATE_N_ROWS (layout->tensors[t].n) * ORTRAIN_STATE_ROW;
      const gsize state_bytes = layout->tensors[t].in_blocks ? blocks : n * MAX (size, sizeof (float));
      for (guint k = 0; k < layout->n_states; k++)
        if (out[1 + k] != in[2 + k] && n > 0)
          cudaMemcpyAsync (out[1 + k], in[2 + k], state_bytes, cudaMemcpyDefault, stream);
    }
}

/* Adds a node after those of the table. */
template <int capacity>
static void
add_node (Table<capacity> *table, const OrtrainKernelCall *call)
{
  const Layout *layout = (const Layout *) call->constants;
  const guint n_states = layout->n_states;
  char *scratch = (char *) call->workspace;
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      Tensor *tensor = &table->tensors[table->update.n_tensors++];
      *tensor = layout->tensors[t];
      tensor->w = call->outputs[t * (1 + n_states)];
      tensor->g = call->inputs[3 + t * (2 + n_states) + 1];
      tensor->copy = layout->copy_outputs[t] > 0 ? call->outputs[layout->copy_outputs[t]] : NULL;
      for (guint k = 0; k < n_states; k++)
        tensor->states[k] = call->outputs[t * (1 + n_states) + 1 + k];
      tensor->result = (gint64 *) call->outputs[layout->n_tensors * (1 + n_states)];
      tensor->node = (guint16) table->update.n_nodes;
      tensor->first_span = table->update.n_spans;
      table->update.n_spans += (guint32) get_n_spans (tensor);
      tensor->scratch = (double *) scratch;
      scratch += get_scratch_bytes (tensor);
    }
  table->update.n_nodes++;
}

template <typename Rule, Kind kind, int capacity>
static void
launch_kind (const OrtrainKernelCall *call, const Table<capacity> &table)
{
  bool any = false;
  for (guint t = 0; t < table.update.n_tensors; t++)
    any = any || (table.tensors[t].n > 0 && get_kind (table.tensors[t]) == kind);
  if (any)
    ortrain_cuda_launch (call, "update", table.update.n_spans, ORTRAIN_CUDA_BLOCK, update_kernel<Rule, kind, capacity>,
                         table);
}

template <typename Rule> struct Optimizer
{
  template <int capacity>
  static void
  launch (const OrtrainKernelCall *call, const Table<capacity> &table)
  {
    launch_kind<Rule, FLOATS> (call, table);
    launch_kind<Rule, DOUBLES> (call, table);
    launch_kind<Rule, BLOCKS> (call, table);
  }
};

template <> struct Optimizer<Adagrad>
{
  template <int capacity>
  static void
  launch (const OrtrainKernelCall *call, const Table<capacity> &table)
  {
    launch_kind<Adagrad, FLOATS> (call, table);
    launch_kind<Adagrad, DOUBLES> (call, table);
  }
};

struct Lamb;
template <> struct Optimizer<Lamb>
{
  template <int capacity>
  static void
  launch (const OrtrainKernelCall *call, const Table<capacity> &table)
  {
    if (table.update.n_spans == 0)
      return;
    ortrain_cuda_launch (call, "lamb-moments", table.update.n_spans, ORTRAIN_CUDA_BLOCK, lamb_kernel<capacity>, table);
    ortrain_cuda_launch (call, "lamb-ratios", table.update.n_tensors, ORTRAIN_CUDA_BLOCK, lamb_ratio_kernel<capacity>,
                         table);
    launch_kind<LambSecond, FLOATS> (call, table);
    launch_kind<LambSecond, DOUBLES> (call, table);
    launch_kind<LambBlocks, BLOCKS> (call, table);
  }
};

template <typename Rule, int capacity>
static void
launch_all (const OrtrainKernelCall *calls, guint n_calls)
{
  const Layout *layout = (const Layout *) calls->constants;
  Table<capacity> table;
  static_assert (sizeof table <= ORTRAIN_CUDA_MOST_PARAMETER_BYTES, "a kernel has no room for the table");
  memset (&table, 0, sizeof table);
  table.update.n_states = layout->n_states;
  table.update.stochastic = layout->stochastic;
  table.update.scalars = (const double *) calls->inputs[0];
  table.update.norm = (const double *) calls->inputs[1];
  table.update.loss_scale = (const float *) calls->inputs[2];
  table.update.step = calls->context->step;
  table.update.fault = calls->context->fault;
  for (guint i = 0; i < n_calls; i++)
    add_node (&table, &calls[i]);
  Optimizer<Rule>::launch (calls, table);
  ortrain_cuda_launch (calls, "find-broken", n_calls, ORTRAIN_CUDA_BLOCK, broken_kernel<capacity>, table);
}

/* Whether a launch may move the tensors of both: all but them is the same. */
static bool
can_join (const OrtrainKernelCall *a, const OrtrainKernelCall *b)
{
  const Layout *of_a = (const Layout *) a->constants, *of_b = (const Layout *) b->constants;
  return of_a->n_states == of_b->n_states && of_a->stochastic == of_b->stochastic && a->context == b->context &&
         memcmp (a->inputs, b->inputs, 3 * sizeof *a->inputs) == 0;
}

/* Calls that follow each other, as far as a launch has room for their tensors. */
template <typename Rule>
static guint
run_joined (const OrtrainKernelCall *calls, guint n_calls)
{
  guint n = 0, n_tensors = 0;
  guint64 n_spans = 0;
  for (; n < n_calls && can_join (calls, &calls[n]); n++)
    {
      const Layout *layout = (const Layout *) calls[n].constants;
      if (n > 0 && (n_tensors + layout->n_tensors > MOST_TENSORS || n_spans + layout->n_spans > G_MAXINT32))
        break;
      n_tensors += layout->n_tensors;
      n_spans += layout->n_spans;
      take_operands (&calls[n]);
    }
  if (n_tensors <= FEW_TENSORS)
    launch_all<Rule, FEW_TENSORS> (calls, n);
  else
    launch_all<Rule, MOST_TENSORS> (calls, n);
  return n;
}

template <typename Rule>
static void
run_update (const OrtrainKernelCall *call)
{
  run_joined<Rule> (call, 1);
}

#define ROW(name, prepare, Rule)                                                                                       \
  {                                                                                                                    \
    name, "org.ortrain", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64), prepare, run_update<Rule>, 0, 0, NULL,             \
        run_joined<Rule>                                                                                               \
  }

static const OrtrainKernel rows[] = {
  ROW ("SgdUpdate", prepare_update, Sgd),
  ROW ("AdamUpdate", prepare_update, Adam),
  ROW ("AdagradUpdate", prepare_adagrad, Adagrad),
  ROW ("LambUpdate", prepare_update, Lamb),
};

ORTRAIN_CUDA_TABLE (update, rows);
