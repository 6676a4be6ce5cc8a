/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-trainer-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-object-list-private.h"
#include "core/ortrain-text-private.h"
#include "ortrain-enum-types.h"

#include <unistd.h>

/**
 * OrtrainTrainer:
 *
 * The training loop: epochs over a dataset, with validation, checkpoints, early stopping and progress.
 *
 * ```python
 * def show(trainer, record):
 *     print(record.epoch, record.loss, record.validation_loss, record.metric)
 *
 * training, validation = (Ortrain.TensorDataset(name) for name in ("train.npz", "validation.npz"))
 * trainer = Ortrain.Trainer(session, training, validation=validation, epochs=3, batch_size=4)
 * trainer.checkpoint_dir = "state"
 * trainer.connect("epoch-ended", show)
 * history = trainer.fit()
 * print(history.last_loss, history.last_metric)
 * ```
 *
 * The session is busy for others while its trainer works. Cancelling ends the loop between two updates, with
 * %G_IO_ERROR_CANCELLED; if there is a folder for checkpoints, one is saved first. With [property@Trainer:resume],
 * training goes on from there to the same bits, records of epochs included, as if it had never stopped; in batches of
 * another size, if that was changed. A handler ends the loop without an error by [method@Trainer.stop].
 *
 * The metric of a record is the accuracy on the validation data, of models that are trained with a cross entropy;
 * [method@Trainer.add_metric] has others computed. Signals arrive on
 * the main context that was the thread's default when the trainer was created; those of [method@Trainer.fit] come
 * during the call. The properties must not be changed while training runs.
 */
G_DEFINE_FINAL_TYPE (OrtrainTrainer, ortrain_trainer, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_EPOCHS,
  PROP_BATCH_SIZE,
  PROP_SHUFFLE,
  PROP_DROP_LAST,
  PROP_SHARED_INPUTS,
  PROP_SEED,
  PROP_PREFETCH,
  PROP_VALIDATION,
  PROP_CHECKPOINT_DIR,
  PROP_CHECKPOINT_STEPS,
  PROP_CHECKPOINT_EPOCHS,
  PROP_RESUME,
  PROP_PATIENCE,
  PROP_RESTORE_BEST,
  PROP_MONITOR,
  PROP_LOGS,
  PROP_SHOW_PROGRESS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

enum
{
  STARTED,
  PROGRESS,
  EPOCH_ENDED,
  CHECKPOINT_SAVED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

/* ---- signals ---- */

static void
deliver (GObject *object, guint slot, gpointer message)
{
  OrtrainTrainer *self = ORTRAIN_TRAINER (object);
  if (slot == ORTRAIN_TRAINER_START)
    {
      ortrain_progress_display_start (&self->display, message);
      g_signal_emit (object, signals[STARTED], 0, message);
    }
  else if (slot == ORTRAIN_TRAINER_END)
    ortrain_progress_display_end (&self->display);
  else if (slot == ORTRAIN_TRAINER_PROGRESS)
    {
      ortrain_progress_display_update (&self->display, message);
      g_signal_emit (object, signals[PROGRESS], 0, message);
    }
  else if (ORTRAIN_IS_EPOCH_RECORD (message))
    {
      ortrain_progress_display_epoch (&self->display, message);
      g_signal_emit (object, signals[EPOCH_ENDED], 0, message);
    }
  else
    g_signal_emit (object, signals[CHECKPOINT_SAVED], 0, g_file_peek_path (message));
}

void
ortrain_trainer_emit (OrtrainTrainer *self, guint slot, gpointer message, GDestroyNotify free_message)
{
  if (!ortrain_signal_queue_is_on_owner (self->signal_queue))
    {
      ortrain_signal_queue_post (self->signal_queue, G_OBJECT (self), slot, message, free_message);
      return;
    }
  deliver (G_OBJECT (self), slot, message);
  if (free_message != NULL)
    free_message (message);
}

void
ortrain_trainer_begin_display (OrtrainTrainer *self)
{
  ortrain_progress_display_begin (&self->display, STDERR_FILENO, self->show_progress,
                                  ortrain_trainer_wants_progress (self), self->epochs, self->validation != NULL);
}

gboolean
ortrain_trainer_wants_progress (OrtrainTrainer *self)
{
  return g_signal_has_handler_pending (self, signals[PROGRESS], 0, FALSE);
}

gboolean
ortrain_trainer_wants_start (OrtrainTrainer *self)
{
  return g_signal_has_handler_pending (self, signals[STARTED], 0, FALSE);
}

static void
ortrain_trainer_finalize (GObject *object)
{
  OrtrainTrainer *self = ORTRAIN_TRAINER (object);

  g_clear_pointer (&self->checkpoint_dir, g_free);
  g_clear_pointer (&self->monitor, g_free);
  g_clear_pointer (&self->logs, g_strfreev);
  g_clear_object (&self->validation);
  g_clear_object (&self->shared_inputs);
  g_clear_object (&self->metrics);
  g_clear_object (&self->session);
  g_clear_object (&self->dataset);
  ortrain_signal_queue_unref (self->signal_queue);

  G_OBJECT_CLASS (ortrain_trainer_parent_class)->finalize (object);
}

static void
ortrain_trainer_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  if (property_id == PROP_LOGS)
    g_value_set_boxed (value, ORTRAIN_TRAINER (object)->logs);
  else
    ortrain_field_get_property (object, property_id, value, pspec);
}

static void
ortrain_trainer_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  if (property_id == PROP_LOGS)
    ortrain_trainer_set_logs (ORTRAIN_TRAINER (object), g_value_get_boxed (value));
  else
    ortrain_field_set_property (object, property_id, value, pspec);
}

