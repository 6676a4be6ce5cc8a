/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-update.h"

/* ---- prepare ---- */

static gboolean
prepare_tensor (OrtrainKernelSetup *setup, Layout *layout, guint t, GError **error)
{
  const guint in = 3 + t * (2 + layout->n_states), out = t * (1 + layout->n_states);
  Tensor *tensor = &layout->tensors[t];
  const gboolean wide = tensor->dtype == ORTRAIN_DTYPE_FLOAT64;
  setup->inplace[out] = G_GUINT64_CONSTANT (1) << in;
  if (tensor->gradient == ORTRAIN_DTYPE_FLOAT64 && !wide)
    return ortrain_cuda_refuse (setup, error, "the gradient is float64, the parameter is not");
  if (tensor->copy != ORTRAIN_DTYPE_UNDEFINED && tensor->dtype != ORTRAIN_DTYPE_FLOAT32)
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
  if (n_states > ORTRAIN_UPDATE_MAX_STATES || n > MOST_TENSORS || setup->n_inputs > 64 ||
      setup->n_outputs > ORTRAIN_KERNEL_MAX_OUTPUTS)
    return ortrain_cuda_refuse (setup, error, "there are %u tensors, more than %u", (guint) n, (guint) MOST_TENSORS);
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
      tensor->dtype = w->dtype;
      tensor->gradient = w[1].dtype;
      tensor->parameter = (guint32) parameters[t];
      tensor->copy = t < n_copies ? (OrtrainDType) copies[t] : ORTRAIN_DTYPE_UNDEFINED;
      if (tensor->copy != ORTRAIN_DTYPE_UNDEFINED)
        tensor->copy_output = copy++;
      tensor->first_span = (guint32) n_spans;
      n_spans += (tensor->n + SPAN - 1) / SPAN;
      if (n_spans > G_MAXINT32)
        return ortrain_cuda_refuse (setup, error, "the tensors have too many elements");
      if (!prepare_tensor (setup, layout, t, error))
        return FALSE;
    }
  layout->n_spans = (guint32) n_spans;
  setup->workspace_bytes =
      (2 * (gsize) layout->n_spans + layout->n_tensors) * sizeof (double) + MAX (layout->n_spans, 1);
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
store_parameter (const Layout &layout, const Places &p, int t, gint64 i, int n, const float w[4])
{
  const Tensor &tensor = layout.tensors[t];
  if (layout.stochastic && tensor.dtype == ORTRAIN_DTYPE_BFLOAT16)
    store4_stochastic (p, tensor.parameter, p.w[t], i, n, w);
  else
    store4_any (tensor.dtype, p.w[t], i, n, w);
  if (p.copies[t] != NULL)
    store4_any (tensor.copy, p.copies[t], i, n, w);
}

template <typename Rule>
static __device__ bool
move_floats (const Layout &layout, const Places &p, int t, const typename Rule::Math &c, gint64 i, int n)
{
  const Tensor &tensor = layout.tensors[t];
  float w[4], g[4], s[ORTRAIN_UPDATE_MAX_STATES][4] = {};
  bool broken = false;
  load4_any (w, tensor.dtype, p.w[t], i, n);
  load4_any (g, tensor.gradient, p.g[t], i, n);
  for (int k = 0; k < ORTRAIN_UPDATE_MAX_STATES; k++)
    if (k < (int) layout.n_states)
      load4<float> (s[k], p.states[t][k], i, n);
  for (int k = 0; k < 4; k++)
    {
      Rule::move (c, &w[k], g[k], &s[0][k], &s[1][k], layout.n_states > 0);
      broken = broken || (k < n && is_broken (tensor.dtype, w[k]));
    }
  for (int k = 0; k < ORTRAIN_UPDATE_MAX_STATES; k++)
    if (k < (int) layout.n_states)
      store4<float> (p.states[t][k], i, n, s[k]);
  store_parameter (layout, p, t, i, n, w);
  return broken;
}

template <typename Rule>
static __device__ bool
move_doubles (const Layout &layout, const Places &p, int t, const typename Rule::Math &c, gint64 i, int n)
{
  bool broken = false;
  for (int k = 0; k < n; k++)
    {
      double g[4], *w = (double *) p.w[t] + i + k;
      load4_any (g, layout.tensors[t].gradient, p.g[t], i + k, 1);
      Rule::move (c, w, g[0], (double *) p.states[t][0] + i + k, (double *) p.states[t][1] + i + k,
                  layout.n_states > 0);
      broken = broken || !isfinite (*w);
    }
  return broken;
}

