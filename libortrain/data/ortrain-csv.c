/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "data/ortrain-csv-format-private.h"
#include "data/ortrain-csv-text-private.h"
#include "data/ortrain-tensor-dataset.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Values separated by commas, as RFC 4180 has them, or other characters: perhaps a line of column names, then one line
 * for each item; fields may be in double quotes. Types come from the format, which has them from the model and its
 * loss. */

#define UNUSED G_MAXUINT
#define NUMERIC_LIMIT 9007199254740992.0 /* 2^53: whole numbers up to here are exact */

typedef enum
{
  END_OF_FIELD,
  END_OF_LINE,
  WRONG_QUOTES,
} Stop;

/* A tensor as it is read. */
typedef struct
{
  const OrtrainCsvTensor *tensor;
  guint n_columns;
  GArray *values;   /* of float, double or gint64 */
  GPtrArray *texts; /* of classes, until the file is read */
} Field;

typedef struct
{
  const char *path;
  const char *p;
  const char *end;
  char separator;
  char decimal; /* the sign that numbers have, '.' or ','; NUL: none so far */
  gint64 line;  /* of the row that is read, from 1 */
  gint64 next_line;
  GString *cell;
  OrtrainCsvFormat *format;
  GPtrArray *names; /* of the columns */
  guint *field_of;  /* [columns]: UNUSED: nobody takes it */
  Field *fields;    /* [format->tensors->len] */
  GArray *lines;    /* of gint64: of each item */
} Reader;

/* Several spaces are one separator, and those at the ends of a line are ignored. */
static void
skip_spaces (Reader *r)
{
  while (r->separator == ' ' && r->p < r->end && *r->p == ' ')
    r->p++;
}

/* Reads one field into r->cell. */
static Stop
read_cell (Reader *r)
{
  g_string_truncate (r->cell, 0);
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
          r->next_line += *r->p == '\n';
          g_string_append_c (r->cell, *r->p);
        }
    }
  else
    {
      const char *begin = r->p;
      while (r->p < r->end && *r->p != r->separator && *r->p != '\n' && *r->p != '\r')
        r->p++;
      g_string_append_len (r->cell, begin, r->p - begin);
    }
  if (r->p >= r->end)
    return END_OF_LINE;
  char c = *r->p++;
  if (c == ' ' && c == r->separator)
    {
      skip_spaces (r);
      if (r->p >= r->end)
        return END_OF_LINE;
      if (*r->p != '\n' && *r->p != '\r')
        return END_OF_FIELD;
      c = *r->p++;
    }
  else if (c == r->separator)
    return END_OF_FIELD;
  if (c == '\r' && r->p < r->end && *r->p == '\n')
    r->p++;
  r->next_line++;
  return c == '\n' || c == '\r' ? END_OF_LINE : WRONG_QUOTES;
}

static gboolean fail (const Reader *r, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
fail (const Reader *r, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "%s, line %" G_GINT64_FORMAT ": %s",
               ortrain_text_show_path (r->path), r->line, what);
  return FALSE;
}

static gboolean
fail_quotes (const Reader *r, GError **error)
{
  return fail (r, error, "Unterminated quote, or text after a closing quote");
}

/* Skips empty lines and comments. */
static void
skip_lines (Reader *r)
{
  const char *comment = r->format->comment;
  const gsize length = comment != NULL ? strlen (comment) : 0;
  while (r->p < r->end)
    {
      if (length > 0 && (gsize) (r->end - r->p) >= length && memcmp (r->p, comment, length) == 0)
        while (r->p < r->end && *r->p != '\n' && *r->p != '\r')
          r->p++;
      skip_spaces (r);
      if (r->p >= r->end || (*r->p != '\n' && *r->p != '\r'))
        return;
      r->next_line += *r->p == '\n' || !(r->p + 1 < r->end && r->p[1] == '\n');
      r->p++;
    }
}

/* Whether a text is a number, with nothing around it. */
static gboolean
parse_number (const char *text, double *value)
{
  char *end;
  *value = g_ascii_strtod (text, &end);
  return end != text && *end == '\0';
}

/* ---- columns of tensors ---- */

/* A row as texts. */
static gboolean
read_texts (Reader *r, GPtrArray *texts, GError **error)
{
  Stop stop;
  r->line = r->next_line;
  do
    {
      stop = read_cell (r);
      if (stop == WRONG_QUOTES)
        return fail_quotes (r, error);
      g_ptr_array_add (texts, g_strdup (g_strstrip (r->cell->str)));
    }
  while (stop == END_OF_FIELD);
  return TRUE;
}

