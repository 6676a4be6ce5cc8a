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
 * for its rounding to be negligible compared with that of its elements; blocks are joined in double. */
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

/* The lanes as vectors of the instruction set: in an array of singles they would be loaded and stored for each turn. */
#ifdef __AVX512F__
#define ORTRAIN_LANE_BYTES 64
#elif defined __AVX__
#define ORTRAIN_LANE_BYTES 32
#else
#define ORTRAIN_LANE_BYTES 16
#endif
#define ORTRAIN_LANE_VECTOR(real) __attribute__ ((vector_size (ORTRAIN_LANE_BYTES), aligned (sizeof (real)), may_alias))
typedef float OrtrainLane_f32 ORTRAIN_LANE_VECTOR (float);
typedef double OrtrainLane_f64 ORTRAIN_LANE_VECTOR (double);
typedef struct
{
  OrtrainLane_f32 v[ORTRAIN_LANES * sizeof (float) / ORTRAIN_LANE_BYTES];
} OrtrainLanes_f32;
typedef struct
{
  OrtrainLane_f64 v[ORTRAIN_LANES * sizeof (double) / ORTRAIN_LANE_BYTES];
} OrtrainLanes_f64;

/* In front of a loop over the vectors of OrtrainLanes; clang unrolls them by itself. */
#ifdef __clang__
#define ORTRAIN_EACH_LANE
#else
#define ORTRAIN_EACH_LANE _Pragma ("GCC unroll 32")
#endif
#define ORTRAIN_N_LANE_VECTORS(lanes) ((int) G_N_ELEMENTS ((lanes).v))

/* Lane j and lane j + 32, then j and j + 16, and so on down to one. */
#define ORTRAIN_JOIN_LANE_VECTORS(lanes)                                                                               \
  ORTRAIN_EACH_LANE                                                                                                    \
  for (int w = ORTRAIN_N_LANE_VECTORS (lanes) / 2; w > 0; w /= 2)                                                      \
    ORTRAIN_EACH_LANE                                                                                                  \
  for (int k = 0; k < w; k++)                                                                                          \
    (lanes).v[k] += (lanes).v[k + w];

