/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

/* The initializers of a file, and other nodes that become initializers in the graph: the contents of Constant nodes,
 * and Identity nodes where an exporter merged initializers. */

/* ---- Where the file has their contents ---- */

void
ortrain_reader_add_origin (OrtrainReaderState *state, const char *name, OrtrainOriginKind kind, const char *of)
{
  OrtrainOrigin *origin = g_new0 (OrtrainOrigin, 1);
  origin->kind = kind;
  origin->of = g_strdup (of);
  g_hash_table_insert (state->reader->origins, g_strdup (name), origin);
}

const OrtrainOrigin *
ortrain_graph_reader_find_origin (const OrtrainGraphReader *self, const OrtrainValue *value)
{
  static const OrtrainOrigin plain = { ORTRAIN_ORIGIN_INITIALIZER, NULL };
  if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER)
    return NULL;
  const OrtrainOrigin *origin = g_hash_table_lookup (self->origins, value->name);
  return origin != NULL ? origin : &plain;
}

/* ---- Nodes that become initializers ---- */

/* The contents of a Constant node, when they are a tensor that this library computes with. */
static gboolean
constant_contents (OrtrainReaderState *state, const Ortrain__Ox__NodeProto *node, OrtrainTensor **tensor,
                   GError **error)
{
  *tensor = NULL;
  if (node->n_attribute != 1)
    return TRUE;
  const Ortrain__Ox__AttributeProto *attribute = node->attribute[0];
  const char *name = ortrain_reader_text (attribute->name);
  const gint64 n_floats = (gint64) attribute->n_floats, n_ints = (gint64) attribute->n_ints;
  g_autofree char *owner = ortrain_reader_describe (node);

  if (ortrain_reader_text (attribute->ref_attr_name)[0] != '\0')
    return TRUE;
  if (g_str_equal (name, "value") && attribute->t != NULL)
    {
      GError *local_error = NULL;
      OrtrainTensor *found = ortrain_proto_tensors_get (state->reader->tensors, attribute->t, owner, &local_error);
      if (found != NULL)
        *tensor = g_object_ref (found);
      else if (!ortrain_reader_postpone (state, &local_error))
        {
          g_propagate_error (error, local_error);
          return FALSE;
        }
      return TRUE;
    }
  GError *local_error = NULL;
  if (g_str_equal (name, "sparse_value") && attribute->sparse_tensor != NULL)
    *tensor = ortrain_proto_tensors_densify (state->reader->tensors, attribute->sparse_tensor, owner, &local_error);
  else if (g_str_equal (name, "value_float"))
    *tensor = ortrain_tensor_new_floats (NULL, 0, &attribute->f, 1, &local_error);
  else if (g_str_equal (name, "value_floats"))
    *tensor = ortrain_tensor_new_floats (&n_floats, 1, attribute->floats, attribute->n_floats, &local_error);
  else if (g_str_equal (name, "value_int"))
    *tensor = ortrain_tensor_new_ints (NULL, 0, (const gint64 *) &attribute->i, 1, &local_error);
  else if (g_str_equal (name, "value_ints"))
    *tensor = ortrain_tensor_new_ints (&n_ints, 1, (const gint64 *) attribute->ints, attribute->n_ints, &local_error);
  if (local_error == NULL || ortrain_reader_postpone (state, &local_error))
    return TRUE;
  g_propagate_error (error, local_error);
  return FALSE;
}

gboolean
ortrain_reader_tensor_varies (OrtrainTensor *tensor)
{
  const gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (tensor));
  const guint8 *data = ortrain_tensor_peek_unaligned (tensor);
  for (gsize i = 1; data != NULL && i < (gsize) ortrain_tensor_get_n_elements (tensor); i++)
    if (memcmp (data, data + i * size, size) != 0)
      return TRUE;
  return FALSE;
}

/* Whether one of two names of an initializer is a table of rows that are looked up, and the other is used otherwise: an
 * embedding that is the weight of the output, too, which PyTorch's older exporter writes so for a scripted program.
 * Initializers that are equal by accident, or were copied, have the same uses, or one value everywhere. */
static gboolean
is_table_and_weight (OrtrainReaderState *state, const char *first, const char *second, OrtrainTensor *tensor)
{
  return g_hash_table_contains (state->tables, first) != g_hash_table_contains (state->tables, second) &&
         ortrain_tensor_get_rank (tensor) == 2 && ortrain_reader_tensor_varies (tensor);
}

/* The initializer that an Identity node passes on while others read it too. Exporters write such a node for two things:
 * for parameters of their own that had equal values when the exporter ran, which are to be trained apart, and for one
 * parameter that a program hands on. The first stand at the beginning of the file; the second among the operators of
 * the program, or are a table and a weight. */
