/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-op-check-private.h"
#include "ops/ortrain-zero-sums-private.h"
#include "ops/rows/ortrain-ops-normalization-private.h"
#include "ops/rows/ortrain-ops-pointwise-private.h"

/* Batch normalization has two operators: BatchNormalization of ONNX, which uses stored statistics, and our
 * BatchNormTrain, which uses the statistics of the batch. Models exported in training mode are converted to
 * BatchNormTrain. */

static gboolean
upgrade_batch_norm (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  g_autofree char *text = NULL;
  gboolean training = ortrain_attributes_get_int (node->attributes, "training_mode", 0) != 0;
  if (ortrain_attributes_get_int (node->attributes, "spatial", 1) == 0)
    {
      text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                   "%s: attribute 'spatial' is 0 (statistics per element), which is not supported", text);
      return FALSE;
    }
  /* Before 14, more than one output meant training. From 14 on there are three at most; PyTorch's older exporter still
   * writes the earlier five for InstanceNorm in training. */
  for (guint k = opset < 14 ? 1 : 3; k < node->outputs->len; k++)
    training |= node->outputs->pdata[k] != NULL;
  if (!training)
    return TRUE;
  if (!ortrain_op_check_present (node, 5, error)) /* ours may be without statistics, a file's may not */
    return FALSE;
  for (guint k = 3; k < node->outputs->len; k++)
    {
      OrtrainValue *saved = node->outputs->pdata[k];
      if (saved == NULL || (saved->uses.n == 0 && !saved->is_output))
        continue;
      text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                   "%s: output %u (statistics saved for the gradient) is used, which is not supported", text, k);
      return FALSE;
    }
  OrtrainNode *ours = ortrain_graph_insert_node (graph, node, ORTRAIN_DOMAIN, "BatchNormTrain", node->name,
                                                 (OrtrainValue *const *) node->inputs->pdata, node->inputs->len,
                                                 MIN (3, node->outputs->len));
  ortrain_attributes_set_float (ours->attributes, "epsilon",
                                ortrain_attributes_get_float (node->attributes, "epsilon", 1e-5));
  ortrain_attributes_set_float (ours->attributes, "momentum",
                                ortrain_attributes_get_float (node->attributes, "momentum", 0.9));
  for (guint k = 0; k < ours->outputs->len; k++)
    if (ortrain_node_output (node, k) != NULL)
      ortrain_value_replace_uses (ortrain_node_output (node, k), ortrain_node_output (ours, k));
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static gboolean
infer_batch_norm (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 3);
  if (dtype == ORTRAIN_DTYPE_UNDEFINED) /* the node is run again, without running statistics */
    dtype = ortrain_infer_get_dtype (ctx, 1);
  if (ortrain_dtype_is_half (dtype) && !ortrain_infer_has_input (ctx, 3))
    dtype = ORTRAIN_DTYPE_FLOAT32;
  if (rank >= 0 && rank < 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 has rank %d, 2 is needed at least",
                               rank);
  for (guint i = 1; i < ortrain_infer_get_n_inputs (ctx) && rank >= 0; i++)
    if (ortrain_infer_get_rank (ctx, i) == 1)
      {
        OrtrainDim a = ortrain_infer_get_dim (ctx, 0, 1), b = ortrain_infer_get_dim (ctx, i, 0);
        if (ortrain_dim_is_int (a) && ortrain_dim_is_int (b) && a.value != b.value)
          return ortrain_infer_fail (
              ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
              "input %u has %" G_GINT64_FORMAT " element%s, but input 0 has %" G_GINT64_FORMAT " channel%s", i, b.value,
              ortrain_text_plural ((guint64) b.value), a.value, ortrain_text_plural ((guint64) a.value));
      }
  for (guint k = 1; k <= 2; k++)
    if (!ortrain_infer_has_input (ctx, k + 2) &&
        (ctx->node->op->optional_inputs == 0 || ortrain_infer_wants_output (ctx, k)))
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "input %u is missing", k + 2);
  if (ortrain_infer_wants_output (ctx, 0))
    ortrain_infer_set_like (ctx, 0, 0);
  for (guint k = 1; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (!ortrain_infer_wants_output (ctx, k))
      continue;
    else if (rank >= 0)
      {
        OrtrainDim channels = ortrain_infer_get_dim (ctx, 0, 1);
        ortrain_infer_set (ctx, k, dtype, &channels, 1);
      }
    else
      ortrain_infer_set_unknown (ctx, k, dtype, 1);
  return TRUE;
}

