/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-program-private.h"

#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "transform/ortrain-evaluate-private.h"

/* Steps that are submitted at once: of one stream, and nothing waits in between. */
typedef struct
{
  guint first, end;
  OrtrainPlanStream stream;
  OrtrainEvent *event; /* recorded behind it; NULL: nobody waits for it */

  /* What the device made of the calls at their second run in a row with the same addresses. */
  OrtrainCapture *capture;
  gboolean has_moved; /* an address has changed since the last run */
} Segment;

struct _OrtrainProgram
{
  OrtrainMemoryPlan *plan;
  OrtrainExecution *execution;
  GPtrArray *constants; /* of OrtrainTensor, kept by the plan's graph: those that it holds in the execution */
  const OrtrainPlanValue *values;
  const OrtrainPlanStep *steps;
  const guint32 *operands;
  guint n_values, n_steps, n_operands;

  OrtrainKernelCall *calls; /* [n_steps] */
  gpointer *addresses;      /* [n_operands]: what the calls point into */
  gpointer *places;         /* [n_values]: of roots */
  gpointer arena, host_arena;

  Segment *segments;
  guint n_segments;
  guint32 *segment_of; /* [n_steps] */
  gboolean has_streams[ORTRAIN_N_STREAMS];
  gboolean is_loaded;

  /* Operands by root, so that binding an address touches only what changes. */
  guint32 *first_slot; /* [n_values + 1] */
  guint32 *slots;      /* [n_operands] */
  guint32 *step_of;    /* [n_operands] */
};

gboolean
ortrain_program_hold (OrtrainProgram *self, OrtrainTensor *tensor, gpointer *address, GError **error)
{
  if (!ortrain_execution_ref_constant (self->execution, tensor, address, error))
    return FALSE;
  g_ptr_array_add (self->constants, tensor);
  return TRUE;
}

/* A segment ends where the stream changes, behind what others wait for, and before what waits. */
static void
cut_segments (OrtrainProgram *self)
{
  guint n_waits;
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, &n_waits);
  g_autofree gboolean *awaited = g_new0 (gboolean, self->n_steps + 1);
  for (guint w = 0; w < n_waits; w++)
    awaited[waits[w]] = TRUE;
  GArray *segments = g_array_new (FALSE, FALSE, sizeof (Segment));
  self->segment_of = g_new (guint32, self->n_steps + 1);
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      if (s == 0 || step->stream != step[-1].stream || step->phase != step[-1].phase || step->n_waits > 0 ||
          awaited[s - 1])
        {
          const Segment segment = { .first = s, .end = s, .stream = step->stream, .has_moved = TRUE };
          g_array_append_val (segments, segment);
        }
      g_array_index (segments, Segment, segments->len - 1).end = s + 1;
      self->segment_of[s] = segments->len - 1;
      self->has_streams[step->stream] = TRUE;
    }
  self->n_segments = segments->len;
  self->segments = (Segment *) g_array_free (segments, FALSE);
}

/* Streams, and events behind what others wait for. */
static gboolean
open_streams (OrtrainProgram *self, GError **error)
{
  OrtrainProvider *provider = ortrain_execution_get_provider (self->execution);
  guint n_waits;
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, &n_waits);
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (self->has_streams[k] && !ortrain_execution_open_stream (self->execution, (OrtrainPlanStream) k, error))
      return FALSE;
  for (guint w = 0; w < n_waits; w++)
    {
      Segment *segment = &self->segments[self->segment_of[waits[w]]];
      if (segment->stream != ORTRAIN_STREAM_HOST && segment->event == NULL &&
          (segment->event = provider->klass->new_event (provider, error)) == NULL)
        return FALSE;
    }
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

OrtrainProgram *
ortrain_program_new (OrtrainMemoryPlan *plan, OrtrainExecution *execution)
{
  OrtrainProgram *self = g_new0 (OrtrainProgram, 1);
  self->plan = g_object_ref (plan);
  self->execution = execution;
  self->constants = g_ptr_array_new ();
  self->values = ortrain_memory_plan_peek_values (plan, &self->n_values);
  self->steps = ortrain_memory_plan_peek_steps (plan, &self->n_steps);
  self->operands = ortrain_memory_plan_peek_operands (plan, &self->n_operands);
  self->calls = g_new0 (OrtrainKernelCall, self->n_steps + 1);
  self->addresses = g_new0 (gpointer, self->n_operands + 1);
  self->places = g_new0 (gpointer, self->n_values + 1);
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
        .context = ortrain_execution_peek_context (execution, step->stream),
      };
    }
  cut_segments (self);
  for (guint32 i = 0; i < self->n_values; i++)
    {
      /* NULL would mean that it is absent */
      if (self->values[i].root == i && self->values[i].bytes == 0)
        ortrain_program_set_address (self, i, ortrain_execution_get_nothing (execution));
    }
  return self;
}

void
ortrain_program_free (OrtrainProgram *self)
{
  OrtrainProvider *provider = ortrain_execution_get_provider (self->execution);
  for (guint i = 0; i < self->n_segments; i++)
    {
      if (self->segments[i].event != NULL)
        provider->klass->free_event (provider, self->segments[i].event);
      if (self->segments[i].capture != NULL)
        provider->klass->free_capture (provider, self->segments[i].capture);
    }
  g_free (self->segments);
  g_free (self->segment_of);
  for (guint i = 0; i < self->constants->len; i++)
    ortrain_execution_unref_constant (self->execution, self->constants->pdata[i]);
  g_ptr_array_unref (self->constants);
  g_free (self->calls);
  g_free (self->addresses);
  g_free (self->places);
  g_free (self->first_slot);
  g_free (self->slots);
  g_free (self->step_of);
  g_object_unref (self->plan);
  g_free (self);
}

