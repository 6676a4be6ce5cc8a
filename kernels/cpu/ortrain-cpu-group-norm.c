/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-rows.h"

/* Normalization over groups of channels (group, instance) with statistics of the sample itself: x is rows [batch ·
 * groups] of n = channels of a group · elements of a channel. Every operand has a type of its own (see
 * ortrain-cpu-rows.h). */

typedef struct
{
  OrtrainDType dtype;
  OrtrainRowsTypes types;
  double epsilon;
  gint64 rows, n;
  gint64 step; /* elements of a row that are read at once */
  gint64 groups, per_group, inner;
} GroupPlan;

typedef struct
{
  const GroupPlan *plan;
  OrtrainRows x, dy, scale, bias, mean, inverse;
  OrtrainRows y, mean_out, inverse_out, factor_out, dscale, dbias;
  double *parts;
  guint64 accumulate; /* bits of dscale and dbias, outputs 1 and 2 */
} GroupRun;

#define REAL float
#define R(name) name##_f32
#include "ortrain-cpu-group-norm-template.h"
#undef REAL
#undef R
#define REAL double
#define R(name) name##_f64
#include "ortrain-cpu-group-norm-template.h"
#undef REAL
#undef R

#define CALL(plan, name) ((plan)->dtype == ORTRAIN_DTYPE_FLOAT32 ? name##_f32 : name##_f64)
#define INPUT(call, plan, i) ortrain_rows_input (&(plan)->types, call, i)
#define OUTPUT(call, plan, k) ortrain_rows_output (&(plan)->types, call, k)

static gint64
row_grain (const GroupPlan *plan)
{
  return MAX (1, 16384 / MAX (1, plan->n));
}

/* The plan for inputs x and scale; checks the other operands. flops: of an element. NULL with an error. */
static GroupPlan *
build_plan (OrtrainKernelSetup *setup, guint x_index, double flops, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[x_index], *scale = &setup->inputs[x_index + 1];
  const gint64 channels = x->rank > 1 ? x->dims[1] : 0;
  const gint64 groups = ortrain_attributes_get_int (setup->attributes, "num_groups", channels);
  if (x->rank < 2 || scale->n_elements != channels || !ortrain_rows_fit (scale, x) || groups < 1 ||
      channels % groups != 0)
    {
      g_autofree char *a = ortrain_shape_to_string (x->dims, x->rank);
      g_autofree char *b = ortrain_shape_to_string (scale->dims, scale->rank);
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: a scale of %s %s does not fit %s %s",
                   setup->op_type, ortrain_dtype_get_name (scale->dtype), b, ortrain_dtype_get_name (x->dtype), a);
      return NULL;
    }
  GroupPlan *plan = g_new0 (GroupPlan, 1);
  plan->dtype = ortrain_rows_get_compute_dtype (x);
  ortrain_rows_describe (&plan->types, setup);
  plan->epsilon = ortrain_attributes_get_float (setup->attributes, "epsilon", 1e-5);
  plan->groups = groups;
  plan->per_group = channels / groups;
  plan->inner = 1;
  for (guint d = 2; d < x->rank; d++)
    plan->inner *= x->dims[d];
  plan->rows = x->dims[0] * groups;
  plan->n = plan->per_group * plan->inner;
  plan->step = ortrain_rows_get_step (&plan->types, plan->n);
  setup->flops = flops * (double) x->n_elements;
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

/* GroupNormalization, InstanceNormalization (x, scale, bias) */
static gboolean
group_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *scale = &setup->inputs[1], *bias = &setup->inputs[2];
  if (!ortrain_rows_fit (bias, scale) || bias->n_elements != scale->n_elements)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: the bias has %" G_GINT64_FORMAT " elements of %s, the scale has %" G_GINT64_FORMAT " of %s",
                   setup->op_type, bias->n_elements, ortrain_dtype_get_name (bias->dtype), scale->n_elements,
                   ortrain_dtype_get_name (scale->dtype));
      return FALSE;
    }
  setup->inplace[0] = 1;
  return build_plan (setup, 0, 8, error) != NULL;
}

