/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"

#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-copy-private.h"
#include "cpu/ortrain-cpu-gemm.h"

#include <math.h>
#include <string.h>

/* MatMul, Gemm and FusedMatMul: the shapes are brought into one form, a batch of products C [m, n] = A [m, k] · B [k,
 * n] with an offset per product, and cut over a pool. A with batch dimensions and a plain 2-D B is one product. */

typedef struct
{
  OrtrainCpuGemm gemm;
  OrtrainDType dtype;
  gboolean swapped;             /* B and A have changed places */
  gint64 n_a, n_b, n_bias, n_c; /* elements, for operands that are converted */
  gint64 offsets[];             /* [3 · n_batch]: of A, B and C */
} MatMulConstants;

/* An operand as the product sees it: dimensions and strides (in elements), at least two, after its permutation. */
typedef struct
{
  guint rank;
  gint64 dims[ORTRAIN_MAX_RANK + 1], strides[ORTRAIN_MAX_RANK + 1];
} View;

static gboolean
make_view (View *view, const OrtrainOperand *operand, const OrtrainAttributes *attributes, const char *perm_name)
{
  gint64 strides[ORTRAIN_MAX_RANK], stride = 1;
  gsize n_perm;
  const gint64 *perm = ortrain_attributes_get_ints (attributes, perm_name, &n_perm);
  if (operand->rank > ORTRAIN_MAX_RANK || (perm != NULL && n_perm != operand->rank))
    return FALSE;
  for (guint i = operand->rank; i-- > 0;)
    {
      strides[i] = stride;
      stride *= MAX (operand->dims[i], 1);
    }
  view->rank = operand->rank;
  for (guint i = 0; i < operand->rank; i++)
    {
      gint64 from = perm != NULL ? perm[i] : i;
      if (from < 0 || from >= operand->rank)
        return FALSE;
      view->dims[i] = operand->dims[from];
      view->strides[i] = strides[from];
    }
  return TRUE;
}

static void
insert_one (View *view, guint at)
{
  for (guint i = view->rank; i > at; i--)
    {
      view->dims[i] = view->dims[i - 1];
      view->strides[i] = view->strides[i - 1];
    }
  view->dims[at] = 1;
  view->strides[at] = 1;
  view->rank++;
}

static void
swap_last_two (View *view)
{
  gint64 dim = view->dims[view->rank - 1], stride = view->strides[view->rank - 1];
  view->dims[view->rank - 1] = view->dims[view->rank - 2];
  view->strides[view->rank - 1] = view->strides[view->rank - 2];
  view->dims[view->rank - 2] = dim;
  view->strides[view->rank - 2] = stride;
}

static gint64
n_matrices (const View *view)
{
  gint64 n = 1;
  for (guint i = 0; i + 2 < view->rank; i++)
    n *= view->dims[i];
  return n;
}

/* The rows of all matrices lie at one distance from each other. */
static gboolean
is_one_matrix (const View *view)
{
  gint64 expected = view->strides[view->rank - 2] * view->dims[view->rank - 2];
  for (guint i = view->rank - 2; i-- > 0;)
    {
      if (view->dims[i] != 1 && view->strides[i] != expected)
        return FALSE;
      expected *= view->dims[i];
    }
  return TRUE;
}

/* Where each product of the batch (outputs' batch dims) finds the operand. Returns the distance when it is always the
 * same, and fills offsets if not. */
static gint64
place_batch (const View *view, const gint64 *batch, guint rank, gint64 n_batch, gint64 *offsets,
             gboolean *needs_offsets)
{
  gint64 regular = 0;
  *needs_offsets = FALSE;
  for (gint64 i = 0; i < n_batch; i++)
    {
      gint64 rest = i, offset = 0;
      for (guint r = 0; r < rank; r++)
        {
          gint64 index = rest % batch[rank - 1 - r];
          rest /= batch[rank - 1 - r];
          if (r + 2 < view->rank && view->dims[view->rank - 3 - r] != 1)
            offset += index * view->strides[view->rank - 3 - r];
        }
      offsets[i] = offset;
      if (i == 1)
        regular = offset;
      else if (offset != i * regular)
        *needs_offsets = TRUE;
    }
  return regular;
}

