/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-relative-attention-tiles.h"

/* Gradients of the keys and queries of positions, summed over the batch. Where the index depends on the difference of
 * places alone, a block has a tile of differences, makes the gradients of scores anew for all queries, whose keys then
 * lie in a band, and sums q and k for each difference; positions that several differences read are summed afterwards.
 * With a matrix of indices, a warp looks for the scores that have read its position. All sums have a fixed order. */

#define BLOCKS 256 /* as many as fill a device */

typedef OrtrainCudaRelativeAttention Relative;
typedef OrtrainCudaRelativeInputs Inputs;

/* A term of scores whose rows are differences. own: [CHUNK][TILE], scratch. */
template <int K>
static __device__ void
add_difference_term (const Relative &relative, const Inputs &in, gint64 head, const Corner &corner, gint64 column,
                     float (&s)[4][4], float *own, const float *side, const float *band)
{
  const OrtrainCudaPositions &positions = relative.positions[K];
  if (!positions.is_used)
    return;
  __syncthreads ();
  if (!positions.is_compact)
    {
      add_gathered<TILE_DIFFERENCES, K> (relative, in, head, corner, column, s, own, side, band);
      return;
    }
  load_turned<TILE> (own, in.positions[K], positions.side, head * positions.side.head_step,
                     Differences{ in.tables[K], relative.n_differences, corner.first, 1 }, column, positions.scale);
  __syncthreads ();
  if (K == ORTRAIN_CUDA_POSITION_KEYS)
    add_scores (s, own, side);
  else
    add_band<1, true> (s, own, band);
}

/* sums: [parts, heads, differences, width]; of q for the keys of positions, of k for their queries. */
template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS)
    relative_differences_kernel (Relative relative, Inputs in, gint64 parts, const OrtrainCudaAttentionRow *rows,
                                 float *q_sums, float *k_sums)
{
  ORTRAIN_CUDA_SHARED (Quad, own_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, band_quads, CHUNK * BAND / 4);
  float *own = (float *) own_quads, *side = (float *) side_quads, *band = (float *) band_quads;
  const OrtrainCudaAttention &attention = relative.attention;
  const gint64 n = attention.n_queries, n_keys = attention.n_keys, width = attention.q.width;
  Place place (attention, relative.n_differences, width);
  const gint64 part = place.batch;
  const Dropout<FORM> dropout (attention, in.in);
  float s[4][4], dp[4][4], o_q[4][8] = { { 0 } }, o_k[4][8] = { { 0 } };
  for (place.batch = part * attention.batch / parts; place.batch < (part + 1) * attention.batch / parts; place.batch++)
#pragma unroll 1
    for (gint64 row = 0; row < n; row += SIDE)
      {
        const Corner corner = { place.first, row };
        const Rows queries = { row, n }, keys = { row + place.first + 1 - n, n_keys };
        if (keys.first + BAND <= 0 || keys.first >= n_keys)
          continue;
        clear_scores (s);
        for (gint64 column = 0; column < width; column += CHUNK)
          {
            __syncthreads ();
            load_turned<SIDE> (side, in.in.q, attention.q, place.base (attention.q), queries, column);
            load_turned<BAND> (band, in.in.k, attention.k, place.base (attention.k), keys, column);
            __syncthreads ();
            add_band<1, false> (s, side, band);
          }
        scale_scores (s, attention.scale);
#pragma unroll 1
        for (gint64 column = 0; column < width; column += CHUNK)
          {
            if (width > CHUNK)
              {
                __syncthreads ();
                load_turned<SIDE> (side, in.in.q, attention.q, place.base (attention.q), queries, column);
                load_turned<BAND> (band, in.in.k, attention.k, place.base (attention.k), keys, column);
              }
            add_difference_term<ORTRAIN_CUDA_POSITION_KEYS> (relative, in, place.head, corner, column, s, own, side,
                                                             band);
            add_difference_term<ORTRAIN_CUDA_POSITION_QUERIES> (relative, in, place.head, corner, column, s, own, side,
                                                                band);
          }
        clear_scores (dp);
        for (gint64 column = 0; column < attention.v.width; column += CHUNK)
          {
            __syncthreads ();
            load_turned<SIDE> (side, in.in.dy, attention.y, place.base (attention.y), queries, column);
            load_turned<BAND> (band, in.in.v, attention.v, place.base (attention.v), keys, column);
            __syncthreads ();
            add_band<1, false> (dp, side, band);
          }
#pragma unroll
        for (int j = 0; j < 4; j++)
          {
            const gint64 query = row + my_column () + j;
            OrtrainCudaAttentionRow statistics = { 0, 0, 0 };
            float factors[4];
            if (query < n)
              statistics = rows[number_row (attention, place, query)];
            dropout.draw (number_row (attention, place, query) * n_keys +
                              find_key<TILE_DIFFERENCES> (attention, corner, 0, j),
                          factors);
#pragma unroll
            for (int i = 0; i < 4; i++)
              {
                const gint64 key = find_key<TILE_DIFFERENCES> (attention, corner, i, j);
                bool open = false;
                const float p = key < 0 ? 0.0f
                                        : find_probability<FORM> (attention, in.in, place, query, key, s[i][j],
                                                                  statistics.shift, statistics.factor, &open);
                s[i][j] = find_gradient<FORM> (attention, p, drop (dp[i][j], factors[i]), statistics.dot, open);
              }
          }
        __syncthreads ();
        store_turned (own, s);
        if (q_sums != NULL)
          load_rows<SIDE> (side, in.in.q, attention.q, place.base (attention.q), queries, place.column,
                           relative.positions[ORTRAIN_CUDA_POSITION_KEYS].scale);
        if (k_sums != NULL)
          load_rows<BAND> (band, in.in.k, attention.k, place.base (attention.k), keys, place.column,
                           relative.positions[ORTRAIN_CUDA_POSITION_QUERIES].scale);
        __syncthreads ();
        if (q_sums != NULL)
          add_product (o_q, own, side);
        if (k_sums != NULL)
          add_band_product<1> (o_k, own, band);
      }
  const float one[4] = { 1, 1, 1, 1 };
  const OrtrainCudaAttentionSide to = { 0, 0, width, width, ORTRAIN_DTYPE_FLOAT32 };
  const gint64 base = (part * attention.heads + place.head) * relative.n_differences * width;
  if (q_sums != NULL)
    store_product (q_sums, to, base, place.first, relative.n_differences, place.column, o_q, one);
  if (k_sums != NULL)
    store_product (k_sums, to, base, place.first, relative.n_differences, place.column, o_k, one);
}

