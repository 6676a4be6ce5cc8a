/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-linear-gradients-private.h"

#include "ops/ortrain-op-private.h"

/* The node that sums all rows of `dy`, or of one of those that it is a view of, into a vector as long as they are. */
static OrtrainNode *
find_sum (OrtrainValue *dy, const OrtrainNode *product)
{
  for (OrtrainValue *rows = dy;; rows = ortrain_node_input (rows->producer, 0))
    {
      for (guint u = 0; u < rows->uses.n; u++)
        {
          OrtrainNode *node = rows->uses.items[u].node;
          if (ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_SUM_TO || rows->uses.items[u].index != 0 ||
              node->phase != product->phase || node->recomputes != NULL)
            continue;
          const OrtrainValue *sum = ortrain_node_output (node, 0);
          if (sum->rank == 1 && ortrain_dim_equal (sum->dims[0], dy->dims[1]) && rows->rank >= 2 &&
              ortrain_dim_equal (rows->dims[rows->rank - 1], dy->dims[1]))
            return node;
        }
      if (rows->producer == NULL || !ortrain_node_is_view (rows->producer))
        return NULL;
    }
}

static gboolean
has_kernel (const OrtrainProvider *provider, const char *op_type, const OrtrainValue *x, const OrtrainValue *dy,
            const OrtrainValue *dw, const OrtrainValue *db)
{
  const OrtrainOperand inputs[] = { { .dtype = x->dtype }, { .dtype = dy->dtype } };
  const OrtrainOperand outputs[] = { { .dtype = dw->dtype }, { .dtype = db->dtype } };
  return provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, op_type, inputs, 2, outputs, 2) != NULL;
}

static gboolean
has_attribute (const OrtrainNode *node, const char *name)
{
  return ortrain_attributes_has (node->attributes, name);
}

/* x: [m, k] and dy: [m, n], in one order or the other, transA. */
static void
fuse (OrtrainNode *node, const OrtrainProvider *provider)
{
  OrtrainValue *a = ortrain_node_input (node, 0), *b = ortrain_node_input (node, 1);
  if (!ortrain_attributes_get_int (node->attributes, "transA", 0) ||
      ortrain_attributes_get_int (node->attributes, "transB", 0) || has_attribute (node, "permA") ||
      has_attribute (node, "permB") || has_attribute (node, "permY") || has_attribute (node, "alpha") ||
      node->recomputes != NULL || a->rank != 2 || b->rank != 2)
    return;
  OrtrainNode *sum = find_sum (b, node);
  const gboolean transposed = sum == NULL && (sum = find_sum (a, node)) != NULL;
  if (sum == NULL)
    return;
  OrtrainValue *x = transposed ? b : a, *dy = transposed ? a : b, *db = ortrain_node_output (sum, 0);
  if (!has_kernel (provider, node->op->fused_as[ORTRAIN_FUSION_ROW_SUMS], x, dy, ortrain_node_output (node, 0), db))
    return;
  ortrain_node_set_operator (node, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_ROW_SUMS]);
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
  ortrain_attributes_remove (node->attributes, "transA");
  if (transposed)
    ortrain_attributes_set_int (node->attributes, "transW", 1);
  ortrain_node_set_input (node, 0, x);
  ortrain_node_set_input (node, 1, dy);
  ortrain_node_set_n_outputs (node, 2);
  OrtrainValue *fresh = ortrain_node_output (node, 1);
  sum->outputs->pdata[0] = NULL;
  db->producer = NULL;
  node->outputs->pdata[1] = NULL;
  fresh->producer = NULL;
  ortrain_node_set_output (node, 1, db);
  ortrain_graph_delete_node (node->graph, sum);
  ortrain_graph_delete_value (node->graph, fresh);
}

gboolean
ortrain_fuse_linear_gradients (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (node->graph != NULL && node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_ROW_SUMS] != NULL)
        fuse (node, provider);
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
