/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

#include "kernel-abi/ortrain-update-scalars-private.h"

/* The norm of all gradients together, whatever the floating-point type of each, and its results: the loss scale, and
 * the numbers that the update is run with. Squares are summed in double, spans in the order of the gradients. */

#define SPAN 16384

/* Tensors of a launch: as many as its parameters have room for. A table for few is copied faster at each launch. */
#define FEW_TENSORS 96
#define MOST_TENSORS 1300

typedef struct
{
  const void *g;
  gint64 n;
  guint32 first_span; /* of the launch */
  OrtrainDType dtype;
} Gradient;

template <int capacity> struct Gradients
{
  guint32 n_gradients, n_spans;
  Gradient gradients[capacity];
};

typedef struct
{
  guint n_gradients;
  guint32 n_spans;
  Gradient gradients[]; /* [n_gradients], without addresses; first_span counted over all */
} Norm;

static gboolean
prepare_norm (OrtrainKernelSetup *setup, GError **error)
{
  const guint n = setup->n_inputs - 2;
  Norm *self = (Norm *) g_malloc0 (sizeof (Norm) + n * sizeof (Gradient));
  gint64 n_spans = 0;
  setup->constants = self;
  setup->constants_free = g_free;
  self->n_gradients = n;
  for (guint i = 0; i < n; i++)
    {
      self->gradients[i].n = setup->inputs[2 + i].n_elements;
      self->gradients[i].dtype = setup->inputs[2 + i].dtype;
      self->gradients[i].first_span = (guint32) n_spans;
      n_spans += (self->gradients[i].n + SPAN - 1) / SPAN;
      if (n_spans > G_MAXINT32)
        return ortrain_cuda_refuse (setup, error, "the gradients have too many elements");
    }
  self->n_spans = (guint32) n_spans;
  setup->workspace_bytes = MAX (self->n_spans, 1) * sizeof (double);
  return TRUE;
}

/* Whether anybody asks for the norm. */
static __device__ bool
is_wanted (const double *scalars, const float *loss_scale)
{
  return scalars[ORTRAIN_UPDATE_MAX_NORM] > 0 || loss_scale != NULL;
}

template <typename T>
static __device__ double
sum_squares (const T *x, gint64 begin, gint64 end)
{
  double sum = 0;
  for (gint64 i = begin + 4 * threadIdx.x; i < end; i += 4 * ORTRAIN_CUDA_BLOCK)
    {
      if (end - i >= 4)
        {
          const OrtrainPack<T, 4> pack = *(const OrtrainPack<T, 4> *) (x + i);
          for (int k = 0; k < 4; k++)
            sum += (double) ortrain_widen (pack.at[k]) * (double) ortrain_widen (pack.at[k]);
        }
      else
        for (gint64 k = i; k < end; k++)
          sum += (double) ortrain_load (x, k) * (double) ortrain_load (x, k);
    }
  return sum;
}

/* The last one that begins at the span or before. */
template <int capacity>
static __device__ int
find_gradient (const Gradients<capacity> &all, unsigned span)
{
  int low = 0, high = (int) all.n_gradients;
  while (high - low > 1)
    {
      const int middle = (low + high) / 2;
      if (all.gradients[middle].first_span <= span)
        low = middle;
      else
        high = middle;
    }
  return low;
}

/* partials: [n_spans] of the launch */
template <int capacity>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) norm_kernel (ORTRAIN_CUDA_LARGE (Gradients<capacity>) all, const double *scalars,
                                                    const float *loss_scale, double *partials)
{
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  double sum;
  if (!is_wanted (scalars, loss_scale))
    return; /* all threads alike */
  const Gradient &gradient = all.gradients[find_gradient (all, blockIdx.x)];
  const gint64 begin = (gint64) (blockIdx.x - gradient.first_span) * SPAN;
  const gint64 end = begin + SPAN < gradient.n ? begin + SPAN : gradient.n;
  if (gradient.dtype == ORTRAIN_DTYPE_FLOAT32)
    sum = sum_squares ((const float *) gradient.g, begin, end);
  else if (gradient.dtype == ORTRAIN_DTYPE_FLOAT64)
    sum = sum_squares ((const double *) gradient.g, begin, end);
  else if (gradient.dtype == ORTRAIN_DTYPE_BFLOAT16)
    sum = sum_squares ((const OrtrainBfloat16 *) gradient.g, begin, end);
  else
    sum = sum_squares ((const OrtrainHalf *) gradient.g, begin, end);
  sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
  if (threadIdx.x == 0)
    partials[blockIdx.x] = sum;
}

