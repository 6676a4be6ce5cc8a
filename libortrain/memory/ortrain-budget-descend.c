/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-budget-search-private.h"

#include "memory/ortrain-budget-plans-private.h"
#include "memory/ortrain-memory-plan-private.h"
#include "transform/ortrain-recompute-private.h"

#include <string.h>

/* A choice is the first of a row, each of which needs less than the one before it. What is live at the highest step of a plan names the values that another run may help; the first of
 * them that lowers the plan is taken. So a value may run once for each of its readers, or leave its memory to a step that no
 * minimum cut and no schedule of segments has looked at. */

#define MAX_IN_VAIN 40 /* plans one after the other of which none is lower */
#define LEAST_PART 64  /* of the peak: what is smaller is not worth a plan */
#define MAX_CANDIDATES 24

/* What plans are compared by. Steps that are nearly as high as the highest count too, since a plan that is lower at one of
 * two equal peaks is on the way to one that is lower at both: the sum of the 64th powers of their bytes. */
#define N_SQUARES 6

typedef struct
{
  OrtrainBudgetSearch *search;
  OrtrainMemoryPlan *base;
  const OrtrainPlanRequest *request;
  const OrtrainBudget *budget;
  GHashTable *seen; /* of GBytes: runs that have been planned */
  guint n_left;     /* plans */
  guint n_in_vain;  /* since the last that was taken */
  guint8 *run;      /* [n_values]: of the last of the row */
  OrtrainMemoryPlan *plan;
  double scale; /* bytes: of the first plan's peak */
  double height;
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

/* Of the forward pass, and decided about by its run. */
static gboolean
has_run (const Descent *self, const OrtrainValue *value)
{
  return value != NULL && value->producer != NULL && value->producer->phase == ORTRAIN_PHASE_FORWARD &&
         self->search->work[value->producer->mark] >= 0 && !ortrain_recompute_lives_anyhow (value);
}

static void
add_candidate (const Descent *self, GPtrArray *list, OrtrainValue *value)
{
  if (has_run (self, value) && list->len < MAX_CANDIDATES && !g_ptr_array_find (list, value, NULL))
    g_ptr_array_add (list, value);
}

/* The value of the graph that one of a plan is, or is a copy of; or NULL. */
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

/* What is live at the highest step, the largest first: and after it what is computed from it, and what it is computed from. */
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
    for (guint v = 0; v < plan->n_values; v++) /* all that share its bytes */
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

/* What the value is computed from gets the same run, as far as one of the passes has computed it again. */
static void
run_inputs_again (const Descent *self, const OrtrainNode *node, guint8 *run, guint of)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      if (!has_run (self, input) || !ortrain_recompute_reads_again (node, i) ||
          ORTRAIN_RECOMPUTE_RUN (run[input->id]) == of || ORTRAIN_RECOMPUTE_RUN (run[input->id]) == 0)
        continue;
      run[input->id] = (guint8) of;
      run_inputs_again (self, input->producer, run, of);
    }
}

/* Plans these runs, and takes them where that is lower. FALSE: error. */
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

/* Another run of a value: so many runs later; of its readers from the split-th on one more; and what it is computed from
 * in the same run, or not. Those come first that lower a plan most often. */
typedef struct
{
  gint8 later;
  guint8 split;
  gboolean with_inputs;
} Move;

static const Move moves[] = {
  { 1, 0, FALSE }, { 0, 1, FALSE }, { 0, 1, TRUE }, { 1, 0, TRUE },   { 1, 1, FALSE },
  { 1, 1, TRUE },  { 0, 2, FALSE }, { 0, 2, TRUE }, { -1, 0, FALSE },
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
      run[value->id] = (guint8) (of | moves[m].split << 4);
      if (moves[m].with_inputs)
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
