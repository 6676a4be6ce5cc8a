/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

#include <math.h>

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

/* ---- ONNX's own Attention (Q, K, V[, attn_mask, past_key, past_value]) → (Y[, present_key, present_value]) ----
 *
 * Written out as ours, with what it needs around it. Operands of rank 3, [batch, length, heads · width], say how many
 * heads there are in attributes; with them the packed form is used, which needs no transposes. */
typedef struct
{
  OrtrainGraph *graph;
  OrtrainNode *node;
  gint64 q_heads, kv_heads; /* 0: rank 4, and not told */
  OrtrainValue *q, *k, *v;
  gint64 packed;
} Writer;

static OrtrainValue *
write_op (Writer *self, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainAttributes *attributes)
{
  OrtrainValue *operands[] = { a, b };
  return ortrain_upgrade_insert (self->graph, self->node, op_type, operands, b != NULL ? 2 : 1, attributes);
}

static OrtrainAttributes *
attribute_int (const char *name, gint64 value)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, name, value);
  return attributes;
}

/* Dimension `axis` of a value, [1]. */
static OrtrainValue *
write_dim (Writer *self, OrtrainValue *value, gint64 axis)
{
  OrtrainAttributes *attributes = attribute_int ("start", axis);
  if (axis != -1)
    ortrain_attributes_set_int (attributes, "end", axis + 1);
  return write_op (self, "Shape", value, NULL, attributes);
}

static OrtrainValue *
write_reshape (Writer *self, OrtrainValue *value, const gint64 *shape, gsize n)
{
  return write_op (self, "Reshape", value, ortrain_graph_const_ints (self->graph, shape, n), NULL);
}

static OrtrainValue *
write_swap (Writer *self, OrtrainValue *value)
{
  static const gint64 perm[] = { 0, 2, 1, 3 };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, 4);
  return write_op (self, "Transpose", value, NULL, attributes);
}

/* Grouped queries: each head of keys and values serves `repeats` heads of queries. */
static OrtrainValue *
write_repeat (Writer *self, OrtrainValue *value, gint64 repeats)
{
  const gint64 axis = 2, expand[] = { 1, 1, repeats, 1, 1 }, start[] = { 0, self->q_heads, -1 };
  OrtrainValue *width = write_dim (self, value, -1);
  value = write_op (self, "Unsqueeze", value, ortrain_graph_const_ints (self->graph, &axis, 1), NULL);
  value = write_op (self, "Expand", value, ortrain_graph_const_ints (self->graph, expand, 5), NULL);
  OrtrainValue *shape =
      write_op (self, "Concat", ortrain_graph_const_ints (self->graph, start, 3), width, attribute_int ("axis", 0));
  return write_op (self, "Reshape", value, shape, NULL);
}

/* q, k and v of rank 4; the present keys and values. */
static void
write_operands (Writer *self)
{
  OrtrainNode *node = self->node;
  OrtrainValue *past[] = { ortrain_node_input (node, 4), ortrain_node_input (node, 5) };
  OrtrainValue *present[] = { ortrain_node_output (node, 1), ortrain_node_output (node, 2) },
               **kv[] = { &self->k, &self->v };
  self->q = ortrain_node_input (node, 0);
  self->k = ortrain_node_input (node, 1);
  self->v = ortrain_node_input (node, 2);
  gboolean flat = self->q_heads > 0;
  if (!flat && self->q->rank == 4 && self->k->rank == 4 && ortrain_dim_is_int (self->q->dims[1]) &&
      ortrain_dim_is_int (self->k->dims[1]))
    {
      self->q_heads = self->q->dims[1].value;
      self->kv_heads = self->k->dims[1].value;
    }
  gboolean grouped = self->q_heads != self->kv_heads && self->kv_heads > 0;
  gboolean unpack = grouped || past[0] != NULL || past[1] != NULL || present[0] != NULL || present[1] != NULL;
  if (flat)
    {
      const gint64 q_shape[] = { 0, 0, self->q_heads, -1 }, kv_shape[] = { 0, 0, self->kv_heads, -1 };
      self->q = write_reshape (self, self->q, q_shape, 4);
      self->packed = unpack ? 1 | 8 : 15;
      for (int i = 0; i < 2; i++)
        {
          *kv[i] = write_reshape (self, *kv[i], kv_shape, 4);
          if (unpack)
            *kv[i] = write_swap (self, *kv[i]);
        }
    }
  for (int i = 0; i < 2; i++)
    {
      if (past[i] != NULL)
        *kv[i] = write_op (self, "Concat", past[i], *kv[i], attribute_int ("axis", 2));
      if (present[i] != NULL)
        ortrain_value_replace_uses (present[i], write_op (self, "Identity", *kv[i], NULL, NULL));
      if (grouped)
        *kv[i] = write_repeat (self, *kv[i], self->q_heads / self->kv_heads);
    }
}

