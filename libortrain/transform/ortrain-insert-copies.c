/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-insert-copies-private.h"

#include "ops/ortrain-op-private.h"

/* The first node in the graph's order that reads a value; NULL if none does. */
static OrtrainNode *
find_first_reader (const OrtrainValue *value)
{
  OrtrainNode *first = NULL;
  for (guint u = 0; u < value->uses.n; u++)
    if (first == NULL || value->uses.items[u].node->mark < first->mark)
      first = value->uses.items[u].node;
  return first;
}

static gboolean
copy_input (OrtrainGraph *graph, OrtrainValue *input, GError **error)
{
  OrtrainNode *reader = find_first_reader (input);
  if (reader == NULL || input->tensor != NULL)
    return TRUE;
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (OrtrainUse));
  g_array_append_vals (uses, input->uses.items, input->uses.n);
  OrtrainNode *copy = ortrain_graph_insert_node (graph, reader, ORTRAIN_DOMAIN, "Copy", input->name, &input, 1, 1);
  copy->phase = reader->phase;
  copy->mark = reader->mark; /* at once before it */
  if (!ortrain_ops_infer_node (copy, error))
    return FALSE;
  OrtrainValue *here = ortrain_node_output (copy, 0);
  for (guint u = 0; u < uses->len; u++)
    {
      OrtrainUse use = g_array_index (uses, OrtrainUse, u);
      ortrain_node_set_input (use.node, use.index, here);
    }
  return TRUE;
}

/* The copy has the output's name. */
static gboolean
copy_output (OrtrainGraph *graph, OrtrainValue *output, GError **error)
{
  if (output->tensor != NULL)
    return TRUE; /* known: the host has it */
  g_autofree char *name = g_strdup (output->name);
  OrtrainNode *copy = ortrain_graph_insert_node (graph, NULL, ORTRAIN_DOMAIN, "Copy", name, &output, 1, 1);
  copy->phase = output->producer != NULL ? output->producer->phase : ORTRAIN_PHASE_FORWARD;
  if (!ortrain_ops_infer_node (copy, error))
    return FALSE;
  OrtrainValue *there = ortrain_node_output (copy, 0);
  ortrain_graph_replace_output (graph, output, there);
  if (output->kind == ORTRAIN_VALUE_COMPUTED)
    {
      ortrain_value_rename (output, NULL);
      ortrain_value_rename (there, name);
    }
  return TRUE;
}

gboolean
ortrain_insert_copies (OrtrainGraph *graph, gboolean training, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  for (guint n = 0; n < graph->nodes->len; n++)
    ((OrtrainNode *) graph->nodes->pdata[n])->mark = n;
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (graph->outputs, NULL, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < graph->inputs->len; i++)
    if (((OrtrainValue *) graph->inputs->pdata[i])->kind == ORTRAIN_VALUE_INPUT &&
        !copy_input (graph, graph->inputs->pdata[i], error))
      return FALSE;
  for (guint k = 0; k < outputs->len && !training; k++)
    if (!copy_output (graph, outputs->pdata[k], error))
      return FALSE;
  return TRUE;
}
