/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-run.h"

/* Convolutions and their gradients whose operands have 16 bits or are of several types. Small integers have exact sums
 * in float32, whatever the order: the result must be that of float64, rounded once, to the last bit. */

static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };

#define N_TYPES G_N_ELEMENTS (types)

/* In terms of the convolution, whose output is the small side. */
typedef struct
{
  guint rank; /* spatial */
  gint64 n, channels, filters, groups;
  gint64 size[3], kernel[3], stride[3], dilation[3], pads[3];
} Shape;

static const Shape shapes[] = {
  { 2, 3, 5, 7, 1, { 9, 11 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 1, 1, 1, 1, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 } },
  { 2, 2, 33, 31, 1, { 20, 19 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 } },
  { 2, 2, 7, 5, 1, { 31, 33 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 } },
  { 2, 40, 40, 33, 1, { 4, 4 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 2, 6, 8, 2, { 17, 40 }, { 5, 3 }, { 1, 2 }, { 2, 1 }, { 2, 0 } },
  { 2, 3, 20, 20, 20, { 18, 23 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 2, 20, 20, 20, { 12, 13 }, { 5, 5 }, { 2, 2 }, { 1, 1 }, { 2, 2 } },
  { 1, 2, 3, 9, 1, { 1000 }, { 7 }, { 1 }, { 3 }, { 4 } },
  { 1, 2, 2, 4, 1, { 700 }, { 4 }, { 5 }, { 1 }, { 0 } },
  { 3, 2, 3, 4, 1, { 7, 8, 9 }, { 3, 2, 3 }, { 1, 2, 1 }, { 1, 1, 2 }, { 1, 0, 2 } },
  { 3, 1, 2, 3, 1, { 9, 16, 20 }, { 3, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } },
  { 2, 1, 4, 17, 1, { 40, 40 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
  { 2, 6, 50, 9, 1, { 5, 4 }, { 5, 4 }, { 1, 1 }, { 1, 1 }, { 0, 0 } }, /* one position: a matrix product */
  { 2, 1, 3, 2, 1, { 600, 3 }, { 9, 3 }, { 1, 1 }, { 1, 1 }, { 40, 1 } },
  { 2, 1, 2, 3, 1, { 3, 1100 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, { 0, 0 } },
  { 2, 2, 4, 5, 1, { 12, 12 }, { 2, 2 }, { 3, 3 }, { 1, 1 }, { 0, 0 } }, /* positions that no tap reaches */
};

typedef enum
{
  CONV,
  CONV_BIAS,
  TRANSPOSE,
  TRANSPOSE_BIAS,
  GRAD_INPUT,
  GRAD_WEIGHTS,
  GRAD_WEIGHTS_ADDED,
  N_PRODUCTS
} Product;

static const char *const names[] = { "Conv",          "Conv",           "ConvTranspose", "ConvTranspose",
                                     "ConvGradInput", "ConvGradWeight", "ConvGradWeight" };

/* From -2 to 2. */
static OrtrainTensor *
new_integers (OrtrainDType dtype, const gint64 *dims, gsize rank, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, rank, &error);
  g_assert_no_error (error);
  double *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (wide); i++)
    {
      seed = seed * 1664525u + 1013904223u;
      x[i] = (double) ((seed >> 16) % 5) - 2;
    }
  return kernel_cast (wide, dtype);
}

typedef struct
{
  gint64 large[5], small[5], weights[5];
  guint rank;
} Sides;

static Sides
find_sides (const Shape *shape)
{
  Sides self = { .rank = shape->rank + 2 };
  self.large[0] = self.small[0] = shape->n;
  self.large[1] = shape->channels;
  self.small[1] = self.weights[0] = shape->filters;
  self.weights[1] = shape->channels / shape->groups;
  for (guint i = 0; i < shape->rank; i++)
    {
      self.large[2 + i] = shape->size[i];
      self.weights[2 + i] = shape->kernel[i];
      const gint64 extent = (shape->kernel[i] - 1) * shape->dilation[i] + 1;
      self.small[2 + i] = (shape->size[i] + 2 * shape->pads[i] - extent) / shape->stride[i] + 1;
      /* the output size of a transposed convolution */
      if (self.small[2 + i] < 1)
        g_error ("A shape has no output");
    }
  return self;
}

static OrtrainTensor *
new_shape (const gint64 *dims, guint rank)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *shape = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, (const gint64[]){ rank }, 1, &error);
  g_assert_no_error (error);
  memcpy (ortrain_tensor_peek_writable (shape), dims, rank * sizeof (gint64));
  return shape;
}

/* New: the result for operands of these types. */
static OrtrainTensor *
compute (const Shape *shape, Product product, const OrtrainDType *dtypes, OrtrainDType bias, OrtrainProvider *provider)
{
  const gboolean of_weights = product >= GRAD_WEIGHTS, small_is_result = product <= CONV_BIAS;
  const Sides sides = find_sides (shape);
  gint64 pads[6];
  KernelRun run;
  kernel_run_init (&run, product >= GRAD_INPUT ? "org.ortrain" : "", names[product]);
  run.provider = provider;
  for (guint i = 0; i < shape->rank; i++)
    pads[i] = pads[shape->rank + i] = shape->pads[i];
  ortrain_attributes_set_ints (run.attributes, "pads", pads, 2 * shape->rank);
  ortrain_attributes_set_ints (run.attributes, "strides", shape->stride, shape->rank);
  ortrain_attributes_set_ints (run.attributes, "dilations", shape->dilation, shape->rank);
  ortrain_attributes_set_int (run.attributes, "group", shape->groups);
  kernel_run_add_input (&run, new_integers (dtypes[0], small_is_result ? sides.large : sides.small, sides.rank, 1));
  kernel_run_add_input (&run, new_integers (dtypes[1], of_weights ? sides.large : sides.weights, sides.rank, 2));
  const gint64 *result = of_weights ? sides.weights : small_is_result ? sides.small : sides.large;
  if (product == CONV_BIAS || product == TRANSPOSE_BIAS)
    kernel_run_add_input (&run, new_integers (bias, &result[1], 1, 3));
  if (product >= GRAD_INPUT)
    kernel_run_add_input (&run, new_shape (result, sides.rank));
  kernel_run_add_output (&run, dtypes[2], result, sides.rank);
  if (product == GRAD_WEIGHTS_ADDED)
    {
      g_clear_object (&run.outputs[0]);
      run.outputs[0] = new_integers (dtypes[2], result, sides.rank, 4);
      run.accumulates = 1;
    }
  kernel_run (&run);
  OrtrainTensor *output = g_steal_pointer (&run.outputs[0]);
  kernel_run_clear (&run);
  return output;
}

static void
check (const Shape *shape, Product product, OrtrainTensor *exact, const OrtrainDType *dtypes, OrtrainDType bias)
{
  g_autoptr (OrtrainTensor) found = compute (shape, product, dtypes, bias, NULL), expected = NULL;
  expected = kernel_cast (exact, dtypes[2]);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (exact); i++)
    if (ortrain_tensor_get_scalar (found, i) != ortrain_tensor_get_scalar (expected, i))
      g_error ("%s (%s bias or sum), shape %d, of %s and %s into %s: element %" G_GINT64_FORMAT " is %g, %g is right",
               names[product], product % 2 ? "with" : "without", (int) (shape - shapes),
               ortrain_dtype_get_name (dtypes[0]), ortrain_dtype_get_name (dtypes[1]),
               ortrain_dtype_get_name (dtypes[2]), i, ortrain_tensor_get_scalar (found, i),
               ortrain_tensor_get_scalar (expected, i));
}

