/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-private.h"

#include "budget/ortrain-budget-plans-private.h"
#include "budget/ortrain-budget-search-private.h"
#include "budget/ortrain-plan-cache-entry-private.h"
#include "budget/ortrain-recompute-choices-private.h"
#include "core/ortrain-log-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-pack-bits-private.h"

#include <string.h>

/* How the search goes. The forward pass is a chain of segments. A choice says of each value in which run of its node
 * the backward pass reads it. Choices come from minimum cuts (budget/ortrain-budget-choices.c), from dynamic
 * programming over the chain (budget/ortrain-budget-chain.c), and from the recompute levels; where values may be
 * offloaded, each of them once more with some of the kept values copied out and back, at the price of these copies. The
 * list is sorted by work; a choice that promises no less memory than one with less work is dropped. The first whose
 * plan fits is taken. If none fits, the choice that needs the fewest bytes is lowered at its peaks
 * (budget/ortrain-budget-descend.c). */

#define MAX_KNOWN 12 /* choices that a family keeps: few, as those that do not fit cost time */

typedef struct
{
  OrtrainBudgetSearch search;
  const OrtrainBudgetChoice
      *taken;              /* the one that was found, or needs least: of `smallest`; NULL: the graph as it is does */
  gboolean taken_overlaps; /* and how it was planned */
  guint64 least;           /* bytes that a plan was seen to need */
} Search;

/* Stores some choices in the family, the last one, with the fewest kept bytes, among them. Choices with a rough promise
 * are left out: with other shapes, the bytes of a choice are judged by its promise. */
static void
keep_choices (const GPtrArray *all, OrtrainGraph *graph, OrtrainPlanChoiceMemo *family)
{
  g_autoptr (GPtrArray) choices = g_ptr_array_new ();
  for (guint c = 0; c < all->len; c++)
    if (!((OrtrainBudgetChoice *) all->pdata[c])->is_rough)
      g_ptr_array_add (choices, all->pdata[c]);
  const guint n = choices->len, n_kept = MIN (n, MAX_KNOWN);
  ortrain_plan_choice_memo_begin (family, graph, TRUE);
  for (guint k = 0; k < n_kept; k++)
    {
      const OrtrainBudgetChoice *choice = choices->pdata[(k + 1) * n / n_kept - 1];
      g_autofree guint8 *fates = ortrain_budget_make_fates (choice->run, choice->offloaded, graph->values->len);
      ortrain_plan_choice_memo_add_fates (family, fates);
    }
}

/* ---- Plans ---- */

/* useless_above: of the arena, or 0. */
static OrtrainMemoryPlan *
plan_choice (OrtrainGraph *graph, const OrtrainBudgetChoice *choice, gboolean overlaps, gsize useless_above,
             const OrtrainPlanRequest *request, const OrtrainBudget *budget, GError **error)
{
  OrtrainPlanRequest of_choice = *request;
  of_choice.overlaps_offloads = overlaps;
  of_choice.lowers_peak = TRUE;
  of_choice.useless_above = useless_above;
  g_autoptr (OrtrainGraph) copy =
      ortrain_budget_apply_runs (graph, choice->run, choice->offloads ? choice->offloaded : NULL, error);
  return copy != NULL ? ortrain_budget_plan_variant (copy, TRUE, &of_choice, budget, error) : NULL;
}

#define MAX_DESCENDED 80000   /* nodes in all plans of a descent together */
#define MAX_DESCENTS 200      /* plans of a descent */
#define MAX_TRIED_LAST 12     /* choices that promise to need least, which are planned for a refusal's message */
#define MAX_TRIED_OF_FAMILY 3 /* choices of another shape that are planned where any plan will do */
#define LEAST_PROMISED 0.75   /* a plan may need this part of what its choice promises */
#define LEAST_OFFLOADED 0.5   /* the same where values are offloaded: the bytes that pass through are a guess */

/* From shape to shape, the part of its promise that a choice takes changes by less than this. So a choice that is
 * passed over for being too large is too large, and a smaller budget does not find one that takes more. */
#define LIKELY 0.98

