/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Constants are folded within a budget for the whole graph, counted in bytes and operations: never in time. */
#include "core/ortrain-errors.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-specialize-private.h"

#include <string.h>

#define SIDE 1024 /* a product of two such matrices is 2^31 operations */

static OrtrainValue *
add_floats (OrtrainGraph *graph, const gint64 *dims, gsize rank)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, rank, NULL);
  return ortrain_graph_new_initializer (graph, "floats", tensor);
}

static OrtrainValue *
add_ints (OrtrainGraph *graph, const gint64 *values, gint64 n)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (&n, 1, values, (gsize) n, NULL);
  return ortrain_graph_new_initializer (graph, "ints", tensor);
}

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, const char *name, OrtrainValue *a, OrtrainValue *b, OrtrainValue *c)
{
  OrtrainValue *inputs[] = { a, b, c };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, name, inputs, c != NULL ? 3 : (b != NULL ? 2 : 1), 1);
  if (g_str_equal (op_type, "Concat"))
    ortrain_attributes_set_int (node->attributes, "axis", 0);
  g_autoptr (GError) error = NULL;
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

static void
fold (OrtrainGraph *graph, OrtrainValue *result, OrtrainFoldBudget *budget)
{
  g_autoptr (GError) error = NULL;
  if (result != NULL)
    ortrain_graph_mark_output (graph, result, TRUE);
  g_assert_true (ortrain_fold_constants_within (graph, budget, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (budget->bytes, <=, budget->max_bytes);
  g_assert_cmpuint (budget->work, <=, budget->max_work);
}

static OrtrainFoldBudget
budget_of (guint64 max_bytes, guint64 max_work)
{
  return (OrtrainFoldBudget){ .max_bytes = max_bytes, .max_work = max_work };
}

/* One doubling operator: small results are folded, the rest are nodes. */
static void
check_doubling (const char *op_type)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("doubling");
  OrtrainFoldBudget budget;
  ortrain_fold_budget_init (&budget);
  OrtrainValue *x = add_floats (graph, (const gint64[]){ 64 }, 1);
  OrtrainValue *two = add_ints (graph, (const gint64[]){ 2 }, 1);
  gint64 n = 64;
  for (guint i = 0; i < 25; i++, n *= 2)
    {
      g_autofree char *name = g_strdup_printf ("double%u", i);
      if (g_str_equal (op_type, "Concat"))
        x = op (graph, op_type, name, x, x, NULL);
      else if (g_str_equal (op_type, "Tile"))
        x = op (graph, op_type, name, x, two, NULL);
      else
        {
          OrtrainValue *grown = op (graph, "Expand", name, x, add_ints (graph, (const gint64[]){ 2, n }, 2), NULL);
          x = op (graph, "Reshape", "flat", grown, add_ints (graph, (const gint64[]){ -1 }, 1), NULL);
        }
    }
  fold (graph, x, &budget);
  /* 256 bytes, doubled 16 times, are 16 MiB, the largest result that is folded; all before it are as much again. */
  g_assert_cmpuint (budget.bytes, ==, ((guint64) 32 << 20) - 512);
  const gboolean reshapes = g_str_equal (op_type, "Expand");
  g_assert_cmpuint (graph->nodes->len, ==, reshapes ? 2 * 9 : 9);
}

static void
test_doubling (void)
{
  check_doubling ("Concat");
  check_doubling ("Tile");
  check_doubling ("Expand");
}

/* Each of them is within the limit of one result. */
static void
test_many_results (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("many");
  OrtrainFoldBudget budget = budget_of (10 << 20, G_MAXUINT64);
  OrtrainValue *shape = add_ints (graph, (const gint64[]){ 512, 512 }, 2);
  OrtrainValue *sum = add_floats (graph, (const gint64[]){ 1 }, 1);
  for (guint i = 0; i < 100; i++)
    sum = op (graph, "Add", "sum", sum, op (graph, "ConstantOfShape", "fill", shape, NULL, NULL), NULL);
  fold (graph, sum, &budget);
  g_assert_cmpuint (budget.bytes, ==, 10 << 20);
  g_assert_cmpuint (graph->nodes->len, ==, 190);

  OrtrainFoldBudget real;
  ortrain_fold_budget_init (&real);
  g_assert_cmpuint (real.max_bytes, <=, (guint64) 1 << 30);
  g_assert_cmpuint (real.max_work, <=, (guint64) 1 << 33);
}

static void
test_ranges (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("ranges");
  OrtrainFoldBudget budget = budget_of (G_MAXUINT64, 1000 * 1003);
  OrtrainValue *bounds[3];
  const gint64 numbers[3] = { 0, 1000, 1 };
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (NULL, 0, &numbers[i], 1, NULL);
      bounds[i] = ortrain_graph_new_initializer (graph, "bound", tensor);
    }
  for (guint i = 0; i < 1100; i++)
    ortrain_graph_mark_output (graph, op (graph, "Range", "range", bounds[0], bounds[1], bounds[2]), TRUE);
  fold (graph, NULL, &budget);
  g_assert_cmpuint (budget.work, ==, 1000 * 1003);
  g_assert_cmpuint (budget.bytes, ==, 1000 * 8000);
  g_assert_cmpuint (graph->nodes->len, ==, 100);
}

