/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

/* Pairs of nodes of which one is enough, and pairs of which it is not. */

typedef struct
{
  OrtrainGraph *graph;
  OrtrainValue *a, *b;
} Pair;

static void
pair_begin (Pair *self, OrtrainDType dtype)
{
  const OrtrainDim dims[] = { ortrain_dim_int (2), ortrain_dim_int (2) };
  self->graph = ortrain_graph_new ("g");
  self->a = ortrain_graph_new_input (self->graph, "a", dtype, dims, 2);
  self->b = ortrain_graph_new_input (self->graph, "b", dtype, dims, 2);
}

/* A node whose result an Identity hands to an output of the graph: outputs themselves are kept. */
static OrtrainNode *
pair_add (Pair *self, const char *op_type, OrtrainValue *x, OrtrainValue *y)
{
  OrtrainValue *operands[] = { x, y };
  OrtrainNode *node = ortrain_graph_new_node (self->graph, "", op_type, NULL, operands, y != NULL ? 2 : 1, 1);
  OrtrainValue *result = ortrain_node_output (node, 0);
  OrtrainNode *last = ortrain_graph_new_node (self->graph, "", "Identity", NULL, &result, 1, 1);
  ortrain_graph_mark_output (self->graph, ortrain_node_output (last, 0), TRUE);
  return node;
}

/* Returns how many nodes are left besides those of the outputs. */
static guint
pair_end (Pair *self)
{
  g_autoptr (GError) error = NULL;
  gboolean ok = ortrain_ops_bind (self->graph, &error) && ortrain_ops_infer (self->graph, &error) &&
                ortrain_merge_equal_nodes (self->graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  const guint n = self->graph->nodes->len - self->graph->outputs->len;
  g_object_unref (self->graph);
  return n;
}

static guint
merge_two (const char *op_type, OrtrainDType dtype, gboolean swapped)
{
  Pair pair;
  pair_begin (&pair, dtype);
  pair_add (&pair, op_type, pair.a, pair.b);
  pair_add (&pair, op_type, swapped ? pair.b : pair.a, swapped ? pair.a : pair.b);
  return pair_end (&pair);
}

static void
test_order (void)
{
  const char *const either[] = { "Add", "Mul", "Equal" }, *const one[] = { "Sub", "Div", "Pow", "Less", "MatMul" };
  for (guint i = 0; i < G_N_ELEMENTS (either); i++)
    {
      g_assert_cmpuint (merge_two (either[i], ORTRAIN_DTYPE_FLOAT32, FALSE), ==, 1);
      g_assert_cmpuint (merge_two (either[i], ORTRAIN_DTYPE_FLOAT32, TRUE), ==, 1);
    }
  for (guint i = 0; i < G_N_ELEMENTS (one); i++)
    {
      g_assert_cmpuint (merge_two (one[i], ORTRAIN_DTYPE_FLOAT32, FALSE), ==, 1);
      g_assert_cmpuint (merge_two (one[i], ORTRAIN_DTYPE_FLOAT32, TRUE), ==, 2);
    }
  g_assert_cmpuint (merge_two ("BitwiseXor", ORTRAIN_DTYPE_INT32, TRUE), ==, 1);
}

/* a + a is not a + b, in any order. */
static void
test_other_operands (void)
{
  Pair pair;
  pair_begin (&pair, ORTRAIN_DTYPE_FLOAT32);
  pair_add (&pair, "Add", pair.a, pair.b);
  pair_add (&pair, "Add", pair.a, pair.a);
  pair_add (&pair, "Add", pair.b, pair.b);
  g_assert_cmpuint (pair_end (&pair), ==, 3);
}

/* Constants are compared by their contents, on either side. */
static void
test_constants (void)
{
  Pair pair;
  pair_begin (&pair, ORTRAIN_DTYPE_FLOAT32);
  pair_add (&pair, "Add", pair.a, ortrain_graph_const_scalar (pair.graph, ORTRAIN_DTYPE_FLOAT32, 1e-5));
  pair_add (&pair, "Add", ortrain_graph_const_scalar (pair.graph, ORTRAIN_DTYPE_FLOAT32, 1e-5), pair.a);
  pair_add (&pair, "Add", ortrain_graph_const_scalar (pair.graph, ORTRAIN_DTYPE_FLOAT32, 1e-6), pair.a);
  g_assert_cmpuint (pair_end (&pair), ==, 2);
}

static void
test_random (void)
{
  Pair pair;
  pair_begin (&pair, ORTRAIN_DTYPE_FLOAT32);
  pair_add (&pair, "RandomNormalLike", pair.a, NULL);
  pair_add (&pair, "RandomNormalLike", pair.a, NULL);
  g_assert_cmpuint (pair_end (&pair), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/merge-equal/order", test_order);
  g_test_add_func ("/merge-equal/other-operands", test_other_operands);
  g_test_add_func ("/merge-equal/constants", test_constants);
  g_test_add_func ("/merge-equal/random", test_random);
  return g_test_run ();
}
