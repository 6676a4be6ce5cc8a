/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-available-memory-private.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "cpu/ortrain-cpu-gemm.h"
#include "cpu/ortrain-cpu-level-private.h"
#include "ortrain-cpu-families.h"
#include "provider/ortrain-provider-private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel tables, found through meson.build's list of families: a vector family has one table per instruction set.
 */
#define DECLARE_PLAIN(family) extern const OrtrainKernelTable ortrain_cpu_kernels_##family;
ORTRAIN_CPU_PLAIN_FAMILIES (DECLARE_PLAIN)

#define DECLARE_LEVEL(family, level) extern const OrtrainKernelTable ortrain_cpu_kernels_##family##_##level;
#define ENTRY_PLAIN(family) &ortrain_cpu_kernels_##family,
#define ENTRY_LEVEL(family, level) &ortrain_cpu_kernels_##family##_##level,
#define TABLES(level)                                                                                                  \
  {                                                                                                                    \
    ORTRAIN_CPU_PLAIN_FAMILIES (ENTRY_PLAIN) ORTRAIN_CPU_VECTOR_FAMILIES (ENTRY_LEVEL, level) NULL                     \
  }

ORTRAIN_CPU_VECTOR_FAMILIES (DECLARE_LEVEL, baseline)
static const OrtrainKernelTable *const tables_baseline[] = TABLES (baseline);
#ifdef ORTRAIN_CPU_HAVE_V3
ORTRAIN_CPU_VECTOR_FAMILIES (DECLARE_LEVEL, v3)
static const OrtrainKernelTable *const tables_v3[] = TABLES (v3);
#endif
#ifdef ORTRAIN_CPU_HAVE_V4
ORTRAIN_CPU_VECTOR_FAMILIES (DECLARE_LEVEL, v4)
static const OrtrainKernelTable *const tables_v4[] = TABLES (v4);
#endif

static const OrtrainKernelTable *const *const tables[ORTRAIN_CPU_N_LEVELS] = {
  [ORTRAIN_CPU_LEVEL_BASELINE] = tables_baseline,
#ifdef ORTRAIN_CPU_HAVE_V3
  [ORTRAIN_CPU_LEVEL_V3] = tables_v3,
#endif
#ifdef ORTRAIN_CPU_HAVE_V4
  [ORTRAIN_CPU_LEVEL_V4] = tables_v4,
#endif
};

static GHashTable *
get_index (void)
{
  static gsize index;
  if (g_once_init_enter (&index))
    g_once_init_leave (&index, (gsize) ortrain_kernel_index_new (tables[ortrain_cpu_get_level ()]));
  return (GHashTable *) index;
}

static const OrtrainKernel *
cpu_find_kernel (const OrtrainProvider *self, const char *domain, const char *op_type, const OrtrainOperand *inputs,
                 guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  return ortrain_kernel_index_find (get_index (), domain, op_type, inputs, n_inputs, outputs, n_outputs);
}

/* The kernel of element-wise chains can run the operators that it also runs alone. */
static gboolean
cpu_can_fuse (const OrtrainProvider *self, const char *domain, const char *op_type, OrtrainDType dtype)
{
  const OrtrainOperand x = { .dtype = dtype };
  const OrtrainKernel *chain = ortrain_kernel_index_find (get_index (), "org.ortrain", "Elementwise", &x, 1, NULL, 0);
  const OrtrainKernel *alone = ortrain_kernel_index_find (get_index (), domain, op_type, &x, 1, NULL, 0);
  return chain != NULL && alone != NULL && alone->run == chain->run;
}

/* ---- memory ---- */

static guint64
pages (int name)
{
  long n = sysconf (name);
  return n < 0 ? 0 : (guint64) n * (guint64) sysconf (_SC_PAGESIZE);
}

static void
cpu_get_memory (const OrtrainProvider *self, guint64 *total, guint64 *available)
{
  *total = pages (_SC_PHYS_PAGES);
  *available = ortrain_get_available_memory ();
}

/* Fresh pages are zero. */
static gpointer
cpu_allocate (OrtrainProvider *self, OrtrainMemorySpace space, gsize n_bytes, GError **error)
{
  if (n_bytes == 0)
    n_bytes = 1;
  gpointer address = ortrain_map_memory (n_bytes);
  if (address == NULL)
    {
      guint64 total, available;
      cpu_get_memory (self, &total, &available);
      g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
                   "Cannot allocate %" G_GSIZE_FORMAT " bytes of memory; %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                   " bytes are available",
                   n_bytes, available, total);
      return NULL;
    }
  return address;
}

static void
cpu_free (OrtrainProvider *self, OrtrainMemorySpace space, gpointer address, gsize n_bytes)
{
  if (address != NULL)
    ortrain_unmap_memory (address, n_bytes == 0 ? 1 : n_bytes);
}

/* ---- streams: everything has happened when it returns ---- */

