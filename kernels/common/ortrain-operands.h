/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-kernel-private.h"

/* Shapes and constant operands, as prepare functions of all providers read them. */

static inline gint64
ortrain_kernel_index (gconstpointer indices, gboolean is_64, gint64 i)
{
  return is_64 ? ((const gint64 *) indices)[i] : (gint64) ((const gint32 *) indices)[i];
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

/* Row-major strides in elements. */
static inline void
ortrain_copy_strides (guint rank, const gint64 *dims, gint64 *strides)
{
  gint64 stride = 1;
  for (guint i = rank; i-- > 0;)
    {
      strides[i] = stride;
      stride *= dims[i];
    }
}
