/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-private.h"

#include "core/ortrain-worker-private.h"

#include <string.h>

/**
 * OrtrainCheckpoint:
 *
 * The state from which training resumes exactly: tensors in sections, small values, and whole files such as the model.
 * [method@TrainingSession.save_checkpoint] and [class@Trainer] write checkpoints; this class is for reading them, and
 * for writing others.
 *
 * On disk, a checkpoint is a folder with safetensors files and a manifest in JSON. Saving never damages the checkpoint
 * that is there: the new contents are written next to it, synced to disk, and replace it in one rename; then the old
 * contents are removed. A process that is killed, a full disk or a power failure leaves either the old checkpoint or
 * the new one, complete. Loading checks the size and the CRC-32 of every file.
 *
 * ```python
 * from gi.repository import GLib
 *
 * checkpoint = Ortrain.Checkpoint.new()
 * checkpoint.set_tensors("parameters", session.get_parameters())
 * checkpoint.set_file("notes.txt", GLib.Bytes.new(b"the third try"))
 * checkpoint.set_value("epoch", GLib.Variant("u", 3))
 * checkpoint.save("state", None)
 *
 * checkpoint = Ortrain.Checkpoint.load("state")
 * print(checkpoint.get_tensors("parameters").names, checkpoint.get_value("epoch").unpack())
 * ```
 *
 * One thread at a time may use a checkpoint. The asynchronous functions work with the contents at the time of the call;
 * its tensors must not be written to while they are being saved.
 */

struct _OrtrainCheckpoint
{
  GObject parent_instance;
  OrtrainCheckpointContents contents;
};

G_DEFINE_FINAL_TYPE (OrtrainCheckpoint, ortrain_checkpoint, G_TYPE_OBJECT)

