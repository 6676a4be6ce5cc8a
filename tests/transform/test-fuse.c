/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../ops/op-harness.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "transform/ortrain-passes-private.h"

/* The nodes that exporters write for attention and normalisation, with and without the passes that recognise it: the
 * same numbers and the same gradients, and the expected operators. */

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_graph_new_node (graph, "", op_type, NULL, inputs, b != NULL ? 2 : 1, 1), 0);
}

static OrtrainValue *
with_ints (OrtrainValue *value, const char *name, const gint64 *ints, gsize n)
{
  ortrain_attributes_set_ints (value->producer->attributes, name, ints, n);
  return value;
}

static OrtrainValue *
transpose (OrtrainGraph *graph, OrtrainValue *value, gint64 a, gint64 b, gint64 c, gint64 d)
{
  const gint64 perm[] = { a, b, c, d };
  return with_ints (op (graph, "Transpose", value, NULL), "perm", perm, d < 0 ? 3 : 4);
}

static OrtrainValue *
reshape (OrtrainGraph *graph, OrtrainValue *value, const gint64 *shape, gsize n)
{
  return op (graph, "Reshape", value, ortrain_graph_const_ints (graph, shape, n));
}

static OrtrainValue *
scalar (OrtrainGraph *graph, double value)
{
  return ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, value);
}

typedef enum
{
  LEGACY,        /* Transpose [0, 2, 3, 1], Mul, Add, Softmax */
  DYNAMO,        /* keys through Reshape, scale on both sides, Where as mask, IsNaN guard */
  PLAIN,         /* no transposes, no mask, Div */
  TRAINED_BIAS,  /* an additive term that carries a gradient */
  BIAS_AND_MASK, /* such a term to which a mask was added before, as in T5 */
  LAYER_NORM,
  LAYER_NORM_MUL, /* d·d instead of Pow, no bias */
  RMS_NORM,
  N_PATTERNS,
} Pattern;

static const char *const hoped[] = { "Attention", "Attention",          "Attention",          "Attention",
                                     "Attention", "LayerNormalization", "LayerNormalization", "RMSNormalization" };

static OrtrainValue *
write_attention (OrtrainGraph *graph, Pattern pattern, OrtrainValue **x)
{
  static const gint64 merged[] = { -1, 5, 4 }, split[] = { 2, 3, 4, 5 };
  OrtrainValue *q = x[0], *k = x[1], *v = x[2], *scores;
  if (pattern != PLAIN)
    {
      q = transpose (graph, q, 0, 2, 1, 3);
      v = transpose (graph, v, 0, 2, 1, 3);
    }
  if (pattern == DYNAMO)
    {
      OrtrainValue *rows = reshape (graph, transpose (graph, k, 0, 2, 1, 3), merged, 3);
      rows = reshape (graph, transpose (graph, rows, 0, 2, 1, -1), split, 4);
      scores =
          op (graph, "MatMul", op (graph, "Mul", q, scalar (graph, 0.7)), op (graph, "Mul", rows, scalar (graph, 0.7)));
    }
  else if (pattern == PLAIN)
    scores = op (graph, "Div", op (graph, "MatMul", q, transpose (graph, k, 0, 1, 3, 2)), scalar (graph, 2));
  else
    scores = op (graph, "Mul", op (graph, "MatMul", q, transpose (graph, k, 0, 2, 3, 1)), scalar (graph, 0.5));
  if (pattern == DYNAMO)
    {
      OrtrainValue *where[] = { x[3], scalar (graph, 0), scalar (graph, -3.4e38) };
      scores = op (graph, "Add", scores,
                   ortrain_node_output (ortrain_graph_new_node (graph, "", "Where", NULL, where, 3, 1), 0));
    }
  else if (pattern == BIAS_AND_MASK)
    scores = op (graph, "Add", scores, op (graph, "Add", x[3], x[4]));
  else if (pattern != PLAIN)
    scores = op (graph, "Add", x[3], scores);
  OrtrainValue *p = op (graph, "Softmax", scores, NULL);
  ortrain_attributes_set_int (p->producer->attributes, "axis", -1);
  if (pattern == DYNAMO)
    {
      OrtrainValue *where[] = { op (graph, "IsNaN", p, NULL), scalar (graph, 0), p };
      p = ortrain_node_output (ortrain_graph_new_node (graph, "", "Where", NULL, where, 3, 1), 0);
    }
  OrtrainValue *y = op (graph, "MatMul", p, v);
  return pattern == PLAIN ? y : transpose (graph, y, 0, 2, 1, 3);
}

static OrtrainValue *
write_norm (OrtrainGraph *graph, Pattern pattern, OrtrainValue **x)
{
  const gint64 last = -1;
  OrtrainValue *axes = ortrain_graph_const_ints (graph, &last, 1), *d = x[0];
  if (pattern != RMS_NORM)
    d = op (graph, "Sub", x[0], op (graph, "ReduceMean", x[0], axes));
  OrtrainValue *square = pattern == LAYER_NORM_MUL ? op (graph, "Mul", d, d) : op (graph, "Pow", d, scalar (graph, 2));
  OrtrainValue *deviation =
      op (graph, "Sqrt", op (graph, "Add", op (graph, "ReduceMean", square, axes), scalar (graph, 1e-3)), NULL);
  OrtrainValue *y = pattern == RMS_NORM ? op (graph, "Mul", d, op (graph, "Reciprocal", deviation, NULL))
                                        : op (graph, "Div", d, deviation);
  y = pattern == RMS_NORM ? op (graph, "Mul", x[1], y) : op (graph, "Mul", y, x[1]);
  return pattern == LAYER_NORM ? op (graph, "Add", y, x[2]) : y;
}

