/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "ortrain-enum-types.h"
#include "tensor/ortrain-file-writer-private.h"
#include "tensor/ortrain-storage-private.h"

#include <math.h>
#include <string.h>

/**
 * OrtrainTensor:
 *
 * A typed, shaped array on an [class@Storage].
 *
 * Elements are contiguous, in row-major order (the last dimension is the fastest), as NumPy and ONNX have them. Type
 * and shape never change; the contents of a tensor that is [property@Tensor:writable] may. Views made by
 * [method@Tensor.reshape] and [method@Tensor.slice_rows] share the storage.
 *
 * A tensor may be handed from thread to thread; who writes while others read is the caller's business.
 *
 * Make tensors with the `new` functions only: an object from `g_object_new` is like one that was released, and every
 * method says so.
 */

struct _OrtrainTensor
{
  GObject parent_instance;
  OrtrainStorage *storage; /* NULL once released */
  gsize offset;            /* in bytes */
  OrtrainDType dtype;
  guint rank;
  gint64 n_elements;
  gsize n_bytes;
  gint64 dims[ORTRAIN_MAX_RANK];
};

G_DEFINE_FINAL_TYPE (OrtrainTensor, ortrain_tensor, G_TYPE_OBJECT)

enum
{
  PROP_DTYPE = 1,
  PROP_RANK,
  PROP_N_ELEMENTS,
  PROP_N_BYTES,
  PROP_WRITABLE,
  PROP_STORAGE,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_tensor_dispose (GObject *object)
{
  g_clear_object (&ORTRAIN_TENSOR (object)->storage);
  G_OBJECT_CLASS (ortrain_tensor_parent_class)->dispose (object);
}

static void
ortrain_tensor_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainTensor *self = ORTRAIN_TENSOR (object);
  switch (id)
    {
    case PROP_DTYPE:
      g_value_set_enum (value, self->dtype);
      break;
    case PROP_RANK:
      g_value_set_uint64 (value, self->rank);
      break;
    case PROP_N_ELEMENTS:
      g_value_set_int64 (value, self->n_elements);
      break;
    case PROP_N_BYTES:
      g_value_set_uint64 (value, self->n_bytes);
      break;
    case PROP_WRITABLE:
      g_value_set_boolean (value, ortrain_tensor_get_writable (self));
      break;
    case PROP_STORAGE:
      g_value_set_object (value, self->storage);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_tensor_class_init (OrtrainTensorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  object_class->dispose = ortrain_tensor_dispose;
  object_class->get_property = ortrain_tensor_get_property;

  /**
   * OrtrainTensor:dtype: (getter get_dtype)
   *
   * The type of the elements.
   */
  properties[PROP_DTYPE] = g_param_spec_enum ("dtype", NULL, NULL, ORTRAIN_TYPE_DTYPE, ORTRAIN_DTYPE_UNDEFINED, flags);

  /**
   * OrtrainTensor:rank: (getter get_rank)
   *
   * The number of dimensions.
   */
  properties[PROP_RANK] = g_param_spec_uint64 ("rank", NULL, NULL, 0, ORTRAIN_MAX_RANK, 0, flags);

  /**
   * OrtrainTensor:n-elements: (getter get_n_elements)
   *
   * The number of elements.
   */
  properties[PROP_N_ELEMENTS] = g_param_spec_int64 ("n-elements", NULL, NULL, 0, G_MAXINT64, 0, flags);

  /**
   * OrtrainTensor:n-bytes: (getter get_n_bytes)
   *
   * The size of the contents in bytes.
   */
  properties[PROP_N_BYTES] = g_param_spec_uint64 ("n-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * OrtrainTensor:writable: (getter get_writable)
   *
   * Whether the contents may be changed.
   */
  properties[PROP_WRITABLE] = g_param_spec_boolean ("writable", NULL, NULL, FALSE, flags);

  /**
   * OrtrainTensor:storage: (getter get_storage)
   *
   * The memory that the tensor lies in; %NULL once released.
   */
  properties[PROP_STORAGE] = g_param_spec_object ("storage", NULL, NULL, ORTRAIN_TYPE_STORAGE, flags);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_tensor_init (OrtrainTensor *self)
{
}

char *
ortrain_shape_to_string (const gint64 *dims, gsize n_dims)
{
  GString *s = g_string_new ("[");
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (s, i == 0 ? "%" G_GINT64_FORMAT : ", %" G_GINT64_FORMAT, dims[i]);
  g_string_append_c (s, ']');
  return g_string_free (s, FALSE);
}

/* What a tensor of this type and shape takes. Everything that makes a tensor comes through here. */
static gboolean
measure (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gint64 *n_elements, gsize *n_bytes, GError **error)
{
  gsize size = ortrain_dtype_get_size (dtype);
  if (size == 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE,
                   "no tensor can have elements of type %s (%d)", ortrain_dtype_get_name (dtype), (int) dtype);
      return FALSE;
    }
  if (n_dims > ORTRAIN_MAX_RANK)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "a tensor of rank %" G_GSIZE_FORMAT " was asked for, the limit is %d", n_dims, ORTRAIN_MAX_RANK);
      return FALSE;
    }
  if (!ortrain_checked_n_elements (dims, n_dims, n_elements) ||
      !ortrain_checked_mul ((gsize) *n_elements, size, n_bytes) || *n_bytes > (gsize) G_MAXSSIZE)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "the shape %s has a negative dimension, or more elements of type %s than memory can hold", shape,
                   ortrain_dtype_get_name (dtype));
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_n_bytes (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gsize needed, gsize found, GError **error)
{
  if (needed == found)
    return TRUE;
  g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
               "a tensor %s%s takes %" G_GSIZE_FORMAT " bytes, but %" G_GSIZE_FORMAT " were given",
               ortrain_dtype_get_name (dtype), shape, needed, found);
  return FALSE;
}

