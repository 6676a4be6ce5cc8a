/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-input-staging-private.h"

#define N_SLOTS 2

typedef struct
{
  gpointer address;
  gsize size;
  OrtrainEvent *copied; /* NULL: never used */
  gboolean in_flight;
} Slot;

struct _OrtrainInputStaging
{
  OrtrainDeviceContext *device_context;
  Slot slots[N_SLOTS];
  guint current;
};

OrtrainInputStaging *
ortrain_input_staging_new (OrtrainDeviceContext *device_context)
{
  OrtrainInputStaging *self = g_new0 (OrtrainInputStaging, 1);
  self->device_context = device_context;
  return self;
}

void
ortrain_input_staging_free (OrtrainInputStaging *self)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  for (guint i = 0; i < N_SLOTS; i++)
    {
      if (self->slots[i].copied != NULL)
        provider->klass->free_event (provider, self->slots[i].copied);
      ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, self->slots[i].address, self->slots[i].size);
    }
  g_free (self);
}

gpointer
ortrain_input_staging_begin (OrtrainInputStaging *self, gsize n_bytes, GError **error)
{
  OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  const guint next = (self->current + 1) % N_SLOTS;
  Slot *slot = &self->slots[next];
  if (slot->copied == NULL && (slot->copied = provider->klass->new_event (provider, error)) == NULL)
    return NULL;
  if (slot->in_flight && !ortrain_device_context_await (self->device_context, slot->copied, error))
    return NULL;
  slot->in_flight = FALSE;
  if (slot->size < n_bytes)
    {
      ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, slot->address, slot->size);
      slot->size = 0;
      slot->address = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, n_bytes, error);
      if (slot->address == NULL)
        {
          g_prefix_error (error, "Feeds on their way to the device: ");
          return NULL;
        }
      slot->size = n_bytes;
    }
  self->current = next;
  return slot->address;
}

gboolean
ortrain_input_staging_end (OrtrainInputStaging *self, GError **error)
{
  Slot *slot = &self->slots[self->current];
  slot->in_flight = TRUE;
  return ortrain_device_context_record (self->device_context, ORTRAIN_STREAM_COPY, slot->copied, error);
}

guint
ortrain_input_staging_get_current (OrtrainInputStaging *self)
{
  return self->current;
}

gpointer
ortrain_input_staging_get_address (OrtrainInputStaging *self, guint slot)
{
  return self->slots[slot].address;
}
