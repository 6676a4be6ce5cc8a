/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

#ifdef __cplusplus
#include "cuda/ortrain-cuda-device.h"
#endif

/* Division by a number that is known before the launch: a multiplication and a shift where numbers are below 2^31, the
 * machine's division beyond. */
typedef struct
{
  gint64 divisor; /* at least 1 */
  guint32 magic, shift;
} OrtrainDivisor;

static inline OrtrainDivisor
ortrain_divisor (gint64 divisor)
{
  OrtrainDivisor self = { MAX (divisor, 1), 0, 0 };
  while (self.shift < 31 && ((gint64) 1 << self.shift) < self.divisor)
    self.shift++;
  /* 2^32 (2^shift - divisor) / divisor + 1 */
  if (self.divisor <= G_MAXINT32)
    self.magic = (guint32) ((((guint64) 1 << 32) * (((guint64) 1 << self.shift) - (guint64) self.divisor)) /
                                (guint64) self.divisor +
                            1);
  return self;
}

#ifdef __cplusplus
/* i, divisor: below 2^31 */
static inline __device__ guint32
ortrain_divide (guint32 i, const OrtrainDivisor &by)
{
  return (__umulhi (i, by.magic) + i) >> by.shift;
}

/* Quotient, and the remainder in place of i. Small: all numbers are below 2^31. */
template <bool Small>
static inline __device__ gint64
ortrain_divide_rest (gint64 &i, const OrtrainDivisor &by)
{
  if (Small)
    {
      const guint32 n = (guint32) i, quotient = ortrain_divide (n, by);
      i = n - quotient * (guint32) by.divisor;
      return quotient;
    }
  const gint64 quotient = i / by.divisor;
  i -= quotient * by.divisor;
  return quotient;
}
#endif
