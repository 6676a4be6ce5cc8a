/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-thread-pool-private.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Sums that round: one partial sum for each chunk, added in the order of the chunks, as kernels do it. */
typedef struct
{
  const float *values;
  float *partial;
  gint64 grain;
} Sum;

static void
sum_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  Sum *sum = data;
  float s = 0;
  for (gint64 i = begin; i < end; i++)
    s += sum->values[i];
  sum->partial[begin / sum->grain] = s;
}

static float
parallel_sum (OrtrainThreadPool *pool, const float *values, gint64 n, gint64 grain)
{
  gint64 n_chunks = (n - 1) / grain + 1;
  g_autofree float *partial = g_new (float, n_chunks);
  Sum sum = { values, partial, grain };
  ortrain_parallel_for (pool, n, grain, sum_chunk, &sum);
  float total = 0;
  for (gint64 i = 0; i < n_chunks; i++)
    total += partial[i];
  return total;
}

static void
test_same_bits (void)
{
  const gint64 n = 100003;
  g_autofree float *values = g_new (float, n);
  for (gint64 i = 0; i < n; i++)
    values[i] = (float) g_test_rand_double_range (-1, 1);
  float expected = parallel_sum (NULL, values, n, 1000);
  for (guint threads = 1; threads <= 7; threads++)
    {
      g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (threads);
      g_assert_cmpuint (ortrain_thread_pool_get_n_threads (pool), ==, threads);
      for (guint round = 0; round < 50; round++)
        {
          float sum = parallel_sum (pool, values, n, 1000);
          g_assert_cmpmem (&sum, sizeof sum, &expected, sizeof expected);
        }
    }
}

typedef struct
{
  int *visits; /* of each index */
  int *busy;   /* whether a worker's number is in use */
  gint64 grain;
  gint64 n;
  guint n_threads;
} Cover;

static void
cover_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  Cover *cover = data;
  g_assert_cmpuint (worker, <, cover->n_threads);
  g_assert_cmpint (begin % cover->grain, ==, 0);
  g_assert_true (end - begin == cover->grain || end == cover->n);
  g_assert_true (g_atomic_int_compare_and_exchange (&cover->busy[worker], 0, 1));
  for (gint64 i = begin; i < end; i++)
    g_atomic_int_inc (&cover->visits[i]);
  g_atomic_int_set (&cover->busy[worker], 0);
}

/* Every index once, in chunks that are where they must be, and no two chunks on one worker at a time. */
static void
test_coverage (void)
{
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (5);
  static const gint64 sizes[] = { 0, 1, 2, 63, 64, 65, 1000 }, grains[] = { 1, 2, 7, 64, 1000, 5000 };
  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (guint g = 0; g < G_N_ELEMENTS (grains); g++)
      for (guint round = 0; round < 20; round++)
        {
          g_autofree int *visits = g_new0 (int, sizes[s] + 1), *busy = g_new0 (int, 5);
          Cover cover = { visits, busy, grains[g], sizes[s], 5 };
          ortrain_parallel_for (round % 2 ? pool : NULL, sizes[s], grains[g], cover_chunk, &cover);
          for (gint64 i = 0; i < sizes[s]; i++)
            g_assert_cmpint (visits[i], ==, 1);
          g_assert_cmpint (visits[sizes[s]], ==, 0);
        }
}

typedef struct
{
  OrtrainThreadPool *pool;
  int *visits;
} Nested;

static void
inner_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  for (gint64 i = begin; i < end; i++)
    g_atomic_int_inc ((int *) data + i);
}

static void
outer_chunk (gpointer data, gint64 begin, gint64 end, guint worker)
{
  Nested *nested = data;
  for (gint64 i = begin; i < end; i++)
    ortrain_parallel_for (nested->pool, 100, 10, inner_chunk, nested->visits + 100 * i);
}

static void
test_nested (void)
{
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (3);
  int visits[20 * 100] = { 0 };
  Nested nested = { pool, visits };
  ortrain_parallel_for (pool, 20, 1, outer_chunk, &nested);
  for (guint i = 0; i < G_N_ELEMENTS (visits); i++)
    g_assert_cmpint (visits[i], ==, 1);
}

static gpointer
caller_thread (gpointer data)
{
  OrtrainThreadPool *pool = data;
  for (guint round = 0; round < 2000; round++)
    {
      int visits[64] = { 0 };
      ortrain_parallel_for (pool, 64, 4, inner_chunk, visits);
      for (guint i = 0; i < 64; i++)
        g_assert_cmpint (visits[i], ==, 1);
    }
  return NULL;
}

/* Several threads call one pool at once; some rounds sleep, so that the workers go to sleep, too. */
static void
test_many_callers (void)
{
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (4);
  GThread *threads[4];
  for (guint i = 0; i < 4; i++)
    threads[i] = g_thread_new ("caller", caller_thread, pool);
  for (guint i = 0; i < 4; i++)
    g_thread_join (threads[i]);
  for (guint round = 0; round < 200; round++)
    {
      int visits[64] = { 0 };
      g_usleep (round % 3 == 0 ? 200 : 0);
      ortrain_parallel_for (pool, 64, 4, inner_chunk, visits);
      for (guint i = 0; i < 64; i++)
        g_assert_cmpint (visits[i], ==, 1);
    }
}

static int n_inits;

static void
count_init (void)
{
  g_atomic_int_inc (&n_inits);
}

static void
test_life (void)
{
  ortrain_thread_pool_set_worker_init (count_init);
  for (guint round = 0; round < 50; round++)
    {
      g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (3);
      if (round % 2)
        {
          int visits[64] = { 0 };
          ortrain_parallel_for (pool, 64, 1, inner_chunk, visits);
        }
    }
  ortrain_thread_pool_set_worker_init (NULL);
  g_assert_cmpint (n_inits, ==, 100); /* two workers each; free waits for them */

  /* as many threads as the process has cores, when that is not all there are */
  cpu_set_t before, one;
  g_assert_cmpint (sched_getaffinity (0, sizeof before, &before), ==, 0);
  CPU_ZERO (&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT (&one) == 0; i++)
    if (CPU_ISSET (i, &before))
      CPU_SET (i, &one);
  sched_setaffinity (0, sizeof one, &one);
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (0);
  sched_setaffinity (0, sizeof before, &before);
  g_assert_cmpuint (ortrain_thread_pool_get_n_threads (pool), ==, 1);
  g_assert_cmpuint (ortrain_thread_pool_get_n_threads (NULL), ==, 1);
}

static void
slow_init (void)
{
  g_usleep (20000);
  g_atomic_int_inc (&n_inits);
}

/* Nothing of a worker's start is left for the first calls. */
static void
test_started (void)
{
  n_inits = 0;
  ortrain_thread_pool_set_worker_init (slow_init);
  g_autoptr (OrtrainThreadPool) pool = ortrain_thread_pool_new (4);
  g_assert_cmpuint (ortrain_thread_pool_get_n_threads (pool), ==, 4);
  g_assert_cmpint (g_atomic_int_get (&n_inits), ==, 3);
  ortrain_thread_pool_set_worker_init (NULL);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/thread-pool/same-bits", test_same_bits);
  g_test_add_func ("/thread-pool/coverage", test_coverage);
  g_test_add_func ("/thread-pool/nested", test_nested);
  g_test_add_func ("/thread-pool/many-callers", test_many_callers);
  g_test_add_func ("/thread-pool/life", test_life);
  g_test_add_func ("/thread-pool/started", test_started);
  return g_test_run ();
}
