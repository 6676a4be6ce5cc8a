/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-run.h"

/* Packs booleans into bits and back. provider: NULL: the host. */
G_GNUC_UNUSED static void
test_pack_round (OrtrainProvider *provider)
{
  static const gint64 sizes[] = { 0, 1, 7, 8, 9, 63, 64, 65, 1023, 100003 };
  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    {
      const gint64 n = sizes[s], n_bytes = (n + 7) / 8;
      g_autoptr (GError) error = NULL;
      OrtrainTensor *booleans = ortrain_tensor_new (ORTRAIN_DTYPE_BOOL, &n, 1, &error);
      g_assert_no_error (error);
      guint8 *values = ortrain_tensor_peek_writable (booleans);
      for (gint64 i = 0; i < n; i++)
        values[i] = (guint8) (i * i % 7 < 3 ? 0 : i % 3 == 0 ? 0x80 : i % 3); /* any byte but 0 is true */
      KernelRun pack, unpack;
      kernel_run_init (&pack, "org.ortrain", "PackBits");
      pack.provider = provider;
      kernel_run_add_input (&pack, booleans);
      kernel_run_add_output (&pack, ORTRAIN_DTYPE_UINT8, &n_bytes, 1);
      g_assert_true (kernel_run_try (&pack, &error));
      const guint8 *bits = ortrain_tensor_peek (pack.outputs[0]);
      for (gint64 i = 0; i < 8 * n_bytes; i++)
        g_assert_cmpint (bits[i / 8] >> i % 8 & 1, ==, i < n && values[i] != 0);
      kernel_run_init (&unpack, "org.ortrain", "UnpackBits");
      unpack.provider = provider;
      ortrain_attributes_set_ints (unpack.attributes, "shape", &n, 1);
      kernel_run_add_input (&unpack, g_object_ref (pack.outputs[0]));
      kernel_run_add_output (&unpack, ORTRAIN_DTYPE_BOOL, &n, 1);
      g_assert_true (kernel_run_try (&unpack, &error));
      const guint8 *back = ortrain_tensor_peek (unpack.outputs[0]);
      for (gint64 i = 0; i < n; i++)
        g_assert_cmpint (back[i], ==, values[i] != 0);
      kernel_run_clear (&pack);
      kernel_run_clear (&unpack);
    }
}
