/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

#include <glib/gstdio.h>

/* How engines of cuDNN are chosen: the first that can be made, or the fastest of all, which a file remembers. */

static char *folder;

/* Each test has a convolution of its own: plans live as long as the process. */
static void
run_conv (OrtrainConvAlgoSearch search, gint64 channels)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1, .conv_algo_search = search };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  const gint64 x[] = { 1, channels, 6, 5 }, w[] = { 3, channels, 2, 2 }, y[] = { 1, 3, 5, 4 };
  KernelRun ours, right;
  KernelRun *runs[] = { &ours, &right };
  for (guint i = 0; i < 2; i++)
    {
      kernel_run_init (runs[i], "", "Conv");
      runs[i]->provider = i == 0 ? cuda : NULL;
      kernel_run_add_input (runs[i], kernel_random (ORTRAIN_DTYPE_FLOAT32, x, 4, 1, 1));
      kernel_run_add_input (runs[i], kernel_random (ORTRAIN_DTYPE_FLOAT32, w, 4, 1, 2));
      kernel_run_add_output (runs[i], ORTRAIN_DTYPE_FLOAT32, y, 4);
      kernel_run_try (runs[i], &error);
      g_assert_no_error (error);
    }
  const float *a = ortrain_tensor_peek (ours.outputs[0]), *b = ortrain_tensor_peek (right.outputs[0]);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (ours.outputs[0]); i++)
    g_assert_cmpfloat_with_epsilon (a[i], b[i], 1e-5);
  kernel_run_clear (&ours);
  kernel_run_clear (&right);
}

static guint64
count (const char *name)
{
  return ortrain_fake_cuda_count_launches (name);
}

static char *
find_cache_file (void)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name = dir != NULL ? g_dir_read_name (dir) : NULL;
  return name != NULL ? g_build_filename (folder, name, NULL) : NULL;
}

/* Nothing is measured, and nothing is written. */
static void
test_first (void)
{
  const guint64 before = count ("dnn");
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC, 2);
  g_assert_cmpuint (count ("dnn") - before, ==, 1);
  g_assert_null (find_cache_file ());
}

/* An engine that cannot be made gives way to the next one; with none left, a plain kernel computes. */
static void
test_refused (void)
{
  const guint64 dnn = count ("dnn"), plain = count ("conv-forward");
  g_setenv ("ORTRAIN_FAKE_CUDNN_REFUSE", "1", TRUE);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, 3);
  g_assert_cmpuint (count ("dnn") - dnn, ==, 1);
  g_assert_cmpuint (count ("conv-forward"), ==, plain);
  g_setenv ("ORTRAIN_FAKE_CUDNN_REFUSE", "9", TRUE);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, 4);
  g_assert_cmpuint (count ("dnn") - dnn, ==, 1);
  g_assert_cmpuint (count ("conv-forward") - plain, ==, 1);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, 4); /* it stays so */
  g_assert_cmpuint (count ("conv-forward") - plain, ==, 2);
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_REFUSE");
}

/* A process of its own for each part: what it found before is in the file alone. */
static void
test_search (void)
{
  const char *part = g_getenv ("ORTRAIN_TEST_PART");
  if (part != NULL)
    {
      const guint64 before = count ("dnn");
      run_conv (ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, 5);
      /* two engines of float32, each run four times, and the run itself */
      g_assert_cmpuint (count ("dnn") - before, ==, g_str_equal (part, "searches") ? 9 : 1);
      return;
    }
  const char *const parts[] = { "searches", "remembers", "searches", "remembers" };
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_setenv ("ORTRAIN_TEST_PART", parts[i], TRUE);
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      g_autofree char *path = find_cache_file ();
      g_assert_nonnull (path);
      if (i == 1) /* a damaged file is no reason to stop */
        g_assert_true (g_file_set_contents (path, "damaged", -1, NULL));
    }
  g_unsetenv ("ORTRAIN_TEST_PART");
  g_autofree char *path = find_cache_file ();
  g_assert_cmpint (g_unlink (path), ==, 0);
}

int
main (int argc, char *argv[])
{
  g_autoptr (GError) error = NULL;
  if (g_getenv ("ORTRAIN_TEST_PART") == NULL)
    {
      folder = g_dir_make_tmp ("ortrain-cudnn-XXXXXX", &error);
      g_assert_no_error (error);
      g_setenv ("ORTRAIN_CACHE", folder, TRUE);
    }
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-dnn/first", test_first);
  g_test_add_func ("/cuda-dnn/refused", test_refused);
  g_test_add_func ("/cuda-dnn/search", test_search);
  const int result = g_test_run ();
  if (folder != NULL)
    g_rmdir (folder);
  g_free (folder);
  return result;
}
