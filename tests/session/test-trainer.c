/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "folder.h"

#include "plan/ortrain-plan-tables-private.h"

#include <glib/gstdio.h>

typedef struct
{
  GThread *thread;
  guint n_progress, n_epochs, n_checkpoints;
  double fraction;
  GCancellable *cancellable;
  guint cancel_at;
} Watch;

static void
on_progress (OrtrainTrainer *trainer, OrtrainProgress *progress, gpointer user_data)
{
  Watch *watch = user_data;
  g_assert_true (g_thread_self () == watch->thread);
  g_assert_cmpfloat (progress->fraction, >=, watch->fraction);
  watch->fraction = progress->fraction;
  if (++watch->n_progress == watch->cancel_at)
    g_cancellable_cancel (watch->cancellable);
}

static void
on_epoch (OrtrainTrainer *trainer, OrtrainEpochRecord *record, gpointer user_data)
{
  Watch *watch = user_data;
  g_assert_true (g_thread_self () == watch->thread);
  g_assert_cmpuint (ortrain_epoch_record_get_epoch (record), ==, ++watch->n_epochs);
}

static void
on_checkpoint (OrtrainTrainer *trainer, const char *path, gpointer user_data)
{
  Watch *watch = user_data;
  g_assert_nonnull (path);
  watch->n_checkpoints++;
}

static OrtrainTrainer *
make_trainer (OrtrainTrainingSession *session, OrtrainDataset *dataset, Watch *watch)
{
  OrtrainTrainer *trainer = ortrain_trainer_new (session, dataset);
  watch->thread = g_thread_self ();
  g_signal_connect (trainer, "progress", G_CALLBACK (on_progress), watch);
  g_signal_connect (trainer, "epoch-ended", G_CALLBACK (on_epoch), watch);
  g_signal_connect (trainer, "checkpoint-saved", G_CALLBACK (on_checkpoint), watch);
  ortrain_trainer_set_batch_size (trainer, 16);
  return trainer;
}

static void
test_fit (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  Watch watch = { 0 };
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
  ortrain_trainer_set_epochs (trainer, 30);
  ortrain_trainer_set_validation (trainer, dataset);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, 30);
  g_assert_cmpuint (watch.n_epochs, ==, 30);
  g_assert_cmpuint (watch.n_progress, ==, 120);
  g_assert_cmpfloat (watch.fraction, ==, 1.0);
  g_assert_cmpfloat (ortrain_training_history_get_last_loss (history), <, 0.2);
  g_assert_cmpfloat (ortrain_training_history_get_last_metric (history), ==, 1.0);
  g_autoptr (GBytes) losses = ortrain_training_history_get_losses (history);
  g_assert_cmpuint (g_bytes_get_size (losses), ==, 120 * sizeof (double));
  /* evaluate returns the recorded values */
  double loss, metric;
  g_assert_true (ortrain_trainer_evaluate (trainer, dataset, NULL, &loss, &metric, &error));
  g_autoptr (OrtrainEpochRecord) last = g_list_model_get_item (ortrain_training_history_get_epochs (history), 29);
  g_assert_cmpfloat (loss, ==, ortrain_epoch_record_get_validation_loss (last));
}

static void
test_early_end (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  ortrain_optimizer_set_learning_rate (
      ortrain_training_options_get_optimizer (ortrain_training_session_get_options (session)), 0.0);
  Watch watch = { 0 };
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
  ortrain_trainer_set_epochs (trainer, 30);
  ortrain_trainer_set_validation (trainer, dataset);
  ortrain_trainer_set_patience (trainer, 2);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_history_get_stopped_early (history));
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, 3);
  g_assert_cmpuint (ortrain_training_history_get_best_epoch (history), ==, 1);
}

/* Data that cancel when they are asked for the nth time. */
typedef struct
{
  OrtrainDataset parent_instance;
  OrtrainDataset *data;
  GCancellable *cancellable;
  guint n_asked, cancel_at;
} BreakingDataset;

typedef OrtrainDatasetClass BreakingDatasetClass;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BreakingDataset, g_object_unref)

