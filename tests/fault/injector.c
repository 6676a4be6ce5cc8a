/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fault/injector.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static gint armed; /* the kind, or -1 */
static guint n_calls, fail_at;
static const char *failed_call;

/* Whether this call fails. The code under test may use several threads, but one at a time. */
static gboolean
hit (Injection kind, const char *name)
{
  if (armed != (gint) kind)
    return FALSE;
  if (++n_calls != fail_at)
    return FALSE;
  failed_call = name;
  return TRUE;
}

void
injector_arm (Injection kind, guint n)
{
  armed = (gint) kind;
  n_calls = 0;
  fail_at = n;
  failed_call = NULL;
}

guint
injector_disarm (const char **failed)
{
  armed = -1;
  if (failed != NULL)
    *failed = failed_call;
  return n_calls;
}

guint
injector_count_descriptors (void)
{
  guint n = 0;
  DIR *dir = opendir ("/proc/self/fd");
  while (dir != NULL && readdir (dir) != NULL)
    n++;
  if (dir != NULL)
    closedir (dir);
  return n;
}

guint
injector_run (Injection kind, InjectorPrepare prepare, InjectorTry try_it, InjectorCheck check, gpointer data)
{
  GError *error = NULL;
  guint n_hit = 0, n_failed = 0;
  const char *failed = "";
  for (guint i = 1; failed != NULL; i++)
    {
      if (prepare != NULL)
        prepare (data);
      const guint descriptors = injector_count_descriptors ();
      injector_arm (kind, i);
      gboolean ok = try_it (data, &error);
      injector_disarm (&failed);
      n_hit += failed != NULL;
      if (ok != (error == NULL) || (!ok && failed == NULL))
        g_error ("call %u, %s: %s", i, failed, error != NULL ? error->message : "no error");
      if (error != NULL)
        g_test_message ("%u %s: %s", i, failed, error->message);
      if (error != NULL && (*error->message == '\0' || !g_utf8_validate (error->message, -1, NULL)))
        g_error ("call %u, %s: a message that says nothing", i, failed);
      n_failed += !ok;
      g_assert_cmpuint (injector_count_descriptors (), ==, descriptors);
      check (data, error, failed);
      g_clear_error (&error);
      g_assert_cmpuint (i, <, 10000);
    }
  if (kind == INJECT_MEMORY || kind == INJECT_ERROR)
    g_assert_cmpuint (n_failed, >, 0);
  else
    g_assert_cmpuint (n_failed, ==, 0);
  return n_hit;
}

/* Meson builds with 64-bit offsets everywhere, which renames some of the functions. */

/* ---- Memory ---- */

#define REAL(type, name, parameters)                                                                                   \
  type __real_##name parameters;                                                                                       \
  type __wrap_##name parameters;                                                                                       \
  type __wrap_##name parameters

REAL (void *, mmap64, (void *address, size_t n, int protection, int flags, int fd, off_t offset))
{
  if (hit (INJECT_MEMORY, "mmap"))
    {
      errno = ENOMEM;
      return MAP_FAILED;
    }
  return __real_mmap64 (address, n, protection, flags, fd, offset);
}

REAL (void *, aligned_alloc, (size_t alignment, size_t n))
{
  return hit (INJECT_MEMORY, "aligned_alloc") ? NULL : __real_aligned_alloc (alignment, n);
}

REAL (int, posix_memalign, (void **address, size_t alignment, size_t n))
{
  return hit (INJECT_MEMORY, "posix_memalign") ? ENOMEM : __real_posix_memalign (address, alignment, n);
}

REAL (gpointer, g_try_malloc, (gsize n))
{
  return hit (INJECT_MEMORY, "g_try_malloc") ? NULL : __real_g_try_malloc (n);
}

REAL (gpointer, g_try_malloc0, (gsize n))
{
  return hit (INJECT_MEMORY, "g_try_malloc0") ? NULL : __real_g_try_malloc0 (n);
}

REAL (gpointer, g_try_malloc_n, (gsize n, gsize size))
{
  return hit (INJECT_MEMORY, "g_try_malloc_n") ? NULL : __real_g_try_malloc_n (n, size);
}

REAL (gpointer, g_try_malloc0_n, (gsize n, gsize size))
{
  return hit (INJECT_MEMORY, "g_try_malloc0_n") ? NULL : __real_g_try_malloc0_n (n, size);
}

REAL (gpointer, g_try_realloc, (gpointer address, gsize n))
{
  return hit (INJECT_MEMORY, "g_try_realloc") ? NULL : __real_g_try_realloc (address, n);
}

REAL (GThread *, g_thread_try_new, (const char *name, GThreadFunc function, gpointer data, GError **error))
{
  if (!hit (INJECT_MEMORY, "g_thread_try_new"))
    return __real_g_thread_try_new (name, function, data, error);
  g_set_error_literal (error, G_THREAD_ERROR, G_THREAD_ERROR_AGAIN, "no more threads");
  return NULL;
}

