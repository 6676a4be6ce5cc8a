/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-zero-sums-private.h"

#include <math.h>

/* Attention (q, k, v[, mask, bias, ratio, training]) → (y, lse): softmax (scale · q·kᵀ + mask + bias) · v, created by a
 * pass from the nodes that exporters write.
 *
 * Attributes: scale; packed, whose bits 0 to 3 say that q, k, v, y are [batch, length, heads, width] instead of [batch,
 * heads, length, width]; masked_value, the number added where a bool mask is false; guard: 1, rows that come out as NaN
 * are zeros (exporters write this around softmax), 2, rows whose mask lets nothing through are. mask: bool or additive,
 * bias: additive, with a gradient in its own shape; both broadcast to [batch, heads, queries, keys].
 *
 * ratio and training are those of Dropout, which drops probabilities; forward_node: the number of its node, which its
 * random numbers hang on. */
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

/* As output 1. */
static gboolean
keep_lse (OrtrainNode *forward, GError **error)
{
  if (ortrain_node_output (forward, 1) != NULL)
    return TRUE;
  ortrain_node_set_n_outputs (forward, 2);
  if (forward->outputs->pdata[1] == NULL)
    ortrain_node_set_output (forward, 1, ortrain_graph_new_value (forward->graph, NULL));
  return ortrain_ops_infer_node (forward, error);
}

static gboolean
gradient_attention (OrtrainGradContext *ctx, GError **error)
{
  OrtrainNode *forward = ctx->node;
  OrtrainValue *dy = ortrain_grad_of_output_or_zero (ctx, 0);
  if (!keep_lse (forward, error))
    return FALSE;
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
  };
  /* A mask that is added has the gradient of a bias: for the backward pass it is a part of the bias. */
  const gboolean wants_mask = ortrain_grad_wants (ctx, 3);
  if (wants_mask)
    {
      operands[6] = operands[6] != NULL ? ortrain_grad_op2 (ctx, "Add", operands[5], operands[6]) : operands[5];
      operands[5] = NULL;
    }
  const guint of_output[] = { 0, 1, 2, 4 }, n_outputs = wants_mask || ortrain_grad_wants (ctx, 4) ? 4 : 3;
  guint n = G_N_ELEMENTS (operands);
  while (n > 5 && operands[n - 1] == NULL)
    n--;
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "AttentionGrad", operands, n, n_outputs,
                                         operands[8] != NULL ? ortrain_grad_copy_random_attributes (ctx)
                                                             : ortrain_attributes_copy (forward->attributes));
  for (guint k = 0; k < n_outputs; k++)
    if (k == 3 && wants_mask)
      for (guint i = 3; i < 5; i++)
        {
          if (ortrain_grad_wants (ctx, i))
            ortrain_grad_set (ctx, i,
                              ortrain_grad_sum_to (ctx, ortrain_node_output (node, k), ortrain_grad_input (ctx, i)));
        }
    else if (ortrain_grad_wants (ctx, of_output[k]))
      ortrain_grad_set (ctx, of_output[k], ortrain_node_output (node, k));
    else
      ortrain_node_drop_output (node, k);
  return TRUE;
}

/* (dy, q, k, v, lse[, mask, bias, ratio, training, y]) → (dq, dk, dv, dbias). y follows from the others: it is there
 * for kernels that need it, where a pass has found that it is kept anyway. */
