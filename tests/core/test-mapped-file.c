/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-mapped-file-private.h"

#include "core/ortrain-errors.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((gsize) sysconf (_SC_PAGESIZE))

/* Pages of files that this process has in memory. */
static glong
count_file_pages (void)
{
  g_autofree char *text = NULL;
  glong size, resident, shared;
  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  g_assert_cmpint (sscanf (text, "%ld %ld %ld", &size, &resident, &shared), ==, 3);
  return shared;
}

static guint
sum (const guint8 *data, gsize n)
{
  guint total = 0;
  for (gsize i = 0; i < n; i++)
    total += data[i];
  return total;
}

/* Whole pages of a trimmed range leave memory, and are read again from the file. */
static void
test_trim (void)
{
  const gsize n = 4096 * PAGE + 100;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  const int fd = g_file_open_tmp ("ortrain-XXXXXX", &path, &error);
  g_assert_no_error (error);
  g_autofree guint8 *contents = g_malloc (n);
  for (gsize i = 0; i < n; i++)
    contents[i] = (guint8) (i % 251);
  g_assert_cmpint (write (fd, contents, n), ==, n);
  g_autoptr (GBytes) bytes = ortrain_mapped_file_new_bytes (fd, path, &error);
  g_assert_no_error (error);
  const guint8 *data = g_bytes_get_data (bytes, NULL);

  const glong before = count_file_pages ();
  const guint total = sum (data, n);
  g_assert_cmpint (count_file_pages () - before, >, 4000);
  ortrain_mapped_file_trim (data + 1, n / 2);
  const glong half = count_file_pages () - before;
  g_assert_cmpint (half, <, 2200);
  g_assert_cmpint (half, >, 1800);
  ortrain_mapped_file_trim (data + 1, G_MAXSIZE); /* no further than the mapping */
  g_assert_cmpint (count_file_pages () - before, <, 100);
  g_assert_cmpuint (sum (data, n), ==, total);
  g_assert_cmpmem (data, n, contents, n);

  ortrain_mapped_file_trim (contents, n); /* memory of the heap stays */
  g_assert_cmpmem (data, n, contents, n);
  close (fd);
  unlink (path);
}

/* A file that is mapped, and then has something done to it. */
typedef struct
{
  char *path, *other;
  int fd;
  struct timespec times[2];
} Mapped;

static void
link_it (Mapped *self)
{
  g_assert_cmpint (link (self->path, self->other), ==, 0);
}

static void
rename_it (Mapped *self)
{
  g_assert_cmpint (rename (self->path, self->other), ==, 0);
}

static void
remove_it (Mapped *self)
{
  g_assert_cmpint (unlink (self->path), ==, 0);
}

static void
protect_it (Mapped *self)
{
  g_assert_cmpint (fchmod (self->fd, 0400), ==, 0);
}

/* Writes next to the sampled bytes. */
static void
write_it (Mapped *self)
{
  g_assert_cmpint (pwrite (self->fd, "x", 1, (off_t) (32 * PAGE)), ==, 1);
  g_assert_cmpint (futimens (self->fd, self->times), ==, 0);
}

/* The time of the last change can be set back; a file that gets other names, permissions or links is unchanged. */
static void
test_times (void)
{
  const gsize n = 64 * PAGE;
  void (*const changes[]) (Mapped *) = { link_it, rename_it, remove_it, protect_it, write_it };
  g_autofree char *contents = g_malloc0 (n);
  for (guint i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      g_autoptr (GError) error = NULL;
      Mapped file = { 0 };
      struct stat st;
      file.fd = g_file_open_tmp ("ortrain-XXXXXX", &file.path, &error);
      g_assert_no_error (error);
      file.other = g_strconcat (file.path, ".other", NULL);
      g_assert_cmpint (write (file.fd, contents, n), ==, n);
      g_autoptr (GBytes) bytes = ortrain_mapped_file_new_bytes (file.fd, file.path, &error);
      g_assert_no_error (error);
      g_assert_cmpint (fstat (file.fd, &st), ==, 0);
      file.times[0] = st.st_atim;
      file.times[1] = st.st_mtim;
      g_usleep (20000); /* a tick of the file system's clock */
      changes[i](&file);
      g_assert_cmpint (ortrain_mapped_file_check_bytes (bytes, &error), ==, changes[i] != write_it);
      if (changes[i] == write_it)
        g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_CHANGED);
      close (file.fd);
      unlink (file.path);
      unlink (file.other);
      g_free (file.path);
      g_free (file.other);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mapped-file/trim", test_trim);
  g_test_add_func ("/mapped-file/times", test_times);
  return g_test_run ();
}
