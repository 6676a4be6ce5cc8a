/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-copy-private.h"
#include "cpu/ortrain-cpu-matmul-private.h"

#include <math.h>

/* Products of integers: MatMul and Gemm of 32 and 64 bits, MatMulInteger and QLinearMatMul of 8. Loops, row by row. */

/* ---- 32 and 64 bits: sums wrap around ---- */

typedef struct
{
  const OrtrainKernelCall *call;
  const OrtrainCpuMatMul *matmul;
  gboolean accumulate;
} IntegerJob;

static gint64
get_a_offset (const OrtrainCpuGemm *g, gint64 batch)
{
  return g->a_offsets != NULL ? g->a_offsets[batch] : batch * g->a_stride;
}

static gint64
get_b_offset (const OrtrainCpuGemm *g, gint64 batch)
{
  return g->b_offsets != NULL ? g->b_offsets[batch] : batch * g->b_stride;
}

/* Row i of a product: c [n] = alpha · a [k] · b [k, n] + bias_scale · bias [n] */
#define DEFINE_INTEGER_ROW(name, type, wrap)                                                                           \
  static void name (const IntegerJob *job, gint64 batch, gint64 i)                                                     \
  {                                                                                                                    \
    const OrtrainCpuGemm *g = &job->matmul->gemm;                                                                      \
    const type *a = (const type *) job->call->inputs[0] + get_a_offset (g, batch);                                     \
    const type *b = (const type *) job->call->inputs[1] + get_b_offset (g, batch);                                     \
    type *restrict c = (type *) job->call->outputs[0] + batch * g->c_stride + i * g->ldc;                              \
    if (!job->accumulate)                                                                                              \
      memset (c, 0, (gsize) g->n * sizeof (type));                                                                     \
    for (gint64 l = 0; l < g->k; l++)                                                                                  \
      {                                                                                                                \
        wrap x = (wrap) (g->trans_a ? a[l * g->lda + i] : a[i * g->lda + l]) * (wrap) (gint64) g->alpha;               \
        for (gint64 j = 0; j < g->n; j++)                                                                              \
          c[j] = (type) ((wrap) c[j] + x * (wrap) (g->trans_b ? b[j * g->ldb + l] : b[l * g->ldb + j]));               \
      }                                                                                                                \
    if (g->has_bias)                                                                                                   \
      {                                                                                                                \
        const type *bias = (const type *) job->call->inputs[2] + i * g->bias_row_stride;                               \
        for (gint64 j = 0; j < g->n; j++)                                                                              \
          c[j] = (type) ((wrap) c[j] + (wrap) (gint64) g->bias_scale * (wrap) bias[j * g->bias_column_stride]);        \
      }                                                                                                                \
  }
DEFINE_INTEGER_ROW (integer_row_32, gint32, guint32)
DEFINE_INTEGER_ROW (integer_row_64, gint64, guint64)

static void
integer_rows (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const IntegerJob *job = data;
  const gint64 m = job->matmul->gemm.m;
  for (gint64 row = begin; row < end; row++)
    if (ortrain_dtype_get_size (job->matmul->dtype) == 4)
      integer_row_32 (job, row / m, row % m);
    else
      integer_row_64 (job, row / m, row % m);
}

static void
run_integer (const OrtrainKernelCall *call)
{
  const OrtrainCpuMatMul *self = call->constants;
  IntegerJob job = { call, self, ortrain_kernel_get_accumulate (call) != 0 };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), self->gemm.n_batch * self->gemm.m, 8, integer_rows, &job);
}

/* ---- 8 bits: MatMulInteger (A, B, a_zero, b_zero) and QLinearMatMul (a, a_scale, a_zero, b, b_scale, b_zero, y_scale,
 * y_zero). Sums are of 32 bits; a scale or a zero point has one element, or one for each row of A or column of B ----
 */

typedef struct
{
  guint input;
  OrtrainDType dtype;
  gint64 n; /* elements; 0: it is absent */
} Parameter;

typedef struct
{
  OrtrainCpuMatMul *product;
  guint b; /* the input that is B */
  OrtrainDType a_dtype, b_dtype;
  Parameter a_zero, b_zero;
  gboolean quantizes; /* the sums become bytes again, with … */
  Parameter a_scale, b_scale, y_scale, y_zero;
} Quantized;

