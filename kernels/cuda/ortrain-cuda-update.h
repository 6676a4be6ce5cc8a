/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-device.h"

/* x to the power of a whole number: the general case, for which the library has a function, takes many registers. */
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
#include "common/ortrain-block-quantization.h"
#include "common/ortrain-optimizer-math.h"
#include "common/ortrain-stochastic-rounding.h"
#include "kernel-abi/ortrain-update-scalars-private.h"

/* Updates of many tensors in one pass, in place: the parameters of the kernels, the rules, and elements in memory. A
 * block of threads takes a span of one tensor; elements of 16 bits are widened as they are read. Parameters of 16 bits
 * have states in float32; they and those of float32 may have states in 8 bits instead. Results do not depend on the
 * order of the blocks. */

#define SPAN 16384

/* Tensors of a launch: as many as its parameters have room for. A table for few is copied faster at each launch. */
#define FEW_TENSORS 16
#define MOST_TENSORS 400

/* The properties of a tensor, and its addresses. */
typedef struct
{
  gint64 n;
  void *w, *copy, *states[ORTRAIN_UPDATE_MAX_STATES]; /* copy NULL: there is no copy */
  const void *g;
  double *scratch;   /* see below */
  gint64 *result;    /* of its node: the first parameter that is broken; NULL: nobody asks */
  guint32 parameter; /* its position among all, and among the scalars */
  guint32 first_span;
  guint16 node; /* of those of the launch */
  guint8 dtype, gradient, copy_dtype;
  bool in_blocks; /* its states are in 8 bits */
} Tensor;

ORTRAIN_FUNCTION gint64
get_n_spans (const Tensor *tensor)
{
  return (tensor->n + SPAN - 1) / SPAN;
}

/* In the scratch of a tensor: LAMB's ratio, its sums [2][spans], and what the spans report [spans], bytes. */
ORTRAIN_FUNCTION gsize
get_scratch_bytes (const Tensor *tensor)
{
  const gsize n_spans = (gsize) get_n_spans (tensor);
  return (1 + 2 * n_spans) * sizeof (double) + (n_spans + 7) / 8 * 8;
}

ORTRAIN_FUNCTION double *
get_sums (const Tensor *tensor, int which)
{
  return tensor->scratch + 1 + which * get_n_spans (tensor);
}

ORTRAIN_FUNCTION guint8 *
get_reports (const Tensor *tensor)
{
  return (guint8 *) get_sums (tensor, 2);
}

/* The parameters that all tensors of a launch share. */
typedef struct
{
  guint32 n_tensors, n_states, n_spans, n_nodes;
  bool stochastic; /* parameters of bfloat16 are rounded so */
  const double *scalars, *norm;
  const float *loss_scale;
  const OrtrainStepBlock *step;
  const OrtrainFault *fault;
} Update;

template <int capacity> struct Table
{
  Update update;
  Tensor tensors[capacity];
};

/* ---- what all rules share ---- */

static __device__ double
get_learning_rate (const Update &p, const Tensor &tensor)
{
  return p.scalars[ORTRAIN_UPDATE_LEARNING_RATE (tensor.parameter)];
}

static __device__ double
get_weight_decay (const Update &p, const Tensor &tensor)
{
  return p.scalars[ORTRAIN_UPDATE_WEIGHT_DECAY (tensor.parameter)];
}

static __device__ double
get_factor (const Update &p, int i)
{
  return p.scalars[ORTRAIN_UPDATE_FACTORS + i];
}

/* With clipping. */
static __device__ double
get_gradient_scale (const Update &p)
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
is_moving (const Update &p)
{
  const bool asked = p.norm != NULL && (p.scalars[ORTRAIN_UPDATE_MAX_NORM] > 0 || p.loss_scale != NULL);
  return p.fault->code == ORTRAIN_FAULT_NONE && (!asked || isfinite (*p.norm));
}

