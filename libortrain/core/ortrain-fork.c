/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-fork-private.h"

#include <pthread.h>

static gint generation; /* atomic */

static void
forked (void)
{
  g_atomic_int_inc (&generation);
}

guint
ortrain_fork_generation (void)
{
  static gsize registered = 0;
  if (g_once_init_enter (&registered))
    {
      pthread_atfork (NULL, NULL, forked);
      g_once_init_leave (&registered, 1);
    }
  return (guint) g_atomic_int_get (&generation);
}

void
ortrain_fork_mutex_init (OrtrainForkMutex *self)
{
  g_mutex_init (&self->mutex);
  self->generation = (gint) ortrain_fork_generation ();
}

void
ortrain_fork_mutex_clear (OrtrainForkMutex *self)
{
  g_mutex_clear (&self->mutex);
}

gboolean
ortrain_fork_mutex_lock (OrtrainForkMutex *self)
{
  const gint now = (gint) ortrain_fork_generation (), made = g_atomic_int_get (&self->generation);
  const gboolean first = G_UNLIKELY (made != now) && g_atomic_int_compare_and_exchange (&self->generation, made, now);
  if (first)
    g_mutex_init (&self->mutex);
  g_mutex_lock (&self->mutex);
  return first;
}

void
ortrain_fork_mutex_unlock (OrtrainForkMutex *self)
{
  g_mutex_unlock (&self->mutex);
}
