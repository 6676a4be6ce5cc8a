/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "op-harness.h"

/* Dropout keeps what it should, its gradient replays the same mask, and all of it hangs on seed and step alone. */

static void
run_dropout (guint64 seed, guint32 step, OrtrainProvider *provider, gint64 n, double ratio, OrtrainTensor **y,
             OrtrainTensor **mask, OrtrainTensor **gradient)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  const double yes = 1;
  g_autoptr (OrtrainTensor) x = harness_cosine (&n, 1, 0);
  g_autoptr (OrtrainTensor) training = harness_tensor (ORTRAIN_DTYPE_BOOL, &yes, NULL, 0);
  OrtrainValue *operands[] = { harness_input (graph, contents, "x", x),
                               ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, ratio),
                               harness_input (graph, contents, "training", training) };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Dropout", NULL, operands, 3, 2);
  OrtrainValue *dx, *loss = harness_weighted_sum (graph, ortrain_node_output (node, 0), x);
  gboolean ok = ortrain_gradient_build (graph, loss, operands, 1, &dx, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  OrtrainHostContext context;
  init_context (&context, provider);
  context.step = (OrtrainStepBlock){ .seed = seed, .step = step };
  harness_run (graph, contents, &context);
  *y = g_object_ref (g_hash_table_lookup (contents, ortrain_node_output (node, 0)));
  *mask = g_object_ref (g_hash_table_lookup (contents, ortrain_node_output (node, 1)));
  *gradient = g_object_ref (g_hash_table_lookup (contents, dx));
}

static void
test_dropout (void)
{
  const gint64 n = 100003;
  g_autoptr (OrtrainProvider) provider = new_cpu (3);
  OrtrainTensor *y[4], *mask[4], *gradient[4];
  run_dropout (1, 1, NULL, n, 0.3, &y[0], &mask[0], &gradient[0]);
  run_dropout (1, 1, provider, n, 0.3, &y[1], &mask[1], &gradient[1]);
  run_dropout (1, 2, NULL, n, 0.3, &y[2], &mask[2], &gradient[2]);
  run_dropout (2, 1, NULL, n, 0.3, &y[3], &mask[3], &gradient[3]);
  gint64 kept = 0;
  for (gint64 i = 0; i < n; i++)
    {
      gboolean keep = ortrain_tensor_get_scalar (mask[0], i) != 0;
      kept += keep;
      g_assert_cmpfloat (ortrain_tensor_get_scalar (y[0], i), ==, keep ? 1 / 0.7 : 0);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (gradient[0], i), ==, keep ? 1 / 0.7 : 0);
    }
  g_assert_cmpfloat (fabs ((double) kept / (double) n - 0.7), <, 0.005); /* 3.4 standard deviations */
  g_assert_true (ortrain_tensor_equal (y[0], y[1]));
  g_assert_false (ortrain_tensor_equal (y[0], y[2]));
  g_assert_false (ortrain_tensor_equal (y[0], y[3]));
  for (int i = 0; i < 4; i++)
    {
      g_object_unref (y[i]);
      g_object_unref (mask[i]);
      g_object_unref (gradient[i]);
    }
}

static void
test_distributions (void)
{
  static const char *const names[] = { "RandomNormal", "RandomUniform" };
  for (int k = 0; k < 2; k++)
    {
      const gint64 n = 200000;
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      g_autoptr (GHashTable) contents = harness_contents ();
      g_autoptr (GError) error = NULL;
      OrtrainNode *node = ortrain_graph_new_node (graph, "", names[k], NULL, NULL, 0, 1);
      ortrain_attributes_set_ints (node->attributes, "shape", &n, 1);
      ortrain_attributes_set_float (node->attributes, k == 0 ? "mean" : "low", 2);
      ortrain_attributes_set_float (node->attributes, k == 0 ? "scale" : "high", 3);
      g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
      OrtrainHostContext context;
      init_context (&context, NULL);
      context.step.seed = 7;
      harness_run (graph, contents, &context);
      OrtrainTensor *y = g_hash_table_lookup (contents, ortrain_node_output (node, 0));
      double sum = 0, square = 0;
      for (gint64 i = 0; i < n; i++)
        {
          double v = ortrain_tensor_get_scalar (y, i);
          sum += v / (double) n;
          square += v * v / (double) n;
          if (k == 1)
            g_assert_true (v >= 2 && v <= 3);
        }
      double mean = k == 0 ? 2 : 2.5, var = k == 0 ? 9 : 1.0 / 12;
      g_assert_cmpfloat (fabs (sum - mean), <, 4 * sqrt (var / (double) n));
      g_assert_cmpfloat (fabs (square - sum * sum - var), <, 0.02 * var);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/random/dropout", test_dropout);
  g_test_add_func ("/ops/random/distributions", test_distributions);
  return g_test_run ();
}
