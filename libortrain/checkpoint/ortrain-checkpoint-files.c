/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "tensor/ortrain-tensor-files-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A checkpoint on the disk:
 *
 *   FOLDER/manifest.json                               names the data folder, and all its files with sizes and
 * checksums FOLDER/data-0123456789abcdef/parameters-00001.safetensors, …, model.onnx
 *
 * A save writes a data folder with a new name, brings it to the disk, and then replaces the manifest, by a rename.
 * That rename is the one step in which the old checkpoint becomes the new one. Data folders that no manifest names are
 * what a killed save has left, or what this one has made superfluous: the next save removes them. A lock on the folder
 * keeps two saves apart; it goes away with the process that holds it.
 *
 * The manifest may come from a stranger: names are plain, files are opened below the folder without following links,
 * and everything is measured before it is used. */

#define FORMAT "ortrain-checkpoint"
#define VERSION 1
#define MANIFEST "manifest.json"
#define DATA_PREFIX "data-"
#define MAX_MANIFEST ((gsize) 16 << 20)
#define MAX_DEPTH 8

void (*ortrain_checkpoint_save_hook) (const char *where);

static void
reached (const char *where)
{
  if (ortrain_checkpoint_save_hook != NULL)
    ortrain_checkpoint_save_hook (where);
}

static gboolean
fail_errno (GError **error, const char *path, const char *what, int code)
{
  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "%s: %s failed: %s", path, what, g_strerror (code));
  return FALSE;
}

/* "data-" and 16 hexadecimal digits: a name that only a save makes, and that may be removed. */
static gboolean
is_data_name (const char *name)
{
  gsize prefix = strlen (DATA_PREFIX);
  if (strncmp (name, DATA_PREFIX, prefix) != 0 || strlen (name) != prefix + 16)
    return FALSE;
  for (const char *p = name + prefix; *p != '\0'; p++)
    if (!g_ascii_isxdigit (*p))
      return FALSE;
  return TRUE;
}

static gboolean
sync_folder (const char *path, GError **error)
{
  int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return fail_errno (error, path, "opening it", errno);
  /* Some file systems cannot do this to a folder, and need not. */
  int code;
  do
    code = fsync (fd) != 0 ? errno : 0;
  while (code == EINTR);
  if (code == EINVAL || code == ENOTSUP)
    code = 0;
  close (fd);
  return code == 0 || fail_errno (error, path, "bringing it to the disk", code);
}

/* Removes a data folder; there are only files in it. What cannot be removed stays for the next time. */
static void
remove_data (int root, const char *name)
{
  int fd = openat (root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir (fd) : NULL;
  if (dir == NULL)
    {
      if (fd >= 0)
        close (fd);
      return;
    }
  struct dirent *entry;
  while ((entry = readdir (dir)) != NULL)
    if (strcmp (entry->d_name, ".") != 0 && strcmp (entry->d_name, "..") != 0)
      unlinkat (fd, entry->d_name, 0);
  closedir (dir);
  unlinkat (root, name, AT_REMOVEDIR);
}

/* Removes what saves have left, all but the data folder `keep`. */
static void
sweep (int root, const char *keep)
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
    {
      gsize prefix = strlen (MANIFEST ".");
      if (is_data_name (entry->d_name) && g_strcmp0 (entry->d_name, keep) != 0)
        remove_data (root, entry->d_name);
      else if (strncmp (entry->d_name, MANIFEST ".", prefix) == 0 && strlen (entry->d_name) == prefix + 6)
        unlinkat (root, entry->d_name, 0); /* a temporary manifest */
    }
  closedir (dir);
}

static void
add_file (JsonBuilder *builder, const char *name, OrtrainFileWriter *writer)
{
  g_autofree char *crc = g_strdup_printf ("%08x", ortrain_file_writer_get_crc32 (writer));
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "file");
  json_builder_add_string_value (builder, name);
  json_builder_set_member_name (builder, "bytes");
  json_builder_add_int_value (builder, (gint64) ortrain_file_writer_tell (writer));
  json_builder_set_member_name (builder, "crc32");
  json_builder_add_string_value (builder, crc);
  json_builder_end_object (builder);
}

static OrtrainFileWriter *
open_writer (const char *folder, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "the checkpoint has two files %s",
                   name);
      return NULL;
    }
  OrtrainFileWriter *writer = ortrain_file_writer_new (path, TRUE, error);
  if (writer != NULL)
    ortrain_file_writer_enable_crc32 (writer);
  return writer;
}

