/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/ortrain-block-quantization.h"

#include <glib.h>
#include <math.h>

/* Codes of 8 bits for moments, against their definition: parts of decades, counted one by one in double. */

#define N_CODES 256
/* Lines in float are off by this much of a share. */
#define ROUNDING 5e-6

typedef struct
{
  double begin, end, centre; /* of the part */
  gint value;                /* of the code: the sort key */
} Code;

static Code with_sign[N_CODES], without_sign[N_CODES]; /* sorted */

/* From code `first` on; parts: of decade 0 */
static guint
define_parts (Code *codes, guint first, guint parts)
{
  double decade = 1e-6;
  for (guint i = 0; i < 7; i++, decade *= 10, parts *= 2)
    for (guint k = 0; k < parts; k++, first++)
      {
        codes[first].begin = decade * (0.1 + 0.9 * k / parts);
        codes[first].end = decade * (0.1 + 0.9 * (k + 1) / parts);
        codes[first].centre = (codes[first].begin + codes[first].end) / 2;
      }
  codes[first] = (Code){ 1, 1, 1, 0 };
  return first + 1;
}

static void
define (void)
{
  g_assert_cmpuint (define_parts (without_sign, 1, 2), ==, N_CODES);
  for (guint c = 0; c < N_CODES; c++)
    without_sign[c].value = (gint) c;
  /* -127 … 128, of which the first have no 1 */
  g_assert_cmpuint (define_parts (with_sign, 128, 1), ==, N_CODES);
  for (guint c = 0; c < N_CODES; c++)
    with_sign[c].value = (gint) c - 127;
  for (guint c = 0; c < 127; c++)
    {
      const Code positive = with_sign[254 - c];
      with_sign[c].begin = -positive.end;
      with_sign[c].end = -positive.begin;
      with_sign[c].centre = -positive.centre;
    }
  for (guint c = 1; c < N_CODES; c++)
    {
      g_assert_cmpfloat (with_sign[c].centre, >, with_sign[c - 1].centre);
      g_assert_cmpfloat (without_sign[c].centre, >, without_sign[c - 1].centre);
    }
}

static gint
encode (gboolean sign, float x, float scale)
{
  const float factor = ortrain_block_factor (ortrain_block_scale (ortrain_block_magnitude (scale)));
  if (!sign)
    return ortrain_block_encode_unsigned (x, factor);
  const gint code = ortrain_block_encode_signed (x, factor);
  return code > 128 ? code - 256 : code;
}

static float
decode (gboolean sign, gint code)
{
  return sign ? ortrain_block_decode_signed ((guint8) code) : ortrain_block_decode_unsigned ((guint8) code);
}

/* Each code is the centre of its part, and is found again at any scale; so are all numbers of the part. */
static void
test_codes (gconstpointer data)
{
  const gboolean sign = data != NULL;
  const Code *codes = sign ? with_sign : without_sign;
  const float scales[] = { 1, 3e-5f, 7e12f, 1.5e-30f, 3.4e38f };
  for (guint c = 0; c < N_CODES; c++)
    {
      const double centre = codes[c].centre, inner = (codes[c].end - codes[c].begin) * 0.499;
      const float x = decode (sign, codes[c].value);
      if (centre == 0 || centre == 1)
        g_assert_cmpfloat (x, ==, (float) centre);
      else
        g_assert_cmpfloat_with_epsilon (x, centre, fabs (centre) * ROUNDING);
      for (guint s = 0; s < G_N_ELEMENTS (scales); s++)
        {
          g_assert_cmpint (encode (sign, x * scales[s], scales[s]), ==, codes[c].value);
          g_assert_cmpint (encode (sign, (float) ((centre - inner) * scales[s]), scales[s]), ==, codes[c].value);
          g_assert_cmpint (encode (sign, (float) ((centre + inner) * scales[s]), scales[s]), ==, codes[c].value);
        }
    }
}

