/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-plans-private.h"

#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-offload-private.h"
#include "recompute/ortrain-pack-bits-private.h"
#include "recompute/ortrain-recompute-layers-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

/* The plan is of a copy, in which sums of gradients have become additions, so that ids moved: the names have not. */
const OrtrainPlanValue **
ortrain_budget_find_planned (const OrtrainGraph *graph, OrtrainMemoryPlan *plan)
{
  const OrtrainGraph *copy = ortrain_memory_plan_peek_graph (plan);
  const OrtrainPlanValue **planned = g_new0 (const OrtrainPlanValue *, graph->values->len + 1);
  for (guint v = 0; v < copy->values->len; v++)
    {
      const OrtrainValue *value =
          ortrain_graph_find_value ((OrtrainGraph *) graph, ((OrtrainValue *) copy->values->pdata[v])->name);
      if (value != NULL)
        planned[value->id] = &plan->values[v];
    }
  return planned;
}

gboolean
ortrain_budget_has_backward (const OrtrainMemoryPlan *plan)
{
  return plan->first_backward < plan->first_update;
}

gboolean
ortrain_budget_has_same_arithmetic (const OrtrainMemoryPlan *plan, const OrtrainMemoryPlan *reference)
{
  g_autoptr (GHashTable) steps = g_hash_table_new (NULL, NULL); /* by twice the node's number, and 1 for a copy */
  for (guint s = 0; s < reference->n_steps; s++)
    {
      const OrtrainPlanStep *step = &reference->steps[s];
      g_hash_table_insert (steps, GUINT_TO_POINTER (2 * step->node->number + (step->recomputes >= 0)), (gpointer) step);
    }
  for (guint s = 0; s < plan->n_steps; s++)
    {
      const OrtrainPlanStep *step = &plan->steps[s], *same = NULL;
      const OrtrainOpKind kind = ortrain_node_get_kind (step->node);
      if (kind == ORTRAIN_OP_KIND_OFFLOAD || kind == ORTRAIN_OP_KIND_RELOAD)
        continue;
      if (step->recomputes >= 0)
        same = g_hash_table_lookup (steps, GUINT_TO_POINTER (2 * step->node->number + 1));
      if (same == NULL)
        same = g_hash_table_lookup (steps, GUINT_TO_POINTER (2 * step->node->number));
      if (same == NULL || same->accumulates != step->accumulates || same->gradients != step->gradients)
        return FALSE;
    }
  return TRUE;
}

double
ortrain_budget_measure_work (const OrtrainMemoryPlan *plan, const OrtrainProvider *provider)
{
  double work = 0;
  for (guint s = 0; s < plan->first_update; s++)
    work += ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (&plan->steps[s]), plan->steps[s].flops,
                                         plan->steps[s].bytes_moved);
  return work;
}

OrtrainMemoryPlan *
ortrain_budget_plan_graph (OrtrainGraph *graph, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                           GError **error)
{
  OrtrainMemoryPlan *plan = ortrain_planner_plan (graph, request, error);
  for (guint c = 0; plan != NULL && c <= ORTRAIN_CATEGORY_OUTPUT; c++)
    if (budget->persistent[c] >= 0)
      ortrain_memory_plan_set_persistent (plan, (OrtrainCategory) c, (gsize) budget->persistent[c]);
  return plan;
}

/* graph: changed. */
static gboolean
run_again (OrtrainGraph *graph, const guint8 *run, const gboolean *offloaded, GError **error)
{
  const guint n_values = graph->values->len;
  if (!ortrain_recompute_apply (graph, run, error))
    return FALSE;
  if (offloaded != NULL)
    {
      g_autofree gboolean *all = g_new0 (gboolean, graph->values->len + 1);
      memcpy (all, offloaded, n_values * sizeof *all);
      if (!ortrain_offload_apply (graph, all, error))
        return FALSE;
    }
  ortrain_graph_remove_dead (graph);
  return TRUE;
}

OrtrainGraph *
ortrain_budget_apply_runs (OrtrainGraph *graph, const guint8 *run, const gboolean *offloaded, GError **error)
{
  g_autoptr (OrtrainGraph) copy = ortrain_graph_clone (graph);
  return run_again (copy, run, offloaded, error) ? g_steal_pointer (&copy) : NULL;
}

