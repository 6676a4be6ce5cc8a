/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_memory_plan_pack_csv (const char *path, guint64 *peak_bytes, guint64 *lower_bound_bytes,
                                       guint *n_buffers, GError **error);

G_END_DECLS
