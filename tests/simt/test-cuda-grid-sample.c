/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

/* u: between -1 and 1 */
static const OrtrainGradientCase cases[] = {
  { "GridSample", "f[1,2,3,4];u[1,2,2,2]" },
  { "GridSample", "f[1,2,3,4];u[1,2,2,2]", "align_corners=1" },
  { "GridSample", "f[2,3,5,4];f[2,3,5,2]", "padding_mode='border'" },
  { "GridSample", "f[2,5,3,4];f[2,3,5,2]", "padding_mode='reflection'" },
  { "GridSample", "f[2,1,3,4];f[2,3,3,2]", "padding_mode='reflection' align_corners=1" },
  { "GridSample", "f[2,1,3,4];u[2,2,2,2]", "mode='cubic'" },
  { "GridSample", "f[2,1,3,4];u[2,2,2,2]", "mode='cubic' padding_mode='border'" },
  { "GridSample", "f[1,2,3,4];f[1,3,2,2]", "mode='cubic' padding_mode='reflection' align_corners=1" },
  { "GridSample", "f[1,2,3,4];c[1,3,2,2]", "mode='nearest'" },
  { "GridSample", "f[1,2,3,4];c[1,3,2,2]", "mode='nearest' padding_mode='reflection'" },
  { "GridSample", "f[2,6,7];u[2,5,1]" },
  { "GridSample", "f[2,3,7];u[2,5,1]", "mode='cubic' padding_mode='border'" },
  { "GridSample", "f[1,1,3,2,3];u[1,2,1,2,3]" },
  { "GridSample", "f[2,3,3,4,3];u[2,1,2,3,3]", "align_corners=1 padding_mode='border'" },
  { "GridSample", "f[1,2,2,3,2];f[1,2,1,2,3]", "mode='cubic' padding_mode='reflection'" },
  { "GridSample", "f[1,2,1,3];f[1,3,2,2]", "padding_mode='reflection' align_corners=1" },
  /* few points of many elements; many of few, which crowd */
  { "GridSample", "f[1,1,33,31];u[1,1,3,2]" },
  { "GridSample", "f[2,3,2,2];u[2,17,15,2]", "padding_mode='border'" },
  { "GridSample", "f[1,5,1,1];u[1,257,1,2]", "padding_mode='border'" },
  /* lists of one image after the other */
  { "GridSample", "f[2,1,3,4,3];u[2,21,10,10,3]", "mode='cubic' padding_mode='border'" },
};

static const OrtrainGradientCase forward_cases[] = {
  { "GridSample", "f[1,2,3,4];d[1,1,3,2]{1e12,0.2,nan,0.1,-inf,inf}", "padding_mode='border'" },
  { "GridSample", "f[1,2,3,4];d[1,1,3,2]{1e12,0.2,nan,0.1,-inf,inf}" },
  { "GridSample", "f[1,2,3,4];d[1,1,3,2]{1e12,0.2,nan,0.1,-inf,inf}", "mode='cubic' padding_mode='reflection'" },
  { "GridSample", "f[1,2,3,4];d[1,1,3,2]{1e6,0.2,nan,0.1,-3,7}", "mode='nearest' padding_mode='reflection'" },
  { "GridSample", "f[1,67,9,11];u[1,31,33,2]" },
  { "GridSample", "f[1,1025,3,2];u[1,1,1,2]", "mode='cubic'" },
  { "GridSample", "f[1,0,3,4];u[1,2,2,2]" },
  { "GridSample", "f[0,2,3,4];u[0,2,2,2]" },
  { "GridSample", "f[1,2,3,4];u[1,0,2,2]" },
};

static void
test_grid_sample (void)
{
  cuda_check_begin ((const char *const[]){ "GridSample", "GridSampleGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-grid-sample/kernels", test_grid_sample);
  return g_test_run ();
}
