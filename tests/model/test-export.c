/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model-fixture.h"

/* The model that was read, written with new weights. */

static char *scratch; /* a directory of our own */

static void
test_round_trip (void)
{
  const char *const names[] = { "mlp.onnx", "cnn.onnx" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = load_data (names[i]);
      g_autofree char *path = g_build_filename (scratch, names[i], NULL), *old = NULL, *new = NULL;
      gsize old_size, new_size;
      g_assert_true (ortrain_model_save (model, path, &error));
      g_assert_no_error (error);
      g_assert_true (g_file_get_contents (ortrain_model_get_path (model), &old, &old_size, NULL));
      g_assert_true (g_file_get_contents (path, &new, &new_size, NULL));
      g_assert_cmpmem (old, old_size, new, new_size);
    }
}

static void
test_export (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_data ("cnn.onnx");
  OrtrainGraph *graph = ortrain_model_get_file_graph (model);
  g_autoptr (GHashTable) tensors = new_tensors ();
  g_autofree char *path = g_build_filename (scratch, "trained.onnx", NULL);

  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (value->dtype == ORTRAIN_DTYPE_FLOAT32)
        g_hash_table_insert (tensors, g_strdup (value->name), plus_one (value->tensor));
    }
  g_assert_true (ortrain_model_export (model, path, tensors, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      OrtrainTensor *want = g_hash_table_lookup (tensors, value->name);
      g_assert_true (ortrain_tensor_equal (contents (again, value->name), want != NULL ? want : value->tensor));
    }
  /* nothing else has changed: the weights are as long as they were */
  g_autoptr (GBytes) old = ortrain_model_to_bytes (model, NULL), new = ortrain_model_to_bytes (again, NULL);
  g_assert_cmpuint (g_bytes_get_size (old), ==, g_bytes_get_size (new));
  g_assert_cmpuint (ortrain_model_get_n_nodes (model), ==, ortrain_model_get_n_nodes (again));

  g_autoptr (GHashTable) wrong = new_tensors ();
  g_hash_table_insert (wrong, g_strdup ("no such"), ortrain_tensor_new_scalar (1));
  g_assert_false (ortrain_model_export (model, path, wrong, &error));
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE);
  g_clear_error (&error);
  g_hash_table_remove_all (wrong);
  OrtrainValue *first = graph->initializers->pdata[0];
  g_hash_table_insert (wrong, g_strdup (first->name), ortrain_tensor_new_scalar (1));
  g_assert_false (ortrain_model_export (model, path, wrong, &error));
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE);
}

static void
test_constants (void)
{
  g_autoptr (GError) error = NULL;
  Proto *graph = proto_new (), *node, *attribute;
  node = proto_node ("Constant", "", "w");
  g_byte_array_set_size (node, 0);
  proto_string (node, 2, "w");
  proto_string (node, 4, "Constant");
  attribute = proto_new ();
  proto_string (attribute, 1, "value");
  proto_message (attribute, 5, proto_tensor (NULL, 1, DIMS (2, 2), four, 16));
  proto_int (attribute, 20, 4);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  node = proto_new ();
  proto_string (node, 2, "b");
  proto_string (node, 4, "Constant");
  attribute = proto_new ();
  proto_string (attribute, 1, "value_floats");
  proto_bytes (attribute, 7, four, 8);
  proto_int (attribute, 20, 6);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  proto_message (graph, 1, proto_node ("MatMul", "x,w", "h"));
  proto_message (graph, 1, proto_node ("Add", "h,b", "g"));
  proto_message (graph, 1, proto_node ("Mul", "g,half", "y"));
  node = proto_new ();
  proto_string (node, 2, "half");
  proto_string (node, 4, "Constant");
  attribute = proto_new ();
  proto_string (attribute, 1, "value_float");
  float half = 0.5f;
  proto_varint (attribute, 2 << 3 | 5);
  g_byte_array_append (attribute, (const guint8 *) &half, 4);
  proto_int (attribute, 20, 1);
  proto_message (node, 5, attribute);
  proto_message (graph, 1, node);
  proto_message (graph, 11, proto_value ("x", 1, DIMS (1, 2)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (1, 2)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = load_bytes (bytes);
  OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
  g_assert_cmpuint (file_graph->nodes->len, ==, 3);
  g_assert_cmpuint (ortrain_model_get_n_parameters (model), ==, 6);

  g_autoptr (GHashTable) tensors = new_tensors ();
  g_hash_table_insert (tensors, g_strdup ("w"), plus_one (contents (model, "w")));
  g_hash_table_insert (tensors, g_strdup ("b"), plus_one (contents (model, "b")));
  g_autoptr (GBytes) new = ortrain_model_export_bytes (model, tensors, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) again = load_bytes (new);
  const float w[] = { 2, 3, 4, 5 };
  g_assert_cmpmem (ortrain_tensor_peek (contents (again, "w")), 16, w, 16);
  g_assert_cmpmem (ortrain_tensor_peek (contents (again, "b")), 8, w, 8);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "half"), 0), ==, 0.5);
  const OrtrainOrigin *origin = g_hash_table_lookup (again->reader.origins, "b");
  g_assert_cmpint (origin->kind, ==, ORTRAIN_ORIGIN_CONSTANT);
}

