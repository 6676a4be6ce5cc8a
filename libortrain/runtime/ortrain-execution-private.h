/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan/ortrain-plan-tables-private.h"
#include "tensor/ortrain-tensor-private.h"

/* What the programs of a session run with: a provider and its streams, the host for what the device has no kernel for, and
 * in the memory of both the scalars of a step and the fault word. Externally synchronised. */
typedef struct _OrtrainExecution OrtrainExecution;

/* host: NULL for the one of the library, which runs on the calling thread. */
OrtrainExecution *ortrain_execution_new (OrtrainProvider *provider, OrtrainProvider *host, GError **error);
void ortrain_execution_free (OrtrainExecution *self);

OrtrainProvider *ortrain_execution_get_provider (OrtrainExecution *self); /* transfer none */
OrtrainProvider *ortrain_execution_get_host (OrtrainExecution *self);     /* transfer none */
OrtrainStream *ortrain_execution_get_stream (OrtrainExecution *self);
/* Makes what a plan's stream is submitted to, if it is not there yet. That of computing always is. */
gboolean ortrain_execution_open_stream (OrtrainExecution *self, OrtrainPlanStream stream, GError **error);
/* For calls; at the same address as long as the execution lives. */
const OrtrainKernelContext *ortrain_execution_peek_context (OrtrainExecution *self, OrtrainPlanStream stream);

/* For values without bytes. */
gpointer ortrain_execution_get_nothing (OrtrainExecution *self);

/* The contents of a tensor of the host, where kernels read them: itself if they can, else a copy that is created once,
 * and kept until the last reference goes. */
gboolean ortrain_execution_ref_constant (OrtrainExecution *self, OrtrainTensor *tensor, gpointer *address,
                                         GError **error);
void ortrain_execution_unref_constant (OrtrainExecution *self, OrtrainTensor *tensor);

/* Writes the scalars for the calls that are submitted from now on, and clears the fault. */
gboolean ortrain_execution_begin (OrtrainExecution *self, const OrtrainStepBlock *step, GError **error);
/* The same behind a step that nobody has waited for: its fault stays, so that updates do nothing from there on. */
gboolean ortrain_execution_go_on (OrtrainExecution *self, const OrtrainStepBlock *step, GError **error);
/* The fault of the calls so far; it is there after the next wait. */
gboolean ortrain_execution_read_fault (OrtrainExecution *self, OrtrainFault *destination, GError **error);
/* Calls of one program, in order. Those of the host have run when this returns; FALSE without an error if one of them
 * found a fault. */
gboolean ortrain_execution_submit (OrtrainExecution *self, OrtrainPlanStream stream, const OrtrainKernelCall *calls,
                                   guint n_calls, GCancellable *cancellable, GError **error);
/* Whose calls are submitted from now on; whether those before were of the same program. */
gboolean ortrain_execution_note_program (OrtrainExecution *self, gconstpointer program);
void ortrain_execution_forget_program (OrtrainExecution *self, gconstpointer program);
/* Makes one thing of calls whose addresses stay, and submits it. NULL with an error. */
OrtrainCapture *ortrain_execution_capture (OrtrainExecution *self, OrtrainPlanStream stream,
                                           const OrtrainKernelCall *calls, guint n_calls, GError **error);
gboolean ortrain_execution_launch (OrtrainExecution *self, OrtrainPlanStream stream, OrtrainCapture *capture,
                                   GError **error);
/* What is submitted to `waiting` from now on runs after what was submitted to `other`, up to the event's record if there
 * is an event. The host waits at once. */
gboolean ortrain_execution_wait_stream (OrtrainExecution *self, OrtrainPlanStream waiting, OrtrainPlanStream other,
                                        OrtrainEvent *event, GError **error);
gboolean ortrain_execution_record (OrtrainExecution *self, OrtrainPlanStream stream, OrtrainEvent *event,
                                   GError **error);
/* Copies to and from the memory of the device, in order with the calls. What read copies is there after the next wait.
 */
gboolean ortrain_execution_read (OrtrainExecution *self, gpointer destination, gconstpointer source, gsize n_bytes,
                                 GError **error);
gboolean ortrain_execution_write (OrtrainExecution *self, gpointer destination, gconstpointer source, gsize n_bytes,
                                  GError **error);
/* What the host reads at once: the device's memory itself if it may, else a copy, which the caller frees; NULL with an
 * error. copy: NULL if there is none. */
gconstpointer ortrain_execution_view (OrtrainExecution *self, gconstpointer address, gsize n_bytes, gpointer *copy,
                                      GError **error);
gboolean ortrain_execution_fill (OrtrainExecution *self, gpointer destination, guint8 byte, gsize n_bytes,
                                 GError **error);
/* Waits until what was submitted before the event was recorded has happened. */
gboolean ortrain_execution_await (OrtrainExecution *self, OrtrainEvent *event, GError **error);
/* Waits for all streams: before what they may still be at is freed. */
void ortrain_execution_drain (OrtrainExecution *self);
/* Waits until all of it has happened. fault: the first since begin; may be NULL. */
gboolean ortrain_execution_wait (OrtrainExecution *self, OrtrainFault *fault, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainExecution, ortrain_execution_free)