/* Whether a plan of the choice may fit, as those of other members of the family turned out. */
static gboolean
is_promising (const OrtrainBudgetChoice *choice, const OrtrainPlanChoiceMemo *family, guint64 persistent,
              guint64 budget)
{
  const double scale = LIKELY * ortrain_plan_choice_memo_get_scale (family, choice->index);
  const double arena = (double) choice->promise * scale;
  return (double) persistent + arena <= (double) budget;
}

/* Plans a choice, and notes whether it needs least of all so far. found: the plan, if it fits. FALSE: an error other
 * than that of the budget. */
static gboolean
try_choice (Search *self, OrtrainBudgetChoice *choice, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
            OrtrainMemoryPlan *base, OrtrainPlanChoiceMemo *family, OrtrainMemoryPlan **found, GError **error)
{
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (base);
  const gsize left = budget->bytes > persistent ? (gsize) (budget->bytes - persistent) : 1;
  /* copies that run while the device computes take no time, but hold their places for longer; if the device is the
   * host, nothing overlaps */
  const gboolean beside = choice->offloads && !request->provider->klass->reads_host;
  for (guint way = beside ? 0 : 1; way < 2 && *found == NULL; way++)
    {
      g_autoptr (OrtrainMemoryPlan) plan =
          plan_choice (self->search.graph, choice, way == 0, left, request, budget, error);
      if (plan == NULL)
        return FALSE;
      if (!ortrain_budget_has_same_arithmetic (plan, base))
        continue;
      const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan);
      const guint64 least = persistent + ortrain_memory_plan_get_lower_bound_bytes (plan);
      const gboolean fits = peak <= budget->bytes;
      ORTRAIN_LOG (ORTRAIN_LOG_PLAN,
                   "choice %u%s: %" G_GUINT64_FORMAT " bytes at the peak, a budget of %" G_GUINT64_FORMAT ": %s",
                   choice->index, choice->offloads ? ", offloading" : "", peak, budget->bytes,
                   fits ? "taken" : "too large");
      if (way == 1)
        choice->least = least;
      if (family != NULL && way == 1)
        ortrain_plan_choice_memo_set_scale (family, choice->index,
                                            (double) (least - persistent) / (double) MAX (choice->promise, 1));
      if (fits || least < self->least)
        {
          self->least = least;
          self->taken = choice;
          self->taken_overlaps = way == 0;
        }
      if (fits)
        *found = g_steal_pointer (&plan);
    }
  return TRUE;
}

/* The order in which choices are tried where any will do: those first that promise to need least, and rough promises
 * last. Otherwise they are tried by work. */
static gint
compare_promises (gconstpointer a, gconstpointer b)
{
  const OrtrainBudgetChoice *first = *(const OrtrainBudgetChoice *const *) a;
  const OrtrainBudgetChoice *second = *(const OrtrainBudgetChoice *const *) b;
  if (first->is_rough != second->is_rough)
    return second->is_rough ? -1 : 1;
  if (first->promise != second->promise)
    return first->promise < second->promise ? -1 : 1;
  return first->work < second->work ? -1 : first->work > second->work ? 1 : 0;
}

/* Finds the first that fits. FALSE: an error other than that of the budget. n_last: if none fits, so many of those that
 * promise to need least are planned for the message. smallest: replaced where a plan needs less. family: that the
 * choices are of, or NULL: those that are likely to fit come first, since each plan takes its time. */
