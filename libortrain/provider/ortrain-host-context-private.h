/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-provider-private.h"

/* A kernel context in the host's memory, for kernels of the CPU that run outside of a program: evaluation while a plan
 * is made, models that are run node by node, tests. It must not move once it is initialized. */
typedef struct
{
  OrtrainProvider *provider; /* one that reads the host's memory; no reference */
  OrtrainKernelContext context;
  OrtrainStepBlock step;
  OrtrainFault fault;
} OrtrainHostContext;

/* stream: of the provider; NULL: the calling thread. */
static inline void
ortrain_host_context_init (OrtrainHostContext *self, OrtrainProvider *provider, OrtrainStream *stream)
{
  memset (self, 0, sizeof *self);
  self->provider = provider;
  self->context = (OrtrainKernelContext){ .stream = stream, .step = &self->step, .fault = &self->fault };
}
