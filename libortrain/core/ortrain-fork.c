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

typedef struct
{
  GTask *task;
  GTaskThreadFunc func;
} Job;

static gpointer
run_job (gpointer data)
{
  Job *job = data;
  job->func (job->task, g_task_get_source_object (job->task), g_task_get_task_data (job->task),
             g_task_get_cancellable (job->task));
  g_object_unref (job->task);
  g_free (job);
  return NULL;
}

void
ortrain_task_run_in_thread (GTask *task, GTaskThreadFunc func)
{
  GError *error = NULL;
  Job *job = g_new (Job, 1);
  *job = (Job){ g_object_ref (task), func };
  GThread *thread = g_thread_try_new ("ortrain-task", run_job, job, &error);
  if (thread != NULL)
    {
      g_thread_unref (thread);
      return;
    }
  g_object_unref (job->task);
  g_free (job);
  g_task_return_error (task, error);
}
