/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Bytes that the system can give without swapping: what is free, and what it only keeps files in. */
guint64 ortrain_get_available_memory (void);
/* FALSE where the system would promise memory that it does not have, and later kill the process that touches it. Asked
 * of large sizes alone. */
gboolean ortrain_can_allocate (gsize n_bytes);