/* The gradients of statistics that are computed: dmean = -dbias·scale·r, dvariance = -dscale·scale·r²/2, with r =
 * 1/√(variance + epsilon). */
static void
set_statistics_gradients (OrtrainGradContext *ctx, OrtrainValue *dscale, OrtrainValue *dbias)
{
  OrtrainValue *scale = ortrain_grad_input (ctx, 1), *variance = ortrain_grad_input (ctx, 4);
  const double epsilon = ortrain_attributes_get_float (ctx->node->attributes, "epsilon", 1e-5);
  OrtrainValue *sum = ortrain_grad_op2 (ctx, "Add", variance, ortrain_grad_const (ctx, variance, epsilon));
  OrtrainValue *factor = ortrain_grad_op2 (ctx, "Div", scale, ortrain_grad_op1 (ctx, "Sqrt", sum));
  if (ortrain_grad_wants (ctx, 3))
    ortrain_grad_set (ctx, 3, ortrain_grad_op1 (ctx, "Neg", ortrain_grad_op2 (ctx, "Mul", dbias, factor)));
  if (!ortrain_grad_wants (ctx, 4))
    return;
  OrtrainValue *half = ortrain_grad_op2 (ctx, "Mul", dscale, ortrain_grad_const (ctx, dscale, -0.5));
  OrtrainValue *root = ortrain_grad_op1 (ctx, "Sqrt", sum);
  ortrain_grad_set (ctx, 4, ortrain_grad_op2 (ctx, "Div", ortrain_grad_op2 (ctx, "Mul", half, factor), root));
}

/* Only the gradients of the scale and the variance need x. */
static gboolean
gradient_batch_norm (OrtrainGradContext *ctx, GError **error)
{
  const gboolean wants[] = { ortrain_grad_wants (ctx, 0), ortrain_grad_wants (ctx, 1) || ortrain_grad_wants (ctx, 4),
                             ortrain_grad_wants (ctx, 2) || ortrain_grad_wants (ctx, 3) };
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), wants[1] ? ortrain_grad_input (ctx, 0) : NULL,
                               ortrain_grad_input (ctx, 1), ortrain_grad_input (ctx, 3), ortrain_grad_input (ctx, 4) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "BatchNormFrozenGrad", operands, 5, 3,
                                         ortrain_attributes_copy (ctx->node->attributes));
  for (guint k = 0; k < G_N_ELEMENTS (wants); k++)
    if (!wants[k])
      ortrain_node_drop_output (node, k);
    else if (ortrain_grad_wants (ctx, k))
      ortrain_grad_set (ctx, k, ortrain_node_output (node, k));
  if (ortrain_grad_wants (ctx, 3) || ortrain_grad_wants (ctx, 4))
    set_statistics_gradients (ctx, ortrain_node_output (node, 1), ortrain_node_output (node, 2));
  return TRUE;
}

/* The gradient of x through the next statistics, momentum · old + (1 - momentum) · batch, over n elements of a channel:
 * (1 - momentum) · (dmean + 2 · (x - mean) · dvariance) / n, in the shape of x. */
