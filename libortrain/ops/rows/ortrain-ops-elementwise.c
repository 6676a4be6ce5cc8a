/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-zero-sums-private.h"
#include "ops/rows/ortrain-ops-pointwise-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

/* Arithmetic with broadcasting. dy has the broadcast shape; each operand's gradient is summed back to its own. */

/* ---- Inference: shape arithmetic is followed symbolically ---- */

typedef enum
{
  FOLLOW_NONE,
  FOLLOW_ADD,
  FOLLOW_SUB,
  FOLLOW_MUL,
  FOLLOW_DIV,
  FOLLOW_MOD,
  FOLLOW_MIN,
  FOLLOW_MAX,
} Follow;

static Follow
follow_kind (const OrtrainNode *node)
{
  static const struct
  {
    const char *name;
    Follow kind;
  } kinds[] = { { "Add", FOLLOW_ADD }, { "Sum", FOLLOW_ADD }, { "Sub", FOLLOW_SUB }, { "Mul", FOLLOW_MUL },
                { "Div", FOLLOW_DIV }, { "Mod", FOLLOW_MOD }, { "Min", FOLLOW_MIN }, { "Max", FOLLOW_MAX } };
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_equal (node->op_type, kinds[i].name))
      return kinds[i].kind;
  return FOLLOW_NONE;
}

/* Integer division truncates and Mod follows the divisor's sign: both are the floor forms when nothing is negative,
 * which is so of products and sums of extents; numbers are looked at. */
static OrtrainDim
follow (OrtrainDimSpace *space, Follow kind, OrtrainDim a, OrtrainDim b)
{
  gboolean numbers = ortrain_dim_is_int (a) && ortrain_dim_is_int (b);
  switch (kind)
    {
    case FOLLOW_ADD:
      return ortrain_dim_add (space, a, b);
    case FOLLOW_SUB:
      return ortrain_dim_sub (space, a, b);
    case FOLLOW_MUL:
      return ortrain_dim_mul (space, a, b);
    case FOLLOW_MIN:
      return ortrain_dim_min (space, a, b);
    case FOLLOW_MAX:
      return ortrain_dim_max (space, a, b);
    case FOLLOW_DIV:
      if (ortrain_dim_is_int (b) && b.value <= 0)
        return numbers && b.value != 0 && a.value != G_MININT64 ? ortrain_dim_int (a.value / b.value)
                                                                : ortrain_dim_unknown (space);
      return numbers ? ortrain_dim_int (a.value / b.value) : ortrain_dim_floor_div (space, a, b);
    case FOLLOW_MOD:
      if ((ortrain_dim_is_int (b) && b.value <= 0) || (ortrain_dim_is_int (a) && a.value < 0))
        return ortrain_dim_unknown (space);
      return ortrain_dim_mod (space, a, b);
    case FOLLOW_NONE:
      break;
    }
  return ortrain_dim_unknown (space);
}

static void
follow_contents (OrtrainInferContext *ctx)
{
  Follow kind = follow_kind (ctx->node);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  guint n_inputs = ortrain_infer_get_n_inputs (ctx);
  if (kind == FOLLOW_NONE || n_inputs == 0 || (dtype != ORTRAIN_DTYPE_INT64 && dtype != ORTRAIN_DTYPE_INT32))
    return;
  g_autofree OrtrainDim *result = NULL;
  gint n = 0;
  for (guint i = 0; i < n_inputs; i++)
    {
      const OrtrainDim *content;
      gint m;
      if (ortrain_infer_get_rank (ctx, i) < 0 || ortrain_infer_get_rank (ctx, i) > 1 ||
          !ortrain_infer_get_content (ctx, i, &content, &m))
        return;
      if (i == 0)
        {
          result = g_memdup2 (content, (gsize) MAX (m, 1) * sizeof *content);
          n = m;
          continue;
        }
      if (m != n && m != 1 && n != 1)
        return;
      gint longest = m == 1 ? n : m;
      g_autofree OrtrainDim *previous = g_steal_pointer (&result);
      result = g_new (OrtrainDim, longest + 1);
      for (gint k = 0; k < longest; k++)
        result[k] = follow (ctx->dims, kind, previous[n == 1 ? 0 : k], content[m == 1 ? 0 : k]);
      n = longest;
    }
  ortrain_infer_set_content (ctx, 0, result, n);
}

static gboolean
infer_arithmetic (OrtrainInferContext *ctx, GError **error)
{
  if (!ortrain_infer_elementwise (ctx, error))
    return FALSE;
  follow_contents (ctx);
  return TRUE;
}

