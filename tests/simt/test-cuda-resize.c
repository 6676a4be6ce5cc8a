/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

static const OrtrainGradientCase cases[] = {
  { "Resize", "f[1,1,3,3];_;d[4]{1,1,2,2}", "mode='nearest'" },
  { "Resize", "f[1,1,3,4];_;d[4]{1,1,2,2}", "mode='linear'" },
  { "Resize", "f[1,1,3,4];_;_;i[4]{1,1,5,6}", "mode='linear' coordinate_transformation_mode='align_corners'" },
  { "Resize", "f[1,1,4,5];_;d[4]{1,1,0.5,0.6}", "mode='cubic'" },
  { "Resize", "f[1,1,4,5];_;_;i[4]{1,1,7,3}", "mode='linear' antialias=1" },
  { "Resize", "f[4,5];_;_;i[1]{9}", "mode='nearest' axes=[-1]" },
  { "Resize", "f[1,4,5];_;_;i[2]{7,6}", "mode='linear' axes=[1,2] keep_aspect_ratio_policy='not_larger'" },
  { "Resize", "f[4,5];_;_;i[2]{7,6}", "mode='cubic' axes=[1,-2] keep_aspect_ratio_policy='not_smaller'" },
  { "Resize", "f[6,3];_;_;i[2]{5,5}", "mode='nearest' nearest_mode='ceil'" },
  { "Resize", "f[6,3];_;_;i[2]{5,5}", "nearest_mode='floor' coordinate_transformation_mode='asymmetric'" },
  { "Resize", "f[6,3];_;_;i[2]{9,7}", "nearest_mode='round_prefer_ceil'" },
  { "Resize", "f[6,3];_;_;i[2]{9,1}", "mode='linear' coordinate_transformation_mode='pytorch_half_pixel'" },
  { "Resize", "f[6,3];_;d[2]{1.4,2.6}", "mode='linear' coordinate_transformation_mode='half_pixel_symmetric'" },
  { "Resize", "f[6,3];_;d[2]{1.4,2.6}", "coordinate_transformation_mode='tf_half_pixel_for_nn'" },
  { "Resize", "f[6,5];_;_;i[2]{9,3}", "mode='cubic' exclude_outside=1 cubic_coeff_a=-0.5f" },
  { "Resize", "f[3,2,4,3];_;_;i[4]{5,2,7,2}", "mode='linear'" },
  { "Resize", "f[2,5,3];_;_;i[3]{2,9,3}", "mode='linear'" },
  { "Resize", "f[2,5,3];_;_;i[3]{2,5,3}", "mode='linear'" },
  { "Resize", "f[9,7];_;_;i[2]{3,2}", "mode='cubic' antialias=1" },
};

static const OrtrainGradientCase forward_cases[] = {
  { "Resize", "f[1,1,4,5];d[8]{0,0,0.2,0.1,1,1,0.7,1.2};_;i[4]{1,1,3,3}",
    "mode='linear' coordinate_transformation_mode='tf_crop_and_resize' extrapolation_value=7.0f" },
  { "Resize", "f[4,3];d[4]{0.1,0.2,0.9,1.3};_;i[2]{5,5}",
    "mode='nearest' coordinate_transformation_mode='tf_crop_and_resize' extrapolation_value=7.0f" },
  { "Resize", "f[4,3];d[4]{0.9,1,0.1,0};_;i[2]{5,5}",
    "mode='cubic' coordinate_transformation_mode='tf_crop_and_resize'" },
  { "Resize", "f[1,2,17,15];_;_;i[4]{1,2,33,31}", "mode='linear'" },
  { "Resize", "f[31,33];_;_;i[2]{7,1025}", "mode='linear'" },
  { "Resize", "f[0,3];_;_;i[2]{0,5}", "mode='linear'" },
};

static void
test_resize (void)
{
  cuda_check_begin ((const char *const[]){ "Resize", "ResizeGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-resize/kernels", test_resize);
  return g_test_run ();
}
