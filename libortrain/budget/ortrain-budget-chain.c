/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-search-private.h"

#include "budget/ortrain-budget-plans-private.h"
#include "budget/ortrain-recompute-chain-private.h"
#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

/* The segments of the forward pass as blocks of a chain (budget/ortrain-recompute-chain-private.h). The bytes of a
 * block are read from plans: for each exchange rate between bytes and work, one plan keeps all values that are live
 * between segments, and of the other values those that a minimum cut selects. Each plan gives one option for each
 * block. */

#define MAX_PLANS 10 /* of more cuts, those are planned that differ most in what they keep */

struct _OrtrainBudgetChain
{
  OrtrainChain chain;
  GPtrArray *kept;   /* of gboolean [n_values]: by rate */
  guint *rate;       /* [options]: the one that it stems from */
  gboolean *always;  /* [n_values]: kept whatever runs again */
  gboolean is_rough; /* see find_step_segments () */
  gboolean is_late;  /* late gradients are computed by another run of the loss */
};

void
ortrain_budget_chain_free (OrtrainBudgetChain *self)
{
  g_free (self->chain.blocks);
  g_free (self->chain.options);
  g_free (self->chain.open);
  g_ptr_array_unref (self->kept);
  g_free (self->rate);
  g_free (self->always);
  g_free (self);
}

guint64
ortrain_budget_chain_estimate (const OrtrainBudgetChain *self, guint segment, guint64 kept)
{
  const OrtrainChainBlock *block = &self->chain.blocks[segment];
  const OrtrainChainOption *best = NULL;
  guint64 nearest = G_MAXUINT64;
  for (guint k = 0; k < block->n_options; k++)
    {
      const OrtrainChainOption *option = &self->chain.options[block->first_option + k];
      const guint64 distance = option->kept > kept ? option->kept - kept : kept - option->kept;
      if (distance < nearest)
        {
          nearest = distance;
          best = option;
        }
    }
  if (best == NULL)
    return 0;
  return best->kept > kept ? best->peak - MIN (nearest, best->peak) : best->peak + nearest;
}

/* Whether the value is open between a segment and the next: computed before, and read later. */
static gboolean
is_open_behind (const OrtrainBudgetSearch *search, guint value, guint segment)
{
  return search->first[value] != G_MAXUINT && search->last[value] != G_MAXUINT &&
         search->first[value] <= search->ends[segment] && search->last[value] > search->ends[segment];
}

/* ---- What a plan says of each segment ---- */

typedef struct
{
  guint64 *forward;   /* [n_segments]: most bytes of its own in the forward pass */
  guint64 *kept;      /* [n_segments]: kept for the backward pass, or open after it; without the values that are kept in
                       * any case */
  guint64 *always;    /* [n_segments]: kept in any case */
  guint64 *backward;  /* [n_segments]: most bytes while it runs backward, without what earlier segments keep */
  guint64 *gradients; /* [n_segments]: that wait when it begins to run backward, and until the end */
} Profile;

static void
profile_init (Profile *self, guint n)
{
  self->forward = g_new0 (guint64, n + 1);
  self->kept = g_new0 (guint64, n + 1);
  self->always = g_new0 (guint64, n + 1);
  self->backward = g_new0 (guint64, n + 1);
  self->gradients = g_new0 (guint64, n + 1);
}

static void
profile_clear (Profile *self)
{
  g_free (self->forward);
  g_free (self->kept);
  g_free (self->always);
  g_free (self->backward);
  g_free (self->gradients);
}

/* Id of the value of the forward pass that a value of the plan is, or a copy of; G_MAXUINT: none. */
static guint
find_forward_value (const OrtrainBudgetSearch *search, const OrtrainValue *value)
{
  const OrtrainNode *producer = value->producer;
  if (producer == NULL)
    return G_MAXUINT;
  const OrtrainNode *original = producer->recomputes != NULL ? producer->recomputes : producer;
  if (original->phase != ORTRAIN_PHASE_FORWARD)
    return G_MAXUINT;
  const OrtrainValue *output = ortrain_node_output (original, value->output_index);
  const OrtrainValue *same = output != NULL ? ortrain_graph_find_value (search->graph, output->name) : NULL;
  return same != NULL && same->producer != NULL && same->producer->phase == ORTRAIN_PHASE_FORWARD ? same->id
                                                                                                  : G_MAXUINT;
}

/* Whether the step computes a late gradient. It runs near the end, and reads the inputs of the loss, which has lost the
 * output. */
