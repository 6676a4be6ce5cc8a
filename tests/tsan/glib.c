/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dlfcn.h>
#include <gio/gio.h>
#include <pthread.h>
#include <sanitizer/tsan_interface.h>

/* ThreadSanitizer sees only code that it has compiled, which GLib is not: it would take every hand-over through a lock,
 * a queue, a task or a main context for a race. These functions stand before GLib's, in test programs that are built
 * with -fsanitize=thread alone; they call GLib's, and tell the order of events. */

#define REAL(name) ((__typeof__ (&(name))) find (#name))
#define ACQUIRE(address) __tsan_acquire ((void *) (address))
#define RELEASE(address) __tsan_release ((void *) (address))

static void *
find (const char *name)
{
  void *function = dlsym (RTLD_NEXT, name);
  if (function == NULL)
    __builtin_trap ();
  return function;
}

#define DEFINE(type, name, parameters)                                                                                 \
  type name parameters;                                                                                                \
  __attribute__ ((visibility ("default"))) type name parameters

/* Ignores where GLib frees, under a lock that is not seen, memory that another thread has allocated. */
void AnnotateIgnoreReadsBegin (const char *file, int line);
void AnnotateIgnoreReadsEnd (const char *file, int line);
void AnnotateIgnoreWritesBegin (const char *file, int line);
void AnnotateIgnoreWritesEnd (const char *file, int line);

static __thread guint in_glib;

