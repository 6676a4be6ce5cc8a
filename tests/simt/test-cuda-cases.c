/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/gradient-cases.h"
#include "simt/cuda-kernel-check.h"

/* Every node of every case of the gradients for which there is a CUDA kernel. */
static void
test_all (void)
{
  cuda_check_begin (NULL);
  cuda_check_set_tolerance (3e-5);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-cases/all", test_all);
  return g_test_run ();
}
