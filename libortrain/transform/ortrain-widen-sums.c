/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

/* Models that are written in 16 bits: a sum of squares of thousands of elements, or its factor, may be beyond the range
 * of float16 although its root is not. Reductions compute in float32 inside. Here their results stay float32 as far as
 * the readers are element-wise nodes whose other inputs are constants or other such results, and so does the result of
 * an element-wise node that only a reduction reads. ONNX Runtime computes all of float16 so on the CPU. Where they meet
 * other data, the result has 16 bits again. */

typedef struct
{
  OrtrainGraph *graph;
  GHashTable *wide; /* value of 16 bits → the same in float32 */
} Widening;

static gboolean
is_half (const OrtrainValue *value)
{
  return value != NULL && ortrain_dtype_is_half (value->dtype);
}

static gboolean
is_reduction (const OrtrainNode *node)
{
  return node->op != NULL && node->op->channels == ORTRAIN_CHANNELS_REDUCED && node->outputs->len == 1 &&
         !ortrain_node_has_flag (node, ORTRAIN_OP_NO_GRADIENT) && is_half (ortrain_node_input (node, 0)) &&
         is_half (ortrain_node_output (node, 0));
}

static gboolean
is_conversion (const OrtrainNode *node)
{
  return ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST ||
         ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST_LIKE;
}

static gboolean
is_element_wise (const OrtrainNode *node)
{
  return node != NULL && ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE) && node->outputs->len == 1 &&
         !is_conversion (node) && is_half (ortrain_node_output (node, 0));
}

static OrtrainValue *
cast (OrtrainGraph *graph, OrtrainNode *before, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "to", dtype);
  OrtrainValue *result = ortrain_upgrade_insert (graph, before, "Cast", &value, 1, attributes);
  return ortrain_ops_infer_node (result->producer, error) ? result : NULL;
}

static OrtrainValue *
widen (Widening *self, OrtrainNode *before, OrtrainValue *value, GError **error)
{
  if (!is_half (value))
    return value;
  OrtrainValue *wide = g_hash_table_lookup (self->wide, value);
  return wide != NULL ? wide : cast (self->graph, before, value, ORTRAIN_DTYPE_FLOAT32, error);
}

/* The node on the same operands in float32. first: input 0, if it is there already. NULL with an error. */
static OrtrainValue *
compute_wide (Widening *self, OrtrainNode *before, OrtrainNode *node, OrtrainValue *first, GError **error)
{
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, node->inputs->len + 1);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *input = ortrain_node_input (node, i);
      inputs[i] = i == 0 && first != NULL ? first : input;
      if (inputs[i] != NULL && (inputs[i] = widen (self, before, inputs[i], error)) == NULL)
        return NULL;
    }
  OrtrainNode *wide = ortrain_graph_insert_node (self->graph, before, node->domain, node->op_type, node->name, inputs,
                                                 node->inputs->len, 1);
  ortrain_attributes_assign (wide->attributes, node->attributes);
  wide->scope = node->scope;
  return ortrain_ops_infer_node (wide, error) ? ortrain_node_output (wide, 0) : NULL;
}

/* The output of the node becomes that value, rounded; readers that compute in float32 find it. */
static gboolean
put_in_place (Widening *self, OrtrainNode *node, OrtrainValue *wide, gboolean goes_on, GError **error)
{
  OrtrainValue *output = ortrain_node_output (node, 0);
  OrtrainNode *rounded = ortrain_graph_insert_node (self->graph, node, "", "Cast", node->name, &wide, 1, 0);
  ortrain_attributes_set_int (rounded->attributes, "to", output->dtype);
  rounded->scope = node->scope;
  node->outputs->pdata[0] = NULL;
  output->producer = NULL;
  ortrain_node_set_output (rounded, 0, output);
  if (!ortrain_ops_infer_node (rounded, error))
    return FALSE;
  if (goes_on)
    g_hash_table_insert (self->wide, output, wide);
  ortrain_graph_delete_node (self->graph, node);
  return TRUE;
}

static gboolean
widen_reduction (Widening *self, OrtrainNode *node, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *first = NULL;
  if (is_element_wise (x->producer) && x->uses.n == 1 && !x->is_output)
    {
      first = compute_wide (self, node, x->producer, NULL, error);
      if (first == NULL)
        return FALSE;
    }
  OrtrainValue *wide = compute_wide (self, node, node, first, error);
  return wide != NULL && put_in_place (self, node, wide, TRUE, error);
}

static gboolean
widen_element_wise (Widening *self, OrtrainNode *node, GError **error)
{
  gboolean reads_wide = FALSE, all_wide = TRUE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = ortrain_node_input (node, i);
      if (!is_half (input))
        continue;
      const gboolean is_wide = g_hash_table_contains (self->wide, input);
      reads_wide |= is_wide;
      all_wide &= is_wide || (input->tensor != NULL && ortrain_tensor_get_n_elements (input->tensor) == 1);
    }
  if (!reads_wide)
    return TRUE;
  OrtrainValue *wide = compute_wide (self, node, node, NULL, error);
  return wide != NULL && put_in_place (self, node, wide, all_wide, error);
}

gboolean
ortrain_widen_sums (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GHashTable) values = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  Widening self = { graph, values };
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint n = 0; n < nodes->len; n++)
    {
      OrtrainNode *node = nodes->pdata[n];
      OrtrainValue *output = ortrain_node_output (node, 0), *input = ortrain_node_input (node, 0);
      if (is_reduction (node) && !widen_reduction (&self, node, error))
        return FALSE;
      else if (is_element_wise (node) && !widen_element_wise (&self, node, error))
        return FALSE;
      else if (is_conversion (node) && output->dtype == ORTRAIN_DTYPE_FLOAT32 && !output->is_output &&
               g_hash_table_contains (self.wide, input))
        ortrain_value_replace_uses (output, g_hash_table_lookup (self.wide, input));
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
