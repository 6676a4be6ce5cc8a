/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-step-results-private.h"

struct _OrtrainStepResults
{
  OrtrainExecution *execution; /* lives longer */
  OrtrainStepResult *slots;
  gsize n_scalars; /* behind the slots, for each of them */
  OrtrainEvent *marks[ORTRAIN_N_STEP_RESULTS];
};

static gsize
get_bytes (const OrtrainStepResults *self)
{
  return ORTRAIN_N_STEP_RESULTS * (sizeof (OrtrainStepResult) + self->n_scalars * sizeof (double));
}

OrtrainStepResults *
ortrain_step_results_new (OrtrainExecution *execution, gsize n_scalars, GError **error)
{
  OrtrainProvider *provider = ortrain_execution_get_provider (execution);
  g_autoptr (OrtrainStepResults) self = g_new0 (OrtrainStepResults, 1);
  self->execution = execution;
  self->n_scalars = n_scalars;
  self->slots = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, get_bytes (self), error);
  if (self->slots == NULL)
    return NULL;
  for (guint i = 0; i < ORTRAIN_N_STEP_RESULTS; i++)
    if ((self->marks[i] = provider->klass->new_event (provider, error)) == NULL)
      return NULL;
  return g_steal_pointer (&self);
}

void
ortrain_step_results_free (OrtrainStepResults *self)
{
  OrtrainProvider *provider = ortrain_execution_get_provider (self->execution);
  for (guint i = 0; i < ORTRAIN_N_STEP_RESULTS; i++)
    if (self->marks[i] != NULL)
      provider->klass->free_event (provider, self->marks[i]);
  ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, self->slots, get_bytes (self));
  g_free (self);
}

OrtrainStepResult *
ortrain_step_results_get (OrtrainStepResults *self, guint slot)
{
  return &self->slots[slot];
}

double *
ortrain_step_results_get_scalars (OrtrainStepResults *self, guint slot)
{
  return (double *) (self->slots + ORTRAIN_N_STEP_RESULTS) + slot * self->n_scalars;
}

gboolean
ortrain_step_results_mark (OrtrainStepResults *self, guint slot, GError **error)
{
  return ortrain_execution_record (self->execution, ORTRAIN_STREAM_COMPUTE, self->marks[slot], error);
}

gboolean
ortrain_step_results_await (OrtrainStepResults *self, guint slot, GError **error)
{
  return ortrain_execution_await (self->execution, self->marks[slot], error);
}
