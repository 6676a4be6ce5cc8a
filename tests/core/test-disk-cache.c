/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-disk-cache-private.h"

#include "cache-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Promise: a stored entry is found, by the same key alone; whatever the folder contains, nothing else is found, nothing
 * fails, and no file of others is touched. */

#define KEY "a key"
#define SMALL "some contents"
#define MIB ((gsize) 1 << 20)

static void
store (const char *kind, const char *key, const char *contents)
{
  g_autoptr (GBytes) bytes = g_bytes_new (contents, strlen (contents));
  ortrain_disk_cache_store (kind, key, strlen (key), bytes);
}

/* contents: NULL for none */
static void
assert_found (const char *kind, const char *key, const char *contents)
{
  const OrtrainDiskCacheCounts before = ortrain_disk_cache_get_counts ();
  g_autoptr (GBytes) found = ortrain_disk_cache_lookup (kind, key, strlen (key));
  const OrtrainDiskCacheCounts after = ortrain_disk_cache_get_counts ();
  g_assert_cmpuint (after.n_hits - before.n_hits, ==, contents != NULL);
  g_assert_cmpuint (after.n_misses - before.n_misses, ==, contents == NULL);
  g_assert_cmpint (found != NULL, ==, contents != NULL);
  if (found != NULL)
    g_assert_cmpmem (g_bytes_get_data (found, NULL), g_bytes_get_size (found), contents, strlen (contents));
}

static mode_t
get_mode (const char *path)
{
  struct stat st;
  g_assert_cmpint (lstat (path, &st), ==, 0);
  return st.st_mode & 0777;
}

static void
set_age (const char *path, gint64 seconds)
{
  const struct timespec times[2] = { { .tv_sec = g_get_real_time () / G_USEC_PER_SEC - seconds },
                                     { .tv_sec = g_get_real_time () / G_USEC_PER_SEC - seconds } };
  g_assert_cmpint (utimensat (AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), ==, 0);
}

static void
test_found (gpointer *fixture, gconstpointer data)
{
  const guint n_stored = ortrain_disk_cache_get_counts ().n_stored;
  assert_found ("plan", KEY, NULL);
  store ("plan", KEY, SMALL);
  assert_found ("plan", KEY, SMALL);
  assert_found ("plan", KEY "2", NULL);
  assert_found ("plan", "", NULL);
  assert_found ("pla", "n" KEY, NULL);
  store ("product", KEY, "");
  assert_found ("product", KEY, "");
  assert_found ("plan", KEY, SMALL);
  store ("plan", KEY, "others");
  assert_found ("plan", KEY, "others");
  g_assert_cmpuint (ortrain_disk_cache_get_counts ().n_stored - n_stored, ==, 3);
  g_assert_cmpuint (test_count_entries (folder), ==, 2);
}

/* Folders are made as they are needed, for the user alone. */
static void
test_modes (gpointer *fixture, gconstpointer data)
{
  g_autofree char *upper = g_build_filename (folder, "upper", NULL), *lower = g_build_filename (upper, "lower", NULL);
  g_setenv ("ORTRAIN_CACHE", lower, TRUE);
  assert_found ("plan", KEY, NULL);
  g_assert_false (g_file_test (upper, G_FILE_TEST_EXISTS)); /* looking makes nothing */
  store ("plan", KEY, SMALL);
  assert_found ("plan", KEY, SMALL);
  g_assert_cmpuint (get_mode (upper), ==, 0700);
  g_assert_cmpuint (get_mode (lower), ==, 0700);
  g_autoptr (GDir) dir = g_dir_open (lower, 0, NULL);
  g_autofree char *file = g_build_filename (lower, g_dir_read_name (dir), NULL);
  g_assert_cmpuint (get_mode (file), ==, 0600);
}

/* Each byte changed, each length cut, and more than there was: missing, and replaced by the next. */
static void
test_damaged (gpointer *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *whole = NULL;
  gsize n;
  store ("plan", KEY, SMALL);
  g_autofree char *path = cache_folder_find_file ();
  g_assert_true (g_file_get_contents (path, &whole, &n, &error));
  g_assert_cmpuint (n, <, 200);
  for (gsize i = 0; i < 2 * n + 1; i++)
    {
      g_autofree char *damaged = g_malloc0 (n + 1);
      memcpy (damaged, whole, n);
      damaged[i % n] ^= i < n ? (char) (1 << i % 8) : 0;
      g_assert_true (g_file_set_contents (path, damaged,
                                          i < n       ? (gssize) n
                                          : i < 2 * n ? (gssize) (i - n)
                                                      : (gssize) n + 1,
                                          &error));
      assert_found ("plan", KEY, NULL);
    }
  store ("plan", KEY, SMALL);
  assert_found ("plan", KEY, SMALL);
  g_assert_cmpuint (test_count_entries (folder), ==, 1);
}

