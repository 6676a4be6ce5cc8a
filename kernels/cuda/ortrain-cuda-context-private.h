/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

#include <cublasLt.h>
#include <cudnn.h>

G_BEGIN_DECLS

/* The state that a process has once for each device that it uses, as long as the process lives: the device's context,
 * and handles of NVIDIA's libraries that are no stream's. Functions may be called from any thread. */

/* NULL with an error. */
OrtrainCudaContext *ortrain_cuda_context_open (guint device, GError **error);
/* Its number. */
guint ortrain_cuda_context_get_device (const OrtrainCudaContext *self);
/* To ask cuBLASLt for algorithms, and for execution plans of cuDNN; calls that run have the handles of their stream.
 * NULL: it cannot be opened. */
cublasLtHandle_t ortrain_cuda_context_get_blas (OrtrainCudaContext *self);
cudnnHandle_t ortrain_cuda_context_get_dnn (OrtrainCudaContext *self);

/* The current device is the calling thread's: the first one, or what the thread has chosen for another library.
 * Functions that ask the runtime, or a library, for something begin with ORTRAIN_CUDA_ON_DEVICE; the thread finds its
 * own again. NULL: of no device.
 *
 * The context is pushed and popped, since cudaSetDevice and back would make a context on the first device, too, which
 * takes hundreds of megabytes there, in processes that only use another one. */
gboolean ortrain_cuda_context_push (const OrtrainCudaContext *self);
void ortrain_cuda_context_pop (const gboolean *is_pushed);

#define ORTRAIN_CUDA_ON_DEVICE(context)                                                                                \
  G_GNUC_UNUSED __attribute__ ((cleanup (ortrain_cuda_context_pop))) const gboolean is_context_pushed =                \
      ortrain_cuda_context_push (context)

G_END_DECLS
