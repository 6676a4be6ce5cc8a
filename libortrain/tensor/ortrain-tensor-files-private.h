/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-file-writer-private.h"
#include "tensor/ortrain-tensor-dict.h"

/* The formats themselves, on bytes. All of them check every size before they take memory, and copy only if they must
 * (misaligned, compressed, other byte order). */

OrtrainTensor *ortrain_npy_parse (GBytes *bytes, GError **error);
/* Everything before the elements; a multiple of 64 bytes. NULL and an error if NumPy has no name for the type. */
GBytes *ortrain_npy_make_header (OrtrainTensor *tensor, GError **error);

/* Adds the tensors to `into`; tensors that were added before an error stay. metadata: (nullable) the strings of
 * __metadata__, as char * → char * */
gboolean ortrain_safetensors_parse (GBytes *bytes, OrtrainTensorDict *into, GHashTable **metadata, GError **error);
gboolean ortrain_safetensors_write (OrtrainTensorDict *tensors, GHashTable *metadata, OrtrainFileWriter *writer,
                                    GError **error);

/* A stream of zlib, read in pieces of known sizes. raw: without gzip's header (as in zip files). */
typedef struct
{
  GConverter *converter;
  const guint8 *p;
  gsize left;
  gboolean finished;
} OrtrainInflater;

void ortrain_inflater_init (OrtrainInflater *self, const guint8 *data, gsize n_bytes, gboolean raw);
void ortrain_inflater_clear (OrtrainInflater *self);
gboolean ortrain_inflater_read (OrtrainInflater *self, gpointer to, gsize n_bytes, GError **error); /* all or error */
gboolean ortrain_inflater_finish (OrtrainInflater *self, GError **error); /* an error if there is more */
/* No zlib stream gets longer than this when it is unpacked: larger claims are refused before memory is allocated. */
gboolean ortrain_inflater_is_plausible (guint64 packed, guint64 unpacked);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OrtrainInflater, ortrain_inflater_clear)