enum
{
  PROP_MAX_SHARD_BYTES = 1,
  PROP_METADATA,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_checkpoint_dispose (GObject *object)
{
  OrtrainCheckpointContents *contents = &ORTRAIN_CHECKPOINT (object)->contents;
  g_ptr_array_set_size (contents->section_names, 0);
  g_ptr_array_set_size (contents->sections, 0);
  g_ptr_array_set_size (contents->file_names, 0);
  g_ptr_array_set_size (contents->files, 0);
  G_OBJECT_CLASS (ortrain_checkpoint_parent_class)->dispose (object);
}

static void
ortrain_checkpoint_finalize (GObject *object)
{
  ortrain_checkpoint_contents_clear (&ORTRAIN_CHECKPOINT (object)->contents);
  G_OBJECT_CLASS (ortrain_checkpoint_parent_class)->finalize (object);
}

static void
ortrain_checkpoint_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainCheckpoint *self = ORTRAIN_CHECKPOINT (object);
  switch (id)
    {
    case PROP_MAX_SHARD_BYTES:
      g_value_set_uint64 (value, self->contents.max_shard_bytes);
      break;
    case PROP_METADATA:
      g_value_take_variant (value, ortrain_checkpoint_get_metadata (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_checkpoint_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  OrtrainCheckpoint *self = ORTRAIN_CHECKPOINT (object);
  switch (id)
    {
    case PROP_MAX_SHARD_BYTES:
      ortrain_checkpoint_set_max_shard_bytes (self, g_value_get_uint64 (value));
      break;
    case PROP_METADATA:
      ortrain_checkpoint_set_metadata (self, g_value_get_variant (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_checkpoint_class_init (OrtrainCheckpointClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  object_class->dispose = ortrain_checkpoint_dispose;
  object_class->finalize = ortrain_checkpoint_finalize;
  object_class->get_property = ortrain_checkpoint_get_property;
  object_class->set_property = ortrain_checkpoint_set_property;

  /**
   * OrtrainCheckpoint:max-shard-bytes: (getter get_max_shard_bytes) (setter set_max_shard_bytes)
   *
   * The size in bytes above which a section is saved as several files. A single tensor is never split. Default: 2 GiB,
   * at least 1.
   */
  properties[PROP_MAX_SHARD_BYTES] =
      g_param_spec_uint64 ("max-shard-bytes", NULL, NULL, 1, G_MAXUINT64, ORTRAIN_CHECKPOINT_MAX_SHARD_BYTES, flags);

  /**
   * OrtrainCheckpoint:metadata: (getter get_metadata) (setter set_metadata)
   *
   * All small values, as a dictionary of type `a{sv}`. Default: an empty dictionary.
   */
  properties[PROP_METADATA] = g_param_spec_variant ("metadata", NULL, NULL, G_VARIANT_TYPE_VARDICT, NULL, flags);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_checkpoint_init (OrtrainCheckpoint *self)
{
  ortrain_checkpoint_contents_init (&self->contents);
}

/**
 * ortrain_checkpoint_new:
 *
 * Creates an empty checkpoint.
 *
 * Returns: (transfer full): the checkpoint
 */
OrtrainCheckpoint *
ortrain_checkpoint_new (void)
{
  return g_object_new (ORTRAIN_TYPE_CHECKPOINT, NULL);
}

static OrtrainCheckpoint *
load (const char *path, GCancellable *cancellable, GError **error)
{
  g_autoptr (OrtrainCheckpoint) self = ortrain_checkpoint_new ();
  if (!ortrain_checkpoint_contents_load (&self->contents, path, cancellable, error))
    return NULL;
  return g_steal_pointer (&self);
}

/**
 * ortrain_checkpoint_load:
 * @path: (type filename): the folder of a checkpoint
 * @error: return location for an error
 *
 * Reads a checkpoint. Its tensors are mapped, not copied, and stay valid when the checkpoint is saved over. If it is
 * saved over while it is being read, the new one is read; if saves follow one another too fast for that, it fails after
 * half a minute.
 *
 * Errors are %ORTRAIN_CHECKPOINT_ERROR_NOT_FOUND where there is no checkpoint, %ORTRAIN_CHECKPOINT_ERROR_INVALID for a
 * damaged one, %ORTRAIN_CHECKPOINT_ERROR_VERSION for one of a newer library, and those of [error@Gio.IOErrorEnum] and
 * [error@TensorError].
 *
 * Returns: (transfer full): the checkpoint; %NULL on error
 */
OrtrainCheckpoint *
ortrain_checkpoint_load (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  return load (path, NULL, error);
}

static void
load_thread (GTask *task, gpointer source, gpointer path, GCancellable *cancellable)
{
  GError *error = NULL;
  OrtrainCheckpoint *checkpoint = load (path, cancellable, &error);
  if (checkpoint != NULL)
    g_task_return_pointer (task, checkpoint, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_checkpoint_load_async:
 * @path: (type filename): the folder of a checkpoint
 * @cancellable: (nullable): to cancel it with
 * @callback: (scope async): called when it is done
 * @user_data: data for @callback
 *
 * Reads a checkpoint on another thread, see [func@Checkpoint.load].
 */
void
ortrain_checkpoint_load_async (const char *path, GCancellable *cancellable, GAsyncReadyCallback callback,
                               gpointer user_data)
{
  g_return_if_fail (path != NULL);
  g_autoptr (GTask) task = g_task_new (NULL, cancellable, callback, user_data);
  g_task_set_source_tag (task, ortrain_checkpoint_load_async);
  g_task_set_task_data (task, g_strdup (path), g_free);
  ortrain_task_run_in_thread (task, load_thread);
}

/**
 * ortrain_checkpoint_load_finish:
 * @result: the result that the callback got
 * @error: return location for an error
 *
 * Finishes [func@Checkpoint.load_async]. It fails as [func@Checkpoint.load] does, or with %G_IO_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the checkpoint; %NULL on error
 */
OrtrainCheckpoint *
ortrain_checkpoint_load_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_checkpoint_load_async), NULL);
  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * ortrain_checkpoint_exists:
 * @path: (type filename): the folder of a checkpoint
 *
 * Tells whether a folder has a checkpoint. It may still turn out to be damaged when it is loaded.
 *
 * Returns: %TRUE if there is one
 */
gboolean
ortrain_checkpoint_exists (const char *path)
{
  g_return_val_if_fail (path != NULL, FALSE);
  g_autofree char *manifest = g_build_filename (path, "manifest.json", NULL);
  return g_file_test (manifest, G_FILE_TEST_IS_REGULAR);
}

/**
 * ortrain_checkpoint_save:
 * @self: a checkpoint
 * @path: (type filename): the folder to save it in; it is created if it does not exist
 * @cancellable: (nullable): to cancel it with
 * @error: return location for an error
 *
 * Writes the checkpoint. On error, the folder has its old contents.
 *
 * Errors are those of [error@Gio.IOErrorEnum], %G_IO_ERROR_BUSY while another save goes on and %G_IO_ERROR_CANCELLED
 * among them, of [error@CheckpointError], and of [error@TensorError] for tensors that were released or whose mapped
 * file was changed.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_checkpoint_save (OrtrainCheckpoint *self, const char *path, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  return ortrain_checkpoint_contents_save (&self->contents, path, cancellable, error);
}

typedef struct
{
  OrtrainCheckpointContents contents;
  char *path;
} SaveJob;

static void
save_job_free (gpointer data)
{
  SaveJob *job = data;
  ortrain_checkpoint_contents_clear (&job->contents);
  g_free (job->path);
  g_free (job);
}

static void
save_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  SaveJob *job = data;
  GError *error = NULL;
  if (ortrain_checkpoint_contents_save (&job->contents, job->path, cancellable, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

static gpointer
copy_tensors (gconstpointer source, gpointer user_data)
{
  OrtrainTensorDict *original = (gpointer) source, *copy = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (original); i++)
    ortrain_tensor_dict_set (copy, ortrain_tensor_dict_get_name (original, i),
                             ortrain_tensor_dict_get_tensor (original, i));
  return copy;
}

static void
append_strings (GPtrArray *destination, GPtrArray *source)
{
  for (guint i = 0; i < source->len; i++)
    g_ptr_array_add (destination, g_strdup (source->pdata[i]));
}

/**
 * ortrain_checkpoint_save_async:
 * @self: a checkpoint
 * @path: (type filename): the folder to save it in
 * @cancellable: (nullable): to cancel it with
 * @callback: (scope async): called when it is done
 * @user_data: data for @callback
 *
 * Writes the checkpoint on another thread, see [method@Checkpoint.save]. Its present contents are written; the tensors
 * must not be written to until that is done.
 */
void
ortrain_checkpoint_save_async (OrtrainCheckpoint *self, const char *path, GCancellable *cancellable,
                               GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (path != NULL);
  SaveJob *job = g_new0 (SaveJob, 1);
  OrtrainCheckpointContents *copy = &job->contents, *original = &self->contents;
  ortrain_checkpoint_contents_init (copy);
  job->path = g_strdup (path);
  append_strings (copy->section_names, original->section_names);
  append_strings (copy->file_names, original->file_names);
  append_strings (copy->keys, original->keys);
  for (guint i = 0; i < original->sections->len; i++)
    g_ptr_array_add (copy->sections, copy_tensors (original->sections->pdata[i], NULL));
  for (guint i = 0; i < original->files->len; i++)
    g_ptr_array_add (copy->files, g_bytes_ref (original->files->pdata[i]));
  for (guint i = 0; i < original->values->len; i++)
    g_ptr_array_add (copy->values, g_variant_ref (original->values->pdata[i]));
  copy->max_shard_bytes = original->max_shard_bytes;

  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, ortrain_checkpoint_save_async);
  g_task_set_task_data (task, job, save_job_free);
  /* A save that was cancelled too late has replaced the checkpoint: then the caller is told that it succeeded. */
  g_task_set_check_cancellable (task, FALSE);
  ortrain_task_run_in_thread (task, save_thread);
}

/**
 * ortrain_checkpoint_save_finish:
 * @self: a checkpoint
 * @result: the result that the callback got
 * @error: return location for an error
 *
 * Finishes [method@Checkpoint.save_async]. It fails as [method@Checkpoint.save] does.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_checkpoint_save_finish (OrtrainCheckpoint *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_checkpoint_save_async), FALSE);
  return g_task_propagate_boolean (G_TASK (result), error);
}

/**
 * ortrain_checkpoint_set_tensors:
 * @self: a checkpoint
 * @section: a name of letters, digits, `.`, `_` and `-`, for instance `parameters`
 * @tensors: (nullable): the tensors, or %NULL to remove the section
 *
 * Sets, or removes, the tensors of a section. They are not copied.
 */
void
ortrain_checkpoint_set_tensors (OrtrainCheckpoint *self, const char *section, OrtrainTensorDict *tensors)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (section != NULL && ortrain_checkpoint_name_is_valid (section));
  g_return_if_fail (tensors == NULL || ORTRAIN_IS_TENSOR_DICT (tensors));
  ortrain_checkpoint_contents_put (self->contents.section_names, self->contents.sections, section,
                                   tensors != NULL ? g_object_ref (tensors) : NULL, g_object_unref);
}

/**
 * ortrain_checkpoint_get_tensors:
 * @self: a checkpoint
 * @section: the name of a section
 *
 * Gets the tensors of a section.
 *
 * Returns: (transfer none) (nullable): the tensors, owned by the checkpoint, or %NULL if there is no such section
 */
OrtrainTensorDict *
ortrain_checkpoint_get_tensors (OrtrainCheckpoint *self, const char *section)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), NULL);
  g_return_val_if_fail (section != NULL, NULL);
  guint index;
  return ortrain_checkpoint_contents_find (self->contents.section_names, section, &index)
             ? self->contents.sections->pdata[index]
             : NULL;
}

static char **
dup_strings (GPtrArray *names)
{
  char **strings = g_new (char *, names->len + 1);
  for (guint i = 0; i < names->len; i++)
    strings[i] = g_strdup (names->pdata[i]);
  strings[names->len] = NULL;
  return strings;
}

/**
 * ortrain_checkpoint_get_sections:
 * @self: a checkpoint
 *
 * Lists the sections, in the order in which they were set.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names
 */
char **
ortrain_checkpoint_get_sections (OrtrainCheckpoint *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), NULL);
  return dup_strings (self->contents.section_names);
}

/**
 * ortrain_checkpoint_set_file:
 * @self: a checkpoint
 * @name: a name of letters, digits, `.`, `_` and `-`, for instance `model.onnx`
 * @contents: (nullable): the contents, or %NULL to remove the file
 *
 * Adds a whole file, or removes it.
 */
void
ortrain_checkpoint_set_file (OrtrainCheckpoint *self, const char *name, GBytes *contents)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (name != NULL && ortrain_checkpoint_name_is_valid (name));
  ortrain_checkpoint_contents_put (self->contents.file_names, self->contents.files, name,
                                   contents != NULL ? g_bytes_ref (contents) : NULL, (GDestroyNotify) g_bytes_unref);
}

