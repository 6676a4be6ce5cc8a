/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

#include "cuda/ortrain-cuda-attention-private.h"

#include <math.h>

/* Attention without a matrix of scores, in float32. A block owns TILE rows of one side (queries, or keys in the gradients
 * of keys and values) and takes SIDE rows of the other at a time; a thread computes 4 · 4 of their scores, and 4 · 8
 * elements of what is summed. Widths are taken CHUNK columns at a time; results wider than that are computed by several
 * blocks, each of which makes the scores anew. All sums are in the order of rows: nothing is added from two blocks. */

#define TILE 64
#define SIDE 32
#define CHUNK 64
#define THREADS 128

typedef OrtrainPack<float, 4> Quad;

/* What a block works on, from its number. */
struct Place
{
  gint64 batch, head, first, column; /* first row, first column of the result */

  __device__
  Place (const OrtrainCudaAttention &attention, gint64 n_rows, gint64 width)
  {
    const gint64 chunks = (width + CHUNK - 1) / CHUNK, tiles = (n_rows + TILE - 1) / TILE;
    gint64 i = blockIdx.x;
    column = i % chunks * CHUNK;
    i /= chunks;
    first = i % tiles * TILE;
    i /= tiles;
    head = i % attention.heads;
    batch = i / attention.heads;
  }

  __device__ gint64
  base (const OrtrainCudaAttentionSide &side) const
  {
    return batch * side.batch_step + head * side.head_step;
  }
};

/* Rows [first, first + ROWS) and columns [column, column + CHUNK) as [column][row]; zeros beyond the end. */
template <int ROWS>
static __device__ void
load_turned (float *tile, const void *x, const OrtrainCudaAttentionSide &side, gint64 base, gint64 first, gint64 end,
             gint64 column)
{
  for (int i = (int) threadIdx.x; i < ROWS * CHUNK; i += THREADS)
    {
      const gint64 row = first + i % ROWS, at = column + i / ROWS;
      tile[i] = row < end && at < side.width ? ortrain_load_any (x, base + row * side.pitch + at, side.dtype) : 0.0f;
    }
}

/* The same as [row][column]. */
static __device__ void
load_rows (float *tile, const void *x, const OrtrainCudaAttentionSide &side, gint64 base, gint64 first, gint64 end,
           gint64 column)
{
  for (int i = (int) threadIdx.x; i < SIDE * CHUNK; i += THREADS)
    {
      const gint64 row = first + i / CHUNK, at = column + i % CHUNK;
      tile[i] = row < end && at < side.width ? ortrain_load_any (x, base + row * side.pitch + at, side.dtype) : 0.0f;
    }
}

static __device__ int
my_row (void)
{
  return (int) threadIdx.x / 8 * 4;
}

static __device__ int
my_column (void)
{
  return (int) threadIdx.x % 8 * 4;
}

/* s [4 rows][4 columns] += a [CHUNK][TILE]ᵀ · b [CHUNK][SIDE] */
static __device__ void
add_scores (float (&s)[4][4], const float *a, const float *b)
{
#pragma unroll 4
  for (int d = 0; d < CHUNK; d++)
    {
      const Quad x = *(const Quad *) (a + d * TILE + my_row ()), y = *(const Quad *) (b + d * SIDE + my_column ());
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          s[i][j] += x.at[i] * y.at[j];
    }
}

/* Of all columns. own [CHUNK][TILE] holds its only chunk already where the width has one. */
static __device__ void
make_scores (float (&s)[4][4], float *own, float *other, const void *x, const OrtrainCudaAttentionSide &x_side,
             gint64 x_base, gint64 x_first, gint64 x_end, const void *y, const OrtrainCudaAttentionSide &y_side,
             gint64 y_base, gint64 y_first, gint64 y_end)
{
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      s[i][j] = 0;
  for (gint64 column = 0; column < x_side.width; column += CHUNK)
    {
      __syncthreads ();
      if (x_side.width > CHUNK)
        load_turned<TILE> (own, x, x_side, x_base, x_first, x_end, column);
      load_turned<SIDE> (other, y, y_side, y_base, y_first, y_end, column);
      __syncthreads ();
      add_scores (s, own, other);
    }
}

