/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

static gboolean read_nodes (OrtrainReaderState *state, OrtrainNameTable *scope, Ortrain__Ox__NodeProto **nodes, gsize n,
                            GError **error);

/* The nodes of the model's own graph (nodes is NULL) are unpacked when they are asked for: a pointer to one is good
 * until the next is. */
static const Ortrain__Ox__NodeProto *
get_node (OrtrainReaderState *state, Ortrain__Ox__NodeProto **nodes, gsize index, GError **error)
{
  return nodes != NULL ? nodes[index] : ortrain_proto_parts_get_node (state->parts, index, error);
}

/* ---- Nodes ---- */

/* Defines the outputs of a node. *done is set if there is nothing left of it: its output is an initializer. */
static gboolean
define_outputs (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node, gsize index,
                gboolean *done, GError **error)
{
  g_autofree char *owner = ortrain_reader_describe (node);
  *done = FALSE;
  if (ortrain_reader_text (node->op_type)[0] == '\0')
    return ortrain_reader_invalid (error, "A node (first output '%s') has no operator type",
                                   ortrain_text_show (node->n_output > 0 ? node->output[0] : ""));
  if (scope->outermost)
    {
      if (!ortrain_reader_take_initializer (state, scope, node, index, done, error))
        return FALSE;
      if (*done)
        return TRUE;
    }
  for (gsize i = 0; i < node->n_output; i++)
    {
      const char *name = node->output[i];
      if (*name == '\0')
        continue;
      OrtrainValue *value = scope->results != NULL ? g_hash_table_lookup (scope->results, name) : NULL;
      if (value == NULL)
        {
          g_autofree char *full = ortrain_name_table_make_name (scope, name);
          value = ortrain_graph_new_value (scope->graph, full);
        }
      if (!scope->outermost && ortrain_reader_get_kind (node) == ORTRAIN_OP_KIND_CONSTANT)
        ortrain_value_set_enclosure (value, scope->enclosure);
      if (!ortrain_name_table_define (state, scope, name, value, owner, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
resolve_input (OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node, const char *name, OrtrainValue **value,
               GError **error)
{
  if (ortrain_name_table_resolve (scope, name, value))
    return TRUE;
  g_autofree char *owner = ortrain_reader_describe (node);
  return ortrain_reader_invalid (error, "%s reads '%s', which no node computes", owner, ortrain_text_show (name));
}

static gboolean
inline_function (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node,
                 const OrtrainReaderFunction *function, GError **error)
{
  const Ortrain__Ox__FunctionProto *proto = function->proto;
  g_autofree char *owner = ortrain_reader_describe (node);
  guint max_depth = ortrain_model_limits_get_max_function_depth (state->reader->limits);

  if (scope->function_depth >= max_depth)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "%s: functions call each other more than %u levels deep (limit 'max-function-depth')", owner,
                   max_depth);
      return FALSE;
    }
  if (node->n_input > proto->n_input || node->n_output > proto->n_output)
    return ortrain_reader_invalid (error,
                                   "%s: the function has %" G_GSIZE_FORMAT " input%s and %" G_GSIZE_FORMAT
                                   " output%s, the call has %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT,
                                   owner, proto->n_input, ortrain_text_plural (proto->n_input), proto->n_output,
                                   ortrain_text_plural (proto->n_output), node->n_input, node->n_output);

  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) results = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree char *plain = ortrain_reader_text (node->name)[0] != '\0'
                               ? g_strdup (node->name)
                               : g_strdup_printf ("%s.%" G_GUINT64_FORMAT, node->op_type, state->n_inlined);
  g_autofree char *prefix = ortrain_name_table_make_name (scope, plain);
  g_autofree char *shown = ortrain_text_quote (ortrain_reader_text (proto->name));
  g_autofree char *text = g_strdup_printf ("function '%s'", shown);
  g_autoptr (GRefString) enclosure = g_ref_string_new (text);
  OrtrainReaderCall call = { function, node, scope };
  OrtrainNameTable inner = { .graph = scope->graph,
                             .names = names,
                             .results = results,
                             .call = &call,
                             .prefix = prefix,
                             .enclosure = enclosure,
                             .function_depth = scope->function_depth + 1 };
  state->n_inlined++;
  for (gsize i = 0; i < proto->n_input; i++)
    {
      OrtrainValue *value = NULL;
      if (i < node->n_input && !resolve_input (scope, node, node->input[i], &value, error))
        return FALSE;
      g_hash_table_insert (names, proto->input[i], value);
    }
  for (gsize i = 0; i < node->n_output; i++)
    {
      OrtrainValue *value = ortrain_name_table_lookup (scope, node->output[i]);
      if (*node->output[i] != '\0' && !g_hash_table_contains (results, proto->output[i]))
        g_hash_table_insert (results, proto->output[i], value);
    }
  if (!read_nodes (state, &inner, proto->node, proto->n_node, error))
    return FALSE;
  /* An output that is an input, or another output, of the function. */
  for (gsize i = 0; i < node->n_output; i++)
    {
      if (*node->output[i] == '\0')
        continue;
      OrtrainValue *value = ortrain_name_table_lookup (scope, node->output[i]);
      OrtrainValue *from = g_hash_table_lookup (names, proto->output[i]);
      if (value->producer != NULL)
        continue;
      if (from == NULL || from == value)
        return ortrain_reader_invalid (error, "%s: no node of the function computes its output '%s'", owner,
                                       ortrain_text_show (proto->output[i]));
      OrtrainNode *identity = ortrain_graph_new_node (scope->graph, "", "Identity", prefix, &from, 1, 0);
      ortrain_node_set_output (identity, 0, value);
    }
  return TRUE;
}

static gboolean
read_node (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__NodeProto *node, GError **error)
{
  /* Functions that call functions expand a few bytes to many nodes: their number stays in proportion to the file. */
  guint64 max_nodes = MIN (ortrain_model_limits_get_max_nodes (state->reader->limits),
                           10000 + 256 * state->reader->tensors->scan->n_nodes);
  if (++state->n_nodes > max_nodes)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "The model with its functions inlined has more than %" G_GUINT64_FORMAT " nodes (limit 'max-nodes')",
                   max_nodes);
      return FALSE;
    }
  const OrtrainReaderFunction *function = ortrain_reader_find_function (state, node);
  if (function != NULL)
    return inline_function (state, scope, node, function, error);

  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, node->n_input + 1);
  for (gsize i = 0; i < node->n_input; i++)
    if (!resolve_input (scope, node, node->input[i], &inputs[i], error))
      return FALSE;
  g_autofree char *name = ortrain_name_table_make_name (scope, ortrain_reader_text (node->name));
  OrtrainNode *created = ortrain_graph_new_node (scope->graph, ortrain_reader_domain (node->domain), node->op_type,
                                                 name, inputs, (guint) node->n_input, 0);
  for (gsize i = 0; i < node->n_output; i++)
    {
      OrtrainValue *value = *node->output[i] != '\0' ? ortrain_name_table_lookup (scope, node->output[i]) : NULL;
      if (value == NULL)
        continue;
      if (!ortrain_node_set_output (created, (guint) i, value))
        {
          g_autofree char *owner = ortrain_reader_describe (node);
          return ortrain_reader_invalid (error, "Output '%s' of %s is computed by two nodes",
                                         ortrain_text_show (node->output[i]), owner);
        }
    }
  if (scope->outermost)
    ortrain_reader_split_merged (state, node, created);
  ortrain_reader_read_scope (state, node, created);
  return ortrain_reader_read_attributes (state, scope, node, created->attributes, error);
}

