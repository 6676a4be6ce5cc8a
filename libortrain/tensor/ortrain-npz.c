/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-files-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-omitted-arrays-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>
#include <zlib.h>

/* NumPy's file of several arrays: a zip file of .npy files. Read are stored and deflated entries, with and without
 * zip64; written are stored ones, whose elements begin at multiples of 64 bytes, so that they can be mapped. */

#define LOCAL_MAGIC 0x04034b50u
#define CENTRAL_MAGIC 0x02014b50u
#define END_MAGIC 0x06054b50u
#define END64_MAGIC 0x06064b50u
#define LOCATOR64_MAGIC 0x07064b50u
#define ZIP64_EXTRA 0x0001
#define PADDING_EXTRA 0xd935 /* the id that Android's zipalign uses for the same purpose */
#define MAX_ENTRIES 100000

static guint16
get16 (const guint8 *p)
{
  return (guint16) (p[0] | p[1] << 8);
}

static guint32
get32 (const guint8 *p)
{
  return get16 (p) | (guint32) get16 (p + 2) << 16;
}

static guint64
get64 (const guint8 *p)
{
  return get32 (p) | (guint64) get32 (p + 4) << 32;
}

static gboolean
fail (GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID, "the zip file %s", what);
  return FALSE;
}

/* Where the central directory lies. */
static gboolean
find_directory (const guint8 *data, gsize size, guint64 *offset, guint64 *length, guint64 *n_entries, GError **error)
{
  gsize end = 0;
  gboolean found = FALSE;
  for (gsize back = 22; back <= size && back <= 22 + 65535 && !found; back++)
    if (get32 (data + size - back) == END_MAGIC && get16 (data + size - back + 20) == back - 22)
      {
        end = size - back;
        found = TRUE;
      }
  if (!found)
    return fail (error, "has no end record: it is not a zip file, or truncated");
  *n_entries = get16 (data + end + 10);
  *length = get32 (data + end + 12);
  *offset = get32 (data + end + 16);
  if (*n_entries == G_MAXUINT16 || *length == G_MAXUINT32 || *offset == G_MAXUINT32)
    {
      if (end < 20 || get32 (data + end - 20) != LOCATOR64_MAGIC)
        return fail (error, "has no zip64 record where one is needed");
      guint64 record = get64 (data + end - 20 + 8);
      if (size < 56 || record > size - 56 || get32 (data + record) != END64_MAGIC)
        return fail (error, "has an invalid zip64 record");
      *n_entries = get64 (data + record + 32);
      *length = get64 (data + record + 40);
      *offset = get64 (data + record + 48);
    }
  if (*offset > size || *length > size - *offset)
    return fail (error, "has its directory outside of the file");
  if (*n_entries > MAX_ENTRIES || *n_entries > *length / 46)
    return fail (error, "claims too many entries");
  return TRUE;
}

typedef struct
{
  guint16 flags, method;
  guint32 crc;
  guint64 packed, unpacked, local;
} Entry;

/* The fields that were too large for 32 bits are in an extra field, in this order, only those that were. */
static gboolean
read_zip64 (Entry *entry, const guint8 *extra, gsize size, GError **error)
{
  while (size >= 4)
    {
      guint16 id = get16 (extra), length = get16 (extra + 2);
      if (length > size - 4)
        break;
      if (id == ZIP64_EXTRA)
        {
          const guint8 *p = extra + 4;
          guint64 *fields[] = { &entry->unpacked, &entry->packed, &entry->local };
          for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
            if (*fields[i] == G_MAXUINT32)
              {
                if (p + 8 > extra + 4 + length)
                  return fail (error, "has an invalid zip64 field");
                *fields[i] = get64 (p);
                p += 8;
              }
        }
      extra += 4 + length;
      size -= 4 + (gsize) length;
    }
  return TRUE;
}

