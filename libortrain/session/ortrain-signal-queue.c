/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-signal-queue-private.h"

typedef struct
{
  GObject *object;
  guint slot;
  gpointer message;
  GDestroyNotify free_message;
} Emission;

struct _OrtrainSignalQueue
{
  gatomicrefcount ref_count;
  GMainContext *context;
  GThread *thread; /* that created it */
  OrtrainSignalQueueFunc deliver;
  guint max_messages;
  GMutex lock; /* guards the following */
  GQueue emissions;
  gboolean pending; /* a source is attached */
};

OrtrainSignalQueue *
ortrain_signal_queue_new (OrtrainSignalQueueFunc deliver, guint max_messages)
{
  OrtrainSignalQueue *self = g_new0 (OrtrainSignalQueue, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->context = g_main_context_ref_thread_default ();
  self->thread = g_thread_self ();
  self->deliver = deliver;
  self->max_messages = max_messages;
  g_mutex_init (&self->lock);
  g_queue_init (&self->emissions);
  return self;
}

static void
emission_free (Emission *emission)
{
  if (emission->free_message != NULL)
    emission->free_message (emission->message);
  g_object_unref (emission->object);
  g_free (emission);
}

void
ortrain_signal_queue_unref (OrtrainSignalQueue *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_queue_clear_full (&self->emissions, (GDestroyNotify) emission_free);
  g_mutex_clear (&self->lock);
  g_main_context_unref (self->context);
  g_free (self);
}

gboolean
ortrain_signal_queue_is_on_owner (OrtrainSignalQueue *self)
{
  return g_thread_self () == self->thread || g_main_context_is_owner (self->context);
}

/* Everything that is queued now is delivered in one dispatch: one emission per iteration would be too slow for a busy
 * main loop. Signals queued meanwhile wait for the next dispatch. */
static gboolean
deliver (gpointer user_data)
{
  OrtrainSignalQueue *self = user_data;
  g_mutex_lock (&self->lock);
  GQueue emissions = self->emissions;
  g_queue_init (&self->emissions);
  self->pending = FALSE;
  g_mutex_unlock (&self->lock);
  for (Emission *emission; (emission = g_queue_pop_head (&emissions)) != NULL;)
    {
      self->deliver (emission->object, emission->slot, emission->message);
      emission_free (emission);
    }
  return G_SOURCE_REMOVE;
}

void
ortrain_signal_queue_post (OrtrainSignalQueue *self, GObject *object, guint slot, gpointer message,
                           GDestroyNotify free_message)
{
  Emission *emission = g_new (Emission, 1), *dropped = NULL;
  *emission = (Emission){ g_object_ref (object), slot, message, free_message };
  gboolean attach = FALSE;

  g_mutex_lock (&self->lock);
  if (slot > 0)
    for (GList *l = self->emissions.tail; l != NULL; l = l->prev)
      if (((Emission *) l->data)->slot == slot)
        {
          dropped = l->data;
          g_queue_delete_link (&self->emissions, l);
          break;
        }
  if (dropped == NULL && self->emissions.length >= self->max_messages)
    dropped = g_queue_pop_head (&self->emissions);
  g_queue_push_tail (&self->emissions, emission);
  if (!self->pending)
    {
      self->pending = TRUE;
      attach = TRUE;
      g_atomic_ref_count_inc (&self->ref_count);
    }
  g_mutex_unlock (&self->lock);

  if (dropped != NULL)
    emission_free (dropped);
  if (attach)
    {
      GSource *source = g_idle_source_new ();
      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_callback (source, deliver, self, (GDestroyNotify) ortrain_signal_queue_unref);
      g_source_attach (source, self->context);
      g_source_unref (source);
    }
}
