/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include "async-wait.h"

#include <math.h>
#include <string.h>

/* The results of torchvision 0.29 (functional.resize with antialias, center_crop, normalize) for the picture below:
 * with weights in float32, hence the tolerance. */
static const float shrunk[] = { 0.370129883, 0.547895908, 0.469932288, 0.513975143, 0.472680777, 0.422219068,
                                0.464709193, 0.419786125, 0.548277855, 0.546866119, 0.472913235, 0.422642559 };
static const float grown[] = {
  0,           0.202898562, 0.439613491, 0.67632854,  0.913043499, 0.371980757, 0.386473507, 0.623188436, 0.826086938,
  0.422360212, 0.244306386, 0.290545195, 0.527260244, 0.763975143, 0.667356789, 0.491373301, 0.47412014,  0.677018642,
  0.66459626,  0.391304344, 0.26293999,  0.34092477,  0.577639759, 0.814354599, 0.495513946, 0.287784696, 0.490683198,
  0.478260875, 0.681159437, 0.473429978, 0.1545894,   0.391304344, 0.628019273, 0.309178561, 0.101449318, 0.304347813,
  0.29192543,  0.494823992, 0.604554892, 0.523809493, 0.204968899, 0.441683829, 0.519668758, 0.391304344, 0.118012384,
  0.534161508, 0.451345742, 0.545203567, 0.654934406, 0.447204977, 0.350586623, 0.492063552, 0.538302243, 0.360248476,
  0.956521749, 0.492753565, 0.396135241, 0.632850289, 0.869565189, 0.328502476, 0.342995256, 0.579710186, 0.782608688,
  0.347826093, 0.550724685, 0.787439644, 0.801932335, 0.260869563, 0.497584492, 0.734299541, 0.637681067, 0.173913047,
  0.198757783, 0.401656359, 0.638371289, 0.652863979, 0.111801252, 0.348516196, 0.585231245, 0.67908901,  0.596273303,
  0.298136711, 0.310559005, 0.452035844, 0.530020654, 0.211180195, 0.225672871, 0.39889583,  0.635610759, 0.838509321,
  0.826086938, 0.362318784, 0.265700459, 0.502415478, 0.739130437, 0.19806771,  0.212560475, 0.449275404, 0.652173936,
  0.639751494, 0.652173936, 0.476190507, 0.316080034, 0.552794993, 0.567287862, 0.34368524,  0.26293996,  0.465838492,
  0.453416109, 0.656314671, 0.639061451, 0.463077992, 0.366459608, 0.603174567, 0.522429228, 0.362318844, 0.279503107,
  0.304347813, 0.507246375, 0.743961334, 0.758454025, 0.217391297, 0.454106241, 0.69082135,  0.594202816, 0.130434781
};
static const float mixed[] = { 0.260869533, 0.618925929, 0.565217376, 0.302989125, 0.607736647, 0.544836998,
                               0.367624223, 0.580722511, 0.50232923,  0.472437888, 0.454443753, 0.339285761,
                               0.510287225, 0.401694387, 0.310170829, 0.481172323, 0.422474414, 0.414984494,
                               0.532414615, 0.509430945, 0.479619563, 0.574534178, 0.575447619, 0.521739125,
                               0.608695626, 0.554987252, 0.555900633, 0.494565189, 0.440856814, 0.598020196,
                               0.353843153, 0.303548574, 0.635869503, 0.414013952, 0.397858083, 0.472826093,
                               0.496506214, 0.455402821, 0.376746923, 0.601319849, 0.476182878, 0.347632021,
                               0.585597813, 0.496962905, 0.43905282,  0.565217376, 0.511508942, 0.512422383 };
static const float cropped[] = { 0.0869565234, 0.391304344, 0.695652187, 0,           0.826086938,  0.130434781,
                                 0.434782594,  0.739130437, 0.434782594, 0.739130437, 0.0434782617, 0.347826093,
                                 0.173913047,  0.478260875, 0.782608688, 0.0869565234 };
static const float padded[] = { 0,
                                0,
                                0,
                                0,
                                0.608695626,
                                0.913043499,
                                0.217391297,
                                0.521739125,
                                0.347826093,
                                0.652173936,
                                0.956521749,
                                0.260869563,
                                0.0869565234,
                                0.391304344,
                                0.695652187,
                                0,
                                0.826086938,
                                0.130434781,
                                0.434782594,
                                0.739130437,
                                0.565217376,
                                0.869565189,
                                0.173913047,
                                0.478260875,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0,
                                0 };
