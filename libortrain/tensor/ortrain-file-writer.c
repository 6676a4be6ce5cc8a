/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-file-writer-private.h"

#include "core/ortrain-mapped-file-private.h"
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
  OrtrainMappedSources sources; /* files that what is written comes from */
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

OrtrainFileWriter *
ortrain_file_writer_new_in_place (const char *path, gboolean durable, GError **error)
{
  g_autoptr (OrtrainFileWriter) self = g_new0 (OrtrainFileWriter, 1);
  self->durable = durable;
  self->path = g_strdup (path);
  self->fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (self->fd >= 0)
    return g_steal_pointer (&self);
  set_errno (error, path, "opening it for writing", errno);
  return NULL;
}

gboolean
ortrain_file_writer_write (OrtrainFileWriter *self, gconstpointer data, gsize n_bytes, GError **error)
{
  const char *p = data;
  ortrain_mapped_sources_add (&self->sources, data);
  if (self->has_crc)
    self->crc = ortrain_crc32 (self->crc, data, n_bytes);
  while (n_bytes > 0)
    {
      ssize_t n = write (self->fd, p, MIN (n_bytes, (gsize) 1 << 30));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && errno == EFAULT && !ortrain_mapped_sources_check (&self->sources, error))
        return FALSE;
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
ortrain_file_writer_get_position (OrtrainFileWriter *self)
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
  if (!ortrain_mapped_sources_check (&self->sources, error))
    return FALSE;
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
  ortrain_mapped_sources_clear (&self->sources);
  g_free (self);
}

GBytes *
ortrain_file_map (const char *path, GError **error)
{
  /* O_NONBLOCK: a pipe in the place of a file must not hold us up */
  int fd = open (path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    {
      int code = errno;
      g_autofree char *shown = g_filename_display_name (path);
      g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (code), "%s: opening it failed: %s", shown,
                   g_strerror (code));
      return NULL;
    }
  GBytes *bytes = ortrain_mapped_file_new_bytes (fd, path, error);
  close (fd);
  if (bytes == NULL)
    g_prefix_error (error, "%s: ", path);
  return bytes;
}

gboolean
ortrain_file_check (GBytes *bytes, GError **error)
{
  return ortrain_mapped_file_check_address (g_bytes_get_data (bytes, NULL), error);
}
