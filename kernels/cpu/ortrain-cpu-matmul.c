/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-kernel-private.h"

#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-gemm.h"

#include <math.h>
#include <string.h>

/* MatMul, Gemm and FusedMatMul: the shapes are brought into one form, a batch of products C [m, n] = A [m, k] · B [k,
 * n] with an offset per product, and cut over a pool. A with batch dimensions and a plain 2-D B is one product. */

typedef struct
{
  OrtrainCpuGemm gemm;
  OrtrainDType dtype;
  gint64 n_a, n_b, n_bias, n_c; /* elements, for operands that are converted */
  gint64 offsets[];             /* [2 · n_batch], when broadcast */
} MatMulConstants;

static gint64
product (const gint64 *dims, guint from, guint to)
{
  gint64 n = 1;
  for (guint i = from; i < to; i++)
    n *= dims[i];
  return n;
}

/* Offsets, in elements, of each product of the batch: outputs' batch dims, an operand's own (aligned to the right). */
static void
fill_offsets (gint64 *offsets, const gint64 *batch, guint rank, const gint64 *dims, guint own_rank, gint64 stride)
{
  gint64 n = product (batch, 0, rank);
  for (gint64 i = 0; i < n; i++)
    {
      gint64 rest = i, offset = 0, step = stride;
      for (guint r = 0; r < rank; r++)
        {
          guint at = rank - 1 - r;
          gint64 index = rest % batch[at];
          rest /= batch[at];
          if (r < own_rank)
            {
              gint64 extent = dims[own_rank - 1 - r];
              if (extent != 1)
                offset += index * step;
              step *= extent;
            }
        }
      offsets[i] = offset;
    }
}

static gboolean
prepare_product (OrtrainKernelSetup *setup, gboolean trans_a, gboolean trans_b, double alpha, GError **error)
{
  const OrtrainOperand *a = &setup->inputs[0], *b = &setup->inputs[1], *c = &setup->outputs[0];
  gint64 a_dims[ORTRAIN_MAX_RANK + 1], b_dims[ORTRAIN_MAX_RANK + 1];
  guint a_rank = a->rank, b_rank = b->rank;
  if (a_rank == 0 || b_rank == 0 || a_rank > ORTRAIN_MAX_RANK || b_rank > ORTRAIN_MAX_RANK)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s of operands of rank %u and %u is not possible", setup->op_type, a_rank, b_rank);
      return FALSE;
    }
  if (a_rank == 1) /* a row */
    {
      a_dims[0] = trans_a ? a->dims[0] : 1;
      a_dims[1] = trans_a ? 1 : a->dims[0];
      a_rank = 2;
    }
  else
    memcpy (a_dims, a->dims, a_rank * sizeof (gint64));
  if (b_rank == 1) /* a column */
    {
      b_dims[0] = trans_b ? 1 : b->dims[0];
      b_dims[1] = trans_b ? b->dims[0] : 1;
      b_rank = 2;
    }
  else
    memcpy (b_dims, b->dims, b_rank * sizeof (gint64));

  gint64 a_rows = a_dims[a_rank - 2], a_columns = a_dims[a_rank - 1];
  gint64 b_rows = b_dims[b_rank - 2], b_columns = b_dims[b_rank - 1];
  gint64 m = trans_a ? a_columns : a_rows, k = trans_a ? a_rows : a_columns;
  gint64 n = trans_b ? b_rows : b_columns;
  if (k != (trans_b ? b_columns : b_rows))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: inner dimensions %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " differ", setup->op_type, k,
                   trans_b ? b_columns : b_rows);
      return FALSE;
    }

  gint64 batch[ORTRAIN_MAX_RANK];
  guint a_batch = a_rank - 2, b_batch = b_rank - 2, rank = MAX (a_batch, b_batch);
  gint64 n_batch = 1;
  for (guint r = 0; r < rank; r++)
    {
      gint64 x = r < a_batch ? a_dims[a_batch - 1 - r] : 1, y = r < b_batch ? b_dims[b_batch - 1 - r] : 1;
      if (x != y && x != 1 && y != 1)
        {
          g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                       "%s: batch dimensions %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " do not fit", setup->op_type,
                       x, y);
          return FALSE;
        }
      batch[rank - 1 - r] = x == 1 ? y : x;
      n_batch *= batch[rank - 1 - r];
    }
  gboolean a_full = product (a_dims, 0, a_batch) == n_batch, b_full = product (b_dims, 0, b_batch) == n_batch;
  if (!trans_a && a_full && product (b_dims, 0, b_batch) == 1)
    {
      /* One product: the rows of all of A's matrices lie one after the other, and so do those of C. */
      m *= n_batch;
      n_batch = 1;
      b_full = TRUE;
    }

  gsize n_offsets = a_full && b_full ? 0 : (gsize) n_batch * 2, bytes;
  if (!ortrain_checked_mul (n_offsets, sizeof (gint64), &bytes) ||
      !ortrain_checked_add (bytes, sizeof (MatMulConstants), &bytes))
    bytes = G_MAXSIZE;
  MatMulConstants *constants = bytes == G_MAXSIZE ? NULL : g_try_malloc0 (bytes);
  if (constants == NULL)
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "%s: no memory for a batch of %" G_GINT64_FORMAT " products", setup->op_type, n_batch);
      return FALSE;
    }
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->dtype = a->dtype;
  constants->n_a = a->n_elements;
  constants->n_b = b->n_elements;
  constants->n_c = c->n_elements;
  OrtrainCpuGemm *gemm = &constants->gemm;
  *gemm = (OrtrainCpuGemm){
    .is_double = a->dtype == ORTRAIN_DTYPE_FLOAT64,
    .trans_a = trans_a,
    .trans_b = trans_b,
    .m = m,
    .n = n,
    .k = k,
    .lda = MAX (a_columns, 1),
    .ldb = MAX (b_columns, 1),
    .ldc = MAX (n, 1),
    .alpha = alpha,
    .n_batch = c->n_elements == 0 ? 0 : n_batch,
    .a_stride = a_rows * a_columns,
    .b_stride = b_rows * b_columns,
    .c_stride = m * n,
  };
  if (!a_full && n_batch > 0)
    {
      fill_offsets (constants->offsets, batch, rank, a_dims, a_batch, gemm->a_stride);
      gemm->a_offsets = constants->offsets;
    }
  if (!b_full && n_batch > 0)
    {
      fill_offsets (constants->offsets + n_batch, batch, rank, b_dims, b_batch, gemm->b_stride);
      gemm->b_offsets = constants->offsets + n_batch;
    }
  ortrain_cpu_gemm_plan (gemm, setup->n_threads, setup->fixed_partition);
  setup->can_accumulate = TRUE;
  setup->flops = 2.0 * (double) m * (double) n * (double) k * (double) n_batch;
  return TRUE;
}

