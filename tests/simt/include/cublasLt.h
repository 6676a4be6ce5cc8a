/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The part of cuBLASLt that the provider uses, as tests/simt emulates it. */

#include "cuda_runtime_api.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

  typedef enum
  {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
  } cublasStatus_t;

  typedef enum
  {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
  } cudaDataType_t;
  typedef cudaDataType_t cudaDataType;

  typedef enum
  {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
  } cublasComputeType_t;

  typedef enum
  {
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
  } cublasOperation_t;

  typedef struct OrtrainFakeBlas *cublasLtHandle_t;
  typedef struct OrtrainFakeMatmulDesc *cublasLtMatmulDesc_t;
  typedef struct OrtrainFakeMatrixLayout *cublasLtMatrixLayout_t;
  typedef struct OrtrainFakePreference *cublasLtMatmulPreference_t;

  typedef struct
  {
    uint64_t data[8];
  } cublasLtMatmulAlgo_t;

  typedef struct
  {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
  } cublasLtMatmulHeuristicResult_t;

  typedef enum
  {
    CUBLASLT_POINTER_MODE_HOST = 0,
    CUBLASLT_POINTER_MODE_DEVICE = 1,
  } cublasLtPointerMode_t;

  typedef enum
  {
    CUBLASLT_MATRIX_LAYOUT_LD = 4,
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
  } cublasLtMatrixLayoutAttribute_t;

  typedef enum
  {
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
  } cublasLtMatmulDescAttributes_t;

  typedef enum
  {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512,
  } cublasLtEpilogue_t;

  typedef enum
  {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
  } cublasLtMatmulPreferenceAttributes_t;

#define CUBLASLT_REDUCTION_SCHEME_NONE 0
#define CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE 2

  cublasStatus_t cublasLtCreate (cublasLtHandle_t *handle);
  cublasStatus_t cublasLtDestroy (cublasLtHandle_t handle);
  size_t cublasLtGetVersion (void);
  cublasStatus_t cublasLtMatmulDescCreate (cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                           cudaDataType_t scale);
  cublasStatus_t cublasLtMatmulDescDestroy (cublasLtMatmulDesc_t desc);
  cublasStatus_t cublasLtMatmulDescSetAttribute (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                                 const void *value, size_t n_bytes);
  cublasStatus_t cublasLtMatrixLayoutCreate (cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                             uint64_t columns, int64_t ld);
  cublasStatus_t cublasLtMatrixLayoutDestroy (cublasLtMatrixLayout_t layout);
  cublasStatus_t cublasLtMatrixLayoutSetAttribute (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                   const void *value, size_t n_bytes);
  cublasStatus_t cublasLtMatmulPreferenceCreate (cublasLtMatmulPreference_t *preference);
  cublasStatus_t cublasLtMatmulPreferenceDestroy (cublasLtMatmulPreference_t preference);
  cublasStatus_t cublasLtMatmulPreferenceSetAttribute (cublasLtMatmulPreference_t preference,
                                                       cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                       size_t n_bytes);
  cublasStatus_t cublasLtMatmulAlgoGetHeuristic (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                 cublasLtMatmulPreference_t preference, int n_wanted,
                                                 cublasLtMatmulHeuristicResult_t results[], int *n_found);
  cublasStatus_t cublasLtMatmulAlgoCheck (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                          const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result);
  cublasStatus_t cublasLtMatmul (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                                 cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                                 const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                 cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                                 size_t workspace_bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
