/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-integer-cases.h"
#include "ortrain-cpu-lanes.h"

#include "common/ortrain-integer-log.h"

/* Reductions over any set of axes. Neighbouring axes of one kind are merged, so that a few kept and reduced dimensions
 * remain, and an innermost one that is either kept ([N, C] → [C]: columns) or reduced ([N, C] → [N]: rows). Long
 * reductions are split by shape alone, and the parts joined in order, in double. Elements of 16 bits are widened as
 * they are read, and results of 16 bits are rounded from float32. */

typedef enum
{
  REDUCE_SUM,
  REDUCE_ABS,
  REDUCE_SQUARE,
  REDUCE_EXP,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_PROD,
} ReduceOp;

typedef enum
{
  FINISH_NONE,
  FINISH_MEAN,
  FINISH_SQRT,
  FINISH_LOG,
  FINISH_LOG_SHIFT,
} ReduceFinish;

#define REDUCE_TILE 512      /* results side by side in one unit of work */
#define REDUCE_ROWS 16       /* of a column, that are added as singles */
#define REDUCE_SEGMENT 16384 /* elements of a contiguous run that are read at once */
#define REDUCE_UNIT 65536    /* elements that are worth a unit of work */
#define REDUCE_MAX_SPLITS 64

typedef struct
{
  OrtrainDType dtype, out_dtype;
  OrtrainDType grad_dtype; /* type of the gradient of a product's output */
  ReduceOp op;
  ReduceFinish finish;
  gint64 n_in, n_out;
  gint64 count; /* elements that go into one result */
  gint n_kept, n_reduced;
  gint64 kept_size[ORTRAIN_MAX_RANK], kept_in[ORTRAIN_MAX_RANK], kept_out[ORTRAIN_MAX_RANK];
  gint64 reduced_size[ORTRAIN_MAX_RANK], reduced_in[ORTRAIN_MAX_RANK];
  gboolean inner_kept;
  gint64 inner, inner_out;
  gint64 outer_kept; /* product of kept_size */
  gint64 segments;   /* of the inner dimension, when it is reduced */
  gint64 n_rows;     /* reduced outer size; times segments when the inner dimension is reduced */
  gint64 tile_width, tiles, splits, rows_per_split;
  gint64 n_units;
  gsize shift_offset; /* in the workspace, after the parts */
} ReducePlan;

typedef struct
{
  const ReducePlan *plan;
  ReduceOp op;
  gconstpointer x;
  gpointer y;
  gconstpointer shift;
  gpointer shift_out;
  double *partials;
  double identity;
  gboolean accumulate;
} ReduceRun;

static inline gint64
offset_of (gint64 index, gint n, const gint64 *size, const gint64 *stride)
{
  gint64 offset = 0;
  if (n == 1)
    return index * stride[0];
  for (gint d = n - 1; d >= 0; d--)
    {
      offset += index % size[d] * stride[d];
      index /= size[d];
    }
  return offset;
}

static inline double
combine (ReduceOp op, double a, double b)
{
  switch (op)
    {
    case REDUCE_SUM:
    case REDUCE_ABS:
    case REDUCE_SQUARE:
    case REDUCE_EXP:
      return a + b;
    case REDUCE_MAX:
      return b > a || isnan (b) ? b : a;
    case REDUCE_MIN:
      return b < a || isnan (b) ? b : a;
    case REDUCE_PROD:
      return a * b;
    }
  return a;
}

static inline double
identity_of (ReduceOp op)
{
  switch (op)
    {
    case REDUCE_SUM:
    case REDUCE_ABS:
    case REDUCE_SQUARE:
    case REDUCE_EXP:
      return 0;
    case REDUCE_MAX:
      return -INFINITY;
    case REDUCE_MIN:
      return INFINITY;
    case REDUCE_PROD:
      return 1;
    }
  return 0;
}

static inline double
finalize (const ReducePlan *plan, double total, double shift)
{
  switch (plan->finish)
    {
    case FINISH_NONE:
      return total;
    case FINISH_MEAN:
      return total / (double) plan->count;
    case FINISH_SQRT:
      return sqrt (total);
    case FINISH_LOG:
      return log (total);
    case FINISH_LOG_SHIFT:
      return log (total) + shift;
    }
  return total;
}

