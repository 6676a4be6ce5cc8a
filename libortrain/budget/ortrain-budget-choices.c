/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-search-private.h"

#include "budget/ortrain-budget-plans-private.h"
#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-layers-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

#define RATE_STEP 2.5        /* between neighbouring exchange rates */
#define MAX_RATES 24         /* of bytes for work */
#define MAX_MIXTURES 12      /* of two neighbouring choices */
#define LEAST_SEGMENTS 4     /* with fewer, the forward pass is parted evenly */
#define MAX_SEGMENTS 128     /* of more cuts, every second one or fewer is taken */
#define MAX_OFFLOADS 12      /* parts of the forward pass whose values are offloaded one after the other */
#define LEAST_OFFLOADED 4096 /* bytes: a smaller value saves less than its copies take */
#define LEAST_LATE 64        /* gradients smaller than 1/64 of the arena do not wait elsewhere */
#define LEAST_PROGRESS 1e-3  /* that a choice promises to save, of what the cheaper ones need */

static void
choice_free (gpointer data)
{
  OrtrainBudgetChoice *choice = data;
  g_free (choice->run);
  g_free (choice->offloaded);
  g_free (choice);
}

/* Nodes are marked with their positions. */
static void
number_nodes (OrtrainBudgetSearch *self)
{
  for (guint t = 0; t < self->n_nodes; t++)
    ((OrtrainNode *) self->graph->nodes->pdata[t])->mark = t;
}

/* ---- What values and nodes cost ---- */

static void
measure_values (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base)
{
  g_autofree const OrtrainPlanValue **planned = ortrain_budget_find_planned (self->graph, base);
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainPlanValue *value = planned[v];
      const OrtrainValue *of = self->graph->values->pdata[v];
      const gboolean in_arena = value != NULL && value->region == ORTRAIN_REGION_ARENA && !of->is_output &&
                                of->kind == ORTRAIN_VALUE_COMPUTED;
      self->bytes[v] = in_arena ? value->bytes : 0;
      self->root[v] = v;
    }
  for (guint t = 0; t < self->n_nodes; t++)
    {
      const OrtrainNode *node = self->graph->nodes->pdata[t];
      if (ortrain_node_is_view (node))
        self->root[((OrtrainValue *) node->outputs->pdata[0])->id] =
            self->root[((OrtrainValue *) node->inputs->pdata[0])->id];
    }
}

/* The plan is of a copy, in another order. */
static void
measure_nodes (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base, const OrtrainProvider *provider)
{
  for (guint t = 0; t < self->n_nodes; t++)
    self->work[t] = ortrain_recompute_may_run_again (self->graph->nodes->pdata[t]) ? 0 : -1;
  for (guint s = 0; s < base->n_steps; s++)
    {
      const OrtrainPlanStep *step = &base->steps[s];
      if (step->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      const OrtrainValue *output = NULL;
      for (guint k = 0; k < step->n_outputs && output == NULL; k++)
        output = ortrain_node_output (step->node, k);
      const OrtrainValue *same = output != NULL ? ortrain_graph_find_value (self->graph, output->name) : NULL;
      const OrtrainNode *node = same != NULL ? same->producer : NULL;
      if (node != NULL && self->work[node->mark] >= 0)
        self->work[node->mark] = MAX (1, ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (step),
                                                                      step->flops, step->bytes_moved));
    }
}

/* An estimate: a loss with gradients takes three products, of which another run repeats only the scores. A plan tells
 * later. */
static void
estimate_late_work (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base, const OrtrainProvider *provider)
{
  for (guint s = 0; s < base->n_steps; s++)
    {
      const OrtrainPlanStep *step = &base->steps[s];
      gboolean is_late = FALSE;
      for (guint k = 0; k < step->n_outputs && step->phase == ORTRAIN_PHASE_FORWARD; k++)
        {
          const OrtrainValue *output = ortrain_node_output (step->node, k);
          const OrtrainValue *same = output != NULL ? ortrain_graph_find_value (self->graph, output->name) : NULL;
          is_late = is_late || (same != NULL && self->late[same->id]);
        }
      if (is_late)
        self->late_work +=
            ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (step), step->flops, step->bytes_moved) /
            3;
    }
}

