/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-convert.h"
#include "cuda/ortrain-cuda-device.h"

/* For kernels that work along rows: operands of one type, or of several that are known at run time only; rows held in
 * registers between two looks at them, by a warp or a block; and rows that are too long for that. */

/* ---- operands ---- */

/* The type is known at run time only: operands that differ in type, and small ones. */
struct OrtrainAny
{
};

/* An operand. WIDTH: elements of 16 bytes, or what comes near. load and store of more than one element: their addresses
 * are multiples of their size. */
template <typename T> struct OrtrainView
{
  typedef T Raw;
  static constexpr int WIDTH = 16 / sizeof (T);
  T *data;

  __device__ bool
  is_there (void) const
  {
    return data != NULL;
  }

  template <int N>
  __device__ OrtrainPack<T, N>
  load (gint64 i) const
  {
    return *(const OrtrainPack<T, N> *) (data + i);
  }

  template <int N>
  __device__ void
  store (gint64 i, const float (&values)[N]) const
  {
    *(OrtrainPack<T, N> *) (data + i) = ortrain_cuda_narrow<T> (values);
  }

  __device__ float
  get (gint64 i) const
  {
    return ortrain_widen (data[i]);
  }

  __device__ void
  put (gint64 i, float value) const
  {
    data[i] = ortrain_narrow<T> (value);
  }
};

template <> struct OrtrainView<OrtrainAny>
{
  typedef float Raw;
  static constexpr int WIDTH = 4;
  void *data;
  OrtrainDType dtype;

  __device__ bool
  is_there (void) const
  {
    return data != NULL;
  }

  template <int N>
  __device__ OrtrainPack<float, N>
  load (gint64 i) const
  {
    OrtrainPack<float, N> pack;
    constexpr int PART = N < 4 ? N : 4;
#pragma unroll
    for (int k = 0; k < N; k += PART)
      if (dtype == ORTRAIN_DTYPE_FLOAT32)
        {
          const OrtrainPack<float, PART> part = *(const OrtrainPack<float, PART> *) ((const float *) data + i + k);
#pragma unroll
          for (int j = 0; j < PART; j++)
            pack.at[k + j] = part.at[j];
        }
      else
        {
          const OrtrainPack<guint16, PART> part =
              *(const OrtrainPack<guint16, PART> *) ((const guint16 *) data + i + k);
#pragma unroll
          for (int j = 0; j < PART; j++)
            pack.at[k + j] = dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (part.at[j])
                                                            : ortrain_bfloat16_to_float (part.at[j]);
        }
    return pack;
  }

  template <int N>
  __device__ void
  store (gint64 i, const float (&values)[N]) const
  {
    if (dtype == ORTRAIN_DTYPE_FLOAT32)
      OrtrainView<float>{ (float *) data }.store (i, values);
    else if (dtype == ORTRAIN_DTYPE_FLOAT16)
      OrtrainView<OrtrainHalf>{ (OrtrainHalf *) data }.store (i, values);
    else
      OrtrainView<OrtrainBfloat16>{ (OrtrainBfloat16 *) data }.store (i, values);
  }

  __device__ float
  get (gint64 i) const
  {
    return ortrain_load_any (data, i, dtype);
  }

  __device__ void
  put (gint64 i, float value) const
  {
    ortrain_store_any (data, i, dtype, value);
  }
};

/* Types of all operands of a node, for constants. */
struct OrtrainOperandTypes
{
  OrtrainDType inputs[8], outputs[8];
};

static inline void
ortrain_cuda_describe_types (OrtrainOperandTypes *types, const OrtrainKernelSetup *setup)
{
  for (guint i = 0; i < G_N_ELEMENTS (types->inputs); i++)
    types->inputs[i] = i < setup->n_inputs ? setup->inputs[i].dtype : ORTRAIN_DTYPE_UNDEFINED;
  for (guint k = 0; k < G_N_ELEMENTS (types->outputs); k++)
    types->outputs[k] = k < setup->n_outputs ? setup->outputs[k].dtype : ORTRAIN_DTYPE_UNDEFINED;
}

template <typename T>
static inline OrtrainView<T>
ortrain_cuda_view (const void *data, OrtrainDType dtype)
{
  OrtrainView<T> view;
  view.data = (T *) data;
  return view;
}

template <>
inline OrtrainView<OrtrainAny>
ortrain_cuda_view<OrtrainAny> (const void *data, OrtrainDType dtype)
{
  OrtrainView<OrtrainAny> view;
  view.data = (void *) data;
  view.dtype = dtype;
  return view;
}

/* Absent operands have no address. */
template <typename T>
static inline OrtrainView<T>
ortrain_cuda_view_input (const OrtrainKernelCall *call, const OrtrainOperandTypes *types, guint i)
{
  const bool there = i < call->n_inputs && types->inputs[i] != ORTRAIN_DTYPE_UNDEFINED;
  return ortrain_cuda_view<T> (there ? call->inputs[i] : NULL, types->inputs[i]);
}

