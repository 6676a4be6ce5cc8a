/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "folder.h"
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "cuda/ortrain-cuda-library-private.h"

#include <dlfcn.h>

/* Failures of a GPU, on the emulated one: memory that does not suffice, a device that is lost in the middle of a step,
 * libraries that are missing or of another version, calls that cannot be captured. */

static const OrtrainLibraryFunctions functions = {
  .device_error_quark = ortrain_device_error_quark,
  .plan_error_quark = ortrain_plan_error_quark,
};
const OrtrainLibraryFunctions *ortrain_cuda_library = &functions;

/* ---- memory ---- */

static OrtrainTrainingSession *
make_session (TestModel *model, const char *provider, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, provider);
  return ortrain_training_session_new (model->model, options, error);
}

static double
step (OrtrainTrainingSession *session, TestModel *model, guint s, GError **error)
{
  const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, s), error);
  return !isnan (loss) && ortrain_training_session_optimizer_step (session, error) ? loss : NAN;
}

static void
assert_near (double loss, double want)
{
  g_assert_cmpfloat_with_epsilon (loss, want, 1e-5 * fabs (want));
}

/* Every allocation fails in turn, and all after it. The error names the allocation that failed and the bytes that are
 * available; the session, where there is one, trains as if nothing had happened when there is memory again. */
static void
test_allocations (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) cpu = make_session (model, "cpu", &error);
  const double want = step (cpu, model, 0, &error);
  guint n_without = 0, n_with = 0, n_parameters = 0, n_arenas = 0;
  g_assert_no_error (error);
  for (guint n = 1;; n++)
    {
      g_autofree char *number = g_strdup_printf ("%u", n);
      g_assert_cmpuint (n, <, 1000);
      g_setenv ("ORTRAIN_FAKE_CUDA_FAIL", number, TRUE);
      g_autoptr (OrtrainTrainingSession) session = make_session (model, "cuda", &error);
      const double loss = session != NULL ? step (session, model, 0, &error) : NAN;
      g_unsetenv ("ORTRAIN_FAKE_CUDA_FAIL");
      if (!isnan (loss))
        {
          g_assert_no_error (error);
          assert_near (loss, want);
          break;
        }
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
      g_assert_nonnull (strstr (error->message, "Cannot allocate "));
      g_assert_nonnull (strstr (error->message, " bytes of the device 'emulated on the host' are available"));
      n_parameters += g_str_has_prefix (error->message, "Parameters (");
      n_arenas += g_str_has_prefix (error->message, "The arena of a step: ");
      g_clear_error (&error);
      *(session != NULL ? &n_with : &n_without) += 1;
      if (session != NULL)
        {
          assert_near (step (session, model, 0, &error), want);
          g_assert_no_error (error);
        }
    }
  g_test_message ("%u allocations fail without a session, %u with one", n_without, n_with);
  g_assert_cmpuint (n_without, >=, 1);
  g_assert_cmpuint (n_with, >=, 2);
  g_assert_cmpuint (n_parameters, ==, 1);
  g_assert_cmpuint (n_arenas, ==, 1);
}

/* A device that is too small: the error gives the bytes that are needed, by kind, and those that are available. */
static void
test_small_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) cpu = make_session (model, "cpu", &error);
  const double want = step (cpu, model, 0, &error);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "cuda", &error);
  g_assert_no_error (error);
  g_setenv ("ORTRAIN_FAKE_CUDA_MEMORY", "8192", TRUE);
  g_assert_true (isnan (step (session, model, 0, &error)));
  g_unsetenv ("ORTRAIN_FAKE_CUDA_MEMORY");
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  g_assert_true (g_str_has_prefix (error->message, "Parameters ("));
  g_assert_nonnull (strstr (error->message, "gradients ("));
  g_assert_nonnull (strstr (error->message, "; 0 of 8192 bytes of the device"));
  g_clear_error (&error);
  assert_near (step (session, model, 0, &error), want);
  g_assert_no_error (error);
}

