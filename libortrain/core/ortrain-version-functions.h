/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_get_major_version (void);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_get_minor_version (void);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_get_micro_version (void);

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_get_version (void);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_check_version (guint major, guint minor, guint micro);

G_END_DECLS