static gboolean
save_shard (OrtrainTensorDict *shard, const char *folder, const char *section, guint number, JsonBuilder *builder,
            GError **error)
{
  g_autofree char *name = g_strdup_printf ("%s-%05u.safetensors", section, number);
  g_autoptr (OrtrainFileWriter) writer = open_writer (folder, name, error);
  if (writer == NULL || !ortrain_safetensors_write (shard, NULL, writer, error) ||
      !ortrain_file_writer_commit (writer, error))
    return FALSE;
  add_file (builder, name, writer);
  reached (name);
  return TRUE;
}

static gboolean
save_section (const OrtrainCheckpointContents *self, guint index, const char *folder, JsonBuilder *builder,
              GCancellable *cancellable, GError **error)
{
  OrtrainTensorDict *tensors = self->sections->pdata[index];
  const char *section = self->section_names->pdata[index];
  g_autoptr (OrtrainTensorDict) shard = ortrain_tensor_dict_new ();
  guint64 n_bytes = 0;
  guint number = 1;
  json_builder_set_member_name (builder, section);
  json_builder_begin_array (builder);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (tensors); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (tensors, i);
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      if (n_bytes > 0 && n_bytes + ortrain_tensor_get_n_bytes (tensor) > self->max_shard_bytes)
        {
          if (!save_shard (shard, folder, section, number++, builder, error))
            return FALSE;
          g_object_unref (shard);
          shard = ortrain_tensor_dict_new ();
          n_bytes = 0;
        }
      ortrain_tensor_dict_set (shard, ortrain_tensor_dict_get_name (tensors, i), tensor);
      n_bytes += ortrain_tensor_get_n_bytes (tensor);
    }
  if (!save_shard (shard, folder, section, number, builder, error))
    return FALSE;
  json_builder_end_array (builder);
  return TRUE;
}

static gboolean
save_data (const OrtrainCheckpointContents *self, const char *folder, JsonBuilder *builder, GCancellable *cancellable,
           GError **error)
{
  json_builder_set_member_name (builder, "sections");
  json_builder_begin_object (builder);
  for (guint i = 0; i < self->sections->len; i++)
    if (!save_section (self, i, folder, builder, cancellable, error))
      return FALSE;
  json_builder_end_object (builder);

  json_builder_set_member_name (builder, "files");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->files->len; i++)
    {
      gsize n_bytes;
      gconstpointer data = g_bytes_get_data (self->files->pdata[i], &n_bytes);
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      g_autoptr (OrtrainFileWriter) writer = open_writer (folder, self->file_names->pdata[i], error);
      if (writer == NULL || !ortrain_file_writer_write (writer, data, n_bytes, error) ||
          !ortrain_file_writer_commit (writer, error))
        return FALSE;
      add_file (builder, self->file_names->pdata[i], writer);
      reached (self->file_names->pdata[i]);
    }
  json_builder_end_array (builder);
  return sync_folder (folder, error);
}

static gboolean
write_manifest (const char *path, JsonBuilder *builder, GError **error)
{
  g_autoptr (JsonNode) node = json_builder_get_root (builder);
  g_autofree char *text = json_to_string (node, TRUE);
  g_autofree char *file = g_build_filename (path, MANIFEST, NULL);
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (file, TRUE, error);
  if (writer == NULL || !ortrain_file_writer_write (writer, text, strlen (text), error) ||
      !ortrain_file_writer_write (writer, "\n", 1, error))
    return FALSE;
  reached ("manifest written");
  return ortrain_file_writer_commit (writer, error);
}

/* The text is for people; what counts is the serialised form, as the text of numbers does not bring all of them back.
 */
static void
add_value (JsonBuilder *builder, const char *key, GVariant *value)
{
  g_autoptr (GVariant) normal = g_variant_get_normal_form (value);
  g_autofree char *text = g_variant_print (normal, FALSE);
  g_autofree char *data = g_base64_encode (g_variant_get_data (normal), g_variant_get_size (normal));
  json_builder_set_member_name (builder, key);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "text");
  json_builder_add_string_value (builder, text);
  json_builder_set_member_name (builder, "type");
  json_builder_add_string_value (builder, g_variant_get_type_string (normal));
  json_builder_set_member_name (builder, "data");
  json_builder_add_string_value (builder, data);
  json_builder_end_object (builder);
}

