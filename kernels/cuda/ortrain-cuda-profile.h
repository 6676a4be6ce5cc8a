/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* How long each call of a plan takes on the device, for `ortrain bench --profile`: with ORTRAIN_CUDA_PROFILE=FILE,
 * calls are submitted one by one, each between two events, and their times are written to FILE when a stream is freed:
 * a line of numbers with tabs for each step of the plan that was run. With ORTRAIN_CUDA_PROFILE_STEP=N, NVIDIA's
 * profilers are started for the calls of that step alone. */
/* NULL: neither variable is set. */
OrtrainCudaProfile *ortrain_cuda_profile_new (void);
void ortrain_cuda_profile_free (OrtrainCudaProfile *self);
/* All that has been collected; a plan may keep the provider longer than the session does. */
void ortrain_cuda_profile_write (OrtrainCudaProfile *self);
/* Around the submission of a call, and of those that are joined to it. */
void ortrain_cuda_profile_begin (OrtrainCudaProfile *self, const OrtrainKernelCall *call);
void ortrain_cuda_profile_end (OrtrainCudaProfile *self, const OrtrainKernelCall *call, guint n_joined);
/* Waits for the calls that were submitted to the stream, and takes their times. */
void ortrain_cuda_profile_collect (OrtrainCudaProfile *self, const OrtrainStream *stream);

G_END_DECLS
