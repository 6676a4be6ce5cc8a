/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-proto-tensor-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-dtype-text-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

#define MAX_DIM ((gint64) 1 << 48)
#define MAX_COPIED_BYTES 4096

static gboolean invalid (GError **error, const char *owner, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
invalid (GError **error, const char *owner, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, "Tensor '%s': %s", ortrain_text_show (owner),
               text);
  return FALSE;
}

gboolean
ortrain_proto_tensors_check_dims (OrtrainModelLimits *limits, const int64_t *dims, gsize n_dims, OrtrainDType dtype,
                                  const char *owner, gint64 *n_elements, gsize *n_bytes, GError **error)
{
  guint max_rank = MIN (ortrain_model_limits_get_max_rank (limits), ORTRAIN_MAX_RANK);
  if (n_dims > max_rank)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "Tensor '%s' has %" G_GSIZE_FORMAT " dimensions, more than the limit 'max-rank' of %u",
                   ortrain_text_show (owner), n_dims, max_rank);
      return FALSE;
    }
  for (gsize i = 0; i < n_dims; i++)
    if (dims[i] < 0 || dims[i] >= MAX_DIM)
      return invalid (error, owner, "dimension %" G_GSIZE_FORMAT " is %" G_GINT64_FORMAT, i, (gint64) dims[i]);
  if (!ortrain_checked_n_elements ((const gint64 *) dims, n_dims, n_elements) ||
      !ortrain_checked_mul ((gsize) *n_elements, ortrain_dtype_get_size (dtype), n_bytes) ||
      *n_bytes > ortrain_model_limits_get_max_tensor_bytes (limits))
    {
      g_autofree char *shape = ortrain_shape_to_string ((const gint64 *) dims, n_dims);
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "Tensor '%s' of shape %s exceeds the limit 'max-tensor-bytes' of %" G_GUINT64_FORMAT,
                   ortrain_text_show (owner), shape, ortrain_model_limits_get_max_tensor_bytes (limits));
      return FALSE;
    }
  return TRUE;
}

/* Elements whose layout in the file is that of memory: a part of the mapping, or, where they are misaligned for their
 * type, a copy that is made only when somebody reads them. */
static OrtrainTensor *
from_slice (OrtrainDType dtype, const int64_t *dims, gsize n_dims, GBytes *bytes, gsize offset, gsize n_bytes,
            GError **error)
{
  const guint8 *data = (const guint8 *) g_bytes_get_data (bytes, NULL) + offset;
  /* Small integers are shapes, axes and indices: addresses follow from them, so they must not change in the file
   * between the moment when they are checked and the moment when they are used. */
  gboolean copy = G_BYTE_ORDER != G_LITTLE_ENDIAN || (ortrain_dtype_is_integer (dtype) && n_bytes <= MAX_COPIED_BYTES);

  if (dtype == ORTRAIN_DTYPE_BOOL)
    for (gsize i = 0; i < n_bytes && !copy; i++)
      copy = data[i] > 1;
  if (!copy)
    {
      g_autoptr (GBytes) slice = g_bytes_new_from_bytes (bytes, offset, n_bytes);
      return ortrain_tensor_new_for_bytes (dtype, (const gint64 *) dims, n_dims, slice, error);
    }
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (dtype, (const gint64 *) dims, n_dims, error);
  if (tensor == NULL)
    return NULL;
  guint8 *out = ortrain_tensor_peek_writable (tensor);
  gsize size = ortrain_dtype_get_size (dtype);
  if (dtype == ORTRAIN_DTYPE_COMPLEX64 || dtype == ORTRAIN_DTYPE_COMPLEX128)
    size /= 2;
  for (gsize i = 0; i < n_bytes; i++)
    if (dtype == ORTRAIN_DTYPE_BOOL)
      out[i] = data[i] != 0;
    else if (G_BYTE_ORDER == G_LITTLE_ENDIAN)
      out[i] = data[i];
    else
      out[i - i % size + (size - 1 - i % size)] = data[i];
  return tensor;
}

