/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"

/* A value that element-wise nodes compute again, and that several nodes read, waits in memory from the first reader to
 * the last. An element-wise reader gets nodes of its own for it instead, with which it is fused later: then it reads
 * their inputs, at the price of the arithmetic. That lets the shared result go earlier, such as the output of a ReLU
 * that the weight gradient of a convolution needs, and after it the gradient of the ReLU. */

#define MAX_CHAIN 8 /* nodes */

/* A node that is computed again, and may be fused with an element-wise reader of its only output. */
static gboolean
is_link (const OrtrainNode *node, const OrtrainValue *like)
{
  return node != NULL && node->recomputes != NULL && node->phase == ORTRAIN_PHASE_BACKWARD && node->op != NULL &&
         (node->op->flags & ORTRAIN_OP_POINTWISE) && !(node->op->flags & ORTRAIN_OP_RANDOM) &&
         node->outputs->len == 1 && node->body == NULL &&
         ortrain_value_same_shape (ortrain_node_output (node, 0), like);
}

/* The node, and those before it that are links. FALSE: there are too many. */
static gboolean
collect_chain (OrtrainNode *node, const OrtrainValue *like, GPtrArray *chain)
{
  if (g_ptr_array_find (chain, node, NULL))
    return TRUE;
  if (chain->len == MAX_CHAIN)
    return FALSE;
  g_ptr_array_add (chain, node);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = ortrain_node_input (node, i);
      if (input != NULL && is_link (input->producer, like) && !collect_chain (input->producer, like, chain))
        return FALSE;
    }
  return TRUE;
}

/* Whether the value is there when the reader runs in any case. */
static gboolean
is_there (const OrtrainValue *value, const OrtrainNode *reader, GPtrArray *chain)
{
  if (ortrain_recompute_is_free_to_keep (value))
    return TRUE;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *other = value->uses.items[u].node;
      if (other->phase != ORTRAIN_PHASE_FORWARD && other->mark >= reader->mark &&
          !g_ptr_array_find (chain, (gpointer) other, NULL))
        return TRUE;
    }
  return FALSE;
}

/* Whether all inputs of the chain that are as large as its result exist at the reader. */
static gboolean
has_its_inputs (GPtrArray *chain, const OrtrainNode *reader, const OrtrainValue *like)
{
  for (guint c = 0; c < chain->len; c++)
    {
      const OrtrainNode *node = chain->pdata[c];
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = ortrain_node_input (node, i);
          if (input != NULL && !g_ptr_array_find (chain, input->producer, NULL) &&
              ortrain_value_same_shape (input, like) && !is_there (input, reader, chain))
            return FALSE;
        }
    }
  return TRUE;
}

/* Copies of the nodes of a chain; the first one computes the value that the reader reads. */
static OrtrainValue *
copy_chain (OrtrainGraph *graph, const GPtrArray *chain)
{
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL); /* value → its copy */
  for (guint c = 0; c < chain->len; c++)
    g_hash_table_insert (copies, ortrain_node_output (chain->pdata[c], 0),
                         ortrain_node_output (ortrain_recompute_copy_node (graph, chain->pdata[c]), 0));
  for (guint c = 0; c < chain->len; c++)
    {
      const OrtrainNode *node = chain->pdata[c];
      const OrtrainValue *to = g_hash_table_lookup (copies, ortrain_node_output (node, 0));
      for (guint i = 0; i < node->inputs->len; i++)
        {
          OrtrainValue *input = node->inputs->pdata[i];
          OrtrainValue *copy = input != NULL ? g_hash_table_lookup (copies, input) : NULL;
          ortrain_node_set_input (to->producer, i, copy != NULL ? copy : input);
        }
    }
  return g_hash_table_lookup (copies, ortrain_node_output (chain->pdata[0], 0));
}

gboolean
ortrain_recompute_spare_memory (OrtrainGraph *graph, GError **error)
{
  const guint n_nodes = graph->nodes->len;
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  for (guint t = 0; t < n_nodes; t++)
    ((OrtrainNode *) graph->nodes->pdata[t])->mark = t;
  for (guint t = 0; t < n_nodes; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      if (node->phase != ORTRAIN_PHASE_BACKWARD || node->recomputes != NULL || node->op == NULL ||
          !(node->op->flags & ORTRAIN_OP_POINTWISE) || node->outputs->len != 1)
        continue;
      const OrtrainValue *like = ortrain_node_output (node, 0);
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = ortrain_node_input (node, i);
          g_autoptr (GPtrArray) chain = g_ptr_array_new ();
          if (input == NULL || input->uses.n < 2 || !is_link (input->producer, like) ||
              !collect_chain (input->producer, like, chain) || !has_its_inputs (chain, node, like))
            continue;
          ortrain_node_set_input (node, i, copy_chain (graph, chain));
        }
    }
  return ortrain_graph_sort (graph, error);
}
