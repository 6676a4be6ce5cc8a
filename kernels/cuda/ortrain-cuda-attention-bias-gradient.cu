/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-tiles.h"

/* The gradient of a bias, in its own shape: a block has a tile of it, makes the gradients of scores anew for all heads
 * and samples that share it, one after the other, and adds them up in its registers. Where tiles are few, several
 * blocks take parts of the heads, and their sums are added in order. */

static __device__ float
add_rows (float x, float *scratch) /* scratch: [THREADS], shared; of a column: all rows of the tile */
{
  scratch[threadIdx.x] = x;
  __syncthreads ();
  float sum = 0;
  for (int row = 0; row < THREADS / 8; row++)
    sum += scratch[row * 8 + threadIdx.x % 8];
  __syncthreads ();
  return sum;
}

/* sums: of this part, or NULL, and dbias is written. */
template <Form FORM>
static __global__ void
__launch_bounds__ (THREADS)
    attention_bias_gradient_kernel (OrtrainCudaAttention attention, OrtrainCudaAttentionInputs in,
                                    OrtrainCudaBiasGradient plan, const OrtrainCudaAttentionRow *rows, float *sums,
                                    void *dbias, OrtrainAccumulate accumulate)
{
  ORTRAIN_CUDA_SHARED (Quad, own_quads, CHUNK * TILE / 4);
  ORTRAIN_CUDA_SHARED (Quad, side_quads, CHUNK * SIDE / 4);
  float *own = (float *) own_quads, *side = (float *) side_quads;
  const OrtrainCudaAttentionAddend &bias = attention.bias;
  gint64 block = blockIdx.x;
  const gint64 first_key = block % plan.key_tiles * SIDE;
  block /= plan.key_tiles;
  const gint64 first_row = block % plan.row_tiles * TILE;
  block /= plan.row_tiles;
  const gint64 slice = block % plan.slices, part = block / plan.slices;
  const gint64 heads = bias.head != 0 ? 1 : attention.heads; /* of a slice */
  const gint64 slice_heads = bias.head != 0 ? attention.heads : 1;
  const gint64 last_row = bias.row != 0 ? first_row + 1 : attention.n_queries;
  const gint64 last_key = bias.key != 0 ? first_key + 1 : attention.n_keys;
  const Dropout<FORM> dropout (attention, in);
  float s[4][4], dp[4][4], sum[4][4] = { { 0 } };
  for (gint64 m = part * plan.members / plan.parts; m < (part + 1) * plan.members / plan.parts; m++)
    {
      Place place (bias.batch != 0 ? slice / slice_heads : m / heads, bias.head != 0 ? slice % slice_heads : m % heads);
      for (gint64 row = first_row; row < last_row && row < attention.n_queries; row += TILE)
        {
          const Rows queries = { row, attention.n_queries };
          const gint64 end = find_end (attention, row);
          place.first = row;
#pragma unroll 1
          for (gint64 key = first_key; key < last_key && key < end; key += SIDE)
            {
              const Rows keys = { key, attention.n_keys };
              make_scores<false> (s, own, side, in.q, attention.q, place.base (attention.q), queries, in.k, attention.k,
                                  place.base (attention.k), keys);
              make_scores<false> (dp, own, side, in.dy, attention.y, place.base (attention.y), queries, in.v,
                                  attention.v, place.base (attention.v), keys);
#pragma unroll
              for (int i = 0; i < 4; i++)
                {
                  const gint64 query = row + my_row () + i;
                  OrtrainCudaAttentionRow statistics = { 0, 0, 0 };
                  if (query < attention.n_queries)
                    statistics = rows[number_row (attention, place, query)];
                  drop_row (attention, place, dropout, query, key + my_column (), dp[i]);
#pragma unroll
                  for (int j = 0; j < 4; j++)
                    {
                      bool open;
                      const float p = find_probability<FORM> (attention, in, place, query, key + my_column () + j,
                                                              s[i][j], statistics.shift, statistics.factor, &open);
                      sum[i][j] += find_gradient<FORM> (attention, p, dp[i][j], statistics.dot, open);
                    }
                }
            }
        }
    }
  if (bias.key == 0)
#pragma unroll
    for (int i = 0; i < 4; i++)
      sum[i][0] = row_sum (sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3]);
  __syncthreads ();
  if (bias.row == 0)
