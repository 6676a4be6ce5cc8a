/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Reads a file that has a reasonable size, such as one of options, to its end; a pipe, too. A directory, a device, a
 * pipe that nobody writes to, and more than max_bytes are errors of the domain GFileError. text: ends with a NUL that
 * size does not count */
gboolean ortrain_text_file_read (const char *path, gsize max_bytes, char **text, gsize *size, GError **error);

#define ORTRAIN_TEXT_FILE_MAX ((gsize) 16 << 20) /* of options, classes, configurations */

/* Reads a descriptor to its end; for a pipe, it waits for the end. NULL with errno, EFBIG for more than max_bytes. */
char *ortrain_text_file_read_fd (int fd, gsize max_bytes, gsize *size);