/* ---- Choices ---- */

static gboolean
is_read_backward (const OrtrainValue *value, const guint8 *again)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      if (node->phase == ORTRAIN_PHASE_BACKWARD || (node->phase == ORTRAIN_PHASE_FORWARD && again[node->mark] > 1))
        return TRUE;
    }
  return FALSE;
}

/* The kept roots that can be offloaded, in the first `n` of `n_parts` parts of the forward pass, except for the last of
 * its values. Views of them are not kept: they show the value that was copied back. */
static gboolean *
choose_offloaded (const OrtrainBudgetSearch *self, guint8 *run, guint n, guint n_parts)
{
  gboolean *offloaded = g_new0 (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values && n > 0; v++)
    {
      const guint root = self->root[v];
      if (run[v] == 0 && self->offloadable[root] &&
          (guint64) self->segment[root] * n_parts < (guint64) self->n_segments * n)
        offloaded[root] = TRUE;
    }
  for (guint v = 0; v < self->n_values; v++)
    if (offloaded[self->root[v]])
      run[v] = self->root[v] == v ? 0 : MAX (run[v], 1);
  return offloaded;
}

/* Bytes of the arena by segment. */
typedef struct
{
  guint64 *kept;              /* [n_segments]: from the forward pass on */
  guint64 *again;             /* [n_segments]: values that the backward pass reads, computed again or copied back */
  guint64 *passing;           /* [n_segments]: those, and the values that are computed again for them */
  gboolean *closed;           /* [n_segments]: all values that are open after it are kept */
  guint64 away, largest_away; /* of offloaded values */
} Weights;

static gboolean
is_late_again (const OrtrainBudgetSearch *self, const guint8 *run)
{
  for (guint v = 0; v < self->n_values && self->has_late; v++)
    if (self->late[v] && run[v] > 0)
      return TRUE;
  return FALSE;
}

static void
weigh_choice (const OrtrainBudgetSearch *self, OrtrainBudgetChoice *choice, Weights *weights)
{
  g_autofree guint8 *again = g_new (guint8, self->n_nodes + 1);
  g_autofree gboolean *counted = g_new0 (gboolean, self->n_values + 1);
  ortrain_recompute_find_recomputed (self->graph, choice->run, again);
  for (guint t = 0; t < self->n_nodes; t++)
    choice->work += __builtin_popcount (again[t]) * MAX (0, self->work[t]);
  if (is_late_again (self, choice->run))
    choice->work += self->late_work;
  for (guint s = 0; s < self->n_segments; s++)
    weights->closed[s] = TRUE;
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainValue *value = self->graph->values->pdata[v];
      const guint root = self->root[v], segment = self->segment[root];
      if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      const guint run = ORTRAIN_RECOMPUTE_RUN (choice->run[v]);
      if (run > 0 && again[value->producer->mark] != 0 && self->bytes[root] > 0 && self->last[v] != G_MAXUINT &&
          self->last[v] > self->ends[segment])
        weights->closed[segment] = FALSE;
      if (counted[root])
        continue;
      if (choice->offloaded[root])
        {
          if (v != root || !is_read_backward (value, again))
            continue;
          choice->offloads = TRUE;
          choice->work += self->offload_work * (double) self->bytes[root];
          weights->again[segment] += self->bytes[root];
          weights->passing[segment] += self->bytes[root];
          weights->away += self->bytes[root];
          weights->largest_away = MAX (weights->largest_away, self->bytes[root]);
        }
      else if (run == 0 && is_read_backward (value, again))
        weights->kept[segment] += self->bytes[root];
      else if (run > 0 && again[value->producer->mark] != 0 && !self->late[v])
        {
          weights->passing[segment] += self->bytes[root];
          weights->again[segment] += ortrain_recompute_is_read_backward (value) ? self->bytes[root] : 0;
        }
      else
        continue;
      counted[root] = TRUE;
    }
}

