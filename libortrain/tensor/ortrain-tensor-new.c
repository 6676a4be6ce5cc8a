/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-struct-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-storage-private.h"

#include <string.h>

/* The ways of creating a tensor. */

#define MAX_COPIED_BYTES 256

/* The elements and bytes of a tensor of this type and shape. Every function that creates a tensor calls this. */
static gboolean
measure (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gint64 *n_elements, gsize *n_bytes, GError **error)
{
  gsize size = ortrain_dtype_get_size (dtype);
  if (size == 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE,
                   "Elements of type %s (%d) are not supported in tensors", ortrain_dtype_get_name (dtype),
                   (int) dtype);
      return FALSE;
    }
  if (n_dims > ORTRAIN_MAX_RANK)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "A tensor of rank %" G_GSIZE_FORMAT " is not supported, the limit is %d", n_dims, ORTRAIN_MAX_RANK);
      return FALSE;
    }
  if (!ortrain_checked_n_elements (dims, n_dims, n_elements) ||
      !ortrain_checked_mul ((gsize) *n_elements, size, n_bytes) || *n_bytes > (gsize) G_MAXSSIZE)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "Shape %s has a negative dimension, or more elements of type %s than can be addressed", shape,
                   ortrain_dtype_get_name (dtype));
      return FALSE;
    }
  return TRUE;
}

/* Complex numbers are aligned like their halves. */
static gsize
alignment_of (OrtrainDType dtype)
{
  return MIN (ortrain_dtype_get_size (dtype), 8);
}

OrtrainTensor *
ortrain_tensor_take (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gint64 n_elements, gsize n_bytes,
                     OrtrainStorage *storage, gsize offset)
{
  OrtrainTensor *self = g_object_new (ORTRAIN_TYPE_TENSOR, NULL);
  self->storage = storage;
  self->offset = offset;
  self->dtype = dtype;
  self->rank = (guint) n_dims;
  self->n_elements = n_elements;
  self->n_bytes = n_bytes;
  if (n_dims > ORTRAIN_TENSOR_FEW_DIMS)
    self->dims = g_new (gint64, n_dims);
  if (n_dims > 0)
    memcpy (self->dims, dims, n_dims * sizeof *dims);
  return self;
}

/**
 * ortrain_tensor_new:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape, outermost dimension first
 * @n_dims: the rank; 0 for a scalar
 * @error: return location for an error
 *
 * Creates a tensor of zeros.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GError **error)
{
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  gint64 n_elements;
  gsize n_bytes;
  if (!measure (dtype, dims, n_dims, &n_elements, &n_bytes, error))
    return NULL;
  OrtrainStorage *storage = ortrain_storage_new (n_bytes, error);
  if (storage == NULL)
    return NULL;
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0);
}

OrtrainTensor *
ortrain_tensor_new_uninitialized (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GError **error)
{
  gint64 n_elements;
  gsize n_bytes;
  if (!measure (dtype, dims, n_dims, &n_elements, &n_bytes, error))
    return NULL;
  OrtrainStorage *storage = ortrain_storage_new_uninitialized (n_bytes, 256, error);
  if (storage == NULL)
    return NULL;
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0);
}

OrtrainTensor *
ortrain_tensor_new_without_contents (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GError **error)
{
  gint64 n_elements;
  gsize n_bytes;
  if (!measure (dtype, dims, n_dims, &n_elements, &n_bytes, error))
    return NULL;
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, NULL, 0);
}

/**
 * ortrain_tensor_new_for_data:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @data: (array length=n_bytes): the elements
 * @n_bytes: the size of @data in bytes
 * @error: return location for an error
 *
 * Creates a tensor with a copy of the given elements.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_for_data (OrtrainDType dtype, const gint64 *dims, gsize n_dims, const guint8 *data, gsize n_bytes,
                             GError **error)
{
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (data != NULL || n_bytes == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  gint64 n_elements;
  gsize needed;
  if (!measure (dtype, dims, n_dims, &n_elements, &needed, error) ||
      !ortrain_tensor_check_n_bytes (dtype, dims, n_dims, needed, n_bytes, error))
    return NULL;
  OrtrainStorage *storage = ortrain_storage_new_uninitialized (n_bytes, 256, error);
  if (storage == NULL)
    return NULL;
  if (n_bytes > 0)
    memcpy (storage->address, data, n_bytes);
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0);
}

/**
 * ortrain_tensor_new_for_bytes:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @bytes: the elements
 * @error: return location for an error
 *
 * Creates a tensor from bytes. They are not copied, unless they are not aligned to the size of an element. The tensor
 * is not writable.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_for_bytes (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GBytes *bytes, GError **error)
{
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (bytes != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  gint64 n_elements;
  gsize needed, n_bytes;
  const guint8 *data = g_bytes_get_data (bytes, &n_bytes);
  if (!measure (dtype, dims, n_dims, &n_elements, &needed, error) ||
      !ortrain_tensor_check_n_bytes (dtype, dims, n_dims, needed, n_bytes, error))
    return NULL;
  if ((gsize) data % alignment_of (dtype) != 0)
    {
      /* a copy of a small one takes less memory than a later aligned copy would */
      OrtrainStorage *storage = n_bytes <= MAX_COPIED_BYTES ? ortrain_storage_new_copy (data, n_bytes, error)
                                                            : ortrain_storage_new_aligned (bytes, 256, error);
      return storage != NULL ? ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0) : NULL;
    }
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, ortrain_storage_new_for_bytes (bytes), 0);
}

