/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-budget-private.h"

#include "memory/ortrain-budget-answer-private.h"
#include "memory/ortrain-budget-plans-private.h"
#include "memory/ortrain-memory-plan-private.h"
#include "memory/ortrain-recompute-choices-private.h"
#include "memory/ortrain-recompute-layers-private.h"
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-offload-private.h"
#include "transform/ortrain-pack-bits-private.h"
#include "transform/ortrain-recompute-private.h"
#include "transform/ortrain-segments-private.h"

#include <string.h>

/* How the search goes. The forward pass is a chain of segments. For every length of the segments between which values
 * are kept, and for every exchange rate between bytes and work, a minimum cut says exactly what to keep (Lagrange
 * relaxation: nothing with less work keeps fewer bytes, nor the reverse). Between two neighbouring rates, segments change
 * over one by one, the first ones first: what they keep lives longest. The same with the layers that level 1 of the
 * recompute options finds. Where values may be offloaded, each of them once more with those of the first segments, or of
 * all, copied out and back, at the price of these copies; and the same where nothing runs again. That makes a list of choices, which is sorted by
 * work; those that promise no less memory than a choice with less work are dropped. The first whose plan fits is it. */

#define RATE_STEP 2.5        /* between neighbouring exchange rates */
#define MAX_RATES 24         /* of bytes for work */
#define MAX_MIXTURES 12      /* of two neighbouring choices */
#define LEAST_SEGMENTS 4     /* with fewer, the forward pass is parted evenly */
#define MAX_KNOWN 12         /* choices that a family keeps: few, as those that do not fit cost time */
#define MAX_OFFLOADS 12      /* parts of the forward pass whose values are offloaded one after the other */
#define FEW_OFFLOADS 3       /* the same where nodes run again */
#define LEAST_OFFLOADED 4096 /* bytes: what is smaller saves less than its copies take */
#define LEAST_PROGRESS 1e-3  /* that a choice promises to save, of what the cheaper ones need */

typedef struct
{
  gboolean *kept;      /* [n_values] */
  gboolean *offloaded; /* [n_values]: of that, roots which leave the memory of a step */
  gboolean offloads;   /* whether there are any */
  double work;         /* of what runs again, and of copies, in bytes moved */
  guint64 live;        /* bytes that are live between the forward and the backward pass: no plan needs less */
  guint64 promise;     /* about what a plan needs of the arena */
  guint index;
} Choice;

typedef struct
{
  OrtrainGraph *graph;
  guint n_nodes, n_values;
  guint64 *bytes; /* [n_values]: 0 for what lives anyhow */
  guint *root;    /* [n_values]: whose bytes a view shows */
  double *work;   /* [n_nodes], -1: does not run again */
  guint *segment; /* [n_values]: of the forward pass; those in which a choice changes over one after the other */
  guint n_segments, n_mixtures;
  double offload_work;   /* of a byte that is copied out and back; 0: nothing is offloaded */
  gboolean *offloadable; /* [n_values]: roots */
  GArray *cuts;
  GPtrArray *choices;
  const Choice *taken;     /* the one that was found, or needs least: of `smallest`; NULL: the graph as it is does */
  gboolean taken_overlaps; /* and how it was planned */
} Search;

static void
choice_free (gpointer data)
{
  Choice *choice = data;
  g_free (choice->kept);
  g_free (choice->offloaded);
  g_free (choice);
}

/* Nodes are marked with their positions. */
static void
number_nodes (Search *self)
{
  for (guint t = 0; t < self->n_nodes; t++)
    ((OrtrainNode *) self->graph->nodes->pdata[t])->mark = t;
}

/* ---- What values and nodes cost ---- */

static void
measure_values (Search *self, OrtrainMemoryPlan *base)
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
measure_nodes (Search *self, OrtrainMemoryPlan *base, const OrtrainProvider *provider)
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
        self->work[node->mark] = MAX (1, ortrain_provider_weigh_work (provider, step->flops, step->bytes_moved));
    }
}

/* ---- Choices ---- */

static gboolean
is_read_backward (const OrtrainValue *value, const gboolean *again)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      if (node->phase == ORTRAIN_PHASE_BACKWARD || (node->phase == ORTRAIN_PHASE_FORWARD && again[node->mark]))
        return TRUE;
    }
  return FALSE;
}

