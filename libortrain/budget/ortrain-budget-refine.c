/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-search-private.h"

#include "budget/ortrain-budget-plans-private.h"
#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

/* Where plans take little time, choices are planned before they are compared, and not only judged by what they promise;
 * and around those of which no other needs less memory and less work, some more are made, of which single values have
 * another run: what minimum cuts for whole segments leave out. All of it hangs on the graph alone, and not on the
 * budget. */

#define MAX_PLANNED 12000 /* nodes of all plans together */
#define LEAST_PLANS 100   /* with fewer, too few choices nearby can be tried */
#define MAX_PLANS 500
#define N_DESCENTS 12   /* number of choices that are lowered at their peaks */
#define EACH_DESCENT 25 /* number of plans for each of them */
#define MAX_RUN 3       /* that is tried */
#define MAX_SPLITS 4

typedef struct
{
  guint8 *run;   /* [n_values] */
  guint64 bytes; /* of the arena */
  double work;   /* of nodes that run again */
  gboolean is_expanded;
} Point;

typedef struct
{
  OrtrainBudgetSearch *search;
  OrtrainMemoryPlan *base;
  const OrtrainPlanRequest *request;
  const OrtrainBudget *budget;
  GHashTable *seen; /* of GBytes: choices that have been planned, or are of no use */
  GPtrArray *front; /* of Point: no other needs less of both */
  double base_work;
  guint n_left;  /* plans */
  guint8 *again; /* [n_nodes]: scratch */
} Refinement;

static void
point_free (gpointer data)
{
  Point *point = data;
  g_free (point->run);
  g_free (point);
}

/* Whether the choice decides about the value: the backward pass reads it, or nodes that run again. again: of the
 * choice */
static gboolean
is_decided (const Refinement *self, guint v, const guint8 *again)
{
  const OrtrainBudgetSearch *search = self->search;
  const OrtrainValue *value = search->graph->values->pdata[v];
  if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD ||
      search->work[value->producer->mark] < 0)
    return FALSE;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse use = value->uses.items[u];
      if (use.node->phase == ORTRAIN_PHASE_BACKWARD ||
          (use.node->phase == ORTRAIN_PHASE_FORWARD && again[use.node->mark] != 0 &&
           ortrain_recompute_needs_input (use.node, use.index)))
        return TRUE;
    }
  return FALSE;
}

/* Choices that run the same are the same. */
static GBytes *
make_key (Refinement *self, const guint8 *run)
{
  const guint n = self->search->n_values;
  guint8 *key = g_new (guint8, n + 1);
  ortrain_recompute_find_recomputed (self->search->graph, run, self->again);
  for (guint v = 0; v < n; v++)
    key[v] = is_decided (self, v, self->again) || (run[v] & ORTRAIN_RECOMPUTE_TWICE) ? run[v] : G_MAXUINT8;
  return g_bytes_new_take (key, n);
}

/* Whether a point needs no more of both. */
static gboolean
is_beaten (const Refinement *self, guint64 bytes, double work)
{
  for (guint p = 0; p < self->front->len; p++)
    {
      const Point *point = self->front->pdata[p];
      if (point->bytes <= bytes && point->work <= work)
        return TRUE;
    }
  return FALSE;
}

static void
add_point (Refinement *self, const guint8 *run, guint64 bytes, double work)
{
  if (is_beaten (self, bytes, work))
    return;
  for (guint p = self->front->len; p-- > 0;)
    {
      const Point *point = self->front->pdata[p];
      if (bytes <= point->bytes && work <= point->work)
        g_ptr_array_remove_index (self->front, p);
    }
  Point *point = g_new0 (Point, 1);
  *point = (Point){ g_memdup2 (run, self->search->n_values), bytes, work, FALSE };
  g_ptr_array_add (self->front, point);
}

