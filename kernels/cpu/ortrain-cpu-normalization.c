/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-rows.h"

/* Normalisation with statistics of the sample itself: over the last axes (layer, root mean square), over neighbouring
 * channels (LRN). Rows are short enough to stay in the cache between the
 * passes over them; gradients of parameters are summed per chunk of rows, and the chunks joined in order. Every operand
 * has a type of its own (see ortrain-cpu-rows.h). */

#define NORM_MAX_CHUNKS 64
#define PARAMETERS (1 << 1 | 1 << 2) /* dscale and dbias among the outputs */

typedef struct
{
  OrtrainDType dtype;
  OrtrainRowsTypes types;
  gboolean centred;
  double epsilon;
  gint64 rows, n; /* the normalised elements: rows of n */
  gint64 step;    /* elements of a row that are read at once */
  gint64 chunks, rows_per_chunk;
  gint64 channels, inner, size; /* LRN */
  double alpha, beta, bias;
  gsize table_offset;
} NormPlan;

typedef struct
{
  const NormPlan *plan;
  OrtrainRows x, dy, scale, bias, mean, inverse;
  OrtrainRows y, mean_out, inverse_out, dscale, dbias;
  double *parts;
  gpointer table;
  guint64 accumulate; /* bits of dscale and dbias, outputs 1 and 2 */
} NormRun;

#define REAL float
#define R(name) name##_f32
#include "ortrain-cpu-normalization-template.h"
#undef REAL
#undef R
#define REAL double
#define R(name) name##_f64
#include "ortrain-cpu-normalization-template.h"
#undef REAL
#undef R

#define CALL(plan, name) ((plan)->dtype == ORTRAIN_DTYPE_FLOAT32 ? name##_f32 : name##_f64)
#define INPUT(call, plan, i) ortrain_rows_input (&(plan)->types, call, i)
#define OUTPUT(call, plan, k) ortrain_rows_output (&(plan)->types, call, k)

static NormPlan *
new_plan (OrtrainKernelSetup *setup, const OrtrainOperand *x)
{
  NormPlan *plan = g_new0 (NormPlan, 1);
  plan->dtype = ortrain_rows_get_compute_dtype (x);
  ortrain_rows_describe (&plan->types, setup);
  plan->centred = TRUE;
  plan->epsilon = ortrain_attributes_get_float (setup->attributes, "epsilon", 1e-5);
  setup->flops = 8.0 * (double) x->n_elements;
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

static gboolean
refuse (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *scale, GError **error)
{
  g_autofree char *a = ortrain_shape_to_string (x->dims, x->rank);
  g_autofree char *b = ortrain_shape_to_string (scale->dims, scale->rank);
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: a scale of %s %s does not fit %s %s",
               setup->op_type, ortrain_dtype_get_name (scale->dtype), b, ortrain_dtype_get_name (x->dtype), a);
  return FALSE;
}

/* A bias, where there is one, is as the scale is. */
static gboolean
bias_fits (const OrtrainKernelSetup *setup)
{
  const OrtrainOperand *scale = &setup->inputs[1], *bias = &setup->inputs[2];
  return setup->n_inputs < 3 || bias->dtype == ORTRAIN_DTYPE_UNDEFINED ||
         (ortrain_rows_fit (bias, scale) && bias->n_elements == scale->n_elements);
}

static gint64
row_grain (const NormPlan *plan)
{
  return MAX (1, 16384 / MAX (1, plan->n));
}

static gboolean
build_layer (OrtrainKernelSetup *setup, NormPlan *plan, const OrtrainOperand *x, const OrtrainOperand *scale,
             GError **error)
{
  gint64 rank = x->rank, axis = ortrain_attributes_get_int (setup->attributes, "axis", -1);
  axis += axis < 0 ? rank : 0;
  plan->rows = plan->n = 1;
  for (gint64 d = 0; d < rank; d++)
    *(d < axis ? &plan->rows : &plan->n) *= x->dims[d];
  plan->step = ortrain_rows_get_step (&plan->types, plan->n);
  plan->centred = !g_str_has_prefix (setup->op_type, "RMS");
  if (axis < 0 || axis >= MAX (rank, 1) || scale->n_elements != plan->n || !ortrain_rows_fit (scale, x))
    {
      g_clear_pointer (&setup->constants, g_free);
      return refuse (setup, x, scale, error);
    }
  return TRUE;
}

/* LayerNormalization (x, scale[, bias]) → (y[, mean, 1/deviation]); RMSNormalization (x, scale) → y */
static gboolean
layer_prepare (OrtrainKernelSetup *setup, GError **error)
{
  if (!bias_fits (setup))
    return refuse (setup, &setup->inputs[0], &setup->inputs[2], error);
  NormPlan *plan = new_plan (setup, &setup->inputs[0]);
  setup->inplace[0] = 1;
  return build_layer (setup, plan, &setup->inputs[0], &setup->inputs[1], error);
}

static void
layer_run (const OrtrainKernelCall *call)
{
  const NormPlan *plan = call->constants;
  NormRun run = { .plan = plan, .x = INPUT (call, plan, 0), .scale = INPUT (call, plan, 1) };
  run.bias = INPUT (call, plan, 2);
  run.y = OUTPUT (call, plan, 0);
  run.mean_out = OUTPUT (call, plan, 1);
  run.inverse_out = OUTPUT (call, plan, 2);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->rows, row_grain (plan), CALL (plan, layer_rows), &run);
}

