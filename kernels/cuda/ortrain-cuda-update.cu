/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

/* x to the power of a whole number: what the library's function is for takes many registers. */
ORTRAIN_FUNCTION double
power (double x, double n)
{
  double y = 1;
  for (guint64 bits = (guint64) n; bits != 0; bits >>= 1)
    {
      y = bits & 1 ? y * x : y;
      x *= x;
    }
  return y;
}

#define ORTRAIN_POW(x, n) power ((x), (n))
#include "common/ortrain-optimizer-math.h"
#include "common/ortrain-stochastic-rounding.h"
#include "tensor/ortrain-update-scalars-private.h"

/* Updates of many tensors in one pass, in place. A block takes a span of one tensor; what is of 16 bits is widened as it is
 * read; states of such parameters are float32. Results do not depend on the order of the blocks. */

#define SPAN 16384
#define MOST_TENSORS ORTRAIN_UPDATE_MAX_TENSORS

typedef struct
{
  gint64 n;
  OrtrainDType dtype, gradient, copy; /* copy UNDEFINED: there is none */
  guint32 parameter;                  /* its position among all, and among the scalars */
  guint32 first_span, copy_output;
} Tensor;

typedef struct
{
  guint32 n_tensors, n_states, n_spans;
  bool stochastic; /* parameters of bfloat16 are rounded so */
  Tensor tensors[MOST_TENSORS];
} Layout;

/* Where the operands are, and where the spans report. */
typedef struct
{
  void *w[MOST_TENSORS], *copies[MOST_TENSORS], *states[MOST_TENSORS][ORTRAIN_UPDATE_MAX_STATES];
  const void *g[MOST_TENSORS];
  const double *scalars, *norm;
  const float *loss_scale;
  const OrtrainStepBlock *step;
  const OrtrainFault *fault;
  double *partials; /* LAMB: [2][n_spans] */
  double *ratios;   /* LAMB: [n_tensors] */
  guint8 *broken;   /* [n_spans] */
} Places;

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
      if (setup->inputs[in + 2 + k].dtype != (wide ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32))
        return ortrain_cuda_refuse (setup, error, "a state is of another type than float32");
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

/* ---- what all rules share ---- */

static __device__ double
get_learning_rate (const Places &p, const Tensor &tensor)
{
  return p.scalars[ORTRAIN_UPDATE_LEARNING_RATE (tensor.parameter)];
}

static __device__ double
get_weight_decay (const Places &p, const Tensor &tensor)
{
  return p.scalars[ORTRAIN_UPDATE_WEIGHT_DECAY (tensor.parameter)];
}

static __device__ double
get_factor (const Places &p, int i)
{
  return p.scalars[ORTRAIN_UPDATE_FACTORS + i];
}

/* With clipping. */
static __device__ double
get_gradient_scale (const Places &p)
{
  const double greatest = p.scalars[ORTRAIN_UPDATE_MAX_NORM];
  double scale = p.scalars[ORTRAIN_UPDATE_GRADIENT_SCALE];
  if (p.loss_scale != NULL)
    scale /= (double) *p.loss_scale;
  if (p.norm != NULL && greatest > 0)
    {
      const double clip = greatest / (*p.norm + 1e-6);
      scale *= clip < 1.0 ? clip : 1.0;
    }
  return scale;
}

/* Gradients that are not finite leave everything as it is, and so does a step that has failed before. */
static __device__ bool
is_moving (const Places &p)
{
  const bool asked = p.norm != NULL && (p.scalars[ORTRAIN_UPDATE_MAX_NORM] > 0 || p.loss_scale != NULL);
  return p.fault->code == ORTRAIN_FAULT_NONE && (!asked || isfinite (*p.norm));
}

struct Sgd
{
  typedef OrtrainSgdMath Math;
  static __device__ Math
  begin (const Places &p, const Tensor &tensor, int t)
  {
    Math c;
    c.lr = get_learning_rate (p, tensor);
    c.grad_scale = get_gradient_scale (p);
    c.l2 = get_weight_decay (p, tensor);
    c.momentum = get_factor (p, 0);
    c.damped = 1.0;
    c.nesterov = get_factor (p, 1) != 0;
    return c;
  }
  static __device__ void
  move (const Math &c, float *w, float g, float *s0, float *s1, bool has_state)
  {
    if (!has_state)
      ortrain_sgd_element_f32 (&c, w, g);
    else
      ortrain_momentum_element_f32 (&c, w, g, s0);
  }
  static __device__ void
  move (const Math &c, double *w, double g, double *s0, double *s1, bool has_state)
  {
    if (!has_state)
      ortrain_sgd_element_f64 (&c, w, g);
    else
      ortrain_momentum_element_f64 (&c, w, g, s0);
  }
};

