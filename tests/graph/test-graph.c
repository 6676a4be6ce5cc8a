/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"
#include "ops/ortrain-op-private.h"

#include <string.h>

/* x [batch, 4] → a = Relu (x) → b = Add (a, w [4]) → output */
static OrtrainGraph *
make_graph (void)
{
  g_autoptr (GError) error = NULL;
  OrtrainGraph *graph = ortrain_graph_new ("g");
  const gint64 dims[] = { -1, 4 }, w_dims[] = { 4 };
  const float ones[] = { 1, 1, 1, 1 };
  g_autoptr (OrtrainTensor) w = ortrain_tensor_new_floats (w_dims, 1, ones, 4, &error);
  g_assert_no_error (error);
  g_assert_nonnull (ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2, &error));
  g_assert_nonnull (ortrain_graph_add_initializer (graph, "w", w, &error));
  const char *const in1[] = { "x", NULL }, *const out1[] = { "a", NULL };
  const char *const in2[] = { "a", "w", NULL }, *const out2[] = { "b", NULL };
  g_assert_nonnull (ortrain_graph_add_node (graph, "Relu", NULL, "relu", in1, out1, &error));
  g_assert_nonnull (ortrain_graph_add_node (graph, "Add", NULL, "add", in2, out2, &error));
  g_assert_true (ortrain_graph_add_output (graph, "b", &error));
  g_assert_true (ortrain_graph_infer (graph, &error));
  g_assert_no_error (error);
  return graph;
}

static void
count_change (GListModel *model, guint position, guint removed, guint added, gpointer data)
{
  (*(guint *) data)++;
}

static void
test_lists_follow (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  g_autoptr (GError) error = NULL;
  GListModel *nodes = ortrain_graph_get_nodes (graph);
  guint changes = 0;
  g_signal_connect (nodes, "items-changed", G_CALLBACK (count_change), &changes);
  g_assert_cmpuint (g_list_model_get_n_items (nodes), ==, 2);
  const char *const in[] = { "b", NULL }, *const out[] = { "c", NULL };
  OrtrainNode *node = ortrain_graph_add_node (graph, "Neg", NULL, NULL, in, out, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (nodes), ==, 3);
  g_assert_cmpuint (changes, ==, 1);
  g_assert_true (ortrain_graph_remove_node (graph, node, &error));
  g_assert_cmpuint (g_list_model_get_n_items (nodes), ==, 2);
  g_assert_null (ortrain_graph_find_value (graph, "c"));
}

static void
test_shapes (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  OrtrainValue *b = ortrain_graph_find_value (graph, "b");
  g_assert_cmpint (ortrain_value_get_dtype (b), ==, ORTRAIN_DTYPE_FLOAT32);
  g_assert_cmpint (ortrain_value_get_rank (b), ==, 2);
  g_assert_cmpint (ortrain_value_get_dim (b, 0), ==, -1);
  g_assert_cmpint (ortrain_value_get_dim (b, 1), ==, 4);
  g_assert_true (ortrain_value_same_shape (b, ortrain_graph_find_value (graph, "x")));
}

