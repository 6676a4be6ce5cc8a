/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "EyeLike", "f[31,33]" },        { "EyeLike", "f[33,31]", "k=-5" },
  { "EyeLike", "f[5,3]", "k=100" }, { "EyeLike", "f[257,8]", "k=3 dtype=7" },
  { "EyeLike", "f[0,8]" },
};

static void
test_cases (void)
{
  static const char *const operators[] = { "EyeLike", NULL };
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), FALSE);
  cuda_check_end ();
}

static OrtrainTensor *
make_scalar (OrtrainDType dtype, double value)
{
  g_autoptr (OrtrainTensor) wide = cuda_node_tensor (ORTRAIN_DTYPE_FLOAT64, 0, NULL);
  *(double *) ortrain_tensor_peek_writable (wide) = value;
  return kernel_cast (wide, dtype);
}

static void
test_types (void)
{
  static const OrtrainDType ranges[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT16,
                                         ORTRAIN_DTYPE_INT32,   ORTRAIN_DTYPE_INT64,   ORTRAIN_DTYPE_FLOAT16,
                                         ORTRAIN_DTYPE_BFLOAT16 };
  static const OrtrainDType eyes[] = { ORTRAIN_DTYPE_BOOL,    ORTRAIN_DTYPE_INT8,    ORTRAIN_DTYPE_UINT16,
                                       ORTRAIN_DTYPE_INT32,   ORTRAIN_DTYPE_UINT64,  ORTRAIN_DTYPE_FLOAT64,
                                       ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  for (guint t = 0; t < G_N_ELEMENTS (ranges); t++)
    {
      CudaNode node = { 0 };
      cuda_node_add_input (&node, make_scalar (ranges[t], 3));
      cuda_node_add_input (&node, make_scalar (ranges[t], 3 - 2 * 300));
      cuda_node_add_input (&node, make_scalar (ranges[t], -2));
      cuda_node_add_output (&node, cuda_node_tensor (ranges[t], CUDA_DIMS (300)));
      cuda_node_compare (&node, "Range", NULL);
    }
  for (guint t = 0; t < G_N_ELEMENTS (eyes); t++)
    {
      CudaNode node = { 0 };
      cuda_node_add_input (&node, cuda_node_random (eyes[t], 1, CUDA_DIMS (33, 9)));
      cuda_node_add_output (&node, cuda_node_tensor (eyes[t], CUDA_DIMS (33, 9)));
      cuda_node_compare (&node, "EyeLike", "k=-2");
    }
}

static void
test_shape (void)
{
  static const struct
  {
    const char *op_type, *attributes;
    gint64 n;
  } shapes[] = {
    { "Shape", NULL, 4 }, { "Shape", "start=1 end=-1", 2 }, { "Shape", "start=4", 0 }, { "Size", NULL, 0 }
  };
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      CudaNode node = { 0 };
      cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (2, 3, 31, 1)));
      cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_INT64, i < 3 ? 1 : 0, &shapes[i].n));
      cuda_node_compare (&node, shapes[i].op_type, shapes[i].attributes);
    }
}

/* A fill with a value, in elements of all sizes and in odd numbers. */
static void
test_fill (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_INT8, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT32,
                                        ORTRAIN_DTYPE_INT64 };
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (gint64 n = 31; n < 34; n++)
      {
        OrtrainTensor *results[2];
        for (guint cuda = 0; cuda < 2; cuda++)
          {
            KernelRun run;
            g_autoptr (GError) error = NULL;
            const OrtrainProviderOptions options = { .n_threads = 1 };
            g_autoptr (OrtrainProvider) provider = cuda ? ortrain_provider_open ("cuda", &options, &error) : NULL;
            g_assert_no_error (error);
            g_autoptr (OrtrainTensor) value = cuda_node_random (types[t], 7, CUDA_DIMS (1));
            kernel_run_init (&run, "", "ConstantOfShape");
            ortrain_attributes_set_tensor (run.attributes, "value", value);
            run.provider = provider;
            kernel_run_add_input (&run, cuda_node_ints (1, &n));
            kernel_run_add_output (&run, types[t], &n, 1);
            kernel_run (&run);
            results[cuda] = g_object_ref (run.outputs[0]);
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
  g_test_add_func ("/cuda-generator/cases", test_cases);
  g_test_add_func ("/cuda-generator/types", test_types);
  g_test_add_func ("/cuda-generator/shape", test_shape);
  g_test_add_func ("/cuda-generator/fill", test_fill);
  return g_test_run ();
}