static gboolean
is_column_number (const char *name, guint n_columns)
{
  guint64 number;
  return g_ascii_string_to_unsigned (name, 10, 1, n_columns, &number, NULL);
}

static gboolean
has_column (GPtrArray *names, const char *name)
{
  return g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL);
}

/* Decides whether the first line is a header: as the format says; or, by default, if it has the requested names, or
 * lacks a number where a number must be. */
static gboolean
find_header (Reader *r, GPtrArray *first, gboolean *is_header, GError **error)
{
  *is_header = r->format->header == ORTRAIN_CSV_HEADER_YES;
  if (r->format->header != ORTRAIN_CSV_HEADER_AUTO)
    return TRUE;
  guint n_inputs = 0, n_numbers = 0, n_counted = 0, n = first->len;
  gboolean default_target = FALSE;
  g_autofree gboolean *is_target = g_new0 (gboolean, n);
  for (guint t = 0; t < r->format->tensors->len; t++)
    {
      const OrtrainCsvTensor *tensor = &g_array_index (r->format->tensors, OrtrainCsvTensor, t);
      for (char **name = tensor->columns; name != NULL && *name != NULL; name++)
        {
          if (!is_column_number (*name, n))
            {
              *is_header = TRUE; /* a column of that name exists only in a header; the search for it reports one that is
                                    missing */
              return TRUE;
            }
          if (tensor->is_target)
            is_target[g_ascii_strtoull (*name, NULL, 10) - 1] = TRUE;
        }
      if (has_column (first, tensor->name))
        {
          *is_header = TRUE;
          return TRUE;
        }
      default_target = default_target || (tensor->is_target && tensor->columns == NULL);
    }
  if (default_target)
    is_target[n - 1] = TRUE;
  for (guint i = 0; i < n; i++)
    {
      double value;
      if (is_target[i])
        continue;
      n_inputs++;
      char decimal = '\0';
      if (ortrain_csv_text_parse_number (first->pdata[i], r->separator, &decimal, &value))
        {
          n_numbers++;
          n_counted += value == (double) i;
        }
    }
  *is_header = n_numbers == 0;
  if (n_numbers > 0 && n_numbers < n_inputs)
    return fail (r, error,
                 "Some cells are numbers, some are not: set header to yes or no, depending on whether this line names "
                 "the columns");
  if (n_inputs >= 3 && n_counted == n_inputs)
    return fail (r, error,
                 "The cells are 0, 1, 2 …: set header to yes or no, depending on whether this line names the columns");
  return TRUE;
}

static gboolean
take_column (Reader *r, guint t, const char *name, gboolean is_header, GError **error)
{
  guint column;
  if (!g_ptr_array_find_with_equal_func (r->names, name, g_str_equal, &column))
    {
      g_ptr_array_add (r->names, NULL);
      g_autofree char *list = g_strjoinv ("', '", (char **) r->names->pdata);
      g_ptr_array_set_size (r->names, (int) r->names->len - 1);
      if (is_header)
        return fail (r, error, "There is no column '%s'; there are '%s'", ortrain_text_show (name),
                     ortrain_text_show_list (list));
      return fail (r, error, "There is no column '%s'; without a header, columns are named 1 to %u",
                   ortrain_text_show (name), r->names->len);
    }
  if (r->field_of[column] != UNUSED)
    return fail (r, error, "Column '%s' is used for both '%s' and '%s'", ortrain_text_show (name),
                 ortrain_text_show (r->fields[r->field_of[column]].tensor->name),
                 ortrain_text_show (r->fields[t].tensor->name));
  r->field_of[column] = t;
  r->fields[t].n_columns++;
  return TRUE;
}

