/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "all-cases.h"
#include "fixture.h"

/* Promise: a memory budget is never exceeded, less budget never means more memory, and the result is the same, bit for
 * bit, at every budget. */

#define N_STEPS 20

typedef struct
{
  guint64 peak;    /* 0: the budget cannot be met */
  guint n_repeats; /* steps that run nodes of the forward pass again */
} Point;

static OrtrainTrainingSession *
make_session (TestModel *model, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_memory_budget (options, budget);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static guint
count_repeats (OrtrainMemoryPlan *plan)
{
  g_autofree char *json = ortrain_memory_plan_to_json (plan);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_true (json_parser_load_from_data (parser, json, -1, NULL));
  JsonObject *object = json_node_get_object (json_parser_get_root (parser));
  return json_array_get_length (json_object_get_array_member (object, "recompute"));
}

static Point
plan_at (TestModel *model, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, budget);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  if (plan == NULL)
    {
      g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
      return (Point){ 0 };
    }
  return (Point){ ortrain_memory_plan_get_peak_bytes (plan), count_repeats (plan) };
}

/* Losses, followed by parameters. */
static OrtrainTensorDict *
train (TestModel *model, guint64 budget, double *losses)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, budget);
  for (guint i = 0; i < N_STEPS; i++)
    {
      losses[i] = ortrain_training_session_train_step (session, test_model_feeds (model, i), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_no_error (error);
      g_autoptr (OrtrainMemoryReport) report = ortrain_training_session_get_memory_report (session);
      if (budget > 0)
        g_assert_cmpuint (report->max_allocated, <=, budget);
    }
  OrtrainTensorDict *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return parameters;
}

static void
sweep (const char *name, guint n_points)
{
  g_autoptr (TestModel) model = test_model_load (name);
  double expected[N_STEPS], losses[N_STEPS];
  const Point whole = plan_at (model, 0);
  g_autoptr (OrtrainTensorDict) parameters = train (model, 0, expected);
  Point last = whole;
  guint n_met = 0, n_different = 0, n_refused = 0;
  for (guint i = n_points; i-- > 0;)
    {
      const guint64 budget = whole.peak * (i + 1) / n_points;
      const Point point = plan_at (model, budget);
      if (point.peak == 0)
        {
          last = point;
          if (++n_refused == 3 && !tests_run_all_cases ())
            break;
          continue;
        }
      g_assert_cmpuint (last.peak, >, 0); /* a budget met with less memory is met with more */
      g_assert_cmpuint (point.peak, <=, budget);
      g_assert_cmpuint (point.peak, <=, last.peak);
      n_met++;
      if (point.peak == last.peak && i + 1 < n_points)
        continue;
      n_different++;
      g_autoptr (OrtrainTensorDict) found = train (model, budget, losses);
      g_assert_cmpmem (losses, sizeof losses, expected, sizeof expected);
      test_assert_same_bits (found, parameters);
      last = point;
      g_test_message ("%s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes, %u steps run again", name, point.peak,
                      whole.peak, point.n_repeats);
    }
  g_assert_cmpuint (n_met, >, 0);
  static const char *const improves[] = { "bert", "distilbert", "gpt2", "lstm", "mobilenet", "unet", NULL };
  if (g_strv_contains (improves, name))
    g_assert_cmpuint (n_different, >, 1); /* smaller budgets than the peak are met */
}

static void
test_promise_3 (gconstpointer name)
{
  static const char *const whole[] = { "bert", "cnn", "gpt2", "lstm", "unet", NULL };
  const guint few = g_str_equal (name, "mobilenet") ? 20 : 10; /* 90 % of its peak cannot be met */
  sweep (name, !g_strv_contains (whole, name) ? few : tests_run_all_cases () ? 100 : 20);
}

/* "1.95 MiB are the least": whatever the budget is that is too small. */
static char *
get_least (const GError *error)
{
  const char *begin = strstr (error->message, ", and "), *end = strstr (error->message, " are the least ");
  g_assert_true (begin != NULL && end > begin);
  return g_strndup (begin, (gsize) (end - begin));
}

static void
test_text (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainTrainingSession) session = make_session (model, 1000);
  g_assert_cmpfloat (ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error), !=, 0.5);
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  g_test_message ("%s", error->message);
  g_assert_true (g_str_has_prefix (error->message, "The plan needs "));
  g_assert_nonnull (strstr (error->message, ", the budget is 1000 B, and "));
  g_assert_nonnull (
      strstr (error->message, " are the least that recomputing in the backward pass reaches. Its peak is at step "));
  g_assert_nonnull (strstr (error->message, "; held from step to step: parameter "));
  g_assert_nonnull (strstr (error->message, "; of '"));
  g_assert_nonnull (strstr (error->message, " are free"));
  g_assert_null (strstr (error->message, "a batch of ")); /* not even one sample fits */
  g_autofree char *least = get_least (error);
  g_clear_error (&error);

  /* advised options do help, and an option that is already set is not advised */
  g_autoptr (OrtrainTrainingSession) roomy = make_session (model, 0);
  const gint64 batch = ortrain_tensor_get_dim (ortrain_tensor_dict_get_tensor (test_model_feeds (model, 0), 0), 0);
  g_autoptr (OrtrainMemoryPlan) half =
      ortrain_training_session_plan_batch (roomy, test_model_feeds (model, 0), batch / 2, 0, &error);
  g_assert_no_error (error);
  const guint64 budget =
      ortrain_memory_plan_get_persistent_bytes (half) + ortrain_memory_plan_get_arena_bytes (half) / 2;
  g_autoptr (OrtrainTrainingSession) tight = make_session (model, budget);
  g_assert_cmpfloat (ortrain_training_session_train_step (tight, test_model_feeds (model, 0), &error), !=, 0.5);
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  g_test_message ("%s", error->message);
  g_autofree char *same = get_least (error);
  g_assert_cmpstr (same, ==, least);
  const char *way = strstr (error->message, ". Ways out: a batch of ");
  g_assert_nonnull (way);
  const gint64 advised = g_ascii_strtoll (way + strlen (". Ways out: a batch of "), NULL, 10);
  g_assert_nonnull (strstr (way, "immediate-updates keeps no gradients: up to "));
  g_assert_nonnull (strstr (way, "state-precision=int8: "));
  g_clear_error (&error);
  g_autoptr (OrtrainMemoryPlan) plan =
      ortrain_training_session_plan_batch (tight, test_model_feeds (model, 0), advised, budget, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), <=, budget);
}

