/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-provider-private.h"

/* The memory of a step: one block of each space, grown (never while a program runs) to what the largest plan so far
 * needs; programs are re-based when it moves. Reference counted. */
typedef struct _OrtrainStepArena OrtrainStepArena;

OrtrainStepArena *ortrain_step_arena_new (OrtrainProvider *provider);
OrtrainStepArena *ortrain_step_arena_ref (OrtrainStepArena *self);
void ortrain_step_arena_unref (OrtrainStepArena *self);
gsize ortrain_step_arena_get_size (OrtrainStepArena *self); /* of the device's memory */
gpointer ortrain_step_arena_get_address (OrtrainStepArena *self, OrtrainMemorySpace space);
/* At least n_bytes of memory of a space; what was in it is lost when it grows, as the smaller block is given back first.
 * When that fails there is none, until the next plan that fits. */
gboolean ortrain_step_arena_reserve (OrtrainStepArena *self, OrtrainMemorySpace space, gsize n_bytes, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainStepArena, ortrain_step_arena_unref)
