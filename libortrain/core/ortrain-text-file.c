/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-file-private.h"

#include "core/ortrain-text-path-private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BYTES 4096

char *
ortrain_text_file_read_fd (int fd, gsize max_bytes, gsize *size)
{
  gsize n = 0, n_allocated = MIN (FIRST_BYTES, max_bytes) + 2;
  g_autofree char *text = g_malloc (n_allocated);
  for (;;)
    {
      const gssize got = read (fd, text + n, n_allocated - 1 - n);
      if (got < 0 && errno == EAGAIN) /* a pipe whose writer is slow */
        poll (&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
      if (got < 0 && (errno == EAGAIN || errno == EINTR))
        continue;
      if (got < 0)
        return NULL;
      n += (gsize) got;
      if (n > max_bytes)
        {
          errno = EFBIG;
          return NULL;
        }
      if (got == 0)
        break;
      if (n < n_allocated - 1)
        continue;
      n_allocated = MIN (2 * n_allocated, max_bytes + 2);
      char *larger = g_try_realloc (text, n_allocated);
      if (larger == NULL)
        {
          errno = ENOMEM;
          return NULL;
        }
      g_steal_pointer (&text);
      text = larger;
    }
  text[n] = '\0';
  *size = n;
  return g_steal_pointer (&text);
}

static gboolean
fail (const char *path, int code, const char *why, GError **error)
{
  g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (code), "Cannot read '%s': %s",
               ortrain_text_show_path (path), why != NULL ? why : g_strerror (code));
  return FALSE;
}

gboolean
ortrain_text_file_read (const char *path, gsize max_bytes, char **text, gsize *size, GError **error)
{
  struct stat st = { 0 };
  /* O_NONBLOCK: a pipe that nobody writes to must not hold us up */
  const int fd = open (path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return fail (path, errno, NULL, error);
  const gboolean is_known =
      fstat (fd, &st) == 0 && !S_ISDIR (st.st_mode) && !S_ISCHR (st.st_mode) && !S_ISBLK (st.st_mode);
  *text = is_known ? ortrain_text_file_read_fd (fd, max_bytes, size) : NULL;
  const int code = errno;
  close (fd);
  if (*text != NULL)
    return TRUE;
  if (!is_known)
    return fail (path, S_ISDIR (st.st_mode) ? EISDIR : EINVAL,
                 S_ISDIR (st.st_mode) ? NULL : "it is a device, not a file", error);
  g_autofree char *why = g_strdup_printf ("it has more than %" G_GSIZE_FORMAT " bytes", max_bytes);
  return fail (path, code, code == EFBIG ? why : NULL, error);
}
