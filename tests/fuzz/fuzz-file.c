/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* A model of a few bytes may ask for all memory that there is, and gets it: one run more, and the system kills
 * somebody. The limit of a run is the same in all programs, with sanitizers and without; allocations above it fail. */
#define RUN_BYTES ((rlim_t) 2 << 30)

/* The address space of a sanitizer counts as data, so the limit is added to the present size. */
int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  g_autofree char *text = NULL;
  gulong pages;
  FUZZ_CHECK (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  FUZZ_CHECK (sscanf (text, "%*u %*u %*u %*u %*u %lu", &pages) == 1);
  const rlim_t limit = (rlim_t) pages * (rlim_t) sysconf (_SC_PAGESIZE) + RUN_BYTES;
  FUZZ_CHECK (setrlimit (RLIMIT_DATA, &(struct rlimit){ limit, limit }) == 0);
  return 0;
}

/* The library takes a refused allocation for an error; and freed memory is kept for a while, but not for long. */
const char *__asan_default_options (void);
__attribute__ ((visibility ("default"))) const char *
__asan_default_options (void)
{
  return "allocator_may_return_null=1:quarantine_size_mb=64";
}

const char *
fuzz_make_file (const guint8 *data, gsize size)
{
  static int fd = -1;
  static char path[64];
  if (fd < 0)
    {
      fd = memfd_create ("fuzz", MFD_CLOEXEC);
      FUZZ_CHECK (fd >= 0);
      g_snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    }
  FUZZ_CHECK (ftruncate (fd, 0) == 0);
  FUZZ_CHECK (pwrite (fd, data, size, 0) == (gssize) size);
  return path;
}

const char *
fuzz_scratch (void)
{
  static char *path;
  if (path == NULL)
    path = g_strdup_printf ("%s/ortrain-fuzz-%d",
                            g_file_test ("/dev/shm", G_FILE_TEST_IS_DIR) ? "/dev/shm" : g_get_tmp_dir (), getpid ());
  return path;
}
