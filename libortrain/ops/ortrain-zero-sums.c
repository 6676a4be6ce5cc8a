/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-zero-sums-private.h"

static OrtrainZeroSum
get (const OrtrainZeroSums *sums, const OrtrainValue *value)
{
  return value != NULL && value->id < sums->n ? sums->of[value->id] : (OrtrainZeroSum){ 0, FALSE };
}

/* FALSE unless the first operand and the first result are there, and their ranks known. */
static gboolean
get_first (OrtrainNode *node, OrtrainValue **x, OrtrainValue **y)
{
  *x = ortrain_node_input (node, 0);
  *y = ortrain_node_output (node, 0);
  return *x != NULL && *y != NULL && (*x)->rank >= 0 && (*x)->rank <= 30 && (*y)->rank >= 0 && (*y)->rank <= 30;
}

static void
set (OrtrainZeroSums *sums, const OrtrainValue *value, guint32 axes, gboolean zero)
{
  if (value->id < sums->n)
    sums->of[value->id] = (OrtrainZeroSum){ axes, zero };
}

static guint32
axes_from (gint first, gint rank)
{
  return rank <= 0 || rank > 31 ? 0 : ((1u << rank) - 1u) & ~((1u << first) - 1u);
}

/* All axes but that of the channels. */
static guint32
all_but_channels (gint rank)
{
  return rank < 2 ? 0 : axes_from (0, rank) & ~2u;
}

static gint
get_axis (const OrtrainNode *node, gint rank, gint64 fallback)
{
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", fallback);
  if (axis < 0)
    axis += rank;
  return axis < 0 || axis >= rank ? -1 : (gint) axis;
}

/* The axis of y that corresponds to an axis of x, if all axes before it, or all after it, are the same in both; or
 * -1. */
static gint
follow_axis (const OrtrainValue *x, const OrtrainValue *y, gint axis)
{
  gboolean same = axis < y->rank;
  for (gint i = 0; i <= axis && same; i++)
    same = ortrain_dim_equal (x->dims[i], y->dims[i]);
  if (same)
    return axis;
  gint other = y->rank - (x->rank - axis);
  same = other >= 0;
  for (gint i = axis; i < x->rank && same; i++)
    same = ortrain_dim_equal (x->dims[i], y->dims[other + i - axis]);
  return same ? other : -1;
}

static guint32
through_reshape (guint32 axes, const OrtrainValue *x, const OrtrainValue *y)
{
  guint32 result = 0;
  for (gint i = 0; i < x->rank && i < 31; i++)
    if (axes >> i & 1)
      {
        gint to = follow_axis (x, y, i);
        if (to < 0)
          return 0;
        result |= 1u << to;
      }
  return result;
}

static guint32
through_transpose (guint32 axes, const OrtrainNode *node, gint rank)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (node->attributes, "perm", &n);
  guint32 result = 0;
  for (gint i = 0; i < rank; i++)
    {
      gint64 from = perm != NULL ? perm[i] : rank - 1 - i;
      if (from >= 0 && from < 31 && (axes >> from & 1))
        result |= 1u << i;
    }
  return result;
}

/* x * factor or x / factor, where the factor is the same all along the axes. */
static guint32
through_scale (guint32 axes, const OrtrainValue *x, const OrtrainValue *factor, const OrtrainValue *y)
{
  if (factor == NULL || factor->rank < 0 || factor->rank > y->rank || !ortrain_value_same_shape (x, y))
    return 0;
  for (gint i = 0; i < x->rank; i++)
    {
      gint k = i - (x->rank - factor->rank);
      if ((axes >> i & 1) && k >= 0 && !ortrain_dim_equal (factor->dims[k], ortrain_dim_int (1)))
        return 0;
    }
  return axes;
}

/* The product treats all rows (of a) or columns (of b) alike, and batches if the other operand has one for all. */
static guint32
through_product (guint32 axes, const OrtrainValue *x, const OrtrainValue *other, const OrtrainValue *y,
                 gboolean transposed, gboolean is_second)
{
  if (x->rank < 2 || x->rank != y->rank || other->rank < 2 || other->rank > x->rank)
    return 0;
  gint kept = (is_second != transposed) ? x->rank - 1 : x->rank - 2; /* row of a, column of b */
  gint to = is_second ? y->rank - 1 : y->rank - 2;
  guint32 result = 0;
  for (gint i = 0; i < x->rank; i++)
    {
      if (!(axes >> i & 1))
        continue;
      if (i == kept)
        result |= 1u << to;
      else if (i < x->rank - 2)
        {
          gint k = i - (x->rank - other->rank);
          if (k >= 0 && !ortrain_dim_equal (other->dims[k], ortrain_dim_int (1)))
            return 0;
          result |= 1u << i;
        }
      else
        return 0;
    }
  return result;
}

