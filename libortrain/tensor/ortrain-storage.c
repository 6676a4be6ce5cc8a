/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-storage-private.h"

#include "core/ortrain-available-memory-private.h"
#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"

#include <stdlib.h>
#include <string.h>

/**
 * OrtrainStorage:
 *
 * A block of memory that tensors share, see [property@Tensor:storage].
 *
 * Memory is large, and garbage collectors notice late that an object is unused: [method@Storage.release] frees it at
 * once. `GBytes` and DLPack tensors of the same memory keep it alive until they are freed themselves.
 *
 * The memory is the host's, or that of a device, which the host may be unable to read: then there is no address, and
 * tensors in it are copied with [method@Tensor.to_host].
 *
 * ```python
 * storage = Ortrain.Storage.new(24)
 * ints = Ortrain.Tensor.new_for_storage(Ortrain.DType.INT64, [3], storage, 0)
 * floats = Ortrain.Tensor.new_for_storage(Ortrain.DType.FLOAT64, [3], storage, 0)
 * floats.numpy()[:] = 1
 * print(ints.numpy())         # the bits of 1.0
 * storage.release()           # both tensors are released with it
 * ```
 *
 * Any thread may use a storage; writing, and releasing, while another thread reads is up to the caller to prevent.
 */

typedef enum
{
  MEMORY_MAPPING,
  MEMORY_HEAP,
  MEMORY_SMALL,
  MEMORY_FOREIGN,
  MEMORY_DEVICE,
} MemoryKind;

struct _OrtrainMemory
{
  gatomicrefcount ref_count;
  MemoryKind kind;
  gpointer data; /* its address; for foreign memory, the argument of destroy */
  union
  {
    gsize size;             /* of a mapping, and of a device's memory */
    GDestroyNotify destroy; /* of foreign memory; or NULL */
  } v;
  OrtrainTensorDevice *device; /* whose memory it is; or NULL */
};

/* From here on memory comes from mmap: fresh pages are zero, and go back to the system when freed. */
#define MAPPING_THRESHOLD ((gsize) 1 << 20)
#define MAPPING_ALIGNMENT 4096
/* Up to here a tensor is as small as the objects around it, and is allocated as those are, without a check: a graph's
 * own numbers (axes, shapes, scalars) are created by functions that return no error. */
#define SMALL ((gsize) 512)

G_DEFINE_FINAL_TYPE (OrtrainStorage, ortrain_storage, G_TYPE_OBJECT)

