/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "recompute/ortrain-offload-private.h"

#include "ops/ortrain-op-private.h"

/* The copy there is on the host, whatever the device is; that back is read by all of the backward pass. The value
 * itself lives until the forward pass, and the copy, have read it. */

static GArray *
find_backward_uses (const OrtrainValue *value)
{
  GArray *uses = g_array_new (FALSE, FALSE, sizeof (OrtrainUse));
  for (guint u = 0; u < value->uses.n; u++)
    if (value->uses.items[u].node->phase == ORTRAIN_PHASE_BACKWARD)
      g_array_append_val (uses, value->uses.items[u]);
  return uses;
}

static OrtrainValue *
set_copy (OrtrainNode *copy, const OrtrainNode *maker, OrtrainPhase phase, GError **error)
{
  copy->phase = phase;
  copy->number = maker->number; /* numbers of nodes that come later do not depend on it */
  if (!ortrain_ops_infer_node (copy, error))
    return NULL;
  OrtrainValue *there = ortrain_node_output (copy, 0);
  there->on_host = phase == ORTRAIN_PHASE_FORWARD;
  return there;
}

static gboolean
offload_value (OrtrainGraph *graph, OrtrainValue *value, GError **error)
{
  g_autoptr (GArray) uses = find_backward_uses (value);
  OrtrainNode *first = NULL, *maker = value->producer;
  for (guint i = 0; i < uses->len; i++)
    {
      OrtrainNode *reader = g_array_index (uses, OrtrainUse, i).node;
      first = first == NULL || reader->mark < first->mark ? reader : first;
    }
  if (first == NULL)
    return TRUE;
  OrtrainNode *out = ortrain_graph_insert_node (graph, ortrain_graph_next_node (graph, maker), ORTRAIN_DOMAIN,
                                                "Offload", maker->name, &value, 1, 1);
  OrtrainValue *there = set_copy (out, maker, ORTRAIN_PHASE_FORWARD, error);
  if (there == NULL)
    return FALSE;
  OrtrainNode *in = ortrain_graph_insert_node (graph, first, ORTRAIN_DOMAIN, "Reload", maker->name, &there, 1, 1);
  OrtrainValue *back = set_copy (in, maker, ORTRAIN_PHASE_BACKWARD, error);
  for (guint i = 0; i < uses->len && back != NULL; i++)
    {
      const OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      ortrain_node_set_input (use.node, use.index, back);
    }
  return back != NULL;
}

gboolean
ortrain_offload_apply (OrtrainGraph *graph, const gboolean *offloaded, GError **error)
{
  const guint n_values = graph->values->len, next_number = graph->next_number;
  gboolean ok = TRUE;
  for (guint t = 0; t < graph->nodes->len; t++)
    ((OrtrainNode *) graph->nodes->pdata[t])->mark = t;
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint v = 0; v < n_values && ok; v++)
    if (offloaded[v])
      ok = offload_value (graph, graph->values->pdata[v], error);
  graph->next_number = next_number;
  return ok;
}
