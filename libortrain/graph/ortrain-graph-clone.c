/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

OrtrainGraph *
ortrain_graph_clone (OrtrainGraph *self, OrtrainGraphMap *map)
{
  OrtrainGraph *copy = ortrain_graph_new (self->name);
  ortrain_dim_space_unref (copy->dims);
  copy->dims = ortrain_dim_space_ref (self->dims);
  copy->opset = self->opset;
  copy->parent = self->parent;
  copy->next_suffix = self->next_suffix;
  GHashTableIter iter;
  gpointer key, value;
  g_hash_table_iter_init (&iter, self->opsets);
  while (g_hash_table_iter_next (&iter, &key, &value))
    g_hash_table_insert (copy->opsets, g_strdup (key), value);

  g_autofree OrtrainValue **values = g_new (OrtrainValue *, self->values->len + 1);
  for (guint i = 0; i < self->values->len; i++)
    {
      OrtrainValue *from = self->values->pdata[i];
      OrtrainValue *to = ortrain_graph_new_value (copy, from->name);
      to->is_named = from->is_named;
      to->kind = from->kind;
      ortrain_value_set_shape (to, from->dtype, from->dims, from->rank);
      ortrain_value_set_content (to, from->content, from->n_content);
      g_set_object (&to->tensor, from->tensor);
      ortrain_value_set_enclosure (to, from->enclosure);
      to->role = from->role;
      to->relies_on_declaration = from->relies_on_declaration;
      values[i] = to;
    }
  for (guint i = 0; i < self->values->len; i++)
    {
      OrtrainValue *from = self->values->pdata[i];
      values[i]->partner = from->partner != NULL && from->partner->graph == self ? values[from->partner->id] : NULL;
    }
  GPtrArray *const lists[][2] = { { self->inputs, copy->inputs }, { self->initializers, copy->initializers } };
  for (guint l = 0; l < G_N_ELEMENTS (lists); l++)
    for (guint i = 0; i < lists[l][0]->len; i++)
      g_ptr_array_add (lists[l][1], values[((OrtrainValue *) lists[l][0]->pdata[i])->id]);
  for (guint i = 0; i < self->outputs->len; i++)
    ortrain_graph_mark_output (copy, values[((OrtrainValue *) self->outputs->pdata[i])->id], TRUE);

  g_autoptr (GHashTable) nodes = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *from = self->nodes->pdata[i];
      OrtrainNode *to = ortrain_graph_new_node (copy, from->domain, from->op_type, from->name, NULL, 0, 0);
      for (guint k = 0; k < from->inputs->len; k++)
        {
          OrtrainValue *input = from->inputs->pdata[k];
          ortrain_node_set_input (to, k, input != NULL ? values[input->id] : NULL);
        }
      g_ptr_array_set_size (to->outputs, (gint) from->outputs->len);
      for (guint k = 0; k < from->outputs->len; k++)
        {
          OrtrainValue *output = from->outputs->pdata[k];
          to->outputs->pdata[k] = NULL;
          if (output != NULL)
            ortrain_node_set_output (to, k, values[output->id]);
        }
      ortrain_attributes_free (to->attributes);
      to->attributes = ortrain_attributes_copy (from->attributes);
      g_set_object (&to->body, from->body);
      to->op = from->op;
      to->phase = from->phase;
      to->number = from->number;
      g_hash_table_insert (nodes, from, to);
    }
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *from = self->nodes->pdata[i];
      if (from->recomputes != NULL)
        ((OrtrainNode *) copy->nodes->pdata[i])->recomputes = g_hash_table_lookup (nodes, from->recomputes);
    }
  copy->next_number = self->next_number;

  if (map != NULL)
    {
      map->nodes = g_steal_pointer (&nodes);
      map->values = g_hash_table_new (NULL, NULL);
      for (guint i = 0; i < self->values->len; i++)
        g_hash_table_insert (map->values, self->values->pdata[i], values[i]);
    }
  return copy;
}

/**
 * ortrain_graph_copy:
 * @self: a graph
 *
 * Copies the graph. Tensors are shared, nodes and values are new.
 *
 * Returns: (transfer full): the copy
 */
OrtrainGraph *
ortrain_graph_copy (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return ortrain_graph_clone (self, NULL);
}
