/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include <glib/gstdio.h>
#include <stdlib.h>

#include <string.h>

/* A dataset as an application would derive it: item i is { "x": float32 [2] = i, "y": int64 = -i }. */
#define TEST_TYPE_DATASET (test_dataset_get_type ())
G_DECLARE_FINAL_TYPE (TestDataset, test_dataset, TEST, DATASET, OrtrainDataset)

struct _TestDataset
{
  OrtrainDataset parent_instance;
  guint64 ragged; /* this item has another shape */
  guint64 silent; /* this one gives nothing, without an error */
};

G_DEFINE_FINAL_TYPE (TestDataset, test_dataset, ORTRAIN_TYPE_DATASET)

static guint64
test_dataset_get_length (OrtrainDataset *dataset)
{
  return 10;
}

static OrtrainTensorDict *
test_dataset_get_item (OrtrainDataset *dataset, guint64 index, GError **error)
{
  TestDataset *self = TEST_DATASET (dataset);
  if (index == self->silent)
    return NULL;
  OrtrainTensorDict *item = ortrain_tensor_dict_new ();
  gint64 n = index == self->ragged ? 3 : 2, y = -(gint64) index;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (&n, 1, (float[]){ index, index, index }, (gsize) n, error);
  g_autoptr (OrtrainTensor) label = ortrain_tensor_new_ints (NULL, 0, &y, 1, error);
  ortrain_tensor_dict_set (item, "x", x);
  ortrain_tensor_dict_set (item, "y", label);
  return item;
}

static void
test_dataset_class_init (TestDatasetClass *klass)
{
  ORTRAIN_DATASET_CLASS (klass)->get_length = test_dataset_get_length;
  ORTRAIN_DATASET_CLASS (klass)->get_item = test_dataset_get_item;
}

static void
test_dataset_init (TestDataset *self)
{
  self->ragged = self->silent = G_MAXUINT64;
}

static void
test_derived (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataset) dataset = g_object_new (TEST_TYPE_DATASET, NULL);
  guint64 indices[] = { 3, 9, 0 };
  g_autoptr (OrtrainTensorDict) batch = ortrain_dataset_get_batch (dataset, indices, 3, &error);
  g_assert_no_error (error);
  g_autofree char *text = ortrain_tensor_dict_to_string (batch);
  g_assert_cmpstr (text, ==, "x: float32[3, 2] 3 3 9 9 0 0\ny: int64[3] -3 -9 0");

  guint64 past = 10;
  g_assert_null (ortrain_dataset_get_batch (dataset, &past, 1, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY);
  g_clear_error (&error);
  TEST_DATASET (dataset)->ragged = 9;
  g_assert_null (ortrain_dataset_get_batch (dataset, indices, 3, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
  g_clear_error (&error);
  TEST_DATASET (dataset)->silent = 9;
  g_assert_null (ortrain_dataset_get_batch (dataset, indices, 3, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
  g_clear_error (&error);

  /* through a loader; an error does not move it on */
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 4);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTensorDict) good = ortrain_data_loader_next (loader, &error);
      g_assert_nonnull (good);
    }
  g_assert_null (ortrain_data_loader_next (loader, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
  g_clear_error (&error);
  TEST_DATASET (dataset)->silent = TEST_DATASET (dataset)->ragged = G_MAXUINT64;
  g_autoptr (OrtrainTensorDict) third = ortrain_data_loader_next (loader, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (third, "x"), 0), ==, 8);
}

static OrtrainDataset *
make_dataset (gint64 n)
{
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, (gint64[]){ n, 3 }, 2, NULL);
  g_autoptr (OrtrainTensor) y = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, NULL);
  for (gint64 i = 0; i < n; i++)
    {
      memset ((guint8 *) ortrain_tensor_peek_writable (x) + 3 * i, (int) i, 3);
      ((gint64 *) ortrain_tensor_peek_writable (y))[i] = i;
    }
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (tensors, "x", x);
  ortrain_tensor_dict_set (tensors, "y", y);
  g_autoptr (GError) error = NULL;
  OrtrainDataset *dataset = ortrain_tensor_dataset_new (tensors, &error);
  g_assert_no_error (error);
  return dataset;
}

