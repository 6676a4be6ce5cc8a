/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "op-harness.h"

/* Cross entropy against PyTorch's cross_entropy, in float64: ignored targets, class weights, label smoothing, classes
 * on another axis. The numbers are PyTorch's (2.x) on the same sines; of the gradient, Σ g·cos (0.9·i). */

typedef struct
{
  gboolean spatial;
  const char *reduction;
  gboolean weighted;
  double smoothing, loss, digest;
} Case;

static const Case cases[] = {
  { FALSE, "mean", FALSE, 0.0, 1.3620005807739537, -0.059994570230233427 },
  { FALSE, "mean", FALSE, 0.1, 1.4930179471143346, -0.048995107623305834 },
  { FALSE, "mean", TRUE, 0.0, 1.5196636659991452, -0.08422681085421084 },
  { FALSE, "mean", TRUE, 0.1, 1.6423943303290216, -0.066300295651441077 },
  { FALSE, "sum", FALSE, 0.0, 5.4480023230958148, -0.23997828092093371 },
  { FALSE, "sum", FALSE, 0.1, 5.9720717884573382, -0.19598043049322333 },
  { FALSE, "sum", TRUE, 0.0, 6.0786546639965806, -0.33690724341684336 },
  { FALSE, "sum", TRUE, 0.1, 6.5695773213160864, -0.26520118260576431 },
  { FALSE, "none", FALSE, 0.0, 14.554787319613357, -0.10113300603396491 },
  { FALSE, "none", FALSE, 0.1, 16.365017472087388, 0.18834195742451282 },
  { FALSE, "none", TRUE, 0.0, 20.039241873747574, 2.0560658018897726 },
  { FALSE, "none", TRUE, 0.1, 21.429618436032722, 2.1928386770622303 },
  { TRUE, "mean", FALSE, 0.0, 2.6911696652945563, 0.12868815185424257 },
  { TRUE, "mean", FALSE, 0.2, 2.7054456869631061, 0.11698283909629618 },
  { TRUE, "mean", TRUE, 0.0, 2.2062462941432202, 0.21337683729063842 },
  { TRUE, "mean", TRUE, 0.2, 2.2304319930020635, 0.18988617085889806 },
  { TRUE, "none", FALSE, 0.0, 412.80668227776061, 31.704661035896045 },
  { TRUE, "none", FALSE, 0.2, 417.46603177711683, 28.941254417502694 },
  { TRUE, "none", TRUE, 0.0, 330.21539498575157, 46.855832877441102 },
  { TRUE, "none", TRUE, 0.2, 341.66024594409316, 41.829285616229427 },
};

static void
check (const Case *test, OrtrainDType dtype, OrtrainProvider *provider, double tolerance)
{
  static const gint64 flat[] = { 5, 7 }, image[] = { 2, 4, 3, 3 }, rows[] = { 5 }, pixels[] = { 2, 3, 3 };
  static const double class_weights[] = { 0.5, 1, 2, 0.25, 1.5, 0.75, 1.25 }, targets[] = { 3, 6, -100, 0, 2 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  double spatial_targets[18];
  for (int i = 0; i < 18; i++)
    spatial_targets[i] = i == 7 ? 9 : i * 5 % 4;
  g_autoptr (OrtrainTensor) x =
      test->spatial ? harness_wave (dtype, image, 4, 0.37, 3) : harness_wave (dtype, flat, 2, 0.7, 2);
  g_autoptr (OrtrainTensor) t = test->spatial ? harness_tensor (ORTRAIN_DTYPE_INT64, spatial_targets, pixels, 3)
                                              : harness_tensor (ORTRAIN_DTYPE_INT32, targets, rows, 1);
  const gint64 classes = test->spatial ? 4 : 7;
  g_autoptr (OrtrainTensor) w = harness_tensor (dtype, class_weights, &classes, 1);
  OrtrainValue *operands[] = { harness_input (graph, contents, "x", x), harness_input (graph, contents, "t", t), NULL };
  if (test->weighted)
    operands[2] = harness_input (graph, contents, "w", w);
  OrtrainNode *node =
      ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "CrossEntropy", NULL, operands, test->weighted ? 3 : 2, 1);
  ortrain_attributes_set_string (node->attributes, "reduction", test->reduction);
  ortrain_attributes_set_int (node->attributes, "axis", test->spatial ? 1 : -1);
  ortrain_attributes_set_int (node->attributes, "ignore_index", test->spatial ? 9 : -100);
  ortrain_attributes_set_float (node->attributes, "label_smoothing", test->smoothing);
  OrtrainValue *loss = ortrain_node_output (node, 0), *gradient = NULL;
  gboolean ok = ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  if (g_str_equal (test->reduction, "none"))
    {
      double counting[18];
      for (int i = 0; i < 18; i++)
        counting[i] = i + 1;
      g_autoptr (OrtrainTensor) weights =
          harness_tensor (dtype, counting, test->spatial ? pixels : rows, test->spatial ? 3 : 1);
      loss = harness_weighted_sum (graph, loss, weights);
    }
  ok = ortrain_gradient_build (graph, loss, operands, 1, &gradient, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  OrtrainHostContext context;
  init_context (&context, provider);
  harness_run (graph, contents, &context);
  g_assert_cmpfloat (fabs (harness_scalar (contents, loss) - test->loss), <=, tolerance * test->loss);
  double digest = harness_digest (g_hash_table_lookup (contents, gradient), TRUE);
  g_assert_cmpfloat (fabs (digest - test->digest), <=, tolerance * MAX (1, fabs (test->digest)));
}

static void
test_cross_entropy (void)
{
  g_autoptr (OrtrainProvider) provider = new_cpu (3);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      check (&cases[i], ORTRAIN_DTYPE_FLOAT64, NULL, 1e-12);
      check (&cases[i], ORTRAIN_DTYPE_FLOAT32, provider, 2e-6);
    }
}

