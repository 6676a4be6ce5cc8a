/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* A pool with windows. One and two spatial dimensions are three, of which the first are 1. large: x, or its gradient.
 */
typedef struct
{
  gint64 n_images, n_channels;
  gint64 large[3], small[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
  gboolean channels_last;                 /* images are [kernel…, channels] */
  gboolean is_max, counts_pads, backward; /* backward: of averages, (dy) → dx */
  OrtrainDType dtype;                     /* of both operands */
} OrtrainCudaPool;

typedef struct _OrtrainDnnPlan OrtrainDnnPlan;

/* cuDNN's plan of a pool; NULL: it has none, or it would compute something else, and plain kernels do. For prepare,
 * whose workspace is set. FALSE: plain kernels may not. */
gboolean ortrain_cuda_pool_find_plan (OrtrainKernelSetup *setup, const OrtrainCudaPool *pool, OrtrainDnnPlan **plan,
                                      GError **error);
/* FALSE: nothing was submitted. */
gboolean ortrain_cuda_pool_run_plan (OrtrainDnnPlan *plan, const OrtrainKernelCall *call);

G_END_DECLS
