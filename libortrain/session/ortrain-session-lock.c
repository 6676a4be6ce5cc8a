/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-session-lock-private.h"

#include "core/ortrain-errors.h"

void
ortrain_session_lock_init (OrtrainSessionLock *self)
{
  *self = (OrtrainSessionLock){ 0 };
  ortrain_fork_mutex_init (&self->mutex);
  g_cond_init (&self->released);
}

void
ortrain_session_lock_clear (OrtrainSessionLock *self)
{
  ortrain_fork_mutex_clear (&self->mutex);
  g_cond_clear (&self->released);
}

static void
begin (OrtrainSessionLock *self)
{
  if (ortrain_fork_mutex_lock (&self->mutex))
    g_cond_init (&self->released);
}

static void
end (OrtrainSessionLock *self)
{
  ortrain_fork_mutex_unlock (&self->mutex);
}

static void
take (OrtrainSessionLock *self, GThread *holder)
{
  self->claimed = TRUE;
  self->holder = holder;
  self->depth = 1;
  self->generation = ortrain_fork_generation ();
}

gboolean
ortrain_session_lock_claim (OrtrainSessionLock *self, GError **error)
{
  begin (self);
  const gboolean busy = self->claimed, lost = busy && self->generation != ortrain_fork_generation ();
  if (!busy)
    take (self, NULL);
  end (self);
  if (lost)
    g_set_error (
        error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY,
        "The session was in the middle of a call when the process was forked, and cannot be used in the child; "
        "create a new session there");
  else if (busy)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY, "The session is busy with another call");
  return !busy;
}

void
ortrain_session_lock_adopt (OrtrainSessionLock *self)
{
  begin (self);
  self->holder = g_thread_self ();
  end (self);
}

void
ortrain_session_lock_wait (OrtrainSessionLock *self)
{
  begin (self);
  while (self->claimed && self->generation == ortrain_fork_generation ())
    g_cond_wait (&self->released, &self->mutex.mutex);
  take (self, g_thread_self ());
  end (self);
}

gboolean
ortrain_session_lock_is_held (OrtrainSessionLock *self)
{
  begin (self);
  const gboolean held = self->claimed && self->holder == g_thread_self ();
  end (self);
  return held;
}

void
ortrain_session_lock_enter_again (OrtrainSessionLock *self)
{
  self->depth++;
}

void
ortrain_session_lock_leave (OrtrainSessionLock *self)
{
  begin (self);
  if (--self->depth == 0)
    {
      self->holder = NULL;
      self->claimed = FALSE;
      g_cond_signal (&self->released);
    }
  end (self);
}
