/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "model-fixture.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Weights in separate files in the folder of the model. */

static char *scratch; /* a directory of our own */

static GBytes *
external_model (const char *location, const char *offset, const char *length)
{
  return proto_model (small_graph (proto_external_tensor ("w", DIMS (4), location, offset, length)), 8, 17);
}

static void
test_external (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *outside = g_build_filename (scratch, "secret", NULL),
                  *base = g_build_filename (scratch, "base", NULL);
  g_autofree char *inner = g_build_filename (base, "sub", NULL), *file = g_build_filename (inner, "w.bin", NULL);
  g_autofree char *link_path = g_build_filename (base, "link", NULL),
                  *directory_link = g_build_filename (base, "dirlink", NULL);
  g_autofree char *hard = g_build_filename (base, "hard", NULL), *fifo = g_build_filename (base, "fifo", NULL);
  char padding[32] = { 0 };

  memcpy (padding + 16, four, 16);
  g_assert_cmpint (g_mkdir_with_parents (inner, 0700), ==, 0);
  g_assert_true (g_file_set_contents (outside, padding, 32, NULL));
  g_assert_true (g_file_set_contents (file, padding, 32, NULL));
  g_assert_cmpint (symlink ("sub/w.bin", link_path), ==, 0);
  g_assert_cmpint (symlink ("sub", directory_link), ==, 0);
  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);

  g_autoptr (GBytes) good = external_model ("sub/w.bin", "16", "16");
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (good, base, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (ortrain_tensor_peek (contents (model, "w")), 16, four, 16);
  g_assert_cmpuint (ortrain_model_get_n_bytes (model), ==, g_bytes_get_size (good) + 32);
  assert_refused (good, NULL, NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "no directory");

  g_assert_cmpint (link (outside, hard), ==, 0);
  const struct
  {
    const char *location, *offset, *length, *part;
    OrtrainModelError code;
  } cases[] = {
    { "../secret", "16", "16", "outside", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },        /* CVE-2022-25882 */
    { "sub/../../secret", "16", "16", "outside", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA }, /* CVE-2024-27318 */
    { "/etc/passwd", "0", "16", "outside", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "link", "16", "16", "link", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },               /* CVE-2026-27489 */
    { "dirlink/w.bin", "16", "16", "link", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },      /* CVE-2026-34447 */
    { "hard", "16", "16", "several hard links", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA }, /* CVE-2026-34446 */
    { "fifo", "16", "16", "regular", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub", "0", "16", "regular", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { ".", "0", "16", NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "", "0", "16", NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "absent", "0", "16", "absent", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub/w.bin", "17", "16", "which has 32", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub/w.bin", "9223372036854775807", "16", "which has 32", ORTRAIN_MODEL_ERROR_EXTERNAL_DATA },
    { "sub/w.bin", "0", "32", "32 bytes", ORTRAIN_MODEL_ERROR_INVALID },
    { "sub/w.bin", "-1", "16", "offset", ORTRAIN_MODEL_ERROR_INVALID },
    { "sub/w.bin", "1e3", "16", "offset", ORTRAIN_MODEL_ERROR_INVALID },
    { "sub/w.bin", "0", "18446744073709551632", "length", ORTRAIN_MODEL_ERROR_INVALID },
    { NULL, "0", "16", "no location", ORTRAIN_MODEL_ERROR_INVALID },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GBytes) bytes = external_model (cases[i].location, cases[i].offset, cases[i].length);
      g_test_message ("%s", cases[i].location != NULL ? cases[i].location : "(none)");
      assert_refused (bytes, base, NULL, cases[i].code, cases[i].part);
    }
  Proto *tensor = proto_external_tensor ("w", DIMS (4), "sub/w.bin", "0", "16");
  proto_entry (tensor, 13, "__class__", "evil"); /* CVE-2026-34445 */
  g_autoptr (GBytes) odd = proto_model (small_graph (tensor), 8, 17);
  assert_refused (odd, base, NULL, ORTRAIN_MODEL_ERROR_INVALID, "unknown key");

  g_autoptr (OrtrainModelLimits) limits = ortrain_model_limits_new ();
  ortrain_model_limits_set_allow_external_data (limits, FALSE);
  assert_refused (good, base, limits, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "not allowed");
  ortrain_model_limits_set_allow_external_data (limits, TRUE);
  ortrain_model_limits_set_allow_links (limits, TRUE);
  g_autoptr (GBytes) by_link = external_model ("dirlink/w.bin", "16", "16");
  g_autoptr (OrtrainModel) linked = ortrain_model_new_from_bytes_with_limits (by_link, base, limits, &error);
  g_assert_no_error (error);
  g_assert_nonnull (linked);
  g_autoptr (GBytes) escaping = external_model ("../secret", "16", "16");
  assert_refused (escaping, base, limits, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, "outside");
}

