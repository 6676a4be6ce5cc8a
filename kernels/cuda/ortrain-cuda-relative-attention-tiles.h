/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-attention-tiles.h"
#include "cuda/ortrain-cuda-relative-attention-private.h"

/* The additional terms of relative attention. Where an index depends on the difference of places alone, the scores of a
 * tile read BAND rows of positions, in a band: score [i][j] row j - i + TILE - 1. A thread's 4 · 4 scores read 7 of
 * them, and the threads of a tile share the rows that it needs, as they share keys. Where differences are the rows of a
 * tile, keys lie in a band: score [i][j] reads key i + j. */

#define BAND (TILE + SIDE)

/* The meaning of the rows and columns of a tile. */
enum Tile
{
  TILE_QUERIES,     /* queries and keys */
  TILE_KEYS,        /* keys and queries */
  TILE_DIFFERENCES, /* differences and queries */
};

/* Positions of a band of differences. */
struct Differences
{
  const gint32 *table;
  gint64 n, first;
  int step;

  __device__ gint64
  find (int i) const
  {
    const gint64 at = first + step * i;
    return at >= 0 && at < n ? table[at] : -1;
  }
};

/* Where a tile stands: its first row, and its first column. */
struct Corner
{
  gint64 first, other;
};

template <Tile KIND>
static inline __device__ gint64
find_row (const Corner &corner, int i, int j)
{
  return KIND == TILE_QUERIES ? corner.first + my_row () + i : corner.other + my_column () + j;
}

template <Tile KIND>
static inline __device__ gint64
find_key (const OrtrainCudaAttention &attention, const Corner &corner, int i, int j)
{
  return KIND == TILE_QUERIES ? corner.other + my_column () + j
         : KIND == TILE_KEYS  ? corner.first + my_row () + i
                             : corner.other + my_column () + j + corner.first + my_row () + i + 1 - attention.n_queries;
}

static inline __device__ gint64
find_position (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in, int k, gint64 row,
               gint64 key)
{
  return relative.positions[k].is_compact ? in.tables[k][key - row + relative.attention.n_queries - 1]
                                          : in.tables[k][row * relative.attention.n_keys + key];
}

/* s [4 rows][4 columns] += x · band [CHUNK][BAND]. x: [CHUNK][TILE] of the tile's rows, if OWN, or [CHUNK][SIDE] of its
 * columns. STEP: 1, s [i][j] reads row i + j of the band; -1, j - i + TILE - 1. */
template <int STEP, bool OWN>
static inline __device__ void
add_band (float (&s)[4][4], const float *x, const float *band)
{
  const int first = STEP < 0 ? my_column () - my_row () + TILE - 4 : my_column () + my_row ();
#pragma unroll 2
  for (int d = 0; d < CHUNK; d++)
    {
      const Quad a = *(const Quad *) (OWN ? x + d * TILE + my_row () : x + d * SIDE + my_column ());
      const Quad low = *(const Quad *) (band + d * BAND + first), high = *(const Quad *) (band + d * BAND + first + 4);
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          {
            const int at = STEP < 0 ? j - i + 3 : i + j;
            s[i][j] += a.at[OWN ? i : j] * (at < 4 ? low.at[at & 3] : high.at[at & 3]);
          }
    }
}

/* o [4 rows][8 columns] += turned [SIDE][TILE]ᵀ, each row from its place in the band on · band [BAND][CHUNK] */
template <int STEP>
static inline __device__ void
add_band_product (float (&o)[4][8], const float *turned, const float *band)
{
#pragma unroll 1
  for (int u = 0; u < SIDE + 3; u++)
    {
      const int row = STEP < 0 ? u + TILE - 4 - my_row () : u + my_row ();
      const Quad y = *(const Quad *) (band + row * CHUNK + my_column ());
      const Quad z = *(const Quad *) (band + row * CHUNK + 32 + my_column ());
#pragma unroll
      for (int i = 0; i < 4; i++)
        {
          const int j = STEP < 0 ? u - 3 + i : u - i;
          const float x = j >= 0 && j < SIDE ? turned[j * TILE + my_row () + i] : 0.0f;
#pragma unroll
          for (int c = 0; c < 4; c++)
            {
              o[i][c] += x * y.at[c];
              o[i][4 + c] += x * z.at[c];
            }
        }
    }
}