template <typename Rule>
static __device__ bool
move_blocks (const Layout &layout, const Places &p, int t, const typename Rule::Math &c, gint64 i, int n)
{
  const Tensor &tensor = layout.tensors[t];
  float w[4], g[4], s[ORTRAIN_UPDATE_MAX_STATES][4] = {};
  bool broken = false;
  load4_any (w, tensor.dtype, p.w[t], i, n);
  load4_any (g, tensor.gradient, p.g[t], i, n);
  load_codes<true> (s[0], p.states[t][0], i);
  if (layout.n_states > 1)
    load_codes<false> (s[1], p.states[t][1], i);
  for (int k = 0; k < 4; k++)
    {
      Rule::move (c, &w[k], g[k], &s[0][k], &s[1][k], true);
      broken = broken || (k < n && is_broken (tensor.dtype, w[k]));
    }
  store_codes<true> (p.states[t][0], i, n, s[0]);
  if (layout.n_states > 1)
    store_codes<false> (p.states[t][1], i, n, s[1]);
  store_parameter (layout, p, t, i, n, w);
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
  move (const Layout &layout, const Places &p, int t, const typename Rule::Math &c, gint64 i, int n)
  {
    return move_floats<Rule> (layout, p, t, c, i, n);
  }
};

template <typename Rule> struct Mover<Rule, DOUBLES>
{
  static __device__ bool
  move (const Layout &layout, const Places &p, int t, const typename Rule::Math &c, gint64 i, int n)
  {
    return move_doubles<Rule> (layout, p, t, c, i, n);
  }
};

template <typename Rule> struct Mover<Rule, BLOCKS>
{
  static __device__ bool
  move (const Layout &layout, const Places &p, int t, const typename Rule::Math &c, gint64 i, int n)
  {
    return move_blocks<Rule> (layout, p, t, c, i, n);
  }
};

template <typename Rule, Kind kind>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) update_kernel (const Layout layout, const Places p)
{
  ORTRAIN_CUDA_SHARED (typename Rule::Math, shared, 1);
  ORTRAIN_CUDA_SHARED (int, any_broken, 33);
  const int t = find_tensor (layout, blockIdx.x);
  const Tensor &tensor = layout.tensors[t];
  const gint64 begin = (gint64) (blockIdx.x - tensor.first_span) * SPAN;
  const gint64 end = begin + SPAN < tensor.n ? begin + SPAN : tensor.n;
  const bool moves = is_moving (p);
  /* where a warp takes a block, its lanes stay together */
  const gint64 lane = kind == BLOCKS ? 4 * (gint64) (threadIdx.x % ORTRAIN_CUDA_WARP) : 0;
  if (kind != get_kind (tensor))
    return; /* all threads alike */
  if (threadIdx.x == 0)
    shared[0] = Rule::begin (p, tensor, t);
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
          if (p.copies[t] == NULL)
            break;
          load4<float> (w, p.w[t], i, n);
          store4_any (tensor.copy, p.copies[t], i, n, w);
        }
      else
        broken = Mover<Rule, kind>::move (layout, p, t, c, i, n) || broken;
    }
  const int all = ortrain_block_reduce<OrtrainMax> ((int) broken, any_broken);
  if (threadIdx.x == 0)
    p.broken[blockIdx.x] = (guint8) all;
}

