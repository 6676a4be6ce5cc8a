/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

static const OrtrainGradientCase cases[] = {
  { "MatMul", "f[1,1];f[1,1]" },
  { "MatMul", "f[3];f[3]" },
  { "MatMul", "f[31,33];f[33,7]" },
  { "MatMul", "f[2,3,31,33];f[33,7]" },
  { "MatMul", "f[2,3,5,7];f[2,3,7,4]" },
  { "MatMul", "f[2,1,5,7];f[3,7,4]" }, /* both are broadcast: several runs */
  { "MatMul", "f[3,5,7];f[2,1,7,4]" },
  { "MatMul", "f[7];f[2,7,4]" },
  { "MatMul", "f[2,5,7];f[7]" },
  { "MatMul", "f[65,257];f[257,129]" },
  { "Gemm", "f[31,33];f[33,7];f[7]" },
  { "Gemm", "f[31,33];f[7,33];f[31,1]", "transB=1 alpha=0.5f beta=2f" },
  { "Gemm", "f[33,31];f[33,7];f[31,7]", "transA=1" },
  { "Gemm", "f[33,31];f[7,33];f[]", "transA=1 transB=1" },
  { "Gemm", "f[31,33];f[33,7]", "alpha=0.25f" },
  { "Gemm", "f[3,4];f[4,5];f[5]", "beta=0f" },
};

static const OrtrainGradientCase forward[] = {
  { "FusedMatMul", "f[2,3,4];f[4,2,5]", "permA=[0,2,1] transA=1 permB=[1,0,2] alpha=0.5f", 1, "org.ortrain" },
  { "FusedMatMul", "f[2,3,4];f[2,5,4]", "transB=1 permY=[1,0,2]", 1, "org.ortrain" },
  { "FusedMatMul", "f[2,9,3,16];f[2,9,3,16]", "permA=[0,2,1,3] permB=[0,2,3,1]", 1, "org.ortrain" },
  { "FusedMatMul", "f[2,3,9,9];f[2,9,3,16]", "permB=[0,2,1,3] permY=[0,2,1,3]", 1, "org.ortrain" },
};

static void
test_products (void)
{
  cuda_check_begin ((const char *const[]){ "MatMul", "Gemm", "FusedMatMul", NULL });
  cuda_check_set_tolerance (3e-5); /* sums of 257 in float32 */
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward, G_N_ELEMENTS (forward), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-matmul/products", test_products);
  return g_test_run ();
}
