/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "count-allocations.h"
#include "fixture.h"
#include "folder.h"

#include "session/ortrain-training-session-private.h"

#include <glib/gstdio.h>

static void
train (OrtrainTrainingSession *session, TestModel *model, guint first, guint n)
{
  g_autoptr (GError) error = NULL;
  for (guint s = first; s < first + n; s++)
    {
      ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
}

static OrtrainTensorDict *
get_state (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

static OrtrainTensorDict *
get_gradients (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  return gradients;
}

static OrtrainTensorDict *
copy_dict (OrtrainTensorDict *from)
{
  OrtrainTensorDict *copy = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (from); i++)
    ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (from, i), ortrain_tensor_dict_get_tensor (from, i));
  return copy;
}

static void
test_nothing_allocated (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "adamw");
  train (session, model, 0, 3);
  guint before = __atomic_load_n (&n_allocations, __ATOMIC_RELAXED);
  for (guint s = 0; s < 8; s++)
    {
      ortrain_training_session_train_step (session, model->feeds->pdata[s % model->feeds->len], &error);
      ortrain_training_session_optimizer_step (session, &error);
    }
  guint after = __atomic_load_n (&n_allocations, __ATOMIC_RELAXED);
  g_assert_no_error (error);
  g_assert_cmpuint (after - before, ==, 0);
}

static void
test_misuse (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");

  g_assert_false (ortrain_training_session_optimizer_step (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE);
  g_clear_error (&error);
  g_assert_null (ortrain_training_session_get_gradients (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE);
  g_clear_error (&error);

  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  /* and training goes on */
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  train (session, model, 1, 2);
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 3);
}

static void
expect_refused (TestModel *model, OrtrainTrainingOptions *options, gint code, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_null (session);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, code);
  if (strstr (error->message, text) == NULL)
    g_error ("'%s' does not tell of '%s'", error->message, text);
}

static void
test_options (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  expect_refused (model, options, ORTRAIN_SESSION_ERROR_OPTION, "loss");
  g_autoptr (OrtrainLoss) nowhere = ortrain_cross_entropy_loss_new ("nowhere", "labels");
  ortrain_training_options_add_loss (options, nowhere);
  expect_refused (model, options, ORTRAIN_SESSION_ERROR_OPTION, "nowhere");

  g_autoptr (OrtrainTrainingOptions) named = test_model_make_options (model, "sgd");
  const char *const wrong[] = { "body.0.weight", "no.such.*", NULL };
  ortrain_training_options_set_trainable (named, wrong);
  expect_refused (model, named, ORTRAIN_SESSION_ERROR_OPTION, "no.such.*");
  const char *const statistic[] = { "body.1.running_mean", NULL };
  ortrain_training_options_set_trainable (named, statistic);
  expect_refused (model, named, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE, "body.1.running_mean");
  const char *const all[] = { "*", NULL };
  ortrain_training_options_set_frozen (named, all);
  ortrain_training_options_set_trainable (named, NULL);
  expect_refused (model, named, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE, "nothing to train");
  ortrain_training_options_tie (named, "body.0.weight", "body.11.weight");
  expect_refused (model, named, ORTRAIN_SESSION_ERROR_OPTION, "body.11.weight");
}

static void
test_not_initialized (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) empty = g_object_new (ORTRAIN_TYPE_TRAINING_SESSION, NULL);
  g_assert_true (isnan (ortrain_training_session_train_step (empty, test_model_feeds (model, 0), &error)));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED);
  g_clear_error (&error);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  train (session, model, 0, 1);
  g_object_run_dispose (G_OBJECT (session));
  g_assert_false (ortrain_training_session_optimizer_step (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED);
}

static void
test_accumulate (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  OrtrainTensorDict *single[2];
  for (guint b = 0; b < 2; b++)
    {
      ortrain_training_session_train_step (session, test_model_feeds (model, b), &error);
      single[b] = get_gradients (session);
      g_assert_true (ortrain_training_session_zero_gradients (session, &error));
    }
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  ortrain_training_session_train_step (session, test_model_feeds (model, 1), &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) sum = get_gradients (session);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (sum), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (sum); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (sum, i);
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (tensor); k++)
        {
          double want = ortrain_tensor_get_scalar (ortrain_tensor_dict_get_tensor (single[0], i), k) +
                        ortrain_tensor_get_scalar (ortrain_tensor_dict_get_tensor (single[1], i), k);
          g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (tensor, k) - want), <=, 1e-6);
        }
    }
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_object_unref (single[0]);
  g_object_unref (single[1]);
}

