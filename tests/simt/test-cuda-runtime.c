/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/fake-cuda.h"

#include "provider/ortrain-provider-private.h"

#include <cuda.h>

/* The rules of CUDA's runtime that the emulated one has to have, so that a provider that breaks them fails here. */

#define N_BYTES ((size_t) 4096)

typedef struct
{
  cudaStream_t stream, other; /* which do not block */
  guint8 *device, *found;     /* found: page-locked */
} Fixture;

/* FALSE: on a device, whose rules are its own. */
static gboolean
set_up (Fixture *self)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) provider G_GNUC_UNUSED = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("on a device");
      return FALSE;
    }
  g_assert_cmpint (cudaStreamCreateWithFlags (&self->stream, cudaStreamNonBlocking), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamCreateWithFlags (&self->other, cudaStreamNonBlocking), ==, cudaSuccess);
  g_assert_cmpint (cudaMalloc ((void **) &self->device, N_BYTES), ==, cudaSuccess);
  g_assert_cmpint (cudaHostAlloc ((void **) &self->found, N_BYTES, cudaHostAllocDefault), ==, cudaSuccess);
  return TRUE;
}

static void
tear_down (Fixture *self)
{
  g_assert_cmpint (cudaFree (self->device), ==, cudaSuccess);
  g_assert_cmpint (cudaFreeHost (self->found), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamDestroy (self->stream), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamDestroy (self->other), ==, cudaSuccess);
  cudaGetLastError ();
}

static guint8
read_byte (const Fixture *self)
{
  g_assert_cmpint (cudaMemcpyAsync (self->found, self->device, N_BYTES, cudaMemcpyDefault, self->stream), ==,
                   cudaSuccess);
  g_assert_cmpint (cudaStreamSynchronize (self->stream), ==, cudaSuccess);
  return self->found[N_BYTES - 1];
}

/* The legacy stream: late, unless somebody waits for it, and in order with streams that block. */
static void
test_legacy (void)
{
  Fixture f;
  cudaStream_t blocking = NULL;
  if (!set_up (&f))
    return;
  g_assert_cmpint (cudaMemsetAsync (f.device, 1, N_BYTES, f.stream), ==, cudaSuccess);
  g_assert_cmpuint (read_byte (&f), ==, 1);
  const guint64 before = ortrain_fake_cuda_get_counts ().n_legacy;
  g_assert_cmpint (cudaMemset (f.device, 7, N_BYTES), ==, cudaSuccess);
  g_assert_cmpuint (ortrain_fake_cuda_get_counts ().n_legacy - before, ==, 1);
  g_assert_cmpint (cudaStreamSynchronize (NULL), ==, cudaSuccess);
  g_assert_cmpuint (read_byte (&f), ==, 7);
  g_assert_cmpint (cudaMemset (f.device, 8, N_BYTES), ==, cudaSuccess);
  g_assert_cmpint (cudaDeviceSynchronize (), ==, cudaSuccess);
  g_assert_cmpuint (read_byte (&f), ==, 8);

  g_assert_cmpint (cudaMemset (f.device, 9, N_BYTES), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamCreateWithFlags (&blocking, 0), ==, cudaSuccess);
  g_assert_cmpint (cudaMemcpyAsync (f.found, f.device, N_BYTES, cudaMemcpyDefault, blocking), ==, cudaSuccess);
  g_assert_cmpint (cudaMemset (f.device, 10, N_BYTES), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamSynchronize (blocking), ==, cudaSuccess);
  g_assert_cmpuint (f.found[0], ==, 9);
  g_assert_cmpint (cudaStreamDestroy (blocking), ==, cudaSuccess);
  g_assert_cmpint (cudaDeviceSynchronize (), ==, cudaSuccess);

  /* it clears what others have written since */
  guint n_late = 0;
  for (guint i = 0; i < 32; i++)
    {
      g_assert_cmpint (cudaMemset (f.device, 11, N_BYTES), ==, cudaSuccess);
      g_assert_cmpint (cudaMemsetAsync (f.device, 12, N_BYTES, f.stream), ==, cudaSuccess);
      g_assert_cmpint (cudaStreamSynchronize (f.stream), ==, cudaSuccess);
      g_assert_cmpint (cudaDeviceSynchronize (), ==, cudaSuccess);
      n_late += read_byte (&f) == 11;
    }
  g_assert_cmpuint (n_late, >, 0);
  tear_down (&f);
}

static void
begin (const Fixture *self)
{
  g_assert_cmpint (cudaStreamBeginCapture (self->stream, cudaStreamCaptureModeThreadLocal), ==, cudaSuccess);
}

