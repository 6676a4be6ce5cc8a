/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "simt/cuda-kernel-check.h"

#include "core/ortrain-disk-cache-private.h"
#include "folder.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

/* How engines of cuDNN are chosen: the first that can be made, or the fastest of all; and that files remember the
 * choices of cuDNN and cuBLASLt. */

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

/* Opens the provider, which tells. */
static gboolean
is_emulated (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda G_GNUC_UNUSED = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  return ortrain_fake_cuda_is_in_use ();
}

static guint64
count (const char *name)
{
  return ortrain_fake_cuda_count_launches (name);
}

static void
damage_cache (void)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_assert_true (g_file_set_contents (path, "damaged", -1, NULL));
    }
}

typedef struct
{
  const char *memory; /* of the device */
  guint64 limit;      /* of the session */
  gsize expected;     /* of workspace, in MiB */
} WorkspaceCase;

/* Engines of 16, 8 and 4 MiB, of which the first that the session has room for is taken. */
static void
test_workspace (void)
{
  static const WorkspaceCase workspaces[] = {
    { NULL, 0, 16 },
    { "67108864", 0, 8 },
    { NULL, 64 << 20, 8 },
    { NULL, 32 << 20, 0 }, /* the last one uses tensor cores, which float32 does not: a plain kernel */
  };
  const gint64 x[] = { 1, 6, 6, 5 }, w[] = { 3, 6, 2, 2 }, y[] = { 1, 3, 5, 4 };
  if (!is_emulated ())
    {
      g_test_skip ("only the emulated cuDNN can be told what its engines need");
      return;
    }
  TEST_ALLOWS_FALLBACKS ("in the last case no engine fits");
  g_setenv ("ORTRAIN_FAKE_CUDNN_WORKSPACE", "16777216", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (workspaces); i++)
    {
      const WorkspaceCase *c = &workspaces[i];
      g_autoptr (GError) error = NULL;
      const OrtrainProviderOptions options = { .n_threads = 1, .memory_limit = c->limit };
      if (c->memory != NULL)
        g_setenv ("ORTRAIN_FAKE_CUDA_MEMORY", c->memory, TRUE);
      g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
      g_unsetenv ("ORTRAIN_FAKE_CUDA_MEMORY");
      g_assert_no_error (error);
      KernelRun run;
      kernel_run_init (&run, "", "Conv");
      run.provider = cuda;
      kernel_run_add_input (&run, kernel_random (ORTRAIN_DTYPE_FLOAT32, x, 4, 1, 1));
      kernel_run_add_input (&run, kernel_random (ORTRAIN_DTYPE_FLOAT32, w, 4, 1, 2));
      kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, y, 4);
      kernel_run (&run);
      g_assert_cmpuint (run.setup.workspace_bytes >> 20, ==, c->expected);
      kernel_run_clear (&run);
    }
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_WORKSPACE");
}

/* A budget without room for the workspaces is met with smaller ones, and so is a limit of the device's memory. */
static void
test_budget (void)
{
  g_autoptr (GError) error = NULL;
  double losses[3];
  guint64 peaks[3];
  if (!is_emulated ())
    {
      g_test_skip ("only the emulated cuDNN can be told what its engines need");
      return;
    }
  TEST_ALLOWS_FALLBACKS ("a budget has no room for some of the engines");
  g_setenv ("ORTRAIN_FAKE_CUDNN_WORKSPACE", "16777216", TRUE);
  g_autoptr (TestModel) model = test_model_load ("cnn");
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_provider (options, "cuda");
      if (i == 1)
        ortrain_training_options_set_memory_budget (options, 12 << 20);
      if (i == 2)
        ortrain_training_options_set_device_memory_limit (options, 14 << 20);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      losses[i] = ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
      g_assert_no_error (error);
      peaks[i] = ortrain_memory_plan_get_peak_bytes (plan);
      g_assert_cmpfloat_with_epsilon (losses[i], losses[0], 1e-5);
    }
  g_assert_cmpuint (peaks[0], >, 16 << 20);
  g_assert_cmpuint (peaks[1], >, 8 << 20);
  g_assert_cmpuint (peaks[1], <=, 12 << 20);
  g_assert_cmpuint (peaks[2], <=, 14 << 20);
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_WORKSPACE");
}

/* A process of its own for each part: choices that another one has found are in files alone. */
static void
run_part (const char *part)
{
  g_setenv ("ORTRAIN_TEST_PART", part, TRUE);
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
  g_unsetenv ("ORTRAIN_TEST_PART");
}

/* Nothing is measured, and the answers of the heuristics are written. */
static void
test_first (void)
{
  const guint64 before = count ("dnn"), asked = count ("dnn-heuristics");
  const guint n_entries = test_count_entries (folder);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC, 2);
  if (ortrain_fake_cuda_is_in_use ())
    {
      g_assert_cmpuint (count ("dnn") - before, ==, 1);
      g_assert_cmpuint (count ("dnn-heuristics") - asked, ==, 1);
    }
  g_assert_cmpuint (test_count_entries (folder) - n_entries, ==, 1);
}