static void
quantized_free (gpointer data)
{
  Quantized *self = data;
  g_free (self->product);
  g_free (self);
}

static Parameter
read_parameter (const OrtrainKernelSetup *setup, guint input)
{
  const OrtrainOperand *operand = input < setup->n_inputs ? &setup->inputs[input] : NULL;
  if (operand == NULL || operand->dtype == ORTRAIN_DTYPE_UNDEFINED)
    return (Parameter){ input, ORTRAIN_DTYPE_UNDEFINED, 0 };
  return (Parameter){ input, operand->dtype, operand->n_elements };
}

static gboolean
is_absent (const Parameter *parameter)
{
  return parameter->dtype == ORTRAIN_DTYPE_UNDEFINED;
}

static gboolean
fits_rows (const Quantized *self, const Parameter *parameter)
{
  const OrtrainCpuGemm *g = &self->product->gemm;
  return is_absent (parameter) || (parameter->n > 0 && g->n_batch * g->m % parameter->n == 0);
}

static gboolean
fits_columns (const Quantized *self, const Parameter *parameter)
{
  const OrtrainCpuGemm *g = &self->product->gemm;
  const gint64 n_matrices = g->n > 0 && g->k > 0 ? self->product->n_b / (g->n * g->k) : 1;
  return is_absent (parameter) || parameter->n == 1 || parameter->n == g->n ||
         parameter->n == g->n * MAX (n_matrices, 1);
}

static gboolean
parameters_fit (const Quantized *self)
{
  if (!fits_rows (self, &self->a_zero) || !fits_columns (self, &self->b_zero))
    return FALSE;
  return !self->quantizes || (fits_rows (self, &self->a_scale) && fits_columns (self, &self->b_scale) &&
                              self->y_scale.n == 1 && self->y_zero.n == 1);
}

static gboolean
prepare_quantized (OrtrainKernelSetup *setup, GError **error)
{
  const gboolean quantizes = g_str_equal (setup->op_type, "QLinearMatMul");
  const guint b = quantizes ? 3 : 1;
  const OrtrainOperand *inputs = setup->inputs, operands[2] = { inputs[0], inputs[b] };
  const guint n_inputs = setup->n_inputs;
  setup->inputs = operands;
  setup->n_inputs = 2;
  const gboolean ok = ortrain_cpu_matmul_prepare_product (setup, FALSE, FALSE, 1, error);
  setup->inputs = inputs;
  setup->n_inputs = n_inputs;
  if (!ok)
    return FALSE;
  Quantized *self = g_new0 (Quantized, 1);
  self->product = setup->constants;
  self->b = b;
  self->a_dtype = inputs[0].dtype;
  self->b_dtype = inputs[b].dtype;
  self->a_zero = read_parameter (setup, 2);
  self->b_zero = read_parameter (setup, quantizes ? 5 : 3);
  self->quantizes = quantizes;
  if (quantizes)
    {
      self->a_scale = read_parameter (setup, 1);
      self->b_scale = read_parameter (setup, 4);
      self->y_scale = read_parameter (setup, 6);
      self->y_zero = read_parameter (setup, 7);
    }
  setup->constants = self;
  setup->constants_free = quantized_free;
  setup->can_accumulate = 0;
  if (!self->product->swapped && !self->product->gemm.trans_a && !self->product->gemm.trans_b && parameters_fit (self))
    return TRUE;
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
               "%s: a scale or a zero point does not fit its matrix", setup->op_type);
  return FALSE;
}

static inline gint32
byte_at (OrtrainDType dtype, const void *data, gint64 i)
{
  return dtype == ORTRAIN_DTYPE_INT8 ? ((const gint8 *) data)[i] : ((const guint8 *) data)[i];
}

/* i: the row or the column */
static gint32
get_zero (const OrtrainKernelCall *call, const Parameter *parameter, gint64 i)
{
  return parameter->n == 0 ? 0 : byte_at (parameter->dtype, call->inputs[parameter->input], i % parameter->n);
}