static gboolean
read_nodes (OrtrainReaderState *state, OrtrainNameTable *scope, Ortrain__Ox__NodeProto **nodes, gsize n, GError **error)
{
  g_autofree gboolean *done = g_new0 (gboolean, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      const Ortrain__Ox__NodeProto *node = get_node (state, nodes, i, error);
      if (node == NULL || !define_outputs (state, scope, node, i, &done[i], error))
        return FALSE;
    }
  if (scope->outermost)
    scope->n_defined = scope->graph->values->len;
  for (gsize i = 0; i < n; i++)
    {
      const Ortrain__Ox__NodeProto *node = done[i] ? NULL : get_node (state, nodes, i, error);
      if (!done[i] && (node == NULL || !read_node (state, scope, node, error)))
        return FALSE;
    }
  return TRUE;
}

/* ---- Graphs ---- */

static gboolean
read_inputs (OrtrainReaderState *state, OrtrainNameTable *scope, const Ortrain__Ox__GraphProto *proto, GError **error)
{
  guint n_overridable = 0;
  for (gsize i = 0; i < proto->n_input; i++)
    {
      const Ortrain__Ox__ValueInfoProto *info = proto->input[i];
      OrtrainDType dtype;
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      gint rank;

      if (ortrain_reader_text (info->name)[0] == '\0')
        return ortrain_reader_invalid (error, "Input %" G_GSIZE_FORMAT " of graph '%s' has no name", i,
                                       ortrain_text_show (ortrain_reader_text (proto->name)));
      OrtrainValue *initializer = ortrain_name_table_lookup (scope, info->name);
      if (initializer != NULL && initializer->kind == ORTRAIN_VALUE_INITIALIZER)
        {
          n_overridable++;
          continue;
        }
      if (!ortrain_reader_read_type (state, scope->graph, info, TRUE, &dtype, dims, &rank, error) ||
          !ortrain_name_table_define (state, scope, info->name,
                                      ortrain_graph_new_input (scope->graph, info->name, dtype, dims, rank),
                                      "the graph's inputs", error))
        return FALSE;
    }
  if (n_overridable > 0 && scope->outermost)
    g_ptr_array_add (
        state->reader->notes,
        n_overridable == 1
            ? g_strdup ("1 initializer is listed as an input of the graph as well; it is a weight, not an input")
            : g_strdup_printf (
                  "%u initializers are listed as inputs of the graph as well; they are weights, not inputs",
                  n_overridable));
  return TRUE;
}

