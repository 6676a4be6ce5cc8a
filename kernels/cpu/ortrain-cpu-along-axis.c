/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-integer-cases.h"

#include <math.h>

/* Operators along one axis, a line at a time: the position of the extreme, and running sums and products. */

/* ---- ArgMax, ArgMin: x [outer, n, inner] → int64 [outer, inner]; a NaN wins, as in NumPy. ---- */
typedef struct
{
  OrtrainDType dtype;
  gboolean max, last;
  gint64 outer, n, inner;
} ArgPlan;

typedef struct
{
  const ArgPlan *plan;
  gconstpointer x;
  gint64 *y;
} ArgRun;

#define ARG_SCAN(type, load)                                                                                           \
  {                                                                                                                    \
    const type *x = run->x;                                                                                            \
    x += i / plan->inner * plan->n * plan->inner + i % plan->inner;                                                    \
    gint64 best = 0;                                                                                                   \
    for (gint64 k = 1; k < plan->n; k++)                                                                               \
      {                                                                                                                \
        gint64 a = k * plan->inner, b = best * plan->inner;                                                            \
        gboolean better = plan->max ? load (x[a]) > load (x[b]) : load (x[a]) < load (x[b]);                           \
        gboolean equal = load (x[a]) == load (x[b]);                                                                   \
        gboolean a_nan = load (x[a]) != load (x[a]), b_nan = load (x[b]) != load (x[b]);                               \
        if (b_nan ? a_nan && plan->last : a_nan || better || (equal && plan->last))                                    \
          best = k;                                                                                                    \
      }                                                                                                                \
    run->y[i] = best;                                                                                                  \
    break;                                                                                                             \
  }
#define ARG_PLAIN(v) (v)
#define ARG_CASE(number, type)                                                                                         \
  case number:                                                                                                         \
    ARG_SCAN (type, ARG_PLAIN)

static void
arg_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ArgRun *run = data;
  const ArgPlan *plan = run->plan;
  for (gint64 i = begin; i < end; i++)
    switch ((int) plan->dtype)
      {
        ORTRAIN_CPU_INTEGER_CASES (ARG_CASE)
        ARG_CASE (ORTRAIN_DTYPE_FLOAT32, float)
        ARG_CASE (ORTRAIN_DTYPE_FLOAT64, double)
      case ORTRAIN_DTYPE_FLOAT16:
        ARG_SCAN (guint16, ortrain_half_to_float)
      case ORTRAIN_DTYPE_BFLOAT16:
        ARG_SCAN (guint16, ortrain_bfloat16_to_float)
      }
}

/* The axis attribute, counted from the front; splits the shape around it. */
static gboolean
split_at_axis (OrtrainKernelSetup *setup, gint64 axis, gint64 *outer, gint64 *n, gint64 *inner, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 rank = x->rank;
  if (axis < -rank || axis >= MAX (rank, 1))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: axis %" G_GINT64_FORMAT " is outside the rank %" G_GINT64_FORMAT, setup->op_type, axis, rank);
      return FALSE;
    }
  if (axis < 0)
    axis += rank;
  *outer = *n = *inner = 1;
  for (gint64 d = 0; d < rank; d++)
    *(d < axis ? outer : d == axis ? n : inner) *= x->dims[d];
  return TRUE;
}

static gboolean
arg_prepare (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree ArgPlan *plan = g_new0 (ArgPlan, 1);
  plan->dtype = setup->inputs[0].dtype;
  plan->max = g_str_equal (setup->op_type, "ArgMax");
  plan->last = ortrain_attributes_get_int (setup->attributes, "select_last_index", 0) != 0;
  if (!split_at_axis (setup, ortrain_attributes_get_int (setup->attributes, "axis", 0), &plan->outer, &plan->n,
                      &plan->inner, error))
    return FALSE;
  if (plan->n == 0 && setup->outputs[0].n_elements > 0)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s over an axis without elements",
                   setup->op_type);
      return FALSE;
    }
  setup->constants = g_steal_pointer (&plan);
  setup->constants_free = g_free;
  return TRUE;
}

static void
arg_run (const OrtrainKernelCall *call)
{
  const ArgPlan *plan = call->constants;
  ArgRun run = { plan, call->inputs[0], call->outputs[0] };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->outer * plan->inner, MAX (1, 16384 / MAX (1, plan->n)),
                        arg_units, &run);
}

