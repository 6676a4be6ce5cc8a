/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-program-private.h"

#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "core/ortrain-trace-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-host-evaluator-private.h"

#define N_PLACES 2

/* Steps that are submitted at once: of one stream, and nothing waits in between. */
typedef struct
{
  guint first, end;
  OrtrainPlanStream stream;
  gboolean joins; /* a phase begins with it, and its stream or another one may not have finished earlier work */

  /* The capture of the calls, made at their second run in a row with the same addresses, for each place of the
   * feeds. */
  OrtrainCapture *captures[N_PLACES];
  gboolean has_moved; /* an address has changed since the last run */
} Segment;

/* A feed on the device, at one of two places in turn. */
typedef struct
{
  guint32 roots[N_PLACES]; /* operands have the first */
} Feed;

/* All steps in segments. */
typedef struct
{
  Segment *segments; /* NULL: not needed so far */
  guint n_segments;
  guint32 *segment_of; /* [n_steps] */
} Cut;

struct _OrtrainProgram
{
  OrtrainMemoryPlan *plan;
  OrtrainDeviceContext *device_context;
  GPtrArray *constants; /* of OrtrainTensor, kept by the plan's graph: those that it holds in the execution */
  const OrtrainPlanValue *values;
  const OrtrainPlanStep *steps;
  const guint32 *operands;
  guint n_values, n_steps, n_operands;

  OrtrainKernelCall *calls; /* [n_steps] */
  gpointer *addresses;      /* [n_operands]: the pointers that calls have */
  gpointer *places;         /* [n_values]: of roots */
  gpointer arena, host_arena;

  Cut cuts[ORTRAIN_N_PROGRAM_RANGES];
  gboolean *is_alone;    /* [n_steps]: submitted by itself, since an address of the caller's changes from run to run */
  OrtrainEvent **events; /* [n_steps]: recorded after a step, NULL: nobody waits for it */
  gboolean has_streams[ORTRAIN_N_STREAMS];
  gboolean is_loaded;

  /* Feeds with two places: those of a step are copied while the step before reads its own. */
  Feed *feeds;
  guint n_feeds, turn;
  OrtrainEvent *ends[N_PLACES]; /* of all that was submitted with feeds at a place */
  gboolean has_ended[N_PLACES]; /* it was recorded, and the memory of the plan is where it was */

  /* Operands by root, so that binding an address touches only changed operands. */
  guint32 *first_slot; /* [n_values + 1] */
  guint32 *slots;      /* [n_operands] */
  guint32 *step_of;    /* [n_operands] */
};

gboolean
ortrain_program_hold (OrtrainProgram *self, OrtrainTensor *tensor, gpointer *address, GError **error)
{
  if (!ortrain_device_context_ref_constant (self->device_context, tensor, address, error))
    return FALSE;
  g_ptr_array_add (self->constants, tensor);
  return TRUE;
}

/* Whether streams have to wait for each other where the phase of step s begins: the plan relies on it, unless something
 * else ensures it. */
static gboolean
needs_join (const OrtrainProgram *self, guint s)
{
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, NULL);
  gint64 last[ORTRAIN_N_STREAMS] = { -1, -1, -1, -1 }, awaited[ORTRAIN_N_STREAMS] = { -1, -1, -1, -1 };
  G_STATIC_ASSERT (ORTRAIN_N_STREAMS == 4);
  for (guint t = 0; t < s; t++)
    {
      const OrtrainPlanStep *step = &self->steps[t];
      last[step->stream] = t;
      for (guint w = 0; w < step->n_waits && step->stream == ORTRAIN_STREAM_COMPUTE; w++)
        {
          const guint32 other = waits[step->first_wait + w];
          awaited[self->steps[other].stream] = MAX (awaited[self->steps[other].stream], other);
        }
    }
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (k != ORTRAIN_STREAM_COMPUTE && last[k] > awaited[k])
      return TRUE;
  for (guint t = s; t < self->n_steps; t++)
    if (self->steps[t].stream != ORTRAIN_STREAM_COMPUTE)
      return TRUE;
  return FALSE;
}