/* turned [SIDE][TILE] = sᵀ */
static __device__ void
store_turned (float *turned, const float (&s)[4][4])
{
#pragma unroll
  for (int j = 0; j < 4; j++)
    {
      Quad column;
#pragma unroll
      for (int i = 0; i < 4; i++)
        column.at[i] = s[i][j];
      *(Quad *) (turned + (my_column () + j) * TILE + my_row ()) = column;
    }
}

/* o [4 rows][8 columns: 4 and, 32 further, 4] += turned [SIDE][TILE]ᵀ · b [SIDE][CHUNK] */
static __device__ void
add_product (float (&o)[4][8], const float *turned, const float *b)
{
#pragma unroll 4
  for (int k = 0; k < SIDE; k++)
    {
      const Quad x = *(const Quad *) (turned + k * TILE + my_row ());
      const Quad y = *(const Quad *) (b + k * CHUNK + my_column ());
      const Quad z = *(const Quad *) (b + k * CHUNK + 32 + my_column ());
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          {
            o[i][j] += x.at[i] * y.at[j];
            o[i][4 + j] += x.at[i] * z.at[j];
          }
    }
}

static __device__ void
store_product (void *y, const OrtrainCudaAttentionSide &side, gint64 base, gint64 first, gint64 end, gint64 column,
               const float (&o)[4][8], const float (&factor)[4])
{
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 8; j++)
      {
        const gint64 row = first + my_row () + i, at = column + my_column () + (j < 4 ? j : 28 + j);
        if (row < end && at < side.width)
          ortrain_store_any (y, base + row * side.pitch + at, side.dtype, factor[i] == 0 ? 0.0f : o[i][j] * factor[i]);
      }
}

/* What the mask adds to a score; sets *open where it lets the key through. */
static __device__ float
read_mask (const OrtrainCudaAttention &attention, const void *mask, const Place &place, gint64 row, gint64 key,
           bool *open)
{
  const gint64 at = place.batch * attention.mask_batch + place.head * attention.mask_head + row * attention.mask_row +
                    key * attention.mask_key;
  if (attention.mask_kind == ORTRAIN_CUDA_MASK_BOOL)
    {
      const bool is_open = ((const guint8 *) mask)[at] != 0;
      *open = *open || is_open;
      return is_open ? 0.0f : attention.masked_value;
    }
  const float value =
      attention.mask_kind == ORTRAIN_CUDA_MASK_ADD ? ortrain_load_any (mask, at, attention.mask_dtype) : 0.0f;
  *open = *open || !(value == -INFINITY);
  return value;
}

/* Whether a score counts at all. */
static __device__ bool
is_seen (const OrtrainCudaAttention &attention, gint64 row, gint64 key)
{
  return row < attention.n_queries && key < attention.n_keys &&
         (attention.mask_kind != ORTRAIN_CUDA_MASK_CAUSAL || key <= row + attention.diagonal);
}

/* The keys that rows of a tile see end here. */
static __device__ gint64
find_end (const OrtrainCudaAttention &attention, gint64 first)
{
  const gint64 end = first + TILE + attention.diagonal;
  return attention.mask_kind == ORTRAIN_CUDA_MASK_CAUSAL && end < attention.n_keys ? end : attention.n_keys;
}

static __device__ float
row_max (float x)
{
  for (int lanes = 4; lanes > 0; lanes /= 2)
    x = OrtrainMax::combine (x, __shfl_xor_sync (ORTRAIN_CUDA_ALL, x, lanes, 8));
  return x;
}

static __device__ float
row_sum (float x)
{
  for (int lanes = 4; lanes > 0; lanes /= 2)
    x += __shfl_xor_sync (ORTRAIN_CUDA_ALL, x, lanes, 8);
  return x;
}

