/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Transposes folded into matrix products: the graph computes the same, with fewer nodes. */
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-host-evaluator-private.h"
#include "transform/ortrain-fold-transposes-private.h"

#include <math.h>

static OrtrainValue *
add_input (OrtrainGraph *graph, const gint64 *dims, gsize rank, guint seed)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, NULL);
  double *data = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    {
      seed = seed * 1664525u + 1013904223u;
      data[i] = (double) (seed >> 8) / (1 << 24) - 0.5;
    }
  return ortrain_graph_new_initializer (graph, "x", tensor);
}

#define D(...) ((const gint64[]){ __VA_ARGS__ }), G_N_ELEMENTS (((gint64[]){ __VA_ARGS__ }))

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, op_type, inputs, b != NULL ? 2 : 1, 1);
  g_autoptr (GError) error = NULL;
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
transpose (OrtrainGraph *graph, OrtrainValue *a, const gint64 *perm, gsize n)
{
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Transpose", "t", &a, 1, 1);
  ortrain_attributes_set_ints (node->attributes, "perm", perm, n);
  g_autoptr (GError) error = NULL;
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

static OrtrainTensor *
evaluate (OrtrainGraph *graph, OrtrainValue *wanted)
{
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (NULL, NULL, NULL, g_object_unref);
  g_autoptr (GError) error = NULL;
  OrtrainHostContext context;
  init_context (&context, NULL);
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      OrtrainTensor *inputs[4] = { NULL }, *output = NULL;
      for (guint k = 0; k < node->inputs->len; k++)
        {
          OrtrainValue *value = node->inputs->pdata[k];
          inputs[k] = value->tensor != NULL ? value->tensor : g_hash_table_lookup (tensors, value);
        }
      ortrain_evaluate_node (node, inputs, &output, &context, &error);
      g_assert_no_error (error);
      g_hash_table_insert (tensors, node->outputs->pdata[0], output);
    }
  return g_object_ref (g_hash_table_lookup (tensors, wanted));
}

/* Folds, and expects n nodes to be left and the same result. */
static void
check (OrtrainGraph *graph, OrtrainValue *result, guint n)
{
  g_autoptr (GError) error = NULL;
  ortrain_graph_mark_output (graph, result, TRUE);
  g_autoptr (OrtrainTensor) before = evaluate (graph, result);
  ortrain_fold_transposes (graph, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (graph->nodes->len, ==, n);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) after = evaluate (graph, result);
  g_assert_cmpint (ortrain_tensor_get_n_elements (before), ==, ortrain_tensor_get_n_elements (after));
  g_assert_cmpint (ortrain_tensor_get_rank (before), ==, ortrain_tensor_get_rank (after));
  const double *x = ortrain_tensor_peek (before), *y = ortrain_tensor_peek (after);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (before); i++)
    g_assert_cmpfloat_with_epsilon (x[i], y[i], 1e-13);
}

static void
test_flags (void)
{
  {
    g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
    OrtrainValue *a = add_input (graph, D (4, 3), 1), *b = add_input (graph, D (5, 4), 2);
    check (graph, op (graph, "MatMul", transpose (graph, a, D (1, 0)), transpose (graph, b, D (1, 0))), 1);
  }
  {
    g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
    OrtrainValue *a = add_input (graph, D (2, 4, 3), 1), *b = add_input (graph, D (5, 4), 2);
    check (graph, op (graph, "MatMul", transpose (graph, a, D (0, 2, 1)), transpose (graph, b, D (1, 0))), 1);
  }
  {
    g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
    OrtrainValue *a = add_input (graph, D (4, 3), 1), *b = add_input (graph, D (5, 4), 2);
    check (graph, op (graph, "Gemm", transpose (graph, a, D (1, 0)), transpose (graph, b, D (1, 0))), 1);
  }
  {
    /* the result turned round */
    g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
    OrtrainValue *a = add_input (graph, D (3, 4), 1), *b = add_input (graph, D (4, 5), 2);
    check (graph, transpose (graph, op (graph, "MatMul", a, b), D (1, 0)), 1);
  }
  {
    /* of which another one is needed */
    g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
    OrtrainValue *a = add_input (graph, D (4, 4), 1), *t = transpose (graph, a, D (1, 0));
    check (graph, op (graph, "Add", op (graph, "MatMul", t, a), t), 3);
  }
}

static void
test_permutations (void)
{
  /* attention: heads are split and joined by strides alone */
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  OrtrainValue *q = add_input (graph, D (2, 7, 3, 4), 1), *k = add_input (graph, D (2, 6, 3, 4), 2);
  OrtrainValue *v = add_input (graph, D (2, 6, 3, 5), 3);
  OrtrainValue *scores =
      op (graph, "MatMul", transpose (graph, q, D (0, 2, 1, 3)), transpose (graph, k, D (0, 2, 3, 1)));
  OrtrainValue *y = op (graph, "MatMul", scores, transpose (graph, v, D (0, 2, 1, 3)));
  check (graph, transpose (graph, y, D (0, 2, 1, 3)), 2);

  /* with one key for all heads, and a result whose rows become columns */
  g_autoptr (OrtrainGraph) other = ortrain_graph_new ("g");
  OrtrainValue *a = add_input (other, D (3, 7, 2, 4), 1), *b = add_input (other, D (1, 5, 1, 4), 2);
  OrtrainValue *c = op (other, "MatMul", transpose (other, a, D (2, 0, 1, 3)), transpose (other, b, D (0, 2, 3, 1)));
  check (other, transpose (other, c, D (1, 0, 3, 2)), 1);

  /* elements would have to be gathered: not folded */
  g_autoptr (OrtrainGraph) third = ortrain_graph_new ("g");
  OrtrainValue *d = add_input (third, D (4, 3, 2), 1), *e = add_input (third, D (3, 5), 2);
  check (third, op (third, "MatMul", transpose (third, d, D (2, 0, 1)), e), 2);
}

static void
test_scale (void)
{
  const double scales[] = { 0.125, 8, 0.3 };
  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    for (guint form = 0; form < 3; form++)
      {
        g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
        OrtrainValue *a = add_input (graph, D (2, 3, 4), 1), *b = add_input (graph, D (2, 4, 5), 2);
        OrtrainValue *s = ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, scales[i]);
        OrtrainValue *y;
        if (form == 0)
          y = op (graph, "Div", op (graph, "MatMul", a, b), s);
        else if (form == 1)
          y = op (graph, "Mul", s, op (graph, "MatMul", a, b));
        else
          y = op (graph, "MatMul", op (graph, "Mul", a, s), b);
        check (graph, y, scales[i] == 0.3 ? 2 : 1);
      }
  /* a constant divided by the product is no scale */
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  OrtrainValue *a = add_input (graph, D (2, 2), 1), *s = ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, 4);
  check (graph, op (graph, "Div", s, op (graph, "MatMul", a, a)), 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fold-transposes/flags", test_flags);
  g_test_add_func ("/fold-transposes/permutations", test_permutations);
  g_test_add_func ("/fold-transposes/scale", test_scale);
  return g_test_run ();
}
