/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-struct-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "ortrain-enum-types.h"
#include "tensor/ortrain-storage-private.h"

#include <string.h>

/**
 * OrtrainTensor:
 *
 * A typed array of some shape, in a [class@Storage].
 *
 * Elements are contiguous and in row-major order (the last dimension varies fastest), as in NumPy and ONNX. Type and
 * shape never change; the contents of a tensor that is [property@Tensor:writable] may. Views from
 * [method@Tensor.reshape] and [method@Tensor.slice_rows] share the storage.
 *
 * The memory may be that of another device, see [property@Tensor:device]. Sessions on that device read and write it
 * without a copy. Methods that need the elements on the host copy them ([method@Tensor.get_scalar],
 * [method@Tensor.copy], [method@Tensor.save_npy]), or fail with %ORTRAIN_TENSOR_ERROR_DEVICE:
 *
 * ```python
 * x = Ortrain.Tensor(np.zeros((2, 3), np.float32)).to_device("cpu")    # stays there from run to run
 * print(x.props.device, x.to_host().numpy())
 * ```
 *
 * A tensor may be handed from thread to thread; who writes while others read is the caller's business.
 *
 * ```python
 * array = np.arange(6, dtype=np.float32).reshape(2, 3)
 * tensor = Ortrain.Tensor(array)                     # shares the memory of the array
 * tensor.numpy()[0] = 7                              # changes the array, too
 * print(tensor, tensor.reshape([3, 2]).numpy())
 * half = tensor.cast(Ortrain.DType.FLOAT16)          # a copy
 * ```
 *
 * Data come in and go out without being copied as `GBytes`, as an address with an owner, by DLPack, and in files that
 * are mapped. Aligned memory stays where it is; [ctor@Tensor.new_for_data] and [method@Tensor.copy] copy.
 *
 * Create tensors with the `new` functions only: an object from `g_object_new()` behaves as one that was released, and
 * its methods fail with %ORTRAIN_TENSOR_ERROR_RELEASED. Memory of large tensors can be freed before the last reference
 * goes, with [method@Tensor.release].
 *
 * Any thread may use a tensor; writing while another thread reads or writes it is up to the caller to prevent.
 */
G_DEFINE_FINAL_TYPE (OrtrainTensor, ortrain_tensor, G_TYPE_OBJECT)

