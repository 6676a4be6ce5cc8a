/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-relative-attention-tiles.h"

/* Relative attention without a matrix of scores, or of products with positions, in float32. */

template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS)
    relative_forward_kernel (OrtrainCudaRelativeAttention relative, OrtrainCudaRelativeInputs in, void *y, void *lse)
{
  ORTRAIN_CUDA_SHARED (Quad, q_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, band_quads, CHUNK * BAND / 4);
  float *own = (float *) q_quads, *side = (float *) side_quads, *band = (float *) band_quads;
  const OrtrainCudaAttention &attention = relative.attention;
  const Place place (attention, attention.n_queries, attention.v.width);
  const gint64 end = find_end (attention, place.first);
  float s[4][4], o[4][8] = { { 0 } };
  const Dropout<FORM> dropout (attention, in.in);
  Softmax softmax;
  load_turned<TILE> (own, in.in.q, attention.q, place.base (attention.q), Rows{ place.first, attention.n_queries }, 0);
#pragma unroll 1
  for (gint64 key = 0; key < end; key += SIDE)
    {
      make_sum<TILE_QUERIES> (relative, in, place, key, s, own, side, band);
      soften<FORM> (attention, in.in, place, key, dropout, s, &softmax, o);
      __syncthreads ();
      store_turned (band, s);
      load_rows<SIDE> (side, in.in.v, attention.v, place.base (attention.v), Rows{ key, attention.n_keys },
                       place.column);
      __syncthreads ();
      add_product (o, band, side);
    }
  store_rows (attention, place, softmax, o, y, lse);
}

/* As attention_queries_kernel. */
template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS, 2)
    relative_queries_kernel (OrtrainCudaRelativeAttention relative, OrtrainCudaRelativeInputs in, OrtrainDType dq_dtype,
                             void *dq, OrtrainCudaAttentionRow *rows)
{
  ORTRAIN_CUDA_SHARED (Quad, q_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, band_quads, CHUNK * BAND / 4);
  float *own = (float *) q_quads, *side = (float *) side_quads, *band = (float *) band_quads;
  const OrtrainCudaAttention &attention = relative.attention;
  const Place place (attention, attention.n_queries, attention.q.width);
  const gint64 end = find_end (attention, place.first), n = attention.n_queries;
  const Rows queries = { place.first, n };
  float s[4][4], dp[4][4], o[4][8] = { { 0 } };
  const Dropout<FORM> dropout (attention, in.in);
  Statistics statistics (attention, place, in.in.lse);
  const bool any_lost = any_thread (statistics.any_lost (), side);
  load_turned<TILE> (own, in.in.q, attention.q, place.base (attention.q), queries, 0);
#pragma unroll 1
  for (int pass = any_lost ? -1 : 0; pass < (dq != NULL ? 2 : 1); pass++)
    {
#pragma unroll 1
      for (gint64 key = 0; key < end; key += SIDE)
        {
          const Rows keys = { key, attention.n_keys };
          make_sum<TILE_QUERIES> (relative, in, place, key, s, own, side, band);
          if (pass < 0)
            {
              find_again<FORM> (attention, in.in, place, key, s, &statistics);
              continue;
            }
          make_scores<false> (dp, band, side, in.in.dy, attention.y, place.base (attention.y), queries, in.in.v,
                              attention.v, place.base (attention.v), keys);
          differentiate<FORM> (attention, in.in, place, key, pass, dropout, s, dp, &statistics);
          if (pass == 0)
            continue;
          __syncthreads ();
          store_turned (side, s);
          load_rows<SIDE> (band, in.in.k, attention.k, place.base (attention.k), keys, place.column, attention.scale);
          __syncthreads ();
          add_product (o, side, band);
          add_position_product<TILE_QUERIES> (relative, in, place, key, o, side, band);
        }
      finish_pass (attention, place, pass, &statistics, rows);
    }
  if (dq != NULL)
    store_product (dq, attention.q, dq_dtype, place, n, o, 1);
}

