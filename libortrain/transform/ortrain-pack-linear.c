/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-pack-linear-private.h"

#include "ops/ortrain-op-private.h"
#include "transform/ortrain-fuse-attention-private.h"
#include "transform/ortrain-pack-attention-private.h"

/* Queries, keys and values as exporters write them for BERT and ViT: three products with the same input, each with its
 * own weight and an optional bias, followed by a Reshape into heads. */

#define N_PARTS 3

/* One of the three products. */
typedef struct
{
  const OrtrainOpDef *op;     /* operator of the product */
  OrtrainValue *x, *w, *bias; /* bias: or NULL */
  OrtrainValue *y;            /* result, including the bias */
  gboolean transposed;        /* w is [n, k] */
  gint64 heads, width;
} Layer;

/* Follows Reshapes backward from `value`; NULL if an intermediate value has another reader. */
static OrtrainValue *
skip_reshapes (OrtrainValue *value, const OrtrainNode *reader)
{
  for (;;)
    {
      if (ortrain_pattern_only_use (value) != reader)
        return NULL;
      OrtrainNode *reshape = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_RESHAPE);
      if (reshape == NULL)
        return value;
      reader = reshape;
      value = ortrain_node_input (reshape, 0);
    }
}

static gboolean
is_matrix (const OrtrainValue *w)
{
  return w != NULL && w->rank == 2 && ortrain_dim_is_int (w->dims[0]) && ortrain_dim_is_int (w->dims[1]) &&
         w->dims[0].value > 0 && w->dims[1].value > 0;
}

static gboolean
match_product (OrtrainValue *y, Layer *layer)
{
  static const gint64 swapped[] = { 1, 0 };
  OrtrainNode *node = y->producer;
  const gboolean has_row =
      node != NULL && node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_THREE_PRODUCTS] != NULL;
  if (!has_row || ortrain_attributes_get_int (node->attributes, "transA", 0) ||
      ortrain_attributes_get_float (node->attributes, "alpha", 1) != 1 ||
      ortrain_attributes_get_float (node->attributes, "beta", 1) != 1)
    return FALSE;
  layer->op = node->op;
  layer->x = ortrain_node_input (node, 0);
  layer->w = ortrain_node_input (node, 1);
  layer->transposed = ortrain_attributes_get_int (node->attributes, "transB", 0) != 0;
  OrtrainValue *bias = node->inputs->len > 2 ? ortrain_node_input (node, 2) : NULL;
  if (bias != NULL && layer->bias != NULL)
    return FALSE;
  if (bias != NULL)
    layer->bias = bias;
  OrtrainNode *transpose = ortrain_value_get_producer_of_kind (layer->w, ORTRAIN_OP_KIND_TRANSPOSE);
  if (transpose != NULL && is_matrix (layer->w) &&
      (!ortrain_attributes_has (transpose->attributes, "perm") || ortrain_pattern_has_perm (transpose, swapped, 2)))
    {
      layer->w = ortrain_node_input (transpose, 0);
      layer->transposed = !layer->transposed;
    }
  return layer->x != NULL && layer->x->rank >= 2 && is_matrix (layer->w);
}

static gboolean
match_layer (OrtrainNode *attention, guint i, Layer *layer)
{
  const OrtrainValue *part = ortrain_node_input (attention, i);
  layer->y = skip_reshapes (ortrain_node_input (attention, i), attention);
  if (layer->y == NULL || layer->y == part || part->rank != 4 || !ortrain_dim_is_int (part->dims[2]) ||
      !ortrain_dim_is_int (part->dims[3]))
    return FALSE;
  layer->heads = part->dims[2].value;
  layer->width = part->dims[3].value;
  OrtrainValue *product = layer->y;
  OrtrainNode *add = ortrain_value_get_producer_of_kind (product, ORTRAIN_OP_KIND_ADD);
  for (guint k = 0; add != NULL && k < 2; k++)
    {
      OrtrainValue *bias = ortrain_node_input (add, k), *other = ortrain_node_input (add, 1 - k);
      if (bias == NULL || bias->rank != 1 || ortrain_pattern_only_use (other) != add ||
          !ortrain_value_same_shape (other, layer->y))
        continue;
      layer->bias = bias;
      product = other;
      break;
    }
  if (!match_product (product, layer))
    return FALSE;
  const gint64 n = layer->w->dims[layer->transposed ? 0 : 1].value;
  return n == layer->heads * layer->width &&
         (layer->bias == NULL ||
          (layer->bias->rank == 1 && ortrain_dim_equal (layer->bias->dims[0], ortrain_dim_int (n))));
}

/* Whether both exist, and are both trained or both not. */
static gboolean
same_role (const OrtrainValue *a, const OrtrainValue *b)
{
  return (a == NULL) == (b == NULL) && (a == NULL || (a->dtype == b->dtype && (a->role == ORTRAIN_ROLE_PARAMETER) ==
                                                                                  (b->role == ORTRAIN_ROLE_PARAMETER)));
}

