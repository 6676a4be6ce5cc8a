/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-mapped-file-private.h"
#include "ortrain.h"
#include "tensor/ortrain-tensor-files-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The files in tests/data/tensor come from NumPy and from the reference library of safetensors; see make.py there. */

static char *folder; /* for written files */

static char *
data_path (const char *name)
{
  return g_test_build_filename (G_TEST_DIST, "data", "tensor", name, NULL);
}

static char *
out_path (const char *name)
{
  return g_build_filename (folder, name, NULL);
}

/* element i is i / 2 - 3 */
static void
check_ramp (OrtrainTensor *tensor, OrtrainDType dtype, const char *shape)
{
  g_assert_nonnull (tensor);
  g_autofree char *found =
      ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
  g_assert_cmpstr (found, ==, shape);
  g_assert_cmpint (ortrain_tensor_get_dtype (tensor), ==, dtype);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    {
      double expected = (double) i / 2 - 3;
      if (dtype == ORTRAIN_DTYPE_BOOL)
        expected = expected != 0;
      else if (!ortrain_dtype_is_floating (dtype))
        expected = trunc (expected);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (tensor, i), ==, expected);
    }
}

static void
check_arrays (OrtrainTensorDict *dict)
{
  check_ramp (ortrain_tensor_dict_get (dict, "float32"), ORTRAIN_DTYPE_FLOAT32, "[3, 4]");
  check_ramp (ortrain_tensor_dict_get (dict, "scalar"), ORTRAIN_DTYPE_INT64, "[]");
  check_ramp (ortrain_tensor_dict_get (dict, "fortran"), ORTRAIN_DTYPE_FLOAT64, "[2, 3, 4]");
  check_ramp (ortrain_tensor_dict_get (dict, "big-endian"), ORTRAIN_DTYPE_INT16, "[5]");
  check_ramp (ortrain_tensor_dict_get (dict, "bool"), ORTRAIN_DTYPE_BOOL, "[2, 2]");
  check_ramp (ortrain_tensor_dict_get (dict, "half"), ORTRAIN_DTYPE_FLOAT16, "[7]");
  check_ramp (ortrain_tensor_dict_get (dict, "empty"), ORTRAIN_DTYPE_FLOAT32, "[0, 3]");
  check_ramp (ortrain_tensor_dict_get (dict, "größe/x"), ORTRAIN_DTYPE_INT32, "[4, 2]");
}

static void
test_npz_read (gconstpointer name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = data_path (name);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_npz (path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (dict), ==, 8);
  g_assert_cmpstr (ortrain_tensor_dict_get_name (dict, 0), ==, "float32");
  check_arrays (dict);
}

static void
test_npz_write (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *from = data_path ("stored.npz"), *to = out_path ("written.npz");
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_npz (from, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_dict_save_npz (dict, to, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) again = ortrain_tensor_dict_new_from_npz (to, &error);
  g_assert_no_error (error);
  check_arrays (again);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (again), ==, 8);
  /* mapped, at a multiple of 64 */
  g_assert_cmpuint (ortrain_tensor_get_address (ortrain_tensor_dict_get (again, "float32")) % 64, ==, 0);
  g_assert_false (ortrain_tensor_get_writable (ortrain_tensor_dict_get (again, "float32")));
}

