/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "kernel-abi/ortrain-einsum-private.h"
#include "ortrain-cpu-copy-private.h"

#include <string.h>

/* Einsum and EinsumGrad: target[…] = sum over the other letters of the product of the operands, by loops. Rows of the
 * target's letters are dealt to threads; the sum of one element is made by one thread, in one order. */

typedef struct
{
  guint n_operands;
  OrtrainDType dtype;                                   /* of the target */
  OrtrainDType dtypes[ORTRAIN_EINSUM_MAX_OPERANDS + 1]; /* [n_operands]: the target */
  gboolean is_mixed;                                    /* any of them has 16 bits */
  gsize out_bytes;
  gboolean sparse_target; /* a letter twice in the target: elements off the diagonal are zero */
  guint n_kept, n_summed; /* letters */
  gint64 kept[ORTRAIN_EINSUM_MAX_LABELS], summed[ORTRAIN_EINSUM_MAX_LABELS];       /* their sizes */
  gint64 kept_strides[ORTRAIN_EINSUM_MAX_OPERANDS + 1][ORTRAIN_EINSUM_MAX_LABELS]; /* [n_operands]: the target */
  gint64 summed_strides[ORTRAIN_EINSUM_MAX_OPERANDS][ORTRAIN_EINSUM_MAX_LABELS];
  gint64 n_rows, n_terms;
} Einsum;

/* The strides of a term by letter; a dimension of 1 where the letter is longer is broadcast. */
static void
letter_strides (const OrtrainEinsumTerm *term, const gint64 *dims, gint64 *strides)
{
  gint64 plain[ORTRAIN_MAX_RANK];
  memset (strides, 0, sizeof (gint64) * ORTRAIN_EINSUM_MAX_LABELS);
  ortrain_copy_strides (term->rank, dims, plain);
  for (guint d = 0; d < term->rank; d++)
    if (dims[d] != 1)
      strides[term->labels[d]] += plain[d];
}

static gboolean
setup_einsum (OrtrainKernelSetup *setup, gboolean gradient, GError **error)
{
  const char *equation = ortrain_attributes_get_string (setup->attributes, "equation", "");
  guint index = gradient ? (guint) ortrain_attributes_get_int (setup->attributes, "index", 0) : G_MAXUINT;
  guint n = gradient ? setup->n_inputs - 1 : setup->n_inputs;
  const OrtrainOperand *operands[ORTRAIN_EINSUM_MAX_OPERANDS];
  gint ranks[ORTRAIN_EINSUM_MAX_OPERANDS] = { 0 };
  gint64 sizes[ORTRAIN_EINSUM_MAX_LABELS], strides[ORTRAIN_EINSUM_MAX_OPERANDS + 1][ORTRAIN_EINSUM_MAX_LABELS];
  OrtrainEinsum e;
  const OrtrainOperand *y = gradient ? &setup->inputs[0] : &setup->outputs[0];

  if (n > ORTRAIN_EINSUM_MAX_OPERANDS || (gradient && index >= n))
    return ortrain_kernel_refuse (setup, error, "there are too many operands");
  for (guint i = 0, from = 2; i < n; i++)
    {
      operands[i] = !gradient ? &setup->inputs[i] : i == index ? &setup->outputs[0] : &setup->inputs[from++];
      ranks[i] = (gint) operands[i]->rank;
    }
  if (!ortrain_einsum_parse (equation, n, ranks, &e) || e.output.rank != y->rank)
    return ortrain_kernel_refuse (setup, error, "the equation does not fit the operands");
  for (guint l = 0; l < ORTRAIN_EINSUM_MAX_LABELS; l++)
    sizes[l] = 1;
  for (guint i = 0; i < n; i++)
    for (guint d = 0; d < operands[i]->rank; d++)
      if (operands[i]->dims[d] != 1)
        sizes[e.operands[i].labels[d]] = operands[i]->dims[d];

  Einsum *s = g_new0 (Einsum, 1);
  setup->constants = s;
  setup->constants_free = g_free;
  s->n_operands = n;
  s->dtype = setup->outputs[0].dtype;
  s->out_bytes = setup->outputs[0].n_bytes;
  /* in the order of the inputs that hold elements; the target last */
  guint slot = 0;
  if (gradient)
    {
      s->dtypes[slot] = y->dtype;
      letter_strides (&e.output, y->dims, strides[slot++]);
    }
  for (guint i = 0; i < n; i++)
    if (i != index)
      {
        s->dtypes[slot] = operands[i]->dtype;
        letter_strides (&e.operands[i], operands[i]->dims, strides[slot++]);
      }
  s->dtypes[n] = s->dtype;
  for (guint i = 0; i <= n; i++)
    s->is_mixed = s->is_mixed || ortrain_dtype_is_half (s->dtypes[i]);
  const OrtrainEinsumTerm *target = gradient ? &e.operands[index] : &e.output;
  letter_strides (target, setup->outputs[0].dims, strides[slot]);
  s->n_rows = s->n_terms = 1;
  for (guint d = 0; d < target->rank; d++)
    for (guint c = 0; c < d; c++)
      s->sparse_target = s->sparse_target || target->labels[c] == target->labels[d];
  /* kept letters in the order of the target, so that neighbours are written together */
  for (guint d = 0; d < target->rank; d++)
    {
      guint l = target->labels[d];
      if (strides[slot][l] == 0 || (d > 0 && memchr (target->labels, (int) l, d) != NULL))
        continue;
      s->kept[s->n_kept] = sizes[l];
      for (guint i = 0; i <= n; i++)
        s->kept_strides[i][s->n_kept] = strides[i][l];
      s->n_kept++;
      s->n_rows *= sizes[l];
    }
  for (guint l = 0; l < e.n_labels; l++)
    {
      if (strides[slot][l] != 0)
        continue;
      s->n_terms *= sizes[l];
      if (sizes[l] == 1)
        continue;
      s->summed[s->n_summed] = sizes[l];
      for (guint i = 0; i < n; i++)
        s->summed_strides[i][s->n_summed] = strides[i][l];
      s->n_summed++;
    }
  if (s->n_summed == 0)
    s->summed[s->n_summed++] = s->n_terms;
  setup->flops = 2.0 * (double) s->n_rows * (double) s->n_terms * n;
  return TRUE;
}

