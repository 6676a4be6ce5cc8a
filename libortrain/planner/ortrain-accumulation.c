/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-accumulation-private.h"

#include "ops/ortrain-op-private.h"

/* A node that copies or adds `from` into a new value, as soon as `after` has run, but not before the last node of an
 * earlier phase. */
static OrtrainValue *
insert_accumulate (OrtrainPlannerState *self, OrtrainValue *from, const OrtrainNode *after, OrtrainPhase phase,
                   GError **error)
{
  OrtrainGraph *graph = self->graph;
  OrtrainNode *before = ortrain_graph_next_node (graph, after);
  if (before != NULL && before->phase < phase)
    {
      before = NULL;
      for (guint p = phase; p < ORTRAIN_N_PHASES && before == NULL; p++)
        before = self->first[p];
    }
  OrtrainNode *node = ortrain_graph_insert_node (graph, before, ORTRAIN_DOMAIN, "Accumulate", "", &from, 1, 1);
  OrtrainValue *to = ortrain_node_output (node, 0);
  node->phase = phase;
  if (before == self->first[phase] || self->first[phase] == NULL)
    self->first[phase] = node;
  if (!ortrain_ops_infer_node (node, error))
    return NULL;
  if (!ortrain_planner_state_prepare_node (self, node, error))
    return NULL;
  ortrain_planner_state_node (self, node)->position =
      after != NULL ? ortrain_planner_state_node (self, after)->position : 0;
  return to;
}

/* The terms that add up to a gradient. */
typedef struct
{
  OrtrainPlannerState *planning;
  GPtrArray *leaves, *merged, *values;
  GHashTable *makers; /* of the leaves: a kernel cannot add two results to one place */
  gboolean is_kept;   /* from step to step */
} Gathering;

/* A sum whose terms are being looked at. */
typedef struct
{
  OrtrainValue *value; /* of the sum itself, or of the last of the views of it */
  OrtrainNode *sum;
  guint next; /* term */
} Frame;

/* Whether the node reads a gradient in its final place: it waits for all terms that are added up there. */
static gboolean
reads_in_place (const OrtrainNode *node)
{
  return node->phase == ORTRAIN_PHASE_UPDATE || ortrain_node_is_update (node);
}

static gboolean
is_read_elsewhere (const OrtrainValue *gradient)
{
  for (guint u = 0; u < gradient->uses.n; u++)
    if (!reads_in_place (gradient->uses.items[u].node))
      return TRUE;
  return FALSE;
}

/* Skips views. Returns the node that makes the value, if the value may be built in place: only the chain that leads to
 * the gradient reads it. Otherwise NULL. */
static OrtrainNode *
find_maker (OrtrainPlannerState *self, const OrtrainValue *value, gboolean top)
{
  for (;; top = FALSE)
    {
      OrtrainNode *node = value->producer;
      if (node == NULL || ortrain_planner_state_is_fixed (value) ||
          (top ? is_read_elsewhere (value) : value->uses.n != 1 || value->is_output))
        return NULL;
      const OrtrainNodeDisposition fate = ortrain_planner_state_node (self, node)->fate;
      if (fate == ORTRAIN_DISPOSITION_RUNS)
        return node;
      if (fate != ORTRAIN_DISPOSITION_VIEW)
        return NULL;
      value = node->inputs->pdata[0];
    }
}

/* The value that `maker` makes, and the views of it up to `value`. */
static void
add_values (Gathering *self, OrtrainValue *value, const OrtrainNode *maker)
{
  const guint start = self->values->len;
  for (;; value = value->producer->inputs->pdata[0])
    {
      g_ptr_array_add (self->values, value);
      if (value->producer == maker)
        break;
    }
  for (guint i = start, j = self->values->len; i + 1 < j; i++)
    {
      gpointer swapped = self->values->pdata[i];
      self->values->pdata[i] = self->values->pdata[--j];
      self->values->pdata[j] = swapped;
    }
}

/* A gradient that is kept is added to in the backward pass: if the forward pass fails, or its loss is not finite, it
 * has to be what it was. */
static gboolean
comes_too_early (const Gathering *self, const OrtrainNode *maker)
{
  return self->is_kept && maker->phase == ORTRAIN_PHASE_FORWARD;
}

