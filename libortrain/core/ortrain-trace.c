/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-trace-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Each span is one write, so that a process that is killed leaves complete ones; Chrome's format needs no end of the
 * list. A child of the process does not go on with its file. */
static GMutex lock; /* guards the following */
static int file = -1;
static pid_t owner;
static gboolean is_empty; /* no span was written yet */
static gint is_on;        /* atomic */

static gint64
get_time (void)
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
write_text (const char *text)
{
  const gsize n = strlen (text);
  if (write (file, text, n) == (gssize) n)
    return;
  g_warning ("The trace ends here: %s", g_strerror (errno));
  close (file);
  file = -1;
}

/* With the lock. */
static void
open_file (const char *path)
{
  if (file >= 0 && owner == getpid ())
    write_text ("\n]\n");
  if (file >= 0)
    close (file);
  file = -1;
  g_atomic_int_set (&is_on, FALSE);
  if (path == NULL || *path == '\0')
    return;
  file = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    {
      g_warning ("ORTRAIN_TRACE: %s: %s", path, g_strerror (errno));
      return;
    }
  owner = getpid ();
  is_empty = TRUE;
  write_text ("[");
  g_atomic_int_set (&is_on, TRUE);
}

static void
close_at_exit (void)
{
  ortrain_trace_set_file (NULL);
}

static void
read_environment (void)
{
  static gsize once;
  if (!g_once_init_enter (&once))
    return;
  g_mutex_lock (&lock);
  open_file (g_getenv ("ORTRAIN_TRACE"));
  g_mutex_unlock (&lock);
  atexit (close_at_exit);
  g_once_init_leave (&once, 1);
}

gint64
ortrain_trace_begin (void)
{
  read_environment ();
  return G_UNLIKELY (g_atomic_int_get (&is_on)) ? get_time () : 0;
}

/* As JSON has it. */
static void
append_text (GString *line, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  for (const char *c = valid; *c != '\0'; c++)
    if (*c == '"' || *c == '\\')
      g_string_append_printf (line, "\\%c", *c);
    else if ((guchar) *c < 0x20)
      g_string_append_printf (line, "\\u%04x", *c);
    else
      g_string_append_c (line, *c);
}

void
ortrain_trace_end (gint64 begin, const char *category, const char *name, const char *detail)
{
  if (G_LIKELY (begin == 0))
    return;
  const gint64 end = get_time ();
  g_autoptr (GString) line = g_string_new (",\n{\"ph\":\"X\",\"name\":\"");
  append_text (line, name);
  g_string_append_printf (line, "\",\"cat\":\"%s\",\"ts\":%" G_GINT64_FORMAT ".%03d,\"dur\":%" G_GINT64_FORMAT ".%03d",
                          category, begin / 1000, (gint) (begin % 1000), (end - begin) / 1000,
                          (gint) ((end - begin) % 1000));
  g_string_append_printf (line, ",\"pid\":%d,\"tid\":%d", (gint) getpid (), (gint) gettid ());
  if (detail != NULL)
    {
      g_string_append (line, ",\"args\":{\"detail\":\"");
      append_text (line, detail);
      g_string_append (line, "\"}");
    }
  g_string_append_c (line, '}');
  g_mutex_lock (&lock);
  if (file >= 0 && owner == getpid ())
    {
      write_text (line->str + (is_empty ? 1 : 0));
      is_empty = FALSE;
    }
  g_mutex_unlock (&lock);
}

void
ortrain_trace_set_file (const char *path)
{
  g_mutex_lock (&lock);
  open_file (path);
  g_mutex_unlock (&lock);
}