static const float normalized[] = { -2.11790395, -0.788874209, -0.482919216, 0.87577647 };

/* [channels, height, width]: ((31 c + 17 y + 7 x) mod 23) / 23 */
static OrtrainTensor *
make_image (gint64 channels, gint64 height, gint64 width)
{
  OrtrainTensor *image = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ channels, height, width }, 3, NULL);
  float *pixels = ortrain_tensor_peek_writable (image);
  for (gint64 c = 0; c < channels; c++)
    for (gint64 y = 0; y < height; y++)
      for (gint64 x = 0; x < width; x++)
        *pixels++ = (float) ((31 * c + 17 * y + 7 * x) % 23) / 23;
  return image;
}

/* transform: taken */
static OrtrainTensor *
apply (OrtrainTransform *transform, OrtrainTensor *image, guint64 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) item = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) before = ortrain_tensor_copy (image, NULL);
  ortrain_tensor_dict_set (item, "image", image);
  g_assert_true (ortrain_transform_apply (transform, item, seed, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (image, before)); /* the dataset's own */
  g_object_unref (transform);
  return g_object_ref (ortrain_tensor_dict_get (item, "image"));
}

#define assert_near(image, expected, height, width, within)                                                            \
  assert_pixels (image, expected, G_N_ELEMENTS (expected), height, width, within)

static void
assert_pixels (OrtrainTensor *image, const float *expected, gsize n, gint64 height, gint64 width, float within)
{
  g_assert_cmpint (ortrain_tensor_get_n_elements (image), ==, (gint64) n);
  g_assert_cmpint (ortrain_tensor_get_dim (image, 1), ==, height);
  g_assert_cmpint (ortrain_tensor_get_dim (image, 2), ==, width);
  const float *pixels = ortrain_tensor_peek (image);
  for (gsize i = 0; i < n; i++)
    g_assert_cmpfloat_with_epsilon (pixels[i], expected[i], within);
}

static void
test_resize (void)
{
  g_autoptr (OrtrainTensor) image = make_image (2, 5, 7);
  g_autoptr (OrtrainTensor) small = apply (ortrain_resize_new (3, 2), image, 0);
  assert_near (small, shrunk, 2, 3, 1e-6f);
  g_autoptr (OrtrainTensor) large = apply (ortrain_resize_new (9, 7), image, 0);
  assert_near (large, grown, 7, 9, 1e-6f);
  g_autoptr (OrtrainTensor) narrow = apply (ortrain_resize_new (3, 8), image, 0);
  assert_near (narrow, mixed, 8, 3, 1e-6f);
  g_autoptr (OrtrainTensor) same = apply (ortrain_resize_new (7, 5), image, 0);
  g_assert_true (ortrain_tensor_equal (same, image));

  g_autoptr (OrtrainTensor) tall = make_image (1, 50, 37), wide = make_image (1, 37, 50);
  g_autoptr (OrtrainTensor) a = apply (ortrain_resize_new_for_shorter_side (20), tall, 0);
  g_autoptr (OrtrainTensor) b = apply (ortrain_resize_new_for_shorter_side (20), wide, 0);
  g_assert_cmpint (ortrain_tensor_get_dim (b, 2), ==, 27);
  const float *pixels = ortrain_tensor_peek (a);
  double sum = 0;
  for (guint i = 0; i < 27 * 20; i++)
    sum += pixels[i];
  g_assert_cmpfloat_with_epsilon (pixels[0], 0.316127956f, 1e-6);
  g_assert_cmpfloat_with_epsilon (pixels[10 * 20 + 7], 0.354104936f, 1e-6);
  g_assert_cmpfloat_with_epsilon (pixels[27 * 20 - 1], 0.436416417f, 1e-6);
  g_assert_cmpfloat_with_epsilon (sum / (27 * 20), 0.4782953106694751, 1e-7);
}

