/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "trainer/ortrain-epoch-record.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TRAINING_HISTORY (ortrain_training_history_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTrainingHistory, ortrain_training_history, ORTRAIN, TRAINING_HISTORY, GObject)

ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_training_history_get_epochs (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_history_get_n_steps (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_history_get_stopped_early (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_history_get_seconds (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_history_get_n_epochs (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_history_get_last_loss (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_history_get_last_metric (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_history_get_best_loss (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_history_get_best_value (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_training_history_get_best_epoch (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_history_get_skipped_updates (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_history_get_uncounted_steps (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
GBytes *ortrain_training_history_get_losses (OrtrainTrainingHistory *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_training_history_to_string (OrtrainTrainingHistory *self);

G_END_DECLS
