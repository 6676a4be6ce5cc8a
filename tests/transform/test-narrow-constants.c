/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A value computed from constants that is the same along an axis is folded and kept once for that axis, where readers
 * broadcast it; all other readers get the value as in the model. */
#include "core/ortrain-errors.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-specialize-private.h"

#include <math.h>

#define BATCH 32
#define SIDE 1024 /* BATCH masks of SIDE · SIDE booleans are 32 MiB, more than is folded */
#define FEW 4
#define SMALL 256

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainValue *c)
{
  OrtrainValue *inputs[] = { a, b, c };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, inputs, c != NULL ? 3 : b != NULL ? 2 : 1, 1);
  g_autoptr (GError) error = NULL;
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
add_input (OrtrainGraph *graph, const char *name, const gint64 *sizes, gint rank)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < rank; i++)
    dims[i] = ortrain_dim_int (sizes[i]);
  return ortrain_graph_new_input (graph, name, ORTRAIN_DTYPE_FLOAT32, dims, rank);
}

static OrtrainValue *
add_ints (OrtrainGraph *graph, const gint64 *values, gint64 n)
{
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_ints (&n, 1, values, (gsize) n, NULL);
  return ortrain_graph_new_initializer (graph, NULL, tensor);
}

/* [batch, 1, n, 1], or with across [batch, 1, 1, n]: 0 to n - 1 for each sample, and `step` more for each that follows.
 */
static OrtrainValue *
add_positions (OrtrainGraph *graph, gint64 batch, gint64 n, gboolean across, gint64 step)
{
  const gint64 dims[] = { batch, 1, across ? 1 : n, across ? n : 1 };
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 4, NULL);
  gint64 *elements = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < batch * n; i++)
    elements[i] = i % n + i / n * step;
  return ortrain_graph_new_initializer (graph, NULL, tensor);
}

/* Row r sees the columns up to r. */
static OrtrainValue *
add_causal (OrtrainGraph *graph, gint64 batch, gint64 n)
{
  return op (graph, "LessOrEqual", add_positions (graph, batch, n, TRUE, 0), add_positions (graph, batch, n, FALSE, 0),
             NULL);
}

static OrtrainValue *
add_number (OrtrainGraph *graph, double number)
{
  return ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT32, number);
}

static OrtrainGraph *
specialize (OrtrainGraph *graph, OrtrainValue *result)
{
  g_autoptr (GError) error = NULL;
  gint64 dims[2][ORTRAIN_MAX_RANK];
  OrtrainSpecializeInput inputs[2];
  g_assert_cmpuint (graph->inputs->len, <=, 2);
  ortrain_value_rename (result, "result");
  ortrain_graph_mark_output (graph, result, TRUE);
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      g_assert_true (ortrain_value_get_static_dims (input, dims[i]));
      inputs[i] = (OrtrainSpecializeInput){ input->name, input->dtype, dims[i], (guint) input->rank, NULL };
    }
  OrtrainGraph *made = ortrain_specialize (graph, inputs, graph->inputs->len, &error);
  g_assert_no_error (error);
  return made;
}

static OrtrainValue *
get_result (OrtrainGraph *graph)
{
  return ortrain_graph_find_value (graph, "result");
}

static void
check_dims (const OrtrainValue *value, gint64 a, gint64 b, gint64 c, gint64 d)
{
  const gint64 expected[] = { a, b, c, d };
  gint64 dims[ORTRAIN_MAX_RANK];
  g_assert_true (ortrain_value_get_static_dims (value, dims));
  g_assert_cmpmem (dims, (gsize) value->rank * sizeof *dims, expected, sizeof expected);
}

/* mask: bool, [batch, 1, n, n] or narrower. shift: of the columns that a row sees, for each sample that follows. */
static void
check_causal (const OrtrainValue *mask, gint64 n, gint64 shift)
{
  g_assert_nonnull (mask->tensor);
  const guint8 *elements = ortrain_tensor_peek (mask->tensor);
  const gint64 n_elements = ortrain_tensor_get_n_elements (mask->tensor);
  for (gint64 i = 0; i < n_elements; i++)
    if (elements[i] != (i % n + i / (n * n) * shift <= i / n % n))
      g_error ("element %" G_GINT64_FORMAT " of the mask is %d", i, elements[i]);
}

