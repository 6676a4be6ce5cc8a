/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Saved states of a training: checkpoints, and the best epoch. */
#include "trainer/ortrain-trainer-private.h"

#include "core/ortrain-field-private.h"

static GParamSpec *
find (OrtrainTrainer *self, const char *name)
{
  return g_object_class_find_property (G_OBJECT_GET_CLASS (self), name);
}

/**
 * ortrain_trainer_get_checkpoint_dir: (get-property checkpoint-dir)
 * @self: the object
 *
 * Gets the folder in which checkpoints are saved; %NULL for no checkpoints.
 *
 * Returns: (transfer none) (nullable): the value
 */
const char *
ortrain_trainer_get_checkpoint_dir (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->checkpoint_dir;
}

/**
 * ortrain_trainer_set_checkpoint_dir: (set-property checkpoint-dir)
 * @self: the object
 * @checkpoint_dir: (nullable): the new value
 *
 * Sets the folder in which checkpoints are saved; %NULL for no checkpoints.
 */
void
ortrain_trainer_set_checkpoint_dir (OrtrainTrainer *self, const char *checkpoint_dir)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_string (self, find (self, "checkpoint-dir"), checkpoint_dir);
}

/**
 * ortrain_trainer_get_checkpoint_steps: (get-property checkpoint-steps)
 * @self: the object
 *
 * Gets after how many updates within an epoch a checkpoint is saved; 0 for none.
 *
 * Returns: the number of updates; 0 for none
 */
guint
ortrain_trainer_get_checkpoint_steps (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->checkpoint_steps;
}

/**
 * ortrain_trainer_set_checkpoint_steps: (set-property checkpoint-steps)
 * @self: the object
 * @checkpoint_steps: the number of updates; 0 for none
 *
 * Sets after how many updates within an epoch a checkpoint is saved; 0 for none.
 */
void
ortrain_trainer_set_checkpoint_steps (OrtrainTrainer *self, guint checkpoint_steps)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_uint (self, find (self, "checkpoint-steps"), checkpoint_steps);
}

/**
 * ortrain_trainer_get_checkpoint_epochs: (get-property checkpoint-epochs)
 * @self: the object
 *
 * Gets after how many epochs a checkpoint is saved; 0 for none: then one is saved only when training is cancelled.
 *
 * Returns: the number of epochs; 0 for none
 */
guint
ortrain_trainer_get_checkpoint_epochs (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->checkpoint_epochs;
}

/**
 * ortrain_trainer_set_checkpoint_epochs: (set-property checkpoint-epochs)
 * @self: the object
 * @checkpoint_epochs: the number of epochs; 0 for none
 *
 * Sets after how many epochs a checkpoint is saved; 0 for none: then one is saved only when training is cancelled. One
 * is saved after the last epoch too, unless the number is 0; with 0, only cancelling saves one.
 */
void
ortrain_trainer_set_checkpoint_epochs (OrtrainTrainer *self, guint checkpoint_epochs)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_uint (self, find (self, "checkpoint-epochs"), checkpoint_epochs);
}

/**
 * ortrain_trainer_get_resume: (get-property resume)
 * @self: the object
 *
 * Gets whether training starts from the checkpoint in [property@Trainer:checkpoint-dir], if there is one.
 *
 * Returns: the value
 */
gboolean
ortrain_trainer_get_resume (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->resume;
}

/**
 * ortrain_trainer_set_resume: (set-property resume)
 * @self: the object
 * @resume: the new value
 *
 * Sets whether training starts from the checkpoint in [property@Trainer:checkpoint-dir], if there is one.
 */
void
ortrain_trainer_set_resume (OrtrainTrainer *self, gboolean resume)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_boolean (self, find (self, "resume"), resume);
}

/**
 * ortrain_trainer_get_patience: (get-property patience)
 * @self: the object
 *
 * Gets after how many epochs that are no better than one before training stops early; 0 for never.
 *
 * Returns: the value
 */
guint
ortrain_trainer_get_patience (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->patience;
}

/**
 * ortrain_trainer_set_patience: (set-property patience)
 * @self: the object
 * @patience: the new value
 *
 * Sets after how many epochs that are no better than one before, by [property@Trainer:monitor], training stops early; 0
 * for never.
 */
void
ortrain_trainer_set_patience (OrtrainTrainer *self, guint patience)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_uint (self, find (self, "patience"), patience);
}

/**
 * ortrain_trainer_get_restore_best: (get-property restore-best)
 * @self: the object
 *
 * Gets whether a training with a [property@Trainer:patience] ends with the parameters of its best epoch.
 *
 * Returns: the value
 */
gboolean
ortrain_trainer_get_restore_best (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->restore_best;
}

/**
 * ortrain_trainer_set_restore_best: (set-property restore-best)
 * @self: the object
 * @restore_best: the new value
 *
 * Sets whether a training with a [property@Trainer:patience] ends with the parameters of its best epoch.
 */
void
ortrain_trainer_set_restore_best (OrtrainTrainer *self, gboolean restore_best)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_boolean (self, find (self, "restore-best"), restore_best);
}

/**
 * ortrain_trainer_get_monitor: (get-property monitor)
 * @self: the object
 *
 * Gets the name of the value by which epochs are compared.
 *
 * Returns: (transfer none): `loss`, `accuracy`, or the name of a metric
 */
const char *
ortrain_trainer_get_monitor (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->monitor != NULL ? self->monitor : ORTRAIN_MONITOR_LOSS;
}

/**
 * ortrain_trainer_set_monitor: (set-property monitor)
 * @self: the object
 * @monitor: (nullable): `loss`, `accuracy`, or the name of a metric; %NULL for `loss`
 *
 * Sets the name of the value by which epochs are compared: the best weights, the best checkpoint and early stopping
 * depend on it.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=20, patience=3)
 * trainer.validation = Ortrain.TensorDataset("validation.npz")
 * f1 = Ortrain.ClassificationMetric.new(Ortrain.ClassificationMeasure.F1, Ortrain.Average.MACRO, "logits", "labels")
 * trainer.add_metric(f1)
 * trainer.set_monitor("macro_f1")
 * history = trainer.fit()
 * print(history.best_epoch, history.best_value)
 * ```
 */
void
ortrain_trainer_set_monitor (OrtrainTrainer *self, const char *monitor)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_string (self, find (self, "monitor"), monitor != NULL ? monitor : ORTRAIN_MONITOR_LOSS);
}
