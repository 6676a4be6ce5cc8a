/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-channels-last-private.h"

#include <string.h>

gboolean
ortrain_value_is_image (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (value == NULL || value->rank != ORTRAIN_IMAGE_RANK || !ortrain_value_get_static_dims (value, dims))
    return FALSE;
  for (guint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    if (dims[d] < 1)
      return FALSE;
  return TRUE;
}

gint64
ortrain_channels_last_move_axis (gint64 axis)
{
  static const gint64 moved[ORTRAIN_IMAGE_RANK] = { 0, 3, 1, 2 };
  return moved[axis < 0 ? axis + ORTRAIN_IMAGE_RANK : axis];
}

void
ortrain_channels_last_set_row (OrtrainNode *node, const char *domain, const char *op_type)
{
  ortrain_node_set_operator (node, domain, op_type);
  node->op = ortrain_ops_lookup (domain, op_type);
}

void
ortrain_channels_last_set_operator (OrtrainNode *node)
{
  ortrain_channels_last_set_row (node, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_CHANNELS_LAST]);
}

void
ortrain_channels_last_set_shape (OrtrainNode *node, guint index, const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  if (ortrain_value_get_static_dims (value, dims))
    ortrain_node_set_input (node, index, ortrain_graph_const_ints (node->graph, dims, (gsize) value->rank));
}

static OrtrainNode *
insert_view (OrtrainNode *node, OrtrainValue *source, const gint64 *dims, guint rank, guint n_outputs)
{
  OrtrainValue *inputs[] = { source, ortrain_graph_const_ints (node->graph, dims, rank) };
  OrtrainNode *view = ortrain_graph_insert_node (node->graph, node, "", "Reshape", "", inputs, 2, n_outputs);
  view->phase = node->phase;
  return view;
}

gboolean
ortrain_channels_last_view_input (OrtrainNode *node, guint index, const gint64 *dims, guint rank, GError **error)
{
  OrtrainValue *input = ortrain_node_input (node, index);
  if (input == NULL)
    return TRUE;
  OrtrainNode *view = insert_view (node, input, dims, rank, 1);
  ortrain_node_set_input (node, index, ortrain_node_output (view, 0));
  return ortrain_ops_infer_node (view, error);
}

gboolean
ortrain_channels_last_view_output (OrtrainNode *node, guint index, const gint64 *dims, guint rank, GError **error)
{
  OrtrainValue *output = ortrain_node_output (node, index);
  gint64 last[ORTRAIN_MAX_RANK];
  OrtrainDim of_source[ORTRAIN_MAX_RANK];
  if (output == NULL || !ortrain_value_get_static_dims (output, last))
    return TRUE;
  for (guint d = 0; d < rank; d++)
    of_source[d] = ortrain_dim_int (dims[d]);
  OrtrainValue *source = ortrain_graph_new_value (node->graph, NULL);
  ortrain_value_set_shape (source, output->dtype, of_source, (gint) rank);
  node->outputs->pdata[index] = NULL;
  output->producer = NULL;
  ortrain_node_set_output (node, index, source);
  OrtrainNode *view = insert_view (node, source, last, (guint) output->rank, 0);
  ortrain_node_set_output (view, 0, output);
  return ortrain_ops_infer_node (view, error);
}

gboolean
ortrain_channels_last_read_shape (const OrtrainNode *node, guint index, gint64 *dims, gint *rank)
{
  const OrtrainValue *shape = ortrain_node_input (node, index);
  if (shape == NULL)
    return FALSE;
  if (shape->tensor != NULL && shape->dtype == ORTRAIN_DTYPE_INT64 && ortrain_tensor_peek (shape->tensor) != NULL)
    {
      *rank = (gint) MIN (ortrain_tensor_get_n_elements (shape->tensor), ORTRAIN_MAX_RANK);
      memcpy (dims, ortrain_tensor_peek (shape->tensor), (gsize) *rank * sizeof *dims);
      return TRUE;
    }
  *rank = MIN (shape->n_content, ORTRAIN_MAX_RANK);
  for (gint d = 0; d < *rank; d++)
    {
      if (!ortrain_dim_is_int (shape->content[d]))
        return FALSE;
      dims[d] = shape->content[d].value;
    }
  return *rank > 0;
}

