/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-gemm.h"

#include "common/ortrain-matrix-product-private.h"

/* MatMul, Gemm and FusedMatMul: one call of cuBLASLt where the matrices of a batch lie at even distances, else one for
 * each run of them. A bias along the rows is part of the product; others are written first, and the product is added.
 */

typedef struct
{
  gint64 a, b, c; /* in elements */
} Offsets;

typedef struct
{
  OrtrainCudaGemm *gemm; /* NULL: there is nothing to multiply, and the result is the bias, or zero */
  gboolean swapped;      /* B and A have changed places */
  gboolean is_product_with_bias;
  gsize element_bytes, result_bytes;
  OrtrainDType result_dtype;
  gint64 n_elements; /* of the result */
  /* The bias, if it is not a vector along the rows: written to the result before the product. */
  gboolean writes_bias;
  OrtrainDType bias_dtype;
  gint64 m, n, ldc; /* result as rows, one product */
  gint64 row_stride, column_stride;
  double bias_scale;
  guint n_runs;
  Offsets runs[]; /* [n_runs]: where each begins */
} MatMul;

/* ---- prepare ---- */

static void
free_matmul (gpointer data)
{
  MatMul *self = (MatMul *) data;
  ortrain_cuda_gemm_free (self->gemm);
  g_free (self);
}

/* Offsets of all products of a batch, and how many of them follow each other evenly: a batch is cut into runs of that
 * many. */
static gint64
find_runs (const OrtrainMatrixProduct *product, gint64 *offsets[3], gint64 strides[3])
{
  const OrtrainMatrixView *views[] = { &product->a, &product->b, &product->c };
  const gint64 n = product->n_batch;
  gboolean even = TRUE;
  for (guint i = 0; i < 3; i++)
    even =
        ortrain_matrix_view_find_offsets (views[i], product->batch, product->batch_rank, n, offsets[i], &strides[i]) &&
        even;
  if (even)
    return n;
  /* the innermost dimensions of the batch, as long as they are even */
  gint64 length = 1;
  for (guint d = product->batch_rank; d-- > 0;)
    {
      const gint64 longer = length * product->batch[d];
      gboolean fits = TRUE;
      for (guint i = 0; i < 3; i++)
        for (gint64 k = 0; k < longer && fits; k++)
          fits = offsets[i][k] == k * strides[i];
      if (!fits)
        break;
      length = longer;
    }
  return length;
}

/* The largest power of two that divides all distances, at most what operands have. */
static gsize
find_alignment (gsize alignment, gint64 elements, gsize element_bytes)
{
  while (alignment > element_bytes && (gsize) elements * element_bytes % alignment != 0)
    alignment /= 2;
  return alignment;
}

static gboolean
make_gemm (MatMul *self, OrtrainKernelSetup *setup, const OrtrainMatrixProduct *product, gint64 run,
           const gint64 strides[3], double alpha, GError **error)
{
  OrtrainCudaGemmShape shape = {};
  shape.dtype = setup->inputs[0].dtype;
  shape.result_dtype = setup->outputs[0].dtype;
  shape.alpha = alpha;
  shape.n_batch = run;
  shape.alignment = ORTRAIN_DEVICE_ALIGNMENT;
  for (guint r = 0; r < self->n_runs; r++)
    {
      shape.alignment = find_alignment (shape.alignment, self->runs[r].a, self->element_bytes);
      shape.alignment = find_alignment (shape.alignment, self->runs[r].b, self->element_bytes);
      shape.alignment = find_alignment (shape.alignment, self->runs[r].c, self->result_bytes);
    }
  for (guint i = 0; i < 3 && run > 1; i++)
    shape.alignment = find_alignment (shape.alignment, strides[i], i < 2 ? self->element_bytes : self->result_bytes);
  self->swapped = product->c_transposed; /* contiguous along its columns: Cᵀ = Bᵀ · Aᵀ */
  shape.k = product->k;
  shape.ldc = product->ldc;
  shape.c_stride = strides[2];
  shape.m = self->swapped ? product->n : product->m;
  shape.n = self->swapped ? product->m : product->n;
  shape.trans_a = self->swapped ? !product->b_transposed : product->a_transposed;
  shape.trans_b = self->swapped ? !product->a_transposed : product->b_transposed;
  shape.lda = self->swapped ? product->ldb : product->lda;
  shape.ldb = self->swapped ? product->lda : product->ldb;
  shape.a_stride = strides[self->swapped ? 1 : 0];
  shape.b_stride = strides[self->swapped ? 0 : 1];
  shape.adds_bias = self->is_product_with_bias;
  shape.may_accumulate = setup->n_inputs == 2 && alpha == 1; /* a gradient of a weight does */
  self->gemm = ortrain_cuda_gemm_new (setup, &shape, error);
  if (self->gemm == NULL)
    return FALSE;
  setup->workspace_bytes = ortrain_cuda_gemm_get_workspace_bytes (self->gemm);
  return TRUE;
}