/* Whether a phase goes on with the next one without the host. */
static gboolean
is_joined (OrtrainProgramRange range, OrtrainPhase next)
{
  return range == ORTRAIN_PROGRAM_STEP || (range == ORTRAIN_PROGRAM_GRADIENTS && next == ORTRAIN_PHASE_BACKWARD);
}

/* A segment ends where the stream changes, after a step that others wait for, before a step that waits, and where a
 * phase ends, unless nothing happens between it and the next. A step whose caller's tensors change from run to run is a
 * segment of its own: the steps between such steps keep their addresses, and are captured. */
static Cut *
get_cut (OrtrainProgram *self, OrtrainProgramRange range)
{
  Cut *cut = &self->cuts[range];
  guint n_waits;
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, &n_waits);
  if (G_LIKELY (cut->segments != NULL))
    return cut;
  g_autofree gboolean *awaited = g_new0 (gboolean, self->n_steps + 1);
  for (guint w = 0; w < n_waits; w++)
    awaited[waits[w]] = TRUE;
  GArray *segments = g_array_new (FALSE, FALSE, sizeof (Segment));
  cut->segment_of = g_new (guint32, self->n_steps + 1);
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      const gboolean begins = s > 0 && step->phase != step[-1].phase;
      const gboolean joins = begins && is_joined (range, step->phase) && needs_join (self, s);
      if (s == 0 || step->stream != step[-1].stream || step->n_waits > 0 || awaited[s - 1] || self->is_alone[s] ||
          self->is_alone[s - 1] || (begins && (joins || !is_joined (range, step->phase))))
        {
          const Segment segment = { .first = s, .end = s, .stream = step->stream, .joins = joins, .has_moved = TRUE };
          g_array_append_val (segments, segment);
        }
      g_array_index (segments, Segment, segments->len - 1).end = s + 1;
      cut->segment_of[s] = segments->len - 1;
    }
  cut->n_segments = segments->len;
  cut->segments = (Segment *) g_array_free (segments, FALSE);
  if (cut->segments == NULL) /* there are no steps */
    cut->segments = g_new0 (Segment, 1);
  return cut;
}

/* Opens streams, and creates events for the steps that others wait for. */
static gboolean
open_streams (OrtrainProgram *self, GError **error)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  guint n_waits;
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, &n_waits);
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (self->has_streams[k] &&
        !ortrain_device_context_open_stream (self->device_context, (OrtrainPlanStream) k, error))
      return FALSE;
  for (guint w = 0; w < n_waits; w++)
    if (self->steps[waits[w]].stream != ORTRAIN_STREAM_HOST && self->events[waits[w]] == NULL &&
        (self->events[waits[w]] = provider->klass->new_event (provider, error)) == NULL)
      return FALSE;
  for (guint k = 0; k < N_PLACES && self->n_feeds > 0; k++)
    if (self->ends[k] == NULL && (self->ends[k] = provider->klass->new_event (provider, error)) == NULL)
      return FALSE;
  return TRUE;
}

static gboolean
place_constants (OrtrainProgram *self, GError **error)
{
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      gpointer address;
      if (value->root != i || value->bytes == 0 || value->region != ORTRAIN_REGION_CONSTANT ||
          value->value->tensor == NULL)
        continue;
      if (value->value->on_host)
        address = (gpointer) ortrain_tensor_peek (value->value->tensor);
      else if (!ortrain_program_hold (self, value->value->tensor, &address, error))
        {
          g_prefix_error (error, "Constant '%s': ", ortrain_text_show (value->name));
          return FALSE;
        }
      ortrain_program_set_address (self, i, address);
    }
  return TRUE;
}

gboolean
ortrain_program_load (OrtrainProgram *self, GError **error)
{
  self->is_loaded = self->is_loaded || (open_streams (self, error) && place_constants (self, error));
  return self->is_loaded;
}

