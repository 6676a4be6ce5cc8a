/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-copy-plan.h"
#include "cuda/ortrain-cuda-units.h"

/* Copy plans on the device. Elements are units of 1 to 16 bytes: where runs and addresses allow it, several elements of
 * a tensor are one. Transposed matrices go through shared memory, all else element by element in the order of the
 * output. */

/* ---- element by element ---- */

/* A plan as a kernel reads it, from the innermost dimension outwards; strides in units. */
struct OrtrainCudaCopy
{
  guint rank;
  gint64 n;
  OrtrainDivisor dims[ORTRAIN_COPY_MAX_RANK];
  gint64 in_strides[ORTRAIN_COPY_MAX_RANK], out_strides[ORTRAIN_COPY_MAX_RANK];
};

#define ORTRAIN_CUDA_COPY_UNROLL 4

/* x, y: at their offsets; a thread reads several elements before it writes them. NULL x: zeros */
template <typename T, bool Small>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) ortrain_cuda_copy_kernel (const OrtrainCudaCopy copy, const T *x, T *y)
{
  const gint64 stride = ortrain_cuda_stride ();
  for (gint64 first = ortrain_cuda_first (); first < copy.n; first += ORTRAIN_CUDA_COPY_UNROLL * stride)
    {
      T values[ORTRAIN_CUDA_COPY_UNROLL];
      gint64 to[ORTRAIN_CUDA_COPY_UNROLL];
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_COPY_UNROLL; k++)
        {
          gint64 rest = first + k * stride, from = 0;
          to[k] = -1;
          if (rest >= copy.n)
            continue;
          gint64 at = 0;
          for (guint d = 0; d + 1 < copy.rank; d++)
            {
              gint64 index = rest;
              rest = ortrain_divide_rest<Small> (index, copy.dims[d]);
              from += index * copy.in_strides[d];
              at += index * copy.out_strides[d];
            }
          from += rest * copy.in_strides[copy.rank - 1];
          to[k] = at + rest * copy.out_strides[copy.rank - 1];
          values[k] = x[from];
        }
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_COPY_UNROLL; k++)
        if (first + k * stride < copy.n)
          y[to[k]] = values[k];
    }
}

/* ---- transposed matrices ---- */

#define ORTRAIN_CUDA_TILE 32
#define ORTRAIN_CUDA_TILE_ROWS 8

/* outer matrices: row r, column c is at r + c · in_column of the input, r · out_row + c of the output; columns are the
 * innermost dimension of the output. */
struct OrtrainCudaTranspose
{
  gint64 rows, columns, in_column, out_row, n_tiles;
  OrtrainDivisor row_tiles, column_tiles;
  OrtrainCudaCopy outer; /* n: number of matrices */
};

template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_TILE *ORTRAIN_CUDA_TILE_ROWS)
    ortrain_cuda_transpose_kernel (const OrtrainCudaTranspose transpose, const T *x, T *y)
{
  ORTRAIN_CUDA_SHARED (T, tile, ORTRAIN_CUDA_TILE * (ORTRAIN_CUDA_TILE + 1));
  for (gint64 item = blockIdx.x; item < transpose.n_tiles; item += gridDim.x)
    {
      /* once for each tile: divisions of 64 bits take little time compared with it */
      gint64 column_tile = item, from = 0, to = 0;
      gint64 rest = ortrain_divide_rest<false> (column_tile, transpose.column_tiles);
      gint64 row_tile = rest;
      rest = ortrain_divide_rest<false> (row_tile, transpose.row_tiles);
      for (guint d = 0; d < transpose.outer.rank; d++)
        {
          gint64 index = rest;
          rest = ortrain_divide_rest<false> (index, transpose.outer.dims[d]);
          from += index * transpose.outer.in_strides[d];
          to += index * transpose.outer.out_strides[d];
        }
      const gint64 row = row_tile * ORTRAIN_CUDA_TILE, column = column_tile * ORTRAIN_CUDA_TILE;
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_TILE; k += ORTRAIN_CUDA_TILE_ROWS)
        {
          const gint64 r = row + threadIdx.x, c = column + threadIdx.y + k;
          if (r < transpose.rows && c < transpose.columns)
            tile[(threadIdx.y + k) * (ORTRAIN_CUDA_TILE + 1) + threadIdx.x] = x[from + r + c * transpose.in_column];
        }
      __syncthreads ();
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_TILE; k += ORTRAIN_CUDA_TILE_ROWS)
        {
          const gint64 r = row + threadIdx.y + k, c = column + threadIdx.x;
          if (r < transpose.rows && c < transpose.columns)
            y[to + r * transpose.out_row + c] = tile[threadIdx.x * (ORTRAIN_CUDA_TILE + 1) + threadIdx.y + k];
        }
      __syncthreads ();
    }
}

/* ---- launching ---- */