static gboolean
try_choices (Search *self, const OrtrainPlanRequest *request, const OrtrainBudget *budget, OrtrainMemoryPlan *base,
             OrtrainPlanChoiceMemo *family, guint n_last, OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found,
             GError **error)
{
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (base);
  self->taken = NULL;
  self->least = ortrain_memory_plan_get_peak_bytes (*smallest);
  ortrain_budget_search_sort (&self->search, ortrain_memory_plan_get_arena_bytes (base));
  g_autoptr (GPtrArray) choices = g_ptr_array_new (); /* which the search owns */
  g_ptr_array_extend (choices, self->search.choices, NULL, NULL);
  if (budget->any)
    g_ptr_array_sort (choices, compare_promises);
  const guint n_choices = choices->len, n_rounds = family != NULL ? 2 : 1;
  g_autofree gboolean *tried = g_new0 (gboolean, n_choices + 1);
  guint n_left = !budget->any ? n_choices : family != NULL ? MAX_TRIED_OF_FAMILY : MAX_TRIED_LAST;
  for (guint i = 0; i < n_rounds * n_choices && *found == NULL && n_left > 0; i++)
    {
      const guint c = i % n_choices;
      OrtrainBudgetChoice *choice = choices->pdata[c];
      const double of_promise = choice->is_measured ? 1 : choice->offloads ? LEAST_OFFLOADED : LEAST_PROMISED;
      const double part = of_promise * (double) choice->promise;
      const gboolean may_fit = family != NULL ? i != c || is_promising (choice, family, persistent, budget->bytes)
                                              : (double) persistent + part <= (double) budget->bytes;
      if (tried[c] || !may_fit || persistent + choice->live > budget->bytes)
        continue;
      tried[c] = TRUE;
      n_left--;
      if (!try_choice (self, choice, request, budget, base, family, found, error))
        return FALSE;
    }
  if (*found == NULL && n_last > 0)
    {
      for (guint c = 0; c < n_choices; c++)
        ((OrtrainBudgetChoice *) choices->pdata[c])->was_tried = tried[c];
      g_ptr_array_sort (choices, compare_promises);
      for (guint c = 0; c < MIN (n_choices, n_last) && *found == NULL; c++)
        if (!((OrtrainBudgetChoice *) choices->pdata[c])->was_tried &&
            !try_choice (self, choices->pdata[c], request, budget, base, family, found, error))
          return FALSE;
    }
  if (*found == NULL && self->taken != NULL)
    {
      g_autoptr (OrtrainMemoryPlan) plan =
          plan_choice (self->search.graph, self->taken, self->taken_overlaps, 0, request, budget, error);
      if (plan == NULL)
        return FALSE;
      if (ortrain_memory_plan_get_peak_bytes (plan) < ortrain_memory_plan_get_peak_bytes (*smallest))
        g_set_object (smallest, plan);
      else
        self->taken = NULL;
    }
  return TRUE;
}

/* If no choice fits: lowers the best of the choices with the smallest promises at its peaks, and tries the results. All
 * of those choices have been planned, so that the result does not depend on the budget. */
static gboolean
descend (Search *self, GPtrArray *choices, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
         OrtrainMemoryPlan *base, OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found, GError **error)
{
  const OrtrainBudgetChoice *taken = self->taken, *first = NULL;
  g_ptr_array_sort (choices, compare_promises);
  for (guint c = 0; c < MIN (choices->len, MAX_TRIED_LAST); c++)
    {
      const OrtrainBudgetChoice *choice = choices->pdata[c];
      if (!choice->offloads && choice->least > 0 && (first == NULL || choice->least < first->least))
        first = choice;
    }
  if (first == NULL)
    return TRUE;
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (base);
  const gsize enough = budget->bytes > persistent ? (gsize) (budget->bytes - persistent) : 0;
  const guint n_plans = MIN (MAX_DESCENDED / (self->search.n_nodes + 1), MAX_DESCENTS);
  if (!ortrain_budget_search_descend (&self->search, first->run, n_plans, enough, base, request, budget, error) ||
      !try_choices (self, request, budget, base, NULL, 1, smallest, found, error))
    return FALSE;
  if (self->taken == NULL)
    self->taken = taken; /* none of the new plans is smaller */
  return TRUE;
}

/* ---- What an earlier search found ---- */

/* FALSE: there is no answer, or it is not the result that the search would find. TRUE with found NULL: the answer is
 * that no plan fits. */