/**
 * ortrain_tensor_new_for_address:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @address: the address of the first element
 * @writable: whether the elements may be changed
 * @owner: (nullable): the object that keeps the memory alive, or %NULL if it lives forever
 * @error: return location for an error
 *
 * Creates a tensor for somebody else's memory, without a copy. The memory must be row-major; its size cannot be
 * checked. A copy of @owner is kept as long as the memory is in use; it may be dropped on any thread.
 *
 * Memory that is not aligned to the size of an element is copied; the copy is not writable, whatever @writable says.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_for_address (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gsize address, gboolean writable,
                                const GValue *owner, GError **error)
{
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  gint64 n_elements;
  gsize n_bytes;
  if (!measure (dtype, dims, n_dims, &n_elements, &n_bytes, error))
    return NULL;
  if (address == 0 && n_bytes > 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID, "A tensor cannot be at address 0");
      return NULL;
    }
  if (n_bytes > 0 && address % alignment_of (dtype) != 0)
    {
      /* read-only: who writes into it would look for it at the address */
      OrtrainTensor *copy = ortrain_tensor_new_for_data (dtype, dims, n_dims, (const guint8 *) address, n_bytes, error);
      if (copy != NULL)
        copy->storage->writable = FALSE;
      return copy;
    }
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes,
                              ortrain_storage_new_for_address (address, n_bytes, writable, owner), 0);
}

