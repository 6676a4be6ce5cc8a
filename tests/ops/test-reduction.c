/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-integer-log.h"
#include "op-harness.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

/* Reductions against sums written out in double, over every set of axes; gradients against differences. */

typedef struct
{
  const char *name;
  double start;
} Kind;

static const Kind kinds[] = {
  { "ReduceSum", 0 },    { "ReduceMean", 0 },      { "ReduceMax", -INFINITY }, { "ReduceMin", INFINITY },
  { "ReduceProd", 1 },   { "ReduceL1", 0 },        { "ReduceL2", 0 },          { "ReduceSumSquare", 0 },
  { "ReduceLogSum", 0 }, { "ReduceLogSumExp", 0 },
};

static double
step (const char *name, double acc, double x)
{
  if (g_str_equal (name, "ReduceMax"))
    return MAX (acc, x);
  if (g_str_equal (name, "ReduceMin"))
    return MIN (acc, x);
  if (g_str_equal (name, "ReduceProd"))
    return acc * x;
  if (g_str_equal (name, "ReduceL1"))
    return acc + fabs (x);
  if (g_str_equal (name, "ReduceL2") || g_str_equal (name, "ReduceSumSquare"))
    return acc + x * x;
  if (g_str_equal (name, "ReduceLogSumExp"))
    return acc + exp (x);
  return acc + x;
}

static double
finish (const char *name, double acc, double n)
{
  if (g_str_equal (name, "ReduceMean"))
    return acc / n;
  if (g_str_equal (name, "ReduceL2"))
    return sqrt (acc);
  if (g_str_has_prefix (name, "ReduceLog"))
    return log (acc);
  return acc;
}

static OrtrainNode *
add_reduction (OrtrainGraph *graph, GHashTable *contents, const char *name, OrtrainTensor *x, guint mask, guint rank,
               gboolean keep, OrtrainValue **input)
{
  gint64 axes[8], n = 0;
  OrtrainValue *operands[2];
  for (guint d = 0; d < rank; d++)
    if (mask >> d & 1)
      axes[n++] = d % 2 ? (gint64) d - rank : d;
  operands[0] = harness_input (graph, contents, "x", x);
  operands[1] = ortrain_graph_const_ints (graph, axes, (gsize) n);
  OrtrainNode *node = ortrain_graph_new_node (graph, "", name, NULL, operands, 2, 1);
  ortrain_attributes_set_int (node->attributes, "keepdims", keep);
  ortrain_attributes_set_int (node->attributes, "noop_with_empty_axes", 1);
  ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
  graph->opset = 23;
  if (input != NULL)
    *input = operands[0];
  return node;
}

static void
check_forward (const char *name, double start, OrtrainDType dtype, const gint64 *dims, guint rank, guint mask,
               gboolean keep)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  gint64 n = 1, n_out = 1, stride[8], out_stride[8];
  for (guint d = rank; d-- > 0;)
    {
      stride[d] = n;
      out_stride[d] = n_out;
      n *= dims[d];
      if (!(mask >> d & 1))
        n_out *= dims[d];
    }
  g_autofree double *values = g_new0 (double, (gsize) n + 1), *expected = g_new0 (double, (gsize) n_out + 1);
  harness_fill (values, n, 5);
  if (g_str_equal (name, "ReduceLogSum") || g_str_equal (name, "ReduceProd"))
    for (gint64 i = 0; i < n; i++)
      values[i] = 1 + 0.1 * values[i];
  g_autoptr (OrtrainTensor) x = harness_tensor (dtype, values, dims, rank);
  for (gint64 i = 0; i < n_out; i++)
    expected[i] = start;
  for (gint64 i = 0; i < n; i++)
    {
      gint64 to = 0;
      for (guint d = 0; d < rank; d++)
        if (!(mask >> d & 1))
          to += i / stride[d] % dims[d] * out_stride[d];
      expected[to] = step (name, expected[to], ortrain_tensor_get_scalar (x, i));
    }
  OrtrainNode *node = add_reduction (graph, contents, name, x, mask, rank, keep, NULL);
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  OrtrainTensor *y = g_hash_table_lookup (contents, ortrain_node_output (node, 0));
  g_assert_cmpint (ortrain_tensor_get_n_elements (y), ==, n_out);
  g_assert_cmpint (ortrain_tensor_get_rank (y), ==, keep ? rank : rank - (guint) __builtin_popcount (mask));
  double tolerance = dtype == ORTRAIN_DTYPE_FLOAT64 ? 1e-12 : dtype == ORTRAIN_DTYPE_FLOAT32 ? 2e-6 : 2e-2;
  for (gint64 i = 0; i < n_out; i++)
    {
      double want =
          mask == 0 ? ortrain_tensor_get_scalar (x, i) : finish (name, expected[i], (double) (n / MAX (1, n_out)));
      double got = ortrain_tensor_get_scalar (y, i);
      if (mask == 0 && (g_str_equal (name, "ReduceL1") || g_str_equal (name, "ReduceL2")))
        want = fabs (want);
      if (mask == 0 && g_str_equal (name, "ReduceSumSquare"))
        want = want * want;
      if (mask == 0 && g_str_equal (name, "ReduceLogSum"))
        want = log (want);
      if (!(fabs (got - want) <= tolerance * MAX (1, fabs (want))) && !(isnan (got) && isnan (want)) && got != want)
        g_error ("%s mask %u: %.12g at %" G_GINT64_FORMAT ", expected %.12g", name, mask, got, i, want);
    }
}