static void
ortrain_trainer_class_init (OrtrainTrainerClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_trainer_finalize;
  object_class->get_property = ortrain_trainer_get_property;
  object_class->set_property = ortrain_trainer_set_property;

  /**
   * OrtrainTrainer:epochs: (getter get_epochs) (setter set_epochs)
   *
   * How often the training data are used, epochs before a resumed checkpoint included. Default: 1, at least 1.
   */
  properties[PROP_EPOCHS] = ortrain_field_uint ("epochs", G_STRUCT_OFFSET (OrtrainTrainer, epochs), 1, G_MAXUINT, 1);

  /**
   * OrtrainTrainer:batch-size: (getter get_batch_size) (setter set_batch_size)
   *
   * How many items a batch has. Default: 32, at least 1.
   */
  properties[PROP_BATCH_SIZE] =
      ortrain_field_uint ("batch-size", G_STRUCT_OFFSET (OrtrainTrainer, batch_size), 1, G_MAXUINT, 32);

  /**
   * OrtrainTrainer:shuffle: (getter get_shuffle) (setter set_shuffle)
   *
   * Whether each epoch has the items in an order of its own. Default: %TRUE.
   */
  properties[PROP_SHUFFLE] = ortrain_field_boolean ("shuffle", G_STRUCT_OFFSET (OrtrainTrainer, shuffle), TRUE);

  /**
   * OrtrainTrainer:drop-last: (getter get_drop_last) (setter set_drop_last)
   *
   * Whether a last batch that is not full is left out: one of the training data, and, if the model takes batches of one
   * size only, one of an evaluation, too. Default: %FALSE.
   */
  properties[PROP_DROP_LAST] = ortrain_field_boolean ("drop-last", G_STRUCT_OFFSET (OrtrainTrainer, drop_last), FALSE);

  /**
   * OrtrainTrainer:shared-inputs: (getter get_shared_inputs) (setter set_shared_inputs)
   *
   * Inputs of the model that have no dimension for the batch, such as a mask or a table of positions: all items share
   * them, so they are part of each batch as they are, in evaluations, too. The items of the datasets must have no
   * tensors of the same names. %NULL for none. Default: %NULL.
   */
  properties[PROP_SHARED_INPUTS] =
      ortrain_field_object ("shared-inputs", G_STRUCT_OFFSET (OrtrainTrainer, shared_inputs), ORTRAIN_TYPE_TENSOR_DICT);

  /**
   * OrtrainTrainer:seed: (getter get_seed) (setter set_seed)
   *
   * The seed of the orders of the items. Default: 0.
   */
  properties[PROP_SEED] = ortrain_field_uint64 ("seed", G_STRUCT_OFFSET (OrtrainTrainer, seed), 0, G_MAXUINT64, 0);

  /**
   * OrtrainTrainer:prefetch: (getter get_prefetch) (setter set_prefetch)
   *
   * How many batches are read ahead, as [property@DataLoader:prefetch] says. Default: 2, from 0 to 64.
   */
  properties[PROP_PREFETCH] = ortrain_field_uint ("prefetch", G_STRUCT_OFFSET (OrtrainTrainer, prefetch), 0, 64, 2);

  /**
   * OrtrainTrainer:validation: (getter get_validation) (setter set_validation)
   *
   * The data on which the model is evaluated after each epoch; %NULL for none. Default: %NULL.
   */
  properties[PROP_VALIDATION] =
      ortrain_field_object ("validation", G_STRUCT_OFFSET (OrtrainTrainer, validation), ORTRAIN_TYPE_DATASET);

  /**
   * OrtrainTrainer:checkpoint-dir: (getter get_checkpoint_dir) (setter set_checkpoint_dir)
   *
   * The folder in which checkpoints are saved; %NULL for no checkpoints. Default: %NULL.
   *
   * The folder itself is the last checkpoint, from which [property@Trainer:resume] goes on. With validation data or a
   * [property@Trainer:patience], the folder `best` in it is that of the best epoch by [property@Trainer:monitor], a
   * checkpoint of its own.
   */
  properties[PROP_CHECKPOINT_DIR] =
      ortrain_field_string ("checkpoint-dir", G_STRUCT_OFFSET (OrtrainTrainer, checkpoint_dir));

  /**
   * OrtrainTrainer:checkpoint-steps: (getter get_checkpoint_steps) (setter set_checkpoint_steps)
   *
   * After how many updates within an epoch a checkpoint is saved; 0 for none. Default: 0.
   */
  properties[PROP_CHECKPOINT_STEPS] =
      ortrain_field_uint ("checkpoint-steps", G_STRUCT_OFFSET (OrtrainTrainer, checkpoint_steps), 0, G_MAXUINT, 0);

  /**
   * OrtrainTrainer:checkpoint-epochs: (getter get_checkpoint_epochs) (setter set_checkpoint_epochs)
   *
   * After how many epochs a checkpoint is saved; 0 for none: then one is saved only when training is cancelled.
   * Default: 1.
   */
  properties[PROP_CHECKPOINT_EPOCHS] =
      ortrain_field_uint ("checkpoint-epochs", G_STRUCT_OFFSET (OrtrainTrainer, checkpoint_epochs), 0, G_MAXUINT, 1);

  /**
   * OrtrainTrainer:resume: (getter get_resume) (setter set_resume)
   *
   * Whether training starts from the checkpoint in [property@Trainer:checkpoint-dir]. Where no checkpoint was saved
   * yet, it begins anew; one that is damaged, or has lost its manifest, is an error. Default: %FALSE.
   */
  properties[PROP_RESUME] = ortrain_field_boolean ("resume", G_STRUCT_OFFSET (OrtrainTrainer, resume), FALSE);

  /**
   * OrtrainTrainer:patience: (getter get_patience) (setter set_patience)
   *
   * After how many epochs that are no better by [property@Trainer:monitor] than one before training stops early; 0 for
   * never. Default: 0.
   */
  properties[PROP_PATIENCE] =
      ortrain_field_uint ("patience", G_STRUCT_OFFSET (OrtrainTrainer, patience), 0, G_MAXUINT, 0);

  /**
   * OrtrainTrainer:restore-best: (getter get_restore_best) (setter set_restore_best)
   *
   * Whether a training with a [property@Trainer:patience] ends with the parameters and buffers of its best epoch by
   * [property@Trainer:monitor] instead of the last; they are kept in the memory of the host meanwhile. Checkpoints,
   * from which training may go on, are not affected. Default: %TRUE.
   */
  properties[PROP_RESTORE_BEST] =
      ortrain_field_boolean ("restore-best", G_STRUCT_OFFSET (OrtrainTrainer, restore_best), TRUE);

  /**
   * OrtrainTrainer:monitor: (getter get_monitor) (setter set_monitor)
   *
   * The value by which epochs are compared: `loss`, that of the validation data if they are set; `accuracy`, of models
   * that are trained with a cross entropy; or the name of a metric that was added. All but the loss need validation
   * data. Whether more or less is better is known of these, and of metrics by [property@Metric:lower-is-better]; a
   * value that is not a number is never better. Default: `loss`.
   */
  properties[PROP_MONITOR] =
      ortrain_field_string_with_default ("monitor", G_STRUCT_OFFSET (OrtrainTrainer, monitor), ORTRAIN_MONITOR_LOSS);

  /**
   * OrtrainTrainer:logs: (getter get_logs) (setter set_logs)
   *
   * The files to which the loss and the learning rate of each step, and the results of each epoch, are written. The
   * name says in which form: `run.csv`, `run.jsonl` (JSON lines), or, for TensorBoard, a folder, which exists or ends
   * with a slash. A file that exists is replaced, unless training is resumed: then only the entries after the
   * checkpoint are replaced. Each entry is complete or absent, whenever the process ends. Default: %NULL, none.
   */
  properties[PROP_LOGS] = g_param_spec_boxed ("logs", NULL, NULL, G_TYPE_STRV,
                                              G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainTrainer:show-progress: (getter get_show_progress) (setter set_show_progress)
   *
   * Whether [method@Trainer.fit] and [method@Trainer.fit_async] show on the standard error output a summary of the
   * training, its progress, and a line for each epoch. Default: %ORTRAIN_SHOW_PROGRESS_AUTO.
   */
  properties[PROP_SHOW_PROGRESS] = ortrain_field_enum ("show-progress", G_STRUCT_OFFSET (OrtrainTrainer, show_progress),
                                                       ORTRAIN_TYPE_SHOW_PROGRESS, ORTRAIN_SHOW_PROGRESS_AUTO);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);

  /**
   * OrtrainTrainer::started:
   * @self: the trainer
   * @summary: the model and the settings of the training: lines of a name and a text
   *
   * Emitted before the first training step, with the text that is shown there: the model, its device and threads,
   * parameters, data, optimizer, planned memory. The lines are not wrapped.
   */
  signals[STARTED] = g_signal_new ("started", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                   G_TYPE_NONE, 1, G_TYPE_STRING);
  /**
   * OrtrainTrainer::progress:
   * @self: the trainer
   * @progress: how far it is
   *
   * Emitted after training steps. If the main loop is too busy for all of them, only the latest progress of an
   * asynchronous training arrives.
   */
  signals[PROGRESS] = g_signal_new ("progress", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                    G_TYPE_NONE, 1, ORTRAIN_TYPE_PROGRESS);
  /**
   * OrtrainTrainer::epoch-ended:
   * @self: the trainer
   * @record: the results of the epoch
   *
   * Emitted at the end of each epoch, after the validation.
   */
  signals[EPOCH_ENDED] = g_signal_new ("epoch-ended", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                       G_TYPE_NONE, 1, ORTRAIN_TYPE_EPOCH_RECORD);
  /**
   * OrtrainTrainer::checkpoint-saved:
   * @self: the trainer
   * @path: (type filename): the folder
   *
   * Emitted when the last checkpoint is on disk.
   */
  signals[CHECKPOINT_SAVED] = g_signal_new ("checkpoint-saved", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                            NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
ortrain_trainer_init (OrtrainTrainer *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
  self->metrics = G_LIST_MODEL (ortrain_object_list_new (ORTRAIN_TYPE_METRIC));
  self->signal_queue = ortrain_signal_queue_new (deliver, G_MAXUINT); /* the ends of epochs are counted on */
}

/**
 * ortrain_trainer_new:
 * @session: a session
 * @dataset: the data to train on: one tensor for each input of the model and each target
 *
 * Creates a trainer, with the defaults of all properties. It keeps references to the session and the dataset.
 *
 * Returns: (transfer full): the new object
 */
OrtrainTrainer *
ortrain_trainer_new (OrtrainTrainingSession *session, OrtrainDataset *dataset)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (session), NULL);
  g_return_val_if_fail (ORTRAIN_IS_DATASET (dataset), NULL);

  OrtrainTrainer *self = g_object_new (ORTRAIN_TYPE_TRAINER, NULL);
  self->session = g_object_ref (session);
  self->dataset = g_object_ref (dataset);
  return self;
}

