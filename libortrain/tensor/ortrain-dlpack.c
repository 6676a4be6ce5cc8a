/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "tensor/ortrain-storage-private.h"

#include <string.h>

/* The structures of DLPack, as its stable ABI has them (the unversioned form, which everybody speaks). */
#define DEVICE_CPU 1

/* DLPack's numbers of a tensor's device; type 0: it has none. */
static void
get_device (OrtrainTensor *self, gint32 *type, gint32 *id)
{
  const OrtrainTensorDevice *device = ortrain_tensor_peek_device (self);
  *type = device != NULL ? device->type : DEVICE_CPU;
  *id = device != NULL ? device->id : 0;
}

typedef struct
{
  gpointer data;
  gint32 device_type;
  gint32 device_id;
  gint32 n_dims;
  guint8 dtype_code;
  guint8 dtype_bits;
  guint16 dtype_lanes;
  gint64 *dims;
  gint64 *strides; /* in elements; NULL: row-major */
  guint64 byte_offset;
} ForeignTensor;

typedef struct _ManagedTensor ManagedTensor;

struct _ManagedTensor
{
  ForeignTensor tensor;
  gpointer context;
  void (*deleter) (ManagedTensor *self);
};

G_STATIC_ASSERT (sizeof (gpointer) != 8 || (sizeof (ForeignTensor) == 48 && sizeof (ManagedTensor) == 64));

static void
managed_free (gpointer data)
{
  ManagedTensor *managed = data;
  if (managed->deleter != NULL)
    managed->deleter (managed);
}

static gboolean
is_row_major (const ForeignTensor *t)
{
  gint64 expected = 1;
  for (gint32 i = t->n_dims; t->strides != NULL && i-- > 0;)
    {
      if (t->dims[i] != 1 && t->strides[i] != expected)
        return FALSE;
      expected *= t->dims[i];
    }
  return TRUE;
}

static OrtrainTensor *
copy_strided (OrtrainDType dtype, const ForeignTensor *t, const guint8 *data, GError **error)
{
  OrtrainTensor *copy = ortrain_tensor_new_uninitialized (dtype, t->dims, (gsize) t->n_dims, error);
  if (copy == NULL)
    return NULL;
  guint8 *destination = ortrain_tensor_peek_writable (copy);
  gsize size = ortrain_dtype_get_size (dtype);
  gint64 index[ORTRAIN_MAX_RANK] = { 0 }, source = 0, n = ortrain_tensor_get_n_elements (copy);
  if (is_row_major (t))
    {
      memcpy (destination, data, (gsize) n * size);
      return copy;
    }
  for (gint64 i = 0; i < n; i++, destination += size)
    {
      memcpy (destination, data + source * (gint64) size, size);
      for (gint32 k = t->n_dims; k-- > 0;)
        {
          source += t->strides[k];
          if (++index[k] < t->dims[k])
            break;
          source -= t->strides[k] * t->dims[k];
          index[k] = 0;
        }
    }
  return copy;
}

/**
 * ortrain_tensor_new_from_dlpack:
 * @managed: a `DLManagedTensor *`
 * @error: return location for an error
 *
 * Creates a tensor from a foreign one, without a copy where the elements are row-major and aligned. On success the
 * foreign tensor belongs to the new one, and its deleter is called when the memory is no longer used, on whatever
 * thread that happens. On error it stays the caller's.
 *
 * The memory is the host's, or that of a device that is open: a session runs on it, or a tensor is there
 * ([method@Tensor.to_device]). Elements on a device are never copied: they have to be row-major. This waits for work
 * that was submitted to the default stream of the device (with CUDA: the legacy default stream) before. A producer that
 * computes on other streams has to make that one wait for them first, as it does when it is asked for a DLPack tensor
 * for stream 1; see [method@Tensor.synchronize] for later writes.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError]
 */
OrtrainTensor *
ortrain_tensor_new_from_dlpack (gpointer managed, GError **error)
{
  g_return_val_if_fail (managed != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  ManagedTensor *foreign = managed;
  const ForeignTensor *t = &foreign->tensor;
  g_autoptr (OrtrainTensorDevice) device = NULL;
  if (t->device_type != DEVICE_CPU &&
      (device = ortrain_tensor_device_find_dlpack (t->device_type, t->device_id)) == NULL)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE,
                   "The DLPack tensor is on device type %d, number %d, and no such device is open: create a session on "
                   "it first, or copy the tensor to the host",
                   t->device_type, t->device_id);
      return NULL;
    }
  OrtrainDType dtype =
      t->dtype_lanes == 1 ? ortrain_dtype_from_dlpack (t->dtype_code, t->dtype_bits) : ORTRAIN_DTYPE_UNDEFINED;
  if (dtype == ORTRAIN_DTYPE_UNDEFINED)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE,
                   "The DLPack tensor has elements of type code %u with %u bits and %u lanes, which is not supported",
                   t->dtype_code, t->dtype_bits, t->dtype_lanes);
      return NULL;
    }
  gint64 n_elements;
  gsize n_bytes;
  if (t->n_dims < 0 || t->n_dims > ORTRAIN_MAX_RANK || (t->n_dims > 0 && t->dims == NULL) ||
      !ortrain_checked_n_elements (t->dims, (gsize) t->n_dims, &n_elements) ||
      !ortrain_checked_mul ((gsize) n_elements, ortrain_dtype_get_size (dtype), &n_bytes) ||
      (t->data == NULL && n_bytes > 0))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "The DLPack tensor of rank %d has an invalid shape", t->n_dims);
      return NULL;
    }

  const guint8 *data = (const guint8 *) t->data + t->byte_offset;
  if (device != NULL && n_bytes > 0 && !ortrain_tensor_device_has_address (device, data))
    {
      g_set_error (
          error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE,
          "The DLPack tensor is said to be on the device '%s', and its memory is not there: it is that of another "
          "device",
          device->name);
      return NULL;
    }
  gsize alignment = MIN (ortrain_dtype_get_size (dtype), 8);
  const gboolean fits = n_bytes == 0 || (is_row_major (t) && (gsize) data % alignment == 0);
  if (!fits && device != NULL && !device->reads_host)
    {
      g_set_error (
          error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
          "The DLPack tensor on the device '%s' is not row-major and aligned: copy it there first (contiguous)",
          device->name);
      return NULL;
    }
  if (device != NULL && !ortrain_tensor_device_await_others (device, error))
    return NULL;
  if (!fits)
    {
      OrtrainTensor *copy = copy_strided (dtype, t, data, error);
      if (copy != NULL)
        managed_free (foreign);
      return copy;
    }
  g_autoptr (OrtrainStorage) storage =
      ortrain_storage_new_foreign (device, (gpointer) data, n_bytes, TRUE, managed_free, foreign);
  return ortrain_tensor_new_for_storage (dtype, t->dims, (gsize) t->n_dims, storage, 0, error);
}

