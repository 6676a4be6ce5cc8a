/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

/* The steps that every change of a graph is created of: they keep uses, producers, names and ids in step. */

#define MANY_OUTPUTS 128

/* ---- Creating ---- */

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
ortrain_graph_take_value (OrtrainGraph *self, char *name)
{
  OrtrainValue *value = g_object_new (ORTRAIN_TYPE_VALUE, NULL);
  value->graph = self;
  value->name = name;
  value->id = self->values->len;
  g_ptr_array_add (self->values, value);
  g_hash_table_insert (self->by_name, value->name, value);
  return value;
}

OrtrainValue *
ortrain_graph_new_value (OrtrainGraph *self, const char *name)
{
  OrtrainValue *value = ortrain_graph_take_value (self, unique_name (self, name));
  value->is_named = name != NULL && *name != '\0';
  return value;
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
ortrain_graph_new_held (OrtrainGraph *self, const char *name, OrtrainDType dtype, const OrtrainDim *dims, gint rank)
{
  OrtrainValue *value = ortrain_graph_new_value (self, name);
  value->kind = ORTRAIN_VALUE_HELD;
  ortrain_value_set_shape (value, dtype, dims, rank);
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
  /* a type that is no number: the operator that reads the constant says so */
  return ortrain_graph_new_initializer (self, "const", tensor != NULL ? tensor : wide);
}

/* The list of outputs is searched from its end; in a long one, from where a table says that the value was. */
static guint
find_output (OrtrainGraph *self, const OrtrainValue *value)
{
  guint end = self->outputs->len;
  if (end >= MANY_OUTPUTS && self->output_positions == NULL)
    {
      self->output_positions = g_hash_table_new (NULL, NULL);
      for (guint i = 0; i < end; i++)
        g_hash_table_insert (self->output_positions, self->outputs->pdata[i], GUINT_TO_POINTER (i));
    }
  if (self->output_positions != NULL)
    end = MIN (end, GPOINTER_TO_UINT (g_hash_table_lookup (self->output_positions, value)) + 1);
  while (self->outputs->pdata[end - 1] != value)
    end--;
  return end - 1;
}

static void
set_output_position (OrtrainGraph *self, OrtrainValue *value, guint position)
{
  self->outputs->pdata[position] = value;
  if (self->output_positions != NULL)
    g_hash_table_insert (self->output_positions, value, GUINT_TO_POINTER (position));
}

void
ortrain_graph_replace_output (OrtrainGraph *self, OrtrainValue *value, OrtrainValue *replacement)
{
  const guint position = find_output (self, value);
  if (self->output_positions != NULL)
    g_hash_table_remove (self->output_positions, value);
  set_output_position (self, replacement, position);
  value->is_output = FALSE;
  replacement->is_output = TRUE;
}

void
ortrain_graph_filter_outputs (OrtrainGraph *self, gboolean (*keep) (OrtrainValue *value, gpointer data), gpointer data)
{
  guint n = 0;
  for (guint i = 0; i < self->outputs->len; i++)
    {
      OrtrainValue *value = self->outputs->pdata[i];
      value->is_output = keep (value, data) != FALSE;
      if (value->is_output)
        self->outputs->pdata[n++] = value;
    }
  g_ptr_array_set_size (self->outputs, (gint) n);
  g_clear_pointer (&self->output_positions, g_hash_table_unref);
}

void
ortrain_graph_mark_output (OrtrainGraph *self, OrtrainValue *value, gboolean is_output)
{
  is_output = is_output != FALSE;
  if ((guint) is_output == value->is_output)
    return;
  value->is_output = (guint) is_output;
  if (is_output)
    {
      g_ptr_array_add (self->outputs, value);
      set_output_position (self, value, self->outputs->len - 1);
    }
  else
    {
      g_ptr_array_remove_index (self->outputs, find_output (self, value));
      if (self->output_positions != NULL)
        g_hash_table_remove (self->output_positions, value);
    }
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
  if (value->uses.n > 0)
    self->graph->is_sorted = FALSE;
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
    ortrain_value_remove_use (old, self, index);
  self->inputs->pdata[index] = value;
  if (value != NULL)
    ortrain_value_add_use (value, self, index);
  if (value != NULL && value->producer != NULL)
    self->graph->is_sorted = FALSE;
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
      value->is_named = FALSE;
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
ortrain_value_detach (OrtrainValue *self)
{
  self->graph = NULL;
  self->producer = NULL;
  self->partner = NULL;
  ortrain_value_clear_uses (self);
}

/* From the values, after all other lists. */
static void
delete_value (OrtrainGraph *self, OrtrainValue *value)
{
  if (g_hash_table_lookup (self->by_name, value->name) == value)
    g_hash_table_remove (self->by_name, value->name);
  /* The last value moves to the free id, so that ids stay dense. */
  guint id = value->id;
  OrtrainValue *last = self->values->pdata[self->values->len - 1];
  ortrain_value_detach (value);
  if (last != value)
    {
      self->values->pdata[id] = last;
      last->id = id;
      self->values->pdata[self->values->len - 1] = value;
    }
  g_ptr_array_set_size (self->values, (gint) self->values->len - 1);
}

void
ortrain_graph_delete_value (OrtrainGraph *self, OrtrainValue *value)
{
  g_return_if_fail (value->graph == self && value->uses.n == 0 && value->producer == NULL);
  ortrain_graph_mark_output (self, value, FALSE);
  if (value->kind == ORTRAIN_VALUE_INPUT)
    g_ptr_array_remove (self->inputs, value);
  else if (value->kind == ORTRAIN_VALUE_INITIALIZER)
    g_ptr_array_remove (self->initializers, value);
  delete_value (self, value);
}

void
ortrain_graph_delete_initializers (OrtrainGraph *self, const gboolean *dead)
{
  g_autoptr (GPtrArray) deleted = g_ptr_array_new ();
  guint n = 0;
  for (guint i = 0; i < self->initializers->len; i++)
    {
      OrtrainValue *value = self->initializers->pdata[i];
      if (dead[i])
        g_ptr_array_add (deleted, value);
      else
        self->initializers->pdata[n++] = value;
    }
  g_ptr_array_set_size (self->initializers, (gint) n);
  for (guint i = deleted->len; i-- > 0;)
    {
      ortrain_graph_mark_output (self, deleted->pdata[i], FALSE);
      delete_value (self, deleted->pdata[i]);
    }
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
  self->is_named = name != NULL && *name != '\0';
  g_hash_table_insert (self->graph->by_name, self->name, self);
}