static gboolean
prepare_bias (OrtrainKernelSetup *setup, GError **error)
{
  MatMulConstants *constants = setup->constants;
  OrtrainCpuGemm *gemm = &constants->gemm;
  double beta = ortrain_attributes_get_float (setup->attributes, "beta", 1);
  if (setup->n_inputs < 3 || setup->inputs[2].dtype == ORTRAIN_DTYPE_UNDEFINED || beta == 0)
    return TRUE;
  const OrtrainOperand *bias = &setup->inputs[2];
  gint64 rows = bias->rank >= 2 ? bias->dims[bias->rank - 2] : 1,
         columns = bias->rank >= 1 ? bias->dims[bias->rank - 1] : 1;
  if (bias->rank > 2 || (rows != 1 && rows != gemm->m) || (columns != 1 && columns != gemm->n))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "Gemm: C of %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT " does not fit a result of %" G_GINT64_FORMAT
                   " × %" G_GINT64_FORMAT,
                   rows, columns, gemm->m, gemm->n);
      return FALSE;
    }
  constants->n_bias = bias->n_elements;
  gemm->has_bias = TRUE;
  gemm->bias_scale = beta;
  gemm->bias_row_stride = rows == 1 ? 0 : columns;
  gemm->bias_column_stride = columns == 1 ? 0 : 1;
  return TRUE;
}

static gboolean
prepare_matmul (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainAttributes *attributes = setup->attributes;
  if (g_str_equal (setup->op_type, "MatMul"))
    return prepare_product (setup, FALSE, FALSE, 1, error);
  if (!prepare_product (setup, ortrain_attributes_get_int (attributes, "transA", 0) != 0,
                        ortrain_attributes_get_int (attributes, "transB", 0) != 0,
                        ortrain_attributes_get_float (attributes, "alpha", 1), error))
    return FALSE;
  return !g_str_equal (setup->op_type, "Gemm") || prepare_bias (setup, error);
}

