/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-conv-graph-private.h"

/* In which types cuDNN computes a convolution or its gradient. It takes operands and results of one type; where they
 * differ,
 *  - the gradient of weights in float32 from operands in bfloat16 is computed in bfloat16 and then widened: tensor
 * cores sum in float32, and the sum is rounded once, where float32 throughout has a quarter of their speed and has to
 * copy both operands;
 *  - else operands are widened to float32, and the result is rounded once, at the end: products of numbers that had 16
 * bits are exact in TF32. So are weight gradients from float16, whose sums may exceed its range. */

void
ortrain_cuda_conv_get_dtypes (const OrtrainCudaConv *conv, cudnnBackendDescriptorType_t type, OrtrainDType dtypes[3])
{
  const gboolean forward = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const gboolean of_weights = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  dtypes[0] = forward ? conv->large_dtype : conv->small_dtype;
  dtypes[1] = of_weights ? conv->large_dtype : conv->weight_dtype;
  dtypes[2] = forward ? conv->small_dtype : of_weights ? conv->weight_dtype : conv->large_dtype;
}

/* In one type throughout. */
static gboolean
try_plan (const OrtrainCudaConv *conv, OrtrainDType dtype, cudnnBackendDescriptorType_t type, gboolean adds_bias,
          gboolean exact_in_tf32, const OrtrainDnnTarget *target, OrtrainCudaConvPlan *result, GError **refusal)
{
  OrtrainCudaConv uniform = *conv;
  OrtrainDnnTarget allowed = *target;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  uniform.large_dtype = uniform.small_dtype = uniform.weight_dtype = dtype;
  allowed.allow_tf32 = target->allow_tf32 || exact_in_tf32;
  ortrain_dnn_compose_convolution (graph, &uniform, type, adds_bias);
  g_clear_error (refusal);
  result->plan = ortrain_dnn_plan (graph, &allowed, refusal);
  result->adds_bias = adds_bias && result->plan != NULL;
  for (guint i = 0; i < 3; i++)
    result->dtypes[i] = dtype;
  return result->plan != NULL;
}

void
ortrain_cuda_conv_plan (const OrtrainCudaConv *conv, cudnnBackendDescriptorType_t type, gboolean has_bias,
                        const OrtrainDnnTarget *target, OrtrainCudaConvPlan *result, GError **refusal)
{
  OrtrainDType dtypes[3];
  *result = (OrtrainCudaConvPlan){ 0 };
  ortrain_cuda_conv_get_dtypes (conv, type, dtypes);
  const OrtrainDType dtype = dtypes[0];
  const gboolean uniform = dtype == dtypes[1] && dtype == dtypes[2];
  const gboolean narrow = dtype != ORTRAIN_DTYPE_FLOAT32 && dtypes[1] != ORTRAIN_DTYPE_FLOAT32;
  if (uniform && has_bias && type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
      try_plan (conv, dtype, type, TRUE, FALSE, target, result, refusal))
    return;
  /* a bias is added afterwards, to a result that is not rounded yet */
  if (uniform && (!has_bias || dtype == ORTRAIN_DTYPE_FLOAT32) &&
      try_plan (conv, dtype, type, FALSE, FALSE, target, result, refusal))
    return;
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR && dtype == ORTRAIN_DTYPE_BFLOAT16 &&
      dtypes[1] == dtype && dtypes[2] == ORTRAIN_DTYPE_FLOAT32 &&
      try_plan (conv, dtype, type, FALSE, FALSE, target, result, refusal))
    return;
  if (!uniform || dtype != ORTRAIN_DTYPE_FLOAT32)
    try_plan (conv, ORTRAIN_DTYPE_FLOAT32, type, FALSE, narrow, target, result, refusal);
}
