/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-insert-guards-private.h"

#include "ops/ortrain-op-private.h"

/* A body does not look at the fault, nor does the host in time. */
static gboolean
has_own_updates (const OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      if (ortrain_node_is_update (node) && (node->is_update || node->on_host))
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_kernel (const OrtrainProvider *provider, const OrtrainNode *node)
{
  OrtrainOperand operands[2][3] = { 0 };
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      operands[0][i].dtype = input != NULL ? input->dtype : ORTRAIN_DTYPE_UNDEFINED;
    }
  for (guint k = 0; k < node->outputs->len; k++)
    operands[1][k].dtype = ortrain_node_output (node, k)->dtype;
  return provider->klass->find_kernel (provider, node->domain, node->op_type, operands[0], node->inputs->len,
                                       operands[1], node->outputs->len) != NULL;
}

/* All readers of a value read `looked_at` instead, except for `guard`, and `except` or NULL. */
static void
move_uses (OrtrainValue *value, OrtrainValue *looked_at, const OrtrainNode *guard, const OrtrainNode *except)
{
  for (guint u = value->uses.n; u-- > 0;)
    {
      const OrtrainUse use = value->uses.items[u];
      if (use.node != guard && use.node != except)
        ortrain_node_set_input (use.node, use.index, looked_at);
    }
}

/* BeginUpdate follows the norm of all gradients. It also chooses the scalars of the update. */
static OrtrainNode *
add_begin (OrtrainGraph *graph, OrtrainValue *norm, float overflows_above)
{
  OrtrainNode *maker = norm->producer;
  OrtrainValue *const inputs[] = { ortrain_node_input (maker, 0), norm, ortrain_node_input (maker, 1) };
  OrtrainNode *node = ortrain_graph_insert_node (graph, ortrain_graph_next_node (graph, maker), ORTRAIN_DOMAIN,
                                                 "BeginUpdate", norm->name, inputs, 3, 2);
  ortrain_attributes_set_float (node->attributes, "overflows_above", overflows_above);
  return node;
}

/* The scalars that it chooses replace those that the session has written. */
static void
connect_begin (OrtrainGraph *graph, OrtrainNode *node, OrtrainValue *norm)
{
  OrtrainValue *scalars = ortrain_node_input (node, 0), *chosen = ortrain_node_output (node, 0);
  g_autofree char *name = g_strconcat (scalars->name, ".next", NULL);
  move_uses (scalars, chosen, node, norm->producer);
  move_uses (norm, ortrain_node_output (node, 1), node, NULL);
  ortrain_value_rename (chosen, name);
  chosen->role = ORTRAIN_ROLE_UPDATE;
  chosen->partner = scalars;
  ortrain_graph_mark_output (graph, chosen, TRUE);
}

gboolean
ortrain_insert_guards (OrtrainGraph *graph, const OrtrainProvider *provider, const char *const *names,
                       float overflows_above, gboolean *guarded, GError **error)
{
  *guarded = FALSE;
  if (!has_own_updates (graph) || !ortrain_graph_sort (graph, error))
    return TRUE;
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  gboolean all = TRUE;
  for (guint i = 0; names[i] != NULL && all; i++)
    {
      OrtrainValue *value = ortrain_graph_find_value (graph, names[i]);
      if (value == NULL || value->producer == NULL || value->on_host)
        continue;
      const gboolean begins = ortrain_node_get_kind (value->producer) == ORTRAIN_OP_KIND_GRADIENT_NORM;
      OrtrainNode *guard = begins ? add_begin (graph, value, overflows_above)
                                  : ortrain_graph_insert_node (graph, ortrain_graph_next_node (graph, value->producer),
                                                               ORTRAIN_DOMAIN, "StepGuard", value->name, &value, 1, 1);
      guard->phase = value->producer->phase;
      if (!ortrain_ops_infer_node (guard, error))
        return FALSE;
      all = has_kernel (provider, guard);
      if (!all)
        ortrain_graph_delete_node (graph, guard);
      else if (begins)
        connect_begin (graph, guard, value);
      else
        move_uses (value, ortrain_node_output (guard, 0), guard, NULL);
      *guarded = all;
    }
  return TRUE;
}
