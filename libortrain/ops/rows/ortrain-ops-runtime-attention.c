/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-writer-private.h"

#include <math.h>

/* Attention and EmbedLayerNormalization of ONNX Runtime (com.microsoft), which its optimizer makes of BERT and GPT:
 * written out in operators of ONNX, of which passes make attention again. */

#define MICROSOFT "com.microsoft"

static OrtrainValue *
number_like (const OrtrainWriter *self, double number, OrtrainValue *like)
{
  return ortrain_upgrade_const_like (self->graph, self->node, number, like);
}

static OrtrainValue *
where (const OrtrainWriter *self, OrtrainValue *condition, OrtrainValue *yes, OrtrainValue *no)
{
  OrtrainValue *operands[] = { condition, yes, no };
  return ortrain_write (self, "Where", operands, 3, NULL);
}

static OrtrainValue *
cast (const OrtrainWriter *self, OrtrainValue *value, OrtrainDType dtype)
{
  return ortrain_write (self, "Cast", &value, 1, ortrain_write_attribute ("to", dtype));
}

/* 0, 1, … up to a number, [1] */
static OrtrainValue *
count (const OrtrainWriter *self, OrtrainValue *n)
{
  OrtrainValue *range[] = { ortrain_graph_const_int (self->graph, 0), ortrain_write1 (self, "Squeeze", n),
                            ortrain_graph_const_int (self->graph, 1) };
  return ortrain_write (self, "Range", range, 3, NULL);
}

/* ---- Attention (x [batch, length, width], weight, bias[, mask, past, additional scores]) ---- */

/* [batch, length, heads · size] → [batch, heads, length, size] */
static OrtrainValue *
split_heads (const OrtrainWriter *self, OrtrainValue *x, gint64 n_heads)
{
  static const gint64 perm[] = { 0, 2, 1, 3 };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, 4);
  OrtrainValue *split = ortrain_write2 (self, "Reshape", x, ORTRAIN_WRITE_INTS (self, 0, 0, n_heads, -1));
  return ortrain_write (self, "Transpose", &split, 1, attributes);
}

/* Which keys count, bool, to be broadcast to [batch, heads, queries, keys]: of a mask [batch, keys] or [batch, queries,
 * keys], or of the number of keys of each sample, [batch]. NULL with an error. */
static OrtrainValue *
write_mask (const OrtrainWriter *self, OrtrainValue *mask, OrtrainValue *x, GError **error)
{
  if (mask->rank == 2 || mask->rank == 3)
    {
      OrtrainValue *open = ortrain_write2 (self, "Greater", mask, number_like (self, 0, mask));
      return ortrain_write2 (self, "Unsqueeze", open,
                             mask->rank == 2 ? ORTRAIN_WRITE_INTS (self, 1, 2) : ORTRAIN_WRITE_INTS (self, 1));
    }
  const gboolean per_sample = mask->rank == 1 && (x->rank < 0 || ortrain_dim_equal (mask->dims[0], x->dims[0]));
  if (!per_sample)
    {
      ortrain_write_refuse (self, error, "input 3, the mask, must be [batch], [batch, keys] or [batch, queries, keys]");
      return NULL;
    }
  OrtrainValue *lengths =
      ortrain_write2 (self, "Unsqueeze", cast (self, mask, ORTRAIN_DTYPE_INT64), ORTRAIN_WRITE_INTS (self, 1, 2, 3));
  return ortrain_write2 (self, "Less", count (self, ortrain_write_dim (self, x, 1)), lengths);
}

