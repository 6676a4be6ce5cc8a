/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

/* Bodies of chains and of the gradients of activations, whose operands are dy and x, or dy and y. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define DIV(a, b) OP2 ("Div", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define NUMBER(number) ortrain_body_number (self, dy, number)

#define OPERANDS(other)                                                                                                \
  OrtrainValue *dy = ortrain_body_input (self, 0), *other = ortrain_body_input (self, 1);                              \
  OrtrainValue *one = NUMBER (1), *zero = NUMBER (0);                                                                  \
  (void) one, (void) zero

static gboolean
finish (OrtrainBody *self, OrtrainValue *result)
{
  ortrain_body_set (self, 0, result);
  return TRUE;
}

/* The chain's own operators, in their order. */
gboolean
ortrain_body_chain (OrtrainBody *self)
{
  OrtrainGraph *body = self->node->body;
  if (body == NULL)
    return FALSE;
  g_autoptr (GHashTable) here = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < body->inputs->len; i++)
    g_hash_table_insert (here, body->inputs->pdata[i], ortrain_node_input (self->node, i));
  for (guint i = 0; i < body->initializers->len; i++)
    {
      OrtrainValue *value = body->initializers->pdata[i];
      g_hash_table_insert (here, value, ortrain_graph_new_initializer (self->graph, value->name, value->tensor));
    }
  for (guint n = 0; n < body->nodes->len; n++)
    {
      OrtrainNode *inner = body->nodes->pdata[n];
      g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, inner->inputs->len + 1);
      for (guint i = 0; i < inner->inputs->len; i++)
        if (inner->inputs->pdata[i] != NULL)
          inputs[i] = g_hash_table_lookup (here, inner->inputs->pdata[i]);
      OrtrainNode *copy = ortrain_graph_insert_node (self->graph, self->node, inner->domain, inner->op_type,
                                                     inner->name, inputs, inner->inputs->len, 1);
      ortrain_attributes_assign (copy->attributes, inner->attributes);
      copy->phase = self->node->phase;
      if (!ortrain_ops_infer_node (copy, &self->error))
        return TRUE;
      g_hash_table_insert (here, ortrain_node_output (inner, 0), ortrain_node_output (copy, 0));
    }
  for (guint k = 0; k < body->outputs->len; k++)
    {
      /* all outputs have the chain's shape, whatever the operators that compute them have */
      const OrtrainValue *output = ortrain_node_output (self->node, k);
      OrtrainValue *result = g_hash_table_lookup (here, body->outputs->pdata[k]);
      gint64 dims[ORTRAIN_MAX_RANK];
      if (output != NULL && result != NULL && !ortrain_value_same_shape (output, result))
        result = OP2 ("Expand", result, ortrain_body_ints (self, ortrain_body_dims (output, dims), output->rank));
      ortrain_body_set (self, k, result);
    }
  return TRUE;
}

gboolean
ortrain_body_relu_grad (OrtrainBody *self)
{
  OPERANDS (y);
  return finish (self, WHERE (OP2 ("Greater", y, zero), dy, zero));
}

gboolean
ortrain_body_tanh_grad (OrtrainBody *self)
{
  OPERANDS (y);
  return finish (self, MUL (dy, SUB (one, MUL (y, y))));
}

gboolean
ortrain_body_sigmoid_grad (OrtrainBody *self)
{
  OPERANDS (y);
  return finish (self, MUL (dy, MUL (y, SUB (one, y))));
}

/* Computed from x or from y, which have the same sign. */
gboolean
ortrain_body_leaky_relu_grad (OrtrainBody *self)
{
  OPERANDS (x);
  OrtrainValue *alpha = NUMBER (ortrain_body_float (self, "alpha", 0.01f));
  return finish (self, WHERE (OP2 ("Greater", x, zero), dy, MUL (dy, alpha)));
}

gboolean
ortrain_body_elu_grad (OrtrainBody *self)
{
  OPERANDS (y);
  OrtrainValue *alpha = NUMBER (ortrain_body_float (self, "alpha", 1));
  return finish (self, WHERE (OP2 ("Greater", y, zero), dy, MUL (dy, ADD (y, alpha))));
}

gboolean
ortrain_body_selu_grad (OrtrainBody *self)
{
  OPERANDS (y);
  const double alpha = ortrain_body_float (self, "alpha", 1.67326319217681884765625);
  const double gamma = ortrain_body_float (self, "gamma", 1.05070102214813232421875);
  return finish (self,
                 WHERE (OP2 ("Greater", y, zero), MUL (dy, NUMBER (gamma)), MUL (dy, ADD (y, NUMBER (gamma * alpha)))));
}