void
ortrain_program_set_address (OrtrainProgram *self, guint32 buffer, gpointer address)
{
  if (self->places[buffer] == address)
    return;
  self->places[buffer] = address;
  for (guint32 k = self->first_slot[buffer]; k < self->first_slot[buffer + 1]; k++)
    {
      self->addresses[self->slots[k]] = address;
      self->segments[self->segment_of[self->step_of[self->slots[k]]]].has_moved = TRUE;
    }
}

gpointer
ortrain_program_get_address (const OrtrainProgram *self, guint32 buffer)
{
  return self->places[self->values[buffer].root];
}

void
ortrain_program_set_arena (OrtrainProgram *self, gpointer arena, gpointer host_arena)
{
  if (self->arena == arena && self->host_arena == host_arena)
    return;
  self->arena = arena;
  self->host_arena = host_arena;
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->root != i || value->bytes == 0)
        continue;
      if (value->region == ORTRAIN_REGION_ARENA)
        ortrain_program_set_address (self, i, (char *) arena + value->offset);
      else if (value->region == ORTRAIN_REGION_HOST_ARENA)
        ortrain_program_set_address (self, i, (char *) host_arena + value->offset);
    }
  for (guint s = 0; s < self->n_steps; s++)
    if (self->steps[s].workspace != G_MAXUINT32)
      {
        self->calls[s].workspace = self->places[self->steps[s].workspace];
        self->segments[self->segment_of[s]].has_moved = TRUE;
      }
}

/* All calls of a segment: one by one at new addresses, else as one where the device can. */
static gboolean
launch_segment (OrtrainProgram *self, Segment *segment, GCancellable *cancellable, GError **error)
{
  const OrtrainKernelCall *calls = self->calls + segment->first;
  const guint n_calls = segment->end - segment->first;
  OrtrainExecution *execution = self->execution;
  const OrtrainProvider *provider = ortrain_execution_get_provider (execution);
  if (segment->stream == ORTRAIN_STREAM_HOST || n_calls < 2 || provider->klass->capture == NULL || segment->has_moved)
    {
      segment->has_moved = FALSE;
      if (segment->capture != NULL)
        provider->klass->free_capture (ortrain_execution_get_provider (execution), g_steal_pointer (&segment->capture));
      return ortrain_execution_submit (execution, segment->stream, calls, n_calls, cancellable, error);
    }
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  if (segment->capture == NULL)
    segment->capture = ortrain_execution_capture (execution, segment->stream, calls, n_calls, error);
  return segment->capture != NULL && ortrain_execution_launch (execution, segment->stream, segment->capture, error);
}

/* Steps [first, end) of a segment, behind what it waits for. */
static gboolean
submit_segment (OrtrainProgram *self, Segment *segment, guint first, guint end, GCancellable *cancellable,
                GError **error)
{
  OrtrainExecution *execution = self->execution;
  const OrtrainPlanStep *step = &self->steps[segment->first];
  const guint32 *waits = ortrain_memory_plan_peek_waits (self->plan, NULL) + step->first_wait;
  for (guint w = 0; w < step->n_waits && first == segment->first; w++)
    {
      const Segment *other = &self->segments[self->segment_of[waits[w]]];
      if (!ortrain_execution_wait_stream (execution, segment->stream, other->stream, other->event, error))
        return FALSE;
    }
  const gboolean whole = first == segment->first && end == segment->end;
  return (whole ? launch_segment (self, segment, cancellable, error)
                : ortrain_execution_submit (execution, segment->stream, self->calls + first, end - first, cancellable,
                                            error)) &&
         (segment->event == NULL || end != segment->end ||
          ortrain_execution_record (execution, segment->stream, segment->event, error));
}

/* The stream of computing, for which the host waits, against the others. */
static gboolean
join_streams (OrtrainProgram *self, gboolean begin, GError **error)
{
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (k != ORTRAIN_STREAM_COMPUTE && self->has_streams[k] &&
        !ortrain_execution_wait_stream (self->execution, begin ? (OrtrainPlanStream) k : ORTRAIN_STREAM_COMPUTE,
                                        begin ? ORTRAIN_STREAM_COMPUTE : (OrtrainPlanStream) k, NULL, error))
      return FALSE;
  return TRUE;
}

static gboolean
submit (OrtrainProgram *self, guint first, guint end, GCancellable *cancellable, GError **error)
{
  if (first < end && !join_streams (self, TRUE, error))
    return FALSE;
  for (guint i = first < end ? self->segment_of[first] : self->n_segments;
       i < self->n_segments && self->segments[i].first < end; i++)
    {
      Segment *segment = &self->segments[i];
      if (!submit_segment (self, segment, MAX (first, segment->first), MIN (end, segment->end), cancellable, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_program_run (OrtrainProgram *self, guint first, guint end, GCancellable *cancellable, gint64 *item,
                     GError **error)
{
  OrtrainExecution *execution = self->execution;
  OrtrainFault fault;
  if (item != NULL)
    *item = -1;
  ortrain_mapped_file_guard_thread ();
  g_autoptr (GError) failure = NULL;
  const gboolean submitted = submit (self, first, end, cancellable, &failure);
  if (!join_streams (self, FALSE, failure == NULL ? &failure : NULL) ||
      !ortrain_execution_wait (execution, &fault, failure == NULL ? &failure : NULL) || (!submitted && failure != NULL))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (G_LIKELY (fault.code == ORTRAIN_FAULT_NONE))
    return TRUE;
  ortrain_evaluate_set_fault (error, self->steps[fault.step].node, &fault, item);
  return FALSE;
}