/* Whether the copy of a feed has two places for it. */
static gboolean
double_buffers_inputs_of (const OrtrainPlanStep *step)
{
  return ortrain_node_get_kind (step->node) == ORTRAIN_OP_KIND_COPY && step->n_outputs == N_PLACES;
}

gboolean
ortrain_program_can_overlap_feeds (OrtrainMemoryPlan *plan)
{
  guint n_steps;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  gboolean any = FALSE;
  for (guint s = 0; s < n_steps; s++)
    {
      any = any || double_buffers_inputs_of (&steps[s]);
      if (steps[s].stream != ORTRAIN_STREAM_COMPUTE &&
          (steps[s].stream != ORTRAIN_STREAM_COPY || !double_buffers_inputs_of (&steps[s])))
        return FALSE;
    }
  return any;
}

static void
find_feeds (OrtrainProgram *self)
{
  if (!ortrain_program_can_overlap_feeds (self->plan))
    return;
  self->feeds = g_new0 (Feed, self->n_steps + 1);
  for (guint s = 0; s < self->n_steps; s++)
    for (guint k = 0; k < N_PLACES && double_buffers_inputs_of (&self->steps[s]); k++)
      {
        const OrtrainPlanStep *step = &self->steps[s];
        self->feeds[self->n_feeds].roots[k] =
            self->values[self->operands[step->first_operand + step->n_inputs + k]].root;
        self->n_feeds += k == N_PLACES - 1;
      }
}

OrtrainProgram *
ortrain_program_new (OrtrainMemoryPlan *plan, OrtrainDeviceContext *device_context)
{
  OrtrainProgram *self = g_new0 (OrtrainProgram, 1);
  self->plan = g_object_ref (plan);
  self->device_context = device_context;
  self->constants = g_ptr_array_new ();
  self->values = ortrain_memory_plan_peek_values (plan, &self->n_values);
  self->steps = ortrain_memory_plan_peek_steps (plan, &self->n_steps);
  self->operands = ortrain_memory_plan_peek_operands (plan, &self->n_operands);
  self->calls = g_new0 (OrtrainKernelCall, self->n_steps + 1);
  self->addresses = g_new0 (gpointer, self->n_operands + 1);
  self->places = g_new0 (gpointer, self->n_values + 1);
  self->events = g_new0 (OrtrainEvent *, self->n_steps + 1);
  self->first_slot = g_new0 (guint32, self->n_values + 2);
  self->slots = g_new0 (guint32, self->n_operands + 1);

  for (guint i = 0; i < self->n_operands; i++)
    if (self->operands[i] != G_MAXUINT32)
      self->first_slot[self->values[self->operands[i]].root + 1]++;
  for (guint i = 0; i < self->n_values; i++)
    self->first_slot[i + 1] += self->first_slot[i];
  g_autofree guint32 *used = g_new0 (guint32, self->n_values + 1);
  for (guint i = 0; i < self->n_operands; i++)
    if (self->operands[i] != G_MAXUINT32)
      {
        guint32 root = self->values[self->operands[i]].root;
        self->slots[self->first_slot[root] + used[root]++] = i;
      }

  self->is_alone = g_new0 (gboolean, self->n_steps + 1);
  self->step_of = g_new0 (guint32, self->n_operands + 1);
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        self->step_of[step->first_operand + i] = s;
      self->calls[s] = (OrtrainKernelCall){
        .run = step->kernel->run,
        .inputs = (const void *const *) (self->addresses + step->first_operand),
        .outputs = self->addresses + step->first_operand + step->n_inputs,
        .constants = step->constants,
        .n_inputs = step->n_inputs,
        .n_outputs = step->n_outputs,
        .plan_step = s,
        .node_number = step->node->number,
        .accumulates = step->accumulates,
        .gradients = step->gradients,
        .context = ortrain_device_context_peek_context (device_context, step->stream),
        .run_joined = step->kernel->run_joined,
        .n_joined = step->n_joined,
      };
    }
  for (guint s = 0; s < self->n_steps; s++)
    self->has_streams[self->steps[s].stream] = TRUE;
  find_feeds (self);
  get_cut (self, ORTRAIN_PROGRAM_PHASE);
  for (guint32 i = 0; i < self->n_values; i++)
    {
      /* NULL would mean that it is absent */
      if (self->values[i].root == i && self->values[i].bytes == 0)
        ortrain_program_set_address (self, i, ortrain_device_context_get_empty_address (device_context));
    }
  return self;
}

