/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"
#include "provider/ortrain-provider-private.h"

/* How the provider tells the way that it took, on a device as in emulation: results are the same if a slower kernel has
 * taken the place of a library. */

static guint64
count (const char *name)
{
  return ortrain_counters_get ("cuda", name);
}

static OrtrainTrainingSession *
make_session (TestModel *model, OrtrainPrecision precision, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "cuda");
  ortrain_training_options_set_precision (options, precision);
  return ortrain_training_session_new (model->model, options, error);
}

static gboolean
train (const char *fixture, OrtrainPrecision precision, guint n_steps, GError **error)
{
  g_autoptr (TestModel) model = test_model_load (fixture);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, precision, error);
  for (guint s = 0; session != NULL && s < n_steps; s++)
    if (isnan (ortrain_training_session_train_step (session, test_model_feeds (model, 0), error)) ||
        !ortrain_training_session_optimizer_step (session, error))
      return FALSE;
  return session != NULL;
}

/* Every operation that is for a library goes to it, products with the operations that follow in the same call, and
 * steps are graphs. */
static void
test_fast (gconstpointer fixture)
{
  static const char *const refused[] = { "dnn-fallbacks", "product-fallbacks", "uncaptured-segments" };
  const gboolean convolves = g_str_equal (fixture, "cnn");
  g_autoptr (GError) error = NULL;
  const guint64 runs = count ("dnn-runs"), fused = count ("products-fused"), captures = count ("captures");
  guint64 before[G_N_ELEMENTS (refused)];
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    before[i] = count (refused[i]);
  TEST_ALLOWS_FALLBACKS ("none is wanted: strict mode is set here for the training alone");
  g_setenv ("ORTRAIN_CUDA_STRICT", "1", TRUE);
  train (fixture, convolves ? ORTRAIN_PRECISION_F32 : ORTRAIN_PRECISION_BF16, 4, &error);
  g_unsetenv ("ORTRAIN_CUDA_STRICT");
  g_assert_no_error (error);
  g_assert_cmpint (count ("dnn-runs") > runs, ==, convolves); /* the heads of gpt2 are too narrow for cuDNN */
  g_assert_cmpuint (count ("products-fused"), >, fused);
  g_assert_cmpuint (count ("captures"), >, captures);
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    g_assert_cmpuint (count (refused[i]), ==, before[i]);
}

typedef struct
{
  const char *path, *setting, *value, *fixture, *counter;
  const char *library, *node; /* in the message */
} Refusal;

static const Refusal refusals[] = {
  { "/cuda-counters/refused/sums", "ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS", "1", "mlp", "product-fallbacks", "cuBLASLt",
    "LinearGrad" },
  { "/cuda-counters/refused/gelu", "ORTRAIN_FAKE_CUBLASLT_WITHOUT_GELU", "1", "gpt2", "product-fallbacks", "cuBLASLt",
    "LinearGelu" },
  { "/cuda-counters/refused/engines", "ORTRAIN_FAKE_CUDNN_REFUSE", "9", "cnn", "dnn-fallbacks", "cuDNN", "Conv" },
};

/* In a process of its own: plans of cuDNN's are kept, also those that were refused. */
static void
test_refused_in_process (gconstpointer data)
{
  const Refusal *r = data;
  const gboolean is_strict = g_getenv ("ORTRAIN_CUDA_STRICT") != NULL;
  g_autoptr (GError) error = NULL;
  const gboolean trained = train (r->fixture, ORTRAIN_PRECISION_F32, 3, &error);
  g_assert_cmpuint (count (r->counter), >, 0);
  if (!is_strict)
    {
      g_assert_no_error (error);
      return;
    }
  g_assert_false (trained);
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, r->library));
  g_assert_nonnull (strstr (error->message, r->node));
  g_assert_nonnull (strstr (error->message, "ORTRAIN_CUDA_STRICT"));
}

/* A call that a library refuses is counted and computed in another way; a strict provider fails with an error
 * instead. */
static void
test_refused (gconstpointer data)
{
  const Refusal *r = data;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  if (g_test_subprocess ())
    {
      test_refused_in_process (r);
      return;
    }
  g_autoptr (OrtrainProvider) provider G_GNUC_UNUSED = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("only the emulated libraries can be told to refuse an operation");
      return;
    }
  TEST_ALLOWS_FALLBACKS ("the libraries refuse on purpose, and strict mode is set here");
  g_setenv (r->setting, r->value, TRUE);
  for (guint strict = 0; strict < 2; strict++)
    {
      if (strict)
        g_setenv ("ORTRAIN_CUDA_STRICT", "1", TRUE);
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
    }
  g_unsetenv ("ORTRAIN_CUDA_STRICT");
  g_unsetenv (r->setting);
}

/* A profiler sees the calls of one step. */
static void
test_profiler (void)
{
  g_autoptr (GError) error = NULL;
  g_setenv ("ORTRAIN_CUDA_PROFILE_STEP", "1", TRUE);
  train ("mlp", ORTRAIN_PRECISION_F32, 4, &error);
  g_unsetenv ("ORTRAIN_CUDA_PROFILE_STEP");
  g_assert_no_error (error);
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  g_assert_cmpuint (ortrain_fake_cuda_count_launches ("profiler-start"), >=, 4);
  g_assert_cmpuint (ortrain_fake_cuda_count_launches ("profiler-stop"), ==,
                    ortrain_fake_cuda_count_launches ("profiler-start"));
}

