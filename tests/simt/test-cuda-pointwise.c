/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/op-harness.h"
#include "simt/cuda-kernel-check.h"
#include "simt/cuda-same-bits.h"
#include "simt/fake-cuda.h"

#include "transform/ortrain-fuse-elementwise-private.h"

/* Every element-wise operator in the floating types; integers of all types and conversions, which must have the CPU's
 * bits; NaN; and fused chains, which must have the bits of their operators one by one. */

static const OrtrainGradientCase cases[] = {
  { "Add", "f[1];f[1]" },
  { "Add", "f[1025];f[1025]" },
  { "Add", "f[50257];f" },
  { "Add", "f[31,33];f[33]" },
  { "Add", "f[7,64];f[64]" },
  { "Add", "f[7,64];f[7,1]" },
  { "Add", "f[3,1,4,1,5];f[2,1,3,1]" },
  { "Add", "f[2,1,3,1,2,1];f[1,2,1,3,1,2]" },
  { "Sub", "f[257];f[257]" },
  { "Sub", "f;f[2,33]" },
  { "Mul", "f[1023];f[1023]" },
  { "Mul", "f[4,2,3];f[2,1]" },
  { "Div", "f[1025];p[1025]" },
  { "Div", "f[5,8];p[8]" },
  { "Mod", "f[31];p[31]", "fmod=1" },
  { "Mod", "f[5,7];c[7]" },
  { "Pow", "p[33];f[33]" },
  { "Pow", "f[33];d{2}" },
  { "Pow", "f[33];d{3}" },
  { "Pow", "f[33];d{4}" },
  { "Pow", "p[33];d{0.5}" },
  { "Pow", "p[33];d{-0.5}" },
  { "Pow", "p[33];d{-1}" },
  { "Pow", "p[33];d{1}" },
  { "Pow", "p[33];d{1.7}" },
  { "Max", "f[33];f[33];f" },
  { "Min", "f[5,33];f[33];f[5,1]" },
  { "Sum", "f[33];f[33];f[33];f[33]" },
  { "Mean", "f[33];f[33];f[33]" },
  { "Clip", "f[257];d{-0.5};d{0.5}" },
  { "Clip", "f[257];_;d{0.5}" },
  { "Where", "b[6]{1,0,1,1,0,0};f[5,6];f[5,1]" },
  { "Where", "b[1]{1};f[1025];f[1025]" },
  { "Cast", "f[257]", "to=1" },
  { "Cast", "f[257]", "to=10" },
  { "Cast", "f[257]", "to=16" },
  { "CastLike", "f[257];d{1}" },
  { "Neg", "f[257]" },
  { "Abs", "f[257]" },
  { "Reciprocal", "p[257]" },
  { "Sqrt", "p[257]" },
  { "Exp", "f[257]" },
  { "Log", "p[257]" },
  { "Sin", "f[257]" },
  { "Cos", "f[257]" },
  { "Tan", "u[257]" },
  { "Asin", "u[257]" },
  { "Acos", "u[257]" },
  { "Atan", "f[257]" },
  { "Sinh", "f[257]" },
  { "Cosh", "f[257]" },
  { "Asinh", "f[257]" },
  { "Acosh", "g[257]" },
  { "Atanh", "u[257]" },
  { "Erf", "f[257]" },
  { "Relu", "f[1025]" },
  { "Tanh", "f[1025]" },
  { "Sigmoid", "f[257]" },
  { "LeakyRelu", "f[257]", "alpha=0.3f" },
  { "LeakyRelu", "f[33]" },
  { "PRelu", "f[5,33];f[33]" },
  { "ThresholdedRelu", "f[257]", "alpha=0.3f" },
  { "Elu", "f[257]", "alpha=0.7f" },
  { "Selu", "f[257]" },
  { "Selu", "f[257]", "alpha=1.2f gamma=0.9f" },
  { "Celu", "f[257]", "alpha=0.7f" },
  { "HardSigmoid", "f[257]", "alpha=0.5f beta=0.4f" },
  { "HardSigmoid", "f[257]" },
  { "HardSwish", "f[257]" },
  { "Softplus", "f[257]" },
  { "Softsign", "f[257]" },
  { "Gelu", "f[1025]" },
  { "Gelu", "f[1025]", "approximate='tanh'" },
  { "Mish", "f[257]" },
  { "Swish", "f[257]", "alpha=0.7f" },
  { "Shrink", "f[257]", "lambd=0.3f bias=0.1f" },
};

