/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-dnn-private.h"
#include "cuda/ortrain-cuda-pool-private.h"

G_BEGIN_DECLS

/* A pool, or the gradient of averages, as cuDNN's graph of two tensors, the input and the output. FALSE: no graph says
 * the same. */
gboolean ortrain_dnn_compose_pool (OrtrainDnnGraph *graph, const OrtrainCudaPool *pool);

G_END_DECLS