static gboolean
cpu_new_stream (OrtrainProvider *self, OrtrainStream **stream, GError **error)
{
  *stream = (OrtrainStream *) ((OrtrainCpuProvider *) self)->pool;
  return TRUE;
}

static void
cpu_free_stream (OrtrainProvider *self, OrtrainStream *stream)
{
}

static gboolean
cpu_copy (OrtrainProvider *self, OrtrainStream *stream, gpointer destination, gconstpointer source, gsize n_bytes,
          GError **error)
{
  if (n_bytes > 0)
    memmove (destination, source, n_bytes);
  return TRUE;
}

static gboolean
cpu_fill (OrtrainProvider *self, OrtrainStream *stream, gpointer destination, guint8 byte, gsize n_bytes,
          GError **error)
{
  if (n_bytes > 0)
    memset (destination, byte, n_bytes);
  return TRUE;
}

static OrtrainEvent *
cpu_new_event (OrtrainProvider *self, GError **error)
{
  static char past;
  return (OrtrainEvent *) &past;
}

static void
cpu_free_event (OrtrainProvider *self, OrtrainEvent *event)
{
}

static gboolean
cpu_pass_event (OrtrainProvider *self, OrtrainStream *stream, OrtrainEvent *event, GError **error)
{
  return TRUE;
}

static gboolean
cpu_wait (OrtrainProvider *self, OrtrainStream *stream, GError **error)
{
  return TRUE;
}

static gboolean
cpu_submit (OrtrainProvider *self, OrtrainStream *stream, const OrtrainKernelCall *calls, guint n_calls,
            GCancellable *cancellable, GError **error)
{
  if (n_calls > 0 && calls[0].context->fault->code != ORTRAIN_FAULT_NONE)
    return TRUE; /* an earlier call has found it */
  for (guint i = 0; i < n_calls; i++)
    {
      if (cancellable != NULL && g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      calls[i].run (&calls[i]);
      if (G_UNLIKELY (calls[i].context->fault->code != ORTRAIN_FAULT_NONE))
        return TRUE;
    }
  return TRUE;
}

/* ---- making ---- */

void
ortrain_cpu_provider_init (OrtrainCpuProvider *self, const OrtrainProviderClass *klass,
                           const OrtrainProviderOptions *options)
{
  static gsize ready;
  if (g_once_init_enter (&ready))
    {
      ortrain_thread_pool_set_worker_init (ortrain_cpu_gemm_enter_worker);
      g_once_init_leave (&ready, 1);
    }
  g_atomic_ref_count_init (&self->parent.ref_count);
  self->parent.klass = klass;
  self->parent.device_name = klass->name;
  self->parent.speed = (OrtrainDeviceSpeed){ .bytes_per_second = 2e10,
                                             .flops_per_second = { [ORTRAIN_DTYPE_FLOAT32] = 2e11 },
                                             .reached_bytes = 1,
                                             .reached_flops = 1 };
  self->pool = ortrain_thread_pool_new (options->n_threads);
  self->fixed_partition = options->fixed_partition;
}

void
ortrain_cpu_provider_clear (OrtrainCpuProvider *self)
{
  g_clear_pointer (&self->pool, ortrain_thread_pool_free);
}

static void
cpu_free_provider (OrtrainProvider *provider)
{
  OrtrainCpuProvider *self = (OrtrainCpuProvider *) provider;
  ortrain_cpu_provider_clear (self);
  g_free (self);
}

const OrtrainProviderClass ortrain_cpu_provider_class = {
  .name = "cpu",
  .reads_host = TRUE,
  .alignment = { 4096, 4096 },
  .offload_bytes_per_second = 1e9, /* of a disk without moving parts */
  .free_provider = cpu_free_provider,
  .find_kernel = cpu_find_kernel,
  .can_fuse = cpu_can_fuse,
  .allocate = cpu_allocate,
  .free = cpu_free,
  .get_memory = cpu_get_memory,
  .new_stream = cpu_new_stream,
  .free_stream = cpu_free_stream,
  .copy = cpu_copy,
  .fill = cpu_fill,
  .new_event = cpu_new_event,
  .free_event = cpu_free_event,
  .record = cpu_pass_event,
  .wait_event = cpu_pass_event,
  .wait = cpu_wait,
  .submit = cpu_submit,
};

OrtrainProvider *
ortrain_provider_new_cpu (const OrtrainProviderOptions *options)
{
  OrtrainCpuProvider *self = g_new0 (OrtrainCpuProvider, 1);
  ortrain_cpu_provider_init (self, &ortrain_cpu_provider_class, options);
  return &self->parent;
}

OrtrainProvider *
ortrain_provider_get_host (void)
{
  static OrtrainCpuProvider host = { .parent = { .klass = &ortrain_cpu_provider_class, .ref_count = 1 } };
  return &host.parent;
}
