/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every algorithm for convolutions on the shapes of tests/bench/conv-shapes.txt, made small: forward pass and both
 * gradients against plain loops in float64, at several numbers of threads; the same bits from run to run, and at any
 * number of threads when the partition is fixed; gradients added to existing contents; and the algorithm that is
 * chosen. */
#include "all-cases.h"
#include "conv-reference.h"

#include "cpu/ortrain-cpu-conv-private.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "host-context.h"
#include "provider/ortrain-provider-private.h"

#include <stdlib.h>

#define ONE                                                                                                            \
  {                                                                                                                    \
    1, 1, 1                                                                                                            \
  }
#define CONV_1D(n, g, i, o, w, k, s, d, p)                                                                             \
  {                                                                                                                    \
    n, g, i, o, 1, { 1, 1, w }, { 0 }, { 1, 1, k }, { 1, 1, s }, { 1, 1, d },                                          \
    {                                                                                                                  \
      0, 0, p, 0, 0, p                                                                                                 \
    }                                                                                                                  \
  }
#define CONV_2D(n, g, i, o, h, w, kh, kw, s, d, ph, pw)                                                                \
  {                                                                                                                    \
    n, g, i, o, 2, { 1, h, w }, { 0 }, { 1, kh, kw }, { 1, s, s }, { 1, d, d },                                        \
    {                                                                                                                  \
      0, ph, pw, 0, ph, pw                                                                                             \
    }                                                                                                                  \
  }
#define CONV_3D(n, g, i, o, z, h, w, kd, kh, kw, s, pd, ph, pw)                                                        \
  {                                                                                                                    \
    n, g, i, o, 3, { z, h, w }, { 0 }, { kd, kh, kw }, { s, s, s }, ONE,                                               \
    {                                                                                                                  \
      pd, ph, pw, pd, ph, pw                                                                                           \
    }                                                                                                                  \
  }

