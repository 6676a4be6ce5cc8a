/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-control-private.h"
#include "ops/ortrain-declarations-private.h"
#include "ops/ortrain-op-check-private.h"
#include "ops/upgrade/ortrain-sequence-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

/* Before the upgrade an operator may have other inputs than in its newest form, but its first one is its first one, and
 * it has no other number of outputs. */
static gboolean
check_old (OrtrainGraph *graph, gpointer data, GError **error)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      const OrtrainOpDef *op = node->op;
      const gint n_inputs = (gint) node->inputs->len, n_outputs = (gint) node->outputs->len;
      const gboolean few = n_outputs < op->min_outputs || n_inputs < MIN (op->min_inputs, 1);
      if (few || (op->max_outputs >= 0 && n_outputs > op->max_outputs))
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY,
                       "%s has %d inputs and %d outputs, which are too %s", text, n_inputs, n_outputs,
                       few ? "few" : "many");
          return FALSE;
        }
      if (!ortrain_op_check_operands (graph, node, MIN (op->min_inputs, 1), error) ||
          !ortrain_op_check_attributes (node, error) || !ortrain_ops_each_subgraph (node, check_old, data, error))
        return FALSE;
    }
  return TRUE;
}

/* Upgrades look at ranks, types and contents, and a file need not say them: nodes up to `until` are inferred first.
 * Errors are left to the inference of the whole graph. */
static void
infer_before (OrtrainGraph *graph, OrtrainNode *until, OrtrainNode **inferred)
{
  for (OrtrainNode *node; (node = ortrain_graph_next_node (graph, *inferred)) != NULL && node != until;)
    {
      *inferred = node;
      if (node->op == NULL)
        node->op = ortrain_ops_lookup (node->domain, node->op_type);
      if (node->op != NULL && ortrain_op_check_arity (node, NULL))
        ortrain_ops_infer_declared (node, NULL);
    }
}

static gboolean
upgrade (OrtrainGraph *graph, gpointer data, GError **error)
{
  /* The list changes under us: new nodes come before the one they serve, and are in the newest form already. */
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  gint64 opset = graph->opset;
  OrtrainNode *inferred = NULL; /* the last one; an upgrade deletes none but its own node */
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      /* a row that knows of bodies upgrades the ones it needs */
      if (node->op->upgrade == NULL && !ortrain_ops_each_subgraph (node, upgrade, NULL, error))
        return FALSE;
      if (node->op->upgrade == NULL && opset >= 7)
        continue;
      infer_before (graph, node, &inferred);
      if (opset < 7 && !ortrain_upgrade_from_before_7 (graph, node, opset, error))
        return FALSE;
      if (node->op->upgrade != NULL && !node->op->upgrade (graph, node, opset, error))
        return FALSE;
    }
  graph->opset = 23;
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_ops_bind_names (graph, error);
}

gboolean
ortrain_ops_upgrade (OrtrainGraph *graph, GError **error)
{
  if (!ortrain_ops_bind_names (graph, error) || !check_old (graph, NULL, error))
    return FALSE;
  ortrain_control_hold_captures (graph);
  if (!ortrain_graph_sort (graph, error) || !upgrade (graph, NULL, error) || !ortrain_graph_sort (graph, error))
    return FALSE;
  return ortrain_sequence_remove (graph, error) && ortrain_ops_bind (graph, error);
}