/* Without a gradient. */
static const OrtrainGradientCase plain_cases[] = {
  { "Sign", "f[257]" },
  { "Floor", "f[257]" },
  { "Ceil", "f[257]" },
  { "Round", "f[257]" },
  { "Add", "f[0,3];f[3]" },
  { "Pow", "i[5]{1,2,3,-4,5};d{0.5}" },
  { "Equal", "f[2,33];f[33]" },
  { "Less", "f[257];f[257]" },
  { "LessOrEqual", "f[257];f[257]" },
  { "Greater", "f[257];f[257]" },
  { "GreaterOrEqual", "f[3,5];f[5]" },
  { "IsNaN", "f[33]" },
  { "IsInf", "f[33]" },
  { "Cast", "f[257]", "to=9" },
  { "Cast", "b[5]{0,0,1,1,0}", "to=1" },
  { "PRelu", "i[4]{1,-2,3,-4};i[1]{3}" },
  { "PRelu", "j[4]{1,-2,3,-4};j[1]{3}" },
};

static const char *const operators[] = {
  "Add",
  "Sub",
  "Mul",
  "Div",
  "Mod",
  "Pow",
  "Max",
  "Min",
  "Sum",
  "Mean",
  "Clip",
  "Where",
  "Equal",
  "Less",
  "LessOrEqual",
  "Greater",
  "IsNaN",
  "IsInf",
  "Cast",
  "CastLike",
  "Neg",
  "Abs",
  "Sign",
  "Floor",
  "Ceil",
  "Round",
  "Reciprocal",
  "Sqrt",
  "Exp",
  "Log",
  "Sin",
  "Cos",
  "Tan",
  "Asin",
  "Acos",
  "Atan",
  "Sinh",
  "Cosh",
  "Asinh",
  "Acosh",
  "Atanh",
  "Erf",
  "ErfGrad",
  "Relu",
  "Tanh",
  "Sigmoid",
  "LeakyRelu",
  "PRelu",
  "Elu",
  "Selu",
  "Celu",
  "HardSigmoid",
  "HardSwish",
  "Softplus",
  "Softsign",
  "Gelu",
  "Mish",
  "Swish",
  "Shrink",
  "ReluGrad",
  "TanhGrad",
  "SigmoidGrad",
  "LeakyReluGrad",
  "EluGrad",
  "SeluGrad",
  "CeluGrad",
  "SoftplusGrad",
  "HardSigmoidGrad",
  "GeluGrad",
  "SoftsignGrad",
  "SwishGrad",
  "HardSwishGrad",
  "MishGrad",
  "ThresholdedRelu",
  "GreaterOrEqual",
  NULL,
};

static void
test_operators (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (plain_cases, G_N_ELEMENTS (plain_cases), FALSE);
  cuda_check_end ();
}

