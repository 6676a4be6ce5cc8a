/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-files-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* NumPy's file of one array: a magic string, a version, the length of a header, the header (a Python dictionary as
 * text, such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }), and the elements. */

#define MAGIC "\x93NUMPY"
#define MAX_HEADER 65536

/* bfloat16 has no name in NumPy; the common extension type is saved under this one. */
#define BFLOAT16_NAME "<V2"

typedef struct
{
  const char *p;
  const char *end;
} Reader;

static void
skip_space (Reader *r)
{
  while (r->p < r->end && strchr (" \t\r\n", *r->p) != NULL && *r->p != '\0')
    r->p++;
}

static gboolean
accept (Reader *r, char c)
{
  skip_space (r);
  if (r->p >= r->end || *r->p != c)
    return FALSE;
  r->p++;
  return TRUE;
}

/* A Python string without escapes; descr and the keys need none. */
static char *
read_string (Reader *r)
{
  skip_space (r);
  if (r->p >= r->end || (*r->p != '\'' && *r->p != '"'))
    return NULL;
  char quote = *r->p++;
  const char *begin = r->p;
  while (r->p < r->end && *r->p != quote && *r->p != '\\')
    r->p++;
  if (r->p >= r->end || *r->p != quote)
    return NULL;
  return g_strndup (begin, (gsize) (r->p++ - begin));
}

static gboolean
read_bool (Reader *r, gboolean *value)
{
  skip_space (r);
  gsize left = (gsize) (r->end - r->p);
  if (left >= 4 && memcmp (r->p, "True", 4) == 0)
    {
      r->p += 4;
      *value = TRUE;
      return TRUE;
    }
  if (left >= 5 && memcmp (r->p, "False", 5) == 0)
    {
      r->p += 5;
      *value = FALSE;
      return TRUE;
    }
  return FALSE;
}

static gboolean
read_int (Reader *r, gint64 *value)
{
  skip_space (r);
  if (r->p >= r->end || !g_ascii_isdigit (*r->p))
    return FALSE;
  gint64 n = 0;
  for (; r->p < r->end && g_ascii_isdigit (*r->p); r->p++)
    if (!ortrain_checked_mul_i64 (n, 10, &n) || !ortrain_checked_add_i64 (n, *r->p - '0', &n))
      return FALSE;
  if (r->p < r->end && *r->p == 'L') /* Python 2 wrote these */
    r->p++;
  *value = n;
  return TRUE;
}

