/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/rows/ortrain-ops-pointwise-private.h"

/* Activations. Each gradient is one operator of our own domain, of dy and either y or x: y where it serves, since the
 * next operator keeps it anyway. Attributes go along unchanged. */

#define X(ctx) ortrain_grad_input (ctx, 0)
#define Y(ctx) ortrain_grad_output (ctx, 0)
#define DY(ctx) ortrain_grad_of_output (ctx, 0)

static void
set_gradient (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *from)
{
  OrtrainAttributes *attributes = ortrain_attributes_copy (ctx->node->attributes);
  ortrain_grad_set (ctx, 0, ortrain_pointwise_op (ctx, ORTRAIN_DOMAIN, op_type, DY (ctx), from, attributes));
}

/* op_type with "Grad" */
static void
set_own_gradient (OrtrainGradContext *ctx, OrtrainValue *from)
{
  g_autofree char *op_type = g_strconcat (ctx->node->op_type, "Grad", NULL);
  set_gradient (ctx, op_type, from);
}

static gboolean
grad_from_output (OrtrainGradContext *ctx, GError **error)
{
  set_own_gradient (ctx, Y (ctx));
  return TRUE;
}

static gboolean
grad_from_input (OrtrainGradContext *ctx, GError **error)
{
  set_own_gradient (ctx, X (ctx));
  return TRUE;
}

/* The sign of y tells that of x only for a positive slope. */
static gboolean
grad_leaky_relu (OrtrainGradContext *ctx, GError **error)
{
  double alpha = ortrain_attributes_get_float (ctx->node->attributes, "alpha", 0.01);
  set_own_gradient (ctx, alpha > 0 ? Y (ctx) : X (ctx));
  return TRUE;
}

/* dx = x > 0 ? dy gamma : dy (y + gamma alpha); Elu is the case gamma = 1. y > 0 stands for x > 0 unless a factor is
 * negative. */
static gboolean
grad_elu (OrtrainGradContext *ctx, GError **error)
{
  gboolean selu = g_str_equal (ctx->node->op_type, "Selu");
  const OrtrainAttributes *attributes = ctx->node->attributes;
  double alpha = ortrain_attributes_get_float (attributes, "alpha", selu ? 1.67326319217681884765625 : 1.0);
  double gamma = selu ? ortrain_attributes_get_float (attributes, "gamma", 1.05070102214813232421875) : 1.0;
  if (alpha >= 0 && gamma > 0)
    {
      set_own_gradient (ctx, Y (ctx));
      return TRUE;
    }
  OrtrainValue *dy = DY (ctx);
  OrtrainValue *positive = ortrain_grad_op2 (ctx, "Greater", X (ctx), ortrain_grad_const (ctx, dy, 0.0));
  OrtrainValue *right = ortrain_grad_op2 (ctx, "Mul", dy, ortrain_grad_const (ctx, dy, gamma));
  OrtrainValue *left = ortrain_grad_op2 (ctx, "Add", Y (ctx), ortrain_grad_const (ctx, dy, gamma * alpha));
  left = ortrain_grad_op2 (ctx, "Mul", dy, left);
  ortrain_grad_set (ctx, 0, ortrain_grad_op3 (ctx, "Where", positive, right, left));
  return TRUE;
}

/* dy where the condition holds, else 0 */
static void
set_where (OrtrainGradContext *ctx, OrtrainValue *condition)
{
  ortrain_grad_set (ctx, 0,
                    ortrain_grad_op3 (ctx, "Where", condition, DY (ctx), ortrain_grad_const (ctx, DY (ctx), 0.0)));
}

static gboolean
grad_thresholded_relu (OrtrainGradContext *ctx, GError **error)
{
  double alpha = ortrain_attributes_get_float (ctx->node->attributes, "alpha", 1.0);
  /* y is x or 0: where the threshold is not negative, y > 0 says which */
  OrtrainValue *from = alpha >= 0 ? Y (ctx) : X (ctx);
  set_where (ctx, ortrain_grad_op2 (ctx, "Greater", from, ortrain_grad_const (ctx, from, alpha >= 0 ? 0.0 : alpha)));
  return TRUE;
}

static gboolean
grad_shrink (OrtrainGradContext *ctx, GError **error)
{
  double lambd = ortrain_attributes_get_float (ctx->node->attributes, "lambd", 0.5);
  OrtrainValue *x = X (ctx);
  OrtrainValue *left = ortrain_grad_op2 (ctx, "Less", x, ortrain_grad_const (ctx, x, -lambd));
  OrtrainValue *right = ortrain_grad_op2 (ctx, "Greater", x, ortrain_grad_const (ctx, x, lambd));
  set_where (ctx, ortrain_grad_op2 (ctx, "Or", left, right));
  return TRUE;
}

