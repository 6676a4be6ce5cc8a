/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "core/ortrain-dtype-private.h"
#include "core/ortrain-philox-private.h"
#include "ortrain.h"

#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

static void
test_table (void)
{
  /* the numbers are those of ONNX's TensorProto.DataType */
  static const struct
  {
    int number;
    const char *name;
    gsize size;
    const char *numpy, *safetensors;
    guint8 code, bits;
  } expected[] = {
    { 1, "float32", 4, "<f4", "F32", 2, 32 },    { 2, "uint8", 1, "|u1", "U8", 1, 8 },
    { 3, "int8", 1, "|i1", "I8", 0, 8 },         { 4, "uint16", 2, "<u2", "U16", 1, 16 },
    { 5, "int16", 2, "<i2", "I16", 0, 16 },      { 6, "int32", 4, "<i4", "I32", 0, 32 },
    { 7, "int64", 8, "<i8", "I64", 0, 64 },      { 9, "bool", 1, "|b1", "BOOL", 6, 8 },
    { 10, "float16", 2, "<f2", "F16", 2, 16 },   { 11, "float64", 8, "<f8", "F64", 2, 64 },
    { 12, "uint32", 4, "<u4", "U32", 1, 32 },    { 13, "uint64", 8, "<u8", "U64", 1, 64 },
    { 14, "complex64", 8, "<c8", "C64", 5, 64 }, { 16, "bfloat16", 2, NULL, "BF16", 4, 16 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      OrtrainDType dtype = (OrtrainDType) expected[i].number;
      guint8 code, bits;
      g_assert_true (ortrain_dtype_is_valid (expected[i].number));
      g_assert_cmpstr (ortrain_dtype_get_name (dtype), ==, expected[i].name);
      g_assert_cmpuint (ortrain_dtype_get_size (dtype), ==, expected[i].size);
      g_assert_cmpstr (ortrain_dtype_get_numpy_string (dtype), ==, expected[i].numpy);
      g_assert_cmpstr (ortrain_dtype_get_safetensors_name (dtype), ==, expected[i].safetensors);
      g_assert_true (ortrain_dtype_to_dlpack (dtype, &code, &bits));
      g_assert_cmpuint (code, ==, expected[i].code);
      g_assert_cmpuint (bits, ==, expected[i].bits);
      g_assert_cmpint (ortrain_dtype_from_dlpack (code, bits), ==, dtype);
      g_assert_cmpint (ortrain_dtype_from_safetensors (expected[i].safetensors), ==, dtype);
      if (expected[i].numpy != NULL)
        g_assert_cmpint (ortrain_dtype_from_numpy_string (expected[i].numpy), ==, dtype);
    }
  g_assert_false (ortrain_dtype_is_valid (0));
  g_assert_false (ortrain_dtype_is_valid (17));
  g_assert_false (ortrain_dtype_is_valid (-1));
  g_assert_cmpuint (ortrain_dtype_get_size (ORTRAIN_DTYPE_STRING), ==, 0);
  g_assert_cmpstr (ortrain_dtype_get_name ((OrtrainDType) 99), ==, "undefined");
  g_assert_cmpint (ortrain_dtype_from_numpy_string (">f4"), ==, ORTRAIN_DTYPE_UNDEFINED);
  g_assert_cmpint (ortrain_dtype_from_numpy_string ("=f4"), ==, ORTRAIN_DTYPE_FLOAT32);
  g_assert_cmpint (ortrain_dtype_from_numpy_string (">u1"), ==, ORTRAIN_DTYPE_UINT8);
  g_assert_cmpint (ortrain_dtype_from_numpy_string (""), ==, ORTRAIN_DTYPE_UNDEFINED);
  g_assert_cmpint (ortrain_dtype_from_numpy_string ("f4"), ==, ORTRAIN_DTYPE_UNDEFINED);
  g_assert_cmpint (ortrain_dtype_from_dlpack (2, 80), ==, ORTRAIN_DTYPE_UNDEFINED);
  g_assert_true (ortrain_dtype_is_floating (ORTRAIN_DTYPE_BFLOAT16));
  g_assert_false (ortrain_dtype_is_floating (ORTRAIN_DTYPE_COMPLEX64));
  g_assert_false (ortrain_dtype_is_integer (ORTRAIN_DTYPE_BOOL));
}

static void
test_half_round_trip (void)
{
  for (guint bits = 0; bits < 65536; bits++)
    {
      float f = ortrain_half_to_float ((guint16) bits), b = ortrain_bfloat16_to_float ((guint16) bits);
      g_assert_true (isnan (f) ? isnan (ortrain_half_to_float (ortrain_float_to_half (f)))
                               : ortrain_float_to_half (f) == bits);
      g_assert_true (isnan (b) ? isnan (ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (b)))
                               : ortrain_float_to_bfloat16 (b) == bits);
    }
}