static void
test_integers (void)
{
  static const struct
  {
    const char *op_type;
    guint n_in;
    gboolean boolean;
    const char *attribute;
    const char *text; /* NULL: a 1 */
  } rows[] = {
    { "Add", 2, FALSE, NULL, NULL },           { "Sub", 2, FALSE, NULL, NULL },
    { "Mul", 2, FALSE, NULL, NULL },           { "Div", 2, FALSE, NULL, NULL },
    { "Mod", 2, FALSE, NULL, NULL },           { "Mod", 2, FALSE, "fmod", NULL },
    { "Pow", 2, FALSE, NULL, NULL },           { "Max", 3, FALSE, NULL, NULL },
    { "Min", 3, FALSE, NULL, NULL },           { "Sum", 3, FALSE, NULL, NULL },
    { "BitwiseAnd", 2, FALSE, NULL, NULL },    { "BitwiseOr", 2, FALSE, NULL, NULL },
    { "BitwiseXor", 2, FALSE, NULL, NULL },    { "BitwiseNot", 1, FALSE, NULL, NULL },
    { "BitShift", 2, FALSE, NULL, NULL },      { "BitShift", 2, FALSE, "direction", "RIGHT" },
    { "Equal", 2, TRUE, NULL, NULL },          { "Less", 2, TRUE, NULL, NULL },
    { "LessOrEqual", 2, TRUE, NULL, NULL },    { "Greater", 2, TRUE, NULL, NULL },
    { "GreaterOrEqual", 2, TRUE, NULL, NULL }, { "Neg", 1, FALSE, NULL, NULL },
    { "Abs", 1, FALSE, NULL, NULL },           { "Sign", 1, FALSE, NULL, NULL },
    { "Relu", 1, FALSE, NULL, NULL },          { "Clip", 3, FALSE, NULL, NULL },
    { "PRelu", 2, FALSE, NULL, NULL },
  };
  OrtrainProvider *cuda = open_cuda ();
  const gint64 dims[] = { 5, 33 };
  guint n = 0;
  for (guint r = 0; r < G_N_ELEMENTS (rows); r++)
    for (guint t = 0; t < G_N_ELEMENTS (integers); t++)
      for (guint small = 0; small < 2; small++)
        {
          g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
          if (rows[r].text != NULL)
            ortrain_attributes_set_string (attributes, rows[r].attribute, rows[r].text);
          else if (rows[r].attribute != NULL)
            ortrain_attributes_set_int (attributes, rows[r].attribute, 1);
          OrtrainTensor *in[3];
          const guint32 seed = r * 100 + t * 10;
          in[0] = random_bytes (integers[t], dims, 2, seed, FALSE);
          in[1] = random_bytes (integers[t], dims + 1, 1, seed + 1, small);
          in[2] = random_bytes (integers[t], dims, 2, seed + 2, small);
          if (g_str_equal (rows[r].op_type, "Clip"))
            for (guint i = 1; i < 3; i++)
              {
                g_object_unref (in[i]);
                in[i] = random_bytes (integers[t], NULL, 0, seed + i, TRUE);
              }
          n += compare (cuda, rows[r].op_type, attributes, in, rows[r].n_in,
                        rows[r].boolean ? ORTRAIN_DTYPE_BOOL : integers[t], dims, 2);
          for (guint i = 0; i < 3; i++)
            g_object_unref (in[i]);
        }
  g_test_message ("%u kernels of integers", n);
  g_assert_cmpuint (n, >, 380);
  ortrain_provider_unref (cuda);
}

/* Between all types; numbers that no integer holds, of both signs; numbers between two of 16 bits. */
static void
test_casts (void)
{
  static const double numbers[] = {
    0,      -0.0,    1,          -1,           0.5,           -0.5,          2.5,          127,
    128,    -128,    -129,       255,          256,           32767,         32768,        65504,
    65519,  65520,   2147483647, 2147483648.0, -2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0,
    0x1p63, -0x1p63, 0x1p64,     1e30,         -1e30,         1e300,         INFINITY,     -INFINITY,
    NAN,    0x1p-24, 0x1.8p-25,  1.00390625,   1.001953125,   1 + 0x1p-30,   0x1p-140,     1 + 0x1p-8 + 0x1p-40
  };
  static const OrtrainDType reals[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                        ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BOOL };
  OrtrainDType all[13];
  guint n_all = 0, n = 0;
  for (guint t = 0; t < G_N_ELEMENTS (reals); t++)
    all[n_all++] = reals[t];
  for (guint t = 0; t < G_N_ELEMENTS (integers); t++)
    all[n_all++] = integers[t];
  OrtrainProvider *cuda = open_cuda ();
  const gint64 dims[] = { G_N_ELEMENTS (numbers), 100 };
  for (guint from = 0; from < n_all; from++)
    for (guint to = 0; to < n_all; to++)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
        g_autoptr (OrtrainTensor) in = NULL;
        ortrain_attributes_set_int (attributes, "to", all[to]);
        if (ortrain_dtype_is_floating (all[from]))
          {
            g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, 1, &error);
            g_assert_no_error (error);
            memcpy (ortrain_tensor_peek_writable (wide), numbers, sizeof numbers);
            in = kernel_cast (wide, all[from]);
          }
        else
          in = random_bytes (all[from], dims + 1, 1, from, FALSE);
        n += compare (cuda, "Cast", attributes, &in, 1, all[to], ortrain_tensor_peek_dims (in), 1);
      }
  g_assert_cmpuint (n, ==, 13 * 13);
  ortrain_provider_unref (cuda);
}

