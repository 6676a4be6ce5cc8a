/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-training-history-private.h"

#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>

/**
 * OrtrainTrainingHistory:
 *
 * The results of a training: [method@Trainer.fit] returns it.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=3)
 * history = trainer.fit()
 * losses = np.frombuffer(history.get_losses().get_data())      # of each step
 * print(history.best_epoch, history.best_loss, history.n_steps, len(losses), history.seconds)
 * ```
 *
 * Any thread may use it once training has ended.
 */

G_DEFINE_FINAL_TYPE (OrtrainTrainingHistory, ortrain_training_history, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_EPOCHS,
  PROP_N_STEPS,
  PROP_STOPPED_EARLY,
  PROP_SECONDS,
  PROP_N_EPOCHS,
  PROP_LAST_LOSS,
  PROP_LAST_METRIC,
  PROP_BEST_LOSS,
  PROP_BEST_VALUE,
  PROP_BEST_EPOCH,
  PROP_SKIPPED_UPDATES,
  PROP_UNCOUNTED_STEPS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_training_history_finalize (GObject *object)
{
  OrtrainTrainingHistory *self = ORTRAIN_TRAINING_HISTORY (object);

  g_clear_object (&self->epochs);
  g_array_unref (self->losses);
  ortrain_monitor_clear (&self->monitor);

  G_OBJECT_CLASS (ortrain_training_history_parent_class)->finalize (object);
}

static void
ortrain_training_history_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainTrainingHistory *self = ORTRAIN_TRAINING_HISTORY (object);
  switch (property_id)
    {
    case PROP_N_EPOCHS:
      g_value_set_uint (value, ortrain_training_history_get_n_epochs (self));
      break;
    case PROP_LAST_LOSS:
      g_value_set_double (value, ortrain_training_history_get_last_loss (self));
      break;
    case PROP_LAST_METRIC:
      g_value_set_double (value, ortrain_training_history_get_last_metric (self));
      break;
    case PROP_BEST_LOSS:
      g_value_set_double (value, ortrain_training_history_get_best_loss (self));
      break;
    case PROP_BEST_VALUE:
      g_value_set_double (value, ortrain_training_history_get_best_value (self));
      break;
    case PROP_BEST_EPOCH:
      g_value_set_uint (value, ortrain_training_history_get_best_epoch (self));
      break;
    case PROP_SKIPPED_UPDATES:
      g_value_set_uint64 (value, ortrain_training_history_get_skipped_updates (self));
      break;
    case PROP_UNCOUNTED_STEPS:
      g_value_set_uint64 (value, ortrain_training_history_get_uncounted_steps (self));
      break;
    default:
      ortrain_field_get_property (object, property_id, value, pspec);
    }
}