#ifdef __x86_64__
__attribute__ ((target ("f16c"))) static void
compare_with_processor (void)
{
  for (guint bits = 0; bits < 65536; bits++)
    {
      float mine = ortrain_half_to_float ((guint16) bits), theirs = _cvtsh_ss ((guint16) bits);
      g_assert_cmpmem (&mine, 4, &theirs, 4);
    }
  /* all exponents and signs, and mantissas around every point where rounding changes */
  for (guint32 high = 0; high < 1u << 19; high++)
    {
      static const guint32 lows[] = { 0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x1fff };
      for (guint i = 0; i < G_N_ELEMENTS (lows); i++)
        {
          guint32 bits = high << 13 | lows[i];
          float f;
          memcpy (&f, &bits, 4);
          guint16 mine = ortrain_float_to_half (f), theirs = (guint16) _cvtss_sh (f, 0);
          if (mine != theirs)
            g_error ("%08x becomes %04x, the processor says %04x", bits, mine, theirs);
        }
    }
}
#endif

static void
test_half_processor (void)
{
#ifdef __x86_64__
  /* all that have AVX2 have F16C; clang knows no name for that */
  if (__builtin_cpu_supports ("avx2"))
    {
      compare_with_processor ();
      return;
    }
#endif
  g_test_skip ("this processor has no instruction to compare with");
}

static void
test_bfloat16 (void)
{
  /* ties to even, as PyTorch rounds */
  g_assert_cmphex (ortrain_float_to_bfloat16 (1.00390625f), ==, 0x3f80);
  g_assert_cmphex (ortrain_float_to_bfloat16 (1.01171875f), ==, 0x3f82);
  g_assert_cmphex (ortrain_float_to_bfloat16 (1.00390637f), ==, 0x3f81);
  g_assert_cmphex (ortrain_float_to_bfloat16 (3.4028235e38f), ==, 0x7f80);
  g_assert_cmphex (ortrain_float_to_bfloat16 (-0.0f), ==, 0x8000);
  /* just above a tie, and below it: where a float in between would stand on the tie */
  const double scales[] = { 1, -1, 1e-30, 0x1p-130, 0x1p120 };
  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    {
      const guint16 low = ortrain_float_to_bfloat16 ((float) scales[i]);
      const double step =
          (double) ortrain_bfloat16_to_float ((guint16) (low + 1)) - (double) ortrain_bfloat16_to_float (low);
      const double tie = (double) ortrain_bfloat16_to_float (low) + step / 2;
      g_assert_cmphex (ortrain_float_to_bfloat16 (ortrain_double_to_odd_float (tie + step * 1e-9)), ==, low + 1);
      g_assert_cmphex (ortrain_float_to_bfloat16 (ortrain_double_to_odd_float (tie - step * 1e-9)), ==, low);
    }
  g_assert_cmphex (ortrain_float_to_bfloat16 (ortrain_double_to_odd_float (1e300)), ==, 0x7f80);
  g_assert_cmphex (ortrain_float_to_bfloat16 (ortrain_double_to_odd_float (-1e300)), ==, 0xff80);
  g_assert_true (isnan (ortrain_double_to_odd_float (NAN)));
}

