/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matrix products against plain loops in float64. */
#include "cpu/ortrain-cpu-gemm.h"
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-host-evaluator-private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double
noise (guint *state)
{
  *state = *state * 1664525u + 1013904223u;
  return (double) (*state >> 8) / (1 << 24) - 0.5;
}

static void
check_gemm (gboolean is_double, gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, double alpha,
            double beta, OrtrainThreadPool *pool)
{
  guint state = (guint) (m * 7 + n * 3 + k);
  gint64 lda = (trans_a ? m : k) + 3, ldb = (trans_b ? k : n) + 1, ldc = n + 2;
  gsize na = (gsize) ((trans_a ? k : m) * lda), nb = (gsize) ((trans_b ? n : k) * ldb), nc = (gsize) (m * ldc);
  g_autofree double *a = g_new (double, na + 1), *b = g_new (double, nb + 1), *c = g_new (double, nc + 1);
  g_autofree double *expected = g_new (double, nc + 1);
  g_autofree float *fa = g_new (float, na + 1), *fb = g_new (float, nb + 1), *fc = g_new (float, nc + 1);
  for (gsize i = 0; i < na; i++)
    a[i] = fa[i] = (float) noise (&state);
  for (gsize i = 0; i < nb; i++)
    b[i] = fb[i] = (float) noise (&state);
  for (gsize i = 0; i < nc; i++)
    c[i] = expected[i] = fc[i] = (float) noise (&state);
  for (gint64 i = 0; i < m; i++)
    for (gint64 j = 0; j < n; j++)
      {
        double sum = 0;
        for (gint64 l = 0; l < k; l++)
          sum += (trans_a ? a[l * lda + i] : a[i * lda + l]) * (trans_b ? b[j * ldb + l] : b[l * ldb + j]);
        expected[i * ldc + j] = alpha * sum + beta * expected[i * ldc + j];
      }
  OrtrainCpuGemm gemm = { .is_double = is_double,
                          .trans_a = trans_a,
                          .trans_b = trans_b,
                          .m = m,
                          .n = n,
                          .k = k,
                          .lda = lda,
                          .ldb = ldb,
                          .ldc = ldc,
                          .alpha = alpha,
                          .beta = beta,
                          .n_batch = 1 };
  ortrain_cpu_gemm_plan (&gemm, pool != NULL ? ortrain_thread_pool_get_n_threads (pool) : 1, FALSE);
  if (is_double)
    ortrain_cpu_gemm_run (&gemm, pool, a, b, NULL, c);
  else
    ortrain_cpu_gemm_run (&gemm, pool, fa, fb, NULL, fc);
  double limit = (is_double ? 1e-13 : 2e-6) * sqrt ((double) k + 1);
  for (gint64 i = 0; i < m; i++)
    for (gint64 j = 0; j < ldc; j++)
      {
        double found = is_double ? c[i * ldc + j] : (double) fc[i * ldc + j];
        if (j >= n)
          g_assert_true (found == expected[i * ldc + j]); /* in the padding of C: untouched */
        else
          g_assert_cmpfloat_with_epsilon (found, expected[i * ldc + j], limit);
      }
}

static void
test_gemm (void)
{
  static const gint64 shapes[][3] = { { 1, 1, 1 },      { 2, 3, 4 },      { 14, 32, 8 },  { 15, 33, 257 },
                                      { 64, 10, 100 },  { 1, 50, 300 },   { 50, 1, 300 }, { 229, 40, 12 },
                                      { 7, 1050, 5 },   { 13, 17, 600 },  { 3, 5, 0 },    { 300, 300, 70 },
                                      { 20, 700, 100 }, { 400, 301, 300 } };
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (3);
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (guint flags = 0; flags < 16; flags++)
      check_gemm (flags & 1, (flags & 2) != 0, (flags & 4) != 0, shapes[s][0], shapes[s][1], shapes[s][2],
                  flags & 8 ? 0.5 : 1, flags & 8 ? -1.5 : 0, s % 2 == 0 ? pool : NULL);
}

