/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-atomic-file-private.h"

#include "core/ortrain-mapped-file-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((gsize) 1 << 16)

/* What a commit that can be undone has done. */
typedef enum
{
  COMMIT_NONE,
  COMMIT_CREATED,   /* there was no file of that name */
  COMMIT_EXCHANGED, /* the old file has the temporary name */
} Commit;

struct _OrtrainAtomicFile
{
  int directory, fd;
  char *path, *name, *temporary;
  guint8 *buffer;
  gsize n_buffered;
  OrtrainMappedSources sources; /* files that what is written comes from */
  Commit committed;
};

static gboolean
fail (OrtrainAtomicFile *self, GError **error, const char *what)
{
  int saved = errno;
  g_autofree char *shown = g_filename_display_name (self->path);
  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE, "Cannot %s '%s': %s", what, shown,
               g_strerror (saved));
  return FALSE;
}

OrtrainAtomicFile *
ortrain_atomic_file_new (const char *path, GError **error)
{
  g_autoptr (OrtrainAtomicFile) self = g_new0 (OrtrainAtomicFile, 1);
  g_autofree char *directory = g_path_get_dirname (path);
  struct stat st;

  self->directory = self->fd = -1;
  self->path = g_strdup (path);
  self->name = g_path_get_basename (path);
  if (*path == '\0' || path[strlen (path) - 1] == '/')
    {
      errno = EISDIR;
      fail (self, error, "write");
      return NULL;
    }
  self->directory = open (directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (self->directory < 0)
    {
      fail (self, error, "write");
      return NULL;
    }
  /* A device or a pipe is written to; as root, a file in its place would be a bad surprise. */
  if (stat (path, &st) == 0 && !S_ISREG (st.st_mode) && !S_ISDIR (st.st_mode))
    {
      self->fd = open (path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
      if (self->fd < 0)
        {
          fail (self, error, "write");
          return NULL;
        }
      self->buffer = g_malloc (BUFFER_BYTES);
      return g_steal_pointer (&self);
    }
  gboolean replaces = fstatat (self->directory, self->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
  if (replaces && S_ISDIR (st.st_mode))
    {
      errno = EISDIR;
      fail (self, error, "write");
      return NULL;
    }
  for (guint tries = 0; tries < 100 && self->fd < 0; tries++)
    {
      g_free (self->temporary);
      self->temporary = g_strdup_printf (".%.200s.%08x.part", self->name, g_random_int ());
      self->fd = openat (self->directory, self->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      if (self->fd < 0 && errno != EEXIST)
        break;
    }
  if (self->fd < 0)
    {
      g_clear_pointer (&self->temporary, g_free);
      fail (self, error, "write");
      return NULL;
    }
  /* who may read the old file may read the new one; where the mode cannot be set, the default stays */
  if (replaces && S_ISREG (st.st_mode) && fchmod (self->fd, st.st_mode & 0777) != 0)
    errno = 0;
  self->buffer = g_malloc (BUFFER_BYTES);
  return g_steal_pointer (&self);
}

static gboolean
write_out (OrtrainAtomicFile *self, const guint8 *data, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gssize n = write (self->fd, data, MIN (n_bytes, (gsize) 1 << 30));
      if (n < 0 && errno == EINTR)
        continue;
      if (n == 0)
        errno = ENOSPC;
      if (n <= 0)
        return fail (self, error, "write");
      data += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
flush (OrtrainAtomicFile *self, GError **error)
{
  gsize n = self->n_buffered;
  self->n_buffered = 0;
  return write_out (self, self->buffer, n, error);
}

gboolean
ortrain_atomic_file_write (OrtrainAtomicFile *self, gconstpointer data, gsize n_bytes, GError **error)
{
  ortrain_mapped_sources_add (&self->sources, data);
  if (n_bytes > BUFFER_BYTES - self->n_buffered && !flush (self, error))
    return FALSE;
  if (n_bytes >= BUFFER_BYTES)
    return write_out (self, data, n_bytes, error);
  if (n_bytes > 0)
    memcpy (self->buffer + self->n_buffered, data, n_bytes);
  self->n_buffered += n_bytes;
  return TRUE;
}

gboolean
ortrain_atomic_file_is_device (OrtrainAtomicFile *self)
{
  return self->buffer != NULL && self->temporary == NULL;
}

gboolean
ortrain_atomic_file_sync (OrtrainAtomicFile *self, GError **error)
{
  if (!flush (self, error))
    return FALSE;
  while (self->temporary != NULL && fsync (self->fd) != 0)
    if (errno != EINTR)
      return fail (self, error, "write");
  return TRUE;
}

gboolean
ortrain_atomic_file_commit (OrtrainAtomicFile *self, GError **error)
{
  if (!ortrain_atomic_file_sync (self, error) || !ortrain_mapped_sources_check (&self->sources, error))
    return FALSE;
  if (self->temporary == NULL)
    return TRUE;
  if (renameat (self->directory, self->temporary, self->directory, self->name) != 0)
    return fail (self, error, "replace");
  g_clear_pointer (&self->temporary, g_free);
  /* the name is there; if the directory cannot be synced (some file systems refuse), the file itself is whole */
  while (fsync (self->directory) != 0 && errno == EINTR)
    ;
  return TRUE;
}

gboolean
ortrain_atomic_file_commit_for_now (OrtrainAtomicFile *self, GError **error)
{
  if (!ortrain_atomic_file_sync (self, error) || !ortrain_mapped_sources_check (&self->sources, error))
    return FALSE;
  if (self->temporary == NULL)
    return TRUE;
  if (renameat2 (self->directory, self->temporary, self->directory, self->name, RENAME_EXCHANGE) == 0)
    self->committed = COMMIT_EXCHANGED;
  else
    {
      /* there is no old file, or the file system cannot exchange two */
      self->committed = errno == ENOENT ? COMMIT_CREATED : COMMIT_NONE;
      if (renameat (self->directory, self->temporary, self->directory, self->name) != 0)
        {
          self->committed = COMMIT_NONE;
          return fail (self, error, "replace");
        }
      g_clear_pointer (&self->temporary, g_free);
    }
  while (fsync (self->directory) != 0 && errno == EINTR)
    ;
  return TRUE;
}

void
ortrain_atomic_file_restore (OrtrainAtomicFile *self)
{
  if (self->committed == COMMIT_EXCHANGED)
    renameat2 (self->directory, self->temporary, self->directory, self->name, RENAME_EXCHANGE);
  else if (self->committed == COMMIT_CREATED)
    unlinkat (self->directory, self->name, 0);
  self->committed = COMMIT_NONE;
}

void
ortrain_atomic_file_free (OrtrainAtomicFile *self)
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
