/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-conv-private.h"
#include "cuda/ortrain-cuda-dnn-private.h"

G_BEGIN_DECLS

/* A convolution, or its gradient, as cuDNN's graph; type is the operation's descriptor. Tensors are in the order of the
 * call's operands: inputs, bias, output. with_bias: only for the forward convolution; no engine adds a bias to a
 * gradient. */
void ortrain_dnn_compose_convolution (OrtrainDnnGraph *graph, const OrtrainCudaConv *conv,
                                      cudnnBackendDescriptorType_t type, gboolean with_bias);

/* How cuDNN computes one, and in which types. */
typedef struct
{
  OrtrainDnnPlan *plan;   /* NULL: it does not; plain kernels do */
  gboolean adds_bias;     /* in the same graph */
  OrtrainDType dtypes[3]; /* types of both inputs and the result of its graph; other operands are converted */
} OrtrainCudaConvPlan;

/* The types that the operation has, in the order of its operands. */
void ortrain_cuda_conv_get_dtypes (const OrtrainCudaConv *conv, cudnnBackendDescriptorType_t type,
                                   OrtrainDType dtypes[3]);
/* refusal: why there is no plan. */
void ortrain_cuda_conv_plan (const OrtrainCudaConv *conv, cudnnBackendDescriptorType_t type, gboolean has_bias,
                             const OrtrainDnnTarget *target, OrtrainCudaConvPlan *result, GError **refusal);

G_END_DECLS
