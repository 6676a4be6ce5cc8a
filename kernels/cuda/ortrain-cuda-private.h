/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include <cuda_runtime_api.h>

G_BEGIN_DECLS

#include "kernel-abi/ortrain-kernel-table-private.h"
#include "provider/ortrain-provider-module-private.h"

/* The declarations that the files of the CUDA provider share, in C and in CUDA C++. A module links against no function
 * of Ortrain: those that it needs come in a table. */
extern const OrtrainLibraryFunctions *ortrain_cuda_library;

#define ORTRAIN_CUDA_INT(setup, name, fallback)                                                                        \
  ortrain_cuda_library->attributes_get_int ((setup)->attributes, (name), (fallback))
#define ORTRAIN_CUDA_FLOAT(setup, name, fallback)                                                                      \
  ortrain_cuda_library->attributes_get_float ((setup)->attributes, (name), (fallback))
#define ORTRAIN_CUDA_STRING(setup, name, fallback)                                                                     \
  ortrain_cuda_library->attributes_get_string ((setup)->attributes, (name), (fallback))
#define ORTRAIN_CUDA_INTS(setup, name, n) ortrain_cuda_library->attributes_get_ints ((setup)->attributes, (name), (n))

typedef struct _OrtrainCudaProfile OrtrainCudaProfile;
typedef struct _OrtrainCudaContext OrtrainCudaContext; /* of a device; ortrain-cuda-context-private.h */

typedef struct
{
  OrtrainProvider parent;
  OrtrainCudaContext *context; /* of its device */
  char *name;                  /* of the device */
  char *identity;     /* all that choices of NVIDIA's libraries depend on, except their versions: device and driver */
  guint n_processors; /* multiprocessors */
  guint capability;   /* 90 for 9.0 */
  guint64 total_memory;
  OrtrainProviderOptions options;
  float *numbers;              /* in the memory of the device: the constants below */
  cudaStream_t clearing;       /* where new memory is cleared */
  gboolean is_blocking;        /* ORTRAIN_CUDA_BLOCKING: the host waits for each call */
  OrtrainCudaProfile *profile; /* of calls, which are then submitted one by one; or NULL */
} OrtrainCudaProvider;

/* The numbers that the memory of the device holds at OrtrainCudaProvider.numbers, for libraries that read scalars
 * there. */
typedef struct
{
  float zero, one;
  double zero_f64, one_f64;
} OrtrainCudaNumbers;

/* The stream of a call's context. */
#define ORTRAIN_CUDA_N_COUNTERS 32
struct _OrtrainStream
{
  cudaStream_t stream;
  OrtrainCudaProvider *provider;
  gpointer blas, dnn; /* handles of the libraries, made when the first call needs them */
  unsigned
      *counters; /* in the memory of the device, [ORTRAIN_CUDA_N_COUNTERS]: zeros between kernels, which run in order */
  GError *failure;                       /* the first error of a library while calls were submitted */
  gboolean is_captured, is_uncapturable; /* a graph is made of submitted calls; it cannot be made */
};

static inline OrtrainStream *
ortrain_cuda_get_stream (const OrtrainKernelCall *call)
{
  return call->context->stream;
}

/* The kernels of a family, at the end of its file; the list of families is in meson.build. */
#ifdef __cplusplus
#define ORTRAIN_CUDA_EXTERN extern "C"
#else
#define ORTRAIN_CUDA_EXTERN extern
#endif
#define ORTRAIN_CUDA_TABLE(family, rows)                                                                               \
  ORTRAIN_CUDA_EXTERN const OrtrainKernelTable ortrain_cuda_kernels_##family;                                          \
  const OrtrainKernelTable ortrain_cuda_kernels_##family = { (rows), G_N_ELEMENTS (rows) }

/* For prepare: FALSE, and PLAN_ERROR_NO_KERNEL with the operator's name before the text. */
gboolean ortrain_cuda_refuse (const OrtrainKernelSetup *setup, GError **error, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
/* DEVICE_ERROR of a code that is not cudaSuccess. TRUE if it is. */
gboolean ortrain_cuda_check (cudaError_t code, const char *what, GError **error);
/* For run, which returns nothing: remembered, and reported by submit. */
void ortrain_cuda_fail (const OrtrainKernelCall *call, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Counts an event, under a name of ours, with OrtrainLibraryFunctions.count. */
#define ORTRAIN_CUDA_COUNT(provider, name)                                                                             \
  ortrain_cuda_library->count (((const OrtrainProvider *) (provider))->device_name, (name))
/* ORTRAIN_CUDA_STRICT: it is an error where something slower would take the place of a library's operation. Asked at
 * each refusal, so that a test can allow its own (tests/fallbacks.h). */
gboolean ortrain_cuda_is_strict (void);
/* Whether a variable of the environment has a text other than "" and "0". */
gboolean ortrain_cuda_is_set (const char *variable);
/* For prepare, where a library refuses what it should compute, for a reason that it gave: counted, and in strict mode
 * an error. FALSE: it is one. */
gboolean ortrain_cuda_fall_back (const OrtrainKernelSetup *setup, const char *counter, const char *reason,
                                 GError **error);
/* Multiprocessors of the device in use, for the sizes of grids. */
guint ortrain_cuda_get_n_processors (const OrtrainKernelCall *call);

G_END_DECLS
