/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-device.h"

#include "cuda/ortrain-cuda-attention-private.h"

#include <math.h>

/* The parts of the plain kernels of attention. A block owns TILE rows of one side (queries, or keys in the gradients of
 * keys and values) and takes SIDE rows of the other at a time; a thread computes 4 · 4 of their scores, and 4 · 8
 * elements of the sums. Widths are taken CHUNK columns at a time; results wider than that are computed by several
 * blocks, each of which makes the scores anew. All sums are in the order of rows: nothing is added from two blocks. */

#define TILE 64
#define SIDE 32
#define CHUNK 64
#define THREADS 128

typedef OrtrainPack<float, 4> Quad;

/* The part that a block works on, from its number. */
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

  __device__
  Place (gint64 batch, gint64 head)
      : batch (batch), head (head), first (0), column (0)
  {
  }

  __device__ gint64
  base (const OrtrainCudaAttentionSide &side) const
  {
    return batch * side.batch_step + head * side.head_step;
  }
};

static inline unsigned
count_blocks (const OrtrainCudaAttention *attention, gint64 n_rows, gint64 width)
{
  const gint64 chunks = (width + CHUNK - 1) / CHUNK;
  return (unsigned) (attention->batch * attention->heads * ((n_rows + TILE - 1) / TILE) * (chunks > 0 ? chunks : 1));
}

/* ---- tiles ---- */

/* Rows [first, end). */
struct Rows
{
  gint64 first, end;

  __device__ gint64
  find (int i) const
  {
    const gint64 row = first + i;
    return row >= 0 && row < end ? row : -1;
  }
};

/* N rows, those that `rows` finds, and columns [column, column + CHUNK) as [column][row]; zeros for rows and columns
 * that do not exist. */
template <int N, typename Find>
static inline __device__ void
load_turned (float *tile, const void *x, const OrtrainCudaAttentionSide &side, gint64 base, const Find &rows,
             gint64 column, float factor = 1)
{
  for (int i = (int) threadIdx.x; i < N * CHUNK; i += THREADS)
    {
      const gint64 row = rows.find (i % N), at = column + i / N;
      tile[i] =
          row >= 0 && at < side.width ? ortrain_load_any (x, base + row * side.pitch + at, side.dtype) * factor : 0.0f;
    }
}

/* The same as [row][column]. */
template <int N, typename Find>
static inline __device__ void
load_rows (float *tile, const void *x, const OrtrainCudaAttentionSide &side, gint64 base, const Find &rows,
           gint64 column, float factor = 1)
{
  for (int i = (int) threadIdx.x; i < N * CHUNK; i += THREADS)
    {
      const gint64 row = rows.find (i / CHUNK), at = column + i % CHUNK;
      tile[i] =
          row >= 0 && at < side.width ? ortrain_load_any (x, base + row * side.pitch + at, side.dtype) * factor : 0.0f;
    }
}

static inline __device__ int
my_row (void)
{
  return (int) threadIdx.x / 8 * 4;
}

static inline __device__ int
my_column (void)
{
  return (int) threadIdx.x % 8 * 4;
}

static inline __device__ void
clear_scores (float (&s)[4][4])
{
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      s[i][j] = 0;
}

/* s [4 rows][4 columns] += a [CHUNK][TILE]ᵀ · b [CHUNK][SIDE] */
static inline __device__ void
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

/* Sums products over all columns into s. STAYS: if the width has a single chunk, own [CHUNK][TILE] holds it already. */
template <bool STAYS>
static inline __device__ void
make_scores (float (&s)[4][4], float *own, float *other, const void *x, const OrtrainCudaAttentionSide &x_side,
             gint64 x_base, const Rows &x_rows, const void *y, const OrtrainCudaAttentionSide &y_side, gint64 y_base,
             const Rows &y_rows)
{
  clear_scores (s);
  for (gint64 column = 0; column < x_side.width; column += CHUNK)
    {
      __syncthreads ();
      if (!STAYS || x_side.width > CHUNK)
        load_turned<TILE> (own, x, x_side, x_base, x_rows, column);
      load_turned<SIDE> (other, y, y_side, y_base, y_rows, column);
      __syncthreads ();
      add_scores (s, own, other);
    }
}

