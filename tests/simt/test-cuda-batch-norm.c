/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/batch-norm-again.h"
#include "simt/cuda-kernel-check.h"

#include <math.h>

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

/* ---- followed by Relu ---- */

typedef struct
{
  gint64 dims[4];
  guint rank;
} Shape;

static OrtrainTensor *
make_positive (gint64 n, guint seed)
{
  OrtrainTensor *tensor = kernel_random (ORTRAIN_DTYPE_FLOAT32, &n, 1, 1, seed);
  float *numbers = ortrain_tensor_peek_writable (tensor);
  for (gint64 i = 0; i < n; i++)
    numbers[i] = fabsf (numbers[i]) + 0.5f;
  return tensor;
}

/* The gradient through Relu, compared with the gradient of Relu and that of the normalization, node by node: the same
 * bits, because each element that Relu's gradient writes is zero, or the element that it reads. */
static void
compare_relu (OrtrainProvider *cuda, const Shape *shape, OrtrainDType dtype)
{
  const gint64 channels = shape->dims[1], n_inner = shape->rank == 4 ? shape->dims[2] * shape->dims[3] : 1;
  g_autoptr (OrtrainTensor) dy = kernel_random (dtype, shape->dims, shape->rank, 1, 1),
                            x = kernel_random (dtype, shape->dims, shape->rank, 1, 2),
                            scale = make_positive (channels, 3), inverse = make_positive (channels, 4),
                            mean = kernel_random (ORTRAIN_DTYPE_FLOAT32, &channels, 1, 1, 5),
                            bias = kernel_random (ORTRAIN_DTYPE_FLOAT32, &channels, 1, 1, 6);
  g_autoptr (OrtrainTensor) y = ortrain_tensor_cast (x, ORTRAIN_DTYPE_FLOAT32, NULL);
  const float *m = ortrain_tensor_peek (mean), *s = ortrain_tensor_peek (scale), *r = ortrain_tensor_peek (inverse),
              *b = ortrain_tensor_peek (bias);
  float *numbers = ortrain_tensor_peek_writable (y);
  guint n_positive = 0;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (y); i++)
    {
      const gint64 c = i / n_inner % channels;
      const float factor = r[c] * s[c], scaled = (numbers[i] - m[c]) * factor;
      numbers[i] = scaled + b[c];
      n_positive += numbers[i] > 0;
    }
  g_assert_cmpuint (n_positive, >, 0);
  g_autoptr (OrtrainTensor) narrow = ortrain_tensor_cast (y, dtype, NULL);
  KernelRun relu, runs[2];
  kernel_run_init (&relu, "org.ortrain", "ReluGrad");
  kernel_run_add_input (&relu, g_object_ref (dy));
  kernel_run_add_input (&relu, g_object_ref (narrow));
  kernel_run_add_output (&relu, dtype, shape->dims, shape->rank);
  relu.provider = cuda;
  kernel_run (&relu);
  for (guint fused = 0; fused < 2; fused++)
    {
      kernel_run_init (&runs[fused], "org.ortrain", fused ? "BatchNormReluGrad" : "BatchNormGrad");
      runs[fused].provider = cuda;
      OrtrainTensor *inputs[] = { fused ? dy : relu.outputs[0], x, scale, mean, inverse, bias };
      for (guint i = 0; i < 5 + fused; i++)
        kernel_run_add_input (&runs[fused], g_object_ref (inputs[i]));
      kernel_run_add_output (&runs[fused], dtype, shape->dims, shape->rank);
      for (guint k = 0; k < 2; k++)
        kernel_run_add_output (&runs[fused], ORTRAIN_DTYPE_FLOAT32, &channels, 1);
      kernel_run (&runs[fused]);
    }
  for (guint k = 0; k < 3; k++)
    g_assert_cmpmem (ortrain_tensor_peek (runs[0].outputs[k]), ortrain_tensor_get_n_bytes (runs[0].outputs[k]),
                     ortrain_tensor_peek (runs[1].outputs[k]), ortrain_tensor_get_n_bytes (runs[1].outputs[k]));
  kernel_run_clear (&relu);
  kernel_run_clear (&runs[0]);
  kernel_run_clear (&runs[1]);
}

static void
test_relu (void)
{
  static const Shape shapes[] = {
    { { 600, 64 }, 2 }, { { 300, 24 }, 2 }, { { 70, 37 }, 2 }, { { 3, 4, 8, 8 }, 4 }, { { 3, 5, 7, 3 }, 4 },
  };
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
      compare_relu (cuda, &shapes[i], dtypes[d]);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-batch-norm/kernels", test_batch_norm);
  g_test_add_func ("/cuda-batch-norm/again", test_again);
  g_test_add_func ("/cuda-batch-norm/relu", test_relu);
  return g_test_run ();
}
