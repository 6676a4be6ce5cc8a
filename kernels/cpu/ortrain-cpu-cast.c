/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cpu-tile-private.h"

/* Conversions between all numeric types and bool. Floats go to integers by truncation, through a wider integer whose
 * low bits are kept (as NumPy does on this kind of machine); the half types go through float. */

static inline gint64
truncate_f32 (float x)
{
  return x >= -0x1p63f && x < 0x1p63f ? (gint64) x : G_MININT64;
}

static inline gint64
truncate_f64 (double x)
{
  return x >= -0x1p63 && x < 0x1p63 ? (gint64) x : G_MININT64;
}

static inline gint32
truncate32_f32 (float x)
{
  return x >= -0x1p31f && x < 0x1p31f ? (gint32) x : G_MININT32;
}

static inline gint32
truncate32_f64 (double x)
{
  return x > -0x1p31 - 1.0 && x < 0x1p31 ? (gint32) x : G_MININT32;
}

static inline guint64
truncate_u64 (double x)
{
  if (x >= 0x1p64)
    return 0; /* as the machine's conversion of x - 2^63 has it, and with it ONNX Runtime */
  return x >= 0x1p63 ? (guint64) (gint64) (x - 0x1p63) ^ ((guint64) 1 << 63) : (guint64) truncate_f64 (x);
}

