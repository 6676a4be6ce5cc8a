/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-dtype-private.h"

#include <string.h>

/* Everything that is known of element types, in one table. A new type is one row here. */
enum
{
  KIND_NONE,
  KIND_INTEGER,
  KIND_FLOATING,
  KIND_OTHER,
};

enum
{
  DLPACK_INT = 0,
  DLPACK_UINT = 1,
  DLPACK_FLOAT = 2,
  DLPACK_BFLOAT = 4,
  DLPACK_COMPLEX = 5,
  DLPACK_BOOL = 6,
  DLPACK_NONE = 255,
};

typedef struct
{
  const char *name;
  guint8 size; /* bytes; 0: elements are not plain bytes */
  guint8 kind;
  guint8 dlpack_code;
  const char *numpy;       /* NULL: NumPy has no such type */
  const char *safetensors; /* NULL: the format has no such type */
} DTypeRow;

static const DTypeRow rows[] = {
  [ORTRAIN_DTYPE_UNDEFINED] = { "undefined", 0, KIND_NONE, DLPACK_NONE, NULL, NULL },
  [ORTRAIN_DTYPE_FLOAT32] = { "float32", 4, KIND_FLOATING, DLPACK_FLOAT, "<f4", "F32" },
  [ORTRAIN_DTYPE_UINT8] = { "uint8", 1, KIND_INTEGER, DLPACK_UINT, "|u1", "U8" },
  [ORTRAIN_DTYPE_INT8] = { "int8", 1, KIND_INTEGER, DLPACK_INT, "|i1", "I8" },
  [ORTRAIN_DTYPE_UINT16] = { "uint16", 2, KIND_INTEGER, DLPACK_UINT, "<u2", "U16" },
  [ORTRAIN_DTYPE_INT16] = { "int16", 2, KIND_INTEGER, DLPACK_INT, "<i2", "I16" },
  [ORTRAIN_DTYPE_INT32] = { "int32", 4, KIND_INTEGER, DLPACK_INT, "<i4", "I32" },
  [ORTRAIN_DTYPE_INT64] = { "int64", 8, KIND_INTEGER, DLPACK_INT, "<i8", "I64" },
  [ORTRAIN_DTYPE_STRING] = { "string", 0, KIND_OTHER, DLPACK_NONE, NULL, NULL },
  [ORTRAIN_DTYPE_BOOL] = { "bool", 1, KIND_OTHER, DLPACK_BOOL, "|b1", "BOOL" },
  [ORTRAIN_DTYPE_FLOAT16] = { "float16", 2, KIND_FLOATING, DLPACK_FLOAT, "<f2", "F16" },
  [ORTRAIN_DTYPE_FLOAT64] = { "float64", 8, KIND_FLOATING, DLPACK_FLOAT, "<f8", "F64" },
  [ORTRAIN_DTYPE_UINT32] = { "uint32", 4, KIND_INTEGER, DLPACK_UINT, "<u4", "U32" },
  [ORTRAIN_DTYPE_UINT64] = { "uint64", 8, KIND_INTEGER, DLPACK_UINT, "<u8", "U64" },
  [ORTRAIN_DTYPE_COMPLEX64] = { "complex64", 8, KIND_OTHER, DLPACK_COMPLEX, "<c8", "C64" },
  [ORTRAIN_DTYPE_COMPLEX128] = { "complex128", 16, KIND_OTHER, DLPACK_COMPLEX, "<c16", NULL },
  [ORTRAIN_DTYPE_BFLOAT16] = { "bfloat16", 2, KIND_FLOATING, DLPACK_BFLOAT, NULL, "BF16" },
};

G_STATIC_ASSERT (G_N_ELEMENTS (rows) == ORTRAIN_DTYPE_BFLOAT16 + 1);

/* The tables hold little-endian names; a big-endian machine would need its own. */
G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

static const DTypeRow *
row_of (OrtrainDType dtype)
{
  return ortrain_dtype_is_valid ((int) dtype) ? &rows[dtype] : &rows[ORTRAIN_DTYPE_UNDEFINED];
}