/* ---- graphs ---- */

static void
run_copy (const OrtrainKernelCall *call)
{
  static const float ordinary[4] = { 1, 2, 3, 4 };
  OrtrainProvider *provider = (OrtrainProvider *) call->constants;
  g_autoptr (GError) error = NULL;
  provider->klass->copy (provider, call->context->stream, call->outputs[0], ordinary, sizeof ordinary, &error);
}

/* CUDA would capture a copy from ordinary memory, and read it at each launch: such calls are submitted each time. */
static void
test_uncaptured (void)
{
  TEST_ALLOWS_FALLBACKS ("a range that is no graph, and strict mode is set here");
  for (guint strict = 0; strict < 2; strict++)
    {
      const OrtrainProviderOptions options = { .n_threads = 1 };
      g_autoptr (GError) error = NULL;
      OrtrainStream *stream = NULL;
      if (strict)
        g_setenv ("ORTRAIN_CUDA_STRICT", "1", TRUE);
      g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cuda", &options, &error);
      g_assert_no_error (error);
      const OrtrainProviderClass *klass = provider->klass;
      void *outputs[] = { klass->allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, 16, &error) };
      g_assert_true (klass->new_stream (provider, &stream, &error));
      const OrtrainKernelContext context = { .stream = stream };
      const OrtrainKernelCall call = {
        .run = run_copy, .constants = provider, .outputs = outputs, .n_outputs = 1, .plan_step = 7, .context = &context
      };
      const guint64 before = count ("uncaptured-segments"), captures = count ("captures");
      OrtrainCapture *capture = klass->capture (provider, stream, &call, 1, &error);
      g_unsetenv ("ORTRAIN_CUDA_STRICT");
      g_assert_cmpuint (count ("uncaptured-segments") - before, ==, 1);
      g_assert_cmpuint (count ("captures"), ==, captures);
      if (strict)
        {
          g_assert_null (capture);
          g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED);
          g_assert_nonnull (strstr (error->message, "CUDA graph"));
          g_assert_nonnull (strstr (error->message, "step 7"));
        }
      else
        {
          g_assert_no_error (error);
          g_assert_true (klass->launch (provider, stream, capture, &error));
          klass->free_capture (provider, capture);
        }
      g_assert_true (klass->wait (provider, stream, NULL));
      klass->free_stream (provider, stream);
      klass->free (provider, ORTRAIN_MEMORY_SPACE_DEVICE, outputs[0], 16);
    }
}

/* ---- rows of products ---- */

/* Transformers with odd numbers of classes: matrices that nobody else sees have rows that libraries are fast with. */
static void
test_aligned (gconstpointer fixture)
{
  g_autoptr (GError) error = NULL;
  const guint64 planned = count ("products-unaligned");
  const guint64 run = ortrain_fake_cuda_count_launches ("product-unaligned");
  train (fixture, ORTRAIN_PRECISION_F32, 1, &error);
  g_assert_no_error (error);
  train (fixture, ORTRAIN_PRECISION_BF16, 1, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count ("products-unaligned"), ==, planned);
  g_assert_cmpuint (ortrain_fake_cuda_count_launches ("product-unaligned"), ==, run);
}

/* ---- for programs ---- */

static void
test_list (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  guint n_counters = 0;
  g_autoptr (GError) error = NULL;
  g_assert_true (train ("mlp", ORTRAIN_PRECISION_F32, 1, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      g_autoptr (GVariant) counters = ortrain_device_get_counters (device);
      const gboolean is_cuda = g_str_equal (ortrain_device_get_name (device), "cuda");
      guint64 n = 0;
      g_assert_true (g_variant_is_of_type (counters, G_VARIANT_TYPE ("a{st}")));
      if (is_cuda)
        {
          g_assert_true (g_variant_lookup (counters, "products-fused", "t", &n));
          g_assert_cmpuint (n, ==, count ("products-fused"));
          g_assert_cmpuint (n, >, 0);
          n_counters++;
        }
      else
        g_assert_cmpuint (g_variant_n_children (counters), ==, 0);
    }
  g_assert_cmpuint (n_counters, ==, 1);
}

int
main (int argc, char *argv[])
{
  static const char *const transformers[] = { "gpt2", "bert", "vit", "distilbert" };
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-counters/fast/cnn", "cnn", test_fast);
  g_test_add_data_func ("/cuda-counters/fast/gpt2", "gpt2", test_fast);
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    g_test_add_data_func (refusals[i].path, &refusals[i], test_refused);
  g_test_add_func ("/cuda-counters/uncaptured", test_uncaptured);
  for (guint i = 0; i < G_N_ELEMENTS (transformers); i++)
    {
      g_autofree char *path = g_strconcat ("/cuda-counters/aligned/", transformers[i], NULL);
      g_test_add_data_func (path, transformers[i], test_aligned);
    }
  g_test_add_func ("/cuda-counters/list", test_list);
  g_test_add_func ("/cuda-counters/profiler", test_profiler);
  return g_test_run ();
}
