/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-float-private.h"
#include "kernel-abi/ortrain-update-scalars-private.h"

#include <math.h>

/* Moments of optimizers in 8 bits, block by block: Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit Optimizers via
 * Block-wise Quantization" (arXiv:2110.02861). A code says which share of the largest magnitude of its block a number
 * is. Shares are dense near the largest and reach down seven decades: decade i, from 0.1 · 10^(i - 6) to 10^(i - 6) for
 * i = 0 … 6, is cut into 2^i equal parts where codes have a sign, into 2^(i + 1) where they have none, and a code is
 * the centre of its part. In addition, there are 0 and exactly 1.
 *
 * With a sign, codes are whole numbers of two's complement, but for 128, which is 1: -127 … 128, 0 is zero. Without,
 * they are 0 … 255: zero, 254 parts, 1. Codes of larger numbers are larger.
 *
 * From share to position, counted in parts with a sign, a line belongs to each decade. Each ends where the next begins,
 * and each is less steep than the one before it: so the position is the least of all lines, and back, the share is the
 * greatest of their inverses. That needs neither comparisons nor tables, which vector units and GPUs would wait for. */

/* Line i: 2^i · (share · 10^(6 - i) - 0.1) / 0.9 + 2^i; tens: 10^(6 - i). The last one ends a little above 128, as a
 * number times a rounded reciprocal of itself may be a little below 1. */
#define ORTRAIN_BLOCK_SLOPE(i, tens) ((float) ((1 << (i)) * (tens) / 0.9))
#define ORTRAIN_BLOCK_LINE(i, tens, x) (ORTRAIN_BLOCK_SLOPE (i, tens) * (x) + (float) ((1 << (i)) * 8 / 9.0))
#define ORTRAIN_BLOCK_LAST_LINE(x) (ORTRAIN_BLOCK_SLOPE (6, 1.0) * (x) + (float) (64 * 8 / 9.0 + 3e-5))
#define ORTRAIN_BLOCK_INVERSE(i, tens, y) ((float) (0.9 / ((1 << (i)) * (tens))) * (y) - (float) (0.8 / (tens)))

ORTRAIN_FUNCTION float
ortrain_block_least (float x, float y)
{
  return y < x ? y : x;
}

ORTRAIN_FUNCTION float
ortrain_block_greatest (float x, float y)
{
  return y > x ? y : x;
}

/* share: 0 … 1. Returns 0.89 … 128: part k of decade i begins at 2^i + k. NaN, which occurs only in a block whose scale
 * is NaN, gives 0. */
ORTRAIN_FUNCTION float
ortrain_block_position (float share)
{
  float y = ORTRAIN_BLOCK_LINE (0, 1e6, share);
  y = ortrain_block_least (y, ORTRAIN_BLOCK_LINE (1, 1e5, share));
  y = ortrain_block_least (y, ORTRAIN_BLOCK_LINE (2, 1e4, share));
  y = ortrain_block_least (y, ORTRAIN_BLOCK_LINE (3, 1e3, share));
  y = ortrain_block_least (y, ORTRAIN_BLOCK_LINE (4, 1e2, share));
  y = ortrain_block_least (y, ORTRAIN_BLOCK_LINE (5, 1e1, share));
  y = ortrain_block_least (y, ORTRAIN_BLOCK_LAST_LINE (share));
  y = y > 0.0f ? y : 0.0f;
  return y < 128.0f ? y : 128.0f;
}

/* The other way round; positions below the first part are 0, those above the last 1. */
ORTRAIN_FUNCTION float
ortrain_block_share (float position)
{
  float x = ORTRAIN_BLOCK_INVERSE (0, 1e6, position);
  x = ortrain_block_greatest (x, ORTRAIN_BLOCK_INVERSE (1, 1e5, position));
  x = ortrain_block_greatest (x, ORTRAIN_BLOCK_INVERSE (2, 1e4, position));
  x = ortrain_block_greatest (x, ORTRAIN_BLOCK_INVERSE (3, 1e3, position));
  x = ortrain_block_greatest (x, ORTRAIN_BLOCK_INVERSE (4, 1e2, position));
  x = ortrain_block_greatest (x, ORTRAIN_BLOCK_INVERSE (5, 1e1, position));
  x = ortrain_block_greatest (x, ORTRAIN_BLOCK_INVERSE (6, 1e0, position));
  x = x > 0.0f ? x : 0.0f;
  return x < 1.0f ? x : 1.0f;
}

#undef ORTRAIN_BLOCK_SLOPE
#undef ORTRAIN_BLOCK_LINE
#undef ORTRAIN_BLOCK_LAST_LINE
#undef ORTRAIN_BLOCK_INVERSE

/* Bit patterns of magnitudes are ordered as magnitudes are, and NaN is above all: the scale of a block with a NaN is
 * NaN, and its elements decode to NaN. */
ORTRAIN_FUNCTION uint32_t
ortrain_block_magnitude (float x)
{
  return ortrain_f32_bits (x) & 0x7fffffffu;
}

/* row: [ORTRAIN_STATE_ROW] */
ORTRAIN_FUNCTION float
ortrain_block_get_scale (const uint8_t *row)
{
  return ortrain_f32_from_bits ((uint32_t) row[0] | (uint32_t) row[1] << 8 | (uint32_t) row[2] << 16 |
                                (uint32_t) row[3] << 24);
}

ORTRAIN_FUNCTION void
ortrain_block_set_scale (uint8_t *row, float scale)
{
  const uint32_t bits = ortrain_f32_bits (scale);
  for (int i = 0; i < 4; i++)
    row[i] = (uint8_t) (bits >> (8 * i));
}

/* most: the largest magnitude of a block. One that has no reciprocal is taken for the smallest number that has one. */
ORTRAIN_FUNCTION float
ortrain_block_scale (uint32_t most)
{
  return ortrain_f32_from_bits (most > 0u && most < 0x00800000u ? 0x00800000u : most);
}

/* The factor that turns numbers into shares. */
ORTRAIN_FUNCTION float
ortrain_block_factor (float scale)
{
  return scale > 0.0f ? 1.0f / scale : 0.0f;
}

/* x: a first moment. There is no -1: its part is the one before. */
ORTRAIN_FUNCTION uint8_t
ortrain_block_encode_signed (float x, float factor)
{
  const int code = (int) ortrain_block_position (fabsf (x) * factor);
  return (uint8_t) (x < 0.0f ? -(code < 127 ? code : 127) : code);
}

/* x: a second moment, not negative. A number that is not zero never becomes zero: the step is divided by its root, and
 * without it only epsilon would be left in the denominator, so that the step would be too large. It gets at least the
 * smallest code, which makes the step too small instead. */
ORTRAIN_FUNCTION uint8_t
ortrain_block_encode_unsigned (float x, float factor)
{
  const int code = (int) (2.0f * ortrain_block_position (x * factor) - 1.0f);
  return (uint8_t) (x > 0.0f ? (code > 1 ? code : 1) : 0);
}

ORTRAIN_FUNCTION float
ortrain_block_decode_signed (uint8_t code)
{
  const int part = code > 128 ? code - 256 : code;
  const float share = ortrain_block_share ((float) (part < 0 ? -part : part) + 0.5f);
  return part < 0 ? -share : share;
}

ORTRAIN_FUNCTION float
ortrain_block_decode_unsigned (uint8_t code)
{
  return ortrain_block_share (0.5f * (float) code + 0.75f);
}