/* Items of a tensor whose shape is known have as many numbers as there are columns. */
static gboolean
check_columns (Reader *r, const Field *field, GError **error)
{
  const OrtrainCsvTensor *tensor = field->tensor;
  gint64 known = 1;
  gboolean open = FALSE;
  for (guint i = 0; tensor->dims != NULL && i < tensor->rank; i++)
    {
      open = open || tensor->dims[i] < 0;
      if (tensor->dims[i] >= 0 && !ortrain_checked_mul_i64 (known, tensor->dims[i], &known))
        known = 0;
    }
  if (field->n_columns == 0)
    return fail (r, error,
                 "No column is left for '%s': the first line has %u field%s, separated by '%s%c'; if another character "
                 "separates them, set separator (--separator of ortrain)",
                 ortrain_text_show (tensor->name), r->names->len, ortrain_text_plural (r->names->len),
                 r->separator == '\t' ? "\\" : "", r->separator == '\t' ? 't' : r->separator);
  if (tensor->dims == NULL || (open ? known > 0 && field->n_columns % known == 0 : known == field->n_columns))
    return TRUE;
  return fail (r, error, "'%s' needs %" G_GINT64_FORMAT " number%s%s per item, but the table has %u column%s for it",
               ortrain_text_show (tensor->name), known, ortrain_text_plural ((guint64) known),
               open ? ", or a multiple," : "", field->n_columns, ortrain_text_plural (field->n_columns));
}

static gboolean
assign_columns (Reader *r, gboolean is_header, GError **error)
{
  const guint n = r->format->tensors->len;
  guint rest = UNUSED, n_rest = 0;
  r->field_of = g_new (guint, r->names->len);
  for (guint c = 0; c < r->names->len; c++)
    r->field_of[c] = UNUSED;
  for (guint t = 0; t < n; t++)
    for (char **name = r->fields[t].tensor->columns; name != NULL && *name != NULL; name++)
      if (!take_column (r, t, *name, is_header, error))
        return FALSE;
  for (guint t = 0; t < n; t++)
    {
      const OrtrainCsvTensor *tensor = r->fields[t].tensor;
      if (tensor->columns != NULL)
        continue;
      if (is_header && has_column (r->names, tensor->name))
        {
          if (!take_column (r, t, tensor->name, is_header, error))
            return FALSE;
        }
      else if (tensor->is_target)
        {
          if (!take_column (r, t, r->names->pdata[r->names->len - 1], is_header, error))
            return FALSE;
        }
      else
        {
          rest = t;
          n_rest++;
        }
    }
  if (n_rest > 1)
    return fail (
        r, error,
        "There is no column '%s', and other inputs lack a column, too; name the columns of each with add_input",
        ortrain_text_show (r->fields[rest].tensor->name));
  for (guint c = 0; n_rest == 1 && c < r->names->len; c++)
    if (r->field_of[c] == UNUSED)
      {
        r->field_of[c] = rest;
        r->fields[rest].n_columns++;
      }
  for (guint t = 0; t < n; t++)
    if (!check_columns (r, &r->fields[t], error))
      return FALSE;
  return TRUE;
}

/* ---- rows ---- */

static gboolean
read_value (Reader *r, guint column, GError **error)
{
  Field *field = &r->fields[r->field_of[column]];
  const char *name = r->names->pdata[column], *text = g_strstrip (r->cell->str);
  double value;
  if (*text == '\0')
    return fail (r, error, "Column '%s' is empty", ortrain_text_show (name));
  if (field->texts != NULL)
    {
      if (!g_utf8_validate (text, -1, NULL))
        return fail (r, error, "Column '%s': '%s' is not UTF-8; save the table as UTF-8", ortrain_text_show (name),
                     ortrain_text_show (text));
      g_ptr_array_add (field->texts, g_strdup (text));
      return TRUE;
    }
  if (!ortrain_csv_text_parse_number (text, r->separator, &r->decimal, &value))
    {
      char none = '\0';
      if (r->decimal != '\0' && ortrain_csv_text_parse_number (text, r->separator, &none, &value))
        return fail (r, error, "Column '%s': '%s' has the decimal sign '%c', and numbers before it have '%c'",
                     ortrain_text_show (name), ortrain_text_show (text), none, r->decimal);
      if (r->separator != ',' && ortrain_csv_text_is_ambiguous (text))
        return fail (r, error,
                     "Column '%s': '%s' may have a decimal comma or a comma between thousands; write it with "
                     "a decimal point, or separate the fields by semicolons",
                     ortrain_text_show (name), ortrain_text_show (text));
      return fail (
          r, error,
          "Column '%s': '%s' is not a number (texts may be classes to be learned; for an input, make a column of 0 "
          "and 1 of each of them)",
          ortrain_text_show (name), ortrain_text_show (text));
    }
  if (!isfinite (value) || (field->tensor->dtype == ORTRAIN_DTYPE_FLOAT32 && fabs (value) > FLT_MAX))
    return fail (r, error, "Column '%s': '%s' is not a finite number of %s", ortrain_text_show (name),
                 ortrain_text_show (text), ortrain_dtype_get_name (field->tensor->dtype));
  if (field->tensor->dtype == ORTRAIN_DTYPE_FLOAT64)
    g_array_append_val (field->values, value);
  else if (field->tensor->dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      float narrow = (float) value;
      g_array_append_val (field->values, narrow);
    }
  else
    {
      if (value != floor (value) || fabs (value) > NUMERIC_LIMIT)
        return fail (r, error, "Column '%s': %s is not an integer, which '%s' needs", ortrain_text_show (name),
                     ortrain_text_show (text), ortrain_text_show (field->tensor->name));
      gint64 whole = (gint64) value;
      g_array_append_val (field->values, whole);
    }
  return TRUE;
}