GBytes *
ortrain_proto_tensors_locate (OrtrainProtoTensors *self, const Ortrain__Ox__TensorProto *proto, gsize n_bytes,
                              const char *owner, gsize *result, GError **error)
{
  const char *location = NULL;
  guint64 offset = 0, length = n_bytes;

  for (gsize i = 0; i < proto->n_external_data; i++)
    {
      const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
      guint64 *number = NULL;
      if (key == NULL || value == NULL)
        {
          invalid (error, owner, "an entry of its external data has no key or no value");
          return NULL;
        }
      if (g_str_equal (key, "location"))
        location = value;
      else if (g_str_equal (key, "offset"))
        number = &offset;
      else if (g_str_equal (key, "length"))
        number = &length;
      else if (!g_str_equal (key, "checksum"))
        {
          invalid (error, owner, "its external data have an unknown key '%s'", ortrain_text_show (key));
          return NULL;
        }
      if (number != NULL && !g_ascii_string_to_unsigned (value, 10, 0, G_MAXINT64, number, NULL))
        {
          invalid (error, owner, "the %s of its external data, '%s', is not a number", ortrain_text_show (key),
                   ortrain_text_show (value));
          return NULL;
        }
    }
  if (location == NULL)
    {
      invalid (error, owner, "its external data have no location");
      return NULL;
    }
  if (length != n_bytes)
    {
      invalid (error, owner, "its external data have %" G_GUINT64_FORMAT " bytes, type and shape need %" G_GSIZE_FORMAT,
               length, n_bytes);
      return NULL;
    }
  GBytes *file = ortrain_external_data_open (self->external, location, owner, error);
  if (file == NULL)
    return NULL;
  gsize size = g_bytes_get_size (file);
  if (offset > size || n_bytes > size - offset)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA,
                   "Tensor '%s' is at bytes %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
                   " of data file '%s', which has %" G_GSIZE_FORMAT,
                   ortrain_text_show (owner), offset, offset + n_bytes, ortrain_text_show (location), size);
      return NULL;
    }
  *result = (gsize) offset;
  return file;
}

static OrtrainTensor *
from_external (OrtrainProtoTensors *self, const Ortrain__Ox__TensorProto *proto, OrtrainDType dtype, gsize n_bytes,
               const char *owner, GError **error)
{
  gsize offset;
  GBytes *file = ortrain_proto_tensors_locate (self, proto, n_bytes, owner, &offset, error);
  if (file == NULL)
    return NULL;
  if (n_bytes == 0)
    return ortrain_tensor_new (dtype, (const gint64 *) proto->dims, proto->n_dims, error);
  return from_slice (dtype, proto->dims, proto->n_dims, file, offset, n_bytes, error);
}

/* Which typed field holds elements of a type, and how many entries of the field make one element. */
static guint32
typed_field (OrtrainDType dtype, guint *per_element)
{
  *per_element = 1;
  switch (dtype)
    {
    case ORTRAIN_DTYPE_COMPLEX64:
      *per_element = 2;
      return ORTRAIN_TENSOR_FLOAT_DATA;
    case ORTRAIN_DTYPE_FLOAT32:
      return ORTRAIN_TENSOR_FLOAT_DATA;
    case ORTRAIN_DTYPE_COMPLEX128:
      *per_element = 2;
      return ORTRAIN_TENSOR_DOUBLE_DATA;
    case ORTRAIN_DTYPE_FLOAT64:
      return ORTRAIN_TENSOR_DOUBLE_DATA;
    case ORTRAIN_DTYPE_INT64:
      return ORTRAIN_TENSOR_INT64_DATA;
    case ORTRAIN_DTYPE_UINT32:
    case ORTRAIN_DTYPE_UINT64:
      return ORTRAIN_TENSOR_UINT64_DATA;
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_INT8:
    case ORTRAIN_DTYPE_UINT16:
    case ORTRAIN_DTYPE_INT16:
    case ORTRAIN_DTYPE_INT32:
    case ORTRAIN_DTYPE_BOOL:
    case ORTRAIN_DTYPE_FLOAT16:
    case ORTRAIN_DTYPE_BFLOAT16:
      return ORTRAIN_TENSOR_INT32_DATA;
    case ORTRAIN_DTYPE_UNDEFINED:
    case ORTRAIN_DTYPE_STRING:
      break;
    }
  return 0;
}

