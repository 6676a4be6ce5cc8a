/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Where a test wants a slower kernel in the place of a library's, it says so, and why:
 *
 *     TEST_ALLOWS_FALLBACKS ("all engines are refused on purpose");
 *
 * Up to the end of the block, a refusal is then no error under ORTRAIN_CUDA_STRICT either. Strict mode holds for all
 * that has no such line. No other thread may read the environment meanwhile. */
typedef char *TestFallbacks; /* the old value of ORTRAIN_CUDA_STRICT; NULL: it was not set */

static inline TestFallbacks
test_fallbacks_allow (const char *reason)
{
  char *before = g_strdup (g_getenv ("ORTRAIN_CUDA_STRICT"));
  if (before != NULL)
    g_test_message ("fallbacks are allowed: %s", reason);
  g_unsetenv ("ORTRAIN_CUDA_STRICT");
  return before;
}

static inline void
test_fallbacks_forbid (TestFallbacks *before)
{
  if (*before != NULL)
    g_setenv ("ORTRAIN_CUDA_STRICT", *before, TRUE);
  g_free (*before);
}

#define TEST_ALLOWS_FALLBACKS(reason)                                                                                  \
  __attribute__ ((cleanup (test_fallbacks_forbid), unused)) TestFallbacks test_fallbacks_ =                            \
      test_fallbacks_allow (reason)
