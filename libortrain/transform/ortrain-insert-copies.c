/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-insert-copies-private.h"

#include "ops/ortrain-op-private.h"

/* Feeds, outputs that the caller takes, unless the caller has them on the device, and all that nodes of the host read
 * and compute are in the memory of the host; everything else is in that of the device. What a node reads from the other
 * side is copied before its first reader there; feeds are copied in the forward phase, which is where the planner puts
 * them first. */

typedef struct
{
  OrtrainGraph *graph;
  /* value → the same on the other side; one for the update, before which others may use the memory of a step */
  GHashTable *copies[2];
  gboolean double_buffers_inputs;
} Copies;

static GHashTable *
copies_of (const Copies *self, OrtrainPhase phase)
{
  return self->copies[phase == ORTRAIN_PHASE_UPDATE];
}

static OrtrainValue *
add_copy (Copies *self, OrtrainValue *value, OrtrainNode *before, OrtrainPhase phase, GError **error)
{
  const gboolean turns = self->double_buffers_inputs && value->kind == ORTRAIN_VALUE_INPUT && value->on_host &&
                         value->tensor == NULL && phase == ORTRAIN_PHASE_FORWARD;
  const guint n_places = turns ? 2 : 1;
  OrtrainNode *copy =
      ortrain_graph_insert_node (self->graph, before, ORTRAIN_DOMAIN, "Copy", value->name, &value, 1, n_places);
  copy->phase = phase;
  if (!ortrain_ops_infer_node (copy, error))
    return NULL;
  for (guint k = 0; k < n_places; k++)
    {
      ortrain_node_output (copy, k)->on_host = !value->on_host;
      if (turns) /* nothing else may lie there at any time of a step */
        ortrain_graph_mark_output (self->graph, ortrain_node_output (copy, k), TRUE);
    }
  OrtrainValue *there = ortrain_node_output (copy, 0);
  g_hash_table_insert (copies_of (self, phase), value, there);
  return there;
}

/* Contents that never change: the host has them, and the device gets its own when the memory of a plan is taken. */
static gboolean
is_constant (const OrtrainValue *value)
{
  return value->tensor != NULL && value->role != ORTRAIN_ROLE_PARAMETER && value->role != ORTRAIN_ROLE_BUFFER;
}

static OrtrainValue *
add_host_constant (Copies *self, OrtrainValue *value)
{
  g_autofree char *name = g_strdup_printf ("%s@host", value->name);
  OrtrainValue *constant = ortrain_graph_new_initializer (self->graph, name, value->tensor);
  constant->on_host = TRUE;
  g_hash_table_insert (self->copies[0], value, constant);
  g_hash_table_insert (self->copies[1], value, constant);
  return constant;
}

static gboolean
copy_operands (Copies *self, OrtrainNode *node, GError **error)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL || value->on_host == (node->on_host ? 1 : 0))
        continue;
      OrtrainValue *there = g_hash_table_lookup (copies_of (self, node->phase), value);
      if (there == NULL && is_constant (value))
        there = add_host_constant (self, value);
      else if (there == NULL)
        {
          const gboolean is_feed = value->kind == ORTRAIN_VALUE_INPUT && node->phase == ORTRAIN_PHASE_BACKWARD;
          there = add_copy (self, value, node, is_feed ? ORTRAIN_PHASE_FORWARD : node->phase, error);
        }
      if (there == NULL)
        return FALSE;
      ortrain_node_set_input (node, i, there);
    }
  return TRUE;
}

/* The copy takes the output's name and its role in the session. If the copy is on the device, it stays there from step
 * to step: all other nodes read it. */
static gboolean
copy_output (Copies *self, OrtrainValue *output, GError **error)
{
  const OrtrainPhase phase = output->producer != NULL ? output->producer->phase : ORTRAIN_PHASE_FORWARD;
  g_autofree char *name = g_strdup (output->name);
  OrtrainNode *after = output->producer != NULL ? ortrain_graph_next_node (self->graph, output->producer) : NULL;
  OrtrainValue *there = add_copy (self, output, after, phase, error);
  if (there == NULL)
    return FALSE;
  ortrain_graph_replace_output (self->graph, output, there);
  for (guint u = output->uses.n; u-- > 0 && !there->on_host;)
    {
      const OrtrainUse use = output->uses.items[u];
      if (use.node != there->producer)
        ortrain_node_set_input (use.node, use.index, there);
    }
  if (output->kind == ORTRAIN_VALUE_COMPUTED)
    {
      ortrain_value_rename (output, NULL);
      ortrain_value_rename (there, name);
      there->role = output->role;
      there->partner = output->partner;
      output->role = ORTRAIN_ROLE_NONE;
      output->partner = NULL;
    }
  return TRUE;
}

/* Whether the output is copied to the other memory. An output that no node computes is copied after the steps, from
 * wherever it is. */
static gboolean
moves (const OrtrainValue *output, gboolean training, GHashTable *on_device)
{
  if (output->kind == ORTRAIN_VALUE_INPUT || output->tensor != NULL)
    return FALSE;
  const gboolean stays = g_hash_table_contains (on_device, output) || output->role == ORTRAIN_ROLE_GRADIENT ||
                         output->role == ORTRAIN_ROLE_UPDATE;
  return output->on_host ? stays : !stays && !training;
}

gboolean
ortrain_insert_copies (OrtrainGraph *graph, gboolean training, gboolean double_buffers_inputs, GHashTable *on_device,
                       GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL), update_copies = g_hash_table_new (NULL, NULL);
  Copies self = { graph, { copies, update_copies }, double_buffers_inputs };
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (graph->outputs, NULL, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      OrtrainValue *input = graph->inputs->pdata[i];
      input->on_host =
          input->kind == ORTRAIN_VALUE_INPUT && input->tensor == NULL && !g_hash_table_contains (on_device, input);
    }
  for (guint n = 0; n < nodes->len; n++)
    {
      const OrtrainNode *node = nodes->pdata[n];
      for (guint k = 0; k < node->outputs->len && node->on_host; k++)
        if (node->outputs->pdata[k] != NULL)
          ((OrtrainValue *) node->outputs->pdata[k])->on_host = TRUE;
    }
  for (guint k = 0; k < outputs->len; k++)
    {
      OrtrainValue *output = outputs->pdata[k];
      if (moves (output, training, on_device) && !copy_output (&self, output, error))
        return FALSE;
    }
  for (guint n = 0; n < nodes->len; n++)
    if (!copy_operands (&self, nodes->pdata[n], error))
      return FALSE;
  return TRUE;
}
