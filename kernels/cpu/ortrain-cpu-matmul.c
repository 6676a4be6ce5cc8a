/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-matmul-private.h"

#include "common/ortrain-matrix-product-private.h"
#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-copy-private.h"

/* MatMul, Gemm and FusedMatMul. */

static gboolean
refuse (const OrtrainKernelSetup *setup, GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: %s", setup->op_type, what);
  return FALSE;
}

/* ---- From a product to constants ---- */

static OrtrainCpuMatMul *
new_constants (gint64 n_batch)
{
  gsize bytes;
  if (!ortrain_checked_mul ((gsize) n_batch * 3, sizeof (gint64), &bytes) ||
      !ortrain_checked_add (bytes, sizeof (OrtrainCpuMatMul), &bytes))
    return NULL;
  return g_try_malloc0 (bytes);
}

static void
place_batch (const OrtrainMatrixProduct *product, OrtrainCpuMatMul *self)
{
  OrtrainCpuGemm *gemm = &self->gemm;
  const gint64 n = product->n_batch;
  const struct
  {
    const OrtrainMatrixView *view;
    const gint64 **offsets;
    gint64 *stride;
  } operands[] = {
    { &product->a, &gemm->a_offsets, &gemm->a_stride },
    { &product->b, &gemm->b_offsets, &gemm->b_stride },
    { &product->c, &gemm->c_offsets, &gemm->c_stride },
  };
  for (guint i = 0; i < G_N_ELEMENTS (operands); i++)
    if (!ortrain_matrix_view_find_offsets (operands[i].view, product->batch, product->batch_rank, n,
                                           self->offsets + i * n, operands[i].stride))
      *operands[i].offsets = self->offsets + i * n;
}

/* A result that is contiguous along its columns: Cᵀ = Bᵀ · Aᵀ. */
static void
swap_operands (OrtrainCpuMatMul *self)
{
  const OrtrainCpuGemm g = self->gemm;
  self->swapped = TRUE;
  self->gemm.m = g.n;
  self->gemm.n = g.m;
  self->gemm.trans_a = !g.trans_b;
  self->gemm.trans_b = !g.trans_a;
  self->gemm.lda = g.ldb;
  self->gemm.ldb = g.lda;
  self->gemm.a_stride = g.b_stride;
  self->gemm.b_stride = g.a_stride;
  self->gemm.a_offsets = g.b_offsets;
  self->gemm.b_offsets = g.a_offsets;
  self->gemm.a_dtype = g.b_dtype;
  self->gemm.b_dtype = g.a_dtype;
}

/* The types of the operands, if any has 16 bits. */
static void
set_dtypes (OrtrainCpuGemm *gemm, const OrtrainKernelSetup *setup)
{
  const gboolean has_bias = setup->n_inputs > 2 && setup->inputs[2].dtype != ORTRAIN_DTYPE_UNDEFINED;
  const OrtrainDType a = setup->inputs[0].dtype, b = setup->inputs[1].dtype, c = setup->outputs[0].dtype;
  const OrtrainDType bias = has_bias ? setup->inputs[2].dtype : ORTRAIN_DTYPE_UNDEFINED;
  if (!ortrain_dtype_is_half (a) && !ortrain_dtype_is_half (b) && !ortrain_dtype_is_half (c) &&
      !ortrain_dtype_is_half (bias))
    return;
  gemm->a_dtype = a;
  gemm->b_dtype = b;
  gemm->c_dtype = c;
  gemm->bias_dtype = bias;
}

gboolean
ortrain_cpu_matmul_prepare_product (OrtrainKernelSetup *setup, gboolean trans_a, gboolean trans_b, double alpha,
                                    GError **error)
{
  OrtrainMatrixProduct product = { 0 };
  OrtrainProductForm form = { .trans_a = trans_a, .trans_b = trans_b };
  form.perm_a = ortrain_attributes_get_ints (setup->attributes, "permA", &form.n_perm_a);
  form.perm_b = ortrain_attributes_get_ints (setup->attributes, "permB", &form.n_perm_b);
  form.perm_c = ortrain_attributes_get_ints (setup->attributes, "permY", &form.n_perm_c);
  const char *reason = ortrain_matrix_product_init (&product, setup, &form);
  if (reason != NULL)
    return refuse (setup, error, reason);
  OrtrainCpuMatMul *self = new_constants (product.n_batch);
  if (self == NULL)
    return ortrain_kernel_refuse_memory (setup, error);
  setup->constants = self;
  setup->constants_free = g_free;
  self->dtype = setup->inputs[0].dtype;
  self->n_b = setup->inputs[1].n_elements;
  self->gemm = (OrtrainCpuGemm){
    .is_double = self->dtype == ORTRAIN_DTYPE_FLOAT64,
    .trans_a = product.a_transposed,
    .trans_b = product.b_transposed,
    .m = product.m,
    .n = product.n,
    .k = product.k,
    .lda = product.lda,
    .ldb = product.ldb,
    .ldc = product.ldc,
    .alpha = alpha,
    .n_batch = product.n_batch,
  };
  set_dtypes (&self->gemm, setup);
  if (product.n_batch > 1)
    place_batch (&product, self);
  if (product.c_transposed)
    swap_operands (self);
  ortrain_cpu_gemm_plan (&self->gemm, ortrain_cpu_get_n_threads (setup), ortrain_cpu_has_fixed_partition (setup));
  setup->can_accumulate = 1;
  setup->flops = 2.0 * (double) product.m * (double) product.n * (double) product.k * (double) product.n_batch;
  return TRUE;
}

