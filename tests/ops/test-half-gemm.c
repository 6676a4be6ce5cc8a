/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-run.h"

#include "cpu/ortrain-cpu-gemm.h"

/* Matrix products whose operands have 16 bits or are of several types.
 *
 * Small integers have exact sums in float32, whatever the order: such a product must be that of float64, rounded once,
 * to the last bit. Other numbers are compared within a bound. */

static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };

#define N_TYPES G_N_ELEMENTS (types)
#define D(...) ((const gint64[]){ __VA_ARGS__ }), G_N_ELEMENTS (((const gint64[]){ __VA_ARGS__ }))

/* From -3 to 3. */
static OrtrainTensor *
new_integers (OrtrainDType dtype, const gint64 *dims, gsize rank, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, &error);
  g_assert_no_error (error);
  double *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (wide); i++)
    {
      seed = seed * 1664525u + 1013904223u;
      x[i] = (double) ((seed >> 16) % 7) - 3;
    }
  return kernel_cast (wide, dtype);
}

typedef struct
{
  const char *op_type;
  gint64 a[4], b[4], c[2], y[4]; /* ended by 0; c: of Gemm, {0}: none */
  gboolean trans_a, trans_b, accumulate;
  double alpha, beta; /* 0: as by default */
  const gint64 *perm_a, *perm_b, *perm_y;
} Case;

static gsize
get_rank (const gint64 *dims, gsize most)
{
  gsize rank = 0;
  while (rank < most && dims[rank] != 0)
    rank++;
  return rank;
}

static void
set_attributes (const Case *self, OrtrainAttributes *attributes)
{
  ortrain_attributes_set_int (attributes, "transA", self->trans_a);
  ortrain_attributes_set_int (attributes, "transB", self->trans_b);
  if (self->alpha != 0)
    ortrain_attributes_set_float (attributes, "alpha", self->alpha);
  if (self->beta != 0)
    ortrain_attributes_set_float (attributes, "beta", self->beta);
  if (self->perm_a != NULL)
    ortrain_attributes_set_ints (attributes, "permA", self->perm_a, get_rank (self->a, 4));
  if (self->perm_b != NULL)
    ortrain_attributes_set_ints (attributes, "permB", self->perm_b, get_rank (self->b, 4));
  if (self->perm_y != NULL)
    ortrain_attributes_set_ints (attributes, "permY", self->perm_y, get_rank (self->y, 4));
}

/* New: the result for operands of these types. */
static OrtrainTensor *
compute (const Case *self, OrtrainDType a, OrtrainDType b, OrtrainDType c, OrtrainDType y)
{
  const gsize y_rank = get_rank (self->y, 4), c_rank = get_rank (self->c, 2);
  KernelRun run;
  kernel_run_init (&run, g_str_equal (self->op_type, "FusedMatMul") ? "org.ortrain" : "", self->op_type);
  set_attributes (self, run.attributes);
  kernel_run_add_input (&run, new_integers (a, self->a, get_rank (self->a, 4), 1));
  kernel_run_add_input (&run, new_integers (b, self->b, get_rank (self->b, 4), 2));
  if (c_rank > 0)
    kernel_run_add_input (&run, new_integers (c, self->c, c_rank, 3));
  kernel_run_add_output (&run, y, self->y, y_rank);
  if (self->accumulate)
    {
      g_clear_object (&run.outputs[0]);
      run.outputs[0] = new_integers (y, self->y, y_rank, 4);
      run.accumulates = 1;
    }
  kernel_run (&run);
  g_assert_cmpuint (run.setup.workspace_bytes, ==, 0);
  OrtrainTensor *result = g_steal_pointer (&run.outputs[0]);
  kernel_run_clear (&run);
  return result;
}

static void
check_types (const Case *self, OrtrainTensor *exact, OrtrainDType a, OrtrainDType b, OrtrainDType c, OrtrainDType y)
{
  g_autoptr (OrtrainTensor) found = compute (self, a, b, c, y), expected = kernel_cast (exact, y);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (exact); i++)
    if (ortrain_tensor_get_scalar (found, i) != ortrain_tensor_get_scalar (expected, i))
      g_error ("%s of %s, %s, %s into %s: element %" G_GINT64_FORMAT " is %g, %g is right", self->op_type,
               ortrain_dtype_get_name (a), ortrain_dtype_get_name (b), ortrain_dtype_get_name (c),
               ortrain_dtype_get_name (y), i, ortrain_tensor_get_scalar (found, i),
               ortrain_tensor_get_scalar (expected, i));
}

