/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The part of the driver's functions that the provider asks the runtime for. */

#ifdef __cplusplus
extern "C"
{
#endif

  typedef enum
  {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
  } CUresult;

  typedef int CUdevice;
  typedef struct OrtrainFakeContext *CUcontext;

  CUresult cuDeviceGet (CUdevice *device, int ordinal);
  CUresult cuDevicePrimaryCtxRetain (CUcontext *context, CUdevice device);
  CUresult cuCtxPushCurrent (CUcontext context);
  CUresult cuCtxPopCurrent (CUcontext *context);

#ifdef __cplusplus
}
#endif
