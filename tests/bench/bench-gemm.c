/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times matrix products by types and shapes:
 *   bench-gemm [threads] [M] [seconds per figure] [KxN...]
 * The shapes, of weights, are those of a transformer's layers unless others are given; forward, and the gradients of
 * both operands. The figure is the best of several runs in GFLOP/s; the variants of a shape take turns. */
#include "cpu/ortrain-cpu-gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct
{
  const char *name;
  OrtrainDType a, b, c; /* UNDEFINED: float32 throughout */
} Variant;

static const Variant variants[] = {
  { "f32", ORTRAIN_DTYPE_UNDEFINED, ORTRAIN_DTYPE_UNDEFINED, ORTRAIN_DTYPE_UNDEFINED },
  { "bf16", ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BFLOAT16 },
  { "bf16>f32", ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32 },
  { "fp16", ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT16 },
  { "f32,bf16", ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BFLOAT16 },
};

/* One thread is timed by its processor time: other programs may be running. */
static double
now (guint n_threads)
{
  struct timespec t;
  clock_gettime (n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static gsize
get_size (OrtrainDType dtype)
{
  return ortrain_dtype_is_half (dtype) ? 2 : 4;
}

static void *
new_matrix (OrtrainDType dtype, gint64 n)
{
  guint32 state = 1;
  float *wide = g_new (float, n);
  void *matrix = g_malloc ((gsize) n * get_size (dtype));
  for (gint64 i = 0; i < n; i++)
    {
      state = state * 1664525u + 1013904223u;
      wide[i] = (float) (state >> 8) / (1 << 24) - 0.5f;
    }
  ortrain_cpu_narrow (dtype == ORTRAIN_DTYPE_UNDEFINED ? ORTRAIN_DTYPE_FLOAT32 : dtype, matrix, wide, n);
  g_free (wide);
  return matrix;
}

static void
time_shape (const char *form, gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, OrtrainThreadPool *pool,
            double seconds)
{
  const guint n_threads = ortrain_thread_pool_get_n_threads (pool);
  OrtrainCpuGemm gemms[G_N_ELEMENTS (variants)];
  void *a[G_N_ELEMENTS (variants)], *b[G_N_ELEMENTS (variants)], *c[G_N_ELEMENTS (variants)];
  double best[G_N_ELEMENTS (variants)];
  for (guint v = 0; v < G_N_ELEMENTS (variants); v++)
    {
      gemms[v] = (OrtrainCpuGemm){
        .a_dtype = variants[v].a,
        .b_dtype = variants[v].b,
        .c_dtype = variants[v].c,
        .trans_a = trans_a,
        .trans_b = trans_b,
        .m = m,
        .n = n,
        .k = k,
        .lda = trans_a ? m : k,
        .ldb = trans_b ? k : n,
        .ldc = n,
        .alpha = 1,
        .n_batch = 1,
      };
      ortrain_cpu_gemm_plan (&gemms[v], n_threads, FALSE);
      a[v] = new_matrix (variants[v].a, m * k);
      b[v] = new_matrix (variants[v].b, k * n);
      c[v] = new_matrix (variants[v].c, m * n);
      best[v] = G_MAXDOUBLE;
    }
  for (guint i = 0; i < 3 * G_N_ELEMENTS (variants); i++)
    {
      const guint v = i % G_N_ELEMENTS (variants);
      const gint64 stop = g_get_monotonic_time () + (gint64) (seconds / 3 * 1e6);
      do
        {
          double start = now (n_threads);
          ortrain_cpu_gemm_run (&gemms[v], pool, a[v], b[v], NULL, c[v]);
          best[v] = MIN (best[v], now (n_threads) - start);
        }
      while (g_get_monotonic_time () < stop);
    }
  printf ("%-4s %5d x %5d x %5d", form, (int) m, (int) n, (int) k);
  for (guint v = 0; v < G_N_ELEMENTS (variants); v++)
    {
      printf ("  %s %6.1f", variants[v].name, 2e-9 * (double) m * (double) n * (double) k / best[v]);
      if (v > 0)
        printf (" (%.2f)", best[0] / best[v]);
      g_free (a[v]);
      g_free (b[v]);
      g_free (c[v]);
    }
  printf ("\n");
  fflush (stdout);
}

int
main (int argc, char **argv)
{
  static const gint64 shapes[][2] = { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 }, { 768, 50257 } };
  const guint n_threads = argc > 1 ? (guint) atoi (argv[1]) : 1;
  const gint64 rows = argc > 2 ? atoi (argv[2]) : 256;
  const double seconds = argc > 3 ? atof (argv[3]) : 0.3;
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (n_threads);
  const guint n_shapes = argc > 4 ? (guint) argc - 4 : G_N_ELEMENTS (shapes);
  for (guint i = 0; i < n_shapes; i++)
    {
      char *rest = NULL;
      const gint64 k = argc > 4 ? g_ascii_strtoll (argv[4 + i], &rest, 10) : shapes[i][0];
      const gint64 n = argc > 4 ? g_ascii_strtoll (rest + (*rest == 'x'), NULL, 10) : shapes[i][1];
      time_shape ("Y", FALSE, FALSE, rows, n, k, pool, seconds); /* X · W */
      time_shape ("dX", FALSE, TRUE, rows, k, n, pool, seconds); /* dY · Wᵀ */
      time_shape ("dW", TRUE, FALSE, k, n, rows, pool, seconds); /* Xᵀ · dY */
    }
  return 0;
}
