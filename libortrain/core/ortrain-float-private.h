/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-function-private.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

/* Bits of floats, and the two types of 16 bits to float and back: round to nearest even, NaN made quiet, as processors
 * do it. Free of branches: loops over these become vector code. Plain C, for kernels of every device. */

ORTRAIN_FUNCTION uint32_t
ortrain_f32_bits (float x)
{
  union
  {
    float f;
    uint32_t u;
  } v = { x };
  return v.u;
}

ORTRAIN_FUNCTION float
ortrain_f32_from_bits (uint32_t u)
{
  union
  {
    uint32_t u;
    float f;
  } v = { u };
  return v.f;
}

ORTRAIN_FUNCTION float
ortrain_half_to_float (uint16_t h)
{
  uint32_t sign = (uint32_t) (h & 0x8000u) << 16;
  uint32_t body = (uint32_t) (h & 0x7fffu) << 13;
  uint32_t special = body >= (0x7c00u << 13) ? 0x38000000u : 0u; /* infinities and NaN: exponent 31 becomes 255 */
  uint32_t quiet = body > (0x7c00u << 13) ? 0x00400000u : 0u;
  float normal = ortrain_f32_from_bits ((body + 0x38000000u + special) | quiet);
  /* denormal: the bits count units of 2^-24 */
  float small = (float) (int32_t) (h & 0x7fffu) * 0x1p-24f;
  float y = body < (0x0400u << 13) ? small : normal;
  return ortrain_f32_from_bits (ortrain_f32_bits (y) | sign);
}

ORTRAIN_FUNCTION uint16_t
ortrain_float_to_half (float x)
{
  uint32_t u = ortrain_f32_bits (x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  /* denormal results: adding 0.5 moves the units of 2^-24 into the low bits, rounded by the addition itself */
  uint32_t small = ortrain_f32_bits (ortrain_f32_from_bits (a) + 0.5f) - 0x3f000000u;
  uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
  uint32_t y = a < 0x38800000u ? small : normal;
  y = a >= 0x477ff000u ? 0x7c00u : y; /* from 65520 on, rounding gives infinity */
  y = a > 0x7f800000u ? (0x7e00u | ((a >> 13) & 0x3ffu)) : y;
  return (uint16_t) (y | sign);
}

ORTRAIN_FUNCTION float
ortrain_bfloat16_to_float (uint16_t b)
{
  return ortrain_f32_from_bits ((uint32_t) b << 16);
}

ORTRAIN_FUNCTION uint16_t
ortrain_float_to_bfloat16 (float x)
{
  uint32_t u = ortrain_f32_bits (x);
  uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
  return (uint16_t) ((x != x ? u | 0x400000u : rounded) >> 16);
}

/* Cut off, and the last bit says whether anything was lost ("round to odd"): a second rounding to fewer bits then gives
 * what one rounding would have given. */
ORTRAIN_FUNCTION float
ortrain_double_to_odd_float (double x)
{
  float y = (float) x;
  uint32_t u = ortrain_f32_bits (y);
  double back = (double) y;
  uint32_t away = fabs (back) > fabs (x); /* it was rounded away from zero: step back, then set the last bit */
  uint32_t odd = (u - away) | 1u;
  uint32_t keep = back == x || !(fabs (back) <= (double) FLT_MAX);
  return ortrain_f32_from_bits (keep ? u : odd);
}
