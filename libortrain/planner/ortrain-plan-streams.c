/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-plan-streams-private.h"

#include "ops/ortrain-op-private.h"

/* Clocks tell which steps run before others: for a step and each stream, the last step of that stream that has
 * certainly run. Order among steps that touch the same memory is enforced by waits; memory that is used again for
 * something else is not, so a value lives until every step that could overtake its last reader has been submitted. */

typedef struct
{
  gint32 done[ORTRAIN_N_STREAMS]; /* step, -1: none */
} Clock;

/* Who has touched a root so far. */
typedef struct
{
  gint32 written;                 /* step, -1: none in this plan */
  gint32 read[ORTRAIN_N_STREAMS]; /* the last on each stream since, -1: none */
} Access;

typedef struct
{
  OrtrainMemoryPlan *plan;
  Clock *clocks; /* [n_steps]: once a step has run */
  Access *accesses;
  GArray *waits;
  gint32 last[ORTRAIN_N_STREAMS]; /* step of each stream, -1: none */
  Clock submitted;                /* steps that the host has waited for */
  double offload_rate;            /* bytes per millisecond; 0: offloaded values are waited for at once */
  double now, copied;             /* milliseconds: about when the next step begins, and the copies so far have ended */
  GArray *offloads;               /* of Offload: nobody has waited for them */
} Streams;

/* An offloaded value. Its place is used again after a wait, which has no other reason. */
typedef struct
{
  gint32 step;
  double end; /* about, in milliseconds */
} Offload;

static gboolean
is_copy (const OrtrainNode *node)
{
  const OrtrainOpKind kind = ortrain_node_get_kind (node);
  return kind == ORTRAIN_OP_KIND_COPY || kind == ORTRAIN_OP_KIND_OFFLOAD || kind == ORTRAIN_OP_KIND_RELOAD;
}

/* A node goes on where its first operand was computed, if nothing came after it there; else to the stream that has been
 * idle for longer. */
static OrtrainPlanStream
choose_compute_stream (const Streams *self, const OrtrainPlanStep *step)
{
  const OrtrainMemoryPlan *plan = self->plan;
  for (guint i = 0; i < step->n_inputs; i++)
    {
      const guint32 operand = plan->operands[step->first_operand + i];
      if (operand == ORTRAIN_NO_BUFFER)
        continue;
      const gint32 writer = self->accesses[plan->values[operand].root].written;
      if (writer < 0)
        continue;
      const OrtrainPlanStream stream = plan->steps[writer].stream;
      if (stream <= ORTRAIN_STREAM_SIDE && self->last[stream] == writer)
        return stream;
    }
  return self->last[ORTRAIN_STREAM_SIDE] < self->last[ORTRAIN_STREAM_COMPUTE] ? ORTRAIN_STREAM_SIDE
                                                                              : ORTRAIN_STREAM_COMPUTE;
}

static OrtrainPlanStream
choose_stream (const Streams *self, const OrtrainPlanRequest *request, const OrtrainPlanStep *step)
{
  if (step->node->on_host)
    return ORTRAIN_STREAM_HOST;
  if (is_copy (step->node))
    return ORTRAIN_STREAM_COPY;
  return request->context != NULL && request->context->two_streams ? choose_compute_stream (self, step)
                                                                   : ORTRAIN_STREAM_COMPUTE;
}

static void
merge (Clock *self, const Clock *other)
{
  for (guint i = 0; i < ORTRAIN_N_STREAMS; i++)
    self->done[i] = MAX (self->done[i], other->done[i]);
}

/* on: step, -1: none. needed: [ORTRAIN_N_STREAMS]: of each stream the last step that has to have run */
static void
need (const Streams *self, gint32 on, gint32 *needed)
{
  if (on >= 0)
    needed[self->plan->steps[on].stream] = MAX (needed[self->plan->steps[on].stream], on);
}

/* A value is read back when all steps that were submitted before have run: memory that is freed by then is free for it.
 * An offloaded value is waited for by the step that begins when the copy has ended, by all estimates. */
static void
need_offloads (Streams *self, guint s, gint32 *needed)
{
  const OrtrainPlanStep *step = &self->plan->steps[s];
  const OrtrainOpKind kind = ortrain_node_get_kind (step->node);
  if (kind == ORTRAIN_OP_KIND_RELOAD)
    for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
      need (self, k != ORTRAIN_STREAM_COPY ? self->last[k] : -1, needed);
  if (kind == ORTRAIN_OP_KIND_OFFLOAD || kind == ORTRAIN_OP_KIND_RELOAD)
    {
      const gsize bytes = self->plan->values[self->plan->operands[step->first_operand]].bytes;
      self->copied = MAX (self->now, self->copied);
      self->copied += self->offload_rate > 0 ? (double) bytes / self->offload_rate : 0;
    }
  if (kind == ORTRAIN_OP_KIND_OFFLOAD)
    {
      const Offload offload = { (gint32) s, self->offload_rate > 0 ? self->copied : self->now };
      g_array_append_val (self->offloads, offload);
    }
  if (step->stream == ORTRAIN_STREAM_COPY)
    return;
  guint n = 0; /* in their order */
  while (n < self->offloads->len && g_array_index (self->offloads, Offload, n).end <= self->now)
    need (self, g_array_index (self->offloads, Offload, n++).step, needed);
  g_array_remove_range (self->offloads, 0, n);
  self->now += step->milliseconds;
}

