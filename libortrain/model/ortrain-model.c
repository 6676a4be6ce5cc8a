/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "core/ortrain-bytes.h"
#include "core/ortrain-log-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "core/ortrain-trace-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

/**
 * OrtrainModel:
 *
 * An ONNX model, as a file has it.
 *
 * ```python
 * model = Ortrain.Model("model.onnx")
 * print(model.opset, model.n_parameters, model)
 * report = model.check()
 * if not report.trainable:
 *     print(report)
 * ```
 *
 * The file is checked against [class@ModelLimits] before anything of it is used, and stays mapped: weights are not
 * copied. Do not change the file in place while the model exists; replacing it by a rename is fine.
 *
 * A model with operators that this library does not know still loads, so that it can be looked at and checked;
 * [method@Model.get_graph] then fails and lists them.
 *
 * A model does not change, and any thread may use it; its graph must not be changed, but copied.
 */

G_DEFINE_FINAL_TYPE (OrtrainModel, ortrain_model, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_PATH,
  PROP_IR_VERSION,
  PROP_OPSET,
  PROP_PRODUCER_NAME,
  PROP_PRODUCER_VERSION,
  PROP_MODEL_VERSION,
  PROP_DOC_STRING,
  PROP_NAME,
  PROP_N_NODES,
  PROP_N_PARAMETERS,
  PROP_N_BYTES,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
ortrain_model_finalize (GObject *object)
{
  OrtrainModel *self = ORTRAIN_MODEL (object);

  g_clear_object (&self->graph);
  ortrain_graph_reader_clear (&self->reader);
  g_clear_pointer (&self->arena, ortrain_proto_arena_free);
  if (self->tensors.cache != NULL)
    for (guint i = 0; i < self->scan.tensors->len; i++)
      g_clear_object (&self->tensors.cache[i]);
  g_free (self->tensors.cache);
  g_clear_pointer (&self->tensors.external, ortrain_external_data_free);
  ortrain_wire_scan_clear (&self->scan);
  g_clear_object (&self->limits);
  g_clear_pointer (&self->file, g_bytes_unref);
  g_free (self->path);
  g_free (self->directory);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (ortrain_model_parent_class)->finalize (object);
}

static void
ortrain_model_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainModel *self = ORTRAIN_MODEL (object);

  switch (id)
    {
    case PROP_PATH:
      g_value_set_string (value, ortrain_model_get_path (self));
      break;
    case PROP_IR_VERSION:
      g_value_set_int64 (value, ortrain_model_get_ir_version (self));
      break;
    case PROP_OPSET:
      g_value_set_int64 (value, ortrain_model_get_opset (self));
      break;
    case PROP_PRODUCER_NAME:
      g_value_set_string (value, ortrain_model_get_producer_name (self));
      break;
    case PROP_PRODUCER_VERSION:
      g_value_set_string (value, ortrain_model_get_producer_version (self));
      break;
    case PROP_MODEL_VERSION:
      g_value_set_int64 (value, ortrain_model_get_model_version (self));
      break;
    case PROP_DOC_STRING:
      g_value_set_string (value, ortrain_model_get_doc_string (self));
      break;
    case PROP_NAME:
      g_value_set_string (value, ortrain_model_get_name (self));
      break;
    case PROP_N_NODES:
      g_value_set_uint (value, ortrain_model_get_n_nodes (self));
      break;
    case PROP_N_PARAMETERS:
      g_value_set_uint64 (value, ortrain_model_get_n_parameters (self));
      break;
    case PROP_N_BYTES:
      g_value_set_uint64 (value, ortrain_model_get_n_bytes (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_model_class_init (OrtrainModelClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_model_finalize;
  object_class->get_property = ortrain_model_get_property;

  /**
   * OrtrainModel:path: (getter get_path)
   *
   * The file that the model was read from; %NULL if it was created otherwise. Read-only.
   */
  properties[PROP_PATH] = g_param_spec_string ("path", NULL, NULL, NULL, flags);
  /**
   * OrtrainModel:ir-version: (getter get_ir_version)
   *
   * The version of ONNX's file format. Read-only.
   */
  properties[PROP_IR_VERSION] = g_param_spec_int64 ("ir-version", NULL, NULL, 0, G_MAXINT64, 0, flags);
  /**
   * OrtrainModel:opset: (getter get_opset)
   *
   * The version of ONNX's own operators that the file uses. Read-only.
   */
  properties[PROP_OPSET] = g_param_spec_int64 ("opset", NULL, NULL, 0, G_MAXINT64, 0, flags);
  /**
   * OrtrainModel:producer-name: (getter get_producer_name)
   *
   * The program that wrote the file. Read-only.
   */
  properties[PROP_PRODUCER_NAME] = g_param_spec_string ("producer-name", NULL, NULL, NULL, flags);
  /**
   * OrtrainModel:producer-version: (getter get_producer_version)
   *
   * The version of the program that wrote the file. Read-only.
   */
  properties[PROP_PRODUCER_VERSION] = g_param_spec_string ("producer-version", NULL, NULL, NULL, flags);
  /**
   * OrtrainModel:model-version: (getter get_model_version)
   *
   * The version that the author gave it. Read-only.
   */
  properties[PROP_MODEL_VERSION] = g_param_spec_int64 ("model-version", NULL, NULL, G_MININT64, G_MAXINT64, 0, flags);
  /**
   * OrtrainModel:doc-string: (getter get_doc_string)
   *
   * The author's description of the model. Read-only.
   */
  properties[PROP_DOC_STRING] = g_param_spec_string ("doc-string", NULL, NULL, NULL, flags);
  /**
   * OrtrainModel:name: (getter get_name)
   *
   * The name of the graph in the file. Read-only.
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * OrtrainModel:n-nodes: (getter get_n_nodes)
   *
   * The number of nodes, with functions inlined. Read-only.
   */
  properties[PROP_N_NODES] = g_param_spec_uint ("n-nodes", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainModel:n-parameters: (getter get_n_parameters)
   *
   * The number of elements of all initializers of floating types. Read-only.
   */
  properties[PROP_N_PARAMETERS] = g_param_spec_uint64 ("n-parameters", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainModel:n-bytes: (getter get_n_bytes)
   *
   * The size of the file and of its external data, in bytes. Read-only.
   */
  properties[PROP_N_BYTES] = g_param_spec_uint64 ("n-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
ortrain_model_init (OrtrainModel *self)
{
  g_mutex_init (&self->lock);
}

/* ---- Contents ---- */

/**
 * ortrain_model_get_path: (get-property path)
 * @self: a model
 *
 * Gets the file that the model was read from; %NULL if it was created otherwise.
 *
 * Returns: (nullable) (type filename): the path, or %NULL if the model was created otherwise
 */
const char *
ortrain_model_get_path (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  return self->path;
}

/**
 * ortrain_model_get_ir_version: (get-property ir-version)
 * @self: a model
 *
 * Gets the version of ONNX's file format.
 *
 * Returns: the version
 */
gint64
ortrain_model_get_ir_version (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), 0);
  return self->proto != NULL ? self->proto->ir_version : 0;
}

/**
 * ortrain_model_get_opset: (get-property opset)
 * @self: a model
 *
 * Gets the version of ONNX's own operators that the file uses.
 *
 * Returns: the version; 0 if the file uses none of them
 */
gint64
ortrain_model_get_opset (OrtrainModel *self)
{
  return ortrain_model_get_opset_version (self, "");
}

/**
 * ortrain_model_get_opset_version:
 * @self: a model
 * @domain: a domain of operators, empty for ONNX's own
 *
 * Gets the version of a domain's operators that the file uses.
 *
 * Returns: the version; 0 if the file does not name the domain
 */
gint64
ortrain_model_get_opset_version (OrtrainModel *self, const char *domain)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), 0);
  g_return_val_if_fail (domain != NULL, 0);
  return self->proto != NULL ? MAX (ortrain_graph_reader_get_opset (self->proto, domain), 0) : 0;
}

/**
 * ortrain_model_get_domains:
 * @self: a model
 *
 * Lists the domains of operators that the file names; ONNX's own is an empty string.
 *
 * Returns: (transfer full) (array zero-terminated=1): the domains
 */
char **
ortrain_model_get_domains (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (gsize i = 0; self->proto != NULL && i < self->proto->n_opset_import; i++)
    {
      const char *domain = self->proto->opset_import[i]->domain;
      g_strv_builder_add (builder, domain != NULL ? domain : "");
    }
  return g_strv_builder_end (builder);
}

/**
 * ortrain_model_get_producer_name: (get-property producer-name)
 * @self: a model
 *
 * Gets the program that wrote the file.
 *
 * Returns: (nullable): its name
 */
const char *
ortrain_model_get_producer_name (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  return self->proto != NULL ? self->proto->producer_name : NULL;
}

/**
 * ortrain_model_get_producer_version: (get-property producer-version)
 * @self: a model
 *
 * Gets the version of the program that wrote the file.
 *
 * Returns: (nullable): the version
 */
const char *
ortrain_model_get_producer_version (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  return self->proto != NULL ? self->proto->producer_version : NULL;
}

/**
 * ortrain_model_get_model_version: (get-property model-version)
 * @self: a model
 *
 * Gets the version that the author gave it.
 *
 * Returns: the version
 */
gint64
ortrain_model_get_model_version (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), 0);
  return self->proto != NULL ? self->proto->model_version : 0;
}

/**
 * ortrain_model_get_doc_string: (get-property doc-string)
 * @self: a model
 *
 * Gets the author's description of the model.
 *
 * Returns: (nullable): the text
 */
const char *
ortrain_model_get_doc_string (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  return self->proto != NULL ? self->proto->doc_string : NULL;
}

/**
 * ortrain_model_get_name: (get-property name)
 * @self: a model
 *
 * Gets the name of the graph in the file.
 *
 * Returns: (nullable): the name
 */
const char *
ortrain_model_get_name (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  return self->proto != NULL ? self->proto->graph->name : NULL;
}

/**
 * ortrain_model_get_n_nodes: (get-property n-nodes)
 * @self: a model
 *
 * Gets the number of nodes, with functions inlined.
 *
 * Returns: the number
 */
guint
ortrain_model_get_n_nodes (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), 0);
  return self->reader.graph != NULL ? self->reader.graph->nodes->len : 0;
}

