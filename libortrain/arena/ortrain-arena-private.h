/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "arena/ortrain-arena.h"
#include "provider/ortrain-provider-private.h"

#define ORTRAIN_ARENA_INITIAL_CHUNK (G_GUINT64_CONSTANT (1) << 20)
#define ORTRAIN_ARENA_INITIAL_GROWTH_CHUNK (G_GUINT64_CONSTANT (2) << 20)
#define ORTRAIN_ARENA_MAX_POWER_OF_TWO_EXTEND (G_GUINT64_CONSTANT (1) << 30)
#define ORTRAIN_ARENA_MAX_DEAD_BYTES (G_GUINT64_CONSTANT (128) << 20)

/* As the properties of OrtrainArena. */
typedef struct
{
  OrtrainArenaExtendStrategy extend_strategy;
  guint64 max_mem; /* 0: none */
  guint64 initial_chunk_size_bytes;
  guint64 initial_growth_chunk_size_bytes;
  guint64 max_power_of_two_extend_bytes;
  guint64 max_dead_bytes_per_chunk;
  gboolean shrinks; /* after a run: of a session */
} OrtrainArenaConfig;

/* Options joined by commas, as in "max_mem=2GiB,arena_extend_strategy=kSameAsRequested"; NULL: the defaults.
 * SESSION_ERROR_OPTION if it is not valid. */
gboolean ortrain_arena_config_parse (const char *text, OrtrainArenaConfig *config, GError **error);

/* An arena in a memory space of an open provider. */
OrtrainArena *ortrain_arena_new_for_provider (OrtrainProvider *provider, OrtrainMemorySpace space,
                                              const OrtrainArenaConfig *config);
/* Applies from now on. Memory that is already held above it stays. */
void ortrain_arena_set_limit (OrtrainArena *self, guint64 bytes);
/* Gives back all that is not in use, the first piece included, and begins anew. */
void ortrain_arena_empty (OrtrainArena *self);
/* How often memory was given back to the device: when it changes, memory at earlier addresses may be gone. */
guint64 ortrain_arena_get_n_shrinkages (OrtrainArena *self);
guint64 ortrain_arena_get_held_bytes (OrtrainArena *self);

OrtrainArenaStatistics *ortrain_arena_statistics_new (const OrtrainArenaStatistics *fields);
