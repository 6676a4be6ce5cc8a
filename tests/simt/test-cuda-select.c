/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "TopK", "f[3,5];i[1]{2}", "axis=1", 2 },     { "TopK", "f[5,2];i[1]{3}", "axis=0 largest=0", 2 },
  { "TopK", "f[3,33,2];i[1]{33}", "axis=1", 2 }, { "TopK", "f[2,1025];i[1]{31}", "largest=0", 2 },
  { "TopK", "f[2050];i[1]{9}", "axis=0", 2 },    { "TopK", "f[3,5];i[1]{1}", NULL, 2 },
  { "TopK", "f[3,5];i[1]{0}", NULL, 2 },
};

static void
test_cases (void)
{
  static const char *const operators[] = { "TopK", NULL };
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), FALSE);
  cuda_check_end ();
}

/* Many that are equal, in all types that have an order; values and indices. */
static void
test_top_k (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT8,   ORTRAIN_DTYPE_UINT8,
                                        ORTRAIN_DTYPE_INT16,   ORTRAIN_DTYPE_UINT16, ORTRAIN_DTYPE_INT32,
                                        ORTRAIN_DTYPE_UINT32,  ORTRAIN_DTYPE_INT64,  ORTRAIN_DTYPE_UINT64,
                                        ORTRAIN_DTYPE_FLOAT32 };
  static const gint64 ks[] = { 3, 40, 300 };
  cuda_check_begin ((const char *const[]){ "TopK", NULL });
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (guint i = 0; i < G_N_ELEMENTS (ks); i++)
      {
        CudaNode node = { 0 };
        OrtrainTensor *x = cuda_node_random (types[t], 9, CUDA_DIMS (2, 300));
        if (types[t] == ORTRAIN_DTYPE_FLOAT32)
          for (guint j = 0; j < 600; j++)
            ((float *) ortrain_tensor_peek_writable (x))[j] = roundf (((const float *) ortrain_tensor_peek (x))[j] * 8);
        cuda_node_add_input (&node, x);
        cuda_node_add_input (&node, cuda_node_ints (1, &ks[i]));
        cuda_node_add_output (&node, cuda_node_tensor (types[t], CUDA_DIMS (2, ks[i])));
        cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_INT64, CUDA_DIMS (2, ks[i])));
        cuda_node_check (&node, "", "TopK", i == 1 ? "largest=0" : NULL);
      }
  cuda_check_end ();
}

static void
test_one_hot (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_INT8,    ORTRAIN_DTYPE_UINT8,   ORTRAIN_DTYPE_INT16,
                                        ORTRAIN_DTYPE_UINT16,  ORTRAIN_DTYPE_INT32,   ORTRAIN_DTYPE_UINT32,
                                        ORTRAIN_DTYPE_INT64,   ORTRAIN_DTYPE_UINT64,  ORTRAIN_DTYPE_FLOAT64,
                                        ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      CudaNode node = { 0 };
      g_autoptr (OrtrainTensor) indices = cuda_node_indices (ORTRAIN_DTYPE_INT32, -40, 40, 3, CUDA_DIMS (5, 7));
      cuda_node_add_input (&node, kernel_cast (indices, types[t]));
      cuda_node_add_input (&node, cuda_node_ints (1, (const gint64[]){ 33 }));
      cuda_node_add_input (&node, cuda_node_random (types[t], 3, CUDA_DIMS (2)));
      cuda_node_add_output (&node, cuda_node_tensor (types[t], CUDA_DIMS (5, 33, 7)));
      cuda_node_compare (&node, "OneHot", "axis=1");
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-select/cases", test_cases);
  g_test_add_func ("/cuda-select/top-k", test_top_k);
  g_test_add_func ("/cuda-select/one-hot", test_one_hot);
  return g_test_run ();
}