/* Codes are ordered as the numbers that they encode, and decode to a number that is at most half a part away. */
static void
test_between (gconstpointer data)
{
  const gboolean sign = data != NULL;
  const Code *codes = sign ? with_sign : without_sign;
  gint last = 0;
  guint n_seen = 1;
  for (double x = 1e-9; x <= 1; x *= 1.00002)
    {
      const float share = (float) x;
      const gint code = encode (sign, share, 1);
      const Code *part = &codes[code - codes[0].value];
      g_assert_cmpint (code, >=, last);
      n_seen += code != last;
      last = code;
      if (share > 1e-7 * (1 + ROUNDING))
        {
          g_assert_cmpfloat (share, >=, part->begin * (1 - ROUNDING));
          g_assert_cmpfloat (share, <=, part->end * (1 + ROUNDING));
        }
      else if (share < 1e-7 * (1 - ROUNDING)) /* below all parts */
        g_assert_cmpint (code, ==, sign ? 0 : 1);
      if (sign)
        g_assert_cmpint (encode (sign, -share, 1), ==, code == 128 ? -127 : -code);
    }
  g_assert_cmpint (last, ==, sign ? 127 : 254);
  g_assert_cmpint (encode (sign, 1, 1), ==, last + 1);
  g_assert_cmpuint (n_seen, ==, sign ? 128 : 255); /* every one below 1 */
}

/* The largest of a block is kept exactly, whatever it is; and a second moment never becomes zero. */
static void
test_ends (void)
{
  for (float largest = 0x1p-126f; largest <= 0x1p127f; largest *= 1.0371f)
    {
      g_assert_cmpint (encode (TRUE, largest, largest), ==, 128);
      g_assert_cmpint (encode (TRUE, -largest, largest), ==, -127);
      g_assert_cmpint (encode (FALSE, largest, largest), ==, 255);
      g_assert_cmpint (encode (FALSE, 0x1p-149f, largest), >=, 1);
      g_assert_cmpfloat (decode (FALSE, encode (FALSE, 0x1p-149f, largest)), >, 0);
      g_assert_cmpint (encode (TRUE, 0, largest), ==, 0);
      g_assert_cmpint (encode (FALSE, 0, largest), ==, 0);
    }
  /* numbers without a reciprocal are scaled by one that has one */
  const float scale = ortrain_block_scale (ortrain_block_magnitude (0x1.8p-140f));
  g_assert_cmpfloat (scale, ==, 0x1p-126f);
  g_assert_cmpfloat_with_epsilon (scale * decode (FALSE, encode (FALSE, 0x1.8p-140f, scale)), 0x1.8p-140, 0x1p-141);
  /* a block of zeros */
  g_assert_cmpfloat (ortrain_block_scale (0), ==, 0);
  g_assert_cmpint (encode (TRUE, 0, 0), ==, 0);
  g_assert_cmpint (encode (TRUE, -0.0f, 0), ==, 0);
  g_assert_cmpint (encode (FALSE, 0, 0), ==, 0);
  g_assert_cmpfloat (decode (TRUE, 0), ==, 0);
  g_assert_cmpfloat (decode (FALSE, 0), ==, 0);
}

/* Any code will do; the scale says that the block is lost. Conversions have to be defined, which sanitizers look at. */
static void
test_not_finite (void)
{
  const float all[] = { NAN, -NAN, INFINITY, -INFINITY, 0, 1, -1, G_MAXFLOAT };
  for (guint s = 0; s < 3; s++)
    for (guint i = 0; i < G_N_ELEMENTS (all); i++)
      {
        const float scale = s < 2 ? all[2 * s] : 1;
        g_assert_cmpint (abs (encode (TRUE, all[i], scale)), <=, 128);
        g_assert_cmpint (encode (FALSE, all[i], scale), <=, 255);
        if (s < 2)
          g_assert_false (isfinite (scale * decode (TRUE, 0)));
      }
  g_assert_cmpuint (ortrain_block_magnitude (-NAN), >, ortrain_block_magnitude (-INFINITY));
  g_assert_cmpuint (ortrain_block_magnitude (INFINITY), >, ortrain_block_magnitude (-G_MAXFLOAT));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  define ();
  g_test_add_data_func ("/block-quantization/codes/without-sign", NULL, test_codes);
  g_test_add_data_func ("/block-quantization/codes/with-sign", "", test_codes);
  g_test_add_data_func ("/block-quantization/between/without-sign", NULL, test_between);
  g_test_add_data_func ("/block-quantization/between/with-sign", "", test_between);
  g_test_add_func ("/block-quantization/ends", test_ends);
  g_test_add_func ("/block-quantization/not-finite", test_not_finite);
  return g_test_run ();
}