GType breaking_dataset_get_type (void);
G_DEFINE_TYPE (BreakingDataset, breaking_dataset, ORTRAIN_TYPE_DATASET)

static guint64
breaking_dataset_get_length (OrtrainDataset *dataset)
{
  return ortrain_dataset_get_length (((BreakingDataset *) dataset)->data);
}

static OrtrainTensorDict *
breaking_dataset_get_batch (OrtrainDataset *dataset, const guint64 *indices, gsize n_indices, GError **error)
{
  BreakingDataset *self = (BreakingDataset *) dataset;
  if (++self->n_asked == self->cancel_at)
    g_cancellable_cancel (self->cancellable);
  return ortrain_dataset_get_batch (self->data, indices, n_indices, error);
}

static void
breaking_dataset_class_init (BreakingDatasetClass *klass)
{
  klass->get_length = breaking_dataset_get_length;
  klass->get_batch = breaking_dataset_get_batch;
}

static void
breaking_dataset_init (BreakingDataset *self)
{
}

static void
cancel_in_step (OrtrainTrainingSession *session, OrtrainMemoryReport *report, gpointer user_data)
{
  Watch *watch = user_data;
  if (report->step == watch->cancel_at)
    g_cancellable_cancel (watch->cancellable);
}

typedef enum
{
  BREAK_BETWEEN,    /* two updates */
  BREAK_STEP,       /* the forward pass of a step */
  BREAK_LAST,       /* after the last update of an epoch */
  BREAK_VALIDATION, /* the validation after the second epoch */
  N_BREAKS
} Break;

typedef struct
{
  TestModel *model;
  OrtrainDataset *dataset;
  const char *path;
} ResumeData;

/* Three epochs of 11 steps, the last one smaller; a plateau that the losses of epochs lead into. */
static OrtrainTrainer *
make_breakable (ResumeData *data, OrtrainDataset *validation, Watch *watch)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (data->model, "adamw");
  g_autoptr (OrtrainLrSchedule) schedule = ortrain_plateau_schedule_new (0.5, 0);
  g_object_set (schedule, "threshold", 0.9, NULL);
  ortrain_training_options_set_schedule (options, schedule);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (data->model->model, options, &error);
  g_assert_no_error (error);
  OrtrainTrainer *trainer = ortrain_trainer_new (session, data->dataset);
  watch->thread = g_thread_self ();
  g_object_set (trainer, "epochs", 3, "batch-size", 3, "seed", G_GUINT64_CONSTANT (7), "validation", validation,
                "checkpoint-dir", data->path, NULL);
  g_signal_connect (trainer, "checkpoint-saved", G_CALLBACK (on_checkpoint), watch);
  return trainer;
}

static void
assert_same_record (OrtrainTrainingHistory *a, guint i, OrtrainTrainingHistory *b, guint k)
{
  g_autoptr (OrtrainEpochRecord) x = g_list_model_get_item (ortrain_training_history_get_epochs (a), i);
  g_autoptr (OrtrainEpochRecord) y = g_list_model_get_item (ortrain_training_history_get_epochs (b), k);
  g_assert_cmpuint (ortrain_epoch_record_get_epoch (x), ==, ortrain_epoch_record_get_epoch (y));
  g_assert_cmpfloat (ortrain_epoch_record_get_loss (x), ==, ortrain_epoch_record_get_loss (y));
  g_assert_cmpfloat (ortrain_epoch_record_get_validation_loss (x), ==, ortrain_epoch_record_get_validation_loss (y));
  g_assert_cmpfloat (ortrain_epoch_record_get_metric (x), ==, ortrain_epoch_record_get_metric (y));
  g_assert_cmpfloat (ortrain_epoch_record_get_learning_rate (x), ==, ortrain_epoch_record_get_learning_rate (y));
}

