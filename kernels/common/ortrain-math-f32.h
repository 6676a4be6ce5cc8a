/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-float-private.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Functions of one float, free of branches and tables, so that a loop over them becomes vector code on every
 * instruction set. Errors are about 1 to 2 units in the last place over the whole range unless a comment says
 * otherwise; infinities, NaN, zeros and denormal numbers come out as IEEE 754 asks. Coefficients are least-maximum fits
 * made for this file. */

/* Where the machine has a fused multiply-add it is asked for by name: the compiler is told not to contract, so that an
 * expression has the same bits wherever it is inlined. */
#if defined(__CUDACC__)
#define ORTRAIN_FMAF(a, b, c) fmaf ((a), (b), (c))
#define ORTRAIN_FMA(a, b, c) fma ((a), (b), (c))
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define ORTRAIN_FMAF(a, b, c) __builtin_fmaf ((a), (b), (c))
#define ORTRAIN_FMA(a, b, c) __builtin_fma ((a), (b), (c))
#else
#define ORTRAIN_FMAF(a, b, c) ((a) * (b) + (c))
#define ORTRAIN_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* 2^n for -126 ≤ n ≤ 127 */
ORTRAIN_FUNCTION float
ortrain_f32_power_of_two (int32_t n)
{
  return ortrain_f32_from_bits ((uint32_t) (n + 127) << 23);
}

#define ORTRAIN_F32_ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer in the low bits */

/* e^x = 2^n e^r: the remainder r, |r| ≤ log 2 / 2, and n. x must be within ±105. */
ORTRAIN_FUNCTION float
ortrain_f32_exp_remainder (float x, int32_t *n)
{
  float t = ORTRAIN_FMAF (x, 1.442695041f, ORTRAIN_F32_ROUND_MAGIC);
  float k = t - ORTRAIN_F32_ROUND_MAGIC;
  *n = (int32_t) (ortrain_f32_bits (t) - ortrain_f32_bits (ORTRAIN_F32_ROUND_MAGIC));
  float r = ORTRAIN_FMAF (k, -0.693359375f, x);
  return ORTRAIN_FMAF (k, 2.12194440e-4f, r);
}

/* e^r - 1 of a remainder */
ORTRAIN_FUNCTION float
ortrain_f32_expm1_reduced (float r)
{
  float q = 1.381314236e-03f;
  q = ORTRAIN_FMAF (q, r, 8.369419043e-03f);
  q = ORTRAIN_FMAF (q, r, 4.166845683e-02f);
  q = ORTRAIN_FMAF (q, r, 1.666651479e-01f);
  q = ORTRAIN_FMAF (q, r, 4.999999305e-01f);
  return ORTRAIN_FMAF (q, r * r, r);
}

/* p 2^n, in two factors: denormal results round once more, results near the largest float fit. */
ORTRAIN_FUNCTION float
ortrain_f32_scale (float p, int32_t n)
{
  int32_t half = n >> 1;
  return p * ortrain_f32_power_of_two (half) * ortrain_f32_power_of_two (n - half);
}

/* e^x */
ORTRAIN_FUNCTION float
ortrain_f32_exp (float x)
{
  int32_t n;
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.5f ? -104.5f : x;
  float r = ortrain_f32_exp_remainder (x, &n);
  return ortrain_f32_scale (ortrain_f32_expm1_reduced (r) + 1.0f, n);
}

/* e^x - 1, exact also for small x: error about 3 units in the last place. */
ORTRAIN_FUNCTION float
ortrain_f32_expm1 (float x)
{
  int32_t i;
  float c = x > 89.0f ? 89.0f : x;
  c = c < -20.0f ? -20.0f : c;
  float p = ortrain_f32_expm1_reduced (ortrain_f32_exp_remainder (c, &i)); /* e^r - 1 */
  int32_t half = i >> 1;
  float s1 = ortrain_f32_power_of_two (half), s2 = ortrain_f32_power_of_two (i - half);
  float s = s1 * s2; /* infinite for i = 128 only, where the result is */
  float y = ORTRAIN_FMAF (p, s, s - 1.0f);
  y = i > 127 ? (p + 1.0f) * s1 * s2 : y;
  return i == 0 ? (c == 0.0f ? x : p) : y;
}

/* Natural logarithm. */
ORTRAIN_FUNCTION float
ortrain_f32_log (float x)
{
  int small = x < 1.17549435e-38f;
  float scaled = small ? x * 8388608.0f : x;
  uint32_t u = ortrain_f32_bits (scaled);
  /* x = 2^n m, with m in [sqrt(1/2), sqrt(2)) */
  uint32_t shifted = u - 0x3f3504f3u;
  int32_t n = (int32_t) shifted >> 23;
  float m = ortrain_f32_from_bits (u - ((uint32_t) n << 23));
  float e = (float) n - (small ? 23.0f : 0.0f);
  float f = m - 1.0f;
  float q = -7.634429913e-02f;
  q = ORTRAIN_FMAF (q, f, 1.276155036e-01f);
  q = ORTRAIN_FMAF (q, f, -1.316019505e-01f);
  q = ORTRAIN_FMAF (q, f, 1.420176247e-01f);
  q = ORTRAIN_FMAF (q, f, -1.662335648e-01f);
  q = ORTRAIN_FMAF (q, f, 2.000122667e-01f);
  q = ORTRAIN_FMAF (q, f, -2.500082106e-01f);
  q = ORTRAIN_FMAF (q, f, 3.333333171e-01f);
  float f2 = f * f;
  float y = q * (f2 * f);
  y = ORTRAIN_FMAF (e, -2.12194440e-4f, y);
  y = ORTRAIN_FMAF (f2, -0.5f, y);
  y = f + y;
  y = ORTRAIN_FMAF (e, 0.693359375f, y);
  y = x > 3.40282347e+38f ? x : y;
  y = x < 0.0f ? NAN : y;
  y = x == 0.0f ? -INFINITY : y;
  return x != x ? x : y;
}

