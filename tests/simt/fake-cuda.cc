/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda.h"
#include "fake-cuda-counts.h"
#include "fake-cuda-hold.h"
#include "simt-internal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

/* ---- settings ---- */

static uint64_t
get_setting (const char *name, uint64_t fallback)
{
  const char *text = getenv (name);
  return text != nullptr && *text != '\0' ? strtoull (text, nullptr, 10) : fallback;
}

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

/* ---- memory ---- */

#define DEVICE_ADDRESSES ((size_t) 1 << 36)
#define GRANULE ((size_t) 4096)

static std::mutex memory_lock;
static char *device_memory; /* [DEVICE_ADDRESSES] of addresses */
static std::map<char *, size_t> blocks, pinned;
static size_t n_used;
static unsigned n_open; /* streams that run: the memory can be touched while there are any */
static bool is_closed = true;
static uint64_t n_allocated, fail_from;

static void
reserve_memory (void)
{
  if (device_memory != nullptr)
    return;
  device_memory =
      (char *) mmap (nullptr, DEVICE_ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (device_memory == MAP_FAILED)
    abort ();
}

static void
protect (int how)
{
  for (const auto &block : blocks)
    mprotect (block.first, block.second, how);
}

static void
open_memory (void)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  if (n_open++ == 0 && is_closed)
    protect (PROT_READ | PROT_WRITE), is_closed = false;
}

/* Changing the protection of much memory takes long, so that later only one time in a few does it. */
static void
close_memory (void)
{
  static uint64_t n_closed;
  std::lock_guard<std::mutex> guard (memory_lock);
  if (--n_open == 0 && (n_closed++ < 64 || n_closed % 16 == 0))
    protect (PROT_NONE), is_closed = true;
}

static bool
is_device (const void *address)
{
  return device_memory != nullptr && (const char *) address >= device_memory &&
         (const char *) address < device_memory + DEVICE_ADDRESSES;
}

static bool
is_pinned (const void *address)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  auto after = pinned.upper_bound ((char *) address);
  return after != pinned.begin () && (--after, (const char *) address < after->first + after->second);
}

static size_t
get_total (void)
{
  return (size_t) get_setting ("ORTRAIN_FAKE_CUDA_MEMORY", (uint64_t) 8 << 30);
}

/* ---- errors ---- */

static std::atomic<int> sticky;             /* the device is lost: every call says so */
static thread_local cudaError_t last_error; /* of this thread, until it is asked for */
static std::atomic<uint64_t> n_operations, n_submitted;

static cudaError_t
report (cudaError_t error)
{
  if (error != cudaSuccess)
    last_error = error;
  return error;
}

static cudaError_t
get_sticky (void)
{
  return (cudaError_t) sticky.load ();
}

/* ---- streams ---- */

struct Operation
{
  std::string name;            /* of a launch */
  const char *other = nullptr; /* what else it is within the device */
  std::vector<uint64_t> data;
  void (*run) (void *data);
  cudaEvent_t record = nullptr, wait = nullptr;
  uint64_t number = 0; /* of the record */
};

struct OrtrainFakeGraph
{
  std::vector<std::shared_ptr<Operation> > operations;
};

struct OrtrainFakeGraphExec
{
  std::vector<std::shared_ptr<Operation> > operations;
};

struct OrtrainFakeEvent
{
  std::mutex lock;
  std::condition_variable changed;
  uint64_t recorded = 0, reached = 0;
  std::chrono::steady_clock::time_point time; /* when it was last reached */
};

struct OrtrainFakeStream
{
  std::thread thread;
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Operation> > queue;
  bool running = false, stops = false;
  uint32_t random = 1;

  bool captures = false, invalid = false, has_graphs = false;
  std::unique_ptr<OrtrainFakeGraph> graph;
};

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
      if (++n_operations >= get_setting ("ORTRAIN_FAKE_CUDA_LOST", UINT64_MAX))
        sticky = cudaErrorLaunchFailure;
      if (sticky == cudaSuccess)
        operation->run (operation->data.data ());
    }
}