/* A line that begins here and has too few fields. */
static gboolean
fail_short (const Reader *r, guint n_fields, const char *begin, GError **error)
{
  g_autofree char *separated =
      r->separator == ',' ? g_strdup ("")
                          : g_strdup_printf ("; fields are separated by '%s%c'", r->separator == '\t' ? "\\" : "",
                                             r->separator == '\t' ? 't' : r->separator);
  return fail (r, error, "Line has %u field%s, the first line has %u%s%s", n_fields, ortrain_text_plural (n_fields),
               r->names->len, separated, *begin == '#' ? "; if lines that begin with # are comments, set comment" : "");
}

static gboolean
read_rows (Reader *r, GError **error)
{
  const guint n = r->names->len;
  for (skip_lines (r); r->p < r->end; skip_lines (r))
    {
      const char *begin = r->p;
      r->line = r->next_line;
      for (guint column = 0; column < n; column++)
        {
          Stop stop = read_cell (r);
          if (stop == WRONG_QUOTES)
            return fail_quotes (r, error);
          if (stop == END_OF_LINE && column < n - 1)
            return fail_short (r, column + 1, begin, error);
          if (stop == END_OF_FIELD && column == n - 1)
            return fail (r, error, "Line has more than the %u field%s of the first line", n, ortrain_text_plural (n));
          if (r->field_of[column] != UNUSED && !read_value (r, column, error))
            return FALSE;
        }
      g_array_append_val (r->lines, r->line);
    }
  return TRUE;
}

/* ---- classes ---- */

/* Numbers by their value, before texts by their bytes. */
static int
compare_classes (gconstpointer a, gconstpointer b)
{
  const char *x = *(const char *const *) a, *y = *(const char *const *) b;
  double u = 0, v = 0;
  gboolean is_u = parse_number (x, &u), is_v = parse_number (y, &v);
  if (is_u != is_v)
    return is_u ? -1 : 1;
  if (is_u && u != v)
    return u < v ? -1 : 1;
  return strcmp (x, y);
}

static void
decide_classes (OrtrainCsvFormat *format, GPtrArray *texts)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) unique = g_ptr_array_new ();
  for (guint i = 0; i < texts->len; i++)
    if (g_hash_table_add (seen, texts->pdata[i]))
      g_ptr_array_add (unique, texts->pdata[i]);
  g_ptr_array_sort (unique, compare_classes);
  g_ptr_array_add (unique, NULL);
  ortrain_csv_format_set_classes (format, (const char *const *) unique->pdata);
}