static gboolean
einsum_prepare (OrtrainKernelSetup *setup, GError **error)
{
  return setup_einsum (setup, FALSE, error);
}

static gboolean
einsum_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  return setup_einsum (setup, TRUE, error);
}

typedef struct
{
  const Einsum *einsum;
  const void *operands[ORTRAIN_EINSUM_MAX_OPERANDS];
  gpointer target;
} Job;

/* Element `at` of operand i, of any of the types that are mixed */
static inline double
load_mixed (const Job *job, guint i, gint64 at)
{
  const OrtrainDType dtype = job->einsum->dtypes[i];
  const void *data = job->operands[i];
  return dtype == ORTRAIN_DTYPE_FLOAT32 ? (double) ((const float *) data)[at]
                                        : (double) ortrain_dtype_widen (dtype, ((const guint16 *) data)[at]);
}

static inline void
store_mixed (const Job *job, gint64 at, double sum)
{
  const OrtrainDType dtype = job->einsum->dtype;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) job->target)[at] = (float) sum;
  else
    ((guint16 *) job->target)[at] = ortrain_dtype_narrow (dtype, ortrain_double_to_odd_float (sum));
}

#define LOAD_MIXED(T, SUM, i, at) load_mixed (job, i, at)
#define STORE_MIXED(T, at, sum) store_mixed (job, at, sum)
#define LOAD(T, SUM, i, at) ((SUM) ((const T *) job->operands[i])[at])
#define STORE(T, at, sum) ((T *) job->target)[at] = (T) (sum)

