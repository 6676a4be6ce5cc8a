/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-data-loader.h"
#include "session/ortrain-signal-queue-private.h"
#include "trainer/ortrain-monitor-private.h"
#include "trainer/ortrain-progress-display-private.h"
#include "trainer/ortrain-trainer.h"

struct _OrtrainTrainer
{
  GObject parent_instance;
  guint epochs;
  guint batch_size;
  gboolean shuffle;
  gboolean drop_last;
  guint64 seed;
  guint prefetch;
  OrtrainDataset *validation;
  OrtrainTensorDict *shared_inputs; /* or NULL */
  char *checkpoint_dir;
  guint checkpoint_steps;
  guint checkpoint_epochs;
  gboolean resume;
  guint patience;
  gboolean restore_best;
  char *monitor; /* or NULL, after which it is the loss */
  char **logs;
  OrtrainShowProgress show_progress;
  OrtrainProgressDisplay display;
  GListModel *metrics; /* of OrtrainMetric */
  gint stop_asked;     /* atomic */
  OrtrainTrainingSession *session;
  OrtrainDataset *dataset;
  OrtrainSignalQueue *signal_queue;
};

/* Slots of the signal queue. */
#define ORTRAIN_TRAINER_EVENT 0    /* each one arrives */
#define ORTRAIN_TRAINER_PROGRESS 1 /* the latest counts */
#define ORTRAIN_TRAINER_START 2    /* a summary of the training, as a text */
#define ORTRAIN_TRAINER_END 3

/* Emits a signal on the owner's context: EVENT with an epoch record or the file of a checkpoint, PROGRESS with a
 * progress, START with a text, END with NULL. message: taken */
void ortrain_trainer_emit (OrtrainTrainer *self, guint slot, gpointer message, GDestroyNotify free_message);
gboolean ortrain_trainer_wants_progress (OrtrainTrainer *self);
gboolean ortrain_trainer_wants_start (OrtrainTrainer *self);
/* Decides whether the training that is about to run is shown. */
void ortrain_trainer_begin_display (OrtrainTrainer *self);
/* The loader's next batch, with the inputs that all items share. NULL: see ortrain_data_loader_next. */
OrtrainTensorDict *ortrain_trainer_read_batch (OrtrainTrainer *self, OrtrainDataLoader *loader, GError **error);