/* Result i, of 16 bits. */
static inline void
store_half (const ReduceRun *run, gint64 i, double total)
{
  guint16 *y = (guint16 *) run->y + i;
  const OrtrainDType dtype = run->plan->out_dtype;
  *y = ortrain_dtype_narrow (dtype,
                             (float) (run->accumulate ? (double) ortrain_dtype_widen (dtype, *y) + total : total));
}

#define REAL float
#define R(name) name##_f32
#define EXP(x) ortrain_lane_expf (x)
#include "ortrain-cpu-reduction-template.h"
#undef REAL
#undef R
#undef EXP
#define REAL double
#define R(name) name##_f64
#define EXP(x) exp (x)
#include "ortrain-cpu-reduction-template.h"
#undef REAL
#undef R
#undef EXP

static const struct
{
  const char *op_type;
  ReduceOp op;
  ReduceFinish finish;
} reduce_ops[] = {
  { "ReduceSum", REDUCE_SUM, FINISH_NONE },
  { "SumTo", REDUCE_SUM, FINISH_NONE },
  { "ReduceMean", REDUCE_SUM, FINISH_MEAN },
  { "ReduceMax", REDUCE_MAX, FINISH_NONE },
  { "ReduceMin", REDUCE_MIN, FINISH_NONE },
  { "ReduceProd", REDUCE_PROD, FINISH_NONE },
  { "ReduceL1", REDUCE_ABS, FINISH_NONE },
  { "ReduceL2", REDUCE_SQUARE, FINISH_SQRT },
  { "ReduceSumSquare", REDUCE_SQUARE, FINISH_NONE },
  { "ReduceLogSum", REDUCE_SUM, FINISH_LOG },
  { "ReduceLogSumExp", REDUCE_EXP, FINISH_LOG_SHIFT },
};

/* Strides of an operand, in elements. */
static void
strides_of (const OrtrainOperand *op, gint64 *strides)
{
  gint64 step = 1;
  for (gint d = (gint) op->rank - 1; d >= 0; d--)
    {
      strides[d] = step;
      step *= op->dims[d];
    }
}

/* Which axes are reduced, from the constant `axes` input or from the shapes (SumTo). keep: the output still has them.
 */
static gboolean
find_axes (OrtrainKernelSetup *setup, gboolean *reduced, gboolean *keep, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  if (g_str_equal (setup->op_type, "SumTo"))
    {
      guint lead = x->rank - y->rank;
      if (y->rank > x->rank)
        goto misfit;
      for (guint d = 0; d < x->rank; d++)
        {
          reduced[d] = d < lead || (y->dims[d - lead] == 1 && x->dims[d] != 1);
          if (!reduced[d] && x->dims[d] != y->dims[d - lead])
            goto misfit;
        }
      *keep = FALSE;
      return TRUE;
    }
  const OrtrainOperand *axes = setup->n_inputs > 1 ? &setup->inputs[1] : NULL;
  gint64 n_axes = axes && axes->dtype != ORTRAIN_DTYPE_UNDEFINED ? axes->n_elements : 0;
  if (n_axes > 0 && axes->constant == NULL)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: the axes depend on computed data, and are not known when the plan is made", setup->op_type);
      return FALSE;
    }
  gboolean all = n_axes == 0 && !ortrain_attributes_get_int (setup->attributes, "noop_with_empty_axes", 0);
  for (guint d = 0; d < x->rank; d++)
    reduced[d] = all;
  for (gint64 i = 0; i < n_axes; i++)
    {
      gint64 axis = axes->dtype == ORTRAIN_DTYPE_INT32 ? ((const gint32 *) axes->constant)[i]
                                                       : ((const gint64 *) axes->constant)[i];
      if (axis < 0)
        axis += x->rank;
      if (axis < 0 || axis >= x->rank)
        goto misfit;
      reduced[axis] = TRUE;
    }
  *keep = ortrain_attributes_get_int (setup->attributes, "keepdims", 1) != 0;
  return TRUE;