OrtrainMemoryPlan *
ortrain_budget_plan_variant (OrtrainGraph *graph, gboolean consumes_graph, const OrtrainPlanRequest *request,
                             const OrtrainBudget *budget, GError **error)
{
  OrtrainPlanRequest of_variant = *request;
  of_variant.consumes_graph = consumes_graph;
  return ortrain_budget_plan_graph (graph, &of_variant, budget, error);
}

/* Replaces the plan by that of another graph, where this takes less memory and gives the same bits as base. */
static gboolean
take_smaller (OrtrainMemoryPlan **plan, OrtrainGraph *other, gboolean consumes_graph, OrtrainMemoryPlan *base,
              const OrtrainPlanRequest *request, const OrtrainBudget *budget, gboolean *taken, GError **error)
{
  g_autoptr (OrtrainMemoryPlan) smaller = ortrain_budget_plan_variant (other, consumes_graph, request, budget, error);
  *taken = smaller != NULL && ortrain_budget_has_same_arithmetic (smaller, base) &&
           ortrain_memory_plan_get_peak_bytes (smaller) < ortrain_memory_plan_get_peak_bytes (*plan);
  if (*taken)
    g_set_object (plan, smaller);
  return smaller != NULL;
}

gboolean
ortrain_budget_try_bit_packing (OrtrainGraph **graph, OrtrainMemoryPlan **plan, const OrtrainPlanRequest *request,
                                const OrtrainBudget *budget, GError **error)
{
  g_autoptr (OrtrainGraph) packed = ortrain_graph_clone (*graph);
  g_autoptr (OrtrainMemoryPlan) base = g_object_ref (*plan);
  gboolean applied, taken;
  if (!ortrain_pack_bits_apply (packed, request->provider, &applied, error))
    return FALSE;
  if (!applied)
    return TRUE;
  if (!take_smaller (plan, packed, FALSE, base, request, budget, &taken, error))
    return FALSE;
  if (taken)
    g_set_object (graph, packed);
  return TRUE;
}

/* ---- Levels ---- */

GPtrArray *
ortrain_budget_list_levels (OrtrainGraph *graph, OrtrainMemoryPlan *base, guint level, guint *n_layers)
{
  const guint n_values = graph->values->len;
  GPtrArray *list = g_ptr_array_new_with_free_func (g_free);
  g_autofree gint64 *bytes = g_new0 (gint64, n_values + 1);
  g_autofree gboolean *kept = g_new (gboolean, n_values + 1);
  g_autofree const OrtrainPlanValue **planned = ortrain_budget_find_planned (graph, base);
  for (guint v = 0; v < n_values; v++)
    if (planned[v] != NULL && planned[v]->region == ORTRAIN_REGION_ARENA)
      bytes[v] = (gint64) planned[v]->bytes;
  if (!ortrain_recompute_layers_find (graph, bytes, kept, n_layers))
    return list;
  g_ptr_array_add (list, ortrain_recompute_runs_new (kept, n_values));
  if (level > 1 && ortrain_recompute_layers_narrow (graph, kept))
    g_ptr_array_add (list, ortrain_recompute_runs_new (kept, n_values));
  return list;
}

/* The graph is changed for the last one that is tried, where the caller gives it away. */
gboolean
ortrain_budget_apply_recompute_level (OrtrainGraph *graph, OrtrainMemoryPlan **plan, const OrtrainPlanRequest *request,
                                      const OrtrainBudget *budget, GError **error)
{
  g_autoptr (OrtrainMemoryPlan) base = g_object_ref (*plan);
  guint n_layers;
  g_autoptr (GPtrArray) list = ortrain_budget_list_levels (graph, base, budget->level, &n_layers);
  for (guint i = 0; i < list->len; i++)
    {
      gboolean taken;
      g_autoptr (OrtrainGraph) layered =
          i + 1 == list->len && request->consumes_graph ? g_object_ref (graph) : ortrain_graph_clone (graph);
      if (!run_again (layered, list->pdata[i], NULL, error) ||
          !take_smaller (plan, layered, TRUE, base, request, budget, &taken, error))
        return FALSE;
      if (taken)
        (*plan)->n_layers = n_layers;
    }
  return TRUE;
}
