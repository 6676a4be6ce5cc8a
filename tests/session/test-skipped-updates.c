/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Updates that are left out as scaled gradients overflow: the change of the scale, and the reports of a training on
 * them. */
#include "ortrain.h"

#include "folder.h"

#include <math.h>
#include <string.h>

/* y = x · w, [batch, 1]: the gradient of w is the sum of x and y, which, scaled, overflows float32 where x is large. */
static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("scaled");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 2");
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "fc", 1, FALSE), "y");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_items (const gboolean *overflows, gint64 n)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *items = ortrain_tensor_dict_new ();
  const gint64 dims[] = { n, 2 };
  g_autofree float *x = g_new (float, n * 2);
  for (gint64 i = 0; i < n * 2; i++)
    x[i] = overflows[i / 2] ? 1e30f : 0.5f;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 2, (const guint8 *) x,
                                                                  (gsize) n * 2 * sizeof *x, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (items, "x", tensor);
  return items;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, OrtrainLossScaler *scaler)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (1e-3);
  g_autoptr (OrtrainLoss) loss = ortrain_l1_loss_new ("y", "wanted");
  ortrain_training_options_add_loss (options, loss);
  g_object_set (options, "optimizer", optimizer, "loss-scaler", scaler, "threads", 1, NULL);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static void
add_wanted (OrtrainTensorDict *items, gint64 n)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[] = { n, 1 };
  g_autoptr (OrtrainTensor) wanted = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (items, "wanted", wanted);
}

static void
step (OrtrainTrainingSession *session, gboolean overflows)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) items = make_items (&overflows, 1);
  add_wanted (items, 1);
  ortrain_training_session_train_step (session, items, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_no_error (error);
}

/* DeepSpeed's rule, with consecutive_hysteresis false. */
typedef struct
{
  double scale;
  guint left, good;
} Rule;

static void
follow (Rule *rule, gboolean overflows, guint hysteresis, guint window)
{
  if (overflows && rule->left > 1)
    rule->left--;
  else if (overflows)
    rule->scale = MAX (rule->scale / 2, 1.0);
  rule->good = overflows ? 0 : rule->good + 1;
  if (rule->good == window)
    {
      rule->left = hysteresis;
      rule->scale *= 2;
      rule->good = 0;
    }
}

/* The whole course is that of the rule, also across a checkpoint. */
static void
test_hysteresis (void)
{
  static const char course[] = "xx.x....xxx.x...x..........x.xxxx...xx....x";
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint hysteresis = 1; hysteresis <= 4; hysteresis++)
    {
      g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
      g_autoptr (OrtrainLossScaler) scaler =
          g_object_new (ORTRAIN_TYPE_LOSS_SCALER, "initial-scale", 0x1p70, "maximum-scale", 0x1p100, "growth-interval",
                        3, "hysteresis", hysteresis, NULL);
      g_autoptr (OrtrainTrainingSession) session = make_session (model, scaler);
      Rule rule = { 0x1p70, hysteresis, 0 };
      guint n_overflows = 0;
      for (guint i = 0; course[i] != '\0'; i++)
        {
          const gboolean overflows = course[i] == 'x';
          step (session, overflows);
          follow (&rule, overflows, hysteresis, 3);
          n_overflows += overflows;
          g_assert_cmpfloat (ortrain_training_session_get_loss_scale (session), ==, rule.scale);
          g_assert_cmpuint (ortrain_training_session_get_n_overflows (session), ==, n_overflows);
          g_assert_cmpuint (ortrain_training_session_get_step (session), ==, i + 1 - n_overflows);
          if (i % 7 != 2)
            continue;
          g_assert_true (ortrain_training_session_save_checkpoint (session, folder, &error));
          g_assert_no_error (error);
          g_object_unref (session);
          session = make_session (model, scaler);
          g_assert_true (ortrain_training_session_load_checkpoint (session, folder, &error));
          g_assert_no_error (error);
        }
      test_remove_folder (folder);
    }
}