/* Complex numbers are aligned like their halves. */
static gsize
alignment_of (OrtrainDType dtype)
{
  return MIN (ortrain_dtype_get_size (dtype), 8);
}

/* Takes over the storage. */
static OrtrainTensor *
tensor_take (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gint64 n_elements, gsize n_bytes,
             OrtrainStorage *storage, gsize offset)
{
  OrtrainTensor *self = g_object_new (ORTRAIN_TYPE_TENSOR, NULL);
  self->storage = storage;
  self->offset = offset;
  self->dtype = dtype;
  self->rank = (guint) n_dims;
  self->n_elements = n_elements;
  self->n_bytes = n_bytes;
  if (n_dims > 0)
    memcpy (self->dims, dims, n_dims * sizeof *dims);
  return self;
}

/**
 * ortrain_tensor_new:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape, outermost dimension first
 * @n_dims: the rank; 0 makes a scalar
 * @error: return location for an error
 *
 * Makes a tensor of zeros.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
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
  return tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0);
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
  return tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0);
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
 * Makes a tensor with a copy of the given elements.
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
      !check_n_bytes (dtype, dims, n_dims, needed, n_bytes, error))
    return NULL;
  OrtrainStorage *storage = ortrain_storage_new_uninitialized (n_bytes, 256, error);
  if (storage == NULL)
    return NULL;
  if (n_bytes > 0)
    memcpy (storage->address, data, n_bytes);
  return tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0);
}

/**
 * ortrain_tensor_new_for_bytes:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @bytes: the elements
 * @error: return location for an error
 *
 * Makes a tensor of bytes. They are not copied, unless they are not aligned to the size of an element. The tensor is
 * not writable.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
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
      !check_n_bytes (dtype, dims, n_dims, needed, n_bytes, error))
    return NULL;
  if ((gsize) data % alignment_of (dtype) != 0)
    {
      OrtrainStorage *storage = ortrain_storage_new_aligned (bytes, 256, error);
      return storage != NULL ? tensor_take (dtype, dims, n_dims, n_elements, n_bytes, storage, 0) : NULL;
    }
  return tensor_take (dtype, dims, n_dims, n_elements, n_bytes, ortrain_storage_new_for_bytes (bytes), 0);
}

/**
 * ortrain_tensor_new_for_address:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @address: the address of the first element
 * @writable: whether the elements may be changed
 * @owner: (nullable): what keeps the memory alive, or %NULL if it lives forever
 * @error: return location for an error
 *
 * Makes a tensor of memory that belongs to somebody else, without a copy. The memory must be row-major and aligned to
 * the size of an element; how large it is cannot be checked. A copy of @owner is kept as long as the memory is in use;
 * it may be dropped on any thread.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
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
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID, "no tensor can lie at address 0");
      return NULL;
    }
  if (n_bytes > 0 && address % alignment_of (dtype) != 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
                   "the address %#" G_GINT64_MODIFIER "x is not aligned to %" G_GSIZE_FORMAT " bytes, as %s wants it",
                   (guint64) address, alignment_of (dtype), ortrain_dtype_get_name (dtype));
      return NULL;
    }
  return tensor_take (dtype, dims, n_dims, n_elements, n_bytes,
                      ortrain_storage_new_for_address (address, n_bytes, writable, owner), 0);
}

/**
 * ortrain_tensor_new_for_storage:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @storage: the memory
 * @byte_offset: where in @storage the first element lies
 * @error: return location for an error
 *
 * Makes a tensor of a part of a storage.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError]
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
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED, "the storage was released");
      return NULL;
    }
  if (!ortrain_checked_add (byte_offset, n_bytes, &end) || end > storage->n_bytes)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "a tensor %s%s at offset %" G_GSIZE_FORMAT " does not fit into a storage of %" G_GSIZE_FORMAT
                   " bytes",
                   ortrain_dtype_get_name (dtype), shape, byte_offset, storage->n_bytes);
      return NULL;
    }
  if (n_bytes > 0 && ((gsize) storage->address + byte_offset) % alignment_of (dtype) != 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
                   "the offset %" G_GSIZE_FORMAT " is not aligned to %" G_GSIZE_FORMAT " bytes, as %s wants it",
                   byte_offset, alignment_of (dtype), ortrain_dtype_get_name (dtype));
      return NULL;
    }
  return tensor_take (dtype, dims, n_dims, n_elements, n_bytes, g_object_ref (storage), byte_offset);
}

/**
 * ortrain_tensor_new_scalar:
 * @value: the number
 *
 * Makes a float32 tensor of rank 0.
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
 * Makes a float32 tensor. For a handful of numbers: languages other than C convert them one by one.
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
 * Makes an int64 tensor. For a handful of numbers: languages other than C convert them one by one.
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
 * ortrain_tensor_get_dtype: (get-property dtype)
 * @self: a tensor
 *
 * The type of the elements.
 *
 * Returns: the type
 */
