/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-context-private.h"
#include "cuda/ortrain-cuda-library-private.h"
#include "cuda/ortrain-cuda-profile.h"
#include "cuda/ortrain-cuda-provider-private.h"

/* ---- errors ---- */

gboolean
ortrain_cuda_check (cudaError_t code, const char *what, GError **error)
{
  if (G_LIKELY (code == cudaSuccess))
    return TRUE;
  const gboolean is_of_kernel = code == cudaErrorIllegalAddress || code == cudaErrorMisalignedAddress ||
                                code == cudaErrorLaunchFailure || code == cudaErrorAssert;
  int device = 0;
  if (cudaGetDevice (&device) != cudaSuccess)
    device = 0;
  cudaGetLastError ();
  g_autofree char *number = device > 0 ? g_strdup_printf (":%d", device) : g_strdup ("");
  g_set_error (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_FAILED,
               "The device 'cuda%s' failed at %s: %s (%s)%s", number, what, cudaGetErrorString (code),
               cudaGetErrorName (code), is_of_kernel ? "; with ORTRAIN_CUDA_BLOCKING=1, the error names the step" : "");
  return FALSE;
}

gboolean
ortrain_cuda_refuse (const OrtrainKernelSetup *setup, GError **error, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, ortrain_cuda_library->plan_error_quark (), ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s on 'cuda': %s",
               setup->op_type, text);
  return FALSE;
}

void
ortrain_cuda_fail (const OrtrainKernelCall *call, const char *format, ...)
{
  OrtrainStream *stream = ortrain_cuda_get_stream (call);
  va_list arguments;
  if (stream->failure != NULL)
    return;
  va_start (arguments, format);
  stream->failure =
      g_error_new_valist (ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_FAILED, format, arguments);
  va_end (arguments);
  g_prefix_error (&stream->failure, "The device '%s' failed at step %u: ", stream->provider->parent.device_name,
                  call->plan_step);
}

gboolean
ortrain_cuda_fall_back (const OrtrainKernelSetup *setup, const char *counter, const char *reason, GError **error)
{
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  ORTRAIN_CUDA_COUNT (provider, counter);
  if (!ortrain_cuda_is_strict ())
    {
      g_debug ("%s: %s", setup->op_type, reason);
      return TRUE;
    }
  return ortrain_cuda_refuse (setup, error, "%s; ORTRAIN_CUDA_STRICT forbids a slower kernel in its place", reason);
}

guint
ortrain_cuda_get_n_processors (const OrtrainKernelCall *call)
{
  return ortrain_cuda_get_stream (call)->provider->n_processors;
}

/* ---- memory ---- */

#define CONTEXT(provider) (((const OrtrainCudaProvider *) (provider))->context)

static void
cuda_get_memory (const OrtrainProvider *self, guint64 *total, guint64 *available)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  size_t free_bytes = 0, all_bytes = 0;
  if (cudaMemGetInfo (&free_bytes, &all_bytes) != cudaSuccess)
    cudaGetLastError ();
  *total = all_bytes;
  *available = free_bytes;
}

static gpointer
refuse_memory (const OrtrainProvider *self, const char *of, gsize n_bytes, GError **error)
{
  guint64 total, available;
  cuda_get_memory (self, &total, &available);
  g_set_error (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_NO_MEMORY,
               "Cannot allocate %" G_GSIZE_FORMAT " bytes of %s; %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
               " bytes of the device '%s' are available",
               n_bytes, of, available, total, ((const OrtrainCudaProvider *) self)->name);
  return NULL;
}

/* Clears before the host goes on. cudaMemset works in the legacy stream, for which streams that do not block do not
 * wait: it could clear the results that they have written. */
static gboolean
clear_memory (const OrtrainCudaProvider *self, void *address, gsize n_bytes, GError **error)
{
  return ortrain_cuda_check (cudaMemsetAsync (address, 0, n_bytes, self->clearing), "clearing memory", error) &&
         ortrain_cuda_check (cudaStreamSynchronize (self->clearing), "clearing memory", error);
}

