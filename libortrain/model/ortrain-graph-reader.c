/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

#include "tensor/ortrain-tensor-private.h"

#include <string.h>

static gboolean read_nodes (OrtrainReaderState *state, OrtrainReaderScope *scope, Ortrain__Ox__NodeProto **nodes,
                            gsize n, GError **error);

/* The nodes of the model's own graph (nodes is NULL) are unpacked when they are asked for: a pointer to one is good
 * until the next is. */
static const Ortrain__Ox__NodeProto *
get_node (OrtrainReaderState *state, Ortrain__Ox__NodeProto **nodes, gsize index, GError **error)
{
  return nodes != NULL ? nodes[index] : ortrain_proto_parts_get_node (state->parts, index, error);
}

gboolean
ortrain_reader_invalid (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, text);
  return FALSE;
}

void
ortrain_reader_unsupported (OrtrainReaderState *state, const char *format, ...)
{
  if (state->reader->unsupported != NULL)
    return;
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  state->reader->unsupported = g_error_new_literal (ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED, text);
}

gboolean
ortrain_reader_postpone (OrtrainReaderState *state, GError **local_error)
{
  if (!g_error_matches (*local_error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED))
    return FALSE;
  if (state->reader->unsupported == NULL)
    state->reader->unsupported = g_steal_pointer (local_error);
  else
    g_clear_error (local_error);
  return TRUE;
}

char *
ortrain_reader_describe (const Ortrain__Ox__NodeProto *node)
{
  const gboolean named = ortrain_reader_text (node->name)[0] != '\0';
  g_autofree char *op_type = ortrain_text_quote (ortrain_reader_text (node->op_type));
  g_autofree char *name = ortrain_text_quote (named ? node->name : node->n_output > 0 ? node->output[0] : "");
  return named ? g_strdup_printf ("%s “%s”", op_type, name) : g_strdup_printf ("%s (first output “%s”)", op_type, name);
}

gint64
ortrain_graph_reader_get_opset (const Ortrain__Ox__ModelProto *proto, const char *domain)
{
  gint64 version = 0;
  for (gsize i = 0; i < proto->n_opset_import; i++)
    if (g_str_equal (ortrain_reader_domain (proto->opset_import[i]->domain), domain))
      version = MAX (version, proto->opset_import[i]->version);
  return version;
}

/* ---- Types and values ---- */

/* Some writers put "?" or nothing for every size that they do not know: two of those are two sizes. */
static gboolean
is_name (const char *dim_param)
{
  while (g_ascii_isspace (*dim_param))
    dim_param++;
  return *dim_param != '\0' && *dim_param != '?' && !g_str_equal (dim_param, "-1");
}

/* What a ValueInfo declares. Sizes of 0 and less stand for any size. */
static gboolean
read_type (OrtrainReaderState *state, OrtrainGraph *graph, const Ortrain__Ox__ValueInfoProto *info, gboolean needed,
           OrtrainDType *dtype, OrtrainDim *dims, gint *rank, GError **error)
{
  *dtype = ORTRAIN_DTYPE_UNDEFINED;
  *rank = -1;
  if (info->type == NULL || info->type->value_case == ORTRAIN__OX__TYPE_PROTO__VALUE__NOT_SET)
    return TRUE;
  if (info->type->value_case != ORTRAIN__OX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    {
      if (needed)
        ortrain_reader_unsupported (state,
                                    "“%s” is a sequence, a map, an optional or a sparse tensor, which is not supported",
                                    ortrain_text_show (ortrain_reader_text (info->name)));
      return TRUE;
    }
  const Ortrain__Ox__TypeProto__Tensor *type = info->type->tensor_type;
  if (ortrain_dtype_is_valid (type->elem_type))
    *dtype = (OrtrainDType) type->elem_type;
  else if (needed && type->elem_type != 0)
    ortrain_reader_unsupported (state, "“%s” has element type %d of ONNX, which is not supported",
                                ortrain_text_show (ortrain_reader_text (info->name)), type->elem_type);
  if (type->shape == NULL)
    return TRUE;
  guint max_rank = MIN (ortrain_model_limits_get_max_rank (state->reader->limits), ORTRAIN_MAX_RANK);
  if (type->shape->n_dim > max_rank)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "“%s” has %" G_GSIZE_FORMAT " dimensions, more than the limit “max-rank” of %u",
                   ortrain_text_show (ortrain_reader_text (info->name)), type->shape->n_dim, max_rank);
      return FALSE;
    }
  *rank = (gint) type->shape->n_dim;
  for (gint i = 0; i < *rank; i++)
    {
      const Ortrain__Ox__TensorShapeProto__Dimension *dim = type->shape->dim[i];
      dims[i] = ortrain_dim_int (0);
      if (dim->value_case == ORTRAIN__OX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value > 0 &&
          dim->dim_value < (gint64) 1 << 48)
        dims[i] = ortrain_dim_int (dim->dim_value);
      else if (dim->value_case == ORTRAIN__OX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
               !state->reader->ignores_declarations && is_name (ortrain_reader_text (dim->dim_param)))
        dims[i] = ortrain_dim_symbol (graph->dims, dim->dim_param);
      else
        dims[i] = ortrain_dim_unknown (graph->dims);
    }
  return TRUE;
}

