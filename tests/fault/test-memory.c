/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fault/injector.h"
#include "folder.h"
#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-maker.h"
#include "session/fixture.h"

/* Each allocation that may fail does, one after the other, in everything that a program does with a model. Then there
 * is an error that says so, everything is as it was, and the same call goes well when there is memory again. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })

static char *scratch;

typedef struct
{
  TestModel *model;
  OrtrainTrainingSession *session;
  OrtrainInferenceSession *inference;
  OrtrainTensorDict *feeds; /* of the shapes to come */
  OrtrainTensorDict *state; /* as it must stay */
  OrtrainTensorDict *want;  /* the expected result of a run */
  char *path;
  guint n_good;
} Case;

static void
set_up (Case *self, gconstpointer name)
{
  self->model = test_model_load (name);
  self->path = g_build_filename (scratch, "out", NULL);
}

static void
tear_down (Case *self, gconstpointer name)
{
  g_clear_object (&self->session);
  g_clear_object (&self->inference);
  g_clear_object (&self->feeds);
  g_clear_object (&self->state);
  g_clear_object (&self->want);
  test_model_free (self->model);
  g_autofree char *data = g_strconcat (self->path, ".data", NULL);
  test_remove_folder (self->path);
  test_remove_folder (data);
  g_free (self->path);
}

static void
assert_no_memory (const GError *error, const char *failed)
{
  gboolean mapping = g_strcmp0 (failed, "g_mapped_file_new") == 0;
  if (error == NULL || (g_error_matches (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY) && !mapping) ||
      (g_error_matches (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY) && !mapping))
    return;
  /* a file that cannot be mapped is one that cannot be read */
  if (mapping && strstr (error->message, g_strerror (ENOMEM)) != NULL &&
      (error->domain == ORTRAIN_MODEL_ERROR || error->domain == G_FILE_ERROR))
    return;
  g_error ("%s: “%s” in domain %s", failed, error->message, g_quark_to_string (error->domain));
}

static OrtrainTensorDict *
get_state (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

/* ---- Loading ---- */

static gboolean
load_fixture (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (ortrain_model_get_path (self->model->model), error);
  return model != NULL && ortrain_model_get_graph (model, error) != NULL;
}

static void
check_only_error (gpointer data, const GError *error, const char *failed)
{
  assert_no_memory (error, failed);
}

static void
test_load (Case *self, gconstpointer name)
{
  g_assert_cmpuint (injector_run (INJECT_MEMORY, NULL, load_fixture, check_only_error, self), >, 0);
}

/* A model of all the ways in which a tensor is not a slice of the file. */
static gboolean
load_copies (gpointer data, GError **error)
{
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (data, NULL, error);
  g_autoptr (GListModel) pairs = model != NULL ? ortrain_model_find_equal_parameters (model) : NULL;
  return pairs != NULL;
}

static void
test_load_copies (void)
{
  enum
  {
    N = 1000
  };
  float values[N];
  gint64 indices[N];
  guint8 flags[N] = { 2 };
  Proto *graph = proto_new (), *typed = proto_tensor ("typed", 6, DIMS (N), NULL, 0), *sparse = proto_new ();
  for (gint i = 0; i < N; i++)
    {
      values[i] = (float) i;
      indices[i] = 2 * i;
      proto_int (typed, 5, i);
    }
  proto_message (graph, 5, typed);
  proto_message (graph, 5, proto_tensor ("bool", 9, DIMS (N), flags, N)); /* a true that is 2 */
  for (guint i = 0; i < 4; i++)                                           /* at least three of them misaligned */
    {
      g_autofree char *name = g_strnfill (i + 1, 'w');
      proto_message (graph, 5, proto_tensor (name, 1, DIMS (N), values, sizeof values));
    }
  proto_message (sparse, 1, proto_tensor ("s", 1, DIMS (N), values, sizeof values));
  proto_message (sparse, 2, proto_tensor (NULL, 7, DIMS (N), indices, sizeof indices));
  proto_int (sparse, 3, 2 * N);
  proto_message (graph, 15, sparse);
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_assert_cmpuint (injector_run (INJECT_MEMORY, NULL, load_copies, check_only_error, bytes), >, 5);
}

/* ---- Sessions ---- */

static gboolean
make_session (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (self->model, "adamw");
  ortrain_training_options_set_threads (options, 2);
  g_clear_object (&self->session);
  self->session = ortrain_training_session_new (self->model->model, options, error);
  return self->session != NULL;
}

static void
check_session (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  g_autoptr (GError) local_error = NULL;
  assert_no_memory (error, failed);
  if (error != NULL)
    return;
  /* with a thread less, say: it trains */
  g_assert_true (
      isfinite (ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &local_error)));
  g_assert_no_error (local_error);
}

