/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

/* Integers that are suggested for an input, from their use in the nodes after it. */

static OrtrainValue *
add (OrtrainGraph *graph, const char *op_type, OrtrainValue *x, OrtrainValue *y)
{
  OrtrainValue *operands[] = { x, y };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, operands, y != NULL ? 2 : 1, 1);
  OrtrainValue *output = ortrain_node_output (node, 0);
  ortrain_value_set_shape (output, ORTRAIN_DTYPE_INT64, NULL, -1);
  return output;
}

static OrtrainValue *
add_table (OrtrainGraph *graph, gint64 rows, gint64 columns)
{
  const gint64 dims[] = { rows, columns };
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
  return ortrain_graph_new_initializer (graph, "table", tensor);
}

static void
look_up (OrtrainGraph *graph, OrtrainValue *table, OrtrainValue *indices, gint64 axis)
{
  OrtrainValue *result = add (graph, "Gather", table, indices);
  ortrain_value_set_shape (result, ORTRAIN_DTYPE_FLOAT32, NULL, -1);
  ortrain_attributes_set_int (result->producer->attributes, "axis", axis);
}

static void
assert_range (OrtrainValue *value, gint64 least, gint64 greatest)
{
  gint64 found[2];
  ortrain_value_suggest_integers (value, &found[0], &found[1]);
  g_assert_cmpint (found[0], ==, least);
  g_assert_cmpint (found[1], ==, greatest);
}

static OrtrainValue *
begin (OrtrainGraph **graph)
{
  const OrtrainDim dims[] = { ortrain_dim_int (4) };
  *graph = ortrain_graph_new ("g");
  return ortrain_graph_new_input (*graph, "ids", ORTRAIN_DTYPE_INT64, dims, 1);
}

static void
test_lookups (void)
{
  g_autoptr (OrtrainGraph) graph = NULL;
  OrtrainValue *ids = begin (&graph), *table = add_table (graph, 9, 5);
  assert_range (ids, 1, 1);
  look_up (graph, table, ids, 0);
  assert_range (ids, 0, 8);
  /* the smaller table counts, also after operators that make other integers of them */
  look_up (graph, add_table (graph, 7, 5), add (graph, "Squeeze", add (graph, "Unsqueeze", ids, NULL), NULL), 0);
  assert_range (ids, 0, 6);
  look_up (graph, table, ids, -1);
  assert_range (ids, 0, 4);
}

/* The table that is looked up is no index, nor are values that are not computed from integers. */
static void
test_other_operands (void)
{
  g_autoptr (OrtrainGraph) graph = NULL;
  OrtrainValue *ids = begin (&graph), *floats = add (graph, "Cast", ids, NULL);
  look_up (graph, ids, ortrain_graph_const_int (graph, 2), 0);
  ortrain_value_set_shape (floats, ORTRAIN_DTYPE_FLOAT32, NULL, -1);
  look_up (graph, add_table (graph, 3, 3), add (graph, "Floor", floats, NULL), 0);
  assert_range (ids, 1, 1);
}

static void
test_comparisons (void)
{
  g_autoptr (OrtrainGraph) graph = NULL;
  OrtrainValue *ids = begin (&graph);
  add (graph, "Equal", ortrain_graph_const_int (graph, 16000), add (graph, "Squeeze", ids, NULL));
  add (graph, "Less", ids, ortrain_graph_const_int (graph, 3));
  assert_range (ids, 16000, 16000);
  look_up (graph, add_table (graph, 3, 3), ids, 0);
  assert_range (ids, 0, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/integer-range/lookups", test_lookups);
  g_test_add_func ("/integer-range/other-operands", test_other_operands);
  g_test_add_func ("/integer-range/comparisons", test_comparisons);
  return g_test_run ();
}
