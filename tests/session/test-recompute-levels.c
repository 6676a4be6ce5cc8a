/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "folder.h"
#include "layered-models.h"

#include "session/ortrain-training-session-private.h"

/* The peak falls by level, and no bit changes. */

/* How many clusters with that operator run again. */
static guint
count_again (OrtrainTrainingSession *session, const char *operator)
{
  guint n = 0;
  g_autoptr (GListModel) clusters = ortrain_training_session_get_recompute_clusters (session);
  for (guint i = 0; i < g_list_model_get_n_items (clusters); i++)
    {
      g_autoptr (OrtrainRecomputeCluster) cluster = g_list_model_get_item (clusters, i);
      if (!ortrain_recompute_cluster_get_automatic (cluster) &&
          strstr (ortrain_recompute_cluster_get_id (cluster), operator) != NULL)
        n += ortrain_recompute_cluster_get_n_recomputed (cluster);
    }
  return n;
}

static void
test_levels (gconstpointer data)
{
  const LayeredCase *c = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = c->make ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) large = make_layered_feeds (c->text, 32, 128, 1);
  gsize arena[3];
  g_autoptr (OrtrainTensorDict) expected = NULL;
  double losses[3];
  for (guint level = 0; level <= 2; level++)
    {
      g_autoptr (OrtrainTrainingSession) session = make_layered_session (model, c, level, 0);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, large, &error);
      g_assert_no_error (error);
      arena[level] = ortrain_memory_plan_get_arena_bytes (plan);
      g_autofree char *table = ortrain_training_session_format_recompute_table (session, FALSE);
      g_test_message ("level %u: %" G_GSIZE_FORMAT " bytes\n%s", level, arena[level], table);
      const guint n_again = count_again (session, c->text ? "Attention+" : "Conv+");
      g_assert_cmpint (n_again > 0, ==, level > 0);
      for (guint s = 0; s < 3; s++)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_layered_feeds (c->text, 3, 17, 10 + s);
          const double loss = ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          if (level == 0)
            losses[s] = loss;
          g_assert_cmpmem (&loss, sizeof loss, &losses[s], sizeof loss);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      if (level == 0)
        expected = g_steal_pointer (&state);
      else
        test_assert_same_bits (expected, state);
    }
  g_assert_cmpfloat ((double) arena[1], <=, (1 - c->least) * (double) arena[0]);
  g_assert_cmpuint (arena[2], <=, arena[1]);
}

/* ---- options and environment ---- */

static void
assert_options (OrtrainTrainingOptions *options, guint level, const char *config)
{
  g_assert_cmpuint (ortrain_training_options_get_memory_opt_level (options), ==, level);
  g_assert_cmpstr (ortrain_training_options_get_memory_opt_config (options), ==, config);
}

static void
test_environment (void)
{
  g_autoptr (OrtrainTrainingOptions) plain = ortrain_training_options_new ();
  assert_options (plain, 0, NULL);
  g_setenv ("ORTMODULE_MEMORY_OPT_LEVEL", "2", TRUE);
  g_setenv ("ORTMODULE_MEMORY_OPT_CONFIG", "A+:1:-1", TRUE);
  g_autoptr (OrtrainTrainingOptions) alias = ortrain_training_options_new ();
  assert_options (alias, 2, "A+:1:-1");
  g_setenv ("ORTRAIN_MEMORY_OPT_LEVEL", "1", TRUE);
  g_setenv ("ORTRAIN_MEMORY_OPT_CONFIG", "B+:1:-1", TRUE);
  g_autoptr (OrtrainTrainingOptions) own = ortrain_training_options_new ();
  assert_options (own, 1, "B+:1:-1");
  g_unsetenv ("ORTMODULE_MEMORY_OPT_LEVEL");
  g_unsetenv ("ORTMODULE_MEMORY_OPT_CONFIG");
  g_unsetenv ("ORTRAIN_MEMORY_OPT_LEVEL");
  g_unsetenv ("ORTRAIN_MEMORY_OPT_CONFIG");
}

