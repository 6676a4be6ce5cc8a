/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "kernel-abi/ortrain-einsum-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"

/* Einsum. An equation that is a matrix product is rewritten as one when a graph is created; the others have a kernel of
 * loops on the CPU, and a body for devices. */

static gboolean
infer_einsum (OrtrainInferContext *ctx, GError **error)
{
  const char *equation = ortrain_attributes_get_string (ctx->node->attributes, "equation", "");
  guint n = ortrain_infer_get_n_inputs (ctx);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint ranks[ORTRAIN_EINSUM_MAX_OPERANDS] = { 0 };
  OrtrainDim sizes[ORTRAIN_EINSUM_MAX_LABELS], out[ORTRAIN_MAX_RANK];
  gboolean known[ORTRAIN_EINSUM_MAX_LABELS] = { FALSE };
  OrtrainEinsum e;

  if (n > ORTRAIN_EINSUM_MAX_OPERANDS)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "it has %u operands, at most %d are supported", n,
                               ORTRAIN_EINSUM_MAX_OPERANDS);
  for (guint i = 0; i < n; i++)
    {
      ranks[i] = ortrain_infer_get_rank (ctx, i);
      if (ranks[i] < 0)
        {
          ortrain_infer_set_unknown (ctx, 0, dtype, -1);
          return TRUE;
        }
    }
  if (!ortrain_einsum_parse (equation, n, ranks, &e))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "equation '%s' is malformed or does not match the ranks of the operands",
                               ortrain_text_show (equation));
  for (guint i = 0; i < n; i++)
    for (guint d = 0; d < e.operands[i].rank; d++)
      {
        guint label = e.operands[i].labels[d];
        OrtrainDim dim = ortrain_infer_get_dim (ctx, i, (gint) d);
        if (!known[label])
          sizes[label] = dim;
        else if (!ortrain_dim_broadcast (ctx->dims, sizes[label], dim, &sizes[label]))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "axis %u of operand %u differs in size from others with the same letter", d, i);
        known[label] = TRUE;
      }
  for (guint d = 0; d < e.output.rank; d++)
    out[d] = sizes[e.output.labels[d]];
  ortrain_infer_set (ctx, 0, dtype, out, (gint) e.output.rank);
  return TRUE;
}

/* ---- As a matrix product ---- */

typedef struct
{
  guint n;
  guint8 labels[ORTRAIN_MAX_RANK];
} Group;

static void
group_add (Group *group, guint8 label)
{
  group->labels[group->n++] = label;
}

static OrtrainValue *
insert_transpose (OrtrainGraph *graph, OrtrainNode *before, OrtrainValue *x, const OrtrainEinsumTerm *from,
                  const guint8 *to)
{
  gint64 perm[ORTRAIN_MAX_RANK];
  gboolean identity = TRUE;
  for (guint i = 0; i < from->rank; i++)
    {
      guint d = 0;
      while (from->labels[d] != to[i])
        d++;
      perm[i] = d;
      identity = identity && d == i;
    }
  if (identity)
    return x;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, from->rank);
  return ortrain_upgrade_insert (graph, before, "Transpose", &x, 1, attributes);
}

static OrtrainValue *
insert_axes (OrtrainGraph *graph, OrtrainNode *before, const char *op_type, OrtrainValue *x, const gint64 *axes,
             guint n)
{
  if (n == 0)
    return x;
  OrtrainValue *inputs[2] = { x, ortrain_graph_const_ints (graph, axes, n) };
  return ortrain_upgrade_insert (graph, before, op_type, inputs, 2, NULL);
}

static OrtrainValue *
insert_flatten (OrtrainGraph *graph, OrtrainNode *before, OrtrainValue *x, guint axis)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", axis);
  return ortrain_upgrade_insert (graph, before, "Flatten", &x, 1, attributes);
}

static OrtrainValue *
insert_shape (OrtrainGraph *graph, OrtrainNode *before, OrtrainValue *x, guint start, guint end)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "start", start);
  ortrain_attributes_set_int (attributes, "end", end);
  return ortrain_upgrade_insert (graph, before, "Shape", &x, 1, attributes);
}