template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS)
    relative_keys_kernel (OrtrainCudaRelativeAttention relative, OrtrainCudaRelativeInputs in, OrtrainDType dk_dtype,
                          OrtrainDType dv_dtype, const OrtrainCudaAttentionRow *rows, void *dk, void *dv)
{
  ORTRAIN_CUDA_SHARED (Quad, k_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  ORTRAIN_CUDA_SHARED (Quad, band_quads, CHUNK * BAND / 4);
  float *own = (float *) k_quads, *side = (float *) side_quads, *band = (float *) band_quads;
  const OrtrainCudaAttention &attention = relative.attention;
  const gint64 width = attention.k.width > attention.v.width ? attention.k.width : attention.v.width;
  const Place place (attention, attention.n_keys, width);
  const gint64 n = attention.n_queries, n_keys = attention.n_keys;
  const gint64 before = attention.mask_kind == ORTRAIN_CUDA_MASK_CAUSAL ? place.first - attention.diagonal : 0;
  const Rows keys = { place.first, n_keys };
  const Dropout<FORM> dropout (attention, in.in);
  float s[4][4], dp[4][4], o_k[4][8] = { { 0 } }, o_v[4][8] = { { 0 } };
  load_turned<TILE> (own, in.in.k, attention.k, place.base (attention.k), keys, 0);
#pragma unroll 1
  for (gint64 row = before > 0 ? before / SIDE * SIDE : 0; row < n; row += SIDE)
    {
      const Rows queries = { row, n };
      make_sum<TILE_KEYS> (relative, in, place, row, s, own, side, band);
      make_scores<false> (dp, band, side, in.in.v, attention.v, place.base (attention.v), keys, in.in.dy, attention.y,
                          place.base (attention.y), queries);
      differentiate_keys<FORM> (attention, in.in, place, row, rows, dropout, s, dp);
      __syncthreads ();
      store_turned (side, s);
      load_rows<SIDE> (band, in.in.dy, attention.y, place.base (attention.y), queries, place.column);
      __syncthreads ();
      add_product (o_v, side, band);
      __syncthreads ();
      store_turned (side, dp);
      load_rows<SIDE> (band, in.in.q, attention.q, place.base (attention.q), queries, place.column, attention.scale);
      __syncthreads ();
      add_product (o_k, side, band);
      add_position_product<TILE_KEYS> (relative, in, place, row, o_k, side, band);
    }
  if (dk != NULL)
    store_product (dk, attention.k, dk_dtype, place, n_keys, o_k, 1);
  if (dv != NULL)
    store_product (dv, attention.v, dv_dtype, place, n_keys, o_v, 1);
}

template <Form FORM>
static void
launch_forward (const OrtrainKernelCall *call, const OrtrainCudaRelativeAttention *relative,
                const OrtrainCudaRelativeInputs *in, void *y, void *lse)
{
  const OrtrainCudaAttention *attention = &relative->attention;
  ortrain_cuda_launch (call, "relative-attention", count_blocks (attention, attention->n_queries, attention->v.width),
                       THREADS, relative_forward_kernel<FORM>, *relative, *in, y, lse);
}

void
ortrain_cuda_relative_attention_forward (const OrtrainKernelCall *call, const OrtrainCudaRelativeAttention *relative,
                                         const OrtrainCudaRelativeInputs *in, void *y, void *lse)
{
  (relative->attention.dropout.is_used ? launch_forward<FORM_RELATIVE_DROPOUT>
                                       : launch_forward<FORM_RELATIVE>) (call, relative, in, y, lse);
}

template <Form FORM>
static void
launch_backward (const OrtrainKernelCall *call, const OrtrainCudaRelativeAttention *relative,
                 const OrtrainCudaRelativeInputs *in, const OrtrainDType *dtypes, void *const *gradients,
                 OrtrainCudaAttentionRow *rows)
{
  const OrtrainCudaAttention *attention = &relative->attention;
  const gint64 width = attention->k.width > attention->v.width ? attention->k.width : attention->v.width;
  ortrain_cuda_launch (call, "relative-queries", count_blocks (attention, attention->n_queries, attention->q.width),
                       THREADS, relative_queries_kernel<FORM>, *relative, *in, dtypes[0], gradients[0], rows);
  if (gradients[1] != NULL || gradients[2] != NULL)
    ortrain_cuda_launch (call, "relative-keys", count_blocks (attention, attention->n_keys, width), THREADS,
                         relative_keys_kernel<FORM>, *relative, *in, dtypes[1], dtypes[2], rows, gradients[1],
                         gradients[2]);
}

void
ortrain_cuda_relative_attention_backward (const OrtrainKernelCall *call, const OrtrainCudaRelativeAttention *relative,
                                          const OrtrainCudaRelativeInputs *in, const OrtrainDType *dtypes,
                                          void *const *gradients, OrtrainCudaAttentionRow *rows)
{
  (relative->attention.dropout.is_used ? launch_backward<FORM_RELATIVE_DROPOUT>
                                       : launch_backward<FORM_RELATIVE>) (call, relative, in, dtypes, gradients, rows);
}