static gboolean
fit (const Layer *layers)
{
  const Layer *first = &layers[0];
  for (guint i = 1; i < N_PARTS; i++)
    {
      const Layer *layer = &layers[i];
      if (layer->x != first->x || layer->transposed != first->transposed || layer->heads != first->heads ||
          layer->width != first->width || !ortrain_value_same_shape (layer->w, first->w) ||
          !same_role (layer->w, first->w) || !same_role (layer->bias, first->bias))
        return FALSE;
      for (guint k = 0; k < i; k++)
        if (layers[k].w == layer->w)
          return FALSE;
    }
  /* trained biases with frozen weights stay as they are: there is no product to share */
  return first->bias == NULL || first->bias->role != ORTRAIN_ROLE_PARAMETER || first->w->role == ORTRAIN_ROLE_PARAMETER;
}

static gboolean
has_kernels (const OrtrainProvider *provider, const OrtrainNode *attention, const Layer *layers)
{
  const OrtrainDType dtype = layers[0].x->dtype;
  OrtrainOperand operands[1 + 2 * N_PARTS] = { 0 };
  for (guint i = 0; i < G_N_ELEMENTS (operands); i++)
    operands[i].dtype = dtype;
  const guint n = layers[0].bias != NULL ? 1 + 2 * N_PARTS : 1 + N_PARTS;
  return provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, layers[0].op->fused_as[ORTRAIN_FUSION_THREE_PRODUCTS],
                                       operands, n, operands, 1) != NULL &&
         provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, attention->op->fused_as[ORTRAIN_FUSION_PACKED],
                                       operands, 1, operands, 1) != NULL;
}

/* Fills the shape [batch, length, 3, heads, width], for y of [batch, length, …] or [batch · length, …]. In the second
 * case at most one of batch and length may be unknown. */
static gboolean
find_shape (const OrtrainNode *attention, const Layer *layer, gint64 *shape)
{
  const OrtrainValue *part = ortrain_node_input ((OrtrainNode *) attention, 0), *y = layer->y;
  shape[2] = N_PARTS;
  shape[3] = layer->heads;
  shape[4] = layer->width;
  if (y->rank == 3 && ortrain_pattern_same_dims (y, 0, part, 0, 2))
    {
      shape[0] = shape[1] = 0;
      return TRUE;
    }
  guint n_unknown = 0;
  for (guint d = 0; d < 2; d++)
    {
      const gboolean known = ortrain_dim_is_int (part->dims[d]);
      shape[d] = known ? part->dims[d].value : -1;
      n_unknown += known ? 0 : 1;
      if (known && part->dims[d].value < 1)
        return FALSE;
    }
  return n_unknown < 2;
}

static gboolean
pack (OrtrainNode *attention, const OrtrainProvider *provider, GError **error)
{
  Layer layers[N_PARTS] = { { NULL } };
  gint64 shape[5];
  OrtrainGraph *graph = attention->graph;
  if ((ortrain_attributes_get_int (attention->attributes, "packed", 0) & 7) != 7 ||
      !ortrain_attention_may_be_packed (attention))
    return TRUE;
  for (guint i = 0; i < N_PARTS; i++)
    if (!match_layer (attention, i, &layers[i]) ||
        !ortrain_pattern_same_dims (ortrain_node_input (attention, i), 0, ortrain_node_input (attention, 0), 0, 2))
      return TRUE;
  if (!fit (layers) || !has_kernels (provider, attention, layers) || !find_shape (attention, &layers[0], shape))
    return TRUE;
  OrtrainValue *operands[1 + 2 * N_PARTS] = { layers[0].x };
  for (guint i = 0; i < N_PARTS; i++)
    {
      operands[1 + i] = layers[i].w;
      operands[1 + N_PARTS + i] = layers[i].bias;
    }
  OrtrainNode *node = ortrain_graph_insert_node (
      graph, attention, ORTRAIN_DOMAIN, layers[0].op->fused_as[ORTRAIN_FUSION_THREE_PRODUCTS],
      layers[0].y->producer->name, operands, layers[0].bias != NULL ? 1 + 2 * N_PARTS : 1 + N_PARTS, 1);
  if (layers[0].transposed)
    ortrain_attributes_set_int (node->attributes, "transB", 1);
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  OrtrainValue *reshaped[] = { ortrain_node_output (node, 0),
                               ortrain_graph_const_ints (graph, shape, G_N_ELEMENTS (shape)) };
  OrtrainValue *packed = ortrain_upgrade_insert (graph, attention, "Reshape", reshaped, 2, NULL);
  return ortrain_ops_infer_node (packed->producer, error) && ortrain_attention_read_packed (attention, packed, error);
}

gboolean
ortrain_pack_linear (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  if (provider == NULL)
    return TRUE;
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_PACKED] != NULL && !pack (node, provider, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