/* The value that a name is defined for in this scope. In the model's own graph that is mostly the value of that name;
 * not one of those that functions add, though, which come after all others. */
static gboolean
find (const OrtrainReaderScope *scope, const char *name, OrtrainValue **value)
{
  gpointer found;
  if (g_hash_table_lookup_extended (scope->names, name, NULL, &found))
    *value = found;
  else if (!scope->outermost || (*value = ortrain_graph_find_value (scope->graph, name)) == NULL ||
           (*value)->id >= scope->n_defined)
    {
      *value = NULL;
      return FALSE;
    }
  return TRUE;
}

static OrtrainValue *
lookup (const OrtrainReaderScope *scope, const char *name)
{
  OrtrainValue *value;
  return find (scope, name, &value) ? value : NULL;
}

/* The value that a name means here; a value of an outer graph is captured by one of the same name without a producer.
 * FALSE if nothing has that name. */
static gboolean
resolve (OrtrainReaderScope *scope, const char *name, OrtrainValue **value)
{
  OrtrainValue *outer;

  *value = NULL;
  if (*name == '\0')
    return TRUE;
  if (find (scope, name, value))
    return TRUE;
  if (scope->outer == NULL || !resolve (scope->outer, name, &outer))
    return FALSE;
  if (outer == NULL)
    return TRUE;
  OrtrainValue *other_value = g_hash_table_lookup (scope->graph->by_name, outer->name);
  if (other_value != NULL)
    {
      g_autofree char *other = g_strconcat (outer->name, ".inner", NULL);
      ortrain_value_rename (other_value, other);
    }
  *value = ortrain_graph_new_value (scope->graph, outer->name);
  ortrain_value_set_shape (*value, outer->dtype, outer->dims, outer->rank);
  g_hash_table_insert (scope->names, (gpointer) name, *value);
  return TRUE;
}

static gboolean
resolve_input (OrtrainReaderScope *scope, const Ortrain__Ox__NodeProto *node, const char *name, OrtrainValue **value,
               GError **error)
{
  if (resolve (scope, name, value))
    return TRUE;
  g_autofree char *owner = ortrain_reader_describe (node);
  return ortrain_reader_invalid (error, "%s reads “%s”, which nothing produces", owner, ortrain_text_show (name));
}

/* For the name that the value has, if it may have it. In the model's own graph the message that the name stands in goes
 * before the table does. */
static void
insert_name (OrtrainReaderState *state, OrtrainReaderScope *scope, const char *name, OrtrainValue *value)
{
  if (scope->outermost && g_str_equal (value->name, name))
    return;
  g_hash_table_insert (scope->names, scope->outermost ? g_string_chunk_insert (state->strings, name) : (char *) name,
                       value);
}

