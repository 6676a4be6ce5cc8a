/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

/* One value instead of another: its readers, and, if it is an output of the graph, its position in the list and its
 * name. This takes both edges and nodes. */

void
ortrain_value_replace_uses (OrtrainValue *self, OrtrainValue *replacement)
{
  if (self == replacement)
    return;
  while (self->uses.n > 0)
    {
      OrtrainUse use = self->uses.items[self->uses.n - 1];
      ortrain_node_set_input (use.node, use.index, replacement);
    }
  if (replacement->declaration == NULL)
    replacement->declaration = g_steal_pointer (&self->declaration);
  if (!self->is_output)
    {
      /* a loss may name any value of the file */
      if (self->is_named && !replacement->is_named && replacement->kind == ORTRAIN_VALUE_COMPUTED)
        {
          g_autofree char *moved = g_strdup (self->name);
          ortrain_value_rename (self, NULL);
          ortrain_value_rename (replacement, moved);
        }
      return;
    }
  /* The graph's output keeps its position and its name, unless the replacement is one that others know by its own
   * name. */
  OrtrainGraph *graph = self->graph;
  if (replacement->is_output || replacement->kind != ORTRAIN_VALUE_COMPUTED)
    {
      OrtrainNode *node = ortrain_graph_new_node (graph, "", "Identity", NULL, &replacement, 1, 1);
      OrtrainValue *copy = ortrain_node_output (node, 0);
      ortrain_value_set_shape (copy, replacement->dtype, replacement->dims, replacement->rank);
      if (self->producer != NULL)
        node->phase = self->producer->phase;
      replacement = copy;
    }
  g_autofree char *name = g_strdup (self->name);
  ortrain_graph_replace_output (graph, self, replacement);
  if (replacement->role == ORTRAIN_ROLE_NONE)
    {
      replacement->role = self->role;
      replacement->partner = self->partner;
      self->role = ORTRAIN_ROLE_NONE;
    }
  ortrain_value_rename (self, NULL);
  ortrain_value_rename (replacement, name);
}
