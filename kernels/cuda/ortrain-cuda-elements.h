/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-device.h"

/* Elements whose type is known at run time only, one at a time: for work that is rare, or small. */

/* Integers and bool, extended to 64 bits; of other types of 8 bytes the bits. */
static __device__ __forceinline__ gint64
ortrain_cuda_load_integer (const void *x, gint64 i, OrtrainDType dtype)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_INT8:
      return ((const gint8 *) x)[i];
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_BOOL:
      return ((const guint8 *) x)[i];
    case ORTRAIN_DTYPE_INT16:
      return ((const gint16 *) x)[i];
    case ORTRAIN_DTYPE_UINT16:
      return ((const guint16 *) x)[i];
    case ORTRAIN_DTYPE_INT32:
      return ((const gint32 *) x)[i];
    case ORTRAIN_DTYPE_UINT32:
      return ((const guint32 *) x)[i];
    default:
      return ((const gint64 *) x)[i];
    }
}

/* The low bits. */
static __device__ __forceinline__ void
ortrain_cuda_store_integer (void *y, gint64 i, OrtrainDType dtype, gint64 value)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_INT8:
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_BOOL:
      ((guint8 *) y)[i] = (guint8) value;
      break;
    case ORTRAIN_DTYPE_INT16:
    case ORTRAIN_DTYPE_UINT16:
      ((guint16 *) y)[i] = (guint16) value;
      break;
    case ORTRAIN_DTYPE_INT32:
    case ORTRAIN_DTYPE_UINT32:
      ((guint32 *) y)[i] = (guint32) value;
      break;
    default:
      ((gint64 *) y)[i] = value;
      break;
    }
}

/* Loads an element of floating type. A double goes to 16 bits through float32, as on the CPU. */
static __device__ __forceinline__ double
ortrain_cuda_load_real (const void *x, gint64 i, OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT64 ? ((const double *) x)[i] : (double) ortrain_load_any (x, i, dtype);
}

static __device__ __forceinline__ void
ortrain_cuda_store_real (void *y, gint64 i, OrtrainDType dtype, double value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    ((double *) y)[i] = value;
  else
    ortrain_store_any (y, i, dtype, (float) value);
}
