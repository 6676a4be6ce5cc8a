/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-search-private.h"

#include "budget/ortrain-budget-plans-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

/* Improves a choice in small steps. Each step changes the run of one value that is live at the highest step of the
 * plan, and is kept if the plan gets lower. So a node may run again once for each of its readers, which neither minimum
 * cuts nor schedules of segments try. */

#define MAX_IN_VAIN 40    /* the search ends after so many plans without an improvement */
#define LEAST_PART 64     /* values smaller than 1/64 of the peak are not tried */
#define MAX_CANDIDATES 24 /* values that are tried for each peak */

/* Plans are compared by the sum of the 64th powers of the live bytes of their steps, and not by the highest step alone:
 * of two equal peaks, only one can be lowered at a time. 64 = 2^N_SQUARES. */
#define N_SQUARES 6

typedef struct
{
  OrtrainBudgetSearch *search;
  OrtrainMemoryPlan *base;
  const OrtrainPlanRequest *request;
  const OrtrainBudget *budget;
  GHashTable *seen;        /* elements: GBytes, the runs [n_values] that have been planned */
  guint n_left;            /* number of plans that may still be made */
  guint n_in_vain;         /* number of plans since the last improvement */
  guint8 *run;             /* [n_values]: the best runs so far, see ortrain_recompute_apply () */
  OrtrainMemoryPlan *plan; /* their plan */
  double scale;            /* peak of the first plan, in bytes */
  double height;           /* of `plan`, see measure_height () */
} Descent;

static double
measure_height (const OrtrainMemoryPlan *plan, double scale)
{
  g_autofree gsize *live = ortrain_memory_plan_measure_steps (plan);
  double sum = 0;
  for (guint s = 0; s < plan->n_steps; s++)
    {
      double part = (double) live[s] / scale;
      for (guint i = 0; i < N_SQUARES; i++)
        part *= part;
      sum += part;
    }
  return sum;
}

static OrtrainMemoryPlan *
plan_runs (const Descent *self, const guint8 *run, GError **error)
{
  OrtrainPlanRequest lowering = *self->request;
  lowering.lowers_peak = lowering.without_search = TRUE;
  g_autoptr (OrtrainGraph) copy = ortrain_budget_apply_runs (self->search->graph, run, NULL, error);
  return copy != NULL ? ortrain_budget_plan_variant (copy, TRUE, &lowering, self->budget, error) : NULL;
}

/* Whether the value is computed by the forward pass and can be recomputed. */
static gboolean
has_run (const Descent *self, const OrtrainValue *value)
{
  return value != NULL && value->producer != NULL && value->producer->phase == ORTRAIN_PHASE_FORWARD &&
         (self->search->work[value->producer->mark] >= 0 || self->search->late[value->id]) &&
         !ortrain_recompute_is_free_to_keep (value);
}

static void
add_candidate (const Descent *self, GPtrArray *list, OrtrainValue *value)
{
  if (has_run (self, value) && list->len < MAX_CANDIDATES && !g_ptr_array_find (list, value, NULL))
    g_ptr_array_add (list, value);
}

/* The value of the graph from which a value of the plan was copied, or NULL. */
static OrtrainValue *
find_original (const Descent *self, const OrtrainPlanValue *planned)
{
  const OrtrainValue *value = planned->value;
  if (value == NULL || value->producer == NULL)
    return NULL;
  const OrtrainNode *node = value->producer, *first = node->recomputes;
  for (guint k = 0; first != NULL && k < MIN (node->outputs->len, first->outputs->len); k++)
    if (node->outputs->pdata[k] == value)
      value = first->outputs->pdata[k];
  return value != NULL ? ortrain_graph_find_value (self->search->graph, value->name) : NULL;
}

static gint
compare_bytes (gconstpointer a, gconstpointer b, gpointer data)
{
  const guint32 first = *(const guint32 *) a, second = *(const guint32 *) b;
  const OrtrainPlanValue *values = data;
  if (values[first].bytes != values[second].bytes)
    return values[first].bytes > values[second].bytes ? -1 : 1;
  return first < second ? -1 : 1;
}

/* The values that are live at the highest step, the largest first, and then their direct consumers and inputs. */
static GPtrArray *
list_candidates (const Descent *self)
{
  const OrtrainMemoryPlan *plan = self->plan;
  GPtrArray *list = g_ptr_array_new ();
  gsize peak;
  const gint step = (gint) ortrain_memory_plan_find_peak (plan, &peak);
  g_autoptr (GArray) blocks = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint32 v = 0; v < plan->n_values; v++)
    if (ortrain_plan_value_is_block (plan->values, v) && plan->values[v].first <= step &&
        plan->values[v].last >= step && plan->values[v].bytes >= peak / LEAST_PART)
      g_array_append_val (blocks, v);
  g_array_sort_with_data (blocks, compare_bytes, plan->values);
  for (guint b = 0; b < blocks->len; b++)
    for (guint v = 0; v < plan->n_values; v++) /* all values in the same buffer */
      if (plan->values[v].root == g_array_index (blocks, guint32, b))
        add_candidate (self, list, find_original (self, &plan->values[v]));
  const guint n = list->len;
  for (guint c = 0; c < n; c++)
    {
      OrtrainValue *value = list->pdata[c];
      for (guint u = 0; u < value->uses.n; u++)
        for (guint k = 0; k < value->uses.items[u].node->outputs->len; k++)
          add_candidate (self, list, value->uses.items[u].node->outputs->pdata[k]);
      for (guint i = 0; i < value->producer->inputs->len; i++)
        add_candidate (self, list, value->producer->inputs->pdata[i]);
    }
  return list;
}

