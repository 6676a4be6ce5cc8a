/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-file-writer-private.h"
#include "onnx/ortrain-wire-private.h"

/* Bytes of a file that is to be written: a list of pieces of other memory and of a few bytes of its own, so that
 * nothing large is copied. Zeros are an empty one that holds nothing yet. */
typedef struct
{
  GArray *pieces; /* of Piece */
  guint64 n_bytes;
} OrtrainRope;

void ortrain_rope_init (OrtrainRope *self);
void ortrain_rope_clear (OrtrainRope *self);
/* Memory that outlives the rope. */
void ortrain_rope_add (OrtrainRope *self, const guint8 *data, gsize n_bytes);
/* A copy. */
void ortrain_rope_add_new (OrtrainRope *self, const GByteArray *bytes);
/* A field of a message that is a message. */
void ortrain_rope_add_message (OrtrainRope *self, guint32 field, const OrtrainRope *body);
/* to: [n_bytes] */
void ortrain_rope_copy (const OrtrainRope *self, guint8 *to);
gboolean ortrain_rope_write (const OrtrainRope *self, OrtrainFileWriter *file, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OrtrainRope, ortrain_rope_clear)