/* ---- signals ---- */

typedef struct
{
  GThread *thread;
  GString *order;
  guint64 peak;
  OrtrainTrainingSession *session;
  gboolean tried;
} Watch;

static void
on_phase (OrtrainTrainingSession *session, OrtrainMemoryReport *report, gpointer user_data)
{
  Watch *watch = user_data;
  g_assert_true (g_thread_self () == watch->thread);
  g_assert_nonnull (report);
  g_string_append_printf (watch->order, "%s ", report->phase);
  g_assert_cmpuint (report->allocated, <=, report->max_allocated);
  g_assert_cmpuint (report->allocated, <=, report->cached);
  g_assert_cmpuint (report->inactive, ==, report->cached - report->allocated);
  watch->peak = MAX (watch->peak, report->max_allocated);
}

/* In the middle of a step one may look, and not do. */
static void
on_busy (OrtrainTrainingSession *session, OrtrainMemoryReport *report, gpointer user_data)
{
  Watch *watch = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  g_assert_nonnull (state);
  g_assert_false (ortrain_training_session_optimizer_step (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
  watch->tried = TRUE;
}

static void
connect_all (OrtrainTrainingSession *session, Watch *watch)
{
  static const char *const names[] = { "pre-forward",   "post-forward", "pre-backward",
                                       "post-backward", "pre-update",   "post-update" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_signal_connect (session, names[i], G_CALLBACK (on_phase), watch);
}

#define ALL_PHASES "pre_forward post_forward pre_backward post_backward pre_update post_update "

static void
test_signals (void)
{
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "adamw");
  Watch watch = { g_thread_self (), g_string_new (NULL), 0, session, FALSE };
  connect_all (session, &watch);
  g_signal_connect (session, "post-forward", G_CALLBACK (on_busy), &watch);
  train (session, model, 0, 1);
  g_assert_cmpstr (watch.order->str, ==, ALL_PHASES);
  g_assert_true (watch.tried);
  /* predicted is real, to the byte */
  g_assert_cmpuint (watch.peak, ==,
                    ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (session)));
  g_string_free (watch.order, TRUE);
}

static void
on_done (GObject *source, GAsyncResult *result, gpointer user_data)
{
  *(GAsyncResult **) user_data = g_object_ref (result);
}

static GAsyncResult *
wait_for (GAsyncResult **result)
{
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return *result;
}

static GMutex gate;

static void
wait_at_gate (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  g_mutex_lock (&gate);
  g_mutex_unlock (&gate);
}

static void
test_async (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  g_autoptr (OrtrainTrainingSession) twin = test_model_make_session (model, "sgd");
  Watch watch = { g_thread_self (), g_string_new (NULL), 0, session, FALSE };
  connect_all (session, &watch);

  g_autoptr (GAsyncResult) step = NULL, update = NULL, eval = NULL;
  g_autoptr (GTask) waiting = g_task_new (session, NULL, NULL, NULL);
  g_mutex_lock (&gate);
  /* however fast the step is, it has to wait */
  g_assert_true (ortrain_worker_run (session->worker, waiting, wait_at_gate, NULL));
  ortrain_training_session_train_step_async (session, test_model_feeds (model, 0), NULL, on_done, &step);
  /* meanwhile the session is busy */
  g_assert_false (ortrain_training_session_zero_gradients (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
  g_clear_error (&error);
  g_mutex_unlock (&gate);
  double loss = ortrain_training_session_train_step_finish (session, wait_for (&step), &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (loss, ==, ortrain_training_session_train_step (twin, test_model_feeds (model, 0), &error));
  ortrain_training_session_optimizer_step_async (session, NULL, on_done, &update);
  g_assert_true (ortrain_training_session_optimizer_step_finish (session, wait_for (&update), &error));
  g_assert_cmpstr (watch.order->str, ==, ALL_PHASES);
  g_assert_true (ortrain_training_session_optimizer_step (twin, &error));
  g_autoptr (OrtrainTensorDict) a = get_state (session), b = get_state (twin);
  test_assert_same_bits (a, b);

  ortrain_training_session_eval_step_async (session, test_model_feeds (model, 0), NULL, on_done, &eval);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step_finish (session, wait_for (&eval), &error);
  g_assert_no_error (error);
  g_assert_nonnull (ortrain_tensor_dict_get (outputs, "loss"));
  g_assert_nonnull (ortrain_tensor_dict_get (outputs, "logits"));
  g_string_free (watch.order, TRUE);
}

static void
test_cancel (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  train (session, model, 0, 1);
  g_autoptr (OrtrainTensorDict) before = get_state (session);
  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_autoptr (GAsyncResult) result = NULL;
      ortrain_training_session_train_step_async (session, test_model_feeds (model, 1), cancellable, on_done, &result);
      g_usleep (i * 200);
      g_cancellable_cancel (cancellable);
      double loss = ortrain_training_session_train_step_finish (session, wait_for (&result), &error);
      if (error == NULL)
        {
          g_assert_true (isfinite (loss)); /* it was done before it saw the cancelling */
          return;
        }
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_clear_error (&error);
      g_autoptr (OrtrainTensorDict) after = get_state (session);
      test_assert_same_bits (before, after);
    }
}

static void
on_made (GObject *source, GAsyncResult *result, gpointer user_data)
{
  *(GAsyncResult **) user_data = g_object_ref (result);
}

static void
test_new_async (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  g_autoptr (GAsyncResult) result = NULL;
  ortrain_training_session_new_async (model->model, options, NULL, on_made, &result);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new_finish (wait_for (&result), &error);
  g_assert_no_error (error);
  train (session, model, 0, 1);
}

/* ---- bits ---- */

static OrtrainTensorDict *
train_with (TestModel *model, guint threads, gboolean deterministic)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_threads (options, threads);
  ortrain_training_options_set_deterministic (options, deterministic);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  train (session, model, 0, 4);
  return get_state (session);
}

static void
test_same_bits (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTensorDict) a = train_with (model, 2, FALSE), b = train_with (model, 2, FALSE);
  test_assert_same_bits (a, b);
  g_autoptr (OrtrainTensorDict) one = train_with (model, 1, TRUE), two = train_with (model, 2, TRUE),
                                three = train_with (model, 3, TRUE);
  test_assert_same_bits (one, two);
  test_assert_same_bits (one, three);
}

/* Steps after loading a checkpoint have the bits of a training that never stopped. */
static void
test_checkpoint (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (data);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "adamw");
  train (session, model, 0, 3);
  ortrain_training_session_set_metadata (session, "who", "me");
  g_assert_true (ortrain_training_session_save_checkpoint (session, path, &error));
  g_assert_no_error (error);
  train (session, model, 3, 3);
  g_autoptr (OrtrainTensorDict) want = get_state (session);

  g_autoptr (OrtrainTrainingSession) again = test_model_make_session (model, "adamw");
  g_assert_true (ortrain_training_session_load_checkpoint (again, path, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_session_get_step (again), ==, 3);
  g_assert_cmpstr (ortrain_training_session_get_metadata (again, "who"), ==, "me");
  train (again, model, 3, 3);
  g_autoptr (OrtrainTensorDict) have = get_state (again);
  test_assert_same_bits (want, have);

  /* another optimizer: refused, and nothing has changed */
  g_autoptr (OrtrainTrainingSession) other = test_model_make_session (model, "sgd");
  g_autoptr (OrtrainTensorDict) before = get_state (other);
  g_assert_false (ortrain_training_session_load_checkpoint (other, path, &error));
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_MISMATCH);
  g_clear_error (&error);
  g_autoptr (OrtrainTensorDict) after = get_state (other);
  test_assert_same_bits (before, after);
  g_autofree char *nowhere = g_build_filename (folder, "nowhere", NULL);
  g_assert_false (ortrain_training_session_load_checkpoint (other, nowhere, &error));
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND);
  test_remove_folder (folder);
}

