/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-object-list-private.h"
#include "core/ortrain-text-private.h"
#include "graph/ortrain-graph-private.h"

/**
 * OrtrainGraph:
 *
 * A graph of operators: that of a model ([method@Model.get_graph]), or the training graph of a session
 * ([property@TrainingSession:training-graph]).
 *
 * Nodes, inputs, outputs and initializers are `GListModel`s that follow changes. Values are identified by their names;
 * each is computed by one node at most.
 *
 * ```python
 * graph = Ortrain.Model("model.onnx").get_graph().copy()
 * for node in graph.get_nodes():
 *     print(node.op_type, [node.get_input(i).name for i in range(node.get_n_inputs())])
 *
 * graph.add_node("Softmax", None, "softmax", ["logits"], ["probabilities"])
 * graph.add_output("probabilities")
 * graph.infer()
 * model = Ortrain.Model.new_from_graph(graph)
 * ```
 *
 * The graphs of models and sessions must not be changed: copy them. One thread at a time may use a graph, and none
 * while a session is being created from it.
 */

typedef enum
{
  LIST_NODES,
  LIST_INPUTS,
  LIST_OUTPUTS,
  LIST_INITIALIZERS,
  N_LISTS
} List;

G_DEFINE_FINAL_TYPE (OrtrainGraph, ortrain_graph, G_TYPE_OBJECT)

static GQuark
models_quark (void)
{
  static GQuark quark;
  if (quark == 0)
    quark = g_quark_from_static_string ("ortrain-graph-models");
  return quark;
}

static void
models_free (gpointer data)
{
  OrtrainObjectList **models = data;
  for (guint i = 0; i < N_LISTS; i++)
    g_clear_object (&models[i]);
  g_free (models);
}

static GListModel *
get_model (OrtrainGraph *self, List list)
{
  OrtrainObjectList **models = g_object_get_qdata (G_OBJECT (self), models_quark ());
  if (models == NULL)
    {
      models = g_new0 (OrtrainObjectList *, N_LISTS);
      models[LIST_NODES] = ortrain_object_list_new_over (ORTRAIN_TYPE_NODE, self->nodes);
      models[LIST_INPUTS] = ortrain_object_list_new_over (ORTRAIN_TYPE_VALUE, self->inputs);
      models[LIST_OUTPUTS] = ortrain_object_list_new_over (ORTRAIN_TYPE_VALUE, self->outputs);
      models[LIST_INITIALIZERS] = ortrain_object_list_new_over (ORTRAIN_TYPE_VALUE, self->initializers);
      g_object_set_qdata_full (G_OBJECT (self), models_quark (), models, models_free);
    }
  return G_LIST_MODEL (models[list]);
}

/* Called by the public functions that change a graph; passes change graphs that nobody looks at yet. */
static void
refresh_lists (OrtrainGraph *self)
{
  OrtrainObjectList **models = g_object_get_qdata (G_OBJECT (self), models_quark ());
  for (guint i = 0; models != NULL && i < N_LISTS; i++)
    ortrain_object_list_refresh (models[i]);
}

static void
detach_node (OrtrainNode *node)
{
  node->graph = NULL;
  g_ptr_array_set_size (node->inputs, 0);
  g_ptr_array_set_size (node->outputs, 0);
  node->recomputes = NULL;
}

static void
ortrain_graph_dispose (GObject *object)
{
  OrtrainGraph *self = ORTRAIN_GRAPH (object);
  for (guint i = 0; i < self->nodes->len; i++)
    detach_node (self->nodes->pdata[i]);
  for (guint i = 0; i < self->values->len; i++)
    ortrain_value_detach (self->values->pdata[i]);
  g_hash_table_remove_all (self->by_name);
  g_ptr_array_set_size (self->inputs, 0);
  g_ptr_array_set_size (self->outputs, 0);
  g_ptr_array_set_size (self->initializers, 0);
  g_ptr_array_set_size (self->nodes, 0);
  g_ptr_array_set_size (self->values, 0);
  G_OBJECT_CLASS (ortrain_graph_parent_class)->dispose (object);
}

