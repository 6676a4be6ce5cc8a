/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe.h"

#include <string.h>

/* Calls that may be captured into a CUDA graph, and their effect when the graph runs. Each trial is a capture of its
 * own. */

typedef struct
{
  Probe *probe;
  cudaStream_t other;
  cudaEvent_t event, old; /* old: recorded before the capture */
  guint32 *device;        /* [2] */
  guint32 *pinned, *ordinary;
} Trial;

static cudaError_t
copy_ordinary (Trial *self)
{
  return cudaMemcpyAsync (self->device, self->ordinary, 4, cudaMemcpyDefault, self->probe->stream);
}

static cudaError_t
copy_pinned (Trial *self)
{
  return cudaMemcpyAsync (self->device, self->pinned, 4, cudaMemcpyDefault, self->probe->stream);
}

static cudaError_t
record_event (Trial *self)
{
  return cudaEventRecord (self->event, self->probe->stream);
}

static cudaError_t
wait_for_old_event (Trial *self)
{
  return cudaStreamWaitEvent (self->probe->stream, self->old, 0);
}

static cudaError_t
query_old_event (Trial *self)
{
  return cudaEventQuery (self->old);
}

static cudaError_t
query_captured_event (Trial *self)
{
  const cudaError_t code = cudaEventRecord (self->event, self->probe->stream);
  return code != cudaSuccess ? code : cudaEventQuery (self->event);
}

static cudaError_t
allocate (Trial *self)
{
  void *memory = NULL;
  const cudaError_t code = cudaMalloc (&memory, 4096);
  cudaFree (memory);
  return code;
}

static cudaError_t
ask_for_memory (Trial *self)
{
  size_t available, total;
  return cudaMemGetInfo (&available, &total);
}

static cudaError_t
wait_for_stream (Trial *self)
{
  return cudaStreamSynchronize (self->probe->stream);
}

static cudaError_t
wait_for_other_stream (Trial *self)
{
  return cudaStreamSynchronize (self->other);
}

static cudaError_t
clear_on_legacy_stream (Trial *self)
{
  return cudaMemset (self->device, 0, 4);
}

static cudaError_t
fork_and_join (Trial *self)
{
  cudaError_t code = cudaEventRecord (self->event, self->probe->stream);
  if (code == cudaSuccess)
    code = cudaStreamWaitEvent (self->other, self->event, 0);
  if (code == cudaSuccess)
    code = cudaMemsetAsync (self->device + 1, 7, 4, self->other);
  if (code == cudaSuccess)
    code = cudaEventRecord (self->event, self->other);
  return code != cudaSuccess ? code : cudaStreamWaitEvent (self->probe->stream, self->event, 0);
}

static cudaError_t
fork_alone (Trial *self)
{
  cudaError_t code = cudaEventRecord (self->event, self->probe->stream);
  if (code == cudaSuccess)
    code = cudaStreamWaitEvent (self->other, self->event, 0);
  return code != cudaSuccess ? code : cudaMemsetAsync (self->device + 1, 7, 4, self->other);
}

typedef struct
{
  const char *name;
  cudaError_t (*run) (Trial *self);
} Kind;

static const Kind kinds[] = {
  { "copy_ordinary", copy_ordinary },
  { "copy_pinned", copy_pinned },
  { "record_event", record_event },
  { "query_captured_event", query_captured_event },
  { "wait_for_old_event", wait_for_old_event },
  { "query_old_event", query_old_event },
  { "allocate", allocate },
  { "ask_for_memory", ask_for_memory },
  { "wait_for_stream", wait_for_stream },
  { "wait_for_other_stream", wait_for_other_stream },
  { "clear_on_legacy_stream", clear_on_legacy_stream },
  { "fork_and_join", fork_and_join },
  { "fork_alone", fork_alone },
};

/* Which value of the source a launch copies: that of the capture, or its own. */
static void
add_when_read (Trial *self, cudaGraphExec_t exec, guint32 *source)
{
  guint32 *result = self->pinned + 1;
  *source = 2; /* it was 1 when it was captured */
  if (!probe_check (self->probe, cudaGraphLaunch (exec, self->probe->stream), "cudaGraphLaunch"))
    return;
  cudaStreamSynchronize (self->probe->stream);
  cudaMemcpyAsync (result, self->device, 4, cudaMemcpyDefault, self->probe->stream);
  cudaStreamSynchronize (self->probe->stream);
  probe_add_text (self->probe, "reads",
                  *result == 1   ? "at the capture"
                  : *result == 2 ? "at the launch"
                                 : "something else");
}

static void
try_kind (Trial *self, const Kind *kind)
{
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  Probe *probe = self->probe;
  *self->ordinary = *self->pinned = 1;
  probe_begin (probe, kind->name);
  if (probe_check (probe, cudaStreamBeginCapture (probe->stream, cudaStreamCaptureModeThreadLocal), "beginning"))
    {
      cudaMemsetAsync (self->device, 0, 4, probe->stream);
      probe_add_code (probe, "in_capture", kind->run (self));
      probe_add_code (probe, "at_the_end", cudaStreamEndCapture (probe->stream, &graph));
      if (graph != NULL)
        probe_add_code (probe, "instantiation", cudaGraphInstantiate (&exec, graph, 0));
      if (kind->run == record_event)
        {
          probe_add_code (probe, "query_afterwards", cudaEventQuery (self->event));
          probe_add_code (probe, "wait_afterwards", cudaStreamWaitEvent (self->other, self->event, 0));
          probe_add_code (probe, "await_afterwards", cudaEventSynchronize (self->event));
        }
      if (exec != NULL && (kind->run == copy_ordinary || kind->run == copy_pinned))
        add_when_read (self, exec, kind->run == copy_ordinary ? self->ordinary : self->pinned);
      else if (exec != NULL)
        {
          probe_add_code (probe, "launch", cudaGraphLaunch (exec, probe->stream));
          probe_add_code (probe, "run", cudaStreamSynchronize (probe->stream));
        }
      if (exec != NULL)
        cudaGraphExecDestroy (exec);
      if (graph != NULL)
        cudaGraphDestroy (graph);
    }
  probe_end (probe);
  cudaGetLastError ();
}

void
probe_capture (Probe *self)
{
  g_autofree guint32 *ordinary = g_new0 (guint32, 1);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      /* each trial opens its own streams and events: one that fails may leave them in a state that the next cannot use
       */
      Probe probe = *self;
      Trial trial = { .probe = &probe, .ordinary = ordinary };
      if (!probe_check (self, cudaStreamCreateWithFlags (&probe.stream, cudaStreamNonBlocking), "a stream"))
        return;
      cudaStreamCreateWithFlags (&trial.other, cudaStreamNonBlocking);
      cudaEventCreateWithFlags (&trial.event, cudaEventDisableTiming);
      cudaEventCreateWithFlags (&trial.old, cudaEventDisableTiming);
      cudaHostAlloc ((void **) &trial.pinned, 64, cudaHostAllocDefault);
      if (probe_check (self, cudaMalloc ((void **) &trial.device, 64), "cudaMalloc") && trial.pinned != NULL)
        {
          cudaEventRecord (trial.old, trial.other);
          cudaStreamSynchronize (trial.other);
          try_kind (&trial, &kinds[i]);
        }
      cudaStreamSynchronize (probe.stream);
      cudaStreamSynchronize (trial.other);
      cudaFree (trial.device);
      cudaFreeHost (trial.pinned);
      cudaEventDestroy (trial.event);
      cudaEventDestroy (trial.old);
      cudaStreamDestroy (trial.other);
      cudaStreamDestroy (probe.stream);
      cudaGetLastError ();
    }
}
