/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"
#include "tensor/ortrain-tensor-private.h"

/* export-shifted IN.onnx OUT.onnx: adds 1/64 to each element of each float32 initializer of two or more
 * dimensions (others may be scales of a Resize and the like). check-onnxruntime.py does the
 * same with ONNX's own package, and compares what ONNX Runtime makes of both. */
int
main (int argc, char *argv[])
{
  g_autoptr (GError) error = NULL;
  if (argc != 3)
    {
      g_printerr ("usage: %s IN.onnx OUT.onnx\n", argv[0]);
      return 2;
    }
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (argv[1], &error);
  if (model == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  OrtrainGraph *graph = ortrain_model_get_file_graph (model);
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      const OrtrainOrigin *origin = g_hash_table_lookup (model->reader.origins, value->name);
      if (value->dtype != ORTRAIN_DTYPE_FLOAT32 || origin->kind == ORTRAIN_ORIGIN_CONSTANT || value->rank < 2)
        continue;
      OrtrainTensor *copy = ortrain_tensor_copy (value->tensor, &error);
      float *data = ortrain_tensor_peek_writable (copy);
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (copy); k++)
        data[k] += 1.0f / 64;
      g_hash_table_insert (tensors, value->name, copy);
    }
  if (!ortrain_model_export (model, argv[2], tensors, &error))
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  return 0;
}
