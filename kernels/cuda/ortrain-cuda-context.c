/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-context-private.h"

#include "cuda/ortrain-cuda-library-private.h"

#include <cuda.h>

struct _OrtrainCudaContext
{
  guint device;
  CUcontext context;
  GMutex lock;
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
};

/* The driver's functions: nothing links against it, since there are machines without. */
static struct
{
  __typeof__ (&cuDeviceGet) device_get;
  __typeof__ (&cuDevicePrimaryCtxRetain) retain;
  __typeof__ (&cuCtxPushCurrent) push;
  __typeof__ (&cuCtxPopCurrent) pop;
} driver;

static gboolean
find_function (const char *name, void **function, GError **error)
{
  enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code = cudaGetDriverEntryPointByVersion (name, function, 12000, cudaEnableDefault, &found);
  if (code == cudaSuccess && found == cudaDriverEntryPointSuccess && *function != NULL)
    return TRUE;
  cudaGetLastError ();
  g_set_error (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
               "The NVIDIA driver has no function %s: it is of another version", name);
  return FALSE;
}

static gboolean
find_driver (GError **error)
{
  return find_function ("cuDeviceGet", (void **) &driver.device_get, error) &&
         find_function ("cuDevicePrimaryCtxRetain", (void **) &driver.retain, error) &&
         find_function ("cuCtxPopCurrent", (void **) &driver.pop, error) &&
         find_function ("cuCtxPushCurrent", (void **) &driver.push, error);
}

static gboolean
fail (cudaError_t code, const char *what, guint device, GError **error)
{
  cudaGetLastError ();
  g_set_error (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_FAILED,
               "The device 'cuda' failed at %s (number %u): %s (%s)", what, device, cudaGetErrorString (code),
               cudaGetErrorName (code));
  return FALSE;
}

static gboolean
open_context (OrtrainCudaContext *self, GError **error)
{
  CUdevice device;
  const cudaError_t code = cudaInitDevice ((int) self->device, 0, 0);
  if (code != cudaSuccess)
    return fail (code, "opening a device", self->device, error);
  if (driver.push == NULL && !find_driver (error))
    return FALSE;
  if (driver.device_get (&device, (int) self->device) != CUDA_SUCCESS ||
      driver.retain (&self->context, device) != CUDA_SUCCESS)
    return fail (cudaErrorDevicesUnavailable, "opening its context", self->device, error);
  return TRUE;
}

OrtrainCudaContext *
ortrain_cuda_context_open (guint device, GError **error)
{
  static GMutex lock;
  static GPtrArray *contexts;
  OrtrainCudaContext *self = NULL;
  g_mutex_lock (&lock);
  if (contexts == NULL)
    contexts = g_ptr_array_new ();
  for (guint i = 0; i < contexts->len; i++)
    if (((const OrtrainCudaContext *) contexts->pdata[i])->device == device)
      self = contexts->pdata[i];
  if (self == NULL)
    {
      self = g_new0 (OrtrainCudaContext, 1);
      self->device = device;
      g_mutex_init (&self->lock);
      if (open_context (self, error))
        g_ptr_array_add (contexts, self);
      else
        {
          g_mutex_clear (&self->lock);
          g_clear_pointer (&self, g_free);
        }
    }
  g_mutex_unlock (&lock);
  return self;
}

guint
ortrain_cuda_context_get_device (const OrtrainCudaContext *self)
{
  return self->device;
}

gboolean
ortrain_cuda_context_push (const OrtrainCudaContext *self)
{
  return self != NULL && driver.push (self->context) == CUDA_SUCCESS;
}

void
ortrain_cuda_context_pop (const gboolean *is_pushed)
{
  CUcontext context;
  if (*is_pushed)
    driver.pop (&context);
}

cublasLtHandle_t
ortrain_cuda_context_get_blas (OrtrainCudaContext *self)
{
  ORTRAIN_CUDA_ON_DEVICE (self);
  const OrtrainCublasLt *api = ortrain_cuda_open_cublaslt (NULL);
  g_mutex_lock (&self->lock);
  if (self->blas == NULL && (api == NULL || api->cublasLtCreate (&self->blas) != CUBLAS_STATUS_SUCCESS))
    self->blas = NULL;
  cublasLtHandle_t handle = self->blas;
  g_mutex_unlock (&self->lock);
  return handle;
}

cudnnHandle_t
ortrain_cuda_context_get_dnn (OrtrainCudaContext *self)
{
  ORTRAIN_CUDA_ON_DEVICE (self);
  const OrtrainCudnn *api = ortrain_cuda_open_cudnn (NULL);
  g_mutex_lock (&self->lock);
  if (self->dnn == NULL && (api == NULL || api->cudnnCreate (&self->dnn) != CUDNN_STATUS_SUCCESS))
    self->dnn = NULL;
  cudnnHandle_t handle = self->dnn;
  g_mutex_unlock (&self->lock);
  return handle;
}