static void
run_stream (OrtrainFakeStream *stream)
{
  std::unique_lock<std::mutex> guard (stream->lock);
  for (;;)
    {
      stream->changed.wait (guard, [&] { return stream->stops || !stream->queue.empty (); });
      if (stream->queue.empty ())
        return;
      stream->running = true;
      guard.unlock ();
      open_memory ();
      guard.lock ();
      while (!stream->queue.empty ())
        {
          const std::shared_ptr<Operation> operation = stream->queue.front ();
          guard.unlock ();
          run_operation (stream, operation.get ());
          guard.lock ();
          stream->queue.pop_front ();
        }
      guard.unlock ();
      close_memory ();
      guard.lock ();
      stream->running = false;
      stream->changed.notify_all ();
    }
}

static cudaError_t
submit (OrtrainFakeStream *stream, std::shared_ptr<Operation> operation)
{
  if (++n_submitted >= get_setting ("ORTRAIN_FAKE_CUDA_LOST_SUBMITTING", UINT64_MAX))
    sticky = cudaErrorLaunchFailure;
  if (get_sticky () != cudaSuccess)
    return report (get_sticky ());
  if (stream->captures)
    {
      if (stream->invalid)
        return report (cudaErrorStreamCaptureInvalidated);
      if (operation->record == nullptr && operation->wait == nullptr)
        stream->graph->operations.push_back (std::move (operation));
      return cudaSuccess;
    }
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
  return submit (stream, make_operation (name, run, data, n_bytes));
}

/* Arguments of a kernel, which may be vectors, lie behind it. */
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
    return report (cudaErrorInvalidValue);
  fake_cuda_note_kernel (*(const void *const *) closure); /* begins with the kernel */
  auto operation = std::make_shared<Operation> ();
  operation->name = name;
  operation->run = run_grid;
  operation->data.resize ((sizeof (Grid) + n_bytes + 7) / 8);
  Grid *head = new (operation->data.data ()) Grid{ grid, block, invoke, get_order (), "" };
  snprintf (head->name, sizeof head->name, "%s", name);
  memcpy ((void *) (head + 1), closure, n_bytes);
  return submit (stream, std::move (operation));
}

/* ---- CUDA's functions ---- */

cudaError_t
cudaGetDeviceCount (int *count)
{
  *count = getenv ("ORTRAIN_FAKE_CUDA_NONE") == nullptr;
  return *count > 0 ? cudaSuccess : report (cudaErrorNoDevice);
}

cudaError_t
cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device)
{
  *properties = {};
  snprintf (properties->name, sizeof properties->name, "emulated on the host");
  properties->totalGlobalMem = get_total ();
  properties->major = 9;
  properties->multiProcessorCount = 2;
  properties->l2CacheSize = 1 << 20;
  return device == 0 ? cudaSuccess : report (cudaErrorInvalidDevice);
}

cudaError_t
cudaSetDevice (int device)
{
  return device == 0 ? report (get_sticky ()) : report (cudaErrorInvalidDevice);
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

static bool
is_failing (void)
{
  const uint64_t limit = get_setting ("ORTRAIN_FAKE_CUDA_FAIL", UINT64_MAX);
  if (limit != fail_from)
    n_allocated = 0;
  fail_from = limit;
  return ++n_allocated >= limit;
}

cudaError_t
cudaMalloc (void **address, size_t n_bytes)
{
  if (get_sticky () != cudaSuccess)
    return report (get_sticky ());
  COUNT (n_allocations);
  std::lock_guard<std::mutex> guard (memory_lock);
  reserve_memory ();
  const size_t size = (n_bytes + GRANULE - 1) / GRANULE * GRANULE;
  if (is_failing () || n_bytes == 0 || size < n_bytes || n_used + size > get_total ())
    return report (cudaErrorMemoryAllocation);
  char *at = device_memory + GRANULE;
  for (const auto &block : blocks)
    {
      if ((size_t) (block.first - at) >= size + GRANULE)
        break;
      at = block.first + block.second + GRANULE; /* a page between blocks */
    }
  if (at + size > device_memory + DEVICE_ADDRESSES)
    return report (cudaErrorMemoryAllocation);
  blocks[at] = size;
  n_used += size;
  /* what nobody has written is NaN */
  mprotect (at, size, PROT_READ | PROT_WRITE);
  memset (at, 0xff, size < ((size_t) 1 << 20) ? size : (size_t) 1 << 20);
  mprotect (at, size, is_closed ? PROT_NONE : PROT_READ | PROT_WRITE);
  *address = at;
  return cudaSuccess;
}

cudaError_t
cudaFree (void *address)
{
  if (address == nullptr)
    return cudaSuccess;
  std::lock_guard<std::mutex> guard (memory_lock);
  const auto found = blocks.find ((char *) address);
  if (found == blocks.end ())
    return report (cudaErrorInvalidValue);
  madvise (address, found->second, MADV_DONTNEED);
  mprotect (address, found->second, PROT_NONE);
  n_used -= found->second;
  blocks.erase (found);
  return get_sticky ();
}

cudaError_t
cudaHostAlloc (void **address, size_t n_bytes, unsigned int flags)
{
  const size_t size = (n_bytes + GRANULE - 1) / GRANULE * GRANULE;
  *address = mmap (nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*address == MAP_FAILED)
    return report (cudaErrorMemoryAllocation);
  std::lock_guard<std::mutex> guard (memory_lock);
  pinned[(char *) *address] = size;
  return cudaSuccess;
}

cudaError_t
cudaFreeHost (void *address)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  const auto found = pinned.find ((char *) address);
  if (found == pinned.end ())
    return report (cudaErrorInvalidValue);
  munmap (address, found->second);
  pinned.erase (found);
  return cudaSuccess;
}

