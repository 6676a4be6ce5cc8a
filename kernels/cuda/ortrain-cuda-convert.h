/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-device.h"

#include <type_traits>

/* Converts packs of N 16-bit floats to float32 and back; N is even. A GPU rounds two numbers with one instruction. The
 * results have the same bits as on other providers, except for NaN, whose payload may differ. */

template <int N>
static __device__ __forceinline__ void
ortrain_cuda_widen_half (const OrtrainPack<guint16, N> &x, float (&to)[N])
{
#pragma unroll
  for (int v = 0; v < N; v++)
    {
#if defined(__CUDA_ARCH__)
      asm("cvt.f32.f16 %0, %1;" : "=f"(to[v]) : "h"(x.at[v]));
#else
      to[v] = ortrain_half_to_float (x.at[v]);
#endif
    }
}

/* bfloat16 is widened by a shift, for which no instruction is faster. */
template <int N>
static __device__ __forceinline__ void
ortrain_cuda_widen_bfloat16 (const OrtrainPack<guint16, N> &x, float (&to)[N])
{
#pragma unroll
  for (int v = 0; v < N; v++)
    to[v] = ortrain_bfloat16_to_float (x.at[v]);
}

template <int N>
static __device__ __forceinline__ OrtrainPack<guint16, N>
ortrain_cuda_narrow_half (const float (&x)[N])
{
  OrtrainPack<guint16, N> pack;
#pragma unroll
  for (int v = 0; v < N; v += 2)
    {
#if defined(__CUDA_ARCH__)
      guint32 pair; /* the first number is in the lower half */
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[v + 1]), "f"(x[v]));
      pack.at[v] = (guint16) pair;
      pack.at[v + 1] = (guint16) (pair >> 16);
#else
      pack.at[v] = ortrain_float_to_half (x[v]);
      pack.at[v + 1] = ortrain_float_to_half (x[v + 1]);
#endif
    }
  return pack;
}

template <int N>
static __device__ __forceinline__ OrtrainPack<guint16, N>
ortrain_cuda_narrow_bfloat16 (const float (&x)[N])
{
  OrtrainPack<guint16, N> pack;
#pragma unroll
  for (int v = 0; v < N; v += 2)
    {
#if defined(__CUDA_ARCH__)
      guint32 pair;
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x[v + 1]), "f"(x[v]));
      pack.at[v] = (guint16) pair;
      pack.at[v + 1] = (guint16) (pair >> 16);
#else
      pack.at[v] = ortrain_float_to_bfloat16 (x[v]);
      pack.at[v + 1] = ortrain_float_to_bfloat16 (x[v + 1]);
#endif
    }
  return pack;
}

/* N numbers of a type that is known at compile time, also an odd number of them. */
template <typename T, int N>
static __device__ __forceinline__ OrtrainPack<T, N>
ortrain_cuda_narrow (const float (&x)[N])
{
  OrtrainPack<T, N> pack;
  if constexpr (sizeof (T) == 2 && N % 2 == 0)
    {
      OrtrainPack<guint16, N> bits;
      if constexpr (std::is_same_v<T, OrtrainHalf>)
        bits = ortrain_cuda_narrow_half (x);
      else
        bits = ortrain_cuda_narrow_bfloat16 (x);
#pragma unroll
      for (int v = 0; v < N; v++)
        pack.at[v].bits = bits.at[v];
    }
  else
    {
#pragma unroll
      for (int v = 0; v < N; v++)
        pack.at[v] = ortrain_narrow<T> (x[v]);
    }
  return pack;
}
