/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-pointwise-program.h"

#include "common/ortrain-formulas.h"

/* The computations of the instructions of element-wise programs: N elements in registers, r = code (a, b). */

/* ---- floating-point instructions ---- */

/* A formula or a function of the C library, by the type of its first argument. */
#define REAL_FORMULA(name)                                                                                             \
  template <typename... A> static __device__ __forceinline__ float real_##name (float x, A... more)                    \
  {                                                                                                                    \
    return ortrain_f32_##name (x, more...);                                                                            \
  }                                                                                                                    \
  template <typename... A> static __device__ __forceinline__ double real_##name (double x, A... more)                  \
  {                                                                                                                    \
    return ortrain_f64_##name (x, more...);                                                                            \
  }
#define REAL_LIBRARY(name)                                                                                             \
  static __device__ __forceinline__ float real_##name (float x)                                                        \
  {                                                                                                                    \
    return name##f (x);                                                                                                \
  }                                                                                                                    \
  static __device__ __forceinline__ double real_##name (double x)                                                      \
  {                                                                                                                    \
    return name (x);                                                                                                   \
  }
REAL_FORMULA (exp)
REAL_FORMULA (log)
REAL_FORMULA (erf)
REAL_FORMULA (erf_grad)
REAL_FORMULA (relu)
REAL_FORMULA (relu_grad)
REAL_FORMULA (tanh)
REAL_FORMULA (tanh_grad)
REAL_FORMULA (sigmoid)
REAL_FORMULA (sigmoid_grad)
REAL_FORMULA (leaky_relu)
REAL_FORMULA (leaky_relu_grad)
REAL_FORMULA (thresholded_relu)
REAL_FORMULA (elu)
REAL_FORMULA (elu_grad)
REAL_FORMULA (selu)
REAL_FORMULA (selu_grad)
REAL_FORMULA (celu)
REAL_FORMULA (celu_grad)
REAL_FORMULA (hard_sigmoid)
REAL_FORMULA (hard_sigmoid_grad)
REAL_FORMULA (hard_swish)
REAL_FORMULA (hard_swish_grad)
REAL_FORMULA (softplus)
REAL_FORMULA (softplus_grad)
REAL_FORMULA (softsign)
REAL_FORMULA (softsign_grad)
REAL_FORMULA (gelu)
REAL_FORMULA (gelu_grad)
REAL_FORMULA (gelu_tanh)
REAL_FORMULA (gelu_tanh_grad)
REAL_FORMULA (mish)
REAL_FORMULA (mish_grad)
REAL_FORMULA (swish)
REAL_FORMULA (swish_grad)
REAL_FORMULA (shrink)
REAL_FORMULA (pow)
REAL_LIBRARY (fabs)
REAL_LIBRARY (floor)
REAL_LIBRARY (ceil)
REAL_LIBRARY (rint)
REAL_LIBRARY (sqrt)
REAL_LIBRARY (tan)
REAL_LIBRARY (asin)
REAL_LIBRARY (acos)
REAL_LIBRARY (atan)
REAL_LIBRARY (sinh)
REAL_LIBRARY (cosh)
REAL_LIBRARY (asinh)
REAL_LIBRARY (acosh)
REAL_LIBRARY (atanh)

/* Large angles need more digits of pi than the formula has. */
#define REAL_TURN(name)                                                                                                \
  static __device__ __forceinline__ float real_##name (float x)                                                        \
  {                                                                                                                    \
    return fabsf (x) > ORTRAIN_F32_MAX_ANGLE ? name##f (x) : ortrain_f32_##name (x);                                   \
  }                                                                                                                    \
  static __device__ __forceinline__ double real_##name (double x)                                                      \
  {                                                                                                                    \
    return name (x);                                                                                                   \
  }
REAL_TURN (sin)
REAL_TURN (cos)

static __device__ __forceinline__ float
real_fmod (float x, float y)
{
  return fmodf (x, y);
}

static __device__ __forceinline__ double
real_fmod (double x, double y)
{
  return fmod (x, y);
}

/* The remainder of a division that rounds down: a zero has the divisor's sign too. */
template <typename T>
static __device__ __forceinline__ T
real_modulo (T x, T y)
{
  const T r = real_fmod (x, y);
  return r == 0 ? (T) copysign (r, y) : (r < 0) != (y < 0) ? r + y : r;
}

template <typename T> struct Largest;
template <> struct Largest<float>
{
  static __device__ __forceinline__ float
  get (void)
  {
    return 3.40282347e+38f;
  }
};
template <> struct Largest<double>
{
  static __device__ __forceinline__ double
  get (void)
  {
    return 1.7976931348623157e+308;
  }
};