/* In every combination of the types. */
static void
check_case (const Case *self)
{
  const OrtrainDType f64 = ORTRAIN_DTYPE_FLOAT64;
  g_autoptr (OrtrainTensor) exact = compute (self, f64, f64, f64, f64);
  for (guint i = 0; i < N_TYPES * N_TYPES * N_TYPES; i++)
    for (guint c = 0; c < (get_rank (self->c, 2) > 0 ? N_TYPES : 1); c++)
      check_types (self, exact, types[i % N_TYPES], types[i / N_TYPES % N_TYPES], types[c],
                   types[i / N_TYPES / N_TYPES]);
}

static const gint64 sizes[][3] = { { 1, 1, 1 },    { 7, 31, 33 },   { 33, 7, 1 },     { 31, 1, 1000 },  { 1, 33, 7 },
                                   { 15, 17, 31 }, { 29, 64, 513 }, { 300, 50, 64 },  { 14, 32, 1000 }, { 65, 600, 2 },
                                   { 2, 1030, 5 }, { 1, 1, 1000 },  { 100, 100, 257 } };

static void
test_matmul (void)
{
  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    {
      const gint64 m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
      check_case (&(Case){ "MatMul", { m, k }, { k, n }, { 0 }, { m, n } });
      check_case (&(Case){ "MatMul", { m, k }, { k, n }, { 0 }, { m, n }, .accumulate = TRUE });
    }
  check_case (&(Case){ "MatMul", { 2, 3, 7, 5 }, { 5, 9 }, { 0 }, { 2, 3, 7, 9 } });
  check_case (&(Case){ "MatMul", { 2, 1, 7, 5 }, { 3, 5, 9 }, { 0 }, { 2, 3, 7, 9 } });
  check_case (&(Case){ "MatMul", { 5 }, { 3, 5, 9 }, { 0 }, { 3, 9 } });
  check_case (&(Case){ "MatMul", { 3, 7, 5 }, { 5 }, { 0 }, { 3, 7 } });
}

static void
test_gemm (void)
{
  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (guint flags = 0; flags < 4; flags++)
      {
        const gint64 m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        Case gemm = { "Gemm", .y = { m, n }, .trans_a = flags & 1, .trans_b = (flags & 2) != 0, .accumulate = s % 2 };
        memcpy (gemm.a, gemm.trans_a ? (const gint64[]){ k, m } : (const gint64[]){ m, k }, 2 * sizeof (gint64));
        memcpy (gemm.b, gemm.trans_b ? (const gint64[]){ n, k } : (const gint64[]){ k, n }, 2 * sizeof (gint64));
        gemm.alpha = s % 3 == 0 ? 0.5 : 0;
        gemm.beta = s % 3 != 1 ? -1.5 : 0;
        switch ((s + flags) % 5)
          {
          case 0:
            break;
          case 1:
            gemm.c[0] = n;
            break;
          case 2:
            gemm.c[0] = m;
            gemm.c[1] = 1;
            break;
          case 3:
            gemm.c[0] = m;
            gemm.c[1] = n;
            break;
          default:
            gemm.c[0] = 1;
            break;
          }
        check_case (&gemm);
      }
}

static void
test_fused (void)
{
  static const gint64 swap[] = { 0, 2, 1, 3 };
  check_case (&(Case){ "FusedMatMul", { 7, 33 }, { 9, 33 }, { 0 }, { 7, 9 }, .trans_b = TRUE, .alpha = 0.25 });
  check_case (
      &(Case){ "FusedMatMul", { 2, 33, 7 }, { 2, 33, 9 }, { 0 }, { 2, 7, 9 }, .trans_a = TRUE, .accumulate = TRUE });
  /* heads between rows: [batch, rows, heads, columns] */
  check_case (&(Case){ "FusedMatMul",
                       { 2, 17, 3, 8 },
                       { 2, 19, 3, 8 },
                       { 0 },
                       { 2, 3, 17, 19 },
                       .trans_b = TRUE,
                       .perm_a = swap,
                       .perm_b = swap });
  check_case (&(Case){
      "FusedMatMul", { 2, 3, 17, 19 }, { 2, 19, 3, 8 }, { 0 }, { 2, 17, 3, 8 }, .perm_b = swap, .perm_y = swap });
  check_case (&(Case){ "FusedMatMul",
                       { 2, 3, 17, 19 },
                       { 2, 3, 19, 8 },
                       { 0 },
                       { 2, 3, 8, 17 },
                       .perm_y = (const gint64[]){ 0, 1, 3, 2 } });
}

