/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-control-private.h"

#include "core/ortrain-text-private.h"

/* A branch reads values of the graphs around it by name. While a graph is upgraded, values are replaced, so these
 * become inputs: input 1 + i of the node is input i of both branches. */

OrtrainGraph *
ortrain_control_get_branch (OrtrainNode *node, gboolean taken)
{
  GObject *object = ortrain_attributes_get_graph (node->attributes, taken ? "then_branch" : "else_branch");
  return ORTRAIN_IS_GRAPH (object) ? ORTRAIN_GRAPH (object) : NULL;
}

/* ---- Values of outer graphs that a branch reads ---- */

/* Also one that only a branch inside of this one reads. */
static gboolean
is_captured (const OrtrainValue *value)
{
  return value->kind == ORTRAIN_VALUE_COMPUTED && value->producer == NULL;
}

/* Input `i` of a branch is the outer value that it reads by this name, or nothing. */
static void
add_branch_input (OrtrainGraph *branch, const char *name, const OrtrainValue *outer)
{
  OrtrainValue *inner = ortrain_graph_find_value (branch, name);
  if (inner == NULL || !is_captured (inner))
    inner = ortrain_graph_new_value (branch, NULL);
  inner->kind = ORTRAIN_VALUE_INPUT;
  ortrain_value_set_shape (inner, outer->dtype, outer->dims, outer->rank);
  g_ptr_array_add (branch->inputs, inner);
}

static void
hold_captures_of (OrtrainGraph *graph, OrtrainNode *node)
{
  OrtrainGraph *branches[] = { ortrain_control_get_branch (node, FALSE), ortrain_control_get_branch (node, TRUE) };
  g_autoptr (GHashTable) outer_values = g_hash_table_new (NULL, NULL);
  for (guint b = 0; b < G_N_ELEMENTS (branches); b++)
    for (guint v = 0; branches[b] != NULL && v < branches[b]->values->len; v++)
      {
        OrtrainValue *inner = branches[b]->values->pdata[v];
        OrtrainValue *outer = is_captured (inner) ? ortrain_graph_find_value (graph, inner->name) : NULL;
        if (outer == NULL || !g_hash_table_add (outer_values, outer))
          continue;
        ortrain_node_set_input (node, node->inputs->len, outer);
      }
  for (guint i = 1; i < node->inputs->len; i++)
    for (guint b = 0; b < G_N_ELEMENTS (branches); b++)
      if (branches[b] != NULL)
        add_branch_input (branches[b], ortrain_node_input (node, i)->name, ortrain_node_input (node, i));
}

void
ortrain_control_hold_captures (OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      OrtrainGraph *taken = ortrain_control_get_branch (node, TRUE), *other = ortrain_control_get_branch (node, FALSE);
      const gboolean as_in_file = node->inputs->len == 1 && (taken == NULL || taken->inputs->len == 0) &&
                                  (other == NULL || other->inputs->len == 0) && taken != other;
      if (ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL) && as_in_file)
        hold_captures_of (graph, node);
    }
}

/* ---- The branch in the node's place ---- */

static OrtrainValue *
find_here (OrtrainGraph *graph, OrtrainValue *inner, GHashTable *map)
{
  OrtrainValue *here = inner != NULL ? g_hash_table_lookup (map, inner) : NULL;
  if (here == NULL && inner != NULL && inner->kind == ORTRAIN_VALUE_INITIALIZER)
    {
      here = ortrain_graph_new_initializer (graph, inner->name, inner->tensor);
      here->role = inner->role;
      ortrain_value_set_enclosure (here, inner->enclosure);
      g_hash_table_insert (map, inner, here);
    }
  return here;
}

static OrtrainNode *
copy_node (OrtrainGraph *graph, OrtrainNode *before, OrtrainNode *inner, GHashTable *map, GError **error)
{
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  for (guint i = 0; i < inner->inputs->len; i++)
    {
      OrtrainValue *value = find_here (graph, inner->inputs->pdata[i], map);
      if (value == NULL && inner->inputs->pdata[i] != NULL)
        {
          g_autofree char *text = ortrain_node_describe (inner);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "%s reads '%s', which no node computes",
                       text, ortrain_text_show (((OrtrainValue *) inner->inputs->pdata[i])->name));
          return NULL;
        }
      g_ptr_array_add (inputs, value);
    }
  OrtrainNode *copy =
      ortrain_graph_insert_node (graph, before, inner->domain, inner->op_type, inner->name,
                                 (OrtrainValue *const *) inputs->pdata, inputs->len, inner->outputs->len);
  ortrain_attributes_assign (copy->attributes, inner->attributes);
  copy->op = inner->op;
  copy->phase = before->phase;
  for (guint k = 0; k < inner->outputs->len; k++)
    if (inner->outputs->pdata[k] == NULL)
      ortrain_node_drop_output (copy, k);
    else
      g_hash_table_insert (map, inner->outputs->pdata[k], ortrain_node_output (copy, k));
  return copy;
}

GPtrArray *
ortrain_control_take_branch (OrtrainGraph *graph, OrtrainNode *node, gboolean taken, GError **error)
{
  OrtrainGraph *branch = ortrain_control_get_branch (node, taken);
  g_autoptr (GHashTable) map = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) added = g_ptr_array_new_with_free_func (g_object_unref);
  if (branch == NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s has no %s", text,
                   taken ? "then_branch" : "else_branch");
      return NULL;
    }
  for (guint i = 0; i < branch->inputs->len; i++)
    g_hash_table_insert (map, branch->inputs->pdata[i], ortrain_node_input (node, i + 1));
  for (guint n = 0; n < branch->nodes->len; n++)
    {
      OrtrainNode *copy = copy_node (graph, node, branch->nodes->pdata[n], map, error);
      if (copy == NULL)
        return NULL;
      g_ptr_array_add (added, g_object_ref (copy));
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = ortrain_node_output (node, k);
      OrtrainValue *here = k < branch->outputs->len ? find_here (graph, branch->outputs->pdata[k], map) : NULL;
      if (output == NULL)
        continue;
      if (here == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY, "%s: its %s has no output %u", text,
                       taken ? "then_branch" : "else_branch", k);
          return NULL;
        }
      /* an output of the graph keeps its name, and a branch may give one value twice */
      here = ortrain_upgrade_insert (graph, node, "Identity", &here, 1, NULL);
      here->producer->phase = node->phase;
      g_ptr_array_add (added, g_object_ref (here->producer));
      ortrain_value_replace_uses (output, here);
    }
  ortrain_graph_delete_node (graph, node);
  return g_steal_pointer (&added);
}
