/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

#include <cublasLt.h>
#include <cudnn.h>

G_BEGIN_DECLS

/* NVIDIA's libraries, opened when the first operator needs one: a machine without them can still be asked what it
 * lacks. The folders of ORTRAIN_CUDA_LIBRARY_PATH are searched first, also as the `nvidia` packages of Python have
 * them, then the system's. */

#define ORTRAIN_CUBLASLT_FUNCTIONS(X)                                                                                  \
  X (cublasLtCreate)                                                                                                   \
  X (cublasLtDestroy)                                                                                                  \
  X (cublasLtGetVersion)                                                                                               \
  X (cublasLtMatmul)                                                                                                   \
  X (cublasLtMatmulAlgoGetHeuristic)                                                                                   \
  X (cublasLtMatmulAlgoCheck)                                                                                          \
  X (cublasLtMatmulDescCreate)                                                                                         \
  X (cublasLtMatmulDescDestroy)                                                                                        \
  X (cublasLtMatmulDescSetAttribute)                                                                                   \
  X (cublasLtMatmulPreferenceCreate)                                                                                   \
  X (cublasLtMatmulPreferenceDestroy)                                                                                  \
  X (cublasLtMatmulPreferenceSetAttribute)                                                                             \
  X (cublasLtMatrixLayoutCreate)                                                                                       \
  X (cublasLtMatrixLayoutDestroy)                                                                                      \
  X (cublasLtMatrixLayoutSetAttribute)

#define ORTRAIN_CUDNN_FUNCTIONS(X)                                                                                     \
  X (cudnnCreate)                                                                                                      \
  X (cudnnDestroy)                                                                                                     \
  X (cudnnSetStream)                                                                                                   \
  X (cudnnGetVersion)                                                                                                  \
  X (cudnnGetErrorString)                                                                                              \
  X (cudnnGetLastErrorString)                                                                                          \
  X (cudnnBackendCreateDescriptor)                                                                                     \
  X (cudnnBackendDestroyDescriptor)                                                                                    \
  X (cudnnBackendSetAttribute)                                                                                         \
  X (cudnnBackendGetAttribute)                                                                                         \
  X (cudnnBackendFinalize)                                                                                             \
  X (cudnnBackendExecute)

#define ORTRAIN_CUDA_FUNCTION(name) __typeof__ (&name) name;

typedef struct
{
  ORTRAIN_CUBLASLT_FUNCTIONS (ORTRAIN_CUDA_FUNCTION)
} OrtrainCublasLt;

typedef struct
{
  ORTRAIN_CUDNN_FUNCTIONS (ORTRAIN_CUDA_FUNCTION)
} OrtrainCudnn;

/* Collectives are for several devices; so far, only the version is asked for, which needs no header. */
#define ORTRAIN_NCCL_FUNCTIONS(X) X (ncclGetVersion)

typedef struct
{
  int (*ncclGetVersion) (int *version); /* 0: success */
} OrtrainNccl;

/* The functions, the same for the life of the process. NULL and DEVICE_ERROR_UNAVAILABLE where the library is missing,
 * or lacks a function. From any thread. */
const OrtrainCublasLt *ortrain_cuda_open_cublaslt (GError **error);
const OrtrainCudnn *ortrain_cuda_open_cudnn (GError **error);
/* 91900 for 9.19.0; 0: it is missing. */
gsize ortrain_dnn_get_version (void);
const OrtrainNccl *ortrain_cuda_open_nccl (GError **error);
/* "cuBLASLt 13.1.0, cuDNN 9.19.0, NCCL 2.28.9"; in the place of a version why the library cannot be opened. Transfer
 * full.
 */
char *ortrain_cuda_describe_libraries (void);

G_END_DECLS