/* Plans a choice that has not been planned yet and may be better than the others. FALSE: error. */
static gboolean
try_runs (Refinement *self, const guint8 *run, GError **error)
{
  OrtrainBudgetSearch *search = self->search;
  g_autoptr (GBytes) key = make_key (self, run);
  if (self->n_left == 0 || g_hash_table_contains (self->seen, key))
    return TRUE;
  g_hash_table_add (self->seen, g_bytes_ref (key));
  const guint n_choices = search->choices->len;
  ortrain_budget_search_add (search, g_memdup2 (run, search->n_values), g_new0 (gboolean, search->n_values + 1), 0);
  const OrtrainBudgetChoice *choice = search->choices->pdata[n_choices];
  const gboolean is_useless = is_beaten (self, choice->live, choice->work);
  g_ptr_array_set_size (search->choices, (gint) n_choices);
  if (is_useless)
    return TRUE;
  self->n_left--;
  OrtrainPlanRequest lowering = *self->request;
  lowering.lowers_peak = lowering.without_search = TRUE;
  g_autoptr (OrtrainGraph) copy = ortrain_budget_apply_runs (search->graph, run, NULL, error);
  g_autoptr (OrtrainMemoryPlan) plan =
      copy != NULL ? ortrain_budget_plan_variant (copy, TRUE, &lowering, self->budget, error) : NULL;
  if (plan == NULL)
    return FALSE;
  if (ortrain_budget_has_same_arithmetic (plan, self->base))
    add_point (self, run, ortrain_memory_plan_get_lower_bound_bytes (plan),
               MAX (0, ortrain_budget_measure_work (plan, self->request->provider) - self->base_work));
  return TRUE;
}

/* The other values that run again with a value. */
typedef enum
{
  WITH_NOTHING,
  WITH_UNDECIDED, /* the values that it needs, if nothing has been decided about them */
  WITH_INPUTS,    /* its inputs in any case, and the undecided values that they need */
  N_WITHS,
} With;

static void
run_inputs_again (Refinement *self, const OrtrainNode *node, guint8 *run, guint of, With with, const guint8 *again)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      if (input == NULL || input->producer == NULL || input->producer->phase != ORTRAIN_PHASE_FORWARD ||
          self->search->work[input->producer->mark] < 0 || !ortrain_recompute_needs_input (node, i) ||
          ORTRAIN_RECOMPUTE_RUN (run[input->id]) == of ||
          (with == WITH_UNDECIDED && is_decided (self, input->id, again)))
        continue;
      run[input->id] = (guint8) (of | (run[input->id] & ORTRAIN_RECOMPUTE_TWICE));
      run_inputs_again (self, input->producer, run, of, WITH_UNDECIDED, again);
    }
}

/* The choice with another run of one value: its inputs stay as they are, or are computed again together with it. */
static gboolean
try_value (Refinement *self, const guint8 *from, const OrtrainValue *value, guint of, guint split, const guint8 *again,
           GError **error)
{
  const guint last = of + (split > 0);
  for (With with = WITH_NOTHING; with < (last > 0 ? N_WITHS : WITH_UNDECIDED); with++)
    {
      g_autofree guint8 *run = g_memdup2 (from, self->search->n_values);
      run[value->id] = (guint8) (of | split << 4 | (from[value->id] & ORTRAIN_RECOMPUTE_TWICE));
      if (with != WITH_NOTHING)
        run_inputs_again (self, value->producer, run, last, with, again);
      if (!try_runs (self, run, error))
        return FALSE;
    }
  return TRUE;
}

/* The choice with a second run in the forward pass, or without it. */
static gboolean
try_twice (Refinement *self, const guint8 *from, const OrtrainValue *value, GError **error)
{
  for (guint with_inputs = 0; with_inputs < 2; with_inputs++)
    {
      g_autofree guint8 *run = g_memdup2 (from, self->search->n_values);
      if (!ortrain_budget_search_toggle_twice (self->search, value, with_inputs, run))
        return TRUE;
      if (!try_runs (self, run, error))
        return FALSE;
    }
  return TRUE;
}

/* Other runs of one value, for all its readers and from each of them on, and a second one in the forward pass. */
static gboolean
expand (Refinement *self, const guint8 *from, GError **error)
{
  g_autofree guint8 *again = g_new (guint8, self->search->n_nodes + 1);
  ortrain_recompute_find_recomputed (self->search->graph, from, again);
  for (guint v = 0; v < self->search->n_values; v++)
    {
      const OrtrainValue *value = self->search->graph->values->pdata[v];
      const guint n_splits = MIN (ortrain_recompute_count_readers (value), MAX_SPLITS),
                  run = ORTRAIN_RECOMPUTE_RUN (from[v]);
      if (!is_decided (self, v, again) || ortrain_recompute_is_free_to_keep (value))
        continue;
      for (guint of = 0; of <= MIN (run + 1, MAX_RUN); of++)
        for (guint split = 0; split < MAX (n_splits, 1); split++)
          if (!try_value (self, from, value, of, split, again, error))
            return FALSE;
    }
  for (guint v = 0; v < self->search->n_values; v++)
    if (!try_twice (self, from, self->search->graph->values->pdata[v], error))
      return FALSE;
  return TRUE;
}

