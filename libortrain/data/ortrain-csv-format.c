/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-csv-format-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-file-writer-private.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-text-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "graph/ortrain-graph-private.h"
#include "ortrain-enum-types.h"

#include <string.h>

/**
 * OrtrainCsvFormat:
 *
 * How tables of comma-separated values become tensors, for [ctor@TensorDataset.new_from_csv]: which columns form which
 * tensor, whether the first line is a header, and which text is which class.
 *
 * The types are those of the model and its loss, never guessed from the cells: a target of a floating type takes
 * numbers, one of an integer type takes classes. Classes are integers, or texts. Texts are sorted by their bytes, the
 * numbers among them by their value, and numbered from 0. The first file that is read defines the classes; files that
 * are read afterwards with the same format, such as one for validation, use the same numbers, and a class that the
 * first file did not have is an error. [method@CsvFormat.save_classes] keeps them for later.
 *
 * ```python
 * format = Ortrain.CsvFormat.new_for_graph(session.get_training_graph(), ["species"])
 * training = Ortrain.TensorDataset.new_from_csv("train.csv", format)
 * validation = Ortrain.TensorDataset.new_from_csv("validation.csv", format)
 * print(format.get_classes())
 * ```
 *
 * One thread at a time may use a format.
 */
G_DEFINE_FINAL_TYPE (OrtrainCsvFormat, ortrain_csv_format, G_TYPE_OBJECT)