/* Gives the inputs of a node the same run, and their inputs too, except for values that are kept. */
static void
run_inputs_again (const Descent *self, const OrtrainNode *node, guint8 *run, guint of)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      if (!has_run (self, input) || !ortrain_recompute_needs_input (node, i) ||
          ORTRAIN_RECOMPUTE_RUN (run[input->id]) == of || ORTRAIN_RECOMPUTE_RUN (run[input->id]) == 0)
        continue;
      run[input->id] = (guint8) (of | (run[input->id] & ORTRAIN_RECOMPUTE_TWICE));
      run_inputs_again (self, input->producer, run, of);
    }
}

/* Plans these runs, and takes them if the plan is lower. FALSE: error. */
static gboolean
try_runs (Descent *self, const guint8 *run, gboolean *taken, GError **error)
{
  g_autoptr (GBytes) key = g_bytes_new (run, self->search->n_values);
  if (self->n_left == 0 || self->n_in_vain == MAX_IN_VAIN || !g_hash_table_add (self->seen, g_bytes_ref (key)))
    return TRUE;
  self->n_left--;
  self->n_in_vain++;
  g_autoptr (OrtrainMemoryPlan) plan = plan_runs (self, run, error);
  if (plan == NULL)
    return FALSE;
  const double height = measure_height (plan, self->scale);
  if (height >= self->height * 0.999 || !ortrain_budget_has_same_arithmetic (plan, self->base))
    return TRUE;
  memcpy (self->run, run, self->search->n_values);
  g_set_object (&self->plan, plan);
  self->height = height;
  self->n_in_vain = 0;
  *taken = TRUE;
  return TRUE;
}

/* A change of the run of one value. Sorted: those that lower a plan most often come first. */
typedef struct
{
  gint8 later;  /* added to the run */
  guint8 split; /* the first `split` readers keep this run, the others read the next one; 0: all read the same */
  gboolean with_inputs; /* the inputs get the same run */
  gboolean twice;       /* instead: a second run in the forward pass, or none any more */
} Move;

static const Move moves[] = {
  { 1, 0, FALSE },
  { 0, 1, FALSE },
  { 0, 1, TRUE },
  { 1, 0, TRUE },
  { 1, 1, FALSE },
  { 1, 1, TRUE },
  { 0, 2, FALSE },
  { 0, 2, TRUE },
  { -1, 0, FALSE },
  { .twice = TRUE },
  { .twice = TRUE, .with_inputs = TRUE },
};

static gboolean
try_value (Descent *self, const OrtrainValue *value, gboolean *taken, GError **error)
{
  const gint now = ORTRAIN_RECOMPUTE_RUN (self->run[value->id]);
  const guint n_readers = ortrain_recompute_count_readers (value);
  for (guint m = 0; m < G_N_ELEMENTS (moves) && !*taken; m++)
    {
      const gint of = now + moves[m].later, last = of + (moves[m].split > 0);
      if (of < 0 || last > ORTRAIN_RECOMPUTE_MAX_RUN || (moves[m].split > 0 && moves[m].split >= n_readers))
        continue;
      g_autofree guint8 *run = g_memdup2 (self->run, self->search->n_values);
      if (moves[m].twice)
        {
          if (!ortrain_budget_search_toggle_twice (self->search, value, moves[m].with_inputs, run))
            continue;
        }
      else
        run[value->id] = (guint8) (of | moves[m].split << 4 | (run[value->id] & ORTRAIN_RECOMPUTE_TWICE));
      if (moves[m].with_inputs && !moves[m].twice)
        run_inputs_again (self, value->producer, run, (guint) last);
      if (!try_runs (self, run, taken, error))
        return FALSE;
    }
  return TRUE;
}

static void
add_point (const Descent *self)
{
  OrtrainBudgetSearch *search = self->search;
  const OrtrainProvider *provider = self->request->provider;
  ortrain_budget_search_add (search, g_memdup2 (self->run, search->n_values), g_new0 (gboolean, search->n_values + 1),
                             MAX (ortrain_memory_plan_get_lower_bound_bytes (self->plan), 1));
  OrtrainBudgetChoice *choice = search->choices->pdata[search->choices->len - 1];
  choice->work =
      MAX (0, ortrain_budget_measure_work (self->plan, provider) - ortrain_budget_measure_work (self->base, provider));
  choice->is_measured = TRUE;
}

gboolean
ortrain_budget_search_descend (OrtrainBudgetSearch *search, const guint8 *run, guint n_plans, gsize enough,
                               OrtrainMemoryPlan *base, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                               GError **error)
{
  Descent self = { search, base, request, budget };
  self.n_left = n_plans;
  self.run = g_memdup2 (run, search->n_values);
  self.plan = plan_runs (&self, self.run, error);
  self.seen = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);
  gboolean ok = self.plan != NULL, taken = ok;
  if (ok)
    {
      g_hash_table_add (self.seen, g_bytes_new (self.run, search->n_values));
      self.scale = MAX (1.0, (double) ortrain_memory_plan_get_lower_bound_bytes (self.plan));
      self.height = measure_height (self.plan, self.scale);
    }
  while (ok && taken && self.n_left > 0 && ortrain_memory_plan_get_lower_bound_bytes (self.plan) > enough)
    {
      g_autoptr (GPtrArray) candidates = list_candidates (&self);
      taken = FALSE;
      for (guint c = 0; c < candidates->len && ok && !taken; c++)
        ok = try_value (&self, candidates->pdata[c], &taken, error);
      if (ok && taken)
        add_point (&self);
    }
  g_hash_table_unref (self.seen);
  g_clear_object (&self.plan);
  g_free (self.run);
  return ok;
}
