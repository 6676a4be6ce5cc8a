/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-optimizer-private.h"
#include "transform/ortrain-recompute-private.h"
#include "transform/ortrain-segments-private.h"

/* Element-wise operators and views cost next to nothing to run again: they join the chains that read them. Operators that
 * go over their memory once cost little beside the products around them, and run again where more than a quarter of the
 * bytes that they compute is saved by it, and more than starting a kernel takes: a normalization whose input is kept anyway, say, in 16 bits too, where casts stand
 * around it. Of what the backward pass reads, the smallest
 * set (in bytes) is kept from which these give the rest. What is open between segments of the forward pass is kept in any
 * case: a chain of residual additions would else be computed again from its beginning, and all of it be live at once. */

static gint64
bytes_of (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK], n, bytes;
  if (!ortrain_value_get_static_dims (value, dims) || !ortrain_checked_n_elements (dims, (gsize) value->rank, &n) ||
      !ortrain_checked_mul_i64 (n, (gint64) ortrain_dtype_get_size (value->dtype), &bytes))
    return 0;
  return bytes;
}

static gint64
cost_of (const OrtrainNode *node, const gint64 *bytes, gint64 launch_bytes)
{
  if (node->body != NULL || ortrain_node_has_flag (node, ORTRAIN_OP_RANDOM) || !ortrain_recompute_may_run_again (node))
    return ORTRAIN_RECOMPUTE_NEVER;
  if (ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW))
    return 0;
  return ortrain_node_has_flag (node, ORTRAIN_OP_ONE_PASS) && ortrain_node_output (node, 0) != NULL
             ? bytes[ortrain_node_output (node, 0)->id] / 4 + launch_bytes
             : ORTRAIN_RECOMPUTE_NEVER;
}

/* Elements, of values that take memory for being kept; others have 0. Most casts between types of different sizes
 * disappear later, and make no places where less is open. */
static void
measure_open (OrtrainGraph *graph, const gint64 *bytes, guint64 *open)
{
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      const gsize size = MAX (1, ortrain_dtype_get_size (value->dtype));
      open[v] = ortrain_recompute_lives_anyhow (value) ? 0 : (guint64) MAX (0, bytes[v]) / size;
    }
}

void
ortrain_recompute_cut_cheap (OrtrainGraph *graph, const gint64 *bytes, gint64 launch_bytes, gboolean *kept)
{
  g_autofree gint64 *costs = g_new (gint64, graph->nodes->len + 1);
  g_autofree guint64 *open = g_new (guint64, graph->values->len + 1);
  g_autofree gboolean *boundary = g_new0 (gboolean, graph->values->len + 1);
  for (guint i = 0; i < graph->nodes->len; i++)
    costs[i] = cost_of (graph->nodes->pdata[i], bytes, launch_bytes);
  measure_open (graph, bytes, open);
  g_autoptr (GArray) cuts = ortrain_find_segment_cuts (graph, open);
  ortrain_mark_open_values (graph, cuts, 1, boundary);
  ortrain_recompute_cut_sized (graph, costs, boundary, bytes, kept);
}

gboolean
ortrain_recompute_cheap (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  gboolean any = FALSE;
  for (guint i = 0; i < graph->nodes->len && !any; i++)
    any = ((OrtrainNode *) graph->nodes->pdata[i])->phase == ORTRAIN_PHASE_BACKWARD;
  if (!any)
    return TRUE;
  g_autofree gboolean *kept = g_new (gboolean, graph->values->len + 1);
  g_autofree gint64 *bytes = g_new (gint64, graph->values->len + 1);
  for (guint v = 0; v < graph->values->len; v++)
    bytes[v] = bytes_of (graph->values->pdata[v]);
  ortrain_recompute_cut_cheap (graph, bytes, provider->klass->launch_bytes, kept);
  return ortrain_recompute_apply (graph, kept, error);
}
