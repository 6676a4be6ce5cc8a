/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-device.h"

/* The gradient of a bias: the sum of the rows of a matrix, dy [m, n] with `pitch` from row to row → db [n]. Many blocks
 * sum a range of rows each, with loads of up to 16 bytes, and write partial sums to the workspace; a second kernel adds
 * these up. How rows are cut follows from the shape alone, and so does the order of all sums. */

#define ORTRAIN_CUDA_SUM_ROWS_COLUMNS 256 /* that rows are cut for: those that a block reads of a row in 16 bits */
#define ORTRAIN_CUDA_SUM_ROWS_BLOCKS                                                                                   \
  512 /* wanted, of that many columns: a few for each multiprocessor of a large device */
#define ORTRAIN_CUDA_SUM_ROWS_LEAST 64 /* rows of a block, or partial sums become many */
#define ORTRAIN_CUDA_SUM_ROWS_UNROLL 4

/* Ranges of rows, which is how many rows of partial sums there are. */
static inline gint64
ortrain_cuda_sum_rows_get_n_ranges (gint64 m, gint64 n)
{
  const gint64 tiles = (n + ORTRAIN_CUDA_SUM_ROWS_COLUMNS - 1) / ORTRAIN_CUDA_SUM_ROWS_COLUMNS;
  const gint64 wanted = (ORTRAIN_CUDA_SUM_ROWS_BLOCKS + tiles - 1) / MAX (tiles, 1);
  return CLAMP (wanted, 1, MAX ((m + ORTRAIN_CUDA_SUM_ROWS_LEAST - 1) / ORTRAIN_CUDA_SUM_ROWS_LEAST, 1));
}

static inline gsize
ortrain_cuda_sum_rows_get_workspace_bytes (gint64 m, gint64 n, OrtrainDType dtype)
{
  const gint64 n_ranges = ortrain_cuda_sum_rows_get_n_ranges (m, n);
  return n_ranges == 1 ? 0
                       : (gsize) (n_ranges * n) * (dtype == ORTRAIN_DTYPE_FLOAT64 ? sizeof (double) : sizeof (float));
}

static inline __device__ void
ortrain_cuda_add_sum (void *y, gint64 i, OrtrainDType dtype, float value, bool adds)
{
  ortrain_store_any (y, i, dtype, adds ? value + ortrain_load_any (y, i, dtype) : value);
}

static inline __device__ void
ortrain_cuda_add_sum (void *y, gint64 i, OrtrainDType dtype, double value, bool adds)
{
  ((double *) y)[i] = adds ? value + ((const double *) y)[i] : value;
}

/* A block has 2^log_width threads side by side, each with N columns, and its other threads take turns over the `n_rows`
 * rows of its range. y: [ranges, n], of y_dtype. */
template <typename T, int N>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    sum_rows_kernel (const T *dy, void *y, OrtrainDType y_dtype, gint64 m, gint64 n, gint64 pitch, gint64 n_rows,
                     unsigned log_width, OrtrainAccumulate accumulate)
{
  typedef typename OrtrainWide<T>::Type Wide;
  ORTRAIN_CUDA_SHARED (Wide, partial, ORTRAIN_CUDA_BLOCK * N);
  const unsigned width = 1u << log_width, at = threadIdx.x & (width - 1), turn = threadIdx.x >> log_width;
  const unsigned n_turns = ORTRAIN_CUDA_BLOCK >> log_width;
  const gint64 column = ((gint64) blockIdx.x * width + at) * N;
  const gint64 first = (gint64) blockIdx.y * n_rows, end = first + n_rows < m ? first + n_rows : m;
  Wide sums[N];
#pragma unroll
  for (int j = 0; j < N; j++)
    sums[j] = 0;
  if (column < n) /* rows have `pitch` elements, a multiple of N: no load goes past the last one */
    {
      gint64 row = first + turn;
      for (; row + (ORTRAIN_CUDA_SUM_ROWS_UNROLL - 1) * (gint64) n_turns < end;
           row += ORTRAIN_CUDA_SUM_ROWS_UNROLL * (gint64) n_turns)
        {
          OrtrainPack<T, N> rows[ORTRAIN_CUDA_SUM_ROWS_UNROLL];
#pragma unroll
          for (int k = 0; k < ORTRAIN_CUDA_SUM_ROWS_UNROLL; k++)
            rows[k] = *(const OrtrainPack<T, N> *) (dy + (row + k * (gint64) n_turns) * pitch + column);
#pragma unroll
          for (int k = 0; k < ORTRAIN_CUDA_SUM_ROWS_UNROLL; k++)
#pragma unroll
            for (int j = 0; j < N; j++)
              sums[j] += ortrain_widen (rows[k].at[j]);
        }
      for (; row < end; row += n_turns)
        {
          const OrtrainPack<T, N> x = *(const OrtrainPack<T, N> *) (dy + row * pitch + column);
#pragma unroll
          for (int j = 0; j < N; j++)
            sums[j] += ortrain_widen (x.at[j]);
        }
    }
#pragma unroll
  for (int j = 0; j < N; j++)
    partial[j * ORTRAIN_CUDA_BLOCK + threadIdx.x] = sums[j];
  __syncthreads ();
  /* each thread adds up one column, or a few, over all turns */
  const bool adds = accumulate.is_set ();
  for (unsigned i = threadIdx.x; i < width * N; i += ORTRAIN_CUDA_BLOCK)
    {
      const unsigned j = i >> log_width, of = i & (width - 1);
      const gint64 to = ((gint64) blockIdx.x * width + of) * N + j;
      if (to >= n)
        continue;
      const Wide *of_column = partial + j * ORTRAIN_CUDA_BLOCK + of;
      Wide sum = of_column[0];
      for (unsigned k = 1; k < n_turns; k++)
        sum += of_column[k << log_width];
      ortrain_cuda_add_sum (y, (gint64) blockIdx.y * n + to, y_dtype, sum, adds);
    }
}

