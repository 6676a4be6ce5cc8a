/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

/* Common subexpression elimination. Small constants with equal contents are one input to the hash, so that "add 1e-5"
 * is recognised wherever it stands. */

static gboolean
same_value (const OrtrainValue *a, const OrtrainValue *b)
{
  if (a == b)
    return TRUE;
  if (a == NULL || b == NULL || a->tensor == NULL || b->tensor == NULL || a->role != ORTRAIN_ROLE_NONE ||
      b->role != ORTRAIN_ROLE_NONE || a->kind != ORTRAIN_VALUE_INITIALIZER || b->kind != ORTRAIN_VALUE_INITIALIZER ||
      a->dtype == ORTRAIN_DTYPE_STRING)
    return FALSE;
  return ortrain_tensor_get_n_elements (a->tensor) <= 16 && ortrain_tensor_equal (a->tensor, b->tensor);
}

/* Equal constants must hash alike: by type only. */
static guint
value_hash (const OrtrainValue *value)
{
  if (value == NULL)
    return 1;
  return value->tensor != NULL && value->role == ORTRAIN_ROLE_NONE ? 7u + (guint) value->dtype : g_direct_hash (value);
}

/* Whether inputs 0 and 1 may be exchanged. */
static gboolean
is_commutative (const OrtrainNode *node)
{
  return ortrain_node_has_flag (node, ORTRAIN_OP_COMMUTATIVE) && node->inputs->len == 2;
}

static guint
node_hash (gconstpointer key)
{
  const OrtrainNode *node = key;
  guint h = g_str_hash (node->op_type) * 31 + node->inputs->len;
  if (is_commutative (node))
    {
      const guint first = value_hash (node->inputs->pdata[0]), second = value_hash (node->inputs->pdata[1]);
      return (h * 33 + MIN (first, second)) * 33 + MAX (first, second);
    }
  for (guint i = 0; i < node->inputs->len; i++)
    h = h * 33 + value_hash (node->inputs->pdata[i]);
  return h;
}

static gboolean
same_inputs (const OrtrainNode *a, const OrtrainNode *b)
{
  for (guint i = 0; i < a->inputs->len; i++)
    if (!same_value (a->inputs->pdata[i], b->inputs->pdata[i]))
      return FALSE;
  return TRUE;
}

static gboolean
swapped_inputs (const OrtrainNode *a, const OrtrainNode *b)
{
  return same_value (a->inputs->pdata[0], b->inputs->pdata[1]) && same_value (a->inputs->pdata[1], b->inputs->pdata[0]);
}

static gboolean
node_equal (gconstpointer pa, gconstpointer pb)
{
  const OrtrainNode *a = pa, *b = pb;
  if (a->op != b->op || a->phase != b->phase || a->body != b->body || a->inputs->len != b->inputs->len ||
      a->outputs->len != b->outputs->len || !g_str_equal (a->op_type, b->op_type))
    return FALSE;
  if (!same_inputs (a, b) && !(is_commutative (a) && swapped_inputs (a, b)))
    return FALSE;
  return ortrain_attributes_equal (a->attributes, b->attributes);
}

static gboolean
may_merge (const OrtrainNode *node)
{
  if (node->op == NULL || (node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL)) || node->body != NULL)
    return FALSE;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && (output->role != ORTRAIN_ROLE_NONE || output->is_output))
        return FALSE;
    }
  return node->outputs->len > 0;
}

gboolean
ortrain_merge_equal_nodes (OrtrainGraph *graph, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autoptr (GHashTable) seen = g_hash_table_new (node_hash, node_equal);
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (!may_merge (node))
        continue;
      OrtrainNode *first = g_hash_table_lookup (seen, node);
      if (first == NULL)
        {
          g_hash_table_add (seen, node);
          continue;
        }
      gboolean fits = TRUE;
      for (guint k = 0; k < node->outputs->len && fits; k++)
        fits = node->outputs->pdata[k] == NULL || first->outputs->pdata[k] != NULL;
      if (!fits)
        continue;
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          ortrain_value_replace_uses (node->outputs->pdata[k], first->outputs->pdata[k]);
      ortrain_graph_delete_node (graph, node);
    }
  return TRUE;
}
