/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/pack-round.h"
#include "simt/thread-orders.h"

static void
test_bits (void)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < thread_orders_get_n (); i++)
    {
      g_setenv ("ORTRAIN_SIMT_ORDER", thread_orders[i], TRUE);
      test_pack_round (cuda);
    }
  g_unsetenv ("ORTRAIN_SIMT_ORDER");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-bits/kernels", test_bits);
  return g_test_run ();
}
