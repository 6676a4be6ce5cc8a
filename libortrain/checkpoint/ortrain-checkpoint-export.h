/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "checkpoint/ortrain-checkpoint.h"
#include "onnx/ortrain-model-limits.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_export (OrtrainCheckpoint *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_export_with_limits (OrtrainCheckpoint *self, const char *path, OrtrainModelLimits *limits,
                                                GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_checkpoint_export_async (OrtrainCheckpoint *self, const char *path, GCancellable *cancellable,
                                      GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_export_finish (OrtrainCheckpoint *self, GAsyncResult *result, GError **error);

G_END_DECLS
