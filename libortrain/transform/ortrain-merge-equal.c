/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-optimizer-private.h"

/* Small constants with equal contents are one input to the hash, so that "add 1e-5" is recognised wherever it stands.
 */
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

static guint
node_hash (gconstpointer key)
{
  const OrtrainNode *node = key;
  guint h = g_str_hash (node->op_type) * 31 + node->inputs->len;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      /* equal constants must hash alike: by type and rank only */
      guint part = input == NULL                                               ? 1u
                   : input->tensor != NULL && input->role == ORTRAIN_ROLE_NONE ? 7u + (guint) input->dtype
                                                                               : g_direct_hash (input);
      h = h * 33 + part;
    }
  return h;
}

static gboolean
node_equal (gconstpointer pa, gconstpointer pb)
{
  const OrtrainNode *a = pa, *b = pb;
  if (a->op != b->op || a->phase != b->phase || a->body != b->body || a->inputs->len != b->inputs->len ||
      a->outputs->len != b->outputs->len || !g_str_equal (a->op_type, b->op_type))
    return FALSE;
  for (guint i = 0; i < a->inputs->len; i++)
    if (!same_value (a->inputs->pdata[i], b->inputs->pdata[i]))
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