/**
 * ortrain_tensor_synchronize:
 * @self: a tensor
 * @error: return location for an error
 *
 * Waits until everything has run that other libraries submitted to the default stream of the tensor's device (of CUDA:
 * the legacy default stream). The streams of sessions are not ordered after that stream by themselves, so call this
 * after another library wrote into memory that it shares with a tensor, and before the next step reads it. It is not
 * needed after [ctor@Tensor.new_from_dlpack], which waits itself, nor for results of sessions, which are there when
 * they are handed out. For a tensor on the host it does nothing.
 *
 * ```python
 * tensor = Ortrain.Tensor(np.zeros((2, 3), np.float32))
 * tensor.numpy()[:] = 1     # on a GPU, this may be a kernel of another library, such as one of PyTorch's
 * tensor.synchronize()
 * ```
 *
 * Returns: %TRUE, or %FALSE with an error of [error@TensorError] (the tensor was released) or [error@DeviceError]
 */
gboolean
ortrain_tensor_synchronize (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (!ortrain_tensor_check_released (self, error))
    return FALSE;
  OrtrainTensorDevice *device = ortrain_tensor_peek_device (self);
  return device == NULL || ortrain_tensor_device_await_others (device, error);
}

static void
export_deleter (ManagedTensor *managed)
{
  ortrain_memory_unref (managed->context);
  g_free (managed->tensor.dims);
  g_free (managed);
}

/**
 * ortrain_tensor_to_dlpack:
 * @self: a tensor
 * @error: return location for an error
 *
 * Creates a `DLManagedTensor *` of the tensor, without a copy. It keeps the memory, and belongs to the caller, who
 * hands it on or calls its deleter. It says on which device the memory is. The structure has no way to say that memory
 * is read-only, so read-only tensors give an error: copy them first.
 *
 * Returns: (transfer full) (nullable): the address of the structure; %NULL with an [error@TensorError]
 */
gpointer
ortrain_tensor_to_dlpack (OrtrainTensor *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (!ortrain_tensor_check_released (self, error))
    return NULL;
  gint32 device_type, device_id;
  get_device (self, &device_type, &device_id);
  if (device_type == 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE,
                   "DLPack has no name for the device '%s': copy the tensor to the host (to_host)",
                   ortrain_tensor_get_device (self));
      return NULL;
    }
  if (!ortrain_tensor_get_writable (self))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
                   "A read-only tensor cannot be exported by DLPack; copy it first");
      return NULL;
    }
  guint8 code, bits;
  if (!ortrain_dtype_to_dlpack (ortrain_tensor_get_dtype (self), &code, &bits))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE, "DLPack has no type for %s",
                   ortrain_dtype_get_name (ortrain_tensor_get_dtype (self)));
      return NULL;
    }
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (self, &rank);
  /* Shape and strides in one block; strides are always given, as some readers want them. */
  gint64 *shape = g_new (gint64, 2 * MAX (rank, 1)), stride = 1;
  for (gsize i = rank; i-- > 0;)
    {
      shape[i] = dims[i];
      shape[rank + i] = stride;
      stride *= dims[i];
    }
  ManagedTensor *managed = g_new0 (ManagedTensor, 1);
  managed->tensor = (ForeignTensor){ .data = ortrain_tensor_peek_device_address (self),
                                     .device_type = device_type,
                                     .device_id = device_id,
                                     .n_dims = (gint32) rank,
                                     .dtype_code = code,
                                     .dtype_bits = bits,
                                     .dtype_lanes = 1,
                                     .dims = shape,
                                     .strides = shape + rank };
  managed->context = ortrain_memory_ref (ortrain_tensor_get_storage (self)->memory);
  managed->deleter = export_deleter;
  return managed;
}

/**
 * ortrain_tensor_get_dlpack_device:
 * @self: a tensor
 * @type: (out): return location for the `DLDeviceType`
 * @id: (out): return location for the number of the device among those of its type
 *
 * DLPack's numbers of the tensor's device: 1 and 0 for the host.
 *
 * Returns: %TRUE, or %FALSE if it has no name for the device, or the tensor was released
 */
gboolean
ortrain_tensor_get_dlpack_device (OrtrainTensor *self, gint *type, gint *id)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (type != NULL && id != NULL, FALSE);
  *type = *id = 0;
  if (ortrain_tensor_check_released (self, NULL))
    get_device (self, type, id);
  return *type != 0;
}
