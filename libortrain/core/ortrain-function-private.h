/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Formulas that kernels of every device share: nvcc compiles them for the host and for the device. */
#ifdef __CUDACC__
#define ORTRAIN_FUNCTION static inline __host__ __device__
#else
#define ORTRAIN_FUNCTION static inline
#endif

/* Headers that C++ includes too. */
#if defined(__cplusplus)
#define ORTRAIN_RESTRICT __restrict__
#else
#define ORTRAIN_RESTRICT restrict
#endif
