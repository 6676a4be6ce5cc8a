/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-data-loader.h"
#include "trainer/ortrain-trainer.h"

/* Tries the model on a dataset, in order. loss: the mean over the counted elements, NaN without targets; metric: the
 * accuracy of the first loss over classes (cross entropy, negative log likelihood), -1 if there is no such loss. The
 * trainer's metrics are counted anew. The caller holds the claim on its session. */
gboolean ortrain_evaluate_dataset (OrtrainTrainer *trainer, OrtrainDataset *dataset, GCancellable *cancellable,
                                   double *loss, double *metric, GError **error);

/* Whether the model is trained with a loss over classes, of which evaluations have the accuracy. */
gboolean ortrain_evaluation_has_accuracy (OrtrainTrainingSession *session);

/* Propagates the error of a step on the loader's last batch: with the reason, if it is not NULL, and the number that
 * the item to blame has in the dataset, if the session found one. error: taken */
void ortrain_evaluation_propagate (OrtrainTrainingSession *session, OrtrainDataLoader *loader, const char *reason,
                                   GError **dest, GError *error);
