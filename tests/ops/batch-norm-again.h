/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/kernel-run.h"

/* NormApply computes the output of BatchNormTrain from saved statistics, to the same bits, and the statistics are the
 * same without that output: x in `dtype`, all else in `statistics`. provider: NULL for the host */
G_GNUC_UNUSED static void
check_batch_norm_again (OrtrainProvider *provider, OrtrainDType dtype, OrtrainDType statistics, gsize rank,
                        const gint64 *dims)
{
  KernelRun whole, parts, apply, *runs[] = { &whole, &parts };
  const gint64 channels[] = { dims[1], 1, 1 };
  const gsize n_channels = rank - 1;
  for (guint i = 0; i < 2; i++)
    {
      kernel_run_init (runs[i], "org.ortrain", "BatchNormTrain");
      ortrain_attributes_set_float (runs[i]->attributes, "epsilon", 1e-3);
      runs[i]->provider = provider;
      kernel_run_add_input (runs[i], kernel_random (dtype, dims, rank, 3, 1));
      for (guint k = 1; k < 5; k++)
        kernel_run_add_input (runs[i], kernel_random (statistics, dims + 1, 1, 1, 1 + k));
      if (i == 0)
        kernel_run_add_output (runs[i], dtype, dims, rank);
      else
        runs[i]->n_outputs++; /* absent */
      for (guint k = 1; k < 6; k++)
        kernel_run_add_output (runs[i], statistics, dims + 1, 1);
      kernel_run (runs[i]);
    }
  for (guint k = 1; k < 6; k++)
    g_assert_cmpmem (ortrain_tensor_peek (whole.outputs[k]), ortrain_tensor_get_n_bytes (whole.outputs[k]),
                     ortrain_tensor_peek (parts.outputs[k]), ortrain_tensor_get_n_bytes (parts.outputs[k]));
  g_assert_cmpfloat (parts.setup.flops, <, whole.setup.flops);

  kernel_run_init (&apply, "org.ortrain", "NormApply");
  apply.provider = provider;
  kernel_run_add_input (&apply, g_object_ref (whole.inputs[0]));
  OrtrainTensor *const operands[] = { whole.outputs[3], whole.outputs[5], whole.inputs[2] };
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      OrtrainTensor *row = ortrain_tensor_new (statistics, channels, n_channels, &error);
      g_assert_no_error (error);
      memcpy (ortrain_tensor_peek_writable (row), ortrain_tensor_peek (operands[i]), ortrain_tensor_get_n_bytes (row));
      kernel_run_add_input (&apply, row);
    }
  kernel_run_add_output (&apply, dtype, dims, rank);
  kernel_run (&apply);
  g_assert_cmpmem (ortrain_tensor_peek (whole.outputs[0]), ortrain_tensor_get_n_bytes (whole.outputs[0]),
                   ortrain_tensor_peek (apply.outputs[0]), ortrain_tensor_get_n_bytes (apply.outputs[0]));
  kernel_run_clear (&whole);
  kernel_run_clear (&parts);
  kernel_run_clear (&apply);
}

G_GNUC_UNUSED static void
check_batch_norms_again (OrtrainProvider *provider, OrtrainDType dtype, OrtrainDType statistics)
{
  static const gint64 shapes[][4] = {
    { 3, 2, 2, 1 }, { 4, 3, 1, 1 }, { 300, 70, 1, 1 }, { 2, 5, 8, 8 }, { 7, 37, 61, 67 }
  };
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    check_batch_norm_again (provider, dtype, statistics, 4, shapes[i]);
  check_batch_norm_again (provider, dtype, statistics, 2, shapes[2]);
}