template <typename T>
static inline OrtrainView<T>
ortrain_cuda_view_output (const OrtrainKernelCall *call, const OrtrainOperandTypes *types, guint k)
{
  const bool there = k < call->n_outputs && types->outputs[k] != ORTRAIN_DTYPE_UNDEFINED;
  return ortrain_cuda_view<T> (there ? call->outputs[k] : NULL, types->outputs[k]);
}

static inline bool
ortrain_cuda_is_aligned (const void *address)
{
  return (gsize) address % 16 == 0;
}

/* Runs the statement with T as the type of the large operands: dtype if all have the same, else OrtrainAny. */
#define ORTRAIN_CUDA_VIEWS(same, dtype, T, ...)                                                                        \
  do                                                                                                                   \
    {                                                                                                                  \
      if (!(same))                                                                                                     \
        {                                                                                                              \
          typedef OrtrainAny T;                                                                                        \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else                                                                                                             \
        ORTRAIN_CUDA_FLOATING (dtype, T, __VA_ARGS__);                                                                 \
    }                                                                                                                  \
  while (0)

/* ---- rows ---- */

#define ORTRAIN_CUDA_MAX_ROW (G_MAXINT32 / 2) /* elements: places within a row are int */

/* Whose row it is: a warp's, of which a block has several, or a block's. */
template <bool WARP> struct OrtrainTeam
{
  __device__ int
  thread (void) const
  {
    return WARP ? (int) (threadIdx.x % 32) : (int) threadIdx.x;
  }

  __device__ int
  n_threads (void) const
  {
    return WARP ? 32 : (int) blockDim.x;
  }

  __device__ gint64
  first_row (void) const
  {
    return WARP ? (gint64) blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
  }

  __device__ gint64
  row_stride (void) const
  {
    return WARP ? (gint64) gridDim.x * (blockDim.x / 32) : gridDim.x;
  }

  /* All threads have the result. scratch: [33], shared; not used by a warp. */
  template <typename Op>
  __device__ float
  reduce (float x, float *scratch) const
  {
    return WARP ? ortrain_warp_reduce<Op> (x) : ortrain_block_reduce<Op> (x, scratch);
  }
};

/* K packs of V elements of a row, by one thread. */
template <typename T, int V, int K> struct OrtrainRowPart
{
  OrtrainPack<typename OrtrainView<T>::Raw, V> packs[K];

  template <bool WARP>
  __device__ void
  load (const OrtrainView<T> &x, gint64 start, int n, OrtrainTeam<WARP> team)
  {
#pragma unroll
    for (int k = 0; k < K; k++)
      {
        const int i = (team.thread () + k * team.n_threads ()) * V;
        if (i < n)
          packs[k] = x.template load<V> (start + i);
      }
  }

  __device__ float
  get (int k, int j) const
  {
    return ortrain_widen (packs[k].at[j]);
  }
};

template <int N> struct OrtrainCount
{
  static constexpr int N_ELEMENTS = N;
};

/* A whole row, however long: calls f (OrtrainCount<V>, OrtrainCount<U>, i, stride) for U packs of V elements at i,
 * i + stride…; counted from the row's beginning. Elements before the first whole pack, and after the last one, come one
 * by one: start, the flat index of the row's first element, need not be a multiple of V. */
template <int V, int U, bool WARP, typename F>
static __device__ __forceinline__ void
ortrain_over_row (gint64 start, int n, OrtrainTeam<WARP> team, F f)
{
  const int thread = team.thread (), n_threads = team.n_threads ();
  int i = thread;
  if (V > 1)
    {
      const int odd = (int) ((guint64) start % V), head = odd == 0 ? 0 : (V - odd < n ? V - odd : n);
      const int packs = (n - head) / V;
      if (thread < head)
        f (OrtrainCount<1> (), OrtrainCount<1> (), thread, 1);
      int p = thread;
      for (; p + (U - 1) * n_threads < packs; p += U * n_threads)
        f (OrtrainCount<V> (), OrtrainCount<U> (), head + p * V, n_threads * V);
      for (; p < packs; p += n_threads)
        f (OrtrainCount<V> (), OrtrainCount<1> (), head + p * V, n_threads * V);
      i = head + packs * V + thread;
    }
  else
    for (; i + (U - 1) * n_threads < n; i += U * n_threads)
      f (OrtrainCount<1> (), OrtrainCount<U> (), i, n_threads);
  for (; i < n; i += n_threads)
    f (OrtrainCount<1> (), OrtrainCount<1> (), i, n_threads);
}

/* The greatest element so far, and the sum of all e^(x - top). A NaN is in the sum. */
struct OrtrainOnline
{
  float top, sum;

  __device__
  OrtrainOnline (void)
      : top (-INFINITY), sum (0)
  {
  }

  static __device__ float
  get_shift (float top)
  {
    return top == -INFINITY ? 0 : top;
  }

  template <int N>
  __device__ void
  add (const float (&x)[N])
  {
    float next = top, part = 0;
#pragma unroll
    for (int j = 0; j < N; j++)
      next = fmaxf (next, x[j]);
    const float shift = get_shift (next);
#pragma unroll
    for (int j = 0; j < N; j++)
      part += expf (x[j] - shift);
    sum = (next == top ? sum : sum * expf (top - shift)) + part;
    top = next;
  }

  /* The sum as it is if top is `all`. */
  __device__ float
  get_sum (float all) const
  {
    return sum * expf (top - get_shift (all));
  }
};

/* Mean and 1/deviation of a row */
struct OrtrainStatistics
{
  float mean, inverse;
};

/* The statistics of a row of any length, by a block; the mean is 0 where the row is not centred. scratch: [33],
 * shared */
template <int V, typename T>
static __device__ OrtrainStatistics
ortrain_row_statistics (OrtrainView<T> x, gint64 start, int n, float epsilon, bool centred, float *scratch)
{
  const OrtrainTeam<false> team = {};
  OrtrainStatistics statistics = { 0, 0 };
  float sum = 0, square = 0;
  if (centred)
    {
      ortrain_over_row<V, 4> (start, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
        OrtrainPack<typename OrtrainView<T>::Raw, N> packs[U];
#pragma unroll
        for (int u = 0; u < U; u++)
          packs[u] = x.template load<N> (start + i + u * stride);
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
          for (int j = 0; j < N; j++)
            sum += ortrain_widen (packs[u].at[j]);
      });
      statistics.mean = ortrain_block_reduce<OrtrainSum> (sum, scratch) / (float) n;
    }
  const float mean = statistics.mean;
  ortrain_over_row<V, 4> (start, n, team, [&] (auto width, auto count, int i, int stride) {
    constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
    OrtrainPack<typename OrtrainView<T>::Raw, N> packs[U];
#pragma unroll
    for (int u = 0; u < U; u++)
      packs[u] = x.template load<N> (start + i + u * stride);
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int j = 0; j < N; j++)
        {
          const float difference = ortrain_widen (packs[u].at[j]) - mean;
          square += difference * difference;
        }
  });
  statistics.inverse = rsqrtf (ortrain_block_reduce<OrtrainSum> (square, scratch) / (float) n + epsilon);
  return statistics;
}