/* images, groups, channels and filters per group, input, kernel, stride, dilation, pads */
static const Case shapes[] = {
  CONV_2D (3, 1, 32, 16, 12, 12, 1, 1, 1, 1, 0, 0),
  CONV_2D (5, 1, 24, 40, 4, 4, 1, 1, 1, 1, 0, 0),
  CONV_2D (2, 1, 16, 32, 9, 9, 1, 1, 2, 1, 0, 0),
  CONV_2D (3, 1, 16, 16, 10, 10, 2, 2, 1, 1, 0, 0),
  CONV_2D (3, 1, 16, 16, 10, 10, 2, 2, 2, 1, 0, 0),
  CONV_2D (5, 1, 1, 16, 14, 14, 3, 3, 1, 1, 1, 1),
  CONV_2D (2, 1, 32, 32, 14, 14, 3, 3, 1, 1, 1, 1),
  CONV_2D (9, 1, 16, 16, 4, 4, 3, 3, 1, 1, 1, 1),
  CONV_2D (1, 1, 3, 16, 31, 31, 3, 3, 2, 1, 1, 1),
  CONV_2D (2, 1, 16, 16, 14, 14, 3, 3, 1, 2, 2, 2),
  CONV_2D (1, 1, 32, 16, 12, 12, 3, 3, 1, 3, 3, 3),
  CONV_2D (1, 1, 32, 3, 16, 16, 3, 3, 1, 1, 1, 1),
  { 3, 1, 12, 20, 2, { 1, 17, 11 }, { 0 }, { 1, 3, 3 }, { 1, 2, 1 }, ONE, { 0, 0, 1, 0, 2, 1 } },
  CONV_2D (2, 1, 3, 32, 24, 24, 4, 4, 4, 1, 0, 0),
  CONV_2D (3, 1, 16, 16, 12, 12, 4, 4, 2, 1, 1, 1),
  CONV_2D (2, 1, 16, 16, 13, 13, 5, 5, 3, 1, 2, 2),
  CONV_2D (1, 1, 3, 16, 32, 32, 7, 7, 2, 1, 3, 3),
  CONV_2D (1, 1, 16, 16, 12, 12, 9, 9, 1, 1, 4, 4),
  CONV_2D (1, 1, 3, 16, 30, 30, 11, 11, 4, 1, 2, 2),
  CONV_2D (1, 1, 8, 16, 18, 18, 17, 17, 1, 1, 0, 0),
  CONV_2D (1, 1, 4, 8, 17, 17, 17, 17, 1, 1, 8, 8),
  CONV_2D (2, 1, 16, 32, 17, 17, 17, 17, 1, 1, 0, 0),
  CONV_2D (1, 1, 2, 4, 16, 16, 31, 31, 1, 1, 15, 15),
  CONV_2D (1, 1, 4, 40, 100, 6, 96, 3, 1, 1, 0, 0),
  CONV_2D (1, 1, 4, 24, 6, 100, 3, 96, 1, 1, 0, 0),
  CONV_2D (1, 1, 4, 16, 2, 100, 1, 96, 1, 1, 0, 8),
  CONV_2D (2, 2, 16, 16, 10, 10, 3, 3, 1, 1, 1, 1),
  CONV_2D (2, 4, 16, 8, 9, 9, 5, 5, 1, 1, 2, 2),
  CONV_2D (2, 32, 4, 4, 9, 9, 3, 3, 1, 1, 1, 1),
  CONV_2D (2, 32, 8, 8, 9, 9, 3, 3, 2, 1, 1, 1),
  CONV_2D (2, 48, 1, 1, 20, 20, 3, 3, 1, 1, 1, 1),
  CONV_2D (2, 40, 1, 1, 15, 15, 3, 3, 2, 1, 1, 1),
  CONV_2D (2, 16, 1, 2, 12, 12, 3, 3, 1, 1, 1, 1),
  CONV_2D (2, 16, 1, 1, 7, 7, 5, 5, 1, 1, 2, 2),
  CONV_2D (1, 16, 1, 1, 20, 20, 31, 31, 1, 1, 15, 15),
  CONV_2D (1, 16, 1, 1, 24, 9, 51, 5, 1, 1, 25, 2),
  CONV_1D (2, 1, 1, 32, 200, 10, 5, 1, 0),
  CONV_1D (2, 1, 32, 32, 50, 3, 2, 1, 0),
  CONV_1D (1, 1, 1, 20, 600, 256, 64, 1, 0),
  CONV_1D (1, 1, 16, 16, 200, 11, 1, 5, 25),
  CONV_1D (2, 16, 1, 1, 100, 31, 1, 1, 15),
  CONV_1D (1, 2, 16, 16, 40, 128, 1, 1, 64),
  CONV_3D (1, 1, 16, 16, 5, 7, 8, 3, 3, 3, 1, 1, 1, 1),
  CONV_3D (1, 1, 3, 20, 4, 14, 14, 1, 7, 7, 2, 0, 3, 3),
  CONV_3D (1, 1, 20, 16, 6, 7, 7, 3, 1, 1, 1, 1, 0, 0),
  CONV_3D (1, 1, 16, 16, 5, 9, 9, 3, 3, 3, 2, 1, 1, 1),
  /* planes of several channels at once: channels that fill no vector, several taps in one row and more than there are
   * sums for, strides that leave gaps, a bias where no tap reaches */
  CONV_2D (3, 37, 1, 1, 7, 7, 5, 5, 1, 1, 2, 2),
  CONV_2D (2, 17, 1, 1, 9, 21, 3, 11, 2, 1, 1, 5),
  CONV_2D (2, 20, 1, 1, 11, 13, 2, 2, 3, 1, 0, 0),
  CONV_2D (1, 16, 1, 1, 12, 19, 3, 9, 1, 2, 2, 8),
  CONV_3D (2, 18, 1, 1, 4, 5, 6, 3, 2, 3, 1, 1, 0, 1),
  /* kernels that see the whole image */
  CONV_2D (5, 1, 18, 20, 1, 1, 1, 1, 1, 1, 0, 0),
  CONV_2D (3, 4, 5, 6, 3, 4, 3, 4, 1, 1, 0, 0),
  CONV_1D (70, 1, 12, 100, 40, 40, 3, 1, 0),
  CONV_3D (4, 2, 3, 8, 2, 3, 4, 2, 3, 4, 1, 0, 0, 0),
  /* sums in several cuts, of groups whose rows come in no round number */
  CONV_2D (8, 2, 5, 6, 10, 10, 3, 3, 1, 1, 1, 1),
  /* more than a slab of images, of rows, and of channels */
  CONV_2D (1, 1, 16, 16, 100, 70, 3, 1, 1, 1, 1, 0),
  CONV_2D (2, 1, 160, 176, 4, 4, 3, 3, 1, 1, 1, 1),
  CONV_2D (20, 1, 16, 32, 10, 10, 2, 2, 1, 1, 0, 0),
  CONV_2D (2, 64, 1, 1, 40, 40, 3, 3, 1, 1, 1, 1),
};

