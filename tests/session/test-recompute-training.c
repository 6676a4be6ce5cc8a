/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "all-cases.h"
#include "fixture.h"

#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "session/ortrain-training-session-private.h"

/* Recomputation in the backward pass changes no bit of the trained parameters. */

#define N_STEPS 5

static OrtrainTrainingSession *
make_session_in (TestModel *model, OrtrainPrecision precision, guint64 budget, guint level, const char *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_precision (options, precision);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_memory_opt_level (options, level);
  ortrain_training_options_set_memory_opt_config (options, config);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTrainingSession *
make_session (TestModel *model, guint level, const char *config)
{
  return make_session_in (model, ORTRAIN_PRECISION_F32, 0, level, config);
}

static void
train_steps (OrtrainTrainingSession *session, TestModel *model, guint n_steps, double *losses)
{
  g_autoptr (GError) error = NULL;
  for (guint s = 0; s < n_steps; s++)
    {
      losses[s] = ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
}

static void
train (OrtrainTrainingSession *session, TestModel *model, double *losses)
{
  train_steps (session, model, N_STEPS, losses);
}

/* Runs of something other than a fused chain, or a view. */
static guint
count_recomputed (OrtrainTrainingSession *session)
{
  guint n_steps, n = 0;
  const OrtrainPlanStep *steps =
      ortrain_memory_plan_peek_steps (ortrain_training_session_get_memory_plan (session), &n_steps);
  for (guint s = 0; s < n_steps; s++)
    {
      const OrtrainNode *node = steps[s].node;
      n += node->recomputes != NULL && node->body == NULL &&
           !ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW);
    }
  return n;
}

/* All that can be asked for by one strategy. */
static char *
join_plans (GListModel *clusters, guint strategy)
{
  GString *out = g_string_new (NULL);
  for (guint i = 0; i < g_list_model_get_n_items (clusters); i++)
    {
      g_autoptr (OrtrainRecomputeCluster) cluster = g_list_model_get_item (clusters, i);
      if (ortrain_recompute_cluster_get_strategy (cluster) == strategy)
        g_string_append_printf (out, "%s%s", out->len > 0 ? "," : "",
                                ortrain_recompute_cluster_get_configuration (cluster));
    }
  return g_string_free (out, FALSE);
}

static void
assert_same (TestModel *model, OrtrainTrainingSession *expected, const double *losses, guint level, const char *config)
{
  double found[N_STEPS];
  g_autoptr (OrtrainTrainingSession) session = make_session (model, level, config);
  train (session, model, found);
  g_assert_cmpmem (losses, sizeof found, found, sizeof found);
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_get_state (expected, NULL);
  g_autoptr (OrtrainTensorDict) y = ortrain_training_session_get_state (session, NULL);
  test_assert_same_bits (x, y);
}

/* Every fixture, among them dropout, batch normalization with running statistics, and LSTM. */
static void
test_same_bits (gconstpointer name)
{
  double losses[N_STEPS];
  g_autoptr (TestModel) model = test_model_load (name);
  g_autoptr (OrtrainTrainingSession) expected = make_session (model, 0, NULL);
  train (expected, model, losses);
  g_autoptr (GListModel) clusters = ortrain_training_session_get_recompute_clusters (expected);
  g_assert_cmpuint (g_list_model_get_n_items (clusters), >, 0);
  g_autofree char *plain = join_plans (clusters, 1), *compromised = join_plans (clusters, 2);
  assert_same (model, expected, losses, 0, plain);
  assert_same (model, expected, losses, 1, NULL);
  assert_same (model, expected, losses, 2, NULL);
  if (*compromised != '\0')
    assert_same (model, expected, losses, 0, compromised);
  g_autoptr (OrtrainTrainingSession) all = make_session (model, 0, plain);
  train (all, model, losses);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (all)), <=,
                    ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (expected)));
  /* in operators that are expanded to bodies, each choice may cost memory, and is dropped then */
  if (g_getenv ("ORTRAIN_EXPAND") == NULL)
    g_assert_cmpuint (count_recomputed (all), >, count_recomputed (expected));
}