/* A window of one element, one for each: each channel is a sum of channels. */
static gboolean
is_pointwise_convolution (const OrtrainNode *node)
{
  const OrtrainValue *w = ortrain_node_input ((OrtrainNode *) node, 1);
  if (w == NULL || w->rank < 3)
    return FALSE;
  for (gint i = 2; i < w->rank; i++)
    if (!ortrain_dim_equal (w->dims[i], ortrain_dim_int (1)))
      return FALSE;
  gsize n;
  const gint64 *strides = ortrain_attributes_get_ints (node->attributes, "strides", &n);
  for (gsize i = 0; strides != NULL && i < n; i++)
    if (strides[i] != 1)
      return FALSE;
  const gint64 *pads = ortrain_attributes_get_ints (node->attributes, "pads", &n);
  for (gsize i = 0; pads != NULL && i < n; i++)
    if (pads[i] != 0)
      return FALSE;
  return TRUE;
}

/* ---- sums ---- */

static void
through_sum (OrtrainZeroSums *sums, const OrtrainValue *x, const OrtrainValue *y, guint32 summed)
{
  const OrtrainZeroSum from = get (sums, x);
  if (from.axes == 0)
    set (sums, y, 0, from.zero);
  else if ((from.axes & ~summed) == 0)
    set (sums, y, 0, TRUE);
  else if ((from.axes & summed) == 0)
    {
      guint32 result = 0;
      for (gint i = 0; i < x->rank; i++)
        {
          gint to = i;
          for (gint j = 0; j < i && y->rank != x->rank; j++)
            to -= summed >> j & 1;
          if (from.axes >> i & 1)
            result |= 1u << to;
        }
      set (sums, y, result, FALSE);
    }
}

void
ortrain_zero_sums_sum_to (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  guint32 summed = 0;
  if (!get_first (node, &x, &y))
    return;
  for (gint i = 0; i < x->rank; i++)
    {
      gint k = i - (x->rank - y->rank);
      if (k < 0 ||
          (ortrain_dim_equal (y->dims[k], ortrain_dim_int (1)) && !ortrain_dim_equal (x->dims[i], ortrain_dim_int (1))))
        summed |= 1u << i;
    }
  through_sum (sums, x, y, summed);
}

void
ortrain_zero_sums_reduce_sum (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y, *list = ortrain_node_input (node, 1);
  guint32 summed = 0;
  if (!get_first (node, &x, &y))
    return;
  set (sums, y, 0, get (sums, x).zero);
  if (list == NULL)
    {
      if (!ortrain_attributes_get_int (node->attributes, "noop_with_empty_axes", 0))
        through_sum (sums, x, y, axes_from (0, x->rank));
      return;
    }
  gsize n;
  g_autofree gint64 *values = list->tensor != NULL ? ortrain_tensor_dup_ints (list->tensor, &n) : NULL;
  if (values == NULL || n == 0)
    return;
  for (gsize i = 0; i < n; i++)
    {
      gint64 axis = values[i] < 0 ? values[i] + x->rank : values[i];
      if (axis < 0 || axis >= x->rank)
        return;
      summed |= 1u << axis;
    }
  through_sum (sums, x, y, summed);
}

/* Added up along one axis: the sum over that axis does not change. */
void
ortrain_zero_sums_gather_elements_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (!get_first (node, &x, &y))
    return;
  const OrtrainZeroSum from = get (sums, x);
  gint axis = get_axis (node, y->rank, 0);
  set (sums, y, axis >= 0 && from.axes == 1u << axis && x->rank == y->rank ? from.axes : 0, FALSE);
}

/* Repeats are added up: along other axes. */
void
ortrain_zero_sums_tile_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (!get_first (node, &x, &y) || x->rank != y->rank)
    return;
  const OrtrainZeroSum from = get (sums, x);
  for (gint i = 0; i < y->rank; i++)
    if ((from.axes >> i & 1) && !ortrain_dim_equal (x->dims[i], y->dims[i]))
      return;
  set (sums, y, from.axes, FALSE);
}

/* ---- zero by definition ---- */

void
ortrain_zero_sums_softmax_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (!get_first (node, &x, &y))
    return;
  gint axis = get_axis (node, y->rank, -1);
  set (sums, y, axis >= 0 ? 1u << axis : 0, FALSE);
}

/* For the gradient of the keys: the axis of the positions, where the softmax is. */
void
ortrain_zero_sums_attention_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const OrtrainValue *dk = ortrain_node_output (node, 1);
  if (dk != NULL && dk->rank == 4)
    set (sums, dk, (ortrain_attributes_get_int (node->attributes, "packed", 0) & 2) ? 1u << 1 : 1u << 2, FALSE);
}

/* [batch, length, 3, heads, width], of which the keys' part is the second: no set of axes says that. Whoever takes the
 * parts apart looks for this function. */