static gint
compare_points (gconstpointer a, gconstpointer b)
{
  const Point *first = *(const Point *const *) a, *second = *(const Point *const *) b;
  return first->work < second->work ? -1 : first->work > second->work ? 1 : 0;
}

/* The cheapest point of the front that has not been expanded, or the one that needs the fewest bytes; NULL: all have
 * been expanded. */
static Point *
find_next (Refinement *self, gboolean cheapest)
{
  g_ptr_array_sort (self->front, compare_points);
  for (guint p = 0; p < self->front->len; p++)
    {
      Point *point = self->front->pdata[cheapest ? p : self->front->len - 1 - p];
      if (!point->is_expanded)
        return point;
    }
  return NULL;
}

/* Lowers some choices at their peaks. They need far fewer bytes than the others, and the refinement then finds cheaper
 * ones near them. */
static gboolean
add_lowered (Refinement *self, guint n_choices, GError **error)
{
  OrtrainBudgetSearch *search = self->search;
  const guint n_descents = MIN (N_DESCENTS, n_choices);
  for (guint d = 0; d < n_descents; d++)
    {
      const OrtrainBudgetChoice *choice = search->choices->pdata[d * n_choices / n_descents];
      if (!choice->offloads && !ortrain_budget_search_descend (search, choice->run, EACH_DESCENT, 0, self->base,
                                                               self->request, self->budget, error))
        return FALSE;
    }
  for (guint c = n_choices; c < search->choices->len; c++)
    {
      const OrtrainBudgetChoice *choice = search->choices->pdata[c];
      g_autoptr (GBytes) key = make_key (self, choice->run);
      g_hash_table_add (self->seen, g_bytes_ref (key));
      add_point (self, choice->run, choice->promise, choice->work);
    }
  g_ptr_array_set_size (search->choices, (gint) n_choices);
  return TRUE;
}

static guint
count_plans (guint n_nodes)
{
  return MIN (MAX_PLANNED / (n_nodes + 1), MAX_PLANS);
}

gboolean
ortrain_budget_is_small (const OrtrainGraph *graph)
{
  return count_plans (graph->nodes->len) >= LEAST_PLANS;
}

gboolean
ortrain_budget_search_refine (OrtrainBudgetSearch *search, OrtrainMemoryPlan *base, const OrtrainPlanRequest *request,
                              const OrtrainBudget *budget, GError **error)
{
  const guint n_plans = count_plans (search->n_nodes);
  if (!ortrain_budget_is_small (search->graph))
    return TRUE;
  Refinement self = { search, base, request, budget, NULL, NULL, 0, n_plans, NULL };
  self.seen = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);
  self.front = g_ptr_array_new_with_free_func (point_free);
  self.again = g_new (guint8, search->n_nodes + 1);
  self.base_work = ortrain_budget_measure_work (base, request->provider);
  g_autofree guint8 *none = g_new0 (guint8, search->n_values + 1);
  gboolean ok = try_runs (&self, none, error);
  const guint n_choices = search->choices->len;
  for (guint c = 0; c < n_choices && ok && self.n_left > n_plans / 2; c++)
    {
      const OrtrainBudgetChoice *choice = search->choices->pdata[c];
      ok = choice->offloads || try_runs (&self, choice->run, error);
    }
  if (ok && !budget->any)
    ok = add_lowered (&self, n_choices, error);
  for (Point *point; ok && self.n_left > 0 && (point = find_next (&self, self.n_left > n_plans / 3)) != NULL;)
    {
      g_autofree guint8 *run = g_memdup2 (point->run, search->n_values);
      point->is_expanded = TRUE;
      ok = expand (&self, run, error);
    }
  for (guint p = 0; p < self.front->len && ok; p++)
    {
      Point *point = self.front->pdata[p];
      ortrain_budget_search_add (search, g_steal_pointer (&point->run), g_new0 (gboolean, search->n_values + 1),
                                 MAX (point->bytes, 1));
      OrtrainBudgetChoice *choice = search->choices->pdata[search->choices->len - 1];
      choice->work = point->work;
      choice->is_measured = TRUE;
    }
  g_hash_table_unref (self.seen);
  g_ptr_array_unref (self.front);
  g_free (self.again);
  return ok;
}
