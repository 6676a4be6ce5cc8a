/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "session/fixture.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* The state of a training in a checkpoint, in addition to its tensors: whatever is written there, an error names it,
 * and nothing is changed. */

static OrtrainDataset *
make_dataset (TestModel *model)
{
  g_autoptr (GError) error = NULL;
  OrtrainDataset *dataset = ortrain_tensor_dataset_new (test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  return dataset;
}

static OrtrainTrainer *
make_trainer (TestModel *model, OrtrainDataset *dataset, const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  g_autoptr (OrtrainLrSchedule) schedule = ortrain_plateau_schedule_new (0.5, 1);
  ortrain_training_options_set_schedule (options, schedule);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  OrtrainTrainer *trainer = ortrain_trainer_new (session, dataset);
  ortrain_trainer_set_batch_size (trainer, 3);
  ortrain_trainer_set_epochs (trainer, 2);
  ortrain_trainer_set_checkpoint_dir (trainer, folder);
  return trainer;
}

static char *
print_schedule (OrtrainTrainer *trainer)
{
  OrtrainTrainingOptions *options = ortrain_training_session_get_options (ortrain_trainer_get_session (trainer));
  g_autoptr (GVariant) state = ortrain_lr_schedule_save_state (ortrain_training_options_get_schedule (options));
  return g_variant_print (state, TRUE);
}

/* Resuming from this fails with these words, and leaves the session as it is. */
static void
expect_refusal (TestModel *model, OrtrainDataset *dataset, OrtrainCheckpoint *checkpoint, const char *folder,
                const char *words)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (folder, "altered", NULL);
  g_assert_true (ortrain_checkpoint_save (checkpoint, path, NULL, &error));
  g_autoptr (OrtrainTrainer) trainer = make_trainer (model, dataset, path);
  OrtrainTrainingSession *session = ortrain_trainer_get_session (trainer);
  ortrain_training_session_set_metadata (session, "mine", "kept");
  g_autoptr (OrtrainTensorDict) before = ortrain_training_session_get_state (session, &error);
  g_autofree char *schedule = print_schedule (trainer);
  ortrain_trainer_set_resume (trainer, TRUE);
  g_assert_null (ortrain_trainer_fit (trainer, NULL, &error));
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  if (strstr (error->message, words) == NULL)
    g_error ("“%s” has no “%s”", error->message, words);
  g_clear_error (&error);
  g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_state (session, &error);
  g_autofree char *schedule_after = print_schedule (trainer);
  test_assert_same_bits (before, after);
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 0);
  g_assert_cmpstr (ortrain_training_session_get_metadata (session, "mine"), ==, "kept");
  g_assert_null (ortrain_training_session_get_metadata (session, "trainer.epoch"));
  g_assert_cmpstr (schedule_after, ==, schedule);
  test_remove_folder (path);
}

static OrtrainCheckpoint *
load (const char *path)
{
  g_autoptr (GError) error = NULL;
  OrtrainCheckpoint *checkpoint = ortrain_checkpoint_load (path, &error);
  g_assert_no_error (error);
  return checkpoint;
}

/* The same metadata with another value for a key. */
static void
set_metadata (OrtrainCheckpoint *checkpoint, const char *changed, const char *text)
{
  GVariantBuilder builder;
  GVariantIter iter;
  const char *key, *value;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  g_variant_iter_init (&iter, ortrain_checkpoint_get_value (checkpoint, "metadata"));
  while (g_variant_iter_next (&iter, "{&s&s}", &key, &value))
    g_variant_builder_add (&builder, "{ss}", key, g_str_equal (key, changed) ? text : value);
  ortrain_checkpoint_set_value (checkpoint, "metadata", g_variant_builder_end (&builder));
}

#define LOADER(epoch, position, length, seed, batch, shuffle)                                                          \
  "{'epoch': <" epoch ">, 'position': <" position ">, 'length': <" length ">, 'seed': <" seed                          \
  ">, 'batch-size': <" batch ">, 'shuffle': <" shuffle ">, 'drop-last': <false>}"

