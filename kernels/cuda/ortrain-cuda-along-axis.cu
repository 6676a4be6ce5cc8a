/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-elements.h"

#include "common/ortrain-operands.h"

/* Operators along one axis, a line at a time: the place of the extreme, and running sums and products. Lines side by
 * side have a thread each; lines of neighbouring elements have a warp, or a block. */

#define THREADS ORTRAIN_CUDA_BLOCK

/* ---- ArgMax, ArgMin: x [outer, n, inner] → int64 [outer, inner]; a NaN wins, as in NumPy ---- */

typedef struct
{
  OrtrainDType dtype;
  gboolean max, last;
  gint64 outer, n, inner;
  guint lanes; /* threads for a line: 1, 32 or all of a block */
} ArgPlan;

template <typename A> struct Candidate
{
  A value;
  gint64 place; /* -1: none */
};

static __device__ __forceinline__ void
load_value (const void *x, gint64 i, OrtrainDType dtype, float *value)
{
  *value = ortrain_load_any (x, i, dtype);
}

static __device__ __forceinline__ void
load_value (const void *x, gint64 i, OrtrainDType dtype, double *value)
{
  *value = ((const double *) x)[i];
}

static __device__ __forceinline__ void
load_value (const void *x, gint64 i, OrtrainDType dtype, gint64 *value)
{
  *value = ortrain_cuda_load_integer (x, i, dtype);
}

static __device__ __forceinline__ void
load_value (const void *x, gint64 i, OrtrainDType dtype, guint64 *value)
{
  *value = ((const guint64 *) x)[i];
}

/* The better one of two, whatever their order. */
template <typename A>
static __device__ __forceinline__ Candidate<A>
choose (const ArgPlan &plan, const Candidate<A> &a, const Candidate<A> &b)
{
  if (a.place < 0 || b.place < 0)
    return a.place < 0 ? b : a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan)
    return a_nan ? a : b;
  if (a_nan || a.value == b.value)
    return (a.place > b.place) == (plan.last != 0) ? a : b;
  return (a.value > b.value) == (plan.max != 0) ? a : b;
}

template <typename A>
static __global__ void
__launch_bounds__ (THREADS) arg_kernel (const void *x, gint64 *y, const ArgPlan plan)
{
  ORTRAIN_CUDA_SHARED (Candidate<A>, scratch, THREADS / ORTRAIN_CUDA_WARP);
  const unsigned lanes = plan.lanes, lane = threadIdx.x % lanes;
  const gint64 n_lines = plan.outer * plan.inner, per_block = THREADS / lanes;
  for (gint64 first = blockIdx.x * per_block; first < n_lines; first += gridDim.x * per_block)
    {
      const gint64 line = first + threadIdx.x / lanes;
      Candidate<A> best = { 0, -1 };
      if (line < n_lines)
        {
          const gint64 outer = plan.inner == 1 ? line : line / plan.inner;
          const gint64 base = outer * plan.n * plan.inner + line - outer * plan.inner;
#pragma unroll 2
          for (gint64 k = lane; k < plan.n; k += lanes)
            {
              Candidate<A> next = { 0, k };
              load_value (x, base + k * plan.inner, plan.dtype, &next.value);
              best = choose (plan, best, next);
            }
        }
      for (unsigned by = 1; by < lanes && by < ORTRAIN_CUDA_WARP; by *= 2)
        {
          Candidate<A> other;
          other.value = __shfl_xor_sync (ORTRAIN_CUDA_ALL, best.value, by);
          other.place = __shfl_xor_sync (ORTRAIN_CUDA_ALL, best.place, by);
          best = choose (plan, best, other);
        }
      if (lanes > ORTRAIN_CUDA_WARP)
        {
          if (threadIdx.x % ORTRAIN_CUDA_WARP == 0)
            scratch[threadIdx.x / ORTRAIN_CUDA_WARP] = best;
          __syncthreads ();
          for (int w = 1; threadIdx.x == 0 && w < THREADS / ORTRAIN_CUDA_WARP; w++)
            best = choose (plan, best, scratch[w]);
          __syncthreads ();
        }
      if (lane == 0 && line < n_lines)
        y[line] = best.place;
    }
}

