/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-math-f32.h"

#include <glib.h>
#include <math.h>
#include <string.h>

/* In front of a loop whose turns do not depend on each other, though the compiler cannot see it: operands may be the
 * same memory, element by element. Clang has nothing like it that keeps quiet where a loop calls a function. */
#ifdef __clang__
#define ORTRAIN_INDEPENDENT
#else
#define ORTRAIN_INDEPENDENT _Pragma ("GCC ivdep")
#endif

/* Reductions over contiguous memory, written so that a compiler vectorises them without being allowed to reorder sums:
 * N lanes run side by side and are joined in a fixed order at the end of each block. A block of singles is short enough
 * for its rounding to vanish beside that of its elements; blocks are joined in double. */
#define ORTRAIN_LANES 64
#define ORTRAIN_LANE_BLOCK 4096

/* e^x of a single: about 1 ulp; 0 below -104, infinity above 88.73, NaN stays NaN. Sums and softmax have had this
 * polynomial, one degree longer than that of ortrain_f32_exp(), from the beginning, and keep its bits. */
static inline float
ortrain_lane_expf (float x)
{
  int32_t n;
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  float r = ortrain_f32_exp_remainder (x, &n);
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return ortrain_f32_scale (p * r * r + r + 1.0f, n);
}

static inline double
ortrain_lane_exp (double x)
{
  return exp (x);
}

/* The five loops that everything here is made of, for both widths. EXPR reads x (an element at i + j) and combines into
 * lane[j]. */
#define ORTRAIN_DEFINE_LANE_SUM(name, real, expr)                                                                      \
  static inline double name (const real *restrict v, gint64 n, real shift)                                             \
  {                                                                                                                    \
    double total = 0;                                                                                                  \
    gint64 i = 0;                                                                                                      \
    while (n - i >= ORTRAIN_LANES)                                                                                     \
      {                                                                                                                \
        real lane[ORTRAIN_LANES] = { 0 };                                                                              \
        gint64 end = MIN (n, i + ORTRAIN_LANE_BLOCK);                                                                  \
        for (; i + ORTRAIN_LANES <= end; i += ORTRAIN_LANES)                                                           \
          for (int j = 0; j < ORTRAIN_LANES; j++)                                                                      \
            {                                                                                                          \
              real x = v[i + j];                                                                                       \
              lane[j] += (expr);                                                                                       \
            }                                                                                                          \
        for (int w = ORTRAIN_LANES / 2; w > 0; w /= 2)                                                                 \
          for (int j = 0; j < w; j++)                                                                                  \
            lane[j] += lane[j + w];                                                                                    \
        total += lane[0];                                                                                              \
      }                                                                                                                \
    real part[8] = { 0 }, tail = 0;                                                                                    \
    for (; n - i >= 8; i += 8)                                                                                         \
      for (int j = 0; j < 8; j++)                                                                                      \
        {                                                                                                              \
          real x = v[i + j];                                                                                           \
          part[j] += (expr);                                                                                           \
        }                                                                                                              \
    for (; i < n; i++)                                                                                                 \
      {                                                                                                                \
        real x = v[i];                                                                                                 \
        tail += (expr);                                                                                                \
      }                                                                                                                \
    tail += ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));                 \
    return total + tail;                                                                                               \
  }

#define ORTRAIN_DEFINE_LANE_EXTREME(name, real, op, start)                                                             \
  static inline real name (const real *restrict v, gint64 n)                                                           \
  {                                                                                                                    \
    real best = (start);                                                                                               \
    gint64 i = 0;                                                                                                      \
    if (n >= ORTRAIN_LANES)                                                                                            \
      {                                                                                                                \
        real lane[ORTRAIN_LANES];                                                                                      \
        for (int j = 0; j < ORTRAIN_LANES; j++)                                                                        \
          lane[j] = (start);                                                                                           \
        for (; i + ORTRAIN_LANES <= n; i += ORTRAIN_LANES)                                                             \
          for (int j = 0; j < ORTRAIN_LANES; j++)                                                                      \
            lane[j] = v[i + j] op lane[j] ? v[i + j] : lane[j];                                                        \
        for (int j = 0; j < ORTRAIN_LANES; j++)                                                                        \
          best = lane[j] op best ? lane[j] : best;                                                                     \
      }                                                                                                                \
    for (; i < n; i++)                                                                                                 \
      best = v[i] op best ? v[i] : best;                                                                               \
    return best;                                                                                                       \
  }

/* Sums of x, |x|, x²; extremes that skip NaN (a NaN that is skipped comes back through the sum that follows). */
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_f32, float, x)
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_f64, double, x)
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_abs_f32, float, fabsf (x))
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_abs_f64, double, fabs (x))
/* of (x - shift)² */
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_square_f32, float, (x - shift) * (x - shift))
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_square_f64, double, (x - shift) * (x - shift))
/* of e^(x - shift) */
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_exp_f32, float, ortrain_lane_expf (x - shift))
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_exp_f64, double, ortrain_lane_exp (x - shift))
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_max_f32, float, >, -INFINITY)
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_max_f64, double, >, -INFINITY)
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_min_f32, float, <, INFINITY)
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_min_f64, double, <, INFINITY)

/* Sum of x·y, and of (x - shift)·y. */
#define ORTRAIN_DEFINE_LANE_DOT(name, real)                                                                            \
  static inline double name (const real *restrict v, const real *restrict y, gint64 n, real shift)                     \
  {                                                                                                                    \
    double total = 0;                                                                                                  \
    gint64 i = 0;                                                                                                      \
    while (n - i >= ORTRAIN_LANES)                                                                                     \
      {                                                                                                                \
        real lane[ORTRAIN_LANES] = { 0 };                                                                              \
        gint64 end = MIN (n, i + ORTRAIN_LANE_BLOCK);                                                                  \
        for (; i + ORTRAIN_LANES <= end; i += ORTRAIN_LANES)                                                           \
          for (int j = 0; j < ORTRAIN_LANES; j++)                                                                      \
            lane[j] += (v[i + j] - shift) * y[i + j];                                                                  \
        for (int w = ORTRAIN_LANES / 2; w > 0; w /= 2)                                                                 \
          for (int j = 0; j < w; j++)                                                                                  \
            lane[j] += lane[j + w];                                                                                    \
        total += lane[0];                                                                                              \
      }                                                                                                                \
    real part[8] = { 0 }, tail = 0;                                                                                    \
    for (; n - i >= 8; i += 8)                                                                                         \
      for (int j = 0; j < 8; j++)                                                                                      \
        part[j] += (v[i + j] - shift) * y[i + j];                                                                      \
    for (; i < n; i++)                                                                                                 \
      tail += (v[i] - shift) * y[i];                                                                                   \
    tail += ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));                 \
    return total + tail;                                                                                               \
  }
ORTRAIN_DEFINE_LANE_DOT (ortrain_lane_dot_f32, float)
ORTRAIN_DEFINE_LANE_DOT (ortrain_lane_dot_f64, double)
