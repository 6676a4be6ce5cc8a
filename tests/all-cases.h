/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Whether all cases are wanted (`meson test --setup deep`), or those that cover each thing once. Only for tests that
 * repeat others under other conditions: everything must be tested where this is FALSE, too. */
static inline gboolean
tests_run_all_cases (void)
{
  return g_strcmp0 (g_getenv ("ORTRAIN_TESTS"), "all") == 0;
}

/* Whether each thing is run under one condition only: under the race detector and the sanitizers, which find the same
 * faults in one order of threads, and in one of two types of the same size, as in all. */
static inline gboolean
tests_run_few_cases (void)
{
  return g_strcmp0 (g_getenv ("ORTRAIN_TESTS"), "few") == 0;
}
