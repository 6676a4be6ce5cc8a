/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-rows.h"

/* Batch normalisation in three forms (inference, training, and the gradients of both), x: [rows, C, inner]
 * with planes of `inner` neighbours, or [rows, C] with inner 1.
 * Statistics are taken in one pass over memory: each unit of work (a plane, or a chunk of rows that fits the cache)
 * gives mean and squared deviation, and the units are joined in order, in double. Every operand has a type of its own
 * (see ortrain-cpu-rows.h). */

#define NORM_TILE 64    /* columns side by side */
#define NORM_PIECE 32   /* rows of them that are widened at once: as many as are summed in one go */
#define NORM_UNIT 16384 /* elements */

typedef struct
{
  OrtrainDType dtype;
  OrtrainRowsTypes types;
  gboolean planes, frozen;
  gint64 rows, channels, inner;
  gint64 units, units_per_channel, rows_per_unit;
  gint64 step; /* elements of a plane, or of a row, that are read at once */
  double epsilon, momentum;
  gsize table_offset;
} NormPlan;

typedef struct
{
  const NormPlan *plan;
  OrtrainRows x, dy, scale, bias, mean, var, inverse;
  OrtrainRows y, new_mean, new_var, saved_mean, saved_inverse, factor, dscale, dbias;
  double *parts;      /* two numbers per unit and channel */
  gpointer table;     /* per channel */
  guint64 accumulate; /* bits of dscale and dbias, outputs 1 and 2 */
} NormRun;

#define REAL float
#define R(name) name##_f32
#include "ortrain-cpu-batch-norm-template.h"
#undef REAL
#undef R
#define REAL double
#define R(name) name##_f64
#include "ortrain-cpu-batch-norm-template.h"
#undef REAL
#undef R

#define CALL(plan, name) ((plan)->dtype == ORTRAIN_DTYPE_FLOAT32 ? name##_f32 : name##_f64)

/* x: the operand of full shape. Workspace: parts, then a table of four numbers per channel. */
static NormPlan *
build_plan (OrtrainKernelSetup *setup, guint x_input, guint first, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[x_input], *scale = &setup->inputs[first];
  gboolean fits = x->rank >= 2;
  /* all that follow have one element for each channel */
  for (guint i = first; i < setup->n_inputs && fits; i++)
    {
      if (setup->inputs[i].dtype == ORTRAIN_DTYPE_UNDEFINED)
        continue;
      scale = &setup->inputs[i];
      fits = scale->n_elements == x->dims[1] && ortrain_rows_fit (scale, x);
    }
  if (!fits)
    {
      g_autofree char *shape = ortrain_shape_to_string (x->dims, x->rank);
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: %" G_GINT64_FORMAT " numbers of %s, one for each channel, for %s of shape %s", setup->op_type,
                   scale->n_elements, ortrain_dtype_get_name (scale->dtype), ortrain_dtype_get_name (x->dtype), shape);
      return NULL;
    }
  NormPlan *plan = g_new0 (NormPlan, 1);
  plan->dtype = ortrain_rows_get_compute_dtype (x);
  ortrain_rows_describe (&plan->types, setup);
  plan->rows = x->dims[0];
  plan->channels = x->dims[1];
  plan->inner = 1;
  for (guint d = 2; d < x->rank; d++)
    plan->inner *= x->dims[d];
  plan->planes = plan->inner > 1;
  plan->step = ortrain_rows_get_step (&plan->types, plan->planes ? plan->inner : plan->channels);
  plan->epsilon = ortrain_attributes_get_float (setup->attributes, "epsilon", 1e-5);
  plan->momentum = ortrain_attributes_get_float (setup->attributes, "momentum", 0.9);
  if (plan->planes)
    {
      plan->units_per_channel = plan->rows;
      plan->units = plan->rows * plan->channels;
    }
  else
    {
      /* chunks that fit the cache, but no more of them than are worth their workspace */
      plan->rows_per_unit = MAX (1, NORM_UNIT / MAX (1, plan->channels));
      plan->rows_per_unit = MAX (plan->rows_per_unit, (plan->rows + 511) / 512);
      plan->units = plan->units_per_channel = (plan->rows + plan->rows_per_unit - 1) / plan->rows_per_unit;
    }
  setup->flops = 8.0 * (double) x->n_elements;
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

