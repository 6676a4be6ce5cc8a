/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

#define MEMORY_VIEW_N_PHASES 6

/* The memory at each phase of a step. On a terminal, a table with a line for each phase, which is drawn again in its
 * place a few times a second, above the line of the progress bar. Elsewhere the memory line, for the steps that it is
 * printed for. */
typedef struct
{
  gboolean terminal;
  OrtrainMemoryReport *reports[MEMORY_VIEW_N_PHASES]; /* the last of each phase, or NULL */
  guint latest;                                       /* of them */
  guint n_lines;                                      /* on the screen, above the cursor */
  gint64 drawn;                                       /* when, in microseconds */
  guint timeout;                                      /* that will draw a report that came too soon, or 0 */
} MemoryView;

void memory_view_init (MemoryView *self);
void memory_view_update (MemoryView *self, OrtrainMemoryReport *report);
/* Takes the table from the screen, for other lines. */
void memory_view_hide (MemoryView *self);
/* Draws it after those. */
void memory_view_show (MemoryView *self);
void memory_view_clear (MemoryView *self); /* leaves it on the screen */