/* The exponent may have another type than the base, which gives the result its own. */
static gboolean
infer_pow (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim dims[16];
  gint rank;
  if (!ortrain_infer_broadcast (ctx, 0, 1, dims, &rank, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), dims, rank);
  return TRUE;
}

static gboolean
infer_neg (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *content;
  gint n;
  ortrain_infer_set_like (ctx, 0, 0);
  if (!ortrain_infer_get_content (ctx, 0, &content, &n))
    return TRUE;
  gboolean negate = g_str_equal (ctx->node->op_type, "Neg");
  g_autofree OrtrainDim *result = g_new (OrtrainDim, n + 1);
  for (gint k = 0; k < n; k++)
    {
      if (negate)
        result[k] = ortrain_dim_sub (ctx->dims, ortrain_dim_int (0), content[k]);
      else if (ortrain_dim_is_int (content[k])) /* Abs */
        result[k] = content[k].value < 0 ? ortrain_dim_sub (ctx->dims, ortrain_dim_int (0), content[k]) : content[k];
      else
        result[k] =
            ortrain_dim_max (ctx->dims, content[k], ortrain_dim_sub (ctx->dims, ortrain_dim_int (0), content[k]));
    }
  ortrain_infer_set_content (ctx, 0, result, n);
  return TRUE;
}

/* ---- Gradients ---- */

#define X(ctx) ortrain_grad_input (ctx, 0)
#define Y(ctx) ortrain_grad_output (ctx, 0)
#define DY(ctx) ortrain_grad_of_output (ctx, 0)

