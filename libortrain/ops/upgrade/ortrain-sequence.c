/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-sequence-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-control-private.h"

#define MAX_ELEMENTS 4096
#define MAX_ALL_ELEMENTS (1 << 20) /* of all sequences of a file */

OrtrainNode *
ortrain_sequence_find_source (const OrtrainValue *value)
{
  OrtrainNode *node = value != NULL ? value->producer : NULL;
  while (node != NULL && ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_IDENTITY)
    {
      value = ortrain_node_input (node, 0);
      node = value != NULL ? value->producer : NULL;
    }
  return node;
}

OrtrainNode *
ortrain_sequence_find (const OrtrainValue *value)
{
  OrtrainNode *node = ortrain_sequence_find_source (value);
  return node != NULL && ortrain_node_is (node, "", "SequenceConstruct") ? node : NULL;
}

OrtrainNode *
ortrain_sequence_find_split (const OrtrainValue *value)
{
  OrtrainNode *node = ortrain_sequence_find_source (value);
  return node != NULL && ortrain_node_is (node, "", "SplitToSequence") ? node : NULL;
}

gboolean
ortrain_sequence_count (OrtrainNode *node, gint64 n, GError **error)
{
  static GQuark quark;
  OrtrainGraph *graph = node->graph;
  if (quark == 0)
    quark = g_quark_from_static_string ("ortrain-sequence-elements");
  while (graph->parent != NULL)
    graph = graph->parent;
  const gint64 before = (gint64) GPOINTER_TO_SIZE (g_object_get_qdata (G_OBJECT (graph), quark));
  if (n > MAX_ELEMENTS || before + n > MAX_ALL_ELEMENTS)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE,
                   n > MAX_ELEMENTS
                       ? "%s: the sequence would have %" G_GINT64_FORMAT " tensors, at most %d are supported"
                       : "%s: with its %" G_GINT64_FORMAT " tensors, the sequences of the model have more than %d",
                   text, n, n > MAX_ELEMENTS ? MAX_ELEMENTS : MAX_ALL_ELEMENTS);
      return FALSE;
    }
  g_object_set_qdata (G_OBJECT (graph), quark, GSIZE_TO_POINTER ((gsize) (before + n)));
  return TRUE;
}

/* `branch` reads elements where it read the sequence that its input `i` is. */
static void
open_input (OrtrainGraph *branch, guint i, OrtrainNode *sequence)
{
  OrtrainValue *captured = branch->inputs->pdata[i];
  g_autoptr (GPtrArray) elements = g_ptr_array_new ();
  for (guint k = 0; k < sequence->inputs->len; k++)
    {
      const OrtrainValue *outer = ortrain_node_input (sequence, k);
      OrtrainValue *inner = ortrain_graph_new_value (branch, NULL);
      inner->kind = ORTRAIN_VALUE_INPUT;
      ortrain_value_set_shape (inner, outer->dtype, outer->dims, outer->rank);
      g_ptr_array_add (branch->inputs, inner);
      g_ptr_array_add (elements, inner);
    }
  OrtrainNode *first = branch->nodes->len > 0 ? branch->nodes->pdata[0] : NULL;
  OrtrainNode *construct = first != NULL
                               ? ortrain_graph_insert_node (branch, first, "", "SequenceConstruct", NULL,
                                                            (OrtrainValue *const *) elements->pdata, elements->len, 1)
                               : ortrain_graph_new_node (branch, "", "SequenceConstruct", NULL,
                                                         (OrtrainValue *const *) elements->pdata, elements->len, 1);
  ortrain_value_replace_uses (captured, ortrain_node_output (construct, 0));
}

gboolean
ortrain_sequence_open_captures (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  const guint n_inputs = node->inputs->len;
  for (guint i = 1; i < n_inputs; i++)
    {
      OrtrainNode *sequence = ortrain_sequence_find (ortrain_node_input (node, i));
      if (sequence == NULL)
        continue;
      if (!ortrain_sequence_count (node, sequence->inputs->len, error))
        return FALSE;
      for (guint b = 0; b < 2; b++)
        open_input (ortrain_control_get_branch (node, b), i - 1, sequence);
      for (guint k = 0; k < sequence->inputs->len; k++)
        ortrain_node_set_input (node, node->inputs->len, ortrain_node_input (sequence, k));
      /* the position keeps its place in the list, for a value that nothing reads */
      ortrain_node_set_input (node, i, ortrain_graph_const_int (graph, 0));
    }
  return TRUE;
}

static gboolean
is_sequence (const OrtrainValue *value)
{
  return ortrain_sequence_find (value) != NULL || ortrain_sequence_find_split (value) != NULL;
}

gboolean
ortrain_sequence_remove (OrtrainGraph *graph, GError **error)
{
  for (guint k = 0; k < graph->outputs->len && graph->parent == NULL; k++)
    {
      const OrtrainValue *output = graph->outputs->pdata[k];
      if (!is_sequence (output))
        continue;
      g_autofree char *text = ortrain_node_describe (output->producer);
      g_set_error (
          error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
          "%s: the output '%s' is a sequence of tensors, which is not supported; export the model with each of "
          "them as an output",
          text, ortrain_text_show (output->name));
      return FALSE;
    }
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint n = graph->nodes->len; n-- > 0;)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      const OrtrainValue *output = ortrain_node_output (node, 0);
      if (output != NULL && output->uses.n == 0 && !output->is_output && is_sequence (output))
        ortrain_graph_delete_node (graph, node);
    }
  return TRUE;
}
