/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-pool-graph-private.h"

#include <string.h>

/* Pools that cuDNN computes with nothing more kept than our kernels keep: averages and their gradients, and
 * greatest numbers that no gradient asks the places of. A gradient of greatest numbers would need all of x and y, where
 * our kernel needs a byte for each element of y: cuDNN takes indices in other layouts only. */

/* At the end, cuDNN pads as far as the last window reaches; ONNX counts only the pads that the node names. FALSE:
 * windows are dilated, or one of them has no element, or counts more than ONNX does. */
static gboolean
describe_window (const OrtrainCudaPool *pool, guint first, OrtrainDnnWindow *window)
{
  *window = (OrtrainDnnWindow){ .rank = 3 - first };
  for (guint i = first; i < 3; i++)
    {
      const gint64 last = (pool->small[i] - 1) * pool->stride[i] - pool->pad[i]; /* where the last window begins */
      const gint64 behind = MAX (0, last + pool->kernel[i] - pool->large[i]);
      const gint64 room = pool->large[i] + pool->pad[i] + behind - pool->kernel[i];
      if (pool->dilation[i] != 1 || pool->pad[i] < 0 || pool->pad[i] >= pool->kernel[i] || last >= pool->large[i] ||
          room < 0 || room / pool->stride[i] + 1 != pool->small[i] || (pool->counts_pads && behind > pool->pad_end[i]))
        return FALSE;
      window->pad_begin[i - first] = pool->pad[i];
      window->pad_end[i - first] = behind;
      window->stride[i - first] = pool->stride[i];
      window->dilation[i - first] = 1;
      window->size[i - first] = pool->kernel[i];
    }
  return TRUE;
}

static int
add_side (OrtrainDnnGraph *graph, const OrtrainCudaPool *pool, const gint64 *dims, guint first)
{
  gint64 all[ORTRAIN_DNN_MAX_RANK] = { pool->n_images, pool->n_channels }, strides[ORTRAIN_DNN_MAX_RANK];
  memcpy (all + 2, dims + first, (3 - first) * sizeof *dims);
  ortrain_dnn_set_channels_last (all, 5 - first, strides);
  return ortrain_dnn_tensor (graph, ortrain_dnn_data_type (pool->dtype), 5 - first, all,
                             pool->channels_last ? strides : NULL);
}

gboolean
ortrain_dnn_compose_pool (OrtrainDnnGraph *graph, const OrtrainCudaPool *pool)
{
  const guint first = pool->large[0] == 1 && pool->small[0] == 1 && pool->kernel[0] == 1 && pool->pad[0] == 0 ? 1 : 0;
  const cudnnResampleMode_t mode = pool->is_max        ? CUDNN_RESAMPLE_MAXPOOL
                                   : pool->counts_pads ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                                       : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
  OrtrainDnnWindow window;
  if (pool->n_images < 1 || pool->n_channels < 1 || (pool->is_max && pool->backward) ||
      !describe_window (pool, first, &window))
    return FALSE;
  const int from = add_side (graph, pool, pool->backward ? pool->small : pool->large, first);
  const int to = add_side (graph, pool, pool->backward ? pool->large : pool->small, first);
  ortrain_dnn_pool (graph,
                    pool->backward ? CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR
                                   : CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
                    mode, &window, from, to);
  return TRUE;
}

gboolean
ortrain_cuda_pool_find_plan (OrtrainKernelSetup *setup, const OrtrainCudaPool *pool, OrtrainDnnPlan **plan,
                             GError **error)
{
  OrtrainDnnTarget target;
  g_autoptr (GError) refusal = NULL;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  *plan = NULL;
  /* without the library nothing is slower: there is nothing to say */
  if (ortrain_dnn_get_version () == 0 || !ortrain_dnn_compose_pool (graph, pool))
    return TRUE;
  ortrain_dnn_target_init (&target, setup);
  *plan = ortrain_dnn_plan (graph, &target, &refusal);
  if (*plan == NULL)
    return ortrain_cuda_fall_back (setup, "dnn-fallbacks", refusal->message, error);
  setup->workspace_bytes = ortrain_dnn_plan_get_workspace_bytes (*plan);
  return TRUE;
}

gboolean
ortrain_cuda_pool_run_plan (OrtrainDnnPlan *plan, const OrtrainKernelCall *call)
{
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { (void *) call->inputs[0], call->outputs[0] };
  return ortrain_dnn_run (plan, call, addresses, call->workspace);
}