static gpointer
cuda_allocate (OrtrainProvider *self, OrtrainMemorySpace space, gsize n_bytes, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  const gsize size = MAX (n_bytes, 1);
  void *address = NULL;
  const cudaError_t code = space == ORTRAIN_MEMORY_SPACE_HOST ? cudaHostAlloc (&address, size, cudaHostAllocDefault)
                                                              : cudaMalloc (&address, size);
  if (code == cudaErrorMemoryAllocation)
    {
      cudaGetLastError ();
      return refuse_memory (self, space == ORTRAIN_MEMORY_SPACE_HOST ? "page-locked memory" : "device memory", n_bytes,
                            error);
    }
  if (!ortrain_cuda_check (code, "allocating memory", error))
    return NULL;
  if (space == ORTRAIN_MEMORY_SPACE_HOST)
    memset (address, 0, size);
  else if (!clear_memory ((const OrtrainCudaProvider *) self, address, size, error))
    {
      cudaFree (address);
      return NULL;
    }
  return address;
}

static void
cuda_free (OrtrainProvider *self, OrtrainMemorySpace space, gpointer address, gsize n_bytes)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  if (address == NULL)
    return;
  if (space == ORTRAIN_MEMORY_SPACE_HOST)
    cudaFreeHost (address);
  else
    cudaFree (address);
  cudaGetLastError (); /* a lost device says so at the next call that can fail */
}

static gboolean
cuda_has_address (OrtrainProvider *self, gconstpointer address)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  struct cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes (&attributes, address) != cudaSuccess)
    {
      cudaGetLastError ();
      return FALSE;
    }
  return attributes.type == cudaMemoryTypeManaged ||
         (attributes.type == cudaMemoryTypeDevice &&
          (guint) attributes.device == ortrain_cuda_context_get_device (CONTEXT (self)));
}

/* ---- streams ---- */

static void
cuda_free_stream (OrtrainProvider *self, OrtrainStream *stream)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  if (stream == NULL)
    return;
  if (stream->provider->profile != NULL)
    ortrain_cuda_profile_write (stream->provider->profile);
  if (stream->blas != NULL)
    ortrain_cuda_open_cublaslt (NULL)->cublasLtDestroy (stream->blas);
  if (stream->dnn != NULL)
    ortrain_cuda_open_cudnn (NULL)->cudnnDestroy (stream->dnn);
  cudaStreamDestroy (stream->stream);
  cudaFree (stream->counters);
  cudaGetLastError ();
  g_clear_error (&stream->failure);
  g_free (stream);
}

static gboolean
cuda_new_stream (OrtrainProvider *self, OrtrainStream **result, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  OrtrainStream *stream = g_new0 (OrtrainStream, 1);
  stream->provider = (OrtrainCudaProvider *) self;
  *result = NULL;
  if (!ortrain_cuda_check (cudaStreamCreateWithFlags (&stream->stream, cudaStreamNonBlocking), "opening a stream",
                           error))
    {
      g_free (stream);
      return FALSE;
    }
  stream->counters =
      cuda_allocate (self, ORTRAIN_MEMORY_SPACE_DEVICE, ORTRAIN_CUDA_N_COUNTERS * sizeof (unsigned), error);
  if (stream->counters == NULL)
    {
      cuda_free_stream (self, stream);
      return FALSE;
    }
  *result = stream;
  return TRUE;
}

static gboolean
is_ordinary (gconstpointer address)
{
  struct cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes (&attributes, address) == cudaSuccess)
    return attributes.type == cudaMemoryTypeUnregistered;
  cudaGetLastError ();
  return TRUE;
}

/* A CUDA graph would read ordinary memory of the host whenever it is launched, and not as it was. */
static gboolean
cuda_copy (OrtrainProvider *self, OrtrainStream *stream, gpointer destination, gconstpointer source, gsize n_bytes,
           GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  if (G_UNLIKELY (stream->is_captured) && n_bytes > 0 && (is_ordinary (source) || is_ordinary (destination)))
    {
      stream->is_uncapturable = TRUE;
      g_set_error_literal (error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_FAILED,
                           "A copy from or to ordinary memory cannot be part of a CUDA graph");
      return FALSE;
    }
  return n_bytes == 0 ||
         ortrain_cuda_check (cudaMemcpyAsync (destination, source, n_bytes, cudaMemcpyDefault, stream->stream),
                             "copying", error);
}

static gboolean
cuda_fill (OrtrainProvider *self, OrtrainStream *stream, gpointer destination, guint8 byte, gsize n_bytes,
           GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return n_bytes == 0 ||
         ortrain_cuda_check (cudaMemsetAsync (destination, byte, n_bytes, stream->stream), "filling memory", error);
}

static OrtrainEvent *
cuda_new_event (OrtrainProvider *self, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  cudaEvent_t event = NULL;
  return ortrain_cuda_check (cudaEventCreateWithFlags (&event, cudaEventDisableTiming), "creating an event", error)
             ? (OrtrainEvent *) event
             : NULL;
}