static void
test_forward (void)
{
  const gint64 small[] = { 3, 4, 1, 5 }, long_rows[] = { 2, 40000 }, long_columns[] = { 30000, 7 },
               wide[] = { 3, 700, 2 };
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      for (guint mask = 0; mask < 16; mask++)
        for (gint keep = 0; keep < 2; keep++)
          {
            check_forward (kinds[k].name, kinds[k].start, ORTRAIN_DTYPE_FLOAT32, small, 4, mask, keep);
            check_forward (kinds[k].name, kinds[k].start, ORTRAIN_DTYPE_FLOAT64, small, 4, mask, keep);
          }
      check_forward (kinds[k].name, kinds[k].start, ORTRAIN_DTYPE_FLOAT16, small, 4, 9, TRUE);
      if (g_str_equal (kinds[k].name, "ReduceProd"))
        continue;
      for (guint mask = 1; mask < 4; mask++)
        {
          check_forward (kinds[k].name, kinds[k].start, ORTRAIN_DTYPE_FLOAT32, long_rows, 2, mask, TRUE);
          check_forward (kinds[k].name, kinds[k].start, ORTRAIN_DTYPE_FLOAT32, long_columns, 2, mask, FALSE);
          check_forward (kinds[k].name, kinds[k].start, ORTRAIN_DTYPE_FLOAT32, wide, 3, mask, TRUE);
        }
    }
}

/* Sums of long columns of one sign: a plain running sum in single precision would lose three digits here. */
static void
test_precision (void)
{
  const gint64 n = 3000000;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_FLOAT32, &n, 1, &error);
  float *values = ortrain_tensor_peek_writable (x);
  double sum = 0;
  for (gint64 i = 0; i < n; i++)
    sum += values[i] = 0.1f + 1e-6f * (float) (i % 1000);
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  OrtrainNode *node = add_reduction (graph, contents, "ReduceSum", x, 1, 1, FALSE, NULL);
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error);
  g_assert_true (ok);
  harness_run (graph, contents, NULL);
  double got = harness_scalar (contents, ortrain_node_output (node, 0));
  g_assert_cmpfloat (fabs (got - sum), <=, 1e-7 * sum);
}

static void
test_gradients (void)
{
  const gint64 dims[] = { 2, 3, 4 };
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    for (guint mask = 0; mask < 8; mask += 3)
      for (gint keep = 0; keep < 2; keep++)
        {
          g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
          g_autoptr (GHashTable) contents = harness_contents ();
          double values[24];
          OrtrainValue *input;
          for (int i = 0; i < 24; i++) /* well apart, so that no difference changes the extreme */
            values[i] = (i * 7 % 24 - 11.5) / 12 + (g_str_equal (kinds[k].name, "ReduceLogSum") ? 1.5 : 0);
          g_autoptr (OrtrainTensor) x = harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, dims, 3);
          OrtrainNode *node = add_reduction (graph, contents, kinds[k].name, x, mask, 3, keep, &input);
          g_assert_cmpint (harness_check_gradient (graph, contents, node, &input, 1, 1, 1e-7), ==, 24);
        }
}