cudaError_t
cudaMemGetInfo (size_t *available, size_t *total)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  *total = get_total ();
  *available = *total > n_used ? *total - n_used : 0;
  return report (get_sticky ());
}

static void
run_set (void *data)
{
  const uint64_t *parts = (const uint64_t *) data;
  memset ((void *) parts[0], (int) parts[1], parts[2]);
}

cudaError_t
cudaMemsetAsync (void *address, int byte, size_t n_bytes, cudaStream_t stream)
{
  const uint64_t parts[3] = { (uint64_t) address, (uint64_t) (byte & 255), n_bytes };
  const auto operation = make_operation (nullptr, run_set, parts, sizeof parts);
  operation->other = "fill";
  return submit (stream, operation);
}

cudaError_t
cudaMemset (void *address, int byte, size_t n_bytes)
{
  if (get_sticky () != cudaSuccess)
    return report (get_sticky ());
  open_memory ();
  memset (address, byte, n_bytes);
  close_memory ();
  return cudaSuccess;
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
  const bool from_host = !is_device (source) && !is_pinned (source);
  const bool to_host = !is_device (destination) && !is_pinned (destination);
  {
    std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
    fake_cuda_counts.n_copies++;
    fake_cuda_counts.n_bytes_copied += n_bytes;
    fake_cuda_counts.n_ordinary_copies += from_host || to_host;
    fake_cuda_counts.n_early_copies += !is_device (source) && is_device (destination) && !stream->has_graphs;
  }
  if (!is_device (source) && is_device (destination))
    fake_cuda_note_copy ({ source, destination, n_bytes, stream, !from_host, stream->has_graphs });
  if (stream->captures && (from_host || to_host))
    {
      stream->invalid = true;
      return report (cudaErrorStreamCaptureUnsupported);
    }
  if (from_host && !to_host)
    {
      auto operation = std::make_shared<Operation> ();
      operation->run = run_staged;
      operation->data.resize ((n_bytes + 7) / 8 + 2);
      operation->data[0] = (uint64_t) destination;
      operation->data[1] = n_bytes;
      memcpy (operation->data.data () + 2, source, n_bytes);
      return submit (stream, std::move (operation));
    }
  const uint64_t parts[3] = { (uint64_t) destination, (uint64_t) source, n_bytes };
  const auto operation = make_operation (nullptr, run_copy, parts, sizeof parts);
  if (is_device (source) && is_device (destination))
    operation->other = "copy";
  const cudaError_t error = submit (stream, operation);
  return to_host && error == cudaSuccess ? cudaStreamSynchronize (stream) : error;
}

static std::mutex streams_lock;
static std::vector<OrtrainFakeStream *> streams;

cudaError_t
cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned int flags)
{
  static std::atomic<uint32_t> number;
  if (get_sticky () != cudaSuccess)
    return report (get_sticky ());
  *stream = new OrtrainFakeStream ();
  (*stream)->random = ++number * 2654435761u;
  (*stream)->thread = std::thread (run_stream, *stream);
  std::lock_guard<std::mutex> guard (streams_lock);
  streams.push_back (*stream);
  return cudaSuccess;
}

