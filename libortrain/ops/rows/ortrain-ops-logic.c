/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-zero-sums-private.h"
#include "ops/rows/ortrain-ops-pointwise-private.h"

/* Comparisons and logic, which have no gradient; the choices Where and Clip, which do. */

/* Contents of a bool: 0 and 1. FALSE unless all are known. */
static gboolean
get_flags (OrtrainInferContext *ctx, guint i, gboolean **flags, gint *n)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL)
    return FALSE;
  if (value->n_content >= 0)
    {
      for (gint k = 0; k < value->n_content; k++)
        if (!ortrain_dim_is_int (value->content[k]))
          return FALSE;
      *n = value->n_content;
      *flags = g_new (gboolean, *n + 1);
      for (gint k = 0; k < *n; k++)
        (*flags)[k] = value->content[k].value != 0;
      return TRUE;
    }
  if (value->tensor == NULL || ortrain_tensor_get_dtype (value->tensor) != ORTRAIN_DTYPE_BOOL ||
      ortrain_tensor_get_rank (value->tensor) > 1 || ortrain_tensor_get_n_elements (value->tensor) > 64)
    return FALSE;
  const guint8 *bytes = ortrain_tensor_peek (value->tensor);
  if (bytes == NULL)
    return FALSE;
  *n = (gint) ortrain_tensor_get_n_elements (value->tensor);
  *flags = g_new (gboolean, *n + 1);
  for (gint k = 0; k < *n; k++)
    (*flags)[k] = bytes[k] != 0;
  return TRUE;
}

/* Exporters write Where (Equal (shape, -1), other, shape): an extent never equals a negative number. */
static gboolean
infer_equal (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *a, *b;
  gint na, nb;
  if (!ortrain_infer_compare (ctx, error))
    return FALSE;
  if (ortrain_infer_get_rank (ctx, 0) > 1 || ortrain_infer_get_rank (ctx, 1) > 1 ||
      !ortrain_infer_get_content (ctx, 0, &a, &na) || !ortrain_infer_get_content (ctx, 1, &b, &nb) ||
      (na != nb && na != 1 && nb != 1))
    return TRUE;
  gint n = na == 1 ? nb : na;
  g_autofree OrtrainDim *result = g_new (OrtrainDim, n + 1);
  for (gint k = 0; k < n; k++)
    {
      OrtrainDim x = a[na == 1 ? 0 : k], y = b[nb == 1 ? 0 : k];
      if (ortrain_dim_is_int (x) && ortrain_dim_is_int (y))
        result[k] = ortrain_dim_int (x.value == y.value);
      else if (ortrain_dim_equal (x, y))
        result[k] = ortrain_dim_int (1);
      else if ((ortrain_dim_is_int (x) && x.value < 0 && ortrain_dim_is_symbol (y, NULL)) ||
               (ortrain_dim_is_int (y) && y.value < 0 && ortrain_dim_is_symbol (x, NULL)))
        result[k] = ortrain_dim_int (0);
      else
        return TRUE;
    }
  ortrain_infer_set_content (ctx, 0, result, n);
  return TRUE;
}

