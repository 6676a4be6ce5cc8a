/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-zero-sums-private.h"

/* The softmax family, along one axis. Before operator set 13 all axes from `axis` on were taken as one, and the default
 * was 1: those become Flatten, the operator over the last axis, and a Reshape back; views, but for the middle one. */
static gboolean
upgrade_softmax (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (opset >= 13 || x == NULL || y == NULL)
    return TRUE;
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 1);
  if (axis == -1 || (x->rank > 0 && axis == x->rank - 1))
    {
      ortrain_attributes_set_int (node->attributes, "axis", -1);
      return TRUE;
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", axis);
  OrtrainValue *operands[2] = { ortrain_upgrade_insert (graph, node, "Flatten", &x, 1, attributes),
                                ortrain_upgrade_insert (graph, node, "Shape", &x, 1, NULL) };
  attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", -1);
  operands[0] = ortrain_upgrade_insert (graph, node, node->op_type, operands, 1, attributes);
  ortrain_value_replace_uses (y, ortrain_upgrade_insert (graph, node, "Reshape", operands, 2, NULL));
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static gboolean
infer_softmax (OrtrainInferContext *ctx, GError **error)
{
  gint axis, rank = ortrain_infer_get_rank (ctx, 0);
  if (rank > 0 &&
      !ortrain_infer_axis (ctx, ortrain_attributes_get_int (ctx->node->attributes, "axis", -1), rank, &axis, error))
    return FALSE;
  return ortrain_infer_unary (ctx, error);
}

/* Both gradients are computed from the output. */
static gboolean
gradient_softmax (OrtrainGradContext *ctx, GError **error)
{
  gboolean logarithm = g_str_equal (ctx->node->op_type, "LogSoftmax");
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_output (ctx, 0) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, logarithm ? "LogSoftmaxGrad" : "SoftmaxGrad", operands, 2,
                                         1, ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* clang-format off */
#define ROW(op, rule, extra, what, ...)                                                                                     \
  { .name = op, .domain = "", .since = 7, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,        \
    .dtypes = ORTRAIN_DTYPES_FLOAT, .flags = extra, .infer = infer_softmax, .gradient = rule,                          \
    .upgrade = upgrade_softmax, .scores = what, .channels = ORTRAIN_CHANNELS_ALIGNED, __VA_ARGS__ }
#define GRAD(op, body)                                                                                                       \
  { .name = op, .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,              \
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .shaped_inputs = 1 << 1, .types = ".0", .infer = infer_softmax,                   \
    .zero_sums = ortrain_zero_sums_softmax_grad, .expand = body }

static const OrtrainOpDef ops[] = {
  ROW ("Softmax", gradient_softmax, 0, ORTRAIN_SCORES_SOFTMAX, .kind = ORTRAIN_OP_KIND_SOFTMAX, .mixed = ORTRAIN_MIXED_INSIDE),
  ROW ("LogSoftmax", gradient_softmax, 0, ORTRAIN_SCORES_LOG_SOFTMAX, .kind = ORTRAIN_OP_KIND_OTHER),
  ROW ("Hardmax", NULL, ORTRAIN_OP_NO_GRADIENT, ORTRAIN_SCORES_NONE, .kind = ORTRAIN_OP_KIND_OTHER),
  GRAD ("SoftmaxGrad", ortrain_body_softmax_grad),
  GRAD ("LogSoftmaxGrad", ortrain_body_log_softmax_grad),
};
/* clang-format on */
ORTRAIN_OP_TABLE (softmax, ops);