/* Of the kept roots in the first `n` of `n_parts` parts of the forward pass, and the last of its values apart, those that
 * can be offloaded. Views of them are not kept: they show what was copied back. */
static gboolean *
choose_offloaded (const Search *self, gboolean *kept, guint n, guint n_parts)
{
  gboolean *offloaded = g_new0 (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values && n > 0; v++)
    {
      const guint root = self->root[v];
      if (kept[v] && self->offloadable[root] &&
          (guint64) self->segment[root] * n_parts < (guint64) self->n_segments * n)
        offloaded[root] = TRUE;
    }
  for (guint v = 0; v < self->n_values; v++)
    if (offloaded[self->root[v]])
      kept[v] = self->root[v] == v;
  return offloaded;
}

/* kept, offloaded: taken. */
static void
add_choice (Search *self, gboolean *kept, gboolean *offloaded)
{
  Choice *choice = g_new0 (Choice, 1);
  choice->kept = kept;
  choice->offloaded = offloaded;
  choice->index = self->choices->len;
  g_ptr_array_add (self->choices, choice);

  g_autofree gboolean *again = g_new0 (gboolean, self->n_nodes + 1);
  g_autofree gboolean *counted = g_new0 (gboolean, self->n_values + 1);
  g_autofree guint64 *passing = g_new0 (guint64, self->n_segments + 1);
  ortrain_recompute_find_again (self->graph, kept, again);
  for (guint t = 0; t < self->n_nodes; t++)
    if (again[t])
      choice->work += MAX (0, self->work[t]);
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainValue *value = self->graph->values->pdata[v];
      const guint root = self->root[v];
      if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD || counted[root])
        continue;
      if (offloaded[root])
        {
          if (v != root || !is_read_backward (value, again))
            continue;
          choice->offloads = TRUE;
          choice->work += self->offload_work * (double) self->bytes[root];
          passing[self->segment[root]] += self->bytes[root];
        }
      else if (kept[v] && is_read_backward (value, again))
        choice->live += self->bytes[root];
      else if (!kept[v] && again[value->producer->mark])
        passing[self->segment[v]] += self->bytes[root];
      else
        continue;
      counted[root] = TRUE;
    }
  guint64 most = 0;
  for (guint s = 0; s < self->n_segments; s++)
    most = MAX (most, passing[s]);
  choice->promise = choice->live + most;
}

/* kept: what `from` keeps, but in the first `n` of n_mixtures parts of the forward pass what `to` keeps. */
static gboolean *
mix (const Search *self, const gboolean *from, const gboolean *to, guint n)
{
  gboolean *kept = g_memdup2 (from, self->n_values * sizeof *kept);
  for (guint v = 0; v < self->n_values; v++)
    if ((guint64) self->segment[v] * self->n_mixtures < (guint64) self->n_segments * n)
      kept[v] = to[v];
  return kept;
}

/* kept: taken. */
static void
add_kept_choice (Search *self, gboolean *kept, guint n, guint n_parts)
{
  gboolean *offloaded = choose_offloaded (self, kept, n, n_parts);
  add_choice (self, kept, offloaded);
}

/* All choices that keep the values in `boundary` ([n_values]) in any case. */
static void
add_choices (Search *self, const gboolean *boundary)
{
  g_autofree gint64 *costs = g_new (gint64, self->n_nodes + 1);
  g_autofree gboolean *last = g_new (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values; v++)
    last[v] = TRUE;
  double rate = 8;
  for (guint r = 0; r < MAX_RATES; r++, rate /= RATE_STEP)
    {
      for (guint t = 0; t < self->n_nodes; t++)
        costs[t] = self->work[t] < 0 ? ORTRAIN_RECOMPUTE_NEVER : (gint64) MIN (rate * self->work[t], 1e17);
      g_autofree gboolean *kept = g_new (gboolean, self->n_values + 1);
      ortrain_recompute_cut (self->graph, costs, boundary, kept);
      if (memcmp (kept, last, self->n_values * sizeof *kept) == 0)
        continue;
      for (guint m = 1; m <= self->n_mixtures; m++)
        add_kept_choice (self, mix (self, last, kept, m), 0, 1);
      for (guint m = 1; m <= FEW_OFFLOADS && self->offload_work > 0; m++)
        add_kept_choice (self, mix (self, last, kept, self->n_mixtures), m, FEW_OFFLOADS);
      memcpy (last, kept, self->n_values * sizeof *kept);
    }
}

