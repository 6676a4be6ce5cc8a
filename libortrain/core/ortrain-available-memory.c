/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-available-memory-private.h"

#include "core/ortrain-cgroup-private.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_BYTES ((gsize) 1 << 28)
#define HUGE_PAGE ((gsize) 1 << 21)
#define RESERVE 16 /* this part of the available memory stays free: the kernel kills a process that takes all of it */

typedef struct
{
  guint8 *address;
  gsize n_bytes;
} Mapping;

static GMutex lock;
static GArray *large; /* of Mapping: all of at least LARGE_BYTES */

/* A container may use less memory than the machine has. */
static guint64
get_group_memory (void)
{
  g_autofree char *groups = NULL;
  return g_file_get_contents ("/proc/self/cgroup", &groups, NULL, NULL)
             ? ortrain_cgroup_get_available ("/sys/fs/cgroup", groups)
             : G_MAXUINT64;
}

static guint64
get_machine_memory (void)
{
  g_autofree char *text = NULL;
  guint64 kilobytes;
  const char *line = g_file_get_contents ("/proc/meminfo", &text, NULL, NULL) ? strstr (text, "MemAvailable:") : NULL;
  if (line != NULL && sscanf (line, "MemAvailable: %" G_GUINT64_FORMAT, &kilobytes) == 1)
    return kilobytes * 1024;
  const long pages = sysconf (_SC_AVPHYS_PAGES);
  return pages < 0 ? G_MAXUINT64 : (guint64) pages * (guint64) sysconf (_SC_PAGESIZE);
}

guint64
ortrain_get_available_memory (void)
{
  return MIN (get_machine_memory (), get_group_memory ());
}

/* Bytes that the system still counts as available. */
static guint64
get_untouched (const Mapping *mapping)
{
  const gsize page = (gsize) sysconf (_SC_PAGESIZE), chunk = LARGE_BYTES;
  g_autofree guchar *resident = g_malloc (chunk / page);
  guint64 n_pages = 0;
  for (gsize at = 0; at < mapping->n_bytes; at += chunk)
    {
      const gsize n_bytes = MIN (chunk, mapping->n_bytes - at);
      if (mincore (mapping->address + at, n_bytes, resident) != 0)
        continue;
      for (gsize i = 0; i < (n_bytes + page - 1) / page; i++)
        n_pages += !(resident[i] & 1);
    }
  return n_pages * page;
}

static gboolean
is_available (gsize n_bytes)
{
  const guint64 available = ortrain_get_available_memory ();
  guint64 promised = 0;
  for (guint i = 0; i < large->len; i++)
    promised += get_untouched (&g_array_index (large, Mapping, i));
  return promised <= available && n_bytes <= (available - promised) / RESERVE * (RESERVE - 1);
}

/* Huge pages are asked for: an arena is touched once and used for the life of a session, and a mask that lives for one
 * plan would take longer to fault in, page by page, than to compute. */
static gpointer
map (gsize n_bytes)
{
  gpointer address = mmap (NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return NULL;
  if (n_bytes >= HUGE_PAGE)
    madvise (address, n_bytes, MADV_HUGEPAGE);
  return address;
}

static void
ensure_large (void)
{
  if (large == NULL)
    large = g_array_new (FALSE, FALSE, sizeof (Mapping));
}

gboolean
ortrain_memory_has_space (gsize n_bytes)
{
  if (n_bytes < LARGE_BYTES)
    return TRUE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&lock);
  ensure_large ();
  return is_available (n_bytes);
}

gpointer
ortrain_map_memory (gsize n_bytes)
{
  if (n_bytes < LARGE_BYTES)
    return map (n_bytes);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&lock);
  ensure_large ();
  gpointer address = is_available (n_bytes) ? map (n_bytes) : NULL;
  const Mapping mapping = { address, n_bytes };
  if (address != NULL)
    g_array_append_val (large, mapping);
  return address;
}

void
ortrain_unmap_memory (gpointer address, gsize n_bytes)
{
  if (n_bytes >= LARGE_BYTES)
    {
      g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&lock);
      for (guint i = 0; i < large->len; i++)
        if (g_array_index (large, Mapping, i).address == address)
          {
            g_array_remove_index_fast (large, i);
            break;
          }
    }
  munmap (address, n_bytes);
}
