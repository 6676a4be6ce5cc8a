/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-lanes.h"
#include "ortrain-cpu-rows.h"

/* Losses over classes. Log-probabilities are never materialised: the forward pass keeps one number per position, the
 * backward pass makes the gradient from it, over the logits where the plan allows. Logits are [outer, n, inner]; every
 * floating-point operand has a type of its own (see ortrain-cpu-rows.h). */

#define LOSS_TILE 64    /* positions side by side */
#define LOSS_BLOCK 2048 /* classes of one position */
#define LOSS_PIECE 512  /* the same, written with 16 bits: short, so that conversions and exponentials overlap */

typedef enum
{
  REDUCTION_MEAN,
  REDUCTION_SUM,
  REDUCTION_NONE,
} LossReduction;

typedef struct
{
  OrtrainDType dtype;
  OrtrainRowsTypes types;
  gboolean target_is_int32;
  LossReduction reduction;
  gboolean has_ignore;
  gint64 ignore;
  double smoothing;
  gint64 outer, n, inner;
  gint64 step;  /* classes of one position that are read at once */
  gint64 grain; /* positions per chunk */
} LossPlan;

typedef struct
{
  const LossPlan *plan;
  const OrtrainKernelCall *call;
  gconstpointer target;
  OrtrainRows logits, weights, lse_in, total_weight, dloss;
  OrtrainRows lse_out, loss_out, total_out, y;
  double *parts; /* [chunks, 2]: loss, weight */
  double weight_sum, total;
} LossRun;

/* FALSE where the position does not count. */
static inline gboolean
read_target (const LossRun *run, gint64 i, gint64 *target)
{
  const LossPlan *plan = run->plan;
  gint64 t = plan->target_is_int32 ? ((const gint32 *) run->target)[i] : ((const gint64 *) run->target)[i];
  *target = t;
  if (plan->has_ignore && t == plan->ignore)
    return FALSE;
  if (t < 0 || t >= plan->n)
    {
      ortrain_kernel_fault (run->call, ORTRAIN_FAULT_INDEX, i, t, plan->n);
      return FALSE;
    }
  return TRUE;
}

static inline void
clear_elements (const OrtrainRows *rows, gint64 at, gint64 n)
{
  const gsize size = ortrain_dtype_is_half (rows->dtype)    ? sizeof (guint16)
                     : rows->dtype == ORTRAIN_DTYPE_FLOAT32 ? sizeof (float)
                                                            : sizeof (double);
  memset ((guint8 *) rows->data + (gsize) at * size, 0, (gsize) n * size);
}

#define REAL float
#define R(name) name##_f32
#define EXP(x) ortrain_lane_expf (x)
#include "ortrain-cpu-loss-template.h"
#undef REAL
#undef R
#undef EXP
#define REAL double
#define R(name) name##_f64
#define EXP(x) exp (x)
#include "ortrain-cpu-loss-template.h"
#undef REAL
#undef R
#undef EXP