static gboolean
infer_where (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim dims[16];
  gint rank, na, nb, nc;
  g_autofree gboolean *flags = NULL;
  const OrtrainDim *a, *b;
  OrtrainDType x = ortrain_infer_get_dtype (ctx, 1), y = ortrain_infer_get_dtype (ctx, 2);
  if (!ortrain_infer_broadcast (ctx, 0, 2, dims, &rank, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, x != ORTRAIN_DTYPE_UNDEFINED ? x : y, dims, rank);
  if (rank < 0 || rank > 1 || !get_flags (ctx, 0, &flags, &nc) || !ortrain_infer_get_content (ctx, 1, &a, &na) ||
      !ortrain_infer_get_content (ctx, 2, &b, &nb))
    return TRUE;
  gint n = nc != 1 ? nc : na != 1 ? na : nb;
  if ((nc != 1 && nc != n) || (na != 1 && na != n) || (nb != 1 && nb != n))
    return TRUE;
  g_autofree OrtrainDim *result = g_new (OrtrainDim, n + 1);
  for (gint k = 0; k < n; k++)
    result[k] = flags[nc == 1 ? 0 : k] ? a[na == 1 ? 0 : k] : b[nb == 1 ? 0 : k];
  ortrain_infer_set_content (ctx, 0, result, n);
  return TRUE;
}

static gboolean
infer_unary_bool (OrtrainInferContext *ctx, GError **error)
{
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_BOOL, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

static gboolean
grad_where (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *condition = ortrain_grad_input (ctx, 0), *dy = ortrain_grad_of_output (ctx, 0);
  OrtrainValue *zero = ortrain_grad_const (ctx, dy, 0.0);
  if (ortrain_grad_wants (ctx, 1))
    ortrain_pointwise_set (ctx, 1, ortrain_grad_op3 (ctx, "Where", condition, dy, zero));
  if (ortrain_grad_wants (ctx, 2))
    ortrain_pointwise_set (ctx, 2, ortrain_grad_op3 (ctx, "Where", condition, zero, dy));
  return TRUE;
}

/* From y: elements strictly between the bounds came from x; elements at a bound came from that bound (the upper one if
 * they meet or cross). */
static gboolean
grad_clip (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *y = ortrain_grad_output (ctx, 0), *dy = ortrain_grad_of_output (ctx, 0);
  OrtrainValue *low = ortrain_grad_input (ctx, 1), *high = ortrain_grad_input (ctx, 2);
  OrtrainValue *zero = ortrain_grad_const (ctx, dy, 0.0);
  if (low != NULL)
    low = ortrain_pointwise_cast (ctx, low, y->dtype);
  if (high != NULL)
    high = ortrain_pointwise_cast (ctx, high, y->dtype);
  if (ortrain_grad_wants (ctx, 0))
    {
      OrtrainValue *inside = low != NULL ? ortrain_grad_op2 (ctx, "Greater", y, low) : NULL;
      if (high != NULL)
        {
          OrtrainValue *below = ortrain_grad_op2 (ctx, "Less", y, high);
          inside = inside != NULL ? ortrain_grad_op2 (ctx, "And", inside, below) : below;
        }
      ortrain_grad_set (ctx, 0, inside != NULL ? ortrain_grad_op3 (ctx, "Where", inside, dy, zero) : dy);
    }
  if (ortrain_grad_wants (ctx, 1))
    {
      OrtrainValue *at = ortrain_grad_op2 (ctx, "Equal", y, low);
      if (high != NULL)
        at = ortrain_grad_op2 (ctx, "And", at, ortrain_grad_op2 (ctx, "Less", y, high));
      ortrain_pointwise_set (ctx, 1, ortrain_grad_op3 (ctx, "Where", at, dy, zero));
    }
  if (ortrain_grad_wants (ctx, 2))
    ortrain_pointwise_set (ctx, 2, ortrain_grad_op3 (ctx, "Where", ortrain_grad_op2 (ctx, "Equal", y, high), dy, zero));
  return TRUE;
}

/* Before operator set 11 the bounds were attributes. */
static gboolean
upgrade_clip (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  static const char *const names[] = { "min", "max" };
  if (opset >= 11)
    return TRUE;
  OrtrainValue *x = ortrain_node_input (node, 0);
  if (x == NULL)
    return TRUE;
  for (guint i = 0; i < 2; i++)
    {
      if (ortrain_attributes_has (node->attributes, names[i]))
        ortrain_node_set_input (
            node, i + 1,
            ortrain_upgrade_const_like (graph, node, ortrain_attributes_get_float (node->attributes, names[i], 0), x));
      ortrain_attributes_remove (node->attributes, names[i]);
    }
  return TRUE;
}

/* Where the condition is known and the same everywhere, such as a guard against rows that no mask has. */
static gint
find_taken_side (const OrtrainNode *node)
{
  const OrtrainValue *condition = ortrain_node_input (node, 0);
  if (condition == NULL || condition->tensor == NULL || condition->dtype != ORTRAIN_DTYPE_BOOL)
    return -1;
  const guint8 *elements = ortrain_tensor_peek (condition->tensor);
  const gint64 n = ortrain_tensor_get_n_elements (condition->tensor);
  for (gint64 i = 1; i < n; i++)
    if (!elements[i] != !elements[0])
      return -1;
  return n == 0 ? -1 : elements[0] ? 1 : 2;
}

/* Finds the other operand when one is a single element that changes nothing. */
static gint
find_beside (const OrtrainNode *node, gboolean neutral)
{
  for (guint i = 0; i < 2; i++)
    {
      const OrtrainValue *operand = ortrain_node_input (node, i);
      if (operand != NULL && operand->tensor != NULL && operand->dtype == ORTRAIN_DTYPE_BOOL &&
          ortrain_tensor_get_n_elements (operand->tensor) == 1 &&
          !*(const guint8 *) ortrain_tensor_peek (operand->tensor) == !neutral)
        return (gint) (1 - i);
    }
  return -1;
}

static gint
find_beside_true (const OrtrainNode *node)
{
  return find_beside (node, TRUE);
}

static gint
find_beside_false (const OrtrainNode *node)
{
  return find_beside (node, FALSE);
}

#define COMPARE(name, since, dtypes, flags, infer, ...)                                                                \
  {                                                                                                                    \
    name, "", since, 2, 2, 1, 1, dtypes, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_NO_GRADIENT | (flags), 0, 3, infer, NULL,   \
        NULL, ".0", __VA_ARGS__                                                                                        \
  }
#define TEST(name, since, dtypes, ...)                                                                                 \
  {                                                                                                                    \
    name, "", since, 1, 1, 1, 1, dtypes, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_NO_GRADIENT, 0, 1, infer_unary_bool, NULL,  \
        NULL, NULL, __VA_ARGS__                                                                                        \
  }

static const OrtrainOpDef ops[] = {
  COMPARE ("Equal", 7, ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, ORTRAIN_OP_COMMUTATIVE, infer_equal,
           .kind = ORTRAIN_OP_KIND_EQUAL),
  COMPARE ("Less", 7, ORTRAIN_DTYPES_NUMERIC, 0, ortrain_infer_compare),
  COMPARE ("Greater", 7, ORTRAIN_DTYPES_NUMERIC, 0, ortrain_infer_compare),
  COMPARE ("LessOrEqual", 12, ORTRAIN_DTYPES_NUMERIC, 0, ortrain_infer_compare),
  COMPARE ("GreaterOrEqual", 12, ORTRAIN_DTYPES_NUMERIC, 0, ortrain_infer_compare),
  COMPARE ("And", 7, ORTRAIN_DTYPES_BOOL, ORTRAIN_OP_COMMUTATIVE, ortrain_infer_compare,
           .find_passed_input = find_beside_true),
  COMPARE ("Or", 7, ORTRAIN_DTYPES_BOOL, ORTRAIN_OP_COMMUTATIVE, ortrain_infer_compare,
           .find_passed_input = find_beside_false),
  COMPARE ("Xor", 7, ORTRAIN_DTYPES_BOOL, ORTRAIN_OP_COMMUTATIVE, ortrain_infer_compare),
  TEST ("Not", 7, ORTRAIN_DTYPES_BOOL, .kind = ORTRAIN_OP_KIND_NOT),
  TEST ("IsNaN", 9, ORTRAIN_DTYPES_FLOAT, .kind = ORTRAIN_OP_KIND_IS_NAN),
  TEST ("IsInf", 10, ORTRAIN_DTYPES_FLOAT, .kind = ORTRAIN_OP_KIND_OTHER),
  { "Where",
    "",
    9,
    3,
    3,
    1,
    1,
    ORTRAIN_DTYPES_BOOL,
    ORTRAIN_OP_POINTWISE,
    0,
    1,
    infer_where,
    grad_where,
    NULL,
    ".*1",
    .shift_inputs = 6,
    .weight_through = 6,
    .kind = ORTRAIN_OP_KIND_WHERE,
    .find_passed_input = find_taken_side,
    .zero_sums = ortrain_zero_sums_where },
  { "Clip", "", 7, 1, 3, 1, 1, ORTRAIN_DTYPES_NUMERIC, ORTRAIN_OP_POINTWISE, 0, 0, ortrain_infer_unary, grad_clip,
    upgrade_clip, ".0", .weight_through = 1, .input_roles = { [1] = "limit", [2] = "limit" } },
};
ORTRAIN_OP_TABLE (logic, ops);