static OrtrainValue *
gradient_of_next_statistics (OrtrainGradContext *ctx, OrtrainValue *const *dnext)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *mean = ortrain_grad_output (ctx, 3), *sum = NULL;
  const double share = 1 - ortrain_attributes_get_float (ctx->node->attributes, "momentum", 0.9);
  gint64 dims[ORTRAIN_MAX_RANK];
  for (gint d = 1; d < x->rank; d++)
    dims[d - 1] = d == 1 ? -1 : 1;
  OrtrainValue *shape = ortrain_grad_const_ints (ctx, dims, (gsize) x->rank - 1);
  OrtrainValue *n =
      ortrain_grad_op2 (ctx, "Div", ortrain_grad_op1 (ctx, "Size", x), ortrain_grad_op1 (ctx, "Size", mean));
  for (guint k = 0; k < 2; k++)
    {
      if (dnext[k] == NULL)
        continue;
      OrtrainValue *term =
          ortrain_grad_op2 (ctx, "Reshape", ortrain_pointwise_cast (ctx, dnext[k], mean->dtype), shape);
      if (k == 1)
        {
          OrtrainValue *centred = ortrain_grad_op2 (ctx, "Sub", ortrain_pointwise_cast (ctx, x, mean->dtype),
                                                    ortrain_grad_op2 (ctx, "Reshape", mean, shape));
          centred = ortrain_grad_op2 (ctx, "Mul", centred, ortrain_grad_const (ctx, centred, 2));
          term = ortrain_grad_op2 (ctx, "Mul", centred, term);
        }
      sum = sum != NULL ? ortrain_grad_op2 (ctx, "Add", term, sum) : term;
    }
  sum = ortrain_grad_op2 (ctx, "Mul", sum, ortrain_grad_const (ctx, sum, share));
  sum = ortrain_grad_op2 (ctx, "Div", sum, ortrain_grad_op2 (ctx, "CastLike", n, sum));
  return ortrain_pointwise_cast (ctx, sum, x->dtype);
}