enum
{
  PROP_HEADER = 1,
  PROP_CLASSES,
  PROP_SEPARATOR,
  PROP_COMMENT,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static void
tensor_clear (gpointer data)
{
  OrtrainCsvTensor *tensor = data;
  g_free (tensor->name);
  g_strfreev (tensor->columns);
  g_free (tensor->dims);
}

static void
ortrain_csv_format_finalize (GObject *object)
{
  OrtrainCsvFormat *self = ORTRAIN_CSV_FORMAT (object);
  g_array_unref (self->tensors);
  g_strfreev (self->classes);
  g_free (self->separator);
  g_free (self->comment);
  G_OBJECT_CLASS (ortrain_csv_format_parent_class)->finalize (object);
}

static void
ortrain_csv_format_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainCsvFormat *self = ORTRAIN_CSV_FORMAT (object);
  switch (id)
    {
    case PROP_HEADER:
      g_value_set_enum (value, self->header);
      break;
    case PROP_CLASSES:
      g_value_set_boxed (value, self->classes);
      break;
    case PROP_SEPARATOR:
      g_value_set_string (value, self->separator);
      break;
    case PROP_COMMENT:
      g_value_set_string (value, self->comment);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_csv_format_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  OrtrainCsvFormat *self = ORTRAIN_CSV_FORMAT (object);
  switch (id)
    {
    case PROP_HEADER:
      ortrain_csv_format_set_header (self, g_value_get_enum (value));
      break;
    case PROP_CLASSES:
      ortrain_csv_format_set_classes (self, g_value_get_boxed (value));
      break;
    case PROP_SEPARATOR:
      ortrain_csv_format_set_separator (self, g_value_get_string (value));
      break;
    case PROP_COMMENT:
      ortrain_csv_format_set_comment (self, g_value_get_string (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_csv_format_class_init (OrtrainCsvFormatClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  object_class->finalize = ortrain_csv_format_finalize;
  object_class->get_property = ortrain_csv_format_get_property;
  object_class->set_property = ortrain_csv_format_set_property;

  /**
   * OrtrainCsvFormat:header: (getter get_header) (setter set_header)
   *
   * Whether the first line has the names of the columns. Default: %ORTRAIN_CSV_HEADER_AUTO.
   */
  properties[PROP_HEADER] =
      g_param_spec_enum ("header", NULL, NULL, ORTRAIN_TYPE_CSV_HEADER, ORTRAIN_CSV_HEADER_AUTO, flags);
  /**
   * OrtrainCsvFormat:classes: (getter get_classes) (setter set_classes)
   *
   * The class names, in the order of their numbers; %NULL before a file was read, and where classes are integers.
   * Default: %NULL.
   */
  properties[PROP_CLASSES] = g_param_spec_boxed ("classes", NULL, NULL, G_TYPE_STRV, flags);
  /**
   * OrtrainCsvFormat:separator: (getter get_separator) (setter set_separator)
   *
   * The separator of the fields of a line: one ASCII character, such as `;` or a tabulator. With %NULL, the first line
   * may name it, as in `sep=;`; otherwise it is the one of comma, semicolon, tabulator, vertical bar and, between
   * numbers, space that fits the first lines best. Several spaces are one separator. If the separator is not a comma,
   * numbers may have a decimal comma. The comma in `1,234` may also stand between thousands: it is a decimal comma if
   * the separator is a semicolon or an earlier number had a decimal comma, and an error otherwise. Default: %NULL.
   */
  properties[PROP_SEPARATOR] = g_param_spec_string ("separator", NULL, NULL, NULL, flags);
  /**
   * OrtrainCsvFormat:comment: (getter get_comment) (setter set_comment)
   *
   * The text that lines of comments begin with, such as `#`; these lines are skipped. With %NULL, only those lines
   * before the first row are skipped that begin with `#` and have another number of fields than that row. Default:
   * %NULL.
   */
  properties[PROP_COMMENT] = g_param_spec_string ("comment", NULL, NULL, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_csv_format_init (OrtrainCsvFormat *self)
{
  self->tensors = g_array_new (FALSE, TRUE, sizeof (OrtrainCsvTensor));
  g_array_set_clear_func (self->tensors, tensor_clear);
}

/**
 * ortrain_csv_format_new:
 *
 * Creates a format without tensors: see [method@CsvFormat.add_input] and [method@CsvFormat.add_target].
 *
 * Returns: (transfer full): the format
 */
OrtrainCsvFormat *
ortrain_csv_format_new (void)
{
  return g_object_new (ORTRAIN_TYPE_CSV_FORMAT, NULL);
}

static OrtrainCsvTensor *
add_tensor (OrtrainCsvFormat *self, const char *name, OrtrainDType dtype, gboolean is_target,
            const char *const *columns)
{
  OrtrainCsvTensor tensor = { .name = g_strdup (name), .is_target = is_target };
  tensor.dtype = !ortrain_dtype_is_floating (dtype) ? ORTRAIN_DTYPE_INT64
                 : dtype == ORTRAIN_DTYPE_FLOAT64   ? ORTRAIN_DTYPE_FLOAT64
                                                    : ORTRAIN_DTYPE_FLOAT32;
  tensor.columns = columns != NULL && columns[0] != NULL ? g_strdupv ((char **) columns) : NULL;
  g_array_append_val (self->tensors, tensor);
  return &g_array_index (self->tensors, OrtrainCsvTensor, self->tensors->len - 1);
}

/**
 * ortrain_csv_format_new_for_graph:
 * @graph: the graph of a model, or [property@TrainingSession:training-graph] of a session, whose inputs are those of
 *   the model and the targets of its losses
 * @target_columns: (nullable) (array zero-terminated=1): the columns of the target; %NULL for the column of its name,
 *   or else the last one
 *
 * Creates a format with one tensor for each input of a graph, of its type and shape. If there is one input in addition
 * to the targets, it takes all columns but those of the targets; of several, each takes the column of its name.
 *
 * Returns: (transfer full): the format
 */
OrtrainCsvFormat *
ortrain_csv_format_new_for_graph (OrtrainGraph *graph, const char *const *target_columns)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (graph), NULL);
  OrtrainCsvFormat *self = ortrain_csv_format_new ();
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *value = graph->inputs->pdata[i];
      if (value->kind != ORTRAIN_VALUE_INPUT)
        continue;
      const gboolean is_target = value->role == ORTRAIN_ROLE_TARGET;
      OrtrainCsvTensor *tensor =
          add_tensor (self, value->name, value->dtype, is_target, is_target ? target_columns : NULL);
      if (value->rank < 1)
        continue;
      tensor->rank = (guint) value->rank - 1;
      tensor->dims = g_new (gint64, tensor->rank + 1);
      for (guint k = 0; k < tensor->rank; k++)
        tensor->dims[k] = ortrain_dim_is_int (value->dims[k + 1]) ? value->dims[k + 1].value : -1;
    }
  return self;
}

/**
 * ortrain_csv_format_add_input:
 * @self: a format
 * @name: the name of the tensor in batches
 * @dtype: the type that the model has for it: floating, or an integer type, for which all numbers must be whole
 * @columns: (nullable) (array zero-terminated=1): its columns, by name, or by number from 1 where there is no header;
 *   %NULL for the column of its name, or else all that no other tensor takes
 *
 * Adds an input, [n, columns] in batches of n.
 */
void
ortrain_csv_format_add_input (OrtrainCsvFormat *self, const char *name, OrtrainDType dtype, const char *const *columns)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  g_return_if_fail (name != NULL);
  add_tensor (self, name, dtype, FALSE, columns);
}

/**
 * ortrain_csv_format_add_target:
 * @self: a format
 * @name: the name of the tensor in batches
 * @dtype: the type that the loss wants: an integer type for classes, a floating one for numbers
 * @columns: (nullable) (array zero-terminated=1): its columns; %NULL for the column of its name, or else the last one
 *
 * Adds a target, [n] in batches of n, or [n, columns] if there are several columns.
 */
void
ortrain_csv_format_add_target (OrtrainCsvFormat *self, const char *name, OrtrainDType dtype, const char *const *columns)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  g_return_if_fail (name != NULL);
  add_tensor (self, name, dtype, TRUE, columns);
}

/**
 * ortrain_csv_format_remove:
 * @self: a format
 * @name: the name of a tensor
 *
 * Removes an input or a target, such as an input that all items share ([property@Trainer:shared-inputs]) and that no
 * column stands for. Without a tensor of that name nothing happens.
 */
void
ortrain_csv_format_remove (OrtrainCsvFormat *self, const char *name)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  g_return_if_fail (name != NULL);
  for (guint i = self->tensors->len; i > 0; i--)
    if (g_str_equal (g_array_index (self->tensors, OrtrainCsvTensor, i - 1).name, name))
      g_array_remove_index (self->tensors, i - 1);
}

/**
 * ortrain_csv_format_get_header: (get-property header)
 * @self: a format
 *
 * Gets whether the first line has the names of the columns.
 *
 * Returns: the setting
 */
OrtrainCsvHeader
ortrain_csv_format_get_header (OrtrainCsvFormat *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (self), ORTRAIN_CSV_HEADER_AUTO);
  return self->header;
}

