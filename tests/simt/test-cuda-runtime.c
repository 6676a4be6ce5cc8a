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

  /* it clears bytes that others have written since */
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

/* A call that waits for the device, or may, spoils the capture of the same thread. */
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

/* Events of a capture order the operations in it. */
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

typedef struct
{
  cudaEvent_t fork, join;
} Events;

static Events
make_events (void)
{
  Events events;
  g_assert_cmpint (cudaEventCreateWithFlags (&events.fork, cudaEventDisableTiming), ==, cudaSuccess);
  g_assert_cmpint (cudaEventCreateWithFlags (&events.join, cudaEventDisableTiming), ==, cudaSuccess);
  return events;
}

static void
free_events (const Events *events)
{
  g_assert_cmpint (cudaEventDestroy (events->fork), ==, cudaSuccess);
  g_assert_cmpint (cudaEventDestroy (events->join), ==, cudaSuccess);
}

static void
pass (cudaEvent_t event, cudaStream_t from, cudaStream_t to)
{
  g_assert_cmpint (cudaEventRecord (event, from), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamWaitEvent (to, event, 0), ==, cudaSuccess);
}

static enum cudaStreamCaptureStatus
get_status (cudaStream_t stream)
{
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  g_assert_cmpint (cudaStreamIsCapturing (stream, &status), ==, cudaSuccess);
  return status;
}

/* Byte 0 is set to 1, the other stream copies it to byte 1, then it is set to 2: before the join, or after it. Returns
 * how often byte 1 is 2, in n launches of the graph. */
static guint
count_late (const Fixture *f, gboolean in_order, guint n)
{
  const Events events = make_events ();
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  guint n_late = 0;
  begin (f);
  g_assert_cmpint (get_status (f->other), ==, cudaStreamCaptureStatusNone);
  g_assert_cmpint (cudaMemsetAsync (f->device, 1, 1, f->stream), ==, cudaSuccess);
  pass (events.fork, f->stream, f->other);
  g_assert_cmpint (get_status (f->other), ==, cudaStreamCaptureStatusActive);
  g_assert_cmpint (cudaMemcpyAsync (f->device + 1, f->device, 1, cudaMemcpyDefault, f->other), ==, cudaSuccess);
  if (in_order)
    pass (events.join, f->other, f->stream);
  g_assert_cmpint (cudaMemsetAsync (f->device, 2, 1, f->stream), ==, cudaSuccess);
  if (!in_order)
    pass (events.join, f->other, f->stream);
  g_assert_cmpint (cudaStreamEndCapture (f->stream, &graph), ==, cudaSuccess);
  g_assert_cmpint (get_status (f->other), ==, cudaStreamCaptureStatusNone);
  g_assert_cmpint (cudaGraphInstantiate (&exec, graph, 0), ==, cudaSuccess);
  for (guint i = 0; i < n; i++)
    {
      g_assert_cmpint (cudaGraphLaunch (exec, f->stream), ==, cudaSuccess);
      read_byte (f);
      g_assert_cmpuint (f->found[0], ==, 2);
      n_late += f->found[1] == 2;
    }
  g_assert_cmpint (cudaGraphDestroy (graph), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphExecDestroy (exec), ==, cudaSuccess);
  free_events (&events);
  return n_late;
}

/* A stream that waits for an event of a capture takes part in it, until it is joined again: operations that are ordered
 * by events stay in order whenever the graph is launched, and others do not. */
static void
test_fork (void)
{
  Fixture f;
  if (!set_up (&f))
    return;
  g_assert_cmpuint (count_late (&f, TRUE, 64), ==, 0);
  const guint n_late = count_late (&f, FALSE, 64);
  g_assert_cmpuint (n_late, >, 0);
  g_assert_cmpuint (n_late, <, 64);

  /* both are streams as before */
  g_assert_cmpint (cudaMemsetAsync (f.device, 3, N_BYTES, f.other), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamSynchronize (f.other), ==, cudaSuccess);
  g_assert_cmpuint (read_byte (&f), ==, 3);
  tear_down (&f);
}

/* Operations of a stream that is not joined at the end, ends that are not the first stream's, and captures that would
 * become one. */
