/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-execution-private.h"

/* Two pieces of the host's memory from which a device copies feeds while the host does other things: one for the step that
 * is submitted, the other for the one before. They grow to the largest batch, and are at the same addresses then. */
typedef struct _OrtrainFeedSlots OrtrainFeedSlots;

OrtrainFeedSlots *ortrain_feed_slots_new (OrtrainExecution *execution); /* which lives longer */
void ortrain_feed_slots_free (OrtrainFeedSlots *self);

/* The next slot, with room for n_bytes; waits until what was copied from it the last time is on the device. */
gpointer ortrain_feed_slots_begin (OrtrainFeedSlots *self, gsize n_bytes, GError **error);
/* Behind the copies from it. */
gboolean ortrain_feed_slots_end (OrtrainFeedSlots *self, GError **error);

guint ortrain_feed_slots_get_current (OrtrainFeedSlots *self);
gpointer ortrain_feed_slots_get_address (OrtrainFeedSlots *self, guint slot);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainFeedSlots, ortrain_feed_slots_free)