misfit:
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: the axes do not fit the shapes",
               setup->op_type);
  return FALSE;
}

static gboolean
build_plan (OrtrainKernelSetup *setup, ReducePlan *plan, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  gboolean reduced[ORTRAIN_MAX_RANK], keep;
  struct
  {
    gint64 size, in, out;
    gboolean reduced;
  } dims[ORTRAIN_MAX_RANK];
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK];
  guint n = 0, lead = x->rank - y->rank;
  gboolean sum_to = g_str_equal (setup->op_type, "SumTo");
  if (!find_axes (setup, reduced, &keep, error))
    return FALSE;
  strides_of (x, in);
  strides_of (y, out);
  plan->dtype = x->dtype;
  plan->out_dtype = y->dtype;
  plan->n_in = x->n_elements;
  plan->n_out = y->n_elements;
  plan->count = 1;
  for (guint d = 0, k = 0; d < x->rank; d++)
    {
      gint64 stride = 0;
      if (reduced[d])
        plan->count *= x->dims[d];
      else
        stride = sum_to ? out[d - lead] : out[keep ? d : k];
      if (!reduced[d])
        k++;
      if (x->dims[d] == 1)
        continue;
      guint at = n++; /* sorted by the input's strides, widest first */
      for (; at > 0 && dims[at - 1].in < in[d]; at--)
        dims[at] = dims[at - 1];
      dims[at].size = x->dims[d];
      dims[at].in = in[d];
      dims[at].out = stride;
      dims[at].reduced = reduced[d];
    }
  guint m = 0;
  for (guint d = 0; d < n; d++)
    if (m > 0 && dims[m - 1].reduced == dims[d].reduced && dims[m - 1].in == dims[d].in * dims[d].size &&
        (dims[d].reduced || dims[m - 1].out == dims[d].out * dims[d].size))
      {
        dims[m - 1].size *= dims[d].size;
        dims[m - 1].in = dims[d].in;
        dims[m - 1].out = dims[d].out;
      }
    else
      dims[m++] = dims[d];
  plan->inner = 1;
  plan->inner_out = 1;
  if (m > 0)
    {
      plan->inner_kept = !dims[m - 1].reduced;
      plan->inner = dims[m - 1].size;
      plan->inner_out = dims[m - 1].out;
      m--;
    }
  plan->outer_kept = 1;
  plan->n_rows = 1;
  for (guint d = 0; d < m; d++)
    if (dims[d].reduced)
      {
        plan->reduced_size[plan->n_reduced] = dims[d].size;
        plan->reduced_in[plan->n_reduced++] = dims[d].in;
        plan->n_rows *= dims[d].size;
      }
    else
      {
        plan->kept_size[plan->n_kept] = dims[d].size;
        plan->kept_in[plan->n_kept] = dims[d].in;
        plan->kept_out[plan->n_kept++] = dims[d].out;
        plan->outer_kept *= dims[d].size;
      }
  plan->tile_width = plan->inner_kept ? MIN (plan->inner, REDUCE_TILE) : 1;
  plan->tiles = plan->inner_kept ? (plan->inner + REDUCE_TILE - 1) / REDUCE_TILE : 1;
  gint64 row_size = plan->tile_width;
  if (!plan->inner_kept)
    {
      plan->segments = (plan->inner + REDUCE_SEGMENT - 1) / REDUCE_SEGMENT;
      plan->n_rows *= plan->segments;
      row_size = MIN (plan->inner, REDUCE_SEGMENT);
    }
  gint64 units = MAX (plan->outer_kept * plan->tiles, 1), rows = MAX (1, REDUCE_UNIT / MAX (row_size, 1));
  plan->splits = 1;
  if (units < REDUCE_MAX_SPLITS)
    plan->splits = CLAMP ((plan->n_rows + rows - 1) / rows, 1, REDUCE_MAX_SPLITS / units);
  plan->rows_per_split = MAX (1, (plan->n_rows + plan->splits - 1) / plan->splits);
  plan->splits = MAX (1, (plan->n_rows + plan->rows_per_split - 1) / plan->rows_per_split);
  plan->n_units = plan->outer_kept * plan->tiles * plan->splits;
  return TRUE;
}

