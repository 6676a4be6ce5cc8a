/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-gradient-private.h"
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "transform/ortrain-passes-private.h"

/* The values of the forward pass that the backward pass reads, other than inputs and weights. */
static guint
count_kept (OrtrainGraph *graph)
{
  guint n = 0;
  for (guint i = 0; i < graph->values->len; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      for (guint u = 0; u < value->uses.n; u++)
        if (value->uses.items[u].node->phase == ORTRAIN_PHASE_BACKWARD)
          {
            n++;
            break;
          }
    }
  return n;
}

static OrtrainValue *
op (OrtrainGraph *graph, const char *type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", type, type, inputs, b != NULL ? 2 : 1, 1);
  g_autoptr (GError) error = NULL;
  g_assert_true (ortrain_ops_infer_node (node, &error));
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

/* GELU as exporters write it, in eight nodes, after a product: of all that the eight gradients read, only the product's
 * output needs to be kept. */
static void
test_gelu_keeps_one (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("gelu");
  const OrtrainDim x_dims[] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_int (8) };
  const gint64 w_dims[] = { 8, 16 };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 2);
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, w_dims, 2, &error);
  OrtrainValue *w = ortrain_graph_new_initializer (graph, "w", zeros);
  w->role = ORTRAIN_ROLE_PARAMETER;
#define NUMBER(v) ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT32, v)
  OrtrainValue *h = op (graph, "MatMul", x, w);
  OrtrainValue *cube = op (graph, "Pow", h, NUMBER (3.0));
  OrtrainValue *inner = op (graph, "Add", h, op (graph, "Mul", cube, NUMBER (0.044715)));
  OrtrainValue *t = op (graph, "Tanh", op (graph, "Mul", inner, NUMBER (0.79788456)), NULL);
  OrtrainValue *y = op (graph, "Mul", op (graph, "Mul", h, NUMBER (0.5)), op (graph, "Add", t, NUMBER (1.0)));
  OrtrainValue *loss = op (graph, "ReduceSum", op (graph, "Mul", y, y), NULL);
  ortrain_attributes_set_int (loss->producer->attributes, "keepdims", 0);
  g_assert_true (ortrain_ops_infer_node (loss->producer, &error));
  ortrain_graph_mark_output (graph, loss, TRUE);
  OrtrainValue *gradient;
  g_assert_true (ortrain_gradient_build (graph, loss, &w, 1, &gradient, &error));
  g_assert_no_error (error);

  const gint64 dims[] = { 32, 8 };
  const OrtrainSpecializeInput input = { "x", ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL };
  g_autoptr (OrtrainGraph) fixed = ortrain_specialize (graph, &input, 1, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_kept (fixed), >, 3);
  g_assert_true (ortrain_recompute_cheap (fixed, ortrain_provider_get_host (), &error));
  g_assert_no_error (error);
  g_assert_cmpuint (count_kept (fixed), ==, 1);
  /* the copies are marked as such, and are in the backward pass */
  guint n = 0;
  for (guint i = 0; i < fixed->nodes->len; i++)
    {
      OrtrainNode *node = fixed->nodes->pdata[i];
      if (node->recomputes == NULL)
        continue;
      n++;
      g_assert_cmpint (node->phase, ==, ORTRAIN_PHASE_BACKWARD);
      g_assert_cmpuint (node->number, ==, node->recomputes->number);
    }
  g_assert_cmpuint (n, >, 3);
}

/* Relu (a + b): the mask comes from the output, one tensor, instead of two inputs. */
static void
test_keeps_the_smaller_side (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("residual");
  const OrtrainDim dims[] = { ortrain_dim_int (4), ortrain_dim_int (8) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  const gint64 w_dims[] = { 8, 8 };
  OrtrainValue *w[2];
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, w_dims, 2, &error);
      w[i] = ortrain_graph_new_initializer (graph, "w", zeros);
      w[i]->role = ORTRAIN_ROLE_PARAMETER;
    }
  OrtrainValue *sum = op (graph, "Add", op (graph, "MatMul", x, w[0]), op (graph, "MatMul", x, w[1]));
  OrtrainValue *loss = op (graph, "ReduceSum", op (graph, "Relu", sum, NULL), NULL);
  ortrain_attributes_set_int (loss->producer->attributes, "keepdims", 0);
  g_assert_true (ortrain_ops_infer_node (loss->producer, &error));
  ortrain_graph_mark_output (graph, loss, TRUE);
  OrtrainValue *gradients[2];
  g_assert_true (ortrain_gradient_build (graph, loss, w, 2, gradients, &error));
  g_assert_no_error (error);
  const gint64 x_dims[] = { 4, 8 };
  const OrtrainSpecializeInput input = { "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 2, NULL };
  g_autoptr (OrtrainGraph) fixed = ortrain_specialize (graph, &input, 1, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_recompute_cheap (fixed, ortrain_provider_get_host (), &error));
  g_assert_cmpuint (count_kept (fixed), ==, 1);
}

