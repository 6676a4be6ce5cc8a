/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-struct-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "tensor/ortrain-storage-private.h"

#include <string.h>

/* Tensors from a tensor: its copy, and views that share its storage. */

/**
 * ortrain_tensor_copy:
 * @self: a tensor
 * @error: return location for an error
 *
 * Copies a tensor into memory of its own on the host, which is writable.
 *
 * Returns: (transfer full): the copy; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_copy (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (!ortrain_tensor_check_released (self, error))
    return NULL;
  OrtrainTensor *copy = ortrain_tensor_new_uninitialized (self->dtype, self->dims, self->rank, error);
  if (copy != NULL && !ortrain_tensor_read (self, 0, ortrain_tensor_peek_writable (copy), self->n_bytes, error))
    g_clear_object (&copy);
  return copy;
}

/**
 * ortrain_tensor_to_host:
 * @self: a tensor
 * @error: return location for an error
 *
 * The same elements where the host can read them: the tensor itself if it is there, else a copy, which is there when
 * this returns.
 *
 * Returns: (transfer full): the tensor or a copy of it, or %NULL with an error of [error@TensorError] or
 * [error@DeviceError]
 */
OrtrainTensor *
ortrain_tensor_to_host (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (!ortrain_tensor_check_released (self, error))
    return NULL;
  if (ortrain_tensor_peek_device (self) != NULL)
    return ortrain_tensor_copy (self, error);
  return ortrain_tensor_check_file (self, error) ? g_object_ref (self) : NULL;
}

OrtrainTensor *
ortrain_tensor_copy_to_device (OrtrainTensor *self, OrtrainTensorDevice *device, GError **error)
{
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (self, error);
  g_autoptr (OrtrainStorage) storage =
      host != NULL ? ortrain_storage_new_on_device (device, self->n_bytes, error) : NULL;
  if (storage == NULL ||
      !ortrain_tensor_device_copy (device, storage->address, ortrain_tensor_peek (host), self->n_bytes, error) ||
      !ortrain_tensor_check_file (host, error))
    return NULL;
  return ortrain_tensor_take (self->dtype, self->dims, self->rank, self->n_elements, self->n_bytes,
                              g_steal_pointer (&storage), 0);
}

/* One axis, and within it the next: returns the first byte after the output. */
static guint8 *
repeat_axis (guint8 *out, const guint8 *in, const gint64 *from, const gint64 *to, gsize n_axes, gsize size)
{
  if (n_axes == 0)
    {
      memcpy (out, in, size);
      return out + size;
    }
  gsize inner = size;
  for (gsize i = 1; i < n_axes; i++)
    inner *= (gsize) from[i];
  for (gint64 i = 0; i < to[0]; i++)
    out = repeat_axis (out, in + (gsize) (i % from[0]) * inner, from + 1, to + 1, n_axes - 1, size);
  return out;
}

OrtrainTensor *
ortrain_tensor_repeat (OrtrainTensor *self, const gint64 *dims, GError **error)
{
  g_autoptr (OrtrainTensor) source = ortrain_tensor_copy (self, error);
  g_autoptr (OrtrainTensor) result =
      source != NULL ? ortrain_tensor_new_uninitialized (self->dtype, dims, self->rank, error) : NULL;
  if (result == NULL)
    return NULL;
  if (result->n_elements > 0 && source->n_elements == 0)
    {
      g_autofree char *shape = ortrain_shape_to_string (self->dims, self->rank);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE, "%s has no element to repeat", shape);
      return NULL;
    }
  if (result->n_elements > 0)
    repeat_axis (ortrain_tensor_peek_writable (result), ortrain_tensor_peek (source), source->dims, result->dims,
                 result->rank, ortrain_dtype_get_size (result->dtype));
  return g_steal_pointer (&result);
}

/**
 * ortrain_tensor_reshape:
 * @self: a tensor
 * @dims: (array length=n_dims): the new shape; one dimension may be -1, and is then computed
 * @n_dims: the new rank
 * @error: return location for an error
 *
 * Gives the same elements another shape, in the same storage.
 *
 * Returns: (transfer full): the view; %NULL with %ORTRAIN_TENSOR_ERROR_SHAPE if the number of elements differs
 */
OrtrainTensor *
ortrain_tensor_reshape (OrtrainTensor *self, const gint64 *dims, gsize n_dims, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!ortrain_tensor_check_released (self, error))
    return NULL;
  gint64 new_dims[ORTRAIN_MAX_RANK], known = 1, n_elements;
  gsize unknown = G_MAXSIZE;
  gboolean right = n_dims <= ORTRAIN_MAX_RANK;
  for (gsize i = 0; right && i < n_dims; i++)
    {
      new_dims[i] = dims[i];
      if (dims[i] == -1 && unknown == G_MAXSIZE)
        unknown = i;
      else
        right = dims[i] >= 0 && ortrain_checked_mul_i64 (known, dims[i], &known);
    }
  if (right && unknown != G_MAXSIZE)
    {
      right = known != 0 && self->n_elements % known == 0;
      new_dims[unknown] = right ? self->n_elements / known : 0;
    }
  if (!right || !ortrain_checked_n_elements (new_dims, n_dims, &n_elements) || n_elements != self->n_elements)
    {
      g_autofree char *from = ortrain_shape_to_string (self->dims, self->rank);
      g_autofree char *to = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "Cannot reshape %s to %s: the numbers of elements differ", from, to);
      return NULL;
    }
  return ortrain_tensor_take (self->dtype, new_dims, n_dims, n_elements, self->n_bytes, g_object_ref (self->storage),
                              self->offset);
}

/**
 * ortrain_tensor_slice_rows:
 * @self: a tensor of rank 1 or more
 * @begin: the first row
 * @end: one past the last row
 * @error: return location for an error
 *
 * Gives a part of a tensor along its first dimension, in the same storage.
 *
 * Returns: (transfer full): the view; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_slice_rows (OrtrainTensor *self, gint64 begin, gint64 end, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!ortrain_tensor_check_released (self, error))
    return NULL;
  if (self->rank == 0 || begin < 0 || begin > end || end > self->dims[0])
    {
      g_autofree char *shape = ortrain_shape_to_string (self->dims, self->rank);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "Rows %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " are out of range for a tensor of shape %s", begin,
                   end, shape);
      return NULL;
    }
  gint64 dims[ORTRAIN_MAX_RANK];
  memcpy (dims, self->dims, self->rank * sizeof *dims);
  gint64 row_elements = self->dims[0] > 0 ? self->n_elements / self->dims[0] : 0;
  gsize row_bytes = (gsize) row_elements * ortrain_dtype_get_size (self->dtype);
  dims[0] = end - begin;
  return ortrain_tensor_take (self->dtype, dims, self->rank, row_elements * dims[0], row_bytes * (gsize) dims[0],
                              g_object_ref (self->storage), self->offset + row_bytes * (gsize) begin);
}