struct Sgd
{
  typedef OrtrainSgdMath Math;
  static __device__ Math
  begin (const Update &p, const Tensor &tensor)
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
  begin (const Update &p, const Tensor &tensor)
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
  begin (const Update &p, const Tensor &tensor)
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
get_lamb_math (const Update &p, const Tensor &tensor)
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
  begin (const Update &p, const Tensor &tensor)
  {
    Math c;
    c.math = get_lamb_math (p, tensor);
    c.ratio = tensor.scratch[0];
    return c;
  }
  template <typename T>
  static __device__ T
  direction (const Math &c, T w, T g, T m, T v)
  {
    const T e = (T) c.math.grad_scale * g;
    const T d = (T) c.math.weight_decay * (w - w == 0 ? w : 0) +
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

/* The same of moments in 8 bits, which the first pass has left as they were: they are moved here. */
struct LambBlocks
{
  typedef LambMath Math;
  static __device__ Math
  begin (const Update &p, const Tensor &tensor)
  {
    return LambSecond::begin (p, tensor);
  }
  static __device__ void
  move (const Math &c, float *w, float g, float *s0, float *s1, bool has_state)
  {
    ortrain_lamb_element_f32 ((float) c.ratio, w, ortrain_lamb_direction_f32 (&c.math, *w, g, s0, s1));
  }
};

/* ---- elements ---- */

/* The last one that begins at the span or before. */
template <int capacity>
static __device__ int
find_tensor (const Table<capacity> &table, unsigned span)
{
  int low = 0, high = (int) table.update.n_tensors;
  while (high - low > 1)
    {
      const int middle = (low + high) / 2;
      if (table.tensors[middle].first_span <= span)
        low = middle;
      else
        high = middle;
    }
  return low;
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
load4_any (float to[4], int dtype, const void *from, gint64 i, int n)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    load4<float> (to, from, i, n);
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    load4<OrtrainBfloat16> (to, from, i, n);
  else
    load4<OrtrainHalf> (to, from, i, n);
}

static __device__ void
load4_any (double to[4], int dtype, const void *from, gint64 i, int n)
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
store4_any (int dtype, void *to, gint64 i, int n, const float from[4])
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    store4<float> (to, i, n, from);
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    store4<OrtrainBfloat16> (to, i, n, from);
  else
    store4<OrtrainHalf> (to, i, n, from);
}

/* Stores elements of bfloat16: element i has word i % 4 of block i / 4. */
static __device__ void
store4_stochastic (const Update &p, guint32 parameter, void *to, gint64 i, int n, const float from[4])
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

/* Whether a number is not finite once it is stored, and not the infinity that it was before. */
static __device__ bool
is_broken (int dtype, float before, float x)
{
  if (isinf (before) && x == before)
    return false;
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    x = ortrain_half_to_float (ortrain_float_to_half (x));
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    x = ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (x));
  return !isfinite (x);
}

/* ---- states in 8 bits: a warp takes a block of 128 elements, and a lane four ---- */

/* Rows begin at multiples of four bytes. */
static __device__ guint8 *
find_row (void *state, gint64 i)
{
  return (guint8 *) state + i / ORTRAIN_STATE_BLOCK * ORTRAIN_STATE_ROW;
}

template <bool sign>
static __device__ void
load_codes (float to[4], void *state, gint64 i)
{
  const guint8 *row = find_row (state, i);
  const float scale = *(const float *) row;
  const guint32 codes = ((const guint32 *) (row + 4))[threadIdx.x % ORTRAIN_CUDA_WARP];
  for (int k = 0; k < 4; k++)
    {
      const guint8 code = (guint8) (codes >> (8 * k));
      to[k] = scale * (sign ? ortrain_block_decode_signed (code) : ortrain_block_decode_unsigned (code));
    }
}

/* n: the number of elements that exist; the codes after them are zero. All lanes of a warp take part. */
template <bool sign>
static __device__ void
store_codes (void *state, gint64 i, int n, const float from[4])
{
  guint8 *row = find_row (state, i);
  guint32 most = 0, codes = 0;
  for (int k = 0; k < 4; k++)
    {
      const guint32 magnitude = k < n ? ortrain_block_magnitude (from[k]) : 0;
      most = magnitude > most ? magnitude : most;
    }
  const float scale = ortrain_block_scale (ortrain_warp_reduce<OrtrainMax> (most));
  const float factor = ortrain_block_factor (scale);
  for (int k = 0; k < 4; k++)
    {
      const guint8 code =
          sign ? ortrain_block_encode_signed (from[k], factor) : ortrain_block_encode_unsigned (from[k], factor);
      codes |= k < n ? (guint32) code << (8 * k) : 0;
    }
  ((guint32 *) (row + 4))[threadIdx.x % ORTRAIN_CUDA_WARP] = codes;
  if (threadIdx.x % ORTRAIN_CUDA_WARP == 0)
    *(float *) row = scale;
}
