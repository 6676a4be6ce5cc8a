/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-graph-private.h"

#include <math.h>
#include <string.h>

/* Which operations, in which order: cuDNN takes a graph for attention by its pattern. */

typedef struct
{
  OrtrainDnnGraph *graph;
  const OrtrainCudaAttention *attention;
  const OrtrainDnnAttentionShape *shape;
  OrtrainDnnAttentionTensors *tensors;
  cudnnDataType_t type;
  gint64 rows[4], scores[4]; /* [b, h, q, 1], [b, h, q, k] */
} Composer;

static void
begin (Composer *self)
{
  const OrtrainCudaAttention *attention = self->attention;
  const gint64 scores[] = { attention->batch, attention->heads, attention->n_queries, attention->n_keys };
  memcpy (self->scores, scores, sizeof scores);
  memcpy (self->rows, scores, sizeof scores);
  self->rows[3] = 1;
  self->type = ortrain_dnn_data_type (attention->q.dtype);
  memset (self->tensors, 0xff, sizeof *self->tensors);
}

/* [b, h, length, width], or with the last two turned round. */
static int
add_side (Composer *self, const OrtrainCudaAttentionSide *side, gint64 length, gboolean turned)
{
  const gint64 dims[] = { self->attention->batch, self->attention->heads, turned ? side->width : length,
                          turned ? length : side->width };
  const gint64 strides[] = { side->batch_step, side->head_step, turned ? 1 : side->pitch, turned ? side->pitch : 1 };
  return ortrain_dnn_tensor (self->graph, self->type, 4, dims, strides);
}

static void
add_mask_operands (Composer *self)
{
  const gint64 per_sample[] = { self->attention->batch, 1, 1, 1 };
  const gint64 bias[] = { self->shape->bias_batch, self->shape->bias_heads, self->scores[2], self->scores[3] };
  if (self->shape->has_bias)
    self->tensors->bias =
        ortrain_dnn_tensor (self->graph, ortrain_dnn_data_type (self->shape->bias_dtype), 4, bias, NULL);
  if (!self->shape->has_lengths)
    return;
  self->tensors->queries = ortrain_dnn_tensor (self->graph, CUDNN_DATA_INT32, 4, per_sample, NULL);
  self->tensors->keys = ortrain_dnn_tensor (self->graph, CUDNN_DATA_INT32, 4, per_sample, NULL);
}

static int
add_number (Composer *self)
{
  static const gint64 ones[] = { 1, 1, 1, 1 };
  return ortrain_dnn_tensor (self->graph, CUDNN_DATA_FLOAT, 4, ones, NULL);
}

/* cuDNN has random numbers of its own, which its flash kernels take too. Ours are those of the other kernels and of the
 * CPU: it makes no difference which of them computes a node, or its gradient. */
static void
add_dropout_operands (Composer *self)
{
  if (!self->shape->has_dropout)
    return;
  self->tensors->kept = ortrain_dnn_tensor (self->graph, self->type, 4, self->scores, NULL);
  self->tensors->factor = add_number (self);
}

static int
add_virtual (Composer *self, const gint64 *dims, cudnnDataType_t type)
{
  return ortrain_dnn_virtual (self->graph, type, 4, dims, NULL);
}

static int
hide (Composer *self, int seen, int s)
{
  return ortrain_dnn_select (self->graph, seen, s, ortrain_dnn_scalar (self->graph, CUDNN_DATA_FLOAT, -INFINITY));
}

/* scale · q·kᵀ + bias, with -∞ past the lengths */
static int
write_scores (Composer *self)
{
  const OrtrainDnnAttentionTensors *tensors = self->tensors;
  const int product = add_virtual (self, self->scores, CUDNN_DATA_FLOAT);
  ortrain_dnn_matmul_of (self->graph, tensors->q, tensors->k, product, tensors->queries, tensors->keys, -1);
  int s = ortrain_dnn_pointwise (self->graph, CUDNN_POINTWISE_MUL, product,
                                 ortrain_dnn_scalar (self->graph, CUDNN_DATA_FLOAT, self->attention->scale));
  if (tensors->bias >= 0)
    s = ortrain_dnn_pointwise (self->graph, CUDNN_POINTWISE_ADD, s, tensors->bias);
  if (tensors->queries >= 0)
    {
      const int row = ortrain_dnn_index (self->graph, s, 2), column = ortrain_dnn_index (self->graph, s, 3);
      const int a = ortrain_dnn_compare (self->graph, CUDNN_POINTWISE_CMP_LT, row, tensors->queries);
      const int b = ortrain_dnn_compare (self->graph, CUDNN_POINTWISE_CMP_LT, column, tensors->keys);
      s = hide (self, ortrain_dnn_compare (self->graph, CUDNN_POINTWISE_LOGICAL_AND, a, b), s);
    }
  return s;
}

