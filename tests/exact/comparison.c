/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "comparison.h"

#include "budget/ortrain-budget-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "transform/ortrain-passes-private.h"

#include <string.h>

#define MAX_STEPS 26
#define LEAST_STEPS 8
#define SLACK 500      /* of the least budget: so much less than it is that does not count on the exact side */
#define MAX_MOVABLE 13 /* contents that may be made again */

static const guint parts[] = {
  96, 90, 84, 78, 72, 66, 60, 54, 48, 42, 36
}; /* hundredths of the plan's bytes without a budget */

static OrtrainTrainingSession *
make_session (const SmallGraph *graph)
{
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (1e-3);
  for (guint i = 0; graph->outputs[i] != NULL; i++)
    {
      g_autofree char *target = g_strconcat ("target of ", graph->outputs[i], NULL);
      g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new (graph->outputs[i], target);
      ortrain_training_options_add_loss (options, loss);
    }
  ortrain_training_options_set_optimizer (options, optimizer);
  return ortrain_training_session_new (graph->model, options, NULL); /* a piece may have nothing to train */
}

/* The training graph as the search of a session has it. */
static OrtrainGraph *
make_static_graph (OrtrainTrainingSession *session, gint64 batch, const OrtrainProvider *provider)
{
  g_autoptr (GError) error = NULL;
  OrtrainGraph *training = ortrain_training_session_get_training_graph (session);
  const guint n = training->inputs->len;
  g_autofree OrtrainSpecializeInput *inputs = g_new0 (OrtrainSpecializeInput, n + 1);
  g_autofree gint64 *dims = g_new0 (gint64, (gsize) n * ORTRAIN_MAX_RANK + 1);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainValue *input = training->inputs->pdata[i];
      inputs[i] = (OrtrainSpecializeInput){ .name = input->name,
                                            .dtype = input->dtype,
                                            .dims = dims + (gsize) i * ORTRAIN_MAX_RANK,
                                            .rank = (guint) MAX (input->rank, 0) };
      for (guint d = 0; d < inputs[i].rank; d++)
        dims[(gsize) i * ORTRAIN_MAX_RANK + d] = ortrain_dim_is_int (input->dims[d]) ? input->dims[d].value : batch;
    }
  OrtrainGraph *graph = ortrain_specialize (training, inputs, n, &error);
  g_assert_no_error (error);
  graph->recompute_group_size = 1;
  graph->spares_memory = TRUE;
  g_assert_true (ortrain_optimize_static_graph (graph, provider, NULL, &error));
  return graph;
}

/* The plan, or the one that needs least where none fits. arena: 0, or the budget. */
static OrtrainMemoryPlan *
plan_within (OrtrainGraph *graph, const OrtrainPlanRequest *request, guint64 persistent, guint64 arena, gboolean *met)
{
  g_autoptr (GError) error = NULL;
  OrtrainMemoryPlan *smallest = NULL;
  const gssize sums[ORTRAIN_CATEGORY_OUTPUT + 1] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
  const OrtrainBudget budget = { .bytes = arena > 0 ? persistent + arena : 0,
                                 .persistent = sums,
                                 .smallest = &smallest };
  OrtrainMemoryPlan *plan = ortrain_plan_within_budget (graph, request, &budget, &error);
  *met = plan != NULL;
  if (plan == NULL)
    g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
  else
    g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), <=, arena == 0 ? G_MAXUINT64 : persistent + arena);
  if (plan != NULL)
    g_clear_object (&smallest);
  return plan != NULL ? plan : smallest;
}

static guint
count_movable (const ExactProblem *problem)
{
  guint n = 0;
  for (guint c = 0; c < problem->n_contents; c++)
    n += problem->nodes[problem->contents[c].maker].may_run_again;
  return n;
}

static void
print_problem (const ExactProblem *problem)
{
  for (guint r = 0; r < problem->n_runs; r++)
    {
      const ExactRun *node = &problem->runs[r];
      const ExactNode *of = &problem->nodes[node->node];
      g_printerr ("  %2u %c%c %-40.40s work %8.0f ws %7.0f K reads", r, of->is_backward ? 'b' : 'f',
                  node->is_again      ? 'a'
                  : of->may_run_again ? 'r'
                                      : ' ',
                  of->name, node->work, (double) node->workspace / 1024);
      for (guint c = 0; c < problem->n_contents; c++)
        if (node->reads >> c & 1)
          g_printerr (" %u", c);
      if (node->added_to >= 0)
        g_printerr (" +%d", node->added_to);
      for (guint c = 0; c < problem->n_contents; c++)
        if (node->makes >> c & 1)
          {
            guint64 over = 0;
            for (guint k = 0; k < node->n_outputs; k++)
              over |= node->outputs[k] == (gint) c ? node->over[k] : 0;
            g_printerr (" -> %u (%.0f K%s)", c, (double) problem->contents[c].bytes / 1024, over != 0 ? ", over" : "");
          }
      g_printerr ("\n");
    }
}

