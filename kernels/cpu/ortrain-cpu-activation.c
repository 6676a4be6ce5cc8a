/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cpu-tile-private.h"

/* Activations and their gradients. A gradient's operands are dy and then y or x, as the operator's row says. */

/* Loops over floats and doubles with a formula of ortrain-formulas.h; `...` are its arguments after x. */
#define ACTIVATION(loop, formula, ...)                                                                                 \
  ORTRAIN_TILE_UNARY_PARAM (loop##_f32, float, float, ortrain_f32_##formula (x __VA_OPT__ (, ) __VA_ARGS__))           \
  ORTRAIN_TILE_UNARY_PARAM (loop##_f64, double, double, ortrain_f64_##formula (x __VA_OPT__ (, ) __VA_ARGS__))         \
  static const OrtrainTileLoop loop##_loops[] = {                                                                      \
    { ORTRAIN_DTYPE_FLOAT32, { loop##_f32 } },                                                                         \
    { ORTRAIN_DTYPE_FLOAT64, { loop##_f64 } },                                                                         \
  };
ACTIVATION (tanh, tanh)
ACTIVATION (sigmoid, sigmoid)
ACTIVATION (leaky, leaky_relu, k0)
ACTIVATION (thresholded, thresholded_relu, k0)
ACTIVATION (elu, elu, k0)
ACTIVATION (selu, selu, k0, k1)
ACTIVATION (celu, celu, k0)
ACTIVATION (hard_sigmoid, hard_sigmoid, k0, k1)
ACTIVATION (hard_swish, hard_swish)
ACTIVATION (softplus, softplus)
ACTIVATION (softsign, softsign)
ACTIVATION (gelu, gelu)
ACTIVATION (gelu_tanh, gelu_tanh)
ACTIVATION (mish, mish)
ACTIVATION (swish, swish, k0)
ACTIVATION (shrink, shrink, k0, k1)

/* The same for dy and the other operand; `...` are the arguments after both. */
#define GRADIENT(loop, formula, ...)                                                                                   \
  ORTRAIN_TILE_BINARY (loop##_f32, float, float, ortrain_f32_##formula (x, y __VA_OPT__ (, ) __VA_ARGS__))             \
  ORTRAIN_TILE_BINARY (loop##_f64, double, double, ortrain_f64_##formula (x, y __VA_OPT__ (, ) __VA_ARGS__))           \
  static const OrtrainTileLoop loop##_loops[] = {                                                                      \
    { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_TILE_FORMS (loop##_f32) },                                                        \
    { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_TILE_FORMS (loop##_f64) },                                                        \
  };
GRADIENT (relu_grad, relu_grad)
GRADIENT (tanh_grad, tanh_grad)
GRADIENT (sigmoid_grad, sigmoid_grad)
GRADIENT (leaky_grad, leaky_relu_grad, k0)
GRADIENT (elu_grad, elu_grad, k0)
GRADIENT (selu_grad, selu_grad, k0, k1)
GRADIENT (celu_grad, celu_grad, k0)
GRADIENT (hard_sigmoid_grad, hard_sigmoid_grad, k0)
GRADIENT (hard_swish_grad, hard_swish_grad)
GRADIENT (softplus_grad, softplus_grad)
GRADIENT (softsign_grad, softsign_grad)
GRADIENT (gelu_grad, gelu_grad)
GRADIENT (gelu_tanh_grad, gelu_tanh_grad)
GRADIENT (mish_grad, mish_grad)
GRADIENT (swish_grad, swish_grad, k0)

/* PRelu: the slope is an operand. */
ORTRAIN_TILE_BINARY (prelu_f32, float, float, ortrain_f32_leaky_relu (x, y))
ORTRAIN_TILE_BINARY (prelu_f64, double, double, ortrain_f64_leaky_relu (x, y))
ORTRAIN_TILE_BINARY (prelu_i32, gint32, gint32, x < 0 ? (guint32) x * (guint32) y : (guint32) x)
ORTRAIN_TILE_BINARY (prelu_i64, gint64, gint64, x < 0 ? (guint64) x * (guint64) y : (guint64) x)
static const OrtrainTileLoop prelu_loops[] = {
  { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_TILE_FORMS (prelu_f32) },
  { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_TILE_FORMS (prelu_f64) },
  { ORTRAIN_DTYPE_INT32, ORTRAIN_TILE_FORMS (prelu_i32) },
  { ORTRAIN_DTYPE_INT64, ORTRAIN_TILE_FORMS (prelu_i64) },
};

/* Relu takes signed integers too. */
ORTRAIN_TILE_UNARY (relu_f32, float, float, ortrain_f32_relu (x))
ORTRAIN_TILE_UNARY (relu_f64, double, double, ortrain_f64_relu (x))
ORTRAIN_TILE_UNARY (relu_i8, gint8, gint8, x > 0 ? x : 0)
ORTRAIN_TILE_UNARY (relu_i16, gint16, gint16, x > 0 ? x : 0)
ORTRAIN_TILE_UNARY (relu_i32, gint32, gint32, x > 0 ? x : 0)
ORTRAIN_TILE_UNARY (relu_i64, gint64, gint64, x > 0 ? x : 0)
static const OrtrainTileLoop relu_loops[] = {
  { ORTRAIN_DTYPE_FLOAT32, { relu_f32 } }, { ORTRAIN_DTYPE_FLOAT64, { relu_f64 } },
  { ORTRAIN_DTYPE_INT8, { relu_i8 } },     { ORTRAIN_DTYPE_INT16, { relu_i16 } },
  { ORTRAIN_DTYPE_INT32, { relu_i32 } },   { ORTRAIN_DTYPE_INT64, { relu_i64 } },
};

#define SETUP_ARGS                                                                                                     \
  const OrtrainAttributes *attributes, OrtrainTileParam *param, G_GNUC_UNUSED const OrtrainTileLoop **loops,           \
      G_GNUC_UNUSED guint *n_loops, G_GNUC_UNUSED GError **error

/* The attributes of an activation and of its gradient are the same. */
#define SETUP(name, first, first_default, second, second_default)                                                      \
  static gboolean setup_##name (SETUP_ARGS)                                                                            \
  {                                                                                                                    \
    param->v[0] = ortrain_attributes_get_float (attributes, first, first_default);                                     \
    param->v[1] = ortrain_attributes_get_float (attributes, second, second_default);                                   \
    return TRUE;                                                                                                       \
  }
SETUP (leaky, "alpha", 0.01f, "", 0)
SETUP (alpha1, "alpha", 1.0, "", 0)
SETUP (selu, "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875)
SETUP (hard_sigmoid, "alpha", 0.2f, "beta", 0.5)
SETUP (shrink, "lambd", 0.5, "bias", 0)

static gboolean
setup_gelu (SETUP_ARGS)
{
  if (g_strcmp0 (ortrain_attributes_get_string (attributes, "approximate", "none"), "tanh") == 0)
    *loops = gelu_tanh_loops;
  return TRUE;
}

static gboolean
setup_gelu_grad (SETUP_ARGS)
{
  if (g_strcmp0 (ortrain_attributes_get_string (attributes, "approximate", "none"), "tanh") == 0)
    *loops = gelu_tanh_grad_loops;
  return TRUE;
}

/* X (operator, domain, operands, cost, loops, setup, types) */
#define OPERATORS(X)                                                                                                   \
  X ("Relu", "", 1, 1, relu_loops, NULL, ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPES_SIGNED)                                 \
  X ("Tanh", "", 1, 8, tanh_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                                         \
  X ("Sigmoid", "", 1, 8, sigmoid_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                                   \
  X ("LeakyRelu", "", 1, 1, leaky_loops, setup_leaky, ORTRAIN_DTYPES_FLOAT)                                            \
  X ("PRelu", "", 2, 1, prelu_loops, NULL,                                                                             \
     ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64))         \
  X ("ThresholdedRelu", "", 1, 1, thresholded_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)                               \
  X ("Elu", "", 1, 8, elu_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)                                                   \
  X ("Selu", "", 1, 8, selu_loops, setup_selu, ORTRAIN_DTYPES_FLOAT)                                                   \
  X ("Celu", "", 1, 8, celu_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)                                                 \
  X ("HardSigmoid", "", 1, 2, hard_sigmoid_loops, setup_hard_sigmoid, ORTRAIN_DTYPES_FLOAT)                            \
  X ("HardSwish", "", 1, 2, hard_swish_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                              \
  X ("Softplus", "", 1, 14, softplus_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                                \
  X ("Softsign", "", 1, 3, softsign_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                                 \
  X ("Gelu", "", 1, 9, gelu_loops, setup_gelu, ORTRAIN_DTYPES_FLOAT)                                                   \
  X ("Mish", "", 1, 9, mish_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                                         \
  X ("Swish", "", 1, 9, swish_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)                                               \
  X ("Shrink", "", 1, 2, shrink_loops, setup_shrink, ORTRAIN_DTYPES_FLOAT)                                             \
  X ("ReluGrad", "org.ortrain", 2, 1, relu_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                     \
  X ("TanhGrad", "org.ortrain", 2, 1, tanh_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                     \
  X ("SigmoidGrad", "org.ortrain", 2, 1, sigmoid_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                               \
  X ("LeakyReluGrad", "org.ortrain", 2, 1, leaky_grad_loops, setup_leaky, ORTRAIN_DTYPES_FLOAT)                        \
  X ("EluGrad", "org.ortrain", 2, 1, elu_grad_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)                               \
  X ("SeluGrad", "org.ortrain", 2, 1, selu_grad_loops, setup_selu, ORTRAIN_DTYPES_FLOAT)                               \
  X ("CeluGrad", "org.ortrain", 2, 2, celu_grad_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)                             \
  X ("HardSigmoidGrad", "org.ortrain", 2, 1, hard_sigmoid_grad_loops, setup_hard_sigmoid, ORTRAIN_DTYPES_FLOAT)        \
  X ("HardSwishGrad", "org.ortrain", 2, 3, hard_swish_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                          \
  X ("SoftplusGrad", "org.ortrain", 2, 8, softplus_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                             \
  X ("SoftsignGrad", "org.ortrain", 2, 3, softsign_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                             \
  X ("GeluGrad", "org.ortrain", 2, 14, gelu_grad_loops, setup_gelu_grad, ORTRAIN_DTYPES_FLOAT)                         \
  X ("MishGrad", "org.ortrain", 2, 16, mish_grad_loops, NULL, ORTRAIN_DTYPES_FLOAT)                                    \
  X ("SwishGrad", "org.ortrain", 2, 9, swish_grad_loops, setup_alpha1, ORTRAIN_DTYPES_FLOAT)

#define OP_ROW(name, domain, arity, cost, loops, setup, dtypes)                                                        \
  { name, domain, arity, 0, cost, loops, G_N_ELEMENTS (loops), setup },
static const OrtrainTileOp ops[] = { OPERATORS (OP_ROW) };
ORTRAIN_TILE_TABLE (activation, ops);

#define KERNEL_ROW(name, domain, arity, cost, loops, setup, dtypes) ORTRAIN_POINTWISE_KERNEL (name, domain, dtypes),
static const OrtrainKernel kernels[] = { OPERATORS (KERNEL_ROW) };
ORTRAIN_KERNEL_TABLE (activation, kernels);