static OrtrainRecomputeCluster *
find_cluster (OrtrainTrainingSession *session, const char *id)
{
  g_autoptr (GListModel) clusters = ortrain_training_session_get_recompute_clusters (session);
  for (guint i = 0; i < g_list_model_get_n_items (clusters); i++)
    {
      g_autoptr (OrtrainRecomputeCluster) cluster = g_list_model_get_item (clusters, i);
      if (g_str_equal (ortrain_recompute_cluster_get_id (cluster), id))
        return g_steal_pointer (&cluster);
    }
  g_error ("there is no cluster %s", id);
}

/* 0: no cluster; N: the first N; more than there are, and -1: all. */
static void
test_counts (void)
{
  static const struct
  {
    const char *count;
    guint expected;
    gint request;
  } cases[] = { { "0", 0, 0 }, { "1", 1, 1 }, { "2", 2, 2 }, { "3", 3, 3 }, { "100", 3, 100 }, { "-1", 3, -1 } };
  double losses[N_STEPS];
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainTrainingSession) without = make_session (model, 0, NULL);
  train (without, model, losses);
  g_autoptr (OrtrainRecomputeCluster) listed = find_cluster (without, "Gemm+Reshape+");
  g_assert_cmpuint (ortrain_recompute_cluster_get_frequency (listed), ==, 3);
  g_assert_false (ortrain_recompute_cluster_get_enabled (listed));
  g_assert_cmpuint (ortrain_recompute_cluster_get_saving_bytes (listed), >, 0);
  const guint before = count_recomputed (without);
  guint64 first_peak = 0;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *config = g_strconcat ("Gemm+Reshape+:1:", cases[i].count, NULL);
      g_autoptr (OrtrainTrainingSession) session = make_session (model, 0, config);
      train (session, model, losses);
      g_assert_cmpuint (count_recomputed (session) - before, ==, cases[i].expected);
      g_autoptr (OrtrainRecomputeCluster) cluster = find_cluster (session, "Gemm+Reshape+");
      g_assert_cmpint (ortrain_recompute_cluster_get_request_count (cluster), ==, cases[i].request);
      g_assert_cmpuint (ortrain_recompute_cluster_get_n_recomputed (cluster), ==, cases[i].expected);
      g_assert_cmpint (ortrain_recompute_cluster_get_enabled (cluster), ==, cases[i].request != 0);
      const guint64 peak = ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (session));
      if (i == 0)
        first_peak = peak;
      g_assert_cmpuint (peak, <=, first_peak);
    }
}

/* The first ones in topological order. */
static void
test_first_ones (void)
{
  double losses[N_STEPS];
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainTrainingSession) all = make_session (model, 0, "Gemm+Reshape+:1:-1");
  g_autoptr (OrtrainTrainingSession) two = make_session (model, 0, "Gemm+Reshape+:1:2");
  OrtrainTrainingSession *const sessions[] = { all, two };
  g_autoptr (GHashTable) of_all = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) of_two = g_hash_table_new (g_str_hash, g_str_equal);
  GHashTable *const names[] = { of_all, of_two };
  const char *last = NULL;
  for (guint i = 0; i < 2; i++)
    {
      guint n_steps;
      train (sessions[i], model, losses);
      const OrtrainPlanStep *steps =
          ortrain_memory_plan_peek_steps (ortrain_training_session_get_memory_plan (sessions[i]), &n_steps);
      gint32 latest = -1;
      for (guint s = 0; s < n_steps; s++)
        {
          const OrtrainNode *node = steps[s].node;
          if (node->recomputes == NULL || !g_str_equal (node->op_type, "Gemm"))
            continue;
          g_hash_table_add (names[i], node->name);
          if (i == 0 && steps[s].recomputes > latest)
            {
              latest = steps[s].recomputes;
              last = node->name;
            }
        }
    }
  g_assert_cmpuint (g_hash_table_size (names[0]), ==, 3);
  g_assert_cmpuint (g_hash_table_size (names[1]), ==, 2);
  g_assert_false (g_hash_table_contains (names[1], last));
}

/* ---- Each cluster alone, and all, in 16 bits ---- */

