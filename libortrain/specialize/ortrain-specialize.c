/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "specialize/ortrain-specialize-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-control-private.h"
#include "ops/ortrain-declarations-private.h"

#include <string.h>

static gboolean *find_host_values (OrtrainGraph *graph, gboolean outputs_decide);

/* Inputs of a node with branches whose elements decide shapes in one of them. */
static void
find_host_captures (OrtrainNode *node, gboolean decides, gboolean *host)
{
  for (guint b = 0; b < 2; b++)
    {
      OrtrainGraph *branch = ortrain_control_get_branch (node, b);
      if (branch == NULL)
        continue;
      g_autofree gboolean *inner = find_host_values (branch, decides);
      for (guint i = 0; i < branch->inputs->len; i++)
        if (inner[((OrtrainValue *) branch->inputs->pdata[i])->id])
          host[ortrain_node_input (node, i + 1)->id] = TRUE;
    }
}

/* From inputs whose elements decide shapes, backwards to all values that they are computed from. Shape and Size end the
 * walk: they read no elements. outputs_decide: the graph is a branch whose outputs decide shapes outside of it. */
static gboolean *
find_host_values (OrtrainGraph *graph, gboolean outputs_decide)
{
  gboolean *host = g_new0 (gboolean, graph->values->len + 1);
  for (guint k = 0; outputs_decide && k < graph->outputs->len; k++)
    host[((OrtrainValue *) graph->outputs->pdata[k])->id] = TRUE;
  for (guint n = graph->nodes->len; n-- > 0;)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (node->op == NULL)
        continue;
      gboolean decides = FALSE;
      for (guint k = 0; k < node->outputs->len && !decides; k++)
        decides = node->outputs->pdata[k] != NULL && host[((OrtrainValue *) node->outputs->pdata[k])->id];
      const gboolean control = (node->op->flags & ORTRAIN_OP_CONTROL) != 0;
      for (guint i = 0; i < node->inputs->len; i++)
        {
          OrtrainValue *input = node->inputs->pdata[i];
          if (input == NULL || (node->op->flags & ORTRAIN_OP_SHAPE_ONLY))
            continue;
          if ((decides && !control) || (i < 32 && (node->op->shape_inputs >> i & 1)))
            host[input->id] = TRUE;
        }
      if (control)
        find_host_captures (node, decides, host);
    }
  return host;
}

static gboolean *
find_host_nodes (OrtrainGraph *graph, gboolean outputs_decide)
{
  g_autofree gboolean *host = find_host_values (graph, outputs_decide);
  gboolean *nodes = g_new0 (gboolean, graph->nodes->len + 1);
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      for (guint k = 0; k < node->outputs->len && !nodes[n]; k++)
        nodes[n] = node->outputs->pdata[k] != NULL && host[((OrtrainValue *) node->outputs->pdata[k])->id];
    }
  return nodes;
}

GHashTable *
ortrain_specialize_find_shape_inputs (OrtrainGraph *graph)
{
  GHashTable *inputs = g_hash_table_new (NULL, NULL);
  if (!ortrain_graph_sort (graph, NULL))
    return inputs;
  g_autofree gboolean *host = find_host_values (graph, FALSE);
  for (guint i = 0; i < graph->inputs->len; i++)
    if (host[((OrtrainValue *) graph->inputs->pdata[i])->id])
      g_hash_table_add (inputs, graph->inputs->pdata[i]);
  return inputs;
}

/* Whether a node reads the contents of an input when a plan is made. is_host: its outputs decide shapes */
static gboolean
takes_contents (const OrtrainUse *use, gboolean is_host)
{
  const OrtrainOpDef *op = use->node->op;
  return is_host || op == NULL || (op->flags & ORTRAIN_OP_CONTROL) ||
         (use->index < 32 && (op->shape_inputs >> use->index & 1));
}