gboolean
ortrain_body_celu_grad (OrtrainBody *self)
{
  OPERANDS (y);
  OrtrainValue *alpha = NUMBER (ortrain_body_float (self, "alpha", 1));
  return finish (self, WHERE (OP2 ("Greater", y, zero), dy, MUL (dy, ADD (DIV (y, alpha), one))));
}

gboolean
ortrain_body_hard_sigmoid_grad (OrtrainBody *self)
{
  OPERANDS (y);
  OrtrainValue *inside = OP2 ("And", OP2 ("Greater", y, zero), OP2 ("Less", y, one));
  return finish (self, WHERE (inside, MUL (dy, NUMBER (ortrain_body_float (self, "alpha", 0.2f))), zero));
}

gboolean
ortrain_body_hard_swish_grad (OrtrainBody *self)
{
  OPERANDS (x);
  OrtrainValue *inner = MUL (dy, ADD (DIV (x, NUMBER (3)), NUMBER (0.5)));
  inner = WHERE (OP2 ("GreaterOrEqual", x, NUMBER (3)), dy, inner);
  return finish (self, WHERE (OP2 ("LessOrEqual", x, NUMBER (-3)), zero, inner));
}

gboolean
ortrain_body_softplus_grad (OrtrainBody *self)
{
  OPERANDS (x);
  return finish (self, MUL (dy, OP1 ("Sigmoid", x)));
}

gboolean
ortrain_body_softsign_grad (OrtrainBody *self)
{
  OPERANDS (x);
  OrtrainValue *d = ADD (one, OP1 ("Abs", x));
  return finish (self, DIV (dy, MUL (d, d)));
}

gboolean
ortrain_body_erf_grad (OrtrainBody *self)
{
  OPERANDS (x);
  return finish (self, MUL (dy, MUL (NUMBER (1.1283791670955125739), OP1 ("Exp", OP1 ("Neg", MUL (x, x))))));
}

#define AT_X(number) ortrain_body_number (self, x, number)

OrtrainValue *
ortrain_body_gelu_tanh_slope (OrtrainBody *self, OrtrainValue *x)
{
  OrtrainValue *half = AT_X (0.5), *one = AT_X (1), *square = MUL (x, x), *root = AT_X (0.79788456080286535588);
  OrtrainValue *t = OP1 ("Tanh", MUL (root, ADD (x, MUL (AT_X (0.044715), MUL (square, x)))));
  OrtrainValue *slope = MUL (root, ADD (one, MUL (AT_X (0.134145), square)));
  slope = MUL (MUL (half, x), MUL (SUB (one, MUL (t, t)), slope));
  return ADD (MUL (half, ADD (one, t)), slope);
}

gboolean
ortrain_body_gelu_grad (OrtrainBody *self)
{
  OPERANDS (x);
  OrtrainValue *half = NUMBER (0.5);
  if (g_str_equal (ortrain_attributes_get_string (self->node->attributes, "approximate", "none"), "tanh"))
    return finish (self, MUL (dy, ortrain_body_gelu_tanh_slope (self, x)));
  OrtrainValue *below = MUL (half, ADD (one, OP1 ("Erf", MUL (x, NUMBER (0.70710678118654752440)))));
  OrtrainValue *density = MUL (NUMBER (0.39894228040143267794), OP1 ("Exp", MUL (MUL (NUMBER (-0.5), x), x)));
  return finish (self, MUL (dy, ADD (below, MUL (x, density))));
}

gboolean
ortrain_body_mish_grad (OrtrainBody *self)
{
  OPERANDS (x);
  OrtrainValue *w = OP1 ("Tanh", OP1 ("Softplus", x));
  OrtrainValue *slope = MUL (x, MUL (OP1 ("Sigmoid", x), SUB (one, MUL (w, w))));
  return finish (self, MUL (dy, ADD (w, slope)));
}

gboolean
ortrain_body_swish_grad (OrtrainBody *self)
{
  OPERANDS (x);
  OrtrainValue *scaled = MUL (NUMBER (ortrain_body_float (self, "alpha", 1)), x), *s = OP1 ("Sigmoid", scaled);
  return finish (self, MUL (dy, ADD (s, MUL (scaled, MUL (s, SUB (one, s))))));
}