static void
store (OrtrainDType dtype, gpointer out, gsize index, guint64 bits)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT32:
    case ORTRAIN_DTYPE_COMPLEX64:
    case ORTRAIN_DTYPE_INT32:
    case ORTRAIN_DTYPE_UINT32:
      ((guint32 *) out)[index] = (guint32) bits;
      break;
    case ORTRAIN_DTYPE_FLOAT64:
    case ORTRAIN_DTYPE_COMPLEX128:
    case ORTRAIN_DTYPE_INT64:
    case ORTRAIN_DTYPE_UINT64:
      ((guint64 *) out)[index] = bits;
      break;
    case ORTRAIN_DTYPE_UINT16:
    case ORTRAIN_DTYPE_INT16:
    case ORTRAIN_DTYPE_FLOAT16:
    case ORTRAIN_DTYPE_BFLOAT16:
      ((guint16 *) out)[index] = (guint16) bits;
      break;
    case ORTRAIN_DTYPE_UINT8:
    case ORTRAIN_DTYPE_INT8:
      ((guint8 *) out)[index] = (guint8) bits;
      break;
    case ORTRAIN_DTYPE_BOOL:
      ((guint8 *) out)[index] = bits != 0;
      break;
    case ORTRAIN_DTYPE_UNDEFINED:
    case ORTRAIN_DTYPE_STRING:
      break;
    }
}

/* Walks the typed field: counts its entries, and stores the first `room` of them. FALSE when malformed. The file may be
 * changed by somebody while it is read, so a second walk trusts nothing of the first. */
static gboolean
read_typed (const guint8 *data, OrtrainWireRange range, guint32 number, OrtrainDType dtype, gpointer out, guint64 room,
            guint64 *n_entries)
{
  const gsize width = number == ORTRAIN_TENSOR_FLOAT_DATA ? 4 : number == ORTRAIN_TENSOR_DOUBLE_DATA ? 8 : 0;
  OrtrainWireField field;
  gsize position = range.begin;
  guint64 n = 0;

  while (ortrain_wire_next (data, range.end, &position, &field, NULL))
    {
      if (field.number != number)
        continue;
      if (field.type != ORTRAIN_WIRE_BYTES)
        {
          OrtrainWireType want = width == 4   ? ORTRAIN_WIRE_FIXED32
                                 : width == 8 ? ORTRAIN_WIRE_FIXED64
                                              : ORTRAIN_WIRE_VARINT;
          if (field.type != want)
            return FALSE;
          if (n < room)
            store (dtype, out, n, field.value);
          n++;
          continue;
        }
      if (width > 0 && (field.end - field.body) % width != 0)
        return FALSE;
      for (gsize at = field.body; at < field.end; n++)
        {
          guint64 bits = 0;
          if (width == 0)
            {
              if (!ortrain_wire_read_varint (data, field.end, &at, &bits))
                return FALSE;
            }
          else
            for (gsize i = 0; i < width; i++)
              bits |= (guint64) data[at++] << (8 * i);
          if (n < room)
            store (dtype, out, n, bits);
        }
    }
  *n_entries = n;
  return TRUE;
}