/**
 * ortrain_checkpoint_get_file:
 * @self: a checkpoint
 * @name: the name of a file
 *
 * Gets the contents of a file; they are mapped if the checkpoint was loaded.
 *
 * Returns: (transfer none) (nullable): the contents, owned by the checkpoint, or %NULL if there is no such file
 */
GBytes *
ortrain_checkpoint_get_file (OrtrainCheckpoint *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  guint index;
  return ortrain_checkpoint_contents_find (self->contents.file_names, name, &index) ? self->contents.files->pdata[index]
                                                                                    : NULL;
}

/**
 * ortrain_checkpoint_get_files:
 * @self: a checkpoint
 *
 * Lists the files, in the order in which they were set.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names
 */
char **
ortrain_checkpoint_get_files (OrtrainCheckpoint *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), NULL);
  return dup_strings (self->contents.file_names);
}

/**
 * ortrain_checkpoint_set_value:
 * @self: a checkpoint
 * @key: a name
 * @value: (nullable): a small value of any type, or %NULL to remove it
 *
 * Sets, or removes, a small value, such as the number of a step. Loading gives it back with the same type and, for
 * numbers, the same bits. A floating @value is taken over.
 */
void
ortrain_checkpoint_set_value (OrtrainCheckpoint *self, const char *key, GVariant *value)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (key != NULL && g_utf8_validate (key, -1, NULL));
  ortrain_checkpoint_contents_put (self->contents.keys, self->contents.values, key,
                                   value != NULL ? g_variant_ref_sink (value) : NULL, (GDestroyNotify) g_variant_unref);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_METADATA]);
}