/* FALSE if the value has to be copied to the gradient's place. A sum is only noted in `pending`. */
static gboolean
gather_one (Gathering *self, OrtrainValue *value, gboolean top, GArray *pending)
{
  OrtrainNode *node = find_maker (self->planning, value, top);
  if (node == NULL || comes_too_early (self, node))
    return FALSE;
  if (ortrain_planner_state_is_addition (node))
    {
      Frame frame = { value, node, 0 };
      g_array_append_val (pending, frame);
      return TRUE;
    }
  const OrtrainValue *made = value;
  while (made->producer != node)
    made = made->producer->inputs->pdata[0];
  if (!(ortrain_planner_state_node (self->planning, node)->kernel->can_accumulate >> made->output_index & 1) ||
      !g_hash_table_add (self->makers, node))
    return FALSE;
  g_ptr_array_add (self->leaves, (gpointer) made);
  add_values (self, value, node);
  return TRUE;
}

/* Sums of sums are as deep as a value has readers: no recursion. *taken is FALSE if the gradient itself has to be
 * copied. FALSE with an error when a copy cannot be made. */
static gboolean
gather (Gathering *self, OrtrainValue *gradient, gboolean *taken, GError **error)
{
  g_autoptr (GArray) pending = g_array_new (FALSE, FALSE, sizeof (Frame));
  *taken = gather_one (self, gradient, TRUE, pending);
  while (pending->len > 0)
    {
      Frame *frame = &g_array_index (pending, Frame, pending->len - 1);
      OrtrainNode *sum = frame->sum;
      if (frame->next == sum->inputs->len)
        {
          g_ptr_array_add (self->merged, sum);
          add_values (self, frame->value, sum);
          g_array_set_size (pending, pending->len - 1);
          continue;
        }
      const guint i = frame->next++;
      OrtrainValue *term = sum->inputs->pdata[i];
      if (gather_one (self, term, FALSE, pending))
        continue;
      OrtrainValue *copy = insert_accumulate (self->planning, term, term->producer, sum->phase, error);
      if (copy == NULL)
        return FALSE;
      ortrain_node_set_input (sum, i, copy);
      g_ptr_array_add (self->leaves, copy);
      g_ptr_array_add (self->values, copy);
    }
  return TRUE;
}

void
ortrain_accumulation_free (gpointer data)
{
  OrtrainAccumulation *accumulation = data;
  g_ptr_array_unref (accumulation->leaves);
  g_ptr_array_unref (accumulation->values);
  g_free (accumulation);
}

/* The new value takes over name, role, the readers that wait for it, and the place among the outputs. */
static void
take_over (OrtrainGraph *graph, OrtrainValue *from, OrtrainValue *to)
{
  g_autofree char *name = g_strdup (from->name);
  ortrain_value_rename (from, NULL);
  ortrain_value_rename (to, name);
  to->role = from->role;
  to->partner = from->partner;
  from->role = ORTRAIN_ROLE_NONE;
  from->partner = NULL;
  if (from->is_output)
    ortrain_graph_replace_output (graph, from, to);
  for (guint u = from->uses.n; u-- > 0;)
    {
      const OrtrainUse use = from->uses.items[u];
      if (reads_in_place (use.node) && use.node != to->producer)
        ortrain_node_set_input (use.node, use.index, to);
    }
}

/* A copy to the place of a gradient, of which nobody reads the other end before the phase has ended, may run last.
 * Beyond this size, waiting costs more memory than launches do time. */
#define MOST_WAITING_BYTES 65536

static gboolean
can_run_last (OrtrainPlannerState *self, const OrtrainValue *gradient, const OrtrainNode *copy)
{
  gint64 dims[ORTRAIN_MAX_RANK], n_elements;
  gsize n_bytes;
  const OrtrainPreparedKernel *kernel = ortrain_planner_state_node (self, copy)->kernel;
  if (kernel == NULL || kernel->kernel->run_joined == NULL || copy->phase != ORTRAIN_PHASE_BACKWARD ||
      !ortrain_planner_state_measure_value (gradient, dims, &n_elements, &n_bytes) || n_bytes > MOST_WAITING_BYTES)
    return FALSE;
  for (guint u = 0; u < gradient->uses.n; u++)
    if (gradient->uses.items[u].node->phase == copy->phase)
      return FALSE;
  return TRUE;
}

