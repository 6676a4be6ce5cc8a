/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Sizes come from files that nobody trusts: every product and sum of sizes goes through these. They return FALSE on
 * overflow and leave the result untouched. */
static inline gboolean
ortrain_checked_mul (gsize a, gsize b, gsize *result)
{
  return !__builtin_mul_overflow (a, b, result);
}

static inline gboolean
ortrain_checked_add (gsize a, gsize b, gsize *result)
{
  return !__builtin_add_overflow (a, b, result);
}

static inline gboolean
ortrain_checked_mul_i64 (gint64 a, gint64 b, gint64 *result)
{
  return !__builtin_mul_overflow (a, b, result);
}

static inline gboolean
ortrain_checked_add_i64 (gint64 a, gint64 b, gint64 *result)
{
  return !__builtin_add_overflow (a, b, result);
}

/* Within ±G_MAXINT32: sums and products of a few such numbers fit 64 bits. (ABS of the least 64-bit number is
 * negative.)
 */
static inline gboolean
ortrain_checked_is_small (gint64 a)
{
  return a >= -G_MAXINT32 && a <= G_MAXINT32;
}

/* More elements than any memory has. Below it, a number of elements to which kernels add, or which they multiply (sizes
 * of tiles and of types), does not overflow. */
#define ORTRAIN_MAX_ELEMENTS ((gint64) 1 << 56)

/* The number of elements of a shape (1 for rank 0), FALSE if a dimension is negative, or the product of those that are
 * not 0 is above ORTRAIN_MAX_ELEMENTS: kernels multiply the dimensions of tensors without elements, too. */
static inline gboolean
ortrain_checked_n_elements (const gint64 *dims, gsize rank, gint64 *n_elements)
{
  gint64 n = 1;
  gboolean zero = FALSE;
  for (gsize i = 0; i < rank; i++)
    {
      if (dims[i] < 0)
        return FALSE;
      if (dims[i] == 0)
        zero = TRUE;
      else if (!ortrain_checked_mul_i64 (n, dims[i], &n))
        return FALSE;
    }
  *n_elements = zero ? 0 : n;
  return n <= ORTRAIN_MAX_ELEMENTS;
}

/* Round up to a multiple of a power of two. FALSE on overflow. */
static inline gboolean
ortrain_checked_align (gsize size, gsize alignment, gsize *result)
{
  gsize sum;
  if (!ortrain_checked_add (size, alignment - 1, &sum))
    return FALSE;
  *result = sum & ~(alignment - 1);
  return TRUE;
}