static void
free_captures (OrtrainProgram *self, Segment *segment)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  for (guint k = 0; k < N_PLACES; k++)
    if (segment->captures[k] != NULL)
      provider->klass->free_capture (provider, g_steal_pointer (&segment->captures[k]));
}

static void
forget_cuts (OrtrainProgram *self)
{
  for (guint c = 0; c < ORTRAIN_N_PROGRAM_RANGES; c++)
    {
      for (guint i = 0; i < self->cuts[c].n_segments; i++)
        free_captures (self, &self->cuts[c].segments[i]);
      g_free (self->cuts[c].segments);
      g_free (self->cuts[c].segment_of);
      self->cuts[c] = (Cut){ 0 };
    }
}

void
ortrain_program_free (OrtrainProgram *self)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  ortrain_device_context_drain (self->device_context); /* a stream may still be before a wait for one of the events */
  forget_cuts (self);
  for (guint s = 0; s < self->n_steps; s++)
    if (self->events[s] != NULL)
      provider->klass->free_event (provider, self->events[s]);
  for (guint k = 0; k < N_PLACES; k++)
    if (self->ends[k] != NULL)
      provider->klass->free_event (provider, self->ends[k]);
  ortrain_device_context_forget_program (self->device_context, self);
  g_free (self->feeds);
  g_free (self->events);
  for (guint i = 0; i < self->constants->len; i++)
    ortrain_device_context_unref_constant (self->device_context, self->constants->pdata[i]);
  g_ptr_array_unref (self->constants);
  g_free (self->calls);
  g_free (self->addresses);
  g_free (self->places);
  g_free (self->first_slot);
  g_free (self->slots);
  g_free (self->step_of);
  g_free (self->is_alone);
  g_object_unref (self->plan);
  g_free (self);
}

static void
note_move (OrtrainProgram *self, guint32 step)
{
  for (guint c = 0; c < ORTRAIN_N_PROGRAM_RANGES; c++)
    if (self->cuts[c].segments != NULL)
      self->cuts[c].segments[self->cuts[c].segment_of[step]].has_moved = TRUE;
}

/* NULL: the root has one place. */
static const Feed *
find_feed (const OrtrainProgram *self, guint32 root)
{
  for (guint i = 0; i < self->n_feeds; i++)
    if (self->feeds[i].roots[0] == root || self->feeds[i].roots[1] == root)
      return &self->feeds[i];
  return NULL;
}

/* Where operands of a root find it now: of a feed in one place or the other. */
static gpointer
get_place (const OrtrainProgram *self, guint32 root)
{
  const Feed *feed = find_feed (self, root);
  return self->places[feed != NULL && feed->roots[0] == root ? feed->roots[self->turn] : root];
}

static void
put_address (OrtrainProgram *self, guint32 root, gboolean moves)
{
  gpointer address = get_place (self, root);
  for (guint32 k = self->first_slot[root]; k < self->first_slot[root + 1]; k++)
    {
      self->addresses[self->slots[k]] = address;
      if (moves)
        note_move (self, self->step_of[self->slots[k]]);
    }
}

/* The caller has a root at another address than before: steps that read or write it are submitted by themselves from
 * now on. Not copies between the host and the device, which lie among other copies, and are few. */