static gboolean
is_late_step (const OrtrainBudgetSearch *search, const OrtrainPlanStep *step)
{
  const OrtrainNode *original = search->has_late ? step->node->recomputes : NULL;
  const OrtrainValue *loss = original != NULL ? ortrain_node_output (original, 0) : NULL;
  const OrtrainValue *same = loss != NULL ? ortrain_graph_find_value (search->graph, loss->name) : NULL;
  for (guint k = 0; same != NULL && same->producer != NULL && k < same->producer->outputs->len; k++)
    {
      const OrtrainValue *output = ortrain_node_output (same->producer, k);
      if (output != NULL && search->late[output->id])
        return TRUE;
    }
  return FALSE;
}

#define NO_SEGMENT G_MAXUINT         /* of the whole step: parameters, constants, feeds */
#define OF_GRADIENTS (G_MAXUINT - 1) /* computed from gradients */

/* [n_values] of the plan's graph: the segment of values of the forward pass, of their copies, and of what cheap nodes
 * of the backward pass compute from them alone. A copy that was fused with another node is no copy any more, but takes
 * memory all the same. */
static guint *
find_value_segments (const OrtrainBudgetSearch *search, OrtrainMemoryPlan *plan)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (plan);
  guint *segments = g_new (guint, graph->values->len + 1);
  for (guint v = 0; v < graph->values->len; v++)
    segments[v] = NO_SEGMENT;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      const gboolean is_cheap =
          ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW | ORTRAIN_OP_ONE_PASS);
      guint segment = node->phase == ORTRAIN_PHASE_FORWARD || is_cheap ? NO_SEGMENT : OF_GRADIENTS;
      for (guint i = 0; i < node->inputs->len && segment != OF_GRADIENTS; i++)
        {
          const guint of =
              node->inputs->pdata[i] != NULL ? segments[((OrtrainValue *) node->inputs->pdata[i])->id] : NO_SEGMENT;
          if (of != NO_SEGMENT)
            segment = segment == NO_SEGMENT || of == OF_GRADIENTS ? of : MAX (segment, of);
        }
      for (guint k = 0; k < node->outputs->len; k++)
        {
          const OrtrainValue *output = ortrain_node_output (node, k);
          const guint v = output != NULL ? find_forward_value (search, output) : G_MAXUINT;
          if (output != NULL)
            segments[output->id] = v != G_MAXUINT ? search->segment[v] : segment;
        }
    }
  return segments;
}

/* The last segment of which the step reads or makes something; NO_SEGMENT: none. of_values: [n_values] of the plan's
 * graph, or NULL: values of the forward pass and copies of them alone. */
static guint
find_own_segment (const OrtrainBudgetSearch *search, const OrtrainPlanStep *step, const guint *of_values)
{
  const guint n_inputs = step->phase == ORTRAIN_PHASE_FORWARD ? 0 : step->node->inputs->len;
  guint segment = NO_SEGMENT;
  for (guint i = 0; i < n_inputs + step->node->outputs->len && !is_late_step (search, step); i++)
    {
      const OrtrainValue *value =
          i < n_inputs ? ortrain_node_input (step->node, i) : ortrain_node_output (step->node, i - n_inputs);
      const guint v = value != NULL && of_values == NULL ? find_forward_value (search, value) : G_MAXUINT;
      const guint of = value == NULL       ? NO_SEGMENT
                       : of_values != NULL ? of_values[value->id]
                       : v != G_MAXUINT    ? search->segment[v]
                                           : NO_SEGMENT;
      if (of != NO_SEGMENT && of != OF_GRADIENTS)
        segment = segment == NO_SEGMENT ? of : MAX (segment, of);
    }
  return segment;
}

/* For each step, the segment that it belongs to: in the forward pass that of its node; in the backward pass, the last
 * one of which something is read from there on, or with leaves_early the first one of which something has been read up
 * to there. Where steps of two segments mix, the second one promises less, which may be too little; with some models it
 * leads to better schedules. */
static guint *
find_step_segments (const OrtrainBudgetSearch *search, OrtrainMemoryPlan *plan, gboolean leaves_early)
{
  guint *segments = g_new0 (guint, plan->n_steps + 1);
  g_autofree guint *of_values = leaves_early ? find_value_segments (search, plan) : NULL;
  guint segment = leaves_early ? search->n_segments - 1 : 0;
  for (guint k = 0; k < plan->n_steps; k++)
    {
      const guint s = leaves_early ? k : plan->n_steps - 1 - k;
      const guint own = find_own_segment (search, &plan->steps[s], of_values);
      if (s < plan->first_backward)
        segments[s] = own != NO_SEGMENT ? own : 0;
      else
        {
          if (own != NO_SEGMENT)
            segment = leaves_early ? MIN (segment, own) : MAX (segment, own);
          segments[s] = segment;
        }
    }
  return segments;
}

