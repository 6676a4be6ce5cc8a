/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MEMORY_BLOCK (ortrain_memory_block_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainMemoryBlock, ortrain_memory_block, ORTRAIN, MEMORY_BLOCK, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_block_get_name (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_block_get_category (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_block_get_region (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_block_get_node (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_block_get_offset (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_block_get_bytes (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
gint ortrain_memory_block_get_first (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
gint ortrain_memory_block_get_last (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_memory_block_get_recomputed (OrtrainMemoryBlock *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_memory_block_to_string (OrtrainMemoryBlock *self);

G_END_DECLS
