/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-storage.h"

/* A piece of memory with a count of its users: a storage is one of them, each GBytes and each DLPack tensor that was
 * handed out is another. A storage can therefore be released at any time, and what was handed out stays valid. */
typedef struct _OrtrainMemory OrtrainMemory;

OrtrainMemory *ortrain_memory_ref (OrtrainMemory *memory);
void ortrain_memory_unref (gpointer memory);
gboolean ortrain_memory_is_exclusive (OrtrainMemory *memory); /* one user only */

struct _OrtrainStorage
{
  GObject parent_instance;
  OrtrainMemory *memory; /* NULL once released */
  gpointer address;      /* never NULL before the release, even for 0 bytes */
  gsize n_bytes;
  gboolean writable;
};

OrtrainStorage *ortrain_storage_new_uninitialized (gsize n_bytes, gsize alignment, GError **error);
/* destroy (data) is called when the last user of the memory is gone, on whatever thread that happens */
OrtrainStorage *ortrain_storage_new_foreign (gpointer address, gsize n_bytes, gboolean writable, GDestroyNotify destroy,
                                             gpointer data);
GBytes *ortrain_storage_dup_bytes (OrtrainStorage *self, gsize offset, gsize n_bytes); /* keeps the memory */