/* Values that are computed again in segments that are not closed wait until all of these segments have run again. */
static guint64
estimate (const OrtrainBudgetSearch *self, const OrtrainBudgetChoice *choice, const Weights *weights)
{
  guint64 kept = 0, again = 0, most = 0, passing = 0;
  for (guint s = 0; s < self->n_segments; s++)
    {
      const guint64 own =
          self->chains->len > 0 ? ortrain_budget_chain_estimate (self->chains->pdata[0], s, weights->kept[s]) : 0;
      most = MAX (most, own > 0 ? kept + again + own : 0);
      passing = MAX (passing, weights->passing[s]);
      kept += weights->kept[s];
      again = weights->closed[s] ? 0 : again + weights->again[s];
    }
  return MAX (most, choice->live + passing);
}

void
ortrain_budget_search_add (OrtrainBudgetSearch *self, guint8 *run, gboolean *offloaded, guint64 promise)
{
  OrtrainBudgetChoice *choice = g_new0 (OrtrainBudgetChoice, 1);
  const guint n = self->n_segments + 1;
  g_autofree guint64 *kept = g_new0 (guint64, n), *again = g_new0 (guint64, n), *passing = g_new0 (guint64, n);
  g_autofree gboolean *closed = g_new0 (gboolean, n);
  Weights weights = { .kept = kept, .again = again, .passing = passing, .closed = closed };
  choice->run = run;
  choice->offloaded = offloaded;
  choice->index = self->choices->len;
  choice->of_chain = 0;
  g_ptr_array_add (self->choices, choice);
  weigh_choice (self, choice, &weights);
  for (guint s = 0; s < self->n_segments; s++)
    choice->live += kept[s];
  choice->promise = promise > 0 ? MAX (promise - MIN (promise, weights.away), choice->live) + weights.largest_away
                                : estimate (self, choice, &weights);
}

GPtrArray *
ortrain_budget_search_steal_choices (OrtrainBudgetSearch *self)
{
  GPtrArray *choices = self->choices;
  self->choices = g_ptr_array_new_with_free_func (choice_free);
  return choices;
}

void
ortrain_budget_search_add_part (OrtrainBudgetSearch *self, guint8 *run, guint64 promise, guint n, guint n_parts)
{
  gboolean *offloaded = choose_offloaded (self, run, n, n_parts);
  ortrain_budget_search_add (self, run, offloaded, promise);
}

/* The values that `from` keeps, but in the first `n` of n_mixtures parts of the forward pass those that `to` keeps. */
static guint8 *
mix (const OrtrainBudgetSearch *self, const gboolean *from, const gboolean *to, guint n)
{
  guint8 *run = g_new (guint8, self->n_values + 1);
  for (guint v = 0; v < self->n_values; v++)
    {
      const gboolean is_first = (guint64) self->segment[v] * self->n_mixtures < (guint64) self->n_segments * n;
      run[v] = (is_first ? to : from)[v] ? 0 : 1;
    }
  return run;
}

GPtrArray *
ortrain_budget_search_list_cuts (OrtrainBudgetSearch *self, const gboolean *boundary)
{
  GPtrArray *list = g_ptr_array_new_with_free_func (g_free);
  g_autofree gint64 *costs = g_new (gint64, self->n_nodes + 1);
  const gsize n_bytes = self->n_values * sizeof (gboolean);
  double rate = 8;
  for (guint r = 0; r < MAX_RATES; r++, rate /= RATE_STEP)
    {
      for (guint t = 0; t < self->n_nodes; t++)
        costs[t] = self->work[t] < 0 ? ORTRAIN_RECOMPUTE_NEVER : (gint64) MIN (rate * self->work[t], 1e17);
      g_autofree gboolean *kept = g_new (gboolean, self->n_values + 1);
      ortrain_recompute_cut (self->graph, costs, boundary, kept);
      if (list->len == 0 || memcmp (kept, list->pdata[list->len - 1], n_bytes) != 0)
        g_ptr_array_add (list, g_steal_pointer (&kept));
    }
  return list;
}