/* Gemm's third operand, [m, n] or broadcast to it. */
static gboolean
prepare_bias (MatMul *self, OrtrainKernelSetup *setup, const OrtrainMatrixProduct *product, GError **error)
{
  const OrtrainOperand *bias = &setup->inputs[2];
  const gint64 rows = bias->rank >= 2 ? bias->dims[bias->rank - 2] : 1;
  const gint64 columns = bias->rank >= 1 ? bias->dims[bias->rank - 1] : 1;
  if (bias->rank > 2 || (rows != 1 && rows != product->m) || (columns != 1 && columns != product->n))
    return ortrain_cuda_refuse (setup, error,
                                "C of %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT
                                " does not fit a result of %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT,
                                rows, columns, product->m, product->n);
  self->bias_scale = ORTRAIN_CUDA_FLOAT (setup, "beta", 1);
  self->bias_dtype = bias->dtype;
  self->row_stride = rows == 1 ? 0 : columns;
  self->column_stride = columns == 1 ? 0 : 1;
  self->is_product_with_bias = rows == 1 && columns == product->n && product->n_batch == 1 && !product->c_transposed &&
                               product->k > 0 && self->bias_scale == 1 && bias->dtype == self->result_dtype;
  self->writes_bias = !self->is_product_with_bias && self->bias_scale != 0;
  return TRUE;
}

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  const gboolean is_matmul = g_str_equal (setup->op_type, "MatMul"), is_gemm = g_str_equal (setup->op_type, "Gemm");
  OrtrainMatrixProduct product = {};
  OrtrainProductForm form = {};
  form.trans_a = !is_matmul && ORTRAIN_CUDA_INT (setup, "transA", 0) != 0;
  form.trans_b = !is_matmul && ORTRAIN_CUDA_INT (setup, "transB", 0) != 0;
  form.perm_a = ORTRAIN_CUDA_INTS (setup, "permA", &form.n_perm_a);
  form.perm_b = ORTRAIN_CUDA_INTS (setup, "permB", &form.n_perm_b);
  form.perm_c = ORTRAIN_CUDA_INTS (setup, "permY", &form.n_perm_c);
  const char *reason = ortrain_matrix_product_init (&product, setup, &form);
  if (reason != NULL)
    return ortrain_cuda_refuse (setup, error, "%s", reason);
  const double alpha = is_matmul ? 1 : ORTRAIN_CUDA_FLOAT (setup, "alpha", 1);
  const gboolean has_bias = is_gemm && setup->n_inputs > 2 && setup->inputs[2].dtype != ORTRAIN_DTYPE_UNDEFINED;
  const gboolean is_empty = product.n_batch == 0 || product.m == 0 || product.n == 0;

  g_autofree gint64 *places = g_try_new (gint64, (gsize) MAX (product.n_batch, 1) * 3);
  if (places == NULL)
    return ortrain_cuda_refuse (setup, error, "there is too little memory for a batch of %" G_GINT64_FORMAT " products",
                                product.n_batch);
  gint64 *offsets[3], strides[3] = { 0, 0, 0 }, run = 1;
  for (guint i = 0; i < 3; i++)
    {
      offsets[i] = places + (gsize) i * (gsize) MAX (product.n_batch, 1);
      offsets[i][0] = 0;
    }
  if (product.n_batch > 1)
    run = find_runs (&product, offsets, strides);
  const guint n_runs = is_empty ? 0 : (guint) (product.n_batch / run);

  MatMul *self = (MatMul *) g_malloc0 (sizeof (MatMul) + n_runs * sizeof (Offsets));
  setup->constants = self;
  setup->constants_free = free_matmul;
  self->n_runs = n_runs;
  for (guint r = 0; r < n_runs; r++)
    {
      const gint64 first = (gint64) r * run;
      self->runs[r].a = offsets[0][first];
      self->runs[r].b = offsets[1][first];
      self->runs[r].c = offsets[2][first];
    }
  self->element_bytes = ortrain_cuda_library->dtype_get_size (setup->inputs[0].dtype);
  self->result_dtype = setup->outputs[0].dtype;
  self->result_bytes = ortrain_cuda_library->dtype_get_size (self->result_dtype);
  self->n_elements = setup->outputs[0].n_elements;
  self->m = product.m;
  self->n = product.n;
  self->ldc = product.ldc;
  if (has_bias && !prepare_bias (self, setup, &product, error))
    return FALSE;
  if (!is_empty && product.k > 0 && !make_gemm (self, setup, &product, run, strides, alpha, error))
    return FALSE;
  /* beta is then a number of the device, and so is alpha */
  setup->can_accumulate = alpha == 1 && !has_bias && product.k > 0 ? 1 : 0;
  setup->flops = 2.0 * (double) product.m * (double) product.n * (double) product.k * (double) product.n_batch;
  return TRUE;
}