/**
 * ortrain_trainer_get_epochs: (get-property epochs)
 * @self: the object
 *
 * Gets how often the training data are used, epochs before a resumed checkpoint included.
 *
 * Returns: the value
 */
guint
ortrain_trainer_get_epochs (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->epochs;
}

/**
 * ortrain_trainer_set_epochs: (set-property epochs)
 * @self: the object
 * @epochs: the new value
 *
 * Sets how often the training data are used, epochs before a resumed checkpoint included.
 */
void
ortrain_trainer_set_epochs (OrtrainTrainer *self, guint epochs)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_uint (self, properties[PROP_EPOCHS], epochs);
}

/**
 * ortrain_trainer_get_batch_size: (get-property batch-size)
 * @self: the object
 *
 * Gets how many items a batch has.
 *
 * Returns: the value
 */
guint
ortrain_trainer_get_batch_size (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->batch_size;
}

/**
 * ortrain_trainer_set_batch_size: (set-property batch-size)
 * @self: the object
 * @batch_size: the new value
 *
 * Sets how many items a batch has.
 */
void
ortrain_trainer_set_batch_size (OrtrainTrainer *self, guint batch_size)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_uint (self, properties[PROP_BATCH_SIZE], batch_size);
}

/**
 * ortrain_trainer_get_shuffle: (get-property shuffle)
 * @self: the object
 *
 * Gets whether each epoch has the items in an order of its own.
 *
 * Returns: the value
 */
