/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/ortrain-zero-sums-private.h"

/* Reductions. All have the form of operator set 18 and later: (data[, axes]) {keepdims, noop_with_empty_axes}. */

/* ReduceSum took its axes as an input at 13, the others at 18. */
static gboolean
upgrade_axes (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (opset < (g_str_equal (node->op_type, "ReduceSum") ? 13 : 18) && ortrain_attributes_has (node->attributes, "axes"))
    ortrain_upgrade_attribute_to_input (graph, node, "axes", 1);
  return TRUE;
}

/* A scalar is reduced as if it had one axis. */
static gboolean
reduced_axis (OrtrainInferContext *ctx, gint64 axis, gint rank, gint *result, GError **error)
{
  return ortrain_infer_axis (ctx, axis, MAX (rank, 1), result, error);
}

/* The shape of input x reduced over the axes in the next input. *n_left -1: not even its rank is known. */
static gboolean
find_reduced (OrtrainInferContext *ctx, guint x, OrtrainDim *left, gint *n_left, GError **error)
{
  gboolean keep = ortrain_attributes_get_int (ctx->node->attributes, "keepdims", 1) != 0;
  gboolean noop = ortrain_attributes_get_int (ctx->node->attributes, "noop_with_empty_axes", 0) != 0;
  gint rank = ortrain_infer_get_rank (ctx, x);
  g_autofree gint64 *axes = NULL;
  gint n_axes = 0;
  gboolean known = TRUE;
  if (ortrain_infer_has_input (ctx, x + 1))
    known = ortrain_infer_get_ints (ctx, x + 1, &axes, &n_axes);
  *n_left = -1;
  if (rank < 0)
    {
      if (known && n_axes == 0 && !noop && !keep)
        *n_left = 0;
      return TRUE;
    }
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, x);
  if (!known)
    {
      const gint length = ortrain_infer_get_length (ctx, x + 1);
      if (keep)
        *n_left = rank;
      else if (length > 0 && length <= rank)
        *n_left = rank - length;
      for (gint d = 0; d < *n_left; d++)
        left[d] = ortrain_dim_unknown (ctx->dims);
      return TRUE;
    }
  gboolean reduced[ORTRAIN_MAX_RANK];
  for (gint d = 0; d < rank; d++)
    reduced[d] = n_axes == 0 && !noop;
  for (gint i = 0; i < n_axes; i++)
    {
      gint axis;
      if (!reduced_axis (ctx, axes[i], rank, &axis, error))
        return FALSE;
      reduced[axis] = TRUE;
    }
  gint n = 0;
  for (gint d = 0; d < rank; d++)
    if (!reduced[d])
      left[n++] = dims[d];
    else if (keep)
      left[n++] = ortrain_dim_int (1);
  *n_left = n;
  return TRUE;
}

static gboolean
infer_reduce (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim left[ORTRAIN_MAX_RANK];
  gint n;
  if (!find_reduced (ctx, 0, left, &n, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), left, n);
  return TRUE;
}

/* ---- Gradients. dy has lost axes, or holds them as 1: `spread` gives it the rank of x again. ---- */
static gboolean
has_axes (OrtrainNode *node, gboolean *empty_is_noop)
{
  OrtrainValue *axes = ortrain_node_input (node, 1);
  *empty_is_noop = ortrain_attributes_get_int (node->attributes, "noop_with_empty_axes", 0) != 0;
  if (axes == NULL)
    return FALSE;
  if (axes->tensor != NULL)
    return ortrain_tensor_get_n_elements (axes->tensor) > 0;
  return !(axes->rank == 1 && ortrain_dim_is_int (axes->dims[0]) && axes->dims[0].value == 0);
}

static gboolean
is_identity (OrtrainNode *node)
{
  gboolean noop;
  return !has_axes (node, &noop) && noop;
}

static OrtrainValue *
spread (OrtrainGradContext *ctx, OrtrainValue *value)
{
  gboolean noop;
  if (ortrain_attributes_get_int (ctx->node->attributes, "keepdims", 1) != 0 || !has_axes (ctx->node, &noop))
    return value; /* a scalar fits anything */
  return ortrain_grad_op2 (ctx, "Unsqueeze", value, ortrain_grad_input (ctx, 1));
}

static OrtrainValue *
expand_to_input (OrtrainGradContext *ctx, OrtrainValue *value)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0);
  if (ortrain_value_same_shape (value, x))
    return value;
  return ortrain_grad_op2 (ctx, "Expand", value, ortrain_grad_shape_of (ctx, x));
}