static void
test_crop (void)
{
  g_autoptr (OrtrainTensor) image = make_image (2, 5, 7), one = make_image (1, 5, 7), two = make_image (2, 1, 2);
  g_autoptr (OrtrainTensor) inner = apply (ortrain_center_crop_new (4, 2), image, 0);
  assert_near (inner, cropped, 2, 4, 1e-12f);
  g_autoptr (OrtrainTensor) outer = apply (ortrain_center_crop_new (4, 8), one, 0);
  assert_near (outer, padded, 8, 4, 1e-12f);

  const double mean[] = { 0.485, 0.456 }, std[] = { 0.229, 0.224 };
  g_autoptr (OrtrainTensor) centred = apply (ortrain_normalize_new (mean, 2, std, 2, NULL), two, 0);
  assert_near (centred, normalized, 1, 2, 2e-7f);
  g_autoptr (OrtrainTensor) likewise = apply (ortrain_normalize_new (mean, 1, std, 1, NULL), two, 0);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (likewise, 3), ==,
                     ((float) (38 % 23) / 23 - (float) mean[0]) / (float) std[0]);

  /* each place about equally often; every type: chi square over 3 x 5 places, 14 degrees of freedom */
  g_autoptr (OrtrainTensor) bytes = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, (gint64[]){ 2, 2, 4 }, 3, NULL);
  for (guint i = 0; i < 16; i++)
    ((guint8 *) ortrain_tensor_peek_writable (bytes))[i] = (guint8) (i + 1);
  guint counts[3][5] = { { 0 } };
  for (guint seed = 0; seed < 3000; seed++)
    {
      /* 2 x 4 with a border of one, 4 x 6: 2 x 2 can begin in 3 rows and 5 columns */
      g_autoptr (OrtrainTensor) part = apply (ortrain_random_crop_new (2, 2, 1), bytes, seed);
      const guint8 *found = ortrain_tensor_peek (part);
      guint n_equal = 0;
      for (gint top = 0; top < 3; top++)
        for (gint left = 0; left < 5; left++)
          {
            gboolean equal = TRUE;
            for (gint i = 0; i < 8; i++)
              {
                const gint y = top + i / 2 % 2 - 1, x = left + i % 2 - 1;
                const gint pixel = y >= 0 && y < 2 && x >= 0 && x < 4 ? i / 4 * 8 + y * 4 + x + 1 : 0;
                equal = equal && found[i] == pixel;
              }
            counts[top][left] += equal;
            n_equal += equal;
          }
      g_assert_cmpuint (n_equal, ==, 1);
    }
  double chi = 0;
  for (guint i = 0; i < 15; i++)
    chi += (counts[i / 5][i % 5] - 200.0) * (counts[i / 5][i % 5] - 200.0) / 200;
  g_assert_cmpfloat (chi, <, 36.1); /* one in a thousand, and the seeds are fixed */
}

static void
test_flip (void)
{
  g_autoptr (OrtrainTensor) image = make_image (2, 3, 5);
  const float *before = ortrain_tensor_peek (image);
  g_autoptr (OrtrainTensor) never = apply (ortrain_random_horizontal_flip_new (0), image, 3);
  g_assert_true (ortrain_tensor_equal (never, image));
  g_autoptr (OrtrainTensor) always = apply (ortrain_random_horizontal_flip_new (1), image, 3);
  for (guint i = 0; i < 30; i++)
    g_assert_cmpfloat (((const float *) ortrain_tensor_peek (always))[i], ==, before[i / 5 * 5 + 4 - i % 5]);
  guint n = 0;
  for (guint seed = 0; seed < 4000; seed++)
    {
      g_autoptr (OrtrainTensor) some = apply (ortrain_random_horizontal_flip_new (0.25), image, seed);
      n += !ortrain_tensor_equal (some, image);
    }
  g_assert_cmpfloat_with_epsilon (n, 1000, 3.3 * sqrt (4000 * 0.25 * 0.75));

  g_autoptr (OrtrainTensor) pair = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, (gint64[]){ 1, 1, 2 }, 3, NULL);
  ((guint8 *) ortrain_tensor_peek_writable (pair))[1] = 51;
  g_autoptr (OrtrainTensor) swapped = apply (ortrain_random_horizontal_flip_new (1), pair, 3);
  g_autoptr (OrtrainTensor) floats = apply (ortrain_to_float_new (1.0 / 255), swapped, 3);
  g_assert_cmpint (ortrain_tensor_get_dtype (floats), ==, ORTRAIN_DTYPE_FLOAT32);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (floats, 0), ==, 0.2f);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (floats, 1), ==, 0);
}

