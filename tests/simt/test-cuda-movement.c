/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "Identity", "f[31]" },
  { "Identity", "f[0,3]" },
  { "Reshape", "f[2,3,4];i[2]{0,-1}" },
  { "Flatten", "f[2,3,4]", "axis=2" },
  { "Squeeze", "f[2,1,3];i[1]{1}" },
  { "Unsqueeze", "f[2,3];i[2]{0,3}" },
  { "Transpose", "f[1,1]" },
  { "Transpose", "f[33,257]" },
  { "Transpose", "f[1025,31]" },
  { "Transpose", "f[3,65,66]", "perm=[0,2,1]" },
  { "Transpose", "f[2,35,3,34]", "perm=[0,3,2,1]" },
  { "Transpose", "f[2,5,3,64]", "perm=[0,2,1,3]" },
  { "Transpose", "f[2,5,3,7]", "perm=[0,2,1,3]" },
  { "Transpose", "f[4,3,6,8]", "perm=[2,0,3,1]" },
  { "Transpose", "f[2,3,2,2,3,2]", "perm=[5,3,1,4,2,0]" },
  { "Transpose", "f[0,3]" },
  { "Transpose", "f" },
  { "Expand", "f[3,1];i[3]{2,1,4}" },
  { "Expand", "f[1,1025];i[2]{31,1}" },
  { "Expand", "f[257,1];i[2]{1,33}" },
  { "Expand", "f[4,1,8];i[3]{4,5,8}" },
  { "Expand", "f;i[2]{2,3}" },
  { "Expand", "f[1];i[1]{0}" },
  { "Concat", "f[2,3];f[2,1];f[2,2]", "axis=1" },
  { "Concat", "f[1,3];f[2,3]", "axis=-2" },
  { "Concat", "f[33,16];f[33,64];f[33,0];f[33,32]", "axis=1" },
  { "Concat", "f[257,31];f[257,1]", "axis=1" },
  { "Concat", "f[4,8];f[4,8];f[4,8]", "axis=0" },
  { "Concat",
    "f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];"
    "f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[1];f[2];f[3];f[1]",
    "axis=0" },
  { "Split", "f[2,6]", "axis=1 num_outputs=3", 3 },
  { "Split", "f[6,2];i[2]{2,4}", "axis=0", 2 },
  { "Split", "f[7]", "num_outputs=2", 2 },
  { "Split", "f[33,96];i[3]{32,16,48}", "axis=1", 3 },
  { "Split", "f[5,7,9];i[3]{1,0,6}", "axis=1", 3 },
  { "Slice", "f[4,5];i[2]{1,0};i[2]{3,5};i[2]{0,1};i[2]{1,2}" },
  { "Slice", "f[6];i[1]{-1};i[1]{-7};i[1]{0};i[1]{-2}" },
  { "Slice", "f[33,257];i[2]{32,256};i[2]{-100,-500};i[2]{0,1};i[2]{-1,-1}" },
  { "Slice", "f[31,64];i[1]{16};i[1]{48};i[1]{1}" },
  { "Slice", "f[4,5];i[1]{2};i[1]{2};i[1]{1}" },
  { "Slice", "f[8,5];i[1]{0};i[1]{8};i[1]{0}" },
  { "Slice", "f[65,66];i[2]{1,3};i[2]{65,60};i[2]{0,1};i[2]{2,7}" },
};

static void
test_movement (void)
{
  static const char *const operators[] = { "Identity",  "Reshape",   "Flatten", "Squeeze", "Unsqueeze",
                                           "Transpose", "Expand",    "Concat",  "Split",   "ConcatGrad",
                                           "Slice",     "SliceGrad", NULL };
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

/* Elements of 1, 2, 4, 8 and 16 bytes: the same bits as on the CPU. */
static const OrtrainDType types[] = { ORTRAIN_DTYPE_BOOL,  ORTRAIN_DTYPE_INT8,    ORTRAIN_DTYPE_INT16,
                                      ORTRAIN_DTYPE_INT32, ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_COMPLEX128 };

static void
test_sizes (void)
{
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      const OrtrainDType dtype = types[t] == ORTRAIN_DTYPE_COMPLEX128 ? ORTRAIN_DTYPE_INT8 : types[t];
      const gint64 whole[] = { 37, 65 }, turned[] = { 65, 37 }, part[] = { 37, 14 }, wide = types[t] != dtype ? 16 : 1;
      CudaNode node = { 0 };
      /* bytes in the place of complex numbers, which nothing draws */
      OrtrainTensor *x = cuda_node_tensor (types[t], 2, whole);
      g_autoptr (OrtrainTensor) bytes = cuda_node_random (dtype, t, 2, (const gint64[]){ 37, 65 * wide });
      memcpy (ortrain_tensor_peek_writable (x), ortrain_tensor_peek (bytes), ortrain_tensor_get_n_bytes (x));
      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_output (&node, cuda_node_tensor (types[t], 2, turned));
      cuda_node_compare (&node, "Transpose", "perm=[1,0]");

      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_input (&node, cuda_node_ints (2, (const gint64[]){ 0, 3 }));
      cuda_node_add_input (&node, cuda_node_ints (2, (const gint64[]){ 37, 58 }));
      cuda_node_add_input (&node, cuda_node_ints (2, (const gint64[]){ 0, 1 }));
      cuda_node_add_input (&node, cuda_node_ints (2, (const gint64[]){ 1, 4 }));
      cuda_node_add_output (&node, cuda_node_tensor (types[t], 2, part));
      cuda_node_compare (&node, "Slice", "axis=0");

      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_output (&node, cuda_node_tensor (types[t], CUDA_DIMS (37, 130)));
      cuda_node_compare (&node, "Concat", "axis=1");

      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_output (&node, cuda_node_tensor (types[t], 2, whole));
      cuda_node_compare (&node, "BitCast", "to=1");

      /* gradients of which the second and the last are absent */
      cuda_node_add_input (&node, cuda_node_ints (2, (const gint64[]){ 37, 260 }));
      cuda_node_add_input (&node, cuda_node_ints (4, (const gint64[]){ 65, 65, 65, 65 }));
      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_input (&node, NULL);
      cuda_node_add_input (&node, g_object_ref (x));
      cuda_node_add_output (&node, cuda_node_tensor (types[t], CUDA_DIMS (37, 260)));
      cuda_node_compare (&node, "SplitGrad", "axis=1 num_outputs=4");
      g_object_unref (x);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-movement/kernels", test_movement);
  g_test_add_func ("/cuda-movement/sizes", test_sizes);
  return g_test_run ();
}
