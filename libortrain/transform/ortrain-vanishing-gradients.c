/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-vanishing-gradients-private.h"

#include "ops/ortrain-op-private.h"

/* For each value of the backward pass: the set of axes over which its sum, taken over all of them together and at any
 * index of the others, is exactly zero in real arithmetic. Softmax does not change when a constant is added along its
 * axis, so the gradient of its input sums to zero there; normalisations likewise. Linear operators that treat those
 * axes alike hand the property on. */

typedef struct
{
  guint32 axes;  /* bit i: axis i; 0: nothing is known */
  gboolean zero; /* all elements are */
} Vanishing;

typedef struct
{
  Vanishing *of; /* by value->id */
  guint n;
} Pass;

static Vanishing
get (const Pass *pass, const OrtrainValue *value)
{
  return value != NULL && value->id < pass->n ? pass->of[value->id] : (Vanishing){ 0, FALSE };
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

/* Which axis of y an axis of x is, when everything before it, or everything behind it, is the same; or -1. */
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

/* The axes that ReduceSum or SumTo takes the sum over; FALSE if they are not known. */
static gboolean
get_summed_axes (OrtrainNode *node, const OrtrainValue *x, const OrtrainValue *y, guint32 *axes)
{
  *axes = 0;
  if (g_str_equal (node->op_type, "SumTo"))
    {
      for (gint i = 0; i < x->rank; i++)
        {
          gint k = i - (x->rank - y->rank);
          if (k < 0 || (ortrain_dim_equal (y->dims[k], ortrain_dim_int (1)) &&
                        !ortrain_dim_equal (x->dims[i], ortrain_dim_int (1))))
            *axes |= 1u << i;
        }
      return TRUE;
    }
  OrtrainValue *list = ortrain_node_input (node, 1);
  if (list == NULL)
    {
      if (ortrain_attributes_get_int (node->attributes, "noop_with_empty_axes", 0))
        return FALSE;
      *axes = axes_from (0, x->rank);
      return TRUE;
    }
  gsize n;
  g_autofree gint64 *values = list->tensor != NULL ? ortrain_tensor_dup_ints (list->tensor, &n) : NULL;
  if (values == NULL || n == 0)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      gint64 axis = values[i] < 0 ? values[i] + x->rank : values[i];
      if (axis < 0 || axis >= x->rank)
        return FALSE;
      *axes |= 1u << axis;
    }
  return TRUE;
}

static Vanishing
through_sum (OrtrainNode *node, Vanishing from, const OrtrainValue *x, const OrtrainValue *y)
{
  guint32 summed;
  if (from.axes == 0 || !get_summed_axes (node, x, y, &summed))
    return (Vanishing){ 0, from.zero };
  if ((from.axes & ~summed) == 0)
    return (Vanishing){ 0, TRUE };
  if ((from.axes & summed) != 0)
    return (Vanishing){ 0, FALSE };
  guint32 result = 0;
  for (gint i = 0, k = y->rank == x->rank ? 0 : -1; i < x->rank; i++)
    if (k == 0)
      result |= from.axes & (1u << i);
    else if (!(summed >> i & 1))
      {
        gint to = 0;
        for (gint j = 0; j < i; j++)
          to += !(summed >> j & 1);
        if (from.axes >> i & 1)
          result |= 1u << to;
      }
  return (Vanishing){ result, FALSE };
}

static gboolean
is_normalization_gradient (const OrtrainNode *node)
{
  return ortrain_node_is (node, ORTRAIN_DOMAIN, "BatchNormGrad") ||
         ortrain_node_is (node, ORTRAIN_DOMAIN, "LayerNormGrad") ||
         ortrain_node_is (node, ORTRAIN_DOMAIN, "BatchNormFrozenGrad");
}

static void
visit_normalization (Pass *pass, OrtrainNode *node)
{
  OrtrainValue *dy = ortrain_node_input (node, 0), *dx = ortrain_node_output (node, 0);
  OrtrainValue *dbias = ortrain_node_output (node, 2);
  gint rank = dy != NULL ? dy->rank : -1;
  if (rank < 1 || rank > 30)
    return;
  gboolean layer = g_str_equal (node->op_type, "LayerNormGrad");
  gint axis = layer ? get_axis (node, rank, -1) : 0;
  guint32 normalized = layer ? (axis >= 0 ? axes_from (axis, rank) : 0) : all_but_channels (rank);
  guint32 of_bias = layer ? (axis >= 0 ? axes_from (0, rank) & ~normalized : 0) : all_but_channels (rank);
  Vanishing from = get (pass, dy);
  if (dx != NULL && !g_str_equal (node->op_type, "BatchNormFrozenGrad"))
    pass->of[dx->id].axes = normalized;
  else if (dx != NULL && (from.axes & ~all_but_channels (rank)) == 0)
    pass->of[dx->id].axes = from.axes; /* a factor for each channel */
  if (dbias != NULL && from.axes != 0 && (from.axes & ~of_bias) == 0)
    pass->of[dbias->id].zero = TRUE;
}