static void
test_checked (void)
{
  gint64 n;
  gsize s;
  g_assert_true (ortrain_checked_n_elements ((gint64[]){ 2, 3 }, 2, &n));
  g_assert_cmpint (n, ==, 6);
  g_assert_true (ortrain_checked_n_elements (NULL, 0, &n));
  g_assert_cmpint (n, ==, 1);
  g_assert_true (ortrain_checked_n_elements ((gint64[]){ 0, ORTRAIN_MAX_ELEMENTS }, 2, &n));
  g_assert_cmpint (n, ==, 0);
  /* kernels round up the dimensions of empty tensors */
  g_assert_false (ortrain_checked_n_elements ((gint64[]){ 0, ORTRAIN_MAX_ELEMENTS + 1 }, 2, &n));
  g_assert_false (ortrain_checked_n_elements ((gint64[]){ 0, ORTRAIN_MAX_ELEMENTS, 2 }, 3, &n));
  g_assert_false (ortrain_checked_n_elements ((gint64[]){ 0, G_MAXINT64, 2 }, 3, &n));
  g_assert_false (ortrain_checked_n_elements ((gint64[]){ 2, -1 }, 2, &n));
  g_assert_false (ortrain_checked_align (G_MAXSIZE - 3, 64, &s));
  g_assert_true (ortrain_checked_align (65, 64, &s));
  g_assert_cmpuint (s, ==, 128);
}

/* The test vectors of the authors' library (kat_vectors of Random123: philox4x32, 10 rounds). */
static void
test_philox (void)
{
  guint32 out[4];
  ortrain_philox (&(OrtrainPhiloxKey){ 0, 0, 0 }, 0, out);
  g_assert_cmphex (out[0], ==, 0x6627e8d5);
  g_assert_cmphex (out[1], ==, 0xe169c58d);
  g_assert_cmphex (out[2], ==, 0xbc57ac4c);
  g_assert_cmphex (out[3], ==, 0x9b00dbd8);
  ortrain_philox (&(OrtrainPhiloxKey){ G_MAXUINT64, G_MAXUINT32, G_MAXUINT32 }, G_MAXUINT64, out);
  g_assert_cmphex (out[0], ==, 0x408f276d);
  g_assert_cmphex (out[1], ==, 0x41c83b0e);
  g_assert_cmphex (out[2], ==, 0xa20bc7c6);
  g_assert_cmphex (out[3], ==, 0x6d5451fd);
}

static void
test_version (void)
{
  g_autofree char *version = g_strdup_printf ("%u.%u.%u", ortrain_get_major_version (), ortrain_get_minor_version (),
                                              ortrain_get_micro_version ());
  g_assert_cmpstr (version, ==, ortrain_get_version ());
  g_assert_true (ortrain_check_version (ORTRAIN_MAJOR_VERSION, ORTRAIN_MINOR_VERSION, ORTRAIN_MICRO_VERSION));
  g_assert_true (ortrain_check_version (ORTRAIN_MAJOR_VERSION - 1, 99, 99));
  g_assert_false (ortrain_check_version (ORTRAIN_MAJOR_VERSION, ORTRAIN_MINOR_VERSION, ORTRAIN_MICRO_VERSION + 1));
  g_assert_false (ortrain_check_version (ORTRAIN_MAJOR_VERSION + 1, 0, 0));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/dtype/table", test_table);
  g_test_add_func ("/dtype/half/round-trip", test_half_round_trip);
  g_test_add_func ("/dtype/half/processor", test_half_processor);
  g_test_add_func ("/dtype/bfloat16", test_bfloat16);
  g_test_add_func ("/core/checked", test_checked);
  g_test_add_func ("/core/philox", test_philox);
  g_test_add_func ("/core/version", test_version);
  return g_test_run ();
}