static gboolean
read_outputs (OrtrainNameTable *scope, const Ortrain__Ox__GraphProto *proto, GError **error)
{
  for (gsize i = 0; i < proto->n_output; i++)
    {
      const char *name = ortrain_reader_text (proto->output[i]->name);
      OrtrainValue *value;
      if (*name == '\0' || !ortrain_name_table_resolve (scope, name, &value) || value == NULL)
        return ortrain_reader_invalid (error, "No node computes output '%s' of graph '%s'", ortrain_text_show (name),
                                       ortrain_text_show (ortrain_reader_text (proto->name)));
      gboolean captured = value->kind == ORTRAIN_VALUE_COMPUTED && value->producer == NULL;
      if (captured && scope->outer == NULL)
        return ortrain_reader_invalid (error, "No node computes output '%s' of graph '%s'", ortrain_text_show (name),
                                       ortrain_text_show (ortrain_reader_text (proto->name)));
      if (captured || value->is_output)
        {
          /* a body that gives back a value of the outer graph, or one value twice */
          if (scope->outer == NULL)
            return ortrain_reader_invalid (error, "Output '%s' of graph '%s' is listed twice", ortrain_text_show (name),
                                           ortrain_text_show (ortrain_reader_text (proto->name)));
          OrtrainNode *identity = ortrain_graph_new_node (scope->graph, "", "Identity", NULL, &value, 1, 1);
          value = ortrain_node_output (identity, 0);
        }
      ortrain_graph_mark_output (scope->graph, value, TRUE);
    }
  return TRUE;
}

/* Hints for inference. Bodies of control flow are inferred where they are put. */
static gboolean
read_declarations (OrtrainReaderState *state, const OrtrainNameTable *scope, const Ortrain__Ox__GraphProto *proto,
                   GError **error)
{
  if (scope->outer != NULL || state->reader->ignores_declarations)
    return TRUE;
  for (gsize i = 0; i < proto->n_output + proto->n_value_info; i++)
    {
      gboolean is_output = i < proto->n_output;
      const Ortrain__Ox__ValueInfoProto *info = is_output ? proto->output[i] : proto->value_info[i - proto->n_output];
      OrtrainDType dtype;
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      gint rank;
      OrtrainValue *value = ortrain_name_table_lookup (scope, ortrain_reader_text (info->name));
      if (value == NULL || value->kind != ORTRAIN_VALUE_COMPUTED || value->producer == NULL)
        continue;
      if (!ortrain_reader_read_type (state, scope->graph, info, is_output, &dtype, dims, &rank, error))
        return FALSE;
      ortrain_value_declare (value, dtype, dims, rank);
    }
  return TRUE;
}

