/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-files-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* The format of MNIST: two zero bytes, the type, the rank, the dimensions as big-endian 32-bit numbers, the elements,
 * big-endian too. */

static OrtrainDType
dtype_from_idx (guint8 code)
{
  switch (code)
    {
    case 0x08:
      return ORTRAIN_DTYPE_UINT8;
    case 0x09:
      return ORTRAIN_DTYPE_INT8;
    case 0x0b:
      return ORTRAIN_DTYPE_INT16;
    case 0x0c:
      return ORTRAIN_DTYPE_INT32;
    case 0x0d:
      return ORTRAIN_DTYPE_FLOAT32;
    case 0x0e:
      return ORTRAIN_DTYPE_FLOAT64;
    }
  return ORTRAIN_DTYPE_UNDEFINED;
}

/* Plain and compressed files are read in the same way. */
typedef struct
{
  OrtrainInflater inflater;
  gboolean packed;
} Source;

static gboolean
read_bytes (Source *source, gpointer destination, gsize n_bytes, GError **error)
{
  if (source->packed)
    return ortrain_inflater_read (&source->inflater, destination, n_bytes, error);
  if (n_bytes > source->inflater.left)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "the IDX file is truncated: %" G_GSIZE_FORMAT " bytes are missing", n_bytes - source->inflater.left);
      return FALSE;
    }
  memcpy (destination, source->inflater.p, n_bytes);
  source->inflater.p += n_bytes;
  source->inflater.left -= n_bytes;
  return TRUE;
}

static OrtrainTensor *
parse (Source *source, GBytes *bytes, GError **error)
{
  guint8 head[4], dim[4];
  if (!read_bytes (source, head, sizeof head, error))
    return NULL;
  OrtrainDType dtype = dtype_from_idx (head[2]);
  if (head[0] != 0 || head[1] != 0 || dtype == ORTRAIN_DTYPE_UNDEFINED || head[3] > ORTRAIN_MAX_RANK)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "not an IDX file: it begins with %02x %02x %02x %02x", head[0], head[1], head[2], head[3]);
      return NULL;
    }
  gsize n_dims = head[3], size = ortrain_dtype_get_size (dtype), n_bytes;
  gint64 dims[ORTRAIN_MAX_RANK], n_elements;
  for (gsize i = 0; i < n_dims; i++)
    {
      if (!read_bytes (source, dim, sizeof dim, error))
        return NULL;
      dims[i] = (gint64) dim[0] << 24 | dim[1] << 16 | dim[2] << 8 | dim[3];
    }
  gsize left = source->inflater.left;
  if (!ortrain_checked_n_elements (dims, n_dims, &n_elements) ||
      !ortrain_checked_mul ((gsize) n_elements, size, &n_bytes) ||
      (source->packed ? !ortrain_inflater_is_plausible (g_bytes_get_size (bytes), n_bytes) : n_bytes != left))
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "the IDX header says %s%s, but %" G_GSIZE_FORMAT " bytes follow it", ortrain_dtype_get_name (dtype),
                   shape, left);
      return NULL;
    }
  if (!source->packed && size == 1)
    {
      g_autoptr (GBytes) elements = g_bytes_new_from_bytes (bytes, g_bytes_get_size (bytes) - n_bytes, n_bytes);
      return ortrain_tensor_new_for_bytes (dtype, dims, n_dims, elements, error);
    }
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_uninitialized (dtype, dims, n_dims, error);
  if (tensor == NULL)
    return NULL;
  guint8 *destination = ortrain_tensor_peek_writable (tensor);
  if (!read_bytes (source, destination, n_bytes, error) ||
      (source->packed && !ortrain_inflater_finish (&source->inflater, error)))
    return NULL;
  for (gsize i = 0; size > 1 && i < n_bytes; i += size)
    for (gsize b = 0; b < size / 2; b++)
      {
        guint8 byte = destination[i + b];
        destination[i + b] = destination[i + size - 1 - b];
        destination[i + size - 1 - b] = byte;
      }
  return g_steal_pointer (&tensor);
}

/**
 * ortrain_tensor_new_from_idx:
 * @path: (type filename): a file in the format of MNIST, plain or compressed with gzip
 * @error: return location for an error
 *
 * Reads an IDX file. Images are uint8 [n, height, width], labels uint8 [n].
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError] or an error of [error@GLib.FileError]
 */
OrtrainTensor *
ortrain_tensor_new_from_idx (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, error);
  if (bytes == NULL)
    return NULL;
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  Source source = { .packed = size >= 2 && data[0] == 0x1f && data[1] == 0x8b };
  ortrain_inflater_init (&source.inflater, data, size, FALSE);
  OrtrainTensor *tensor = parse (&source, bytes, error);
  ortrain_inflater_clear (&source.inflater);
  if (tensor != NULL && !ortrain_mapped_file_check_bytes (bytes, error))
    g_clear_object (&tensor);
  if (tensor == NULL)
    g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
  return tensor;
}
