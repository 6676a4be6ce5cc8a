/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-array-model-private.h"
#include "graph/ortrain-graph-private.h"

#include <string.h>

/**
 * OrtrainGraph:
 *
 * A graph of operators: the model's own, or the training graph made from it.
 *
 * The lists of nodes, inputs, outputs and initializers are list models that follow changes. Each value has at most one
 * producer. Not thread-safe: one thread at a time, and none while a session is being made from it.
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
  OrtrainArrayModel **models = data;
  for (guint i = 0; i < N_LISTS; i++)
    g_clear_object (&models[i]);
  g_free (models);
}

static GListModel *
get_model (OrtrainGraph *self, List list)
{
  OrtrainArrayModel **models = g_object_get_qdata (G_OBJECT (self), models_quark ());
  if (models == NULL)
    {
      models = g_new0 (OrtrainArrayModel *, N_LISTS);
      models[LIST_NODES] = ortrain_array_model_new (ORTRAIN_TYPE_NODE, self->nodes);
      models[LIST_INPUTS] = ortrain_array_model_new (ORTRAIN_TYPE_VALUE, self->inputs);
      models[LIST_OUTPUTS] = ortrain_array_model_new (ORTRAIN_TYPE_VALUE, self->outputs);
      models[LIST_INITIALIZERS] = ortrain_array_model_new (ORTRAIN_TYPE_VALUE, self->initializers);
      g_object_set_qdata_full (G_OBJECT (self), models_quark (), models, models_free);
    }
  return G_LIST_MODEL (models[list]);
}

/* Called by the public functions that change a graph; passes change graphs that nobody looks at yet. */
static void
tell (OrtrainGraph *self)
{
  OrtrainArrayModel **models = g_object_get_qdata (G_OBJECT (self), models_quark ());
  for (guint i = 0; models != NULL && i < N_LISTS; i++)
    ortrain_array_model_refresh (models[i]);
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
detach_value (OrtrainValue *value)
{
  value->graph = NULL;
  value->producer = NULL;
  value->partner = NULL;
  g_array_set_size (value->uses, 0);
}

static void
ortrain_graph_dispose (GObject *object)
{
  OrtrainGraph *self = ORTRAIN_GRAPH (object);
  for (guint i = 0; i < self->nodes->len; i++)
    detach_node (self->nodes->pdata[i]);
  for (guint i = 0; i < self->values->len; i++)
    detach_value (self->values->pdata[i]);
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
  ortrain_dim_space_unref (self->dims);
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

/**
 * ortrain_graph_new:
 * @name: a name
 *
 * Makes an empty graph in the form of operator set 23.
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
 * The name of the graph.
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
 * The nodes.
 *
 * Returns: (transfer none): a list of [class@Node]
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
 * What is fed.
 *
 * Returns: (transfer none): a list of [class@Value]
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
 * What is computed.
 *
 * Returns: (transfer none): a list of [class@Value]
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
 * The values with given contents: weights, running statistics, constants.
 *
 * Returns: (transfer none): a list of [class@Value]
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
 * Finds a value by its name.
 *
 * Returns: (transfer none) (nullable): the value
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
 * Finds the first node of that name. Names of nodes need not be unique in ONNX.
 *
 * Returns: (transfer none) (nullable): the node
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

/* ---- Making ---- */

static char *
unique_name (OrtrainGraph *self, const char *name)
{
  if (name != NULL && name[0] != '\0' && !g_hash_table_contains (self->by_name, name))
    return g_strdup (name);
  for (;;)
    {
      char *candidate = g_strdup_printf ("%s.%u", name != NULL && name[0] != '\0' ? name : "t", ++self->next_suffix);
      if (!g_hash_table_contains (self->by_name, candidate))
        return candidate;
      g_free (candidate);
    }
}

OrtrainValue *
ortrain_graph_new_value (OrtrainGraph *self, const char *name)
{
  OrtrainValue *value = g_object_new (ORTRAIN_TYPE_VALUE, NULL);
  value->graph = self;
  value->name = unique_name (self, name);
  value->id = self->values->len;
  g_ptr_array_add (self->values, value);
  g_hash_table_insert (self->by_name, value->name, value);
  return value;
}

OrtrainValue *
ortrain_graph_ensure_value (OrtrainGraph *self, const char *name)
{
  OrtrainValue *value = g_hash_table_lookup (self->by_name, name);
  return value != NULL ? value : ortrain_graph_new_value (self, name);
}

static void
add_use (OrtrainValue *value, OrtrainNode *node, guint index)
{
  OrtrainUse use = { node, index };
  g_array_append_val (value->uses, use);
}

static void
remove_use (OrtrainValue *value, OrtrainNode *node, guint index)
{
  for (guint i = 0; i < value->uses->len; i++)
    {
      OrtrainUse *use = &g_array_index (value->uses, OrtrainUse, i);
      if (use->node == node && use->index == index)
        {
          g_array_remove_index (value->uses, i);
          return;
        }
    }
}

OrtrainNode *
ortrain_graph_insert_node (OrtrainGraph *self, guint position, const char *domain, const char *op_type,
                           const char *name, OrtrainValue *const *inputs, guint n_inputs, guint n_outputs)
{
  OrtrainNode *node = g_object_new (ORTRAIN_TYPE_NODE, NULL);
  node->graph = self;
  node->name = g_strdup (name != NULL ? name : "");
  node->op_type = g_strdup (op_type);
  node->domain = g_strdup (domain != NULL ? domain : "");
  node->number = self->next_number++;
  for (guint i = 0; i < n_inputs; i++)
    {
      g_ptr_array_add (node->inputs, inputs[i]);
      if (inputs[i] != NULL)
        add_use (inputs[i], node, i);
    }
  g_ptr_array_insert (self->nodes, (gint) MIN (position, self->nodes->len), node);
  ortrain_node_set_n_outputs (node, n_outputs);
  return node;
}

OrtrainNode *
ortrain_graph_new_node (OrtrainGraph *self, const char *domain, const char *op_type, const char *name,
                        OrtrainValue *const *inputs, guint n_inputs, guint n_outputs)
{
  return ortrain_graph_insert_node (self, self->nodes->len, domain, op_type, name, inputs, n_inputs, n_outputs);
}

OrtrainValue *
ortrain_graph_new_initializer (OrtrainGraph *self, const char *name, OrtrainTensor *tensor)
{
  OrtrainValue *value = ortrain_graph_new_value (self, name);
  value->kind = ORTRAIN_VALUE_INITIALIZER;
  ortrain_value_set_tensor (value, tensor);
  g_ptr_array_add (self->initializers, value);
  return value;
}

OrtrainValue *
ortrain_graph_new_input (OrtrainGraph *self, const char *name, OrtrainDType dtype, const OrtrainDim *dims, gint rank)
{
  OrtrainValue *value = ortrain_graph_new_value (self, name);
  value->kind = ORTRAIN_VALUE_INPUT;
  ortrain_value_set_shape (value, dtype, dims, rank);
  g_ptr_array_add (self->inputs, value);
  return value;
}

OrtrainValue *
ortrain_graph_const_ints (OrtrainGraph *self, const gint64 *values, gsize n)
{
  gint64 dims[1] = { (gint64) n };
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (dims, 1, values, n, NULL);
  return ortrain_graph_new_initializer (self, "const", tensor);
}

OrtrainValue *
ortrain_graph_const_int (OrtrainGraph *self, gint64 value)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (NULL, 0, &value, 1, NULL);
  return ortrain_graph_new_initializer (self, "const", tensor);
}

OrtrainValue *
ortrain_graph_const_scalar (OrtrainGraph *self, OrtrainDType dtype, double value)
{
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, NULL, 0, NULL);
  *(double *) ortrain_tensor_peek_writable (wide) = value;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_cast (wide, dtype, NULL);
  return ortrain_graph_new_initializer (self, "const", tensor);
}