static void
assert_refused (OrtrainTransform *transform, OrtrainTensorDict *item, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (ortrain_transform_apply (transform, item, 0, &error));
  g_assert_cmpstr (error->message, ==, message);
  g_object_unref (transform);
}

static void
test_refused (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) item = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) image = make_image (2, 5, 7),
                            row = ortrain_tensor_new_floats (NULL, 0, (float[1]){ 0 }, 1, NULL);
  g_autoptr (OrtrainTensor) bytes = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, (gint64[]){ 1, 2, 2 }, 3, NULL);
  g_autoptr (OrtrainTensor) empty = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ 1, 0, 2 }, 3, NULL);
  ortrain_tensor_dict_set (item, "y", row);
  assert_refused (ortrain_center_crop_new (2, 2), item,
                  "None of the tensors 'y' is a picture, [channels, height, width]");
  ortrain_tensor_dict_set (item, "x", image);
  const double half[] = { 0.5, 0.5, 0.5 };
  assert_refused (ortrain_random_crop_new (4, 8, 1), item,
                  "A part of 4 x 8 cannot be cut out of a picture of 7 x 5 with a padding of 1 (width x height)");
  assert_refused (ortrain_normalize_new (half, 3, half, 3, NULL), item,
                  "There are means of 3 channels, the picture has 2");
  assert_refused (g_object_new (ORTRAIN_TYPE_RESIZE, "width", 3, NULL), item,
                  "The size is 3 x 0, with a shorter side of 0: either width and height are needed, or shorter-side");
  assert_refused (g_object_new (ORTRAIN_TYPE_CENTER_CROP, "input", "z", NULL), item,
                  "The item has no tensor 'z'; it has 'y', 'x'");
  assert_refused (g_object_new (ORTRAIN_TYPE_CENTER_CROP, "input", "y", NULL), item,
                  "'y' has 0 dimensions, a picture has 3: [channels, height, width]");
  ortrain_tensor_dict_set (item, "b", bytes);
  assert_refused (ortrain_center_crop_new (2, 2), item,
                  "Both 'x' and 'b' can be the picture; set input to the name of one");
  ortrain_tensor_dict_remove (item, "x");
  assert_refused (ortrain_resize_new (2, 2), item, "The picture is uint8, float32 is needed: put ToFloat before");
  ortrain_tensor_dict_set (item, "b", empty);
  assert_refused (ortrain_resize_new (2, 2), item, "The picture has no pixels");

  g_assert_null (ortrain_normalize_new (half, 3, half, 2, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
  g_clear_error (&error);
  g_assert_null (ortrain_normalize_new (half, 0, half, 0, &error));
  g_clear_error (&error);
  g_assert_null (ortrain_normalize_new (half, 1, (double[]){ 1e-60 }, 1, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
}

/* ---- datasets ---- */

enum
{
  N_ITEMS = 12
};

/* { "image": uint8 [3, 6, 6], "labels": int64 } */
static OrtrainDataset *
make_dataset (void)
{
  const gint64 n = N_ITEMS;
  g_autoptr (OrtrainTensor) images = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, (gint64[]){ n, 3, 6, 6 }, 4, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, NULL);
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  for (gint64 i = 0; i < n * 3 * 36; i++)
    ((guint8 *) ortrain_tensor_peek_writable (images))[i] = (guint8) (i * 7);
  for (gint64 i = 0; i < n; i++)
    ((gint64 *) ortrain_tensor_peek_writable (labels))[i] = i;
  ortrain_tensor_dict_set (tensors, "image", images);
  ortrain_tensor_dict_set (tensors, "labels", labels);
  return ortrain_tensor_dataset_new (tensors, NULL);
}

/* Also counts who was given which seed. */
static gboolean
remember (OrtrainTensorDict *item, guint64 seed, gpointer data, GError **error)
{
  const double label = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (item, "labels"), 0);
  g_assert_cmpuint (seed, <, (guint64) 1 << 53);
  g_hash_table_add (data, g_strdup_printf ("%g %" G_GUINT64_FORMAT, label, seed));
  return TRUE;
}

static OrtrainDataset *
make_transformed (OrtrainTransform *last)
{
  const double half[] = { 0.5 };
  g_autoptr (OrtrainDataset) source = make_dataset ();
  g_autoptr (OrtrainTransform) crop = ortrain_random_crop_new (6, 6, 2),
                               flip = ortrain_random_horizontal_flip_new (0.5),
                               floats = ortrain_to_float_new (1.0 / 255), resize = ortrain_resize_new (5, 4),
                               normalize = ortrain_normalize_new (half, 1, half, 1, NULL);
  OrtrainTransform *transforms[] = { crop, flip, floats, resize, normalize, last };
  OrtrainDataset *dataset = ortrain_transformed_dataset_new (source, transforms, last != NULL ? 6 : 5);
  g_object_set (dataset, "seed", (guint64) 9, NULL);
  return dataset;
}

/* The images of an epoch by their items, whatever the order. */
static GPtrArray *
read_images (OrtrainDataset *dataset, guint prefetch, gboolean shuffle, guint batch_size, guint64 epoch)
{
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, batch_size);
  GPtrArray *images = g_ptr_array_new_with_free_func (g_object_unref);
  g_ptr_array_set_size (images, N_ITEMS);
  g_object_set (loader, "prefetch", prefetch, "shuffle", shuffle, "epoch", epoch, NULL);
  for (;;)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &error);
      g_assert_no_error (error);
      if (batch == NULL)
        return images;
      OrtrainTensor *all = ortrain_tensor_dict_get (batch, "image"),
                    *labels = ortrain_tensor_dict_get (batch, "labels");
      for (gint64 i = 0; i < ortrain_tensor_get_dim (all, 0); i++)
        {
          g_autoptr (OrtrainTensor) row = ortrain_tensor_slice_rows (all, i, i + 1, NULL);
          images->pdata[(gsize) ortrain_tensor_get_scalar (labels, i)] = ortrain_tensor_copy (row, NULL);
        }
    }
}

