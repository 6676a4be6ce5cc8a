/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "async-wait.h"
#include "folder.h"
#include "session/fixture.h"

/* Uses from several threads everything that doc/threads.md allows. The results are compared with those of one thread;
 * `tools/check --full` runs it under ThreadSanitizer. */

/* Every property that can be read. */
static void
read_properties (gpointer object)
{
  guint n;
  g_autofree GParamSpec **specs = g_object_class_list_properties (G_OBJECT_GET_CLASS (object), &n);
  for (guint i = 0; i < n; i++)
    if ((specs[i]->flags & G_PARAM_READABLE) != 0)
      {
        g_auto (GValue) value = G_VALUE_INIT;
        g_object_get_property (object, specs[i]->name, &value);
      }
}

/* ---- Sessions made at once ---- */

typedef struct
{
  TestModel *model;
  gint *n_ready; /* the threads start together */
  double losses[3];
  OrtrainTensorDict *outputs;
} Maker;

static gpointer
make_and_train (gpointer data)
{
  Maker *self = data;
  g_autoptr (GError) error = NULL;
  g_atomic_int_inc (self->n_ready);
  while (g_atomic_int_get (self->n_ready) < 2)
    g_thread_yield ();
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (self->model->model);
  g_assert_true (ortrain_check_report_get_trainable (report));
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (self->model->model, NULL, &error);
  g_assert_no_error (error);
  self->outputs = ortrain_inference_session_run (inference, self->model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (self->model, "adamw");
  for (guint i = 0; i < G_N_ELEMENTS (self->losses); i++)
    {
      self->losses[i] = ortrain_training_session_train_step (session, test_model_feeds (self->model, i), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  read_properties (self->model->model);
  g_autofree char *text G_GNUC_UNUSED = ortrain_model_to_string (self->model->model);
  g_autoptr (GBytes) bytes G_GNUC_UNUSED = ortrain_model_to_bytes (self->model->model, &error);
  g_assert_no_error (error);
  return NULL;
}

static void
test_made_at_once (gconstpointer name)
{
  g_autoptr (TestModel) model = test_model_load (name);
  gint n_ready = 0;
  Maker makers[2] = { { .model = model, .n_ready = &n_ready }, { .model = model, .n_ready = &n_ready } };
  GThread *threads[2];
  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("maker", make_and_train, &makers[i]);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
  g_assert_true (memcmp (makers[0].losses, makers[1].losses, sizeof makers[0].losses) == 0);
  test_assert_same_bits (makers[0].outputs, makers[1].outputs);
  for (guint i = 0; i < 2; i++)
    g_object_unref (makers[i].outputs);
}

/* ---- Inference ---- */

typedef struct
{
  OrtrainInferenceSession *session;
  TestModel *model;
  OrtrainTensorDict *expected;
  gint stop;
} Runner;

static gpointer
run_often (gpointer data)
{
  Runner *self = data;
  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) outputs =
          ortrain_inference_session_run (self->session, self->model->inputs->pdata[0], &error);
      g_assert_no_error (error);
      test_assert_same_bits (outputs, self->expected);
    }
  return NULL;
}

static gpointer
read_inference (gpointer data)
{
  Runner *self = data;
  while (!g_atomic_int_get (&self->stop))
    {
      g_auto (GStrv) inputs G_GNUC_UNUSED = ortrain_inference_session_get_input_names (self->session);
      g_auto (GStrv) outputs G_GNUC_UNUSED = ortrain_inference_session_get_output_names (self->session);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_inference_session_get_memory_plan (self->session);
      g_assert_true (ortrain_inference_session_get_model (self->session) == self->model->model);
      if (plan != NULL)
        read_properties (plan);
      read_properties (self->session);
    }
  return NULL;
}

static void
test_inference (gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model->model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) other = ortrain_inference_session_new (model->model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) expected = ortrain_inference_session_run (other, model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  Runner runners[] = { { session, model, expected, 0 },
                       { session, model, expected, 0 },
                       { other, model, expected, 0 } };
  GThread *threads[G_N_ELEMENTS (runners)], *reader = g_thread_new ("reader", read_inference, &runners[0]);
  for (guint i = 0; i < G_N_ELEMENTS (runners); i++)
    threads[i] = g_thread_new ("runner", run_often, &runners[i]);
  Wait wait = { g_main_loop_new (NULL, FALSE), NULL };
  for (guint i = 0; i < 5; i++)
    {
      ortrain_inference_session_run_async (session, model->inputs->pdata[0], NULL, got_result, &wait);
      g_main_loop_run (wait.loop);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run_finish (session, wait.result, &error);
      g_assert_no_error (error);
      test_assert_same_bits (outputs, expected);
      g_clear_object (&wait.result);
    }
  for (guint i = 0; i < G_N_ELEMENTS (runners); i++)
    g_thread_join (threads[i]);
  g_atomic_int_set (&runners[0].stop, 1);
  g_thread_join (reader);
  g_main_loop_unref (wait.loop);
}

/* ---- A training session ---- */

typedef struct
{
  TestModel *model;
  OrtrainTrainingSession *session;
  char *folder;
  gint n_done; /* of the calls that need the session to themselves */
  gint stop;
  GMutex lock;
  GCancellable *cancellable; /* of the step that runs */
} Use;

static void
read_session (Use *self)
{
  OrtrainTrainingSession *session = self->session;
  guint64 step = ortrain_training_session_get_step (session);
  g_assert_cmpuint (ortrain_training_session_get_n_train_steps (session), >=, step);
  g_assert_true (ortrain_training_session_get_model (session) == self->model->model);
  g_assert_nonnull (ortrain_training_session_get_options (session));
  g_assert_true (ORTRAIN_IS_GRAPH (ortrain_training_session_get_training_graph (session)));
  g_assert_cmpfloat (ortrain_training_session_get_last_gradient_norm (session), >=, 0);
  g_assert_cmpfloat (ortrain_training_session_get_current_learning_rate (session), >, 0);
  ortrain_training_session_set_metadata (session, "reader", "was here");
  g_assert_cmpstr (ortrain_training_session_get_metadata (session, "reader"), ==, "was here");
  g_auto (GStrv) notes G_GNUC_UNUSED = ortrain_training_session_get_notes (session);
  OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
  if (plan != NULL)
    read_properties (plan);
  read_properties (session);
}

/* Calls that another one makes busy, and the other way round; all of them leave the training as it was. FALSE: busy */
static gboolean
call_session (Use *self, guint kind)
{
  OrtrainTrainingSession *session = self->session;
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) object = NULL;
  g_autofree char *path = g_build_filename (self->folder, kind == 0 ? "model.onnx" : "checkpoint", NULL);
  OrtrainTensorDict *feeds = test_model_feeds (self->model, 1);
  g_autoptr (OrtrainMemoryReport) report = NULL;
  switch (kind)
    {
    case 0:
      ortrain_training_session_export (session, path, &error);
      break;
    case 1:
      ortrain_training_session_save_checkpoint (session, path, &error);
      break;
    case 2:
      object = (GObject *) ortrain_training_session_get_parameters (session, &error);
      break;
    case 3:
      object = (GObject *) ortrain_training_session_get_state (session, &error);
      break;
    case 4:
      object = (GObject *) ortrain_training_session_eval_step (session, feeds, &error);
      break;
    case 5:
      object = (GObject *) ortrain_training_session_plan (session, feeds, &error);
      break;
    case 6:
      ortrain_training_session_check_finite (session, &error);
      break;
    case 7:
      report = ortrain_training_session_get_memory_report (session);
      return report != NULL;
    default:
      g_mutex_lock (&self->lock);
      if (self->cancellable != NULL)
        g_cancellable_cancel (self->cancellable);
      g_mutex_unlock (&self->lock);
    }
  if (error != NULL)
    g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
  return error == NULL;
}