/* Splits the shape around an axis. */
static gboolean
split_at_axis (const OrtrainKernelSetup *setup, gint64 axis, gint64 *outer, gint64 *n, gint64 *inner, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  axis = ortrain_kernel_axis (axis, x->rank);
  if (axis < 0 || axis >= MAX (x->rank, 1))
    return ortrain_cuda_refuse (setup, error, "the axis is outside of the rank %u", x->rank);
  *outer = ortrain_kernel_product (x->dims, 0, (guint) axis);
  *n = axis < x->rank ? x->dims[axis] : 1;
  *inner = ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
  return TRUE;
}

static gboolean
prepare_arg (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree ArgPlan *plan = g_new0 (ArgPlan, 1);
  plan->dtype = setup->inputs[0].dtype;
  plan->max = g_str_equal (setup->op_type, "ArgMax");
  plan->last = ORTRAIN_CUDA_INT (setup, "select_last_index", 0) != 0;
  if (!split_at_axis (setup, ORTRAIN_CUDA_INT (setup, "axis", 0), &plan->outer, &plan->n, &plan->inner, error))
    return FALSE;
  if (plan->n == 0 && setup->outputs[0].n_elements > 0)
    return ortrain_cuda_refuse (setup, error, "over an axis without elements");
  plan->lanes = plan->inner > 1 || plan->n < 4 ? 1 : plan->n < 2048 ? ORTRAIN_CUDA_WARP : THREADS;
  setup->constants = g_steal_pointer (&plan);
  setup->constants_free = g_free;
  return TRUE;
}

template <typename A>
static void
launch_arg (const OrtrainKernelCall *call, const ArgPlan *plan)
{
  ortrain_cuda_launch (call, "arg", ortrain_cuda_grid (call, plan->outer * plan->inner, THREADS / plan->lanes), THREADS,
                       arg_kernel<A>, call->inputs[0], (gint64 *) call->outputs[0], *plan);
}

static void
run_arg (const OrtrainKernelCall *call)
{
  const ArgPlan *plan = (const ArgPlan *) call->constants;
  if (plan->outer * plan->inner == 0)
    return;
  if (ORTRAIN_DTYPE_BIT (plan->dtype) & ORTRAIN_DTYPES_MIXED)
    launch_arg<float> (call, plan);
  else if (plan->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_arg<double> (call, plan);
  else if (plan->dtype == ORTRAIN_DTYPE_UINT64)
    launch_arg<guint64> (call, plan);
  else
    launch_arg<gint64> (call, plan);
}

/* ---- CumSum, CumProd: x [outer, n, inner], running along n. The axis is an operand, read on the device. ---- */

typedef struct
{
  OrtrainDType dtype, out_dtype, x_dtype; /* of inputs 0, output 0, and input 2 of the gradient */
  guint rank;
  gint64 dims[ORTRAIN_MAX_RANK];
  gint64 n_elements;
  gboolean product, exclusive, reverse, axis_is_int32;
} CumPlan;

struct Lines
{
  gint64 n_lines, n, inner;
};

/* FALSE: there is no such axis, and that was reported. */
static __device__ __forceinline__ bool
find_lines (const CumPlan &plan, const void *axis_operand, const OrtrainFaultPlace &fault, Lines *lines)
{
  const gint64 given = plan.axis_is_int32 ? *(const gint32 *) axis_operand : *(const gint64 *) axis_operand;
  const gint64 rank = plan.rank, axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= (rank > 1 ? rank : 1))
    {
      if (ortrain_cuda_first () == 0)
        fault.report (ORTRAIN_FAULT_INDEX, 0, given, rank);
      return false;
    }
  lines->n_lines = lines->n = lines->inner = 1;
  for (int d = 0; d < rank; d++)
    {
      lines->n_lines *= d == axis ? 1 : plan.dims[d];
      lines->n *= d == axis ? plan.dims[d] : 1;
      lines->inner *= d > axis ? plan.dims[d] : 1;
    }
  return true;
}

static __device__ __forceinline__ void
load_term (const void *x, gint64 i, OrtrainDType dtype, double *value)
{
  *value = ortrain_cuda_load_real (x, i, dtype);
}

static __device__ __forceinline__ void
load_term (const void *x, gint64 i, OrtrainDType dtype, guint64 *value)
{
  *value = (guint64) ortrain_cuda_load_integer (x, i, dtype);
}

static __device__ __forceinline__ void
store_term (void *y, gint64 i, OrtrainDType dtype, double value)
{
  ortrain_cuda_store_real (y, i, dtype, value);
}

