/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-op-test.h"

/* Forward values are NumPy's; gradients are checked against differences. */

static void
test_views (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_INTS (&t, 0, -1, 1);
  OP_RUN (&t, "Reshape", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 3, 1), 1, 2, 3, 4, 5, 6);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (1, 2, 1), 1, 2);
  ortrain_attributes_set_ints (t.attributes, "axes", (gint64[]){ 0, -1 }, 2);
  op_test_go (&t, "", "Squeeze", 1, 11);
  OP_OUT (&t, 0, OP_DIMS (2), 1, 2);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2), 1, 2);
  OP_INTS (&t, 2, 0);
  OP_RUN (&t, "Unsqueeze", 1);
  OP_OUT (&t, 0, OP_DIMS (1, 2, 1), 1, 2);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 1, 3), 1, 2, 3, 4, 5, 6);
  ortrain_attributes_set_int (t.attributes, "axis", -1);
  OP_RUN (&t, "Flatten", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

/* Refused with a message, not with a wrong shape. */
static void
test_refused (void)
{
  OpTest t;
  g_autoptr (GError) error = NULL;
  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_INTS (&t, 4, -1);
  g_assert_false (op_test_node (&t, "", "Reshape", 1, 23, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
  OP_INTS (&t, 0);
  g_assert_false (op_test_node (&t, "", "Squeeze", 1, 23, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (3), 1, 2, 3);
  OP_INTS (&t, 0, 3);
  ortrain_attributes_set_int (t.attributes, "axis", 0);
  g_assert_true (op_test_node (&t, "", "Gather", 1, 23, &error));
  g_assert_false (op_test_run (&t, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
  op_test_end (&t);
}

/* Borders whose sum does not fit 64 bits, or whose absolute value does not. */
static void
test_refused_windows (void)
{
  static const char *const operators[] = { "Conv", "ConvTranspose", "MaxPool", "AveragePool" };
  static const gint64 pads[][2] = {
    { G_MININT64, G_MININT64 }, { G_MININT64, 0 }, { 0, G_MININT64 }, { G_MAXINT64, 1 }, { 1, -G_MAXINT64 },
  };
  for (guint o = 0; o < G_N_ELEMENTS (operators); o++)
    for (guint i = 0; i < G_N_ELEMENTS (pads); i++)
      {
        OpTest t;
        g_autoptr (GError) error = NULL;
        op_test_begin (&t);
        OP_IN (&t, FLOAT32, OP_DIMS (1, 1, 4), 1, 2, 3, 4);
        if (o < 2)
          OP_IN (&t, FLOAT32, OP_DIMS (1, 1, 2), 1, 2);
        ortrain_attributes_set_ints (t.attributes, "kernel_shape", (gint64[]){ 2 }, 1);
        ortrain_attributes_set_ints (t.attributes, "pads", pads[i], 2);
        g_assert_false (op_test_node (&t, "", operators[o], 1, 22, &error));
        g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE);
        op_test_end (&t);
      }
}

static void
test_transpose (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 3, 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  ortrain_attributes_set_ints (t.attributes, "perm", (gint64[]){ 2, 0, 1 }, 3);
  OP_RUN (&t, "Transpose", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2, 3), 0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  /* Every element size, through the blocked path, with edges that do not fill a block. */
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_UINT8, ORTRAIN_DTYPE_INT16, ORTRAIN_DTYPE_FLOAT32,
                                        ORTRAIN_DTYPE_INT64 };
  for (guint k = 0; k < G_N_ELEMENTS (types); k++)
    {
      gint64 dims[3] = { 2, 37, 41 };
      g_autofree double *values = g_new (double, 2 * 37 * 41);
      for (gint i = 0; i < 2 * 37 * 41; i++)
        values[i] = i % 127;
      op_test_begin (&t);
      op_test_tensor (&t, op_test_make (types[k], 3, dims, values));
      ortrain_attributes_set_ints (t.attributes, "perm", (gint64[]){ 0, 2, 1 }, 3);
      OP_RUN (&t, "Transpose", 1);
      OrtrainTensor *y = ortrain_node_output (t.node, 0)->tensor;
      for (gint b = 0; b < 2; b++)
        for (gint i = 0; i < 41; i++)
          for (gint j = 0; j < 37; j++)
            g_assert_cmpfloat (ortrain_tensor_get_scalar (y, (b * 41 + i) * 37 + j), ==, values[(b * 37 + j) * 41 + i]);
      op_test_end (&t);
    }
}

static void
test_concat_split (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 1), 1, 2);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 2), 3, 4, 5, 6);
  ortrain_attributes_set_int (t.attributes, "axis", -1);
  OP_RUN (&t, "Concat", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 3), 1, 3, 4, 2, 5, 6);
  op_test_gradient (&t, 3, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 1), 1, 2);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 2), 3, 4, 5, 6);
  ortrain_attributes_set_int (t.attributes, "axis", 1);
  OP_RUN (&t, "Concat", 1);
  op_test_gradient (&t, 2, 0);
  op_test_end (&t);

  for (guint skip = 0; skip < 3; skip++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      ortrain_attributes_set_int (t.attributes, "axis", 1);
      ortrain_attributes_set_ints (t.attributes, "split", (gint64[]){ 1, 2 }, 2);
      op_test_go (&t, "", "Split", 2, 11);
      OP_OUT (&t, 0, OP_DIMS (2, 1), 1, 4);
      OP_OUT (&t, 1, OP_DIMS (2, 2), 2, 3, 5, 6);
      op_test_gradient (&t, 1, skip);
      op_test_end (&t);
    }

  op_test_begin (&t);
  OP_IN (&t, INT32, OP_DIMS (5), 1, 2, 3, 4, 5);
  ortrain_attributes_set_int (t.attributes, "num_outputs", 2);
  OP_RUN (&t, "Split", 2);
  OP_OUT (&t, 0, OP_DIMS (3), 1, 2, 3);
  OP_OUT (&t, 1, OP_DIMS (2), 4, 5);
  op_test_end (&t);
}

