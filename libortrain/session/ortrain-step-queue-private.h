/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-step-readback-private.h"
#include "tensor/ortrain-tensor-dict.h"

/* The steps of a training session, from the moment at which their inputs are bound until their outcome is known.
 *
 * A step that a device is given whole is SUBMITTED, and the session goes on; all others are RUNNING in the call that
 * began them. Each step ends in exactly one of the final states DONE, SKIPPED, FAILED and DISCARDED, whatever happens:
 *
 *   from       | to
 *   -----------+---------------------------------------------------------------------------------------------
 *   FREE       | BEGUN
 *   BEGUN      | RUNNING, SUBMITTED, FAILED (the device took no call of it)
 *   RUNNING    | DONE, SKIPPED, FAILED
 *   SUBMITTED  | ENDING (the device has answered), DROPPED, DISCARDED
 *   DROPPED    | REPEATING, DISCARDED
 *   ENDING     | REPEATING (the device met a fault), DONE, SKIPPED, FAILED
 *   REPEATING  | DONE, SKIPPED, FAILED
 *   final      | BEGUN (another step takes the slot)
 *
 * Two steps are in flight at most, and they end in the order in which they were submitted. Externally synchronised, but
 * for the submitter. */
typedef enum
{
  ORTRAIN_STEP_FREE,      /* no step has used the slot */
  ORTRAIN_STEP_BEGUN,     /* nothing of it has run */
  ORTRAIN_STEP_RUNNING,   /* the host waits for it in the call that began it */
  ORTRAIN_STEP_SUBMITTED, /* the device has all of it */
  ORTRAIN_STEP_DROPPED,   /* it was submitted after a step that had to be repeated: the device did none of it */
  ORTRAIN_STEP_ENDING,    /* its results are being looked at; handlers may run */
  ORTRAIN_STEP_REPEATING, /* it is run again, phase by phase */
  ORTRAIN_STEP_DONE,      /* final: it has had its effect */
  ORTRAIN_STEP_SKIPPED,   /* final: its update was left out, as gradients were not finite */
  ORTRAIN_STEP_FAILED,    /* final: there is an error */
  ORTRAIN_STEP_DISCARDED, /* final: without effect, as one before it failed or the session ended */
  ORTRAIN_N_STEP_STATES,
} OrtrainStepState;

typedef enum
{
  ORTRAIN_STEP_PART_TRAIN = 1 << 0, /* forward and backward */
  ORTRAIN_STEP_PART_UPDATE = 1 << 1,
} OrtrainStepParts;

/* The outcome of a step. For an update alone, loss and weight are those of the training step before it. */
typedef struct
{
  double loss;       /* not a number on an error, and while it is not known */
  double weight;     /* the number of elements that the loss is the mean of */
  double norm;       /* norm of all gradients; 0: it was not computed */
  guint64 n_updates; /* updates of the session after this step */
  gint64 item;       /* the row of the batch that made it fail; -1: none is known */
} OrtrainStepResult;

/* One step, with the counters to restore if it fails. */
typedef struct
{
  OrtrainStepState state;
  OrtrainStepParts parts;
  guint64 number;       /* counts the steps of the session from 1 */
  guint slot;           /* index of its readback and of its copy of the buffers */
  gboolean has_norm;    /* the norm of the gradients is computed */
  gboolean stops;       /* stop-on-nan was set */
  gboolean is_left_out; /* there was no update */
  guint64 n_train_steps, n_updates;
  double gradient_scale;
  gint64 broken_at_once;    /* for an update alone: the parameter that the backward pass left with numbers that are not
                               finite */
  OrtrainTensorDict *feeds; /* as they were, apart from the contents of those that were staged */
  guint feed_slot;          /* where they were staged */
  OrtrainStepResult result;
} OrtrainQueuedStep;

typedef struct _OrtrainStepQueue OrtrainStepQueue;

OrtrainStepQueue *ortrain_step_queue_new (void);
void ortrain_step_queue_free (OrtrainStepQueue *self);
/* The memory to which an asynchronous device writes its results. NULL, as at first: the device runs calls before the
 * host goes on, and steps are not submitted. set: transfer full; no step is under way. */
OrtrainStepReadback *ortrain_step_queue_get_readback (OrtrainStepQueue *self);
void ortrain_step_queue_set_readback (OrtrainStepQueue *self, OrtrainStepReadback *readback);

gboolean ortrain_step_state_is_final (OrtrainStepState state);
gboolean ortrain_step_state_can_become (OrtrainStepState from, OrtrainStepState to);

/* A step that is BEGUN in the next slot; all else is zero. There is one at most: a step that was not submitted gives
 * its slot to the next one. */
OrtrainQueuedStep *ortrain_step_queue_begin (OrtrainStepQueue *self, OrtrainStepParts parts);
/* BEGUN becomes SUBMITTED; the calling thread is the submitter from now on. */
void ortrain_step_queue_submit (OrtrainStepQueue *self, OrtrainQueuedStep *step);
void ortrain_step_queue_move (OrtrainStepQueue *self, OrtrainQueuedStep *step, OrtrainStepState state);
/* Sets the final state. The resources of the step are freed; its result stays until another step takes the slot. */
void ortrain_step_queue_end (OrtrainStepQueue *self, OrtrainQueuedStep *step, OrtrainStepState state);
/* Ends all steps that are SUBMITTED or DROPPED as DISCARDED, and forgets a stored error. */
void ortrain_step_queue_discard (OrtrainStepQueue *self);

/* Steps that are SUBMITTED or DROPPED: the first to end, the one after `step`; NULL: no such step. */
guint ortrain_step_queue_get_n_open (OrtrainStepQueue *self);
OrtrainQueuedStep *ortrain_step_queue_peek_oldest (OrtrainStepQueue *self);
OrtrainQueuedStep *ortrain_step_queue_peek_after (OrtrainStepQueue *self, const OrtrainQueuedStep *step);
/* The step with that number; NULL: another one has its slot. */
const OrtrainQueuedStep *ortrain_step_queue_peek (OrtrainStepQueue *self, guint64 number);
/* Whether a step is in that state. */
gboolean ortrain_step_queue_has (OrtrainStepQueue *self, OrtrainStepState state);
/* The step that began last, and the one that failed last; 0: there was none. */
guint64 ortrain_step_queue_get_last_number (OrtrainStepQueue *self);
guint64 ortrain_step_queue_get_failed_number (OrtrainStepQueue *self);

/* An error for the next call, where the one that met it cannot fail. error: transfer full */
void ortrain_step_queue_store_error (OrtrainStepQueue *self, GError *error);
GError *ortrain_step_queue_steal_error (OrtrainStepQueue *self); /* NULL: no stored error */

/* Any thread may ask. replace: steps that `old` submitted count as those of `thread`, for which it submitted them. */
gboolean ortrain_step_queue_is_submitter (OrtrainStepQueue *self);
void ortrain_step_queue_replace_submitter (OrtrainStepQueue *self, GThread *thread);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainStepQueue, ortrain_step_queue_free)
