/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-private.h"

struct _OrtrainPlanChoiceMemo
{
  GHashTable *values; /* name → index in a choice */
  guint n_searches;
  GPtrArray *choices; /* of guint8 *: the fate of each value */
  GArray *scales;     /* of double, parallel to the choices */
};

OrtrainPlanChoiceMemo *
ortrain_plan_choice_memo_new (void)
{
  OrtrainPlanChoiceMemo *self = g_new0 (OrtrainPlanChoiceMemo, 1);
  self->values = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->choices = g_ptr_array_new_with_free_func (g_free);
  self->scales = g_array_new (FALSE, FALSE, sizeof (double));
  return self;
}

void
ortrain_plan_choice_memo_free (OrtrainPlanChoiceMemo *self)
{
  g_hash_table_unref (self->values);
  g_ptr_array_unref (self->choices);
  g_array_unref (self->scales);
  g_free (self);
}

void
ortrain_plan_choice_memo_begin (OrtrainPlanChoiceMemo *self, OrtrainGraph *graph, gboolean searched)
{
  self->n_searches += searched ? 1 : 0;
  g_hash_table_remove_all (self->values);
  g_ptr_array_set_size (self->choices, 0);
  g_array_set_size (self->scales, 0);
  for (guint v = 0; v < graph->values->len; v++)
    g_hash_table_insert (self->values, g_strdup (((OrtrainValue *) graph->values->pdata[v])->name),
                         GUINT_TO_POINTER (v));
}

guint8 *
ortrain_budget_make_fates (const guint8 *run, const gboolean *offloaded, guint n_values)
{
  guint8 *fates = g_new (guint8, n_values + 1);
  for (guint v = 0; v < n_values; v++)
    fates[v] = (guint8) (run[v] | (offloaded[v] ? ORTRAIN_BUDGET_FATE_OFFLOADED : 0));
  return fates;
}

void
ortrain_plan_choice_memo_add_fates (OrtrainPlanChoiceMemo *self, const guint8 *fates)
{
  const guint n_values = g_hash_table_size (self->values);
  g_ptr_array_add (self->choices, g_memdup2 (fates, n_values));
  const double unknown = 0;
  g_array_append_val (self->scales, unknown);
}

double
ortrain_plan_choice_memo_get_scale (const OrtrainPlanChoiceMemo *self, guint choice)
{
  return g_array_index (self->scales, double, choice);
}

void
ortrain_plan_choice_memo_set_scale (OrtrainPlanChoiceMemo *self, guint choice, double scale)
{
  g_array_index (self->scales, double, choice) = scale;
}

GPtrArray *
ortrain_plan_choice_memo_list (const OrtrainPlanChoiceMemo *self, OrtrainGraph *graph)
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
      const guint8 *known = self->choices->pdata[c];
      guint8 *fates = g_new0 (guint8, n_values + 1);
      for (guint v = 0; v < n_values; v++)
        if (index[v] != G_MAXUINT32)
          fates[v] = known[index[v]];
      g_ptr_array_add (list, fates);
    }
  return list;
}

guint
ortrain_plan_choice_memo_get_n_searches (const OrtrainPlanChoiceMemo *self)
{
  return self->n_searches;
}