/**
 * ortrain_model_get_n_parameters: (get-property n-parameters)
 * @self: a model
 *
 * The number of elements of all weights and running statistics: of the tensors of floating types, in initializers or
 * Constant nodes, that are no constants of formulas by where they are used. A training session may train fewer of them.
 * In a model with unknown operators, all floating tensors count.
 *
 * Returns: the number
 */
guint64
ortrain_model_get_n_parameters (OrtrainModel *self)
{
  guint64 n = 0;

  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), 0);
  if (self->file == NULL)
    return 0;
  OrtrainGraph *graph = ortrain_model_get_graph (self, NULL);
  if (graph == NULL)
    {
      for (guint i = 0; i < self->reader.graph->initializers->len; i++)
        {
          const OrtrainValue *value = self->reader.graph->initializers->pdata[i];
          if (ortrain_dtype_is_floating (value->dtype))
            n += (guint64) ortrain_tensor_get_n_elements (value->tensor);
        }
      return n;
    }
  g_autoptr (GArray) roles = ortrain_parameter_roles_find (graph);
  for (guint i = 0; i < roles->len; i++)
    {
      const OrtrainParameterRole *role = &g_array_index (roles, OrtrainParameterRole, i);
      if (role->is_weight || role->is_enclosed || role->is_statistic)
        n += (guint64) ortrain_tensor_get_n_elements (role->value->tensor);
    }
  return n;
}