static gboolean
restore (OrtrainBudgetSearch *search, GBytes *key, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
         OrtrainMemoryPlan *base, OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found)
{
  guint8 digest[ORTRAIN_PLAN_DIGEST_BYTES];
  const guint n_values = search->n_values;
  g_autoptr (OrtrainPlanCacheEntry) answer = ortrain_plan_cache_entry_lookup (key, n_values);
  g_autoptr (OrtrainMemoryPlan) plan = NULL;
  if (answer == NULL)
    return FALSE;
  if (answer->choice == NULL)
    plan = g_object_ref (base);
  else
    {
      ortrain_budget_search_add_fates (search, g_steal_pointer (&answer->choice));
      plan = plan_choice (search->graph, search->choices->pdata[0], answer->overlaps, 0, request, budget, NULL);
      g_ptr_array_set_size (search->choices, 0);
    }
  if (plan == NULL || !ortrain_budget_has_same_arithmetic (plan, base) ||
      (ortrain_memory_plan_get_peak_bytes (plan) > budget->bytes) != answer->refused)
    return FALSE;
  ortrain_memory_plan_compute_digest (plan, digest);
  if (memcmp (digest, answer->digest, sizeof digest) != 0)
    return FALSE;
  if (ortrain_memory_plan_get_peak_bytes (plan) < ortrain_memory_plan_get_peak_bytes (*smallest))
    g_set_object (smallest, plan);
  if (answer->refused)
    return TRUE;
  *found = g_steal_pointer (&plan);
  if (budget->family != NULL)
    ortrain_plan_choice_memo_begin (budget->family, search->graph, FALSE);
  for (guint c = 0; c < answer->known->len && budget->family != NULL; c++)
    ortrain_plan_choice_memo_add_fates (budget->family, answer->known->pdata[c]);
  return TRUE;
}

/* plan: the one that was found, or else the one that needs least. */
static void
keep_answer (const Search *self, GBytes *key, const OrtrainBudget *budget, OrtrainMemoryPlan *plan)
{
  const guint n_values = self->search.n_values;
  g_autofree guint8 *choice = NULL;
  OrtrainPlanCacheEntry answer = { .refused = ortrain_memory_plan_get_peak_bytes (plan) > budget->bytes };
  g_autoptr (GPtrArray) known = NULL;
  if (self->taken != NULL)
    {
      answer.overlaps = self->taken_overlaps;
      answer.choice = choice = ortrain_budget_make_fates (self->taken->run, self->taken->offloaded, n_values);
    }
  if (budget->family != NULL && !answer.refused)
    {
      answer.known = known = ortrain_plan_choice_memo_list (budget->family, self->search.graph);
      g_ptr_array_set_free_func (known, g_free);
    }
  ortrain_memory_plan_compute_digest (plan, answer.digest);
  ortrain_plan_cache_entry_store (&answer, key, n_values);
}

/* found: the cheapest plan that fits, or else NULL. smallest: replaced where a plan needs less. FALSE: an error other
 * than that of the budget. */
static gboolean
search_choices (OrtrainGraph *graph, OrtrainMemoryPlan *base, const OrtrainPlanRequest *request,
                const OrtrainBudget *budget, OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found, GError **error)
{
  Search self = { 0 };
  OrtrainBudgetSearch *search = &self.search;
  g_autoptr (GPtrArray) earlier = NULL; /* kept alive: self.taken may be one of them */
  OrtrainPlanChoiceMemo *family = ortrain_budget_has_backward (base) ? budget->family : NULL;
  gboolean ok = TRUE;
  ortrain_budget_search_init (search, graph, base, request->provider, budget->offloads);
  if (family != NULL)
    {
      g_autoptr (GPtrArray) list = ortrain_plan_choice_memo_list (family, graph);
      for (guint c = 0; c < list->len; c++)
        ortrain_budget_search_add_fates (search, list->pdata[c]);
      ok = try_choices (&self, request, budget, base, family, 0, smallest, found, error);
      g_ptr_array_set_size (search->choices, 0);
    }
  const gboolean searches = ok && *found == NULL && ortrain_budget_has_backward (base);
  g_autoptr (GBytes) key = searches ? ortrain_plan_cache_entry_make_key (graph, base, request, budget) : NULL;
  if (searches && !restore (search, key, request, budget, base, smallest, found))
    {
      g_autoptr (OrtrainMemoryPlan) least = g_object_ref (base); /* whatever the family tried */
      self.taken = NULL;
      ok = ortrain_budget_chain_measure (search, base, request, budget, error);
      if (ok)
        {
          ortrain_budget_search_add_offloads (search);
          ortrain_budget_search_add_cuts (search);
          ortrain_budget_search_add_levels (search, base);
          ortrain_budget_search_add_order (search, base);
          ortrain_budget_chain_add_choices (search);
          /* whether there is any that fits, the choices as they are may tell */
          g_autoptr (OrtrainMemoryPlan) least_of_them = g_object_ref (base);
          if (budget->any)
            ok = try_choices (&self, request, budget, base, NULL, 0, &least_of_them, found, error);
          if (budget->any && !ortrain_budget_is_small (graph)) /* there are no more of them */
            g_set_object (&least, least_of_them);
          else if (ok && *found == NULL)
            ok = ortrain_budget_search_refine (search, base, request, budget, error) &&
                 try_choices (&self, request, budget, base, NULL, budget->any ? 0 : MAX_TRIED_LAST, &least, found,
                              error);
          if (ok && *found == NULL && !budget->any)
            {
              earlier = ortrain_budget_search_steal_choices (search);
              ok = descend (&self, earlier, request, budget, base, &least, found, error);
            }
        }
      if (ok && *found != NULL && family != NULL)
        keep_choices (search->choices, graph, family);
      if (ok)
        keep_answer (&self, key, budget, *found != NULL ? *found : least);
      if (ortrain_memory_plan_get_peak_bytes (least) < ortrain_memory_plan_get_peak_bytes (*smallest))
        g_set_object (smallest, least);
    }
  ortrain_budget_search_clear (search);
  return ok;
}