static void
test_trainer (void)
{
  static const struct
  {
    const char *key, *text, *words;
  } cases[] = {
    { "trainer.epoch", "-1", "'trainer.epoch' is -1" },
    { "trainer.epoch", "0.5", "'trainer.epoch' is 0.5" },
    { "trainer.epoch", "1e300", "'trainer.epoch' is 1e+300" },
    { "trainer.epoch", "nan", "'trainer.epoch' is nan" },
    { "trainer.epoch", "x", "'trainer.epoch' is 'x'" },
    { "trainer.waited", "-3", "'trainer.waited' is -3" },
    { "trainer.loss-terms", "-inf", "'trainer.loss-terms' is -inf" },
    { "trainer.peak-bytes", "-1", "'trainer.peak-bytes' is -1" },
    { "trainer.trained", "2", "'trainer.trained' is 2" },
    { "trainer.loss-sum", "nan", "'trainer.loss-sum' is nan" },
    { "trainer.loss-sum", "inf", "'trainer.loss-sum' is inf" },
    { "trainer.best", "-inf", "'trainer.best' is -inf" },
    { "trainer.best", "", "'trainer.best' is ''" },
    { "trainer.loader", "", "'trainer.loader'" },
    { "trainer.loader", "7", "'trainer.loader'" },
    { "trainer.loader", "{'epoch': <uint64 1>}", "'trainer.loader': State of the data loader: 'length' is missing" },
    { "trainer.loader", LOADER ("int64 -1", "uint64 0", "uint64 16", "uint64 0", "uint32 3", "true"), "'epoch' is -1" },
    { "trainer.loader", LOADER ("uint64 0", "int32 -5", "uint64 16", "uint64 0", "uint32 3", "true"),
      "'position' is -5" },
    { "trainer.loader", LOADER ("uint64 0", "uint64 17", "uint64 16", "uint64 0", "uint32 3", "true"),
      "'position' is 17, not a whole number from 0 to 16" },
    { "trainer.loader", LOADER ("uint64 18446744073709551615", "uint64 0", "uint64 16", "uint64 0", "uint32 3", "true"),
      "'epoch' is 18446744073709551615" },
    { "trainer.loader", LOADER ("uint64 0", "uint64 0", "uint64 99", "uint64 0", "uint32 3", "true"),
      "a dataset of 99 items" },
    { "trainer.loader", LOADER ("uint64 0", "uint64 0", "uint64 16", "'x'", "uint32 3", "true"), "'seed' is 'x'" },
    { "trainer.loader", LOADER ("uint64 0", "uint64 0", "uint64 16", "uint64 0", "uint32 0", "true"),
      "'batch-size' is 0" },
    { "trainer.loader", LOADER ("uint64 0", "uint64 0", "uint64 16", "uint64 0", "uint32 3", "2.5"),
      "'shuffle' is 2.5" },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = make_dataset (model);
  g_assert_cmpuint (ortrain_dataset_get_length (dataset), ==, 16);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *good = g_build_filename (folder, "good", NULL);
  g_autoptr (OrtrainTrainer) trainer = make_trainer (model, dataset, good);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (history);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainCheckpoint) checkpoint = load (good);
      set_metadata (checkpoint, cases[i].key, cases[i].text);
      expect_refusal (model, dataset, checkpoint, folder, cases[i].words);
    }
  test_remove_folder (folder);
}

static void
test_session (void)
{
  static const struct
  {
    const char *key, *value, *words;
  } cases[] = {
    { "updates", "int64 -1", "'updates' is -1" },
    { "train-steps", "uint64 18446744073709551615", "'train-steps' is 18446744073709551615" },
    { "seed", "'x'", "'seed' is 'x'" },
    { "metadata", "7", "'metadata' is 7" },
    { "schedule", "(true, nan, 0.5, uint32 1)", "'schedule' is (true, nan, 0.5, 1)" },
    { "schedule", "(true, 1.0, nan, uint32 1)", "'schedule' is (true, 1.0, nan, 1)" },
    { "schedule", "(true, 1.0, -0.5, uint32 1)", "'schedule' is (true, 1.0, -0.5, 1)" },
    { "schedule", "(true, 1.0, 1e9, uint32 1)", "'schedule' is (true, 1.0, 1000000000.0, 1)" },
    { "schedule", "(true, 1.0, 0.5, uint32 4294967295)", "'schedule' is (true, 1.0, 0.5, 4294967295)" },
    { "schedule", "(true, 1.0, 0.5, -1)", "'schedule' is (true, 1.0, 0.5, -1)" },
    { "schedule", "'x'", "'schedule' is 'x'" },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainDataset) dataset = make_dataset (model);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *good = g_build_filename (folder, "good", NULL);
  g_autoptr (OrtrainTrainer) trainer = make_trainer (model, dataset, good);
  g_autoptr (OrtrainTrainingHistory) history G_GNUC_UNUSED = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainCheckpoint) checkpoint = load (good);
      g_autoptr (GVariant) value = g_variant_parse (NULL, cases[i].value, NULL, NULL, &error);
      g_assert_no_error (error);
      ortrain_checkpoint_set_value (checkpoint, cases[i].key, value);
      expect_refusal (model, dataset, checkpoint, folder, cases[i].words);
    }
  test_remove_folder (folder);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hostile-states/trainer", test_trainer);
  g_test_add_func ("/hostile-states/session", test_session);
  return g_test_run ();
}