void
ortrain_graph_mark_output (OrtrainGraph *self, OrtrainValue *value, gboolean is_output)
{
  if (is_output == value->is_output)
    return;
  value->is_output = is_output;
  if (is_output)
    g_ptr_array_add (self->outputs, value);
  else
    g_ptr_array_remove (self->outputs, value);
}

gboolean
ortrain_node_set_output (OrtrainNode *self, guint index, OrtrainValue *value)
{
  if (value->producer != NULL || value->kind != ORTRAIN_VALUE_COMPUTED)
    return FALSE;
  while (self->outputs->len <= index)
    g_ptr_array_add (self->outputs, NULL);
  if (self->outputs->pdata[index] != NULL)
    return FALSE;
  self->outputs->pdata[index] = value;
  value->producer = self;
  value->output_index = index;
  return TRUE;
}

/* ---- Changing ---- */

void
ortrain_node_set_input (OrtrainNode *self, guint index, OrtrainValue *value)
{
  while (self->inputs->len <= index)
    g_ptr_array_add (self->inputs, NULL);
  OrtrainValue *old = self->inputs->pdata[index];
  if (old == value)
    return;
  if (old != NULL)
    remove_use (old, self, index);
  self->inputs->pdata[index] = value;
  if (value != NULL)
    add_use (value, self, index);
}