/* Small results may take much work. */
static void
test_products (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("products");
  OrtrainFoldBudget budget;
  ortrain_fold_budget_init (&budget);
  OrtrainValue *shape = add_ints (graph, (const gint64[]){ SIDE, SIDE }, 2);
  OrtrainValue *a = op (graph, "ConstantOfShape", "a", shape, NULL, NULL);
  OrtrainValue *x = a;
  for (guint i = 0; i < 1000; i++)
    x = op (graph, "MatMul", "product", x, a, NULL);
  fold (graph, x, &budget);
  g_assert_cmpuint (budget.work, >=, (guint64) 1 << 31);
  g_assert_cmpuint (graph->nodes->len, >=, 998);
  g_assert_cmpuint (graph->nodes->len, <, 1000);
}

/* So do windows, and eliminations: a result of n operations is folded within n, and no less. */
static void
check_work (const char *op_type, const gint64 *dims, gsize rank, const gint64 *kernel, guint64 least, guint64 most)
{
  for (guint fits = 0; fits < 2; fits++)
    {
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("work");
      g_autoptr (GError) error = NULL;
      OrtrainFoldBudget budget = budget_of (G_MAXUINT64, fits ? most : least);
      OrtrainValue *x = add_floats (graph, dims, rank);
      OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, "work", &x, 1, 1);
      if (kernel != NULL)
        ortrain_attributes_set_ints (node->attributes, "kernel_shape", kernel, 2);
      ortrain_attributes_set_int (node->attributes, "size", 1000); /* of LRN */
      ortrain_ops_infer_node (node, &error);
      g_assert_no_error (error);
      fold (graph, ortrain_node_output (node, 0), &budget);
      g_assert_cmpuint (graph->nodes->len, ==, fits ? 0 : 1);
    }
}

static void
test_work (void)
{
  check_work ("AveragePool", (const gint64[]){ 1, 1, 64, 64 }, 4, (const gint64[]){ 32, 32 }, 1000000, 1200000);
  check_work ("MaxPool", (const gint64[]){ 1, 1, 64, 64 }, 4, (const gint64[]){ 32, 32 }, 1000000, 1200000);
  check_work ("LRN", (const gint64[]){ 1, 512, 4, 4 }, 4, NULL, 8000000, 9000000);
  check_work ("Det", (const gint64[]){ 128, 128 }, 2, NULL, 1000000, 1500000);
}

/* A node that decides a shape cannot stay: the error names it. */
static void
test_deciding (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("deciding");
  g_autoptr (GError) error = NULL;
  OrtrainValue *sides = add_ints (graph, (const gint64[]){ SIDE, SIDE }, 2);
  OrtrainValue *a = op (graph, "ConstantOfShape", "a", sides, NULL, NULL);
  OrtrainValue *x = a;
  for (guint i = 0; i < 50; i++)
    {
      g_autofree char *name = g_strdup_printf ("product%u", i);
      x = op (graph, "MatMul", name, x, a, NULL);
    }
  OrtrainValue *row = op (graph, "Reshape", "row", x, add_ints (graph, (const gint64[]){ -1 }, 1), NULL);
  OrtrainValue *first = op (graph, "Gather", "first", row, add_ints (graph, (const gint64[]){ 0 }, 1), NULL);
  OrtrainNode *cast = ortrain_graph_new_node (graph, "", "Cast", "cast", &first, 1, 1);
  ortrain_attributes_set_int (cast->attributes, "to", 7);
  ortrain_ops_infer_node (cast, &error);
  g_assert_no_error (error);
  ortrain_graph_mark_output (graph, op (graph, "ConstantOfShape", "fill", ortrain_node_output (cast, 0), NULL, NULL),
                             TRUE);
  g_autoptr (OrtrainGraph) made = ortrain_specialize (graph, NULL, 0, &error);
  g_assert_null (made);
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
  g_assert_nonnull (strstr (error->message, "MatMul 'product1': a shape depends on it, but"));
}