/* ---- the cache of a model hub ---- */

static void
make_link (const char *folder, const char *name, const char *target)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *parent = g_path_get_dirname (path);
  g_assert_cmpint (g_mkdir_with_parents (parent, 0700), ==, 0);
  g_assert_cmpint (symlink (target, path), ==, 0);
}

static void
make_file (const char *folder, const char *name)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *parent = g_path_get_dirname (path);
  g_assert_cmpint (g_mkdir_with_parents (parent, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, (const char *) four, 16, NULL));
}

/* location: in the folder base; part: of the message, NULL: it is read */
static void
try_link (const char *base, const char *location, const char *part)
{
  g_autoptr (GBytes) bytes = external_model (location, "0", "16");
  g_autoptr (GError) error = NULL;
  g_test_message ("%s", location);
  if (part != NULL)
    {
      assert_refused (bytes, base, NULL, ORTRAIN_MODEL_ERROR_EXTERNAL_DATA, part);
      return;
    }
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, base, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (ortrain_tensor_peek (contents (model, "w")), 16, four, 16);
}

/* Links from snapshots/REVISION into the sibling folder of blobs are followed, one step, to a plain file; no others
 * are. */
static void
test_hub_cache (void)
{
  g_autofree char *root = g_build_filename (scratch, "hub", "models--a--b", NULL);
  g_autofree char *blobs = g_build_filename (root, "blobs", NULL);
  g_autofree char *snapshot = g_build_filename (root, "snapshots", "rev", NULL);
  g_autofree char *inner = g_build_filename (snapshot, "onnx", NULL);
  g_autofree char *absolute = g_build_filename (blobs, "good", NULL);
  g_autofree char *fifo = g_build_filename (blobs, "fifo", NULL), *hard = g_build_filename (blobs, "hard", NULL);
  make_file (root, "secret");
  make_file (blobs, "good");
  make_file (blobs, "sub/file");
  make_file (blobs, "hard");
  make_file (scratch, "hub/blobs/good"); /* of the folder above */
  make_link (blobs, "chain", "good");
  make_link (blobs, "evil", "/etc/passwd");
  make_link (blobs, "out", "../secret");
  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  g_autofree char *other_name = g_build_filename (root, "other-name", NULL);
  g_assert_cmpint (link (hard, other_name), ==, 0);

  const struct
  {
    const char *name, *target, *part;
  } cases[] = {
    { "data", "../../blobs/good", NULL },
    { "onnx/data", "../../../blobs/good", NULL },
    { "onnx/deep/data", "../../../../blobs/good", NULL },
    { "passwd", "/etc/passwd", "symbolic link" },
    { "absolute", absolute, "symbolic link" },
    { "up", "../../secret", "symbolic link" },
    { "dots", "../../blobs/../secret", "symbolic link" },
    { "only-dots", "../../blobs/..", "symbolic link" },
    { "dot", "../../blobs/.", "symbolic link" },
    { "blobs-only", "../../blobs/", "symbolic link" },
    { "inner", "../../blobs/sub/file", "symbolic link" },
    { "chain", "../../blobs/chain", "symbolic link" },
    { "evil", "../../blobs/evil", "symbolic link" },
    { "out", "../../blobs/out", "symbolic link" },
    { "fifo", "../../blobs/fifo", "regular" },
    { "folder", "../../blobs/sub", "regular" },
    { "hard", "../../blobs/hard", "several hard links" },
    { "missing", "../../blobs/none", "missing from the cache" },
    { "too-short", "../blobs/good", "symbolic link" },
    { "too-far", "../../../blobs/good", "symbolic link" },
    { "very-far", "../../../../../../../../../../../../../../../../../../../../blobs/good", "symbolic link" },
    { "second", "data", "symbolic link" },
    { "loop", "loop", "symbolic link" },
    { "indirect", "../rev/../../blobs/good", "symbolic link" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      make_link (snapshot, cases[i].name, cases[i].target);
      try_link (snapshot, cases[i].name, cases[i].part);
    }
  try_link (inner, "data", NULL);         /* the model lies deeper */
  make_link (snapshot, "linked", "onnx"); /* a folder by a link */
  try_link (snapshot, "linked/data", "symbolic link");
  try_link (snapshot, "onnx/../data", NULL); /* beneath the folder of the model all the time */
  try_link (snapshot, "../rev/data", "outside");

  /* another layout; blobs that lie elsewhere */
  make_link (root, "shots/rev/data", "../../blobs/good");
  g_autofree char *shots = g_build_filename (root, "shots", "rev", NULL);
  try_link (shots, "data", "symbolic link");
  make_link (root, "other/blobs", "../blobs");
  make_link (root, "other/snapshots/rev/data", "../../blobs/good");
  g_autofree char *moved = g_build_filename (root, "other", "snapshots", "rev", NULL);
  try_link (moved, "data", "symbolic link");
  make_link (root, "third/snapshots", "../snapshots");
  make_file (root, "third/blobs/good");
  g_autofree char *linked = g_build_filename (root, "third", "snapshots", "rev", NULL);
  try_link (linked, "data", NULL); /* the path that was typed may have links: it is the first folder's */
}

/* Three gigabytes of weights, most of them a hole in the file; and a model of which no weight may be copied. */
static void
test_large (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (scratch, "large.onnx", NULL),
                  *data = g_build_filename (scratch, "large.bin", NULL);
  const gint64 n = 3ll << 28;
  Proto *graph = proto_new ();
  proto_message (graph, 5, proto_external_tensor ("w", DIMS (n), "large.bin", NULL, NULL));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  gsize size;
  const guint8 *model_data = g_bytes_get_data (bytes, &size);
  g_assert_true (g_file_set_contents (path, (const char *) model_data, (gssize) size, NULL));
  int fd = g_open (data, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  g_assert_cmpint (ftruncate (fd, n * 4), ==, 0);
  g_assert_cmpint (pwrite (fd, four, 4, n * 4 - 4), ==, 4);
  close (fd);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_tensor_get_n_elements (contents (model, "w")), ==, n);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (model, "w"), n - 1), ==, 1.0);
  g_clear_object (&model);
  g_unlink (data);

  /* 512 MB of raw data, at an odd place in the file: nothing is copied before somebody asks */
  const gint64 m = 1ll << 27;
  Proto *head = proto_tensor ("w", 1, DIMS (m), NULL, 0), *outer = proto_new ();
  proto_varint (head, 9 << 3 | 2);
  proto_varint (head, (guint64) m * 4);
  proto_int (outer, 1, 8);
  guint64 tensor_length = head->len + (guint64) m * 4;
  Proto *graph_head = proto_new ();
  proto_varint (graph_head, 5 << 3 | 2);
  proto_varint (graph_head, tensor_length);
  proto_varint (outer, 7 << 3 | 2);
  proto_varint (outer, graph_head->len + tensor_length);
  g_byte_array_append (outer, graph_head->data, graph_head->len);
  g_byte_array_append (outer, head->data, head->len);
  fd = g_open (path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  g_assert_cmpint (write (fd, outer->data, outer->len), ==, (gssize) outer->len);
  g_assert_cmpint (ftruncate (fd, (gint64) outer->len + m * 4), ==, 0);
  g_assert_cmpint (pwrite (fd, four, 16, (gint64) outer->len + m * 4 - 16), ==, 16);
  close (fd);
  struct rusage before, after;
  getrusage (RUSAGE_SELF, &before);
  model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
  g_autofree char *text = ortrain_model_to_string (model);
  g_assert_true (text != NULL && pairs != NULL);
  getrusage (RUSAGE_SELF, &after);
  g_assert_cmpint (after.ru_maxrss - before.ru_maxrss, <, 16 * 1024); /* KiB */
  g_assert_cmpmem ((const guint8 *) ortrain_tensor_peek_unaligned (contents (model, "w")) + m * 4 - 16, 16, four, 16);
  g_byte_array_unref (head);
  g_byte_array_unref (graph_head);
  g_byte_array_unref (outer);
  g_unlink (path);
}

