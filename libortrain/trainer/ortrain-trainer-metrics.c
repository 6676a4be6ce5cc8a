/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-object-list-private.h"
#include "trainer/ortrain-trainer-private.h"

/**
 * ortrain_trainer_add_metric:
 * @self: a trainer
 * @metric: a metric, with a name of its own
 *
 * Has a metric computed on the validation data after each epoch, and by [method@Trainer.evaluate]. Records of epochs
 * have its value, see [method@EpochRecord.get_value], and so have logs. It must not be called while training runs.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=2)
 * top = Ortrain.ClassificationMetric.new_accuracy(2, "logits", "labels")
 * trainer.add_metric(top)
 * trainer.evaluate(Ortrain.TensorDataset("validation.npz"))
 * print([metric.name for metric in trainer.get_metrics()], top.compute()[1])
 * ```
 */
void
ortrain_trainer_add_metric (OrtrainTrainer *self, OrtrainMetric *metric)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  g_return_if_fail (ORTRAIN_IS_METRIC (metric));

  ortrain_object_list_append (ORTRAIN_OBJECT_LIST (self->metrics), metric);
}

/**
 * ortrain_trainer_get_metrics:
 * @self: a trainer
 *
 * Gets the metrics that were added, a list of [class@Metric].
 *
 * Returns: (transfer none): the metrics
 */
GListModel *
ortrain_trainer_get_metrics (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->metrics;
}
