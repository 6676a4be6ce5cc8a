/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain-math-f32.h"

/* The formulas of element-wise operators for float and double, under the names ortrain_f32_NAME and ortrain_f64_NAME.
 */

ORTRAIN_FUNCTION float
ortrain_f32_fabs (float x)
{
  return fabsf (x);
}

#define ORTRAIN_F64_LIBM(name)                                                                                         \
  ORTRAIN_FUNCTION double ortrain_f64_##name (double x)                                                                \
  {                                                                                                                    \
    return name (x);                                                                                                   \
  }
ORTRAIN_F64_LIBM (exp)
ORTRAIN_F64_LIBM (expm1)
ORTRAIN_F64_LIBM (log)
ORTRAIN_F64_LIBM (tanh)
ORTRAIN_F64_LIBM (erf)
ORTRAIN_F64_LIBM (sin)
ORTRAIN_F64_LIBM (cos)
ORTRAIN_F64_LIBM (fabs)
#undef ORTRAIN_F64_LIBM

ORTRAIN_FUNCTION double
ortrain_f64_sigmoid (double x)
{
  double e = exp (-fabs (x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

ORTRAIN_FUNCTION double
ortrain_f64_softplus (double x)
{
  return (x < 0.0 ? 0.0 : x) + log1p (exp (-fabs (x)));
}

ORTRAIN_FUNCTION double
ortrain_f64_pow (double x, double y)
{
  return pow (x, y);
}

#define ORTRAIN_REAL float
#define ORTRAIN_REAL_FN(name) ortrain_f32_##name
#define ORTRAIN_REAL_C(number) number##f
#include "ortrain-formulas-template.h"
#undef ORTRAIN_REAL
#undef ORTRAIN_REAL_FN
#undef ORTRAIN_REAL_C

#define ORTRAIN_REAL double
#define ORTRAIN_REAL_FN(name) ortrain_f64_##name
#define ORTRAIN_REAL_C(number) number
#include "ortrain-formulas-template.h"
#undef ORTRAIN_REAL
#undef ORTRAIN_REAL_FN
#undef ORTRAIN_REAL_C
