/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "simt.h"

typedef enum
{
  SIMT_ORDER_FORWARD,
  SIMT_ORDER_REVERSE,
  SIMT_ORDER_SHUFFLED,
} SimtOrder;

/* All blocks, on the calling thread. */
void simt_run_grid (const char *name, dim3 grid, dim3 block, SimtInvoke invoke, const void *closure, SimtOrder order);
