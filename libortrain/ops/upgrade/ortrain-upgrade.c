/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

/* Functions with which the upgrades of rows create nodes. */

OrtrainValue *
ortrain_upgrade_const_like (OrtrainGraph *graph, OrtrainNode *before, double number, OrtrainValue *like)
{
  if (like->dtype != ORTRAIN_DTYPE_UNDEFINED)
    return ortrain_graph_const_scalar (
        graph, ORTRAIN_DTYPES_NUMERIC & ORTRAIN_DTYPE_BIT (like->dtype) ? like->dtype : ORTRAIN_DTYPE_FLOAT32, number);
  OrtrainValue *operands[] = { ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, number), like };
  return ortrain_upgrade_insert (graph, before, "CastLike", operands, 2, NULL);
}

void
ortrain_upgrade_attribute_to_input (OrtrainGraph *graph, OrtrainNode *node, const char *name, guint index)
{
  const OrtrainAttribute *a = ortrain_attributes_lookup (node->attributes, name);
  if (a == NULL)
    return;
  OrtrainValue *value = NULL, *like = ortrain_node_input (node, 0);
  switch (a->kind)
    {
    case ORTRAIN_ATTRIBUTE_INTS:
      value = ortrain_graph_const_ints (graph, a->v.ints, a->n);
      break;
    case ORTRAIN_ATTRIBUTE_INT:
      value = ortrain_graph_const_int (graph, a->v.i);
      break;
    case ORTRAIN_ATTRIBUTE_FLOAT:
      if (like != NULL)
        value = ortrain_upgrade_const_like (graph, node, a->v.f, like);
      else
        value = ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT32, a->v.f);
      break;
    case ORTRAIN_ATTRIBUTE_STRING:
    case ORTRAIN_ATTRIBUTE_TENSOR:
    case ORTRAIN_ATTRIBUTE_GRAPH:
    case ORTRAIN_ATTRIBUTE_FLOATS:
    case ORTRAIN_ATTRIBUTE_STRINGS:
    case ORTRAIN_ATTRIBUTE_TENSORS:
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      return;
    }
  ortrain_node_set_input (node, index, value);
  ortrain_attributes_remove (node->attributes, name);
}

OrtrainValue *
ortrain_upgrade_insert (OrtrainGraph *graph, OrtrainNode *before, const char *op_type, OrtrainValue *const *inputs,
                        guint n_inputs, OrtrainAttributes *attributes)
{
  OrtrainNode *node = ortrain_graph_insert_node (graph, before, "", op_type, NULL, inputs, n_inputs, 1);
  if (attributes != NULL)
    {
      ortrain_attributes_free (node->attributes);
      node->attributes = attributes;
    }
  node->op = ortrain_ops_lookup ("", op_type);
  return ortrain_node_output (node, 0);
}
