/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-copy-plan.h"
#include "cpu/ortrain-cpu-device-private.h"

/* One engine for everything that only moves elements: runs are copied whole; when the innermost dimension of the input
 * is another one than that of the output, squares are transposed in the cache. */
void ortrain_copy_run (const OrtrainCopyPlan *plan, OrtrainThreadPool *pool, gconstpointer in, gpointer out);

/* memcpy and memset over the pool. */
void ortrain_copy_bytes (OrtrainThreadPool *pool, gconstpointer in, gpointer out, gsize n_bytes);
void ortrain_copy_zero (OrtrainThreadPool *pool, gpointer out, gsize n_bytes);
/* `n` copies of one element */
void ortrain_copy_fill (OrtrainThreadPool *pool, gpointer out, gint64 n, gconstpointer element, gsize size);

/* "Gather" and so on: PLAN_ERROR_INVALID for operands that inference should have refused. Returns FALSE. */
gboolean ortrain_kernel_refuse (const OrtrainKernelSetup *setup, GError **error, const char *reason);
/* DEVICE_ERROR_NO_MEMORY: for tables that are as long as an axis of a tensor. Returns FALSE. */
gboolean ortrain_kernel_refuse_memory (const OrtrainKernelSetup *setup, GError **error);

/* The place, from 0, that index i means in a dimension: negative ones count from its end. -1 and a fault: outside. */
static inline gint64
ortrain_kernel_place (const OrtrainKernelCall *call, gconstpointer indices, gboolean is_64, gint64 i, gint64 dim)
{
  gint64 index = ortrain_kernel_index (indices, is_64, i), place = index < 0 ? index + dim : index;
  if (G_LIKELY (place >= 0 && place < dim))
    return place;
  ortrain_kernel_fault (call, ORTRAIN_FAULT_INDEX, i, index, dim);
  return -1;
}

/* Work of about 64 KiB to a chunk. */
static inline gint64
ortrain_kernel_grain (gint64 bytes_per_item)
{
  return MAX (1, (gint64) 65536 / MAX (1, bytes_per_item));
}
