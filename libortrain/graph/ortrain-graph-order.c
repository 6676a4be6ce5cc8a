/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

#include <string.h>

/* Dependencies: the order of the nodes, and which of them no output needs. */

/* Values of the outer graph that the bodies of a node read: names that a body uses and does not define. Whether it has
 * bodies. */
static gboolean
visit_captures (OrtrainNode *node, OrtrainGraph *outer, guint depth, void (*func) (OrtrainValue *, gpointer),
                gpointer data)
{
  gboolean has_body = FALSE;
  if (depth > 64)
    return TRUE;
  for (guint i = 0; i < ortrain_attributes_get_n (node->attributes); i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_get_nth (node->attributes, i);
      guint n = a->kind == ORTRAIN_ATTRIBUTE_GRAPH ? 1 : a->kind == ORTRAIN_ATTRIBUTE_GRAPHS ? (guint) a->n : 0;
      for (guint g = 0; g < n; g++)
        {
          GObject *object = a->kind == ORTRAIN_ATTRIBUTE_GRAPH ? a->v.g : a->v.graphs[g];
          if (!ORTRAIN_IS_GRAPH (object))
            continue;
          OrtrainGraph *body = ORTRAIN_GRAPH (object);
          has_body = TRUE;
          for (guint v = 0; v < body->values->len; v++)
            {
              OrtrainValue *inner = body->values->pdata[v];
              if (inner->kind != ORTRAIN_VALUE_COMPUTED || inner->producer != NULL)
                continue;
              OrtrainValue *captured = g_hash_table_lookup (outer->by_name, inner->name);
              if (captured != NULL)
                func (captured, data);
            }
          for (guint k = 0; k < body->nodes->len; k++)
            visit_captures (body->nodes->pdata[k], outer, depth + 1, func, data);
        }
    }
  return has_body;
}

static void
collect_producer (OrtrainValue *value, gpointer data)
{
  if (value->producer != NULL)
    g_ptr_array_add (data, value->producer);
}

enum
{
  MARK_NEW,
  MARK_OPEN,
  MARK_DONE
};

/* Most graphs are, and this takes no memory. */
static gboolean
is_sorted (OrtrainGraph *self, GPtrArray *captured)
{
  gboolean has_bodies = FALSE;
  for (guint i = 0; i < self->nodes->len; i++)
    ((OrtrainNode *) self->nodes->pdata[i])->mark = MARK_NEW;
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      for (guint k = 0; k < node->inputs->len; k++)
        {
          const OrtrainValue *input = node->inputs->pdata[k];
          if (input != NULL && input->producer != NULL && input->producer->mark != MARK_DONE)
            return FALSE;
        }
      g_ptr_array_set_size (captured, 0);
      has_bodies |= visit_captures (node, self, 0, collect_producer, captured);
      for (guint k = 0; k < captured->len; k++)
        if (((OrtrainNode *) captured->pdata[k])->mark != MARK_DONE)
          return FALSE;
      node->mark = MARK_DONE;
    }
  self->is_sorted = !has_bodies;
  return TRUE;
}

/* Depth first from each node in its old order, without recursion: a node follows its producers, and an order that was
 * valid stays as it is. */
gboolean
ortrain_graph_sort (OrtrainGraph *self, GError **error)
{
  g_return_val_if_fail (self->edit == NULL, FALSE);
  guint n = self->nodes->len;
  if (self->is_sorted)
    return TRUE;
  g_autoptr (GPtrArray) captured = g_ptr_array_new ();
  if (is_sorted (self, captured))
    return TRUE;
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (n);
  g_autoptr (GPtrArray) stack = g_ptr_array_new ();
  for (guint i = 0; i < n; i++)
    ((OrtrainNode *) self->nodes->pdata[i])->mark = MARK_NEW;

  for (guint i = 0; i < n; i++)
    {
      g_ptr_array_add (stack, self->nodes->pdata[i]);
      while (stack->len > 0)
        {
          OrtrainNode *node = stack->pdata[stack->len - 1];
          if (node->mark == MARK_DONE)
            {
              g_ptr_array_set_size (stack, (gint) stack->len - 1);
              continue;
            }
          gboolean ready = TRUE;
          node->mark = MARK_OPEN;
          g_ptr_array_set_size (captured, 0);
          visit_captures (node, self, 0, collect_producer, captured);
          /* pushed in reverse, so that the first input's producer is visited first */
          for (guint k = node->inputs->len + captured->len; k-- > 0;)
            {
              OrtrainNode *producer;
              if (k >= node->inputs->len)
                producer = captured->pdata[k - node->inputs->len];
              else
                {
                  OrtrainValue *input = node->inputs->pdata[k];
                  producer = input != NULL ? input->producer : NULL;
                }
              if (producer == NULL || producer->mark == MARK_DONE)
                continue;
              if (producer->mark == MARK_OPEN)
                {
                  /* It waits below us on the stack: it reads one of our outputs. */
                  g_autofree char *text = ortrain_node_describe (node);
                  g_autofree char *other = ortrain_node_describe (producer);
                  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_CYCLE,
                               "The graph has a cycle through %s and %s", text, other);
                  return FALSE;
                }
              g_ptr_array_add (stack, producer);
              ready = FALSE;
            }
          if (ready)
            {
              node->mark = MARK_DONE;
              g_ptr_array_add (sorted, node);
              g_ptr_array_set_size (stack, (gint) stack->len - 1);
            }
        }
    }
  if (n > 0)
    memcpy (self->nodes->pdata, sorted->pdata, n * sizeof (gpointer));
  return TRUE;
}

