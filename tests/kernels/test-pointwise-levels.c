/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-kernel-private.h"

#include <math.h>

/* The element-wise kernels of every instruction set, not only of the best one that this machine has. */

#define TABLES(X, level) X (elementwise, level) X (elementwise_math, level) X (activation, level) X (logic, level)
#define DECLARE(family, level) extern const OrtrainKernelTable ortrain_cpu_kernels_##family##_##level;
#define ENTRY(family, level) &ortrain_cpu_kernels_##family##_##level,
TABLES (DECLARE, baseline)
static const OrtrainKernelTable *const baseline[] = { TABLES (ENTRY, baseline) NULL };
#ifdef __x86_64__
TABLES (DECLARE, v3)
TABLES (DECLARE, v4)
static const OrtrainKernelTable *const v3[] = { TABLES (ENTRY, v3) NULL };
static const OrtrainKernelTable *const v4[] = { TABLES (ENTRY, v4) NULL };
#endif

static const OrtrainKernel *
find (const OrtrainKernelTable *const *tables, const char *op_type)
{
  for (; *tables != NULL; tables++)
    for (guint i = 0; i < (*tables)->n_kernels; i++)
      if (g_str_equal ((*tables)->kernels[i].op_type, op_type))
        return &(*tables)->kernels[i];
  return NULL;
}

static double
sigmoid (double x)
{
  return 1 / (1 + exp (-x));
}
static double
power (double x)
{
  return pow (x, x);
}
static double
gelu (double x)
{
  return 0.5 * x * (1 + erf (x * M_SQRT1_2));
}
static double
twice (double x)
{
  return x + x;
}
static double
relu (double x)
{
  return x > 0 ? x : 0;
}

static const struct
{
  const char *op_type;
  double (*function) (double);
  guint n_inputs; /* all the same x */
  double low, high;
} cases[] = {
  { "Exp", exp, 1, -100, 88 },  { "Log", log, 1, 1e-3, 1e3 },       { "Tanh", tanh, 1, -10, 10 },
  { "Erf", erf, 1, -5, 5 },     { "Sigmoid", sigmoid, 1, -30, 30 }, { "Sin", sin, 1, -100, 100 },
  { "Cos", cos, 1, -100, 100 }, { "Pow", power, 2, 0.01, 9 },       { "Gelu", gelu, 1, -1, 5 },
  { "Add", twice, 2, -5, 5 },   { "Relu", relu, 1, -2, 2 },         { "Floor", floor, 1, -9, 9 },
  { "Round", rint, 1, -9, 9 },  { "Sqrt", sqrt, 1, 0, 9 },
};

static void
test_level (gconstpointer data)
{
  const OrtrainKernelTable *const *tables = data;
  enum
  {
    N = 4099
  };
  static float x[N], y[N];
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  const gint64 dims[1] = { N };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (GError) error = NULL;
      const OrtrainKernel *kernel = find (tables, cases[c].op_type);
      OrtrainOperand operand = { ORTRAIN_DTYPE_FLOAT32, 1, dims, N, sizeof x, ORTRAIN_LAYOUT_PLAIN, NULL };
      OrtrainOperand inputs[2] = { operand, operand };
      g_assert_nonnull (kernel);
      for (guint i = 0; i < N; i++)
        x[i] = (float) g_rand_double_range (rand, cases[c].low, cases[c].high);
      OrtrainKernelSetup setup = { .op_type = cases[c].op_type,
                                   .domain = "",
                                   .attributes = attributes,
                                   .inputs = inputs,
                                   .outputs = &operand,
                                   .n_inputs = cases[c].n_inputs,
                                   .n_outputs = 1,
                                   .n_threads = 1 };
      g_assert_true (kernel->prepare (&setup, &error));
      g_assert_cmpuint (setup.workspace_bytes, ==, 0);
      OrtrainKernelFrame frame = { 0 };
      const void *in[] = { x, x };
      void *out[] = { y };
      OrtrainKernelCall call = { .inputs = in, .outputs = out, .constants = setup.constants, .frame = &frame };
      kernel->run (&call);
      setup.constants_free (setup.constants);
      for (guint i = 0; i < N; i++)
        {
          double expected = cases[c].function (x[i]);
          g_assert_cmpfloat_with_epsilon (y[i], expected, fmax (fabs (expected), 1e-2) * 1e-6 + 1e-30);
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/pointwise-levels/baseline", baseline, test_level);
#ifdef __x86_64__
  __builtin_cpu_init ();
  if (__builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma") && __builtin_cpu_supports ("bmi2"))
    g_test_add_data_func ("/pointwise-levels/v3", v3, test_level);
  if (__builtin_cpu_supports ("avx512f") && __builtin_cpu_supports ("avx512bw") &&
      __builtin_cpu_supports ("avx512dq") && __builtin_cpu_supports ("avx512vl"))
    g_test_add_data_func ("/pointwise-levels/v4", v4, test_level);
#endif
  return g_test_run ();
}