/* A warp for each position of each head: the sums of all of n differences that read it. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    relative_positions_kernel (OrtrainCudaPositions positions, gint64 heads, gint64 n, const gint32 *table,
                               gint64 parts, const float *sums, void *to, OrtrainDType dtype,
                               OrtrainAccumulate accumulate)
{
  const gint64 lane = threadIdx.x % ORTRAIN_CUDA_WARP, width = positions.side.width;
  for (gint64 r = ortrain_cuda_first () / ORTRAIN_CUDA_WARP; r < heads * positions.n;
       r += ortrain_cuda_stride () / ORTRAIN_CUDA_WARP)
    {
      const gint64 head = r / positions.n, position = r % positions.n;
      for (gint64 first = 0; first < width; first += ORTRAIN_CUDA_WARP)
        {
          const gint64 column = first + lane;
          const gint64 at = head * positions.side.head_step + position * positions.side.pitch + column;
          float sum = column < width && accumulate.is_set () ? ortrain_load_any (to, at, dtype) : 0.0f;
          for (gint64 d = 0; d < n; d += ORTRAIN_CUDA_WARP)
            {
              const bool reads = d + lane < n && table[d + lane] == position;
              for (unsigned all = __ballot_sync (ORTRAIN_CUDA_ALL, reads); all != 0; all &= all - 1)
                for (gint64 part = 0; part < parts && column < width; part++)
                  sum += sums[((part * heads + head) * n + d + __ffs ((int) all) - 1) * width + column];
            }
          if (column < width)
            ortrain_store_any (to, at, dtype, sum);
        }
    }
}

/* The gradient of the score of one row and key, in all lanes. */
template <Form FORM>
static __device__ float
find_score_gradient (const Relative &relative, const Inputs &in, const Place &place, const Dropout<FORM> &dropout,
                     gint64 row, gint64 key, const OrtrainCudaAttentionRow *rows)
{
  const OrtrainCudaAttention &attention = relative.attention;
  const gint64 lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const gint64 q = place.base (attention.q) + row * attention.q.pitch,
               k = place.base (attention.k) + key * attention.k.pitch;
  const gint64 dy = place.base (attention.y) + row * attention.y.pitch,
               v = place.base (attention.v) + key * attention.v.pitch;
  float product = 0, dp = 0;
  gint64 at[ORTRAIN_CUDA_N_POSITIONS] = { 0 };
#pragma unroll
  for (int i = 0; i < ORTRAIN_CUDA_N_POSITIONS; i++)
    if (relative.positions[i].is_used)
      at[i] = place.head * relative.positions[i].side.head_step +
              find_position (relative, in, i, row, key) * relative.positions[i].side.pitch;
  for (gint64 c = lane; c < attention.q.width; c += ORTRAIN_CUDA_WARP)
    {
      const float x = ortrain_load_any (in.in.q, q + c, attention.q.dtype);
      const float y = ortrain_load_any (in.in.k, k + c, attention.k.dtype);
      product += attention.scale * x * y;
#pragma unroll
      for (int i = 0; i < ORTRAIN_CUDA_N_POSITIONS; i++)
        if (relative.positions[i].is_used)
          product += relative.positions[i].scale * (i == ORTRAIN_CUDA_POSITION_KEYS ? x : y) *
                     ortrain_load_any (in.positions[i], at[i] + c, relative.positions[i].side.dtype);
    }
  for (gint64 c = lane; c < attention.v.width; c += ORTRAIN_CUDA_WARP)
    dp += ortrain_load_any (in.in.dy, dy + c, attention.y.dtype) * ortrain_load_any (in.in.v, v + c, attention.v.dtype);
  product = ortrain_warp_reduce<OrtrainSum> (product);
  dp = ortrain_warp_reduce<OrtrainSum> (dp);
  const OrtrainCudaAttentionRow statistics = rows[number_row (attention, place, row)];
  float factors[4];
  bool open;
  dropout.draw (number_row (attention, place, row) * attention.n_keys + key, factors);
  const float p =
      find_probability<FORM> (attention, in.in, place, row, key, product, statistics.shift, statistics.factor, &open);
  return find_gradient<FORM> (attention, p, drop (dp, factors[0]), statistics.dot, open);
}