static void
test_npy (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = data_path ("version2.npy"), *to = out_path ("written.npy");
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (path, &error);
  g_assert_no_error (error);
  check_ramp (tensor, ORTRAIN_DTYPE_FLOAT32, "[3, 4]");
  g_assert_true (ortrain_tensor_save_npy (tensor, to, &error));
  g_autoptr (OrtrainTensor) again = ortrain_tensor_new_from_npy (to, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (tensor, again));

  g_autofree char *complex_path = data_path ("fortran-big-endian.npy");
  g_autoptr (OrtrainTensor) complex = ortrain_tensor_new_from_npy (complex_path, &error);
  g_assert_no_error (error);
  const float *c = ortrain_tensor_peek (complex);
  for (guint i = 0; i < 24; i++)
    {
      g_assert_cmpfloat (c[2 * i], ==, (float) i / 2 - 3);
      g_assert_cmpfloat (c[2 * i + 1], ==, 0);
    }

  g_autofree char *structured = data_path ("structured.npy");
  g_assert_null (ortrain_tensor_new_from_npy (structured, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID);
  g_clear_error (&error);

  g_assert_null (ortrain_tensor_new_from_npy ("/nowhere/at-all.npy", &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
}

static void
test_safetensors (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = data_path ("reference.safetensors"), *to = out_path ("written.safetensors");
  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  g_autoptr (GHashTable) metadata = NULL;
  g_assert_true (ortrain_safetensors_parse (bytes, dict, &metadata, &error));
  g_assert_no_error (error);
  check_arrays (dict);
  check_ramp (ortrain_tensor_dict_get (dict, "bfloat16"), ORTRAIN_DTYPE_BFLOAT16, "[9]");
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (dict, "quote\"\\\n"), 1), ==, 7);
  g_assert_cmpstr (g_hash_table_lookup (metadata, "title"), ==, "tab\tand \"quotes\"");

  g_assert_true (ortrain_tensor_dict_save_safetensors (dict, to, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) again = ortrain_tensor_dict_new_from_safetensors (to, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (again), ==, ortrain_tensor_dict_get_size (dict));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (dict), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (dict); i++)
    {
      g_assert_cmpstr (ortrain_tensor_dict_get_name (again, i), ==, ortrain_tensor_dict_get_name (dict, i));
      g_assert_true (
          ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (again, i), ortrain_tensor_dict_get_tensor (dict, i)));
    }
}

static GBytes *
make_safetensors (const char *header, gsize n_data)
{
  gsize n = strlen (header);
  guint8 *p = g_malloc0 (8 + n + n_data);
  guint64 length = GUINT64_TO_LE (n);
  memcpy (p, &length, 8);
  memcpy (p + 8, header, n);
  return g_bytes_new_take (p, 8 + n + n_data);
}

