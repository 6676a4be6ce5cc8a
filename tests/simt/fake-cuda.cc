/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda.h"
#include "fake-cuda-counts.h"
#include "fake-cuda-hold.h"
#include "fake-cuda-internal.h"
#include "fake-cuda-legacy.h"
#include "fake-cuda-streams.h"
#include "simt-internal.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

/* ---- settings ---- */

static SimtOrder
get_order (void)
{
  const char *text = getenv ("ORTRAIN_SIMT_ORDER");
  if (text == nullptr)
    return SIMT_ORDER_FORWARD;
  return !strcmp (text, "reverse")    ? SIMT_ORDER_REVERSE
         : !strcmp (text, "shuffled") ? SIMT_ORDER_SHUFFLED
                                      : SIMT_ORDER_FORWARD;
}

int
ortrain_fake_cuda_get_choices (void)
{
  const char *text = getenv ("ORTRAIN_FAKE_CUDA_CHOICES");
  return text != nullptr ? atoi (text) : 0;
}

static std::atomic<uint64_t> n_operations, n_submitted;

/* ---- streams ---- */

static void
run_operation (OrtrainFakeStream *stream, Operation *operation)
{
  fake_cuda_wait_while_held (stream->has_graphs);
  stream->random = stream->random * 1664525u + 1013904223u;
  if (stream->random >> 28 == 0)
    std::this_thread::sleep_for (std::chrono::microseconds (20 + (stream->random >> 20 & 63)));
  if (operation->wait != nullptr)
    {
      std::unique_lock<std::mutex> guard (operation->wait->lock);
      operation->wait->changed.wait (guard, [&] { return operation->wait->reached >= operation->number; });
    }
  else if (operation->record != nullptr)
    {
      std::lock_guard<std::mutex> guard (operation->record->lock);
      operation->record->reached = std::max (operation->record->reached, operation->number);
      operation->record->time = std::chrono::steady_clock::now ();
      operation->record->changed.notify_all ();
    }
  else
    {
      if (++n_operations >= fake_cuda_get_setting ("ORTRAIN_FAKE_CUDA_LOST", UINT64_MAX))
        fake_cuda_lose (cudaErrorLaunchFailure);
      if (fake_cuda_get_sticky () == cudaSuccess)
        operation->run (operation->data.data ());
    }
}

static void
run_stream (OrtrainFakeStream *stream)
{
  fake_cuda_choose_device (stream->device);
  std::unique_lock<std::mutex> guard (stream->lock);
  for (;;)
    {
      stream->changed.wait (guard, [&] { return stream->stops || !stream->queue.empty (); });
      if (stream->queue.empty ())
        return;
      stream->running = true;
      guard.unlock ();
      fake_cuda_open_memory ();
      guard.lock ();
      while (!stream->queue.empty ())
        {
          const std::shared_ptr<Operation> operation = stream->queue.front ();
          guard.unlock ();
          run_operation (stream, operation.get ());
          if (!stream->blocking)
            fake_cuda_age_legacy ();
          guard.lock ();
          stream->queue.pop_front ();
        }
      guard.unlock ();
      fake_cuda_close_memory ();
      guard.lock ();
      stream->running = false;
      stream->changed.notify_all ();
    }
}

cudaError_t
fake_cuda_check_stream (const OrtrainFakeStream *stream)
{
  return fake_cuda_check_device (stream->device, cudaErrorInvalidResourceHandle);
}

static void wait_for_blocking_streams (void);

/* Streams that block wait for the legacy stream, and it for them. */
static cudaError_t
submit_to_legacy (std::shared_ptr<Operation> operation)
{
  if (fake_cuda_check_capture () != cudaSuccess)
    return cudaErrorStreamCaptureUnsupported;
  COUNT (n_legacy);
  wait_for_blocking_streams ();
  fake_cuda_add_legacy ([operation] {
    fake_cuda_open_memory ();
    if (fake_cuda_get_sticky () == cudaSuccess && operation->run != nullptr)
      operation->run (operation->data.data ());
    fake_cuda_close_memory ();
  });
  return cudaSuccess;
}

