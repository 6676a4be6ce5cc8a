/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-copy-private.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "cpu/ortrain-cpu-gemm.h"
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
  gint64 first;  /* position that the pieces of the operands begin with */
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
      ortrain_kernel_fault (run->call, ORTRAIN_FAULT_INDEX, run->first + i, t, plan->n);
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

/* The divisor of a mean over positions of that weight: where nothing counts, the mean is 0, and so are its
 * gradients. */
static inline double
get_divisor (double weight)
{
  return weight != 0 ? weight : INFINITY;
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

/* ---- LinearCrossEntropy (x, weight, target[, dloss[, bias[, weights]]]) → (loss[, dx[, dweight[, dbias]]]) ----
 * Scores of `rows` positions lie in the workspace and become their own gradients there, from which the others are
 * computed before the next ones are. The pieces do not depend on the number of threads. */

typedef struct
{
  OrtrainCpuGemm scores, dx, dweight;
} LinearProducts;

typedef struct
{
  LossPlan loss;
  gint64 n_rows, rows, k;
  gboolean is_swapped;              /* dweight is [n, k] */
  gsize lse_at, parts_at, total_at; /* in the workspace, after the scores */
  LinearProducts whole, last;       /* of all pieces but the last, and of that */
} LinearLossPlan;

typedef struct
{
  const LinearLossPlan *plan;
  OrtrainRows dscores, dbias;
  gint64 rows;
  gboolean accumulate;
} BiasRun;

#define BIAS_GRAIN 512 /* classes */

/* dbias += the sum of the rows of dscores [rows, n], classes [begin, end) */
#define DEFINE_BIAS_UNITS(name, type, suffix)                                                                          \
  static void name (gpointer data, gint64 begin, gint64 end, guint worker)                                             \
  {                                                                                                                    \
    const BiasRun *run = data;                                                                                         \
    OrtrainRowsBuffer buffer;                                                                                          \
    type sums[BIAS_GRAIN] = { 0 };                                                                                     \
    ortrain_rows_buffer_init (&buffer);                                                                                \
    for (gint64 i = 0; i < run->rows; i++)                                                                             \
      {                                                                                                                \
        const type *row =                                                                                              \
            ortrain_rows_read_##suffix (&run->dscores, i * run->plan->loss.n + begin, end - begin, &buffer);           \
        ORTRAIN_INDEPENDENT                                                                                            \
        for (gint64 j = 0; j < end - begin; j++)                                                                       \
          sums[j] += row[j];                                                                                           \
      }                                                                                                                \
    for (gint64 j = 0; j < end - begin; j++)                                                                           \
      ortrain_rows_put_##suffix (&run->dbias, begin + j, sums[j], run->accumulate);                                    \
  }
DEFINE_BIAS_UNITS (bias_units_f32, float, f32)
DEFINE_BIAS_UNITS (bias_units_f64, double, f64)

static inline gsize
get_size (OrtrainDType dtype)
{
  return ortrain_dtype_is_half (dtype)    ? sizeof (guint16)
         : dtype == ORTRAIN_DTYPE_FLOAT32 ? sizeof (float)
                                          : sizeof (double);
}

static void
set_dtypes (OrtrainCpuGemm *gemm, OrtrainDType a, OrtrainDType b, OrtrainDType c, OrtrainDType bias)
{
  gemm->alpha = 1;
  gemm->n_batch = 1;
  gemm->is_double = a == ORTRAIN_DTYPE_FLOAT64;
  if (!ortrain_dtype_is_half (a) && !ortrain_dtype_is_half (b) && !ortrain_dtype_is_half (c) &&
      !ortrain_dtype_is_half (bias))
    return;
  gemm->a_dtype = a;
  gemm->b_dtype = b;
  gemm->c_dtype = c;
  gemm->bias_dtype = bias;
}

/* Plans the products for a piece of `rows` positions. */
static void
plan_products (LinearProducts *self, const LinearLossPlan *plan, const OrtrainKernelSetup *setup, gint64 rows)
{
  const gint64 n = plan->loss.n, k = plan->k;
  const OrtrainDType *in = plan->loss.types.inputs, *out = plan->loss.types.outputs, scores = in[0];
  const gboolean transposed = ortrain_attributes_get_int (setup->attributes, "transB", 0) != 0;
  const gboolean fixed = ortrain_cpu_has_fixed_partition (setup);
  const guint n_threads = ortrain_cpu_get_n_threads (setup);
  self->scores = (OrtrainCpuGemm){
    .m = rows,
    .n = n,
    .k = k,
    .lda = k,
    .trans_b = transposed,
    .ldb = transposed ? k : n,
    .ldc = n,
  };
  self->scores.has_bias = in[4] != ORTRAIN_DTYPE_UNDEFINED;
  self->scores.bias_column_stride = 1;
  self->scores.bias_scale = 1;
  set_dtypes (&self->scores, in[0], in[1], scores, in[4]);
  self->dx = (OrtrainCpuGemm){
    .m = rows,
    .n = k,
    .k = n,
    .lda = n,
    .trans_b = !transposed,
    .ldb = transposed ? k : n,
    .ldc = k,
  };
  set_dtypes (&self->dx, scores, in[1], out[1], ORTRAIN_DTYPE_UNDEFINED);
  self->dweight = (OrtrainCpuGemm){
    .m = plan->is_swapped ? n : k,
    .n = plan->is_swapped ? k : n,
    .k = rows,
    .trans_a = TRUE,
  };
  self->dweight.lda = self->dweight.m;
  self->dweight.ldb = self->dweight.ldc = self->dweight.n;
  set_dtypes (&self->dweight, plan->is_swapped ? scores : in[0], plan->is_swapped ? in[0] : scores, out[2],
              ORTRAIN_DTYPE_UNDEFINED);
  ortrain_cpu_gemm_plan (&self->scores, n_threads, fixed);
  ortrain_cpu_gemm_plan (&self->dx, n_threads, fixed);
  ortrain_cpu_gemm_plan (&self->dweight, n_threads, fixed);
}

/* Sums over several pieces are not rounded in between. */
static gboolean
linear_cross_entropy_takes (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs,
                            guint n_outputs)
{
  for (guint k = 2; k < n_outputs; k++)
    if (ortrain_dtype_is_half (outputs[k].dtype))
      return FALSE;
  return TRUE;
}

static gboolean
linear_cross_entropy_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *weight = &setup->inputs[1];
  const OrtrainOperand *bias = setup->n_inputs > 4 ? &setup->inputs[4] : NULL;
  const OrtrainOperand *dloss = setup->n_inputs > 3 ? &setup->inputs[3] : NULL;
  const gboolean transposed = ortrain_attributes_get_int (setup->attributes, "transB", 0) != 0;
  if (x->rank < 2 || weight->rank != 2)
    return ortrain_kernel_refuse (setup, error, "x needs rank 2 at least, and the weight rank 2");
  const gint64 k = x->dims[x->rank - 1], n = weight->dims[transposed ? 0 : 1];
  const gint64 n_rows = ortrain_kernel_product (x->dims, 0, x->rank - 1);
  gboolean has_gradients = FALSE;
  guint n_products = 1;
  for (guint i = 1; i < setup->n_outputs; i++)
    {
      const gboolean is_wanted = setup->outputs[i].dtype != ORTRAIN_DTYPE_UNDEFINED;
      has_gradients = has_gradients || is_wanted;
      n_products += is_wanted && i < 3; /* the gradients of x and of the weight */
    }
  if (weight->dims[transposed ? 1 : 0] != k)
    return ortrain_kernel_refuse (setup, error, "the weight does not fit the rows of x");
  if (bias != NULL && bias->dtype != ORTRAIN_DTYPE_UNDEFINED && bias->n_elements != n)
    return ortrain_kernel_refuse (setup, error, "a bias needs one number for each class");
  if (has_gradients && (dloss == NULL || dloss->dtype == ORTRAIN_DTYPE_UNDEFINED))
    return ortrain_kernel_refuse (setup, error, "gradients need that of the loss");
  gint64 n_scores;
  if (!ortrain_checked_mul_i64 (n_rows, n, &n_scores))
    return ortrain_kernel_refuse_memory (setup, error);
  const gint64 dims[] = { n_rows, n };
  const OrtrainOperand scores = { .dtype = x->dtype, .rank = 2, .dims = dims, .n_elements = n_scores };
  g_autofree LossPlan *loss =
      build_plan (setup, &scores, &setup->inputs[2], 1, setup->n_inputs > 5 ? &setup->inputs[5] : NULL, error);
  if (loss == NULL)
    return FALSE;
  LinearLossPlan *self = g_new0 (LinearLossPlan, 1);
  setup->constants = self;
  setup->constants_free = g_free;
  self->loss = *loss;
  self->n_rows = n_rows;
  self->k = k;
  self->is_swapped = ortrain_attributes_get_int (setup->attributes, "transW", 0) != 0;
  /* whole parts of sums, so that they do not depend on the pieces */
  self->rows = CLAMP (ortrain_attributes_get_int (setup->attributes, "rows", n_rows), 1, MAX (n_rows, 1));
  self->loss.grain = MIN (self->loss.grain, self->rows);
  self->rows -= self->rows % self->loss.grain;
  plan_products (&self->whole, self, setup, self->rows);
  plan_products (&self->last, self, setup, n_rows % self->rows);

  const gsize n_parts = (gsize) ((self->rows + self->loss.grain - 1) / self->loss.grain);
  gsize bytes;
  if (!ortrain_checked_mul ((gsize) (self->rows * n), get_size (x->dtype), &bytes))
    return ortrain_kernel_refuse_memory (setup, error);
  self->lse_at = (bytes + 63) & ~(gsize) 63;
  self->parts_at = self->lse_at + (((gsize) self->rows * sizeof (double) + 63) & ~(gsize) 63);
  self->total_at = self->parts_at + ((n_parts * 2 * sizeof (double) + 63) & ~(gsize) 63);
  setup->workspace_bytes = self->total_at + sizeof (double);
  if (setup->n_outputs > 1 && setup->outputs[1].dtype == x->dtype)
    setup->inplace[1] = 1 << 0;
  setup->can_accumulate = 1 << 2 | 1 << 3;
  setup->flops += 2.0 * n_products * (double) n_scores * (double) k;
  return TRUE;
}

