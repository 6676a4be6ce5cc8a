/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

/* Losses over classes. SoftmaxCrossEntropyLoss becomes our CrossEntropy, which keeps one number per position instead of
 * the log-probabilities. */

/* The shape of the positions: that of input i less its axis. FALSE with nothing set when the rank is not known. */
static gboolean
positions (OrtrainInferContext *ctx, guint i, gint axis, OrtrainDim *dims, gint *n)
{
  *n = 0;
  for (gint d = 0; d < ortrain_infer_get_rank (ctx, i); d++)
    if (d != axis)
      dims[(*n)++] = ortrain_infer_get_dim (ctx, i, d);
  return ortrain_infer_get_rank (ctx, i) > 0;
}

static gboolean
check_loss (OrtrainInferContext *ctx, guint logits, guint target, gint64 axis, gint *found, GError **error)
{
  const char *reduction = ortrain_attributes_get_string (ctx->node->attributes, "reduction", "mean");
  gint rank = ortrain_infer_get_rank (ctx, logits), target_rank = ortrain_infer_get_rank (ctx, target);
  *found = -1;
  if (!g_str_equal (reduction, "mean") && !g_str_equal (reduction, "sum") && !g_str_equal (reduction, "none"))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'reduction' is '%s', it must be mean, sum or none",
                               ortrain_text_show (reduction));
  if (rank < 0)
    return TRUE;
  if (!ortrain_infer_axis (ctx, axis, rank, found, error))
    return FALSE;
  if (target_rank >= 0 && target_rank != rank - 1)
    return ortrain_infer_fail (
        ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
        "the targets have rank %d, but the scores have rank %d; class numbers have one axis less", target_rank, rank);
  for (gint d = 0; d < target_rank; d++)
    {
      OrtrainDim a = ortrain_infer_get_dim (ctx, target, d);
      OrtrainDim b = ortrain_infer_get_dim (ctx, logits, d < *found ? d : d + 1);
      if (ortrain_dim_is_int (a) && ortrain_dim_is_int (b) && a.value != b.value)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "dimension %d of the targets is %" G_GINT64_FORMAT
                                   ", but that of the scores is %" G_GINT64_FORMAT,
                                   d, a.value, b.value);
    }
  return TRUE;
}

static void
set_loss (OrtrainInferContext *ctx, guint logits, gint axis, OrtrainDType dtype)
{
  const char *reduction = ortrain_attributes_get_string (ctx->node->attributes, "reduction", "mean");
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gint n;
  if (!g_str_equal (reduction, "none"))
    ortrain_infer_set (ctx, 0, dtype, dims, 0);
  else if (positions (ctx, logits, axis, dims, &n))
    ortrain_infer_set (ctx, 0, dtype, dims, n);
  else
    ortrain_infer_set_unknown (ctx, 0, dtype, -1);
}

/* ---- CrossEntropy (logits, target[, weights]) → (loss, lse, total_weight) ---- */
static gboolean
infer_cross_entropy (OrtrainInferContext *ctx, GError **error)
{
  gint axis, n;
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDType kept = ortrain_dtype_is_half (dtype) ? ORTRAIN_DTYPE_FLOAT32 : dtype;
  if (!check_loss (ctx, 0, 1, ortrain_attributes_get_int (ctx->node->attributes, "axis", -1), &axis, error))
    return FALSE;
  set_loss (ctx, 0, axis, dtype);
  if (ortrain_infer_wants_output (ctx, 1))
    {
      if (positions (ctx, 0, axis, dims, &n))
        ortrain_infer_set (ctx, 1, kept, dims, n);
      else
        ortrain_infer_set_unknown (ctx, 1, kept, -1);
    }
  if (ortrain_infer_wants_output (ctx, 2))
    ortrain_infer_set (ctx, 2, kept, dims, 0);
  return TRUE;
}

/* The gradient through lse, if the graph reads it: softmax · dlse. */
static OrtrainValue *
gradient_of_lse (OrtrainGradContext *ctx, OrtrainValue *dlse)
{
  gint64 axis = ortrain_attributes_get_int (ctx->node->attributes, "axis", -1);
  OrtrainValue *axes = ortrain_grad_const_ints (ctx, &axis, 1);
  OrtrainValue *lse = ortrain_grad_op2 (ctx, "Unsqueeze", ortrain_grad_output (ctx, 1), axes);
  OrtrainValue *p = ortrain_grad_op1 (ctx, "Exp", ortrain_grad_op2 (ctx, "Sub", ortrain_grad_input (ctx, 0), lse));
  return ortrain_grad_op2 (ctx, "Mul", p, ortrain_grad_op2 (ctx, "Unsqueeze", dlse, axes));
}

