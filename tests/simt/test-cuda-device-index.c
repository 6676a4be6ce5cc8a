/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"
#include "provider/ortrain-provider-private.h"

/* Several devices: two emulated ones, on which whatever belongs to the other one is an error. */

#define N_DEVICES 2
#define N_STEPS 4

/* FALSE: on a machine, which may have one device alone. */
static gboolean
has_devices (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) provider G_GNUC_UNUSED = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  if (ortrain_fake_cuda_is_in_use ())
    return TRUE;
  g_test_skip ("on a device");
  return FALSE;
}

static void
assert_nothing_foreign (void)
{
  g_assert_cmpuint (ortrain_fake_cuda_get_counts ().n_foreign, ==, 0);
}

/* ---- training ---- */

typedef struct
{
  const char *model, *provider;
  guint index;
  OrtrainPrecision precision;
  double losses[N_STEPS];
  OrtrainTensorDict *state;
  int device_after; /* the thread's own */
} Training;

/* As a thread has it that has never heard of devices: the runtime's first one is its own, before and after. */
static gpointer
train (gpointer data)
{
  Training *self = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (self->model);
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, self->provider);
  ortrain_training_options_set_device_index (options, self->index);
  ortrain_training_options_set_precision (options, self->precision);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  for (guint s = 0; s < N_STEPS && error == NULL; s++)
    {
      self->losses[s] = ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
      if (error == NULL)
        ortrain_training_session_optimizer_step (session, &error);
    }
  if (error == NULL)
    self->state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  g_assert_cmpint (cudaGetDevice (&self->device_after), ==, cudaSuccess);
  return NULL;
}

static void
assert_same (const Training *a, const Training *b)
{
  for (guint s = 0; s < N_STEPS; s++)
    g_assert_cmpfloat (a->losses[s], ==, b->losses[s]);
  test_assert_same_bits (a->state, b->state);
}

/* Two sessions at once, each on its device, twice: products, convolutions and attention have plans of their own there,
 * which the second round finds. */
static void
test_sessions (gconstpointer data)
{
  const gboolean is_half = g_str_has_suffix (data, ".bf16");
  g_autofree char *name = g_strndup (data, strcspn (data, "."));
  if (!has_devices ())
    return;
  const guint64 n_runs = ortrain_counters_get ("cuda:1", "captures");
  Training alone = { name, "cuda", 0, is_half ? ORTRAIN_PRECISION_BF16 : ORTRAIN_PRECISION_F32, { 0 }, NULL, -1 };
  train (&alone);
  for (guint round = 0; round < 2; round++)
    {
      GThread *threads[N_DEVICES];
      Training trainings[N_DEVICES];
      for (guint i = 0; i < N_DEVICES; i++)
        {
          trainings[i] =
              (Training){ name, i == 1 && round == 1 ? "cuda:1" : "cuda", i, alone.precision, { 0 }, NULL, -1 };
          threads[i] = g_thread_new ("training", train, &trainings[i]);
        }
      for (guint i = 0; i < N_DEVICES; i++)
        {
          g_thread_join (threads[i]);
          assert_same (&trainings[i], &alone);
          g_assert_cmpint (trainings[i].device_after, ==, 0);
          g_object_unref (trainings[i].state);
        }
    }
  g_assert_cmpuint (ortrain_counters_get ("cuda:1", "captures"), >, n_runs);
  assert_nothing_foreign ();
  g_object_unref (alone.state);
}

/* A session that one thread makes, another one uses, and a third one frees; the thread's own device is another one. */
static gpointer
step_elsewhere (gpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  int device = -1;
  g_assert_cmpint (cudaSetDevice (0), ==, cudaSuccess);
  g_assert_false (isnan (ortrain_training_session_train_step (data, test_model_feeds (model, 0), &error)));
  g_assert_true (ortrain_training_session_optimizer_step (data, &error));
  g_assert_no_error (error);
  g_assert_cmpint (cudaGetDevice (&device), ==, cudaSuccess);
  g_assert_cmpint (device, ==, 0);
  return NULL;
}

static gpointer
free_elsewhere (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

static void
test_threads (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  if (!has_devices ())
    return;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  g_object_set (options, "provider", "cuda", "device-index", 1, NULL);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 4; i++)
    g_thread_join (g_thread_new ("step", step_elsewhere, session));
  g_thread_join (g_thread_new ("free", free_elsewhere, session));
  assert_nothing_foreign ();
}

/* A process that uses the second device alone makes no context on the first one, which would take its memory. */
static void
test_one_context_subprocess (void)
{
  Training training = { "mlp", "cuda", 1, ORTRAIN_PRECISION_F32, { 0 }, NULL, -1 };
  g_autoptr (GListModel) devices = ortrain_device_list (); /* opens none */
  g_assert_cmpuint (g_list_model_get_n_items (devices), ==, 1 + N_DEVICES);
  train (&training);
  g_assert_cmpint (training.device_after, ==, 0);
  g_object_unref (training.state);
  g_assert_true (ortrain_fake_cuda_is_initialized (1));
  g_assert_false (ortrain_fake_cuda_is_initialized (0));
  assert_nothing_foreign ();
}