/* Where (mask, 0, gradient of a softmax), where the softmax itself had something like minus infinity in those places: it
 * gave nothing there, and its gradient is nothing, so that leaving it out changes no sum. A row that is masked as a
 * whole is left out as a whole. */
static gboolean
leaves_out_nothing (const OrtrainNode *where)
{
  const OrtrainValue *zero = ortrain_node_input (where, 1), *gradient = ortrain_node_input (where, 2);
  const OrtrainNode *softmax = gradient != NULL ? gradient->producer : NULL;
  if (zero == NULL || zero->tensor == NULL || ortrain_tensor_get_n_elements (zero->tensor) != 1 ||
      ortrain_tensor_get_scalar (zero->tensor, 0) != 0 || softmax == NULL ||
      !ortrain_node_is (softmax, ORTRAIN_DOMAIN, "SoftmaxGrad"))
    return FALSE;
  const OrtrainValue *y = ortrain_node_input (softmax, 1);
  const OrtrainValue *x = y != NULL && y->producer != NULL && ortrain_node_is (y->producer, "", "Softmax")
                              ? ortrain_node_input (y->producer, 0)
                              : NULL;
  const OrtrainNode *mask =
      x != NULL && x->producer != NULL && ortrain_node_is (x->producer, "", "Where") ? x->producer : NULL;
  const OrtrainValue *low = mask != NULL ? ortrain_node_input (mask, 1) : NULL;
  return low != NULL && ortrain_node_input (mask, 0) == ortrain_node_input (where, 0) && low->tensor != NULL &&
         ortrain_tensor_get_n_elements (low->tensor) == 1 && ortrain_tensor_get_scalar (low->tensor, 0) <= -1e30;
}

/* Each sample and channel is normalized over its own places; a single group is a sample's whole. */
static void
visit_group_normalization (Pass *pass, OrtrainNode *node)
{
  OrtrainValue *dy = ortrain_node_input (node, 0), *dx = ortrain_node_output (node, 0);
  OrtrainValue *dbias = ortrain_node_output (node, 2);
  const gint rank = dy != NULL ? dy->rank : -1;
  const gint64 groups = ortrain_attributes_get_int (node->attributes, "num_groups", 0);
  if (rank < 3 || rank > 30)
    return;
  const Vanishing from = get (pass, dy);
  if (dx != NULL && groups <= 1)
    pass->of[dx->id].axes = axes_from (groups == 0 ? 2 : 1, rank);
  if (dbias != NULL && from.axes != 0 && (from.axes & ~all_but_channels (rank)) == 0)
    pass->of[dbias->id].zero = TRUE;
}