/* All choices that keep the values in `boundary` ([n_values]) in any case. */
static void
add_cuts (OrtrainBudgetSearch *self, const gboolean *boundary)
{
  g_autoptr (GPtrArray) list = ortrain_budget_search_list_cuts (self, boundary);
  g_autofree gboolean *all = g_new (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values; v++)
    all[v] = TRUE;
  for (guint c = 0; c < list->len; c++)
    {
      const gboolean *last = c > 0 ? list->pdata[c - 1] : all;
      for (guint m = 1; m <= self->n_mixtures; m++)
        ortrain_budget_search_add_part (self, mix (self, last, list->pdata[c], m), 0, 0, 1);
      for (guint m = 1; m <= ORTRAIN_BUDGET_FEW_OFFLOADS && self->offload_work > 0; m++)
        ortrain_budget_search_add_part (self, mix (self, last, list->pdata[c], self->n_mixtures), 0, m,
                                        ORTRAIN_BUDGET_FEW_OFFLOADS);
    }
}

void
ortrain_budget_search_add_cuts (OrtrainBudgetSearch *self)
{
  g_autofree gint64 *bytes = g_new (gint64, self->n_values + 1);
  guint n_layers;
  for (guint length = 1; length <= self->cuts->len + 1; length += MAX (1, length / 2))
    {
      g_autofree gboolean *boundary = g_new0 (gboolean, self->n_values + 1);
      ortrain_mark_open_values (self->graph, self->cuts, length, boundary);
      add_cuts (self, boundary);
    }
  /* where layers begin, which are found by what the backward pass reads of them */
  g_autofree gboolean *boundary = g_new0 (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values; v++)
    bytes[v] = (gint64) self->bytes[v];
  const gboolean has_layers = ortrain_recompute_layers_find (self->graph, bytes, boundary, &n_layers);
  number_nodes (self);
  if (has_layers)
    add_cuts (self, boundary);
}

#define PROMISE_OF_ORDER 0.9 /* of what the first order needs */

void
ortrain_budget_search_add_order (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base)
{
  const double promise = PROMISE_OF_ORDER * (double) ortrain_memory_plan_get_arena_bytes (base);
  ortrain_budget_search_add_part (self, g_new0 (guint8, self->n_values + 1), (guint64) promise, 0, 1);
}

void
ortrain_budget_search_add_levels (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base)
{
  guint n_layers;
  g_autoptr (GPtrArray) list = ortrain_budget_list_levels (self->graph, base, 2, &n_layers);
  number_nodes (self);
  for (guint i = 0; i < list->len; i++)
    ortrain_budget_search_add_part (self, g_memdup2 (list->pdata[i], self->n_values), 0, 0, 1);
}

void
ortrain_budget_search_add_offloads (OrtrainBudgetSearch *self)
{
  const guint n_parts = MIN (self->n_segments, MAX_OFFLOADS);
  for (guint n = 1; n <= n_parts && self->offload_work > 0; n++)
    ortrain_budget_search_add_part (self, g_new0 (guint8, self->n_values + 1), 0, n, n_parts);
}

/* If inputs of a node do not exist at a position, they run twice, too, and so do the values that they are computed
 * from. */
static void
run_inputs_twice (const OrtrainBudgetSearch *self, const OrtrainNode *node, guint position, guint8 *run)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = ortrain_node_input (node, i);
      if (input == NULL || input->producer == NULL || input->producer->phase != ORTRAIN_PHASE_FORWARD ||
          self->work[input->producer->mark] < 0 || !ortrain_recompute_needs_input (node, i) ||
          ortrain_recompute_is_free_to_keep (input) || (run[input->id] & ORTRAIN_RECOMPUTE_TWICE) ||
          (self->last[input->id] != G_MAXUINT && self->last[input->id] >= position) ||
          (ORTRAIN_RECOMPUTE_RUN (run[input->id]) == 0 && ortrain_recompute_is_read_backward (input)))
        continue;
      run[input->id] |= ORTRAIN_RECOMPUTE_TWICE;
      run_inputs_twice (self, input->producer, position, run);
    }
}

gboolean
ortrain_budget_search_toggle_twice (const OrtrainBudgetSearch *self, const OrtrainValue *value, gboolean with_inputs,
                                    guint8 *run)
{
  if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD ||
      self->work[value->producer->mark] < 0 || ortrain_recompute_is_free_to_keep (value))
    return FALSE;
  const OrtrainNode *second = ortrain_recompute_find_second_reader (value, self->positions);
  if (second == NULL)
    return FALSE;
  run[value->id] ^= ORTRAIN_RECOMPUTE_TWICE;
  if (with_inputs && (run[value->id] & ORTRAIN_RECOMPUTE_TWICE))
    run_inputs_twice (self, value->producer, second->mark, run);
  return TRUE;
}

