/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-budget-plans-private.h"

#include "memory/ortrain-memory-plan-private.h"
#include "memory/ortrain-recompute-layers-private.h"
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-offload-private.h"
#include "transform/ortrain-pack-bits-private.h"
#include "transform/ortrain-recompute-private.h"

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
change_to_kept (OrtrainGraph *graph, const gboolean *kept, const gboolean *offloaded, GError **error)
{
  const guint n_values = graph->values->len;
  if (!ortrain_recompute_apply (graph, kept, error))
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
ortrain_budget_apply_kept (OrtrainGraph *graph, const gboolean *kept, const gboolean *offloaded, GError **error)
{
  g_autoptr (OrtrainGraph) copy = ortrain_graph_clone (graph);
  return change_to_kept (copy, kept, offloaded, error) ? g_steal_pointer (&copy) : NULL;
}

OrtrainMemoryPlan *
ortrain_budget_plan_variant (OrtrainGraph *graph, gboolean takes_graph, const OrtrainPlanRequest *request,
                             const OrtrainBudget *budget, GError **error)
{
  OrtrainPlanRequest of_variant = *request;
  of_variant.takes_graph = takes_graph;
  return ortrain_budget_plan_graph (graph, &of_variant, budget, error);
}

/* Replaces the plan by that of another graph, where this takes less memory and gives the same bits as base. */
static gboolean
take_smaller (OrtrainMemoryPlan **plan, OrtrainGraph *other, gboolean takes_graph, OrtrainMemoryPlan *base,
              const OrtrainPlanRequest *request, const OrtrainBudget *budget, gboolean *taken, GError **error)
{
  g_autoptr (OrtrainMemoryPlan) smaller = ortrain_budget_plan_variant (other, takes_graph, request, budget, error);
  *taken = smaller != NULL && ortrain_budget_has_same_arithmetic (smaller, base) &&
           ortrain_memory_plan_get_peak_bytes (smaller) < ortrain_memory_plan_get_peak_bytes (*plan);
  if (*taken)
    g_set_object (plan, smaller);
  return smaller != NULL;
}

gboolean
ortrain_budget_take_bits (OrtrainGraph **graph, OrtrainMemoryPlan **plan, const OrtrainPlanRequest *request,
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

/* kept: [n_values], what level 1 keeps; FALSE: there are no layers. */
static gboolean
find_layers (OrtrainGraph *graph, OrtrainMemoryPlan *base, gboolean *kept, guint *n_layers)
{
  const guint n_values = graph->values->len;
  g_autofree gint64 *bytes = g_new0 (gint64, n_values + 1);
  g_autofree const OrtrainPlanValue **planned = ortrain_budget_find_planned (graph, base);
  for (guint v = 0; v < n_values; v++)
    if (planned[v] != NULL && planned[v]->region == ORTRAIN_REGION_ARENA)
      bytes[v] = (gint64) planned[v]->bytes;
  return ortrain_recompute_layers_find (graph, bytes, kept, n_layers);
}

/* Level 2 tries what level 1 does, too: it never takes more. The graph is changed for the last one that is tried, where the
 * caller gives it away. */
gboolean
ortrain_budget_take_level (OrtrainGraph *graph, OrtrainMemoryPlan **plan, const OrtrainPlanRequest *request,
                           const OrtrainBudget *budget, gboolean **kept, GError **error)
{
  g_autoptr (OrtrainMemoryPlan) base = g_object_ref (*plan);
  const guint n_values = graph->values->len;
  g_autofree gboolean *wide = g_new (gboolean, n_values + 1), *narrow = NULL;
  guint n_layers;
  *kept = NULL;
  if (!find_layers (graph, base, wide, &n_layers))
    return TRUE;
  if (budget->level > 1)
    {
      narrow = g_memdup2 (wide, (n_values + 1) * sizeof *wide);
      if (!ortrain_recompute_layers_narrow (graph, narrow))
        g_clear_pointer (&narrow, g_free);
    }
  gboolean *const tried[] = { wide, narrow };
  for (guint i = 0; i < G_N_ELEMENTS (tried) && tried[i] != NULL; i++)
    {
      const gboolean is_last = i + 1 == G_N_ELEMENTS (tried) || tried[i + 1] == NULL;
      gboolean taken;
      g_autoptr (OrtrainGraph) layered =
          is_last && request->takes_graph ? g_object_ref (graph) : ortrain_graph_clone (graph);
      if (!change_to_kept (layered, tried[i], NULL, error) ||
          !take_smaller (plan, layered, TRUE, base, request, budget, &taken, error))
        return FALSE;
      if (!taken)
        continue;
      (*plan)->n_layers = n_layers;
      g_free (*kept);
      *kept = g_memdup2 (tried[i], (n_values + 1) * sizeof *wide);
    }
  return TRUE;
}
