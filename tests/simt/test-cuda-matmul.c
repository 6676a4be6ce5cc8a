/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

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

/* Products of float32 are rounded to TF32 where that is allowed, and nowhere else. */
static void
test_tf32 (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT64 };
  static const gint64 a[] = { 8, 16 }, b[] = { 16, 24 }, y[] = { 8, 24 };
  for (guint i = 0; i < 2 * G_N_ELEMENTS (dtypes); i++)
    {
      const OrtrainProviderOptions options = { .n_threads = 1, .allow_tf32 = i % 2 != 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
      g_assert_no_error (error);
      KernelRun run;
      kernel_run_init (&run, "", "MatMul");
      run.provider = cuda;
      kernel_run_add_input (&run, kernel_random (dtypes[i / 2], a, 2, 1, 1));
      kernel_run_add_input (&run, kernel_random (dtypes[i / 2], b, 2, 1, 2));
      kernel_run_add_output (&run, dtypes[i / 2], y, 2);
      const guint64 rounded = ortrain_fake_cuda_count_launches ("product-tf32");
      const guint64 exact = ortrain_fake_cuda_count_launches ("product");
      kernel_run_try (&run, &error);
      g_assert_no_error (error);
      kernel_run_clear (&run);
      if (!ortrain_fake_cuda_is_in_use ())
        continue;
      const guint64 wanted = dtypes[i / 2] == ORTRAIN_DTYPE_FLOAT32 && options.allow_tf32 ? 1 : 0;
      g_assert_cmpuint (ortrain_fake_cuda_count_launches ("product-tf32") - rounded, ==, wanted);
      g_assert_cmpuint (ortrain_fake_cuda_count_launches ("product") - exact, ==, 1 - wanted);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-matmul/products", test_products);
  g_test_add_func ("/cuda-matmul/tf32", test_tf32);
  return g_test_run ();
}