/* One step of the softmax whose keys come piece by piece: s become exponentials, against the largest so far. */
static __device__ void
soften (const OrtrainCudaAttention &attention, const void *mask, const Place &place, gint64 key, float (&s)[4][4],
        float (&top)[4], float (&sum)[4], float (&o)[4][8], bool (&open)[4])
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      float most = top[i];
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (is_seen (attention, row, key + my_column () + j))
          {
            s[i][j] =
                s[i][j] * attention.scale + read_mask (attention, mask, place, row, key + my_column () + j, &open[i]);
            most = OrtrainMax::combine (most, s[i][j]);
          }
      most = row_max (most);
      const bool none = most == -INFINITY; /* so far */
      const float factor = none ? 1.0f : expf (top[i] - most);
      float added = 0;
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          s[i][j] = none || !is_seen (attention, row, key + my_column () + j) ? 0.0f : expf (s[i][j] - most);
          added += s[i][j];
        }
      top[i] = most;
      sum[i] = sum[i] * factor + added;
#pragma unroll
      for (int j = 0; j < 8; j++)
        o[i][j] *= factor;
    }
}

/* Whether it is so in any thread of the block. scratch: [THREADS / 32], shared. */
static __device__ bool
any_thread (bool is, float *scratch)
{
  const bool in_warp = __any_sync (ORTRAIN_CUDA_ALL, is) != 0;
  if (threadIdx.x % ORTRAIN_CUDA_WARP == 0)
    scratch[threadIdx.x / ORTRAIN_CUDA_WARP] = in_warp;
  __syncthreads ();
  bool all = false;
  for (int i = 0; i < THREADS / ORTRAIN_CUDA_WARP; i++)
    all = all || scratch[i] != 0;
  return all;
}

/* Whether none of the rows [first, end) is to be computed. scratch: [THREADS / 32], shared. */
static __device__ bool
is_skipped (const OrtrainCudaAttention &attention, const Place &place, gint64 first, gint64 end, float *scratch)
{
  if (attention.rows == NULL)
    return false;
  const guint8 *rows = attention.rows + place.batch * attention.rows_batch + place.head * attention.rows_head;
  bool is_blind = false;
  for (gint64 row = first + threadIdx.x; row < end && row < attention.n_queries; row += THREADS)
    is_blind = is_blind || rows[row] == ORTRAIN_CUDA_SIGHT_BLIND;
  is_blind = any_thread (is_blind, scratch);
  __syncthreads ();
  return !is_blind;
}

static __global__ void
__launch_bounds__ (THREADS) attention_forward_kernel (OrtrainCudaAttention attention, const void *q, const void *k,
                                                      const void *v, const void *mask, void *y, void *lse)
{
  ORTRAIN_CUDA_SHARED (Quad, q_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, turned_quads, SIDE * TILE / 4);
  float *own = (float *) q_quads, *side = (float *) side_quads, *turned = (float *) turned_quads;
  const Place place (attention, attention.n_queries, attention.v.width);
  const gint64 end = find_end (attention, place.first), q_base = place.base (attention.q);
  float s[4][4], o[4][8] = { { 0 } }, top[4], sum[4] = { 0 };
  bool open[4] = { false };
  for (int i = 0; i < 4; i++)
    top[i] = -INFINITY;
  if (is_skipped (attention, place, place.first, place.first + TILE, turned))
    return;
  load_turned<TILE> (own, q, attention.q, q_base, place.first, attention.n_queries, 0);
  for (gint64 key = 0; key < end; key += SIDE)
    {
      make_scores (s, own, side, q, attention.q, q_base, place.first, attention.n_queries, k, attention.k,
                   place.base (attention.k), key, attention.n_keys);
      soften (attention, mask, place, key, s, top, sum, o, open);
      __syncthreads ();
      store_turned (turned, s);
      load_rows (side, v, attention.v, place.base (attention.v), key, attention.n_keys, place.column);
      __syncthreads ();
      add_product (o, turned, side);
    }
  float factor[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      const float total = row_sum (sum[i]);
      const bool any_open = row_max (open[i] ? 1.0f : 0.0f) > 0;
      /* all scores -∞, or one NaN or +∞: the quotient is none */
      const bool bad = !(total > 0) || top[i] == INFINITY;
      const bool guarded = bad && (attention.guard == ORTRAIN_CUDA_GUARD_NAN ||
                                   (attention.guard == ORTRAIN_CUDA_GUARD_BLIND && !any_open));
      factor[i] = guarded ? 0.0f : bad ? NAN : 1.0f / total;
      if (lse != NULL && place.column == 0 && my_column () == 0 && row < attention.n_queries)
        ortrain_store_any (lse, (place.batch * attention.heads + place.head) * attention.n_queries + row,
                           attention.lse_dtype,
                           guarded ? INFINITY
                           : bad   ? NAN
                                   : top[i] + logf (total));
    }
  store_product (y, attention.y, place.base (attention.y), place.first, attention.n_queries, place.column, o, factor);
}

