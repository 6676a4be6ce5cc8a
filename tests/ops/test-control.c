/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

/* y = x.shape[1] == 3 ? x * x : -x, as exporters write it where they did not know the extent. */
static OrtrainGraph *
make (OrtrainDim extent)
{
  OrtrainGraph *graph = ortrain_graph_new ("g");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "batch"), extent };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainValue *shape = ortrain_node_output (ortrain_graph_new_node (graph, "", "Shape", NULL, &x, 1, 1), 0);
  OrtrainValue *gather[] = { shape, ortrain_graph_const_int (graph, 1) };
  OrtrainValue *n = ortrain_node_output (ortrain_graph_new_node (graph, "", "Gather", NULL, gather, 2, 1), 0);
  OrtrainValue *equal[] = { n, ortrain_graph_const_int (graph, 3) };
  OrtrainValue *condition = ortrain_node_output (ortrain_graph_new_node (graph, "", "Equal", NULL, equal, 2, 1), 0);
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "If", "choice", &condition, 1, 1);
  static const char *const names[] = { "then_branch", "else_branch" }, *const types[] = { "Mul", "Neg" };
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainGraph) body = ortrain_graph_new (names[i]);
      OrtrainValue *captured = ortrain_graph_new_value (body, "x"), *operands[] = { captured, captured };
      OrtrainNode *inner = ortrain_graph_new_node (body, "", types[i], NULL, operands, 2 - i, 1);
      ortrain_graph_mark_output (body, ortrain_node_output (inner, 0), TRUE);
      ortrain_attributes_set_graph (node->attributes, names[i], G_OBJECT (body));
    }
  ortrain_value_rename (ortrain_node_output (node, 0), "y");
  ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
  return graph;
}

static void
check (OrtrainDim extent, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = make (extent);
  ortrain_ops_upgrade (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  guint n_found = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      g_assert_cmpstr (node->op_type, !=, "If");
      n_found += g_str_equal (node->op_type, expected);
    }
  g_assert_cmpuint (n_found, ==, 1);
  OrtrainValue *y = ortrain_graph_find_value (graph, "y");
  g_assert_true (y->is_output);
  g_assert_cmpint (y->rank, ==, 2);
  g_assert_true (ortrain_dim_equal (y->dims[1], extent));
}

static void
test_known (void)
{
  check (ortrain_dim_int (3), "Mul");
  check (ortrain_dim_int (4), "Neg");
}

static void
test_unknown (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) other = ortrain_graph_new ("other");
  g_autoptr (OrtrainGraph) graph = make (ortrain_dim_symbol (other->dims, "width"));
  g_assert_false (ortrain_ops_upgrade (graph, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT);
  g_assert_nonnull (strstr (error->message, "choice"));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/control/known", test_known);
  g_test_add_func ("/ops/control/unknown", test_unknown);
  return g_test_run ();
}