static gboolean
save_locked (const OrtrainCheckpointContents *self, const char *path, int root, GCancellable *cancellable,
             GError **error)
{
  g_autofree char *name = NULL;
  do
    {
      /* not GLib's random numbers: a forked process has the same ones */
      guint64 random;
      if (getentropy (&random, sizeof random) != 0)
        return fail_errno (error, path, "finding a name for the data", errno);
      g_free (name);
      name = g_strdup_printf (DATA_PREFIX "%016" G_GINT64_MODIFIER "x", random);
    }
  while (faccessat (root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
  g_autofree char *folder = g_build_filename (path, name, NULL);
  if (mkdirat (root, name, 0777) != 0)
    return fail_errno (error, folder, "making it", errno);
  reached ("data folder made");

  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "format");
  json_builder_add_string_value (builder, FORMAT);
  json_builder_set_member_name (builder, "version");
  json_builder_add_int_value (builder, VERSION);
  json_builder_set_member_name (builder, "library");
  json_builder_add_string_value (builder, ORTRAIN_VERSION_STRING);
  json_builder_set_member_name (builder, "data");
  json_builder_add_string_value (builder, name);
  json_builder_set_member_name (builder, "metadata");
  json_builder_begin_object (builder);
  for (guint i = 0; i < self->keys->len; i++)
    add_value (builder, self->keys->pdata[i], self->values->pdata[i]);
  json_builder_end_object (builder);

  gboolean written = save_data (self, folder, builder, cancellable, error);
  if (written)
    {
      json_builder_end_object (builder);
      written = !g_cancellable_set_error_if_cancelled (cancellable, error) && write_manifest (path, builder, error);
    }
  if (!written)
    {
      remove_data (root, name);
      return FALSE;
    }
  reached ("manifest replaced");
  gboolean synced = sync_folder (path, error);
  /* Until the rename is known to be on the disk, a power cut may bring the old manifest back: its data stay. */
  if (synced)
    sweep (root, name);
  reached ("swept");
  return synced;
}

gboolean
ortrain_checkpoint_contents_save (const OrtrainCheckpointContents *self, const char *path, GCancellable *cancellable,
                                  GError **error)
{
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  gboolean made = mkdir (path, 0777) == 0;
  if (!made && errno != EEXIST)
    return fail_errno (error, path, "making the folder", errno);
  if (made)
    {
      g_autofree char *parent = g_path_get_dirname (path);
      if (!sync_folder (parent, error))
        {
          rmdir (path);
          return FALSE;
        }
    }
  reached ("folder made");
  int root = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0)
    {
      fail_errno (error, path, "opening the folder", errno);
      if (made)
        rmdir (path);
      return FALSE;
    }
  gboolean saved = FALSE;
  if (flock (root, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
    saved = save_locked (self, path, root, cancellable, error);
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_BUSY, "%s: another save is going on", path);
  close (root);
  if (!saved && made)
    rmdir (path); /* fails if anything is in it */
  return saved;
}

/* Reading. */

static gboolean
fail (GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "the manifest %s", what);
  return FALSE;
}

/* A folder, and what to call it in messages. */
typedef struct
{
  int fd;
  char *path;
} Folder;

static GBytes *
map_below (const Folder *folder, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename (folder->path, name, NULL);
  /* O_NONBLOCK: a pipe in the place of a file must not hold us up */
  int fd = openat (folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat (fd, &st) != 0)
    {
      fail_errno (error, name, "opening it", errno);
      if (fd >= 0)
        close (fd);
      return NULL;
    }
  GBytes *bytes = NULL;
  if (!S_ISREG (st.st_mode))
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "%s is not a file", name);
  else
    {
      bytes = ortrain_mapped_file_new_bytes (fd, path, error);
      if (bytes == NULL)
        g_prefix_error (error, "%s: ", name);
    }
  close (fd);
  return bytes;
}

static JsonNode *
get_member (JsonObject *object, const char *name, GType type)
{
  JsonNode *node = json_object_get_member (object, name);
  if (node == NULL)
    return NULL;
  if (type == JSON_TYPE_OBJECT)
    return JSON_NODE_HOLDS_OBJECT (node) ? node : NULL;
  if (type == JSON_TYPE_ARRAY)
    return JSON_NODE_HOLDS_ARRAY (node) ? node : NULL;
  return JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == type ? node : NULL;
}

