/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "arena/ortrain-arena-statistics.h"
#include "model/ortrain-model.h"
#include "options/ortrain-training-options.h"
#include "plan/ortrain-memory-plan.h"
#include "plan/ortrain-memory-report.h"
#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TRAINING_SESSION (ortrain_training_session_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTrainingSession, ortrain_training_session, ORTRAIN, TRAINING_SESSION, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingSession *ortrain_training_session_new (OrtrainModel *model, OrtrainTrainingOptions *options,
                                                      GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_new_async (OrtrainModel *model, OrtrainTrainingOptions *options,
                                         GCancellable *cancellable, GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingSession *ortrain_training_session_new_finish (GAsyncResult *result, GError **error);

/* Steps. */
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_train_step_async (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                GCancellable *cancellable, GAsyncReadyCallback callback,
                                                gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_train_step_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_optimizer_step (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_optimizer_step_async (OrtrainTrainingSession *self, GCancellable *cancellable,
                                                    GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_optimizer_step_finish (OrtrainTrainingSession *self, GAsyncResult *result,
                                                         GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_train_and_update (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                    GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_train_and_update_async (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                      GCancellable *cancellable, GAsyncReadyCallback callback,
                                                      gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_train_and_update_finish (OrtrainTrainingSession *self, GAsyncResult *result,
                                                           GError **error);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_get_last_loss (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_get_step_weight (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_check_finite (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_zero_gradients (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_training_session_eval_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                       GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_eval_step_async (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                               GCancellable *cancellable, GAsyncReadyCallback callback,
                                               gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_training_session_eval_step_finish (OrtrainTrainingSession *self, GAsyncResult *result,
                                                              GError **error);

/* State. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_training_session_get_gradients (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_training_session_get_parameters (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_set_parameters (OrtrainTrainingSession *self, OrtrainTensorDict *parameters,
                                                  GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_training_session_get_state (OrtrainTrainingSession *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_set_state (OrtrainTrainingSession *self, OrtrainTensorDict *state, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_export (OrtrainTrainingSession *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_export_async (OrtrainTrainingSession *self, const char *path, GCancellable *cancellable,
                                            GAsyncReadyCallback callback, gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_export_finish (OrtrainTrainingSession *self, GAsyncResult *result, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_save_checkpoint (OrtrainTrainingSession *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_save_checkpoint_async (OrtrainTrainingSession *self, const char *path,
                                                     GCancellable *cancellable, GAsyncReadyCallback callback,
                                                     gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_save_checkpoint_finish (OrtrainTrainingSession *self, GAsyncResult *result,
                                                          GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_load_checkpoint (OrtrainTrainingSession *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_load_checkpoint_async (OrtrainTrainingSession *self, const char *path,
                                                     GCancellable *cancellable, GAsyncReadyCallback callback,
                                                     gpointer user_data);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_training_session_load_checkpoint_finish (OrtrainTrainingSession *self, GAsyncResult *result,
                                                          GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_training_session_set_metadata (OrtrainTrainingSession *self, const char *key, const char *value);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_training_session_get_metadata (OrtrainTrainingSession *self, const char *key);

/* Model, plans and reports. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryPlan *ortrain_training_session_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                  GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryPlan *ortrain_training_session_plan_batch (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                        gint64 batch, guint64 budget, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_training_session_max_batch (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, guint64 budget,
                                           GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_training_session_get_model (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTrainingOptions *ortrain_training_session_get_options (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraph *ortrain_training_session_get_training_graph (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_training_session_get_notes (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryPlan *ortrain_training_session_get_memory_plan (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_training_session_get_recompute_clusters (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_training_session_format_recompute_table (OrtrainTrainingSession *self, gboolean details);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_training_session_recompute_to_json (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_session_get_step (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_session_get_n_train_steps (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_get_current_learning_rate (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_get_last_gradient_norm (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_training_session_get_loss_scale (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_session_get_n_overflows (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainArenaStatistics *ortrain_training_session_get_arena_statistics (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryReport *ortrain_training_session_get_memory_report (OrtrainTrainingSession *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_training_session_get_n_parameters (OrtrainTrainingSession *self);

G_END_DECLS