/* A probability is e^(score - shift) · factor; 0 of a guarded row. */
static __device__ float
find_probability (const OrtrainCudaAttention &attention, const void *mask, const Place &place, gint64 row, gint64 key,
                  float score, float shift, float factor)
{
  bool open = false;
  if (!is_seen (attention, row, key) || factor == 0)
    return 0;
  return expf (score * attention.scale + read_mask (attention, mask, place, row, key, &open) - shift) * factor;
}

static __device__ gint64
number_row (const OrtrainCudaAttention &attention, const Place &place, gint64 row)
{
  return (place.batch * attention.heads + place.head) * attention.n_queries + row;
}

/* Of a thread's rows. A row of large negative numbers alone has lost the number of its keys in lse; returns whether there
 * is one. */
static __device__ bool
read_statistics (const OrtrainCudaAttention &attention, const Place &place, const void *lse, float (&shift)[4],
                 float (&factor)[4], bool (&lost)[4])
{
  bool any = false;
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      const float value = row < attention.n_queries
                              ? ortrain_load_any (lse, number_row (attention, place, row), attention.lse_dtype)
                              : INFINITY;
      lost[i] = value < ORTRAIN_CUDA_ATTENTION_LOST;
      any = any || lost[i];
      shift[i] = lost[i] ? -INFINITY : value;
      factor[i] = lost[i] || value == INFINITY ? 0.0f : 1.0f;
    }
  return any;
}

/* The largest score of a row that lost its lse, and the sum of exponentials against it: one step over keys. */
static __device__ void
find_again (const OrtrainCudaAttention &attention, const void *mask, const Place &place, gint64 key,
            const float (&s)[4][4], const bool (&lost)[4], float (&shift)[4], float (&sum)[4])
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      float most = lost[i] ? shift[i] : -INFINITY, x[4], added = 0;
      bool open = false;
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          x[j] =
              is_seen (attention, row, key + my_column () + j)
                  ? s[i][j] * attention.scale + read_mask (attention, mask, place, row, key + my_column () + j, &open)
                  : -INFINITY;
          most = OrtrainMax::combine (most, x[j]);
        }
      most = row_max (most);
      const bool none = most == -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; j++)
        added += none ? 0.0f : expf (x[j] - most);
      added = row_sum (added);
      if (!lost[i])
        continue;
      sum[i] = sum[i] * (none ? 1.0f : expf (shift[i] - most)) + added;
      shift[i] = most;
    }
}

/* The first pass over the keys makes dots: the sum of p · dp of a row; the second one dq. Before them comes one for rows
 * that have lost their lse. rows: what the kernel of keys and values asks for. */
