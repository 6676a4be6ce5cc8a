/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-grad-context-private.h"

/* Shared by the rules of the element-wise families. */

static inline OrtrainValue *
ortrain_pointwise_op (OrtrainGradContext *ctx, const char *domain, const char *op_type, OrtrainValue *a,
                      OrtrainValue *b, OrtrainAttributes *attributes)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_grad_node (ctx, domain, op_type, inputs, b != NULL ? 2 : 1, 1, attributes), 0);
}

/* Sets the gradient of input i, summed over the axes along which it was broadcast. */
static inline void
ortrain_pointwise_set (OrtrainGradContext *ctx, guint i, OrtrainValue *gradient)
{
  ortrain_grad_set (ctx, i, ortrain_grad_sum_to (ctx, gradient, ortrain_grad_input (ctx, i)));
}

/* The same of -gradient: negated once it is small. */
static inline void
ortrain_pointwise_set_negative (OrtrainGradContext *ctx, guint i, OrtrainValue *gradient)
{
  OrtrainValue *sum = ortrain_grad_sum_to (ctx, gradient, ortrain_grad_input (ctx, i));
  ortrain_grad_set (ctx, i, ortrain_grad_op1 (ctx, "Neg", sum));
}

static inline OrtrainValue *
ortrain_pointwise_cast (OrtrainGradContext *ctx, OrtrainValue *value, OrtrainDType dtype)
{
  if (value->dtype == dtype)
    return value;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "to", dtype);
  return ortrain_pointwise_op (ctx, "", "Cast", value, NULL, attributes);
}
