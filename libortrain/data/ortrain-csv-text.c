/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-csv-text-private.h"

#include "core/ortrain-errors.h"

#include <string.h>

#define N_SAMPLED 20 /* lines */

/* ---- encoding ---- */

static gboolean
fail (GError **error, const char *what)
{
  g_set_error_literal (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, what);
  return FALSE;
}

/* Files that people give in place of a table. */
static gboolean
check_magic (const char *data, gsize size, GError **error)
{
  static const struct
  {
    const char *magic, *what;
  } known[] = {
    { "PK\3\4",
      "the file is a ZIP archive, not a table: a spreadsheet has to be saved as CSV, and the name of a NumPy archive "
      "ends with .npz" },
    { "\x1f\x8b", "the file is compressed with gzip; unpack it" },
    { "\x93NUMPY", "the file is a NumPy array, not a table; put it into a .npz file" },
    { "\xd0\xcf\x11\xe0", "the file is a spreadsheet, not a table; save it as CSV" },
    { "PAR1", "the file is in the Parquet format, not a table; save it as CSV" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    if (size >= strlen (known[i].magic) && memcmp (data, known[i].magic, strlen (known[i].magic)) == 0)
      return fail (error, known[i].what);
  return TRUE;
}

/* In UTF-16 text, ASCII is a letter and a byte of 0. */
static gboolean
check_zeros (const char *data, gsize size, GError **error)
{
  const char *zero = memchr (data, 0, size);
  gint64 line = 1;
  if (zero == NULL)
    return TRUE;
  for (const char *p = data; p < zero; p++)
    line += *p == '\n';
  if (size >= 4 && (data[0] == 0) != (data[1] == 0) && (data[2] == 0) == (data[0] == 0) &&
      (data[3] == 0) == (data[1] == 0))
    return fail (error, "the text seems to be UTF-16 without a byte order mark; save it as UTF-8");
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
               "line %" G_GINT64_FORMAT ": a cell has a NUL byte", line);
  return FALSE;
}

static GBytes *
decode_utf16 (const char *data, gsize size, const char *encoding, GError **error)
{
  g_autoptr (GError) wrong = NULL;
  gsize length;
  char *text = g_convert (data, (gssize) size, "UTF-8", encoding, NULL, &length, &wrong);
  if (text != NULL)
    return g_bytes_new_take (text, length);
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "the text is not valid %s: %s", encoding,
               wrong->message);
  return NULL;
}

GBytes *
ortrain_csv_text_decode (GBytes *file, GError **error)
{
  gsize size;
  const char *data = g_bytes_get_data (file, &size);
  g_autoptr (GBytes) text = NULL;
  if (!check_magic (data, size, error))
    return NULL;
  if (size >= 2 && memcmp (data, "\xff\xfe", 2) == 0)
    text = decode_utf16 (data + 2, size - 2, "UTF-16LE", error);
  else if (size >= 2 && memcmp (data, "\xfe\xff", 2) == 0)
    text = decode_utf16 (data + 2, size - 2, "UTF-16BE", error);
  else if (size >= 3 && memcmp (data, "\xef\xbb\xbf", 3) == 0)
    text = g_bytes_new_from_bytes (file, 3, size - 3);
  else
    text = g_bytes_ref (file);
  if (text == NULL)
    return NULL;
  data = g_bytes_get_data (text, &size);
  if (size == 0)
    {
      g_set_error_literal (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "the file is empty");
      return NULL;
    }
  return check_zeros (data, size, error) ? g_steal_pointer (&text) : NULL;
}

/* ---- separators ---- */

gboolean
ortrain_csv_text_is_ambiguous (const char *text)
{
  const char *digits = text + (*text == '-' || *text == '+');
  const gsize n = strspn (digits, "0123456789");
  return n >= 1 && n <= 3 && *digits != '0' && digits[n] == ',' && strspn (digits + n + 1, "0123456789") == 3 &&
         digits[n + 4] == '\0';
}

gboolean
ortrain_csv_text_parse_number (const char *text, char separator, char *decimal, double *value)
{
  const char *comma = separator != ',' ? strchr (text, ',') : NULL;
  const char sign = comma != NULL ? ',' : strchr (text, '.') != NULL ? '.' : '\0';
  g_autofree char *copy = comma != NULL ? g_strdup (text) : NULL;
  char *end;
  if (copy != NULL)
    {
      /* With semicolons, commas are decimal commas; with other separators, earlier numbers have to show it. */
      if (strchr (text, '.') != NULL || (separator != ';' && *decimal != ',' && ortrain_csv_text_is_ambiguous (text)))
        return FALSE;
      copy[comma - text] = '.';
      text = copy;
    }
  *value = g_ascii_strtod (text, &end);
  if (end == text || *end != '\0' || (sign != '\0' && *decimal != '\0' && *decimal != sign))
    return FALSE;
  *decimal = sign != '\0' ? sign : *decimal;
  return TRUE;
}

