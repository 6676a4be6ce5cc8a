/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "session/ortrain-training-session.h"

/* The signals of a training session: the boundaries of a step's phases, each with a report on the memory of that
 * instant, and other events. They arrive on the owner's context, whichever thread emits them. */
typedef enum
{
  ORTRAIN_TRAINING_PRE_FORWARD,
  ORTRAIN_TRAINING_POST_FORWARD,
  ORTRAIN_TRAINING_PRE_BACKWARD,
  ORTRAIN_TRAINING_POST_BACKWARD,
  ORTRAIN_TRAINING_PRE_UPDATE,
  ORTRAIN_TRAINING_POST_UPDATE,
  ORTRAIN_TRAINING_N_PHASES,
  ORTRAIN_TRAINING_OVERFLOW = ORTRAIN_TRAINING_N_PHASES,
  ORTRAIN_TRAINING_PLAN_CHANGED,
  ORTRAIN_TRAINING_NOT_FINITE,
  ORTRAIN_TRAINING_N_SIGNALS
} OrtrainTrainingSignal;

void ortrain_training_session_install_signals (OrtrainTrainingSessionClass *klass);
/* Emits a signal that the session's signal queue delivers. */
void ortrain_training_session_deliver (GObject *session, guint slot, gpointer message);
/* At a phase boundary: takes the report, prints its line and emits it, each if it is asked for. */
void ortrain_training_session_emit_phase (OrtrainTrainingSession *self, OrtrainTrainingSignal phase);
/* Whether a step has to stop at phase boundaries for somebody. */
gboolean ortrain_training_session_wants_phases (OrtrainTrainingSession *self);
gboolean ortrain_training_session_has_handlers (OrtrainTrainingSession *self, OrtrainTrainingSignal signal);
/* OVERFLOW, PLAN_CHANGED (the session's plan is its argument), NOT_FINITE. */
void ortrain_training_session_emit (OrtrainTrainingSession *self, OrtrainTrainingSignal signal);
/* The memory at a phase boundary of the session's plan. transfer full */
void ortrain_training_session_note_peak (OrtrainTrainingSession *self, OrtrainMemoryPlan *plan);
OrtrainMemoryReport *ortrain_training_session_make_report (OrtrainTrainingSession *self, OrtrainTrainingSignal phase);