static guint
count_equal (GPtrArray *a, GPtrArray *b)
{
  guint n = 0;
  for (guint i = 0; i < N_ITEMS; i++)
    n += ortrain_tensor_equal (a->pdata[i], b->pdata[i]);
  return n;
}

/* Random choices are a function of seed, epoch and item, not of the order, the batches, or the threads. */
static void
test_dataset (void)
{
  g_autoptr (OrtrainDataset) dataset = make_transformed (NULL);
  g_assert_true (ortrain_dataset_is_thread_safe (dataset));
  g_assert_cmpuint (ortrain_dataset_get_length (dataset), ==, N_ITEMS);
  g_autoptr (GPtrArray) expected = read_images (dataset, 0, FALSE, 5, 3);
  const struct
  {
    guint prefetch, batch_size;
    gboolean shuffle;
  } ways[] = { { 0, 1, FALSE }, { 0, 12, TRUE }, { 2, 5, TRUE }, { 3, 1, FALSE }, { 1, 4, FALSE } };
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autoptr (GPtrArray) images = read_images (dataset, ways[i].prefetch, ways[i].shuffle, ways[i].batch_size, 3);
      g_assert_cmpuint (count_equal (images, expected), ==, N_ITEMS);
    }
  g_autoptr (GPtrArray) later = read_images (dataset, 2, TRUE, 5, 4);
  g_assert_cmpuint (count_equal (later, expected), <, 3);
  g_autoptr (GPtrArray) far = read_images (dataset, 2, TRUE, 5, 3 + ((guint64) 1 << 32));
  g_assert_cmpuint (count_equal (far, expected), <, 3);
  ortrain_transformed_dataset_set_seed (ORTRAIN_TRANSFORMED_DATASET (dataset), 10);
  g_autoptr (GPtrArray) other = read_images (dataset, 2, TRUE, 5, 3);
  g_assert_cmpuint (count_equal (other, expected), <, 3);

  /* each transform has random numbers of its own: two that mirror do not undo each other */
  g_autoptr (OrtrainDataset) source = make_dataset ();
  g_autoptr (OrtrainTransform) one = ortrain_random_horizontal_flip_new (0.5);
  OrtrainTransform *two[] = { one, one };
  g_autoptr (OrtrainDataset) twice = ortrain_transformed_dataset_new (source, two, 2);
  g_autoptr (GPtrArray) plain = read_images (source, 0, FALSE, 5, 0), mirrored = read_images (twice, 0, FALSE, 5, 0);
  g_assert_cmpuint (count_equal (plain, mirrored), >, 0);
  g_assert_cmpuint (count_equal (plain, mirrored), <, N_ITEMS);

  /* without a loader: epoch 0 */
  g_autoptr (GPtrArray) first = read_images (dataset, 2, TRUE, 5, 0);
  g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (dataset, 7, NULL);
  g_autofree char *a = ortrain_tensor_to_string (ortrain_tensor_dict_get (item, "image"));
  g_autofree char *b = ortrain_tensor_to_string (first->pdata[7]);
  g_assert_true (g_str_has_prefix (a, "float32[3, 4, 5] ") && g_str_has_prefix (b, "float32[1, 3, 4, 5] "));
  g_assert_cmpstr (strchr (a, ']') + 1, ==, strchr (b, ']') + 1);
}