static void
test_external_export (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *base = g_build_filename (scratch, "external", NULL),
                  *out = g_build_filename (base, "out.onnx", NULL);
  g_autofree char *data = g_build_filename (base, "w.bin", NULL),
                  *out_data = g_build_filename (base, "out.onnx.data", NULL);
  float many[2000];
  for (guint i = 0; i < G_N_ELEMENTS (many); i++)
    many[i] = (float) i;
  g_assert_cmpint (g_mkdir_with_parents (base, 0700), ==, 0);
  g_assert_true (g_file_set_contents (data, (const char *) many, sizeof many, NULL));
  Proto *graph = proto_new ();
  proto_message (graph, 1, proto_node ("Add", "x,w", "y"));
  proto_message (graph, 5, proto_external_tensor ("w", DIMS (1000), "w.bin", NULL, "4000"));
  proto_message (graph, 5, proto_external_tensor ("v", DIMS (1000), "w.bin", "4000", "4000"));
  proto_message (graph, 11, proto_value ("x", 1, DIMS (1000)));
  proto_message (graph, 12, proto_value ("y", 1, DIMS (1000)));
  g_autoptr (GBytes) bytes = proto_model (graph, 8, 17);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, base, &error);
  g_assert_no_error (error);

  g_autoptr (GHashTable) tensors = new_tensors ();
  g_hash_table_insert (tensors, g_strdup ("w"), plus_one (contents (model, "w")));
  for (guint i = 0; i < 2; i++) /* the second time over the first */
    {
      g_assert_true (ortrain_model_export (model, out, tensors, &error));
      g_assert_no_error (error);
    }
  g_assert_true (g_file_test (out_data, G_FILE_TEST_IS_REGULAR));
  g_unlink (data);
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "w"), 999), ==, 1000.0);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "v"), 999), ==, 1999.0);
  /* over itself */
  g_assert_true (ortrain_model_save (again, out, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) third = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (third, "v"), 999), ==, 1999.0);
  /* in memory, new contents come into the model, and the rest stays where it is */
  g_autoptr (GBytes) inside = ortrain_model_export_bytes (third, tensors, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) fourth = ortrain_model_new_from_bytes (inside, base, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (fourth, "w"), 1), ==, 2.0);
}