static void
print_way (const char *title, const ExactProblem *problem, const ExactWay *way)
{
  g_printerr ("  %s: %.1f K, work %.0f:", title, (double) way->peak / 1024, way->work);
  for (guint r = 0; r < way->n_runs; r++)
    g_printerr (" %u", problem->runs[way->runs[r]].node);
  g_printerr ("\n");
}

static void
print_plan (OrtrainMemoryPlan *plan, OrtrainMemoryPlan *base)
{
  g_autofree gsize *live = ortrain_memory_plan_measure_steps (plan);
  g_printerr ("  found: %.1f K (bound %.1f K):", (double) plan->arena_bytes / 1024,
              (double) plan->lower_bound_bytes / 1024);
  for (guint s = 0; s < plan->first_update; s++)
    for (guint t = 0; t < base->first_update; t++)
      {
        const OrtrainNode *a = plan->steps[s].node, *b = base->steps[t].node;
        if (a->number == b->number &&
            (a->phase == b->phase ? (a->recomputes == NULL) == (b->recomputes == NULL) || b->recomputes != NULL
                                  : b->phase == ORTRAIN_PHASE_FORWARD))
          {
            g_printerr (" %u(%.0f)", t, (double) live[s] / 1024);
            const double was = base->steps[t].bytes_moved, is = plan->steps[s].bytes_moved;
            if (was != is && g_str_equal (a->op_type, b->op_type))
              g_printerr ("[%s: moves %.0f, not %.0f]", plan->steps[s].node->op_type, is, was);
            break;
          }
      }
  g_printerr ("\n");
}

gboolean
comparison_make (Comparison *self, const SmallGraph *small, guint max_tried, gboolean verbose)
{
  OrtrainProvider *provider = ortrain_provider_get_host ();
  const OrtrainPlanRequest request = { .provider = provider, .host = provider, .keep_outputs_in_arena = TRUE };
  ExactProblem problem;
  gboolean met, is_met;
  memset (self, 0, sizeof *self);
  g_autoptr (OrtrainTrainingSession) session = make_session (small);
  if (session == NULL)
    return FALSE;
  g_autoptr (OrtrainGraph) graph = make_static_graph (session, small->batch, provider);
  g_autoptr (OrtrainMemoryPlan) base = plan_within (graph, &request, 0, 0, &met);
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (base);
  if (base->first_update > MAX_STEPS || base->first_update < LEAST_STEPS ||
      !exact_problem_read (&problem, base, graph, &request) || count_movable (&problem) > MAX_MOVABLE)
    return FALSE;
  self->whole = base->arena_bytes;
  self->work = exact_measure_work (base, provider);
  self->n_steps = problem.n_nodes;
  self->n_contents = problem.n_contents;
  if (verbose)
    print_problem (&problem);
  ExactWay bytes = { 0 }, work = { 0 }, within; /* of the last point: neighbouring budgets often have the same plan */
  for (guint p = 0; p < G_N_ELEMENTS (parts); p++)
    {
      ComparedPoint point = { .budget = self->whole * parts[p] / 100 };
      const ComparedPoint *last = self->n_points > 0 ? &self->points[self->n_points - 1] : NULL;
      g_autoptr (OrtrainMemoryPlan) plan = plan_within (graph, &request, persistent, point.budget, &point.met);
      if (plan == NULL)
        break;
      if (!point.met)
        {
          /* a budget for the plan that needs least: the way with the least work to meet that is compared */
          point.budget = plan->arena_bytes + plan->arena_bytes / SLACK;
          g_clear_object (&plan);
          plan = plan_within (graph, &request, persistent, point.budget, &is_met);
          g_assert_true (is_met);
        }
      point.bytes = plan->arena_bytes;
      point.live_bytes = plan->lower_bound_bytes;
      point.work = exact_measure_work (plan, provider);
      const double again = point.work - problem.work, most = again + 1e-6 * problem.work;
      if (last == NULL || last->bytes != point.bytes || last->work != point.work)
        {
          exact_find_least_work (&problem, point.bytes, most, max_tried, &work);
          exact_find_least_bytes (&problem, point.bytes, most, max_tried, &bytes);
        }
      exact_find_least_work (&problem, MAX (point.budget, point.bytes), most, max_tried, &within);
      point.known = work.answer == EXACT_FOUND && bytes.answer == EXACT_FOUND && within.answer == EXACT_FOUND;
      /* nothing that the library does is forbidden here */
      g_assert_true (work.answer != EXACT_NONE && bytes.answer != EXACT_NONE);
      if (point.known)
        {
          point.least_bytes = bytes.peak;
          point.least_work = problem.work + work.work;
          point.least_within = problem.work + within.work;
          g_assert_cmpuint (point.least_bytes, <=, point.bytes);
        }
      if (verbose)
        {
          g_printerr (" budget %.1f K%s, work %.0f, %u states\n", (double) point.budget / 1024,
                      point.met ? "" : " (refused)", again, work.n_visited);
          print_plan (plan, base);
          print_way ("least bytes", &problem, &bytes);
          print_way ("least work", &problem, &work);
        }
      self->points[self->n_points++] = point;
      if (!point.met)
        break;
    }
  return TRUE;
}