/* The segment whose forward run makes the value that the backward pass, or a later segment, reads; G_MAXUINT: none. */
static guint
find_maker (const OrtrainBudgetSearch *search, const OrtrainMemoryPlan *plan, const OrtrainPlanValue *value)
{
  if (value->value == NULL || value->first < 0 || value->first >= (gint32) plan->first_backward)
    return G_MAXUINT;
  const guint v = find_forward_value (search, value->value);
  return v != G_MAXUINT ? search->segment[v] : G_MAXUINT;
}

static void
add_range (gint64 *change, gint32 first, gint32 last, guint64 bytes)
{
  if (first > last)
    return;
  change[first] += (gint64) bytes;
  change[last + 1] -= (gint64) bytes;
}

static void
profile_measure (Profile *self, const OrtrainBudgetSearch *search, const OrtrainBudgetChain *chain,
                 OrtrainMemoryPlan *plan, gboolean leaves_early)
{
  const guint n = search->n_segments, n_steps = plan->n_steps;
  const gint32 first_backward = (gint32) plan->first_backward, last_step = (gint32) n_steps - 1;
  g_autofree guint *segments = find_step_segments (search, plan, leaves_early);
  g_autofree gint32 *ends = g_new0 (gint32, n + 1);   /* the last forward step of each segment */
  g_autofree gint32 *begins = g_new0 (gint32, n + 1); /* the first backward step of each */
  g_autofree guint64 *held = g_new0 (guint64, n + 1); /* bytes of each that wait for the backward pass */
  g_autofree gint64 *live =
      g_new0 (gint64, n_steps + 2); /* while a step runs; in the forward pass without earlier segments */
  for (gint32 s = 0; s < first_backward; s++)
    ends[segments[s]] = s;
  for (gint32 s = last_step; s >= first_backward; s--)
    begins[segments[s]] = s;
  for (guint t = n - 1; t-- > 0;) /* one without steps of its own begins with the one after it */
    begins[t] = MAX (begins[t], begins[t + 1]);
  for (guint b = 0; b < plan->n_values; b++)
    {
      const OrtrainPlanValue *value = &plan->values[b];
      if (value->region != ORTRAIN_REGION_ARENA || value->root != b || value->bytes == 0)
        continue;
      const gint32 first = MAX (value->first, 0), last = MIN (value->last, last_step);
      const guint maker = find_maker (search, plan, value);
      const guint owner = maker != G_MAXUINT ? maker : segments[first];
      const gboolean waits = maker != G_MAXUINT && last >= first_backward;
      if (maker != G_MAXUINT)
        {
          const guint id = find_forward_value (search, value->value);
          if (waits && chain->always[id])
            self->always[maker] += value->bytes;
          else if (waits || is_open_behind (search, id, maker))
            self->kept[maker] += value->bytes;
        }
      if (waits)
        held[maker] += value->bytes;
      if (first < first_backward)
        add_range (live, first, MIN (MIN (last, ends[owner]), first_backward - 1), value->bytes);
      add_range (live, MAX (first, first_backward), last, value->bytes);
      /* a value that the loss reads once more waits to the end */
      if (chain->is_late && waits && last >= begins[0])
        for (guint t = 0; t < maker; t++)
          self->gradients[t] += value->bytes;
      /* gradients that wait to the end, such as that of an embedding that the loss reads, too */
      if (first >= first_backward && last >= begins[0])
        for (guint t = 0; t < n; t++)
          self->gradients[t] += first < begins[t] ? value->bytes : 0;
    }
  for (guint t = 1; t < n; t++)
    held[t] += held[t - 1];
  guint64 sum = 0;
  for (gint32 s = 0; s <= last_step; s++)
    {
      const guint t = segments[s];
      sum += (guint64) live[s];
      if (s < first_backward)
        {
          self->forward[t] = MAX (self->forward[t], sum);
          continue;
        }
      const guint64 before = t > 0 ? held[t - 1] : 0;
      self->backward[t] = MAX (self->backward[t], sum - MIN (sum, before));
    }
}

