/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-step-queue-private.h"

#include <math.h>

#define N_SLOTS ORTRAIN_N_STEP_RESULTS

struct _OrtrainStepQueue
{
  OrtrainStepReadback *readback;
  OrtrainQueuedStep steps[N_SLOTS]; /* a ring */
  guint next;                       /* the slot of the next step */
  guint64 n_begun;
  guint64 failed; /* its number */
  GError *error;
  GThread *submitter; /* atomic; no reference */
};

#define TO(state) (1u << ORTRAIN_STEP_##state)

/* The table of the header: the states that may follow each one. */
static const guint followers[ORTRAIN_N_STEP_STATES] = {
  [ORTRAIN_STEP_FREE] = TO (BEGUN),
  [ORTRAIN_STEP_BEGUN] = TO (RUNNING) | TO (SUBMITTED) | TO (FAILED),
  [ORTRAIN_STEP_RUNNING] = TO (DONE) | TO (SKIPPED) | TO (FAILED),
  [ORTRAIN_STEP_SUBMITTED] = TO (ENDING) | TO (DROPPED) | TO (DISCARDED),
  [ORTRAIN_STEP_DROPPED] = TO (REPEATING) | TO (DISCARDED),
  [ORTRAIN_STEP_ENDING] = TO (REPEATING) | TO (DONE) | TO (SKIPPED) | TO (FAILED),
  [ORTRAIN_STEP_REPEATING] = TO (DONE) | TO (SKIPPED) | TO (FAILED),
  [ORTRAIN_STEP_DONE] = TO (BEGUN),
  [ORTRAIN_STEP_SKIPPED] = TO (BEGUN),
  [ORTRAIN_STEP_FAILED] = TO (BEGUN),
  [ORTRAIN_STEP_DISCARDED] = TO (BEGUN),
};

OrtrainStepQueue *
ortrain_step_queue_new (void)
{
  OrtrainStepQueue *self = g_new0 (OrtrainStepQueue, 1);
  for (guint i = 0; i < N_SLOTS; i++)
    self->steps[i].slot = i;
  return self;
}

void
ortrain_step_queue_free (OrtrainStepQueue *self)
{
  ortrain_step_queue_discard (self);
  for (guint i = 0; i < N_SLOTS; i++)
    g_warn_if_fail (self->steps[i].state == ORTRAIN_STEP_FREE || ortrain_step_state_is_final (self->steps[i].state));
  ortrain_step_queue_set_readback (self, NULL);
  g_free (self);
}

OrtrainStepReadback *
ortrain_step_queue_get_readback (OrtrainStepQueue *self)
{
  return self->readback;
}

void
ortrain_step_queue_set_readback (OrtrainStepQueue *self, OrtrainStepReadback *readback)
{
  g_clear_pointer (&self->readback, ortrain_step_readback_free);
  self->readback = readback;
}

gboolean
ortrain_step_state_is_final (OrtrainStepState state)
{
  return state == ORTRAIN_STEP_DONE || state == ORTRAIN_STEP_SKIPPED || state == ORTRAIN_STEP_FAILED ||
         state == ORTRAIN_STEP_DISCARDED;
}

gboolean
ortrain_step_state_can_become (OrtrainStepState from, OrtrainStepState to)
{
  return from < ORTRAIN_N_STEP_STATES && to < ORTRAIN_N_STEP_STATES && (followers[from] >> to & 1) != 0;
}

void
ortrain_step_queue_move (OrtrainStepQueue *self, OrtrainQueuedStep *step, OrtrainStepState state)
{
  g_return_if_fail (ortrain_step_state_can_become (step->state, state));
  step->state = state;
}

OrtrainQueuedStep *
ortrain_step_queue_begin (OrtrainStepQueue *self, OrtrainStepParts parts)
{
  OrtrainQueuedStep *step = &self->steps[self->next];
  g_return_val_if_fail (ortrain_step_state_can_become (step->state, ORTRAIN_STEP_BEGUN), NULL);
  *step = (OrtrainQueuedStep){
    .state = ORTRAIN_STEP_BEGUN,
    .parts = parts,
    .number = ++self->n_begun,
    .slot = self->next,
    .result = { .loss = NAN, .item = -1 },
  };
  return step;
}