/**
 * ortrain_model_get_n_bytes: (get-property n-bytes)
 * @self: a model
 *
 * Gets the size of the file and of its external data, in bytes.
 *
 * Returns: the size in bytes
 */
guint64
ortrain_model_get_n_bytes (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), 0);
  if (self->file == NULL)
    return 0;
  return g_bytes_get_size (self->file) + ortrain_external_data_get_n_bytes (self->tensors.external);
}

/**
 * ortrain_model_get_metadata_keys:
 * @self: a model
 *
 * Lists the keys of the metadata that the author stored in the file.
 *
 * Returns: (transfer full) (array zero-terminated=1): the keys
 */
char **
ortrain_model_get_metadata_keys (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (gsize i = 0; self->proto != NULL && i < self->proto->n_metadata_props; i++)
    if (self->proto->metadata_props[i]->key != NULL)
      g_strv_builder_add (builder, self->proto->metadata_props[i]->key);
  return g_strv_builder_end (builder);
}

/**
 * ortrain_model_get_metadata:
 * @self: a model
 * @key: a key
 *
 * Looks up the text that the author stored in the file under a key.
 *
 * Returns: (nullable): the text; %NULL if the model has no such entry
 */
const char *
ortrain_model_get_metadata (OrtrainModel *self, const char *key)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_return_val_if_fail (key != NULL, NULL);
  for (gsize i = 0; self->proto != NULL && i < self->proto->n_metadata_props; i++)
    if (g_strcmp0 (self->proto->metadata_props[i]->key, key) == 0)
      return self->proto->metadata_props[i]->value;
  return NULL;
}

