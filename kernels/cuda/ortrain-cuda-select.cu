/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-units.h"

/* TopK and OneHot. Compress, NonZero and Unique, whose shapes depend on what tensors hold, are computed on the host. */

/* ---- TopK: lines along an axis, [outer, dim, inner] ---- */

#define MAX_SORTED 2048 /* elements of a line that is sorted in shared memory */

struct TopK
{
  gint64 lines, dim, k;
  OrtrainDivisor inner;
  bool largest;
};

/* The type that elements are compared as. */
template <typename T> struct Ordered
{
  typedef gint64 Type;
};
template <> struct Ordered<float>
{
  typedef float Type;
};
template <> struct Ordered<double>
{
  typedef double Type;
};
template <> struct Ordered<OrtrainHalf>
{
  typedef float Type;
};
template <> struct Ordered<OrtrainBfloat16>
{
  typedef float Type;
};
template <> struct Ordered<guint64>
{
  typedef guint64 Type;
};

template <typename T>
static inline __device__ typename Ordered<T>::Type
load_ordered (T x)
{
  return (typename Ordered<T>::Type) x;
}

static inline __device__ float
load_ordered (OrtrainHalf x)
{
  return ortrain_widen (x);
}

static inline __device__ float
load_ordered (OrtrainBfloat16 x)
{
  return ortrain_widen (x);
}

/* Whether a comes before b: equal values in the order of their indices, and NaN after all numbers. */
template <typename V>
static inline __device__ bool
is_before (V a, gint64 at, V b, gint64 bt, bool largest)
{
  const bool a_is_nan = a != a, b_is_nan = b != b;
  if (a == b || (a_is_nan && b_is_nan))
    return at < bt;
  if (a_is_nan || b_is_nan)
    return b_is_nan;
  return largest ? a > b : a < b;
}

/* A block for each line: the next one of those that are left, k times. */
template <typename T, bool Small>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) top_k_select_kernel (const TopK top, const T *x, T *values, gint64 *indices)
{
  typedef typename Ordered<T>::Type V;
  ORTRAIN_CUDA_SHARED (V, best_values, ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP);
  ORTRAIN_CUDA_SHARED (gint64, best_places, ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP);
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP, warp = threadIdx.x / ORTRAIN_CUDA_WARP;
  for (gint64 line = blockIdx.x; line < top.lines; line += gridDim.x)
    {
      gint64 inner = line;
      const gint64 outer = ortrain_divide_rest<Small> (inner, top.inner);
      const T *from = x + outer * top.dim * top.inner.divisor + inner;
      const gint64 to = outer * top.k * top.inner.divisor + inner;
      V last = 0;
      gint64 last_place = -1;
      for (gint64 j = 0; j < top.k; j++)
        {
          V best = 0;
          gint64 place = -1;
          for (gint64 i = threadIdx.x; i < top.dim; i += ORTRAIN_CUDA_BLOCK)
            {
              const V value = load_ordered (from[i * top.inner.divisor]);
              if ((last_place < 0 || is_before (last, last_place, value, i, top.largest)) &&
                  (place < 0 || is_before (value, i, best, place, top.largest)))
                {
                  best = value;
                  place = i;
                }
            }
          for (int lanes = ORTRAIN_CUDA_WARP / 2; lanes > 0; lanes /= 2)
            {
              const V other = __shfl_xor_sync (ORTRAIN_CUDA_ALL, best, lanes);
              const gint64 other_place = __shfl_xor_sync (ORTRAIN_CUDA_ALL, place, lanes);
              if (other_place >= 0 && (place < 0 || is_before (other, other_place, best, place, top.largest)))
                {
                  best = other;
                  place = other_place;
                }
            }
          if (lane == 0)
            {
              best_values[warp] = best;
              best_places[warp] = place;
            }
          __syncthreads ();
          last = best_values[0];
          last_place = best_places[0];
          for (unsigned w = 1; w < ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP; w++)
            if (best_places[w] >= 0 &&
                (last_place < 0 || is_before (best_values[w], best_places[w], last, last_place, top.largest)))
              {
                last = best_values[w];
                last_place = best_places[w];
              }
          if (threadIdx.x == 0)
            {
              if (values != NULL)
                values[to + j * top.inner.divisor] = from[last_place * top.inner.divisor];
              if (indices != NULL)
                indices[to + j * top.inner.divisor] = last_place;
            }
          __syncthreads ();
        }
    }
}