gboolean
ortrain_trainer_get_shuffle (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->shuffle;
}

/**
 * ortrain_trainer_set_shuffle: (set-property shuffle)
 * @self: the object
 * @shuffle: the new value
 *
 * Sets whether each epoch has the items in an order of its own.
 */
void
ortrain_trainer_set_shuffle (OrtrainTrainer *self, gboolean shuffle)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_boolean (self, properties[PROP_SHUFFLE], shuffle);
}

/**
 * ortrain_trainer_get_prefetch: (get-property prefetch)
 * @self: the object
 *
 * Gets how many batches are read ahead.
 *
 * Returns: the number
 */
guint
ortrain_trainer_get_prefetch (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->prefetch;
}

/**
 * ortrain_trainer_set_prefetch: (set-property prefetch)
 * @self: the object
 * @prefetch: the number of batches, from 0 to 64
 *
 * Sets how many batches are read ahead.
 */
void
ortrain_trainer_set_prefetch (OrtrainTrainer *self, guint prefetch)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_uint (self, properties[PROP_PREFETCH], prefetch);
}

/**
 * ortrain_trainer_get_drop_last: (get-property drop-last)
 * @self: the object
 *
 * Gets whether a last batch that is not full is left out.
 *
 * Returns: the value
 */
gboolean
ortrain_trainer_get_drop_last (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), FALSE);
  return self->drop_last;
}

