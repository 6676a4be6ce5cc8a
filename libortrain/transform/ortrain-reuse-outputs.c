/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-reuse-outputs-private.h"

#include "ops/ortrain-op-private.h"

#define MAX_OPERANDS 16

/* Reads through this many views are followed: of real models two or three, and a file may have a chain of thousands. */
#define MAX_VIEWS 8

/* Whether the backward pass reads the value, or a view of it. */
static gboolean
is_read_backward (const OrtrainValue *value, guint n_views)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse use = value->uses.items[u];
      const gboolean is_view = use.index == 0 && ortrain_node_is_view (use.node);
      if (is_view ? n_views < MAX_VIEWS && is_read_backward (ortrain_node_output (use.node, 0), n_views + 1)
                  : use.node->phase == ORTRAIN_PHASE_BACKWARD)
        return TRUE;
    }
  return FALSE;
}

/* Whether the provider has a kernel for the node with the value as input `index`. */
static gboolean
has_kernel (const OrtrainProvider *provider, const OrtrainNode *node, guint index, const OrtrainValue *value)
{
  OrtrainOperand operands[2 * MAX_OPERANDS] = { 0 };
  const guint n_outputs = node->outputs->len;
  if (MAX (index + 1, n_outputs) > MAX_OPERANDS)
    return FALSE;
  for (guint i = 0; i < index && i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL)
      operands[i].dtype = ((OrtrainValue *) node->inputs->pdata[i])->dtype;
  for (guint k = 0; k < n_outputs; k++)
    if (node->outputs->pdata[k] != NULL)
      operands[index + 1 + k].dtype = ((OrtrainValue *) node->outputs->pdata[k])->dtype;
  operands[index].dtype = value->dtype;
  return provider->klass->find_kernel (provider, node->domain, node->op_type, operands, index + 1, operands + index + 1,
                                       n_outputs) != NULL;
}

static void
reuse (OrtrainNode *node, const OrtrainProvider *provider)
{
  const guint index = node->op->reused_input;
  const OrtrainValue *beside = ortrain_node_input (node, node->op->reused_beside);
  if (beside == NULL || beside->producer == NULL || ortrain_node_input (node, index) != NULL)
    return;
  OrtrainValue *output = ortrain_node_output (beside->producer, 0);
  if (output != NULL && output != beside && is_read_backward (output, 0) && has_kernel (provider, node, index, output))
    ortrain_node_set_input (node, index, output);
}

gboolean
ortrain_reuse_outputs (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (node->op != NULL && node->op->reused_input != 0)
        reuse (node, provider);
    }
  return ortrain_graph_sort (graph, error);
}
