/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-mse-loss.h"
#include "ops/ortrain-op-private.h"
#include "session/ortrain-training-graph-private.h"
#include "tensor/ortrain-tensor-private.h"

/* A file that was written in training form: batch normalisation and dropout train or not as a session and its options
 * say, not as the file does. */

static OrtrainGraph *
make (void)
{
  OrtrainGraph *graph = ortrain_graph_new ("g");
  const gint64 four[] = { 4 };
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_int (4) };
  OrtrainValue *values[5] = { ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2) };
  static const char *const names[] = { NULL, "scale", "bias", "mean", "variance" };
  for (guint i = 1; i < 5; i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, four, 1, NULL);
      for (guint k = 0; k < 4; k++)
        ((float *) ortrain_tensor_peek_writable (tensor))[k] = 1;
      values[i] = ortrain_graph_new_initializer (graph, names[i], tensor);
    }
  OrtrainNode *norm = ortrain_graph_new_node (graph, "", "BatchNormalization", "norm", values, 5, 3);
  ortrain_attributes_set_int (norm->attributes, "training_mode", 1);
  const guint8 one = 1;
  const float half = 0.5f;
  g_autoptr (OrtrainTensor) yes = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, NULL, 0, &one, 1, NULL);
  g_autoptr (OrtrainTensor) ratio =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, NULL, 0, (const guint8 *) &half, 4, NULL);
  OrtrainValue *drop[] = { ortrain_node_output (norm, 0), ortrain_graph_new_initializer (graph, "ratio", ratio),
                           ortrain_graph_new_initializer (graph, "yes", yes) };
  OrtrainNode *dropout = ortrain_graph_new_node (graph, "", "Dropout", "drop", drop, 3, 1);
  ortrain_value_rename (ortrain_node_output (dropout, 0), "y");
  ortrain_graph_mark_output (graph, ortrain_node_output (dropout, 0), TRUE);
  graph->opset = 15;
  g_autoptr (GError) error = NULL;
  ortrain_ops_upgrade (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  return graph;
}

static OrtrainNode *
find (OrtrainGraph *graph, const char *op_type)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    if (g_str_equal (((OrtrainNode *) graph->nodes->pdata[i])->op_type, op_type))
      return graph->nodes->pdata[i];
  return NULL;
}

static void
test_form (gconstpointer data)
{
  const OrtrainBatchNormMode mode = GPOINTER_TO_INT (data);
  const gboolean train = mode == ORTRAIN_BATCH_NORM_MODE_TRAIN;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) model = make ();
  g_assert_nonnull (find (model, "BatchNormTrain"));
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ORTRAIN_LOSS (ortrain_mse_loss_new ("y", "target"));
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_batch_norm (options, mode);
  g_autoptr (GHashTable) padding_rows = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (OrtrainTrainingGraph) graph = ortrain_training_graph_new (model, options, padding_rows, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (graph->parameters->len, ==, 2);
  g_assert_cmpuint (graph->buffers->len, ==, train ? 2 : 0); /* mean and variance move */
  g_assert_true ((find (graph->training, "BatchNormTrain") != NULL) == train);
  g_assert_nonnull (ortrain_node_input (find (graph->training, "Dropout"), 2));
  g_assert_null (find (graph->evaluation, "BatchNormTrain"));
  OrtrainNode *dropout = find (graph->evaluation, "Dropout");
  g_assert_true (dropout == NULL || ortrain_node_input (dropout, 2) == NULL);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/training-form/train", GINT_TO_POINTER (ORTRAIN_BATCH_NORM_MODE_TRAIN), test_form);
  g_test_add_data_func ("/training-form/frozen", GINT_TO_POINTER (ORTRAIN_BATCH_NORM_MODE_FROZEN), test_form);
  return g_test_run ();
}
