/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-private.h"

#include "checkpoint/ortrain-checkpoint-folder-private.h"
#include "checkpoint/ortrain-checkpoint-manifest-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-json-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-files-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A checkpoint on the disk:
 *
 *   FOLDER/manifest.json
 *     names the data folder, and all its files with sizes and checksums; its last member is a checksum of itself
 *   FOLDER/data-0123456789abcdef/parameters-00001.safetensors, …, model.onnx
 *   FOLDER/data-0123456789abcdef/.files
 *     the names of the files that the save writes there
 *
 * A save writes a data folder with a new name, the new manifest within it, syncs it to the disk, and then moves the
 * manifest over the old one. That rename is the one step in which the old checkpoint becomes the new one. Data folders
 * that no manifest names were left by a killed save, or replaced by this one: the next save removes those of their
 * files that a save has written. A lock on the folder keeps two saves apart; it goes away with the process that holds
 * it.
 *
 * Reading is in ortrain-checkpoint-load.c. */

void (*ortrain_checkpoint_save_hook) (const char *where);

static void
fault_point (const char *where)
{
  if (ortrain_checkpoint_save_hook != NULL)
    ortrain_checkpoint_save_hook (where);
}

static gboolean
fail_errno (GError **error, const char *path, const char *what, int code)
{
  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (code), "Cannot %s '%s': %s", what,
               ortrain_text_show_path (path), g_strerror (code));
  return FALSE;
}

static gboolean
sync_folder (const char *path, GError **error)
{
  int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return fail_errno (error, path, "open", errno);
  /* Some file systems cannot do this to a folder, and need not. */
  int code;
  do
    code = fsync (fd) != 0 ? errno : 0;
  while (code == EINTR);
  if (code == EINVAL || code == ENOTSUP)
    code = 0;
  close (fd);
  return code == 0 || fail_errno (error, path, "sync", code);
}

static void
add_file (JsonBuilder *builder, const char *name, OrtrainFileWriter *writer)
{
  g_autofree char *crc = g_strdup_printf ("%08x", ortrain_file_writer_get_crc32 (writer));
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "file");
  json_builder_add_string_value (builder, name);
  json_builder_set_member_name (builder, "bytes");
  json_builder_add_int_value (builder, (gint64) ortrain_file_writer_get_position (writer));
  json_builder_set_member_name (builder, "crc32");
  json_builder_add_string_value (builder, crc);
  json_builder_end_object (builder);
}

/* FALSE if a file of that name is written already. */
static gboolean
plan_file (GPtrArray *names, char *name, GError **error)
{
  g_autofree char *owned = name;
  if (g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID, "The checkpoint has two files '%s'",
                 ortrain_text_show (name));
  else if (names->len >= ORTRAIN_MANIFEST_MAX_FILES)
    g_set_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID,
                 "The checkpoint needs more than %u files; set a larger max-shard-bytes", ORTRAIN_MANIFEST_MAX_FILES);
  else
    {
      g_ptr_array_add (names, g_steal_pointer (&owned));
      return TRUE;
    }
  return FALSE;
}

static char *
shard_name (const char *section, guint number)
{
  return g_strdup_printf ("%s-%05u.safetensors", section, number);
}

/* Where the shard that begins with tensor `begin` ends. */
static guint
end_of_shard (const OrtrainCheckpointContents *self, OrtrainTensorDict *tensors, guint begin)
{
  guint64 n_bytes = 0;
  guint end = begin, n = ortrain_tensor_dict_get_size (tensors);
  for (; end < n; end++)
    {
      gsize size = ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (tensors, end));
      if (n_bytes > 0 && n_bytes + size > self->max_shard_bytes)
        break;
      n_bytes += size;
    }
  return end;
}

/* The names of all files that a save will write, of char *. */
static GPtrArray *
plan_files (const OrtrainCheckpointContents *self, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < self->sections->len; i++)
    {
      OrtrainTensorDict *tensors = self->sections->pdata[i];
      guint number = 1, begin = 0;
      do
        {
          begin = end_of_shard (self, tensors, begin);
          if (!plan_file (names, shard_name (self->section_names->pdata[i], number++), error))
            return NULL;
        }
      while (begin < ortrain_tensor_dict_get_size (tensors));
    }
  for (guint i = 0; i < self->files->len; i++)
    if (!plan_file (names, g_strdup (self->file_names->pdata[i]), error))
      return NULL;
  return g_steal_pointer (&names);
}

static OrtrainFileWriter *
open_writer (const char *folder, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  OrtrainFileWriter *writer = ortrain_file_writer_new_in_place (path, error);
  if (writer != NULL)
    ortrain_file_writer_enable_crc32 (writer);
  return writer;
}

