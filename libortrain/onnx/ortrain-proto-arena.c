/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-proto-arena-private.h"

/* Large pieces, such as lists that protobuf-c keeps only while it reads a message, are given back when they are freed.
 */
#define CHUNK ((gsize) 64 << 10)
#define LARGE ((gsize) 1 << 10)
#define ALIGNMENT ((gsize) 8)

struct _OrtrainProtoArena
{
  ProtobufCAllocator allocator;
  GPtrArray *chunks;
  GHashTable *large; /* address → size */
  guint8 *next;
  gsize left;
  guint64 taken, limit;
  gboolean exhausted, failed; /* for the limit; for want of memory */
};

static gpointer
take (OrtrainProtoArena *self, gsize size)
{
  self->exhausted = self->exhausted || size > self->limit - self->taken;
  gpointer memory = self->exhausted ? NULL : g_try_malloc (size);
  if (memory != NULL)
    self->taken += size;
  else
    self->failed = TRUE;
  return memory;
}

static void *
arena_alloc (void *data, size_t size)
{
  OrtrainProtoArena *self = data;
  if (size > LARGE)
    {
      gpointer memory = take (self, size);
      if (memory != NULL)
        g_hash_table_insert (self->large, memory, GSIZE_TO_POINTER (size));
      return memory;
    }
  size = MAX ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1), ALIGNMENT);
  if (size > self->left)
    {
      self->next = take (self, CHUNK);
      self->left = self->next != NULL ? CHUNK : 0;
      if (self->next == NULL)
        return NULL;
      g_ptr_array_add (self->chunks, self->next);
    }
  gpointer memory = self->next;
  self->next += size;
  self->left -= size;
  return memory;
}

static void
arena_free (void *data, void *memory)
{
  OrtrainProtoArena *self = data;
  gpointer size;
  if (memory == NULL || !g_hash_table_steal_extended (self->large, memory, NULL, &size))
    return;
  self->taken -= GPOINTER_TO_SIZE (size);
  g_free (memory);
}

OrtrainProtoArena *
ortrain_proto_arena_new (guint64 limit)
{
  OrtrainProtoArena *self = g_new0 (OrtrainProtoArena, 1);
  self->allocator = (ProtobufCAllocator){ arena_alloc, arena_free, self };
  self->chunks = g_ptr_array_new_with_free_func (g_free);
  self->large = g_hash_table_new_full (NULL, NULL, g_free, NULL);
  self->limit = limit;
  return self;
}

void
ortrain_proto_arena_free (OrtrainProtoArena *self)
{
  g_ptr_array_unref (self->chunks);
  g_hash_table_unref (self->large);
  g_free (self);
}

void
ortrain_proto_arena_reset (OrtrainProtoArena *self)
{
  if (g_hash_table_size (self->large) > 0)
    g_hash_table_remove_all (self->large);
  if (self->chunks->len > 1)
    g_ptr_array_set_size (self->chunks, 1);
  self->taken = CHUNK * self->chunks->len;
  self->next = self->chunks->len > 0 ? self->chunks->pdata[0] : NULL;
  self->left = self->chunks->len > 0 ? CHUNK : 0;
  self->exhausted = self->failed = FALSE;
}

guint64
ortrain_proto_arena_get_taken (const OrtrainProtoArena *self)
{
  return self->taken;
}

ProtobufCAllocator *
ortrain_proto_arena_get_allocator (OrtrainProtoArena *self)
{
  return &self->allocator;
}

gboolean
ortrain_proto_arena_is_exhausted (const OrtrainProtoArena *self)
{
  return self->exhausted;
}

gboolean
ortrain_proto_arena_has_failed (const OrtrainProtoArena *self)
{
  return self->failed;
}
