/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "all-cases.h"

/* Orders in which the emulated device runs the threads of a block: ORTRAIN_SIMT_ORDER. Results have the same bits in
 * each. */
static const char *const thread_orders[] = { "forward", "shuffled", "reverse" };

/* Under the race detector each thread is one of its own, whatever the order, and takes a hundred times as long. */
static inline gboolean
thread_orders_find_races (void)
{
  return g_getenv ("ORTRAIN_SIMT_RACES") != NULL;
}

static inline guint
thread_orders_get_n (void)
{
  return tests_run_few_cases () ? 1 : tests_run_all_cases () ? G_N_ELEMENTS (thread_orders) : 2;
}