static void
test_refuses (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  g_autoptr (GError) error = NULL;
  const char *const in[] = { "nothing", NULL }, *const out[] = { "c", NULL }, *const taken[] = { "a", NULL };
  const char *const x[] = { "x", NULL };
  g_assert_null (ortrain_graph_add_node (graph, "Relu", NULL, NULL, in, out, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME);
  g_assert_nonnull (strstr (error->message, "nothing"));
  g_clear_error (&error);
  g_assert_null (ortrain_graph_add_node (graph, "Relu", NULL, NULL, x, taken, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME);
  g_clear_error (&error);
  g_assert_false (ortrain_graph_remove_node (graph, ortrain_graph_find_node (graph, "relu"), &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME);
  g_clear_error (&error);
  /* b in the place of a: Add would read itself */
  g_assert_false (ortrain_graph_replace_value (graph, ortrain_graph_find_value (graph, "a"),
                                               ortrain_graph_find_value (graph, "b"), &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_CYCLE);
  g_clear_error (&error);
  g_assert_true (ortrain_graph_infer (graph, &error));
  /* all unknown operators at once */
  const char *const d[] = { "d", NULL }, *const e[] = { "e", NULL };
  ortrain_graph_add_node (graph, "Nonsense", NULL, NULL, x, d, NULL);
  ortrain_graph_add_node (graph, "Gibberish", "com.example", NULL, x, e, NULL);
  g_assert_false (ortrain_graph_infer (graph, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_UNKNOWN_OPERATOR);
  g_assert_nonnull (strstr (error->message, "Nonsense (1)"));
  g_assert_nonnull (strstr (error->message, "com.example::Gibberish (1)"));
}

static void
test_cycle (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  g_autoptr (GError) error = NULL;
  ortrain_node_set_input (ortrain_graph_find_node (graph, "relu"), 0, ortrain_graph_find_value (graph, "b"));
  g_assert_false (ortrain_graph_infer (graph, &error));
  g_assert_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_CYCLE);
  g_assert_nonnull (strstr (error->message, "relu"));
}

static void
assert_order (OrtrainGraph *graph, const char *first, const char *second)
{
  g_autoptr (GError) error = NULL;
  guint positions[2];
  g_assert_true (ortrain_graph_sort (graph, &error));
  g_assert_no_error (error);
  g_assert_true (g_ptr_array_find (graph->nodes, ortrain_graph_find_node (graph, first), &positions[0]));
  g_assert_true (g_ptr_array_find (graph->nodes, ortrain_graph_find_node (graph, second), &positions[1]));
  g_assert_cmpuint (positions[0], <, positions[1]);
}

/* A sorted graph is no longer sorted once a node reads the output of a later one: by a new input, or by another
 * producer of a value that it has read before. */
static void
test_order (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  assert_order (graph, "relu", "add");
  OrtrainValue *x = ortrain_graph_find_value (graph, "x");
  OrtrainNode *late = ortrain_graph_new_node (graph, "", "Neg", "late", &x, 1, 1);
  assert_order (graph, "relu", "late");
  ortrain_node_set_input (ortrain_graph_find_node (graph, "relu"), 0, ortrain_node_output (late, 0));
  assert_order (graph, "late", "relu");

  OrtrainNode *last = ortrain_graph_new_node (graph, "", "Abs", "last", &x, 1, 0);
  assert_order (graph, "add", "last");
  OrtrainValue *negative = ortrain_node_output (late, 0);
  late->outputs->pdata[0] = NULL;
  negative->producer = NULL;
  g_assert_true (ortrain_node_set_output (last, 0, negative));
  assert_order (graph, "last", "relu");
}

/* A copy is complete, and changes of it do not change the original. */
static void
test_copy (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  g_autofree char *before = ortrain_graph_to_string (graph);
  g_autoptr (OrtrainGraph) copy = ortrain_graph_copy (graph);
  g_autofree char *same = ortrain_graph_to_string (copy);
  g_assert_cmpstr (before, ==, same);
  ortrain_value_replace_uses (ortrain_graph_find_value (copy, "b"), ortrain_graph_find_value (copy, "a"));
  g_assert_cmpuint (ortrain_graph_remove_dead (copy), ==, 1);
  g_autofree char *after = ortrain_graph_to_string (graph);
  g_assert_cmpstr (before, ==, after);
  /* the output kept its name */
  g_assert_nonnull (ortrain_graph_find_value (copy, "b"));
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_graph_get_nodes (copy)), ==, 1);
}

/* Nodes and values outlive their graph without dangling. */
static void
test_outlive (void)
{
  OrtrainGraph *graph = make_graph ();
  g_autoptr (OrtrainNode) node = g_object_ref (ortrain_graph_find_node (graph, "add"));
  g_autoptr (OrtrainValue) value = g_object_ref (ortrain_graph_find_value (graph, "b"));
  g_object_unref (graph);
  g_assert_cmpuint (ortrain_node_get_n_inputs (node), ==, 0);
  g_assert_null (ortrain_value_get_producer (value));
  g_assert_cmpstr (ortrain_value_get_name (value), ==, "b");
}

static void
test_attributes (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  OrtrainNode *node = ortrain_graph_find_node (graph, "relu");
  const gint64 ints[] = { 3, -1 };
  ortrain_node_set_attribute (node, "axes", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, ints, 2, sizeof (gint64)));
  ortrain_node_set_attribute (node, "alpha", g_variant_new_double (0.5));
  ortrain_node_set_attribute (node, "mode", g_variant_new_string ("edge"));
  g_autoptr (GVariant) axes = ortrain_node_get_attribute (node, "axes");
  g_autofree char *text = g_variant_print (axes, FALSE);
  g_assert_cmpstr (text, ==, "[3, -1]");
  g_autoptr (GVariant) alpha = ortrain_node_get_attribute (node, "alpha");
  g_assert_cmpfloat (g_variant_get_double (alpha), ==, 0.5);
  ortrain_node_set_attribute (node, "mode", NULL);
  g_assert_null (ortrain_node_get_attribute (node, "mode"));
  g_auto (GStrv) names = ortrain_node_get_attribute_names (node);
  g_assert_cmpuint (g_strv_length (names), ==, 2);
}

static void
test_dot (void)
{
  g_autoptr (OrtrainGraph) graph = make_graph ();
  g_autofree char *dot = ortrain_graph_to_dot (graph);
  g_assert_true (g_str_has_prefix (dot, "digraph {"));
  g_assert_nonnull (strstr (dot, "\"Relu\""));
  g_assert_nonnull (strstr (dot, "-> n1"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/graph/lists-follow", test_lists_follow);
  g_test_add_func ("/graph/shapes", test_shapes);
  g_test_add_func ("/graph/refuses", test_refuses);
  g_test_add_func ("/graph/cycle", test_cycle);
  g_test_add_func ("/graph/order", test_order);
  g_test_add_func ("/graph/copy", test_copy);
  g_test_add_func ("/graph/outlive", test_outlive);
  g_test_add_func ("/graph/attributes", test_attributes);
  g_test_add_func ("/graph/dot", test_dot);
  return g_test_run ();
}