static void
note_new_address (OrtrainProgram *self, guint32 root)
{
  const OrtrainRegion region = self->values[root].region;
  if ((region != ORTRAIN_REGION_INPUT && region != ORTRAIN_REGION_OUTPUT) ||
      ortrain_device_context_get_provider (self->device_context)->klass->capture == NULL)
    return;
  gboolean any = FALSE;
  for (guint32 k = self->first_slot[root]; k < self->first_slot[root + 1]; k++)
    {
      const guint32 s = self->step_of[self->slots[k]];
      const gboolean is_alone = self->steps[s].stream != ORTRAIN_STREAM_COPY;
      any = any || (is_alone && !self->is_alone[s]);
      self->is_alone[s] = is_alone;
    }
  if (any)
    forget_cuts (self);
}

void
ortrain_program_set_address (OrtrainProgram *self, guint32 buffer, gpointer address)
{
  if (self->places[buffer] == address)
    return;
  if (self->places[buffer] != NULL)
    note_new_address (self, buffer);
  self->places[buffer] = address;
  const Feed *feed = find_feed (self, buffer);
  put_address (self, buffer, TRUE);
  if (feed != NULL && feed->roots[0] != buffer)
    put_address (self, feed->roots[0], TRUE);
}

gpointer
ortrain_program_get_address (const OrtrainProgram *self, guint32 buffer)
{
  return get_place (self, self->values[buffer].root);
}

void
ortrain_program_swap_input_buffers (OrtrainProgram *self)
{
  if (self->n_feeds == 0)
    return;
  self->turn = (self->turn + 1) % N_PLACES;
  for (guint i = 0; i < self->n_feeds; i++)
    put_address (self, self->feeds[i].roots[0], FALSE);
}

void
ortrain_program_set_places (OrtrainProgram *self, const gpointer *places)
{
  memset (self->has_ended, 0, sizeof self->has_ended);
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->root == i && value->bytes > 0 &&
          (value->region == ORTRAIN_REGION_ARENA || value->region == ORTRAIN_REGION_HOST_ARENA))
        ortrain_program_set_address (self, i, places[i]);
    }
  for (guint s = 0; s < self->n_steps; s++)
    {
      const guint32 workspace = self->steps[s].workspace;
      if (workspace == G_MAXUINT32 || self->calls[s].workspace == self->places[workspace])
        continue;
      self->calls[s].workspace = self->places[workspace];
      note_move (self, s);
    }
}

void
ortrain_program_set_arena (OrtrainProgram *self, gpointer arena, gpointer host_arena)
{
  if (self->arena == arena && self->host_arena == host_arena)
    return;
  self->arena = arena;
  self->host_arena = host_arena;
  g_autofree gpointer *places = g_new0 (gpointer, self->n_values + 1);
  for (guint32 i = 0; i < self->n_values; i++)
    if (self->values[i].region == ORTRAIN_REGION_ARENA)
      places[i] = (char *) arena + self->values[i].offset;
    else if (self->values[i].region == ORTRAIN_REGION_HOST_ARENA)
      places[i] = (char *) host_arena + self->values[i].offset;
  ortrain_program_set_places (self, places);
}

/* All calls of a segment: one by one at new addresses, else as one where the device can. Not copies between the host
 * and the device: tensors of the caller are in ordinary memory, which a graph would not read or write as it is at each
 * run. */
static gboolean
launch_segment (OrtrainProgram *self, Segment *segment, GCancellable *cancellable, GError **error)
{
  const OrtrainKernelCall *calls = self->calls + segment->first;
  const guint n_calls = segment->end - segment->first;
  OrtrainDeviceContext *device_context = self->device_context;
  const OrtrainProvider *provider = ortrain_device_context_get_provider (device_context);
  if (segment->stream == ORTRAIN_STREAM_HOST || segment->stream == ORTRAIN_STREAM_COPY || n_calls < 2 ||
      provider->klass->capture == NULL || segment->has_moved)
    {
      segment->has_moved = FALSE;
      free_captures (self, segment);
      return ortrain_device_context_submit (device_context, segment->stream, calls, n_calls, cancellable, error);
    }
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  OrtrainCapture **capture = &segment->captures[self->turn];
  if (*capture == NULL)
    *capture = ortrain_device_context_capture (device_context, segment->stream, calls, n_calls, error);
  return *capture != NULL && ortrain_device_context_launch (device_context, segment->stream, *capture, error);
}