static gboolean
upgrade_einsum (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainEinsum e;
  Group batch = { 0 }, m = { 0 }, k = { 0 }, n = { 0 };
  if (node->inputs->len != 2 ||
      !ortrain_einsum_parse (ortrain_attributes_get_string (node->attributes, "equation", ""), 2, NULL, &e) ||
      e.has_ellipsis || e.has_repeats)
    return TRUE;
  const OrtrainEinsumTerm *a = &e.operands[0], *b = &e.operands[1];
  for (guint d = 0; d < a->rank; d++)
    {
      guint8 label = a->labels[d];
      gboolean in_b = ortrain_einsum_has (b, label), in_out = ortrain_einsum_has (&e.output, label);
      if (!in_b && !in_out)
        return TRUE;
      group_add (!in_b ? &m : in_out ? &batch : &k, label);
    }
  for (guint d = 0; d < b->rank; d++)
    if (!ortrain_einsum_has (a, b->labels[d]))
      {
        if (!ortrain_einsum_has (&e.output, b->labels[d]))
          return TRUE;
        group_add (&n, b->labels[d]);
      }
  if (batch.n > 0 && (m.n > 1 || k.n > 1 || n.n > 1))
    return TRUE;

  /* a: [batch, m, k], b: [batch, k, n], the product: [batch, m, n] */
  guint8 order_a[ORTRAIN_MAX_RANK], order_b[ORTRAIN_MAX_RANK];
  OrtrainEinsumTerm product = { 0 };
  memcpy (order_a, batch.labels, batch.n);
  memcpy (order_a + batch.n, m.labels, m.n);
  memcpy (order_a + batch.n + m.n, k.labels, k.n);
  memcpy (order_b, batch.labels, batch.n);
  memcpy (order_b + batch.n, k.labels, k.n);
  memcpy (order_b + batch.n + k.n, n.labels, n.n);
  product.rank = batch.n + m.n + n.n;
  if (product.rank > ORTRAIN_MAX_RANK || product.rank != e.output.rank)
    return TRUE;
  memcpy (product.labels, batch.labels, batch.n);
  memcpy (product.labels + batch.n, m.labels, m.n);
  memcpy (product.labels + batch.n + m.n, n.labels, n.n);

  OrtrainValue *operands[2] = { insert_transpose (graph, node, ortrain_node_input (node, 0), a, order_a),
                                insert_transpose (graph, node, ortrain_node_input (node, 1), b, order_b) };
  OrtrainValue *shapes[2] = { NULL, NULL }, *result;
  gint64 at = batch.n, next = batch.n + 1, pair[2] = { at, next };
  if (batch.n == 0)
    {
      shapes[0] = insert_shape (graph, node, operands[0], 0, m.n);
      shapes[1] = insert_shape (graph, node, operands[1], k.n, k.n + n.n);
      operands[0] = insert_flatten (graph, node, operands[0], m.n);
      operands[1] = insert_flatten (graph, node, operands[1], k.n);
      result = ortrain_upgrade_insert (graph, node, "MatMul", operands, 2, NULL);
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, "axis", 0);
      OrtrainValue *inputs[2] = { result, ortrain_upgrade_insert (graph, node, "Concat", shapes, 2, attributes) };
      attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, "allowzero", 1);
      result = ortrain_upgrade_insert (graph, node, "Reshape", inputs, 2, attributes);
    }
  else
    {
      operands[0] =
          insert_axes (graph, node, "Unsqueeze", operands[0], m.n == 0 ? pair : &next, (m.n == 0) + (k.n == 0));
      operands[1] =
          insert_axes (graph, node, "Unsqueeze", operands[1], k.n == 0 ? pair : &next, (k.n == 0) + (n.n == 0));
      result = ortrain_upgrade_insert (graph, node, "MatMul", operands, 2, NULL);
      result = insert_axes (graph, node, "Squeeze", result, m.n == 0 ? pair : &next, (m.n == 0) + (n.n == 0));
    }
  result = insert_transpose (graph, node, result, &product, e.output.labels);
  ortrain_value_replace_uses (ortrain_node_output (node, 0), result);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* EinsumGrad (dy, shape of operand `index`, the other operands …){equation, index} */
