/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-epoch-record-private.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/**
 * OrtrainEpochRecord:
 *
 * The results of one epoch of a training. [signal@Trainer::epoch-ended] has one, and [property@TrainingHistory:epochs]
 * lists them.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=2)
 * for record in trainer.fit().epochs:
 *     print(record.epoch, record.loss, record.validation_loss, record.metric, record.seconds)
 * ```
 *
 * A record is immutable, and any thread may use it.
 */

G_DEFINE_FINAL_TYPE (OrtrainEpochRecord, ortrain_epoch_record, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_EPOCH,
  PROP_LOSS,
  PROP_VALIDATION_LOSS,
  PROP_METRIC,
  PROP_LEARNING_RATE,
  PROP_SECONDS,
  PROP_PEAK_BYTES,
  PROP_SKIPPED_UPDATES,
  PROP_UNCOUNTED_STEPS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_epoch_record_finalize (GObject *object)
{
  OrtrainEpochRecord *self = ORTRAIN_EPOCH_RECORD (object);
  g_strfreev (self->value_names);
  g_free (self->values);
  G_OBJECT_CLASS (ortrain_epoch_record_parent_class)->finalize (object);
}

static void
ortrain_epoch_record_class_init (OrtrainEpochRecordClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = ortrain_epoch_record_finalize;
  object_class->get_property = ortrain_field_get_property;

  /**
   * OrtrainEpochRecord:epoch: (getter get_epoch)
   *
   * Which epoch it was, counted from 1. Read-only.
   */
  properties[PROP_EPOCH] = ortrain_field_at (g_param_spec_uint ("epoch", NULL, NULL, 0, G_MAXUINT, 0, flags),
                                             G_STRUCT_OFFSET (OrtrainEpochRecord, epoch));
  /**
   * OrtrainEpochRecord:loss: (getter get_loss)
   *
   * The mean over the training steps, weighted by the elements that count in each of them, see
   * [method@TrainingSession.get_step_weight]. Read-only.
   */
  properties[PROP_LOSS] =
      ortrain_field_at (g_param_spec_double ("loss", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, loss));
  /**
   * OrtrainEpochRecord:validation-loss: (getter get_validation_loss)
   *
   * The mean over the elements that count in the validation data; NaN if none does. Read-only.
   */
  properties[PROP_VALIDATION_LOSS] =
      ortrain_field_at (g_param_spec_double ("validation-loss", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, validation_loss));
  /**
   * OrtrainEpochRecord:metric: (getter get_metric)
   *
   * The accuracy on the validation data, from 0 to 1; -1 without any, or without a cross entropy. Read-only.
   */
  properties[PROP_METRIC] =
      ortrain_field_at (g_param_spec_double ("metric", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, metric));
  /**
   * OrtrainEpochRecord:learning-rate: (getter get_learning_rate)
   *
   * The one after the last update of the epoch. Read-only.
   */
  properties[PROP_LEARNING_RATE] =
      ortrain_field_at (g_param_spec_double ("learning-rate", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, learning_rate));
  /**
   * OrtrainEpochRecord:seconds: (getter get_seconds)
   *
   * How long the epoch took. Read-only.
   */
  properties[PROP_SECONDS] =
      ortrain_field_at (g_param_spec_double ("seconds", NULL, NULL, -G_MAXDOUBLE, G_MAXDOUBLE, 0.0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, seconds));
  /**
   * OrtrainEpochRecord:peak-bytes: (getter get_peak_bytes)
   *
   * The largest peak of the plans that the training steps of the epoch had, in bytes, those before training was resumed
   * included. Read-only.
   */
  properties[PROP_PEAK_BYTES] =
      ortrain_field_at (g_param_spec_uint64 ("peak-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, peak_bytes));
  /**
   * OrtrainEpochRecord:skipped-updates: (getter get_skipped_updates)
   *
   * How many updates of the epoch were left out because gradients were not finite, see [class@LossScaler]. Read-only.
   */
  properties[PROP_SKIPPED_UPDATES] =
      ortrain_field_at (g_param_spec_uint64 ("skipped-updates", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, skipped_updates));
  /**
   * OrtrainEpochRecord:uncounted-steps: (getter get_uncounted_steps)
   *
   * How many training steps of the epoch had nothing that counts, such as batches whose labels are all ignored: their
   * loss and their gradients are 0. Read-only.
   */
  properties[PROP_UNCOUNTED_STEPS] =
      ortrain_field_at (g_param_spec_uint64 ("uncounted-steps", NULL, NULL, 0, G_MAXUINT64, 0, flags),
                        G_STRUCT_OFFSET (OrtrainEpochRecord, uncounted_steps));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_epoch_record_init (OrtrainEpochRecord *self)
{
}

/**
 * ortrain_epoch_record_get_epoch: (get-property epoch)
 * @self: the object
 *
 * Gets which epoch it was, counted from 1.
 *
 * Returns: the value
 */
guint
ortrain_epoch_record_get_epoch (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->epoch;
}

/**
 * ortrain_epoch_record_get_loss: (get-property loss)
 * @self: the object
 *
 * Gets the mean over the training steps.
 *
 * Returns: the value
 */
double
ortrain_epoch_record_get_loss (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->loss;
}

/**
 * ortrain_epoch_record_get_validation_loss: (get-property validation-loss)
 * @self: the object
 *
 * Gets the mean over the validation data; not a number without any.
 *
 * Returns: the value
 */
double
ortrain_epoch_record_get_validation_loss (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->validation_loss;
}

/**
 * ortrain_epoch_record_get_metric: (get-property metric)
 * @self: the object
 *
 * Gets the accuracy on the validation data, from 0 to 1; -1 without any, or without a cross entropy.
 *
 * Returns: the value
 */
double
ortrain_epoch_record_get_metric (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->metric;
}

/**
 * ortrain_epoch_record_get_learning_rate: (get-property learning-rate)
 * @self: the object
 *
 * Gets the one after the last update of the epoch.
 *
 * Returns: the value
 */
double
ortrain_epoch_record_get_learning_rate (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->learning_rate;
}

/**
 * ortrain_epoch_record_get_seconds: (get-property seconds)
 * @self: the object
 *
 * Gets how long the epoch took.
 *
 * Returns: the value
 */
double
ortrain_epoch_record_get_seconds (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->seconds;
}

/**
 * ortrain_epoch_record_get_peak_bytes: (get-property peak-bytes)
 * @self: the object
 *
 * Gets the largest peak of the plans that the training steps of the epoch had, in bytes.
 *
 * Returns: the number of bytes
 */
guint64
ortrain_epoch_record_get_peak_bytes (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->peak_bytes;
}

/**
 * ortrain_epoch_record_get_skipped_updates: (get-property skipped-updates)
 * @self: the object
 *
 * Gets how many updates of the epoch were left out because gradients were not finite, see [class@LossScaler].
 *
 * Returns: the value
 */
guint64
ortrain_epoch_record_get_skipped_updates (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->skipped_updates;
}

/**
 * ortrain_epoch_record_get_uncounted_steps: (get-property uncounted-steps)
 * @self: the object
 *
 * Gets how many training steps of the epoch had nothing that counts, such as batches whose labels are all ignored:
 * their loss and their gradients are 0.
 *
 * Returns: the value
 */
guint64
ortrain_epoch_record_get_uncounted_steps (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), 0);
  return self->uncounted_steps;
}

/**
 * ortrain_epoch_record_get_value_names:
 * @self: a record
 *
 * Gets the names of the metrics that were computed, see [method@Trainer.add_metric].
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 */
char **
ortrain_epoch_record_get_value_names (OrtrainEpochRecord *self)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), NULL);
  return self->value_names != NULL ? g_strdupv (self->value_names) : g_new0 (char *, 1);
}

/**
 * ortrain_epoch_record_get_value:
 * @self: a record
 * @name: the name of a metric
 *
 * Gets the value of a metric on the validation data.
 *
 * Returns: the value; not a number if no such metric was computed
 */
double
ortrain_epoch_record_get_value (OrtrainEpochRecord *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_EPOCH_RECORD (self), NAN);
  g_return_val_if_fail (name != NULL, NAN);
  for (guint i = 0; self->value_names != NULL && self->value_names[i] != NULL; i++)
    if (g_str_equal (self->value_names[i], name))
      return self->values[i];
  return NAN;
}