#define ROWS(NAME, T, SUM, LOAD_, STORE_)                                                                              \
  static void rows_##NAME (const Job *job, gint64 begin, gint64 end)                                                   \
  {                                                                                                                    \
    const Einsum *s = job->einsum;                                                                                     \
    guint last = s->n_summed - 1;                                                                                      \
    gint64 inner = s->summed[last];                                                                                    \
    for (gint64 row = begin; row < end; row++)                                                                         \
      {                                                                                                                \
        gint64 at[ORTRAIN_EINSUM_MAX_OPERANDS + 1] = { 0 }, rest = row, index[ORTRAIN_EINSUM_MAX_LABELS] = { 0 };      \
        SUM sum = 0;                                                                                                   \
        for (guint d = s->n_kept; d-- > 0;)                                                                            \
          {                                                                                                            \
            gint64 k = rest % s->kept[d];                                                                              \
            rest /= s->kept[d];                                                                                        \
            for (guint i = 0; i <= s->n_operands; i++)                                                                 \
              at[i] += k * s->kept_strides[i][d];                                                                      \
          }                                                                                                            \
        for (gint64 term = 0; term < s->n_terms; term += inner)                                                        \
          {                                                                                                            \
            gint64 sa = s->summed_strides[0][last];                                                                    \
            if (s->n_operands == 1)                                                                                    \
              for (gint64 j = 0; j < inner; j++)                                                                       \
                sum += LOAD_ (T, SUM, 0, at[0] + j * sa);                                                              \
            else if (s->n_operands == 2)                                                                               \
              {                                                                                                        \
                gint64 sb = s->summed_strides[1][last];                                                                \
                for (gint64 j = 0; j < inner; j++)                                                                     \
                  sum += LOAD_ (T, SUM, 0, at[0] + j * sa) * LOAD_ (T, SUM, 1, at[1] + j * sb);                        \
              }                                                                                                        \
            else                                                                                                       \
              for (gint64 j = 0; j < inner; j++)                                                                       \
                {                                                                                                      \
                  SUM product = LOAD_ (T, SUM, 0, at[0] + j * sa);                                                     \
                  for (guint i = 1; i < s->n_operands; i++)                                                            \
                    product *= LOAD_ (T, SUM, i, at[i] + j * s->summed_strides[i][last]);                              \
                  sum += product;                                                                                      \
                }                                                                                                      \
            for (guint d = last; d-- > 0;)                                                                             \
              {                                                                                                        \
                index[d]++;                                                                                            \
                for (guint i = 0; i < s->n_operands; i++)                                                              \
                  at[i] += s->summed_strides[i][d];                                                                    \
                if (index[d] < s->summed[d])                                                                           \
                  break;                                                                                               \
                for (guint i = 0; i < s->n_operands; i++)                                                              \
                  at[i] -= s->summed[d] * s->summed_strides[i][d];                                                     \
                index[d] = 0;                                                                                          \
              }                                                                                                        \
          }                                                                                                            \
        STORE_ (T, at[s->n_operands], sum);                                                                            \
      }                                                                                                                \
  }
ROWS (mixed, float, double, LOAD_MIXED, STORE_MIXED)
ROWS (f32, float, double, LOAD, STORE)
ROWS (f64, double, double, LOAD, STORE)
ROWS (i32, gint32, guint64, LOAD, STORE) /* integers wrap around */
ROWS (i64, gint64, guint64, LOAD, STORE)

static void
einsum_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  if (job->einsum->is_mixed)
    rows_mixed (job, begin, end);
  else if (job->einsum->dtype == ORTRAIN_DTYPE_FLOAT32)
    rows_f32 (job, begin, end);
  else if (job->einsum->dtype == ORTRAIN_DTYPE_FLOAT64)
    rows_f64 (job, begin, end);
  else if (job->einsum->dtype == ORTRAIN_DTYPE_INT32)
    rows_i32 (job, begin, end);
  else
    rows_i64 (job, begin, end);
}

static void
run_loops (const OrtrainKernelCall *call, Job *job)
{
  const Einsum *s = job->einsum;
  if (s->sparse_target || s->n_terms == 0)
    ortrain_copy_zero (ortrain_cpu_get_pool (call), job->target, s->out_bytes);
  if (s->n_terms > 0)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), s->n_rows, ortrain_kernel_grain (s->n_terms * 4), einsum_range,
                          job);
}

static void
einsum_run (const OrtrainKernelCall *call)
{
  const Einsum *s = call->constants;
  Job job = { .einsum = s, .target = call->outputs[0] };
  for (guint i = 0; i < s->n_operands; i++)
    job.operands[i] = call->inputs[i];
  run_loops (call, &job);
}

/* (dy, shape, others …) */
static void
einsum_grad_run (const OrtrainKernelCall *call)
{
  const Einsum *s = call->constants;
  Job job = { .einsum = s, .target = call->outputs[0] };
  job.operands[0] = call->inputs[0];
  for (guint i = 1; i < s->n_operands; i++)
    job.operands[i] = call->inputs[i + 1];
  run_loops (call, &job);
}

#define TYPES (ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64))

static const OrtrainKernel rows[] = {
  { .op_type = "Einsum",
    .domain = "",
    .dtypes = TYPES,
    .prepare = einsum_prepare,
    .run = einsum_run,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { .op_type = "EinsumGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .prepare = einsum_grad_prepare,
    .run = einsum_grad_run,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
};

ORTRAIN_KERNEL_TABLE (einsum, rows);
