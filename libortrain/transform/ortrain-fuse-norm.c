/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "transform/ortrain-passes-private.h"

/* Layer normalisation written out in primitives, as exporters before operator set 17 did, becomes LayerNormalization;
 * the root mean square form becomes RMSNormalization. Group normalization written as InstanceNormalization of a view,
 * followed by a scale and a bias, becomes GroupNormalization, which needs no view: its readers can be computed with
 * it. */

static gboolean
get_scalar (OrtrainValue *value, double *scalar)
{
  if (value == NULL || value->tensor == NULL || value->role == ORTRAIN_ROLE_PARAMETER ||
      ortrain_tensor_get_n_elements (value->tensor) != 1)
    return FALSE;
  *scalar = ortrain_tensor_peek_scalar (value->tensor, 0);
  return TRUE;
}

/* ReduceMean of x over axes axis…last, kept as ones. */
static gboolean
is_mean_over_last (OrtrainNode *node, gint *axis)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *axes = ortrain_node_input (node, 1);
  if (x->rank < 1 || axes == NULL || axes->tensor == NULL ||
      !ortrain_attributes_get_int (node->attributes, "keepdims", 1))
    return FALSE;
  gsize n;
  g_autofree gint64 *values = ortrain_tensor_dup_ints (axes->tensor, &n);
  guint64 found = 0;
  for (gsize i = 0; i < n; i++)
    {
      gint64 d = values[i] < 0 ? values[i] + x->rank : values[i];
      if (d < 0 || d >= x->rank)
        return FALSE;
      found |= 1u << d;
    }
  if (n == 0 || (gsize) x->rank < n || found != ((1u << x->rank) - 1) - ((1u << (x->rank - (gint) n)) - 1))
    return FALSE;
  *axis = x->rank - (gint) n;
  return TRUE;
}

/* d², written as Pow (d, 2) or Mul (d, d). */
static OrtrainValue *
root_of_square (OrtrainValue *value)
{
  double exponent;
  OrtrainNode *pow = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_POWER),
              *mul = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_MULTIPLY);
  if (pow != NULL && get_scalar (ortrain_node_input (pow, 1), &exponent) && exponent == 2)
    return ortrain_node_input (pow, 0);
  if (mul != NULL && ortrain_node_input (mul, 0) == ortrain_node_input (mul, 1))
    return ortrain_node_input (mul, 0);
  return NULL;
}

/* Sqrt (ReduceMean (d²) + ε): returns d. */
static OrtrainValue *
match_deviation (OrtrainValue *value, gint *axis, double *epsilon)
{
  OrtrainNode *sqrt = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_SQUARE_ROOT);
  OrtrainNode *add =
      sqrt != NULL ? ortrain_value_get_producer_of_kind (ortrain_node_input (sqrt, 0), ORTRAIN_OP_KIND_ADD) : NULL;
  if (add == NULL)
    return NULL;
  OrtrainValue *variance = NULL;
  if (get_scalar (ortrain_node_input (add, 1), epsilon))
    variance = ortrain_node_input (add, 0);
  else if (get_scalar (ortrain_node_input (add, 0), epsilon))
    variance = ortrain_node_input (add, 1);
  OrtrainNode *mean = ortrain_value_get_producer_of_kind (variance, ORTRAIN_OP_KIND_MEAN);
  if (mean == NULL || !is_mean_over_last (mean, axis))
    return NULL;
  return root_of_square (ortrain_node_input (mean, 0));
}

/* x - ReduceMean (x) over the same axes: returns x. */
static OrtrainValue *
match_centred (OrtrainValue *value, gint axis)
{
  OrtrainNode *sub = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_SUBTRACT);
  OrtrainNode *mean =
      sub != NULL ? ortrain_value_get_producer_of_kind (ortrain_node_input (sub, 1), ORTRAIN_OP_KIND_MEAN) : NULL;
  gint found;
  if (mean == NULL || !is_mean_over_last (mean, &found) || found != axis ||
      ortrain_node_input (mean, 0) != ortrain_node_input (sub, 0))
    return NULL;
  return ortrain_node_input (sub, 0);
}

