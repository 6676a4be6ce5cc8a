/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-host-context-private.h"

/* Kernels of the CPU run alone, outside of a session. */

static inline OrtrainProvider *
new_cpu (guint n_threads)
{
  const OrtrainProviderOptions options = { .n_threads = n_threads };
  return ortrain_provider_open ("cpu", &options, NULL);
}

/* provider: NULL: the calling thread alone. */
static inline void
init_context (OrtrainHostContext *context, OrtrainProvider *provider)
{
  if (provider == NULL)
    provider = ortrain_provider_get_host ();
  OrtrainStream *stream = NULL;
  provider->klass->new_stream (provider, &stream, NULL);
  ortrain_host_context_init (context, provider, stream);
}
