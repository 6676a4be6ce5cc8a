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
  ortrain_data_loader_set_prefetch (loader, 0); /* test-prefetch.c has the tests with it */
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
parse_csv (const char *text, OrtrainCsvFormat *format, GError **error)
{
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("ortrain-XXXXXX.csv", &path, NULL);
  g_close (fd, NULL);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  OrtrainDataset *dataset = ortrain_tensor_dataset_new_from_csv (path, format, error);
  g_unlink (path);
  return dataset;
}

/* x: all columns that nobody else takes; labels: of dtype, UNDEFINED for none; column: NULL for the default */
static OrtrainCsvFormat *
make_format (OrtrainDType dtype, const char *column)
{
  OrtrainCsvFormat *format = ortrain_csv_format_new ();
  const char *const columns[] = { column, NULL };
  ortrain_csv_format_add_input (format, "x", ORTRAIN_DTYPE_FLOAT32, NULL);
  if (dtype != ORTRAIN_DTYPE_UNDEFINED)
    ortrain_csv_format_add_target (format, "labels", dtype, column != NULL ? columns : NULL);
  return format;
}

static void
assert_csv (OrtrainCsvFormat *format, const char *text, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataset) dataset = parse_csv (text, format, &error);
  g_assert_no_error (error);
  g_autofree char *found =
      ortrain_tensor_dict_to_string (ortrain_tensor_dataset_get_tensors (ORTRAIN_TENSOR_DATASET (dataset)));
  g_assert_cmpstr (found, ==, expected);
}

static void
assert_no_csv (OrtrainCsvFormat *format, const char *text, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (parse_csv (text, format, &error));
  g_assert_true (error != NULL && error->domain == ORTRAIN_DATA_ERROR);
  if (!g_str_has_suffix (error->message, message))
    g_error ("“%s” does not end in “%s”", error->message, message);
}

