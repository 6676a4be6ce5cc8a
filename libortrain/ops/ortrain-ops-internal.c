/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-grad-context-private.h"

/* Operators of our own that are no arithmetic; Accumulate is what the planner adds when a value has to land somewhere
 * its own kernel cannot write to. */

/* Zero, exactly, whatever comes back. */
static gboolean
stop_gradient_gradient (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0);
  ortrain_grad_set (ctx, 0,
                    ortrain_grad_op2 (ctx, "Expand", ortrain_grad_const (ctx, x, 0.0), ortrain_grad_shape_of (ctx, x)));
  return TRUE;
}

static const OrtrainOpDef rows[] = {
  /* x → x, and no gradient passes; see transform/ortrain-stop-shifts.c */
  { .name = "StopGradient",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW,
    .infer = ortrain_infer_unary,
    .gradient = stop_gradient_gradient },
  /* x → y: y = x, or y += x where the plan or the frame says so */
  { .name = "Accumulate",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .infer = ortrain_infer_unary },
};

ORTRAIN_OP_TABLE (internal, rows);
