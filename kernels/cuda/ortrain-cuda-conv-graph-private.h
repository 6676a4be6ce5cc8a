/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-conv-private.h"
#include "cuda/ortrain-cuda-dnn-private.h"

G_BEGIN_DECLS

/* A convolution, or its gradient, as cuDNN's graph; type is the operation's descriptor. Tensors stand in the order of the
 * call's operands: inputs, bias, output. with_bias: of the forward convolution; no engine
 * adds one to a gradient. */
void ortrain_dnn_compose_convolution (OrtrainDnnGraph *graph, const OrtrainCudaConv *conv,
                                      cudnnBackendDescriptorType_t type, gboolean with_bias);

G_END_DECLS