#define DEFINE_ADD_BIAS(name, type)                                                                                    \
  static void name (const OrtrainCpuGemm *g, const type *bias, type *c)                                                \
  {                                                                                                                    \
    for (gint64 i = 0; i < g->m; i++)                                                                                  \
      for (gint64 j = 0; j < g->n; j++)                                                                                \
        c[i * g->ldc + j] += (type) g->bias_scale * bias[i * g->bias_row_stride + j * g->bias_column_stride];          \
  }
DEFINE_ADD_BIAS (add_bias_f32, float)
DEFINE_ADD_BIAS (add_bias_f64, double)

static void
multiply (const MatMulConstants *constants, gboolean accumulate, OrtrainThreadPool *pool, const void *a, const void *b,
          const void *bias, void *c)
{
  OrtrainCpuGemm gemm = constants->gemm;
  if (!accumulate)
    {
      ortrain_cpu_gemm_run (&gemm, pool, a, b, bias, c);
      return;
    }
  gemm.beta = 1;
  gemm.has_bias = FALSE;
  ortrain_cpu_gemm_run (&gemm, pool, a, b, NULL, c);
  if (constants->gemm.has_bias)
    {
      if (gemm.is_double)
        add_bias_f64 (&gemm, bias, c);
      else
        add_bias_f32 (&gemm, bias, c);
    }
}

static void
run_matmul (const OrtrainKernelCall *call)
{
  const MatMulConstants *constants = call->constants;
  multiply (constants, call->accumulate, call->frame->pool, call->inputs[0], call->inputs[1],
            constants->gemm.has_bias ? call->inputs[2] : NULL, call->outputs[0]);
}

/* ---- float16 and bfloat16: widened, multiplied in float32, rounded once ---- */

static gsize
half_room (gint64 n)
{
  return ((gsize) n * sizeof (float) + 63) & ~(gsize) 63;
}

static gboolean
prepare_matmul_half (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_matmul (setup, error))
    return FALSE;
  const MatMulConstants *constants = setup->constants;
  setup->workspace_bytes = half_room (constants->n_a) + half_room (constants->n_b) + half_room (constants->n_bias) +
                           half_room (constants->n_c);
  return TRUE;
}

typedef struct
{
  OrtrainDType dtype;
  const guint16 *from;
  guint16 *to;
  float *wide;
  gboolean add;
} ConvertJob;

static inline float
widen_one (OrtrainDType dtype, guint16 bits)
{
  return dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (bits) : ortrain_bfloat16_to_float (bits);
}

static void
widen_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ConvertJob *job = data;
  for (gint64 i = begin; i < end; i++)
    job->wide[i] = widen_one (job->dtype, job->from[i]);
}

static void
narrow_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ConvertJob *job = data;
  for (gint64 i = begin; i < end; i++)
    {
      float value = job->wide[i] + (job->add ? widen_one (job->dtype, job->to[i]) : 0);
      job->to[i] =
          job->dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_float_to_half (value) : ortrain_float_to_bfloat16 (value);
    }
}

static void
run_matmul_half (const OrtrainKernelCall *call)
{
  const MatMulConstants *constants = call->constants;
  OrtrainThreadPool *pool = call->frame->pool;
  char *at = call->workspace;
  float *wide[3] = { NULL, NULL, NULL };
  gint64 n[3] = { constants->n_a, constants->n_b, constants->n_bias };
  for (guint i = 0; i < 3; i++)
    {
      wide[i] = (float *) at;
      at += half_room (n[i]);
      if (n[i] == 0 || (i == 2 && !constants->gemm.has_bias))
        continue;
      ConvertJob job = { .dtype = constants->dtype, .from = call->inputs[i], .wide = wide[i] };
      ortrain_parallel_for (pool, n[i], 16384, widen_chunk, &job);
    }
  multiply (constants, FALSE, pool, wide[0], wide[1], wide[2], at);
  ConvertJob job = { .dtype = constants->dtype, .to = call->outputs[0], .wide = (float *) at, .add = call->accumulate };
  ortrain_parallel_for (pool, constants->n_c, 16384, narrow_chunk, &job);
}

/* ---- integers ---- */

typedef struct
{
  const OrtrainKernelCall *call;
  const MatMulConstants *constants;
} IntegerJob;