/* A label that is no class is told with its place; the model stays usable. */
static void
test_label_out_of_range (void)
{
  const gint64 dims[] = { 3, 4 }, rows[] = { 3 };
  const double targets[] = { 0, 7, 1 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = harness_wave (ORTRAIN_DTYPE_FLOAT32, dims, 2, 0.7, 2);
  g_autoptr (OrtrainTensor) t = harness_tensor (ORTRAIN_DTYPE_INT64, targets, rows, 1);
  OrtrainValue *operands[] = { harness_input (graph, contents, "x", x), harness_input (graph, contents, "t", t) };
  ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "CrossEntropy", "loss", operands, 2, 3);
  g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
  g_assert_false (harness_try_run (graph, contents, NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
  g_assert_nonnull (strstr (error->message, "loss"));
  g_assert_nonnull (strstr (error->message, "7"));
}

/* Logits that overflow e^x, a vocabulary that is cut into many blocks, and the largest ones late. */
static void
test_large_vocabulary (void)
{
  const gint64 dims[] = { 2, 20011 }, rows[] = { 2 };
  const double targets[] = { 20010, 5 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, dims, 2, &error);
  float *values = ortrain_tensor_peek_writable (x);
  double expected = 0;
  for (gint64 r = 0; r < 2; r++)
    {
      double sum = 0;
      float *row = values + r * dims[1];
      for (gint64 i = 0; i < dims[1]; i++)
        row[i] = 300.0f + 0.01f * (float) i * (r == 0 ? 1 : -1) + sinf ((float) i);
      for (gint64 i = 0; i < dims[1]; i++)
        sum += exp ((double) row[i] - 500);
      expected += (500 + log (sum) - row[(int) targets[r]]) / 2;
    }
  g_autoptr (OrtrainTensor) t = harness_tensor (ORTRAIN_DTYPE_INT64, targets, rows, 1);
  OrtrainValue *operands[] = { harness_input (graph, contents, "x", x), harness_input (graph, contents, "t", t) };
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "CrossEntropy", NULL, operands, 2, 1);
  g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
  harness_run (graph, contents, NULL);
  g_assert_cmpfloat (fabs (harness_scalar (contents, ortrain_node_output (node, 0)) - expected), <=, 1e-5 * expected);
}

typedef struct
{
  gboolean trans_b, trans_w, bias, weighted, ignores;
  const char *reduction;
  double smoothing;
  gint64 rows;
} LinearCase;

static const LinearCase linear_cases[] = {
  { FALSE, FALSE, FALSE, FALSE, FALSE, "mean", 0.0, 7 }, { TRUE, TRUE, TRUE, FALSE, FALSE, "sum", 0.0, 3 },
  { TRUE, FALSE, TRUE, TRUE, TRUE, "mean", 0.2, 2 },     { FALSE, TRUE, TRUE, TRUE, FALSE, "mean", 0.0, 1 },
  { FALSE, FALSE, TRUE, FALSE, TRUE, "sum", 0.1, 100 },  { TRUE, TRUE, FALSE, TRUE, TRUE, "sum", 0.3, 5 },
};

typedef struct
{
  OrtrainGraph *graph;
  GHashTable *contents;
  OrtrainNode *node;
} Linear;

static double
run_linear (Linear *self)
{
  harness_run (self->graph, self->contents, NULL);
  return harness_scalar (self->contents, ortrain_node_output (self->node, 0));
}

/* Central differences of the loss in each element of input i, against output k times the gradient of the loss, 0.7. */
static void
check_differences (Linear *self, guint i, guint k)
{
  OrtrainTensor *x = g_hash_table_lookup (self->contents, ortrain_node_input (self->node, i));
  run_linear (self);
  g_autoptr (OrtrainTensor) gradient =
      g_object_ref (g_hash_table_lookup (self->contents, ortrain_node_output (self->node, k)));
  const gint64 n = ortrain_tensor_get_n_elements (x), *dims = ortrain_tensor_peek_dims (x);
  const gboolean turned = i == 1 && ortrain_attributes_has (self->node->attributes, "transB") !=
                                        ortrain_attributes_has (self->node->attributes, "transW");
  double *values = ortrain_tensor_peek_writable (x);
  for (gint64 e = 0; e < n; e++)
    {
      const double before = values[e], h = 1e-4;
      double slopes[2];
      for (guint d = 0; d < 2; d++)
        {
          const double step = d == 0 ? h : 2 * h;
          values[e] = before + step;
          const double up = run_linear (self);
          values[e] = before - step;
          slopes[d] = (up - run_linear (self)) / (2 * step);
        }
      values[e] = before;
      const gint64 at = turned ? e % dims[1] * dims[0] + e / dims[1] : e;
      const double expected = 0.7 * (4 * slopes[0] - slopes[1]) / 3;
      g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (gradient, at) - expected), <=, 1e-9);
    }
}