/* The content's element of a term: of queries with the keys of positions (K is those), of keys with their queries.
 * band: of keys, where differences are the rows. */
template <Tile KIND, int K>
static inline __device__ float
read_content (const float *own, const float *side, const float *band, int d, int i, int j)
{
  if (KIND == TILE_DIFFERENCES && K == ORTRAIN_CUDA_POSITION_QUERIES)
    return band[d * BAND + my_row () + i + my_column () + j];
  if (KIND != TILE_DIFFERENCES && (KIND == TILE_QUERIES) == (K == ORTRAIN_CUDA_POSITION_KEYS))
    return own[d * TILE + my_row () + i];
  return side[d * SIDE + my_column () + j];
}

/* A term whose index is a matrix: every score reads a row of its own. */
template <Tile KIND, int K>
static inline __device__ void
add_gathered (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in, gint64 head,
              const Corner &corner, gint64 column, float (&s)[4][4], const float *own, const float *side,
              const float *band)
{
  const OrtrainCudaPositions &positions = relative.positions[K];
  const gint64 left = positions.side.width - column;
  const int n = left < CHUNK ? (int) left : CHUNK;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      {
        const gint64 row = find_row<KIND> (corner, i, j), key = find_key<KIND> (relative.attention, corner, i, j);
        float sum = 0;
        if (row >= relative.attention.n_queries || key < 0 || key >= relative.attention.n_keys)
          continue;
        const gint64 at =
            head * positions.side.head_step + find_position (relative, in, K, row, key) * positions.side.pitch + column;
#pragma unroll 1
        for (int d = 0; d < n; d++)
          sum += read_content<KIND, K> (own, side, band, d, i, j) *
                 ortrain_load_any (in.positions[K], at + d, positions.side.dtype);
        s[i][j] += sum * positions.scale;
      }
}

/* The same for gradients: o += turnedᵀ · the rows that scores have read. */
template <Tile KIND, int K>
static inline __device__ void
add_gathered_product (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in,
                      const Place &place, gint64 other, float (&o)[4][8], const float *turned)
{
  const OrtrainCudaPositions &positions = relative.positions[K];
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll 1
    for (int j = 0; j < SIDE; j++)
      {
        const gint64 own = place.first + my_row () + i;
        const gint64 row = KIND == TILE_QUERIES ? own : other + j, key = KIND == TILE_QUERIES ? other + j : own;
        const float x = turned[j * TILE + my_row () + i] * positions.scale;
        if (row >= relative.attention.n_queries || key >= relative.attention.n_keys || x == 0)
          continue;
        const gint64 at =
            place.head * positions.side.head_step + find_position (relative, in, K, row, key) * positions.side.pitch;
#pragma unroll
        for (int c = 0; c < 8; c++)
          if (find_column (place.column, c) < positions.side.width)
            o[i][c] += x * ortrain_load_any (in.positions[K], at + find_column (place.column, c), positions.side.dtype);
      }
}

/* The band of a tile of queries and keys. */
template <Tile KIND>
static inline __device__ Differences
find_band (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in, int k,
           const Corner &corner)
{
  const gint64 difference = KIND == TILE_QUERIES ? corner.other - corner.first : corner.first - corner.other;
  const gint64 middle = difference + relative.attention.n_queries - 1;
  return KIND == TILE_QUERIES ? Differences{ in.tables[k], relative.n_differences, middle - (TILE - 1), 1 }
                              : Differences{ in.tables[k], relative.n_differences, middle + TILE - 1, -1 };
}

