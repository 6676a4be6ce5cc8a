/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-writer-private.h"

/* Operators that language models brought, which are short for others: RotaryEmbedding, TensorScatter, SwiGLU,
 * CausalConvWithState. Each is written out in single operators, which have the gradients. */

/* ---- RotaryEmbedding (x, cos, sin[, positions]): pairs of elements are turned. x is [batch, heads, length, width] or
 * [batch, length, heads · width]; a pair is one element of each half, or two neighbours (interleaved) ---- */
static gboolean
upgrade_rotary (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  const gint64 n_heads = ortrain_attributes_get_int (node->attributes, "num_heads", 0);
  const gint64 turned = ortrain_attributes_get_int (node->attributes, "rotary_embedding_dim", 0);
  const gboolean interleaved = ortrain_attributes_get_int (node->attributes, "interleaved", 0) != 0;
  OrtrainValue *x = ortrain_node_input (node, 0),
               *table[] = { ortrain_node_input (node, 1), ortrain_node_input (node, 2) };
  OrtrainValue *positions = ortrain_node_input (node, 3), *rest = NULL, *pair[2], *products[4];
  if (x == NULL || table[0] == NULL || table[1] == NULL)
    return TRUE; /* the check of arity tells */
  const gboolean flat = x->rank >= 0 ? x->rank == 3 : n_heads > 0;
  if (flat && n_heads <= 0)
    return ortrain_write_refuse (&self, error, "an input of rank 3 needs the attribute 'num_heads'");
  if (turned < 0 || turned % 2 != 0)
    return ortrain_write_refuse (&self, error, "attribute 'rotary_embedding_dim' must be even");
  if (flat)
    x = ortrain_write2 (&self, "Reshape", x, ORTRAIN_WRITE_INTS (&self, 0, 0, n_heads, -1));
  for (guint i = 0; i < 2; i++)
    {
      if (positions != NULL)
        table[i] = ortrain_write2 (&self, "Gather", table[i], positions);
      table[i] = ortrain_write2 (&self, "Unsqueeze", table[i],
                                 ORTRAIN_WRITE_INTS (&self, flat ? 2 : 1)); /* the same for all heads */
    }
  if (turned > 0)
    {
      rest = ortrain_write_slice (&self, x, 3, turned, G_MAXINT64, 1);
      x = ortrain_write_slice (&self, x, 3, 0, turned, 1);
    }
  if (interleaved)
    for (guint i = 0; i < 2; i++)
      pair[i] = ortrain_write_slice (&self, x, 3, i, G_MAXINT64, 2);
  else
    {
      OrtrainNode *split = ortrain_graph_insert_node (graph, node, "", "Split", NULL, &x, 1, 2);
      ortrain_attributes_set_int (split->attributes, "axis", 3);
      ortrain_attributes_set_int (split->attributes, "num_outputs", 2);
      pair[0] = ortrain_node_output (split, 0);
      pair[1] = ortrain_node_output (split, 1);
    }
  for (guint i = 0; i < 4; i++)
    products[i] = ortrain_write2 (&self, "Mul", table[i % 2], pair[i < 2 ? i : 3 - i]);
  pair[0] = ortrain_write2 (&self, "Sub", products[0], products[1]); /* cos · a - sin · b */
  pair[1] = ortrain_write2 (&self, "Add", products[3], products[2]); /* sin · a + cos · b */
  if (interleaved)
    {
      for (guint i = 0; i < 2; i++)
        pair[i] = ortrain_write2 (&self, "Unsqueeze", pair[i], ORTRAIN_WRITE_INTS (&self, 4));
      x = ortrain_write2 (&self, "Reshape", ortrain_write_concat (&self, pair[0], pair[1], 4),
                          ORTRAIN_WRITE_INTS (&self, 0, 0, 0, -1));
    }
  else
    x = ortrain_write_concat (&self, pair[0], pair[1], 3);
  if (rest != NULL)
    x = ortrain_write_concat (&self, x, rest, 3);
  if (flat)
    x = ortrain_write2 (&self, "Reshape", x, ORTRAIN_WRITE_INTS (&self, 0, 0, -1));
  return ortrain_write_finish (&self, x);
}

/* ---- TensorScatter (cache, update[, first]): each sample's update is written into its cache from its own index on
 * ---- */
