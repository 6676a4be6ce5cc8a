/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static void
append_number (GByteArray *bytes, guint32 number)
{
  number = GUINT32_TO_BE (number);
  g_byte_array_append (bytes, (const guint8 *) &number, 4);
}

static void
append_chunk (GByteArray *file, const char *type, const guint8 *data, guint n)
{
  g_autoptr (GByteArray) body = g_byte_array_new ();
  g_byte_array_append (body, (const guint8 *) type, 4);
  if (n > 0)
    g_byte_array_append (body, data, n);
  append_number (file, n);
  g_byte_array_append (file, body->data, body->len);
  append_number (file, (guint32) crc32 (0, body->data, body->len));
}

/* A PNG; kind: 0 grey, 2 RGB, 6 RGBA. pixels: row by row; NULL: a header that says this size, and no pixels */
static GByteArray *
make_png (guint width, guint height, guint8 kind, const guint8 *pixels)
{
  const guint n = kind == 0 ? 1 : kind == 2 ? 3 : 4;
  GByteArray *file = g_byte_array_new ();
  g_autoptr (GByteArray) header = g_byte_array_new (), rows = g_byte_array_new ();
  g_byte_array_append (file, (const guint8 *) "\x89PNG\r\n\x1a\n", 8);
  append_number (header, width);
  append_number (header, height);
  g_byte_array_append (header, (const guint8[]){ 8, kind, 0, 0, 0 }, 5);
  append_chunk (file, "IHDR", header->data, header->len);
  for (guint y = 0; pixels != NULL && y < height; y++)
    {
      g_byte_array_append (rows, (const guint8[]){ 0 }, 1);
      g_byte_array_append (rows, pixels + y * width * n, width * n);
    }
  g_byte_array_append (rows, (const guint8[]){ 0 }, 1);
  uLongf n_packed = compressBound (rows->len);
  g_autofree guint8 *packed = g_malloc (n_packed);
  g_assert_cmpint (compress (packed, &n_packed, rows->data, pixels != NULL ? rows->len - 1 : 1), ==, Z_OK);
  append_chunk (file, "IDAT", packed, (guint) n_packed);
  append_chunk (file, "IEND", NULL, 0);
  return file;
}

/* Writes FOLDER/name, and the folders that it needs. png: taken */
static void
put (const char *folder, const char *name, GByteArray *png)
{
  g_autofree char *path = g_build_filename (folder, name, NULL), *parent = g_path_get_dirname (path);
  g_assert_cmpint (g_mkdir_with_parents (parent, 0777), ==, 0);
  g_assert_true (g_file_set_contents (path, (const char *) png->data, png->len, NULL));
  g_byte_array_unref (png);
}

static GByteArray *
make_text (const char *text)
{
  GByteArray *bytes = g_byte_array_new ();
  g_byte_array_append (bytes, (const guint8 *) text, (guint) strlen (text));
  return bytes;
}

/* One color. */
static GByteArray *
make_plain (guint width, guint height, guint8 red)
{
  g_autofree guint8 *pixels = g_malloc (3 * width * height);
  for (guint i = 0; i < width * height; i++)
    memcpy (pixels + 3 * i, (const guint8[]){ red, (guint8) (i * 5), 7 }, 3);
  return make_png (width, height, 2, pixels);
}

static OrtrainDataset *
open_folder (const char *folder, const char *const *classes)
{
  g_autoptr (GError) error = NULL;
  OrtrainDataset *dataset = ortrain_image_folder_new (folder, "image", "labels", classes, &error);
  g_assert_no_error (error);
  return dataset;
}

static void
assert_not_opened (const char *folder, const char *const *classes, gint code, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (ortrain_image_folder_new (folder, "image", "labels", classes, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, code);
  g_autofree char *expected = g_strdup_printf (message, folder);
  g_assert_cmpstr (error->message, ==, expected);
}

static void
assert_item (OrtrainDataset *dataset, guint64 index, const float *pixels, gsize n, const gint64 *dims)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (dataset, index, &error);
  g_assert_no_error (error);
  OrtrainTensor *image = ortrain_tensor_dict_get (item, "image");
  g_assert_cmpint (ortrain_tensor_get_dtype (image), ==, ORTRAIN_DTYPE_FLOAT32);
  g_assert_cmpmem (ortrain_tensor_peek_dims (image), 3 * sizeof *dims, dims, 3 * sizeof *dims);
  for (gsize i = 0; i < n; i++)
    g_assert_cmpfloat (((const float *) ortrain_tensor_peek (image))[i], ==, pixels[i]);
}

#define V(x) ((float) (x) / 255.0f)

