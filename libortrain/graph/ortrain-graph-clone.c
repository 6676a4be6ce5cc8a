/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

OrtrainGraph *
ortrain_graph_clone (OrtrainGraph *self)
{
  OrtrainGraph *copy = ortrain_graph_new (self->name);
  ortrain_dim_space_unref (copy->dims);
  copy->dims = ortrain_dim_space_ref (self->dims);
  copy->labels = self->labels != NULL ? g_ptr_array_ref (self->labels) : NULL;
  copy->opset = self->opset;
  copy->parent = self->parent;
  copy->next_suffix = self->next_suffix;
  copy->gradients_kept = self->gradients_kept;
  GHashTableIter iter;
  gpointer key, value;
  g_hash_table_iter_init (&iter, self->opsets);
  while (g_hash_table_iter_next (&iter, &key, &value))
    g_hash_table_insert (copy->opsets, g_strdup (key), value);

  g_autofree OrtrainValue **values = g_new (OrtrainValue *, self->values->len + 1);
  for (guint i = 0; i < self->values->len; i++)
    {
      OrtrainValue *source = self->values->pdata[i];
      OrtrainValue *clone = ortrain_graph_take_value (copy, g_strdup (source->name));
      clone->is_named = source->is_named;
      clone->kind = source->kind;
      ortrain_value_set_shape (clone, source->dtype, source->dims, source->rank);
      ortrain_value_set_content (clone, source->content, source->n_content);
      g_set_object (&clone->tensor, source->tensor);
      ortrain_value_set_enclosure (clone, source->enclosure);
      clone->role = source->role;
      clone->on_host = source->on_host;
      clone->relies_on_declaration = source->relies_on_declaration;
      clone->scoped_name = source->scoped_name;
      clone->provenance = source->provenance;
      values[i] = clone;
    }
  for (guint i = 0; i < self->values->len; i++)
    {
      OrtrainValue *source = self->values->pdata[i];
      values[i]->partner =
          source->partner != NULL && source->partner->graph == self ? values[source->partner->id] : NULL;
    }
  GPtrArray *const lists[][2] = { { self->inputs, copy->inputs }, { self->initializers, copy->initializers } };
  for (guint l = 0; l < G_N_ELEMENTS (lists); l++)
    for (guint i = 0; i < lists[l][0]->len; i++)
      g_ptr_array_add (lists[l][1], values[((OrtrainValue *) lists[l][0]->pdata[i])->id]);
  for (guint i = 0; i < self->outputs->len; i++)
    ortrain_graph_mark_output (copy, values[((OrtrainValue *) self->outputs->pdata[i])->id], TRUE);

  g_autoptr (GHashTable) again = g_hash_table_new (NULL, NULL); /* nodes that others recompute → their copies */
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *source = self->nodes->pdata[i];
      OrtrainNode *clone = ortrain_graph_copy_node (copy, source);
      if (source->recomputes != NULL)
        g_hash_table_insert (again, source->recomputes, NULL);
      for (guint k = 0; k < source->inputs->len; k++)
        {
          OrtrainValue *input = source->inputs->pdata[k];
          ortrain_node_set_input (clone, k, input != NULL ? values[input->id] : NULL);
        }
      g_ptr_array_set_size (clone->outputs, (gint) source->outputs->len);
      for (guint k = 0; k < source->outputs->len; k++)
        {
          OrtrainValue *output = source->outputs->pdata[k];
          clone->outputs->pdata[k] = NULL;
          if (output != NULL)
            ortrain_node_set_output (clone, k, values[output->id]);
        }
    }
  const gboolean any = g_hash_table_size (again) > 0;
  for (guint i = 0; any && i < self->nodes->len; i++)
    if (g_hash_table_contains (again, self->nodes->pdata[i]))
      g_hash_table_insert (again, self->nodes->pdata[i], copy->nodes->pdata[i]);
  for (guint i = 0; any && i < self->nodes->len; i++)
    {
      const OrtrainNode *source = self->nodes->pdata[i];
      if (source->recomputes != NULL)
        ((OrtrainNode *) copy->nodes->pdata[i])->recomputes = g_hash_table_lookup (again, source->recomputes);
    }
  copy->next_number = self->next_number;
  return copy;
}

/**
 * ortrain_graph_copy:
 * @self: a graph
 *
 * Copies the graph: nodes and values are new, tensors are shared.
 *
 * Returns: (transfer full): the copy
 */
OrtrainGraph *
ortrain_graph_copy (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return ortrain_graph_clone (self);
}