/* Whole numbers are classes as they are; else each text is one. */
static gboolean
number_classes (Reader *r, Field *field, GError **error)
{
  OrtrainCsvFormat *format = r->format;
  const guint n = field->texts->len, n_columns = field->n_columns;
  guint n_numbers = 0, first_text = n, first_broken = n;
  double value;
  for (guint i = 0; i < n; i++)
    if (!parse_number (field->texts->pdata[i], &value))
      first_text = MIN (first_text, i);
    else
      {
        n_numbers++;
        if (value != floor (value) || fabs (value) > NUMERIC_LIMIT)
          first_broken = MIN (first_broken, i);
      }
  const char *column = NULL;
  for (guint c = 0; c < r->names->len && column == NULL; c++)
    if (&r->fields[r->field_of[c] != UNUSED ? r->field_of[c] : 0] == field && r->field_of[c] != UNUSED)
      column = r->names->pdata[c];
  if (format->classes == NULL && n_numbers == n && first_broken < n)
    {
      r->line = g_array_index (r->lines, gint64, first_broken / n_columns);
      return fail (
          r, error,
          "Column '%s': %s is not an integer, as class numbers are; to predict numbers, use the loss mse, l1 or huber",
          ortrain_text_show (column), ortrain_text_show ((const char *) field->texts->pdata[first_broken]));
    }
  if (format->has_numbers && first_text < n)
    {
      r->line = g_array_index (r->lines, gint64, first_text / n_columns);
      return fail (r, error, "Column '%s': '%s' is not an integer, as the classes of the previous file are",
                   ortrain_text_show (column), ortrain_text_show ((const char *) field->texts->pdata[first_text]));
    }
  if (format->classes == NULL && n_numbers == n)
    {
      for (guint i = 0; i < n; i++)
        {
          gint64 whole = (gint64) g_ascii_strtod (field->texts->pdata[i], NULL);
          g_array_append_val (field->values, whole);
        }
      format->has_numbers = TRUE;
      return TRUE;
    }
  if (format->classes == NULL)
    decide_classes (format, field->texts);
  g_autoptr (GHashTable) numbers = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint k = 0; format->classes[k] != NULL; k++)
    g_hash_table_insert (numbers, format->classes[k], GUINT_TO_POINTER (k));
  for (guint i = 0; i < n; i++)
    {
      gpointer number;
      if (!g_hash_table_lookup_extended (numbers, field->texts->pdata[i], NULL, &number))
        {
          g_autofree char *list = g_strjoinv ("', '", format->classes);
          r->line = g_array_index (r->lines, gint64, i / n_columns);
          return fail (r, error, "Column '%s': '%s' is not one of the %u classes, '%s'", ortrain_text_show (column),
                       ortrain_text_show ((const char *) field->texts->pdata[i]), g_strv_length (format->classes),
                       ortrain_text_show_list (list));
        }
      gint64 whole = GPOINTER_TO_UINT (number);
      g_array_append_val (field->values, whole);
    }
  return TRUE;
}

/* ---- the dataset ---- */

static OrtrainTensor *
make_tensor (Reader *r, Field *field, GError **error)
{
  const OrtrainCsvTensor *tensor = field->tensor;
  gint64 dims[ORTRAIN_MAX_RANK] = { r->lines->len };
  gsize rank = 1;
  if (tensor->dims != NULL)
    {
      /* one unknown dimension gets the remaining columns; others are 1 */
      gint64 left = field->n_columns;
      for (guint i = 0; i < tensor->rank; i++)
        left /= tensor->dims[i] > 0 ? tensor->dims[i] : 1;
      for (guint i = 0; i < tensor->rank && rank < ORTRAIN_MAX_RANK; i++)
        {
          dims[rank++] = tensor->dims[i] >= 0 ? tensor->dims[i] : left;
          if (tensor->dims[i] < 0)
            left = 1;
        }
    }
  else if (!tensor->is_target || field->n_columns > 1)
    dims[rank++] = field->n_columns;
  g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (
      field->values->data, (gsize) field->values->len * g_array_get_element_size (field->values),
      (GDestroyNotify) g_array_unref, g_array_ref (field->values));
  return ortrain_tensor_new_for_bytes (tensor->dtype, dims, rank, bytes, error);
}

static OrtrainDataset *
parse (Reader *r, GError **error)
{
  g_autoptr (GPtrArray) first = g_ptr_array_new_with_free_func (g_free);
  gboolean is_header;
  gint64 n_comments;
  if (r->format->comment == NULL)
    {
      r->p += ortrain_csv_text_skip_preface (r->p, (gsize) (r->end - r->p), r->separator, &n_comments);
      r->next_line += n_comments;
    }
  skip_lines (r);
  const char *begin = r->p;
  if (!read_texts (r, first, error) || !find_header (r, first, &is_header, error))
    return NULL;
  r->names = g_ptr_array_ref (first);
  if (!is_header)
    {
      r->p = begin;
      r->next_line = r->line;
      for (guint c = 0; c < first->len; c++)
        {
          g_free (first->pdata[c]);
          first->pdata[c] = g_strdup_printf ("%u", c + 1);
        }
    }
  if (!assign_columns (r, is_header, error) || !read_rows (r, error))
    return NULL;
  if (r->lines->len == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "%s: the table has no rows",
                   ortrain_text_show_path (r->path));
      return NULL;
    }
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  for (guint t = 0; t < r->format->tensors->len; t++)
    {
      if (r->fields[t].texts != NULL && !number_classes (r, &r->fields[t], error))
        return NULL;
      g_autoptr (OrtrainTensor) tensor = make_tensor (r, &r->fields[t], error);
      if (tensor == NULL)
        {
          g_prefix_error (error, "%s: '%s': ", ortrain_text_show_path (r->path),
                          ortrain_text_show (r->fields[t].tensor->name));
          return NULL;
        }
      ortrain_tensor_dict_set (tensors, r->fields[t].tensor->name, tensor);
    }
  return ortrain_tensor_dataset_new (tensors, error);
}