#define N_STEPS_16 2

static gsize
get_peak (OrtrainTrainingSession *session)
{
  return ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (session));
}

/* most: the limit of the plan's bytes. Returns its bytes. */
static gsize
check_config (TestModel *model, OrtrainPrecision precision, guint64 budget, guint level, const char *config,
              const double *losses, gsize most)
{
  double found[N_STEPS_16];
  g_autoptr (OrtrainTrainingSession) session = make_session_in (model, precision, budget, level, config);
  train_steps (session, model, N_STEPS_16, found);
  g_test_message ("%s, level %u: peak %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT, config != NULL ? config : "none", level,
                  get_peak (session), most);
  g_assert_cmpmem (losses, sizeof found, found, sizeof found);
  g_assert_cmpuint (get_peak (session), <=, most);
  return get_peak (session);
}

static void
test_clusters (gconstpointer name)
{
  static const OrtrainPrecision precisions[] = { ORTRAIN_PRECISION_BF16, ORTRAIN_PRECISION_FP16,
                                                 ORTRAIN_PRECISION_F32 };
  for (guint p = 0; p < (tests_run_all_cases () ? 3 : 1); p++)
    {
      double losses[N_STEPS_16];
      const OrtrainPrecision precision = precisions[p];
      g_autoptr (TestModel) model = test_model_load (name);
      g_autoptr (OrtrainTrainingSession) plain = make_session_in (model, precision, 0, 0, NULL);
      train_steps (plain, model, N_STEPS_16, losses);
      const gsize peak = get_peak (plain);
      g_autoptr (GListModel) clusters = ortrain_training_session_get_recompute_clusters (plain);
      for (guint i = 0; i < g_list_model_get_n_items (clusters); i++)
        {
          g_autoptr (OrtrainRecomputeCluster) cluster = g_list_model_get_item (clusters, i);
          const char *config = ortrain_recompute_cluster_get_configuration (cluster);
          check_config (model, precision, 0, 0, config, losses, peak);
        }
      g_autofree char *all = join_plans (clusters, 1);
      const gsize with_all = check_config (model, precision, 0, 0, all, losses, peak);
      check_config (model, precision, 0, 1, NULL, losses, peak);
      check_config (model, precision, 0, 2, NULL, losses, peak);
      check_config (model, precision, with_all, 0, all, losses, with_all);
    }
}

/* BERT's residual sums, which others are computed from, take more when they run again: they are kept, and it is said.
 */
static void
test_dropped (void)
{
  double losses[N_STEPS_16];
  g_autoptr (TestModel) model = test_model_load ("bert");
  g_autoptr (OrtrainTrainingSession) session =
      make_session_in (model, ORTRAIN_PRECISION_BF16, 0, 0, "MatMul+Add+Add+:1:-1,MatMul+Add+Reshape+:1:-1");
  g_auto (GStrv) before = ortrain_training_session_get_notes (session);
  train_steps (session, model, N_STEPS_16, losses);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_assert_cmpuint (g_strv_length (notes), ==, g_strv_length (before) + 1);
  const char *note = notes[g_strv_length (notes) - 1];
  g_assert_nonnull (strstr (note, "MatMul+Add+Add+:1"));
  g_assert_null (strstr (note, "MatMul+Add+Reshape+:1"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  test_models_add ("/recompute-training/same-bits", test_same_bits);
  g_test_add_func ("/recompute-training/counts", test_counts);
  g_test_add_func ("/recompute-training/first-ones", test_first_ones);
  g_test_add_func ("/recompute-training/dropped", test_dropped);
  static const char *const few[] = { "bert", "gpt2", "lstm", "mobilenet", "two-heads" };
  for (guint i = 0; i < G_N_ELEMENTS (few) && !tests_run_all_cases (); i++)
    {
      g_autofree char *path = g_strconcat ("/recompute-training/clusters/", few[i], NULL);
      g_test_add_data_func (path, few[i], test_clusters);
    }
  if (tests_run_all_cases ())
    test_models_add ("/recompute-training/clusters", test_clusters);
  return g_test_run ();
}