OrtrainDType
ortrain_tensor_get_dtype (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), ORTRAIN_DTYPE_UNDEFINED);
  return self->dtype;
}

/**
 * ortrain_tensor_get_rank: (get-property rank)
 * @self: a tensor
 *
 * The number of dimensions.
 *
 * Returns: the rank
 */
gsize
ortrain_tensor_get_rank (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), 0);
  return self->rank;
}

/**
 * ortrain_tensor_get_dims:
 * @self: a tensor
 * @n_dims: (out) (optional): return location for the rank
 *
 * The shape, outermost dimension first. It is valid as long as @self is.
 *
 * Returns: (transfer none) (array length=n_dims): the dimensions
 */
const gint64 *
ortrain_tensor_get_dims (OrtrainTensor *self, gsize *n_dims)
{
  if (n_dims != NULL)
    *n_dims = 0;
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  if (n_dims != NULL)
    *n_dims = self->rank;
  return self->dims;
}

/**
 * ortrain_tensor_get_dim:
 * @self: a tensor
 * @index: a number below the rank
 *
 * One dimension of the shape.
 *
 * Returns: the dimension
 */
gint64
ortrain_tensor_get_dim (OrtrainTensor *self, gsize index)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), 0);
  g_return_val_if_fail (index < self->rank, 0);
  return self->dims[index];
}

/**
 * ortrain_tensor_get_n_elements: (get-property n-elements)
 * @self: a tensor
 *
 * The number of elements: the product of the dimensions, 1 for rank 0.
 *
 * Returns: the number
 */
gint64
ortrain_tensor_get_n_elements (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), 0);
  return self->n_elements;
}