static gboolean
infer_einsum_grad (OrtrainInferContext *ctx, GError **error)
{
  const char *equation = ortrain_attributes_get_string (ctx->node->attributes, "equation", "");
  const gint64 index = ortrain_node_get_int (ctx->node, "index", 0);
  const guint n = ortrain_infer_get_n_inputs (ctx) - 1;
  const OrtrainDim *dims[ORTRAIN_EINSUM_MAX_OPERANDS], *dy = ortrain_infer_get_dims (ctx, 0);
  gint ranks[ORTRAIN_EINSUM_MAX_OPERANDS];
  OrtrainDim sizes[ORTRAIN_EINSUM_MAX_LABELS];
  gboolean known[ORTRAIN_EINSUM_MAX_LABELS] = { FALSE };
  OrtrainEinsum e;
  if (n > ORTRAIN_EINSUM_MAX_OPERANDS || index < 0 || index >= n)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY,
                               "it has %u operands, but computes the gradient of operand %d", n, (gint) index);
  ortrain_infer_shape_from (ctx, 0, 1, ortrain_infer_get_dtype (ctx, 0));
  gboolean ranked = ortrain_infer_get_rank (ctx, 0) >= 0;
  for (guint i = 0, from = 2; i < n; i++)
    {
      const OrtrainValue *value =
          i == index ? ortrain_node_output (ctx->node, 0) : ortrain_infer_input (ctx, from++); /* the result is x */
      ranks[i] = value != NULL ? value->rank : -1;
      dims[i] = value != NULL ? value->dims : NULL;
      ranked = ranked && ranks[i] >= 0;
    }
  if (!ranked)
    return TRUE;
  if (!ortrain_einsum_parse (equation, n, ranks, &e) || e.output.rank != (guint) ortrain_infer_get_rank (ctx, 0))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "equation '%s' does not match the ranks of the operands", ortrain_text_show (equation));
  for (guint i = 0; i < n; i++)
    for (guint d = 0; d < e.operands[i].rank; d++)
      {
        const guint label = e.operands[i].labels[d];
        if (!known[label])
          sizes[label] = dims[i][d];
        else if (!ortrain_dim_broadcast (ctx->dims, sizes[label], dims[i][d], &sizes[label]))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "axis %u of operand %u differs in size from others with the same letter", d, i);
        known[label] = TRUE;
      }
  for (guint d = 0; d < e.output.rank; d++)
    if (ortrain_dim_is_int (dy[d]) && ortrain_dim_is_int (sizes[e.output.labels[d]]) &&
        dy[d].value != sizes[e.output.labels[d]].value)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                 "axis %u of the gradient differs in size from others with the same letter", d);
  return TRUE;
}

static gboolean
grad_einsum (OrtrainGradContext *ctx, GError **error)
{
  guint n = ctx->node->inputs->len;
  for (guint i = 0; i < n; i++)
    {
      OrtrainValue *inputs[ORTRAIN_EINSUM_MAX_OPERANDS + 1] = { ortrain_grad_of_output (ctx, 0) };
      guint count = 2;
      if (!ortrain_grad_wants (ctx, i))
        continue;
      inputs[1] = ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, i));
      for (guint j = 0; j < n; j++)
        if (j != i)
          inputs[count++] = ortrain_grad_input (ctx, j);
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      ortrain_attributes_set_string (attributes, "equation",
                                     ortrain_attributes_get_string (ctx->node->attributes, "equation", ""));
      ortrain_attributes_set_int (attributes, "index", i);
      OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "EinsumGrad", inputs, count, 1, attributes);
      ortrain_grad_set (ctx, i, ortrain_node_output (node, 0));
    }
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "Einsum", .domain = "", .mixed = ORTRAIN_MIXED_NARROW, .since = 12, .min_inputs = 1, .max_inputs = -1, .min_outputs = 1,
    .max_outputs = 1, .types = ".0", .infer = infer_einsum, .gradient = grad_einsum, .expand = ortrain_body_einsum, .upgrade = upgrade_einsum, .weight_inputs = ~(guint32) 0, .channels = ORTRAIN_CHANNELS_ANY,
    .input_roles = { "weight", "weight", "weight", "weight", "weight", "weight", "weight", "weight" } },
  { .name = "EinsumGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 2, .max_inputs = -1, .min_outputs = 1,
    .max_outputs = 1, .shape_inputs = 2, .no_grad_inputs = 2, .vector_inputs = 2, .types = ".l0", .infer = infer_einsum_grad, .expand = ortrain_body_einsum_grad },
};
/* clang-format on */

ORTRAIN_OP_TABLE (einsum, rows);