cudaError_t
cudaStreamDestroy (cudaStream_t stream)
{
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

void
ortrain_fake_cuda_drain (void)
{
  std::lock_guard<std::mutex> guard (streams_lock);
  for (OrtrainFakeStream *stream : streams)
    wait_for_stream (stream);
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
  for (unsigned n_still = 0; n_still < 2;) /* what one has done meanwhile may be what another waits for */
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
    return report (get_sticky ());
  if (stream->captures)
    {
      stream->invalid = true;
      return report (cudaErrorStreamCaptureUnsupported);
    }
  wait_for_stream (stream);
  return report (get_sticky ());
}

cudaError_t
cudaEventCreateWithFlags (cudaEvent_t *event, unsigned int flags)
{
  *event = new OrtrainFakeEvent ();
  return cudaSuccess;
}

cudaError_t
cudaEventDestroy (cudaEvent_t event)
{
  delete event;
  return cudaSuccess;
}

static cudaError_t
add_event (cudaStream_t stream, cudaEvent_t event, bool records)
{
  auto operation = std::make_shared<Operation> ();
  {
    std::lock_guard<std::mutex> guard (event->lock);
    operation->number = records && !stream->captures ? ++event->recorded : event->recorded;
  }
  (records ? operation->record : operation->wait) = event;
  return submit (stream, std::move (operation));
}

cudaError_t
cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
{
  return add_event (stream, event, true);
}

cudaError_t
cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
  return add_event (stream, event, false);
}

cudaError_t
cudaEventSynchronize (cudaEvent_t event)
{
  COUNT (n_waits);
  std::unique_lock<std::mutex> guard (event->lock);
  const uint64_t number = event->recorded;
  if (event->reached < number)
    ortrain_fake_cuda_release ();
  event->changed.wait (guard, [&] { return event->reached >= number; });
  return report (get_sticky ());
}

cudaError_t
cudaEventQuery (cudaEvent_t event)
{
  std::lock_guard<std::mutex> guard (event->lock);
  return get_sticky () != cudaSuccess        ? report (get_sticky ())
         : event->reached >= event->recorded ? cudaSuccess
                                             : cudaErrorNotReady;
}

cudaError_t
cudaEventElapsedTime (float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
  if (cudaEventQuery (begin) != cudaSuccess || cudaEventQuery (end) != cudaSuccess)
    return report (cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli> (end->time - begin->time).count ();
  return cudaSuccess;
}

cudaError_t
cudaStreamBeginCapture (cudaStream_t stream, cudaStreamCaptureMode mode)
{
  if (stream->captures)
    return report (cudaErrorInvalidValue);
  stream->captures = true;
  stream->invalid = false;
  stream->graph = std::make_unique<OrtrainFakeGraph> ();
  return report (get_sticky ());
}

cudaError_t
cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph)
{
  stream->captures = false;
  *graph = nullptr;
  if (stream->invalid)
    return report (cudaErrorStreamCaptureInvalidated);
  *graph = stream->graph.release ();
  return report (get_sticky ());
}

cudaError_t
cudaGraphInstantiate (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
  COUNT (n_captures);
  *exec = new OrtrainFakeGraphExec{ graph->operations };
  return report (get_sticky ());
}

cudaError_t
cudaGraphLaunch (cudaGraphExec_t exec, cudaStream_t stream)
{
  if (get_sticky () != cudaSuccess)
    return report (get_sticky ());
  stream->has_graphs = true;
  COUNT (n_graph_launches);
  COUNT (n_submissions);
  for (const auto &operation : exec->operations)
    fake_cuda_count_launch (operation->name, operation->other);
  std::lock_guard<std::mutex> guard (stream->lock);
  for (const auto &operation : exec->operations)
    stream->queue.push_back (operation);
  stream->changed.notify_all ();
  return cudaSuccess;
}

cudaError_t
cudaGraphDestroy (cudaGraph_t graph)
{
  delete graph;
  return cudaSuccess;
}

cudaError_t
cudaGraphExecDestroy (cudaGraphExec_t exec)
{
  delete exec;
  return cudaSuccess;
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

const char *
cudaGetErrorName (cudaError_t error)
{
  switch (error)
    {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaError";
    }
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
