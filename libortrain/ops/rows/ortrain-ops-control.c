/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-control-private.h"
#include "ops/upgrade/ortrain-sequence-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "tensor/ortrain-tensor-private.h"

/* If. Exporters write it where they did not know a rank or an extent, and some models choose a branch by an input, such
 * as a sampling rate. A condition that follows from shapes and constants is decided when the graph is created from its
 * file, one that follows from the shapes and shape inputs of a run when that run is planned: the branch that is taken
 * then replaces the node. A condition that is computed from data is decided by the interpreter, node by node. */

/* ---- Is the condition known? ---- */

#define MAX_DEPTH 32

static gboolean
is_forwarding (const OrtrainNode *node)
{
  static const char *const types[] = { "Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", NULL };
  return node != NULL && node->domain[0] == '\0' && g_strv_contains (types, node->op_type);
}

static gboolean
get_dim (OrtrainValue *value, OrtrainDim *dim, guint depth)
{
  if (value == NULL || depth > MAX_DEPTH)
    return FALSE;
  if (value->tensor != NULL && ortrain_tensor_get_n_elements (value->tensor) == 1 &&
      !ortrain_dtype_is_floating (value->dtype) && value->dtype != ORTRAIN_DTYPE_STRING)
    *dim = ortrain_dim_int (ortrain_tensor_peek_int (value->tensor, 0));
  else if (value->n_content == 1 && value->content != NULL)
    *dim = value->content[0];
  else
    return is_forwarding (value->producer) && get_dim (ortrain_node_input (value->producer, 0), dim, depth + 1);
  return TRUE;
}

/* 1, 0, or -1: not known */
static gint
get_truth (OrtrainValue *value, guint depth)
{
  OrtrainDim a, b;
  if (value == NULL || depth > MAX_DEPTH)
    return -1;
  if (get_dim (value, &a, depth))
    return ortrain_dim_is_int (a) ? a.value != 0 : -1;
  OrtrainNode *node = value->producer;
  if (node == NULL || node->domain[0] != '\0')
    return -1;
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_input (node, 1);
  const char *type = node->op_type;
  if (is_forwarding (node))
    return get_truth (x, depth + 1);
  if (g_str_equal (type, "Not"))
    {
      const gint truth = get_truth (x, depth + 1);
      return truth < 0 ? truth : !truth;
    }
  if (g_str_equal (type, "And") || g_str_equal (type, "Or"))
    {
      const gint dominant = g_str_equal (type, "Or"), p = get_truth (x, depth + 1), q = get_truth (y, depth + 1);
      return p == dominant || q == dominant ? dominant : p < 0 || q < 0 ? -1 : !dominant;
    }
  if (!get_dim (x, &a, depth + 1) || !get_dim (y, &b, depth + 1))
    return -1;
  if (g_str_equal (type, "Equal") && ortrain_dim_equal (a, b))
    return 1;
  if (!ortrain_dim_is_int (a) || !ortrain_dim_is_int (b))
    return -1;
  return g_str_equal (type, "Equal")            ? a.value == b.value
         : g_str_equal (type, "Less")           ? a.value < b.value
         : g_str_equal (type, "LessOrEqual")    ? a.value <= b.value
         : g_str_equal (type, "Greater")        ? a.value > b.value
         : g_str_equal (type, "GreaterOrEqual") ? a.value >= b.value
                                                : -1;
}

static gboolean
fail (OrtrainNode *node, GError **error, const char *what)
{
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s %s", text, what);
  return FALSE;
}

/* A branch in the newest form, its types as far as they are known now. */
static gboolean
upgrade_branch (OrtrainNode *node, OrtrainGraph *branch, gint64 opset, GError **error)
{
  for (guint i = 0; i < branch->inputs->len; i++)
    {
      OrtrainValue *inner = branch->inputs->pdata[i], *outer = ortrain_node_input (node, i + 1);
      ortrain_value_set_shape (inner, outer->dtype, outer->dims, outer->rank);
      if (outer->content != NULL)
        ortrain_value_set_content (inner, outer->content, outer->n_content);
    }
  branch->opset = opset;
  if (!ortrain_ops_upgrade (branch, error))
    return FALSE;
  ortrain_ops_infer (branch, NULL); /* of the branch that is not taken nothing need be right */
  return TRUE;
}

static gboolean
upgrade_if (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainGraph *branches[] = { ortrain_control_get_branch (node, FALSE), ortrain_control_get_branch (node, TRUE) };
  for (guint b = 0; b < 2; b++)
    {
      if (branches[b] == NULL)
        return fail (node, error, b ? "has no then_branch" : "has no else_branch");
      if (branches[b]->inputs->len + 1 != node->inputs->len)
        return fail (node, error, "must have one input, and its branches must have none");
    }
  if (!ortrain_sequence_open_captures (graph, node, error))
    return FALSE;
  const gint truth = get_truth (ortrain_node_input (node, 0), 0);
  if (truth < 0)
    return upgrade_branch (node, branches[0], opset, error) && upgrade_branch (node, branches[1], opset, error);
  if (!upgrade_branch (node, branches[truth], opset, error))
    return FALSE;
  g_autoptr (GPtrArray) added = ortrain_control_take_branch (graph, node, truth, error);
  return added != NULL;
}

/* Facts about an output that both branches agree on hold for either. */
static gboolean
infer_if (OrtrainInferContext *ctx, GError **error)
{
  OrtrainGraph *taken = ortrain_control_get_branch (ctx->node, TRUE),
               *other = ortrain_control_get_branch (ctx->node, FALSE);
  /* expressions are of one space, but for graphs whose shapes are numbers */
  const gboolean is_shared = taken != NULL && other != NULL && taken->dims == ctx->dims && other->dims == ctx->dims;
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    {
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      const OrtrainValue *a = taken != NULL && k < taken->outputs->len ? taken->outputs->pdata[k] : NULL;
      const OrtrainValue *b = other != NULL && k < other->outputs->len ? other->outputs->pdata[k] : NULL;
      if (a == NULL || b == NULL)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "a branch has no output %u", k);
      if (a->dtype != b->dtype && a->dtype != ORTRAIN_DTYPE_UNDEFINED && b->dtype != ORTRAIN_DTYPE_UNDEFINED)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                                   "output %u is %s in one branch and %s in the other", k,
                                   ortrain_dtype_get_name (a->dtype), ortrain_dtype_get_name (b->dtype));
      const OrtrainDType dtype = a->dtype != ORTRAIN_DTYPE_UNDEFINED ? a->dtype : b->dtype;
      if (!ortrain_infer_wants_output (ctx, k))
        continue;
      if (a->rank != b->rank || a->rank < 0)
        {
          ortrain_infer_set_unknown (ctx, k, dtype, -1);
          continue;
        }
      for (gint i = 0; i < a->rank; i++)
        dims[i] = (is_shared || ortrain_dim_is_int (a->dims[i])) && ortrain_dim_equal (a->dims[i], b->dims[i])
                      ? a->dims[i]
                      : ortrain_dim_unknown (ctx->dims);
      ortrain_infer_set (ctx, k, dtype, dims, a->rank);
    }
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "If", .domain = "", .since = 7, .min_inputs = 1, .max_inputs = -1, .min_outputs = 1, .max_outputs = -1,
    .flags = ORTRAIN_OP_CONTROL, .shape_inputs = 1 << 0, .no_grad_inputs = 1 << 0, .types = "b*", .infer = infer_if,
    .upgrade = upgrade_if },
};
/* clang-format on */
ORTRAIN_OP_TABLE (control, ops);