/* A product with no, one and two zeros, which quotients alone get wrong. */
static void
test_product_with_zeros (void)
{
  const gint64 dims[] = { 3, 4 };
  double values[] = { 1, 2, 3, 4, 0, 5, 6, 7, 0, 2, 0, 3 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  OrtrainValue *input;
  g_autoptr (OrtrainTensor) x = harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, dims, 2);
  OrtrainNode *node = add_reduction (graph, contents, "ReduceProd", x, 2, 2, FALSE, &input);
  harness_check_gradient (graph, contents, node, &input, 1, 1, 1e-7);
}

static void
test_cum_sum (void)
{
  const gint64 dims[] = { 2, 3, 4 };
  for (gint64 axis = -1; axis < 2; axis++)
    for (int mode = 0; mode < 4; mode++)
      {
        g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
        g_autoptr (GHashTable) contents = harness_contents ();
        double values[24];
        harness_fill (values, 24, 3);
        g_autoptr (OrtrainTensor) x = harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, dims, 3);
        OrtrainValue *operands[] = { harness_input (graph, contents, "x", x), ortrain_graph_const_int (graph, axis) };
        OrtrainNode *node = ortrain_graph_new_node (graph, "", "CumSum", NULL, operands, 2, 1);
        ortrain_attributes_set_int (node->attributes, "exclusive", mode & 1);
        ortrain_attributes_set_int (node->attributes, "reverse", mode >> 1);
        ortrain_graph_mark_output (graph, ortrain_node_output (node, 0), TRUE);
        graph->opset = 23;
        g_assert_cmpint (harness_check_gradient (graph, contents, node, operands, 1, 1, 1e-7), ==, 24);
      }
}

/* CumProdGrad on one line of doubles. */
static void
run_cum_prod_gradient (const double *dy, const double *x, double *dx, gint64 n, int mode)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProvider *provider = ortrain_provider_get_host ();
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "exclusive", mode & 1);
  ortrain_attributes_set_int (attributes, "reverse", mode >> 1);
  const gint64 axis = 0;
  const OrtrainOperand line = {
    .dtype = ORTRAIN_DTYPE_FLOAT64, .rank = 1, .dims = &n, .n_elements = n, .n_bytes = (gsize) n * sizeof (double)
  };
  OrtrainOperand in[] = { line, { .dtype = ORTRAIN_DTYPE_INT64, .n_elements = 1, .n_bytes = sizeof axis }, line },
                 out = line;
  const OrtrainKernel *kernel = ortrain_provider_find (provider, "org.ortrain", "CumProdGrad", in, 3, &out, 1, NULL);
  OrtrainKernelSetup setup = { .op_type = "CumProdGrad",
                               .domain = "org.ortrain",
                               .attributes = attributes,
                               .inputs = in,
                               .outputs = &out,
                               .n_inputs = 3,
                               .n_outputs = 1,
                               .provider = provider };
  g_assert_true (kernel->prepare (&setup, &error));
  g_autofree guint8 *workspace = g_malloc0 (setup.workspace_bytes + 64);
  OrtrainHostContext context;
  init_context (&context, NULL);
  const void *inputs[] = { dy, &axis, x };
  void *outputs[] = { dx };
  OrtrainKernelCall call = {
    .inputs = inputs, .outputs = outputs, .constants = setup.constants, .context = &context.context
  };
  call.workspace = (void *) (((gsize) workspace + 63) & ~(gsize) 63);
  kernel->run (&call);
  setup.constants_free (setup.constants);
}

/* The gradient as it is defined, without quotients. */
static double
cum_prod_gradient_of (const double *dy, const double *x, gint64 n, gint64 e, int mode)
{
  const gboolean exclusive = mode & 1, reverse = mode >> 1;
  double sum = 0;
  for (gint64 k = 0; k < n; k++)
    {
      double product = 1;
      gboolean has = FALSE;
      for (gint64 i = 0; i < n; i++)
        if (reverse ? i > k || (i == k && !exclusive) : i < k || (i == k && !exclusive))
          {
            has = has || i == e;
            product *= i == e ? 1 : x[i];
          }
      sum += has ? dy[k] * product : 0;
    }
  return sum;
}