/* The first parameter that is left with numbers that are not finite. One warp. */
static __global__ void
broken_kernel (const Layout layout, const Places p, gint64 *result)
{
  unsigned first = layout.n_spans;
  for (unsigned i = threadIdx.x; i < layout.n_spans && first == layout.n_spans; i += ORTRAIN_CUDA_WARP)
    first = p.broken[i] ? i : first;
  first = ortrain_warp_reduce<OrtrainMin> (first);
  if (threadIdx.x == 0)
    *result = first < layout.n_spans ? (gint64) layout.tensors[find_tensor (layout, first)].parameter
                                     : ORTRAIN_UPDATE_NONE_BROKEN;
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
lamb_elements (const Layout &layout, const Places &p, int t, const OrtrainLambMath &c, gint64 i, int n, double sums[2])
{
  T w[4], g[4], m[4], v[4];
  load4_any (w, layout.tensors[t].dtype, p.w[t], i, n);
  load4_any (g, layout.tensors[t].gradient, p.g[t], i, n);
  load4<T> (m, p.states[t][0], i, n);
  load4<T> (v, p.states[t][1], i, n);
  for (int k = 0; k < 4; k++)
    {
      if (k >= n)
        break;
      const T d = lamb_direction (c, w[k], g[k], &m[k], &v[k]);
      sums[0] += (double) w[k] * (double) w[k];
      sums[1] += (double) d * (double) d;
    }
  store4<T> (p.states[t][0], i, n, m);
  store4<T> (p.states[t][1], i, n, v);
}

/* Moments in 8 bits stay as they are until the second pass. */
static __device__ void
lamb_blocks (const Layout &layout, const Places &p, int t, const OrtrainLambMath &c, gint64 i, int n, double sums[2])
{
  float w[4], g[4], m[4], v[4];
  load4_any (w, layout.tensors[t].dtype, p.w[t], i, n);
  load4_any (g, layout.tensors[t].gradient, p.g[t], i, n);
  load_codes<true> (m, p.states[t][0], i);
  load_codes<false> (v, p.states[t][1], i);
  for (int k = 0; k < 4; k++)
    {
      if (k >= n)
        break;
      const float d = lamb_direction (c, w[k], g[k], &m[k], &v[k]);
      sums[0] += (double) w[k] * (double) w[k];
      sums[1] += (double) d * (double) d;
    }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lamb_kernel (const Layout layout, const Places p)
{
  ORTRAIN_CUDA_SHARED (OrtrainLambMath, shared, 1);
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  const int t = find_tensor (layout, blockIdx.x);
  const Tensor &tensor = layout.tensors[t];
  const gint64 begin = (gint64) (blockIdx.x - tensor.first_span) * SPAN;
  const gint64 end = begin + SPAN < tensor.n ? begin + SPAN : tensor.n;
  double sums[2] = { 0, 0 };
  if (!is_moving (p))
    return; /* all threads alike */
  if (threadIdx.x == 0)
    shared[0] = get_lamb_math (p, tensor);
  __syncthreads ();
  const OrtrainLambMath c = shared[0];
  for (gint64 i = begin + 4 * threadIdx.x; i < end; i += 4 * ORTRAIN_CUDA_BLOCK)
    {
      const int n = end - i < 4 ? (int) (end - i) : 4;
      if (tensor.in_blocks)
        lamb_blocks (layout, p, t, c, i, n, sums);
      else if (tensor.dtype == ORTRAIN_DTYPE_FLOAT64)
        lamb_elements<double> (layout, p, t, c, i, n, sums);
      else
        lamb_elements<float> (layout, p, t, c, i, n, sums);
    }
  for (int k = 0; k < 2; k++)
    {
      const double sum = ortrain_block_reduce<OrtrainSum> (sums[k], scratch);
      if (threadIdx.x == 0)
        p.partials[(gsize) k * layout.n_spans + blockIdx.x] = sum;
    }
}

/* The ratio of each tensor: a block for each. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) lamb_ratio_kernel (const Layout layout, const Places p)
{
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  const int t = (int) blockIdx.x;
  const unsigned first = layout.tensors[t].first_span;
  const unsigned end = t + 1 < (int) layout.n_tensors ? layout.tensors[t + 1].first_span : layout.n_spans;
  double sums[2] = { 0, 0 };
  if (!is_moving (p))
    return;
  for (unsigned i = first + threadIdx.x; i < end; i += ORTRAIN_CUDA_BLOCK)
    for (int k = 0; k < 2; k++)
      sums[k] += p.partials[(gsize) k * layout.n_spans + i];
  for (int k = 0; k < 2; k++)
    sums[k] = ortrain_block_reduce<OrtrainSum> (sums[k], scratch);
  if (threadIdx.x == 0)
    {
      const OrtrainLambMath c = get_lamb_math (p, layout.tensors[t]);
      p.ratios[t] = ortrain_lamb_ratio (&c, sums[0], sums[1]);
    }
}

/* ---- run ---- */

/* Where the results are not written over the operands, they begin as copies of them. */
static void
take_operands (const OrtrainKernelCall *call, const Layout *layout)
{
  const cudaStream_t stream = ortrain_cuda_get_stream (call)->stream;
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      const void *const *in = call->inputs + 3 + t * (2 + layout->n_states);
      void *const *out = call->outputs + t * (1 + layout->n_states);
      const gsize n = (gsize) layout->tensors[t].n;
      const gsize size = ortrain_cuda_library->dtype_get_size (layout->tensors[t].dtype);
      if (out[0] != in[0] && n > 0)
        cudaMemcpyAsync (out[0], in[0], n * size, cudaMemcpyDefault, stream);
      const gsize blocks = (gsize) ORTRAIN_STATE_N_ROWS (layout->tensors[t].n) * ORTRAIN_STATE_ROW;
      const gsize state_bytes = layout->tensors[t].in_blocks ? blocks : n * MAX (size, sizeof (float));
      for (guint k = 0; k < layout->n_states; k++)
        if (out[1 + k] != in[2 + k] && n > 0)
          cudaMemcpyAsync (out[1 + k], in[2 + k], state_bytes, cudaMemcpyDefault, stream);
    }
}

static Places
place (const OrtrainKernelCall *call, const Layout *layout)
{
  Places p;
  memset (&p, 0, sizeof p);
  for (guint t = 0; t < layout->n_tensors; t++)
    {
      const Tensor *tensor = &layout->tensors[t];
      p.w[t] = call->outputs[t * (1 + layout->n_states)];
      p.g[t] = call->inputs[3 + t * (2 + layout->n_states) + 1];
      p.copies[t] = tensor->copy != ORTRAIN_DTYPE_UNDEFINED ? call->outputs[tensor->copy_output] : NULL;
      for (guint k = 0; k < layout->n_states; k++)
        p.states[t][k] = call->outputs[t * (1 + layout->n_states) + 1 + k];
    }
  p.scalars = (const double *) call->inputs[0];
  p.norm = (const double *) call->inputs[1];
  p.loss_scale = (const float *) call->inputs[2];
  p.step = call->context->step;
  p.fault = call->context->fault;
  /* numbers first, as they are aligned; then the bytes */
  p.partials = (double *) call->workspace;
  p.ratios = p.partials + 2 * (gsize) layout->n_spans;
  p.broken = (guint8 *) (p.ratios + layout->n_tensors);
  return p;
}

static void
find_broken (const OrtrainKernelCall *call, const Layout *layout, const Places &p)
{
  gint64 *result = (gint64 *) call->outputs[layout->n_tensors * (1 + layout->n_states)];
  if (result != NULL)
    ortrain_cuda_launch (call, "find-broken", 1, ORTRAIN_CUDA_WARP, broken_kernel, *layout, p, result);
}

template <typename Rule, Kind kind>
static void
launch_kind (const OrtrainKernelCall *call, const Layout *layout, const Places &p)
{
  bool any = false;
  for (guint t = 0; t < layout->n_tensors; t++)
    any = any || (layout->tensors[t].n > 0 && get_kind (layout->tensors[t]) == kind);
  if (any)
    ortrain_cuda_launch (call, "update", layout->n_spans, ORTRAIN_CUDA_BLOCK, update_kernel<Rule, kind>, *layout, p);
}

template <typename Rule>
static void
run_update (const OrtrainKernelCall *call)
{
  const Layout *layout = (const Layout *) call->constants;
  const Places p = place (call, layout);
  take_operands (call, layout);
  launch_kind<Rule, FLOATS> (call, layout, p);
  launch_kind<Rule, DOUBLES> (call, layout, p);
  launch_kind<Rule, BLOCKS> (call, layout, p);
  find_broken (call, layout, p);
}

static void
run_adagrad (const OrtrainKernelCall *call)
{
  const Layout *layout = (const Layout *) call->constants;
  const Places p = place (call, layout);
  take_operands (call, layout);
  launch_kind<Adagrad, FLOATS> (call, layout, p);
  launch_kind<Adagrad, DOUBLES> (call, layout, p);
  find_broken (call, layout, p);
}

static void
run_lamb (const OrtrainKernelCall *call)
{
  const Layout *layout = (const Layout *) call->constants;
  const Places p = place (call, layout);
  take_operands (call, layout);
  if (layout->n_spans > 0)
    {
      ortrain_cuda_launch (call, "lamb-moments", layout->n_spans, ORTRAIN_CUDA_BLOCK, lamb_kernel, *layout, p);
      ortrain_cuda_launch (call, "lamb-ratios", layout->n_tensors, ORTRAIN_CUDA_BLOCK, lamb_ratio_kernel, *layout, p);
      launch_kind<LambSecond, FLOATS> (call, layout, p);
      launch_kind<LambSecond, DOUBLES> (call, layout, p);
      launch_kind<LambBlocks, BLOCKS> (call, layout, p);
    }
  find_broken (call, layout, p);
}

#define ROW(name, prepare, run)                                                                                        \
  {                                                                                                                    \
    name, "org.ortrain", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64), prepare, run                                       \
  }

static const OrtrainKernel rows[] = {
  ROW ("SgdUpdate", prepare_update, run_update<Sgd>),
  ROW ("AdamUpdate", prepare_update, run_update<Adam>),
  ROW ("AdagradUpdate", prepare_adagrad, run_adagrad),
  ROW ("LambUpdate", prepare_update, run_lamb),
};

ORTRAIN_CUDA_TABLE (update, rows);
