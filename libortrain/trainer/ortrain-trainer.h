/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"
#include "session/ortrain-training-session.h"
#include "trainer/ortrain-metric.h"
#include "trainer/ortrain-progress.h"
#include "trainer/ortrain-training-history.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TRAINER (ortrain_trainer_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTrainer, ortrain_trainer, ORTRAIN, TRAINER, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainer *ortrain_trainer_new (OrtrainTrainingSession *session, OrtrainDataset *dataset);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_trainer_get_epochs (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_epochs (OrtrainTrainer *self, guint epochs);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_trainer_get_batch_size (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_batch_size (OrtrainTrainer *self, guint batch_size);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_trainer_get_shuffle (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_shuffle (OrtrainTrainer *self, gboolean shuffle);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_trainer_get_prefetch (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_prefetch (OrtrainTrainer *self, guint prefetch);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_trainer_get_drop_last (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_drop_last (OrtrainTrainer *self, gboolean drop_last);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_trainer_get_shared_inputs (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_shared_inputs (OrtrainTrainer *self, OrtrainTensorDict *shared_inputs);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_trainer_get_seed (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_seed (OrtrainTrainer *self, guint64 seed);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_trainer_get_validation (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_validation (OrtrainTrainer *self, OrtrainDataset *validation);

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_trainer_get_checkpoint_dir (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_checkpoint_dir (OrtrainTrainer *self, const char *checkpoint_dir);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_trainer_get_checkpoint_steps (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_checkpoint_steps (OrtrainTrainer *self, guint checkpoint_steps);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_trainer_get_checkpoint_epochs (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_checkpoint_epochs (OrtrainTrainer *self, guint checkpoint_epochs);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_trainer_get_resume (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_resume (OrtrainTrainer *self, gboolean resume);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_trainer_get_patience (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_patience (OrtrainTrainer *self, guint patience);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_trainer_get_restore_best (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_restore_best (OrtrainTrainer *self, gboolean restore_best);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_trainer_get_monitor (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_monitor (OrtrainTrainer *self, const char *monitor);

ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_trainer_get_logs (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_logs (OrtrainTrainer *self, const char *const *logs);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainShowProgress ortrain_trainer_get_show_progress (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_set_show_progress (OrtrainTrainer *self, OrtrainShowProgress show_progress);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_add_metric (OrtrainTrainer *self, OrtrainMetric *metric);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_trainer_get_metrics (OrtrainTrainer *self);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingSession *ortrain_trainer_get_session (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_trainer_get_dataset (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingHistory *ortrain_trainer_fit (OrtrainTrainer *self, GCancellable *cancellable, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_stop (OrtrainTrainer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_fit_async (OrtrainTrainer *self, GCancellable *cancellable, GAsyncReadyCallback callback,
                                gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingHistory *ortrain_trainer_fit_finish (OrtrainTrainer *self, GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_trainer_evaluate (OrtrainTrainer *self, OrtrainDataset *dataset, GCancellable *cancellable,
                                   double *loss, double *metric, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_trainer_evaluate_async (OrtrainTrainer *self, OrtrainDataset *dataset, GCancellable *cancellable,
                                     GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_trainer_evaluate_finish (OrtrainTrainer *self, GAsyncResult *result, double *loss, double *metric,
                                          GError **error);

G_END_DECLS