static OrtrainTrainer *
make_trainer (OrtrainTrainingSession *session, const char *course)
{
  g_autoptr (GError) error = NULL;
  const gint64 n = (gint64) strlen (course);
  g_autofree gboolean *overflows = g_new (gboolean, n);
  for (gint64 i = 0; i < n; i++)
    overflows[i] = course[i] == 'x';
  g_autoptr (OrtrainTensorDict) items = make_items (overflows, n);
  add_wanted (items, n);
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (items, &error);
  g_assert_no_error (error);
  OrtrainTrainer *trainer = ortrain_trainer_new (session, dataset);
  g_object_set (trainer, "batch-size", 1, "epochs", 2, "shuffle", FALSE, "show-progress", ORTRAIN_SHOW_PROGRESS_NEVER,
                NULL);
  return trainer;
}

static void
note_skipped (OrtrainTrainer *trainer, OrtrainProgress *progress, gpointer most)
{
  *(guint64 *) most = MAX (*(guint64 *) most, progress->skipped_updates);
}

static void
test_training (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", &error);
  g_autofree char *csv = g_build_filename (folder, "log.csv", NULL),
                  *json = g_build_filename (folder, "log.jsonl", NULL);
  const char *const logs[] = { csv, json, NULL };
  g_autoptr (OrtrainLossScaler) scaler =
      g_object_new (ORTRAIN_TYPE_LOSS_SCALER, "initial-scale", 0x1p70, "maximum-scale", 0x1p100, NULL);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, scaler);
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, "x..x.");
  guint64 most = 0;
  g_object_set (trainer, "logs", logs, NULL);
  g_signal_connect (trainer, "progress", G_CALLBACK (note_skipped), &most);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_skipped_updates (history), ==, 4);
  g_autoptr (OrtrainEpochRecord) record = g_list_model_get_item (ortrain_training_history_get_epochs (history), 0);
  g_assert_cmpuint (ortrain_epoch_record_get_skipped_updates (record), ==, 2);
  g_assert_cmpuint (most, ==, 2);
  g_autofree char *table = NULL, *lines = NULL;
  g_assert_true (g_file_get_contents (csv, &table, NULL, &error));
  g_assert_true (g_file_get_contents (json, &lines, NULL, &error));
  g_assert_true (g_str_has_prefix (table, "event,epoch,step,loss,learning_rate,validation_loss,accuracy,seconds,"
                                          "skipped_updates,uncounted_steps\n"));
  g_assert_nonnull (strstr (table, ",2,0\n"));
  g_assert_nonnull (strstr (lines, "\"skipped_updates\":2,\"uncounted_steps\":0}"));
  test_remove_folder (folder);
}

/* Nothing was trained: that is no success. */
static void
test_all_skipped (void)
{
  static const struct
  {
    const char *message;
    gboolean dynamic;
    double scale;
  } cases[] = {
    { "*All 6 updates were skipped, nothing was trained*fallen to*bf16 or f32*", TRUE, 0x1p100 },
    { "*All 6 updates were skipped, nothing was trained*loss scale of*bf16 or f32*", FALSE, 0x1p100 },
  };
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainLossScaler) scaler = g_object_new (ORTRAIN_TYPE_LOSS_SCALER, "initial-scale", cases[i].scale,
                                                           "maximum-scale", 0x1p110, "dynamic", cases[i].dynamic, NULL);
      g_autoptr (OrtrainTrainingSession) session = make_session (model, scaler);
      g_autoptr (OrtrainTrainer) trainer = make_trainer (session, "xxx");
      g_assert_null (ortrain_trainer_fit (trainer, NULL, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
      if (!g_pattern_match_simple (cases[i].message, error->message))
        g_error ("%s", error->message);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/skipped-updates/hysteresis", test_hysteresis);
  g_test_add_func ("/skipped-updates/training", test_training);
  g_test_add_func ("/skipped-updates/all", test_all_skipped);
  return g_test_run ();
}