static void
test_new_session (Case *self, gconstpointer name)
{
  g_assert_cmpuint (injector_run (INJECT_MEMORY, NULL, make_session, check_session, self), >, 1);
}

/* A session that has taken no memory yet: its first step does. */
static void
prepare_first_memory (gpointer data)
{
  Case *self = data;
  g_autoptr (GError) error = NULL;
  g_assert_true (make_session (self, &error));
  g_assert_no_error (error);
}

static gboolean
take_memory (gpointer data, GError **error)
{
  Case *self = data;
  return !isnan (ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), error));
}

static void
check_first_memory (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  g_autoptr (GError) local_error = NULL;
  assert_no_memory (error, failed);
  if (error != NULL)
    {
      g_assert_cmpuint (ortrain_training_session_get_n_train_steps (self->session), ==, 0);
      g_assert_true (take_memory (self, &local_error));
      g_assert_no_error (local_error);
    }
  g_assert_true (ortrain_training_session_optimizer_step (self->session, &local_error));
  g_assert_no_error (local_error);
  g_autoptr (OrtrainTensorDict) state = get_state (self->session);
  if (self->state == NULL)
    self->state = g_object_ref (state);
  test_assert_same_bits (self->state, state);
}

static void
test_first_memory (Case *self, gconstpointer name)
{
  g_assert_cmpuint (injector_run (INJECT_MEMORY, prepare_first_memory, take_memory, check_first_memory, self), >, 1);
}

/* A session that has a plan for one shape. */
static void
prepare_step (gpointer data)
{
  Case *self = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (self->model, "sgd");
  ortrain_training_options_set_threads (options, 2);
  g_clear_object (&self->session);
  self->session = ortrain_training_session_new (self->model->model, options, &error);
  g_assert_no_error (error);
  ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &error);
  g_assert_no_error (error);
  g_clear_object (&self->state);
  self->state = get_state (self->session);
}

static gboolean
first_train_step (gpointer data, GError **error)
{
  Case *self = data;
  return !isnan (ortrain_training_session_train_step (self->session, self->feeds, error));
}

static gboolean
first_eval_step (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (self->session, self->feeds, error);
  return outputs != NULL;
}

static void
check_step (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  g_autoptr (GError) local_error = NULL;
  assert_no_memory (error, failed);
  if (error == NULL)
    return;
  g_autoptr (OrtrainTensorDict) state = get_state (self->session);
  test_assert_same_bits (self->state, state);
  /* the shapes that were known before still work, and the new ones once there is memory */
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (isfinite (ortrain_training_session_train_step (
          self->session, i == 0 ? test_model_feeds (self->model, 0) : self->feeds, &local_error)));
      g_assert_no_error (local_error);
    }
}

/* The first step with another shape makes a plan and a larger arena. */
static void
test_first_step (Case *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *known = test_model_feeds (self->model, 0);
  self->feeds = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (known); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (known, i);
      gsize rank;
      const gint64 *old = ortrain_tensor_get_dims (tensor, &rank);
      g_autofree gint64 *dims = g_memdup2 (old, rank * sizeof *old);
      dims[0] *= 2;
      g_autoptr (OrtrainTensor) twice = ortrain_tensor_new (ortrain_tensor_get_dtype (tensor), dims, rank, &error);
      memcpy ((gpointer) ortrain_tensor_get_address (twice), (gconstpointer) ortrain_tensor_get_address (tensor),
              ortrain_tensor_get_n_bytes (tensor));
      ortrain_tensor_dict_set (self->feeds, ortrain_tensor_dict_get_name (known, i), twice);
    }
  g_assert_cmpuint (injector_run (INJECT_MEMORY, prepare_step, first_train_step, check_step, self), >, 1);
  g_assert_cmpuint (injector_run (INJECT_MEMORY, prepare_step, first_eval_step, check_step, self), >, 1);
}

