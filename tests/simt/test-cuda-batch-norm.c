/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/batch-norm-again.h"
#include "simt/cuda-kernel-check.h"

#define OURS "org.ortrain"

static const OrtrainGradientCase cases[] = {
  { "BatchNormalization", "f[2,3,2];f[3];f[3];c[3];q[3]" },
  { "BatchNormalization", "f[2,3,2];c[3];f[3];c[3];q[3]" },
  { "BatchNormalization", "f[2,3,2];c[3];c[3];c[3];q[3]" },
  { "BatchNormalization", "f[5,33];f[33];f[33];c[33];q[33]" },
  { "BatchNormTrain", "f[3,2,2];f[2];f[2];d[2]{0.1,0.2};d[2]{1,1.5}", "momentum=0.7f", 5, OURS },
  { "BatchNormTrain", "f[4,3];f[3];f[3];d[3]{0,0,0};d[3]{1,1,1}", "epsilon=0.01f", 5, OURS },
  { "BatchNormTrain", "f[2,3,4,4];f[3];f[3];d[3]{0,0,0};d[3]{1,1,1}", NULL, 5, OURS },
};

static const OrtrainGradientCase forward_cases[] = {
  { "BatchNormalization", "f[2,5,8,8];f[5];f[5];f[5];p[5]" },
  { "BatchNormTrain", "f[2,5,8,8];f[5];f[5];f[5];p[5]", NULL, 6, OURS },
  { "BatchNormTrain", "f[70,37];f[37];f[37];f[37];p[37]", NULL, 6, OURS },
  { "BatchNormTrain", "f[1025,3];f[3];f[3];f[3];p[3]", NULL, 6, OURS },
  /* several units for each channel, the last one shorter */
  { "BatchNormTrain", "f[7,2,61,67];f[2];f[2];f[2];p[2]", NULL, 6, OURS },
  { "BatchNormTrain", "f[5,2,64,64];f[2];f[2];f[2];p[2]", NULL, 6, OURS },
  { "NormApply", "f[2,5,8,8];f[5,1,1];f[5,1,1];f[5,1,1]", NULL, 1, OURS },
  { "NormApply", "f[2,5,3,7];f[5,1,1];f[5,1,1];f[5,1,1]", NULL, 1, OURS },
  { "NormApply", "f[70,37];f[37];f[37];f[37]", NULL, 1, OURS },
  { "BatchNormGrad", "f[7,2,61,67];f[7,2,61,67];f[2];f[2];p[2]", NULL, 3, OURS },
  { "BatchNormGrad", "f[5,2,64,64];f[5,2,64,64];f[2];f[2];p[2]", NULL, 3, OURS },
  { "BatchNormGrad", "f[1025,33];f[1025,33];f[33];f[33];p[33]", NULL, 3, OURS },
  { "BatchNormFrozenGrad", "f[5,2,64,64];f[5,2,64,64];f[2];f[2];p[2]", NULL, 3, OURS },
  { "BatchNormFrozenGrad", "f[3,2,31];f[3,2,31];f[2];f[2];p[2]", NULL, 3, OURS },
  { "BatchNormTrain", "f[2,2,2]{nan,1,2,3,4,5,6,inf};f[2];f[2];f[2];p[2]", NULL, 6, OURS },
  { "BatchNormalization", "f[0,3,2];f[3];f[3];f[3];p[3]" },
};

static void
test_batch_norm (void)
{
  cuda_check_begin ((const char *const[]){ "BatchNormalization", "BatchNormTrain", "NormApply", "BatchNormGrad",
                                           "BatchNormFrozenGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

static void
test_again (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  check_batch_norms_again (cuda, ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32);
  check_batch_norms_again (cuda, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32);
  check_batch_norms_again (cuda, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_FLOAT32);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-batch-norm/kernels", test_batch_norm);
  g_test_add_func ("/cuda-batch-norm/again", test_again);
  return g_test_run ();
}
