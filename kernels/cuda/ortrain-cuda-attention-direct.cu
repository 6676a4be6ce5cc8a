/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-tiles.h"

/* Attention without a matrix of scores, in float32. */

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
  return !any_thread (is_blind, scratch);
}

template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS)
    attention_forward_kernel (OrtrainCudaAttention attention, OrtrainCudaAttentionInputs in, void *y, void *lse)
{
  ORTRAIN_CUDA_SHARED (Quad, q_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, turned_quads, SIDE * TILE / 4);
  float *own = (float *) q_quads, *side = (float *) side_quads, *turned = (float *) turned_quads;
  const Place place (attention, attention.n_queries, attention.v.width);
  const Rows queries = { place.first, attention.n_queries };
  const gint64 end = find_end (attention, place.first), q_base = place.base (attention.q);
  float s[4][4], o[4][8] = { { 0 } };
  Softmax softmax;
  const Dropout<FORM> dropout (attention, in);
  if (is_skipped (attention, place, place.first, place.first + TILE, turned))
    return;
  load_turned<TILE> (own, in.q, attention.q, q_base, queries, 0);
  for (gint64 key = 0; key < end; key += SIDE)
    {
      const Rows keys = { key, attention.n_keys };
      make_scores<true> (s, own, side, in.q, attention.q, q_base, queries, in.k, attention.k, place.base (attention.k),
                         keys);
      soften<FORM> (attention, in, place, key, dropout, s, &softmax, o);
      __syncthreads ();
      store_turned (turned, s);
      load_rows<SIDE> (side, in.v, attention.v, place.base (attention.v), keys, place.column);
      __syncthreads ();
      add_product (o, turned, side);
    }
  store_rows (attention, place, softmax, o, y, lse);
}

/* The first pass over the keys makes dots: the sum of p · dp of a row; the second one dq. Before them comes one for
 * rows that have lost their lse. rows: the numbers of rows that the kernel of keys and values needs. */
template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS) attention_queries_kernel (OrtrainCudaAttention attention, OrtrainCudaAttentionInputs in,
                                                      OrtrainDType dq_dtype, void *dq, OrtrainCudaAttentionRow *rows)
{
  ORTRAIN_CUDA_SHARED (Quad, q_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, dy_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, turned_quads, SIDE * TILE / 4);
  float *own = (float *) q_quads, *own_dy = (float *) dy_quads, *side = (float *) side_quads;
  float *turned = (float *) turned_quads;
  const Place place (attention, attention.n_queries, attention.q.width);
  const gint64 end = find_end (attention, place.first), n = attention.n_queries;
  const Rows queries = { place.first, n };
  float s[4][4], dp[4][4], o[4][8] = { { 0 } };
  Statistics statistics (attention, place, in.lse);
  const Dropout<FORM> dropout (attention, in);
  if (is_skipped (attention, place, 0, n, turned))
    return;
  const bool any_lost = any_thread (statistics.any_lost (), turned);
  load_turned<TILE> (own, in.q, attention.q, place.base (attention.q), queries, 0);
  load_turned<TILE> (own_dy, in.dy, attention.y, place.base (attention.y), queries, 0);
#pragma unroll 1
  for (int pass = any_lost ? -1 : 0; pass < (dq != NULL ? 2 : 1); pass++)
    {
#pragma unroll 1
      for (gint64 key = 0; key < end; key += SIDE)
        {
          const Rows keys = { key, attention.n_keys };
          make_scores<true> (s, own, side, in.q, attention.q, place.base (attention.q), queries, in.k, attention.k,
                             place.base (attention.k), keys);
          if (pass < 0)
            {
              find_again<FORM> (attention, in, place, key, s, &statistics);
              continue;
            }
          make_scores<true> (dp, own_dy, side, in.dy, attention.y, place.base (attention.y), queries, in.v, attention.v,
                             place.base (attention.v), keys);
          differentiate<FORM> (attention, in, place, key, pass, dropout, s, dp, &statistics);
          if (pass == 0)
            continue;
          __syncthreads ();
          store_turned (turned, s);
          load_rows<SIDE> (side, in.k, attention.k, place.base (attention.k), keys, place.column);
          __syncthreads ();
          add_product (o, turned, side);
        }
      finish_pass (attention, place, pass, &statistics, rows);
    }
  if (dq != NULL)
    store_product (dq, attention.q, dq_dtype, place, n, o, attention.scale);
}

