/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-signals-private.h"

#include "plan/ortrain-memory-report-private.h"
#include "session/ortrain-training-session-private.h"

static guint signals[ORTRAIN_TRAINING_N_SIGNALS];
static const char *const phase_signals[] = { "pre-forward",   "post-forward", "pre-backward",
                                             "post-backward", "pre-update",   "post-update" };
static const char *const phase_names[] = { "pre_forward",   "post_forward", "pre_backward",
                                           "post_backward", "pre_update",   "post_update" };

typedef struct
{
  OrtrainTrainingSignal signal;
  OrtrainMemoryReport *report;
  OrtrainMemoryPlan *plan;
} Message;

static void
message_free (gpointer data)
{
  Message *message = data;
  g_clear_pointer (&message->report, ortrain_memory_report_free);
  g_clear_object (&message->plan);
  g_free (message);
}

void
ortrain_training_session_deliver (GObject *session, guint slot, gpointer data)
{
  Message *message = data;
  if (message->signal < ORTRAIN_TRAINING_N_PHASES)
    g_signal_emit (session, signals[message->signal], 0, message->report);
  else if (message->signal == ORTRAIN_TRAINING_PLAN_CHANGED)
    g_signal_emit (session, signals[ORTRAIN_TRAINING_PLAN_CHANGED], 0, message->plan);
  else
    g_signal_emit (session, signals[message->signal], 0);
}

/* report and plan: taken */
static void
post (OrtrainTrainingSession *self, OrtrainTrainingSignal signal, OrtrainMemoryReport *report, OrtrainMemoryPlan *plan)
{
  Message message = { signal, report, plan };
  if (ortrain_signal_queue_is_on_owner (self->signal_queue))
    {
      ortrain_training_session_deliver (G_OBJECT (self), 0, &message);
      g_clear_pointer (&message.report, ortrain_memory_report_free);
      g_clear_object (&message.plan);
    }
  else
    ortrain_signal_queue_post (self->signal_queue, G_OBJECT (self), 0, g_memdup2 (&message, sizeof message),
                               message_free);
}

gboolean
ortrain_training_session_has_handlers (OrtrainTrainingSession *self, OrtrainTrainingSignal signal)
{
  return g_signal_has_handler_pending (self, signals[signal], 0, FALSE);
}

void
ortrain_training_session_emit (OrtrainTrainingSession *self, OrtrainTrainingSignal signal)
{
  if (ortrain_training_session_has_handlers (self, signal))
    post (self, signal, NULL, signal == ORTRAIN_TRAINING_PLAN_CHANGED ? g_object_ref (self->plan) : NULL);
}

/* ---- reports ---- */

/* The position of a phase boundary in the plan. */
static guint
boundary (OrtrainTrainingSession *self, OrtrainTrainingSignal phase)
{
  if (phase == ORTRAIN_TRAINING_PRE_FORWARD)
    return 0;
  if (phase == ORTRAIN_TRAINING_POST_FORWARD || phase == ORTRAIN_TRAINING_PRE_BACKWARD)
    return ortrain_memory_plan_get_first_backward_step (self->plan);
  if (phase == ORTRAIN_TRAINING_POST_BACKWARD || phase == ORTRAIN_TRAINING_PRE_UPDATE)
    return ortrain_memory_plan_get_first_update_step (self->plan);
  return ortrain_memory_plan_get_n_steps (self->plan);
}

/* The number of the training step that a phase belongs to, from 1. */
static guint64
step_of (OrtrainTrainingSession *self, OrtrainTrainingSignal phase)
{
  return self->n_train_steps + (phase == ORTRAIN_TRAINING_PRE_UPDATE || phase == ORTRAIN_TRAINING_POST_UPDATE ? 0 : 1);
}

/* An arena that has no memory pattern may hold less than one block with all values would. */
void
ortrain_training_session_note_peak (OrtrainTrainingSession *self, OrtrainMemoryPlan *plan)
{
  const gsize arena = ortrain_memory_plan_get_arena_bytes (plan);
  const guint64 peak =
      ortrain_memory_plan_get_peak_bytes (plan) - arena + MIN (arena, ortrain_step_arena_get_size (self->arena));
  self->max_allocated = MAX (self->max_allocated, peak);
}

