/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-gemm-mixed-private.h"
#include "cpu/ortrain-cpu-isa-private.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

/* The blocked product for one instruction set: registers decide the size of the innermost tile (MR rows × two vectors).
 */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define MR 14
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define MR 6
#else
#define VECTOR_BYTES 16
#define MR 6
#endif
#define KC 256
#define MC ((224 / MR) * MR)
#define NC 1024

#define REAL float
#define NAME(x) ORTRAIN_CPU_SYMBOL (x##_f32)
#if VECTOR_BYTES == 64
#define VL 16
#define LANES LANES_16
#elif VECTOR_BYTES == 32
#define VL 8
#define LANES LANES_8
#else
#define VL 4
#define LANES LANES_4
#endif
#include "cpu/ortrain-cpu-gemm-template.h"

extern const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core);
const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core) = {
  .mr = MR,
  .nr = 2 * VL,
  .vl = VL,
  .kc = KC,
  .mc = MC,
  .nc = NC,
  .kcs = KC + 64 / (int) sizeof (REAL),
  .element_size = sizeof (REAL),
  .block.f32 = NAME (ortrain_cpu_gemm_block),
  .tile.f32 = NAME (ortrain_cpu_gemm_tile),
  .transpose.f32 = NAME (ortrain_cpu_transpose),
};

/* ---- operands of 16 bits: widened while they are packed ---- */

static void
widen (OrtrainDType dtype, float *restrict to, const void *restrict from, gint64 n)
{
  const guint16 *half = from;
  gint64 i = 0;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      memcpy (to, from, (gsize) n * sizeof (float));
      return;
    }
#if defined(__AVX512F__)
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    for (; i + 16 <= n; i += 16)
      _mm512_storeu_ps (to + i, _mm512_cvtph_ps (_mm256_loadu_si256 ((const __m256i *) (half + i))));
#elif defined(__F16C__)
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps (to + i, _mm256_cvtph_ps (_mm_loadu_si128 ((const __m128i *) (half + i))));
#endif
  ortrain_dtype_widen_n (dtype, to + i, half + i, n - i);
}

static void
narrow (OrtrainDType dtype, void *restrict to, const float *restrict from, gint64 n)
{
  guint16 *half = to;
  gint64 i = 0;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      memcpy (to, from, (gsize) n * sizeof (float));
      return;
    }
