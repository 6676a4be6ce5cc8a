/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Counts of the work of devices since the process began, for callers that must know whether the fast way was taken:
 * results do not tell. A counter is found by the name of its device and its own name, and is created by its first
 * addition. From any thread. */

#define ORTRAIN_MAX_COUNTERS 256

/* Both names stay where they are. More than ORTRAIN_MAX_COUNTERS are not counted. */
void ortrain_counters_add (const char *device, const char *name);
guint64 ortrain_counters_get (const char *device, const char *name);
/* a{st}, of one device: names and numbers, in the order of names. Floating. */
GVariant *ortrain_counters_list (const char *device);
