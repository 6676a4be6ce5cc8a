/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"
#include "training-graph/ortrain-training-graph-private.h"

#include <glib/gstdio.h>
#include <string.h>

#include "../model/ortrain-proto-maker.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

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
  const OrtrainUpdateRule rule = { 0 };
  g_autoptr (OrtrainTrainingGraph) graph =
      ortrain_training_graph_new (model, options, &rule, padding_rows, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (graph->parameters->len, ==, 2);
  g_assert_cmpuint (graph->buffers->len, ==, train ? 2 : 0); /* mean and variance move */
  g_assert_true ((find (graph->training, "BatchNormTrain") != NULL) == train);
  g_assert_nonnull (ortrain_node_input (find (graph->training, "Dropout"), 2));
  g_assert_nonnull (find (graph->evaluation, "BatchNormTrain")); /* as the file has it */
  g_assert_nonnull (find (graph->evaluation_loss, "BatchNormTrain"));
  OrtrainNode *dropout = find (graph->evaluation, "Dropout");
  g_assert_true (dropout == NULL || ortrain_node_input (dropout, 2) == NULL);
}

/* y = BatchNormalization (x w) in training form, with three outputs (set 15) or five (set 9): after some steps,
 * evaluation gives the result of the exported file. */
static void
test_export (gconstpointer data)
{
  const gint64 opset = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  const float w[8] = { 1, -1, .5f, 2, .25f, 1, -2, 1 }, some[4] = { 1, 2, .5f, 1.5f };
  Proto *graph = proto_new (),
        *norm = proto_node ("BatchNormalization", "h,scale,bias,mean,variance",
                            opset < 14 ? "y,next_mean,next_variance,a,b" : "y,next_mean,next_variance");
  if (opset >= 14)
    {
      Proto *attribute = proto_new ();
      proto_string (attribute, 1, "training_mode");
      proto_int (attribute, 3, 1);
      proto_int (attribute, 20, 2);
      proto_message (norm, 5, attribute);
    }
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
  proto_message (graph, 1, norm);
  proto_message (graph, 5, proto_tensor ("w", 1, (const gint64[]){ 2, 4, -1 }, w, sizeof w));
  static const char *const names[] = { "scale", "bias", "mean", "variance" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    proto_message (graph, 5, proto_tensor (names[i], 1, (const gint64[]){ 4, -1 }, some, sizeof some));
  proto_message (graph, 11, proto_value ("x", 1, (const gint64[]){ 3, 2, -1 }));
  proto_message (graph, 12, proto_value ("y", 1, (const gint64[]){ 3, 4, -1 }));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, opset);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  const float values[12] = { 1, 2, -1, 0, 3, -2, 1, 0, 1, 1, 0, 2 };
  const gint64 x_dims[] = { 3, 2 }, t_dims[] = { 3, 4 };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (x_dims, 2, values, 6, &error);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_new_floats (t_dims, 2, values, 12, &error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new (), only_x = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "target", target);
  ortrain_tensor_dict_set (only_x, "x", x);
  for (guint i = 0; i < 3; i++)
    {
      ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-form-XXXXXX", NULL);
  const int fd = g_mkstemp (path);
  g_assert_cmpint (fd, >=, 0);
  g_close (fd, NULL);
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (exported, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) ran = ortrain_inference_session_run (inference, only_x, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) evaluated = ortrain_training_session_eval_step (session, only_x, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 12; i++)
    g_assert_cmpfloat (ABS (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (ran, "y"), i) -
                            ortrain_tensor_get_scalar (ortrain_tensor_dict_get (evaluated, "y"), i)),
                       <, 1e-5);
  g_assert_cmpint (g_unlink (path), ==, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/training-form/train", GINT_TO_POINTER (ORTRAIN_BATCH_NORM_MODE_TRAIN), test_form);
  g_test_add_data_func ("/training-form/frozen", GINT_TO_POINTER (ORTRAIN_BATCH_NORM_MODE_FROZEN), test_form);
  g_test_add_data_func ("/training-form/export-9", GINT_TO_POINTER (9), test_export);
  g_test_add_data_func ("/training-form/export-15", GINT_TO_POINTER (15), test_export);
  return g_test_run ();
}