/* The other operand of the one node of that kind that reads `value`, if it has the shape of x's axes from `axis` on.
 */
static OrtrainValue *
match_parameter (OrtrainValue *value, OrtrainOpKind kind, const OrtrainValue *x, gint axis, OrtrainNode **node)
{
  if (value->is_output || value->uses.n != 1)
    return NULL;
  *node = value->uses.items[0].node;
  if (ortrain_node_get_kind (*node) != kind)
    return NULL;
  OrtrainValue *other = ortrain_node_input (*node, ortrain_node_input (*node, 0) == value ? 1 : 0);
  if (other == value || other->rank != x->rank - axis || other->dtype != x->dtype)
    return NULL;
  for (gint d = 0; d < other->rank; d++)
    if (!ortrain_dim_equal (other->dims[d], x->dims[axis + d]))
      return NULL;
  return other;
}

/* x̂ as a quotient, or as a product with a reciprocal: gives d and the divisor. */
static gboolean
match_quotient (OrtrainNode *node, OrtrainValue **numerator, OrtrainValue **deviation)
{
  if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_DIVIDE)
    {
      *numerator = ortrain_node_input (node, 0);
      *deviation = ortrain_node_input (node, 1);
      return TRUE;
    }
  for (guint i = 0; i < 2 && ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_MULTIPLY; i++)
    {
      OrtrainNode *reciprocal =
          ortrain_value_get_producer_of_kind (ortrain_node_input (node, i), ORTRAIN_OP_KIND_RECIPROCAL);
      if (reciprocal == NULL)
        continue;
      *numerator = ortrain_node_input (node, 1 - i);
      *deviation = ortrain_node_input (reciprocal, 0);
      return TRUE;
    }
  return FALSE;
}

static gboolean
fuse (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  OrtrainValue *numerator, *deviation;
  gint axis = 0;
  double epsilon = 0;
  if (!match_quotient (node, &numerator, &deviation) || match_deviation (deviation, &axis, &epsilon) != numerator ||
      !(epsilon >= 0 && epsilon <= G_MAXINT)) /* as attributes have it */
    return TRUE;
  OrtrainValue *x = match_centred (numerator, axis), *y = ortrain_node_output (node, 0);
  gboolean centred = x != NULL;
  OrtrainNode *mul, *add;
  if (!centred)
    x = numerator;
  OrtrainValue *scale = match_parameter (y, ORTRAIN_OP_KIND_MULTIPLY, x, axis, &mul);
  if (scale == NULL)
    return TRUE;
  y = ortrain_node_output (mul, 0);
  OrtrainValue *bias = centred ? match_parameter (y, ORTRAIN_OP_KIND_ADD, x, axis, &add) : NULL;
  OrtrainNode *last = mul;
  if (bias != NULL)
    {
      y = ortrain_node_output (add, 0);
      last = add;
    }
  if (last->graph != graph)
    return TRUE;
  OrtrainValue *operands[] = { x, scale, bias };
  OrtrainNode *fused = ortrain_graph_insert_node (graph, last, "", centred ? "LayerNormalization" : "RMSNormalization",
                                                  last->name, operands, bias != NULL ? 3 : 2, 1);
  ortrain_attributes_set_int (fused->attributes, "axis", axis);
  ortrain_attributes_set_float (fused->attributes, "epsilon", epsilon);
  if (!ortrain_ops_infer_node (fused, error))
    return FALSE;
  ortrain_value_replace_uses (y, ortrain_node_output (fused, 0));
  return TRUE;
}

/* A constant, all of whose elements are this number. */
static gboolean
is_filled_with (const OrtrainValue *value, double number)
{
  if (value == NULL || value->tensor == NULL || value->role == ORTRAIN_ROLE_PARAMETER)
    return FALSE;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (value->tensor); i++)
    if (ortrain_tensor_peek_scalar (value->tensor, i) != number)
      return FALSE;
  return TRUE;
}