cudaError_t
fake_cuda_submit (OrtrainFakeStream *stream, std::shared_ptr<Operation> operation)
{
  if (++n_submitted >= fake_cuda_get_setting ("ORTRAIN_FAKE_CUDA_LOST_SUBMITTING", UINT64_MAX))
    fake_cuda_lose (cudaErrorLaunchFailure);
  if (fake_cuda_get_sticky () != cudaSuccess)
    return fake_cuda_report (fake_cuda_get_sticky ());
  if (stream != nullptr && fake_cuda_check_stream (stream) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  if (stream == nullptr)
    return submit_to_legacy (std::move (operation));
  if (stream->blocking)
    fake_cuda_run_legacy ();
  if (stream->capture != nullptr)
    return fake_cuda_capture_operation (stream, std::move (operation));
  fake_cuda_count_launch (operation->name, operation->other);
  if (operation->record == nullptr && operation->wait == nullptr)
    COUNT (n_submissions);
  std::lock_guard<std::mutex> guard (stream->lock);
  stream->queue.push_back (std::move (operation));
  stream->changed.notify_all ();
  return cudaSuccess;
}

static std::shared_ptr<Operation>
make_operation (const char *name, void (*run) (void *), const void *data, size_t n_bytes)
{
  auto operation = std::make_shared<Operation> ();
  operation->name = name != nullptr ? name : "";
  operation->run = run;
  operation->data.resize ((n_bytes + 7) / 8 + 1);
  if (n_bytes > 0)
    memcpy (operation->data.data (), data, n_bytes);
  return operation;
}

cudaError_t
ortrain_fake_cuda_enqueue (cudaStream_t stream, const char *name, void (*run) (void *), const void *data,
                           size_t n_bytes)
{
  return fake_cuda_submit (stream, make_operation (name, run, data, n_bytes));
}

/* Arguments of a kernel, which may be vectors, follow it in memory. */
struct alignas (16) Grid
{
  dim3 grid, block;
  SimtInvoke invoke;
  SimtOrder order;
  char name[48];
};

static void
run_grid (void *data)
{
  const Grid *grid = (const Grid *) data;
  simt_run_grid (grid->name, grid->grid, grid->block, grid->invoke, grid + 1, grid->order);
}

int
simt_launch (SimtStream stream, const char *name, dim3 grid, dim3 block, SimtInvoke invoke, const void *closure,
             size_t n_bytes)
{
  if (block.x * block.y * block.z > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535)
    return fake_cuda_report (cudaErrorInvalidValue);
  fake_cuda_note_kernel (*(const void *const *) closure); /* begins with the kernel */
  fake_cuda_count_blocks (name, (uint64_t) grid.x * grid.y * grid.z);
  auto operation = std::make_shared<Operation> ();
  operation->name = name;
  operation->run = run_grid;
  operation->data.resize ((sizeof (Grid) + n_bytes + 7) / 8);
  Grid *head = new (operation->data.data ()) Grid{ grid, block, invoke, get_order (), "" };
  snprintf (head->name, sizeof head->name, "%s", name);
  memcpy ((void *) (head + 1), closure, n_bytes);
  return fake_cuda_submit (stream, std::move (operation));
}

/* ---- CUDA's functions ---- */

static void
run_set (void *data)
{
  const uint64_t *parts = (const uint64_t *) data;
  memset ((void *) parts[0], (int) parts[1], parts[2]);
}

cudaError_t
cudaMemsetAsync (void *address, int byte, size_t n_bytes, cudaStream_t stream)
{
  if (fake_cuda_check_memory (address) != cudaSuccess)
    return cudaErrorInvalidDevicePointer;
  const uint64_t parts[3] = { (uint64_t) address, (uint64_t) (byte & 255), n_bytes };
  const auto operation = make_operation (nullptr, run_set, parts, sizeof parts);
  operation->other = "fill";
  return fake_cuda_submit (stream, operation);
}

cudaError_t
cudaMemset (void *address, int byte, size_t n_bytes)
{
  if (fake_cuda_is_device (address)) /* as on a device, the host does not wait */
    return cudaMemsetAsync (address, byte, n_bytes, nullptr);
  memset (address, byte, n_bytes);
  return fake_cuda_report (fake_cuda_get_sticky ());
}

static void
run_copy (void *data)
{
  const uint64_t *parts = (const uint64_t *) data;
  memmove ((void *) parts[0], (const void *) parts[1], parts[2]);
}

static void
run_staged (void *data)
{
  const uint64_t *parts = (const uint64_t *) data;
  memcpy ((void *) parts[0], parts + 2, parts[1]);
}

/* From ordinary memory of the host, CUDA copies to a place of its own first; to it, it waits. */
cudaError_t
cudaMemcpyAsync (void *destination, const void *source, size_t n_bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
  if (fake_cuda_check_memory (source) != cudaSuccess || fake_cuda_check_memory (destination) != cudaSuccess)
    return cudaErrorInvalidDevicePointer;
  const bool from_host = !fake_cuda_is_device (source) && !fake_cuda_is_pinned (source);
  const bool to_host = !fake_cuda_is_device (destination) && !fake_cuda_is_pinned (destination);
  const bool has_graphs = stream != nullptr && stream->has_graphs;
  {
    std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
    fake_cuda_counts.n_copies++;
    fake_cuda_counts.n_bytes_copied += n_bytes;
    fake_cuda_counts.n_ordinary_copies += from_host || to_host;
    fake_cuda_counts.n_early_copies +=
        !fake_cuda_is_device (source) && fake_cuda_is_device (destination) && !has_graphs;
  }
  if (!fake_cuda_is_device (source) && fake_cuda_is_device (destination))
    fake_cuda_note_copy ({ source, destination, n_bytes, stream, !from_host, has_graphs });
  const bool captures = stream != nullptr && stream->capture != nullptr;
  if (captures && to_host)
    {
      fake_cuda_spoil_capture (stream);
      return fake_cuda_report (cudaErrorStreamCaptureUnsupported);
    }
  if (from_host && !to_host && !captures) /* a graph reads it whenever it is launched */
    {
      auto operation = std::make_shared<Operation> ();
      operation->run = run_staged;
      operation->data.resize ((n_bytes + 7) / 8 + 2);
      operation->data[0] = (uint64_t) destination;
      operation->data[1] = n_bytes;
      memcpy (operation->data.data () + 2, source, n_bytes);
      return fake_cuda_submit (stream, std::move (operation));
    }
  const uint64_t parts[3] = { (uint64_t) destination, (uint64_t) source, n_bytes };
  const auto operation = make_operation (nullptr, run_copy, parts, sizeof parts);
  if (fake_cuda_is_device (source) && fake_cuda_is_device (destination))
    operation->other = "copy";
  const cudaError_t error = fake_cuda_submit (stream, operation);
  return to_host && error == cudaSuccess ? cudaStreamSynchronize (stream) : error;
}

static void
run_copy_2d (void *data)
{
  const uint64_t *parts = (const uint64_t *) data;
  for (uint64_t row = 0; row < parts[5]; row++)
    memmove ((char *) parts[0] + row * parts[1], (const char *) parts[2] + row * parts[3], parts[4]);
}

/* Within the device only: all that is asked for. */
cudaError_t
cudaMemcpy2DAsync (void *destination, size_t destination_pitch, const void *source, size_t source_pitch, size_t width,
                   size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
  if (!fake_cuda_is_device (source) || !fake_cuda_is_device (destination) || width > source_pitch ||
      width > destination_pitch)
    return fake_cuda_report (cudaErrorInvalidValue);
  if (fake_cuda_check_memory (source) != cudaSuccess || fake_cuda_check_memory (destination) != cudaSuccess)
    return cudaErrorInvalidDevicePointer;
  const uint64_t parts[6] = {
    (uint64_t) destination, destination_pitch, (uint64_t) source, source_pitch, width, height
  };
  const auto operation = make_operation (nullptr, run_copy_2d, parts, sizeof parts);
  operation->other = "copy";
  return fake_cuda_submit (stream, operation);
}

static std::mutex streams_lock;
static std::vector<OrtrainFakeStream *> streams;

cudaError_t
cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned int flags)
{
  static std::atomic<uint32_t> number;
  if (fake_cuda_get_sticky () != cudaSuccess)
    return fake_cuda_report (fake_cuda_get_sticky ());
  *stream = new OrtrainFakeStream ();
  (*stream)->random = ++number * 2654435761u;
  (*stream)->device = fake_cuda_use_device ();
  (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
  (*stream)->thread = std::thread (run_stream, *stream);
  std::lock_guard<std::mutex> guard (streams_lock);
  streams.push_back (*stream);
  return cudaSuccess;
}

cudaError_t
cudaStreamDestroy (cudaStream_t stream)
{
  if (fake_cuda_check_stream (stream) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr)
    {
      fake_cuda_spoil_capture (stream);
      return fake_cuda_report (cudaErrorStreamCaptureUnsupported);
    }
  {
    std::lock_guard<std::mutex> guard (streams_lock);
    streams.erase (std::find (streams.begin (), streams.end (), stream));
  }
  {
    std::lock_guard<std::mutex> guard (stream->lock);
    stream->stops = true;
    stream->changed.notify_all ();
  }
  stream->thread.join ();
  delete stream;
  return cudaSuccess;
}

static void
wait_for_stream (OrtrainFakeStream *stream)
{
  std::unique_lock<std::mutex> guard (stream->lock);
  if (!stream->queue.empty ())
    ortrain_fake_cuda_release ();
  stream->changed.wait (guard, [&] { return stream->queue.empty () && !stream->running; });
}

static void
wait_for_blocking_streams (void)
{
  std::lock_guard<std::mutex> guard (streams_lock);
  for (OrtrainFakeStream *stream : streams)
    if (stream->blocking && stream->device == fake_cuda_get_device ())
      wait_for_stream (stream);
}

void
ortrain_fake_cuda_drain (void)
{
  std::lock_guard<std::mutex> guard (streams_lock);
  for (OrtrainFakeStream *stream : streams)
    wait_for_stream (stream);
}

cudaError_t
cudaDeviceSynchronize (void)
{
  if (fake_cuda_check_capture () != cudaSuccess)
    return cudaErrorStreamCaptureUnsupported;
  COUNT (n_waits);
  fake_cuda_run_legacy ();
  {
    std::lock_guard<std::mutex> guard (streams_lock);
    for (OrtrainFakeStream *stream : streams)
      if (stream->device == fake_cuda_get_device ())
        wait_for_stream (stream);
  }
  return fake_cuda_report (fake_cuda_get_sticky ());
}

typedef enum
{
  STREAM_IDLE,
  STREAM_RUNS,
  STREAM_WAITS,
} StreamState;

static StreamState
get_state (OrtrainFakeStream *stream)
{
  std::lock_guard<std::mutex> guard (stream->lock);
  if (stream->queue.empty ())
    return stream->running ? STREAM_RUNS : STREAM_IDLE;
  const Operation *operation = stream->queue.front ().get ();
  if (operation->wait == nullptr)
    return STREAM_RUNS;
  std::lock_guard<std::mutex> event_guard (operation->wait->lock);
  return operation->wait->reached < operation->number ? STREAM_WAITS : STREAM_RUNS;
}

int
ortrain_fake_cuda_run_others (void)
{
  std::lock_guard<std::mutex> guard (streams_lock);
  bool waits = false;
  for (unsigned n_still = 0; n_still < 2;) /* another stream may wait for an operation that one has done meanwhile */
    {
      bool runs = false;
      waits = false;
      for (OrtrainFakeStream *stream : streams)
        {
          const StreamState state = stream->has_graphs ? STREAM_IDLE : get_state (stream);
          runs = runs || state == STREAM_RUNS;
          waits = waits || state == STREAM_WAITS;
        }
      n_still = runs ? 0 : n_still + 1;
      std::this_thread::yield ();
    }
  return !waits;
}

cudaError_t
cudaStreamSynchronize (cudaStream_t stream)
{
  COUNT (n_waits);
  if (stream == nullptr)
    {
      fake_cuda_run_legacy ();
      return fake_cuda_report (fake_cuda_get_sticky ());
    }
  if (fake_cuda_check_stream (stream) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr)
    {
      fake_cuda_spoil_capture (stream);
      return fake_cuda_report (cudaErrorStreamCaptureUnsupported);
    }
  if (stream->blocking)
    fake_cuda_run_legacy ();
  wait_for_stream (stream);
  return fake_cuda_report (fake_cuda_get_sticky ());
}