gboolean
ortrain_channels_last_find_joined (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  const gboolean joins = node->op->join_inputs != 0;
  const GPtrArray *many = joins ? node->inputs : node->outputs;
  if (many->len > 31 || !ortrain_value_is_image (ortrain_node_input (node, 0)))
    return FALSE;
  *inputs = *outputs = 1;
  for (guint i = 0; i < many->len; i++)
    {
      if (many->pdata[i] == NULL)
        continue;
      if (!ortrain_value_is_image (many->pdata[i]))
        return FALSE;
      *(joins ? inputs : outputs) |= 1u << i;
    }
  if (!joins && ortrain_node_output (node, 0) == NULL)
    *outputs &= ~1u;
  return TRUE;
}

gboolean
ortrain_channels_last_put_joined (OrtrainNode *node, GError **error)
{
  const gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0);
  ortrain_attributes_set_int (node->attributes, "axis", ortrain_channels_last_move_axis (axis));
  return TRUE;
}

/* A value of fewer dimensions that is the same memory in both layouts, as an image. dims: [ORTRAIN_IMAGE_RANK], filled
 */
static gboolean
is_small (const OrtrainValue *value, gint64 *dims)
{
  gint64 own[ORTRAIN_MAX_RANK];
  if (value == NULL || value->rank < 0 || value->rank >= ORTRAIN_IMAGE_RANK ||
      !ortrain_value_get_static_dims (value, own))
    return FALSE;
  for (gint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    dims[d] = d + value->rank >= ORTRAIN_IMAGE_RANK ? own[d + value->rank - ORTRAIN_IMAGE_RANK] : 1;
  return dims[1] == 1 || dims[2] * dims[3] == 1;
}

gboolean
ortrain_channels_last_find_broadcast (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  gint64 dims[ORTRAIN_IMAGE_RANK];
  *inputs = 1;
  *outputs = ortrain_value_is_image (ortrain_node_output (node, 0));
  return ortrain_value_is_image (ortrain_node_input (node, 0)) &&
         (*outputs != 0 || is_small (ortrain_node_output (node, 0), dims));
}

gboolean
ortrain_channels_last_put_broadcast (OrtrainNode *node, GError **error)
{
  gint64 dims[ORTRAIN_IMAGE_RANK], last[ORTRAIN_IMAGE_RANK];
  if (is_small (ortrain_node_output (node, 0), dims))
    {
      for (guint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
        last[ortrain_channels_last_move_axis (d)] = dims[d];
      if (!ortrain_channels_last_view_output (node, 0, last, ORTRAIN_IMAGE_RANK, error))
        return FALSE;
    }
  ortrain_channels_last_set_shape (node, 1, ortrain_node_output (node, 0));
  return TRUE;
}

static const gint64 to_last[] = { 0, 2, 3, 1 };

/* FALSE: not of an image. */
static gboolean
read_perm (const OrtrainNode *node, gint64 *perm, gboolean *reads)
{
  gsize n;
  const gint64 *values = ortrain_attributes_get_ints (node->attributes, "perm", &n);
  *reads = TRUE;
  if (values != NULL && n != ORTRAIN_IMAGE_RANK)
    return FALSE;
  for (gint64 d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    {
      perm[d] = values != NULL ? values[d] : ORTRAIN_IMAGE_RANK - 1 - d;
      *reads = *reads && perm[d] == to_last[d];
    }
  return TRUE;
}

gboolean
ortrain_channels_last_find_transposed (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  gint64 perm[ORTRAIN_IMAGE_RANK];
  gboolean reads;
  if (!read_perm (node, perm, &reads) || !ortrain_value_is_image (ortrain_node_input (node, 0)))
    return FALSE;
  *inputs = reads;
  *outputs = !reads;
  return TRUE;
}

gboolean
ortrain_channels_last_put_transposed (OrtrainNode *node, GError **error)
{
  gint64 perm[ORTRAIN_IMAGE_RANK], moved[ORTRAIN_IMAGE_RANK];
  gboolean reads, is_same = TRUE;
  if (!read_perm (node, perm, &reads))
    return TRUE;
  for (gint64 d = 0; d < ORTRAIN_IMAGE_RANK; d++)
    {
      moved[d] = reads ? ortrain_channels_last_move_axis (perm[d]) : perm[to_last[d]];
      is_same = is_same && moved[d] == d;
    }
  ortrain_attributes_set_ints (node->attributes, "perm", moved, ORTRAIN_IMAGE_RANK);
  if (is_same)
    {
      ortrain_attributes_remove (node->attributes, "perm");
      ortrain_channels_last_set_row (node, "", "Identity");
    }
  return TRUE;
}
