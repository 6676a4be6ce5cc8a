/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-counts.h"
#include "fake-cuda-internal.h"
#include "fake-cuda-streams.h"

/* Events: of streams, and of captures. An event of a capture orders the operations in the capture, and nothing
 * outside. */

cudaError_t
cudaEventCreateWithFlags (cudaEvent_t *event, unsigned int flags)
{
  *event = new OrtrainFakeEvent ();
  (*event)->device = fake_cuda_use_device ();
  return cudaSuccess;
}

static cudaError_t
check_device_of (const OrtrainFakeEvent *event)
{
  return fake_cuda_check_device (event->device, cudaErrorInvalidResourceHandle);
}

cudaError_t
cudaEventDestroy (cudaEvent_t event)
{
  if (check_device_of (event) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  delete event;
  return cudaSuccess;
}

static cudaError_t
add_event (cudaStream_t stream, cudaEvent_t event, bool records)
{
  if (fake_cuda_check_stream (stream) != cudaSuccess || check_device_of (event) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  auto operation = std::make_shared<Operation> ();
  {
    std::lock_guard<std::mutex> guard (event->lock);
    if (records && stream->capture != nullptr)
      return fake_cuda_capture_record (stream, event);
    if (!records && (stream->capture != nullptr || event->capture != nullptr))
      return fake_cuda_capture_wait (stream, event);
    if (records)
      {
        event->capture = nullptr;
        event->after.clear ();
      }
    operation->number = records ? ++event->recorded : event->recorded;
  }
  (records ? operation->record : operation->wait) = event;
  return fake_cuda_submit (stream, std::move (operation));
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
  if (check_device_of (event) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  COUNT (n_waits);
  std::unique_lock<std::mutex> guard (event->lock);
  if (event->capture != nullptr)
    {
      fake_cuda_check_capture ();
      return fake_cuda_report (cudaErrorCapturedEvent);
    }
  const uint64_t number = event->recorded;
  if (event->reached < number)
    ortrain_fake_cuda_release ();
  event->changed.wait (guard, [&] { return event->reached >= number; });
  return fake_cuda_report (fake_cuda_get_sticky ());
}

cudaError_t
cudaEventQuery (cudaEvent_t event)
{
  if (check_device_of (event) != cudaSuccess)
    return cudaErrorInvalidResourceHandle;
  std::lock_guard<std::mutex> guard (event->lock);
  if (event->capture != nullptr)
    {
      fake_cuda_check_capture ();
      return fake_cuda_report (cudaErrorCapturedEvent);
    }
  return fake_cuda_get_sticky () != cudaSuccess ? fake_cuda_report (fake_cuda_get_sticky ())
         : event->reached >= event->recorded    ? cudaSuccess
                                                : cudaErrorNotReady;
}

cudaError_t
cudaEventElapsedTime (float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
  if (cudaEventQuery (begin) != cudaSuccess || cudaEventQuery (end) != cudaSuccess)
    return fake_cuda_report (cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli> (end->time - begin->time).count ();
  return cudaSuccess;
}
