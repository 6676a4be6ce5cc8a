/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Bytes that the system can give without swapping: free pages and pages that only cache files. */
guint64 ortrain_get_available_memory (void);

/* Fresh pages, zero. NULL where the system has none, or would promise memory that it does not have, and later kill the
 * process that touches it: large sizes are compared with the available memory, less the untouched part of this
 * process's other mappings. */
gpointer ortrain_map_memory (gsize n_bytes);
/* Whether so many bytes are available, for memory that is not allocated here. */
gboolean ortrain_memory_has_space (gsize n_bytes);
void ortrain_unmap_memory (gpointer address, gsize n_bytes);