/* ---- CumSum, CumProd: x [outer, n, inner], running along n ---- */
typedef struct
{
  OrtrainDType dtype, out_dtype, x_dtype; /* of inputs 0, output 0, and input 2 of the gradient */
  guint rank;
  gint64 dims[ORTRAIN_MAX_RANK];
  gint64 longest; /* of dims */
  gboolean product, exclusive, reverse, axis_is_int32;
} CumPlan;

typedef struct
{
  const CumPlan *plan;
  gconstpointer x, dy;
  gpointer y;
  double *after; /* [threads, longest]; see cum_grad_units */
  gint64 n, inner;
} CumRun;

#define CUM_SCAN(type, acc)                                                                                            \
  {                                                                                                                    \
    const type *x = run->x;                                                                                            \
    type *y = run->y;                                                                                                  \
    gint64 base = i / run->inner * run->n * run->inner + i % run->inner;                                               \
    acc sum = plan->product ? 1 : 0;                                                                                   \
    for (gint64 k = 0; k < run->n; k++)                                                                                \
      {                                                                                                                \
        gint64 at = base + (plan->reverse ? run->n - 1 - k : k) * run->inner;                                          \
        acc next = plan->product ? sum * (acc) x[at] : sum + (acc) x[at];                                              \
        y[at] = (type) (plan->exclusive ? sum : next);                                                                 \
        sum = next;                                                                                                    \
      }                                                                                                                \
    break;                                                                                                             \
  }
static void
cum_scan_mixed (const CumRun *run, gint64 i)
{
  const CumPlan *plan = run->plan;
  const gint64 base = i / run->inner * run->n * run->inner + i % run->inner;
  double sum = plan->product ? 1 : 0;
  for (gint64 k = 0; k < run->n; k++)
    {
      const gint64 at = base + (plan->reverse ? run->n - 1 - k : k) * run->inner;
      const double x = ortrain_elements_load_real (plan->dtype, run->x, at), next = plan->product ? sum * x : sum + x;
      ortrain_elements_store_real (plan->out_dtype, run->y, at, plan->exclusive ? sum : next);
      sum = next;
    }
}

#define CUM_CASE(number, type)                                                                                         \
  case number:                                                                                                         \
    CUM_SCAN (type, guint64)

static void
cum_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const CumRun *run = data;
  const CumPlan *plan = run->plan;
  for (gint64 i = begin; i < end; i++)
    switch ((int) (plan->dtype == plan->out_dtype ? plan->dtype : ORTRAIN_DTYPE_FLOAT16))
      {
      case ORTRAIN_DTYPE_FLOAT16:
      case ORTRAIN_DTYPE_BFLOAT16:
        cum_scan_mixed (run, i);
        break;
        ORTRAIN_CPU_INTEGER_CASES (CUM_CASE)
      case ORTRAIN_DTYPE_FLOAT32:
        CUM_SCAN (float, double)
      case ORTRAIN_DTYPE_FLOAT64:
        CUM_SCAN (double, double)
      }
}

/* An element that is exactly zero ends a product, also one that has left the range of double. */
static inline double
multiply (double factor, double product)
{
  return factor == 0 && isinf (product) ? 0 : factor * product;
}

/* dx[e] = (the product of the elements before e) · after[e], and after[e] = Σ dy[k] · (the product of those between e
 * and k) = dy[e] + x[e + 1] · after[e + 1]: linear, and right where elements are zero. With `exclusive`, dy counts one
 * element later. */
static void
cum_grad_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const CumRun *run = data;
  const CumPlan *plan = run->plan;
  double *after = run->after + (gsize) worker * (gsize) plan->longest;
  for (gint64 i = begin; i < end; i++)
    {
      const gint64 base = i / run->inner * run->n * run->inner + i % run->inner;
      double sum = 0, before = 1;
      for (gint64 e = run->n - 1; e >= 0; e--)
        {
          const gint64 at = base + (plan->reverse ? run->n - 1 - e : e) * run->inner;
          if (!plan->exclusive)
            sum += ortrain_elements_load_real (plan->dtype, run->dy, at);
          after[e] = sum;
          sum = multiply (ortrain_elements_load_real (plan->x_dtype, run->x, at), sum);
          if (plan->exclusive)
            sum += ortrain_elements_load_real (plan->dtype, run->dy, at);
        }
      for (gint64 e = 0; e < run->n; e++)
        {
          const gint64 at = base + (plan->reverse ? run->n - 1 - e : e) * run->inner;
          const double next = multiply (ortrain_elements_load_real (plan->x_dtype, run->x, at), before);
          ortrain_elements_store_real (plan->out_dtype, run->y, at, multiply (before, after[e]));
          before = next;
        }
    }
}

