/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A lower bound for every way to recompute values in the backward pass, compared with the result of the search for a
 *   memory budget: bench-bound FILE BATCH LENGTH [SHARE...] cross entropy on the first output; shares of the arena One
 *   line for each share: the planned time of the step, of that without a budget, as found and at least; and the bytes
 *   of the largest single step, which has to run once in any plan.
 *
 * Time: all that the backward pass reads is kept between the passes, or runs again. A minimum cut is the least of (kept
 * bytes + rate · work that runs again); so for each rate, work >= (cut - budget) / rate. The largest of these bounds is
 * printed. It counts neither gradients nor values that are computed again meanwhile, so that the true minimum may be
 * higher. */
#include "budget/ortrain-budget-plans-private.h"
#include "budget/ortrain-budget-search-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "transform/ortrain-passes-private.h"

#include <ortrain.h>

#include <stdio.h>
#include <stdlib.h>

#define N_RATES 120
#define RATE_STEP 1.12

static void G_GNUC_NORETURN
fail (const GError *error)
{
  fprintf (stderr, "bench-bound: %s\n", error->message);
  exit (1);
}

static OrtrainTrainingSession *
make_session (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  if (model == NULL)
    fail (error);
  g_autoptr (OrtrainValue) output =
      g_list_model_get_item (ortrain_graph_get_outputs (ortrain_model_get_file_graph (model)), 0);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new (ortrain_value_get_name (output), "target");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-3);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_ON);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  if (session == NULL)
    fail (error);
  return session;
}

/* With numbers for shapes. spares: as a search for a budget has it. */
static OrtrainGraph *
make_graph (OrtrainTrainingSession *session, gint64 batch, gint64 length, const OrtrainProvider *provider,
            gboolean spares)
{
  g_autoptr (GError) error = NULL;
  OrtrainGraph *training = ortrain_training_session_get_training_graph (session);
  const guint n = training->inputs->len;
  g_autofree OrtrainSpecializeInput *inputs = g_new0 (OrtrainSpecializeInput, n + 1);
  g_autofree gint64 *dims = g_new0 (gint64, (gsize) n * ORTRAIN_MAX_RANK + 1);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainValue *input = training->inputs->pdata[i];
      gint64 *of = dims + (gsize) i * ORTRAIN_MAX_RANK;
      inputs[i] = (OrtrainSpecializeInput){
        .name = input->name, .dtype = input->dtype, .dims = of, .rank = (guint) MAX (input->rank, 0)
      };
      for (guint d = 0; d < inputs[i].rank; d++)
        of[d] = ortrain_dim_is_int (input->dims[d]) ? input->dims[d].value : d == 0 ? batch : length;
    }
  OrtrainGraph *graph = ortrain_specialize (training, inputs, n, &error);
  if (graph == NULL)
    fail (error);
  graph->recompute_group_size = spares ? 1 : 0;
  graph->spares_memory = spares;
  if (!ortrain_optimize_static_graph (graph, provider, NULL, &error))
    fail (error);
  return graph;
}

static double
measure_all_work (OrtrainMemoryPlan *plan, const OrtrainProvider *provider)
{
  double work = ortrain_budget_measure_work (plan, provider);
  for (guint s = plan->first_update; s < plan->n_steps; s++)
    work += ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (&plan->steps[s]), plan->steps[s].flops,
                                         plan->steps[s].bytes_moved);
  return work;
}

