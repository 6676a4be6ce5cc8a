/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-mapped-file-private.h"
#include "tensor/ortrain-storage.h"
#include "tensor/ortrain-tensor-device-private.h"

/* A piece of memory with a count of its users: a storage is one of them, each GBytes and each DLPack tensor that was
 * handed out is another. A storage can therefore be released at any time, and those users keep valid memory. */
typedef struct _OrtrainMemory OrtrainMemory;

OrtrainMemory *ortrain_memory_ref (OrtrainMemory *memory);
void ortrain_memory_unref (gpointer memory);
gboolean ortrain_memory_is_exclusive (OrtrainMemory *memory); /* one user only */

struct _OrtrainStorage
{
  GObject parent_instance;
  OrtrainMemory *memory; /* NULL once released */
  gpointer address;      /* never NULL before the release, even for 0 bytes; of the device's memory if there is one */
  gsize n_bytes;
  GBytes *source; /* where the contents are copied from when they are needed; see below */
  gint pending;   /* whether that is still to be done */
  gboolean writable;
  OrtrainMappedFile *file;     /* that the contents are mapped from, and that the storage keeps open; or NULL */
  OrtrainTensorDevice *device; /* that the memory belongs to; NULL: the host, or released */
};

/* Whether the host may read and write at the address. */
static inline gboolean
ortrain_storage_reads_host (const OrtrainStorage *self)
{
  return self->device == NULL || self->device->reads_host;
}

OrtrainStorage *ortrain_storage_new_uninitialized (gsize n_bytes, gsize alignment, GError **error);
/* An aligned copy of bytes that is taken when the contents are first read; until then it reserves addresses, but no
 * memory. Weights lie in model files at unaligned offsets, and many are never read there. */
OrtrainStorage *ortrain_storage_new_aligned (GBytes *bytes, gsize alignment, GError **error);
/* A read-only copy, aligned as any element needs it and no more. */
OrtrainStorage *ortrain_storage_new_copy (gconstpointer data, gsize n_bytes, GError **error);
void ortrain_storage_settle (OrtrainStorage *self); /* copies; from any thread */
/* device: where the address is; NULL: the host. destroy (data) is called when the last user of the memory is gone, on
 * whatever thread that happens */
OrtrainStorage *ortrain_storage_new_foreign (OrtrainTensorDevice *device, gpointer address, gsize n_bytes,
                                             gboolean writable, GDestroyNotify destroy, gpointer data);
/* Memory of a device, zeroed. */
OrtrainStorage *ortrain_storage_new_on_device (OrtrainTensorDevice *device, gsize n_bytes, GError **error);
GBytes *ortrain_storage_dup_bytes (OrtrainStorage *self, gsize offset, gsize n_bytes); /* keeps the memory */