/* The kernel for rows of n. launch.held<V, K, WARP> (grid, block) where they fit in registers: K packs of V elements
 * for each thread, WARP_ELEMENTS of them at most in a warp and BLOCK_ELEMENTS in a block; else launch.streamed<V>
 * (grid, block). aligned: the operands' addresses are multiples of 16; peels: streamed takes rows that begin in the
 * middle of a pack. */
template <int V, int WARP_ELEMENTS, int BLOCK_ELEMENTS, typename Launch>
static inline void
ortrain_cuda_launch_rows_of (const OrtrainKernelCall *call, gint64 rows, gint64 n, const Launch &launch)
{
  constexpr int BLOCK =
      V == 1 && BLOCK_ELEMENTS > 8 ? 8 : BLOCK_ELEMENTS; /* places of single elements take registers */
  const gint64 warps = 4, n_threads = (n + BLOCK - 1) / BLOCK;
  if (n <= 8 * ORTRAIN_CUDA_WARP)
    launch.template held<V, 8 / V, true> (ortrain_cuda_grid (call, rows, warps), warps * ORTRAIN_CUDA_WARP);
  else if (n <= WARP_ELEMENTS * ORTRAIN_CUDA_WARP)
    launch.template held<V, WARP_ELEMENTS / V, true> (ortrain_cuda_grid (call, rows, warps), warps * ORTRAIN_CUDA_WARP);
  else if (n_threads <= 1024)
    launch.template held<V, BLOCK / V, false> (ortrain_cuda_grid (call, rows, 1),
                                               (unsigned) (n_threads + 31) / 32 * 32);
  else
    launch.template streamed<V> (ortrain_cuda_grid (call, rows, 1), 512);
}

template <typename T, int WARP_ELEMENTS, int BLOCK_ELEMENTS, typename Launch>
static inline void
ortrain_cuda_launch_rows (const OrtrainKernelCall *call, gint64 rows, gint64 n, bool aligned, bool peels,
                          const Launch &launch)
{
  constexpr int V = OrtrainView<T>::WIDTH;
  if (aligned && n % V == 0)
    ortrain_cuda_launch_rows_of<V, WARP_ELEMENTS, BLOCK_ELEMENTS> (call, rows, n, launch);
  else if (aligned && peels && n > 1024 * 8)
    launch.template streamed<V> (ortrain_cuda_grid (call, rows, 1), 512);
  else
    ortrain_cuda_launch_rows_of<1, WARP_ELEMENTS, BLOCK_ELEMENTS> (call, rows, n, launch);
}
