/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* How many bytes the control groups of a process still allow it, as in a container, whose limit /proc/meminfo does not
 * know; G_MAXUINT64: any number. groups: the contents of /proc/self/cgroup; root: where groups are mounted,
 * /sys/fs/cgroup. */
guint64 ortrain_cgroup_get_available (const char *root, const char *groups);
