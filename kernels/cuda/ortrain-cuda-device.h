/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

#include <cuda_runtime.h>
#include <tuple>

#include "core/ortrain-float-private.h"
#include "core/ortrain-philox-private.h"

/* For kernels in CUDA C++, which nvcc compiles for the device and tests/simt for the host: launching, types of 16 bits,
 * sums within warps and blocks, faults, accumulation. Kernels hold to what both understand: no inline PTX but
 * conversions here and in convert.h, no native arithmetic in 16 bits, shared memory by ORTRAIN_CUDA_SHARED. */

#define ORTRAIN_CUDA_WARP 32
#define ORTRAIN_CUDA_BLOCK 256 /* threads, where nothing speaks for another number */
#define ORTRAIN_CUDA_ALL 0xffffffffu

/* ---- launching ---- */

#if defined(__CUDACC__)
#define ORTRAIN_CUDA_SHARED(type, name, count) __shared__ type name[count]
#else
#define ORTRAIN_CUDA_SHARED(type, name, count) SIMT_SHARED (type, name, count)
#endif

/* A parameter of a kernel that is large: tables with an entry for each of many tensors. All threads read the same one.
 * It has at most ORTRAIN_CUDA_MOST_PARAMETER_BYTES with the others. */
#if defined(__CUDACC__)
#define ORTRAIN_CUDA_LARGE(type) const __grid_constant__ type
#else
#define ORTRAIN_CUDA_LARGE(type) const type &
#endif
#define ORTRAIN_CUDA_MOST_PARAMETER_BYTES 32764

/* An array of a block, as if `type name[count]` were declared for the block: type, name and a constant count.
 * Launching: ortrain_cuda_launch (call, "softmax", grid, block, softmax_kernel<float>, arguments…); Errors of a launch
 * are found by submit. name: tests count launches by it. */
template <typename... P, typename... A>
static inline void
ortrain_cuda_launch (const OrtrainKernelCall *call, const char *name, dim3 grid, dim3 block, void (*kernel) (P...),
                     A... arguments)
{
#if defined(__CUDACC__)
  std::tuple<P...> values (static_cast<P> (arguments)...);
  std::apply (
      [&] (P &...value) {
        void *addresses[] = { (void *) &value..., NULL };
        cudaLaunchKernel ((const void *) kernel, grid, block, addresses, 0, ortrain_cuda_get_stream (call)->stream);
      },
      values);
#else
  const SimtClosure<P...> closure = { kernel, std::tuple<std::decay_t<P>...> (static_cast<P> (arguments)...) };
  simt_launch (ortrain_cuda_get_stream (call)->stream, name, grid, block, simt_invoke<P...>, &closure, sizeof closure);
#endif
}

/* Blocks for a loop over n pieces of work of which a block takes per_block at a time: enough to fill the device a few
 * times over, never more than there is work. */
static inline unsigned
ortrain_cuda_grid (const OrtrainKernelCall *call, gint64 n, gint64 per_block, gint64 per_processor = 16)
{
  const gint64 needed = n <= 0 ? 1 : (n + per_block - 1) / per_block;
  const gint64 most = (gint64) ortrain_cuda_get_n_processors (call) * per_processor;
  return (unsigned) (needed < most ? needed : most);
}

/* for (gint64 i = first; i < n; i += stride) over all threads of a grid of one dimension */
static inline __device__ gint64
ortrain_cuda_first (void)
{
  return (gint64) blockIdx.x * blockDim.x + threadIdx.x;
}

static inline __device__ gint64
ortrain_cuda_stride (void)
{
  return (gint64) gridDim.x * blockDim.x;
}

/* ---- types ---- */

struct OrtrainHalf
{
  guint16 bits;
};

struct OrtrainBfloat16
{
  guint16 bits;
};

/* Where the type is known when a kernel is compiled, a GPU converts by its instructions, which give the bits of
 * core/ortrain-float-private.h, except that the payload of NaN may differ. Where it is known at run time only, as in
 * ortrain_load_any (), those formulas stay: with a conversion for each type side by side, kernels at the limit of their
 * registers spill. */

/* The type that an element is computed in. */
template <typename T> struct OrtrainWide
{
  typedef float Type;
};
template <> struct OrtrainWide<double>
{
  typedef double Type;
};

static inline __host__ __device__ float
ortrain_widen (float x)
{
  return x;
}

static inline __host__ __device__ double
ortrain_widen (double x)
{
  return x;
}

static inline __host__ __device__ float
ortrain_widen (OrtrainHalf x)
{
#if defined(__CUDA_ARCH__)
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return ortrain_half_to_float (x.bits);
#endif
}

static inline __host__ __device__ float
ortrain_widen (OrtrainBfloat16 x)
{
  return ortrain_bfloat16_to_float (x.bits);
}

/* Rounds once, to nearest even. */
template <typename T> static inline __host__ __device__ T ortrain_narrow (typename OrtrainWide<T>::Type x);
template <>
inline __host__ __device__ float
ortrain_narrow<float> (float x)
{
  return x;
}
template <>
inline __host__ __device__ double
ortrain_narrow<double> (double x)
{
  return x;
}
template <>
inline __host__ __device__ OrtrainHalf
ortrain_narrow<OrtrainHalf> (float x)
{
#if defined(__CUDA_ARCH__)
  OrtrainHalf y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  return OrtrainHalf{ ortrain_float_to_half (x) };
#endif
}
template <>
inline __host__ __device__ OrtrainBfloat16
ortrain_narrow<OrtrainBfloat16> (float x)
{
#if defined(__CUDA_ARCH__)
  OrtrainBfloat16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  return OrtrainBfloat16{ ortrain_float_to_bfloat16 (x) };
#endif
}