static void
test_pixels (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  const guint8 rgb[] = { 255, 0, 51, 10, 20, 30, 1, 2, 3, 200, 100, 50, 4, 5, 6, 7, 8, 9 };
  const guint8 rgba[] = { 255, 0, 51, 0, 10, 20, 30, 255 };
  const guint8 grey[] = { 17, 34 };
  put (folder, "c/1.png", make_png (3, 2, 2, rgb));
  put (folder, "c/2.png", make_png (2, 1, 6, rgba));
  put (folder, "c/3.png", make_png (1, 2, 0, grey));
  g_autoptr (OrtrainDataset) dataset = open_folder (folder, NULL);
  g_assert_cmpuint (ortrain_dataset_get_length (dataset), ==, 3);
  const float planes[] = { V (255), V (10), V (1), V (200), V (4),  V (7), V (0),  V (20), V (2),
                           V (100), V (5),  V (8), V (51),  V (30), V (3), V (50), V (6),  V (9) };
  assert_item (dataset, 0, planes, 18, (const gint64[]){ 3, 2, 3 });
  const float opaque[] = { V (255), V (10), V (0), V (20), V (51), V (30) };
  assert_item (dataset, 1, opaque, 6, (const gint64[]){ 3, 1, 2 });
  const float same[] = { V (17), V (34), V (17), V (34), V (17), V (34) };
  assert_item (dataset, 2, same, 6, (const gint64[]){ 3, 2, 1 });

  /* the results of Pillow's convert ("L") */
  ortrain_image_folder_set_channels (ORTRAIN_IMAGE_FOLDER (dataset), 1);
  const float luminance[] = { V (82), V (18), V (2), V (124), V (5), V (8) };
  assert_item (dataset, 0, luminance, 6, (const gint64[]){ 1, 2, 3 });
  const float unchanged[] = { V (17), V (34) };
  assert_item (dataset, 2, unchanged, 2, (const gint64[]){ 1, 2, 1 });

  /* another size is that of the transform */
  g_object_set (dataset, "channels", 3, "width", 2, "height", 5, NULL);
  g_autoptr (OrtrainTensorDict) item = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) image = ortrain_tensor_new_floats ((gint64[]){ 3, 2, 3 }, 3, planes, 18, NULL);
  g_autoptr (OrtrainTransform) resize = ortrain_resize_new (2, 5);
  ortrain_tensor_dict_set (item, "image", image);
  g_assert_true (ortrain_transform_apply (resize, item, 0, NULL));
  assert_item (dataset, 0, ortrain_tensor_peek (ortrain_tensor_dict_get (item, "image")), 30,
               (const gint64[]){ 3, 5, 2 });
  g_autofree char *path = ortrain_image_folder_get_item_path (ORTRAIN_IMAGE_FOLDER (dataset), 0);
  g_autoptr (OrtrainTensor) alone = ortrain_read_image (path, 2, 5, 3, NULL);
  g_assert_true (ortrain_tensor_equal (alone, ortrain_tensor_dict_get (item, "image")));
  test_remove_folder (folder);
}

static void
test_files (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  static const char *const names[] = { "rose/2.PNG",       "rose/10.png",  "rose/a %s\n.png",
                                       "lily/1.png",       "Zinnia/x.png", "\xff\xfe/b.png",
                                       "lily/.hidden.png", ".git/1.png",   "lily/deeper/3.png" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    put (folder, names[i], make_plain (2, 2, (guint8) i));
  put (folder, "lily/notes.txt", make_text ("no picture"));
  put (folder, "readme.png", make_plain (2, 2, 0));
  g_autofree char *link = g_build_filename (folder, "linked", NULL),
                  *file = g_build_filename (folder, "lily/z.png", NULL);
  g_assert_cmpint (symlink ("rose", link), ==, 0);
  g_assert_cmpint (symlink ("../rose/10.png", file), ==, 0);

  g_autoptr (OrtrainDataset) dataset = open_folder (folder, NULL);
  OrtrainImageFolder *self = ORTRAIN_IMAGE_FOLDER (dataset);
  g_autofree char *classes = g_strjoinv (" ", (char **) ortrain_image_folder_get_classes (self));
  g_assert_cmpstr (classes, ==, "Zinnia lily linked rose \xef\xbf\xbd\xef\xbf\xbd");
  g_autoptr (GString) found = g_string_new (NULL);
  for (guint64 i = 0; i < ortrain_dataset_get_length (dataset); i++)
    {
      g_autofree char *path = ortrain_image_folder_get_item_path (self, i);
      g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (dataset, i, NULL);
      g_string_append_printf (
          found, "%g:%g %s|", ortrain_tensor_get_scalar (ortrain_tensor_dict_get (item, "labels"), 0),
          255 * ortrain_tensor_get_scalar (ortrain_tensor_dict_get (item, "image"), 0), path + strlen (folder) + 1);
    }
  g_assert_cmpstr (found->str, ==,
                   "0:4 Zinnia/x.png|1:3 lily/1.png|1:1 lily/z.png|2:1 linked/10.png|2:0 linked/2.PNG|"
                   "2:2 linked/a %s\n.png|3:1 rose/10.png|3:0 rose/2.PNG|3:2 rose/a %s\n.png|4:5 \xff\xfe/b.png|");
  g_assert_null (ortrain_image_folder_get_item_path (self, 10));

  /* the classes of another folder */
  const char *const given[] = { "rose", "linked", "tulip", "lily", "\xef\xbf\xbd\xef\xbf\xbd", "Zinnia", NULL };
  g_autoptr (OrtrainDataset) again = open_folder (folder, given);
  g_autoptr (OrtrainTensorDict) last = ortrain_dataset_get_item (again, 8, NULL);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (last, "labels"), 0), ==, 0);
  g_assert_cmpstr (ortrain_image_folder_get_classes (ORTRAIN_IMAGE_FOLDER (again))[2], ==, "tulip");
  assert_not_opened (folder, (const char *const[]){ "Zinnia", "rose", NULL }, ORTRAIN_DATA_ERROR_MISMATCH,
                     "%s: The folder 'lily' is not one of the 2 classes, 'Zinnia', 'rose'");
  test_remove_folder (folder);
}