template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS)
    attention_keys_kernel (OrtrainCudaAttention attention, OrtrainCudaAttentionInputs in, OrtrainDType dk_dtype,
                           OrtrainDType dv_dtype, const OrtrainCudaAttentionRow *rows, void *dk, void *dv)
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
  const Rows keys = { place.first, n_keys };
  const Dropout<FORM> dropout (attention, in);
  float s[4][4], dp[4][4], o_k[4][8] = { { 0 } }, o_v[4][8] = { { 0 } };
  if (is_skipped (attention, place, 0, n, turned))
    return;
  load_turned<TILE> (own_k, in.k, attention.k, place.base (attention.k), keys, 0);
  load_turned<TILE> (own_v, in.v, attention.v, place.base (attention.v), keys, 0);
#pragma unroll 1
  for (gint64 row = before > 0 ? before / SIDE * SIDE : 0; row < n; row += SIDE)
    {
      const Rows queries = { row, n };
      make_scores<true> (s, own_k, side, in.k, attention.k, place.base (attention.k), keys, in.q, attention.q,
                         place.base (attention.q), queries);
      make_scores<true> (dp, own_v, side, in.v, attention.v, place.base (attention.v), keys, in.dy, attention.y,
                         place.base (attention.y), queries);
      differentiate_keys<FORM> (attention, in, place, row, rows, dropout, s, dp);
      __syncthreads ();
      store_turned (turned, s);
      load_rows<SIDE> (side, in.dy, attention.y, place.base (attention.y), queries, place.column);
      __syncthreads ();
      add_product (o_v, turned, side);
      __syncthreads ();
      store_turned (turned, dp);
      load_rows<SIDE> (side, in.q, attention.q, place.base (attention.q), queries, place.column);
      __syncthreads ();
      add_product (o_k, turned, side);
    }
  if (dk != NULL)
    store_product (dk, attention.k, dk_dtype, place, n_keys, o_k, attention.scale);
  if (dv != NULL)
    store_product (dv, attention.v, dv_dtype, place, n_keys, o_v, 1);
}

template <Form FORM>
static void
launch_forward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                const OrtrainCudaAttentionInputs *in, void *y, void *lse)
{
  ortrain_cuda_launch (call, "attention", count_blocks (attention, attention->n_queries, attention->v.width), THREADS,
                       attention_forward_kernel<FORM>, *attention, *in, y, lse);
}

void
ortrain_cuda_attention_forward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                const OrtrainCudaAttentionInputs *in, void *y, void *lse)
{
  (attention->dropout.is_used                         ? launch_forward<FORM_DROPOUT>
   : attention->bias.dtype != ORTRAIN_DTYPE_UNDEFINED ? launch_forward<FORM_BIAS>
                                                      : launch_forward<FORM_PLAIN>) (call, attention, in, y, lse);
}

template <Form FORM>
static void
launch_backward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                 const OrtrainCudaAttentionInputs *in, const OrtrainDType *dtypes, void *const *gradients,
                 OrtrainCudaAttentionRow *rows)
{
  const gint64 width = attention->k.width > attention->v.width ? attention->k.width : attention->v.width;
  ortrain_cuda_launch (call, "attention-queries", count_blocks (attention, attention->n_queries, attention->q.width),
                       THREADS, attention_queries_kernel<FORM>, *attention, *in, dtypes[0], gradients[0], rows);
  if (gradients[1] != NULL || gradients[2] != NULL)
    ortrain_cuda_launch (call, "attention-keys", count_blocks (attention, attention->n_keys, width), THREADS,
                         attention_keys_kernel<FORM>, *attention, *in, dtypes[1], dtypes[2], rows, gradients[1],
                         gradients[2]);
}

void
ortrain_cuda_attention_backward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                 const OrtrainCudaAttentionInputs *in, const OrtrainDType *dtypes,
                                 void *const *gradients, OrtrainCudaAttentionRow *rows)
{
  (attention->dropout.is_used ? launch_backward<FORM_DROPOUT>
   : attention->bias.dtype != ORTRAIN_DTYPE_UNDEFINED
       ? launch_backward<FORM_BIAS>
       : launch_backward<FORM_PLAIN>) (call, attention, in, dtypes, gradients, rows);
}
