/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-files-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <stdlib.h>
#include <string.h>

/* A length (64 bits, little-endian), a header of that length in JSON, and the elements of all tensors, one after the
 * other without gaps. The header is an object: name → {"dtype", "shape", "data_offsets": [begin, end]}, and perhaps
 * "__metadata__" → an object of strings.
 *
 * The header is read here and not by a general JSON parser, because that would nest as deep as a file tells it to,
 * build a tree of the whole before the first check, and let the last of two equal names win in silence. */

#define MAX_HEADER ((guint64) 100 * 1000 * 1000)
#define MAX_ENTRIES 100000

typedef struct
{
  const char *begin;
  const char *p;
  const char *end;
} Reader;

typedef struct
{
  char *name;
  OrtrainDType dtype;
  gsize n_dims;
  gint64 dims[ORTRAIN_MAX_RANK];
  gint64 begin, end; /* in the data, in bytes */
} Entry;

static void
entry_clear (gpointer data)
{
  g_free (((Entry *) data)->name);
}

static gboolean
fail (const Reader *r, const char *what, GError **error)
{
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
               "the safetensors header is invalid at byte %" G_GSIZE_FORMAT ": %s", (gsize) (r->p - r->begin) + 8,
               what);
  return FALSE;
}

static void
skip_space (Reader *r)
{
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
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

static gboolean
expect (Reader *r, char c, GError **error)
{
  if (accept (r, c))
    return TRUE;
  char what[] = "expected ' '";
  what[10] = c;
  return fail (r, what, error);
}

static gboolean
read_hex4 (Reader *r, gunichar *value)
{
  *value = 0;
  for (int i = 0; i < 4; i++, r->p++)
    {
      int digit = r->p < r->end ? g_ascii_xdigit_value (*r->p) : -1;
      if (digit < 0)
        return FALSE;
      *value = *value << 4 | (gunichar) digit;
    }
  return TRUE;
}

static char *
read_string (Reader *r, GError **error)
{
  if (!expect (r, '"', error))
    return NULL;
  g_autoptr (GString) s = g_string_new (NULL);
  while (r->p < r->end && *r->p != '"')
    {
      if ((guchar) *r->p < 0x20)
        return fail (r, "a control character in a string", error), NULL;
      if (*r->p != '\\')
        {
          const char *from = r->p;
          while (r->p < r->end && *r->p != '"' && *r->p != '\\' && (guchar) *r->p >= 0x20)
            r->p++;
          g_string_append_len (s, from, r->p - from);
          continue;
        }
      static const char codes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
      const char *code;
      gunichar high, low;
      r->p++;
      if (r->p >= r->end)
        break;
      if (*r->p != '\0' && (code = strchr (codes, *r->p)) != NULL)
        {
          g_string_append_c (s, meanings[code - codes]);
          r->p++;
        }
      else if (*r->p == 'u')
        {
          r->p++;
          if (!read_hex4 (r, &high))
            return fail (r, "an invalid escape sequence", error), NULL;
          if (high >= 0xd800 && high < 0xdc00)
            {
              if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u' || (r->p += 2, !read_hex4 (r, &low)) ||
                  low < 0xdc00 || low > 0xdfff)
                return fail (r, "an unpaired surrogate", error), NULL;
              high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            }
          if (high == 0 || !g_unichar_validate (high))
            return fail (r, "a character that is not allowed in a name", error), NULL;
          g_string_append_unichar (s, high);
        }
      else
        return fail (r, "an invalid escape sequence", error), NULL;
    }
  if (r->p >= r->end)
    return fail (r, "an unterminated string", error), NULL;
  r->p++;
  return g_string_free (g_steal_pointer (&s), FALSE);
}

static gboolean
read_int (Reader *r, gint64 *value, GError **error)
{
  skip_space (r);
  if (r->p >= r->end || !g_ascii_isdigit (*r->p))
    return fail (r, "expected a non-negative number", error);
  gint64 n = 0;
  for (; r->p < r->end && g_ascii_isdigit (*r->p); r->p++)
    if (!ortrain_checked_mul_i64 (n, 10, &n) || !ortrain_checked_add_i64 (n, *r->p - '0', &n))
      return fail (r, "a number that is too large", error);
  if (r->p < r->end && (*r->p == '.' || *r->p == 'e' || *r->p == 'E'))
    return fail (r, "a number that is not an integer", error);
  *value = n;
  return TRUE;
}

static gboolean
read_ints (Reader *r, gint64 *values, gsize max, gsize *n, GError **error)
{
  *n = 0;
  if (!expect (r, '[', error))
    return FALSE;
  if (accept (r, ']'))
    return TRUE;
  do
    {
      if (*n == max)
        return fail (r, "too many numbers in an array", error);
      if (!read_int (r, &values[(*n)++], error))
        return FALSE;
    }
  while (accept (r, ','));
  return expect (r, ']', error);
}