static void
test_empty (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  assert_not_opened (folder, NULL, ORTRAIN_DATA_ERROR_EMPTY,
                     "%s: There are no folders here; the pictures of each class belong to a folder of its name");
  put (folder, "full/1.png", make_plain (2, 2, 0));
  put (folder, "empty/notes.txt", make_text ("nothing"));
  assert_not_opened (folder, NULL, ORTRAIN_DATA_ERROR_EMPTY,
                     "%s/empty: The folder of this class has no pictures (.png, .jpg, .jpeg, .gif, .bmp, .tiff, .webp, "
                     ".ppm and other formats that GdkPixbuf has loaders for); remove it, or put some there");
  g_autoptr (GError) error = NULL;
  g_autofree char *nowhere = g_build_filename (folder, "nowhere", NULL);
  g_assert_null (ortrain_image_folder_new (nowhere, "image", "labels", NULL, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_assert_nonnull (strstr (error->message, nowhere));
  g_clear_error (&error);
  g_assert_null (ortrain_image_folder_new (folder, "x", "x", NULL, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
  test_remove_folder (folder);

  g_autoptr (OrtrainDataset) bare = g_object_new (ORTRAIN_TYPE_IMAGE_FOLDER, NULL);
  g_assert_cmpuint (ortrain_dataset_get_length (bare), ==, 0);
  g_assert_null (ortrain_image_folder_get_classes (ORTRAIN_IMAGE_FOLDER (bare)));
}

/* Formats whose loaders are packages of their own: by their contents, or an error that names the missing package. */
static void
test_loaders (void)
{
  static const char *const names[] = { "webp", "avif", "heic", "jxl" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
      g_autofree char *as_png = g_strconcat ("c/1.", names[i], NULL), *broken = g_strconcat ("c/2.", names[i], NULL);
      g_autofree char *package =
          g_strdup_printf ("the package %s", g_str_equal (names[i], "webp") ? "webp-pixbuf" : "");
      put (folder, as_png, make_plain (2, 2, 7));
      g_autoptr (OrtrainDataset) dataset = open_folder (folder, NULL);
      g_assert_cmpuint (ortrain_dataset_get_length (dataset), ==, 1);
      g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (dataset, 0, &error);
      g_assert_no_error (error);
      g_assert_nonnull (item);
      put (folder, broken, make_text ("RIFF....WEBPVP8 "));
      g_autoptr (OrtrainDataset) second = ortrain_image_folder_new (folder, "image", "labels", NULL, &error);
      if (second == NULL)
        g_assert_nonnull (strstr (error->message, package)); /* there is no loader here */
      else
        g_assert_null (ortrain_dataset_get_item (second, 1, &error));
      g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
      g_assert_nonnull (strstr (error->message, broken));
      test_remove_folder (folder);
    }
}

/* Each is an error with the path, and costs neither memory nor time. */
static void
test_hostile (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *pipe = g_build_filename (folder, "c/pipe.png", NULL);
  g_autofree char *nowhere = g_build_filename (folder, "c/nowhere.png", NULL);
  g_autofree char *sparse = g_build_filename (folder, "c/sparse.png", NULL);
  GByteArray *cut = make_plain (100, 100, 3);
  g_byte_array_set_size (cut, cut->len / 2);
  put (folder, "c/cut.png", cut);
  put (folder, "c/empty.png", g_byte_array_new ());
  put (folder, "c/huge.png", make_png (2000000000, 2000000000, 2, NULL));
  put (folder, "c/large.png", make_png (8193, 8192, 2, NULL));
  put (folder, "c/none.png", make_png (0, 5, 2, NULL));
  put (folder, "c/text.png", make_text ("<html>not found</html>"));
  put (folder, "c/short.png", make_png (8192, 8192, 2, NULL));
  put (folder, "c/sparse.png", make_plain (2, 2, 0));
  g_assert_cmpint (truncate (sparse, (off_t) 1 << 40), ==, 0);
  g_assert_cmpint (mkfifo (pipe, 0600), ==, 0);
  g_assert_cmpint (symlink ("missing", nowhere), ==, 0);
  g_autoptr (OrtrainDataset) dataset = open_folder (folder, NULL);
  const guint64 n = ortrain_dataset_get_length (dataset);
  g_assert_cmpuint (n, ==, 10);
  for (guint64 i = 0; i < n; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *path = ortrain_image_folder_get_item_path (ORTRAIN_IMAGE_FOLDER (dataset), i);
      g_assert_null (ortrain_dataset_get_item (dataset, i, &error));
      g_assert_nonnull (strstr (error->message, path));
      g_test_message ("%s", error->message);
      if (g_str_has_suffix (path, "large.png"))
        g_assert_nonnull (strstr (error->message, "The picture has 8193 x 8192 pixels, the limit is 67108864 pixels"));
      if (g_str_has_suffix (path, "nowhere.png"))
        g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
      else
        g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
    }
  test_remove_folder (folder);
}

static void
test_limit (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  put (folder, "c/1.png", make_plain (4, 5, 0));
  put (folder, "c/2.png", make_plain (3, 7, 0));
  g_autoptr (OrtrainDataset) dataset = open_folder (folder, NULL);
  ortrain_image_folder_set_max_pixels (ORTRAIN_IMAGE_FOLDER (dataset), 20);
  g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (dataset, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (item), ==, 2);
  g_assert_null (ortrain_dataset_get_item (dataset, 1, &error));
  g_assert_true (g_str_has_suffix (error->message, "/c/2.png: The picture has 3 x 7 pixels, the limit is 20 pixels"));
  g_clear_error (&error);
  ortrain_image_folder_set_max_pixels (ORTRAIN_IMAGE_FOLDER (dataset), 21);
  const guint64 both[] = { 0, 1 };
  g_assert_null (ortrain_dataset_get_batch (dataset, both, 2, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
  g_assert_nonnull (strstr (error->message, "/c/2.png: Item 1: tensor 'image' is float32[3, 7, 3]"));
  g_clear_error (&error);
  g_object_set (dataset, "channels", 2, NULL);
  g_assert_null (ortrain_dataset_get_item (dataset, 0, &error));
  g_assert_cmpstr (error->message, ==, "Pictures have 1 channel or 3, not 2; set channels");
  test_remove_folder (folder);
}

/* Ahead or not, the same pictures in the same order, in the same few tensors. */
static void
test_prefetch (void)
{
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  for (guint i = 0; i < 24; i++)
    {
      g_autofree char *name = g_strdup_printf ("%c/%u.png", 'a' + i % 3, i);
      put (folder, name, make_plain (5 + i % 4, 6, (guint8) (i * 9)));
    }
  g_autoptr (OrtrainDataset) dataset = open_folder (folder, NULL);
  g_object_set (dataset, "width", 4, "height", 4, NULL);
  g_autoptr (GPtrArray) expected = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint prefetch = 0; prefetch < 4; prefetch++)
    {
      g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 4);
      g_autoptr (GHashTable) addresses = g_hash_table_new (NULL, NULL);
      g_object_set (loader, "prefetch", prefetch, "shuffle", TRUE, NULL);
      for (guint i = 0; i < 6; i++)
        {
          g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
          OrtrainTensor *image = ortrain_tensor_dict_get (batch, "image");
          if (prefetch == 0)
            g_ptr_array_add (expected, ortrain_tensor_copy (image, NULL));
          g_assert_true (ortrain_tensor_equal (image, expected->pdata[i]));
          g_hash_table_add (addresses, (gpointer) ortrain_tensor_peek (image));
          /* a size that is set meanwhile applies to later reads, by this thread or the other one */
          if (prefetch > 0)
            g_object_set (dataset, "width", 4 + i % 2, "width", 4, NULL);
        }
      g_assert_cmpuint (g_hash_table_size (addresses), <=, 1 + prefetch);
    }
  test_remove_folder (folder);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/image-folder/files", test_files);
  g_test_add_func ("/image-folder/empty", test_empty);
  g_test_add_func ("/image-folder/loaders", test_loaders);
  g_test_add_func ("/image-folder/pixels", test_pixels);
  g_test_add_func ("/image-folder/hostile", test_hostile);
  g_test_add_func ("/image-folder/limit", test_limit);
  g_test_add_func ("/image-folder/prefetch", test_prefetch);
  return g_test_run ();
}
