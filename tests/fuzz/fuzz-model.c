/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include "model/ortrain-model-private.h"
#include "ortrain.h"

/* What can be read can be looked at, checked, written with new contents and read again; a session can be made of it, and
 * be run on inputs of a few elements, or says why not. */
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

/* Inputs without elements of their own choice: every dimension that is not fixed is 2. */
static OrtrainTensorDict *
make_feeds (OrtrainGraph *graph)
{
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *value = graph->inputs->pdata[i];
      gint64 dims[ORTRAIN_MAX_RANK];
      if (value->rank < 0 || value->rank > 8)
        return NULL;
      gint64 n = 1;
      for (gint d = 0; d < value->rank; d++)
        {
          dims[d] = ortrain_dim_is_int (value->dims[d]) ? value->dims[d].value : 2;
          if (dims[d] > 4096 || (n *= MAX (dims[d], 1)) > 65536)
            return NULL;
        }
      OrtrainDType dtype = value->dtype != ORTRAIN_DTYPE_UNDEFINED ? value->dtype : ORTRAIN_DTYPE_FLOAT32;
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (dtype, dims, (gsize) value->rank, NULL);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (feeds, value->name, tensor);
    }
  return g_steal_pointer (&feeds);
}

/* What a kernel computes in a moment: what is much larger takes time, and finds nothing else. */
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

/* One step towards zero, if the model can be trained at all. */
static void
train (OrtrainModel *model, OrtrainTensorDict *feeds, const char *output, OrtrainTensor *value)
{
  g_autoptr (GError) error = NULL, step_error = NULL;
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (value, &rank);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new (output, "fuzz.target");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_threads (options, 1);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  fuzz_check_error (session != NULL, error);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new (ortrain_tensor_get_dtype (value), dims, rank, NULL);
  if (session == NULL || target == NULL)
    return;
  ortrain_tensor_dict_set (feeds, "fuzz.target", target);
  ortrain_training_session_train_step (session, feeds, &step_error);
  fuzz_check_error (step_error == NULL, step_error);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL, graph_error = NULL, session_error = NULL, run_error = NULL;
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
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *told = ortrain_check_report_to_string (report);
  FUZZ_CHECK (told != NULL);
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_threads (options, 1);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &session_error);
  fuzz_check_error (session != NULL, session_error);
  g_autoptr (OrtrainTensorDict) feeds = session != NULL ? make_feeds (graph) : NULL;
  if (feeds == NULL)
    return 0;
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &run_error);
  fuzz_check_error (outputs != NULL, run_error);
  if (outputs != NULL && ortrain_tensor_dict_get_size (outputs) > 0)
    train (model, feeds, ortrain_tensor_dict_get_name (outputs, 0), ortrain_tensor_dict_get_tensor (outputs, 0));
  return 0;
}