static void
test_slice (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  OP_INTS (&t, -1, 1);
  OP_INTS (&t, -1000, 1000);
  OP_INTS (&t, 0, -1);
  OP_INTS (&t, -2, 2);
  OP_RUN (&t, "Slice", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 9, 11, 1, 3);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  ortrain_attributes_set_ints (t.attributes, "starts", (gint64[]){ 1 }, 1);
  ortrain_attributes_set_ints (t.attributes, "ends", (gint64[]){ -1 }, 1);
  op_test_go (&t, "", "Slice", 1, 9);
  OP_OUT (&t, 0, OP_DIMS (1, 4), 4, 5, 6, 7);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

static void
test_gather (void)
{
  OpTest t;
  for (guint axis = 0; axis < 2; axis++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_IN (&t, INT64, OP_DIMS (2, 2), 0, -1, 1, 0);
      ortrain_attributes_set_int (t.attributes, "axis", axis);
      OP_RUN (&t, "Gather", 1);
      if (axis == 0)
        OP_OUT (&t, 0, OP_DIMS (2, 2, 3), 1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3);
      else
        OP_OUT (&t, 0, OP_DIMS (2, 2, 2), 1, 3, 2, 1, 4, 6, 5, 4);
      op_test_gradient (&t, 1, 0);
      op_test_end (&t);
    }
  for (gint axis = -1; axis < 1; axis++)
    {
      op_test_begin (&t);
      OP_IN (&t, FLOAT64, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
      OP_IN (&t, INT32, OP_DIMS (2, 2), 1, 0, -1, -1);
      ortrain_attributes_set_int (t.attributes, "axis", axis);
      OP_RUN (&t, "GatherElements", 1);
      if (axis == 0)
        OP_OUT (&t, 0, OP_DIMS (2, 2), 4, 2, 4, 5);
      else
        OP_OUT (&t, 0, OP_DIMS (2, 2), 2, 1, 6, 6);
      op_test_gradient (&t, 1, 0);
      op_test_end (&t);
    }
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);
  OP_IN (&t, INT64, OP_DIMS (2, 1), 1, 0);
  ortrain_attributes_set_int (t.attributes, "batch_dims", 1);
  OP_RUN (&t, "GatherND", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 2, 3, 4, 5);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (2, 2), 0, 1, 2, 3);
  OP_IN (&t, INT64, OP_DIMS (3, 2), 0, 0, 1, -1, 1, 1);
  OP_RUN (&t, "GatherND", 1);
  OP_OUT (&t, 0, OP_DIMS (3), 0, 3, 3);
  op_test_gradient (&t, 1, 0);
  op_test_end (&t);
}

