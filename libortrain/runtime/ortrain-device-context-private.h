/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan/ortrain-plan-tables-private.h"
#include "tensor/ortrain-tensor-private.h"

/* The resources with which the programs of a session run: a provider and its streams, the host for nodes without a
 * kernel on the device, and in the memory of both the scalars of a step and the fault word. Externally synchronised. */
typedef struct _OrtrainDeviceContext OrtrainDeviceContext;

/* host: NULL for the one of the library, which runs on the calling thread. */
OrtrainDeviceContext *ortrain_device_context_new (OrtrainProvider *provider, OrtrainProvider *host, GError **error);
void ortrain_device_context_free (OrtrainDeviceContext *self);

OrtrainProvider *ortrain_device_context_get_provider (OrtrainDeviceContext *self); /* transfer none */
OrtrainProvider *ortrain_device_context_get_host (OrtrainDeviceContext *self);     /* transfer none */
OrtrainStream *ortrain_device_context_get_stream (OrtrainDeviceContext *self);
/* Creates the provider's stream for a plan's stream, if it does not exist yet. That of computing always does. */
gboolean ortrain_device_context_open_stream (OrtrainDeviceContext *self, OrtrainPlanStream stream, GError **error);
/* For calls; at the same address as long as the execution lives. */
const OrtrainKernelContext *ortrain_device_context_peek_context (OrtrainDeviceContext *self, OrtrainPlanStream stream);

/* A valid address for empty tensors. */
gpointer ortrain_device_context_get_empty_address (OrtrainDeviceContext *self);

/* The contents of a tensor of the host, where kernels read them: itself if they can, else a copy that is created once,
 * and kept until the last reference goes. */
gboolean ortrain_device_context_ref_constant (OrtrainDeviceContext *self, OrtrainTensor *tensor, gpointer *address,
                                              GError **error);
void ortrain_device_context_unref_constant (OrtrainDeviceContext *self, OrtrainTensor *tensor);

/* Writes the scalars for the calls that are submitted from now on, and clears the fault. */
gboolean ortrain_device_context_begin (OrtrainDeviceContext *self, const OrtrainStepBlock *step, GError **error);
/* Like begin, but after a pending step: keeps its fault, so that later updates are skipped. */
gboolean ortrain_device_context_begin_chained (OrtrainDeviceContext *self, const OrtrainStepBlock *step,
                                               GError **error);
/* The fault of the calls so far; it is there after the next wait. */
gboolean ortrain_device_context_read_fault (OrtrainDeviceContext *self, OrtrainFault *destination, GError **error);
/* Calls of one program, in order. Those of the host have run when this returns; FALSE without an error if one of them
 * found a fault. */
gboolean ortrain_device_context_submit (OrtrainDeviceContext *self, OrtrainPlanStream stream,
                                        const OrtrainKernelCall *calls, guint n_calls, GCancellable *cancellable,
                                        GError **error);
/* Sets the current program. Returns TRUE if it was already current. */
gboolean ortrain_device_context_set_current_program (OrtrainDeviceContext *self, gconstpointer program);
void ortrain_device_context_forget_program (OrtrainDeviceContext *self, gconstpointer program);
/* Makes one capture of calls whose addresses do not change, and submits it. NULL with an error. */
OrtrainCapture *ortrain_device_context_capture (OrtrainDeviceContext *self, OrtrainPlanStream stream,
                                                const OrtrainKernelCall *calls, guint n_calls, GError **error);
gboolean ortrain_device_context_launch (OrtrainDeviceContext *self, OrtrainPlanStream stream, OrtrainCapture *capture,
                                        GError **error);
/* Work submitted to `waiting` from now on runs after the work submitted to `other`, up to the event's record if an
 * event is given. The host waits at once. */
gboolean ortrain_device_context_wait_stream (OrtrainDeviceContext *self, OrtrainPlanStream waiting,
                                             OrtrainPlanStream other, OrtrainEvent *event, GError **error);
gboolean ortrain_device_context_record (OrtrainDeviceContext *self, OrtrainPlanStream stream, OrtrainEvent *event,
                                        GError **error);
/* Copies to and from the memory of the device, in order with the calls. Data copied by read are available after the
 * next wait.
 */
gboolean ortrain_device_context_read (OrtrainDeviceContext *self, gpointer destination, gconstpointer source,
                                      gsize n_bytes, GError **error);
gboolean ortrain_device_context_write (OrtrainDeviceContext *self, gpointer destination, gconstpointer source,
                                       gsize n_bytes, GError **error);
/* Memory that the host can read at once: the device's memory itself if the host may read it, else a copy, which the
 * caller frees; NULL with an error. *copy: NULL if no copy was needed. */
gconstpointer ortrain_device_context_view (OrtrainDeviceContext *self, gconstpointer address, gsize n_bytes,
                                           gpointer *copy, GError **error);
gboolean ortrain_device_context_fill (OrtrainDeviceContext *self, gpointer destination, guint8 byte, gsize n_bytes,
                                      GError **error);
/* Waits for all work that was submitted before the event was recorded. */
gboolean ortrain_device_context_await (OrtrainDeviceContext *self, OrtrainEvent *event, GError **error);
/* Waits for all streams, before memory that they may still use is freed. */
void ortrain_device_context_drain (OrtrainDeviceContext *self);
/* Waits until all of it has happened. fault: the first since begin; may be NULL. */
gboolean ortrain_device_context_wait (OrtrainDeviceContext *self, OrtrainFault *fault, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainDeviceContext, ortrain_device_context_free)
