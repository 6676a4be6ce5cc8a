/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_PROGRESS (ortrain_progress_get_type ())

typedef struct _OrtrainProgress OrtrainProgress;

/**
 * OrtrainShowProgress:
 * @ORTRAIN_SHOW_PROGRESS_AUTO: on a terminal, unless the program has a handler of [signal@Trainer::progress]
 * @ORTRAIN_SHOW_PROGRESS_ALWAYS: as plain lines where there is no terminal
 * @ORTRAIN_SHOW_PROGRESS_NEVER: nothing is shown
 *
 * Whether a training is shown on the standard error output, see [property@Trainer:show-progress].
 */
typedef enum
{
  ORTRAIN_SHOW_PROGRESS_AUTO,
  ORTRAIN_SHOW_PROGRESS_ALWAYS,
  ORTRAIN_SHOW_PROGRESS_NEVER,
} OrtrainShowProgress;

/**
 * OrtrainProgress:
 * @fraction: how much of the training is done, from 0 to 1
 * @loss: the loss of the last step
 * @mean_loss: the mean loss of the steps of this epoch so far, weighted by the elements that count in each of them
 * @learning_rate: the learning rate of the next update
 * @metric: the accuracy on the validation data after the last epoch, -1 if it is not computed
 * @seconds: the time since training began
 * @epoch: the number of the epoch, from 1
 * @n_epochs: the number of epochs that were asked for
 * @step: the number of steps done in this epoch
 * @n_steps: the number of steps of an epoch
 * @items_per_second: how many items are trained with a second, without validation; 0 as long as only one step was run
 * @seconds_left: the time until all epochs are done, at that speed; -1 as long as it is not known
 * @skipped_updates: the updates of this epoch that were left out because gradients were not finite
 *
 * How far a training is. [signal@Trainer::progress] has one.
 *
 * ```python
 * def show(trainer, progress):
 *     print(f"{progress.fraction:.0%} {progress.mean_loss:.4f}")
 *
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=2)
 * trainer.connect("progress", show)
 * trainer.fit()
 * ```
 *
 * It is immutable, and any thread may use it; a copy is a reference to the same one.
 */
struct _OrtrainProgress
{
  double fraction;
  double loss;
  double mean_loss;
  double learning_rate;
  double metric;
  double seconds;
  guint epoch;
  guint n_epochs;
  guint64 step;
  guint64 n_steps;
  double items_per_second;
  double seconds_left;
  guint64 skipped_updates;
};

ORTRAIN_AVAILABLE_IN_ALL
GType ortrain_progress_get_type (void) G_GNUC_CONST;
ORTRAIN_AVAILABLE_IN_ALL
OrtrainProgress *ortrain_progress_copy (OrtrainProgress *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_progress_free (OrtrainProgress *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainProgress, ortrain_progress_free)

G_END_DECLS