/* Rows look at keys up to their own place, and at all past ones: bool [queries, keys]. */
static OrtrainValue *
write_causal (Writer *self, GError **error)
{
  static const gint64 two[] = { 1, 1 };
  g_autoptr (OrtrainTensor) yes = ortrain_tensor_new (ORTRAIN_DTYPE_BOOL, two, 2, error);
  if (yes == NULL)
    return NULL;
  *(guint8 *) ortrain_tensor_peek_writable (yes) = 1;
  OrtrainValue *past = ortrain_node_input (self->node, 4);
  OrtrainValue *shape = write_op (self, "Concat", write_dim (self, self->q, self->packed & 1 ? 1 : 2),
                                  write_dim (self, self->k, self->packed & 2 ? 1 : 2), attribute_int ("axis", 0));
  OrtrainValue *ones = write_op (self, "Expand", ortrain_graph_new_initializer (self->graph, "ones", yes), shape, NULL);
  OrtrainValue *diagonal = NULL;
  if (past != NULL)
    diagonal = write_op (self, "Squeeze", write_dim (self, past, 2), NULL, NULL);
  return write_op (self, "Trilu", ones, diagonal, attribute_int ("upper", 0));
}

static OrtrainValue *
write_mask (Writer *self, GError **error)
{
  OrtrainValue *mask = ortrain_node_input (self->node, 3);
  if (!ortrain_attributes_get_int (self->node->attributes, "is_causal", 0))
    return mask;
  OrtrainValue *causal = write_causal (self, error);
  if (mask == NULL || causal == NULL)
    return causal;
  if (mask->dtype == ORTRAIN_DTYPE_BOOL)
    return write_op (self, "And", causal, mask, NULL);
  OrtrainValue *infinite = ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT32, -INFINITY);
  OrtrainValue *operands[] = { causal, mask, write_op (self, "CastLike", infinite, self->q, NULL) };
  return ortrain_upgrade_insert (self->graph, self->node, "Where", operands, 3, NULL);
}

static gboolean
upgrade_attention (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainAttributes *attributes = node->attributes;
  OrtrainValue *scores = ortrain_node_output (node, 3), *y = ortrain_node_output (node, 0);
  guint position;
  if (ortrain_attributes_get_float (attributes, "softcap", 0) != 0 ||
      (scores != NULL && (scores->uses->len > 0 || scores->is_output)))
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                   "%s: softcap and the output qk_matmul_output are not supported", text);
      return FALSE;
    }
  Writer self = { .graph = graph, .node = node };
  self.q_heads = ortrain_attributes_get_int (attributes, "q_num_heads", 0);
  self.kv_heads = ortrain_attributes_get_int (attributes, "kv_num_heads", 0);
  gboolean flat = self.q_heads > 0;
  double scale = ortrain_attributes_get_float (attributes, "scale", 0);
  write_operands (&self);
  OrtrainValue *mask = write_mask (&self, error);
  if (mask == NULL && ortrain_attributes_get_int (attributes, "is_causal", 0))
    return FALSE;
  if (scale == 0) /* 1 / √width, from the shape */
    {
      OrtrainValue *width = write_op (&self, "CastLike", write_dim (&self, self.q, -1), self.q, NULL);
      OrtrainValue *root = write_op (&self, "Sqrt", width, NULL, NULL);
      self.q = write_op (&self, "Div", self.q, root, NULL);
      scale = 1;
    }
  if (!g_ptr_array_find (graph->nodes, node, &position))
    return TRUE;
  OrtrainValue *operands[] = { self.q, self.k, self.v, mask };
  OrtrainNode *ours = ortrain_graph_insert_node (graph, position, ORTRAIN_DOMAIN, "Attention", node->name, operands,
                                                 mask != NULL ? 4 : 3, 1);
  ortrain_attributes_set_float (ours->attributes, "scale", scale);
  ortrain_attributes_set_int (ours->attributes, "packed", self.packed);
  ortrain_attributes_set_int (ours->attributes, "guard", 1); /* rows that may look at nothing are zeros */
  OrtrainValue *result = ortrain_node_output (ours, 0);
  if (flat)
    {
      static const gint64 merged[] = { 0, 0, -1 };
      result = write_reshape (&self, result, merged, 3);
    }
  if (y != NULL)
    ortrain_value_replace_uses (y, result);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "Attention", .domain = "", .since = 23, .min_inputs = 3, .max_inputs = 6, .min_outputs = 1, .max_outputs = 4,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .upgrade = upgrade_attention },
  { .name = "Attention", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 4, .min_outputs = 1,
    .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 1 << 3, .infer = infer_attention,
    .gradient = gradient_attention },
  { .name = "AttentionGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 5, .max_inputs = 6, .min_outputs = 1,
    .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .infer = infer_attention_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (attention, ops);
