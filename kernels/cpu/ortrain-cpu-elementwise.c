/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cpu-tile-private.h"

/* Arithmetic of two operands: floats, and integers that wrap around as ONNX's reference does. */

/* guint8 and guint16 are promoted to int, where a product of two guint16 could overflow: hence the 1u. */
#define INTEGER_LOOPS(s, T, U, dtype)                                                                                  \
  ORTRAIN_TILE_BINARY (add_##s, T, T, (U) x + (U) y)                                                                   \
  ORTRAIN_TILE_BINARY (sub_##s, T, T, (U) x - (U) y)                                                                   \
  ORTRAIN_TILE_BINARY (mul_##s, T, T, 1u * (U) x * (U) y)                                                              \
  ORTRAIN_TILE_BINARY (max_##s, T, T, x > y ? x : y)                                                                   \
  ORTRAIN_TILE_BINARY (min_##s, T, T, x < y ? x : y)
ORTRAIN_TILE_INTEGERS (INTEGER_LOOPS)

/* NaN wins in Max and Min, as in NumPy. */
#define REAL_LOOPS(s, T, U, dtype)                                                                                     \
  ORTRAIN_TILE_BINARY (add_##s, T, T, x + y)                                                                           \
  ORTRAIN_TILE_BINARY (sub_##s, T, T, x - y)                                                                           \
  ORTRAIN_TILE_BINARY (mul_##s, T, T, (x * y))                                                                         \
  ORTRAIN_TILE_BINARY (div_##s, T, T, x / y)                                                                           \
  ORTRAIN_TILE_BINARY (max_##s, T, T, x > y ? x : (x != x ? x : y))                                                    \
  ORTRAIN_TILE_BINARY (min_##s, T, T, x < y ? x : (x != x ? x : y))                                                    \
  ORTRAIN_TILE_BINARY (pow_##s, T, T, ortrain_##s##_pow (x, y))
ORTRAIN_TILE_REALS (REAL_LOOPS)

ORTRAIN_TILE_BINARY (fmod_f32, float, float, fmodf (x, y))
ORTRAIN_TILE_BINARY (fmod_f64, double, double, fmod (x, y))

/* The remainder of a division that rounds down: a zero has the divisor's sign too. */
#define REAL_MODULO(s, T, suffix)                                                                                      \
  static inline T modulo_##s (T x, T y)                                                                                \
  {                                                                                                                    \
    T r = fmod##suffix (x, y);                                                                                         \
    return r == 0 ? copysign##suffix (r, y) : (r < 0) != (y < 0) ? r + y : r;                                          \
  }                                                                                                                    \
  ORTRAIN_TILE_BINARY (mod_##s, T, T, modulo_##s (x, y))
REAL_MODULO (f32, float, f)
REAL_MODULO (f64, double, )

/* Division of integers truncates. Divisors of zero are reported as a fault and give 0; the smallest number divided
 * by -1 wraps around instead of trapping. Mod has the sign of the divisor, fmod that of the dividend. */
#define DIVIDE(T, U, x, y) ((y) == 0 ? 0 : (T) -1 < 0 && (y) == (T) -1 ? (T) (0u - (U) (x)) : (T) ((x) / (y)))
#define REMAINDER(T, U, x, y) ((y) == 0 || ((T) -1 < 0 && (y) == (T) -1) ? 0 : (T) ((x) % (y)))

#define DIVISION_FORM(name, T, X, Y, expr)                                                                             \
  static void name (ORTRAIN_TILE_ARGS)                                                                                 \
  {                                                                                                                    \
    T *d = dst;                                                                                                        \
    const T *p = a, *q = b;                                                                                            \
    for (gsize i = 0; i < n; i++)                                                                                      \
      {                                                                                                                \
        T x = X, y = Y;                                                                                                \
        if (y == 0)                                                                                                    \
          ortrain_kernel_fault (env->call, ORTRAIN_FAULT_DIVIDE, env->position + (gint64) i, 0, 0);                    \
        d[i] = (expr);                                                                                                 \
      }                                                                                                                \
  }
#define DIVISION(name, T, expr)                                                                                        \
  DIVISION_FORM (name##_vv, T, p[i], q[i], expr)                                                                       \
  DIVISION_FORM (name##_vs, T, p[i], *q, expr)                                                                         \
  DIVISION_FORM (name##_sv, T, *p, q[i], expr)
#define DIVISION_LOOPS(s, T, U, dtype)                                                                                 \
  static inline T modulo_##s (T x, T y)                                                                                \
  {                                                                                                                    \
    T r = REMAINDER (T, U, x, y);                                                                                      \
    return r != 0 && ((r < 0) != (y < 0)) ? (T) (r + y) : r;                                                           \
  }                                                                                                                    \
  DIVISION (div_##s, T, DIVIDE (T, U, x, y))                                                                           \
  DIVISION (mod_##s, T, modulo_##s (x, y))                                                                             \
  DIVISION (fmod_##s, T, REMAINDER (T, U, x, y))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
ORTRAIN_TILE_INTEGERS (DIVISION_LOOPS)
#pragma GCC diagnostic pop

/* Powers of integers by squaring; a negative exponent truncates 1 / x^|y|. */
#define POWER_LOOPS(s, T, U, dtype)                                                                                    \
  static inline T power_##s (T x, T y)                                                                                 \
  {                                                                                                                    \
    if (y < 0)                                                                                                         \
      return x == 1 ? 1 : x == (T) -1 ? (T) (y & 1 ? -1 : 1) : 0;                                                      \
    U result = 1, base = (U) x;                                                                                        \
    for (U e = (U) y; e != 0; e >>= 1)                                                                                 \
      {                                                                                                                \
        if (e & 1)                                                                                                     \
          result = (U) (1u * result * base);                                                                           \
        base = (U) (1u * base * base);                                                                                 \
      }                                                                                                                \
    return (T) result;                                                                                                 \
  }                                                                                                                    \
  ORTRAIN_TILE_BINARY (pow_##s, T, T, power_##s (x, y))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
ORTRAIN_TILE_INTEGERS (POWER_LOOPS)
#pragma GCC diagnostic pop

/* Shifts by the width or more, or by less than nothing, leave the sign alone: -1 or 0 to the right, 0 to the left. */
#define SHIFT_LOOPS(s, T, U, dtype)                                                                                    \
  ORTRAIN_TILE_BINARY (left_##s, T, T, (U) y < 8 * sizeof (T) ? (U) ((guint64) (U) x << ((U) y & 63)) : 0)             \
  ORTRAIN_TILE_BINARY (right_##s, T, T, (U) y < 8 * sizeof (T) ? x >> ((U) y & (8 * sizeof (T) - 1)) : -(x < 0))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
ORTRAIN_TILE_INTEGERS (SHIFT_LOOPS)
#pragma GCC diagnostic pop

#define BITWISE_LOOPS(s, T, U, dtype)                                                                                  \
  ORTRAIN_TILE_BINARY (bitand_##s, T, T, (x & y))                                                                      \
  ORTRAIN_TILE_BINARY (bitor_##s, T, T, x | y)                                                                         \
  ORTRAIN_TILE_BINARY (bitxor_##s, T, T, x ^ y)                                                                        \
  ORTRAIN_TILE_UNARY (bitnot_##s, T, T, ~x)
ORTRAIN_TILE_INTEGERS (BITWISE_LOOPS)

#define LOOP(op, s, dtype) { dtype, ORTRAIN_TILE_FORMS (op##_##s) },
#define ADD(s, T, U, dtype) LOOP (add, s, dtype)
#define SUB(s, T, U, dtype) LOOP (sub, s, dtype)
#define MUL(s, T, U, dtype) LOOP (mul, s, dtype)
#define DIV(s, T, U, dtype) LOOP (div, s, dtype)
#define MAX_(s, T, U, dtype) LOOP (max, s, dtype)
#define MIN_(s, T, U, dtype) LOOP (min, s, dtype)
#define POW(s, T, U, dtype) LOOP (pow, s, dtype)
#define MOD(s, T, U, dtype) LOOP (mod, s, dtype)
#define FMOD(s, T, U, dtype) LOOP (fmod, s, dtype)
#define LEFT(s, T, U, dtype) LOOP (left, s, dtype)
#define RIGHT(s, T, U, dtype) LOOP (right, s, dtype)
#define BITAND(s, T, U, dtype) LOOP (bitand, s, dtype)
#define BITOR(s, T, U, dtype) LOOP (bitor, s, dtype)
#define BITXOR(s, T, U, dtype) LOOP (bitxor, s, dtype)
#define BITNOT(s, T, U, dtype) { dtype, { bitnot_##s } },
#define NUMERIC(X) ORTRAIN_TILE_REALS (X) ORTRAIN_TILE_INTEGERS (X)

static const OrtrainTileLoop add_loops[] = { NUMERIC (ADD) };
static const OrtrainTileLoop sub_loops[] = { NUMERIC (SUB) };
static const OrtrainTileLoop mul_loops[] = { NUMERIC (MUL) };
static const OrtrainTileLoop div_loops[] = { NUMERIC (DIV) };
static const OrtrainTileLoop max_loops[] = { NUMERIC (MAX_) };
static const OrtrainTileLoop min_loops[] = { NUMERIC (MIN_) };
static const OrtrainTileLoop pow_loops[] = { NUMERIC (POW) };
static const OrtrainTileLoop mod_loops[] = { NUMERIC (MOD) };
static const OrtrainTileLoop fmod_loops[] = { NUMERIC (FMOD) };
static const OrtrainTileLoop bitand_loops[] = { ORTRAIN_TILE_INTEGERS (BITAND) };
static const OrtrainTileLoop bitor_loops[] = { ORTRAIN_TILE_INTEGERS (BITOR) };
static const OrtrainTileLoop bitxor_loops[] = { ORTRAIN_TILE_INTEGERS (BITXOR) };
static const OrtrainTileLoop bitnot_loops[] = { ORTRAIN_TILE_INTEGERS (BITNOT) };
static const OrtrainTileLoop left_loops[] = { ORTRAIN_TILE_INTEGERS (LEFT) };
static const OrtrainTileLoop right_loops[] = { ORTRAIN_TILE_INTEGERS (RIGHT) };

static gboolean
setup_mod (const OrtrainAttributes *attributes, OrtrainTileParam *param, const OrtrainTileLoop **loops, guint *n_loops,
           GError **error)
{
  if (ortrain_attributes_get_int (attributes, "fmod", 0) != 0)
    {
      *loops = fmod_loops;
      *n_loops = G_N_ELEMENTS (fmod_loops);
    }
  return TRUE;
}

static gboolean
setup_shift (const OrtrainAttributes *attributes, OrtrainTileParam *param, const OrtrainTileLoop **loops,
             guint *n_loops, GError **error)
{
  if (g_strcmp0 (ortrain_attributes_get_string (attributes, "direction", "LEFT"), "RIGHT") == 0)
    {
      *loops = right_loops;
      *n_loops = G_N_ELEMENTS (right_loops);
    }
  return TRUE;
}

#define OP2(name, cost, loops, setup)                                                                                  \
  {                                                                                                                    \
    name, "", 2, 0, cost, loops, G_N_ELEMENTS (loops), setup                                                           \
  }
static const OrtrainTileOp ops[] = {
  OP2 ("Add", 1, add_loops, NULL),
  OP2 ("Sub", 1, sub_loops, NULL),
  OP2 ("Mul", 1, mul_loops, NULL),
  OP2 ("Div", 2, div_loops, NULL),
  OP2 ("Mod", 20, mod_loops, setup_mod),
  OP2 ("Pow", 12, pow_loops, NULL),
  { "Max", "", 2, 0, 1, max_loops, G_N_ELEMENTS (max_loops), NULL },
  { "Min", "", 2, 0, 1, min_loops, G_N_ELEMENTS (min_loops), NULL },
  { "Sum", "", 2, 0, 1, add_loops, G_N_ELEMENTS (add_loops), NULL },
  OP2 ("BitShift", 1, left_loops, setup_shift),
  OP2 ("BitwiseAnd", 1, bitand_loops, NULL),
  OP2 ("BitwiseOr", 1, bitor_loops, NULL),
  OP2 ("BitwiseXor", 1, bitxor_loops, NULL),
  { "BitwiseNot", "", 1, 0, 1, bitnot_loops, G_N_ELEMENTS (bitnot_loops), NULL },
};
ORTRAIN_TILE_TABLE (elementwise, ops);

static const OrtrainKernel kernels[] = {
  ORTRAIN_POINTWISE_KERNEL ("NormApply", "org.ortrain", ORTRAIN_DTYPES_FLOAT),
  ORTRAIN_POINTWISE_KERNEL ("Add", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Sub", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Mul", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Div", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Mod", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Pow", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Max", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Min", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Sum", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Mean", "", ORTRAIN_DTYPES_FLOAT),
  ORTRAIN_POINTWISE_KERNEL ("BitShift", "", ORTRAIN_DTYPES_INTEGER),
  ORTRAIN_POINTWISE_KERNEL ("BitwiseAnd", "", ORTRAIN_DTYPES_INTEGER),
  ORTRAIN_POINTWISE_KERNEL ("BitwiseOr", "", ORTRAIN_DTYPES_INTEGER),
  ORTRAIN_POINTWISE_KERNEL ("BitwiseXor", "", ORTRAIN_DTYPES_INTEGER),
  ORTRAIN_POINTWISE_KERNEL ("BitwiseNot", "", ORTRAIN_DTYPES_INTEGER),
};
ORTRAIN_KERNEL_TABLE (elementwise, kernels);