/* As exporters write it: causal and of one document, both with all samples; all true with one element. */
static void
test_mask (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("mask");
  const gint64 dims[] = { BATCH, 2, SIDE, SIDE };
  g_autoptr (OrtrainTensor) zeros =
      ortrain_tensor_new (ORTRAIN_DTYPE_INT64, (const gint64[]){ BATCH, 1, SIDE, 1 }, 4, NULL);
  g_autoptr (OrtrainTensor) true_tensor = ortrain_tensor_new (ORTRAIN_DTYPE_BOOL, NULL, 0, NULL);
  *(guint8 *) ortrain_tensor_peek_writable (true_tensor) = TRUE;
  OrtrainValue *document = ortrain_graph_new_initializer (graph, "document", zeros);
  OrtrainValue *all = ortrain_graph_new_initializer (graph, "all", true_tensor);
  OrtrainValue *same = op (graph, "Equal", document, op (graph, "Transpose", document, NULL, NULL), NULL);
  OrtrainNode *transpose = graph->nodes->pdata[0];
  ortrain_attributes_set_ints (transpose->attributes, "perm", (const gint64[]){ 0, 1, 3, 2 }, 4);
  g_assert_true (ortrain_ops_infer_node (transpose, NULL) && ortrain_ops_infer_node (same->producer, NULL));
  OrtrainValue *mask = op (graph, "And", op (graph, "And", all, add_causal (graph, BATCH, SIDE), NULL), same, NULL);
  g_autoptr (OrtrainGraph) made =
      specialize (graph, op (graph, "Where", mask, add_input (graph, "x", dims, 4), add_number (graph, -1)));
  g_assert_cmpuint (made->nodes->len, ==, 1);
  const OrtrainValue *read = ortrain_node_input (made->nodes->pdata[0], 0);
  check_dims (get_result (made), BATCH, 2, SIDE, SIDE);
  check_dims (read, 1, 1, SIDE, SIDE);
  check_causal (read, SIDE, 0);
}

/* Constants that the samples do not share stay. */
static void
test_own_rows (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("own-rows");
  const gint64 dims[] = { FEW, 2, SMALL, SMALL };
  OrtrainValue *mask = op (graph, "LessOrEqual", add_positions (graph, FEW, SMALL, TRUE, 3),
                           add_positions (graph, FEW, SMALL, FALSE, 0), NULL);
  g_autoptr (OrtrainGraph) made =
      specialize (graph, op (graph, "Where", mask, add_input (graph, "x", dims, 4), add_number (graph, -1)));
  g_assert_cmpuint (made->nodes->len, ==, 1);
  const OrtrainValue *read = ortrain_node_input (made->nodes->pdata[0], 0);
  check_dims (read, FEW, 1, SMALL, SMALL);
  check_causal (read, SMALL, 3);
}

/* A reader that does not broadcast, one whose own shape it is, and the graph itself as an output. */
static void
test_full (void)
{
  for (guint form = 0; form < 3; form++)
    {
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("full");
      const gint64 dims[] = { 1, 1, SMALL, SMALL };
      OrtrainValue *mask = add_causal (graph, FEW, SMALL), *x = add_input (graph, "x", dims, 4), *result;
      if (form == 0)
        result = op (graph, "Reshape", mask, add_ints (graph, (const gint64[]){ FEW * SMALL, SMALL }, 2), NULL);
      else if (form == 1)
        result = op (graph, "Where", mask, x, add_number (graph, -1));
      else
        result = mask;
      OrtrainValue *both =
          op (graph, "Where", mask, add_input (graph, "y", (const gint64[]){ FEW, 1, SMALL, SMALL }, 4),
              add_number (graph, -1));
      ortrain_value_rename (both, "both");
      ortrain_graph_mark_output (graph, both, TRUE);
      g_autoptr (OrtrainGraph) made = specialize (graph, result);
      const OrtrainValue *narrow = ortrain_node_input (ortrain_graph_find_value (made, "both")->producer, 0);
      check_dims (narrow, 1, 1, SMALL, SMALL);
      check_causal (narrow, SMALL, 0);
      const OrtrainValue *full = get_result (made);
      if (form == 1)
        {
          check_dims (full, FEW, 1, SMALL, SMALL);
          full = ortrain_node_input (full->producer, 0);
        }
      if (form == 0)
        g_assert_cmpint (full->rank, ==, 2);
      else
        check_dims (full, FEW, 1, SMALL, SMALL);
      check_causal (full, SMALL, 0);
      g_assert_cmpint (ortrain_tensor_get_n_elements (full->tensor), ==, FEW * SMALL * SMALL);
    }
}

