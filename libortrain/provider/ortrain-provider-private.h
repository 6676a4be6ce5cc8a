/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-kernel-private.h"
#include "provider/ortrain-conv-algo-search.h"
#include "provider/ortrain-device-speed-private.h"

#include "tensor/ortrain-tensor-device-private.h"

#include <gio/gio.h>

/* An execution provider: memory, copies, streams, events, kernels. All that differs from device to device is declared
 * here, and the CPU is the simplest instance of it: its streams run at once, its memory is the host's. */

typedef enum
{
  ORTRAIN_MEMORY_SPACE_DEVICE, /* memory that kernels read and write */
  ORTRAIN_MEMORY_SPACE_HOST,   /* of the host, from and to which the device copies while the host does other things */
  ORTRAIN_N_MEMORY_SPACES,
} OrtrainMemorySpace;

/* The alignment that kernels may expect of every tensor in memory that a provider gave, in bytes. */
#define ORTRAIN_DEVICE_ALIGNMENT 64

/* A point in the work of a stream. */
typedef struct _OrtrainEvent OrtrainEvent;
/* A range of calls that the device starts as one. */
typedef struct _OrtrainCapture OrtrainCapture;

typedef struct
{
  const char *name;    /* "cpu" */
  gboolean reads_host; /* kernels read the host's memory, and the host reads the device's: nothing is copied */
  gsize alignment[ORTRAIN_N_MEMORY_SPACES]; /* of the results of allocate: a multiple of ORTRAIN_DEVICE_ALIGNMENT */
  double offload_bytes_per_second; /* about, to where values are offloaded and back: the link to the host, or a disk */
  gint32 dlpack_type;         /* of its memory, as DLPack has it; 0: none. The number there is that of the device */
  gboolean limits_workspaces; /* kernels that choose from several algorithms keep OrtrainProvider.workspace_limit */

  void (*free_provider) (OrtrainProvider *self);

  /* Kernels. Only the types of the operands are looked at. */
  const OrtrainKernel *(*find_kernel) (const OrtrainProvider *self, const char *domain, const char *op_type,
                                       const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs,
                                       guint n_outputs);
  /* Whether the kernel of fused element-wise operators computes this one. */
  gboolean (*can_fuse) (const OrtrainProvider *self, const char *domain, const char *op_type, OrtrainDType dtype);

  /* Memory, zeroed. NULL with DEVICE_ERROR_NO_MEMORY, which says how much is needed and how much is free. */
  gpointer (*allocate) (OrtrainProvider *self, OrtrainMemorySpace space, gsize n_bytes, GError **error);
  void (*free) (OrtrainProvider *self, OrtrainMemorySpace space, gpointer address, gsize n_bytes);
  void (*get_memory) (const OrtrainProvider *self, guint64 *total, guint64 *available);
  /* Whether an address is in the memory of the device, whoever has allocated it. No function: it cannot be told. */
  gboolean (*has_address) (OrtrainProvider *self, gconstpointer address);

  /* Streams: calls that are submitted to one run in order, and may run after the submission returns. */
  gboolean (*new_stream) (OrtrainProvider *self, OrtrainStream **stream, GError **error);
  void (*free_stream) (OrtrainProvider *self, OrtrainStream *stream);
  /* Between any two spaces. The source of a copy from ordinary memory of the host may change at once. */
  gboolean (*copy) (OrtrainProvider *self, OrtrainStream *stream, gpointer destination, gconstpointer source,
                    gsize n_bytes, GError **error);
  gboolean (*fill) (OrtrainProvider *self, OrtrainStream *stream, gpointer destination, guint8 byte, gsize n_bytes,
                    GError **error);
  OrtrainEvent *(*new_event) (OrtrainProvider *self, GError **error);
  void (*free_event) (OrtrainProvider *self, OrtrainEvent *event);
  gboolean (*record) (OrtrainProvider *self, OrtrainStream *stream, OrtrainEvent *event, GError **error);
  gboolean (*wait_event) (OrtrainProvider *self, OrtrainStream *stream, OrtrainEvent *event, GError **error);
  /* The host waits until all that was submitted has run. */
  gboolean (*wait) (OrtrainProvider *self, OrtrainStream *stream, GError **error);
  /* The host waits for the stream that other libraries use where they name none. No function: there is no such stream.
   */
  gboolean (*await_default_stream) (OrtrainProvider *self, GError **error);
  /* The host waits until all calls submitted before the last record of the event have run, and for no later ones. NULL:
   * the host waits for the stream. */
  gboolean (*await_event) (OrtrainProvider *self, OrtrainEvent *event, GError **error);

  /* Calls, in order. A device that runs them at once stops after the first fault, and when cancelled, with
   * G_IO_ERROR_CANCELLED; others may run on, with results that nobody uses. */
  gboolean (*submit) (OrtrainProvider *self, OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls,
                      GCancellable *cancellable, GError **error);
  /* Makes one thing of calls whose addresses stay as they are. No function: the device gains nothing by it. */
  OrtrainCapture *(*capture) (OrtrainProvider *self, OrtrainStream *stream, const OrtrainKernelCall *calls,
                              guint n_calls, GError **error);
  gboolean (*launch) (OrtrainProvider *self, OrtrainStream *stream, OrtrainCapture *capture, GError **error);
  void (*free_capture) (OrtrainProvider *self, OrtrainCapture *capture);
} OrtrainProviderClass;

