/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "core/ortrain-text-private.h"

#include <string.h>

/* The largest values at a step. The same value of each layer is one row: names that differ in their numbers alone, as
 * 'layers.3.fc1' and 'layers.7.fc1', with the same bytes. */

static gsize
skip_digits (const char *text)
{
  return strspn (text, "0123456789");
}

/* What rows with the same name but for its numbers, category and bytes have in common. A name that is a number is like
 * no other. */
static char *
make_key (const OrtrainPlanValue *value)
{
  const char *name = value->name != NULL ? value->name : "";
  const gboolean is_number = name[skip_digits (name)] == '\0';
  g_autoptr (GString) key = g_string_new (NULL);
  g_string_printf (key, "%d %" G_GSIZE_FORMAT " ", (int) value->category, value->bytes);
  for (const char *c = name; *c != '\0';)
    {
      const gsize n = is_number ? 0 : skip_digits (c);
      g_string_append_c (key, n > 0 ? '0' : *c);
      c += MAX (n, 1);
    }
  return g_string_free (g_steal_pointer (&key), FALSE);
}

/* The numbers that differ in two names, which are otherwise the same: a set of bits, the last of which stands for its
 * number and all after it. */
static guint64
find_differences (const char *a, const char *b)
{
  guint64 different = 0;
  for (guint number = 0; *a != '\0' && *b != '\0';)
    {
      const gsize n = skip_digits (a), m = skip_digits (b);
      if (n > 0 && (n != m || strncmp (a, b, n) != 0))
        different |= G_GUINT64_CONSTANT (1) << MIN (number, 63);
      number += n > 0;
      a += MAX (n, 1);
      b += MAX (m, 1);
    }
  return different;
}

static int
compare_rows (gconstpointer a, gconstpointer b)
{
  const OrtrainPlanRow *x = a, *y = b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return x->value < y->value ? -1 : 1;
}

GArray *
ortrain_memory_plan_find_largest (const OrtrainMemoryPlan *self, guint step)
{
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (OrtrainPlanRow));
  g_autoptr (GHashTable) row_of = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL); /* key → its row + 1 */
  for (guint32 v = 0; v < self->n_values; v++)
    {
      const OrtrainPlanValue *value = &self->values[v];
      if (!ortrain_plan_value_is_block (self->values, v) || value->first > (gint32) step || value->last < (gint32) step)
        continue;
      g_autofree char *key = make_key (value);
      const guint found = GPOINTER_TO_UINT (g_hash_table_lookup (row_of, key));
      if (found > 0)
        {
          OrtrainPlanRow *row = &g_array_index (rows, OrtrainPlanRow, found - 1);
          const char *name = self->values[row->value].name;
          row->n++;
          row->bytes += value->bytes;
          if (name != NULL)
            row->different |= find_differences (name, value->name);
          continue;
        }
      const OrtrainPlanRow row = { .value = v, .n = 1, .bytes = value->bytes };
      g_array_append_val (rows, row);
      g_hash_table_insert (row_of, g_steal_pointer (&key), GUINT_TO_POINTER (rows->len));
    }
  g_array_sort (rows, compare_rows);
  return rows;
}

char *
ortrain_plan_row_get_name (const OrtrainMemoryPlan *self, const OrtrainPlanRow *row)
{
  g_autoptr (GString) name = g_string_new (NULL);
  guint number = 0;
  for (const char *c = self->values[row->value].name; c != NULL && *c != '\0';)
    {
      const gsize n = skip_digits (c);
      if (n > 0 && (row->different >> MIN (number, 63) & 1) != 0)
        g_string_append_c (name, '*');
      else
        g_string_append_len (name, c, (gssize) MAX (n, 1));
      number += n > 0;
      c += MAX (n, 1);
    }
  return ortrain_text_quote (name->str);
}

gsize
ortrain_memory_plan_find_largest_step (const OrtrainMemoryPlan *self, guint *largest)
{
  g_autofree guint *seen = g_new0 (guint, self->n_values + 1); /* step + 1 that has counted a block last */
  gsize most = 0;
  *largest = 0;
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      gsize bytes = 0;
      for (guint i = 0; i <= step->n_inputs + step->n_outputs; i++)
        {
          const guint32 operand = i == 0 ? step->workspace : self->operands[step->first_operand + i - 1];
          const guint32 root = operand != G_MAXUINT32 ? self->values[operand].root : G_MAXUINT32;
          if (root == G_MAXUINT32 || self->values[root].region != ORTRAIN_REGION_ARENA || seen[root] == s + 1)
            continue;
          seen[root] = s + 1;
          bytes += self->values[root].bytes;
        }
      if (bytes <= most)
        continue;
      most = bytes;
      *largest = s;
    }
  return most;
}