/* By bytes, one node after the other. */
static void
test_deciding_bytes (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("bytes");
  OrtrainFoldBudget budget = budget_of (4096, G_MAXUINT64);
  OrtrainValue *x = add_floats (graph, (const gint64[]){ 1024 }, 1);
  op (graph, "Neg", "first", x, NULL, NULL);
  op (graph, "Neg", "second", x, NULL, NULL);
  OrtrainNode *first = graph->nodes->pdata[0], *second = graph->nodes->pdata[1];
  gboolean folded;
  g_autoptr (GError) error = NULL;
  g_assert_true (ortrain_fold_node (graph, first, &budget, TRUE, &folded, &error));
  g_assert_true (folded);
  g_assert_true (ortrain_fold_node (graph, second, &budget, FALSE, &folded, &error));
  g_assert_false (folded);
  g_assert_no_error (error);
  g_assert_false (ortrain_fold_node (graph, second, &budget, TRUE, &folded, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
  g_assert_true (g_str_has_prefix (error->message, "Neg 'second': a shape depends on it, but"));
  g_assert_cmpuint (budget.bytes, ==, 4096);
}

static void
test_many_small (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("small");
  OrtrainFoldBudget budget;
  ortrain_fold_budget_init (&budget);
  OrtrainValue *x = add_floats (graph, (const gint64[]){ 4 }, 1);
  for (guint i = 0; i < 100000; i++)
    x = op (graph, "Neg", "small", x, NULL, NULL);
  fold (graph, x, &budget);
  g_assert_cmpuint (graph->nodes->len, ==, 0);
  g_assert_cmpuint (budget.bytes, ==, 1600000);
  g_assert_cmpuint (budget.work, <=, 100000 * 16);
}

/* y = -(x + x') and its like: constants that have another reader, are outputs, or are held elsewhere keep their
 * contents; the memory of the others is reused for results. */
static void
test_consumed (void)
{
  for (guint consumes = 0; consumes < 2; consumes++)
    {
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("consumed");
      OrtrainFoldBudget budget;
      ortrain_fold_budget_init (&budget);
      budget.consumes = consumes;
      const gint64 dims[] = { 1000 };
      OrtrainValue *x = add_floats (graph, dims, 1);
      float *elements = ortrain_tensor_peek_writable (x->tensor);
      for (guint i = 0; i < 1000; i++)
        elements[i] = (float) i;
      g_autoptr (OrtrainTensor) held = g_object_ref (x->tensor);
      OrtrainValue *minus = op (graph, "Neg", "minus", x, NULL, NULL);
      OrtrainValue *positive = op (graph, "Neg", "positive", minus, NULL, NULL);
      OrtrainValue *square = op (graph, "Mul", "square", positive, positive, NULL);
      OrtrainValue *shown = op (graph, "Neg", "shown", square, NULL, NULL);
      OrtrainValue *twice = op (graph, "Neg", "twice", shown, NULL, NULL);
      OrtrainValue *root = op (graph, "Sqrt", "root", twice, NULL, NULL);
      OrtrainValue *sum =
          op (graph, "Add", "sum", root, op (graph, "Reshape", "view", shown, add_ints (graph, dims, 1), NULL), NULL);
      ortrain_graph_mark_output (graph, shown, TRUE);
      fold (graph, sum, &budget);
      g_assert_cmpuint (graph->nodes->len, ==, 0);
      for (guint i = 0; i < 1000; i++)
        {
          const double v = i;
          g_assert_cmpfloat (ortrain_tensor_get_scalar (held, i), ==, v);
          g_assert_cmpfloat (ortrain_tensor_get_scalar (shown->tensor, i), ==, -v * v);
          g_assert_cmpfloat (ortrain_tensor_get_scalar (sum->tensor, i), ==, v - v * v);
        }
      OrtrainValue *const steps[] = { minus, positive, square, twice, root };
      for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
        g_assert_cmpint (steps[i]->tensor == NULL, ==, consumes);
    }
}

/* CastLike (constant, like) needs the type of `like` only, and is folded; CastLike of other values stays. */
static void
test_types (void)
{
  static const gint64 dims[] = { 2, 3 };
  const OrtrainDim shape[] = { ortrain_dim_int (4) };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("types");
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT64, shape, 1);
  OrtrainValue *of_constant = op (graph, "CastLike", "constant", add_floats (graph, dims, 2), x, NULL);
  OrtrainValue *of_input = op (graph, "CastLike", "input", x, add_floats (graph, dims, 2), NULL);
  OrtrainFoldBudget budget = budget_of (G_MAXUINT64, G_MAXUINT64);
  ortrain_graph_mark_output (graph, of_input, TRUE);
  fold (graph, of_constant, &budget);
  g_assert_nonnull (of_constant->tensor);
  g_assert_null (of_constant->producer);
  g_assert_cmpint (ortrain_tensor_get_dtype (of_constant->tensor), ==, ORTRAIN_DTYPE_FLOAT64);
  g_assert_cmpint (of_constant->dtype, ==, ORTRAIN_DTYPE_FLOAT64);
  g_assert_cmpstr (of_input->producer->op_type, ==, "CastLike");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transform/fold-constants/doubling", test_doubling);
  g_test_add_func ("/transform/fold-constants/many-results", test_many_results);
  g_test_add_func ("/transform/fold-constants/ranges", test_ranges);
  g_test_add_func ("/transform/fold-constants/products", test_products);
  g_test_add_func ("/transform/fold-constants/work", test_work);
  g_test_add_func ("/transform/fold-constants/deciding", test_deciding);
  g_test_add_func ("/transform/fold-constants/deciding-bytes", test_deciding_bytes);
  g_test_add_func ("/transform/fold-constants/many-small", test_many_small);
  g_test_add_func ("/transform/fold-constants/consumed", test_consumed);
  g_test_add_func ("/transform/fold-constants/types", test_types);
  return g_test_run ();
}