/* The exported file gives, as it is, the outputs that the session gave. */
static void
test_export (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (data);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "model.onnx", NULL);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  train (session, model, 0, 3);
  g_autoptr (OrtrainTensorDict) want = ortrain_training_session_eval_step (session, model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_model_get_opset (exported), ==, ortrain_model_get_opset (model->model));
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (exported, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) have = ortrain_inference_session_run (inference, model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (want), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (want); i++)
    g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get (have, ortrain_tensor_dict_get_name (want, i)),
                                      ortrain_tensor_dict_get_tensor (want, i)),
                       <=, 1e-5);
  test_remove_folder (folder);
}

static void
test_labels (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  double want = ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_INT32, ORTRAIN_DTYPE_UINT8 };
  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    {
      g_autoptr (OrtrainTensorDict) feeds = copy_dict (test_model_feeds (model, 0));
      g_autoptr (OrtrainTensor) labels =
          ortrain_tensor_cast (ortrain_tensor_dict_get (feeds, "logits.target"), dtypes[i], &error);
      ortrain_tensor_dict_set (feeds, "logits.target", labels);
      g_assert_cmpfloat (ortrain_training_session_train_step (session, feeds, &error), ==, want);
      g_assert_no_error (error);
    }
}

static void
test_schedule (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  g_autoptr (OrtrainLrSchedule) schedule = ortrain_linear_schedule_new (2);
  ortrain_training_options_set_schedule (options, schedule);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  double rate = ortrain_optimizer_get_learning_rate (ortrain_training_options_get_optimizer (options));
  g_assert_cmpfloat (ortrain_training_session_get_current_learning_rate (session), ==, rate);
  train (session, model, 0, 1);
  g_assert_cmpfloat (ortrain_training_session_get_current_learning_rate (session), ==, rate / 2);
  train (session, model, 1, 1);
  g_autoptr (OrtrainTensorDict) before = get_state (session);
  train (session, model, 2, 1);
  g_autoptr (OrtrainTensorDict) after = get_state (session);
  test_assert_same_bits (before, after); /* a learning rate of zero */
}

