/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "plan/ortrain-plan-tables-private.h"
#include "runtime/ortrain-device-context-private.h"

/* A plan with addresses: a flat array of kernel calls. Running it is a loop that allocates nothing. */
typedef struct _OrtrainProgram OrtrainProgram;

/* A range that is submitted without a wait of the host in between. A device that captures makes one capture of the
 * calls between two waits of a stream. */
typedef enum
{
  ORTRAIN_PROGRAM_PHASE,     /* steps of one phase */
  ORTRAIN_PROGRAM_GRADIENTS, /* forward and backward */
  ORTRAIN_PROGRAM_STEP,      /* forward, backward and update */
  ORTRAIN_N_PROGRAM_RANGES,
} OrtrainProgramRange;

/* execution: runs it, and lives longer. No memory of the device is taken. */
OrtrainProgram *ortrain_program_new (OrtrainMemoryPlan *plan, OrtrainDeviceContext *device_context);
void ortrain_program_free (OrtrainProgram *self);

/* Makes streams and events, and puts the constants of the plan where kernels read them, before the first run. */
gboolean ortrain_program_load (OrtrainProgram *self, GError **error);
/* A constant that the plan does not name as one; kept as long as the program. */
gboolean ortrain_program_hold (OrtrainProgram *self, OrtrainTensor *tensor, gpointer *address, GError **error);
/* Puts all values of the arenas where they are now. */
void ortrain_program_set_arena (OrtrainProgram *self, gpointer arena, gpointer host_arena);
/* The same one by one. places: [n_values], of roots in the arenas; read before this returns. */
void ortrain_program_set_places (OrtrainProgram *self, const gpointer *places);
/* Sets the address of a root outside of the arena, and of all values that share its memory. */
void ortrain_program_set_address (OrtrainProgram *self, guint32 buffer, gpointer address);
gpointer ortrain_program_get_address (const OrtrainProgram *self, guint32 buffer);
/* Feeds that have two places go to the other one from now on. Before the calls that read them, and those that copy
 * them. */
void ortrain_program_swap_input_buffers (OrtrainProgram *self);
/* Whether there are feeds with two places, and copies of them may overlap with the other steps. */
gboolean ortrain_program_can_overlap_feeds (OrtrainMemoryPlan *plan);

/* Runs steps [first, end) and waits for them. When it fails or is cancelled, nobody may use their results. item: the
 * buffer of the batch that a fault came with, -1: not known; may be NULL. */
gboolean ortrain_program_run (OrtrainProgram *self, guint first, guint end, GCancellable *cancellable, gint64 *item,
                              GError **error);

/* Whether phases can follow each other without the host. */
gboolean ortrain_program_can_join_phases (const OrtrainProgram *self);
/* The same as run, without waiting. FALSE without an error: a step on the host found a fault. */
gboolean ortrain_program_submit (OrtrainProgram *self, OrtrainProgramRange range, guint first, guint end,
                                 GCancellable *cancellable, GError **error);
/* After a wait: FALSE with the error that a fault is. */
gboolean ortrain_program_check_fault (const OrtrainProgram *self, const OrtrainFault *fault, gint64 *item,
                                      GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainProgram, ortrain_program_free)