static int
write_causal (Composer *self, int s)
{
  if (self->attention->mask_kind != ORTRAIN_CUDA_MASK_CAUSAL)
    return s;
  const int row = ortrain_dnn_index (self->graph, s, 2), column = ortrain_dnn_index (self->graph, s, 3);
  return hide (self, ortrain_dnn_compare (self->graph, CUDNN_POINTWISE_CMP_GE, row, column), s);
}

void
ortrain_dnn_compose_attention (OrtrainDnnGraph *graph, const OrtrainCudaAttention *attention,
                               const OrtrainDnnAttentionShape *shape, OrtrainDnnAttentionTensors *tensors)
{
  Composer self = { graph, attention, shape, tensors, 0, { 0 }, { 0 } };
  begin (&self);
  tensors->q = add_side (&self, &attention->q, attention->n_queries, FALSE);
  tensors->k = add_side (&self, &attention->k, attention->n_keys, TRUE);
  tensors->v = add_side (&self, &attention->v, attention->n_keys, FALSE);
  add_mask_operands (&self);
  add_dropout_operands (&self);
  const int s = write_causal (&self, write_scores (&self));
  const int top = add_virtual (&self, self.rows, CUDNN_DATA_FLOAT);
  ortrain_dnn_reduce_into (graph, CUDNN_REDUCE_TENSOR_MAX, s, top);
  const int e = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_EXP,
                                       ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_SUB, s, top), -1);
  const int sum = add_virtual (&self, self.rows, CUDNN_DATA_FLOAT);
  ortrain_dnn_reduce_into (graph, CUDNN_REDUCE_TENSOR_ADD, e, sum);
  const int logarithm = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_LOG, sum, -1);
  tensors->stats = ortrain_dnn_tensor (graph, CUDNN_DATA_FLOAT, 4, self.rows, NULL);
  ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, logarithm, top, tensors->stats);
  const int p = add_virtual (&self, self.scores, self.type);
  if (shape->has_dropout)
    {
      const int whole = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_DIV, e, sum);
      const int larger = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, whole, tensors->factor);
      ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, larger, tensors->kept, p);
    }
  else
    ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, e, sum, p);
  tensors->y = add_side (&self, &attention->y, attention->n_queries, FALSE);
  ortrain_dnn_matmul_of (graph, p, tensors->v, tensors->y, tensors->queries, -1, tensors->keys);
}

/* x [b, h, q, k] → its transpose, in the type of operands: the same numbers, with other dimensions */
static int
turn_scores (Composer *self, int x)
{
  const gint64 q = self->scores[2], k = self->scores[3], heads = self->scores[1];
  const gint64 dims[] = { self->scores[0], heads, k, q }, strides[] = { heads * q * k, q * k, 1, k };
  const int y = ortrain_dnn_virtual (self->graph, self->type, 4, dims, strides);
  ortrain_dnn_reshape_into (self->graph, x, y);
  return y;
}

