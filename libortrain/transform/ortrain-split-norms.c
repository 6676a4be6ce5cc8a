/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

/* A normalization over the batch becomes two nodes: one takes statistics, a few numbers for each channel, which are
 * kept; the other one computes the output of them, element by element. As any element-wise operator, it then joins the
 * chains that read it, activations and residual additions in both passes: the backward pass keeps the input of the
 * normalization, and has its output in no memory. */
gboolean
ortrain_split_norms (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (node->op != NULL && node->op->split != NULL && node->phase == ORTRAIN_PHASE_FORWARD &&
          !node->op->split (node, i + 1 < nodes->len ? nodes->pdata[i + 1] : NULL, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
