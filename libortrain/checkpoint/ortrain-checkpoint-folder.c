/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-folder-private.h"

#include "checkpoint/ortrain-checkpoint-private.h"
#include "core/ortrain-file-writer-private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATA_PREFIX "data-"
#define HEADER "ortrain-checkpoint-files\n"
#define MAX_LIST ((gsize) 16 << 20)

gboolean
ortrain_checkpoint_is_data_name (const char *name)
{
  gsize prefix = strlen (DATA_PREFIX);
  if (strncmp (name, DATA_PREFIX, prefix) != 0 || strlen (name) != prefix + 16)
    return FALSE;
  for (const char *p = name + prefix; *p != '\0'; p++)
    if (!g_ascii_isxdigit (*p))
      return FALSE;
  return TRUE;
}

gboolean
ortrain_checkpoint_write_list (const char *folder, GPtrArray *names, GError **error)
{
  g_autofree char *path = g_build_filename (folder, ORTRAIN_CHECKPOINT_LIST, NULL);
  g_autoptr (GString) text = g_string_new (HEADER);
  for (guint i = 0; i < names->len; i++)
    g_string_append_printf (text, "%s\n", (const char *) names->pdata[i]);
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new_in_place (path, error);
  return writer != NULL && ortrain_file_writer_write (writer, text->str, text->len, error) &&
         ortrain_file_writer_commit (writer, error);
}

/* The names of a list, or NULL if the folder has no list of this library. One that was cut short by a kill has no files
 * after it. */
static GPtrArray *
read_list (int folder)
{
  struct stat st;
  int fd = openat (folder, ORTRAIN_CHECKPOINT_LIST, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  gboolean plain = fstat (fd, &st) == 0 && S_ISREG (st.st_mode) && st.st_size <= (off_t) MAX_LIST;
  gsize size = plain ? (gsize) st.st_size : 0, n_read = 0;
  g_autofree char *text = plain ? g_malloc0 (size + 1) : NULL;
  gssize n = 1;
  while (n_read < size && n > 0)
    {
      n = read (fd, text + n_read, size - n_read);
      if (n > 0)
        n_read += (gsize) n;
      else if (n < 0 && errno == EINTR)
        n = 1;
    }
  close (fd);
  if (text == NULL || n_read != size || strncmp (text, HEADER, MIN (size, strlen (HEADER))) != 0)
    return NULL;
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  for (char *line = text + MIN (size, strlen (HEADER)), *end; (end = strchr (line, '\n')) != NULL; line = end + 1)
    {
      *end = '\0';
      if (ortrain_checkpoint_name_is_valid (line))
        g_ptr_array_add (names, g_strdup (line));
    }
  return names;
}

gboolean
ortrain_checkpoint_data_is_finished (int root, const char *name)
{
  int fd = openat (root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return FALSE;
  g_autoptr (GPtrArray) listed = read_list (fd);
  gboolean finished = listed != NULL && listed->len > 0 &&
                      faccessat (fd, ORTRAIN_CHECKPOINT_NEW_MANIFEST, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
  for (guint i = 0; finished && i < listed->len; i++)
    finished = faccessat (fd, listed->pdata[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  close (fd);
  return finished;
}

void
ortrain_checkpoint_remove_data (int root, const char *name, GPtrArray *names)
{
  int fd = openat (root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return;
  g_autoptr (GPtrArray) listed = read_list (fd);
  if (listed != NULL)
    names = listed;
  for (guint i = 0; names != NULL && i < names->len; i++)
    unlinkat (fd, names->pdata[i], 0);
  /* The list goes last: a removal that was cut short goes on the next time. */
  if (listed != NULL)
    {
      unlinkat (fd, ORTRAIN_CHECKPOINT_NEW_MANIFEST, 0);
      unlinkat (fd, ORTRAIN_CHECKPOINT_LIST, 0);
    }
  close (fd);
  unlinkat (root, name, AT_REMOVEDIR);
}

void
ortrain_checkpoint_sweep (int root, const char *keep, const char *old_name, GPtrArray *old_names)
{
  int fd = openat (root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir (fd) : NULL;
  if (dir == NULL)
    {
      if (fd >= 0)
        close (fd);
      return;
    }
  struct dirent *entry;
  while ((entry = readdir (dir)) != NULL)
    if (ortrain_checkpoint_is_data_name (entry->d_name) && g_strcmp0 (entry->d_name, keep) != 0)
      ortrain_checkpoint_remove_data (root, entry->d_name, g_strcmp0 (entry->d_name, old_name) == 0 ? old_names : NULL);
  closedir (dir);
}
