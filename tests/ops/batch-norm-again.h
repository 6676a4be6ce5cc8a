/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/kernel-run.h"

/* Batch normalization that runs again with the statistics that it saved gives the bits that it gave: x in `dtype`, all else
 * in `statistics`. provider: NULL for the host */
G_GNUC_UNUSED static void
check_batch_norm_again (OrtrainProvider *provider, OrtrainDType dtype, OrtrainDType statistics, gsize rank,
                        const gint64 *dims)
{
  KernelRun runs[2];
  for (guint again = 0; again < 2; again++)
    {
      KernelRun *run = &runs[again];
      kernel_run_init (run, "org.ortrain", "BatchNormTrain");
      ortrain_attributes_set_float (run->attributes, "epsilon", 1e-3);
      run->provider = provider;
      kernel_run_add_input (run, kernel_random (dtype, dims, rank, 3, 1));
      for (guint i = 1; i < 5; i++)
        kernel_run_add_input (run, i < 3 || !again ? kernel_random (statistics, dims + 1, 1, 1, 1 + i) : NULL);
      for (guint k = 3; k < 5 && again; k++)
        kernel_run_add_input (run, g_object_ref (runs[0].outputs[k]));
      for (guint k = 0; k < (again ? 1 : 5); k++)
        kernel_run_add_output (run, k == 0 ? dtype : statistics, k == 0 ? dims : dims + 1, k == 0 ? rank : 1);
      kernel_run (run);
    }
  g_assert_cmpmem (ortrain_tensor_peek (runs[0].outputs[0]), ortrain_tensor_get_n_bytes (runs[0].outputs[0]),
                   ortrain_tensor_peek (runs[1].outputs[0]), ortrain_tensor_get_n_bytes (runs[1].outputs[0]));
  /* one pass over x, which needs no sums */
  g_assert_cmpfloat (runs[1].setup.flops, <, runs[0].setup.flops);
  g_assert_cmpuint (runs[1].setup.workspace_bytes, <, runs[0].setup.workspace_bytes);
  for (guint again = 0; again < 2; again++)
    kernel_run_clear (&runs[again]);
}

G_GNUC_UNUSED static void
check_batch_norms_again (OrtrainProvider *provider, OrtrainDType dtype, OrtrainDType statistics)
{
  static const gint64 shapes[][4] = {
    { 3, 2, 2, 1 }, { 4, 3, 1, 1 }, { 300, 70, 1, 1 }, { 2, 5, 8, 8 }, { 7, 37, 61, 67 }
  };
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    check_batch_norm_again (provider, dtype, statistics, 4, shapes[i]);
}