static __device__ __forceinline__ void
store_term (void *y, gint64 i, OrtrainDType dtype, guint64 value)
{
  ortrain_cuda_store_integer (y, i, dtype, (gint64) value);
}

/* A: double, or guint64 for all integers */
template <typename A>
static __global__ void
__launch_bounds__ (THREADS)
    cum_kernel (const void *x, const void *axis, void *y, const CumPlan plan, OrtrainFaultPlace fault)
{
  Lines lines;
  if (!find_lines (plan, axis, fault, &lines))
    return;
  const A nothing = plan.product ? (A) 1 : (A) 0;
  const gint64 last = lines.n - 1;
  if (lines.inner > 1 || lines.n < 8)
    {
      for (gint64 line = ortrain_cuda_first (); line < lines.n_lines; line += ortrain_cuda_stride ())
        {
          const gint64 outer = line / lines.inner, base = outer * lines.n * lines.inner + line - outer * lines.inner;
          A sum = nothing;
          for (gint64 k = 0; k < lines.n; k++)
            {
              const gint64 at = base + (plan.reverse ? last - k : k) * lines.inner;
              A term;
              load_term (x, at, plan.dtype, &term);
              const A next = plan.product ? sum * term : sum + term;
              store_term (y, at, plan.out_dtype, plan.exclusive ? sum : next);
              sum = next;
            }
        }
      return;
    }
  const int lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const gint64 warps = (gint64) gridDim.x * (THREADS / ORTRAIN_CUDA_WARP);
  for (gint64 line = (blockIdx.x * (gint64) THREADS + threadIdx.x) / ORTRAIN_CUDA_WARP; line < lines.n_lines;
       line += warps)
    {
      A before = nothing;
      for (gint64 first = 0; first < lines.n; first += ORTRAIN_CUDA_WARP)
        {
          const gint64 k = first + lane, at = line * lines.n + (plan.reverse ? last - k : k);
          A term = nothing;
          if (k < lines.n)
            load_term (x, at, plan.dtype, &term);
          A sum = term; /* of the lanes up to this one */
          for (int by = 1; by < ORTRAIN_CUDA_WARP; by *= 2)
            {
              const A other = __shfl_up_sync (ORTRAIN_CUDA_ALL, sum, by);
              if (lane >= by)
                sum = plan.product ? other * sum : other + sum;
            }
          sum = plan.product ? before * sum : before + sum;
          const A left = __shfl_up_sync (ORTRAIN_CUDA_ALL, sum, 1);
          if (k < lines.n)
            store_term (y, at, plan.out_dtype, !plan.exclusive ? sum : lane == 0 ? before : left);
          before = __shfl_sync (ORTRAIN_CUDA_ALL, sum, ORTRAIN_CUDA_WARP - 1);
        }
    }
}

/* An element that is exactly zero ends a product, also one that has left the range of double. */
static __device__ __forceinline__ double
multiply (double factor, double product)
{
  return factor == 0 && fabs (product) > 1.7976931348623157e+308 ? 0 : factor * product;
}

/* CumProdGrad (dy, axis, x) → dx. dx[e] = (the product of the elements before e) · after[e], and after[e] = Σ dy[k] ·
 * (the product of those between e and k) = dy[e] + x[e + 1] · after[e + 1]: right where elements are zero. With
 * `exclusive`, dy counts one element later. after: [elements of x] */
static __global__ void
__launch_bounds__ (THREADS) cum_gradient_kernel (const void *dy, const void *axis, const void *x, void *dx,
                                                 double *after, const CumPlan plan, OrtrainFaultPlace fault)
{
  Lines lines;
  if (!find_lines (plan, axis, fault, &lines))
    return;
  for (gint64 line = ortrain_cuda_first (); line < lines.n_lines; line += ortrain_cuda_stride ())
    {
      const gint64 outer = line / lines.inner, base = outer * lines.n * lines.inner + line - outer * lines.inner;
      double sum = 0, before = 1;
      for (gint64 e = lines.n - 1; e >= 0; e--)
        {
          const gint64 at = base + (plan.reverse ? lines.n - 1 - e : e) * lines.inner;
          const double gradient = ortrain_cuda_load_real (dy, at, plan.dtype);
          if (!plan.exclusive)
            sum += gradient;
          after[at] = sum;
          sum = multiply (ortrain_cuda_load_real (x, at, plan.x_dtype), sum);
          if (plan.exclusive)
            sum += gradient;
        }
      for (gint64 e = 0; e < lines.n; e++)
        {
          const gint64 at = base + (plan.reverse ? lines.n - 1 - e : e) * lines.inner;
          const double next = multiply (ortrain_cuda_load_real (x, at, plan.x_dtype), before);
          ortrain_cuda_store_real (dx, at, plan.out_dtype, multiply (before, after[at]));
          before = next;
        }
    }
}