static void
test_generators (void)
{
  OpTest t;
  op_test_begin (&t);
  OP_IN (&t, FLOAT64, OP_DIMS (1, 3), 1, 2, 3);
  OP_INTS (&t, 2, 1, 1);
  OP_RUN (&t, "Expand", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 1, 3), 1, 2, 3, 1, 2, 3);
  op_test_end (&t);

  op_test_begin (&t);
  OP_INTS (&t, 2, 2);
  g_autoptr (OrtrainTensor) seven = op_test_make (ORTRAIN_DTYPE_INT32, OP_DIMS (1), (double[]){ 7 });
  ortrain_attributes_set_tensor (t.attributes, "value", seven);
  OP_RUN (&t, "ConstantOfShape", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 2), 7, 7, 7, 7);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (), 1);
  OP_IN (&t, FLOAT32, OP_DIMS (), 0);
  OP_IN (&t, FLOAT32, OP_DIMS (), -0.4);
  OP_RUN (&t, "Range", 1);
  OP_OUT (&t, 0, OP_DIMS (3), 1, 0.6, 0.2);
  op_test_end (&t);

  op_test_begin (&t);
  OP_IN (&t, FLOAT32, OP_DIMS (2, 3), 0, 0, 0, 0, 0, 0);
  ortrain_attributes_set_int (t.attributes, "k", 1);
  ortrain_attributes_set_int (t.attributes, "dtype", ORTRAIN_DTYPE_FLOAT64);
  OP_RUN (&t, "EyeLike", 1);
  OP_OUT (&t, 0, OP_DIMS (2, 3), 0, 1, 0, 0, 0, 1);
  op_test_end (&t);

  op_test_begin (&t);
  ortrain_attributes_set_ints (t.attributes, "value_ints", (gint64[]){ 3, 4 }, 2);
  OP_RUN (&t, "Constant", 1);
  OP_OUT (&t, 0, OP_DIMS (2), 3, 4);
  op_test_end (&t);
}

/* The nodes that exporters write for x.view (batch, seq, -1): the shape is found in symbols, and equals that of the
 * input. */
static void
test_symbols (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = g_object_new (ORTRAIN_TYPE_GRAPH, NULL);
  graph->opset = 23;
  OrtrainDim dims[3] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_symbol (graph->dims, "seq"),
                         ortrain_dim_int (768) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 3);
  OrtrainValue *shape = ortrain_node_output (ortrain_graph_new_node (graph, "", "Shape", NULL, &x, 1, 1), 0);
  OrtrainValue *parts[3];
  for (gint i = 0; i < 2; i++)
    {
      OrtrainValue *in[2] = { shape, ortrain_graph_const_int (graph, i) };
      parts[i] = ortrain_node_output (ortrain_graph_new_node (graph, "", "Gather", NULL, in, 2, 1), 0);
      OrtrainValue *un[2] = { parts[i], ortrain_graph_const_ints (graph, (gint64[]){ 0 }, 1) };
      parts[i] = ortrain_node_output (ortrain_graph_new_node (graph, "", "Unsqueeze", NULL, un, 2, 1), 0);
    }
  OrtrainValue *tail[4] = { parts[0], parts[1], ortrain_graph_const_ints (graph, (gint64[]){ 12, -1 }, 2) };
  OrtrainNode *concat = ortrain_graph_new_node (graph, "", "Concat", NULL, tail, 3, 1);
  ortrain_attributes_set_int (concat->attributes, "axis", 0);
  OrtrainValue *in[2] = { x, ortrain_node_output (concat, 0) };
  OrtrainValue *y = ortrain_node_output (ortrain_graph_new_node (graph, "", "Reshape", NULL, in, 2, 1), 0);
  OrtrainNode *transpose = ortrain_graph_new_node (graph, "", "Transpose", NULL, &y, 1, 1);
  ortrain_attributes_set_ints (transpose->attributes, "perm", (gint64[]){ 0, 2, 1, 3 }, 4);
  OrtrainValue *sliced[4] = { shape, ortrain_graph_const_ints (graph, (gint64[]){ -2 }, 1),
                              ortrain_graph_const_ints (graph, (gint64[]){ G_MAXINT64 }, 1) };
  OrtrainValue *slice = ortrain_node_output (ortrain_graph_new_node (graph, "", "Slice", NULL, sliced, 3, 1), 0);
  ortrain_graph_mark_output (graph, ortrain_node_output (transpose, 0), TRUE);
  ortrain_graph_mark_output (graph, slice, TRUE);
  ortrain_ops_bind (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  OrtrainValue *z = ortrain_node_output (transpose, 0);
  g_autofree char *text = ortrain_dims_to_string (z->dims, z->rank);
  g_assert_cmpstr (text, ==, "[batch, 12, seq, 64]");
  g_assert_cmpint (slice->n_content, ==, 2);
  g_assert_true (ortrain_dim_equal (slice->content[0], dims[1]));
  g_assert_true (ortrain_dim_equal (slice->content[1], dims[2]));
}

