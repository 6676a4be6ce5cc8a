/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"

static const OrtrainGradientCase cases[] = {
  { "MaxPool", "f[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]" },
  { "MaxPool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "MaxPool", "f[1,1,6]", "kernel_shape=[3] dilations=[2]" },
  { "MaxPool", "f[1,2,5,4]", "kernel_shape=[2,2] strides=[2,2] ceil_mode=1" },
  { "MaxPool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] auto_pad='SAME_UPPER'" },
  { "MaxPool", "f[1,1,18,18]", "kernel_shape=[17,16]" },
  { "MaxPool", "f[2,2,5,4]", "kernel_shape=[2,3] strides=[2,1] storage_order=1", 2 },
  { "MaxPool", "f[1,2,3,4,3]", "kernel_shape=[2,2,2] pads=[1,0,0,0,1,0] storage_order=1", 2 },
  { "MaxPool", "f[1,2,3,4,3]", "kernel_shape=[2,2,2] pads=[1,0,0,0,1,0]", 2 },
  { "MaxPool", "f[1,1,9,11]", "kernel_shape=[3,2] strides=[1,2] dilations=[2,3] pads=[2,1,2,1]" },
  { "AveragePool", "f[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]" },
  { "AveragePool", "f[1,1,5,5]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "AveragePool", "f[1,1,5,5]", "kernel_shape=[3,3] pads=[1,1,1,1] count_include_pad=1" },
  { "AveragePool", "f[1,1,6,5]", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,0] ceil_mode=1" },
  { "AveragePool", "f[1,1,6,5]", "kernel_shape=[3,2] strides=[2,3] pads=[1,1,1,0] ceil_mode=1 count_include_pad=1" },
  { "AveragePool", "f[1,2,7]", "kernel_shape=[2] strides=[2] dilations=[2] auto_pad='SAME_UPPER'" },
  { "AveragePool", "f[1,2,3,4,3]", "kernel_shape=[2,2,2] strides=[1,2,1] dilations=[2,1,1]" },
  { "LpPool", "p[1,2,4,4]", "kernel_shape=[2,2] strides=[2,2]" },
  { "LpPool", "f[1,2,5,4]", "kernel_shape=[2,3] pads=[1,0,0,1] p=3" },
  { "LpPool", "f[1,2,5,4]", "kernel_shape=[2,3] p=1" },
  { "GlobalAveragePool", "f[2,3,4,2]" },
  { "GlobalAveragePool", "f[2,3,11,5]" },
  { "GlobalMaxPool", "f[2,3,4,2]" },
  { "GlobalMaxPool", "f[2,3,7,9]" },
  { "GlobalLpPool", "p[2,3,4]", "p=2" },
  { "GlobalLpPool", "p[2,3,37]", "p=3" },
};

static const OrtrainGradientCase forward_cases[] = {
  { "MaxPoolTrain", "f[1,1,4]", "kernel_shape=[2] strides=[3] pads=[3,3] dilations=[2]", 2, "org.ortrain" },
  { "MaxPoolTrain", "f[2,1,5,5]", "kernel_shape=[3,3] strides=[2,2] auto_pad='SAME_LOWER'", 2, "org.ortrain" },
  { "MaxPool", "f[2,3,33,31]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]", 2 },
  { "AveragePool", "f[2,3,33,31]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" },
  { "GlobalAveragePool", "f[2,5,33,31]" },
  { "MaxPool", "f[1,1,6]{1,nan,3,nan,-inf,2}", "kernel_shape=[3]", 2 },
  { "MaxPool", "f[1,1,4]{-inf,-inf,-inf,1}", "kernel_shape=[2]", 2 },
  { "GlobalMaxPool", "f[1,3,4]{1,nan,3,nan, -inf,-inf,-inf,-inf, 2,inf,3,1}" },
  { "MaxPool", "f[0,2,4]", "kernel_shape=[2]", 2 },
};

/* By our kernels alone: cuDNN has no engine that can be made. */
static void
test_pool (void)
{
  const guint64 before = ortrain_fake_cuda_count_launches ("dnn");
  g_setenv ("ORTRAIN_FAKE_CUDNN_REFUSE", "9", TRUE);
  cuda_check_begin ((const char *const[]){ "MaxPool", "MaxPoolTrain", "MaxPoolGrad", "AveragePool", "AveragePoolGrad",
                                           "GlobalAveragePool", "GlobalMaxPool", "GlobalMaxPoolGrad", "LpPool",
                                           "GlobalLpPool", "LpPoolGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
  g_unsetenv ("ORTRAIN_FAKE_CUDNN_REFUSE");
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (ortrain_fake_cuda_count_launches ("dnn"), ==, before);
}

typedef struct
{
  OrtrainGradientCase operation;
  gboolean forward_only, stays; /* stays: with our kernels */
} LibraryCase;

/* Sizes that no case above has: plans live as long as the process, and those have failed. */
static const LibraryCase library_cases[] = {
  { { "AveragePool", "f[1,3,4,4]", "kernel_shape=[2,2] strides=[2,2]" } },
  { { "AveragePool", "f[1,2,7,5]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" } },
  { { "AveragePool", "f[2,1,5,5]", "kernel_shape=[3,3] pads=[1,1,1,1] count_include_pad=1" } },
  { { "AveragePool", "f[1,2,6,5]", "kernel_shape=[3,2] strides=[2,2] pads=[0,1,1,0]" } },
  { { "AveragePool", "f[1,3,6,5]", "kernel_shape=[3,2] strides=[2,2] pads=[1,1,1,0] ceil_mode=1" } },
  { { "AveragePool", "f[1,2,7]", "kernel_shape=[2] strides=[2] auto_pad='SAME_UPPER'" } },
  { { "AveragePool", "f[1,2,3,4,3]", "kernel_shape=[2,2,2] strides=[1,2,1]" } },
  { { "AveragePool", "f[2,3,35,31]", "kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]" } },
  { { "MaxPool", "f[1,3,5,4]", "kernel_shape=[2,2] strides=[2,2] ceil_mode=1" }, TRUE },
  { { "MaxPool", "f[2,1,6]{1,nan,3,nan,-inf,2, -inf,-inf,-inf,-inf,-inf,-inf}", "kernel_shape=[3] pads=[1,0]" }, TRUE },
  { { "MaxPoolTrain", "f[1,3,5,5]", "kernel_shape=[2,2] strides=[2,2]", 2, "org.ortrain" }, TRUE, TRUE }, /* places */
  { { "MaxPool", "f[1,1,7]", "kernel_shape=[3] dilations=[2]" }, TRUE, TRUE },
  { { "AveragePool", "f[1,4,6,5]", "kernel_shape=[3,2] strides=[2,3] pads=[1,1,1,0] ceil_mode=1 count_include_pad=1" },
    FALSE,
    TRUE },
  { { "AveragePool", "f[1,4,7]", "kernel_shape=[2] dilations=[2]" }, FALSE, TRUE },
  { { "AveragePool", "f[1,2,4]", "kernel_shape=[2] pads=[2,0]" }, FALSE, TRUE }, /* a window without an element */
  { { "GlobalAveragePool", "f[2,4,4,2]" }, FALSE, TRUE },
  /* images with channels last */
  { { "AveragePool", "f[2,1,5,4,6]", "kernel_shape=[2,3,1] strides=[2,1,1] pads=[1,1,0,0,1,0]" } },
  { { "MaxPool", "f[2,1,5,4,6]", "kernel_shape=[3,2,1] strides=[2,2,1] pads=[1,0,0,1,0,0]" }, TRUE },
};

/* Pools that cuDNN can compute go there, where operands have one type, with the same results. */
static void
test_library (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (library_cases); i++)
    {
      const LibraryCase *c = &library_cases[i];
      const guint64 before = ortrain_counters_get ("cuda", "dnn-runs");
      cuda_check_begin (NULL);
      cuda_check_cases (&c->operation, 1, !c->forward_only);
      cuda_check_end ();
      const guint64 n = ortrain_counters_get ("cuda", "dnn-runs") - before;
      g_test_message ("%s %s: %u graphs", c->operation.op_type, c->operation.attributes, (guint) n);
      g_assert_cmpint (n > 0, ==, !c->stays);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-pool/kernels", test_pool);
  g_test_add_func ("/cuda-pool/library", test_library);
  return g_test_run ();
}
