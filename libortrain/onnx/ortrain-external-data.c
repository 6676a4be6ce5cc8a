/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-external-data-private.h"

#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct _OrtrainExternalData
{
  OrtrainModelLimits *limits;
  char *directory;
  GMutex lock; /* guards the following: an export may open files that were not needed for reading the model */
  int directory_fd;
  GHashTable *files; /* location → GBytes */
};

OrtrainExternalData *
ortrain_external_data_new (const char *directory, OrtrainModelLimits *limits)
{
  OrtrainExternalData *self = g_new0 (OrtrainExternalData, 1);
  self->limits = g_object_ref (limits);
  self->directory = g_strdup (directory);
  self->directory_fd = -1;
  g_mutex_init (&self->lock);
  self->files = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_bytes_unref);
  return self;
}

void
ortrain_external_data_free (OrtrainExternalData *self)
{
  if (self->directory_fd >= 0)
    close (self->directory_fd);
  g_hash_table_unref (self->files);
  g_mutex_clear (&self->lock);
  g_object_unref (self->limits);
  g_free (self->directory);
  g_free (self);
}

#define FILE_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* Where the kernel has no openat2: one component after the other, none of which may be a link. */
static int
open_by_components (int directory, const char *location, int flags, gboolean allow_links)
{
  g_auto (GStrv) parts = g_strsplit (location, "/", -1);
  const int no_follow = allow_links ? 0 : O_NOFOLLOW;
  int at = -1;

  for (guint i = 0; parts[i] != NULL; i++)
    {
      if (*parts[i] == '\0' || g_str_equal (parts[i], "."))
        continue;
      if (g_str_equal (parts[i], ".."))
        {
          if (at >= 0)
            close (at);
          errno = EXDEV;
          return -1;
        }
      gboolean last = parts[i + 1] == NULL;
      int next = openat (at >= 0 ? at : directory, parts[i],
                         last ? flags | no_follow : O_PATH | O_DIRECTORY | O_CLOEXEC | no_follow);
      int saved = errno;
      if (at >= 0)
        close (at);
      if (next < 0)
        {
          errno = saved;
          return -1;
        }
      at = next;
    }
  if (at < 0)
    errno = EISDIR;
  return at;
}

static int
open_beneath (int directory, const char *location, int flags)
{
  if (g_path_is_absolute (location))
    {
      errno = EXDEV;
      return -1;
    }
#ifdef SYS_openat2
  struct open_how how = { .flags = (guint64) flags,
                          .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
  int fd;
  do
    fd = (int) syscall (SYS_openat2, directory, location, &how, sizeof how);
  while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != E2BIG && errno != EINVAL))
    return fd;
#endif
  return open_by_components (directory, location, flags, FALSE);
}

