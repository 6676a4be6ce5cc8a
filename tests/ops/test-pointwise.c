/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host-context.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-host-evaluator-private.h"

#include <math.h>

/* Element-wise operators against libm in double, over broadcasting patterns and types. */

static OrtrainTensor *
evaluate (const char *domain, const char *op_type, OrtrainAttributes *attributes, OrtrainTensor *const *inputs,
          guint n_inputs)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  g_autoptr (GError) error = NULL;
  OrtrainValue *values[4];
  OrtrainTensor *output = NULL;
  graph->opset = 23;
  for (guint i = 0; i < n_inputs; i++)
    {
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      gsize rank = ortrain_tensor_get_rank (inputs[i]);
      for (gsize d = 0; d < rank; d++)
        dims[d] = ortrain_dim_int (ortrain_tensor_get_dim (inputs[i], d));
      values[i] = ortrain_graph_new_input (graph, NULL, ortrain_tensor_get_dtype (inputs[i]), dims, (gint) rank);
    }
  OrtrainNode *node = ortrain_graph_new_node (graph, domain, op_type, "n", values, n_inputs, 1);
  if (attributes != NULL)
    {
      ortrain_attributes_free (node->attributes);
      node->attributes = attributes;
    }
  g_assert_true (ortrain_ops_infer_node (node, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_evaluate_node (node, inputs, &output, NULL, &error));
  g_assert_no_error (error);
  return output;
}

static OrtrainTensor *
make (OrtrainDType dtype, const gint64 *dims, gsize rank)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  return tensor;
}

static void
fill (OrtrainTensor *tensor, GRand *rand, double low, double high)
{
  gint64 n = ortrain_tensor_get_n_elements (tensor);
  void *data = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < n; i++)
    {
      double v = g_rand_double_range (rand, low, high);
      switch ((int) ortrain_tensor_get_dtype (tensor))
        {
        case ORTRAIN_DTYPE_FLOAT32:
          ((float *) data)[i] = (float) v;
          break;
        case ORTRAIN_DTYPE_FLOAT64:
          ((double *) data)[i] = v;
          break;
        case ORTRAIN_DTYPE_INT64:
          ((gint64 *) data)[i] = (gint64) floor (v);
          break;
        case ORTRAIN_DTYPE_INT32:
          ((gint32 *) data)[i] = (gint32) floor (v);
          break;
        case ORTRAIN_DTYPE_UINT8:
          ((guint8 *) data)[i] = (guint8) (gint64) floor (v);
          break;
        case ORTRAIN_DTYPE_BOOL:
          ((guint8 *) data)[i] = v > 0;
          break;
        default:
          g_assert_not_reached ();
        }
    }
}

/* ---- One operand ---- */

static double
sigmoid (double x)
{
  return 1 / (1 + exp (-x));
}
static double
relu (double x)
{
  return x > 0 ? x : 0;
}
static double
softplus (double x)
{
  return log1p (exp (x));
}
static double
gelu (double x)
{
  return 0.5 * x * (1 + erf (x * M_SQRT1_2));
}
static double
mish (double x)
{
  return x * tanh (log1p (exp (x)));
}
static double
elu (double x)
{
  return x > 0 ? x : expm1 (x);
}
static double
selu (double x)
{
  return 1.05070102214813232421875 * (x > 0 ? x : 1.67326319217681884765625 * expm1 (x));
}
static double
hard_swish (double x)
{
  return x * fmax (0, fmin (1, x / 6 + 0.5));
}
static double
hard_sigmoid (double x)
{
  return fmax (0, fmin (1, 0.2f * x + 0.5));
}
static double
leaky (double x)
{
  return x < 0 ? 0.01f * x : x;
}
static double
softsign (double x)
{
  return x / (1 + fabs (x));
}
static double
shrink (double x)
{
  return x < -0.5 ? x : x > 0.5 ? x : 0;
}
static double
thresholded (double x)
{
  return x > 1 ? x : 0;
}
static double
neg (double x)
{
  return -x;
}
static double
reciprocal (double x)
{
  return 1 / x;
}
static double
sign (double x)
{
  return (x > 0) - (x < 0);
}