static gboolean
read_entry (Reader *r, Entry *entry, GError **error)
{
  enum
  {
    DTYPE = 1,
    SHAPE = 2,
    OFFSETS = 4,
  };
  guint seen = 0;
  if (!expect (r, '{', error))
    return FALSE;
  do
    {
      g_autofree char *key = read_string (r, error);
      if (key == NULL || !expect (r, ':', error))
        return FALSE;
      guint bit = g_str_equal (key, "dtype")          ? DTYPE
                  : g_str_equal (key, "shape")        ? SHAPE
                  : g_str_equal (key, "data_offsets") ? OFFSETS
                                                      : 0;
      if (bit == 0 || (seen & bit) != 0)
        return fail (r, "an unknown or repeated key", error);
      seen |= bit;
      if (bit == DTYPE)
        {
          g_autofree char *dtype = read_string (r, error);
          if (dtype == NULL)
            return FALSE;
          entry->dtype = ortrain_dtype_from_safetensors (dtype);
          if (entry->dtype == ORTRAIN_DTYPE_UNDEFINED)
            {
              g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE,
                           "tensor '%s' has elements of type %s, which is not supported",
                           ortrain_text_show (entry->name), ortrain_text_show (dtype));
              return FALSE;
            }
        }
      else if (bit == SHAPE)
        {
          if (!read_ints (r, entry->dims, ORTRAIN_MAX_RANK, &entry->n_dims, error))
            return FALSE;
        }
      else
        {
          gint64 offsets[2];
          gsize n;
          if (!read_ints (r, offsets, 2, &n, error))
            return FALSE;
          if (n != 2)
            return fail (r, "expected two offsets", error);
          entry->begin = offsets[0];
          entry->end = offsets[1];
        }
    }
  while (accept (r, ','));
  if (!expect (r, '}', error))
    return FALSE;
  if (seen != (DTYPE | SHAPE | OFFSETS))
    return fail (r, "a tensor without dtype, shape or data_offsets", error);

  gint64 n_elements;
  gsize n_bytes;
  if (!ortrain_checked_n_elements (entry->dims, entry->n_dims, &n_elements) ||
      !ortrain_checked_mul ((gsize) n_elements, ortrain_dtype_get_size (entry->dtype), &n_bytes) ||
      entry->begin > entry->end || n_bytes != (gsize) (entry->end - entry->begin))
    return fail (r, "offsets that do not match the shape", error);
  return TRUE;
}

static gboolean
read_metadata (Reader *r, GHashTable *metadata, GError **error)
{
  if (!expect (r, '{', error))
    return FALSE;
  if (accept (r, '}'))
    return TRUE;
  for (guint n = 0;; n++)
    {
      if (n == MAX_ENTRIES)
        return fail (r, "too many entries", error);
      g_autofree char *key = read_string (r, error);
      if (key == NULL || !expect (r, ':', error))
        return FALSE;
      g_autofree char *value = read_string (r, error);
      if (value == NULL)
        return FALSE;
      if (g_hash_table_contains (metadata, key))
        return fail (r, "two entries with the same name", error);
      g_hash_table_insert (metadata, g_steal_pointer (&key), g_steal_pointer (&value));
      if (!accept (r, ','))
        return expect (r, '}', error);
    }
}

static gboolean
read_header (Reader *r, GArray *entries, GHashTable *metadata, GError **error)
{
  if (r->p >= r->end || *r->p != '{')
    return fail (r, "expected '{'", error);
  r->p++;
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  if (!accept (r, '}'))
    {
      do
        {
          if (entries->len == MAX_ENTRIES)
            return fail (r, "too many entries", error);
          Entry entry = { .name = read_string (r, error) };
          if (entry.name == NULL)
            return FALSE;
          gboolean is_new = g_hash_table_add (names, g_strdup (entry.name)), right;
          if (!is_new)
            right = fail (r, "two entries with the same name", error);
          else if (!expect (r, ':', error))
            right = FALSE;
          else if (g_str_equal (entry.name, "__metadata__"))
            {
              right = read_metadata (r, metadata, error);
              g_clear_pointer (&entry.name, g_free);
            }
          else
            right = read_entry (r, &entry, error);
          if (entry.name != NULL)
            g_array_append_val (entries, entry);
          if (!right)
            return FALSE;
        }
      while (accept (r, ','));
      if (!expect (r, '}', error))
        return FALSE;
    }
  skip_space (r);
  return r->p == r->end || fail (r, "data after the end", error);
}

