/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

/* NULL: a device can be opened; else why not. Transfer full. */
char *ortrain_cuda_get_reason (void);
/* "NVIDIA H200, compute capability 9.0, cuBLASLt 13.1.0, …"; NULL: unknown. Transfer full. */
char *ortrain_cuda_describe (guint device);
/* Numbered from 0. */
guint ortrain_cuda_get_n_devices (void);
OrtrainProvider *ortrain_cuda_provider_new (const OrtrainProviderOptions *options, GError **error);

/* Derives the speed of a device from its properties, as the runtime gives them. */
void ortrain_cuda_speed_derive (OrtrainDeviceSpeed *self, int device, const struct cudaDeviceProp *properties);

/* The kernels of all families, and whether those of chains compute an operator. */
const OrtrainKernel *ortrain_cuda_find_kernel (const OrtrainProvider *self, const char *domain, const char *op_type,
                                               const OrtrainOperand *inputs, guint n_inputs,
                                               const OrtrainOperand *outputs, guint n_outputs);
gboolean ortrain_cuda_can_fuse (const OrtrainProvider *self, const char *domain, const char *op_type,
                                OrtrainDType dtype);