static void
test_csv (void)
{
  g_autoptr (OrtrainCsvFormat) kinds = make_format (ORTRAIN_DTYPE_INT64, "kind");
  assert_csv (kinds,
              "\xef\xbb\xbf"
              "a,\"the \"\"b\"\"\",kind\r\n"
              "1, 2.5 ,rose\r\n-3e1,\"4\",\"lily, white\"\r\n\r\n5,6,rose",
              "x: float32[3, 2] 1 2.5 -30 4 5 6\nlabels: int64[3] 1 0 1");
  g_autoptr (OrtrainCsvFormat) numbers = make_format (ORTRAIN_DTYPE_INT64, "y");
  assert_csv (numbers, "y,x\n3,1\n-2,2\n4.0,3\n", "x: float32[3, 1] 1 2 3\nlabels: int64[3] 3 -2 4");

  static const struct
  {
    const char *text, *message;
  } wrong[] = {
    { "", "the file is empty" },
    { "a\n", "the table has no rows" },
    { "a,b\n1\n", "line 2: Line has 1 field, the first line has 2" },
    { "a,b\n1,2\n1,2,3\n", "line 3: Line has more than the 2 fields of the first line" },
    { "a\nx\n", "line 2: Column 'a': 'x' is not a number (texts may be classes to be learned; "
                "for an input, make a column of 0 and 1 of each of them)" },
    { "a\n\n\"1\n", "line 3: Unterminated quote, or text after a closing quote" },
    { "a\n\"1\"2\n", "line 2: Unterminated quote, or text after a closing quote" },
    { "\"a\nb\",c\n1,2\n1,\n", "line 4: Column 'c' is empty" },
    { "a\r\n1\r\n\r\nnan\r\n", "line 4: Column 'a': 'nan' is not a finite number of float32" },
    { "a\n1e300\n", "line 2: Column 'a': '1e300' is not a finite number of float32" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr (OrtrainCsvFormat) format = make_format (ORTRAIN_DTYPE_UNDEFINED, NULL);
      assert_no_csv (format, wrong[i].text, wrong[i].message);
    }
  g_autoptr (OrtrainCsvFormat) missing = make_format (ORTRAIN_DTYPE_INT64, "c");
  assert_no_csv (missing, "a,b\n1,2\n", "line 1: There is no column 'c'; there are 'a', 'b'");
}

/* Types are those of the target, whatever the cells look like. */
static void
test_csv_types (void)
{
  const char *halves = "a,labels\n1,0.5\n2,1.75\n3,2\n", *whole = "a,labels\n1,0\n2,1\n";
  g_autoptr (OrtrainCsvFormat) floats = make_format (ORTRAIN_DTYPE_FLOAT32, NULL);
  assert_csv (floats, halves, "x: float32[3, 1] 1 2 3\nlabels: float32[3] 0.5 1.75 2");
  assert_csv (floats, whole, "x: float32[2, 1] 1 2\nlabels: float32[2] 0 1");
  g_autoptr (OrtrainCsvFormat) classes = make_format (ORTRAIN_DTYPE_INT64, NULL);
  assert_no_csv (
      classes, halves,
      "line 2: Column 'labels': 0.5 is not an integer, as class numbers are; to predict numbers, use the loss "
      "mse, l1 or huber");
  assert_csv (classes, whole, "x: float32[2, 1] 1 2\nlabels: int64[2] 0 1");
  /* the file before had whole numbers */
  assert_no_csv (classes, "a,labels\n1,0\n2,cat\n",
                 "line 3: Column 'labels': 'cat' is not an integer, as the classes of the previous file are");

  /* shapes and types of a graph */
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("g");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,2,2");
  ortrain_graph_builder_add_input (builder, "ids", ORTRAIN_DTYPE_INT64, "n");
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_relu (builder, x), "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  OrtrainGraph *graph = ortrain_model_get_graph (model, &error);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new_for_graph (graph, NULL);
  assert_csv (format, "a,b,ids,c,d\n1,2,7,3,4\n", "x: float32[1, 2, 2] 1 2 3 4\nids: int64[1] 7");
  assert_no_csv (format, "a,b,ids,c\n1,2,7,3\n",
                 "line 1: 'x' needs 4 numbers per item, but the table has 3 columns for it");
  assert_no_csv (format, "a,b,ids,c,d\n1,2,7.5,3,4\n",
                 "line 2: Column 'ids': 7.5 is not an integer, which 'ids' needs");
}

static void
test_csv_header (void)
{
  g_autoptr (OrtrainCsvFormat) format = make_format (ORTRAIN_DTYPE_INT64, NULL);
  assert_csv (format, "1,2,0\n3,4,1\n", "x: float32[2, 2] 1 2 3 4\nlabels: int64[2] 0 1"); /* no row is lost */
  assert_csv (format, "a,b,c\n3,4,1\n", "x: float32[1, 2] 3 4\nlabels: int64[1] 1");
  assert_csv (format, "labels,b,c\n3,4,1\n", "x: float32[1, 2] 4 1\nlabels: int64[1] 3");
  assert_no_csv (format, "a,2,0\n3,4,1\n",
                 "line 1: Some cells are numbers, some are not: set header to yes or no, depending on whether this "
                 "line names the columns");
  assert_no_csv (
      format, "0,1,2,3\n5,6,7,1\n",
      "line 1: The cells are 0, 1, 2 …: set header to yes or no, depending on whether this line names the columns");
  ortrain_csv_format_set_header (format, ORTRAIN_CSV_HEADER_YES);
  assert_csv (format, "0,1,2,3\n5,6,7,1\n", "x: float32[1, 3] 5 6 7\nlabels: int64[1] 1");
  ortrain_csv_format_set_header (format, ORTRAIN_CSV_HEADER_NO);
  assert_csv (format, "0,1,2,3\n5,6,7,1\n", "x: float32[2, 3] 0 1 2 5 6 7\nlabels: int64[2] 3 1");
  g_assert_cmpint (ortrain_csv_format_get_header (format), ==, ORTRAIN_CSV_HEADER_NO);
  /* without names, columns have numbers */
  g_autoptr (OrtrainCsvFormat) first = make_format (ORTRAIN_DTYPE_INT64, "1");
  assert_csv (first, "red,3,4\nblue,5,6\n", "x: float32[2, 2] 3 4 5 6\nlabels: int64[2] 1 0");
  g_autoptr (OrtrainCsvFormat) far = make_format (ORTRAIN_DTYPE_INT64, "4");
  ortrain_csv_format_set_header (far, ORTRAIN_CSV_HEADER_NO);
  assert_no_csv (far, "1,2,3\n", "line 1: There is no column '4'; without a header, columns are named 1 to 3");
}

static void
test_csv_classes (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainCsvFormat) format = make_format (ORTRAIN_DTYPE_INT64, "k");
  g_assert_null (ortrain_csv_format_get_classes (format));
  assert_csv (format, "a,k\n1,pear\n2,apple\n3,10\n4,9\n5,Zoo\n",
              "x: float32[5, 1] 1 2 3 4 5\nlabels: int64[5] 4 3 1 0 2");
  g_autofree char *list = g_strjoinv (" ", (char **) ortrain_csv_format_get_classes (format));
  g_assert_cmpstr (list, ==, "9 10 Zoo apple pear");
  /* other files follow, in whatever order their classes come */
  assert_csv (format, "a,k\n1,apple\n2,pear\n3,9\n", "x: float32[3, 1] 1 2 3\nlabels: int64[3] 3 4 0");
  assert_no_csv (format, "a,k\n1,apple\n2,plum\n",
                 "line 3: Column 'k': 'plum' is not one of the 5 classes, '9', '10', 'Zoo', 'apple', 'pear'");
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "classes.json", NULL);
  g_assert_true (ortrain_csv_format_save_classes (format, path, &error));
  g_autoptr (OrtrainCsvFormat) other = make_format (ORTRAIN_DTYPE_INT64, "k");
  g_assert_false (ortrain_csv_format_save_classes (other, path, &error));
  g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY);
  g_clear_error (&error);
  g_assert_true (ortrain_csv_format_load_classes (other, path, &error));
  assert_csv (other, "a,k\n1,pear\n", "x: float32[1, 1] 1\nlabels: int64[1] 4");
  static const char *const wrong[] = { "", "{}", "[]", "[1]", "[\"a\", \"a\"]", "[[\"a\"]]" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_true (g_file_set_contents (path, wrong[i], -1, NULL));
      g_assert_false (ortrain_csv_format_load_classes (other, path, &error));
      g_assert_nonnull (strstr (error->message, path));
      g_clear_error (&error);
    }
  assert_csv (other, "a,k\n1,pear\n", "x: float32[1, 1] 1\nlabels: int64[1] 4");
  g_unlink (path);
  g_assert_false (ortrain_csv_format_load_classes (other, path, &error));
  g_rmdir (folder);
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
  g_test_add_func ("/data/csv/types", test_csv_types);
  g_test_add_func ("/data/csv/header", test_csv_header);
  g_test_add_func ("/data/csv/classes", test_csv_classes);
  g_test_add_func ("/data/tokens", test_tokens);
  return g_test_run ();
}