static const struct
{
  const char *op_type;
  double (*function) (double);
  double low, high, tolerance; /* of float32, relative to max (|expected|, 1e-3 or the like) */
} unary[] = {
  { "Exp", exp, -110, 92, 3e-7 },
  { "Exp", exp, -1, 1, 2e-7 },
  { "Log", log, 1e-30, 1e30, 2e-7 },
  { "Log", log, 0.5, 2, 3e-7 },
  { "Tanh", tanh, -12, 12, 3e-7 },
  { "Tanh", tanh, -0.7, 0.7, 3e-7 },
  { "Erf", erf, -5, 5, 4e-7 },
  { "Erf", erf, -0.01, 0.01, 3e-7 },
  { "Sigmoid", sigmoid, -60, 60, 3e-7 },
  { "Sin", sin, -1000, 1000, 3e-7 },
  { "Cos", cos, -1000, 1000, 3e-7 },
  { "Sin", sin, -2, 2, 3e-7 },
  { "Sqrt", sqrt, 0, 100, 1e-7 },
  { "Tan", tan, -1.5, 1.5, 3e-7 },
  { "Asin", asin, -1, 1, 3e-7 },
  { "Acos", acos, -1, 1, 3e-7 },
  { "Atan", atan, -10, 10, 3e-7 },
  { "Sinh", sinh, -10, 10, 4e-7 },
  { "Cosh", cosh, -10, 10, 4e-7 },
  { "Asinh", asinh, -10, 10, 4e-7 },
  { "Acosh", acosh, 1.01, 10, 4e-7 },
  { "Atanh", atanh, -0.99, 0.99, 4e-7 },
  { "Floor", floor, -10, 10, 0 },
  { "Ceil", ceil, -10, 10, 0 },
  { "Round", rint, -10, 10, 0 },
  { "Abs", fabs, -10, 10, 0 },
  { "Neg", neg, -10, 10, 0 },
  { "Sign", sign, -10, 10, 0 },
  { "Reciprocal", reciprocal, 1, 9, 1e-7 },
  { "Relu", relu, -3, 3, 0 },
  { "Softplus", softplus, -20, 60, 4e-7 },
  { "Gelu", gelu, -2, 6, 5e-6 },
  { "Mish", mish, -5, 30, 2e-6 },
  { "Elu", elu, -10, 3, 5e-7 },
  { "Elu", elu, -0.1, 0.1, 5e-7 },
  { "Selu", selu, -10, 3, 5e-7 },
  { "HardSwish", hard_swish, -5, 5, 1e-5 },
  { "HardSigmoid", hard_sigmoid, -5, 5, 1e-5 },
  { "LeakyRelu", leaky, -5, 5, 1e-7 },
  { "Softsign", softsign, -5, 5, 2e-7 },
  { "Shrink", shrink, -2, 2, 0 },
  { "ThresholdedRelu", thresholded, -3, 3, 0 },
  { "Celu", elu, -10, 3, 5e-7 },
};

static void
test_unary (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  static const gint64 dims[1] = { 5003 };
  for (guint c = 0; c < G_N_ELEMENTS (unary); c++)
    {
      double worst = 0, worst64 = 0;
      g_autoptr (OrtrainTensor) x = make (ORTRAIN_DTYPE_FLOAT32, dims, 1);
      g_autoptr (OrtrainTensor) x64 = make (ORTRAIN_DTYPE_FLOAT64, dims, 1);
      fill (x, rand, unary[c].low, unary[c].high);
      const float *px = ortrain_tensor_peek (x);
      double *px64 = ortrain_tensor_peek_writable (x64);
      for (gint64 i = 0; i < dims[0]; i++)
        px64[i] = px[i];
      g_autoptr (OrtrainTensor) y = evaluate ("", unary[c].op_type, NULL, &x, 1);
      g_autoptr (OrtrainTensor) y64 = evaluate ("", unary[c].op_type, NULL, &x64, 1);
      const float *py = ortrain_tensor_peek (y);
      const double *py64 = ortrain_tensor_peek (y64);
      for (gint64 i = 0; i < dims[0]; i++)
        {
          double expected = unary[c].function (px64[i]);
          double scale = fmax (fabs (expected), strcmp (unary[c].op_type, "Exp") == 0 ? 1e-37 : 1e-2);
          if (!isfinite ((float) expected))
            {
              g_assert_true ((float) expected == py[i]);
              continue;
            }
          worst = fmax (worst, fabs (py[i] - expected) / scale);
          worst64 = fmax (worst64, fabs (py64[i] - expected) / scale);
        }
      g_test_message ("%s: %g, in double %g", unary[c].op_type, worst, worst64);
      g_assert_cmpfloat (worst, <=, unary[c].tolerance);
      g_assert_cmpfloat (worst64, <=, 1e-12);
    }
}

