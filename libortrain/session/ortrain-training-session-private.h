/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-worker-private.h"
#include "runtime/ortrain-executor-private.h"
#include "runtime/ortrain-parameter-store-private.h"
#include "runtime/ortrain-step-readback-private.h"
#include "session/ortrain-session-lock-private.h"
#include "session/ortrain-signal-queue-private.h"
#include "session/ortrain-training-session.h"
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

/* A step that was submitted to a device, and what it began with, to which the session goes back when it has failed. */
typedef struct
{
  gboolean is_open;    /* nobody knows yet what became of it */
  gboolean is_dropped; /* it was submitted behind one that failed at first: it has to be run */
  gboolean has_step;   /* forward and backward, too, and not an update alone */
  gboolean has_norm;
  gboolean stops;       /* stop-on-nan was set */
  gboolean is_left_out; /* there was no update: once that is known */
  guint64 n_train_steps, n_updates;
  double gradient_scale;
  double weight;            /* what the loss is the mean of */
  double loss;              /* once it is known */
  gint64 broken_at_once;    /* of an update alone: what the training step left */
  OrtrainTensorDict *feeds; /* what they were, but for the contents of those in the slot */
  guint feed_slot;
} OrtrainSubmittedStep;

struct _OrtrainTrainingSession
{
  GObject parent_instance;

  OrtrainModel *model;
  OrtrainTrainingOptions *options;
  OrtrainTrainingGraph *graph; /* NULL: not created by a constructor, or disposed of */
  OrtrainUpdateRule rule;
  OrtrainParameterStore *store;
  OrtrainDeviceContext *device_context;
  OrtrainStepArena *arena;
  OrtrainInputStaging *input_staging; /* NULL: the device reads the host's memory */
  OrtrainStepReadback *results;       /* NULL: the device runs what it is given before the host goes on */
  OrtrainSubmittedStep submitted[ORTRAIN_N_STEP_RESULTS]; /* beside the slots of the results */
  guint next_slot;
  gboolean failed_behind; /* the error is that of a step that was submitted before */
  gboolean failed_update; /* … of an update, whose training step was right */
  gboolean is_repeating;  /* a step that failed is run phase by phase, for its error */
  gboolean is_settling;   /* a handler may be running that is told what became of one */
  GThread *submitter;     /* of the last one; atomic */
  GError *outcome;        /* of a submitted step, for the next call */
  OrtrainExecutor *executors[ORTRAIN_N_TRAINING_RUNS];
  OrtrainExecutor *last_trained; /* the one of the last training step, which may be kept for its update alone */
  gboolean undeclared;           /* `graph` is one without the file's declarations */
  GPtrArray *old_graphs;         /* of OrtrainTrainingGraph: earlier ones, which others may hold */
  OrtrainSignalQueue *signal_queue;
  OrtrainWorker *worker; /* for asynchronous calls and the trainer: whoever gives it a task holds the claim */

  OrtrainSessionLock session_lock; /* the claim */
  gboolean in_step;                /* only reading is allowed to handlers then */