static void
plan_workspace (OrtrainKernelSetup *setup, NormPlan *plan, gboolean parts)
{
  gsize per_unit = plan->planes ? 2 : 2 * (gsize) plan->channels;
  plan->table_offset = parts ? ((gsize) plan->units * per_unit * sizeof (double) + 63) & ~(gsize) 63 : 0;
  setup->workspace_bytes = plan->table_offset + 4 * (gsize) plan->channels * ortrain_dtype_get_size (plan->dtype);
}

static NormRun
start_run (const OrtrainKernelCall *call)
{
  const NormPlan *plan = call->constants;
  NormRun run = { .plan = plan, .parts = call->workspace };
  run.table = (guint8 *) call->workspace + plan->table_offset;
  return run;
}

static gint64
unit_grain (const NormPlan *plan)
{
  return plan->planes ? MAX (1, NORM_UNIT / MAX (1, plan->inner)) : 1;
}

/* Units of the passes that write: planes or rows. */
static void
run_apply (const OrtrainKernelCall *call, NormRun *run, OrtrainParallelFunc func)
{
  const NormPlan *plan = run->plan;
  gint64 n = plan->planes ? plan->units : plan->rows, size = plan->planes ? plan->inner : plan->channels;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), n, MAX (1, NORM_UNIT / MAX (1, size)), func, run);
}

static gboolean
is_wanted (const OrtrainKernelSetup *setup, guint output)
{
  return output < setup->n_outputs && setup->outputs[output].dtype != ORTRAIN_DTYPE_UNDEFINED;
}

static gboolean
has_statistics (const OrtrainKernelSetup *setup, gboolean mean, gboolean var, GError **error)
{
  if ((!mean || setup->inputs[3].dtype != ORTRAIN_DTYPE_UNDEFINED) &&
      (!var || setup->inputs[4].dtype != ORTRAIN_DTYPE_UNDEFINED))
    return TRUE;
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: the stored mean or variance is missing",
               setup->op_type);
  return FALSE;
}

/* BatchNormalization (x, scale, bias, mean, var) → y, with stored statistics */
static gboolean
inference_prepare (OrtrainKernelSetup *setup, GError **error)
{
  NormPlan *plan = build_plan (setup, 0, 1, error);
  if (plan == NULL || !has_statistics (setup, TRUE, TRUE, error))
    return FALSE;
  plan_workspace (setup, plan, FALSE);
  setup->inplace[0] = 1;
  return TRUE;
}

static void
inference_run (const OrtrainKernelCall *call)
{
  NormRun run = start_run (call);
  const NormPlan *plan = run.plan;
  run.x = ortrain_rows_input (&plan->types, call, 0);
  run.scale = ortrain_rows_input (&plan->types, call, 1);
  run.bias = ortrain_rows_input (&plan->types, call, 2);
  run.mean = ortrain_rows_input (&plan->types, call, 3);
  run.var = ortrain_rows_input (&plan->types, call, 4);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  CALL (plan, stored_channels) (&run);
  run_apply (call, &run, CALL (plan, apply_units));
}

/* BatchNormTrain (x, scale, bias, mean, var) → (y, new_mean, new_var, saved_mean, saved_inv_std, factor); without the
 * new ones, mean and var are not needed. y = (x - saved_mean)·factor + bias, which NormApply computes to the same bits.
 */
