/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-thread-pool-private.h"

#include "core/ortrain-fork-private.h"
#include "core/ortrain-mapped-file-private.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How it works. The caller writes the job, opens it (`state` gets the OPEN bit), bumps `generation` and wakes whoever
 * sleeps on it. A worker joins an open job by counting itself into `state`, takes chunks until there are none, and
 * counts itself out. The caller takes chunks too; when none is left it closes the job, and waits only for those
 * workers that had joined: one that wakes up late finds the job closed and goes back to wait, so that a busy machine
 * never makes the caller wait for a worker that does nothing. The job's fields do not change while anyone has joined.
 */

#define STATE_OPEN 0x80000000u
#define SPIN_NS 200000

struct _OrtrainThreadPool
{
  guint n_threads; /* workers and the caller */
  guint n_workers;
  GThread **workers;
  _Atomic guint32 fork_generation; /* in which the workers were started */

  /* the job */
  OrtrainParallelFunc func;
  gpointer data;
  gint64 n;
  gint64 grain;
  gint64 n_chunks;

  /* Each on a cache line of its own: all threads write the first, waiting threads read the others. */
  _Alignas(64) _Atomic gint64 next_chunk;
  _Alignas(64) _Atomic guint32 state;      /* OPEN | number of workers inside; the caller sleeps on it */
  _Alignas(64) _Atomic guint32 generation; /* workers sleep on it */
  _Atomic guint32 n_sleepers;
  _Atomic guint32 caller_sleeps;
  _Atomic guint32 n_started;
  _Atomic gboolean stop;
  _Alignas(64) _Atomic gboolean busy; /* a call is running */
};

typedef struct
{
  OrtrainThreadPool *pool;
  guint index;
} WorkerArgs;

static void (*worker_init) (void);

static _Thread_local gboolean inside_job;
static _Thread_local guint current_worker;