/* A convolution, batch normalization and ReLU, twice: for each block, the convolution's output and the statistics are
 * kept. The recomputed nodes are element-wise, and read those. */
static void
test_batch_norm_keeps_statistics (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("blocks");
  const OrtrainDim dims[] = { ortrain_dim_int (2), ortrain_dim_int (4), ortrain_dim_int (32), ortrain_dim_int (32) };
  const gint64 w_dims[] = { 4, 4, 3, 3 }, channels[] = { 4 };
  OrtrainValue *value = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 4), *w[2];
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, w_dims, 4, &error);
  g_autoptr (OrtrainTensor) row = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, channels, 1, &error);
  for (guint i = 0; i < 2; i++)
    {
      w[i] = ortrain_graph_new_initializer (graph, "w", zeros);
      w[i]->role = ORTRAIN_ROLE_PARAMETER;
      OrtrainValue *operands[5] = { op (graph, "Conv", value, w[i]) };
      for (guint k = 1; k < 5; k++)
        operands[k] = ortrain_graph_new_initializer (graph, "row", row);
      OrtrainNode *norm = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "BatchNormTrain", "norm", operands, 5, 3);
      g_assert_true (ortrain_ops_infer_node (norm, &error));
      for (guint k = 1; k < 3; k++)
        ortrain_graph_mark_output (graph, ortrain_node_output (norm, k), TRUE);
      value = op (graph, "Relu", ortrain_node_output (norm, 0), NULL);
    }
  OrtrainValue *loss = op (graph, "ReduceSum", op (graph, "Mul", value, value), NULL);
  ortrain_attributes_set_int (loss->producer->attributes, "keepdims", 0);
  g_assert_true (ortrain_ops_infer_node (loss->producer, &error));
  ortrain_graph_mark_output (graph, loss, TRUE);
  OrtrainValue *gradients[2];
  g_assert_true (ortrain_gradient_build (graph, loss, w, 2, gradients, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_split_norms (graph, &error));
  g_assert_no_error (error);
  const gint64 x_dims[] = { 2, 4, 32, 32 };
  const OrtrainSpecializeInput input = { "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 4, NULL };
  g_autoptr (OrtrainGraph) fixed = ortrain_specialize (graph, &input, 1, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_recompute_cheap (fixed, ortrain_provider_get_host (), &error));
  g_assert_no_error (error);
  g_assert_cmpuint (count_kept (fixed), ==, 2 * 4); /* of each block, with three statistics; views of those run again */

  g_autoptr (GString) again = g_string_new (NULL);
  for (guint i = 0; i < fixed->nodes->len; i++)
    {
      OrtrainNode *node = fixed->nodes->pdata[i];
      if (g_str_equal (node->op_type, "BatchNormTrain"))
        {
          g_assert_cmpint (node->phase, ==, ORTRAIN_PHASE_FORWARD);
          g_assert_null (ortrain_node_output (node, 0));
        }
      if (node->recomputes == NULL || ortrain_node_has_flag (node, ORTRAIN_OP_VIEW))
        continue;
      g_string_append_printf (again, "%s+", node->op_type);
      g_assert_true (ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE));
    }
  g_assert_cmpstr (again->str, ==, "NormApply+Relu+NormApply+Relu+");
}

/* tanh (h) · h: two nodes of the backward pass read the result of the Tanh. The first reads the kept value, the second
 * a copy. */