/* How many elements go into one result, as a scalar of dy's type; only shapes are read. */
static OrtrainValue *
count_of (OrtrainGradContext *ctx, OrtrainValue *dy)
{
  OrtrainValue *n = ortrain_grad_op1 (ctx, "Size", ortrain_grad_input (ctx, 0));
  OrtrainValue *m = ortrain_grad_op1 (ctx, "Size", ortrain_grad_output (ctx, 0));
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "to", dy->dtype);
  /* without results there is nothing to divide */
  m = ortrain_grad_op2 (ctx, "Max", m, ortrain_grad_const (ctx, m, 1));
  OrtrainValue *count = ortrain_grad_op2 (ctx, "Div", n, m);
  return ortrain_node_output (ortrain_grad_node (ctx, "", "Cast", &count, 1, 1, attributes), 0);
}

static gboolean
gradient_sum (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, expand_to_input (ctx, spread (ctx, ortrain_grad_of_output (ctx, 0))));
  return TRUE;
}

static gboolean
gradient_mean (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (!is_identity (ctx->node))
    dy = ortrain_grad_op2 (ctx, "Div", dy, count_of (ctx, dy));
  ortrain_grad_set (ctx, 0, expand_to_input (ctx, spread (ctx, dy)));
  return TRUE;
}

/* Elements that tie for the extreme share its gradient. */
static gboolean
gradient_extreme (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *dy = spread (ctx, ortrain_grad_of_output (ctx, 0));
  if (is_identity (ctx->node))
    {
      ortrain_grad_set (ctx, 0, dy);
      return TRUE;
    }
  OrtrainValue *hit = ortrain_grad_op2 (ctx, "Equal", x, spread (ctx, ortrain_grad_output (ctx, 0)));
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "to", x->dtype);
  OrtrainValue *mask = ortrain_node_output (ortrain_grad_node (ctx, "", "Cast", &hit, 1, 1, attributes), 0);
  OrtrainValue *operands[] = { mask, ortrain_grad_input (ctx, 1) };
  attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "keepdims", 1);
  OrtrainNode *ties = ortrain_grad_node (ctx, "", "ReduceSum", operands, operands[1] ? 2 : 1, 1, attributes);
  OrtrainValue *share = ortrain_grad_op2 (ctx, "Div", dy, ortrain_node_output (ties, 0));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", mask, share));
  return TRUE;
}

static gboolean
gradient_prod (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0),
                               ortrain_grad_input (ctx, 1) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "ReduceProdGrad", operands, operands[2] ? 3 : 2, 1,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

static gboolean
gradient_l1 (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *sign = ortrain_grad_op1 (ctx, "Sign", ortrain_grad_input (ctx, 0));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", sign, spread (ctx, ortrain_grad_of_output (ctx, 0))));
  return TRUE;
}

/* dx = x · dy / y, and 0 where y is 0. */
static gboolean
gradient_l2 (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0), *y = ortrain_grad_output (ctx, 0);
  OrtrainValue *zero = ortrain_grad_const (ctx, y, 0);
  OrtrainValue *ratio = ortrain_grad_op3 (ctx, "Where", ortrain_grad_op2 (ctx, "Equal", y, zero), zero,
                                          ortrain_grad_op2 (ctx, "Div", dy, y));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", ortrain_grad_input (ctx, 0), spread (ctx, ratio)));
  return TRUE;
}

static gboolean
gradient_sum_square (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  OrtrainValue *twice = ortrain_grad_op2 (ctx, "Mul", dy, ortrain_grad_const (ctx, dy, 2));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", ortrain_grad_input (ctx, 0), spread (ctx, twice)));
  return TRUE;
}

/* dx = dy / Σx = dy · e^-y */
static gboolean
gradient_log_sum (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *sum = ortrain_grad_op1 (ctx, "Exp", ortrain_grad_output (ctx, 0));
  OrtrainValue *dy = ortrain_grad_op2 (ctx, "Div", ortrain_grad_of_output (ctx, 0), sum);
  ortrain_grad_set (ctx, 0, expand_to_input (ctx, spread (ctx, dy)));
  return TRUE;
}

/* dx = dy · e^(x - y); where y is infinite, x - y would be NaN. */
static gboolean
gradient_log_sum_exp (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *y = ortrain_grad_output (ctx, 0), *dy = ortrain_grad_of_output (ctx, 0);
  OrtrainValue *shift =
      ortrain_grad_op3 (ctx, "Where", ortrain_grad_op1 (ctx, "IsInf", y), ortrain_grad_const (ctx, y, 0), y);
  OrtrainValue *p =
      ortrain_grad_op1 (ctx, "Exp", ortrain_grad_op2 (ctx, "Sub", ortrain_grad_input (ctx, 0), spread (ctx, shift)));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", p, spread (ctx, dy)));
  return TRUE;
}