/* The stream of computing, for which the host waits, against the others. */
static gboolean
join_streams (OrtrainProgram *self, gboolean begin, GError **error)
{
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (k != ORTRAIN_STREAM_COMPUTE && self->has_streams[k] &&
        !ortrain_device_context_wait_stream (self->device_context,
                                             begin ? (OrtrainPlanStream) k : ORTRAIN_STREAM_COMPUTE,
                                             begin ? ORTRAIN_STREAM_COMPUTE : (OrtrainPlanStream) k, NULL, error))
      return FALSE;
  return TRUE;
}

/* Copies of feeds go on while the step before computes, but not while the one before that does, which had its feeds
 * where theirs go: unless something else has used the memory since. */
static gboolean
begin_streams (OrtrainProgram *self, guint first, GError **error)
{
  const gboolean goes_on = ortrain_device_context_set_current_program (self->device_context, self);
  if (self->n_feeds > 0 && goes_on && self->has_ended[self->turn])
    return self->steps[first].stream != ORTRAIN_STREAM_COPY || /* then there are no copies */
           ortrain_device_context_wait_stream (self->device_context, ORTRAIN_STREAM_COPY, ORTRAIN_STREAM_COMPUTE,
                                               self->ends[self->turn], error);
  return join_streams (self, TRUE, error);
}

static gboolean
end_streams (OrtrainProgram *self, GError **error)
{
  if (!join_streams (self, FALSE, error))
    return FALSE;
  if (self->n_feeds == 0)
    return TRUE;
  self->has_ended[self->turn] =
      ortrain_device_context_record (self->device_context, ORTRAIN_STREAM_COMPUTE, self->ends[self->turn], error);
  return self->has_ended[self->turn];
}

/* Where kernels run as they are submitted, a trace has the time of each. */
static gboolean
traces_kernels (OrtrainProgram *self, OrtrainPlanStream stream)
{
  const OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  return (stream == ORTRAIN_STREAM_HOST || provider->klass->capture == NULL) && ortrain_trace_begin () != 0;
}

static gboolean
trace_kernels (OrtrainProgram *self, OrtrainPlanStream stream, guint first, guint end, GCancellable *cancellable,
               GError **error)
{
  gboolean ok = TRUE;
  for (guint s = first; s < end && ok; s++)
    {
      const OrtrainNode *node = self->steps[s].node;
      const gint64 begin = ortrain_trace_begin ();
      ok = ortrain_device_context_submit (self->device_context, stream, self->calls + s, 1, cancellable, error) &&
           (self->events[s] == NULL ||
            ortrain_device_context_record (self->device_context, stream, self->events[s], error));
      ortrain_trace_end (begin, "kernel", node->op_type, node->name);
    }
  return ok;
}