/* Whether the number stands for an element type that the library knows (UNDEFINED is not one). */
gboolean
ortrain_dtype_is_valid (int onnx_number)
{
  return onnx_number > ORTRAIN_DTYPE_UNDEFINED && onnx_number < (int) G_N_ELEMENTS (rows);
}

/**
 * ortrain_dtype_get_name:
 * @dtype: an element type
 *
 * Names an element type as NumPy and PyTorch do.
 *
 * Returns: (transfer none): the name, for instance `float32`; `undefined` for a number that is no element type
 */
const char *
ortrain_dtype_get_name (OrtrainDType dtype)
{
  return row_of (dtype)->name;
}

/**
 * ortrain_dtype_get_size:
 * @dtype: an element type
 *
 * Gets the size of an element.
 *
 * Returns: the size in bytes; 0 when elements have no fixed size
 */
gsize
ortrain_dtype_get_size (OrtrainDType dtype)
{
  return row_of (dtype)->size;
}

/**
 * ortrain_dtype_get_numpy_string:
 * @dtype: an element type
 *
 * Gets the type string of NumPy's array interface, for instance `<f4`.
 *
 * Returns: (transfer none) (nullable): the string, or %NULL if NumPy has no such type (`bfloat16`)
 */
const char *
ortrain_dtype_get_numpy_string (OrtrainDType dtype)
{
  return row_of (dtype)->numpy;
}

/**
 * ortrain_dtype_is_floating:
 * @dtype: an element type
 *
 * Tells whether the elements are real floating-point numbers, of any width.
 *
 * Returns: %TRUE for float16, bfloat16, float32 and float64
 */
gboolean
ortrain_dtype_is_floating (OrtrainDType dtype)
{
  return row_of (dtype)->kind == KIND_FLOATING;
}

/* bool is no integer here. */
gboolean
ortrain_dtype_is_integer (OrtrainDType dtype)
{
  return row_of (dtype)->kind == KIND_INTEGER;
}

gboolean
ortrain_dtype_to_dlpack (OrtrainDType dtype, guint8 *code, guint8 *bits)
{
  const DTypeRow *row = row_of (dtype);
  if (row->dlpack_code == DLPACK_NONE)
    return FALSE;
  *code = row->dlpack_code;
  *bits = (guint8) (row->size * 8);
  return TRUE;
}

OrtrainDType
ortrain_dtype_from_dlpack (guint8 code, guint8 bits)
{
  for (guint i = 1; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].dlpack_code == code && rows[i].dlpack_code != DLPACK_NONE && rows[i].size * 8 == bits)
      return (OrtrainDType) i;
  return ORTRAIN_DTYPE_UNDEFINED;
}

OrtrainDType
ortrain_dtype_from_numpy_string (const char *typestr)
{
  if (typestr == NULL || typestr[0] == '\0' || strchr ("<>|=", typestr[0]) == NULL)
    return ORTRAIN_DTYPE_UNDEFINED;
  for (guint i = 1; i < G_N_ELEMENTS (rows); i++)
    {
      if (rows[i].numpy == NULL || strcmp (rows[i].numpy + 1, typestr + 1) != 0)
        continue;
      /* The order of bytes does not matter for single bytes, so any mark will do there. */
      if (typestr[0] == '>' && rows[i].size > 1)
        return ORTRAIN_DTYPE_UNDEFINED;
      if (typestr[0] == '|' && rows[i].size > 1)
        return ORTRAIN_DTYPE_UNDEFINED;
      return (OrtrainDType) i;
    }
  return ORTRAIN_DTYPE_UNDEFINED;
}

OrtrainDType
ortrain_dtype_from_safetensors (const char *name)
{
  for (guint i = 1; name != NULL && i < G_N_ELEMENTS (rows); i++)
    if (rows[i].safetensors != NULL && strcmp (rows[i].safetensors, name) == 0)
      return (OrtrainDType) i;
  return ORTRAIN_DTYPE_UNDEFINED;
}

const char *
ortrain_dtype_get_safetensors_name (OrtrainDType dtype)
{
  return row_of (dtype)->safetensors;
}
