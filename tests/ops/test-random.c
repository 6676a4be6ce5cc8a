/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "op-harness.h"

/* Operators that draw: their distributions, checked by moments and frequencies, and the values on which a draw depends.
 * Dropout has a test of its own. */

/* One node; input: or NULL; attributes: taken. Result: new. */
static OrtrainTensor *
draw (const char *op_type, OrtrainTensor *input, OrtrainAttributes *attributes, OrtrainStepBlock step, guint n_threads)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) provider = n_threads > 0 ? new_cpu (n_threads) : NULL;
  OrtrainValue *operand = input != NULL ? harness_input (graph, contents, "x", input) : NULL;
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, NULL, &operand, input != NULL ? 1 : 0, 1);
  ortrain_attributes_free (node->attributes);
  node->attributes = attributes;
  g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
  OrtrainHostContext context;
  init_context (&context, provider);
  context.step = step;
  harness_run (graph, contents, &context);
  return g_object_ref (g_hash_table_lookup (contents, ortrain_node_output (node, 0)));
}

static OrtrainTensor *
make_filled (OrtrainDType dtype, gint64 n, double element)
{
  g_autofree double *values = g_new (double, (gsize) n);
  for (gint64 i = 0; i < n; i++)
    values[i] = element;
  return harness_tensor (dtype, values, &n, 1);
}

static const OrtrainStepBlock here = { .seed = 7, .step = 2 };

/* Mean, variance and range, in each type and in both forms of the operator. */
static void
test_moments (void)
{
  static const struct
  {
    const char *name, *first, *second;
    double mean, variance, low, high;
  } cases[] = { { "RandomNormal", "mean", "scale", 2, 9, -INFINITY, INFINITY },
                { "RandomUniform", "low", "high", 2.5, 1.0 / 12, 2, 3 } };
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                         ORTRAIN_DTYPE_BFLOAT16 };
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    for (guint t = 0; t < G_N_ELEMENTS (dtypes); t++)
      for (guint like = 0; like < 2; like++)
        {
          const gint64 n = 200000;
          OrtrainAttributes *attributes = ortrain_attributes_new ();
          g_autofree char *name = g_strconcat (cases[c].name, like ? "Like" : NULL, NULL);
          g_autoptr (OrtrainTensor) shape = like ? make_filled (dtypes[t], n, 1) : NULL;
          ortrain_attributes_set_float (attributes, cases[c].first, 2);
          ortrain_attributes_set_float (attributes, cases[c].second, 3);
          if (!like)
            {
              ortrain_attributes_set_ints (attributes, "shape", &n, 1);
              ortrain_attributes_set_int (attributes, "dtype", dtypes[t]);
            }
          g_autoptr (OrtrainTensor) y = draw (name, shape, attributes, here, 0);
          double sum = 0, square = 0, neighbours = 0, before = 0;
          g_assert_cmpint (ortrain_tensor_get_dtype (y), ==, dtypes[t]);
          g_assert_cmpint (ortrain_tensor_get_n_elements (y), ==, n);
          for (gint64 i = 0; i < n; i++)
            {
              const double v = ortrain_tensor_get_scalar (y, i), d = v - cases[c].mean;
              g_assert_true (v >= cases[c].low && v <= cases[c].high);
              sum += v / (double) n;
              square += d * d / (double) n;
              neighbours += d * before / (double) n;
              before = d;
            }
          /* bfloat16 rounds to 1/128 near 2 and 3, of both sides alike */
          const double deviation = sqrt (cases[c].variance / (double) n);
          g_assert_cmpfloat (fabs (sum - cases[c].mean), <, 4 * deviation + 1e-4);
          g_assert_cmpfloat (fabs (square - cases[c].variance), <, 0.02 * cases[c].variance);
          g_assert_cmpfloat (fabs (neighbours), <, 5 * cases[c].variance / sqrt ((double) n));
        }
}

/* kept of n draws with this probability: within five standard deviations */
static void
assert_frequency (gint64 kept, gint64 n, double probability)
{
  const double expected = (double) n * probability;
  g_assert_cmpfloat (fabs ((double) kept - expected), <=, 5 * sqrt (expected * (1 - probability)));
}

