/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "confusion-table.h"

#include "core/ortrain-text-private.h"

#include <string.h>

#define MAX_NAME 24 /* columns of a class's name */
#define MIN_HEAD 6  /* names above columns that are cut shorter say less than numbers */
#define MAX_HEAD 12
#define N_PAIRS 20

/* Columns on a terminal. */
static guint
get_width (const char *text)
{
  guint width = 0;
  for (const char *c = text; *c != '\0'; c = g_utf8_next_char (c))
    {
      const gunichar character = g_utf8_get_char (c);
      width += g_unichar_iszerowidth (character) ? 0 : g_unichar_iswide (character) ? 2 : 1;
    }
  return width;
}

/* The text, or its beginning and an ellipsis. */
static char *
cut (const char *text, guint width)
{
  if (get_width (text) <= width)
    return g_strdup (text);
  GString *head = g_string_new (NULL);
  for (const char *c = text; *c != '\0'; c = g_utf8_next_char (c))
    {
      const gsize length = head->len;
      g_string_append_unichar (head, g_utf8_get_char (c));
      if (get_width (head->str) + 1 > width)
        {
          g_string_truncate (head, length);
          break;
        }
    }
  g_string_append (head, "…");
  return g_string_free (head, FALSE);
}

static void
append_padded (GString *table, const char *text, guint width, gboolean right)
{
  const guint own = get_width (text), n = width > own ? width - own : 0;
  if (right)
    g_string_append_printf (table, "%*s%s", (int) n, "", text);
  else
    g_string_append_printf (table, "%s%*s", text, (int) n, "");
}

static gint64
count_at (OrtrainTensor *matrix, gint64 wanted, gint64 found)
{
  return (gint64) ortrain_tensor_get_scalar (matrix, wanted * ortrain_tensor_get_dim (matrix, 0) + found);
}

/* "3 green"; "3" without names */
static char *
name_class (const char *const *classes, gint64 i, gboolean numbered)
{
  const char *name = classes != NULL && i < (gint64) g_strv_length ((char **) classes) ? classes[i] : NULL;
  if (name == NULL)
    return g_strdup_printf ("%" G_GINT64_FORMAT, i);
  g_autofree char *shown = cut (ortrain_text_show (name), MAX_NAME);
  return numbered ? g_strdup_printf ("%" G_GINT64_FORMAT " %s", i, shown) : g_steal_pointer (&shown);
}

static char *
format_table (OrtrainTensor *matrix, const char *const *classes, guint columns)
{
  const guint n = (guint) ortrain_tensor_get_dim (matrix, 0);
  g_auto (GStrv) rows = g_new0 (char *, n + 1);
  g_auto (GStrv) heads = g_new0 (char *, n + 1);
  guint row_width = 0, head_width = 0, count_width = 1;
  for (guint i = 0; i < n; i++)
    {
      rows[i] = name_class (classes, i, TRUE);
      row_width = MAX (row_width, get_width (rows[i]));
      heads[i] = name_class (classes, i, FALSE);
      head_width = MAX (head_width, get_width (heads[i]));
      for (guint k = 0; k < n; k++)
        {
          g_autofree char *count = g_strdup_printf ("%" G_GINT64_FORMAT, count_at (matrix, i, k));
          count_width = MAX (count_width, (guint) strlen (count));
        }
    }
  /* names above the columns, cut if need be, as long as that says something; else numbers */
  const guint room = columns > row_width + 1 ? (columns - 1 - row_width) / MAX (n, 1) : 0,
              most = MIN (room, MAX_HEAD + 2);
  const gboolean named = head_width + 2 <= most || most >= MIN_HEAD + 2;
  const guint least = MAX (count_width, n > 10 ? 2 : 1);
  const gboolean narrow = row_width + n * (least + 2) >= columns;
  const guint width = named ? MAX (least, MIN (head_width, most - 2)) + 2 : least + (narrow ? 1 : 2);
  const guint left = columns > 1 + n * width ? columns - 1 - n * width : 0;
  row_width = narrow ? MIN (row_width, MAX (left, MIN_HEAD)) : row_width;
  GString *table = g_string_new ("Confusion matrix (rows: the class; columns: what it was taken for)\n");
  append_padded (table, "", row_width, FALSE);
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *number = g_strdup_printf ("%u", i);
      g_autofree char *head = named ? cut (heads[i], width - 2) : g_steal_pointer (&number);
      append_padded (table, head, width, TRUE);
    }
  for (guint i = 0; i < n; i++)
    {
      g_string_append_c (table, '\n');
      g_autofree char *row = cut (rows[i], row_width);
      append_padded (table, row, row_width, FALSE);
      for (guint k = 0; k < n; k++)
        {
          g_autofree char *count = g_strdup_printf ("%" G_GINT64_FORMAT, count_at (matrix, i, k));
          append_padded (table, count, width, TRUE);
        }
    }
  return g_string_free (table, FALSE);
}

typedef struct
{
  gint64 count, wanted, found;
} Pair;

static int
compare_pairs (gconstpointer a, gconstpointer b)
{
  const Pair *x = a, *y = b;
  return x->count != y->count     ? (x->count < y->count ? 1 : -1)
         : x->wanted != y->wanted ? (x->wanted < y->wanted ? -1 : 1)
                                  : (x->found > y->found) - (x->found < y->found);
}

static char *
format_pairs (OrtrainTensor *matrix, const char *const *classes)
{
  const gint64 n = ortrain_tensor_get_dim (matrix, 0);
  g_autoptr (GArray) pairs = g_array_new (FALSE, FALSE, sizeof (Pair));
  g_autofree gint64 *sums = g_new0 (gint64, (gsize) n + 1);
  for (gint64 i = 0; i < n; i++)
    for (gint64 k = 0; k < n; k++)
      {
        const Pair pair = { count_at (matrix, i, k), i, k };
        sums[i] += pair.count;
        if (i != k && pair.count > 0)
          g_array_append_val (pairs, pair);
      }
  g_array_sort (pairs, compare_pairs);
  GString *text = g_string_new (NULL);
  g_string_printf (text,
                   pairs->len == 0 ? "No item of the %" G_GINT64_FORMAT " classes was taken for another class"
                                   : "The most confused of %" G_GINT64_FORMAT " classes",
                   n);
  for (guint i = 0; i < MIN (pairs->len, N_PAIRS); i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);
      g_autofree char *wanted = name_class (classes, pair->wanted, TRUE);
      g_autofree char *found = name_class (classes, pair->found, TRUE);
      g_string_append_printf (text, "\n%8" G_GINT64_FORMAT " of %-8" G_GINT64_FORMAT " ", pair->count,
                              sums[pair->wanted]);
      append_padded (text, wanted, MAX_NAME + 4, FALSE);
      g_string_append_printf (text, " taken for %s", found);
    }
  return g_string_free (text, FALSE);
}

char *
confusion_table_format (OrtrainTensor *matrix, const char *const *classes, guint columns)
{
  return ortrain_tensor_get_dim (matrix, 0) <= CONFUSION_TABLE_CLASSES ? format_table (matrix, classes, columns)
                                                                       : format_pairs (matrix, classes);
}

void
confusion_table_add_json (JsonBuilder *builder, OrtrainTensor *matrix)
{
  const gint64 n = ortrain_tensor_get_dim (matrix, 0);
  json_builder_begin_array (builder);
  for (gint64 i = 0; i < n; i++)
    {
      json_builder_begin_array (builder);
      for (gint64 k = 0; k < n; k++)
        json_builder_add_int_value (builder, count_at (matrix, i, k));
      json_builder_end_array (builder);
    }
  json_builder_end_array (builder);
}
