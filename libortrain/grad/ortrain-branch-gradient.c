/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-branch-gradient-private.h"

#include "ops/ortrain-control-private.h"

/* ---- whether it exists ---- */

/* Shapes, constants, and integers or truth values that are fed: the values that are known when a plan is created. */
static gboolean
is_known_before (OrtrainValue *condition)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) stack = g_ptr_array_new ();
  g_ptr_array_add (stack, condition);
  while (stack->len > 0)
    {
      OrtrainValue *value = g_ptr_array_steal_index_fast (stack, stack->len - 1);
      if (value == NULL || value->tensor != NULL || !g_hash_table_add (seen, value))
        continue;
      const OrtrainNode *node = value->producer;
      if (node == NULL && (value->kind != ORTRAIN_VALUE_INPUT || ortrain_dtype_is_floating (value->dtype)))
        return FALSE;
      if (node == NULL || ortrain_node_has_flag (node, ORTRAIN_OP_SHAPE_ONLY))
        continue;
      if (node->op == NULL || (node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL | ORTRAIN_OP_DATA_SHAPED)))
        return FALSE;
      for (guint i = 0; i < node->inputs->len; i++)
        g_ptr_array_add (stack, node->inputs->pdata[i]);
    }
  return TRUE;
}

/* The outputs and inputs of a branch, or those of them that have a floating type. */
static GPtrArray *
get_floating (const GPtrArray *values)
{
  GPtrArray *floating = g_ptr_array_new ();
  for (guint i = 0; i < values->len; i++)
    if (ortrain_dtype_is_floating (((OrtrainValue *) values->pdata[i])->dtype))
      g_ptr_array_add (floating, values->pdata[i]);
  return floating;
}

static const char *
refuse_branch (OrtrainGraph *branch)
{
  if (branch == NULL)
    return "it has only one branch";
  for (guint n = 0; n < branch->nodes->len; n++)
    {
      const OrtrainNode *node = branch->nodes->pdata[n];
      if (ortrain_node_has_flag (node, ORTRAIN_OP_RANDOM))
        return "one of its branches draws random numbers";
      if (node->op != NULL && node->op->statistic_inputs != 0)
        return "one of its branches has running statistics";
    }
  g_autoptr (GPtrArray) outputs = get_floating (branch->outputs), inputs = get_floating (branch->inputs);
  g_autoptr (GArray) diagnostics =
      ortrain_gradient_find_diagnostics (branch, (OrtrainValue *const *) outputs->pdata, outputs->len,
                                         (OrtrainValue *const *) inputs->pdata, inputs->len, NULL);
  return diagnostics->len > 0 ? "one of its branches has an operator without a gradient" : NULL;
}

const char *
ortrain_branch_gradient_refuse (OrtrainNode *node)
{
  if (!is_known_before (ortrain_node_input (node, 0)))
    return "its condition is computed from data while the model runs";
  const char *why = refuse_branch (ortrain_control_get_branch (node, TRUE));
  return why != NULL ? why : refuse_branch (ortrain_control_get_branch (node, FALSE));
}

/* ---- the gradient ---- */

static gboolean
add_output (OrtrainGraph *branch, OrtrainValue *gradient, OrtrainValue *like, GError **error)
{
  if (gradient == NULL)
    {
      OrtrainNode *shape = ortrain_graph_new_node (branch, "", "Shape", NULL, &like, 1, 1);
      OrtrainValue *operands[] = { ortrain_graph_const_scalar (branch, like->dtype, 0),
                                   ortrain_node_output (shape, 0) };
      OrtrainNode *zeros = ortrain_graph_new_node (branch, "", "Expand", NULL, operands, 2, 1);
      if (!ortrain_ops_infer_node (shape, error) || !ortrain_ops_infer_node (zeros, error))
        return FALSE;
      gradient = ortrain_node_output (zeros, 0);
    }
  /* two of them may be the same value, or an input of the branch */
  OrtrainNode *copy = ortrain_graph_new_node (branch, "", "Identity", NULL, &gradient, 1, 1);
  if (!ortrain_ops_infer_node (copy, error))
    return FALSE;
  ortrain_graph_mark_output (branch, ortrain_node_output (copy, 0), TRUE);
  return TRUE;
}

