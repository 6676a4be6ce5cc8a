/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-graph-builder.h"
#include "model/ortrain-model-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>

/* Builds, writes, reads back, and gives the graph as sessions see it. */
static OrtrainModel *
build (OrtrainGraphBuilder *builder, OrtrainGraph **graph)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (GBytes) bytes = ortrain_model_to_bytes (model, &error);
  g_assert_no_error (error);
  OrtrainModel *again = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  *graph = ortrain_model_get_graph (again, &error);
  g_assert_no_error (error);
  return again;
}

static void
assert_shape (OrtrainGraph *graph, const char *name, const char *shape)
{
  OrtrainValue *value = ortrain_graph_find_value (graph, name);
  g_assert_nonnull (value);
  g_autofree char *text = ortrain_value_get_shape_string (value);
  g_assert_cmpstr (text, ==, shape);
}

static void
test_cnn (void)
{
  OrtrainGraph *graph;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_cnn (NULL, 1, 28, 28, 10, 3);
  g_autoptr (OrtrainModel) model = build (builder, &graph);
  assert_shape (graph, "image", "[batch, 1, 28, 28]");
  assert_shape (graph, "logits", "[batch, 10]");
  /* conv 16·1·9+16, norms 4·16 and 4·32, conv 32·16·9+32, linear 10·1568+10 */
  g_assert_cmpuint (ortrain_model_get_n_parameters (model), ==, 160 + 64 + 4640 + 128 + 15690);
  g_assert_nonnull (ortrain_graph_find_value (graph, "bn2.running_var"));

  /* as PyTorch draws them: uniform, within one over the root of the number of inputs */
  OrtrainTensor *weight = ortrain_graph_find_value (graph, "fc.weight")->tensor;
  const float *w = ortrain_tensor_peek (weight);
  double sum = 0, square = 0, largest = 0, bound = 1 / sqrt (1568);
  gint64 n = ortrain_tensor_get_n_elements (weight);
  for (gint64 i = 0; i < n; i++)
    {
      sum += w[i];
      square += (double) w[i] * w[i];
      largest = MAX (largest, fabs (w[i]));
    }
  g_assert_cmpfloat (largest, <=, bound);
  g_assert_cmpfloat (largest, >, 0.99 * bound);
  g_assert_cmpfloat (fabs (sum / (double) n), <, 0.05 * bound);
  g_assert_cmpfloat_with_epsilon (square / (double) n, bound * bound / 3, 0.05 * bound * bound);
}

static void
test_seed (void)
{
  OrtrainGraph *graphs[3];
  OrtrainModel *models[3];
  const gint64 sizes[] = { 8, 6, 4 };
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_mlp ("m", sizes, 3, i / 2);
      models[i] = build (builder, &graphs[i]);
    }
  OrtrainTensor *weights[3], *biases = ortrain_graph_find_value (graphs[0], "fc1.bias")->tensor;
  for (guint i = 0; i < 3; i++)
    weights[i] = ortrain_graph_find_value (graphs[i], "fc1.weight")->tensor;
  g_assert_true (ortrain_tensor_equal (weights[0], weights[1]));
  g_assert_false (ortrain_tensor_equal (weights[0], weights[2]));
  g_assert_cmpfloat (ortrain_tensor_get_scalar (weights[0], 0), !=, ortrain_tensor_get_scalar (biases, 0));
  for (guint i = 0; i < 3; i++)
    g_clear_object (&models[i]);
}

static void
test_transformers (void)
{
  OrtrainGraph *graph;
  g_autoptr (OrtrainGraphBuilder) gpt = ortrain_graph_builder_new_gpt (NULL, 100, 32, 16, 2, 4, 1);
  g_autoptr (OrtrainModel) gpt_model = build (gpt, &graph);
  g_assert_nonnull (gpt_model);
  assert_shape (graph, "logits", "[batch, seq, 100]");
  g_autoptr (OrtrainGraphBuilder) bert = ortrain_graph_builder_new_bert (NULL, 100, 32, 16, 2, 4, 3, 1);
  g_autoptr (OrtrainModel) bert_model = build (bert, &graph);
  g_assert_nonnull (bert_model);
  assert_shape (graph, "logits", "[batch, 3]");
}

static void
test_any_operator (void)
{
  OrtrainGraph *graph;
  g_autoptr (OrtrainGraphBuilder) b = ortrain_graph_builder_new ("any");
  ortrain_graph_builder_add_input (b, "x", ORTRAIN_DTYPE_FLOAT32, "[n, 6]");
  const char *const inputs[] = { "x", "", "top", NULL }, *const outputs[] = { "clipped", NULL };
  g_autoptr (OrtrainTensor) top = ortrain_tensor_new_floats (NULL, 0, &(float){ 1.5f }, 1, NULL);
  ortrain_graph_builder_add_tensor (b, "top", top);
  OrtrainValue *clipped = ortrain_graph_builder_add_op (b, "Clip", NULL, inputs, outputs, NULL);
  g_assert_nonnull (clipped);
  GVariantBuilder attributes;
  g_variant_builder_init (&attributes, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&attributes, "{sv}", "axis", g_variant_new_int64 (1));
  g_variant_builder_add (&attributes, "{sv}", "num_outputs", g_variant_new_int64 (2));
  const char *const split_inputs[] = { "clipped", NULL }, *const split_outputs[] = { "left", "right", NULL };
  OrtrainValue *left =
      ortrain_graph_builder_add_op (b, "Split", NULL, split_inputs, split_outputs, g_variant_builder_end (&attributes));
  OrtrainValue *right = ortrain_graph_find_value (ortrain_graph_builder_get_graph (b), "right");
  ortrain_graph_builder_add_output (b, ortrain_graph_builder_binary (b, "Mul", left, right), "product");
  g_autoptr (OrtrainModel) model = build (b, &graph);
  g_assert_nonnull (model);
  assert_shape (graph, "product", "[n, 3]");
  OrtrainNode *clip = ortrain_value_get_producer (ortrain_graph_find_value (graph, "clipped"));
  g_assert_null (ortrain_node_get_input (clip, 1));
}