OrtrainGraph *
ortrain_specialize_find_deciding (OrtrainGraph *source)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_clone (source);
  if (!ortrain_graph_sort (graph, NULL))
    return NULL;
  g_autofree gboolean *host = find_host_values (graph, FALSE), *nodes = find_host_nodes (graph, FALSE);
  g_autofree gboolean *decides = g_new0 (gboolean, graph->values->len + 1);
  gboolean any = FALSE;
  for (guint n = 0; n < graph->nodes->len; n++)
    ((OrtrainNode *) graph->nodes->pdata[n])->mark = n;
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      const gboolean is_fed = value->kind == ORTRAIN_VALUE_INPUT;
      /* with one output of a node, all are computed */
      const gboolean is_known = host[v] || (value->producer != NULL && nodes[value->producer->mark]);
      decides[v] = is_known && value->is_output && !is_fed;
      for (guint u = 0; is_known && u < value->uses.n && !decides[v]; u++)
        {
          const OrtrainUse *use = &value->uses.items[u];
          /* a value computed on the host is a constant for all its readers; a feed, only for those that decide shapes
           */
          decides[v] = ortrain_node_has_flag (use->node, ORTRAIN_OP_CONTROL) ||
                       (!nodes[use->node->mark] && (!is_fed || takes_contents (use, FALSE)));
        }
      any = any || (decides[v] && value->kind != ORTRAIN_VALUE_INITIALIZER);
    }
  if (!any)
    return NULL;
  for (guint k = graph->outputs->len; k-- > 0;) /* from the last one on, so that no index changes */
    ortrain_graph_mark_output (graph, graph->outputs->pdata[k], FALSE);
  for (guint v = 0; v < graph->values->len; v++)
    {
      OrtrainValue *value = graph->values->pdata[v];
      if (decides[v] && value->kind != ORTRAIN_VALUE_INITIALIZER)
        ortrain_graph_mark_output (graph, value, TRUE);
    }
  ortrain_graph_remove_dead (graph);
  return g_steal_pointer (&graph);
}

/* Nodes that take the contents when a plan is made read them as a constant, all others read the feed. */
static void
part_contents (OrtrainGraph *graph, OrtrainValue *value, OrtrainTensor *contents, const gboolean *host)
{
  OrtrainValue *constant = NULL;
  for (guint u = value->uses.n; u-- > 0;)
    {
      const OrtrainUse use = value->uses.items[u];
      if (!takes_contents (&use, host[use.node->mark]))
        continue;
      if (constant == NULL)
        constant = ortrain_graph_new_initializer (graph, NULL, contents);
      ortrain_node_set_input (use.node, use.index, constant);
    }
}

/* The symbols of the declared shapes get their values from the first input that has them. */
static gboolean
bind_input (OrtrainValue *value, const OrtrainSpecializeInput *input, GHashTable *symbols, GError **error)
{
  if (value->dtype != ORTRAIN_DTYPE_UNDEFINED && value->dtype != input->dtype)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is %s, the model needs %s",
                   ortrain_text_show (value->name), ortrain_dtype_get_name (input->dtype),
                   ortrain_dtype_get_name (value->dtype));
      return FALSE;
    }
  g_autofree char *wanted = ortrain_dims_to_string (value->dims, value->rank);
  g_autofree char *found = ortrain_shape_to_string (input->dims, input->rank);
  if (value->rank >= 0 && (guint) value->rank != input->rank)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Input '%s' has the shape %s, the model needs %s", ortrain_text_show (value->name), found, wanted);
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
                       "Input '%s' has the shape %s, the model needs %s: dimension %d must be %" G_GINT64_FORMAT,
                       ortrain_text_show (value->name), found, wanted, i, expected);
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
                   "%s: the shape of its output '%s' depends on computed data", text, ortrain_text_show (output->name));
      return FALSE;
    }
  return TRUE;
}

/* Nodes still to be looked at, the next one last. */
typedef struct
{
  OrtrainNode *node;
  gboolean host; /* its outputs decide shapes */
} Pending;

static void
pending_clear (gpointer data)
{
  g_object_unref (((Pending *) data)->node);
}

static void
push_nodes (GArray *pending, OrtrainNode *const *nodes, guint n, const gboolean *host)
{
  for (guint i = n; i-- > 0;)
    {
      const Pending next = { g_object_ref (nodes[i]), host[i] };
      g_array_append_val (pending, next);
    }
}

/* The condition is known by now, or it is computed from data. */
static gboolean
take_branch (OrtrainGraph *graph, const Pending *control, GArray *pending, GError **error)
{
  const OrtrainValue *condition = ortrain_node_input (control->node, 0);
  const gboolean is_known = condition != NULL && condition->tensor != NULL;
  if (is_known && ortrain_tensor_get_n_elements (condition->tensor) != 1)
    {
      g_autofree char *text = ortrain_node_describe (control->node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE, "%s: its condition must have one element",
                   text);
      return FALSE;
    }
  if (!is_known)
    {
      g_autofree char *text = ortrain_node_describe (control->node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
                   "%s: its condition depends on computed data", text);
      return FALSE;
    }
  const gboolean taken = ortrain_tensor_get_scalar (condition->tensor, 0) != 0;
  OrtrainGraph *branch = ortrain_control_get_branch (control->node, taken);
  g_autofree gboolean *inner = branch != NULL ? find_host_nodes (branch, control->host) : NULL;
  const guint n_inner = branch != NULL ? branch->nodes->len : 0;
  g_autoptr (GPtrArray) added = ortrain_control_take_branch (graph, control->node, taken, error);
  if (added == NULL)
    return FALSE;
  g_autofree gboolean *host = g_new0 (gboolean, added->len + 1);
  for (guint i = 0; i < added->len; i++)
    host[i] = i < n_inner ? inner[i] : control->host;
  push_nodes (pending, (OrtrainNode *const *) added->pdata, added->len, host);
  return TRUE;
}