/**
 * ortrain_tensor_get_n_bytes: (get-property n-bytes)
 * @self: a tensor
 *
 * The size of the contents.
 *
 * Returns: the size in bytes
 */
gsize
ortrain_tensor_get_n_bytes (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), 0);
  return self->n_bytes;
}

/**
 * ortrain_tensor_get_storage: (get-property storage)
 * @self: a tensor
 *
 * The memory that the tensor lies in. Whoever hands out the address keeps a reference to it.
 *
 * Returns: (transfer none) (nullable): the storage, or %NULL once released
 */
OrtrainStorage *
ortrain_tensor_get_storage (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  return self->storage;
}

/**
 * ortrain_tensor_get_address:
 * @self: a tensor
 *
 * The address of the first element, valid as long as the storage is kept and not released.
 *
 * Returns: the address; 0 once released
 */
gsize
ortrain_tensor_get_address (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), 0);
  return (gsize) ortrain_tensor_peek (self);
}

/**
 * ortrain_tensor_get_writable: (get-property writable)
 * @self: a tensor
 *
 * Whether the contents may be changed.
 *
 * Returns: %TRUE if they may
 */
gboolean
ortrain_tensor_get_writable (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  return self->storage != NULL && self->storage->writable;
}

gconstpointer
ortrain_tensor_peek (OrtrainTensor *self)
{
  if (self->storage == NULL || self->storage->memory == NULL)
    return NULL;
  ortrain_storage_settle (self->storage);
  return (const guint8 *) self->storage->address + self->offset;
}

gconstpointer
ortrain_tensor_peek_unaligned (OrtrainTensor *self)
{
  if (self->storage == NULL || !g_atomic_int_get (&self->storage->pending))
    return ortrain_tensor_peek (self);
  return (const guint8 *) g_bytes_get_data (self->storage->source, NULL) + self->offset;
}

gpointer
ortrain_tensor_peek_writable (OrtrainTensor *self)
{
  return self->storage != NULL && self->storage->writable ? (gpointer) ortrain_tensor_peek (self) : NULL;
}

const gint64 *
ortrain_tensor_peek_dims (OrtrainTensor *self)
{
  return self->dims;
}

gconstpointer
ortrain_tensor_peek_checked (OrtrainTensor *self, GError **error)
{
  gconstpointer data = ortrain_tensor_peek (self);
  if (data == NULL)
    g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED, "the tensor was released");
  return data;
}

static gboolean
has_one_reference (gpointer object)
{
  return g_atomic_int_get ((int *) &G_OBJECT (object)->ref_count) == 1;
}

gboolean
ortrain_tensor_is_exclusive (OrtrainTensor *self)
{
  return has_one_reference (self) && self->storage != NULL && has_one_reference (self->storage) &&
         self->storage->memory != NULL && ortrain_memory_is_exclusive (self->storage->memory);
}

gint64 *
ortrain_tensor_dup_ints (OrtrainTensor *self, gsize *n)
{
  *n = 0;
  gconstpointer data = ortrain_tensor_peek (self);
  if (data == NULL || self->rank > 1 || (self->dtype != ORTRAIN_DTYPE_INT64 && self->dtype != ORTRAIN_DTYPE_INT32))
    return NULL;
  /* what decides a shape is short */
  gint64 *ints = self->n_elements <= 1024 ? g_new (gint64, MAX (self->n_elements, 1))
                                          : g_try_new (gint64, (gsize) self->n_elements);
  if (ints == NULL)
    return NULL;
  *n = (gsize) self->n_elements;
  for (gsize i = 0; i < *n; i++)
    ints[i] = self->dtype == ORTRAIN_DTYPE_INT64 ? ((const gint64 *) data)[i] : ((const gint32 *) data)[i];
  return ints;
}

/**
 * ortrain_tensor_get_bytes:
 * @self: a tensor
 * @error: return location for an error
 *
 * The contents as bytes, without a copy. The bytes keep the memory; they change when the tensor is written to.
 *
 * Returns: (transfer full): the bytes, or %NULL with %ORTRAIN_TENSOR_ERROR_RELEASED
 */
