/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-available-memory-private.h"
#include "kernel-abi/ortrain-attributes-private.h"
#include "ortrain.h"
#include "tensor/ortrain-storage-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static OrtrainTensor *
floats (const char *shape, ...)
{
  gint64 dims[4];
  gsize rank = 0;
  g_auto (GStrv) parts = g_strsplit (shape, "x", -1);
  gint64 n = 1;
  for (; parts[rank] != NULL; rank++)
    n *= dims[rank] = g_ascii_strtoll (parts[rank], NULL, 10);
  g_autofree float *values = g_new (float, n);
  va_list args;
  va_start (args, shape);
  for (gint64 i = 0; i < n; i++)
    values[i] = (float) va_arg (args, double);
  va_end (args);
  return ortrain_tensor_new_floats (dims, rank, values, (gsize) n, NULL);
}

static void
assert_text (OrtrainTensor *tensor, const char *expected)
{
  g_assert_nonnull (tensor);
  g_autofree char *text = ortrain_tensor_to_string (tensor);
  g_assert_cmpstr (text, ==, expected);
}

static void
test_new (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) small = ortrain_tensor_new (ORTRAIN_DTYPE_INT32, (gint64[]){ 3 }, 1, &error);
  assert_text (small, "int32[3] 0 0 0");
  g_assert_cmpuint (ortrain_tensor_get_address (small) % 64, ==, 0);
  g_autoptr (OrtrainTensor) large = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, (gint64[]){ 1000, 1000 }, 2, &error);
  g_assert_no_error (error);
  assert_text (large, "float64[1000, 1000] 0 0 0 0 0 0 …");
  g_assert_cmpuint (ortrain_tensor_get_address (large) % 4096, ==, 0);
  g_autoptr (OrtrainTensor) empty = ortrain_tensor_new (ORTRAIN_DTYPE_INT8, (gint64[]){ 0, 5 }, 2, &error);
  assert_text (empty, "int8[0, 5]");
  g_assert_nonnull (ortrain_tensor_peek (empty));
  g_autoptr (OrtrainTensor) scalar = ortrain_tensor_new_scalar (2.5);
  assert_text (scalar, "float32[] 2.5");

  static const struct
  {
    int dtype;
    gint64 dims[18];
    gsize n_dims;
    int code;
  } wrong[] = {
    { ORTRAIN_DTYPE_STRING, { 1 }, 1, ORTRAIN_TENSOR_ERROR_DTYPE },
    { 0, { 1 }, 1, ORTRAIN_TENSOR_ERROR_DTYPE },
    { 17, { 1 }, 1, ORTRAIN_TENSOR_ERROR_DTYPE },
    { 1, { -1 }, 1, ORTRAIN_TENSOR_ERROR_SHAPE },
    { 1, { 1 }, 17, ORTRAIN_TENSOR_ERROR_SHAPE },
    { 1, { G_MAXINT64, 2 }, 2, ORTRAIN_TENSOR_ERROR_SHAPE },
    { 1, { G_MAXINT64 / 4 + 1 }, 1, ORTRAIN_TENSOR_ERROR_SHAPE },
    { 1, { G_MAXINT64 / 16 }, 1, ORTRAIN_TENSOR_ERROR_SHAPE },
    { 1, { G_MAXINT64 / 256 }, 1, ORTRAIN_TENSOR_ERROR_NO_MEMORY },
  };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (ortrain_tensor_new ((OrtrainDType) wrong[i].dtype, wrong[i].dims, wrong[i].n_dims, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, wrong[i].code);
      g_clear_error (&error);
    }
  gint64 two = 2;
  g_assert_null (ortrain_tensor_new_floats (&two, 1, (float[]){ 1, 2, 3 }, 3, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
}

static int n_freed;

static void
count_free (gpointer data)
{
  g_atomic_int_inc (&n_freed);
}

static void
test_bytes (void)
{
  g_autoptr (GError) error = NULL;
  static const float values[] = { 1, 2, 3 };
  n_freed = 0;
  g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (values, sizeof values, (GDestroyNotify) count_free, NULL);
  gint64 three = 3, two = 2;
  OrtrainTensor *tensor = ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_FLOAT32, &three, 1, bytes, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_peek (tensor) == values);
  g_assert_false (ortrain_tensor_get_writable (tensor));
  g_assert_null (ortrain_tensor_peek_writable (tensor));
  g_assert_false (ortrain_tensor_set_bytes (tensor, bytes, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT);
  g_clear_error (&error);

  /* exported bytes keep the memory, whatever becomes of the tensor and its storage */
  g_autoptr (GBytes) out = ortrain_tensor_get_bytes (tensor, &error);
  g_clear_pointer (&bytes, g_bytes_unref);
  ortrain_storage_release (ortrain_tensor_get_storage (tensor));
  g_assert_null (ortrain_tensor_peek (tensor));
  assert_text (tensor, "float32[3] (released)");
  g_assert_null (ortrain_tensor_get_bytes (tensor, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
  g_clear_error (&error);
  g_object_unref (tensor);
  g_assert_cmpint (n_freed, ==, 0);
  g_assert_true (g_bytes_get_data (out, NULL) == values);
  g_clear_pointer (&out, g_bytes_unref);
  g_assert_cmpint (n_freed, ==, 1);

  /* misaligned: a copy, read-only as the original */
  g_autoptr (GBytes) odd = g_bytes_new_static ((const char *) values + 1, 8);
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_FLOAT32, &two, 1, odd, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_get_address (copy) % 4, ==, 0);
  g_assert_cmpmem (ortrain_tensor_peek (copy), 8, (const char *) values + 1, 8);
  g_assert_false (ortrain_tensor_get_writable (copy));
  g_assert_null (ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_FLOAT32, &three, 1, odd, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
}

static void
test_address (void)
{
  g_autoptr (GError) error = NULL;
  _Alignas(8) float values[] = { 1, 2, 3, 4 };
  gint64 dims[] = { 2, 2 };
  GObject *object = g_object_new (G_TYPE_OBJECT, NULL);
  gpointer watch = object;
  g_object_add_weak_pointer (object, &watch);
  g_auto (GValue) owner = G_VALUE_INIT;
  g_value_init (&owner, G_TYPE_OBJECT);
  g_value_take_object (&owner, object);
  OrtrainTensor *tensor =
      ortrain_tensor_new_for_address (ORTRAIN_DTYPE_FLOAT32, dims, 2, (gsize) values, TRUE, &owner, &error);
  g_assert_no_error (error);
  g_value_unset (&owner);
  g_assert_nonnull (watch);
  ((float *) ortrain_tensor_peek_writable (tensor))[3] = 9;
  g_assert_cmpfloat (values[3], ==, 9);
  g_autoptr (OrtrainTensor) view = ortrain_tensor_slice_rows (tensor, 1, 2, &error);
  ortrain_tensor_release (tensor);
  ortrain_tensor_release (tensor);
  g_assert_nonnull (watch);
  assert_text (view, "float32[1, 2] 3 9");
  g_clear_object (&view);
  g_assert_null (watch);
  g_object_unref (tensor);

  g_assert_null (ortrain_tensor_new_for_address (ORTRAIN_DTYPE_FLOAT32, dims, 2, 0, TRUE, NULL, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_INVALID);
  g_clear_error (&error);

  /* misaligned memory is copied, whatever it comes from, and a copy cannot be written through */
  static const float numbers[] = { 1.5f, -2, 3, 4, 5, 6, 7, 8 };
  guint8 odd[sizeof numbers + 3];
  gint64 eight = 8;
  for (gsize shift = 1; shift < 4; shift++)
    {
      memcpy (odd + shift, numbers, sizeof numbers);
      g_autoptr (OrtrainTensor) copy =
          ortrain_tensor_new_for_address (ORTRAIN_DTYPE_FLOAT32, &eight, 1, (gsize) odd + shift, TRUE, NULL, &error);
      g_assert_no_error (error);
      g_autoptr (GBytes) bytes = g_bytes_new_static (odd + shift, sizeof numbers);
      g_autoptr (OrtrainTensor) of_bytes =
          ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_FLOAT32, &eight, 1, bytes, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (ortrain_tensor_get_address (copy) % sizeof (float), ==, 0);
      g_assert_cmpuint (ortrain_tensor_get_address (of_bytes) % sizeof (float), ==, 0);
      g_assert_true (ortrain_tensor_equal (copy, of_bytes));
      memset (odd, 0, sizeof odd);
      g_assert_cmpmem (ortrain_tensor_peek (copy), sizeof numbers, numbers, sizeof numbers);
      g_assert_false (ortrain_tensor_get_writable (copy));
    }
}

static void
test_storage (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainStorage) storage = ortrain_storage_new (64, &error);
  gint64 four = 4;
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_for_storage (ORTRAIN_DTYPE_FLOAT64, &four, 1, storage, 32, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_get_address (a), ==, ortrain_storage_get_address (storage) + 32);
  g_assert_null (ortrain_tensor_new_for_storage (ORTRAIN_DTYPE_FLOAT64, &four, 1, storage, 40, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_new_for_storage (ORTRAIN_DTYPE_FLOAT64, &four, 1, storage, G_MAXSIZE, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_new_for_storage (ORTRAIN_DTYPE_FLOAT64, &four, 1, storage, 4, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT);
  g_clear_error (&error);
  g_object_run_dispose (G_OBJECT (storage));
  g_assert_cmpuint (ortrain_storage_get_n_bytes (storage), ==, 0);
  g_assert_null (ortrain_tensor_copy (a, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_new_for_storage (ORTRAIN_DTYPE_FLOAT64, &four, 1, storage, 0, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
  g_clear_error (&error);

  /* bindings can make objects that no constructor made */
  g_autoptr (OrtrainTensor) bare = g_object_new (ORTRAIN_TYPE_TENSOR, NULL);
  g_autoptr (OrtrainStorage) bare_storage = g_object_new (ORTRAIN_TYPE_STORAGE, NULL);
  assert_text (bare, "undefined[] (released)");
  g_assert_true (isnan (ortrain_tensor_get_scalar (bare, 0)));
  g_assert_null (ortrain_tensor_cast (bare, ORTRAIN_DTYPE_FLOAT32, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_argmax (bare, 0, &error));
  g_clear_error (&error);
  g_assert_null (ortrain_tensor_to_dlpack (bare, &error));
  g_clear_error (&error);
  g_assert_false (ortrain_tensor_equal (bare, a));
  g_assert_cmpuint (ortrain_storage_get_address (bare_storage), ==, 0);
  ortrain_storage_release (bare_storage);
}

static void
test_views (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) t = floats ("2x3", 1., 2., 3., 4., 5., 6.);
  g_autoptr (OrtrainTensor) flat = ortrain_tensor_reshape (t, (gint64[]){ -1 }, 1, &error);
  assert_text (flat, "float32[6] 1 2 3 4 5 6");
  g_assert_true (ortrain_tensor_get_storage (flat) == ortrain_tensor_get_storage (t));
  g_autoptr (OrtrainTensor) third = ortrain_tensor_reshape (t, (gint64[]){ 3, 1, -1 }, 3, &error);
  assert_text (third, "float32[3, 1, 2] 1 2 3 4 5 6");
  static const gint64 wrong[][2] = { { -1, -1 }, { 4, -1 }, { 0, -1 }, { 2, 2 }, { -2, -3 }, { G_MAXINT64, 2 } };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (ortrain_tensor_reshape (t, wrong[i], 2, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
      g_clear_error (&error);
    }
  g_autoptr (OrtrainTensor) row = ortrain_tensor_slice_rows (t, 1, 2, &error);
  assert_text (row, "float32[1, 3] 4 5 6");
  g_autoptr (OrtrainTensor) none = ortrain_tensor_slice_rows (t, 2, 2, &error);
  assert_text (none, "float32[0, 3]");
  g_assert_null (ortrain_tensor_slice_rows (t, 1, 3, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
  g_clear_error (&error);
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (t, &error);
  g_assert_true (ortrain_tensor_equal (copy, t));
  g_assert_false (ortrain_tensor_equal (flat, t));
  ((float *) ortrain_tensor_peek_writable (copy))[0] = 0;
  g_assert_false (ortrain_tensor_equal (copy, t));
}

/* The expected numbers are NumPy's (astype), where the result is defined there. */
static void
test_cast (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) f = floats ("8", 1.5, -1.5, 0., 300., -300., 65504., 1e30, (double) NAN);
  static const struct
  {
    OrtrainDType dtype;
    const char *text;
  } cases[] = {
    { ORTRAIN_DTYPE_INT32, "int32[8] 1 -1 0 300 -300 65504 2147483647 0" },
    { ORTRAIN_DTYPE_UINT8, "uint8[8] 1 0 0 255 0 255 255 0" },
    { ORTRAIN_DTYPE_INT64, "int64[8] 1 -1 0 300 -300 65504 9223372036854775807 0" },
    { ORTRAIN_DTYPE_UINT64, "uint64[8] 1 0 0 300 0 65504 18446744073709551615 0" },
    { ORTRAIN_DTYPE_BOOL, "bool[8] true true false true true true true true" },
    { ORTRAIN_DTYPE_FLOAT16, "float16[8] 1.5 -1.5 0 300 -300 65504 inf nan" },
    { ORTRAIN_DTYPE_BFLOAT16, "bfloat16[8] 1.5 -1.5 0 300 -300 65536 1.00026e+30 nan" },
    { ORTRAIN_DTYPE_FLOAT64, "float64[8] 1.5 -1.5 0 300 -300 65504 1e+30 nan" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (OrtrainTensor) t = ortrain_tensor_cast (f, cases[i].dtype, &error);
      g_assert_no_error (error);
      assert_text (t, cases[i].text);
    }

  gint64 three = 3;
  g_autoptr (OrtrainTensor) big =
      ortrain_tensor_new_ints (&three, 1, (gint64[]){ G_MAXINT64, -1, 16777217 }, 3, &error);
  g_autoptr (OrtrainTensor) wrapped = ortrain_tensor_cast (big, ORTRAIN_DTYPE_UINT8, &error);
  assert_text (wrapped, "uint8[3] 255 255 1");
  g_autoptr (OrtrainTensor) u = ortrain_tensor_cast (big, ORTRAIN_DTYPE_UINT64, &error);
  assert_text (u, "uint64[3] 9223372036854775807 18446744073709551615 16777217");
  g_autoptr (OrtrainTensor) back = ortrain_tensor_cast (u, ORTRAIN_DTYPE_INT64, &error);
  g_assert_true (ortrain_tensor_equal (back, big));
  g_autoptr (OrtrainTensor) single = ortrain_tensor_cast (big, ORTRAIN_DTYPE_FLOAT32, &error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (single, 2), ==, 16777216);

  /* Rounded once, not twice: 1 + 2^-11 + 2^-40 lies above the middle between two halves, but not so its float. */
  g_autoptr (OrtrainTensor) d = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, &three, 1, &error);
  double *values = ortrain_tensor_peek_writable (d);
  values[0] = 1 + 0x1p-11 + 0x1p-40;
  values[1] = 1 + 0x1p-11;
  values[2] = 1 + 3 * 0x1p-11 - 0x1p-40;
  g_autoptr (OrtrainTensor) h = ortrain_tensor_cast (d, ORTRAIN_DTYPE_FLOAT16, &error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (h, 0), ==, 1 + 0x1p-10);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (h, 1), ==, 1);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (h, 2), ==, 1 + 0x1p-10);

  g_assert_null (ortrain_tensor_cast (f, ORTRAIN_DTYPE_COMPLEX64, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DTYPE);
}

static void
test_argmax (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) t = floats ("2x3x2", 1., 9., 5., 2., 5., 3., -1., -2., (double) NAN, 4., 7., 4.);
  g_autoptr (OrtrainTensor) a = ortrain_tensor_argmax (t, 1, &error);
  assert_text (a, "int64[2, 2] 1 0 1 1");
  g_autoptr (OrtrainTensor) b = ortrain_tensor_argmax (t, -1, &error);
  assert_text (b, "int64[2, 3] 1 0 0 0 0 0");
  g_autoptr (OrtrainTensor) c = ortrain_tensor_argmax (t, 0, &error);
  assert_text (c, "int64[3, 2] 0 0 1 1 1 1");
  for (gint64 axis = 3; axis >= -4; axis -= 7)
    {
      g_assert_null (ortrain_tensor_argmax (t, axis, &error));
      g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_SHAPE);
      g_clear_error (&error);
    }
}

/* DLPack, as its header has it: written down again here, so that a wrong field in the library shows. */
typedef struct
{
  void *data;
  struct
  {
    int32_t device_type;
    int32_t device_id;
  } device;
  int32_t ndim;
  struct
  {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor
{
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter) (struct DLManagedTensor *self);
} DLManagedTensor;

static void
count_deleter (DLManagedTensor *self)
{
  n_freed++;
}

static void
test_dlpack (void)
{
  g_autoptr (GError) error = NULL;
  /* out */
  OrtrainTensor *t = floats ("2x3", 1., 2., 3., 4., 5., 6.);
  gconstpointer data = ortrain_tensor_peek (t);
  DLManagedTensor *managed = ortrain_tensor_to_dlpack (t, &error);
  g_assert_no_error (error);
  g_assert_true (managed->dl_tensor.data == data && managed->dl_tensor.byte_offset == 0);
  g_assert_cmpint (managed->dl_tensor.device.device_type, ==, 1);
  g_assert_cmpint (managed->dl_tensor.ndim, ==, 2);
  g_assert_cmpint (managed->dl_tensor.dtype.code, ==, 2);
  g_assert_cmpint (managed->dl_tensor.dtype.bits, ==, 32);
  g_assert_cmpint (managed->dl_tensor.dtype.lanes, ==, 1);
  g_assert_cmpint (managed->dl_tensor.shape[1], ==, 3);
  g_assert_cmpint (managed->dl_tensor.strides[0], ==, 3);
  g_assert_cmpint (managed->dl_tensor.strides[1], ==, 1);
  /* the export outlives the tensor, and may come back in */
  ortrain_storage_release (ortrain_tensor_get_storage (t));
  g_object_unref (t);
  t = ortrain_tensor_new_from_dlpack (managed, &error);
  g_assert_no_error (error);
  assert_text (t, "float32[2, 3] 1 2 3 4 5 6");
  g_assert_true (ortrain_tensor_peek (t) == data);
  g_object_unref (t);

  /* in: without a copy, with a copy when strided or misaligned, refused otherwise */
  _Alignas(8) gint16 values[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  int64_t shape[] = { 2, 3 }, plain[] = { 3, 1 }, transposed[] = { 1, 2 }, backwards[] = { -3, -1 };
  const DLManagedTensor good = { .dl_tensor = { .data = values,
                                                .device = { 1, 0 },
                                                .ndim = 2,
                                                .dtype = { 0, 16, 1 },
                                                .shape = shape,
                                                .strides = plain,
                                                .byte_offset = 2 },
                                 .deleter = count_deleter };
  DLManagedTensor foreign = good;
  n_freed = 0;
  t = ortrain_tensor_new_from_dlpack (&foreign, &error);
  assert_text (t, "int16[2, 3] 1 2 3 4 5 6");
  g_assert_true (ortrain_tensor_peek (t) == values + 1 && ortrain_tensor_get_writable (t));
  GBytes *bytes = ortrain_tensor_get_bytes (t, NULL);
  g_object_unref (t);
  g_assert_cmpint (n_freed, ==, 0);
  g_bytes_unref (bytes);
  g_assert_cmpint (n_freed, ==, 1);

  foreign.dl_tensor.strides = NULL;
  t = ortrain_tensor_new_from_dlpack (&foreign, &error);
  assert_text (t, "int16[2, 3] 1 2 3 4 5 6");
  g_object_unref (t);
  foreign.dl_tensor.strides = transposed;
  t = ortrain_tensor_new_from_dlpack (&foreign, &error);
  assert_text (t, "int16[2, 3] 1 3 5 2 4 6");
  g_assert_cmpint (n_freed, ==, 3); /* a copy: the original goes at once */
  g_object_unref (t);
  foreign.dl_tensor.strides = backwards;
  foreign.dl_tensor.byte_offset = 12;
  t = ortrain_tensor_new_from_dlpack (&foreign, &error);
  assert_text (t, "int16[2, 3] 6 5 4 3 2 1");
  g_object_unref (t);
  foreign = good;
  foreign.dl_tensor.byte_offset = 1;
  t = ortrain_tensor_new_from_dlpack (&foreign, &error);
  assert_text (t, "int16[2, 3] 256 512 768 1024 1280 1536");
  g_object_unref (t);
  g_assert_cmpint (n_freed, ==, 5);

  for (guint i = 0; i < 6; i++)
    {
      foreign = good;
      switch (i)
        {
        case 0:
          foreign.dl_tensor.device.device_type = 2;
          break;
        case 1:
          foreign.dl_tensor.dtype.lanes = 4;
          break;
        case 2:
          foreign.dl_tensor.dtype.bits = 4;
          break;
        case 3:
          foreign.dl_tensor.ndim = 17;
          break;
        case 4:
          foreign.dl_tensor.ndim = -1;
          break;
        case 5:
          foreign.dl_tensor.data = NULL;
          break;
        }
      g_assert_null (ortrain_tensor_new_from_dlpack (&foreign, &error));
      g_assert_nonnull (error);
      g_clear_error (&error);
    }
  g_assert_cmpint (n_freed, ==, 5); /* refused: still the caller's */

  g_autoptr (GBytes) fixed = g_bytes_new_static (values, 2);
  g_autoptr (OrtrainTensor) read_only = ortrain_tensor_new_for_bytes (ORTRAIN_DTYPE_INT16, NULL, 0, fixed, &error);
  g_assert_null (ortrain_tensor_to_dlpack (read_only, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT);
}

static void
count_changes (GListModel *model, guint position, guint removed, guint added, guint *n)
{
  *n += removed + added;
}

static void
test_dict (void)
{
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  guint n_changes = 0;
  g_signal_connect (dict, "items-changed", G_CALLBACK (count_changes), &n_changes);
  g_autoptr (OrtrainTensor) one = ortrain_tensor_new_scalar (1);
  g_autoptr (OrtrainTensor) two = ortrain_tensor_new_scalar (2);
  ortrain_tensor_dict_set (dict, "b", one);
  ortrain_tensor_dict_set (dict, "a", two);
  ortrain_tensor_dict_set (dict, "c", one);
  g_assert_cmpuint (n_changes, ==, 3);
  ortrain_tensor_dict_set (dict, "b", two);
  g_assert_cmpuint (n_changes, ==, 5);
  ortrain_tensor_dict_set (dict, "b", two);
  g_assert_cmpuint (n_changes, ==, 5);
  g_autofree char *text = ortrain_tensor_dict_to_string (dict);
  g_assert_cmpstr (text, ==, "b: float32[] 2\na: float32[] 2\nc: float32[] 1");
  g_assert_true (ortrain_tensor_dict_remove (dict, "a"));
  g_assert_false (ortrain_tensor_dict_remove (dict, "a"));
  g_assert_null (ortrain_tensor_dict_get (dict, "a"));
  g_assert_true (ortrain_tensor_dict_get (dict, "c") == one);
  g_assert_false (ortrain_tensor_dict_contains (dict, "a"));
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (dict)), ==, 2);
  g_autoptr (OrtrainTensor) item = g_list_model_get_item (G_LIST_MODEL (dict), 1);
  g_assert_true (item == one);
  g_assert_null (g_list_model_get_item (G_LIST_MODEL (dict), 2));
  g_auto (GStrv) names = NULL;
  g_object_get (dict, "names", &names, NULL);
  g_assert_cmpuint (g_strv_length (names), ==, 2);
  g_assert_cmpstr (names[1], ==, "c");
  g_assert_null (ortrain_tensor_dict_get_name (dict, 2));
  g_assert_null (ortrain_tensor_dict_get_tensor (dict, 2));
  g_object_run_dispose (G_OBJECT (dict));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (dict), ==, 0);
}

static void
test_attributes (void)
{
  g_autoptr (OrtrainAttributes) a = ortrain_attributes_new ();
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_scalar (3);
  g_autoptr (GObject) graph = g_object_new (G_TYPE_OBJECT, NULL);
  ortrain_attributes_set_int (a, "axis", -1);
  ortrain_attributes_set_float (a, "alpha", 0.1);
  ortrain_attributes_set_string (a, "mode", "linear");
  ortrain_attributes_set_ints (a, "pads", (gint64[]){ 1, 2 }, 2);
  ortrain_attributes_set_ints (a, "none", NULL, 0);
  ortrain_attributes_set_floats (a, "scales", (float[]){ 1.5f }, 1);
  ortrain_attributes_set_strings (a, "names", (const char *[]){ "x", "y" }, 2);
  ortrain_attributes_set_tensor (a, "value", tensor);
  ortrain_attributes_set_tensors (a, "values", &tensor, 1);
  ortrain_attributes_set_graph (a, "body", graph);
  ortrain_attributes_set_graphs (a, "bodies", &graph, 1);

  g_autoptr (OrtrainAttributes) b = ortrain_attributes_copy (a);
  g_assert_true (ortrain_attributes_equal (a, b));
  g_assert_cmpuint (ortrain_attributes_get_n (b), ==, 11);
  g_assert_cmpstr (ortrain_attributes_get_nth (b, 2)->name, ==, "mode");
  g_assert_cmpint (ortrain_attributes_get_int (b, "axis", 7), ==, -1);
  g_assert_cmpint (ortrain_attributes_get_int (b, "alpha", 7), ==, 7);
  g_assert_cmpint (ortrain_attributes_get_int (NULL, "alpha", 7), ==, 7);
  g_assert_cmpfloat (ortrain_attributes_get_float (b, "alpha", 0), ==, 0.1);
  g_assert_cmpstr (ortrain_attributes_get_string (b, "mode", NULL), ==, "linear");
  gsize n;
  g_assert_cmpint (ortrain_attributes_get_ints (b, "pads", &n)[1], ==, 2);
  g_assert_cmpuint (n, ==, 2);
  g_assert_nonnull (ortrain_attributes_get_ints (b, "none", &n));
  g_assert_cmpuint (n, ==, 0);
  g_assert_null (ortrain_attributes_get_ints (b, "absent", &n));
  g_assert_cmpfloat (ortrain_attributes_get_floats (b, "scales", &n)[0], ==, 1.5f);
  g_assert_true (ortrain_attributes_get_tensor (b, "value") == tensor);
  g_assert_true (ortrain_attributes_get_graph (b, "body") == graph);
  g_assert_cmpstr (ortrain_attributes_lookup (b, "names")->v.strings[1], ==, "y");

  /* another kind under the same name, in the same place; and the order does not matter for equality */
  ortrain_attributes_set_int (b, "mode", 3);
  g_assert_cmpstr (ortrain_attributes_get_nth (b, 2)->name, ==, "mode");
  g_assert_false (ortrain_attributes_equal (a, b));
  ortrain_attributes_remove (b, "mode");
  g_assert_false (ortrain_attributes_has (b, "mode"));
  g_assert_cmpuint (ortrain_attributes_get_n (b), ==, 10);
  ortrain_attributes_set_string (b, "mode", "linear");
  g_assert_true (ortrain_attributes_equal (a, b));
  ortrain_attributes_set_ints (b, "pads", (gint64[]){ 1, 3 }, 2);
  g_assert_false (ortrain_attributes_equal (a, b));

  /* copies share until one of them changes */
  g_assert_cmpstr (ortrain_attributes_get_string (a, "mode", NULL), ==, "linear");
  g_autoptr (OrtrainAttributes) c = ortrain_attributes_copy (a), d = ortrain_attributes_copy (c);
  ortrain_attributes_remove (a, "pads");
  ortrain_attributes_set_int (c, "axis", 5);
  ortrain_attributes_remove (d, "absent");
  g_assert_true (ortrain_attributes_has (c, "pads") && ortrain_attributes_has (d, "pads"));
  g_assert_cmpint (ortrain_attributes_get_int (a, "axis", 7), ==, -1);
  g_assert_cmpint (ortrain_attributes_get_int (d, "axis", 7), ==, -1);
  ortrain_attributes_set_int (a, "axis", 6);
  g_assert_cmpint (ortrain_attributes_get_int (c, "axis", 7), ==, 5);
  g_assert_cmpint (ortrain_attributes_get_int (d, "axis", 7), ==, -1);
}

static void
test_ints (void)
{
  gsize n;
  gint64 two = 2;
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_ints (&two, 1, (gint64[]){ -1, 5 }, 2, NULL);
  g_autofree gint64 *ints = ortrain_tensor_dup_ints (a, &n);
  g_assert_cmpuint (n, ==, 2);
  g_assert_cmpint (ints[0], ==, -1);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_cast (a, ORTRAIN_DTYPE_INT32, NULL);
  g_autofree gint64 *wide = ortrain_tensor_dup_ints (b, &n);
  g_assert_cmpint (wide[0], ==, -1);
  g_autoptr (OrtrainTensor) c = ortrain_tensor_cast (a, ORTRAIN_DTYPE_FLOAT32, NULL);
  g_assert_null (ortrain_tensor_dup_ints (c, &n));
  g_autoptr (OrtrainTensor) d = ortrain_tensor_reshape (a, (gint64[]){ 1, 2 }, 2, NULL);
  g_assert_null (ortrain_tensor_dup_ints (d, &n));
}

/* More than there is, though the system would promise it: whoever touched it would be killed. */
static void
test_memory_that_is_not_there (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 n = (gint64) sysconf (_SC_PHYS_PAGES) * sysconf (_SC_PAGESIZE) - ((gint64) 16 << 20);
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, &n, 1, &error);
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY);
  g_assert_null (tensor);
}

/* Nor twice the available memory: the first half is still available as long as nobody has touched it. */
static void
test_memory_that_is_promised (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 n = (gint64) (ortrain_get_available_memory () / 5 * 3);
  g_autoptr (OrtrainTensor) first = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, &n, 1, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) second = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, &n, 1, &error);
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY);
  g_assert_null (second);
  g_clear_error (&error);
  g_clear_object (&first);
  second = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, &n, 1, &error);
  g_assert_no_error (error);
}

/* One element as an integer: exact beyond 2^53, and defined for numbers that are no integers. */
static void
test_peek_int (void)
{
  const gint64 integers[] = { G_MAXINT64, G_MININT64, ((gint64) 1 << 53) + 1 };
  const float floats[] = { 1e30f, -INFINITY, NAN, -2.75f };
  const gint64 of_floats[] = { G_MAXINT64, G_MININT64, 0, -2 };
  const gint64 three = 3, four = 4;
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_ints (&three, 1, integers, 3, NULL);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new_floats (&four, 1, floats, 4, NULL);
  for (gint64 i = 0; i < three; i++)
    g_assert_cmpint (ortrain_tensor_peek_int (a, i), ==, integers[i]);
  for (gint64 i = 0; i < four; i++)
    g_assert_cmpint (ortrain_tensor_peek_int (b, i), ==, of_floats[i]);
  g_assert_cmpint (ortrain_tensor_peek_int (a, three), ==, 0);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tensor/new", test_new);
  g_test_add_func ("/tensor/peek-int", test_peek_int);
  g_test_add_func ("/tensor/bytes", test_bytes);
  g_test_add_func ("/tensor/address", test_address);
  g_test_add_func ("/tensor/storage", test_storage);
  g_test_add_func ("/tensor/views", test_views);
  g_test_add_func ("/tensor/cast", test_cast);
  g_test_add_func ("/tensor/argmax", test_argmax);
  g_test_add_func ("/tensor/dlpack", test_dlpack);
  g_test_add_func ("/tensor/ints", test_ints);
  g_test_add_func ("/tensor/dict", test_dict);
  g_test_add_func ("/tensor/attributes", test_attributes);
  g_test_add_func ("/tensor/memory-that-is-not-there", test_memory_that_is_not_there);
  g_test_add_func ("/tensor/memory-that-is-promised", test_memory_that_is_promised);
  return g_test_run ();
}
