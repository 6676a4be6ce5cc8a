/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-gradient-private.h"
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

/* The gradient of a bias in front of a normalisation that takes it away again is zero, exactly; that of one which the
 * normalisation only shifts is not. */

static gboolean
vanishes (const char *normalization, gint64 groups)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  const gint64 shapes[][4] = { { 2, 3, 5, 5 }, { 4, 3, 1, 1 }, { 4 }, { 4 }, { 4 } };
  const guint ranks[] = { 4, 4, 1, 1, 1 };
  OrtrainValue *values[5];
  for (guint i = 0; i < 5; i++)
    {
      OrtrainDim dims[4];
      for (guint d = 0; d < ranks[i]; d++)
        dims[d] = ortrain_dim_int (shapes[i][d]);
      values[i] = ortrain_graph_new_input (graph, NULL, ORTRAIN_DTYPE_FLOAT32, dims, (gint) ranks[i]);
    }
  OrtrainValue *conv = ortrain_node_output (ortrain_graph_new_node (graph, "", "Conv", NULL, values, 3, 1), 0);
  OrtrainValue *operands[] = { conv, values[3], values[4] };
  OrtrainNode *norm = ortrain_graph_new_node (graph, "", normalization, NULL, operands, 3, 1);
  if (groups > 0)
    ortrain_attributes_set_int (norm->attributes, "num_groups", groups);
  OrtrainValue *y = ortrain_node_output (norm, 0);
  OrtrainValue *square[] = { y, y };
  OrtrainValue *squares = ortrain_node_output (ortrain_graph_new_node (graph, "", "Mul", NULL, square, 2, 1), 0);
  OrtrainNode *mean = ortrain_graph_new_node (graph, "", "ReduceMean", NULL, &squares, 1, 1);
  ortrain_attributes_set_int (mean->attributes, "keepdims", 0);
  OrtrainValue *loss = ortrain_node_output (mean, 0), *gradients[2] = { NULL };
  ortrain_graph_mark_output (graph, loss, TRUE);
  ortrain_ops_bind (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  OrtrainValue *wanted[] = { values[2], values[4] };
  ortrain_gradient_build (graph, loss, wanted, 2, gradients, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    {
      gradients[i]->role = ORTRAIN_ROLE_GRADIENT;
      g_autofree char *name = g_strdup_printf ("gradient%u", i);
      ortrain_value_rename (gradients[i], name);
      ortrain_graph_mark_output (graph, gradients[i], TRUE);
    }
  ortrain_drop_zero_gradients (graph, &error);
  g_assert_no_error (error);
  /* that of the normalisation's own bias never goes */
  g_assert_cmpstr (ortrain_graph_find_value (graph, "gradient1")->producer->name, !=, "grad/Zeros");
  return g_str_has_prefix (ortrain_graph_find_value (graph, "gradient0")->producer->name, "grad/Zeros");
}

static void
test_normalizations (void)
{
  g_assert_true (vanishes ("InstanceNormalization", 0));
  g_assert_false (vanishes ("GroupNormalization", 2));
  g_assert_false (vanishes ("GroupNormalization", 1));
}

/* softmax (where (mask, low, q · (k + b)ᵀ)): b moves all scores of a row alike, also where some are masked, as long as
 * the softmax gives those nothing; and where it is computed in 16 bits, and b and its gradient are float32. */
static gboolean
vanishes_behind_mask (double low, OrtrainDType dtype)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  const OrtrainDim rows[] = { ortrain_dim_int (3), ortrain_dim_int (5) },
                   keys[] = { ortrain_dim_int (4), ortrain_dim_int (5) },
                   scores[] = { ortrain_dim_int (3), ortrain_dim_int (4) };
  OrtrainValue *q = ortrain_graph_new_input (graph, "q", dtype, rows, 2);
  OrtrainValue *k = ortrain_graph_new_input (graph, "k", dtype, keys, 2);
  OrtrainValue *b = ortrain_graph_new_input (graph, "b", ORTRAIN_DTYPE_FLOAT32, keys + 1, 1);
  OrtrainValue *mask = ortrain_graph_new_input (graph, "mask", ORTRAIN_DTYPE_BOOL, scores, 2);
#define NODE(op, n, ...)                                                                                               \
  ortrain_node_output (ortrain_graph_new_node (graph, "", op, NULL, (OrtrainValue *[]){ __VA_ARGS__ }, n, 1), 0)
  OrtrainValue *bias = dtype != ORTRAIN_DTYPE_FLOAT32 ? NODE ("Cast", 1, b) : b;
  if (bias != b)
    ortrain_attributes_set_int (bias->producer->attributes, "to", dtype);
  OrtrainValue *x = NODE ("MatMul", 2, q, NODE ("Transpose", 1, NODE ("Add", 2, k, bias)));
  x = NODE ("Where", 3, mask, ortrain_graph_const_scalar (graph, dtype, low), x);
  x = NODE ("Softmax", 1, x);
  x = NODE ("ReduceMean", 1, NODE ("Mul", 2, x, x));
  ortrain_attributes_set_int (x->producer->attributes, "keepdims", 0);
  ortrain_graph_mark_output (graph, x, TRUE);
  ortrain_ops_bind (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  OrtrainValue *gradient = NULL;
  ortrain_gradient_build (graph, x, &b, 1, &gradient, &error);
  g_assert_no_error (error);
  gradient->role = ORTRAIN_ROLE_GRADIENT;
  ortrain_value_rename (gradient, "gradient");
  ortrain_graph_mark_output (graph, gradient, TRUE);
  ortrain_drop_zero_gradients (graph, &error);
  g_assert_no_error (error);
  return g_str_has_prefix (ortrain_graph_find_value (graph, "gradient")->producer->name, "grad/Zeros");
}

static void
test_mask (void)
{
  g_assert_true (vanishes_behind_mask (-3e38, ORTRAIN_DTYPE_FLOAT32));
  g_assert_true (vanishes_behind_mask (-3e38, ORTRAIN_DTYPE_BFLOAT16));
  g_assert_false (vanishes_behind_mask (-10, ORTRAIN_DTYPE_FLOAT32));
  g_assert_false (vanishes_behind_mask (-10, ORTRAIN_DTYPE_BFLOAT16));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transform/structurally-zero-gradients/normalizations", test_normalizations);
  g_test_add_func ("/transform/structurally-zero-gradients/mask", test_mask);
  return g_test_run ();
}