#define N_CALLS 9

static gpointer
use_session (gpointer data)
{
  Use *self = data;
  while (!g_atomic_int_get (&self->stop))
    {
      guint64 n = ortrain_training_session_get_n_train_steps (self->session);
      if (call_session (self, (guint) g_atomic_int_get (&self->n_done) % N_CALLS))
        g_atomic_int_inc (&self->n_done);
      /* one step at least for each call, which others would keep out */
      do
        read_session (self);
      while (ortrain_training_session_get_n_train_steps (self->session) == n && !g_atomic_int_get (&self->stop));
    }
  return NULL;
}

/* One asynchronous call, again until neither the other thread's calls nor its cancelling end it. */
static void
step_async (Use *self, Wait *wait, guint i)
{
  for (;;)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_mutex_lock (&self->lock);
      self->cancellable = cancellable;
      g_mutex_unlock (&self->lock);
      if (i % 2 == 0)
        ortrain_training_session_train_step_async (self->session, test_model_feeds (self->model, i / 2), cancellable,
                                                   got_result, wait);
      else
        ortrain_training_session_optimizer_step_async (self->session, cancellable, got_result, wait);
      g_main_loop_run (wait->loop);
      if (i % 2 == 0)
        ortrain_training_session_train_step_finish (self->session, wait->result, &error);
      else
        ortrain_training_session_optimizer_step_finish (self->session, wait->result, &error);
      g_clear_object (&wait->result);
      g_mutex_lock (&self->lock);
      self->cancellable = NULL;
      g_mutex_unlock (&self->lock);
      if (error == NULL)
        return;
      if (!g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
    }
}

