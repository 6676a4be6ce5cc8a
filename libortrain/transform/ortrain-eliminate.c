/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-specialize-private.h"

/* Whether output 0 is input 0, element by element and in the same shape. */
static gboolean
changes_nothing (const OrtrainNode *node)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (x == NULL || y == NULL || x->dtype != y->dtype || x->layout != y->layout || !ortrain_value_same_shape (x, y))
    return FALSE;
  for (guint k = 1; k < node->outputs->len; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && (output->uses.n > 0 || output->is_output))
        return FALSE;
    }
  if (node->op != NULL && (node->op->flags & ORTRAIN_OP_VIEW))
    return TRUE;
  if (ortrain_node_is (node, ORTRAIN_DOMAIN, "SumTo"))
    return TRUE;
  if (node->domain[0] != '\0')
    return FALSE;
  static const char *const by_shape[] = { "Expand", "Cast", "CastLike", "Tile", NULL };
  if (g_strv_contains (by_shape, node->op_type))
    return TRUE;
  static const char *const single[] = { "Concat", "Sum", "Mean", "Max", "Min", "Split", NULL };
  if (g_strv_contains (single, node->op_type))
    return node->inputs->len == 1 || (g_str_equal (node->op_type, "Split") && node->outputs->len == 1);
  if (g_str_equal (node->op_type, "Dropout"))
    {
      OrtrainValue *training = ortrain_node_input (node, 2);
      if (training == NULL)
        return TRUE;
      return training->tensor != NULL && ortrain_tensor_get_scalar (training->tensor, 0) == 0.0;
    }
  if (g_str_equal (node->op_type, "Transpose"))
    {
      gsize n;
      const gint64 *perm = ortrain_attributes_get_ints (node->attributes, "perm", &n);
      if (perm == NULL)
        return x->rank <= 1;
      for (gsize i = 0; i < n; i++)
        if (perm[i] != (gint64) i)
          return FALSE;
      return TRUE;
    }
  return FALSE;
}

/* Where the condition is known and the same everywhere, such as a guard against rows that no mask has: the side that is
 * taken, if it has the whole shape; or NULL. */
static OrtrainValue *
side_that_is_taken (const OrtrainNode *node)
{
  if (!ortrain_node_is (node, "", "Where"))
    return NULL;
  OrtrainValue *condition = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (condition == NULL || condition->tensor == NULL || condition->dtype != ORTRAIN_DTYPE_BOOL || y == NULL)
    return NULL;
  const guint8 *elements = ortrain_tensor_peek (condition->tensor);
  const gint64 n = ortrain_tensor_get_n_elements (condition->tensor);
  for (gint64 i = 1; i < n; i++)
    if (!elements[i] != !elements[0])
      return NULL;
  OrtrainValue *side = n > 0 ? ortrain_node_input (node, elements[0] ? 1 : 2) : NULL;
  return side != NULL && side->dtype == y->dtype && side->layout == y->layout && ortrain_value_same_shape (side, y)
             ? side
             : NULL;
}

gboolean
ortrain_eliminate_node (OrtrainGraph *graph, OrtrainNode *node)
{
  OrtrainValue *y = ortrain_node_output (node, 0);
  OrtrainValue *x = changes_nothing (node) ? ortrain_node_input (node, 0) : side_that_is_taken (node);
  if (x == NULL)
    return FALSE;
  /* An output of the graph that would become an input, a weight, or a second name of another output needs its node. A
   * gradient must not be taken from a node of the forward pass either. */
  if (y->is_output && (x->is_output || x->kind != ORTRAIN_VALUE_COMPUTED || x->role != ORTRAIN_ROLE_NONE ||
                       (x->producer != NULL && x->producer->phase != node->phase)))
    return FALSE;
  ortrain_value_replace_uses (y, x);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

guint
ortrain_eliminate_identities (OrtrainGraph *graph)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  guint n = 0;
  for (guint i = 0; i < nodes->len; i++)
    n += ortrain_eliminate_node (graph, nodes->pdata[i]) ? 1 : 0;
  return n;
}
