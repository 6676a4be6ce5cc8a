/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_parse_bytes (const char *text, guint64 *bytes, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_format_bytes (guint64 bytes);

G_END_DECLS