static gboolean
infer_attention_grad (OrtrainInferContext *ctx, GError **error)
{
  const gint64 packed = ortrain_attributes_get_int (ctx->node->attributes, "packed", 0);
  const OrtrainDim batch = ortrain_infer_get_dim (ctx, 1, 0), width = ortrain_infer_get_dim (ctx, 3, 3);
  const OrtrainDim heads = ortrain_infer_get_dim (ctx, 1, packed & 1 ? 2 : 1);
  const OrtrainDim length = ortrain_infer_get_dim (ctx, 1, packed & 1 ? 1 : 2);
  const OrtrainDim y[] = { batch, packed & 8 ? length : heads, packed & 8 ? heads : length, width };
  const OrtrainDim lse[] = { batch, heads, length };
  const guint checked[] = { 0, 4, 9 };
  for (guint i = 0; i < 3 && checked[i] < ctx->node->inputs->len; i++)
    {
      const gint rank = ortrain_infer_get_rank (ctx, checked[i]);
      const OrtrainDim *dims = ortrain_infer_get_dims (ctx, checked[i]), *expected = i == 1 ? lse : y;
      gboolean fits = rank < 0 || rank == (i == 1 ? 3 : 4);
      for (gint d = 0; d < rank && fits; d++)
        fits = !ortrain_dim_is_int (dims[d]) || !ortrain_dim_is_int (expected[d]) || dims[d].value == expected[d].value;
      if (!fits)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "input %u does not match the shapes of q, k and v", checked[i]);
    }
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set_like (ctx, k, k < 3 ? k + 1 : 6);
  return TRUE;
}

/* PackedAttention (qkv [batch, length, 3, heads, width][, mask, bias, ratio, training]) → (y [batch, length, heads,
 * width], lse): Attention of the three parts, created by a pass where one product computes them. Its gradient is one
 * value too; bias, as mask, has none. */
static gboolean
infer_packed_attention (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDType kept = dtype == ORTRAIN_DTYPE_FLOAT64 ? dtype : ORTRAIN_DTYPE_FLOAT32;
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim three = rank == 5 ? ortrain_infer_get_dim (ctx, 0, 2) : ortrain_dim_int (3);
  if ((rank >= 0 && rank != 5) || (ortrain_dim_is_int (three) && three.value != 3))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has to be [batch, length, 3, heads, width]");
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, 4);
      if (ortrain_infer_wants_output (ctx, 1))
        ortrain_infer_set_unknown (ctx, 1, kept, 3);
      return TRUE;
    }
  const OrtrainDim batch = ortrain_infer_get_dim (ctx, 0, 0), length = ortrain_infer_get_dim (ctx, 0, 1);
  const OrtrainDim heads = ortrain_infer_get_dim (ctx, 0, 3), width = ortrain_infer_get_dim (ctx, 0, 4);
  const OrtrainDim y[] = { batch, length, heads, width }, lse[] = { batch, heads, length };
  ortrain_infer_set (ctx, 0, dtype, y, 4);
  if (ortrain_infer_wants_output (ctx, 1))
    ortrain_infer_set (ctx, 1, kept, lse, 3);
  return TRUE;
}

