/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

/* The same bits as on the CPU. */

static OrtrainTensor *
make_scale (OrtrainDType dtype, guint rank, const gint64 *dims)
{
  g_autoptr (OrtrainTensor) wide = kernel_random (ORTRAIN_DTYPE_FLOAT64, dims, rank, 1, 5);
  double *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (wide); i++)
    x[i] = 0.004 + fabs (x[i]) / 128;
  return kernel_cast (wide, dtype);
}

/* quantized: a type of integers; zero: of that type, or none. scale: of the given shape */
static void
check (OrtrainDType real, OrtrainDType quantized, gboolean zero, guint rank, const gint64 *scale,
       const char *attributes)
{
  const gint64 dims[] = { 3, 33, 6 };
  OrtrainTensor *zeros = zero ? cuda_node_random (quantized, 9, rank, scale) : NULL;
  CudaNode node = { 0 };
  OrtrainTensor *x = cuda_node_random (real, 1, 3, dims);
  if (real == ORTRAIN_DTYPE_FLOAT32)
    {
      float *numbers = ortrain_tensor_peek_writable (x);
      numbers[0] = NAN;
      numbers[1] = INFINITY;
      numbers[2] = -INFINITY;
    }
  cuda_node_add_input (&node, x);
  cuda_node_add_input (&node, make_scale (real, rank, scale));
  cuda_node_add_input (&node, zeros != NULL ? g_object_ref (zeros) : NULL);
  cuda_node_add_output (&node, cuda_node_tensor (quantized, 3, dims));
  cuda_node_compare (&node, "QuantizeLinear", attributes);
  cuda_node_add_input (&node, cuda_node_random (quantized, 2, 3, dims));
  cuda_node_add_input (&node, make_scale (real, rank, scale));
  cuda_node_add_input (&node, zeros);
  cuda_node_add_output (&node, cuda_node_tensor (real, 3, dims));
  cuda_node_compare (&node, "DequantizeLinear", attributes);
}

static void
test_linear (void)
{
  static const OrtrainDType reals[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                        ORTRAIN_DTYPE_BFLOAT16 };
  static const OrtrainDType integers[] = { ORTRAIN_DTYPE_INT8, ORTRAIN_DTYPE_UINT8, ORTRAIN_DTYPE_INT16,
                                           ORTRAIN_DTYPE_UINT16 };
  const gint64 channels[] = { 33 }, blocks[] = { 3, 5, 6 };
  for (guint r = 0; r < G_N_ELEMENTS (reals); r++)
    for (guint i = 0; i < G_N_ELEMENTS (integers); i++)
      {
        check (reals[r], integers[i], TRUE, 0, NULL, NULL);
        check (reals[r], integers[i], FALSE, 1, channels, "axis=1");
        check (reals[r], integers[i], TRUE, 3, blocks, "axis=1 block_size=7");
      }
}

static void
test_dynamic (void)
{
  const gint64 sizes[] = { 1, 33, 1025, 50257 };
  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (guint odd = 0; odd < 3; odd++)
      for (guint k = 0; k < 3; k++) /* each of the outputs */
        {
          OrtrainTensor *results[2];
          for (guint cuda = 0; cuda < 2; cuda++)
            {
              KernelRun run;
              g_autoptr (GError) error = NULL;
              const OrtrainProviderOptions options = { .n_threads = 1 };
              g_autoptr (OrtrainProvider) provider = cuda ? ortrain_provider_open ("cuda", &options, &error) : NULL;
              g_assert_no_error (error);
              OrtrainTensor *x = cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 3 + odd, CUDA_DIMS (sizes[s]));
              float *numbers = ortrain_tensor_peek_writable (x);
              for (gint64 i = 0; odd == 1 && i < sizes[s]; i++)
                numbers[i] = 0;
              if (odd == 2)
                numbers[sizes[s] / 2] = NAN;
              kernel_run_init (&run, "", "DynamicQuantizeLinear");
              run.provider = provider;
              kernel_run_add_input (&run, x);
              kernel_run_add_output (&run, ORTRAIN_DTYPE_UINT8, &sizes[s], 1);
              kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, NULL, 0);
              kernel_run_add_output (&run, ORTRAIN_DTYPE_UINT8, NULL, 0);
              kernel_run (&run);
              results[cuda] = g_object_ref (run.outputs[k]);
              kernel_run_clear (&run);
            }
          g_assert_cmpmem (ortrain_tensor_peek (results[0]), ortrain_tensor_get_n_bytes (results[0]),
                           ortrain_tensor_peek (results[1]), ortrain_tensor_get_n_bytes (results[1]));
          g_object_unref (results[0]);
          g_object_unref (results[1]);
        }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-quantize/linear", test_linear);
  g_test_add_func ("/cuda-quantize/dynamic", test_dynamic);
  return g_test_run ();
}
