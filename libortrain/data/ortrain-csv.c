/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-tensor-dataset.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "tensor/ortrain-file-writer-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Comma-separated values as RFC 4180 has them: a line of column names, then one line for each item; fields may stand
 * in double quotes. */

typedef struct
{
  const char *path;
  const char *p;
  const char *end;
  gint64 line;
  GString *field;
} Reader;

typedef enum
{
  END_OF_FIELD,
  END_OF_LINE,
  WRONG_QUOTES,
} Stop;

/* Reads one field into r->field. */
static Stop
read_field (Reader *r)
{
  g_string_truncate (r->field, 0);
  if (r->p < r->end && *r->p == '"')
    {
      for (r->p++;; r->p++)
        {
          if (r->p >= r->end)
            return WRONG_QUOTES;
          if (*r->p == '"' && !(r->p + 1 < r->end && *++r->p == '"'))
            {
              if (*r->p == '"') /* the last byte of the file */
                r->p++;
              break;
            }
          g_string_append_c (r->field, *r->p);
        }
    }
  else
    {
      const char *begin = r->p;
      while (r->p < r->end && *r->p != ',' && *r->p != '\n' && *r->p != '\r')
        r->p++;
      g_string_append_len (r->field, begin, r->p - begin);
    }
  if (r->p >= r->end)
    return END_OF_LINE;
  char c = *r->p++;
  if (c == ',')
    return END_OF_FIELD;
  if (c == '\r' && r->p < r->end && *r->p == '\n')
    r->p++;
  return c == '\n' || c == '\r' ? END_OF_LINE : WRONG_QUOTES;
}

static gboolean
fail (const Reader *r, GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "%s, line %" G_GINT64_FORMAT ": %s", r->path,
               r->line, what);
  return FALSE;
}

static gboolean
read_number (Reader *r, float *value, GError **error)
{
  char *end, *text = g_strstrip (r->field->str);
  *value = (float) g_ascii_strtod (text, &end);
  if (end != text && *end == '\0' && strlen (text) > 0)
    return TRUE;
  g_autofree char *what = g_strdup_printf ("“%s” is not a number", text);
  return fail (r, error, what);
}

static gboolean
read_names (Reader *r, GPtrArray *names, GError **error)
{
  Stop stop;
  do
    {
      stop = read_field (r);
      if (stop == WRONG_QUOTES)
        return fail (r, error, "a quote without an end, or text after one");
      g_ptr_array_add (names, g_strdup (g_strstrip (r->field->str)));
    }
  while (stop == END_OF_FIELD);
  return TRUE;
}

/* Labels are whole numbers, or else texts that are numbered in the order in which they first appear. */
typedef struct
{
  GArray *values; /* of gint64 */
  GHashTable *numbers;
  gboolean as_text;
} Labels;

static gboolean
read_label (Reader *r, Labels *labels, GError **error)
{
  char *end, *text = g_strstrip (r->field->str);
  if (labels->values->len == 0)
    {
      g_ascii_strtoll (text, &end, 10);
      labels->as_text = *text == '\0' || *end != '\0';
    }
  gint64 value;
  if (labels->as_text)
    {
      gpointer number;
      if (g_hash_table_lookup_extended (labels->numbers, text, NULL, &number))
        value = GPOINTER_TO_INT (number);
      else
        {
          value = g_hash_table_size (labels->numbers);
          g_hash_table_insert (labels->numbers, g_strdup (text), GINT_TO_POINTER ((int) value));
        }
    }
  else
    {
      errno = 0;
      value = g_ascii_strtoll (text, &end, 10);
      if (*text == '\0' || *end != '\0' || errno != 0)
        {
          g_autofree char *what = g_strdup_printf ("the label “%s” is not a whole number, as the first one is", text);
          return fail (r, error, what);
        }
    }
  g_array_append_val (labels->values, value);
  return TRUE;
}

static gboolean
read_rows (Reader *r, guint n_columns, guint label_column, GArray *inputs, Labels *labels, GError **error)
{
  while (r->p < r->end)
    {
      r->line++;
      if (*r->p == '\n' || *r->p == '\r') /* an empty line */
        {
          r->p++;
          continue;
        }
      for (guint column = 0; column < n_columns; column++)
        {
          float value;
          Stop stop = read_field (r);
          if (stop == WRONG_QUOTES)
            return fail (r, error, "a quote without an end, or text after one");
          if ((stop == END_OF_LINE) != (column == n_columns - 1))
            {
              g_autofree char *what = g_strdup_printf ("%s fields, the first line has %u",
                                                       stop == END_OF_LINE ? "too few" : "too many", n_columns);
              return fail (r, error, what);
            }
          if (column == label_column)
            {
              if (!read_label (r, labels, error))
                return FALSE;
            }
          else if (!read_number (r, &value, error))
            return FALSE;
          else
            g_array_append_val (inputs, value);
        }
    }
  return TRUE;
}

