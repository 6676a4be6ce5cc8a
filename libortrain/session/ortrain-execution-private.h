/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-provider-private.h"
#include "tensor/ortrain-tensor-private.h"

/* What the programs of a session run with: a provider, one of its streams, and in the memory of the device the scalars
 * of a step and the fault word. Externally synchronised. */
typedef struct _OrtrainExecution OrtrainExecution;

OrtrainExecution *ortrain_execution_new (OrtrainProvider *provider, GError **error);
void ortrain_execution_free (OrtrainExecution *self);

OrtrainProvider *ortrain_execution_get_provider (OrtrainExecution *self); /* transfer none */
OrtrainStream *ortrain_execution_get_stream (OrtrainExecution *self);
/* For calls; at the same address as long as the execution lives. */
const OrtrainKernelContext *ortrain_execution_peek_context (OrtrainExecution *self);

/* In the memory of the device: for values without bytes. */
gpointer ortrain_execution_get_nothing (OrtrainExecution *self);

/* The contents of a tensor of the host, where kernels read them: itself if they can, else a copy that is created once,
 * and kept until the last reference goes. */
gboolean ortrain_execution_ref_constant (OrtrainExecution *self, OrtrainTensor *tensor, gpointer *address,
                                         GError **error);
void ortrain_execution_unref_constant (OrtrainExecution *self, OrtrainTensor *tensor);

/* Writes the scalars for the calls that are submitted from now on, and clears the fault. */
gboolean ortrain_execution_begin (OrtrainExecution *self, const OrtrainStepBlock *step, GError **error);
/* Calls of one program, in order. */
gboolean ortrain_execution_submit (OrtrainExecution *self, const OrtrainKernelCall *calls, guint n_calls,
                                   GCancellable *cancellable, GError **error);
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
/* Waits until all of it has happened. fault: the first since begin; may be NULL. */
gboolean ortrain_execution_wait (OrtrainExecution *self, OrtrainFault *fault, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainExecution, ortrain_execution_free)