/* Each attempt goes on with the session that a failed one left, and after a good one from the beginning. */
static void
prepare_run (gpointer data)
{
  Case *self = data;
  if (self->n_good > 0)
    g_clear_object (&self->inference);
  self->n_good = 0;
}

static gboolean
run_model (gpointer data, GError **error)
{
  Case *self = data;
  if (self->inference == NULL)
    {
      g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
      ortrain_session_options_set_threads (options, 2);
      self->inference = ortrain_inference_session_new (self->model->model, options, error);
    }
  if (self->inference == NULL)
    return FALSE;
  g_autoptr (OrtrainTensorDict) outputs =
      ortrain_inference_session_run (self->inference, self->model->inputs->pdata[0], error);
  if (outputs == NULL)
    return FALSE;
  test_assert_same_bits (outputs, self->want);
  self->n_good++;
  return TRUE;
}

static void
test_inference (Case *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (self->model->model, NULL, &error);
  self->want = ortrain_inference_session_run (session, self->model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  g_assert_cmpuint (injector_run (INJECT_MEMORY, prepare_run, run_model, check_only_error, self), >, 1);
  g_assert_cmpuint (self->n_good, ==, 1);
}

/* ---- Output ---- */

static gboolean
take_out (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (self->session, error);
  if (state == NULL)
    return FALSE;
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (self->session, error);
  if (gradients == NULL)
    return FALSE;
  g_autoptr (GHashTable) tensors = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (state); i++)
    g_hash_table_insert (tensors, (gpointer) ortrain_tensor_dict_get_name (state, i),
                         ortrain_tensor_dict_get_tensor (state, i));
  g_autoptr (GBytes) bytes = ortrain_model_export_bytes (self->model->model, tensors, error);
  if (bytes == NULL)
    return FALSE;
  return ortrain_training_session_export (self->session, self->path, error);
}

static gboolean
save_and_load (gpointer data, GError **error)
{
  Case *self = data;
  return ortrain_training_session_save_checkpoint (self->session, self->path, error) &&
         ortrain_training_session_load_checkpoint (self->session, self->path, error);
}

static void
check_as_it_was (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  if (g_error_matches (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE))
    g_assert_nonnull (strstr (error->message, "memory"));
  else
    assert_no_memory (error, failed);
  g_autoptr (OrtrainTensorDict) state = get_state (self->session);
  test_assert_same_bits (self->state, state);
}

static void
train_one (Case *self)
{
  g_autoptr (GError) error = NULL;
  self->session = test_model_make_session (self->model, "adamw");
  ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (self->session, &error));
  self->state = get_state (self->session);
}

static void
test_export (Case *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  train_one (self);
  g_assert_cmpuint (injector_run (INJECT_MEMORY, NULL, take_out, check_as_it_was, self), >, 3);
  g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (self->path, &error);
  g_assert_no_error (error);
  g_assert_nonnull (exported);
}

static void
test_checkpoint (Case *self, gconstpointer name)
{
  train_one (self);
  g_assert_cmpuint (injector_run (INJECT_MEMORY, NULL, save_and_load, check_as_it_was, self), >, 3);
  g_assert_true (
      isfinite (ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 1), NULL)));
}

/* ---- Threads ---- */

