/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"

#include <math.h>
#include <string.h>

/* Functions that read single elements: scalars, casts, argmax. An element is read into the widest type of its kind, so
 * that no conversion passes through a type that would lose something. */

typedef enum
{
  WIDE_SIGNED,
  WIDE_UNSIGNED,
  WIDE_FLOATING,
  WIDE_NONE,
} WideKind;

typedef struct
{
  WideKind kind;
  union
  {
    gint64 i;
    guint64 u;
    double f;
  } v;
} Wide;

static Wide
load_wide (OrtrainDType dtype, gconstpointer data, gint64 i)
{
#define SIGNED(type) ((Wide){ WIDE_SIGNED, .v.i = ((const type *) data)[i] })
#define UNSIGNED(type) ((Wide){ WIDE_UNSIGNED, .v.u = ((const type *) data)[i] })
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT32:
      return (Wide){ WIDE_FLOATING, .v.f = ((const float *) data)[i] };
    case ORTRAIN_DTYPE_FLOAT64:
      return (Wide){ WIDE_FLOATING, .v.f = ((const double *) data)[i] };
    case ORTRAIN_DTYPE_FLOAT16:
      return (Wide){ WIDE_FLOATING, .v.f = ortrain_half_to_float (((const guint16 *) data)[i]) };
    case ORTRAIN_DTYPE_BFLOAT16:
      return (Wide){ WIDE_FLOATING, .v.f = ortrain_bfloat16_to_float (((const guint16 *) data)[i]) };
    case ORTRAIN_DTYPE_INT8:
      return SIGNED (gint8);
    case ORTRAIN_DTYPE_INT16:
      return SIGNED (gint16);
    case ORTRAIN_DTYPE_INT32:
      return SIGNED (gint32);
    case ORTRAIN_DTYPE_INT64:
      return SIGNED (gint64);
    case ORTRAIN_DTYPE_UINT8:
      return UNSIGNED (guint8);
    case ORTRAIN_DTYPE_UINT16:
      return UNSIGNED (guint16);
    case ORTRAIN_DTYPE_UINT32:
      return UNSIGNED (guint32);
    case ORTRAIN_DTYPE_UINT64:
      return UNSIGNED (guint64);
    case ORTRAIN_DTYPE_BOOL:
      return (Wide){ WIDE_UNSIGNED, .v.u = ((const guint8 *) data)[i] != 0 };
    case ORTRAIN_DTYPE_UNDEFINED:
    case ORTRAIN_DTYPE_STRING:
    case ORTRAIN_DTYPE_COMPLEX64:
    case ORTRAIN_DTYPE_COMPLEX128:
      break;
    }
  return (Wide){ WIDE_NONE, .v.u = 0 };
#undef SIGNED
#undef UNSIGNED
}

static double
wide_to_double (Wide w)
{
  switch (w.kind)
    {
    case WIDE_SIGNED:
      return (double) w.v.i;
    case WIDE_UNSIGNED:
      return (double) w.v.u;
    case WIDE_FLOATING:
      return w.v.f;
    case WIDE_NONE:
      break;
    }
  return NAN;
}

static float
wide_to_float (Wide w)
{
  switch (w.kind)
    {
    case WIDE_SIGNED:
      return (float) w.v.i;
    case WIDE_UNSIGNED:
      return (float) w.v.u;
    case WIDE_FLOATING:
      return (float) w.v.f;
    case WIDE_NONE:
      break;
    }
  return NAN;
}

/* Integers wrap, as ONNX's Cast does; floating numbers are cut off and stay within the range of the type. */
static gint64
wide_to_signed (Wide w, gint64 low, gint64 high)
{
  switch (w.kind)
    {
    case WIDE_SIGNED:
      return w.v.i;
    case WIDE_UNSIGNED:
      return (gint64) w.v.u;
    case WIDE_FLOATING:
      if (isnan (w.v.f))
        return 0;
      if (w.v.f <= (double) low)
        return low;
      return w.v.f >= (double) high ? high : (gint64) w.v.f;
    case WIDE_NONE:
      break;
    }
  return 0;
}

static guint64
wide_to_unsigned (Wide w, guint64 high)
{
  switch (w.kind)
    {
    case WIDE_SIGNED:
      return (guint64) w.v.i;
    case WIDE_UNSIGNED:
      return w.v.u;
    case WIDE_FLOATING:
      if (!(w.v.f > 0))
        return 0;
      return w.v.f >= (double) high ? high : (guint64) w.v.f;
    case WIDE_NONE:
      break;
    }
  return 0;
}

static gboolean
wide_is_nonzero (Wide w)
{
  return w.kind == WIDE_FLOATING ? w.v.f != 0 : w.v.u != 0;
}