/* The first lines, split at one separator. */
typedef struct
{
  guint n_cells;        /* of a line; 0: the lines differ */
  guint n_all, numbers; /* cells, and those of them that are numbers, but for the first line */
} Cut;

static const char *
end_of_line (const char *p, const char *end)
{
  gboolean quoted = FALSE;
  for (; p < end && (quoted || (*p != '\n' && *p != '\r')); p++)
    quoted = quoted != (*p == '"');
  return p;
}

static void
count_cell (const char *begin, const char *end, char separator, Cut *cut)
{
  char decimal = '\0';
  double value;
  g_autofree char *cell = g_strndup (begin, (gsize) (end - begin));
  cut->n_all++;
  cut->numbers += ortrain_csv_text_parse_number (g_strstrip (cell), separator, &decimal, &value);
}

/* The number of cells of a line. cut: or NULL */
static guint
cut_line (const char *p, const char *end, char separator, Cut *cut)
{
  gboolean quoted = FALSE;
  guint n = 1;
  while (separator == ' ' && p < end && *p == ' ')
    p++;
  while (separator == ' ' && p < end && end[-1] == ' ')
    end--;
  const char *begin = p;
  for (; p < end; p++)
    {
      quoted = quoted != (*p == '"');
      if (quoted || *p != separator || (separator == ' ' && p[1] == ' '))
        continue;
      if (cut != NULL)
        count_cell (begin, p, separator, cut);
      begin = p + 1;
      n++;
    }
  if (cut != NULL)
    count_cell (begin, end, separator, cut);
  return n;
}

static gboolean
begins_with (const char *p, const char *end, const char *prefix)
{
  const gsize n = prefix != NULL ? strlen (prefix) : 0;
  return n > 0 && (gsize) (end - p) >= n && memcmp (p, prefix, n) == 0;
}

/* Lines that begin with # are left out, whether they are comments or not: they may have any cells. */
static Cut
cut_text (const char *text, gsize size, char separator, const char *comment)
{
  Cut cut = { 0 };
  guint n_lines = 0;
  gboolean differ = FALSE;
  for (const char *p = text, *end = text + size, *next; p < end && n_lines < N_SAMPLED; p = next < end ? next + 1 : end)
    {
      next = end_of_line (p, end);
      if (next == p || begins_with (p, end, comment) || *p == '#')
        continue;
      const guint n = cut_line (p, next, separator, n_lines > 0 ? &cut : NULL);
      differ = differ || (n_lines > 0 && n != cut.n_cells);
      cut.n_cells = n;
      n_lines++;
    }
  cut.n_cells = differ || cut.n_cells < 2 ? 0 : cut.n_cells;
  return cut;
}

/* With the right separator a larger part of the cells are numbers; with equal parts, there are more cells. */
static gboolean
is_better (const Cut *a, const Cut *b)
{
  const guint64 x = (guint64) a->numbers * MAX (b->n_all, 1), y = (guint64) b->numbers * MAX (a->n_all, 1);
  return a->n_cells > 0 && (b->n_cells == 0 || x > y || (x == y && a->n_cells > b->n_cells));
}

char
ortrain_csv_text_find_separator (const char *text, gsize size, const char *comment)
{
  char best = ',';
  Cut found = cut_text (text, size, ',', comment);
  for (const char *separator = ";\t| "; *separator != '\0'; separator++)
    {
      const Cut cut = cut_text (text, size, *separator, comment);
      /* texts contain spaces, too */
      if (!is_better (&cut, &found) || (*separator == ' ' && (cut.n_all == 0 || cut.numbers < cut.n_all)))
        continue;
      found = cut;
      best = *separator;
    }
  return best;
}

char
ortrain_csv_text_take_declaration (const char **text, gsize *size)
{
  const char *p = *text;
  if (*size < 6 || memcmp (p, "sep=", 4) != 0 || p[4] <= 0 || p[4] == '"' || (p[5] != '\n' && p[5] != '\r'))
    return '\0';
  const gsize n = p[5] == '\r' && *size > 6 && p[6] == '\n' ? 7 : 6;
  *text += n;
  *size -= n;
  return p[4];
}

gsize
ortrain_csv_text_skip_preface (const char *text, gsize size, char separator, gint64 *n_lines)
{
  const char *end = text + size, *p = text;
  guint n_cells = 0;
  *n_lines = 0;
  while (p < end && *p == '#')
    {
      const char *next = end_of_line (p, end);
      n_cells = MAX (n_cells, cut_line (p, next, separator, NULL));
      p = next < end ? next + 1 : end;
      p += p < end && p[-1] == '\r' && *p == '\n';
      ++*n_lines;
    }
  if (p == text || p == end || cut_line (p, end_of_line (p, end), separator, NULL) == n_cells)
    {
      *n_lines = 0;
      return 0;
    }
  return (gsize) (p - text);
}
