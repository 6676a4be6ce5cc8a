/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-optimizer-private.h"
#include "transform/ortrain-recompute-private.h"

/* Element-wise operators and views cost next to nothing to run again: they join the chains that read them. Of what the
 * backward pass reads, the smallest set (in bytes) is kept from which they give the rest. */

static gboolean
is_cheap (const OrtrainNode *node)
{
  return node->body == NULL && ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW) &&
         !ortrain_node_has_flag (node, ORTRAIN_OP_RANDOM) && ortrain_recompute_may_run_again (node);
}

void
ortrain_recompute_cut_cheap (OrtrainGraph *graph, const gint64 *bytes, gboolean *kept)
{
  g_autofree gint64 *costs = g_new (gint64, graph->nodes->len + 1);
  for (guint i = 0; i < graph->nodes->len; i++)
    costs[i] = is_cheap (graph->nodes->pdata[i]) ? 0 : ORTRAIN_RECOMPUTE_NEVER;
  ortrain_recompute_cut_sized (graph, costs, NULL, bytes, kept);
}

gboolean
ortrain_recompute_cheap (OrtrainGraph *graph, GError **error)
{
  gboolean any = FALSE;
  for (guint i = 0; i < graph->nodes->len && !any; i++)
    any = ((OrtrainNode *) graph->nodes->pdata[i])->phase == ORTRAIN_PHASE_BACKWARD;
  if (!any)
    return TRUE;
  g_autofree gboolean *kept = g_new (gboolean, graph->values->len + 1);
  ortrain_recompute_cut_cheap (graph, NULL, kept);
  return ortrain_recompute_apply (graph, kept, error);
}