static gboolean
read_shape (Reader *r, gint64 *dims, gsize *n_dims)
{
  *n_dims = 0;
  if (!accept (r, '('))
    return FALSE;
  while (!accept (r, ')'))
    {
      if (*n_dims == ORTRAIN_MAX_RANK || !read_int (r, &dims[*n_dims]))
        return FALSE;
      ++*n_dims;
      if (!accept (r, ',') && (skip_space (r), r->p >= r->end || *r->p != ')'))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_header (Reader *r, char **descr, gboolean *fortran, gint64 *dims, gsize *n_dims)
{
  gboolean has_fortran = FALSE, has_shape = FALSE;
  if (!accept (r, '{'))
    return FALSE;
  while (!accept (r, '}'))
    {
      g_autofree char *key = read_string (r);
      if (key == NULL || !accept (r, ':'))
        return FALSE;
      if (g_str_equal (key, "descr") && *descr == NULL)
        {
          if ((*descr = read_string (r)) == NULL)
            return FALSE;
        }
      else if (g_str_equal (key, "fortran_order") && !has_fortran)
        {
          if (!read_bool (r, fortran))
            return FALSE;
          has_fortran = TRUE;
        }
      else if (g_str_equal (key, "shape") && !has_shape)
        {
          if (!read_shape (r, dims, n_dims))
            return FALSE;
          has_shape = TRUE;
        }
      else
        return FALSE;
      if (!accept (r, ',') && (skip_space (r), r->p >= r->end || *r->p != '}'))
        return FALSE;
    }
  skip_space (r);
  return r->p == r->end && *descr != NULL && has_fortran && has_shape;
}

/* Copies elements that lie in Fortran's order (the first dimension is the fastest) or have their bytes reversed. */
static OrtrainTensor *
copy_reordered (OrtrainDType dtype, const gint64 *dims, gsize n_dims, const guint8 *from, gboolean fortran,
                gboolean swap, GError **error)
{
  OrtrainTensor *tensor = ortrain_tensor_new_uninitialized (dtype, dims, n_dims, error);
  if (tensor == NULL)
    return NULL;
  guint8 *to = ortrain_tensor_peek_writable (tensor);
  gsize size = ortrain_dtype_get_size (dtype);
  gsize unit = dtype == ORTRAIN_DTYPE_COMPLEX64 || dtype == ORTRAIN_DTYPE_COMPLEX128 ? size / 2 : size;
  gint64 n = ortrain_tensor_get_n_elements (tensor);

  gint64 strides[ORTRAIN_MAX_RANK], index[ORTRAIN_MAX_RANK] = { 0 }, source = 0, stride = 1;
  for (gsize k = 0; k < n_dims; k++)
    {
      strides[k] = stride;
      stride *= dims[k];
    }
  for (gint64 i = 0; i < n; i++, to += size)
    {
      memcpy (to, from + (gsize) (fortran ? source : i) * size, size);
      if (swap)
        for (gsize u = 0; u < size; u += unit)
          for (gsize b = 0; b < unit / 2; b++)
            {
              guint8 byte = to[u + b];
              to[u + b] = to[u + unit - 1 - b];
              to[u + unit - 1 - b] = byte;
            }
      for (gsize k = n_dims; fortran && k-- > 0;)
        {
          source += strides[k];
          if (++index[k] < dims[k])
            break;
          source -= strides[k] * dims[k];
          index[k] = 0;
        }
    }
  return tensor;
}

static OrtrainTensor *
fail (GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID, "the .npy data %s", what);
  return NULL;
}

/* A hint about elements that are not numbers. descr: "|O", "<U5" */
static const char *
explain_type (const char *descr)
{
  switch (descr[0] != '\0' ? descr[1] : '\0')
    {
    case 'O':
      return ": they are Python objects; convert them (NumPy: x.astype ('float32'))";
    case 'U':
    case 'S':
      return ": they are texts; number them (NumPy: np.unique (x, return_inverse=True)[1])";
    case 'M':
    case 'm':
      return ": they are times; convert them (NumPy: x.astype ('int64'))";
    default:
      return "";
    }
}

OrtrainTensor *
ortrain_npy_parse (GBytes *bytes, GError **error)
{
  gsize size, header_size, prefix;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  if (size < 10 || memcmp (data, MAGIC, 6) != 0)
    return fail (error, "do not begin with NumPy's magic bytes");
  if (data[6] == 1)
    {
      header_size = data[8] | (gsize) data[9] << 8;
      prefix = 10;
    }
  else if ((data[6] == 2 || data[6] == 3) && size >= 12)
    {
      header_size = data[8] | (gsize) data[9] << 8 | (gsize) data[10] << 16 | (gsize) data[11] << 24;
      prefix = 12;
    }
  else
    return fail (error, "have an unknown version");
  if (header_size > MAX_HEADER || header_size > size - prefix)
    return fail (error, "have a header that is too long or truncated");

  Reader r = { (const char *) data + prefix, (const char *) data + prefix + header_size };
  g_autofree char *descr = NULL;
  gint64 dims[ORTRAIN_MAX_RANK];
  gsize n_dims = 0;
  gboolean fortran = FALSE;
  if (!read_header (&r, &descr, &fortran, dims, &n_dims))
    return fail (error, descr != NULL ? "have an invalid header" : "have an invalid header, or structured elements");

  gboolean swap = descr[0] == '>';
  if (swap)
    descr[0] = '<';
  OrtrainDType dtype = ortrain_dtype_from_numpy_string (descr);
  if (dtype == ORTRAIN_DTYPE_UNDEFINED && descr[0] != '\0' && g_str_equal (descr + 1, &BFLOAT16_NAME[1]))
    dtype = ORTRAIN_DTYPE_BFLOAT16;
  if (dtype == ORTRAIN_DTYPE_UNDEFINED && (swap || descr[0] == '<'))
    {
      /* single bytes carry any mark */
      descr[0] = '|';
      dtype = ortrain_dtype_from_numpy_string (descr);
    }
  if (dtype == ORTRAIN_DTYPE_UNDEFINED)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE,
                   "the .npy data have elements of type %s, which is not supported%s", ortrain_text_show (descr),
                   explain_type (descr));
      return NULL;
    }
  gint64 n_elements;
  gsize n_bytes, available = size - prefix - header_size;
  if (!ortrain_checked_n_elements (dims, n_dims, &n_elements) ||
      !ortrain_checked_mul ((gsize) n_elements, ortrain_dtype_get_size (dtype), &n_bytes) || n_bytes != available)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, n_dims);
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "the .npy data have %" G_GSIZE_FORMAT " bytes of elements, which is not the size of %s%s", available,
                   ortrain_dtype_get_name (dtype), shape);
      return NULL;
    }
  fortran = fortran && n_dims > 1;
  if (fortran || (swap && ortrain_dtype_get_size (dtype) > 1))
    return copy_reordered (dtype, dims, n_dims, data + prefix + header_size, fortran, swap, error);
  g_autoptr (GBytes) elements = g_bytes_new_from_bytes (bytes, prefix + header_size, n_bytes);
  return ortrain_tensor_new_for_bytes (dtype, dims, n_dims, elements, error);
}