static gboolean
prepare_cum (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *axis = &setup->inputs[1];
  if (axis->n_elements != 1 || (axis->dtype != ORTRAIN_DTYPE_INT32 && axis->dtype != ORTRAIN_DTYPE_INT64))
    return ortrain_cuda_refuse (setup, error, "the axis is no whole number");
  CumPlan *plan = g_new0 (CumPlan, 1);
  plan->dtype = setup->inputs[0].dtype;
  plan->out_dtype = setup->outputs[0].dtype;
  plan->product = g_str_equal (setup->op_type, "CumProd");
  plan->rank = setup->inputs[0].rank;
  plan->n_elements = setup->inputs[0].n_elements;
  memcpy (plan->dims, setup->inputs[0].dims, plan->rank * sizeof (gint64));
  plan->exclusive = ORTRAIN_CUDA_INT (setup, "exclusive", 0) != 0;
  plan->reverse = ORTRAIN_CUDA_INT (setup, "reverse", 0) != 0;
  plan->axis_is_int32 = axis->dtype == ORTRAIN_DTYPE_INT32;
  setup->inplace[0] = 1;
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static gboolean
prepare_cum_gradient (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_cum (setup, error))
    return FALSE;
  CumPlan *plan = (CumPlan *) setup->constants;
  plan->x_dtype = setup->inputs[2].dtype;
  setup->inplace[0] = 0;
  setup->workspace_bytes = (gsize) plan->n_elements * sizeof (double);
  return TRUE;
}

static void
run_cum (const OrtrainKernelCall *call)
{
  const CumPlan *plan = (const CumPlan *) call->constants;
  const unsigned grid = ortrain_cuda_grid (call, plan->n_elements, 4 * THREADS);
  if (ORTRAIN_DTYPE_BIT (plan->dtype) & ORTRAIN_DTYPES_FLOAT)
    ortrain_cuda_launch (call, "cum", grid, THREADS, cum_kernel<double>, call->inputs[0], call->inputs[1],
                         call->outputs[0], *plan, ortrain_cuda_get_fault (call));
  else
    ortrain_cuda_launch (call, "cum", grid, THREADS, cum_kernel<guint64>, call->inputs[0], call->inputs[1],
                         call->outputs[0], *plan, ortrain_cuda_get_fault (call));
}

static void
run_cum_gradient (const OrtrainKernelCall *call)
{
  const CumPlan *plan = (const CumPlan *) call->constants;
  ortrain_cuda_launch (call, "cum-prod-grad", ortrain_cuda_grid (call, plan->n_elements, 4 * THREADS), THREADS,
                       cum_gradient_kernel, call->inputs[0], call->inputs[1], call->inputs[2], call->outputs[0],
                       (double *) call->workspace, *plan, ortrain_cuda_get_fault (call));
}

static const OrtrainKernel rows[] = {
  { "ArgMax", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, prepare_arg, run_arg },
  { "ArgMin", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, prepare_arg, run_arg },
  { "CumSum", "", ORTRAIN_DTYPES_F32F64 | ORTRAIN_DTYPES_INTEGER, prepare_cum, run_cum },
  { "CumSum", "", ORTRAIN_DTYPES_MIXED, prepare_cum, run_cum, 0, ORTRAIN_DTYPES_MIXED },
  { "CumProd", "", ORTRAIN_DTYPES_F32F64 | ORTRAIN_DTYPES_INTEGER, prepare_cum, run_cum },
  { "CumProd", "", ORTRAIN_DTYPES_MIXED, prepare_cum, run_cum, 0, ORTRAIN_DTYPES_MIXED },
  { "CumProdGrad", "org.ortrain", ORTRAIN_DTYPES_F32F64, prepare_cum_gradient, run_cum_gradient },
  { "CumProdGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_cum_gradient, run_cum_gradient, 0,
    ORTRAIN_DTYPES_MIXED },
};

ORTRAIN_CUDA_TABLE (along_axis, rows);
