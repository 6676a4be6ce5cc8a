/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-rope-private.h"

#include <string.h>

typedef struct
{
  const guint8 *data;
  gsize n_bytes;
  GBytes *owner; /* or NULL: it outlives the rope */
} Piece;

static void
piece_clear (gpointer data)
{
  g_clear_pointer (&((Piece *) data)->owner, g_bytes_unref);
}

void
ortrain_rope_init (OrtrainRope *self)
{
  self->pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  g_array_set_clear_func (self->pieces, piece_clear);
  self->n_bytes = 0;
}

void
ortrain_rope_clear (OrtrainRope *self)
{
  g_clear_pointer (&self->pieces, g_array_unref);
}

void
ortrain_rope_add (OrtrainRope *self, const guint8 *data, gsize n_bytes)
{
  if (n_bytes == 0)
    return;
  self->n_bytes += n_bytes;
  if (self->pieces->len > 0)
    {
      Piece *last = &g_array_index (self->pieces, Piece, self->pieces->len - 1);
      if (last->owner == NULL && last->data + last->n_bytes == data)
        {
          last->n_bytes += n_bytes;
          return;
        }
    }
  Piece piece = { data, n_bytes, NULL };
  g_array_append_val (self->pieces, piece);
}

void
ortrain_rope_add_new (OrtrainRope *self, const GByteArray *bytes)
{
  if (bytes->len == 0)
    return;
  GBytes *owner = g_bytes_new (bytes->data, bytes->len);
  Piece piece = { g_bytes_get_data (owner, NULL), bytes->len, owner };
  g_array_append_val (self->pieces, piece);
  self->n_bytes += bytes->len;
}

static void
add_rope (OrtrainRope *self, const OrtrainRope *other)
{
  for (guint i = 0; i < other->pieces->len; i++)
    {
      Piece piece = g_array_index (other->pieces, Piece, i);
      if (piece.owner == NULL)
        {
          ortrain_rope_add (self, piece.data, piece.n_bytes);
          continue;
        }
      g_bytes_ref (piece.owner);
      g_array_append_val (self->pieces, piece);
      self->n_bytes += piece.n_bytes;
    }
}

void
ortrain_rope_add_message (OrtrainRope *self, guint32 field, const OrtrainRope *body)
{
  g_autoptr (GByteArray) head = g_byte_array_new ();
  ortrain_wire_append_head (head, field, body->n_bytes);
  ortrain_rope_add_new (self, head);
  add_rope (self, body);
}

void
ortrain_rope_copy (const OrtrainRope *self, guint8 *to)
{
  for (guint i = 0; i < self->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (self->pieces, Piece, i);
      memcpy (to, piece->data, piece->n_bytes);
      to += piece->n_bytes;
    }
}

gboolean
ortrain_rope_write (const OrtrainRope *self, OrtrainFileWriter *file, GError **error)
{
  for (guint i = 0; i < self->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (self->pieces, Piece, i);
      if (!ortrain_file_writer_write (file, piece->data, piece->n_bytes, error))
        return FALSE;
    }
  return ortrain_file_writer_sync (file, error);
}