static gboolean
gradient_packed_attention (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output_or_zero (ctx, 0);
  if (!keep_lse (ctx->node, error))
    return FALSE;
  OrtrainValue *operands[] = {
    dy,
    ortrain_grad_input (ctx, 0),
    ortrain_grad_output (ctx, 0),
    ortrain_grad_output (ctx, 1),
    ortrain_grad_input (ctx, 1),
    ortrain_grad_input (ctx, 2),
    ortrain_grad_input (ctx, 3),
    ortrain_grad_input (ctx, 4),
  };
  guint n = G_N_ELEMENTS (operands);
  while (n > 4 && operands[n - 1] == NULL)
    n--;
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "PackedAttentionGrad", operands, n, 1,
                                         operands[7] != NULL ? ortrain_grad_copy_random_attributes (ctx)
                                                             : ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* (dy, qkv, y, lse[, mask, bias, ratio, training]) */
static gboolean
infer_packed_attention_grad (OrtrainInferContext *ctx, GError **error)
{
  if (ortrain_infer_get_rank (ctx, 1) >= 0 && ortrain_infer_get_rank (ctx, 1) != 5)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 1 has to be [batch, length, 3, heads, width]");
  ortrain_infer_set_like (ctx, 0, 1);
  return TRUE;
}

/* ---- ONNX's own Attention (Q, K, V[, attn_mask, past_key, past_value, nonpad_kv_seqlen]) → (Y[, present_key,
 * present_value, qk_matmul_output]) ----
 *
 * Rewritten as ours, with nodes around it as needed, or in single operators where it shows its scores or caps them.
 * Operands of rank 3, [batch, length, heads · width], say how many heads there are in attributes; with them the packed
 * form of ours is used, which needs no transposes. */
typedef struct
{
  OrtrainGraph *graph;
  OrtrainNode *node;
  gboolean flat;            /* rank 3 */
  gint64 q_heads, kv_heads; /* 0: not known */
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

static OrtrainValue *
write_ints (Writer *self, gint64 value)
{
  return ortrain_graph_const_ints (self->graph, &value, 1);
}

/* A constant in the type of `like`, which may not be known yet. */
static OrtrainValue *
write_like (Writer *self, double value, OrtrainValue *like)
{
  return write_op (self, "CastLike", ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT64, value), like,
                   NULL);
}

static OrtrainValue *
write_where (Writer *self, OrtrainValue *condition, OrtrainValue *yes, OrtrainValue *no)
{
  OrtrainValue *operands[] = { condition, yes, no };
  return ortrain_upgrade_insert (self->graph, self->node, "Where", operands, 3, NULL);
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
write_transpose (Writer *self, OrtrainValue *value, const gint64 *perm)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, 4);
  return write_op (self, "Transpose", value, NULL, attributes);
}

static const gint64 swap_length_and_heads[] = { 0, 2, 1, 3 };

/* Grouped queries: each head of keys and values serves several of queries, as many as the shapes say. */
static OrtrainValue *
write_repeat (Writer *self, OrtrainValue *value, OrtrainValue *heads)
{
  static const gint64 ones[] = { 1, 1 };
  OrtrainValue *two_ones = ortrain_graph_const_ints (self->graph, ones, 2);
  OrtrainValue *expand[] = { two_ones, write_op (self, "Div", heads, write_dim (self, value, 1), NULL), two_ones };
  OrtrainValue *shape[] = { write_ints (self, 0), heads, write_ints (self, -1), write_dim (self, value, -1) };
  value = write_op (self, "Unsqueeze", value, write_ints (self, 2), NULL);
  value =
      write_op (self, "Expand", value,
                ortrain_upgrade_insert (self->graph, self->node, "Concat", expand, 3, attribute_int ("axis", 0)), NULL);
  return write_op (self, "Reshape", value,
                   ortrain_upgrade_insert (self->graph, self->node, "Concat", shape, 4, attribute_int ("axis", 0)),
                   NULL);
}

