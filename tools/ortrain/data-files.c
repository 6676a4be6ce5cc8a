/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data-files.h"

#include "command.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-omitted-arrays-private.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- tables ---- */

void
table_settings_clear (TableSettings *self)
{
  g_free (self->header);
  g_free (self->classes);
  g_free (self->separator);
  g_free (self->comment);
}

/* By its first bytes. */
static gboolean
is_archive (const char *path)
{
  char magic[2] = "";
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInputStream) stream = g_file_read (file, NULL, NULL);
  return stream == NULL || g_input_stream_read (G_INPUT_STREAM (stream), magic, 2, NULL, NULL) != 2 ||
         memcmp (magic, "PK", 2) == 0;
}

gboolean
data_is_table (const char *path)
{
  g_autofree char *lower = g_ascii_strdown (path, -1);
  static const char *const endings[] = { ".csv", ".tsv", ".tab", ".txt", ".psv" };
  struct stat st;
  for (guint i = 0; i < G_N_ELEMENTS (endings); i++)
    if (g_str_has_suffix (lower, endings[i]))
      return TRUE;
  if (g_str_has_suffix (lower, ".npz") || strchr (path, ',') != NULL || g_stat (path, &st) != 0)
    return FALSE;
  return S_ISFIFO (st.st_mode) || (S_ISREG (st.st_mode) && !is_archive (path)); /* /dev/stdin, <(program) */
}

char **
data_split_columns (const char *target)
{
  return target != NULL ? g_strsplit (target, ",", -1) : NULL;
}

/* "tab", or the character itself. */
static gboolean
set_separator (OrtrainCsvFormat *format, const char *text, GError **error)
{
  static const struct
  {
    const char *word, *separator;
  } words[] = { { "auto", NULL }, { "comma", "," }, { "semicolon", ";" }, { "tab", "\t" },
                { "\\t", "\t" },  { "bar", "|" },   { "space", " " } };
  for (guint i = 0; text != NULL && i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (text, words[i].word))
      {
        ortrain_csv_format_set_separator (format, words[i].separator);
        return TRUE;
      }
  if (text != NULL && (*text <= 0 || text[1] != '\0' || strchr ("\"\n\r", *text) != NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--separator takes comma, semicolon, tab, bar, space, auto, or one character, not '%s'",
                   ortrain_text_show (text));
      return FALSE;
    }
  ortrain_csv_format_set_separator (format, text);
  return TRUE;
}

gboolean
data_set_table (OrtrainCsvFormat *format, const TableSettings *settings, const char *classes, GError **error)
{
  static const char *const words[] = { "auto", "yes", "no" }; /* in the order of OrtrainCsvHeader */
  guint i = 0;
  while (settings->header != NULL && i < G_N_ELEMENTS (words) && !g_str_equal (settings->header, words[i]))
    i++;
  if (i == G_N_ELEMENTS (words))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--header takes yes, no or auto, not '%s'",
                   settings->header);
      return FALSE;
    }
  ortrain_csv_format_set_header (format, (OrtrainCsvHeader) i);
  if (settings->comment != NULL)
    ortrain_csv_format_set_comment (format, *settings->comment != '\0' ? settings->comment : NULL);
  if (!set_separator (format, settings->separator, error))
    return FALSE;
  return classes == NULL || ortrain_csv_format_load_classes (format, classes, error);
}

char *
data_classes_path (const char *model)
{
  gsize length = strlen (model);
  if (g_str_has_suffix (model, ".onnx"))
    length -= strlen (".onnx");
  return g_strdup_printf ("%.*s.classes.json", (int) length, model);
}

/* ---- inputs ---- */

gboolean
data_read_inputs (OrtrainTensorDict *tensors, char **inputs, GError **error)
{
  for (guint i = 0; inputs != NULL && inputs[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (inputs[i], "=", 2);
      if (parts[0] == NULL || parts[1] == NULL)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "'%s' is not NAME=FILE.npy", inputs[i]);
          return FALSE;
        }
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (parts[1], error);
      if (tensor == NULL)
        return FALSE;
      ortrain_tensor_dict_set (tensors, parts[0], tensor);
    }
  return TRUE;
}

static gboolean
has_input (GListModel *inputs, const char *name)
{
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      if (g_str_equal (ortrain_value_get_name (value), name))
        return TRUE;
    }
  return FALSE;
}

OrtrainTensorDict *
data_read_shared (OrtrainGraph *graph, char **inputs, GError **error)
{
  g_autoptr (OrtrainTensorDict) shared = ortrain_tensor_dict_new ();
  if (!data_read_inputs (shared, inputs, error))
    return NULL;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (shared); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (shared, i);
      if (has_input (ortrain_graph_get_inputs (graph), name))
        continue;
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "--input: The model has no input '%s'",
                   ortrain_text_show (name));
      return NULL;
    }
  return g_steal_pointer (&shared);
}

