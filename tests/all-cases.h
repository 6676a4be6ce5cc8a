/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Whether all cases are wanted (`meson test --setup deep`), or those that cover each thing once. Only for what repeats under
 * other conditions: nothing may be without a test where this is FALSE. */
static inline gboolean
tests_run_all_cases (void)
{
  return g_strcmp0 (g_getenv ("ORTRAIN_TESTS"), "all") == 0;
}

/* Whether each thing is run under one condition only: under the race detector and the sanitizers, which find in one order of
 * threads, and in one of two types of the same size, what they find in all. */
static inline gboolean
tests_run_few_cases (void)
{
  return g_strcmp0 (g_getenv ("ORTRAIN_TESTS"), "few") == 0;
}
