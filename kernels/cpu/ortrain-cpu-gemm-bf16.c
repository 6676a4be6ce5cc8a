/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-gemm-mixed-private.h"

#include <immintrin.h>
#include <string.h>

/* The blocked product of bfloat16 for machines with AVX512-BF16. An element of a packed block is a pair of numbers that
 * follow each other along k; one instruction multiplies 16 pairs with 16 pairs and adds both products to 16 sums of
 * float32, rounding to nearest even after each addition. It takes denormal numbers as zero. */
#define MR 14
#define KC 256 /* pairs */
#define MC 280
#define NC 512
#define VL 16
#define LANES LANES_16
#define REAL float
#define ELEMENT gint32
#define NAME(x) x##_bf16
#define MULTIPLY_ADD(sums, s, b)                                                                                       \
  ((V) _mm512_dpbf16_ps ((__m512) (sums), (__m512bh) _mm512_set1_epi32 (s), (__m512bh) (b)))
#include "cpu/ortrain-cpu-gemm-block-template.h"

/* The first n of 32 numbers, the others 0. */
static inline __attribute__ ((always_inline)) __m512i
load_first (const guint16 *from, gint64 n)
{
  return n >= 32 ? _mm512_loadu_si512 (from) : _mm512_maskz_loadu_epi16 ((1u << n) - 1, from);
}

static inline __attribute__ ((always_inline)) __m512i
load_first_wide (const guint16 *from, __mmask16 mask)
{
  return _mm512_cvtepu16_epi32 (_mm256_maskz_loadu_epi16 (mask, from));
}

/* A as it is stored, [m][k]: panels [row][KCS]; transposed, [k][m]: panels [pair][MR]. */
static void
pack_a (OrtrainDType dtype, gboolean trans, gint64 mc, gint64 kc, const void *a, gint64 lda, void *packed, float *row)
{
  const gint64 n_panels = (mc + MR - 1) / MR;
  const guint16 *half = a;
  gint32 *to = packed;
  if (trans)
    for (gint64 k = 0; k < kc; k += 2)
      for (gint64 p = 0; p < n_panels; p++)
        {
          const gint64 i = NAME (panel_row) (mc, n_panels, p), mr = NAME (panel_row) (mc, n_panels, p + 1) - i;
          const __mmask16 mask = (__mmask16) ((1u << mr) - 1);
          const guint16 *from = half + k * lda + i;
          __builtin_prefetch (from + 8 * lda);
          __builtin_prefetch (from + 9 * lda);
          const __m512i even = load_first_wide (from, mask);
          const __m512i odd = k + 1 < kc ? load_first_wide (from + lda, mask) : _mm512_setzero_si512 ();
          /* 16 lanes: the last two are overwritten by the next pair, or lie in the spare memory after the panel */
          _mm512_storeu_si512 (to + p * MR * KCS + k / 2 * MR, _mm512_or_si512 (even, _mm512_slli_epi32 (odd, 16)));
        }
  else
    for (gint64 p = 0; p < n_panels; p++)
      {
        const gint64 i = NAME (panel_row) (mc, n_panels, p), mr = NAME (panel_row) (mc, n_panels, p + 1) - i;
        for (gint64 r = 0; r < mr; r++)
          {
            guint16 *line = (guint16 *) (to + (p * MR + r) * KCS);
            memcpy (line, half + (i + r) * lda, (gsize) kc * sizeof (guint16));
            line[kc] = 0;
          }
      }
}

