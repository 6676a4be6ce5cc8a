/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a training ends: early, by request, with the best of its epochs; and how it goes on after that. */
#include "fixture.h"
#include "folder.h"

#include <unistd.h>

typedef struct
{
  OrtrainTensorDict *states[8]; /* at the ends of epochs */
  double losses[8];
  guint n, stop_epoch, stop_progress, n_progress;
} Epochs;

/* A learning rate that soon makes things worse. */
static void
record_epoch (OrtrainTrainer *trainer, OrtrainEpochRecord *record, gpointer user_data)
{
  Epochs *epochs = user_data;
  g_autoptr (GError) error = NULL;
  OrtrainTrainingSession *session = ortrain_trainer_get_session (trainer);
  g_assert_cmpuint (epochs->n, <, G_N_ELEMENTS (epochs->states));
  epochs->states[epochs->n] = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  epochs->losses[epochs->n++] = ortrain_epoch_record_get_validation_loss (record);
  if (epochs->n == 2)
    ortrain_optimizer_set_learning_rate (
        ortrain_training_options_get_optimizer (ortrain_training_session_get_options (session)), 1.0);
  if (epochs->n == epochs->stop_epoch)
    ortrain_trainer_stop (trainer);
}

static void
stop_at (OrtrainTrainer *trainer, OrtrainProgress *progress, gpointer user_data)
{
  Epochs *epochs = user_data;
  if (++epochs->n_progress == epochs->stop_progress)
    ortrain_trainer_stop (trainer);
}

static void
clear_epochs (Epochs *epochs)
{
  for (guint i = 0; i < epochs->n; i++)
    g_object_unref (epochs->states[i]);
  *epochs = (Epochs){ 0 };
}

static void
test_best (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn"); /* with running statistics */
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *best = g_build_filename (folder, "best", NULL);
  Epochs epochs = { 0 };
  /* 0: stops early, 1: keeps the last, 2: is out of epochs, 3: goes on from 1 */
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
      g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
      g_object_set (trainer, "epochs", i == 2 ? 3 : 8, "validation", dataset, "patience", 2, "restore-best", i != 1,
                    "batch-size", 16, "checkpoint-dir", i == 2 ? NULL : folder, "resume", i == 3, NULL);
      if (i < 3)
        g_signal_connect (trainer, "epoch-ended", G_CALLBACK (record_epoch), &epochs);
      g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpint (ortrain_training_history_get_stopped_early (history), ==, i != 2);
      g_assert_cmpuint (epochs.n, ==, i == 3 ? 0 : i == 2 ? 3 : 4);
      if (i < 3)
        {
          g_assert_cmpuint (ortrain_training_history_get_best_epoch (history), ==, 2);
          g_assert_cmpfloat (epochs.losses[2], >, epochs.losses[1]);
        }
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      g_autoptr (OrtrainTrainingSession) other = test_model_make_session (model, "sgd");
      if (i == 0)
        {
          test_assert_same_bits (state, epochs.states[1]);
          for (guint k = 0; k < 2; k++) /* on the disk, both */
            {
              g_assert_true (ortrain_training_session_load_checkpoint (other, k == 0 ? best : folder, &error));
              g_autoptr (OrtrainTensorDict) saved = ortrain_training_session_get_state (other, &error);
              test_assert_same_bits (saved, epochs.states[k == 0 ? 1 : 3]);
            }
        }
      else if (i == 1)
        test_assert_same_bits (state, epochs.states[3]);
      else if (i == 2)
        test_assert_same_bits (state, epochs.states[1]);
      else
        {
          g_assert_true (ortrain_training_session_load_checkpoint (other, best, &error));
          g_autoptr (OrtrainTensorDict) saved = ortrain_training_session_get_state (other, &error);
          test_assert_same_bits (state, saved);
        }
      clear_epochs (&epochs);
    }
  test_remove_folder (folder);
}

/* By the handler of the end of an epoch, or of a step; the saved training goes on to the same bits. */
static void
test_stop (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autoptr (OrtrainTensorDict) expected = NULL;
  /* 0: not, 1: at an end, 2: in an epoch, 3: after the last step of one, 4 and 5: with two steps an update */
  static const guint steps[] = { 12, 4, 6, 8, 12, 6 };
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      Epochs epochs = { .stop_epoch = i == 1 ? 1 : 0, .stop_progress = i == 2 ? 6 : i == 3 ? 8 : i == 5 ? 5 : 0 };
      g_autofree char *name = g_strdup_printf ("stop-%u", i);
      g_autofree char *path = g_build_filename (folder, name, NULL);
      for (guint resumes = 0; resumes < 2; resumes++)
        {
          g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
          ortrain_training_options_set_accumulation_steps (options, i < 4 ? 1 : 2);
          g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
          g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
          g_object_set (trainer, "epochs", 3, "batch-size", 16, "checkpoint-dir", path, "resume", resumes, NULL);
          if (!resumes)
            {
              g_signal_connect (trainer, "epoch-ended", G_CALLBACK (record_epoch), &epochs);
              g_signal_connect (trainer, "progress", G_CALLBACK (stop_at), &epochs);
              if (epochs.stop_epoch == 0)
                g_signal_handlers_disconnect_by_func (trainer, record_epoch, &epochs);
            }
          g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
          g_assert_no_error (error);
          g_assert_cmpint (ortrain_training_history_get_stopped_early (history), ==, !resumes && steps[i] < 12);
          g_assert_cmpuint (ortrain_training_history_get_n_steps (history), ==, resumes ? 12 - steps[i] : steps[i]);
          g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
          if (!resumes && (i == 0 || i == 4))
            g_set_object (&expected, state);
          else if (resumes)
            test_assert_same_bits (state, expected);
        }
      clear_epochs (&epochs);
    }
  test_remove_folder (folder);
}

