/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-available-memory-private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LARGE_BYTES ((gsize) 1 << 28)

guint64
ortrain_get_available_memory (void)
{
  g_autofree char *text = NULL;
  guint64 kilobytes;
  const char *line = g_file_get_contents ("/proc/meminfo", &text, NULL, NULL) ? strstr (text, "MemAvailable:") : NULL;
  if (line != NULL && sscanf (line, "MemAvailable: %" G_GUINT64_FORMAT, &kilobytes) == 1)
    return kilobytes * 1024;
  const long pages = sysconf (_SC_AVPHYS_PAGES);
  return pages < 0 ? G_MAXUINT64 : (guint64) pages * (guint64) sysconf (_SC_PAGESIZE);
}

gboolean
ortrain_can_allocate (gsize n_bytes)
{
  return n_bytes < LARGE_BYTES || n_bytes <= ortrain_get_available_memory ();
}
