/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MODEL_LIMITS (ortrain_model_limits_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainModelLimits, ortrain_model_limits, ORTRAIN, MODEL_LIMITS, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainModelLimits *ortrain_model_limits_new (void);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_limits_get_max_model_bytes (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_model_bytes (OrtrainModelLimits *self, guint64 max_model_bytes);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_limits_get_max_tensor_bytes (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_tensor_bytes (OrtrainModelLimits *self, guint64 max_tensor_bytes);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_limits_get_max_nodes (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_nodes (OrtrainModelLimits *self, guint64 max_nodes);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_limits_get_max_tensors (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_tensors (OrtrainModelLimits *self, guint64 max_tensors);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_limits_get_max_items (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_items (OrtrainModelLimits *self, guint64 max_items);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_model_limits_get_max_name_bytes (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_name_bytes (OrtrainModelLimits *self, guint64 max_name_bytes);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_model_limits_get_max_rank (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_rank (OrtrainModelLimits *self, guint max_rank);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_model_limits_get_max_depth (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_depth (OrtrainModelLimits *self, guint max_depth);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_model_limits_get_max_graph_depth (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_graph_depth (OrtrainModelLimits *self, guint max_graph_depth);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_model_limits_get_max_function_depth (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_max_function_depth (OrtrainModelLimits *self, guint max_function_depth);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_model_limits_get_allow_external_data (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_allow_external_data (OrtrainModelLimits *self, gboolean allow_external_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_model_limits_get_allow_links (OrtrainModelLimits *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_model_limits_set_allow_links (OrtrainModelLimits *self, gboolean allow_links);

G_END_DECLS