/* All numbers of 16 bits, and numbers that round to them: each of them, the numbers of float32 next to it, those in the
 * middle between two and next to that. Whole vectors, and a rest. */
static void
test_conversions (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  OrtrainProvider *cuda = open_cuda ();
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      const gint64 n = 65536 - 5, n_wide = 6 * n;
      const guint32 step = types[t] == ORTRAIN_DTYPE_FLOAT16 ? 1u << 13 : 1u << 16;
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensor) narrow = ortrain_tensor_new (types[t], &n, 1, &error);
      g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &n_wide, 1, &error);
      g_assert_no_error (error);
      guint16 *bits = ortrain_tensor_peek_writable (narrow);
      for (gint64 i = 0; i < n; i++)
        bits[i] = (guint16) (i + 5);
      g_autoptr (OrtrainTensor) exact = kernel_cast (narrow, ORTRAIN_DTYPE_FLOAT32);
      const guint32 *from = ortrain_tensor_peek (exact);
      guint32 *to = ortrain_tensor_peek_writable (wide);
      for (gint64 i = 0; i < n; i++, to += 6)
        {
          const guint32 around[] = {
            from[i], from[i] + 1, from[i] - 1, from[i] + step / 2, from[i] + step / 2 + 1, from[i] + step / 2 - 1
          };
          memcpy (to, around, sizeof around);
        }
      for (guint back = 0; back < 2; back++)
        {
          const OrtrainDType dtype = back ? types[t] : ORTRAIN_DTYPE_FLOAT32;
          g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
          OrtrainTensor *in = back ? wide : narrow;
          ortrain_attributes_set_int (attributes, "to", dtype);
          g_assert_cmpuint (compare (cuda, "Cast", attributes, &in, 1, dtype, ortrain_tensor_peek_dims (in), 1), ==, 1);
        }
    }
  ortrain_provider_unref (cuda);
}

