/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"

#include "core/ortrain-log-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-trace-private.h"
#include "core/ortrain-worker-private.h"
#include "onnx/ortrain-graph-writer-private.h"
#include "onnx/ortrain-proto-parts-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string.h>

/* Newer versions of the format have only added fields so far; those are kept. This far ahead nobody knows. */
#define MIN_IR_VERSION 1
#define MAX_IR_VERSION 64

/* Files that people give in place of a model, by their first bytes. */
static void
explain_other_file (const guint8 *data, gsize size, GError **error)
{
  static const struct
  {
    const char *begin, *hint;
  } kinds[] = {
    { "version https://git-lfs", "the file is a pointer of Git LFS: fetch the model with git lfs pull" },
    { "PK\003\004",
      "the file is a zip archive, as PyTorch's checkpoints are: export the model with torch.onnx.export" },
    { "\200\002", "the file is a Python pickle: export the model with torch.onnx.export" },
    { "\211HDF", "the file is HDF5, as Keras's are: export the model with model.export (…, format=\"onnx\")" },
    { "<!DOCTYPE", "the file is a web page: download the model itself" },
    { "<html", "the file is a web page: download the model itself" },
    { "\037\213", "the file is compressed with gzip: unpack it" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (size >= strlen (kinds[i].begin) && memcmp (data, kinds[i].begin, strlen (kinds[i].begin)) == 0)
      {
        g_clear_error (error);
        g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, "Not a valid ONNX model: %s",
                     kinds[i].hint);
        return;
      }
}

static gboolean
load (OrtrainModel *self, GError **error)
{
  gsize size, compact_size;
  const guint8 *data = g_bytes_get_data (self->file, &size);

  if (!ortrain_wire_scan (data, size, self->limits, &self->scan, error))
    {
      explain_other_file (data, size, error);
      return FALSE;
    }
  const guint8 *compact = g_bytes_get_data (self->scan.compact, &compact_size);
  self->arena = ortrain_proto_arena_new (self->scan.message_bytes);
  self->proto =
      ortrain__ox__model_proto__unpack (ortrain_proto_arena_get_allocator (self->arena), compact_size, compact);
  g_clear_pointer (&self->scan.compact, g_bytes_unref);
  if (self->proto == NULL)
    return ortrain_proto_explain (self->arena, &self->scan, size, error);
  self->scan.message_bytes -= ortrain_proto_arena_get_taken (self->arena);
  if (self->proto->graph == NULL)
    {
      g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                           "Not a valid ONNX model: it has no graph");
      explain_other_file (data, size, error);
      return FALSE;
    }
  if (self->proto->ir_version < MIN_IR_VERSION || self->proto->ir_version > MAX_IR_VERSION)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_VERSION,
                   "Version %" G_GINT64_FORMAT " of the ONNX format is not supported by this version of the library",
                   (gint64) self->proto->ir_version);
      return FALSE;
    }
  self->tensors.file = self->file;
  self->tensors.scan = &self->scan;
  self->tensors.limits = self->limits;
  self->tensors.external = ortrain_external_data_new (self->directory, self->limits);
  self->tensors.cache = g_new0 (OrtrainTensor *, self->scan.tensors->len + 1);
  self->reader.proto = self->proto;
  self->reader.tensors = &self->tensors;
  self->reader.limits = self->limits;
  if (!ortrain_graph_reader_read (&self->reader, error))
    return FALSE;
  ortrain_model_trim (self);
  return ortrain_model_check_files (self, error);
}

void
ortrain_model_complete_error (GError **error)
{
  if (error == NULL || *error == NULL || g_utf8_validate ((*error)->message, -1, NULL))
    return;
  char *message = g_utf8_make_valid ((*error)->message, -1);
  g_free ((*error)->message);
  (*error)->message = message;
}

