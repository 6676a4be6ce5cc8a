/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"

#include <gio/gio.h>

/* A device whose memory tensors lie in, as tensors see it: copies, and whether the host may read the addresses. There
 * is at most one of each name in a process, so that two tensors are on the same device if the pointers are equal.
 * Reference counted; may be used from any thread. */
typedef struct _OrtrainTensorDevice OrtrainTensorDevice;

#define ORTRAIN_TENSOR_HOST "cpu" /* the host's name for users */

typedef struct
{
  gpointer (*allocate) (gpointer data, gsize n_bytes, GError **error); /* zeroed */
  void (*free) (gpointer data, gpointer address, gsize n_bytes);
  /* From and to the host, or within the device; the bytes are there when it returns. */
  gboolean (*copy) (gpointer data, gpointer destination, gconstpointer source, gsize n_bytes, GError **error);
  /* Waits for the work that other libraries have submitted to the default stream of the device. NULL: the device has no
   * such stream. */
  gboolean (*await_others) (gpointer data, GError **error);
  /* Whether an address is in the memory of the device. NULL: it cannot be told. */
  gboolean (*has_address) (gpointer data, gconstpointer address);
  void (*destroy) (gpointer data);
} OrtrainTensorDeviceFuncs;

struct _OrtrainTensorDevice
{
  gatomicrefcount ref_count;
  const char *name;    /* its name for users; interned */
  gboolean reads_host; /* the host reads and writes its memory at the same addresses */
  gint32 type, id;     /* of DLPack; type 0: it has none */
  const OrtrainTensorDeviceFuncs *funcs;
  gpointer data;
  GMutex mutex; /* held by each call of funcs */
};

/* An open device; NULL: no such device is open. Transfer full. */
OrtrainTensorDevice *ortrain_tensor_device_find (const char *name);
OrtrainTensorDevice *ortrain_tensor_device_find_dlpack (gint32 type, gint32 id);
/* Transfer full: one of the same name that is open already, or else a copy of description, which then owns its data. */
OrtrainTensorDevice *ortrain_tensor_device_open (const OrtrainTensorDevice *description);
OrtrainTensorDevice *ortrain_tensor_device_ref (OrtrainTensorDevice *self);
void ortrain_tensor_device_unref (OrtrainTensorDevice *self);

gpointer ortrain_tensor_device_allocate (OrtrainTensorDevice *self, gsize n_bytes, GError **error);
void ortrain_tensor_device_free (OrtrainTensorDevice *self, gpointer address, gsize n_bytes);
gboolean ortrain_tensor_device_copy (OrtrainTensorDevice *self, gpointer destination, gconstpointer source,
                                     gsize n_bytes, GError **error);
gboolean ortrain_tensor_device_await_others (OrtrainTensorDevice *self, GError **error);
/* TRUE where it cannot be told. */
gboolean ortrain_tensor_device_has_address (OrtrainTensorDevice *self, gconstpointer address);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainTensorDevice, ortrain_tensor_device_unref)
