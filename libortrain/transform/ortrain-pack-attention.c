/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "transform/ortrain-fuse-attention-private.h"
#include "transform/ortrain-pack-attention-private.h"
#include "transform/ortrain-passes-private.h"

#include <string.h>

/* Attention whose queries, keys and values are parts of one value reads that value, and its gradient is one value too:
 * what cuts it, and joins the gradients of the parts, goes away. Runs before the gradient is built. Two forms are
 * known: Split of [batch, length, 3 · heads · width] and a Reshape of each part, and indices 0 to 2 of a transposed
 * [batch, length, 3, heads, width]. */

/* The value that the operator reads; new nodes go in front of `node`. NULL: not of this form. */
static OrtrainValue *
match_split (OrtrainNode *node)
{
  OrtrainNode *split = NULL;
  OrtrainValue *part = NULL;
  for (guint i = 0; i < 3; i++)
    {
      part = ortrain_node_input (node, i);
      OrtrainNode *reshape = ortrain_value_get_producer_of_kind (part, ORTRAIN_OP_KIND_RESHAPE);
      if (reshape == NULL || part->uses.n != 1 || part->is_output)
        return NULL;
      OrtrainValue *cut = ortrain_node_input (reshape, 0);
      OrtrainNode *producer = ortrain_value_get_producer_of_kind (cut, ORTRAIN_OP_KIND_SPLIT);
      if (producer == NULL || (split != NULL && producer != split) || cut->output_index != i || cut->uses.n != 1 ||
          cut->is_output || cut->rank != 3 || part->rank != 4 || !ortrain_dim_is_int (cut->dims[2]) ||
          !ortrain_dim_is_int (part->dims[3]) || !ortrain_dim_equal (cut->dims[0], part->dims[0]) ||
          !ortrain_dim_equal (cut->dims[1], part->dims[1]))
        return NULL;
      split = producer;
    }
  OrtrainValue *whole = ortrain_node_input (split, 0);
  const gint64 axis = ortrain_attributes_get_int (split->attributes, "axis", 0);
  const gint64 width = part->dims[3].value, all = ortrain_node_output (split, 0)->dims[2].value;
  if (split->outputs->len != 3 || whole->rank != 3 || (axis != 2 && axis != -1) || width < 1 || all % width != 0)
    return NULL;
  for (guint i = 0; i < 3; i++)
    if (ortrain_node_output (split, i)->dims[2].value != all ||
        !ortrain_dim_equal (ortrain_node_input (node, i)->dims[3], part->dims[3]))
      return NULL;
  const gint64 shape[] = { 0, 0, 3, all / width, width };
  OrtrainValue *operands[] = { whole, ortrain_graph_const_ints (node->graph, shape, G_N_ELEMENTS (shape)) };
  OrtrainValue *packed = ortrain_upgrade_insert (node->graph, node, "Reshape", operands, 2, NULL);
  return ortrain_ops_infer_node (packed->producer, NULL) ? packed : NULL;
}

/* Index i along the axis that `transpose` has brought to the front. */
static gboolean
is_index (OrtrainNode *lookup, gint64 i)
{
  const OrtrainValue *index = lookup != NULL ? ortrain_node_input (lookup, 1) : NULL;
  return index != NULL && index->tensor != NULL && index->rank == 0 &&
         ortrain_attributes_get_int (lookup->attributes, "axis", 0) == 0 &&
         ortrain_tensor_peek_int (index->tensor, 0) == i;
}

static OrtrainValue *
match_lookups (OrtrainNode *node)
{
  static const gint64 perm[] = { 2, 0, 3, 1, 4 };
  OrtrainNode *transpose = NULL;
  for (guint i = 0; i < 3; i++)
    {
      OrtrainValue *part = ortrain_node_input (node, i);
      OrtrainNode *lookup = ortrain_value_get_producer_of_kind (part, ORTRAIN_OP_KIND_LOOKUP);
      if (!is_index (lookup, i) || part->uses.n != 1 || part->is_output)
        return NULL;
      OrtrainNode *producer =
          ortrain_value_get_producer_of_kind (ortrain_node_input (lookup, 0), ORTRAIN_OP_KIND_TRANSPOSE);
      if (producer == NULL || (transpose != NULL && producer != transpose))
        return NULL;
      transpose = producer;
    }
  gsize n = 0;
  const gint64 *found = ortrain_attributes_get_ints (transpose->attributes, "perm", &n);
  OrtrainValue *packed = ortrain_node_input (transpose, 0);
  const gboolean fits = found != NULL && n == G_N_ELEMENTS (perm) && memcmp (found, perm, sizeof perm) == 0 &&
                        packed->rank == 5 && ortrain_dim_is_int (packed->dims[2]) && packed->dims[2].value == 3;
  return fits ? packed : NULL;
}

gboolean
ortrain_attention_may_be_packed (OrtrainNode *node)
{
  return node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_PACKED] != NULL &&
         ortrain_node_output (node, 1) == NULL && ortrain_node_input (node, 4) == NULL &&
         !ortrain_pattern_carries_gradient (ortrain_node_input (node, 3), 0);
}

gboolean
ortrain_attention_read_packed (OrtrainNode *node, OrtrainValue *packed, GError **error)
{
  static const gint64 swap_middle[] = { 0, 2, 1, 3 };
  OrtrainGraph *graph = node->graph;
  const gint64 order = ortrain_attributes_get_int (node->attributes, "packed", 0);
  OrtrainValue *operands[] = { packed, ortrain_node_input (node, 3), NULL, ortrain_node_input (node, 5),
                               ortrain_node_input (node, 6) };
  OrtrainNode *whole =
      ortrain_graph_insert_node (graph, node, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_PACKED], node->name,
                                 operands, operands[4] != NULL ? 5 : (operands[1] != NULL ? 2 : 1), 1);
  ortrain_attributes_assign (whole->attributes, node->attributes);
  ortrain_attributes_remove (whole->attributes, "packed");
  if (!ortrain_ops_infer_node (whole, error))
    return FALSE;
  OrtrainValue *y = ortrain_node_output (whole, 0);
  if (!(order & 8))
    {
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      ortrain_attributes_set_ints (attributes, "perm", swap_middle, G_N_ELEMENTS (swap_middle));
      y = ortrain_upgrade_insert (graph, node, "Transpose", &y, 1, attributes);
      if (!ortrain_ops_infer_node (y->producer, error))
        return FALSE;
    }
  ortrain_value_replace_uses (ortrain_node_output (node, 0), y);
  return TRUE;
}

static gboolean
pack (OrtrainNode *node, GError **error)
{
  const gint64 order = ortrain_attributes_get_int (node->attributes, "packed", 0);
  if ((order & 7) != 7 && (order & 7) != 0)
    return TRUE;
  OrtrainValue *packed = (order & 7) == 7 ? match_split (node) : match_lookups (node);
  return packed == NULL || !ortrain_attention_may_be_packed (node) ||
         ortrain_attention_read_packed (node, packed, error);
}

gboolean
ortrain_pack_attention (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_PACKED] != NULL && !pack (node, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