/* Gemm's third operand, [m, n] or broadcast to it. */
static gboolean
prepare_bias (OrtrainKernelSetup *setup, GError **error)
{
  OrtrainCpuGemm *gemm = &((OrtrainCpuMatMul *) setup->constants)->gemm;
  const double beta = ortrain_attributes_get_float (setup->attributes, "beta", 1);
  if (setup->n_inputs < 3 || setup->inputs[2].dtype == ORTRAIN_DTYPE_UNDEFINED || beta == 0)
    return TRUE;
  const OrtrainOperand *bias = &setup->inputs[2];
  const gint64 rows = bias->rank >= 2 ? bias->dims[bias->rank - 2] : 1;
  const gint64 columns = bias->rank >= 1 ? bias->dims[bias->rank - 1] : 1;
  if (bias->rank > 2 || (rows != 1 && rows != gemm->m) || (columns != 1 && columns != gemm->n))
    {
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
                   "Gemm: C of %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT " does not fit a result of %" G_GINT64_FORMAT
                   " × %" G_GINT64_FORMAT,
                   rows, columns, gemm->m, gemm->n);
      return FALSE;
    }
  gemm->has_bias = TRUE;
  gemm->bias_scale = beta;
  gemm->bias_row_stride = rows == 1 ? 0 : columns;
  gemm->bias_column_stride = columns == 1 ? 0 : 1;
  return TRUE;
}

gboolean
ortrain_cpu_matmul_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainAttributes *attributes = setup->attributes;
  if (g_str_equal (setup->op_type, "MatMul"))
    return ortrain_cpu_matmul_prepare_product (setup, FALSE, FALSE, 1, error);
  if (!ortrain_cpu_matmul_prepare_product (setup, ortrain_attributes_get_int (attributes, "transA", 0) != 0,
                                           ortrain_attributes_get_int (attributes, "transB", 0) != 0,
                                           ortrain_attributes_get_float (attributes, "alpha", 1), error))
    return FALSE;
  return !g_str_equal (setup->op_type, "Gemm") || prepare_bias (setup, error);
}

/* ---- run ---- */

/* c [m, n] += bias_scale · bias, broadcast */
#define DEFINE_ADD_BIAS(name, type)                                                                                    \
  static void name (const OrtrainCpuGemm *g, const type *bias, type *c)                                                \
  {                                                                                                                    \
    for (gint64 i = 0; i < g->m; i++)                                                                                  \
      for (gint64 j = 0; j < g->n; j++)                                                                                \
        c[i * g->ldc + j] += (type) g->bias_scale * bias[i * g->bias_row_stride + j * g->bias_column_stride];          \
  }
DEFINE_ADD_BIAS (add_bias_f32, float)
DEFINE_ADD_BIAS (add_bias_f64, double)

/* A product of float32 or float64 starts from its bias or from the output's contents, not from both. */
static void
accumulate (OrtrainCpuGemm gemm, OrtrainThreadPool *pool, const void *a, const void *b, const void *bias, void *c)
{
  const gboolean has_bias = gemm.has_bias && gemm.c_dtype == ORTRAIN_DTYPE_UNDEFINED;
  gemm.beta = 1;
  gemm.has_bias = gemm.has_bias && !has_bias;
  ortrain_cpu_gemm_run (&gemm, pool, a, b, bias, c);
  if (has_bias && gemm.is_double)
    add_bias_f64 (&gemm, bias, c);
  else if (has_bias)
    add_bias_f32 (&gemm, bias, c);
}

static void
ortrain_cpu_matmul_run (const OrtrainKernelCall *call)
{
  const OrtrainCpuMatMul *self = call->constants;
  OrtrainThreadPool *pool = ortrain_cpu_get_pool (call);
  const void *a = call->inputs[self->swapped ? 1 : 0], *b = call->inputs[self->swapped ? 0 : 1];
  const void *bias = self->gemm.has_bias ? call->inputs[2] : NULL;
  if (ortrain_kernel_get_accumulate (call))
    accumulate (self->gemm, pool, a, b, bias, call->outputs[0]);
  else
    ortrain_cpu_gemm_run (&self->gemm, pool, a, b, bias, call->outputs[0]);
}

#define ROW(name, domain_)                                                                                             \
  {                                                                                                                    \
    .op_type = name, .domain = domain_, .dtypes = ORTRAIN_DTYPES_FLOAT, .prepare = ortrain_cpu_matmul_prepare,         \
    .run = ortrain_cpu_matmul_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED                                                \
  }

static const OrtrainKernel rows[] = {
  ROW ("MatMul", ""),
  ROW ("Gemm", ""),
  ROW ("FusedMatMul", "org.ortrain"),
};
ORTRAIN_KERNEL_TABLE (matmul, rows);