static double
get_scale (const OrtrainKernelCall *call, const Parameter *parameter, gint64 i)
{
  const void *data = call->inputs[parameter->input];
  i %= parameter->n;
  switch (parameter->dtype)
    {
    case ORTRAIN_DTYPE_FLOAT16:
      return ortrain_half_to_float (((const guint16 *) data)[i]);
    case ORTRAIN_DTYPE_BFLOAT16:
      return ortrain_bfloat16_to_float (((const guint16 *) data)[i]);
    case ORTRAIN_DTYPE_FLOAT64:
      return ((const double *) data)[i];
    default:
      return ((const float *) data)[i];
    }
}

static void
store_quantized (const OrtrainKernelCall *call, const Quantized *self, gint64 row, gint64 column, gint32 sum, gint64 at)
{
  const double scale = get_scale (call, &self->a_scale, row) * get_scale (call, &self->b_scale, column) /
                       get_scale (call, &self->y_scale, 0);
  const double zero = get_zero (call, &self->y_zero, 0);
  double value = rint ((double) sum * scale) + zero;
  value = value != value ? zero : value; /* scales of zero or NaN */
  if (self->y_zero.dtype == ORTRAIN_DTYPE_INT8)
    ((gint8 *) call->outputs[0])[at] = (gint8) CLAMP (value, -128, 127);
  else
    ((guint8 *) call->outputs[0])[at] = (guint8) CLAMP (value, 0, 255);
}

/* c [n] of row i of a product */
static void
quantized_row (const OrtrainKernelCall *call, const Quantized *self, gint64 batch, gint64 i)
{
  const OrtrainCpuGemm *g = &self->product->gemm;
  const void *a = call->inputs[0], *b = call->inputs[self->b];
  const gint64 row = batch * g->m + i, first_a = get_a_offset (g, batch) + i * g->lda;
  const gint64 first_b = get_b_offset (g, batch), first_c = batch * g->c_stride + i * g->ldc;
  const gint32 a_zero = get_zero (call, &self->a_zero, row);
  for (gint64 j = 0; j < g->n; j++)
    {
      const gint64 column = batch * g->n + j;
      const gint32 b_zero = get_zero (call, &self->b_zero, column);
      guint32 sum = 0; /* wraps around, as in ONNX Runtime */
      for (gint64 l = 0; l < g->k; l++)
        sum += (guint32) ((byte_at (self->a_dtype, a, first_a + l) - a_zero) *
                          (byte_at (self->b_dtype, b, first_b + l * g->ldb + j) - b_zero));
      if (self->quantizes)
        store_quantized (call, self, row, column, (gint32) sum, first_c + j);
      else
        ((gint32 *) call->outputs[0])[first_c + j] = (gint32) sum;
    }
}

static void
quantized_rows (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainKernelCall *call = data;
  const Quantized *self = call->constants;
  const gint64 m = self->product->gemm.m;
  for (gint64 row = begin; row < end; row++)
    quantized_row (call, self, row / m, row % m);
}

static void
run_quantized (const OrtrainKernelCall *call)
{
  const OrtrainCpuGemm *g = &((const Quantized *) call->constants)->product->gemm;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), g->n_batch * g->m, 8, quantized_rows, (gpointer) call);
}

#define DTYPES_WIDE                                                                                                    \
  (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64) |                                 \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT64))
#define DTYPES_BYTE (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8))

static const OrtrainKernel rows[] = {
  { .op_type = "MatMul",
    .domain = "",
    .dtypes = DTYPES_WIDE,
    .prepare = ortrain_cpu_matmul_prepare,
    .run = run_integer },
  { .op_type = "Gemm", .domain = "", .dtypes = DTYPES_WIDE, .prepare = ortrain_cpu_matmul_prepare, .run = run_integer },
  { .op_type = "MatMulInteger",
    .domain = "",
    .dtypes = DTYPES_BYTE,
    .prepare = prepare_quantized,
    .run = run_quantized },
  { .op_type = "QLinearMatMul",
    .domain = "",
    .dtypes = DTYPES_BYTE,
    .prepare = prepare_quantized,
    .run = run_quantized },
};
ORTRAIN_KERNEL_TABLE (matmul_integer, rows);