/**
 * ortrain_tensor_dataset_new_from_csv:
 * @path: (type filename): a file of comma-separated values
 * @format: which columns form which tensor; it keeps the classes that it finds for the files that are read after it
 * @error: return location for an error
 *
 * Creates a dataset from a table. Fields may be quoted with double quotes (RFC 4180); lines end with LF, CR or both.
 * The separator of the fields is [property@CsvFormat:separator]. The text is UTF-8, or, with a byte order mark, UTF-16;
 * the file may be a pipe. Lines of comments before the first row are skipped if they cannot be a row, others as
 * [property@CsvFormat:comment] says.
 *
 * Errors are %ORTRAIN_DATA_ERROR_INVALID, with the line and the column, for a table that does not match @format, or for
 * a separator that is not allowed, %ORTRAIN_DATA_ERROR_EMPTY for one without rows, and those of [error@GLib.FileError]
 * and [error@TensorError].
 *
 * Returns: (transfer full) (type OrtrainTensorDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_tensor_dataset_new_from_csv (const char *path, OrtrainCsvFormat *format, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (ORTRAIN_IS_CSV_FORMAT (format), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  const guint n = format->tensors->len;
  if (n == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                   "%s: the format has no tensors; add them with add_input and add_target",
                   ortrain_text_show_path (path));
      return NULL;
    }
  const char *separator = format->separator;
  if (separator != NULL && (*separator <= 0 || separator[1] != '\0' || strchr ("\"\n\r", *separator) != NULL))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "The separator of a table is one ASCII character, no quote and no end of a line, not '%s'",
                   ortrain_text_show (separator));
      return NULL;
    }
  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, error);
  if (bytes == NULL)
    return NULL;
  g_autoptr (GBytes) decoded = ortrain_csv_text_decode (bytes, error);
  if (decoded == NULL)
    {
      g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
      return NULL;
    }
  gsize size;
  const char *text = g_bytes_get_data (decoded, &size);
  const gsize whole_size = size;
  const char declared = ortrain_csv_text_take_declaration (&text, &size);
  /* A row of n fields has at least n bytes, so the numbers take at most eight times the file. GArray counts in 32 bits.
   */
  if (size > G_MAXUINT32 / 16)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "%s: a table of %" G_GSIZE_FORMAT " bytes is too large; use a .npz file",
                   ortrain_text_show_path (path), size);
      return NULL;
    }
  Reader r = { .path = path, .p = text, .end = text + size, .next_line = 1, .format = format };
  r.next_line += size < whole_size;
  r.separator = format->separator != NULL ? *format->separator
                : declared != '\0'        ? declared
                                          : ortrain_csv_text_find_separator (text, size, format->comment);
  r.cell = g_string_new (NULL);
  r.lines = g_array_new (FALSE, FALSE, sizeof (gint64));
  r.fields = g_new0 (Field, n);
  for (guint t = 0; t < n; t++)
    {
      const OrtrainCsvTensor *tensor = &g_array_index (format->tensors, OrtrainCsvTensor, t);
      r.fields[t].tensor = tensor;
      r.fields[t].values = g_array_new (FALSE, FALSE, (guint) ortrain_dtype_get_size (tensor->dtype));
      if (tensor->is_target && tensor->dtype == ORTRAIN_DTYPE_INT64)
        r.fields[t].texts = g_ptr_array_new_with_free_func (g_free);
    }
  OrtrainDataset *dataset = parse (&r, error);
  for (guint t = 0; t < n; t++)
    {
      g_array_unref (r.fields[t].values);
      g_clear_pointer (&r.fields[t].texts, g_ptr_array_unref);
    }
  g_free (r.fields);
  g_free (r.field_of);
  g_clear_pointer (&r.names, g_ptr_array_unref);
  g_array_unref (r.lines);
  g_string_free (r.cell, TRUE);
  if (dataset != NULL && !ortrain_mapped_file_check_bytes (bytes, error))
    g_clear_object (&dataset);
  return dataset;
}