/* q, k and v of rank 4; the present keys and values. plain: all three as [batch, heads, length, width]. */
static gboolean
write_operands (Writer *self, gboolean plain, GError **error)
{
  OrtrainNode *node = self->node;
  OrtrainValue *past[] = { ortrain_node_input (node, 4), ortrain_node_input (node, 5) };
  OrtrainValue *present[] = { ortrain_node_output (node, 1), ortrain_node_output (node, 2) },
               **kv[] = { &self->k, &self->v };
  if (!self->flat && self->q->rank == 4 && self->k->rank == 4 && ortrain_dim_is_int (self->q->dims[1]) &&
      ortrain_dim_is_int (self->k->dims[1]))
    {
      self->q_heads = self->q->dims[1].value;
      self->kv_heads = self->k->dims[1].value;
    }
  gboolean known = self->q_heads > 0 && self->kv_heads > 0;
  gboolean grouped =
      known ? self->q_heads != self->kv_heads
            : self->q->rank == 4 && self->k->rank == 4 && !ortrain_dim_equal (self->q->dims[1], self->k->dims[1]);
  if (known && grouped && self->q_heads % self->kv_heads != 0)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                   "%s: %" G_GINT64_FORMAT " query heads are no multiple of %" G_GINT64_FORMAT " key heads", text,
                   self->q_heads, self->kv_heads);
      return FALSE;
    }
  gboolean unpack = plain || grouped || past[0] != NULL || past[1] != NULL || present[0] != NULL || present[1] != NULL;
  if (self->flat)
    {
      const gint64 q_shape[] = { 0, 0, self->q_heads, -1 }, kv_shape[] = { 0, 0, self->kv_heads, -1 };
      self->q = write_reshape (self, self->q, q_shape, 4);
      if (plain)
        self->q = write_transpose (self, self->q, swap_length_and_heads);
      self->packed = plain ? 0 : unpack ? 1 | 8 : 15;
      for (int i = 0; i < 2; i++)
        {
          *kv[i] = write_reshape (self, *kv[i], kv_shape, 4);
          if (unpack)
            *kv[i] = write_transpose (self, *kv[i], swap_length_and_heads);
        }
    }
  OrtrainValue *heads = NULL;
  if (grouped)
    heads = known ? write_ints (self, self->q_heads) : write_dim (self, self->q, 1);
  for (int i = 0; i < 2; i++)
    {
      if (past[i] != NULL)
        *kv[i] = write_op (self, "Concat", past[i], *kv[i], attribute_int ("axis", 2));
      if (present[i] != NULL)
        ortrain_value_replace_uses (present[i], write_op (self, "Identity", *kv[i], NULL, NULL));
      if (grouped)
        *kv[i] = write_repeat (self, *kv[i], heads);
    }
  return TRUE;
}

static OrtrainValue *
write_length (Writer *self, gboolean keys)
{
  return write_dim (self, keys ? self->k : self->q, self->packed & (keys ? 2 : 1) ? 1 : 2);
}

/* 0, 1, 2, … of `length` [1]. */
static OrtrainValue *
write_count (Writer *self, OrtrainValue *length)
{
  OrtrainValue *operands[] = { ortrain_graph_const_int (self->graph, 0), write_op (self, "Squeeze", length, NULL, NULL),
                               ortrain_graph_const_int (self->graph, 1) };
  return ortrain_upgrade_insert (self->graph, self->node, "Range", operands, 3, NULL);
}

/* Rows look at keys up to their own position, and at all past ones: bool [queries, keys]. */
static OrtrainValue *
write_causal (Writer *self, GError **error)
{
  static const gint64 two[] = { 1, 1 };
  g_autoptr (OrtrainTensor) yes = ortrain_tensor_new (ORTRAIN_DTYPE_BOOL, two, 2, error);
  if (yes == NULL)
    return NULL;
  *(guint8 *) ortrain_tensor_peek_writable (yes) = 1;
  OrtrainValue *past = ortrain_node_input (self->node, 4);
  OrtrainValue *shape =
      write_op (self, "Concat", write_length (self, FALSE), write_length (self, TRUE), attribute_int ("axis", 0));
  OrtrainValue *ones = write_op (self, "Expand", ortrain_graph_new_initializer (self->graph, "ones", yes), shape, NULL);
  OrtrainValue *diagonal = NULL;
  if (past != NULL)
    diagonal = write_op (self, "Squeeze", write_dim (self, past, 2), NULL, NULL);
  return write_op (self, "Trilu", ones, diagonal, attribute_int ("upper", 0));
}

static OrtrainValue *
write_and (Writer *self, OrtrainValue *a, OrtrainValue *b)
{
  return a == NULL ? b : write_op (self, "And", a, b, NULL);
}

/* The mask that follows from positions alone: bool [queries, keys], or [batch, 1, queries, keys] when each sample has
 * its own number of valid keys; *none: there is nothing to decide. NULL with an error. */
