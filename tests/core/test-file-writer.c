/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-file-writer-private.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD "the old contents"

static char *folder;

static char *
path_of (const char *name)
{
  return g_build_filename (folder, name, NULL);
}

static void
assert_contents (const char *path, const char *want)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *found = NULL;
  g_file_get_contents (path, &found, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (found, ==, want);
}

static guint
count_entries (void)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  guint n = 0;
  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

static void
write_all (OrtrainFileWriter *writer, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (ortrain_file_writer_write (writer, text, strlen (text), &error));
  g_assert_no_error (error);
}

/* The old contents are there until the commit, and stay without one; users who may read them may read the new ones. */
static void
test_commit (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = path_of ("commit");
  const guint n_before = count_entries ();
  struct stat st;
  g_assert_true (g_file_set_contents (path, OLD, -1, NULL));
  g_assert_cmpint (g_chmod (path, 0640), ==, 0);
  for (guint commits = 0; commits < 2; commits++)
    {
      g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, &error);
      g_assert_no_error (error);
      write_all (writer, "new");
      g_assert_true (ortrain_file_writer_sync (writer, &error));
      assert_contents (path, OLD);
      if (commits > 0)
        g_assert_true (ortrain_file_writer_commit (writer, &error));
      g_assert_no_error (error);
    }
  assert_contents (path, "new");
  g_assert_cmpint (stat (path, &st), ==, 0);
  g_assert_cmpint (st.st_mode & 0777, ==, 0640);
  g_assert_cmpuint (count_entries (), ==, n_before + 1);
  g_assert_true (ortrain_file_write_text (path, "newer", &error));
  assert_contents (path, "newer");
}

/* Pieces that fit the buffer, and some that do not, with and without something in it: one file, one sum. */
static void
test_pieces (void)
{
  static const gsize sizes[] = { 1, 70000, 0, 65535, 1, 1, 65536, 200000, 3 };
  g_autoptr (GError) error = NULL;
  g_autofree char *path = path_of ("pieces"), *found = NULL;
  g_autofree guint8 *bytes = g_malloc (1 << 20);
  gsize n = 0, n_found;
  for (gsize i = 0; i < 1 << 20; i++)
    bytes[i] = (guint8) (i * 7 + i / 251);
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, &error);
  g_assert_no_error (error);
  ortrain_file_writer_enable_crc32 (writer);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); n += sizes[i++])
    {
      g_assert_cmpuint (ortrain_file_writer_get_position (writer), ==, n);
      g_assert_true (ortrain_file_writer_write (writer, sizes[i] > 0 ? bytes + n : NULL, sizes[i], &error));
    }
  memset (bytes + n, 0, 300);
  g_assert_true (ortrain_file_writer_pad (writer, 300, &error));
  n += 300;
  g_assert_cmpuint (ortrain_file_writer_get_position (writer), ==, n);
  g_assert_true (ortrain_file_writer_commit (writer, &error));
  g_assert_true (g_file_get_contents (path, &found, &n_found, NULL));
  g_assert_cmpmem (found, n_found, bytes, n);

  /* bit by bit, as the definition has it */
  guint32 crc = 0xffffffff;
  for (gsize i = 0; i < n; i++)
    for (guint bit = 0; bit < 8; bit++)
      {
        const guint32 low = (crc ^ (bytes[i] >> bit)) & 1;
        crc = (crc >> 1) ^ (low != 0 ? 0xedb88320 : 0);
      }
  g_assert_cmphex (ortrain_file_writer_get_crc32 (writer), ==, ~crc);
}

/* Somebody else may have put it there (CVE-2025-51480). */
static void
test_planted_link (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = path_of ("link"), *victim = path_of ("victim");
  g_assert_true (g_file_set_contents (victim, OLD, -1, NULL));
  g_assert_cmpint (symlink ("victim", path), ==, 0);
  g_assert_true (ortrain_file_write_text (path, "new", &error));
  g_assert_no_error (error);
  assert_contents (victim, OLD);
  assert_contents (path, "new");
  g_assert_false (g_file_test (path, G_FILE_TEST_IS_SYMLINK));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (symlink ("victim", path), ==, 0);
  g_assert_null (ortrain_file_writer_new_in_place (path, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_EXISTS);
  assert_contents (victim, OLD);
}

static void
test_in_place (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = path_of ("in-place");
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new_in_place (path, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_test (path, G_FILE_TEST_IS_REGULAR));
  write_all (writer, "new");
  g_assert_true (ortrain_file_writer_commit (writer, &error));
  g_clear_pointer (&writer, ortrain_file_writer_free);
  assert_contents (path, "new");
  g_assert_null (ortrain_file_writer_new_in_place (path, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_EXISTS);
}

/* The temporary file lies where the caller wants it; one that is there already is not touched. */
static void
test_through (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = path_of ("through"), *temporary = path_of ("other");
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new_through (path, "other", &error);
  g_assert_no_error (error);
  write_all (writer, "new");
  g_assert_true (ortrain_file_writer_sync (writer, &error));
  assert_contents (temporary, "new");
  g_assert_true (ortrain_file_writer_commit (writer, &error));
  g_assert_false (g_file_test (temporary, G_FILE_TEST_EXISTS));
  assert_contents (path, "new");
  g_assert_true (g_file_set_contents (temporary, OLD, -1, NULL));
  g_assert_null (ortrain_file_writer_new_through (path, "other", &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_EXISTS);
  assert_contents (temporary, OLD);
}

static void
test_restore (void)
{
  for (guint has_old = 0; has_old < 2; has_old++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *path = path_of (has_old ? "restore-old" : "restore-none");
      const guint n_before = count_entries ();
      if (has_old)
        g_assert_true (g_file_set_contents (path, OLD, -1, NULL));
      g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, &error);
      g_assert_no_error (error);
      write_all (writer, "new");
      g_assert_true (ortrain_file_writer_commit_for_now (writer, &error));
      assert_contents (path, "new");
      ortrain_file_writer_restore (writer);
      g_clear_pointer (&writer, ortrain_file_writer_free);
      if (has_old)
        assert_contents (path, OLD);
      else
        g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
      g_assert_cmpuint (count_entries (), ==, n_before + has_old);
    }
}

static void
assert_refused (const char *path, gint code)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (ortrain_file_write_text (path, "new", &error));
  g_assert_error (error, G_IO_ERROR, (gint) g_io_error_from_errno (code));
  g_assert_nonnull (strstr (error->message, path));
  g_assert_nonnull (strstr (error->message, g_strerror (code)));
}

static void
test_refused (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *slash = g_strconcat (folder, "/", NULL), *below = path_of ("nothing/file");
  assert_refused (folder, EISDIR);
  assert_refused (slash, EISDIR);
  assert_refused (below, ENOENT);
  assert_refused ("/dev/full", ENOSPC); /* and stays a device */
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new ("/dev/full", &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_file_writer_is_device (writer));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_test_add_func ("/file-writer/commit", test_commit);
  g_test_add_func ("/file-writer/pieces", test_pieces);
  g_test_add_func ("/file-writer/planted-link", test_planted_link);
  g_test_add_func ("/file-writer/in-place", test_in_place);
  g_test_add_func ("/file-writer/through", test_through);
  g_test_add_func ("/file-writer/restore", test_restore);
  g_test_add_func ("/file-writer/refused", test_refused);
  int status = g_test_run ();
  g_autofree char *command = g_strdup_printf ("rm -rf '%s'", folder);
  return g_spawn_command_line_sync (command, NULL, NULL, NULL, NULL) ? status : 1;
}