static __global__ void
__launch_bounds__ (THREADS)
    attention_queries_kernel (OrtrainCudaAttention attention, OrtrainDType dq_dtype, const void *dy, const void *q,
                              const void *k, const void *v, const void *lse, const void *mask, void *dq,
                              OrtrainCudaAttentionRow *rows)
{
  ORTRAIN_CUDA_SHARED (Quad, q_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, dy_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, turned_quads, SIDE * TILE / 4);
  float *own = (float *) q_quads, *own_dy = (float *) dy_quads, *side = (float *) side_quads;
  float *turned = (float *) turned_quads;
  const Place place (attention, attention.n_queries, attention.q.width);
  const gint64 end = find_end (attention, place.first), n = attention.n_queries;
  float s[4][4], dp[4][4], o[4][8] = { { 0 } }, dot[4] = { 0 }, shift[4], factor[4];
  bool lost[4];
  if (is_skipped (attention, place, 0, n, turned))
    return;
  const bool any_lost = any_thread (read_statistics (attention, place, lse, shift, factor, lost), turned);
  load_turned<TILE> (own, q, attention.q, place.base (attention.q), place.first, n, 0);
  load_turned<TILE> (own_dy, dy, attention.y, place.base (attention.y), place.first, n, 0);
#pragma unroll 1
  for (int pass = any_lost ? -1 : 0; pass < (dq != NULL ? 2 : 1); pass++)
    {
#pragma unroll 1
      for (gint64 key = 0; key < end; key += SIDE)
        {
          make_scores (s, own, side, q, attention.q, place.base (attention.q), place.first, n, k, attention.k,
                       place.base (attention.k), key, attention.n_keys);
          if (pass < 0)
            {
              find_again (attention, mask, place, key, s, lost, shift, factor);
              continue;
            }
          make_scores (dp, own_dy, side, dy, attention.y, place.base (attention.y), place.first, n, v, attention.v,
                       place.base (attention.v), key, attention.n_keys);
#pragma unroll
          for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
              {
                const float p = find_probability (attention, mask, place, place.first + my_row () + i,
                                                  key + my_column () + j, s[i][j], shift[i], factor[i]);
                if (pass == 0)
                  dot[i] += p == 0 ? 0.0f : p * dp[i][j];
                else
                  s[i][j] = p == 0 ? 0.0f : p * (dp[i][j] - dot[i]);
              }
          if (pass == 0)
            continue;
          __syncthreads ();
          store_turned (turned, s);
          load_rows (side, k, attention.k, place.base (attention.k), key, attention.n_keys, place.column);
          __syncthreads ();
          add_product (o, turned, side);
        }
#pragma unroll
      for (int i = 0; i < 4; i++)
        {
          const gint64 row = place.first + my_row () + i;
          if (pass < 0 && lost[i])
            factor[i] = 1 / factor[i];
          if (pass != 0)
            continue;
          dot[i] = row_sum (dot[i]);
          if (my_column () == 0 && place.column == 0 && row < n)
            rows[number_row (attention, place, row)] = OrtrainCudaAttentionRow{ shift[i], factor[i], dot[i] };
        }
    }
  if (dq == NULL)
    return;
  const float scale[4] = { attention.scale, attention.scale, attention.scale, attention.scale };
  OrtrainCudaAttentionSide to = attention.q;
  to.dtype = dq_dtype;
  store_product (dq, to, place.base (to), place.first, n, place.column, o, scale);
}

