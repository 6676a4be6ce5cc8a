/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-folder-private.h"
#include "checkpoint/ortrain-checkpoint-manifest-private.h"
#include "checkpoint/ortrain-checkpoint-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-files-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Reading a checkpoint. A save may replace it at any time: so all files are opened first, which takes no time and keeps
 * them, and are read then. If some were gone already, the manifest is another one by now, and all begins again. */

#define MAX_WAIT (30 * G_TIME_SPAN_SECOND)
#define MAX_PAUSE 20000 /* µs */

void (*ortrain_checkpoint_load_hook) (const char *where);

static void
fault_point (const char *where)
{
  if (ortrain_checkpoint_load_hook != NULL)
    ortrain_checkpoint_load_hook (where);
}

/* A file that the manifest names. */
typedef struct
{
  const char *name; /* the manifest's */
  gint64 n_bytes;
  const char *crc;
  GBytes *bytes;
} File;

static void
file_clear (gpointer data)
{
  g_clear_pointer (&((File *) data)->bytes, g_bytes_unref);
}

static gboolean
add_files (JsonNode *list, const OrtrainFolder *data, GArray *files, GError **error)
{
  if (!JSON_NODE_HOLDS_ARRAY (list))
    return ortrain_manifest_fail (error, "has a section that is not a list");
  JsonArray *array = json_node_get_array (list);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *node = json_array_get_element (array, i);
      if (!JSON_NODE_HOLDS_OBJECT (node))
        return ortrain_manifest_fail (error, "has an entry of a file that is not an object");
      JsonObject *object = json_node_get_object (node);
      JsonNode *name = ortrain_manifest_get_member (object, "file", G_TYPE_STRING);
      JsonNode *n_bytes = ortrain_manifest_get_member (object, "bytes", G_TYPE_INT64);
      JsonNode *crc = ortrain_manifest_get_member (object, "crc32", G_TYPE_STRING);
      if (name == NULL || n_bytes == NULL || crc == NULL)
        return ortrain_manifest_fail (error, "has a file without name, size or checksum");
      if (!ortrain_checkpoint_name_is_valid (json_node_get_string (name)))
        return ortrain_manifest_fail (error, "has a file with an invalid name");
      if (files->len >= ORTRAIN_MANIFEST_MAX_FILES)
        return ortrain_manifest_fail (error, "has more than 10000 files");
      File file = { json_node_get_string (name), json_node_get_int (n_bytes), json_node_get_string (crc), NULL };
      for (guint k = 0; k < files->len; k++)
        if (g_str_equal (g_array_index (files, File, k).name, file.name))
          {
            g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                         "The manifest lists the file '%s' twice", ortrain_text_show (file.name));
            return FALSE;
          }
      file.bytes = ortrain_folder_map (data, file.name, error);
      if (file.bytes == NULL)
        return FALSE;
      g_array_append_val (files, file);
    }
  return TRUE;
}

static gboolean
check_file (const File *file, GError **error)
{
  gsize found = g_bytes_get_size (file->bytes);
  if (file->n_bytes < 0 || found != (guint64) file->n_bytes)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                   "'%s' has %" G_GSIZE_FORMAT " bytes, the manifest says %" G_GINT64_FORMAT,
                   ortrain_text_show (file->name), found, file->n_bytes);
      return FALSE;
    }
  g_autofree char *sum = g_strdup_printf ("%08lx", crc32_z (0, g_bytes_get_data (file->bytes, NULL), found));
  if (g_str_equal (sum, file->crc))
    return TRUE;
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "'%s' has the checksum %s, the manifest says %s", ortrain_text_show (file->name),
               ortrain_text_show (sum), ortrain_text_show (file->crc));
  return FALSE;
}

static gboolean
read_section (const File *files, guint n_files, OrtrainTensorDict *tensors, GError **error)
{
  guint64 expected = 0;
  for (guint i = 0; i < n_files; i++)
    {
      g_autoptr (OrtrainTensorDict) shard = ortrain_tensor_dict_new ();
      if (!check_file (&files[i], error))
        return FALSE;
      if (!ortrain_safetensors_parse (files[i].bytes, shard, NULL, error) ||
          !ortrain_mapped_file_check_address (g_bytes_get_data (files[i].bytes, NULL), error))
        {
          g_prefix_error (error, "%s: ", ortrain_text_show (files[i].name));
          return FALSE;
        }
      expected += ortrain_tensor_dict_get_size (shard);
      for (guint k = 0; k < ortrain_tensor_dict_get_size (shard); k++)
        ortrain_tensor_dict_set (tensors, ortrain_tensor_dict_get_name (shard, k),
                                 ortrain_tensor_dict_get_tensor (shard, k));
    }
  return ortrain_tensor_dict_get_size (tensors) == expected ||
         ortrain_manifest_fail (error, "has a tensor in two files");
}