/* A whole entry under the name of another key does not belong to that key. */
static void
test_exchanged (gpointer *fixture, gconstpointer data)
{
  store ("plan", KEY, SMALL);
  g_autofree char *first = cache_folder_find_file ();
  g_autofree char *aside = g_strconcat (first, ".aside", NULL);
  g_assert_cmpint (g_rename (first, aside), ==, 0);
  store ("plan", "another", "others");
  g_assert_cmpint (g_remove (first), ==, -1);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      if (!g_str_equal (path, aside))
        g_assert_cmpint (g_rename (aside, path), ==, 0);
    }
  assert_found ("plan", "another", NULL);
}

/* Anything but files of the user: links, folders, pipes, files that others may write. */
static void
test_foreign (gpointer *fixture, gconstpointer data)
{
  store ("plan", KEY, SMALL);
  g_autofree char *path = cache_folder_find_file (), *real = g_strconcat (path, ".real", NULL);
  g_assert_cmpint (g_chmod (path, 0606), ==, 0);
  assert_found ("plan", KEY, NULL);
  g_assert_cmpint (g_chmod (path, 0600), ==, 0);
  assert_found ("plan", KEY, SMALL);
  g_assert_cmpint (g_rename (path, real), ==, 0);
  g_assert_cmpint (symlink (real, path), ==, 0);
  assert_found ("plan", KEY, NULL);
  store ("plan", KEY, "others"); /* in the place of the link */
  assert_found ("plan", KEY, "others");
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_rename (real, path), ==, 0);
  assert_found ("plan", KEY, SMALL); /* through which nothing was written */
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  assert_found ("plan", KEY, NULL);
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  assert_found ("plan", KEY, NULL);
  store ("plan", KEY, SMALL);
  assert_found ("plan", KEY, NULL);
  g_assert_cmpuint (test_count_entries (folder), ==, 1); /* nothing half written stays */
}

/* Folders that are none, or into which everybody may write. */
static void
test_folders (gpointer *fixture, gconstpointer data)
{
  const guint n_stored = ortrain_disk_cache_get_counts ().n_stored;
  g_autofree char *file = g_build_filename (folder, "file", NULL), *below = g_build_filename (file, "below", NULL);
  g_autofree char *link = g_build_filename (folder, "link", NULL), *open = g_build_filename (folder, "open", NULL);
  g_assert_true (g_file_set_contents (file, "", 0, NULL));
  g_assert_cmpint (g_mkdir (open, 0700), ==, 0);
  g_assert_cmpint (symlink (open, link), ==, 0);
  g_assert_cmpint (g_chmod (open, 0707), ==, 0);
  const char *const folders[] = { file, below, link, open, "/proc/nowhere/at/all" };
  for (guint i = 0; i < G_N_ELEMENTS (folders); i++)
    {
      g_setenv ("ORTRAIN_CACHE", folders[i], TRUE);
      store ("plan", KEY, SMALL);
      assert_found ("plan", KEY, NULL);
    }
  g_assert_cmpuint (ortrain_disk_cache_get_counts ().n_stored, ==, n_stored);
  g_assert_cmpuint (test_count_entries (open), ==, 0);
}

/* Existing entries are read; nothing is written, and nobody complains. Root, who may write everywhere, is somebody else
 * for that long. */
static void
test_read_only (gpointer *fixture, gconstpointer data)
{
  const guint n_stored = ortrain_disk_cache_get_counts ().n_stored;
  const gboolean is_root = geteuid () == 0;
  if (is_root)
    {
      g_assert_cmpint (chown (folder, 65534, 65534), ==, 0);
      g_assert_cmpint (seteuid (65534), ==, 0);
    }
  store ("plan", KEY, SMALL);
  g_assert_cmpint (g_chmod (folder, 0500), ==, 0);
  assert_found ("plan", KEY, SMALL);
  store ("plan", KEY, "others");
  store ("plan", "another", SMALL);
  assert_found ("plan", KEY, SMALL);
  assert_found ("plan", "another", NULL);
  g_assert_cmpuint (ortrain_disk_cache_get_counts ().n_stored - n_stored, ==, 1);
  if (is_root)
    {
      g_autofree char *path = cache_folder_find_file ();
      g_assert_cmpint (seteuid (0), ==, 0);
      assert_found ("plan", KEY, NULL); /* a folder of somebody else */
      g_assert_cmpint (chown (folder, 0, 0), ==, 0);
      assert_found ("plan", KEY, NULL); /* a file of somebody else */
      g_assert_cmpint (chown (path, 0, 0), ==, 0);
      assert_found ("plan", KEY, SMALL);
    }
}

