/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-kernel-private.h"

/* What an execution provider gives: memory, copies, streams, kernels. The CPU implements all of it, streams as the
 * trivial case, so that the executor has one path. */
struct _OrtrainProvider
{
  const char *name; /* "cpu" */
  const OrtrainKernel *(*find_kernel) (const OrtrainProvider *self, const char *domain, const char *op_type,
                                       OrtrainDType dtype);
  gpointer (*allocate) (const OrtrainProvider *self, gsize n_bytes, GError **error); /* aligned to 4096, zeroed */
  void (*free) (const OrtrainProvider *self, gpointer address, gsize n_bytes);
  gboolean (*copy_to_device) (const OrtrainProvider *self, gpointer to, gconstpointer from, gsize n_bytes,
                              GError **error);
  gboolean (*copy_to_host) (const OrtrainProvider *self, gpointer to, gconstpointer from, gsize n_bytes,
                            GError **error);
  gboolean (*synchronize) (const OrtrainProvider *self, OrtrainKernelFrame *frame, GError **error);
  guint64 (*get_total_memory) (const OrtrainProvider *self);
  guint64 (*get_free_memory) (const OrtrainProvider *self);
};

const OrtrainProvider *ortrain_provider_get_cpu (void); /* defined by kernels/cpu, built in */

/* Chooses the kernel for a set of operands: NULL and PLAN_ERROR_NO_KERNEL (with operator and type) when there is none.
 */
const OrtrainKernel *ortrain_provider_find (const OrtrainProvider *self, const char *domain, const char *op_type,
                                            const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs,
                                            guint n_outputs, GError **error);

/* Calls the kernel's prepare, if it has one. When that refuses, nothing is left in the setup. */
gboolean ortrain_kernel_prepare (const OrtrainKernel *kernel, OrtrainKernelSetup *setup, GError **error);