/* The items of the next epoch, as text: "0 1 2|3 4|" */
static char *
read_epoch (OrtrainDataLoader *loader)
{
  GString *s = g_string_new (NULL);
  for (;;)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &error);
      g_assert_no_error (error);
      if (batch == NULL)
        return g_string_free (s, FALSE);
      OrtrainTensor *x = ortrain_tensor_dict_get (batch, "x"), *y = ortrain_tensor_dict_get (batch, "y");
      for (gint64 i = 0; i < ortrain_tensor_get_dim (y, 0); i++)
        {
          double item = ortrain_tensor_get_scalar (y, i);
          g_assert_cmpfloat (ortrain_tensor_get_scalar (x, 3 * i + 2), ==, item);
          g_string_append_printf (s, "%s%g", i > 0 ? " " : "", item);
        }
      g_string_append_c (s, '|');
    }
}

static void
test_loader_order (void)
{
  g_autoptr (OrtrainDataset) dataset = make_dataset (5);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 2);
  for (guint epoch = 0; epoch < 2; epoch++)
    {
      g_assert_cmpuint (ortrain_data_loader_get_epoch (loader), ==, epoch);
      g_autofree char *items = read_epoch (loader);
      g_assert_cmpstr (items, ==, "0 1|2 3|4|");
    }
  g_assert_cmpuint (ortrain_data_loader_get_n_batches (loader), ==, 3);
  ortrain_data_loader_set_drop_last (loader, TRUE);
  g_assert_cmpuint (ortrain_data_loader_get_n_batches (loader), ==, 2);
  g_autofree char *items = read_epoch (loader);
  g_assert_cmpstr (items, ==, "0 1|2 3|");
  g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
  g_assert_nonnull (batch);
  ortrain_data_loader_reset (loader);
  g_autofree char *again = read_epoch (loader);
  g_assert_cmpstr (again, ==, items);

  g_autoptr (GError) error = NULL;
  ortrain_data_loader_set_batch_size (loader, 6);
  g_assert_null (ortrain_data_loader_next (loader, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY);
}

static void
test_loader_shuffle (void)
{
  g_autoptr (OrtrainDataset) dataset = make_dataset (200);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 200);
  ortrain_data_loader_set_shuffle (loader, TRUE);
  ortrain_data_loader_set_seed (loader, 7);
  g_autofree char *first = read_epoch (loader), *second = read_epoch (loader);
  g_assert_cmpstr (first, !=, second);
  g_auto (GStrv) items = g_strsplit (first, " ", -1);
  gboolean seen[200] = { FALSE };
  g_assert_cmpuint (g_strv_length (items), ==, 200);
  for (guint i = 0; i < 200; i++)
    {
      int item = atoi (items[i]);
      g_assert_false (seen[item]);
      seen[item] = TRUE;
    }
  /* the same seed gives the same epochs, another one does not */
  g_autoptr (OrtrainDataLoader) other = ortrain_data_loader_new (dataset, 200);
  g_object_set (other, "shuffle", TRUE, "seed", (guint64) 7, "epoch", (guint64) 1, NULL);
  g_autofree char *same = read_epoch (other);
  g_assert_cmpstr (same, ==, second);
  g_object_set (other, "seed", (guint64) 8, "epoch", (guint64) 1, NULL);
  g_autofree char *different = read_epoch (other);
  g_assert_cmpstr (different, !=, second);

  /* every item comes first about equally often: chi square over 5 items, 4 degrees of freedom */
  g_autoptr (OrtrainDataset) five = make_dataset (5);
  g_autoptr (OrtrainDataLoader) many = ortrain_data_loader_new (five, 1);
  ortrain_data_loader_set_shuffle (many, TRUE);
  guint counts[5] = { 0 };
  for (guint epoch = 0; epoch < 5000; epoch++)
    {
      ortrain_data_loader_set_epoch (many, epoch);
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (many, NULL);
      counts[(int) ortrain_tensor_get_scalar (ortrain_tensor_dict_get (batch, "y"), 0)]++;
    }
  double chi = 0;
  for (guint i = 0; i < 5; i++)
    chi += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000;
  g_assert_cmpfloat (chi, <, 18.5); /* one in a thousand, and the seed is fixed */
}