/* Items of a subset are those of the other dataset, random numbers included. */
static void
test_subset (void)
{
  g_autoptr (GError) error = NULL;
  const guint64 indices[] = { 7, 2, 7, 11, 0 }, past = N_ITEMS;
  g_autoptr (OrtrainDataset) whole = make_transformed (NULL);
  g_autoptr (OrtrainDataset) part = ortrain_subset_dataset_new (whole, indices, 5, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_dataset_is_thread_safe (part));
  g_assert_cmpuint (ortrain_dataset_get_length (part), ==, 5);
  g_assert_cmpint (ortrain_subset_dataset_get_source_index (ORTRAIN_SUBSET_DATASET (part), 3), ==, 11);
  g_assert_cmpint (ortrain_subset_dataset_get_source_index (ORTRAIN_SUBSET_DATASET (part), 5), ==, -1);
  g_autoptr (GPtrArray) expected = read_images (whole, 0, FALSE, 5, 3);
  for (guint prefetch = 0; prefetch < 3; prefetch++)
    {
      g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (part, 1);
      g_object_set (loader, "prefetch", prefetch, "epoch", (guint64) 3, NULL);
      for (guint i = 0; i < 5; i++)
        {
          g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
          g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (batch, "image"), expected->pdata[indices[i]]));
        }
    }
  g_assert_null (ortrain_subset_dataset_new (whole, &past, 1, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY);
  g_autoptr (OrtrainDataset) none = ortrain_subset_dataset_new (whole, NULL, 0, NULL);
  g_autoptr (OrtrainDataset) bare = g_object_new (ORTRAIN_TYPE_SUBSET_DATASET, NULL);
  g_assert_cmpuint (ortrain_dataset_get_length (none) + ortrain_dataset_get_length (bare), ==, 0);

  /* more items than fit on the stack */
  g_autofree guint64 *many = g_new (guint64, 1000);
  for (guint i = 0; i < 1000; i++)
    many[i] = i % N_ITEMS;
  g_autoptr (OrtrainDataset) source = make_dataset ();
  g_autoptr (OrtrainDataset) large = ortrain_subset_dataset_new (source, many, 1000, NULL);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (large, 1000);
  g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (batch, "labels"), 999), ==, 999 % N_ITEMS);
}

static void
test_function (void)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (OrtrainTransform) function =
      ortrain_function_transform_new (remember, g_hash_table_ref (seen), (GDestroyNotify) g_hash_table_unref);
  g_autoptr (OrtrainDataset) dataset = make_transformed (function), plain = make_transformed (NULL);
  g_assert_false (ortrain_dataset_is_thread_safe (dataset));
  g_autoptr (GPtrArray) images = read_images (dataset, 2, TRUE, 5, 3), expected = read_images (plain, 0, FALSE, 5, 3);
  g_assert_cmpuint (count_equal (images, expected), ==, N_ITEMS);
  g_assert_cmpuint (g_hash_table_size (seen), ==, N_ITEMS);
  g_ptr_array_unref (g_steal_pointer (&images));
  images = read_images (dataset, 0, FALSE, 1, 3);
  g_assert_cmpuint (g_hash_table_size (seen), ==, N_ITEMS); /* the same seeds */
  g_ptr_array_unref (g_steal_pointer (&images));
  images = read_images (dataset, 0, FALSE, 1, 4);
  g_assert_cmpuint (g_hash_table_size (seen), ==, 2 * N_ITEMS);

  /* one that says so is called on any thread */
  ortrain_transform_set_thread_safe (function, TRUE);
  g_autoptr (OrtrainDataset) safe = make_transformed (function);
  g_assert_true (ortrain_dataset_is_thread_safe (safe));
}

