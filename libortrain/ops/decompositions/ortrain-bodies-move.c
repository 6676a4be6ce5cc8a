/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "tensor/ortrain-tensor-private.h"

/* Bodies of sums to a shape, and of the gradients of operators that move elements. Applied to the numbers 0, 1, 2, …,
 * such an operator tells where each element came from, and so where its gradient is to be added. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define MUL(a, b) OP2 ("Mul", a, b)

static const gint64 *
result_dims (OrtrainBody *self, gint64 *dims, gint *rank)
{
  const OrtrainValue *result = ortrain_node_output (self->node, 0);
  *rank = result->rank;
  return ortrain_body_dims (result, dims);
}

/* Adds dy (input 0) up where `op_type`, of the numbers in place of the data and of the operands, says. */
static gboolean
add_back (OrtrainBody *self, const char *op_type, OrtrainValue *const *operands, guint n, OrtrainAttributes *attributes)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  gint rank;
  OrtrainValue *inputs[8] = { NULL };
  result_dims (self, dims, &rank);
  inputs[0] = ortrain_body_count (self, dims, rank);
  for (guint i = 0; i < n; i++)
    inputs[1 + i] = operands[i];
  OrtrainNode *indices = ortrain_body_node (self, op_type, inputs, 1 + n, 1, attributes);
  if (indices != NULL)
    ortrain_body_set (
        self, 0,
        ortrain_body_scatter (self, ortrain_body_input (self, 0), ortrain_node_output (indices, 0), dims, rank));
  return TRUE;
}

/* (x, shape) */
gboolean
ortrain_body_sum_to_shape (OrtrainBody *self)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  gint rank;
  result_dims (self, dims, &rank);
  ortrain_body_set (self, 0, ortrain_body_sum_to (self, ortrain_body_input (self, 0), dims, rank));
  return TRUE;
}

/* (dy, indices, shape of data) */
gboolean
ortrain_body_gather_grad (OrtrainBody *self)
{
  OrtrainValue *indices = ortrain_body_input (self, 1);
  return add_back (self, "Gather", &indices, 1, ortrain_body_attribute ("axis", ortrain_body_int (self, "axis", 0)));
}

gboolean
ortrain_body_gather_nd_grad (OrtrainBody *self)
{
  OrtrainValue *indices = ortrain_body_input (self, 1);
  return add_back (self, "GatherND", &indices, 1,
                   ortrain_body_attribute ("batch_dims", ortrain_body_int (self, "batch_dims", 0)));
}

gboolean
ortrain_body_gather_elements_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *indices = ortrain_body_input (self, 1);
  gint64 dims[ORTRAIN_MAX_RANK];
  gint rank;
  result_dims (self, dims, &rank);
  OrtrainAttributes *attributes = ortrain_body_attribute ("axis", ortrain_body_int (self, "axis", 0));
  ortrain_attributes_set_string (attributes, "reduction", "add");
  OrtrainValue *zeros = ortrain_body_fill (self, dy, 0, dims, rank);
  ortrain_body_set (self, 0, ortrain_body_op_with (self, "ScatterElements", attributes, zeros, indices, dy));
  return TRUE;
}

/* (dy, condition, shape of x) */
gboolean
ortrain_body_compress_grad (OrtrainBody *self)
{
  OrtrainValue *condition = ortrain_body_input (self, 1);
  return add_back (self, "Compress", &condition, 1, ortrain_attributes_copy (self->node->attributes));
}

/* (dy, shape of x, starts, ends, axes, steps) */
gboolean
ortrain_body_slice_grad (OrtrainBody *self)
{
  OrtrainValue *operands[] = { ortrain_body_input (self, 2), ortrain_body_input (self, 3), ortrain_body_input (self, 4),
                               ortrain_body_input (self, 5) };
  return add_back (self, "Slice", operands, operands[3] != NULL ? 4 : operands[2] != NULL ? 3 : 2, NULL);
}

