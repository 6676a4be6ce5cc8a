/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* One training of the command: the main loop, the lines that show its progress, and the signals that end it early. */
typedef struct
{
  int fd; /* that the progress is written to */
  guint n_epochs;
  gboolean validates;    /* a loss on other data follows each epoch */
  gboolean shows_memory; /* at each phase */

  int signal;    /* set by train_run (): the signal that ended the training, or 0 */
  guint columns; /* likewise: the width of the terminal */
} TrainRun;

/* Trains to the end. A signal ends it with the state saved and G_IO_ERROR_CANCELLED; a second signal ends the program.
 */
OrtrainTrainingHistory *train_run (TrainRun *self, OrtrainTrainer *trainer, OrtrainTrainingSession *session,
                                   GError **error);
