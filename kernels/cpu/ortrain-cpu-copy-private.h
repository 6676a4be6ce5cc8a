/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-device-private.h"

/* One engine for everything that only moves elements: for each index of a common shape, out[o (index)] = in[i (index)],
 * with any strides on both sides (0 repeats, negative reverses). Dimensions that lie together on both sides are joined;
 * runs are copied whole; when the innermost dimension of the input is another one than that of the output, squares are
 * transposed in the cache. */
#define ORTRAIN_COPY_MAX_RANK 34

typedef struct
{
  gsize size; /* of an element: 1, 2, 4, 8 or 16 */
  guint rank;
  gint64 dims[ORTRAIN_COPY_MAX_RANK];
  gint64 in_strides[ORTRAIN_COPY_MAX_RANK]; /* in elements */
  gint64 out_strides[ORTRAIN_COPY_MAX_RANK];
  gint64 in_offset, out_offset; /* in elements */
  gint64 n_elements;
  gint crossed; /* the dimension with stride 1 in the input when the last one has stride 1 in the output only; or -1 */
} OrtrainCopyPlan;

void ortrain_copy_plan_init (OrtrainCopyPlan *plan, gsize size, guint rank, const gint64 *dims,
                             const gint64 *in_strides, const gint64 *out_strides, gint64 in_offset, gint64 out_offset);
void ortrain_copy_run (const OrtrainCopyPlan *plan, OrtrainThreadPool *pool, gconstpointer in, gpointer out);

/* Row-major strides in elements. */
void ortrain_copy_strides (guint rank, const gint64 *dims, gint64 *strides);

/* memcpy and memset over the pool. */
void ortrain_copy_bytes (OrtrainThreadPool *pool, gconstpointer in, gpointer out, gsize n_bytes);
void ortrain_copy_zero (OrtrainThreadPool *pool, gpointer out, gsize n_bytes);
/* `n` copies of one element */
void ortrain_copy_fill (OrtrainThreadPool *pool, gpointer out, gint64 n, gconstpointer element, gsize size);

/* "Gather" and so on: PLAN_ERROR_INVALID for what inference should have refused. Returns FALSE. */
gboolean ortrain_kernel_refuse (const OrtrainKernelSetup *setup, GError **error, const char *reason);
/* DEVICE_ERROR_NO_MEMORY: for tables that are as long as an axis of a tensor. Returns FALSE. */
gboolean ortrain_kernel_refuse_memory (const OrtrainKernelSetup *setup, GError **error);

static inline gint64
ortrain_kernel_index (gconstpointer indices, gboolean is_64, gint64 i)
{
  return is_64 ? ((const gint64 *) indices)[i] : (gint64) ((const gint32 *) indices)[i];
}

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

/* The constant int32 or int64 operand as int64; at most `limit` elements. -1 when absent, -2 when unknown or too long.
 */
static inline gint
ortrain_kernel_ints (const OrtrainKernelSetup *setup, guint input, gint64 *values, gint limit)
{
  if (input >= setup->n_inputs || setup->inputs[input].dtype == ORTRAIN_DTYPE_UNDEFINED)
    return -1;
  const OrtrainOperand *operand = &setup->inputs[input];
  if ((operand->constant == NULL && operand->n_elements > 0) || operand->n_elements > limit ||
      (operand->dtype != ORTRAIN_DTYPE_INT64 && operand->dtype != ORTRAIN_DTYPE_INT32))
    return -2;
  for (gint64 i = 0; i < operand->n_elements; i++)
    values[i] = ortrain_kernel_index (operand->constant, operand->dtype == ORTRAIN_DTYPE_INT64, i);
  return (gint) operand->n_elements;
}

static inline gint64
ortrain_kernel_axis (gint64 axis, guint rank)
{
  return axis < 0 ? axis + rank : axis;
}

static inline gint64
ortrain_kernel_product (const gint64 *dims, guint begin, guint end)
{
  gint64 product = 1;
  for (guint i = begin; i < end; i++)
    product *= dims[i];
  return product;
}

/* Work of about 64 KiB to a chunk. */
static inline gint64
ortrain_kernel_grain (gint64 bytes_per_item)
{
  return MAX (1, (gint64) 65536 / MAX (1, bytes_per_item));
}