/* One file that the manifest names, checked. *name belongs to the manifest. */
static GBytes *
read_file (JsonNode *node, const Folder *data, const char **name, GError **error)
{
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return fail (error, "has an entry that is no file"), NULL;
  JsonObject *object = json_node_get_object (node);
  JsonNode *file = get_member (object, "file", G_TYPE_STRING), *n_bytes = get_member (object, "bytes", G_TYPE_INT64),
           *crc = get_member (object, "crc32", G_TYPE_STRING);
  if (file == NULL || n_bytes == NULL || crc == NULL)
    return fail (error, "has a file without name, size or checksum"), NULL;
  *name = json_node_get_string (file);
  if (!ortrain_checkpoint_name_is_valid (*name))
    return fail (error, "has a name that no file of a checkpoint has"), NULL;
  g_autoptr (GBytes) bytes = map_below (data, *name, error);
  if (bytes == NULL)
    return NULL;
  gsize found = g_bytes_get_size (bytes);
  if ((gint64) found != json_node_get_int (n_bytes))
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                   "%s has %" G_GSIZE_FORMAT " bytes, the manifest says %" G_GINT64_FORMAT, *name, found,
                   json_node_get_int (n_bytes));
      return NULL;
    }
  g_autofree char *sum = g_strdup_printf ("%08x", ortrain_crc32 (0, g_bytes_get_data (bytes, NULL), found));
  if (!g_str_equal (sum, json_node_get_string (crc)))
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                   "%s has the checksum %s, the manifest says %s", *name, sum, json_node_get_string (crc));
      return NULL;
    }
  return g_steal_pointer (&bytes);
}

static gboolean
read_section (JsonNode *shards, const Folder *data, OrtrainTensorDict *tensors, GError **error)
{
  if (!JSON_NODE_HOLDS_ARRAY (shards))
    return fail (error, "has a section that is no list");
  JsonArray *array = json_node_get_array (shards);
  guint expected = 0;
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      const char *name;
      g_autoptr (GBytes) bytes = read_file (json_array_get_element (array, i), data, &name, error);
      if (bytes == NULL)
        return FALSE;
      g_autoptr (OrtrainTensorDict) shard = ortrain_tensor_dict_new ();
      if (!ortrain_safetensors_parse (bytes, shard, NULL, error))
        {
          g_prefix_error (error, "%s: ", name);
          return FALSE;
        }
      expected += ortrain_tensor_dict_get_size (shard);
      for (guint k = 0; k < ortrain_tensor_dict_get_size (shard); k++)
        ortrain_tensor_dict_set (tensors, ortrain_tensor_dict_get_name (shard, k),
                                 ortrain_tensor_dict_get_tensor (shard, k));
    }
  return ortrain_tensor_dict_get_size (tensors) == expected || fail (error, "has a tensor in two files");
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
      JsonNode *type = object != NULL ? get_member (object, "type", G_TYPE_STRING) : NULL;
      JsonNode *data = object != NULL ? get_member (object, "data", G_TYPE_STRING) : NULL;
      if (type == NULL || data == NULL || !g_variant_type_string_is_valid (json_node_get_string (type)) ||
          !g_variant_type_is_definite (G_VARIANT_TYPE (json_node_get_string (type))))
        return fail (error, "has a value without type and data");
      gsize size;
      guchar *bytes = g_base64_decode (json_node_get_string (data), &size);
      g_autoptr (GVariant) value = g_variant_ref_sink (
          g_variant_new_from_data (G_VARIANT_TYPE (json_node_get_string (type)), bytes, size, FALSE, g_free, bytes));
      if (!g_variant_is_normal_form (value))
        return fail (error, "has a value that does not fit its type");
      ortrain_checkpoint_contents_put (self->keys, self->values, key, g_variant_ref (value),
                                       (GDestroyNotify) g_variant_unref);
    }
  return TRUE;
}