static void
ortrain_training_history_class_init (OrtrainTrainingHistoryClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_training_history_finalize;
  object_class->get_property = ortrain_training_history_get_property;

  /**
   * OrtrainTrainingHistory:epochs: (getter get_epochs)
   *
   * One record for each epoch, a list of [class@EpochRecord]. Read-only.
   */
  properties[PROP_EPOCHS] = ortrain_field_at (g_param_spec_object ("epochs", NULL, NULL, G_TYPE_LIST_MODEL, flags),
                                              G_STRUCT_OFFSET (OrtrainTrainingHistory, epochs));
  /**
   * OrtrainTrainingHistory:n-steps: (getter get_n_steps)
   *
   * How many batches went forward and backward in all epochs; updates are fewer where gradients are accumulated.
   * Read-only.
   */
  properties[PROP_N_STEPS] = ortrain_field_at (g_param_spec_uint64 ("n-steps", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                                               G_STRUCT_OFFSET (OrtrainTrainingHistory, n_steps));
  /**
   * OrtrainTrainingHistory:stopped-early: (getter get_stopped_early)
   *
   * Whether training ended because epochs were no longer better, see [property@Trainer:patience], or because
   * [method@Trainer.stop] was called. Read-only.
   */
  properties[PROP_STOPPED_EARLY] = ortrain_field_at (g_param_spec_boolean ("stopped-early", NULL, NULL, FALSE, flags),
                                                     G_STRUCT_OFFSET (OrtrainTrainingHistory, stopped_early));
  /**
   * OrtrainTrainingHistory:seconds: (getter get_seconds)
   *
   * How long training took. Read-only.
   */
  properties[PROP_SECONDS] =
      ortrain_field_at (g_param_spec_double ("seconds", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags),
                        G_STRUCT_OFFSET (OrtrainTrainingHistory, seconds));
  /**
   * OrtrainTrainingHistory:n-epochs: (getter get_n_epochs)
   *
   * How many epochs were run. Read-only.
   */
  properties[PROP_N_EPOCHS] = g_param_spec_uint ("n-epochs", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainTrainingHistory:last-loss: (getter get_last_loss)
   *
   * The mean over the training steps of the final epoch. Read-only.
   */
  properties[PROP_LAST_LOSS] = g_param_spec_double ("last-loss", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags);
  /**
   * OrtrainTrainingHistory:last-metric: (getter get_last_metric)
   *
   * The accuracy on the validation data after the final epoch; -1 if it is not computed. Read-only.
   */
  properties[PROP_LAST_METRIC] = g_param_spec_double ("last-metric", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags);
  /**
   * OrtrainTrainingHistory:best-loss: (getter get_best_loss)
   *
   * The smallest one of an epoch, on the validation data where there are some. Read-only.
   */
  properties[PROP_BEST_LOSS] = g_param_spec_double ("best-loss", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags);
  /**
   * OrtrainTrainingHistory:best-value: (getter get_best_value)
   *
   * The value that [property@Trainer:monitor] names, in the best epoch. Read-only.
   */
  properties[PROP_BEST_VALUE] = g_param_spec_double ("best-value", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags);
  /**
   * OrtrainTrainingHistory:best-epoch: (getter get_best_epoch)
   *
   * Which one was the best by [property@Trainer:monitor], counted from 1. Read-only.
   */
  properties[PROP_BEST_EPOCH] = g_param_spec_uint ("best-epoch", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * OrtrainTrainingHistory:skipped-updates: (getter get_skipped_updates)
   *
   * How many updates of all epochs were left out because gradients were not finite, see [class@LossScaler]. Read-only.
   */
  properties[PROP_SKIPPED_UPDATES] = g_param_spec_uint64 ("skipped-updates", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * OrtrainTrainingHistory:uncounted-steps: (getter get_uncounted_steps)
   *
   * How many training steps of all epochs had nothing that counts, such as batches whose labels are all ignored.
   * Read-only.
   */
  properties[PROP_UNCOUNTED_STEPS] = g_param_spec_uint64 ("uncounted-steps", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_training_history_init (OrtrainTrainingHistory *self)
{
  self->epochs = G_LIST_MODEL (ortrain_object_list_new (ORTRAIN_TYPE_EPOCH_RECORD));
  self->losses = g_array_new (FALSE, FALSE, sizeof (double));
  self->monitor = (OrtrainMonitor){ .name = g_strdup (ORTRAIN_MONITOR_LOSS), .lower_is_better = TRUE };
}

/**
 * ortrain_training_history_get_epochs: (get-property epochs)
 * @self: the object
 *
 * Gets one record for each epoch, a list of [class@EpochRecord].
 *
 * Returns: (transfer none) (nullable): the value
 */
GListModel *
ortrain_training_history_get_epochs (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), NULL);
  return self->epochs;
}

/**
 * ortrain_training_history_get_n_steps: (get-property n-steps)
 * @self: the object
 *
 * Gets how many batches went forward and backward in all epochs; updates are fewer where gradients are accumulated.
 *
 * Returns: the value
 */
guint64
ortrain_training_history_get_n_steps (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), 0);
  return self->n_steps;
}

/**
 * ortrain_training_history_get_stopped_early: (get-property stopped-early)
 * @self: the object
 *
 * Gets whether training ended because epochs were no longer better, see [property@Trainer:patience], or because
 * [method@Trainer.stop] was called.
 *
 * Returns: the value
 */
gboolean
ortrain_training_history_get_stopped_early (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), FALSE);
  return self->stopped_early;
}

/**
 * ortrain_training_history_get_seconds: (get-property seconds)
 * @self: the object
 *
 * Gets how long training took.
 *
 * Returns: the value
 */
double
ortrain_training_history_get_seconds (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), 0);
  return self->seconds;
}

static OrtrainEpochRecord *
get_epoch (OrtrainTrainingHistory *self, guint index)
{
  OrtrainEpochRecord *record = g_list_model_get_item (self->epochs, index);
  if (record != NULL)
    g_object_unref (record); /* the list keeps it */
  return record;
}

static OrtrainEpochRecord *
get_best (OrtrainTrainingHistory *self)
{
  OrtrainEpochRecord *best = NULL;
  double most = NAN;
  for (guint i = 0; i < g_list_model_get_n_items (self->epochs); i++)
    {
      OrtrainEpochRecord *record = get_epoch (self, i);
      const double value = ortrain_monitor_get_value (&self->monitor, record);
      if (!ortrain_monitor_is_better (&self->monitor, value, most))
        continue;
      best = record;
      most = value;
    }
  return best;
}

/**
 * ortrain_training_history_get_n_epochs: (get-property n-epochs)
 * @self: a history
 *
 * Gets how many epochs were run.
 *
 * Returns: the number
 */
guint
ortrain_training_history_get_n_epochs (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), 0);
  return g_list_model_get_n_items (self->epochs);
}

/**
 * ortrain_training_history_get_last_loss: (get-property last-loss)
 * @self: a history
 *
 * Gets the mean over the training steps of the final epoch.
 *
 * Returns: the loss; not a number if there was no epoch
 */
double
ortrain_training_history_get_last_loss (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), NAN);
  guint n = g_list_model_get_n_items (self->epochs);
  return n > 0 ? get_epoch (self, n - 1)->loss : NAN;
}

