/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* The input of a gradient rule: one node, the gradients of its outputs, and a writer of nodes. Rules are written for
 * the general case; shapes that turn out equal when a plan is created cost nothing (SumTo of an equal shape is a view).
 * A forward value that a rule asks for is kept for the backward pass, so it asks for as little as it can. */
struct _OrtrainGradContext
{
  OrtrainGraph *graph;
  OrtrainNode *node;                     /* of the forward pass */
  OrtrainValue *const *output_gradients; /* [n_outputs]; NULL: nothing flows back through that output */
  const gboolean *wanted;                /* [n_inputs]: whether the gradient of input i is asked for */
  OrtrainValue **input_gradients;        /* [n_inputs]: filled by the rule */
  gboolean *asked;                       /* [n_outputs]: whether the rule has looked at the gradient of output k */
  guint n_outputs;                       /* before the rule gave the node more of them */
  GError *error; /* of the first invalid node that the rule wrote; later nodes are not inferred */
};

/* Runs the rule of ctx->node, and checks its result: the nodes that it wrote are valid, it has read the gradient of
 * each output that has one, and every wanted gradient exists, with the type and, as far as they are known, the sizes of
 * its input. Otherwise an error names the forward node. */
gboolean ortrain_grad_run (OrtrainGradContext *ctx, GError **error);

#define ortrain_grad_input(ctx, i) ortrain_node_input ((ctx)->node, i)
#define ortrain_grad_output(ctx, k) ortrain_node_output ((ctx)->node, k)
/* Those of the node, for one that draws the same numbers again. */
OrtrainAttributes *ortrain_grad_copy_random_attributes (OrtrainGradContext *ctx);
gboolean ortrain_grad_wants (OrtrainGradContext *ctx, guint i);
OrtrainValue *ortrain_grad_of_output (OrtrainGradContext *ctx, guint k);         /* may be NULL */
OrtrainValue *ortrain_grad_of_output_or_zero (OrtrainGradContext *ctx, guint k); /* zeros in the output's shape */
void ortrain_grad_set (OrtrainGradContext *ctx, guint i, OrtrainValue *gradient);

/* Writers: they append nodes of the backward phase, inferred at once. domain "" unless named. */
OrtrainValue *ortrain_grad_op1 (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a);
OrtrainValue *ortrain_grad_op2 (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a, OrtrainValue *b);
OrtrainValue *ortrain_grad_op3 (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a, OrtrainValue *b,
                                OrtrainValue *c);
/* attributes: taken; may be NULL. Returns the node: read its outputs. */
OrtrainNode *ortrain_grad_node (OrtrainGradContext *ctx, const char *domain, const char *op_type,
                                OrtrainValue *const *inputs, guint n_inputs, guint n_outputs,
                                OrtrainAttributes *attributes);
OrtrainValue *ortrain_grad_const (OrtrainGradContext *ctx, OrtrainValue *like, double value); /* 0-d, type of `like` */
OrtrainValue *ortrain_grad_const_ints (OrtrainGradContext *ctx, const gint64 *values, gsize n);
OrtrainValue *ortrain_grad_shape_of (OrtrainGradContext *ctx,
                                     OrtrainValue *value); /* int64 [rank]; keeps no elements */
/* Sums a broadcast gradient back to the shape of `like`: org.ortrain::SumTo (gradient, Shape (like)); nothing at all
 * when the shapes are provably equal. */
OrtrainValue *ortrain_grad_sum_to (OrtrainGradContext *ctx, OrtrainValue *gradient, OrtrainValue *like);
OrtrainValue *ortrain_grad_reshape_like (OrtrainGradContext *ctx, OrtrainValue *gradient, OrtrainValue *like);
gboolean ortrain_grad_fail (OrtrainGradContext *ctx, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);