/* A warp for each position of each head, and 32 columns: all scores that read it, in order. */
template <int K, Form FORM>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 2)
    relative_entries_kernel (Relative relative, Inputs in, const OrtrainCudaAttentionRow *rows, void *to,
                             OrtrainDType dtype, OrtrainAccumulate accumulate)
{
  const OrtrainCudaAttention &attention = relative.attention;
  const OrtrainCudaPositions &positions = relative.positions[K];
  const OrtrainCudaAttentionSide &content = K == ORTRAIN_CUDA_POSITION_KEYS ? attention.q : attention.k;
  const void *x = K == ORTRAIN_CUDA_POSITION_KEYS ? in.in.q : in.in.k;
  const gint32 *table = in.tables[K];
  const gint64 lane = threadIdx.x % ORTRAIN_CUDA_WARP, width = positions.side.width, n_keys = attention.n_keys;
  const gint64 chunks = (width + ORTRAIN_CUDA_WARP - 1) / ORTRAIN_CUDA_WARP;
  const Dropout<FORM> dropout (attention, in.in);
  for (gint64 r = ortrain_cuda_first () / ORTRAIN_CUDA_WARP; r < attention.heads * positions.n * chunks;
       r += ortrain_cuda_stride () / ORTRAIN_CUDA_WARP)
    {
      const gint64 column = r % chunks * ORTRAIN_CUDA_WARP + lane, position = r / chunks % positions.n;
      const gint64 head = r / chunks / positions.n;
      const gint64 at = head * positions.side.head_step + position * positions.side.pitch + column;
      float sum = column < width && accumulate.is_set () ? ortrain_load_any (to, at, dtype) : 0.0f;
      for (gint64 i = 0; i < attention.n_queries * n_keys; i += ORTRAIN_CUDA_WARP)
        {
          const bool reads = i + lane < attention.n_queries * n_keys && table[i + lane] == position;
          for (unsigned all = __ballot_sync (ORTRAIN_CUDA_ALL, reads); all != 0; all &= all - 1)
            {
              const gint64 entry = i + __ffs ((int) all) - 1, row = entry / n_keys, key = entry % n_keys;
              for (gint64 batch = 0; batch < attention.batch; batch++)
                {
                  const Place place (batch, head);
                  const float ds = find_score_gradient (relative, in, place, dropout, row, key, rows);
                  const gint64 from =
                      place.base (content) + (K == ORTRAIN_CUDA_POSITION_KEYS ? row : key) * content.pitch + column;
                  if (column < width)
                    sum += ds * positions.scale * ortrain_load_any (x, from, content.dtype);
                }
            }
        }
      if (column < width)
        ortrain_store_any (to, at, dtype, sum);
    }
}