/* Broken off anywhere, it goes on to the same bits, and to the same records of epochs. */
static void
test_resume (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);

  g_autofree char *whole_path = g_build_filename (folder, "whole", NULL);
  ResumeData data = { model, dataset, whole_path };
  Watch watch = { 0 };
  g_autoptr (OrtrainTrainer) trainer = make_breakable (&data, dataset, &watch);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_steps (history), ==, 33);
  g_assert_cmpuint (watch.n_checkpoints, ==, 3);
  g_autoptr (OrtrainTensorDict) expected =
      ortrain_training_session_get_state (ortrain_trainer_get_session (trainer), &error);
  g_assert_no_error (error);

  for (Break place = 0; place < N_BREAKS; place++)
    {
      g_test_message ("break %d", place);
      g_autofree char *name = g_strdup_printf ("break-%d", place);
      g_autofree char *path = g_build_filename (folder, name, NULL);
      data.path = path;
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_autoptr (BreakingDataset) validation = g_object_new (breaking_dataset_get_type (), NULL);
      validation->data = dataset;
      validation->cancellable = cancellable;
      validation->cancel_at = place == BREAK_VALIDATION ? 11 + 5 : 0;
      Watch second = { .cancellable = cancellable };
      g_autoptr (OrtrainTrainer) breaking = make_breakable (&data, (OrtrainDataset *) validation, &second);
      OrtrainTrainingSession *broken = ortrain_trainer_get_session (breaking);
      second.cancel_at = place == BREAK_BETWEEN ? 18 : place == BREAK_LAST ? 22 : place == BREAK_STEP ? 19 : 0;
      if (place == BREAK_BETWEEN || place == BREAK_LAST)
        g_signal_connect (breaking, "progress", G_CALLBACK (on_progress), &second);
      if (place == BREAK_STEP)
        g_signal_connect (broken, "post-forward", G_CALLBACK (cancel_in_step), &second);
      g_assert_null (ortrain_trainer_fit (breaking, cancellable, &error));
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_clear_error (&error);
      g_assert_cmpuint (ortrain_training_session_get_step (broken), ==,
                        place == BREAK_BETWEEN || place == BREAK_STEP ? 18 : 22);
      g_assert_cmpuint (second.n_checkpoints, ==, 2); /* that of the first epoch, and the last moment's */

      Watch third = { 0 };
      g_autoptr (OrtrainTrainer) resuming = make_breakable (&data, dataset, &third);
      ortrain_trainer_set_resume (resuming, TRUE);
      g_autoptr (OrtrainTrainingHistory) rest = ortrain_trainer_fit (resuming, NULL, &error);
      g_assert_no_error (error);
      OrtrainTrainingSession *fresh = ortrain_trainer_get_session (resuming);
      g_assert_cmpuint (ortrain_training_session_get_step (fresh), ==, 33);
      g_assert_cmpuint (third.n_checkpoints, ==, 2);
      g_assert_cmpuint (ortrain_training_history_get_n_epochs (rest), ==, 2);
      assert_same_record (rest, 0, history, 1);
      assert_same_record (rest, 1, history, 2);
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (fresh, &error);
      test_assert_same_bits (expected, state);
    }

  /* Nothing is left to do for those that go on from the end. */
  data.path = whole_path;
  g_autoptr (OrtrainTrainer) again = make_breakable (&data, dataset, &watch);
  ortrain_trainer_set_resume (again, TRUE);
  g_autoptr (OrtrainTrainingHistory) nothing = ortrain_trainer_fit (again, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (nothing), ==, 0);
  g_autoptr (OrtrainTensorDict) state =
      ortrain_training_session_get_state (ortrain_trainer_get_session (again), &error);
  test_assert_same_bits (expected, state);
  test_remove_folder (folder);
}

/* An early end is an end for those who resume, too. */
static void
test_resume_early_end (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
      ortrain_optimizer_set_learning_rate (
          ortrain_training_options_get_optimizer (ortrain_training_session_get_options (session)), 0.0);
      Watch watch = { 0 };
      g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
      g_object_set (trainer, "epochs", 30, "validation", dataset, "patience", 2, "checkpoint-dir", folder, "resume",
                    TRUE, NULL);
      g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_history_get_stopped_early (history));
      g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, i == 0 ? 3 : 0);
    }
  test_remove_folder (folder);
}

