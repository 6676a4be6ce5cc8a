/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-relu-gradients-private.h"

#include "ops/ortrain-op-private.h"

/* In the backward pass of Relu (BatchNormalization (x)), the gradient of Relu would be one more value in memory: it is
 * read twice, for the sums and for the gradient of x. But where it is not zero follows from x, which is read for both
 * anyway, and from the statistics. So the gradient of the normalization reads what Relu's gradient reads, and sets it
 * to zero where the result is not positive: two or three passes over memory are spared. */

#define FACTOR_OUTPUT 5 /* of a normalization: scale/deviation */

static OrtrainValue *
skip_views (OrtrainValue *value)
{
  while (ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_RESHAPE) != NULL)
    value = ortrain_node_input (value->producer, 0);
  return value;
}

/* widens: only casts that keep all numbers */
static OrtrainValue *
skip_cast (OrtrainValue *value, gboolean widens)
{
  const OrtrainNode *cast = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_CAST);
  if (cast == NULL)
    return value;
  OrtrainValue *input = ortrain_node_input (cast, 0);
  const gboolean is_wider = ortrain_dtype_get_size (value->dtype) >= ortrain_dtype_get_size (input->dtype);
  return ortrain_dtype_is_floating (input->dtype) && (is_wider || !widens) ? input : value;
}

/* The node that computes y = (x - mean)·factor + bias of the statistics that the gradient reads, and nothing else, if
 * its result is the input of Relu. */
static OrtrainNode *
find_normalization (OrtrainNode *gradient, OrtrainValue *y)
{
  OrtrainValue *x = ortrain_node_input (gradient, 1), *mean = ortrain_node_input (gradient, 3);
  const OrtrainNode *relu = ortrain_value_get_producer_of_kind (y, ORTRAIN_OP_KIND_RELU);
  if (relu == NULL || x == NULL || mean->producer == NULL)
    return NULL;
  OrtrainNode *apply =
      ortrain_value_get_producer_of_kind (skip_cast (ortrain_node_input (relu, 0), FALSE), ORTRAIN_OP_KIND_NORM_APPLY);
  if (apply == NULL || skip_cast (ortrain_node_input (apply, 0), TRUE) != x ||
      skip_views (ortrain_node_input (apply, 1)) != mean)
    return NULL;
  const OrtrainNode *statistics = mean->producer;
  const OrtrainValue *factor = skip_views (ortrain_node_input (apply, 2));
  const gboolean is_same = factor->producer == statistics && factor->output_index == FACTOR_OUTPUT &&
                           ortrain_node_input (gradient, 4)->producer == statistics &&
                           ortrain_node_input (gradient, 2) == ortrain_node_input (statistics, 1) &&
                           skip_views (ortrain_node_input (apply, 3)) == ortrain_node_input (statistics, 2);
  return is_same ? apply : NULL;
}

static gboolean
has_kernel (const OrtrainProvider *provider, const OrtrainNode *node, const OrtrainValue *dy, const OrtrainValue *bias)
{
  const guint n = node->inputs->len;
  g_autofree OrtrainOperand *operands = g_new0 (OrtrainOperand, n + 1 + node->outputs->len);
  for (guint i = 0; i < n + node->outputs->len; i++)
    {
      const OrtrainValue *value = i < n ? ortrain_node_input (node, i) : ortrain_node_output (node, i - n);
      operands[i < n ? i : i + 1].dtype = value != NULL ? value->dtype : ORTRAIN_DTYPE_UNDEFINED;
    }
  operands[0].dtype = dy->dtype;
  operands[n].dtype = bias->dtype;
  return provider->klass->find_kernel (provider, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_RELU_GRADIENT],
                                       operands, n + 1, operands + n + 1, node->outputs->len) != NULL;
}

static void
fuse (OrtrainNode *node, const OrtrainProvider *provider)
{
  OrtrainValue *masked = ortrain_node_input (node, 0), *x = ortrain_node_input (node, 1);
  const OrtrainNode *relu_gradient = ortrain_value_get_producer_of_kind (masked, ORTRAIN_OP_KIND_RELU_GRADIENT);
  if (relu_gradient == NULL || masked->uses.n != 1 || masked->is_output || masked->role != ORTRAIN_ROLE_NONE ||
      node->recomputes != NULL || relu_gradient->phase != node->phase)
    return;
  OrtrainValue *dy = ortrain_node_input (relu_gradient, 0), *y = ortrain_node_input (relu_gradient, 1);
  const OrtrainNode *apply = find_normalization (node, y);
  if (apply == NULL || dy->dtype != x->dtype || y->dtype != x->dtype || !ortrain_value_same_shape (dy, x) ||
      ortrain_node_output (relu_gradient, 0)->dtype != dy->dtype)
    return;
  OrtrainValue *bias = skip_views (ortrain_node_input (apply, 3));
  if (bias->rank != 1 || !has_kernel (provider, node, dy, bias))
    return;
  ortrain_node_set_operator (node, ORTRAIN_DOMAIN, node->op->fused_as[ORTRAIN_FUSION_RELU_GRADIENT]);
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
  ortrain_node_set_input (node, 0, dy);
  ortrain_node_set_input (node, node->inputs->len, bias);
}

/* Whether a device has a kernel at all: graphs of others stay as they are. */
static gboolean
is_candidate (const OrtrainNode *node, const OrtrainProvider *provider)
{
  return node->op != NULL && node->op->fused_as[ORTRAIN_FUSION_RELU_GRADIENT] != NULL &&
         ortrain_node_input (node, 1) != NULL &&
         has_kernel (provider, node, ortrain_node_input (node, 0), ortrain_node_input (node, 2));
}

gboolean
ortrain_fuse_relu_gradients (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  gboolean any = FALSE;
  for (guint i = 0; i < graph->nodes->len && !any; i++)
    any = is_candidate (graph->nodes->pdata[i], provider);
  if (!any)
    return TRUE;
  ortrain_graph_remove_dead (graph); /* casts that kernels have absorbed */
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (is_candidate (node, provider))
        fuse (node, provider);
    }
  ortrain_graph_remove_dead (graph);
  return ortrain_graph_sort (graph, error);
}