#define DEFINE_INTEGER_ROWS(name, type, wrap)                                                                          \
  static void name (const IntegerJob *job, gint64 batch, gint64 i)                                                     \
  {                                                                                                                    \
    const OrtrainCpuGemm *g = &job->constants->gemm;                                                                   \
    const type *a =                                                                                                    \
        (const type *) job->call->inputs[0] + (g->a_offsets != NULL ? g->a_offsets[batch] : batch * g->a_stride);      \
    const type *b =                                                                                                    \
        (const type *) job->call->inputs[1] + (g->b_offsets != NULL ? g->b_offsets[batch] : batch * g->b_stride);      \
    type *restrict c = (type *) job->call->outputs[0] + batch * g->c_stride + i * g->ldc;                              \
    if (!job->call->accumulate)                                                                                        \
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
DEFINE_INTEGER_ROWS (integer_rows_32, gint32, guint32)
DEFINE_INTEGER_ROWS (integer_rows_64, gint64, guint64)

static void
integer_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const IntegerJob *job = data;
  gint64 m = job->constants->gemm.m;
  for (gint64 i = begin; i < end; i++)
    if (ortrain_dtype_get_size (job->constants->dtype) == 4)
      integer_rows_32 (job, i / m, i % m);
    else
      integer_rows_64 (job, i / m, i % m);
}

static void
run_matmul_integer (const OrtrainKernelCall *call)
{
  const MatMulConstants *constants = call->constants;
  IntegerJob job = { call, constants };
  ortrain_parallel_for (call->frame->pool, constants->gemm.n_batch * constants->gemm.m, 8, integer_chunk, &job);
}

/* ---- 8-bit: MatMulInteger (A, B, a_zero, b_zero) and QLinearMatMul (a, a_scale, a_zero, b, b_scale, b_zero, y_scale,
 * y_zero); scales and zero points are scalars, or one per row of A or column of B ---- */

typedef struct
{
  MatMulConstants *product;
  gboolean quantised_output;
  OrtrainDType a_dtype, b_dtype, y_dtype, scale_dtype;
  gint64 n_a_zero, n_b_zero, n_a_scale, n_b_scale;
} QuantisedConstants;

static void
quantised_constants_free (gpointer data)
{
  QuantisedConstants *constants = data;
  g_free (constants->product);
  g_free (constants);
}

static gboolean
prepare_quantised (OrtrainKernelSetup *setup, GError **error)
{
  gboolean q = g_str_equal (setup->op_type, "QLinearMatMul");
  guint b = q ? 3 : 1, az = 2, bz = q ? 5 : 3;
  OrtrainOperand operands[2] = { setup->inputs[0], setup->inputs[b] };
  const OrtrainOperand *inputs = setup->inputs;
  setup->inputs = operands;
  gboolean ok = prepare_product (setup, FALSE, FALSE, 1, error);
  setup->inputs = inputs;
  if (!ok)
    return FALSE;
  QuantisedConstants *constants = g_new0 (QuantisedConstants, 1);
  constants->product = setup->constants;
  constants->quantised_output = q;
  constants->a_dtype = inputs[0].dtype;
  constants->b_dtype = inputs[b].dtype;
  constants->y_dtype = setup->outputs[0].dtype;
  constants->n_a_zero = az < setup->n_inputs && inputs[az].dtype != ORTRAIN_DTYPE_UNDEFINED ? inputs[az].n_elements : 0;
  constants->n_b_zero = bz < setup->n_inputs && inputs[bz].dtype != ORTRAIN_DTYPE_UNDEFINED ? inputs[bz].n_elements : 0;
  if (q)
    {
      constants->n_a_scale = inputs[1].n_elements;
      constants->n_b_scale = inputs[4].n_elements;
      constants->scale_dtype = inputs[1].dtype;
    }
  setup->constants = constants;
  setup->constants_free = quantised_constants_free;
  setup->can_accumulate = FALSE;
  return TRUE;
}

static inline gint32
byte_at (OrtrainDType dtype, const void *data, gint64 i)
{
  return dtype == ORTRAIN_DTYPE_INT8 ? ((const gint8 *) data)[i] : ((const guint8 *) data)[i];
}

static inline double
scale_at (OrtrainDType dtype, const void *data, gint64 i)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT16:
    case ORTRAIN_DTYPE_BFLOAT16:
      return widen_one (dtype, ((const guint16 *) data)[i]);
    default:
      return ((const float *) data)[i];
    }
}