static gboolean
grad_add (OrtrainGradContext *ctx, GError **error)
{
  for (guint i = 0; i < ctx->node->inputs->len; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_pointwise_set (ctx, i, DY (ctx));
  return TRUE;
}

static gboolean
grad_sub (OrtrainGradContext *ctx, GError **error)
{
  if (ortrain_grad_wants (ctx, 0))
    ortrain_pointwise_set (ctx, 0, DY (ctx));
  if (ortrain_grad_wants (ctx, 1))
    ortrain_pointwise_set_negative (ctx, 1, DY (ctx));
  return TRUE;
}

static gboolean
grad_mul (OrtrainGradContext *ctx, GError **error)
{
  for (guint i = 0; i < 2; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_pointwise_set (ctx, i, ortrain_grad_op2 (ctx, "Mul", DY (ctx), ortrain_grad_input (ctx, 1 - i)));
  return TRUE;
}

/* da = dy / b; db = -da y */
static gboolean
grad_div (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *da = ortrain_grad_op2 (ctx, "Div", DY (ctx), ortrain_grad_input (ctx, 1));
  if (ortrain_grad_wants (ctx, 0))
    ortrain_pointwise_set (ctx, 0, da);
  if (ortrain_grad_wants (ctx, 1))
    ortrain_pointwise_set_negative (ctx, 1, ortrain_grad_op2 (ctx, "Mul", da, Y (ctx)));
  return TRUE;
}

/* y = a - b q with q = a / b, truncated or rounded down, which (a - y) / b gives back once rounded. */
static gboolean
grad_mod (OrtrainGradContext *ctx, GError **error)
{
  if (ortrain_grad_wants (ctx, 0))
    ortrain_pointwise_set (ctx, 0, DY (ctx));
  if (ortrain_grad_wants (ctx, 1))
    {
      OrtrainValue *q = ortrain_grad_op2 (ctx, "Sub", X (ctx), Y (ctx));
      q = ortrain_grad_op1 (ctx, "Round", ortrain_grad_op2 (ctx, "Div", q, ortrain_grad_input (ctx, 1)));
      ortrain_pointwise_set_negative (ctx, 1, ortrain_grad_op2 (ctx, "Mul", DY (ctx), q));
    }
  return TRUE;
}

static gboolean
get_constant (OrtrainValue *value, double *number)
{
  if (value->tensor == NULL || value->kind == ORTRAIN_VALUE_INPUT || value->role == ORTRAIN_ROLE_PARAMETER ||
      value->role == ORTRAIN_ROLE_BUFFER || ortrain_tensor_get_n_elements (value->tensor) != 1)
    return FALSE;
  *number = ortrain_tensor_get_scalar (value->tensor, 0);
  return TRUE;
}

/* dx = dy b x^(b-1), nothing where b is 0; db = dy y log x where x > 0, else 0. A known exponent leaves a shorter
 * form. */
static gboolean
grad_pow (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = X (ctx), *b = ortrain_grad_input (ctx, 1), *dy = DY (ctx);
  double p;
  if (ortrain_grad_wants (ctx, 0))
    {
      OrtrainValue *dx;
      if (get_constant (b, &p))
        {
          OrtrainValue *power;
          if (p == 0.0)
            power = NULL;
          else if (p == 1.0)
            power = dy;
          else if (p == 2.0)
            power = ortrain_grad_op2 (ctx, "Mul", dy, x);
          else if (p == 3.0)
            power = ortrain_grad_op2 (ctx, "Mul", dy, ortrain_grad_op2 (ctx, "Mul", x, x));
          else if (p == 0.5)
            power = ortrain_grad_op2 (ctx, "Div", dy, Y (ctx));
          else
            power = ortrain_grad_op2 (ctx, "Mul", dy,
                                      ortrain_grad_op2 (ctx, "Pow", x, ortrain_grad_const (ctx, x, p - 1.0)));
          if (power == NULL)
            dx = ortrain_grad_op2 (ctx, "Mul", dy, ortrain_grad_const (ctx, dy, 0.0));
          else
            dx = p == 1.0 ? power : ortrain_grad_op2 (ctx, "Mul", power, ortrain_grad_const (ctx, dy, p));
        }
      else
        {
          OrtrainValue *exponent = ortrain_pointwise_cast (ctx, b, x->dtype);
          OrtrainValue *zero = ortrain_grad_const (ctx, x, 0.0);
          OrtrainValue *lower = ortrain_grad_op2 (ctx, "Sub", exponent, ortrain_grad_const (ctx, x, 1.0));
          OrtrainValue *slope = ortrain_grad_op2 (ctx, "Mul", exponent, ortrain_grad_op2 (ctx, "Pow", x, lower));
          dx = ortrain_grad_op3 (ctx, "Where", ortrain_grad_op2 (ctx, "Equal", exponent, zero), zero,
                                 ortrain_grad_op2 (ctx, "Mul", dy, slope));
        }
      ortrain_pointwise_set (ctx, 0, dx);
    }
  if (ortrain_grad_wants (ctx, 1))
    {
      OrtrainValue *zero = ortrain_grad_const (ctx, x, 0.0);
      OrtrainValue *slope = ortrain_grad_op2 (ctx, "Mul", Y (ctx), ortrain_grad_op1 (ctx, "Log", x));
      slope = ortrain_grad_op3 (ctx, "Where", ortrain_grad_op2 (ctx, "Greater", x, zero), slope, zero);
      OrtrainValue *db = ortrain_grad_op2 (ctx, "Mul", dy, slope);
      ortrain_pointwise_set (ctx, 1, ortrain_pointwise_cast (ctx, db, b->dtype));
    }
  return TRUE;
}

/* Max and Min: those that reach the result share dy equally. */
static gboolean
grad_extremum (OrtrainGradContext *ctx, GError **error)
{
  guint n = ctx->node->inputs->len;
  if (n == 1)
    {
      ortrain_pointwise_set (ctx, 0, DY (ctx));
      return TRUE;
    }
  OrtrainValue *one = ortrain_grad_const (ctx, DY (ctx), 1.0), *zero = ortrain_grad_const (ctx, DY (ctx), 0.0);
  g_autofree OrtrainValue **masks = g_new0 (OrtrainValue *, n);
  OrtrainValue *count = NULL;
  for (guint i = 0; i < n; i++)
    {
      OrtrainValue *equal = ortrain_grad_op2 (ctx, "Equal", ortrain_grad_input (ctx, i), Y (ctx));
      masks[i] = ortrain_grad_op3 (ctx, "Where", equal, one, zero);
      count = count == NULL ? masks[i] : ortrain_grad_op2 (ctx, "Add", count, masks[i]);
    }
  /* nothing equals a NaN: its gradient is 0, not 0 / 0 */
  OrtrainValue *share = ortrain_grad_op2 (ctx, "Div", DY (ctx), ortrain_grad_op2 (ctx, "Max", count, one));
  for (guint i = 0; i < n; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_pointwise_set (ctx, i, ortrain_grad_op2 (ctx, "Mul", share, masks[i]));
  return TRUE;
}

static gboolean
grad_mean (OrtrainGradContext *ctx, GError **error)
{
  guint n = ctx->node->inputs->len;
  OrtrainValue *share = ortrain_grad_op2 (ctx, "Div", DY (ctx), ortrain_grad_const (ctx, DY (ctx), n));
  for (guint i = 0; i < n; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_pointwise_set (ctx, i, share);
  return TRUE;
}

static gboolean
grad_neg (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_op1 (ctx, "Neg", DY (ctx)));
  return TRUE;
}

static gboolean
grad_abs (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", DY (ctx), ortrain_grad_op1 (ctx, "Sign", X (ctx))));
  return TRUE;
}

/* -dy y² */
static gboolean
grad_reciprocal (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *square = ortrain_grad_op2 (ctx, "Mul", Y (ctx), Y (ctx));
  ortrain_grad_set (ctx, 0, ortrain_grad_op1 (ctx, "Neg", ortrain_grad_op2 (ctx, "Mul", DY (ctx), square)));
  return TRUE;
}

static gboolean
grad_sqrt (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *half = ortrain_grad_op2 (ctx, "Mul", DY (ctx), ortrain_grad_const (ctx, DY (ctx), 0.5));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Div", half, Y (ctx)));
  return TRUE;
}

static gboolean
grad_exp (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", DY (ctx), Y (ctx)));
  return TRUE;
}

static gboolean
grad_log (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Div", DY (ctx), X (ctx)));
  return TRUE;
}

/* dy f (x) and -dy f (x) */
static void
set_times (OrtrainGradContext *ctx, const char *op_type, gboolean negative)
{
  OrtrainValue *dx = ortrain_grad_op2 (ctx, "Mul", DY (ctx), ortrain_grad_op1 (ctx, op_type, X (ctx)));
  ortrain_grad_set (ctx, 0, negative ? ortrain_grad_op1 (ctx, "Neg", dx) : dx);
}

static gboolean
grad_sin (OrtrainGradContext *ctx, GError **error)
{
  set_times (ctx, "Cos", FALSE);
  return TRUE;
}

static gboolean
grad_cos (OrtrainGradContext *ctx, GError **error)
{
  set_times (ctx, "Sin", TRUE);
  return TRUE;
}

static gboolean
grad_sinh (OrtrainGradContext *ctx, GError **error)
{
  set_times (ctx, "Cosh", FALSE);
  return TRUE;
}

static gboolean
grad_cosh (OrtrainGradContext *ctx, GError **error)
{
  set_times (ctx, "Sinh", FALSE);
  return TRUE;
}

/* dy (1 + y²) */
static gboolean
grad_tan (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *slope = ortrain_grad_op2 (ctx, "Mul", Y (ctx), Y (ctx));
  slope = ortrain_grad_op2 (ctx, "Add", slope, ortrain_grad_const (ctx, slope, 1.0));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", DY (ctx), slope));
  return TRUE;
}

/* x² + offset, or offset - x² */
static OrtrainValue *
square_plus (OrtrainGradContext *ctx, gboolean minus, double offset)
{
  OrtrainValue *square = ortrain_grad_op2 (ctx, "Mul", X (ctx), X (ctx));
  OrtrainValue *constant = ortrain_grad_const (ctx, square, offset);
  return minus ? ortrain_grad_op2 (ctx, "Sub", constant, square) : ortrain_grad_op2 (ctx, "Add", square, constant);
}

static void
set_over (OrtrainGradContext *ctx, OrtrainValue *divisor, gboolean root, gboolean negative)
{
  if (root)
    divisor = ortrain_grad_op1 (ctx, "Sqrt", divisor);
  OrtrainValue *dx = ortrain_grad_op2 (ctx, "Div", DY (ctx), divisor);
  ortrain_grad_set (ctx, 0, negative ? ortrain_grad_op1 (ctx, "Neg", dx) : dx);
}

static gboolean
grad_asin (OrtrainGradContext *ctx, GError **error)
{
  set_over (ctx, square_plus (ctx, TRUE, 1.0), TRUE, FALSE);
  return TRUE;
}

static gboolean
grad_acos (OrtrainGradContext *ctx, GError **error)
{
  set_over (ctx, square_plus (ctx, TRUE, 1.0), TRUE, TRUE);
  return TRUE;
}

static gboolean
grad_atan (OrtrainGradContext *ctx, GError **error)
{
  set_over (ctx, square_plus (ctx, FALSE, 1.0), FALSE, FALSE);
  return TRUE;
}

static gboolean
grad_asinh (OrtrainGradContext *ctx, GError **error)
{
  set_over (ctx, square_plus (ctx, FALSE, 1.0), TRUE, FALSE);
  return TRUE;
}

static gboolean
grad_acosh (OrtrainGradContext *ctx, GError **error)
{
  set_over (ctx, square_plus (ctx, FALSE, -1.0), TRUE, FALSE);
  return TRUE;
}

static gboolean
grad_atanh (OrtrainGradContext *ctx, GError **error)
{
  set_over (ctx, square_plus (ctx, TRUE, 1.0), FALSE, FALSE);
  return TRUE;
}

static gboolean
grad_erf (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_pointwise_op (ctx, ORTRAIN_DOMAIN, "ErfGrad", DY (ctx), X (ctx), NULL));
  return TRUE;
}

#define OPERANDS(name, since, lowest, highest, dtypes, flags, infer, gradient, types, ...)                             \
  {                                                                                                                    \
    name, "", since, lowest, highest, 1, 1, dtypes, ORTRAIN_OP_POINTWISE | (flags), 0, 0, infer, gradient, NULL,       \
        types, __VA_ARGS__                                                                                             \
  }
#define POINTWISE(name, since, lowest, highest, dtypes, flags, infer, gradient)                                        \
  OPERANDS (name, since, lowest, highest, dtypes, flags, infer, gradient, ".0", .weight_through = EVERY)
/* Small differences become large ones, and large numbers leave the range of 16 bits. */
#define STEEP(name, since, gradient)                                                                                   \
  OPERANDS (name, since, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, gradient, ".0", .weight_through = EVERY,  \
            .mixed = ORTRAIN_MIXED_WIDE)
/* Mostly applied to positions: the operand is not a weight, and needs full precision. */
#define PERIODIC(name, since, gradient)                                                                                \
  OPERANDS (name, since, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, gradient, ".0", .weight_through = 0,      \
            .mixed = ORTRAIN_MIXED_WIDE)
#define EVERY ~(guint32) 0
#define LIMITS "limit", "limit", "limit", "limit", "limit", "limit", "limit", "limit"
/* Very many operands become trees. */
#define VARIADIC(name, dtypes, flags, infer, gradient, upgrade, ...)                                                   \
  {                                                                                                                    \
    name, "", 7, 1, -1, 1, 1, dtypes, ORTRAIN_OP_POINTWISE | (flags), 0, 0, infer, gradient, upgrade, ".0",            \
        .weight_through = EVERY, .find_passed_input = ortrain_op_pass_only_input, __VA_ARGS__                          \
  }

static const OrtrainOpDef ops[] = {
  OPERANDS ("Add", 7, 2, 2, ORTRAIN_DTYPES_NUMERIC, ORTRAIN_OP_COMMUTATIVE | ORTRAIN_OP_SUM, infer_arithmetic, grad_add,
            ".0", .shift_inputs = 3, .weight_through = 3, .kind = ORTRAIN_OP_KIND_ADD,
            .zero_sums = ortrain_zero_sums_add),
  OPERANDS ("Sub", 7, 2, 2, ORTRAIN_DTYPES_NUMERIC, 0, infer_arithmetic, grad_sub, ".0", .shift_inputs = 3,
            .weight_through = 3, .kind = ORTRAIN_OP_KIND_SUBTRACT, .zero_sums = ortrain_zero_sums_add),
  OPERANDS ("Mul", 7, 2, 2, ORTRAIN_DTYPES_NUMERIC, ORTRAIN_OP_COMMUTATIVE, infer_arithmetic, grad_mul, ".0",
            .scale_inputs = 3, .weight_through = 3, .kind = ORTRAIN_OP_KIND_MULTIPLY,
            .zero_sums = ortrain_zero_sums_mul),
  OPERANDS ("Div", 7, 2, 2, ORTRAIN_DTYPES_NUMERIC, 0, infer_arithmetic, grad_div, ".0", .scale_inputs = 2,
            .weight_through = 3, .kind = ORTRAIN_OP_KIND_DIVIDE, .zero_sums = ortrain_zero_sums_div),
  POINTWISE ("Mod", 10, 2, 2, ORTRAIN_DTYPES_NUMERIC, 0, infer_arithmetic, grad_mod),
  { "Pow", "", 7, 2, 2, 1, 1, ORTRAIN_DTYPES_NUMERIC, ORTRAIN_OP_POINTWISE, 0, 0, infer_pow, grad_pow, NULL, ".n",
    .weight_through = 1, .mixed = ORTRAIN_MIXED_WIDE, .kind = ORTRAIN_OP_KIND_POWER,
    .input_roles = { [1] = "exponent" } },
  VARIADIC ("Max", ORTRAIN_DTYPES_NUMERIC, 0, infer_arithmetic, grad_extremum, ortrain_upgrade_many_operands,
            .input_roles = { LIMITS }),
  VARIADIC ("Min", ORTRAIN_DTYPES_NUMERIC, 0, infer_arithmetic, grad_extremum, ortrain_upgrade_many_operands,
            .input_roles = { LIMITS }),
  VARIADIC ("Mean", ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_elementwise, grad_mean, ortrain_upgrade_many_means,
            .shift_inputs = 0),
  VARIADIC ("Sum", ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_SUM, infer_arithmetic, grad_add, ortrain_upgrade_many_operands,
            .shift_inputs = EVERY),
  OPERANDS ("Neg", 7, 1, 1, ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPES_SIGNED, 0, infer_neg, grad_neg, ".0",
            .weight_through = EVERY, .zero_sums = ortrain_zero_sums_same),
  POINTWISE ("Abs", 7, 1, 1, ORTRAIN_DTYPES_NUMERIC, 0, infer_neg, grad_abs),
  POINTWISE ("Sign", 9, 1, 1, ORTRAIN_DTYPES_NUMERIC, ORTRAIN_OP_NO_GRADIENT, ortrain_infer_unary, NULL),
  POINTWISE ("Floor", 7, 1, 1, ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_NO_GRADIENT, ortrain_infer_unary, NULL),
  POINTWISE ("Ceil", 7, 1, 1, ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_NO_GRADIENT, ortrain_infer_unary, NULL),
  POINTWISE ("Round", 11, 1, 1, ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_NO_GRADIENT, ortrain_infer_unary, NULL),
  OPERANDS ("Reciprocal", 7, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, grad_reciprocal, ".0",
            .weight_through = EVERY, .mixed = ORTRAIN_MIXED_WIDE, .kind = ORTRAIN_OP_KIND_RECIPROCAL),
  OPERANDS ("Sqrt", 7, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, grad_sqrt, ".0", .weight_through = EVERY,
            .kind = ORTRAIN_OP_KIND_SQUARE_ROOT),
  STEEP ("Exp", 7, grad_exp),
  STEEP ("Log", 7, grad_log),
  PERIODIC ("Sin", 7, grad_sin),
  PERIODIC ("Cos", 7, grad_cos),
  PERIODIC ("Tan", 7, grad_tan),
  STEEP ("Asin", 7, grad_asin),
  STEEP ("Acos", 7, grad_acos),
  POINTWISE ("Atan", 7, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, grad_atan),
  STEEP ("Sinh", 9, grad_sinh),
  STEEP ("Cosh", 9, grad_cosh),
  POINTWISE ("Asinh", 9, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, grad_asinh),
  STEEP ("Acosh", 9, grad_acosh),
  STEEP ("Atanh", 9, grad_atanh),
  OPERANDS ("Erf", 9, 1, 1, ORTRAIN_DTYPES_FLOAT, 0, ortrain_infer_unary, grad_erf, ".0", .weight_through = EVERY,
            .kind = ORTRAIN_OP_KIND_ERF),
  POINTWISE ("BitShift", 11, 2, 2, ORTRAIN_DTYPES_INTEGER, ORTRAIN_OP_NO_GRADIENT, ortrain_infer_elementwise, NULL),
  POINTWISE ("BitwiseAnd", 18, 2, 2, ORTRAIN_DTYPES_INTEGER, ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_COMMUTATIVE,
             ortrain_infer_elementwise, NULL),
  POINTWISE ("BitwiseOr", 18, 2, 2, ORTRAIN_DTYPES_INTEGER, ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_COMMUTATIVE,
             ortrain_infer_elementwise, NULL),
  POINTWISE ("BitwiseXor", 18, 2, 2, ORTRAIN_DTYPES_INTEGER, ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_COMMUTATIVE,
             ortrain_infer_elementwise, NULL),
  POINTWISE ("BitwiseNot", 18, 1, 1, ORTRAIN_DTYPES_INTEGER, ORTRAIN_OP_NO_GRADIENT, ortrain_infer_unary, NULL),
  { "ErfGrad", ORTRAIN_DOMAIN, 1, 2, 2, 1, 1, ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_POINTWISE, 0, 0,
    ortrain_infer_elementwise, NULL, NULL, ".0", .expand = ortrain_body_erf_grad },
};
ORTRAIN_OP_TABLE (elementwise, ops);