static OrtrainMemoryPlan *
plan_with (TestModel *model, guint64 budget, guint level)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_memory_opt_level (options, level);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  OrtrainMemoryPlan *plan = ortrain_training_session_plan (session, test_model_feeds (model, 0), &error);
  g_assert_true (plan != NULL || g_error_matches (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET));
  return plan;
}

/* The peak of a level is met as a budget, and with a level a budget reaches no less than without. */
static void
test_levels (gconstpointer name)
{
  g_autoptr (TestModel) model = test_model_load (name);
  for (guint level = 1; level <= 2; level++)
    {
      g_autoptr (OrtrainMemoryPlan) layered = plan_with (model, 0, level);
      const guint64 peak = ortrain_memory_plan_get_peak_bytes (layered);
      g_autoptr (OrtrainMemoryPlan) within = plan_with (model, peak, 0);
      g_assert_nonnull (within);
      g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (within), <=, peak);
    }
}

/* The largest batch fits, and the next one does not; a plan for another batch is that of feeds with it. */
static void
test_batches (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainTrainingSession) session = make_session (model, 0);
  OrtrainTensorDict *feeds = test_model_feeds (model, 0);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  const gint64 batch = ortrain_tensor_get_dim (ortrain_tensor_dict_get_tensor (feeds, 0), 0);
  g_autoptr (OrtrainMemoryPlan) same = ortrain_training_session_plan_batch (session, feeds, batch, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (same), ==, ortrain_memory_plan_get_peak_bytes (plan));
  g_assert_cmpuint (ortrain_memory_plan_get_n_recomputed_steps (same), ==,
                    ortrain_memory_plan_get_n_recomputed_steps (plan));

  const guint64 budget = 3 * ortrain_memory_plan_get_peak_bytes (plan);
  const gint64 most = ortrain_training_session_max_batch (session, feeds, budget, &error);
  g_assert_no_error (error);
  g_assert_cmpint (most, >, batch);
  g_autoptr (OrtrainMemoryPlan) largest = ortrain_training_session_plan_batch (session, feeds, most, budget, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (largest), <=, budget);
  g_autoptr (OrtrainMemoryPlan) whole = ortrain_training_session_plan_batch (session, feeds, most, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (whole), >, budget);
  g_assert_cmpuint (ortrain_memory_plan_get_n_recomputed_steps (largest), >,
                    ortrain_memory_plan_get_n_recomputed_steps (whole));
  g_assert_cmpfloat (ortrain_memory_plan_get_flops (largest), >, ortrain_memory_plan_get_flops (whole));
  g_assert_null (ortrain_training_session_plan_batch (session, feeds, most + 1, budget, &error));
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  g_clear_error (&error);
  g_assert_cmpint (ortrain_training_session_max_batch (session, feeds, 1, &error), ==, 0);
  g_assert_no_error (error);

  /* Planning a batch does not replace the session's plan. */
  g_autoptr (OrtrainMemoryPlan) now = ortrain_training_session_plan (session, feeds, &error);
  g_assert_true (now == plan);
}

static void
test_bytes (void)
{
  static const struct
  {
    const char *text;
    guint64 bytes;
  } good[] = { { "0", 0 },
               { "65536", 65536 },
               { "1.5GiB", G_GUINT64_CONSTANT (1610612736) },
               { "1.5 GiB", G_GUINT64_CONSTANT (1610612736) },
               { "800MB", 800000000 },
               { "2K", 2048 },
               { ".5KiB", 512 },
               { "3 B", 3 } };
  static const char *const bad[] = { "",    "GiB",        "-1",      "1 Gi", "1e400", "inf",
                                     "nan", "9000000TiB", "1.5GiB ", "0x10", " 1" };
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_cmpuint (ortrain_parse_bytes (good[i].text, &error), ==, good[i].bytes);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      if (ortrain_parse_bytes (bad[i], &error) != 0 || error == NULL)
        g_error ("'%s' is taken", bad[i]);
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
    }
  g_autofree char *small = ortrain_format_bytes (512), *large = ortrain_format_bytes (G_GUINT64_CONSTANT (10103909580));
  g_assert_cmpstr (small, ==, "512 B");
  g_assert_cmpstr (large, ==, "9.41 GiB");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/budget/bytes", test_bytes);
  g_test_add_func ("/budget/text", test_text);
  g_test_add_func ("/budget/batches", test_batches);
  test_models_add ("/budget/promise-3", test_promise_3);
  test_models_add ("/budget/levels", test_levels);
  return g_test_run ();
}
