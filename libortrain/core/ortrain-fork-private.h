/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A process that forks keeps its memory and loses its threads, but for the one that forked: an owner of threads stores
 * the generation in which it started them, and starts new ones when the generation has changed. */
guint ortrain_fork_generation (void);

/* A mutex that a thread which does not exist in the child may have held. */
typedef struct
{
  GMutex mutex;
  gint generation; /* atomic: in which the mutex was made */
} OrtrainForkMutex;

void ortrain_fork_mutex_init (OrtrainForkMutex *self);
void ortrain_fork_mutex_clear (OrtrainForkMutex *self);
/* TRUE: the first time in this process; the data that the mutex guards may be half changed. */
gboolean ortrain_fork_mutex_lock (OrtrainForkMutex *self);
void ortrain_fork_mutex_unlock (OrtrainForkMutex *self);