static void
test_training (gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name);
  Use use = { .model = model,
              .session = test_model_make_session (model, "adamw"),
              .folder = g_dir_make_tmp ("ortrain-threads-XXXXXX", NULL) };
  g_mutex_init (&use.lock);
  Wait wait = { g_main_loop_new (NULL, FALSE), NULL };
  GThread *thread = g_thread_new ("user", use_session, &use);
  guint n_steps = 0;
  for (; g_atomic_int_get (&use.n_done) < 2 * N_CALLS; n_steps++)
    {
      step_async (&use, &wait, 2 * n_steps);
      step_async (&use, &wait, 2 * n_steps + 1);
    }
  g_atomic_int_set (&use.stop, 1);
  g_thread_join (thread);
  g_test_message ("%u steps", n_steps);
  g_assert_cmpuint (ortrain_training_session_get_step (use.session), ==, n_steps);

  g_autoptr (OrtrainTrainingSession) alone = test_model_make_session (model, "adamw");
  for (guint i = 0; i < n_steps; i++)
    {
      ortrain_training_session_train_step (alone, test_model_feeds (model, i), &error);
      g_assert_true (ortrain_training_session_optimizer_step (alone, &error));
    }
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (use.session, &error);
  g_autoptr (OrtrainTensorDict) expected = ortrain_training_session_get_state (alone, &error);
  g_assert_no_error (error);
  test_assert_same_bits (state, expected);
  g_main_loop_unref (wait.loop);
  g_mutex_clear (&use.lock);
  g_object_unref (use.session);
  test_remove_folder (use.folder);
  g_free (use.folder);
}

/* ---- A trainer ---- */

typedef struct
{
  OrtrainTrainer *trainer;
  Use use;
  GAsyncQueue *records; /* of epochs that have ended */
  double rate;          /* the last one that was read */
} Watch;