static OrtrainTensor *
from_file (OrtrainProtoTensors *self, const Ortrain__Ox__TensorProto *proto, OrtrainWireRange range, OrtrainDType dtype,
           gint64 n_elements, gsize n_bytes, const char *owner, GError **error)
{
  const guint8 *data = g_bytes_get_data (self->file, NULL);
  guint per_element;
  const guint32 typed = typed_field (dtype, &per_element);
  OrtrainWireField field, raw = { 0 }, packed = { 0 };
  guint n_typed_fields = 0;
  gsize position = range.begin;

  while (ortrain_wire_next (data, range.end, &position, &field, NULL))
    {
      if (field.number == ORTRAIN_TENSOR_RAW_DATA)
        {
          if (field.type != ORTRAIN_WIRE_BYTES)
            {
              invalid (error, owner, "its raw data at byte %" G_GSIZE_FORMAT " has the wrong wire type", field.begin);
              return NULL;
            }
          raw = field;
        }
      else if (field.number == typed)
        {
          packed = field;
          n_typed_fields++;
        }
    }
  if (raw.end > 0 && (raw.end > raw.body || n_typed_fields == 0))
    {
      if (raw.end - raw.body != n_bytes)
        {
          invalid (error, owner,
                   "it has %" G_GSIZE_FORMAT " bytes of data at byte %" G_GSIZE_FORMAT
                   ", type and shape need %" G_GSIZE_FORMAT,
                   raw.end - raw.body, raw.begin, n_bytes);
          return NULL;
        }
      if (n_bytes == 0)
        return ortrain_tensor_new (dtype, (const gint64 *) proto->dims, proto->n_dims, error);
      return from_slice (dtype, proto->dims, proto->n_dims, self->file, raw.body, n_bytes, error);
    }

  guint64 n_entries;
  if (!read_typed (data, range, typed, dtype, NULL, 0, &n_entries))
    {
      invalid (error, owner, "its data between bytes %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT " is malformed",
               range.begin, range.end);
      return NULL;
    }
  if (n_entries != (guint64) n_elements * per_element)
    {
      invalid (error, owner, "it has %" G_GUINT64_FORMAT " elements, its shape needs %" G_GINT64_FORMAT,
               n_entries / per_element, n_elements);
      return NULL;
    }
  if (n_typed_fields == 1 && packed.type == ORTRAIN_WIRE_BYTES && n_bytes > 0 &&
      (typed == ORTRAIN_TENSOR_FLOAT_DATA || typed == ORTRAIN_TENSOR_DOUBLE_DATA))
    return from_slice (dtype, proto->dims, proto->n_dims, self->file, packed.body, n_bytes, error);
  if (n_bytes == 0)
    return ortrain_tensor_new (dtype, (const gint64 *) proto->dims, proto->n_dims, error);
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (dtype, (const gint64 *) proto->dims, proto->n_dims, error);
  if (tensor != NULL)
    read_typed (data, range, typed, dtype, ortrain_tensor_peek_writable (tensor), (guint64) n_elements * per_element,
                &n_entries);
  return tensor;
}

OrtrainTensor *
ortrain_proto_tensors_get (OrtrainProtoTensors *self, const Ortrain__Ox__TensorProto *proto, const char *owner,
                           GError **error)
{
  const guint8 *mark = proto->raw_data.data;
  guint32 index = G_MAXUINT32;
  gint64 n_elements;
  gsize n_bytes;

  if (proto->has_raw_data && proto->raw_data.len == 4)
    index = (guint32) mark[0] | (guint32) mark[1] << 8 | (guint32) mark[2] << 16 | (guint32) mark[3] << 24;
  if (index >= self->scan->tensors->len)
    {
      invalid (error, owner, "it is not part of the file");
      return NULL;
    }
  if (self->cache[index] != NULL)
    return self->cache[index];
  if (!proto->has_data_type || !ortrain_dtype_is_valid (proto->data_type) || proto->data_type == ORTRAIN_DTYPE_STRING)
    {
      gboolean known = proto->has_data_type && proto->data_type > 0 && proto->data_type <= 64;
      if (!known)
        invalid (error, owner, "it has the element type %d", proto->data_type);
      else if (proto->data_type == ORTRAIN_DTYPE_STRING)
        g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED,
                     "Tensor '%s' holds strings, which are not supported", ortrain_text_show (owner));
      else
        {
          g_autofree char *why = ortrain_dtype_explain_unsupported (proto->data_type);
          g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED, "Tensor '%s' has %s",
                       ortrain_text_show (owner), why);
        }
      return NULL;
    }
  if (proto->segment != NULL)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_UNSUPPORTED,
                   "Tensor '%s' is a segment of a larger one, which is not supported", ortrain_text_show (owner));
      return NULL;
    }
  OrtrainDType dtype = (OrtrainDType) proto->data_type;
  if (!ortrain_proto_tensors_check_dims (self->limits, proto->dims, proto->n_dims, dtype, owner, &n_elements, &n_bytes,
                                         error))
    return NULL;
  if (proto->has_data_location && proto->data_location == ORTRAIN__OX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    self->cache[index] = from_external (self, proto, dtype, n_bytes, owner, error);
  else
    {
      OrtrainWireRange range = g_array_index (self->scan->tensors, OrtrainWireRange, index);
      self->cache[index] = from_file (self, proto, range, dtype, n_elements, n_bytes, owner, error);
    }
  if (self->cache[index] == NULL && error != NULL && (*error)->domain == ORTRAIN_TENSOR_ERROR)
    g_prefix_error (error, "Tensor '%s': ", ortrain_text_show (owner));
  return self->cache[index];
}