/* log (1 + x) */
ORTRAIN_FUNCTION float
ortrain_f32_log1p (float x)
{
  float u = 1.0f + x;
  float y = ortrain_f32_log (u);
  /* the part of 1 + x lost by rounding, to first order */
  float lost = x - (u - 1.0f);
  float corrected = y + lost / u;
  float small = x * ORTRAIN_FMAF (x, ORTRAIN_FMAF (x, 0.333333333f, -0.5f), 1.0f);
  float a = x < 0 ? -x : x;
  float result = a < 1e-3f ? small : corrected;
  return u > 3.40282347e+38f || u <= 0.0f ? y : result;
}

ORTRAIN_FUNCTION float
ortrain_f32_tanh (float x)
{
  float a = fabsf (x);
  a = a > 10.0f ? 10.0f : a; /* keeps NaN */
  float s = a * a;
  float q = -5.660780474e-03f;
  q = ORTRAIN_FMAF (q, s, 2.060199917e-02f);
  q = ORTRAIN_FMAF (q, s, -5.372922705e-02f);
  q = ORTRAIN_FMAF (q, s, 1.333132892e-01f);
  q = ORTRAIN_FMAF (q, s, -3.333327831e-01f);
  float small = ORTRAIN_FMAF (q, s * a, a);
  float large = 1.0f - 2.0f / (ortrain_f32_exp (2.0f * a) + 1.0f);
  float y = a < 0.625f ? small : large;
  return copysignf (y, x);
}

/* 1 / (1 + e^-x), of full relative precision on the left side too. */
ORTRAIN_FUNCTION float
ortrain_f32_sigmoid (float x)
{
  float e = ortrain_f32_exp (-fabsf (x));
  float y = (x < 0.0f ? e : 1.0f) / (1.0f + e);
  return y;
}

/* Error function: one rational function of x², whose value is ±1 from 4 on. */
ORTRAIN_FUNCTION float
ortrain_f32_erf (float x)
{
  float c = x > 4.0f ? 4.0f : x;
  c = c < -4.0f ? -4.0f : c;
  float s = c * c;
  float p = -1.320150255e-08f;
  p = ORTRAIN_FMAF (p, s, 4.684624856e-06f);
  p = ORTRAIN_FMAF (p, s, 3.796042051e-04f);
  p = ORTRAIN_FMAF (p, s, 3.849639374e-03f);
  p = ORTRAIN_FMAF (p, s, 5.431692958e-02f);
  p = ORTRAIN_FMAF (p, s, 1.852042856e-01f);
  p = ORTRAIN_FMAF (p, s, 1.128379169e+00f);
  float q = 6.310915099e-05f;
  q = ORTRAIN_FMAF (q, s, 1.307569338e-03f);
  q = ORTRAIN_FMAF (q, s, 1.546212938e-02f);
  q = ORTRAIN_FMAF (q, s, 1.139587470e-01f);
  q = ORTRAIN_FMAF (q, s, 4.974664384e-01f);
  q = ORTRAIN_FMAF (q, s, 1.0f);
  float y = c * p / q;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}

/* max (x, 0) + log (1 + e^-|x|) */
ORTRAIN_FUNCTION float
ortrain_f32_softplus (float x)
{
  float positive = x < 0.0f ? 0.0f : x;
  return positive + ortrain_f32_log1p (ortrain_f32_exp (-fabsf (x)));
}

#define ORTRAIN_F32_MAX_ANGLE 1e6f

/* Quarter turns: x = n pi/2 + r with |r| ≤ pi/4, for |x| up to ORTRAIN_F32_MAX_ANGLE: pi/2 is a part of 33 bits, whose
 * product with n is exact in double, and the rest. */
ORTRAIN_FUNCTION float
ortrain_f32_quarter (float x, int32_t *n)
{
  double t = (double) x * 0.63661977236758134308 + 6755399441055744.0;
  double k = t - 6755399441055744.0;
  union
  {
    double d;
    uint64_t u;
  } bits = { t };
  *n = (int32_t) bits.u;
  double r = ORTRAIN_FMA (k, -1.57079632673412561417, (double) x);
  return (float) ORTRAIN_FMA (k, -6.07710050650619224932e-11, r);
}