/* ---- a lost device ---- */

#define NAMED_STEP "'.*': The device 'cuda' failed at step [0-9]+: cudaErrorLaunchFailure"

/* In a process of its own: the device stays lost. */
static void
lose_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "cuda", &error);
  for (guint s = 0; session != NULL && error == NULL && s < 1000; s++)
    step (session, model, s % model->feeds->len, &error);
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "The device 'cuda' failed at "));
  if (g_getenv ("ORTRAIN_CUDA_BLOCKING") != NULL)
    g_assert_true (g_regex_match_simple (NAMED_STEP, error->message, 0, 0));
  else
    g_assert_true (strstr (error->message, "cudaErrorLaunchFailure") == NULL ||
                   strstr (error->message, "ORTRAIN_CUDA_BLOCKING=1") != NULL);
  g_clear_error (&error);
  if (session != NULL)
    {
      g_assert_true (isnan (step (session, model, 0, &error)));
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED);
      g_clear_error (&error);
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      g_assert_null (state);
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED);
      g_clear_error (&error);
    }
  g_autoptr (OrtrainTrainingSession) next = make_session (model, "cuda", &error);
  g_assert_null (next);
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED);
  g_clear_error (&error);
  g_autoptr (OrtrainTrainingSession) cpu = make_session (model, "cpu", &error);
  g_assert_false (isnan (step (cpu, model, 0, &error)));
  g_assert_no_error (error);
}

/* A loss is seen by the call that waits, or by any one that is submitted after it, those of the libraries too. */
static void
test_lost (gconstpointer data)
{
  const char *setting = data;
  static const char *const numbers[] = { "1", "2", "3", "7", "20", "55", "150", "400", "1000" };
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_setenv (setting, numbers[i], TRUE);
      g_test_trap_subprocess ("/cuda-errors/lost/subprocess", 60 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_unsetenv (setting);
      g_test_trap_assert_passed ();
    }
}

/* With a wait after each call, the error names the node and the step where it comes from a kernel: most operations on a
 * device are kernels, the rest are copies between steps. */
static void
test_blocking (void)
{
  guint n_named = 0;
  g_setenv ("ORTRAIN_CUDA_BLOCKING", "1", TRUE);
  for (guint i = 0; i < 8; i++)
    {
      g_autofree char *number = g_strdup_printf ("%u", 300 + 7 * i);
      g_setenv ("ORTRAIN_FAKE_CUDA_LOST", number, TRUE);
      g_test_trap_subprocess ("/cuda-errors/lost/subprocess", 60 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_DEFAULT);
      n_named += g_test_trap_has_passed ();
    }
  g_unsetenv ("ORTRAIN_FAKE_CUDA_LOST");
  g_unsetenv ("ORTRAIN_CUDA_BLOCKING");
  g_assert_cmpuint (n_named, >=, 4);
}

/* ---- several devices ---- */

/* A thread that has chosen another device for something else trains on the first one, and finds its choice again. */
static void
test_other_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  int device = -1;
  g_setenv ("ORTRAIN_FAKE_CUDA_DEVICES", "2", TRUE);
  g_assert_cmpint (cudaSetDevice (1), ==, cudaSuccess);
  {
    g_autoptr (OrtrainTrainingSession) session = make_session (model, "cuda", &error),
                                       cpu = make_session (model, "cpu", &error);
    g_assert_no_error (error);
    for (guint s = 0; s < 4; s++)
      {
        const double loss = step (session, model, s, &error), want = step (cpu, model, s, &error);
        g_assert_no_error (error);
        assert_near (loss, want);
        g_assert_cmpint (cudaGetDevice (&device), ==, cudaSuccess);
        g_assert_cmpint (device, ==, 1);
      }
  }
  g_assert_cmpint (cudaSetDevice (0), ==, cudaSuccess);
  g_unsetenv ("ORTRAIN_FAKE_CUDA_DEVICES");
}

/* ---- captures ---- */