static OrtrainValue *
write_position_mask (Writer *self, gboolean *none, GError **error)
{
  const OrtrainAttributes *attributes = self->node->attributes;
  gboolean causal = ortrain_attributes_get_int (attributes, "is_causal", 0) != 0;
  const gint64 left = ortrain_attributes_get_int (attributes, "left_window_size", -1);
  const gint64 right = ortrain_attributes_get_int (attributes, "right_window_size", -1);
  OrtrainValue *valid = ortrain_node_input (self->node, 6), *past = ortrain_node_input (self->node, 4), *allowed = NULL;
  static const gint64 per_sample[] = { -1, 1, 1, 1 };
  *none = !causal && left < 0 && right < 0 && valid == NULL;
  if (*none)
    return NULL;
  if (left < 0 && right < 0 && valid == NULL)
    return write_causal (self, error);

  OrtrainValue *keys = write_count (self, write_length (self, TRUE));
  OrtrainValue *position =
      write_op (self, "Unsqueeze", write_count (self, write_length (self, FALSE)), write_ints (self, 1), NULL);
  if (valid != NULL)
    {
      valid = write_reshape (self, valid, per_sample, 4);
      position =
          write_op (self, "Add", position, write_op (self, "Sub", valid, write_length (self, FALSE), NULL), NULL);
      allowed = write_op (self, "Less", keys, valid, NULL);
    }
  else if (past != NULL)
    position = write_op (self, "Add", position, write_dim (self, past, 2), NULL);
  if (causal)
    allowed = write_and (self, allowed, write_op (self, "LessOrEqual", keys, position, NULL));
  if (left >= 0)
    allowed = write_and (
        self, allowed,
        write_op (self, "GreaterOrEqual", keys, write_op (self, "Sub", position, write_ints (self, left), NULL), NULL));
  if (right >= 0)
    allowed = write_and (
        self, allowed,
        write_op (self, "LessOrEqual", keys, write_op (self, "Add", position, write_ints (self, right), NULL), NULL));
  return allowed;
}

/* From 24 on, a mask may have fewer columns than there are keys; keys beyond it are masked. */
static OrtrainValue *
write_longer_mask (Writer *self, OrtrainValue *mask, gboolean additive)
{
  OrtrainDim last = mask->rank > 0 ? mask->dims[mask->rank - 1] : ortrain_dim_int (0);
  OrtrainDim keys = self->k->rank == 4 ? self->k->dims[self->packed & 2 ? 1 : 2] : ortrain_dim_int (-1);
  if (self->k->rank == 4 && ortrain_dim_equal (last, keys))
    return mask;
  OrtrainValue *missing = write_op (self, "Sub", write_length (self, TRUE), write_dim (self, mask, -1), NULL);
  OrtrainValue *pads = write_op (self, "Concat", write_ints (self, 0), missing, attribute_int ("axis", 0));
  OrtrainValue *fill = write_like (self, additive ? -INFINITY : 0, mask);
  OrtrainValue *operands[] = { mask, pads, fill, write_ints (self, -1) };
  return ortrain_upgrade_insert (self->graph, self->node, "Pad", operands, 4, NULL);
}

/* *none: there is no mask; *additive: it is added, not bool. NULL with an error. */
static OrtrainValue *
write_mask (Writer *self, gint64 opset, gboolean *none, gboolean *additive, GError **error)
{
  OrtrainValue *mask = ortrain_node_input (self->node, 3);
  gboolean no_position_mask;
  *additive = mask != NULL && mask->dtype != ORTRAIN_DTYPE_BOOL;
  OrtrainValue *position_mask = write_position_mask (self, &no_position_mask, error);
  *none = mask == NULL && no_position_mask;
  if (position_mask == NULL && !no_position_mask)
    return NULL;
  if (mask != NULL && opset >= 24)
    mask = write_longer_mask (self, mask, *additive);
  if (mask == NULL || position_mask == NULL)
    return mask != NULL ? mask : position_mask;
  if (!*additive)
    return write_op (self, "And", position_mask, mask, NULL);
  return write_where (self, position_mask, mask, write_like (self, -INFINITY, self->q));
}