/* The gradient of class weights w that are computed: with the losses l without weights and the weight of each position,
 * w[target], the loss is Σ w[target]·l, and the mean that over Σ w[target]; its slope is l, or (l - loss) / Σ
 * w[target]. */
static gboolean
set_gradient_of_weights (OrtrainGradContext *ctx, GError **error)
{
  const OrtrainAttributes *own = ctx->node->attributes;
  OrtrainValue *dloss = ortrain_grad_of_output (ctx, 0), *target = ortrain_grad_input (ctx, 1);
  OrtrainValue *weights = ortrain_grad_input (ctx, 2), *is_ignored = NULL;
  if (ortrain_attributes_get_float (own, "label_smoothing", 0) != 0)
    return ortrain_grad_fail (ctx, error, "class weights have no gradient where labels are smoothed");
  OrtrainAttributes *attributes = ortrain_attributes_copy (own);
  ortrain_attributes_set_string (attributes, "reduction", "none");
  OrtrainValue *const scores[] = { ortrain_grad_input (ctx, 0), target };
  OrtrainNode *plain = ortrain_grad_node (ctx, ctx->node->domain, ctx->node->op_type, scores, 2, 1, attributes);
  OrtrainValue *slope = ortrain_node_output (plain, 0), *zero = ortrain_grad_const (ctx, slope, 0);
  if (ortrain_attributes_has (own, "ignore_index"))
    {
      const double ignored = (double) ortrain_attributes_get_int (own, "ignore_index", 0);
      is_ignored = ortrain_grad_op2 (ctx, "Equal", target, ortrain_grad_const (ctx, target, ignored));
      target = ortrain_grad_op3 (ctx, "Where", is_ignored, ortrain_grad_const (ctx, target, 0), target);
    }
  if (g_str_equal (ortrain_attributes_get_string (own, "reduction", "mean"), "mean"))
    {
      OrtrainValue *of_positions = ortrain_grad_op2 (ctx, "Gather", weights, target);
      if (is_ignored != NULL)
        of_positions = ortrain_grad_op3 (ctx, "Where", is_ignored, zero, of_positions);
      attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, "keepdims", 0);
      OrtrainNode *sum = ortrain_grad_node (ctx, "", "ReduceSum", &of_positions, 1, 1, attributes);
      slope = ortrain_grad_op2 (ctx, "Sub", slope, ortrain_grad_output (ctx, 0));
      slope = ortrain_grad_op2 (ctx, "Div", slope, ortrain_node_output (sum, 0));
      if (is_ignored != NULL)
        slope = ortrain_grad_op3 (ctx, "Where", is_ignored, zero, slope);
    }
  OrtrainValue *const parts[] = { ortrain_grad_op2 (ctx, "Mul", slope, dloss), target,
                                  ortrain_grad_shape_of (ctx, weights) };
  attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", 0);
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "GatherGrad", parts, 3, 1, attributes);
  ortrain_grad_set (ctx, 2, ortrain_node_output (node, 0));
  return TRUE;
}

static gboolean
gradient_cross_entropy (OrtrainGradContext *ctx, GError **error)
{
  OrtrainNode *forward = ctx->node;
  OrtrainValue *dloss = ortrain_grad_of_output_or_zero (ctx, 0), *dlse = ortrain_grad_of_output (ctx, 1);
  if (ortrain_node_output (forward, 1) == NULL || ortrain_node_output (forward, 2) == NULL)
    {
      ortrain_node_set_n_outputs (forward, 3);
      for (guint k = 1; k < 3; k++)
        if (forward->outputs->pdata[k] == NULL)
          ortrain_node_set_output (forward, k, ortrain_graph_new_value (forward->graph, NULL));
      if (!ortrain_ops_infer_node (forward, error))
        return FALSE;
    }
  OrtrainValue *operands[] = {
    dloss,
    ortrain_grad_input (ctx, 0),
    ortrain_grad_input (ctx, 1),
    ortrain_grad_output (ctx, 1),
    ortrain_grad_output (ctx, 2),
    ortrain_grad_input (ctx, 2),
  };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "CrossEntropyGrad", operands, operands[5] ? 6 : 5, 1,
                                         ortrain_attributes_copy (forward->attributes));
  OrtrainValue *gradient = ortrain_node_output (node, 0);
  if (dlse != NULL)
    gradient = ortrain_grad_op2 (ctx, "Add", gradient, gradient_of_lse (ctx, dlse));
  ortrain_grad_set (ctx, 0, gradient);
  return !ortrain_grad_wants (ctx, 2) || ortrain_grad_of_output (ctx, 0) == NULL ||
         set_gradient_of_weights (ctx, error);
}