static void
ortrain_graph_finalize (GObject *object)
{
  OrtrainGraph *self = ORTRAIN_GRAPH (object);
  g_ptr_array_unref (self->nodes);
  g_ptr_array_unref (self->values);
  g_ptr_array_unref (self->inputs);
  g_ptr_array_unref (self->outputs);
  g_ptr_array_unref (self->initializers);
  g_hash_table_unref (self->by_name);
  g_hash_table_unref (self->opsets);
  g_clear_pointer (&self->many_uses, g_hash_table_unref);
  g_clear_pointer (&self->output_positions, g_hash_table_unref);
  ortrain_dim_space_unref (self->dims);
  g_clear_pointer (&self->known_notes, g_hash_table_unref);
  g_clear_pointer (&self->notes, g_ptr_array_unref);
  g_clear_pointer (&self->labels, g_ptr_array_unref);
  g_free (self->name);
  G_OBJECT_CLASS (ortrain_graph_parent_class)->finalize (object);
}

static void
ortrain_graph_class_init (OrtrainGraphClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->dispose = ortrain_graph_dispose;
  object_class->finalize = ortrain_graph_finalize;
}

static void
ortrain_graph_init (OrtrainGraph *self)
{
  self->nodes = g_ptr_array_new_with_free_func (g_object_unref);
  self->values = g_ptr_array_new_with_free_func (g_object_unref);
  self->inputs = g_ptr_array_new ();
  self->outputs = g_ptr_array_new ();
  self->initializers = g_ptr_array_new ();
  self->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  self->opsets = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->dims = ortrain_dim_space_new ();
  self->opset = 23;
}

void
ortrain_graph_add_note (OrtrainGraph *self, const char *note)
{
  if (self->notes == NULL)
    self->notes = g_ptr_array_new_with_free_func (g_free);
  if (self->known_notes == NULL)
    {
      self->known_notes = g_hash_table_new (g_str_hash, g_str_equal);
      for (guint i = 0; i < self->notes->len; i++)
        g_hash_table_add (self->known_notes, self->notes->pdata[i]);
    }
  if (g_hash_table_contains (self->known_notes, note))
    return;
  char *copy = g_strdup (note);
  g_ptr_array_add (self->notes, copy);
  g_hash_table_add (self->known_notes, copy);
}

/**
 * ortrain_graph_new:
 * @name: a name
 *
 * Creates an empty graph, whose operators are those of operator set 23.
 *
 * Returns: (transfer full): the graph
 */
OrtrainGraph *
ortrain_graph_new (const char *name)
{
  OrtrainGraph *self = g_object_new (ORTRAIN_TYPE_GRAPH, NULL);
  self->name = g_strdup (name != NULL ? name : "");
  return self;
}

/**
 * ortrain_graph_get_name:
 * @self: a graph
 *
 * Gets the name that the file gives the graph; exporters write `main_graph` and the like.
 *
 * Returns: (transfer none): the name
 */
const char *
ortrain_graph_get_name (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return self->name;
}

/**
 * ortrain_graph_get_nodes:
 * @self: a graph
 *
 * Lists the nodes. The list follows changes; its order is one of execution once the graph is sorted.
 *
 * Returns: (transfer none): a list of [class@Node], owned by the graph
 */
GListModel *
ortrain_graph_get_nodes (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return get_model (self, LIST_NODES);
}

/**
 * ortrain_graph_get_inputs:
 * @self: a graph
 *
 * Lists the values that are fed.
 *
 * Returns: (transfer none): a list of [class@Value], owned by the graph
 */
GListModel *
ortrain_graph_get_inputs (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return get_model (self, LIST_INPUTS);
}

/**
 * ortrain_graph_get_outputs:
 * @self: a graph
 *
 * Lists the values that runs return.
 *
 * Returns: (transfer none): a list of [class@Value], owned by the graph
 */
GListModel *
ortrain_graph_get_outputs (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return get_model (self, LIST_OUTPUTS);
}

/**
 * ortrain_graph_get_initializers:
 * @self: a graph
 *
 * Lists the values with stored contents: weights, running statistics, constants.
 *
 * Returns: (transfer none): a list of [class@Value], owned by the graph
 */
GListModel *
ortrain_graph_get_initializers (OrtrainGraph *self)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  return get_model (self, LIST_INITIALIZERS);
}

/**
 * ortrain_graph_find_value:
 * @self: a graph
 * @name: the name of a value
 *
 * Looks up a value by its name.
 *
 * Returns: (transfer none) (nullable): the value, owned by the graph; %NULL if there is no such value
 */
OrtrainValue *
ortrain_graph_find_value (OrtrainGraph *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  return g_hash_table_lookup (self->by_name, name);
}

