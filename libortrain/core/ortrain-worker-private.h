/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* How work that was asked for asynchronously gets a thread; kernels have a pool of their own (ortrain-thread-pool). The
 * pool of g_task_run_in_thread() is not used: it is shared with file access, grows slowly, and does not come back in
 * the child of a fork.
 *
 * The functions return the task. Methods that users implement are dispatched to its context meanwhile
 * (ortrain-dispatch).
 */

/* A thread of an object's own, which runs tasks in their order. It is started with the first. */
typedef struct _OrtrainWorker OrtrainWorker;

OrtrainWorker *ortrain_worker_new (void);
/* FALSE if no thread can be started. May be called from any thread. */
gboolean ortrain_worker_run (OrtrainWorker *self, GTask *task, GTaskThreadFunc func, GError **error);
/* The thread ends when everything is done, and is not waited for: it may be this one. */
void ortrain_worker_stop (OrtrainWorker *self);
void ortrain_worker_free (OrtrainWorker *self); /* stops it */

/* For tasks of no object that could have a worker: a thread each. If none can be started, the task returns the error.
 */
void ortrain_task_run_in_thread (GTask *task, GTaskThreadFunc func);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainWorker, ortrain_worker_free)