static void
group_run (const OrtrainKernelCall *call)
{
  const GroupPlan *plan = call->constants;
  const GroupRun run = { .plan = plan,
                         .x = INPUT (call, plan, 0),
                         .scale = INPUT (call, plan, 1),
                         .bias = INPUT (call, plan, 2),
                         .y = OUTPUT (call, plan, 0) };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->rows, row_grain (plan), CALL (plan, group_rows),
                        (gpointer) &run);
}

/* GroupNormStatistics (x, scale) {num_groups, epsilon} → (mean, 1/deviation, factor): y = (x - mean)·factor + bias,
 * which NormApply computes to the same bits. */
static gboolean
statistics_prepare (OrtrainKernelSetup *setup, GError **error)
{
  GroupPlan *plan = build_plan (setup, 0, 5, error);
  for (guint k = 0; plan != NULL && k < setup->n_outputs; k++)
    if (setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED &&
        setup->outputs[k].n_elements != plan->rows * plan->per_group)
      {
        g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                     "%s: output %u does not have an element for each channel of each sample", setup->op_type, k);
        return FALSE;
      }
  return plan != NULL;
}

static void
statistics_run (const OrtrainKernelCall *call)
{
  const GroupPlan *plan = call->constants;
  const GroupRun run = { .plan = plan,
                         .x = INPUT (call, plan, 0),
                         .scale = INPUT (call, plan, 1),
                         .mean_out = OUTPUT (call, plan, 0),
                         .inverse_out = OUTPUT (call, plan, 1),
                         .factor_out = OUTPUT (call, plan, 2) };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->rows, row_grain (plan), CALL (plan, group_rows),
                        (gpointer) &run);
}

/* GroupNormGrad (dy, x, scale[, mean, 1/deviation]) {num_groups, epsilon} → (dx, dscale, dbias) */
static gboolean
group_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  GroupPlan *plan = build_plan (setup, 1, setup->n_inputs > 3 ? 6 : 8, error);
  if (plan == NULL)
    return FALSE;
  for (guint i = 3; i < setup->n_inputs; i++)
    if (setup->inputs[i].n_elements != plan->rows * plan->per_group)
      {
        g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                     "%s: input %u does not have an element for each channel of each sample", setup->op_type, i);
        return FALSE;
      }
  setup->workspace_bytes = (gsize) plan->rows * (gsize) plan->per_group * 2 * sizeof (double);
  setup->inplace[0] = 1;
  setup->can_accumulate = 1 << 1 | 1 << 2;
  return TRUE;
}

static void
group_grad_run (const OrtrainKernelCall *call)
{
  const GroupPlan *plan = call->constants;
  const GroupRun run = { .plan = plan,
                         .dy = INPUT (call, plan, 0),
                         .x = INPUT (call, plan, 1),
                         .scale = INPUT (call, plan, 2),
                         .mean = INPUT (call, plan, 3),
                         .inverse = INPUT (call, plan, 4),
                         .y = OUTPUT (call, plan, 0),
                         .dscale = OUTPUT (call, plan, 1),
                         .dbias = OUTPUT (call, plan, 2),
                         .parts = call->workspace,
                         .accumulate = ortrain_kernel_get_accumulate (call) };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->rows, row_grain (plan), CALL (plan, group_grad_rows),
                        (gpointer) &run);
  if (run.dscale.data || run.dbias.data)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->groups * plan->per_group, 64,
                          CALL (plan, group_grad_finish), (gpointer) &run);
}

#define ROWS(name, domain, prefix)                                                                                     \
  { name, domain, ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                             \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED           \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("GroupNormalization", "", group),
  ROWS ("InstanceNormalization", "", group),
  ROWS ("GroupNormStatistics", "org.ortrain", statistics),
  ROWS ("GroupNormGrad", "org.ortrain", group_grad),
};
ORTRAIN_KERNEL_TABLE (group_norm, kernels);
