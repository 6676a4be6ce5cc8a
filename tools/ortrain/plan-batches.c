/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan-batches.h"

#include <string.h>

GArray *
plan_batches_parse (const char *text, GError **error)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  g_autoptr (GArray) batches = g_array_new (FALSE, FALSE, sizeof (gint64));
  for (guint i = 0; words[i] != NULL; i++)
    {
      gint64 batch;
      if (!g_ascii_string_to_signed (words[i], 10, 1, G_MAXINT32, &batch, NULL))
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       "--batch is a number from 1 to %d, or several, separated by commas, not '%s'", G_MAXINT32, text);
          return NULL;
        }
      g_array_append_val (batches, batch);
    }
  return g_steal_pointer (&batches);
}

typedef struct
{
  OrtrainMemoryPlan *whole;  /* without a budget */
  OrtrainMemoryPlan *within; /* the budget; NULL: none fits */
  GError *error;             /* why there is neither, or NULL */
} Row;

static void
row_clear (gpointer data)
{
  Row *row = data;
  g_clear_object (&row->whole);
  g_clear_object (&row->within);
  g_clear_error (&row->error);
}

static double
more_work (const Row *row)
{
  const double flops = ortrain_memory_plan_get_flops (row->whole);
  return flops > 0 ? ortrain_memory_plan_get_flops (row->within) / flops - 1 : 0;
}

static void
print_text (GArray *batches, GArray *rows, guint64 budget, gint64 most)
{
  g_autofree char *allowed = ortrain_format_bytes (budget);
  g_autofree char *within = g_strdup_printf ("within %s", allowed);
  g_print ("%8s  %12s  %12s", "batch", "peak", "arena");
  if (budget > 0)
    g_print ("  %*s  %9s  %9s", (int) MAX (strlen (within), 12), within, "run again", "more work");
  g_print ("\n");
  for (guint i = 0; i < batches->len; i++)
    {
      const Row *row = &g_array_index (rows, Row, i);
      if (row->error != NULL)
        {
          g_print ("%8" G_GINT64_FORMAT "  impossible: %s\n", g_array_index (batches, gint64, i), row->error->message);
          continue;
        }
      g_autofree char *peak = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (row->whole));
      g_autofree char *arena = ortrain_format_bytes (ortrain_memory_plan_get_arena_bytes (row->whole));
      g_autofree char *fitted =
          row->within != NULL ? ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (row->within)) : NULL;
      g_print ("%8" G_GINT64_FORMAT "  %12s  %12s", g_array_index (batches, gint64, i), peak, arena);
      if (budget > 0)
        g_print ("  %*s", (int) MAX (strlen (within), 12), fitted != NULL ? fitted : "does not fit");
      if (fitted != NULL)
        g_print ("  %9u  %7.1f %%", ortrain_memory_plan_get_n_recomputed_steps (row->within), 100 * more_work (row));
      g_print ("\n");
    }
  if (budget > 0 && most >= 0)
    g_print ("The largest batch within %s: %" G_GINT64_FORMAT "\n", allowed, most);
}

static void
print_json (GArray *batches, GArray *rows, guint64 budget, gint64 most)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "batches");
  json_builder_begin_array (builder);
  for (guint i = 0; i < batches->len; i++)
    {
      const Row *row = &g_array_index (rows, Row, i);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "batch");
      json_builder_add_int_value (builder, g_array_index (batches, gint64, i));
      if (row->error != NULL)
        {
          json_builder_set_member_name (builder, "error");
          json_builder_add_string_value (builder, row->error->message);
          json_builder_end_object (builder);
          continue;
        }
      json_builder_set_member_name (builder, "peak_bytes");
      json_builder_add_int_value (builder, (gint64) ortrain_memory_plan_get_peak_bytes (row->whole));
      json_builder_set_member_name (builder, "arena_bytes");
      json_builder_add_int_value (builder, (gint64) ortrain_memory_plan_get_arena_bytes (row->whole));
      if (row->within != NULL)
        {
          json_builder_set_member_name (builder, "peak_bytes_within_budget");
          json_builder_add_int_value (builder, (gint64) ortrain_memory_plan_get_peak_bytes (row->within));
          json_builder_set_member_name (builder, "n_recomputed_steps");
          json_builder_add_int_value (builder, ortrain_memory_plan_get_n_recomputed_steps (row->within));
          json_builder_set_member_name (builder, "more_work");
          command_add_number (builder, more_work (row));
        }
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  if (budget > 0)
    {
      json_builder_set_member_name (builder, "budget_bytes");
      json_builder_add_int_value (builder, (gint64) MIN (budget, G_MAXINT64));
      if (most >= 0)
        {
          json_builder_set_member_name (builder, "max_batch");
          json_builder_add_int_value (builder, most);
        }
    }
  json_builder_end_object (builder);
  command_print_json (builder);
}

gboolean
plan_batches_print (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, GArray *batches, guint64 budget,
                    gboolean json, GError **error)
{
  g_autoptr (GArray) rows = g_array_new (FALSE, TRUE, sizeof (Row));
  gint64 most = -1;
  gboolean any = FALSE;
  g_array_set_clear_func (rows, row_clear);
  for (guint i = 0; i < batches->len; i++)
    {
      const gint64 batch = g_array_index (batches, gint64, i);
      g_autoptr (GError) local_error = NULL;
      Row row = { 0 };
      row.whole = ortrain_training_session_plan_batch (session, feeds, batch, 0, &row.error);
      any = any || row.whole != NULL;
      if (row.whole != NULL && budget > 0)
        row.within = ortrain_training_session_plan_batch (session, feeds, batch, budget, &local_error);
      g_array_append_val (rows, row);
      if (local_error != NULL && !g_error_matches (local_error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
    }
  if (!any)
    {
      g_propagate_error (error, g_steal_pointer (&g_array_index (rows, Row, 0).error));
      return FALSE;
    }
  g_autoptr (GError) unknown = NULL;
  if (budget > 0)
    most = ortrain_training_session_max_batch (session, feeds, budget, &unknown);
  if (json)
    print_json (batches, rows, budget, most);
  else
    print_text (batches, rows, budget, most);
  if (unknown != NULL)
    g_printerr ("ortrain: The largest batch is not known: %s\n", unknown->message);
  return TRUE;
}