/* (dy, shape of x, pads, axes): constant padding is undone by the opposite padding */
gboolean
ortrain_body_pad_grad (OrtrainBody *self)
{
  OrtrainValue *pads = ortrain_body_input (self, 2), *axes = ortrain_body_input (self, 3);
  const char *mode = ortrain_attributes_get_string (self->node->attributes, "mode", "constant");
  gsize n;
  if (!g_str_equal (mode, "constant"))
    {
      OrtrainValue *operands[] = { pads, NULL, axes };
      return add_back (self, "Pad", operands, axes != NULL ? 3 : 1, ortrain_attributes_copy (self->node->attributes));
    }
  g_autofree gint64 *values = pads != NULL && pads->tensor != NULL ? ortrain_tensor_dup_ints (pads->tensor, &n) : NULL;
  if (values == NULL)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    values[i] = -values[i];
  OrtrainValue *inputs[] = { ortrain_body_input (self, 0), ortrain_body_ints (self, values, (gint) n), NULL, axes };
  OrtrainNode *node = ortrain_body_node (self, "Pad", inputs, axes != NULL ? 4 : 2, 1, NULL);
  if (node != NULL)
    ortrain_body_set (self, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* (dy, shape of x) */
gboolean
ortrain_body_tile_grad (OrtrainBody *self)
{
  gint64 dims[ORTRAIN_MAX_RANK], repeats[ORTRAIN_MAX_RANK];
  gint rank;
  result_dims (self, dims, &rank);
  ortrain_body_dims (ortrain_node_input (self->node, 0), repeats);
  for (gint i = 0; i < rank; i++)
    repeats[i] = dims[i] > 0 ? repeats[i] / dims[i] : 0;
  OrtrainValue *operand = ortrain_body_ints (self, repeats, rank);
  return add_back (self, "Tile", &operand, 1, NULL);
}

/* (dy, shape of input 0, shape of input 1, …): slices of dy */
gboolean
ortrain_body_concat_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0);
  const gint axis = ortrain_body_axis (self, "axis", 0, dy->rank);
  gint64 first = 0;
  for (guint k = 0; k + 1 < self->node->inputs->len; k++)
    {
      const OrtrainValue *shape = ortrain_node_input (self->node, k + 1);
      gsize n;
      g_autofree gint64 *dims =
          shape != NULL && shape->tensor != NULL ? ortrain_tensor_dup_ints (shape->tensor, &n) : NULL;
      if (dims == NULL || (gsize) axis >= n)
        return FALSE;
      if (ortrain_body_wants (self, k))
        ortrain_body_set (self, k, ortrain_body_slice (self, dy, axis, first, first + dims[axis], 1));
      first += dims[axis];
    }
  return TRUE;
}

