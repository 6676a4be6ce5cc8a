/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

/* Operators that draw random numbers. Their stream hangs on seed, step and the node's own number, so that a node can be
 * run again with the same result: dropout's gradient draws the mask anew instead of keeping it. */

/* Outside of training, dropout is nothing, and specialisation takes it out; a training session turns it on, so it stays
 * until then. Before 12 a file could not ask for training, and the ratio was an attribute; before 10 the mask had the
 * type of the data. */
static gboolean
upgrade_dropout (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  OrtrainValue *mask = ortrain_node_output (node, 1);
  gboolean mask_used = mask != NULL && (mask->uses.n > 0 || mask->is_output);
  if (opset < 12)
    ortrain_upgrade_attribute_to_input (graph, node, "ratio", 1);
  if (opset < 10 && mask_used)
    {
      OrtrainValue *data = ortrain_upgrade_insert (graph, node, "Dropout", &x, 1, NULL);
      OrtrainNode *inner = data->producer;
      ortrain_node_set_n_outputs (inner, 2);
      OrtrainValue *pair[] = { ortrain_node_output (inner, 1), x };
      ortrain_value_replace_uses (mask, ortrain_upgrade_insert (graph, node, "CastLike", pair, 2, NULL));
      ortrain_value_replace_uses (y, data);
      ortrain_graph_delete_node (graph, node);
      return TRUE;
    }
  return TRUE;
}

static gboolean
infer_dropout (OrtrainInferContext *ctx, GError **error)
{
  double ratio;
  if (ortrain_infer_get_number (ctx, 1, &ratio) && !(ratio >= 0 && ratio < 1))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "input 1 '%s', the ratio, is %g, it must be at least 0 and less than 1",
                               ortrain_text_show (ortrain_infer_input (ctx, 1)->name), ratio);
  ortrain_infer_set_like (ctx, 0, 0);
  if (!ortrain_infer_wants_output (ctx, 1))
    return TRUE;
  if (ortrain_infer_get_rank (ctx, 0) >= 0)
    ortrain_infer_set (ctx, 1, ORTRAIN_DTYPE_BOOL, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  else
    ortrain_infer_set_unknown (ctx, 1, ORTRAIN_DTYPE_BOOL, -1);
  return TRUE;
}

static gboolean
gradient_dropout (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1),
                               ortrain_grad_input (ctx, 2) };
  OrtrainNode *node =
      ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "DropoutGrad", operands, 3, 1, ortrain_grad_copy_random_attributes (ctx));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- Distributions: shape from an attribute or from an input ---- */
static gboolean
check_type (OrtrainInferContext *ctx, gint64 dtype, OrtrainDTypeSet dtypes, GError **error)
{
  if (dtype > 0 && dtype < 32 && (dtypes & ORTRAIN_DTYPE_BIT (dtype)))
    return TRUE;
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                             "attribute 'dtype' is %" G_GINT64_FORMAT ", which is not a floating type", dtype);
}

static gboolean
infer_shaped (OrtrainInferContext *ctx, GError **error)
{
  gint64 dtype = ortrain_attributes_get_int (ctx->node->attributes, "dtype", ORTRAIN_DTYPE_FLOAT32);
  gsize n = 0;
  const gint64 *shape = ortrain_attributes_get_ints (ctx->node->attributes, "shape", &n);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (!check_type (ctx, dtype, ORTRAIN_DTYPES_FLOAT, error))
    return FALSE;
  if (n > ORTRAIN_MAX_RANK)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'shape' has %" G_GSIZE_FORMAT " dimensions, which is not supported", n);
  for (gsize d = 0; d < n; d++)
    {
      if (shape[d] < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "attribute 'shape' has a dimension of %" G_GINT64_FORMAT ", which is not supported",
                                   shape[d]);
      dims[d] = ortrain_dim_int (shape[d]);
    }
  ortrain_infer_set (ctx, 0, (OrtrainDType) dtype, dims, (gint) n);
  return TRUE;
}

