/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-choices-private.h"

#include "budget/ortrain-budget-plans-private.h"
#include "core/ortrain-text-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-private.h"
#include "transform/ortrain-passes-private.h"

static void
choice_free (gpointer data)
{
  OrtrainRecomputeChoice *self = data;
  g_free (self->cluster);
  g_ptr_array_unref (self->again);
  g_ptr_array_unref (self->kept);
  g_free (self);
}

static GPtrArray *
copy_names (const GPtrArray *values)
{
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; values != NULL && i < values->len; i++)
    g_ptr_array_add (names, g_strdup (((const OrtrainValue *) values->pdata[i])->name));
  return names;
}

GPtrArray *
ortrain_recompute_choices_new (const OrtrainRecomputeCandidates *candidates)
{
  GPtrArray *self = g_ptr_array_new_with_free_func (choice_free);
  for (guint c = 0; c < candidates->candidates->len; c++)
    {
      const OrtrainRecomputeCandidate *candidate = candidates->candidates->pdata[c];
      const OrtrainRecomputeOption *way = &candidate->ways[candidate->strategy];
      if (candidate->strategy == ORTRAIN_RECOMPUTE_STRATEGY_NONE)
        continue;
      OrtrainRecomputeChoice *choice = g_new0 (OrtrainRecomputeChoice, 1);
      choice->cluster = g_strdup_printf ("%s:%d", way->cluster, candidate->strategy);
      choice->again = copy_names (candidate->outputs);
      choice->kept = copy_names (way->kept);
      g_ptr_array_add (self, choice);
    }
  return self;
}

/* ---- Plans ---- */

static void
mark (OrtrainGraph *graph, const GPtrArray *names, gboolean *kept, gboolean keeps)
{
  for (guint i = 0; i < names->len; i++)
    {
      const OrtrainValue *value = ortrain_graph_find_value (graph, names->pdata[i]);
      if (value != NULL && value->producer != NULL && ortrain_recompute_may_run_again (value->producer) &&
          !ortrain_recompute_is_free_to_keep (value))
        kept[value->id] = keeps;
    }
}

/* Which values are kept if the choices of the taken clusters are applied: [n_values]. A value that a pass has merged
 * with others has no name any more, and is not kept in any case. taken: set of clusters */
static gboolean *
find_kept (const GPtrArray *self, OrtrainGraph *graph, GHashTable *taken)
{
  gboolean *kept = g_new (gboolean, graph->values->len + 1);
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      /* a value that the backward pass does not read is only needed to compute others */
      kept[v] = value->producer == NULL || ortrain_recompute_is_free_to_keep (value) ||
                ortrain_recompute_is_read_backward (value) || !ortrain_recompute_may_run_again (value->producer);
    }
  for (guint keeps = 0; keeps < 2; keeps++)
    for (guint c = 0; c < self->len; c++)
      {
        const OrtrainRecomputeChoice *choice = self->pdata[c];
        if (g_hash_table_contains (taken, choice->cluster))
          mark (graph, keeps ? choice->kept : choice->again, kept, keeps);
      }
  return kept;
}

/* The plan with these clusters, if it has the same bits as base and takes no more than `most`; otherwise *plan is
 * NULL. */
static gboolean
try_clusters (const GPtrArray *self, OrtrainGraph *graph, GHashTable *taken, OrtrainMemoryPlan *base, guint64 most,
              const OrtrainPlanRequest *request, const OrtrainBudget *budget, OrtrainGraph **changed,
              OrtrainMemoryPlan **plan, GError **error)
{
  g_autofree gboolean *kept = find_kept (self, graph, taken);
  g_autofree guint8 *run = ortrain_recompute_runs_new (kept, graph->values->len);
  g_autoptr (OrtrainGraph) copy = ortrain_budget_apply_runs (graph, run, NULL, error);
  /* nodes that run again in any case are not run twice */
  g_autoptr (OrtrainMemoryPlan) with = copy != NULL && ortrain_merge_equal_nodes (copy, error)
                                           ? ortrain_budget_plan_variant (copy, FALSE, request, budget, error)
                                           : NULL;
  if (with == NULL)
    return FALSE;
  if (ortrain_budget_has_same_arithmetic (with, base) && ortrain_memory_plan_get_peak_bytes (with) <= most)
    {
      *changed = g_steal_pointer (&copy);
      *plan = g_steal_pointer (&with);
    }
  return TRUE;
}

/* The different clusters, in order. */
static GPtrArray *
list_clusters (const GPtrArray *self)
{
  GPtrArray *clusters = g_ptr_array_new ();
  for (guint c = 0; c < self->len; c++)
    {
      const OrtrainRecomputeChoice *choice = self->pdata[c];
      if (!g_ptr_array_find_with_equal_func (clusters, choice->cluster, g_str_equal, NULL))
        g_ptr_array_add (clusters, choice->cluster);
    }
  return clusters;
}

gboolean
ortrain_recompute_choices_take (const GPtrArray *self, OrtrainGraph **graph, OrtrainMemoryPlan **plan,
                                const OrtrainPlanRequest *request, const OrtrainBudget *budget, GError **error)
{
  g_autoptr (GHashTable) taken = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) clusters = list_clusters (self);
  g_autoptr (GString) dropped = g_string_new (NULL);
  g_autoptr (OrtrainMemoryPlan) base = g_object_ref (*plan), best = NULL;
  g_autoptr (OrtrainGraph) changed = NULL;
  for (guint c = 0; c < clusters->len; c++)
    g_hash_table_add (taken, clusters->pdata[c]);
  if (!try_clusters (self, *graph, taken, base, ortrain_memory_plan_get_peak_bytes (base), request, budget, &changed,
                     &best, error))
    return FALSE;
  if (best == NULL)
    g_hash_table_remove_all (taken);
  for (guint c = 0; c < clusters->len && !g_hash_table_contains (taken, clusters->pdata[c]); c++)
    {
      g_autoptr (OrtrainMemoryPlan) with = NULL;
      g_autoptr (OrtrainGraph) other = NULL;
      const guint64 most = ortrain_memory_plan_get_peak_bytes (best != NULL ? best : base);
      g_hash_table_add (taken, clusters->pdata[c]);
      if (!try_clusters (self, *graph, taken, base, most, request, budget, &other, &with, error))
        return FALSE;
      if (with != NULL)
        {
          g_set_object (&best, with);
          g_set_object (&changed, other);
          continue;
        }
      g_hash_table_remove (taken, clusters->pdata[c]);
      g_string_append_printf (dropped, "%s%s", dropped->len > 0 ? ", " : "", (const char *) clusters->pdata[c]);
    }
  if (best != NULL)
    {
      g_set_object (plan, best);
      g_set_object (graph, changed);
    }
  if (dropped->len > 0)
    (*plan)->dropped_clusters = g_strdup (ortrain_text_show_list (dropped->str));
  return TRUE;
}
