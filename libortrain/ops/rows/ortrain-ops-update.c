/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-abi/ortrain-update-scalars-private.h"
#include "ops/decompositions/ortrain-body-private.h"

/* Operators that update parameters from their gradients. scalars: [] of float64, see
 * kernel-abi/ortrain-update-scalars-private.h. loss_scale: [] of float32, the factor of the loss; gradients are divided
 * by it. Gradients may be of any floating-point type each, of float64 with a parameter of float64 alone.
 *
 * GradientNorm (scalars, loss_scale or nothing, gradient…) → norm: [] of float64, of all gradients together, times the
 * gradient scale, divided by the loss scale; 0 if none is asked for and there is no loss scale.
 *
 * …Update (scalars, norm or nothing, loss_scale or nothing, then for each tensor: parameter, gradient, state…)
 *   → for each tensor: parameter, state…; then the index of the first parameter that is left with numbers that are not
 *   finite; then the working copies. With a norm the gradients are clipped; a norm that is not finite leaves everything
 *   as it is: with a loss scale, that is an overflow. States of parameters of 16 bits are float32. All states of a
 * tensor may be in 8 bits, but for those of float64, and Adagrad's, which only grow: uint8 in the shape that
 *   kernel-abi/ortrain-update-scalars-private.h says. Attributes:
 *   `parameters`, the index of each tensor among all parameters, `states`, the number of states of a tensor;
 *   `copies`, for each tensor 0 or the number of a type of 16 bits, in which the new contents of the parameter (of
 *   float32) are an output too, rounded to nearest even, also where it stays as it is; `stochastic_rounding`, 1:
 *   parameters of bfloat16 are rounded at random (common/ortrain-stochastic-rounding.h), 0: to nearest even, as those
 * of float16 always are.
 *
 * BeginUpdate (scalars, norm, loss_scale or nothing) → scalars, norm: placed between the norm and the updates where a
 *   step is submitted before the outcome of the previous one is known. scalars: the session's whole tensor
 *   (ORTRAIN_UPDATE_N_HELD); if its last number is not 0, the previous update was skipped, and the scalars for that
 *   case are moved to the front. The last number then tells whether this update is skipped, because the norm is not
 *   finite. That is a fault if the step block asks for it, unless the loss scale is above the attribute
 *   `overflows_above`, as it then makes up for it. After a fault the last number is not changed.
 *
 * LossScaleUpdate (loss_scale [] of float32, good_steps [] of int64, overflows [] of int64, norm [] of float64
 *   [, tolerated [] of int64]) → the first three, next [, tolerated, next]. After a norm that is not finite: max
 * (minimum, loss_scale · backoff_factor), 0, overflows + 1; but the first `hysteresis` - 1 of these since the scale has
 * grown, which `tolerated` counts, leave the scale as it is. Else good_steps + 1; when that reaches growth_interval:
 * min (maximum, loss_scale · growth_factor), 0, and tolerated is 0. */

static gboolean
infer_norm (OrtrainInferContext *ctx, GError **error)
{
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_FLOAT64, NULL, 0);
  return TRUE;
}

/* May be of any floating type. */
static gboolean
check_floating (OrtrainInferContext *ctx, guint input, const char *what, GError **error)
{
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, input);
  if (dtype == ORTRAIN_DTYPE_UNDEFINED || ortrain_dtype_is_floating (dtype))
    return TRUE;
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                             "input %u, the %s, is %s, a floating-point type is needed", input, what,
                             ortrain_dtype_get_name (dtype));
}

/* The states of a tensor, all of them in one form. */
static gboolean
check_states (OrtrainInferContext *ctx, guint parameter, guint n_states, gboolean only_grow, GError **error)
{
  const gint64 n = ortrain_infer_get_n_elements (ctx, parameter);
  const OrtrainDim blocks[] = { ortrain_dim_int (ORTRAIN_STATE_N_ROWS (n)), ortrain_dim_int (ORTRAIN_STATE_ROW) };
  const gboolean in_blocks = ortrain_infer_get_dtype (ctx, parameter + 2) == ORTRAIN_DTYPE_UINT8;
  for (guint input = parameter + 2; input < parameter + 2 + n_states; input++)
    {
      if ((ortrain_infer_get_dtype (ctx, input) == ORTRAIN_DTYPE_UINT8) != in_blocks)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                                   "input %u is %s, but another state of its parameter is %s", input,
                                   ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, input)),
                                   ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, parameter + 2)));
      if (!in_blocks)
        {
          if (!check_floating (ctx, input, "state", error) || !ortrain_infer_same_shape (ctx, input, parameter, error))
            return FALSE;
          continue;
        }
      if (only_grow || ortrain_infer_get_dtype (ctx, parameter) == ORTRAIN_DTYPE_FLOAT64)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                                   "input %u is uint8, but %s is never kept in 8 bits", input,
                                   only_grow ? "a sum that only grows" : "the state of a parameter of float64");
      if (n >= 0 && !ortrain_infer_expect (ctx, input, blocks, G_N_ELEMENTS (blocks), error))
        return FALSE;
    }
  return TRUE;
}