/* A step waits for each step that it needs, unless its own stream or another of its waits makes sure of it. */
static void
add_waits (Streams *self, guint s, const gint32 *needed)
{
  OrtrainPlanStep *step = &self->plan->steps[s];
  Clock *clock = &self->clocks[s];
  const Clock before = *clock;
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    {
      gboolean known = k == step->stream || before.done[k] >= needed[k];
      for (guint j = 0; j < ORTRAIN_N_STREAMS && !known; j++)
        known = j != k && j != step->stream && needed[j] >= 0 && self->clocks[needed[j]].done[k] >= needed[k];
      if (known)
        continue;
      const guint32 waited = (guint32) needed[k];
      g_array_append_val (self->waits, waited);
      step->n_waits++;
    }
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (needed[k] >= 0)
      merge (clock, &self->clocks[needed[k]]);
}

static void
order_step (Streams *self, guint s)
{
  const OrtrainMemoryPlan *plan = self->plan;
  OrtrainPlanStep *step = &plan->steps[s];
  const guint n = (guint) step->n_inputs + step->n_outputs;
  gint32 needed[ORTRAIN_N_STREAMS] = { -1, -1, -1, -1 };
  G_STATIC_ASSERT (ORTRAIN_N_STREAMS == 4);
  self->clocks[s] = self->submitted;
  if (self->last[step->stream] >= 0)
    merge (&self->clocks[s], &self->clocks[self->last[step->stream]]);
  step->first_wait = self->waits->len;
  for (guint i = 0; i < n; i++)
    {
      const guint32 operand = plan->operands[step->first_operand + i];
      if (operand == ORTRAIN_NO_BUFFER)
        continue;
      const Access *access = &self->accesses[plan->values[operand].root];
      need (self, access->written, needed);
      for (guint k = 0; k < ORTRAIN_N_STREAMS && i >= step->n_inputs; k++)
        need (self, access->read[k], needed);
    }
  /* Computing begins after the copies of all feeds, which come first: it does not have to wait for one of them
   * later. */
  if (step->stream == ORTRAIN_STREAM_COMPUTE && self->last[ORTRAIN_STREAM_COMPUTE] < 0)
    need (self, self->last[ORTRAIN_STREAM_COPY], needed);
  need_offloads (self, s, needed);
  add_waits (self, s, needed);
  for (guint i = 0; i < n; i++)
    {
      const guint32 operand = plan->operands[step->first_operand + i];
      if (operand == ORTRAIN_NO_BUFFER)
        continue;
      Access *access = &self->accesses[plan->values[operand].root];
      access->read[step->stream] = (gint32) s;
      if (i >= step->n_inputs)
        access->written = (gint32) s;
    }
  self->clocks[s].done[step->stream] = (gint32) s;
  self->last[step->stream] = (gint32) s;
  if (step->stream == ORTRAIN_STREAM_HOST)
    merge (&self->submitted, &self->clocks[s]);
}

/* The last step that may run while `s` does: on another stream, and submitted before anything waits for s. */
static gint32
find_last_beside (const Streams *self, const GArray *const *steps, gint32 s)
{
  const OrtrainPlanStream own = self->plan->steps[s].stream;
  gint32 last = s;
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    {
      guint low = 0, high = k != own ? steps[k]->len : 0; /* of the steps of stream k, the first that knows of s */
      while (low < high)
        {
          const guint middle = (low + high) / 2;
          if (self->clocks[g_array_index (steps[k], gint32, middle)].done[own] < s)
            low = middle + 1;
          else
            high = middle;
        }
      if (low > 0)
        last = MAX (last, g_array_index (steps[k], gint32, low - 1));
    }
  return last;
}

