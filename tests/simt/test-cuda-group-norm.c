/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#define OURS "org.ortrain"

static const OrtrainGradientCase cases[] = {
  { "InstanceNormalization", "f[2,3,4];f[3];f[3]" },
  { "GroupNormalization", "f[2,4,3];f[4];f[4]", "num_groups=2" },
  { "LRN", "f[2,5,2,2]", "size=3 alpha=0.1f" },
  { "LRN", "f[2,7,3]", "size=4 alpha=0.5f beta=0.6f bias=2.0f" },
  { "LRN", "f[1,3,5]", "size=9 alpha=0.5f" },
  { "LRN", "f[3,33,1,11]", "size=1 alpha=0.5f" },
  { "LRN", "f[0,3,5]", "size=3" },
};

static const OrtrainGradientCase forward_cases[] = {
  { "GroupNormGrad", "f[2,8,37,8];f[2,8,37,8];f[8]", "num_groups=2", 3, OURS },
  { "GroupNormGrad", "f[3,6,1];f[3,6,1];f[6]", "num_groups=6", 3, OURS },
  { "GroupNormGrad", "f[1,4,90,91];f[1,4,90,91];f[4]", "num_groups=2", 3, OURS },
  { "GroupNormGrad", "f[2,8,37,8];f[2,8,37,8];f[8];f[2,8,1,1];f[2,8,1,1]", "num_groups=8", 3, OURS },
  { "GroupNormGrad", "f[3,6,5];f[3,6,5];f[6];f[3,6,1];f[3,6,1]", NULL, 3, OURS },
  { "GroupNormStatistics", "f[2,8,37,8];f[8]", "num_groups=2", 3, OURS },
  { "GroupNormStatistics", "f[3,6,1];f[6]", NULL, 3, OURS },
  { "GroupNormStatistics", "f[1,4,90,91];f[4]", "num_groups=1 epsilon=0.1f", 3, OURS },
  { "GroupNormStatistics", "f[0,4,2];f[4]", "num_groups=2", 3, OURS },
  { "GroupNormGrad", "f[0,4,2];f[0,4,2];f[4]", "num_groups=2", 3, OURS },
};

static void
test_group_norm (void)
{
  cuda_check_begin ((const char *const[]){ "GroupNormStatistics", "GroupNormGrad", "LRN", "LRNGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-group-norm/kernels", test_group_norm);
  return g_test_run ();
}
