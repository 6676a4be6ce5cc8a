/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-budget-private.h"

struct _OrtrainBudgetFamily
{
  GHashTable *values; /* name → index in a choice */
  guint n_searches;
  GPtrArray *choices; /* of guint8 *: two bits for each value: whether it is kept, and offloaded */
  GArray *scales;     /* of double, beside the choices */
};

OrtrainBudgetFamily *
ortrain_budget_family_new (void)
{
  OrtrainBudgetFamily *self = g_new0 (OrtrainBudgetFamily, 1);
  self->values = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->choices = g_ptr_array_new_with_free_func (g_free);
  self->scales = g_array_new (FALSE, FALSE, sizeof (double));
  return self;
}

void
ortrain_budget_family_free (OrtrainBudgetFamily *self)
{
  g_hash_table_unref (self->values);
  g_ptr_array_unref (self->choices);
  g_array_unref (self->scales);
  g_free (self);
}

void
ortrain_budget_family_begin (OrtrainBudgetFamily *self, OrtrainGraph *graph, gboolean searched)
{
  self->n_searches += searched ? 1 : 0;
  g_hash_table_remove_all (self->values);
  g_ptr_array_set_size (self->choices, 0);
  g_array_set_size (self->scales, 0);
  for (guint v = 0; v < graph->values->len; v++)
    g_hash_table_insert (self->values, g_strdup (((OrtrainValue *) graph->values->pdata[v])->name),
                         GUINT_TO_POINTER (v));
}

void
ortrain_budget_family_add (OrtrainBudgetFamily *self, const gboolean *kept, const gboolean *offloaded)
{
  const guint n_values = g_hash_table_size (self->values);
  guint8 *bits = g_new0 (guint8, n_values / 4 + 1);
  for (guint v = 0; v < n_values; v++)
    bits[v / 4] |= (guint8) ((kept[v] ? 1u : 0u) << v % 4 * 2 | (offloaded[v] ? 2u : 0u) << v % 4 * 2);
  g_ptr_array_add (self->choices, bits);
  const double unknown = 1;
  g_array_append_val (self->scales, unknown);
}

double
ortrain_budget_family_get_scale (const OrtrainBudgetFamily *self, guint choice)
{
  return g_array_index (self->scales, double, choice);
}

void
ortrain_budget_family_set_scale (OrtrainBudgetFamily *self, guint choice, double scale)
{
  g_array_index (self->scales, double, choice) = scale;
}

GPtrArray *
ortrain_budget_family_list (const OrtrainBudgetFamily *self, OrtrainGraph *graph)
{
  const guint n_values = graph->values->len;
  g_autofree guint32 *index = g_new (guint32, n_values + 1);
  GPtrArray *list = g_ptr_array_new ();
  for (guint v = 0; v < n_values; v++)
    {
      gpointer found;
      const char *name = ((OrtrainValue *) graph->values->pdata[v])->name;
      const gboolean is_known = g_hash_table_lookup_extended (self->values, name, NULL, &found);
      index[v] = is_known ? GPOINTER_TO_UINT (found) : G_MAXUINT32;
    }
  for (guint c = 0; c < self->choices->len; c++)
    {
      const guint8 *bits = self->choices->pdata[c];
      gboolean *kept = g_new (gboolean, 2 * n_values + 1);
      for (guint v = 0; v < n_values; v++)
        {
          const gboolean is_known = index[v] != G_MAXUINT32;
          kept[v] = !is_known || ((bits[index[v] / 4] >> index[v] % 4 * 2) & 1);
          kept[n_values + v] = is_known && ((bits[index[v] / 4] >> index[v] % 4 * 2) & 2) != 0;
        }
      g_ptr_array_add (list, kept);
    }
  return list;
}

guint
ortrain_budget_family_get_n_searches (const OrtrainBudgetFamily *self)
{
  return self->n_searches;
}