static int
compare_begin (gconstpointer a, gconstpointer b)
{
  const Entry *x = *(const Entry *const *) a, *y = *(const Entry *const *) b;
  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Every byte of the data belongs to exactly one tensor. */
static gboolean
check_coverage (GArray *entries, gsize n_bytes, GError **error)
{
  g_autofree const Entry **sorted = g_new (const Entry *, MAX (entries->len, 1));
  for (guint i = 0; i < entries->len; i++)
    sorted[i] = &g_array_index (entries, Entry, i);
  qsort (sorted, entries->len, sizeof *sorted, compare_begin);
  gint64 end = 0;
  for (guint i = 0; i < entries->len; i++)
    {
      if (sorted[i]->begin != end)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                       "tensor '%s' begins at byte %" G_GINT64_FORMAT " of the data, not at %" G_GINT64_FORMAT,
                       ortrain_text_show (sorted[i]->name), sorted[i]->begin, end);
          return FALSE;
        }
      end = sorted[i]->end;
    }
  if ((gsize) end != n_bytes)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "the tensors need %" G_GINT64_FORMAT " bytes, but the file has %" G_GSIZE_FORMAT, end, n_bytes);
      return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_safetensors_parse (GBytes *bytes, OrtrainTensorDict *into, GHashTable **metadata, GError **error)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  guint64 header_size;
  if (size < 8)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "a safetensors file has at least 8 bytes, this one has %" G_GSIZE_FORMAT, size);
      return FALSE;
    }
  memcpy (&header_size, data, sizeof header_size);
  header_size = GUINT64_FROM_LE (header_size);
  if (header_size > MAX_HEADER || header_size > size - 8)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                   "the safetensors header says it has %" G_GUINT64_FORMAT " bytes; the file has %" G_GSIZE_FORMAT
                   ", the limit is %" G_GUINT64_FORMAT,
                   header_size, size, MAX_HEADER);
      return FALSE;
    }
  const char *header = (const char *) data + 8;
  Reader r = { header, header, header + header_size };
  const char *valid_end;
  if (!g_utf8_validate_len (header, header_size, &valid_end))
    {
      r.p = valid_end;
      return fail (&r, "not UTF-8", error);
    }

  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_array_set_clear_func (entries, entry_clear);
  g_autoptr (GHashTable) strings = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  gsize begin = 8 + (gsize) header_size;
  if (!read_header (&r, entries, strings, error) || !check_coverage (entries, size - begin, error))
    return FALSE;

  for (guint i = 0; i < entries->len; i++)
    {
      const Entry *entry = &g_array_index (entries, Entry, i);
      gsize n_bytes = (gsize) (entry->end - entry->begin);
      g_autoptr (GBytes) slice = g_bytes_new_from_bytes (bytes, begin + (gsize) entry->begin, n_bytes);
      g_autoptr (OrtrainTensor) tensor =
          ortrain_tensor_new_for_bytes (entry->dtype, entry->dims, entry->n_dims, slice, error);
      if (tensor == NULL)
        {
          g_prefix_error (error, "%s: ", ortrain_text_show (entry->name));
          return FALSE;
        }
      ortrain_tensor_dict_set (into, entry->name, tensor);
    }
  if (metadata != NULL)
    *metadata = g_steal_pointer (&strings);
  return TRUE;
}

static void
append_string (GString *to, const char *s)
{
  g_string_append_c (to, '"');
  for (; *s != '\0'; s++)
    {
      if (*s == '"' || *s == '\\')
        g_string_append_c (to, '\\');
      if ((guchar) *s < 0x20)
        g_string_append_printf (to, "\\u%04x", (guint) *s);
      else
        g_string_append_c (to, *s);
    }
  g_string_append_c (to, '"');
}

