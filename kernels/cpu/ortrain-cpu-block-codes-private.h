/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-block-quantization.h"

/* The codes of one block of a state in 8 bits, as ortrain-block-quantization.h has them, to the bit. x:
 * [ORTRAIN_STATE_BLOCK], codes: [ORTRAIN_STATE_BLOCK] */

#ifdef __AVX512F__
#include <immintrin.h>

/* All lines and their least are fourteen operations a number. Here, the number's bits select the lines: those of a
 * position, whose decade is its exponent, select one; those of a share two, as an octave may cross into another decade.
 */
#define SLOPE(i, tens) ((float) ((1 << (i)) * (tens) / 0.9))
#define START(i) ((float) ((1 << (i)) * 8 / 9.0))
#define INVERSE(i, tens) ((float) (0.9 / ((1 << (i)) * (tens))))

/* By the sign's, exponent's and first bit of a share from 2^-31 on, less 48: the lower line … */
static const float block_slopes[16] = {
  SLOPE (0, 1e6), SLOPE (0, 1e6), SLOPE (0, 1e6), SLOPE (0, 1e6), SLOPE (0, 1e6), SLOPE (0, 1e6),
  SLOPE (0, 1e6), SLOPE (1, 1e5), SLOPE (2, 1e4), SLOPE (2, 1e4), SLOPE (3, 1e3), SLOPE (3, 1e3),
  SLOPE (4, 1e2), SLOPE (5, 1e1), SLOPE (5, 1e1), SLOPE (5, 1e1),
};
static const float block_starts[16] = {
  START (0), START (0), START (0), START (0), START (0), START (0), START (0), START (1),
  START (2), START (2), START (3), START (3), START (4), START (5), START (5), START (5),
};
/* … and the one above it; the last ends a little above 128. */
static const float block_next_slopes[16] = {
  SLOPE (1, 1e5), SLOPE (1, 1e5), SLOPE (1, 1e5), SLOPE (1, 1e5), SLOPE (1, 1e5), SLOPE (1, 1e5),
  SLOPE (1, 1e5), SLOPE (2, 1e4), SLOPE (3, 1e3), SLOPE (3, 1e3), SLOPE (4, 1e2), SLOPE (4, 1e2),
  SLOPE (5, 1e1), SLOPE (6, 1.0), SLOPE (6, 1.0), SLOPE (6, 1.0),
};
#define LAST ((float) (64 * 8 / 9.0 + 3e-5))
static const float block_next_starts[16] = {
  START (1), START (1), START (1), START (1), START (1), START (1), START (1), START (2),
  START (3), START (3), START (4), START (4), START (5), LAST,      LAST,      LAST,
};
/* By the last four bits of a position's exponent: 15 is 0, 14 is below the first part, 6 above the last one. */
static const float block_inverses[16] = {
  INVERSE (1, 1e5),
  INVERSE (2, 1e4),
  INVERSE (3, 1e3),
  INVERSE (4, 1e2),
  INVERSE (5, 1e1),
  INVERSE (6, 1e0),
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  INVERSE (0, 1e6),
};
#define BACK(tens) (-(float) (0.8 / (tens)))
static const float block_offsets[16] = {
  BACK (1e5), BACK (1e4), BACK (1e3), BACK (1e2), BACK (1e1), BACK (1e0), 1, 0, 0, 0, 0, 0, 0, 0, 0, BACK (1e6),
};

#define SELECT(table, k) _mm512_permutexvar_ps (k, _mm512_loadu_ps (table))

/* NaN gets the position of 0. */
static inline __m512
block_positions (__m512 share)
{
  share = _mm512_max_ps (share, _mm512_set1_ps (0x1p-31f));
  const __m512i k = _mm512_srli_epi32 (_mm512_castps_si512 (share), 24);
  const __m512 low = _mm512_fmadd_ps (SELECT (block_slopes, k), share, SELECT (block_starts, k));
  const __m512 high = _mm512_fmadd_ps (SELECT (block_next_slopes, k), share, SELECT (block_next_starts, k));
  return _mm512_min_ps (_mm512_min_ps (low, high), _mm512_set1_ps (128.0f));
}

static inline __m512
block_shares (__m512 position)
{
  const __m512i k = _mm512_srli_epi32 (_mm512_castps_si512 (position), 23);
  return _mm512_fmadd_ps (SELECT (block_inverses, k), position, SELECT (block_offsets, k));
}