/* The same, of lines that are sorted whole: n is the power of two from dim on. */
template <typename T, bool Small>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) top_k_sort_kernel (const TopK top, int n, const T *x, T *values, gint64 *indices)
{
  typedef typename Ordered<T>::Type V;
  ORTRAIN_CUDA_SHARED (V, sorted, MAX_SORTED);
  ORTRAIN_CUDA_SHARED (gint32, places, MAX_SORTED);
  for (gint64 line = blockIdx.x; line < top.lines; line += gridDim.x)
    {
      gint64 inner = line;
      const gint64 outer = ortrain_divide_rest<Small> (inner, top.inner);
      const T *from = x + outer * top.dim * top.inner.divisor + inner;
      const gint64 to = outer * top.k * top.inner.divisor + inner;
      for (int i = (int) threadIdx.x; i < n; i += ORTRAIN_CUDA_BLOCK)
        {
          sorted[i] = i < top.dim ? load_ordered (from[i * top.inner.divisor]) : (V) 0;
          places[i] = i;
        }
      __syncthreads ();
      for (int width = 2; width <= n; width *= 2)
        for (int by = width / 2; by > 0; by /= 2)
          {
            for (int i = (int) threadIdx.x; i < n / 2; i += ORTRAIN_CUDA_BLOCK)
              {
                const int a = 2 * i - (i & (by - 1)), b = a + by;
                /* places beyond the line come after all places of the line */
                const bool a_is_out = places[a] >= top.dim, b_is_out = places[b] >= top.dim;
                const bool before = a_is_out || b_is_out
                                        ? b_is_out && (!a_is_out || places[a] < places[b])
                                        : is_before (sorted[a], places[a], sorted[b], places[b], top.largest);
                if (before != ((a & width) == 0))
                  {
                    const V value = sorted[a];
                    const gint32 place = places[a];
                    sorted[a] = sorted[b];
                    places[a] = places[b];
                    sorted[b] = value;
                    places[b] = place;
                  }
              }
            __syncthreads ();
          }
      for (int j = (int) threadIdx.x; j < top.k; j += ORTRAIN_CUDA_BLOCK)
        {
          if (values != NULL)
            values[to + j * top.inner.divisor] = from[places[j] * top.inner.divisor];
          if (indices != NULL)
            indices[to + j * top.inner.divisor] = places[j];
        }
      __syncthreads ();
    }
}

template <typename T>
static void
launch_top_k (const OrtrainKernelCall *call, const TopK *top)
{
  const T *x = (const T *) call->inputs[0];
  T *values = (T *) call->outputs[0];
  gint64 *indices = (gint64 *) (call->n_outputs > 1 ? call->outputs[1] : NULL);
  const dim3 grid = ortrain_cuda_grid (call, top->lines, 1);
  int n = 2;
  while (n < top->dim && n < MAX_SORTED)
    n *= 2;
  if (top->dim <= MAX_SORTED && top->k > 8)
    ortrain_cuda_launch (call, "top-k", grid, ORTRAIN_CUDA_BLOCK,
                         top->lines <= G_MAXINT32 ? top_k_sort_kernel<T, true> : top_k_sort_kernel<T, false>, *top, n,
                         x, values, indices);
  else
    ortrain_cuda_launch (call, "top-k", grid, ORTRAIN_CUDA_BLOCK,
                         top->lines <= G_MAXINT32 ? top_k_select_kernel<T, true> : top_k_select_kernel<T, false>, *top,
                         x, values, indices);
}

typedef void (*TopKFunc) (const OrtrainKernelCall *call, const TopK *top);

static const struct
{
  OrtrainDType dtype;
  TopKFunc launch;
} top_k_launches[] = {
  { ORTRAIN_DTYPE_FLOAT32, launch_top_k<float> },       { ORTRAIN_DTYPE_FLOAT64, launch_top_k<double> },
  { ORTRAIN_DTYPE_FLOAT16, launch_top_k<OrtrainHalf> }, { ORTRAIN_DTYPE_BFLOAT16, launch_top_k<OrtrainBfloat16> },
  { ORTRAIN_DTYPE_INT8, launch_top_k<gint8> },          { ORTRAIN_DTYPE_UINT8, launch_top_k<guint8> },
  { ORTRAIN_DTYPE_INT16, launch_top_k<gint16> },        { ORTRAIN_DTYPE_UINT16, launch_top_k<guint16> },
  { ORTRAIN_DTYPE_INT32, launch_top_k<gint32> },        { ORTRAIN_DTYPE_UINT32, launch_top_k<guint32> },
  { ORTRAIN_DTYPE_INT64, launch_top_k<gint64> },        { ORTRAIN_DTYPE_UINT64, launch_top_k<guint64> },
};

typedef struct
{
  TopK top;
  TopKFunc launch;
} TopKConstants;

