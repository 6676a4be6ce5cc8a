/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-expand-private.h"

#include "ops/decompositions/ortrain-body-private.h"

/* Nodes that ran one of the expanded nodes again do not count as copies any more. */
static void
forget_recomputed (OrtrainGraph *graph, GHashTable *expanded)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (node->recomputes != NULL && g_hash_table_contains (expanded, node->recomputes))
        node->recomputes = NULL;
    }
}

/* One round: a body may have operators of our own again (those of a chain). */
static gboolean
expand_once (OrtrainGraph *graph, OrtrainHasKernelFunc has_kernel, gpointer data, gboolean *any, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (GHashTable) expanded = g_hash_table_new (NULL, NULL);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (graph);
  gboolean ok = TRUE;
  for (guint i = 0; i < nodes->len && ok; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      gboolean done = FALSE;
      if (node->op == NULL || node->op->expand == NULL || has_kernel (node, data))
        continue;
      ok = ortrain_body_expand (node, &done, error);
      if (done)
        g_hash_table_add (expanded, node);
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  *any = g_hash_table_size (expanded) > 0;
  forget_recomputed (graph, expanded);
  return ok;
}

gboolean
ortrain_expand_nodes (OrtrainGraph *graph, OrtrainHasKernelFunc has_kernel, gpointer data, GError **error)
{
  for (gboolean any = TRUE; any;)
    if (!expand_once (graph, has_kernel, data, &any, error))
      return FALSE;
  return ortrain_graph_sort (graph, error);
}
