/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_ARENA_STATISTICS (ortrain_arena_statistics_get_type ())

typedef struct _OrtrainArenaStatistics OrtrainArenaStatistics;

/**
 * OrtrainArenaStatistics:
 * @bytes_in_use: bytes that are allocated, now; whole pieces, as they were cut
 * @max_bytes_in_use: the maximum of @bytes_in_use
 * @total_allocated_bytes: bytes held from the device, now
 * @max_total_allocated_bytes: the maximum of @total_allocated_bytes
 * @max_alloc_size: the largest number of bytes that was asked for at once, in multiples of 256
 * @largest_free_bytes: the largest piece that can be allocated without more memory of the device, now
 * @bytes_limit: the most that may be held; 0 for any number
 * @num_allocs: how often memory was allocated, reserves included
 * @num_reserves: how often memory was reserved
 * @num_arena_extensions: how often memory of the device was taken to allocate from it
 * @num_arena_shrinkages: how often that was given back: once for each extension
 *
 * A snapshot of an [class@Arena]. The names are those of ONNX Runtime where it has such a number.
 *
 * ```python
 * statistics = Ortrain.Arena.new(Ortrain.Device.list()[0]).get_statistics()
 * print(statistics.bytes_in_use, statistics.total_allocated_bytes)
 * ```
 *
 * Statistics are immutable, and any thread may use them; a copy is a reference to the same ones.
 */
struct _OrtrainArenaStatistics
{
  guint64 bytes_in_use;
  guint64 max_bytes_in_use;
  guint64 total_allocated_bytes;
  guint64 max_total_allocated_bytes;
  guint64 max_alloc_size;
  guint64 largest_free_bytes;
  guint64 bytes_limit;
  guint64 num_allocs;
  guint64 num_reserves;
  guint64 num_arena_extensions;
  guint64 num_arena_shrinkages;
};

ORTRAIN_AVAILABLE_IN_ALL
GType ortrain_arena_statistics_get_type (void);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainArenaStatistics *ortrain_arena_statistics_copy (OrtrainArenaStatistics *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_arena_statistics_free (OrtrainArenaStatistics *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainArenaStatistics, ortrain_arena_statistics_free)

G_END_DECLS
