/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-file-writer-private.h"

#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define BUFFER_BYTES ((gsize) 1 << 16)

/* The progress of a commit, which can be undone. */
typedef enum
{
  COMMIT_NONE,
  COMMIT_CREATED,   /* there was no file of that name */
  COMMIT_EXCHANGED, /* the old file has the temporary name */
} Commit;

struct _OrtrainFileWriter
{
  int directory, fd; /* all is done through a handle of the directory, which may get another name meanwhile */
  char *path, *name;
  char *temporary; /* below the directory; NULL: written under its own name */
  gboolean is_device;
  guint8 *buffer;
  gsize n_buffered;
  guint64 position;
  gboolean has_crc;
  guint32 crc;
  OrtrainMappedSources sources; /* mapped files that the contents come from */
  Commit committed;
};

static gboolean
fail (OrtrainFileWriter *self, const char *what, int code, GError **error)
{
  const char *shown = ortrain_text_show_path (self->path);
  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot %s '%s': %s", what, shown, g_strerror (code));
  return FALSE;
}

static gboolean
create (OrtrainFileWriter *self, const char *name)
{
  self->fd = openat (self->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  return self->fd >= 0;
}

/* temporary: NULL for a fresh name */
static gboolean
open_beside (OrtrainFileWriter *self, const char *temporary, GError **error)
{
  struct stat st;
  const gboolean replaces = fstatat (self->directory, self->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces && S_ISDIR (st.st_mode))
    return fail (self, "write", EISDIR, error);
  self->temporary = g_strdup (temporary);
  if (temporary != NULL)
    create (self, temporary);
  for (guint tries = 0; temporary == NULL && tries < 100 && self->fd < 0; tries++)
    {
      g_free (self->temporary);
      self->temporary = g_strdup_printf (".%.200s.%08x.part", self->name, g_random_int ());
      if (!create (self, self->temporary) && errno != EEXIST)
        break;
    }
  if (self->fd < 0)
    {
      const int code = errno;
      g_clear_pointer (&self->temporary, g_free); /* not ours */
      return fail (self, "write", code, error);
    }
  /* who may read the old file may read the new one; where the mode cannot be set, the default stays */
  if (replaces && S_ISREG (st.st_mode))
    (void) !fchmod (self->fd, st.st_mode & 0777);
  return TRUE;
}

static OrtrainFileWriter *
new_writer (const char *path, const char *temporary, gboolean in_place, GError **error)
{
  g_autoptr (OrtrainFileWriter) self = g_new0 (OrtrainFileWriter, 1);
  g_autofree char *directory = g_path_get_dirname (path);
  struct stat st;
  gboolean opened;
  self->directory = self->fd = -1;
  self->path = g_strdup (path);
  self->name = g_path_get_basename (path);
  self->buffer = g_malloc (BUFFER_BYTES);
  if (*path == '\0' || path[strlen (path) - 1] == '/')
    opened = fail (self, "write", EISDIR, error);
  else if ((self->directory = open (directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
    opened = fail (self, "write", errno, error);
  else if (in_place)
    opened = create (self, self->name) || fail (self, "write", errno, error);
  /* as root, a file in the place of a device or a pipe would be a bad surprise */
  else if (stat (path, &st) == 0 && !S_ISREG (st.st_mode) && !S_ISDIR (st.st_mode))
    {
      self->is_device = TRUE;
      self->fd = open (path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
      opened = self->fd >= 0 || fail (self, "write", errno, error);
    }
  else
    opened = open_beside (self, temporary, error);
  return opened ? g_steal_pointer (&self) : NULL;
}

OrtrainFileWriter *
ortrain_file_writer_new (const char *path, GError **error)
{
  return new_writer (path, NULL, FALSE, error);
}

OrtrainFileWriter *
ortrain_file_writer_new_through (const char *path, const char *temporary, GError **error)
{
  return new_writer (path, temporary, FALSE, error);
}

OrtrainFileWriter *
ortrain_file_writer_new_in_place (const char *path, GError **error)
{
  return new_writer (path, NULL, TRUE, error);
}

static gboolean
write_out (OrtrainFileWriter *self, const guint8 *data, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      const gssize n = write (self->fd, data, MIN (n_bytes, (gsize) 1 << 30));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && errno == EFAULT && !ortrain_mapped_sources_check (&self->sources, error))
        return FALSE;
      if (n <= 0)
        return fail (self, "write", n < 0 ? errno : ENOSPC, error);
      data += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
flush (OrtrainFileWriter *self, GError **error)
{
  const gsize n = self->n_buffered;
  self->n_buffered = 0;
  return write_out (self, self->buffer, n, error);
}

gboolean
ortrain_file_writer_write (OrtrainFileWriter *self, gconstpointer data, gsize n_bytes, GError **error)
{
  if (n_bytes == 0)
    return TRUE;
  ortrain_mapped_sources_add (&self->sources, data);
  if (self->has_crc)
    self->crc = (guint32) crc32_z (self->crc, data, n_bytes);
  self->position += n_bytes;
  if (n_bytes > BUFFER_BYTES - self->n_buffered && !flush (self, error))
    return FALSE;
  if (n_bytes >= BUFFER_BYTES)
    return write_out (self, data, n_bytes, error);
  memcpy (self->buffer + self->n_buffered, data, n_bytes);
  self->n_buffered += n_bytes;
  return TRUE;
}

gboolean
ortrain_file_writer_pad (OrtrainFileWriter *self, gsize n_bytes, GError **error)
{
  static const guint8 zeros[256];
  while (n_bytes > 0)
    {
      const gsize n = MIN (n_bytes, sizeof zeros);
      if (!ortrain_file_writer_write (self, zeros, n, error))
        return FALSE;
      n_bytes -= n;
    }
  return TRUE;
}

guint64
ortrain_file_writer_get_position (OrtrainFileWriter *self)
{
  return self->position;
}

gboolean
ortrain_file_writer_is_device (OrtrainFileWriter *self)
{
  return self->is_device;
}

void
ortrain_file_writer_enable_crc32 (OrtrainFileWriter *self)
{
  self->has_crc = TRUE;
}

guint32
ortrain_file_writer_get_crc32 (OrtrainFileWriter *self)
{
  return self->crc;
}

gboolean
ortrain_file_writer_sync (OrtrainFileWriter *self, GError **error)
{
  if (!flush (self, error))
    return FALSE;
  while (!self->is_device && fsync (self->fd) != 0)
    if (errno != EINTR)
      return fail (self, "write", errno, error);
  return TRUE;
}

/* The name is there; where the directory cannot be synced (some file systems refuse), the file itself is whole. */
static void
sync_directory (OrtrainFileWriter *self)
{
  while (fsync (self->directory) != 0 && errno == EINTR)
    ;
}

static gboolean
give_name (OrtrainFileWriter *self, GError **error)
{
  if (renameat (self->directory, self->temporary, self->directory, self->name) != 0)
    return fail (self, "replace", errno, error);
  g_clear_pointer (&self->temporary, g_free);
  sync_directory (self);
  return TRUE;
}

gboolean
ortrain_file_writer_commit (OrtrainFileWriter *self, GError **error)
{
  return ortrain_file_writer_sync (self, error) && ortrain_mapped_sources_check (&self->sources, error) &&
         (self->temporary == NULL || give_name (self, error));
}

gboolean
ortrain_file_writer_commit_for_now (OrtrainFileWriter *self, GError **error)
{
  if (!ortrain_file_writer_sync (self, error) || !ortrain_mapped_sources_check (&self->sources, error))
    return FALSE;
  if (self->temporary == NULL)
    return TRUE;
  if (renameat2 (self->directory, self->temporary, self->directory, self->name, RENAME_EXCHANGE) == 0)
    {
      self->committed = COMMIT_EXCHANGED;
      sync_directory (self);
      return TRUE;
    }
  /* there is no old file, or the file system cannot exchange two */
  const Commit committed = errno == ENOENT ? COMMIT_CREATED : COMMIT_NONE;
  if (!give_name (self, error))
    return FALSE;
  self->committed = committed;
  return TRUE;
}

void
ortrain_file_writer_restore (OrtrainFileWriter *self)
{
  if (self->committed == COMMIT_EXCHANGED)
    renameat2 (self->directory, self->temporary, self->directory, self->name, RENAME_EXCHANGE);
  else if (self->committed == COMMIT_CREATED)
    unlinkat (self->directory, self->name, 0);
  self->committed = COMMIT_NONE;
}

void
ortrain_file_writer_free (OrtrainFileWriter *self)
{
  if (self->fd >= 0)
    close (self->fd);
  if (self->temporary != NULL)
    unlinkat (self->directory, self->temporary, 0);
  if (self->directory >= 0)
    close (self->directory);
  g_free (self->path);
  g_free (self->name);
  g_free (self->temporary);
  g_free (self->buffer);
  ortrain_mapped_sources_clear (&self->sources);
  g_free (self);
}

gboolean
ortrain_file_write_text (const char *path, const char *text, GError **error)
{
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, error);
  return writer != NULL && ortrain_file_writer_write (writer, text, strlen (text), error) &&
         ortrain_file_writer_commit (writer, error);
}
