/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-operands.h"
#include "cuda/ortrain-cuda-divide.h"

/* For kernels that move elements without a look at them: units of 1 to 16 bytes, and copies by the runtime. */

/* Runs the statement with T as a type of `size` bytes: 1, 2, 4, 8 or 16. */
#define ORTRAIN_CUDA_SIZES(size, T, ...)                                                                               \
  do                                                                                                                   \
    {                                                                                                                  \
      if ((size) == 1)                                                                                                 \
        {                                                                                                              \
          typedef guint8 T;                                                                                            \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else if ((size) == 2)                                                                                            \
        {                                                                                                              \
          typedef guint16 T;                                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else if ((size) == 4)                                                                                            \
        {                                                                                                              \
          typedef guint32 T;                                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else if ((size) == 8)                                                                                            \
        {                                                                                                              \
          typedef guint64 T;                                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else                                                                                                             \
        {                                                                                                              \
          typedef OrtrainPack<guint64, 2> T;                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
  while (0)

/* The largest unit of at most 16 bytes that divides all of the numbers that have been joined with | into bits. */
static inline gsize
ortrain_cuda_unit (guint64 bits)
{
  gsize unit = 16;
  while (unit > 1 && (bits & (unit - 1)) != 0)
    unit /= 2;
  return unit;
}

/* memset, memcpy on the stream. */
static inline void
ortrain_cuda_fill (const OrtrainKernelCall *call, gpointer y, int byte, gsize n_bytes)
{
  cudaError_t code = cudaSuccess;
  if (n_bytes > 0)
    code = cudaMemsetAsync (y, byte, n_bytes, ortrain_cuda_get_stream (call)->stream);
  if (code != cudaSuccess)
    ortrain_cuda_fail (call, "Cannot fill %" G_GSIZE_FORMAT " bytes: %s", n_bytes, cudaGetErrorString (code));
}

static inline void
ortrain_cuda_copy_bytes (const OrtrainKernelCall *call, gconstpointer x, gpointer y, gsize n_bytes)
{
  cudaError_t code = cudaSuccess;
  if (n_bytes > 0 && x != y)
    code = cudaMemcpyAsync (y, x, n_bytes, cudaMemcpyDeviceToDevice, ortrain_cuda_get_stream (call)->stream);
  if (code != cudaSuccess)
    ortrain_cuda_fail (call, "Cannot copy %" G_GSIZE_FORMAT " bytes: %s", n_bytes, cudaGetErrorString (code));
}
