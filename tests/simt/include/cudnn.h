/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The part of cuDNN's backend that the provider uses, as tests/simt emulates it. Values are those of cuDNN 9. */

#include "cuda_runtime_api.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

  typedef enum
  {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_EXECUTION_FAILED = 5000,
  } cudnnStatus_t;

  typedef struct OrtrainFakeDnn *cudnnHandle_t;
  typedef void *cudnnBackendDescriptor_t;
  typedef int cudnnBackendDescriptorType_t;
  typedef int cudnnBackendAttributeName_t;
  typedef int cudnnBackendAttributeType_t;

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