static void
enter_glib (void)
{
  if (in_glib++ > 0)
    return;
  AnnotateIgnoreReadsBegin (__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin (__FILE__, __LINE__);
}

static void
leave_glib (void)
{
  if (--in_glib > 0)
    return;
  AnnotateIgnoreWritesEnd (__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd (__FILE__, __LINE__);
}

/* A callback of the program, out of GLib: how deep it was there. */
static guint
leave_glib_for_callback (void)
{
  guint depth = in_glib;
  if (depth > 0)
    {
      in_glib = 1;
      leave_glib ();
    }
  return depth;
}

static void
return_to_glib (guint depth)
{
  if (depth > 0)
    enter_glib ();
  in_glib = depth;
}

/* ---- Locks ---- */

#define LOCK(kind, type, lock_name, unlock_name)                                                                       \
  DEFINE (void, lock_name, (type * lock))                                                                              \
  {                                                                                                                    \
    static __typeof__ (&lock_name) real;                                                                               \
    if (__atomic_load_n (&real, __ATOMIC_RELAXED) == NULL)                                                             \
      __atomic_store_n (&real, REAL (lock_name), __ATOMIC_RELAXED);                                                    \
    real (lock);                                                                                                       \
    ACQUIRE (lock);                                                                                                    \
  }                                                                                                                    \
  DEFINE (void, unlock_name, (type * lock))                                                                            \
  {                                                                                                                    \
    static __typeof__ (&unlock_name) real;                                                                             \
    if (__atomic_load_n (&real, __ATOMIC_RELAXED) == NULL)                                                             \
      __atomic_store_n (&real, REAL (unlock_name), __ATOMIC_RELAXED);                                                  \
    RELEASE (lock);                                                                                                    \
    real (lock);                                                                                                       \
  }

LOCK (mutex, GMutex, g_mutex_lock, g_mutex_unlock)
LOCK (rec, GRecMutex, g_rec_mutex_lock, g_rec_mutex_unlock)
LOCK (writer, GRWLock, g_rw_lock_writer_lock, g_rw_lock_writer_unlock)
LOCK (reader, GRWLock, g_rw_lock_reader_lock, g_rw_lock_reader_unlock)

DEFINE (gboolean, g_mutex_trylock, (GMutex * lock))
{
  gboolean locked = REAL (g_mutex_trylock) (lock);
  if (locked)
    ACQUIRE (lock);
  return locked;
}

DEFINE (void, g_cond_wait, (GCond * cond, GMutex *lock))
{
  RELEASE (lock);
  REAL (g_cond_wait) (cond, lock);
  ACQUIRE (lock);
}

DEFINE (gboolean, g_cond_wait_until, (GCond * cond, GMutex *lock, gint64 end))
{
  RELEASE (lock);
  gboolean signalled = REAL (g_cond_wait_until) (cond, lock, end);
  ACQUIRE (lock);
  return signalled;
}

/* An implementation of our own: the fast path is inline, and must see a store that was compiled with the sanitizer. */

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t once_done = PTHREAD_COND_INITIALIZER;
static volatile void *once_busy[64];

#undef g_once_init_enter
#undef g_once_init_leave

DEFINE (gboolean, g_once_init_enter, (volatile void *location))
{
  gboolean mine = FALSE;
  pthread_mutex_lock (&once_lock);
  while (!mine && __atomic_load_n ((volatile gsize *) location, __ATOMIC_ACQUIRE) == 0)
    {
      guint found = G_N_ELEMENTS (once_busy), empty = G_N_ELEMENTS (once_busy);
      for (guint i = 0; i < G_N_ELEMENTS (once_busy); i++)
        if (once_busy[i] == location)
          found = i;
        else if (once_busy[i] == NULL)
          empty = i;
      if (found < G_N_ELEMENTS (once_busy) || empty == G_N_ELEMENTS (once_busy))
        pthread_cond_wait (&once_done, &once_lock);
      else
        {
          once_busy[empty] = location;
          mine = TRUE;
        }
    }
  pthread_mutex_unlock (&once_lock);
  return mine;
}

DEFINE (void, g_once_init_leave, (volatile void *location, gsize result))
{
  pthread_mutex_lock (&once_lock);
  __atomic_store_n ((volatile gsize *) location, result, __ATOMIC_RELEASE);
  for (guint i = 0; i < G_N_ELEMENTS (once_busy); i++)
    if (once_busy[i] == location)
      once_busy[i] = NULL;
  pthread_cond_broadcast (&once_done);
  pthread_mutex_unlock (&once_lock);
}

/* Classes are made once, below locks of GObject. Each thread waits for a class before its first object of that type,
 * and for nothing at later ones: objects that are made by two threads order nothing between them. */
static pthread_mutex_t class_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static __thread GType known_classes[512];

static void
wait_for_class (GType type)
{
  guint i = 0;
  while (known_classes[i] != 0 && known_classes[i] != type)
    if (++i == G_N_ELEMENTS (known_classes))
      __builtin_trap ();
  if (known_classes[i] == type)
    return;
  known_classes[i] = type;
  pthread_mutex_lock (&class_lock);
  g_type_class_ref (type); /* as long as the program */
  pthread_mutex_unlock (&class_lock);
}

DEFINE (gpointer, g_object_new, (GType type, const char *first, ...))
{
  va_list args;
  wait_for_class (type);
  va_start (args, first);
  gpointer object = g_object_new_valist (type, first, args);
  va_end (args);
  return object;
}

/* ---- Counted references: whoever drops the last one has seen what all others did; others have not ---- */

static __attribute__ ((no_sanitize_thread)) gboolean
drop_one_of_several (gint *ref_count)
{
  gint n = __atomic_load_n (ref_count, __ATOMIC_SEQ_CST);
  while (n > 1)
    if (__atomic_compare_exchange_n (ref_count, &n, n - 1, FALSE, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return TRUE;
  return FALSE;
}

/* (toggle references, of which language bindings alone make use, are not looked at) */
DEFINE (void, g_object_unref, (gpointer object))
{
  static __typeof__ (&g_object_unref) real;
  if (__atomic_load_n (&real, __ATOMIC_RELAXED) == NULL)
    __atomic_store_n (&real, REAL (g_object_unref), __ATOMIC_RELAXED);
  RELEASE (object);
  if (drop_one_of_several ((gint *) &((GObject *) object)->ref_count))
    return;
  ACQUIRE (object);
  real (object);
}

DEFINE (void, g_bytes_unref, (GBytes * bytes))
{
  static __typeof__ (&g_bytes_unref) real;
  if (__atomic_load_n (&real, __ATOMIC_RELAXED) == NULL)
    __atomic_store_n (&real, REAL (g_bytes_unref), __ATOMIC_RELAXED);
  if (bytes != NULL)
    {
      RELEASE (bytes);
      ACQUIRE (bytes);
    }
  real (bytes);
}

/* ---- Queues, pools, tasks, main contexts ---- */

DEFINE (void, g_async_queue_push, (GAsyncQueue * queue, gpointer data))
{
  RELEASE (data);
  REAL (g_async_queue_push) (queue, data);
}

#define POP(name)                                                                                                      \
  DEFINE (gpointer, name, (GAsyncQueue * queue))                                                                       \
  {                                                                                                                    \
    gpointer data = REAL (name) (queue);                                                                               \
    if (data != NULL)                                                                                                  \
      ACQUIRE (data);                                                                                                  \
    return data;                                                                                                       \
  }

POP (g_async_queue_pop)
POP (g_async_queue_try_pop)

DEFINE (void, g_main_loop_run, (GMainLoop * loop))
{
  enter_glib ();
  REAL (g_main_loop_run) (loop);
  leave_glib ();
}

DEFINE (gboolean, g_main_context_iteration, (GMainContext * context, gboolean may_block))
{
  enter_glib ();
  gboolean dispatched = REAL (g_main_context_iteration) (context, may_block);
  leave_glib ();
  return dispatched;
}

DEFINE (void, g_task_return_pointer, (GTask * task, gpointer result, GDestroyNotify free_result))
{
  RELEASE (task);
  REAL (g_task_return_pointer) (task, result, free_result);
}

DEFINE (void, g_task_return_boolean, (GTask * task, gboolean result))
{
  RELEASE (task);
  REAL (g_task_return_boolean) (task, result);
}

DEFINE (void, g_task_return_error, (GTask * task, GError *error))
{
  RELEASE (task);
  REAL (g_task_return_error) (task, error);
}

DEFINE (gpointer, g_task_propagate_pointer, (GTask * task, GError **error))
{
  ACQUIRE (task);
  return REAL (g_task_propagate_pointer) (task, error);
}

DEFINE (gboolean, g_task_propagate_boolean, (GTask * task, GError **error))
{
  ACQUIRE (task);
  return REAL (g_task_propagate_boolean) (task, error);
}

typedef struct
{
  GSourceFunc func;
  gpointer data;
  GDestroyNotify notify;
} Callback;

static gboolean
run_callback (gpointer data)
{
  Callback *callback = data;
  guint depth = leave_glib_for_callback ();
  ACQUIRE (callback);
  gboolean stays = callback->func (callback->data);
  return_to_glib (depth);
  return stays;
}

static void
free_callback (gpointer data)
{
  Callback *callback = data;
  guint depth = leave_glib_for_callback ();
  ACQUIRE (callback);
  if (callback->notify != NULL)
    callback->notify (callback->data);
  g_free (callback);
  return_to_glib (depth);
}

DEFINE (void, g_source_set_callback, (GSource * source, GSourceFunc func, gpointer data, GDestroyNotify notify))
{
  Callback *callback = g_new (Callback, 1);
  *callback = (Callback){ func, data, notify };
  RELEASE (callback);
  REAL (g_source_set_callback) (source, run_callback, callback, free_callback);
}