static OrtrainTensor *
read_entry (GBytes *bytes, const Entry *entry, GError **error)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  if (entry->flags & 1)
    return fail (error, "is encrypted"), NULL;
  if (size < 30 || entry->local > size - 30 || get32 (data + entry->local) != LOCAL_MAGIC)
    return fail (error, "has an entry without a header"), NULL;
  /* The lengths of name and extra field differ from those in the directory. */
  guint64 begin = entry->local + 30 + get16 (data + entry->local + 26) + get16 (data + entry->local + 28);
  if (begin > size || entry->packed > size - begin)
    return fail (error, "has a truncated entry"), NULL;

  g_autoptr (GBytes) contents = NULL;
  if (entry->method == 0)
    {
      if (entry->packed != entry->unpacked)
        return fail (error, "has a stored entry with two different sizes"), NULL;
      contents = g_bytes_new_from_bytes (bytes, begin, entry->packed);
    }
  else if (entry->method == 8)
    {
      if (!ortrain_inflater_is_plausible (entry->packed, entry->unpacked))
        return fail (error, "has an entry whose size is larger than compression allows"), NULL;
      guint8 *unpacked = g_try_malloc (MAX (entry->unpacked, 1));
      if (unpacked == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                       "Cannot allocate %" G_GUINT64_FORMAT " bytes of memory", entry->unpacked);
          return NULL;
        }
      contents = g_bytes_new_take (unpacked, entry->unpacked);
      g_auto (OrtrainInflater) inflater;
      ortrain_inflater_init (&inflater, data + begin, entry->packed, TRUE);
      if (!ortrain_inflater_read (&inflater, unpacked, entry->unpacked, error) ||
          !ortrain_inflater_finish (&inflater, error))
        return NULL;
    }
  else
    return fail (error, "has an entry with an unsupported compression method"), NULL;

  if (crc32_z (0, g_bytes_get_data (contents, NULL), g_bytes_get_size (contents)) != entry->crc)
    return fail (error, "has an entry with a wrong checksum"), NULL;
  return ortrain_npy_parse (contents, error);
}

/* Entries that programs other than NumPy add to an archive: folders, the extra file that macOS writes for each file,
 * and texts. An entry without a suffix is an array. */
static gboolean
is_foreign (const char *name)
{
  const char *slash = strrchr (name, '/');
  const char *base = slash != NULL ? slash + 1 : name, *dot = strrchr (base, '.');
  static const char *const endings[] = { ".txt", ".md",  ".json", ".csv", ".xml",  ".yaml", ".yml", ".pdf",
                                         ".png", ".jpg", ".html", ".py",  ".toml", ".ini",  NULL };
  return *base == '\0' || *base == '.' || g_str_has_prefix (name, "__MACOSX/") ||
         (dot != NULL && g_strv_contains (endings, dot));
}

