/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-rows.h"

/* Softmax, LogSoftmax, Hardmax and the first two's gradients: x [outer, n, inner], along n; every operand in a type of
 * its own (see ortrain-cpu-rows.h). */

#define SOFTMAX_TILE 64

typedef enum
{
  SOFTMAX,
  LOG_SOFTMAX,
  HARDMAX,
  SOFTMAX_GRAD,
  LOG_SOFTMAX_GRAD,
} SoftmaxKind;

typedef struct
{
  OrtrainDType dtype;
  SoftmaxKind kind;
  gint64 outer, n, inner, tiles, step;
  OrtrainRowsTypes types;
} SoftmaxPlan;

typedef struct
{
  const SoftmaxPlan *plan;
  OrtrainRows a, b; /* x; or dy and y */
  OrtrainRows y;
} SoftmaxRun;

#define REAL float
#define R(name) name##_f32
#define EXP(x) ortrain_lane_expf (x)
#include "ortrain-cpu-softmax-template.h"
#undef REAL
#undef R
#undef EXP
#define REAL double
#define R(name) name##_f64
#define EXP(x) exp (x)
#include "ortrain-cpu-softmax-template.h"
#undef REAL
#undef R
#undef EXP

static gboolean
softmax_prepare (OrtrainKernelSetup *setup, GError **error)
{
  static const char *const names[] = { "Softmax", "LogSoftmax", "Hardmax", "SoftmaxGrad", "LogSoftmaxGrad" };
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 rank = x->rank, axis = ortrain_attributes_get_int (setup->attributes, "axis", -1);
  if (axis < -MAX (rank, 1) || axis >= MAX (rank, 1))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: axis %" G_GINT64_FORMAT " is outside the rank %" G_GINT64_FORMAT, setup->op_type, axis, rank);
      return FALSE;
    }
  SoftmaxPlan *plan = g_new0 (SoftmaxPlan, 1);
  axis += axis < 0 ? rank : 0;
  plan->dtype = ortrain_rows_get_compute_dtype (x);
  ortrain_rows_describe (&plan->types, setup);
  plan->outer = plan->n = plan->inner = 1;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i], setup->op_type))
      plan->kind = (SoftmaxKind) i;
  for (gint64 d = 0; d < rank; d++)
    *(d < axis ? &plan->outer : d == axis ? &plan->n : &plan->inner) *= x->dims[d];
  plan->step = ortrain_rows_get_step (&plan->types, plan->n);
  plan->tiles = (plan->inner + SOFTMAX_TILE - 1) / SOFTMAX_TILE;
  if (plan->kind != HARDMAX)
    setup->inplace[0] = plan->kind == SOFTMAX_GRAD || plan->kind == LOG_SOFTMAX_GRAD ? 3 : 1;
  setup->flops = 12.0 * (double) x->n_elements;
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static void
softmax_run (const OrtrainKernelCall *call)
{
  const SoftmaxPlan *plan = call->constants;
  gboolean grad = plan->kind == SOFTMAX_GRAD || plan->kind == LOG_SOFTMAX_GRAD;
  SoftmaxRun run = { .plan = plan, .a = ortrain_rows_input (&plan->types, call, 0) };
  if (grad)
    run.b = ortrain_rows_input (&plan->types, call, 1);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  gint64 size = plan->n * MIN (plan->inner, SOFTMAX_TILE);
  if (size == 0)
    return;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->outer * plan->tiles, MAX (1, 16384 / size),
                        plan->dtype == ORTRAIN_DTYPE_FLOAT32 ? units_f32 : units_f64, &run);
}

#define ROWS(name, domain)                                                                                             \
  { name, domain, ORTRAIN_DTYPES_F32F64, softmax_prepare, softmax_run },                                               \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, softmax_prepare, softmax_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED             \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("Softmax", ""),
  ROWS ("LogSoftmax", ""),
  ROWS ("Hardmax", ""),
  ROWS ("SoftmaxGrad", "org.ortrain"),
  ROWS ("LogSoftmaxGrad", "org.ortrain"),
};
ORTRAIN_KERNEL_TABLE (softmax, kernels);
