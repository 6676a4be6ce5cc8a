/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

/* Brings signals from a worker to the context that owns an object. Messages arrive in order, from one source that is
 * attached only while there are some; a message in a slot replaces an older one of the same slot (for progress, where
 * only the latest counts). If the owner does not take them, the oldest go once there are max_messages: training never
 * waits for a handler, and memory does not grow. */
typedef struct _OrtrainSignalQueue OrtrainSignalQueue;

/* Called on the owner's context, without locks. object: the one that was posted for. */
typedef void (*OrtrainSignalQueueFunc) (GObject *object, guint slot, gpointer message);

/* For the caller's context and thread. max_messages: G_MAXUINT for those of which each one must arrive. */
OrtrainSignalQueue *ortrain_signal_queue_new (OrtrainSignalQueueFunc deliver, guint max_messages);
void ortrain_signal_queue_unref (OrtrainSignalQueue *self);
/* Whether signals may be emitted right here. */
gboolean ortrain_signal_queue_is_on_owner (OrtrainSignalQueue *self);
/* message: taken. slot 0: queued; others: latest wins. The object is kept until the message has arrived. */
void ortrain_signal_queue_post (OrtrainSignalQueue *self, GObject *object, guint slot, gpointer message,
                                GDestroyNotify free_message);
