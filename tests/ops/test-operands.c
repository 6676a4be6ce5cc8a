/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-op-test.h"

/* The requirements of every operator on its operands, as in its row: types, numbers of elements, values. */

/* ---- Types ---- */

static OrtrainDType
first_of (OrtrainDTypeSet dtypes)
{
  for (guint i = 1; i < 32; i++)
    if (dtypes & ORTRAIN_DTYPE_BIT (i))
      return (OrtrainDType) i;
  return ORTRAIN_DTYPE_FLOAT32;
}

/* A type that the letter allows; types[]: of the inputs before. */
static OrtrainDType
type_of_letter (const OrtrainOpDef *op, char letter, const OrtrainDType *types)
{
  switch (letter)
    {
    case '.':
      return first_of (op->dtypes);
    case '*':
    case 'f':
    case 's':
    case 'n':
      return ORTRAIN_DTYPE_FLOAT32;
    case 'b':
      return ORTRAIN_DTYPE_BOOL;
    case 'i':
    case 'l':
      return ORTRAIN_DTYPE_INT64;
    case 'q':
      return ORTRAIN_DTYPE_UINT8;
    default:
      g_assert_true (g_ascii_isdigit (letter));
      return types[letter - '0'];
    }
}

/* Each input of each operator in a type that it cannot have, all others in one that they can. */
static void
test_types (void)
{
  guint refused = 0;
  for (guint r = 0; r < ortrain_ops_get_n (); r++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (r);
      if (op->types == NULL)
        {
          if (op->max_inputs < 0 || op->max_inputs > 1)
            g_error ("%s takes more than one input, and its row does not give their types", op->name);
          continue;
        }
      const guint n = op->max_inputs < 0 ? (guint) MAX (op->min_inputs, 4) : (guint) op->max_inputs;
      const gsize n_letters = strlen (op->types);
      OrtrainDType types[32];
      g_assert_cmpuint (n, <=, G_N_ELEMENTS (types));
      for (guint i = 0; i < n; i++)
        types[i] = type_of_letter (op, op->types[MIN (i, n_letters - 1)], types);
      for (guint i = 0; i < n; i++)
        {
          const char letter = op->types[MIN (i, n_letters - 1)];
          if (letter == '*' || letter == '.')
            continue;
          g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
          g_autoptr (GError) error = NULL;
          OrtrainValue *inputs[32];
          for (guint k = 0; k < n; k++)
            {
              g_autofree char *name = g_strdup_printf ("operand%u", k);
              OrtrainDType dtype = k == i ? ORTRAIN_DTYPE_COMPLEX64 : types[k];
              inputs[k] = ortrain_graph_new_input (graph, name, dtype, NULL, -1);
            }
          OrtrainNode *node =
              ortrain_graph_new_node (graph, op->domain, op->name, "here", inputs, n, (guint) MAX (op->min_outputs, 1));
          node->op = op;
          if (ortrain_ops_infer_node (node, &error))
            g_error ("%s takes complex64 as input %u", op->name, i);
          g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DTYPE);
          g_autofree char *operand = g_strdup_printf ("'operand%u'", i);
          g_assert_nonnull (strstr (error->message, "'here'"));
          if (strstr (error->message, operand) == NULL)
            g_error ("%s does not name %s", error->message, operand);
          refused++;
        }
    }
  g_assert_cmpuint (refused, >, 150);
}

/* ---- Numbers of elements, and values ---- */

/* The node is refused before it runs, with its name and the text. */
static void
expect_refused (OpTest *test, const char *op_type, guint n_outputs, const char *text)
{
  g_autoptr (GError) error = NULL;
  if (op_test_node (test, "", op_type, n_outputs, 23, &error))
    g_error ("%s was not refused: %s", op_type, text);
  g_assert_nonnull (strstr (error->message, "'n'"));
  if (strstr (error->message, text) == NULL)
    g_error ("\"%s\" does not say \"%s\"", error->message, text);
  op_test_end (test);
}

static OrtrainTensor *
noise (OrtrainDType dtype, guint rank, const gint64 *dims, guint seed)
{
  gint64 n = 1;
  for (guint d = 0; d < rank; d++)
    n *= dims[d];
  g_autofree double *values = g_new0 (double, n + 1);
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  for (gint64 i = 0; i < n; i++)
    values[i] = g_rand_double_range (rand, -1, 1);
  return op_test_make (dtype, rank, dims, values);
}

