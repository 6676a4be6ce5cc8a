/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-data-loader.h"
#include "session/ortrain-training-session-calls-private.h"
#include "trainer/ortrain-trainer-private.h"
#include "trainer/ortrain-training-log-private.h"

/* A step that was begun and is not counted yet. */
typedef struct
{
  OrtrainTensorDict *batch;
  GVariant *before; /* the loader's state in front of it */
  guint64 number;   /* number of the step in its session */
} Ahead;

#define MAX_AHEAD ORTRAIN_N_STEP_RESULTS

typedef struct
{
  OrtrainDataLoader *loader;
  OrtrainTrainingHistory *history;
  GTimer *timer;
  guint epoch;     /* from 0 */
  guint64 step;    /* in the epoch */
  guint n_waiting; /* steps since the last update */
  double sum;      /* of the losses of the epoch, each times its weight */
  double weight;   /* of those */
  guint64 n_summed;
  guint64 n_uncounted;       /* of the epoch's steps: had nothing that counts */
  guint64 n_skipped;         /* of the epoch's updates: were left out */
  guint64 n_skipped_by_then; /* of the session's, those that were already counted */
  guint64 n_updates_before;  /* of the session's, when the training began here */
  guint64 n_left_out;        /* of the whole training's */
  guint64 peak_bytes;        /* of the plans of the epoch's steps */
  double last_loss, last_metric;
  double best;                   /* the monitored value in the best epoch; NaN: no best epoch yet */
  OrtrainTensorDict *best_state; /* parameters and buffers of that epoch; NULL: not kept */
  gboolean best_is_saved;
  gboolean stopped;       /* in the middle of an epoch, by request */
  guint waited;           /* epochs that were no better */
  gboolean trained;       /* the steps of the epoch are done, its validation is not */
  double learning_rate;   /* after the last step */
  Ahead ahead[MAX_AHEAD]; /* the oldest comes first */
  guint n_ahead;
  GPtrArray *logs;      /* of OrtrainTrainingLog * */
  gboolean is_shown;    /* the display has its summary */
  gint64 shown;         /* when it last got a progress, in microseconds */
  gboolean is_measured; /* the speed is, from a moment and a number of items on */
  double measured_since, measured_items;
  double paused, last_pause; /* seconds without training steps, and those of the last epoch */
} OrtrainFit;

/* Saves where the training is, for ortrain_fit_resume(). */
gboolean ortrain_fit_save_checkpoint (OrtrainTrainer *self, OrtrainFit *fit, GError **error);
/* Goes on from the last checkpoint, where that is wanted and there is one. */
gboolean ortrain_fit_resume (OrtrainTrainer *self, OrtrainFit *fit, GError **error);
/* Called after an epoch that is the best so far: keeps its state, and saves it, as the properties say. */
gboolean ortrain_fit_keep_best (OrtrainTrainer *self, OrtrainFit *fit, GError **error);
/* Called when training has ended: gives the session the best state back, unless it is the last one. */
gboolean ortrain_fit_restore_best (OrtrainTrainer *self, OrtrainFit *fit, GError **error);
/* Shows a summary before training, once; batch: of the first step, NULL if the epoch ends before one */
void ortrain_fit_show_start (OrtrainTrainer *self, OrtrainFit *fit, OrtrainTensorDict *batch);
/* 0 and -1 after the first step. */
void ortrain_fit_measure (OrtrainTrainer *self, OrtrainFit *fit, double *items_per_second, double *seconds_left);
/* Before training is resumed: whether the files of the trainer's property can be continued. */
gboolean ortrain_fit_check_logs (OrtrainTrainer *self, GError **error);
/* Opens the files of the trainer's property; closing them is freeing fit->logs. */
gboolean ortrain_fit_open_logs (OrtrainTrainer *self, OrtrainFit *fit, GError **error);
/* Writes the last step, or the epoch of a record, which has just ended. */
gboolean ortrain_fit_log_step (OrtrainFit *fit, GError **error);
gboolean ortrain_fit_log_epoch (OrtrainFit *fit, OrtrainEpochRecord *record, GError **error);