GBytes *
ortrain_tensor_get_bytes (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (ortrain_tensor_peek_checked (self, error) == NULL)
    return NULL;
  return ortrain_storage_dup_bytes (self->storage, self->offset, self->n_bytes);
}

/**
 * ortrain_tensor_set_bytes:
 * @self: a tensor
 * @bytes: the new contents, of the same size
 * @error: return location for an error
 *
 * Copies bytes into the tensor.
 *
 * Returns: %TRUE, or %FALSE with an [error@TensorError] if the size differs or the tensor is not writable
 */
gboolean
ortrain_tensor_set_bytes (OrtrainTensor *self, GBytes *bytes, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (bytes, &n_bytes);
  if (ortrain_tensor_peek_checked (self, error) == NULL ||
      !check_n_bytes (self->dtype, self->dims, self->rank, self->n_bytes, n_bytes, error))
    return FALSE;
  gpointer to = ortrain_tensor_peek_writable (self);
  if (to == NULL)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT, "the tensor is read-only; copy it first");
      return FALSE;
    }
  if (n_bytes > 0)
    memmove (to, data, n_bytes);
  return TRUE;
}

/**
 * ortrain_tensor_copy:
 * @self: a tensor
 * @error: return location for an error
 *
 * Copies a tensor into memory of its own, which is writable.
 *
 * Returns: (transfer full): the copy, or %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_copy (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  gconstpointer data = ortrain_tensor_peek_checked (self, error);
  if (data == NULL)
    return NULL;
  return ortrain_tensor_new_for_data (self->dtype, self->dims, self->rank, data, self->n_bytes, error);
}

/**
 * ortrain_tensor_reshape:
 * @self: a tensor
 * @dims: (array length=n_dims): the new shape; one dimension may be -1, and is then computed
 * @n_dims: the new rank
 * @error: return location for an error
 *
 * The same elements in another shape, on the same storage.
 *
 * Returns: (transfer full): the view, or %NULL with an [error@TensorError] if the number of elements differs
 */
OrtrainTensor *
ortrain_tensor_reshape (OrtrainTensor *self, const gint64 *dims, gsize n_dims, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (dims != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (ortrain_tensor_peek_checked (self, error) == NULL)
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
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE, "shape %s cannot be made %s", from, to);
      return NULL;
    }
  return tensor_take (self->dtype, new_dims, n_dims, n_elements, self->n_bytes, g_object_ref (self->storage),
                      self->offset);
}

/**
 * ortrain_tensor_slice_rows:
 * @self: a tensor of rank 1 or more
 * @begin: the first row
 * @end: one past the last row
 * @error: return location for an error
 *
 * A part of a tensor along its first dimension, on the same storage.
 *
 * Returns: (transfer full): the view, or %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_slice_rows (OrtrainTensor *self, gint64 begin, gint64 end, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (ortrain_tensor_peek_checked (self, error) == NULL)
    return NULL;
  if (self->rank == 0 || begin < 0 || begin > end || end > self->dims[0])
    {
      g_autofree char *shape = ortrain_shape_to_string (self->dims, self->rank);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "a tensor of shape %s has no rows %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, shape, begin, end);
      return NULL;
    }
  gint64 dims[ORTRAIN_MAX_RANK];
  memcpy (dims, self->dims, sizeof dims);
  gint64 row_elements = self->dims[0] > 0 ? self->n_elements / self->dims[0] : 0;
  gsize row_bytes = (gsize) row_elements * ortrain_dtype_get_size (self->dtype);
  dims[0] = end - begin;
  return tensor_take (self->dtype, dims, self->rank, row_elements * dims[0], row_bytes * (gsize) dims[0],
                      g_object_ref (self->storage), self->offset + row_bytes * (gsize) begin);
}

/**
 * ortrain_tensor_equal:
 * @self: a tensor
 * @other: another
 *
 * Whether two tensors have the same type, shape and contents, bit for bit.
 *
 * Returns: %TRUE if they have
 */
