/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C"
{
#endif

  /* Counted under the names "profiler-start" and "profiler-stop". */
  cudaError_t cudaProfilerStart (void);
  cudaError_t cudaProfilerStop (void);

#ifdef __cplusplus
}
#endif
