/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-provider-private.h"

#include <gmodule.h>

const OrtrainLibraryFunctions *ortrain_cuda_library;

static const OrtrainProviderModule module = {
  .version = ORTRAIN_MODULE_VERSION,
  .n_bytes = sizeof (OrtrainProviderModule),
  .name = "cuda",
  .score = 100,
  .get_reason = ortrain_cuda_get_reason,
  .get_n_devices = ortrain_cuda_get_n_devices,
  .describe = ortrain_cuda_describe,
  .open = ortrain_cuda_provider_new,
};

G_MODULE_EXPORT const OrtrainProviderModule *ortrain_provider_module (const OrtrainLibraryFunctions *functions);

const OrtrainProviderModule *
ortrain_provider_module (const OrtrainLibraryFunctions *functions)
{
  if (functions->version != ORTRAIN_MODULE_VERSION || functions->n_bytes != sizeof *functions)
    return NULL;
  ortrain_cuda_library = functions;
  return &module;
}