/* Ends a capture that something has spoiled. */
static void
assert_spoiled (const Fixture *self)
{
  cudaGraph_t graph = NULL;
  g_assert_cmpint (cudaStreamEndCapture (self->stream, &graph), ==, cudaErrorStreamCaptureInvalidated);
  g_assert_null (graph);
  cudaGetLastError ();
}

/* What waits for the device, or may, spoils what the same thread captures. */
static void
test_forbidden (void)
{
  Fixture f;
  void *address = NULL;
  if (!set_up (&f))
    return;
  begin (&f);
  g_assert_cmpint (cudaMalloc (&address, N_BYTES), ==, cudaErrorStreamCaptureUnsupported);
  assert_spoiled (&f);
  begin (&f);
  g_assert_cmpint (cudaMemset (f.device, 1, N_BYTES), ==, cudaErrorStreamCaptureUnsupported);
  assert_spoiled (&f);
  begin (&f);
  g_assert_cmpint (cudaDeviceSynchronize (), ==, cudaErrorStreamCaptureUnsupported);
  assert_spoiled (&f);
  begin (&f);
  g_assert_cmpint (cudaStreamSynchronize (f.stream), ==, cudaErrorStreamCaptureUnsupported);
  assert_spoiled (&f);
  tear_down (&f);
}

/* Events of a capture order what is in it. */
static void
test_events (void)
{
  Fixture f;
  cudaEvent_t inside = NULL, outside = NULL;
  cudaGraph_t graph = NULL;
  if (!set_up (&f))
    return;
  g_assert_cmpint (cudaEventCreateWithFlags (&inside, cudaEventDisableTiming), ==, cudaSuccess);
  g_assert_cmpint (cudaEventCreateWithFlags (&outside, cudaEventDisableTiming), ==, cudaSuccess);
  g_assert_cmpint (cudaEventRecord (outside, f.other), ==, cudaSuccess);

  begin (&f);
  g_assert_cmpint (cudaEventRecord (inside, f.stream), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamWaitEvent (f.stream, inside, 0), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphDestroy (graph), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamWaitEvent (f.other, inside, 0), ==, cudaErrorCapturedEvent);
  g_assert_cmpint (cudaEventQuery (inside), ==, cudaErrorCapturedEvent);
  g_assert_cmpint (cudaEventSynchronize (inside), ==, cudaErrorCapturedEvent);

  begin (&f);
  g_assert_cmpint (cudaStreamWaitEvent (f.stream, outside, 0), ==, cudaErrorStreamCaptureIsolation);
  assert_spoiled (&f);
  g_assert_cmpint (cudaEventRecord (inside, f.other), ==, cudaSuccess); /* again an event like others */
  g_assert_cmpint (cudaEventSynchronize (inside), ==, cudaSuccess);
  g_assert_cmpint (cudaEventDestroy (inside), ==, cudaSuccess);
  g_assert_cmpint (cudaEventDestroy (outside), ==, cudaSuccess);
  tear_down (&f);
}

/* A graph reads ordinary memory when it is launched, not when it is made. */
static void
test_ordinary (void)
{
  Fixture f;
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  g_autofree guint8 *ordinary = g_malloc0 (N_BYTES);
  if (!set_up (&f))
    return;
  begin (&f);
  ordinary[N_BYTES - 1] = 3;
  g_assert_cmpint (cudaMemcpyAsync (f.device, ordinary, N_BYTES, cudaMemcpyDefault, f.stream), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphInstantiate (&exec, graph, 0), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphDestroy (graph), ==, cudaSuccess);
  ordinary[N_BYTES - 1] = 4;
  g_assert_cmpint (cudaGraphLaunch (exec, f.stream), ==, cudaSuccess);
  g_assert_cmpuint (read_byte (&f), ==, 4);
  g_assert_cmpint (cudaGraphExecDestroy (exec), ==, cudaSuccess);
  tear_down (&f);
}

