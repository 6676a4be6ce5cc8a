/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-optimizer-private.h"

/* softmax (q·(k + b)ᵀ): the bias adds q_i·b to all scores of row i, and softmax does not see what is added to a whole
 * row. Likewise batch normalisation, while it trains, takes off what was added to a whole channel, be it right before it
 * or before a convolution of one point. The gradient of such a bias is zero by algebra; computed through the scores it is rounding noise instead of zero,
 * which an optimizer that divides by the gradient's own size (Adam) turns into steps. So the bias goes through a
 * StopGradient, whose gradient is zero exactly. Values are not changed. */

/* Bits of axes of `output` → bits of axes of `input` along which one moves in the input when moving in the output. Axes
 * are matched in the shortest runs with equal products; within a run, all count. FALSE when the shapes do not tell. */
static gboolean
map_through_reshape (OrtrainDimSpace *space, const OrtrainValue *input, const OrtrainValue *output, guint32 axes,
                     guint32 *result)
{
  *result = 0;
  if (input->rank < 0 || output->rank < 0)
    return FALSE;
  gint i = 0, k = 0;
  while (i < input->rank && k < output->rank)
    {
      gint best_i = -1, best_k = -1;
      OrtrainDim a = ortrain_dim_int (1);
      for (gint ii = i; ii < input->rank; ii++)
        {
          a = ortrain_dim_mul (space, a, input->dims[ii]);
          OrtrainDim b = ortrain_dim_int (1);
          for (gint kk = k; kk < output->rank; kk++)
            {
              b = ortrain_dim_mul (space, b, output->dims[kk]);
              if (ortrain_dim_equal (a, b) && (best_i < 0 || (ii - i) + (kk - k) < (best_i - i) + (best_k - k)))
                {
                  best_i = ii;
                  best_k = kk;
                }
            }
        }
      if (best_i < 0)
        return FALSE;
      gboolean moves = FALSE;
      for (gint kk = k; kk <= best_k; kk++)
        moves |= axes >> kk & 1;
      for (gint ii = i; ii <= best_i && moves; ii++)
        *result |= 1u << ii;
      i = best_i + 1;
      k = best_k + 1;
    }
  /* what is left over on either side must be ones */
  for (; i < input->rank; i++)
    if (!ortrain_dim_is_int (input->dims[i]) || input->dims[i].value != 1)
      return FALSE;
  for (; k < output->rank; k++)
    if (!ortrain_dim_is_int (output->dims[k]) || output->dims[k].value != 1)
      return FALSE;
  return TRUE;
}

/* One node reads its elements, and nobody else. */
static gboolean
is_private (const OrtrainValue *value)
{
  guint n = 0;
  for (guint u = 0; u < value->uses->len; u++)
    {
      const OrtrainNode *node = g_array_index (value->uses, OrtrainUse, u).node;
      n += !(node->op != NULL && (node->op->flags & ORTRAIN_OP_SHAPE_ONLY));
    }
  return n == 1 && !value->is_output;
}

static gboolean
is_scalar (const OrtrainValue *value)
{
  return value != NULL && value->kind == ORTRAIN_VALUE_INITIALIZER && value->tensor != NULL &&
         ortrain_tensor_get_n_elements (value->tensor) == 1;
}

/* An initializer that varies along the last axis only. */
static gboolean
is_bias (const OrtrainValue *value)
{
  if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER || value->rank < 1)
    return FALSE;
  for (gint i = 0; i + 1 < value->rank; i++)
    if (!ortrain_dim_is_int (value->dims[i]) || value->dims[i].value != 1)
      return FALSE;
  return TRUE;
}

static gboolean
stop (OrtrainGraph *graph, OrtrainNode *node, guint index, GError **error)
{
  OrtrainValue *bias = node->inputs->pdata[index];
  guint position = graph->nodes->len;
  g_ptr_array_find (graph->nodes, node, &position);
  OrtrainNode *stop = ortrain_graph_insert_node (graph, position, ORTRAIN_DOMAIN, "StopGradient", NULL, &bias, 1, 1);
  if (!ortrain_ops_infer_node (stop, error))
    return FALSE;
  ortrain_node_set_input (node, index, ortrain_node_output (stop, 0));
  return TRUE;
}

