/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "arena/ortrain-arena-private.h"
#include "runtime/ortrain-program-private.h"

/* The memory of a step, reference counted. With a memory pattern: one block of each space, grown (never while a program
 * runs) to the size of the largest plan so far. Without one: an arena of each space, from which the values of a program
 * are allocated, and to which they are given back, in the order in which its steps are submitted. Programs are re-based
 * when their memory moves. */
typedef struct _OrtrainStepArena OrtrainStepArena;

/* config: of the arenas; NULL: with a memory pattern. folder: where a file is created for offloaded values, if the host
 * is the device; NULL: the default. */
OrtrainStepArena *ortrain_step_arena_new (OrtrainProvider *provider, const OrtrainArenaConfig *config,
                                          const char *folder);
OrtrainStepArena *ortrain_step_arena_ref (OrtrainStepArena *self);
void ortrain_step_arena_unref (OrtrainStepArena *self);
gsize ortrain_step_arena_get_size (OrtrainStepArena *self); /* of the device's memory */
gboolean ortrain_step_arena_has_pattern (OrtrainStepArena *self);
OrtrainArenaStatistics *ortrain_step_arena_get_statistics (OrtrainStepArena *self); /* NULL with a memory pattern */

/* Puts all values of the arenas of a plan into memory, as part of a run; the values of other programs there are lost.
 * budget: bytes that may be held together with the persistent values; 0: any number. moves: of the program, 0 before
 * its first run. When it fails, no more is held than before, and another plan may fit. */
gboolean ortrain_step_arena_place (OrtrainStepArena *self, OrtrainMemoryPlan *plan, OrtrainProgram *program,
                                   guint64 budget, guint64 *moves, GError **error);
/* After a run. FALSE if offloaded data could not be read back. */
gboolean ortrain_step_arena_check (OrtrainStepArena *self, GError **error);
/* Whether end_run gives memory back. */
gboolean ortrain_step_arena_shrinks (OrtrainStepArena *self);
/* Call it when no submitted step is running any more, and nobody needs the arena's contents. */
void ortrain_step_arena_end_run (OrtrainStepArena *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainStepArena, ortrain_step_arena_unref)
