/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-upgrade-private.h"

/* Operators with any number of operands, when there are very many: a tree of nodes with at most this many each. Kernels
 * then need no limit of their own, and the memory of a part of the operands is free as soon as that part is done. */
#define MOST_OPERANDS 64

/* Replaces operands by the results of nodes over parts of them, until few are left. */
static void
combine (OrtrainGraph *graph, OrtrainNode *before, const char *op_type, const OrtrainAttributes *attributes,
         GPtrArray *operands)
{
  while (operands->len > MOST_OPERANDS)
    {
      guint n = 0;
      for (guint i = 0; i < operands->len; i += MOST_OPERANDS)
        {
          const guint part = MIN (MOST_OPERANDS, operands->len - i);
          OrtrainValue **values = (OrtrainValue **) operands->pdata + i;
          operands->pdata[n++] = part == 1 ? values[0]
                                           : ortrain_upgrade_insert (graph, before, op_type, values, part,
                                                                     ortrain_attributes_copy (attributes));
        }
      g_ptr_array_set_size (operands, (gint) n);
    }
}

static GPtrArray *
get_operands (const OrtrainNode *node)
{
  GPtrArray *operands = g_ptr_array_new ();
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL)
      g_ptr_array_add (operands, node->inputs->pdata[i]);
  return operands;
}

static gboolean
is_complete (const OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] == NULL)
      return FALSE;
  return ortrain_node_output (node, 0) != NULL;
}

gboolean
ortrain_upgrade_many_operands (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (node->inputs->len <= MOST_OPERANDS || !is_complete (node))
    return TRUE;
  g_autoptr (GPtrArray) operands = get_operands (node);
  combine (graph, node, node->op_type, node->attributes, operands);
  for (guint i = 0; i < node->inputs->len; i++)
    ortrain_node_set_input (node, i, i < operands->len ? operands->pdata[i] : NULL);
  g_ptr_array_set_size (node->inputs, (gint) operands->len);
  return TRUE;
}

/* The sum of the means of the parts, each times its share: no sum is larger than the operands are. */
gboolean
ortrain_upgrade_many_means (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (node->inputs->len <= MOST_OPERANDS || !is_complete (node))
    return TRUE;
  g_autoptr (GPtrArray) operands = get_operands (node);
  const guint n = operands->len;
  guint n_parts = 0;
  for (guint i = 0; i < n; i += MOST_OPERANDS)
    {
      const guint part = MIN (MOST_OPERANDS, n - i);
      OrtrainValue *mean = ortrain_upgrade_insert (graph, node, node->op_type, (OrtrainValue **) operands->pdata + i,
                                                   part, ortrain_attributes_copy (node->attributes));
      OrtrainValue *factors[] = { mean, ortrain_upgrade_const_like (graph, node, (double) part / n, mean) };
      operands->pdata[n_parts++] = ortrain_upgrade_insert (graph, node, "Mul", factors, 2, NULL);
    }
  g_ptr_array_set_size (operands, (gint) n_parts);
  combine (graph, node, "Sum", NULL, operands);
  OrtrainValue *sum =
      ortrain_upgrade_insert (graph, node, "Sum", (OrtrainValue *const *) operands->pdata, operands->len, NULL);
  ortrain_value_replace_uses (ortrain_node_output (node, 0), sum);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}
