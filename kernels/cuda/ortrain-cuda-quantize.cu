/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-units.h"

/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: one scale for all, for each channel, or for each block. */

struct Quantize
{
  gint64 n;
  OrtrainDivisor dim, inner, block; /* of the input, around the axis; of the scale along it */
  gint64 blocks;
  bool blocked, one_scale;        /* blocked: the scale has outer and inner as well */
  OrtrainDType x, scale, y, zero; /* zero UNDEFINED: none */
  double low, high;
};

static inline __device__ double
load_number (OrtrainDType dtype, const void *data, gint64 i)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT64:
      return ((const double *) data)[i];
    case ORTRAIN_DTYPE_FLOAT32:
    case ORTRAIN_DTYPE_FLOAT16:
    case ORTRAIN_DTYPE_BFLOAT16:
      return (double) ortrain_load_any (data, i, dtype);
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
    default:
      return 0;
    }
}

static inline __device__ void
store_number (OrtrainDType dtype, void *data, gint64 i, double value)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT64:
      ((double *) data)[i] = value;
      break;
    case ORTRAIN_DTYPE_INT8:
      ((gint8 *) data)[i] = (gint8) value;
      break;
    case ORTRAIN_DTYPE_UINT8:
      ((guint8 *) data)[i] = (guint8) value;
      break;
    case ORTRAIN_DTYPE_INT16:
      ((gint16 *) data)[i] = (gint16) value;
      break;
    case ORTRAIN_DTYPE_UINT16:
      ((guint16 *) data)[i] = (guint16) value;
      break;
    case ORTRAIN_DTYPE_INT32:
      ((gint32 *) data)[i] = (gint32) value;
      break;
    default:
      ortrain_store_any (data, i, dtype, (float) value);
    }
}

/* Where the scale of element i stands. */
static inline __device__ gint64
find_scale (const Quantize &q, gint64 i)
{
  if (q.one_scale)
    return 0;
  const bool small = q.n <= G_MAXINT32;
  gint64 inner = i;
  gint64 at = small ? ortrain_divide_rest<true> (inner, q.inner) : ortrain_divide_rest<false> (inner, q.inner);
  const gint64 outer = small ? ortrain_divide_rest<true> (at, q.dim) : ortrain_divide_rest<false> (at, q.dim);
  at = small ? ortrain_divide_rest<true> (at, q.block) : ortrain_divide_rest<false> (at, q.block);
  return q.blocked ? (outer * q.blocks + at) * q.inner.divisor + inner : at;
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    quantize_kernel (const Quantize q, const void *x, const void *scale, const void *zeros, void *y)
{
  for (gint64 i = ortrain_cuda_first (); i < q.n; i += ortrain_cuda_stride ())
    {
      const gint64 k = find_scale (q, i);
      const double zero = zeros != NULL ? load_number (q.zero, zeros, k) : 0;
      double value;
      /* divided in the precision of the input, as the reference does: a tie there is a tie here */
      if (q.x == ORTRAIN_DTYPE_FLOAT64)
        value = load_number (q.x, x, i) / load_number (q.scale, scale, k);
      else
        value = (double) ((float) load_number (q.x, x, i) / (float) load_number (q.scale, scale, k));
      value = rint (value) + zero;
      value = value < q.low ? q.low : value > q.high ? q.high : value;
      store_number (q.y, y, i, value != value ? zero : value);
    }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    dequantize_kernel (const Quantize q, const void *x, const void *scale, const void *zeros, void *y)
{
  for (gint64 i = ortrain_cuda_first (); i < q.n; i += ortrain_cuda_stride ())
    {
      const gint64 k = find_scale (q, i);
      const double zero = zeros != NULL ? load_number (q.zero, zeros, k) : 0;
      store_number (q.y, y, i, (load_number (q.x, x, i) - zero) * load_number (q.scale, scale, k));
    }
}

/* FALSE for a type that nothing is quantized to. */
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

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *scale = &setup->inputs[1], *y = &setup->outputs[0];
  const gboolean quantizes = g_str_equal (setup->op_type, "QuantizeLinear");
  Quantize *q = g_new0 (Quantize, 1);
  setup->constants = q;
  setup->constants_free = g_free;
  q->n = x->n_elements;
  q->x = x->dtype;
  q->scale = scale->dtype;
  q->y = y->dtype;
  q->zero = setup->n_inputs > 2 ? setup->inputs[2].dtype : ORTRAIN_DTYPE_UNDEFINED;
  q->one_scale = scale->n_elements == 1;
  if (!get_range (quantizes ? y->dtype : x->dtype, &q->low, &q->high) ||
      !(ORTRAIN_DTYPE_BIT (quantizes ? x->dtype : y->dtype) & ORTRAIN_DTYPES_FLOAT))
    return ortrain_cuda_refuse (setup, error, "there is no kernel from %s to %s",
                                ortrain_cuda_library->dtype_get_name (x->dtype),
                                ortrain_cuda_library->dtype_get_name (y->dtype));
  if (!q->one_scale)
    {
      const gint64 axis = ortrain_kernel_axis (ORTRAIN_CUDA_INT (setup, "axis", 1), x->rank);
      if (axis < 0 || axis >= x->rank || (scale->rank != 1 && scale->rank != x->rank))
        return ortrain_cuda_refuse (setup, error, "the scale does not fit the input");
      const gint64 outer = ortrain_kernel_product (x->dims, 0, (guint) axis), dim = x->dims[axis],
                   inner = ortrain_kernel_product (x->dims, (guint) axis + 1, x->rank);
      q->blocked = scale->rank == x->rank && x->rank > 1;
      q->blocks = scale->dims[q->blocked ? axis : 0];
      if (q->blocks == 0 || (q->blocked && scale->n_elements != outer * q->blocks * inner) ||
          (!q->blocked && q->blocks != dim))
        return ortrain_cuda_refuse (setup, error, "the scale does not fit the input");
      gint64 block = ORTRAIN_CUDA_INT (setup, "block_size", 0);
      if (block <= 0)
        block = (dim + q->blocks - 1) / q->blocks;
      if (block < 1 || (dim + block - 1) / block > q->blocks)
        return ortrain_cuda_refuse (setup, error, "the scale does not fit the input");
      q->dim = ortrain_divisor (dim);
      q->inner = ortrain_divisor (inner);
      q->block = ortrain_divisor (block);
    }
  if (q->zero != ORTRAIN_DTYPE_UNDEFINED && setup->inputs[2].n_elements != scale->n_elements)
    return ortrain_cuda_refuse (setup, error, "scale and zero point differ in shape");
  return TRUE;
}

static void
run_with (const OrtrainKernelCall *call, const char *name,
          void (*kernel) (const Quantize, const void *, const void *, const void *, void *))
{
  const Quantize *q = (const Quantize *) call->constants;
  const void *zeros = q->zero != ORTRAIN_DTYPE_UNDEFINED ? call->inputs[2] : NULL;
  if (q->n > 0)
    ortrain_cuda_launch (call, name, ortrain_cuda_grid (call, q->n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK, kernel, *q,
                         call->inputs[0], call->inputs[1], zeros, call->outputs[0]);
}

static void
run_quantize (const OrtrainKernelCall *call)
{
  run_with (call, "quantize", quantize_kernel);
}

static void
run_dequantize (const OrtrainKernelCall *call)
{
  run_with (call, "dequantize", dequantize_kernel);
}

/* ---- DynamicQuantizeLinear: the bounds of parts of x, then of all of it, then the numbers ---- */

#define MAX_PARTS ORTRAIN_CUDA_BLOCK

/* bounds: [2, parts], a block each: the least and the largest, 0 among them */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) bounds_kernel (const float *x, gint64 n, float *bounds)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  float low = 0, high = 0;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
  low = ortrain_block_reduce<OrtrainMin> (low, scratch);
  high = ortrain_block_reduce<OrtrainMax> (high, scratch);
  if (threadIdx.x == 0)
    {
      bounds[blockIdx.x] = low;
      bounds[gridDim.x + blockIdx.x] = high;
    }
}