/* ---- archives ---- */

/* Whether the first dimension of this input has a name that is another dimension of an input, too, such as that of the
 * positions [seq] with the tokens [batch, seq]. */
static gboolean
begins_with_inner (GListModel *inputs, OrtrainValue *value)
{
  g_auto (GStrv) names = command_split_shape (value);
  g_autoptr (GHashTable) open = command_find_open_dims (inputs);
  gpointer is_batch;
  return names != NULL && g_hash_table_lookup_extended (open, names[0], NULL, &is_batch) && is_batch == NULL;
}

static gboolean
begins_with_number (OrtrainValue *value)
{
  return ortrain_value_get_rank (value) > 0 && ortrain_value_get_dim (value, 0) >= 0;
}

/* Whether all inputs have a number as their first dimension. */
static gboolean
all_begin_with_numbers (GListModel *inputs)
{
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      if (ortrain_value_get_rank (value) != 0 && !begins_with_number (value))
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_shape (OrtrainTensor *tensor, OrtrainValue *value)
{
  const gint rank = ortrain_value_get_rank (value);
  gboolean has = rank >= 0 && ortrain_tensor_get_rank (tensor) == (gsize) rank;
  for (gint i = 0; has && i < rank; i++)
    {
      const gint64 dim = ortrain_value_get_dim (value, (guint) i);
      has = dim < 0 || dim == ortrain_tensor_get_dim (tensor, (gsize) i);
    }
  return has;
}

/* Whether an array is an input as a whole, and not one of it for each of n items: the shape that the model declares has
 * no dimension for the batch. n: -1: not known */
static gboolean
is_shared (GListModel *inputs, OrtrainValue *value, OrtrainTensor *array, gint64 n)
{
  if (ortrain_value_get_rank (value) == 0 || ortrain_tensor_get_rank (array) == 0)
    return TRUE;
  if (!begins_with_number (value))
    return has_shape (array, value) && begins_with_inner (inputs, value);
  if (!has_shape (array, value))
    return FALSE;
  return !all_begin_with_numbers (inputs) || (n >= 0 && ortrain_tensor_get_dim (array, 0) != n);
}

gboolean
data_leave_out_shared (OrtrainCsvFormat *format, OrtrainGraph *graph, OrtrainTensorDict *shared, GError **error)
{
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (shared); i++)
    ortrain_csv_format_remove (format, ortrain_tensor_dict_get_name (shared, i));
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      const char *name = ortrain_text_show (ortrain_value_get_name (value));
      g_autofree char *shape = ortrain_value_get_shape_string (value);
      if (ortrain_tensor_dict_contains (shared, ortrain_value_get_name (value)) ||
          !(begins_with_number (value) ? !all_begin_with_numbers (inputs)
                                       : ortrain_value_get_rank (value) == 0 || begins_with_inner (inputs, value)))
        continue;
      g_set_error (
          error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
          "Input '%s' is %s in the model, without a dimension for the batch: all items share it, and a table has "
          "no column for it; give it by --input %s=FILE.npy",
          name, *shape != '\0' ? shape : "a number", name);
      return FALSE;
    }
  return TRUE;
}

static OrtrainTensor *
find_array (OrtrainTensorDict *arrays, const char *name, const char *path, GError **error)
{
  OrtrainTensor *tensor = ortrain_tensor_dict_get (arrays, name);
  if (tensor != NULL)
    return tensor;
  const char *reason = ortrain_omitted_arrays_find (arrays, name);
  if (reason != NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "%s: %s", ortrain_text_show (path), reason);
      return NULL;
    }
  g_auto (GStrv) names = ortrain_tensor_dict_get_names (arrays);
  g_autofree char *list = g_strjoinv ("', '", names);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "%s has no array '%s'; it has '%s'",
               ortrain_text_show (path), ortrain_text_show (name), ortrain_text_show_list (list));
  return NULL;
}

/* All items share the same array, whichever file they are from. */
static gboolean
share (OrtrainTensorDict *shared, const char *name, OrtrainTensor *array, const char *path, GError **error)
{
  OrtrainTensor *before = ortrain_tensor_dict_get (shared, name);
  if (before == NULL)
    ortrain_tensor_dict_set (shared, name, array);
  if (before == NULL || ortrain_tensor_equal (before, array))
    return TRUE;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
               "Input '%s' has no dimension for the batch: all items share it, but %s has another one than was read "
               "before",
               ortrain_text_show (name), ortrain_text_show (path));
  return FALSE;
}

