/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-recompute-private.h"

/* Running statistics move once in a step: a layer that runs again does without them. */
gboolean
ortrain_recompute_reads_again (const OrtrainNode *node, guint input)
{
  return input >= 32 || !((node->op->statistic_inputs & node->op->optional_inputs) >> input & 1);
}

static gboolean
is_next_statistic (const OrtrainNode *node, guint output)
{
  const guint32 statistics = node->op->statistic_inputs & node->op->optional_inputs;
  return output >= 1 && output <= (guint) __builtin_popcount (statistics);
}

gboolean
ortrain_recompute_is_saved (const OrtrainNode *node, guint output)
{
  if (node->op == NULL || node->phase != ORTRAIN_PHASE_FORWARD || output >= 32 ||
      !(node->op->saved_outputs >> output & 1))
    return FALSE;
  for (guint32 saved = node->op->saved_outputs; saved != 0; saved &= saved - 1)
    {
      const OrtrainValue *value = ortrain_node_output (node, (guint) __builtin_ctz (saved));
      if (value == NULL || ortrain_dtype_is_half (value->dtype))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_recompute_may_run_again (const OrtrainNode *node)
{
  if (node->op == NULL || node->phase != ORTRAIN_PHASE_FORWARD ||
      ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL | ORTRAIN_OP_SHAPE_ONLY) ||
      ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_COPY)
    return FALSE;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && output->role != ORTRAIN_ROLE_NONE && !is_next_statistic (node, k))
        return FALSE;
    }
  return node->outputs->len > 0;
}

/* A copy of a node in the backward pass; what its inputs became is in `copies` already; but a kept input is read
 * as it is, even where another output of its node runs again. kept: [n_values] */
static void
run_again (OrtrainGraph *graph, OrtrainNode *node, const gboolean *kept, guint n_values, GHashTable *copies)
{
  const guint n_inputs = node->inputs->len;
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, n_inputs + 1);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      if (!ortrain_recompute_reads_again (node, i))
        continue;
      inputs[i] = node->inputs->pdata[i];
      OrtrainValue *copy = inputs[i] != NULL ? g_hash_table_lookup (copies, inputs[i]) : NULL;
      if (copy != NULL && !(inputs[i]->id < n_values && kept[inputs[i]->id]))
        inputs[i] = copy;
    }
  OrtrainNode *again =
      ortrain_graph_new_node (graph, node->domain, node->op_type, node->name, inputs, n_inputs, node->outputs->len);
  ortrain_attributes_assign (again->attributes, node->attributes);
  g_set_object (&again->body, node->body);
  again->op = node->op;
  again->on_host = node->on_host;
  again->phase = ORTRAIN_PHASE_BACKWARD;
  again->number = node->number;
  again->recomputes = node;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *from = node->outputs->pdata[k], *to = again->outputs->pdata[k];
      if (from == NULL || is_next_statistic (node, k))
        {
          ortrain_node_drop_output (again, k);
          continue;
        }
      ortrain_value_set_shape (to, from->dtype, from->dims, from->rank);
      g_hash_table_insert (copies, from, to);
    }
}

/* The reads of the backward pass that change. */
static GArray *
find_uses (OrtrainGraph *graph, const gboolean *kept)
{
  GArray *uses = g_array_new (FALSE, FALSE, sizeof (OrtrainUse));
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      for (guint u = 0; u < value->uses.n && !kept[v]; u++)
        if (value->uses.items[u].node->phase == ORTRAIN_PHASE_BACKWARD)
          g_array_append_val (uses, value->uses.items[u]);
    }
  return uses;
}

/* From the reads backwards. */
void
ortrain_recompute_find_again (OrtrainGraph *graph, const gboolean *kept, gboolean *again)
{
  g_autofree gboolean *wanted = g_new0 (gboolean, graph->values->len + 1);
  g_autoptr (GArray) uses = find_uses (graph, kept);
  for (guint i = 0; i < uses->len; i++)
    {
      OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      wanted[((OrtrainValue *) use.node->inputs->pdata[use.index])->id] = TRUE;
    }
  for (guint i = graph->nodes->len; i-- > 0;)
    {
      const OrtrainNode *node = graph->nodes->pdata[i];
      for (guint k = 0; k < node->outputs->len && !again[i]; k++)
        {
          const OrtrainValue *output = node->outputs->pdata[k];
          again[i] = output != NULL && wanted[output->id] && !kept[output->id];
        }
      for (guint k = 0; k < node->inputs->len && again[i]; k++)
        if (node->inputs->pdata[k] != NULL && ortrain_recompute_reads_again (node, k))
          wanted[((OrtrainValue *) node->inputs->pdata[k])->id] = TRUE;
    }
}

gboolean
ortrain_recompute_apply (OrtrainGraph *graph, const gboolean *kept, GError **error)
{
  g_autoptr (GArray) uses = find_uses (graph, kept); /* collected first: copies read, too */
  if (uses->len == 0)
    return TRUE;
  const guint n_nodes = graph->nodes->len, n_values = graph->values->len;
  g_autofree gboolean *again = g_new0 (gboolean, n_nodes + 1);
  ortrain_recompute_find_again (graph, kept, again);
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL);
  const guint next_number = graph->next_number;
  for (guint i = 0; i < n_nodes; i++)
    if (again[i])
      run_again (graph, graph->nodes->pdata[i], kept, n_values, copies);
  graph->next_number = next_number; /* copies have the numbers of what they copy */
  for (guint i = 0; i < uses->len; i++)
    {
      OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      ortrain_node_set_input (use.node, use.index, g_hash_table_lookup (copies, use.node->inputs->pdata[use.index]));
    }
  return ortrain_graph_sort (graph, error);
}
