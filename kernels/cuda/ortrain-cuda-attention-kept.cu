/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-tiles.h"

/* The mask of dropout in memory, for kernels that read it. It has the random numbers of the kernels that draw them
 * themselves. */

#define KEPT_WIDTH 8 /* elements of a thread: two blocks of Philox, 16 bytes */

/* kept: elements `first` to first + n - 1 of [batch, heads, queries, keys]: 1, with the bits of `one`, or 0. factors:
 * [0] the factor by which kept probabilities are multiplied, [ORTRAIN_CUDA_KEPT_STEP] its inverse. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    attention_kept_kernel (OrtrainCudaAttention attention, OrtrainCudaAttentionInputs in, gint64 first, gint64 n,
                           guint16 one, guint16 *kept, float *factors)
{
  const Dropout<FORM_DROPOUT> dropout (attention, in);
  const gint64 last = first + n, from = first / KEPT_WIDTH, to = (last + KEPT_WIDTH - 1) / KEPT_WIDTH;
  const bool whole = first % KEPT_WIDTH == 0;
  if (ortrain_cuda_first () == 0)
    {
      factors[0] = dropout.drops ? dropout.kept : 1.0f;
      factors[ORTRAIN_CUDA_KEPT_STEP] = 1 / factors[0];
    }
  for (gint64 i = from + ortrain_cuda_first (); i < to; i += ortrain_cuda_stride ())
    {
      guint32 words[KEPT_WIDTH];
      OrtrainPack<guint16, KEPT_WIDTH> pack;
      if (dropout.drops)
        {
          ortrain_philox (&dropout.key, (guint64) (2 * i), words);
          ortrain_philox (&dropout.key, (guint64) (2 * i + 1), words + 4);
        }
#pragma unroll
      for (int j = 0; j < KEPT_WIDTH; j++)
        pack.at[j] = !dropout.drops || dropout.keeps (words[j]) ? one : 0;
      const gint64 at = i * KEPT_WIDTH - first;
      if (whole && at + KEPT_WIDTH <= n)
        {
          *(OrtrainPack<guint16, KEPT_WIDTH> *) (kept + at) = pack;
          continue;
        }
      for (int j = 0; j < KEPT_WIDTH; j++)
        if (at + j >= 0 && at + j < n)
          kept[at + j] = pack.at[j];
    }
}

void
ortrain_cuda_attention_write_kept (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                   const OrtrainCudaAttentionInputs *in, gint64 first, gint64 n, void *kept,
                                   float *factors)
{
  const guint16 one = attention->q.dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x3c00 : 0x3f80;
  ortrain_cuda_launch (
      call, "attention-kept", ortrain_cuda_grid (call, (n + KEPT_WIDTH - 1) / KEPT_WIDTH + 1, ORTRAIN_CUDA_BLOCK),
      ORTRAIN_CUDA_BLOCK, attention_kept_kernel, *attention, *in, first, n, one, (guint16 *) kept, factors);
}