static gboolean
reduce_prepare (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree ReducePlan *plan = g_new0 (ReducePlan, 1);
  for (guint i = 0; i < G_N_ELEMENTS (reduce_ops); i++)
    if (g_str_equal (reduce_ops[i].op_type, setup->op_type))
      {
        plan->op = reduce_ops[i].op;
        plan->finish = reduce_ops[i].finish;
      }
  if (!build_plan (setup, plan, error))
    return FALSE;
  gsize bytes = plan->splits == 1 ? 0 : (gsize) plan->n_units * (gsize) plan->tile_width * sizeof (double);
  plan->shift_offset = (bytes + 63) & ~(gsize) 63;
  setup->workspace_bytes = plan->shift_offset;
  if (plan->op == REDUCE_EXP)
    setup->workspace_bytes +=
        (gsize) plan->n_out * (plan->dtype == ORTRAIN_DTYPE_FLOAT64 ? sizeof (double) : sizeof (float));
  setup->can_accumulate = 1;
  setup->flops = (double) plan->n_in;
  setup->constants = g_steal_pointer (&plan);
  setup->constants_free = g_free;
  return TRUE;
}

static void
sweep (const OrtrainKernelCall *call, ReduceRun *run)
{
  const ReducePlan *plan = run->plan;
  gboolean single = plan->dtype != ORTRAIN_DTYPE_FLOAT64;
  gint64 size = MAX (1, plan->n_in / MAX (1, plan->n_units));
  run->identity = identity_of (run->op);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n_units, MAX (1, REDUCE_UNIT / 2 / size),
                        single ? units_f32 : units_f64, run);
  if (plan->splits > 1)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->outer_kept * plan->tiles, 4,
                          single ? finish_f32 : finish_f64, run);
}

static void
reduce_run (const OrtrainKernelCall *call)
{
  const ReducePlan *plan = call->constants;
  ReduceRun run = { .plan = plan, .op = plan->op, .x = call->inputs[0], .y = call->outputs[0] };
  run.partials = call->workspace;
  run.accumulate = ortrain_kernel_get_accumulate (call);
  if (plan->n_in == 0)
    {
      for (gint64 i = 0; i < plan->n_out; i++)
        {
          double v = finalize (plan, identity_of (plan->op), 0);
          if (ortrain_dtype_is_half (plan->out_dtype))
            store_half (&run, i, v);
          else if (plan->out_dtype == ORTRAIN_DTYPE_FLOAT32)
            ((float *) run.y)[i] = (float) v + (run.accumulate ? ((float *) run.y)[i] : 0);
          else
            ((double *) run.y)[i] = v + (run.accumulate ? ((double *) run.y)[i] : 0);
        }
      return;
    }
  if (plan->op == REDUCE_EXP)
    {
      run.op = REDUCE_MAX;
      run.shift_out = (guint8 *) call->workspace + plan->shift_offset;
      sweep (call, &run);
      run.op = REDUCE_EXP;
      run.shift = run.shift_out;
      run.shift_out = NULL;
    }
  sweep (call, &run);
}

/* Integers: rare and small (shapes, counts, hits of a metric), so one path for all of them, through 64 bits. */
#define LOAD_CASE(number, type)                                                                                        \
  case number:                                                                                                         \
    return (gint64) ((const type *) x)[i];
#define STORE_CASE(number, type)                                                                                       \
  case number:                                                                                                         \
    ((type *) y)[i] = (type) v;                                                                                        \
    break;

static inline gint64
load_integer (OrtrainDType dtype, gconstpointer x, gint64 i)
{
  switch ((int) dtype)
    {
      ORTRAIN_CPU_INTEGER_CASES (LOAD_CASE)
    }
  return 0;
}