/* LayerNormGrad (dy, x, scale, mean, 1/deviation), RMSNormGrad (dy, x, scale) → (dx, dscale, dbias) */
static gboolean
layer_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  NormPlan *plan = new_plan (setup, &setup->inputs[1]);
  if (!build_layer (setup, plan, &setup->inputs[1], &setup->inputs[2], error))
    return FALSE;
  for (guint i = 0; i < setup->n_inputs; i++)
    if (i != 2 && setup->inputs[i].n_elements != (i < 2 ? plan->rows * plan->n : plan->rows))
      return refuse (setup, &setup->inputs[1], &setup->inputs[i], error);
  plan->rows_per_chunk = MAX (MAX (1, 16384 / MAX (1, plan->n)), (plan->rows + NORM_MAX_CHUNKS - 1) / NORM_MAX_CHUNKS);
  plan->chunks = (plan->rows + plan->rows_per_chunk - 1) / plan->rows_per_chunk;
  gboolean params = FALSE;
  for (guint k = 1; k < setup->n_outputs; k++)
    params |= setup->outputs[k].dtype != ORTRAIN_DTYPE_UNDEFINED;
  if (params)
    {
      gsize sums = (gsize) plan->chunks * (gsize) plan->n * 2;
      plan->table_offset = (sums * sizeof (double) + 63) & ~(gsize) 63;
      setup->workspace_bytes = plan->table_offset + sums * ortrain_dtype_get_size (plan->dtype);
    }
  setup->inplace[0] = 1;
  setup->can_accumulate = PARAMETERS;
  return TRUE;
}

static void
layer_grad_run (const OrtrainKernelCall *call)
{
  const NormPlan *plan = call->constants;
  NormRun run = {
    .plan = plan, .dy = INPUT (call, plan, 0), .x = INPUT (call, plan, 1), .scale = INPUT (call, plan, 2)
  };
  run.mean = INPUT (call, plan, 3);
  run.inverse = INPUT (call, plan, 4);
  run.accumulate = ortrain_kernel_get_accumulate (call);
  run.y = OUTPUT (call, plan, 0);
  run.dscale = OUTPUT (call, plan, 1);
  run.dbias = OUTPUT (call, plan, 2);
  run.parts = call->workspace;
  run.table = (guint8 *) call->workspace + plan->table_offset;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->chunks, 1, CALL (plan, layer_grad_chunk), &run);
  if (run.dscale.data || run.dbias.data)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n, 512, CALL (plan, layer_grad_finish), &run);
}

/* LRN (x), LRNGrad (dy, x) */
static gboolean
lrn_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[setup->n_inputs - 1];
  gint64 size = ortrain_attributes_get_int (setup->attributes, "size", 0);
  if (x->rank < 2 || size < 1)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: rank %u with a window of %" G_GINT64_FORMAT ", at least 2 and 1 are needed", setup->op_type,
                   x->rank, size);
      return FALSE;
    }
  NormPlan *plan = new_plan (setup, x);
  plan->size = size;
  plan->alpha = ortrain_attributes_get_float (setup->attributes, "alpha", 1e-4);
  plan->beta = ortrain_attributes_get_float (setup->attributes, "beta", 0.75);
  plan->bias = ortrain_attributes_get_float (setup->attributes, "bias", 1);
  plan->rows = x->dims[0];
  plan->channels = x->dims[1];
  plan->inner = 1;
  for (guint d = 2; d < x->rank; d++)
    plan->inner *= x->dims[d];
  setup->flops += 2.0 * (double) x->n_elements * (double) MIN (size, plan->channels);
  if (setup->n_inputs > 1)
    setup->workspace_bytes = (gsize) ortrain_cpu_get_n_threads (setup) * 2 * (gsize) plan->channels * sizeof (double);
  return TRUE;
}

static void
lrn_run (const OrtrainKernelCall *call)
{
  const NormPlan *plan = call->constants;
  gboolean grad = plan->types.inputs[1] != ORTRAIN_DTYPE_UNDEFINED;
  NormRun run = { .plan = plan, .x = INPUT (call, plan, grad ? 1 : 0) };
  if (grad)
    run.dy = INPUT (call, plan, 0);
  run.y = OUTPUT (call, plan, 0);
  run.parts = call->workspace;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->rows * plan->inner, MAX (1, 1024 / MAX (1, plan->channels)),
                        grad ? CALL (plan, lrn_grad_units) : CALL (plan, lrn_units), &run);
}

#define ROWS(name, domain, prefix)                                                                                     \
  { name, domain, ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                             \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED           \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("LayerNormalization", "", layer),
  ROWS ("LayerNormGrad", "org.ortrain", layer_grad),
  ROWS ("RMSNormalization", "", layer),
  ROWS ("RMSNormGrad", "org.ortrain", layer_grad),
  ROWS ("LRN", "", lrn),
  ROWS ("LRNGrad", "org.ortrain", lrn),
};
ORTRAIN_KERNEL_TABLE (normalization, kernels);