static void
assert_fails (OrtrainGraphBuilder *b, OrtrainGraphError code, const char *part)
{
  for (guint i = 0; i < 2; i++) /* it stays */
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (ortrain_graph_builder_build (b, &error));
      g_assert_error (error, ORTRAIN_GRAPH_ERROR, (int) code);
      g_assert_nonnull (strstr (error->message, part));
    }
}

static void
test_mistakes (void)
{
  g_autoptr (OrtrainGraphBuilder) none = ortrain_graph_builder_new (NULL);
  assert_fails (none, ORTRAIN_GRAPH_ERROR_NAME, "no output");

  g_autoptr (OrtrainGraphBuilder) symbolic = ortrain_graph_builder_new (NULL);
  OrtrainValue *x = ortrain_graph_builder_add_input (symbolic, "x", ORTRAIN_DTYPE_FLOAT32, "batch, features");
  x = ortrain_graph_builder_linear (symbolic, x, "first", 3, TRUE);
  g_assert_null (x);
  x = ortrain_graph_builder_relu (symbolic, x);
  ortrain_graph_builder_add_output (symbolic, x, "y");
  assert_fails (symbolic, ORTRAIN_GRAPH_ERROR_SHAPE, "first");

  g_autoptr (OrtrainGraphBuilder) twice = ortrain_graph_builder_new (NULL);
  x = ortrain_graph_builder_add_input (twice, "x", ORTRAIN_DTYPE_FLOAT32, "2, 3");
  ortrain_graph_builder_linear (twice, x, "fc", 3, TRUE);
  ortrain_graph_builder_linear (twice, x, "fc", 3, TRUE);
  assert_fails (twice, ORTRAIN_GRAPH_ERROR_NAME, "fc.weight");

  g_autoptr (OrtrainGraphBuilder) shape = ortrain_graph_builder_new (NULL);
  x = ortrain_graph_builder_add_input (shape, "x", ORTRAIN_DTYPE_FLOAT32, "2, 3");
  OrtrainValue *y = ortrain_graph_builder_add_input (shape, "y", ORTRAIN_DTYPE_FLOAT32, "2, 4");
  ortrain_graph_builder_add (shape, x, y);
  assert_fails (shape, ORTRAIN_GRAPH_ERROR_SHAPE, "Add");

  g_autoptr (OrtrainGraphBuilder) dimension = ortrain_graph_builder_new (NULL);
  ortrain_graph_builder_add_input (dimension, "x", ORTRAIN_DTYPE_FLOAT32, "batch, -3");
  assert_fails (dimension, ORTRAIN_GRAPH_ERROR_SHAPE, "-3");

  g_autoptr (OrtrainGraphBuilder) conv = ortrain_graph_builder_new (NULL);
  x = ortrain_graph_builder_add_input (conv, "x", ORTRAIN_DTYPE_FLOAT32, "n, 3, 8, 8");
  ortrain_graph_builder_conv (conv, x, "c", 4, 3, 1, 1, 2, TRUE);
  assert_fails (conv, ORTRAIN_GRAPH_ERROR_SHAPE, "'c'");
}

/* A graph with operators of our own and a fused body goes through a file, for people to look at. */
static void
test_own_operators (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("training");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_int (4) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "ReluGrad", "g", (OrtrainValue *[]){ x, x }, 2, 1);
  OrtrainDim twice[] = { ortrain_dim_mul (graph->dims, dims[0], ortrain_dim_int (2)), dims[1] };
  ortrain_value_set_shape (ortrain_node_output (node, 0), ORTRAIN_DTYPE_FLOAT32, twice, 2);
  ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_model_get_opset (model), ==, 23);
  g_assert_cmpint (ortrain_model_get_opset_version (model, ORTRAIN_DOMAIN), ==, 1);
  OrtrainGraph *again = ortrain_model_get_file_graph (model);
  g_assert_cmpstr (((OrtrainNode *) again->nodes->pdata[0])->domain, ==, ORTRAIN_DOMAIN);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/graph-builder/cnn", test_cnn);
  g_test_add_func ("/graph-builder/seed", test_seed);
  g_test_add_func ("/graph-builder/transformers", test_transformers);
  g_test_add_func ("/graph-builder/any-operator", test_any_operator);
  g_test_add_func ("/graph-builder/mistakes", test_mistakes);
  g_test_add_func ("/graph-builder/own-operators", test_own_operators);
  return g_test_run ();
}