/* band: [CHUNK][BAND], scratch */
template <Tile KIND, int K>
static inline __device__ void
add_term (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in, gint64 head,
          const Corner &corner, gint64 column, float (&s)[4][4], const float *own, const float *side, float *band)
{
  const bool of_own = (KIND == TILE_QUERIES) == (K == ORTRAIN_CUDA_POSITION_KEYS);
  const OrtrainCudaPositions &positions = relative.positions[K];
  if (!positions.is_used)
    return;
  __syncthreads ();
  if (!positions.is_compact)
    {
      add_gathered<KIND, K> (relative, in, head, corner, column, s, own, side, band);
      return;
    }
  load_turned<BAND> (band, in.positions[K], positions.side, head * positions.side.head_step,
                     find_band<KIND> (relative, in, K, corner), column, positions.scale);
  __syncthreads ();
  add_band<-1, of_own> (s, of_own ? own : side, band);
}

static inline __device__ void
scale_scores (float (&s)[4][4], float scale)
{
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      s[i][j] *= scale;
}

/* The sum of all three terms, with their scales. own: [CHUNK][TILE], holds its only chunk already, where the width has
 * one; side: [CHUNK][SIDE]. */
template <Tile KIND>
static inline __device__ void
make_sum (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in, const Place &place,
          gint64 other, float (&s)[4][4], float *own, float *side, float *band)
{
  const OrtrainCudaAttention &attention = relative.attention;
  const bool queries = KIND == TILE_QUERIES;
  const OrtrainCudaAttentionSide &x_side = queries ? attention.q : attention.k;
  const OrtrainCudaAttentionSide &y_side = queries ? attention.k : attention.q;
  const void *x = queries ? in.in.q : in.in.k, *y = queries ? in.in.k : in.in.q;
  const Rows x_rows = { place.first, queries ? attention.n_queries : attention.n_keys };
  const Rows y_rows = { other, queries ? attention.n_keys : attention.n_queries };
  const Corner corner = { place.first, other };
  make_scores<true> (s, own, side, x, x_side, place.base (x_side), x_rows, y, y_side, place.base (y_side), y_rows);
  scale_scores (s, attention.scale);
#pragma unroll 1
  for (gint64 column = 0; column < x_side.width; column += CHUNK)
    {
      if (x_side.width > CHUNK)
        {
          __syncthreads ();
          load_turned<TILE> (own, x, x_side, place.base (x_side), x_rows, column);
          load_turned<SIDE> (side, y, y_side, place.base (y_side), y_rows, column);
        }
      add_term<KIND, ORTRAIN_CUDA_POSITION_KEYS> (relative, in, place.head, corner, column, s, own, side, band);
      add_term<KIND, ORTRAIN_CUDA_POSITION_QUERIES> (relative, in, place.head, corner, column, s, own, side, band);
    }
}

/* Adds to o the gradient of the own side by its term k: a product with the other factor of that term, the positions.
 * turned: [SIDE][TILE], gradients of scores; band: [BAND][CHUNK], scratch. */
template <Tile KIND>
static inline __device__ void
add_position_product (const OrtrainCudaRelativeAttention &relative, const OrtrainCudaRelativeInputs &in,
                      const Place &place, gint64 other, float (&o)[4][8], const float *turned, float *band)
{
  const int k = KIND == TILE_QUERIES ? ORTRAIN_CUDA_POSITION_KEYS : ORTRAIN_CUDA_POSITION_QUERIES;
  const OrtrainCudaPositions &positions = relative.positions[k];
  const Corner corner = { place.first, other };
  if (!positions.is_used)
    return;
  if (!positions.is_compact)
    {
      add_gathered_product<KIND, k> (relative, in, place, other, o, turned);
      return;
    }
  __syncthreads ();
  load_rows<BAND> (band, in.positions[k], positions.side, place.head * positions.side.head_step,
                   find_band<KIND> (relative, in, k, corner), place.column, positions.scale);
  __syncthreads ();
  add_band_product<-1> (o, turned, band);
}