static gint64
count_parts_blocks (const OrtrainCudaRelativeAttention *relative)
{
  const gint64 chunks = (relative->attention.q.width + CHUNK - 1) / CHUNK;
  return relative->attention.heads * ((relative->n_differences + TILE - 1) / TILE) * MAX (1, chunks);
}

gint64
ortrain_cuda_position_gradients_count_parts (const OrtrainCudaRelativeAttention *relative)
{
  return CLAMP (BLOCKS / MAX (1, count_parts_blocks (relative)), 1, MAX (1, relative->attention.batch));
}

template <Form FORM>
static void
launch (const OrtrainKernelCall *call, const OrtrainCudaRelativeAttention *relative,
        const OrtrainCudaRelativeInputs *in, const OrtrainCudaPositionGradients *plan,
        const OrtrainCudaAttentionRow *rows, float *const *sums, void *const *gradients)
{
  const gint64 n_blocks = plan->parts * count_parts_blocks (relative);
  if ((sums[0] != NULL || sums[1] != NULL) && n_blocks > 0)
    ortrain_cuda_launch (call, "relative-differences", (unsigned) n_blocks, THREADS, relative_differences_kernel<FORM>,
                         *relative, *in, plan->parts, rows, sums[0], sums[1]);
  for (int i = 0; i < ORTRAIN_CUDA_N_POSITIONS; i++)
    {
      const OrtrainCudaPositions *positions = &relative->positions[i];
      const gint64 n = relative->attention.heads * positions->n, per_block = ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP;
      const gint64 chunks = (positions->side.width + ORTRAIN_CUDA_WARP - 1) / ORTRAIN_CUDA_WARP;
      const OrtrainAccumulate accumulate = ortrain_cuda_get_accumulate (call, (guint) (3 + i));
      if (gradients[i] == NULL)
        continue;
      if (positions->is_compact)
        ortrain_cuda_launch (call, "relative-positions", ortrain_cuda_grid (call, n, per_block), ORTRAIN_CUDA_BLOCK,
                             relative_positions_kernel, *positions, relative->attention.heads, relative->n_differences,
                             in->tables[i], plan->parts, sums[i], gradients[i], plan->dtype[i], accumulate);
      else
        ortrain_cuda_launch (
            call, "relative-entries", ortrain_cuda_grid (call, n * chunks, per_block), ORTRAIN_CUDA_BLOCK,
            i == ORTRAIN_CUDA_POSITION_KEYS ? relative_entries_kernel<ORTRAIN_CUDA_POSITION_KEYS, FORM>
                                            : relative_entries_kernel<ORTRAIN_CUDA_POSITION_QUERIES, FORM>,
            *relative, *in, rows, gradients[i], plan->dtype[i], accumulate);
    }
}

void
ortrain_cuda_relative_attention_positions (const OrtrainKernelCall *call, const OrtrainCudaRelativeAttention *relative,
                                           const OrtrainCudaRelativeInputs *in,
                                           const OrtrainCudaPositionGradients *plan,
                                           const OrtrainCudaAttentionRow *rows, float *const *sums,
                                           void *const *gradients)
{
  (relative->attention.dropout.is_used ? launch<FORM_RELATIVE_DROPOUT>
                                       : launch<FORM_RELATIVE>) (call, relative, in, plan, rows, sums, gradients);
}
