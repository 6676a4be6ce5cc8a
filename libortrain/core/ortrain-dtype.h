/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

/**
 * OrtrainDType:
 * @ORTRAIN_DTYPE_UNDEFINED: not known
 * @ORTRAIN_DTYPE_FLOAT32: IEEE 754 single
 * @ORTRAIN_DTYPE_UINT8: unsigned, 8 bits
 * @ORTRAIN_DTYPE_INT8: signed, 8 bits
 * @ORTRAIN_DTYPE_UINT16: unsigned, 16 bits
 * @ORTRAIN_DTYPE_INT16: signed, 16 bits
 * @ORTRAIN_DTYPE_INT32: signed, 32 bits
 * @ORTRAIN_DTYPE_INT64: signed, 64 bits
 * @ORTRAIN_DTYPE_STRING: character strings; carried in models, never computed with
 * @ORTRAIN_DTYPE_BOOL: one byte, 0 or 1
 * @ORTRAIN_DTYPE_FLOAT16: IEEE 754 half
 * @ORTRAIN_DTYPE_FLOAT64: IEEE 754 double
 * @ORTRAIN_DTYPE_UINT32: unsigned, 32 bits
 * @ORTRAIN_DTYPE_UINT64: unsigned, 64 bits
 * @ORTRAIN_DTYPE_COMPLEX64: two singles; carried in models, never computed with
 * @ORTRAIN_DTYPE_COMPLEX128: two doubles; carried in models, never computed with
 * @ORTRAIN_DTYPE_BFLOAT16: the upper half of a single
 *
 * Element types of tensors. The numbers are those of ONNX's `TensorProto.DataType`.
 */
typedef enum
{
  ORTRAIN_DTYPE_UNDEFINED = 0,
  ORTRAIN_DTYPE_FLOAT32 = 1,
  ORTRAIN_DTYPE_UINT8 = 2,
  ORTRAIN_DTYPE_INT8 = 3,
  ORTRAIN_DTYPE_UINT16 = 4,
  ORTRAIN_DTYPE_INT16 = 5,
  ORTRAIN_DTYPE_INT32 = 6,
  ORTRAIN_DTYPE_INT64 = 7,
  ORTRAIN_DTYPE_STRING = 8,
  ORTRAIN_DTYPE_BOOL = 9,
  ORTRAIN_DTYPE_FLOAT16 = 10,
  ORTRAIN_DTYPE_FLOAT64 = 11,
  ORTRAIN_DTYPE_UINT32 = 12,
  ORTRAIN_DTYPE_UINT64 = 13,
  ORTRAIN_DTYPE_COMPLEX64 = 14,
  ORTRAIN_DTYPE_COMPLEX128 = 15,
  ORTRAIN_DTYPE_BFLOAT16 = 16,
} OrtrainDType;

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_dtype_get_name (OrtrainDType dtype);

ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_dtype_get_size (OrtrainDType dtype);

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_dtype_get_numpy_string (OrtrainDType dtype);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_dtype_is_floating (OrtrainDType dtype);

G_END_DECLS