/* turned [SIDE][TILE] = sᵀ */
static inline __device__ void
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
static inline __device__ void
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

/* Column j of a thread's 8. */
static inline __device__ gint64
find_column (gint64 column, int j)
{
  return column + my_column () + (j < 4 ? j : 28 + j);
}

static inline __device__ void
store_product (void *y, const OrtrainCudaAttentionSide &side, gint64 base, gint64 first, gint64 end, gint64 column,
               const float (&o)[4][8], const float (&factor)[4])
{
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 8; j++)
      {
        const gint64 row = first + my_row () + i, at = find_column (column, j);
        if (row < end && at < side.width)
          ortrain_store_any (y, base + row * side.pitch + at, side.dtype, factor[i] == 0 ? 0.0f : o[i][j] * factor[i]);
      }
}

static inline __device__ void
store_product (void *y, OrtrainCudaAttentionSide side, OrtrainDType dtype, const Place &place, gint64 end,
               const float (&o)[4][8], float factor)
{
  const float factors[4] = { factor, factor, factor, factor };
  side.dtype = dtype;
  store_product (y, side, place.base (side), place.first, end, place.column, o, factors);
}

/* ---- rows ---- */

static inline __device__ float
row_max (float x)
{
  for (int lanes = 4; lanes > 0; lanes /= 2)
    x = OrtrainMax::combine (x, __shfl_xor_sync (ORTRAIN_CUDA_ALL, x, lanes, 8));
  return x;
}

static inline __device__ float
row_sum (float x)
{
  for (int lanes = 4; lanes > 0; lanes /= 2)
    x += __shfl_xor_sync (ORTRAIN_CUDA_ALL, x, lanes, 8);
  return x;
}

/* Whether it is so in any thread of the block. scratch: [THREADS / 32], shared. */
static inline __device__ bool
any_thread (bool is, float *scratch)
{
  const bool in_warp = __any_sync (ORTRAIN_CUDA_ALL, is) != 0;
  if (threadIdx.x % ORTRAIN_CUDA_WARP == 0)
    scratch[threadIdx.x / ORTRAIN_CUDA_WARP] = in_warp;
  __syncthreads ();
  bool all = false;
  for (int i = 0; i < THREADS / ORTRAIN_CUDA_WARP; i++)
    all = all || scratch[i] != 0;
  __syncthreads ();
  return all;
}

static inline __device__ gint64
number_row (const OrtrainCudaAttention &attention, const Place &place, gint64 row)
{
  return (place.batch * attention.heads + place.head) * attention.n_queries + row;
}

/* ---- scores ---- */

/* The form of scores: the parts in addition to scale · q·k. */
enum Form
{
  FORM_PLAIN,
  FORM_BIAS,
  FORM_DROPOUT,  /* probabilities are dropped; perhaps with a bias */
  FORM_RELATIVE, /* the products come with their scales */
  FORM_RELATIVE_DROPOUT,
};

static constexpr __host__ __device__ bool
is_relative (Form form)
{
  return form == FORM_RELATIVE || form == FORM_RELATIVE_DROPOUT;
}

/* Which probabilities are dropped. */
template <Form FORM> struct Dropout
{
  bool drops;
  guint32 threshold;
  float kept; /* factor of probabilities that are not dropped */
  OrtrainPhiloxKey key;

  __device__
  Dropout (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in)
  {
    drops = false;
    if (FORM != FORM_DROPOUT && FORM != FORM_RELATIVE_DROPOUT)
      return;
    const double ratio = attention.dropout.dtype != ORTRAIN_DTYPE_UNDEFINED
                             ? (double) ortrain_load_any (in.ratio, 0, attention.dropout.dtype)
                             : 0.5;
    const bool fits = ratio >= 0 && ratio < 1;
    if (*in.training == 0)
      return;
    if (!fits && ortrain_cuda_first () == 0)
      {
        const OrtrainFaultPlace place = { in.fault, in.plan_step };
        union
        {
          double number;
          gint64 bits;
        } value = { ratio };
        place.report (ORTRAIN_FAULT_NUMBER, attention.dropout.input, value.bits, 0);
      }
    drops = fits && ratio > 0;
    threshold = drops ? (guint32) ceil (ratio * 0x1p24) : 0; /* u >= ratio, for u of 24 bits */
    kept = drops ? (float) (1 / (1 - ratio)) : 1.0f;
    key = ortrain_cuda_philox_key (in.step, in.node);
  }

  __device__ bool
  keeps (guint32 word) const
  {
    return word >> 8 >= threshold;
  }

  /* Factors of four probabilities of a row, from element `first` on. */
  __device__ void
  draw (gint64 first, float (&factors)[4]) const
  {
    guint32 words[8];
#pragma unroll
    for (int i = 0; i < 4; i++)
      factors[i] = 1;
    if (!drops)
      return;
    const int shift = (int) (first & 3);
    ortrain_philox (&key, (guint64) (first >> 2), words);
    ortrain_philox (&key, (guint64) (first >> 2) + 1, words + 4);
#pragma unroll
    for (int i = 0; i < 7; i++)
      words[i] = shift & 1 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < 4; i++)
      factors[i] = keeps (shift & 2 ? words[i + 2] : words[i]) ? kept : 0.0f;
  }
};