static gboolean
define (OrtrainReaderState *state, OrtrainReaderScope *scope, const char *name, OrtrainValue *value, const char *owner,
        GError **error)
{
  OrtrainValue *other;
  if (find (scope, name, &other) && other != value)
    return ortrain_reader_invalid (error, "value “%s” of %s is defined twice", ortrain_text_show (name), owner);
  insert_name (state, scope, name, value);
  return TRUE;
}

static void
add_origin (OrtrainReaderState *state, const char *name, OrtrainOriginKind kind, const char *of)
{
  OrtrainOrigin *origin = g_new0 (OrtrainOrigin, 1);
  origin->kind = kind;
  origin->of = g_strdup (of);
  g_hash_table_insert (state->reader->origins, g_strdup (name), origin);
}

static void
origin_free (gpointer data)
{
  OrtrainOrigin *self = data;
  g_free (self->of);
  g_free (self);
}

/* ---- Nodes ---- */

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

static gboolean
all_alike (OrtrainTensor *tensor)
{
  const guint8 *data = ortrain_tensor_peek_unaligned (tensor);
  gsize size = ortrain_dtype_get_size (ortrain_tensor_get_dtype (tensor)), n = ortrain_tensor_get_n_bytes (tensor);
  return n <= size || memcmp (data, data + size, n - size) == 0;
}

/* Exporters write the same Identity for two things: for parameters of their own that had equal values when the exporter
 * ran (the output then has a parameter's name), and for one parameter that a program uses several times (the output has
 * the name of a step of the computation). Only the first are to be trained apart. */
static gboolean
named_like_parameter (const char *name, OrtrainTensor *tensor)
{
  static const char *const steps[] = { "alias", "clone", "identity", "_to_copy", "detach", "lift_fresh_copy" };
  if (strchr (name, '/') != NULL || strstr (name, "_output_") != NULL || g_ascii_isdigit (*name))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    if (g_ascii_strncasecmp (name, steps[i], strlen (steps[i])) == 0)
      return FALSE;
  return strchr (name, '.') != NULL || all_alike (tensor);
}

static OrtrainOpKind
get_kind (const Ortrain__Ox__NodeProto *node)
{
  const OrtrainOpDef *row =
      ortrain_ops_lookup (ortrain_reader_domain (node->domain), ortrain_reader_text (node->op_type));
  return row != NULL ? row->kind : ORTRAIN_OP_KIND_OTHER;
}

/* The initializer that an Identity node passes on while others read it too. */
static OrtrainValue *
merged_initializer (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__NodeProto *node)
{
  if (get_kind (node) != ORTRAIN_OP_KIND_IDENTITY || node->n_input != 1 || node->n_output != 1 ||
      g_hash_table_contains (state->outputs, node->output[0]) ||
      GPOINTER_TO_UINT (g_hash_table_lookup (state->uses, node->input[0])) < 2)
    return NULL;
  OrtrainValue *value = lookup (scope, node->input[0]);
  if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER || !ortrain_dtype_is_floating (value->dtype) ||
      !named_like_parameter (node->output[0], value->tensor))
    return NULL;
  return value;
}

/* The same after an export that wrote the initializer for this node: it is known by the name that it had before. */
static gboolean
take_separated (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__NodeProto *node)
{
  if (get_kind (node) != ORTRAIN_OP_KIND_IDENTITY || node->n_input != 1 || node->n_output != 1 ||
      g_hash_table_contains (state->outputs, node->output[0]) ||
      g_hash_table_contains (state->outputs, node->input[0]) ||
      GPOINTER_TO_UINT (g_hash_table_lookup (state->uses, node->input[0])) != 1)
    return FALSE;
  OrtrainValue *value = lookup (scope, node->input[0]);
  g_autofree char *start = g_strconcat (node->output[0], ORTRAIN_SEPARATED_SUFFIX, NULL);
  if (value == NULL || value->kind != ORTRAIN_VALUE_INITIALIZER || !g_str_has_prefix (node->input[0], start) ||
      g_hash_table_contains (scope->graph->by_name, node->output[0]))
    return FALSE;
  const OrtrainOrigin *origin = ortrain_graph_reader_find_origin (state->reader, value);
  if (origin == NULL || origin->kind != ORTRAIN_ORIGIN_INITIALIZER)
    return FALSE;
  ortrain_value_rename (value, node->output[0]);
  insert_name (state, scope, node->input[0], value);
  insert_name (state, scope, node->output[0], value);
  add_origin (state, node->output[0], ORTRAIN_ORIGIN_SEPARATED, node->input[0]);
  return TRUE;
}

