/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-fork-private.h"

/* Who uses a session: one call at a time. A call that finds another one either fails (training: two calls at once are a
 * mistake) or waits (inference). A claim may be taken by one thread and carried out by another, and its thread may take
 * it again. */
typedef struct
{
  OrtrainForkMutex mutex; /* guards the following; held for moments */
  GCond released;
  gboolean claimed;
  GThread *holder; /* NULL: nobody has adopted the claim yet */
  guint depth;
  guint generation; /* of processes, in which it was claimed */
} OrtrainSessionLock;

void ortrain_session_lock_init (OrtrainSessionLock *self);
void ortrain_session_lock_clear (OrtrainSessionLock *self);

/* FALSE with SESSION_ERROR_BUSY while it is claimed. For work that goes on in another thread, which adopts it. */
gboolean ortrain_session_lock_claim (OrtrainSessionLock *self, GError **error);
void ortrain_session_lock_adopt (OrtrainSessionLock *self);
/* Claims and adopts it, when it is free. Calls that the parent process had begun before a fork have ended here. */
void ortrain_session_lock_wait (OrtrainSessionLock *self);
/* Whether this thread has it; and takes it once more. */
gboolean ortrain_session_lock_is_held (OrtrainSessionLock *self);
void ortrain_session_lock_enter_again (OrtrainSessionLock *self);
void ortrain_session_lock_leave (OrtrainSessionLock *self); /* once for each claim, wait and enter_again */