/* Every block finds scale and zero again; the first one writes them. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    dynamic_kernel (const float *x, gint64 n, const float *bounds, int parts, guint8 *y, float *scales, guint8 *zeros)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const float low = ortrain_block_reduce<OrtrainMin> ((int) threadIdx.x < parts ? bounds[threadIdx.x] : 0.0f, scratch);
  const float high =
      ortrain_block_reduce<OrtrainMax> ((int) threadIdx.x < parts ? bounds[parts + threadIdx.x] : 0.0f, scratch);
  const float scale = (high - low) / 255.0f;
  float zero = scale > 0 ? rintf (-low / scale) : 0;
  zero = zero >= 0 ? (zero < 255.0f ? zero : 255.0f) : 0; /* also of infinite bounds, which give NaN */
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const float value = scale > 0 ? rintf (x[i] / scale) + zero : 0;
      y[i] = (guint8) (value != value ? zero : value < 0 ? 0 : value > 255.0f ? 255.0f : value);
    }
  if (blockIdx.x == 0 && threadIdx.x == 0)
    {
      if (scales != NULL)
        *scales = scale;
      if (zeros != NULL)
        *zeros = (guint8) zero;
    }
}

static gboolean
prepare_dynamic (OrtrainKernelSetup *setup, GError **error)
{
  gint64 *n = g_new (gint64, 1);
  *n = setup->inputs[0].n_elements;
  setup->constants = n;
  setup->constants_free = g_free;
  setup->workspace_bytes = 2 * MAX_PARTS * sizeof (float);
  return TRUE;
}

static void
run_dynamic (const OrtrainKernelCall *call)
{
  const gint64 n = *(const gint64 *) call->constants;
  const float *x = (const float *) call->inputs[0];
  const unsigned parts = MIN (ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK * 4), (unsigned) MAX_PARTS);
  ortrain_cuda_launch (call, "bounds", parts, ORTRAIN_CUDA_BLOCK, bounds_kernel, x, n, (float *) call->workspace);
  ortrain_cuda_launch (call, "dynamic-quantize", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK * 4),
                       ORTRAIN_CUDA_BLOCK, dynamic_kernel, x, n, (const float *) call->workspace, (int) parts,
                       (guint8 *) call->outputs[0], (float *) call->outputs[1], (guint8 *) call->outputs[2]);
}

static const OrtrainKernel rows[] = {
  { "QuantizeLinear", "", 0, prepare, run_quantize },
  { "DequantizeLinear", "", 0, prepare, run_dequantize },
  { "DynamicQuantizeLinear", "", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32), prepare_dynamic, run_dynamic },
};

ORTRAIN_CUDA_TABLE (quantize, rows);