/* Expand of constants: it is never run where its reader broadcasts. */
static void
test_expand (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("expand");
  const gint64 dims[] = { FEW, 2, SMALL, SMALL };
  const gint64 rows = SMALL;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &rows, 1, NULL);
  float *elements = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < rows; i++)
    elements[i] = (float) i;
  OrtrainValue *bias = ortrain_graph_new_initializer (graph, "bias", tensor), *shape = add_ints (graph, dims, 4);
  OrtrainValue *sum =
      op (graph, "Add", op (graph, "Expand", bias, shape, NULL), op (graph, "Expand", bias, shape, NULL), NULL);
  g_autoptr (OrtrainGraph) made = specialize (graph, op (graph, "Mul", add_input (graph, "x", dims, 4), sum, NULL));
  g_assert_cmpuint (made->nodes->len, ==, 1);
  const OrtrainValue *read = ortrain_node_input (made->nodes->pdata[0], 1);
  g_assert_cmpint (read->rank, ==, 1);
  for (gint64 i = 0; i < rows; i++)
    g_assert_cmpfloat (ortrain_tensor_get_scalar (read->tensor, i), ==, 2.0 * (double) i);
}

/* Bits count, not numbers: 1 / -0 is not 1 / 0. */
static void
test_bits (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("bits");
  const gint64 dims[] = { 2, 1, 1, SMALL }, down[] = { 1, 1, SMALL, 1 };
  g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 4, NULL);
  g_autoptr (OrtrainTensor) ones = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, down, 4, NULL);
  float *zero = ortrain_tensor_peek_writable (zeros), *one = ortrain_tensor_peek_writable (ones);
  for (guint i = 0; i < SMALL; i++)
    {
      zero[SMALL + i] = -0.0f;
      one[i] = 1;
    }
  OrtrainValue *ratio = op (graph, "Div", ortrain_graph_new_initializer (graph, "ones", ones),
                            ortrain_graph_new_initializer (graph, "zeros", zeros), NULL);
  g_autoptr (OrtrainGraph) made = specialize (
      graph, op (graph, "Add", add_input (graph, "x", (const gint64[]){ 2, 1, SMALL, SMALL }, 4), ratio, NULL));
  const OrtrainValue *read = ortrain_node_input (made->nodes->pdata[0], 1);
  check_dims (read, 2, 1, 1, 1);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (read->tensor, 0), ==, INFINITY);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (read->tensor, 1), ==, -INFINITY);
}

/* Constants that are found only now are folded too: a guard against rows that see nothing. */
static void
test_guard (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("guard");
  const gint64 dims[] = { FEW, 1, SMALL, SMALL };
  OrtrainValue *x = add_input (graph, "x", dims, 4), *mask = add_causal (graph, FEW, SMALL);
  OrtrainNode *cast = ortrain_graph_new_node (graph, "", "Cast", NULL, &mask, 1, 1);
  ortrain_attributes_set_int (cast->attributes, "to", ORTRAIN_DTYPE_INT32);
  g_assert_true (ortrain_ops_infer_node (cast, NULL));
  OrtrainValue *most =
      op (graph, "ReduceMax", ortrain_node_output (cast, 0), add_ints (graph, (const gint64[]){ -1 }, 1), NULL);
  OrtrainNode *blind = ortrain_graph_new_node (graph, "", "Cast", NULL, &most, 1, 1);
  ortrain_attributes_set_int (blind->attributes, "to", ORTRAIN_DTYPE_BOOL);
  g_assert_true (ortrain_ops_infer_node (blind, NULL));
  OrtrainValue *guarded =
      op (graph, "Where", ortrain_node_output (blind, 0), op (graph, "Neg", x, NULL, NULL), add_number (graph, 0));
  g_autoptr (OrtrainGraph) made = specialize (graph, op (graph, "Exp", guarded, NULL, NULL));
  g_assert_cmpuint (made->nodes->len, ==, 2);
}