static void
test_special (void)
{
  static const float in[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f, -1e-42f, 3e38f, 1.0f };
  static const gint64 dims[1] = { G_N_ELEMENTS (in) };
  static const struct
  {
    const char *op_type;
    double (*function) (double);
  } cases[] = { { "Exp", exp },     { "Log", log }, { "Tanh", tanh },       { "Erf", erf },
                { "Sqrt", sqrt },   { "Sin", sin }, { "Sigmoid", sigmoid }, { "Abs", fabs },
                { "Floor", floor }, { "Cos", cos }, { "Round", rint } };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (dims, 1, in, G_N_ELEMENTS (in), &error);
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (OrtrainTensor) y = evaluate ("", cases[c].op_type, NULL, &x, 1);
      const float *p = ortrain_tensor_peek (y);
      for (guint i = 0; i < G_N_ELEMENTS (in); i++)
        {
          if (i == 7 && (cases[c].function == sin || cases[c].function == cos))
            continue; /* no float tells 3e38 from the next quarter turn */
          float expected = (float) cases[c].function (in[i]);
          if (isnan (expected))
            g_assert_true (isnan (p[i]));
          else if (isinf (expected) || expected == 0)
            g_assert_true (p[i] == expected);
          else
            g_assert_cmpfloat_with_epsilon (p[i], expected, fabsf (expected) * 3e-7f + 2e-45f);
        }
    }
}

/* ---- Two operands ---- */

static double
reference (const char *op, double a, double b)
{
  if (g_str_equal (op, "Add"))
    return a + b;
  if (g_str_equal (op, "Sub"))
    return a - b;
  if (g_str_equal (op, "Mul"))
    return a * b;
  if (g_str_equal (op, "Div"))
    return a / b;
  if (g_str_equal (op, "Max"))
    return fmax (a, b);
  if (g_str_equal (op, "Min"))
    return fmin (a, b);
  if (g_str_equal (op, "Pow"))
    return pow (a, b);
  if (g_str_equal (op, "Less"))
    return a < b;
  if (g_str_equal (op, "GreaterOrEqual"))
    return a >= b;
  if (g_str_equal (op, "Equal"))
    return a == b;
  g_assert_not_reached ();
}

static const struct
{
  gint64 a[4], b[4];
  gsize rank_a, rank_b;
} patterns[] = {
  { { 5000 }, { 5000 }, 1, 1 },
  { { 3, 4, 5 }, { 3, 4, 5 }, 3, 3 },
  { { 3, 4, 5 }, { 0 }, 3, 0 },
  { { 0 }, { 3, 4, 5 }, 0, 3 },
  { { 64, 10 }, { 10 }, 2, 1 }, /* bias over short rows */
  { { 700, 10 }, { 1, 10 }, 2, 2 },
  { { 9, 3000 }, { 3000 }, 2, 1 },           /* bias over long rows */
  { { 2, 5, 30, 30 }, { 5, 1, 1 }, 4, 3 },   /* channels, long */
  { { 2, 300, 3, 3 }, { 300, 1, 1 }, 4, 3 }, /* channels, short */
  { { 4, 1, 6 }, { 1, 5, 1 }, 3, 3 },        /* both */
  { { 7, 1 }, { 1, 2100 }, 2, 2 },
  { { 2, 3, 1, 40 }, { 3, 50, 1 }, 4, 3 },
  { { 50, 1 }, { 50, 7 }, 2, 2 },
  { { 1 }, { 1, 1 }, 1, 2 },
  { { 0, 3 }, { 3 }, 2, 1 },
  { { 2, 1, 3, 1 }, { 1, 4, 1, 5 }, 4, 4 },
};

