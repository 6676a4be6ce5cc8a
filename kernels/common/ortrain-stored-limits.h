/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-float-private.h"

/* Activations of a cell whose inputs are limited by `clip`: the backward pass recognizes limited elements by their
 * value, which equals a bound in the type that it was stored in. An element that was not limited, but would be rounded
 * to a bound in 16 bits, is stored as the number next to the bound. */

ORTRAIN_FUNCTION int
ortrain_is_stored_bound_f32 (float y, float bound)
{
  return y == bound || y == ortrain_half_to_float (ortrain_float_to_half (bound)) ||
         y == ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (bound));
}

ORTRAIN_FUNCTION int
ortrain_is_stored_bound (double y, double bound)
{
  return y == bound || ((double) (float) y == y && ortrain_is_stored_bound_f32 ((float) y, (float) bound));
}

/* The next number above or below, in either type of 16 bits. */
ORTRAIN_FUNCTION uint16_t
ortrain_half_step (uint16_t bits, int up)
{
  const uint16_t sign = up ? 0 : 0x8000;
  if ((bits & 0x7fff) == 0)
    return (uint16_t) (sign | 1);
  return (uint16_t) ((bits & 0x8000) == sign ? bits + 1 : bits - 1);
}

/* y, which was not limited, as it is stored in 16 bits. */
ORTRAIN_FUNCTION uint16_t
ortrain_store_between (int is_half, float y, float high, float low)
{
  uint16_t bits = is_half ? ortrain_float_to_half (y) : ortrain_float_to_bfloat16 (y);
  for (int k = 0; k < 4; k++) /* two roundings of two bounds */
    {
      const float stored = is_half ? ortrain_half_to_float (bits) : ortrain_bfloat16_to_float (bits);
      if (ortrain_is_stored_bound_f32 (stored, high))
        bits = ortrain_half_step (bits, 0);
      else if (ortrain_is_stored_bound_f32 (stored, low))
        bits = ortrain_half_step (bits, 1);
      else
        break;
    }
  return bits;
}