static void
test_options_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-options-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "options.json", NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_file_set_contents (path, "{ \"memory_opt_level\": 1, \"memory-opt-config\": \"A+:1:2\" }", -1, NULL);
  g_assert_true (ortrain_training_options_load_file (options, path, &error));
  g_assert_no_error (error);
  assert_options (options, 1, "A+:1:2");
  static const char *const wrong[] = { "{ \"memory_opt_level\": 3 }", "{ \"memory_opt_level\": -1 }",
                                       "{ \"memory_opt_level\": \"all\" }", "{ \"memory_opt_config\": 1 }" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_file_set_contents (path, wrong[i], -1, NULL);
      g_assert_false (ortrain_training_options_load_file (options, path, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_clear_error (&error);
      assert_options (options, 1, "A+:1:2");
    }
  test_remove_folder (folder);
}

static char *
refuse (OrtrainModel *model, const char *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_memory_opt_config (options, config);
  g_assert_null (ortrain_training_session_new (model, options, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  return g_strdup (error->message);
}

static void
test_refused (void)
{
  g_autoptr (OrtrainGraphBuilder) builder = make_resnet ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, NULL);
  g_autofree char *unknown = refuse (model, "Conv+:1:-1,Nothing+:1:-1");
  g_assert_nonnull (strstr (unknown, "'Nothing+': the training graph has no such cluster; it has "));
  g_assert_nonnull (strstr (unknown, "Conv+"));
  g_autofree char *other = refuse (model, "Conv+:2:-1");
  g_assert_nonnull (strstr (other, "other strategy"));
  g_autofree char *grammar = refuse (model, "Conv+:1");
  g_assert_nonnull (strstr (grammar, "three fields"));
  g_autofree char *file = refuse (model, "/nonexistent/but/long:1:1");
  g_assert_nonnull (strstr (file, "followed by '+'"));
}

/* Where it would save next to nothing, nothing is done, and a note of the session says so once there is a plan. */
static void
test_no_layers (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 sizes[] = { 8, 4, CLASSES };
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_mlp ("mlp", sizes, G_N_ELEMENTS (sizes), 1);
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, NULL);
  const LayeredCase c = { .name = "mlp", .precision = F32, .immediate = OFF };
  g_autoptr (OrtrainTrainingSession) session = make_layered_session (model, &c, 1, 0);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  const gint64 x_dims[] = { 3, 8 }, label_dims[] = { 3 };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, label_dims, 1, NULL);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  g_auto (GStrv) before = ortrain_training_session_get_notes (session);
  g_autofree char *none = g_strjoinv ("\n", before);
  g_assert_null (strstr (none, "nothing is recomputed"));
  g_autoptr (OrtrainMemoryPlan) plan G_GNUC_UNUSED = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *all = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (all, "nothing is recomputed"));
  g_autofree char *table = ortrain_training_session_format_recompute_table (session, FALSE);
  g_assert_nonnull (strstr (table, "OFF : level 1 (layer by layer), but no layers were found"));
}

/* Levels go before plans, and say so. */
static void
test_notes (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = make_gpt ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_memory_opt_level (options, 1);
  ortrain_training_options_set_memory_opt_config (options, "Nothing+:1:-1");
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *all = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (all, "memory-opt-config is ignored"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (layered_cases); i++)
    {
      g_autofree char *path = g_strconcat ("/recompute-levels/", layered_cases[i].name, NULL);
      g_test_add_data_func (path, &layered_cases[i], test_levels);
    }
  g_test_add_func ("/recompute-levels/environment", test_environment);
  g_test_add_func ("/recompute-levels/options-file", test_options_file);
  g_test_add_func ("/recompute-levels/refused", test_refused);
  g_test_add_func ("/recompute-levels/no-layers", test_no_layers);
  g_test_add_func ("/recompute-levels/notes", test_notes);
  return g_test_run ();
}
