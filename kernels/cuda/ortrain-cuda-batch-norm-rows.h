/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-rows.h"

/* Batch normalization of rows of channels, [rows, channels]: statistics, sums and the passes over all elements. A block
 * has neighbouring channels, a pack of them for each lane, and many rows at a time; threads keep what they know of
 * their channels in registers, and go over the rows once. */

/* A unit's mean and Σ (x - mean)²; or Σ dy and Σ dy·(x - mean) */
struct Part
{
  float a, b;
};

/* The numbers of one channel. Forward: y = (x - mean)·a + b; backward: dx = a·(dy - b - (x - mean)·c) */
struct Entry
{
  float mean, a, b, c;
};

struct Shape
{
  gint64 rows, channels, inner, units, rows_per_unit;
};

static __device__ gint64
get_end (const Shape &shape, gint64 unit)
{
  const gint64 end = (unit + 1) * shape.rows_per_unit;
  return end < shape.rows ? end : shape.rows;
}

/* Where Relu follows: its gradient goes through where y = (x - mean)·scale·inverse + bias, in the type of x, is
 * positive. */
struct Mask
{
  OrtrainView<OrtrainAny> scale, inverse, bias; /* [channels]; bias may be absent: there is no Relu */
};

template <typename T>
static __device__ __forceinline__ float
round_as (const OrtrainView<T> &, float value)
{
  return ortrain_widen (ortrain_narrow<T> (value));
}

static __device__ __forceinline__ float
round_as (const OrtrainView<OrtrainAny> &x, float value)
{
  return x.dtype == ORTRAIN_DTYPE_FLOAT16    ? ortrain_half_to_float (ortrain_float_to_half (value))
         : x.dtype == ORTRAIN_DTYPE_BFLOAT16 ? ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (value))
                                             : value;
}

#define ROW_THREADS 256
#define ROWS_TOGETHER 4 /* loads that a thread issues before it uses the first */
#define CHUNK_ROWS 256  /* rows that one block of the element-wise passes covers */

/* How a block's threads lie over rows and channels. */
template <int V> struct RowTile
{
  static constexpr int LANES = V == 1 ? 32 : 8, ROWS = ROW_THREADS / LANES, CHANNELS = LANES * V;
};