/* to [pair][width] = b [k][column], n columns of a panel, for one pair */
static inline __attribute__ ((always_inline)) void
pack_pair (gboolean is_last, gint64 n, gint64 width, const guint16 *b, gint64 ldb, gint32 *to)
{
  const __m512i low = _mm512_set_epi16 (47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                        5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_set_epi16 (63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55, 23, 54, 22,
                                         53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  const __m512i even = load_first (b, n), odd = is_last ? _mm512_setzero_si512 () : load_first (b + ldb, n);
  _mm512_storeu_si512 (to, _mm512_permutex2var_epi16 (even, low, odd));
  if (width > VL)
    _mm512_storeu_si512 (to + VL, _mm512_permutex2var_epi16 (even, high, odd));
}

static void
pack_columns (gint64 kc, gint64 nc, const guint16 *b, gint64 ldb, gint32 *to)
{
  const gint64 pairs = (kc + 1) / 2, full = nc / NR, rest = nc % NR;
  for (gint64 p = 0; p < full; p += 4)
    {
      /* Four panels at a time: longer runs of a row per visit. */
      const gint64 n = MIN (4, full - p);
      for (gint64 k = 0; k < kc; k += 2)
        for (gint64 q = p; q < p + n; q++)
          {
            const guint16 *from = b + k * ldb + q * NR;
            __builtin_prefetch (from + 8 * ldb);
            __builtin_prefetch (from + 9 * ldb);
            pack_pair (k + 1 == kc, NR, NR, from, ldb, to + q * NR * pairs + k / 2 * NR);
          }
    }
  const gint64 width = rest > VL ? NR : VL;
  for (gint64 k = 0; rest > 0 && k < kc; k += 2)
    pack_pair (k + 1 == kc, rest, width, b + k * ldb + full * NR, ldb, to + full * NR * pairs + k / 2 * width);
}

/* to [pair][width] = b [column][k], 16 columns of which n are there */
static void
pack_transposed (gint64 kc, gint64 n, gint64 width, const guint16 *b, gint64 ldb, gint32 *to)
{
  for (gint64 k = 0; k < kc; k += 2 * VL)
    {
      E r[VL];
      const gint64 pairs = MIN (VL, (kc - k + 1) / 2);
      if (n == VL)
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
          r[i] = (E) load_first (b + i * ldb + k, kc - k);
      else
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
          r[i] = i < n ? (E) load_first (b + i * ldb + k, kc - k) : (E){ 0 };
      TRANSPOSE_STAGE (8)
      TRANSPOSE_STAGE (4)
      TRANSPOSE_STAGE (2)
      TRANSPOSE_STAGE (1)
#pragma GCC unroll 16
      for (int i = 0; i < VL; i++)
        if (i < pairs)
          *(E *) (to + (k / 2 + i) * width) = r[i];
    }
}

static void
pack_b (OrtrainDType dtype, gboolean trans, gint64 kc, gint64 nc, const void *b, gint64 ldb, void *packed, float *row)
{
  const guint16 *half = b;
  gint32 *to = packed;
  if (!trans)
    {
      pack_columns (kc, nc, half, ldb, to);
      return;
    }
  for (gint64 j = 0; j < nc; j += NR, to += NR * ((kc + 1) / 2))
    {
      const gint64 n = MIN (NR, nc - j), width = n > VL ? NR : VL;
      for (gint64 l = 0; l < width; l += VL)
        pack_transposed (kc, MIN (VL, n - l), width, half + (j + l) * ldb, ldb, to + l);
    }
}

static void
multiply (gint64 mc, gint64 nc, gint64 kc, gboolean trans_a, float alpha, const void *a_packed, const void *b_packed,
          float beta, float *c, gint64 ldc)
{
  ortrain_cpu_gemm_block_bf16 (mc, nc, (kc + 1) / 2, trans_a, alpha, a_packed, b_packed, beta, c, ldc);
}

extern const OrtrainCpuMixedCore ortrain_cpu_mixed_core_bf16;
const OrtrainCpuMixedCore ortrain_cpu_mixed_core_bf16 = {
  .mr = MR,
  .nr = NR,
  .kc = 2 * KC,
  .mc = MC,
  .nc = NC,
  .a_bytes = MC * KCS * sizeof (ELEMENT),
  .b_bytes = (gsize) NC * KC * sizeof (ELEMENT),
  .pack_a = pack_a,
  .pack_b = pack_b,
  .block = multiply,
};