static OrtrainValue *
cast_like (OrtrainGraph *graph, double number, OrtrainValue *like)
{
  OrtrainValue *in[] = { ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT32, number), like };
  return ortrain_node_output (ortrain_graph_new_node (graph, "", "CastLike", NULL, in, 2, 1), 0);
}

/* The nodes that PyTorch's exporter writes for torch.arange (n) when it does not optimize: the limits are
 * floating-point numbers of the type of n, and the length is n. */
static void
test_arange (void)
{
  static const struct
  {
    double start, step;
    const char *length;
  } cases[] = { { 0, 1, "[seq]" }, { 0.9, 1.2, "[seq]" }, { 0, 2, NULL }, { NAN, 1, "?" }, { 1e30, 1, "?" } };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainGraph) graph = g_object_new (ORTRAIN_TYPE_GRAPH, NULL);
      graph->opset = 23;
      const OrtrainDim seq = ortrain_dim_symbol (graph->dims, "seq");
      OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, &seq, 1);
      OrtrainValue *shape = ortrain_node_output (ortrain_graph_new_node (graph, "", "Shape", NULL, &x, 1, 1), 0);
      OrtrainValue *size = ortrain_node_output (ortrain_graph_new_node (graph, "", "Squeeze", NULL, &shape, 1, 1), 0);
      OrtrainValue *in[] = { cast_like (graph, cases[c].start, size), size, cast_like (graph, cases[c].step, size) };
      OrtrainValue *range = ortrain_node_output (ortrain_graph_new_node (graph, "", "Range", NULL, in, 3, 1), 0);
      ortrain_graph_mark_output (graph, range, TRUE);
      g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
      g_assert_no_error (error);
      g_autofree char *text = ortrain_dims_to_string (range->dims, range->rank);
      if (cases[c].length == NULL)
        g_assert_cmpstr (text, !=, "[seq]");
      else if (*cases[c].length == '?') /* not known */
        g_assert_nonnull (strchr (text, '?'));
      else
        g_assert_cmpstr (text, ==, cases[c].length);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/shape/views", test_views);
  g_test_add_func ("/ops/shape/refused", test_refused);
  g_test_add_func ("/ops/shape/refused-windows", test_refused_windows);
  g_test_add_func ("/ops/shape/transpose", test_transpose);
  g_test_add_func ("/ops/shape/concat-split", test_concat_split);
  g_test_add_func ("/ops/shape/slice", test_slice);
  g_test_add_func ("/ops/shape/gather", test_gather);
  g_test_add_func ("/ops/shape/generators", test_generators);
  g_test_add_func ("/ops/shape/symbols", test_symbols);
  g_test_add_func ("/ops/shape/arange", test_arange);
  return g_test_run ();
}
