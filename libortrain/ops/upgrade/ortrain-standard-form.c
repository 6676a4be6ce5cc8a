/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-standard-form-private.h"

#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-control-private.h"

/* Before this set, forms of nodes differ from those that rows describe in more than the types that they take. */
#define FIRST_SET 21
/* The set of the rows, which has bfloat16 for all operators. */
#define ROWS_SET 23

static gboolean
restore (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      gboolean restored;
      if (!ortrain_body_restore (node, &restored, error))
        return FALSE;
      if (restored || !g_str_equal (node->domain, ORTRAIN_DOMAIN))
        continue;
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR,
                   "%s: the operator is internal to this library, and cannot be written as operators of ONNX", text);
      return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}

/* ---- branches ---- */

static gboolean
is_taken (const OrtrainGraph *graph, const char *name)
{
  for (; graph != NULL; graph = graph->parent)
    if (g_hash_table_contains (graph->by_name, name))
      return TRUE;
  return FALSE;
}

/* Its own values get names that no value around it has. */
static void
rename_values (OrtrainGraph *branch)
{
  for (guint i = 0; i < branch->values->len; i++)
    {
      OrtrainValue *value = branch->values->pdata[i];
      g_autofree char *name = g_strdup (value->name);
      for (guint n = 1; is_taken (branch->parent, name) || (n > 1 && is_taken (branch, name)); n++)
        {
          g_free (name);
          name = g_strdup_printf ("%s.inner%u", value->name, n);
        }
      if (!g_str_equal (name, value->name))
        ortrain_value_rename (value, name);
    }
}

/* It reads its inputs by the names of the values around it. */
static void
release_inputs (OrtrainGraph *branch, const OrtrainNode *node)
{
  for (guint i = 0; i < branch->inputs->len; i++)
    {
      OrtrainValue *inner = branch->inputs->pdata[i];
      if (inner->is_output)
        {
          OrtrainNode *copy = ortrain_graph_new_node (branch, "", "Identity", NULL, &inner, 1, 1);
          OrtrainValue *output = ortrain_node_output (copy, 0);
          ortrain_value_set_shape (output, inner->dtype, inner->dims, inner->rank);
          ortrain_graph_replace_output (branch, inner, output);
        }
      inner->kind = ORTRAIN_VALUE_COMPUTED;
      ortrain_value_rename (inner, ortrain_node_input (node, i + 1)->name);
    }
  g_ptr_array_set_size (branch->inputs, 0);
}

static gboolean
close_branches (OrtrainGraph *graph, GError **error)
{
  static const char *const names[] = { "else_branch", "then_branch" };
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (!ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL))
        continue;
      for (guint b = 0; b < 2; b++)
        {
          g_autoptr (OrtrainGraph) branch = ortrain_graph_clone (ortrain_control_get_branch (node, b));
          branch->parent = graph;
          if (!restore (branch, error))
            return FALSE;
          rename_values (branch);
          release_inputs (branch, node);
          ortrain_attributes_set_graph (node->attributes, names[b], G_OBJECT (branch));
          if (!close_branches (branch, error))
            return FALSE;
        }
      for (guint i = 1; i < node->inputs->len; i++)
        ortrain_node_set_input (node, i, NULL);
      g_ptr_array_set_size (node->inputs, 1);
    }
  return TRUE;
}

/* ---- names ---- */

/* ONNX Runtime refuses two nodes of the same name. */
static void
rename_nodes (OrtrainGraph *graph, GHashTable *names)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      for (guint b = 0; ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL) && b < 2; b++)
        rename_nodes (ortrain_control_get_branch (node, b), names);
      g_autofree char *name = g_strdup (node->name), *base = g_strdup (node->name);
      guint k = GPOINTER_TO_UINT (g_hash_table_lookup (names, base)); /* how many have had it */
      for (; *name != '\0' && g_hash_table_contains (names, name); k++)
        {
          g_free (name);
          name = g_strdup_printf ("%s.%u", base, k);
        }
      if (k > 0)
        g_hash_table_replace (names, g_steal_pointer (&base), GUINT_TO_POINTER (k));
      if (!g_str_equal (name, node->name))
        ortrain_node_set_name (node, name);
      g_hash_table_insert (names, g_steal_pointer (&name), GUINT_TO_POINTER (1));
    }
}

/* ---- the operator set ---- */

static gint64
find_set (OrtrainGraph *graph)
{
  gint64 set = FIRST_SET;
  for (guint i = 0; i < graph->values->len; i++)
    if (((OrtrainValue *) graph->values->pdata[i])->dtype == ORTRAIN_DTYPE_BFLOAT16)
      set = MAX (set, ROWS_SET);
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (node->op != NULL && *node->domain == '\0')
        set = MAX (set, MAX (node->op->since, node->op->form_since));
      for (guint b = 0; ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL) && b < 2; b++)
        set = MAX (set, find_set (ortrain_control_get_branch (node, b)));
    }
  return set;
}

gboolean
ortrain_ops_to_standard_form (OrtrainGraph *graph, GError **error)
{
  if (!restore (graph, error) || !close_branches (graph, error))
    return FALSE;
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  rename_nodes (graph, names);
  graph->opset = find_set (graph);
  return TRUE;
}