static void
cuda_free_event (OrtrainProvider *self, OrtrainEvent *event)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  cudaEventDestroy ((cudaEvent_t) event);
  cudaGetLastError ();
}

static gboolean
cuda_record (OrtrainProvider *self, OrtrainStream *stream, OrtrainEvent *event, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return ortrain_cuda_check (cudaEventRecord ((cudaEvent_t) event, stream->stream), "recording an event", error);
}

static gboolean
cuda_wait_event (OrtrainProvider *self, OrtrainStream *stream, OrtrainEvent *event, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return ortrain_cuda_check (cudaStreamWaitEvent (stream->stream, (cudaEvent_t) event, 0), "waiting for an event",
                             error);
}

static gboolean
cuda_await_event (OrtrainProvider *self, OrtrainEvent *event, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  if (cudaEventQuery ((cudaEvent_t) event) == cudaSuccess) /* mostly: waiting costs the host, even for a past event */
    return TRUE;
  cudaGetLastError (); /* not ready; an error is found by waiting */
  return ortrain_cuda_check (cudaEventSynchronize ((cudaEvent_t) event), "waiting for an event", error);
}

static gboolean
cuda_wait (OrtrainProvider *self, OrtrainStream *stream, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return stream == NULL || ortrain_cuda_check (cudaStreamSynchronize (stream->stream), "waiting for a stream", error);
}

/* The legacy default stream: PyTorch's current stream by default. A DLPack producer that is asked for stream 1 makes
 * this stream wait for its own work. */
static gboolean
cuda_await_default_stream (OrtrainProvider *self, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return ortrain_cuda_check (cudaStreamSynchronize (NULL), "waiting for the default stream", error);
}

/* ---- calls ---- */

/* Errors of a kernel come with a later call, and the device is lost then: to learn which kernel it was, the host waits
 * for each. */
static void
wait_for_call (const OrtrainKernelCall *call)
{
  const cudaError_t code = cudaStreamSynchronize (ortrain_cuda_get_stream (call)->stream);
  if (code != cudaSuccess)
    ortrain_cuda_fail (call, "%s: %s", cudaGetErrorName (code), cudaGetErrorString (code));
}

/* Returns how many were submitted: the first, or those that are joined to it, too. */
static guint
run_first (const OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls)
{
  OrtrainCudaProfile *profile = stream->provider->profile;
  guint n = MIN (calls->n_joined, n_calls);
  if (G_UNLIKELY (profile != NULL))
    ortrain_cuda_profile_begin (profile, calls);
  if (n > 1)
    n = calls->run_joined (calls, n);
  else
    {
      calls->run (calls);
      n = 1;
    }
  if (G_UNLIKELY (profile != NULL))
    ortrain_cuda_profile_end (profile, calls, n);
  if (G_UNLIKELY (stream->provider->is_blocking))
    wait_for_call (calls);
  return n;
}

