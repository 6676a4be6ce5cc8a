/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

/* Attention (q, k, v[, mask]) → (y, lse): softmax (scale · q·kᵀ + mask) · v, made by a pass from what exporters write.
 *
 * Attributes: scale; packed, whose bits 0 to 3 say that q, k, v, y are [batch, length, heads, width] instead of [batch,
 * heads, length, width]; masked_value, what is added where a bool mask is false; guard: rows that come out as NaN are
 * zeros (exporters write this around softmax). mask: bool or additive, broadcast to [batch, heads, queries, keys]. */
static gboolean
infer_attention (OrtrainInferContext *ctx, GError **error)
{
  gint64 packed = ortrain_attributes_get_int (ctx->node->attributes, "packed", 0);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDType kept = dtype == ORTRAIN_DTYPE_FLOAT64 ? dtype : ORTRAIN_DTYPE_FLOAT32;
  for (guint i = 0; i < 3; i++)
    if (ortrain_infer_get_rank (ctx, i) >= 0 && ortrain_infer_get_rank (ctx, i) != 4)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u has rank %d, 4 is needed", i,
                                 ortrain_infer_get_rank (ctx, i));
  if (ortrain_infer_get_rank (ctx, 0) < 0 || ortrain_infer_get_rank (ctx, 2) < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, 4);
      if (ortrain_infer_wants_output (ctx, 1))
        ortrain_infer_set_unknown (ctx, 1, kept, 3);
      return TRUE;
    }
  OrtrainDim batch = ortrain_infer_get_dim (ctx, 0, 0), width = ortrain_infer_get_dim (ctx, 2, 3);
  OrtrainDim heads = ortrain_infer_get_dim (ctx, 0, packed & 1 ? 2 : 1);
  OrtrainDim length = ortrain_infer_get_dim (ctx, 0, packed & 1 ? 1 : 2);
  OrtrainDim plain[] = { batch, heads, length, width }, swapped[] = { batch, length, heads, width };
  ortrain_infer_set (ctx, 0, dtype, packed & 8 ? swapped : plain, 4);
  if (ortrain_infer_wants_output (ctx, 1))
    ortrain_infer_set (ctx, 1, kept, plain, 3);
  return TRUE;
}

static gboolean
gradient_attention (OrtrainGradContext *ctx, GError **error)
{
  OrtrainNode *forward = ctx->node;
  OrtrainValue *dy = ortrain_grad_of_output_or_zero (ctx, 0);
  if (ortrain_node_output (forward, 1) == NULL)
    {
      ortrain_node_set_n_outputs (forward, 2);
      if (forward->outputs->pdata[1] == NULL)
        ortrain_node_set_output (forward, 1, ortrain_graph_new_value (forward->graph, NULL));
      if (!ortrain_ops_infer_node (forward, error))
        return FALSE;
    }
  OrtrainValue *operands[] = {
    dy,
    ortrain_grad_input (ctx, 0),
    ortrain_grad_input (ctx, 1),
    ortrain_grad_input (ctx, 2),
    ortrain_grad_output (ctx, 1),
    ortrain_grad_input (ctx, 3),
  };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "AttentionGrad", operands, operands[5] ? 6 : 5, 3,
                                         ortrain_attributes_copy (forward->attributes));
  for (guint i = 0; i < 3; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_grad_set (ctx, i, ortrain_node_output (node, i));
    else
      ortrain_node_drop_output (node, i);
  return TRUE;
}

static gboolean
infer_attention_grad (OrtrainInferContext *ctx, GError **error)
{
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set_like (ctx, k, k + 1);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "Attention", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 4, .min_outputs = 1,
    .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 1 << 3, .infer = infer_attention,
    .gradient = gradient_attention },
  { .name = "AttentionGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 5, .max_inputs = 6, .min_outputs = 1,
    .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .infer = infer_attention_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (attention, ops);
