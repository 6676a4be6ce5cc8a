/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-worker-private.h"
#include "runtime/ortrain-executor-private.h"
#include "runtime/ortrain-parameter-store-private.h"
#include "session/ortrain-session-lock-private.h"
#include "session/ortrain-signal-queue-private.h"
#include "session/ortrain-training-session-calls-private.h"
#include "training-graph/ortrain-training-graph-private.h"

#include <math.h>

/* The graphs that a session runs, in the order of OrtrainTrainingGraph. */
typedef enum
{
  ORTRAIN_TRAINING_RUN_TRAIN,
  ORTRAIN_TRAINING_RUN_EVALUATE,
  ORTRAIN_TRAINING_RUN_EVALUATE_LOSS,
  ORTRAIN_N_TRAINING_RUNS,
} OrtrainTrainingRun;

struct _OrtrainTrainingSession
{
  GObject parent_instance;

  OrtrainModel *model;
  OrtrainTrainingOptions *options;
  OrtrainTrainingGraph *graph; /* NULL: not created by a constructor, or disposed of */
  OrtrainUpdateRule rule;
  OrtrainParameterStore *store;
  OrtrainDeviceContext *device_context;
  OrtrainPlanContext *plan_context; /* of all graphs and plans */
  OrtrainStepArena *arena;
  OrtrainInputStaging *input_staging; /* NULL: the device reads the host's memory */
  OrtrainStepQueue *queue;
  gboolean failed_update; /* the last error is that of an update, whose training step was right */
  OrtrainExecutor *executors[ORTRAIN_N_TRAINING_RUNS];
  OrtrainExecutor *last_trained; /* the one of the last training step, which may be kept for its update alone */
  gboolean undeclared;           /* `graph` is one without the file's declarations */
  GPtrArray *old_graphs;         /* of OrtrainTrainingGraph: earlier ones, which others may hold */
  OrtrainSignalQueue *signal_queue;
  OrtrainWorker *worker; /* for asynchronous calls and the trainer: whoever gives it a task holds the claim */

  OrtrainSessionLock session_lock; /* the claim */
  gboolean in_step;                /* only reading is allowed to handlers then */

  /* State that any thread may read while a call runs, written under the lock by the call that holds the claim (which
   * alone may read it without the lock). Objects returned from it are kept until the end, as getters give no
   * reference. */
  GMutex lock;
  GPtrArray *handed_out; /* of OrtrainMemoryPlan */
  GHashTable *metadata;  /* of others, kept in checkpoints: name → text */
  GHashTable *texts;     /* that were handed out */

  guint64 n_updates; /* optimizer steps so far */
  guint64 n_train_steps;
  guint n_accumulated; /* training steps since the last update */
  gboolean has_gradients;
  guint64 seed;
  double last_gradient_norm;
  double loss_scale;     /* 1 where the loss is not scaled */
  double gradient_scale; /* of the gradients that are kept */
  guint64 n_overflows;   /* updates that were left out as the scaled gradients were not finite */
  guint64 n_skipped;     /* updates that were left out by this session, also for gradients that are clipped */
  gint64 broken_at_once; /* the first parameter that the backward pass left with numbers that are not finite */
  double last_loss;
  double step_weight;              /* of the last step */
  double weight_unit, weight_sum;  /* of the steps since the last update: of the first that counts, and of all */
  double *each_loss, *each_weight; /* of the last evaluation, for each loss */
  gint64 failed_item;              /* the row of the batch that made the last step fail, -1: none did */
  OrtrainMemoryPlan *plan;         /* of the last training step */
  OrtrainMemoryPlan *last_plan;    /* of that, or of a later call of plan () */

  guint64 max_allocated, max_cached, max_inactive; /* for reports */
  guint64 input_bytes;
};

/* Stores values that others read without the claim. */
void ortrain_training_session_note_scaler (OrtrainTrainingSession *self, const OrtrainScalerState *state);
/* One for each run over the graphs, [ORTRAIN_N_TRAINING_RUNS]; on an error all are NULL. */
gboolean ortrain_training_session_make_executors (OrtrainTrainingSession *self, OrtrainTrainingGraph *graph,
                                                  OrtrainExecutor **executors, GError **error);
void ortrain_training_session_free_executors (OrtrainExecutor **executors);
/* ---- steps that were submitted ---- */

/* Waits for all, for a caller who cannot fail: the error is that of the next call. */
void ortrain_training_session_store_pending_error (OrtrainTrainingSession *self);
/* Waits for submitted steps, on the thread that submitted them and if no other call is running. Used by getters: they
 * must not block calls of other threads. */
void ortrain_training_session_try_wait_pending (OrtrainTrainingSession *self);
/* A step in the next slot of the queue, which begins with the present state of the session. */
OrtrainQueuedStep *ortrain_training_session_queue_step (OrtrainTrainingSession *self, OrtrainStepParts parts);
/* Its final state, and its result. */
void ortrain_training_session_end_step (OrtrainTrainingSession *self, OrtrainQueuedStep *step, gboolean ok);
/* Give a step that has begun to the device, and do not wait; on an error it has ended. */
gboolean ortrain_training_session_submit_step (OrtrainTrainingSession *self, OrtrainQueuedStep *step,
                                               GCancellable *cancellable, GError **error);