/**
 * ortrain_training_history_get_last_metric: (get-property last-metric)
 * @self: a history
 *
 * Gets the accuracy on the validation data after the final epoch; -1 if it is not computed.
 *
 * Returns: the accuracy; -1 if it is not computed
 */
double
ortrain_training_history_get_last_metric (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), -1);
  guint n = g_list_model_get_n_items (self->epochs);
  return n > 0 ? get_epoch (self, n - 1)->metric : -1;
}

/**
 * ortrain_training_history_get_best_epoch: (get-property best-epoch)
 * @self: a history
 *
 * Gets which one was the best by [property@Trainer:monitor], counted from 1; of equal ones, the first.
 *
 * Returns: the number of the epoch, from 1; 0 if there was none
 */
guint
ortrain_training_history_get_best_epoch (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), 0);
  const OrtrainEpochRecord *best = get_best (self);
  return best != NULL ? best->epoch : 0;
}

/**
 * ortrain_training_history_get_best_value: (get-property best-value)
 * @self: a history
 *
 * Gets the value that [property@Trainer:monitor] names, in the best epoch: the smallest loss, the largest accuracy and
 * so on.
 *
 * Returns: the value; not a number if there was no epoch
 */
double
ortrain_training_history_get_best_value (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), NAN);
  OrtrainEpochRecord *best = get_best (self);
  return best != NULL ? ortrain_monitor_get_value (&self->monitor, best) : NAN;
}

/**
 * ortrain_training_history_get_best_loss: (get-property best-loss)
 * @self: a history
 *
 * Gets the smallest one of an epoch, on the validation data where there are some.
 *
 * Returns: the loss; not a number if there was no epoch
 */
double
ortrain_training_history_get_best_loss (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), NAN);
  double best = NAN;
  for (guint i = 0; i < g_list_model_get_n_items (self->epochs); i++)
    {
      const OrtrainEpochRecord *record = get_epoch (self, i);
      const double loss = isnan (record->validation_loss) ? record->loss : record->validation_loss;
      if (isnan (best) || loss < best)
        best = loss;
    }
  return best;
}

/**
 * ortrain_training_history_get_losses:
 * @self: a history
 *
 * Gets the loss of every training step, as doubles in the machine's byte order.
 *
 * Returns: (transfer full): the losses
 */
GBytes *
ortrain_training_history_get_losses (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), NULL);
  return g_bytes_new (self->losses->data, self->losses->len * sizeof (double));
}

/**
 * ortrain_training_history_to_string:
 * @self: a history
 *
 * Prints the history, one line for each epoch.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_training_history_to_string (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), NULL);
  GString *text = g_string_new (NULL);
  for (guint i = 0; i < g_list_model_get_n_items (self->epochs); i++)
    {
      OrtrainEpochRecord *record = get_epoch (self, i);
      g_string_append_printf (text, "epoch %u  loss %.4f", record->epoch, record->loss);
      if (!isnan (record->validation_loss))
        g_string_append_printf (text, "  validation loss %.4f", record->validation_loss);
      if (record->metric >= 0)
        g_string_append_printf (text, "  accuracy %.2f %%", 100 * record->metric);
      for (guint k = 0; record->value_names != NULL && record->value_names[k] != NULL; k++)
        g_string_append_printf (text, "  %s %.4f", record->value_names[k], record->values[k]);
      g_string_append_printf (text, "  %.1f s\n", record->seconds);
    }
  g_string_append_printf (text, "%" G_GUINT64_FORMAT " step%s in %.1f s%s", self->n_steps,
                          ortrain_text_plural (self->n_steps), self->seconds,
                          self->stopped_early ? ", stopped early" : "");
  return g_string_free (text, FALSE);
}

/**
 * ortrain_training_history_get_skipped_updates: (get-property skipped-updates)
 * @self: the object
 *
 * Gets how many updates of all epochs were left out because gradients were not finite, see [class@LossScaler].
 *
 * Returns: the number of updates
 */
guint64
ortrain_training_history_get_skipped_updates (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), 0);
  guint64 n = 0;
  for (guint i = 0; i < g_list_model_get_n_items (self->epochs); i++)
    {
      g_autoptr (OrtrainEpochRecord) record = g_list_model_get_item (self->epochs, i);
      n += record->skipped_updates;
    }
  return n;
}

/**
 * ortrain_training_history_get_uncounted_steps: (get-property uncounted-steps)
 * @self: the object
 *
 * Gets how many training steps of all epochs had nothing that counts, such as batches whose labels are all ignored.
 *
 * Returns: the number of steps
 */
guint64
ortrain_training_history_get_uncounted_steps (OrtrainTrainingHistory *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_HISTORY (self), 0);
  guint64 n = 0;
  for (guint i = 0; i < g_list_model_get_n_items (self->epochs); i++)
    {
      g_autoptr (OrtrainEpochRecord) record = g_list_model_get_item (self->epochs, i);
      n += record->uncounted_steps;
    }
  return n;
}