/* A branch with the inputs of this one, and the gradients of those of its outputs that have one. Its outputs are the
 * gradients that are wanted. */
static OrtrainGraph *
make_branch (OrtrainGradContext *ctx, OrtrainGraph *source, GError **error)
{
  g_autoptr (OrtrainGraph) branch = ortrain_graph_clone (source);
  g_autoptr (GPtrArray) outputs = g_ptr_array_new (), seeds = g_ptr_array_new (), wanted = g_ptr_array_new ();
  branch->parent = NULL;
  for (guint k = 0; k < ctx->n_outputs; k++)
    {
      OrtrainValue *output = branch->outputs->pdata[k];
      if (ortrain_grad_of_output (ctx, k) == NULL)
        continue;
      OrtrainValue *seed = ortrain_graph_new_value (branch, NULL);
      seed->kind = ORTRAIN_VALUE_INPUT;
      ortrain_value_set_shape (seed, output->dtype, output->dims, output->rank);
      g_ptr_array_add (branch->inputs, seed);
      g_ptr_array_add (outputs, output);
      g_ptr_array_add (seeds, seed);
    }
  for (guint i = 1; i < ctx->node->inputs->len; i++)
    if (ortrain_grad_wants (ctx, i))
      g_ptr_array_add (wanted, branch->inputs->pdata[i - 1]);
  g_autofree OrtrainValue **gradients = g_new0 (OrtrainValue *, wanted->len + 1);
  if (!ortrain_gradient_accumulate (branch, (OrtrainValue *const *) outputs->pdata,
                                    (OrtrainValue *const *) seeds->pdata, outputs->len,
                                    (OrtrainValue *const *) wanted->pdata, wanted->len, gradients, error))
    return NULL;
  while (branch->outputs->len > 0)
    ortrain_graph_mark_output (branch, branch->outputs->pdata[0], FALSE);
  for (guint i = 0; i < wanted->len; i++)
    if (!add_output (branch, gradients[i], wanted->pdata[i], error))
      return NULL;
  ortrain_graph_remove_dead (branch);
  return ortrain_graph_sort (branch, error) ? g_steal_pointer (&branch) : NULL;
}

gboolean
ortrain_branch_gradient_write (OrtrainGradContext *ctx, GError **error)
{
  static const char *const names[] = { "else_branch", "then_branch" };
  OrtrainNode *node = ctx->node;
  g_autoptr (GPtrArray) operands = g_ptr_array_copy (node->inputs, NULL, NULL);
  guint n_wanted = 0;
  for (guint k = 0; k < ctx->n_outputs; k++)
    if (ortrain_grad_of_output (ctx, k) != NULL)
      g_ptr_array_add (operands, ortrain_grad_of_output (ctx, k));
  for (guint i = 1; i < node->inputs->len; i++)
    n_wanted += ortrain_grad_wants (ctx, i);
  g_autofree char *name =
      g_strdup_printf ("%s.grad/%s", *node->name != '\0' ? node->name : node->op_type, node->op_type);
  OrtrainNode *gradient = ortrain_graph_new_node (ctx->graph, node->domain, node->op_type, name,
                                                  (OrtrainValue *const *) operands->pdata, operands->len, n_wanted);
  gradient->op = node->op;
  gradient->phase = ORTRAIN_PHASE_BACKWARD;
  for (guint b = 0; b < 2; b++)
    {
      g_autoptr (OrtrainGraph) branch = make_branch (ctx, ortrain_control_get_branch (node, b), error);
      if (branch == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_prefix_error (error, "%s: cannot compute its gradient: ", text);
          return FALSE;
        }
      ortrain_attributes_set_graph (gradient->attributes, names[b], G_OBJECT (branch));
    }
  guint k = 0;
  for (guint i = 1; i < node->inputs->len; i++)
    {
      if (!ortrain_grad_wants (ctx, i))
        continue;
      const OrtrainValue *input = ortrain_node_input (node, i);
      OrtrainValue *output = ortrain_node_output (gradient, k++);
      ortrain_value_set_shape (output, input->dtype, input->dims, input->rank);
      ortrain_grad_set (ctx, i, output);
    }
  return TRUE;
}