static OrtrainModel *
new_from_bytes (GBytes *bytes, const char *path, const char *directory, OrtrainModelLimits *limits, GError **error)
{
  g_autoptr (OrtrainModel) self = g_object_new (ORTRAIN_TYPE_MODEL, NULL);

  self->file = g_bytes_ref (bytes);
  self->path = g_strdup (path);
  self->directory = g_strdup (directory);
  self->limits = limits != NULL ? g_object_ref (limits) : ortrain_model_limits_new ();
  if (!load (self, error))
    {
      ortrain_model_explain_error (self, error);
      ortrain_model_complete_error (error);
      return NULL;
    }
  ortrain_model_complete_error (&self->reader.unsupported);
  return g_steal_pointer (&self);
}

/**
 * ortrain_model_new_from_bytes_with_limits:
 * @bytes: the contents of an ONNX file
 * @base_dir: (nullable) (type filename): the directory below which external data may be read, or %NULL for none
 * @limits: (nullable): limits, or %NULL for the defaults
 * @error: return location for an error
 *
 * Like [ctor@Model.new_from_bytes], with limits of your own.
 *
 * Returns: (transfer full): the model, or %NULL with an error of [error@ModelError]
 */
OrtrainModel *
ortrain_model_new_from_bytes_with_limits (GBytes *bytes, const char *base_dir, OrtrainModelLimits *limits,
                                          GError **error)
{
  g_return_val_if_fail (bytes != NULL, NULL);
  g_return_val_if_fail (limits == NULL || ORTRAIN_IS_MODEL_LIMITS (limits), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  return new_from_bytes (bytes, NULL, base_dir, limits, error);
}

/**
 * ortrain_model_new_from_bytes:
 * @bytes: the contents of an ONNX file
 * @base_dir: (nullable) (type filename): the directory below which external data may be read, or %NULL for none
 * @error: return location for an error
 *
 * Reads a model from memory. The bytes are kept, not copied.
 *
 * Returns: (transfer full): the model; %NULL with an error of [error@ModelError]
 */
OrtrainModel *
ortrain_model_new_from_bytes (GBytes *bytes, const char *base_dir, GError **error)
{
  return ortrain_model_new_from_bytes_with_limits (bytes, base_dir, NULL, error);
}

static GBytes *
map_file (const char *path, OrtrainModelLimits *limits, GError **error)
{
  const char *shown = ortrain_text_show_path (path);
  g_autoptr (GError) local_error = NULL;
  struct stat st;
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

  if (fd < 0)
    {
      int saved = errno;
      g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (saved), "Cannot read model '%s': %s", shown,
                   g_strerror (saved));
      return NULL;
    }
  if (fstat (fd, &st) != 0)
    {
      int saved = errno;
      close (fd);
      g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (saved), "Cannot read model '%s': %s", shown,
                   g_strerror (saved));
      return NULL;
    }
  if (!S_ISREG (st.st_mode))
    {
      close (fd);
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, "Model '%s' is not a regular file", shown);
      return NULL;
    }
  if ((guint64) st.st_size > ortrain_model_limits_get_max_model_bytes (limits))
    {
      close (fd);
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "Model '%s' has %" G_GINT64_FORMAT
                   " bytes, more than the limit 'max-model-bytes' of %" G_GUINT64_FORMAT,
                   shown, (gint64) st.st_size, ortrain_model_limits_get_max_model_bytes (limits));
      return NULL;
    }
  GBytes *bytes = ortrain_mapped_file_new_bytes (fd, path, &local_error);
  close (fd);
  if (bytes == NULL)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, "Cannot read model '%s': %s", shown,
                   local_error->message);
      return NULL;
    }
  return bytes;
}

/**
 * ortrain_model_new_from_file_with_limits:
 * @path: (type filename): the path of an ONNX file
 * @limits: (nullable): limits, or %NULL for the defaults
 * @error: return location for an error
 *
 * Like [ctor@Model.new_from_file], with limits of your own.
 *
 * Returns: (transfer full): the model, or %NULL with an error of [error@ModelError] or [error@GLib.FileError]
 */