void
ortrain_zero_sums_packed_attention_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
}

/* The gradient of the keys' bias, where dy [m, 3·n] is a view of the result of the above. */
void
ortrain_zero_sums_packed_linear_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const OrtrainValue *dy = ortrain_node_input (node, 1), *db = ortrain_node_output (node, 4), *parts = dy;
  while (parts != NULL && parts->producer != NULL && ortrain_node_has_flag (parts->producer, ORTRAIN_OP_VIEW))
    parts = ortrain_node_input (parts->producer, 0);
  const OrtrainNode *attention = parts != NULL ? parts->producer : NULL;
  if (db == NULL || attention == NULL || attention->op == NULL ||
      attention->op->zero_sums != ortrain_zero_sums_packed_attention_grad || parts->rank != 5 || dy->rank != 2)
    return;
  gint64 n_columns = 1;
  for (gint d = 2; d < 5; d++)
    {
      if (!ortrain_dim_is_int (parts->dims[d]))
        return;
      n_columns *= parts->dims[d].value;
    }
  if (ortrain_dim_equal (dy->dims[1], ortrain_dim_int (n_columns)))
    set (sums, db, 0, TRUE);
}

/* A vector added to all keys of positions changes all scores of a row alike; so does one added to all keys, if they are
 * not multiplied with positions. */
void
ortrain_zero_sums_relative_attention_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const gint64 packed = ortrain_attributes_get_int (node->attributes, "packed", 0);
  const OrtrainValue *dk = ortrain_node_output (node, 1), *dpositions = ortrain_node_output (node, 3);
  /* a score that a mask replaces does not change, which has an effect unless its probability is zero */
  if (ortrain_node_input (node, 9) != NULL && ortrain_attributes_get_int (node->attributes, "fill", 0) != 0 &&
      ortrain_attributes_get_float (node->attributes, "masked_value", 0) > -1e30)
    return;
  if (dpositions != NULL && dpositions->rank == 4)
    set (sums, dpositions, packed >> 4 & 1 ? 1u << 1 : 1u << 2, FALSE);
  if (dk != NULL && dk->rank == 4 && ortrain_node_input (node, 6) == NULL)
    set (sums, dk, packed >> 1 & 1 ? 1u << 1 : 1u << 2, FALSE);
}

/* normalized: the axes that the input is normalized over; of_bias: those that the bias is broadcast along. */
static void
normalization (OrtrainZeroSums *sums, OrtrainNode *node, guint32 normalized, guint32 of_bias)
{
  const OrtrainValue *dx = ortrain_node_output (node, 0), *dbias = ortrain_node_output (node, 2);
  const OrtrainZeroSum from = get (sums, ortrain_node_input (node, 0));
  if (dx != NULL && normalized != 0)
    set (sums, dx, normalized, FALSE);
  if (dbias != NULL && from.axes != 0 && (from.axes & ~of_bias) == 0)
    set (sums, dbias, 0, TRUE);
}

static gint
get_rank (OrtrainNode *node)
{
  const OrtrainValue *dy = ortrain_node_input (node, 0);
  return dy != NULL && dy->rank <= 30 ? dy->rank : -1;
}

void
ortrain_zero_sums_layer_norm_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const gint rank = get_rank (node), axis = rank > 0 ? get_axis (node, rank, -1) : -1;
  if (axis >= 0)
    normalization (sums, node, axes_from (axis, rank), axes_from (0, rank) & ~axes_from (axis, rank));
}

void
ortrain_zero_sums_batch_norm_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const guint32 axes = all_but_channels (get_rank (node));
  normalization (sums, node, axes, axes);
}

/* A factor for each channel. */
void
ortrain_zero_sums_batch_norm_frozen_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const guint32 axes = all_but_channels (get_rank (node)), from = get (sums, ortrain_node_input (node, 0)).axes;
  normalization (sums, node, (from & ~axes) == 0 ? from : 0, axes);
}

/* Each sample and channel is normalized over its own places; a single group is a sample's whole. */
void
ortrain_zero_sums_group_norm_grad (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const gint rank = get_rank (node);
  const gint64 groups = ortrain_attributes_get_int (node->attributes, "num_groups", 0);
  if (rank >= 3)
    normalization (sums, node, groups <= 1 ? axes_from (groups == 0 ? 2 : 1, rank) : 0, all_but_channels (rank));
}

/* ---- operators that hand the property on ---- */

void
ortrain_zero_sums_conv_grad_input (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (get_first (node, &x, &y) && get (sums, x).axes == all_but_channels (x->rank) && is_pointwise_convolution (node))
    set (sums, y, get (sums, x).axes, FALSE);
}

