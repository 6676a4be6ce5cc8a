/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-maker.h"
#include "tensor/ortrain-tensor-private.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Weights of more than 2 GiB and 4 GiB, read and written. The large data consist of holes: the linker puts a function
 * in the place of write() that leaves a hole where a megabyte or more is written at once. */

#define DIMS(...) ((const gint64[]){ __VA_ARGS__, -1 })
#define BIG (((gint64) 5 << 30) / 4) /* floats in 5 GiB */

static char *scratch;
static const float four[] = { 1, 2, 3, 4 };

ssize_t __real_write (int fd, const void *data, size_t n);
ssize_t __wrap_write (int fd, const void *data, size_t n);
ssize_t
__wrap_write (int fd, const void *data, size_t n)
{
  if (n < 1 << 20)
    return __real_write (fd, data, n);
  off_t end = lseek (fd, (off_t) n, SEEK_CUR);
  g_assert_cmpint (ftruncate (fd, end), ==, 0);
  return (ssize_t) n;
}

static void
write_at (const char *path, gint64 size, gint64 offset)
{
  int fd = g_open (path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  g_assert_cmpint (ftruncate (fd, size), ==, 0);
  g_assert_cmpint (pwrite (fd, four, 16, offset), ==, 16);
  close (fd);
}

static OrtrainTensor *
contents (OrtrainModel *model, const char *name)
{
  return ortrain_graph_find_value (ortrain_model_get_file_graph (model), name)->tensor;
}

static void
assert_four (const void *data)
{
  g_assert_cmpmem (data, 16, four, 16);
}

/* a: 5 GiB with four numbers at their end; b: four numbers after it, at an offset that needs 33 bits */
static OrtrainModel *
load_big (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *data = g_build_filename (scratch, "big.bin", NULL),
                  *offset = g_strdup_printf ("%" G_GINT64_FORMAT, BIG * 4 - 16);
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,b", "y"));
  proto_message (graph, 5, proto_external_tensor ("a", DIMS (BIG), "big.bin", "0", "5368709120"));
  proto_message (graph, 5, proto_external_tensor ("b", DIMS (4), "big.bin", offset, "16"));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (4)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (4)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  write_at (data, BIG * 4, BIG * 4 - 16);
  OrtrainModel *model = ortrain_model_new_from_bytes (bytes, scratch, &error);
  g_assert_no_error (error);
  return model;
}

static void
test_read (void)
{
  g_autoptr (OrtrainModel) model = load_big ();
  OrtrainTensor *a = contents (model, "a"), *b = contents (model, "b");
  g_assert_cmpuint (ortrain_tensor_get_n_bytes (a), ==, (gsize) BIG * 4);
  assert_four (ortrain_tensor_peek (b));
  assert_four ((const guint8 *) ortrain_tensor_peek (a) + BIG * 4 - 16);
  g_assert_cmpuint (ortrain_model_get_n_bytes (model), >, (guint64) BIG * 4);
  /* no copy of either: both lie in one mapping of the file */
  g_assert_true ((const guint8 *) ortrain_tensor_peek (b) == (const guint8 *) ortrain_tensor_peek (a) + BIG * 4 - 16);

  /* a byte after the end, and sums that leave 63 bits, are told with all their digits */
  const struct
  {
    const char *offset, *length, *part;
  } cases[] = { { "5368709105", "16", "5368709105 to 5368709121" },
                { "9223372036854775807", "16", "which has 5368709120" },
                { "5368709104", "17", "17 bytes" } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      Proto *graph = proto_new ();
      proto_message (graph, 5, proto_external_tensor ("b", DIMS (4), "big.bin", cases[i].offset, cases[i].length));
      g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
      g_assert_null (ortrain_model_new_from_bytes (bytes, scratch, &error));
      g_assert_nonnull (strstr (error->message, cases[i].part));
    }
}

static void
test_write (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = load_big ();
  g_autofree char *path = g_build_filename (scratch, "out.onnx", NULL),
                  *data = g_build_filename (scratch, "out.onnx.data", NULL);
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  OrtrainTensor *fresh = ortrain_tensor_copy (contents (model, "b"), &error);
  ((float *) ortrain_tensor_peek_writable (fresh))[0] = 9;
  g_hash_table_insert (tensors, g_strdup ("b"), fresh);
  g_assert_true (ortrain_model_export (model, path, tensors, &error));
  g_assert_no_error (error);
  g_clear_object (&model);
  struct stat st;
  g_assert_cmpint (stat (data, &st), ==, 0);
  g_assert_cmpint (st.st_size, ==, BIG * 4 + 16);
  g_assert_cmpint (st.st_blocks, <, 64 * 1024 * 2); /* holes: not 64 MiB of the disk */
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "b"), 0), ==, 9);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "b"), 3), ==, 4);
  g_assert_cmpuint (ortrain_tensor_get_n_bytes (contents (again, "a")), ==, (gsize) BIG * 4);
}

