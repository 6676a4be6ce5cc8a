/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-abi/ortrain-update-scalars-private.h"
#include "ortrain-cpu-spans.h"

#include <math.h>

/* The norm of all gradients together, whatever the floating-point type of each: squares are summed in double. */

static double
sum_of_squares (OrtrainDType dtype, const void *x, gint64 begin, gint64 end)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    return ortrain_span_sum_of_squares_f32 ((const float *) x + begin, end - begin);
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    return ortrain_span_sum_of_squares_f64 ((const double *) x + begin, end - begin);
  double sum = 0;
  for (gint64 i = begin; i < end; i += ORTRAIN_SPAN_TILE)
    {
      float tile[ORTRAIN_SPAN_TILE];
      gint64 n = MIN (ORTRAIN_SPAN_TILE, end - i);
      ortrain_dtype_widen_n (dtype, tile, (const guint16 *) x + i, n);
      sum += ortrain_span_sum_of_squares_f32 (tile, n);
    }
  return sum;
}

typedef struct
{
  const OrtrainSpans *layout;
  const OrtrainKernelCall *call;
  double *partials; /* [n_spans] */
} Norm;

static gboolean
prepare_norm (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainSpans *layout = ortrain_spans_new (setup, setup->n_inputs - 2, 0, 2, 1);
  setup->workspace_bytes = MAX (layout->n_spans, 1) * sizeof (double);
  return TRUE;
}

static void
norm_batches (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Norm *norm = data;
  const OrtrainSpans *layout = norm->layout;
  for (guint index = layout->batches[begin]; index < layout->batches[end]; index++)
    {
      const OrtrainSpan *span = &layout->spans[index];
      norm->partials[index] = sum_of_squares (layout->tensors[span->tensor].dtype,
                                              norm->call->inputs[layout->first + span->tensor], span->begin, span->end);
    }
}

static void
run_norm (const OrtrainKernelCall *call)
{
  const Norm norm = { call->constants, call, call->workspace };
  const double *scalars = call->inputs[0];
  const float *loss_scale = call->inputs[1];
  double sum = 0, scale = scalars[ORTRAIN_UPDATE_GRADIENT_SCALE];
  if (loss_scale != NULL)
    scale /= (double) *loss_scale;
  if (scalars[ORTRAIN_UPDATE_MAX_NORM] > 0 || loss_scale != NULL)
    {
      ortrain_parallel_for (ortrain_cpu_get_pool (call), norm.layout->n_batches, 1, norm_batches, (gpointer) &norm);
      for (guint i = 0; i < norm.layout->n_spans; i++)
        sum += norm.partials[i];
    }
  *(double *) call->outputs[0] = sqrt (sum) * scale;
}

static const OrtrainKernel rows[] = {
  { .op_type = "GradientNorm",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),
    .prepare = prepare_norm,
    .run = run_norm },
};

ORTRAIN_KERNEL_TABLE (gradient_norm, rows);