/* Small products do without the library, unless there are few rows of them. */
static void
test_gemm_choice (void)
{
  static const struct
  {
    gint64 m, n, k, n_batch;
    gboolean own;
  } cases[] = { { 1, 10, 100, 1, TRUE },   { 64, 256, 784, 1, TRUE },   { 64, 64, 64, 100, TRUE },
                { 8, 256, 784, 1, FALSE }, { 64, 2304, 768, 1, FALSE }, { 64, 64, 64, 1000, FALSE } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      OrtrainCpuGemm gemm = { .m = cases[i].m, .n = cases[i].n, .k = cases[i].k, .n_batch = cases[i].n_batch };
      ortrain_cpu_gemm_plan (&gemm, 2, FALSE);
      g_assert_cmpint (gemm.own, ==, cases[i].own);
    }
}

/* The blocked product's bits do not depend on how it is cut. */
static void
test_gemm_bits (void)
{
  const gint64 m = 150, n = 200, k = 300;
  guint state = 1;
  g_autofree double *a = g_new (double, (gsize) (m * k)), *b = g_new (double, (gsize) (k * n));
  double *c[2];
  for (gint64 i = 0; i < m * k; i++)
    a[i] = noise (&state);
  for (gint64 i = 0; i < k * n; i++)
    b[i] = noise (&state);
  for (guint t = 0; t < 2; t++)
    {
      g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (t == 0 ? 1 : 4);
      OrtrainCpuGemm gemm = {
        .is_double = TRUE, .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n, .alpha = 1, .n_batch = 1
      };
      ortrain_cpu_gemm_plan (&gemm, ortrain_thread_pool_get_n_threads (pool), FALSE);
      c[t] = g_new (double, (m * n));
      ortrain_cpu_gemm_run (&gemm, pool, a, b, NULL, c[t]);
    }
  g_assert_cmpmem (c[0], m * n * sizeof (double), c[1], m * n * sizeof (double));
  g_free (c[0]);
  g_free (c[1]);
}

/* The same bits whether a transposed B is copied, or transposed together with A: the cheaper way is chosen. */
static void
test_gemm_turned (void)
{
  const OrtrainCpuGemmCore *core = ortrain_cpu_gemm_get_core (FALSE);
  static const gint64 shapes[][3] = { { 64, 256, 784 }, { 33, 1000, 513 }, { 50, 190, 301 } };
  void *scratch = NULL;
  const OrtrainCpuGemmCore *f64 = ortrain_cpu_gemm_get_core (TRUE);
  g_assert_cmpint (
      posix_memalign (&scratch, 64, ortrain_cpu_gemm_core_a_bytes (f64) + ortrain_cpu_gemm_core_b_bytes (f64)), ==, 0);
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    {
      const gint64 m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
      guint state = s + 1;
      g_autofree float *a = g_new (float, (gsize) (m * k)), *b = g_new (float, (gsize) (k * n));
      g_autofree float *turned = g_new (float, (gsize) (k * n));
      g_autofree float *c = g_new (float, (gsize) (m * n)), *expected = g_new (float, (gsize) (m * n));
      for (gint64 i = 0; i < m * k; i++)
        a[i] = (float) noise (&state);
      for (gint64 i = 0; i < n; i++)
        for (gint64 j = 0; j < k; j++)
          b[j * n + i] = turned[i * k + j] = (float) noise (&state);
      for (gint64 i = 0; i < m * n; i++)
        c[i] = expected[i] = (float) noise (&state);
      core->tile.f32 (FALSE, FALSE, m, n, k, 1.5f, a, k, b, n, 0.5f, expected, n, scratch);
      core->tile.f32 (FALSE, TRUE, m, n, k, 1.5f, a, k, turned, k, 0.5f, c, n, scratch);
      g_assert_cmpmem (c, m * n * sizeof (float), expected, m * n * sizeof (float));
    }
  free (scratch);
}

