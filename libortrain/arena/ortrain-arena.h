/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "arena/ortrain-arena-statistics.h"
#include "provider/ortrain-device.h"

G_BEGIN_DECLS

/**
 * OrtrainArenaExtendStrategy:
 * @ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO: in steps that double: few, large pieces, which serve many sizes
 * @ORTRAIN_ARENA_EXTEND_STRATEGY_SAME_AS_REQUESTED: exactly the requested size: no more is held, but pieces are small,
 *   and free memory of two pieces is never merged
 *
 * How an [class@Arena] grows. The values are those of `arena_extend_strategy` of ONNX Runtime.
 */
typedef enum
{
  ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO,
  ORTRAIN_ARENA_EXTEND_STRATEGY_SAME_AS_REQUESTED,
} OrtrainArenaExtendStrategy;

#define ORTRAIN_TYPE_ARENA (ortrain_arena_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainArena, ortrain_arena, ORTRAIN, ARENA, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainArena *ortrain_arena_new (OrtrainDevice *device);

ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_arena_allocate (OrtrainArena *self, gsize n_bytes, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gsize ortrain_arena_reserve (OrtrainArena *self, gsize n_bytes, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_arena_release (OrtrainArena *self, gsize address);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_arena_shrink (OrtrainArena *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainArenaStatistics *ortrain_arena_get_statistics (OrtrainArena *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDevice *ortrain_arena_get_device (OrtrainArena *self);

G_END_DECLS