void
ortrain_zero_sums_matmul (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *a, *y, *b = ortrain_node_input (node, 1);
  guint32 axes = 0;
  if (!get_first (node, &a, &y) || b == NULL)
    return;
  const guint32 first = get (sums, a).axes, second = get (sums, b).axes;
  if (first != 0)
    axes = through_product (first, a, b, y, ortrain_attributes_get_int (node->attributes, "transA", 0) != 0, FALSE);
  if (axes == 0 && second != 0)
    axes = through_product (second, b, a, y, ortrain_attributes_get_int (node->attributes, "transB", 0) != 0, TRUE);
  set (sums, y, axes, FALSE);
}

/* x / divisor, where the divisor is the same all along the axes. */
void
ortrain_zero_sums_div (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (get_first (node, &x, &y) && get (sums, x).axes != 0)
    set (sums, y, through_scale (get (sums, x).axes, x, ortrain_node_input (node, 1), y), FALSE);
}

void
ortrain_zero_sums_mul (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *a, *y, *b = ortrain_node_input (node, 1);
  if (!get_first (node, &a, &y) || b == NULL)
    return;
  if (get (sums, a).axes != 0)
    set (sums, y, through_scale (get (sums, a).axes, a, b, y), FALSE);
  else if (get (sums, b).axes != 0)
    set (sums, y, through_scale (get (sums, b).axes, b, a, y), FALSE);
}

void
ortrain_zero_sums_add (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *a, *y, *b = ortrain_node_input (node, 1);
  if (!get_first (node, &a, &y) || b == NULL)
    return;
  const OrtrainZeroSum first = get (sums, a), second = get (sums, b);
  if (first.axes == second.axes && ortrain_value_same_shape (a, y) && ortrain_value_same_shape (b, y))
    set (sums, y, first.axes, first.zero && second.zero);
}

/* Where (mask, 0, gradient of a softmax), where the softmax itself had something like minus infinity in those places:
 * it gave nothing there, and its gradient is nothing, so that leaving it out changes no sum. A row that is masked as a
 * whole is left out as a whole. */
static gboolean
leaves_out_nothing (const OrtrainNode *where)
{
  const OrtrainValue *zero = ortrain_node_input (where, 1), *gradient = ortrain_node_input (where, 2);
  const OrtrainNode *softmax = gradient != NULL ? gradient->producer : NULL;
  if (zero == NULL || zero->tensor == NULL || ortrain_tensor_get_n_elements (zero->tensor) != 1 ||
      ortrain_tensor_get_scalar (zero->tensor, 0) != 0 || softmax == NULL || softmax->op == NULL ||
      softmax->op->zero_sums != ortrain_zero_sums_softmax_grad)
    return FALSE;
  const OrtrainValue *y = ortrain_node_input (softmax, 1);
  OrtrainNode *forward = ortrain_value_get_producer_of_kind (y, ORTRAIN_OP_KIND_SOFTMAX);
  OrtrainNode *mask = forward != NULL
                          ? ortrain_value_get_producer_of_kind (ortrain_node_input (forward, 0), ORTRAIN_OP_KIND_WHERE)
                          : NULL;
  const OrtrainValue *low = mask != NULL ? ortrain_node_input (mask, 1) : NULL;
  return low != NULL && ortrain_node_input (mask, 0) == ortrain_node_input (where, 0) && low->tensor != NULL &&
         ortrain_tensor_get_n_elements (low->tensor) == 1 && ortrain_tensor_get_scalar (low->tensor, 0) <= -1e30;
}

void
ortrain_zero_sums_where (OrtrainZeroSums *sums, OrtrainNode *node)
{
  const OrtrainValue *gradient = ortrain_node_input (node, 2), *y = ortrain_node_output (node, 0);
  if (gradient != NULL && y != NULL && gradient->rank >= 0 && gradient->rank <= 30 &&
      ortrain_value_same_shape (gradient, y) && leaves_out_nothing (node))
    set (sums, y, get (sums, gradient).axes, get (sums, gradient).zero);
}

void
ortrain_zero_sums_transpose (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (get_first (node, &x, &y))
    set (sums, y, through_transpose (get (sums, x).axes, node, x->rank), get (sums, x).zero);
}

void
ortrain_zero_sums_same (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (get_first (node, &x, &y))
    set (sums, y, get (sums, x).axes, get (sums, x).zero);
}

/* Rounding is left out of account, as everywhere here. */
void
ortrain_zero_sums_cast (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (get_first (node, &x, &y) && ortrain_dtype_is_floating (x->dtype) && ortrain_dtype_is_floating (y->dtype))
    set (sums, y, get (sums, x).axes, get (sums, x).zero);
}

void
ortrain_zero_sums_view (OrtrainZeroSums *sums, OrtrainNode *node)
{
  OrtrainValue *x, *y;
  if (get_first (node, &x, &y))
    set (sums, y, through_reshape (get (sums, x).axes, x, y), get (sums, x).zero);
}
