/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"

/* Sets of types, for kernel and operator tables: bit n stands for the type with ONNX number n. */
typedef guint32 OrtrainDTypeSet;

#define ORTRAIN_DTYPE_BIT(dtype) (1u << (dtype))
#define ORTRAIN_DTYPES_F32F64 (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64))
#define ORTRAIN_DTYPES_HALF (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT16) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_BFLOAT16))
#define ORTRAIN_DTYPES_FLOAT (ORTRAIN_DTYPES_F32F64 | ORTRAIN_DTYPES_HALF)
#define ORTRAIN_DTYPES_SIGNED                                                                                          \
  (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT16) |                                  \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64))
#define ORTRAIN_DTYPES_UNSIGNED                                                                                        \
  (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT16) |                                \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT64))
#define ORTRAIN_DTYPES_INTEGER (ORTRAIN_DTYPES_SIGNED | ORTRAIN_DTYPES_UNSIGNED)
#define ORTRAIN_DTYPES_NUMERIC (ORTRAIN_DTYPES_INTEGER | ORTRAIN_DTYPES_FLOAT)
#define ORTRAIN_DTYPES_BOOL ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_BOOL)
/* What data movement moves: every type whose elements are plain bytes. */
#define ORTRAIN_DTYPES_ALL                                                                                             \
  (ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_COMPLEX64) |                        \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_COMPLEX128))

/* Of 16 bits: storage for kernels that compute in float32. */
static inline gboolean
ortrain_dtype_is_half (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT16 || dtype == ORTRAIN_DTYPE_BFLOAT16;
}
gboolean ortrain_dtype_is_valid (int onnx_number);
gboolean ortrain_dtype_is_integer (OrtrainDType dtype);
gboolean ortrain_dtype_to_dlpack (OrtrainDType dtype, guint8 *code, guint8 *bits);
OrtrainDType ortrain_dtype_from_dlpack (guint8 code, guint8 bits);
OrtrainDType ortrain_dtype_from_numpy_string (const char *typestr); /* "<f4"; UNDEFINED when unknown or big-endian */
OrtrainDType ortrain_dtype_from_safetensors (const char *name);     /* "F32" */
const char *ortrain_dtype_get_safetensors_name (OrtrainDType dtype);

/* Conversions of the two half types, round to nearest even. */
float ortrain_half_to_float (guint16 bits);
guint16 ortrain_float_to_half (float value);
static inline float
ortrain_bfloat16_to_float (guint16 bits)
{
  union
  {
    guint32 u;
    float f;
  } v = { (guint32) bits << 16 };
  return v.f;
}
static inline guint16
ortrain_float_to_bfloat16 (float value)
{
  union
  {
    float f;
    guint32 u;
  } v = { value };
  if ((v.u & 0x7fffffffu) > 0x7f800000u)
    return (guint16) ((v.u >> 16) | 0x40u);
  return (guint16) ((v.u + 0x7fffu + ((v.u >> 16) & 1u)) >> 16);
}
