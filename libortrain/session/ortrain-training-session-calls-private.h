/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-worker-private.h"
#include "session/ortrain-step-queue-private.h"
#include "session/ortrain-training-session.h"
#include "training-graph/ortrain-training-graph-private.h"

/* Calls of other rooms on a training session, in addition to its public methods. Callers hold the claim, and open no
 * field, which only ortrain-training-session-private.h declares. */

/* Claims. enter fails with BUSY when another thread, or a step of this one, is using the session; and with
 * NOT_INITIALIZED. `reading` is allowed to handlers in the middle of a step. Every enter that succeeded needs a leave.
 */
gboolean ortrain_training_session_enter (OrtrainTrainingSession *self, gboolean reading, GError **error);
void ortrain_training_session_leave (OrtrainTrainingSession *self);
/* The same for calls that may run after submitted steps; all others first wait for the outcome of those. */
gboolean ortrain_training_session_enter_step (OrtrainTrainingSession *self, GError **error);
/* For work that goes on in another thread: the claim is taken here, adopted there by the thread that works. */
gboolean ortrain_training_session_claim (OrtrainTrainingSession *self, GError **error);
void ortrain_training_session_adopt (OrtrainTrainingSession *self);

/* Takes the memory for parameters, gradients, state and buffers, unless that has been done. Before contents are needed.
 */
gboolean ortrain_training_session_take_memory (OrtrainTrainingSession *self, GError **error);
/* For a caller who runs the steps and reads no gradients: makes updates immediate where the options leave that open and
 * nothing stands against it, which is noted otherwise. */
void ortrain_training_session_decide_updates (OrtrainTrainingSession *self);

/* ---- calls ---- */

/* The same as the public functions, for callers that hold the claim. */
gboolean ortrain_training_session_run_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                  GCancellable *cancellable, double *loss, GError **error);
gboolean ortrain_training_session_run_optimizer_step (OrtrainTrainingSession *self, GError **error);
OrtrainTensorDict *ortrain_training_session_run_eval_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                           GCancellable *cancellable, GError **error);
gboolean ortrain_training_session_run_check_finite (OrtrainTrainingSession *self, GError **error);
gboolean ortrain_training_session_run_export (OrtrainTrainingSession *self, const char *path, GError **error);
gboolean ortrain_training_session_run_save_checkpoint (OrtrainTrainingSession *self, const char *path,
                                                       GCancellable *cancellable, GError **error);
/* metadata: of the checkpoint, "a{ss}" or NULL. The last check before anything is changed; NULL: none. */
typedef gboolean (*OrtrainMetadataCheck) (GVariant *metadata, gpointer data, GError **error);
gboolean ortrain_training_session_run_load_checkpoint (OrtrainTrainingSession *self, const char *path,
                                                       OrtrainMetadataCheck check, gpointer data, GError **error);
gboolean ortrain_training_session_run_train_and_update (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                        GCancellable *cancellable, GError **error);

/* Transfer full. */
OrtrainMemoryPlan *ortrain_training_session_run_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                      GError **error);
/* Where the gradients of the last training step, or the loss of an evaluation, became non-finite: the step is run again
 * with the same feeds. Needs the claim. NULL: not found. */
char *ortrain_training_session_explain_gradients (OrtrainTrainingSession *self, OrtrainTensorDict *inputs);
char *ortrain_training_session_explain_evaluation (OrtrainTrainingSession *self, OrtrainTensorDict *inputs);

/* ---- steps ---- */

/* Waits until at most n steps are still pending. FALSE with the error of the first that failed: it and the later ones
 * have had no effect, except where its documentation says so. */
gboolean ortrain_training_session_wait_pending (OrtrainTrainingSession *self, guint n, GError **error);
guint ortrain_training_session_get_n_submitted (OrtrainTrainingSession *self);
/* The result of a step, for as long as no other has its slot; NULL: not known yet, or not any more. */
const OrtrainStepResult *ortrain_training_session_peek_result (OrtrainTrainingSession *self, guint64 number);
/* The step that began last; and the one whose error was returned last, 0: an error before it had begun. */
guint64 ortrain_training_session_get_last_step (OrtrainTrainingSession *self);
guint64 ortrain_training_session_get_failed_step (OrtrainTrainingSession *self);
/* Whether that error is one of the update, whose training step was right. */
gboolean ortrain_training_session_has_failed_in_update (OrtrainTrainingSession *self);
/* The row of the batch that made the last step or evaluation fail; -1: none is known. */
gint64 ortrain_training_session_get_failed_item (OrtrainTrainingSession *self);
/* Whether an update may turn out to have been left out, as the norm of the gradients was not finite. */
gboolean ortrain_training_session_may_skip_updates (OrtrainTrainingSession *self);
/* Whether a training step may be submitted with its update and without a wait, as far as can be said before it has a
 * plan. */
gboolean ortrain_training_session_can_submit_whole (OrtrainTrainingSession *self);

/* ---- where it is ---- */

/* Without a wait: with the updates that are under way. */
guint64 ortrain_training_session_peek_n_updates (OrtrainTrainingSession *self);
/* Updates that were left out, as gradients were not finite. */
guint64 ortrain_training_session_peek_n_skipped (OrtrainTrainingSession *self);
/* The plan of the last training step; NULL before the first one. */
OrtrainMemoryPlan *ortrain_training_session_peek_plan (OrtrainTrainingSession *self);
/* The learning rate of an update after so many others. */
double ortrain_training_session_get_learning_rate_after (OrtrainTrainingSession *self, guint64 n_updates);
const OrtrainLossScaling *ortrain_training_session_peek_loss_scaling (OrtrainTrainingSession *self);
/* For each loss: its sum over the counted elements of the last evaluation is value * weight; factor: its share in the
 * sum of losses. */
typedef struct
{
  double value, weight, factor;
} OrtrainEvaluatedLoss;
guint ortrain_training_session_get_n_losses (OrtrainTrainingSession *self);
OrtrainEvaluatedLoss ortrain_training_session_get_evaluated_loss (OrtrainTrainingSession *self, guint i);
/* Whether evaluations have each loss on its own; otherwise the first one is that of the whole model. */
gboolean ortrain_training_session_has_each_loss (OrtrainTrainingSession *self);

/* ---- properties ---- */

const char *ortrain_training_session_get_device_name (OrtrainTrainingSession *self);
guint64 ortrain_training_session_get_parameter_bytes (OrtrainTrainingSession *self);
/* The numbers in buffers, such as running statistics, which steps change and no update does. */
guint64 ortrain_training_session_get_n_buffer_elements (OrtrainTrainingSession *self);
/* Whether the model takes batches of one size only: its targets, which follow from its outputs, or else its inputs,
 * begin with a number. */
gboolean ortrain_training_session_has_fixed_batch (OrtrainTrainingSession *self);
/* Whether a parameter or buffer of that name has the type and shape of the tensor. */
gboolean ortrain_training_session_fits (OrtrainTrainingSession *self, const char *name, OrtrainTensor *tensor);
/* Gives parameters and buffers these contents. */
gboolean ortrain_training_session_restore (OrtrainTrainingSession *self, OrtrainTensorDict *state, GError **error);
/* Runs func on the session's own thread, and passes the claim to it. */
gboolean ortrain_training_session_start_task (OrtrainTrainingSession *self, GTask *task, GTaskThreadFunc func,
                                              GError **error);