/* logits: shape of the operand that has classes; axis: where they are. */
static LossPlan *
build_plan (OrtrainKernelSetup *setup, const OrtrainOperand *logits, const OrtrainOperand *target, gint64 axis,
            const OrtrainOperand *weights, GError **error)
{
  gint64 rank = logits->rank;
  if (rank == 0 || axis < -rank || axis >= rank)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: axis %" G_GINT64_FORMAT " is outside the rank %" G_GINT64_FORMAT, setup->op_type, axis, rank);
      return NULL;
    }
  g_autofree LossPlan *plan = g_new0 (LossPlan, 1);
  const char *reduction = ortrain_attributes_get_string (setup->attributes, "reduction", "mean");
  axis += axis < 0 ? rank : 0;
  plan->outer = plan->n = plan->inner = 1;
  for (gint64 d = 0; d < rank; d++)
    *(d < axis ? &plan->outer : d == axis ? &plan->n : &plan->inner) *= logits->dims[d];
  if ((target->dtype != ORTRAIN_DTYPE_INT32 && target->dtype != ORTRAIN_DTYPE_INT64) ||
      target->n_elements != plan->outer * plan->inner)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: %" G_GINT64_FORMAT " targets for %" G_GINT64_FORMAT
                   " positions of the logits; one int32 or int64 target is needed for each",
                   setup->op_type, target->n_elements, plan->outer * plan->inner);
      return NULL;
    }
  if (weights && weights->dtype != ORTRAIN_DTYPE_UNDEFINED &&
      (weights->n_elements != plan->n || !ortrain_rows_fit (weights, logits)))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: %" G_GINT64_FORMAT " class weights of %s for %" G_GINT64_FORMAT " classes of %s",
                   setup->op_type, weights->n_elements, ortrain_dtype_get_name (weights->dtype), plan->n,
                   ortrain_dtype_get_name (logits->dtype));
      return NULL;
    }
  plan->dtype = ortrain_rows_get_compute_dtype (logits);
  ortrain_rows_describe (&plan->types, setup);
  plan->step = ortrain_rows_get_step (&plan->types, plan->n);
  plan->target_is_int32 = target->dtype == ORTRAIN_DTYPE_INT32;
  plan->reduction = g_str_equal (reduction, "none")  ? REDUCTION_NONE
                    : g_str_equal (reduction, "sum") ? REDUCTION_SUM
                                                     : REDUCTION_MEAN;
  plan->has_ignore = ortrain_attributes_has (setup->attributes, "ignore_index");
  plan->ignore = ortrain_attributes_get_int (setup->attributes, "ignore_index", 0);
  plan->smoothing = ortrain_attributes_get_float (setup->attributes, "label_smoothing", 0);
  plan->grain = MAX (1, 16384 / MAX (1, plan->n));
  if (plan->inner > 1) /* whole tiles */
    plan->grain = MAX (plan->grain, LOSS_TILE);
  setup->flops = 12.0 * (double) logits->n_elements;
  return g_steal_pointer (&plan);
}

static gsize
parts_bytes (const LossPlan *plan)
{
  return (gsize) ((plan->outer * plan->inner + plan->grain - 1) / plan->grain) * 2 * sizeof (double);
}

static void
run_forward (const OrtrainKernelCall *call, LossRun *run, OrtrainParallelFunc single, OrtrainParallelFunc wide)
{
  const LossPlan *plan = run->plan;
  gint64 n = plan->outer * plan->inner;
  double sum = 0, weight = 0;
  run->call = call;
  run->parts = call->workspace;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), n, plan->grain,
                        plan->dtype == ORTRAIN_DTYPE_FLOAT32 ? single : wide, run);
  for (gint64 k = 0; k * plan->grain < n; k++)
    {
      sum += run->parts[k * 2];
      weight += run->parts[k * 2 + 1];
    }
  if (plan->dtype == ORTRAIN_DTYPE_FLOAT32)
    store_totals_f32 (run, sum, weight);
  else
    store_totals_f64 (run, sum, weight);
}

