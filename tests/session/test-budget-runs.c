/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "all-cases.h"
#include "fixture.h"
#include "layered-models.h"
#include "least-budget.h"

#include "plan/ortrain-memory-plan-private.h"

/* Small budgets have stretches of the forward pass run again within others: bits stay, in every precision, and less is
 * needed than by layers. */

/* Scores of so many positions are computed in pieces. */
#define LATE_BATCH 8
#define LATE_SEQ 128

static OrtrainMemoryPlan *
plan_within (OrtrainModel *model, const LayeredCase *c, OrtrainTensorDict *feeds, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_layered_session (model, c, 0, budget);
  OrtrainMemoryPlan *plan = ortrain_training_session_plan (session, feeds, &error);
  if (plan == NULL)
    g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  else
    g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), <=, budget == 0 ? G_MAXUINT64 : budget);
  return plan;
}

/* The plan for the smallest budget, which the message of a refused budget names. */
static OrtrainMemoryPlan *
find_least (OrtrainModel *model, const LayeredCase *c, OrtrainTensorDict *feeds, OrtrainMemoryPlan *whole)
{
  g_autoptr (GError) error = NULL;
  const guint64 budget = ortrain_memory_plan_get_persistent_bytes (whole) + 1;
  g_autoptr (OrtrainTrainingSession) session = make_layered_session (model, c, 0, budget);
  g_assert_null (ortrain_training_session_plan (session, feeds, &error));
  g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  OrtrainMemoryPlan *plan =
      plan_within (model, c, feeds, test_read_least (error, ortrain_memory_plan_get_peak_bytes (whole)));
  g_assert_nonnull (plan);
  return plan;
}

/* How often the step that runs again most does so. */
static guint
count_runs (OrtrainMemoryPlan *plan)
{
  guint n_steps, most = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  g_autofree guint *runs = g_new0 (guint, n_steps + 1);
  for (guint s = 0; s < n_steps; s++)
    if (steps[s].recomputes >= 0)
      most = MAX (most, ++runs[steps[s].recomputes]);
  return most;
}

/* Losses of three steps, and the state after them. */
static OrtrainTensorDict *
train (OrtrainModel *model, const LayeredCase *c, guint64 budget, gint64 batch, gint64 seq, double *losses)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_layered_session (model, c, 0, budget);
  for (guint s = 0; s < 3; s++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_layered_feeds (c->text, batch, seq, 10 + s);
      losses[s] = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_no_error (error);
    }
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

static void
test_runs (gconstpointer data)
{
  const LayeredCase *c = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = c->make ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);

  g_autoptr (OrtrainTensorDict) large = make_layered_feeds (c->text, 16, 64, 1);
  g_autoptr (OrtrainTrainingSession) layered = make_layered_session (model, c, 1, 0);
  g_autoptr (OrtrainMemoryPlan) level = ortrain_training_session_plan (layered, large, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainMemoryPlan) whole = plan_within (model, c, large, 0);
  g_autoptr (OrtrainMemoryPlan) least = find_least (model, c, large, whole);
  g_test_message (
      "%s: %" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " by layers, %" G_GSIZE_FORMAT " at least, up to %u runs",
      c->name, (gsize) ortrain_memory_plan_get_arena_bytes (whole), (gsize) ortrain_memory_plan_get_arena_bytes (level),
      (gsize) ortrain_memory_plan_get_arena_bytes (least), count_runs (least));
  g_assert_cmpuint (ortrain_memory_plan_get_arena_bytes (least), <=, ortrain_memory_plan_get_arena_bytes (level));
  if (c->is_deep)
    g_assert_cmpuint (count_runs (least), >, 1);
  if (c->most > 0)
    g_assert_cmpfloat ((double) ortrain_memory_plan_get_arena_bytes (least), <=,
                       c->most * (double) ortrain_memory_plan_get_arena_bytes (whole));

  g_autoptr (OrtrainTensorDict) small = make_layered_feeds (c->text, 4, 48, 1);
  g_autoptr (OrtrainMemoryPlan) base = plan_within (model, c, small, 0);
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (base);
  const guint64 arena = ortrain_memory_plan_get_arena_bytes (base);
  double expected[3], losses[3];
  guint n_met = 0;
  g_autoptr (OrtrainTensorDict) state = train (model, c, 0, 4, 48, expected);
  g_autoptr (GArray) budgets = g_array_new (FALSE, FALSE, sizeof (guint64));
  for (guint percent = 80; percent >= 20; percent -= 25)
    {
      const guint64 budget = persistent + arena * percent / 100;
      g_array_append_val (budgets, budget);
    }
  if (c->most > 0)
    {
      g_autoptr (OrtrainMemoryPlan) least_of_small = find_least (model, c, small, base);
      const guint64 budget = ortrain_memory_plan_get_peak_bytes (least_of_small);
      g_array_append_val (budgets, budget);
    }
  for (guint b = 0; b < budgets->len; b++)
    {
      const guint64 budget = g_array_index (budgets, guint64, b);
      g_autoptr (OrtrainMemoryPlan) plan = plan_within (model, c, small, budget);
      if (plan == NULL)
        continue;
      n_met++;
      g_autoptr (OrtrainTensorDict) found = train (model, c, budget, 4, 48, losses);
      g_assert_cmpmem (losses, sizeof losses, expected, sizeof expected);
      test_assert_same_bits (found, state);
    }
  if (c->is_deep)
    g_assert_cmpuint (n_met, >=, 2);
}