static void
mark_value (OrtrainValue *value, gpointer data)
{
  ((gboolean *) data)[value->id] = TRUE;
}

gboolean
ortrain_node_is_needed (const OrtrainNode *self, const gboolean *needed)
{
  for (guint k = 0; k < self->outputs->len; k++)
    {
      const OrtrainValue *output = self->outputs->pdata[k];
      if (output != NULL && needed[output->id])
        return TRUE;
    }
  return FALSE;
}

gboolean *
ortrain_graph_find_needed (OrtrainGraph *self, OrtrainValue *const *values, guint n_values)
{
  gboolean *needed = g_new0 (gboolean, self->values->len + 1);
  for (guint i = 0; i < n_values; i++)
    needed[values[i]->id] = TRUE;
  for (guint i = self->nodes->len; i-- > 0;)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      const gboolean live = ortrain_node_is_needed (node, needed);
      for (guint k = 0; k < node->inputs->len && live; k++)
        if (node->inputs->pdata[k] != NULL)
          needed[((OrtrainValue *) node->inputs->pdata[k])->id] = TRUE;
      if (live)
        visit_captures (node, self, 0, mark_value, needed);
    }
  return needed;
}

typedef struct
{
  const guint *first; /* by ids */
  guint found;
} FirstMarked;

static void
take_first (OrtrainValue *value, gpointer data)
{
  FirstMarked *search = data;
  search->found = MIN (search->found, search->first[value->id]);
}

guint *
ortrain_graph_find_first_marked (OrtrainGraph *self, const gboolean *marked)
{
  guint *first = g_new (guint, self->values->len + 1);
  for (guint i = 0; i < self->values->len; i++)
    first[i] = G_MAXUINT;
  for (guint t = 0; t < self->nodes->len; t++)
    {
      OrtrainNode *node = self->nodes->pdata[t];
      FirstMarked search = { first, marked[t] ? t : G_MAXUINT };
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL)
          take_first (node->inputs->pdata[i], &search);
      visit_captures (node, self, 0, take_first, &search);
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          first[((OrtrainValue *) node->outputs->pdata[k])->id] = search.found;
    }
  return first;
}

guint
ortrain_graph_remove_dead (OrtrainGraph *self)
{
  if (!ortrain_graph_sort (self, NULL))
    return 0;
  g_autofree gboolean *needed =
      ortrain_graph_find_needed (self, (OrtrainValue *const *) self->outputs->pdata, self->outputs->len);
  /* ids move when nodes go: first all that is to go is marked */
  guint n_dead = 0;
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      node->mark = ortrain_node_is_needed (node, needed);
      n_dead += !node->mark;
    }
  g_autofree gboolean *dead = g_new (gboolean, self->initializers->len + 1);
  for (guint i = 0; i < self->initializers->len; i++)
    {
      const OrtrainValue *value = self->initializers->pdata[i];
      dead[i] = !needed[value->id] && value->role != ORTRAIN_ROLE_PARAMETER && value->role != ORTRAIN_ROLE_BUFFER;
    }
  if (n_dead > 0)
    {
      g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (self);
      for (guint i = self->nodes->len; i-- > 0;)
        if (((OrtrainNode *) self->nodes->pdata[i])->mark == FALSE)
          ortrain_graph_delete_node (self, self->nodes->pdata[i]);
    }

  ortrain_graph_delete_initializers (self, dead);
  return n_dead;
}
