/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The part of cuDNN's backend that the provider uses, as tests/simt emulates it. Values are those of cuDNN 9. */

#include "cuda_runtime_api.h"
#include "cudnn-values.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

#define ORTRAIN_FAKE_CUDNN_VALUE(name, value) name = value,

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_DATA_TYPES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnDataType_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_REDUCTIONS (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnReduceTensorOp_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_CONVOLUTION_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnConvolutionMode_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_HEUR_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendHeurMode_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_POINTWISE_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnPointwiseMode_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_RESAMPLE_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnResampleMode_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_NAN_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnNanPropagation_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_PADDING_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnPaddingMode_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_NORM_MODES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendNormMode_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_NORM_PHASES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendNormFwdPhase_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_NUMERICAL_NOTES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendNumericalNote_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_BEHAVIOR_NOTES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendBehaviorNote_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_DESCRIPTOR_TYPES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendDescriptorType_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_ATTRIBUTE_TYPES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendAttributeType_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_ATTRIBUTE_NAMES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnBackendAttributeName_t;

  typedef enum
  {
    ORTRAIN_FAKE_CUDNN_STATUSES (ORTRAIN_FAKE_CUDNN_VALUE)
  } cudnnStatus_t;

#undef ORTRAIN_FAKE_CUDNN_VALUE

  typedef struct OrtrainFakeDnn *cudnnHandle_t;
  typedef void *cudnnBackendDescriptor_t;

  cudnnStatus_t cudnnCreate (cudnnHandle_t *handle);
  cudnnStatus_t cudnnDestroy (cudnnHandle_t handle);
  cudnnStatus_t cudnnSetStream (cudnnHandle_t handle, cudaStream_t stream);
  size_t cudnnGetVersion (void);
  const char *cudnnGetErrorString (cudnnStatus_t status);
  void cudnnGetLastErrorString (char *message, size_t n_bytes);
  cudnnStatus_t cudnnBackendCreateDescriptor (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor);
  cudnnStatus_t cudnnBackendDestroyDescriptor (cudnnBackendDescriptor_t descriptor);
  cudnnStatus_t cudnnBackendSetAttribute (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                          cudnnBackendAttributeType_t type, int64_t n, const void *elements);
  cudnnStatus_t cudnnBackendGetAttribute (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                          cudnnBackendAttributeType_t type, int64_t n_wanted, int64_t *n,
                                          void *elements);
  cudnnStatus_t cudnnBackendFinalize (cudnnBackendDescriptor_t descriptor);
  cudnnStatus_t cudnnBackendExecute (cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                     cudnnBackendDescriptor_t pack);

#ifdef __cplusplus
}
#endif