typedef enum
{
  FORWARD,
  GRAD_INPUT,
  TRANSPOSED, /* with a bias */
  GRAD_WEIGHT,
  N_PRODUCTS,
} Product;
static const char *const op_types[] = { "Conv", "ConvGradInput", "ConvTranspose", "ConvGradWeight" };

typedef struct
{
  gint64 dims[5], n;
  gpointer data;
} Array;

static void
array_init (Array *array, OrtrainDType dtype, const gint64 *dims, guint rank, guint seed)
{
  array->n = 1;
  for (guint i = 0; i < rank; i++)
    array->n *= array->dims[i] = dims[i];
  array->data = g_malloc0 ((gsize) array->n * ortrain_dtype_get_size (dtype) + 1);
  for (gint64 i = 0; i < array->n && seed > 0; i++)
    if (dtype == ORTRAIN_DTYPE_FLOAT64)
      ((double *) array->data)[i] = (float) noise (&seed); /* the same in both types */
    else
      ((float *) array->data)[i] = (float) noise (&seed);
}

static double
array_get (const Array *array, OrtrainDType dtype, gint64 i)
{
  return dtype == ORTRAIN_DTYPE_FLOAT64 ? ((const double *) array->data)[i] : (double) ((const float *) array->data)[i];
}

static OrtrainOperand
operand (const Array *array, OrtrainDType dtype, guint rank)
{
  return (OrtrainOperand){ .dtype = dtype,
                           .rank = rank,
                           .dims = array->dims,
                           .n_elements = array->n,
                           .n_bytes = (gsize) array->n * ortrain_dtype_get_size (dtype) };
}

/* Runs a kernel into `to`, with a workspace full of NaN. Says which algorithm it was. */
static OrtrainConvAlgorithm
run_kernel (const Case *c, Product product, OrtrainDType dtype, const Array *a, const Array *b, const Array *bias,
            Array *to, OrtrainProvider *provider, gboolean fixed, gboolean accumulate)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  const guint rank = (guint) c->rank + 2;
  set_attributes (attributes, c);
  OrtrainOperand inputs[3] = { operand (a, dtype, rank), operand (b, dtype, rank) }, output = operand (to, dtype, rank);
  const guint n_inputs = bias != NULL ? 3 : 2;
  if (bias != NULL)
    inputs[2] = operand (bias, dtype, 1);
  const char *domain = strstr (op_types[product], "Grad") != NULL ? "org.ortrain" : "";
  const OrtrainKernel *kernel = ortrain_provider_find (ortrain_provider_get_host (), domain, op_types[product], inputs,
                                                       n_inputs, &output, 1, &error);
  g_assert_no_error (error);
  OrtrainKernelSetup setup = {
    .op_type = op_types[product],
    .domain = domain,
    .attributes = attributes,
    .inputs = inputs,
    .outputs = &output,
    .n_inputs = n_inputs,
    .n_outputs = 1,
    .provider = provider,
  };
  ((OrtrainCpuProvider *) provider)->fixed_partition = fixed;
  g_assert_true (kernel->prepare (&setup, &error));
  g_assert_no_error (error);
  void *workspace = NULL;
  g_assert_cmpint (posix_memalign (&workspace, 64, setup.workspace_bytes + 64), ==, 0);
  memset (workspace, 0xff, setup.workspace_bytes + 64);
  OrtrainHostContext context;
  init_context (&context, provider);
  const void *in[] = { a->data, b->data, bias != NULL ? bias->data : NULL };
  void *out[] = { to->data };
  OrtrainKernelCall call = { .inputs = in,
                             .outputs = out,
                             .workspace = workspace,
                             .constants = setup.constants,
                             .accumulates = accumulate,
                             .context = &context.context };
  kernel->run (&call);
  for (gsize i = 0; i < 64; i++)
    g_assert_cmpint (((guint8 *) workspace)[setup.workspace_bytes + i], ==, 0xff);
  g_assert_cmpint (context.fault.code, ==, ORTRAIN_FAULT_NONE);
  OrtrainConvAlgorithm algorithm = ((const OrtrainConv *) setup.constants)->algorithm;
  free (workspace);
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  return algorithm;
}

