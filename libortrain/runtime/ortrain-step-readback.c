/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-step-readback-private.h"

struct _OrtrainStepReadback
{
  OrtrainDeviceContext *device_context; /* lives longer */
  OrtrainStepOutcome *slots;
  gsize n_scalars; /* after the slots in memory, for each of them */
  OrtrainEvent *marks[ORTRAIN_N_STEP_RESULTS];
};

static gsize
get_bytes (const OrtrainStepReadback *self)
{
  return ORTRAIN_N_STEP_RESULTS * (sizeof (OrtrainStepOutcome) + self->n_scalars * sizeof (double));
}

OrtrainStepReadback *
ortrain_step_readback_new (OrtrainDeviceContext *device_context, gsize n_scalars, GError **error)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (device_context);
  g_autoptr (OrtrainStepReadback) self = g_new0 (OrtrainStepReadback, 1);
  self->device_context = device_context;
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
ortrain_step_readback_free (OrtrainStepReadback *self)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  for (guint i = 0; i < ORTRAIN_N_STEP_RESULTS; i++)
    if (self->marks[i] != NULL)
      provider->klass->free_event (provider, self->marks[i]);
  ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, self->slots, get_bytes (self));
  g_free (self);
}

OrtrainStepOutcome *
ortrain_step_readback_get (OrtrainStepReadback *self, guint slot)
{
  return &self->slots[slot];
}

double *
ortrain_step_readback_get_scalars (OrtrainStepReadback *self, guint slot)
{
  return (double *) (self->slots + ORTRAIN_N_STEP_RESULTS) + slot * self->n_scalars;
}

gboolean
ortrain_step_readback_mark (OrtrainStepReadback *self, guint slot, GError **error)
{
  return ortrain_device_context_record (self->device_context, ORTRAIN_STREAM_COMPUTE, self->marks[slot], error);
}

gboolean
ortrain_step_readback_await (OrtrainStepReadback *self, guint slot, GError **error)
{
  return ortrain_device_context_await (self->device_context, self->marks[slot], error);
}