/* ---- ReduceProdGrad (dy, x[, axes]): like x ---- */
static gboolean
infer_prod_grad (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim left[ORTRAIN_MAX_RANK];
  const OrtrainDim *dy = ortrain_infer_get_dims (ctx, 0);
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  gint n;
  if (!find_reduced (ctx, 1, left, &n, error))
    return FALSE;
  gboolean fits = n < 0 || rank < 0 || n == rank;
  for (gint d = 0; d < MIN (n, rank) && fits; d++)
    fits = !ortrain_dim_is_int (left[d]) || !ortrain_dim_is_int (dy[d]) || left[d].value == dy[d].value;
  if (!fits)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 does not have the shape of the reduction of input 1");
  ortrain_infer_set_like (ctx, 0, 1);
  return TRUE;
}

/* ---- SumTo (x, shape) ---- */
static gboolean
infer_sum_to (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDim *content;
  gint n;
  if (ortrain_infer_get_content (ctx, 1, &content, &n))
    ortrain_infer_set (ctx, 0, dtype, content, n);
  else if (ortrain_infer_get_rank (ctx, 1) == 1 && ortrain_dim_is_int (ortrain_infer_get_dim (ctx, 1, 0)))
    ortrain_infer_set_unknown (ctx, 0, dtype, (gint) ortrain_infer_get_dim (ctx, 1, 0).value);
  else
    ortrain_infer_set_unknown (ctx, 0, dtype, -1);
  return TRUE;
}

static gboolean
gradient_sum_to (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, expand_to_input (ctx, ortrain_grad_of_output (ctx, 0)));
  return TRUE;
}

/* ---- ArgMax, ArgMin ---- */
static gboolean
infer_arg (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), axis, n = 0;
  gboolean keep = ortrain_attributes_get_int (ctx->node->attributes, "keepdims", 1) != 0;
  OrtrainDim left[ORTRAIN_MAX_RANK];
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ORTRAIN_DTYPE_INT64, -1);
      return TRUE;
    }
  if (!reduced_axis (ctx, ortrain_attributes_get_int (ctx->node->attributes, "axis", 0), rank, &axis, error))
    return FALSE;
  for (gint d = 0; d < rank; d++)
    if (d != axis)
      left[n++] = ortrain_infer_get_dim (ctx, 0, d);
    else if (keep)
      left[n++] = ortrain_dim_int (1);
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_INT64, left, n);
  return TRUE;
}

/* ---- CumSum (x, axis) {exclusive, reverse} ---- */
static gboolean
infer_cumulative (OrtrainInferContext *ctx, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  g_autofree gint64 *axis = NULL;
  gint n, found;
  if (rank >= 0 && ortrain_infer_get_ints (ctx, 1, &axis, &n) && n == 1 &&
      !ortrain_infer_axis (ctx, axis[0], rank, &found, error))
    return FALSE;
  return ortrain_infer_unary (ctx, error);
}

static gboolean
gradient_cum_sum (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1) };
  OrtrainAttributes *attributes = ortrain_attributes_copy (ctx->node->attributes);
  ortrain_attributes_set_int (attributes, "reverse", !ortrain_attributes_get_int (attributes, "reverse", 0));
  ortrain_grad_set (ctx, 0, ortrain_node_output (ortrain_grad_node (ctx, "", "CumSum", operands, 2, 1, attributes), 0));
  return TRUE;
}

static gboolean
gradient_cum_prod (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1),
                               ortrain_grad_input (ctx, 0) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "CumProdGrad", operands, 3, 1,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- channels last ---- */

/* The axes that a reduction of an image has, in input 1, as bits; 0: they are not known, or all. */
static guint32
read_axes (const OrtrainNode *node)
{
  const OrtrainValue *axes = ortrain_node_input (node, 1);
  guint32 bits = 0;
  if (axes == NULL || axes->tensor == NULL || axes->dtype != ORTRAIN_DTYPE_INT64)
    return 0;
  const gint64 n = ortrain_tensor_get_n_elements (axes->tensor), *values = ortrain_tensor_peek (axes->tensor);
  for (gint64 i = 0; values != NULL && i < n; i++)
    if (values[i] >= -ORTRAIN_IMAGE_RANK && values[i] < ORTRAIN_IMAGE_RANK)
      bits |= 1u << (values[i] < 0 ? values[i] + ORTRAIN_IMAGE_RANK : values[i]);
  return bits;
}

