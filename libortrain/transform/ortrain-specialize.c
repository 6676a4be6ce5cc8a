/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-specialize-private.h"

#include "ops/ortrain-op-private.h"

#include <string.h>

/* From inputs whose elements decide shapes, backwards to all values that they are computed from. Shape and Size end the
 * walk: they read no elements. */
static gboolean *
find_host_values (OrtrainGraph *graph)
{
  gboolean *host = g_new0 (gboolean, graph->values->len + 1);
  for (guint n = graph->nodes->len; n-- > 0;)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (node->op == NULL)
        continue;
      gboolean decides = FALSE;
      for (guint k = 0; k < node->outputs->len && !decides; k++)
        decides = node->outputs->pdata[k] != NULL && host[((OrtrainValue *) node->outputs->pdata[k])->id];
      for (guint i = 0; i < node->inputs->len; i++)
        {
          OrtrainValue *input = node->inputs->pdata[i];
          if (input == NULL || (node->op->flags & ORTRAIN_OP_SHAPE_ONLY))
            continue;
          if (decides || (i < 32 && (node->op->host_inputs >> i & 1)))
            host[input->id] = TRUE;
        }
    }
  return host;
}

static gboolean *
find_host_nodes (OrtrainGraph *graph)
{
  g_autofree gboolean *host = find_host_values (graph);
  gboolean *nodes = g_new0 (gboolean, graph->nodes->len + 1);
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      for (guint k = 0; k < node->outputs->len && !nodes[n]; k++)
        nodes[n] = node->outputs->pdata[k] != NULL && host[((OrtrainValue *) node->outputs->pdata[k])->id];
    }
  return nodes;
}

GPtrArray *
ortrain_specialize_find_deciding_inputs (OrtrainGraph *graph)
{
  GPtrArray *inputs = g_ptr_array_new ();
  if (!ortrain_graph_sort (graph, NULL))
    return inputs;
  g_autofree gboolean *host = find_host_values (graph);
  for (guint i = 0; i < graph->inputs->len; i++)
    if (host[((OrtrainValue *) graph->inputs->pdata[i])->id])
      g_ptr_array_add (inputs, graph->inputs->pdata[i]);
  return inputs;
}

/* The symbols of the declared shapes get their values from the first input that has them. */
static gboolean
bind_input (OrtrainValue *value, const OrtrainSpecializeInput *input, GHashTable *symbols, GError **error)
{
  if (value->dtype != ORTRAIN_DTYPE_UNDEFINED && value->dtype != input->dtype)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is %s, the model wants %s",
                   value->name, ortrain_dtype_get_name (input->dtype), ortrain_dtype_get_name (value->dtype));
      return FALSE;
    }
  g_autofree char *wanted = ortrain_dims_to_string (value->dims, value->rank);
  g_autofree char *found = ortrain_shape_to_string (input->dims, input->rank);
  if (value->rank >= 0 && (guint) value->rank != input->rank)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Input '%s' has the shape %s, the model wants %s", value->name, found, wanted);
      return FALSE;
    }
  for (gint i = 0; i < value->rank; i++)
    {
      const char *symbol;
      gint64 expected = value->dims[i].value;
      gboolean fits = TRUE;
      if (ortrain_dim_is_int (value->dims[i]))
        fits = expected == input->dims[i];
      else if (ortrain_dim_is_symbol (value->dims[i], &symbol))
        {
          const gint64 *known = g_hash_table_lookup (symbols, symbol);
          if (known == NULL)
            g_hash_table_insert (symbols, g_strdup (symbol), g_memdup2 (&input->dims[i], sizeof (gint64)));
          else
            {
              fits = *known == input->dims[i];
              expected = *known;
            }
        }
      if (!fits)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                       "Input '%s' has the shape %s, the model wants %s: dimension %d must be %" G_GINT64_FORMAT,
                       value->name, found, wanted, i, expected);
          return FALSE;
        }
    }
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  for (guint i = 0; i < input->rank; i++)
    dims[i] = ortrain_dim_int (input->dims[i]);
  ortrain_value_set_shape (value, input->dtype, dims, (gint) input->rank);
  ortrain_value_set_content (value, NULL, -1);
  if (input->contents != NULL)
    ortrain_value_set_tensor (value, input->contents);
  return TRUE;
}

static gboolean
check_static (OrtrainNode *node, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      if (output == NULL || (ortrain_value_get_static_dims (output, dims) && output->dtype != ORTRAIN_DTYPE_UNDEFINED))
        continue;
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
                   "%s: the shape of '%s' depends on computed data", text, output->name);
      return FALSE;
    }
  return TRUE;
}

OrtrainGraph *
ortrain_specialize (OrtrainGraph *source, const OrtrainSpecializeInput *inputs, guint n_inputs, GError **error)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_clone (source, NULL);
  if (!ortrain_graph_sort (graph, error))
    return NULL;
  g_autoptr (GHashTable) symbols = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; i < n_inputs; i++)
    {
      OrtrainValue *value = ortrain_graph_find_value (graph, inputs[i].name);
      if (value != NULL && value->kind == ORTRAIN_VALUE_INPUT && !bind_input (value, &inputs[i], symbols, error))
        return NULL;
    }
  gint64 dims[ORTRAIN_MAX_RANK];
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      OrtrainValue *value = graph->inputs->pdata[i];
      if (!ortrain_value_get_static_dims (value, dims))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is missing", value->name);
          return NULL;
        }
    }
  for (guint i = 0; i < graph->values->len; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      if (value->kind != ORTRAIN_VALUE_COMPUTED)
        continue;
      ortrain_value_set_shape (value, ORTRAIN_DTYPE_UNDEFINED, NULL, -1);
      ortrain_value_set_content (value, NULL, -1);
    }
  /* No expression of the source's space is left; what inference makes from here on belongs to this clone alone. */
  ortrain_dim_space_unref (graph->dims);
  graph->dims = ortrain_dim_space_new ();

  g_autofree gboolean *host = find_host_nodes (graph);
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      gboolean folded;
      if (!ortrain_ops_infer_node (node, error) || !check_static (node, error) ||
          !ortrain_fold_node (graph, node, host[i], &folded, error))
        return NULL;
      if (!folded)
        ortrain_eliminate_node (graph, node);
    }
  ortrain_graph_remove_dead (graph);
  return g_steal_pointer (&graph);
}
