/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"
#include "text-model.h"

/* A budget for batches of varying length: kept or refused for each, with one search for all. */

static OrtrainTrainingSession *
make_session (OrtrainModel *model, guint64 budget, gboolean pattern)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "targets");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_memory_pattern (options, pattern);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainMemoryPlan *
plan_length (OrtrainTrainingSession *session, gint64 batch, gint64 length, GError **error)
{
  g_autoptr (OrtrainTensorDict) feeds = text_make_feeds (0, batch, length, TRUE);
  return ortrain_training_session_plan (session, feeds, error);
}

static guint
count_searches (OrtrainTrainingSession *session)
{
  return ortrain_executor_get_n_searches (session->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
}

static guint64
measure_peak (OrtrainModel *model, gint64 batch, gint64 length, gboolean pattern)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, 0, pattern);
  g_autoptr (OrtrainMemoryPlan) plan = plan_length (session, batch, length, &error);
  g_assert_no_error (error);
  return ortrain_memory_plan_get_peak_bytes (plan);
}

#define BATCH 64

/* Lengths of which some fit as they are, some with recomputation, and the same bits as without a budget. */
static void
test_one_search (gconstpointer data)
{
  const gboolean pattern = GPOINTER_TO_INT (data);
  g_autoptr (OrtrainModel) model = text_make_model ();
  const guint64 longest = measure_peak (model, BATCH, MAX_LENGTH, pattern);
  const guint64 budget = measure_peak (model, BATCH, MAX_LENGTH * 5 / 8, pattern);
  g_assert_cmpuint (budget, <, longest);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, budget, pattern);
  g_autoptr (OrtrainTrainingSession) reference = make_session (model, 0, TRUE);
  guint n_recomputed = 0;
  for (guint i = 0; i < MAX_LENGTH; i++)
    {
      g_autoptr (GError) error = NULL;
      const gint64 length = MAX_LENGTH - i * 13 % (MAX_LENGTH - 2);
      double loss, expected;
      g_assert_true (text_train_step (session, i, BATCH, length, &loss, &error));
      g_assert_no_error (error);
      g_assert_true (text_train_step (reference, i, BATCH, length, &expected, &error));
      g_assert_true (memcmp (&loss, &expected, sizeof loss) == 0);
      OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
      OrtrainMemoryPlan *whole = ortrain_training_session_get_memory_plan (reference);
      g_autoptr (OrtrainMemoryReport) report = ortrain_training_session_get_memory_report (session);
      g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), <=, budget);
      g_assert_cmpuint (report->max_allocated, <=, budget);
      g_assert_cmpuint (report->max_cached, <=, budget);
      const gboolean fits = ortrain_memory_plan_get_peak_bytes (whole) <= budget;
      const gboolean recomputes =
          ortrain_memory_plan_get_n_recomputed_steps (plan) > ortrain_memory_plan_get_n_recomputed_steps (whole);
      if (pattern && fits)
        g_assert_false (recomputes); /* another order of the steps may do where it does not fit */
      n_recomputed += recomputes;
    }
  g_assert_cmpuint (n_recomputed, >, 8);
  g_assert_cmpuint (count_searches (session), ==, 1);
  text_check_same_parameters (session, reference);
}

/* A budget that cannot be met is refused, before as after one that can. */
static void
test_refused (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  const guint64 budget = measure_peak (model, BATCH, MAX_LENGTH / 4, TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, budget, TRUE);
  for (guint round = 0; round < 2; round++)
    {
      g_autoptr (GError) error = NULL;
      double loss;
      g_assert_false (text_train_step (session, 0, BATCH, MAX_LENGTH, &loss, &error));
      g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
      g_clear_error (&error);
      for (gint64 length = MAX_LENGTH / 4 - 2; length < MAX_LENGTH / 4 + 3; length++)
        {
          g_assert_true (text_train_step (session, 0, BATCH, length, &loss, &error));
          g_assert_no_error (error);
          OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
          g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), <=, budget);
        }
    }
}

/* Less budget never takes more memory, for each member: as long as it is the same one that was searched for. */
static void
test_monotone (void)
{
  g_autoptr (OrtrainModel) model = text_make_model ();
  const guint64 longest = measure_peak (model, BATCH, MAX_LENGTH, TRUE);
  guint64 last[MAX_LENGTH + 1];
  guint n_met = 0;
  for (gint64 length = 2; length <= MAX_LENGTH; length++)
    last[length] = G_MAXUINT64;
  for (guint percent = 100; last[MAX_LENGTH] > 0; percent--)
    {
      const guint64 budget = longest * percent / 100;
      g_autoptr (OrtrainTrainingSession) session = make_session (model, budget, TRUE);
      for (gint64 length = MAX_LENGTH; length > 4; length -= 3)
        {
          g_autoptr (GError) error = NULL;
          g_autoptr (OrtrainMemoryPlan) plan = plan_length (session, BATCH, length, &error);
          if (plan == NULL)
            {
              g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
              last[length] = 0;
              break;
            }
          const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan);
          g_assert_cmpuint (peak, <=, budget);
          g_assert_cmpuint (peak, <=, last[length]);
          last[length] = peak;
          n_met++;
        }
    }
  g_assert_cmpuint (n_met, >, 200);
}

int
main (int argc, char **argv)
{
  g_setenv ("ORTRAIN_CACHE", "off", TRUE); /* searches are counted */
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/shape-families/one-search", GINT_TO_POINTER (TRUE), test_one_search);
  g_test_add_data_func ("/shape-families/one-search-without-pattern", GINT_TO_POINTER (FALSE), test_one_search);
  g_test_add_func ("/shape-families/refused", test_refused);
  g_test_add_func ("/shape-families/monotone", test_monotone);
  return g_test_run ();
}
