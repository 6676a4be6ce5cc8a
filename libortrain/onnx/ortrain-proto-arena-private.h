/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <protobuf-c/protobuf-c.h>

/* Memory for messages that protobuf-c unpacks: side by side, freed at once, and never more than a limit. */
typedef struct _OrtrainProtoArena OrtrainProtoArena;

OrtrainProtoArena *ortrain_proto_arena_new (guint64 limit);
void ortrain_proto_arena_free (OrtrainProtoArena *self);
/* Frees everything in it; the first block of its memory is kept for the next messages. */
void ortrain_proto_arena_reset (OrtrainProtoArena *self);
guint64 ortrain_proto_arena_get_taken (const OrtrainProtoArena *self);
ProtobufCAllocator *ortrain_proto_arena_get_allocator (OrtrainProtoArena *self);
gboolean ortrain_proto_arena_is_exhausted (const OrtrainProtoArena *self);
gboolean ortrain_proto_arena_has_failed (const OrtrainProtoArena *self); /* there was no memory */
