/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "trainer/ortrain-epoch-record.h"
#include "trainer/ortrain-progress.h"

/* A training on an output of the program: a summary, one line that is drawn again and again, a line for each epoch.
 * Without a terminal, plain lines. Used on the context that owns the trainer; the command compiles it too, for lines of
 * its own in between. */
typedef struct
{
  int fd;
  gboolean active;
  gboolean terminal; /* lines can be drawn over */
  gboolean open;     /* there is an unfinished line */
  gboolean validates;
  guint n_epochs;
  gint64 drawn; /* when, in microseconds */
} OrtrainProgressDisplay;

/* Microseconds between two drawings. */
#define ORTRAIN_PROGRESS_INTERVAL (G_USEC_PER_SEC / 10)

/* Decides whether anything is shown. is_watched: the program has a handler of its own. */
void ortrain_progress_display_begin (OrtrainProgressDisplay *self, int fd, OrtrainShowProgress show,
                                     gboolean is_watched, guint n_epochs, gboolean validates);
/* summary: lines of a name and a text, which is wrapped */
void ortrain_progress_display_start (OrtrainProgressDisplay *self, const char *summary);
void ortrain_progress_display_update (OrtrainProgressDisplay *self, const OrtrainProgress *progress);
void ortrain_progress_display_epoch (OrtrainProgressDisplay *self, OrtrainEpochRecord *record);
/* Removes the unfinished line from the screen, for other lines. */
void ortrain_progress_display_hide (OrtrainProgressDisplay *self);
/* Leaves the unfinished line on the screen, and ends it. */
void ortrain_progress_display_end (OrtrainProgressDisplay *self);

guint ortrain_progress_display_get_columns (const OrtrainProgressDisplay *self);

/* One line of at most so many columns, without its end. */
char *ortrain_progress_display_format (const OrtrainProgress *progress, gboolean validates, guint columns);
char *ortrain_progress_display_format_epoch (OrtrainEpochRecord *record, guint n_epochs);