static inline void
store_integer (OrtrainDType dtype, gpointer y, gint64 i, gint64 v)
{
  switch ((int) dtype)
    {
      ORTRAIN_CPU_INTEGER_CASES (STORE_CASE)
    }
}

static void
reduce_integer_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ReduceRun *run = data;
  const ReducePlan *plan = run->plan;
  gint64 rows = plan->n_rows / MAX (1, plan->segments) * (plan->inner_kept ? 1 : plan->inner);
  gboolean is_unsigned = plan->dtype == ORTRAIN_DTYPE_UINT64;
  if (plan->inner_kept)
    rows = plan->n_rows;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 kept = plan->inner_kept ? i / plan->inner : i, inner = plan->inner_kept ? i % plan->inner : 0;
      gint64 base = offset_of (kept, plan->n_kept, plan->kept_size, plan->kept_in) + inner;
      guint64 sum = plan->op == REDUCE_PROD ? 1 : 0;
      gint64 best = 0;
      double real = 0;
      for (gint64 r = 0; r < rows; r++)
        {
          gint64 outer = plan->inner_kept ? r : r / plan->inner, along = plan->inner_kept ? 0 : r % plan->inner;
          gint64 at = base + along + offset_of (outer, plan->n_reduced, plan->reduced_size, plan->reduced_in);
          gint64 v = load_integer (plan->dtype, run->x, at);
          gboolean greater = is_unsigned ? (guint64) v > (guint64) best : v > best;
          switch (plan->op)
            {
            case REDUCE_SUM:
              sum += (guint64) v;
              break;
            case REDUCE_ABS:
              sum += !is_unsigned && v < 0 ? -(guint64) v : (guint64) v;
              break;
            case REDUCE_SQUARE:
              sum += (guint64) v * (guint64) v;
              break;
            case REDUCE_EXP:
              real += exp ((double) v);
              break;
            case REDUCE_MAX:
              if (r == 0 || greater)
                best = v;
              break;
            case REDUCE_MIN:
              if (r == 0 || (!greater && v != best))
                best = v;
              break;
            case REDUCE_PROD:
              sum *= (guint64) v;
              break;
            }
        }
      gint64 result = plan->op == REDUCE_MAX || plan->op == REDUCE_MIN ? best : (gint64) sum;
      switch (plan->finish)
        {
        case FINISH_NONE:
          break;
        case FINISH_MEAN:
          if (plan->count == 0)
            result = 0;
          else
            result = is_unsigned ? (gint64) ((guint64) result / (guint64) plan->count) : result / plan->count;
          break;
        case FINISH_SQRT:
          result = (gint64) sqrt ((double) sum);
          break;
        case FINISH_LOG:
          result = ortrain_integer_log ((double) (gint64) sum);
          break;
        case FINISH_LOG_SHIFT:
          result = ortrain_integer_log (real);
          break;
        }
      gint64 to = offset_of (kept, plan->n_kept, plan->kept_size, plan->kept_out) + inner * plan->inner_out;
      store_integer (plan->dtype, run->y, to, result);
    }
}

static gboolean
reduce_integer_prepare (OrtrainKernelSetup *setup, GError **error)
{
  if (!reduce_prepare (setup, error))
    return FALSE;
  setup->workspace_bytes = 0;
  setup->can_accumulate = 0;
  return TRUE;
}

static void
reduce_integer_run (const OrtrainKernelCall *call)
{
  const ReducePlan *plan = call->constants;
  ReduceRun run = { .plan = plan, .op = plan->op, .x = call->inputs[0], .y = call->outputs[0] };
  if (plan->n_in == 0)
    for (gint64 i = 0; i < plan->n_out; i++)
      store_integer (plan->dtype, run.y, i, plan->op == REDUCE_PROD ? 1 : 0);
  else
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n_out, MAX (1, 16384 / MAX (1, plan->count)),
                          reduce_integer_units, &run);
}

/* ---- The gradient of a product: dx[i] = dy · Π of the others, right with zeros. Inputs (dy, x[, axes]). ---- */
#define PROD_AT(r)                                                                                                     \
  ((plan->inner_kept ? 0 : (r) % plan->inner) +                                                                        \
   offset_of (plan->inner_kept ? (r) : (r) / plan->inner, plan->n_reduced, plan->reduced_size, plan->reduced_in))

