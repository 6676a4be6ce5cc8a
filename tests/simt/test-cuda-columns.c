/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-node.h"

static const OrtrainGradientCase cases[] = {
  { "Col2Im", "f[2,8,6];i[2]{3,4};i[2]{2,2}" },
  { "Col2Im", "f[1,12,4];i[2]{4,6};i[2]{2,3}", "strides=[2,2] pads=[0,1,1,0] dilations=[1,2]" },
  { "Col2Im", "f[1,2,4];i[1]{6};i[1]{2}", "dilations=[2]" },
  { "Col2Im", "f[2,27,1023];i[2]{33,31};i[2]{3,3}", "pads=[1,1,1,1]" },
  { "Col2Im", "f[1,24,8];i[3]{3,4,5};i[3]{2,3,4}" },
  { "Col2Im", "f[1,3,4];i[1]{13};i[1]{3}", "strides=[3]" },
};

static void
test_columns (void)
{
  cuda_check_begin ((const char *const[]){ "Col2Im", "Im2Col", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-columns/kernels", test_columns);
  return g_test_run ();
}
