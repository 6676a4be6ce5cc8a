/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "graph/ortrain-graph.h"
#include "model/ortrain-parameter-pair.h"
#include "onnx/ortrain-model-limits.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MODEL (ortrain_model_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainModel, ortrain_model, ORTRAIN, MODEL, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_model_new_from_file (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_model_new_from_file_with_limits (const char *path, OrtrainModelLimits *limits, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_new_from_file_async (const char *path, GCancellable *cancellable, GAsyncReadyCallback callback,
                                        gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_model_new_from_file_finish (GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_model_new_from_bytes (GBytes *bytes, const char *base_dir, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_model_new_from_bytes_with_limits (GBytes *bytes, const char *base_dir, OrtrainModelLimits *limits,
                                                        GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_model_new_from_graph (OrtrainGraph *graph, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_model_get_path (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_model_get_ir_version (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_model_get_opset (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_model_get_opset_version (OrtrainModel *self, const char *domain);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_model_get_domains (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_model_get_producer_name (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_model_get_producer_version (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_model_get_model_version (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_model_get_doc_string (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_model_get_name (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_model_get_n_nodes (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_get_n_parameters (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_get_n_bytes (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_model_get_metadata_keys (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_model_get_metadata (OrtrainModel *self, const char *key);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_model_get_notes (OrtrainModel *self);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraph *ortrain_model_get_file_graph (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraph *ortrain_model_get_graph (OrtrainModel *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_model_find_equal_parameters (OrtrainModel *self);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_model_save (OrtrainModel *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_save_async (OrtrainModel *self, const char *path, GCancellable *cancellable,
                               GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_model_save_finish (OrtrainModel *self, GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
GBytes *ortrain_model_to_bytes (OrtrainModel *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_model_to_string (OrtrainModel *self);

G_END_DECLS