/* Launches, and reports errors of a launch or of a library. */
static gboolean
run_calls (OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls, GCancellable *cancellable,
           GError **error)
{
  for (guint i = 0, n = 1; i < n_calls; i += n)
    {
      if (cancellable != NULL && g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      n = run_first (stream, calls + i, n_calls - i);
      if (G_UNLIKELY (stream->failure != NULL))
        {
          g_propagate_error (error, g_steal_pointer (&stream->failure));
          return FALSE;
        }
    }
  if (G_UNLIKELY (stream->provider->profile != NULL))
    ortrain_cuda_profile_collect (stream->provider->profile, stream);
  return ortrain_cuda_check (cudaGetLastError (), "launching kernels", error);
}

static gboolean
cuda_submit (OrtrainProvider *self, OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls,
             GCancellable *cancellable, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return run_calls (stream, calls, n_calls, cancellable, error);
}

/* A CUDA graph; where the calls cannot be captured (a copy from ordinary memory of the host), or are measured one by
 * one, the calls themselves. */
struct _OrtrainCapture
{
  cudaGraphExec_t graph; /* NULL: none */
  const OrtrainKernelCall *calls;
  guint n_calls;
};

/* Whether it is one of CUDA's errors about work that cannot be captured. */
static gboolean
is_capture_error (cudaError_t code)
{
  return code >= cudaErrorStreamCaptureUnsupported && code <= cudaErrorStreamCaptureWrongThread;
}

static OrtrainCapture *
cuda_capture (OrtrainProvider *self, OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls,
              GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  g_autofree OrtrainCapture *capture = g_new0 (OrtrainCapture, 1);
  cudaGraph_t graph = NULL;
  capture->calls = calls;
  capture->n_calls = n_calls;
  if (stream->provider->profile != NULL || stream->provider->is_blocking)
    return g_steal_pointer (&capture);
  if (!ortrain_cuda_check (cudaStreamBeginCapture (stream->stream, cudaStreamCaptureModeThreadLocal),
                           "beginning a capture", error))
    return NULL;
  g_autoptr (GError) failure = NULL;
  stream->is_captured = TRUE;
  stream->is_uncapturable = FALSE;
  const gboolean recorded = run_calls (stream, calls, n_calls, NULL, &failure);
  const cudaError_t ended = cudaStreamEndCapture (stream->stream, &graph);
  stream->is_captured = FALSE;
  cudaGetLastError ();
  if (is_capture_error (ended) || stream->is_uncapturable)
    {
      const char *reason =
          stream->is_uncapturable ? "it copies from or to ordinary memory of the host" : cudaGetErrorString (ended);
      if (graph != NULL)
        cudaGraphDestroy (graph);
      ORTRAIN_CUDA_COUNT (self, "uncaptured-segments");
      if (ortrain_cuda_is_strict ())
        {
          g_set_error (
              error, ortrain_cuda_library->device_error_quark (), ORTRAIN_DEVICE_ERROR_FAILED,
              "The device '%s' failed at step %u: no CUDA graph can be made of it and those up to step %u: %s; "
              "ORTRAIN_CUDA_STRICT forbids to submit them one by one",
              self->device_name, calls[0].plan_step, calls[n_calls - 1].plan_step, reason);
          return NULL;
        }
      g_message ("A range of %u calls runs without a CUDA graph: %s", n_calls, reason);
      return g_steal_pointer (&capture);
    }
  if (!recorded)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      if (graph != NULL)
        cudaGraphDestroy (graph);
      return NULL;
    }
  gboolean made = ortrain_cuda_check (ended, "ending a capture", error);
  if (made)
    {
      made = ortrain_cuda_check (cudaGraphInstantiate (&capture->graph, graph, 0), "making a CUDA graph", error);
      cudaGraphDestroy (graph);
    }
  if (!made)
    return NULL;
  ORTRAIN_CUDA_COUNT (self, "captures");
  return g_steal_pointer (&capture);
}

static gboolean
cuda_launch (OrtrainProvider *self, OrtrainStream *stream, OrtrainCapture *capture, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  return capture->graph != NULL
             ? ortrain_cuda_check (cudaGraphLaunch (capture->graph, stream->stream), "launching a CUDA graph", error)
             : run_calls (stream, capture->calls, capture->n_calls, NULL, error);
}

static void
cuda_free_capture (OrtrainProvider *self, OrtrainCapture *capture)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (self));
  if (capture->graph != NULL)
    cudaGraphExecDestroy (capture->graph);
  cudaGetLastError ();
  g_free (capture);
}

/* ---- opening ---- */

