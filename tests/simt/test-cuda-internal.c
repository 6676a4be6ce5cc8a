/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

static const OrtrainGradientCase cases[] = {
  { "Accumulate", "f[1]", NULL, 1, "org.ortrain" },     { "Accumulate", "f[31,33]", NULL, 1, "org.ortrain" },
  { "Accumulate", "f[50257]", NULL, 1, "org.ortrain" }, { "Copy", "f[1025]", NULL, 1, "org.ortrain" },
  { "Offload", "f[1025]", NULL, 1, "org.ortrain" },     { "Reload", "f[1025]", NULL, 1, "org.ortrain" },
};

static void
test_internal (void)
{
  cuda_check_begin ((const char *const[]){ "Accumulate", "Copy", "Offload", "Reload", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-internal/kernels", test_internal);
  return g_test_run ();
}
