/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arena/ortrain-arena-private.h"

G_DEFINE_BOXED_TYPE (OrtrainArenaStatistics, ortrain_arena_statistics, ortrain_arena_statistics_copy,
                     ortrain_arena_statistics_free)

OrtrainArenaStatistics *
ortrain_arena_statistics_new (const OrtrainArenaStatistics *fields)
{
  OrtrainArenaStatistics *self = g_atomic_rc_box_new (OrtrainArenaStatistics);
  *self = *fields;
  return self;
}

/**
 * ortrain_arena_statistics_copy:
 * @self: statistics
 *
 * Increases the reference count: statistics never change. Any thread may call it.
 *
 * Returns: (transfer full): the same statistics
 */
OrtrainArenaStatistics *
ortrain_arena_statistics_copy (OrtrainArenaStatistics *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

/**
 * ortrain_arena_statistics_free:
 * @self: (transfer full): statistics
 *
 * Decreases the reference count. Any thread may call it.
 */
void
ortrain_arena_statistics_free (OrtrainArenaStatistics *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release (self);
}