enum
{
  PROP_N_BYTES = 1,
  PROP_WRITABLE,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

/* Tensors without elements point here. */
static _Alignas(256) guint8 nothing[256];

static OrtrainMemory *
memory_new (void)
{
  OrtrainMemory *memory = g_new0 (OrtrainMemory, 1);
  g_atomic_ref_count_init (&memory->ref_count);
  return memory;
}

OrtrainMemory *
ortrain_memory_ref (OrtrainMemory *memory)
{
  g_atomic_ref_count_inc (&memory->ref_count);
  return memory;
}

void
ortrain_memory_unref (gpointer data)
{
  OrtrainMemory *memory = data;
  if (!g_atomic_ref_count_dec (&memory->ref_count))
    return;
  switch (memory->kind)
    {
    case MEMORY_MAPPING:
      ortrain_unmap_memory (memory->data, memory->v.size);
      break;
    case MEMORY_HEAP:
      free (memory->data);
      break;
    case MEMORY_SMALL:
      g_aligned_free (memory->data);
      break;
    case MEMORY_FOREIGN:
      if (memory->v.destroy != NULL)
        memory->v.destroy (memory->data);
      break;
    case MEMORY_DEVICE:
      ortrain_tensor_device_free (memory->device, memory->data, memory->v.size);
      break;
    }
  g_clear_pointer (&memory->device, ortrain_tensor_device_unref);
  g_free (memory);
}

gboolean
ortrain_memory_is_exclusive (OrtrainMemory *memory)
{
  return g_atomic_ref_count_compare (&memory->ref_count, 1);
}

static void
ortrain_storage_dispose (GObject *object)
{
  ortrain_storage_release (ORTRAIN_STORAGE (object));
  G_OBJECT_CLASS (ortrain_storage_parent_class)->dispose (object);
}

static void
ortrain_storage_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainStorage *self = ORTRAIN_STORAGE (object);
  switch (id)
    {
    case PROP_N_BYTES:
      g_value_set_uint64 (value, ortrain_storage_get_n_bytes (self));
      break;
    case PROP_WRITABLE:
      g_value_set_boolean (value, ortrain_storage_get_writable (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_storage_class_init (OrtrainStorageClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->dispose = ortrain_storage_dispose;
  object_class->get_property = ortrain_storage_get_property;

  /**
   * OrtrainStorage:n-bytes: (getter get_n_bytes)
   *
   * The size in bytes; 0 once released. Read-only.
   */
  properties[PROP_N_BYTES] = g_param_spec_uint64 ("n-bytes", NULL, NULL, 0, G_MAXUINT64, 0,
                                                  G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainStorage:writable: (getter get_writable)
   *
   * Whether the contents may be changed. Read-only.
   */
  properties[PROP_WRITABLE] = g_param_spec_boolean (
      "writable", NULL, NULL, FALSE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_storage_init (OrtrainStorage *self)
{
}

static OrtrainStorage *
storage_new (OrtrainMemory *memory, gpointer address, gsize n_bytes, gboolean writable)
{
  OrtrainStorage *self = g_object_new (ORTRAIN_TYPE_STORAGE, NULL);
  self->memory = memory;
  self->address = n_bytes > 0 ? address : nothing;
  self->n_bytes = n_bytes;
  self->writable = writable;
  self->device = memory->device;
  return self;
}

static OrtrainStorage *
allocate (gsize n_bytes, gsize alignment, gboolean zeroed, GError **error)
{
  g_autofree OrtrainMemory *memory = memory_new ();
  gpointer address = NULL;
  gsize rounded;
  if (n_bytes >= MAPPING_THRESHOLD)
    {
      if (ortrain_checked_align (n_bytes, MAPPING_ALIGNMENT, &rounded) && rounded <= G_MAXSSIZE)
        {
          address = ortrain_map_memory (rounded);
          memory->kind = MEMORY_MAPPING;
          memory->v.size = rounded;
        }
    }
  else if (n_bytes <= SMALL)
    {
      memory->kind = MEMORY_SMALL;
      address = g_aligned_alloc (1, MAX (n_bytes, 1), alignment);
      if (zeroed)
        memset (address, 0, MAX (n_bytes, 1));
    }
  else if (ortrain_checked_align (MAX (n_bytes, 1), alignment, &rounded))
    {
      memory->kind = MEMORY_HEAP;
      address = aligned_alloc (alignment, rounded);
      if (address != NULL && zeroed)
        memset (address, 0, rounded);
    }
  if (address == NULL)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                   "Cannot allocate %" G_GSIZE_FORMAT " bytes of memory", n_bytes);
      return NULL;
    }
  memory->data = address;
  return storage_new (g_steal_pointer (&memory), address, n_bytes, TRUE);
}

/**
 * ortrain_storage_new:
 * @n_bytes: the size in bytes
 * @error: return location for an error
 *
 * Allocates zeroed memory, aligned to 64 bytes at least.
 *
 * Returns: (transfer full): the storage; %NULL with %ORTRAIN_TENSOR_ERROR_NO_MEMORY
 */
OrtrainStorage *
ortrain_storage_new (gsize n_bytes, GError **error)
{
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  return allocate (n_bytes, 64, TRUE, error);
}

OrtrainStorage *
ortrain_storage_new_uninitialized (gsize n_bytes, gsize alignment, GError **error)
{
  return allocate (n_bytes, alignment, FALSE, error);
}

OrtrainStorage *
ortrain_storage_new_aligned (GBytes *bytes, gsize alignment, GError **error)
{
  OrtrainStorage *self = allocate (g_bytes_get_size (bytes), alignment, FALSE, error);
  if (self == NULL)
    return NULL;
  self->writable = FALSE;
  self->source = g_bytes_ref (bytes);
  self->file = ortrain_mapped_file_find (g_bytes_get_data (bytes, NULL));
  self->pending = TRUE;
  return self;
}

OrtrainStorage *
ortrain_storage_new_copy (gconstpointer data, gsize n_bytes, GError **error)
{
  OrtrainStorage *self = allocate (n_bytes, 16, FALSE, error);
  if (self == NULL)
    return NULL;
  if (n_bytes > 0)
    memcpy (self->address, data, n_bytes);
  self->writable = FALSE;
  return self;
}

void
ortrain_storage_settle (OrtrainStorage *self)
{
  static GMutex lock;
  if (!g_atomic_int_get (&self->pending))
    return;
  g_mutex_lock (&lock);
  if (self->pending && self->memory != NULL)
    {
      gsize n_bytes;
      gconstpointer data = g_bytes_get_data (self->source, &n_bytes);
      if (n_bytes > 0)
        memcpy (self->address, data, n_bytes);
    }
  g_atomic_int_set (&self->pending, FALSE);
  g_mutex_unlock (&lock);
}

OrtrainStorage *
ortrain_storage_new_on_device (OrtrainTensorDevice *device, gsize n_bytes, GError **error)
{
  gpointer address = ortrain_tensor_device_allocate (device, n_bytes, error);
  if (address == NULL)
    return NULL;
  OrtrainMemory *memory = memory_new ();
  memory->kind = MEMORY_DEVICE;
  memory->data = address;
  memory->v.size = n_bytes;
  memory->device = ortrain_tensor_device_ref (device);
  return storage_new (memory, address, n_bytes, TRUE);
}

OrtrainStorage *
ortrain_storage_new_foreign (OrtrainTensorDevice *device, gpointer address, gsize n_bytes, gboolean writable,
                             GDestroyNotify destroy, gpointer data)
{
  OrtrainMemory *memory = memory_new ();
  memory->device = device != NULL ? ortrain_tensor_device_ref (device) : NULL;
  memory->kind = MEMORY_FOREIGN;
  memory->v.destroy = destroy;
  memory->data = data;
  OrtrainStorage *self = storage_new (memory, address, n_bytes, writable);
  self->file = device == NULL && n_bytes > 0 ? ortrain_mapped_file_find (address) : NULL;
  return self;
}

/**
 * ortrain_storage_new_for_bytes:
 * @bytes: the bytes
 *
 * Creates a storage from bytes, without copying them. It is not writable.
 *
 * Returns: (transfer full): the storage
 */
OrtrainStorage *
ortrain_storage_new_for_bytes (GBytes *bytes)
{
  g_return_val_if_fail (bytes != NULL, NULL);
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (bytes, &n_bytes);
  return ortrain_storage_new_foreign (NULL, (gpointer) data, n_bytes, FALSE, (GDestroyNotify) g_bytes_unref,
                                      g_bytes_ref (bytes));
}

static void
owner_free (gpointer data)
{
  GValue *owner = data;
  g_value_unset (owner);
  g_free (owner);
}

/**
 * ortrain_storage_new_for_address:
 * @address: the address of the first byte
 * @n_bytes: the size in bytes
 * @writable: whether the bytes may be changed
 * @owner: (nullable): the object that keeps the memory alive, or %NULL if it lives forever
 *
 * Creates a storage for somebody else's memory, without copying it. A copy of @owner is kept until the memory is no
 * longer used; it may be dropped on any thread.
 *
 * Returns: (transfer full): the storage
 */
OrtrainStorage *
ortrain_storage_new_for_address (gsize address, gsize n_bytes, gboolean writable, const GValue *owner)
{
  g_return_val_if_fail (address != 0 || n_bytes == 0, NULL);
  GValue *copy = NULL;
  if (owner != NULL && G_IS_VALUE (owner))
    {
      copy = g_new0 (GValue, 1);
      g_value_init (copy, G_VALUE_TYPE (owner));
      g_value_copy (owner, copy);
    }
  return ortrain_storage_new_foreign (NULL, (gpointer) address, n_bytes, writable, copy != NULL ? owner_free : NULL,
                                      copy);
}

/**
 * ortrain_storage_get_address:
 * @self: a storage
 *
 * Gets the address of the first byte, which is valid as long as @self is kept and not released.
 *
 * Returns: the address; 0 once released, and for memory of a device that the host cannot read
 */
gsize
ortrain_storage_get_address (OrtrainStorage *self)
{
  g_return_val_if_fail (ORTRAIN_IS_STORAGE (self), 0);
  ortrain_storage_settle (self);
  return ortrain_storage_reads_host (self) ? (gsize) self->address : 0;
}

/**
 * ortrain_storage_get_n_bytes: (get-property n-bytes)
 * @self: a storage
 *
 * Gets the size in bytes; 0 once released.
 *
 * Returns: the size in bytes; 0 once released
 */
gsize
ortrain_storage_get_n_bytes (OrtrainStorage *self)
{
  g_return_val_if_fail (ORTRAIN_IS_STORAGE (self), 0);
  return self->n_bytes;
}

/**
 * ortrain_storage_get_writable: (get-property writable)
 * @self: a storage
 *
 * Gets whether the contents may be changed.
 *
 * Returns: %TRUE if they may
 */
gboolean
ortrain_storage_get_writable (OrtrainStorage *self)
{
  g_return_val_if_fail (ORTRAIN_IS_STORAGE (self), FALSE);
  return self->writable;
}

/**
 * ortrain_storage_release:
 * @self: a storage
 *
 * Frees the memory now. Tensors in it are released with it; `GBytes` and DLPack tensors of the same memory stay valid,
 * and keep it until they are freed. Plain addresses become invalid. A second call does nothing.
 */
void
ortrain_storage_release (OrtrainStorage *self)
{
  g_return_if_fail (ORTRAIN_IS_STORAGE (self));
  if (self->memory == NULL)
    return;
  OrtrainMemory *memory = g_steal_pointer (&self->memory);
  g_clear_pointer (&self->source, g_bytes_unref);
  self->pending = FALSE;
  self->file = NULL;
  self->address = NULL;
  self->n_bytes = 0;
  self->writable = FALSE;
  self->device = NULL;
  ortrain_memory_unref (memory);
}

GBytes *
ortrain_storage_dup_bytes (OrtrainStorage *self, gsize offset, gsize n_bytes)
{
  ortrain_storage_settle (self);
  return g_bytes_new_with_free_func ((const guint8 *) self->address + offset, n_bytes, ortrain_memory_unref,
                                     ortrain_memory_ref (self->memory));
}