static gboolean
save_section (const OrtrainCheckpointContents *self, guint index, const char *folder, JsonBuilder *builder,
              GCancellable *cancellable, GError **error)
{
  OrtrainTensorDict *tensors = self->sections->pdata[index];
  const char *section = self->section_names->pdata[index];
  guint number = 1, begin = 0, end;
  json_builder_set_member_name (builder, section);
  json_builder_begin_array (builder);
  do
    {
      g_autofree char *name = shard_name (section, number++);
      g_autoptr (OrtrainTensorDict) shard = ortrain_tensor_dict_new ();
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      end = end_of_shard (self, tensors, begin);
      for (; begin < end; begin++)
        ortrain_tensor_dict_set (shard, ortrain_tensor_dict_get_name (tensors, begin),
                                 ortrain_tensor_dict_get_tensor (tensors, begin));
      g_autoptr (OrtrainFileWriter) writer = open_writer (folder, name, error);
      if (writer == NULL || !ortrain_safetensors_write (shard, NULL, writer, error) ||
          !ortrain_file_writer_commit (writer, error))
        return FALSE;
      add_file (builder, name, writer);
      fault_point (name);
    }
  while (end < ortrain_tensor_dict_get_size (tensors));
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
      fault_point (self->file_names->pdata[i]);
    }
  json_builder_end_array (builder);
  return TRUE;
}

/* On the disk, and not yet under its name. */
static OrtrainFileWriter *
write_manifest (const char *path, const char *data_name, JsonBuilder *builder, GError **error)
{
  g_autofree char *text = ortrain_manifest_seal (builder);
  g_autofree char *manifest = g_build_filename (path, ORTRAIN_MANIFEST_NAME, NULL);
  g_autofree char *temporary = g_build_filename (data_name, ORTRAIN_CHECKPOINT_NEW_MANIFEST, NULL);
  g_autofree char *folder = g_build_filename (path, data_name, NULL);
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new_through (manifest, temporary, error);
  if (writer == NULL || !ortrain_file_writer_write (writer, text, strlen (text), error) ||
      !ortrain_file_writer_sync (writer, error))
    return NULL;
  fault_point ("manifest written");
  return sync_folder (folder, error) ? g_steal_pointer (&writer) : NULL;
}

/* The text is for people. The serialised form is read back, because decimal text does not round-trip all floats.
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
        return fail_errno (error, path, "find a free name for the data in", errno);
      g_free (name);
      name = g_strdup_printf ("data-%016" G_GINT64_MODIFIER "x", random);
    }
  while (faccessat (root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
  g_autofree char *folder = g_build_filename (path, name, NULL);
  g_autoptr (GPtrArray) names = plan_files (self, error);
  if (names == NULL)
    return FALSE;
  if (mkdirat (root, name, 0777) != 0)
    return fail_errno (error, folder, "create", errno);
  fault_point ("data folder made");

  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "format");
  json_builder_add_string_value (builder, ORTRAIN_MANIFEST_FORMAT);
  json_builder_set_member_name (builder, "version");
  json_builder_add_int_value (builder, ORTRAIN_MANIFEST_VERSION);
  json_builder_set_member_name (builder, "library");
  json_builder_add_string_value (builder, ORTRAIN_VERSION_STRING);
  json_builder_set_member_name (builder, "data");
  json_builder_add_string_value (builder, name);
  json_builder_set_member_name (builder, "metadata");
  json_builder_begin_object (builder);
  for (guint i = 0; i < self->keys->len; i++)
    add_value (builder, self->keys->pdata[i], self->values->pdata[i]);
  json_builder_end_object (builder);

  gboolean written = ortrain_checkpoint_write_list (folder, names, error);
  fault_point ("list written");
  written = written && save_data (self, folder, builder, cancellable, error);
  g_autoptr (OrtrainFileWriter) manifest = written ? write_manifest (path, name, builder, error) : NULL;
  written = manifest != NULL && !g_cancellable_set_error_if_cancelled (cancellable, error);
  g_autofree char *old_name = NULL;
  g_autoptr (GPtrArray) old_names = written ? ortrain_manifest_read_names (path, root, &old_name) : NULL;
  if (!written || !ortrain_file_writer_commit (manifest, error))
    {
      ortrain_checkpoint_remove_data (root, name, names);
      return FALSE;
    }
  fault_point ("manifest replaced");
  gboolean synced = sync_folder (path, error);
  /* Until the rename is known to be on the disk, a power cut may bring the old manifest back: its data stay. */
  if (synced)
    ortrain_checkpoint_sweep (root, name, old_name, old_names);
  fault_point ("swept");
  return synced;
}

gboolean
ortrain_checkpoint_contents_save (const OrtrainCheckpointContents *self, const char *path, GCancellable *cancellable,
                                  GError **error)
{
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return FALSE;
  gboolean created = mkdir (path, 0777) == 0;
  if (!created && errno != EEXIST)
    return fail_errno (error, path, "create", errno);
  if (created)
    {
      g_autofree char *parent = g_path_get_dirname (path);
      if (!sync_folder (parent, error))
        {
          rmdir (path);
          return FALSE;
        }
    }
  fault_point ("folder made");
  int root = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0)
    {
      fail_errno (error, path, "open", errno);
      if (created)
        rmdir (path);
      return FALSE;
    }
  gboolean saved = FALSE;
  if (flock (root, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR))
    saved = save_locked (self, path, root, cancellable, error);
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_BUSY, "Checkpoint '%s' is being saved already; wait until that is done",
                 ortrain_text_show_path (path));
  close (root);
  if (!saved && created)
    rmdir (path); /* fails if anything is in it */
  return saved;
}