/* The gradient of a loss, input 0: one number, or one for each of the positions [n]. */
static gboolean
check_loss_gradient (OrtrainInferContext *ctx, const OrtrainDim *dims, gint n, GError **error)
{
  const char *reduction = ortrain_attributes_get_string (ctx->node->attributes, "reduction", "mean");
  return g_str_equal (reduction, "none") ? ortrain_infer_expect (ctx, 0, dims, n, error)
                                         : ortrain_infer_expect_count (ctx, 0, 1, error);
}

/* (dloss, logits, target, lse, total_weight[, weights]) */
static gboolean
infer_cross_entropy_grad (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gint axis, n;
  if (!check_loss (ctx, 1, 2, ortrain_attributes_get_int (ctx->node->attributes, "axis", -1), &axis, error))
    return FALSE;
  if (axis >= 0 && positions (ctx, 1, axis, dims, &n) &&
      (!check_loss_gradient (ctx, dims, n, error) || !ortrain_infer_expect (ctx, 3, dims, n, error) ||
       !ortrain_infer_expect_count (ctx, 4, 1, error) ||
       !ortrain_infer_vector (ctx, 5, ortrain_infer_get_dim (ctx, 1, axis), error)))
    return FALSE;
  ortrain_infer_set_like (ctx, 0, 1);
  return TRUE;
}

/* ---- LinearCrossEntropy (x [.., k], weight, target [..][, dloss[, bias [n][, class weights [n]]]])
 *                          → (loss[, dx[, dweight[, dbias]]]) ----
 * CrossEntropy of the scores x · weight + bias, in the type of x, and its gradients, which are read in the backward
 * pass and computed with the loss: scores are there for `rows` positions at a time, and never again. A pass writes it
 * of the nodes that a gradient was built of. weight: [k, n], or with transB [n, k]; dweight: [k, n], or with transW [n,
 * k]. The attribute `scores` is the name that the scores had in the graph, for messages. */
static gboolean
infer_linear_cross_entropy (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainAttributes *attributes = ctx->node->attributes;
  const char *reduction = ortrain_attributes_get_string (attributes, "reduction", "mean");
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDType kept = ortrain_dtype_is_half (dtype) ? ORTRAIN_DTYPE_FLOAT32 : dtype;
  if (!g_str_equal (reduction, "mean") && !g_str_equal (reduction, "sum"))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'reduction' is '%s', it must be mean or sum", ortrain_text_show (reduction));
  if ((rank >= 0 && rank < 2) || ortrain_infer_get_rank (ctx, 1) != 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "inputs of rank %d and %d: 2 or more and 2 are needed", rank,
                               ortrain_infer_get_rank (ctx, 1));
  const gboolean transposed = ortrain_attributes_get_int (attributes, "transB", 0) != 0;
  const OrtrainDim n = ortrain_infer_get_dim (ctx, 1, transposed ? 0 : 1);
  const OrtrainDim k = ortrain_infer_get_dim (ctx, 1, transposed ? 1 : 0);
  if (rank >= 0 && ortrain_dim_is_int (k) && ortrain_dim_is_int (ortrain_infer_get_dim (ctx, 0, rank - 1)) &&
      ortrain_infer_get_dim (ctx, 0, rank - 1).value != k.value)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "rows of %" G_GINT64_FORMAT " numbers, but the weight takes %" G_GINT64_FORMAT,
                               ortrain_infer_get_dim (ctx, 0, rank - 1).value, k.value);
  if (!ortrain_infer_vector (ctx, 4, n, error) || !ortrain_infer_vector (ctx, 5, n, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, kept, NULL, 0);
  if (ortrain_infer_wants_output (ctx, 1))
    ortrain_infer_set_like (ctx, 1, 0);
  if (ortrain_infer_wants_output (ctx, 2))
    {
      const gboolean swapped = ortrain_attributes_get_int (attributes, "transW", 0) != 0;
      const OrtrainDim dims[] = { swapped ? n : k, swapped ? k : n };
      ortrain_infer_set (ctx, 2, kept, dims, 2);
    }
  if (ortrain_infer_wants_output (ctx, 3))
    ortrain_infer_set (ctx, 3, kept, &n, 1);
  return TRUE;
}