static void
test_json (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "options.json", NULL);
  const char *good = "{\"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 0.25, \"beta1\": 0.5, \"groups\": "
                     "[{\"pattern\": \"*.bias\", \"weight_decay\": 0}]},"
                     "\"losses\": [{\"type\": \"cross-entropy\", \"output\": \"logits\", \"target\": \"t\", "
                     "\"ignore_index\": -100}],"
                     "\"schedule\": {\"type\": \"warm-up\", \"steps\": 3, \"after\": {\"type\": \"cosine\"}},"
                     "\"max_grad_norm\": 2, \"batch-norm\": \"frozen\", \"trainable\": [\"a\", \"b*\"],"
                     "\"immediate_updates\": true, \"ties\": [[\"a\", \"b\"]], \"padding-rows\": {\"w\": 3}}";
  g_assert_true (g_file_set_contents (path, good, -1, &error));
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new_from_file (path, &error);
  g_assert_no_error (error);
  OrtrainOptimizer *optimizer = ortrain_training_options_get_optimizer (options);
  g_assert_true (ORTRAIN_IS_ADAMW (optimizer));
  g_assert_cmpfloat (ortrain_optimizer_get_learning_rate (optimizer), ==, 0.25);
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_optimizer_get_groups (optimizer)), ==, 1);
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_training_options_get_losses (options)), ==, 1);
  g_assert_cmpfloat (ortrain_training_options_get_max_grad_norm (options), ==, 2);
  g_assert_cmpint (ortrain_training_options_get_batch_norm (options), ==, ORTRAIN_BATCH_NORM_MODE_FROZEN);
  g_assert_cmpint (ortrain_training_options_get_immediate_updates (options), ==, ORTRAIN_IMMEDIATE_UPDATES_ON);
  g_assert_cmpstr (ortrain_training_options_get_trainable (options)[1], ==, "b*");
  gint64 row;
  g_assert_true (ortrain_training_options_get_padding_row (options, "w", &row));
  g_assert_cmpint (row, ==, 3);

  g_autofree char *deep = g_strnfill (100000, '[');
  g_autofree char *nested = g_strconcat ("{\"losses\": ", deep, NULL);
  g_autofree char *behind_comment = g_strconcat ("{ /* \" */ \"losses\": ", deep, NULL);
  g_autofree char *behind_quote = g_strconcat ("{'\"': ", deep, NULL);
  const char *const bad[] = { "[]",
                              "",
                              "{\"threads\": ",
                              "{\"threads\": 1} x",
                              "\xff\xfe",
                              nested,
                              behind_comment,
                              behind_quote,
                              "{\"nonsense\": 1}",
                              "{\"threads\": -1}",
                              "{\"threads\": \"two\"}",
                              "{\"max_grad_norm\": -1}",
                              "{\"optimizer\": \"nobody\"}",
                              "{\"immediate_updates\": \"never\"}",
                              "{\"batch_norm\": true}",
                              "{\"losses\": [{\"type\": \"mse\", \"axis\": 3}]}",
                              "{\"losses\": 3}",
                              "{\"max_grad_norm\": 1, \"ties\": [[\"a\"]]}" };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_true (g_file_set_contents (path, bad[i], -1, &error));
      g_assert_false (ortrain_training_options_load_file (options, path, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_nonnull (strstr (error->message, path));
      g_clear_error (&error);
      g_assert_cmpfloat (ortrain_training_options_get_max_grad_norm (options), ==, 2);
    }
  g_autoptr (OrtrainSessionOptions) for_inference = ortrain_session_options_new ();
  g_assert_true (g_file_set_contents (path, nested, -1, &error));
  g_assert_false (ortrain_session_options_load_file (for_inference, path, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_clear_error (&error);
  test_remove_folder (folder);
  g_assert_false (ortrain_training_options_load_file (options, path, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
}

static void
test_environment (void)
{
  g_setenv ("ORTRAIN_SEED", "42", TRUE);
  g_setenv ("ORTRAIN_DETERMINISTIC", "yes", TRUE);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_unsetenv ("ORTRAIN_SEED");
  g_unsetenv ("ORTRAIN_DETERMINISTIC");
  g_assert_cmpuint (ortrain_training_options_get_seed (options), ==, 42);
  g_assert_true (ortrain_training_options_get_deterministic (options));
}

static void
test_check (void)
{
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model->model);
  g_assert_true (ortrain_check_report_get_trainable (report));
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_check_report_get_diagnostics (report)), ==, 0);
  g_autofree char *text = ortrain_check_report_to_string (report);
  g_assert_nonnull (strstr (text, "'val_469' is the parameter 'model.lm_head.weight' once more"));
}

/* ---- the memory line ---- */

static GPtrArray *lines;

static GLogWriterOutput
catch_lines (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  const char *domain = NULL, *message = NULL;
  for (gsize i = 0; i < n_fields; i++)
    {
      if (g_str_equal (fields[i].key, "GLIB_DOMAIN"))
        domain = fields[i].value;
      if (g_str_equal (fields[i].key, "MESSAGE"))
        message = fields[i].value;
    }
  if (g_strcmp0 (domain, "Ortrain-Memory") == 0)
    {
      g_ptr_array_add (lines, g_strdup (message));
      return G_LOG_WRITER_HANDLED;
    }
  return g_log_writer_default (level, fields, n_fields, user_data);
}

static void
test_memory_line (void)
{
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }
  lines = g_ptr_array_new_with_free_func (g_free);
  g_log_set_writer_func (catch_lines, NULL, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  ortrain_training_options_set_print_memory (options, TRUE);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  train (session, model, 0, 17);
  /* steps 1 to 9, and 16; six phases each */
  g_assert_cmpuint (lines->len, ==, 60);
  for (guint i = 0; i < lines->len; i++)
    {
      static const char *const phases[] = { "pre_forward",   "post_forward", "pre_backward",
                                            "post_backward", "pre_update",   "post_update" };
      g_autofree char *pattern = g_strdup_printf (
          "^rank-0 step %u memory \\(MiB\\) \\| phase: %s \\| allocated: \\d+ \\| max allocated: \\d+ \\| cached: \\d+ "
          "\\| "
          "max cached: \\d+ \\| inactive: \\d+ \\| max inactive: \\d+ \\| param: \\d+ \\| grad: \\d+ \\| buffer: \\d+$",
          i < 54 ? i / 6 + 1 : 16, phases[i % 6]);
      if (!g_regex_match_simple (pattern, lines->pdata[i], 0, 0))
        g_error ("%s", (const char *) lines->pdata[i]);
    }
}

/* ---- dropout ---- */

static void
test_dropout (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("dropout");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 8");
  OrtrainValue *h =
      ortrain_graph_builder_dropout (builder, ortrain_graph_builder_linear (builder, x, "a", 64, TRUE), 0.5);
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, h, "b", 3, TRUE), "y");
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (ortrain_graph_builder_get_graph (builder), &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  const gint64 dims[] = { 4, 8 }, n = 4;
  g_autoptr (OrtrainTensor) input = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, &error);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, &error);
  for (guint i = 0; i < 32; i++)
    ((float *) ortrain_tensor_get_address (input))[i] = sinf (i);
  ortrain_tensor_dict_set (feeds, "x", input);
  ortrain_tensor_dict_set (feeds, "t", labels);

  double losses[3][3];
  for (guint s = 0; s < 3; s++) /* seeds 5, 5, 6 */
    {
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("y", "t");
      ortrain_training_options_add_loss (options, loss);
      ortrain_training_options_set_seed (options, s < 2 ? 5 : 6);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      for (guint k = 0; k < 3; k++)
        {
          losses[s][k] = ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
        }
      /* evaluation drops nothing */
      g_autoptr (OrtrainTensorDict) a = ortrain_training_session_eval_step (session, feeds, &error);
      g_autoptr (OrtrainTensorDict) b = ortrain_training_session_eval_step (session, feeds, &error);
      test_assert_same_bits (a, b);
    }
  for (guint k = 0; k < 3; k++)
    {
      g_assert_cmpfloat (losses[0][k], ==, losses[1][k]);
      g_assert_cmpfloat (losses[0][k], !=, losses[2][k]);
    }
  g_assert_cmpfloat (losses[0][0], !=, losses[0][1]); /* another mask in each step */
}

