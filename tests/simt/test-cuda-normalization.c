/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#define OURS "org.ortrain"

static const OrtrainGradientCase cases[] = {
  { "LayerNormalization", "f[2,3,4];f[4];f[4]" },
  { "LayerNormalization", "f[2,3,4];f[3,4];f[3,4]", "axis=1" },
  { "LayerNormalization", "f[9,31];f[31]" },
  { "LayerNormalization", "f[3,7,11];f[7,11]", "axis=1 epsilon=0.01f" },
  { "RMSNormalization", "f[2,3,4];f[4]" },
  { "RMSNormalization", "f[11,33];f[33]" },
  { "InstanceNormalization", "f[2,3,4];f[3];f[3]" },
  { "InstanceNormalization", "f[2,2,3,2];f[2];f[2]", "epsilon=0.01f" },
  { "GroupNormalization", "f[2,4,3];f[4];f[4]", "num_groups=2" },
  { "GroupNormalization", "f[3,6,1];f[6];f[6]", "num_groups=2" },
  { "GroupNormalization", "f[2,4,5,7];f[4];f[4]", "num_groups=1" },
};

static const OrtrainGradientCase forward_cases[] = {
  /* in a warp */
  { "LayerNormalization", "f[9,64];f[64];f[64]", NULL, 3 },
  { "LayerNormalization", "f[5,768];f[768];f[768]", NULL, 3 },
  { "LayerNormalization", "f[5,1023];f[1023]" },
  { "RMSNormalization", "f[5,1024];f[1024]" },
  { "RMSNormalization", "f[17,1];f[1]" },
  { "LayerNormGrad", "f[9,64];f[9,64];f[64];f[9,1];p[9,1]", NULL, 3, OURS },
  { "LayerNormGrad", "f[21,768];f[21,768];f[768];f[21,1];p[21,1]", NULL, 3, OURS },
  { "LayerNormGrad", "f[33,257];f[33,257];f[257];f[33,1];p[33,1]", NULL, 3, OURS },
  { "RMSNormGrad", "f[19,1024];f[19,1024];f[1024]", NULL, 2, OURS },
  { "RMSNormGrad", "f[3,5,1023];f[3,5,1023];f[1023]", NULL, 2, OURS },
  /* more rows than parts of the parameters' gradients */
  { "LayerNormGrad", "f[2200,12];f[2200,12];f[12];f[2200,1];p[2200,1]", NULL, 3, OURS },
  { "RMSNormGrad", "f[2113,3];f[2113,3];f[3]", NULL, 2, OURS },
  /* in a block */
  { "LayerNormalization", "f[3,1025];f[1025];f[1025]", NULL, 3 },
  { "LayerNormalization", "f[3,4096];f[4096];f[4096]", NULL, 3 },
  { "RMSNormalization", "f[2,16384];f[16384]" },
  { "LayerNormGrad", "f[3,1025];f[3,1025];f[1025];f[3,1];p[3,1]", NULL, 3, OURS },
  { "RMSNormGrad", "f[5,4096];f[5,4096];f[4096]", NULL, 2, OURS },
  { "RMSNormGrad", "f[300,1028];f[300,1028];f[1028]", NULL, 2, OURS },
  /* of any length */
  { "LayerNormalization", "f[3,16388];f[16388];f[16388]", NULL, 3 },
  { "LayerNormalization", "f[2,20001];f[20001];f[20001]" },
  { "RMSNormalization", "f[2,20001];f[20001]" },
  { "LayerNormGrad", "f[5,8196];f[5,8196];f[8196];f[5,1];p[5,1]", NULL, 3, OURS },
  { "RMSNormGrad", "f[3,8193];f[3,8193];f[8193]", NULL, 2, OURS },
  /* groups: held and not, channels that begin within packs */
  { "GroupNormalization", "f[2,6,35];f[6];f[6]", "num_groups=3" },
  { "GroupNormalization", "f[2,8,37,8];f[8];f[8]", "num_groups=2" },
  { "GroupNormalization", "f[1,4,90,91];f[4];f[4]", "num_groups=1" },
  { "InstanceNormalization", "f[2,3,130,130];f[3];f[3]" },
  /* numbers that a variance of squares would lose, infinities, nothing */
  { "LayerNormalization", "f[2,4]{4096,4097,4098,4099, -8000,-8001,-8002,-8004};f[4];f[4]" },
  { "LayerNormalization", "f[2,4]{nan,1,2,3, inf,1,2,3};f[4];f[4]", NULL, 3 },
  { "RMSNormalization", "f[2,4]{nan,1,2,3, inf,1,2,3};f[4]" },
  { "LayerNormalization", "f[0,4];f[4];f[4]" },
  { "LayerNormGrad", "f[0,4];f[0,4];f[4];f[0,1];p[0,1]", NULL, 3, OURS },
};

static void
test_normalization (void)
{
  cuda_check_begin ((const char *const[]){ "LayerNormalization", "LayerNormGrad", "RMSNormalization", "RMSNormGrad",
                                           "GroupNormalization", "InstanceNormalization", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-normalization/kernels", test_normalization);
  return g_test_run ();
}