static OrtrainTensor *
take_array (OrtrainDType dtype, const gint64 *dims, gsize rank, GArray *array, GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (array->data, array->len * g_array_get_element_size (array),
                                                         (GDestroyNotify) g_array_unref, g_array_ref (array));
  return ortrain_tensor_new_for_bytes (dtype, dims, rank, bytes, error);
}

static OrtrainDataset *
parse (Reader *r, const char *input_name, const char *label_column, const char *label_name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  guint label = G_MAXUINT;
  if (!read_names (r, names, error))
    return NULL;
  if (label_column != NULL && !g_ptr_array_find_with_equal_func (names, label_column, g_str_equal, &label))
    {
      g_autofree char *what = g_strdup_printf ("there is no column %s", label_column);
      return fail (r, error, what), NULL;
    }
  guint n_inputs = names->len - (label != G_MAXUINT);
  if (n_inputs == 0)
    return fail (r, error, "there are no columns but the label's"), NULL;

  g_autoptr (GArray) inputs = g_array_new (FALSE, FALSE, sizeof (float));
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (GHashTable) numbers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Labels labels = { values, numbers, FALSE };
  if (!read_rows (r, names->len, label, inputs, &labels, error))
    return NULL;
  if (inputs->len == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "%s: there are no rows", r->path);
      return NULL;
    }

  gint64 dims[] = { inputs->len / n_inputs, n_inputs };
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) input = take_array (ORTRAIN_DTYPE_FLOAT32, dims, 2, inputs, error);
  if (input == NULL)
    return NULL;
  ortrain_tensor_dict_set (tensors, input_name, input);
  if (label != G_MAXUINT)
    {
      g_autoptr (OrtrainTensor) target = take_array (ORTRAIN_DTYPE_INT64, dims, 1, values, error);
      if (target == NULL)
        return NULL;
      ortrain_tensor_dict_set (tensors, label_name, target);
    }
  return ortrain_tensor_dataset_new (tensors, error);
}

/**
 * ortrain_tensor_dataset_new_from_csv:
 * @path: (type filename): a file of comma-separated values, whose first line has the names of the columns
 * @input_name: the name of the inputs in batches
 * @label_column: (nullable): the column of the labels, or %NULL if there is none
 * @label_name: (nullable): the name of the labels in batches; not %NULL if @label_column is not
 * @error: return location for an error
 *
 * Makes a dataset of a table of numbers. Batches have all columns but the labels' as float32 [n, columns], and the
 * labels as int64 [n]. Labels that are not whole numbers are numbered in the order in which they first appear.
 *
 * Returns: (transfer full) (type OrtrainTensorDataset): the dataset, or %NULL with a [error@DataError] or a file error
 */
OrtrainDataset *
ortrain_tensor_dataset_new_from_csv (const char *path, const char *input_name, const char *label_column,
                                     const char *label_name, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (input_name != NULL, NULL);
  g_return_val_if_fail (label_column == NULL || label_name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  g_autoptr (GBytes) bytes = ortrain_file_map (path, error);
  if (bytes == NULL)
    return NULL;
  gsize size;
  const char *text = g_bytes_get_data (bytes, &size);
  if (size == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "%s: the file is empty", path);
      return NULL;
    }
  /* A row of n fields has at least n bytes, so the numbers take at most four times the file. GArray counts in 32
   * bits. */
  if (size > G_MAXUINT32 / 16)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "%s: %" G_GSIZE_FORMAT " bytes are too many for a table; use a .npz file", path, size);
      return NULL;
    }
  if (size >= 3 && memcmp (text, "\xef\xbb\xbf", 3) == 0)
    text += 3, size -= 3;
  Reader r = { path, text, text + size, 1, g_string_new (NULL) };
  OrtrainDataset *dataset = parse (&r, input_name, label_column, label_name, error);
  g_string_free (r.field, TRUE);
  if (dataset != NULL && !ortrain_file_check (bytes, error))
    g_clear_object (&dataset);
  return dataset;
}