/* Dense tensors of sparse ones are the only place where a few bytes of file ask for many of memory: no more than this.
 */
#define MAX_DENSE_BYTES ((gsize) 1 << 30)

OrtrainTensor *
ortrain_proto_tensors_densify (OrtrainProtoTensors *self, const Ortrain__Ox__SparseTensorProto *proto,
                               const char *owner, GError **error)
{
  gint64 n_elements;
  gsize n_bytes;

  if (proto->values == NULL || proto->indices == NULL)
    {
      invalid (error, owner, "the sparse tensor has no values or no indices");
      return NULL;
    }
  OrtrainTensor *values = ortrain_proto_tensors_get (self, proto->values, owner, error);
  if (values == NULL)
    return NULL;
  OrtrainTensor *indices = ortrain_proto_tensors_get (self, proto->indices, owner, error);
  if (indices == NULL)
    return NULL;
  OrtrainDType dtype = ortrain_tensor_get_dtype (values);
  if (!ortrain_proto_tensors_check_dims (self->limits, proto->dims, proto->n_dims, dtype, owner, &n_elements, &n_bytes,
                                         error))
    return NULL;
  if (n_bytes > MAX_DENSE_BYTES)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "Tensor '%s' is sparse and would need %" G_GSIZE_FORMAT
                   " bytes as a dense one, which is not supported",
                   ortrain_text_show (owner), n_bytes);
      return NULL;
    }
  const gint64 n = ortrain_tensor_get_n_elements (values);
  const gint64 n_indices = ortrain_tensor_get_n_elements (indices);
  const gsize index_rank = ortrain_tensor_get_rank (indices), rank = proto->n_dims;
  const gboolean linear = index_rank == 1;
  if (ortrain_tensor_get_dtype (indices) != ORTRAIN_DTYPE_INT64 || ortrain_tensor_get_rank (values) != 1 ||
      (linear ? n_indices != n
              : index_rank != 2 || ortrain_tensor_get_dim (indices, 0) != n ||
                    ortrain_tensor_get_dim (indices, 1) != (gint64) rank))
    {
      invalid (error, owner, "the values and the indices of the sparse tensor differ in number");
      return NULL;
    }
  g_autoptr (OrtrainTensor) dense = ortrain_tensor_new (dtype, (const gint64 *) proto->dims, rank, error);
  if (dense == NULL)
    {
      g_prefix_error (error, "Tensor '%s': ", ortrain_text_show (owner));
      return NULL;
    }
  const gint64 *at = ortrain_tensor_peek (indices);
  const guint8 *source = ortrain_tensor_peek (values);
  guint8 *destination = ortrain_tensor_peek_writable (dense);
  const gsize size = ortrain_dtype_get_size (dtype);
  for (gint64 i = 0; i < n; i++)
    {
      gint64 flat = linear ? at[i] : 0;
      gboolean inside = !linear || (flat >= 0 && flat < n_elements);
      for (gsize axis = 0; !linear && axis < rank; axis++)
        {
          gint64 index = at[(gsize) i * rank + axis];
          inside = inside && index >= 0 && index < proto->dims[axis];
          flat = inside ? flat * proto->dims[axis] + index : 0;
        }
      if (!inside)
        {
          invalid (error, owner, "index %" G_GINT64_FORMAT " of the sparse tensor is out of range", i);
          return NULL;
        }
      memcpy (destination + (gsize) flat * size, source + (gsize) i * size, size);
    }
  return g_steal_pointer (&dense);
}