#define F32 ORTRAIN_DTYPE_FLOAT32

/* A bias has one element for each filter. */
static void
test_bias (void)
{
  static const char *const names[] = { "Conv", "ConvTranspose" };
  for (guint k = 0; k < 2; k++)
    {
      static const gint64 wrong[] = { 0, 1, 2, 4, 300 };
      for (guint b = 0; b < G_N_ELEMENTS (wrong) + 2; b++)
        {
          OpTest test;
          op_test_begin (&test);
          op_test_tensor (&test, noise (F32, OP_DIMS (1, 2, 4, 4), 1));
          if (k == 0)
            op_test_tensor (&test, noise (F32, OP_DIMS (3, 2, 2, 2), 2));
          else
            op_test_tensor (&test, noise (F32, OP_DIMS (2, 3, 2, 2), 2));
          if (b < G_N_ELEMENTS (wrong))
            op_test_tensor (&test, noise (F32, 1, &wrong[b], 3));
          else if (b == G_N_ELEMENTS (wrong))
            op_test_tensor (&test, noise (F32, 0, NULL, 3));
          else
            op_test_tensor (&test, noise (F32, OP_DIMS (1, 3), 3));
          expect_refused (&test, names[k], 1, "input 2 ");
        }
    }
}

/* C is broadcast to the result of Gemm. */
static void
test_gemm_c (void)
{
  static const gint64 shapes[][3] = { { 2, 3, 0 }, { 0, 4, 0 }, { 1, 3, 0 }, { 1, 2, 4 } };
  static const guint ranks[] = { 2, 2, 1, 3 };
  for (guint i = 0; i < G_N_ELEMENTS (ranks); i++)
    {
      OpTest test;
      op_test_begin (&test);
      op_test_tensor (&test, noise (F32, OP_DIMS (2, 3), 1));
      op_test_tensor (&test, noise (F32, OP_DIMS (3, 4), 2));
      op_test_tensor (&test, noise (F32, ranks[i], ranks[i] == 1 ? &shapes[i][1] : shapes[i], 3));
      expect_refused (&test, "Gemm", 1, "input 2 ");
    }
}

/* Dropout's ratio may have any floating type, whatever that of the data is. */
static void
test_dropout_types (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                        ORTRAIN_DTYPE_BFLOAT16 };
  const gint64 n = 4096;
  const double half = 0.5, yes = 1;
  g_autofree double *ones = g_new (double, n);
  for (gint64 i = 0; i < n; i++)
    ones[i] = 1;
  for (guint a = 0; a < G_N_ELEMENTS (types); a++)
    for (guint b = 0; b < G_N_ELEMENTS (types); b++)
      {
        OpTest test;
        op_test_begin (&test);
        op_test_tensor (&test, op_test_make (types[a], 1, &n, ones));
        op_test_tensor (&test, op_test_make (types[b], 0, NULL, &half));
        op_test_tensor (&test, op_test_make (ORTRAIN_DTYPE_BOOL, 0, NULL, &yes));
        OP_RUN (&test, "Dropout", 1);
        OrtrainTensor *y = ortrain_node_output (test.node, 0)->tensor;
        gint64 dropped = 0;
        for (gint64 i = 0; i < n; i++)
          {
            double value = ortrain_tensor_get_scalar (y, i);
            g_assert_true (value == 0 || value == 2);
            dropped += value == 0;
          }
        g_assert_cmpint (ABS (dropped - n / 2), <, 160); /* 5 standard deviations */
        op_test_end (&test);
      }
}

