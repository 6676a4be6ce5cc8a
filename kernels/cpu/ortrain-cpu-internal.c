/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-mapped-file-private.h"
#include "cpu/ortrain-cpu-device-private.h"

#include <math.h>
#include <string.h>

/* org.ortrain::Accumulate: y = x or y += x, element by element. */

#define GRAIN 32768

typedef struct
{
  gsize n_elements;
  gsize element_size;
  OrtrainDType dtype;
} AccumulateConstants;

typedef struct
{
  const AccumulateConstants *constants;
  const void *x;
  void *y;
} AccumulateJob;

static void
copy_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AccumulateJob *job = data;
  gsize size = job->constants->element_size;
  memcpy ((char *) job->y + (gsize) begin * size, (const char *) job->x + (gsize) begin * size,
          (gsize) (end - begin) * size);
}

#define ADD_RANGE(type)                                                                                                \
  {                                                                                                                    \
    const type *restrict x = job->x;                                                                                   \
    type *restrict y = job->y;                                                                                         \
    for (gint64 i = begin; i < end; i++)                                                                               \
      y[i] += x[i];                                                                                                    \
  }

static void
add_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AccumulateJob *job = data;
  if (job->constants->dtype == ORTRAIN_DTYPE_FLOAT32)
    ADD_RANGE (float)
  else if (job->constants->dtype == ORTRAIN_DTYPE_FLOAT64)
    ADD_RANGE (double)
  else
    {
      const guint16 *restrict x = job->x;
      guint16 *restrict y = job->y;
      if (job->constants->dtype == ORTRAIN_DTYPE_FLOAT16)
        for (gint64 i = begin; i < end; i++)
          y[i] = ortrain_float_to_half (ortrain_half_to_float (y[i]) + ortrain_half_to_float (x[i]));
      else
        for (gint64 i = begin; i < end; i++)
          y[i] = ortrain_float_to_bfloat16 (ortrain_bfloat16_to_float (y[i]) + ortrain_bfloat16_to_float (x[i]));
    }
}

static gboolean
accumulate_prepare (OrtrainKernelSetup *setup, GError **error)
{
  AccumulateConstants *constants = g_new0 (AccumulateConstants, 1);
  constants->n_elements = (gsize) setup->inputs[0].n_elements;
  constants->dtype = setup->inputs[0].dtype;
  constants->element_size = constants->n_elements > 0 ? setup->inputs[0].n_bytes / constants->n_elements
                                                      : ortrain_dtype_get_size (constants->dtype);
  setup->constants = constants;
  setup->constants_free = g_free;
  setup->inplace[0] = 1;
  setup->can_accumulate = ORTRAIN_DTYPE_BIT (constants->dtype) & ORTRAIN_DTYPES_FLOAT ? 1 : 0;
  return TRUE;
}

static void
accumulate_run (const OrtrainKernelCall *call)
{
  AccumulateJob job = { call->constants, call->inputs[0], call->outputs[0] };
  if (ortrain_kernel_get_accumulate (call))
    ortrain_parallel_for (ortrain_cpu_get_pool (call), (gint64) job.constants->n_elements, GRAIN, add_range, &job);
  else if (job.x != job.y)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), (gint64) job.constants->n_elements, GRAIN, copy_range, &job);
}

/* Where the host is the device, nothing needs it; providers that stand on these kernels do. */
static gboolean
copy_prepare (OrtrainKernelSetup *setup, GError **error)
{
  accumulate_prepare (setup, error);
  setup->inplace[0] = 0;
  setup->can_accumulate = 0;
  return TRUE;
}

/* Offloaded values lie in a mapped file: the process need not hold its pages, which are written to the disk when others
 * need the memory. x, y: [n] */
static void
offload_run (const OrtrainKernelCall *call)
{
  const AccumulateConstants *constants = call->constants;
  accumulate_run (call);
  ortrain_mapped_file_trim (call->outputs[0], constants->n_elements * constants->element_size);
}

static void
reload_run (const OrtrainKernelCall *call)
{
  const AccumulateConstants *constants = call->constants;
  accumulate_run (call);
  ortrain_mapped_file_trim (call->inputs[0], constants->n_elements * constants->element_size);
}

/* x, y: [] of float16, bfloat16, float32, float64 or int64 */
static void
guard_run (const OrtrainKernelCall *call)
{
  const AccumulateConstants *constants = call->constants;
  const void *x = call->inputs[0];
  gboolean passes = TRUE;
  switch (constants->dtype)
    {
    case ORTRAIN_DTYPE_FLOAT64:
      passes = isfinite (*(const double *) x);
      break;
    case ORTRAIN_DTYPE_FLOAT32:
      passes = isfinite (*(const float *) x);
      break;
    case ORTRAIN_DTYPE_FLOAT16:
      passes = isfinite (ortrain_half_to_float (*(const guint16 *) x));
      break;
    case ORTRAIN_DTYPE_BFLOAT16:
      passes = isfinite (ortrain_bfloat16_to_float (*(const guint16 *) x));
      break;
    default:
      passes = *(const gint64 *) x == ORTRAIN_GUARD_NONE;
    }
  if (call->outputs[0] != x)
    memcpy (call->outputs[0], x, constants->element_size);
  if (!passes && call->context->step->guards)
    ortrain_kernel_fault (call, ORTRAIN_FAULT_GUARD, 0, 0, 0);
}

static gboolean
guard_prepare (OrtrainKernelSetup *setup, GError **error)
{
  accumulate_prepare (setup, error);
  setup->can_accumulate = 0;
  return TRUE;
}

static const OrtrainKernel rows[] = {
  { .op_type = "Copy", .domain = "org.ortrain", .prepare = copy_prepare, .run = accumulate_run },
  { .op_type = "Offload", .domain = "org.ortrain", .prepare = copy_prepare, .run = offload_run },
  { .op_type = "Reload", .domain = "org.ortrain", .prepare = copy_prepare, .run = reload_run },
  { .op_type = "Accumulate", .domain = "org.ortrain", .prepare = accumulate_prepare, .run = accumulate_run },
  { .op_type = "StepGuard",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64),
    .prepare = guard_prepare,
    .run = guard_run },
};

ORTRAIN_KERNEL_TABLE (internal, rows);