/* An array of objects or texts is often a description of the others: it is left out. */
static gboolean
parse (GBytes *bytes, OrtrainTensorDict *into, GError **error)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  guint64 offset = 0, length = 0, n_entries = 0, left = size;
  if (!find_directory (data, size, &offset, &length, &n_entries, error))
    return FALSE;
  const guint8 *p = data + offset, *end = p + length;
  g_autoptr (GError) first_error = NULL;
  for (guint64 i = 0; i < n_entries; i++)
    {
      if (end - p < 46 || get32 (p) != CENTRAL_MAGIC)
        return fail (error, "has a truncated directory");
      guint16 name_length = get16 (p + 28), extra_length = get16 (p + 30), comment_length = get16 (p + 32);
      Entry entry = { .flags = get16 (p + 8),
                      .method = get16 (p + 10),
                      .crc = get32 (p + 16),
                      .packed = get32 (p + 20),
                      .unpacked = get32 (p + 24),
                      .local = get32 (p + 42) };
      if (end - p < 46 + (gssize) name_length + extra_length + comment_length)
        return fail (error, "has a truncated directory");
      g_autofree char *name = g_strndup ((const char *) p + 46, name_length);
      if (!g_utf8_validate_len (name, name_length, NULL))
        return fail (error, "has an entry whose name is not UTF-8");
      if (!read_zip64 (&entry, p + 46 + name_length, extra_length, error))
        return FALSE;
      /* Entries that share their bytes make a small file unpack to any size. */
      if (entry.packed > left)
        return fail (error, "has entries that overlap");
      left -= entry.packed;
      if (is_foreign (name))
        {
          p += 46 + name_length + extra_length + comment_length;
          continue;
        }
      g_autoptr (GError) local_error = NULL;
      g_autoptr (OrtrainTensor) tensor = read_entry (bytes, &entry, &local_error);
      if (tensor == NULL)
        g_prefix_error (&local_error, "%s: ", ortrain_text_show (name));
      if (tensor == NULL && !g_error_matches (local_error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (g_str_has_suffix (name, ".npy"))
        name[name_length - 4] = '\0';
      if (ortrain_tensor_dict_contains (into, name) || ortrain_omitted_arrays_find (into, name) != NULL)
        return fail (error, "has two entries with the same name");
      if (tensor != NULL)
        ortrain_tensor_dict_set (into, name, tensor);
      else
        ortrain_omitted_arrays_add (into, name, local_error->message);
      if (tensor == NULL && first_error == NULL)
        first_error = g_steal_pointer (&local_error);
      p += 46 + name_length + extra_length + comment_length;
    }
  if (ortrain_tensor_dict_get_size (into) > 0 || first_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&first_error));
  return FALSE;
}

/**
 * ortrain_tensor_dict_new_from_npz:
 * @path: (type filename): a file that NumPy's `savez` or `savez_compressed` wrote
 * @error: return location for an error
 *
 * Reads a `.npz` file. Arrays that are neither compressed nor misaligned are mapped, not copied. Folders, hidden files,
 * files that macOS adds, and files whose names end like those of texts or pictures are left out. So are arrays of types
 * that no tensor has, such as texts, times and Python objects; it is an error if all arrays are.
 *
 * Returns: (transfer full): the arrays in the order of the file; %NULL with an [error@TensorError] or an error of
 *   [error@GLib.FileError]
 */
OrtrainTensorDict *
ortrain_tensor_dict_new_from_npz (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, error);
  if (bytes == NULL)
    return NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  if (!parse (bytes, dict, error) || !ortrain_mapped_file_check_bytes (bytes, error))
    {
      g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
      return NULL;
    }
  return g_steal_pointer (&dict);
}

static void
put (GByteArray *to, guint64 value, guint n_bytes)
{
  for (guint i = 0; i < n_bytes; i++, value >>= 8)
    g_byte_array_append (to, &(guint8){ (guint8) value }, 1);
}

/* The part that the local header and the directory have in common. Sizes are always given in 64 bits. */
static void
put_common (GByteArray *to, gulong crc, gsize name_length, gsize extra_length)
{
  put (to, 45, 2);     /* version needed: zip64 */
  put (to, 0x0800, 2); /* names are UTF-8 */
  put (to, 0, 2);      /* stored */
  put (to, 0, 2);      /* time, and date: 1980-01-01, so that equal contents make equal files */
  put (to, 0x0021, 2);
  put (to, crc, 4);
  put (to, G_MAXUINT32, 4);
  put (to, G_MAXUINT32, 4);
  put (to, name_length, 2);
  put (to, extra_length, 2);
}