struct Adam
{
  typedef OrtrainAdamMath Math;
  static __device__ Math
  begin (const Places &p, const Tensor &tensor, int t)
  {
    return ortrain_adam_math ((OrtrainAdamMode) (int) get_factor (p, 0), get_learning_rate (p, tensor),
                              get_factor (p, 1), get_factor (p, 2), get_factor (p, 3), get_weight_decay (p, tensor),
                              get_factor (p, 4) != 0, p.scalars[ORTRAIN_UPDATE_STEP], get_gradient_scale (p));
  }
  static __device__ void
  move (const Math &c, float *w, float g, float *s0, float *s1, bool has_state)
  {
    ortrain_adam_element_f32 (&c, w, g, s0, s1);
  }
  static __device__ void
  move (const Math &c, double *w, double g, double *s0, double *s1, bool has_state)
  {
    ortrain_adam_element_f64 (&c, w, g, s0, s1);
  }
};

struct Adagrad
{
  typedef OrtrainAdagradMath Math;
  static __device__ Math
  begin (const Places &p, const Tensor &tensor, int t)
  {
    Math c;
    c.lr = get_learning_rate (p, tensor) / (1.0 + (p.scalars[ORTRAIN_UPDATE_STEP] - 1.0) * get_factor (p, 1));
    c.grad_scale = get_gradient_scale (p);
    c.l2 = get_weight_decay (p, tensor);
    c.epsilon = get_factor (p, 0);
    return c;
  }
  static __device__ void
  move (const Math &c, float *w, float g, float *s0, float *s1, bool has_state)
  {
    ortrain_adagrad_element_f32 (&c, w, g, s0);
  }
  static __device__ void
  move (const Math &c, double *w, double g, double *s0, double *s1, bool has_state)
  {
    ortrain_adagrad_element_f64 (&c, w, g, s0);
  }
};

struct LambMath
{
  OrtrainLambMath math;
  double ratio;
};

static __device__ OrtrainLambMath
get_lamb_math (const Places &p, const Tensor &tensor)
{
  return ortrain_lamb_math (get_learning_rate (p, tensor), get_factor (p, 0), get_factor (p, 1), get_factor (p, 2),
                            get_weight_decay (p, tensor), get_factor (p, 4), get_factor (p, 5), get_factor (p, 3) != 0,
                            p.scalars[ORTRAIN_UPDATE_STEP], get_gradient_scale (p));
}

/* The second pass of LAMB: the directions are found again from the moments. */
struct LambSecond
{
  typedef LambMath Math;
  static __device__ Math
  begin (const Places &p, const Tensor &tensor, int t)
  {
    Math c;
    c.math = get_lamb_math (p, tensor);
    c.ratio = p.ratios[t];
    return c;
  }
  template <typename T>
  static __device__ T
  direction (const Math &c, T w, T g, T m, T v)
  {
    const T e = (T) c.math.grad_scale * g;
    const T d = (T) c.math.weight_decay * w +
                m * (T) c.math.inv_correction1 / (sqrt (v * (T) c.math.inv_correction2) + (T) c.math.epsilon);
    return e - e == 0 ? d : 0;
  }
  static __device__ void
  move (const Math &c, float *w, float g, float *s0, float *s1, bool has_state)
  {
    ortrain_lamb_element_f32 ((float) c.ratio, w, direction<float> (c, *w, g, *s0, *s1));
  }
  static __device__ void
  move (const Math &c, double *w, double g, double *s0, double *s1, bool has_state)
  {
    ortrain_lamb_element_f64 (c.ratio, w, direction<double> (c, *w, g, *s0, *s1));
  }
};

/* ---- elements ---- */

static __device__ int
find_tensor (const Layout &layout, unsigned span)
{
  int t = (int) layout.n_tensors - 1;
  while (t > 0 && layout.tensors[t].first_span > span)
    t--;
  return t;
}

/* Four elements from i on, of which n exist. */
template <typename T>
static __device__ void
load4 (typename OrtrainWide<T>::Type to[4], const void *from, gint64 i, int n)
{
  if (n == 4)
    {
      const OrtrainPack<T, 4> pack = *(const OrtrainPack<T, 4> *) ((const T *) from + i);
      for (int k = 0; k < 4; k++)
        to[k] = ortrain_widen (pack.at[k]);
    }
  else
    for (int k = 0; k < 4; k++)
      to[k] = k < n ? ortrain_load ((const T *) from, i + k) : 0;
}

template <typename T>
static __device__ void
store4 (void *to, gint64 i, int n, const typename OrtrainWide<T>::Type from[4])
{
  if (n == 4)
    {
      OrtrainPack<T, 4> pack;
      for (int k = 0; k < 4; k++)
        pack.at[k] = ortrain_narrow<T> (from[k]);
      *(OrtrainPack<T, 4> *) ((T *) to + i) = pack;
    }
  else
    for (int k = 0; k < 4; k++) /* not up to n: an index that is not known at compile time needs memory */
      if (k < n)
        ortrain_store ((T *) to, i + k, from[k]);
}

static __device__ void
load4_any (float to[4], OrtrainDType dtype, const void *from, gint64 i, int n)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    load4<float> (to, from, i, n);
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    load4<OrtrainBfloat16> (to, from, i, n);
  else
    load4<OrtrainHalf> (to, from, i, n);
}

