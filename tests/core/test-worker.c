/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-worker-private.h"

#include <sys/wait.h>
#include <unistd.h>

#define N_TASKS 50

typedef struct
{
  GThread *threads[N_TASKS];
  guint n_run, n_done;
} Order;

static void
note_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  Order *order = data;
  order->threads[order->n_run++] = g_thread_self ();
  g_task_return_int (task, order->n_run);
}

static void
check_order (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Order *order = user_data;
  g_assert_cmpint (g_task_propagate_int (G_TASK (result), NULL), ==, ++order->n_done);
}

static void
run_tasks (OrtrainWorker *worker, Order *order, guint n)
{
  g_autoptr (GError) error = NULL;
  const guint n_before = order->n_done;
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GTask) task = g_task_new (NULL, NULL, check_order, order);
      g_task_set_task_data (task, order, NULL);
      g_assert_true (ortrain_worker_run (worker, task, note_thread, &error));
      g_assert_no_error (error);
    }
  while (order->n_done < n_before + n)
    g_main_context_iteration (g_main_context_get_thread_default (), TRUE);
}

/* One thread for all tasks, which run in their order, also when many wait; after a stop, another one. */
static void
test_order (void)
{
  g_autoptr (OrtrainWorker) worker = ortrain_worker_new ();
  Order order = { 0 };
  run_tasks (worker, &order, N_TASKS - 1);
  for (guint i = 0; i < N_TASKS - 1; i++)
    {
      g_assert_true (order.threads[i] != g_thread_self ());
      g_assert_true (order.threads[i] == order.threads[0]);
    }
  ortrain_worker_stop (worker);
  run_tasks (worker, &order, 1);
}

/* The child has no thread, and gets one. */
static void
test_fork (void)
{
  g_autoptr (OrtrainWorker) worker = ortrain_worker_new ();
  Order order = { 0 };
  run_tasks (worker, &order, 1);
  const pid_t child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (60);
      g_main_context_push_thread_default (g_main_context_new ());
      run_tasks (worker, &order, 3);
      _exit (0);
    }
  int status;
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status) && WEXITSTATUS (status) == 0);
  run_tasks (worker, &order, 3);
}

/* An object that has the worker, and is freed with the last task on the worker's own thread. */
typedef struct
{
  OrtrainWorker *worker;
  gint *gone;
} Owner;

static void
free_owner (gpointer data)
{
  Owner *owner = data;
  ortrain_worker_free (owner->worker);
  g_atomic_int_set (owner->gone, 1);
  g_free (owner);
}

static void
drop_owner (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  g_task_return_boolean (task, TRUE);
}

static void
test_last_reference (void)
{
  for (guint i = 0; i < 20; i++)
    {
      gint gone = 0;
      Owner *owner = g_new (Owner, 1);
      *owner = (Owner){ ortrain_worker_new (), &gone };
      GTask *task = g_task_new (NULL, NULL, NULL, NULL);
      g_task_set_task_data (task, owner, free_owner);
      g_assert_true (ortrain_worker_run (owner->worker, task, drop_owner, NULL));
      g_object_unref (task);
      while (!g_atomic_int_get (&gone))
        g_main_context_iteration (NULL, FALSE);
    }
}

/* ---- methods of users are called in the context of the caller ---- */

static void
note_self (gpointer data)
{
  *(GThread **) data = g_thread_self ();
}

static void
dispatch (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  GThread *called_on = NULL;
  g_assert_true (ortrain_dispatch_is_needed (source));
  ortrain_dispatch_call (note_self, &called_on);
  g_task_return_pointer (task, called_on, NULL);
}

static void
check_thread (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_assert_true (g_task_propagate_pointer (G_TASK (result), NULL) == g_thread_self ());
  *(gboolean *) user_data = TRUE;
}

static void
test_dispatch (void)
{
  g_autoptr (GObject) of_the_user = g_object_new (G_TYPE_OBJECT, NULL);
  g_autoptr (OrtrainWorker) worker = ortrain_worker_new ();
  for (guint i = 0; i < 2; i++)
    {
      gboolean done = FALSE;
      g_autoptr (GTask) task = g_task_new (of_the_user, NULL, check_thread, &done);
      if (i == 0)
        g_assert_true (ortrain_worker_run (worker, task, dispatch, NULL));
      else
        ortrain_task_run_in_thread (task, dispatch);
      while (!done)
        g_main_context_iteration (NULL, TRUE);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker/order", test_order);
#ifndef __SANITIZE_THREAD__ /* which ends a child that starts threads where its parent had some */
  g_test_add_func ("/worker/fork", test_fork);
#else
  (void) test_fork;
#endif
  g_test_add_func ("/worker/last-reference", test_last_reference);
  g_test_add_func ("/worker/dispatch", test_dispatch);
  return g_test_run ();
}
