/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-formulas.h"

#include <glib.h>

/* Eight booleans as the bytes of a number, the first in the lowest, and as the bits of a byte, the first in the lowest.
 */

/* Any byte but 0 is true: 1 in each of them. */
ORTRAIN_FUNCTION guint64
ortrain_booleans_normalize (guint64 booleans)
{
  const guint64 low = 0x7f7f7f7f7f7f7f7fULL;
  return ((((booleans & low) + low) | booleans) >> 7) & 0x0101010101010101ULL;
}

/* The product puts one bit of each byte side by side, in the highest byte. */
ORTRAIN_FUNCTION guint8
ortrain_booleans_to_bits (guint64 booleans)
{
  return (guint8) ((ortrain_booleans_normalize (booleans) * 0x0102040810204080ULL) >> 56);
}

ORTRAIN_FUNCTION guint64
ortrain_booleans_from_bits (guint8 bits)
{
  return ortrain_booleans_normalize ((bits * 0x0101010101010101ULL) & 0x8040201008040201ULL);
}