static void
test_one_context (void)
{
  if (!has_devices ())
    return;
  g_test_trap_subprocess ("/cuda-device-index/one-context/subprocess", 60 * G_USEC_PER_SEC,
                          G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

/* ---- names ---- */

static void
assert_refused (const char *provider, guint index, const char *text)
{
  const OrtrainProviderOptions options = { .n_threads = 1, .device_index = index };
  g_autoptr (GError) error = NULL;
  g_assert_null (ortrain_provider_open (provider, &options, &error));
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE);
  g_assert_cmpstr (error->message, ==, text);
}

static void
test_names (void)
{
  static const struct
  {
    const char *provider;
    guint index;
    const char *name;
  } rows[] = {
    { "cuda", 0, "cuda" },     { "cuda:0", 0, "cuda" },   { "cuda", 1, "cuda:1" },
    { "cuda:1", 0, "cuda:1" }, { "cuda:1", 1, "cuda:1" }, { "auto", 1, "cuda:1" },
    { "auto:1", 0, "cuda:1" }, { NULL, 1, "cuda:1" },     { "cpu:0", 0, "cpu" },
  };
  if (!has_devices ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const OrtrainProviderOptions options = { .n_threads = 1, .device_index = rows[i].index };
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainProvider) provider = ortrain_provider_open (rows[i].provider, &options, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (provider->device_name, ==, rows[i].name);
      g_assert_cmpuint (provider->device_index, ==, g_str_has_suffix (rows[i].name, ":1"));
    }
  assert_refused ("cuda", 2,
                  "The provider 'cuda' has no device with the number 2: it has 2 devices, numbers 0 to 1; choose "
                  "another 'device-index'");
  assert_refused ("cuda:7", 0,
                  "The provider 'cuda' has no device with the number 7: it has 2 devices, numbers 0 to 1; "
                  "choose another 'device-index'");
  assert_refused ("cpu", 1,
                  "The provider 'cpu' has no device with the number 1: it has 1 device, number 0; choose another "
                  "'device-index'");
  assert_refused ("auto", 2,
                  "The provider 'cuda' has no device with the number 2: it has 2 devices, numbers 0 to 1; choose "
                  "another 'device-index'");
  assert_refused ("cuda:1", 2,
                  "The provider 'cuda:1' and the 'device-index' 2 name different devices: give one of the two");
  assert_refused ("cuda:one", 0, "There is no provider 'cuda:one'; there is 'cpu', 'cuda'");
}

static void
test_list (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  static const char *const names[] = { "cpu", "cuda", "cuda:1" };
  if (!has_devices ())
    return;
  g_assert_cmpuint (g_list_model_get_n_items (devices), ==, G_N_ELEMENTS (names));
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      g_assert_cmpstr (ortrain_device_get_name (device), ==, names[i]);
      g_assert_cmpuint (ortrain_device_get_index (device), ==, i == 2 ? 1 : 0);
      g_assert_null (ortrain_device_get_reason (device));
    }
}

/* ---- tensors ---- */

/* As DLPack's header has it. */
typedef struct
{
  void *data;
  gint32 device_type, device_id;
} ForeignTensor;