static void
store_wide (OrtrainDType dtype, gpointer data, gint64 i, Wide w)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT32:
      ((float *) data)[i] = wide_to_float (w);
      break;
    case ORTRAIN_DTYPE_FLOAT64:
      ((double *) data)[i] = wide_to_double (w);
      break;
    case ORTRAIN_DTYPE_FLOAT16:
      ((guint16 *) data)[i] = ortrain_float_to_half (ortrain_double_to_odd_float (wide_to_double (w)));
      break;
    case ORTRAIN_DTYPE_BFLOAT16:
      ((guint16 *) data)[i] = ortrain_float_to_bfloat16 (ortrain_double_to_odd_float (wide_to_double (w)));
      break;
    case ORTRAIN_DTYPE_INT8:
      ((gint8 *) data)[i] = (gint8) wide_to_signed (w, G_MININT8, G_MAXINT8);
      break;
    case ORTRAIN_DTYPE_INT16:
      ((gint16 *) data)[i] = (gint16) wide_to_signed (w, G_MININT16, G_MAXINT16);
      break;
    case ORTRAIN_DTYPE_INT32:
      ((gint32 *) data)[i] = (gint32) wide_to_signed (w, G_MININT32, G_MAXINT32);
      break;
    case ORTRAIN_DTYPE_INT64:
      ((gint64 *) data)[i] = wide_to_signed (w, G_MININT64, G_MAXINT64);
      break;
    case ORTRAIN_DTYPE_UINT8:
      ((guint8 *) data)[i] = (guint8) wide_to_unsigned (w, G_MAXUINT8);
      break;
    case ORTRAIN_DTYPE_UINT16:
      ((guint16 *) data)[i] = (guint16) wide_to_unsigned (w, G_MAXUINT16);
      break;
    case ORTRAIN_DTYPE_UINT32:
      ((guint32 *) data)[i] = (guint32) wide_to_unsigned (w, G_MAXUINT32);
      break;
    case ORTRAIN_DTYPE_UINT64:
      ((guint64 *) data)[i] = wide_to_unsigned (w, G_MAXUINT64);
      break;
    case ORTRAIN_DTYPE_BOOL:
      ((guint8 *) data)[i] = wide_is_nonzero (w);
      break;
    case ORTRAIN_DTYPE_UNDEFINED:
    case ORTRAIN_DTYPE_STRING:
    case ORTRAIN_DTYPE_COMPLEX64:
    case ORTRAIN_DTYPE_COMPLEX128:
      break;
    }
}

gboolean
ortrain_dtype_is_convertible (OrtrainDType dtype)
{
  return ortrain_dtype_is_valid ((int) dtype) &&
         (ORTRAIN_DTYPE_BIT (dtype) & (ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL)) != 0;
}

void
ortrain_convert_elements (OrtrainDType from, gconstpointer data, OrtrainDType to, gpointer out, gint64 n, double scale)
{
  /* the conversion that loaders do for each batch */
  if (from == ORTRAIN_DTYPE_UINT8 && to == ORTRAIN_DTYPE_FLOAT32)
    for (gint64 i = 0; i < n; i++)
      ((float *) out)[i] = (float) (((const guint8 *) data)[i] * scale);
  else if (from == ORTRAIN_DTYPE_FLOAT64 && to == ORTRAIN_DTYPE_FLOAT32)
    for (gint64 i = 0; i < n; i++)
      ((float *) out)[i] = (float) (((const double *) data)[i] * scale);
  else if (from == ORTRAIN_DTYPE_FLOAT32 && to == ORTRAIN_DTYPE_FLOAT64)
    for (gint64 i = 0; i < n; i++)
      ((double *) out)[i] = ((const float *) data)[i] * scale;
  else if (from == ORTRAIN_DTYPE_UINT16 && to == ORTRAIN_DTYPE_INT64 && scale == 1)
    for (gint64 i = 0; i < n; i++)
      ((gint64 *) out)[i] = ((const guint16 *) data)[i];
  else
    for (gint64 i = 0; i < n; i++)
      {
        Wide w = load_wide (from, data, i);
        if (scale != 1)
          w = (Wide){ WIDE_FLOATING, .v.f = wide_to_double (w) * scale };
        store_wide (to, out, i, w);
      }
}

/* FALSE if there is no such element, or it cannot be read. */
static gboolean
load_element (OrtrainTensor *self, gint64 index, Wide *element)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (self);
  const gsize size = ortrain_dtype_get_size (dtype);
  gconstpointer data = ortrain_tensor_peek (self);
  guint64 copy[2];
  if (index < 0 || index >= ortrain_tensor_get_n_elements (self))
    return FALSE;
  if (data == NULL && ortrain_tensor_read (self, (gsize) index * size, copy, size, NULL))
    {
      data = copy;
      index = 0;
    }
  if (data == NULL)
    return FALSE;
  *element = load_wide (dtype, data, index);
  return TRUE;
}

double
ortrain_tensor_peek_scalar (OrtrainTensor *self, gint64 index)
{
  Wide element;
  if (!load_element (self, index, &element))
    return NAN;
  const double x = wide_to_double (element);
  return isnan (x) ? NAN : x;
}

gint64
ortrain_tensor_peek_int (OrtrainTensor *self, gint64 index)
{
  Wide element;
  gint64 x = 0;
  if (load_element (self, index, &element))
    x = wide_to_signed (element, G_MININT64, G_MAXINT64);
  return x;
}

