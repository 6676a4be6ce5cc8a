/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../ops/op-harness.h"

#include "ops/upgrade/ortrain-upgrade-private.h"
#include "transform/ortrain-passes-private.h"

/* Group normalization as exporters write it: InstanceNormalization of a view, without a scale and a bias of its own,
 * followed by both. Such nodes are fused, others are not, and the results are the same. */

typedef enum
{
  USUAL,
  BATCHED_SCALE, /* [1, channels, 1, 1] */
  EACH_CHANNEL,  /* as many groups as channels, and no view */
  N_FUSED,
  SCALED_BEFORE = N_FUSED, /* the constants are not ones */
  WRONG_SCALE,             /* along another axis */
  READ_BETWEEN,            /* of the norm without scale */
  NO_GROUPS,               /* the view is no view of groups */
  N_PATTERNS,
} Pattern;

#define BATCH 2
#define CHANNELS 6
#define HEIGHT 3
#define WIDTH 6

static OrtrainValue *
add (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainValue *c)
{
  OrtrainValue *inputs[] = { a, b, c };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, inputs, c != NULL ? 3 : 2, 1);
  if (g_str_equal (op_type, "InstanceNormalization"))
    ortrain_attributes_set_float (node->attributes, "epsilon", 1e-3);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_filled (OrtrainGraph *graph, gint64 n, double number)
{
  double numbers[CHANNELS];
  for (gint64 i = 0; i < n; i++)
    numbers[i] = number;
  g_autoptr (OrtrainTensor) tensor = harness_tensor (ORTRAIN_DTYPE_FLOAT64, numbers, &n, 1);
  return ortrain_graph_new_initializer (graph, NULL, tensor);
}

static void
run_pattern (Pattern pattern, gboolean fuses, guint *n_fused, OrtrainTensor *results[4])
{
  static const gint64 image[] = { BATCH, CHANNELS, HEIGHT, WIDTH }, column[] = { 1, CHANNELS, 1, 1 };
  static const gint64 wrong[] = { 1, 1, WIDTH };
  const gint64 groups = pattern == EACH_CHANNEL ? CHANNELS : 2;
  const gint64 rows[] = { 0, groups, -1 }, others[] = { BATCH * CHANNELS / 2, 2, -1 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  OrtrainValue *x[3], *gradients[3];
  for (guint i = 0; i < 3; i++)
    {
      const gint64 *dims = i == 0                     ? image
                           : pattern == WRONG_SCALE   ? wrong
                           : pattern == BATCHED_SCALE ? column
                                                      : column + 1;
      const gsize rank = i == 0 || (pattern == BATCHED_SCALE) ? 4 : 3;
      g_autoptr (OrtrainTensor) tensor = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, rank, 0.3 + i, 1.3);
      x[i] = harness_input (graph, contents, NULL, tensor);
    }
  const gint64 n = pattern == NO_GROUPS ? others[1] : groups;
  OrtrainValue *ones = add_filled (graph, n, pattern == SCALED_BEFORE ? 2 : 1), *zeros = add_filled (graph, n, 0);
  OrtrainValue *y = x[0];
  if (pattern != EACH_CHANNEL)
    y = add (graph, "Reshape", y, ortrain_graph_const_ints (graph, pattern == NO_GROUPS ? others : rows, 3), NULL);
  y = add (graph, "InstanceNormalization", y, ones, zeros);
  if (pattern != EACH_CHANNEL)
    y = add (graph, "Reshape", y, ortrain_graph_const_ints (graph, image, 4), NULL);
  OrtrainValue *between = y;
  y = add (graph, "Add", add (graph, "Mul", y, x[1], NULL), x[2], NULL);
  if (pattern == READ_BETWEEN)
    y = add (graph, "Add", y, between, NULL);
  ortrain_graph_mark_output (graph, y, TRUE);
  graph->opset = 23;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error) &&
                (!fuses || ortrain_fuse_norm (graph, &error));
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_remove_dead (graph);
  *n_fused = graph->nodes->len;
  for (guint i = 0; i < graph->nodes->len; i++)
    if (g_str_equal (((OrtrainNode *) graph->nodes->pdata[i])->op_type, "Mul"))
      *n_fused = 0;
  y = graph->outputs->pdata[0];
  g_autoptr (OrtrainTensor) weights = harness_cosine (image, 4, 0.9);
  OrtrainValue *loss = harness_weighted_sum (graph, y, weights);
  ok = ortrain_gradient_build (graph, loss, x, 3, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  results[0] = g_object_ref (g_hash_table_lookup (contents, y));
  for (guint i = 0; i < 3; i++)
    results[1 + i] = g_object_ref (g_hash_table_lookup (contents, gradients[i]));
}

static void
test_pattern (gconstpointer data)
{
  const Pattern pattern = (Pattern) GPOINTER_TO_INT (data);
  OrtrainTensor *before[4], *after[4];
  guint n_fused;
  run_pattern (pattern, FALSE, &n_fused, before);
  g_assert_cmpuint (n_fused, ==, 0);
  run_pattern (pattern, TRUE, &n_fused, after);
  g_assert_cmpuint (n_fused, ==, pattern < N_FUSED ? 1 : 0); /* one node, which is all that is left */
  for (guint i = 0; i < 4; i++)
    {
      g_assert_cmpint (ortrain_tensor_get_rank (before[i]), ==, ortrain_tensor_get_rank (after[i]));
      g_assert_cmpint (ortrain_tensor_get_n_elements (before[i]), ==, ortrain_tensor_get_n_elements (after[i]));
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (before[i]); k++)
        g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (before[i], k) - ortrain_tensor_get_scalar (after[i], k)),
                           <=, 1e-12);
      g_object_unref (before[i]);
      g_object_unref (after[i]);
    }
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { "usual",       "batched-scale", "each-channel", "scaled-before",
                                       "wrong-scale", "read-between",  "no-groups" };
  g_test_init (&argc, &argv, NULL);
  for (int i = 0; i < N_PATTERNS; i++)
    {
      g_autofree char *path = g_strdup_printf ("/transform/fuse-groups/%s", names[i]);
      g_test_add_data_func (path, GINT_TO_POINTER (i), test_pattern);
    }
  return g_test_run ();
}
