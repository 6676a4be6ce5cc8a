/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* CUDA's language as host C++: the blocks of a grid run one after the other, the threads of a block as fibers, in an
 * order that is chosen at run time (see fake-cuda.h). Barriers and exchanges within a warp are points where fibers
 * wait; threads that miss one that others wait at are an error. Shared memory is allocated for each block, in its exact
 * size, and filled with NaN. The race detector in race/ is ThreadSanitizer, to which every fiber is a thread, and a
 * barrier or an exchange an order among those that wait at it: where one is missing there is a race. */

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__ ((aligned (n)))

struct uint3
{
  unsigned x, y, z;
};

struct dim3
{
  unsigned x, y, z;
  constexpr
  dim3 (unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x (x), y (y), z (z)
  {
  }
};

#define SIMT_TLS extern thread_local __attribute__ ((tls_model ("initial-exec"), visibility ("default")))
SIMT_TLS uint3 threadIdx, blockIdx;
SIMT_TLS dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

typedef struct OrtrainFakeStream *SimtStream;
typedef void (*SimtInvoke) (const void *closure);

extern "C"
{
  /* Queues a grid on a stream; the closure's bytes are copied. 0, or a cudaError_t. */
  int simt_launch (SimtStream stream, const char *name, dim3 grid, dim3 block, SimtInvoke invoke, const void *closure,
                   size_t n_bytes);
  /* The array of a block that belongs to a declaration: the first thread that comes gets it made. */
  void *simt_shared (const void *declaration, size_t n_bytes, size_t alignment);
  void simt_barrier (void);
  /* For the race detector: the thread has come to a fence. */
  void simt_fence (void);
  int simt_has_fenced (void);
  /* Waits for the lanes of the mask, and returns the value that each has brought: [32], of those in the mask. */
  const uint64_t *simt_exchange (unsigned mask, uint64_t value);
}

/* Shared memory of a kernel: every thread of a block finds it again by the declaration. */
#define SIMT_SHARED(type, name, count)                                                                                 \
  static const char name##_declaration = 0;                                                                            \
  type *name = (type *) simt_shared (&name##_declaration, sizeof (type) * (count), alignof (type))

static inline void
__syncthreads (void)
{
  simt_barrier ();
}

static inline int
simt_lane (void)
{
  return (int) ((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

template <typename T>
static inline uint64_t
simt_pack (T value)
{
  static_assert (sizeof (T) <= 8, "exchanged values have 8 bytes at most");
  uint64_t bits = 0;
  memcpy (&bits, &value, sizeof value);
  return bits;
}

template <typename T>
static inline T
simt_unpack (uint64_t bits)
{
  T value;
  memcpy (&value, &bits, sizeof value);
  return value;
}

template <typename T>
static inline T
simt_shuffle (unsigned mask, T value, int source, int width)
{
  const int lane = simt_lane (), base = lane / width * width;
  const uint64_t *all = simt_exchange (mask, simt_pack (value));
  return source < base || source >= base + width || !(mask >> source & 1) ? value : simt_unpack<T> (all[source]);
}

template <typename T>
static inline T
__shfl_sync (unsigned mask, T value, int source, int width = 32)
{
  return simt_shuffle (mask, value, simt_lane () / width * width + source % width, width);
}

template <typename T>
static inline T
__shfl_xor_sync (unsigned mask, T value, int lanes, int width = 32)
{
  return simt_shuffle (mask, value, simt_lane () ^ lanes, width);
}

template <typename T>
static inline T
__shfl_down_sync (unsigned mask, T value, unsigned by, int width = 32)
{
  return simt_shuffle (mask, value, simt_lane () + (int) by, width);
}

template <typename T>
static inline T
__shfl_up_sync (unsigned mask, T value, unsigned by, int width = 32)
{
  return simt_shuffle (mask, value, simt_lane () - (int) by, width);
}

static inline void
__syncwarp (unsigned mask = 0xffffffffu)
{
  simt_exchange (mask, 0);
}

static inline unsigned
__ballot_sync (unsigned mask, int predicate)
{
  const uint64_t *all = simt_exchange (mask, predicate != 0);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; lane++)
    bits |= mask >> lane & 1 ? (unsigned) all[lane] << lane : 0;
  return bits;
}

static inline int
__any_sync (unsigned mask, int predicate)
{
  return __ballot_sync (mask, predicate) != 0;
}

static inline int
__all_sync (unsigned mask, int predicate)
{
  return __ballot_sync (mask, predicate) == mask;
}

/* ThreadSanitizer knows no fences. For it, additions after a fence order the values that were written before the
 * fence. */
static inline void
__threadfence (void)
{
#if defined(__SANITIZE_THREAD__)
  simt_fence ();
#else
  __atomic_thread_fence (__ATOMIC_SEQ_CST);
#endif
}

static inline void
__threadfence_block (void)
{
}

/* Puts `next` there, if the value there is still *old; else *old becomes the value there. */
template <typename T>
static inline bool
simt_replace (T *address, T *old, T *next)
{
#if defined(__SANITIZE_THREAD__)
  if (simt_has_fenced ())
    return __atomic_compare_exchange (address, old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
#endif
  return __atomic_compare_exchange (address, old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Blocks of several streams run at the same time. */
template <typename T>
static inline T
atomicAdd (T *address, T value)
{
  T old, next;
  __atomic_load (address, &old, __ATOMIC_RELAXED);
  do
    next = old + value;
  while (!simt_replace (address, &old, &next));
  return old;
}

template <typename T>
static inline T
atomicMax (T *address, T value)
{
  T old, next;
  __atomic_load (address, &old, __ATOMIC_RELAXED);
  do
    next = old > value ? old : value;
  while (!simt_replace (address, &old, &next));
  return old;
}

template <typename T>
static inline T
atomicMin (T *address, T value)
{
  T old, next;
  __atomic_load (address, &old, __ATOMIC_RELAXED);
  do
    next = old < value ? old : value;
  while (!simt_replace (address, &old, &next));
  return old;
}

template <typename T>
static inline T
atomicOr (T *address, T value)
{
  return __atomic_fetch_or (address, value, __ATOMIC_RELAXED);
}

template <typename T>
static inline T
atomicExch (T *address, T value)
{
  T old;
  __atomic_exchange (address, &value, &old, __ATOMIC_RELAXED);
  return old;
}

template <typename T>
static inline T
atomicCAS (T *address, T compare, T value)
{
  __atomic_compare_exchange_n (address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}

template <typename T>
static inline T
__ldg (const T *address)
{
  return *address;
}

template <typename T>
static inline T
__ldcg (const T *address)
{
  return *address;
}

static inline float
rsqrtf (float x)
{
  return 1.0f / sqrtf (x);
}

static inline double
rsqrt (double x)
{
  return 1.0 / sqrt (x);
}

static inline int
__popc (unsigned x)
{
  return __builtin_popcount (x);
}

static inline int
__ffs (int x)
{
  return __builtin_ffs (x);
}

static inline unsigned
__umulhi (unsigned a, unsigned b)
{
  return (unsigned) ((uint64_t) a * b >> 32);
}

template <typename... P> struct SimtClosure
{
  void (*kernel) (P...);
  std::tuple<std::decay_t<P>...> arguments;
};

template <typename... P>
static void
simt_invoke (const void *data)
{
  const auto *closure = (const SimtClosure<P...> *) data;
  std::apply (closure->kernel, closure->arguments);
}