static void
take_result (GObject *source, GAsyncResult *result, gpointer data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

static GAsyncResult *
wait_for (GAsyncResult **result)
{
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return *result;
}

static void
prepare_async (gpointer data)
{
  Case *self = data;
  g_autoptr (GError) error = NULL;
  g_clear_object (&self->session);
  g_clear_object (&self->inference);
  self->session = test_model_make_session (self->model, "sgd");
  self->inference = ortrain_inference_session_new (self->model->model, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&self->state);
  ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) outputs =
      ortrain_inference_session_run (self->inference, self->model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  g_assert_nonnull (outputs);
}

static gboolean
call_async (gpointer data, GError **error)
{
  Case *self = data;
  g_autoptr (GAsyncResult) step = NULL, run = NULL, fit = NULL;
  ortrain_training_session_train_step_async (self->session, test_model_feeds (self->model, 0), NULL, take_result,
                                             &step);
  if (isnan (ortrain_training_session_train_step_finish (self->session, wait_for (&step), error)))
    return FALSE;
  ortrain_inference_session_run_async (self->inference, self->model->inputs->pdata[0], NULL, take_result, &run);
  g_autoptr (OrtrainTensorDict) outputs =
      ortrain_inference_session_run_finish (self->inference, wait_for (&run), error);
  if (outputs == NULL)
    return FALSE;
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (test_model_feeds (self->model, 0), error);
  if (dataset == NULL)
    return FALSE;
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (self->session, dataset);
  ortrain_trainer_fit_async (trainer, NULL, take_result, &fit);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit_finish (trainer, wait_for (&fit), error);
  return history != NULL;
}

static void
check_thread (gpointer data, const GError *error, const char *failed)
{
  Case *self = data;
  g_autoptr (GError) local_error = NULL;
  if (error != NULL && error->domain != G_THREAD_ERROR)
    assert_no_memory (error, failed);
  /* nobody holds the session that no thread was had for */
  g_assert_true (
      isfinite (ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &local_error)));
  g_assert_no_error (local_error);
}

static void
test_threads (Case *self, gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  prepare_async (self);
  g_assert_true (call_async (self, &error)); /* descriptors that GLib keeps are there now */
  prepare_async (self);
  g_assert_cmpuint (injector_run (INJECT_MEMORY, prepare_async, call_async, check_thread, self), >, 0);
}

/* ---- Arrays ---- */

static gboolean
read_arrays (gpointer data, GError **error)
{
  const char *const names[] = { "deflated.npz", "stored.npz" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "tensor", names[i], NULL);
      g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_npz (path, error);
      if (dict == NULL)
        return FALSE;
      for (guint k = 0; k < ortrain_tensor_dict_get_size (dict); k++)
        {
          g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (ortrain_tensor_dict_get_tensor (dict, k), error);
          g_autoptr (OrtrainTensor) wide =
              copy != NULL ? ortrain_tensor_cast (copy, ORTRAIN_DTYPE_FLOAT64, error) : NULL;
          if (wide == NULL)
            return FALSE;
        }
    }
  return TRUE;
}

static void
test_arrays (void)
{
  g_assert_cmpuint (injector_run (INJECT_MEMORY, NULL, read_arrays, check_only_error, NULL), >, 3);
}

#define ADD(path, model, function) g_test_add (path "/" model, Case, model, set_up, function, tear_down)

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  scratch = g_dir_make_tmp ("ortrain-memory-XXXXXX", NULL);
  injector_disarm (NULL);
  g_main_context_default (); /* keeps a descriptor of its own */
  ADD ("/fault/memory/load", "mlp", test_load);
  ADD ("/fault/memory/load", "gpt2", test_load);
  g_test_add_func ("/fault/memory/load/copies", test_load_copies);
  ADD ("/fault/memory/new-session", "cnn", test_new_session);
  ADD ("/fault/memory/new-session", "gpt2", test_new_session);
  ADD ("/fault/memory/first-memory", "cnn", test_first_memory);
  ADD ("/fault/memory/first-step", "cnn", test_first_step);
  ADD ("/fault/memory/first-step", "gpt2", test_first_step);
  ADD ("/fault/memory/inference", "cnn", test_inference);
  ADD ("/fault/memory/inference", "bert", test_inference);
  ADD ("/fault/memory/export", "cnn", test_export);
  ADD ("/fault/memory/export", "gpt2", test_export);
  ADD ("/fault/memory/checkpoint", "cnn", test_checkpoint);
  ADD ("/fault/memory/threads", "cnn", test_threads);
  g_test_add_func ("/fault/memory/arrays", test_arrays);
  int status = g_test_run ();
  test_remove_folder (scratch);
  return status;
}
