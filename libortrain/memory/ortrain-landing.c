/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-landing-private.h"

#include "ops/ortrain-op-private.h"

/* A node that copies or adds `from` into a new value, after the producer of `from` in the graph's order. */
static OrtrainValue *
insert_accumulate (OrtrainPlanning *self, OrtrainValue *from, guint position, OrtrainPhase phase, GError **error)
{
  OrtrainNode *node = ortrain_graph_insert_node (self->graph, position, ORTRAIN_DOMAIN, "Accumulate", "", &from, 1, 1);
  OrtrainValue *to = ortrain_node_output (node, 0);
  node->phase = phase;
  if (!ortrain_ops_infer_node (node, error))
    return NULL;
  to->layout = from->layout;
  return ortrain_planning_prepare_node (self, node, error) ? to : NULL;
}

static guint
position_after (OrtrainPlanning *self, const OrtrainValue *value, OrtrainPhase phase)
{
  GPtrArray *nodes = self->graph->nodes;
  guint position = 0;
  if (value->producer != NULL && g_ptr_array_find (nodes, value->producer, &position))
    position++;
  /* Never before the last node of an earlier phase. */
  while (position < nodes->len && ((OrtrainNode *) nodes->pdata[position])->phase < phase)
    position++;
  return position;
}

/* TRUE if the value may be built in place, being read by nobody but the chain that leads to the gradient. Adds the
 * nodes that have to change to the lists, and copies in front of terms of a sum that cannot be. */
static gboolean
gather (OrtrainPlanning *self, OrtrainValue *value, gboolean top, GPtrArray *leaves, GPtrArray *merged,
        GPtrArray *values, gboolean *ok, GError **error)
{
  OrtrainNode *node = value->producer;
  if (node == NULL || ortrain_planning_is_fixed (value) || value->uses->len != (top ? 0 : 1) ||
      (!top && value->is_output))
    return FALSE;
  OrtrainPlannedNode *info = ortrain_planning_node (self, node);
  if (info->fate == ORTRAIN_FATE_VIEW)
    {
      if (!gather (self, node->inputs->pdata[0], FALSE, leaves, merged, values, ok, error))
        return FALSE;
      g_ptr_array_add (values, value);
      return TRUE;
    }
  if (info->fate != ORTRAIN_FATE_RUNS)
    return FALSE;
  if (ortrain_planning_is_addition (node))
    {
      for (guint i = 0; *ok && i < node->inputs->len; i++)
        {
          OrtrainValue *term = node->inputs->pdata[i];
          guint n = leaves->len;
          if (gather (self, term, FALSE, leaves, merged, values, ok, error) || !*ok)
            continue;
          g_ptr_array_set_size (leaves, (gint) n); /* nothing of what was not taken */
          OrtrainValue *copy =
              insert_accumulate (self, term, position_after (self, term, node->phase), node->phase, error);
          *ok = copy != NULL;
          if (copy == NULL)
            break;
          ortrain_node_set_input (node, i, copy);
          g_ptr_array_add (leaves, copy);
          g_ptr_array_add (values, copy);
        }
      g_ptr_array_add (merged, node);
      g_ptr_array_add (values, value);
      return TRUE;
    }
  if (!(info->can_accumulate >> value->output_index & 1))
    return FALSE;
  for (guint i = 0; i < leaves->len; i++)
    if (((OrtrainValue *) leaves->pdata[i])->producer == node) /* a kernel cannot add two results to one place */
      return FALSE;
  g_ptr_array_add (leaves, value);
  g_ptr_array_add (values, value);
  return TRUE;
}

void
ortrain_landing_free (gpointer data)
{
  OrtrainLanding *landing = data;
  g_ptr_array_unref (landing->leaves);
  g_ptr_array_unref (landing->values);
  g_free (landing);
}

/* The new value takes over name, role and place among the outputs. */
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
  guint index;
  if (g_ptr_array_find (graph->outputs, from, &index))
    {
      ortrain_graph_mark_output (graph, from, FALSE);
      ortrain_graph_mark_output (graph, to, TRUE);
    }
}

