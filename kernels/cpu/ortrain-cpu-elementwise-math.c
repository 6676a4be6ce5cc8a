/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cpu-tile-private.h"

/* Functions of one operand. */

#define SIGNED_LOOPS(s, T, U, dtype)                                                                                   \
  ORTRAIN_TILE_UNARY (neg_##s, T, T, (U) 0 - (U) x)                                                                    \
  ORTRAIN_TILE_UNARY (abs_##s, T, T, x < 0 ? (U) 0 - (U) x : (U) x)                                                    \
  ORTRAIN_TILE_UNARY (sign_##s, T, T, (x > 0) - (x < 0))
SIGNED_LOOPS (i8, gint8, guint8, ORTRAIN_DTYPE_INT8)
SIGNED_LOOPS (i16, gint16, guint16, ORTRAIN_DTYPE_INT16)
SIGNED_LOOPS (i32, gint32, guint32, ORTRAIN_DTYPE_INT32)
SIGNED_LOOPS (i64, gint64, guint64, ORTRAIN_DTYPE_INT64)

#define UNSIGNED_LOOPS(s, T)                                                                                           \
  ORTRAIN_TILE_UNARY (abs_##s, T, T, x)                                                                                \
  ORTRAIN_TILE_UNARY (sign_##s, T, T, x > 0)
UNSIGNED_LOOPS (u8, guint8)
UNSIGNED_LOOPS (u16, guint16)
UNSIGNED_LOOPS (u32, guint32)
UNSIGNED_LOOPS (u64, guint64)

/* Loops of float that call libm are those of operators that no model's inner loop has. */
#define REAL_LOOPS(s, T, c, f)                                                                                         \
  ORTRAIN_TILE_UNARY (neg_##s, T, T, -x)                                                                               \
  ORTRAIN_TILE_UNARY (abs_##s, T, T, f (fabs) (x))                                                                     \
  ORTRAIN_TILE_UNARY (sign_##s, T, T, x > 0 ? c (1.0) : x < 0 ? c (-1.0) : x != x ? x : c (0.0))                       \
  ORTRAIN_TILE_UNARY (floor_##s, T, T, f (floor) (x))                                                                  \
  ORTRAIN_TILE_UNARY (ceil_##s, T, T, f (ceil) (x))                                                                    \
  ORTRAIN_TILE_UNARY (round_##s, T, T, f (rint) (x))                                                                   \
  ORTRAIN_TILE_UNARY (reciprocal_##s, T, T, c (1.0) / x)                                                               \
  ORTRAIN_TILE_UNARY (sqrt_##s, T, T, f (sqrt) (x))                                                                    \
  ORTRAIN_TILE_UNARY (exp_##s, T, T, ortrain_##s##_exp (x))                                                            \
  ORTRAIN_TILE_UNARY (log_##s, T, T, ortrain_##s##_log (x))                                                            \
  ORTRAIN_TILE_UNARY (erf_##s, T, T, ortrain_##s##_erf (x))                                                            \
  ORTRAIN_TILE_UNARY (tan_##s, T, T, f (tan) (x))                                                                      \
  ORTRAIN_TILE_UNARY (asin_##s, T, T, f (asin) (x))                                                                    \
  ORTRAIN_TILE_UNARY (acos_##s, T, T, f (acos) (x))                                                                    \
  ORTRAIN_TILE_UNARY (atan_##s, T, T, f (atan) (x))                                                                    \
  ORTRAIN_TILE_UNARY (sinh_##s, T, T, f (sinh) (x))                                                                    \
  ORTRAIN_TILE_UNARY (cosh_##s, T, T, f (cosh) (x))                                                                    \
  ORTRAIN_TILE_UNARY (asinh_##s, T, T, f (asinh) (x))                                                                  \
  ORTRAIN_TILE_UNARY (acosh_##s, T, T, f (acosh) (x))                                                                  \
  ORTRAIN_TILE_UNARY (atanh_##s, T, T, f (atanh) (x))                                                                  \
  ORTRAIN_TILE_BINARY (erf_grad_##s, T, T, ortrain_##s##_erf_grad (x, y))
#define FLOAT_NAME(name) name##f
#define FLOAT_CONSTANT(number) number##f
#define DOUBLE_NAME(name) name
#define DOUBLE_CONSTANT(number) number
REAL_LOOPS (f32, float, FLOAT_CONSTANT, FLOAT_NAME)
REAL_LOOPS (f64, double, DOUBLE_CONSTANT, DOUBLE_NAME)

/* Large angles need more digits of pi than the vector loop has: a tile with one takes libm for those. Each element's
 * result is the same whatever its neighbours are. */
#define TURN_LOOP(name, vector, libm)                                                                                  \
  ORTRAIN_TILE_UNARY (name##_small, float, float, vector (x))                                                          \
  static void name##_f32 (ORTRAIN_TILE_ARGS)                                                                           \
  {                                                                                                                    \
    float *d = dst;                                                                                                    \
    const float *p = a;                                                                                                \
    const guint32 limit = ortrain_f32_bits (ORTRAIN_F32_MAX_ANGLE);                                                    \
    guint32 large = 0; /* as integers, positive floats are in the same order */                                        \
    for (gsize i = 0; i < n; i++)                                                                                      \
      large |= (ortrain_f32_bits (p[i]) & 0x7fffffffu) > limit;                                                        \
    if (G_LIKELY (large == 0))                                                                                         \
      name##_small (dst, a, b, c, n, param, env);                                                                      \
    else                                                                                                               \
      for (gsize i = 0; i < n; i++)                                                                                    \
        d[i] = fabsf (p[i]) > ORTRAIN_F32_MAX_ANGLE ? libm (p[i]) : vector (p[i]);                                     \
  }                                                                                                                    \
  ORTRAIN_TILE_UNARY (name##_f64, double, double, ortrain_f64_##name (x))
TURN_LOOP (sin, ortrain_f32_sin, sinf)
TURN_LOOP (cos, ortrain_f32_cos, cosf)

#define INTEGER_ROWS(op)                                                                                               \
  { ORTRAIN_DTYPE_INT8, { op##_i8 } }, { ORTRAIN_DTYPE_INT16, { op##_i16 } }, { ORTRAIN_DTYPE_INT32, { op##_i32 } },   \
      { ORTRAIN_DTYPE_INT64, { op##_i64 } },
#define UNSIGNED_ROWS(op)                                                                                              \
  { ORTRAIN_DTYPE_UINT8, { op##_u8 } }, { ORTRAIN_DTYPE_UINT16, { op##_u16 } },                                        \
      { ORTRAIN_DTYPE_UINT32, { op##_u32 } }, { ORTRAIN_DTYPE_UINT64, { op##_u64 } },
#define REAL_ROWS(op) { ORTRAIN_DTYPE_FLOAT32, { op##_f32 } }, { ORTRAIN_DTYPE_FLOAT64, { op##_f64 } },

static const OrtrainTileLoop neg_loops[] = { REAL_ROWS (neg) INTEGER_ROWS (neg) };
static const OrtrainTileLoop abs_loops[] = { REAL_ROWS (abs) INTEGER_ROWS (abs) UNSIGNED_ROWS (abs) };
static const OrtrainTileLoop sign_loops[] = { REAL_ROWS (sign) INTEGER_ROWS (sign) UNSIGNED_ROWS (sign) };

/* X (operator, loop, cost) */
#define FUNCTIONS(X)                                                                                                   \
  X ("Floor", floor, 1)                                                                                                \
  X ("Ceil", ceil, 1)                                                                                                  \
  X ("Round", round, 1)                                                                                                \
  X ("Reciprocal", reciprocal, 2)                                                                                      \
  X ("Sqrt", sqrt, 2)                                                                                                  \
  X ("Exp", exp, 6)                                                                                                    \
  X ("Log", log, 6)                                                                                                    \
  X ("Sin", sin, 8)                                                                                                    \
  X ("Cos", cos, 8)                                                                                                    \
  X ("Erf", erf, 6)                                                                                                    \
  X ("Tan", tan, 60)                                                                                                   \
  X ("Asin", asin, 60)                                                                                                 \
  X ("Acos", acos, 60)                                                                                                 \
  X ("Atan", atan, 60)                                                                                                 \
  X ("Sinh", sinh, 60)                                                                                                 \
  X ("Cosh", cosh, 60)                                                                                                 \
  X ("Asinh", asinh, 60)                                                                                               \
  X ("Acosh", acosh, 60)                                                                                               \
  X ("Atanh", atanh, 60)

#define DECLARE_LOOPS(name, op, cost) static const OrtrainTileLoop op##_loops[] = { REAL_ROWS (op) };
FUNCTIONS (DECLARE_LOOPS)
static const OrtrainTileLoop erf_grad_loops[] = {
  { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_TILE_FORMS (erf_grad_f32) },
  { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_TILE_FORMS (erf_grad_f64) },
};

#define OP_ROW(name, op, cost) { name, "", 1, 0, cost, op##_loops, G_N_ELEMENTS (op##_loops), NULL },
static const OrtrainTileOp ops[] = {
  OP_ROW ("Neg", neg, 1) OP_ROW ("Abs", abs, 1) OP_ROW ("Sign", sign, 1)
      FUNCTIONS (OP_ROW){ "ErfGrad", "org.ortrain", 2, 0, 7, erf_grad_loops, G_N_ELEMENTS (erf_grad_loops), NULL },
};
ORTRAIN_TILE_TABLE (elementwise_math, ops);

#define KERNEL_ROW(name, op, cost) ORTRAIN_POINTWISE_KERNEL (name, "", ORTRAIN_DTYPES_FLOAT),
static const OrtrainKernel kernels[] = {
  ORTRAIN_POINTWISE_KERNEL ("Neg", "", ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPES_SIGNED),
  ORTRAIN_POINTWISE_KERNEL ("Abs", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Sign", "", ORTRAIN_DTYPES_NUMERIC),
  FUNCTIONS (KERNEL_ROW) ORTRAIN_POINTWISE_KERNEL ("ErfGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT),
};
ORTRAIN_KERNEL_TABLE (elementwise_math, kernels);