typedef struct
{
  double *result;
  const Array *x, *w, *y;
  OrtrainDType dtype;
} ArraySums;

static void
sum_y (gpointer data, gint64 x, gint64 w, gint64 y)
{
  ArraySums *s = data;
  s->result[y] += array_get (s->x, s->dtype, x) * array_get (s->w, s->dtype, w);
}

static void
sum_x (gpointer data, gint64 x, gint64 w, gint64 y)
{
  ArraySums *s = data;
  s->result[x] += array_get (s->y, s->dtype, y) * array_get (s->w, s->dtype, w);
}

static void
sum_w (gpointer data, gint64 x, gint64 w, gint64 y)
{
  ArraySums *s = data;
  s->result[w] += array_get (s->x, s->dtype, x) * array_get (s->y, s->dtype, y);
}

static void
compare_arrays (const Case *c, Product product, OrtrainConvAlgorithm algorithm, OrtrainDType dtype, const Array *found,
                const double *expected, double start)
{
  /* Sums of random numbers grow with the root of their length, which the largest of them shows. */
  double largest = 1;
  for (gint64 i = 0; i < found->n; i++)
    largest = MAX (largest, fabs (expected[i]));
  const double limit = largest * (dtype == ORTRAIN_DTYPE_FLOAT64 ? 1e-12 : 1e-5);
  for (gint64 i = 0; i < found->n; i++)
    if (!(fabs (array_get (found, dtype, i) - expected[i] - start) <= limit))
      g_error ("%s by algorithm %d: element %d is %.9g, not %.9g; n %d groups %d channels %d %d in %d %d %d kernel %d "
               "%d %d stride %d %d %d",
               op_types[product], algorithm, (int) i, array_get (found, dtype, i), expected[i] + start, (int) c->n,
               (int) c->groups, (int) c->in_per_group, (int) c->out_per_group, (int) c->in[0], (int) c->in[1],
               (int) c->in[2], (int) c->kernel[0], (int) c->kernel[1], (int) c->kernel[2], (int) c->stride[0],
               (int) c->stride[1], (int) c->stride[2]);
}

static const guint thread_counts[] = { 1, 5, 2 };
static guint n_reached[ORTRAIN_CONV_N_ALGORITHMS][N_PRODUCTS]; /* with one thread */

static guint
get_n_thread_counts (void)
{
  return tests_run_all_cases () ? G_N_ELEMENTS (thread_counts) : 2;
}