static void
test_product (gconstpointer data)
{
  const Product product = (Product) (GPOINTER_TO_UINT (data) % N_PRODUCTS);
  const char *algorithm = GPOINTER_TO_UINT (data) / N_PRODUCTS != 0 ? "onednn" : "";
  g_setenv ("ORTRAIN_CONV", algorithm, TRUE);
  const OrtrainDType f64 = ORTRAIN_DTYPE_FLOAT64, all_f64[] = { f64, f64, f64 };
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    {
      g_autoptr (OrtrainTensor) exact = compute (&shapes[s], product, all_f64, f64, NULL);
      for (guint i = 0; i < N_TYPES * N_TYPES * N_TYPES; i++)
        {
          const OrtrainDType dtypes[] = { types[i % N_TYPES], types[i / N_TYPES % N_TYPES],
                                          types[i / N_TYPES / N_TYPES] };
          check (&shapes[s], product, exact, dtypes, types[(i + s) % N_TYPES]);
        }
    }
}

/* With a fixed partition, the bits are those of one thread. */
static void
test_threads (void)
{
  g_setenv ("ORTRAIN_CONV", "", TRUE);
  const OrtrainDType bf16 = ORTRAIN_DTYPE_BFLOAT16, dtypes[] = { bf16, bf16, bf16 };
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (Product product = 0; product < N_PRODUCTS; product++)
      {
        OrtrainTensor *results[2];
        for (guint i = 0; i < 2; i++)
          {
            const OrtrainProviderOptions options = { .n_threads = i == 0 ? 1 : 3, .fixed_partition = TRUE };
            g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cpu", &options, NULL);
            results[i] = compute (&shapes[s], product, dtypes, bf16, provider);
          }
        kernel_assert_same_bits (results[1], results[0], names[product]);
        g_object_unref (results[0]);
        g_object_unref (results[1]);
      }
}

