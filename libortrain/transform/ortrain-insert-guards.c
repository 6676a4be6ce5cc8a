/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-insert-guards-private.h"

#include "ops/ortrain-op-private.h"

/* A body does not look at the fault, nor does the host in time. */
static gboolean
has_own_updates (const OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      if (ortrain_node_is_update (node) && (node->is_update || node->on_host))
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_kernel (const OrtrainProvider *provider, const OrtrainNode *node)
{
  const OrtrainValue *input = ortrain_node_input (node, 0), *output = ortrain_node_output (node, 0);
  const OrtrainOperand in = { .dtype = input->dtype }, out = { .dtype = output->dtype };
  return provider->klass->find_kernel (provider, node->domain, node->op_type, &in, 1, &out, 1) != NULL;
}

gboolean
ortrain_insert_guards (OrtrainGraph *graph, const OrtrainProvider *provider, const char *const *names,
                       gboolean *guarded, GError **error)
{
  *guarded = FALSE;
  if (!has_own_updates (graph) || !ortrain_graph_sort (graph, error))
    return TRUE;
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; names[i] != NULL; i++)
    {
      OrtrainValue *value = ortrain_graph_find_value (graph, names[i]);
      if (value == NULL || value->producer == NULL || value->on_host)
        continue;
      OrtrainNode *guard = ortrain_graph_insert_node (graph, ortrain_graph_next_node (graph, value->producer),
                                                      ORTRAIN_DOMAIN, "StepGuard", value->name, &value, 1, 1);
      guard->phase = value->producer->phase;
      if (!ortrain_ops_infer_node (guard, error))
        return FALSE;
      if (!has_kernel (provider, guard))
        {
          ortrain_graph_delete_node (graph, guard);
          return TRUE;
        }
      OrtrainValue *looked_at = ortrain_node_output (guard, 0);
      for (guint u = value->uses.n; u-- > 0;)
        {
          const OrtrainUse use = value->uses.items[u];
          if (use.node != guard)
            ortrain_node_set_input (use.node, use.index, looked_at);
        }
      *guarded = TRUE;
    }
  return TRUE;
}