void
ortrain_node_set_n_outputs (OrtrainNode *self, guint n)
{
  for (guint i = n; i < self->outputs->len; i++)
    if (self->outputs->pdata[i] != NULL)
      ortrain_node_drop_output (self, i);
  guint before = MIN (self->outputs->len, n);
  g_ptr_array_set_size (self->outputs, (gint) n);
  for (guint i = before; i < n; i++)
    {
      g_autofree char *name =
          self->name[0] != '\0' ? g_strdup_printf ("%s.out%u", self->name, i) : g_strdup (self->op_type);
      OrtrainValue *value = ortrain_graph_new_value (self->graph, name);
      self->outputs->pdata[i] = NULL;
      ortrain_node_set_output (self, i, value);
    }
}

void
ortrain_node_drop_output (OrtrainNode *self, guint index)
{
  OrtrainValue *value = ortrain_node_output (self, index);
  if (value == NULL)
    return;
  self->outputs->pdata[index] = NULL;
  value->producer = NULL;
  ortrain_graph_delete_value (self->graph, value);
}

void
ortrain_graph_delete_value (OrtrainGraph *self, OrtrainValue *value)
{
  g_assert (value->graph == self && value->uses->len == 0 && value->producer == NULL);
  ortrain_graph_mark_output (self, value, FALSE);
  if (value->kind == ORTRAIN_VALUE_INPUT)
    g_ptr_array_remove (self->inputs, value);
  else if (value->kind == ORTRAIN_VALUE_INITIALIZER)
    g_ptr_array_remove (self->initializers, value);
  if (g_hash_table_lookup (self->by_name, value->name) == value)
    g_hash_table_remove (self->by_name, value->name);
  /* The last value takes the place, so that ids stay dense. */
  guint id = value->id;
  OrtrainValue *last = self->values->pdata[self->values->len - 1];
  detach_value (value);
  if (last != value)
    {
      self->values->pdata[id] = last;
      last->id = id;
      self->values->pdata[self->values->len - 1] = value;
    }
  g_ptr_array_set_size (self->values, (gint) self->values->len - 1);
}

void
ortrain_value_replace_uses (OrtrainValue *self, OrtrainValue *replacement)
{
  if (self == replacement)
    return;
  while (self->uses->len > 0)
    {
      OrtrainUse use = g_array_index (self->uses, OrtrainUse, self->uses->len - 1);
      ortrain_node_set_input (use.node, use.index, replacement);
    }
  if (!self->is_output)
    return;
  /* The graph's output keeps its place and its name, unless the replacement is one that others know by its own name. */
  OrtrainGraph *graph = self->graph;
  guint position;
  g_ptr_array_find (graph->outputs, self, &position);
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
  self->is_output = FALSE;
  replacement->is_output = TRUE;
  graph->outputs->pdata[position] = replacement;
  if (replacement->role == ORTRAIN_ROLE_NONE)
    {
      replacement->role = self->role;
      replacement->partner = self->partner;
      self->role = ORTRAIN_ROLE_NONE;
    }
  ortrain_value_rename (self, NULL);
  ortrain_value_rename (replacement, name);
}

void
ortrain_value_rename (OrtrainValue *self, const char *name)
{
  if (name != NULL && g_str_equal (self->name, name))
    return;
  g_hash_table_remove (self->graph->by_name, self->name);
  char *unique = unique_name (self->graph, name);
  g_free (self->name);
  self->name = unique;
  g_hash_table_insert (self->graph->by_name, self->name, self);
}