static inline const void *
skip (OrtrainRows rows, gint64 n)
{
  return (const guint8 *) rows.data + n * (gint64) get_size (rows.dtype);
}

/* The sum of the weights of all positions, which the gradients of the first ones need. */
static void
store_total (const LinearLossPlan *plan, LossRun *run, gpointer to)
{
  if (plan->loss.dtype == ORTRAIN_DTYPE_FLOAT32)
    *(float *) to = (float) total_weight_f32 (run);
  else
    *(double *) to = total_weight_f64 (run);
  run->total_weight = (OrtrainRows){ to, plan->loss.dtype };
}

static void
linear_cross_entropy_run (const OrtrainKernelCall *call)
{
  const LinearLossPlan *plan = call->constants;
  const OrtrainRowsTypes *types = &plan->loss.types;
  const gboolean single = plan->loss.dtype == ORTRAIN_DTYPE_FLOAT32;
  const guint64 accumulate = ortrain_kernel_get_accumulate (call);
  OrtrainThreadPool *pool = ortrain_cpu_get_pool (call);
  guint8 *workspace = call->workspace;
  const OrtrainRows x = ortrain_rows_input (types, call, 0), dx = ortrain_rows_output (types, call, 1);
  const OrtrainRows dweight = ortrain_rows_output (types, call, 2), dbias = ortrain_rows_output (types, call, 3);
  const gint64 n = plan->loss.n, grain = plan->loss.grain;
  LossRun run = { .plan = &plan->loss, .call = call, .target = call->inputs[2] };
  run.weights = ortrain_rows_input (types, call, 5);
  run.dloss = ortrain_rows_input (types, call, 3);
  run.loss_out = ortrain_rows_output (types, call, 0);
  run.logits = run.y = (OrtrainRows){ workspace, x.dtype };
  run.lse_in = run.lse_out = (OrtrainRows){ workspace + plan->lse_at, plan->loss.dtype };
  run.parts = (gpointer) (workspace + plan->parts_at);
  if (plan->loss.smoothing != 0)
    run.weight_sum = single ? sum_weights_f32 (&run) : sum_weights_f64 (&run);
  const gboolean has_gradients = dx.data != NULL || dweight.data != NULL || dbias.data != NULL;
  if (has_gradients && plan->loss.reduction == REDUCTION_MEAN)
    store_total (plan, &run, workspace + plan->total_at);

  double sum = 0, weight = 0;
  for (gint64 row = 0; row < plan->n_rows || row == 0; row += plan->rows)
    {
      const gint64 rows = MIN (plan->rows, plan->n_rows - row);
      const LinearProducts *products = rows == plan->rows ? &plan->whole : &plan->last;
      const void *x_rows = skip (x, row * plan->k);
      const gboolean adds = row > 0;
      run.first = row;
      run.target = (const guint8 *) call->inputs[2] + row * (plan->loss.target_is_int32 ? 4 : 8);
      ortrain_cpu_gemm_run (&products->scores, pool, x_rows, call->inputs[1],
                            products->scores.has_bias ? call->inputs[4] : NULL, workspace);
      ortrain_parallel_for (pool, rows, grain, single ? loss_units_f32 : loss_units_f64, &run);
      for (gint64 i = 0; i * grain < rows; i++)
        {
          sum += run.parts[i * 2];
          weight += run.parts[i * 2 + 1];
        }
      if (has_gradients)
        ortrain_parallel_for (pool, rows, grain, single ? loss_grad_units_f32 : loss_grad_units_f64, &run);
      if (dbias.data != NULL)
        {
          BiasRun bias = { plan, run.y, dbias, rows, adds || (accumulate >> 3 & 1) };
          ortrain_parallel_for (pool, n, BIAS_GRAIN, single ? bias_units_f32 : bias_units_f64, &bias);
        }
      if (dweight.data != NULL)
        {
          OrtrainCpuGemm product = products->dweight;
          product.beta = adds || (accumulate >> 2 & 1) ? 1 : 0;
          ortrain_cpu_gemm_run (&product, pool, plan->is_swapped ? workspace : x_rows,
                                plan->is_swapped ? x_rows : workspace, NULL, dweight.data);
        }
      if (dx.data != NULL) /* perhaps over the rows of x */
        ortrain_cpu_gemm_run (&products->dx, pool, workspace, call->inputs[1], NULL, (void *) skip (dx, row * plan->k));
    }
  if (single)
    store_totals_f32 (&run, sum, weight);
  else
    store_totals_f64 (&run, sum, weight);
}

#define ROWS(name, domain, prefix)                                                                                     \
  { name, domain, ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                             \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED           \
  }

#define LINEAR_ROW(dtypes_, mixed)                                                                                     \
  {                                                                                                                    \
    .op_type = "LinearCrossEntropy", .domain = "org.ortrain", .dtypes = dtypes_,                                       \
    .prepare = linear_cross_entropy_prepare, .run = linear_cross_entropy_run, .mixed_dtypes = mixed,                   \
    .takes = linear_cross_entropy_takes                                                                                \
  }

static const OrtrainKernel kernels[] = {
  ROWS ("CrossEntropy", "org.ortrain", cross_entropy),
  ROWS ("CrossEntropyGrad", "org.ortrain", cross_entropy_grad),
  LINEAR_ROW (ORTRAIN_DTYPES_F32F64, 0),
  LINEAR_ROW (ORTRAIN_DTYPES_MIXED, ORTRAIN_DTYPES_MIXED),
  ROWS ("NegativeLogLikelihoodLoss", "", nll),
  ROWS ("NegativeLogLikelihoodLossGrad", "org.ortrain", nll_grad),
};
ORTRAIN_KERNEL_TABLE (loss, kernels);