/**
 * ortrain_csv_format_set_header: (set-property header)
 * @self: a format
 * @header: the new value
 *
 * Sets whether the first line has the names of the columns.
 */
void
ortrain_csv_format_set_header (OrtrainCsvFormat *self, OrtrainCsvHeader header)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  if (self->header == header)
    return;
  self->header = header;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_HEADER]);
}

/**
 * ortrain_csv_format_get_classes: (get-property classes)
 * @self: a format
 *
 * Gets the class names, in the order of their numbers; %NULL before a file was read, and where classes are integers.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the value
 */
const char *const *
ortrain_csv_format_get_classes (OrtrainCsvFormat *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (self), NULL);
  return (const char *const *) self->classes;
}

/**
 * ortrain_csv_format_set_classes: (set-property classes)
 * @self: a format
 * @classes: (nullable) (array zero-terminated=1): the new value
 *
 * Sets the class names, in the order of their numbers; %NULL before a file was read, and where classes are integers.
 */
void
ortrain_csv_format_set_classes (OrtrainCsvFormat *self, const char *const *classes)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  char **copy = classes != NULL ? g_strdupv ((char **) classes) : NULL;
  g_strfreev (self->classes);
  self->classes = copy;
  self->has_numbers = FALSE;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLASSES]);
}

/* Whether it changed. */
static gboolean
set_text (char **text, const char *value)
{
  if (g_strcmp0 (*text, value) == 0)
    return FALSE;
  char *copy = g_strdup (value);
  g_free (*text);
  *text = copy;
  return TRUE;
}