static inline void
block_encode_signed (guint8 *codes, const float *x, float factor)
{
  const __m512 factors = _mm512_set1_ps (factor);
  for (int i = 0; i < ORTRAIN_STATE_BLOCK; i += 16)
    {
      const __m512 values = _mm512_loadu_ps (x + i);
      const __m512i code = _mm512_cvttps_epi32 (block_positions (_mm512_mul_ps (_mm512_abs_ps (values), factors)));
      const __mmask16 negative = _mm512_cmp_ps_mask (values, _mm512_setzero_ps (), _CMP_LT_OQ);
      const __m512i least = _mm512_min_epi32 (code, _mm512_set1_epi32 (127));
      const __m512i both = _mm512_mask_sub_epi32 (code, negative, _mm512_setzero_si512 (), least);
      _mm_storeu_si128 ((__m128i *) (codes + i), _mm512_cvtepi32_epi8 (both));
    }
}

static inline void
block_encode_unsigned (guint8 *codes, const float *x, float factor)
{
  const __m512 factors = _mm512_set1_ps (factor);
  for (int i = 0; i < ORTRAIN_STATE_BLOCK; i += 16)
    {
      const __m512 values = _mm512_loadu_ps (x + i);
      const __m512 positions = block_positions (_mm512_mul_ps (values, factors));
      const __m512i code =
          _mm512_cvttps_epi32 (_mm512_fmsub_ps (_mm512_set1_ps (2.0f), positions, _mm512_set1_ps (1.0f)));
      const __mmask16 positive = _mm512_cmp_ps_mask (values, _mm512_setzero_ps (), _CMP_GT_OQ);
      _mm_storeu_si128 ((__m128i *) (codes + i),
                        _mm512_cvtepi32_epi8 (_mm512_maskz_max_epi32 (positive, code, _mm512_set1_epi32 (1))));
    }
}

static inline void
block_decode_signed (const guint8 *codes, float *x, float scale)
{
  for (int i = 0; i < ORTRAIN_STATE_BLOCK; i += 16)
    {
      const __m512i code = _mm512_cvtepu8_epi32 (_mm_loadu_si128 ((const __m128i *) (codes + i)));
      const __mmask16 negative = _mm512_cmpgt_epi32_mask (code, _mm512_set1_epi32 (128));
      const __m512i part = _mm512_mask_sub_epi32 (code, negative, _mm512_set1_epi32 (256), code);
      const __m512i share =
          _mm512_castps_si512 (block_shares (_mm512_add_ps (_mm512_cvtepi32_ps (part), _mm512_set1_ps (0.5f))));
      const __m512i both = _mm512_mask_xor_epi32 (share, negative, share, _mm512_set1_epi32 (G_MININT32));
      _mm512_storeu_ps (x + i, _mm512_mul_ps (_mm512_set1_ps (scale), _mm512_castsi512_ps (both)));
    }
}

static inline void
block_decode_unsigned (const guint8 *codes, float *x, float scale)
{
  for (int i = 0; i < ORTRAIN_STATE_BLOCK; i += 16)
    {
      const __m512i code = _mm512_cvtepu8_epi32 (_mm_loadu_si128 ((const __m128i *) (codes + i)));
      const __m512 position =
          _mm512_fmadd_ps (_mm512_cvtepi32_ps (code), _mm512_set1_ps (0.5f), _mm512_set1_ps (0.75f));
      _mm512_storeu_ps (x + i, _mm512_mul_ps (_mm512_set1_ps (scale), block_shares (position)));
    }
}

#undef SLOPE
#undef START
#undef LAST
#undef INVERSE
#undef BACK
#undef SELECT

#else

/* Functions of their own for each form: loops without a choice become vector code. */
#define BLOCK_CODES(form)                                                                                              \
  static inline void block_encode_##form (guint8 *restrict codes, const float *restrict x, float factor)               \
  {                                                                                                                    \
    for (int i = 0; i < ORTRAIN_STATE_BLOCK; i++)                                                                      \
      codes[i] = ortrain_block_encode_##form (x[i], factor);                                                           \
  }                                                                                                                    \
  static inline void block_decode_##form (const guint8 *restrict codes, float *restrict x, float scale)                \
  {                                                                                                                    \
    for (int i = 0; i < ORTRAIN_STATE_BLOCK; i++)                                                                      \
      x[i] = scale * ortrain_block_decode_##form (codes[i]);                                                           \
  }
BLOCK_CODES (signed)
BLOCK_CODES (unsigned)
#undef BLOCK_CODES

#endif
