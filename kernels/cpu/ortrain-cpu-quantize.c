/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include <math.h>

/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: one scale for all, for each channel, or for each block. */

typedef struct
{
  gint64 n;
  gint64 outer, dim, inner;       /* of the input, around the axis */
  gint64 blocks, block;           /* of the scale along the axis */
  gboolean blocked;               /* the scale has outer and inner as well */
  OrtrainDType x, scale, y, zero; /* zero UNDEFINED: none */
  double low, high;
} Quantize;

typedef struct
{
  const Quantize *q;
  gconstpointer x, scale, zero;
  gpointer y;
} Job;

static inline double
load (OrtrainDType dtype, gconstpointer data, gint64 i)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT32:
      return (double) ((const float *) data)[i];
    case ORTRAIN_DTYPE_FLOAT64:
      return ((const double *) data)[i];
    case ORTRAIN_DTYPE_FLOAT16:
      return (double) ortrain_half_to_float (((const guint16 *) data)[i]);
    case ORTRAIN_DTYPE_BFLOAT16:
      return (double) ortrain_bfloat16_to_float (((const guint16 *) data)[i]);
    case ORTRAIN_DTYPE_INT8:
      return ((const gint8 *) data)[i];
    case ORTRAIN_DTYPE_UINT8:
      return ((const guint8 *) data)[i];
    case ORTRAIN_DTYPE_INT16:
      return ((const gint16 *) data)[i];
    case ORTRAIN_DTYPE_UINT16:
      return ((const guint16 *) data)[i];
    case ORTRAIN_DTYPE_INT32:
      return ((const gint32 *) data)[i];
    case ORTRAIN_DTYPE_UINT32:
      return ((const guint32 *) data)[i];
    case ORTRAIN_DTYPE_INT64:
      return (double) ((const gint64 *) data)[i];
    case ORTRAIN_DTYPE_UINT64:
    case ORTRAIN_DTYPE_BOOL:
    case ORTRAIN_DTYPE_UNDEFINED:
    case ORTRAIN_DTYPE_STRING:
    case ORTRAIN_DTYPE_COMPLEX64:
    case ORTRAIN_DTYPE_COMPLEX128:
      break;
    }
  return 0;
}

/* FALSE for a type that nothing is quantised to. */
static gboolean
get_range (OrtrainDType dtype, double *low, double *high)
{
  static const struct
  {
    OrtrainDType dtype;
    double low, high;
  } ranges[] = {
    { ORTRAIN_DTYPE_INT8, -128, 127 },
    { ORTRAIN_DTYPE_UINT8, 0, 255 },
    { ORTRAIN_DTYPE_INT16, -32768, 32767 },
    { ORTRAIN_DTYPE_UINT16, 0, 65535 },
    { ORTRAIN_DTYPE_INT32, -2147483648.0, 2147483647.0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (ranges); i++)
    if (ranges[i].dtype == dtype)
      {
        *low = ranges[i].low;
        *high = ranges[i].high;
        return TRUE;
      }
  return FALSE;
}

static inline void
store (OrtrainDType dtype, gpointer data, gint64 i, double value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) data)[i] = (float) value;
  else if (dtype == ORTRAIN_DTYPE_FLOAT64)
    ((double *) data)[i] = value;
  else if (dtype == ORTRAIN_DTYPE_FLOAT16)
    ((guint16 *) data)[i] = ortrain_float_to_half ((float) value);
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    ((guint16 *) data)[i] = ortrain_float_to_bfloat16 ((float) value);
  else if (dtype == ORTRAIN_DTYPE_INT8)
    ((gint8 *) data)[i] = (gint8) value;
  else if (dtype == ORTRAIN_DTYPE_UINT8)
    ((guint8 *) data)[i] = (guint8) value;
  else if (dtype == ORTRAIN_DTYPE_INT16)
    ((gint16 *) data)[i] = (gint16) value;
  else if (dtype == ORTRAIN_DTYPE_UINT16)
    ((guint16 *) data)[i] = (guint16) value;
  else if (dtype == ORTRAIN_DTYPE_INT32)
    ((gint32 *) data)[i] = (gint32) value;
}

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *scale = &setup->inputs[1], *y = &setup->outputs[0];
  Quantize *q = g_new0 (Quantize, 1);
  setup->constants = q;
  setup->constants_free = g_free;
  q->n = x->n_elements;
  q->x = x->dtype;
  q->scale = scale->dtype;
  q->y = y->dtype;
  q->zero = setup->n_inputs > 2 ? setup->inputs[2].dtype : ORTRAIN_DTYPE_UNDEFINED;
  q->outer = 1;
  q->dim = 1;
  q->inner = x->n_elements;
  q->blocks = q->block = 1;
  gboolean quantizes = g_str_equal (setup->op_type, "QuantizeLinear");
  if (!get_range (quantizes ? y->dtype : x->dtype, &q->low, &q->high) ||
      !ortrain_dtype_is_floating (quantizes ? x->dtype : y->dtype))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s has no kernel from %s to %s",
                   setup->op_type, ortrain_dtype_get_name (x->dtype), ortrain_dtype_get_name (y->dtype));
      return FALSE;
    }
  if (scale->n_elements != 1)
    {
      gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 1), x->rank);
      if (axis < 0 || axis >= x->rank || (scale->rank != 1 && scale->rank != x->rank))
        return ortrain_kernel_refuse (setup, error, "the scale does not fit the input");
      q->outer = ortrain_kernel_product (x->dims, 0, (guint) axis);
      q->dim = x->dims[axis];
      q->inner = ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
      q->blocked = scale->rank == x->rank && x->rank > 1;
      q->blocks = scale->dims[q->blocked ? axis : 0];
      if (q->blocks == 0 || (q->blocked && scale->n_elements != q->outer * q->blocks * q->inner) ||
          (!q->blocked && q->blocks != q->dim))
        return ortrain_kernel_refuse (setup, error, "the scale does not fit the input");
      q->block = ortrain_attributes_get_int (setup->attributes, "block_size", 0);
      if (q->block <= 0)
        q->block = (q->dim + q->blocks - 1) / q->blocks;
      if (q->block < 1 || (q->dim + q->block - 1) / q->block > q->blocks)
        return ortrain_kernel_refuse (setup, error, "the scale does not fit the input");
    }
  if (q->zero != ORTRAIN_DTYPE_UNDEFINED && setup->inputs[2].n_elements != scale->n_elements)
    return ortrain_kernel_refuse (setup, error, "scale and zero point differ in shape");
  return TRUE;
}