/* The memory that a large convolution of 16 bits takes in addition to its operands. */
static void
test_workspace (void)
{
  const gint64 x[] = { 64, 64, 56, 56 }, w[] = { 64, 64, 3, 3 };
  for (guint t = 1; t < N_TYPES; t++)
    for (guint product = 0; product < 3; product++)
      {
        static const char *const op_types[] = { "Conv", "ConvGradInput", "ConvGradWeight" };
        g_autoptr (GError) error = NULL;
        g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
        ortrain_attributes_set_ints (attributes, "pads", (const gint64[]){ 1, 1, 1, 1 }, 4);
        const OrtrainOperand image = { types[t], 4, x, 64 * 64 * 56 * 56, 2 * 64 * 64 * 56 * 56, NULL };
        const OrtrainOperand weights = { types[t], 4, w, 64 * 64 * 9, 2 * 64 * 64 * 9, NULL };
        const OrtrainOperand inputs[] = { image, product == 2 ? image : weights };
        OrtrainKernelSetup setup = { .op_type = op_types[product],
                                     .domain = product == 0 ? "" : "org.ortrain",
                                     .attributes = attributes,
                                     .inputs = inputs,
                                     .outputs = product == 2 ? &weights : &image,
                                     .n_inputs = 2,
                                     .n_outputs = 1,
                                     .provider = ortrain_provider_get_host () };
        const OrtrainKernel *kernel =
            ortrain_provider_find (setup.provider, setup.domain, setup.op_type, inputs, 2, setup.outputs, 1, &error);
        g_assert_no_error (error);
        ortrain_kernel_prepare (kernel, &setup, &error);
        g_assert_no_error (error);
        g_assert_cmpuint (setup.workspace_bytes, <, image.n_bytes / 4);
        setup.constants_free (setup.constants);
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  static const char *const paths[] = { "conv",       "conv-bias",    "transpose",         "transpose-bias",
                                       "grad-input", "grad-weights", "grad-weights-added" };
  g_test_add_func ("/half-conv/workspace", test_workspace);
  /* by the algorithm that is chosen, and by oneDNN wherever it can do it */
  for (guint i = 0; i < 2 * N_PRODUCTS; i++)
    {
      g_autofree char *path = g_strconcat ("/half-conv/", paths[i % N_PRODUCTS], i < N_PRODUCTS ? "" : "-onednn", NULL);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_product);
    }
  g_test_add_func ("/half-conv/threads", test_threads);
  return g_test_run ();
}