static gboolean
upgrade_tensor_scatter (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *cache = ortrain_node_input (node, 0), *update = ortrain_node_input (node, 1);
  OrtrainValue *first = ortrain_node_input (node, 2);
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -2), shape[ORTRAIN_MAX_RANK];
  const gboolean circular =
      g_str_equal (ortrain_attributes_get_string (node->attributes, "mode", "linear"), "circular");
  if (cache == NULL || update == NULL)
    return TRUE;
  const gint rank = MAX (cache->rank, update->rank);
  if (rank < 2)
    return ortrain_write_refuse (&self, error, "the rank of the cache must be known, and at least 2");
  axis += axis < 0 ? rank : 0;
  if (axis < 1 || axis >= rank)
    return ortrain_write_refuse (&self, error, "attribute 'axis' must not be the first dimension");
  OrtrainValue *length = ortrain_write_dim (&self, update, axis);
  OrtrainValue *range[] = { ortrain_graph_const_int (graph, 0), ortrain_write (&self, "Squeeze", &length, 1, NULL),
                            ortrain_graph_const_int (graph, 1) };
  OrtrainValue *indices = ortrain_write (&self, "Range", range, 3, NULL);
  for (gint d = 0; d < rank; d++)
    shape[d] = d == axis ? -1 : 1;
  indices = ortrain_write2 (&self, "Reshape", indices, ortrain_write_ints (&self, shape, (gsize) rank));
  if (first != NULL)
    {
      for (gint d = 0; d < rank; d++)
        shape[d] = d == 0 ? -1 : 1;
      first = ortrain_write2 (&self, "Reshape", first, ortrain_write_ints (&self, shape, (gsize) rank));
      indices = ortrain_write2 (&self, "Add", indices, first);
    }
  if (circular)
    indices = ortrain_write2 (&self, "Mod", indices, ortrain_write_dim (&self, cache, axis));
  indices = ortrain_write2 (&self, "Expand", indices, ortrain_write (&self, "Shape", &update, 1, NULL));
  OrtrainValue *operands[] = { cache, indices, update };
  return ortrain_write_finish (
      &self, ortrain_write (&self, "ScatterElements", operands, 3, ortrain_write_attribute ("axis", axis)));
}

/* ---- SwiGLU (a, b) = Swish (a) · b ---- */
static gboolean
upgrade_swiglu (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *a = ortrain_node_input (node, 0), *b = ortrain_node_input (node, 1);
  if (a == NULL || b == NULL)
    return TRUE;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_float (attributes, "alpha", ortrain_attributes_get_float (node->attributes, "alpha", 1));
  return ortrain_write_finish (&self,
                               ortrain_write2 (&self, "Mul", ortrain_write (&self, "Swish", &a, 1, attributes), b));
}

/* ---- CausalConvWithState (x [batch, channels, length], w [channels, 1, k][, bias, past]) → (y, present): a causal
 * convolution of each channel, padded in front with the past or with zeros ---- */
static gboolean
upgrade_causal_conv (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const OrtrainWriter self = { graph, node };
  OrtrainValue *x = ortrain_node_input (node, 0), *w = ortrain_node_input (node, 1);
  OrtrainValue *past = ortrain_node_input (node, 3), *present = ortrain_node_output (node, 1);
  const char *activation = ortrain_attributes_get_string (node->attributes, "activation", "none");
  const gboolean swish = g_str_equal (activation, "silu") || g_str_equal (activation, "swish");
  if (x == NULL || w == NULL)
    return TRUE;
  if (!swish && !g_str_equal (activation, "none"))
    return ortrain_write_refuse (&self, error, "attribute 'activation' must be silu, swish or none");
  if (w->rank != 3 || !ortrain_dim_is_int (w->dims[0]) || !ortrain_dim_is_int (w->dims[2]) || w->dims[2].value < 1)
    return ortrain_write_refuse (&self, error, "the shape of the weights must be known");
  const gint64 before = w->dims[2].value - 1;
  if (past != NULL)
    x = ortrain_write_concat (&self, past, x, 2);
  else
    x = ortrain_write2 (&self, "Pad", x, ORTRAIN_WRITE_INTS (&self, 0, 0, before, 0, 0, 0));
  if (present != NULL)
    {
      OrtrainValue *end = ortrain_write_dim (&self, x, 2),
                   *slice[5] = { x, NULL, end, ORTRAIN_WRITE_INTS (&self, 2), ORTRAIN_WRITE_INTS (&self, 1) };
      slice[1] = ortrain_write2 (&self, "Sub", end, ORTRAIN_WRITE_INTS (&self, before));
      ortrain_value_replace_uses (present, ortrain_write (&self, "Slice", slice, 5, NULL));
    }
  OrtrainValue *operands[] = { x, w, ortrain_node_input (node, 2) };
  OrtrainValue *y = ortrain_write (&self, "Conv", operands, 3, ortrain_write_attribute ("group", w->dims[0].value));
  return ortrain_write_finish (&self, swish ? ortrain_write (&self, "Swish", &y, 1, NULL) : y);
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "RotaryEmbedding", .domain = "", .since = 23, .min_inputs = 3, .max_inputs = 4, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".00l", .upgrade = upgrade_rotary },
  { .name = "TensorScatter", .domain = "", .since = 24, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .types = ".0l", .upgrade = upgrade_tensor_scatter },
  { .name = "CausalConvWithState", .domain = "", .since = 27, .min_inputs = 2, .max_inputs = 4, .min_outputs = 1,
    .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .upgrade = upgrade_causal_conv },
  { .name = "SwiGLU", .domain = "", .since = 28, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .upgrade = upgrade_swiglu },
};
/* clang-format on */
ORTRAIN_OP_TABLE (transformer, ops);