/* The largest of the bounds on the work that runs again, if so many bytes may be kept. */
static double
bound_work (OrtrainBudgetSearch *search, double limit)
{
  const guint n_values = search->n_values;
  g_autofree gint64 *costs = g_new (gint64, search->n_nodes + 1), *bytes = g_new (gint64, n_values + 1);
  g_autofree gboolean *kept = g_new (gboolean, n_values + 1);
  g_autofree guint8 *again = g_new (guint8, search->n_nodes + 1);
  double bound = 0, rate = 1;
  for (guint v = 0; v < n_values; v++)
    bytes[v] = search->late[v] ? 0 : (gint64) search->bytes[search->root[v]];
  for (guint r = 0; r < N_RATES; r++, rate /= RATE_STEP)
    {
      for (guint t = 0; t < search->n_nodes; t++)
        costs[t] = search->work[t] < 0 ? ORTRAIN_RECOMPUTE_NEVER : (gint64) (rate * search->work[t]);
      ortrain_recompute_cut_sized (search->graph, costs, NULL, bytes, kept);
      g_autofree guint8 *run = ortrain_recompute_runs_new (kept, n_values);
      g_autofree gboolean *counted = g_new0 (gboolean, n_values + 1);
      double cut = 0;
      ortrain_recompute_find_recomputed (search->graph, run, again);
      for (guint t = 0; t < search->n_nodes; t++)
        cut += again[t] != 0 ? (double) MAX (0, costs[t]) : 0;
      for (guint v = 0; v < n_values; v++)
        {
          const OrtrainValue *value = search->graph->values->pdata[v];
          gboolean is_read = ortrain_recompute_is_read_backward (value);
          if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD || run[v] > 0 ||
              search->late[v] || counted[search->root[v]])
            continue;
          for (guint u = 0; u < value->uses.n && !is_read; u++)
            is_read = value->uses.items[u].node->phase == ORTRAIN_PHASE_FORWARD &&
                      again[value->uses.items[u].node->mark] != 0;
          if (!is_read)
            continue;
          counted[search->root[v]] = TRUE;
          cut += (double) search->bytes[search->root[v]];
        }
      bound = MAX (bound, (cut - limit) / rate);
    }
  return bound;
}

int
main (int argc, char **argv)
{
  static const char *const few[] = { "0.6", "0.5", "0.25", "0.15" };
  if (argc < 4)
    {
      fprintf (stderr, "bench-bound FILE BATCH LENGTH [SHARE...]\n");
      return 1;
    }
  g_autoptr (GError) error = NULL;
  OrtrainProvider *provider = ortrain_provider_get_host ();
  const OrtrainPlanRequest request = { .provider = provider, .host = provider, .keep_outputs_in_arena = TRUE };
  const gssize sums[ORTRAIN_CATEGORY_OUTPUT + 1] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
  g_autoptr (OrtrainTrainingSession) session = make_session (argv[1]);
  const gint64 batch = atoi (argv[2]), length = atoi (argv[3]);
  g_autoptr (OrtrainGraph) plain = make_graph (session, batch, length, provider, FALSE);
  g_autoptr (OrtrainMemoryPlan) whole = ortrain_planner_plan (plain, &request, &error);
  if (whole == NULL)
    fail (error);
  g_autoptr (OrtrainGraph) graph = make_graph (session, batch, length, provider, TRUE);
  g_autoptr (OrtrainMemoryPlan) base = ortrain_planner_plan (graph, &request, &error);
  if (base == NULL)
    fail (error);
  OrtrainBudgetSearch search;
  ortrain_budget_search_init (&search, graph, base, provider, FALSE);
  const double work = measure_all_work (whole, provider), of_base = measure_all_work (base, provider);
  const double arena = (double) ortrain_memory_plan_get_arena_bytes (whole);
  guint step;
  const gsize largest = ortrain_memory_plan_find_largest_step (base, &step);
  g_autofree char *node = ortrain_node_describe (base->steps[step].node);
  printf ("arena %.1f MiB; the largest step takes %.3f of it: %s\n", arena / (1 << 20), (double) largest / arena, node);
  for (gint i = 0; i < (argc > 4 ? argc - 4 : (gint) G_N_ELEMENTS (few)); i++)
    {
      const double share = g_ascii_strtod (argc > 4 ? argv[4 + i] : few[i], NULL);
      const OrtrainBudget budget = { .bytes =
                                         ortrain_memory_plan_get_persistent_bytes (base) + (guint64) (share * arena),
                                     .persistent = sums };
      g_clear_error (&error);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_plan_within_budget (graph, &request, &budget, &error);
      printf ("share %.2f: ", share);
      if (plan != NULL)
        printf ("found %.4f, ", measure_all_work (plan, provider) / work);
      printf ("at least %.4f\n", (of_base + bound_work (&search, share * arena)) / work);
    }
  ortrain_budget_search_clear (&search);
  return 0;
}