GBytes *
ortrain_npy_make_header (OrtrainTensor *tensor, GError **error)
{
  OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  const char *descr = dtype == ORTRAIN_DTYPE_BFLOAT16 ? BFLOAT16_NAME : ortrain_dtype_get_numpy_string (dtype);
  if (descr == NULL)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE, "NumPy has no type for %s",
                   ortrain_dtype_get_name (dtype));
      return NULL;
    }
  GString *s = g_string_new (NULL);
  g_string_append_len (s, MAGIC "\x01\x00\x00\x00", 10);
  g_string_append_printf (s, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  gsize n_dims;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &n_dims);
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (s, i == 0 ? "%" G_GINT64_FORMAT : ", %" G_GINT64_FORMAT, dims[i]);
  g_string_append (s, n_dims == 1 ? ",), }" : "), }");
  while ((s->len + 1) % 64 != 0)
    g_string_append_c (s, ' ');
  g_string_append_c (s, '\n');
  s->str[8] = (char) ((s->len - 10) & 0xff);
  s->str[9] = (char) ((s->len - 10) >> 8);
  return g_string_free_to_bytes (s);
}

/**
 * ortrain_tensor_new_from_npy:
 * @path: (type filename): a file that NumPy's `save` wrote
 * @error: return location for an error
 *
 * Reads a `.npy` file. The elements are mapped, not copied, if they are row-major and little-endian; the tensor is then
 * not writable.
 *
 * Returns: (transfer full): the tensor; %NULL with an [error@TensorError] or an error of [error@GLib.FileError]
 */
OrtrainTensor *
ortrain_tensor_new_from_npy (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, error);
  if (bytes == NULL)
    return NULL;
  OrtrainTensor *tensor = ortrain_npy_parse (bytes, error);
  if (tensor != NULL && !ortrain_mapped_file_check_bytes (bytes, error))
    g_clear_object (&tensor);
  if (tensor == NULL)
    g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
  return tensor;
}

/**
 * ortrain_tensor_save_npy:
 * @self: a tensor
 * @path: (type filename): the file to write
 * @error: return location for an error
 *
 * Writes a file that NumPy's `load` reads. An existing file is replaced only when the new one is complete on disk.
 *
 * Returns: %FALSE with an [error@TensorError] or a [error@Gio.IOErrorEnum]
 */
gboolean
ortrain_tensor_save_npy (OrtrainTensor *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (self, error);
  if (host == NULL)
    return FALSE;
  g_autoptr (GBytes) header = ortrain_npy_make_header (self, error);
  if (header == NULL)
    return FALSE;
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, error);
  return writer != NULL &&
         ortrain_file_writer_write (writer, g_bytes_get_data (header, NULL), g_bytes_get_size (header), error) &&
         ortrain_file_writer_write (writer, ortrain_tensor_peek (host), ortrain_tensor_get_n_bytes (host), error) &&
         ortrain_tensor_check_file (host, error) && ortrain_file_writer_commit (writer, error);
}
