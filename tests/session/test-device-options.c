/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "folder.h"
#include "session/fixture.h"

#include "provider/ortrain-provider-private.h"

/* Options of devices: their sources, and their effect on any device. */

#define MEGABYTE ((gsize) 1 << 20)

static void
assert_options (gpointer options, guint64 limit, OrtrainConvAlgoSearch search, gboolean tf32, guint index)
{
  guint found_index;
  guint64 found_limit;
  OrtrainConvAlgoSearch found_search;
  gboolean found_tf32;
  g_object_get (options, "device-memory-limit", &found_limit, "cudnn-conv-algo-search", &found_search, "allow-tf32",
                &found_tf32, "device-index", &found_index, NULL);
  g_assert_cmpuint (found_index, ==, index);
  g_assert_cmpuint (found_limit, ==, limit);
  g_assert_cmpint (found_search, ==, search);
  g_assert_cmpint (found_tf32, ==, tf32);
}

static gboolean
load (gpointer options, const char *path, const char *text, GError **error)
{
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return ORTRAIN_IS_SESSION_OPTIONS (options) ? ortrain_session_options_load_file (options, path, error)
                                              : ortrain_training_options_load_file (options, path, error);
}

static void
test_options (gconstpointer data)
{
  const GType type = g_str_equal (data, "training") ? ORTRAIN_TYPE_TRAINING_OPTIONS : ORTRAIN_TYPE_SESSION_OPTIONS;
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) plain = g_object_new (type, NULL);
  assert_options (plain, 0, ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC, FALSE, 0);

  g_setenv ("ORTRAIN_DEVICE_MEMORY_LIMIT", "6000000000", TRUE);
  g_setenv ("ORTRAIN_CUDNN_CONV_ALGO_SEARCH", "exhaustive", TRUE);
  g_setenv ("ORTRAIN_ALLOW_TF32", "on", TRUE);
  g_setenv ("ORTRAIN_DEVICE_INDEX", "3", TRUE);
  g_autoptr (GObject) options = g_object_new (type, NULL);
  g_unsetenv ("ORTRAIN_DEVICE_MEMORY_LIMIT");
  g_unsetenv ("ORTRAIN_CUDNN_CONV_ALGO_SEARCH");
  g_unsetenv ("ORTRAIN_ALLOW_TF32");
  g_unsetenv ("ORTRAIN_DEVICE_INDEX");
  assert_options (options, 6000000000, ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, TRUE, 3);

  g_autofree char *folder = g_dir_make_tmp ("ortrain-options-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "options.json", NULL);
  g_assert_true (
      load (options, path, "{ \"device_memory_limit\": 7000000000, \"cudnn_conv_algo_search\": \"default\" }", &error));
  g_assert_no_error (error);
  assert_options (options, 7000000000, ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, TRUE, 3);
  g_assert_true (load (options, path, "{ \"allow-tf32\": false, \"device_index\": 1 }", &error));
  g_assert_no_error (error);
  static const char *const wrong[] = { "{ \"device_memory_limit\": -1 }",
                                       "{ \"device_memory_limit\": \"4 GiB\" }",
                                       "{ \"cudnn_conv_algo_search\": \"fastest\" }",
                                       "{ \"allow_tf32\": 1 }",
                                       "{ \"device_index\": -1 }",
                                       "{ \"device_index\": \"first\" }",
                                       "{ \"device_index\": 4096 }" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_false (load (options, path, wrong[i], &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_clear_error (&error);
      assert_options (options, 7000000000, ORTRAIN_CONV_ALGO_SEARCH_DEFAULT, FALSE, 1);
    }
  test_remove_folder (folder);
}

/* Freed memory may be allocated again; the host's memory counts for nothing. */
static void
test_memory_limit (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1, .memory_limit = 3 * MEGABYTE };
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open (g_getenv ("ORTRAIN_PROVIDER"), &options, &error);
  g_assert_no_error (error);
  for (guint round = 0; round < 3; round++)
    {
      gpointer first = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, 2 * MEGABYTE, &error);
      gpointer rest = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, MEGABYTE, &error);
      gpointer host = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, 4 * MEGABYTE, &error);
      g_assert_no_error (error);
      g_assert_true (first != NULL && rest != NULL && host != NULL);
      ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_DEVICE, rest, MEGABYTE);
      ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, host, 4 * MEGABYTE);
      g_assert_null (ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, MEGABYTE + 1, &error));
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
      g_assert_nonnull (strstr (error->message, "Cannot allocate 1048577 bytes"));
      g_assert_nonnull (
          strstr (error->message, "'device-memory-limit' allows 3145728 bytes, and 2097152 are allocated"));
      g_clear_error (&error);
      ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_DEVICE, first, 2 * MEGABYTE);
    }
}

/* A limit that is too small is an error, whatever did not fit; another changes nothing. */
static void
test_sessions (void)
{
  TEST_ALLOWS_FALLBACKS ("a small limit has no room for a workspace of cuDNN");
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTensorDict) want = NULL;
  guint n_failed = 0;
  for (guint64 limit = 0; limit <= (guint64) 1 << 40; limit = limit == 0 ? 16 : limit * 2)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_device_memory_limit (options, limit);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_autoptr (OrtrainTensorDict) state = NULL;
      if (session != NULL &&
          !isnan (ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error)) &&
          ortrain_training_session_optimizer_step (session, &error))
        state = ortrain_training_session_get_state (session, &error);
      if (state == NULL)
        {
          g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
          g_assert_nonnull (strstr (error->message, "'device-memory-limit' allows "));
          g_assert_cmpuint (limit, !=, 0);
          n_failed++;
          continue;
        }
      if (want != NULL)
        test_assert_same_bits (state, want);
      else
        want = g_steal_pointer (&state);
    }
  g_assert_cmpuint (n_failed, >=, 6); /* from 16 bytes to those of the parameters at least */
  g_assert_cmpuint (n_failed, <, 30);
}

static void
test_inference (void)
{
  TEST_ALLOWS_FALLBACKS ("a small limit has no room for a workspace of cuDNN");
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
      ortrain_session_options_set_device_memory_limit (options, k == 0 ? 4096 : 1 << 30);
      g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model->model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, model->inputs->pdata[0], &error);
      g_assert_true ((outputs != NULL) == (k == 1));
      if (k == 0)
        g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
      g_clear_error (&error);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/device-options/training", "training", test_options);
  g_test_add_data_func ("/device-options/inference", "inference", test_options);
  g_test_add_func ("/device-options/memory-limit", test_memory_limit);
  g_test_add_func ("/device-options/sessions", test_sessions);
  g_test_add_func ("/device-options/inference-limit", test_inference);
  return g_test_run ();
}