/* A device as a session uses it. Reference counted. */
struct _OrtrainProvider
{
  const OrtrainProviderClass *klass;
  gatomicrefcount ref_count;
  const char *device_name;  /* the name of its device for users: "cuda", "cuda:1"; interned */
  guint device_index;       /* among those of the provider */
  OrtrainDeviceSpeed speed; /* by which the work of kernels is weighed; the same for a device whenever it is opened */
  guint64 memory_limit;     /* 0: none */
  guint64 allocated; /* by ortrain_provider_allocate, of the memory of the device; counted where there is a limit */
  guint64 workspace_limit; /* of each kernel, while a plan is made that has to become smaller; 0: none */
};

typedef struct
{
  guint device_index;       /* among those of the provider */
  guint n_threads;          /* of the CPU; 0: one per core that the process may use */
  gboolean fixed_partition; /* work is cut by shapes alone: the same bits at any number of threads */
  guint64 memory_limit;     /* bytes of the memory of the device, 0: none; see ortrain_provider_allocate */
  OrtrainConvAlgoSearch conv_algo_search;
  gboolean allow_tf32; /* products and convolutions of float32 may round their operands to TF32 */
} OrtrainProviderOptions;

/* The one place that knows providers by name. NULL, "auto": the best there is. A name may say which device of the
 * provider is meant ("cuda:1"), instead of options.device_index. */
OrtrainProvider *ortrain_provider_open (const char *name, const OrtrainProviderOptions *options, GError **error);
/* The name of a device of a provider for users: the provider's name, and the number of all but the first: "cuda",
 * "cuda:1". Interned. */
const char *ortrain_provider_name_device (const char *provider, guint index);
/* The same device under that name: "cuda:0" is "cuda". Interned. */
const char *ortrain_provider_normalize_name (const char *name);
/* Runs on the calling thread, in the host's memory, for evaluation while a plan is made. Transfer none. */
OrtrainProvider *ortrain_provider_get_host (void);
/* The functions that tensors in the memory of a device need. Transfer full; it stays open as long as it is
 * referenced. */
OrtrainTensorDevice *ortrain_provider_open_memory (const char *name, GError **error);
OrtrainProvider *ortrain_provider_ref (OrtrainProvider *self);
void ortrain_provider_unref (OrtrainProvider *self);

/* Allocation with the limit applied, for callers outside providers. Host memory is not counted. Above the limit: NULL
 * with DEVICE_ERROR_NO_MEMORY. A provider applies options.memory_limit to its own allocations itself. */
gpointer ortrain_provider_allocate (OrtrainProvider *self, OrtrainMemorySpace space, gsize n_bytes, GError **error);
void ortrain_provider_free_memory (OrtrainProvider *self, OrtrainMemorySpace space, gpointer address, gsize n_bytes);

/* The work of one run of a kernel whose first operand has this type, as bytes of the device's memory that could be
 * moved in the same time. */
double ortrain_provider_weigh_work (const OrtrainProvider *self, OrtrainDType dtype, double flops, double bytes_moved);

/* Chooses the kernel for a set of operands: NULL and PLAN_ERROR_NO_KERNEL (with operator and types) if it has no such
 * kernel.
 */
const OrtrainKernel *ortrain_provider_find (const OrtrainProvider *self, const char *domain, const char *op_type,
                                            const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs,
                                            guint n_outputs, GError **error);

/* Calls the kernel's prepare, if it has one. When that refuses, nothing is left in the setup. */
gboolean ortrain_kernel_prepare (const OrtrainKernel *kernel, OrtrainKernelSetup *setup, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainProvider, ortrain_provider_unref)
