/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

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
