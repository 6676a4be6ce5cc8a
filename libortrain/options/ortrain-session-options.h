/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "options/ortrain-precision.h"
#include "provider/ortrain-conv-algo-search.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_SESSION_OPTIONS (ortrain_session_options_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainSessionOptions, ortrain_session_options, ORTRAIN, SESSION_OPTIONS, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainSessionOptions *ortrain_session_options_new (void);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainSessionOptions *ortrain_session_options_new_from_file (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_session_options_load_file (OrtrainSessionOptions *self, const char *path, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_session_options_get_threads (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_threads (OrtrainSessionOptions *self, guint threads);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_session_options_get_seed (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_seed (OrtrainSessionOptions *self, guint64 seed);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_session_options_get_deterministic (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_deterministic (OrtrainSessionOptions *self, gboolean deterministic);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_session_options_get_optimize (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_optimize (OrtrainSessionOptions *self, gboolean optimize);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_session_options_get_print_memory (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_print_memory (OrtrainSessionOptions *self, gboolean print_memory);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_session_options_get_provider (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_provider (OrtrainSessionOptions *self, const char *provider);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_session_options_get_max_plans (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_max_plans (OrtrainSessionOptions *self, guint max_plans);
ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_session_options_get_outputs (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_outputs (OrtrainSessionOptions *self, const char *const *outputs);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainPrecision ortrain_session_options_get_precision (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_precision (OrtrainSessionOptions *self, OrtrainPrecision precision);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_session_options_get_device_memory_limit (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_session_options_get_memory_budget (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_device_memory_limit (OrtrainSessionOptions *self, guint64 device_memory_limit);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_memory_budget (OrtrainSessionOptions *self, guint64 memory_budget);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_session_options_get_memory_pattern (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_memory_pattern (OrtrainSessionOptions *self, gboolean memory_pattern);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_session_options_get_arena_config (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_arena_config (OrtrainSessionOptions *self, const char *arena_config);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainConvAlgoSearch ortrain_session_options_get_cudnn_conv_algo_search (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_cudnn_conv_algo_search (OrtrainSessionOptions *self,
                                                         OrtrainConvAlgoSearch cudnn_conv_algo_search);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_session_options_get_device_index (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_device_index (OrtrainSessionOptions *self, guint device_index);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_session_options_get_allow_tf32 (OrtrainSessionOptions *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_session_options_set_allow_tf32 (OrtrainSessionOptions *self, gboolean allow_tf32);

G_END_DECLS