#define INTEGER_FROM(s, T, U, dtype)                                                                                   \
  ORTRAIN_TILE_UNARY (s##_f32, T, float, (float) x)                                                                    \
  ORTRAIN_TILE_UNARY (s##_f64, T, double, (double) x)                                                                  \
  ORTRAIN_TILE_UNARY (s##_f16, T, guint16, ortrain_float_to_half (ortrain_double_to_odd_float ((double) x)))           \
  ORTRAIN_TILE_UNARY (s##_bf16, T, guint16, ortrain_float_to_bfloat16 (ortrain_double_to_odd_float ((double) x)))      \
  ORTRAIN_TILE_UNARY (s##_bool, T, guint8, x != 0)                                                                     \
  ORTRAIN_TILE_UNARY (s##_i8, T, gint8, x)                                                                             \
  ORTRAIN_TILE_UNARY (s##_u8, T, guint8, x)                                                                            \
  ORTRAIN_TILE_UNARY (s##_i16, T, gint16, x)                                                                           \
  ORTRAIN_TILE_UNARY (s##_u16, T, guint16, x)                                                                          \
  ORTRAIN_TILE_UNARY (s##_i32, T, gint32, x)                                                                           \
  ORTRAIN_TILE_UNARY (s##_u32, T, guint32, x)                                                                          \
  ORTRAIN_TILE_UNARY (s##_i64, T, gint64, x)                                                                           \
  ORTRAIN_TILE_UNARY (s##_u64, T, guint64, x)
ORTRAIN_TILE_INTEGERS (INTEGER_FROM)
INTEGER_FROM (bool, guint8, guint8, ORTRAIN_DTYPE_BOOL)

/* s: the source's suffix, T its type, r: f32 or f64, get: an expression of the source as that real type */
#define REAL_FROM(s, T, r, get)                                                                                        \
  ORTRAIN_TILE_UNARY (s##_f32, T, float, get)                                                                          \
  ORTRAIN_TILE_UNARY (s##_f64, T, double, get)                                                                         \
  ORTRAIN_TILE_UNARY (s##_bool, T, guint8, (get) != 0)                                                                 \
  ORTRAIN_TILE_UNARY (s##_i8, T, gint8, truncate32_##r (get))                                                          \
  ORTRAIN_TILE_UNARY (s##_u8, T, guint8, truncate32_##r (get))                                                         \
  ORTRAIN_TILE_UNARY (s##_i16, T, gint16, truncate32_##r (get))                                                        \
  ORTRAIN_TILE_UNARY (s##_u16, T, guint16, truncate32_##r (get))                                                       \
  ORTRAIN_TILE_UNARY (s##_i32, T, gint32, truncate32_##r (get))                                                        \
  ORTRAIN_TILE_UNARY (s##_u32, T, guint32, truncate_##r (get))                                                         \
  ORTRAIN_TILE_UNARY (s##_i64, T, gint64, truncate_##r (get))                                                          \
  ORTRAIN_TILE_UNARY (s##_u64, T, guint64, truncate_u64 (get))
REAL_FROM (f32, float, f32, x)
REAL_FROM (f64, double, f64, x)
REAL_FROM (f16, guint16, f32, ortrain_half_to_float (x))
REAL_FROM (bf16, guint16, f32, ortrain_bfloat16_to_float (x))

ORTRAIN_TILE_UNARY (f32_f16, float, guint16, ortrain_float_to_half (x))
ORTRAIN_TILE_UNARY (f32_bf16, float, guint16, ortrain_float_to_bfloat16 (x))
ORTRAIN_TILE_UNARY (f64_f16, double, guint16, ortrain_float_to_half (ortrain_double_to_odd_float (x)))
ORTRAIN_TILE_UNARY (f64_bf16, double, guint16, ortrain_float_to_bfloat16 (ortrain_double_to_odd_float (x)))
ORTRAIN_TILE_UNARY (f16_f16, guint16, guint16, x)
ORTRAIN_TILE_UNARY (bf16_bf16, guint16, guint16, x)
ORTRAIN_TILE_UNARY (f16_bf16, guint16, guint16, ortrain_float_to_bfloat16 (ortrain_half_to_float (x)))
ORTRAIN_TILE_UNARY (bf16_f16, guint16, guint16, ortrain_float_to_half (ortrain_bfloat16_to_float (x)))

/* The columns, in the order of the types' ONNX numbers; NULL for strings and complex numbers. */
#define COLUMNS(s)                                                                                                     \
  {                                                                                                                    \
    [ORTRAIN_DTYPE_FLOAT32] = s##_f32, [ORTRAIN_DTYPE_UINT8] = s##_u8, [ORTRAIN_DTYPE_INT8] = s##_i8,                  \
    [ORTRAIN_DTYPE_UINT16] = s##_u16, [ORTRAIN_DTYPE_INT16] = s##_i16, [ORTRAIN_DTYPE_INT32] = s##_i32,                \
    [ORTRAIN_DTYPE_INT64] = s##_i64, [ORTRAIN_DTYPE_BOOL] = s##_bool, [ORTRAIN_DTYPE_FLOAT16] = s##_f16,               \
    [ORTRAIN_DTYPE_FLOAT64] = s##_f64, [ORTRAIN_DTYPE_UINT32] = s##_u32, [ORTRAIN_DTYPE_UINT64] = s##_u64,             \
    [ORTRAIN_DTYPE_BFLOAT16] = s##_bf16,                                                                               \
  }

OrtrainTileFunc
ORTRAIN_CPU_SYMBOL (ortrain_cpu_cast_loop) (OrtrainDType from, OrtrainDType to)
{
  static const OrtrainTileFunc loops[17][17] = {
    [ORTRAIN_DTYPE_FLOAT32] = COLUMNS (f32),   [ORTRAIN_DTYPE_UINT8] = COLUMNS (u8),
    [ORTRAIN_DTYPE_INT8] = COLUMNS (i8),       [ORTRAIN_DTYPE_UINT16] = COLUMNS (u16),
    [ORTRAIN_DTYPE_INT16] = COLUMNS (i16),     [ORTRAIN_DTYPE_INT32] = COLUMNS (i32),
    [ORTRAIN_DTYPE_INT64] = COLUMNS (i64),     [ORTRAIN_DTYPE_BOOL] = COLUMNS (bool),
    [ORTRAIN_DTYPE_FLOAT16] = COLUMNS (f16),   [ORTRAIN_DTYPE_FLOAT64] = COLUMNS (f64),
    [ORTRAIN_DTYPE_UINT32] = COLUMNS (u32),    [ORTRAIN_DTYPE_UINT64] = COLUMNS (u64),
    [ORTRAIN_DTYPE_BFLOAT16] = COLUMNS (bf16),
  };
  if ((guint) from > 16 || (guint) to > 16)
    return NULL;
  return loops[from][to];
}

#define CAST_DTYPES (ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL)
static const OrtrainKernel kernels[] = {
  ORTRAIN_POINTWISE_KERNEL ("Cast", "", CAST_DTYPES),
  ORTRAIN_POINTWISE_KERNEL ("CastLike", "", CAST_DTYPES),
};
ORTRAIN_KERNEL_TABLE (cast, kernels);