static gboolean
read_metadata (OrtrainCheckpointContents *self, JsonObject *metadata, GError **error)
{
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;
  json_object_iter_init_ordered (&iter, metadata);
  while (json_object_iter_next_ordered (&iter, &key, &node))
    {
      JsonObject *object = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      JsonNode *type = object != NULL ? ortrain_manifest_get_member (object, "type", G_TYPE_STRING) : NULL;
      JsonNode *data = object != NULL ? ortrain_manifest_get_member (object, "data", G_TYPE_STRING) : NULL;
      if (type == NULL || data == NULL || !g_variant_type_string_is_valid (json_node_get_string (type)) ||
          !g_variant_type_is_definite (G_VARIANT_TYPE (json_node_get_string (type))))
        return ortrain_manifest_fail (error, "has a value without type and data");
      gsize size;
      guchar *bytes = g_base64_decode (json_node_get_string (data), &size);
      g_autoptr (GVariant) value = g_variant_ref_sink (
          g_variant_new_from_data (G_VARIANT_TYPE (json_node_get_string (type)), bytes, size, FALSE, g_free, bytes));
      if (!g_variant_is_normal_form (value))
        return ortrain_manifest_fail (error, "has a value that does not match its type");
      ortrain_checkpoint_contents_put (self->keys, self->values, key, g_variant_ref (value),
                                       (GDestroyNotify) g_variant_unref);
    }
  return TRUE;
}

/* Opens all, then reads all. */
static gboolean
read_data (OrtrainCheckpointContents *self, const OrtrainFolder *data, JsonObject *sections, JsonNode *other_files,
           GError **error)
{
  g_autoptr (GArray) files = g_array_new (FALSE, FALSE, sizeof (File));
  g_autoptr (GArray) ends = g_array_new (FALSE, FALSE, sizeof (guint)); /* of the sections, in files */
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;
  g_array_set_clear_func (files, file_clear);
  json_object_iter_init_ordered (&iter, sections);
  while (json_object_iter_next_ordered (&iter, &name, &node))
    {
      if (!ortrain_checkpoint_name_is_valid (name))
        return ortrain_manifest_fail (error, "has a section with an invalid name");
      if (!add_files (node, data, files, error))
        return FALSE;
      g_array_append_val (ends, files->len);
    }
  if (!add_files (other_files, data, files, error))
    return FALSE;
  fault_point ("files opened");

  guint begin = 0, s = 0;
  json_object_iter_init_ordered (&iter, sections);
  while (json_object_iter_next_ordered (&iter, &name, NULL))
    {
      guint end = g_array_index (ends, guint, s++);
      g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
      if (!read_section ((const File *) files->data + begin, end - begin, tensors, error))
        return FALSE;
      ortrain_checkpoint_contents_put (self->section_names, self->sections, name, g_steal_pointer (&tensors),
                                       g_object_unref);
      begin = end;
    }
  for (; begin < files->len; begin++)
    {
      const File *file = &g_array_index (files, File, begin);
      if (!check_file (file, error))
        return FALSE;
      ortrain_checkpoint_contents_put (self->file_names, self->files, file->name, g_bytes_ref (file->bytes),
                                       (GDestroyNotify) g_bytes_unref);
    }
  return TRUE;
}

static gboolean
read_manifest (OrtrainCheckpointContents *self, JsonObject *manifest, const OrtrainFolder *root, GError **error)
{
  JsonNode *data_node = ortrain_manifest_get_member (manifest, "data", G_TYPE_STRING);
  JsonNode *sections = ortrain_manifest_get_member (manifest, "sections", JSON_TYPE_OBJECT);
  JsonNode *files = ortrain_manifest_get_member (manifest, "files", JSON_TYPE_ARRAY);
  JsonNode *metadata = ortrain_manifest_get_member (manifest, "metadata", JSON_TYPE_OBJECT);
  if (data_node == NULL || !ortrain_checkpoint_is_data_name (json_node_get_string (data_node)) || sections == NULL ||
      files == NULL || metadata == NULL)
    return ortrain_manifest_fail (error, "is incomplete");
  if (!read_metadata (self, json_node_get_object (metadata), error))
    return FALSE;
  fault_point ("manifest read");
  const char *name = json_node_get_string (data_node);
  OrtrainFolder data = { openat (root->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), NULL };
  if (data.fd < 0)
    {
      int code = errno;
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot open '%s': %s", ortrain_text_show (name),
                   g_strerror (code));
      return FALSE;
    }
  data.path = g_build_filename (root->path, name, NULL);
  gboolean right = read_data (self, &data, json_node_get_object (sections), files, error);
  close (data.fd);
  g_free (data.path);
  return right;
}