/* Boundaries at every `length`-th cut, for all lengths. */
static void
add_segmented_choices (Search *self)
{
  for (guint length = 1; length <= self->cuts->len + 1; length += MAX (1, length / 2))
    {
      g_autofree gboolean *boundary = g_new0 (gboolean, self->n_values + 1);
      ortrain_mark_open_values (self->graph, self->cuts, length, boundary);
      add_choices (self, boundary);
    }
}

/* Boundaries where layers begin, which are found by what the backward pass reads of them. */
static void
add_layered_choices (Search *self)
{
  g_autofree gboolean *boundary = g_new0 (gboolean, self->n_values + 1);
  g_autofree gint64 *bytes = g_new (gint64, self->n_values + 1);
  guint n_layers;
  for (guint v = 0; v < self->n_values; v++)
    bytes[v] = (gint64) self->bytes[v];
  if (ortrain_recompute_layers_find (self->graph, bytes, boundary, &n_layers))
    {
      number_nodes (self);
      add_choices (self, boundary);
    }
  number_nodes (self);
}

/* Nothing runs again but views. */
static void
add_offloading_choices (Search *self)
{
  const guint n_parts = MIN (self->n_segments, MAX_OFFLOADS);
  for (guint n = 1; n <= n_parts && self->offload_work > 0; n++)
    {
      gboolean *kept = g_new (gboolean, self->n_values + 1);
      for (guint v = 0; v < self->n_values; v++)
        kept[v] = TRUE;
      add_kept_choice (self, kept, n, n_parts);
    }
}

/* kept: taken; [2 * n_values], behind them what is offloaded. Of another search: what cannot run again is kept, also where
 * it did not exist there. */
static void
add_known_choice (Search *self, gboolean *kept)
{
  for (guint v = 0; v < self->n_values; v++)
    {
      const OrtrainNode *producer = ((OrtrainValue *) self->graph->values->pdata[v])->producer;
      kept[v] = kept[v] || producer == NULL || self->work[producer->mark] < 0;
    }
  gboolean *offloaded = g_new0 (gboolean, self->n_values + 1);
  for (guint v = 0; v < self->n_values; v++)
    offloaded[v] = kept[self->n_values + v] && self->offloadable[v];
  for (guint v = 0; v < self->n_values; v++)
    if (offloaded[self->root[v]])
      kept[v] = self->root[v] == v;
  add_choice (self, kept, offloaded);
}

/* What another member of the family found. */
static void
add_known_choices (Search *self, const OrtrainBudgetFamily *family)
{
  g_autoptr (GPtrArray) list = ortrain_budget_family_list (family, self->graph);
  for (guint c = 0; c < list->len; c++)
    add_known_choice (self, list->pdata[c]);
}

/* The last, with which the least is kept, is one of them. */
static void
keep_choices (const Search *self, OrtrainBudgetFamily *family)
{
  const guint n = self->choices->len, n_kept = MIN (n, MAX_KNOWN);
  ortrain_budget_family_begin (family, self->graph, TRUE);
  for (guint k = 0; k < n_kept; k++)
    {
      const Choice *choice = self->choices->pdata[(k + 1) * n / n_kept - 1];
      ortrain_budget_family_add (family, choice->kept, choice->offloaded);
    }
}

static gint
compare_choices (gconstpointer a, gconstpointer b)
{
  const Choice *first = *(const Choice *const *) a, *second = *(const Choice *const *) b;
  if (first->work != second->work)
    return first->work < second->work ? -1 : 1;
  if (first->promise != second->promise)
    return first->promise < second->promise ? -1 : 1;
  return first->index < second->index ? -1 : 1;
}

/* What is offloaded has to promise less than all that is cheaper; what is not, less than what is not, either: so that
 * offloading leaves no choice out that there would be without. */