static void
test_binary (void)
{
  static const char *const ops[] = {
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Less", "GreaterOrEqual", "Equal"
  };
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT64 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);
  for (guint p = 0; p < G_N_ELEMENTS (patterns); p++)
    for (guint o = 0; o < G_N_ELEMENTS (ops); o++)
      for (guint t = 0; t < G_N_ELEMENTS (dtypes); t++)
        {
          if (dtypes[t] == ORTRAIN_DTYPE_INT64 && (g_str_equal (ops[o], "Pow") || g_str_equal (ops[o], "Div")))
            continue;
          g_autoptr (OrtrainTensor) a = make (dtypes[t], patterns[p].a, patterns[p].rank_a);
          g_autoptr (OrtrainTensor) b = make (dtypes[t], patterns[p].b, patterns[p].rank_b);
          fill (a, rand, 0.1, 4);
          fill (b, rand, 0.1, 4);
          OrtrainTensor *in[2] = { a, b };
          g_autoptr (OrtrainTensor) y = evaluate ("", ops[o], NULL, in, 2);
          gsize rank = ortrain_tensor_get_rank (y);
          g_assert_cmpuint (rank, ==, MAX (patterns[p].rank_a, patterns[p].rank_b));
          gint64 n = ortrain_tensor_get_n_elements (y);
          for (gint64 i = 0; i < n; i++)
            {
              gint64 rest = i, ia = 0, ib = 0, step_a = 1, step_b = 1;
              for (gsize d = rank; d-- > 0;)
                {
                  gint64 extent = ortrain_tensor_get_dim (y, d), index = rest % extent;
                  rest /= extent;
                  gint64 da = d + patterns[p].rank_a < rank ? 1 : patterns[p].a[d + patterns[p].rank_a - rank];
                  gint64 db = d + patterns[p].rank_b < rank ? 1 : patterns[p].b[d + patterns[p].rank_b - rank];
                  ia += (da > 1 ? index : 0) * step_a;
                  ib += (db > 1 ? index : 0) * step_b;
                  step_a *= da;
                  step_b *= db;
                }
              double expected =
                  reference (ops[o], ortrain_tensor_get_scalar (a, ia), ortrain_tensor_get_scalar (b, ib));
              double got = ortrain_tensor_get_scalar (y, i);
              g_assert_cmpfloat_with_epsilon (
                  got, expected, dtypes[t] == ORTRAIN_DTYPE_FLOAT32 ? fabs (expected) * 2e-7 + 1e-12 : 1e-12);
            }
        }
}

/* ---- Conversions ---- */

static OrtrainTensor *
cast (OrtrainTensor *x, OrtrainDType to)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "to", to);
  return evaluate ("", "Cast", attributes, &x, 1);
}

static void
test_cast (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT8,
                                        ORTRAIN_DTYPE_UINT8,   ORTRAIN_DTYPE_INT16,   ORTRAIN_DTYPE_UINT16,
                                        ORTRAIN_DTYPE_INT32,   ORTRAIN_DTYPE_UINT32,  ORTRAIN_DTYPE_INT64,
                                        ORTRAIN_DTYPE_UINT64,  ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  static const gint64 dims[1] = { 200 };
  double values[200];
  /* whole numbers from 0 to 124 that every type holds, so that any way round gives them back */
  for (guint i = 0; i < 200; i++)
    values[i] = i % 125;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) start =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT64, dims, 1, (guint8 *) values, sizeof values, &error);
  g_assert_no_error (error);
  for (guint a = 0; a < G_N_ELEMENTS (types); a++)
    for (guint b = 0; b < G_N_ELEMENTS (types); b++)
      {
        g_autoptr (OrtrainTensor) first = cast (start, types[a]);
        g_autoptr (OrtrainTensor) second = cast (first, types[b]);
        g_autoptr (OrtrainTensor) back = cast (second, ORTRAIN_DTYPE_FLOAT64);
        g_autoptr (OrtrainTensor) flags = cast (first, ORTRAIN_DTYPE_BOOL);
        const double *got = ortrain_tensor_peek (back);
        for (guint i = 0; i < 200; i++)
          {
            g_assert_cmpfloat (got[i], ==, values[i]);
            g_assert_cmpint (((const guint8 *) ortrain_tensor_peek (flags))[i], ==, values[i] != 0);
          }
      }
}