/**
 * ortrain_trainer_set_drop_last: (set-property drop-last)
 * @self: the object
 * @drop_last: the new value
 *
 * Sets whether a last batch that is not full is left out.
 */
void
ortrain_trainer_set_drop_last (OrtrainTrainer *self, gboolean drop_last)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_boolean (self, properties[PROP_DROP_LAST], drop_last);
}

/**
 * ortrain_trainer_get_shared_inputs: (get-property shared-inputs)
 * @self: the object
 *
 * Gets the inputs that are part of each batch as they are.
 *
 * Returns: (transfer none) (nullable): the tensors, by the names of the inputs
 */
OrtrainTensorDict *
ortrain_trainer_get_shared_inputs (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->shared_inputs;
}

/**
 * ortrain_trainer_set_shared_inputs: (set-property shared-inputs)
 * @self: the object
 * @shared_inputs: (nullable): tensors, by the names of the inputs
 *
 * Sets the inputs that are part of each batch as they are.
 */
void
ortrain_trainer_set_shared_inputs (OrtrainTrainer *self, OrtrainTensorDict *shared_inputs)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  g_return_if_fail (shared_inputs == NULL || ORTRAIN_IS_TENSOR_DICT (shared_inputs));
  ortrain_field_set_object (self, properties[PROP_SHARED_INPUTS], shared_inputs);
}

