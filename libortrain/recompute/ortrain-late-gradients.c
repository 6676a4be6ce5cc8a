/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"

/* A loss that is computed in pieces has the gradients of its layer as outputs, in the forward pass. If the weight is
 * also an embedding, its gradient then waits for another term until the backward pass ends. It can be computed by
 * another run of the loss instead, just before that term. */

/* Whether the node computes a loss and gradients, and another run of it gives the same bits. */
static gboolean
is_loss_with_gradients (const OrtrainNode *node)
{
  if (node->op == NULL || node->phase != ORTRAIN_PHASE_FORWARD || node->body != NULL ||
      ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL | ORTRAIN_OP_SHAPE_ONLY | ORTRAIN_OP_RANDOM) ||
      node->op->statistic_inputs != 0 || node->outputs->len < 2)
    return FALSE;
  const OrtrainValue *loss = ortrain_node_output (node, 0);
  return loss != NULL && loss->role == ORTRAIN_ROLE_LOSS;
}

/* How many nodes of the backward pass come before the first reader. G_MAXUINT: others read it, too. order: [n_nodes] by
 * position, the number of nodes of the backward pass before. */
static guint
find_first_reader (const OrtrainValue *value, const guint *order)
{
  guint first = G_MAXUINT;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *reader = value->uses.items[u].node;
      if (reader->phase != ORTRAIN_PHASE_BACKWARD || ortrain_node_is_view (reader))
        return G_MAXUINT;
      first = MIN (first, order[reader->mark]);
    }
  return first;
}

gboolean
ortrain_recompute_find_late_gradients (OrtrainGraph *graph, const guint64 *bytes, guint64 least, gboolean *late)
{
  const guint n_nodes = graph->nodes->len;
  g_autofree guint *order = g_new (guint, n_nodes + 1);
  guint n_backward = 0;
  gboolean any = FALSE;
  for (guint t = 0; t < n_nodes; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      node->mark = t;
      order[t] = n_backward;
      n_backward += node->phase == ORTRAIN_PHASE_BACKWARD;
    }
  for (guint v = 0; v < graph->values->len; v++)
    late[v] = FALSE;
  for (guint t = 0; t < n_nodes; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      const guint n_outputs = is_loss_with_gradients (node) ? node->outputs->len : 0;
      for (guint k = 1; k < n_outputs; k++)
        {
          const OrtrainValue *value = ortrain_node_output (node, k);
          if (value == NULL || (gint) k < node->op->min_outputs || value->role != ORTRAIN_ROLE_NONE ||
              value->is_output || bytes[value->id] < least)
            continue;
          const guint first = find_first_reader (value, order);
          late[value->id] = first != G_MAXUINT && first > n_backward / 2;
          any = any || late[value->id];
        }
    }
  return any;
}

void
ortrain_recompute_run_late (OrtrainGraph *graph, const gboolean *late, guint8 *run)
{
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainNode *node = late[v] ? ((OrtrainValue *) graph->values->pdata[v])->producer : NULL;
      for (guint i = 0; node != NULL && i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL)
          run[((OrtrainValue *) node->inputs->pdata[i])->id] = 0;
      if (node != NULL)
        run[v] = 1;
    }
}