template <typename T>
static void
ortrain_cuda_launch_transpose (const OrtrainKernelCall *call, const OrtrainCopyPlan *plan, const T *x, T *y)
{
  const guint last = plan->rank - 1, crossed = (guint) plan->crossed;
  OrtrainCudaTranspose transpose = {};
  transpose.rows = plan->dims[crossed];
  transpose.columns = plan->dims[last];
  transpose.in_column = plan->in_strides[last];
  transpose.out_row = plan->out_strides[crossed];
  const gint64 row_tiles = (transpose.rows + ORTRAIN_CUDA_TILE - 1) / ORTRAIN_CUDA_TILE;
  const gint64 column_tiles = (transpose.columns + ORTRAIN_CUDA_TILE - 1) / ORTRAIN_CUDA_TILE;
  transpose.row_tiles = ortrain_divisor (row_tiles);
  transpose.column_tiles = ortrain_divisor (column_tiles);
  transpose.n_tiles = row_tiles * column_tiles;
  for (guint d = last; d-- > 0;)
    if (d != crossed)
      {
        const guint k = transpose.outer.rank++;
        transpose.outer.dims[k] = ortrain_divisor (plan->dims[d]);
        transpose.outer.in_strides[k] = plan->in_strides[d];
        transpose.outer.out_strides[k] = plan->out_strides[d];
        transpose.n_tiles *= plan->dims[d];
      }
  ortrain_cuda_launch (call, "transpose", ortrain_cuda_grid (call, transpose.n_tiles, 1, 64),
                       dim3 (ORTRAIN_CUDA_TILE, ORTRAIN_CUDA_TILE_ROWS), ortrain_cuda_transpose_kernel<T>, transpose, x,
                       y);
}

/* As many elements as there are together in innermost runs become one unit. */
static inline OrtrainCudaCopy
ortrain_cuda_copy_from_plan (const OrtrainCopyPlan *plan, gconstpointer x, gpointer y, gsize *unit)
{
  const guint last = plan->rank - 1;
  OrtrainCudaCopy copy = {};
  *unit = plan->size;
  if (plan->in_strides[last] == 1 && plan->out_strides[last] == 1 && plan->size < 16)
    {
      guint64 bits = (guint64) (gsize) x | (guint64) (gsize) y | (guint64) plan->dims[last] * plan->size;
      for (guint d = 0; d < last; d++)
        bits |= ((guint64) plan->in_strides[d] | (guint64) plan->out_strides[d]) * plan->size;
      *unit = ortrain_cuda_unit (bits);
    }
  const gint64 elements = (gint64) (*unit / plan->size);
  copy.rank = plan->rank;
  copy.n = plan->n_elements / elements;
  for (guint d = 0; d < plan->rank; d++)
    {
      const guint k = last - d;
      copy.dims[k] = ortrain_divisor (d == last ? plan->dims[d] / elements : plan->dims[d]);
      copy.in_strides[k] = d == last ? plan->in_strides[d] : plan->in_strides[d] / elements;
      copy.out_strides[k] = d == last ? plan->out_strides[d] : plan->out_strides[d] / elements;
    }
  return copy;
}

/* in, out: as the operator has them, before the offsets of the plan. */
static inline void
ortrain_cuda_copy_run (const OrtrainKernelCall *call, const OrtrainCopyPlan *plan, gconstpointer in, gpointer out)
{
  if (plan->n_elements == 0)
    return;
  const guint8 *x = (const guint8 *) in + plan->in_offset * (gint64) plan->size;
  guint8 *y = (guint8 *) out + plan->out_offset * (gint64) plan->size;
  if (plan->rank == 1 && plan->in_strides[0] == 1 && plan->out_strides[0] == 1)
    {
      ortrain_cuda_copy_bytes (call, x, y, (gsize) plan->n_elements * plan->size);
      return;
    }
  if (plan->crossed >= 0)
    {
      ORTRAIN_CUDA_SIZES (plan->size, T, ortrain_cuda_launch_transpose<T> (call, plan, (const T *) x, (T *) y););
      return;
    }
  gsize unit;
  const OrtrainCudaCopy copy = ortrain_cuda_copy_from_plan (plan, x, y, &unit);
  const dim3 grid = ortrain_cuda_grid (call, copy.n, ORTRAIN_CUDA_BLOCK * ORTRAIN_CUDA_COPY_UNROLL);
  ORTRAIN_CUDA_SIZES (unit, T, {
    if (copy.n <= G_MAXINT32 - 1)
      ortrain_cuda_launch (call, "copy", grid, ORTRAIN_CUDA_BLOCK, ortrain_cuda_copy_kernel<T, true>, copy,
                           (const T *) x, (T *) y);
    else
      ortrain_cuda_launch (call, "copy", grid, ORTRAIN_CUDA_BLOCK, ortrain_cuda_copy_kernel<T, false>, copy,
                           (const T *) x, (T *) y);
  });
}
