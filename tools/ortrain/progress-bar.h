/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A line that is redrawn on a terminal; elsewhere, a plain line now and then. */
typedef struct
{
  gboolean terminal;
  gint64 last;   /* microseconds */
  gboolean open; /* there is an unfinished line */
} ProgressBar;

void progress_bar_init (ProgressBar *self);
void progress_bar_update (ProgressBar *self, double fraction, const char *text, gboolean important);
void progress_bar_clear (ProgressBar *self); /* before anything else is printed */
