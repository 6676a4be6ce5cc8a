/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"
#include "simt/cuda-same-bits.h"

/* The CPU's numbers, whatever the type; the ratio is read on the device. */

static const OrtrainGradientCase cases[] = {
  { "Dropout", "f[4,5];d{0.3};b{1}", NULL, 2 },
  { "Dropout", "f[1025];d{0.3};b{1}", NULL, 2 },
  { "Dropout", "f[4099];d{0.7};b{1}" },
  { "Dropout", "f[4,5];d{0.3};b{0}", NULL, 2 },
  { "Dropout", "f[4,5];d{0};b{1}", NULL, 2 },
  { "Dropout", "f[33]", NULL, 2 },
  { "Dropout", "f[33];_;b{1}" },
  { "Dropout", "f[1025];d{0.3};b{1}", "seed=7", 2 },
};

static const OrtrainGradientCase draws[] = {
  { "RandomNormalLike", "f[1025]" },
  { "RandomNormalLike", "f[3,11]", "mean=1f scale=3f seed=2f" },
  { "RandomUniformLike", "f[1025]" },
  { "RandomUniformLike", "f[3,11]", "low=-1f high=3f" },
  { "RandomNormal", "", "shape=[31,33]" },
  { "RandomUniform", "", "shape=[31,33] low=-2f" },
  { "Bernoulli", "u[1023]" },
};

static void
test_kernels (void)
{
  cuda_check_begin ((const char *const[]){ "Dropout", "DropoutGrad", "RandomNormalLike", "RandomUniformLike",
                                           "RandomNormal", "RandomUniform", "Bernoulli", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (draws, G_N_ELEMENTS (draws), FALSE);
  cuda_check_end ();
}

/* A ratio that is not valid is a fault with its bits. */
static void
test_ratio (void)
{
  static const float ratios[] = { 1, -0.5f, NAN, 2 };
  OrtrainProvider *cuda = open_cuda ();
  for (guint i = 0; i < G_N_ELEMENTS (ratios); i++)
    {
      g_autoptr (GError) error = NULL;
      OrtrainTensor *in[3];
      in[0] = kernel_random (ORTRAIN_DTYPE_FLOAT32, (const gint64[]){ 33 }, 1, 1, 1);
      in[1] = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, NULL, 0, &error);
      in[2] = ortrain_tensor_new (ORTRAIN_DTYPE_BOOL, NULL, 0, &error);
      *(float *) ortrain_tensor_peek_writable (in[1]) = ratios[i];
      *(guint8 *) ortrain_tensor_peek_writable (in[2]) = 1;
      KernelRun runs[2];
      for (guint r = 0; r < 2; r++)
        {
          kernel_run_init (&runs[r], "", "Dropout");
          for (guint k = 0; k < 3; k++)
            kernel_run_add_input (&runs[r], g_object_ref (in[k]));
          kernel_run_add_output (&runs[r], ORTRAIN_DTYPE_FLOAT32, (const gint64[]){ 33 }, 1);
          runs[r].provider = r == 0 ? cuda : NULL;
          kernel_run_try (&runs[r], &error);
        }
      g_assert_cmpint (runs[0].fault.code, ==, ORTRAIN_FAULT_NUMBER);
      g_assert_cmpint (runs[1].fault.code, ==, ORTRAIN_FAULT_NUMBER);
      g_assert_cmpint (runs[0].fault.position, ==, runs[1].fault.position);
      g_assert_cmpint (runs[0].fault.value, ==, runs[1].fault.value);
      for (guint r = 0; r < 2; r++)
        kernel_run_clear (&runs[r]);
      for (guint k = 0; k < 3; k++)
        g_object_unref (in[k]);
    }
  ortrain_provider_unref (cuda);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-random/kernels", test_kernels);
  g_test_add_func ("/cuda-random/ratio", test_ratio);
  return g_test_run ();
}
