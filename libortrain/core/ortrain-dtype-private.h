/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"
#include "core/ortrain-float-private.h"

/* Sets of types, for kernel and operator tables: bit n stands for the type with ONNX number n. */
typedef guint32 OrtrainDTypeSet;

#define ORTRAIN_DTYPE_BIT(dtype) (1u << (dtype))
#define ORTRAIN_DTYPES_F32F64 (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64))
#define ORTRAIN_DTYPES_HALF (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT16) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_BFLOAT16))
/* Types that kernels accept side by side when they compute in float32. */
#define ORTRAIN_DTYPES_MIXED (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32) | ORTRAIN_DTYPES_HALF)
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

/* A 16-bit float: storage for kernels that compute in float32. */
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

/* Elements of a type of 16 bits. */
static inline float
ortrain_dtype_widen (OrtrainDType dtype, guint16 bits)
{
  return dtype == ORTRAIN_DTYPE_BFLOAT16 ? ortrain_bfloat16_to_float (bits) : ortrain_half_to_float (bits);
}

static inline guint16
ortrain_dtype_narrow (OrtrainDType dtype, float value)
{
  return dtype == ORTRAIN_DTYPE_BFLOAT16 ? ortrain_float_to_bfloat16 (value) : ortrain_float_to_half (value);
}

static inline void
ortrain_dtype_widen_n (OrtrainDType dtype, float *ORTRAIN_RESTRICT to, const guint16 *ORTRAIN_RESTRICT from, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_bfloat16_to_float (from[i]);
  else
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_half_to_float (from[i]);
}

static inline void
ortrain_dtype_narrow_n (OrtrainDType dtype, guint16 *ORTRAIN_RESTRICT to, const float *ORTRAIN_RESTRICT from, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_float_to_bfloat16 (from[i]);
  else
    for (gint64 i = 0; i < n; i++)
      to[i] = ortrain_float_to_half (from[i]);
}