static gboolean
refuse (OrtrainTensorDict *item, guint64 seed, gpointer data, GError **error)
{
  const guint kind = GPOINTER_TO_UINT (data);
  if (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (item, "labels"), 0) < 6)
    return TRUE;
  if (kind == 0)
    g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_IO, "No");
  else if (kind == 1)
    {
      g_autoptr (OrtrainTensor) odd = make_image (1, 1, 1);
      ortrain_tensor_dict_set (item, "image", odd);
      return TRUE;
    }
  return FALSE;
}

static void
test_errors (void)
{
  static const char *const messages[] = {
    "Item 6, FunctionTransform: No",
    "Item 6: tensor 'image' is float32[1, 1, 1] 0, unlike that of the first item of its batch; the items of a batch "
    "need "
    "equal types and shapes",
    "Item 6, FunctionTransform: apply of FunctionTransform returned false, and set no error",
  };
  for (guint kind = 0; kind < 3; kind++)
    for (guint prefetch = 0; prefetch < 3; prefetch++)
      {
        g_autoptr (OrtrainTransform) function = ortrain_function_transform_new (refuse, GUINT_TO_POINTER (kind), NULL);
        ortrain_transform_set_thread_safe (function, TRUE);
        g_autoptr (OrtrainDataset) dataset = make_transformed (function);
        g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 5);
        ortrain_data_loader_set_prefetch (loader, prefetch);
        g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
        g_assert_nonnull (batch);
        g_autoptr (GError) error = NULL;
        g_assert_null (ortrain_data_loader_next (loader, &error));
        g_assert_cmpstr (error->message, ==, messages[kind]);
      }
}

/* ---- training ---- */

static OrtrainTrainingSession *
make_session (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("g");
  ortrain_graph_builder_set_seed (builder, 1);
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "image", ORTRAIN_DTYPE_FLOAT32, "n,3,4,5");
  x = ortrain_graph_builder_linear (builder, ortrain_graph_builder_flatten (builder, x), "fc", N_ITEMS, TRUE);
  ortrain_graph_builder_add_output (builder, x, "logits");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.1);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

typedef struct
{
  GThread *thread;
  guint n;
} Caller;

static gboolean
note_thread (OrtrainTensorDict *item, guint64 seed, gpointer data, GError **error)
{
  Caller *caller = data;
  g_assert_true (caller->thread == g_thread_self ());
  caller->n++;
  return TRUE;
}

/* In asynchronous training a function runs where training was asked for. The losses are those of the library's own
 * threads, and of a training that is resumed from a checkpoint. */
static void
test_training (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) expected = NULL;
  for (guint way = 0; way < 3; way++)
    {
      Caller caller = { g_thread_self (), 0 };
      g_autoptr (OrtrainTransform) function = ortrain_function_transform_new (note_thread, &caller, NULL);
      g_autoptr (OrtrainDataset) dataset = make_transformed (way > 0 ? function : NULL);
      g_autoptr (OrtrainTrainingSession) session = make_session ();
      g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
      g_autoptr (OrtrainTrainingHistory) history = NULL;
      g_object_set (trainer, "epochs", 3, "batch-size", 5, NULL);
      if (way < 2)
        history = ortrain_trainer_fit (trainer, NULL, &error);
      else
        {
          Wait wait = { .loop = g_main_loop_new (NULL, FALSE) };
          ortrain_trainer_fit_async (trainer, NULL, got_result, &wait);
          g_main_loop_run (wait.loop);
          history = ortrain_trainer_fit_finish (trainer, wait.result, &error);
          g_object_unref (wait.result);
          g_main_loop_unref (wait.loop);
        }
      g_assert_no_error (error);
      g_assert_cmpuint (caller.n, ==, way > 0 ? 3 * N_ITEMS : 0);
      g_autoptr (GBytes) losses = ortrain_training_history_get_losses (history);
      if (expected == NULL)
        expected = g_bytes_ref (losses);
      g_assert_true (g_bytes_equal (losses, expected));
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transforms/resize", test_resize);
  g_test_add_func ("/transforms/crop", test_crop);
  g_test_add_func ("/transforms/flip", test_flip);
  g_test_add_func ("/transforms/refused", test_refused);
  g_test_add_func ("/transforms/dataset", test_dataset);
  g_test_add_func ("/transforms/subset", test_subset);
  g_test_add_func ("/transforms/function", test_function);
  g_test_add_func ("/transforms/errors", test_errors);
  g_test_add_func ("/transforms/training", test_training);
  return g_test_run ();
}
