/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "Pad", "f[2,3];i[4]{1,0,0,2}" },
  { "Pad", "f;i[0]{}" },
  { "Pad", "f[3,4];i[4]{1,2,1,1}", "mode='reflect'" },
  { "Pad", "f[3,4];i[4]{1,2,1,1}", "mode='edge'" },
  { "Pad", "f[3,4];i[4]{1,2,1,1}", "mode='wrap'" },
  { "Pad", "f[3,4];i[4]{-1,0,1,-1}" },
  { "Pad", "f[3,4];i[2]{1,2};d{0.5};i[1]{1}" },
  { "Pad", "f[5,33,8];i[6]{0,2,0,0,1,0}" },
  { "Pad", "f[5,31,8];i[6]{0,2,0,0,1,0};d{-2}", "mode='reflect'" },
  { "Pad", "f[2,3,31,33];i[8]{0,0,1,2,0,0,3,0}" },
  { "Pad", "f[2,3,5,4];i[8]{0,0,4,3,0,0,4,3}", "mode='reflect'" },
  { "Pad", "f[2,3,2,4];i[8]{0,0,5,3,0,0,4,9}", "mode='reflect'" },
  { "Pad", "f[2,3,5,4];i[8]{0,0,7,-1,0,0,-2,9}", "mode='edge'" },
  { "Pad", "f[2,3,5,4];i[8]{0,0,-2,-1,0,0,9,-2}", "mode='edge'" },
  { "Pad", "f[2,3,5,4];i[8]{0,0,7,-1,0,0,-2,9}", "mode='wrap'" },
  { "Pad", "f[2,5,4];i[6]{0,-2,3,0,1,-1}", "mode='reflect'" },
  { "Pad", "f[2,1,4];i[6]{0,2,0,0,1,0}", "mode='edge'" },
  { "Pad", "f[2,1,4];i[6]{0,2,0,0,1,0}", "mode='reflect'" },
  { "Pad", "f[1,4,4];i[6]{2,0,0,1,0,0}" },
  { "Pad", "f[0,4];i[4]{1,0,2,0};d{3}" },
  { "Pad", "f[257];i[2]{768,0};d{3}" },
  { "Tile", "f[2,3];i[2]{2,3}" },
  { "Tile", "f[31,33];i[2]{1,3}" },
  { "Tile", "f[3,16];i[2]{5,2}" },
  { "Tile", "f[3,2,5];i[3]{2,1,3}" },
  { "Tile", "f[3];i[1]{0}" },
  { "Tile", "f[1];i[1]{1025}" },
  { "CenterCropPad", "f[4,3];i[2]{3,6}" },
  { "CenterCropPad", "f[2,5,3];i[1]{2}", "axes=[1]" },
  { "CenterCropPad", "f[33,31];i[2]{20,20}" },
  { "Trilu", "f[3,4]" },
  { "Trilu", "f[2,3,3];i{1}", "upper=0" },
  { "Trilu", "f[2,33,31];i{-5}" },
  { "Trilu", "f[257,33];i{-100}", "upper=0" },
  { "Trilu", "f[3,3];i{100}" },
  { "DepthToSpace", "f[1,8,2,2]", "blocksize=2" },
  { "DepthToSpace", "f[2,18,3,5]", "blocksize=3 mode='CRD'" },
  { "SpaceToDepth", "f[1,2,4,4]", "blocksize=2" },
  { "SpaceToDepth", "f[2,3,6,9]", "blocksize=3" },
  { "ReverseSequence", "f[4,3];i[3]{2,4,1}" },
  { "ReverseSequence", "f[3,33,8];i[3]{0,33,17}", "batch_axis=0 time_axis=1" },
  { "ReverseSequence", "f[31,2,3];i[2]{31,5}" },
};

static void
test_cases (void)
{
  static const char *const operators[] = { "Pad",          "PadGrad",      "Tile",  "TileGrad",        "CenterCropPad",
                                           "DepthToSpace", "SpaceToDepth", "Trilu", "ReverseSequence", NULL };
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

/* dy of a type and a result of another. */
static void
test_tile_grad (void)
{
  CudaNode node = { 0 };
  cuda_check_begin ((const char *const[]){ "TileGrad", NULL });
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (4, 33, 62)));
  cuda_node_add_input (&node, cuda_node_ints (3, (const gint64[]){ 2, 11, 31 }));
  cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (2, 11, 31)));
  cuda_node_check (&node, "org.ortrain", "TileGrad", NULL);
  cuda_check_end ();
}

/* Integers, with a value of their type and with one from an old model's attribute. */
static void
test_values (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_INT8,  ORTRAIN_DTYPE_UINT8,  ORTRAIN_DTYPE_INT16,
                                        ORTRAIN_DTYPE_INT32, ORTRAIN_DTYPE_INT64,  ORTRAIN_DTYPE_FLOAT64,
                                        ORTRAIN_DTYPE_BOOL,  ORTRAIN_DTYPE_FLOAT16 };
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (guint old = 0; old < 2; old++)
      {
        CudaNode node = { 0 };
        OrtrainTensor *value = cuda_node_random (old ? ORTRAIN_DTYPE_FLOAT32 : types[t], 5, 0, NULL);
        if (old)
          *(float *) ortrain_tensor_peek_writable (value) = types[t] == ORTRAIN_DTYPE_BOOL ? 1 : 100.0f;
        cuda_node_add_input (&node, cuda_node_random (types[t], 1, CUDA_DIMS (3, 16)));
        cuda_node_add_input (&node, cuda_node_ints (4, (const gint64[]){ 1, 0, 2, t % 2 == 0 ? 0 : 3 }));
        cuda_node_add_input (&node, value);
        cuda_node_add_output (&node, cuda_node_tensor (types[t], CUDA_DIMS (6, t % 2 == 0 ? 16 : 19)));
        cuda_node_compare (&node, "Pad", NULL);
      }
}

static void
test_faults (void)
{
  CudaNode node = { 0 };
  cuda_check_begin ((const char *const[]){ "ReverseSequence", NULL });
  cuda_node_add_input (&node, cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 1, CUDA_DIMS (4, 3)));
  cuda_node_add_input (&node, cuda_node_ints (3, (const gint64[]){ 2, 5, 1 }));
  cuda_node_add_output (&node, cuda_node_tensor (ORTRAIN_DTYPE_FLOAT32, CUDA_DIMS (4, 3)));
  cuda_node_check (&node, "", "ReverseSequence", NULL);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-pad/cases", test_cases);
  g_test_add_func ("/cuda-pad/tile-grad", test_tile_grad);
  g_test_add_func ("/cuda-pad/values", test_values);
  g_test_add_func ("/cuda-pad/faults", test_faults);
  return g_test_run ();
}