/* The last step of each stream that touches a value decides; steps that run together touch it at the same time. */
static void
extend_lifetimes (Streams *self)
{
  OrtrainMemoryPlan *plan = self->plan;
  GArray *steps[ORTRAIN_N_STREAMS];
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    steps[k] = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (gint32 s = 0; s < (gint32) plan->n_steps; s++)
    g_array_append_val (steps[plan->steps[s].stream], s);
  gint32 first = 0, last = 0;
  for (gint32 s = 0; s < (gint32) plan->n_steps; s++)
    {
      const OrtrainPlanStep *step = &plan->steps[s];
      const guint n = (guint) step->n_inputs + step->n_outputs;
      if (s == 0 || plan->steps[s - 1].n_joined == 1)
        {
          first = s;
          last = find_last_beside (self, (const GArray *const *) steps, s + (gint32) step->n_joined - 1);
        }
      for (guint i = 0; i <= n; i++)
        {
          const guint32 operand = i < n ? plan->operands[step->first_operand + i] : step->workspace;
          if (operand == ORTRAIN_NO_BUFFER)
            continue;
          OrtrainPlanValue *root = &plan->values[plan->values[operand].root];
          root->first = root->first == s ? first : root->first;
          root->last = MAX (root->last, last);
        }
    }
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    g_array_unref (steps[k]);
}

/* A root that a step touches, by the group of steps that it would run with: FALSE if another of them writes it, or
 * reads what this one writes. readers, writers: [n_values], the last step that does. */
static gboolean
is_free (const gint32 *readers, const gint32 *writers, guint32 root, gint32 first, gboolean writes)
{
  return writers[root] < first && (!writes || readers[root] < first);
}

/* Steps that follow each other, of a kernel that runs several as one, if none needs a value that another writes. */
static void
join_steps (OrtrainMemoryPlan *plan)
{
  g_autofree gint32 *readers = g_new (gint32, plan->n_values + 1), *writers = g_new (gint32, plan->n_values + 1);
  memset (readers, 0xff, (plan->n_values + 1) * sizeof *readers);
  memset (writers, 0xff, (plan->n_values + 1) * sizeof *writers);
  gint32 first = 0; /* of the steps that run with this one */
  for (gint32 s = 0; s < (gint32) plan->n_steps; s++)
    {
      OrtrainPlanStep *step = &plan->steps[s];
      const guint32 *operands = plan->operands + step->first_operand;
      const guint n = (guint) step->n_inputs + step->n_outputs;
      gboolean joins = s > first && step->kernel->run_joined != NULL && step->kernel == plan->steps[first].kernel &&
                       step->stream == plan->steps[first].stream;
      for (guint i = 0; i < n && joins; i++)
        joins = operands[i] == ORTRAIN_NO_BUFFER ||
                is_free (readers, writers, plan->values[operands[i]].root, first, i >= step->n_inputs);
      first = joins ? first : s;
      step->n_joined = joins ? 0 : 1; /* for now, of the first one of several */
      for (guint i = 0; i < n; i++)
        if (operands[i] != ORTRAIN_NO_BUFFER)
          (i < step->n_inputs ? readers : writers)[plan->values[operands[i]].root] = s;
    }
  for (guint s = plan->n_steps, n = 0; s-- > 0;)
    {
      const gboolean is_first = plan->steps[s].n_joined == 1;
      plan->steps[s].n_joined = ++n;
      n = is_first ? 0 : n;
    }
}

void
ortrain_planner_state_make_streams (OrtrainPlannerState *self)
{
  OrtrainMemoryPlan *plan = self->plan;
  Streams streams = { .plan = plan };
  streams.clocks = g_new (Clock, plan->n_steps + 1);
  streams.accesses = g_new (Access, plan->n_values + 1);
  streams.waits = g_array_new (FALSE, FALSE, sizeof (guint32));
  streams.offloads = g_array_new (FALSE, FALSE, sizeof (Offload));
  if (self->request->overlaps_offloads)
    streams.offload_rate = self->request->provider->klass->offload_bytes_per_second / 1e3;
  memset (streams.accesses, 0xff, (plan->n_values + 1) * sizeof (Access));
  memset (streams.last, 0xff, sizeof streams.last);
  memset (&streams.submitted, 0xff, sizeof streams.submitted);
  for (guint s = 0; s < plan->n_steps; s++)
    {
      if (s > 0 && plan->steps[s].phase != plan->steps[s - 1].phase)
        {
          for (guint k = 0; k < ORTRAIN_N_STREAMS; k++) /* a phase is waited for as a whole */
            streams.submitted.done[k] = (gint32) s - 1;
          g_array_set_size (streams.offloads, 0);
        }
      plan->steps[s].stream = choose_stream (&streams, self->request, &plan->steps[s]);
      order_step (&streams, s);
    }
  join_steps (plan);
  extend_lifetimes (&streams);
  plan->n_waits = streams.waits->len;
  plan->waits = (guint32 *) g_array_free (streams.waits, FALSE);
  g_free (streams.clocks);
  g_free (streams.accesses);
  g_array_unref (streams.offloads);
}