OrtrainModel *
ortrain_model_new_from_file_with_limits (const char *path, OrtrainModelLimits *limits, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (limits == NULL || ORTRAIN_IS_MODEL_LIMITS (limits), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (OrtrainModelLimits) used = limits != NULL ? g_object_ref (limits) : ortrain_model_limits_new ();
  g_autofree char *directory = g_path_get_dirname (path);
  g_autoptr (GBytes) bytes = map_file (path, used, error);

  if (bytes == NULL)
    return NULL;
  g_autofree char *base = g_path_get_basename (path);
  const gint64 begin = ortrain_trace_begin ();
  OrtrainModel *self = new_from_bytes (bytes, path, directory, used, error);
  ortrain_trace_end (begin, "load", "model", base);
  if (self != NULL)
    ORTRAIN_LOG (ORTRAIN_LOG_LOAD, "%s: %u nodes, %" G_GUINT64_FORMAT " parameters, %" G_GUINT64_FORMAT " bytes",
                 ortrain_text_show_path (base), ortrain_model_get_n_nodes (self), ortrain_model_get_n_parameters (self),
                 ortrain_model_get_n_bytes (self));
  else
    {
      g_prefix_error (error, "%s: ", ortrain_text_show_path (base));
    }
  return self;
}

/**
 * ortrain_model_new_from_file:
 * @path: (type filename): the path of an ONNX file
 * @error: return location for an error
 *
 * Reads a model. Weights in files of their own are read from the folder of the model and those below it.
 *
 * The time that this takes does not depend on the size of the weights, which are mapped, and read when they are needed.
 *
 * Returns: (transfer full): the model; %NULL with an error of [error@ModelError] or [error@GLib.FileError]
 */
OrtrainModel *
ortrain_model_new_from_file (const char *path, GError **error)
{
  return ortrain_model_new_from_file_with_limits (path, NULL, error);
}

static void
load_in_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  GError *error = NULL;
  OrtrainModel *model = ortrain_model_new_from_file (data, &error);

  if (model != NULL)
    g_task_return_pointer (task, model, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * ortrain_model_new_from_file_async:
 * @path: (type filename): the path of an ONNX file
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async): called when the model is there
 * @user_data: data for @callback
 *
 * Like [ctor@Model.new_from_file], on a thread of its own. @callback runs on the thread-default main context of the
 * caller.
 */
void
ortrain_model_new_from_file_async (const char *path, GCancellable *cancellable, GAsyncReadyCallback callback,
                                   gpointer user_data)
{
  g_return_if_fail (path != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));
  g_autoptr (GTask) task = g_task_new (NULL, cancellable, callback, user_data);

  g_task_set_source_tag (task, ortrain_model_new_from_file_async);
  g_task_set_task_data (task, g_strdup (path), g_free);
  ortrain_task_run_in_thread (task, load_in_thread);
}

/**
 * ortrain_model_new_from_file_finish: (constructor)
 * @result: the result that the callback got
 * @error: return location for an error
 *
 * Finishes [func@Model.new_from_file_async]. It fails as [ctor@Model.new_from_file] does, or with
 * %G_IO_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the model; %NULL on error
 */
OrtrainModel *
ortrain_model_new_from_file_finish (GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, ortrain_model_new_from_file_async), NULL);
  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * ortrain_model_new_from_graph:
 * @graph: a graph
 * @error: return location for an error
 *
 * Creates a model from a graph: one of [class@GraphBuilder] or, to look at it or to save it, a training graph. This
 * library's own operators are in the domain `org.ortrain`, which stock ONNX Runtime does not run.
 *
 * Returns: (transfer full): the model; %NULL with an error of [error@ModelError]
 */
OrtrainModel *
ortrain_model_new_from_graph (OrtrainGraph *graph, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH (graph), NULL);
  g_autoptr (GBytes) bytes = ortrain_graph_write (graph, error);

  return bytes != NULL ? new_from_bytes (bytes, NULL, NULL, NULL, error) : NULL;
}
