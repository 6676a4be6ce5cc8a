/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The pool that all kernels of the CPU run on. Work is cut into chunks of a size that the caller chooses, and threads
 * take chunks as they come; a kernel that combines per-chunk results in the order of the chunks therefore gives the
 * same bits at any number of threads, if its chunks depend on shapes alone. The calling thread takes part. Workers spin
 * for some 200 us, then sleep. Calls do not nest: a call from inside a chunk runs its range on the calling thread. */
typedef struct _OrtrainThreadPool OrtrainThreadPool;

/* begin, end: the chunk's range of indices; worker: 0 ≤ worker < n_threads, for per-thread scratch memory */
typedef void (*OrtrainParallelFunc) (gpointer data, gint64 begin, gint64 end, guint worker);

/* 0: one per core that the process may use. All of them have started when it returns. */
OrtrainThreadPool *ortrain_thread_pool_new (guint n_threads);
void ortrain_thread_pool_free (OrtrainThreadPool *pool);
guint ortrain_thread_pool_get_n_threads (const OrtrainThreadPool *pool); /* NULL: 1 */

/* A function that each worker calls once when it starts; for pools that are created later. */
void ortrain_thread_pool_set_worker_init (void (*func) (void));

/* Calls func for [0, n) cut into chunks of `grain` (the last one shorter). pool NULL: on the calling thread, in the
 * same chunks. Never allocates. */
void ortrain_parallel_for (OrtrainThreadPool *pool, gint64 n, gint64 grain, OrtrainParallelFunc func, gpointer data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainThreadPool, ortrain_thread_pool_free)