/* One block. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) finish_norm_kernel (const double *partials, guint32 n_spans,
                                                           const double *scalars, const float *loss_scale, double *norm)
{
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  double sum = 0, scale = scalars[ORTRAIN_UPDATE_GRADIENT_SCALE];
  if (is_wanted (scalars, loss_scale))
    for (guint32 i = threadIdx.x; i < n_spans; i += ORTRAIN_CUDA_BLOCK)
      sum += partials[i];
  sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
  if (loss_scale != NULL)
    scale /= (double) *loss_scale;
  if (threadIdx.x == 0)
    *norm = sqrt (sum) * scale;
}

/* Launches a kernel for the gradients from `first` on, as many as a launch has room for. Returns the number of the next
 * one. */
template <int capacity>
static guint
launch_norm (const OrtrainKernelCall *call, guint first)
{
  const Norm *self = (const Norm *) call->constants;
  const guint n = MIN ((guint) capacity, self->n_gradients - first);
  const guint32 before = self->gradients[first].first_span;
  const guint32 end = first + n < self->n_gradients ? self->gradients[first + n].first_span : self->n_spans;
  Gradients<capacity> some;
  static_assert (sizeof some + 3 * sizeof (void *) <= ORTRAIN_CUDA_MOST_PARAMETER_BYTES, "no room for the table");
  memset (&some, 0, sizeof some);
  some.n_gradients = n;
  some.n_spans = end - before;
  for (guint i = 0; i < n; i++)
    {
      some.gradients[i] = self->gradients[first + i];
      some.gradients[i].first_span -= before;
      some.gradients[i].g = call->inputs[2 + first + i];
    }
  if (some.n_spans > 0)
    ortrain_cuda_launch (call, "gradient-norm", some.n_spans, ORTRAIN_CUDA_BLOCK, norm_kernel<capacity>, some,
                         (const double *) call->inputs[0], (const float *) call->inputs[1],
                         (double *) call->workspace + before);
  return first + n;
}

static void
run_norm (const OrtrainKernelCall *call)
{
  const Norm *self = (const Norm *) call->constants;
  const double *scalars = (const double *) call->inputs[0];
  const float *loss_scale = (const float *) call->inputs[1];
  const double *partials = (const double *) call->workspace;
  for (guint first = 0; first < self->n_gradients;)
    first = self->n_gradients <= FEW_TENSORS ? launch_norm<FEW_TENSORS> (call, first)
                                             : launch_norm<MOST_TENSORS> (call, first);
  ortrain_cuda_launch (call, "finish-norm", 1, ORTRAIN_CUDA_BLOCK, finish_norm_kernel, partials, self->n_spans, scalars,
                       loss_scale, (double *) call->outputs[0]);
}

/* ---- the loss scale ---- */

typedef struct
{
  float growth, backoff, minimum, maximum;
  gint64 interval, hysteresis;
  gboolean tolerates; /* it has the operands of hysteresis */
} LossScale;

static gboolean
prepare_loss_scale (OrtrainKernelSetup *setup, GError **error)
{
  LossScale *self = g_new0 (LossScale, 1);
  self->growth = (float) ORTRAIN_CUDA_FLOAT (setup, "growth_factor", 2);
  self->backoff = (float) ORTRAIN_CUDA_FLOAT (setup, "backoff_factor", 0.5);
  self->minimum = (float) ORTRAIN_CUDA_FLOAT (setup, "minimum", 1);
  self->maximum = (float) ORTRAIN_CUDA_FLOAT (setup, "maximum", 0x1p24);
  self->interval = ORTRAIN_CUDA_INT (setup, "growth_interval", 2000);
  self->hysteresis = ORTRAIN_CUDA_INT (setup, "hysteresis", 1);
  setup->constants = self;
  setup->constants_free = g_free;
  for (guint k = 0; k < 3; k++)
    setup->inplace[k] = G_GUINT64_CONSTANT (1) << k;
  self->tolerates = setup->n_inputs > 4 && setup->n_outputs > 3;
  if (self->tolerates)
    setup->inplace[3] = G_GUINT64_CONSTANT (1) << 4;
  return TRUE;
}