static gboolean
gradient_batch_norm_train (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output_or_zero (ctx, 0);
  OrtrainValue *dnext[] = { ortrain_grad_of_output (ctx, 1), ortrain_grad_of_output (ctx, 2) };
  const gboolean through_next = dnext[0] != NULL || dnext[1] != NULL;
  const double momentum = ortrain_attributes_get_float (ctx->node->attributes, "momentum", 0.9);
  if (through_next && ortrain_grad_input (ctx, 0)->rank < 2)
    return ortrain_grad_fail (ctx, error, "a gradient through the statistics needs the rank of input 0");
  if (!ortrain_norm_grow_outputs (ctx->node, 6, error))
    return FALSE;
  for (guint k = 0; k < 2; k++)
    if (ortrain_grad_wants (ctx, 3 + k))
      {
        OrtrainValue *old = ortrain_grad_input (ctx, 3 + k), *next = ortrain_grad_of_output_or_zero (ctx, 1 + k);
        next = ortrain_grad_op2 (ctx, "Mul", next, ortrain_grad_const (ctx, next, momentum));
        ortrain_grad_set (ctx, 3 + k, ortrain_pointwise_cast (ctx, next, old->dtype));
      }
  OrtrainValue *operands[] = { dy, ortrain_grad_input (ctx, 0), ortrain_grad_input (ctx, 1),
                               ortrain_grad_output (ctx, 3), ortrain_grad_output (ctx, 4) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "BatchNormGrad", operands, 5, 3,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_norm_set_wanted (ctx, node, (const guint[]){ 0, 1, 2 }, 3);
  if (through_next && ortrain_grad_wants (ctx, 0))
    ortrain_grad_set (
        ctx, 0, ortrain_grad_op2 (ctx, "Add", ortrain_node_output (node, 0), gradient_of_next_statistics (ctx, dnext)));
  return TRUE;
}

/* (x, scale, bias, …) → (y, …, mean, 1/deviation, factor): y is computed of the saved values, which have the precision
 * that it was computed in. */
static gboolean
split_batch_norm (OrtrainNode *node, OrtrainNode *before, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  OrtrainValue *mean = ortrain_node_output (node, 3), *factor = ortrain_node_output (node, 5);
  if (y == NULL || mean == NULL || factor == NULL || x->rank < 2 || x->rank > ORTRAIN_MAX_RANK ||
      ortrain_dtype_is_half (factor->dtype))
    return TRUE;
  OrtrainValue *operands[] = { x, mean, factor, ortrain_node_input (node, 2) };
  for (guint i = 1; i < G_N_ELEMENTS (operands); i++)
    if ((operands[i] = ortrain_norm_view_channels (node, before, operands[i], x->rank, error)) == NULL)
      return FALSE;
  return ortrain_norm_insert_apply (node, before, operands, error);
}

static gboolean
infer_batch_norm_grad (OrtrainInferContext *ctx, GError **error)
{
  return ortrain_norm_check_channels (ctx, 0, 2, 4, error) && ortrain_norm_infer_gradient (ctx, error);
}

static gboolean
infer_batch_norm_relu_grad (OrtrainInferContext *ctx, GError **error)
{
  return ortrain_norm_check_channels (ctx, 0, 2, 5, error) && ortrain_norm_infer_gradient (ctx, error);
}

/* x, or dy and x */
static gboolean
find_images (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  const gboolean backward = node->op->statistic_inputs == 0;
  *inputs = backward && ortrain_node_input (node, 1) != NULL ? 3 : 1;
  *outputs = ortrain_node_output (node, 0) != NULL ? 1 : 0;
  return ortrain_value_is_image (ortrain_node_input (node, 0));
}

/* As rows of channels. */
static gboolean
put_channels_last (OrtrainNode *node, GError **error)
{
  gint64 dims[ORTRAIN_IMAGE_RANK];
  guint32 inputs, outputs;
  if (!find_images (node, &inputs, &outputs) || !ortrain_value_get_static_dims (ortrain_node_input (node, 0), dims))
    return TRUE;
  const gint64 rows[] = { dims[0] * dims[1] * dims[2], dims[3] };
  for (guint i = 0; i < 2; i++)
    if (inputs >> i & 1 && !ortrain_channels_last_view_input (node, i, rows, 2, error))
      return FALSE;
  return outputs == 0 || ortrain_channels_last_view_output (node, 0, rows, 2, error);
}

/* clang-format off */
#define BATCH_NORM_OPERANDS                                                                                            \
  .find_images = find_images, .put_channels_last = put_channels_last, .flags = ORTRAIN_OP_NORMALIZES | ORTRAIN_OP_ONE_PASS, .weight_inputs = 1 << 1 | 1 << 2, .channels = ORTRAIN_CHANNELS_SECOND,               \
  .statistic_inputs = 1 << 3 | 1 << 4,                                                                                 \
  .input_roles = { NULL, "scale", "bias", "running statistic", "running statistic" }

static const OrtrainOpDef ops[] = {
  { .name = "BatchNormalization", .domain = "", .mixed = ORTRAIN_MIXED_INSIDE, .since = 7, .min_inputs = 5, .max_inputs = 5, .min_outputs = 1,
    .max_outputs = 5, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .infer = infer_batch_norm,
    .gradient = gradient_batch_norm, .upgrade = upgrade_batch_norm, .training_form = "BatchNormTrain", BATCH_NORM_OPERANDS },
  { .name = "BatchNormTrain", .domain = ORTRAIN_DOMAIN, .mixed = ORTRAIN_MIXED_INSIDE, .since = 1, .min_inputs = 5, .max_inputs = 5, .min_outputs = 1,
    .max_outputs = 6, .dtypes = ORTRAIN_DTYPES_FLOAT, .optional_inputs = 1 << 3 | 1 << 4, .types = ".0",
    .saved_outputs = 1 << 3 | 1 << 4 | 1 << 5, .split = split_batch_norm,
    .infer = infer_batch_norm, .gradient = gradient_batch_norm_train, .inference_form = "BatchNormalization", BATCH_NORM_OPERANDS, .restore = ortrain_body_restore_batch_norm, .expand = ortrain_body_batch_norm_train },
  { ORTRAIN_NORM_GRADIENT_FIELDS ("BatchNormGrad", 5, 5, 3, ".0", infer_batch_norm_grad, ortrain_zero_sums_batch_norm_grad, ortrain_body_batch_norm_grad),
    .find_images = find_images, .put_channels_last = put_channels_last, .fused_as[ORTRAIN_FUSION_RELU_GRADIENT] = "BatchNormReluGrad" },
  { .name = "BatchNormReluGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 6, .max_inputs = 6, .min_outputs = 1,
    .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .find_images = find_images, .put_channels_last = put_channels_last,
    .infer = infer_batch_norm_relu_grad, .expand = ortrain_body_batch_norm_relu_grad },
  { .name = "BatchNormFrozenGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 5, .max_inputs = 5,
    .min_outputs = 1, .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .optional_inputs = 1 << 1,
    .find_images = find_images, .put_channels_last = put_channels_last,
    .infer = infer_batch_norm_grad, .zero_sums = ortrain_zero_sums_batch_norm_frozen_grad, .expand = ortrain_body_batch_norm_frozen_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (batch_norm, ops);
