/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-linear-private.h"

#include "ops/ortrain-op-private.h"

/* A linear layer as it is found. */
typedef struct
{
  OrtrainNode *product, *add, *gelu; /* add: NULL where the product has the bias itself; gelu: or NULL */
  OrtrainValue *bias, *z;            /* z: with the bias */
} Layer;

static gboolean
is_forward (const OrtrainNode *node)
{
  return node->phase == ORTRAIN_PHASE_FORWARD && node->recomputes == NULL;
}

/* x · w, with w [k, n] or, with transB, [n, k]. */
static gboolean
is_product (OrtrainNode *node)
{
  const OrtrainValue *x = ortrain_node_input (node, 0), *w = ortrain_node_input (node, 1);
  const OrtrainAttributes *attributes = node->attributes;
  return x != NULL && w != NULL && x->rank >= 2 && w->rank == 2 && x->dims[x->rank - 1].value > 0 &&
         !ortrain_attributes_has (attributes, "permA") && !ortrain_attributes_has (attributes, "permB") &&
         !ortrain_attributes_has (attributes, "permY") && !ortrain_attributes_get_int (attributes, "transA", 0) &&
         ortrain_attributes_get_float (attributes, "alpha", 1) == 1 &&
         ortrain_attributes_get_float (attributes, "beta", 1) == 1;
}

/* A vector as long as the rows of `rows`. */
static gboolean
is_bias (const OrtrainValue *bias, const OrtrainValue *rows)
{
  return bias != NULL && bias->rank == 1 && bias->dtype == rows->dtype &&
         ortrain_dim_equal (bias->dims[0], rows->dims[rows->rank - 1]);
}

static OrtrainNode *
find_add (OrtrainValue *product, OrtrainValue **bias)
{
  OrtrainNode *add = product->uses.n == 1 && !product->is_output ? product->uses.items[0].node : NULL;
  if (add == NULL || ortrain_node_get_kind (add) != ORTRAIN_OP_KIND_ADD || !is_forward (add))
    return NULL;
  *bias = ortrain_node_input (add, ortrain_node_input (add, 0) == product ? 1 : 0);
  return is_bias (*bias, product) && ortrain_value_same_shape (ortrain_node_output (add, 0), product) ? add : NULL;
}

/* Gelu of a value, or of a view of it. */
static OrtrainNode *
find_gelu (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      OrtrainNode *node = value->uses.items[u].node;
      if (!is_forward (node) || value->uses.items[u].index != 0)
        continue;
      if (ortrain_node_is_view (node))
        {
          OrtrainNode *found = find_gelu (ortrain_node_output (node, 0));
          if (found != NULL)
            return found;
        }
      else if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_GELU &&
               g_str_equal (ortrain_attributes_get_string (node->attributes, "approximate", "none"), "tanh"))
        return node;
    }
  return NULL;
}

static gboolean
has_kernel (const OrtrainProvider *provider, const Layer *layer, const char *op_type)
{
  const OrtrainOperand inputs[] = { { .dtype = ortrain_node_input (layer->product, 0)->dtype },
                                    { .dtype = ortrain_node_input (layer->product, 1)->dtype },
                                    { .dtype = layer->bias->dtype } };
  const OrtrainOperand outputs[] = { { .dtype = layer->z->dtype }, { .dtype = layer->z->dtype } };
  return provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, op_type, inputs, 3, outputs,
                                       layer->gelu != NULL ? 2 : 1) != NULL;
}

/* Nodes that ran one of the replaced nodes again do not count as copies any more. */
static void
forget_recomputed (OrtrainGraph *graph, GHashTable *replaced)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (node->recomputes != NULL && g_hash_table_contains (replaced, node->recomputes))
        node->recomputes = NULL;
    }
}

/* The value in the shape of `like`; a new view goes in front of `before`. */
static OrtrainValue *
view_as (OrtrainValue *value, const OrtrainValue *like, OrtrainNode *before, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (ortrain_value_same_shape (value, like))
    return value;
  for (gint d = 0; d < like->rank; d++)
    dims[d] = like->dims[d].value;
  OrtrainValue *operands[] = { value, ortrain_graph_const_ints (before->graph, dims, (gsize) like->rank) };
  OrtrainNode *view = ortrain_graph_insert_node (before->graph, before, "", "Reshape", "", operands, 2, 1);
  view->phase = before->phase;
  return ortrain_ops_infer_node (view, error) ? ortrain_node_output (view, 0) : NULL;
}

static gboolean
replace (const Layer *layer, const char *op_type, GHashTable *replaced, GError **error)
{
  OrtrainNode *product = layer->product, *last = layer->add != NULL ? layer->add : product;
  OrtrainGraph *graph = product->graph;
  OrtrainValue *operands[] = { ortrain_node_input (product, 0), ortrain_node_input (product, 1), layer->bias };
  OrtrainNode *node = ortrain_graph_insert_node (graph, last, ORTRAIN_DOMAIN, op_type, product->name, operands, 3,
                                                 layer->gelu != NULL ? 2 : 1);
  node->phase = product->phase;
  if (ortrain_attributes_get_int (product->attributes, "transB", 0))
    ortrain_attributes_set_int (node->attributes, "transB", 1);
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  OrtrainValue *y = ortrain_node_output (node, 0);
  if (layer->gelu == NULL)
    {
      ortrain_value_replace_uses (layer->z, y);
      return TRUE;
    }
  OrtrainValue *activated = ortrain_node_output (layer->gelu, 0);
  y = view_as (y, activated, layer->gelu, error);
  if (y == NULL)
    return FALSE;
  g_hash_table_add (replaced, layer->gelu);
  ortrain_value_replace_uses (layer->z, ortrain_node_output (node, 1));
  ortrain_value_replace_uses (activated, y);
  return TRUE;
}