static char *
scoped_name (const OrtrainReaderScope *scope, const char *name)
{
  return scope->prefix != NULL ? g_strconcat (scope->prefix, "/", name, NULL) : g_strdup (name);
}

/* Defines the outputs of a node. *done is set if there is nothing left of it: its output is an initializer. */
static gboolean
define_outputs (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__NodeProto *node,
                gboolean *done, GError **error)
{
  g_autofree char *owner = ortrain_reader_describe (node);
  *done = FALSE;
  if (ortrain_reader_text (node->op_type)[0] == '\0')
    return ortrain_reader_invalid (error, "a node (first output “%s”) has no operator type",
                                   ortrain_text_show (node->n_output > 0 ? node->output[0] : ""));
  if (scope->outermost && node->n_output == 1 && node->output[0][0] != '\0')
    {
      const char *name = node->output[0];
      if (lookup (scope, name) == NULL && take_separated (state, scope, node))
        {
          *done = TRUE;
          return TRUE;
        }
      g_autoptr (OrtrainTensor) tensor = NULL;
      OrtrainValue *merged = NULL;
      if (get_kind (node) == ORTRAIN_OP_KIND_CONSTANT)
        {
          if (!constant_contents (state, node, &tensor, error))
            return FALSE;
        }
      else if ((merged = merged_initializer (state, scope, node)) != NULL)
        tensor = g_object_ref (merged->tensor);
      if (tensor != NULL)
        {
          OrtrainValue *value = ortrain_graph_new_initializer (scope->graph, name, tensor);
          if (!define (state, scope, name, value, owner, error))
            return FALSE;
          add_origin (state, name, merged != NULL ? ORTRAIN_ORIGIN_IDENTITY : ORTRAIN_ORIGIN_CONSTANT,
                      merged != NULL ? merged->name : NULL);
          if (merged != NULL)
            g_ptr_array_add (
                state->reader->notes,
                g_strdup_printf ("“%s” and “%s” share one initializer, through an Identity node: the exporter merged "
                                 "parameters that had equal values. Each is trained on its own unless they are tied",
                                 ortrain_text_show (merged->name), ortrain_text_show (name)));
          *done = TRUE;
          return TRUE;
        }
    }
  for (gsize i = 0; i < node->n_output; i++)
    {
      const char *name = node->output[i];
      if (*name == '\0')
        continue;
      OrtrainValue *value = scope->results != NULL ? g_hash_table_lookup (scope->results, name) : NULL;
      if (value == NULL)
        {
          g_autofree char *full = scoped_name (scope, name);
          value = ortrain_graph_new_value (scope->graph, full);
        }
      if (!scope->outermost && get_kind (node) == ORTRAIN_OP_KIND_CONSTANT)
        ortrain_value_set_enclosure (value, scope->enclosure);
      if (!define (state, scope, name, value, owner, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
inline_function (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__NodeProto *node,
                 const OrtrainReaderFunction *function, GError **error)
{
  const Ortrain__Ox__FunctionProto *proto = function->proto;
  g_autofree char *owner = ortrain_reader_describe (node);
  guint max_depth = ortrain_model_limits_get_max_function_depth (state->reader->limits);

  if (scope->function_depth >= max_depth)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "%s: functions call each other more than %u levels deep (limit “max-function-depth”)", owner,
                   max_depth);
      return FALSE;
    }
  if (node->n_input > proto->n_input || node->n_output > proto->n_output)
    return ortrain_reader_invalid (error,
                                   "%s: the function has %" G_GSIZE_FORMAT " inputs and %" G_GSIZE_FORMAT
                                   " outputs, not %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT,
                                   owner, proto->n_input, proto->n_output, node->n_input, node->n_output);

  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) results = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree char *plain = ortrain_reader_text (node->name)[0] != '\0'
                               ? g_strdup (node->name)
                               : g_strdup_printf ("%s.%" G_GUINT64_FORMAT, node->op_type, state->n_inlined);
  g_autofree char *prefix = scoped_name (scope, plain);
  g_autofree char *shown = ortrain_text_quote (ortrain_reader_text (proto->name));
  g_autofree char *text = g_strdup_printf ("function '%s'", shown);
  g_autoptr (GRefString) enclosure = g_ref_string_new (text);
  OrtrainReaderCall call = { function, node, scope };
  OrtrainReaderScope inner = { .graph = scope->graph,
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
      OrtrainValue *value = lookup (scope, node->output[i]);
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
      OrtrainValue *value = lookup (scope, node->output[i]);
      OrtrainValue *from = g_hash_table_lookup (names, proto->output[i]);
      if (value->producer != NULL)
        continue;
      if (from == NULL || from == value)
        return ortrain_reader_invalid (error, "%s: nothing in the function produces its output “%s”", owner,
                                       ortrain_text_show (proto->output[i]));
      OrtrainNode *identity = ortrain_graph_new_node (scope->graph, "", "Identity", prefix, &from, 1, 0);
      ortrain_node_set_output (identity, 0, value);
    }
  return TRUE;
}

static gboolean
read_node (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__NodeProto *node, GError **error)
{
  /* Functions that call functions expand a few bytes to many nodes: their number stays in proportion to the file. */
  guint64 max_nodes = MIN (ortrain_model_limits_get_max_nodes (state->reader->limits),
                           10000 + 256 * state->reader->tensors->scan->n_nodes);
  if (++state->n_nodes > max_nodes)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "with its functions inlined, the model has more than %" G_GUINT64_FORMAT
                   " nodes (limit “max-nodes”)",
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
  g_autofree char *name = scope->prefix != NULL ? scoped_name (scope, ortrain_reader_text (node->name))
                                                : g_strdup (ortrain_reader_text (node->name));
  OrtrainNode *created = ortrain_graph_new_node (scope->graph, ortrain_reader_domain (node->domain), node->op_type,
                                                 name, inputs, (guint) node->n_input, 0);
  for (gsize i = 0; i < node->n_output; i++)
    {
      OrtrainValue *value = *node->output[i] != '\0' ? lookup (scope, node->output[i]) : NULL;
      if (value == NULL)
        continue;
      if (!ortrain_node_set_output (created, (guint) i, value))
        {
          g_autofree char *owner = ortrain_reader_describe (node);
          return ortrain_reader_invalid (error, "output “%s” of %s has two producers",
                                         ortrain_text_show (node->output[i]), owner);
        }
    }
  return ortrain_reader_read_attributes (state, scope, node, created->attributes, error);
}

static gboolean
read_nodes (OrtrainReaderState *state, OrtrainReaderScope *scope, Ortrain__Ox__NodeProto **nodes, gsize n,
            GError **error)
{
  g_autofree gboolean *done = g_new0 (gboolean, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      const Ortrain__Ox__NodeProto *node = get_node (state, nodes, i, error);
      if (node == NULL || !define_outputs (state, scope, node, &done[i], error))
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
read_initializers (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__GraphProto *proto,
                   GError **error)
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
        return ortrain_reader_invalid (error, "initializer %" G_GSIZE_FORMAT " has no name", i);
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
      if (!define (state, scope, name, value, "an initializer", error))
        return FALSE;
      if (!scope->outermost)
        ortrain_value_set_enclosure (value, scope->enclosure);
      else if (tensor != NULL && sparse != NULL)
        {
          add_origin (state, name, ORTRAIN_ORIGIN_SPARSE, NULL);
          g_ptr_array_add (state->reader->notes,
                           g_strdup_printf ("“%s” is stored as a sparse tensor; it is trained as a dense one",
                                            ortrain_text_show (name)));
        }
    }
  return TRUE;
}

static gboolean
read_inputs (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__GraphProto *proto, GError **error)
{
  guint n_overridable = 0;
  for (gsize i = 0; i < proto->n_input; i++)
    {
      const Ortrain__Ox__ValueInfoProto *info = proto->input[i];
      OrtrainDType dtype;
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      gint rank;

      if (ortrain_reader_text (info->name)[0] == '\0')
        return ortrain_reader_invalid (error, "input %" G_GSIZE_FORMAT " of graph “%s” has no name", i,
                                       ortrain_text_show (ortrain_reader_text (proto->name)));
      OrtrainValue *initializer = lookup (scope, info->name);
      if (initializer != NULL && initializer->kind == ORTRAIN_VALUE_INITIALIZER)
        {
          n_overridable++;
          continue;
        }
      if (!read_type (state, scope->graph, info, TRUE, &dtype, dims, &rank, error) ||
          !define (state, scope, info->name, ortrain_graph_new_input (scope->graph, info->name, dtype, dims, rank),
                   "the graph's inputs", error))
        return FALSE;
    }
  if (n_overridable > 0 && scope->outermost)
    g_ptr_array_add (
        state->reader->notes,
        g_strdup_printf ("%u initializers are listed as inputs of the graph as well; they are weights, not inputs",
                         n_overridable));
  return TRUE;
}

static gboolean
read_outputs (OrtrainReaderState *state, OrtrainReaderScope *scope, const Ortrain__Ox__GraphProto *proto,
              GError **error)
{
  for (gsize i = 0; i < proto->n_output; i++)
    {
      const char *name = ortrain_reader_text (proto->output[i]->name);
      OrtrainValue *value;
      if (*name == '\0' || !resolve (scope, name, &value) || value == NULL)
        return ortrain_reader_invalid (error, "nothing produces output “%s” of graph “%s”", ortrain_text_show (name),
                                       ortrain_text_show (ortrain_reader_text (proto->name)));
      gboolean captured = value->kind == ORTRAIN_VALUE_COMPUTED && value->producer == NULL;
      if (captured && scope->outer == NULL)
        return ortrain_reader_invalid (error, "nothing produces output “%s” of graph “%s”", ortrain_text_show (name),
                                       ortrain_text_show (ortrain_reader_text (proto->name)));
      if (captured || value->is_output)
        {
          /* a body that gives back a value of the outer graph, or one value twice */
          if (scope->outer == NULL)
            return ortrain_reader_invalid (error, "output “%s” of graph “%s” is listed twice", ortrain_text_show (name),
                                           ortrain_text_show (ortrain_reader_text (proto->name)));
          OrtrainNode *identity = ortrain_graph_new_node (scope->graph, "", "Identity", NULL, &value, 1, 1);
          value = ortrain_node_output (identity, 0);
        }
      ortrain_graph_mark_output (scope->graph, value, TRUE);
    }
  if (scope->outer != NULL || state->reader->ignores_declarations)
    return TRUE; /* bodies of control flow are inferred where they are put */
  /* hints for inference */
  for (gsize i = 0; i < proto->n_output + proto->n_value_info; i++)
    {
      gboolean is_output = i < proto->n_output;
      const Ortrain__Ox__ValueInfoProto *info = is_output ? proto->output[i] : proto->value_info[i - proto->n_output];
      OrtrainDType dtype;
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      gint rank;
      OrtrainValue *value = lookup (scope, ortrain_reader_text (info->name));
      if (value == NULL || value->kind != ORTRAIN_VALUE_COMPUTED || value->producer == NULL)
        continue;
      if (!read_type (state, scope->graph, info, is_output, &dtype, dims, &rank, error))
        return FALSE;
      ortrain_value_declare (value, dtype, dims, rank);
    }
  return TRUE;
}

static void
add_used (OrtrainReaderState *state, const char *name)
{
  if (!g_hash_table_contains (state->uses, name))
    g_hash_table_insert (state->uses, g_string_chunk_insert (state->strings, name), NULL);
}

/* Of the names that are in the table. */
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

/* How often the model's graph and those in it read its initializers, and what Constant nodes and Identity nodes give,
 * which may become initializers. */
static gboolean
find_uses (OrtrainReaderState *state, GError **error)
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
      const OrtrainOpKind kind = get_kind (node);
      if (node->n_output == 1 && (kind == ORTRAIN_OP_KIND_CONSTANT || kind == ORTRAIN_OP_KIND_IDENTITY))
        add_used (state, node->output[0]);
    }
  for (gsize i = 0; i < scan->nodes->len && g_hash_table_size (state->uses) > 0; i++)
    {
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (state->parts, i, error);
      if (node == NULL)
        return FALSE;
      count_uses (state->uses, node);
    }
  return TRUE;
}

