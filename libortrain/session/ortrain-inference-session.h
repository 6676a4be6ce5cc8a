/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "arena/ortrain-arena-statistics.h"
#include "model/ortrain-model.h"
#include "options/ortrain-session-options.h"
#include "plan/ortrain-memory-plan.h"
#include "session/ortrain-io-binding.h"
#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_INFERENCE_SESSION (ortrain_inference_session_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainInferenceSession, ortrain_inference_session, ORTRAIN, INFERENCE_SESSION, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainInferenceSession *ortrain_inference_session_new (OrtrainModel *model, OrtrainSessionOptions *options,
                                                        GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_inference_session_new_async (OrtrainModel *model, OrtrainSessionOptions *options,
                                          GCancellable *cancellable, GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainInferenceSession *ortrain_inference_session_new_finish (GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_inference_session_run (OrtrainInferenceSession *self, OrtrainTensorDict *feeds,
                                                  GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_inference_session_run_async (OrtrainInferenceSession *self, OrtrainTensorDict *feeds,
                                          GCancellable *cancellable, GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_inference_session_run_finish (OrtrainInferenceSession *self, GAsyncResult *result,
                                                         GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainIoBinding *ortrain_inference_session_bind (OrtrainInferenceSession *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_inference_session_run_with_binding (OrtrainInferenceSession *self, OrtrainIoBinding *binding,
                                                     GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_inference_session_make_model (OrtrainInferenceSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_inference_session_get_model (OrtrainInferenceSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainArenaStatistics *ortrain_inference_session_get_arena_statistics (OrtrainInferenceSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryPlan *ortrain_inference_session_get_memory_plan (OrtrainInferenceSession *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_inference_session_get_input_names (OrtrainInferenceSession *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_inference_session_get_output_names (OrtrainInferenceSession *self);

G_END_DECLS