static void
test_safetensors_hostile (void)
{
  static const struct
  {
    const char *header;
    gsize n_data;
    gboolean right;
  } cases[] = {
    { "{}", 0, TRUE },
    { "{}  ", 0, TRUE },
    { " {}", 0, FALSE },
    { "{}", 1, FALSE },
    { "{} x", 0, FALSE },
    { "[]", 0, FALSE },
    { "", 0, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, TRUE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, TRUE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0, FALSE },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, FALSE },
    /* a gap, an overlap, a name twice */
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
      "\"data_offsets\":[3,5]}}",
      5, FALSE },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
      "\"data_offsets\":[1,3]}}",
      3, FALSE },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
      "\"data_offsets\":[0,2]}}",
      4, TRUE },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
      "\"data_offsets\":[1,2]}}",
      2, FALSE },
    { "{\"__metadata__\":{\"a\":\"b\"}}", 0, TRUE },
    { "{\"__metadata__\":{\"a\":1}}", 0, FALSE },
    { "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, FALSE },
    { "{\"\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, FALSE },
    { "{\"\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TRUE },
    { "{\"\\ud83d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, FALSE },
    { "{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, FALSE },
    { "{\"a", 0, FALSE },
    { "{\"a\\", 0, FALSE },
    { "{\"a\":", 0, FALSE },
    { "{\"a\":{", 0, FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = make_safetensors (cases[i].header, cases[i].n_data);
      g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
      gboolean right = ortrain_safetensors_parse (bytes, dict, NULL, &error);
      if (right != cases[i].right)
        g_error ("%s, %zu bytes: %s", cases[i].header, cases[i].n_data, error != NULL ? error->message : "was read");
      g_assert_true (right == (error == NULL));
      g_assert_true (right || ortrain_tensor_dict_get_size (dict) == 0);
    }

  /* nested a million deep: no recursion */
  GString *deep = g_string_new ("{\"a\":");
  for (guint i = 0; i < 1000000; i++)
    g_string_append_c (deep, '[');
  g_autofree char *header = g_string_free (deep, FALSE);
  g_autoptr (GBytes) bytes = make_safetensors (header, 0);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  g_assert_false (ortrain_safetensors_parse (bytes, dict, NULL, NULL));

  /* more entries than anybody needs */
  GString *many = g_string_new ("{");
  for (guint i = 0; i < 100001; i++)
    g_string_append_printf (many, "%s\"%u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i > 0 ? "," : "",
                            i);
  g_string_append_c (many, '}');
  g_autofree char *many_header = g_string_free (many, FALSE);
  g_autoptr (GBytes) many_bytes = make_safetensors (many_header, 0);
  g_assert_false (ortrain_safetensors_parse (many_bytes, dict, NULL, NULL));
}

/* Every file, cut at many lengths and with many bytes changed: an error or a tensor, never a crash. */
static void
mangle (const char *name, void (*parse) (const char *path))
{
  g_autofree char *from = data_path (name), *to = out_path ("mangled");
  g_autofree char *contents = NULL;
  gsize n;
  g_assert_true (g_file_get_contents (from, &contents, &n, NULL));
  for (gsize i = 0; i < n; i += 1 + n / 700)
    {
      g_assert_true (g_file_set_contents_full (to, contents, (gssize) i, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
      parse (to);
      for (guint k = 0; k < 3; k++)
        {
          char was = contents[i];
          contents[i] = (char[]){ (char) (was ^ 0x80), (char) 0xff, (char) (was + 1) }[k];
          g_assert_true (g_file_set_contents_full (to, contents, (gssize) n, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
          parse (to);
          contents[i] = was;
        }
    }
}

static void
parse_npz (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_npz (path, &error);
  g_assert_true ((dict != NULL) == (error == NULL));
}

static void
parse_npy (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (path, &error);
  g_assert_true ((tensor != NULL) == (error == NULL));
}

static void
parse_safetensors (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new_from_safetensors (path, &error);
  g_assert_true ((dict != NULL) == (error == NULL));
}

static void
test_mangled (void)
{
  mangle ("stored.npz", parse_npz);
  mangle ("deflated.npz", parse_npz);
  mangle ("version2.npy", parse_npy);
  mangle ("fortran-big-endian.npy", parse_npy);
  mangle ("reference.safetensors", parse_safetensors);
}

static void
test_npy_hostile (void)
{
  static const struct
  {
    const char *header;
    gsize n_data;
    gboolean right;
  } cases[] = {
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, TRUE },
    { "{'shape':(2,),'descr':'<f4','fortran_order':False}\n", 8, TRUE },
    { "{\"descr\": \"<f4\", 'fortran_order': True, 'shape': (2L, 1)}", 8, TRUE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, FALSE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, FALSE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 0, FALSE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0, FALSE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", 4, FALSE },
    { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8, FALSE },
    { "{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", 20, FALSE },
    { "{'descr': '', 'fortran_order': False, 'shape': (1,), }", 0, FALSE },
    { "{'descr': '\xff\xfe', 'fortran_order': False, 'shape': (1,), }", 8, FALSE }, /* told all the same, in UTF-8 */
    { "{'descr': '<f4', 'shape': (2,), }", 8, FALSE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8, FALSE },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8, FALSE },
    { "{'descr': '<f4", 8, FALSE },
    { "{", 8, FALSE },
    { "", 8, FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      gsize n = strlen (cases[i].header);
      guint8 *p = g_malloc0 (10 + n + cases[i].n_data);
      memcpy (p, "\x93NUMPY\x01", 7);
      p[8] = (guint8) n;
      memcpy (p + 10, cases[i].header, n);
      g_autoptr (GBytes) bytes = g_bytes_new_take (p, 10 + n + cases[i].n_data);
      g_autoptr (OrtrainTensor) tensor = ortrain_npy_parse (bytes, &error);
      if ((tensor != NULL) != cases[i].right)
        g_error ("%s: %s", cases[i].header, error != NULL ? error->message : "was read");
      g_assert_true (error == NULL || g_utf8_validate (error->message, -1, NULL));
    }
}

static void
write_idx (const char *path, const guint8 *data, gsize n, gboolean pack)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileOutputStream) raw = g_file_replace (file, NULL, FALSE, G_FILE_CREATE_NONE, NULL, NULL);
  g_autoptr (GConverter) packer = G_CONVERTER (g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 9));
  g_autoptr (GOutputStream) stream =
      pack ? g_converter_output_stream_new (G_OUTPUT_STREAM (raw), packer) : g_object_ref (G_OUTPUT_STREAM (raw));
  g_assert_true (g_output_stream_write_all (stream, data, n, NULL, NULL, NULL));
  g_assert_true (g_output_stream_close (stream, NULL, NULL));
}

static void
test_idx (void)
{
  static const guint8 shorts[] = { 0, 0, 0x0b, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0x01, 0x02, 0xff, 0xfe };
  static const guint8 bytes[] = { 0, 0, 0x08, 1, 0, 0, 0, 3, 9, 8, 7 };
  g_autofree char *path = out_path ("test.idx");
  for (int pack = 0; pack < 2; pack++)
    {
      g_autoptr (GError) error = NULL;
      write_idx (path, shorts, sizeof shorts, pack);
      g_autoptr (OrtrainTensor) a = ortrain_tensor_new_from_idx (path, &error);
      g_assert_no_error (error);
      g_autofree char *text = ortrain_tensor_to_string (a);
      g_assert_cmpstr (text, ==, "int16[2, 1] 258 -2");
      g_clear_object (&a);

      write_idx (path, bytes, sizeof bytes, pack);
      g_autoptr (OrtrainTensor) b = ortrain_tensor_new_from_idx (path, &error);
      g_assert_no_error (error);
      g_autofree char *text_b = ortrain_tensor_to_string (b);
      g_assert_cmpstr (text_b, ==, "uint8[3] 9 8 7");
      g_clear_object (&b);

      /* cut off, too long, and huge claims */
      guint8 wrong[sizeof bytes + 1] = { 0 };
      memcpy (wrong, bytes, sizeof bytes);
      write_idx (path, wrong, sizeof bytes - 1, pack);
      g_assert_null (ortrain_tensor_new_from_idx (path, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID);
      g_clear_error (&error);
      write_idx (path, wrong, sizeof bytes + 1, pack);
      g_assert_null (ortrain_tensor_new_from_idx (path, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID);
      g_clear_error (&error);
      memset (wrong + 4, 0x7f, 4);
      write_idx (path, wrong, sizeof bytes, pack);
      g_assert_null (ortrain_tensor_new_from_idx (path, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID);
    }
}

static void
test_fashion_mnist (void)
{
  g_autoptr (GError) error = NULL;
  const char *path = "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz";
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_test_skip ("the package dataset-fashion-mnist is not installed");
      return;
    }
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new_from_idx (path, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_tensor_get_dim (labels, 0), ==, 10000);
  guint counts[10] = { 0 };
  const guint8 *p = ortrain_tensor_peek (labels);
  for (guint i = 0; i < 10000; i++)
    counts[p[i]]++;
  for (guint i = 0; i < 10; i++) /* the test set is balanced */
    g_assert_cmpuint (counts[i], ==, 1000);
}

static void
test_mapped (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = out_path ("raw");
  float values[] = { 1, 2, 3, 4 };
  g_assert_true (g_file_set_contents (path, (const char *) values, sizeof values, NULL));
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (OrtrainTensor) tensor =
      ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ 2 }, 1, file, 8, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (tensor, 1), ==, 4);
  g_assert_null (ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ 2 }, 1, file, 9, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
  g_clear_error (&error);
  /* misaligned: a copy */
  g_autoptr (OrtrainTensor) copy =
      ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ 1 }, 1, file, 5, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_get_address (copy) % 4, ==, 0);
  g_assert_false (ortrain_tensor_get_writable (copy));
}

static void
expect_changed (gboolean failed, GError **error)
{
  g_assert_true (failed);
  g_assert_error (*error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_CHANGED);
  g_clear_error (error);
}

/* Nobody gets zeros from a file that is cut while it is mapped: neither from the mapping, nor from an aligned copy that
 * is taken when it is first read. offset: of the elements */
static void
test_cut (gconstpointer data)
{
  enum
  {
    N = 4096
  };
  const gsize offset = GPOINTER_TO_SIZE (data);
  const gint64 dims[] = { N };
  g_autoptr (GError) error = NULL;
  g_autofree char *path = out_path ("cut"), *other = out_path ("cut.npy");
  g_autofree guint8 *bytes = g_malloc (offset + N * sizeof (float));
  memset (bytes, 0x3f, offset + N * sizeof (float));
  g_assert_true (g_file_set_contents (path, (const char *) bytes, (gssize) (offset + N * sizeof (float)), NULL));
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, dims, 1, file, offset, &error);
  g_autoptr (OrtrainTensor) snapshot = ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, dims, 1, file, offset, &error);
  g_autoptr (OrtrainTensor) same =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 1, bytes + offset, N * sizeof (float), &error);
  g_assert_no_error (error);
  g_assert_cmpint (truncate (path, 3), ==, 0);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (dict, "cut", tensor);
  expect_changed (!ortrain_tensor_save_npy (tensor, other, &error), &error);
  expect_changed (!ortrain_tensor_dict_save_npz (dict, other, &error), &error);
  expect_changed (!ortrain_tensor_dict_save_safetensors (dict, other, &error), &error);
  g_assert_false (g_file_test (other, G_FILE_TEST_EXISTS));
  expect_changed (ortrain_tensor_get_bytes (tensor, &error) == NULL, &error);
  expect_changed (ortrain_tensor_copy (tensor, &error) == NULL, &error);
  expect_changed (ortrain_tensor_to_host (tensor, &error) == NULL, &error);
  expect_changed (ortrain_tensor_cast (tensor, ORTRAIN_DTYPE_FLOAT64, &error) == NULL, &error);
  expect_changed (ortrain_tensor_argmax (tensor, 0, &error) == NULL, &error);
  g_assert_true (isnan (ortrain_tensor_get_scalar (tensor, 1)));
  g_assert_false (ortrain_tensor_equal (tensor, same));
  g_assert_false (ortrain_tensor_equal (tensor, snapshot));
  g_autofree char *text = ortrain_tensor_to_string (tensor);
  g_assert_cmpstr (text, ==, "float32[4096] (its file was changed)");

  /* a copy that was taken in time is good, and it knows the file that it is from */
  g_assert_true (g_file_set_contents (path, (const char *) bytes, (gssize) (offset + N * sizeof (float)), NULL));
  g_autoptr (OrtrainTensor) fresh = ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, dims, 1, file, offset, &error);
  g_autoptr (OrtrainTensor) kept = ortrain_tensor_snapshot (fresh);
  g_assert_true (ortrain_tensor_equal (kept, same));
  g_clear_object (&fresh);
  g_assert_cmpint (truncate (path, 3), ==, 0);
  expect_changed (ortrain_tensor_get_bytes (kept, &error) == NULL, &error);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_test_add_data_func ("/files/npz/stored", "stored.npz", test_npz_read);
  g_test_add_data_func ("/files/npz/deflated", "deflated.npz", test_npz_read);
  g_test_add_func ("/files/npz/write", test_npz_write);
  g_test_add_func ("/files/npy", test_npy);
  g_test_add_func ("/files/npy/hostile", test_npy_hostile);
  g_test_add_func ("/files/safetensors", test_safetensors);
  g_test_add_func ("/files/safetensors/hostile", test_safetensors_hostile);
  g_test_add_func ("/files/mangled", test_mangled);
  g_test_add_func ("/files/idx", test_idx);
  g_test_add_func ("/files/idx/fashion-mnist", test_fashion_mnist);
  g_test_add_func ("/files/mapped", test_mapped);
  g_test_add_data_func ("/files/cut/aligned", GSIZE_TO_POINTER (16), test_cut);
  g_test_add_data_func ("/files/cut/misaligned", GSIZE_TO_POINTER (1), test_cut);
  int status = g_test_run ();
  g_autofree char *command = g_strdup_printf ("rm -rf '%s'", folder);
  return g_spawn_command_line_sync (command, NULL, NULL, NULL, NULL) ? status : 1;
}