/* For an inferred node: folds it, removes it, or leaves it for later. */
static gboolean
fold (OrtrainGraph *graph, const Pending *next, OrtrainFoldBudget *budget, OrtrainNarrowing *narrowing, GError **error)
{
  if (!next->host && ortrain_narrowing_may_add (narrowing, next->node))
    {
      if (!ortrain_eliminate_node (graph, next->node))
        ortrain_narrowing_add (narrowing, next->node);
      return TRUE;
    }
  gboolean folded;
  if (!ortrain_fold_node (graph, next->node, budget, next->host, &folded, error))
    return FALSE;
  if (!folded)
    ortrain_eliminate_node (graph, next->node);
  return TRUE;
}

/* parts: shape inputs that are also read as data stay feeds there */
static OrtrainGraph *
specialize (OrtrainGraph *source, const OrtrainSpecializeInput *inputs, guint n_inputs, gboolean parts, GError **error)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_clone (source);
  if (!ortrain_graph_sort (graph, error))
    return NULL;
  g_autofree gboolean *host = find_host_nodes (graph, FALSE);
  for (guint n = 0; n < graph->nodes->len; n++)
    ((OrtrainNode *) graph->nodes->pdata[n])->mark = n;
  g_autoptr (GHashTable) symbols = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; i < n_inputs; i++)
    {
      OrtrainValue *value = ortrain_graph_find_value (graph, inputs[i].name);
      OrtrainSpecializeInput input = inputs[i];
      if (value == NULL || value->kind != ORTRAIN_VALUE_INPUT)
        continue;
      if (parts)
        input.contents = NULL;
      if (!bind_input (value, &input, symbols, error))
        return NULL;
      if (parts && inputs[i].contents != NULL)
        part_contents (graph, value, inputs[i].contents, host);
    }
  gint64 dims[ORTRAIN_MAX_RANK];
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      OrtrainValue *value = graph->inputs->pdata[i];
      if (!ortrain_value_get_static_dims (value, dims))
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is missing",
                       ortrain_text_show (value->name));
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
  /* No expression of the source's space is left; the expressions of inference from here on belong to this clone
   * alone. */
  ortrain_dim_space_unref (graph->dims);
  graph->dims = ortrain_dim_space_new ();

  g_autoptr (GArray) pending = g_array_new (FALSE, FALSE, sizeof (Pending));
  push_nodes (pending, (OrtrainNode *const *) graph->nodes->pdata, graph->nodes->len, host);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  OrtrainFoldBudget budget;
  ortrain_fold_budget_init (&budget);
  budget.consumes = TRUE;
  g_autoptr (OrtrainNarrowing) narrowing = ortrain_narrowing_new (graph, &budget);
  gboolean ok = TRUE;
  while (pending->len > 0 && ok)
    {
      Pending next = g_array_index (pending, Pending, pending->len - 1);
      g_array_set_size (pending, pending->len - 1);
      if (next.node->op != NULL && (next.node->op->flags & ORTRAIN_OP_CONTROL))
        ok = take_branch (graph, &next, pending, error);
      else
        ok = ortrain_ops_infer_node (next.node, error) && check_static (next.node, error) &&
             ortrain_declarations_check (next.node, source, error) && fold (graph, &next, &budget, narrowing, error);
      pending_clear (&next);
    }
  g_array_set_clear_func (pending, pending_clear);
  if (!ok)
    return NULL;
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  if (!ortrain_narrowing_run (narrowing, error))
    return NULL;
  ortrain_graph_remove_dead (graph);
  return g_steal_pointer (&graph);
}

OrtrainGraph *
ortrain_specialize (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs, GError **error)
{
  return specialize (graph, inputs, n_inputs, FALSE, error);
}

OrtrainGraph *
ortrain_specialize_deciding (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs, GError **error)
{
  return specialize (graph, inputs, n_inputs, TRUE, error);
}