/* Writes a manifest, or something else in its place. */
static void
damage (const char *folder, guint how)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *manifest = g_build_filename (folder, "manifest.json", NULL), *text = NULL;
  gsize size;
  g_assert_true (g_file_get_contents (manifest, &text, &size, &error));
  switch (how)
    {
    case 0:
      g_assert_true (g_file_set_contents (manifest, "", 0, &error));
      break;
    case 1:
      g_assert_true (g_file_set_contents (manifest, " \n", 2, &error));
      break;
    case 2:
      g_assert_true (g_file_set_contents (manifest, text, (gssize) size / 2, &error));
      break;
    case 3:
      g_assert_true (g_file_set_contents (manifest, "null", 4, &error));
      break;
    default: /* 4: gone; 5: a folder; 6: a link to nowhere */
      g_assert_cmpint (g_remove (manifest), ==, 0);
      if (how == 5)
        g_assert_cmpint (g_mkdir (manifest, 0777), ==, 0);
      else if (how == 6)
        g_assert_cmpint (symlink ("nowhere", manifest), ==, 0);
    }
  g_assert_no_error (error);
}

/* Trains from a folder. damaged: its checkpoint cannot be read, which is an error, and the session stays as it was. */
static GError *
resume (TestModel *model, OrtrainDataset *dataset, const char *folder, guint n_epochs, gboolean validates,
        gboolean damaged)
{
  GError *error = NULL;
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "adamw");
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  g_autoptr (OrtrainTensorDict) before = ortrain_training_session_get_state (session, NULL);
  g_object_set (trainer, "epochs", n_epochs, "batch-size", 16, "checkpoint-dir", folder, "resume", TRUE, NULL);
  if (validates)
    g_object_set (trainer, "validation", dataset, "patience", 5, NULL);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  if (!damaged)
    {
      g_assert_no_error (error);
      g_assert_cmpuint (ortrain_training_history_get_n_epochs (history), ==, n_epochs);
      return NULL;
    }
  g_assert_nonnull (error);
  g_assert_null (history);
  g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_state (session, NULL);
  test_assert_same_bits (after, before);
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 0);
  return error;
}

/* A checkpoint without its manifest, or with a damaged one, is an error, and nothing has changed; where none was saved
 * yet, training begins. */
static void
test_damaged (void)
{
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  for (guint how = 0; how < 7; how++)
    {
      g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
      resume (model, dataset, folder, 2, FALSE, FALSE);
      damage (folder, how);
      g_autoptr (GError) error = resume (model, dataset, folder, 2, FALSE, TRUE);
      g_assert_true (error->domain == ORTRAIN_CHECKPOINT_ERROR || error->domain == G_IO_ERROR);
      test_remove_folder (folder);
    }
}

/* The best epoch's checkpoint is damaged, the last one is not: neither is used. */
static void
test_damaged_best (void)
{
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *best = g_build_filename (folder, "best", NULL);
  resume (model, dataset, folder, 2, TRUE, FALSE);
  damage (best, 2);
  g_autoptr (GError) error = resume (model, dataset, folder, 3, TRUE, TRUE);
  g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID);
  test_remove_folder (folder);
}

/* The batch size that is set counts, not the one in the checkpoint: the items not seen yet come in batches of the new
 * size. */
static void
test_resume_batch_size (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = test_model_make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  Epochs epochs = { .stop_progress = 2 };
  for (guint resumes = 0; resumes < 2; resumes++)
    {
      g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
      g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
      g_object_set (trainer, "epochs", 2, "batch-size", resumes ? 8 : 16, "checkpoint-dir", folder, "resume", resumes,
                    NULL);
      g_signal_connect (trainer, "progress", G_CALLBACK (stop_at), &epochs);
      g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
      g_assert_no_error (error);
      /* 32 of 64 items, then the others and an epoch */
      g_assert_cmpuint (ortrain_training_history_get_n_steps (history), ==, resumes ? 4 + 8 : 2);
    }
  test_remove_folder (folder);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trainer/best", test_best);
  g_test_add_func ("/trainer/stop", test_stop);
  g_test_add_func ("/trainer/resume-batch-size", test_resume_batch_size);
  g_test_add_func ("/trainer-ends/damaged", test_damaged);
  g_test_add_func ("/trainer-ends/damaged-best", test_damaged_best);
  return g_test_run ();
}
