/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-session-lock-private.h"

#include "core/ortrain-errors.h"

#include <sys/wait.h>
#include <unistd.h>

#define N_THREADS 4
#define N_ROUNDS 2000

static void
assert_busy (OrtrainSessionLock *lock)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (ortrain_session_lock_claim (lock, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
}

static gpointer
adopt_and_leave (gpointer data)
{
  OrtrainSessionLock *lock = data;
  g_assert_false (ortrain_session_lock_is_held (lock));
  ortrain_session_lock_adopt (lock);
  g_assert_true (ortrain_session_lock_is_held (lock));
  ortrain_session_lock_enter_again (lock);
  ortrain_session_lock_leave (lock);
  g_assert_true (ortrain_session_lock_is_held (lock));
  ortrain_session_lock_leave (lock);
  g_assert_false (ortrain_session_lock_is_held (lock));
  return NULL;
}

/* Claimed here, carried out there; busy for everybody else until the last leave. */
static void
test_claim (void)
{
  g_autoptr (GError) error = NULL;
  OrtrainSessionLock lock;
  ortrain_session_lock_init (&lock);
  g_assert_true (ortrain_session_lock_claim (&lock, &error));
  g_assert_no_error (error);
  g_assert_false (ortrain_session_lock_is_held (&lock));
  assert_busy (&lock);
  g_thread_join (g_thread_new ("adopts", adopt_and_leave, &lock));
  g_assert_true (ortrain_session_lock_claim (&lock, &error));
  ortrain_session_lock_adopt (&lock);
  assert_busy (&lock); /* for the one that has it, too */
  ortrain_session_lock_enter_again (&lock);
  ortrain_session_lock_leave (&lock);
  assert_busy (&lock);
  ortrain_session_lock_leave (&lock);
  ortrain_session_lock_wait (&lock);
  g_assert_true (ortrain_session_lock_is_held (&lock));
  assert_busy (&lock);
  ortrain_session_lock_leave (&lock);
  ortrain_session_lock_clear (&lock);
}

typedef struct
{
  OrtrainSessionLock lock;
  guint inside, total; /* plain numbers: only the lock keeps them right */
} Shared;

static gpointer
count (gpointer data)
{
  Shared *shared = data;
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      ortrain_session_lock_wait (&shared->lock);
      g_assert_cmpuint (shared->inside++, ==, 0);
      shared->total++;
      shared->inside--;
      ortrain_session_lock_leave (&shared->lock);
    }
  return NULL;
}

static void
test_wait (void)
{
  Shared shared = { 0 };
  GThread *threads[N_THREADS];
  ortrain_session_lock_init (&shared.lock);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("waits", count, &shared);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (shared.total, ==, N_THREADS * N_ROUNDS);
  ortrain_session_lock_clear (&shared.lock);
}

/* A call of the parent's is still claimed in the child, for good; one that waits does not wait for it. */
static void
test_fork (void)
{
  OrtrainSessionLock lock;
  ortrain_session_lock_init (&lock);
  g_assert_true (ortrain_session_lock_claim (&lock, NULL));
  const pid_t child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (60);
      assert_busy (&lock);
      ortrain_session_lock_wait (&lock);
      g_assert_true (ortrain_session_lock_is_held (&lock));
      ortrain_session_lock_leave (&lock);
      g_assert_true (ortrain_session_lock_claim (&lock, NULL));
      _exit (0);
    }
  int status;
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status) && WEXITSTATUS (status) == 0);
  assert_busy (&lock);
  ortrain_session_lock_leave (&lock);
  g_assert_true (ortrain_session_lock_claim (&lock, NULL));
  ortrain_session_lock_leave (&lock);
  ortrain_session_lock_clear (&lock);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session-lock/claim", test_claim);
  g_test_add_func ("/session-lock/wait", test_wait);
  g_test_add_func ("/session-lock/fork", test_fork);
  return g_test_run ();
}