/* CrossEntropy (logits, target[, weights]) → (loss, lse, total_weight) */
static gboolean
cross_entropy_prepare (OrtrainKernelSetup *setup, GError **error)
{
  LossPlan *plan = build_plan (setup, &setup->inputs[0], &setup->inputs[1],
                               ortrain_attributes_get_int (setup->attributes, "axis", -1),
                               setup->n_inputs > 2 ? &setup->inputs[2] : NULL, error);
  if (plan == NULL)
    return FALSE;
  setup->workspace_bytes = parts_bytes (plan);
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static void
cross_entropy_run (const OrtrainKernelCall *call)
{
  const LossPlan *plan = call->constants;
  LossRun run = { .plan = plan, .target = call->inputs[1] };
  run.logits = ortrain_rows_input (&plan->types, call, 0);
  run.weights = ortrain_rows_input (&plan->types, call, 2);
  run.loss_out = ortrain_rows_output (&plan->types, call, 0);
  run.lse_out = ortrain_rows_output (&plan->types, call, 1);
  run.total_out = ortrain_rows_output (&plan->types, call, 2);
  if (plan->smoothing != 0)
    run.weight_sum = plan->dtype == ORTRAIN_DTYPE_FLOAT32 ? sum_weights_f32 (&run) : sum_weights_f64 (&run);
  run_forward (call, &run, loss_units_f32, loss_units_f64);
}

/* CrossEntropyGrad (dloss, logits, target, lse, total_weight[, weights]) → dlogits */
static gboolean
cross_entropy_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  LossPlan *plan = build_plan (setup, &setup->inputs[1], &setup->inputs[2],
                               ortrain_attributes_get_int (setup->attributes, "axis", -1),
                               setup->n_inputs > 5 ? &setup->inputs[5] : NULL, error);
  if (plan == NULL)
    return FALSE;
  setup->inplace[0] = 1 << 1;
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static void
cross_entropy_grad_run (const OrtrainKernelCall *call)
{
  const LossPlan *plan = call->constants;
  gboolean single = plan->dtype == ORTRAIN_DTYPE_FLOAT32;
  LossRun run = { .plan = plan, .call = call, .target = call->inputs[2] };
  run.dloss = ortrain_rows_input (&plan->types, call, 0);
  run.logits = ortrain_rows_input (&plan->types, call, 1);
  run.lse_in = ortrain_rows_input (&plan->types, call, 3);
  run.total_weight = ortrain_rows_input (&plan->types, call, 4);
  run.weights = ortrain_rows_input (&plan->types, call, 5);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  if (plan->smoothing != 0)
    run.weight_sum = single ? sum_weights_f32 (&run) : sum_weights_f64 (&run);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->outer * plan->inner, plan->grain,
                        single ? loss_grad_units_f32 : loss_grad_units_f64, &run);
}

/* NegativeLogLikelihoodLoss (x, target[, weights]), classes on axis 1 */
static gboolean
nll_prepare (OrtrainKernelSetup *setup, GError **error)
{
  LossPlan *plan = build_plan (setup, &setup->inputs[0], &setup->inputs[1], 1,
                               setup->n_inputs > 2 ? &setup->inputs[2] : NULL, error);
  if (plan == NULL)
    return FALSE;
  plan->grain = 4096;
  setup->workspace_bytes = parts_bytes (plan);
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static void
nll_run (const OrtrainKernelCall *call)
{
  const LossPlan *plan = call->constants;
  LossRun run = { .plan = plan, .target = call->inputs[1] };
  run.logits = ortrain_rows_input (&plan->types, call, 0);
  run.weights = ortrain_rows_input (&plan->types, call, 2);
  run.loss_out = ortrain_rows_output (&plan->types, call, 0);
  run_forward (call, &run, nll_units_f32, nll_units_f64);
}

/* NegativeLogLikelihoodLossGrad (dloss, target, shape of x[, weights]) → dx */
static gboolean
nll_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  LossPlan *plan = build_plan (setup, &setup->outputs[0], &setup->inputs[1], 1,
                               setup->n_inputs > 3 ? &setup->inputs[3] : NULL, error);
  if (plan == NULL)
    return FALSE;
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static void
nll_grad_run (const OrtrainKernelCall *call)
{
  const LossPlan *plan = call->constants;
  gboolean single = plan->dtype == ORTRAIN_DTYPE_FLOAT32;
  LossRun run = { .plan = plan, .call = call, .target = call->inputs[1] };
  run.dloss = ortrain_rows_input (&plan->types, call, 0);
  run.weights = ortrain_rows_input (&plan->types, call, 3);
  run.y = ortrain_rows_output (&plan->types, call, 0);
  if (plan->reduction == REDUCTION_MEAN)
    run.total = single ? total_weight_f32 (&run) : total_weight_f64 (&run);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->outer * plan->inner, plan->grain,
                        single ? nll_grad_units_f32 : nll_grad_units_f64, &run);
}

#define ROWS(name, domain, prefix)                                                                                     \
  { name, domain, ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                             \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED           \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("CrossEntropy", "org.ortrain", cross_entropy),
  ROWS ("CrossEntropyGrad", "org.ortrain", cross_entropy_grad),
  ROWS ("NegativeLogLikelihoodLoss", "", nll),
  ROWS ("NegativeLogLikelihoodLossGrad", "org.ortrain", nll_grad),
};
ORTRAIN_KERNEL_TABLE (loss, kernels);