static void
test_off (gpointer *fixture, gconstpointer data)
{
  static const char *const words[] = { "off", "0", "no", "false" };
  const guint n_stored = ortrain_disk_cache_get_counts ().n_stored;
  g_autofree char *here = g_get_current_dir ();
  store ("plan", KEY, SMALL);
  g_assert_cmpint (g_chdir (folder), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      g_setenv ("ORTRAIN_CACHE", words[i], TRUE);
      assert_found ("plan", KEY, NULL);
      store ("plan", "another", SMALL);
    }
  g_assert_cmpint (g_chdir (here), ==, 0);
  g_assert_cmpuint (test_count_entries (folder), ==, 1);
  g_assert_cmpuint (ortrain_disk_cache_get_counts ().n_stored - n_stored, ==, 1);
}

/* Where it is without a word: GLib reads XDG_CACHE_HOME once, so in a process of its own. */
static void
test_default (gpointer *fixture, gconstpointer data)
{
  static const char *const words[] = { NULL, "", "on", "1" };
  if (g_test_subprocess ())
    {
      for (guint i = 0; i < G_N_ELEMENTS (words); i++)
        {
          g_autofree char *key = g_strdup_printf ("key %u", i);
          g_unsetenv ("ORTRAIN_CACHE");
          if (words[i] != NULL)
            g_setenv ("ORTRAIN_CACHE", words[i], TRUE);
          store ("plan", key, SMALL);
          assert_found ("plan", key, SMALL);
        }
      return;
    }
  g_setenv ("XDG_CACHE_HOME", folder, TRUE);
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
  g_unsetenv ("XDG_CACHE_HOME");
  g_autofree char *path = g_build_filename (folder, "ortrain", NULL);
  g_assert_cmpuint (test_count_entries (path), ==, G_N_ELEMENTS (words));
}

static char *
make_sparse (char letter, const char *suffix, gsize n_bytes, gint64 age)
{
  g_autofree char *digits = g_strnfill (64, letter), *name = g_strconcat (digits, suffix, NULL);
  char *path = g_build_filename (folder, name, NULL);
  const int file = g_open (path, O_CREAT | O_WRONLY, 0600);
  g_assert_cmpint (file, >=, 0);
  g_assert_cmpint (ftruncate (file, (goffset) n_bytes), ==, 0);
  g_assert_cmpint (close (file), ==, 0);
  set_age (path, age);
  return path;
}

static void
assert_exists (const char *path, gboolean exists)
{
  g_assert_cmpint (g_file_test (path, G_FILE_TEST_EXISTS), ==, exists);
}

/* Stores two MiB: an entry of that size checks whether there is room. */
static void
store_large (const char *key)
{
  g_autofree char *contents = g_strnfill (2 * MIB, 'x');
  store ("plan", key, contents);
  assert_found ("plan", key, contents);
}

/* The oldest make room, no more of them than needed; a look is a use; files of others stay, however large and old. */
static void
test_size (gpointer *fixture, gconstpointer data)
{
  store ("plan", KEY, SMALL);
  g_autofree char *entry = cache_folder_find_file ();
  g_autofree char *oldest = make_sparse ('a', ".ortrain", 20 * MIB, 5000);
  g_autofree char *older = make_sparse ('b', ".ortrain", 20 * MIB, 4000);
  g_autofree char *old = make_sparse ('c', ".ortrain", 20 * MIB, 3000);
  g_autofree char *foreign = make_sparse ('d', ".others", 80 * MIB, 9000);
  g_autofree char *part = make_sparse ('e', ".ortrain.00000000.part", MIB, 9000);
  g_autofree char *fresh = make_sparse ('f', ".ortrain.00000000.part", MIB, 60);
  g_autofree char *odd = make_sparse ('a', ".ortrainer", MIB, 9000);
  set_age (entry, 6000);
  store_large ("another"); /* 62 MiB: there is room */
  assert_exists (entry, TRUE);
  assert_exists (oldest, TRUE);
  assert_exists (part, FALSE);
  assert_exists (fresh, TRUE);
  assert_found ("plan", KEY, SMALL);
  g_autofree char *more = make_sparse ('1', ".ortrain", 18 * MIB, 2000);
  store_large ("third");
  assert_exists (oldest, FALSE);
  assert_exists (older, TRUE);
  assert_exists (old, TRUE);
  assert_exists (more, TRUE);
  assert_exists (foreign, TRUE);
  assert_exists (odd, TRUE);
  assert_found ("plan", KEY, SMALL);
}