OrtrainTensorDict *
ortrain_trainer_read_batch (OrtrainTrainer *self, OrtrainDataLoader *loader, GError **error)
{
  g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, error);
  const guint n_shared = self->shared_inputs != NULL ? ortrain_tensor_dict_get_size (self->shared_inputs) : 0;
  if (batch == NULL || n_shared == 0)
    return g_steal_pointer (&batch);
  g_autoptr (OrtrainTensorDict) complete = ortrain_tensor_dict_new (); /* the loader uses its own again */
  for (guint i = 0; i < ortrain_tensor_dict_get_size (batch); i++)
    ortrain_tensor_dict_set (complete, ortrain_tensor_dict_get_name (batch, i),
                             ortrain_tensor_dict_get_tensor (batch, i));
  for (guint i = 0; i < n_shared; i++)
    {
      const char *name = ortrain_tensor_dict_get_name (self->shared_inputs, i);
      if (ortrain_tensor_dict_contains (complete, name))
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "The items of the dataset have a tensor '%s', and so have the shared inputs",
                       ortrain_text_show (name));
          return NULL;
        }
      ortrain_tensor_dict_set (complete, name, ortrain_tensor_dict_get_tensor (self->shared_inputs, i));
    }
  return g_steal_pointer (&complete);
}

/**
 * ortrain_trainer_get_seed: (get-property seed)
 * @self: the object
 *
 * Gets the seed of the orders of the items.
 *
 * Returns: the value
 */
guint64
ortrain_trainer_get_seed (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), 0);
  return self->seed;
}

/**
 * ortrain_trainer_set_seed: (set-property seed)
 * @self: the object
 * @seed: the new value
 *
 * Sets the seed of the orders of the items.
 */
void
ortrain_trainer_set_seed (OrtrainTrainer *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_uint64 (self, properties[PROP_SEED], seed);
}

/**
 * ortrain_trainer_get_validation: (get-property validation)
 * @self: the object
 *
 * Gets the data on which the model is evaluated after each epoch; %NULL for none.
 *
 * Returns: (transfer none) (nullable): the value
 */
OrtrainDataset *
ortrain_trainer_get_validation (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->validation;
}

/**
 * ortrain_trainer_set_validation: (set-property validation)
 * @self: the object
 * @validation: (nullable): the new value
 *
 * Sets the data on which the model is evaluated after each epoch; %NULL for none.
 */