/* The gradient of Gelu with tanh that is the only reader of a value, or of a view of it. */
static OrtrainNode *
find_gelu_gradient (const OrtrainValue *value)
{
  while (value->uses.n == 1 && !value->is_output && ortrain_node_is_view (value->uses.items[0].node))
    value = ortrain_node_output (value->uses.items[0].node, 0);
  OrtrainNode *node = value->uses.n == 1 && !value->is_output ? value->uses.items[0].node : NULL;
  return node != NULL && ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_GELU_GRADIENT &&
                 value->uses.items[0].index == 0 &&
                 g_str_equal (ortrain_attributes_get_string (node->attributes, "approximate", "none"), "tanh")
             ? node
             : NULL;
}

static gboolean
fuse_gradient (OrtrainNode *node, const OrtrainProvider *provider, GError **error)
{
  const OrtrainAttributes *attributes = node->attributes;
  OrtrainGraph *graph = node->graph;
  if (node->recomputes != NULL || !is_product (node))
    return TRUE;
  OrtrainNode *gradient = find_gelu_gradient (ortrain_node_output (node, 0));
  if (gradient == NULL || gradient->recomputes != NULL || gradient->phase != node->phase)
    return TRUE;
  OrtrainValue *operands[] = { ortrain_node_input (node, 0), ortrain_node_input (node, 1),
                               ortrain_node_input (gradient, 1) };
  OrtrainValue *dz = ortrain_node_output (gradient, 0);
  const OrtrainOperand inputs[] = { { .dtype = operands[0]->dtype },
                                    { .dtype = operands[1]->dtype },
                                    { .dtype = operands[2]->dtype } };
  const OrtrainOperand output = { .dtype = ortrain_node_output (node, 0)->dtype };
  if (operands[2]->dtype != output.dtype || dz->dtype != output.dtype || !ortrain_value_same_shape (operands[2], dz) ||
      provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_GELU_GRADIENT], inputs,
                                    3, &output, 1) == NULL)
    return TRUE;
  OrtrainNode *whole = ortrain_graph_insert_node (
      graph, gradient, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_GELU_GRADIENT], node->name, operands, 3, 1);
  whole->phase = node->phase;
  if (ortrain_attributes_get_int (attributes, "transB", 0))
    ortrain_attributes_set_int (whole->attributes, "transB", 1);
  if (!ortrain_ops_infer_node (whole, error))
    return FALSE;
  OrtrainValue *result = view_as (ortrain_node_output (whole, 0), dz, gradient, error);
  if (result == NULL)
    return FALSE;
  ortrain_value_replace_uses (dz, result);
  return TRUE;
}

static gboolean
fuse (OrtrainNode *node, const OrtrainProvider *provider, GHashTable *replaced, GError **error)
{
  Layer layer = { .product = node, .z = ortrain_node_output (node, 0) };
  if (!is_forward (node) || !is_product (node))
    return TRUE;
  layer.bias = node->inputs->len > 2 ? ortrain_node_input (node, 2) : NULL;
  if (layer.bias == NULL && (layer.add = find_add (layer.z, &layer.bias)) != NULL)
    layer.z = ortrain_node_output (layer.add, 0);
  if (!is_bias (layer.bias, layer.z) || layer.z->is_output)
    return TRUE;
  layer.gelu = node->op->fused_as[ORTRAIN_FUSION_BIAS_AND_GELU] != NULL ? find_gelu (layer.z) : NULL;
  if (layer.gelu != NULL &&
      (ortrain_node_output (layer.gelu, 0)->is_output || ortrain_node_output (layer.gelu, 0)->dtype != layer.z->dtype ||
       !has_kernel (provider, &layer, node->op->fused_as[ORTRAIN_FUSION_BIAS_AND_GELU])))
    layer.gelu = NULL;
  const char *op_type = layer.gelu != NULL  ? node->op->fused_as[ORTRAIN_FUSION_BIAS_AND_GELU]
                        : layer.add != NULL ? node->op->fused_as[ORTRAIN_FUSION_BIAS]
                                            : NULL;
  if (op_type == NULL || !has_kernel (provider, &layer, op_type))
    return TRUE;
  return replace (&layer, op_type, replaced, error);
}

gboolean
ortrain_fuse_linear (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (GHashTable) replaced = g_hash_table_new (NULL, NULL);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (node->graph == NULL || node->op == NULL)
        continue;
      if ((node->op->fused_as[ORTRAIN_FUSION_BIAS] != NULL ||
           node->op->fused_as[ORTRAIN_FUSION_BIAS_AND_GELU] != NULL) &&
          !fuse (node, provider, replaced, error))
        return FALSE;
      if (node->op->fused_as[ORTRAIN_FUSION_GELU_GRADIENT] != NULL && !fuse_gradient (node, provider, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  forget_recomputed (graph, replaced);
  ortrain_graph_remove_dead (graph);
  return ortrain_graph_sort (graph, error);
}