static gboolean
prepare_top_k (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  const gint64 axis = ortrain_kernel_axis (ORTRAIN_CUDA_INT (setup, "axis", -1), x->rank);
  if (y->dtype == ORTRAIN_DTYPE_UNDEFINED && setup->n_outputs > 1)
    y = &setup->outputs[1];
  if (axis < 0 || axis >= x->rank || y->dims[axis] > x->dims[axis])
    return ortrain_cuda_refuse (setup, error, "axis or k is out of range");
  TopKConstants *constants = g_new0 (TopKConstants, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->top.dim = x->dims[axis];
  const gint64 inner = ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
  constants->top.inner = ortrain_divisor (inner);
  constants->top.lines = ortrain_kernel_product (x->dims, 0, (guint) axis) * inner;
  constants->top.k = y->dims[axis];
  constants->top.largest = ORTRAIN_CUDA_INT (setup, "largest", 1) != 0;
  for (guint i = 0; i < G_N_ELEMENTS (top_k_launches); i++)
    if (top_k_launches[i].dtype == x->dtype)
      constants->launch = top_k_launches[i].launch;
  return constants->launch != NULL || ortrain_cuda_refuse (setup, error, "the type has no order");
}

static void
run_top_k (const OrtrainKernelCall *call)
{
  const TopKConstants *constants = (const TopKConstants *) call->constants;
  if (constants->top.lines > 0 && constants->top.k > 0)
    constants->launch (call, &constants->top);
}

/* ---- OneHot: indices [outer, inner] → [outer, depth, inner] ---- */

struct OneHot
{
  OrtrainDivisor inner, depth;
  gint64 n;
  OrtrainDType index_dtype;
};

typedef struct
{
  OneHot hot;
  gsize size;
} OneHotConstants;

/* -2^62 is outside of any depth. It replaces NaN, and numbers whose magnitude is 2^62 or more. */
static inline __device__ gint64
whole_index (double x)
{
  return x > -4611686018427387904.0 && x < 4611686018427387904.0 ? (gint64) x : -((gint64) 1 << 62);
}

static inline __device__ gint64
load_index (OrtrainDType dtype, const void *data, gint64 i)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_INT64:
    case ORTRAIN_DTYPE_UINT64:
      return ((const gint64 *) data)[i];
    case ORTRAIN_DTYPE_INT32:
      return ((const gint32 *) data)[i];
    case ORTRAIN_DTYPE_UINT32:
      return ((const guint32 *) data)[i];
    case ORTRAIN_DTYPE_INT16:
      return ((const gint16 *) data)[i];
    case ORTRAIN_DTYPE_UINT16:
      return ((const guint16 *) data)[i];
    case ORTRAIN_DTYPE_INT8:
      return ((const gint8 *) data)[i];
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_BOOL:
      return ((const guint8 *) data)[i];
    case ORTRAIN_DTYPE_FLOAT64:
      return whole_index (((const double *) data)[i]);
    case ORTRAIN_DTYPE_FLOAT32:
    case ORTRAIN_DTYPE_FLOAT16:
    case ORTRAIN_DTYPE_BFLOAT16:
      return whole_index ((double) ortrain_load_any (data, i, dtype));
    default:
      return -((gint64) 1 << 62);
    }
}

/* values: [2], off and on */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) one_hot_kernel (const OneHot hot, const void *indices, const T *values, T *y)
{
  const T off = values[0], on = values[1];
  for (gint64 i = ortrain_cuda_first (); i < hot.n; i += ortrain_cuda_stride ())
    {
      const bool small = hot.n <= G_MAXINT32;
      gint64 inner = i;
      gint64 place =
          small ? ortrain_divide_rest<true> (inner, hot.inner) : ortrain_divide_rest<false> (inner, hot.inner);
      const gint64 outer =
          small ? ortrain_divide_rest<true> (place, hot.depth) : ortrain_divide_rest<false> (place, hot.depth);
      const gint64 index = load_index (hot.index_dtype, indices, outer * hot.inner.divisor + inner);
      y[i] = (index < 0 ? index + hot.depth.divisor : index) == place ? on : off;
    }
}

static gboolean
prepare_one_hot (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *y = &setup->outputs[0];
  const gint64 axis = ortrain_kernel_axis (ORTRAIN_CUDA_INT (setup, "axis", -1), y->rank);
  if (axis < 0 || axis >= y->rank || setup->inputs[2].n_elements != 2)
    return ortrain_cuda_refuse (setup, error, "axis is out of range, or there are not two values");
  OneHotConstants *constants = g_new0 (OneHotConstants, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->hot.depth = ortrain_divisor (y->dims[axis]);
  constants->hot.inner = ortrain_divisor (ortrain_kernel_product (y->dims, (guint) axis + 1, y->rank));
  constants->hot.n = y->n_elements;
  constants->hot.index_dtype = setup->inputs[0].dtype;
  constants->size = ortrain_cuda_library->dtype_get_size (y->dtype);
  return TRUE;
}

static void
run_one_hot (const OrtrainKernelCall *call)
{
  const OneHotConstants *constants = (const OneHotConstants *) call->constants;
  if (constants->hot.n > 0)
    ORTRAIN_CUDA_SIZES (constants->size, T,
                        ortrain_cuda_launch (call, "one-hot",
                                             ortrain_cuda_grid (call, constants->hot.n, ORTRAIN_CUDA_BLOCK),
                                             ORTRAIN_CUDA_BLOCK, one_hot_kernel<T>, constants->hot, call->inputs[0],
                                             (const T *) call->inputs[2], (T *) call->outputs[0]););
}

static const OrtrainKernel rows[] = {
  { "TopK", "", 0, prepare_top_k, run_top_k },
  { "OneHot", "", 0, prepare_one_hot, run_one_hot },
};

ORTRAIN_CUDA_TABLE (select, rows);
