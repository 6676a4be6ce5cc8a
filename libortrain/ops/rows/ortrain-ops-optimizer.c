/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"

#include "ops/ortrain-op-private.h"

/* ONNX's own training operators: Adam, Adagrad, Momentum. Inputs: R (learning rate), T (step), then n weights, n
 * gradients, and one or two groups of n states; outputs: the new weights and the new states. */

#define DOMAIN "ai.onnx.preview.training"

static gboolean
infer_optimizer (OrtrainInferContext *ctx, guint n_states, GError **error)
{
  guint groups = 2 + n_states, n_inputs = ortrain_infer_get_n_inputs (ctx), n = (n_inputs - 2) / groups;
  if (n_inputs < 2 + groups || (n_inputs - 2) % groups != 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY,
                               "it has %u input%s, it must have 2, and %u for each tensor", n_inputs,
                               ortrain_text_plural (n_inputs), groups);
  if (ortrain_infer_get_n_outputs (ctx) != n * (1 + n_states))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "it has %u outputs, but %u tensors",
                               ortrain_infer_get_n_outputs (ctx), n);
  for (guint i = 0; i < n; i++)
    for (guint group = 0; group < groups; group++)
      {
        guint input = 2 + group * n + i;
        if (ortrain_infer_get_dtype (ctx, input) != ortrain_infer_get_dtype (ctx, 2 + i))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "input %u is %s, but its weight is %s",
                                     input, ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, input)),
                                     ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, 2 + i)));
        const gint rank = ortrain_infer_get_rank (ctx, input);
        gboolean fits =
            rank < 0 || ortrain_infer_get_rank (ctx, 2 + i) < 0 || rank == ortrain_infer_get_rank (ctx, 2 + i);
        for (gint d = 0; d < rank && fits; d++)
          {
            OrtrainDim a = ortrain_infer_get_dim (ctx, input, d), b = ortrain_infer_get_dim (ctx, 2 + i, d);
            fits = !ortrain_dim_is_int (a) || !ortrain_dim_is_int (b) || a.value == b.value;
          }
        if (!fits || !ortrain_infer_has_input (ctx, input))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "input %u does not have the shape of the weight, input %u", input, 2 + i);
        if (group == 0)
          ortrain_infer_set_like (ctx, i, input);
        else if (group >= 2)
          ortrain_infer_set_like (ctx, (group - 1) * n + i, input);
      }
  return TRUE;
}

static gboolean
infer_adam (OrtrainInferContext *ctx, GError **error)
{
  return infer_optimizer (ctx, 2, error);
}

static gboolean
infer_one_state (OrtrainInferContext *ctx, GError **error)
{
  return infer_optimizer (ctx, 1, error);
}

#define ROW(op, infer_func)                                                                                            \
  {                                                                                                                    \
    .name = op, .domain = DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = -1, .min_outputs = 1, .max_outputs = -1,  \
    .types = "fl*", .scalar_inputs = 3, .infer = infer_func                                                            \
  }

static const OrtrainOpDef rows[] = {
  ROW ("Adam", infer_adam),
  ROW ("Adagrad", infer_one_state),
  ROW ("Momentum", infer_one_state),
};

ORTRAIN_OP_TABLE (optimizer, rows);