static void
test_linear_gradients (void)
{
  static const double targets[] = { 2, 0, 3, 4, 3, 1, 2 }, class_weights[] = { 0.5, 1, 2, 0.25, 1.5 }, seven = 0.7;
  const gint64 x_dims[] = { 7, 3 }, w_dims[] = { 3, 5 }, turned_dims[] = { 5, 3 }, n_rows = 7, n = 5;
  for (guint c = 0; c < G_N_ELEMENTS (linear_cases); c++)
    {
      const LinearCase *test = &linear_cases[c];
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      g_autoptr (GHashTable) contents = harness_contents ();
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensor) x = harness_wave (ORTRAIN_DTYPE_FLOAT64, x_dims, 2, 0.7, 1);
      g_autoptr (OrtrainTensor) w =
          harness_wave (ORTRAIN_DTYPE_FLOAT64, test->trans_b ? turned_dims : w_dims, 2, 0.4, 2);
      g_autoptr (OrtrainTensor) t = harness_tensor (ORTRAIN_DTYPE_INT64, targets, &n_rows, 1);
      g_autoptr (OrtrainTensor) dloss = harness_tensor (ORTRAIN_DTYPE_FLOAT64, &seven, NULL, 0);
      g_autoptr (OrtrainTensor) b = harness_wave (ORTRAIN_DTYPE_FLOAT64, &n, 1, 0.9, 1);
      g_autoptr (OrtrainTensor) weights = harness_tensor (ORTRAIN_DTYPE_FLOAT64, class_weights, &n, 1);
      OrtrainValue *operands[] = {
        harness_input (graph, contents, "x", x),
        harness_input (graph, contents, "w", w),
        harness_input (graph, contents, "t", t),
        harness_input (graph, contents, "dloss", dloss),
        test->bias ? harness_input (graph, contents, "b", b) : NULL,
        test->weighted ? harness_input (graph, contents, "weights", weights) : NULL,
      };
      OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "LinearCrossEntropy", NULL, operands, 6, 4);
      ortrain_attributes_set_string (node->attributes, "reduction", test->reduction);
      ortrain_attributes_set_float (node->attributes, "label_smoothing", test->smoothing);
      ortrain_attributes_set_int (node->attributes, "rows", test->rows);
      if (test->trans_b)
        ortrain_attributes_set_int (node->attributes, "transB", 1);
      if (test->trans_w)
        ortrain_attributes_set_int (node->attributes, "transW", 1);
      if (test->ignores)
        ortrain_attributes_set_int (node->attributes, "ignore_index", 3);
      g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
      Linear linear = { graph, contents, node };
      check_differences (&linear, 0, 1);
      check_differences (&linear, 1, 2);
      if (test->bias)
        check_differences (&linear, 4, 3);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/losses/cross-entropy", test_cross_entropy);
  g_test_add_func ("/ops/losses/label-out-of-range", test_label_out_of_range);
  g_test_add_func ("/ops/losses/large-vocabulary", test_large_vocabulary);
  g_test_add_func ("/ops/losses/linear-gradients", test_linear_gradients);
  return g_test_run ();
}