/* The blocked product of this machine's instruction set. */
static void
check_core (const OrtrainCpuGemmCore *f32, const OrtrainCpuGemmCore *f64)
{
  static const gint64 shapes[][3] = { { 1, 1, 1 },      { 17, 35, 300 },  { 230, 9, 33 },   { 5, 1040, 7 },
                                      { 64, 101, 520 }, { 30, 1000, 40 }, { 64, 1000, 513 } };
  gsize room = ortrain_cpu_gemm_core_a_bytes (f64) + ortrain_cpu_gemm_core_b_bytes (f64);
  void *scratch = NULL;
  g_assert_cmpint (posix_memalign (&scratch, 64, room), ==, 0);
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (guint flags = 0; flags < 4; flags++)
      {
        const gint64 m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        const gint64 lda = flags & 1 ? m : k, ldb = flags & 2 ? k : n;
        guint state = 5;
        g_autofree double *a = g_new (double, (gsize) (m * k)), *b = g_new (double, (gsize) (k * n));
        g_autofree double *c = g_new0 (double, (gsize) (m * n));
        g_autofree float *fa = g_new (float, (gsize) (m * k)), *fb = g_new (float, (gsize) (k * n));
        g_autofree float *fc = g_new0 (float, (gsize) (m * n));
        for (gint64 i = 0; i < m * k; i++)
          a[i] = fa[i] = (float) noise (&state);
        for (gint64 i = 0; i < k * n; i++)
          b[i] = fb[i] = (float) noise (&state);
        f32->tile.f32 ((flags & 1) != 0, (flags & 2) != 0, m, n, k, 2, fa, lda, fb, ldb, 0, fc, n, scratch);
        f64->tile.f64 ((flags & 1) != 0, (flags & 2) != 0, m, n, k, 2, a, lda, b, ldb, 0, c, n, scratch);
        for (gint64 i = 0; i < m; i++)
          for (gint64 j = 0; j < n; j++)
            {
              double sum = 0;
              for (gint64 l = 0; l < k; l++)
                sum +=
                    2 * (flags & 1 ? a[l * lda + i] : a[i * lda + l]) * (flags & 2 ? b[j * ldb + l] : b[l * ldb + j]);
              g_assert_cmpfloat_with_epsilon (c[i * n + j], sum, 1e-12);
              g_assert_cmpfloat_with_epsilon ((double) fc[i * n + j], sum, 1e-4);
            }
      }
  free (scratch);
}

static void
test_cores (void)
{
  check_core (ortrain_cpu_gemm_get_core (FALSE), ortrain_cpu_gemm_get_core (TRUE));
}