/**
 * ortrain_graph_find_node:
 * @self: a graph
 * @name: the name of a node
 *
 * Looks up the first node of a name. Names of nodes need not be unique in ONNX.
 *
 * Returns: (transfer none) (nullable): the node, owned by the graph; %NULL if there is no such node
 */
OrtrainNode *
ortrain_graph_find_node (OrtrainGraph *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  for (guint i = 0; i < self->nodes->len; i++)
    if (g_str_equal (((OrtrainNode *) self->nodes->pdata[i])->name, name))
      return self->nodes->pdata[i];
  return NULL;
}

/* ---- Changing ---- */

static gboolean
name_is_free (OrtrainGraph *self, const char *name, GError **error)
{
  if (name[0] == '\0' || g_hash_table_contains (self->by_name, name))
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "The name '%s' is %s",
                   ortrain_text_show (name), name[0] == '\0' ? "empty" : "used already");
      return FALSE;
    }
  return TRUE;
}

/**
 * ortrain_graph_add_input:
 * @self: a graph
 * @name: its name, which no other value has
 * @dtype: its element type
 * @dims: (array length=n_dims): its dimensions, -1 for one that is not known
 * @n_dims: the number of dimensions
 * @error: return location for an error
 *
 * Adds an input after the existing ones.
 *
 * Returns: (transfer none) (nullable): the new value, owned by the graph; %NULL with %ORTRAIN_GRAPH_ERROR_NAME or
 *   %ORTRAIN_GRAPH_ERROR_SHAPE
 */
OrtrainValue *
ortrain_graph_add_input (OrtrainGraph *self, const char *name, OrtrainDType dtype, const gint64 *dims, gsize n_dims,
                         GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  if (!name_is_free (self, name, error))
    return NULL;
  if (n_dims > ORTRAIN_MAX_RANK)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE,
                   "Input '%s' has %" G_GSIZE_FORMAT " dimensions, at most %d are supported", ortrain_text_show (name),
                   n_dims, ORTRAIN_MAX_RANK);
      return NULL;
    }
  OrtrainDim expressions[ORTRAIN_MAX_RANK];
  for (gsize i = 0; i < n_dims; i++)
    expressions[i] = dims[i] >= 0 ? ortrain_dim_int (dims[i]) : ortrain_dim_unknown (self->dims);
  OrtrainValue *value = ortrain_graph_new_input (self, name, dtype, expressions, (gint) n_dims);
  refresh_lists (self);
  return value;
}

/**
 * ortrain_graph_add_initializer:
 * @self: a graph
 * @name: its name, which no other value has
 * @tensor: its contents
 * @error: return location for an error
 *
 * Adds a value with contents, such as a weight. The tensor is not copied, unless the host cannot read it.
 *
 * Returns: (transfer none) (nullable): the new value, or %NULL with an error of [error@GraphError] or
 * [error@TensorError]
 */
OrtrainValue *
ortrain_graph_add_initializer (OrtrainGraph *self, const char *name, OrtrainTensor *tensor, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (tensor), NULL);
  if (!name_is_free (self, name, error))
    return NULL;
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (tensor, error);
  if (host == NULL)
    return NULL;
  OrtrainValue *value = ortrain_graph_new_initializer (self, name, host);
  refresh_lists (self);
  return value;
}

/**
 * ortrain_graph_add_node:
 * @self: a graph
 * @op_type: the operator
 * @domain: (nullable): its domain; %NULL or empty for ONNX's own
 * @name: (nullable): a name
 * @inputs: (array zero-terminated=1): names of existing values; an empty name for an absent input
 * @outputs: (array zero-terminated=1): names of the new values
 * @error: return location for an error
 *
 * Adds a node after the existing ones. [method@Graph.infer] computes the types and shapes of its outputs.
 *
 * Returns: (transfer none) (nullable): the node, owned by the graph; %NULL with %ORTRAIN_GRAPH_ERROR_NAME
 */