/**
 * ortrain_checkpoint_get_value:
 * @self: a checkpoint
 * @key: a name
 *
 * Looks up a small value that was set with [method@Checkpoint.set_value].
 *
 * Returns: (transfer none) (nullable): the value, owned by the checkpoint, or %NULL if no value has that name
 */
GVariant *
ortrain_checkpoint_get_value (OrtrainCheckpoint *self, const char *key)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), NULL);
  g_return_val_if_fail (key != NULL, NULL);
  guint index;
  return ortrain_checkpoint_contents_find (self->contents.keys, key, &index) ? self->contents.values->pdata[index]
                                                                             : NULL;
}

/**
 * ortrain_checkpoint_get_metadata: (get-property metadata)
 * @self: a checkpoint
 *
 * Gets all small values, as a dictionary of type `a{sv}`.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`
 */
GVariant *
ortrain_checkpoint_get_metadata (OrtrainCheckpoint *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), NULL);
  GVariantBuilder builder;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (guint i = 0; i < self->contents.keys->len; i++)
    g_variant_builder_add (&builder, "{sv}", self->contents.keys->pdata[i], self->contents.values->pdata[i]);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/**
 * ortrain_checkpoint_set_metadata: (set-property metadata)
 * @self: a checkpoint
 * @metadata: (nullable): a dictionary of type `a{sv}`
 *
 * Sets all small values, as a dictionary of type `a{sv}`. If @metadata is floating, it is taken over.
 */