void
ortrain_graph_delete_node (OrtrainGraph *self, OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    ortrain_node_set_input (node, i, NULL);
  for (guint i = 0; i < node->outputs->len; i++)
    ortrain_node_drop_output (node, i);
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *other = self->nodes->pdata[i];
      if (other->recomputes == node)
        other->recomputes = NULL;
    }
  node->graph = NULL;
  g_ptr_array_remove (self->nodes, node);
}

/* ---- Whole graph ---- */

/* Values of the outer graph that the bodies of a node read: names that a body uses and does not define. */
static void
visit_captures (OrtrainNode *node, OrtrainGraph *outer, guint depth, void (*func) (OrtrainValue *, gpointer),
                gpointer data)
{
  if (depth > 64)
    return;
  for (guint i = 0; i < ortrain_attributes_get_n (node->attributes); i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_get_nth (node->attributes, i);
      guint n = a->kind == ORTRAIN_ATTRIBUTE_GRAPH ? 1 : a->kind == ORTRAIN_ATTRIBUTE_GRAPHS ? (guint) a->n : 0;
      for (guint g = 0; g < n; g++)
        {
          GObject *object = a->kind == ORTRAIN_ATTRIBUTE_GRAPH ? a->v.g : a->v.graphs[g];
          if (!ORTRAIN_IS_GRAPH (object))
            continue;
          OrtrainGraph *body = ORTRAIN_GRAPH (object);
          for (guint v = 0; v < body->values->len; v++)
            {
              OrtrainValue *inner = body->values->pdata[v];
              if (inner->kind != ORTRAIN_VALUE_COMPUTED || inner->producer != NULL)
                continue;
              OrtrainValue *captured = g_hash_table_lookup (outer->by_name, inner->name);
              if (captured != NULL)
                func (captured, data);
            }
          for (guint k = 0; k < body->nodes->len; k++)
            visit_captures (body->nodes->pdata[k], outer, depth + 1, func, data);
        }
    }
}

static void
collect_producer (OrtrainValue *value, gpointer data)
{
  if (value->producer != NULL)
    g_ptr_array_add (data, value->producer);
}

enum
{
  MARK_NEW,
  MARK_OPEN,
  MARK_DONE
};

/* Depth first from each node in its old order, without recursion: a node follows its producers, and an order that was
 * valid stays as it is. */
gboolean
ortrain_graph_sort (OrtrainGraph *self, GError **error)
{
  guint n = self->nodes->len;
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (n);
  g_autoptr (GPtrArray) stack = g_ptr_array_new ();
  g_autoptr (GPtrArray) captured = g_ptr_array_new ();
  for (guint i = 0; i < n; i++)
    ((OrtrainNode *) self->nodes->pdata[i])->mark = MARK_NEW;

  for (guint i = 0; i < n; i++)
    {
      g_ptr_array_add (stack, self->nodes->pdata[i]);
      while (stack->len > 0)
        {
          OrtrainNode *node = stack->pdata[stack->len - 1];
          if (node->mark == MARK_DONE)
            {
              g_ptr_array_set_size (stack, (gint) stack->len - 1);
              continue;
            }
          gboolean ready = TRUE;
          node->mark = MARK_OPEN;
          g_ptr_array_set_size (captured, 0);
          visit_captures (node, self, 0, collect_producer, captured);
          /* pushed in reverse, so that the first input's producer is visited first */
          for (guint k = node->inputs->len + captured->len; k-- > 0;)
            {
              OrtrainNode *producer;
              if (k >= node->inputs->len)
                producer = captured->pdata[k - node->inputs->len];
              else
                {
                  OrtrainValue *input = node->inputs->pdata[k];
                  producer = input != NULL ? input->producer : NULL;
                }
              if (producer == NULL || producer->mark == MARK_DONE)
                continue;
              if (producer->mark == MARK_OPEN)
                {
                  /* It waits below us on the stack for what we are a producer of. */
                  g_autofree char *text = ortrain_node_describe (node);
                  g_autofree char *other = ortrain_node_describe (producer);
                  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_CYCLE,
                               "The graph has a cycle through %s and %s", text, other);
                  return FALSE;
                }
              g_ptr_array_add (stack, producer);
              ready = FALSE;
            }
          if (ready)
            {
              node->mark = MARK_DONE;
              g_ptr_array_add (sorted, node);
              g_ptr_array_set_size (stack, (gint) stack->len - 1);
            }
        }
    }
  if (n > 0)
    memcpy (self->nodes->pdata, sorted->pdata, n * sizeof (gpointer));
  return TRUE;
}