void
ortrain_budget_search_add_fates (OrtrainBudgetSearch *self, guint8 *fates)
{
  gboolean *offloaded = g_new0 (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainNode *producer = ((OrtrainValue *) self->graph->values->pdata[v])->producer;
      offloaded[v] = (fates[v] & ORTRAIN_BUDGET_FATE_OFFLOADED) != 0 && self->offloadable[v];
      fates[v] &= ORTRAIN_BUDGET_FATE_RUN;
      if (producer == NULL || (self->work[producer->mark] < 0 && !self->late[v]))
        fates[v] = 0;
    }
  for (guint v = 0; v < self->n_values; v++)
    if (offloaded[self->root[v]])
      fates[v] = self->root[v] == v ? 0 : MAX (fates[v], 1);
  ortrain_budget_search_add (self, fates, offloaded, 0);
}

static gint
compare_choices (gconstpointer a, gconstpointer b)
{
  const OrtrainBudgetChoice *first = *(const OrtrainBudgetChoice *const *) a;
  const OrtrainBudgetChoice *second = *(const OrtrainBudgetChoice *const *) b;
  if (first->work != second->work)
    return first->work < second->work ? -1 : 1;
  if (first->promise != second->promise)
    return first->promise < second->promise ? -1 : 1;
  return first->index < second->index ? -1 : 1;
}

/* A choice has to promise less than all cheaper ones whose promises are made in the same way: by a chain, by cuts, or
 * by a plan. A choice without offloading is only compared with others without it, so that offloading removes no choice
 * that a search without it would have. */
void
ortrain_budget_search_sort (OrtrainBudgetSearch *self, guint64 promise)
{
  guint n = 0;
  guint64 least[ORTRAIN_BUDGET_MAX_CHAINS + 2][2]; /* by plans, cuts, or a chain; without and with offloading */
  for (guint k = 0; k < G_N_ELEMENTS (least); k++)
    least[k][0] = least[k][1] = promise;
  g_ptr_array_sort (self->choices, compare_choices);
  for (guint c = 0; c < self->choices->len; c++)
    {
      OrtrainBudgetChoice *choice = self->choices->pdata[c];
      guint64 *of_kind = least[choice->is_measured ? 0 : 1 + choice->of_chain];
      const double progress = choice->is_measured ? 0 : LEAST_PROGRESS;
      if ((double) choice->promise >= (double) of_kind[choice->offloads ? 1 : 0] * (1 - progress))
        {
          choice_free (choice);
          continue;
        }
      of_kind[1] = MIN (of_kind[1], choice->promise);
      if (!choice->offloads)
        of_kind[0] = choice->promise;
      self->choices->pdata[n++] = choice;
    }
  while (self->choices->len > n)
    self->choices->pdata[--self->choices->len] = NULL;
}

/* Between cuts; a forward pass with few of them is parted evenly instead. */
static void
number_segments (OrtrainBudgetSearch *self)
{
  const gboolean has_cuts = self->cuts->len + 1 >= LEAST_SEGMENTS;
  self->n_segments = has_cuts ? self->cuts->len + 1 : MAX_MIXTURES;
  self->n_mixtures = MIN (self->n_segments, MAX_MIXTURES);
  self->ends = g_new0 (guint, self->n_segments + 1);
  guint n_forward = 0;
  for (guint t = 0; t < self->n_nodes; t++)
    n_forward += ((OrtrainNode *) self->graph->nodes->pdata[t])->phase == ORTRAIN_PHASE_FORWARD;
  for (guint t = 0, s = 0, n = 0; t < self->n_nodes; t++)
    {
      const OrtrainNode *node = self->graph->nodes->pdata[t];
      while (has_cuts && s < self->cuts->len && t > g_array_index (self->cuts, OrtrainSegmentCut, s).node)
        s++;
      if (!has_cuts && node->phase == ORTRAIN_PHASE_FORWARD)
        s = (guint) ((guint64) n++ * self->n_segments / MAX (n_forward, 1));
      if (node->phase == ORTRAIN_PHASE_FORWARD)
        self->ends[s] = t;
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          self->segment[((OrtrainValue *) node->outputs->pdata[k])->id] = s;
    }
}