static void
test_dropout_range (void)
{
  static const double wrong[] = { 1, 1.5, -0.25, NAN, INFINITY };
  static const char *const texts[] = { "is 1,", "is 1.5,", "is -0.25,", "nan,", "is inf," };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      OpTest test;
      op_test_begin (&test);
      op_test_tensor (&test, noise (F32, OP_DIMS (4), 1));
      op_test_tensor (&test, op_test_make (F32, 0, NULL, &wrong[i]));
      expect_refused (&test, "Dropout", 1, texts[i]);

      /* computed at run time: a fault */
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      OrtrainTensor *tensors[] = { noise (F32, OP_DIMS (4), 1), op_test_make (F32, 0, NULL, &wrong[i]) }, *y = NULL;
      OrtrainDim four = ortrain_dim_int (4);
      OrtrainValue *inputs[] = { ortrain_graph_new_input (graph, "x", F32, &four, 1),
                                 ortrain_graph_new_input (graph, "r", F32, NULL, 0) };
      OrtrainNode *node = ortrain_graph_new_node (graph, "", "Dropout", "drop", inputs, 2, 1);
      g_assert_true (ortrain_ops_infer_node (node, NULL));
      g_assert_false (ortrain_evaluate_node (node, tensors, &y, NULL, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
      g_assert_nonnull (strstr (error->message, "'drop'"));
      for (guint k = 0; k < 2; k++)
        g_object_unref (tensors[k]);
    }
  OpTest test;
  op_test_begin (&test);
  op_test_tensor (&test, noise (F32, OP_DIMS (4), 1));
  op_test_tensor (&test, noise (F32, OP_DIMS (2), 1));
  expect_refused (&test, "Dropout", 1, "one element is needed");
}

static void
begin_qlinear (OpTest *test, guint i, gint64 n)
{
  static const gint64 a_dims[] = { 2, 3 }, b_dims[] = { 3, 4 };
  op_test_begin (test);
  for (guint k = 0; k < 8; k++)
    {
      const gboolean scale = k == 1 || k == 4 || k == 6;
      g_autofree double *values = g_new (double, 16);
      for (guint e = 0; e < 16; e++)
        values[e] = scale ? 0.5 : e % 7;
      const OrtrainDType dtype = scale ? F32 : ORTRAIN_DTYPE_UINT8;
      if (k == 0 || k == 3)
        op_test_tensor (test, op_test_make (dtype, 2, k == 0 ? a_dims : b_dims, values));
      else
        op_test_tensor (test, op_test_make (dtype, k == i ? 1 : 0, &n, values));
    }
}

/* Scales and zero points: one, or one for each row of A and column of B. */
static void
test_quantisation (void)
{
  static const guint operands[] = { 1, 2, 4, 5, 6, 7 };
  static const gint64 wrong[] = { 0, 3, 7 };
  for (guint k = 0; k < G_N_ELEMENTS (operands); k++)
    for (guint w = 0; w < G_N_ELEMENTS (wrong); w++)
      {
        OpTest test;
        g_autofree char *text = g_strdup_printf ("input %u ", operands[k]);
        begin_qlinear (&test, operands[k], wrong[w]);
        expect_refused (&test, "QLinearMatMul", 1, text);
      }
  /* right ones */
  static const gint64 right[] = { 2, 2, 4, 4, 1, 1 };
  for (guint k = 0; k < G_N_ELEMENTS (operands); k++)
    {
      OpTest test;
      begin_qlinear (&test, operands[k], right[k]);
      OP_RUN (&test, "QLinearMatMul", 1);
      op_test_end (&test);
    }
  /* a scale of zero for the result: 0 / 0 gives the zero point, all else the nearest end */
  OpTest test;
  op_test_begin (&test);
  OP_IN (&test, UINT8, OP_DIMS (2, 1), 0, 3);
  OP_IN (&test, FLOAT32, OP_DIMS (), 1);
  OP_IN (&test, UINT8, OP_DIMS (), 0);
  OP_IN (&test, UINT8, OP_DIMS (1, 1), 5);
  OP_IN (&test, FLOAT32, OP_DIMS (), 1);
  OP_IN (&test, UINT8, OP_DIMS (), 0);
  OP_IN (&test, FLOAT32, OP_DIMS (), 0);
  OP_IN (&test, UINT8, OP_DIMS (), 9);
  OP_RUN (&test, "QLinearMatMul", 1);
  OP_OUT (&test, 0, OP_DIMS (2, 1), 9, 255);
  op_test_end (&test);

  for (guint w = 0; w < 2; w++)
    {
      const gint64 n = w == 0 ? 0 : 2;
      static const char *const names[] = { "QuantizeLinear", "DequantizeLinear" };
      for (guint k = 0; k < 2; k++)
        {
          op_test_begin (&test);
          if (k == 0)
            op_test_tensor (&test, noise (F32, OP_DIMS (2, 3), 1));
          else
            OP_IN (&test, UINT8, OP_DIMS (2, 3), 1, 2, 3, 4, 5, 6);
          op_test_tensor (&test, noise (F32, 1, &n, 2));
          expect_refused (&test, names[k], 1, " and channels (3) differ");
        }
    }
}

/* ---- Cost ---- */

/* A large attribute costs nothing where there are few elements. */
static void
test_large_attributes (void)
{
  static const gint64 orders[] = { 3, 1001, G_MAXINT32 - 1, G_MAXINT32 };
  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    for (guint k = 0; k < 2; k++)
      {
        OpTest test;
        op_test_begin (&test);
        ortrain_attributes_set_int (test.attributes, "p", orders[i]);
        if (k == 0)
          ortrain_attributes_set_ints (test.attributes, "kernel_shape", (const gint64[]){ 4 }, 1);
        OP_IN (&test, FLOAT64, OP_DIMS (1, 1, 4), 0.5, 1, -1, 0);
        OP_RUN (&test, k == 0 ? "LpPool" : "GlobalLpPool", 1);
        const double sum = 2 + pow (0.5, (double) orders[i]), p = (double) orders[i];
        OP_OUT (&test, 0, OP_DIMS (1, 1, 1), pow (sum, 1 / p));
        op_test_gradient (&test, orders[i] < 100 ? 1 : 0, 0);
        op_test_end (&test);
      }

  static const char *const pools[] = { "MaxPool", "AveragePool", "LpPool" };
  for (guint k = 0; k < G_N_ELEMENTS (pools); k++)
    {
      OpTest test;
      op_test_begin (&test);
      ortrain_attributes_set_ints (test.attributes, "kernel_shape", (const gint64[]){ G_MAXINT32 }, 1);
      ortrain_attributes_set_ints (test.attributes, "pads", (const gint64[]){ G_MAXINT32, 0 }, 2);
      OP_IN (&test, FLOAT32, OP_DIMS (1, 1, 2), 3, 4);
      OP_RUN (&test, pools[k], 1);
      if (k == 0)
        OP_OUT (&test, 0, OP_DIMS (1, 1, 3), -INFINITY, 3, 4);
      else if (k == 1)
        OP_OUT (&test, 0, OP_DIMS (1, 1, 3), 0, 3, 3.5);
      else
        OP_OUT (&test, 0, OP_DIMS (1, 1, 3), 0, 3, 5);
      op_test_end (&test);

      op_test_begin (&test);
      ortrain_attributes_set_ints (test.attributes, "kernel_shape", (const gint64[]){ 3 }, 1);
      ortrain_attributes_set_ints (test.attributes, "dilations", (const gint64[]){ G_MAXINT32 / 2 }, 1);
      ortrain_attributes_set_ints (test.attributes, "pads", (const gint64[]){ G_MAXINT32 / 2, G_MAXINT32 / 2 }, 2);
      OP_IN (&test, FLOAT32, OP_DIMS (1, 1, 2), 3, 4);
      OP_RUN (&test, pools[k], 1);
      OP_OUT (&test, 0, OP_DIMS (1, 1, 2), 3, 4);
      op_test_end (&test);
    }

  OpTest test;
  op_test_begin (&test);
  ortrain_attributes_set_int (test.attributes, "size", G_MAXINT32);
  ortrain_attributes_set_float (test.attributes, "alpha", 1e18);
  OP_IN (&test, FLOAT64, OP_DIMS (1, 2, 1), 1, 2);
  OP_RUN (&test, "LRN", 1);
  const double s = pow (1 + 1e18 / (double) G_MAXINT32 * 5, -0.75);
  OP_OUT (&test, 0, OP_DIMS (1, 2, 1), s, 2 * s);
  op_test_end (&test);

  op_test_begin (&test);
  ortrain_attributes_set_int (test.attributes, "sample_size", -1);
  op_test_tensor (&test, noise (F32, OP_DIMS (2, 3), 1));
  expect_refused (&test, "Multinomial", 1, "'sample_size' is -1");
  op_test_begin (&test);
  ortrain_attributes_set_int (test.attributes, "dtype", ((gint64) 1 << 32) + 1);
  op_test_tensor (&test, noise (F32, OP_DIMS (2, 3), 1));
  expect_refused (&test, "RandomNormalLike", 1, "4294967297");
}

/* ---- Numbers at the edges ---- */

/* Sines of large angles, each next to small ones. */
static void
test_large_angles (void)
{
  static const double angles[] = { 1,      -3,      1e5,    999999,  1000001, 1e7,       -1e9, 1e15,     3.7e17,
                                   -1e22,  1e30,    3e38,   1e-40,   22,      710,       1e-3, 16367173, -4.2e6,
                                   355000, 1048576, 710000, -0.0001, 262144,  104348.25, 1e6,  5e8,      INFINITY };
  static const char *const names[] = { "Sin", "Cos", "Tan" };
  const gint64 n = G_N_ELEMENTS (angles);
  for (guint k = 0; k < 3; k++)
    for (guint wide = 0; wide < 2; wide++)
      {
        OpTest test;
        op_test_begin (&test);
        OrtrainTensor *x = op_test_make (wide ? ORTRAIN_DTYPE_FLOAT64 : F32, 1, &n, angles);
        op_test_tensor (&test, x);
        OP_RUN (&test, names[k], 1);
        OrtrainTensor *y = ortrain_node_output (test.node, 0)->tensor;
        for (gint64 i = 0; i < n; i++)
          {
            double angle = ortrain_tensor_get_scalar (test.inputs[0]->tensor, i),
                   found = ortrain_tensor_get_scalar (y, i);
            double expected = k == 0 ? sin (angle) : k == 1 ? cos (angle) : tan (angle);
            if (isnan (expected) ? !isnan (found)
                                 : fabs (found - expected) > (wide ? 1e-15 : 2.4e-7) * MAX (fabs (expected), 1e-30))
              g_error ("%s of %.9g is %.9g, %.9g is expected", names[k], angle, found, expected);
          }
        op_test_end (&test);
      }
}

/* Cubic samples near the border, as PyTorch has them in float64. */
static void
test_cubic_grid (void)
{
  static const char *const paddings[] = { "border", "reflection" };
  static const double expected[2][2][3] = {
    { { 7.838688, 0.856, 5.653476 }, { 7.924268859375, 0.86274925, 5.768180189453125 } },
    { { 7.97088, 0.765775, 5.88738 }, { 7.393767375, 1.343198, 5.412596078125 } },
  };
  for (guint k = 0; k < 2; k++)
    for (guint align = 0; align < 2; align++)
      {
        OpTest test;
        op_test_begin (&test);
        ortrain_attributes_set_string (test.attributes, "mode", "cubic");
        ortrain_attributes_set_string (test.attributes, "padding_mode", paddings[k]);
        ortrain_attributes_set_int (test.attributes, "align_corners", align);
        OP_IN (&test, FLOAT64, OP_DIMS (1, 1, 2, 4), 1, 2, 4, 7, 3, 5, 6, 8);
        OP_IN (&test, FLOAT64, OP_DIMS (1, 1, 3, 2), 1.2, 0.3, -1.4, -1.1, 0.1, 1.3);
        OP_RUN (&test, "GridSample", 1);
        op_test_expect (&test, 0, OP_DIMS (1, 1, 1, 3), expected[k][align], 1e-9);
        op_test_gradient (&test, 3, 0);
        op_test_end (&test);
      }
}

/* Floats outside of uint64 become the result of the machine's conversion. */
static void
test_large_casts (void)
{
  static const double large[] = { 0x1p63, 0x1.8p63, 0x1p64, 1e30, INFINITY };
  const guint64 expected[] = { (guint64) 1 << 63, (guint64) 3 << 62, 0, 0, 0 };
  const gint64 n = G_N_ELEMENTS (large);
  for (guint wide = 0; wide < 2; wide++)
    {
      OpTest test;
      op_test_begin (&test);
      ortrain_attributes_set_int (test.attributes, "to", ORTRAIN_DTYPE_UINT64);
      op_test_tensor (&test, op_test_make (wide ? ORTRAIN_DTYPE_FLOAT64 : F32, 1, &n, large));
      OP_RUN (&test, "Cast", 1);
      const guint64 *y = ortrain_tensor_peek (ortrain_node_output (test.node, 0)->tensor);
      for (gint64 i = 0; i < n; i++)
        g_assert_cmpuint (y[i], ==, expected[i]);
      op_test_end (&test);
    }
}

/* With ceil_mode, a window may reach over the end of the input. */
static void
test_ceil_window (void)
{
  static const char *const names[] = { "MaxPool", "AveragePool" };
  for (guint k = 0; k < 2; k++)
    {
      OpTest test;
      op_test_begin (&test);
      ortrain_attributes_set_int (test.attributes, "ceil_mode", 1);
      ortrain_attributes_set_ints (test.attributes, "kernel_shape", (const gint64[]){ 3 }, 1);
      ortrain_attributes_set_ints (test.attributes, "dilations", (const gint64[]){ 2 }, 1);
      ortrain_attributes_set_ints (test.attributes, "strides", (const gint64[]){ 3 }, 1);
      OP_IN (&test, FLOAT64, OP_DIMS (1, 1, 4), 1, 9, 4, 8);
      OP_RUN (&test, names[k], 1);
      OP_OUT (&test, 0, OP_DIMS (1, 1, 1), k == 0 ? 4 : 2.5);
      op_test_gradient (&test, 1, 0);
      op_test_end (&test);
    }
}

/* Sums of integers wrap around. */
static void
test_integer_scatter (void)
{
  OpTest test;
  op_test_begin (&test);
  OP_IN (&test, INT32, OP_DIMS (2), 2147483647, 5);
  OP_INTS (&test, 0, -1);
  OP_IN (&test, INT32, OP_DIMS (2), 1, 2);
  ortrain_attributes_set_string (test.attributes, "reduction", "add");
  OP_RUN (&test, "ScatterElements", 1);
  OP_OUT (&test, 0, OP_DIMS (2), -2147483648.0, 7);
  op_test_end (&test);
}

/* ---- Indices that are computed at run time ---- */

typedef struct
{
  const char *op_type;
  guint n_inputs;
  OrtrainDType dtype; /* of input 0 */
  guint ranks[4];
  gint64 dims[4][3];
  guint index; /* the operand with integers */
  gint64 good, wrong[2];
} IndexCase;

/* Both index types, values past both ends: a fault that names the node and the value. */
static void
test_indices (void)
{
  static const IndexCase cases[] = {
    { "Gather", 2, F32, { 2, 1 }, { { 3, 2 }, { 2 } }, 1, 2, { 3, -4 } },
    { "GatherElements", 2, F32, { 2, 2 }, { { 3, 2 }, { 2, 2 } }, 1, 2, { 3, -4 } },
    { "GatherND", 2, F32, { 2, 2 }, { { 3, 3 }, { 1, 2 } }, 1, 2, { 3, -4 } },
    { "ScatterElements", 3, F32, { 2, 2, 2 }, { { 3, 2 }, { 2, 2 }, { 2, 2 } }, 1, 2, { 3, -4 } },
    { "ScatterND", 3, F32, { 2, 2, 2 }, { { 3, 2 }, { 1, 1 }, { 1, 2 } }, 1, 2, { 3, -4 } },
    { "NegativeLogLikelihoodLoss", 2, F32, { 2, 1 }, { { 2, 3 }, { 2 } }, 1, 2, { 3, -1 } },
    { "CumSum", 2, F32, { 2, 0 }, { { 2, 3 } }, 1, 1, { 2, -3 } },
    { "ReverseSequence", 2, F32, { 2, 1 }, { { 3, 2 }, { 2 } }, 1, 3, { 4, -1 } },
  };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    for (guint narrow = 0; narrow < 2; narrow++)
      for (guint attempt = 0; attempt < 4; attempt++)
        {
          const IndexCase *test = &cases[c];
          gint64 value = attempt == 0   ? test->good
                         : attempt == 3 ? (narrow ? G_MININT32 : G_MININT64)
                                        : test->wrong[attempt - 1];
          if (narrow && g_str_equal (test->op_type, "ReverseSequence"))
            continue; /* int64 only */
          g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
          g_autoptr (GError) error = NULL;
          OrtrainTensor *tensors[4] = { NULL }, *outputs[2] = { NULL };
          OrtrainValue *inputs[4];
          for (guint i = 0; i < test->n_inputs; i++)
            {
              OrtrainDType dtype = i != test->index ? test->dtype : narrow ? ORTRAIN_DTYPE_INT32 : ORTRAIN_DTYPE_INT64;
              tensors[i] = i != test->index ? noise (dtype, test->ranks[i], test->dims[i], i)
                                            : ortrain_tensor_new (dtype, test->dims[i], test->ranks[i], &error);
              for (gint64 e = 0; i == test->index && e < ortrain_tensor_get_n_elements (tensors[i]); e++)
                if (narrow)
                  ((gint32 *) ortrain_tensor_peek_writable (tensors[i]))[e] = (gint32) value;
                else
                  ((gint64 *) ortrain_tensor_peek_writable (tensors[i]))[e] = value;
              OrtrainDim dims[3];
              for (guint d = 0; d < test->ranks[i]; d++)
                dims[d] = ortrain_dim_int (test->dims[i][d]);
              g_autofree char *name = g_strdup_printf ("x%u", i);
              inputs[i] = ortrain_graph_new_input (graph, name, dtype, dims, (gint) test->ranks[i]);
            }
          OrtrainNode *node = ortrain_graph_new_node (graph, "", test->op_type, "here", inputs, test->n_inputs, 1);
          if (!ortrain_ops_infer_node (node, &error))
            g_error ("%s", error->message);
          gboolean ok = ortrain_evaluate_node (node, tensors, outputs, NULL, &error);
          if (ok != (attempt == 0))
            g_error ("%s with %" G_GINT64_FORMAT ": %s", test->op_type, value, ok ? "no error" : error->message);
          if (!ok)
            {
              g_autofree char *text = g_strdup_printf ("index %" G_GINT64_FORMAT " at ", value);
              g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
              g_assert_nonnull (strstr (error->message, "'here'"));
              if (strstr (error->message, text) == NULL)
                g_error ("%s: %s", text, error->message);
            }
          g_clear_object (&outputs[0]);
          for (guint i = 0; i < test->n_inputs; i++)
            g_clear_object (&tensors[i]);
        }
}

/* Lengths of sequences, in both types. */
static void
test_sequence_lengths (void)
{
  for (guint narrow = 0; narrow < 2; narrow++)
    for (guint attempt = 0; attempt < 3; attempt++)
      {
        static const double lengths[][2] = { { 1, 2 }, { 1, 3 }, { -1, 2 } };
        OpTest test;
        g_autoptr (GError) error = NULL;
        op_test_begin (&test);
        op_test_tensor (&test, noise (F32, OP_DIMS (2, 2, 3), 1));
        op_test_tensor (&test, noise (F32, OP_DIMS (1, 2, 3), 2));
        op_test_tensor (&test, noise (F32, OP_DIMS (1, 2, 2), 3));
        OP_ABSENT (&test);
        op_test_tensor (&test, op_test_make (narrow ? ORTRAIN_DTYPE_INT32 : ORTRAIN_DTYPE_INT64, 1,
                                             (const gint64[]){ 2 }, lengths[attempt]));
        g_assert_true (op_test_node (&test, "", "RNN", 2, 23, &error));
        g_assert_cmpint (op_test_run (&test, &error), ==, attempt == 0);
        if (attempt == 0)
          { /* the first row ends after one step: the later steps are zero */
            OrtrainTensor *y = ortrain_node_output (test.node, 0)->tensor;
            g_assert_cmpfloat (ortrain_tensor_get_scalar (y, 4), ==, 0);
            g_assert_cmpfloat (ortrain_tensor_get_scalar (y, 6), !=, 0);
          }
        else
          g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
        op_test_end (&test);
      }
}

/* ---- Nothing to compute with ---- */

/* Sums over nothing are zero, with a bias the bias; there is nothing in the memory of the result before. */
static void
test_empty_sums (void)
{
  OpTest test;
  op_test_begin (&test);
  OP_IN (&test, FLOAT32, OP_DIMS (2, 0));
  OP_IN (&test, FLOAT32, OP_DIMS (0, 3));
  OP_RUN (&test, "MatMul", 1);
  OP_OUT (&test, 0, OP_DIMS (2, 3), 0, 0, 0, 0, 0, 0);
  op_test_end (&test);

  op_test_begin (&test);
  OP_IN (&test, INT64, OP_DIMS (2, 0));
  OP_IN (&test, INT64, OP_DIMS (0, 2));
  OP_RUN (&test, "MatMul", 1);
  OP_OUT (&test, 0, OP_DIMS (2, 2), 0, 0, 0, 0);
  op_test_end (&test);

  op_test_begin (&test);
  OP_IN (&test, FLOAT16, OP_DIMS (2, 0));
  OP_IN (&test, FLOAT16, OP_DIMS (0, 2));
  OP_IN (&test, FLOAT16, OP_DIMS (2), 1, 2);
  OP_RUN (&test, "Gemm", 1);
  OP_OUT (&test, 0, OP_DIMS (2, 2), 1, 2, 1, 2);
  op_test_end (&test);

  op_test_begin (&test);
  OP_IN (&test, UINT8, OP_DIMS (1, 0));
  OP_IN (&test, INT8, OP_DIMS (0, 2));
  OP_RUN (&test, "MatMulInteger", 1);
  OP_OUT (&test, 0, OP_DIMS (1, 2), 0, 0);
  op_test_end (&test);

  for (guint k = 0; k < 2; k++)
    {
      op_test_begin (&test);
      OP_IN (&test, FLOAT64, OP_DIMS (1, 0, 2, 2));
      if (k == 0)
        OP_IN (&test, FLOAT64, OP_DIMS (2, 0, 2, 2));
      else
        OP_IN (&test, FLOAT64, OP_DIMS (0, 2, 1, 1));
      OP_IN (&test, FLOAT64, OP_DIMS (2), 3, 4);
      OP_RUN (&test, k == 0 ? "Conv" : "ConvTranspose", 1);
      if (k == 0)
        OP_OUT (&test, 0, OP_DIMS (1, 2, 1, 1), 3, 4);
      else
        OP_OUT (&test, 0, OP_DIMS (1, 2, 2, 2), 3, 3, 3, 3, 4, 4, 4, 4);
      op_test_end (&test);
    }

  op_test_begin (&test);
  OP_IN (&test, FLOAT32, OP_DIMS (2, 0));
  OP_INTS (&test, 1);
  OP_RUN (&test, "ReduceSum", 1);
  OP_OUT (&test, 0, OP_DIMS (2, 1), 0, 0);
  op_test_end (&test);

  op_test_begin (&test);
  ortrain_attributes_set_string (test.attributes, "equation", "ij,jk,kl->il");
  OP_IN (&test, FLOAT64, OP_DIMS (1, 0));
  OP_IN (&test, FLOAT64, OP_DIMS (0, 2));
  OP_IN (&test, FLOAT64, OP_DIMS (2, 2), 1, 2, 3, 4);
  OP_RUN (&test, "Einsum", 1);
  OP_OUT (&test, 0, OP_DIMS (1, 2), 0, 0);
  op_test_end (&test);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/operands/types", test_types);
  g_test_add_func ("/operands/bias", test_bias);
  g_test_add_func ("/operands/gemm-c", test_gemm_c);
  g_test_add_func ("/operands/dropout/types", test_dropout_types);
  g_test_add_func ("/operands/dropout/range", test_dropout_range);
  g_test_add_func ("/operands/quantisation", test_quantisation);
  g_test_add_func ("/operands/large-attributes", test_large_attributes);
  g_test_add_func ("/operands/large-angles", test_large_angles);
  g_test_add_func ("/operands/cubic-grid", test_cubic_grid);
  g_test_add_func ("/operands/large-casts", test_large_casts);
  g_test_add_func ("/operands/ceil-window", test_ceil_window);
  g_test_add_func ("/operands/integer-scatter", test_integer_scatter);
  g_test_add_func ("/operands/indices", test_indices);
  g_test_add_func ("/operands/sequence-lengths", test_sequence_lengths);
  g_test_add_func ("/operands/empty-sums", test_empty_sums);
  return g_test_run ();
}