/* ---- The chain ---- */

/* Marks the values that are kept, if they wait, whatever runs again: results of nodes that may not run again. */
static void
find_always (OrtrainBudgetSearch *search, OrtrainBudgetChain *self)
{
  self->always = g_new0 (gboolean, search->n_values + 1);
  for (guint v = 0; v < search->n_values; v++)
    {
      const OrtrainNode *producer = ((OrtrainValue *) search->graph->values->pdata[v])->producer;
      self->always[v] =
          producer != NULL && producer->phase == ORTRAIN_PHASE_FORWARD && search->work[producer->mark] < 0;
    }
}

static void
measure_open (const OrtrainBudgetSearch *search, OrtrainBudgetChain *self)
{
  const guint n = search->n_segments;
  g_autofree gboolean *counted = g_new (gboolean, search->n_values + 1);
  self->chain.open = g_new0 (guint64, (gsize) (n + 1) * (n + 1));
  for (guint m = 1; m < n; m++)
    {
      g_autofree guint64 *by_maker = g_new0 (guint64, n + 1);
      memset (counted, 0, (search->n_values + 1) * sizeof *counted);
      for (guint v = 0; v < search->n_values; v++)
        {
          const guint root = search->root[v];
          if (!is_open_behind (search, v, m - 1) || counted[root] || self->always[root])
            continue;
          counted[root] = TRUE;
          by_maker[search->segment[root]] += search->bytes[root];
        }
      /* values that segments from i on have made */
      for (guint i = m; i-- > 0;)
        self->chain.open[(gsize) i * (n + 1) + m] = self->chain.open[(gsize) (i + 1) * (n + 1) + m] + by_maker[i];
    }
}

static double
measure_work (const OrtrainBudgetSearch *search, const guint8 *again, guint segment)
{
  const guint begin = segment > 0 ? search->ends[segment - 1] + 1 : 0;
  double work = 0;
  for (guint t = begin; t <= search->ends[segment]; t++)
    if (((OrtrainNode *) search->graph->nodes->pdata[t])->phase == ORTRAIN_PHASE_FORWARD &&
        (again == NULL || again[t] != 0))
      work += MAX (0, search->work[t]);
  return work;
}

/* Whether another option of the block needs no more of anything. */
static gboolean
is_useless (const OrtrainChainOption *options, guint n, guint k)
{
  for (guint other = 0; other < n; other++)
    {
      const OrtrainChainOption *a = &options[other], *b = &options[k];
      const gboolean same = a->kept == b->kept && a->forward == b->forward && a->peak == b->peak && a->work == b->work;
      if (other != k && a->kept <= b->kept && a->forward <= b->forward && a->peak <= b->peak && a->work <= b->work &&
          (!same || other < k))
        return TRUE;
    }
  return FALSE;
}

/* profiles: by rate; again: [n_nodes] by rate. */
static void
build_chain (const OrtrainBudgetSearch *search, OrtrainBudgetChain *self, const Profile *profiles, guint8 **again)
{
  const guint n = search->n_segments, n_rates = self->kept->len;
  OrtrainChain *chain = &self->chain;
  g_autofree OrtrainChainOption *options = g_new0 (OrtrainChainOption, n_rates + 1);
  guint n_options = 0;
  guint64 always = 0;
  chain->n_blocks = n;
  chain->blocks = g_new0 (OrtrainChainBlock, n + 1);
  chain->options = g_new0 (OrtrainChainOption, (gsize) n * n_rates + 1);
  self->rate = g_new0 (guint, (gsize) n * n_rates + 1);
  for (guint t = 0; t < n; t++)
    {
      OrtrainChainBlock *block = &chain->blocks[t];
      block->first_option = n_options;
      block->work = measure_work (search, NULL, t);
      block->forward = block->gradients = G_MAXUINT64;
      for (guint r = 0; r < n_rates; r++)
        {
          const Profile *profile = &profiles[r];
          block->forward = MIN (block->forward, profile->forward[t]);
          block->gradients = MIN (block->gradients, profile->gradients[t]);
          options[r] = (OrtrainChainOption){ profile->kept[t], profile->forward[t] + always,
                                             profile->backward[t] + always, measure_work (search, again[r], t) };
        }
      block->forward += always;
      block->gradients += t + 1 < n ? chain->open[t + 1] : 0; /* a gradient is as large as its value */
      for (guint r = 0; r < n_rates; r++)
        if (!is_useless (options, n_rates, r))
          {
            chain->options[n_options] = options[r];
            self->rate[n_options++] = r;
          }
      block->n_options = n_options - block->first_option;
      always += profiles[0].always[t];
    }
}