/**
 * ortrain_model_get_notes:
 * @self: a model
 *
 * Lists findings in the file that matter for training: initializers that an exporter merged, weights in Constant nodes,
 * functions, declared shapes that differ from those that the operators compute. Builds the graph of the model if it
 * does not exist yet.
 *
 * Returns: (transfer full) (array zero-terminated=1): one sentence each
 */
char **
ortrain_model_get_notes (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; self->reader.notes != NULL && i < self->reader.notes->len; i++)
    g_strv_builder_add (builder, self->reader.notes->pdata[i]);
  OrtrainGraph *graph = self->file != NULL ? ortrain_model_get_graph (self, NULL) : NULL;
  for (guint i = 0; graph != NULL && graph->notes != NULL && i < graph->notes->len; i++)
    g_strv_builder_add (builder, graph->notes->pdata[i]);
  return g_strv_builder_end (builder);
}

/**
 * ortrain_model_get_file_graph:
 * @self: a model
 *
 * Gets the graph as it is in the file, in the file's operator set; functions are inlined, and Constant nodes are
 * initializers. Every model that could be read has one, even with unknown operators. Do not change it.
 *
 * Returns: (transfer none) (nullable): the graph, owned by the model; %NULL if the model was not created by a
 *   constructor
 */
OrtrainGraph *
ortrain_model_get_file_graph (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  return self->reader.graph;
}

#define MIN_OPSET 1
#define MAX_OPSET 28 /* nothing that is known here changed between 23 and this but in ways that upgrades handle */

static gboolean
has_name (OrtrainValue *value, gpointer names)
{
  return g_strv_contains (names, value->name);
}

/* Makes these values the outputs, and removes what they do not need. A name that the file does not have is ignored
 * here. */
static void
keep_only (OrtrainGraph *graph, const char *const *names)
{
  ortrain_graph_filter_outputs (graph, has_name, (gpointer) names);
  for (guint i = 0; names[i] != NULL; i++)
    {
      OrtrainValue *value = ortrain_graph_find_value (graph, names[i]);
      if (value != NULL && !value->is_output)
        ortrain_graph_mark_output (graph, value, TRUE);
    }
  ortrain_graph_remove_dead (graph);
}

/* only: names of values, NULL for all outputs */
static OrtrainGraph *
make_graph (OrtrainModel *self, gboolean ignore_declarations, const char *const *only, GError **error)
{
  OrtrainGraphReader reader = {
    .proto = self->proto, .tensors = &self->tensors, .limits = self->limits, .ignores_declarations = ignore_declarations
  };
  gint64 opset = ortrain_graph_reader_get_opset (self->proto, "");

  if (self->reader.unsupported != NULL)
    {
      g_propagate_error (error, g_error_copy (self->reader.unsupported));
      return NULL;
    }
  if (opset > MAX_OPSET || (opset < MIN_OPSET && (opset > 0 || self->reader.graph->nodes->len > 0)))
    {
      gboolean own_domain_only = opset == 0;
      for (guint i = 0; i < self->reader.graph->nodes->len && own_domain_only; i++)
        own_domain_only = ((OrtrainNode *) self->reader.graph->nodes->pdata[i])->domain[0] != '\0';
      if (!own_domain_only)
        {
          g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_VERSION,
                       "The model uses operator set %" G_GINT64_FORMAT ", this library supports %d to %d", opset,
                       MIN_OPSET, MAX_OPSET);
          return NULL;
        }
    }
  /* A graph of its own, not a copy: upgrading changes the bodies of control flow too. */
  const gint64 begin = ortrain_trace_begin ();
  gboolean ok = ortrain_graph_reader_read (&reader, error);
  if (ok && only != NULL)
    keep_only (reader.graph, only);
  ok = ok && ortrain_ops_check_foreign (reader.graph, error) && ortrain_ops_upgrade (reader.graph, error) &&
       ortrain_ops_infer (reader.graph, error);
  OrtrainGraph *graph = ok ? g_steal_pointer (&reader.graph) : NULL;
  ortrain_graph_reader_clear (&reader);
  ortrain_trace_end (begin, "load", "graph", self->reader.graph->name);
  if (graph != NULL)
    ORTRAIN_LOG (ORTRAIN_LOG_LOAD, "graph '%s': operator set %" G_GINT64_FORMAT ", %u nodes after the upgrade",
                 ortrain_text_show (self->reader.graph->name), opset, graph->nodes->len);
  return graph;
}