/* Where, Equal and Clip of types that are not float32; comparisons of NaN. */
static void
test_choices (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT64, ORTRAIN_DTYPE_UINT8,
                                        ORTRAIN_DTYPE_INT16,   ORTRAIN_DTYPE_BOOL,  ORTRAIN_DTYPE_FLOAT32 };
  OrtrainProvider *cuda = open_cuda ();
  const gint64 dims[] = { 6, 11 };
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      OrtrainTensor *in[3] = { random_bytes (ORTRAIN_DTYPE_BOOL, dims, 2, 1, FALSE),
                               random_bytes (types[t], dims + 1, 1, 2, FALSE),
                               random_bytes (types[t], dims, 2, 3, FALSE) };
      g_assert_cmpuint (compare (cuda, "Where", NULL, in, 3, types[t], dims, 2), ==, 1);
      g_assert_cmpuint (compare (cuda, "Equal", NULL, in + 1, 2, ORTRAIN_DTYPE_BOOL, dims, 2), ==, 1);
      for (guint i = 0; i < 3; i++)
        g_object_unref (in[i]);
    }
  static const char *const logic[] = { "And", "Or", "Xor", "Equal", "Not" };
  for (guint i = 0; i < G_N_ELEMENTS (logic); i++)
    {
      OrtrainTensor *in[2] = { random_bytes (ORTRAIN_DTYPE_BOOL, dims, 2, 4, FALSE),
                               random_bytes (ORTRAIN_DTYPE_BOOL, dims + 1, 1, 5, FALSE) };
      g_assert_cmpuint (compare (cuda, logic[i], NULL, in, i < 4 ? 2 : 1, ORTRAIN_DTYPE_BOOL, dims, 2), ==, 1);
      g_object_unref (in[0]);
      g_object_unref (in[1]);
    }
  static const float numbers[] = { 1, -1, 0, -0.0f, NAN, INFINITY, -INFINITY, 1e-40f, 3e38f, 88, -88 };
  static const char *const unary[] = { "Relu",  "Tanh",  "Sigmoid",  "Exp",   "Log",   "Sqrt", "Erf", "Sign",
                                       "IsNaN", "IsInf", "Softplus", "Floor", "Round", "Abs",  "Neg", "Reciprocal" };
  static const char *const binary[] = { "Max", "Min", "Less", "Equal", "GreaterOrEqual", "Add", "Div" };
  g_autoptr (OrtrainTensor) x = NULL, y = NULL;
  g_autoptr (GError) error = NULL;
  const gint64 row[] = { G_N_ELEMENTS (numbers), 1 }, square[] = { G_N_ELEMENTS (numbers), G_N_ELEMENTS (numbers) };
  x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, row, 1, &error);
  y = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, row, 2, &error);
  g_assert_no_error (error);
  memcpy (ortrain_tensor_peek_writable (x), numbers, sizeof numbers);
  memcpy (ortrain_tensor_peek_writable (y), numbers, sizeof numbers);
  for (guint i = 0; i < G_N_ELEMENTS (binary); i++)
    {
      OrtrainTensor *in[2] = { x, y };
      const gboolean boolean = i >= 2 && i < 5;
      g_assert_cmpuint (
          compare (cuda, binary[i], NULL, in, 2, boolean ? ORTRAIN_DTYPE_BOOL : ORTRAIN_DTYPE_FLOAT32, square, 2), ==,
          1);
    }
  /* not finite, or 0: these have no last bits to differ in */
  g_autoptr (OrtrainTensor) limits = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, (const gint64[]){ 5 }, 1, &error);
  memcpy (ortrain_tensor_peek_writable (limits), numbers + 2, 5 * sizeof (float));
  for (guint i = 0; i < G_N_ELEMENTS (unary); i++)
    g_assert_cmpuint (compare (cuda, unary[i], NULL, &limits, 1,
                               g_str_has_prefix (unary[i], "Is") ? ORTRAIN_DTYPE_BOOL : ORTRAIN_DTYPE_FLOAT32,
                               (const gint64[]){ 5 }, 1),
                      ==, 1);
  ortrain_provider_unref (cuda);
}

/* ---- chains ---- */

static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16,
                                      ORTRAIN_DTYPE_INT64, ORTRAIN_DTYPE_INT32 };
static const struct
{
  gint64 dims[3];
  gsize rank;
} shapes[] = { { { 1 }, 1 }, { { 7 }, 1 }, { { 31, 33 }, 2 }, { { 2, 5, 64 }, 3 } };
static const char *const unary[] = { "Relu", "Neg", "Abs", "Sign", "Tanh", "Gelu" };
static const char *const binary[] = { "Add", "Mul", "Sub", "Max", "Min" };

static OrtrainValue *
add_node (OrtrainGraph *graph, const char *op_type, OrtrainValue *const *in, guint n, gint64 to)
{
  g_autoptr (GError) error = NULL;
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, in, n, 1);
  if (to != 0)
    ortrain_attributes_set_int (node->attributes, "to", to);
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

static OrtrainValue *
pick (OrtrainGraph *graph, GPtrArray *values, GRand *rand, OrtrainDType dtype)
{
  OrtrainValue *value = values->pdata[g_rand_int_range (rand, 0, (gint) values->len)];
  return value->dtype == dtype ? value : add_node (graph, "Cast", &value, 1, dtype);
}