static inline double
ortrain_lanes_join_f32 (OrtrainLanes_f32 lanes)
{
  ORTRAIN_JOIN_LANE_VECTORS (lanes)
#if ORTRAIN_LANE_BYTES == 64
  const OrtrainLane_f32 v = lanes.v[0];
  const __typeof__ (__builtin_shufflevector (v, v, 0, 1, 2, 3, 4, 5, 6, 7)) half =
      __builtin_shufflevector (v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
      __builtin_shufflevector (v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#elif ORTRAIN_LANE_BYTES == 32
  const OrtrainLane_f32 half = lanes.v[0];
#endif
#if ORTRAIN_LANE_BYTES >= 32
  const __typeof__ (__builtin_shufflevector (half, half, 0, 1, 2, 3)) four =
      __builtin_shufflevector (half, half, 0, 1, 2, 3) + __builtin_shufflevector (half, half, 4, 5, 6, 7);
#else
  const OrtrainLane_f32 four = lanes.v[0];
#endif
  return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline double
ortrain_lanes_join_f64 (OrtrainLanes_f64 lanes)
{
  ORTRAIN_JOIN_LANE_VECTORS (lanes)
#if ORTRAIN_LANE_BYTES == 64
  const OrtrainLane_f64 v = lanes.v[0];
  const __typeof__ (__builtin_shufflevector (v, v, 0, 1, 2, 3)) four =
      __builtin_shufflevector (v, v, 0, 1, 2, 3) + __builtin_shufflevector (v, v, 4, 5, 6, 7);
#elif ORTRAIN_LANE_BYTES == 32
  const OrtrainLane_f64 four = lanes.v[0];
#endif
#if ORTRAIN_LANE_BYTES >= 32
  return (four[0] + four[2]) + (four[1] + four[3]);
#else
  return lanes.v[0][0] + lanes.v[0][1];
#endif
}

/* Sums of EXPR, which reads x, an element, and calls a function with it. */
#define ORTRAIN_DEFINE_LANE_SUM_BY_ELEMENT(name, real, expr)                                                           \
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

/* Sums of EXPR, which reads x, and the same elements of another operand through ORTRAIN_LANE_AT: vectors, and the
 * single elements that are left. The last argument is the parameter for that operand, or nothing. */
#define ORTRAIN_LANE_AT(operand) (*(const __typeof__ (x) *) ((operand) + at))
#define ORTRAIN_DEFINE_LANE_SUM(name, real, width, expr, ...)                                                          \
  static inline double name##_##width (const real *restrict v, __VA_ARGS__ gint64 n, real shift)                       \
  {                                                                                                                    \
    double total = 0;                                                                                                  \
    gint64 i = 0;                                                                                                      \
    while (n - i >= ORTRAIN_LANES)                                                                                     \
      {                                                                                                                \
        OrtrainLanes_##width lanes = { 0 };                                                                            \
        const gint64 end = MIN (n, i + ORTRAIN_LANE_BLOCK);                                                            \
        for (; i + ORTRAIN_LANES <= end; i += ORTRAIN_LANES)                                                           \
          ORTRAIN_EACH_LANE                                                                                            \
        for (int k = 0; k < ORTRAIN_N_LANE_VECTORS (lanes); k++)                                                       \
          {                                                                                                            \
            const gint64 at = i + k * ORTRAIN_LANES / ORTRAIN_N_LANE_VECTORS (lanes);                                  \
            const OrtrainLane_##width x = *(const OrtrainLane_##width *) (v + at);                                     \
            lanes.v[k] += (expr);                                                                                      \
          }                                                                                                            \
        total += ortrain_lanes_join_##width (lanes);                                                                   \
      }                                                                                                                \
    real part[8] = { 0 }, tail = 0;                                                                                    \
    for (; n - i >= 8; i += 8)                                                                                         \
      for (int j = 0; j < 8; j++)                                                                                      \
        {                                                                                                              \
          const gint64 at = i + j;                                                                                     \
          const real x = v[at];                                                                                        \
          part[j] += (expr);                                                                                           \
        }                                                                                                              \
    for (gint64 at = i; at < n; at++)                                                                                  \
      {                                                                                                                \
        const real x = v[at];                                                                                          \
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
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum, float, f32, x, )
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum, double, f64, x, )
ORTRAIN_DEFINE_LANE_SUM_BY_ELEMENT (ortrain_lane_sum_abs_f32, float, fabsf (x))
ORTRAIN_DEFINE_LANE_SUM_BY_ELEMENT (ortrain_lane_sum_abs_f64, double, fabs (x))
/* of (x - shift)² */
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_square, float, f32, (x - shift) * (x - shift), )
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_sum_square, double, f64, (x - shift) * (x - shift), )
/* of e^(x - shift) */
ORTRAIN_DEFINE_LANE_SUM_BY_ELEMENT (ortrain_lane_sum_exp_f32, float, ortrain_lane_expf (x - shift))
ORTRAIN_DEFINE_LANE_SUM_BY_ELEMENT (ortrain_lane_sum_exp_f64, double, ortrain_lane_exp (x - shift))
/* of (x - shift)·y */
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_dot, float, f32, (x - shift) * ORTRAIN_LANE_AT (y), const float *restrict y, )
ORTRAIN_DEFINE_LANE_SUM (ortrain_lane_dot, double, f64, (x - shift) * ORTRAIN_LANE_AT (y), const double *restrict y, )
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_max_f32, float, >, -INFINITY)
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_max_f64, double, >, -INFINITY)
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_min_f32, float, <, INFINITY)
ORTRAIN_DEFINE_LANE_EXTREME (ortrain_lane_min_f64, double, <, INFINITY)
