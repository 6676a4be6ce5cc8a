/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* A process that forks keeps its memory and loses its threads, but for the one that forked: what has threads keeps the
 * generation in which they were started, and starts others when it is another one. (GTask's own threads do not come
 * back in the child, so tasks of the library get a thread each.) */
guint ortrain_fork_generation (void);

/* As g_task_run_in_thread(), in a thread created for this task. */
void ortrain_task_run_in_thread (GTask *task, GTaskThreadFunc func);
