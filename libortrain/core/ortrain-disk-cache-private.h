/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Results that take long to compute and are the same each time, kept in files for later processes: searches of the
 * planner, the choices of a device's libraries. The folder is $XDG_CACHE_HOME/ortrain, or the value of the variable
 * ORTRAIN_CACHE; "off": nothing is read or written. An entry is found by its kind, its key, and the build of the
 * library, so that no version reads the entries of another one. An entry that depends on more than the library, such as
 * a driver, has that in its key.
 *
 * An entry is a hint: callers validate it like any other untrusted input. A file that is damaged, not the user's own,
 * or cannot be read counts as missing, and one that cannot be written is dropped; neither is an error. From any thread,
 * and from any number of processes at once. */

/* kind: a short word. NULL: no entry. Transfer full. */
GBytes *ortrain_disk_cache_lookup (const char *kind, gconstpointer key, gsize n_key);
/* Replaces the entry of that key. The folder takes 64 MiB at most: the entries that were used longest ago make room. */
void ortrain_disk_cache_store (const char *kind, gconstpointer key, gsize n_key, GBytes *contents);

/* Since the process began. */
typedef struct
{
  guint n_hits, n_misses, n_stored;
} OrtrainDiskCacheCounts;

OrtrainDiskCacheCounts ortrain_disk_cache_get_counts (void);