static int
compare_strings (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

static void
append_metadata (GString *to, GHashTable *metadata)
{
  guint n;
  g_autofree const char **keys = (const char **) g_hash_table_get_keys_as_array (metadata, &n);
  qsort (keys, n, sizeof *keys, compare_strings); /* equal contents make equal files */
  g_string_append (to, "\"__metadata__\":{");
  for (guint i = 0; i < n; i++)
    {
      if (i > 0)
        g_string_append_c (to, ',');
      append_string (to, keys[i]);
      g_string_append_c (to, ':');
      append_string (to, g_hash_table_lookup (metadata, keys[i]));
    }
  g_string_append_c (to, '}');
}

gboolean
ortrain_safetensors_write (OrtrainTensorDict *tensors, GHashTable *metadata, OrtrainFileWriter *writer, GError **error)
{
  /* There are no gaps between tensors, so those with wide elements come first: then all are aligned. */
  static const gsize widths[] = { 8, 4, 2, 1 };
  guint n = ortrain_tensor_dict_get_size (tensors), n_sorted = 0;
  g_autofree guint *order = g_new (guint, MAX (n, 1));
  for (guint w = 0; w < G_N_ELEMENTS (widths); w++)
    for (guint i = 0; i < n; i++)
      if (ortrain_dtype_get_size (ortrain_tensor_get_dtype (ortrain_tensor_dict_get_tensor (tensors, i))) == widths[w])
        order[n_sorted++] = i;

  g_autofree gsize *begins = g_new0 (gsize, MAX (n, 1));
  gsize offset = 0;
  for (guint i = 0; i < n_sorted; i++)
    {
      begins[order[i]] = offset;
      offset += ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (tensors, order[i]));
    }

  g_autoptr (GString) header = g_string_new ("{");
  if (metadata != NULL && g_hash_table_size (metadata) > 0)
    append_metadata (header, metadata);
  for (guint i = 0; i < n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (tensors, i);
      const char *name = ortrain_tensor_dict_get_name (tensors, i);
      const char *dtype = ortrain_dtype_get_safetensors_name (ortrain_tensor_get_dtype (tensor));
      if (!g_utf8_validate (name, -1, NULL) || g_str_equal (name, "__metadata__"))
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID,
                       "Tensor %u has a name that a safetensors file cannot hold", i);
          return FALSE;
        }
      if (dtype == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE,
                       "Tensor '%s': safetensors files have no elements of type %s", ortrain_text_show (name),
                       ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)));
          return FALSE;
        }
      if (!ortrain_tensor_check_released (tensor, error))
        {
          g_prefix_error (error, "%s: ", ortrain_text_show (name));
          return FALSE;
        }
      if (header->len > 1)
        g_string_append_c (header, ',');
      append_string (header, name);
      g_string_append_printf (header, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
      gsize n_dims;
      const gint64 *dims = ortrain_tensor_get_dims (tensor, &n_dims);
      for (gsize k = 0; k < n_dims; k++)
        g_string_append_printf (header, k == 0 ? "%" G_GINT64_FORMAT : ",%" G_GINT64_FORMAT, dims[k]);
      g_string_append_printf (header, "],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]}", begins[i],
                              begins[i] + ortrain_tensor_get_n_bytes (tensor));
    }
  g_string_append_c (header, '}');
  while ((header->len + 8) % 64 != 0)
    g_string_append_c (header, ' ');
  if (header->len > MAX_HEADER || n > MAX_ENTRIES)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE,
                   "%u tensors with a header of %" G_GSIZE_FORMAT
                   " bytes are too many for one safetensors file; write several files",
                   n, header->len);
      return FALSE;
    }

  guint64 length = GUINT64_TO_LE ((guint64) header->len);
  if (!ortrain_file_writer_write (writer, &length, sizeof length, error) ||
      !ortrain_file_writer_write (writer, header->str, header->len, error))
    return FALSE;
  for (guint i = 0; i < n_sorted; i++)
    {
      /* those on a device are copied one at a time */
      g_autoptr (OrtrainTensor) host =
          ortrain_tensor_to_host (ortrain_tensor_dict_get_tensor (tensors, order[i]), error);
      if (host == NULL ||
          !ortrain_file_writer_write (writer, ortrain_tensor_peek (host), ortrain_tensor_get_n_bytes (host), error) ||
          !ortrain_tensor_check_file (host, error))
        return FALSE;
    }
  return TRUE;
}

/**
 * ortrain_tensor_dict_new_from_safetensors:
 * @path: (type filename): a safetensors file
 * @error: return location for an error
 *
 * Reads a safetensors file. The tensors are mapped, not copied, and not writable. Everything that the format demands is
 * checked before anything is used: sizes, offsets without gaps and overlaps, limits on the header.
 *
 * Returns: (transfer full): the tensors in the order of the header; %NULL with an [error@TensorError] or an error of
 *   [error@GLib.FileError]
 */
OrtrainTensorDict *
ortrain_tensor_dict_new_from_safetensors (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, error);
  if (bytes == NULL)
    return NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  if (!ortrain_safetensors_parse (bytes, dict, NULL, error) || !ortrain_mapped_file_check_bytes (bytes, error))
    {
      g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
      return NULL;
    }
  return g_steal_pointer (&dict);
}

/**
 * ortrain_tensor_dict_save_safetensors:
 * @self: a set of tensors
 * @path: (type filename): the file to write
 * @error: return location for an error
 *
 * Writes a safetensors file. An existing file is replaced only when the new one is complete on disk.
 *
 * Returns: %FALSE with an [error@TensorError] or a [error@Gio.IOErrorEnum]
 */
gboolean
ortrain_tensor_dict_save_safetensors (OrtrainTensorDict *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, error);
  return writer != NULL && ortrain_safetensors_write (self, NULL, writer, error) &&
         ortrain_file_writer_commit (writer, error);
}
