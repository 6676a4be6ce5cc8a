/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Division of what is below 2^31 by a number that is known when a plan is made: a product and a shift. */
typedef struct
{
  guint32 dim, magic, shift;
} OrtrainCudaDivisor;

/* dim: from 1 to 2^31 */
static inline OrtrainCudaDivisor
ortrain_cuda_divisor (guint32 dim)
{
  OrtrainCudaDivisor divisor = { dim, 0, 0 };
  while (((guint64) 1 << divisor.shift) < dim)
    divisor.shift++;
  divisor.magic = (guint32) ((((guint64) 1 << 32) * (((guint64) 1 << divisor.shift) - dim)) / dim + 1);
  return divisor;
}

#ifdef __cplusplus
static __device__ __forceinline__ guint32
ortrain_cuda_divide (const OrtrainCudaDivisor &divisor, guint32 x)
{
  return (__umulhi (x, divisor.magic) + x) >> divisor.shift;
}
#endif