gboolean
ortrain_planner_state_accumulate_gradient (OrtrainPlannerState *self, OrtrainValue *gradient, GPtrArray *accumulations,
                                           GError **error)
{
  OrtrainAccumulation *accumulation = g_new0 (OrtrainAccumulation, 1);
  accumulation->leaves = g_ptr_array_new ();
  accumulation->values = g_ptr_array_new ();
  g_ptr_array_add (accumulations, accumulation);
  g_autoptr (GPtrArray) merged = g_ptr_array_new ();
  g_autoptr (GHashTable) makers = g_hash_table_new (NULL, NULL);
  Gathering gathering = { self, accumulation->leaves, merged, accumulation->values, makers, gradient->is_output };
  gboolean taken;
  if (!gather (&gathering, gradient, &taken, error))
    return FALSE;
  if (!taken)
    {
      OrtrainPhase phase = gradient->producer != NULL ? gradient->producer->phase : ORTRAIN_PHASE_BACKWARD;
      if (gradient->is_output)
        phase = MAX (phase, ORTRAIN_PHASE_BACKWARD);
      OrtrainValue *copy = insert_accumulate (self, gradient, gradient->producer, phase, error);
      if (copy == NULL)
        return FALSE;
      take_over (self->graph, gradient, copy);
      g_ptr_array_add (accumulation->leaves, copy);
      g_ptr_array_add (accumulation->values, copy);
      gradient = copy;
      ortrain_planner_state_node (self, copy->producer)->runs_last = can_run_last (self, copy, copy->producer);
    }
  for (guint i = 0; i < merged->len; i++)
    ortrain_planner_state_node (self, merged->pdata[i])->fate = ORTRAIN_DISPOSITION_MERGED;
  accumulation->gradient = gradient;
  return TRUE;
}

/* The next contents of a parameter, a state or a buffer go straight to its place if their kernel runs after all other
 * readers of the old ones, and may write over what it reads; else a copy does it, after the last of them. */
gboolean
ortrain_planner_state_write_update (OrtrainPlannerState *self, OrtrainValue *update, GPtrArray *direct, GError **error)
{
  OrtrainValue *place = update->partner;
  OrtrainNode *maker = update->producer;
  const OrtrainNode *last = maker; /* of the nodes that have to run before */
  OrtrainPhase phase = maker != NULL ? maker->phase : ORTRAIN_PHASE_FORWARD;
  gboolean possible = maker != NULL && !ortrain_planner_state_is_fixed (update) &&
                      ortrain_planner_state_node (self, maker)->fate == ORTRAIN_DISPOSITION_RUNS &&
                      ortrain_planner_state_same_form (update, place);
  const gint32 maker_position = maker != NULL ? ortrain_planner_state_node (self, maker)->position : 0;

  g_autoptr (GPtrArray) readers = g_ptr_array_new (); /* of the place, through views too */
  g_autoptr (GPtrArray) aliases = g_ptr_array_new ();
  g_ptr_array_add (aliases, place);
  for (guint a = 0; a < aliases->len; a++)
    {
      const OrtrainValue *alias = aliases->pdata[a];
      for (guint u = 0; u < alias->uses.n; u++)
        {
          OrtrainUse use = alias->uses.items[u];
          if (ortrain_planner_state_node (self, use.node)->fate == ORTRAIN_DISPOSITION_VIEW)
            {
              if (use.index == 0)
                g_ptr_array_add (aliases, use.node->outputs->pdata[0]);
              continue;
            }
          const gint32 position = ortrain_planner_state_node (self, use.node)->position;
          if (last == NULL || position > ortrain_planner_state_node (self, last)->position)
            last = use.node;
          phase = MAX (phase, use.node->phase);
          g_ptr_array_add (readers, use.node);
          if (use.node == maker)
            possible =
                possible && use.index < 64 &&
                (ortrain_planner_state_node (self, maker)->kernel->inplace[update->output_index] >> use.index & 1) != 0;
          else
            possible = possible && position < maker_position;
        }
      possible = possible && !alias->is_output;
    }

  OrtrainNode *writer = maker;
  if (!possible)
    {
      OrtrainValue *copy = insert_accumulate (self, update, last, phase, error);
      if (copy == NULL)
        return FALSE;
      take_over (self->graph, update, copy);
      update = copy;
      writer = copy->producer;
    }
  for (guint i = 0; i < readers->len; i++)
    if (readers->pdata[i] != writer)
      {
        OrtrainOrderEdge edge = { readers->pdata[i], writer };
        g_array_append_val (self->edges, edge);
      }
  g_ptr_array_add (direct, update);
  return TRUE;
}
