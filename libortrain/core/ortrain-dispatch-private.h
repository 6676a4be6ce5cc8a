/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

/* Methods that users implement (of datasets, schedules, optimizers, losses) run on the thread that asked for the work,
 * also when the work is done by a thread of ours: GJS cannot run anywhere else. A worker thread names the context that
 * it works for; calls run there, and the worker waits. The caller must iterate its context meanwhile, as for any
 * asynchronous call. Classes of this library, and threads of the user's own, are called directly. */

/* From now on this thread works for the owner of `context` (NULL: for itself). */
void ortrain_dispatch_set_context (GMainContext *context);
/* Whether this thread works for another one. */
gboolean ortrain_dispatch_has_context (void);
/* Whether methods of `object` are to be called through ortrain_dispatch_call(). */
gboolean ortrain_dispatch_is_needed (gpointer object);
void ortrain_dispatch_call (void (*func) (gpointer data), gpointer data);