/* An engine that cannot be made gives way to the next one; with none left, a plain kernel computes. */
static void
test_refused (void)
{
  const guint64 dnn = count ("dnn"), plain = count ("conv-forward");
  if (!is_emulated ())
    {
      g_test_skip ("only the emulated cuDNN can be told to refuse an engine");
      return;
    }
  g_setenv ("ORTRAIN_FAKE_CUDNN_REFUSE", "1", TRUE);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, 3);
  g_assert_cmpuint (count ("dnn") - dnn, ==, 1);
  g_assert_cmpuint (count ("conv-forward"), ==, plain);
  TEST_ALLOWS_FALLBACKS ("all engines are refused on purpose");
  g_setenv ("ORTRAIN_FAKE_CUDNN_REFUSE", "9", TRUE);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, 4);
  g_assert_cmpuint (count ("dnn") - dnn, ==, 1);
  g_assert_cmpuint (count ("conv-forward") - plain, ==, 1);
  run_conv (ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, 4); /* it stays so */
  g_assert_cmpuint (count ("conv-forward") - plain, ==, 2);
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_REFUSE");
}

static void
test_search (void)
{
  const char *part = g_getenv ("ORTRAIN_TEST_PART");
  if (part != NULL)
    {
      const guint64 before = count ("dnn");
      const gboolean searches = g_str_equal (part, "searches");
      run_conv (ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, 5);
      g_assert_cmpuint (ortrain_disk_cache_get_counts ().n_stored, ==, searches ? 2 : 0);
      if (ortrain_fake_cuda_is_in_use ())
        {
          /* two engines of float32, each run four times, and the run itself */
          g_assert_cmpuint (count ("dnn") - before, ==, searches ? 9 : 1);
          g_assert_cmpuint (count ("dnn-heuristics"), ==, searches ? 1 : 0);
        }
      return;
    }
  const guint n_entries = test_count_entries (folder);
  run_part ("searches");
  run_part ("remembers");
  damage_cache (); /* no reason to stop */
  run_part ("searches");
  run_part ("remembers");
  g_assert_cmpuint (test_count_entries (folder) - n_entries, ==, 2);
}

/* One training step of a fixture: in a second process no heuristics are asked, and the loss has the same bits. */
static void
test_session (gconstpointer fixture)
{
  const char *part = g_getenv ("ORTRAIN_TEST_PART");
  g_autofree char *path = g_build_filename (folder, "loss", NULL);
  if (part != NULL)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *kept = NULL;
      g_autoptr (TestModel) model = test_model_load (fixture);
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_provider (options, "cuda");
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
      g_assert_no_error (error);
      const gboolean refuses = g_str_equal (part, "refuses"), asks = refuses || g_str_equal (part, "asks");
      const OrtrainDiskCacheCounts counts = ortrain_disk_cache_get_counts ();
      g_assert_cmpint (counts.n_stored > 0, ==, asks);
      g_assert_cmpint (counts.n_misses > 0, ==, asks && !refuses);
      if (ortrain_fake_cuda_is_in_use ())
        {
          g_assert_cmpint (count ("blas-heuristics") > 0, ==, asks);
          g_assert_cmpint (count ("dnn-heuristics") > 0, ==, asks && g_str_equal (fixture, "cnn"));
        }
      if (g_file_get_contents (path, &kept, NULL, NULL))
        g_assert_cmpmem (kept, sizeof loss, &loss, sizeof loss);
      else
        g_assert_true (g_file_set_contents (path, (const char *) &loss, sizeof loss, &error));
      return;
    }
  const gboolean emulated = is_emulated ();
  run_part ("asks");
  run_part ("remembers");
  if (emulated)
    {
      g_setenv ("ORTRAIN_FAKE_CUDA_CHOICES", "7", TRUE); /* the libraries do not know their own choices any more */
      run_part ("refuses");
      run_part ("remembers");
      g_unsetenv ("ORTRAIN_FAKE_CUDA_CHOICES");
    }
  g_autofree char *loss = NULL;
  gsize n;
  g_assert_true (g_file_get_contents (path, &loss, &n, NULL));
  damage_cache ();
  g_assert_true (g_file_set_contents (path, loss, (gssize) n, NULL));
  run_part ("asks");
  run_part ("remembers");
  g_assert_cmpint (g_remove (path), ==, 0);
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
  else
    folder = g_strdup (g_getenv ("ORTRAIN_CACHE"));
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-dnn/first", test_first);
  g_test_add_func ("/cuda-dnn/refused", test_refused);
  g_test_add_func ("/cuda-dnn/workspace", test_workspace);
  g_test_add_func ("/cuda-dnn/budget", test_budget);
  g_test_add_func ("/cuda-dnn/search", test_search);
  g_test_add_data_func ("/cuda-dnn/session/cnn", "cnn", test_session);
  g_test_add_data_func ("/cuda-dnn/session/mlp", "mlp", test_session);
  const int result = g_test_run ();
  if (g_getenv ("ORTRAIN_TEST_PART") == NULL)
    test_remove_folder (folder);
  g_free (folder);
  return result;
}
