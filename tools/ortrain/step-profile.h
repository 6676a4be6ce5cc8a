/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

G_BEGIN_DECLS

/* How long each step of a plan takes on a device that measures it. begin: before a session is made; end: after it is
 * gone. Writes a table with tabs: a line for each step that was run, in the order of the plan. */
gboolean step_profile_begin (const char *path, GError **error);
gboolean step_profile_end (const char *path, OrtrainMemoryPlan *plan, GError **error);

G_END_DECLS