typedef struct
{
  OrtrainProvider *provider;
  gpointer device, host;
  gsize n_bytes;
} CopyCall;

static void
run_copy (const OrtrainKernelCall *call)
{
  const CopyCall *copy = call->constants;
  g_autoptr (GError) error = NULL;
  copy->provider->klass->copy (copy->provider, call->context->stream, copy->device, copy->host, copy->n_bytes, &error);
}

/* Calls that copy from the host's ordinary memory cannot be a graph: they run each time instead, and read it each
 * time. */
static void
test_capture (gconstpointer data)
{
  TEST_ALLOWS_FALLBACKS ("a copy from ordinary memory is no graph");
  const gboolean is_pinned = g_str_equal (data, "page-locked");
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  const OrtrainProviderClass *klass = provider->klass;
  float ordinary[4] = { 1, 2, 3, 4 }, found[4];
  gpointer pinned = klass->allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, sizeof ordinary, &error);
  CopyCall copy = { provider, klass->allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, sizeof ordinary, &error),
                    is_pinned ? pinned : ordinary, sizeof ordinary };
  OrtrainStream *stream = NULL;
  g_assert_true (klass->new_stream (provider, &stream, &error));
  OrtrainKernelContext context = { .stream = stream };
  const OrtrainKernelCall call = { .run = run_copy, .constants = &copy, .context = &context };
  const guint64 n_before = ortrain_fake_cuda_get_counts ().n_captures;
  OrtrainCapture *capture = klass->capture (provider, stream, &call, 1, &error);
  g_assert_no_error (error);
  g_assert_nonnull (capture);
  g_assert_cmpuint (ortrain_fake_cuda_get_counts ().n_captures - n_before, ==, is_pinned ? 1 : 0);
  for (guint round = 0; round < 3; round++)
    {
      ordinary[0] = (float) round;
      memcpy (pinned, ordinary, sizeof ordinary);
      g_assert_true (klass->launch (provider, stream, capture, &error));
      g_assert_true (klass->copy (provider, stream, found, copy.device, sizeof found, &error));
      g_assert_true (klass->wait (provider, stream, &error));
      g_assert_no_error (error);
      g_assert_cmpmem (found, sizeof found, ordinary, sizeof ordinary);
    }
  klass->free_capture (provider, capture);
  klass->free_stream (provider, stream);
  klass->free (provider, ORTRAIN_MEMORY_SPACE_DEVICE, copy.device, sizeof ordinary);
  klass->free (provider, ORTRAIN_MEMORY_SPACE_HOST, pinned, sizeof ordinary);
}

/* ---- libraries ---- */

static const char *const files[] = { "libcublasLt.so.13", "libcudnn.so.9" };