static gboolean
write_npz (OrtrainTensorDict *self, OrtrainFileWriter *writer, GError **error)
{
  g_autoptr (GByteArray) directory = g_byte_array_new ();
  guint n = ortrain_tensor_dict_get_size (self);
  for (guint i = 0; i < n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (self, i);
      g_autofree char *name = g_strconcat (ortrain_tensor_dict_get_name (self, i), ".npy", NULL);
      gsize name_length = strlen (name), n_bytes = ortrain_tensor_get_n_bytes (tensor);
      g_autoptr (GBytes) header = NULL;
      g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (tensor, error);
      if (host == NULL || (header = ortrain_npy_make_header (tensor, error)) == NULL)
        {
          g_prefix_error (error, "%s: ", ortrain_text_show (name));
          return FALSE;
        }
      if (name_length > G_MAXUINT16)
        return fail (error, "cannot have an entry with a name of more than 65535 bytes");
      gsize header_size;
      gconstpointer data = ortrain_tensor_peek (host), header_data = g_bytes_get_data (header, &header_size);
      gulong crc = crc32_z (crc32_z (0, header_data, header_size), data, n_bytes);
      guint64 begin = ortrain_file_writer_get_position (writer), total = header_size + n_bytes;

      guint64 elements = begin + 30 + name_length + 20 + 4;
      gsize padding = (gsize) ((64 - elements % 64) % 64);
      g_autoptr (GByteArray) local = g_byte_array_new ();
      put (local, LOCAL_MAGIC, 4);
      put_common (local, crc, name_length, 20 + 4 + padding);
      g_byte_array_append (local, (const guint8 *) name, (guint) name_length);
      put (local, ZIP64_EXTRA, 2);
      put (local, 16, 2);
      put (local, total, 8);
      put (local, total, 8);
      put (local, PADDING_EXTRA, 2);
      put (local, padding, 2);
      if (!ortrain_file_writer_write (writer, local->data, local->len, error) ||
          !ortrain_file_writer_pad (writer, padding, error) ||
          !ortrain_file_writer_write (writer, header_data, header_size, error) ||
          !ortrain_file_writer_write (writer, data, n_bytes, error) || !ortrain_tensor_check_file (host, error))
        return FALSE;

      put (directory, CENTRAL_MAGIC, 4);
      put (directory, 45, 2); /* version made by */
      put_common (directory, crc, name_length, 28);
      put (directory, 0, 2); /* comment */
      put (directory, 0, 2); /* disk */
      put (directory, 0, 2); /* attributes */
      put (directory, 0, 4);
      put (directory, G_MAXUINT32, 4);
      g_byte_array_append (directory, (const guint8 *) name, (guint) name_length);
      put (directory, ZIP64_EXTRA, 2);
      put (directory, 24, 2);
      put (directory, total, 8);
      put (directory, total, 8);
      put (directory, begin, 8);
    }

  guint64 directory_begin = ortrain_file_writer_get_position (writer);
  gsize directory_size = directory->len;
  put (directory, END64_MAGIC, 4);
  put (directory, 44, 8);
  put (directory, 45, 2);
  put (directory, 45, 2);
  put (directory, 0, 4);
  put (directory, 0, 4);
  put (directory, n, 8);
  put (directory, n, 8);
  put (directory, directory_size, 8);
  put (directory, directory_begin, 8);
  put (directory, LOCATOR64_MAGIC, 4);
  put (directory, 0, 4);
  put (directory, directory_begin + directory_size, 8);
  put (directory, 1, 4);
  put (directory, END_MAGIC, 4);
  put (directory, 0, 4);
  put (directory, MIN (n, G_MAXUINT16), 2);
  put (directory, MIN (n, G_MAXUINT16), 2);
  put (directory, MIN (directory_size, G_MAXUINT32), 4);
  put (directory, MIN (directory_begin, G_MAXUINT32), 4);
  put (directory, 0, 2);
  return ortrain_file_writer_write (writer, directory->data, directory->len, error) &&
         ortrain_file_writer_commit (writer, error);
}

/**
 * ortrain_tensor_dict_save_npz:
 * @self: a set of tensors
 * @path: (type filename): the file to write
 * @error: return location for an error
 *
 * Writes a file that NumPy's `load` reads, without compression. An existing file is replaced only when the new one is
 * complete on disk.
 *
 * Returns: %FALSE with an [error@TensorError] or a [error@Gio.IOErrorEnum]
 */
gboolean
ortrain_tensor_dict_save_npz (OrtrainTensorDict *self, const char *path, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), FALSE);
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  g_autoptr (OrtrainFileWriter) writer = ortrain_file_writer_new (path, error);
  return writer != NULL && write_npz (self, writer, error);
}