enum
{
  PROP_DTYPE = 1,
  PROP_RANK,
  PROP_N_ELEMENTS,
  PROP_N_BYTES,
  PROP_WRITABLE,
  PROP_STORAGE,
  PROP_DEVICE,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
is_released (OrtrainTensor *self)
{
  return self->storage == NULL || self->storage->memory == NULL;
}

static void
ortrain_tensor_dispose (GObject *object)
{
  g_clear_object (&ORTRAIN_TENSOR (object)->storage);
  G_OBJECT_CLASS (ortrain_tensor_parent_class)->dispose (object);
}

static void
ortrain_tensor_finalize (GObject *object)
{
  OrtrainTensor *self = ORTRAIN_TENSOR (object);
  if (self->dims != self->few)
    g_free (self->dims);
  G_OBJECT_CLASS (ortrain_tensor_parent_class)->finalize (object);
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
    case PROP_DEVICE:
      g_value_set_static_string (value, ortrain_tensor_get_device (self));
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
  object_class->finalize = ortrain_tensor_finalize;
  object_class->get_property = ortrain_tensor_get_property;

  /**
   * OrtrainTensor:dtype: (getter get_dtype)
   *
   * The type of the elements. Read-only.
   */
  properties[PROP_DTYPE] = g_param_spec_enum ("dtype", NULL, NULL, ORTRAIN_TYPE_DTYPE, ORTRAIN_DTYPE_UNDEFINED, flags);

  /**
   * OrtrainTensor:rank: (getter get_rank)
   *
   * The number of dimensions, at most 16; 0 for a scalar. Read-only.
   */
  properties[PROP_RANK] = g_param_spec_uint64 ("rank", NULL, NULL, 0, ORTRAIN_MAX_RANK, 0, flags);

  /**
   * OrtrainTensor:n-elements: (getter get_n_elements)
   *
   * The product of the dimensions: 1 for a scalar, 0 if a dimension is 0. Read-only.
   */
  properties[PROP_N_ELEMENTS] = g_param_spec_int64 ("n-elements", NULL, NULL, 0, G_MAXINT64, 0, flags);

  /**
   * OrtrainTensor:n-bytes: (getter get_n_bytes)
   *
   * The size of the contents, in bytes. Read-only.
   */
  properties[PROP_N_BYTES] = g_param_spec_uint64 ("n-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * OrtrainTensor:writable: (getter get_writable)
   *
   * Whether the contents may be changed. Read-only.
   */
  properties[PROP_WRITABLE] = g_param_spec_boolean ("writable", NULL, NULL, FALSE, flags);

  /**
   * OrtrainTensor:storage: (getter get_storage)
   *
   * The memory that holds the elements; %NULL once released. Read-only.
   */
  properties[PROP_STORAGE] = g_param_spec_object ("storage", NULL, NULL, ORTRAIN_TYPE_STORAGE, flags);

  /**
   * OrtrainTensor:device: (getter get_device)
   *
   * Whose memory the tensor lies in: `cpu`, or another [property@Device:name]; %NULL once released. Read-only.
   */
  properties[PROP_DEVICE] = g_param_spec_string ("device", NULL, NULL, NULL, flags);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_tensor_init (OrtrainTensor *self)
{
  self->dims = self->few;
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

/**
 * ortrain_tensor_get_dtype: (get-property dtype)
 * @self: a tensor
 *
 * Gets the type of the elements.
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
 * Gets the number of dimensions, at most 16; 0 for a scalar.
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
 * Gets the shape, outermost dimension first. The array is valid as long as @self is.
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
 * Gets one dimension of the shape.
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
 * Gets the product of the dimensions: 1 for a scalar, 0 if a dimension is 0.
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
 * Gets the size of the contents, in bytes.
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
 * Gets the address of the first element, which is valid as long as the storage is kept and not released.
 *
 * Returns: the address; 0 once released, and where the host cannot read the memory of [property@Tensor:device]
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
 * Gets whether the contents may be changed.
 *
 * Returns: %TRUE if they may
 */
gboolean
ortrain_tensor_get_writable (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  return self->storage != NULL && self->storage->writable;
}

/**
 * ortrain_tensor_get_device: (get-property device)
 * @self: a tensor
 *
 * Gets the name of the device whose memory the elements are in: `cpu` for the host. Any thread may call it.
 *
 * Returns: (nullable): the name; %NULL once the tensor is released
 */
const char *
ortrain_tensor_get_device (OrtrainTensor *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  if (is_released (self))
    return NULL;
  return self->storage->device != NULL ? self->storage->device->name : ORTRAIN_TENSOR_HOST;
}

gpointer
ortrain_tensor_peek_device_address (OrtrainTensor *self)
{
  if (is_released (self))
    return NULL;
  ortrain_storage_settle (self->storage);
  return (guint8 *) self->storage->address + self->offset;
}

OrtrainTensorDevice *
ortrain_tensor_peek_device (OrtrainTensor *self)
{
  return self->storage != NULL && !ortrain_storage_reads_host (self->storage) ? self->storage->device : NULL;
}

gconstpointer
ortrain_tensor_peek (OrtrainTensor *self)
{
  return ortrain_tensor_peek_device (self) == NULL ? ortrain_tensor_peek_device_address (self) : NULL;
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

gboolean
ortrain_tensor_check_released (OrtrainTensor *self, GError **error)
{
  if (!is_released (self))
    return TRUE;
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED, "The tensor was released");
  return FALSE;
}

gconstpointer
ortrain_tensor_peek_checked (OrtrainTensor *self, GError **error)
{
  gconstpointer data = ortrain_tensor_peek (self);
  if (data != NULL || !ortrain_tensor_check_released (self, error))
    return data;
  g_autofree char *shape = ortrain_shape_to_string (self->dims, self->rank);
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE,
               "Tensor %s%s is in the memory of the device '%s': copy it to the host (to_host)",
               ortrain_dtype_get_name (self->dtype), shape, ortrain_tensor_get_device (self));
  return NULL;
}

gboolean
ortrain_tensor_read (OrtrainTensor *self, gsize offset, gpointer destination, gsize n_bytes, GError **error)
{
  OrtrainTensorDevice *device = ortrain_tensor_peek_device (self);
  if (!ortrain_tensor_check_released (self, error))
    return FALSE;
  const guint8 *source = (const guint8 *) ortrain_tensor_peek_device_address (self) + offset;
  if (device != NULL)
    return ortrain_tensor_device_copy (device, destination, source, n_bytes, error);
  if (n_bytes > 0)
    memcpy (destination, source, n_bytes);
  return ortrain_tensor_check_file (self, error);
}

gboolean
ortrain_tensor_is_mapped (OrtrainTensor *self)
{
  return self->storage != NULL && self->storage->file != NULL;
}

gboolean
ortrain_tensor_check_file (OrtrainTensor *self, GError **error)
{
  return is_released (self) || self->storage->file == NULL || self->n_bytes == 0 ||
         ortrain_mapped_file_check (self->storage->file, error);
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

OrtrainTensor *
ortrain_tensor_snapshot (OrtrainTensor *self)
{
  if (is_released (self) || ortrain_tensor_peek_device (self) != NULL)
    return NULL;
  g_autoptr (GBytes) bytes = ortrain_storage_dup_bytes (self->storage, self->offset, self->n_bytes);
  OrtrainTensor *snapshot = ortrain_tensor_new_for_bytes (self->dtype, self->dims, self->rank, bytes, NULL);
  if (snapshot != NULL && self->storage->source != NULL)
    {
      /* an aligned copy of the file as it was then */
      snapshot->storage->source = g_bytes_ref (self->storage->source);
      snapshot->storage->file = self->storage->file;
    }
  return snapshot;
}

gint64 *
ortrain_tensor_dup_ints (OrtrainTensor *self, gsize *n)
{
  *n = 0;
  gconstpointer data = ortrain_tensor_peek (self);
  if (data == NULL || self->rank > 1 || (self->dtype != ORTRAIN_DTYPE_INT64 && self->dtype != ORTRAIN_DTYPE_INT32))
    return NULL;
  /* tensors that decide a shape are short */
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
 * The contents as bytes, without a copy. The bytes keep the memory; they change when the tensor is written to. Contents
 * that the host cannot read, as they are on another [property@Tensor:device], are copied. It fails with
 * %ORTRAIN_TENSOR_ERROR_CHANGED once the file that a tensor is mapped from was changed; bytes that were given out
 * before it was are then lost, too.
 *
 * Returns: (transfer full): the bytes, or %NULL with an [error@TensorError]
 */
GBytes *
ortrain_tensor_get_bytes (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (self, error);
  if (host == NULL)
    return NULL;
  g_autoptr (GBytes) bytes = ortrain_storage_dup_bytes (host->storage, host->offset, host->n_bytes);
  return ortrain_tensor_check_file (host, error) ? g_steal_pointer (&bytes) : NULL;
}

gboolean
ortrain_tensor_check_n_bytes (OrtrainDType dtype, const gint64 *dims, gsize n_dims, gsize needed, gsize found,
                              GError **error)
{
  if (needed == found)
    return TRUE;
  g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
               "A tensor %s%s needs %" G_GSIZE_FORMAT " bytes, but %" G_GSIZE_FORMAT " were given",
               ortrain_dtype_get_name (dtype), shape, needed, found);
  return FALSE;
}

/**
 * ortrain_tensor_set_bytes:
 * @self: a tensor
 * @bytes: the new contents, of the same size
 * @error: return location for an error
 *
 * Copies bytes into the tensor. Errors are %ORTRAIN_TENSOR_ERROR_SHAPE for another size, %ORTRAIN_TENSOR_ERROR_LAYOUT
 * for a read-only tensor, %ORTRAIN_TENSOR_ERROR_RELEASED, %ORTRAIN_TENSOR_ERROR_CHANGED for bytes of a mapped file
 * that was changed, and %ORTRAIN_TENSOR_ERROR_NO_MEMORY for the copy of such bytes that is checked first.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_tensor_set_bytes (OrtrainTensor *self, GBytes *bytes, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (bytes, &n_bytes);
  if (!ortrain_tensor_check_released (self, error) ||
      !ortrain_tensor_check_n_bytes (self->dtype, self->dims, self->rank, self->n_bytes, n_bytes, error))
    return FALSE;
  gpointer to = ortrain_tensor_peek_device_address (self);
  if (!self->storage->writable)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
                   "The tensor is read-only; write to a copy");
      return FALSE;
    }
  /* contents that may have become zeros are checked before they replace anything */
  OrtrainMappedFile *file = ortrain_mapped_file_find (data);
  g_autoptr (OrtrainTensor) read = NULL;
  if (file != NULL)
    {
      read = ortrain_tensor_new_uninitialized (self->dtype, self->dims, self->rank, error);
      if (read == NULL)
        return FALSE;
      memcpy (ortrain_tensor_peek_writable (read), data, n_bytes);
      if (!ortrain_mapped_file_check (file, error))
        return FALSE;
      data = ortrain_tensor_peek (read);
    }
  OrtrainTensorDevice *device = ortrain_tensor_peek_device (self);
  if (device != NULL)
    return ortrain_tensor_device_copy (device, to, data, n_bytes, error);
  if (n_bytes > 0)
    memmove (to, data, n_bytes);
  return TRUE;
}

/**
 * ortrain_tensor_equal:
 * @self: a tensor
 * @other: another
 *
 * Whether two tensors have the same type, shape and contents, bit for bit, on whatever devices they are. Contents that
 * cannot be read equal nothing: of a tensor that was released, and of one that is mapped from a file that was changed.
 *
 * Returns: %TRUE if they are the same
 */
gboolean
ortrain_tensor_equal (OrtrainTensor *self, OrtrainTensor *other)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (other), FALSE);
  if (self == other)
    return TRUE;
  if (is_released (self) || is_released (other) || self->dtype != other->dtype || self->rank != other->rank ||
      memcmp (self->dims, other->dims, self->rank * sizeof self->dims[0]) != 0)
    return FALSE;
  if (ortrain_tensor_peek_device_address (self) != ortrain_tensor_peek_device_address (other))
    {
      g_autoptr (OrtrainTensor) a = ortrain_tensor_to_host (self, NULL), b = ortrain_tensor_to_host (other, NULL);
      if (a == NULL || b == NULL || memcmp (ortrain_tensor_peek (a), ortrain_tensor_peek (b), self->n_bytes) != 0)
        return FALSE;
    }
  return ortrain_tensor_check_file (self, NULL) && ortrain_tensor_check_file (other, NULL);
}

/**
 * ortrain_tensor_release:
 * @self: a tensor
 *
 * Drops the reference to the storage now, without waiting for a garbage collector. The memory is freed once no other
 * tensor, and nothing that was handed out, uses it. Type and shape stay; methods that need the contents fail with
 * %ORTRAIN_TENSOR_ERROR_RELEASED. A second call does nothing.
 */
void
ortrain_tensor_release (OrtrainTensor *self)
{
  g_return_if_fail (ORTRAIN_IS_TENSOR (self));
  g_clear_object (&self->storage);
}