OrtrainNode *
ortrain_graph_add_node (OrtrainGraph *self, const char *op_type, const char *domain, const char *name,
                        const char *const *inputs, const char *const *outputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (op_type != NULL && inputs != NULL && outputs != NULL, NULL);
  guint n_inputs = g_strv_length ((char **) inputs), n_outputs = g_strv_length ((char **) outputs);
  g_autofree OrtrainValue **values = g_new0 (OrtrainValue *, n_inputs + 1);
  for (guint i = 0; i < n_inputs; i++)
    {
      values[i] = inputs[i][0] != '\0' ? g_hash_table_lookup (self->by_name, inputs[i]) : NULL;
      if (values[i] == NULL && inputs[i][0] != '\0')
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME,
                       "There is no value '%s' for input %u of %s", ortrain_text_show (inputs[i]), i,
                       ortrain_text_show (op_type));
          return NULL;
        }
    }
  for (guint i = 0; i < n_outputs; i++)
    {
      if (outputs[i][0] != '\0' && !name_is_free (self, outputs[i], error))
        return NULL;
      for (guint k = 0; k < i; k++)
        if (outputs[i][0] != '\0' && g_str_equal (outputs[i], outputs[k]))
          {
            g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "Two outputs of %s are named '%s'",
                         ortrain_text_show (op_type), ortrain_text_show (outputs[i]));
            return NULL;
          }
    }
  OrtrainNode *node = ortrain_graph_new_node (self, domain, op_type, name, values, n_inputs, 0);
  for (guint i = 0; i < n_outputs; i++)
    if (outputs[i][0] != '\0')
      ortrain_node_set_output (node, i, ortrain_graph_new_value (self, outputs[i]));
  refresh_lists (self);
  return node;
}

/**
 * ortrain_graph_add_output:
 * @self: a graph
 * @name: the name of a value
 * @error: return location for an error
 *
 * Adds an output after the existing ones: a value that runs compute and return.
 *
 * Returns: %FALSE with %ORTRAIN_GRAPH_ERROR_NAME if there is no such value
 */
gboolean
ortrain_graph_add_output (OrtrainGraph *self, const char *name, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  OrtrainValue *value = g_hash_table_lookup (self->by_name, name);
  if (value == NULL)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "There is no value '%s'",
                   ortrain_text_show (name));
      return FALSE;
    }
  ortrain_graph_mark_output (self, value, TRUE);
  refresh_lists (self);
  return TRUE;
}

/**
 * ortrain_graph_remove_node:
 * @self: a graph
 * @node: a node of it
 * @error: return location for an error
 *
 * Removes a node, none of whose outputs is used.
 *
 * Returns: %FALSE with %ORTRAIN_GRAPH_ERROR_NAME if an output is used
 */
gboolean
ortrain_graph_remove_node (OrtrainGraph *self, OrtrainNode *node, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_NODE (node) && node->graph == self, FALSE);
  for (guint i = 0; i < node->outputs->len; i++)
    {
      OrtrainValue *value = node->outputs->pdata[i];
      if (value != NULL && (value->uses.n > 0 || value->is_output))
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME,
                       "Cannot remove %s: its output '%s' is still used; replace it first",
                       ortrain_text_show (node->op_type), ortrain_text_show (value->name));
          return FALSE;
        }
    }
  ortrain_graph_delete_node (self, node);
  refresh_lists (self);
  return TRUE;
}

/**
 * ortrain_graph_replace_value:
 * @self: a graph
 * @value: a value of it
 * @replacement: another value of it
 * @error: return location for an error
 *
 * Replaces all uses of @value by @replacement.
 *
 * Returns: %FALSE with %ORTRAIN_GRAPH_ERROR_CYCLE if that would create a cycle; the graph is then unchanged
 */
gboolean
ortrain_graph_replace_value (OrtrainGraph *self, OrtrainValue *value, OrtrainValue *replacement, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_VALUE (value) && value->graph == self, FALSE);
  g_return_val_if_fail (ORTRAIN_IS_VALUE (replacement) && replacement->graph == self, FALSE);
  if (value == replacement)
    return TRUE;
  const guint n = value->uses.n;
  g_autofree OrtrainUse *uses = g_memdup2 (value->uses.items, n * sizeof (OrtrainUse));
  for (guint i = 0; i < n; i++)
    ortrain_node_set_input (uses[i].node, uses[i].index, replacement);
  if (!ortrain_graph_sort (self, NULL))
    {
      for (guint i = 0; i < n; i++)
        ortrain_node_set_input (uses[i].node, uses[i].index, value);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_CYCLE, "Replacing '%s' by '%s' would create a cycle",
                   ortrain_text_show (value->name), ortrain_text_show (replacement->name));
      return FALSE;
    }
  ortrain_value_replace_uses (value, replacement);
  refresh_lists (self);
  return TRUE;
}
