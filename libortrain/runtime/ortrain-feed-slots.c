/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-feed-slots-private.h"

#define N_SLOTS 2

typedef struct
{
  gpointer address;
  gsize size;
  OrtrainEvent *copied; /* NULL: never used */
  gboolean in_flight;
} Slot;

struct _OrtrainFeedSlots
{
  OrtrainExecution *execution;
  Slot slots[N_SLOTS];
  guint current;
};

OrtrainFeedSlots *
ortrain_feed_slots_new (OrtrainExecution *execution)
{
  OrtrainFeedSlots *self = g_new0 (OrtrainFeedSlots, 1);
  self->execution = execution;
  return self;
}

void
ortrain_feed_slots_free (OrtrainFeedSlots *self)
{
  OrtrainProvider *provider = ortrain_execution_get_provider (self->execution);
  for (guint i = 0; i < N_SLOTS; i++)
    {
      if (self->slots[i].copied != NULL)
        provider->klass->free_event (provider, self->slots[i].copied);
      ortrain_provider_free_memory (provider, ORTRAIN_MEMORY_SPACE_HOST, self->slots[i].address, self->slots[i].size);
    }
  g_free (self);
}

gpointer
ortrain_feed_slots_begin (OrtrainFeedSlots *self, gsize n_bytes, GError **error)
{
  OrtrainProvider *provider = ortrain_execution_get_provider (self->execution);
  const guint next = (self->current + 1) % N_SLOTS;
  Slot *slot = &self->slots[next];
  if (slot->copied == NULL && (slot->copied = provider->klass->new_event (provider, error)) == NULL)
    return NULL;
  if (slot->in_flight && !ortrain_execution_await (self->execution, slot->copied, error))
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
ortrain_feed_slots_end (OrtrainFeedSlots *self, GError **error)
{
  Slot *slot = &self->slots[self->current];
  slot->in_flight = TRUE;
  return ortrain_execution_record (self->execution, ORTRAIN_STREAM_COPY, slot->copied, error);
}

guint
ortrain_feed_slots_get_current (OrtrainFeedSlots *self)
{
  return self->current;
}

gpointer
ortrain_feed_slots_get_address (OrtrainFeedSlots *self, guint slot)
{
  return self->slots[slot].address;
}
