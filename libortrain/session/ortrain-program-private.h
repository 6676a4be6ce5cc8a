/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "memory/ortrain-planner-private.h"
#include "session/ortrain-execution-private.h"

/* A plan with addresses: a flat array of kernel calls. Running it is a loop that allocates nothing. */
typedef struct _OrtrainProgram OrtrainProgram;

/* context: of the execution that will run it. */
OrtrainProgram *ortrain_program_new (OrtrainMemoryPlan *plan, const OrtrainKernelContext *context);
void ortrain_program_free (OrtrainProgram *self);

/* Puts all values of the arena where it is now. */
void ortrain_program_set_arena (OrtrainProgram *self, gpointer arena);
/* Of a root outside of the arena, and all that share its memory. */
void ortrain_program_set_address (OrtrainProgram *self, guint32 row, gpointer address);
gpointer ortrain_program_get_address (const OrtrainProgram *self, guint32 row);

/* Runs steps [first, end) and waits for them. When it fails or is cancelled, nobody may use what they computed. item:
 * the row of the batch that a fault came with, -1: not known; may be NULL. */
gboolean ortrain_program_run (OrtrainProgram *self, guint first, guint end, OrtrainExecution *execution,
                              GCancellable *cancellable, gint64 *item, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainProgram, ortrain_program_free)