/* Where the scale of element i stands. */
static inline gint64
scale_index (const Quantize *q, gint64 i)
{
  if (q->dim == 1 && q->blocks == 1 && !q->blocked)
    return 0;
  gint64 inner = i % q->inner, at = i / q->inner % q->dim / q->block, outer = i / q->inner / q->dim;
  return q->blocked ? (outer * q->blocks + at) * q->inner + inner : at;
}

static void
quantize_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  const Quantize *q = job->q;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 k = scale_index (q, i);
      double zero = job->zero != NULL ? load (q->zero, job->zero, k) : 0, value;
      /* divided in the precision of the input, as the reference does: a tie there is a tie here */
      if (q->x == ORTRAIN_DTYPE_FLOAT64)
        value = load (q->x, job->x, i) / load (q->scale, job->scale, k);
      else
        value = (double) ((float) load (q->x, job->x, i) / (float) load (q->scale, job->scale, k));
      value = rint (value) + zero;
      store (q->y, job->y, i, value != value ? zero : CLAMP (value, q->low, q->high));
    }
}

static void
dequantize_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  const Quantize *q = job->q;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 k = scale_index (q, i);
      double zero = job->zero != NULL ? load (q->zero, job->zero, k) : 0;
      store (q->y, job->y, i, (load (q->x, job->x, i) - zero) * load (q->scale, job->scale, k));
    }
}

static void
run_with (const OrtrainKernelCall *call, OrtrainParallelFunc func)
{
  const Quantize *q = call->constants;
  Job job = { q, call->inputs[0], call->inputs[1], q->zero != ORTRAIN_DTYPE_UNDEFINED ? call->inputs[2] : NULL,
              call->outputs[0] };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), q->n, 8192, func, &job);
}

static void
run_quantize (const OrtrainKernelCall *call)
{
  run_with (call, quantize_range);
}

static void
run_dequantize (const OrtrainKernelCall *call)
{
  run_with (call, dequantize_range);
}

static gboolean
prepare_dynamic (OrtrainKernelSetup *setup, GError **error)
{
  gint64 *n = g_new (gint64, 1);
  *n = setup->inputs[0].n_elements;
  setup->constants = n;
  setup->constants_free = g_free;
  return TRUE;
}

static void
run_dynamic (const OrtrainKernelCall *call)
{
  const float *x = call->inputs[0];
  guint8 *y = call->outputs[0];
  gint64 n = *(const gint64 *) call->constants;
  float low = 0, high = 0;
  for (gint64 i = 0; i < n; i++)
    {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
  float scale = (high - low) / 255.0f;
  float zero = scale > 0 ? rintf (-low / scale) : 0;
  zero = zero >= 0 ? MIN (zero, 255.0f) : 0; /* also of infinite bounds, which give NaN */
  for (gint64 i = 0; i < n; i++)
    {
      float value = scale > 0 ? rintf (x[i] / scale) + zero : 0;
      y[i] = (guint8) (value != value ? zero : CLAMP (value, 0.0f, 255.0f));
    }
  *(float *) call->outputs[1] = scale;
  *(guint8 *) call->outputs[2] = (guint8) zero;
}

static const OrtrainKernel rows[] = {
  { .op_type = "QuantizeLinear", .domain = "", .prepare = prepare, .run = run_quantize },
  { .op_type = "DequantizeLinear", .domain = "", .prepare = prepare, .run = run_dequantize },
  { .op_type = "DynamicQuantizeLinear",
    .domain = "",
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32),
    .prepare = prepare_dynamic,
    .run = run_dynamic },
};

ORTRAIN_KERNEL_TABLE (quantize, rows);