OrtrainMemoryPlan *
ortrain_plan_within_budget (OrtrainGraph *source, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                            GError **error)
{
  OrtrainPlanRequest for_base = *request;
  const gboolean has_booleans = ortrain_pack_bits_finds (source);
  const gboolean has_choices = budget->choices != NULL && budget->choices->len > 0;
  for_base.consumes_graph =
      request->consumes_graph && budget->bytes == 0 && budget->level == 0 && !has_choices && !has_booleans;
  for_base.without_search = request->without_search || budget->exceeds;
  g_autoptr (OrtrainMemoryPlan) base = ortrain_budget_plan_graph (source, &for_base, budget, error);
  g_autoptr (OrtrainGraph) graph = g_object_ref (source);
  if (base != NULL && has_booleans && !ortrain_budget_try_bit_packing (&graph, &base, request, budget, error))
    return NULL;
  if (base != NULL && has_choices && ortrain_budget_has_backward (base) &&
      !ortrain_recompute_choices_take (budget->choices, &graph, &base, request, budget, error))
    return NULL;
  OrtrainPlanRequest for_level = *request;
  for_level.consumes_graph = request->consumes_graph && budget->bytes == 0;
  if (base != NULL && budget->level > 0 && ortrain_budget_has_backward (base) &&
      !ortrain_budget_apply_recompute_level (graph, &base, &for_level, budget, error))
    return NULL;
  if (base == NULL || budget->bytes == 0 || ortrain_memory_plan_get_peak_bytes (base) <= budget->bytes)
    return g_steal_pointer (&base);

  g_autoptr (OrtrainMemoryPlan) smallest = g_object_ref (base);
  g_autoptr (OrtrainMemoryPlan) found = NULL;
  gboolean ok = search_choices (graph, base, request, budget, &smallest, &found, error);
  if (ok && found == NULL && budget->offloads)
    {
      /* offloading must not refuse a budget that is met without it: the limits of a search count offloaded choices
       * too */
      OrtrainBudget without_offloads = *budget;
      without_offloads.offloads = FALSE;
      ok = search_choices (graph, base, request, &without_offloads, &smallest, &found, error);
    }
  if (ok && found == NULL && budget->smallest != NULL &&
      (*budget->smallest == NULL ||
       ortrain_memory_plan_get_peak_bytes (smallest) < ortrain_memory_plan_get_peak_bytes (*budget->smallest)))
    g_set_object (budget->smallest, smallest);
  if (ok && found == NULL)
    ortrain_budget_set_error (error, base, smallest, budget);
  return g_steal_pointer (&found);
}