static OrtrainDataset *
make_dataset (TestModel *model)
{
  g_autoptr (GError) error = NULL;
  OrtrainDataset *dataset = ortrain_tensor_dataset_new (test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  return dataset;
}

static void
on_epoch (OrtrainTrainer *trainer, OrtrainEpochRecord *record, gpointer data)
{
  g_async_queue_push (data, g_object_ref (record));
}

static gpointer
watch_trainer (gpointer data)
{
  Watch *self = data;
  while (!g_atomic_int_get (&self->use.stop))
    {
      read_properties (self->trainer);
      g_assert_cmpuint (ortrain_trainer_get_batch_size (self->trainer), >, 0);
      read_session (&self->use);
      /* a plateau, which the trainer shows the losses of epochs to: it never rises */
      double rate = ortrain_training_session_get_current_learning_rate (self->use.session);
      g_assert_cmpfloat (rate, <=, self->rate);
      self->rate = rate;
      g_autoptr (OrtrainEpochRecord) record = g_async_queue_try_pop (self->records);
      if (record != NULL)
        {
          g_assert_cmpuint (ortrain_epoch_record_get_epoch (record), >, 0);
          read_properties (record);
        }
    }
  return NULL;
}

static gpointer
read_history (gpointer history)
{
  read_properties (history);
  g_autoptr (GBytes) losses = ortrain_training_history_get_losses (history);
  g_autofree char *text G_GNUC_UNUSED = ortrain_training_history_to_string (history);
  g_assert_cmpuint (g_bytes_get_size (losses), ==, sizeof (double) * ortrain_training_history_get_n_steps (history));
  return NULL;
}

static void
test_trainer (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  g_autoptr (OrtrainLrSchedule) plateau = ortrain_plateau_schedule_new (0.5, 0);
  g_autoptr (OrtrainLrSchedule) schedule = ortrain_warm_up_schedule_new (0, plateau);
  ortrain_plateau_schedule_set_threshold (ORTRAIN_PLATEAU_SCHEDULE (plateau), 1e6); /* no epoch is an improvement */
  ortrain_training_options_set_schedule (options, schedule);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainDataset) dataset = make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-threads-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  ortrain_trainer_set_epochs (trainer, 12);
  ortrain_trainer_set_batch_size (trainer, 4);
  ortrain_trainer_set_validation (trainer, dataset);
  ortrain_trainer_set_checkpoint_dir (trainer, path);
  ortrain_trainer_set_checkpoint_epochs (trainer, 4);

  const double rate = ortrain_training_session_get_current_learning_rate (session);
  Watch watch = { trainer, { .model = model, .session = session }, g_async_queue_new_full (g_object_unref), rate };
  Wait wait = { g_main_loop_new (NULL, FALSE), NULL };
  g_signal_connect (trainer, "epoch-ended", G_CALLBACK (on_epoch), watch.records);
  GThread *thread = g_thread_new ("watch", watch_trainer, &watch);
  ortrain_trainer_fit_async (trainer, NULL, got_result, &wait);
  g_main_loop_run (wait.loop);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit_finish (trainer, wait.result, &error);
  g_assert_no_error (error);
  g_atomic_int_set (&watch.use.stop, 1);
  g_thread_join (thread);
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, 12);
  g_assert_cmpfloat (ortrain_training_session_get_current_learning_rate (session), <, rate);
  thread = g_thread_new ("history", read_history, history);
  read_history (history);
  g_thread_join (thread);
  g_clear_object (&wait.result);
  g_async_queue_unref (watch.records);
  g_main_loop_unref (wait.loop);
  test_remove_folder (folder);
}

/* ---- A loader, which one thread at a time may use ---- */

typedef struct
{
  OrtrainDataLoader *loader;
  guint n;
  GPtrArray *batches;
} Load;

static gpointer
load (gpointer data)
{
  Load *self = data;
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainTensorDict *batch = ortrain_data_loader_next (self->loader, &error);
      g_assert_no_error (error);
      g_assert_nonnull (batch);
      g_ptr_array_add (self->batches, batch);
    }
  return NULL;
}

static void
test_loader (void)
{
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = make_dataset (model);
  g_autoptr (GPtrArray) expected = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) batches = g_ptr_array_new_with_free_func (g_object_unref);
  GPtrArray *const lists[] = { expected, batches };
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 3);
      ortrain_data_loader_set_shuffle (loader, TRUE);
      ortrain_data_loader_set_seed (loader, 5);
      for (guint n = (guint) ortrain_data_loader_get_n_batches (loader), i = 0; i < n; i++)
        {
          Load part = { loader, 1, lists[k] };
          if (k == 0)
            load (&part);
          else
            g_thread_join (g_thread_new ("load", load, &part));
          read_properties (loader);
        }
    }
  g_assert_cmpuint (batches->len, ==, expected->len);
  for (guint i = 0; i < batches->len; i++)
    test_assert_same_bits (batches->pdata[i], expected->pdata[i]);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/two-threads/made-at-once/mlp", "mlp", test_made_at_once);
  g_test_add_data_func ("/two-threads/made-at-once/cnn", "cnn", test_made_at_once);
  g_test_add_data_func ("/two-threads/made-at-once/lstm", "lstm", test_made_at_once);
  g_test_add_data_func ("/two-threads/inference/cnn", "cnn", test_inference);
  g_test_add_data_func ("/two-threads/inference/lstm", "lstm", test_inference);
  g_test_add_data_func ("/two-threads/training/mlp", "mlp", test_training);
  g_test_add_data_func ("/two-threads/training/cnn", "cnn", test_training);
  g_test_add_func ("/two-threads/trainer", test_trainer);
  g_test_add_func ("/two-threads/loader", test_loader);
  return g_test_run ();
}
