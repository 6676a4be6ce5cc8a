/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-fit-private.h"

#include "trainer/ortrain-epoch-record-private.h"
#include "trainer/ortrain-metric-private.h"

#include <math.h>

/* Steps of the training so far, those before it was resumed included. */
static guint64
get_step (OrtrainFit *fit)
{
  return fit->epoch * ortrain_data_loader_get_n_batches (fit->loader) + fit->step;
}

/* The names of metrics: owned by them, NULL at the end. */
static GPtrArray *
list_columns (OrtrainTrainer *self)
{
  GPtrArray *names = g_ptr_array_new ();
  for (guint i = 0; self->validation != NULL && i < g_list_model_get_n_items (self->metrics); i++)
    {
      g_autoptr (OrtrainMetric) metric = g_list_model_get_item (self->metrics, i);
      g_ptr_array_add (names, (gpointer) ortrain_metric_get_title (metric));
    }
  g_ptr_array_add (names, NULL);
  return names;
}

gboolean
ortrain_fit_check_logs (OrtrainTrainer *self, GError **error)
{
  g_autoptr (GPtrArray) names = list_columns (self);
  for (guint i = 0; self->logs != NULL && self->logs[i] != NULL; i++)
    if (!ortrain_training_log_check_columns (self->logs[i], (const char *const *) names->pdata, error))
      return FALSE;
  return TRUE;
}

gboolean
ortrain_fit_open_logs (OrtrainTrainer *self, OrtrainFit *fit, GError **error)
{
  fit->logs = g_ptr_array_new_with_free_func ((GDestroyNotify) ortrain_training_log_free);
  g_autoptr (GPtrArray) names = list_columns (self);
  for (guint i = 0; self->logs != NULL && self->logs[i] != NULL; i++)
    {
      OrtrainTrainingLog *log =
          ortrain_training_log_new (self->logs[i], get_step (fit), (const char *const *) names->pdata, error);
      if (log == NULL)
        return FALSE;
      g_ptr_array_add (fit->logs, log);
    }
  return TRUE;
}

static gboolean
write_entry (OrtrainFit *fit, const OrtrainLogEntry *entry, GError **error)
{
  for (guint i = 0; i < fit->logs->len; i++)
    if (!ortrain_training_log_write (fit->logs->pdata[i], entry, error))
      return FALSE;
  return TRUE;
}

gboolean
ortrain_fit_log_step (OrtrainFit *fit, GError **error)
{
  const OrtrainLogEntry entry = {
    .epoch = fit->epoch + 1,
    .step = get_step (fit),
    .present = 1u << ORTRAIN_LOG_LOSS | 1u << ORTRAIN_LOG_LEARNING_RATE,
    .columns = { [ORTRAIN_LOG_LOSS] = fit->last_loss, [ORTRAIN_LOG_LEARNING_RATE] = fit->learning_rate },
  };
  return write_entry (fit, &entry, error);
}

gboolean
ortrain_fit_log_epoch (OrtrainFit *fit, OrtrainEpochRecord *record, GError **error)
{
  OrtrainLogEntry entry = {
    .ends_epoch = TRUE,
    .epoch = record->epoch,
    .step = record->epoch * ortrain_data_loader_get_n_batches (fit->loader),
    .present = 1u << ORTRAIN_LOG_LOSS | 1u << ORTRAIN_LOG_LEARNING_RATE | 1u << ORTRAIN_LOG_SECONDS |
               1u << ORTRAIN_LOG_SKIPPED_UPDATES | 1u << ORTRAIN_LOG_UNCOUNTED_STEPS,
    .columns = { record->loss, record->learning_rate, record->validation_loss, record->metric, record->seconds,
                 (double) record->skipped_updates, (double) record->uncounted_steps },
    .values = record->values,
  };
  if (!isnan (record->validation_loss))
    entry.present |= 1u << ORTRAIN_LOG_VALIDATION_LOSS;
  if (record->metric >= 0)
    entry.present |= 1u << ORTRAIN_LOG_ACCURACY;
  return write_entry (fit, &entry, error);
}
