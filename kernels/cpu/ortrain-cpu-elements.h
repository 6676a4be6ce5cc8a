/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype-private.h"

#include <string.h>

/* Elements of float32, bfloat16 or float16, in float32: of 16 bits, they are widened as they are read, and rounded as
 * they are stored. */

#define ORTRAIN_ELEMENTS_TILE 1024 /* that are summed side by side */

static inline void
ortrain_elements_load (OrtrainDType dtype, gconstpointer x, gint64 at, gint64 n, float *restrict to)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    memcpy (to, (const float *) x + at, (gsize) n * sizeof (float));
  else
    ortrain_dtype_widen_n (dtype, to, (const guint16 *) x + at, n);
}

static inline void
ortrain_elements_store (OrtrainDType dtype, gpointer y, gint64 at, gint64 n, const float *restrict from)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    memcpy ((float *) y + at, from, (gsize) n * sizeof (float));
  else
    ortrain_dtype_narrow_n (dtype, (guint16 *) y + at, from, n);
}

static inline float
ortrain_elements_load_one (OrtrainDType dtype, gconstpointer x, gint64 at)
{
  return dtype == ORTRAIN_DTYPE_FLOAT32 ? ((const float *) x)[at]
                                        : ortrain_dtype_widen (dtype, ((const guint16 *) x)[at]);
}

static inline void
ortrain_elements_store_one (OrtrainDType dtype, gpointer y, gint64 at, float value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) y)[at] = value;
  else
    ((guint16 *) y)[at] = ortrain_dtype_narrow (dtype, value);
}

/* sum += x */
static inline void
ortrain_elements_add (OrtrainDType dtype, float *restrict sum, gconstpointer x, gint64 at, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    for (gint64 i = 0; i < n; i++)
      sum[i] += ((const float *) x)[at + i];
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    for (gint64 i = 0; i < n; i++)
      sum[i] += ortrain_bfloat16_to_float (((const guint16 *) x)[at + i]);
  else
    for (gint64 i = 0; i < n; i++)
      sum[i] += ortrain_half_to_float (((const guint16 *) x)[at + i]);
}

/* The same for any floating-point type. A double is rounded to 16 bits through float32, like results that are computed
 * in float32. */
static inline double
ortrain_elements_load_real (OrtrainDType dtype, gconstpointer x, gint64 at)
{
  return dtype == ORTRAIN_DTYPE_FLOAT64 ? ((const double *) x)[at] : (double) ortrain_elements_load_one (dtype, x, at);
}

static inline void
ortrain_elements_store_real (OrtrainDType dtype, gpointer y, gint64 at, double value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    ((double *) y)[at] = value;
  else
    ortrain_elements_store_one (dtype, y, at, (float) value);
}
