/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-thread-pool-private.h"
#include "cpu/ortrain-cpu-isa-private.h"
#include "provider/ortrain-provider-private.h"

/* The CPU as a device. Its streams are its thread pool: calls have run when submit returns. A provider that runs these
 * kernels in another way begins with this structure. */
typedef struct
{
  OrtrainProvider parent;
  OrtrainThreadPool *pool; /* NULL: the calling thread alone */
  gboolean fixed_partition;
} OrtrainCpuProvider;

void ortrain_cpu_provider_init (OrtrainCpuProvider *self, const OrtrainProviderClass *klass,
                                const OrtrainProviderOptions *options);
void ortrain_cpu_provider_clear (OrtrainCpuProvider *self);
extern const OrtrainProviderClass ortrain_cpu_provider_class;

static inline OrtrainThreadPool *
ortrain_cpu_get_pool (const OrtrainKernelCall *call)
{
  return (OrtrainThreadPool *) call->context->stream;
}

/* The number of threads of the pool that run will get. */
static inline guint
ortrain_cpu_get_n_threads (const OrtrainKernelSetup *setup)
{
  return ortrain_thread_pool_get_n_threads (((const OrtrainCpuProvider *) setup->provider)->pool);
}

/* Cut library calls by shape alone: same bits at any number of threads. */
static inline gboolean
ortrain_cpu_has_fixed_partition (const OrtrainKernelSetup *setup)
{
  return ((const OrtrainCpuProvider *) setup->provider)->fixed_partition;
}
