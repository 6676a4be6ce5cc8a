/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-zero-sums-private.h"
#include "transform/ortrain-passes-private.h"

/* The gradient of a bias below a normalization, or of the bias of attention's keys, is zero whatever the data are. What
 * rounding leaves of it is noise, which an optimizer that divides by the gradient's size would follow: such gradients
 * become zeros. */

/* The gradient becomes zeros of its own shape, which are written to its buffer as any gradient is. */
static gboolean
put_zeros (OrtrainGraph *graph, OrtrainValue *gradient, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (gradient->rank < 0 || gradient->rank > ORTRAIN_MAX_RANK || !ortrain_value_get_static_dims (gradient, dims))
    return TRUE;
  OrtrainValue *inputs[] = { ortrain_graph_const_scalar (graph, gradient->dtype, 0.0),
                             ortrain_graph_const_ints (graph, dims, (gsize) gradient->rank) };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Expand", "grad/Zeros", inputs, 2, 1);
  node->phase = ORTRAIN_PHASE_BACKWARD;
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  ortrain_value_replace_uses (gradient, ortrain_node_output (node, 0));
  return TRUE;
}

gboolean
ortrain_drop_zero_gradients (OrtrainGraph *graph, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autofree OrtrainZeroSum *of = g_new0 (OrtrainZeroSum, graph->values->len + 1);
  OrtrainZeroSums sums = { of, graph->values->len };
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (node->phase == ORTRAIN_PHASE_BACKWARD && node->op != NULL && node->op->zero_sums != NULL)
        node->op->zero_sums (&sums, node);
    }
  g_autoptr (GPtrArray) zeros = g_ptr_array_new ();
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      OrtrainValue *value = graph->outputs->pdata[i];
      if (value->role == ORTRAIN_ROLE_GRADIENT && of[value->id].zero)
        g_ptr_array_add (zeros, value);
    }
  for (guint i = 0; i < zeros->len; i++)
    if (!put_zeros (graph, zeros->pdata[i], error))
      return FALSE;
  if (zeros->len > 0)
    ortrain_graph_remove_dead (graph);
  return ortrain_graph_sort (graph, error);
}