/* Those of the cuts that are planned: spread over all of them, with the first and the last. */
static void
thin_out (GPtrArray *cuts)
{
  const guint n = cuts->len;
  for (guint c = n; c-- > 0 && n > MAX_PLANS;)
    {
      gboolean stays = FALSE;
      for (guint k = 0; k < MAX_PLANS; k++)
        stays = stays || c == k * (n - 1) / (MAX_PLANS - 1);
      if (!stays)
        g_ptr_array_remove_index (cuts, c);
    }
}

/* The runs of values that are kept, or not: [n_values]. */
static guint8 *
make_runs (const OrtrainBudgetSearch *search, const gboolean *kept, gboolean is_late)
{
  guint8 *run = ortrain_recompute_runs_new (kept, search->n_values);
  if (is_late)
    ortrain_recompute_run_late (search->graph, search->late, run);
  return run;
}

static OrtrainBudgetChain *
chain_new (OrtrainBudgetSearch *search, GPtrArray *kept, gboolean is_late)
{
  OrtrainBudgetChain *self = g_new0 (OrtrainBudgetChain, 1);
  self->is_late = is_late;
  self->kept = g_ptr_array_ref (kept);
  find_always (search, self);
  return self;
}

#define MAX_VIEWS 2 /* of which steps belong to which segment */

/* Adds chains; none where no plan has the results of the base to the bit. FALSE: error. */
static gboolean
measure_chains (OrtrainBudgetSearch *search, gboolean is_late, OrtrainMemoryPlan *base,
                const OrtrainPlanRequest *request, const OrtrainBudget *budget, GError **error)
{
  g_autofree gboolean *boundary = g_new0 (gboolean, search->n_values + 1);
  for (guint v = 0; v < search->n_values; v++)
    for (guint t = search->segment[v]; t + 1 < search->n_segments && !boundary[v]; t++)
      boundary[v] = is_open_behind (search, v, t);
  g_autoptr (GPtrArray) kept = ortrain_budget_search_list_cuts (search, boundary);
  thin_out (kept);
  const guint n_views = ortrain_budget_is_small (search->graph) ? 1 : MAX_VIEWS; /* small graphs are refined */
  OrtrainBudgetChain *chains[MAX_VIEWS];
  g_autofree Profile *profiles = g_new0 (Profile, MAX_VIEWS * kept->len + 1); /* by view, then by rate */
  g_autoptr (GPtrArray) again = g_ptr_array_new_with_free_func (g_free);
  const guint n_rates = kept->len;
  gboolean ok = TRUE;
  OrtrainPlanRequest lowering = *request;
  lowering.lowers_peak = lowering.without_search = TRUE;
  for (guint view = 0; view < n_views; view++)
    {
      chains[view] = chain_new (search, kept, is_late);
      chains[view]->is_rough = view > 0;
    }
  for (guint r = 0; r < kept->len && ok;)
    {
      g_autofree guint8 *run = make_runs (search, kept->pdata[r], is_late);
      g_autoptr (OrtrainGraph) copy = ortrain_budget_apply_runs (search->graph, run, NULL, error);
      g_autoptr (OrtrainMemoryPlan) plan =
          copy != NULL ? ortrain_budget_plan_variant (copy, TRUE, &lowering, budget, error) : NULL;
      ok = plan != NULL;
      if (ok && !ortrain_budget_has_same_arithmetic (plan, base))
        {
          g_ptr_array_remove_index (kept, r);
          continue;
        }
      for (guint view = 0; view < n_views && ok; view++)
        {
          Profile *profile = &profiles[view * n_rates + r];
          profile_init (profile, search->n_segments);
          profile_measure (profile, search, chains[view], plan, view > 0);
        }
      guint8 *nodes = g_new (guint8, search->n_nodes + 1);
      ortrain_recompute_find_recomputed (search->graph, run, nodes);
      g_ptr_array_add (again, nodes);
      r++;
    }
  for (guint view = 0; view < n_views; view++)
    {
      OrtrainBudgetChain *chain = chains[view];
      if (ok && kept->len > 0)
        {
          measure_open (search, chain);
          build_chain (search, chain, profiles + view * n_rates, (guint8 **) again->pdata);
          g_ptr_array_add (search->chains, g_steal_pointer (&chain));
        }
      g_clear_pointer (&chain, ortrain_budget_chain_free);
    }
  for (guint r = 0; r < n_views * n_rates; r++)
    profile_clear (&profiles[r]);
  return ok;
}