/* A mask that turns out to let everything through is no mask. */
static void
test_open (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("open");
  const gint64 dims[] = { FEW, 2, SMALL, SMALL };
  OrtrainValue *mask =
      op (graph, "Less", add_positions (graph, FEW, SMALL, TRUE, 0),
          op (graph, "Add", add_positions (graph, FEW, SMALL, FALSE, 0), ortrain_graph_const_int (graph, SMALL), NULL),
          NULL);
  OrtrainValue *masked =
      op (graph, "Where", mask, op (graph, "Neg", add_input (graph, "x", dims, 4), NULL, NULL), add_number (graph, 0));
  g_autoptr (OrtrainGraph) made = specialize (graph, op (graph, "Exp", masked, NULL, NULL));
  g_assert_cmpuint (made->nodes->len, ==, 2);
}

/* A waiting constant delays only values computed from it: positions that exporters expand for each sample. */
static void
test_expanded_positions (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("positions");
  const gint64 dims[] = { BATCH, 2, SIDE, SIDE }, flat[] = { BATCH, 1, 1, SIDE }, n = SIDE;
  g_autofree gint64 *numbers = g_new (gint64, SIDE);
  for (gint64 i = 0; i < SIDE; i++)
    numbers[i] = i;
  OrtrainValue *range = add_ints (graph, numbers, n);
  OrtrainValue *expanded = op (graph, "Expand", range, add_ints (graph, (const gint64[]){ BATCH, SIDE }, 2), NULL);
  OrtrainValue *columns = op (graph, "Reshape", expanded, add_ints (graph, flat, 4), NULL);
  OrtrainValue *rows =
      op (graph, "Reshape", expanded, add_ints (graph, (const gint64[]){ BATCH, 1, SIDE, 1 }, 4), NULL);
  OrtrainValue *mask = op (graph, "LessOrEqual", columns, rows, NULL);
  g_autoptr (OrtrainGraph) made =
      specialize (graph, op (graph, "Where", mask, add_input (graph, "x", dims, 4), add_number (graph, -1)));
  g_assert_cmpuint (made->nodes->len, ==, 1);
  const OrtrainValue *read = ortrain_node_input (made->nodes->pdata[0], 0);
  check_dims (read, 1, 1, SIDE, SIDE);
  check_causal (read, SIDE, 0);
}

/* Larger than the limit of folding: computed in each step, once for all samples. */
static void
test_too_large (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("large");
  const gint64 n = 8192, dims[] = { FEW, 1, n, n };
  OrtrainValue *mask = op (graph, "Not", add_causal (graph, FEW, n), NULL, NULL);
  g_autoptr (OrtrainGraph) made =
      specialize (graph, op (graph, "Where", mask, add_input (graph, "x", dims, 4), add_number (graph, -1)));
  g_assert_cmpuint (made->nodes->len, ==, 3);
  const OrtrainValue *read = ortrain_node_input (get_result (made)->producer, 0);
  check_dims (read, 1, 1, n, n);
  check_dims (ortrain_node_input (read->producer, 0), 1, 1, n, n);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transform/narrow-constants/mask", test_mask);
  g_test_add_func ("/transform/narrow-constants/own-rows", test_own_rows);
  g_test_add_func ("/transform/narrow-constants/full", test_full);
  g_test_add_func ("/transform/narrow-constants/expand", test_expand);
  g_test_add_func ("/transform/narrow-constants/bits", test_bits);
  g_test_add_func ("/transform/narrow-constants/guard", test_guard);
  g_test_add_func ("/transform/narrow-constants/open", test_open);
  g_test_add_func ("/transform/narrow-constants/expanded-positions", test_expanded_positions);
  g_test_add_func ("/transform/narrow-constants/too-large", test_too_large);
  return g_test_run ();
}