/* One of the last two dimensions must be contiguous: tells which, and the distance along the other. */
static gboolean
find_leading (const View *view, gboolean *transposed, gint64 *leading)
{
  gint64 rows = view->dims[view->rank - 2], columns = view->dims[view->rank - 1];
  gint64 row_stride = view->strides[view->rank - 2], column_stride = view->strides[view->rank - 1];
  *transposed = FALSE;
  if (column_stride == 1 || columns <= 1)
    *leading = rows <= 1 ? MAX (columns, 1) : row_stride;
  else if (row_stride == 1 || rows <= 1)
    {
      *transposed = TRUE;
      *leading = column_stride;
    }
  else
    return FALSE;
  return *leading >= (*transposed ? rows : columns);
}

static gboolean
refuse (OrtrainKernelSetup *setup, GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: %s", setup->op_type, what);
  return FALSE;
}

static gboolean
prepare_product (OrtrainKernelSetup *setup, gboolean trans_a, gboolean trans_b, double alpha, GError **error)
{
  const OrtrainOperand *operands[3] = { &setup->inputs[0], &setup->inputs[1], &setup->outputs[0] };
  View a, b, c;
  if (operands[0]->rank == 0 || operands[1]->rank == 0 || !make_view (&a, operands[0], setup->attributes, "permA") ||
      !make_view (&b, operands[1], setup->attributes, "permB"))
    return refuse (setup, error, "the ranks of the operands do not fit");
  gboolean a_vector = a.rank == 1, b_vector = b.rank == 1;
  if (a_vector)
    insert_one (&a, 0); /* a row */
  else if (trans_a)
    swap_last_two (&a);
  if (b_vector)
    insert_one (&b, 1); /* a column */
  else if (trans_b)
    swap_last_two (&b);

  /* The result is written through its permutation: its view is the inverse one. */
  gsize n_perm;
  const gint64 *perm = ortrain_attributes_get_ints (setup->attributes, "permY", &n_perm);
  if (!make_view (&c, operands[2], NULL, "") || (perm != NULL && n_perm != c.rank))
    return refuse (setup, error, "the rank of the result does not fit");
  if (perm != NULL)
    {
      View physical = c;
      for (guint i = 0; i < c.rank; i++)
        {
          if (perm[i] < 0 || perm[i] >= c.rank)
            return refuse (setup, error, "permY is no permutation");
          c.dims[perm[i]] = physical.dims[i];
          c.strides[perm[i]] = physical.strides[i];
        }
    }
  if (b_vector)
    insert_one (&c, c.rank);
  if (a_vector)
    insert_one (&c, c.rank - 1);

  gint64 m = a.dims[a.rank - 2], k = a.dims[a.rank - 1], n = b.dims[b.rank - 1];
  if (k != b.dims[b.rank - 2] || c.rank < 2 || c.dims[c.rank - 2] != m || c.dims[c.rank - 1] != n)
    return refuse (setup, error, "the dimensions of the operands do not fit together");
  gint64 batch[ORTRAIN_MAX_RANK], n_batch = 1;
  guint rank = MAX (a.rank, b.rank) - 2;
  for (guint r = 0; r < rank; r++)
    {
      gint64 x = r + 2 < a.rank ? a.dims[a.rank - 3 - r] : 1, y = r + 2 < b.rank ? b.dims[b.rank - 3 - r] : 1;
      if (x != y && x != 1 && y != 1)
        return refuse (setup, error, "the batch dimensions do not fit together");
      batch[rank - 1 - r] = x == 1 ? y : x;
      n_batch *= batch[rank - 1 - r];
    }
  if (operands[2]->n_elements == 0)
    n_batch = 0;

  gboolean a_transposed, b_transposed, c_transposed;
  gint64 lda, ldb, ldc;
  if (!find_leading (&c, &c_transposed, &ldc) || !find_leading (&a, &a_transposed, &lda) ||
      !find_leading (&b, &b_transposed, &ldb))
    return refuse (setup, error, "an operand has no contiguous dimension");
  if (n_batch > 1 && !a_transposed && !c_transposed && n_matrices (&b) == 1 && n_matrices (&a) == n_batch &&
      is_one_matrix (&a) && is_one_matrix (&c))
    {
      /* One product: the rows of all of A's matrices follow each other, and so do those of C. */
      m *= n_batch;
      n_batch = 1;
      lda = a.strides[a.rank - 2];
      ldc = c.strides[c.rank - 2];
      if (lda < k || ldc < n)
        return refuse (setup, error, "the rows of an operand overlap");
    }

  gsize bytes;
  if (!ortrain_checked_mul ((gsize) n_batch * 3, sizeof (gint64), &bytes) ||
      !ortrain_checked_add (bytes, sizeof (MatMulConstants), &bytes))
    bytes = G_MAXSIZE;
  MatMulConstants *constants = bytes == G_MAXSIZE ? NULL : g_try_malloc0 (bytes);
  if (constants == NULL)
    return ortrain_kernel_refuse_memory (setup, error);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->dtype = operands[0]->dtype;
  constants->n_a = operands[0]->n_elements;
  constants->n_b = operands[1]->n_elements;
  constants->n_c = operands[2]->n_elements;
  OrtrainCpuGemm *gemm = &constants->gemm;
  *gemm = (OrtrainCpuGemm){
    .is_double = operands[0]->dtype == ORTRAIN_DTYPE_FLOAT64,
    .trans_a = a_transposed,
    .trans_b = b_transposed,
    .m = m,
    .n = n,
    .k = k,
    .lda = lda,
    .ldb = ldb,
    .ldc = ldc,
    .alpha = alpha,
    .n_batch = n_batch,
  };
  if (n_batch > 1)
    {
      gboolean needs;
      gint64 *offsets = constants->offsets;
      gemm->a_stride = place_batch (&a, batch, rank, n_batch, offsets, &needs);
      gemm->a_offsets = needs ? offsets : NULL;
      gemm->b_stride = place_batch (&b, batch, rank, n_batch, offsets + n_batch, &needs);
      gemm->b_offsets = needs ? offsets + n_batch : NULL;
      gemm->c_stride = place_batch (&c, batch, rank, n_batch, offsets + 2 * n_batch, &needs);
      gemm->c_offsets = needs ? offsets + 2 * n_batch : NULL;
    }
  if (c_transposed)
    {
      /* The result is stored turned round: Cᵀ = Bᵀ · Aᵀ. */
      OrtrainCpuGemm g = *gemm;
      gemm->m = g.n;
      gemm->n = g.m;
      gemm->trans_a = !g.trans_b;
      gemm->trans_b = !g.trans_a;
      gemm->lda = g.ldb;
      gemm->ldb = g.lda;
      gemm->a_stride = g.b_stride;
      gemm->b_stride = g.a_stride;
      gemm->a_offsets = g.b_offsets;
      gemm->b_offsets = g.a_offsets;
      constants->swapped = TRUE;
    }
  ortrain_cpu_gemm_plan (gemm, ortrain_cpu_get_n_threads (setup), ortrain_cpu_has_fixed_partition (setup));
  setup->can_accumulate = 1;
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
  if (constants->swapped)
    {
      const void *first = a;
      a = b;
      b = first;
    }
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
  multiply (constants, ortrain_kernel_get_accumulate (call), ortrain_cpu_get_pool (call), call->inputs[0],
            call->inputs[1], constants->gemm.has_bias ? call->inputs[2] : NULL, call->outputs[0]);
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

static void
widen_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ConvertJob *job = data;
  ortrain_dtype_widen_n (job->dtype, job->wide + begin, job->from + begin, end - begin);
}

