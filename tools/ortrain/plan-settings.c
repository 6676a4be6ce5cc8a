/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan-settings.h"

#include "plan-batches.h"

void
plan_settings_clear (PlanSettings *self)
{
  g_free (self->batch);
  g_free (self->immediate);
  g_free (self->precision);
  g_free (self->state);
  g_free (self->budget_text);
  g_free (self->config);
  g_free (self->offload);
  g_free (self->output);
  g_free (self->loss);
  g_strfreev (self->dims);
  g_strfreev (self->stop_gradient);
  g_clear_pointer (&self->batches, g_array_unref);
}

gboolean
plan_settings_check (PlanSettings *self, GError **error)
{
  if (self->seq < 1 && self->seq != G_MININT)
    {
      g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--seq is at least 1");
      return FALSE;
    }
  if (self->batch != NULL && (self->batches = plan_batches_parse (self->batch, error)) == NULL)
    return FALSE;
  return self->budget_text == NULL || command_parse_budget (self->budget_text, &self->budget, error);
}

void
planned_clear (Planned *self)
{
  g_clear_object (&self->plan);
  g_clear_object (&self->feeds);
  g_clear_object (&self->session);
  g_clear_object (&self->model);
}

gboolean
planned_make (Planned *self, const char *path, const PlanSettings *settings, GError **error)
{
  self->model = command_load_model (path, settings->allow_links, error);
  if (self->model == NULL)
    return FALSE;
  const char *output = settings->output;
  if (output == NULL)
    output = command_first_name (ortrain_graph_get_outputs (ortrain_model_get_file_graph (self->model)));
  const char *kind = settings->loss != NULL ? settings->loss : "cross-entropy";
  g_autoptr (OrtrainOptimizer) optimizer = command_make_optimizer (NULL, 1e-3, settings->state, error);
  g_autoptr (OrtrainLoss) loss = optimizer != NULL ? command_make_loss (kind, output, "plan.target", error) : NULL;
  if (loss == NULL || !command_set_axis (loss, settings->axis, error))
    return FALSE;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  if (settings->stop_gradient != NULL)
    ortrain_training_options_set_stop_gradient (options, (const char *const *) settings->stop_gradient);
  const gboolean is_table = settings->batches != NULL && settings->batches->len > 1; /* each row has its own plans */
  if (settings->budget > 0 && !is_table)
    ortrain_training_options_set_memory_budget (options, settings->budget);
  command_tie_equal (self->model, options, FALSE);
  if (settings->precision != NULL && !command_set_precision (G_OBJECT (options), settings->precision, error))
    return FALSE;
  if (settings->immediate != NULL && !command_set_immediate_updates (options, settings->immediate, error))
    return FALSE;
  command_choose_immediate_updates (options);
  if (!command_set_offload (options, settings->offload, NULL, error))
    return FALSE;
  if (!command_set_recompute (options, settings->level, settings->config, error))
    return FALSE;
  g_autoptr (GError) failure = NULL;
  self->session = ortrain_training_session_new (self->model, options, &failure);
  if (self->session == NULL)
    {
      command_explain_loss (failure);
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  const guint n = settings->batches != NULL ? settings->batches->len : 1;
  for (guint i = 0; i < n && self->plan == NULL; i++)
    {
      CommandSizes sizes = {
        .batch = settings->batches != NULL ? (gint) g_array_index (settings->batches, gint64, i) : 0,
        .default_batch = 1,
        .seq = MAX (settings->seq, 0),
        .dims = settings->dims,
        .plans = TRUE,
      };
      self->feeds = command_random_feeds (self->session, output, "plan.target", &sizes, &self->plan,
                                          failure == NULL ? &failure : NULL);
    }
  if (self->plan == NULL)
    g_propagate_error (error, g_steal_pointer (&failure));
  return self->plan != NULL;
}