/* An exporter merged a bias and a running mean, both zero, ahead of the program, which hands a weight on. */
static void
test_merged_initializers (void)
{
  for (gint64 ir = 3; ir <= 8; ir += 5)
    {
      g_autoptr (GError) error = NULL;
      const float zeros[4] = { 0 };
      Proto *graph = proto_new ();
      proto_message (graph, 1, proto_node ("Identity", "bn.bias", "bn.running_mean"));
      proto_message (graph, 1, proto_node ("Relu", "x", "h"));
      proto_message (graph, 1, proto_node ("Identity", "w", "bn.running_var"));
      proto_message (graph, 1, proto_node ("BatchNormalization", "h,w,bn.bias,bn.running_mean,bn.running_var", "y"));
      proto_message (graph, 5, proto_tensor ("bn.bias", 1, DIMS (4), zeros, 16));
      proto_message (graph, 5, proto_tensor ("w", 1, DIMS (4), four, 16));
      if (ir < 4)
        {
          proto_message (graph, 11, proto_value ("bn.bias", 1, DIMS (4)));
          proto_message (graph, 11, proto_value ("w", 1, DIMS (4)));
        }
      proto_message (graph, 11, proto_value ("x", 1, DIMS (2, 4)));
      proto_message (graph, 12, proto_value ("y", 1, DIMS (2, 4)));
      g_autoptr (GBytes) bytes = proto_model (graph, ir, 9);
      g_autoptr (OrtrainModel) model = load_bytes (bytes);
      OrtrainGraph *file_graph = ortrain_model_get_file_graph (model);
      g_assert_cmpuint (file_graph->nodes->len, ==, 3); /* one Identity is left: that of the second use */
      g_assert_cmpint (ortrain_graph_find_value (file_graph, "bn.running_mean")->kind, ==, ORTRAIN_VALUE_INITIALIZER);
      g_assert_cmpint (ortrain_graph_find_value (file_graph, "bn.running_var")->kind, ==, ORTRAIN_VALUE_COMPUTED);
      g_assert_true (has_note (model, "bn.running_mean"));

      /* both get the same new contents: the file keeps its form */
      g_autoptr (GHashTable) tensors = new_tensors ();
      g_hash_table_insert (tensors, g_strdup ("bn.bias"), plus_one (contents (model, "bn.bias")));
      g_hash_table_insert (tensors, g_strdup ("bn.running_mean"), plus_one (contents (model, "bn.bias")));
      g_autoptr (GBytes) same = ortrain_model_export_bytes (model, tensors, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (g_bytes_get_size (same), ==, g_bytes_get_size (bytes));

      /* one of them changes: the node stays, and reads an initializer of its own now */
      g_hash_table_remove (tensors, "bn.running_mean");
      g_autoptr (GBytes) apart = ortrain_model_export_bytes (model, tensors, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainModel) again = load_bytes (apart);
      g_assert_cmpuint (again->scan.nodes->len, ==, 4);
      g_assert_cmpuint (ortrain_model_get_n_parameters (again), ==, 12);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "bn.bias"), 1), ==, 1.0);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "bn.running_mean"), 1), ==, 0.0);
      const OrtrainOrigin *origin = g_hash_table_lookup (again->reader.origins, "bn.running_mean");
      g_assert_cmpint (origin->kind, ==, ORTRAIN_ORIGIN_SEPARATED);
      g_assert_cmpstr (origin->of, ==, "bn.running_mean.value");
      g_assert_cmpuint (ortrain_model_get_file_graph (again)->inputs->len, ==, 1);

      /* and goes on under its name: once more with other contents */
      g_hash_table_insert (tensors, g_strdup ("bn.running_mean"), plus_one (contents (again, "bn.bias")));
      g_autoptr (GBytes) thrice = ortrain_model_export_bytes (again, tensors, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (g_bytes_get_size (thrice), ==, g_bytes_get_size (apart));
      g_autoptr (OrtrainModel) third = load_bytes (thrice);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (third, "bn.running_mean"), 1), ==, 2.0);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  scratch = g_dir_make_tmp ("ortrain-export-XXXXXX", NULL);
  g_test_add_func ("/export/round-trip", test_round_trip);
  g_test_add_func ("/export/export", test_export);
  g_test_add_func ("/export/constants", test_constants);
  g_test_add_func ("/export/merged-initializers", test_merged_initializers);
  int status = g_test_run ();
  test_remove_folder (scratch);
  g_free (scratch);
  return status;
}