/* Truncation, signs, and every half-precision number, against the compiler's own conversions. */
static void
test_cast_corners (void)
{
  static const float in[] = { 1.9f, -1.9f, 0.5f, -0.5f, 255.7f, 2147483520.0f };
  static const gint32 expected[] = { 1, -1, 0, 0, 255, 2147483520 };
  static const gint64 dims[1] = { G_N_ELEMENTS (in) };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (dims, 1, in, G_N_ELEMENTS (in), NULL);
  g_autoptr (OrtrainTensor) y = cast (x, ORTRAIN_DTYPE_INT32);
  for (guint i = 0; i < G_N_ELEMENTS (in); i++)
    g_assert_cmpint (((const gint32 *) ortrain_tensor_peek (y))[i], ==, expected[i]);
#ifdef __FLT16_MAX__
  static const gint64 all[1] = { 65536 };
  g_autoptr (OrtrainTensor) halves = make (ORTRAIN_DTYPE_FLOAT16, all, 1);
  guint16 *bits = ortrain_tensor_peek_writable (halves);
  for (guint i = 0; i < 65536; i++)
    bits[i] = (guint16) i;
  g_autoptr (OrtrainTensor) floats = cast (halves, ORTRAIN_DTYPE_FLOAT32);
  g_autoptr (OrtrainTensor) again = cast (floats, ORTRAIN_DTYPE_FLOAT16);
  const float *f = ortrain_tensor_peek (floats);
  for (guint i = 0; i < 65536; i++)
    {
      _Float16 h;
      memcpy (&h, &bits[i], 2);
      if (isnan ((float) h))
        g_assert_true (isnan (f[i]));
      else
        {
          g_assert_cmpfloat (f[i], ==, (float) h);
          g_assert_cmpuint (((const guint16 *) ortrain_tensor_peek (again))[i], ==, bits[i]);
        }
    }
  /* rounding, also of digits that doubles lose on the way */
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  g_autoptr (OrtrainTensor) d = make (ORTRAIN_DTYPE_FLOAT64, all, 1);
  double *pd = ortrain_tensor_peek_writable (d);
  for (guint i = 0; i < 65536; i++)
    pd[i] = i % 3 == 0 ? 1.0 + (i % 1024 + 0.5) / 1024 + (i % 2 ? 1e-12 : -1e-12)
                       : ldexp (g_rand_double_range (rand, -1, 1), g_rand_int_range (rand, -30, 18));
  g_autoptr (OrtrainTensor) rounded = cast (d, ORTRAIN_DTYPE_FLOAT16);
  for (guint i = 0; i < 65536; i++)
    {
      _Float16 h = (_Float16) pd[i];
      guint16 want;
      memcpy (&want, &h, 2);
      g_assert_cmpuint (((const guint16 *) ortrain_tensor_peek (rounded))[i], ==, want);
    }
#endif
}

/* ---- Integers ---- */

static void
test_integers (void)
{
  static const gint64 dims[1] = { 6 };
  static const gint64 a[] = { 7, -7, 7, -7, 6, G_MININT64 }, b[] = { 3, 3, -3, -3, 3, -1 };
  static const gint64 quotients[] = { 2, -2, -2, 2, 2, G_MININT64 };
  static const gint64 floors[] = { 1, 2, -2, -1, 0, 0 }, remainders[] = { 1, -1, 1, -1, 0, 0 };
  OrtrainTensor *in[2] = { ortrain_tensor_new_ints (dims, 1, a, 6, NULL),
                           ortrain_tensor_new_ints (dims, 1, b, 6, NULL) };
  OrtrainAttributes *fmod_attribute = ortrain_attributes_new ();
  ortrain_attributes_set_int (fmod_attribute, "fmod", 1);
  g_autoptr (OrtrainTensor) q = evaluate ("", "Div", NULL, in, 2);
  g_autoptr (OrtrainTensor) m = evaluate ("", "Mod", NULL, in, 2);
  g_autoptr (OrtrainTensor) r = evaluate ("", "Mod", fmod_attribute, in, 2);
  g_assert_cmpmem (ortrain_tensor_peek (q), sizeof quotients, quotients, sizeof quotients);
  g_assert_cmpmem (ortrain_tensor_peek (m), sizeof floors, floors, sizeof floors);
  g_assert_cmpmem (ortrain_tensor_peek (r), sizeof remainders, remainders, sizeof remainders);
  g_object_unref (in[0]);
  g_object_unref (in[1]);
}