static OrtrainTensor *
make_tensor (OrtrainDType dtype, const gint64 *dims, gsize rank, guint seed)
{
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (dtype, dims, rank, NULL);
  g_assert_nonnull (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    if (dtype == ORTRAIN_DTYPE_FLOAT64)
      ((double *) ortrain_tensor_peek_writable (tensor))[i] = noise (&seed);
    else if (dtype == ORTRAIN_DTYPE_INT64)
      ((gint64 *) ortrain_tensor_peek_writable (tensor))[i] = (gint64) (noise (&seed) * 20);
    else
      ((float *) ortrain_tensor_peek_writable (tensor))[i] = (float) noise (&seed);
  return tensor;
}

/* MatMul as NumPy defines it, with broadcast batches and vectors. */
static void
check_matmul (OrtrainDType dtype, const gint64 *a_dims, gsize a_rank, const gint64 *b_dims, gsize b_rank,
              const char *expected_shape)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  OrtrainTensor *inputs[2] = { make_tensor (dtype, a_dims, a_rank, 3), make_tensor (dtype, b_dims, b_rank, 4) };
  OrtrainValue *values[2] = { ortrain_graph_new_initializer (graph, "a", inputs[0]),
                              ortrain_graph_new_initializer (graph, "b", inputs[1]) };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "MatMul", "product", values, 2, 1);
  g_autoptr (GError) error = NULL;
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  g_autofree char *shape = ortrain_value_get_shape_string (ortrain_node_output (node, 0));
  g_assert_cmpstr (shape, ==, expected_shape);
  g_autoptr (OrtrainProvider) provider = new_cpu (2);
  OrtrainHostContext context;
  init_context (&context, provider);
  OrtrainTensor *output = NULL;
  ortrain_evaluate_node (node, inputs, &output, &context, &error);
  g_assert_no_error (error);

  gint64 m = a_rank > 1 ? a_dims[a_rank - 2] : 1, k = a_dims[a_rank - 1], n = b_rank > 1 ? b_dims[b_rank - 1] : 1;
  gint64 n_c = ortrain_tensor_get_n_elements (output), batch = n_c / (m * n);
  gint rank = (gint) MAX (MAX (a_rank, b_rank), 2) - 2;
  for (gint64 p = 0; p < batch; p++)
    {
      gint64 ia = 0, ib = 0, rest = p, sa = 1, sb = 1;
      for (gint r = 0; r < rank; r++)
        {
          gint at_a = (gint) a_rank - 3 - r, at_b = (gint) b_rank - 3 - r;
          gint64 da = at_a >= 0 ? a_dims[at_a] : 1, db = at_b >= 0 ? b_dims[at_b] : 1, d = MAX (da, db), i = rest % d;
          rest /= d;
          ia += da == 1 ? 0 : i * sa;
          ib += db == 1 ? 0 : i * sb;
          sa *= da;
          sb *= db;
        }
      for (gint64 i = 0; i < m; i++)
        for (gint64 j = 0; j < n; j++)
          {
            gint64 at = (p * m + i) * n + j;
            if (dtype == ORTRAIN_DTYPE_INT64)
              {
                const gint64 *a = ortrain_tensor_peek (inputs[0]), *b = ortrain_tensor_peek (inputs[1]);
                gint64 sum = 0;
                for (gint64 l = 0; l < k; l++)
                  sum += a[(ia * m + i) * k + l] * b[(ib * k + l) * n + j];
                g_assert_cmpint (((const gint64 *) ortrain_tensor_peek (output))[at], ==, sum);
                continue;
              }
            const double *a = ortrain_tensor_peek (inputs[0]), *b = ortrain_tensor_peek (inputs[1]);
            double sum = 0;
            for (gint64 l = 0; l < k; l++)
              sum += a[(ia * m + i) * k + l] * b[(ib * k + l) * n + j];
            g_assert_cmpfloat_with_epsilon (((const double *) ortrain_tensor_peek (output))[at], sum, 1e-13);
          }
    }
  g_object_unref (inputs[0]);
  g_object_unref (inputs[1]);
  g_object_unref (output);
}

#define D(...) ((const gint64[]){ __VA_ARGS__ }), G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ }))

static void
test_matmul (void)
{
  const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT64 };
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      check_matmul (types[t], D (3, 4), D (4, 5), "[3, 5]");
      check_matmul (types[t], D (4), D (4, 5), "[5]");
      check_matmul (types[t], D (3, 4), D (4), "[3]");
      check_matmul (types[t], D (4), D (4), "[]");
      check_matmul (types[t], D (2, 6, 3, 4), D (4, 5), "[2, 6, 3, 5]");
      check_matmul (types[t], D (2, 6, 3, 4), D (2, 6, 4, 5), "[2, 6, 3, 5]");
      check_matmul (types[t], D (2, 1, 3, 4), D (6, 4, 5), "[2, 6, 3, 5]");
      check_matmul (types[t], D (3, 4), D (2, 6, 4, 5), "[2, 6, 3, 5]");
      check_matmul (types[t], D (1, 6, 3, 4), D (2, 1, 4, 1), "[2, 6, 3, 1]");
      check_matmul (types[t], D (4), D (2, 6, 4, 5), "[2, 6, 5]");
      check_matmul (types[t], D (2, 3, 4), D (4), "[2, 3]");
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/linear/gemm", test_gemm);
  g_test_add_func ("/linear/gemm/choice", test_gemm_choice);
  g_test_add_func ("/linear/gemm/bits", test_gemm_bits);
  g_test_add_func ("/linear/gemm/turned", test_gemm_turned);
  g_test_add_func ("/linear/gemm/cores", test_cores);
  g_test_add_func ("/linear/matmul", test_matmul);
  return g_test_run ();
}