/* Roots of the forward pass, all of whose views can be computed again. */
static void
find_offloadable (OrtrainBudgetSearch *self)
{
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainNode *producer = ((OrtrainValue *) self->graph->values->pdata[v])->producer;
      self->offloadable[v] = self->root[v] == v && self->bytes[v] >= LEAST_OFFLOADED && producer != NULL &&
                             producer->phase == ORTRAIN_PHASE_FORWARD;
    }
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainValue *value = self->graph->values->pdata[v];
      if (self->root[v] != v && (value->is_output || value->producer->phase != ORTRAIN_PHASE_FORWARD ||
                                 !ortrain_recompute_may_run_again (value->producer)))
        self->offloadable[self->root[v]] =
            self->offloadable[self->root[v]] && value->producer->phase != ORTRAIN_PHASE_FORWARD && !value->is_output;
    }
}

/* The effort of some families grows with the square of the cuts, and of others with the cube. */
static void
limit_cuts (GArray *cuts)
{
  const guint step = (cuts->len + MAX_SEGMENTS - 1) / MAX_SEGMENTS;
  guint n = 0;
  for (guint c = 0; c < cuts->len && step > 1; c += step)
    g_array_index (cuts, OrtrainSegmentCut, n++) = g_array_index (cuts, OrtrainSegmentCut, c);
  if (step > 1)
    g_array_set_size (cuts, n);
}

void
ortrain_budget_search_init (OrtrainBudgetSearch *self, OrtrainGraph *graph, OrtrainMemoryPlan *base,
                            const OrtrainProvider *provider, gboolean offloads)
{
  *self = (OrtrainBudgetSearch){ .graph = graph, .n_nodes = graph->nodes->len, .n_values = graph->values->len };
  self->bytes = g_new0 (guint64, self->n_values + 1);
  self->root = g_new0 (guint, self->n_values + 1);
  self->segment = g_new0 (guint, self->n_values + 1);
  self->work = g_new0 (double, self->n_nodes + 1);
  self->first = g_new (guint, self->n_values + 1);
  self->last = g_new (guint, self->n_values + 1);
  ortrain_find_value_extents (graph, self->first, self->last);
  self->positions = ortrain_recompute_number_nodes (graph);
  self->choices = g_ptr_array_new_with_free_func (choice_free);
  self->chains = g_ptr_array_new_with_free_func ((GDestroyNotify) ortrain_budget_chain_free);
  number_nodes (self);
  measure_values (self, base);
  measure_nodes (self, base, provider);
  self->offloadable = g_new0 (gboolean, self->n_values + 1);
  if (offloads && provider->klass->offload_bytes_per_second > 0)
    {
      self->offload_work =
          2 * ortrain_device_speed_get_bytes (&provider->speed) / provider->klass->offload_bytes_per_second;
      find_offloadable (self);
    }
  self->late = g_new0 (gboolean, self->n_values + 1);
  self->has_late = ortrain_recompute_find_late_gradients (
      graph, self->bytes, ortrain_memory_plan_get_arena_bytes (base) / LEAST_LATE + 1, self->late);
  if (self->has_late)
    estimate_late_work (self, base, provider);
  self->cuts = ortrain_find_segment_cuts (graph, self->bytes);
  limit_cuts (self->cuts);
  number_segments (self);
}

void
ortrain_budget_search_clear (OrtrainBudgetSearch *self)
{
  g_free (self->bytes);
  g_free (self->root);
  g_free (self->segment);
  g_free (self->offloadable);
  g_free (self->late);
  g_hash_table_unref (self->positions);
  g_free (self->work);
  g_free (self->ends);
  g_free (self->first);
  g_free (self->last);
  g_ptr_array_unref (self->chains);
  g_ptr_array_unref (self->choices);
  g_array_unref (self->cuts);
}
