/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

static const OrtrainGradientCase cases[] = {
  { "Softmax", "f[1]" },
  { "Softmax", "f[2,3,4]" },
  { "Softmax", "f[2,3,4]", "axis=1" },
  { "Softmax", "f[5,31]" },
  { "Softmax", "f[3,33,2]", "axis=1" },
  { "Softmax", "f[2,3,35]", "axis=0" },
  { "LogSoftmax", "f[2,3,4]" },
  { "LogSoftmax", "f[2,3,4]", "axis=0" },
  { "LogSoftmax", "f[7,33]" },
};

static const OrtrainGradientCase forward_cases[] = {
  /* in a warp: whole packs, and not */
  { "Softmax", "f[9,64]" },
  { "Softmax", "f[9,257]" },
  { "Softmax", "f[5,1024]" },
  { "Softmax", "f[3,1023]" },
  { "LogSoftmax", "f[5,768]" },
  { "SoftmaxGrad", "f[5,64];f[5,64]", NULL, 1, "org.ortrain" },
  { "SoftmaxGrad", "f[5,1024];f[5,1024]", NULL, 1, "org.ortrain" },
  { "LogSoftmaxGrad", "f[3,511];f[3,511]", NULL, 1, "org.ortrain" },
  /* in a block */
  { "Softmax", "f[3,1025]" },
  { "LogSoftmax", "f[3,4096]" },
  { "Softmax", "f[2,16384]" },
  { "SoftmaxGrad", "f[3,1025];f[3,1025]", NULL, 1, "org.ortrain" },
  { "LogSoftmaxGrad", "f[3,4096];f[3,4096]", NULL, 1, "org.ortrain" },
  /* twice through the memory, from the middle of packs on too */
  { "Softmax", "f[3,50257]" },
  { "LogSoftmax", "f[2,50256]" },
  { "SoftmaxGrad", "f[3,50257];f[3,50257]", NULL, 1, "org.ortrain" },
  { "LogSoftmaxGrad", "f[2,20000];f[2,20000]", NULL, 1, "org.ortrain" },
  /* columns */
  { "Softmax", "f[3,65,33]", "axis=1" },
  { "Softmax", "f[1025,2]", "axis=0" },
  { "LogSoftmax", "f[2,17,5,7]", "axis=1" },
  { "SoftmaxGrad", "f[3,65,33];f[3,65,33]", "axis=1", 1, "org.ortrain" },
  { "LogSoftmaxGrad", "f[257,3];f[257,3]", "axis=0", 1, "org.ortrain" },
  /* infinities, and numbers that e^x would not bear */
  { "Softmax", "f[3,4]{1e30,-1e30,3,4, -inf,2,-inf,1, -inf,-inf,-inf,-inf}" },
  { "Softmax", "f[2,4]{inf,1,2,3, nan,1,2,3}" },
  { "LogSoftmax", "f[3,4]{1000,-1000,3,4, -inf,2,-inf,1, inf,-inf,0,1}" },
  { "Softmax", "f[4,3]{-inf,-inf,1, -inf,-inf,nan, 2,-inf,2, 3,-inf,2}", "axis=0" },
  { "Hardmax", "f[2,3]" },
  { "Hardmax", "f[5,3]{1,3,3, nan,1,2, 1,nan,2, -inf,-inf,-inf, -inf,nan,nan}" },
  { "Hardmax", "f[3,257]" },
  { "Hardmax", "f[3,37,5]", "axis=1" },
  { "Softmax", "f[0,5]" },
  { "Softmax", "f[2,0]" },
};

static void
test_softmax (void)
{
  cuda_check_begin ((const char *const[]){ "Softmax", "LogSoftmax", "Hardmax", "SoftmaxGrad", "LogSoftmaxGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-softmax/kernels", test_softmax);
  return g_test_run ();
}
