/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#include "core/ortrain-counters-private.h"
#include "folder.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

/* Which of cuBLASLt's algorithms a product has: its first one, or the fastest of three, which are timed once. */

#define N_ALGORITHMS 3 /* that are timed */
#define N_TIMED_RUNS 4 /* runs of each algorithm; the first one warms up */

static guint64
count (const char *name)
{
  return ortrain_counters_get ("cuda", name);
}

typedef struct
{
  OrtrainConvAlgoSearch search;
  gboolean deterministic;
  gint64 m; /* each test has a product of its own: the process knows the fastest algorithm of a product */
  gboolean accumulates;
} Run;

typedef struct
{
  guint64 n_products, n_timed, n_remembered;
} Counts;

/* y (+)= A · B of small whole numbers, which are exact. */
static Counts
run_product (const Run *r)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1,
                                           .conv_algo_search = r->search,
                                           .fixed_partition = r->deterministic };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  const gint64 a[] = { r->m, 4 }, b[] = { 4, 5 }, y[] = { r->m, 5 };
  const Counts before = { ortrain_fake_cuda_count_launches ("product"), count ("algorithms-timed"),
                          count ("algorithms-remembered") };
  KernelRun run;
  kernel_run_init (&run, "", "MatMul");
  run.provider = cuda;
  run.accumulates = r->accumulates;
  kernel_run_add_input (&run, kernel_random (ORTRAIN_DTYPE_FLOAT32, a, 2, 1, 1));
  kernel_run_add_input (&run, kernel_random (ORTRAIN_DTYPE_FLOAT32, b, 2, 1, 2));
  kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, y, 2);
  float *at_a = ortrain_tensor_peek_writable (run.inputs[0]), *at_b = ortrain_tensor_peek_writable (run.inputs[1]);
  float *at_y = ortrain_tensor_peek_writable (run.outputs[0]);
  for (gint64 i = 0; i < r->m * 4; i++)
    at_a[i] = (float) (i % 7 - 3);
  for (gint64 i = 0; i < 20; i++)
    at_b[i] = (float) (i % 5 - 2);
  for (gint64 i = 0; i < r->m * 5; i++)
    at_y[i] = 100;
  kernel_run (&run);
  for (gint64 i = 0; i < r->m; i++)
    for (gint64 j = 0; j < 5; j++)
      {
        float sum = r->accumulates ? 100 : 0;
        for (gint64 k = 0; k < 4; k++)
          sum += at_a[i * 4 + k] * at_b[k * 5 + j];
        g_assert_cmpfloat (at_y[i * 5 + j], ==, sum);
      }
  kernel_run_clear (&run);
  return (Counts){ ortrain_fake_cuda_count_launches ("product") - before.n_products,
                   count ("algorithms-timed") - before.n_timed, count ("algorithms-remembered") - before.n_remembered };
}

static void
check (const Run *run, guint64 n_timed, guint64 n_remembered)
{
  const Counts counts = run_product (run);
  g_assert_cmpuint (counts.n_timed, ==, n_timed);
  g_assert_cmpuint (counts.n_remembered, ==, n_remembered);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (counts.n_products, ==, 1 + n_timed * N_TIMED_RUNS);
}

/* Unless a search is asked for, and with `deterministic`, nothing is timed. */
static void
test_first (void)
{
  check (&(Run){ .m = 2 }, 0, 0);
  check (&(Run){ .search = ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC, .m = 2 }, 0, 0);
  check (&(Run){ .search = ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, .deterministic = TRUE, .m = 2 }, 0, 0);
}

/* On a GPU the library may suggest fewer. */
static void
test_timed (void)
{
  Run run = { .search = ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, .m = 3 };
  const Counts counts = run_product (&run);
  g_assert_cmpuint (counts.n_timed, <=, N_ALGORITHMS);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (counts.n_timed, ==, N_ALGORITHMS);
  g_assert_cmpuint (counts.n_remembered, ==, 0);
  check (&run, 0, counts.n_timed > 0 ? 1 : 0); /* a second session knows it, with a cache on the disk or without */
}

/* The value that a gradient is added to is in the sum once, however often the product is timed. */
static void
test_accumulated (void)
{
  Run run = { .search = ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, .m = 4, .accumulates = TRUE };
  const Counts counts = run_product (&run);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (counts.n_timed, ==, N_ALGORITHMS);
  check (&run, 0, counts.n_timed > 0 ? 1 : 0);
}

/* In a process of its own: algorithms that another one has timed are in files alone. */
static void
test_remembered (void)
{
  static const char *const parts[] = { "times", "remembers", "remembers" };
  const char *part = g_getenv ("ORTRAIN_TEST_PART");
  if (part != NULL)
    {
      const gboolean times = g_str_equal (part, "times");
      const Counts counts = run_product (&(Run){ .search = ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, .m = 5 });
      if (ortrain_fake_cuda_is_in_use ())
        g_assert_cmpuint (counts.n_timed, ==, times ? N_ALGORITHMS : 0);
      if (!times)
        g_assert_cmpuint (counts.n_timed, ==, 0);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_setenv ("ORTRAIN_TEST_PART", parts[i], TRUE);
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
    }
  g_unsetenv ("ORTRAIN_TEST_PART");
}

/* Training: timed in the first step, whose calls are submitted one by one, and never in a graph; losses are those of a
 * session that times nothing, and the plan has the same steps. */
static void
test_session (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  double losses[2][4];
  for (guint searches = 0; searches < 2; searches++)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_provider (options, "cuda");
      if (searches)
        ortrain_training_options_set_cudnn_conv_algo_search (options, ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      const guint64 uncaptured = count ("uncaptured-segments"), captures = count ("captures");
      guint64 timed = count ("algorithms-timed");
      for (guint s = 0; s < 4; s++)
        {
          losses[searches][s] = ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
          g_assert_no_error (error);
          if (s == 0 && searches && ortrain_fake_cuda_is_in_use ())
            g_assert_cmpuint (count ("algorithms-timed"), >, timed);
          if (s == 0)
            timed = count ("algorithms-timed");
          g_assert_cmpuint (count ("algorithms-timed"), ==, timed);
        }
      g_assert_cmpuint (count ("captures"), >, captures);
      g_assert_cmpuint (count ("uncaptured-segments"), ==, uncaptured);
    }
  for (guint s = 0; s < 4 && ortrain_fake_cuda_is_in_use (); s++)
    g_assert_cmpfloat (losses[0][s], ==, losses[1][s]); /* the emulated algorithms compute the same */
}

int
main (int argc, char *argv[])
{
  const gboolean is_part = g_getenv ("ORTRAIN_TEST_PART") != NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = is_part ? NULL : g_dir_make_tmp ("ortrain-products-XXXXXX", &error);
  g_assert_no_error (error);
  if (!is_part)
    g_setenv ("ORTRAIN_CACHE", folder, TRUE);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-products/first", test_first);
  g_test_add_func ("/cuda-products/timed", test_timed);
  g_test_add_func ("/cuda-products/accumulated", test_accumulated);
  g_test_add_func ("/cuda-products/remembered", test_remembered);
  g_test_add_func ("/cuda-products/session", test_session);
  const int result = g_test_run ();
  if (!is_part)
    test_remove_folder (folder);
  return result;
}
