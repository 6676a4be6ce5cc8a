/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/exercise.h"
#include "fuzz/fuzz.h"

#include "model/ortrain-model-private.h"
#include "ortrain.h"

/* A model that can be read can be printed, written with new contents and read again. A small one goes through every
 * stage of exercise.h, too. */
static void
export_anew (OrtrainModel *model)
{
  g_autoptr (GError) error = NULL;
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
  g_autoptr (GBytes) again = ortrain_model_export_bytes (model, tensors, &error);
  fuzz_check_error (again != NULL, error);
  if (again == NULL)
    return;
  g_autoptr (OrtrainModel) second = ortrain_model_new_from_bytes (again, NULL, &error);
  if (second == NULL)
    g_error ("what was written cannot be read: %s", error->message);
}

/* Whether a kernel computes it in a moment: much larger models take time, and find nothing else. */
static gboolean
is_small (OrtrainGraph *graph)
{
  gint64 dims[ORTRAIN_MAX_RANK], sum = 0;
  if (graph->nodes->len > 200)
    return FALSE;
  for (guint i = 0; i < graph->values->len; i++)
    {
      const OrtrainValue *value = graph->values->pdata[i];
      gint64 n = 1;
      for (gint d = 0; d < MAX (value->rank, 0); d++)
        {
          dims[d] = ortrain_dim_is_int (value->dims[d]) ? value->dims[d].value : 2;
          if (dims[d] > 65536 || (n *= MAX (dims[d], 1)) > 65536)
            return FALSE;
        }
      sum += n;
    }
  return sum < 1 << 20;
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL, graph_error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  fuzz_check_error (model != NULL, error);
  if (model == NULL)
    return 0;
  g_autofree char *text = ortrain_model_to_string (model);
  g_autofree char *dot = ortrain_graph_to_dot (ortrain_model_get_file_graph (model));
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
  FUZZ_CHECK (text != NULL && dot != NULL && pairs != NULL);
  export_anew (model);

  OrtrainGraph *graph = ortrain_model_get_graph (model, &graph_error);
  fuzz_check_error (graph != NULL, graph_error);
  if (graph == NULL || !is_small (graph))
    return 0;
  g_autoptr (GRand) random = g_rand_new_with_seed (g_bytes_hash (bytes));
  Exercise result;
  exercise_model (bytes, random, EXERCISE_RARITY, &result);
  exercise_clear (&result);
  return 0;
}