static void
drop_useless_choices (Search *self, guint64 promise)
{
  guint n = 0;
  guint64 promise_without = promise;
  g_ptr_array_sort (self->choices, compare_choices);
  for (guint c = 0; c < self->choices->len; c++)
    {
      Choice *choice = self->choices->pdata[c];
      const guint64 other = choice->offloads ? promise : promise_without;
      if ((double) choice->promise < (double) other * (1 - LEAST_PROGRESS))
        {
          promise = MIN (promise, choice->promise);
          if (!choice->offloads)
            promise_without = choice->promise;
          self->choices->pdata[n++] = choice;
        }
      else
        choice_free (choice);
    }
  while (self->choices->len > n)
    self->choices->pdata[--self->choices->len] = NULL;
}

/* Between cuts; a forward pass with few of them is parted evenly instead. */
static void
number_segments (Search *self)
{
  const gboolean has_cuts = self->cuts->len + 1 >= LEAST_SEGMENTS;
  self->n_segments = has_cuts ? self->cuts->len + 1 : MAX_MIXTURES;
  self->n_mixtures = MIN (self->n_segments, MAX_MIXTURES);
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
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          self->segment[((OrtrainValue *) node->outputs->pdata[k])->id] = s;
    }
}

/* Roots of the forward pass, all of whose views can be computed again. */
static void
find_offloadable (Search *self)
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

static void
search_init (Search *self, OrtrainGraph *graph, OrtrainMemoryPlan *base, const OrtrainProvider *provider,
             gboolean offloads)
{
  *self = (Search){ .graph = graph, .n_nodes = graph->nodes->len, .n_values = graph->values->len };
  self->bytes = g_new0 (guint64, self->n_values + 1);
  self->root = g_new0 (guint, self->n_values + 1);
  self->segment = g_new0 (guint, self->n_values + 1);
  self->work = g_new0 (double, self->n_nodes + 1);
  self->choices = g_ptr_array_new_with_free_func (choice_free);
  number_nodes (self);
  measure_values (self, base);
  measure_nodes (self, base, provider);
  self->offloadable = g_new0 (gboolean, self->n_values + 1);
  if (offloads && provider->klass->offload_bytes_per_second > 0)
    {
      self->offload_work = 2 * provider->klass->bytes_per_second / provider->klass->offload_bytes_per_second;
      find_offloadable (self);
    }
  self->cuts = ortrain_find_segment_cuts (graph, self->bytes);
  number_segments (self);
}

static void
search_clear (Search *self)
{
  g_free (self->bytes);
  g_free (self->root);
  g_free (self->segment);
  g_free (self->offloadable);
  g_free (self->work);
  g_ptr_array_unref (self->choices);
  g_array_unref (self->cuts);
}

/* ---- Plans ---- */

static OrtrainMemoryPlan *
plan_choice (OrtrainGraph *graph, const Choice *choice, gboolean overlaps, const OrtrainPlanRequest *request,
             const OrtrainBudget *budget, GError **error)
{
  OrtrainPlanRequest with_overlap = *request;
  with_overlap.overlaps_offloads = overlaps;
  g_autoptr (OrtrainGraph) copy =
      ortrain_budget_apply_kept (graph, choice->kept, choice->offloads ? choice->offloaded : NULL, error);
  return copy != NULL ? ortrain_budget_plan_variant (copy, TRUE, &with_overlap, budget, error) : NULL;
}

#define MAX_TRIED_LAST 16 /* choices that promise to need least: workspaces decide which of them does */

/* Whether a plan of the choice is likely to fit, as those of other members of the family turned out. */
static gboolean
is_promising (const Choice *choice, const OrtrainBudgetFamily *family, guint64 persistent, guint64 budget)
{
  const double arena = (double) choice->promise * ortrain_budget_family_get_scale (family, choice->index);
  return (double) persistent + arena <= (double) budget;
}

/* The first that fits. FALSE with an error that is none of the budget. tries_last: the last ones are planned in any case,
 * for the message. smallest: the plan with the lowest peak that was made. family: that the choices are of, or NULL: those
 * that are likely to fit come first, since each plan takes its time. */