void
ortrain_checkpoint_set_metadata (OrtrainCheckpoint *self, GVariant *metadata)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (metadata == NULL || g_variant_is_of_type (metadata, G_VARIANT_TYPE_VARDICT));
  g_autoptr (GVariant) all = metadata != NULL ? g_variant_ref_sink (metadata) : NULL;
  g_ptr_array_set_size (self->contents.keys, 0);
  g_ptr_array_set_size (self->contents.values, 0);
  GVariantIter iter;
  const char *key;
  GVariant *value;
  if (all != NULL)
    for (g_variant_iter_init (&iter, all); g_variant_iter_next (&iter, "{&sv}", &key, &value);)
      ortrain_checkpoint_contents_put (self->contents.keys, self->contents.values, key, value,
                                       (GDestroyNotify) g_variant_unref);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_METADATA]);
}

/**
 * ortrain_checkpoint_get_max_shard_bytes: (get-property max-shard-bytes)
 * @self: a checkpoint
 *
 * Gets the size in bytes above which a section is saved as several files.
 *
 * Returns: the size in bytes
 */
guint64
ortrain_checkpoint_get_max_shard_bytes (OrtrainCheckpoint *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CHECKPOINT (self), 0);
  return self->contents.max_shard_bytes;
}

/**
 * ortrain_checkpoint_set_max_shard_bytes: (set-property max-shard-bytes)
 * @self: a checkpoint
 * @max_shard_bytes: a size in bytes, at least 1
 *
 * Sets the size in bytes above which a section is saved as several files.
 */
void
ortrain_checkpoint_set_max_shard_bytes (OrtrainCheckpoint *self, guint64 max_shard_bytes)
{
  g_return_if_fail (ORTRAIN_IS_CHECKPOINT (self));
  g_return_if_fail (max_shard_bytes > 0);
  if (self->contents.max_shard_bytes == max_shard_bytes)
    return;
  self->contents.max_shard_bytes = max_shard_bytes;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAX_SHARD_BYTES]);
}