/* A divisor of zero is an error with the element's place, not a signal. */
static void
test_division_by_zero (void)
{
  static const gint64 dims[1] = { 3 };
  static const gint64 a[] = { 7, 8, 9 }, b[] = { 3, 0, 1 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_ints (dims, 1, a, 3, NULL);
  g_autoptr (OrtrainTensor) y = ortrain_tensor_new_ints (dims, 1, b, 3, NULL);
  OrtrainTensor *in[2] = { x, y }, *out = NULL;
  OrtrainDim shape[1] = { ortrain_dim_int (3) };
  graph->opset = 23;
  OrtrainValue *values[2] = { ortrain_graph_new_input (graph, "a", ORTRAIN_DTYPE_INT64, shape, 1),
                              ortrain_graph_new_input (graph, "b", ORTRAIN_DTYPE_INT64, shape, 1) };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", "Div", "n", values, 2, 1);
  g_assert_true (ortrain_ops_infer_node (node, &error));
  g_assert_false (ortrain_evaluate_node (node, in, &out, NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
  g_assert_nonnull (strstr (error->message, "element 1"));
}

/* Pow has a formula of its own for floats, which is free of branches: its special cases are patched in at the end.
 * Every pair of these, long enough for whole vectors. */
static void
test_power_corners (void)
{
  static const double numbers[] = { 0,      -0.0,  1,      -1,       2,      -2,       0.5,       -0.5,  3,
                                    -3,     1.5,   -1.5,   1e10,     7,      -8,       1e30,      -1e30, 1e-30,
                                    -1e-30, 1e-42, -1e-42, 16777216, 100,    -100,     NAN,       -NAN,  127,
                                    0.1,    -0.1,  0.9999, 1.0001,   -1.001, INFINITY, -INFINITY, 255,   256 };
  enum
  {
    N = G_N_ELEMENTS (numbers)
  };
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64 };
  static const gint64 dims[1] = { N * N };
  double bases[N * N], exponents[N * N];
  for (guint i = 0; i < N * N; i++)
    {
      bases[i] = numbers[i / N];
      exponents[i] = numbers[i % N];
    }
  g_autoptr (OrtrainTensor) x =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT64, dims, 1, (guint8 *) bases, sizeof bases, NULL);
  g_autoptr (OrtrainTensor) e =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT64, dims, 1, (guint8 *) exponents, sizeof exponents, NULL);
  guint n_nan = 0, n_infinite = 0, n_zero = 0;
  for (guint t = 0; t < G_N_ELEMENTS (dtypes); t++)
    {
      g_autoptr (OrtrainTensor) a = cast (x, dtypes[t]);
      g_autoptr (OrtrainTensor) b = cast (e, dtypes[t]);
      OrtrainTensor *in[2] = { a, b };
      g_autoptr (OrtrainTensor) y = evaluate ("", "Pow", NULL, in, 2);
      for (gint64 i = 0; i < N * N; i++)
        {
          const double base = ortrain_tensor_get_scalar (a, i), exponent = ortrain_tensor_get_scalar (b, i),
                       got = ortrain_tensor_get_scalar (y, i);
          const double expected = t == 0 ? (double) powf ((float) base, (float) exponent) : pow (base, exponent);
          const gboolean corner = isnan (expected) || isinf (expected) || expected == 0;
          const gboolean same = isnan (expected) ? isnan (got) : got == expected && signbit (got) == signbit (expected);
          const double error = fabs (expected) * (t == 0 ? 2e-7 : 1e-13) + (t == 0 ? 3e-45 : 0);
          if (corner ? !same : !(fabs (got - expected) <= error))
            g_error ("%g to the power of %g is %g, not %g", base, exponent, expected, got);
          n_nan += isnan (expected) != 0;
          n_infinite += isinf (expected) != 0;
          n_zero += expected == 0;
        }
    }
  g_assert_true (n_nan > 100 && n_infinite > 100 && n_zero > 100);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pointwise/unary", test_unary);
  g_test_add_func ("/pointwise/special", test_special);
  g_test_add_func ("/pointwise/binary", test_binary);
  g_test_add_func ("/pointwise/power-corners", test_power_corners);
  g_test_add_func ("/pointwise/cast", test_cast);
  g_test_add_func ("/pointwise/cast-corners", test_cast_corners);
  g_test_add_func ("/pointwise/integers", test_integers);
  g_test_add_func ("/pointwise/division-by-zero", test_division_by_zero);
  return g_test_run ();
}
