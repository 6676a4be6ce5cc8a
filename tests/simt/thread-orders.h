/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "all-cases.h"

/* Orders in which the emulated device runs the threads of a block: ORTRAIN_SIMT_ORDER. Results have the same bits in each. */
static const char *const thread_orders[] = { "forward", "shuffled", "reverse" };

static inline guint
thread_orders_get_n (void)
{
  return tests_run_all_cases () ? G_N_ELEMENTS (thread_orders) : 2;
}
