/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-thread-pool-private.h"
#include "cpu/ortrain-cpu-gemm.h"
#include "cpu/ortrain-cpu-level-private.h"
#include "ortrain-cpu-families.h"
#include "provider/ortrain-provider-private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* op_type → GPtrArray of rows, over all families */
static GHashTable *
get_index (void)
{
  static gsize index;
  if (g_once_init_enter (&index))
    {
      GHashTable *table = g_hash_table_new (g_str_hash, g_str_equal);
      for (const OrtrainKernelTable *const *t = tables[ortrain_cpu_get_level ()]; *t != NULL; t++)
        for (guint i = 0; i < (*t)->n_kernels; i++)
          {
            const OrtrainKernel *kernel = &(*t)->kernels[i];
            GPtrArray *rows = g_hash_table_lookup (table, kernel->op_type);
            if (rows == NULL)
              {
                rows = g_ptr_array_new ();
                g_hash_table_insert (table, (gpointer) kernel->op_type, rows);
              }
            g_ptr_array_add (rows, (gpointer) kernel);
          }
      g_once_init_leave (&index, (gsize) table);
    }
  return (GHashTable *) index;
}

static const OrtrainKernel *
cpu_find_kernel (const OrtrainProvider *self, const char *domain, const char *op_type, OrtrainDType dtype)
{
  GPtrArray *rows = g_hash_table_lookup (get_index (), op_type);
  for (guint i = 0; rows != NULL && i < rows->len; i++)
    {
      const OrtrainKernel *kernel = rows->pdata[i];
      if (g_str_equal (kernel->domain, domain) && (kernel->dtypes == 0 || (kernel->dtypes & ORTRAIN_DTYPE_BIT (dtype))))
        return kernel;
    }
  return NULL;
}

/* Fresh pages are zero. Huge pages are asked for: one arena is touched once and used for the life of a session. */
static gpointer
cpu_allocate (const OrtrainProvider *self, gsize n_bytes, GError **error)
{
  if (n_bytes == 0)
    n_bytes = 1;
  void *address = mmap (NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    {
      g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
                   "%" G_GSIZE_FORMAT " bytes could not be had", n_bytes);
      return NULL;
    }
  if (n_bytes >= (gsize) 4 << 20)
    madvise (address, n_bytes, MADV_HUGEPAGE);
  return address;
}

static void
cpu_free (const OrtrainProvider *self, gpointer address, gsize n_bytes)
{
  if (address != NULL)
    munmap (address, n_bytes == 0 ? 1 : n_bytes);
}

static gboolean
cpu_copy (const OrtrainProvider *self, gpointer to, gconstpointer from, gsize n_bytes, GError **error)
{
  if (n_bytes > 0)
    memmove (to, from, n_bytes);
  return TRUE;
}

static gboolean
cpu_synchronize (const OrtrainProvider *self, OrtrainKernelFrame *frame, GError **error)
{
  return TRUE;
}

static guint64
pages (int name)
{
  long n = sysconf (name);
  return n < 0 ? 0 : (guint64) n * (guint64) sysconf (_SC_PAGESIZE);
}

static guint64
cpu_get_total_memory (const OrtrainProvider *self)
{
  return pages (_SC_PHYS_PAGES);
}

static guint64
cpu_get_free_memory (const OrtrainProvider *self)
{
  return pages (_SC_AVPHYS_PAGES);
}

static const OrtrainProvider cpu_provider = {
  .name = "cpu",
  .find_kernel = cpu_find_kernel,
  .allocate = cpu_allocate,
  .free = cpu_free,
  .copy_to_device = cpu_copy,
  .copy_to_host = cpu_copy,
  .synchronize = cpu_synchronize,
  .get_total_memory = cpu_get_total_memory,
  .get_free_memory = cpu_get_free_memory,
};

const OrtrainProvider *
ortrain_provider_get_cpu (void)
{
  static gsize ready;
  if (g_once_init_enter (&ready))
    {
      ortrain_thread_pool_set_worker_init (ortrain_cpu_gemm_enter_worker);
      g_once_init_leave (&ready, 1);
    }
  return &cpu_provider;
}