static inline gint64
count_row_chunks (gint64 rows)
{
  return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

/* The rows that a thread has of n rows. */
template <int V>
static __device__ int
count_own_rows (gint64 n, int row)
{
  return row < n ? (int) ((n - row + RowTile<V>::ROWS - 1) / RowTile<V>::ROWS) : 0;
}

/* Means and squares of some more rows join those of before, for each of V channels. */
template <typename Pack, int V>
static __device__ __forceinline__ void
add_rows (const Pack (&packs)[ROWS_TOGETHER], int n, int count, float (&mean)[V], float (&square)[V])
{
  const float share = (float) n / (float) (count + n);
#pragma unroll
  for (int j = 0; j < V; j++)
    {
      float sum = 0, own = 0;
#pragma unroll
      for (int i = 0; i < ROWS_TOGETHER; i++)
        sum += i < n ? ortrain_widen (packs[i].at[j]) : 0.0f;
      const float here = sum / (float) n, delta = here - mean[j];
#pragma unroll
      for (int i = 0; i < ROWS_TOGETHER; i++)
        {
          const float difference = i < n ? ortrain_widen (packs[i].at[j]) - here : 0.0f;
          own += difference * difference;
        }
      mean[j] += delta * share;
      square[j] += own + delta * delta * share * (float) count;
    }
}

/* x: [rows, channels]; parts: [channels, units]. V divides channels. */
template <typename T, int V>
static __global__ void
__launch_bounds__ (ROW_THREADS, 2) row_statistics_kernel (Shape shape, OrtrainView<T> x, Part *parts)
{
  typedef RowTile<V> Tile;
  ORTRAIN_CUDA_SHARED (float, means, Tile::ROWS *Tile::CHANNELS);
  ORTRAIN_CUDA_SHARED (float, squares, Tile::ROWS *Tile::CHANNELS);
  const int lane = (int) threadIdx.x % Tile::LANES, own = (int) threadIdx.x / Tile::LANES;
  const gint64 tiles = (shape.channels + Tile::CHANNELS - 1) / Tile::CHANNELS;
  for (gint64 k = blockIdx.x; k < tiles * shape.units; k += gridDim.x)
    {
      const gint64 tile = k / shape.units * Tile::CHANNELS, channel = tile + lane * V, unit = k % shape.units;
      const gint64 first = unit * shape.rows_per_unit, n = get_end (shape, unit) - first;
      const int count = count_own_rows<V> (n, own);
      float mean[V] = {}, square[V] = {};
      for (int done = 0; done < count && channel < shape.channels; done += ROWS_TOGETHER)
        {
          decltype (x.template load<V> (0)) packs[ROWS_TOGETHER];
          const int here = count - done < ROWS_TOGETHER ? count - done : ROWS_TOGETHER;
#pragma unroll
          for (int i = 0; i < ROWS_TOGETHER; i++)
            if (i < here)
              packs[i] =
                  x.template load<V> ((first + own + (gint64) (done + i) * Tile::ROWS) * shape.channels + channel);
          add_rows<decltype (x.template load<V> (0)), V> (packs, here, done, mean, square);
        }
#pragma unroll
      for (int j = 0; j < V; j++)
        {
          means[own * Tile::CHANNELS + lane * V + j] = mean[j];
          squares[own * Tile::CHANNELS + lane * V + j] = square[j];
        }
      __syncthreads ();
      if (threadIdx.x < Tile::CHANNELS && tile + threadIdx.x < shape.channels)
        {
          float all = 0, sum = 0;
          int before = 0;
          for (int r = 0; r < Tile::ROWS; r++)
            {
              const int more = count_own_rows<V> (n, r);
              const float delta = means[r * Tile::CHANNELS + threadIdx.x] - all;
              if (more == 0)
                break;
              const float share = (float) more / (float) (before + more);
              all += delta * share;
              sum += squares[r * Tile::CHANNELS + threadIdx.x] + delta * delta * share * (float) before;
              before += more;
            }
          parts[(tile + threadIdx.x) * shape.units + unit] = Part{ all, sum };
        }
      __syncthreads ();
    }
}

/* dy, x: [rows, channels]; x may be absent where there is no Relu; means: [channels] */
template <typename T, int V, bool RELU>
static __global__ void
__launch_bounds__ (ROW_THREADS, 2) row_sums_kernel (Shape shape, OrtrainView<T> dy, OrtrainView<T> x,
                                                    OrtrainView<OrtrainAny> means, Mask mask, Part *parts)
{
  typedef RowTile<V> Tile;
  ORTRAIN_CUDA_SHARED (float, sums, Tile::ROWS *Tile::CHANNELS);
  ORTRAIN_CUDA_SHARED (float, dots, Tile::ROWS *Tile::CHANNELS);
  const int lane = (int) threadIdx.x % Tile::LANES, own = (int) threadIdx.x / Tile::LANES;
  const gint64 tiles = (shape.channels + Tile::CHANNELS - 1) / Tile::CHANNELS;
  for (gint64 k = blockIdx.x; k < tiles * shape.units; k += gridDim.x)
    {
      const gint64 tile = k / shape.units * Tile::CHANNELS, channel = tile + lane * V, unit = k % shape.units;
      const gint64 first = unit * shape.rows_per_unit, end = get_end (shape, unit);
      float mean[V] = {}, sum[V] = {}, dot[V] = {}, factor[V] = {}, bias[V] = {};
#pragma unroll
      for (int j = 0; j < V; j++)
        {
          mean[j] = x.is_there () && channel < shape.channels ? means.get (channel + j) : 0.0f;
          if (RELU && channel < shape.channels)
            {
              factor[j] = mask.inverse.get (channel + j) * mask.scale.get (channel + j);
              bias[j] = mask.bias.get (channel + j);
            }
        }
#pragma unroll 4
      for (gint64 row = first + own; row < end && channel < shape.channels; row += Tile::ROWS)
        {
          const auto g = dy.template load<V> (row * shape.channels + channel);
          if (!RELU && !x.is_there ())
            {
#pragma unroll
              for (int j = 0; j < V; j++)
                sum[j] += ortrain_widen (g.at[j]);
              continue;
            }
          const auto v = x.template load<V> (row * shape.channels + channel);
#pragma unroll
          for (int j = 0; j < V; j++)
            {
              const float centred = ortrain_widen (v.at[j]) - mean[j];
              const bool passes = !RELU || round_as (x, centred * factor[j] + bias[j]) > 0;
              const float own = passes ? ortrain_widen (g.at[j]) : 0.0f;
              sum[j] += own;
              dot[j] += own * centred;
            }
        }
#pragma unroll
      for (int j = 0; j < V; j++)
        {
          sums[own * Tile::CHANNELS + lane * V + j] = sum[j];
          dots[own * Tile::CHANNELS + lane * V + j] = dot[j];
        }
      __syncthreads ();
      if (threadIdx.x < Tile::CHANNELS && tile + threadIdx.x < shape.channels)
        {
          Part part = { 0, 0 };
          for (int r = 0; r < Tile::ROWS; r++)
            {
              part.a += sums[r * Tile::CHANNELS + threadIdx.x];
              part.b += dots[r * Tile::CHANNELS + threadIdx.x];
            }
          parts[(tile + threadIdx.x) * shape.units + unit] = part;
        }
      __syncthreads ();
    }
}

/* Goes over all elements, chunk by chunk: f (entries of the thread's channels, their biases, index of its pack). bias:
 * read where SHIFTED */
template <int V, bool SHIFTED, typename F>
static __device__ __forceinline__ void
over_rows (const Shape &shape, const Entry *table, const OrtrainView<OrtrainAny> &bias, F f)
{
  typedef RowTile<V> Tile;
  const int lane = (int) threadIdx.x % Tile::LANES, own = (int) threadIdx.x / Tile::LANES;
  const gint64 tiles = (shape.channels + Tile::CHANNELS - 1) / Tile::CHANNELS;
  const gint64 chunks = (shape.rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
  for (gint64 k = blockIdx.x; k < tiles * chunks; k += gridDim.x)
    {
      const gint64 channel = k / chunks * Tile::CHANNELS + lane * V, first = k % chunks * CHUNK_ROWS;
      const gint64 end = first + CHUNK_ROWS < shape.rows ? first + CHUNK_ROWS : shape.rows;
      Entry entries[V];
      float shifts[V] = {};
      if (channel >= shape.channels)
        continue;
#pragma unroll
      for (int j = 0; j < V; j++)
        {
          entries[j] = table[channel + j];
          if (SHIFTED)
            shifts[j] = bias.get (channel + j);
        }
#pragma unroll 2
      for (gint64 row = first + own; row < end; row += Tile::ROWS)
        f (entries, shifts, row * shape.channels + channel);
    }
}

/* x, y: [rows, channels]; y may be x */
template <typename T, int V>
static __global__ void
__launch_bounds__ (ROW_THREADS, 2)
    batch_norm_rows_kernel (Shape shape, OrtrainView<T> x, const Entry *table, OrtrainView<T> y)
{
  const OrtrainView<OrtrainAny> absent = { NULL, ORTRAIN_DTYPE_FLOAT32 };
  over_rows<V, false> (shape, table, absent, [&] (const Entry (&entries)[V], const float (&)[V], gint64 i) {
    const auto pack = x.template load<V> (i);
    float values[V];
#pragma unroll
    for (int j = 0; j < V; j++)
      values[j] = (ortrain_widen (pack.at[j]) - entries[j].mean) * entries[j].a + entries[j].b;
    y.store (i, values);
  });
}

/* dy, x, dx: [rows, channels]; dx may be dy; x is not read where statistics are frozen. */
template <typename T, int V, bool RELU>
static __global__ void
__launch_bounds__ (ROW_THREADS, 2)
    batch_norm_grad_rows_kernel (Shape shape, OrtrainView<T> dy, OrtrainView<T> x, const Entry *table,
                                 OrtrainView<OrtrainAny> bias, bool frozen, OrtrainView<T> dx)
{
  over_rows<V, RELU> (shape, table, bias, [&] (const Entry (&entries)[V], const float (&shifts)[V], gint64 i) {
    const auto g = dy.template load<V> (i);
    float values[V];
    if (frozen)
#pragma unroll
      for (int j = 0; j < V; j++)
        values[j] = ortrain_widen (g.at[j]) * entries[j].a;
    else
      {
        const auto v = x.template load<V> (i);
#pragma unroll
        for (int j = 0; j < V; j++)
          {
            const float centred = ortrain_widen (v.at[j]) - entries[j].mean;
            const bool passes = !RELU || round_as (x, centred * entries[j].a + shifts[j]) > 0;
            values[j] =
                entries[j].a * ((passes ? ortrain_widen (g.at[j]) : 0.0f) - entries[j].b - centred * entries[j].c);
          }
      }
    dx.store (i, values);
  });
}