/* The number of items: of the target, or of the first input with an array for each item; -1 if not known. */
static gint64
count_items (OrtrainTensorDict *arrays, GListModel *inputs, OrtrainTensor *target)
{
  if (target != NULL)
    return ortrain_tensor_get_rank (target) > 0 ? ortrain_tensor_get_dim (target, 0) : -1;
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      OrtrainTensor *array = ortrain_tensor_dict_get (arrays, ortrain_value_get_name (value));
      if (array != NULL && !is_shared (inputs, value, array, -1))
        return ortrain_tensor_get_dim (array, 0);
    }
  return -1;
}

static gboolean
check_length (OrtrainTensor *array, const char *name, gint64 n, const char *path, GError **error)
{
  if (n < 0 || ortrain_tensor_get_dim (array, 0) == n)
    return TRUE;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
               "%s: array '%s' has %" G_GINT64_FORMAT " row%s, but the data has %" G_GINT64_FORMAT
               " item%s; if all items share it: --input %s=FILE.npy",
               ortrain_text_show (path), ortrain_text_show (name), ortrain_tensor_get_dim (array, 0),
               ortrain_text_plural ((guint64) ortrain_tensor_get_dim (array, 0)), n, ortrain_text_plural ((guint64) n),
               ortrain_text_show (name));
  return FALSE;
}

static OrtrainDataset *
open_archive (const char *path, OrtrainGraph *graph, const char *target_name, OrtrainTensorDict *shared, GError **error)
{
  g_autoptr (OrtrainTensorDict) arrays = ortrain_tensor_dict_new_from_npz (path, error);
  g_autoptr (OrtrainTensorDict) used = ortrain_tensor_dict_new ();
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  if (arrays == NULL)
    return NULL;
  OrtrainTensor *target = target_name != NULL ? find_array (arrays, target_name, path, error) : NULL;
  if (target_name != NULL && target == NULL)
    return NULL;
  const gint64 n = count_items (arrays, inputs, target);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      const char *name = ortrain_value_get_name (value);
      if (ortrain_tensor_dict_contains (shared, name) && !ortrain_tensor_dict_contains (arrays, name))
        continue; /* from --input */
      OrtrainTensor *array = find_array (arrays, name, path, error);
      if (array == NULL)
        return NULL;
      if (ortrain_tensor_dict_contains (shared, name) || is_shared (inputs, value, array, n))
        {
          if (!share (shared, name, array, path, error))
            return NULL;
          continue;
        }
      if (!check_length (array, name, n, path, error))
        return NULL;
      ortrain_tensor_dict_set (used, name, array);
    }
  if (target != NULL)
    ortrain_tensor_dict_set (used, target_name, target);
  return ortrain_tensor_dataset_new (used, error);
}

OrtrainDataset *
data_open (const char *path, OrtrainGraph *graph, const char *target, OrtrainTensorDict *shared, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (path, ",", 2);
  if (parts[0] == NULL || parts[1] == NULL)
    return open_archive (path, graph, target, shared, error);
  return ortrain_tensor_dataset_new_from_idx (parts[0], parts[1], command_first_name (ortrain_graph_get_inputs (graph)),
                                              target != NULL ? target : "labels", error);
}

/* ---- batches of one size ---- */

gint64
data_find_fixed_batch (OrtrainGraph *graph, const char *output)
{
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  OrtrainValue *value = output != NULL ? ortrain_graph_find_value (graph, output) : NULL;
  g_autoptr (OrtrainValue) first = g_list_model_get_item (inputs, 0);
  if (value == NULL || first == NULL || !all_begin_with_numbers (inputs))
    return 0;
  if (ortrain_value_get_rank (value) == 0) /* the output is the loss */
    return begins_with_number (first) ? ortrain_value_get_dim (first, 0) : 0;
  const gint64 batch = begins_with_number (value) ? ortrain_value_get_dim (value, 0) : 0;
  for (guint i = 0; batch > 0 && i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) input = g_list_model_get_item (inputs, i);
      if (begins_with_number (input) && ortrain_value_get_dim (input, 0) == batch)
        return batch;
    }
  return 0;
}

gboolean
data_check_batch (OrtrainDataset *dataset, const char *what, gint64 batch, GError **error)
{
  const guint64 n = ortrain_dataset_get_length (dataset);
  if (n >= (guint64) batch)
    return TRUE;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
               "%s has %" G_GUINT64_FORMAT " items, but the model takes batches of %" G_GINT64_FORMAT " only",
               ortrain_text_show (what), n, batch);
  return FALSE;
}
