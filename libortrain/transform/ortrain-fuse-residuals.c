/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-residuals-private.h"

#include "ops/ortrain-op-private.h"

#define MAX_OPERANDS 16

static gboolean
same_form (const OrtrainValue *a, const OrtrainValue *b)
{
  if (a == NULL || b == NULL || a->dtype != b->dtype || a->rank != b->rank)
    return FALSE;
  for (gint d = 0; d < a->rank; d++)
    if (!ortrain_dim_equal (a->dims[d], b->dims[d]))
      return FALSE;
  return TRUE;
}

/* An Add without broadcasting, in the phase of `other`. */
static gboolean
is_plain_sum (const OrtrainNode *node, const OrtrainNode *other)
{
  if (node == NULL || ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_ADD || node->phase != other->phase ||
      node->recomputes != NULL || other->recomputes != NULL)
    return FALSE;
  OrtrainNode *sum = (OrtrainNode *) node;
  return ortrain_node_input (sum, 0) != ortrain_node_input (sum, 1) &&
         same_form (ortrain_node_input (sum, 0), ortrain_node_output (sum, 0)) &&
         same_form (ortrain_node_input (sum, 1), ortrain_node_output (sum, 0));
}

/* Whether the provider has a kernel for the node with another operator, one more input of the type of `like` at
 * `input`, and one more output of that type at `output`; output 0: no more outputs. */
static gboolean
has_kernel (const OrtrainProvider *provider, OrtrainNode *node, const char *op_type, const OrtrainValue *like,
            guint input, guint output)
{
  OrtrainOperand operands[2 * MAX_OPERANDS] = { 0 };
  const guint n_inputs = input + 1, n_outputs = output > 0 ? output + 1 : node->outputs->len;
  if (MAX (n_inputs, n_outputs) > MAX_OPERANDS)
    return FALSE;
  for (guint i = 0; i < input && i < node->inputs->len; i++)
    if (ortrain_node_input (node, i) != NULL)
      operands[i].dtype = ortrain_node_input (node, i)->dtype;
  for (guint k = 0; k < node->outputs->len; k++)
    if (ortrain_node_output (node, k) != NULL)
      operands[n_inputs + k].dtype = ortrain_node_output (node, k)->dtype;
  operands[input].dtype = like->dtype;
  if (output > 0)
    operands[n_inputs + output].dtype = like->dtype;
  return provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, op_type, operands, n_inputs, operands + n_inputs,
                                       n_outputs) != NULL;
}

/* Output `index` of the node takes the place of output 0 of `other`, which goes away. */
static void
take_over (OrtrainNode *node, guint index, OrtrainNode *other)
{
  OrtrainGraph *graph = node->graph;
  OrtrainValue *own = ortrain_node_output (node, index), *output = ortrain_node_output (other, 0);
  other->outputs->pdata[0] = NULL;
  output->producer = NULL;
  node->outputs->pdata[index] = NULL;
  own->producer = NULL;
  ortrain_node_set_output (node, index, output);
  ortrain_graph_delete_node (graph, other);
  ortrain_graph_delete_value (graph, own);
}

static void
become (OrtrainNode *node, const char *op_type)
{
  ortrain_node_set_operator (node, ORTRAIN_DOMAIN, op_type);
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
}

/* y = norm (a + b): the sum is input 3 and output 3 of the fused node. */
static void
fuse_sum_before (OrtrainNode *node, const OrtrainProvider *provider)
{
  OrtrainValue *x = ortrain_node_input (node, 0);
  OrtrainNode *sum = x->producer;
  if (!is_plain_sum (sum, node) || x->role != ORTRAIN_ROLE_NONE ||
      !has_kernel (provider, node, node->op->fused_as[ORTRAIN_FUSION_SUM_BEFORE], x, 3, 3))
    return;
  OrtrainValue *a = ortrain_node_input (sum, 0), *b = ortrain_node_input (sum, 1);
  become (node, node->op->fused_as[ORTRAIN_FUSION_SUM_BEFORE]);
  const guint n_outputs = node->outputs->len;
  ortrain_node_set_n_outputs (node, 4);
  for (guint k = n_outputs; k < 3; k++)
    ortrain_node_drop_output (node, k);
  ortrain_node_set_input (node, 0, a);
  ortrain_node_set_input (node, 3, b);
  take_over (node, 3, sum);
}

/* dx + addend, if nobody else reads dx. */
static void
fuse_sum_behind (OrtrainNode *node, const OrtrainProvider *provider)
{
  OrtrainValue *dx = ortrain_node_output (node, 0);
  if (dx == NULL || dx->uses.n != 1 || dx->is_output || dx->role != ORTRAIN_ROLE_NONE)
    return;
  OrtrainNode *sum = dx->uses.items[0].node;
  if (!is_plain_sum (sum, node) || !has_kernel (provider, node, node->op->fused_as[ORTRAIN_FUSION_SUM_AFTER], dx, 5, 0))
    return;
  OrtrainValue *addend = ortrain_node_input (sum, ortrain_node_input (sum, 0) == dx ? 1 : 0);
  become (node, node->op->fused_as[ORTRAIN_FUSION_SUM_AFTER]);
  ortrain_node_set_input (sum, 0, NULL);
  ortrain_node_set_input (sum, 1, NULL);
  ortrain_node_set_input (node, 5, addend);
  take_over (node, 0, sum);
}

gboolean
ortrain_fuse_residuals (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (node->graph != NULL && node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_SUM_BEFORE] != NULL)
        fuse_sum_before (node, provider);
      else if (node->graph != NULL && node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_SUM_AFTER] != NULL)
        fuse_sum_behind (node, provider);
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