#if defined(__AVX512F__)
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    for (; i + 16 <= n; i += 16)
      _mm256_storeu_si256 ((__m256i *) (half + i),
                           _mm512_cvtps_ph (_mm512_loadu_ps (from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  if (dtype == ORTRAIN_DTYPE_FLOAT16)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128 ((__m128i *) (half + i),
                        _mm256_cvtps_ph (_mm256_loadu_ps (from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  ortrain_dtype_narrow_n (dtype, half + i, from + i, n - i);
}

extern const OrtrainCpuConverter ORTRAIN_CPU_SYMBOL (ortrain_cpu_converter);
const OrtrainCpuConverter ORTRAIN_CPU_SYMBOL (ortrain_cpu_converter) = { widen, narrow };

#define KCS (KC + 64 / (int) sizeof (float))
#define NR (2 * VL)

/* row: room for [MAX (mc, VL · KCS)] */
static void
pack_mixed_a (OrtrainDType dtype, gboolean trans, gint64 mc, gint64 kc, const void *a, gint64 lda, void *packed,
              float *row)
{
  const gint64 n_panels = (mc + MR - 1) / MR;
  float *restrict to = packed;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    NAME (pack_a) (trans, mc, kc, a, lda, to);
  else if (trans)
    for (gint64 k = 0; k < kc; k++)
      {
        widen (dtype, row, (const guint16 *) a + k * lda, mc);
        for (gint64 p = 0; p < n_panels; p++)
          {
            const gint64 i = NAME (panel_row) (mc, n_panels, p), mr = NAME (panel_row) (mc, n_panels, p + 1) - i;
            memcpy (to + p * MR * KCS + k * MR, row + i, (gsize) mr * sizeof (float));
          }
      }
  else
    for (gint64 p = 0; p < n_panels; p++)
      {
        const gint64 i = NAME (panel_row) (mc, n_panels, p), mr = NAME (panel_row) (mc, n_panels, p + 1) - i;
        for (gint64 r = 0; r < mr; r++)
          widen (dtype, to + (p * MR + r) * KCS, (const guint16 *) a + (i + r) * lda, kc);
      }
}

/* row: room for [VL][KCS] */
static void
pack_mixed_b (OrtrainDType dtype, gboolean trans, gint64 kc, gint64 nc, const void *b, gint64 ldb, void *packed,
              float *row)
{
  float *restrict to = packed;
  const guint16 *half = b;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      NAME (pack_b) (trans, kc, nc, b, ldb, to);
      return;
    }
  for (gint64 j = 0; j < nc; j += NR, to += NR * kc)
    {
      const gint64 n = MIN (NR, nc - j), width = n > VL ? NR : VL;
      for (gint64 k = 0; !trans && k < kc; k++)
        {
          float *restrict line = to + k * width;
          for (gint64 l = n; l < width; l++)
            line[l] = 0;
          __builtin_prefetch (half + (k + 8) * ldb + j);
          widen (dtype, line, half + k * ldb + j, n);
        }
      for (gint64 l = 0; trans && l < width; l += VL)
        {
          for (gint64 i = 0; i < VL; i++)
            if (l + i < n)
              widen (dtype, row + i * KCS, half + (j + l + i) * ldb, kc);
            else
              memset (row + i * KCS, 0, (gsize) kc * sizeof (float));
          NAME (ortrain_cpu_transpose) (VL, kc, row, KCS, to + l, width);
        }
    }
}

static void
multiply_mixed (gint64 mc, gint64 nc, gint64 kc, gboolean trans_a, float alpha, const void *a_packed,
                const void *b_packed, float beta, float *c, gint64 ldc)
{
  NAME (ortrain_cpu_gemm_block) (mc, nc, kc, trans_a, alpha, a_packed, b_packed, beta, c, ldc);
}

extern const OrtrainCpuMixedCore ORTRAIN_CPU_SYMBOL (ortrain_cpu_mixed_core);
const OrtrainCpuMixedCore ORTRAIN_CPU_SYMBOL (ortrain_cpu_mixed_core) = {
  .mr = MR,
  .nr = NR,
  .kc = KC,
  .mc = MC,
  .nc = NC,
  .a_bytes = MC * KCS * sizeof (float),
  .b_bytes = (gsize) NC * KC * sizeof (float),
  .pack_a = pack_mixed_a,
  .pack_b = pack_mixed_b,
  .block = multiply_mixed,
};
#undef NR
#undef KCS
#undef REAL
#undef NAME
#undef VL
#undef LANES

#define REAL double
#define NAME(x) ORTRAIN_CPU_SYMBOL (x##_f64)
#if VECTOR_BYTES == 64
#define VL 8
#define LANES LANES_8
#elif VECTOR_BYTES == 32
#define VL 4
#define LANES LANES_4
#else
#define VL 2
#define LANES LANES_2
#endif
#include "cpu/ortrain-cpu-gemm-template.h"

extern const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core);
const OrtrainCpuGemmCore NAME (ortrain_cpu_gemm_core) = {
  .mr = MR,
  .nr = 2 * VL,
  .vl = VL,
  .kc = KC,
  .mc = MC,
  .nc = NC,
  .kcs = KC + 64 / (int) sizeof (REAL),
  .element_size = sizeof (REAL),
  .block.f64 = NAME (ortrain_cpu_gemm_block),
  .tile.f64 = NAME (ortrain_cpu_gemm_tile),
  .transpose.f64 = NAME (ortrain_cpu_transpose),
};