gboolean ortrain_training_session_can_submit_update (OrtrainTrainingSession *self);
gboolean ortrain_training_session_submit_update (OrtrainTrainingSession *self, OrtrainQueuedStep *step, double factor,
                                                 GError **error);
/* Whether steps of these parts may be submitted as one, as far as can be said before they have a plan. */
gboolean ortrain_training_session_can_submit_steps (OrtrainTrainingSession *self, OrtrainStepParts parts);

/* ---- how much steps count ---- */

/* Sets step_weight. weights: of each loss, or NULL. */
gboolean ortrain_training_session_weigh (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, double *weights,
                                         GError **error);
/* For the step that is about to be run, after it was weighed. */
gboolean ortrain_training_session_write_weight (OrtrainTrainingSession *self, GError **error);
/* A step was run, whose gradients wait for an update. */
void ortrain_training_session_count_step (OrtrainTrainingSession *self);
/* The factor by which an update multiplies the sum of the gradients. */
double ortrain_training_session_get_mean_factor (OrtrainTrainingSession *self);

/* ---- steps ---- */

/* Checks and binds the inputs of a training step, which is BEGUN then; NULL on error. parts: the requested parts; the
 * step has an update only where the device can be given both as one. */
OrtrainQueuedStep *ortrain_training_session_begin_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                        OrtrainStepParts parts, GError **error);
/* Submits a step that has begun, or runs it and waits. */
gboolean ortrain_training_session_run_begun (OrtrainTrainingSession *self, OrtrainQueuedStep *step,
                                             GCancellable *cancellable, GError **error);
/* Runs a training step phase by phase. feeds: are bound. */
gboolean ortrain_training_session_run_bound (OrtrainTrainingSession *self, OrtrainQueuedStep *step,
                                             OrtrainTensorDict *feeds, GCancellable *cancellable, GError **error);
/* Runs an update and waits. factor: of the schedule. */
gboolean ortrain_training_session_run_update (OrtrainTrainingSession *self, OrtrainQueuedStep *step, double factor,
                                              GError **error);
/* Binds the inputs of a step that the device could not do, and runs its parts. */
gboolean ortrain_training_session_repeat (OrtrainTrainingSession *self, OrtrainQueuedStep *step,
                                          OrtrainTensorDict *inputs, GError **error);
/* Numbers that are not finite, as errors. */
gboolean ortrain_training_session_refuse_gradients (OrtrainTrainingSession *self, double norm, GError **error);
gboolean ortrain_training_session_refuse_parameters (OrtrainTrainingSession *self, guint broken, GError **error);
gboolean ortrain_training_session_is_overflow_expected (const OrtrainTrainingSession *self, double gradient_scale);
/* Finds or creates the plan for these feeds, and binds them. */
gboolean ortrain_training_session_bind_feeds (OrtrainTrainingSession *self, OrtrainTrainingRun run,
                                              OrtrainTensorDict *feeds, GError **error);
/* The size of the batch, 0 when no input has a first dimension that may vary. */
gint64 ortrain_training_session_find_batch (OrtrainTrainingSession *self, OrtrainTensorDict *feeds);
/* The plan of a batch of that size within a budget; any: that there is one is all that matters. family: as
 * ortrain_executor_plan () takes it. */
OrtrainMemoryPlan *ortrain_training_session_try_batch (OrtrainTrainingSession *self, OrtrainTensorDict *feeds,
                                                       gint64 batch, guint64 budget, gboolean any, gboolean offloads,
                                                       OrtrainPlanChoiceMemo *family, GError **error);
/* Appends to an error of a budget that is too small which options would help, and how much. */
void ortrain_training_session_explain_budget (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, GError *error);
/* Finds or creates the plan for these feeds, and binds them; if that fails, the error names labels that are out of
 * range first. */
gboolean ortrain_training_session_bind_checked (OrtrainTrainingSession *self, OrtrainTrainingRun run,
                                                OrtrainGraph *graph, OrtrainTensorDict *feeds, GError **error);
/* How the session's graphs are run. */
OrtrainExecutorConfig ortrain_training_session_get_config (OrtrainTrainingSession *self);
/* The scalars of a training step, also when it runs again. */
static inline OrtrainStepBlock
ortrain_training_session_make_step (OrtrainTrainingSession *self)
{
  return (OrtrainStepBlock){ .seed = self->seed, .step = (guint32) self->n_train_steps };
}

/* One of all that are not a number. */
static inline double
ortrain_training_session_normalize (double value)
{
  return isnan (value) ? NAN : value;
}

/* The factor of the schedule, for an update after `step` others. */
gboolean ortrain_training_session_get_factor (OrtrainTrainingSession *self, guint64 step, double *factor,
                                              GError **error);
