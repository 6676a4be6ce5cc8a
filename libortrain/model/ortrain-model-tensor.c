/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-tensor.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "graph/ortrain-graph-private.h"
#include "model/ortrain-model-private.h"

/* A field of wire type 2: tag, length, bytes. */
static void
append_field (GByteArray *bytes, guint8 tag, gconstpointer data, gsize n)
{
  g_byte_array_append (bytes, &tag, 1);
  for (gsize rest = n;; rest >>= 7)
    {
      guint8 byte = (guint8) ((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
      g_byte_array_append (bytes, &byte, 1);
      if (rest <= 0x7f)
        break;
    }
  g_byte_array_append (bytes, data, (guint) n);
}

/**
 * ortrain_tensor_new_from_onnx:
 * @path: (type filename): a file with one serialised `TensorProto`, as ONNX's test data have them (`input_0.pb`)
 * @error: return location for an error
 *
 * Reads a tensor in ONNX's own format.
 *
 * Returns: (transfer full): the tensor, or %NULL with an error of [error@ModelError]
 */
OrtrainTensor *
ortrain_tensor_new_from_onnx (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_autofree char *contents = NULL;
  gsize length;
  if (!ortrain_text_file_read (path, G_MAXINT - 1024, &contents, &length, error))
    return NULL;
  /* The tensor becomes the one initializer of a model, so that the one reader of models, with all its checks, reads it.
   * The last name in a message counts, so the tensor's own does not matter. */
  static const guint8 name[] = { 0x42, 1, 't' }, version[] = { 0x08, 8 }, opset[] = { 0x10, 15 };
  g_autoptr (GByteArray) tensor = g_byte_array_new ();
  g_autoptr (GByteArray) graph = g_byte_array_new ();
  g_autoptr (GByteArray) model = g_byte_array_new ();
  g_byte_array_append (tensor, (const guint8 *) contents, (guint) length);
  g_byte_array_append (tensor, name, sizeof name);
  append_field (graph, 0x12, "g", 1);                    /* GraphProto.name */
  append_field (graph, 0x2a, tensor->data, tensor->len); /* GraphProto.initializer */
  g_byte_array_append (model, version, sizeof version);  /* ModelProto.ir_version */
  append_field (model, 0x42, opset, sizeof opset);       /* ModelProto.opset_import */
  append_field (model, 0x3a, graph->data, graph->len);   /* ModelProto.graph */
  g_autoptr (GBytes) bytes = g_bytes_new (model->data, model->len);
  g_autoptr (OrtrainModel) parsed = ortrain_model_new_from_bytes (bytes, NULL, error);
  if (parsed == NULL)
    {
      g_prefix_error (error, "File '%s': ", ortrain_text_show_path (path));
      return NULL;
    }
  OrtrainGraph *read = ortrain_model_get_file_graph (parsed);
  OrtrainValue *value = read != NULL ? ortrain_graph_find_value (read, "t") : NULL;
  if (value == NULL || value->tensor == NULL)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED,
                   "File '%s' has no tensor of a supported type", ortrain_text_show_path (path));
      return NULL;
    }
  return g_object_ref (value->tensor);
}
