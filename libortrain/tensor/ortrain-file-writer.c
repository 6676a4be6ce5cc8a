/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-file-writer-private.h"

#include "tensor/ortrain-tensor-files-private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct _OrtrainFileWriter
{
  char *path;
  char *temporary; /* NULL: written in place (a device or a pipe, which no rename can replace) */
  int fd;
  guint64 position;
  gboolean durable;
  gboolean has_crc;
  guint32 crc;
};

static void
set_errno (GError **error, const char *path, const char *what, int code)
{
  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "%s: %s failed: %s", path, what, g_strerror (code));
}

OrtrainFileWriter *
ortrain_file_writer_new (const char *path, gboolean durable, GError **error)
{
  g_autoptr (OrtrainFileWriter) self = g_new0 (OrtrainFileWriter, 1);
  struct stat st;
  gboolean exists = stat (path, &st) == 0;
  self->durable = durable;
  self->fd = -1;
  /* A link stays a link: what it points to is replaced. */
  g_autofree char *target = NULL;
  if (exists && (target = realpath (path, NULL)) != NULL)
    self->path = g_strdup (target);
  else
    self->path = g_strdup (path);

  if (exists && S_ISDIR (st.st_mode))
    {
      set_errno (error, path, "writing", EISDIR);
      return NULL;
    }
  if (exists && !S_ISREG (st.st_mode))
    {
      self->fd = open (self->path, O_WRONLY | O_CLOEXEC);
      self->durable = FALSE;
    }
  else
    {
      self->temporary = g_strconcat (self->path, ".XXXXXX", NULL);
      self->fd = g_mkstemp_full (self->temporary, O_WRONLY | O_CLOEXEC, 0666);
    }
  if (self->fd < 0)
    {
      set_errno (error, path, "opening it for writing", errno);
      g_clear_pointer (&self->temporary, g_free);
      return NULL;
    }
  if (exists && self->temporary != NULL && fchmod (self->fd, st.st_mode & 07777) != 0)
    {
      set_errno (error, path, "keeping its mode", errno);
      return NULL;
    }
  return g_steal_pointer (&self);
}

gboolean
ortrain_file_writer_write (OrtrainFileWriter *self, gconstpointer data, gsize n_bytes, GError **error)
{
  const char *p = data;
  if (self->has_crc)
    self->crc = ortrain_crc32 (self->crc, data, n_bytes);
  while (n_bytes > 0)
    {
      ssize_t n = write (self->fd, p, MIN (n_bytes, (gsize) 1 << 30));
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          set_errno (error, self->path, "writing", n < 0 ? errno : ENOSPC);
          return FALSE;
        }
      p += n;
      n_bytes -= (gsize) n;
      self->position += (guint64) n;
    }
  return TRUE;
}

gboolean
ortrain_file_writer_pad (OrtrainFileWriter *self, gsize n_bytes, GError **error)
{
  static const guint8 zeros[256];
  while (n_bytes > 0)
    {
      gsize n = MIN (n_bytes, sizeof zeros);
      if (!ortrain_file_writer_write (self, zeros, n, error))
        return FALSE;
      n_bytes -= n;
    }
  return TRUE;
}

guint64
ortrain_file_writer_tell (OrtrainFileWriter *self)
{
  return self->position;
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
ortrain_file_writer_commit (OrtrainFileWriter *self, GError **error)
{
  while (self->durable && fsync (self->fd) != 0)
    {
      if (errno == EINTR)
        continue;
      set_errno (error, self->path, "bringing it to the disk", errno);
      return FALSE;
    }
  /* Network file systems tell of a full disk only now. */
  int fd = self->fd;
  self->fd = -1;
  if (close (fd) != 0 && errno != EINTR)
    {
      set_errno (error, self->path, "closing it", errno);
      return FALSE;
    }
  if (self->temporary != NULL)
    {
      if (rename (self->temporary, self->path) != 0)
        {
          set_errno (error, self->path, "replacing it", errno);
          return FALSE;
        }
      g_clear_pointer (&self->temporary, g_free);
    }
  return TRUE;
}

void
ortrain_file_writer_free (OrtrainFileWriter *self)
{
  if (self == NULL)
    return;
  if (self->fd >= 0)
    close (self->fd);
  if (self->temporary != NULL)
    unlink (self->temporary);
  g_free (self->temporary);
  g_free (self->path);
  g_free (self);
}

GBytes *
ortrain_file_map (const char *path, GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  return file != NULL ? g_mapped_file_get_bytes (file) : NULL;
}