/* The work of late gradients. If the plan with them does not have the bits of the base, there are no late gradients.
 * FALSE: error. */
static gboolean
measure_late_work (OrtrainBudgetSearch *search, OrtrainMemoryPlan *base, const OrtrainPlanRequest *request,
                   const OrtrainBudget *budget, GError **error)
{
  g_autofree guint8 *run = g_new0 (guint8, search->n_values + 1);
  ortrain_recompute_run_late (search->graph, search->late, run);
  g_autoptr (OrtrainGraph) copy = ortrain_budget_apply_runs (search->graph, run, NULL, error);
  g_autoptr (OrtrainMemoryPlan) plan =
      copy != NULL ? ortrain_budget_plan_variant (copy, TRUE, request, budget, error) : NULL;
  if (plan == NULL)
    return FALSE;
  search->has_late = ortrain_budget_has_same_arithmetic (plan, base);
  if (!search->has_late)
    memset (search->late, 0, search->n_values * sizeof *search->late);
  search->late_work = MAX (0, ortrain_budget_measure_work (plan, request->provider) -
                                  ortrain_budget_measure_work (base, request->provider));
  return TRUE;
}

gboolean
ortrain_budget_chain_measure (OrtrainBudgetSearch *search, OrtrainMemoryPlan *base, const OrtrainPlanRequest *request,
                              const OrtrainBudget *budget, GError **error)
{
  if (search->has_late && !measure_late_work (search, base, request, budget, error))
    return FALSE;
  if (search->n_segments < 2)
    return TRUE;
  return measure_chains (search, FALSE, base, request, budget, error) &&
         (!search->has_late || measure_chains (search, TRUE, base, request, budget, error));
}

/* ---- Choices ---- */

/* NULL: something would run again too often. */
static guint8 *
read_runs (const OrtrainBudgetSearch *search, const OrtrainBudgetChain *self, const OrtrainChainSchedule *schedule)
{
  g_autofree guint8 *run = g_new0 (guint8, search->n_values + 1);
  for (guint v = 0; v < search->n_values; v++)
    {
      const OrtrainValue *value = search->graph->values->pdata[v];
      if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD || self->always[v] ||
          ortrain_recompute_is_free_to_keep (value))
        continue;
      const guint t = search->segment[v];
      const OrtrainChainBlock *block = &self->chain.blocks[t];
      const gboolean *kept = self->kept->pdata[self->rate[block->first_option + schedule->option[t]]];
      guint of = schedule->run[t] + (kept[v] ? 0 : 1);
      for (guint m = t + 1; m < search->n_segments && is_open_behind (search, v, m - 1); m++)
        of = MIN (of, schedule->stored[m]);
      if (of > ORTRAIN_RECOMPUTE_MAX_RUN)
        return NULL;
      run[v] = (guint8) of;
    }
  if (self->is_late)
    ortrain_recompute_run_late (search->graph, search->late, run);
  return g_steal_pointer (&run);
}

static void
add_choices (OrtrainBudgetSearch *search, const OrtrainBudgetChain *self, guint chain)
{
  g_autoptr (GPtrArray) schedules = ortrain_chain_solve (&self->chain);
  for (guint c = 0; c < schedules->len; c++)
    {
      const OrtrainChainSchedule *schedule = schedules->pdata[c];
      guint8 *run = read_runs (search, self, schedule);
      const guint n_choices = search->choices->len;
      if (run == NULL)
        continue;
      for (guint m = 1; m <= ORTRAIN_BUDGET_FEW_OFFLOADS && search->offload_work > 0; m++)
        ortrain_budget_search_add_part (search, g_memdup2 (run, search->n_values), schedule->peak, m,
                                        ORTRAIN_BUDGET_FEW_OFFLOADS);
      ortrain_budget_search_add_part (search, run, schedule->peak, 0, 1);
      for (guint n = n_choices; n < search->choices->len; n++)
        {
          OrtrainBudgetChoice *choice = search->choices->pdata[n];
          choice->of_chain = chain + 1;
          choice->is_rough = self->is_rough;
        }
    }
}

void
ortrain_budget_chain_add_choices (OrtrainBudgetSearch *search)
{
  for (guint c = 0; c < search->chains->len; c++)
    add_choices (search, search->chains->pdata[c], c);
}
