/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/ortrain-case-text.h"

#include <string.h>

static gsize
parse_dims (const char **p, gint64 *dims)
{
  gsize rank = 0;
  if (**p != '[')
    return 0;
  (*p)++;
  while (**p != ']')
    {
      char *end;
      dims[rank++] = g_ascii_strtoll (*p, &end, 10);
      *p = end;
      if (**p == ',')
        (*p)++;
    }
  (*p)++;
  return rank;
}

void
ortrain_case_parse_operand (const char *text, OrtrainCaseOperand *operand)
{
  const char *p = text + 1;
  *operand = (OrtrainCaseOperand){ .kind = text[0] };
  if (operand->kind == '_')
    return;
  operand->rank = parse_dims (&p, operand->dims);
  while (*p == '{' || *p == ',')
    {
      char *end;
      const double value = g_ascii_strtod (p + 1, &end);
      if (end == p + 1)
        break; /* "{}" */
      g_assert (operand->n_values < ORTRAIN_CASE_MAX_VALUES);
      operand->values[operand->n_values++] = value;
      p = end;
    }
}

void
ortrain_case_parse_attribute (OrtrainAttributes *attributes, const char *text)
{
  g_auto (GStrv) parts = g_strsplit (text, "=", 2);
  const char *name = parts[0];
  char *value = parts[1];
  gsize length = strlen (value);
  if (value[0] == '\'')
    {
      value[length - 1] = '\0';
      ortrain_attributes_set_string (attributes, name, value + 1);
    }
  else if (value[0] == '[')
    {
      value[length - 1] = '\0';
      g_auto (GStrv) items = g_strsplit (value + 1, ",", -1);
      guint n = value[1] != '\0' ? g_strv_length (items) : 0;
      if (n > 0 && items[0][0] == '\'')
        {
          for (guint i = 0; i < n; i++)
            g_strdelimit (items[i], "'", ' ');
          for (guint i = 0; i < n; i++)
            g_strstrip (items[i]);
          ortrain_attributes_set_strings (attributes, name, (const char *const *) items, n);
          return;
        }
      if (n > 0 && strchr (items[0], 'f') != NULL)
        {
          g_autofree float *floats = g_new (float, n);
          for (guint i = 0; i < n; i++)
            floats[i] = (float) g_ascii_strtod (items[i], NULL);
          ortrain_attributes_set_floats (attributes, name, floats, n);
          return;
        }
      g_autofree gint64 *ints = g_new (gint64, n + 1);
      for (guint i = 0; i < n; i++)
        ints[i] = g_ascii_strtoll (items[i], NULL, 10);
      ortrain_attributes_set_ints (attributes, name, ints, n);
    }
  else if (value[length - 1] == 'f')
    ortrain_attributes_set_float (attributes, name, g_ascii_strtod (value, NULL));
  else
    ortrain_attributes_set_int (attributes, name, g_ascii_strtoll (value, NULL, 10));
}
