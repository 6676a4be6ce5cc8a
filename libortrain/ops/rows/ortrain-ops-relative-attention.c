/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-zero-sums-private.h"

/* RelativeAttention (q, k, v, position_keys, position_queries, key_index, query_index[, mask, ratio, training]) → (y,
 * lse): attention whose scores have two terms more, as DeBERTa defines them, created by a pass from the nodes that
 * exporters write:
 *
 *   scores [i, j] = scale · q [i]·k [j] + key_scale · q [i]·position_keys [key_index [i, j]]
 *                   + query_scale · k [j]·position_queries [query_index [j, i]]
 *
 * Attributes: scale, key_scale, query_scale; packed, whose bits 0 to 5 say that q, k, v, y, position_keys,
 * position_queries are [batch, length, heads, width] instead of [batch, heads, length, width]; positions have batch 1.
 * masked_value: the number added where a bool mask is false, or with fill the score in that place.
 *
 * An index is a matrix, with ones in front, or a vector if it depends on the difference of both positions alone: entry
 * column - row + rows - 1. Either term may be absent, with its index.
 *
 * ratio, training and forward_node: as those of Attention. */
static gboolean
infer_relative_attention (OrtrainInferContext *ctx, GError **error)
{
  const gint64 packed = ortrain_attributes_get_int (ctx->node->attributes, "packed", 0);
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDType kept = dtype == ORTRAIN_DTYPE_FLOAT64 ? dtype : ORTRAIN_DTYPE_FLOAT32;
  for (guint i = 0; i < 5; i++)
    if (ortrain_infer_get_rank (ctx, i) >= 0 && ortrain_infer_get_rank (ctx, i) != 4)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u has rank %d, 4 is needed", i,
                                 ortrain_infer_get_rank (ctx, i));
  for (guint i = 3; i < 5; i++)
    if (ortrain_infer_has_input (ctx, i) != ortrain_infer_has_input (ctx, i + 2))
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u is needed with input %u, its index",
                                 i, i + 2);
  if (ortrain_infer_get_rank (ctx, 0) < 0 || ortrain_infer_get_rank (ctx, 2) < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, 4);
      if (ortrain_infer_wants_output (ctx, 1))
        ortrain_infer_set_unknown (ctx, 1, kept, 3);
      return TRUE;
    }
  const OrtrainDim batch = ortrain_infer_get_dim (ctx, 0, 0), width = ortrain_infer_get_dim (ctx, 2, 3);
  const OrtrainDim heads = ortrain_infer_get_dim (ctx, 0, packed & 1 ? 2 : 1);
  const OrtrainDim length = ortrain_infer_get_dim (ctx, 0, packed & 1 ? 1 : 2);
  const OrtrainDim plain[] = { batch, heads, length, width }, swapped[] = { batch, length, heads, width };
  ortrain_infer_set (ctx, 0, dtype, packed & 8 ? swapped : plain, 4);
  if (ortrain_infer_wants_output (ctx, 1))
    ortrain_infer_set (ctx, 1, kept, plain, 3);
  return TRUE;
}

static gboolean
gradient_relative_attention (OrtrainGradContext *ctx, GError **error)
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
    ortrain_grad_input (ctx, 4),
    ortrain_grad_input (ctx, 5),
    ortrain_grad_input (ctx, 6),
    ortrain_grad_input (ctx, 7),
    ortrain_grad_input (ctx, 8),
    ortrain_grad_input (ctx, 9),
  };
  guint n = G_N_ELEMENTS (operands);
  while (n > 9 && operands[n - 1] == NULL)
    n--;
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "RelativeAttentionGrad", operands, n, 5,
                                         operands[11] != NULL ? ortrain_grad_copy_random_attributes (ctx)
                                                              : ortrain_attributes_copy (forward->attributes));
  for (guint i = 0; i < 5; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_grad_set (ctx, i, ortrain_node_output (node, i));
    else
      ortrain_node_drop_output (node, i);
  return TRUE;
}

/* (dy, q, k, v, lse, position_keys, position_queries, key_index, query_index[, mask, ratio, training]) → (dq, dk, dv,
 * dposition_keys, dposition_queries) */
static gboolean
infer_relative_attention_grad (OrtrainInferContext *ctx, GError **error)
{
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k) && ortrain_infer_has_input (ctx, k < 3 ? k + 1 : k + 2))
      ortrain_infer_set_like (ctx, k, k < 3 ? k + 1 : k + 2);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "RelativeAttention", .domain = ORTRAIN_DOMAIN, .mixed = ORTRAIN_MIXED_NARROW, .since = 1, .min_inputs = 7, .max_inputs = 10,
    .min_outputs = 1, .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 31 << 5, .optional_inputs = 15 << 3, .types = ".0000ii*fb", .scalar_inputs = 3 << 8,
    .infer = infer_relative_attention, .gradient = gradient_relative_attention, .channels = ORTRAIN_CHANNELS_ALIGNED,
    .input_roles = { [5] = "index", [6] = "index", [7] = "mask" }, .difference_inputs = 3 << 5, .open_inputs = 1 << 7, .broadcast_inputs = 1 << 7, .expand = ortrain_body_relative_attention },
  { .name = "RelativeAttentionGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 9, .max_inputs = 12, .min_outputs = 1, .max_outputs = 5,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .optional_inputs = 15 << 5, .types = ".000f00ii*fb", .scalar_inputs = 3 << 10, .infer = infer_relative_attention_grad,
    .difference_inputs = 3 << 7, .open_inputs = 1 << 9, .broadcast_inputs = 1 << 9, .zero_sums = ortrain_zero_sums_relative_attention_grad, .expand = ortrain_body_relative_attention_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (relative_attention, ops);
