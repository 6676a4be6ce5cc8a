/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The part of the CUDA runtime that the provider uses, as far as tests/simt emulates it on the host. Names, values and
 * behaviour are those of CUDA's documentation; structures have only the fields that are read. */

#include <stddef.h>

#ifdef __cplusplus
extern "C"
{
#endif

#define CUDART_VERSION 13000

  typedef enum
  {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidDevicePointer = 17,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorIllegalState = 401,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorMisalignedAddress = 716,
    cudaErrorAssert = 710,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureMerge = 902,
    cudaErrorStreamCaptureUnmatched = 903,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorCapturedEvent = 907,
    cudaErrorStreamCaptureWrongThread = 908,
  } cudaError_t;

  typedef struct OrtrainFakeStream *cudaStream_t;
  typedef struct OrtrainFakeEvent *cudaEvent_t;
  typedef struct OrtrainFakeGraph *cudaGraph_t;
  typedef struct OrtrainFakeGraphExec *cudaGraphExec_t;

  typedef enum
  {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
  } cudaMemcpyKind;

  typedef enum
  {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed,
  } cudaStreamCaptureMode;

  enum cudaStreamCaptureStatus
  {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated,
  };

#define cudaStreamNonBlocking 1
#define cudaEventDisableTiming 2
#define cudaHostAllocDefault 0

  enum cudaMemoryType
  {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged,
  };

  struct cudaPointerAttributes
  {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
  };

  struct cudaDeviceProp
  {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
    int multiProcessorCount;
    int l2CacheSize;
  };

  enum cudaDeviceAttr
  {
    cudaDevAttrClockRate = 13,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
  };

  cudaError_t cudaGetDeviceCount (int *count);
  cudaError_t cudaDeviceGetAttribute (int *value, enum cudaDeviceAttr attribute, int device);
  cudaError_t cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device);
  enum cudaDriverEntryPointQueryResult
  {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1,
  };
#define cudaEnableDefault 0

  cudaError_t cudaInitDevice (int device, unsigned int device_flags, unsigned int flags);
  cudaError_t cudaGetDriverEntryPointByVersion (const char *symbol, void **function, unsigned int version,
                                                unsigned long long flags, enum cudaDriverEntryPointQueryResult *result);
  cudaError_t cudaSetDevice (int device);
  cudaError_t cudaGetDevice (int *device);
  cudaError_t cudaDeviceSynchronize (void);
  cudaError_t cudaDriverGetVersion (int *version);
  cudaError_t cudaRuntimeGetVersion (int *version);
  cudaError_t cudaMalloc (void **address, size_t n_bytes);
  cudaError_t cudaFree (void *address);
  cudaError_t cudaHostAlloc (void **address, size_t n_bytes, unsigned int flags);
  cudaError_t cudaFreeHost (void *address);
  cudaError_t cudaPointerGetAttributes (struct cudaPointerAttributes *attributes, const void *address);
  cudaError_t cudaMemGetInfo (size_t *available, size_t *total);
  cudaError_t cudaMemset (void *address, int byte, size_t n_bytes);
  cudaError_t cudaMemcpyAsync (void *destination, const void *source, size_t n_bytes, cudaMemcpyKind kind,
                               cudaStream_t stream);
  cudaError_t cudaMemcpy2DAsync (void *destination, size_t destination_pitch, const void *source, size_t source_pitch,
                                 size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream);
  cudaError_t cudaMemsetAsync (void *address, int byte, size_t n_bytes, cudaStream_t stream);
  cudaError_t cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned int flags);
  cudaError_t cudaStreamDestroy (cudaStream_t stream);
  cudaError_t cudaStreamSynchronize (cudaStream_t stream);
  cudaError_t cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned int flags);
  cudaError_t cudaEventCreateWithFlags (cudaEvent_t *event, unsigned int flags);
  cudaError_t cudaEventDestroy (cudaEvent_t event);
  cudaError_t cudaEventRecord (cudaEvent_t event, cudaStream_t stream);
  cudaError_t cudaEventSynchronize (cudaEvent_t event);
  cudaError_t cudaEventQuery (cudaEvent_t event);
  cudaError_t cudaEventElapsedTime (float *milliseconds, cudaEvent_t begin, cudaEvent_t end);
  cudaError_t cudaStreamBeginCapture (cudaStream_t stream, cudaStreamCaptureMode mode);
  cudaError_t cudaStreamIsCapturing (cudaStream_t stream, enum cudaStreamCaptureStatus *status);
  cudaError_t cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph);
  cudaError_t cudaGraphInstantiate (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
  cudaError_t cudaGraphLaunch (cudaGraphExec_t exec, cudaStream_t stream);
  cudaError_t cudaGraphDestroy (cudaGraph_t graph);
  cudaError_t cudaGraphExecDestroy (cudaGraphExec_t exec);
  cudaError_t cudaGetLastError (void);
  cudaError_t cudaPeekAtLastError (void);
  const char *cudaGetErrorName (cudaError_t error);
  const char *cudaGetErrorString (cudaError_t error);

#ifdef __cplusplus
}
#endif