static void
test_readers_of_two_runs (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("readers");
  const OrtrainDim x_dims[] = { ortrain_dim_int (4), ortrain_dim_int (8) };
  const gint64 w_dims[] = { 8, 16 };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 2);
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, w_dims, 2, &error);
  OrtrainValue *w = ortrain_graph_new_initializer (graph, "w", zeros);
  w->role = ORTRAIN_ROLE_PARAMETER;
  OrtrainValue *h = op (graph, "MatMul", x, w);
  OrtrainValue *t = op (graph, "Tanh", h, NULL);
  OrtrainValue *loss = op (graph, "ReduceSum", op (graph, "Mul", t, h), NULL);
  ortrain_attributes_set_int (loss->producer->attributes, "keepdims", 0);
  g_assert_true (ortrain_ops_infer_node (loss->producer, &error));
  ortrain_graph_mark_output (graph, loss, TRUE);
  OrtrainValue *gradient;
  g_assert_true (ortrain_gradient_build (graph, loss, &w, 1, &gradient, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_graph_sort (graph, &error));
  g_autoptr (GPtrArray) readers = g_ptr_array_new (); /* in the order of the graph */
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      for (guint k = 0; k < node->inputs->len; k++)
        if (node->inputs->pdata[k] == t && node->phase == ORTRAIN_PHASE_BACKWARD)
          g_ptr_array_add (readers, node);
    }
  g_assert_cmpuint (readers->len, ==, 2);

  g_autofree guint8 *run = g_new0 (guint8, graph->values->len + 1);
  g_autofree guint8 *again = g_new0 (guint8, graph->nodes->len + 1);
  run[t->id] = 1 << 4;
  ortrain_recompute_find_recomputed (graph, run, again);
  for (guint i = 0; i < graph->nodes->len; i++)
    g_assert_cmpuint (again[i], ==, graph->nodes->pdata[i] == t->producer ? 1 << 1 : 0);
  g_assert_true (ortrain_recompute_apply (graph, run, &error));
  g_assert_no_error (error);
  guint n_kept = 0, n_copies = 0;
  for (guint r = 0; r < readers->len; r++)
    {
      const OrtrainNode *reader = readers->pdata[r];
      for (guint k = 0; k < reader->inputs->len; k++)
        {
          const OrtrainValue *input = reader->inputs->pdata[k];
          n_kept += input == t && r == 0;
          n_copies += input != NULL && input->producer != NULL && input->producer->recomputes == t->producer && r == 1;
        }
    }
  g_assert_cmpuint (n_kept, ==, 1);
  g_assert_cmpuint (n_copies, ==, 1);
}

/* tanh (h) + exp (sqrt (tanh (h))): the Tanh runs once more for the addition, and the nodes between stay as they are.
 */
static void
test_twice_in_forward_pass (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("twice");
  const OrtrainDim dims[] = { ortrain_dim_int (4), ortrain_dim_int (8) };
  OrtrainValue *h = ortrain_graph_new_input (graph, "h", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainValue *t = op (graph, "Tanh", h, NULL);
  OrtrainValue *root = op (graph, "Sqrt", t, NULL);
  OrtrainValue *sum = op (graph, "Add", t, op (graph, "Exp", root, NULL));
  ortrain_graph_mark_output (graph, sum, TRUE);
  g_autofree guint8 *run = g_new0 (guint8, graph->values->len + 1);
  g_autofree guint8 *again = g_new0 (guint8, graph->nodes->len + 1);
  run[t->id] = ORTRAIN_RECOMPUTE_TWICE;
  ortrain_recompute_find_recomputed (graph, run, again);
  for (guint i = 0; i < graph->nodes->len; i++)
    g_assert_cmpuint (again[i], ==, graph->nodes->pdata[i] == t->producer ? 1 : 0);
  g_assert_true (ortrain_recompute_apply (graph, run, &error));
  g_assert_no_error (error);
  const OrtrainNode *second = ortrain_node_input (sum->producer, 0)->producer;
  g_assert_true (second->recomputes == t->producer);
  g_assert_cmpint (second->phase, ==, ORTRAIN_PHASE_FORWARD);
  g_assert_true (ortrain_node_input (second, 0) == h);
  g_assert_true (ortrain_node_input (root->producer, 0) == t);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transform/recompute/gelu-keeps-one", test_gelu_keeps_one);
  g_test_add_func ("/transform/recompute/keeps-the-smaller-side", test_keeps_the_smaller_side);
  g_test_add_func ("/transform/recompute/batch-norm-keeps-statistics", test_batch_norm_keeps_statistics);
  g_test_add_func ("/transform/recompute/readers-of-two-runs", test_readers_of_two_runs);
  g_test_add_func ("/transform/recompute/twice-in-forward-pass", test_twice_in_forward_pass);
  return g_test_run ();
}
