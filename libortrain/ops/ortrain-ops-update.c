/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-body-private.h"

/* What moves parameters by their gradients. scalars: see tensor/ortrain-update-scalars-private.h.
 *
 * GradientNorm (scalars, gradient…) → norm: of all gradients together, times the gradient scale; 0 if none is asked for.
 *
 * …Update (scalars, norm or nothing, then for each tensor: parameter, gradient, state…)
 *   → for each tensor: parameter, state…; then the index of the first parameter that is left with numbers that are not
 *   finite. With a norm the gradients are clipped; a norm that is not finite leaves everything as it is. Attributes:
 *   `parameters`, the index of each tensor among all parameters, and `states`, the number of states of a tensor. */

static gboolean
infer_norm (OrtrainInferContext *ctx, GError **error)
{
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_FLOAT64, NULL, 0);
  return TRUE;
}

static gboolean
infer_update (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainAttributes *attributes = ctx->node->attributes;
  gsize n = 0;
  ortrain_attributes_get_ints (attributes, "parameters", &n);
  const guint n_states = (guint) ortrain_attributes_get_int (attributes, "states", 0);
  const guint stride = 2 + n_states;
  if (n == 0 || ortrain_infer_get_n_inputs (ctx) != 2 + n * stride ||
      ortrain_infer_get_n_outputs (ctx) != n * (1 + n_states) + 1)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY,
                               "it has %u inputs and %u outputs, which do not match %" G_GSIZE_FORMAT
                               " parameters with %u states",
                               ortrain_infer_get_n_inputs (ctx), ortrain_infer_get_n_outputs (ctx), n, n_states);
  for (guint t = 0; t < n; t++)
    {
      const guint parameter = 2 + t * stride;
      for (guint i = 1; i < stride; i++)
        if (!ortrain_infer_same_shape (ctx, parameter + i, parameter, error))
          return FALSE;
      if (ortrain_infer_get_dtype (ctx, parameter + 1) != ortrain_infer_get_dtype (ctx, parameter))
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                                   "input %u, the gradient, is %s, but the parameter is %s", parameter + 1,
                                   ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, parameter + 1)),
                                   ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, parameter)));
      ortrain_infer_set_like (ctx, t * (1 + n_states), parameter);
      for (guint s = 0; s < n_states; s++)
        ortrain_infer_set_like (ctx, t * (1 + n_states) + 1 + s, parameter + 2 + s);
    }
  ortrain_infer_set (ctx, (guint) n * (1 + n_states), ORTRAIN_DTYPE_INT64, NULL, 0);
  return TRUE;
}

#define UPDATE(op, body)                                                                                               \
  {                                                                                                                    \
    .name = op, .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 4, .max_inputs = -1, .min_outputs = 2,             \
    .max_outputs = -1, .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),                                            \
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_UPDATES, .types = ".ff", .vector_inputs = 1, .scalar_inputs = 2,      \
    .optional_inputs = 2, .infer = infer_update, .expand = body                                                        \
  }

static const OrtrainOpDef rows[] = {
  { .name = "GradientNorm",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_UPDATES,
    .types = ".f",
    .vector_inputs = 1,
    .infer = infer_norm,
    .expand = ortrain_body_gradient_norm },
  UPDATE ("SgdUpdate", ortrain_body_sgd_update),
  UPDATE ("AdamUpdate", ortrain_body_adam_update),
  UPDATE ("LambUpdate", ortrain_body_lamb_update),
  UPDATE ("AdagradUpdate", ortrain_body_adagrad_update),
};

ORTRAIN_OP_TABLE (update, rows);