/* Links planted at the paths of future files: their targets are not written to (CVE-2025-51480). */
static void
test_planted_links (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *base = g_build_filename (scratch, "planted", NULL),
                  *victim = g_build_filename (scratch, "victim", NULL),
                  *weights = g_build_filename (base, "w.bin", NULL), *out = g_build_filename (base, "out.onnx", NULL),
                  *out_data = g_build_filename (base, "out.onnx.data", NULL), *found = NULL;
  g_assert_cmpint (g_mkdir_with_parents (base, 0700), ==, 0);
  g_assert_true (g_file_set_contents (victim, "precious", -1, NULL));
  g_assert_true (g_file_set_contents (weights, (const char *) four, 16, NULL));
  g_assert_cmpint (symlink (victim, out), ==, 0);
  g_assert_cmpint (symlink ("../victim", out_data), ==, 0);
  g_autoptr (GBytes) bytes = external_model ("w.bin", "0", "16");
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, base, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_model_save (model, out, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (victim, &found, NULL, NULL));
  g_assert_cmpstr (found, ==, "precious");
  g_assert_false (g_file_test (out, G_FILE_TEST_IS_SYMLINK));
  g_assert_false (g_file_test (out_data, G_FILE_TEST_IS_SYMLINK));
  g_autoptr (OrtrainModel) again = ortrain_model_new_from_file (out, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (contents (again, "w"), 3), ==, 4.0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  scratch = g_dir_make_tmp ("ortrain-external-data-XXXXXX", NULL);
  g_test_add_func ("/external-data/hub-cache", test_hub_cache);
  g_test_add_func ("/external-data/planted-links", test_planted_links);
  g_test_add_func ("/external-data/external", test_external);
  g_test_add_func ("/external-data/large", test_large);
  g_test_add_func ("/external-data/external-export", test_external_export);
  int status = g_test_run ();
  test_remove_folder (scratch);
  g_free (scratch);
  return status;
}