static __device__ void
load4_any (double to[4], OrtrainDType dtype, const void *from, gint64 i, int n)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    {
      load4<double> (to, from, i, n);
      return;
    }
  float narrow[4];
  load4_any (narrow, dtype, from, i, n);
  for (int k = 0; k < 4; k++)
    to[k] = narrow[k];
}

static __device__ void
store4_any (OrtrainDType dtype, void *to, gint64 i, int n, const float from[4])
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    store4<float> (to, i, n, from);
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    store4<OrtrainBfloat16> (to, i, n, from);
  else
    store4<OrtrainHalf> (to, i, n, from);
}

/* Of bfloat16: element i has word i % 4 of block i / 4. */
static __device__ void
store4_stochastic (const Places &p, guint32 parameter, void *to, gint64 i, int n, const float from[4])
{
  OrtrainPhiloxKey key;
  guint32 words[4];
  key.seed = p.step->seed;
  key.step = (guint32) p.scalars[ORTRAIN_UPDATE_STEP];
  key.node = ortrain_stochastic_rounding_node (parameter);
  ortrain_philox (&key, (guint64) i / 4, words);
  for (int k = 0; k < 4; k++)
    if (k < n)
      ((guint16 *) to)[i + k] = ortrain_float_to_bfloat16_stochastic (from[k], words[k]);
}

/* Whether a number is not finite once it is stored. */
static __device__ bool
is_broken (OrtrainDType dtype, float x)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    x = ortrain_half_to_float (ortrain_float_to_half (x));
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    x = ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (x));
  return !isfinite (x);
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
  if (layout.stochastic && tensor.dtype == ORTRAIN_DTYPE_BFLOAT16)
    store4_stochastic (p, tensor.parameter, p.w[t], i, n, w);
  else
    store4_any (tensor.dtype, p.w[t], i, n, w);
  if (p.copies[t] != NULL)
    store4_any (tensor.copy, p.copies[t], i, n, w);
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

/* wide: of the tensors of float64, else of all others; a block with one of the wrong kind has nothing to do. */
template <typename Rule, bool wide>
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
  if (wide != (tensor.dtype == ORTRAIN_DTYPE_FLOAT64))
    return; /* all threads alike */
  if (threadIdx.x == 0)
    shared[0] = Rule::begin (p, tensor, t);
  __syncthreads ();
  const typename Rule::Math &c = shared[0]; /* left there: eighteen registers fewer */
  bool broken = false;
  for (gint64 i = begin + 4 * threadIdx.x; i < end; i += 4 * ORTRAIN_CUDA_BLOCK)
    {
      const int n = end - i < 4 ? (int) (end - i) : 4;
      if (!moves)
        {
          /* the copies of parameters that stay as they are */
          float w[4];
          if (p.copies[t] == NULL)
            break;
          load4<float> (w, p.w[t], i, n);
          store4_any (tensor.copy, p.copies[t], i, n, w);
        }
      else if (wide)
        broken = move_doubles<Rule> (layout, p, t, c, i, n) || broken;
      else
        broken = move_floats<Rule> (layout, p, t, c, i, n) || broken;
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
      if (tensor.dtype == ORTRAIN_DTYPE_FLOAT64)
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
      for (guint k = 0; k < layout->n_states; k++)
        if (out[1 + k] != in[2 + k] && n > 0)
          cudaMemcpyAsync (out[1 + k], in[2 + k], n * MAX (size, sizeof (float)), cudaMemcpyDefault, stream);
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

template <typename Rule>
static void
launch_update (const OrtrainKernelCall *call, const Layout *layout, const Places &p)
{
  bool has[2] = { false, false };
  for (guint t = 0; t < layout->n_tensors; t++)
    has[layout->tensors[t].dtype == ORTRAIN_DTYPE_FLOAT64] |= layout->tensors[t].n > 0;
  if (has[0])
    ortrain_cuda_launch (call, "update", layout->n_spans, ORTRAIN_CUDA_BLOCK, update_kernel<Rule, false>, *layout, p);
  if (has[1])
    ortrain_cuda_launch (call, "update", layout->n_spans, ORTRAIN_CUDA_BLOCK, update_kernel<Rule, true>, *layout, p);
}

template <typename Rule>
static void
run_update (const OrtrainKernelCall *call)
{
  const Layout *layout = (const Layout *) call->constants;
  const Places p = place (call, layout);
  take_operands (call, layout);
  launch_update<Rule> (call, layout, p);
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
      launch_update<LambSecond> (call, layout, p);
    }
  find_broken (call, layout, p);
}

#define ROW(name, run)                                                                                                 \
  {                                                                                                                    \
    name, "org.ortrain", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64), prepare_update, run                                \
  }

static const OrtrainKernel rows[] = {
  ROW ("SgdUpdate", run_update<Sgd>),
  ROW ("AdamUpdate", run_update<Adam>),
  ROW ("AdagradUpdate", run_update<Adagrad>),
  ROW ("LambUpdate", run_lamb),
};

ORTRAIN_CUDA_TABLE (update, rows);
