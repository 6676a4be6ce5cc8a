/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

gboolean
command_set_recompute (OrtrainTrainingOptions *options, gint level, const char *config, GError **error)
{
  if (level < -1 || level > 2)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--memory-opt-level is 0, 1 or 2, not %d", level);
      return FALSE;
    }
  if (level >= 0)
    ortrain_training_options_set_memory_opt_level (options, (guint) level);
  if (config != NULL)
    ortrain_training_options_set_memory_opt_config (options, config);
  return TRUE;
}

/* The peak of the plan at each level, and the largest saving in the table. */
static gboolean
append_peaks (GString *out, OrtrainModel *model, OrtrainTrainingOptions *options, OrtrainTensorDict *feeds,
              guint64 asked, GError **error)
{
  const guint level = ortrain_training_options_get_memory_opt_level (options);
  g_autofree char *config = g_strdup (ortrain_training_options_get_memory_opt_config (options));
  gboolean ok = TRUE;
  g_string_append_printf (out, "Peak of the plan: %" G_GUINT64_FORMAT " bytes as asked for", asked);
  ortrain_training_options_set_memory_opt_config (options, NULL);
  for (guint l = 0; l <= 2 && ok; l++)
    {
      ortrain_training_options_set_memory_opt_level (options, l);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, error);
      g_autoptr (OrtrainMemoryPlan) plan =
          session != NULL ? ortrain_training_session_plan (session, feeds, error) : NULL;
      ok = plan != NULL;
      if (ok)
        g_string_append_printf (out, "; level %u: %" G_GUINT64_FORMAT, l, ortrain_memory_plan_get_peak_bytes (plan));
    }
  g_string_append_c (out, '\n');
  ortrain_training_options_set_memory_opt_level (options, level);
  ortrain_training_options_set_memory_opt_config (options, config);
  return ok;
}

char *
command_make_recompute_report (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, OrtrainMemoryPlan *plan,
                               const char *form, GError **error)
{
  if (g_str_equal (form, "json"))
    return ortrain_training_session_recompute_to_json (session);
  g_autofree char *table = ortrain_training_session_format_recompute_table (session, g_str_equal (form, "details"));
  g_autoptr (GString) out = g_string_new (table);
  if (!append_peaks (out, ortrain_training_session_get_model (session), ortrain_training_session_get_options (session),
                     feeds, ortrain_memory_plan_get_peak_bytes (plan), error))
    return NULL;
  return g_strdup (out->str);
}