static void
test_unjoined (void)
{
  Fixture f;
  cudaGraph_t graph = NULL;
  cudaStream_t third = NULL;
  if (!set_up (&f))
    return;
  const Events events = make_events ();

  begin (&f);
  pass (events.fork, f.stream, f.other);
  g_assert_cmpint (cudaMemsetAsync (f.device, 1, N_BYTES, f.other), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaErrorStreamCaptureUnjoined);
  g_assert_null (graph);
  g_assert_cmpint (get_status (f.stream), ==, cudaStreamCaptureStatusNone);
  g_assert_cmpint (get_status (f.other), ==, cudaStreamCaptureStatusNone);

  /* joined, and then given more */
  begin (&f);
  pass (events.fork, f.stream, f.other);
  g_assert_cmpint (cudaMemsetAsync (f.device, 1, N_BYTES, f.other), ==, cudaSuccess);
  pass (events.join, f.other, f.stream);
  g_assert_cmpint (cudaMemsetAsync (f.device, 2, N_BYTES, f.other), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaErrorStreamCaptureUnjoined);

  /* joined by another one of the streams */
  g_assert_cmpint (cudaStreamCreateWithFlags (&third, cudaStreamNonBlocking), ==, cudaSuccess);
  begin (&f);
  pass (events.fork, f.stream, f.other);
  g_assert_cmpint (cudaMemsetAsync (f.device, 1, N_BYTES, f.other), ==, cudaSuccess);
  pass (events.join, f.other, third);
  g_assert_cmpint (cudaMemsetAsync (f.device, 2, N_BYTES, third), ==, cudaSuccess);
  pass (events.join, third, f.stream);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaSuccess);
  g_assert_cmpint (cudaGraphDestroy (graph), ==, cudaSuccess);

  /* by a stream that takes part, and has not begun */
  begin (&f);
  pass (events.fork, f.stream, f.other);
  g_assert_cmpint (cudaStreamEndCapture (f.other, &graph), ==, cudaErrorStreamCaptureUnmatched);
  assert_spoiled (&f);
  g_assert_cmpint (cudaStreamEndCapture (f.stream, &graph), ==, cudaErrorIllegalState);

  /* a host that waits for a stream which takes part */
  begin (&f);
  pass (events.fork, f.stream, f.other);
  g_assert_cmpint (cudaStreamSynchronize (f.other), ==, cudaErrorStreamCaptureUnsupported);
  g_assert_cmpint (get_status (f.other), ==, cudaStreamCaptureStatusInvalidated);
  g_assert_cmpint (cudaMemsetAsync (f.device, 1, N_BYTES, f.other), ==, cudaErrorStreamCaptureInvalidated);
  assert_spoiled (&f);

  /* an event of a capture that is over brings nobody into it */
  g_assert_cmpint (cudaStreamWaitEvent (f.other, events.fork, 0), ==, cudaErrorCapturedEvent);
  begin (&f);
  g_assert_cmpint (cudaStreamWaitEvent (f.stream, events.fork, 0), ==, cudaErrorStreamCaptureIsolation);
  assert_spoiled (&f);
  g_assert_cmpint (cudaStreamDestroy (third), ==, cudaSuccess);
  free_events (&events);
  tear_down (&f);
}

typedef struct
{
  cudaStream_t stream;
  cudaEvent_t event;
} Foreign;

/* Another thread waits for an event of this one's capture, in a capture of its own, and ends this one's. */
static gpointer
capture_elsewhere (gpointer data)
{
  const Foreign *foreign = data;
  cudaStream_t own = NULL;
  cudaGraph_t graph = NULL;
  g_assert_cmpint (cudaStreamCreateWithFlags (&own, cudaStreamNonBlocking), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamBeginCapture (own, cudaStreamCaptureModeThreadLocal), ==, cudaSuccess);
  g_assert_cmpint (cudaStreamWaitEvent (own, foreign->event, 0), ==, cudaErrorStreamCaptureMerge);
  g_assert_cmpint (cudaStreamEndCapture (own, &graph), ==, cudaErrorStreamCaptureInvalidated);
  g_assert_cmpint (cudaStreamEndCapture (foreign->stream, &graph), ==, cudaErrorStreamCaptureWrongThread);
  g_assert_cmpint (cudaStreamDestroy (own), ==, cudaSuccess);
  return NULL;
}

static void
test_two_captures (void)
{
  Fixture f;
  if (!set_up (&f))
    return;
  const Events events = make_events ();
  Foreign foreign = { f.stream, events.fork };
  begin (&f);
  g_assert_cmpint (cudaEventRecord (events.fork, f.stream), ==, cudaSuccess);
  g_thread_join (g_thread_new ("capture", capture_elsewhere, &foreign));
  assert_spoiled (&f);
  free_events (&events);
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

/* An object of one device is refused while another one is current, by a thread that has chosen it, or pushed its
 * context. */
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

  /* a context that is pushed comes before the device that was chosen */
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
  g_test_add_func ("/cuda-runtime/captures/fork", test_fork);
  g_test_add_func ("/cuda-runtime/captures/unjoined", test_unjoined);
  g_test_add_func ("/cuda-runtime/captures/two", test_two_captures);
  g_test_add_func ("/cuda-runtime/devices", test_devices);
  return g_test_run ();
}