gboolean
ortrain_planning_land_gradient (OrtrainPlanning *self, OrtrainValue *gradient, GPtrArray *landings, GError **error)
{
  OrtrainLanding *landing = g_new0 (OrtrainLanding, 1);
  landing->leaves = g_ptr_array_new ();
  landing->values = g_ptr_array_new ();
  g_ptr_array_add (landings, landing);
  g_autoptr (GPtrArray) merged = g_ptr_array_new ();
  gboolean ok = TRUE;
  if (!gather (self, gradient, TRUE, landing->leaves, merged, landing->values, &ok, error))
    {
      if (!ok)
        return FALSE;
      OrtrainPhase phase = gradient->producer != NULL ? gradient->producer->phase : ORTRAIN_PHASE_BACKWARD;
      OrtrainValue *copy = insert_accumulate (self, gradient, position_after (self, gradient, phase), phase, error);
      if (copy == NULL)
        return FALSE;
      take_over (self->graph, gradient, copy);
      g_ptr_array_set_size (landing->leaves, 0);
      g_ptr_array_set_size (landing->values, 0);
      g_ptr_array_add (landing->leaves, copy);
      g_ptr_array_add (landing->values, copy);
      gradient = copy;
    }
  if (!ok)
    return FALSE;
  for (guint i = 0; i < merged->len; i++)
    ortrain_planning_node (self, merged->pdata[i])->fate = ORTRAIN_FATE_MERGED;
  landing->gradient = gradient;
  return TRUE;
}

/* The next contents of a buffer go straight to its place if their kernel runs after all other readers of the old ones,
 * and may write over what it reads; else a copy does it, after the last of them. */
gboolean
ortrain_planning_land_buffer_update (OrtrainPlanning *self, OrtrainValue *update, GPtrArray *direct, GError **error)
{
  OrtrainValue *buffer = update->partner;
  OrtrainNode *maker = update->producer;
  GPtrArray *nodes = self->graph->nodes;
  guint maker_position = 0, last = 0;
  OrtrainPhase phase = maker != NULL ? maker->phase : ORTRAIN_PHASE_FORWARD;
  gboolean possible = maker != NULL && !ortrain_planning_is_fixed (update) &&
                      ortrain_planning_node (self, maker)->fate == ORTRAIN_FATE_RUNS &&
                      ortrain_planning_same_form (update, buffer);
  if (maker != NULL)
    g_ptr_array_find (nodes, maker, &maker_position);

  g_autoptr (GPtrArray) readers = g_ptr_array_new (); /* of the buffer, through views too */
  g_autoptr (GPtrArray) aliases = g_ptr_array_new ();
  g_ptr_array_add (aliases, buffer);
  for (guint a = 0; a < aliases->len; a++)
    {
      const OrtrainValue *alias = aliases->pdata[a];
      for (guint u = 0; u < alias->uses->len; u++)
        {
          OrtrainUse use = g_array_index (alias->uses, OrtrainUse, u);
          if (ortrain_planning_node (self, use.node)->fate == ORTRAIN_FATE_VIEW)
            {
              if (use.index == 0)
                g_ptr_array_add (aliases, use.node->outputs->pdata[0]);
              continue;
            }
          guint position = 0;
          g_ptr_array_find (nodes, use.node, &position);
          last = MAX (last, position);
          phase = MAX (phase, use.node->phase);
          g_ptr_array_add (readers, use.node);
          if (use.node == maker)
            possible = possible && use.index < 64 &&
                       (ortrain_planning_node (self, maker)->inplace[update->output_index] >> use.index & 1) != 0;
          else
            possible = possible && position < maker_position;
        }
      possible = possible && !alias->is_output;
    }

  OrtrainNode *writer = maker;
  if (!possible)
    {
      guint position = MAX (MAX (last, maker_position) + 1, position_after (self, update, phase));
      OrtrainValue *copy = insert_accumulate (self, update, MIN (position, nodes->len), phase, error);
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