/* Where axes disappear, those that are left must keep their order. */
static gboolean
find_images_of_reduction (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  const gboolean keeps = ortrain_attributes_get_int (node->attributes, "keepdims", 1) != 0;
  const guint32 axes = read_axes (node), height_and_width = 1 << 2 | 1 << 3;
  *inputs = 1;
  *outputs = keeps ? 1 : 0;
  return ortrain_value_is_image (ortrain_node_input (node, 0)) && axes != 0 &&
         (keeps || axes & 1 << 1 || (axes & height_and_width) == height_and_width);
}

static gboolean
put_reduction_last (OrtrainNode *node, GError **error)
{
  const guint32 axes = read_axes (node);
  gint64 moved[ORTRAIN_IMAGE_RANK];
  gsize n = 0;
  for (gint64 axis = 0; axis < ORTRAIN_IMAGE_RANK; axis++)
    if (axes >> axis & 1)
      moved[n++] = ortrain_channels_last_move_axis (axis);
  ortrain_node_set_input (node, 1, ortrain_graph_const_ints (node->graph, moved, n));
  return TRUE;
}

/* clang-format off */
#define REDUCTION(op, rule, ...)                                                                                            \
  { .name = op, .domain = "", .since = 7, .min_inputs = 1, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1,        \
    .dtypes = ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, .shape_inputs = 1 << 1, .no_grad_inputs = 1 << 1,           \
 .vector_inputs = 1 << 1, .types = ".l", .infer = infer_reduce, .gradient = rule, .upgrade = upgrade_axes, .channels = ORTRAIN_CHANNELS_REDUCED, \
    .find_images = find_images_of_reduction, .put_channels_last = put_reduction_last, __VA_ARGS__ }
#define ARG(op)                                                                                                        \
  { .name = op, .domain = "", .since = 7, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,        \
    .dtypes = ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, .flags = ORTRAIN_OP_NO_GRADIENT, .infer = infer_arg,             \
    .mixed = ORTRAIN_MIXED_FOLLOW }

static const OrtrainOpDef ops[] = {
  REDUCTION ("ReduceSum", gradient_sum, .zero_sums = ortrain_zero_sums_reduce_sum),
  REDUCTION ("ReduceMean", gradient_mean, .kind = ORTRAIN_OP_KIND_MEAN),
  REDUCTION ("ReduceMax", gradient_extreme, .flags = 0),
  REDUCTION ("ReduceMin", gradient_extreme, .flags = 0),
  REDUCTION ("ReduceProd", gradient_prod, .flags = 0),
  REDUCTION ("ReduceL1", gradient_l1, .flags = 0),
  REDUCTION ("ReduceL2", gradient_l2, .flags = 0),
  REDUCTION ("ReduceSumSquare", gradient_sum_square, .flags = 0),
  REDUCTION ("ReduceLogSum", gradient_log_sum, .flags = 0),
  REDUCTION ("ReduceLogSumExp", gradient_log_sum_exp, .flags = 0),
  ARG ("ArgMax"),
  ARG ("ArgMin"),
  { .name = "CumSum", .domain = "", .since = 11, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_NUMERIC, .no_grad_inputs = 1 << 1, .scalar_inputs = 2, .types = ".i", .infer = infer_cumulative,
    .gradient = gradient_cum_sum, .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "CumProd", .domain = "", .since = 26, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_NUMERIC, .no_grad_inputs = 1 << 1, .scalar_inputs = 2, .types = ".i", .infer = infer_cumulative,
    .gradient = gradient_cum_prod, .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "CumProdGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .scalar_inputs = 2, .shaped_inputs = 4, .types = ".i0", .infer = infer_cumulative, .expand = ortrain_body_cum_prod_grad },
  { .name = "SumTo", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .shape_inputs = 1 << 1, .no_grad_inputs = 1 << 1, .vector_inputs = 2, .types = ".l", .infer = infer_sum_to, .gradient = gradient_sum_to,
    .find_images = ortrain_channels_last_find_broadcast, .put_channels_last = ortrain_channels_last_put_broadcast,
    .flags = ORTRAIN_OP_VIEW_IF_SAME, .kind = ORTRAIN_OP_KIND_SUM_TO, .zero_sums = ortrain_zero_sums_sum_to, .expand = ortrain_body_sum_to_shape },
  { .name = "ReduceProdGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .shape_inputs = 1 << 2, .no_grad_inputs = 1 << 2, .vector_inputs = 4, .types = ".0l", .infer = infer_prod_grad, .expand = ortrain_body_reduce_prod_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (reduction, ops);
