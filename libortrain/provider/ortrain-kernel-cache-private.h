/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-provider-private.h"

/* The answer of a kernel to a setup, with copies of all that it may point to. Immutable; reference counted, from any
 * thread. */
typedef struct
{
  const OrtrainKernel *kernel;
  gsize workspace_bytes;
  guint64 *inplace; /* [n_outputs]; see OrtrainKernelSetup */
  guint64 can_accumulate;
  double flops, bytes_moved; /* bytes_moved: never 0 for operands with bytes */
  gpointer constants;

  /*< private >*/
  gatomicrefcount ref_count;
  GDestroyNotify constants_free;
  OrtrainProvider *provider;
  guint64 workspace_limit; /* that the provider had */
  OrtrainAttributes *attributes;
  GObject *body;
  OrtrainOperand *operands; /* [n_inputs + n_outputs] */
  gint64 *dims;
  GPtrArray *contents; /* of operands that are known before the first step */
  guint n_inputs, n_outputs;
} OrtrainPreparedKernel;

OrtrainPreparedKernel *ortrain_prepared_kernel_ref (OrtrainPreparedKernel *self);
void ortrain_prepared_kernel_unref (OrtrainPreparedKernel *self);

/* Prepared kernels by their setup, so that a plan can be made many times, and equal layers ask once. Externally
 * synchronised. */
typedef struct _OrtrainKernelCache OrtrainKernelCache;

OrtrainKernelCache *ortrain_kernel_cache_new (void);
void ortrain_kernel_cache_free (OrtrainKernelCache *self);
/* Drops entries that no plan uses any more, except those found since the last call to prepare. */
void ortrain_kernel_cache_trim (OrtrainKernelCache *self);
/* Forgets constants that are not copied: their memory may be reused. */
void ortrain_kernel_cache_forget_contents (OrtrainKernelCache *self);
guint ortrain_kernel_cache_get_size (OrtrainKernelCache *self);
/* The largest workspace of a kernel of this provider. */
gsize ortrain_kernel_cache_find_largest_workspace (OrtrainKernelCache *self, const OrtrainProvider *provider);

/* Finds the kernel and prepares it, or finds that this was done before. setup: its inputs, the outputs follow the
 * inputs in one array; NULL with an error when there is no kernel or it refuses. cache: NULL prepares anew. Long
 * constants have to stay where they are until ortrain_kernel_cache_forget_contents (). */
OrtrainPreparedKernel *ortrain_kernel_cache_prepare (OrtrainKernelCache *self, OrtrainProvider *provider,
                                                     const OrtrainKernelSetup *setup, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainPreparedKernel, ortrain_prepared_kernel_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainKernelCache, ortrain_kernel_cache_free)