/* y = x < 0 ? slope x : x */
static gboolean
grad_prelu (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = X (ctx), *slope = ortrain_grad_input (ctx, 1), *dy = DY (ctx);
  OrtrainValue *negative = ortrain_grad_op2 (ctx, "Less", x, ortrain_grad_const (ctx, x, 0.0));
  if (ortrain_grad_wants (ctx, 0))
    ortrain_pointwise_set (ctx, 0,
                           ortrain_grad_op3 (ctx, "Where", negative, ortrain_grad_op2 (ctx, "Mul", dy, slope), dy));
  if (ortrain_grad_wants (ctx, 1))
    ortrain_pointwise_set (ctx, 1,
                           ortrain_grad_op3 (ctx, "Where", negative, ortrain_grad_op2 (ctx, "Mul", dy, x),
                                             ortrain_grad_const (ctx, dy, 0.0)));
  return TRUE;
}

#define FORWARD_AS(name, since, dtypes, flags, gradient, known)                                                        \
  {                                                                                                                    \
    name, "", since, 1, 1, 1, 1, dtypes, ORTRAIN_OP_POINTWISE | (flags), 0, 0, ortrain_infer_unary, gradient, NULL,    \
        NULL, .weight_through = 1, .kind = ORTRAIN_OP_KIND_##known                                                     \
  }
#define FORWARD(name, since, dtypes, flags, gradient) FORWARD_AS (name, since, dtypes, flags, gradient, OTHER)
#define BACKWARD_AS(name, body, known)                                                                                 \
  {                                                                                                                    \
    name, ORTRAIN_DOMAIN, 1, 2, 2, 1, 1, ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_POINTWISE, 0, 0, ortrain_infer_elementwise,  \
        NULL, NULL, ".0", .expand = body, .kind = ORTRAIN_OP_KIND_##known                                              \
  }
#define BACKWARD(name, body) BACKWARD_AS (name, body, OTHER)

static const OrtrainOpDef ops[] = {
  FORWARD_AS ("Relu", 7, ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPES_SIGNED, 0, grad_from_output, RELU),
  FORWARD_AS ("Tanh", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_from_output, TANH),
  { "Sigmoid", "", 7, 1, 1, 1, 1, ORTRAIN_DTYPES_FLOAT, ORTRAIN_OP_POINTWISE, 0, 0, ortrain_infer_unary,
    grad_from_output, NULL, NULL, .scores = ORTRAIN_SCORES_SIGMOID, .weight_through = 1 },
  FORWARD ("LeakyRelu", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_leaky_relu),
  FORWARD ("ThresholdedRelu", 10, ORTRAIN_DTYPES_FLOAT, 0, grad_thresholded_relu),
  FORWARD ("Elu", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_elu),
  FORWARD ("Selu", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_elu),
  FORWARD ("Celu", 12, ORTRAIN_DTYPES_FLOAT, 0, grad_from_output),
  FORWARD ("HardSigmoid", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_from_output),
  FORWARD ("HardSwish", 14, ORTRAIN_DTYPES_FLOAT, 0, grad_from_input),
  FORWARD ("Softplus", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_from_input),
  FORWARD ("Softsign", 7, ORTRAIN_DTYPES_FLOAT, 0, grad_from_input),
  FORWARD_AS ("Gelu", 20, ORTRAIN_DTYPES_FLOAT, 0, grad_from_input, GELU),
  FORWARD ("Mish", 18, ORTRAIN_DTYPES_FLOAT, 0, grad_from_input),
  FORWARD ("Swish", 24, ORTRAIN_DTYPES_FLOAT, 0, grad_from_input),
  FORWARD ("Shrink", 9, ORTRAIN_DTYPES_FLOAT, 0, grad_shrink),
  { "PRelu", "", 7, 2, 2, 1, 1,
    ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64),
    ORTRAIN_OP_POINTWISE, 0, 0, ortrain_infer_elementwise, grad_prelu, NULL, ".0", .weight_inputs = 1 << 1,
    .input_roles = { [1] = "slope" } },
  BACKWARD_AS ("ReluGrad", ortrain_body_relu_grad, RELU_GRADIENT),
  BACKWARD ("TanhGrad", ortrain_body_tanh_grad),
  BACKWARD ("SigmoidGrad", ortrain_body_sigmoid_grad),
  BACKWARD ("LeakyReluGrad", ortrain_body_leaky_relu_grad),
  BACKWARD ("EluGrad", ortrain_body_elu_grad),
  BACKWARD ("SeluGrad", ortrain_body_selu_grad),
  BACKWARD ("CeluGrad", ortrain_body_celu_grad),
  BACKWARD ("HardSigmoidGrad", ortrain_body_hard_sigmoid_grad),
  BACKWARD ("HardSwishGrad", ortrain_body_hard_swish_grad),
  BACKWARD ("SoftplusGrad", ortrain_body_softplus_grad),
  BACKWARD ("SoftsignGrad", ortrain_body_softsign_grad),
  BACKWARD_AS ("GeluGrad", ortrain_body_gelu_grad, GELU_GRADIENT),
  BACKWARD ("MishGrad", ortrain_body_mish_grad),
  BACKWARD ("SwishGrad", ortrain_body_swish_grad),
};
ORTRAIN_OP_TABLE (activation, ops);
