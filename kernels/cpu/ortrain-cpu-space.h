/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-available-memory-private.h"
#include "core/ortrain-checked-private.h"
#include "provider/ortrain-provider-private.h"

/* Whether a kernel may have a table of so many elements, whose number is fed: it fits in the memory, and within the
 * limit that the session's options set. */
static inline gboolean
ortrain_cpu_has_space (const OrtrainKernelSetup *setup, gint64 n_elements, gsize element_size)
{
  const guint64 limit = setup->provider != NULL ? setup->provider->memory_limit : 0;
  gsize n_bytes;
  return n_elements >= 0 && ortrain_checked_mul ((gsize) n_elements, element_size, &n_bytes) &&
         (limit == 0 || n_bytes <= limit) && ortrain_memory_has_space (n_bytes);
}