/* More than one block in every direction, and more than one tile of a result of 16 bits. */
static void
test_blocks (void)
{
  const OrtrainDType f64 = ORTRAIN_DTYPE_FLOAT64, bf16 = ORTRAIN_DTYPE_BFLOAT16;
  for (guint flags = 0; flags < 4; flags++)
    {
      const gboolean trans_a = flags & 1, trans_b = (flags & 2) != 0;
      const Case gemm = { "Gemm",
                          { trans_a ? 1100 : 1050, trans_a ? 1050 : 1100 },
                          { trans_b ? 1040 : 1100, trans_b ? 1100 : 1040 },
                          { 1040 },
                          { 1050, 1040 },
                          .trans_a = trans_a,
                          .trans_b = trans_b };
      g_autoptr (OrtrainTensor) exact = compute (&gemm, f64, f64, f64, f64);
      check_types (&gemm, exact, bf16, bf16, bf16, bf16);
      check_types (&gemm, exact, ORTRAIN_DTYPE_FLOAT16, bf16, bf16, ORTRAIN_DTYPE_FLOAT16);
    }
  /* rows of C that lie a multiple of 2 KiB apart */
  const Case aliased = { "MatMul", { 40, 1100 }, { 1100, 1024 }, { 0 }, { 40, 1024 }, .accumulate = TRUE };
  g_autoptr (OrtrainTensor) exact = compute (&aliased, f64, f64, f64, f64);
  check_types (&aliased, exact, bf16, bf16, bf16, ORTRAIN_DTYPE_FLOAT32);
}

/* Any numbers. Each of the k products, and each sum that it is part of, is rounded to float32: at most k + 2 roundings
 * of relative size 2^-24 for a term, then one to the type of the result. */
static void
check_bound (OrtrainDType a_type, OrtrainDType b_type, OrtrainDType y_type, gint64 m, gint64 n, gint64 k)
{
  KernelRun run;
  kernel_run_init (&run, "", "MatMul");
  kernel_run_add_input (&run, kernel_random (a_type, D (m, k), 0.5, 7));
  kernel_run_add_input (&run, kernel_random (b_type, D (k, n), 0.5, 8));
  kernel_run_add_output (&run, y_type, D (m, n));
  kernel_run (&run);
  const double roundoff = y_type == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : y_type == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11 : 0;
  g_autoptr (OrtrainTensor) a = kernel_cast (run.inputs[0], ORTRAIN_DTYPE_FLOAT64);
  g_autoptr (OrtrainTensor) b = kernel_cast (run.inputs[1], ORTRAIN_DTYPE_FLOAT64);
  const double *x = ortrain_tensor_peek (a), *y = ortrain_tensor_peek (b);
  for (gint64 i = 0; i < m; i++)
    for (gint64 j = 0; j < n; j++)
      {
        double sum = 0, size = 0;
        for (gint64 l = 0; l < k; l++)
          {
            sum += x[i * k + l] * y[l * n + j];
            size += fabs (x[i * k + l] * y[l * n + j]);
          }
        const double bound = (double) (k + 2) * 0x1p-24 * size;
        const double smallest = y_type == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-25 : 0;
        g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (run.outputs[0], i * n + j), sum,
                                        bound + MAX (roundoff * (fabs (sum) + bound), smallest));
      }
  kernel_run_clear (&run);
}

static void
test_bound (void)
{
  for (guint i = 0; i < N_TYPES * N_TYPES * N_TYPES; i++)
    {
      const OrtrainDType a = types[i % N_TYPES], b = types[i / N_TYPES % N_TYPES], y = types[i / N_TYPES / N_TYPES];
      check_bound (a, b, y, 31, 33, 7);
      check_bound (a, b, y, 20, 50, 1000);
    }
}

/* Infinities and NaN propagate, and sums that are too large for the result become infinite. */
static void
test_not_finite (void)
{
  for (guint t = 1; t < N_TYPES; t++)
    {
      KernelRun run;
      kernel_run_init (&run, "", "MatMul");
      kernel_run_add_input (&run, new_integers (types[t], D (3, 40), 1));
      kernel_run_add_input (&run, new_integers (types[t], D (40, 5), 2));
      kernel_run_add_output (&run, types[t], D (3, 5));
      guint16 *a = ortrain_tensor_peek_writable (run.inputs[0]), *b = ortrain_tensor_peek_writable (run.inputs[1]);
      for (guint j = 0; j < 5; j++)
        b[7 * 5 + j] = ortrain_dtype_narrow (types[t], j == 0 ? 0 : j == 1 ? -2 : 2);
      a[7] = ortrain_dtype_narrow (types[t], INFINITY);
      a[40 + 7] = ortrain_dtype_narrow (types[t], NAN);
      a[80 + 7] = ortrain_dtype_narrow (types[t], 60000);
      kernel_run (&run);
      g_assert_true (isnan (ortrain_tensor_get_scalar (run.outputs[0], 0)));
      g_assert_cmpfloat (ortrain_tensor_get_scalar (run.outputs[0], 1), ==, -INFINITY);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (run.outputs[0], 4), ==, INFINITY);
      for (guint j = 0; j < 5; j++)
        g_assert_true (isnan (ortrain_tensor_get_scalar (run.outputs[0], 5 + j)));
      g_assert_true (isinf (ortrain_tensor_get_scalar (run.outputs[0], 12)) == (types[t] == ORTRAIN_DTYPE_FLOAT16));
      kernel_run_clear (&run);
    }
}