#define ORTRAIN_CUDA_SUM_RANGES_WIDTH 32

/* x: [ranges, n] → y: [n]. A block has 32 columns, and its threads take turns over the ranges. */
template <typename Wide>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) sum_ranges_kernel (const Wide *x, void *y, OrtrainDType y_dtype, gint64 n_ranges,
                                                          gint64 n, OrtrainAccumulate accumulate)
{
  ORTRAIN_CUDA_SHARED (Wide, partial, ORTRAIN_CUDA_BLOCK);
  const unsigned at = threadIdx.x % ORTRAIN_CUDA_SUM_RANGES_WIDTH, turn = threadIdx.x / ORTRAIN_CUDA_SUM_RANGES_WIDTH;
  const unsigned n_turns = ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_SUM_RANGES_WIDTH;
  const gint64 column = (gint64) blockIdx.x * ORTRAIN_CUDA_SUM_RANGES_WIDTH + at;
  Wide sum = 0;
#pragma unroll 4
  for (gint64 i = turn; i < n_ranges && column < n; i += n_turns)
    sum += x[i * n + column];
  partial[threadIdx.x] = sum;
  __syncthreads ();
  if (turn > 0 || column >= n)
    return;
  for (unsigned k = 1; k < n_turns; k++)
    sum += partial[k * ORTRAIN_CUDA_SUM_RANGES_WIDTH + at];
  ortrain_cuda_add_sum (y, column, y_dtype, sum, accumulate.is_set ());
}

template <typename T, int N>
static void
ortrain_cuda_launch_sum_rows (const OrtrainKernelCall *call, const T *dy, void *db, OrtrainDType db_dtype, gint64 m,
                              gint64 n, gint64 pitch, OrtrainAccumulate accumulate, void *workspace)
{
  typedef typename OrtrainWide<T>::Type Wide;
  const OrtrainAccumulate never = { false, NULL };
  const OrtrainDType wide = sizeof (Wide) == sizeof (double) ? ORTRAIN_DTYPE_FLOAT64 : ORTRAIN_DTYPE_FLOAT32;
  const gint64 wanted = ortrain_cuda_sum_rows_get_n_ranges (m, n), n_rows = (m + wanted - 1) / wanted;
  const gint64 n_ranges = (m + n_rows - 1) / n_rows; /* some may be empty else */
  const bool is_one = n_ranges == 1;
  unsigned log_width = 0;
  while (log_width < 5 && (gint64) N << log_width < n)
    log_width++;
  const gint64 tile = (gint64) N << log_width;
  ortrain_cuda_launch (call, "sum-rows", dim3 ((unsigned) ((n + tile - 1) / tile), (unsigned) n_ranges),
                       dim3 (ORTRAIN_CUDA_BLOCK), sum_rows_kernel<T, N>, dy, is_one ? db : workspace,
                       is_one ? db_dtype : wide, m, n, pitch, n_rows, log_width, is_one ? accumulate : never);
  if (!is_one)
    ortrain_cuda_launch (call, "sum-ranges",
                         dim3 ((unsigned) ((n + ORTRAIN_CUDA_SUM_RANGES_WIDTH - 1) / ORTRAIN_CUDA_SUM_RANGES_WIDTH)),
                         dim3 (ORTRAIN_CUDA_BLOCK), sum_ranges_kernel<Wide>, (const Wide *) workspace, db, db_dtype,
                         n_ranges, n, accumulate);
}

/* m, n: not 0; pitch: at least n. db: of the type of dy, or float32. workspace:
 * ortrain_cuda_sum_rows_get_workspace_bytes () of the type of dy, aligned to 64. */
template <typename T>
static void
ortrain_cuda_sum_rows (const OrtrainKernelCall *call, const T *dy, void *db, OrtrainDType db_dtype, gint64 m, gint64 n,
                       gint64 pitch, OrtrainAccumulate accumulate, void *workspace)
{
  const guintptr steps = (guintptr) dy | (guintptr) pitch * sizeof (T); /* a divisor of both divides all rows */
  if (steps % 16 == 0)
    ortrain_cuda_launch_sum_rows<T, 16 / sizeof (T)> (call, dy, db, db_dtype, m, n, pitch, accumulate, workspace);
  else if (sizeof (T) < 4 && steps % 4 == 0)
    ortrain_cuda_launch_sum_rows<T, sizeof (T) < 4 ? 4 / sizeof (T) : 1> (call, dy, db, db_dtype, m, n, pitch,
                                                                          accumulate, workspace);
  else
    ortrain_cuda_launch_sum_rows<T, 1> (call, dy, db, db_dtype, m, n, pitch, accumulate, workspace);
}