static int
open_folder_beneath (int directory, const char *location)
{
  return open_beneath (directory, location, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* With allow-links, links may lead out of the directory; the location itself may not. */
static int
open_with_links (int directory, const char *location)
{
  if (!g_path_is_absolute (location))
    return open_by_components (directory, location, FILE_FLAGS, TRUE);
  errno = EXDEV;
  return -1;
}

/* ---- the cache of a model hub ---- */

/* ROOT/snapshots/REVISION/model.onnx_data is a link to ../../blobs/NAME there: a model may read the blobs of its own
 * ROOT, and nothing else. A link that has that form is not followed but taken apart, so that no other link, and
 * no change between looking and opening, leads out of that folder. */
#define BLOBS "blobs/"
#define SNAPSHOTS "snapshots"
#define MAX_STEPS_UP 16

/* How many folders a link goes up before it enters the blobs; 0: it is another link. name: the name of the blob. */
static guint
parse_blob_link (const char *target, const char **name)
{
  guint n = 0;
  while (g_str_has_prefix (target, "../"))
    {
      target += strlen ("../");
      n++;
    }
  *name = g_str_has_prefix (target, BLOBS) ? target + strlen (BLOBS) : "";
  const gboolean is_plain =
      **name != '\0' && strchr (*name, '/') == NULL && !g_str_equal (*name, ".") && !g_str_equal (*name, "..");
  return is_plain && n >= 2 && n <= MAX_STEPS_UP ? n : 0;
}

static gboolean
is_same_folder (int a, int b)
{
  struct stat x, y;
  return fstat (a, &x) == 0 && fstat (b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void
move_fd (int *to, int from)
{
  if (*to >= 0)
    close (*to);
  *to = from;
}

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* A file in the blobs of the folder n above this one, which lies below the snapshots there. -1: it cannot be opened. */
static int
open_blob (int folder, guint n, const char *name, gboolean *is_missing)
{
  int below = -1, at = openat (folder, ".", FOLDER_FLAGS), found = -1;
  for (guint i = 0; at >= 0 && i < n; i++)
    {
      const int above = openat (at, "..", FOLDER_FLAGS);
      move_fd (&below, at);
      at = above;
    }
  int snapshots = at >= 0 ? openat (at, SNAPSHOTS, FOLDER_FLAGS) : -1;
  int blobs = snapshots >= 0 && is_same_folder (snapshots, below) ? openat (at, "blobs", FOLDER_FLAGS) : -1;
  if (blobs >= 0)
    found = openat (blobs, name, FILE_FLAGS | O_NOFOLLOW);
  *is_missing = blobs >= 0 && found < 0 && errno == ENOENT;
  move_fd (&below, -1);
  move_fd (&snapshots, -1);
  move_fd (&blobs, -1);
  move_fd (&at, -1);
  return found;
}

/* Opens a location whose last part is a link into the blobs. -1 with ELOOP: it is another link; with ENOENT: there is
 * no such blob. */
static int
open_in_cache (int directory, const char *location)
{
  g_autofree char *folder = g_path_get_dirname (location), *last = g_path_get_basename (location);
  char target[PATH_MAX];
  const char *name;
  int found = -1;
  gboolean is_missing = FALSE;
  int at = g_str_equal (folder, ".") ? openat (directory, ".", FOLDER_FLAGS) : open_folder_beneath (directory, folder);
  const gssize length = at >= 0 ? readlinkat (at, last, target, sizeof target - 1) : -1;
  if (length > 0)
    {
      target[length] = '\0';
      const guint n = parse_blob_link (target, &name);
      found = n > 0 ? open_blob (at, n, name, &is_missing) : -1;
    }
  move_fd (&at, -1);
  if (found < 0)
    errno = is_missing ? ENOENT : ELOOP;
  return found;
}

static void
refuse (GError **error, const char *location, const char *tensor, const char *why)
{
  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "Data file '%s' of tensor '%s': %s",
               ortrain_text_show (location), ortrain_text_show (tensor), why);
}

static GBytes *
open_locked (OrtrainExternalData *self, const char *location, const char *tensor, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  gboolean allow_links = ortrain_model_limits_get_allow_links (self->limits);
  struct stat st;

  GBytes *bytes = g_hash_table_lookup (self->files, location);
  if (bytes != NULL)
    return bytes;
  if (self->directory == NULL || !ortrain_model_limits_get_allow_external_data (self->limits))
    {
      refuse (error, location, tensor,
              self->directory == NULL ? "the model was not loaded from a file, and no directory was given"
                                      : "external data are not allowed (limit 'allow-external-data')");
      return NULL;
    }
  if (*location == '\0')
    {
      refuse (error, location, tensor, "the name is empty");
      return NULL;
    }
  if (self->directory_fd < 0)
    self->directory_fd = open (self->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self->directory_fd < 0)
    {
      refuse (error, location, tensor, g_strerror (errno));
      return NULL;
    }
  gboolean in_cache = FALSE;
  int fd = allow_links ? open_with_links (self->directory_fd, location)
                       : open_beneath (self->directory_fd, location, FILE_FLAGS);
  if (fd < 0 && errno == ELOOP && !allow_links)
    {
      in_cache = TRUE;
      fd = open_in_cache (self->directory_fd, location);
    }
  if (fd < 0)
    {
      const char *why = g_strerror (errno);
      if (errno == EXDEV)
        why = "it lies outside of the model's directory";
      else if (errno == ENOENT && in_cache)
        why = "it is a link to a blob that is missing from the cache: download the model again";
      else if (errno == ELOOP)
        why = "its path has a symbolic link, which does not lead to the blobs of a model hub's cache (limit "
              "'allow-links', option --allow-links)";
      refuse (error, location, tensor, why);
      return NULL;
    }
  if (fstat (fd, &st) != 0)
    {
      refuse (error, location, tensor, g_strerror (errno));
      close (fd);
      return NULL;
    }
  if (!S_ISREG (st.st_mode))
    {
      close (fd);
      refuse (error, location, tensor, "it is not a regular file");
      return NULL;
    }
  if (st.st_nlink > 1 && !allow_links)
    {
      close (fd);
      refuse (error, location, tensor, "it has several hard links (limit 'allow-links', option --allow-links)");
      return NULL;
    }
  bytes = ortrain_mapped_file_new_bytes (fd, location, &local_error);
  close (fd);
  if (bytes == NULL)
    {
      refuse (error, location, tensor, local_error->message);
      return NULL;
    }
  g_hash_table_insert (self->files, g_strdup (location), bytes);
  return bytes;
}

GBytes *
ortrain_external_data_open (OrtrainExternalData *self, const char *location, const char *tensor, GError **error)
{
  g_mutex_lock (&self->lock);
  GBytes *bytes = open_locked (self, location, tensor, error);
  g_mutex_unlock (&self->lock);
  return bytes;
}

gboolean
ortrain_external_data_check_files (OrtrainExternalData *self, GError **error)
{
  GHashTableIter iter;
  gpointer bytes;
  gboolean ok = TRUE;

  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->files);
  while (ok && g_hash_table_iter_next (&iter, NULL, &bytes))
    ok = ortrain_mapped_file_check_address (g_bytes_get_data (bytes, NULL), error);
  g_mutex_unlock (&self->lock);
  return ok;
}

guint64
ortrain_external_data_get_n_bytes (OrtrainExternalData *self)
{
  GHashTableIter iter;
  gpointer bytes;
  guint64 n = 0;

  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->files);
  while (g_hash_table_iter_next (&iter, NULL, &bytes))
    n += g_bytes_get_size (bytes);
  g_mutex_unlock (&self->lock);
  return n;
}

void
ortrain_external_data_trim (OrtrainExternalData *self)
{
  GHashTableIter iter;
  gpointer bytes;

  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->files);
  while (g_hash_table_iter_next (&iter, NULL, &bytes))
    ortrain_mapped_file_trim (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  g_mutex_unlock (&self->lock);
}
