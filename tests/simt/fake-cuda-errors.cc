/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-internal.h"

#include <atomic>
#include <cstdlib>

/* Settings of the emulated runtime, and its errors. */

uint64_t
fake_cuda_get_setting (const char *name, uint64_t fallback)
{
  const char *text = getenv (name);
  return text != nullptr && *text != '\0' ? strtoull (text, nullptr, 10) : fallback;
}

static std::atomic<int> sticky[FAKE_CUDA_MAX_DEVICES]; /* a device is lost: every call on it says so */
static thread_local cudaError_t last_error;            /* of this thread, until it is asked for */

cudaError_t
fake_cuda_report (cudaError_t error)
{
  if (error != cudaSuccess)
    last_error = error;
  return error;
}

cudaError_t
fake_cuda_get_sticky_of (int device)
{
  return (cudaError_t) sticky[device].load ();
}

cudaError_t
fake_cuda_get_sticky (void)
{
  return fake_cuda_get_sticky_of (fake_cuda_get_device ());
}

void
fake_cuda_lose (cudaError_t error)
{
  int none = cudaSuccess;
  sticky[fake_cuda_get_device ()].compare_exchange_strong (none, error);
}

cudaError_t
cudaGetLastError (void)
{
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t
cudaPeekAtLastError (void)
{
  return last_error;
}

#define NAMED(code)                                                                                                    \
  case code:                                                                                                           \
    return #code

const char *
cudaGetErrorName (cudaError_t error)
{
  switch (error)
    {
      NAMED (cudaSuccess);
      NAMED (cudaErrorInvalidValue);
      NAMED (cudaErrorMemoryAllocation);
      NAMED (cudaErrorInvalidDevicePointer);
      NAMED (cudaErrorInsufficientDriver);
      NAMED (cudaErrorNoDevice);
      NAMED (cudaErrorInvalidDevice);
      NAMED (cudaErrorDevicesUnavailable);
      NAMED (cudaErrorInvalidResourceHandle);
      NAMED (cudaErrorNotReady);
      NAMED (cudaErrorIllegalAddress);
      NAMED (cudaErrorMisalignedAddress);
      NAMED (cudaErrorAssert);
      NAMED (cudaErrorLaunchFailure);
      NAMED (cudaErrorStreamCaptureUnsupported);
      NAMED (cudaErrorStreamCaptureInvalidated);
      NAMED (cudaErrorIllegalState);
      NAMED (cudaErrorStreamCaptureMerge);
      NAMED (cudaErrorStreamCaptureUnmatched);
      NAMED (cudaErrorStreamCaptureUnjoined);
      NAMED (cudaErrorStreamCaptureIsolation);
      NAMED (cudaErrorCapturedEvent);
      NAMED (cudaErrorStreamCaptureWrongThread);
    }
  return "unrecognized error code";
}

const char *
cudaGetErrorString (cudaError_t error)
{
  switch (error)
    {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "emulated error";
    }
}