OrtrainGraph *
ortrain_model_make_graph_of (OrtrainModel *self, const char *const *names, GError **error)
{
  g_mutex_lock (&self->lock);
  OrtrainGraph *graph = make_graph (self, FALSE, names, error);
  g_mutex_unlock (&self->lock);
  for (guint i = 0; graph != NULL && names[i] != NULL; i++)
    {
      OrtrainValue *in_file = ortrain_graph_find_value (self->reader.graph, names[i]);
      OrtrainValue *value = ortrain_graph_find_value (graph, names[i]);
      if (value != NULL && value->is_output && (in_file == NULL || !in_file->is_output))
        ortrain_graph_mark_output (graph, value, FALSE);
    }
  return graph;
}

/* With the declarations of the file as hints; without them when it is they that do not fit. */
static OrtrainGraph *
make_hinted_graph (OrtrainModel *self, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  OrtrainGraph *graph = make_graph (self, FALSE, NULL, &local_error);
  if (graph == NULL && (g_error_matches (local_error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE) ||
                        g_error_matches (local_error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE)))
    graph = make_graph (self, TRUE, NULL, NULL);
  if (graph == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (local_error != NULL)
    {
      graph->notes = g_ptr_array_new_with_free_func (g_free);
      graph->n_contradicted = 1;
      g_ptr_array_add (
          graph->notes,
          g_strdup_printf ("The shapes that the file declares do not fit, and are ignored: %s", local_error->message));
    }
  if (graph->n_contradicted > 0)
    g_message ("%s: %s%s", self->path != NULL ? self->path : "A model in memory", (const char *) graph->notes->pdata[0],
               graph->n_contradicted > 1 ? ", and more" : "");
  return graph;
}

/**
 * ortrain_model_get_graph:
 * @self: a model
 * @error: return location for an error
 *
 * Gets the graph of the model in the form that the library works with: functions inlined, all nodes in the form of
 * operator set 23, types and shapes inferred. It is built at the first call. Do not change it; copy it.
 *
 * Returns: (transfer none): the graph, owned by the model; %NULL with an error of [error@GraphError] or
 *   [error@ModelError], which lists all unknown operators
 */
OrtrainGraph *
ortrain_model_get_graph (OrtrainModel *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (self->file == NULL)
    {
      g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                           "The model was not created by one of its constructors");
      return NULL;
    }
  g_mutex_lock (&self->lock);
  if (self->graph == NULL)
    self->graph = make_hinted_graph (self, error);
  OrtrainGraph *graph = self->graph;
  g_mutex_unlock (&self->lock);
  return graph;
}

OrtrainGraph *
ortrain_model_make_undeclared_graph (OrtrainModel *self, GError **error)
{
  g_mutex_lock (&self->lock);
  OrtrainGraph *graph = make_graph (self, TRUE, NULL, error);
  g_mutex_unlock (&self->lock);
  return graph;
}

gboolean
ortrain_model_check_files (OrtrainModel *self, GError **error)
{
  return (self->file == NULL || ortrain_mapped_file_check_address (g_bytes_get_data (self->file, NULL), error)) &&
         (self->tensors.external == NULL || ortrain_external_data_check_files (self->tensors.external, error));
}

void
ortrain_model_explain_error (OrtrainModel *self, GError **error)
{
  g_autoptr (GError) changed = NULL;
  if (error == NULL || *error == NULL || ortrain_model_check_files (self, &changed))
    return;
  g_clear_error (error);
  g_propagate_error (error, g_steal_pointer (&changed));
}