static OrtrainValue *
merged_initializer (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node, gsize index)
{
  if (index >= state->n_leading_identities || node->n_input != 1 || node->n_output != 1 ||
      g_hash_table_contains (state->outputs, node->output[0]) ||
      GPOINTER_TO_UINT (g_hash_table_lookup (state->uses, node->input[0])) < 2)
    return NULL;
  OrtrainValue *value = ortrain_name_table_lookup (scope, node->input[0]);
  if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER || !ortrain_dtype_is_floating (value->dtype) ||
      is_table_and_weight (state, node->input[0], node->output[0], value->tensor))
    return NULL;
  return value;
}

/* The same after an export that wrote the initializer for this node: it is known by the name that it had before. */
static gboolean
take_separated (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node)
{
  if (ortrain_reader_get_kind (node) != ORTRAIN_OP_KIND_IDENTITY || node->n_input != 1 || node->n_output != 1 ||
      g_hash_table_contains (state->outputs, node->output[0]) ||
      g_hash_table_contains (state->outputs, node->input[0]) ||
      GPOINTER_TO_UINT (g_hash_table_lookup (state->uses, node->input[0])) != 1)
    return FALSE;
  OrtrainValue *value = ortrain_name_table_lookup (scope, node->input[0]);
  g_autofree char *start = g_strconcat (node->output[0], ORTRAIN_SEPARATED_SUFFIX, NULL);
  if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER || !g_str_has_prefix (node->input[0], start) ||
      g_hash_table_contains (scope->graph->by_name, node->output[0]))
    return FALSE;
  const OrtrainOrigin *origin = ortrain_graph_reader_find_origin (state->reader, value);
  if (origin == NULL || origin->kind != ORTRAIN_ORIGIN_INITIALIZER)
    return FALSE;
  ortrain_value_rename (value, node->output[0]);
  ortrain_name_table_insert (state, scope, node->input[0], value);
  ortrain_name_table_insert (state, scope, node->output[0], value);
  ortrain_reader_add_origin (state, node->output[0], ORTRAIN_ORIGIN_SEPARATED, node->input[0]);
  return TRUE;
}

gboolean
ortrain_reader_take_initializer (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node,
                                 gsize index, gboolean *taken, GError **error)
{
  *taken = FALSE;
  if (node->n_output != 1 || node->output[0][0] == '\0')
    return TRUE;
  const char *name = node->output[0];
  if (ortrain_name_table_lookup (scope, name) == NULL && take_separated (state, scope, node))
    {
      *taken = TRUE;
      return TRUE;
    }
  OrtrainValue *merged = merged_initializer (state, scope, node, index);
  g_autoptr (OrtrainTensor) tensor = merged != NULL ? g_object_ref (merged->tensor) : NULL;
  if (ortrain_reader_get_kind (node) == ORTRAIN_OP_KIND_CONSTANT && !constant_contents (state, node, &tensor, error))
    return FALSE;
  if (tensor == NULL)
    return TRUE;
  g_autofree char *owner = ortrain_reader_describe (node);
  OrtrainValue *value = ortrain_graph_new_initializer (scope->graph, name, tensor);
  if (!ortrain_name_table_define (state, scope, name, value, owner, error))
    return FALSE;
  ortrain_reader_add_origin (state, name, merged != NULL ? ORTRAIN_ORIGIN_IDENTITY : ORTRAIN_ORIGIN_CONSTANT,
                             merged != NULL ? merged->name : NULL);
  if (merged != NULL)
    g_ptr_array_add (
        state->reader->notes,
        g_strdup_printf ("'%s' and '%s' share one initializer, through an Identity node: the exporter merged "
                         "parameters that had equal values. Each is trained on its own unless they are tied",
                         ortrain_text_show (merged->name), ortrain_text_show (name)));
  *taken = TRUE;
  return TRUE;
}

/* ---- How often they are read ---- */

static void
add_used (OrtrainReaderState *state, const char *name)
{
  if (!g_hash_table_contains (state->uses, name))
    g_hash_table_insert (state->uses, g_string_chunk_insert (state->strings, name), NULL);
}

/* Counts uses of names that are in the table. */
static void
count_uses (GHashTable *uses, const Ortrain__Ox__NodeProto *node)
{
  for (gsize k = 0; k < node->n_input; k++)
    {
      gpointer name, n;
      if (g_hash_table_lookup_extended (uses, node->input[k], &name, &n))
        g_hash_table_insert (uses, name, GUINT_TO_POINTER (GPOINTER_TO_UINT (n) + 1));
    }
  for (gsize k = 0; k < node->n_attribute; k++)
    {
      const Ortrain__Ox__AttributeProto *attribute = node->attribute[k];
      for (gsize g = 0; g < attribute->n_graphs + 1; g++)
        {
          const Ortrain__Ox__GraphProto *graph = g < attribute->n_graphs ? attribute->graphs[g] : attribute->g;
          for (gsize i = 0; graph != NULL && i < graph->n_node; i++)
            count_uses (uses, graph->node[i]);
        }
    }
}

