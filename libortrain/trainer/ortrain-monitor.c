/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-monitor-private.h"

#include "core/ortrain-text-private.h"
#include "session/ortrain-training-session-calls-private.h"
#include "trainer/ortrain-epoch-record-private.h"
#include "trainer/ortrain-evaluation-private.h"
#include "trainer/ortrain-metric-private.h"
#include "trainer/ortrain-trainer-private.h"

#include <math.h>

static void
set_missing (OrtrainTrainer *trainer, const char *name, GError **error)
{
  GString *names = g_string_new ("'" ORTRAIN_MONITOR_LOSS "'");
  if (ortrain_evaluation_has_accuracy (trainer->session))
    g_string_append (names, ", '" ORTRAIN_MONITOR_ACCURACY "'");
  for (guint i = 0; i < g_list_model_get_n_items (trainer->metrics); i++)
    {
      g_autoptr (OrtrainMetric) metric = g_list_model_get_item (trainer->metrics, i);
      g_string_append_printf (names, ", '%s'", ortrain_text_show (ortrain_metric_get_title (metric)));
    }
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Trainer: cannot monitor '%s'; epochs have %s%s", ortrain_text_show (name), names->str,
               trainer->validation != NULL ? "" : ", and without validation data only the loss");
  g_string_free (names, TRUE);
}

gboolean
ortrain_monitor_take (OrtrainMonitor *self, OrtrainTrainer *trainer, GError **error)
{
  const char *name = ortrain_trainer_get_monitor (trainer);
  gboolean found = g_str_equal (name, ORTRAIN_MONITOR_LOSS), lower = found;
  for (guint i = 0; !found && trainer->validation != NULL && i < g_list_model_get_n_items (trainer->metrics); i++)
    {
      g_autoptr (OrtrainMetric) metric = g_list_model_get_item (trainer->metrics, i);
      found = g_str_equal (name, ortrain_metric_get_title (metric));
      lower = ortrain_metric_get_lower_is_better (metric);
    }
  if (!found && (trainer->validation == NULL || !g_str_equal (name, ORTRAIN_MONITOR_ACCURACY) ||
                 !ortrain_evaluation_has_accuracy (trainer->session)))
    {
      set_missing (trainer, name, error);
      return FALSE;
    }
  ortrain_monitor_clear (self);
  self->name = g_strdup (name);
  self->lower_is_better = found && lower;
  return TRUE;
}

void
ortrain_monitor_clear (OrtrainMonitor *self)
{
  g_clear_pointer (&self->name, g_free);
}

double
ortrain_monitor_get_value (const OrtrainMonitor *self, OrtrainEpochRecord *record)
{
  if (g_str_equal (self->name, ORTRAIN_MONITOR_LOSS))
    return isnan (record->validation_loss) ? record->loss : record->validation_loss;
  for (guint i = 0; record->value_names != NULL && record->value_names[i] != NULL; i++)
    if (g_str_equal (record->value_names[i], self->name))
      return record->values[i];
  return g_str_equal (self->name, ORTRAIN_MONITOR_ACCURACY) && record->metric >= 0 ? record->metric : NAN;
}

gboolean
ortrain_monitor_is_better (const OrtrainMonitor *self, double value, double best)
{
  return isnan (best) ? !isnan (value) : self->lower_is_better ? value < best : value > best;
}