static OrtrainGraph *
read_graph (OrtrainReaderState *state, OrtrainNameTable *outer, const Ortrain__Ox__GraphProto *proto, char *enclosure,
            GError **error)
{
  const Ortrain__Ox__ModelProto *model = state->reader->proto;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new (ortrain_reader_text (proto->name));
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  OrtrainNameTable scope = {
    .outer = outer,
    .graph = graph,
    .names = names,
    .enclosure = enclosure,
    .outermost = outer == NULL,
    .n_defined = G_MAXUINT,
  };

  graph->labels = g_ptr_array_ref (state->labels);
  if (outer != NULL)
    {
      scope.call = outer->call;
      scope.function_depth = outer->function_depth;
      graph->parent = outer->graph;
      ortrain_dim_space_unref (graph->dims);
      graph->dims = ortrain_dim_space_ref (outer->graph->dims);
    }
  for (gsize i = 0; i < model->n_opset_import; i++)
    {
      const char *domain = ortrain_reader_domain (model->opset_import[i]->domain);
      gint64 version = CLAMP (ortrain_graph_reader_get_opset (model, domain), 0, G_MAXINT);
      g_hash_table_insert (graph->opsets, g_strdup (domain), GINT_TO_POINTER ((gint) version));
    }
  graph->opset = GPOINTER_TO_INT (g_hash_table_lookup (graph->opsets, ""));

  if (!ortrain_reader_read_initializers (state, &scope, proto, error) || !read_inputs (state, &scope, proto, error) ||
      !read_nodes (state, &scope, outer != NULL ? proto->node : NULL,
                   outer != NULL ? proto->n_node : state->reader->tensors->scan->nodes->len, error) ||
      !read_outputs (&scope, proto, error) || !read_declarations (state, &scope, proto, error) ||
      !ortrain_graph_sort (graph, error))
    return NULL;
  return g_steal_pointer (&graph);
}

static void
origin_free (gpointer data)
{
  OrtrainOrigin *self = data;
  g_free (self->of);
  g_free (self);
}

gboolean
ortrain_graph_reader_read (OrtrainGraphReader *self, GError **error)
{
  g_autoptr (GHashTable) functions =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, ortrain_reader_function_free);
  g_autoptr (GHashTable) uses = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) tables = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) outputs = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) placeholders = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) program_tensors = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GArray) left_out_biases = g_array_new (FALSE, FALSE, sizeof (OrtrainLeftOutBias));
  g_autoptr (GPtrArray) uncalled = g_ptr_array_new ();
  g_autoptr (GHashTable) one_valued = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) label_positions = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) labels = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GStringChunk) strings = g_string_chunk_new (4096);
  g_autoptr (OrtrainProtoParts) parts =
      ortrain_proto_parts_new (self->tensors->scan, g_bytes_get_size (self->tensors->file));
  OrtrainReaderState state = { .reader = self,
                               .read_graph = read_graph,
                               .parts = parts,
                               .strings = strings,
                               .functions = functions,
                               .uses = uses,
                               .tables = tables,
                               .outputs = outputs,
                               .placeholders = placeholders,
                               .program_tensors = program_tensors,
                               .one_valued = one_valued,
                               .left_out_biases = left_out_biases,
                               .uncalled = uncalled,
                               .labels = labels,
                               .label_positions = label_positions };
  const Ortrain__Ox__GraphProto *graph = self->proto->graph;

  g_ptr_array_add (labels, NULL);
  self->notes = g_ptr_array_new_with_free_func (g_free);
  self->origins = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, origin_free);
  if (graph == NULL)
    return ortrain_reader_invalid (error, "The model has no graph");
  if (!ortrain_reader_collect_functions (&state, error) || !ortrain_reader_find_uses (&state, error))
    return FALSE;
  ortrain_reader_read_placeholders (&state);
  for (gsize i = 0; i < graph->n_output; i++)
    g_hash_table_add (outputs, (gpointer) ortrain_reader_text (graph->output[i]->name));
  self->graph = read_graph (&state, NULL, graph, NULL, error);
  if (self->graph == NULL)
    {
      g_free (state.split_example);
      return FALSE;
    }
  const gboolean ok = ortrain_reader_finish_split (&state, error);
  g_free (state.split_example);
  if (!ok)
    return FALSE;
  ortrain_reader_read_provenance (&state);
  if (state.n_inlined > 0)
    g_ptr_array_add (self->notes,
                     state.n_inlined == 1
                         ? g_strdup ("1 call of a function was replaced by its body")
                         : g_strdup_printf ("%" G_GUINT64_FORMAT " calls of functions were replaced by their bodies",
                                            state.n_inlined));
  return TRUE;
}

void
ortrain_graph_reader_clear (OrtrainGraphReader *self)
{
  g_clear_object (&self->graph);
  g_clear_pointer (&self->notes, g_ptr_array_unref);
  g_clear_pointer (&self->origins, g_hash_table_unref);
  g_clear_error (&self->unsupported);
}