/* What belongs to one device is refused while another one is current, by a thread that has chosen it, or pushed its context. */
static void
test_devices (void)
{
  Fixture f;
  cudaStream_t stream = NULL;
  cudaEvent_t event = NULL, other = NULL;
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  guint8 *device = NULL;
  CUcontext first, popped;
  struct cudaPointerAttributes attributes;
  struct cudaDeviceProp properties;
  int current = -1;
  if (!set_up (&f))
    return;
  g_assert_cmpint (cudaSetDevice (1), ==, cudaErrorInvalidDevice);
  g_setenv ("ORTRAIN_FAKE_CUDA_DEVICES", "2", TRUE);
  g_assert_cmpint (cudaGetDeviceProperties (&properties, 1), ==, cudaSuccess);
  g_assert_cmpint (cudaGetDeviceProperties (&properties, 2), ==, cudaErrorInvalidDevice);
  g_assert_cmpint (cudaEventCreateWithFlags (&other, cudaEventDisableTiming), ==, cudaSuccess);
  begin (&f);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphInstantiate (&exec, graph, 0), ==, cudaSuccess);

  g_assert_false (ortrain_fake_cuda_is_initialized (1));
  g_assert_cmpint (cudaSetDevice (1), ==, cudaSuccess);
  g_assert_true (ortrain_fake_cuda_is_initialized (1));
  g_assert_cmpint (cudaMalloc ((void **) &device, N_BYTES), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking), ==, cudaSuccess);
  g_assert_cmpint (cudaEventCreateWithFlags (&event, cudaEventDisableTiming), ==, cudaSuccess);
  g_assert_cmpint (cudaPointerGetAttributes (&attributes, device), ==, cudaSuccess);
  g_assert_cmpint (attributes.device, ==, 1);
  g_assert_cmpint (cudaPointerGetAttributes (&attributes, f.device), ==, cudaSuccess);
  g_assert_cmpint (attributes.device, ==, 0);

  guint64 n_foreign = ortrain_fake_cuda_get_counts ().n_foreign;
  const cudaError_t foreign[] = {
    cudaMemsetAsync (device, 0, N_BYTES, f.stream),
    cudaEventRecord (event, f.stream),
    cudaStreamSynchronize (f.stream),
    cudaStreamWaitEvent (f.stream, event, 0),
    cudaStreamWaitEvent (stream, other, 0),
    cudaEventRecord (other, stream),
    cudaEventSynchronize (other),
    cudaEventQuery (other),
    cudaEventDestroy (other),
    cudaStreamBeginCapture (f.stream, cudaStreamCaptureModeThreadLocal),
    cudaGraphLaunch (exec, f.stream),
    cudaGraphLaunch (exec, stream),
    cudaGraphExecDestroy (exec),
    cudaGraphDestroy (graph),
    cudaStreamDestroy (f.stream),
  };
  for (guint i = 0; i < G_N_ELEMENTS (foreign); i++)
    g_assert_cmpint (foreign[i], ==, cudaErrorInvalidResourceHandle);
  const cudaError_t memory[] = {
    cudaMemsetAsync (f.device, 0, N_BYTES, stream),
    cudaMemcpyAsync (f.device, device, N_BYTES, cudaMemcpyDefault, stream),
    cudaMemcpyAsync (device, f.device, N_BYTES, cudaMemcpyDefault, stream),
    cudaMemcpy2DAsync (device, 8, f.device, 8, 8, 8, cudaMemcpyDefault, stream),
    cudaFree (f.device),
  };
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    g_assert_cmpint (memory[i], ==, cudaErrorInvalidDevicePointer);
  g_assert_cmpuint (ortrain_fake_cuda_get_counts ().n_foreign - n_foreign, ==,
                    G_N_ELEMENTS (foreign) + G_N_ELEMENTS (memory));

  /* a context that is pushed comes before what was chosen */
  g_assert_cmpint (cuDevicePrimaryCtxRetain (&first, 0), ==, CUDA_SUCCESS);
  g_assert_cmpint (cuCtxPushCurrent (first), ==, CUDA_SUCCESS);
  g_assert_cmpint (cudaGetDevice (&current), ==, cudaSuccess);
  g_assert_cmpint (current, ==, 0);
  g_assert_cmpint (cudaMemsetAsync (f.device, 5, N_BYTES, f.stream), ==, cudaSuccess);
  g_assert_cmpuint (read_byte (&f), ==, 5);
  g_assert_cmpint (cuCtxPopCurrent (&popped), ==, CUDA_SUCCESS);
  g_assert_true (popped == first);
  g_assert_cmpint (cudaGetDevice (&current), ==, cudaSuccess);
  g_assert_cmpint (current, ==, 1);
  g_assert_cmpint (cuCtxPopCurrent (&popped), ==, CUDA_ERROR_INVALID_CONTEXT);

  g_assert_cmpint (cudaFree (device), ==, cudaSuccess);
  g_assert_cmpint (cudaEventDestroy (event), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamDestroy (stream), ==, cudaSuccess);
  g_assert_cmpint (cudaSetDevice (0), ==, cudaSuccess);
  g_unsetenv ("ORTRAIN_FAKE_CUDA_DEVICES");
  g_assert_cmpint (cudaGraphExecDestroy (exec), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphDestroy (graph), ==, cudaSuccess);
  g_assert_cmpint (cudaEventDestroy (other), ==, cudaSuccess);
  tear_down (&f);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-runtime/legacy-stream", test_legacy);
  g_test_add_func ("/cuda-runtime/captures/forbidden", test_forbidden);
  g_test_add_func ("/cuda-runtime/captures/events", test_events);
  g_test_add_func ("/cuda-runtime/captures/ordinary-memory", test_ordinary);
  g_test_add_func ("/cuda-runtime/devices", test_devices);
  return g_test_run ();
}