static __global__ void
__launch_bounds__ (THREADS)
    attention_keys_kernel (OrtrainCudaAttention attention, OrtrainDType dk_dtype, OrtrainDType dv_dtype, const void *dy,
                           const void *q, const void *k, const void *v, const void *mask,
                           const OrtrainCudaAttentionRow *rows, void *dk, void *dv)
{
  ORTRAIN_CUDA_SHARED (Quad, k_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, v_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, turned_quads, SIDE * TILE / 4);
  float *own_k = (float *) k_quads, *own_v = (float *) v_quads, *side = (float *) side_quads;
  float *turned = (float *) turned_quads;
  const gint64 width = attention.k.width > attention.v.width ? attention.k.width : attention.v.width;
  const Place place (attention, attention.n_keys, width);
  const gint64 n = attention.n_queries, n_keys = attention.n_keys;
  const gint64 before = attention.mask_kind == ORTRAIN_CUDA_MASK_CAUSAL ? place.first - attention.diagonal : 0;
  float s[4][4], dp[4][4], o_k[4][8] = { { 0 } }, o_v[4][8] = { { 0 } };
  if (is_skipped (attention, place, 0, n, turned))
    return;
  load_turned<TILE> (own_k, k, attention.k, place.base (attention.k), place.first, n_keys, 0);
  load_turned<TILE> (own_v, v, attention.v, place.base (attention.v), place.first, n_keys, 0);
#pragma unroll 1
  for (gint64 row = before > 0 ? before / SIDE * SIDE : 0; row < n; row += SIDE)
    {
      make_scores (s, own_k, side, k, attention.k, place.base (attention.k), place.first, n_keys, q, attention.q,
                   place.base (attention.q), row, n);
      make_scores (dp, own_v, side, v, attention.v, place.base (attention.v), place.first, n_keys, dy, attention.y,
                   place.base (attention.y), row, n);
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          const gint64 query = row + my_column () + j;
          OrtrainCudaAttentionRow own_row = { 0, 0, 0 };
          if (query < n)
            own_row = rows[number_row (attention, place, query)];
#pragma unroll
          for (int i = 0; i < 4; i++)
            {
              s[i][j] = find_probability (attention, mask, place, query, place.first + my_row () + i, s[i][j],
                                          own_row.shift, own_row.factor);
              dp[i][j] = s[i][j] == 0 ? 0.0f : s[i][j] * (dp[i][j] - own_row.dot);
            }
        }
      __syncthreads ();
      store_turned (turned, s);
      load_rows (side, dy, attention.y, place.base (attention.y), row, n, place.column);
      __syncthreads ();
      add_product (o_v, turned, side);
      __syncthreads ();
      store_turned (turned, dp);
      load_rows (side, q, attention.q, place.base (attention.q), row, n, place.column);
      __syncthreads ();
      add_product (o_k, turned, side);
    }
  const float factor[4] = { attention.scale, attention.scale, attention.scale, attention.scale };
  const float one[4] = { 1, 1, 1, 1 };
  OrtrainCudaAttentionSide to_k = attention.k, to_v = attention.v;
  to_k.dtype = dk_dtype;
  to_v.dtype = dv_dtype;
  if (dk != NULL)
    store_product (dk, to_k, place.base (to_k), place.first, n_keys, place.column, o_k, factor);
  if (dv != NULL)
    store_product (dv, to_v, place.base (to_v), place.first, n_keys, place.column, o_v, one);
}

static unsigned
count_blocks (const OrtrainCudaAttention *attention, gint64 n_rows, gint64 width)
{
  const gint64 chunks = (width + CHUNK - 1) / CHUNK;
  return (unsigned) (attention->batch * attention->heads * ((n_rows + TILE - 1) / TILE) * (chunks > 0 ? chunks : 1));
}

void
ortrain_cuda_attention_forward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention, const void *q,
                                const void *k, const void *v, const void *mask, void *y, void *lse)
{
  ortrain_cuda_launch (call, "attention", count_blocks (attention, attention->n_queries, attention->v.width), THREADS,
                       attention_forward_kernel, *attention, q, k, v, mask, y, lse);
}

void
ortrain_cuda_attention_backward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                 const OrtrainDType *dtypes, const void *dy, const void *q, const void *k,
                                 const void *v, const void *lse, const void *mask, void *const *gradients,
                                 OrtrainCudaAttentionRow *rows)
{
  const gint64 width = attention->k.width > attention->v.width ? attention->k.width : attention->v.width;
  /* rows are asked for by the second kernel */
  if (gradients[0] != NULL || gradients[1] != NULL || gradients[2] != NULL)
    ortrain_cuda_launch (call, "attention-queries", count_blocks (attention, attention->n_queries, attention->q.width),
                         THREADS, attention_queries_kernel, *attention, dtypes[0], dy, q, k, v, lse, mask, gradients[0],
                         rows);
  if (gradients[1] != NULL || gradients[2] != NULL)
    ortrain_cuda_launch (call, "attention-keys", count_blocks (attention, attention->n_keys, width), THREADS,
                         attention_keys_kernel, *attention, dtypes[1], dtypes[2], dy, q, k, v, mask, rows, gradients[1],
                         gradients[2]);
}
