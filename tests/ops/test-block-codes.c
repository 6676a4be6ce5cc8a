/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-block-codes-private.h"

#include <glib.h>
#include <math.h>
#include <string.h>

/* Codes of 8 bits as vectors have them, against one after the other: the same bits for each number. Compiled for
 * x86-64-v4. */

static void
compare_encoding (const float *x, float factor)
{
  guint8 codes[ORTRAIN_STATE_BLOCK];
  block_encode_signed (codes, x, factor);
  for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++)
    if (codes[i] != ortrain_block_encode_signed (x[i], factor))
      g_error ("with a sign, %a times %a has the code %u, not %u", x[i], factor, codes[i],
               ortrain_block_encode_signed (x[i], factor));
  block_encode_unsigned (codes, x, factor);
  for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++)
    if (codes[i] != ortrain_block_encode_unsigned (x[i], factor))
      g_error ("without a sign, %a times %a has the code %u, not %u", x[i], factor, codes[i],
               ortrain_block_encode_unsigned (x[i], factor));
}

static void
test_decode (void)
{
  static const float scales[] = { 1.0f, 0.37f, 1e-30f, INFINITY, NAN };
  guint8 codes[ORTRAIN_STATE_BLOCK];
  float x[ORTRAIN_STATE_BLOCK];
  for (guint s = 0; s < G_N_ELEMENTS (scales); s++)
    for (guint first = 0; first < 256; first += ORTRAIN_STATE_BLOCK)
      {
        for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++)
          codes[i] = (guint8) (first + i);
        block_decode_signed (codes, x, scales[s]);
        for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++)
          {
            const float wanted = scales[s] * ortrain_block_decode_signed (codes[i]);
            g_assert_true (memcmp (&wanted, &x[i], sizeof wanted) == 0 || (isnan (wanted) && isnan (x[i])));
          }
        block_decode_unsigned (codes, x, scales[s]);
        for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++)
          {
            const float wanted = scales[s] * ortrain_block_decode_unsigned (codes[i]);
            g_assert_true (memcmp (&wanted, &x[i], sizeof wanted) == 0 || (isnan (wanted) && isnan (x[i])));
          }
      }
}

/* Magnitudes up to 1, a prime number of neighbours apart. */
static void
test_encode (void)
{
  float x[ORTRAIN_STATE_BLOCK];
  for (guint32 bits = 0; bits <= 0x3f800000u;)
    {
      for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++, bits += 211)
        {
          const guint32 magnitude = MIN (bits, 0x3f800000u);
          const guint32 value = (i & 1) ? magnitude | 0x80000000u : magnitude;
          memcpy (&x[i], &value, sizeof value);
        }
      compare_encoding (x, 1.0f);
    }
}

static void
test_blocks (void)
{
  float x[ORTRAIN_STATE_BLOCK];
  for (guint b = 0; b < 20000; b++)
    {
      guint32 most = 0;
      const int scale = g_test_rand_int_range (-140, 120);
      for (guint i = 0; i < ORTRAIN_STATE_BLOCK; i++)
        {
          x[i] = (float) ldexp (g_test_rand_double_range (-1, 1), scale - (int) g_test_rand_int_range (0, 26));
          most = MAX (most, ortrain_block_magnitude (x[i]));
        }
      compare_encoding (x, ortrain_block_factor (ortrain_block_scale (most)));
    }
}

static void
test_not_finite (void)
{
  float x[ORTRAIN_STATE_BLOCK] = { NAN, INFINITY, -INFINITY, -NAN, 1.0f, -1.0f, 0.0f, -0.0f };
  compare_encoding (x, ortrain_block_factor (NAN));
  compare_encoding (x, ortrain_block_factor (INFINITY));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  if (!__builtin_cpu_supports ("avx512f"))
    {
      g_print ("1..0 # SKIP the processor has no AVX-512\n");
      return 0;
    }
  g_test_add_func ("/block-codes/decode", test_decode);
  g_test_add_func ("/block-codes/encode", test_encode);
  g_test_add_func ("/block-codes/blocks", test_blocks);
  g_test_add_func ("/block-codes/not-finite", test_not_finite);
  return g_test_run ();
}