/* How often checkpoints are saved, and that cancelling saves one whatever the answer is. */
static void
test_checkpoint_epochs (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  const struct
  {
    guint every, n_saved;
  } cases[] = { { 0, 0 }, { 1, 5 }, { 2, 3 }, { 7, 1 } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
      Watch watch = { 0 };
      g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
      g_object_set (trainer, "epochs", 5, "checkpoint-dir", folder, "checkpoint-epochs", cases[i].every, NULL);
      g_assert_cmpuint (ortrain_trainer_get_checkpoint_epochs (trainer), ==, cases[i].every);
      g_autoptr (OrtrainTrainingHistory) history G_GNUC_UNUSED = ortrain_trainer_fit (trainer, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (watch.n_checkpoints, ==, cases[i].n_saved);
    }
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  Watch watch = { .cancellable = cancellable, .cancel_at = 6 };
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
  g_object_set (trainer, "epochs", 5, "checkpoint-dir", folder, "checkpoint-epochs", 0, NULL);
  g_assert_null (ortrain_trainer_fit (trainer, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpuint (watch.n_checkpoints, ==, 1);
  test_remove_folder (folder);
}

static void
on_done (GObject *source, GAsyncResult *result, gpointer user_data)
{
  *(GAsyncResult **) user_data = g_object_ref (result);
}

static gboolean
cancel (gpointer user_data)
{
  g_cancellable_cancel (user_data);
  return G_SOURCE_REMOVE;
}

static void
test_async (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  Watch watch = { 0 };
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
  ortrain_trainer_set_epochs (trainer, 5);
  g_autoptr (GAsyncResult) result = NULL;
  ortrain_trainer_fit_async (trainer, NULL, on_done, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit_finish (trainer, result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, 5);
  g_assert_cmpuint (watch.n_epochs, ==, 5); /* each of them arrives */
  g_assert_cmpuint (watch.n_progress, >, 0);

  /* without an end, until it is cancelled */
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) endless = NULL;
  watch = (Watch){ .thread = g_thread_self () };
  ortrain_trainer_set_epochs (trainer, G_MAXUINT);
  ortrain_trainer_fit_async (trainer, cancellable, on_done, &endless);
  g_assert_null (ortrain_trainer_fit (trainer, NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
  g_clear_error (&error);
  g_timeout_add (30, cancel, cancellable);
  while (endless == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (ortrain_trainer_fit_finish (trainer, endless, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
}

/* A main loop that is busy for all of the training hears of the end of each epoch after all, in order; of the progress,
 * it hears the last. */
static void
test_slow_owner (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  Watch watch = { 0 };
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, dataset, &watch);
  ortrain_trainer_set_epochs (trainer, 5000);
  ortrain_trainer_set_batch_size (trainer, 64);
  g_autoptr (GAsyncResult) result = NULL;
  ortrain_trainer_fit_async (trainer, NULL, on_done, &result);
  for (;;)
    {
      g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
      if (parameters != NULL)
        break;
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
      g_clear_error (&error);
      g_usleep (1000);
    }
  g_assert_cmpuint (watch.n_epochs, ==, 0);
  g_assert_null (result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit_finish (trainer, result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, 5000);
  g_assert_cmpuint (watch.n_epochs, ==, 5000);
  g_assert_cmpuint (watch.n_progress, ==, 1);
  g_assert_cmpfloat (watch.fraction, ==, 1.0);
}

static void
test_evaluate_async (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  double expected[2], found[2];
  g_assert_true (ortrain_trainer_evaluate (trainer, dataset, NULL, &expected[0], &expected[1], &error));
  for (guint cancelled = 0; cancelled < 2; cancelled++)
    {
      g_autoptr (GAsyncResult) result = NULL;
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      if (cancelled)
        g_cancellable_cancel (cancellable);
      ortrain_trainer_evaluate_async (trainer, dataset, cancellable, on_done, &result);
      while (result == NULL)
        g_main_context_iteration (NULL, TRUE);
      g_assert_cmpint (ortrain_trainer_evaluate_finish (trainer, result, &found[0], &found[1], &error), ==, !cancelled);
      if (cancelled)
        {
          g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
          g_clear_error (&error);
          g_assert_true (isnan (found[0]) && found[1] == -1);
        }
      else
        {
          g_assert_no_error (error);
          g_assert_cmpfloat (found[0], ==, expected[0]);
          g_assert_cmpfloat (found[1], ==, expected[1]);
        }
      g_assert_true (ortrain_trainer_evaluate (trainer, dataset, NULL, NULL, NULL, &error)); /* not busy any more */
    }

  /* the asynchronous variants of other functions that read and write models */
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "saved.onnx", NULL);
  g_autoptr (GAsyncResult) saved = NULL, made = NULL;
  ortrain_model_save_async (model->model, path, NULL, on_done, &saved);
  while (saved == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (ortrain_model_save_finish (model->model, saved, &error));
  ortrain_inference_session_new_async (model->model, NULL, NULL, on_done, &made);
  while (made == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new_finish (made, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (inference, model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (outputs), ==, 1);
  g_assert_true (g_file_test (path, G_FILE_TEST_EXISTS));
  test_remove_folder (folder);
}

static void
test_accumulation (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  OrtrainTensorDict *states[2];
  /* Four batches of 16 averaged are one batch of 64. */
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
      ortrain_training_options_set_accumulation_steps (options, i == 0 ? 4 : 1);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
      ortrain_trainer_set_batch_size (trainer, i == 0 ? 16 : 64);
      ortrain_trainer_set_epochs (trainer, 3);
      g_autoptr (OrtrainTrainingHistory) history G_GNUC_UNUSED = ortrain_trainer_fit (trainer, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 3);
      states[i] = ortrain_training_session_get_state (session, &error);
    }
  g_assert_cmpuint (ortrain_tensor_dict_get_size (states[0]), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (states[0]); i++)
    g_assert_cmpfloat (
        test_distance (ortrain_tensor_dict_get_tensor (states[0], i), ortrain_tensor_dict_get_tensor (states[1], i)), <,
        1e-5);
  g_object_unref (states[0]);
  g_object_unref (states[1]);
}

/* ---- updates in the backward pass ---- */

static OrtrainTrainingSession *
make_session (TestModel *model, OrtrainTrainingOptions *options, OrtrainImmediateUpdates when)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_options_set_immediate_updates (options, when);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTrainingHistory *
fit (OrtrainTrainingSession *session, OrtrainDataset *dataset, guint epochs)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  ortrain_trainer_set_epochs (trainer, epochs);
  ortrain_trainer_set_batch_size (trainer, 16);
  ortrain_trainer_set_shuffle (trainer, TRUE);
  ortrain_trainer_set_validation (trainer, dataset);
  OrtrainTrainingHistory *history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  return history;
}

static gsize
get_gradient_bytes (OrtrainTrainingSession *session)
{
  return ortrain_memory_plan_get_persistent (ortrain_training_session_get_memory_plan (session),
                                             ORTRAIN_CATEGORY_GRADIENT);
}

/* A trainer makes updates immediate by itself: the same bits with less memory. */
static void
test_decided (gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name);
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  g_assert_cmpint (ortrain_training_options_get_immediate_updates (options), ==, ORTRAIN_IMMEDIATE_UPDATES_AUTO);
  g_autoptr (OrtrainTrainingSession) kept = make_session (model, options, ORTRAIN_IMMEDIATE_UPDATES_OFF);
  g_autoptr (OrtrainTrainingHistory) want = fit (kept, dataset, 3);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, options, ORTRAIN_IMMEDIATE_UPDATES_AUTO);
  OrtrainGraph *graph = ortrain_training_session_get_training_graph (session);
  const guint n_nodes = g_list_model_get_n_items (ortrain_graph_get_nodes (graph));
  /* a plan made by the session itself is for steps of the user's own loop */
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_GRADIENT), ==,
                    get_gradient_bytes (kept));
  ortrain_training_options_set_memory_budget (options, 1 << 30); /* without one, a device with room keeps gradients */
  g_autoptr (OrtrainTrainingHistory) history = fit (session, dataset, 3);
  g_assert_cmpuint (get_gradient_bytes (session), ==, 0);
  g_assert_cmpuint (get_gradient_bytes (kept), >, 0);
  g_autoptr (GBytes) losses = ortrain_training_history_get_losses (history);
  g_autoptr (GBytes) wanted = ortrain_training_history_get_losses (want);
  g_assert_true (g_bytes_equal (losses, wanted));
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, NULL);
  g_autoptr (OrtrainTensorDict) same = ortrain_training_session_get_state (kept, NULL);
  test_assert_same_bits (state, same);
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_graph_get_nodes (graph)), ==, n_nodes); /* it is still there */

  /* Nothing holds the gradients, in a session that was told to decide. */
  g_assert_null (ortrain_training_session_get_gradients (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE);
  g_assert_nonnull (strstr (error->message, "immediate-updates"));
  g_clear_error (&error);
  g_autoptr (OrtrainTensorDict) gradients G_GNUC_UNUSED = ortrain_training_session_get_gradients (kept, &error);
  g_assert_no_error (error);
}

static void
on_phase (OrtrainTrainingSession *session, OrtrainMemoryReport *report, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) gradients G_GNUC_UNUSED = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  (*(guint *) user_data)++;
}

/* Whatever may need gradients keeps them, and the notes say why. */
static void
test_not_decided (void)
{
  static const char *const reasons[] = { "max-grad-norm", "accumulated", "signal", "signal", "was used before", NULL };
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    {
      g_autoptr (GError) error = NULL;
      guint n_calls = 0;
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      g_autoptr (OrtrainTrainingSession) session = make_session (
          model, options, reasons[i] != NULL ? ORTRAIN_IMMEDIATE_UPDATES_AUTO : ORTRAIN_IMMEDIATE_UPDATES_OFF);
      if (i == 0)
        ortrain_training_options_set_max_grad_norm (options, 1.0); /* after the session was created */
      else if (i == 1)
        ortrain_training_options_set_accumulation_steps (options, 2);
      else if (i < 4)
        g_signal_connect (session, i == 2 ? "post-backward" : "post-update", G_CALLBACK (on_phase), &n_calls);
      else if (reasons[i] != NULL)
        {
          g_autoptr (OrtrainTensorDict) state G_GNUC_UNUSED = ortrain_training_session_get_state (session, &error);
          g_assert_no_error (error);
        }
      for (guint k = 0; k < 2; k++)
        {
          g_autoptr (OrtrainTrainingHistory) history G_GNUC_UNUSED = fit (session, dataset, 1);
        }
      g_assert_cmpuint (n_calls > 0, ==, i == 2 || i == 3);
      g_autoptr (OrtrainTensorDict) gradients G_GNUC_UNUSED = ortrain_training_session_get_gradients (session, &error);
      g_assert_no_error (error);
      g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
      guint n_notes = 0;
      for (guint n = 0; notes[n] != NULL; n++)
        if (strstr (notes[n], "gradients are kept") != NULL)
          {
            n_notes++;
            g_assert_nonnull (strstr (notes[n], reasons[i]));
          }
      g_assert_cmpuint (n_notes, ==, reasons[i] != NULL ? 1 : 0);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trainer/fit", test_fit);
  g_test_add_func ("/trainer/early-end", test_early_end);
  g_test_add_func ("/trainer/resume", test_resume);
  g_test_add_func ("/trainer/resume-early-end", test_resume_early_end);
  g_test_add_func ("/trainer/checkpoint-epochs", test_checkpoint_epochs);
  g_test_add_func ("/trainer/async", test_async);
  g_test_add_func ("/trainer/slow-owner", test_slow_owner);
  g_test_add_func ("/trainer/evaluate-async", test_evaluate_async);
  g_test_add_func ("/trainer/accumulation", test_accumulation);
  g_test_add_data_func ("/trainer/updates/decided/cnn", "cnn", test_decided);
  g_test_add_data_func ("/trainer/updates/decided/gpt2", "gpt2", test_decided);
  g_test_add_func ("/trainer/updates/not-decided", test_not_decided);
  return g_test_run ();
}