/* From the second operand of the product backwards to a bias; axes: those of the value that run along the keys. */
static gboolean
follow_keys (OrtrainGraph *graph, OrtrainValue *value, guint32 axes, GError **error)
{
  for (guint depth = 0; depth < 16; depth++)
    {
      OrtrainNode *node = value->producer;
      if (node == NULL || !is_private (value) || node->domain[0] != '\0')
        return TRUE;
      OrtrainValue *first = ortrain_node_input (node, 0), *second = ortrain_node_input (node, 1);
      if (g_str_equal (node->op_type, "Transpose") && first->rank >= 0)
        {
          gsize n;
          const gint64 *perm = ortrain_attributes_get_ints (node->attributes, "perm", &n);
          guint32 before = 0;
          for (gint k = 0; k < first->rank; k++)
            if (axes >> k & 1)
              before |= 1u << (perm != NULL ? perm[k] : first->rank - 1 - k);
          axes = before;
          value = first;
        }
      else if (g_str_equal (node->op_type, "Reshape") || g_str_equal (node->op_type, "Unsqueeze") ||
               g_str_equal (node->op_type, "Squeeze"))
        {
          if (!map_through_reshape (graph->dims, first, value, axes, &axes))
            return TRUE;
          value = first;
        }
      else if ((g_str_equal (node->op_type, "Mul") || g_str_equal (node->op_type, "Div")) && is_scalar (second) &&
               ortrain_value_same_shape (first, value))
        value = first;
      else if (g_str_equal (node->op_type, "Add"))
        {
          guint index = is_bias (second) ? 1 : 0;
          OrtrainValue *bias = node->inputs->pdata[index], *other = node->inputs->pdata[1 - index];
          if (is_bias (bias) && ortrain_value_same_shape (other, value) && value->rank >= 2 &&
              !(axes >> (value->rank - 1) & 1))
            return stop (graph, node, index, error);
          return TRUE;
        }
      else if (g_str_equal (node->op_type, "Gemm"))
        {
          if (is_bias (ortrain_node_input (node, 2)) && !(axes >> 1 & 1))
            return stop (graph, node, 2, error);
          return TRUE;
        }
      else
        return TRUE;
    }
  return TRUE;
}

/* A convolution whose output at a point comes from one point, always inside: a constant channel stays one. */
static gboolean
is_pointwise_conv (const OrtrainNode *node)
{
  const OrtrainValue *w = ortrain_node_input (node, 1);
  const char *auto_pad = ortrain_attributes_get_string (node->attributes, "auto_pad", "NOTSET");
  gsize n;
  const gint64 *pads = ortrain_attributes_get_ints (node->attributes, "pads", &n);
  for (gsize i = 0; pads != NULL && i < n; i++)
    if (pads[i] != 0)
      return FALSE;
  for (gint i = 2; i < w->rank; i++)
    if (!ortrain_dim_is_int (w->dims[i]) || w->dims[i].value != 1)
      return FALSE;
  return w->rank >= 2 && (g_str_equal (auto_pad, "NOTSET") || g_str_equal (auto_pad, "VALID"));
}

/* From the input of a batch normalisation that trains, backwards to all that only shifts its channels. */
static gboolean
follow_channels (OrtrainGraph *graph, OrtrainValue *value, guint depth, GError **error)
{
  OrtrainNode *node = value->producer;
  if (node == NULL || depth > 16 || !is_private (value))
    return TRUE;
  OrtrainValue *a = ortrain_node_input (node, 0), *b = ortrain_node_input (node, 1);
  if (ortrain_node_is (node, "", "Conv"))
    {
      if (ortrain_node_input (node, 2) != NULL && is_bias (ortrain_node_input (node, 2)) && !stop (graph, node, 2, error))
        return FALSE;
      return !is_pointwise_conv (node) || follow_channels (graph, a, depth + 1, error);
    }
  if (ortrain_node_is (node, "", "Gemm") && is_bias (ortrain_node_input (node, 2)))
    return stop (graph, node, 2, error);
  if (ortrain_node_is (node, ORTRAIN_DOMAIN, "BatchNormTrain") || ortrain_node_is (node, "", "BatchNormalization"))
    return !is_bias (ortrain_node_input (node, 2)) || stop (graph, node, 2, error);
  if (ortrain_node_is (node, "", "Add") && ortrain_value_same_shape (a, value) && ortrain_value_same_shape (b, value))
    return follow_channels (graph, a, depth + 1, error) && follow_channels (graph, b, depth + 1, error);
  if (ortrain_node_is (node, "", "Add") && value->rank == 2 && is_bias (b))
    return stop (graph, node, 1, error);
  return TRUE;
}

gboolean
ortrain_stop_shifts (OrtrainGraph *graph, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (ortrain_node_is (node, ORTRAIN_DOMAIN, "BatchNormTrain") &&
          !follow_channels (graph, ortrain_node_input (node, 0), 0, error))
        return FALSE;
      if (!ortrain_node_is (node, "", "Softmax"))
        continue;
      OrtrainValue *scores = ortrain_node_input (node, 0);
      gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -1);
      if (scores->rank < 2 || (axis != -1 && axis != scores->rank - 1))
        continue;
      /* back over masks that are added and scalars that are multiplied with */
      for (guint depth = 0; depth < 8; depth++)
        {
          OrtrainNode *producer = scores->producer;
          if (producer == NULL || !is_private (scores) || producer->domain[0] != '\0')
            break;
          OrtrainValue *a = ortrain_node_input (producer, 0), *b = ortrain_node_input (producer, 1);
          if (g_str_equal (producer->op_type, "MatMul"))
            {
              if (b->rank >= 2 && !follow_keys (graph, b, 1u << (b->rank - 1), error))
                return FALSE;
              break;
            }
          if (g_str_equal (producer->op_type, "Add"))
            {
              OrtrainNode *left = a->producer;
              gboolean through_left = left != NULL && is_private (a) && ortrain_value_same_shape (a, scores);
              scores = through_left ? a : b;
            }
          else if ((g_str_equal (producer->op_type, "Mul") || g_str_equal (producer->op_type, "Div")) && is_scalar (b))
            scores = a;
          else if (g_str_equal (producer->op_type, "Mul") && is_scalar (a))
            scores = b;
          else
            break;
        }
    }
  return TRUE;
}