#define EACH(CODE, expr)                                                                                               \
  case ORTRAIN_POINTWISE_##CODE:                                                                                       \
    for (int v = 0; v < N; v++)                                                                                        \
      {                                                                                                                \
        const T x = a[v], y = b[v];                                                                                    \
        (void) x;                                                                                                      \
        (void) y;                                                                                                      \
        r[v] = (T) (expr);                                                                                             \
      }                                                                                                                \
    break;

/* r = code (a, b) of N elements. Truth values are 0 and 1. */
template <typename T, int N>
static __device__ __forceinline__ void
compute_real (int code, float f0, float f1, const T *a, const T *b, T *r)
{
  const T k0 = (T) f0, k1 = (T) f1;
  switch (code)
    {
      EACH (NONZERO, x != 0)
      EACH (ADD, x + y)
      EACH (SUB, x - y)
      EACH (MUL, x * y)
      EACH (DIV, x / y)
      EACH (MAX, x > y ? x : (x != x ? x : y))
      EACH (MIN, x < y ? x : (x != x ? x : y))
      EACH (EQUAL, x == y)
      EACH (LESS, x < y)
      EACH (LESS_EQUAL, x <= y)
      EACH (GREATER, x > y)
      EACH (GREATER_EQUAL, x >= y)
      EACH (AND, x != 0 && y != 0)
      EACH (OR, x != 0 || y != 0)
      EACH (XOR, (x != 0) != (y != 0))
      EACH (NOT, x == 0)
      EACH (IS_NAN, x != x)
      EACH (IS_INF, (x < -Largest<T>::get () && k0 != 0) || (x > Largest<T>::get () && k1 != 0))
      EACH (NEG, -x)
      EACH (ABS, real_fabs (x))
      EACH (SIGN, x > 0 ? (T) 1 : x < 0 ? (T) -1 : x != x ? x : (T) 0)
      EACH (FLOOR, real_floor (x))
      EACH (CEIL, real_ceil (x))
      EACH (ROUND, real_rint (x))
      EACH (RECIPROCAL, (T) 1 / x)
      EACH (SQRT, real_sqrt (x))
      EACH (EXP, real_exp (x))
      EACH (LOG, real_log (x))
      EACH (ERF, real_erf (x))
      EACH (ERF_GRAD, real_erf_grad (x, y))
      EACH (RELU, real_relu (x))
      EACH (RELU_GRAD, real_relu_grad (x, y))
      EACH (TANH, real_tanh (x))
      EACH (TANH_GRAD, real_tanh_grad (x, y))
      EACH (SIGMOID, real_sigmoid (x))
      EACH (SIGMOID_GRAD, real_sigmoid_grad (x, y))
      EACH (LEAKY, real_leaky_relu (x, k0))
      EACH (LEAKY_GRAD, real_leaky_relu_grad (x, y, k0))
      EACH (PRELU, real_leaky_relu (x, y))
      EACH (THRESHOLDED, real_thresholded_relu (x, k0))
      EACH (ELU, real_elu (x, k0))
      EACH (ELU_GRAD, real_elu_grad (x, y, k0))
      EACH (SELU, real_selu (x, k0, k1))
      EACH (SELU_GRAD, real_selu_grad (x, y, k0, k1))
      EACH (CELU, real_celu (x, k0))
      EACH (CELU_GRAD, real_celu_grad (x, y, k0))
      EACH (HARD_SIGMOID, real_hard_sigmoid (x, k0, k1))
      EACH (HARD_SIGMOID_GRAD, real_hard_sigmoid_grad (x, y, k0))
      EACH (HARD_SWISH, real_hard_swish (x))
      EACH (HARD_SWISH_GRAD, real_hard_swish_grad (x, y))
      EACH (SOFTPLUS, real_softplus (x))
      EACH (SOFTPLUS_GRAD, real_softplus_grad (x, y))
      EACH (SOFTSIGN, real_softsign (x))
      EACH (SOFTSIGN_GRAD, real_softsign_grad (x, y))
      EACH (GELU, real_gelu (x))
      EACH (GELU_GRAD, real_gelu_grad (x, y))
      EACH (GELU_TANH, real_gelu_tanh (x))
      EACH (GELU_TANH_GRAD, real_gelu_tanh_grad (x, y))
      EACH (MISH, real_mish (x))
      EACH (MISH_GRAD, real_mish_grad (x, y))
      EACH (SWISH, real_swish (x, k0))
      EACH (SWISH_GRAD, real_swish_grad (x, y, k0))
      EACH (SHRINK, real_shrink (x, k0, k1))
    default: /* COPY, and CAST between types that are the same in a register */
      for (int v = 0; v < N; v++)
        r[v] = a[v];
      break;
    }
}