ORTRAIN_FUNCTION float
ortrain_f32_sin_reduced (float r)
{
  float s = r * r;
  float q = 2.717939821e-06f;
  q = ORTRAIN_FMAF (q, s, -1.983929612e-04f);
  q = ORTRAIN_FMAF (q, s, 8.333329267e-03f);
  q = ORTRAIN_FMAF (q, s, -1.666666664e-01f);
  return ORTRAIN_FMAF (q, s * r, r);
}

ORTRAIN_FUNCTION float
ortrain_f32_cos_reduced (float r)
{
  float s = r * r;
  float q = -2.720678722e-07f;
  q = ORTRAIN_FMAF (q, s, 2.479947861e-05f);
  q = ORTRAIN_FMAF (q, s, -1.388888360e-03f);
  q = ORTRAIN_FMAF (q, s, 4.166666662e-02f);
  return ORTRAIN_FMAF (q, s * s, ORTRAIN_FMAF (-0.5f, s, 1.0f));
}

ORTRAIN_FUNCTION float
ortrain_f32_sin (float x)
{
  int32_t n;
  float r = ortrain_f32_quarter (x, &n);
  float s = ortrain_f32_sin_reduced (r), c = ortrain_f32_cos_reduced (r);
  float y = n & 1 ? c : s;
  y = n & 2 ? -y : y;
  y = x == 0.0f ? x : y;
  return fabsf (x) > 3.40282347e+38f ? NAN : y;
}

ORTRAIN_FUNCTION float
ortrain_f32_cos (float x)
{
  int32_t n;
  float r = ortrain_f32_quarter (x, &n);
  float s = ortrain_f32_sin_reduced (r), c = ortrain_f32_cos_reduced (r);
  float y = n & 1 ? s : c;
  y = (n + 1) & 2 ? -y : y;
  return fabsf (x) > 3.40282347e+38f ? NAN : y;
}

/* x^y; the logarithm, the product and the power are computed in double (relative error about 1e-9 before rounding). */
ORTRAIN_FUNCTION float
ortrain_f32_pow (float x, float y)
{
  float ax = fabsf (x), ay = fabsf (y);
  /* |x| = 2^n m with m in [sqrt(1/2), sqrt(2)); log2 m = 2 atanh ((m - 1) / (m + 1)) / log 2 */
  float scaled = ax < 1.17549435e-38f ? ax * 8388608.0f : ax;
  float lost = ax < 1.17549435e-38f ? 23.0f : 0.0f;
  uint32_t u = ortrain_f32_bits (scaled);
  int32_t n = (int32_t) (u - 0x3f3504f3u) >> 23;
  double m = (double) ortrain_f32_from_bits (u - ((uint32_t) n << 23));
  double z = (m - 1.0) / (m + 1.0), s = z * z;
  double q = 3.407449383063032e-01;
  q = ORTRAIN_FMA (q, s, 4.116718786444372e-01);
  q = ORTRAIN_FMA (q, s, 5.770835998228065e-01);
  q = ORTRAIN_FMA (q, s, 9.617966732578660e-01);
  q = ORTRAIN_FMA (q, s, 2.885390081790160e+00);
  double e = (double) y * ORTRAIN_FMA (q, z, (double) ((float) n - lost));
  e = e < 130.0 ? e : 130.0; /* outside of float, or NaN, for which the corners below have a value */
  e = e > -160.0 ? e : -160.0;
  double whole = (e + 6755399441055744.0) - 6755399441055744.0, r = e - whole;
  double p = 1.520191708821069e-05;
  p = ORTRAIN_FMA (p, r, 1.546929109926863e-04);
  p = ORTRAIN_FMA (p, r, 1.333392258287108e-03);
  p = ORTRAIN_FMA (p, r, 9.618027253820946e-03);
  p = ORTRAIN_FMA (p, r, 5.550410353424357e-02);
  p = ORTRAIN_FMA (p, r, 2.402265119815617e-01);
  p = ORTRAIN_FMA (p, r, 6.931471807284553e-01);
  p = ORTRAIN_FMA (p, r, 9.999999999616822e-01);
  int32_t k = (int32_t) (float) whole, half = k >> 1;
  float result = (float) p * ortrain_f32_power_of_two (half) * ortrain_f32_power_of_two (k - half);

  /* the corners, as C's pow has them; floats from 2^24 on are even numbers */
  float zero = y > 0.0f ? 0.0f : INFINITY, infinite = y > 0.0f ? INFINITY : 0.0f;
  result = ax == 0.0f ? zero : result;
  result = ax > 3.40282347e+38f ? infinite : result;
  float far = ax > 1.0f ? infinite : zero;
  far = ax == 1.0f ? 1.0f : far;
  result = ay > 3.40282347e+38f ? far : result;
  float halved = y * 0.5f;
  float odd = floorf (halved) != halved ? copysignf (result, x) : result;
  float broken = x < 0.0f ? NAN : result;
  broken = ax > 3.40282347e+38f ? result : broken;
  result = floorf (y) == y ? odd : broken;
  result = x != x ? x : result;
  result = y != y ? y : result;
  result = x == 1.0f ? 1.0f : result;
  return y == 0.0f ? 1.0f : result;
}