static void
quantised_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const OrtrainKernelCall *call = data;
  const QuantisedConstants *constants = call->constants;
  const OrtrainCpuGemm *g = &constants->product->gemm;
  gboolean q = constants->quantised_output;
  const void *a = call->inputs[0], *b = call->inputs[q ? 3 : 1];
  for (gint64 row = begin; row < end; row++)
    {
      gint64 batch = row / g->m, i = row % g->m;
      gint64 a0 = (g->a_offsets != NULL ? g->a_offsets[batch] : batch * g->a_stride) + i * g->lda;
      gint64 b0 = g->b_offsets != NULL ? g->b_offsets[batch] : batch * g->b_stride;
      gint32 az = 0;
      if (constants->n_a_zero > 0)
        az = byte_at (constants->a_dtype, call->inputs[2], constants->n_a_zero == 1 ? 0 : row % constants->n_a_zero);
      for (gint64 j = 0; j < g->n; j++)
        {
          gint32 bz = 0;
          if (constants->n_b_zero > 0)
            bz = byte_at (constants->b_dtype, call->inputs[q ? 5 : 3],
                          constants->n_b_zero == 1 ? 0 : (batch * g->n + j) % constants->n_b_zero);
          gint32 sum = 0;
          for (gint64 l = 0; l < g->k; l++)
            sum += (byte_at (constants->a_dtype, a, a0 + l) - az) *
                   (byte_at (constants->b_dtype, b, b0 + l * g->ldb + j) - bz);
          gint64 at = batch * g->c_stride + i * g->ldc + j;
          if (!q)
            {
              ((gint32 *) call->outputs[0])[at] = sum;
              continue;
            }
          double scale = scale_at (constants->scale_dtype, call->inputs[1],
                                   constants->n_a_scale == 1 ? 0 : row % constants->n_a_scale) *
                         scale_at (constants->scale_dtype, call->inputs[4],
                                   constants->n_b_scale == 1 ? 0 : (batch * g->n + j) % constants->n_b_scale) /
                         scale_at (constants->scale_dtype, call->inputs[6], 0);
          double value = rint ((double) sum * scale) + byte_at (constants->y_dtype, call->inputs[7], 0);
          if (constants->y_dtype == ORTRAIN_DTYPE_INT8)
            ((gint8 *) call->outputs[0])[at] = (gint8) CLAMP (value, -128, 127);
          else
            ((guint8 *) call->outputs[0])[at] = (guint8) CLAMP (value, 0, 255);
        }
    }
}

static void
run_quantised (const OrtrainKernelCall *call)
{
  const QuantisedConstants *constants = call->constants;
  const OrtrainCpuGemm *g = &constants->product->gemm;
  ortrain_parallel_for (call->frame->pool, g->n_batch * g->m, 8, quantised_chunk, (gpointer) call);
}

#define DTYPES_WIDE_INTEGER                                                                                            \
  (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64) |                                 \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT64))
#define DTYPES_BYTE (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8))

static const OrtrainKernel rows[] = {
  { "MatMul", "", ORTRAIN_DTYPES_F32F64, prepare_matmul, run_matmul },
  { "MatMul", "", ORTRAIN_DTYPES_HALF, prepare_matmul_half, run_matmul_half },
  { "MatMul", "", DTYPES_WIDE_INTEGER, prepare_matmul, run_matmul_integer },
  { "Gemm", "", ORTRAIN_DTYPES_F32F64, prepare_matmul, run_matmul },
  { "Gemm", "", ORTRAIN_DTYPES_HALF, prepare_matmul_half, run_matmul_half },
  { "Gemm", "", DTYPES_WIDE_INTEGER, prepare_matmul, run_matmul_integer },
  { "FusedMatMul", "org.ortrain", ORTRAIN_DTYPES_F32F64, prepare_matmul, run_matmul },
  { "FusedMatMul", "org.ortrain", ORTRAIN_DTYPES_HALF, prepare_matmul_half, run_matmul_half },
  { "MatMulInteger", "", DTYPES_BYTE, prepare_quantised, run_quantised },
  { "QLinearMatMul", "", DTYPES_BYTE, prepare_quantised, run_quantised },
};
ORTRAIN_KERNEL_TABLE (matmul, rows);