/* Both codes mean that there is nothing to run on: the runtime says "insufficient driver" where there is no driver. */
char *
ortrain_cuda_get_reason (void)
{
  int n = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount (&n);
  cudaGetLastError ();
  if (code == cudaSuccess && n > 0)
    {
      g_autoptr (GError) error = NULL;
      return ortrain_cuda_open_cublaslt (&error) != NULL ? NULL : g_strdup (error->message);
    }
  cudaDriverGetVersion (&driver);
  cudaGetLastError ();
  if (driver == 0)
    return g_strdup ("There is no NVIDIA driver (libcuda.so.1)");
  if (code == cudaErrorInsufficientDriver)
    return g_strdup_printf ("The NVIDIA driver supports CUDA %d.%d, and %d.%d is needed", driver / 1000,
                            driver / 10 % 100, CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
  return code == cudaSuccess || code == cudaErrorNoDevice ? g_strdup ("There is no NVIDIA GPU")
                                                          : g_strdup (cudaGetErrorString (code));
}

guint
ortrain_cuda_get_n_devices (void)
{
  int n = 0;
  if (cudaGetDeviceCount (&n) != cudaSuccess)
    cudaGetLastError ();
  return (guint) MAX (n, 0);
}

char *
ortrain_cuda_describe (guint device)
{
  struct cudaDeviceProp properties;
  g_autofree char *libraries = ortrain_cuda_describe_libraries ();
  if (cudaGetDeviceProperties (&properties, (int) device) == cudaSuccess)
    return g_strdup_printf ("%s, compute capability %d.%d, %s", properties.name, properties.major, properties.minor,
                            libraries);
  cudaGetLastError ();
  return NULL;
}

static void
cuda_free_provider (OrtrainProvider *provider)
{
  ORTRAIN_CUDA_ON_DEVICE (CONTEXT (provider));
  OrtrainCudaProvider *self = (OrtrainCudaProvider *) provider;
  ortrain_cuda_profile_free (self->profile);
  cudaFree (self->numbers);
  if (self->clearing != NULL)
    cudaStreamDestroy (self->clearing);
  cudaGetLastError ();
  g_free (self->name);
  g_free (self->identity);
  g_free (self);
}

static const OrtrainProviderClass cuda_class = {
  .name = "cuda",
  .reads_host = FALSE,
  .alignment = { 256, 4096 },
  .offload_bytes_per_second = 2.5e10, /* PCIe 4.0, 16 lanes */
  .dlpack_type = 2,                   /* kDLCUDA */
  .limits_workspaces = TRUE,
  .free_provider = cuda_free_provider,
  .find_kernel = ortrain_cuda_find_kernel,
  .can_fuse = ortrain_cuda_can_fuse,
  .allocate = cuda_allocate,
  .free = cuda_free,
  .get_memory = cuda_get_memory,
  .has_address = cuda_has_address,
  .new_stream = cuda_new_stream,
  .free_stream = cuda_free_stream,
  .copy = cuda_copy,
  .fill = cuda_fill,
  .new_event = cuda_new_event,
  .free_event = cuda_free_event,
  .record = cuda_record,
  .wait_event = cuda_wait_event,
  .await_event = cuda_await_event,
  .wait = cuda_wait,
  .await_default_stream = cuda_await_default_stream,
  .submit = cuda_submit,
  .capture = cuda_capture,
  .launch = cuda_launch,
  .free_capture = cuda_free_capture,
};

OrtrainProvider *
ortrain_cuda_provider_new (const OrtrainProviderOptions *options, GError **error)
{
  static const OrtrainCudaNumbers numbers = { .one = 1, .one_f64 = 1 };
  struct cudaDeviceProp properties;
  int driver = 0;
  OrtrainCudaContext *context = ortrain_cuda_context_open (options->device_index, error);
  if (context == NULL)
    return NULL;
  ORTRAIN_CUDA_ON_DEVICE (context);
  if (!ortrain_cuda_check (cudaGetDeviceProperties (&properties, (int) options->device_index),
                           "asking for its properties", error))
    return NULL;
  OrtrainCudaProvider *self = g_new0 (OrtrainCudaProvider, 1);
  self->parent.klass = &cuda_class;
  g_atomic_ref_count_init (&self->parent.ref_count);
  self->context = context;
  ortrain_cuda_speed_derive (&self->parent.speed, (int) options->device_index, &properties);
  self->name = g_strdup (properties.name);
  self->n_processors = (guint) MAX (properties.multiProcessorCount, 1);
  self->capability = (guint) (properties.major * 10 + properties.minor);
  self->total_memory = properties.totalGlobalMem;
  self->options = *options;
  self->is_blocking = ortrain_cuda_is_set ("ORTRAIN_CUDA_BLOCKING");
  self->profile = ortrain_cuda_profile_new ();
  cudaDriverGetVersion (&driver);
  self->identity = g_strdup_printf ("%s, capability %u, %u processors, driver %d, runtime %d", self->name,
                                    self->capability, self->n_processors, driver, CUDART_VERSION);
  if (ortrain_cuda_check (cudaStreamCreateWithFlags (&self->clearing, cudaStreamNonBlocking), "opening a stream",
                          error))
    self->numbers = cuda_allocate (&self->parent, ORTRAIN_MEMORY_SPACE_DEVICE, sizeof numbers, error);
  OrtrainStream *stream = NULL;
  const gboolean ok = self->numbers != NULL && cuda_new_stream (&self->parent, &stream, error) &&
                      cuda_copy (&self->parent, stream, self->numbers, &numbers, sizeof numbers, error) &&
                      cuda_wait (&self->parent, stream, error);
  cuda_free_stream (&self->parent, stream);
  if (ok)
    return &self->parent;
  cuda_free_provider (&self->parent);
  return NULL;
}