/**
 * ortrain_tensor_new_for_storage:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @storage: the memory
 * @byte_offset: the offset of the first element in @storage, in bytes, a multiple of the size of an element
 * @error: return location for an error
 *
 * Creates a tensor in a part of a storage.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_for_storage (OrtrainDType dtype, const gint64 *dims, gsize n_dims, OrtrainStorage *storage,
                                gsize byte_offset, GError **error)
{
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (ORTRAIN_IS_STORAGE (storage), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  gint64 n_elements;
  gsize n_bytes, end;
  if (!measure (dtype, dims, n_dims, &n_elements, &n_bytes, error))
    return NULL;
  if (storage->memory == NULL)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED, "The storage was released");
      return NULL;
    }
  if (!ortrain_checked_add (byte_offset, n_bytes, &end) || end > storage->n_bytes)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "A tensor %s%s at offset %" G_GSIZE_FORMAT " exceeds the storage of %" G_GSIZE_FORMAT " bytes",
                   ortrain_dtype_get_name (dtype), shape, byte_offset, storage->n_bytes);
      return NULL;
    }
  if (n_bytes > 0 && ((gsize) storage->address + byte_offset) % alignment_of (dtype) != 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
                   "Offset %" G_GSIZE_FORMAT " is not aligned to %" G_GSIZE_FORMAT " bytes, which %s needs",
                   byte_offset, alignment_of (dtype), ortrain_dtype_get_name (dtype));
      return NULL;
    }
  return ortrain_tensor_take (dtype, dims, n_dims, n_elements, n_bytes, g_object_ref (storage), byte_offset);
}

/**
 * ortrain_tensor_new_scalar:
 * @value: the number
 *
 * Creates a float32 tensor of rank 0.
 *
 * Returns: (transfer full): the tensor
 */
OrtrainTensor *
ortrain_tensor_new_scalar (double value)
{
  float f = (float) value;
  return ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, NULL, 0, (const guint8 *) &f, sizeof f, NULL);
}

/**
 * ortrain_tensor_new_floats:
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @values: (array length=n_values): the elements
 * @n_values: the number of elements
 * @error: return location for an error
 *
 * Creates a float32 tensor. For a handful of numbers: languages other than C convert them one by one.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_floats (const gint64 *dims, gsize n_dims, const float *values, gsize n_values, GError **error)
{
  return ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, n_dims, (const guint8 *) values,
                                      n_values * sizeof (float), error);
}

/**
 * ortrain_tensor_new_ints:
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @values: (array length=n_values): the elements
 * @n_values: the number of elements
 * @error: return location for an error
 *
 * Creates an int64 tensor. For a handful of numbers: languages other than C convert them one by one.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_ints (const gint64 *dims, gsize n_dims, const gint64 *values, gsize n_values, GError **error)
{
  return ortrain_tensor_new_for_data (ORTRAIN_DTYPE_INT64, dims, n_dims, (const guint8 *) values,
                                      n_values * sizeof (gint64), error);
}

/**
 * ortrain_tensor_new_mapped:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @file: the file
 * @offset: the offset of the first element in the file, in bytes
 * @error: return location for an error
 *
 * Creates a tensor from a part of a file, which is mapped, not read. The elements are little-endian and row-major. The
 * tensor is not writable. Elements that are not aligned to their size are copied, and files that are not local are read
 * as a whole.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError], a [error@GLib.FileError] or, for files that
 *   are not local, a [error@Gio.IOErrorEnum]
 */
OrtrainTensor *
ortrain_tensor_new_mapped (OrtrainDType dtype, const gint64 *dims, gsize n_dims, GFile *file, guint64 offset,
                           GError **error)
{
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  gint64 n_elements;
  gsize n_bytes;
  if (!measure (dtype, dims, n_dims, &n_elements, &n_bytes, error))
    return NULL;
  const char *path = g_file_peek_path (file);
  g_autoptr (GBytes) bytes =
      path != NULL ? ortrain_mapped_file_open (path, error) : g_file_load_bytes (file, NULL, NULL, error);
  if (bytes == NULL)
    return NULL;
  gsize size = g_bytes_get_size (bytes);
  if (offset > size || n_bytes > size - offset)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_autofree char *name = g_file_get_parse_name (file);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "%s: a tensor %s%s at offset %" G_GUINT64_FORMAT " exceeds the file of %" G_GSIZE_FORMAT " bytes",
                   ortrain_text_show (name), ortrain_dtype_get_name (dtype), shape, offset, size);
      return NULL;
    }
  g_autoptr (GBytes) slice = g_bytes_new_from_bytes (bytes, (gsize) offset, n_bytes);
  return ortrain_tensor_new_for_bytes (dtype, dims, n_dims, slice, error);
}