static gboolean
try_choices (Search *search, const OrtrainPlanRequest *request, const OrtrainBudget *budget, OrtrainMemoryPlan *base,
             OrtrainBudgetFamily *family, gboolean tries_last, OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found,
             GError **error)
{
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (base);
  drop_useless_choices (search, ortrain_memory_plan_get_arena_bytes (base));
  const guint n_choices = search->choices->len, n_rounds = family != NULL ? 2 : 1;
  g_autofree gboolean *tried = g_new0 (gboolean, n_choices + 1);
  for (guint i = 0; i < n_rounds * n_choices && *found == NULL; i++)
    {
      const guint c = i % n_choices;
      const gboolean is_last = tries_last && c + MAX_TRIED_LAST >= n_choices;
      const Choice *choice = search->choices->pdata[budget->any ? n_choices - 1 - c : c];
      if ((persistent + choice->live > budget->bytes && !is_last) || tried[c] ||
          (family != NULL && i == c && !is_promising (choice, family, persistent, budget->bytes)))
        continue;
      tried[c] = TRUE;
      /* copies beside computing take no time, but their places for longer; where the device is the host, there is no
       * beside */
      const gboolean beside = choice->offloads && !request->provider->klass->reads_host;
      for (guint way = beside ? 0 : 1; way < 2 && *found == NULL; way++)
        {
          g_autoptr (OrtrainMemoryPlan) plan = plan_choice (search->graph, choice, way == 0, request, budget, error);
          if (plan == NULL)
            return FALSE;
          if (!ortrain_budget_has_same_arithmetic (plan, base))
            continue;
          const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan);
          if (family != NULL && way == 1)
            ortrain_budget_family_set_scale (family, choice->index,
                                             (double) (peak - persistent) / (double) MAX (choice->promise, 1));
          const gboolean fits = peak <= budget->bytes;
          if (fits || peak < ortrain_memory_plan_get_peak_bytes (*smallest))
            {
              g_set_object (smallest, plan);
              search->taken = choice;
              search->taken_overlaps = way == 0;
            }
          if (fits)
            *found = g_steal_pointer (&plan);
        }
    }
  return TRUE;
}

/* ---- What an earlier search found ---- */