/* In single operators: scores, cap, mask, softmax, product. Rows whose mask lets nothing through are zeros; they take a
 * detour around the softmax, so that no NaN comes back in their gradients. */
static OrtrainValue *
write_out (Writer *self, OrtrainValue *mask, gboolean additive, double scale)
{
  static const gint64 turn[] = { 0, 1, 3, 2 };
  const OrtrainAttributes *attributes = self->node->attributes;
  const double cap = ortrain_attributes_get_float (attributes, "softcap", 0);
  const gint64 mode = ortrain_attributes_get_int (attributes, "qk_matmul_output_mode", 0);
  const gint64 precision = ortrain_attributes_get_int (attributes, "softmax_precision", 0);
  OrtrainValue *shown[4], *blind = NULL, *zero = write_like (self, 0, self->q);
  OrtrainValue *q = scale != 1 ? write_op (self, "Mul", self->q, write_like (self, scale, self->q), NULL) : self->q;
  OrtrainValue *x = write_op (self, "MatMul", q, write_transpose (self, self->k, turn), NULL);
  shown[0] = x;
  if (cap != 0)
    {
      OrtrainValue *limit = write_like (self, cap, self->q);
      x = write_op (self, "Tanh", write_op (self, "Div", x, limit, NULL), NULL, NULL);
      x = write_op (self, "Mul", x, limit, NULL);
    }
  shown[1] = x;
  if (mask != NULL)
    {
      OrtrainValue *nothing = write_like (self, -INFINITY, self->q);
      if (!additive)
        mask = write_where (self, mask, zero, nothing);
      x = write_op (self, "Add", x, mask, NULL);
      OrtrainValue *most = write_op (self, "ReduceMax", mask, write_ints (self, -1), attribute_int ("keepdims", 1));
      blind = write_op (self, "Equal", most, nothing, NULL);
    }
  shown[2] = x;
  if (blind != NULL)
    x = write_where (self, blind, zero, x);
  if (precision != 0)
    x = write_op (self, "Cast", x, NULL, attribute_int ("to", precision));
  x = write_op (self, "Softmax", x, NULL, attribute_int ("axis", -1));
  if (precision != 0)
    x = write_op (self, "CastLike", x, self->q, NULL);
  if (blind != NULL)
    x = write_where (self, blind, zero, x);
  shown[3] = x;
  OrtrainValue *scores = ortrain_node_output (self->node, 3);
  if (scores != NULL)
    ortrain_value_replace_uses (scores, write_op (self, "Identity", shown[CLAMP (mode, 0, 3)], NULL, NULL));
  return write_op (self, "MatMul", x, self->v, NULL);
}