/* results: y, and the gradients of three operands */
static void
run_pattern (Pattern pattern, gboolean fused, OrtrainTensor **results, guint *n_results)
{
  static const gint64 heads_last[] = { 2, 5, 3, 4 }, plain[] = { 2, 3, 5, 4 }, row[] = { 4 },
                      mask_dims[] = { 2, 1, 5, 5 }, bias_dims[] = { 3, 5, 5 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  OrtrainValue *x[5] = { NULL }, *gradients[4];
  const gboolean trained = pattern == TRAINED_BIAS || pattern == BIAS_AND_MASK;
  guint n_wanted = pattern == LAYER_NORM_MUL || pattern == RMS_NORM ? 2 : trained ? 4 : 3;
  for (guint i = 0; i < 3; i++)
    {
      gboolean parameter = pattern >= LAYER_NORM && i > 0;
      const gint64 *dims = parameter ? row : pattern == PLAIN ? plain : heads_last;
      g_autoptr (OrtrainTensor) tensor = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, parameter ? 1 : 4, 0.3 + i, 1.3);
      x[i] = harness_input (graph, contents, NULL, tensor);
    }
  double mask[50];
  for (int i = 0; i < 50; i++)
    mask[i] = pattern == DYNAMO ? i % 5 <= i / 5 % 5 : i % 5 <= i / 5 % 5 ? 0 : -1e9;
  if (trained)
    {
      g_autoptr (OrtrainTensor) tensor = harness_wave (ORTRAIN_DTYPE_FLOAT64, bias_dims, 3, 0.77, 1);
      x[3] = ortrain_graph_new_initializer (graph, "bias", tensor);
      x[3]->role = ORTRAIN_ROLE_PARAMETER;
    }
  if (pattern != TRAINED_BIAS)
    {
      g_autoptr (OrtrainTensor) tensor =
          harness_tensor (pattern == DYNAMO ? ORTRAIN_DTYPE_BOOL : ORTRAIN_DTYPE_FLOAT64, mask, mask_dims, 4);
      x[trained ? 4 : 3] = harness_input (graph, contents, "mask", tensor);
    }
  OrtrainValue *y = pattern < LAYER_NORM ? write_attention (graph, pattern, x) : write_norm (graph, pattern, x);
  ortrain_graph_mark_output (graph, y, TRUE);
  graph->opset = 23;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error) &&
                (!fused || (ortrain_fuse_norm (graph, &error) && ortrain_fuse_attention (graph, &error)));
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_remove_dead (graph);
  guint found = 0, softmax = 0;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      found += g_str_equal (node->op_type, hoped[pattern]);
      softmax += g_str_equal (node->op_type, "Softmax");
    }
  if (fused)
    {
      g_assert_cmpuint (found, ==, 1);
      g_assert_cmpuint (softmax, ==, 0);
      if (pattern < LAYER_NORM) /* nothing is left of the nodes around it */
        g_assert_cmpuint (graph->nodes->len, ==, 1);
    }
  y = graph->outputs->pdata[0];
  g_autoptr (OrtrainTensor) weights = harness_cosine (pattern == PLAIN ? plain : heads_last, 4, 0.9);
  OrtrainValue *loss = harness_weighted_sum (graph, y, weights);
  ok = ortrain_gradient_build (graph, loss, x, n_wanted, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  results[0] = g_object_ref (g_hash_table_lookup (contents, y));
  for (guint i = 0; i < n_wanted; i++)
    results[i + 1] = g_object_ref (g_hash_table_lookup (contents, gradients[i]));
  *n_results = n_wanted + 1;
}

static void
test_pattern (gconstpointer data)
{
  Pattern pattern = (Pattern) GPOINTER_TO_INT (data);
  OrtrainTensor *results[2][8];
  guint n[2];
  for (int fused = 0; fused < 2; fused++)
    run_pattern (pattern, fused, results[fused], &n[fused]);
  for (guint i = 0; i < n[0]; i++)
    {
      g_assert_cmpint (ortrain_tensor_get_n_elements (results[0][i]), ==,
                       ortrain_tensor_get_n_elements (results[1][i]));
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (results[0][i]); k++)
        g_assert_cmpfloat (
            fabs (ortrain_tensor_get_scalar (results[0][i], k) - ortrain_tensor_get_scalar (results[1][i], k)), <=,
            1e-12);
      g_object_unref (results[0][i]);
      g_object_unref (results[1][i]);
    }
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { "attention-legacy",        "attention-dynamo",
                                       "attention-plain",         "attention-trained-bias",
                                       "attention-bias-and-mask", "layer-norm",
                                       "layer-norm-mul",          "rms-norm" };
  g_test_init (&argc, &argv, NULL);
  for (int i = 0; i < N_PATTERNS; i++)
    {
      g_autofree char *path = g_strdup_printf ("/transform/fuse/%s", names[i]);
      g_test_add_data_func (path, GINT_TO_POINTER (i), test_pattern);
    }
  return g_test_run ();
}
