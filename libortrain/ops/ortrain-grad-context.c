/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-grad-context-private.h"

#include <stdarg.h>

static gboolean
fits (const OrtrainValue *gradient, const OrtrainValue *input)
{
  if (gradient->dtype != input->dtype)
    return FALSE;
  if (gradient->rank < 0 || input->rank < 0)
    return TRUE;
  gboolean same = gradient->rank == input->rank;
  for (gint d = 0; d < input->rank && same; d++)
    same = !ortrain_dim_is_int (gradient->dims[d]) || !ortrain_dim_is_int (input->dims[d]) ||
           gradient->dims[d].value == input->dims[d].value;
  return same;
}

gboolean
ortrain_grad_run (OrtrainGradContext *ctx, GError **error)
{
  GError *own = NULL;
  gboolean ok = ctx->node->op->gradient (ctx, &own);
  if (ctx->error == NULL)
    ctx->error = own;
  else
    g_clear_error (&own); /* follows from the first */
  for (guint i = 0; i < ctx->node->inputs->len && ok && ctx->error == NULL; i++)
    {
      const OrtrainValue *gradient = ctx->input_gradients[i], *input = ctx->node->inputs->pdata[i];
      if (!ortrain_grad_wants (ctx, i))
        continue;
      if (gradient == NULL)
        ok = ortrain_grad_fail (ctx, &ctx->error, "its gradient rule has no gradient for input %u", i);
      else if (!fits (gradient, input))
        {
          g_autofree char *a = ortrain_value_describe (gradient), *b = ortrain_value_describe (input);
          ok = ortrain_grad_fail (ctx, &ctx->error, "the gradient of input %u (%s) is %s: their shapes must be equal",
                                  i, b, a);
        }
    }
  for (guint k = 0; k < ctx->n_outputs && ok && ctx->error == NULL; k++)
    if (ctx->output_gradients[k] != NULL && !ctx->asked[k])
      ok = ortrain_grad_fail (ctx, &ctx->error, "a gradient through output %u is not supported", k);
  if (ok && ctx->error == NULL)
    return TRUE;
  g_autofree char *node = ortrain_node_describe (ctx->node);
  if (g_str_has_prefix (ctx->error->message, node))
    g_propagate_error (error, g_steal_pointer (&ctx->error));
  else
    g_propagate_prefixed_error (error, g_steal_pointer (&ctx->error), "%s: cannot compute its gradient: ", node);
  return FALSE;
}

OrtrainAttributes *
ortrain_grad_copy_random_attributes (OrtrainGradContext *ctx)
{
  OrtrainAttributes *attributes = ortrain_attributes_copy (ctx->node->attributes);
  if (!ortrain_attributes_has (attributes, "forward_node"))
    ortrain_attributes_set_int (attributes, "forward_node", ctx->node->number);
  return attributes;
}

gboolean
ortrain_grad_wants (OrtrainGradContext *ctx, guint i)
{
  return i < ctx->node->inputs->len && ctx->node->inputs->pdata[i] != NULL && ctx->wanted[i];
}

OrtrainValue *
ortrain_grad_of_output (OrtrainGradContext *ctx, guint k)
{
  if (k >= ctx->n_outputs)
    return NULL;
  ctx->asked[k] = TRUE;
  return ctx->output_gradients[k];
}

OrtrainValue *
ortrain_grad_of_output_or_zero (OrtrainGradContext *ctx, guint k)
{
  OrtrainValue *gradient = ortrain_grad_of_output (ctx, k);
  if (gradient != NULL)
    return gradient;
  OrtrainValue *output = ortrain_grad_output (ctx, k);
  if (output == NULL)
    return NULL;
  return ortrain_grad_op2 (ctx, "Expand", ortrain_grad_const (ctx, output, 0.0), ortrain_grad_shape_of (ctx, output));
}

void
ortrain_grad_set (OrtrainGradContext *ctx, guint i, OrtrainValue *gradient)
{
  g_return_if_fail (i < ctx->node->inputs->len);
  ctx->input_gradients[i] = gradient;
}

OrtrainNode *
ortrain_grad_node (OrtrainGradContext *ctx, const char *domain, const char *op_type, OrtrainValue *const *inputs,
                   guint n_inputs, guint n_outputs, OrtrainAttributes *attributes)
{
  g_autofree char *name =
      g_strdup_printf ("%s.grad/%s", ctx->node->name[0] != '\0' ? ctx->node->name : ctx->node->op_type, op_type);
  OrtrainNode *node = ortrain_graph_new_node (ctx->graph, domain, op_type, name, inputs, n_inputs, n_outputs);
  if (attributes != NULL)
    {
      ortrain_attributes_free (node->attributes);
      node->attributes = attributes;
    }
  node->phase = ORTRAIN_PHASE_BACKWARD;
  if (ctx->error == NULL)
    ortrain_ops_infer_node (node, &ctx->error);
  return node;
}

OrtrainValue *
ortrain_grad_op1 (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a)
{
  return ortrain_node_output (ortrain_grad_node (ctx, "", op_type, &a, 1, 1, NULL), 0);
}

OrtrainValue *
ortrain_grad_op2 (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_grad_node (ctx, "", op_type, inputs, 2, 1, NULL), 0);
}

OrtrainValue *
ortrain_grad_op3 (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainValue *c)
{
  OrtrainValue *inputs[] = { a, b, c };
  return ortrain_node_output (ortrain_grad_node (ctx, "", op_type, inputs, 3, 1, NULL), 0);
}

OrtrainValue *
ortrain_grad_const (OrtrainGradContext *ctx, OrtrainValue *like, double value)
{
  return ortrain_graph_const_scalar (ctx->graph, like->dtype, value);
}

OrtrainValue *
ortrain_grad_const_ints (OrtrainGradContext *ctx, const gint64 *values, gsize n)
{
  return ortrain_graph_const_ints (ctx->graph, values, n);
}

OrtrainValue *
ortrain_grad_shape_of (OrtrainGradContext *ctx, OrtrainValue *value)
{
  return ortrain_grad_op1 (ctx, "Shape", value);
}

OrtrainValue *
ortrain_grad_sum_to (OrtrainGradContext *ctx, OrtrainValue *gradient, OrtrainValue *like)
{
  if (ortrain_value_same_shape (gradient, like))
    return gradient;
  OrtrainValue *inputs[] = { gradient, ortrain_grad_shape_of (ctx, like) };
  return ortrain_node_output (ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "SumTo", inputs, 2, 1, NULL), 0);
}

OrtrainValue *
ortrain_grad_reshape_like (OrtrainGradContext *ctx, OrtrainValue *gradient, OrtrainValue *like)
{
  if (ortrain_value_same_shape (gradient, like))
    return gradient;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "allowzero", 1);
  OrtrainValue *inputs[] = { gradient, ortrain_grad_shape_of (ctx, like) };
  return ortrain_node_output (ortrain_grad_node (ctx, "", "Reshape", inputs, 2, 1, attributes), 0);
}

gboolean
ortrain_grad_fail (OrtrainGradContext *ctx, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *node = ortrain_node_describe (ctx->node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NO_GRADIENT, "%s: %s", node, message);
  return FALSE;
}