static void
futex_wait (_Atomic guint32 *word, guint32 expected)
{
  syscall (SYS_futex, (guint32 *) word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void
futex_wake (_Atomic guint32 *word, int n)
{
  syscall (SYS_futex, (guint32 *) word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void
cpu_relax (void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause ();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline gint64
now_ns (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (gint64) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
run_chunk (OrtrainParallelFunc func, gpointer data, gint64 n, gint64 grain, gint64 chunk, guint worker)
{
  gint64 begin = chunk * grain;
  func (data, begin, n - begin < grain ? n : begin + grain, worker);
}

static void
run_inline (OrtrainParallelFunc func, gpointer data, gint64 n, gint64 grain, gint64 n_chunks, guint worker)
{
  for (gint64 chunk = 0; chunk < n_chunks; chunk++)
    run_chunk (func, data, n, grain, chunk, worker);
}

static void
take_chunks (OrtrainThreadPool *pool, guint worker)
{
  OrtrainParallelFunc func = pool->func;
  gpointer data = pool->data;
  gint64 n = pool->n, grain = pool->grain, n_chunks = pool->n_chunks;
  inside_job = TRUE;
  current_worker = worker;
  for (;;)
    {
      gint64 chunk = atomic_fetch_add_explicit (&pool->next_chunk, 1, memory_order_relaxed);
      if (chunk >= n_chunks)
        break;
      run_chunk (func, data, n, grain, chunk, worker);
    }
  inside_job = FALSE;
  current_worker = 0;
}

static gboolean
try_join (OrtrainThreadPool *pool)
{
  guint32 state = atomic_load_explicit (&pool->state, memory_order_relaxed);
  while (state & STATE_OPEN)
    if (atomic_compare_exchange_weak_explicit (&pool->state, &state, state + 1, memory_order_acquire,
                                               memory_order_relaxed))
      return TRUE;
  return FALSE;
}

static void
leave (OrtrainThreadPool *pool)
{
  guint32 before = atomic_fetch_sub (&pool->state, 1);
  if (before == 1 && atomic_load (&pool->caller_sleeps))
    futex_wake (&pool->state, 1);
}

/* Waits until generation is no longer `seen`, and returns the new value. */
static guint32
wait_for_generation (OrtrainThreadPool *pool, guint32 seen)
{
  gint64 deadline = 0;
  for (guint i = 1;; i++)
    {
      guint32 generation = atomic_load_explicit (&pool->generation, memory_order_acquire);
      if (generation != seen)
        return generation;
      cpu_relax ();
      if (i % 32 == 0)
        {
          gint64 now = now_ns ();
          if (deadline == 0)
            deadline = now + SPIN_NS;
          else if (now > deadline)
            break;
        }
    }
  atomic_fetch_add (&pool->n_sleepers, 1);
  guint32 generation;
  while ((generation = atomic_load (&pool->generation)) == seen)
    futex_wait (&pool->generation, seen);
  atomic_fetch_sub (&pool->n_sleepers, 1);
  return generation;
}

static gpointer
worker_main (gpointer user_data)
{
  g_autofree WorkerArgs *args = user_data;
  OrtrainThreadPool *pool = args->pool;

  /* Signals belong to the threads of the application, but for those that a thread causes itself: a page of a mapped
   * file that was cut off must reach the handler of ortrain-mapped-file.c. */
  static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP };
  sigset_t all;
  sigfillset (&all);
  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    sigdelset (&all, own[i]);
  pthread_sigmask (SIG_BLOCK, &all, NULL);
  ortrain_mapped_file_guard_thread ();
  if (worker_init != NULL)
    worker_init ();
  atomic_fetch_add (&pool->n_started, 1);
  futex_wake (&pool->n_started, 1);

  guint32 seen = 0;
  for (;;)
    {
      seen = wait_for_generation (pool, seen);
      if (atomic_load (&pool->stop))
        return NULL;
      if (try_join (pool))
        {
          take_chunks (pool, args->index);
          leave (pool);
        }
    }
}

static guint
count_cores (void)
{
  cpu_set_t set;
  if (sched_getaffinity (0, sizeof set, &set) == 0)
    return MAX (1, (guint) CPU_COUNT (&set));
  return MAX (1, g_get_num_processors ());
}

void
ortrain_thread_pool_set_worker_init (void (*func) (void))
{
  worker_init = func;
}

static void
start_workers (OrtrainThreadPool *pool, guint n_threads)
{
  for (guint i = 1; i < n_threads; i++)
    {
      WorkerArgs *args = g_new (WorkerArgs, 1);
      *args = (WorkerArgs){ pool, i };
      GThread *thread = g_thread_try_new ("ortrain-worker", worker_main, args, NULL);
      if (thread == NULL) /* no more threads can be started: fewer will do */
        {
          g_free (args);
          break;
        }
      pool->workers[pool->n_workers++] = thread;
    }
  /* Resources of starting threads are taken now, and not in the middle of a later step. */
  guint32 n_started;
  while ((n_started = atomic_load (&pool->n_started)) < pool->n_workers)
    futex_wait (&pool->n_started, n_started);
}

/* In the child of a fork there are no workers: new ones, with nothing of the old ones' state. FALSE while another
 * thread does it. The old threads' handles belong to nobody now. */
static gboolean
restart_workers (OrtrainThreadPool *pool, guint32 generation)
{
  guint32 old = atomic_load (&pool->fork_generation);
  if (old == G_MAXUINT32 || !atomic_compare_exchange_strong (&pool->fork_generation, &old, G_MAXUINT32))
    return FALSE;
  atomic_store (&pool->state, 0);
  atomic_store (&pool->n_sleepers, 0);
  atomic_store (&pool->caller_sleeps, FALSE);
  atomic_store (&pool->n_started, 0);
  atomic_store (&pool->busy, FALSE);
  pool->n_workers = 0;
  start_workers (pool, pool->n_threads);
  atomic_store (&pool->fork_generation, generation);
  return TRUE;
}

OrtrainThreadPool *
ortrain_thread_pool_new (guint n_threads)
{
  if (n_threads == 0)
    n_threads = count_cores ();
  n_threads = MIN (n_threads, 1024);

  OrtrainThreadPool *pool = g_aligned_alloc0 (1, sizeof *pool, 64);
  pool->workers = g_new0 (GThread *, n_threads);
  atomic_store (&pool->fork_generation, ortrain_fork_generation ());
  start_workers (pool, n_threads);
  pool->n_threads = pool->n_workers + 1;
  return pool;
}

void
ortrain_thread_pool_free (OrtrainThreadPool *pool)
{
  atomic_store (&pool->stop, TRUE);
  atomic_fetch_add (&pool->generation, 1);
  futex_wake (&pool->generation, G_MAXINT);
  /* threads of the process that this one was forked from cannot be waited for */
  for (guint i = 0; i < pool->n_workers && atomic_load (&pool->fork_generation) == ortrain_fork_generation (); i++)
    g_thread_join (pool->workers[i]);
  g_free (pool->workers);
  g_aligned_free (pool);
}

guint
ortrain_thread_pool_get_n_threads (const OrtrainThreadPool *pool)
{
  return pool != NULL ? pool->n_threads : 1;
}

void
ortrain_parallel_for (OrtrainThreadPool *pool, gint64 n, gint64 grain, OrtrainParallelFunc func, gpointer data)
{
  if (n <= 0)
    return;
  if (grain <= 0 || grain > n)
    grain = n;
  gint64 n_chunks = (n - 1) / grain + 1;

  if (pool == NULL || pool->n_workers == 0 || n_chunks == 1 || inside_job)
    {
      guint worker = pool != NULL && current_worker < pool->n_threads ? current_worker : 0;
      run_inline (func, data, n, grain, n_chunks, worker);
      return;
    }
  guint32 generation = ortrain_fork_generation ();
  if (G_UNLIKELY (atomic_load_explicit (&pool->fork_generation, memory_order_acquire) != generation) &&
      !restart_workers (pool, generation))
    {
      run_inline (func, data, n, grain, n_chunks, 0);
      return;
    }
  /* Another thread's call has the workers: this one gets along without. */
  if (atomic_exchange_explicit (&pool->busy, TRUE, memory_order_acquire))
    {
      run_inline (func, data, n, grain, n_chunks, 0);
      return;
    }

  pool->func = func;
  pool->data = data;
  pool->n = n;
  pool->grain = grain;
  pool->n_chunks = n_chunks;
  atomic_store_explicit (&pool->next_chunk, 0, memory_order_relaxed);
  atomic_store_explicit (&pool->state, STATE_OPEN, memory_order_release);
  atomic_fetch_add (&pool->generation, 1);
  if (atomic_load (&pool->n_sleepers) > 0)
    futex_wake (&pool->generation, (int) MIN (n_chunks - 1, (gint64) pool->n_workers));

  take_chunks (pool, 0);

  guint32 inside = atomic_fetch_and (&pool->state, ~STATE_OPEN) & ~STATE_OPEN;
  gint64 deadline = 0;
  for (guint i = 1; inside != 0; i++)
    {
      cpu_relax ();
      if (i % 32 == 0)
        {
          gint64 now = now_ns ();
          if (deadline == 0)
            deadline = now + SPIN_NS;
          else if (now > deadline)
            {
              atomic_store (&pool->caller_sleeps, TRUE);
              while ((inside = atomic_load (&pool->state)) != 0)
                futex_wait (&pool->state, inside);
              atomic_store (&pool->caller_sleeps, FALSE);
              break;
            }
        }
      inside = atomic_load_explicit (&pool->state, memory_order_acquire);
    }
  atomic_store_explicit (&pool->busy, FALSE, memory_order_release);
}
