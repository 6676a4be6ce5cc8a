/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_CHECKPOINT (ortrain_checkpoint_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainCheckpoint, ortrain_checkpoint, ORTRAIN, CHECKPOINT, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainCheckpoint *ortrain_checkpoint_new (void);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainCheckpoint *ortrain_checkpoint_load (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_load_async (const char *path, GCancellable *cancellable, GAsyncReadyCallback callback,
                                    gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainCheckpoint *ortrain_checkpoint_load_finish (GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_exists (const char *path);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_find (const char *path, gboolean *found, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_save (OrtrainCheckpoint *self, const char *path, GCancellable *cancellable, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_save_async (OrtrainCheckpoint *self, const char *path, GCancellable *cancellable,
                                    GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_save_finish (OrtrainCheckpoint *self, GAsyncResult *result, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_set_tensors (OrtrainCheckpoint *self, const char *section, OrtrainTensorDict *tensors);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_checkpoint_get_tensors (OrtrainCheckpoint *self, const char *section);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_checkpoint_get_sections (OrtrainCheckpoint *self);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_set_file (OrtrainCheckpoint *self, const char *name, GBytes *contents);
ORTRAIN_AVAILABLE_IN_ALL
GBytes *ortrain_checkpoint_get_file (OrtrainCheckpoint *self, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_checkpoint_get_files (OrtrainCheckpoint *self);

ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_set_value (OrtrainCheckpoint *self, const char *key, GVariant *value);
ORTRAIN_AVAILABLE_IN_ALL
GVariant *ortrain_checkpoint_get_value (OrtrainCheckpoint *self, const char *key);
ORTRAIN_AVAILABLE_IN_ALL
GVariant *ortrain_checkpoint_get_metadata (OrtrainCheckpoint *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_set_metadata (OrtrainCheckpoint *self, GVariant *metadata);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_checkpoint_get_max_shard_bytes (OrtrainCheckpoint *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_set_max_shard_bytes (OrtrainCheckpoint *self, guint64 max_shard_bytes);

G_END_DECLS