static gboolean
read_manifest (OrtrainCheckpointContents *self, JsonNode *root_node, const Folder *root, GError **error)
{
  if (!JSON_NODE_HOLDS_OBJECT (root_node))
    return fail (error, "is no object");
  JsonObject *manifest = json_node_get_object (root_node);
  JsonNode *format = get_member (manifest, "format", G_TYPE_STRING);
  JsonNode *version = get_member (manifest, "version", G_TYPE_INT64);
  if (format == NULL || !g_str_equal (json_node_get_string (format), FORMAT) || version == NULL)
    return fail (error, "is not one of a checkpoint");
  if (json_node_get_int (version) != VERSION)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_VERSION,
                   "the checkpoint has version %" G_GINT64_FORMAT ", this library reads version %d",
                   json_node_get_int (version), VERSION);
      return FALSE;
    }
  JsonNode *data_node = get_member (manifest, "data", G_TYPE_STRING);
  JsonNode *sections = get_member (manifest, "sections", JSON_TYPE_OBJECT);
  JsonNode *files = get_member (manifest, "files", JSON_TYPE_ARRAY);
  JsonNode *metadata = get_member (manifest, "metadata", JSON_TYPE_OBJECT);
  if (data_node == NULL || !is_data_name (json_node_get_string (data_node)) || sections == NULL || files == NULL ||
      metadata == NULL)
    return fail (error, "is incomplete");
  if (!read_metadata (self, json_node_get_object (metadata), error))
    return FALSE;

  Folder data = { openat (root->fd, json_node_get_string (data_node),
                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
  if (data.fd < 0)
    return fail_errno (error, json_node_get_string (data_node), "opening it", errno);
  data.path = g_build_filename (root->path, json_node_get_string (data_node), NULL);
  gboolean right = TRUE;
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;
  json_object_iter_init_ordered (&iter, json_node_get_object (sections));
  while (right && json_object_iter_next_ordered (&iter, &name, &node))
    {
      g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
      right = ortrain_checkpoint_name_is_valid (name) ? read_section (node, &data, tensors, error)
                                                      : fail (error, "has a section without a name");
      ortrain_checkpoint_contents_put (self->section_names, self->sections, name, g_steal_pointer (&tensors),
                                       g_object_unref);
    }
  JsonArray *array = json_node_get_array (files);
  for (guint i = 0; right && i < json_array_get_length (array); i++)
    {
      GBytes *bytes = read_file (json_array_get_element (array, i), &data, &name, error);
      right = bytes != NULL;
      if (right)
        ortrain_checkpoint_contents_put (self->file_names, self->files, name, bytes, (GDestroyNotify) g_bytes_unref);
    }
  close (data.fd);
  g_free (data.path);
  return right;
}

static gboolean
load_once (OrtrainCheckpointContents *self, const Folder *root, gboolean *replaced, GError **error)
{
  g_autoptr (GBytes) bytes = map_below (root, MANIFEST, error);
  *replaced = FALSE;
  if (bytes == NULL)
    return FALSE;
  gsize size;
  const char *text = g_bytes_get_data (bytes, &size);
  if (size > MAX_MANIFEST)
    return fail (error, "is too large");
  g_autoptr (GError) json_error = NULL;
  g_autoptr (JsonNode) root_node = ortrain_json_parse (text, size, MAX_DEPTH, &json_error);
  if (root_node == NULL)
    {
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                   "the manifest is not valid JSON: %s", json_error->message);
      return FALSE;
    }
  if (read_manifest (self, root_node, root, error))
    return TRUE;
  g_autoptr (GBytes) now = map_below (root, MANIFEST, NULL);
  *replaced = now != NULL && !g_bytes_equal (now, bytes);
  return FALSE;
}

static void
forget (OrtrainCheckpointContents *self)
{
  GPtrArray *all[] = { self->section_names, self->sections, self->file_names, self->files, self->keys, self->values };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    g_ptr_array_set_size (all[i], 0);
}

gboolean
ortrain_checkpoint_contents_load (OrtrainCheckpointContents *self, const char *path, GError **error)
{
  int root = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int manifest = root >= 0 ? faccessat (root, MANIFEST, F_OK, 0) : -1;
  if (manifest != 0)
    {
      int code = errno;
      if (root >= 0)
        close (root);
      if (code != ENOENT && code != ENOTDIR)
        return fail_errno (error, path, "opening it", code);
      g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND, "%s: there is no checkpoint",
                   path);
      return FALSE;
    }
  gboolean loaded = FALSE, replaced = TRUE;
  /* A save may replace the data between our look at the manifest and our look at the files: then look again. */
  for (guint i = 0; i < 10 && !loaded && replaced; i++)
    {
      g_autoptr (GError) local_error = NULL;
      forget (self);
      loaded = load_once (self, &(Folder){ root, (char *) path }, &replaced, &local_error);
      if (!loaded && (!replaced || i == 9))
        g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", path);
    }
  close (root);
  return loaded;
}