/* ---- SoftmaxCrossEntropyLoss (scores, labels[, weights]) → (loss[, log_prob]), classes on axis 1 ---- */
static gboolean
upgrade_softmax_cross_entropy (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *loss = ortrain_node_output (node, 0), *log_prob = ortrain_node_output (node, 1);
  if (log_prob != NULL && (log_prob->uses.n > 0 || log_prob->is_output))
    {
      OrtrainValue *scores = ortrain_node_input (node, 0);
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, "axis", 1);
      ortrain_value_replace_uses (log_prob, ortrain_upgrade_insert (graph, node, "LogSoftmax", &scores, 1, attributes));
    }
  if (loss != NULL)
    {
      OrtrainNode *ours = ortrain_graph_insert_node (graph, node, ORTRAIN_DOMAIN, "CrossEntropy", node->name,
                                                     (OrtrainValue *const *) node->inputs->pdata, node->inputs->len, 1);
      ortrain_attributes_set_int (ours->attributes, "axis", 1);
      ortrain_attributes_set_string (ours->attributes, "reduction",
                                     ortrain_attributes_get_string (node->attributes, "reduction", "mean"));
      if (ortrain_attributes_has (node->attributes, "ignore_index"))
        ortrain_attributes_set_int (ours->attributes, "ignore_index",
                                    ortrain_attributes_get_int (node->attributes, "ignore_index", 0));
      ortrain_value_replace_uses (loss, ortrain_node_output (ours, 0));
    }
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static gboolean
infer_softmax_cross_entropy (OrtrainInferContext *ctx, GError **error)
{
  gint axis;
  if (!check_loss (ctx, 0, 1, 1, &axis, error))
    return FALSE;
  set_loss (ctx, 0, axis, ortrain_infer_get_dtype (ctx, 0));
  if (ortrain_infer_wants_output (ctx, 1))
    ortrain_infer_set_like (ctx, 1, 0);
  return TRUE;
}

/* ---- NegativeLogLikelihoodLoss (x, target[, weights]), classes on axis 1 ---- */
static gboolean
infer_nll (OrtrainInferContext *ctx, GError **error)
{
  gint axis;
  if (!check_loss (ctx, 0, 1, 1, &axis, error))
    return FALSE;
  set_loss (ctx, 0, axis, ortrain_infer_get_dtype (ctx, 0));
  return TRUE;
}

static gboolean
gradient_nll (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0);
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1),
                               ortrain_grad_shape_of (ctx, x), ortrain_grad_input (ctx, 2) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "NegativeLogLikelihoodLossGrad", operands,
                                         operands[3] ? 4 : 3, 1, ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return !ortrain_grad_wants (ctx, 2) || set_gradient_of_weights (ctx, error);
}

/* (dloss, target, shape[, weights]) */
static gboolean
infer_nll_grad (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *content;
  gint n;
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  if (ortrain_infer_get_content (ctx, 2, &content, &n))
    {
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      if (n < 2)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the scores have rank %d, 2 is needed at least", n);
      for (gint d = 0; d < n; d++)
        if (d != 1)
          dims[d < 1 ? d : d - 1] = content[d];
      if (!check_loss_gradient (ctx, dims, n - 1, error) || !ortrain_infer_expect (ctx, 1, dims, n - 1, error) ||
          !ortrain_infer_vector (ctx, 3, content[1], error))
        return FALSE;
      ortrain_infer_set (ctx, 0, dtype, content, n);
    }
  else if (ortrain_infer_get_rank (ctx, 1) >= 0)
    ortrain_infer_set_unknown (ctx, 0, dtype, ortrain_infer_get_rank (ctx, 1) + 1);
  else
    ortrain_infer_set_unknown (ctx, 0, dtype, -1);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "CrossEntropy", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 1 << 1, .types = ".i0", .infer = infer_cross_entropy,
    .gradient = gradient_cross_entropy, .expand = ortrain_body_cross_entropy,
    .restore = ortrain_body_restore_cross_entropy, .kind = ORTRAIN_OP_KIND_CROSS_ENTROPY },
  { .name = "CrossEntropyGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 5, .max_inputs = 6, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0if30", .infer = infer_cross_entropy_grad, .expand = ortrain_body_cross_entropy_grad,
    .kind = ORTRAIN_OP_KIND_CROSS_ENTROPY_GRADIENT },
  { .name = "LinearCrossEntropy", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 6, .min_outputs = 1,
    .max_outputs = 4, .dtypes = ORTRAIN_DTYPES_FLOAT, .flags = ORTRAIN_OP_NO_GRADIENT, .types = ".fifff", .scalar_inputs = 1 << 3,
    .infer = infer_linear_cross_entropy, .expand = ortrain_body_linear_cross_entropy },
  { .name = "SoftmaxCrossEntropyLoss", .domain = "", .since = 12, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 2, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 1 << 1,
    .types = ".i0", .infer = infer_softmax_cross_entropy, .upgrade = upgrade_softmax_cross_entropy, 
    .input_roles = { [2] = "class weights" } },
  { .name = "NegativeLogLikelihoodLoss", .domain = "", .since = 12, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 1 << 1, .types = ".i0", .infer = infer_nll,
    .gradient = gradient_nll, .input_roles = { [2] = "class weights" },
    .kind = ORTRAIN_OP_KIND_NEGATIVE_LOG_LIKELIHOOD },
  { .name = "NegativeLogLikelihoodLossGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 4,
    .min_outputs = 1, .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .shape_inputs = 1 << 2,
    .types = ".il0", .infer = infer_nll_grad, .expand = ortrain_body_nll_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (loss, ops);