#define N_SMALL 300 /* which take more than one MiB, in blocks */

/* Many small ones are counted too. */
static void
test_small (gpointer *fixture, gconstpointer data)
{
  g_autofree char *oldest = NULL;
  store_large ("large"); /* from here on, nothing is counted */
  oldest = make_sparse ('a', ".ortrain", 62 * MIB, 5000);
  for (guint i = 0; i < N_SMALL; i++)
    {
      g_autofree char *key = g_strdup_printf ("key %u", i);
      store ("plan", key, SMALL);
      if (i < 200)
        assert_exists (oldest, TRUE);
    }
  assert_exists (oldest, FALSE);
  g_assert_cmpuint (test_count_entries (folder), ==, 1 + N_SMALL);
}

/* One that is too large is not stored, and not read. */
static void
test_large (gpointer *fixture, gconstpointer data)
{
  g_autofree guint8 *large = g_malloc0 (8 * MIB + 1);
  g_autoptr (GBytes) too_large = g_bytes_new (large, 8 * MIB + 1);
  ortrain_disk_cache_store ("plan", KEY, strlen (KEY), too_large);
  g_assert_cmpuint (test_count_entries (folder), ==, 0);
  store ("plan", KEY, SMALL);
  g_autofree char *path = cache_folder_find_file ();
  g_assert_cmpint (truncate (path, (goffset) 1 << 40), ==, 0);
  assert_found ("plan", KEY, NULL);
}

#define N_PROCESSES 4
#define N_ROUNDS 200

/* Several processes write and read the same entry: each finds nothing, or an entry that one of them has written. */
static void
test_processes (gpointer *fixture, gconstpointer data)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  GPid children[N_PROCESSES];
  for (guint i = 0; i < N_PROCESSES; i++)
    {
      g_autoptr (GError) error = NULL;
      const char *arguments[] = { self, "writer", NULL };
      g_spawn_async (NULL, (char **) arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &children[i], &error);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < N_PROCESSES; i++)
    {
      int status;
      g_assert_cmpint (waitpid (children[i], &status, 0), ==, children[i]);
      g_assert_cmpint (status, ==, 0);
    }
  g_assert_cmpuint (test_count_entries (folder), ==, 1);
}

static int
write_and_read (void)
{
  g_autofree guint8 *contents = g_malloc (100000);
  for (guint round = 0; round < N_ROUNDS; round++)
    {
      memset (contents, (int) (getpid () + (int) round), 100000);
      g_autoptr (GBytes) bytes = g_bytes_new (contents, 1 + g_random_int () % 99999);
      ortrain_disk_cache_store ("plan", KEY, strlen (KEY), bytes);
      g_autoptr (GBytes) found = ortrain_disk_cache_lookup ("plan", KEY, strlen (KEY));
      if (found == NULL)
        return 1; /* there is always one: it is replaced by a renaming */
      const guint8 *letters = g_bytes_get_data (found, NULL);
      for (gsize i = 1; i < g_bytes_get_size (found); i++)
        if (letters[i] != letters[0])
          return 2;
    }
  return 0;
}

int
main (int argc, char **argv)
{
  if (argc == 2 && strcmp (argv[1], "writer") == 0)
    return write_and_read ();
  g_test_init (&argc, &argv, NULL);
#define ADD(name) g_test_add ("/disk-cache/" #name, gpointer, NULL, cache_folder_begin, test_##name, cache_folder_end)
  ADD (found);
  ADD (modes);
  ADD (damaged);
  ADD (exchanged);
  ADD (foreign);
  ADD (folders);
  ADD (read_only);
  ADD (off);
  ADD (default);
  ADD (size);
  ADD (small);
  ADD (large);
  ADD (processes);
#undef ADD
  return g_test_run ();
}
