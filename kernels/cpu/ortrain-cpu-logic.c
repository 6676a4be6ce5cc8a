/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cpu-tile-private.h"

/* Comparisons, logic, and the choice between two operands. A bool is one byte, 0 or 1. */

#define COMPARE_LOOPS(s, T, U, dtype)                                                                                  \
  ORTRAIN_TILE_BINARY (equal_##s, T, guint8, x == y)                                                                   \
  ORTRAIN_TILE_BINARY (less_##s, T, guint8, x < y)                                                                     \
  ORTRAIN_TILE_BINARY (less_equal_##s, T, guint8, x <= y)                                                              \
  ORTRAIN_TILE_BINARY (greater_##s, T, guint8, x > y)                                                                  \
  ORTRAIN_TILE_BINARY (greater_equal_##s, T, guint8, x >= y)
ORTRAIN_TILE_REALS (COMPARE_LOOPS)
ORTRAIN_TILE_INTEGERS (COMPARE_LOOPS)

ORTRAIN_TILE_BINARY (equal_bool, guint8, guint8, (x != 0) == (y != 0))
ORTRAIN_TILE_BINARY (and_bool, guint8, guint8, (x != 0) & (y != 0))
ORTRAIN_TILE_BINARY (or_bool, guint8, guint8, (x | y) != 0)
ORTRAIN_TILE_BINARY (xor_bool, guint8, guint8, (x != 0) != (y != 0))
ORTRAIN_TILE_UNARY (not_bool, guint8, guint8, x == 0)
ORTRAIN_TILE_UNARY (isnan_f32, float, guint8, x != x)
ORTRAIN_TILE_UNARY (isnan_f64, double, guint8, x != x)
/* v[0], v[1]: whether negative and positive infinities count */
ORTRAIN_TILE_UNARY_PARAM (isinf_f32, float, guint8,
                          ((x < -3.40282347e+38f) & (k0 != 0)) | ((x > 3.40282347e+38f) & (k1 != 0)))
ORTRAIN_TILE_UNARY_PARAM (isinf_f64, double, guint8,
                          ((x < -1.7976931348623157e+308) & (k0 != 0)) | ((x > 1.7976931348623157e+308) & (k1 != 0)))

#define WHERE_LOOP(name, T, X, Y)                                                                                      \
  static void name (ORTRAIN_TILE_ARGS)                                                                                 \
  {                                                                                                                    \
    T *d = dst;                                                                                                        \
    const guint8 *p = a;                                                                                               \
    const T *q = b, *r = c;                                                                                            \
    ORTRAIN_TILE_FOR                                                                                                   \
    {                                                                                                                  \
      T x = X, y = Y;                                                                                                  \
      d[i] = p[i] != 0 ? x : y;                                                                                        \
    }                                                                                                                  \
  }
#define WHERE_LOOPS(s, T)                                                                                              \
  WHERE_LOOP (where_##s##_vv, T, q[i], r[i])                                                                           \
  WHERE_LOOP (where_##s##_vs, T, q[i], *r)                                                                             \
  WHERE_LOOP (where_##s##_sv, T, *q, r[i])                                                                             \
  WHERE_LOOP (where_##s##_ss, T, *q, *r)
WHERE_LOOPS (1, guint8)
WHERE_LOOPS (2, guint16)
WHERE_LOOPS (4, guint32)
WHERE_LOOPS (8, guint64)

OrtrainTileFunc
ORTRAIN_CPU_SYMBOL (ortrain_cpu_where_loop) (gsize element_size, gboolean b_scalar, gboolean c_scalar)
{
  static const OrtrainTileFunc loops[4][2][2] = {
    { { where_1_vv, where_1_vs }, { where_1_sv, where_1_ss } },
    { { where_2_vv, where_2_vs }, { where_2_sv, where_2_ss } },
    { { where_4_vv, where_4_vs }, { where_4_sv, where_4_ss } },
    { { where_8_vv, where_8_vs }, { where_8_sv, where_8_ss } },
  };
  guint size = element_size == 8 ? 3 : element_size == 4 ? 2 : element_size == 2 ? 1 : 0;
  return loops[size][b_scalar != 0][c_scalar != 0];
}

#define COMPARE_ROW(op, s, dtype) { dtype, ORTRAIN_TILE_FORMS (op##_##s) },
#define EQUAL(s, T, U, dtype) COMPARE_ROW (equal, s, dtype)
#define LESS(s, T, U, dtype) COMPARE_ROW (less, s, dtype)
#define LESS_EQUAL(s, T, U, dtype) COMPARE_ROW (less_equal, s, dtype)
#define GREATER(s, T, U, dtype) COMPARE_ROW (greater, s, dtype)
#define GREATER_EQUAL(s, T, U, dtype) COMPARE_ROW (greater_equal, s, dtype)
#define NUMERIC(X) ORTRAIN_TILE_REALS (X) ORTRAIN_TILE_INTEGERS (X)
static const OrtrainTileLoop equal_loops[] = { NUMERIC (EQUAL){ ORTRAIN_DTYPE_BOOL, ORTRAIN_TILE_FORMS (equal_bool) } };
static const OrtrainTileLoop less_loops[] = { NUMERIC (LESS) };
static const OrtrainTileLoop less_equal_loops[] = { NUMERIC (LESS_EQUAL) };
static const OrtrainTileLoop greater_loops[] = { NUMERIC (GREATER) };
static const OrtrainTileLoop greater_equal_loops[] = { NUMERIC (GREATER_EQUAL) };
static const OrtrainTileLoop and_loops[] = { { ORTRAIN_DTYPE_BOOL, ORTRAIN_TILE_FORMS (and_bool) } };
static const OrtrainTileLoop or_loops[] = { { ORTRAIN_DTYPE_BOOL, ORTRAIN_TILE_FORMS (or_bool) } };
static const OrtrainTileLoop xor_loops[] = { { ORTRAIN_DTYPE_BOOL, ORTRAIN_TILE_FORMS (xor_bool) } };
static const OrtrainTileLoop not_loops[] = { { ORTRAIN_DTYPE_BOOL, { not_bool } } };
static const OrtrainTileLoop isnan_loops[] = { { ORTRAIN_DTYPE_FLOAT32, { isnan_f32 } },
                                               { ORTRAIN_DTYPE_FLOAT64, { isnan_f64 } } };
static const OrtrainTileLoop isinf_loops[] = { { ORTRAIN_DTYPE_FLOAT32, { isinf_f32 } },
                                               { ORTRAIN_DTYPE_FLOAT64, { isinf_f64 } } };

static gboolean
setup_isinf (const OrtrainAttributes *attributes, OrtrainTileParam *param, const OrtrainTileLoop **loops,
             guint *n_loops, GError **error)
{
  param->v[0] = ortrain_attributes_get_int (attributes, "detect_negative", 1) != 0;
  param->v[1] = ortrain_attributes_get_int (attributes, "detect_positive", 1) != 0;
  return TRUE;
}

#define ROW(name, arity, loops, setup)                                                                                 \
  {                                                                                                                    \
    name, "", arity, 1, 1, loops, G_N_ELEMENTS (loops), setup                                                          \
  }
static const OrtrainTileOp ops[] = {
  ROW ("Equal", 2, equal_loops, NULL),
  ROW ("Less", 2, less_loops, NULL),
  ROW ("LessOrEqual", 2, less_equal_loops, NULL),
  ROW ("Greater", 2, greater_loops, NULL),
  ROW ("GreaterOrEqual", 2, greater_equal_loops, NULL),
  ROW ("And", 2, and_loops, NULL),
  ROW ("Or", 2, or_loops, NULL),
  ROW ("Xor", 2, xor_loops, NULL),
  ROW ("Not", 1, not_loops, NULL),
  ROW ("IsNaN", 1, isnan_loops, NULL),
  ROW ("IsInf", 1, isinf_loops, setup_isinf),
};
ORTRAIN_TILE_TABLE (logic, ops);

static const OrtrainKernel kernels[] = {
  ORTRAIN_POINTWISE_KERNEL ("Equal", "", ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL),
  ORTRAIN_POINTWISE_KERNEL ("Less", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("LessOrEqual", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("Greater", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("GreaterOrEqual", "", ORTRAIN_DTYPES_NUMERIC),
  ORTRAIN_POINTWISE_KERNEL ("And", "", ORTRAIN_DTYPES_BOOL),
  ORTRAIN_POINTWISE_KERNEL ("Or", "", ORTRAIN_DTYPES_BOOL),
  ORTRAIN_POINTWISE_KERNEL ("Xor", "", ORTRAIN_DTYPES_BOOL),
  ORTRAIN_POINTWISE_KERNEL ("Not", "", ORTRAIN_DTYPES_BOOL),
  ORTRAIN_POINTWISE_KERNEL ("IsNaN", "", ORTRAIN_DTYPES_FLOAT),
  ORTRAIN_POINTWISE_KERNEL ("IsInf", "", ORTRAIN_DTYPES_FLOAT),
  ORTRAIN_POINTWISE_KERNEL ("Where", "", ORTRAIN_DTYPES_BOOL),
  ORTRAIN_POINTWISE_KERNEL ("Clip", "", ORTRAIN_DTYPES_NUMERIC),
};
ORTRAIN_KERNEL_TABLE (logic, kernels);
