/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <math.h>
#include <ortrain.h>

/* The schedule of --schedule, --warm-up and --plateau-… of `ortrain train`. */

/* "100" updates, or "2epochs", in which case n_updates is 0 for now. */
gboolean train_schedule_parse_warm_up (const char *text, gint64 *n_updates, double *n_epochs);

/* --plateau-factor and --plateau-patience: of --schedule plateau alone */
typedef struct
{
  double factor;
  gint patience;
} TrainPlateau;

#define TRAIN_PLATEAU_INIT                                                                                             \
  {                                                                                                                    \
    NAN, -1                                                                                                            \
  }
#define TRAIN_PLATEAU_ENTRIES(plateau)                                                                                 \
  { "plateau-factor",                                                                                                  \
    0,                                                                                                                 \
    0,                                                                                                                 \
    G_OPTION_ARG_DOUBLE,                                                                                               \
    &(plateau).factor,                                                                                                 \
    "What --schedule plateau multiplies the learning rate by when --monitor no longer improves (0.1)",                 \
    "X" },                                                                                                             \
  {                                                                                                                    \
    "plateau-patience", 0, 0, G_OPTION_ARG_INT, &(plateau).patience,                                                   \
        "Epochs without an improvement that it waits for (10)", "N"                                                    \
  }

/* warm_up: steps; -1: the schedule's own default */
OrtrainLrSchedule *train_schedule_make (const char *name, guint64 n_steps, gint64 warm_up, const TrainPlateau *plateau,
                                        GError **error);

/* Items of an update, which are kept in checkpoints. A training that went on with another number of them would have
 * made other updates than a schedule has that falls over a number of updates; it could end at a learning rate of 0 long
 * before its last epoch. */
void train_schedule_keep_items (OrtrainTrainingSession *session, guint64 items);
gboolean train_schedule_check_items (const char *name, const char *checkpoint, guint64 items, GError **error);