static void
mark_value (OrtrainValue *value, gpointer data)
{
  ((gboolean *) data)[value->id] = TRUE;
}

guint
ortrain_graph_remove_dead (OrtrainGraph *self)
{
  if (!ortrain_graph_sort (self, NULL))
    return 0;
  g_autofree gboolean *needed = g_new0 (gboolean, self->values->len + 1);
  for (guint i = 0; i < self->outputs->len; i++)
    needed[((OrtrainValue *) self->outputs->pdata[i])->id] = TRUE;

  guint n_dead = 0;
  for (guint i = self->nodes->len; i-- > 0;)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      gboolean live = FALSE;
      for (guint k = 0; k < node->outputs->len && !live; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          live = output != NULL && needed[output->id];
        }
      node->mark = live;
      n_dead += !live;
      for (guint k = 0; k < node->inputs->len && live; k++)
        if (node->inputs->pdata[k] != NULL)
          needed[((OrtrainValue *) node->inputs->pdata[k])->id] = TRUE;
      if (live)
        visit_captures (node, self, 0, mark_value, needed);
    }
  if (n_dead > 0)
    for (guint i = self->nodes->len; i-- > 0;)
      if (((OrtrainNode *) self->nodes->pdata[i])->mark == FALSE)
        ortrain_graph_delete_node (self, self->nodes->pdata[i]);

  for (guint i = self->initializers->len; i-- > 0;)
    {
      OrtrainValue *value = self->initializers->pdata[i];
      if (value->uses->len == 0 && !value->is_output && !needed[value->id] && value->role != ORTRAIN_ROLE_PARAMETER &&
          value->role != ORTRAIN_ROLE_BUFFER)
        {
          /* ids move when a value goes, so `needed` is for the values as they were: keep it in step */
          needed[value->id] = needed[self->values->len - 1];
          ortrain_graph_delete_value (self, value);
        }
    }
  return n_dead;
}

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
      to->kind = from->kind;
      ortrain_value_set_shape (to, from->dtype, from->dims, from->rank);
      ortrain_value_set_content (to, from->content, from->n_content);
      g_set_object (&to->tensor, from->tensor);
      to->layout = from->layout;
      to->role = from->role;
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
          g_ptr_array_add (to->inputs, input != NULL ? values[input->id] : NULL);
          if (input != NULL)
            add_use (values[input->id], to, k);
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

void
ortrain_graph_map_clear (OrtrainGraphMap *map)
{
  g_clear_pointer (&map->values, g_hash_table_unref);
  g_clear_pointer (&map->nodes, g_hash_table_unref);
}

/* ---- The public functions that change a graph ---- */

static gboolean
name_is_free (OrtrainGraph *self, const char *name, GError **error)
{
  if (name[0] == '\0' || g_hash_table_contains (self->by_name, name))
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "The name '%s' is %s", name,
                   name[0] == '\0' ? "empty" : "taken");
      return FALSE;
    }
  return TRUE;
}

/**
 * ortrain_graph_add_input:
 * @self: a graph
 * @name: its name, not taken
 * @dtype: its element type
 * @dims: (array length=n_dims): its dimensions, -1 for one that is not known
 * @n_dims: the number of dimensions
 * @error: return location for an error
 *
 * Adds an input.
 *
 * Returns: (transfer none) (nullable): the new value, or %NULL with an error of [error@GraphError]
 */
OrtrainValue *
ortrain_graph_add_input (OrtrainGraph *self, const char *name, OrtrainDType dtype, const gint64 *dims, gsize n_dims,
                         GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!name_is_free (self, name, error))
    return NULL;
  if (n_dims > ORTRAIN_MAX_RANK)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE,
                   "Input '%s' would have %" G_GSIZE_FORMAT " dimensions, at most %d are possible", name, n_dims,
                   ORTRAIN_MAX_RANK);
      return NULL;
    }
  OrtrainDim expressions[ORTRAIN_MAX_RANK];
  for (gsize i = 0; i < n_dims; i++)
    expressions[i] = dims[i] >= 0 ? ortrain_dim_int (dims[i]) : ortrain_dim_unknown (self->dims);
  OrtrainValue *value = ortrain_graph_new_input (self, name, dtype, expressions, (gint) n_dims);
  tell (self);
  return value;
}