static gboolean
infer_like (OrtrainInferContext *ctx, GError **error)
{
  gint64 dtype = ortrain_attributes_get_int (ctx->node->attributes, "dtype", ortrain_infer_get_dtype (ctx, 0));
  const gboolean bernoulli = g_str_equal (ctx->node->op_type, "Bernoulli");
  if ((dtype != ORTRAIN_DTYPE_UNDEFINED || ortrain_attributes_has (ctx->node->attributes, "dtype")) &&
      !check_type (ctx, dtype, bernoulli ? ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL : ORTRAIN_DTYPES_FLOAT, error))
    return FALSE;
  if (ortrain_infer_get_rank (ctx, 0) >= 0)
    ortrain_infer_set (ctx, 0, (OrtrainDType) dtype, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  else
    ortrain_infer_set_unknown (ctx, 0, (OrtrainDType) dtype, -1);
  return TRUE;
}

static gboolean
infer_multinomial (OrtrainInferContext *ctx, GError **error)
{
  gint64 dtype = ortrain_attributes_get_int (ctx->node->attributes, "dtype", ORTRAIN_DTYPE_INT32);
  gint64 samples = ortrain_attributes_get_int (ctx->node->attributes, "sample_size", 1);
  if (!check_type (ctx, dtype, ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64),
                   error))
    return FALSE;
  if (ortrain_infer_get_rank (ctx, 0) >= 0 && ortrain_infer_get_rank (ctx, 0) != 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 has rank %d, 2 is needed",
                               ortrain_infer_get_rank (ctx, 0));
  if (ortrain_infer_get_rank (ctx, 0) < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, (OrtrainDType) dtype, 2);
      return TRUE;
    }
  OrtrainDim dims[] = { ortrain_infer_get_dim (ctx, 0, 0), ortrain_dim_int (samples) };
  OrtrainDim classes = ortrain_infer_get_dim (ctx, 0, 1);
  if (ortrain_dim_is_int (classes) && classes.value == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 has no classes to draw from");
  ortrain_infer_set (ctx, 0, (OrtrainDType) dtype, dims, 2);
  return TRUE;
}

static gint
pass_unless_training (const OrtrainNode *node)
{
  const OrtrainValue *training = ortrain_node_input (node, 2);
  return training == NULL || (training->tensor != NULL && ortrain_tensor_get_scalar (training->tensor, 0) == 0.0) ? 0
                                                                                                                  : -1;
}

/* clang-format off */
#define DRAW(op, version, n_in, types, func)                                                                           \
  { .name = op, .domain = "", .since = version, .min_inputs = n_in, .max_inputs = n_in, .min_outputs = 1,              \
    .max_outputs = 1, .dtypes = types, .flags = ORTRAIN_OP_RANDOM | ORTRAIN_OP_NO_GRADIENT, .infer = func }

static const OrtrainOpDef ops[] = {
  { .name = "Dropout", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 7, .min_inputs = 1, .max_inputs = 3, .min_outputs = 1, .max_outputs = 2,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .flags = ORTRAIN_OP_RANDOM, .no_grad_inputs = 1 << 1 | 1 << 2,
    .types = ".fb", .scalar_inputs = 6, .kind = ORTRAIN_OP_KIND_DROPOUT, .infer = infer_dropout, .gradient = gradient_dropout, .upgrade = upgrade_dropout, 
    .channels = ORTRAIN_CHANNELS_ALIGNED, .input_roles = { [1] = "ratio" }, .training_input = 2,
    .find_passed_input = pass_unless_training },
  { .name = "DropoutGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 1, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .flags = ORTRAIN_OP_RANDOM, .no_grad_inputs = 1 << 1 | 1 << 2,
    .types = ".fb", .infer = infer_dropout, .expand = ortrain_body_dropout_grad },
  DRAW ("RandomNormal", 7, 0, 0, infer_shaped),
  DRAW ("RandomUniform", 7, 0, 0, infer_shaped),
  DRAW ("RandomNormalLike", 7, 1, 0, infer_like),
  DRAW ("RandomUniformLike", 7, 1, 0, infer_like),
  DRAW ("Bernoulli", 15, 1, ORTRAIN_DTYPES_FLOAT, infer_like),
  DRAW ("Multinomial", 7, 1, ORTRAIN_DTYPES_FLOAT, infer_multinomial),
};
/* clang-format on */
ORTRAIN_OP_TABLE (random, ops);