static void
narrow_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ConvertJob *job = data;
  for (gint64 i = begin; i < end; i++)
    {
      float value = job->wide[i] + (job->add ? ortrain_dtype_widen (job->dtype, job->to[i]) : 0);
      job->to[i] = ortrain_dtype_narrow (job->dtype, value);
    }
}

static void
run_matmul_half (const OrtrainKernelCall *call)
{
  const MatMulConstants *constants = call->constants;
  OrtrainThreadPool *pool = ortrain_cpu_get_pool (call);
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
  ConvertJob job = {
    .dtype = constants->dtype, .to = call->outputs[0], .wide = (float *) at, .add = ortrain_kernel_get_accumulate (call)
  };
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
    if (!ortrain_kernel_get_accumulate (job->call))                                                                    \
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
  ortrain_parallel_for (ortrain_cpu_get_pool (call), constants->gemm.n_batch * constants->gemm.m, 8, integer_chunk,
                        &job);
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

/* Scales and zero points have one element, or one for each row of A (column of B). */
static gboolean
quantisation_fits (const OrtrainKernelSetup *setup, gboolean q, guint b)
{
  const MatMulConstants *constants = setup->constants;
  const OrtrainCpuGemm *g = &constants->gemm;
  const guint of_a[] = { 2, 1 }, of_b[] = { q ? 5 : 3, 4 };
  const gint64 rows = g->n_batch * g->m, n_matrices = g->n > 0 && g->k > 0 ? constants->n_b / (g->n * g->k) : 1;
  for (guint i = 0; i < (q ? 2 : 1); i++)
    {
      if (of_a[i] < setup->n_inputs && setup->inputs[of_a[i]].dtype != ORTRAIN_DTYPE_UNDEFINED)
        {
          const gint64 n = setup->inputs[of_a[i]].n_elements;
          if (n < 1 || rows % n != 0)
            return FALSE;
        }
      if (of_b[i] < setup->n_inputs && setup->inputs[of_b[i]].dtype != ORTRAIN_DTYPE_UNDEFINED)
        {
          const gint64 n = setup->inputs[of_b[i]].n_elements;
          if (n != 1 && n != g->n && n != g->n * MAX (n_matrices, 1))
            return FALSE;
        }
    }
  return !q || (setup->inputs[6].n_elements == 1 && setup->inputs[7].n_elements == 1);
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
  const MatMulConstants *product = setup->constants;
  if (ok && (product->swapped || product->gemm.trans_a || product->gemm.trans_b || !quantisation_fits (setup, q, b)))
    ok = refuse (setup, error, "a scale or a zero point does not fit its matrix");
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
  setup->can_accumulate = 0;
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
      return ortrain_dtype_widen (dtype, ((const guint16 *) data)[i]);
    case ORTRAIN_DTYPE_FLOAT64:
      return ((const double *) data)[i];
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
          guint32 wrapped = 0; /* sums wrap around, as in ONNX Runtime */
          for (gint64 l = 0; l < g->k; l++)
            wrapped += (guint32) ((byte_at (constants->a_dtype, a, a0 + l) - az) *
                                  (byte_at (constants->b_dtype, b, b0 + l * g->ldb + j) - bz));
          const gint32 sum = (gint32) wrapped;
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
          const double zero = byte_at (constants->y_dtype, call->inputs[7], 0);
          double value = rint ((double) sum * scale) + zero;
          value = value != value ? zero : value; /* scales of zero or NaN */
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
  ortrain_parallel_for (ortrain_cpu_get_pool (call), g->n_batch * g->m, 8, quantised_chunk, (gpointer) call);
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