/* Gradient and working copy of the tensor whose parameter is input `parameter`. */
static gboolean
check_tensor (OrtrainInferContext *ctx, guint parameter, gint64 copy, GError **error)
{
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, parameter);
  const OrtrainDType gradient = ortrain_infer_get_dtype (ctx, parameter + 1);
  if (!check_floating (ctx, parameter, "parameter", error) || !check_floating (ctx, parameter + 1, "gradient", error) ||
      !ortrain_infer_same_shape (ctx, parameter + 1, parameter, error))
    return FALSE;
  if (gradient == ORTRAIN_DTYPE_FLOAT64 && dtype != ORTRAIN_DTYPE_FLOAT64)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                               "input %u, the gradient, is %s, but the parameter is %s", parameter + 1,
                               ortrain_dtype_get_name (gradient), ortrain_dtype_get_name (dtype));
  if (copy == 0)
    return TRUE;
  if (!ortrain_dtype_is_half ((OrtrainDType) copy))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                               "the copy of input %u has the type %" G_GINT64_FORMAT ", a type of 16 bits is needed",
                               parameter, copy);
  if (dtype != ORTRAIN_DTYPE_FLOAT32)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                               "input %u is %s, and only parameters of float32 have copies", parameter,
                               ortrain_dtype_get_name (dtype));
  return TRUE;
}

/* only_grow: the states */
static gboolean
infer_rule (OrtrainInferContext *ctx, gboolean only_grow, GError **error)
{
  const OrtrainAttributes *attributes = ctx->node->attributes;
  gsize n = 0, n_said = 0;
  guint n_copies = 0;
  ortrain_attributes_get_ints (attributes, "parameters", &n);
  const gint64 *copies = ortrain_attributes_get_ints (attributes, "copies", &n_said);
  for (gsize t = 0; t < n_said; t++)
    n_copies += copies[t] != 0;
  const guint n_states = (guint) ortrain_attributes_get_int (attributes, "states", 0);
  const guint stride = 2 + n_states, broken = (guint) n * (1 + n_states);
  if (n_said != 0 && n_said != n)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY,
                               "it has %" G_GSIZE_FORMAT " copies for %" G_GSIZE_FORMAT " parameters", n_said, n);
  if (n == 0 || ortrain_infer_get_n_inputs (ctx) != 3 + n * stride ||
      ortrain_infer_get_n_outputs (ctx) != broken + 1 + n_copies)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY,
                               "it has %u inputs and %u outputs, which do not match %" G_GSIZE_FORMAT
                               " parameters with %u states and %u copies",
                               ortrain_infer_get_n_inputs (ctx), ortrain_infer_get_n_outputs (ctx), n, n_states,
                               n_copies);
  guint copy = broken;
  for (guint t = 0; t < n; t++)
    {
      const guint parameter = 3 + t * stride;
      const gint64 copied = n_said != 0 ? copies[t] : 0;
      if (!check_tensor (ctx, parameter, copied, error) || !check_states (ctx, parameter, n_states, only_grow, error))
        return FALSE;
      ortrain_infer_set_like (ctx, t * (1 + n_states), parameter);
      for (guint s = 0; s < n_states; s++)
        ortrain_infer_set_like (ctx, t * (1 + n_states) + 1 + s, parameter + 2 + s);
      if (copied != 0)
        ortrain_infer_set (ctx, ++copy, (OrtrainDType) copied, ortrain_infer_get_dims (ctx, parameter),
                           ortrain_infer_get_rank (ctx, parameter));
    }
  ortrain_infer_set (ctx, broken, ORTRAIN_DTYPE_INT64, NULL, 0);
  return TRUE;
}

static gboolean
infer_update (OrtrainInferContext *ctx, GError **error)
{
  return infer_rule (ctx, FALSE, error);
}

static gboolean
infer_sums (OrtrainInferContext *ctx, GError **error)
{
  return infer_rule (ctx, TRUE, error);
}

static gboolean
infer_begin (OrtrainInferContext *ctx, GError **error)
{
  for (guint k = 0; k < 2; k++)
    ortrain_infer_set_like (ctx, k, k);
  return TRUE;
}

static gboolean
infer_loss_scale (OrtrainInferContext *ctx, GError **error)
{
  for (guint k = 0; k < 4; k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set (ctx, k, k == 0 ? ORTRAIN_DTYPE_FLOAT32 : ORTRAIN_DTYPE_INT64, NULL, 0);
  return TRUE;
}

#define UPDATE(op, infer_func, body)                                                                                   \
  {                                                                                                                    \
    .name = op, .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 5, .max_inputs = -1, .min_outputs = 2,             \
    .max_outputs = -1, .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),                                            \
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_UPDATES, .types = ".fs*", .vector_inputs = 1, .scalar_inputs = 6,     \
    .optional_inputs = 6, .infer = infer_func, .expand = body                                                          \
  }

static const OrtrainOpDef rows[] = {
  { .name = "GradientNorm",
    .domain = ORTRAIN_DOMAIN,
    .kind = ORTRAIN_OP_KIND_GRADIENT_NORM,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_UPDATES,
    .types = ".sf",
    .vector_inputs = 1,
    .scalar_inputs = 2,
    .optional_inputs = 2,
    .infer = infer_norm,
    .expand = ortrain_body_gradient_norm },
  { .name = "BeginUpdate",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 2,
    .max_outputs = 2,
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_UPDATES,
    .types = ".fs",
    .vector_inputs = 1,
    .scalar_inputs = 6,
    .optional_inputs = 4,
    .infer = infer_begin,
    .no_body = "faults are a matter of kernels" },
  UPDATE ("SgdUpdate", infer_update, ortrain_body_sgd_update),
  UPDATE ("AdamUpdate", infer_update, ortrain_body_adam_update),
  UPDATE ("LambUpdate", infer_update, ortrain_body_lamb_update),
  UPDATE ("AdagradUpdate", infer_sums, ortrain_body_adagrad_update),
  { .name = "LossScaleUpdate",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 4,
    .max_inputs = 5,
    .min_outputs = 3,
    .max_outputs = 4,
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32),
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_UPDATES,
    .types = ".llfl",
    .scalar_inputs = 0x1f,
    .infer = infer_loss_scale,
    .expand = ortrain_body_loss_scale_update },
};

ORTRAIN_OP_TABLE (update, rows);