/* Counts how often the model's graph and its subgraphs read its initializers, and the results of Constant and Identity
 * nodes, which may become initializers. */
gboolean
ortrain_reader_find_uses (OrtrainReaderState *state, GError **error)
{
  const OrtrainWireScan *scan = state->reader->tensors->scan;
  const Ortrain__Ox__GraphProto *graph = state->reader->proto->graph;
  for (gsize i = 0; i < scan->initializers->len; i++)
    {
      const Ortrain__Ox__TensorProto *tensor = ortrain_proto_parts_get_initializer (state->parts, i, error);
      if (tensor == NULL)
        return FALSE;
      add_used (state, ortrain_reader_text (tensor->name));
    }
  for (gsize i = 0; i < graph->n_sparse_initializer; i++)
    if (graph->sparse_initializer[i]->values != NULL)
      add_used (state, ortrain_reader_text (graph->sparse_initializer[i]->values->name));
  for (gsize i = 0; i < scan->nodes->len; i++)
    {
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (state->parts, i, error);
      if (node == NULL)
        return FALSE;
      const OrtrainOpKind kind = ortrain_reader_get_kind (node);
      if (kind == ORTRAIN_OP_KIND_IDENTITY && state->n_leading_identities == i)
        state->n_leading_identities++;
      if (node->n_output == 1 && (kind == ORTRAIN_OP_KIND_CONSTANT || kind == ORTRAIN_OP_KIND_IDENTITY))
        add_used (state, node->output[0]);
    }
  for (gsize i = 0; i < scan->nodes->len && g_hash_table_size (state->uses) > 0; i++)
    {
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (state->parts, i, error);
      if (node == NULL)
        return FALSE;
      count_uses (state->uses, node);
      gpointer name;
      if (ortrain_reader_get_kind (node) == ORTRAIN_OP_KIND_LOOKUP && node->n_input > 0 &&
          g_hash_table_lookup_extended (state->uses, node->input[0], &name, NULL))
        g_hash_table_add (state->tables, name);
    }
  return TRUE;
}

/* ---- Initializers of the file ---- */

gboolean
ortrain_reader_read_initializers (OrtrainReaderState *state, OrtrainNameTable *scope,
                                  const Ortrain__Ox__GraphProto *proto, GError **error)
{
  const gsize n_dense = scope->outermost ? state->reader->tensors->scan->initializers->len : proto->n_initializer;
  for (gsize i = 0; i < n_dense + proto->n_sparse_initializer; i++)
    {
      const Ortrain__Ox__SparseTensorProto *sparse = i >= n_dense ? proto->sparse_initializer[i - n_dense] : NULL;
      const Ortrain__Ox__TensorProto *dense = sparse != NULL      ? sparse->values
                                              : !scope->outermost ? proto->initializer[i]
                                                                  : NULL;
      if (sparse == NULL && dense == NULL &&
          (dense = ortrain_proto_parts_get_initializer (state->parts, i, error)) == NULL)
        return FALSE;
      const char *name = dense != NULL ? ortrain_reader_text (dense->name) : "";
      GError *local_error = NULL;
      g_autoptr (OrtrainTensor) tensor = NULL;

      if (*name == '\0')
        return ortrain_reader_invalid (error, "Initializer %" G_GSIZE_FORMAT " has no name", i);
      if (sparse != NULL)
        tensor = ortrain_proto_tensors_densify (state->reader->tensors, sparse, name, &local_error);
      else
        {
          tensor = ortrain_proto_tensors_get (state->reader->tensors, dense, name, &local_error);
          if (tensor != NULL)
            g_object_ref (tensor);
        }
      if (tensor == NULL && !ortrain_reader_postpone (state, &local_error))
        {
          g_propagate_error (error, local_error);
          return FALSE;
        }
      OrtrainValue *value = tensor != NULL ? ortrain_graph_new_initializer (scope->graph, name, tensor)
                                           : ortrain_graph_new_value (scope->graph, name);
      if (!ortrain_name_table_define (state, scope, name, value, "an initializer", error))
        return FALSE;
      if (!scope->outermost)
        ortrain_value_set_enclosure (value, scope->enclosure);
      else if (tensor != NULL && sparse != NULL)
        {
          ortrain_reader_add_origin (state, name, ORTRAIN_ORIGIN_SPARSE, NULL);
          g_ptr_array_add (state->reader->notes,
                           g_strdup_printf ("'%s' is stored as a sparse tensor; it is trained as a dense one",
                                            ortrain_text_show (name)));
        }
    }
  return TRUE;
}