  /* What any thread may read while a call runs, written under the lock by the call that holds the claim (which alone
   * may read it without); and what was handed out of it, kept until the end, as getters give no reference. */
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

/* Claims. enter fails with BUSY when another thread, or a step of this one, is using the session; and with
 * NOT_INITIALIZED. `reading` is allowed to handlers in the middle of a step. Every enter that succeeded needs a leave.
 */
gboolean ortrain_training_session_enter (OrtrainTrainingSession *self, gboolean reading, GError **error);
void ortrain_training_session_leave (OrtrainTrainingSession *self);
/* The same for calls that go on behind steps that were submitted; all others know first what became of them. */
gboolean ortrain_training_session_enter_step (OrtrainTrainingSession *self, GError **error);
/* For work that goes on in another thread: the claim is taken here, adopted there by the thread that works. */
gboolean ortrain_training_session_claim (OrtrainTrainingSession *self, GError **error);
void ortrain_training_session_adopt (OrtrainTrainingSession *self);

/* Keeps what others ask for without the claim. */
void ortrain_training_session_note_scaler (OrtrainTrainingSession *self, const OrtrainScalerState *state);
/* One for each run over the graphs, [ORTRAIN_N_TRAINING_RUNS]; on an error all are NULL. */
gboolean ortrain_training_session_make_executors (OrtrainTrainingSession *self, OrtrainTrainingGraph *graph,
                                                  OrtrainExecutor **executors, GError **error);
void ortrain_training_session_free_executors (OrtrainExecutor **executors);
/* Takes the memory for parameters, gradients, state and buffers, unless that has been done. Before contents are needed. */
gboolean ortrain_training_session_take_memory (OrtrainTrainingSession *self, GError **error);
/* For a caller who runs the steps and reads no gradients: makes updates immediate where the options leave that open and
 * nothing stands against it, which is noted otherwise. */
void ortrain_training_session_decide_updates (OrtrainTrainingSession *self);

/* ---- steps that were submitted ---- */

/* Waits until at most n steps are left of which nobody knows what became of them. FALSE with the error of the first that
 * failed: it and those behind it have had no effect, but where its documentation says so. */
gboolean ortrain_training_session_wait_pending (OrtrainTrainingSession *self, guint n, GError **error);
guint ortrain_training_session_get_n_submitted (OrtrainTrainingSession *self);
/* The same for a caller who cannot fail: the error is that of the next call. */
void ortrain_training_session_store_pending_error (OrtrainTrainingSession *self);
/* Waits for what was submitted, on the thread that did so and if no other call is running: for getters, which any thread may
 * call, and which are not to keep the calls of others out. */
void ortrain_training_session_try_wait_pending (OrtrainTrainingSession *self);
/* What the calling thread submitted counts as that of another, for which it did so. */
void ortrain_training_session_set_submitter (OrtrainTrainingSession *self, GThread *thread);
/* Drops all of them. */
void ortrain_training_session_discard_pending (OrtrainTrainingSession *self);
gboolean ortrain_training_session_can_submit_update (OrtrainTrainingSession *self);
gboolean ortrain_training_session_submit_update (OrtrainTrainingSession *self, double factor, GError **error);
/* Whether an update may turn out to have been left out, as the norm of the gradients was not finite. */
gboolean ortrain_training_session_may_skip_updates (OrtrainTrainingSession *self);
/* Whether a training step with its update may be submitted as one, as far as can be said before it has a plan. */
gboolean ortrain_training_session_can_submit_steps (OrtrainTrainingSession *self);
/* ---- how much steps count ---- */

/* Sets step_weight. weights: of each loss, or NULL. */
gboolean ortrain_training_session_weigh (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, double *weights,
                                         GError **error);
/* For the step that is about to be run, after it was weighed. */
gboolean ortrain_training_session_write_weight (OrtrainTrainingSession *self, GError **error);
/* A step was run, whose gradients wait for an update. */
void ortrain_training_session_count_step (OrtrainTrainingSession *self);
/* What an update multiplies the sum of the gradients by. */
double ortrain_training_session_get_mean_factor (OrtrainTrainingSession *self);

/* Checks and binds the inputs of a training step: its feeds, transfer full. */
OrtrainTensorDict *ortrain_training_session_begin_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                        GError **error);
/* Numbers that are not finite, as errors. */
gboolean ortrain_training_session_refuse_gradients (OrtrainTrainingSession *self, double norm, GError **error);
gboolean ortrain_training_session_refuse_parameters (OrtrainTrainingSession *self, guint broken, GError **error);
gboolean ortrain_training_session_is_overflow_expected (const OrtrainTrainingSession *self, double gradient_scale);
gboolean ortrain_training_session_run_train_and_update (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                        GCancellable *cancellable, GError **error);

/* Finds or creates the plan for these feeds, and binds them. */
gboolean ortrain_training_session_bind_feeds (OrtrainTrainingSession *self, OrtrainTrainingRun run,
                                              OrtrainTensorDict *feeds, GError **error);
/* The size of the batch, 0 when no input has a first dimension that may vary. */
gint64 ortrain_training_session_find_batch (OrtrainTrainingSession *self, OrtrainTensorDict *feeds);
/* The plan of a batch of that size within a budget; any: that there is one is all that matters. */
OrtrainMemoryPlan *ortrain_training_session_try_batch (OrtrainTrainingSession *self, OrtrainTensorDict *feeds,
                                                       gint64 batch, guint64 budget, gboolean any, gboolean offloads,
                                                       GError **error);
/* Appends to an error of a budget that is too small what would help, and how much. */
void ortrain_training_session_explain_budget (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, GError *error);
/* Finds or creates the plan for these feeds, and binds them; where that fails, labels that are out of range are named first. */
gboolean ortrain_training_session_bind_checked (OrtrainTrainingSession *self, OrtrainTrainingRun run,
                                                OrtrainGraph *graph, OrtrainTensorDict *feeds, GError **error);
/* Transfer full. */
OrtrainMemoryPlan *ortrain_training_session_run_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                      GError **error);
/* How the session's graphs are run. */
OrtrainExecutorConfig ortrain_training_session_get_config (OrtrainTrainingSession *self);
/* Where the gradients of the last training step, or the loss of an evaluation, became non-finite: the step is run again
 * with the same feeds. Needs the claim. NULL: not found. */
char *ortrain_training_session_explain_gradients (OrtrainTrainingSession *self, OrtrainTensorDict *inputs);
char *ortrain_training_session_explain_evaluation (OrtrainTrainingSession *self, OrtrainTensorDict *inputs);

/* What a training step is run with, again too. */
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

/* Of the schedule, for an update after `step` others. */
gboolean ortrain_training_session_get_factor (OrtrainTrainingSession *self, guint64 step, double *factor,
                                              GError **error);

/* … and the learning rate that it comes to. */
double ortrain_training_session_get_learning_rate_after (OrtrainTrainingSession *self, guint64 n_updates);

/* The same as the public functions, for callers that hold the claim. */
double ortrain_training_session_run_train_step (OrtrainTrainingSession *self, OrtrainTensorDict *inputs,
                                                GCancellable *cancellable, GError **error);
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