static gboolean
cum_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *axis = &setup->inputs[1];
  if (axis->n_elements != 1 || (axis->dtype != ORTRAIN_DTYPE_INT32 && axis->dtype != ORTRAIN_DTYPE_INT64))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: the axis is no whole number",
                   setup->op_type);
      return FALSE;
    }
  CumPlan *plan = g_new0 (CumPlan, 1);
  plan->dtype = setup->inputs[0].dtype;
  plan->out_dtype = setup->outputs[0].dtype;
  plan->product = g_str_equal (setup->op_type, "CumProd");
  plan->rank = setup->inputs[0].rank;
  memcpy (plan->dims, setup->inputs[0].dims, plan->rank * sizeof (gint64));
  plan->exclusive = ortrain_attributes_get_int (setup->attributes, "exclusive", 0) != 0;
  plan->reverse = ortrain_attributes_get_int (setup->attributes, "reverse", 0) != 0;
  plan->axis_is_int32 = setup->inputs[1].dtype == ORTRAIN_DTYPE_INT32;
  setup->inplace[0] = 1;
  setup->constants = plan;
  setup->constants_free = g_free;
  return TRUE;
}

static void
run_lines (const OrtrainKernelCall *call, CumRun run, OrtrainParallelFunc func)
{
  const CumPlan *plan = run.plan;
  gint64 axis = plan->axis_is_int32 ? *(const gint32 *) call->inputs[1] : *(const gint64 *) call->inputs[1];
  gint64 rank = plan->rank, outer = 1;
  if (axis < -rank || axis >= MAX (rank, 1))
    {
      ortrain_kernel_fault (call, ORTRAIN_FAULT_INDEX, 0, axis, rank);
      return;
    }
  if (axis < 0)
    axis += rank;
  for (gint64 d = 0; d < rank; d++)
    *(d < axis ? &outer : d == axis ? &run.n : &run.inner) *= plan->dims[d];
  ortrain_parallel_for (ortrain_cpu_get_pool (call), outer * run.inner, MAX (1, 16384 / MAX (1, run.n)), func, &run);
}

static void
cum_run (const OrtrainKernelCall *call)
{
  run_lines (call, (CumRun){ .plan = call->constants, .x = call->inputs[0], .y = call->outputs[0], .n = 1, .inner = 1 },
             cum_units);
}

/* CumProdGrad (dy, axis, x) → dx */
static gboolean
cum_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  if (!cum_prepare (setup, error))
    return FALSE;
  CumPlan *plan = setup->constants;
  plan->longest = 1;
  for (guint d = 0; d < plan->rank; d++)
    plan->longest = MAX (plan->longest, plan->dims[d]);
  plan->x_dtype = setup->inputs[2].dtype;
  setup->inplace[0] = 0;
  setup->workspace_bytes = (gsize) plan->longest * ortrain_cpu_get_n_threads (setup) * sizeof (double);
  return TRUE;
}

static void
cum_grad_run (const OrtrainKernelCall *call)
{
  CumRun run = { .plan = call->constants,
                 .dy = call->inputs[0],
                 .x = call->inputs[2],
                 .y = call->outputs[0],
                 .after = call->workspace,
                 .n = 1,
                 .inner = 1 };
  run_lines (call, run, cum_grad_units);
}

static const OrtrainKernel kernels[] = {
  { "ArgMax", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, arg_prepare, arg_run },
  { "ArgMin", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL, arg_prepare, arg_run },
  { "CumSum", "", ORTRAIN_DTYPES_F32F64 | ORTRAIN_DTYPES_INTEGER, cum_prepare, cum_run },
  { "CumSum", "", ORTRAIN_DTYPES_MIXED, cum_prepare, cum_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { "CumProd", "", ORTRAIN_DTYPES_F32F64 | ORTRAIN_DTYPES_INTEGER, cum_prepare, cum_run },
  { "CumProd", "", ORTRAIN_DTYPES_MIXED, cum_prepare, cum_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { "CumProdGrad", "org.ortrain", ORTRAIN_DTYPES_F32F64, cum_grad_prepare, cum_grad_run },
  { "CumProdGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, cum_grad_prepare, cum_grad_run,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
};
ORTRAIN_KERNEL_TABLE (along_axis, kernels);