static void
check_product (const Case *c, Product p, OrtrainDType dtype, const Array *a, const Array *b, const Array *bias,
               const double *expected, const gint64 *dims, OrtrainProvider **providers)
{
  Array result;
  array_init (&result, dtype, dims, (guint) c->rank + 2, 0);
  const gsize bytes = (gsize) result.n * ortrain_dtype_get_size (dtype);
  g_autofree guint8 *fixed = g_malloc (bytes), *before = g_malloc (bytes);
  for (guint t = 0; t < get_n_thread_counts (); t++)
    {
      memset (result.data, 0xff, bytes);
      OrtrainConvAlgorithm algorithm = run_kernel (c, p, dtype, a, b, bias, &result, providers[t], FALSE, FALSE);
      compare_arrays (c, p, algorithm, dtype, &result, expected, 0);
      n_reached[algorithm][p] += t == 0;
      memcpy (before, result.data, bytes);
      run_kernel (c, p, dtype, a, b, bias, &result, providers[t], FALSE, FALSE);
      g_assert_cmpmem (before, bytes, result.data, bytes);
      run_kernel (c, p, dtype, a, b, bias, &result, providers[t], TRUE, FALSE);
      compare_arrays (c, p, algorithm, dtype, &result, expected, 0);
      if (t == 0)
        memcpy (fixed, result.data, bytes);
      g_assert_cmpmem (fixed, bytes, result.data, bytes);
      if (p != GRAD_WEIGHT)
        continue;
      for (gint64 i = 0; i < result.n; i++)
        if (dtype == ORTRAIN_DTYPE_FLOAT64)
          ((double *) result.data)[i] = 0.5;
        else
          ((float *) result.data)[i] = 0.5f;
      run_kernel (c, p, dtype, a, b, bias, &result, providers[t], FALSE, TRUE);
      compare_arrays (c, p, algorithm, dtype, &result, expected, 0.5);
    }
  g_free (result.data);
}

static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64 };

/* The results of plain loops, without the bias: computed once for all algorithms, since they take most of the time. */
static double *references[G_N_ELEMENTS (shapes)][N_PRODUCTS];

/* All products by an algorithm, or by the one that is chosen. kept: of each product, computed where NULL; may be NULL
 */
static void
check_shape (const Case *shape, const char *algorithm, OrtrainProvider **providers, double **kept)
{
  Case c = *shape;
  finish (&c);
  const guint r = (guint) c.rank, rank = r + 2;
  gint64 x_dims[5] = { c.n, c.groups * c.in_per_group }, y_dims[5] = { c.n, c.groups * c.out_per_group };
  gint64 w_dims[5] = { c.groups * c.out_per_group, c.in_per_group };
  for (guint i = 0; i < r; i++)
    {
      x_dims[2 + i] = c.in[3 - r + i];
      w_dims[2 + i] = c.kernel[3 - r + i];
      y_dims[2 + i] = c.out[3 - r + i];
    }
  Array x[2], w[2], y[2], bias[2];
  for (guint d = 0; d < 2; d++)
    {
      array_init (&x[d], dtypes[d], x_dims, rank, 1);
      array_init (&w[d], dtypes[d], w_dims, rank, 2);
      array_init (&y[d], dtypes[d], y_dims, rank, 3);
    }
  for (Product p = 0; p < N_PRODUCTS; p++)
    {
      const gboolean forward = p == FORWARD, weights = p == GRAD_WEIGHT;
      const gboolean biased = p == TRANSPOSED || (forward && c.n != 3); /* some without */
      const gint64 *dims = forward   ? y_dims
                           : weights ? w_dims
                                     : x_dims,
                   n = forward   ? y[0].n
                       : weights ? w[0].n
                                 : x[0].n;
      g_autofree double *expected = g_new0 (double, (gsize) n + 1);
      if (kept != NULL && kept[p] != NULL)
        memcpy (expected, kept[p], (gsize) n * sizeof (double));
      else
        {
          ArraySums sums = { expected, &x[1], &w[1], &y[1], ORTRAIN_DTYPE_FLOAT64 };
          visit (&c, forward ? sum_y : weights ? sum_w : sum_x, &sums);
          if (kept != NULL)
            kept[p] = g_memdup2 (expected, ((gsize) n + 1) * sizeof (double));
        }
      for (guint d = 0; d < 2; d++)
        array_init (&bias[d], dtypes[d], dims + 1, 1, 4);
      for (gint64 i = 0; i < n && biased; i++)
        expected[i] += array_get (&bias[1], ORTRAIN_DTYPE_FLOAT64, i / (n / dims[0] / dims[1]) % dims[1]);
      for (guint d = 0; d < 2; d++)
        {
          if (d == 0 || g_strcmp0 (algorithm, "onednn") != 0)
            check_product (&c, p, dtypes[d], forward ? &x[d] : &y[d], weights ? &x[d] : &w[d], biased ? &bias[d] : NULL,
                           expected, dims, providers);
          g_free (bias[d].data);
        }
    }
  for (guint d = 0; d < 2; d++)
    {
      g_free (x[d].data);
      g_free (w[d].data);
      g_free (y[d].data);
    }
}