static gboolean
train_prepare (OrtrainKernelSetup *setup, GError **error)
{
  NormPlan *plan = build_plan (setup, 0, 1, error);
  if (plan == NULL || !has_statistics (setup, is_wanted (setup, 1), is_wanted (setup, 2), error))
    return FALSE;
  if (setup->outputs[0].dtype == ORTRAIN_DTYPE_UNDEFINED)
    setup->flops = 5.0 * (double) setup->inputs[0].n_elements;
  plan_workspace (setup, plan, TRUE);
  setup->inplace[0] = 1;
  setup->inplace[1] = 1 << 3;
  setup->inplace[2] = 1 << 4;
  return TRUE;
}

static void
train_run (const OrtrainKernelCall *call)
{
  NormRun run = start_run (call);
  const NormPlan *plan = run.plan;
  run.x = ortrain_rows_input (&plan->types, call, 0);
  run.scale = ortrain_rows_input (&plan->types, call, 1);
  run.bias = ortrain_rows_input (&plan->types, call, 2);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  run.mean = ortrain_rows_input (&plan->types, call, 3);
  run.var = ortrain_rows_input (&plan->types, call, 4);
  run.new_mean = ortrain_rows_output (&plan->types, call, 1);
  run.new_var = ortrain_rows_output (&plan->types, call, 2);
  run.saved_mean = ortrain_rows_output (&plan->types, call, 3);
  run.saved_inverse = ortrain_rows_output (&plan->types, call, 4);
  run.factor = ortrain_rows_output (&plan->types, call, 5);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->units, unit_grain (plan), CALL (plan, stat_units), &run);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->channels, 64, CALL (plan, stat_channels), &run);
  if (run.y.data)
    run_apply (call, &run, CALL (plan, apply_units));
}

/* BatchNormGrad (dy, x, scale, saved_mean, saved_inv_std) → (dx, dscale, dbias);
 * BatchNormFrozenGrad (dy, x or nothing, scale, mean, var) → (dx, dscale, dbias): x only for dscale */
static gboolean
grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *x = &setup->inputs[1];
  if (x->dtype != ORTRAIN_DTYPE_UNDEFINED && (!ortrain_rows_fit (x, dy) || x->n_elements != dy->n_elements))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: the gradient does not fit the input",
                   setup->op_type);
      return FALSE;
    }
  NormPlan *plan = build_plan (setup, 0, 2, error);
  if (plan == NULL)
    return FALSE;
  plan->frozen = g_str_equal (setup->op_type, "BatchNormFrozenGrad");
  plan_workspace (setup, plan, TRUE);
  setup->inplace[0] = 1;
  setup->can_accumulate = 1 << 1 | 1 << 2;
  return TRUE;
}

static void
grad_run (const OrtrainKernelCall *call)
{
  NormRun run = start_run (call);
  const NormPlan *plan = run.plan;
  run.dy = ortrain_rows_input (&plan->types, call, 0);
  run.x = ortrain_rows_input (&plan->types, call, 1);
  run.scale = ortrain_rows_input (&plan->types, call, 2);
  run.mean = ortrain_rows_input (&plan->types, call, 3);
  *(plan->frozen ? &run.var : &run.inverse) = ortrain_rows_input (&plan->types, call, 4);
  run.accumulate = ortrain_kernel_get_accumulate (call);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  run.dscale = ortrain_rows_output (&plan->types, call, 1);
  run.dbias = ortrain_rows_output (&plan->types, call, 2);
  if (!plan->frozen || run.dscale.data || run.dbias.data)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->units, unit_grain (plan), CALL (plan, grad_sum_units),
                          &run);
  else
    memset (run.parts, 0, plan->table_offset);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->channels, 64, CALL (plan, grad_channels), &run);
  if (run.y.data)
    run_apply (call, &run, CALL (plan, grad_apply_units));
}

#define ROWS(name, domain, prefix)                                                                                     \
  { name, domain, ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                             \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED           \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("BatchNormalization", "", inference),
  ROWS ("BatchNormTrain", "org.ortrain", train),
  ROWS ("BatchNormGrad", "org.ortrain", grad),
  ROWS ("BatchNormFrozenGrad", "org.ortrain", grad),
};
ORTRAIN_KERNEL_TABLE (batch_norm, kernels);