void
ortrain_step_queue_submit (OrtrainStepQueue *self, OrtrainQueuedStep *step)
{
  ortrain_step_queue_move (self, step, ORTRAIN_STEP_SUBMITTED);
  self->next = (step->slot + 1) % N_SLOTS;
  g_atomic_pointer_set (&self->submitter, g_thread_self ());
}

void
ortrain_step_queue_end (OrtrainStepQueue *self, OrtrainQueuedStep *step, OrtrainStepState state)
{
  g_return_if_fail (ortrain_step_state_is_final (state));
  ortrain_step_queue_move (self, step, state);
  g_clear_object (&step->feeds);
  if (state == ORTRAIN_STEP_FAILED)
    self->failed = step->number;
}

static gboolean
is_open (const OrtrainQueuedStep *step)
{
  return step->state == ORTRAIN_STEP_SUBMITTED || step->state == ORTRAIN_STEP_DROPPED;
}

void
ortrain_step_queue_discard (OrtrainStepQueue *self)
{
  for (guint i = 0; i < N_SLOTS; i++)
    if (is_open (&self->steps[i]))
      ortrain_step_queue_end (self, &self->steps[i], ORTRAIN_STEP_DISCARDED);
  g_clear_error (&self->error);
}

guint
ortrain_step_queue_get_n_open (OrtrainStepQueue *self)
{
  guint n = 0;
  for (guint i = 0; i < N_SLOTS; i++)
    n += is_open (&self->steps[i]);
  return n;
}

OrtrainQueuedStep *
ortrain_step_queue_peek_oldest (OrtrainStepQueue *self)
{
  for (guint i = 0; i < N_SLOTS; i++)
    {
      OrtrainQueuedStep *step = &self->steps[(self->next + i) % N_SLOTS];
      if (is_open (step))
        return step;
    }
  return NULL;
}

OrtrainQueuedStep *
ortrain_step_queue_peek_after (OrtrainStepQueue *self, const OrtrainQueuedStep *step)
{
  for (guint i = 0; i < N_SLOTS; i++)
    if (is_open (&self->steps[i]) && self->steps[i].number == step->number + 1)
      return &self->steps[i];
  return NULL;
}

const OrtrainQueuedStep *
ortrain_step_queue_peek (OrtrainStepQueue *self, guint64 number)
{
  for (guint i = 0; i < N_SLOTS; i++)
    if (self->steps[i].state != ORTRAIN_STEP_FREE && self->steps[i].number == number)
      return &self->steps[i];
  return NULL;
}

gboolean
ortrain_step_queue_has (OrtrainStepQueue *self, OrtrainStepState state)
{
  for (guint i = 0; i < N_SLOTS; i++)
    if (self->steps[i].state == state)
      return TRUE;
  return FALSE;
}

guint64
ortrain_step_queue_get_last_number (OrtrainStepQueue *self)
{
  return self->n_begun;
}

guint64
ortrain_step_queue_get_failed_number (OrtrainStepQueue *self)
{
  return self->failed;
}

void
ortrain_step_queue_store_error (OrtrainStepQueue *self, GError *error)
{
  g_return_if_fail (self->error == NULL);
  self->error = error;
}

GError *
ortrain_step_queue_steal_error (OrtrainStepQueue *self)
{
  return g_steal_pointer (&self->error);
}

gboolean
ortrain_step_queue_is_submitter (OrtrainStepQueue *self)
{
  return g_atomic_pointer_get (&self->submitter) == g_thread_self ();
}

void
ortrain_step_queue_replace_submitter (OrtrainStepQueue *self, GThread *thread)
{
  g_atomic_pointer_compare_and_exchange (&self->submitter, g_thread_self (), thread);
}