/* With a fixed partition, the bits are those of one thread. */
static void
test_threads (void)
{
  for (guint t = 0; t < N_TYPES; t++)
    {
      OrtrainTensor *results[2];
      for (guint i = 0; i < 2; i++)
        {
          const OrtrainProviderOptions options = { .n_threads = i == 0 ? 1 : 4, .fixed_partition = TRUE };
          g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cpu", &options, NULL);
          KernelRun run;
          kernel_run_init (&run, "", "MatMul");
          run.provider = provider;
          kernel_run_add_input (&run, kernel_random (types[t], D (150, 700), 1, 3));
          kernel_run_add_input (&run, kernel_random (ORTRAIN_DTYPE_BFLOAT16, D (700, 333), 1, 4));
          kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, D (150, 333));
          kernel_run (&run);
          results[i] = g_steal_pointer (&run.outputs[0]);
          kernel_run_clear (&run);
        }
      kernel_assert_same_bits (results[1], results[0], "four threads");
      g_object_unref (results[0]);
      g_object_unref (results[1]);
    }
}

/* NaN stands wherever row or column are k or more: nobody may read it. */
static void
surround (OrtrainTensor *tensor, gint64 extent, gint64 k)
{
  float *x = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < extent; i++)
    for (gint64 j = 0; j < extent; j++)
      if (i >= k || j >= k)
        x[i * extent + j] = NAN;
}

/* The product for the use of other kernels. */
static void
test_calling_thread (void)
{
  const gint64 m = 37, n = 45, k = 129, lda = 140, ldb = 150, ldc = 50;
  g_autoptr (OrtrainTensor) wide_a = new_integers (ORTRAIN_DTYPE_FLOAT32, D (lda, lda), 5);
  g_autoptr (OrtrainTensor) wide_b = new_integers (ORTRAIN_DTYPE_FLOAT32, D (ldb, ldb), 6);
  surround (wide_a, lda, k);
  surround (wide_b, ldb, k);
  const float *x = ortrain_tensor_peek (wide_a), *y = ortrain_tensor_peek (wide_b);
  g_autofree float *c = g_new (float, m *ldc);
  for (guint i = 0; i < 4 * N_TYPES * N_TYPES; i++)
    {
      const guint flags = i / (N_TYPES * N_TYPES);
      g_autoptr (OrtrainTensor) a_tensor = kernel_cast (wide_a, types[i % N_TYPES]);
      g_autoptr (OrtrainTensor) b_tensor = kernel_cast (wide_b, types[i / N_TYPES % N_TYPES]);
      const OrtrainCpuMatrix a = { types[i % N_TYPES], flags & 1, ortrain_tensor_peek (a_tensor), lda };
      const OrtrainCpuMatrix b = { types[i / N_TYPES % N_TYPES], (flags & 2) != 0, ortrain_tensor_peek (b_tensor),
                                   ldb };
      for (gint64 j = 0; j < m * ldc; j++)
        c[j] = (float) (j % 5);
      ortrain_cpu_gemm_mixed (m, n, k, 2, &a, &b, 0.5f, c, ldc);
      for (gint64 row = 0; row < m; row++)
        for (gint64 column = 0; column < ldc; column++)
          {
            float sum = 0, before = (float) ((row * ldc + column) % 5);
            for (gint64 l = 0; l < k && column < n; l++)
              sum += x[a.transposed ? l * lda + row : row * lda + l] *
                     y[b.transposed ? column * ldb + l : l * ldb + column];
            g_assert_cmpfloat (c[row * ldc + column], ==, column < n ? 2 * sum + 0.5f * before : before);
          }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-gemm/matmul", test_matmul);
  g_test_add_func ("/half-gemm/gemm", test_gemm);
  g_test_add_func ("/half-gemm/fused-matmul", test_fused);
  g_test_add_func ("/half-gemm/blocks", test_blocks);
  g_test_add_func ("/half-gemm/bound", test_bound);
  g_test_add_func ("/half-gemm/not-finite", test_not_finite);
  g_test_add_func ("/half-gemm/threads", test_threads);
  g_test_add_func ("/half-gemm/calling-thread", test_calling_thread);
  return g_test_run ();
}
