/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

#include "cuda/ortrain-cuda-attention-private.h"

#include <math.h>

/* A warp for each row of the bias, and of the result. */

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    attention_bias_kernel (OrtrainCudaAttention attention, gint64 bias_batch, gint64 bias_heads, const void *mask,
                           void *bias, OrtrainDType bias_dtype, guint8 *sights, gint32 *queries, gint32 *keys)
{
  const gint64 n_rows = bias_batch * bias_heads * attention.n_queries, lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const float lowest = bias_dtype == ORTRAIN_DTYPE_FLOAT16 ? -65504.0f : -1e30f;
  for (gint64 i = ortrain_cuda_first (); i < attention.batch; i += ortrain_cuda_stride ())
    {
      queries[i] = (gint32) attention.n_queries;
      keys[i] = (gint32) attention.n_keys;
    }
  for (gint64 r = ortrain_cuda_first () / ORTRAIN_CUDA_WARP; r < n_rows;
       r += ortrain_cuda_stride () / ORTRAIN_CUDA_WARP)
    {
      const gint64 row = r % attention.n_queries, head = r / attention.n_queries % bias_heads;
      const gint64 batch = r / attention.n_queries / bias_heads;
      const gint64 at = batch * attention.mask.batch + head * attention.mask.head + row * attention.mask.row;
      bool is_open = false, is_seen = false;
      for (gint64 key = lane; key < attention.n_keys; key += ORTRAIN_CUDA_WARP)
        {
          const gint64 i = at + key * attention.mask.key;
          float value;
          if (attention.mask.dtype == ORTRAIN_DTYPE_BOOL)
            value = ((const guint8 *) mask)[i] ? 0.0f : attention.masked_value;
          else
            value = ortrain_load_any (mask, i, attention.mask.dtype);
          is_open = is_open || !(value == -INFINITY);
          is_seen = is_seen || !(value < ORTRAIN_CUDA_ATTENTION_LOST);
          ortrain_store_any (bias, r * attention.n_keys + key, bias_dtype, value < lowest ? lowest : value);
        }
      const bool any_open = __any_sync (ORTRAIN_CUDA_ALL, is_open) != 0;
      const bool any_seen = __any_sync (ORTRAIN_CUDA_ALL, is_seen) != 0;
      if (lane == 0)
        sights[r] = any_seen ? ORTRAIN_CUDA_SIGHT_OPEN : any_open ? ORTRAIN_CUDA_SIGHT_BLIND : ORTRAIN_CUDA_SIGHT_NONE;
    }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    attention_guard_kernel (OrtrainCudaAttention attention, gint64 bias_batch, gint64 bias_heads, const guint8 *sights,
                            void *y, float *lse)
{
  const gint64 n_rows = attention.batch * attention.heads * attention.n_queries, lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  for (gint64 r = ortrain_cuda_first () / ORTRAIN_CUDA_WARP; r < n_rows;
       r += ortrain_cuda_stride () / ORTRAIN_CUDA_WARP)
    {
      const gint64 row = r % attention.n_queries, head = r / attention.n_queries % attention.heads;
      const gint64 batch = r / attention.n_queries / attention.heads;
      const gint64 of_mask =
          ((bias_batch > 1 ? batch : 0) * bias_heads + (bias_heads > 1 ? head : 0)) * attention.n_queries + row;
      const float before = lse[r];
      const bool is_open = sights[of_mask] != ORTRAIN_CUDA_SIGHT_NONE, nan = before != before;
      if (is_open && !(nan && attention.guard == ORTRAIN_CUDA_GUARD_NAN))
        continue;
      const float value = attention.guard != ORTRAIN_CUDA_GUARD_NONE ? 0.0f : NAN;
      const gint64 base = batch * attention.y.batch_step + head * attention.y.head_step + row * attention.y.pitch;
      for (gint64 i = lane; i < attention.y.width; i += ORTRAIN_CUDA_WARP)
        ortrain_store_any (y, base + i, attention.y.dtype, value);
      __syncwarp ();
      if (lane == 0)
        lse[r] = attention.guard != ORTRAIN_CUDA_GUARD_NONE ? INFINITY : NAN;
    }
}

void
ortrain_cuda_attention_write_bias (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                   gint64 bias_batch, gint64 bias_heads, const void *mask, void *bias,
                                   OrtrainDType bias_dtype, guint8 *sights, gint32 *queries, gint32 *keys)
{
  const gint64 n_rows = bias_batch * bias_heads * attention->n_queries;
  ortrain_cuda_launch (call, "attention-bias", ortrain_cuda_grid (call, n_rows, ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP),
                       ORTRAIN_CUDA_BLOCK, attention_bias_kernel, *attention, bias_batch, bias_heads, mask, bias,
                       bias_dtype, sights, queries, keys);
}

void
ortrain_cuda_attention_guard (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention, gint64 bias_batch,
                              gint64 bias_heads, const guint8 *sights, void *y, float *lse)
{
  const gint64 n_rows = attention->batch * attention->heads * attention->n_queries;
  ortrain_cuda_launch (call, "attention-guard",
                       ortrain_cuda_grid (call, n_rows, ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP), ORTRAIN_CUDA_BLOCK,
                       attention_guard_kernel, *attention, bias_batch, bias_heads, sights, y, lse);
}
