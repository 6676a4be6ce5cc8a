/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "transform/ortrain-passes-private.h"

/* Operands that became known when shapes became numbers get smaller: a matrix of indices in which only the difference
 * of row and column counts becomes a vector, and a mask that lets everything through goes away. Runs on the static
 * graph. */

static gboolean
is_constant (const OrtrainValue *value)
{
  return value != NULL && value->tensor != NULL && value->role != ORTRAIN_ROLE_PARAMETER && !value->is_output;
}

/* [rows + columns - 1], or NULL. */
static OrtrainTensor *
find_differences (const OrtrainValue *value)
{
  const gint64 *dims = ortrain_tensor_peek_dims (value->tensor);
  const gint rank = value->rank;
  if (rank < 2 || value->dtype != ORTRAIN_DTYPE_INT64)
    return NULL;
  const gint64 rows = dims[rank - 2], columns = dims[rank - 1], n = rows + columns - 1;
  if (rows < 1 || columns < 1 || rows * columns != ortrain_tensor_get_n_elements (value->tensor))
    return NULL;
  const gint64 *from = ortrain_tensor_peek (value->tensor);
  for (gint64 i = 1; i < rows; i++)
    for (gint64 j = 1; j < columns; j++)
      if (from[i * columns + j] != from[(i - 1) * columns + j - 1])
        return NULL;
  OrtrainTensor *differences = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, NULL);
  gint64 *to = differences != NULL ? ortrain_tensor_peek_writable (differences) : NULL;
  for (gint64 d = 0; d < n && to != NULL; d++)
    to[d] = d < rows ? from[(rows - 1 - d) * columns] : from[d - rows + 1];
  return differences;
}

static gboolean
is_open (const OrtrainValue *value)
{
  const gint64 n = ortrain_tensor_get_n_elements (value->tensor);
  const guint8 *bytes = ortrain_tensor_peek (value->tensor);
  const gboolean is_bool = value->dtype == ORTRAIN_DTYPE_BOOL;
  if (!is_bool && !ortrain_dtype_is_floating (value->dtype))
    return FALSE;
  for (gint64 i = 0; i < n; i++)
    if (is_bool ? !bytes[i] : ortrain_tensor_peek_scalar (value->tensor, i) != 0)
      return FALSE;
  return TRUE;
}

gboolean
ortrain_compact_constants (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GHashTable) compact = g_hash_table_new (NULL, NULL); /* value → the same as a vector, or NULL */
  g_autoptr (GHashTable) open = g_hash_table_new (NULL, NULL);    /* value → whether it lets everything through */
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      for (guint k = 0; node->op != NULL && k < MIN (node->inputs->len, 32); k++)
        {
          OrtrainValue *value = ortrain_node_input (node, k);
          if (!((node->op->difference_inputs | node->op->open_inputs) >> k & 1) || !is_constant (value))
            continue;
          gpointer known;
          if (node->op->difference_inputs >> k & 1)
            {
              if (!g_hash_table_lookup_extended (compact, value, NULL, &known))
                {
                  g_autoptr (OrtrainTensor) differences = find_differences (value);
                  known =
                      differences != NULL ? ortrain_graph_new_initializer (graph, "differences", differences) : NULL;
                  g_hash_table_insert (compact, value, known);
                }
              if (known != NULL)
                ortrain_node_set_input (node, k, known);
              continue;
            }
          if (!g_hash_table_lookup_extended (open, value, NULL, &known))
            {
              known = GINT_TO_POINTER (is_open (value));
              g_hash_table_insert (open, value, known);
            }
          if (known != NULL)
            ortrain_node_set_input (node, k, NULL);
        }
    }
  return TRUE;
}