OrtrainMemoryReport *
ortrain_training_session_make_report (OrtrainTrainingSession *self, OrtrainTrainingSignal phase)
{
  OrtrainMemoryPlan *plan = self->plan;
  guint position = boundary (self, phase);
  guint64 persistent = self->store->block != NULL ? self->store->block_bytes : 0;
  const guint64 held = ortrain_step_arena_get_size (self->arena);
  guint64 live = MIN (ortrain_memory_plan_get_live_bytes (plan, position), held); /* an arena may have shrunk */
  guint64 peak = persistent + MIN (ortrain_memory_plan_get_high_water (plan, position), held);
  guint64 cached = persistent + held;
  OrtrainMemoryReport report = {
    .rank = ortrain_training_options_get_rank (self->options),
    .step = step_of (self, phase),
    .phase = phase_names[phase],
    .allocated = persistent + live,
    .step_peak = peak,
    .cached = cached,
    .inactive = cached - persistent - live,
    .param = self->store->bytes[ORTRAIN_CATEGORY_PARAMETER],
    .grad = self->store->bytes[ORTRAIN_CATEGORY_GRADIENT],
    .buffer = self->store->buffers_bytes,
    .state = self->store->bytes[ORTRAIN_CATEGORY_STATE],
    .constant = ortrain_memory_plan_get_persistent (plan, ORTRAIN_CATEGORY_CONSTANT),
    .input = self->input_bytes,
    .activation = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_ACTIVATION, position),
    .temporary = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_TEMPORARY, position),
    .workspace = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_WORKSPACE, position),
    .output = ortrain_memory_plan_get_category_bytes (plan, ORTRAIN_CATEGORY_OUTPUT, position),
  };
  self->max_allocated = MAX (self->max_allocated, peak);
  self->max_cached = MAX (self->max_cached, cached);
  self->max_inactive = MAX (self->max_inactive, report.inactive);
  report.max_allocated = self->max_allocated;
  report.max_cached = self->max_cached;
  report.max_inactive = self->max_inactive;
  return ortrain_memory_report_new (&report);
}

static gboolean
is_printed (OrtrainTrainingSession *self, OrtrainTrainingSignal phase)
{
  if (!ortrain_training_options_get_print_memory (self->options) ||
      ortrain_training_options_get_rank (self->options) != 0)
    return FALSE;
  guint64 step = step_of (self, phase);
  return step < 10 || (step & (step - 1)) == 0;
}

gboolean
ortrain_training_session_wants_phases (OrtrainTrainingSession *self)
{
  for (guint phase = 0; phase < ORTRAIN_TRAINING_N_PHASES; phase++)
    if (is_printed (self, (OrtrainTrainingSignal) phase) || ortrain_training_session_has_handlers (self, phase))
      return TRUE;
  return FALSE;
}

void
ortrain_training_session_emit_phase (OrtrainTrainingSession *self, OrtrainTrainingSignal phase)
{
  gboolean printed = is_printed (self, phase), handled = ortrain_training_session_has_handlers (self, phase);
  if (!printed && !handled)
    return;
  OrtrainMemoryReport *report = ortrain_training_session_make_report (self, phase);
  if (printed)
    {
      g_autofree char *line = ortrain_memory_report_to_string (report);
      g_log_structured ("Ortrain-Memory", G_LOG_LEVEL_MESSAGE, "MESSAGE", "%s", line);
    }
  if (handled)
    post (self, phase, report, NULL);
  else
    ortrain_memory_report_free (report);
}

void
ortrain_training_session_install_signals (OrtrainTrainingSessionClass *klass)
{
  /**
   * OrtrainTrainingSession::pre-forward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted before the forward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::post-forward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted after the forward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::pre-backward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted before the backward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::post-backward:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted after the backward pass of a training step.
   */
  /**
   * OrtrainTrainingSession::pre-update:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted before the optimizer moves the parameters.
   */
  /**
   * OrtrainTrainingSession::post-update:
   * @self: the session
   * @report: the memory of this instant
   *
   * Emitted after the optimizer has moved the parameters.
   */
  for (guint i = 0; i < ORTRAIN_TRAINING_N_PHASES; i++)
    signals[i] = g_signal_new (phase_signals[i], G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                               G_TYPE_NONE, 1, ORTRAIN_TYPE_MEMORY_REPORT);
  /**
   * OrtrainTrainingSession::overflow:
   * @self: the session
   *
   * Emitted when an update was skipped because the gradients were not finite.
   */
  signals[ORTRAIN_TRAINING_OVERFLOW] =
      g_signal_new ("overflow", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
  /**
   * OrtrainTrainingSession::plan-changed:
   * @self: the session
   * @plan: the plan that training steps use from now on
   *
   * Emitted when a training step uses another plan than the one before.
   */
  signals[ORTRAIN_TRAINING_PLAN_CHANGED] = g_signal_new ("plan-changed", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST,
                                                         0, NULL, NULL, NULL, G_TYPE_NONE, 1, ORTRAIN_TYPE_MEMORY_PLAN);
  /**
   * OrtrainTrainingSession::not-finite:
   * @self: the session
   *
   * Emitted when the loss of a training step is not a finite number.
   */
  signals[ORTRAIN_TRAINING_NOT_FINITE] =
      g_signal_new ("not-finite", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}
