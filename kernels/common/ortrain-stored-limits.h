/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-float-private.h"

/* Activations of a cell whose inputs are limited by `clip`, stored in 16 bits: the backward pass recognizes what was limited
 * by its value, that of a bound. What was not limited, but would be rounded to a bound, is stored as the number next to
 * it. */

/* The next number above or below, in either type of 16 bits. */
ORTRAIN_FUNCTION uint16_t
ortrain_half_step (uint16_t bits, int up)
{
  const uint16_t sign = up ? 0 : 0x8000;
  if ((bits & 0x7fff) == 0)
    return (uint16_t) (sign | 1);
  return (uint16_t) ((bits & 0x8000) == sign ? bits + 1 : bits - 1);
}

/* bits: a value that was not limited; high, low: the bounds, all rounded. */
ORTRAIN_FUNCTION uint16_t
ortrain_half_between (uint16_t bits, uint16_t high, uint16_t low)
{
  return bits == high ? ortrain_half_step (bits, 0) : bits == low ? ortrain_half_step (bits, 1) : bits;
}