/* ---- run ---- */

/* c [m, n] = scale · bias, broadcast */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) bias_kernel (const void *bias, OrtrainDType bias_dtype, T *c, gint64 m, gint64 n,
                                                    gint64 ldc, gint64 row_stride, gint64 column_stride, double scale)
{
  typedef typename OrtrainWide<T>::Type Wide;
  for (gint64 i = ortrain_cuda_first (); i < m * n; i += ortrain_cuda_stride ())
    {
      const gint64 row = i / n, column = i - row * n, at = row * row_stride + column * column_stride;
      const Wide x = bias_dtype == ORTRAIN_DTYPE_FLOAT64 ? (Wide) ((const double *) bias)[at]
                                                         : (Wide) ortrain_load_any (bias, at, bias_dtype);
      ortrain_store (c, row * ldc + column, (Wide) scale * x);
    }
}

template <typename T>
static void
write_bias (const OrtrainKernelCall *call, const MatMul *self)
{
  ortrain_cuda_launch (call, "product-bias", ortrain_cuda_grid (call, self->m * self->n, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, bias_kernel<T>, call->inputs[2], self->bias_dtype, (T *) call->outputs[0],
                       self->m, self->n, self->ldc, self->row_stride, self->column_stride, self->bias_scale);
}

static void
run (const OrtrainKernelCall *call)
{
  const MatMul *self = (const MatMul *) call->constants;
  const guint8 *a = (const guint8 *) call->inputs[self->swapped ? 1 : 0];
  const guint8 *b = (const guint8 *) call->inputs[self->swapped ? 0 : 1];
  guint8 *c = (guint8 *) call->outputs[0];
  OrtrainCudaBeta beta = call->accumulates & 1 ? ORTRAIN_CUDA_BETA_ONE
                         : call->gradients & 1 ? ORTRAIN_CUDA_BETA_GRADIENT
                                               : ORTRAIN_CUDA_BETA_ZERO;
  if (self->n_elements == 0)
    return;
  if (self->writes_bias)
    {
      if (self->result_dtype == ORTRAIN_DTYPE_FLOAT64)
        write_bias<double> (call, self);
      else
        ORTRAIN_CUDA_FLOATING (self->result_dtype, T, write_bias<T> (call, self););
      beta = ORTRAIN_CUDA_BETA_ONE;
    }
  else if (self->gemm == NULL)
    cudaMemsetAsync (c, 0, (gsize) self->n_elements * self->result_bytes, ortrain_cuda_get_stream (call)->stream);
  for (guint r = 0; r < self->n_runs && self->gemm != NULL; r++)
    {
      const gint64 of_a = self->swapped ? self->runs[r].b : self->runs[r].a;
      const gint64 of_b = self->swapped ? self->runs[r].a : self->runs[r].b;
      ortrain_cuda_gemm_run (self->gemm, call, a + (gsize) of_a * self->element_bytes,
                             b + (gsize) of_b * self->element_bytes,
                             self->is_product_with_bias ? call->inputs[2] : NULL, NULL,
                             c + (gsize) self->runs[r].c * self->result_bytes, beta, call->workspace);
    }
}

/* ---- table ---- */

/* A and B of one type; the result in that type, or in float32. The bias has any. */
static gboolean
takes (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType dtype = inputs[0].dtype;
  return (n_inputs < 2 || inputs[1].dtype == dtype) &&
         (n_outputs < 1 || outputs[0].dtype == dtype || outputs[0].dtype == ORTRAIN_DTYPE_FLOAT32);
}

#define ROW(name, domain)                                                                                              \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_FLOAT, prepare, run, 0, ORTRAIN_DTYPES_MIXED, takes                                   \
  }

static const OrtrainKernel rows[] = {
  ROW ("MatMul", ""),
  ROW ("Gemm", ""),
  ROW ("FusedMatMul", "org.ortrain"),
};

ORTRAIN_CUDA_TABLE (matmul, rows);
