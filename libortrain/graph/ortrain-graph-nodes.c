/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

#include <string.h>

/* The list of nodes. Passes insert and delete a node at a time, and a model may have a hundred thousand: while a graph
 * is edited, its order is a linked list, which becomes the array again at the end. */

typedef struct
{
  OrtrainNode *node; /* owned: by the array, if it was there at the beginning */
  guint32 previous, next;
} Link;

struct _OrtrainGraphEdit
{
  OrtrainGraph *graph;
  GArray *links; /* of Link; the first stands for both ends */
  guint depth;
  gboolean deleted;
};

static Link *
get_link (OrtrainGraphEdit *edit, guint32 link_index)
{
  return &g_array_index (edit->links, Link, link_index);
}

static void
link_before (OrtrainGraphEdit *edit, guint32 next, OrtrainNode *node)
{
  const guint32 link_index = edit->links->len, previous = get_link (edit, next)->previous;
  Link link = { node, previous, next };
  g_array_append_val (edit->links, link);
  get_link (edit, previous)->next = link_index;
  get_link (edit, next)->previous = link_index;
  node->link_index = link_index;
}

OrtrainGraphEdit *
ortrain_graph_begin_edit (OrtrainGraph *self)
{
  if (self->edit == NULL)
    {
      OrtrainGraphEdit *edit = g_new0 (OrtrainGraphEdit, 1);
      Link ends = { NULL, 0, 0 };
      edit->graph = self;
      edit->links = g_array_sized_new (FALSE, FALSE, sizeof (Link), self->nodes->len + 1);
      g_array_append_val (edit->links, ends);
      for (guint i = 0; i < self->nodes->len; i++)
        link_before (edit, 0, self->nodes->pdata[i]);
      self->edit = edit;
    }
  self->edit->depth++;
  return self->edit;
}

void
ortrain_graph_end_edit (OrtrainGraphEdit *edit)
{
  OrtrainGraph *graph = edit->graph;
  if (--edit->depth > 0)
    return;
  graph->edit = NULL;
  const guint n = edit->links->len;
  g_autoptr (GPtrArray) deleted = g_ptr_array_new_with_free_func (g_object_unref);
  g_ptr_array_set_free_func (graph->nodes, NULL);
  g_ptr_array_set_size (graph->nodes, 0);
  g_ptr_array_set_free_func (graph->nodes, g_object_unref);
  for (guint32 link_index = get_link (edit, 0)->next; link_index != 0; link_index = get_link (edit, link_index)->next)
    g_ptr_array_add (graph->nodes, get_link (edit, link_index)->node);
  for (guint32 link_index = 1; edit->deleted && link_index < n; link_index++)
    {
      OrtrainNode *node = get_link (edit, link_index)->node;
      if (node->graph != graph)
        g_ptr_array_add (deleted, node);
      else if (node->recomputes != NULL && node->recomputes->graph != graph)
        node->recomputes = NULL;
    }
  g_array_unref (edit->links);
  g_free (edit);
}

OrtrainNode *
ortrain_graph_next_node (OrtrainGraph *self, const OrtrainNode *node)
{
  return get_link (self->edit, get_link (self->edit, node != NULL ? node->link_index : 0)->next)->node;
}

OrtrainNode *
ortrain_graph_insert_node (OrtrainGraph *self, OrtrainNode *before, const char *domain, const char *op_type,
                           const char *name, OrtrainValue *const *inputs, guint n_inputs, guint n_outputs)
{
  OrtrainNode *node = g_object_new (ORTRAIN_TYPE_NODE, NULL);
  node->graph = self;
  ortrain_node_set_name (node, name);
  ortrain_node_set_operator (node, domain, op_type);
  node->number = self->next_number++;
  self->is_sorted = FALSE;
  if (before != NULL)
    node->scope = before->scope;
  for (guint i = 0; i < n_inputs; i++)
    ortrain_node_set_input (node, i, inputs[i]);
  if (self->edit != NULL)
    link_before (self->edit, before != NULL ? before->link_index : 0, node);
  else
    {
      guint position;
      if (before == NULL || !g_ptr_array_find (self->nodes, before, &position))
        position = self->nodes->len;
      g_ptr_array_insert (self->nodes, (gint) position, node);
    }
  ortrain_node_set_n_outputs (node, n_outputs);
  return node;
}

OrtrainNode *
ortrain_graph_new_node (OrtrainGraph *self, const char *domain, const char *op_type, const char *name,
                        OrtrainValue *const *inputs, guint n_inputs, guint n_outputs)
{
  return ortrain_graph_insert_node (self, NULL, domain, op_type, name, inputs, n_inputs, n_outputs);
}

OrtrainNode *
ortrain_graph_copy_node (OrtrainGraph *self, const OrtrainNode *source)
{
  OrtrainNode *node = g_object_new (ORTRAIN_TYPE_NODE, NULL);
  node->graph = self;
  ortrain_node_set_name (node, source->name);
  ortrain_node_copy_operator (node, source);
  ortrain_attributes_assign (node->attributes, source->attributes);
  g_set_object (&node->body, source->body);
  node->scope = source->scope;
  node->op = source->op;
  node->phase = source->phase;
  node->on_host = source->on_host;
  node->is_update = source->is_update;
  node->number = source->number;
  g_ptr_array_add (self->nodes, node);
  self->is_sorted = FALSE;
  return node;
}

void
ortrain_graph_delete_node (OrtrainGraph *self, OrtrainNode *node)
{
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (self);
  for (guint i = 0; i < node->inputs->len; i++)
    ortrain_node_set_input (node, i, NULL);
  for (guint i = 0; i < node->outputs->len; i++)
    ortrain_node_drop_output (node, i);
  const Link link = *get_link (edit, node->link_index);
  get_link (edit, link.previous)->next = link.next;
  get_link (edit, link.next)->previous = link.previous;
  node->graph = NULL;
  edit->deleted = TRUE;
}