/* *replaced: it failed, and there is another manifest now */
static gboolean
load_once (OrtrainCheckpointContents *self, const OrtrainFolder *root, gboolean *replaced, GError **error)
{
  *replaced = FALSE;
  g_autoptr (GBytes) text = ortrain_manifest_map (root, error);
  if (text == NULL)
    return FALSE;
  g_autoptr (JsonNode) node = ortrain_manifest_parse (text, error);
  if (node == NULL)
    return FALSE;
  if (read_manifest (self, json_node_get_object (node), root, error))
    return TRUE;
  g_autoptr (GBytes) now = ortrain_manifest_map (root, NULL);
  *replaced = now != NULL && !g_bytes_equal (now, text);
  return FALSE;
}

static void
forget (OrtrainCheckpointContents *self)
{
  GPtrArray *all[] = { self->section_names, self->sections, self->file_names, self->files, self->keys, self->values };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    g_ptr_array_set_size (all[i], 0);
}

/**
 * ortrain_checkpoint_find:
 * @path: (type filename): the folder of a checkpoint
 * @found: (out): whether there is one
 * @error: return location for an error
 *
 * Looks for a checkpoint to continue from, as [property@Trainer:resume] does. A checkpoint that is found may still be
 * damaged, which is noticed when it is loaded. A folder that does not exist, is empty, or has only files that the first
 * save left when it was killed, has no checkpoint yet; one that has the files of a checkpoint and no manifest is
 * %ORTRAIN_CHECKPOINT_ERROR_INVALID.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_checkpoint_find (const char *path, gboolean *found, GError **error)
{
  g_return_val_if_fail (path != NULL && found != NULL, FALSE);
  struct stat st;
  const int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  g_autofree char *lost = NULL;
  *found = fd >= 0 && fstatat (fd, ORTRAIN_MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
  const int own = fd >= 0 && !*found ? openat (fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  DIR *dir = own >= 0 ? fdopendir (own) : NULL;
  struct dirent *entry;
  while (dir != NULL && lost == NULL && (entry = readdir (dir)) != NULL)
    if (ortrain_checkpoint_is_data_name (entry->d_name) && ortrain_checkpoint_data_is_finished (fd, entry->d_name))
      lost = g_strdup (entry->d_name);
  if (dir != NULL)
    closedir (dir);
  else if (own >= 0)
    close (own);
  if (fd >= 0)
    close (fd);
  if (lost == NULL)
    return TRUE;
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
               "'%s' has the files of a checkpoint (%s), but no %s: restore that file, or start a new training in "
               "another folder",
               ortrain_text_show_path (path), lost, ORTRAIN_MANIFEST_NAME);
  return FALSE;
}

gboolean
ortrain_checkpoint_contents_load (OrtrainCheckpointContents *self, const char *path, GCancellable *cancellable,
                                  GError **error)
{
  int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int manifest = fd >= 0 ? faccessat (fd, ORTRAIN_MANIFEST_NAME, F_OK, 0) : -1;
  if (manifest != 0)
    {
      int code = errno;
      if (fd >= 0)
        close (fd);
      if (code != ENOENT && code != ENOTDIR)
        g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot open '%s': %s",
                     ortrain_text_show_path (path), g_strerror (code));
      else
        g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND,
                     "There is no checkpoint in '%s'", ortrain_text_show_path (path));
      return FALSE;
    }
  const OrtrainFolder root = { fd, (char *) path };
  const gint64 deadline = g_get_monotonic_time () + MAX_WAIT;
  gboolean loaded = FALSE;
  for (gulong pause = 100;; pause = MIN (2 * pause, MAX_PAUSE))
    {
      gboolean replaced;
      g_autoptr (GError) local_error = NULL;
      forget (self);
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        break;
      loaded = load_once (self, &root, &replaced, &local_error);
      if (loaded)
        break;
      if (!replaced || g_get_monotonic_time () > deadline)
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", ortrain_text_show_path (path));
          break;
        }
      g_usleep (pause);
    }
  close (fd);
  return loaded;
}