/**
 * ortrain_csv_format_get_separator: (get-property separator)
 * @self: a format
 *
 * Gets the separator of the fields of a line.
 *
 * Returns: (transfer none) (nullable): one character; %NULL if it is found from the first lines
 */
const char *
ortrain_csv_format_get_separator (OrtrainCsvFormat *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (self), NULL);
  return self->separator;
}

/**
 * ortrain_csv_format_set_separator: (set-property separator)
 * @self: a format
 * @separator: (nullable): one ASCII character, but no quote and no end of a line; %NULL to find it from the first lines
 *
 * Sets the separator of the fields of a line. A text of any other length is an error when a table is read.
 */
void
ortrain_csv_format_set_separator (OrtrainCsvFormat *self, const char *separator)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  if (set_text (&self->separator, separator))
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SEPARATOR]);
}

/**
 * ortrain_csv_format_get_comment: (get-property comment)
 * @self: a format
 *
 * Gets the text that lines of comments begin with.
 *
 * Returns: (transfer none) (nullable): the text, or %NULL
 */
const char *
ortrain_csv_format_get_comment (OrtrainCsvFormat *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (self), NULL);
  return self->comment;
}

/**
 * ortrain_csv_format_set_comment: (set-property comment)
 * @self: a format
 * @comment: (nullable): a text; %NULL for no comments
 *
 * Sets the text that lines of comments begin with.
 */
void
ortrain_csv_format_set_comment (OrtrainCsvFormat *self, const char *comment)
{
  g_return_if_fail (ORTRAIN_IS_CSV_FORMAT (self));
  if (set_text (&self->comment, comment))
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_COMMENT]);
}

/**
 * ortrain_csv_format_load_classes:
 * @self: a format
 * @path: (type filename): a file that [method@CsvFormat.save_classes] wrote: a JSON array of texts
 * @error: return location for an error
 *
 * Reads class names from a file.
 *
 * Errors are %ORTRAIN_DATA_ERROR_INVALID for a file that is not an array of distinct strings, and those of
 * [error@GLib.FileError] and of json-glib's parser. The format is then unchanged.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_csv_format_load_classes (OrtrainCsvFormat *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);

  g_autofree char *text = NULL;
  gsize size;
  if (!ortrain_text_file_read (path, ORTRAIN_TEXT_FILE_MAX, &text, &size, error))
    return FALSE;
  g_autoptr (JsonNode) root = ortrain_json_parse (text, size, 4, error);
  if (root == NULL)
    {
      g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
      return FALSE;
    }
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  JsonArray *array = JSON_NODE_HOLDS_ARRAY (root) ? json_node_get_array (root) : NULL;
  gboolean ok = array != NULL && json_array_get_length (array) > 0;
  for (guint i = 0; ok && i < json_array_get_length (array); i++)
    {
      JsonNode *node = json_array_get_element (array, i);
      const char *name = ortrain_json_get_string (node);
      ok = name != NULL && g_hash_table_add (seen, (gpointer) name);
      if (ok)
        g_strv_builder_add (builder, name);
    }
  if (!ok)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "%s: the classes must be an array of distinct strings", ortrain_text_show_path (path));
      return FALSE;
    }
  g_auto (GStrv) classes = g_strv_builder_end (builder);
  ortrain_csv_format_set_classes (self, (const char *const *) classes);
  return TRUE;
}

/**
 * ortrain_csv_format_save_classes:
 * @self: a format
 * @path: (type filename): a file
 * @error: return location for an error
 *
 * Writes the class names as a JSON array of strings, so that outputs of the trained model can be named. It fails with
 * %ORTRAIN_DATA_ERROR_EMPTY if there are none, or with an error of [error@GLib.FileError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_csv_format_save_classes (OrtrainCsvFormat *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  if (self->classes == NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                   "There are no class names to write to '%s': read a file with named classes first",
                   ortrain_text_show_path (path));
      return FALSE;
    }
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_array (builder);
  for (char **name = self->classes; *name != NULL; name++)
    json_builder_add_string_value (builder, *name);
  json_builder_end_array (builder);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  g_autofree char *text = json_to_string (root, TRUE);
  return ortrain_file_write_text (path, text, error);
}
