/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

/* Operators of our own that are no arithmetic; the planner adds Accumulate when a value has to be added somewhere its
 * own kernel cannot write to. */

#define ONE_TO_ONE                                                                                                     \
  .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,          \
  .flags = ORTRAIN_OP_NO_GRADIENT

/* Output 1 is never written: it is another place for output 0, whose contents are there in every other run. */
static gboolean
infer_copy (OrtrainInferContext *ctx, GError **error)
{
  if (!ortrain_infer_unary (ctx, error))
    return FALSE;
  if (ortrain_infer_get_n_outputs (ctx) > 1)
    ortrain_infer_set_like (ctx, 1, 0);
  return TRUE;
}

static const OrtrainOpDef rows[] = {
  /* x → y: y = x, or y += x where the plan or the step block says so */
  { .name = "Accumulate",
    ONE_TO_ONE,
    .infer = ortrain_infer_unary,
    .no_body = "a planner adds it, after the expansion: the plan decides where it writes" },
  /* from the memory of the host to that of the device, or back */
  { .name = "Copy",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .kind = ORTRAIN_OP_KIND_COPY,
    .infer = infer_copy,
    .no_body = "between two memories, of which a graph knows nothing" },
  /* moves a value that only the backward pass reads again from the memory of a step to that of offloaded values */
  { .name = "Offload",
    ONE_TO_ONE,
    .kind = ORTRAIN_OP_KIND_OFFLOAD,
    .infer = ortrain_infer_unary,
    .no_body = "between two memories, of which a graph knows nothing" },
  /* and back */
  { .name = "Reload",
    ONE_TO_ONE,
    .kind = ORTRAIN_OP_KIND_RELOAD,
    .infer = ortrain_infer_unary,
    .no_body = "between two memories, of which a graph knows nothing" },
  /* x → y: y = x. A fault if the step block asks for it and x is not finite or, of int64, is not ORTRAIN_GUARD_NONE */
  { .name = "StepGuard", ONE_TO_ONE, .infer = ortrain_infer_unary, .no_body = "faults are a matter of kernels" },
};

ORTRAIN_OP_TABLE (internal, rows);