/* The other operand of the one node of that kind that reads `value`, if it is one element for each channel of x. */
static OrtrainValue *
match_of_channels (OrtrainValue *value, OrtrainOpKind kind, const OrtrainValue *x, OrtrainNode **node)
{
  if (value->is_output || value->uses.n != 1)
    return NULL;
  *node = value->uses.items[0].node;
  if (ortrain_node_get_kind (*node) != kind)
    return NULL;
  OrtrainValue *other = ortrain_node_input (*node, ortrain_node_input (*node, 0) == value ? 1 : 0);
  const gint first = other->rank - (x->rank - 1); /* the axis of the channels */
  if (other == value || (first != 0 && first != 1) || other->dtype != x->dtype)
    return NULL;
  for (gint d = 0; d < other->rank; d++)
    if (!ortrain_dim_equal (other->dims[d], d == first ? x->dims[1] : ortrain_dim_int (1)))
      return NULL;
  return other;
}

/* The one reader of the value, if it is a view. */
static OrtrainNode *
find_view (const OrtrainValue *value)
{
  OrtrainNode *reader = !value->is_output && value->uses.n == 1 ? value->uses.items[0].node : NULL;
  return reader != NULL && ortrain_node_get_kind (reader) == ORTRAIN_OP_KIND_RESHAPE ? reader : NULL;
}

/* Axis 1 of the value is that of groups of x's channels. */
static gboolean
has_groups_of (const OrtrainValue *value, const OrtrainValue *x)
{
  return x->rank >= 3 && (x == value || value->rank == 3) && ortrain_dim_is_int (value->dims[1]) &&
         ortrain_dim_is_int (x->dims[1]) && value->dims[1].value > 0 && x->dims[1].value % value->dims[1].value == 0 &&
         ortrain_dim_equal (value->dims[0], x->dims[0]);
}

/* InstanceNormalization (x, ones, zeros) · scale + bias; of a view of x [batch, groups, elements], and viewed as x
 * then. */
static gboolean
fuse_groups (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  OrtrainValue *rows = ortrain_node_input (node, 0), *x = rows, *y = ortrain_node_output (node, 0);
  OrtrainNode *mul, *add, *back = find_view (y);
  if (back != NULL)
    {
      OrtrainNode *view = ortrain_value_get_producer_of_kind (rows, ORTRAIN_OP_KIND_RESHAPE);
      y = ortrain_node_output (back, 0);
      x = view != NULL ? ortrain_node_input (view, 0) : NULL;
      if (x == NULL || !ortrain_value_same_shape (y, x))
        return TRUE;
    }
  if (!has_groups_of (rows, x) || !is_filled_with (ortrain_node_input (node, 1), 1) ||
      !is_filled_with (ortrain_node_input (node, 2), 0))
    return TRUE;
  OrtrainValue *scale = match_of_channels (y, ORTRAIN_OP_KIND_MULTIPLY, x, &mul);
  OrtrainValue *bias =
      scale != NULL ? match_of_channels (ortrain_node_output (mul, 0), ORTRAIN_OP_KIND_ADD, x, &add) : NULL;
  if (bias == NULL || add->graph != graph)
    return TRUE;
  OrtrainValue *operands[] = { x, scale, bias };
  const gint64 groups = rows->dims[1].value;
  const gboolean each = groups == x->dims[1].value;
  OrtrainNode *fused = ortrain_graph_insert_node (graph, add, "", each ? "InstanceNormalization" : "GroupNormalization",
                                                  node->name, operands, 3, 1);
  ortrain_attributes_set_float (fused->attributes, "epsilon",
                                ortrain_attributes_get_float (node->attributes, "epsilon", 1e-5));
  if (!each)
    ortrain_attributes_set_int (fused->attributes, "num_groups", groups);
  if (!ortrain_ops_infer_node (fused, error))
    return FALSE;
  ortrain_value_replace_uses (ortrain_node_output (add, 0), ortrain_node_output (fused, 0));
  return TRUE;
}

gboolean
ortrain_fuse_norm (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < nodes->len; i++)
    if (ortrain_node_get_kind (nodes->pdata[i]) == ORTRAIN_OP_KIND_INSTANCE_NORM
            ? !fuse_groups (graph, nodes->pdata[i], error)
            : !fuse (graph, nodes->pdata[i], error))
      return FALSE;
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