template <typename T>
static inline __device__ typename OrtrainWide<T>::Type
ortrain_load (const T *x, gint64 i)
{
  return ortrain_widen (x[i]);
}

template <typename T>
static inline __device__ void
ortrain_store (T *y, gint64 i, typename OrtrainWide<T>::Type value)
{
  y[i] = ortrain_narrow<T> (value);
}

/* N elements that are read and written at once: addresses are multiples of their size. */
template <typename T, int N> struct alignas (sizeof (T) * N) OrtrainPack
{
  T at[N];
};

/* Loads an element of an operand whose type is known at run time only: scales, biases, statistics. dtype is one of
 * float32, float16, bfloat16. */
static inline __device__ float
ortrain_load_any (const void *x, gint64 i, OrtrainDType dtype)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    return ((const float *) x)[i];
  const guint16 bits = ((const guint16 *) x)[i];
  return dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (bits) : ortrain_bfloat16_to_float (bits);
}

static inline __device__ void
ortrain_store_any (void *y, gint64 i, OrtrainDType dtype, float value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) y)[i] = value;
  else
    ((guint16 *) y)[i] =
        dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_float_to_half (value) : ortrain_float_to_bfloat16 (value);
}

/* Runs the statement with T as the type of elements: ORTRAIN_CUDA_FLOATING (dtype, T, launch<T> (call);) */
#define ORTRAIN_CUDA_FLOATING(dtype, T, ...)                                                                           \
  do                                                                                                                   \
    {                                                                                                                  \
      if ((dtype) == ORTRAIN_DTYPE_FLOAT32)                                                                            \
        {                                                                                                              \
          typedef float T;                                                                                             \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else if ((dtype) == ORTRAIN_DTYPE_FLOAT16)                                                                       \
        {                                                                                                              \
          typedef OrtrainHalf T;                                                                                       \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else                                                                                                             \
        {                                                                                                              \
          typedef OrtrainBfloat16 T;                                                                                   \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
  while (0)

/* ---- within warps and blocks ---- */

struct OrtrainSum
{
  template <typename T>
  static __device__ T
  combine (T a, T b)
  {
    return a + b;
  }
};

struct OrtrainMax
{
  /* a NaN stays */
  template <typename T>
  static __device__ T
  combine (T a, T b)
  {
    return b > a || b != b ? b : a;
  }
};

struct OrtrainMin
{
  template <typename T>
  static __device__ T
  combine (T a, T b)
  {
    return b < a || b != b ? b : a;
  }
};

/* All lanes have the result; the order of operations is fixed. */
template <typename Op, typename T>
static inline __device__ T
ortrain_warp_reduce (T x)
{
  for (int lanes = 16; lanes > 0; lanes /= 2)
    x = Op::combine (x, __shfl_xor_sync (ORTRAIN_CUDA_ALL, x, lanes));
  return x;
}

/* All threads have the result; blockDim.x is a multiple of 32, and y and z are 1. scratch: [33], shared; free again
 * when it returns. */
template <typename Op, typename T>
static inline __device__ T
ortrain_block_reduce (T x, T *scratch)
{
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
  x = ortrain_warp_reduce<Op> (x);
  if (lane == 0)
    scratch[warp] = x;
  __syncthreads ();
  if (threadIdx.x == 0)
    {
      T all = scratch[0];
      for (unsigned i = 1; i < n_warps; i++)
        all = Op::combine (all, scratch[i]);
      scratch[32] = all;
    }
  __syncthreads ();
  const T all = scratch[32];
  __syncthreads ();
  return all;
}

/* ---- what a call needs on the device ---- */

/* Whether output k is added to the contents of its memory: known at once, or said by the step block. */
struct OrtrainAccumulate
{
  bool always;
  const guint32 *if_gradients; /* in the memory of the device; NULL: no gradient */

  __device__ bool
  is_set (void) const
  {
    return always || (if_gradients != NULL && *if_gradients != 0);
  }
};

static inline OrtrainAccumulate
ortrain_cuda_get_accumulate (const OrtrainKernelCall *call, guint output)
{
  OrtrainAccumulate accumulate;
  accumulate.always = call->accumulates >> output & 1;
  accumulate.if_gradients = call->gradients >> output & 1 ? &call->context->step->accumulate_gradients : NULL;
  return accumulate;
}

/* Where a kernel reports an index out of range and the like. */
struct OrtrainFaultPlace
{
  OrtrainFault *fault;
  guint32 step;

  /* The first one stays. */
  __device__ void
  report (OrtrainFaultCode code, gint64 position, gint64 value, gint64 limit) const
  {
    if (atomicCAS ((int *) &fault->code, (int) ORTRAIN_FAULT_NONE, (int) code) != (int) ORTRAIN_FAULT_NONE)
      return;
    fault->step = step;
    fault->position = position;
    fault->value = value;
    fault->limit = limit;
  }
};

static inline OrtrainFaultPlace
ortrain_cuda_get_fault (const OrtrainKernelCall *call)
{
  OrtrainFaultPlace place;
  place.fault = call->context->fault;
  place.step = call->plan_step;
  return place;
}

/* The key of a call's random numbers, as the CPU has it. */
static inline __device__ OrtrainPhiloxKey
ortrain_cuda_philox_key (const OrtrainStepBlock *step, guint32 node_number)
{
  OrtrainPhiloxKey key;
  key.seed = step->seed;
  key.step = step->step;
  key.node = node_number;
  return key;
}