/* ---- sessions of one model in several threads ---- */

typedef struct
{
  TestModel *model;
  double losses[3];
} Apart;

static gpointer
train_apart (gpointer data)
{
  Apart *self = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (self->model, "sgd");
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (self->model->model, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (self->losses); i++)
    {
      OrtrainTensorDict *feeds = test_model_feeds (self->model, i);
      self->losses[i] = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_autoptr (OrtrainTensorDict) outputs =
          ortrain_inference_session_run (inference, self->model->inputs->pdata[0], &error);
      g_assert_no_error (error);
      g_assert_nonnull (outputs);
      g_autoptr (OrtrainCheckReport) report = ortrain_model_check (self->model->model);
      g_assert_true (ortrain_check_report_get_trainable (report));
    }
  return NULL;
}

/* They share the model's graph, and the space of its symbolic dimensions, to which each of them adds. */
static void
test_apart (void)
{
  static const char *const names[] = { "cnn", "gpt2" };
  for (guint n = 0; n < G_N_ELEMENTS (names); n++)
    {
      g_autoptr (TestModel) alone = test_model_load (names[n]);
      Apart want = { alone };
      train_apart (&want);
      for (guint round = 0; round < 8; round++)
        {
          g_autoptr (TestModel) model = test_model_load (names[n]);
          Apart each[4];
          GThread *threads[4];
          for (guint i = 0; i < 4; i++)
            {
              each[i] = (Apart){ model };
              threads[i] = g_thread_new ("apart", train_apart, &each[i]);
            }
          for (guint i = 0; i < 4; i++)
            {
              g_thread_join (threads[i]);
              g_assert_cmpmem (each[i].losses, sizeof want.losses, want.losses, sizeof want.losses);
            }
        }
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#ifndef __SANITIZE_THREAD__ /* which has an allocator of its own: nothing is counted */
  g_test_add_data_func ("/training/nothing-allocated/mlp", "mlp", test_nothing_allocated);
  g_test_add_data_func ("/training/nothing-allocated/cnn", "cnn", test_nothing_allocated);
  g_test_add_data_func ("/training/nothing-allocated/gpt2", "gpt2", test_nothing_allocated);
#else
  (void) test_nothing_allocated;
#endif
  g_test_add_func ("/training/misuse", test_misuse);
  g_test_add_func ("/training/options", test_options);
  g_test_add_func ("/training/not-initialized", test_not_initialized);
  g_test_add_func ("/training/accumulate", test_accumulate);
  g_test_add_func ("/training/signals", test_signals);
  g_test_add_func ("/training/apart", test_apart);
  g_test_add_func ("/training/async", test_async);
  g_test_add_func ("/training/cancel", test_cancel);
  g_test_add_func ("/training/new-async", test_new_async);
  g_test_add_data_func ("/training/same-bits/mlp", "mlp", test_same_bits);
  g_test_add_data_func ("/training/same-bits/cnn", "cnn", test_same_bits);
  g_test_add_data_func ("/training/same-bits/gpt2", "gpt2", test_same_bits);
  g_test_add_data_func ("/training/checkpoint/cnn", "cnn", test_checkpoint);
  g_test_add_data_func ("/training/checkpoint/gpt2", "gpt2", test_checkpoint);
  g_test_add_data_func ("/training/export/cnn", "cnn", test_export);
  g_test_add_data_func ("/training/export/gpt2", "gpt2", test_export);
  g_test_add_func ("/training/labels", test_labels);
  g_test_add_func ("/training/schedule", test_schedule);
  g_test_add_func ("/training/json", test_json);
  g_test_add_func ("/training/environment", test_environment);
  g_test_add_func ("/training/check", test_check);
  g_test_add_func ("/training/memory-line", test_memory_line);
  g_test_add_func ("/training/dropout", test_dropout);
  return g_test_run ();
}
