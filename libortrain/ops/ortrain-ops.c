/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/ortrain-declarations-private.h"
#include "ops/ortrain-op-check-private.h"
#include "ops/ortrain-op-private.h"

/* Binds the nodes of a graph to the rows of their operators, and infers types and shapes. */

gboolean
ortrain_ops_each_subgraph (OrtrainNode *node, OrtrainSubgraphFunc func, gpointer data, GError **error)
{
  for (guint i = 0; i < ortrain_attributes_get_n (node->attributes); i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_get_nth (node->attributes, i);
      if (a->kind == ORTRAIN_ATTRIBUTE_GRAPH && ORTRAIN_IS_GRAPH (a->v.g))
        {
          if (!func (ORTRAIN_GRAPH (a->v.g), data, error))
            return FALSE;
        }
      else if (a->kind == ORTRAIN_ATTRIBUTE_GRAPHS)
        for (gsize k = 0; k < a->n; k++)
          if (ORTRAIN_IS_GRAPH (a->v.graphs[k]) && !func (ORTRAIN_GRAPH (a->v.graphs[k]), data, error))
            return FALSE;
    }
  return TRUE;
}

/* Operators that no session runs. */
typedef struct
{
  GHashTable *counts;       /* by name */
  OrtrainNode *first;       /* that is unknown */
  OrtrainNode *unsupported; /* the first with a row that says so */
} Unknown;

/* Collects all unknown operators instead of stopping at the first. */
static gboolean
collect_unknown (OrtrainGraph *graph, gpointer data, GError **error)
{
  Unknown *self = data;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      node->op = ortrain_ops_lookup (node->domain, node->op_type);
      if (node->op == NULL && self->first == NULL)
        self->first = node;
      if (node->op != NULL && node->op->unsupported != NULL && self->unsupported == NULL)
        self->unsupported = node;
      if (node->op == NULL || node->op->unsupported != NULL)
        {
          char *key = g_strdup_printf ("%s%s%s", ortrain_text_show (node->domain), node->domain[0] != '\0' ? "::" : "",
                                       ortrain_text_show (node->op_type));
          guint count = GPOINTER_TO_UINT (g_hash_table_lookup (self->counts, key));
          g_hash_table_replace (self->counts, key, GUINT_TO_POINTER (count + 1));
        }
      ortrain_ops_each_subgraph (node, collect_unknown, data, NULL);
    }
  return TRUE;
}

static gboolean
check_arity (OrtrainGraph *graph, gpointer data, GError **error)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (!ortrain_op_check_arity (node, error) ||
          !ortrain_op_check_operands (graph, node, node->op->min_inputs, error) ||
          !ortrain_ops_each_subgraph (node, check_arity, data, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_ops_bind_names (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GHashTable) unknown = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Unknown found = { .counts = unknown };
  collect_unknown (graph, &found, NULL);
  if (g_hash_table_size (unknown) == 0)
    return TRUE;
  g_autoptr (GList) names = g_list_sort (g_hash_table_get_keys (unknown), (GCompareFunc) g_strcmp0);
  g_autoptr (GString) list = g_string_new (NULL);
  for (GList *l = names; l != NULL; l = l->next)
    g_string_append_printf (list, "%s%s (%u)", list->len > 0 ? ", " : "", (char *) l->data,
                            GPOINTER_TO_UINT (g_hash_table_lookup (unknown, l->data)));
  if (found.first != NULL)
    {
      g_autofree char *text = ortrain_node_describe (found.first);
      g_string_append_printf (list, "; the first is %s", text);
    }
  g_autofree char *advice = NULL;
  if (found.unsupported != NULL)
    {
      g_autofree char *text = ortrain_node_describe (found.unsupported);
      advice =
          g_strdup_printf ("; %s: %s; %s", text, found.unsupported->op->unsupported, found.unsupported->op->instead);
    }
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR, "The model has %s operators: %s%s",
               found.first != NULL ? "unknown" : "unsupported", ortrain_text_show_list (list->str),
               advice != NULL ? advice : "");
  return FALSE;
}

static gboolean
check_foreign (OrtrainGraph *graph, gpointer data, GError **error)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (g_str_equal (node->domain, ORTRAIN_DOMAIN))
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR,
                       "%s: operators of the domain " ORTRAIN_DOMAIN
                       " are internal to this library, and not allowed in models",
                       text);
          return FALSE;
        }
      if (!ortrain_ops_each_subgraph (node, check_foreign, data, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_ops_check_foreign (OrtrainGraph *graph, GError **error)
{
  return check_foreign (graph, NULL, error);
}

gboolean
ortrain_ops_bind (OrtrainGraph *graph, GError **error)
{
  return ortrain_ops_bind_names (graph, error) && check_arity (graph, NULL, error);
}

gboolean
ortrain_ops_infer_node (OrtrainNode *node, GError **error)
{
  if (node->op == NULL)
    node->op = ortrain_ops_lookup (node->domain, node->op_type);
  if (node->op == NULL)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR, "Operator %s%s%s is unknown",
                   ortrain_text_show (node->domain), node->domain[0] != '\0' ? "::" : "",
                   ortrain_text_show (node->op_type));
      return FALSE;
    }
  if (!ortrain_op_check_node (node, error))
    return FALSE;
  OrtrainInferContext ctx = { node, node->graph->dims, 0 };
  if (node->op->infer != NULL && !node->op->infer (&ctx, error))
    return FALSE;
  if (ctx.excess_rank > 0)
    return ortrain_infer_fail (&ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the result would have %d dimensions, at most %d are supported", ctx.excess_rank,
                               ORTRAIN_MAX_RANK);
  return ortrain_op_check_outputs (node, error);
}

gboolean
ortrain_ops_infer_declared (OrtrainNode *node, GError **error)
{
  for (guint k = 0; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] != NULL)
      ortrain_value_set_shape (node->outputs->pdata[k], ORTRAIN_DTYPE_UNDEFINED, NULL, -1);
  const gboolean ok = ortrain_ops_infer_node (node, error);
  return ortrain_declarations_apply (node, ok ? error : NULL) && ok;
}

gboolean
ortrain_ops_infer (OrtrainGraph *graph, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_clear_pointer (&graph->known_notes, g_hash_table_unref); /* it has their texts */
  g_clear_pointer (&graph->notes, g_ptr_array_unref);
  graph->n_contradicted = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    if (!ortrain_ops_infer_declared (graph->nodes->pdata[i], error))
      return FALSE;
  ortrain_declarations_note (graph);
  return TRUE;
}

/**
 * ortrain_graph_infer:
 * @self: a graph
 * @error: return location for an error
 *
 * Finds the types and shapes of all values from those of the inputs and initializers.
 *
 * Returns: %FALSE with an error of [error@GraphError] that names the node
 */
gboolean
ortrain_graph_infer (OrtrainGraph *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  return ortrain_ops_bind (self, error) && ortrain_ops_infer (self, error);
}

gboolean
ortrain_node_is_view (const OrtrainNode *node)
{
  const OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (x == NULL || y == NULL || x->dtype != y->dtype)
    return FALSE;
  for (guint k = 1; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] != NULL)
      return FALSE;
  return ortrain_node_has_flag (node, ORTRAIN_OP_VIEW) ||
         (ortrain_node_has_flag (node, ORTRAIN_OP_VIEW_IF_SAME) && ortrain_value_same_shape (x, y));
}