static void
check_shapes (const char *algorithm)
{
  OrtrainProvider *providers[G_N_ELEMENTS (thread_counts)];
  memset (n_reached, 0, sizeof n_reached);
  if (algorithm != NULL)
    g_setenv ("ORTRAIN_CONV", algorithm, TRUE);
  else
    g_unsetenv ("ORTRAIN_CONV");
  for (guint t = 0; t < get_n_thread_counts (); t++)
    providers[t] = new_cpu (thread_counts[t]);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    check_shape (&shapes[i], algorithm, providers, references[i]);
  for (guint t = 0; t < get_n_thread_counts (); t++)
    ortrain_provider_unref (providers[t]);
  g_unsetenv ("ORTRAIN_CONV");
}

static void
test_gather (void)
{
  check_shapes ("gather");
  for (Product p = 0; p < N_PRODUCTS; p++)
    {
      g_assert_cmpuint (n_reached[ORTRAIN_CONV_GATHER][p], >, 66);
      g_assert_cmpuint (n_reached[ORTRAIN_CONV_DEPTHWISE][p], >, 13);
    }
}

static void
test_scatter (void)
{
  check_shapes ("scatter");
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_SCATTER][FORWARD], >, 2);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_SCATTER][GRAD_INPUT], >, 66);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_SCATTER][TRANSPOSED], >, 66);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_SCATTER][GRAD_WEIGHT], ==, 0);
}

static void
test_blocked (void)
{
  check_shapes ("blocked");
  for (Product p = 0; p < N_PRODUCTS; p++)
    {
      g_assert_cmpuint (n_reached[ORTRAIN_CONV_BLOCKED][p], >=, 20);
      g_assert_cmpuint (n_reached[ORTRAIN_CONV_DEPTHWISE][p], ==, 0);
    }
}

static void
test_matrix (void)
{
  check_shapes ("matrix");
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_MATRIX][FORWARD], ==, 8);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_MATRIX][GRAD_INPUT], ==, 10);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_MATRIX][TRANSPOSED], ==, 2);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_MATRIX][GRAD_WEIGHT], ==, 10);
}

static void
test_library (void)
{
  check_shapes ("onednn");
#ifdef ORTRAIN_HAVE_DNNL
  if (g_getenv ("ORTRAIN_GEMM") == NULL)
    for (Product p = 0; p < N_PRODUCTS; p++)
      g_assert_cmpuint (n_reached[ORTRAIN_CONV_LIBRARY][p], >, 20);
#endif
}

static void
test_chosen (void)
{
  check_shapes (NULL);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_GATHER][FORWARD], >, 0);
  g_assert_cmpuint (n_reached[ORTRAIN_CONV_SCATTER][GRAD_INPUT], >, 0);
}

