/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-model-private.h"

/* For libFuzzer: any bytes are a model or an error. Configure with clang and -Dfuzz=true; run
 *   fuzz-model -max_len=4096 CORPUS
 * with small models in the corpus. */
int LLVMFuzzerTestOneInput (const guint8 *data, size_t size);

int
LLVMFuzzerTestOneInput (const guint8 *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);

  if ((model == NULL) != (error != NULL))
    __builtin_trap ();
  if (model == NULL)
    return 0;
  g_autofree char *text = ortrain_model_to_string (model);
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
  ortrain_model_get_graph (model, NULL);
  if (text == NULL || pairs == NULL)
    __builtin_trap ();

  /* every float initializer with new contents */
  OrtrainGraph *graph = ortrain_model_get_file_graph (model);
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      gsize rank;
      const gint64 *dims = ortrain_tensor_get_dims (value->tensor, &rank);
      OrtrainTensor *fresh = ortrain_tensor_new (value->dtype, dims, rank, NULL);
      if (fresh != NULL)
        g_hash_table_insert (tensors, value->name, fresh);
    }
  g_autoptr (GBytes) again = ortrain_model_export_bytes (model, tensors, NULL);
  if (again != NULL)
    {
      /* what was written can be read */
      g_autoptr (OrtrainModel) second = ortrain_model_new_from_bytes (again, NULL, &error);
      if (second == NULL)
        __builtin_trap ();
    }
  return 0;
}