/* A file of 1.2 GiB with its weights inside, two parameters merged in one initializer. Trained apart they do not fit
 * into one file of 2 GiB: they get a file of their own. */
static void
test_outgrown (void)
{
  const gint64 n = 300ll << 20;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (scratch, "inside.onnx", NULL),
                  *out = g_build_filename (scratch, "apart.onnx", NULL),
                  *data = g_build_filename (scratch, "apart.onnx.data", NULL);
  Proto *rest = proto_new (), *head = proto_tensor ("a.w", 1, DIMS (n), NULL, 0), *graph = proto_new (),
        *file = proto_new (), *import = proto_new ();
  proto_message (rest, 1, proto_node ("Identity", "a.w", "b.w"));
  proto_message (rest, 1, proto_node ("Add", "a.w,b.w", "y"));
  proto_message (rest, 12, proto_value ("y", 1, DIMS (n)));
  proto_varint (head, 9 << 3 | 2);
  proto_varint (head, (guint64) n * 4);
  g_byte_array_append (graph, rest->data, rest->len);
  proto_varint (graph, 5 << 3 | 2);
  proto_varint (graph, head->len + (guint64) n * 4);
  g_byte_array_append (graph, head->data, head->len);
  proto_int (file, 1, 8);
  proto_int (import, 2, 17);
  proto_message (file, 8, import);
  proto_varint (file, 7 << 3 | 2);
  proto_varint (file, graph->len + (guint64) n * 4);
  g_byte_array_append (file, graph->data, graph->len);
  int fd = g_open (path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  g_assert_cmpint (__real_write (fd, file->data, file->len), ==, (gssize) file->len);
  g_assert_cmpint (ftruncate (fd, (gint64) file->len + n * 4), ==, 0);
  close (fd);
  g_byte_array_unref (rest);
  g_byte_array_unref (head);
  g_byte_array_unref (graph);
  g_byte_array_unref (file);

  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (GHashTable) tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  OrtrainTensor *other = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &n, 1, &error);
  ((float *) ortrain_tensor_peek_writable (other))[0] = 1; /* they differ */
  g_hash_table_insert (tensors, g_strdup ("b.w"), other);
  g_assert_true (ortrain_model_export (model, out, tensors, &error));
  g_assert_no_error (error);
  struct stat st;
  g_assert_cmpint (stat (out, &st), ==, 0);
  g_assert_cmpint (st.st_size, <, 1000);
  g_assert_cmpint (stat (data, &st), ==, 0);
  g_assert_cmpint (st.st_size, >=, 2 * n * 4);
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_tensor_get_n_elements (contents (again, "a.w")), ==, n);
  g_assert_cmpint (ortrain_tensor_get_n_elements (contents (again, "b.w")), ==, n);
  g_assert_true (ortrain_tensor_peek (contents (again, "a.w")) != ortrain_tensor_peek (contents (again, "b.w")));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  scratch = g_dir_make_tmp ("ortrain-large-XXXXXX", NULL);
  g_test_add_func ("/model/large-data/read", test_read);
  g_test_add_func ("/model/large-data/write", test_write);
  g_test_add_func ("/model/large-data/outgrown", test_outgrown);
  int status = g_test_run ();
  test_remove_folder (scratch);
  return status;
}