/**
 * ortrain_tensor_get_scalar:
 * @self: a tensor of numbers or booleans
 * @index: the number of the element, in row-major order
 *
 * One element as a double. It is meant for losses and the like, not for going through an array: of a tensor on another
 * device each is a copy that is waited for.
 *
 * Returns: the element; NaN if the index is out of range, if the tensor was released, if it is complex, or if it is
 *   mapped from a file that was changed
 */
double
ortrain_tensor_get_scalar (OrtrainTensor *self, gint64 index)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NAN);
  const double x = ortrain_tensor_peek_scalar (self, index);
  return ortrain_tensor_check_file (self, NULL) ? x : NAN;
}

/**
 * ortrain_tensor_cast:
 * @self: a tensor of numbers or booleans
 * @dtype: the new type of the elements
 * @error: return location for an error
 *
 * Converts a tensor to another type. Conversions to floating types round to nearest, ties to even; from floating to
 * integer types, the fraction is cut off and the result is limited to the range of the type. Integers wrap around.
 * Booleans tell whether the number is not 0.
 *
 * Returns: (transfer full): a new tensor on the host, or %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_cast (OrtrainTensor *self, OrtrainDType dtype, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  OrtrainDType from = ortrain_tensor_get_dtype (self);
  if (from == dtype)
    return ortrain_tensor_copy (self, error);
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (self, error);
  if (host == NULL)
    return NULL;
  if (!ortrain_dtype_is_convertible (from) || !ortrain_dtype_is_convertible (dtype))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE, "Cannot convert %s to %s",
                   ortrain_dtype_get_name (from), ortrain_dtype_get_name (dtype));
      return NULL;
    }
  OrtrainTensor *to =
      ortrain_tensor_new_uninitialized (dtype, ortrain_tensor_peek_dims (self), ortrain_tensor_get_rank (self), error);
  if (to == NULL)
    return NULL;
  ortrain_convert_elements (from, ortrain_tensor_peek (host), dtype, ortrain_tensor_peek_writable (to),
                            ortrain_tensor_get_n_elements (self), 1);
  if (!ortrain_tensor_check_file (self, error))
    g_clear_object (&to);
  return to;
}

/* Whether b comes after a; NaN after everything. */
static gboolean
wide_less (Wide a, Wide b)
{
  if (a.kind == WIDE_SIGNED)
    return a.v.i < b.v.i;
  if (a.kind == WIDE_UNSIGNED)
    return a.v.u < b.v.u;
  return !isnan (a.v.f) && (isnan (b.v.f) || a.v.f < b.v.f);
}

/**
 * ortrain_tensor_argmax:
 * @self: a tensor of numbers or booleans
 * @axis: the dimension to search along; negative numbers count from the end
 * @error: return location for an error
 *
 * Finds the indices of the largest elements: of equal ones the first, and of the first NaN if there is one.
 *
 * Returns: (transfer full): an int64 tensor without the dimension @axis; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_argmax (OrtrainTensor *self, gint64 axis, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  OrtrainDType dtype = ortrain_tensor_get_dtype (self);
  gsize rank = ortrain_tensor_get_rank (self);
  const gint64 *dims = ortrain_tensor_peek_dims (self);
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (self, error);
  if (host == NULL)
    return NULL;
  if (!ortrain_dtype_is_convertible (dtype))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE, "Tensors of type %s have no argmax",
                   ortrain_dtype_get_name (dtype));
      return NULL;
    }
  gint64 k = axis < 0 ? axis + (gint64) rank : axis;
  if (k < 0 || k >= (gint64) rank || dims[k] == 0)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, rank);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "A tensor of shape %s has no elements along axis %" G_GINT64_FORMAT, shape, axis);
      return NULL;
    }
  /* [outer, n, inner] → [outer, inner] */
  gint64 out_dims[ORTRAIN_MAX_RANK], outer = 1, inner = 1, n = dims[k];
  for (gint64 i = 0, j = 0; i < (gint64) rank; i++)
    {
      if (i == k)
        continue;
      out_dims[j++] = dims[i];
      if (i < k)
        outer *= dims[i];
      else
        inner *= dims[i];
    }
  OrtrainTensor *result = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, out_dims, rank - 1, error);
  if (result == NULL)
    return NULL;
  gconstpointer data = ortrain_tensor_peek (host);
  gint64 *out = ortrain_tensor_peek_writable (result);
  for (gint64 a = 0; a < outer; a++)
    for (gint64 c = 0; c < inner; c++)
      {
        Wide best = load_wide (dtype, data, a * n * inner + c);
        gint64 where = 0;
        for (gint64 b = 1; b < n; b++)
          {
            Wide w = load_wide (dtype, data, (a * n + b) * inner + c);
            if (wide_less (best, w))
              {
                best = w;
                where = b;
              }
          }
        out[a * inner + c] = where;
      }
  if (!ortrain_tensor_check_file (self, error))
    g_clear_object (&result);
  return result;
}
