/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/update-cases.h"
#include "simt/cuda-kernel-check.h"

#define RATES "z[17]{1,2,0.7,1,0.8,0.9,1e-4,1,0,0,0,0.1,0.01,0.2,0,0.3,0.02}"
#define NO_CLIPPING "z[17]{0.5,3,0,0.8,0.9,1e-4,1,0,10,0,0,0.1,0.01,0.2,0,0.3,0.02}"

/* More than one span, and odd ends. */
static const OrtrainGradientCase large[] = {
  { "AdamUpdate",
    RATES ";z{2};_;f[40001];f[40001];y[40001];y[40001];f[1];f[1];y[1];y[1];f[1023];f[1023];y[1023];y[1023]",
    "parameters=[0,1,2] states=2", 10, "org.ortrain" },
  { "SgdUpdate", NO_CLIPPING ";_;_;f[131,257];f[131,257];f[0];f[0];f[31];f[31]", "parameters=[0,1,2] states=0", 4,
    "org.ortrain" },
  { "LambUpdate", NO_CLIPPING ";_;_;f[40001];f[40001];y[40001];y[40001];f[33];f[33];y[33];y[33]",
    "parameters=[0,2] states=2", 7, "org.ortrain" },
  { "AdagradUpdate", RATES ";z{2};_;f[16385];f[16385];y[16385]", "parameters=[1] states=1", 3, "org.ortrain" },
  { "SgdUpdate", NO_CLIPPING ";_;_;f[1025];f[1025];f[3];f[3]", "parameters=[0,2] states=0 copies=[16,10]", 5,
    "org.ortrain" },
  { "GradientNorm", RATES ";_;f[40001];f[1];f[0];f[33,31]", NULL, 1, "org.ortrain" },
};

static void
test_updates (void)
{
  cuda_check_begin ((const char *const[]){ "SgdUpdate", "AdamUpdate", "LambUpdate", "AdagradUpdate", "GradientNorm",
                                           "LossScaleUpdate", NULL });
  cuda_check_cases (updates, G_N_ELEMENTS (updates), FALSE);
  cuda_check_cases (large, G_N_ELEMENTS (large), FALSE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-update/kernels", test_updates);
  return g_test_run ();
}