/* n_types: the first of them are used */
static OrtrainGraph *
random_graph (GRand *rand, GHashTable *contents, gint n_types)
{
  OrtrainGraph *graph = ortrain_graph_new ("chain");
  g_autoptr (GPtrArray) values = g_ptr_array_new ();
  const guint shape = (guint) g_rand_int_range (rand, 0, G_N_ELEMENTS (shapes));
  graph->opset = 23;
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      const gsize drop = i > 2 && shapes[shape].rank > 1 ? 1 : 0; /* broadcast */
      g_autoptr (OrtrainTensor) tensor =
          kernel_random (types[g_rand_int_range (rand, 0, n_types)], shapes[shape].dims + drop,
                         shapes[shape].rank - drop, 2, g_rand_int (rand));
      g_ptr_array_add (values, harness_input (graph, contents, name, tensor));
    }
  const guint n = (guint) g_rand_int_range (rand, 3, 24);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainDType dtype = types[g_rand_int_range (rand, 0, n_types)];
      OrtrainValue *in[3] = { pick (graph, values, rand, dtype), pick (graph, values, rand, dtype), NULL }, *y;
      const gint kind = g_rand_int_range (rand, 0, 10);
      if (kind < 3)
        y = add_node (graph, unary[g_rand_int_range (rand, 0, ortrain_dtype_is_floating (dtype) ? 6 : 4)], in, 1, 0);
      else if (kind < 8)
        y = add_node (graph, binary[g_rand_int_range (rand, 0, G_N_ELEMENTS (binary))], in, 2, 0);
      else
        {
          in[2] = in[1];
          in[1] = in[0];
          in[0] = add_node (graph, "Less", (OrtrainValue *[]){ in[1], in[2] }, 2, 0);
          y = add_node (graph, "Where", in, 3, 0);
        }
      g_ptr_array_add (values, y);
      if (g_rand_int_range (rand, 0, 4) == 0 || i + 1 == n)
        ortrain_graph_mark_output (graph, y, TRUE);
    }
  ortrain_graph_remove_dead (graph);
  return graph;
}

/* All nodes in order, on the device. TRUE for a chain that has run there. */
static guint
run_graph (OrtrainGraph *graph, GHashTable *contents, OrtrainProvider *cuda, gboolean inplace)
{
  guint n_chains = 0;
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      KernelRun run;
      g_autoptr (GError) error = NULL;
      kernel_run_init (&run, node->domain, node->op_type);
      ortrain_attributes_free (run.attributes);
      run.attributes = ortrain_attributes_copy (node->attributes);
      run.body = node->body != NULL ? G_OBJECT (node->body) : NULL;
      run.provider = cuda;
      run.try_inplace = inplace;
      for (guint i = 0; i < node->inputs->len; i++)
        {
          OrtrainTensor *x = g_hash_table_lookup (contents, ortrain_node_input (node, i));
          kernel_run_add_input (&run, kernel_cast (x, ortrain_tensor_get_dtype (x)));
        }
      for (guint k = 0; k < node->outputs->len; k++)
        {
          const OrtrainValue *y = ortrain_node_output (node, k);
          gint64 dims[ORTRAIN_MAX_RANK];
          for (gint d = 0; d < y->rank; d++)
            dims[d] = y->dims[d].value;
          kernel_run_add_output (&run, y->dtype, dims, (gsize) y->rank);
        }
      if (!kernel_run_try (&run, &error))
        g_error ("%s: %s", node->op_type, error->message);
      n_chains += node->body != NULL;
      for (guint k = 0; k < node->outputs->len; k++)
        g_hash_table_insert (contents, ortrain_node_output (node, k), g_object_ref (run.outputs[k]));
      kernel_run_clear (&run);
    }
  return n_chains;
}