static void
test_loader_state (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataset) dataset = make_dataset (50);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 7);
  ortrain_data_loader_set_shuffle (loader, TRUE);
  ortrain_data_loader_set_seed (loader, 3);
  g_autofree char *whole = read_epoch (loader);
  g_assert_nonnull (whole);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
      g_assert_nonnull (batch);
    }
  g_autoptr (GVariant) state = ortrain_data_loader_get_state (loader);
  g_autofree char *rest = read_epoch (loader), *next = read_epoch (loader);

  g_autoptr (OrtrainDataLoader) other = ortrain_data_loader_new (dataset, 1);
  g_assert_true (ortrain_data_loader_set_state (other, state, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_data_loader_get_epoch (other), ==, 1);
  g_autofree char *rest2 = read_epoch (other), *next2 = read_epoch (other);
  g_assert_cmpstr (rest2, ==, rest);
  g_assert_cmpstr (next2, ==, next);

  g_autoptr (OrtrainDataset) shorter = make_dataset (49);
  g_autoptr (OrtrainDataLoader) wrong = ortrain_data_loader_new (shorter, 1);
  g_assert_false (ortrain_data_loader_set_state (wrong, state, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
  g_clear_error (&error);
  g_autoptr (GVariant) nonsense = g_variant_ref_sink (g_variant_new_string ("x"));
  g_assert_false (ortrain_data_loader_set_state (wrong, nonsense, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
}

/* Memory is used again only when nobody holds the batch, a tensor, a view or bytes of it. */
static void
test_loader_reuse (void)
{
  g_autoptr (OrtrainDataset) dataset = make_dataset (40);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 2);
  OrtrainTensorDict *batch = ortrain_data_loader_next (loader, NULL);
  gsize address = ortrain_tensor_get_address (ortrain_tensor_dict_get (batch, "x"));
  g_object_unref (batch);
  batch = ortrain_data_loader_next (loader, NULL);
  OrtrainTensor *x = ortrain_tensor_dict_get (batch, "x");
  g_assert_cmpuint (ortrain_tensor_get_address (x), ==, address);

  g_autoptr (OrtrainTensor) view = ortrain_tensor_slice_rows (x, 0, 1, NULL);
  g_object_unref (batch);
  batch = ortrain_data_loader_next (loader, NULL);
  x = ortrain_tensor_dict_get (batch, "x");
  g_assert_cmpuint (ortrain_tensor_get_address (x), !=, address);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (view, 0), ==, 2);

  address = ortrain_tensor_get_address (x);
  g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (x, NULL);
  g_object_unref (batch);
  batch = ortrain_data_loader_next (loader, NULL);
  g_assert_cmpuint (ortrain_tensor_get_address (ortrain_tensor_dict_get (batch, "x")), !=, address);
  g_assert_cmpuint (((const guint8 *) g_bytes_get_data (bytes, NULL))[0], ==, 4);
  g_object_unref (batch);
}

static void
test_conversion (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataset) dataset = make_dataset (5);
  OrtrainTensorDataset *tensors = ORTRAIN_TENSOR_DATASET (dataset);
  g_assert_true (ortrain_tensor_dataset_set_conversion (tensors, "x", ORTRAIN_DTYPE_FLOAT32, 0.5, &error));
  g_assert_true (ortrain_tensor_dataset_set_conversion (tensors, "y", ORTRAIN_DTYPE_INT32, 1, &error));
  g_assert_false (ortrain_tensor_dataset_set_conversion (tensors, "z", ORTRAIN_DTYPE_INT32, 1, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
  g_clear_error (&error);
  g_autoptr (OrtrainDataset) slice = ortrain_tensor_dataset_slice (tensors, 3, 5, &error);
  g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (slice, 0, &error);
  g_assert_no_error (error);
  g_autofree char *text = ortrain_tensor_dict_to_string (item);
  g_assert_cmpstr (text, ==, "x: float32[3] 1.5 1.5 1.5\ny: int32[] 3");
}

static void
test_mismatch (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  g_assert_null (ortrain_tensor_dataset_new (tensors, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY);
  g_clear_error (&error);
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new (ORTRAIN_DTYPE_INT8, (gint64[]){ 3, 2 }, 2, NULL);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new (ORTRAIN_DTYPE_INT8, (gint64[]){ 2, 3 }, 2, NULL);
  ortrain_tensor_dict_set (tensors, "a", a);
  ortrain_tensor_dict_set (tensors, "b", b);
  g_assert_null (ortrain_tensor_dataset_new (tensors, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
}

static void
test_fashion_mnist (void)
{
  g_autoptr (GError) error = NULL;
  const char *images = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz";
  const char *labels = "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz";
  if (!g_file_test (images, G_FILE_TEST_EXISTS))
    {
      g_test_skip ("the package dataset-fashion-mnist is not installed");
      return;
    }
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new_from_idx (images, labels, "image", "labels", &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 64);
  g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &error);
  g_assert_no_error (error);
  OrtrainTensor *image = ortrain_tensor_dict_get (batch, "image");
  g_autofree char *shape = ortrain_shape_to_string (ortrain_tensor_peek_dims (image), ortrain_tensor_get_rank (image));
  g_assert_cmpstr (shape, ==, "[64, 1, 28, 28]");
  g_assert_cmpint (ortrain_tensor_get_dtype (image), ==, ORTRAIN_DTYPE_FLOAT32);
  float high = 0, low = 1;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (image); i++)
    {
      high = MAX (high, ((const float *) ortrain_tensor_peek (image))[i]);
      low = MIN (low, ((const float *) ortrain_tensor_peek (image))[i]);
    }
  g_assert_cmpfloat (high, ==, 1);
  g_assert_cmpfloat (low, ==, 0);
  g_assert_cmpint (ortrain_tensor_get_dtype (ortrain_tensor_dict_get (batch, "labels")), ==, ORTRAIN_DTYPE_INT64);
}

static OrtrainDataset *
parse_csv (const char *text, const char *label, GError **error)
{
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("ortrain-XXXXXX.csv", &path, NULL);
  g_close (fd, NULL);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  OrtrainDataset *dataset =
      ortrain_tensor_dataset_new_from_csv (path, "x", label, label != NULL ? "labels" : NULL, error);
  g_unlink (path);
  return dataset;
}

static void
test_csv (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataset) dataset = parse_csv ("\xef\xbb\xbf"
                                                  "a,\"the \"\"b\"\"\",kind\r\n"
                                                  "1, 2.5 ,rose\r\n-3e1,\"4\",\"lily, white\"\r\n\r\n5,6,rose",
                                                  "kind", &error);
  g_assert_no_error (error);
  OrtrainTensorDict *tensors = ortrain_tensor_dataset_get_tensors (ORTRAIN_TENSOR_DATASET (dataset));
  g_autofree char *text = ortrain_tensor_dict_to_string (tensors);
  g_assert_cmpstr (text, ==, "x: float32[3, 2] 1 2.5 -30 4 5 6\nlabels: int64[3] 0 1 0");

  g_autoptr (OrtrainDataset) numbers = parse_csv ("y,x\n3,1\n-2,2\n", "y", &error);
  g_assert_no_error (error);
  g_autofree char *text2 =
      ortrain_tensor_dict_to_string (ortrain_tensor_dataset_get_tensors (ORTRAIN_TENSOR_DATASET (numbers)));
  g_assert_cmpstr (text2, ==, "x: float32[2, 1] 1 2\nlabels: int64[2] 3 -2");

  static const char *const wrong[] = { "",      "a\n",      "a,b\n1\n",    "a,b\n1,2,3\n", "a\nx\n",
                                       "a\n\n", "a\n\"1\n", "a\n\"1\"2\n", "a,b\n1,\n" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (parse_csv (wrong[i], NULL, &error));
      g_assert_nonnull (error);
      g_clear_error (&error);
    }
  g_assert_null (parse_csv ("a,b\n1,2\n", "c", &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
}

static void
test_tokens (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("ortrain-XXXXXX.bin", &path, NULL);
  g_close (fd, NULL);
  guint16 tokens[10];
  for (guint i = 0; i < 10; i++)
    tokens[i] = (guint16) (65000 + i);
  g_assert_true (g_file_set_contents (path, (const char *) tokens, sizeof tokens, NULL));
  g_autoptr (OrtrainDataset) dataset =
      ortrain_token_dataset_new_from_file (path, ORTRAIN_DTYPE_UINT16, 3, "ids", "labels", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_dataset_get_length (dataset), ==, 3);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 2);
  g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &error);
  g_autofree char *text = ortrain_tensor_dict_to_string (batch);
  g_assert_cmpstr (text, ==,
                   "ids: int64[2, 3] 65000 65001 65002 65003 65004 65005\n"
                   "labels: int64[2, 3] 65001 65002 65003 65004 65005 65006");
  g_assert_null (ortrain_token_dataset_new_from_file (path, ORTRAIN_DTYPE_UINT16, 10, "ids", "labels", &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY);
  g_clear_error (&error);
  g_assert_null (ortrain_token_dataset_new_from_file (path, ORTRAIN_DTYPE_FLOAT32, 1, "ids", "labels", &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH);
  g_unlink (path);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/data/derived", test_derived);
  g_test_add_func ("/data/loader/order", test_loader_order);
  g_test_add_func ("/data/loader/shuffle", test_loader_shuffle);
  g_test_add_func ("/data/loader/state", test_loader_state);
  g_test_add_func ("/data/loader/reuse", test_loader_reuse);
  g_test_add_func ("/data/tensors/conversion", test_conversion);
  g_test_add_func ("/data/tensors/mismatch", test_mismatch);
  g_test_add_func ("/data/idx/fashion-mnist", test_fashion_mnist);
  g_test_add_func ("/data/csv", test_csv);
  g_test_add_func ("/data/tokens", test_tokens);
  return g_test_run ();
}