/* (shape of x, sizes, dy of output 0, dy of output 1, …): joined, with zeros in place of missing gradients */
gboolean
ortrain_body_split_grad (OrtrainBody *self)
{
  const guint n = self->node->inputs->len - 2;
  const OrtrainValue *sizes = ortrain_node_input (self->node, 1), *like = NULL;
  gint64 dims[ORTRAIN_MAX_RANK];
  gint rank;
  gsize n_sizes = 0;
  result_dims (self, dims, &rank);
  const gint axis = ortrain_body_axis (self, "axis", 0, rank);
  const gint64 whole = dims[axis], chunk = n > 0 ? (whole + n - 1) / n : 0;
  g_autofree gint64 *known =
      sizes != NULL && sizes->tensor != NULL ? ortrain_tensor_dup_ints (sizes->tensor, &n_sizes) : NULL;
  g_autofree OrtrainValue **parts = g_new0 (OrtrainValue *, n + 1);
  if (sizes != NULL && n_sizes != n)
    return FALSE;
  for (guint k = 0; k < n; k++)
    {
      parts[k] = ortrain_body_input (self, 2 + k);
      like = parts[k] != NULL ? parts[k] : like;
    }
  if (like == NULL)
    return FALSE;
  for (guint k = 0; k < n; k++)
    {
      dims[axis] = known != NULL ? known[k] : k + 1 < n ? chunk : whole - chunk * (n - 1);
      if (parts[k] == NULL)
        parts[k] = ortrain_body_fill (self, like, 0, dims, rank);
    }
  OrtrainNode *node = ortrain_body_node (self, "Concat", parts, n, 1, ortrain_body_attribute ("axis", axis));
  if (node != NULL)
    ortrain_body_set (self, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- products ---- */

/* (dy, x[, axes]): dy times the product of all other elements: of those before times those after it; zeros need no
 * special case */
gboolean
ortrain_body_reduce_prod_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  const OrtrainValue *list = ortrain_node_input (self->node, 2);
  const gint rank = x->rank;
  gint64 dims[ORTRAIN_MAX_RANK], perm[ORTRAIN_MAX_RANK], back[ORTRAIN_MAX_RANK], moved[ORTRAIN_MAX_RANK];
  gint64 rows[2] = { 1, 1 }, column[2] = { 1, 1 };
  guint32 axes = 0;
  gsize n = 0;
  g_autofree gint64 *values = list != NULL && list->tensor != NULL ? ortrain_tensor_dup_ints (list->tensor, &n) : NULL;
  if (list != NULL && values == NULL)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    axes |= 1u << (values[i] < 0 ? values[i] + rank : values[i]);
  if (n == 0)
    {
      if (ortrain_body_int (self, "noop_with_empty_axes", 0))
        return ortrain_body_same (self);
      axes = (1u << rank) - 1u;
    }
  ortrain_body_dims (x, dims);
  gint at = 0;
  for (guint pass = 0; pass < 2; pass++)
    for (gint i = 0; i < rank; i++)
      if ((axes >> i & 1) == pass)
        {
          rows[pass] *= dims[i];
          moved[at] = dims[i];
          back[i] = at;
          perm[at++] = i;
        }
  column[0] = rows[0];
  OrtrainValue *flat =
      ortrain_body_reshape (self, rank > 0 ? ortrain_body_transpose (self, x, perm, rank) : x, rows, 2);
  OrtrainValue *last = ortrain_graph_const_int (self->graph, 1), *product[2];
  for (guint reverse = 0; reverse < 2; reverse++)
    {
      OrtrainAttributes *attributes = ortrain_body_attribute ("exclusive", 1);
      ortrain_attributes_set_int (attributes, "reverse", reverse);
      product[reverse] = ortrain_body_op_with (self, "CumProd", attributes, flat, last, NULL);
    }
  OrtrainValue *dx = MUL (MUL (product[0], product[1]), ortrain_body_reshape (self, dy, column, 2));
  dx = ortrain_body_reshape (self, dx, moved, rank);
  ortrain_body_set (self, 0, rank > 0 ? ortrain_body_transpose (self, dx, back, rank) : dx);
  return TRUE;
}

/* (dy, axis, x){exclusive, reverse}: for each element, the products in which it stands, with one in its place */
gboolean
ortrain_body_cum_prod_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 2);
  const OrtrainValue *which = ortrain_node_input (self->node, 1);
  const gboolean exclusive = ortrain_body_int (self, "exclusive", 0) != 0;
  const gboolean reverse = ortrain_body_int (self, "reverse", 0) != 0;
  gint64 dims[ORTRAIN_MAX_RANK], square[ORTRAIN_MAX_RANK] = { 0 };
  if (which == NULL || which->tensor == NULL || x->rank >= ORTRAIN_MAX_RANK)
    return FALSE;
  gint64 axis = ortrain_tensor_peek_int (which->tensor, 0);
  axis += axis < 0 ? x->rank : 0;
  ortrain_body_dims (x, dims);
  const gint64 n = dims[axis], column[] = { n, 1 };
  OrtrainValue *axis_value = ortrain_body_ints (self, &axis, 1);
  OrtrainValue *products = ortrain_body_count (self, &n, 1), *elements = ortrain_body_count (self, column, 2);
  const char *compare = reverse ? (exclusive ? "Less" : "LessOrEqual") : exclusive ? "Greater" : "GreaterOrEqual";
  for (gint i = 0; i <= x->rank; i++)
    square[i] = i == axis || i == axis + 1 ? n : 1;
  OrtrainValue *own = ortrain_body_reshape (self, OP2 ("Equal", products, elements), square, x->rank + 1);
  OrtrainValue *stands = ortrain_body_reshape (self, OP2 (compare, products, elements), square, x->rank + 1);
  OrtrainValue *one = ortrain_body_number (self, x, 1), *zero = ortrain_body_number (self, x, 0);
  OrtrainValue *others = OP3 ("Where", own, one, OP2 ("Unsqueeze", x, axis_value));
  OrtrainAttributes *attributes = ortrain_body_attribute ("exclusive", exclusive);
  ortrain_attributes_set_int (attributes, "reverse", reverse);
  others =
      ortrain_body_op_with (self, "CumProd", attributes, others, ortrain_graph_const_int (self->graph, axis + 1), NULL);
  OrtrainValue *terms = OP3 ("Where", stands, MUL (others, OP2 ("Unsqueeze", dy, axis_value)), zero);
  ortrain_body_set (self, 0, ortrain_body_reduce (self, "ReduceSum", terms, 1u << (axis + 1), FALSE));
  return TRUE;
}