template <typename T, int N>
static __device__ __forceinline__ void
compute_rare (int code, const T *a, const T *b, T *r)
{
  switch (code)
    {
      EACH (POW, real_pow (x, y))
      EACH (MOD, real_modulo (x, y))
      EACH (FMOD, real_fmod (x, y))
      EACH (SIN, real_sin (x))
      EACH (COS, real_cos (x))
      EACH (TAN, real_tan (x))
      EACH (ASIN, real_asin (x))
      EACH (ACOS, real_acos (x))
      EACH (ATAN, real_atan (x))
      EACH (SINH, real_sinh (x))
      EACH (COSH, real_cosh (x))
      EACH (ASINH, real_asinh (x))
      EACH (ACOSH, real_acosh (x))
    default:
      EACH (ATANH, real_atanh (x))
    }
}

template <typename T, int N, bool RARE>
static __device__ __forceinline__ void
compute_any_real (int code, float k0, float k1, const T *a, const T *b, T *r)
{
  if (RARE && code >= ORTRAIN_POINTWISE_RARE)
    compute_rare<T, N> (code, a, b, r);
  else
    compute_real<T, N> (code, k0, k1, a, b, r);
}

/* ---- integer instructions ---- */

/* Division truncates. Divisors of zero are reported and give 0; the smallest number divided by -1 wraps around. Mod has
 * the sign of the divisor, fmod that of the dividend. T: gint64 or guint64 */
template <typename T>
static __device__ __forceinline__ T
integer_divide (T x, T y)
{
  return y == 0 ? 0 : (T) -1 < 0 && y == (T) -1 ? (T) (0 - (guint64) x) : x / y;
}

template <typename T>
static __device__ __forceinline__ T
integer_remainder (T x, T y)
{
  return y == 0 || ((T) -1 < 0 && y == (T) -1) ? 0 : x % y;
}

template <typename T>
static __device__ __forceinline__ T
integer_modulo (T x, T y)
{
  const T r = integer_remainder (x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* By squaring; a negative exponent truncates 1 / x^|y|. */
template <typename T>
static __device__ __forceinline__ T
integer_power (T x, T y)
{
  if (y < 0)
    return x == 1 ? 1 : x == (T) -1 ? (y & 1 ? (T) -1 : (T) 1) : 0;
  guint64 result = 1, base = (guint64) x;
  for (guint64 e = (guint64) y; e != 0; e >>= 1)
    {
      if (e & 1)
        result *= base;
      base *= base;
    }
  return (T) result;
}

static __device__ __forceinline__ guint
count_bits (OrtrainDType dtype)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_INT8:
    case ORTRAIN_DTYPE_UINT8:
      return 8;
    case ORTRAIN_DTYPE_INT16:
    case ORTRAIN_DTYPE_UINT16:
      return 16;
    case ORTRAIN_DTYPE_INT32:
    case ORTRAIN_DTYPE_UINT32:
      return 32;
    default:
      return 64;
    }
}

/* Sums, differences and products are those of 64 bits, wrapped to the type by the caller. */
template <typename T, int N>
static __device__ __forceinline__ void
compute_integer (const OrtrainPointwiseInstruction &in, const T *a, const T *b, T *r)
{
  const guint bits = count_bits ((OrtrainDType) in.dtype);
  switch (in.code)
    {
      EACH (ADD, (guint64) x + (guint64) y)
      EACH (SUB, (guint64) x - (guint64) y)
      EACH (MUL, (guint64) x * (guint64) y)
      EACH (DIV, integer_divide (x, y))
      EACH (MOD, integer_modulo (x, y))
      EACH (FMOD, integer_remainder (x, y))
      EACH (POW, integer_power (x, y))
      EACH (MAX, x > y ? x : y)
      EACH (MIN, x < y ? x : y)
      EACH (EQUAL, x == y)
      EACH (LESS, x < y)
      EACH (LESS_EQUAL, x <= y)
      EACH (GREATER, x > y)
      EACH (GREATER_EQUAL, x >= y)
      EACH (AND, x != 0 && y != 0)
      EACH (OR, x != 0 || y != 0)
      EACH (XOR, (x != 0) != (y != 0))
      EACH (NOT, x == 0)
      EACH (NEG, 0 - (guint64) x)
      EACH (ABS, x < 0 ? 0 - (guint64) x : (guint64) x)
      EACH (SIGN, (x > 0) - (x < 0))
      EACH (RELU, x > 0 ? x : 0)
      EACH (PRELU, x < 0 ? (guint64) x * (guint64) y : (guint64) x)
      EACH (BIT_AND, x & y)
      EACH (BIT_OR, x | y)
      EACH (BIT_XOR, x ^ y)
      EACH (BIT_NOT, ~x)
      EACH (SHIFT_LEFT, (guint64) y < bits ? (guint64) x << y : 0)
      EACH (SHIFT_RIGHT, (guint64) y < bits ? x >> y : (x < 0 ? -1 : 0))
    default:
      for (int v = 0; v < N; v++)
        r[v] = a[v];
      break;
    }
}
