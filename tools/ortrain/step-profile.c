/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "step-profile.h"

#include "command.h"

#include <glib/gstdio.h>

#include <errno.h>

/* The provider writes its measurements, by the numbers of steps; the plan describes the steps. */

gboolean
step_profile_begin (const char *path, GError **error)
{
  g_setenv ("ORTRAIN_CUDA_PROFILE", path, TRUE);
  if (g_unlink (path) == 0 || errno == ENOENT)
    return TRUE;
  g_set_error (error, G_FILE_ERROR, (gint) g_file_error_from_errno (errno), "Cannot write '%s': %s", path,
               g_strerror (errno));
  return FALSE;
}

/* step, joined, runs, ms, ms_least, ms_first */
#define N_COLUMNS 6

static void
append_row (GString *text, const char *line, GListModel *steps)
{
  g_auto (GStrv) fields = g_strsplit (line, "\t", -1);
  if (g_strv_length (fields) != N_COLUMNS)
    return;
  g_autoptr (OrtrainMemoryStep) step = g_list_model_get_item (steps, (guint) g_ascii_strtoull (fields[0], NULL, 10));
  if (step == NULL) /* the heading */
    return;
  const double numbers[] = { ortrain_memory_step_get_milliseconds (step), ortrain_memory_step_get_flops (step) / 1e9,
                             ortrain_memory_step_get_bytes_moved (step) / 1e6 };
  g_string_append_printf (text, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", fields[0], ortrain_memory_step_get_phase (step),
                          ortrain_memory_step_get_operator (step), ortrain_memory_step_get_node (step), fields[1],
                          fields[2], fields[3], fields[4], fields[5]);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      char number[G_ASCII_DTOSTR_BUF_SIZE];
      g_string_append_printf (text, "\t%s", g_ascii_formatd (number, sizeof number, "%.6f", numbers[i]));
    }
  g_string_append_c (text, '\n');
}

gboolean
step_profile_end (const char *path, OrtrainMemoryPlan *plan, GError **error)
{
  g_autofree char *measured = NULL;
  GListModel *steps = ortrain_memory_plan_get_steps (plan);
  g_autoptr (GString) text = g_string_new ("step\tphase\toperator\tnode\tjoined\truns\tms\tms_least\tms_first\t"
                                           "ms_estimated\tgflops\tmegabytes\n");
  if (!g_file_get_contents (path, &measured, NULL, NULL))
    {
      g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_NOENT,
                           "Nothing was measured: only the provider 'cuda' measures each of its kernel calls");
      return FALSE;
    }
  g_auto (GStrv) lines = g_strsplit (measured, "\n", -1);
  for (guint i = 1; lines[0] != NULL && lines[i] != NULL; i++)
    append_row (text, lines[i], steps);
  return g_file_set_contents (path, text->str, (gssize) text->len, error);
}
