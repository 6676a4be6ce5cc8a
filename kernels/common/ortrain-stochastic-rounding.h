/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-float-private.h"

/* Stochastic rounding of parameters that exist in bfloat16 alone: up with a probability equal to the fraction that is
 * cut off, so that small steps add up on average. Philox gives the bits, keyed by the seed, the number of the update
 * and the parameter: element i takes word i % 4 of block i / 4. */

/* The number of a parameter in the place of that of a node, which counts from the other end. */
ORTRAIN_FUNCTION uint32_t
ortrain_stochastic_rounding_node (uint32_t parameter)
{
  return ~parameter;
}

/* Adds the low 16 bits of `random` below the cut, then truncates. Infinities and NaN stay. */
ORTRAIN_FUNCTION uint16_t
ortrain_float_to_bfloat16_stochastic (float x, uint32_t random)
{
  uint32_t u = ortrain_f32_bits (x), magnitude = u & 0x7fffffffu;
  uint32_t rounded = (u + (random & 0xffffu)) >> 16;
  uint32_t kept = (u >> 16) | (magnitude > 0x7f800000u ? 0x40u : 0u);
  return (uint16_t) (magnitude >= 0x7f800000u ? kept : rounded);
}