/* the mapping of a file: its pages are memory, backed by a file */
static gboolean
mapping_fails (const char *path, GError **error)
{
  gboolean memory = hit (INJECT_MEMORY, "g_mapped_file_new");
  if (!memory && !hit (INJECT_ERROR, "g_mapped_file_new"))
    return FALSE;
  /* as GLib says it */
  g_set_error (error, G_FILE_ERROR, memory ? G_FILE_ERROR_NOMEM : G_FILE_ERROR_IO,
               "Failed to map %s “%s”: mmap() failed: %s", path != NULL ? "file" : "fd", path != NULL ? path : "",
               g_strerror (memory ? ENOMEM : EIO));
  return TRUE;
}

REAL (GMappedFile *, g_mapped_file_new, (const char *path, gboolean writable, GError **error))
{
  return mapping_fails (path, error) ? NULL : __real_g_mapped_file_new (path, writable, error);
}

REAL (GMappedFile *, g_mapped_file_new_from_fd, (int fd, gboolean writable, GError **error))
{
  return mapping_fails (NULL, error) ? NULL : __real_g_mapped_file_new_from_fd (fd, writable, error);
}

/* ---- Input and output ---- */

static gboolean
io_fails (const char *name)
{
  if (!hit (INJECT_ERROR, name))
    return FALSE;
  errno = EIO;
  return TRUE;
}

static gboolean
is_interrupted (const char *name)
{
  if (!hit (INJECT_EINTR, name))
    return FALSE;
  errno = EINTR;
  return TRUE;
}

int __real_open64 (const char *path, int flags, ...);
int __wrap_open64 (const char *path, int flags, ...);
int
__wrap_open64 (const char *path, int flags, ...)
{
  va_list args;
  va_start (args, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg (args, mode_t) : 0;
  va_end (args);
  return io_fails ("open") ? -1 : __real_open64 (path, flags, mode);
}

int __real_openat64 (int fd, const char *path, int flags, ...);
int __wrap_openat64 (int fd, const char *path, int flags, ...);
int
__wrap_openat64 (int fd, const char *path, int flags, ...)
{
  va_list args;
  va_start (args, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg (args, mode_t) : 0;
  va_end (args);
  return io_fails ("openat") ? -1 : __real_openat64 (fd, path, flags, mode);
}

/* openat2 has no function of its own; futexes go this way too, and do not fail */
long __real_syscall (long number, ...);
long __wrap_syscall (long number, ...);
long
__wrap_syscall (long number, ...)
{
  long a[6];
  va_list args;
  va_start (args, number);
  for (guint i = 0; i < G_N_ELEMENTS (a); i++)
    a[i] = va_arg (args, long);
  va_end (args);
#ifdef SYS_openat2
  if (number == SYS_openat2 && (io_fails ("openat2") || is_interrupted ("openat2")))
    return -1;
#endif
  return __real_syscall (number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

REAL (ssize_t, write, (int fd, const void *data, size_t n))
{
  if (io_fails ("write") || is_interrupted ("write"))
    return -1;
  if (n > 1 && hit (INJECT_SHORT, "write"))
    n = 1 + n / 3;
  return __real_write (fd, data, n);
}

/* no power is cut here: the disk is spared */
REAL (int, fsync, (int fd))
{
  return io_fails ("fsync") || is_interrupted ("fsync") ? -1 : 0;
}

/* a close that fails has closed */
REAL (int, close, (int fd))
{
  gboolean fails = io_fails ("close");
  int result = __real_close (fd);
  if (fails)
    errno = EIO;
  return fails ? -1 : result;
}

#define SIMPLE(name, parameters, arguments)                                                                            \
  REAL (int, name, parameters)                                                                                         \
  {                                                                                                                    \
    return io_fails (#name) ? -1 : __real_##name arguments;                                                            \
  }
SIMPLE (stat64, (const char *path, struct stat *st), (path, st))
SIMPLE (fstat64, (int fd, struct stat *st), (fd, st))
SIMPLE (fstatat64, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags))
SIMPLE (fchmod, (int fd, mode_t mode), (fd, mode))
SIMPLE (renameat, (int from_fd, const char *from, int to_fd, const char *to), (from_fd, from, to_fd, to))
SIMPLE (renameat2, (int from_fd, const char *from, int to_fd, const char *to, unsigned int flags),
        (from_fd, from, to_fd, to, flags))
SIMPLE (mkdir, (const char *path, mode_t mode), (path, mode))
SIMPLE (mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
SIMPLE (faccessat, (int fd, const char *path, int mode, int flags), (fd, path, mode, flags))
SIMPLE (flock, (int fd, int operation), (fd, operation))
SIMPLE (getentropy, (void *data, size_t n), (data, n))

REAL (DIR *, fdopendir, (int fd))
{
  return io_fails ("fdopendir") ? NULL : __real_fdopendir (fd);
}

REAL (FILE *, fopen64, (const char *path, const char *mode))
{
  return io_fails ("fopen") ? NULL : __real_fopen64 (path, mode);
}