/* A NaN is dropped, too. */
static inline __device__ float
drop (float x, float factor)
{
  return factor == 0 ? 0.0f : x * factor;
}

/* Whether a score counts at all. */
static inline __device__ bool
is_seen (const OrtrainCudaAttention &attention, gint64 row, gint64 key)
{
  return row < attention.n_queries && key < attention.n_keys &&
         (attention.mask_kind != ORTRAIN_CUDA_MASK_CAUSAL || key <= row + attention.diagonal);
}

/* The keys that rows of a tile see end here. */
static inline __device__ gint64
find_end (const OrtrainCudaAttention &attention, gint64 first)
{
  const gint64 end = first + TILE + attention.diagonal;
  return attention.mask_kind == ORTRAIN_CUDA_MASK_CAUSAL && end < attention.n_keys ? end : attention.n_keys;
}

static inline __device__ gint64
find_addend (const OrtrainCudaAttentionAddend &addend, const Place &place, gint64 row, gint64 key)
{
  return place.batch * addend.batch + place.head * addend.head + row * addend.row + key * addend.key;
}

/* The score of a product; *open: whether the mask lets the key through. */
template <Form FORM>
static inline __device__ float
finish_score (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in, const Place &place,
              gint64 row, gint64 key, float product, bool *open)
{
  float score = is_relative (FORM) ? product : product * attention.scale;
  *open = true;
  if (FORM == FORM_BIAS || (FORM == FORM_DROPOUT && attention.bias.dtype != ORTRAIN_DTYPE_UNDEFINED))
    score += ortrain_load_any (in.bias, find_addend (attention.bias, place, row, key), attention.bias.dtype);
  if (attention.mask_kind == ORTRAIN_CUDA_MASK_BOOL)
    {
      *open = ((const guint8 *) in.mask)[find_addend (attention.mask, place, row, key)] != 0;
      if (is_relative (FORM) && attention.fills && !*open)
        return attention.masked_value;
      return *open ? score : score + attention.masked_value;
    }
  if (attention.mask_kind != ORTRAIN_CUDA_MASK_ADD)
    return score;
  const float value = ortrain_load_any (in.mask, find_addend (attention.mask, place, row, key), attention.mask.dtype);
  *open = !(value == -INFINITY);
  return score + value;
}

/* The softmax of a thread's rows, whose keys come piece by piece. */
struct Softmax
{
  float top[4], sum[4];
  bool open[4];

  __device__
  Softmax (void)
  {
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        top[i] = -INFINITY;
        sum[i] = 0;
        open[i] = false;
      }
  }
};

/* x: of a row, and four keys. */
template <Form FORM>
static inline __device__ void
drop_row (const OrtrainCudaAttention &attention, const Place &place, const Dropout<FORM> &dropout, gint64 row,
          gint64 key, float (&x)[4])
{
  float factors[4];
  if (!dropout.drops)
    return;
  dropout.draw (number_row (attention, place, row) * attention.n_keys + key, factors);
#pragma unroll
  for (int j = 0; j < 4; j++)
    x[j] = drop (x[j], factors[j]);
}

/* One step: products s become exponentials, against the largest score so far; those that are dropped count in sums
 * alone. */