/**
 * ortrain_graph_add_initializer:
 * @self: a graph
 * @name: its name, not taken
 * @tensor: its contents
 * @error: return location for an error
 *
 * Adds an initializer.
 *
 * Returns: (transfer none) (nullable): the new value, or %NULL with an error of [error@GraphError]
 */
OrtrainValue *
ortrain_graph_add_initializer (OrtrainGraph *self, const char *name, OrtrainTensor *tensor, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (tensor), NULL);
  if (!name_is_free (self, name, error))
    return NULL;
  OrtrainValue *value = ortrain_graph_new_initializer (self, name, tensor);
  tell (self);
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
 * Adds a node at the end.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL with an error of [error@GraphError]
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
                       "There is no value '%s' for input %u of %s", inputs[i], i, op_type);
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
                         op_type, outputs[i]);
            return NULL;
          }
    }
  OrtrainNode *node = ortrain_graph_new_node (self, domain, op_type, name, values, n_inputs, 0);
  for (guint i = 0; i < n_outputs; i++)
    if (outputs[i][0] != '\0')
      ortrain_node_set_output (node, i, ortrain_graph_new_value (self, outputs[i]));
  tell (self);
  return node;
}

/**
 * ortrain_graph_add_output:
 * @self: a graph
 * @name: the name of a value
 * @error: return location for an error
 *
 * Makes a value an output of the graph.
 *
 * Returns: %FALSE with an error of [error@GraphError] when there is no such value
 */
gboolean
ortrain_graph_add_output (OrtrainGraph *self, const char *name, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  OrtrainValue *value = g_hash_table_lookup (self->by_name, name);
  if (value == NULL)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "There is no value '%s'", name);
      return FALSE;
    }
  ortrain_graph_mark_output (self, value, TRUE);
  tell (self);
  return TRUE;
}

/**
 * ortrain_graph_remove_node:
 * @self: a graph
 * @node: a node of it
 * @error: return location for an error
 *
 * Removes a node whose outputs nobody reads.
 *
 * Returns: %FALSE with an error of [error@GraphError] when an output is still read
 */
gboolean
ortrain_graph_remove_node (OrtrainGraph *self, OrtrainNode *node, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_NODE (node) && node->graph == self, FALSE);
  for (guint i = 0; i < node->outputs->len; i++)
    {
      OrtrainValue *value = node->outputs->pdata[i];
      if (value != NULL && (value->uses->len > 0 || value->is_output))
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "The output '%s' of %s is still read",
                       value->name, node->op_type);
          return FALSE;
        }
    }
  ortrain_graph_delete_node (self, node);
  tell (self);
  return TRUE;
}

/**
 * ortrain_graph_replace_value:
 * @self: a graph
 * @value: a value of it
 * @replacement: another value of it
 * @error: return location for an error
 *
 * Lets everybody who reads @value read @replacement.
 *
 * Returns: %FALSE with an error of [error@GraphError] when that would make a cycle; the graph is then as it was
 */
gboolean
ortrain_graph_replace_value (OrtrainGraph *self, OrtrainValue *value, OrtrainValue *replacement, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_VALUE (value) && value->graph == self, FALSE);
  g_return_val_if_fail (ORTRAIN_IS_VALUE (replacement) && replacement->graph == self, FALSE);
  if (value == replacement)
    return TRUE;
  g_autoptr (GArray) uses = g_array_copy (value->uses);
  for (guint i = 0; i < uses->len; i++)
    {
      OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      ortrain_node_set_input (use.node, use.index, replacement);
    }
  if (!ortrain_graph_sort (self, NULL))
    {
      for (guint i = 0; i < uses->len; i++)
        {
          OrtrainUse use = g_array_index (uses, OrtrainUse, i);
          ortrain_node_set_input (use.node, use.index, value);
        }
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_CYCLE,
                   "'%s' in the place of '%s' would make a cycle", replacement->name, value->name);
      return FALSE;
    }
  ortrain_value_replace_uses (value, replacement);
  tell (self);
  return TRUE;
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