/* FALSE: there is no answer, or it is not what the search would find. TRUE with found NULL: that there is none. */
static gboolean
restore (Search *search, GBytes *key, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
         OrtrainMemoryPlan *base, OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found)
{
  guint8 digest[ORTRAIN_PLAN_DIGEST_BYTES];
  const guint n_values = search->n_values;
  g_autoptr (OrtrainBudgetAnswer) answer = ortrain_budget_answer_lookup (key, n_values);
  g_autoptr (OrtrainMemoryPlan) plan = NULL;
  if (answer == NULL)
    return FALSE;
  if (answer->choice == NULL)
    plan = g_object_ref (base);
  else
    {
      add_known_choice (search, g_steal_pointer (&answer->choice));
      plan = plan_choice (search->graph, search->choices->pdata[0], answer->overlaps, request, budget, NULL);
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
    ortrain_budget_family_begin (budget->family, search->graph, FALSE);
  for (guint c = 0; c < answer->known->len && budget->family != NULL; c++)
    {
      const gboolean *kept = answer->known->pdata[c];
      ortrain_budget_family_add (budget->family, kept, kept + n_values);
    }
  return TRUE;
}

/* plan: what was found, or else needs least. */
static void
keep_answer (const Search *search, GBytes *key, const OrtrainBudget *budget, OrtrainMemoryPlan *plan)
{
  const guint n_values = search->n_values;
  g_autofree gboolean *choice = NULL;
  OrtrainBudgetAnswer answer = { .refused = ortrain_memory_plan_get_peak_bytes (plan) > budget->bytes };
  g_autoptr (GPtrArray) known = NULL;
  if (search->taken != NULL)
    {
      answer.overlaps = search->taken_overlaps;
      answer.choice = choice = g_new (gboolean, 2 * n_values + 1);
      memcpy (choice, search->taken->kept, n_values * sizeof *choice);
      memcpy (choice + n_values, search->taken->offloaded, n_values * sizeof *choice);
    }
  if (budget->family != NULL && !answer.refused)
    {
      answer.known = known = ortrain_budget_family_list (budget->family, search->graph);
      g_ptr_array_set_free_func (known, g_free);
    }
  ortrain_memory_plan_compute_digest (plan, answer.digest);
  ortrain_budget_answer_store (&answer, key, n_values);
}

OrtrainMemoryPlan *
ortrain_plan_within_budget (OrtrainGraph *source, const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                            GError **error)
{
  OrtrainPlanRequest for_base = *request;
  const gboolean has_booleans = ortrain_pack_bits_finds (source);
  const gboolean has_choices = budget->choices != NULL && budget->choices->len > 0;
  for_base.takes_graph =
      request->takes_graph && budget->bytes == 0 && budget->level == 0 && !has_choices && !has_booleans;
  g_autoptr (OrtrainMemoryPlan) base = ortrain_budget_plan_graph (source, &for_base, budget, error);
  g_autoptr (OrtrainGraph) graph = g_object_ref (source);
  if (base != NULL && has_booleans && !ortrain_budget_take_bits (&graph, &base, request, budget, error))
    return NULL;
  if (base != NULL && has_choices && ortrain_budget_has_backward (base) &&
      !ortrain_recompute_choices_take (budget->choices, &graph, &base, request, budget, error))
    return NULL;
  g_autofree gboolean *kept = NULL;
  OrtrainPlanRequest for_level = *request;
  for_level.takes_graph = request->takes_graph && budget->bytes == 0;
  if (base != NULL && budget->level > 0 && ortrain_budget_has_backward (base) &&
      !ortrain_budget_take_level (graph, &base, &for_level, budget, &kept, error))
    return NULL;
  if (base == NULL || budget->bytes == 0 || ortrain_memory_plan_get_peak_bytes (base) <= budget->bytes)
    return g_steal_pointer (&base);
  if (kept != NULL)
    {
      OrtrainGraph *layered = ortrain_budget_apply_kept (graph, kept, NULL, error);
      if (layered == NULL)
        return NULL;
      g_object_unref (graph);
      graph = layered;
    }

  Search search;
  g_autoptr (OrtrainMemoryPlan) smallest = g_object_ref (base);
  g_autoptr (OrtrainMemoryPlan) found = NULL;
  OrtrainBudgetFamily *family = ortrain_budget_has_backward (base) ? budget->family : NULL;
  gboolean ok = TRUE;
  search_init (&search, graph, base, request->provider, budget->offloads);
  if (family != NULL)
    {
      add_known_choices (&search, family);
      ok = try_choices (&search, request, budget, base, family, FALSE, &smallest, &found, error);
      g_ptr_array_set_size (search.choices, 0);
    }
  const gboolean searches = ok && found == NULL && ortrain_budget_has_backward (base);
  g_autoptr (GBytes) key = searches ? ortrain_budget_answer_make_key (graph, base, request, budget) : NULL;
  if (searches && !restore (&search, key, request, budget, base, &smallest, &found))
    {
      g_autoptr (OrtrainMemoryPlan) least = g_object_ref (base); /* whatever the family tried */
      search.taken = NULL;
      add_offloading_choices (&search);
      add_segmented_choices (&search);
      add_layered_choices (&search);
      ok = try_choices (&search, request, budget, base, NULL, !budget->any, &least, &found, error);
      if (ok && found != NULL && family != NULL)
        keep_choices (&search, family);
      if (ok)
        keep_answer (&search, key, budget, found != NULL ? found : least);
      if (ortrain_memory_plan_get_peak_bytes (least) < ortrain_memory_plan_get_peak_bytes (smallest))
        g_set_object (&smallest, least);
    }
  search_clear (&search);
  if (ok && found == NULL && budget->smallest != NULL &&
      (*budget->smallest == NULL ||
       ortrain_memory_plan_get_peak_bytes (smallest) < ortrain_memory_plan_get_peak_bytes (*budget->smallest)))
    g_set_object (budget->smallest, smallest);
  if (ok && found == NULL)
    ortrain_budget_set_error (error, base, smallest, budget);
  return g_steal_pointer (&found);
}