static void
test_tensors (void)
{
  const float numbers[] = { 1, 2, 3, 4, 5, 6 };
  const gint64 dims[] = { 2, 3 };
  g_autoptr (GError) error = NULL;
  if (!has_devices ())
    return;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (dims, 2, numbers, G_N_ELEMENTS (numbers), &error);
  g_autoptr (OrtrainTensor) first = ortrain_tensor_to_device (tensor, "cuda:0", &error);
  g_autoptr (OrtrainTensor) second = ortrain_tensor_to_device (tensor, "cuda:1", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (first), ==, "cuda");
  g_assert_cmpstr (ortrain_tensor_get_device (second), ==, "cuda:1");
  g_autoptr (OrtrainTensor) same = ortrain_tensor_to_device (second, "cuda:1", &error);
  g_assert_true (same == second);

  /* from one to the other, and back to the host */
  g_autoptr (OrtrainTensor) across = ortrain_tensor_to_device (first, "cuda:1", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (across), ==, "cuda:1");
  g_autoptr (OrtrainTensor) back = ortrain_tensor_to_host (across, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (back, tensor));

  /* out by DLPack with its number, and in again */
  for (gint i = 0; i < N_DEVICES; i++)
    {
      gint type, id;
      g_assert_true (ortrain_tensor_get_dlpack_device (i == 0 ? first : second, &type, &id));
      g_assert_cmpint (type, ==, 2);
      g_assert_cmpint (id, ==, i);
      ForeignTensor *foreign = ortrain_tensor_to_dlpack (i == 0 ? first : second, &error);
      g_assert_no_error (error);
      g_assert_cmpint (foreign->device_type, ==, 2);
      g_assert_cmpint (foreign->device_id, ==, i);
      g_autoptr (OrtrainTensor) again = ortrain_tensor_new_from_dlpack (foreign, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (ortrain_tensor_get_device (again), ==, i == 0 ? "cuda" : "cuda:1");
      g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (again, &error);
      g_assert_true (ortrain_tensor_equal (host, tensor));
    }
  assert_nothing_foreign ();

  /* a device that is not open, and one that lies about where its memory is */
  static const char *const texts[] = {
    "The DLPack tensor is on device type 2, number 5, and no such device is open: create a session on it first, or "
    "copy the "
    "tensor to the host",
    "The DLPack tensor is said to be on the device 'cuda', and its memory is not there: it is that of another device",
  };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      ForeignTensor *foreign = ortrain_tensor_to_dlpack (second, &error);
      foreign->device_id = i == 0 ? 5 : 0;
      g_assert_null (ortrain_tensor_new_from_dlpack (foreign, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
      g_assert_cmpstr (error->message, ==, texts[i]);
      g_clear_error (&error);
      foreign->device_id = 1;
      g_autoptr (OrtrainTensor) again G_GNUC_UNUSED = ortrain_tensor_new_from_dlpack (foreign, &error);
      g_assert_no_error (error);
    }
}

/* A feed that is on another device than the session. */
static void
test_feeds (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  OrtrainTensorDict *inputs = model->inputs->pdata[0];
  const char *name = ortrain_tensor_dict_get_name (inputs, 0);
  if (!has_devices ())
    return;
  for (guint i = 0; i < N_DEVICES; i++)
    {
      g_autoptr (OrtrainTensor) feed =
          ortrain_tensor_to_device (ortrain_tensor_dict_get_tensor (inputs, 0), i == 0 ? "cuda" : "cuda:1", &error);
      g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
      g_object_set (options, "provider", "cuda", "device-index", 1, NULL);
      g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model->model, options, &error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_assert_no_error (error);
      ortrain_tensor_dict_set (feeds, name, feed);
      g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED = ortrain_inference_session_run (session, feeds, &error);
      if (i == 1)
        {
          g_assert_no_error (error);
          continue;
        }
      g_autofree char *text = g_strdup_printf (
          "Input '%s': the tensor is in the memory of the device 'cuda', and the session runs on 'cuda:1': "
          "copy it to the host (to_host), or there (to_device)",
          name);
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
      g_assert_cmpstr (error->message, ==, text);
      g_clear_error (&error);
    }
  assert_nothing_foreign ();
}

/* One device is lost, the other one trains on. */
static void
test_lost_subprocess (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  OrtrainTrainingSession *sessions[N_DEVICES];
  for (guint i = 0; i < N_DEVICES; i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      g_object_set (options, "provider", "cuda", "device-index", i, NULL);
      sessions[i] = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      g_assert_false (isnan (ortrain_training_session_train_step (sessions[i], test_model_feeds (model, 0), &error)));
      g_assert_no_error (error);
    }
  g_setenv ("ORTRAIN_FAKE_CUDA_LOST", "1", TRUE);
  ortrain_training_session_optimizer_step (sessions[1], NULL);
  g_assert_true (isnan (ortrain_training_session_train_step (sessions[1], test_model_feeds (model, 1), &error)));
  g_unsetenv ("ORTRAIN_FAKE_CUDA_LOST");
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "The device 'cuda:1' failed at "));
  g_clear_error (&error);
  g_assert_true (ortrain_training_session_optimizer_step (sessions[0], &error));
  g_assert_false (isnan (ortrain_training_session_train_step (sessions[0], test_model_feeds (model, 1), &error)));
  g_assert_no_error (error);
  for (guint i = 0; i < N_DEVICES; i++)
    g_object_unref (sessions[i]);
}

static void
test_lost (void)
{
  if (!has_devices ())
    return;
  g_test_trap_subprocess ("/cuda-device-index/lost/subprocess", 60 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

int
main (int argc, char *argv[])
{
  g_setenv ("ORTRAIN_FAKE_CUDA_DEVICES", G_STRINGIFY (N_DEVICES), TRUE);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-device-index/one-context", test_one_context);
  g_test_add_func ("/cuda-device-index/one-context/subprocess", test_one_context_subprocess);
  g_test_add_func ("/cuda-device-index/names", test_names);
  g_test_add_func ("/cuda-device-index/list", test_list);
  g_test_add_data_func ("/cuda-device-index/sessions/mlp", "mlp", test_sessions);
  g_test_add_data_func ("/cuda-device-index/sessions/cnn", "cnn", test_sessions);
  g_test_add_data_func ("/cuda-device-index/sessions/transformer-bf16", "gpt2.bf16", test_sessions);
  g_test_add_func ("/cuda-device-index/threads", test_threads);
  g_test_add_func ("/cuda-device-index/tensors", test_tensors);
  g_test_add_func ("/cuda-device-index/feeds", test_feeds);
  g_test_add_func ("/cuda-device-index/lost", test_lost);
  g_test_add_func ("/cuda-device-index/lost/subprocess", test_lost_subprocess);
  return g_test_run ();
}
