/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-device.h"

/* The gradient of a bias: the sum of the rows of a matrix. */

/* dy: [m, n], `pitch` from row to row → db: [n]. A block has 32 columns and 16 threads for each, which take turns over the rows. */
#define ORTRAIN_CUDA_SUM_ROWS 16

template <typename T, typename Result>
static __global__ void __launch_bounds__ (32 * ORTRAIN_CUDA_SUM_ROWS)
    sum_rows_kernel (const T *dy, Result *db, gint64 m, gint64 n, gint64 pitch, OrtrainAccumulate accumulate)
{
  typedef typename OrtrainWide<T>::Type Wide;
  ORTRAIN_CUDA_SHARED (Wide, partial, 32 * ORTRAIN_CUDA_SUM_ROWS);
  const gint64 column = (gint64) blockIdx.x * 32 + threadIdx.x;
  Wide sum = 0;
  for (gint64 row = threadIdx.y; row < m && column < n; row += ORTRAIN_CUDA_SUM_ROWS)
    sum += ortrain_load (dy, row * pitch + column);
  partial[threadIdx.y * 32 + threadIdx.x] = sum;
  __syncthreads ();
  if (threadIdx.y == 0 && column < n)
    {
      for (int i = 1; i < ORTRAIN_CUDA_SUM_ROWS; i++)
        sum += partial[i * 32 + threadIdx.x];
      if (accumulate.is_set ())
        sum += (Wide) ortrain_load (db, column);
      ortrain_store (db, column, sum);
    }
}

template <typename T, typename Result>
static void
ortrain_cuda_sum_rows (const OrtrainKernelCall *call, const T *dy, Result *db, gint64 m, gint64 n, gint64 pitch,
                       OrtrainAccumulate accumulate)
{
  ortrain_cuda_launch (call, "sum-rows", dim3 ((unsigned) ((n + 31) / 32)), dim3 (32, ORTRAIN_CUDA_SUM_ROWS),
                       sum_rows_kernel<T, Result>, dy, db, m, n, pitch, accumulate);
}