template <Form FORM>
static inline __device__ void
soften (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in, const Place &place, gint64 key,
        const Dropout<FORM> &dropout, float (&s)[4][4], Softmax *softmax, float (&o)[4][8])
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      float most = softmax->top[i];
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (is_seen (attention, row, key + my_column () + j))
          {
            bool open;
            s[i][j] = finish_score<FORM> (attention, in, place, row, key + my_column () + j, s[i][j], &open);
            softmax->open[i] = softmax->open[i] || open;
            most = OrtrainMax::combine (most, s[i][j]);
          }
      most = row_max (most);
      const bool none = most == -INFINITY; /* so far */
      const float factor = none ? 1.0f : expf (softmax->top[i] - most);
      float added = 0;
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          s[i][j] = none || !is_seen (attention, row, key + my_column () + j) ? 0.0f : expf (s[i][j] - most);
          added += s[i][j];
        }
      drop_row (attention, place, dropout, row, key + my_column (), s[i]);
      softmax->top[i] = most;
      softmax->sum[i] = softmax->sum[i] * factor + added;
#pragma unroll
      for (int j = 0; j < 8; j++)
        o[i][j] *= factor;
    }
}

/* y and lse of a block's rows. */
static inline __device__ void
store_rows (const OrtrainCudaAttention &attention, const Place &place, const Softmax &softmax, const float (&o)[4][8],
            void *y, void *lse)
{
  float factor[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      const float total = row_sum (softmax.sum[i]);
      const bool any_open = row_max (softmax.open[i] ? 1.0f : 0.0f) > 0;
      /* all scores are -∞, or one is NaN or +∞: there is no valid quotient */
      const bool bad = !(total > 0) || softmax.top[i] == INFINITY;
      const bool guarded = bad && (attention.guard == ORTRAIN_CUDA_GUARD_NAN ||
                                   (attention.guard == ORTRAIN_CUDA_GUARD_BLIND && !any_open));
      factor[i] = guarded ? 0.0f : bad ? NAN : 1.0f / total;
      if (lse != NULL && place.column == 0 && my_column () == 0 && row < attention.n_queries)
        ortrain_store_any (lse, number_row (attention, place, row), attention.lse_dtype,
                           guarded ? INFINITY
                           : bad   ? NAN
                                   : softmax.top[i] + logf (total));
    }
  store_product (y, attention.y, place.base (attention.y), place.first, attention.n_queries, place.column, o, factor);
}

/* ---- the backward pass ---- */

/* The statistics of a thread's rows, as OrtrainCudaAttentionRow has them. */
struct Statistics
{
  float shift[4], factor[4], dot[4];
  bool lost[4]; /* a row of large negative numbers alone: the number of its keys is not in lse */

  __device__
  Statistics (const OrtrainCudaAttention &attention, const Place &place, const void *lse)
  {
#pragma unroll
    for (int i = 0; i < 4; i++)
      {
        const gint64 row = place.first + my_row () + i;
        const float value = row < attention.n_queries
                                ? ortrain_load_any (lse, number_row (attention, place, row), attention.lse_dtype)
                                : INFINITY;
        lost[i] = value < ORTRAIN_CUDA_ATTENTION_LOST;
        shift[i] = lost[i] ? -INFINITY : value;
        factor[i] = lost[i] || value == INFINITY ? 0.0f : 1.0f;
        dot[i] = 0;
      }
  }

  __device__ bool
  any_lost (void) const
  {
    return lost[0] || lost[1] || lost[2] || lost[3];
  }
};

/* The largest score of a row that lost its lse, and the sum of exponentials against it: one step over keys. */
template <Form FORM>
static inline __device__ void
find_again (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in, const Place &place, gint64 key,
            const float (&s)[4][4], Statistics *statistics)
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      const float before = statistics->shift[i];
      float most = statistics->lost[i] ? before : -INFINITY, x[4], added = 0;
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          bool open;
          x[j] = is_seen (attention, row, key + my_column () + j)
                     ? finish_score<FORM> (attention, in, place, row, key + my_column () + j, s[i][j], &open)
                     : -INFINITY;
          most = OrtrainMax::combine (most, x[j]);
        }
      most = row_max (most);
      const bool none = most == -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; j++)
        added += none ? 0.0f : expf (x[j] - most);
      added = row_sum (added);
      if (!statistics->lost[i])
        continue;
      statistics->factor[i] = statistics->factor[i] * (none ? 1.0f : expf (before - most)) + added;
      statistics->shift[i] = most;
    }
}

