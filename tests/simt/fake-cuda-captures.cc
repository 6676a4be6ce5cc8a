/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-counts.h"
#include "fake-cuda-internal.h"
#include "fake-cuda-streams.h"

#include <algorithm>

/* Captures. Each operation that is submitted to a stream becomes a node of the graph, after the stream's last one. An
 * event that is recorded in a capture is a place in the graph: a stream that waits for it takes part in the capture
 * from then on, and its next node comes after that place. At the end, all operations of the other streams have to come
 * before the end of the stream that began. */

static std::mutex captures_lock;
static thread_local std::shared_ptr<Capture> begun; /* by this thread, which may not wait for the device meanwhile */

cudaError_t
fake_cuda_check_capture (void)
{
  std::lock_guard<std::mutex> guard (captures_lock);
  if (begun == nullptr || begun->is_over)
    return cudaSuccess;
  begun->invalid = true;
  return fake_cuda_report (cudaErrorStreamCaptureUnsupported);
}

void
fake_cuda_spoil_capture (OrtrainFakeStream *stream)
{
  std::lock_guard<std::mutex> guard (captures_lock);
  stream->capture->invalid = true;
}

cudaError_t
fake_cuda_capture_operation (OrtrainFakeStream *stream, std::shared_ptr<Operation> operation)
{
  std::lock_guard<std::mutex> guard (captures_lock);
  Capture *capture = stream->capture.get ();
  if (capture->invalid)
    return fake_cuda_report (cudaErrorStreamCaptureInvalidated);
  capture->graph->nodes.push_back ({ std::move (operation), std::move (stream->after) });
  stream->after = { capture->graph->nodes.size () - 1 };
  return cudaSuccess;
}

cudaError_t
fake_cuda_capture_record (OrtrainFakeStream *stream, OrtrainFakeEvent *event)
{
  std::lock_guard<std::mutex> guard (captures_lock);
  if (stream->capture->invalid)
    return fake_cuda_report (cudaErrorStreamCaptureInvalidated);
  event->capture = stream->capture;
  event->after = stream->after;
  return cudaSuccess;
}

static cudaError_t
spoil (Capture *capture, cudaError_t error)
{
  capture->invalid = true;
  return fake_cuda_report (error);
}

cudaError_t
fake_cuda_capture_wait (OrtrainFakeStream *stream, OrtrainFakeEvent *event)
{
  std::lock_guard<std::mutex> guard (captures_lock);
  const std::shared_ptr<Capture> of_event = event->capture;
  const bool is_active = of_event != nullptr && !of_event->is_over;
  if (stream->capture == nullptr)
    {
      if (!is_active)
        return fake_cuda_report (cudaErrorCapturedEvent);
      if (of_event->invalid)
        return fake_cuda_report (cudaErrorStreamCaptureInvalidated);
      stream->capture = of_event;
      stream->after.clear ();
      of_event->streams.push_back (stream);
    }
  else if (stream->capture->invalid)
    return fake_cuda_report (cudaErrorStreamCaptureInvalidated);
  else if (of_event == nullptr && event->recorded == 0)
    return cudaSuccess;
  else if (!is_active)
    return spoil (stream->capture.get (), cudaErrorStreamCaptureIsolation);
  else if (of_event != stream->capture)
    return spoil (stream->capture.get (), cudaErrorStreamCaptureMerge);
  for (size_t node : event->after)
    if (std::find (stream->after.begin (), stream->after.end (), node) == stream->after.end ())
      stream->after.push_back (node);
  return cudaSuccess;
}

/* Whether all that its streams were given comes before the end of the first one. */
static bool
is_joined (const Capture *capture)
{
  const std::vector<Node> &nodes = capture->graph->nodes;
  std::vector<bool> before (nodes.size (), false);
  for (size_t node : capture->origin->after)
    before[node] = true;
  for (size_t i = nodes.size (); i-- > 0;)
    if (before[i])
      for (size_t node : nodes[i].after)
        before[node] = true;
  for (const OrtrainFakeStream *stream : capture->streams)
    for (size_t node : stream->after)
      if (!before[node])
        return false;
  return true;
}

