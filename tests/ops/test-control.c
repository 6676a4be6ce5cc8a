/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check/ortrain-check-report.h"
#include "ops/ortrain-op-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "session/ortrain-inference-session.h"
#include "specialize/ortrain-specialize-private.h"

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

/* An extent that is known when a run is planned decides then. */
static OrtrainGraph *
specialize (OrtrainGraph *graph, gint64 width)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[] = { 2, width };
  const OrtrainSpecializeInput input = { .name = "x", .dtype = ORTRAIN_DTYPE_FLOAT32, .dims = dims, .rank = 2 };
  OrtrainGraph *special = ortrain_specialize (graph, &input, 1, &error);
  g_assert_no_error (error);
  return special;
}

static void
test_planned (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) other = ortrain_graph_new ("other");
  g_autoptr (OrtrainGraph) graph = make (ortrain_dim_symbol (other->dims, "width"));
  ortrain_ops_upgrade (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  for (gint64 width = 3; width <= 4; width++)
    {
      g_autoptr (OrtrainGraph) special = specialize (graph, width);
      g_assert_cmpuint (special->nodes->len, ==, 1);
      OrtrainNode *node = special->nodes->pdata[0];
      g_assert_cmpstr (node->op_type, ==, width == 3 ? "Mul" : "Neg");
      OrtrainValue *y = ortrain_graph_find_value (special, "y");
      g_assert_true (y->is_output && y->producer == node);
      g_assert_cmpint (y->dims[1].value, ==, width);
    }
}

/* y = flag ? x * 2 : x + 1, of a flag that is fed, or computed from x. */
static OrtrainModel *
make_model (gboolean fed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "n") };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 1);
  OrtrainValue *condition;
  if (fed)
    condition = ortrain_graph_new_input (graph, "flag", ORTRAIN_DTYPE_BOOL, NULL, 0);
  else
    {
      OrtrainNode *sum = ortrain_graph_new_node (graph, "", "ReduceSum", NULL, &x, 1, 1);
      ortrain_attributes_set_int (sum->attributes, "keepdims", 0);
      OrtrainValue *operands[] = { ortrain_node_output (sum, 0),
                                   ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT32, 0) };
      condition = ortrain_node_output (ortrain_graph_new_node (graph, "", "Greater", NULL, operands, 2, 1), 0);
    }
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "If", "choice", &condition, 1, 1);
  static const char *const names[] = { "then_branch", "else_branch" }, *const types[] = { "Mul", "Add" };
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainGraph) branch = ortrain_graph_new (names[i]);
      OrtrainValue *operands[] = { ortrain_graph_new_value (branch, "x"),
                                   ortrain_graph_const_scalar (branch, ORTRAIN_DTYPE_FLOAT32, 2 - i) };
      OrtrainNode *inner = ortrain_graph_new_node (branch, "", types[i], NULL, operands, 2, 1);
      ortrain_graph_mark_output (branch, ortrain_node_output (inner, 0), TRUE);
      ortrain_attributes_set_graph (node->attributes, names[i], G_OBJECT (branch));
    }
  ortrain_value_rename (ortrain_node_output (node, 0), "y");
  ortrain_value_set_shape (ortrain_node_output (node, 0), ORTRAIN_DTYPE_FLOAT32, dims, 1);
  ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
  graph->opset = 17;
  g_hash_table_insert (graph->opsets, g_strdup (""), GINT_TO_POINTER (17));
  OrtrainModel *model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return model;
}

static void
check_run (OrtrainInferenceSession *session, OrtrainTensorDict *feeds, float first, float expected)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[] = { 3 };
  const float data[] = { first, 5, 7 };
  g_autoptr (OrtrainTensor) x =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 1, (const guint8 *) data, sizeof data, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (feeds, "x", x);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "y"), 0), ==, expected);
}

static void
test_fed (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (TRUE);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  for (guint8 flag = 0; flag < 2; flag++)
    {
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, NULL, 0, &flag, 1, &error);
      ortrain_tensor_dict_set (feeds, "flag", tensor);
      check_run (session, feeds, 3, flag ? 6 : 4);
    }
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_inference_session_get_memory_plan (session);
  g_assert_nonnull (plan); /* planned, not interpreted */
}

static void
test_computed (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (FALSE);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  check_run (session, feeds, 3, 6);
  check_run (session, feeds, -30, -29);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_assert_false (ortrain_check_report_get_trainable (report));
}

/* y = flag ? (flag ? -x : x) : x: only the branch inside of the branch reads x. */
static void
test_nested (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "n") };
  ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 1);
  OrtrainValue *flag = ortrain_graph_new_input (graph, "flag", ORTRAIN_DTYPE_BOOL, NULL, 0);
  static const char *const names[] = { "then_branch", "else_branch" }, *const types[] = { "Neg", "Identity" };
  OrtrainNode *outer = ortrain_graph_new_node (graph, "", "If", "outer", &flag, 1, 1);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainGraph) branch = ortrain_graph_new (names[i]);
      OrtrainValue *captured = ortrain_graph_new_value (branch, "flag"), *x = ortrain_graph_new_value (branch, "x");
      OrtrainNode *node;
      if (i == 0)
        {
          node = ortrain_graph_new_node (branch, "", "If", "inner", &captured, 1, 1);
          for (guint k = 0; k < 2; k++)
            {
              g_autoptr (OrtrainGraph) inner = ortrain_graph_new (names[k]);
              OrtrainValue *again = ortrain_graph_new_value (inner, "x");
              OrtrainNode *leaf = ortrain_graph_new_node (inner, "", types[k], NULL, &again, 1, 1);
              ortrain_graph_mark_output (inner, ortrain_node_output (leaf, 0), TRUE);
              ortrain_attributes_set_graph (node->attributes, names[k], G_OBJECT (inner));
            }
        }
      else
        node = ortrain_graph_new_node (branch, "", "Identity", NULL, &x, 1, 1);
      ortrain_graph_mark_output (branch, ortrain_node_output (node, 0), TRUE);
      ortrain_attributes_set_graph (outer->attributes, names[i], G_OBJECT (branch));
    }
  ortrain_value_rename (ortrain_node_output (outer, 0), "y");
  ortrain_graph_mark_output (graph, ortrain_node_output (outer, 0), TRUE);
  graph->opset = 17;
  ortrain_ops_upgrade (graph, &error);
  g_assert_no_error (error);
  for (guint8 taken = 0; taken < 2; taken++)
    {
      const gint64 extents[] = { 4 };
      g_autoptr (OrtrainTensor) contents = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_BOOL, NULL, 0, &taken, 1, &error);
      const OrtrainSpecializeInput inputs[] = {
        { .name = "x", .dtype = ORTRAIN_DTYPE_FLOAT32, .dims = extents, .rank = 1 },
        { .name = "flag", .dtype = ORTRAIN_DTYPE_BOOL, .contents = contents },
      };
      g_autoptr (OrtrainGraph) special = ortrain_specialize (graph, inputs, 2, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (special->nodes->len, ==, 1);
      g_assert_cmpstr (((OrtrainNode *) special->nodes->pdata[0])->op_type, ==, taken ? "Neg" : "Identity");
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/control/known", test_known);
  g_test_add_func ("/ops/control/planned", test_planned);
  g_test_add_func ("/ops/control/fed", test_fed);
  g_test_add_func ("/ops/control/nested", test_nested);
  g_test_add_func ("/ops/control/computed", test_computed);
  return g_test_run ();
}
