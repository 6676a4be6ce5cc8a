/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-signal-queue-private.h"

typedef struct
{
  GObject *object;
  guint slot;
  gpointer message;
  GDestroyNotify free_message;
} Letter;

struct _OrtrainSignalQueue
{
  gatomicrefcount ref_count;
  GMainContext *context;
  GThread *thread; /* that made it */
  OrtrainSignalQueueFunc deliver;
  guint max_messages;
  GMutex lock; /* guards what follows */
  GQueue letters;
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
  g_queue_init (&self->letters);
  return self;
}

static void
letter_free (Letter *letter)
{
  if (letter->free_message != NULL)
    letter->free_message (letter->message);
  g_object_unref (letter->object);
  g_free (letter);
}

void
ortrain_signal_queue_unref (OrtrainSignalQueue *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_queue_clear_full (&self->letters, (GDestroyNotify) letter_free);
  g_mutex_clear (&self->lock);
  g_main_context_unref (self->context);
  g_free (self);
}

gboolean
ortrain_signal_queue_is_on_owner (OrtrainSignalQueue *self)
{
  return g_thread_self () == self->thread || g_main_context_is_owner (self->context);
}

/* One letter a turn would let a busy loop fall behind; all that are there now are delivered, no later ones. */
static gboolean
deliver (gpointer user_data)
{
  OrtrainSignalQueue *self = user_data;
  g_mutex_lock (&self->lock);
  GQueue letters = self->letters;
  g_queue_init (&self->letters);
  self->pending = FALSE;
  g_mutex_unlock (&self->lock);
  for (Letter *letter; (letter = g_queue_pop_head (&letters)) != NULL;)
    {
      self->deliver (letter->object, letter->slot, letter->message);
      letter_free (letter);
    }
  return G_SOURCE_REMOVE;
}

void
ortrain_signal_queue_post (OrtrainSignalQueue *self, GObject *object, guint slot, gpointer message,
                           GDestroyNotify free_message)
{
  Letter *letter = g_new (Letter, 1), *dropped = NULL;
  *letter = (Letter){ g_object_ref (object), slot, message, free_message };
  gboolean attach = FALSE;

  g_mutex_lock (&self->lock);
  if (slot > 0)
    for (GList *l = self->letters.tail; l != NULL; l = l->prev)
      if (((Letter *) l->data)->slot == slot)
        {
          dropped = l->data;
          g_queue_delete_link (&self->letters, l);
          break;
        }
  if (dropped == NULL && self->letters.length >= self->max_messages)
    dropped = g_queue_pop_head (&self->letters);
  g_queue_push_tail (&self->letters, letter);
  if (!self->pending)
    {
      self->pending = TRUE;
      attach = TRUE;
      g_atomic_ref_count_inc (&self->ref_count);
    }
  g_mutex_unlock (&self->lock);

  if (dropped != NULL)
    letter_free (dropped);
  if (attach)
    {
      GSource *source = g_idle_source_new ();
      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_callback (source, deliver, self, (GDestroyNotify) ortrain_signal_queue_unref);
      g_source_attach (source, self->context);
      g_source_unref (source);
    }
}