static __global__ void
loss_scale_kernel (const LossScale rule, const float *scale_in, const gint64 *good_in, const gint64 *overflows_in,
                   const double *norm, const gint64 *tolerated_in, const OrtrainFault *fault, float *scale_out,
                   gint64 *good_out, gint64 *overflows_out, gint64 *tolerated_out)
{
  float scale = *scale_in;
  gint64 good_steps = *good_in, overflows = *overflows_in, tolerated = tolerated_out != NULL ? *tolerated_in : 0;
  if (fault->code != ORTRAIN_FAULT_NONE)
    ; /* the step has failed before: everything stays as it is */
  else if (!isfinite (*norm))
    {
      if (tolerated_out != NULL && tolerated < rule.hysteresis - 1)
        tolerated++;
      else
        {
          scale *= rule.backoff;
          scale = scale < rule.minimum ? rule.minimum : scale;
        }
      good_steps = 0;
      overflows++;
    }
  else if (++good_steps >= rule.interval)
    {
      scale *= rule.growth;
      scale = scale > rule.maximum ? rule.maximum : scale;
      good_steps = tolerated = 0;
    }
  *scale_out = scale;
  *good_out = good_steps;
  *overflows_out = overflows;
  if (tolerated_out != NULL)
    *tolerated_out = tolerated;
}

static void
run_loss_scale (const OrtrainKernelCall *call)
{
  const bool tolerates = ((const LossScale *) call->constants)->tolerates;
  ortrain_cuda_launch (call, "loss-scale", 1, 1, loss_scale_kernel, *(const LossScale *) call->constants,
                       (const float *) call->inputs[0], (const gint64 *) call->inputs[1],
                       (const gint64 *) call->inputs[2], (const double *) call->inputs[3],
                       (const gint64 *) (tolerates ? call->inputs[4] : NULL), call->context->fault,
                       (float *) call->outputs[0], (gint64 *) call->outputs[1], (gint64 *) call->outputs[2],
                       (gint64 *) (tolerates ? call->outputs[3] : NULL));
}

/* ---- the beginning of an update ---- */

typedef struct
{
  gsize n; /* scalars of an update, of which there are two */
  float overflows_above;
} Begin;

static gboolean
prepare_begin (OrtrainKernelSetup *setup, GError **error)
{
  Begin *self = g_new0 (Begin, 1);
  setup->constants = self;
  setup->constants_free = g_free;
  self->n = (gsize) MAX (setup->inputs[0].n_elements - 1, 0) / 2;
  self->overflows_above = (float) ORTRAIN_CUDA_FLOAT (setup, "overflows_above", 0);
  setup->inplace[0] = 1 << 0;
  setup->inplace[1] = 1 << 1;
  return TRUE;
}

/* held, out: [2 n + 1], which may be the same; norm, norm_out: [], which may be, too. One block. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    begin_update_kernel (const Begin rule, const double *held, const double *norm, const float *loss_scale, double *out,
                         double *norm_out, const OrtrainStepBlock *step, OrtrainFaultPlace place)
{
  const bool was_left_out = held[2 * rule.n] != 0;
  const bool failed = place.fault->code != ORTRAIN_FAULT_NONE;
  __syncthreads ();
  for (gsize i = threadIdx.x; i < rule.n; i += ORTRAIN_CUDA_BLOCK)
    {
      const double other = held[rule.n + i];
      out[i] = was_left_out ? other : held[i];
      out[rule.n + i] = other;
    }
  if (threadIdx.x != 0)
    return;
  const bool passes = isfinite (*norm);
  *norm_out = *norm;
  out[2 * rule.n] = failed ? (double) was_left_out : passes ? 0.0 : 1.0;
  if (!failed && !passes && step->guards && (loss_scale == NULL || !(*loss_scale > rule.overflows_above)))
    place.report (ORTRAIN_FAULT_GUARD, 0, 0, 0);
}

static void
run_begin (const OrtrainKernelCall *call)
{
  ortrain_cuda_launch (call, "begin-update", 1, ORTRAIN_CUDA_BLOCK, begin_update_kernel,
                       *(const Begin *) call->constants, (const double *) call->inputs[0],
                       (const double *) call->inputs[1], (const float *) call->inputs[2], (double *) call->outputs[0],
                       (double *) call->outputs[1], call->context->step, ortrain_cuda_get_fault (call));
}

static const OrtrainKernel rows[] = {
  { "BeginUpdate", "org.ortrain", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64), prepare_begin, run_begin },
  { "GradientNorm", "org.ortrain", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64), prepare_norm, run_norm },
  { "LossScaleUpdate", "org.ortrain", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32), prepare_loss_scale, run_loss_scale },
};

ORTRAIN_CUDA_TABLE (gradient_norm, rows);