static void
test_chains (void)
{
  OrtrainProvider *cuda = open_cuda ();
  g_autoptr (GRand) rand = g_rand_new_with_seed (17);
  guint n_chains = 0, n_before = 0, n_after = 0;
  for (guint round = 0; round < 200; round++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GHashTable) contents = harness_contents (), fused_contents = harness_contents ();
      g_autoptr (OrtrainGraph) graph = random_graph (rand, contents, round % 2 ? 5 : 3);
      g_autoptr (OrtrainGraph) fused = ortrain_graph_clone (graph);
      ortrain_fuse_elementwise (fused, cuda, &error);
      g_assert_no_error (error);
      n_before += graph->nodes->len;
      n_after += fused->nodes->len;
      for (guint i = 0; i < fused->inputs->len; i++)
        {
          OrtrainValue *input = fused->inputs->pdata[i];
          OrtrainTensor *tensor = g_hash_table_lookup (contents, ortrain_graph_find_value (graph, input->name));
          g_hash_table_insert (fused_contents, input, g_object_ref (tensor));
        }
      run_graph (graph, contents, cuda, FALSE);
      n_chains += run_graph (fused, fused_contents, cuda, round % 4 > 1);
      for (guint k = 0; k < graph->outputs->len; k++)
        kernel_assert_same_bits (g_hash_table_lookup (fused_contents, fused->outputs->pdata[k]),
                                 g_hash_table_lookup (contents, graph->outputs->pdata[k]), "fused");
    }
  g_test_message ("%u nodes became %u, of them %u chains", n_before, n_after, n_chains);
  g_assert_cmpuint (n_chains, >, 180);
  g_assert_cmpuint (n_after * 3, <, n_before);
  ortrain_provider_unref (cuda);
}

typedef struct
{
  OrtrainDType dtype;
  gint64 x[2], y_columns; /* y is [y_columns], or 1: one number */
  guint64 blocks;
} WidthCase;

/* A thread has four elements, and eight of those with 16 bits, unless an operand repeats along rows that eight does not
 * divide. */
static void
test_widths (void)
{
  static const WidthCase widths[] = {
    { ORTRAIN_DTYPE_FLOAT32, { 8, 512 }, 512, 8 }, { ORTRAIN_DTYPE_BFLOAT16, { 8, 512 }, 512, 4 },
    { ORTRAIN_DTYPE_FLOAT16, { 8, 512 }, 1, 4 },   { ORTRAIN_DTYPE_BFLOAT16, { 64, 60 }, 60, 8 },
    { ORTRAIN_DTYPE_BFLOAT16, { 63, 64 }, 64, 4 }, /* less than four times 1024 */
  };
  g_autoptr (OrtrainProvider) cuda = open_cuda ();
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    {
      const WidthCase *c = &widths[i];
      KernelRun run;
      kernel_run_init (&run, "", "Add");
      run.provider = cuda;
      kernel_run_add_input (&run, kernel_random (c->dtype, c->x, 2, 1, 1));
      kernel_run_add_input (&run, kernel_random (c->dtype, &c->y_columns, 1, 1, 2));
      kernel_run_add_output (&run, c->dtype, c->x, 2);
      const guint64 before = ortrain_fake_cuda_count_blocks ("pointwise");
      kernel_run (&run);
      const double unit = c->dtype == ORTRAIN_DTYPE_BFLOAT16  ? 0x1p-8
                          : c->dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11
                                                              : 0x1p-24;
      for (gint64 k = 0; k < c->x[0] * c->x[1]; k++)
        {
          const double sum = ortrain_tensor_get_scalar (run.inputs[0], k) +
                             ortrain_tensor_get_scalar (run.inputs[1], k % c->x[1] % c->y_columns);
          g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (run.outputs[0], k), sum,
                                          unit * fabs (sum) + 1e-30);
        }
      if (ortrain_fake_cuda_is_in_use ())
        g_assert_cmpuint (ortrain_fake_cuda_count_blocks ("pointwise") - before, ==, c->blocks);
      kernel_run_clear (&run);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-pointwise/operators", test_operators);
  g_test_add_func ("/cuda-pointwise/integers", test_integers);
  g_test_add_func ("/cuda-pointwise/casts", test_casts);
  g_test_add_func ("/cuda-pointwise/conversions", test_conversions);
  g_test_add_func ("/cuda-pointwise/choices", test_choices);
  g_test_add_func ("/cuda-pointwise/chains", test_chains);
  g_test_add_func ("/cuda-pointwise/widths", test_widths);
  return g_test_run ();
}