/* Sizes at their edges: nothing in, nothing out, kernels that see padding alone, strides beyond the input. */
static void
test_edges (void)
{
  static const Case edges[] = {
    CONV_2D (1, 1, 16, 16, 3, 3, 1, 1, 5, 1, 0, 0),
    CONV_2D (2, 1, 16, 16, 1, 1, 3, 3, 1, 1, 1, 1),
    CONV_2D (1, 1, 16, 16, 2, 2, 1, 1, 1, 1, 4, 4),
    CONV_2D (1, 16, 1, 1, 3, 40, 1, 1, 3, 1, 0, 0),
    CONV_2D (1, 1, 16, 16, 4, 4, 2, 2, 7, 1, 3, 3),
    CONV_2D (1, 1, 32, 32, 5, 300, 2, 2, 3, 9, 6, 6),
    CONV_1D (1, 1, 16, 16, 20, 3, 50, 1, 0),
    CONV_1D (1, 1, 16, 16, 4, 2, 1, 40, 40),
    CONV_3D (1, 1, 16, 16, 1, 1, 9, 1, 1, 3, 4, 0, 0, 1),
    { 1, 1, 16, 16, 2, { 1, 9, 9 }, { 0 }, { 1, 3, 3 }, { 1, 2, 2 }, ONE, { 0, 0, 9, 0, 9, 0 } },
    { 1, 1, 16, 16, 2, { 1, 40, 9 }, { 0 }, { 1, 3, 3 }, { 1, 4, 4 }, ONE, { 0, 12, 0, 0, 0, 7 } },
  };
  static const char *const algorithms[] = { "gather", "scatter", "blocked", "onednn", "" };
  OrtrainProvider *providers[G_N_ELEMENTS (thread_counts)];
  for (guint t = 0; t < get_n_thread_counts (); t++)
    providers[t] = new_cpu (thread_counts[t]);
  for (guint a = 0; a < G_N_ELEMENTS (algorithms); a++)
    {
      g_setenv ("ORTRAIN_CONV", algorithms[a], TRUE);
      for (guint i = 0; i < G_N_ELEMENTS (edges); i++)
        check_shape (&edges[i], algorithms[a], providers, NULL);
      /* No images; no channels in; no filters. */
      for (guint zero = 0; zero < 3; zero++)
        {
          Case c = CONV_2D (2, 1, 16, 16, 9, 9, 3, 3, 1, 1, 1, 1);
          *(zero == 0 ? &c.n : zero == 1 ? &c.in_per_group : &c.out_per_group) = 0;
          finish (&c);
          gint64 x_dims[] = { c.n, c.in_per_group, 9, 9 }, y_dims[] = { c.n, c.out_per_group, 9, 9 };
          gint64 w_dims[] = { c.out_per_group, c.in_per_group, 3, 3 };
          Array x, w, y;
          array_init (&x, ORTRAIN_DTYPE_FLOAT32, x_dims, 4, 1);
          array_init (&w, ORTRAIN_DTYPE_FLOAT32, w_dims, 4, 2);
          array_init (&y, ORTRAIN_DTYPE_FLOAT32, y_dims, 4, 3);
          run_kernel (&c, FORWARD, ORTRAIN_DTYPE_FLOAT32, &x, &w, NULL, &y, providers[1], FALSE, FALSE);
          for (gint64 k = 0; k < y.n; k++)
            g_assert_cmpfloat (array_get (&y, ORTRAIN_DTYPE_FLOAT32, k), ==, 0);
          run_kernel (&c, GRAD_WEIGHT, ORTRAIN_DTYPE_FLOAT32, &y, &x, NULL, &w, providers[1], FALSE, FALSE);
          for (gint64 k = 0; k < w.n; k++)
            g_assert_cmpfloat (array_get (&w, ORTRAIN_DTYPE_FLOAT32, k), ==, 0);
          run_kernel (&c, GRAD_INPUT, ORTRAIN_DTYPE_FLOAT32, &y, &w, NULL, &x, providers[1], FALSE, FALSE);
          for (gint64 k = 0; k < x.n; k++)
            g_assert_cmpfloat (array_get (&x, ORTRAIN_DTYPE_FLOAT32, k), ==, 0);
          g_free (x.data);
          g_free (w.data);
          g_free (y.data);
        }
    }
  g_unsetenv ("ORTRAIN_CONV");
  for (guint t = 0; t < get_n_thread_counts (); t++)
    ortrain_provider_unref (providers[t]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/conv/gather", test_gather);
  g_test_add_func ("/conv/scatter", test_scatter);
  g_test_add_func ("/conv/blocked", test_blocked);
  g_test_add_func ("/conv/matrix", test_matrix);
  g_test_add_func ("/conv/library", test_library);
  g_test_add_func ("/conv/chosen", test_chosen);
  g_test_add_func ("/conv/edges", test_edges);
  const int status = g_test_run ();
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (Product p = 0; p < N_PRODUCTS; p++)
      g_free (references[i][p]);
  return status;
}