OrtrainGraph *
ortrain_reader_read_graph (OrtrainReaderState *state, OrtrainReaderScope *outer, const Ortrain__Ox__GraphProto *proto,
                           char *enclosure, GError **error)
{
  const Ortrain__Ox__ModelProto *model = state->reader->proto;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new (ortrain_reader_text (proto->name));
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  OrtrainReaderScope scope = {
    .outer = outer,
    .graph = graph,
    .names = names,
    .enclosure = enclosure,
    .outermost = outer == NULL,
    .n_defined = G_MAXUINT,
  };

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

  if (!read_initializers (state, &scope, proto, error) || !read_inputs (state, &scope, proto, error) ||
      !read_nodes (state, &scope, outer != NULL ? proto->node : NULL,
                   outer != NULL ? proto->n_node : state->reader->tensors->scan->nodes->len, error) ||
      !read_outputs (state, &scope, proto, error) || !ortrain_graph_sort (graph, error))
    return NULL;
  return g_steal_pointer (&graph);
}

gboolean
ortrain_graph_reader_read (OrtrainGraphReader *self, GError **error)
{
  g_autoptr (GHashTable) functions =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, ortrain_reader_function_free);
  g_autoptr (GHashTable) uses = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) outputs = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GStringChunk) strings = g_string_chunk_new (4096);
  g_autoptr (OrtrainProtoParts) parts =
      ortrain_proto_parts_new (self->tensors->scan, g_bytes_get_size (self->tensors->file));
  OrtrainReaderState state = {
    .reader = self, .parts = parts, .strings = strings, .functions = functions, .uses = uses, .outputs = outputs
  };
  const Ortrain__Ox__GraphProto *graph = self->proto->graph;

  self->notes = g_ptr_array_new_with_free_func (g_free);
  self->origins = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, origin_free);
  if (graph == NULL)
    return ortrain_reader_invalid (error, "the model has no graph");
  if (!ortrain_reader_collect_functions (&state, error) || !find_uses (&state, error))
    return FALSE;
  for (gsize i = 0; i < graph->n_output; i++)
    g_hash_table_add (outputs, (gpointer) ortrain_reader_text (graph->output[i]->name));
  self->graph = ortrain_reader_read_graph (&state, NULL, graph, NULL, error);
  if (self->graph == NULL)
    return FALSE;
  if (state.n_inlined > 0)
    g_ptr_array_add (
        self->notes,
        g_strdup_printf ("%" G_GUINT64_FORMAT " calls of functions were replaced by their bodies", state.n_inlined));
  return TRUE;
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

void
ortrain_graph_reader_clear (OrtrainGraphReader *self)
{
  g_clear_object (&self->graph);
  g_clear_pointer (&self->notes, g_ptr_array_unref);
  g_clear_pointer (&self->origins, g_hash_table_unref);
  g_clear_error (&self->unsupported);
}