void
ortrain_trainer_set_validation (OrtrainTrainer *self, OrtrainDataset *validation)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));
  ortrain_field_set_object (self, properties[PROP_VALIDATION], validation);
}

/**
 * ortrain_trainer_get_logs: (get-property logs)
 * @self: the object
 *
 * Gets the files to which steps and epochs are written.
 *
 * Returns: (transfer none) (nullable) (array zero-terminated=1): the paths
 */
const char *const *
ortrain_trainer_get_logs (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return (const char *const *) self->logs;
}

/**
 * ortrain_trainer_set_logs: (set-property logs)
 * @self: the object
 * @logs: (nullable) (array zero-terminated=1): the paths, see [property@Trainer:logs]
 *
 * Sets the files to which steps and epochs are written. [method@Trainer.fit] fails with %G_IO_ERROR_INVALID_FILENAME if
 * a name does not say in which form.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=3)
 * trainer.set_logs(["run.csv", "runs/first/"])
 * trainer.fit()
 * ```
 */
void
ortrain_trainer_set_logs (OrtrainTrainer *self, const char *const *logs)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  char **copy = g_strdupv ((char **) logs);
  g_strfreev (self->logs);
  self->logs = copy;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LOGS]);
}

/**
 * ortrain_trainer_get_show_progress: (get-property show-progress)
 * @self: the object
 *
 * Gets whether a training is shown on the standard error output.
 *
 * Returns: the value
 */
OrtrainShowProgress
ortrain_trainer_get_show_progress (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), ORTRAIN_SHOW_PROGRESS_AUTO);
  return self->show_progress;
}

/**
 * ortrain_trainer_set_show_progress: (set-property show-progress)
 * @self: the object
 * @show_progress: the new value
 *
 * Sets whether a training is shown on the standard error output: a summary, the progress (on a terminal one line that
 * is drawn again and again, elsewhere one every ten seconds), and the results of each epoch. It is written where
 * signals are emitted, on the main context of the trainer.
 *
 * ```python
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=2)
 * trainer.set_show_progress(Ortrain.ShowProgress.NEVER)
 * history = trainer.fit()
 * ```
 */
void
ortrain_trainer_set_show_progress (OrtrainTrainer *self, OrtrainShowProgress show_progress)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  ortrain_field_set_enum (self, properties[PROP_SHOW_PROGRESS], (gint) show_progress);
}

/**
 * ortrain_trainer_stop:
 * @self: a trainer
 *
 * Ends the running training after its current update, as if it were complete: [method@Trainer.fit] returns the results
 * so far, of which [property@TrainingHistory:stopped-early] is set. Handlers of signals may call it, and so may any
 * thread. If there is a folder for checkpoints, one is saved, from which training can go on. Nothing happens if no
 * training runs.
 *
 * ```python
 * def stop(trainer, progress):
 *     if progress.seconds > 60:
 *         trainer.stop()
 *
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=3)
 * trainer.connect("progress", stop)
 * history = trainer.fit()
 * ```
 */
void
ortrain_trainer_stop (OrtrainTrainer *self)
{
  g_return_if_fail (ORTRAIN_IS_TRAINER (self));

  g_atomic_int_set (&self->stop_asked, TRUE);
}

/**
 * ortrain_trainer_get_session:
 * @self: a trainer
 *
 * Gets the session that is trained; others may use it while no training runs.
 *
 * Returns: (transfer none) (nullable): the session
 */
OrtrainTrainingSession *
ortrain_trainer_get_session (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->session;
}

/**
 * ortrain_trainer_get_dataset:
 * @self: a trainer
 *
 * Gets the data that is trained on.
 *
 * Returns: (transfer none) (nullable): the dataset
 */
OrtrainDataset *
ortrain_trainer_get_dataset (OrtrainTrainer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINER (self), NULL);
  return self->dataset;
}