static void
prod_grad_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ReduceRun *run = data;
  const ReducePlan *plan = run->plan;
  gint64 rows = plan->count;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 kept = plan->inner_kept ? i / plan->inner : i, inner = plan->inner_kept ? i % plan->inner : 0;
      gint64 base = offset_of (kept, plan->n_kept, plan->kept_size, plan->kept_in) + inner;
      gint64 from = offset_of (kept, plan->n_kept, plan->kept_size, plan->kept_out) + inner * plan->inner_out;
      const double dy = ortrain_elements_load_real (plan->out_dtype, run->shift, from);
      double product = 1;
      gint64 zeros = 0;
      for (gint64 r = 0; r < rows; r++)
        {
          const double x = ortrain_elements_load_real (plan->dtype, run->x, base + PROD_AT (r));
          zeros += x == 0;
          product *= x == 0 ? 1 : x;
        }
      for (gint64 r = 0; r < rows; r++)
        {
          const gint64 at = base + PROD_AT (r);
          const double x = ortrain_elements_load_real (plan->dtype, run->x, at);
          ortrain_elements_store_real (plan->grad_dtype, run->y, at,
                                       dy * (zeros > 1 || (zeros == 1 && x != 0) ? 0
                                             : x == 0                            ? product
                                                                                 : product / x));
        }
    }
}

static gboolean
prod_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  /* The plan of the forward pass: x in, something like dy out. */
  OrtrainOperand inputs[2] = { setup->inputs[1] };
  OrtrainKernelSetup forward = *setup;
  if (setup->n_inputs > 2)
    inputs[1] = setup->inputs[2];
  forward.inputs = inputs;
  forward.n_inputs = setup->n_inputs - 1;
  forward.outputs = &setup->inputs[0];
  g_autofree ReducePlan *plan = g_new0 (ReducePlan, 1);
  if (!build_plan (&forward, plan, error))
    return FALSE;
  plan->grad_dtype = setup->outputs[0].dtype;
  setup->constants = g_steal_pointer (&plan);
  setup->constants_free = g_free;
  return TRUE;
}

static void
prod_grad_run (const OrtrainKernelCall *call)
{
  const ReducePlan *plan = call->constants;
  ReduceRun run = { .plan = plan, .shift = call->inputs[0], .x = call->inputs[1], .y = call->outputs[0] };
  if (plan->n_in > 0)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), plan->n_out, MAX (1, 16384 / MAX (1, plan->count)),
                          prod_grad_units, &run);
}

#define REAL_ROWS(name, domain, prepare, run)                                                                          \
  { name, domain, ORTRAIN_DTYPES_F32F64, prepare, run },                                                               \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare, run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED                             \
  }
#define REDUCTION(name)                                                                                                \
  REAL_ROWS (name, "", reduce_prepare, reduce_run),                                                                    \
  {                                                                                                                    \
    name, "", ORTRAIN_DTYPES_INTEGER | ORTRAIN_DTYPES_BOOL, reduce_integer_prepare, reduce_integer_run                 \
  }

static const OrtrainKernel kernels[] = {
  REDUCTION ("ReduceSum"),
  REDUCTION ("ReduceMean"),
  REDUCTION ("ReduceMax"),
  REDUCTION ("ReduceMin"),
  REDUCTION ("ReduceProd"),
  REDUCTION ("ReduceL1"),
  REDUCTION ("ReduceL2"),
  REDUCTION ("ReduceSumSquare"),
  REDUCTION ("ReduceLogSum"),
  REDUCTION ("ReduceLogSumExp"),
  REAL_ROWS ("SumTo", "org.ortrain", reduce_prepare, reduce_run),
  REAL_ROWS ("ReduceProdGrad", "org.ortrain", prod_grad_prepare, prod_grad_run),
};
ORTRAIN_KERNEL_TABLE (reduction, kernels);