void
ortrain_model_trim (OrtrainModel *self)
{
  if (self->file != NULL)
    ortrain_mapped_file_trim (g_bytes_get_data (self->file, NULL), g_bytes_get_size (self->file));
  if (self->tensors.external != NULL)
    ortrain_external_data_trim (self->tensors.external);
}

static void
append_values (GString *out, const char *what, const GPtrArray *values)
{
  for (guint i = 0; i < values->len; i++)
    {
      g_autofree char *line = ortrain_value_describe (values->pdata[i]);
      g_string_append_printf (out, "%s  %s\n", i == 0 ? what : "          ", line);
    }
}

/* "?1, ?2: sizes that the file does not name": of every such size in the shapes of these values. */
static void
append_unnamed (GString *out, const GPtrArray *const *lists, guint n_lists)
{
  g_autoptr (GString) names = g_string_new (NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint l = 0; l < n_lists; l++)
    for (guint i = 0; i < lists[l]->len; i++)
      {
        const OrtrainValue *value = lists[l]->pdata[i];
        for (gint k = 0; k < value->rank; k++)
          {
            g_autofree char *name = ortrain_dim_to_string (value->dims[k]);
            if (name[0] != '?' || g_hash_table_contains (seen, name))
              continue;
            g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "", ortrain_text_show (name));
            g_hash_table_add (seen, g_steal_pointer (&name));
          }
      }
  if (names->len > 0)
    g_string_append_printf (out, "            %s: %s that the file does not name\n",
                            ortrain_text_show_list (names->str), g_hash_table_size (seen) > 1 ? "sizes" : "a size");
}

/**
 * ortrain_model_to_string:
 * @self: a model
 *
 * Describes the model for people, in several lines.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_model_to_string (OrtrainModel *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MODEL (self), NULL);
  if (self->file == NULL)
    return g_strdup ("a model without contents\n");

  GString *out = g_string_new (NULL);
  g_autofree char *file = self->path != NULL ? g_filename_display_basename (self->path) : g_strdup ("(in memory)");
  g_autofree char *size = ortrain_format_bytes (ortrain_model_get_n_bytes (self));
  const char *version = ortrain_model_get_producer_version (self), *producer = ortrain_model_get_producer_name (self);

  g_string_append_printf (out, "Model       %s, %s\n", file, size);
  if (self->proto->graph->name != NULL && *self->proto->graph->name != '\0')
    g_string_append_printf (out, "Name        %s\n", ortrain_text_show (self->proto->graph->name));
  if (producer != NULL && *producer != '\0')
    {
      g_autofree char *all = g_strconcat (producer, " ", version, NULL);
      g_string_append_printf (out, "Written by  %s\n", ortrain_text_show (g_strchomp (all)));
    }
  g_string_append_printf (out, "Format      ONNX, IR version %" G_GINT64_FORMAT, ortrain_model_get_ir_version (self));
  for (gsize i = 0; i < self->proto->n_opset_import; i++)
    {
      const char *domain = self->proto->opset_import[i]->domain;
      g_string_append_printf (out, ", %s %" G_GINT64_FORMAT,
                              domain != NULL && *domain != '\0' ? ortrain_text_show (domain) : "operator set",
                              (gint64) self->proto->opset_import[i]->version);
    }
  g_string_append_printf (out, "\nNodes       %u\nParameters  %'" G_GUINT64_FORMAT " in %u initializer%s\n",
                          ortrain_model_get_n_nodes (self), ortrain_model_get_n_parameters (self),
                          self->reader.graph->initializers->len,
                          ortrain_text_plural (self->reader.graph->initializers->len));
  append_values (out, "Inputs    ", self->reader.graph->inputs);
  append_values (out, "Outputs   ", self->reader.graph->outputs);
  const GPtrArray *const values[] = { self->reader.graph->inputs, self->reader.graph->outputs };
  append_unnamed (out, values, G_N_ELEMENTS (values));
  g_auto (GStrv) notes = ortrain_model_get_notes (self);
  for (guint i = 0; notes[i] != NULL; i++)
    g_string_append_printf (out, "Note        %s\n", notes[i]);
  return g_string_free (out, FALSE);
}