gboolean
ortrain_tensor_equal (OrtrainTensor *self, OrtrainTensor *other)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (other), FALSE);
  if (self == other)
    return TRUE;
  gconstpointer a = ortrain_tensor_peek (self), b = ortrain_tensor_peek (other);
  return a != NULL && b != NULL && self->dtype == other->dtype && self->rank == other->rank &&
         memcmp (self->dims, other->dims, self->rank * sizeof self->dims[0]) == 0 &&
         (a == b || memcmp (a, b, self->n_bytes) == 0);
}

/**
 * ortrain_tensor_release:
 * @self: a tensor
 *
 * Lets go of the memory now, without waiting for a garbage collector. The memory is free once no other tensor, and
 * nothing that was handed out, uses it. Type and shape stay; what needs the contents gives
 * %ORTRAIN_TENSOR_ERROR_RELEASED. A second call does nothing.
 */
void
ortrain_tensor_release (OrtrainTensor *self)
{
  g_return_if_fail (ORTRAIN_IS_TENSOR (self));
  g_clear_object (&self->storage);
}

/**
 * ortrain_tensor_to_string:
 * @self: a tensor
 *
 * A short line for people: type, shape and the first elements.
 *
 * Returns: (transfer full): for instance `float32[2, 3] 1 2 3 4 5 6`
 */
char *
ortrain_tensor_to_string (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_autofree char *shape = ortrain_shape_to_string (self->dims, self->rank);
  GString *s = g_string_new (ortrain_dtype_get_name (self->dtype));
  g_string_append (s, shape);
  const char *data = ortrain_tensor_peek (self);
  if (data == NULL)
    g_string_append (s, " (released)");
  gboolean complex = self->dtype == ORTRAIN_DTYPE_COMPLEX64 || self->dtype == ORTRAIN_DTYPE_COMPLEX128;
  gint64 shown = self->n_elements <= 8 ? self->n_elements : 6;
  for (gint64 i = 0; data != NULL && !complex && i < shown; i++)
    {
      g_string_append_c (s, ' ');
      if (self->dtype == ORTRAIN_DTYPE_INT64)
        g_string_append_printf (s, "%" G_GINT64_FORMAT, ((const gint64 *) data)[i]);
      else if (self->dtype == ORTRAIN_DTYPE_UINT64)
        g_string_append_printf (s, "%" G_GUINT64_FORMAT, ((const guint64 *) data)[i]);
      else if (self->dtype == ORTRAIN_DTYPE_BOOL)
        g_string_append (s, data[i] ? "true" : "false");
      else
        {
          char number[G_ASCII_DTOSTR_BUF_SIZE];
          double x = ortrain_tensor_get_scalar (self, i);
          const char *format = ortrain_dtype_is_integer (self->dtype) ? "%.0f" : "%.6g";
          g_string_append (s, g_ascii_formatd (number, sizeof number, format, x));
        }
    }
  if (data != NULL && !complex && shown < self->n_elements)
    g_string_append (s, " …");
  return g_string_free (s, FALSE);
}

/**
 * ortrain_tensor_new_mapped:
 * @dtype: the type of the elements
 * @dims: (array length=n_dims): the shape
 * @n_dims: the rank
 * @file: the file
 * @offset: where in the file the first element lies, in bytes
 * @error: return location for an error
 *
 * Makes a tensor of a part of a file, which is mapped, not read. The elements are little-endian and row-major. The
 * tensor is not writable. Only what does not lie aligned to the size of an element is copied, and files that are not
 * local are read whole.
 *
 * Returns: (transfer full): the tensor, or %NULL with an [error@TensorError] or a file error
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
      path != NULL ? ortrain_file_map (path, error) : g_file_load_bytes (file, NULL, NULL, error);
  if (bytes == NULL)
    return NULL;
  gsize size = g_bytes_get_size (bytes);
  if (offset > size || n_bytes > size - offset)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_autofree char *name = g_file_get_parse_name (file);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "%s: a tensor %s%s at offset %" G_GUINT64_FORMAT " does not fit into %" G_GSIZE_FORMAT " bytes",
                   name, ortrain_dtype_get_name (dtype), shape, offset, size);
      return NULL;
    }
  g_autoptr (GBytes) slice = g_bytes_new_from_bytes (bytes, (gsize) offset, n_bytes);
  return ortrain_tensor_new_for_bytes (dtype, dims, n_dims, slice, error);
}