static gboolean
upgrade_attention (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *x = ortrain_node_input (node, 0), *w = ortrain_node_input (node, 1),
               *bias = ortrain_node_input (node, 2);
  OrtrainValue *mask = ortrain_node_input (node, 3), *more = ortrain_node_input (node, 5), *parts[3];
  const gint64 n_heads = ortrain_attributes_get_int (node->attributes, "num_heads", 0);
  const double filter = ortrain_attributes_get_float (node->attributes, "mask_filter_value", -10000);
  double scale = ortrain_attributes_get_float (node->attributes, "scale", 0);
  gsize n_sizes = 0;
  const gint64 *sizes = ortrain_attributes_get_ints (node->attributes, "qkv_hidden_sizes", &n_sizes);
  if (!ortrain_write_check (&self, error))
    return FALSE;
  if (ortrain_node_input (node, 4) != NULL || ortrain_node_input (node, 6) != NULL ||
      (ortrain_node_output (node, 1) != NULL &&
       (ortrain_node_output (node, 1)->uses.n > 0 || ortrain_node_output (node, 1)->is_output)))
    return ortrain_write_refuse (&self, error,
                                 "keys and values of earlier steps are not supported; export the model with "
                                 "use_cache=False");
  if (ortrain_attributes_get_int (node->attributes, "do_rotary", 0) != 0)
    return ortrain_write_refuse (&self, error,
                                 "attribute 'do_rotary' is not supported; save the model with "
                                 "graph_optimization_level ORT_ENABLE_BASIC");
  const gboolean is_known = w->rank == 2 && ortrain_dim_is_int (w->dims[1]) && w->dims[1].value % 3 == 0;
  gint64 own[3] = { 0 };
  for (guint i = 0; i < 3; i++)
    own[i] = sizes != NULL && n_sizes == 3 ? sizes[i] : is_known ? w->dims[1].value / 3 : 0;
  if (n_heads < 1 || own[0] < 1 || own[0] != own[1] || own[0] % n_heads != 0 || own[2] < 1)
    return ortrain_write_refuse (&self, error, "the number of heads does not divide the size that its weights compute");
  if (scale == 0)
    scale = 1 / sqrt ((double) (own[0] / n_heads));

  OrtrainValue *all = ortrain_write2 (&self, "MatMul", x, w);
  if (bias != NULL)
    all = ortrain_write2 (&self, "Add", all, bias);
  OrtrainValue *operands[] = { all, ortrain_write_ints (&self, own, 3) };
  OrtrainNode *split = ortrain_graph_insert_node (graph, node, "", "Split", NULL, operands, 2, 3);
  ortrain_attributes_set_int (split->attributes, "axis", 2);
  split->op = ortrain_ops_lookup ("", "Split");
  for (guint i = 0; i < 3; i++)
    parts[i] = split_heads (&self, ortrain_node_output (split, i), n_heads);

  static const gint64 swap_last[] = { 0, 1, 3, 2 };
  OrtrainAttributes *perm = ortrain_attributes_new ();
  ortrain_attributes_set_ints (perm, "perm", swap_last, 4);
  OrtrainValue *scores =
      ortrain_write2 (&self, "MatMul", parts[0], ortrain_write (&self, "Transpose", &parts[1], 1, perm));
  scores = ortrain_write2 (&self, "Mul", scores, number_like (&self, scale, x));
  OrtrainValue *open = mask != NULL ? write_mask (&self, mask, x, error) : NULL;
  if (mask != NULL && open == NULL)
    return FALSE;
  if (ortrain_attributes_get_int (node->attributes, "unidirectional", 0) != 0)
    {
      OrtrainValue *keys = count (&self, ortrain_write_dim (&self, x, 1));
      OrtrainValue *before = ortrain_write2 (&self, "LessOrEqual", keys,
                                             ortrain_write2 (&self, "Unsqueeze", keys, ORTRAIN_WRITE_INTS (&self, 1)));
      open = open != NULL ? ortrain_write2 (&self, "And", open, before) : before;
    }
  if (open != NULL)
    scores = ortrain_write2 (&self, "Add", scores,
                             where (&self, open, number_like (&self, 0, x), number_like (&self, filter, x)));
  if (more != NULL)
    scores = ortrain_write2 (&self, "Add", scores, more);
  OrtrainValue *p = ortrain_write (&self, "Softmax", &scores, 1, ortrain_write_attribute ("axis", -1));
  static const gint64 swap_middle[] = { 0, 2, 1, 3 };
  perm = ortrain_attributes_new ();
  ortrain_attributes_set_ints (perm, "perm", swap_middle, 4);
  OrtrainValue *y = ortrain_write2 (&self, "MatMul", p, parts[2]);
  y = ortrain_write (&self, "Transpose", &y, 1, perm);
  return ortrain_write_finish (&self, ortrain_write2 (&self, "Reshape", y, ORTRAIN_WRITE_INTS (&self, 0, 0, -1)));
}

/* ---- EmbedLayerNormalization (ids, segments?, words, positions, segment table?, scale, shift[, mask[, position ids]])
 * → (y, keys of each sample, sum) ---- */
static gboolean
upgrade_embed (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *ids = ortrain_node_input (node, 0), *segments = ortrain_node_input (node, 1), *sum;
  OrtrainValue *mask = ortrain_node_input (node, 7), *positions = ortrain_node_input (node, 8), *keys;
  if (!ortrain_write_check (&self, error))
    return FALSE;
  sum = ortrain_write2 (&self, "Gather", ortrain_node_input (node, 2), ids);
  if (positions == NULL)
    positions = count (&self, ortrain_write_dim (&self, ids, 1));
  sum = ortrain_write2 (&self, "Add", sum, ortrain_write2 (&self, "Gather", ortrain_node_input (node, 3), positions));
  if (segments != NULL && ortrain_node_input (node, 4) != NULL)
    sum = ortrain_write2 (&self, "Add", sum, ortrain_write2 (&self, "Gather", ortrain_node_input (node, 4), segments));
  OrtrainValue *operands[] = { sum, ortrain_node_input (node, 5), ortrain_node_input (node, 6) };
  OrtrainAttributes *attributes = ortrain_write_attribute ("axis", -1);
  ortrain_attributes_set_float (attributes, "epsilon",
                                ortrain_attributes_get_float (node->attributes, "epsilon", 1e-12));
  OrtrainValue *y = ortrain_write (&self, "LayerNormalization", operands, 3, attributes);
  if (ortrain_node_output (node, 1) != NULL)
    {
      OrtrainValue *of = mask != NULL ? mask : ids;
      OrtrainValue *ones = ortrain_write2 (&self, "Greater", of, number_like (&self, 0, of));
      OrtrainValue *sums[] = { cast (&self, ones, ORTRAIN_DTYPE_INT32), ORTRAIN_WRITE_INTS (&self, 1) };
      keys = ortrain_write (&self, "ReduceSum", sums, 2, ortrain_write_attribute ("keepdims", 0));
      if (mask == NULL)
        keys = ortrain_write2 (&self, "Sub", keys, keys);
      ortrain_value_replace_uses (ortrain_node_output (node, 1), keys);
    }
  if (ortrain_node_output (node, 2) != NULL)
    ortrain_value_replace_uses (ortrain_node_output (node, 2), sum);
  return ortrain_write_finish (&self, y);
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "Attention", .domain = MICROSOFT, .since = 1, .min_inputs = 3, .max_inputs = 7, .min_outputs = 1, .max_outputs = 2,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".00i00i", .optional_inputs = 1 << 2, .upgrade = upgrade_attention },
  { .name = "EmbedLayerNormalization", .domain = MICROSOFT, .since = 1, .min_inputs = 7, .max_inputs = 9, .min_outputs = 1,
    .max_outputs = 3, .types = "iifff22ii", .optional_inputs = 1 << 1 | 1 << 4, .upgrade = upgrade_embed },
};
/* clang-format on */
ORTRAIN_OP_TABLE (runtime_attention, ops);
