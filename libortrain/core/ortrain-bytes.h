/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_parse_bytes (const char *text, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_format_bytes (guint64 bytes);

G_END_DECLS