void
ortrain_dnn_compose_attention_grad (OrtrainDnnGraph *graph, const OrtrainCudaAttention *attention,
                                    const OrtrainCudaAttentionSide *y_side, const OrtrainDnnAttentionShape *shape,
                                    OrtrainDnnAttentionTensors *tensors)
{
  Composer self = { graph, attention, shape, tensors, 0, { 0 }, { 0 } };
  begin (&self);
  tensors->q = add_side (&self, &attention->q, attention->n_queries, FALSE);
  tensors->k = add_side (&self, &attention->k, attention->n_keys, TRUE);
  tensors->v = add_side (&self, &attention->v, attention->n_keys, TRUE);
  tensors->y = add_side (&self, y_side, attention->n_queries, FALSE);
  tensors->dy = add_side (&self, &attention->y, attention->n_queries, FALSE);
  tensors->stats = ortrain_dnn_tensor (graph, CUDNN_DATA_FLOAT, 4, self.rows, NULL);
  add_mask_operands (&self);
  add_dropout_operands (&self);
  if (shape->has_dropout)
    tensors->inverse = add_number (&self);

  const int both = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, tensors->dy, tensors->y);
  const int dots = add_virtual (&self, self.rows, CUDNN_DATA_FLOAT);
  ortrain_dnn_reduce_into (graph, CUDNN_REDUCE_TENSOR_ADD, both, dots);
  tensors->dots = ortrain_dnn_tensor (graph, CUDNN_DATA_FLOAT, 4, self.rows, NULL);
  ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, dots,
                              shape->has_dropout ? tensors->inverse : ortrain_dnn_scalar (graph, CUDNN_DATA_FLOAT, 1),
                              tensors->dots);

  int s = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_SUB, write_scores (&self), tensors->stats);
  s = write_causal (&self, s);
  const int p = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_EXP, s, -1);
  int dropped = p;
  if (shape->has_dropout)
    {
      dropped = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, p, tensors->kept);
      dropped = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, dropped, tensors->factor);
    }
  tensors->dv = add_side (&self, &attention->v, attention->n_keys, FALSE);
  ortrain_dnn_matmul_of (graph, turn_scores (&self, dropped), tensors->dy, tensors->dv, tensors->keys, -1,
                         tensors->queries);

  const int dp = add_virtual (&self, self.scores, CUDNN_DATA_FLOAT);
  ortrain_dnn_matmul_of (graph, tensors->dy, tensors->v, dp, tensors->queries, tensors->keys, -1);
  /* ds = factor · (dp · kept - dots / factor) · p, in which `dots` has been divided by the factor already */
  int ds = shape->has_dropout ? ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, dp, tensors->kept) : dp;
  ds = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_SUB, ds, tensors->dots);
  ds = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, ds, p);
  if (shape->has_dropout)
    ds = ortrain_dnn_pointwise (graph, CUDNN_POINTWISE_MUL, ds, tensors->factor);
  const int scaled = add_virtual (&self, self.scores, self.type);
  ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, ds,
                              ortrain_dnn_scalar (graph, CUDNN_DATA_FLOAT, attention->scale), scaled);
  tensors->dk = add_side (&self, &attention->k, attention->n_keys, FALSE);
  ortrain_dnn_matmul_of (graph, turn_scores (&self, scaled), tensors->q, tensors->dk, tensors->keys, -1,
                         tensors->queries);

  const OrtrainCudaAttentionSide *k_side = &attention->k;
  const gint64 k_dims[] = { attention->batch, attention->heads, attention->n_keys, k_side->width };
  const gint64 k_strides[] = { k_side->batch_step, k_side->head_step, k_side->pitch, 1 };
  const int k = ortrain_dnn_virtual (graph, self.type, 4, k_dims, k_strides);
  ortrain_dnn_reshape_into (graph, tensors->k, k);
  if (!shape->accumulates)
    {
      tensors->dq = add_side (&self, &attention->q, attention->n_queries, FALSE);
      ortrain_dnn_matmul_of (graph, scaled, k, tensors->dq, tensors->queries, -1, tensors->keys);
      return;
    }
  const gint64 q_dims[] = { attention->batch, attention->heads, attention->n_queries, attention->q.width };
  const gint64 q_strides[] = { attention->q.batch_step, attention->q.head_step, attention->q.pitch, 1 };
  tensors->sums = ortrain_dnn_tensor (graph, CUDNN_DATA_FLOAT, 4, q_dims, q_strides);
  ortrain_dnn_matmul_of (graph, scaled, k, tensors->sums, tensors->queries, -1, tensors->keys);
  tensors->dq = add_side (&self, &attention->q, attention->n_queries, FALSE);
  ortrain_dnn_pointwise_into (graph, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, tensors->sums, -1, tensors->dq);
}