static void
visit (Pass *pass, OrtrainNode *node)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (x == NULL || x->rank < 0 || x->rank > 30)
    return;
  if (is_normalization_gradient (node))
    {
      visit_normalization (pass, node);
      return;
    }
  if (ortrain_node_is (node, ORTRAIN_DOMAIN, "GroupNormGrad"))
    {
      visit_group_normalization (pass, node);
      return;
    }
  if (ortrain_node_is (node, ORTRAIN_DOMAIN, "AttentionGrad"))
    {
      /* of the keys' gradient: the axis of the positions, where the softmax is */
      OrtrainValue *dk = ortrain_node_output (node, 1);
      if (dk != NULL && dk->rank == 4)
        pass->of[dk->id].axes = (ortrain_attributes_get_int (node->attributes, "packed", 0) & 2) ? 1u << 1 : 1u << 2;
      return;
    }
  if (y == NULL || y->rank < 0 || y->rank > 30)
    return;
  Vanishing from = get (pass, x), *to = &pass->of[y->id];
  if (*node->domain != '\0')
    {
      if (g_str_equal (node->op_type, "SoftmaxGrad") || g_str_equal (node->op_type, "LogSoftmaxGrad"))
        {
          gint axis = get_axis (node, y->rank, -1);
          to->axes = axis >= 0 ? 1u << axis : 0;
        }
      else if (g_str_equal (node->op_type, "GatherElementsGrad"))
        {
          /* added up along one axis: the sum over that axis stays what it is */
          gint axis = get_axis (node, y->rank, 0);
          to->axes = axis >= 0 && from.axes == 1u << axis && x->rank == y->rank ? from.axes : 0;
        }
      else if (g_str_equal (node->op_type, "TileGrad"))
        {
          /* repeats are added up: along other axes */
          to->axes = x->rank == y->rank ? from.axes : 0;
          for (gint i = 0; i < y->rank && x->rank == y->rank; i++)
            if ((from.axes >> i & 1) && !ortrain_dim_equal (x->dims[i], y->dims[i]))
              to->axes = 0;
        }
      else if (g_str_equal (node->op_type, "SumTo"))
        *to = through_sum (node, from, x, y);
      else if (g_str_equal (node->op_type, "ConvGradInput"))
        to->axes = from.axes == all_but_channels (x->rank) && is_pointwise_convolution (node) ? from.axes : 0;
      else if (g_str_equal (node->op_type, "FusedMatMul"))
        {
          OrtrainValue *b = ortrain_node_input (node, 1);
          if (b == NULL)
            return;
          Vanishing second = get (pass, b);
          if (from.axes != 0)
            to->axes = through_product (from.axes, x, b, y,
                                        ortrain_attributes_get_int (node->attributes, "transA", 0) != 0, FALSE);
          if (to->axes == 0 && second.axes != 0)
            to->axes = through_product (second.axes, b, x, y,
                                        ortrain_attributes_get_int (node->attributes, "transB", 0) != 0, TRUE);
        }
      return;
    }
  if (g_str_equal (node->op_type, "ReduceSum"))
    *to = through_sum (node, from, x, y);
  else if (g_str_equal (node->op_type, "MatMul"))
    {
      OrtrainValue *b = ortrain_node_input (node, 1);
      Vanishing second = get (pass, b);
      if (from.axes != 0)
        to->axes = through_product (from.axes, x, b, y, FALSE, FALSE);
      if (to->axes == 0 && second.axes != 0)
        to->axes = through_product (second.axes, b, x, y, FALSE, TRUE);
    }
  else if (g_str_equal (node->op_type, "Mul") || g_str_equal (node->op_type, "Div"))
    {
      OrtrainValue *b = ortrain_node_input (node, 1);
      if (from.axes != 0)
        to->axes = through_scale (from.axes, x, b, y);
      else if (g_str_equal (node->op_type, "Mul") && b != NULL && get (pass, b).axes != 0)
        to->axes = through_scale (get (pass, b).axes, b, x, y);
    }
  else if (g_str_equal (node->op_type, "Add") || g_str_equal (node->op_type, "Sub"))
    {
      OrtrainValue *b = ortrain_node_input (node, 1);
      Vanishing second = get (pass, b);
      if (from.axes == second.axes && b != NULL && ortrain_value_same_shape (x, y) && ortrain_value_same_shape (b, y))
        *to = (Vanishing){ from.axes, from.zero && second.zero };
    }
  else if (g_str_equal (node->op_type, "Where"))
    {
      OrtrainValue *gradient = ortrain_node_input (node, 2);
      if (gradient != NULL && ortrain_value_same_shape (gradient, y) && leaves_out_nothing (node))
        *to = get (pass, gradient);
    }
  else if (g_str_equal (node->op_type, "Transpose"))
    *to = (Vanishing){ through_transpose (from.axes, node, x->rank), from.zero };
  else if (g_str_equal (node->op_type, "Neg") || g_str_equal (node->op_type, "Identity"))
    *to = from;
  else if (node->op != NULL && (node->op->flags & ORTRAIN_OP_VIEW))
    *to = (Vanishing){ through_reshape (from.axes, x, y), from.zero };
}

/* The gradient becomes zeros of its own shape, which land in its place as any gradient does. */
static gboolean
put_zeros (OrtrainGraph *graph, OrtrainValue *gradient, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (gradient->rank < 0 || gradient->rank > ORTRAIN_MAX_RANK || !ortrain_value_get_static_dims (gradient, dims))
    return TRUE;
  OrtrainValue *inputs[] = { ortrain_graph_const_scalar (graph, gradient->dtype, 0.0),
                             ortrain_graph_const_ints (graph, dims, (gsize) gradient->rank) };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Expand", "grad/Zeros", inputs, 2, 1);
  node->phase = ORTRAIN_PHASE_BACKWARD;
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  ortrain_value_replace_uses (gradient, ortrain_node_output (node, 0));
  return TRUE;
}

gboolean
ortrain_drop_vanishing_gradients (OrtrainGraph *graph, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  Pass pass = { g_new0 (Vanishing, graph->values->len + 1), graph->values->len };
  for (guint n = 0; n < graph->nodes->len; n++)
    if (((OrtrainNode *) graph->nodes->pdata[n])->phase == ORTRAIN_PHASE_BACKWARD)
      visit (&pass, graph->nodes->pdata[n]);
  g_autoptr (GPtrArray) zeros = g_ptr_array_new ();
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      OrtrainValue *value = graph->outputs->pdata[i];
      if (value->role == ORTRAIN_ROLE_GRADIENT && get (&pass, value).zero)
        g_ptr_array_add (zeros, value);
    }
  g_free (pass.of);
  for (guint i = 0; i < zeros->len; i++)
    if (!put_zeros (graph, zeros->pdata[i], error))
      return FALSE;
  if (zeros->len > 0)
    ortrain_graph_remove_dead (graph);
  return ortrain_graph_sort (graph, error);
}
