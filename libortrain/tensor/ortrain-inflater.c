/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-files-private.h"

#include "core/ortrain-errors.h"

#include <string.h>

/* zlib counts in 32 bits. */
#define MAX_PIECE ((gsize) 1 << 30)

void
ortrain_inflater_init (OrtrainInflater *self, const guint8 *data, gsize n_bytes, gboolean raw)
{
  GZlibCompressorFormat format = raw ? G_ZLIB_COMPRESSOR_FORMAT_RAW : G_ZLIB_COMPRESSOR_FORMAT_GZIP;
  *self = (OrtrainInflater){ G_CONVERTER (g_zlib_decompressor_new (format)), data, n_bytes, FALSE };
}

void
ortrain_inflater_clear (OrtrainInflater *self)
{
  g_clear_object (&self->converter);
}

/* Unpacks at most n_bytes. FALSE on error; *got is 0 only at the end of the stream. */
static gboolean
step (OrtrainInflater *self, gpointer destination, gsize n_bytes, gsize *got, GError **error)
{
  *got = 0;
  while (!self->finished)
    {
      gsize taken = 0, produced = 0, piece = MIN (self->left, MAX_PIECE);
      GConverterResult result = g_converter_convert (
          self->converter, self->p, piece, destination, MIN (n_bytes, MAX_PIECE),
          piece == self->left ? G_CONVERTER_INPUT_AT_END : G_CONVERTER_NO_FLAGS, &taken, &produced, error);
      if (result == G_CONVERTER_ERROR)
        return FALSE;
      self->p += taken;
      self->left -= taken;
      self->finished = result == G_CONVERTER_FINISHED;
      if (produced > 0)
        {
          *got = produced;
          return TRUE;
        }
      if (taken == 0 && !self->finished)
        break;
    }
  return TRUE;
}

gboolean
ortrain_inflater_read (OrtrainInflater *self, gpointer destination, gsize n_bytes, GError **error)
{
  guint8 *p = destination;
  while (n_bytes > 0)
    {
      gsize got;
      if (!step (self, p, n_bytes, &got, error))
        return FALSE;
      if (got == 0)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                       "the compressed data are truncated: %" G_GSIZE_FORMAT " bytes are missing", n_bytes);
          return FALSE;
        }
      p += got;
      n_bytes -= got;
    }
  return TRUE;
}

gboolean
ortrain_inflater_finish (OrtrainInflater *self, GError **error)
{
  guint8 extra;
  gsize got;
  if (!step (self, &extra, 1, &got, error))
    return FALSE;
  if (got > 0 || !self->finished || self->left > 0)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "there are more compressed data than the header says");
      return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_inflater_is_plausible (guint64 packed, guint64 unpacked)
{
  /* 258 bytes take at least two bits */
  return unpacked / 1032 <= packed + 1;
}
