/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda_runtime_api.h"

#include <cstddef>
#include <cstdint>

/* Functions that the files of the emulated runtime share. */

/* A number in the environment. */
uint64_t fake_cuda_get_setting (const char *name, uint64_t fallback);

/* Keeps an error for cudaGetLastError, of the same thread, and returns it. */
cudaError_t fake_cuda_report (cudaError_t error);
/* The calling thread's device is lost: every call returns this error from now on. The first reason stays. */
void fake_cuda_lose (cudaError_t error);
/* cudaSuccess: it is not. */
cudaError_t fake_cuda_get_sticky (void);
cudaError_t fake_cuda_get_sticky_of (int device);

#define FAKE_CUDA_MAX_DEVICES 16
int fake_cuda_get_n_devices (void);
/* The device of the calling thread. */
int fake_cuda_get_device (void);
/* The same, for functions that make its context. */
int fake_cuda_use_device (void);
void fake_cuda_choose_device (int device);
/* For functions whose stream, event or memory is on this device: an error where it is not the calling thread's. */
cudaError_t fake_cuda_check_device (int device, cudaError_t error);
/* For functions that nothing may call while it captures a stream: then the capture is lost, and this is an error. */
cudaError_t fake_cuda_check_capture (void);

/* The memory of the calling thread's device can be touched while it is opened more often than closed. */
void fake_cuda_open_memory (void);
void fake_cuda_close_memory (void);
bool fake_cuda_is_device (const void *address);
/* Memory of the calling thread's device, or of the host. */
cudaError_t fake_cuda_check_memory (const void *address);
bool fake_cuda_is_pinned (const void *address);
size_t fake_cuda_get_total (void);