/* The probability of a product, and the gradient of its score. dp: of the probability. */
template <Form FORM>
static inline __device__ float
find_probability (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in, const Place &place,
                  gint64 row, gint64 key, float product, float shift, float factor, bool *open)
{
  *open = false;
  if (!is_seen (attention, row, key) || factor == 0)
    return 0;
  return expf (finish_score<FORM> (attention, in, place, row, key, product, open) - shift) * factor;
}

/* The gradient of a score. */
template <Form FORM>
static inline __device__ float
find_gradient (const OrtrainCudaAttention &attention, float p, float dp, float dot, bool open)
{
  return p == 0 || (is_relative (FORM) && attention.fills && !open) ? 0.0f : p * (dp - dot);
}

/* Runs after the pass over the keys that finds lost statistics (-1), and after the pass that makes dots (0). */
static inline __device__ void
finish_pass (const OrtrainCudaAttention &attention, const Place &place, int pass, Statistics *statistics,
             OrtrainCudaAttentionRow *rows)
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      const gint64 row = place.first + my_row () + i;
      if (pass < 0 && statistics->lost[i])
        statistics->factor[i] = 1 / statistics->factor[i];
      if (pass != 0)
        continue;
      statistics->dot[i] = row_sum (statistics->dot[i]);
      if (my_column () == 0 && place.column == 0 && row < attention.n_queries)
        rows[number_row (attention, place, row)] =
            OrtrainCudaAttentionRow{ statistics->shift[i], statistics->factor[i], statistics->dot[i] };
    }
}

/* In pass 0, adds to the dots of rows; in pass 1 the products s become gradients of scores. */
template <Form FORM>
static inline __device__ void
differentiate (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in, const Place &place,
               gint64 key, int pass, const Dropout<FORM> &dropout, float (&s)[4][4], float (&dp)[4][4],
               Statistics *statistics)
{
#pragma unroll
  for (int i = 0; i < 4; i++)
    {
      drop_row (attention, place, dropout, place.first + my_row () + i, key + my_column (), dp[i]);
#pragma unroll
      for (int j = 0; j < 4; j++)
        {
          bool open;
          const float p =
              find_probability<FORM> (attention, in, place, place.first + my_row () + i, key + my_column () + j,
                                      s[i][j], statistics->shift[i], statistics->factor[i], &open);
          if (pass == 0)
            statistics->dot[i] += p == 0 ? 0.0f : p * dp[i][j];
          else
            s[i][j] = find_gradient<FORM> (attention, p, dp[i][j], statistics->dot[i], open);
        }
    }
}

/* For a tile whose rows are keys and whose columns are queries from `row` on: products s become probabilities, and
 * their gradients dp become the gradients of scores. */
template <Form FORM>
static inline __device__ void
differentiate_keys (const OrtrainCudaAttention &attention, const OrtrainCudaAttentionInputs &in, const Place &place,
                    gint64 row, const OrtrainCudaAttentionRow *rows, const Dropout<FORM> &dropout, float (&s)[4][4],
                    float (&dp)[4][4])
{
#pragma unroll
  for (int j = 0; j < 4; j++)
    {
      const gint64 query = row + my_column () + j;
      OrtrainCudaAttentionRow statistics = { 0, 0, 0 };
      float factors[4];
      if (query < attention.n_queries)
        statistics = rows[number_row (attention, place, query)];
      dropout.draw (number_row (attention, place, query) * attention.n_keys + place.first + my_row (), factors);
#pragma unroll
      for (int i = 0; i < 4; i++)
        {
          bool open;
          s[i][j] = find_probability<FORM> (attention, in, place, query, place.first + my_row () + i, s[i][j],
                                            statistics.shift, statistics.factor, &open);
          dp[i][j] = find_gradient<FORM> (attention, s[i][j], drop (dp[i][j], factors[i]), statistics.dot, open);
          s[i][j] = drop (s[i][j], factors[i]);
        }
    }
}
