/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda_runtime_api.h"

#include <stdint.h>

/* Functions of the emulated device in addition to CUDA's own: for the emulated libraries, and for tests.
 *
 * Its memory cannot be touched by the host while all streams are idle, each stream is a thread that runs late and out
 * of phase with the others, captured graphs are recorded and replayed. The legacy stream (0), to which cudaMemset
 * belongs, runs late: when somebody waits for it, or when other streams have run what came after. Environment:
 *   ORTRAIN_FAKE_CUDA_FAIL=N        the N-th allocation of device memory, and all after it, fail
 *   ORTRAIN_FAKE_CUDA_LOST=N        the N-th operation that a stream runs fails, and with it all that follow
 *   ORTRAIN_FAKE_CUDA_LOST_SUBMITTING=N   the same at the N-th operation that is submitted, within the call that does
 *   ORTRAIN_FAKE_CUDA_MEMORY=BYTES  of the device
 *   ORTRAIN_FAKE_CUDA_NONE=1        there is no device
 *   ORTRAIN_FAKE_CUDA_DEVICES=N     1 if not set, at most 16. Memory, streams, events, graphs and the libraries'
 * handles belong to one; a call that gets any of these from another device than that of the calling thread is an error
 *   ORTRAIN_FAKE_CUDA_PROCESSORS=N  multiprocessors, 2 if not set
 *   ORTRAIN_FAKE_CUDA_MODEL=NAME    says of itself what an a100, h100 or h200 says, or as little as possible (unknown)
 *   ORTRAIN_FAKE_CUDA_CHOICES=N     libraries number their algorithms and engines from N, and take no others
 *   ORTRAIN_SIMT_ORDER=forward|reverse|shuffled   of the threads of a block, between barriers */

#ifdef __cplusplus
extern "C"
{
#endif

  /* Runs on the stream, in order with all else, also when a captured graph is replayed; data [n_bytes] is copied. The
   * function may read and write the memory of the device. NULL name: no launch is counted. */
  cudaError_t ortrain_fake_cuda_enqueue (cudaStream_t stream, const char *name, void (*run) (void *data),
                                         const void *data, size_t n_bytes);

  typedef struct
  {
    uint64_t n_launches;       /* of kernels, and of calls of libraries, in graphs or not */
    uint64_t n_graph_launches; /* cudaGraphLaunch */
    uint64_t n_captures;       /* graphs instantiated */
    uint64_t n_waits;          /* of the host for a stream or an event */
    uint64_t n_copies;         /* in either direction, or within the device */
    uint64_t n_bytes_copied;
    uint64_t n_ordinary_copies; /* from or to memory of the host that is not page-locked */
    uint64_t n_early_copies;    /* from the host, on a stream that launches no graphs */
    uint64_t n_submissions;     /* launches, copies and fills by the host, a graph as one */
    uint64_t n_allocations;     /* of device memory */
    uint64_t n_legacy;          /* operations of the legacy stream, which nothing of ours is ordered with */
    uint64_t n_foreign;         /* calls with an object of another device */
  } OrtrainFakeCudaCounts;

  OrtrainFakeCudaCounts ortrain_fake_cuda_get_counts (void);

  /* FALSE where the provider `cuda` is the module, on a GPU: tools/gpu-check runs tests there too, and nothing is
   * counted. Known when the provider has been opened. */
  static inline int
  ortrain_fake_cuda_is_in_use (void)
  {
    return ortrain_fake_cuda_get_counts ().n_allocations > 0;
  }

  /* The number of launches with this name since the process began. */
  uint64_t ortrain_fake_cuda_count_launches (const char *name);
  /* Blocks of launches with this name, as they were submitted. */
  uint64_t ortrain_fake_cuda_count_blocks (const char *name);
  /* Counts something else that libraries do, which is no launch, under a name of its own. */
  void ortrain_fake_cuda_count (const char *name);
  /* ORTRAIN_FAKE_CUDA_CHOICES; 0 if not set. */
  int ortrain_fake_cuda_get_choices (void);
  /* FALSE, and counted as foreign: it is not the calling thread's device. For libraries. */
  int ortrain_fake_cuda_is_current (int device);
  /* Whether a context was made on a device. */
  int ortrain_fake_cuda_is_initialized (int device);
  /* Returns when all streams have run all their operations. Counted as no wait. */
  void ortrain_fake_cuda_drain (void);
  /* Streams begin nothing more, until they are released; a call that would wait for them for ever releases them. FALSE:
   * a call has done so. */
  void ortrain_fake_cuda_hold (void);
  int ortrain_fake_cuda_release (void);
  /* The same for streams that launch graphs alone. */
  void ortrain_fake_cuda_hold_graphs (void);
  /* Returns when all other streams have run all their operations, or wait for those. FALSE: they wait. Counted as no
   * wait. */
  int ortrain_fake_cuda_run_others (void);

  typedef struct
  {
    const void *from;
    void *to;
    size_t n_bytes;
    const void *stream;
    int is_pinned;   /* from page-locked memory */
    int with_graphs; /* on a stream that launches graphs */
  } OrtrainFakeCudaCopy;

  /* From now on, copies of the host's memory to the device, as they are submitted, go to the array [n]; NULL: no more.
   * Returns how many there were since the last call. */
  size_t ortrain_fake_cuda_record_copies (OrtrainFakeCudaCopy *copies, size_t n);
  /* From now on, a line for each launch, fill and copy within the device is appended to the text, which keeps its end;
   * NULL: no more. */
  void ortrain_fake_cuda_trace (char *text, size_t size);

#ifdef __cplusplus
}
#endif