/* Whether another run of the loss computes the gradient of its weight, near the end. */
static gboolean
has_late_gradient (OrtrainMemoryPlan *plan)
{
  guint n_steps;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    if (steps[s].recomputes >= 0 && g_str_equal (steps[s].node->op_type, "LinearCrossEntropy"))
      return TRUE;
  return FALSE;
}

/* The gradient of an embedding that the loss has as its weight waits through the whole backward
 * pass; small budgets have the loss run again for it. */
static void
test_late_gradient (gconstpointer data)
{
  const LayeredCase *c = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = c->make ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_layered_feeds (TRUE, LATE_BATCH, LATE_SEQ, 10);
  g_autoptr (OrtrainMemoryPlan) whole = plan_within (model, c, feeds, 0);
  g_autoptr (OrtrainMemoryPlan) least = find_least (model, c, feeds, whole);
  g_assert_false (has_late_gradient (whole));
  g_test_message ("%s: %" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " at least", c->name,
                  (gsize) ortrain_memory_plan_get_arena_bytes (whole),
                  (gsize) ortrain_memory_plan_get_arena_bytes (least));
  if (g_getenv ("ORTRAIN_PROVIDER") == NULL) /* other devices have other workspaces */
    {
      g_assert_true (has_late_gradient (least));
      g_assert_cmpfloat ((double) ortrain_memory_plan_get_arena_bytes (least), <=,
                         c->most * (double) ortrain_memory_plan_get_arena_bytes (whole));
    }
  double expected[3], losses[3];
  g_autoptr (OrtrainTensorDict) state = train (model, c, 0, LATE_BATCH, LATE_SEQ, expected);
  g_autoptr (OrtrainTensorDict) found =
      train (model, c, ortrain_memory_plan_get_peak_bytes (least), LATE_BATCH, LATE_SEQ, losses);
  g_assert_cmpmem (losses, sizeof losses, expected, sizeof expected);
  test_assert_same_bits (found, state);
}

/* How many nodes run twice in the forward pass. */
static guint
count_twice (OrtrainMemoryPlan *plan)
{
  guint n_steps, n = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    n += steps[s].recomputes >= 0 && steps[s].phase == ORTRAIN_PHASE_FORWARD;
  return n;
}

/* A skip connection takes the least memory if the nodes before it run twice. */
static void
test_twice (void)
{
  const LayeredCase c = { "skip", make_skip, TRUE, 0, F32, ON };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = c.make ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_layered_feeds (TRUE, 64, 64, 10);
  g_autoptr (OrtrainMemoryPlan) whole = plan_within (model, &c, feeds, 0);
  g_autoptr (OrtrainMemoryPlan) least = find_least (model, &c, feeds, whole);
  g_test_message ("%" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " at least, %u nodes twice",
                  (gsize) ortrain_memory_plan_get_arena_bytes (whole),
                  (gsize) ortrain_memory_plan_get_arena_bytes (least), count_twice (least));
  g_assert_cmpuint (count_twice (whole), ==, 0);
  g_assert_cmpuint (count_twice (least), >, 0);
  double expected[3], losses[3];
  g_autoptr (OrtrainTensorDict) state = train (model, &c, 0, 64, 64, expected);
  g_autoptr (OrtrainTensorDict) found = train (model, &c, ortrain_memory_plan_get_peak_bytes (least), 64, 64, losses);
  g_assert_cmpmem (losses, sizeof losses, expected, sizeof expected);
  test_assert_same_bits (found, state);
}

static const LayeredCase late_cases[] = {
  { "tied", make_tied, TRUE, 0, F32, ON, FALSE, 0.4 },
  { "tied-bf16", make_tied, TRUE, 0, BF16, ON, FALSE, 0.45 },
};

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (layered_cases); i++)
    {
      static const char *const few[] = { "gpt", "inverted", "post-norm-bf16-immediate", "resnet", "unet", NULL };
      if (!tests_run_all_cases () && !g_strv_contains (few, layered_cases[i].name))
        continue;
      g_autofree char *path = g_strconcat ("/budget-runs/", layered_cases[i].name, NULL);
      g_test_add_data_func (path, &layered_cases[i], test_runs);
    }
  g_test_add_func ("/budget-runs/twice", test_twice);
  for (guint i = 0; i < G_N_ELEMENTS (late_cases); i++)
    {
      g_autofree char *path = g_strconcat ("/budget-runs/late/", late_cases[i].name, NULL);
      g_test_add_data_func (path, &late_cases[i], test_late_gradient);
    }
  return g_test_run ();
}