static gboolean
upgrade_attention (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainAttributes *attributes = node->attributes;
  OrtrainValue *scores = ortrain_node_output (node, 3), *y = ortrain_node_output (node, 0), *result;
  Writer self = { .graph = graph, .node = node };
  gboolean no_mask, additive;
  self.q = ortrain_node_input (node, 0);
  self.k = ortrain_node_input (node, 1);
  self.v = ortrain_node_input (node, 2);
  if (self.q == NULL || self.k == NULL || self.v == NULL)
    return TRUE; /* the check of arity tells */
  self.q_heads = ortrain_attributes_get_int (attributes, "q_num_heads", 0);
  self.kv_heads = ortrain_attributes_get_int (attributes, "kv_num_heads", 0);
  self.flat = self.q->rank >= 0 ? self.q->rank == 3 : self.q_heads > 0;
  if (self.flat && (self.q_heads <= 0 || self.kv_heads <= 0))
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                   "%s: inputs of rank 3 need the attributes q_num_heads and kv_num_heads", text);
      return FALSE;
    }
  gboolean plain = ortrain_attributes_get_float (attributes, "softcap", 0) != 0 ||
                   (scores != NULL && (scores->uses.n > 0 || scores->is_output));
  double scale = ortrain_attributes_get_float (attributes, "scale", 0);
  if (!write_operands (&self, plain, error))
    return FALSE;
  OrtrainValue *mask = write_mask (&self, opset, &no_mask, &additive, error);
  if (mask == NULL && !no_mask)
    return FALSE;
  if (scale == 0) /* 1 / √width, from the shape */
    {
      OrtrainValue *width = write_op (&self, "CastLike", write_dim (&self, self.q, -1), self.q, NULL);
      OrtrainValue *root = write_op (&self, "Sqrt", width, NULL, NULL);
      self.q = write_op (&self, "Div", self.q, root, NULL);
      scale = 1;
    }
  if (plain)
    {
      result = write_out (&self, mask, additive, scale);
      if (self.flat)
        result = write_transpose (&self, result, swap_length_and_heads);
    }
  else
    {
      OrtrainValue *operands[] = { self.q, self.k, self.v, mask };
      OrtrainNode *ours = ortrain_graph_insert_node (graph, node, ORTRAIN_DOMAIN, "Attention", node->name, operands,
                                                     mask != NULL ? 4 : 3, 1);
      ortrain_attributes_set_float (ours->attributes, "scale", scale);
      ortrain_attributes_set_int (ours->attributes, "packed", self.packed);
      if (mask != NULL)
        ortrain_attributes_set_int (ours->attributes, "guard", 2); /* rows that may look at nothing are zeros */
      result = ortrain_node_output (ours, 0);
    }
  if (self.flat)
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
  { .name = "Attention", .domain = "", .since = 23, .min_inputs = 3, .max_inputs = 7, .min_outputs = 1, .max_outputs = 4,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".00*000l", .upgrade = upgrade_attention },
  { .name = "Attention", .domain = ORTRAIN_DOMAIN, .mixed = ORTRAIN_MIXED_NARROW, .since = 1, .min_inputs = 3, .max_inputs = 7, .min_outputs = 1,
    .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 3 << 5, .types = ".00*ffb", .scalar_inputs = 3 << 5, .infer = infer_attention,
    .gradient = gradient_attention, .fused_as[ORTRAIN_FUSION_PACKED] = "PackedAttention", .channels = ORTRAIN_CHANNELS_ALIGNED, .broadcast_inputs = 1 << 3, .input_roles = { [3] = "mask", [4] = "bias", [5] = "ratio" }, .expand = ortrain_body_attention,
    .restore = ortrain_body_attention },
  { .name = "AttentionGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 5, .max_inputs = 10, .min_outputs = 1,
    .max_outputs = 4, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".000f*ffbf", .scalar_inputs = 3 << 7, .infer = infer_attention_grad,
    .reused_input = 9, .reused_beside = 4, .broadcast_inputs = 1 << 5, .zero_sums = ortrain_zero_sums_attention_grad, .expand = ortrain_body_attention_grad },
  { .name = "PackedAttention", .domain = ORTRAIN_DOMAIN, .mixed = ORTRAIN_MIXED_NARROW, .since = 1, .min_inputs = 1, .max_inputs = 5,
    .min_outputs = 1, .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 15 << 1, .types = ".*ffb", .scalar_inputs = 3 << 3,
    .infer = infer_packed_attention, .gradient = gradient_packed_attention, .channels = ORTRAIN_CHANNELS_ANY,
    .broadcast_inputs = 1 << 1, .input_roles = { [1] = "mask", [2] = "bias", [3] = "ratio" }, .expand = ortrain_body_packed_attention },
  { .name = "PackedAttentionGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 4, .max_inputs = 8, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".00f*ffb", .scalar_inputs = 3 << 6, .infer = infer_packed_attention_grad, .broadcast_inputs = 1 << 4,
    .zero_sums = ortrain_zero_sums_packed_attention_grad,
    .expand = ortrain_body_packed_attention_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (attention, ops);