static void
test_cum_prod_gradient (void)
{
  const double lines[][8] = {
    { 1, 2, -3, 4, 0.5, 6, 7, 8 },
    { 0, 2, 3, 4, 5, 6, 7, 8 },
    { 1, 2, 3, 0, 5, 6, 7, 8 },
    { 1, 2, 3, 4, 5, 6, 7, 0 },
    { 1, 0, 3, 4, 0, 6, 7, 8 },
    { 0, 0, 0, 0, 0, 0, 0, 0 },
    { 0, 0, 1e200, 1e200, 1e200, 2, 3, 4 },
    { 2, 3, 1e200, 1e200, 0, 0, 3, 4 },
    { 1, 1, 1, 1, 1, 1, 1, 1 },
  };
  const double dy[] = { 1, -2, 0.25, 3, -1, 2, 0.5, 1 };
  double dx[8];
  for (guint l = 0; l < G_N_ELEMENTS (lines); l++)
    for (int mode = 0; mode < 4; mode++)
      {
        run_cum_prod_gradient (dy, lines[l], dx, 8, mode);
        for (gint64 e = 0; e < 8; e++)
          {
            const double expected = cum_prod_gradient_of (dy, lines[l], 8, e, mode);
            if (isfinite (expected) && !(fabs (dx[e] - expected) <= 1e-13 * fabs (expected)))
              g_error ("line %u, mode %d, element %d: %g, not %g", l, mode, (int) e, dx[e], expected);
          }
      }
  /* a NaN is no zero's to hide */
  const double bad[] = { 1, -2, 0.25, 3, NAN, 2, 0.5, 1 };
  run_cum_prod_gradient (bad, lines[2], dx, 8, 0);
  g_assert_true (isnan (dx[0]) && isnan (dx[4]) && dx[5] == 0);
}

/* Linear in the length: with a million elements, a sum for each would take minutes. */
static void
test_long_cum_prod_gradient (void)
{
  const gint64 n = 1000 * 1000;
  g_autofree double *x = g_new (double, n), *dy = g_new (double, n), *dx = g_new (double, n);
  for (gint64 i = 0; i < n; i++)
    {
      x[i] = i % 2 ? -1 : 1;
      dy[i] = 1;
    }
  run_cum_prod_gradient (dy, x, dx, n, 0);
  /* y = 1, -1, -1, 1, 1, -1, …: the sum from e on, divided by x[e], which is 1 or -1 */
  double sum = 0;
  for (gint64 e = n - 1; e >= 0; e--)
    {
      sum += e % 4 == 0 || e % 4 == 3 ? 1 : -1;
      g_assert_cmpfloat (dx[e], ==, sum * x[e]);
    }
}

/* Results that are no integer: the ends of the range, without a conversion that C does not define. */
static void
test_integer_log (void)
{
  g_assert_cmpint (ortrain_integer_log (8), ==, 2);
  g_assert_cmpint (ortrain_integer_log (1e300), ==, 690);
  g_assert_cmpint (ortrain_integer_log (INFINITY), ==, G_MAXINT64);
  g_assert_cmpint (ortrain_integer_log (0), ==, G_MININT64);
  g_assert_cmpint (ortrain_integer_log (-INFINITY), ==, G_MININT64);
  g_assert_cmpint (ortrain_integer_log (NAN), ==, G_MININT64);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/reduction/forward", test_forward);
  g_test_add_func ("/ops/reduction/precision", test_precision);
  g_test_add_func ("/ops/reduction/gradients", test_gradients);
  g_test_add_func ("/ops/reduction/product-with-zeros", test_product_with_zeros);
  g_test_add_func ("/ops/reduction/cum-sum", test_cum_sum);
  g_test_add_func ("/ops/reduction/cum-prod-gradient", test_cum_prod_gradient);
  g_test_add_func ("/ops/reduction/long-cum-prod-gradient", test_long_cum_prod_gradient);
  g_test_add_func ("/ops/reduction/integer-log", test_integer_log);
  return g_test_run ();
}