/* Steps [first, end) of a segment, after the steps that it waits for. */
static gboolean
submit_segment (OrtrainProgram *self, Segment *segment, guint first, guint end, GCancellable *cancellable,
                GError **error)
{
  OrtrainDeviceContext *device_context = self->device_context;
  const OrtrainPlanStep *step = &self->steps[segment->first];
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, NULL); /* NULL: nothing waits */
  if (segment->joins && first == segment->first &&
      (!join_streams (self, FALSE, error) || !join_streams (self, TRUE, error)))
    return FALSE;
  for (guint w = 0; w < step->n_waits && first == segment->first; w++)
    if (!ortrain_device_context_wait_stream (device_context, segment->stream,
                                             self->steps[waits[step->first_wait + w]].stream,
                                             self->events[waits[step->first_wait + w]], error))
      return FALSE;
  const gboolean whole = first == segment->first && end == segment->end;
  if (G_UNLIKELY (traces_kernels (self, segment->stream)))
    return trace_kernels (self, segment->stream, first, end, cancellable, error);
  const gint64 begin = ortrain_trace_begin ();
  const gboolean ok = (whole ? launch_segment (self, segment, cancellable, error)
                             : ortrain_device_context_submit (device_context, segment->stream, self->calls + first,
                                                              end - first, cancellable, error)) &&
                      (self->events[end - 1] == NULL ||
                       ortrain_device_context_record (device_context, segment->stream, self->events[end - 1], error));
  ortrain_trace_end (begin, "kernel", "submission", NULL);
  return ok;
}

static gboolean
submit_steps (OrtrainProgram *self, const Cut *cut, guint first, guint end, GCancellable *cancellable, GError **error)
{
  if (first < end && !begin_streams (self, first, error))
    return FALSE;
  for (guint i = first < end ? cut->segment_of[first] : cut->n_segments;
       i < cut->n_segments && cut->segments[i].first < end; i++)
    {
      Segment *segment = &cut->segments[i];
      if (!submit_segment (self, segment, MAX (first, segment->first), MIN (end, segment->end), cancellable, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_program_can_join_phases (const OrtrainProgram *self)
{
  return ortrain_device_context_get_provider (self->device_context)->klass->capture != NULL &&
         !self->has_streams[ORTRAIN_STREAM_HOST] && !self->has_streams[ORTRAIN_STREAM_SIDE];
}

/* A provider knows the number of a step, and not its node. */
static void
name_step (const OrtrainProgram *self, GError *failure)
{
  static const char mark[] = " at step ";
  const char *found = g_error_matches (failure, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED)
                          ? strstr (failure->message, mark)
                          : NULL;
  const guint64 s = found != NULL ? g_ascii_strtoull (found + strlen (mark), NULL, 10) : G_MAXUINT64;
  if (s >= self->n_steps)
    return;
  g_autofree char *node = ortrain_node_describe (self->steps[s].node);
  g_prefix_error (&failure, "%s: ", node);
}

gboolean
ortrain_program_submit (OrtrainProgram *self, OrtrainProgramRange range, guint first, guint end,
                        GCancellable *cancellable, GError **error)
{
  g_autoptr (GError) failure = NULL;
  ortrain_mapped_file_guard_thread ();
  const gboolean submitted = submit_steps (self, get_cut (self, range), first, end, cancellable, &failure);
  const gboolean joined = end_streams (self, failure == NULL ? &failure : NULL);
  if (failure != NULL)
    {
      name_step (self, failure);
      g_propagate_error (error, g_steal_pointer (&failure));
    }
  return submitted && joined;
}

gboolean
ortrain_program_check_fault (const OrtrainProgram *self, const OrtrainFault *fault, gint64 *item, GError **error)
{
  if (item != NULL)
    *item = -1;
  if (G_LIKELY (fault->code == ORTRAIN_FAULT_NONE))
    return TRUE;
  ortrain_evaluate_set_fault (error, self->steps[fault->step].node, fault, item);
  return FALSE;
}

gboolean
ortrain_program_run (OrtrainProgram *self, guint first, guint end, GCancellable *cancellable, gint64 *item,
                     GError **error)
{
  OrtrainFault fault;
  g_autoptr (GError) failure = NULL;
  if (item != NULL)
    *item = -1;
  const gboolean submitted = ortrain_program_submit (self, ORTRAIN_PROGRAM_PHASE, first, end, cancellable, &failure);
  if (!ortrain_device_context_wait (self->device_context, &fault, failure == NULL ? &failure : NULL) ||
      (!submitted && failure != NULL))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  return ortrain_program_check_fault (self, &fault, item, error);
}
