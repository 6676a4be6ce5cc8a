/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-specialize-private.h"

OrtrainValue *
ortrain_find_passed_value (const OrtrainNode *node)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  if (node->op == NULL || y == NULL)
    return NULL;
  for (guint k = 1; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && (output->uses.n > 0 || output->is_output))
        return NULL;
    }
  gint i = -1;
  if (node->op->flags & (ORTRAIN_OP_VIEW | ORTRAIN_OP_VIEW_IF_SAME))
    i = 0;
  else if (node->op->find_passed_input != NULL)
    i = node->op->find_passed_input (node);
  OrtrainValue *x = i >= 0 ? ortrain_node_input (node, (guint) i) : NULL;
  return x != NULL && x->dtype == y->dtype && ortrain_value_same_shape (x, y) ? x : NULL;
}

gboolean
ortrain_eliminate_node (OrtrainGraph *graph, OrtrainNode *node)
{
  OrtrainValue *y = ortrain_node_output (node, 0);
  OrtrainValue *x = ortrain_find_passed_value (node);
  if (x == NULL)
    return FALSE;
  /* An output of the graph that would become an input, a weight, or a second name of another output needs its node. A
   * gradient must not be taken from a node of the forward pass either. */
  if (y->is_output && (x->is_output || x->kind != ORTRAIN_VALUE_COMPUTED || x->role != ORTRAIN_ROLE_NONE ||
                       (x->producer != NULL && x->producer->phase != node->phase)))
    return FALSE;
  ortrain_value_replace_uses (y, x);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

guint
ortrain_eliminate_identities (OrtrainGraph *graph)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  guint n = 0;
  for (guint i = 0; i < nodes->len; i++)
    n += ortrain_eliminate_node (graph, nodes->pdata[i]) ? 1 : 0;
  return n;
}