/* Each element has its own probability; the result may have another type. */
static void
test_bernoulli (void)
{
  static const double probabilities[] = { 0, 0.0625, 0.5, 0.75, 1 };
  static const OrtrainDType from[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                       ORTRAIN_DTYPE_BFLOAT16 };
  static const OrtrainDType to[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16,
                                     ORTRAIN_DTYPE_BOOL,    ORTRAIN_DTYPE_INT64,   ORTRAIN_DTYPE_UINT8 };
  const gint64 n = 20000 * G_N_ELEMENTS (probabilities);
  g_autofree double *values = g_new (double, (gsize) n);
  for (gint64 i = 0; i < n; i++)
    values[i] = probabilities[i % (gint64) G_N_ELEMENTS (probabilities)];
  for (guint a = 0; a < G_N_ELEMENTS (from); a++)
    for (guint b = 0; b < G_N_ELEMENTS (to); b++)
      {
        g_autoptr (OrtrainTensor) x = harness_tensor (from[a], values, &n, 1);
        OrtrainAttributes *attributes = ortrain_attributes_new ();
        ortrain_attributes_set_int (attributes, "dtype", to[b]);
        g_autoptr (OrtrainTensor) y = draw ("Bernoulli", x, attributes, here, 0);
        gint64 ones[G_N_ELEMENTS (probabilities)] = { 0 };
        g_assert_cmpint (ortrain_tensor_get_dtype (y), ==, to[b]);
        for (gint64 i = 0; i < n; i++)
          {
            const double v = ortrain_tensor_get_scalar (y, i);
            g_assert_true (v == 0 || v == 1);
            ones[i % (gint64) G_N_ELEMENTS (probabilities)] += v == 1;
          }
        for (guint k = 0; k < G_N_ELEMENTS (probabilities); k++)
          assert_frequency (ones[k], n / (gint64) G_N_ELEMENTS (probabilities), probabilities[k]);
      }
}

/* Rows of logarithms of probabilities, up to a constant of the row. */
static void
test_multinomial (void)
{
  enum
  {
    ROWS = 2,
    CLASSES = 4,
    SAMPLES = 40000
  };
  static const double probabilities[ROWS][CLASSES] = { { 0.1, 0.2, 0.3, 0.4 }, { 0.5, 0, 0.25, 0.25 } };
  static const gint64 dims[] = { ROWS, CLASSES };
  double logs[ROWS * CLASSES];
  for (guint i = 0; i < ROWS * CLASSES; i++)
    logs[i] = log (probabilities[i / CLASSES][i % CLASSES]) + (i / CLASSES ? 500 : -500);
  g_autoptr (OrtrainTensor) x = harness_tensor (ORTRAIN_DTYPE_FLOAT64, logs, dims, 2);
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "sample_size", SAMPLES);
  g_autoptr (OrtrainTensor) y = draw ("Multinomial", x, attributes, here, 0);
  g_assert_cmpint (ortrain_tensor_get_dtype (y), ==, ORTRAIN_DTYPE_INT32);
  g_assert_cmpint (ortrain_tensor_get_n_elements (y), ==, ROWS * SAMPLES);
  for (guint r = 0; r < ROWS; r++)
    {
      gint64 counts[CLASSES] = { 0 };
      for (guint s = 0; s < SAMPLES; s++)
        {
          const gint64 class = (gint64) ortrain_tensor_get_scalar (y, r * SAMPLES + s);
          g_assert_true (class >= 0 && class < CLASSES);
          counts[class]++;
        }
      for (guint k = 0; k < CLASSES; k++)
        assert_frequency (counts[k], SAMPLES, probabilities[r][k]);
    }
}

/* Seed and step decide, unless the node has a seed of its own: then the step does. Threads do not. */
static void
test_keys (void)
{
  static const char *const names[] = { "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial" };
  const gint64 dims[] = { 8, 6000 };
  g_autofree double *values = g_new (double, 48000);
  for (guint i = 0; i < 48000; i++)
    values[i] = 0.5;
  g_autoptr (OrtrainTensor) x = harness_tensor (ORTRAIN_DTYPE_FLOAT32, values, dims, 2);
  for (guint k = 0; k < G_N_ELEMENTS (names); k++)
    for (guint own = 0; own < 2; own++)
      {
        const struct
        {
          OrtrainStepBlock step;
          guint n_threads;
          gboolean same;
        } cases[] = { { { .seed = 7, .step = 2 }, 0, TRUE },
                      { { .seed = 7, .step = 2 }, 3, TRUE },
                      { { .seed = 8, .step = 2 }, 0, own },
                      { { .seed = 7, .step = 3 }, 0, FALSE } };
        g_autoptr (OrtrainTensor) first = NULL;
        for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
          {
            OrtrainAttributes *attributes = ortrain_attributes_new ();
            if (k == 3)
              ortrain_attributes_set_int (attributes, "sample_size", 100);
            if (own)
              ortrain_attributes_set_float (attributes, "seed", 5);
            g_autoptr (OrtrainTensor) y = draw (names[k], x, attributes, cases[c].step, cases[c].n_threads);
            if (first == NULL)
              first = g_object_ref (y);
            else if (ortrain_tensor_equal (first, y) != cases[c].same)
              g_error ("%s, %s: case %u %s", names[k], own ? "a seed of its own" : "the session's seed", c,
                       cases[c].same ? "has other bits" : "has the same bits");
          }
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/random/moments", test_moments);
  g_test_add_func ("/ops/random/bernoulli", test_bernoulli);
  g_test_add_func ("/ops/random/multinomial", test_multinomial);
  g_test_add_func ("/ops/random/keys", test_keys);
  return g_test_run ();
}
