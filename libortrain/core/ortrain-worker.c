/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-worker-private.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-fork-private.h"

typedef struct
{
  GTask *task; /* NULL ends the thread */
  GTaskThreadFunc func;
} Job;

struct _OrtrainWorker
{
  OrtrainForkMutex mutex;
  GAsyncQueue *jobs; /* of Job; NULL: there is no thread */
};

static gpointer
work (gpointer data)
{
  GAsyncQueue *jobs = data;
  for (;;)
    {
      g_autofree Job *job = g_async_queue_pop (jobs);
      GTask *task = job->task;
      if (task == NULL)
        break;
      ortrain_dispatch_set_context (g_task_get_context (task));
      job->func (task, g_task_get_source_object (task), g_task_get_task_data (task), g_task_get_cancellable (task));
      ortrain_dispatch_set_context (NULL);
      g_object_unref (task); /* may be the last reference of the object, which then frees the worker: nothing of it is
                                touched after this but the queue */
    }
  g_async_queue_unref (jobs);
  return NULL;
}

OrtrainWorker *
ortrain_worker_new (void)
{
  OrtrainWorker *self = g_new0 (OrtrainWorker, 1);
  ortrain_fork_mutex_init (&self->mutex);
  return self;
}

/* In the child of a fork the thread does not exist, and its queue may have been in use: both are left alone. */
static void
lock (OrtrainWorker *self)
{
  if (ortrain_fork_mutex_lock (&self->mutex))
    self->jobs = NULL;
}

static void
push (OrtrainWorker *self, GTask *task, GTaskThreadFunc func)
{
  Job *job = g_new (Job, 1);
  *job = (Job){ task, func };
  g_async_queue_push (self->jobs, job);
}

gboolean
ortrain_worker_run (OrtrainWorker *self, GTask *task, GTaskThreadFunc func, GError **error)
{
  lock (self);
  if (self->jobs == NULL)
    {
      g_autoptr (GAsyncQueue) jobs = g_async_queue_new ();
      GThread *thread = g_thread_try_new ("ortrain-task", work, g_async_queue_ref (jobs), error);
      if (thread != NULL)
        {
          g_thread_unref (thread);
          self->jobs = g_steal_pointer (&jobs);
        }
      else
        g_async_queue_unref (jobs); /* the thread's */
    }
  const gboolean started = self->jobs != NULL;
  if (started)
    push (self, g_object_ref (task), func);
  ortrain_fork_mutex_unlock (&self->mutex);
  return started;
}

void
ortrain_worker_stop (OrtrainWorker *self)
{
  lock (self);
  if (self->jobs != NULL)
    push (self, NULL, NULL);
  g_clear_pointer (&self->jobs, g_async_queue_unref);
  ortrain_fork_mutex_unlock (&self->mutex);
}

void
ortrain_worker_free (OrtrainWorker *self)
{
  ortrain_worker_stop (self);
  ortrain_fork_mutex_clear (&self->mutex);
  g_free (self);
}

void
ortrain_task_run_in_thread (GTask *task, GTaskThreadFunc func)
{
  GError *error = NULL;
  g_autoptr (OrtrainWorker) worker = ortrain_worker_new ();
  if (!ortrain_worker_run (worker, task, func, &error))
    g_task_return_error (task, error);
}