cudaError_t
cudaStreamBeginCapture (cudaStream_t stream, cudaStreamCaptureMode mode)
{
  if (fake_cuda_check_stream (stream) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  std::lock_guard<std::mutex> guard (captures_lock);
  if (stream->capture != nullptr || (begun != nullptr && !begun->is_over))
    return fake_cuda_report (cudaErrorInvalidValue);
  begun = std::make_shared<Capture> ();
  begun->origin = stream;
  begun->thread = std::this_thread::get_id ();
  begun->streams = { stream };
  begun->graph = std::make_unique<OrtrainFakeGraph> ();
  begun->graph->device = stream->device;
  stream->capture = begun;
  stream->after.clear ();
  return fake_cuda_report (fake_cuda_get_sticky ());
}

cudaError_t
cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph)
{
  *graph = nullptr;
  if (fake_cuda_check_stream (stream) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  std::lock_guard<std::mutex> guard (captures_lock);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr)
    return fake_cuda_report (cudaErrorIllegalState);
  if (capture->origin != stream)
    return spoil (capture.get (), cudaErrorStreamCaptureUnmatched);
  if (capture->thread != std::this_thread::get_id ())
    return spoil (capture.get (), cudaErrorStreamCaptureWrongThread);
  const bool was_joined = is_joined (capture.get ());
  capture->is_over = true;
  for (OrtrainFakeStream *each : capture->streams)
    each->capture = nullptr;
  begun = nullptr;
  if (capture->invalid)
    return fake_cuda_report (cudaErrorStreamCaptureInvalidated);
  if (!was_joined)
    return fake_cuda_report (cudaErrorStreamCaptureUnjoined);
  *graph = capture->graph.release ();
  return fake_cuda_report (fake_cuda_get_sticky ());
}

cudaError_t
cudaStreamIsCapturing (cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
  std::lock_guard<std::mutex> guard (captures_lock);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t
cudaGraphInstantiate (cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
  if (fake_cuda_check_device (graph->device, cudaErrorInvalidResourceHandle) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  COUNT (n_captures);
  *exec = new OrtrainFakeGraphExec{ graph->device, graph->nodes };
  return fake_cuda_report (fake_cuda_get_sticky ());
}

/* One of the orders that the edges allow, another one each time: an edge that is missing shows sooner or later. */
static std::vector<std::shared_ptr<Operation> >
choose_order (const std::vector<Node> &nodes)
{
  static std::atomic<uint32_t> n_orders;
  uint32_t random = ++n_orders * 2654435761u;
  std::vector<size_t> n_before (nodes.size ()), ready;
  std::vector<std::vector<size_t> > next (nodes.size ());
  std::vector<std::shared_ptr<Operation> > order;
  for (size_t i = 0; i < nodes.size (); i++)
    {
      n_before[i] = nodes[i].after.size ();
      for (size_t node : nodes[i].after)
        next[node].push_back (i);
      if (n_before[i] == 0)
        ready.push_back (i);
    }
  while (!ready.empty ())
    {
      random = random * 1664525u + 1013904223u;
      const size_t place = (random >> 8) % ready.size (), node = ready[place];
      ready.erase (ready.begin () + (ptrdiff_t) place);
      order.push_back (nodes[node].operation);
      for (size_t each : next[node])
        if (--n_before[each] == 0)
          ready.push_back (each);
    }
  return order;
}

cudaError_t
cudaGraphLaunch (cudaGraphExec_t exec, cudaStream_t stream)
{
  if (fake_cuda_get_sticky () != cudaSuccess)
    return fake_cuda_report (fake_cuda_get_sticky ());
  if (fake_cuda_check_stream (stream) != cudaSuccess ||
      fake_cuda_check_device (exec->device, cudaErrorInvalidResourceHandle) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  stream->has_graphs = true;
  COUNT (n_graph_launches);
  COUNT (n_submissions);
  const auto order = choose_order (exec->nodes);
  for (const auto &operation : order)
    fake_cuda_count_launch (operation->name, operation->other);
  std::lock_guard<std::mutex> guard (stream->lock);
  for (const auto &operation : order)
    stream->queue.push_back (operation);
  stream->changed.notify_all ();
  return cudaSuccess;
}

cudaError_t
cudaGraphDestroy (cudaGraph_t graph)
{
  if (fake_cuda_check_device (graph->device, cudaErrorInvalidResourceHandle) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  delete graph;
  return cudaSuccess;
}

cudaError_t
cudaGraphExecDestroy (cudaGraphExec_t exec)
{
  if (fake_cuda_check_device (exec->device, cudaErrorInvalidResourceHandle) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  delete exec;
  return cudaSuccess;
}