#pragma unroll
    for (int j = 0; j < 4; j++)
      sum[0][j] = add_rows (sum[0][j] + sum[1][j] + sum[2][j] + sum[3][j], side);
  const Place place (bias.batch != 0 ? slice / slice_heads : 0, bias.head != 0 ? slice % slice_heads : 0);
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      {
        const gint64 row = first_row + my_row () + i, key = first_key + my_column () + j;
        if (bias.row != 0 ? row >= attention.n_queries : row != 0)
          continue;
        if (bias.key != 0 ? key >= attention.n_keys : key != 0)
          continue;
        const gint64 at = find_addend (bias, place, row, key);
        if (sums != NULL)
          sums[part * plan.n_elements + at] = sum[i][j];
        else
          ortrain_store_any (dbias, at, plan.dtype,
                             sum[i][j] + (accumulate.is_set () ? ortrain_load_any (dbias, at, plan.dtype) : 0.0f));
      }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) attention_bias_sum_kernel (OrtrainCudaBiasGradient plan, const float *sums,
                                                                  void *dbias, OrtrainAccumulate accumulate)
{
  for (gint64 i = ortrain_cuda_first (); i < plan.n_elements; i += ortrain_cuda_stride ())
    {
      float sum = accumulate.is_set () ? ortrain_load_any (dbias, i, plan.dtype) : 0.0f;
      for (gint64 part = 0; part < plan.parts; part++)
        sum += sums[part * plan.n_elements + i];
      ortrain_store_any (dbias, i, plan.dtype, sum);
    }
}

#define BLOCKS 256 /* as many as fill a device */

void
ortrain_cuda_bias_gradient_plan (OrtrainCudaBiasGradient *self, const OrtrainCudaAttention *attention,
                                 OrtrainDType dtype, gint64 n_elements)
{
  const OrtrainCudaAttentionAddend *bias = &attention->bias;
  self->dtype = dtype;
  self->n_elements = n_elements;
  self->slices = (bias->batch != 0 ? attention->batch : 1) * (bias->head != 0 ? attention->heads : 1);
  self->members = (bias->batch != 0 ? 1 : attention->batch) * (bias->head != 0 ? 1 : attention->heads);
  self->row_tiles = bias->row != 0 ? (attention->n_queries + TILE - 1) / TILE : 1;
  self->key_tiles = bias->key != 0 ? (attention->n_keys + SIDE - 1) / SIDE : 1;
  self->parts = CLAMP (BLOCKS / MAX (1, self->slices * self->row_tiles * self->key_tiles), 1, MAX (1, self->members));
}

void
ortrain_cuda_attention_bias_gradient (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                      const OrtrainCudaAttentionInputs *in, const OrtrainCudaBiasGradient *plan,
                                      const OrtrainCudaAttentionRow *rows, float *sums, void *dbias, guint output)
{
  const gint64 n_blocks = plan->parts * plan->slices * plan->row_tiles * plan->key_tiles;
  if (n_blocks <= 0)
    return;
  ortrain_cuda_launch (call, "attention-bias-gradient", (unsigned) n_blocks, THREADS,
                       attention->dropout.is_used ? attention_bias_gradient_kernel<FORM_DROPOUT>
                                                  : attention_bias_gradient_kernel<FORM_BIAS>,
                       *attention, *in, *plan, rows, plan->parts > 1 ? sums : (float *) NULL, dbias,
                       ortrain_cuda_get_accumulate (call, output));
  if (plan->parts > 1)
    ortrain_cuda_launch (call, "attention-bias-sum", ortrain_cuda_grid (call, plan->n_elements, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, attention_bias_sum_kernel, *plan, sums, dbias,
                         ortrain_cuda_get_accumulate (call, output));
}
