/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda.h"
#include "fake-cuda-counts.h"
#include "fake-cuda-internal.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/* The devices, and which of them is the calling thread's: the context that was pushed last, or else the device that
 * cudaSetDevice has chosen. */

struct OrtrainFakeContext
{
  int device;
};

static thread_local int chosen;
static thread_local std::vector<int> pushed;
static std::atomic<bool> is_initialized[FAKE_CUDA_MAX_DEVICES];

int
fake_cuda_get_n_devices (void)
{
  const uint64_t n = fake_cuda_get_setting ("ORTRAIN_FAKE_CUDA_DEVICES", 1);
  return getenv ("ORTRAIN_FAKE_CUDA_NONE") != nullptr ? 0 : n < FAKE_CUDA_MAX_DEVICES ? (int) n : FAKE_CUDA_MAX_DEVICES;
}

int
fake_cuda_get_device (void)
{
  return pushed.empty () ? chosen : pushed.back ();
}

int
fake_cuda_use_device (void)
{
  const int device = fake_cuda_get_device ();
  is_initialized[device] = true;
  return device;
}

void
fake_cuda_choose_device (int device)
{
  (pushed.empty () ? chosen : pushed.back ()) = device;
}

/* CUDA itself lets some of these pass, as copies between devices, or waits for an event of another one. The provider
 * never wants them. */
cudaError_t
fake_cuda_check_device (int device, cudaError_t error)
{
  if (device == fake_cuda_get_device ())
    return cudaSuccess;
  COUNT (n_foreign);
  return fake_cuda_report (error);
}

int
ortrain_fake_cuda_is_current (int device)
{
  return fake_cuda_check_device (device, cudaErrorInvalidResourceHandle) == cudaSuccess;
}

int
ortrain_fake_cuda_is_initialized (int device)
{
  return is_initialized[device];
}

cudaError_t
cudaGetDeviceCount (int *count)
{
  *count = fake_cuda_get_n_devices ();
  return *count > 0 ? cudaSuccess : fake_cuda_report (cudaErrorNoDevice);
}

/* The attributes that the runtime reports for models of real devices. */
struct Model
{
  const char *key, *name;
  int major, minor, processors, kilohertz, memory_kilohertz, bus_bits;
};

static const Model models[] = {
  { "a100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 1410000, 1593000, 5120 },
  { "h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 1980000, 2619000, 5120 },
  { "h200", "NVIDIA H200", 9, 0, 132, 1980000, 3201000, 6144 },
  { "unknown", "NVIDIA Unknown", 13, 0, 10, 0, 0, 0 },
};

/* As fast as an H100 whatever the number of its multiprocessors, so that plans are those of one. */
static Model
get_model (void)
{
  const char *key = getenv ("ORTRAIN_FAKE_CUDA_MODEL");
  for (const Model &model : models)
    if (key != nullptr && !strcmp (model.key, key))
      return model;
  const int n = (int) fake_cuda_get_setting ("ORTRAIN_FAKE_CUDA_PROCESSORS", 2);
  return { "", "emulated on the host", 9, 0, n, 132 * 1980000 / (n > 0 ? n : 1), 2619000, 5120 };
}

cudaError_t
cudaDeviceGetAttribute (int *value, enum cudaDeviceAttr attribute, int device)
{
  const Model model = get_model ();
  if (device < 0 || device >= fake_cuda_get_n_devices ())
    return fake_cuda_report (cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrClockRate         ? model.kilohertz
           : attribute == cudaDevAttrMemoryClockRate ? model.memory_kilohertz
                                                     : model.bus_bits;
  return cudaSuccess;
}

cudaError_t
cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device)
{
  const Model model = get_model ();
  *properties = {};
  snprintf (properties->name, sizeof properties->name, "%s", model.name);
  properties->totalGlobalMem = fake_cuda_get_total ();
  properties->major = model.major;
  properties->minor = model.minor;
  properties->multiProcessorCount = model.processors;
  properties->l2CacheSize = 1 << 20;
  return device >= 0 && device < fake_cuda_get_n_devices () ? cudaSuccess : fake_cuda_report (cudaErrorInvalidDevice);
}

cudaError_t
cudaInitDevice (int device, unsigned int device_flags, unsigned int flags)
{
  if (device < 0 || device >= fake_cuda_get_n_devices ())
    return fake_cuda_report (cudaErrorInvalidDevice);
  is_initialized[device] = true;
  return fake_cuda_report (fake_cuda_get_sticky_of (device));
}

cudaError_t
cudaSetDevice (int device)
{
  const cudaError_t error = cudaInitDevice (device, 0, 0); /* since CUDA 12 */
  if (error != cudaErrorInvalidDevice)
    fake_cuda_choose_device (device);
  return error;
}

cudaError_t
cudaGetDevice (int *device)
{
  *device = fake_cuda_get_device ();
  return cudaSuccess;
}

cudaError_t
cudaDriverGetVersion (int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion (int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

/* ---- the driver ---- */

CUresult
cuDeviceGet (CUdevice *device, int ordinal)
{
  *device = ordinal;
  return ordinal >= 0 && ordinal < fake_cuda_get_n_devices () ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDevicePrimaryCtxRetain (CUcontext *context, CUdevice device)
{
  static OrtrainFakeContext contexts[FAKE_CUDA_MAX_DEVICES];
  if (device < 0 || device >= fake_cuda_get_n_devices ())
    return CUDA_ERROR_INVALID_DEVICE;
  contexts[device].device = device;
  is_initialized[device] = true;
  *context = &contexts[device];
  return CUDA_SUCCESS;
}

CUresult
cuCtxPushCurrent (CUcontext context)
{
  if (context == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  pushed.push_back (context->device);
  return CUDA_SUCCESS;
}

CUresult
cuCtxPopCurrent (CUcontext *context)
{
  if (pushed.empty ())
    return CUDA_ERROR_INVALID_CONTEXT;
  cuDevicePrimaryCtxRetain (context, pushed.back ());
  pushed.pop_back ();
  return CUDA_SUCCESS;
}

cudaError_t
cudaGetDriverEntryPointByVersion (const char *symbol, void **function, unsigned int version, unsigned long long flags,
                                  enum cudaDriverEntryPointQueryResult *result)
{
  static const struct
  {
    const char *name;
    void *function;
  } functions[] = {
    { "cuDeviceGet", (void *) cuDeviceGet },
    { "cuDevicePrimaryCtxRetain", (void *) cuDevicePrimaryCtxRetain },
    { "cuCtxPushCurrent", (void *) cuCtxPushCurrent },
    { "cuCtxPopCurrent", (void *) cuCtxPopCurrent },
  };
  *function = nullptr;
  for (const auto &each : functions)
    if (!strcmp (each.name, symbol))
      *function = each.function;
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