/* A folder with copies of the emulated libraries, under other names if need be; NULL: none. */
static void
put_library (const char *folder, const char *below, const char *name, const char *original)
{
  g_autofree char *parent = g_build_filename (folder, below, NULL);
  g_autofree char *target = g_build_filename (parent, name, NULL);
  g_autofree char *source = g_build_filename (g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH"), original, NULL);
  g_autoptr (GFile) from = g_file_new_for_path (source), to = g_file_new_for_path (target);
  g_autoptr (GError) error = NULL;
  g_assert_cmpint (g_mkdir_with_parents (parent, 0700), ==, 0);
  g_assert_true (g_file_copy (from, to, G_FILE_COPY_NONE, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
}

/* Runs a test in a process of its own, which looks for libraries there. */
static void
run_with_libraries (const char *path, const char *test)
{
  TEST_ALLOWS_FALLBACKS ("libraries are missing on purpose");
  g_autofree char *before = g_strdup (g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH"));
  g_setenv ("ORTRAIN_CUDA_LIBRARY_PATH", path, TRUE);
  g_test_trap_subprocess (test, 60 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_setenv ("ORTRAIN_CUDA_LIBRARY_PATH", before, TRUE);
  g_test_trap_assert_passed ();
}

static void
train_with_libraries (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) session = make_session (model, "cuda", &error),
                                     cpu = make_session (model, "cpu", &error);
  g_assert_no_error (error);
  assert_near (step (session, model, 0, &error), step (cpu, model, 0, &error));
  g_assert_no_error (error);
}

static void
train_from_packages (void)
{
  g_autofree char *maps = NULL;
  g_auto (GStrv) folders = g_strsplit (g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH"), ":", -1);
  train_with_libraries ();
  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  g_autofree char *cublas = g_build_filename (folders[1], "nvidia", "cublas", "lib", files[0], NULL);
  g_autofree char *cudnn = g_build_filename (folders[1], "nvidia", "cudnn", "lib", files[1], NULL);
  g_assert_nonnull (strstr (maps, cublas));
  g_assert_nonnull (strstr (maps, cudnn));
}

/* As pip lays out NVIDIA's packages; a folder before it that has none is passed over. */
static void
test_packages (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-packages-XXXXXX", NULL);
  g_autofree char *path = g_strdup_printf ("%s/none:%s", folder, folder);
  put_library (folder, "nvidia/cublas/lib", files[0], files[0]);
  put_library (folder, "nvidia/cudnn/lib", files[1], files[1]);
  run_with_libraries (path, "/cuda-errors/packages/subprocess");
  test_remove_folder (folder);
}

static void
find_reason (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_autoptr (OrtrainDevice) device = NULL;
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) item = g_list_model_get_item (devices, i);
      if (g_str_equal (ortrain_device_get_name (item), "cuda"))
        device = g_steal_pointer (&item);
    }
  g_assert_nonnull (device);
  g_assert_cmpstr (ortrain_device_get_reason (device), ==, g_getenv ("ORTRAIN_TEST_REASON"));
  g_assert_cmpuint (ortrain_device_get_total_memory (device), ==, 0);
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_assert_null (make_session (model, "cuda", &error));
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE);
  g_autofree char *message =
      g_strdup_printf ("The provider 'cuda' cannot be used: %s", g_getenv ("ORTRAIN_TEST_REASON"));
  g_assert_cmpstr (error->message, ==, message);
}

/* Another library under the name of cuBLASLt. */
static void
test_without_function (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-packages-XXXXXX", NULL);
  put_library (folder, ".", files[0], files[1]);
  g_setenv ("ORTRAIN_TEST_REASON", "libcublasLt.so.13 has no function cublasLtCreate: it is of another version", TRUE);
  run_with_libraries (folder, "/cuda-errors/reason/subprocess");
  test_remove_folder (folder);
}

static void
test_no_device (void)
{
  g_setenv ("ORTRAIN_FAKE_CUDA_NONE", "1", TRUE);
  g_setenv ("ORTRAIN_TEST_REASON", "There is no NVIDIA GPU", TRUE);
  run_with_libraries (g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH"), "/cuda-errors/reason/subprocess");
  g_unsetenv ("ORTRAIN_FAKE_CUDA_NONE");
}

/* Convolutions do without cuDNN. */
static void
test_without_cudnn (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-packages-XXXXXX", NULL);
  put_library (folder, ".", files[0], files[0]);
  put_library (folder, ".", files[1], files[0]);
  run_with_libraries (folder, "/cuda-errors/without-cudnn/subprocess");
  test_remove_folder (folder);
}

void *__real_dlopen (const char *name, int flags);
void *__wrap_dlopen (const char *name, int flags);

/* This machine may have NVIDIA's libraries: they are not found by their names alone. */
void *
__wrap_dlopen (const char *name, int flags)
{
  g_autofree char *absent = name != NULL && strchr (name, '/') == NULL ? g_strconcat ("absent-", name, NULL) : NULL;
  return __real_dlopen (absent != NULL ? absent : name, flags);
}

static void
test_missing (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *before = g_strdup (g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH"));
  g_unsetenv ("ORTRAIN_CUDA_LIBRARY_PATH");
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree char *opening = g_strdup_printf ("Cannot open %s: ", files[i]);
      g_assert_true (
          (i == 0 ? (gconstpointer) ortrain_cuda_open_cublaslt (&error) : ortrain_cuda_open_cudnn (&error)) == NULL);
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE);
      g_assert_true (g_str_has_prefix (error->message, opening));
      g_assert_nonnull (strstr (error->message, "cannot open shared object file"));
      g_assert_nonnull (
          strstr (error->message, "set ORTRAIN_CUDA_LIBRARY_PATH to its folder, or to the site-packages that hold it"));
      g_clear_error (&error);
    }
  /* the variable is read again */
  g_setenv ("ORTRAIN_CUDA_LIBRARY_PATH", before, TRUE);
  g_assert_nonnull (ortrain_cuda_open_cublaslt (&error));
  g_assert_nonnull (ortrain_cuda_open_cudnn (&error));
  g_assert_no_error (error);
}

/* Where a library is missing, its place in the text says why; the others keep their places. */
static void
describe_libraries (void)
{
  g_autofree char *text = ortrain_cuda_describe_libraries ();
  g_assert_cmpstr (text, ==, g_getenv ("ORTRAIN_TEST_LIBRARIES"));
}

static void
test_versions (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-packages-XXXXXX", NULL);
  g_setenv ("ORTRAIN_TEST_LIBRARIES", "cuBLASLt 13.1.0, cuDNN 9.19.0, NCCL 2.27.3", TRUE);
  run_with_libraries (g_getenv ("ORTRAIN_CUDA_LIBRARY_PATH"), "/cuda-errors/versions/subprocess");
  put_library (folder, ".", files[0], files[0]);
  put_library (folder, ".", files[1], files[1]);
  put_library (folder, ".", "libnccl.so.2", files[0]);
  g_setenv ("ORTRAIN_TEST_LIBRARIES",
            "cuBLASLt 13.1.0, cuDNN 9.19.0, NCCL is missing (libnccl.so.2 has no function ncclGetVersion: it is of "
            "another version)",
            TRUE);
  run_with_libraries (folder, "/cuda-errors/versions/subprocess");
  g_unsetenv ("ORTRAIN_TEST_LIBRARIES");
  test_remove_folder (folder);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-errors/allocations", test_allocations);
  g_test_add_func ("/cuda-errors/small-device", test_small_device);
  g_test_add_func ("/cuda-errors/other-device", test_other_device);
  g_test_add_data_func ("/cuda-errors/lost/running", "ORTRAIN_FAKE_CUDA_LOST", test_lost);
  g_test_add_data_func ("/cuda-errors/lost/submitting", "ORTRAIN_FAKE_CUDA_LOST_SUBMITTING", test_lost);
  g_test_add_func ("/cuda-errors/lost/blocking", test_blocking);
  g_test_add_func ("/cuda-errors/lost/subprocess", lose_device);
  g_test_add_data_func ("/cuda-errors/capture/page-locked", "page-locked", test_capture);
  g_test_add_data_func ("/cuda-errors/capture/ordinary", "ordinary", test_capture);
  g_test_add_func ("/cuda-errors/packages", test_packages);
  g_test_add_func ("/cuda-errors/packages/subprocess", train_from_packages);
  g_test_add_func ("/cuda-errors/without-function", test_without_function);
  g_test_add_func ("/cuda-errors/no-device", test_no_device);
  g_test_add_func ("/cuda-errors/reason/subprocess", find_reason);
  g_test_add_func ("/cuda-errors/without-cudnn", test_without_cudnn);
  g_test_add_func ("/cuda-errors/without-cudnn/subprocess", train_with_libraries);
  g_test_add_func ("/cuda-errors/versions", test_versions);
  g_test_add_func ("/cuda-errors/versions/subprocess", describe_libraries);
  g_test_add_func ("/cuda-errors/missing", test_missing);
  return g_test_run ();
}
