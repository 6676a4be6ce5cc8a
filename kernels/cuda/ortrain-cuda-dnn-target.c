/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-choices-private.h"
#include "cuda/ortrain-cuda-dnn-private.h"

/* Engines that use tensor cores where channels are rows transpose in the workspace: that of ResNet-50's first layers,
 * at 256 images, is 600 MB. All steps of a plan share it. */
#define WORKSPACE_LIMIT ((guint64) 1 << 30)
#define WORKSPACE_PART 32     /* a large device gives a 32nd of its memory */
#define WORKSPACE_PART_MOST 8 /* at most an 8th of the device's memory, and of the session's limit */

static gsize
find_workspace_limit (const OrtrainCudaProvider *provider)
{
  const guint64 total = provider->total_memory, most = provider->options.memory_limit,
                least = provider->parent.workspace_limit;
  guint64 limit = MIN (MAX (WORKSPACE_LIMIT, total / WORKSPACE_PART), total / WORKSPACE_PART_MOST);
  if (most != 0)
    limit = MIN (limit, most / WORKSPACE_PART_MOST);
  return (gsize) (least != 0 ? MIN (limit, least) : limit);
}

void
ortrain_dnn_target_init (OrtrainDnnTarget *target, const OrtrainKernelSetup *setup)
{
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  *target = (OrtrainDnnTarget){ .context = provider->context,
                                .device = provider->identity,
                                .allow_tf32 = provider->options.allow_tf32,
                                .search = provider->options.conv_algo_search,
                                .workspace_limit = find_workspace_limit (provider) };
  if (target->search == ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE && !ortrain_cuda_choices_are_timed (provider))
    target->search = ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC;
}
