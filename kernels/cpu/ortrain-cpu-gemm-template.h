/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocked matrix product, written once for float and double: included by ortrain-cpu-gemm-core.c with REAL,
 * VL (elements of a vector), MR, KC, MC, NC and NAME(x) defined. Vectors are the compiler's own, so the same text
 * serves every instruction set.
 *
 * C [m, n] = alpha · A [m, k] · B [k, n] + beta · C. The product is cut into blocks of KC × NC of B and MC × KC of A,
 * copied
 * ("packed") so that the innermost loop reads both with constant strides:
 *   B: panels of NR = 2·VL columns, [k][NR] (the last one VL wide when that is enough);
 *   A: panels of up to MR rows, either [row][KCS] (rows of A contiguous in memory) or [k][MR] (columns contiguous).
 * Each element of C is the sum over k in order, within blocks of KC: the bits do not depend on how m and n are cut. */

#define ELEMENT REAL
#define MULTIPLY_ADD(sums, s, b) ((sums) + (s) * (b))
#include "cpu/ortrain-cpu-gemm-block-template.h"

/* ---- packing ---- */

/* to[j·ldt + i] = from[i·ldf + j], VL × VL */
static inline __attribute__ ((always_inline)) void
NAME (transpose_square) (const REAL *restrict from, gint64 ldf, REAL *restrict to, gint64 ldt)
{
  V r[VL];
#pragma GCC unroll 16
  for (int i = 0; i < VL; i++)
    r[i] = *(const V *) (from + i * ldf);
#if VL > 8
  TRANSPOSE_STAGE (8)
#endif
#if VL > 4
  TRANSPOSE_STAGE (4)
#endif
#if VL > 2
  TRANSPOSE_STAGE (2)
#endif
  TRANSPOSE_STAGE (1)
#pragma GCC unroll 16
  for (int i = 0; i < VL; i++)
    *(V *) (to + i * ldt) = r[i];
}

/* to[j·ldt + i] = from[i·ldf + j] for rows × columns of `from` */
static void
NAME (ortrain_cpu_transpose) (gint64 rows, gint64 columns, const REAL *from, gint64 ldf, REAL *to, gint64 ldt)
{
  gint64 i = 0;
  for (; i + VL <= rows; i += VL)
    {
      gint64 j = 0;
      for (; j + VL <= columns; j += VL)
        NAME (transpose_square) (from + i * ldf + j, ldf, to + j * ldt + i, ldt);
      for (; j < columns; j++)
        for (int l = 0; l < VL; l++)
          to[j * ldt + i + l] = from[(i + l) * ldf + j];
    }
  for (; i < rows; i++)
    for (gint64 j = 0; j < columns; j++)
      to[j * ldt + i] = from[i * ldf + j];
}

static void
NAME (pack_a) (gboolean trans, gint64 mc, gint64 kc, const REAL *restrict a, gint64 lda, REAL *restrict to)
{
  gint64 n_panels = (mc + MR - 1) / MR;
  if (trans && mc == n_panels * MR)
    {
      for (gint64 k = 0; k < kc; k++)
        {
          const REAL *from = a + k * lda;
          for (gint64 p = 0; p < n_panels; p++)
            {
              __builtin_prefetch (from + 4 * lda + p * MR);
              memcpy (to + p * MR * KCS + k * MR, from + p * MR, MR * sizeof (REAL));
            }
        }
      return;
    }
  for (gint64 p = 0; p < n_panels; p++, to += MR * KCS)
    {
      gint64 i = NAME (panel_row) (mc, n_panels, p), mr = NAME (panel_row) (mc, n_panels, p + 1) - i;
      if (!trans)
        for (gint64 r = 0; r < mr; r++)
          memcpy (to + r * KCS, a + (i + r) * lda, (gsize) kc * sizeof (REAL));
      else
        for (gint64 k = 0; k < kc; k++)
          for (gint64 r = 0; r < mr; r++)
            to[k * MR + r] = a[k * lda + i + r];
    }
}

static void
NAME (pack_b) (gboolean trans, gint64 kc, gint64 nc, const REAL *restrict b, gint64 ldb, REAL *restrict to)
{
  if (trans)
    {
      for (gint64 j = 0; j < nc; j += NR, to += NR * kc)
        {
          gint64 n = MIN (NR, nc - j), width = n > VL ? NR : VL;
          for (gint64 l = 0; l < width; l += VL)
            {
              gint64 lanes = CLAMP (n - l, 0, VL);
              if (lanes < VL)
                for (gint64 k = 0; k < kc; k++)
                  for (gint64 i = lanes; i < VL; i++)
                    to[k * width + l + i] = 0;
              NAME (ortrain_cpu_transpose) (lanes, kc, b + (j + l) * ldb, ldb, to + l, width);
            }
        }
      return;
    }
  gint64 full = nc / NR;
  for (gint64 p = 0; p < full; p += 4)
    {
      /* Four panels at a time: longer runs of a row per visit. */
      gint64 n = MIN (4, full - p);
      for (gint64 k = 0; k < kc; k++)
        for (gint64 q = 0; q < n; q++)
          {
            __builtin_prefetch (b + (k + 8) * ldb + (p + q) * NR);
            __builtin_prefetch (b + (k + 8) * ldb + (p + q) * NR + VL);
            memcpy (to + (p + q) * NR * kc + k * NR, b + k * ldb + (p + q) * NR, NR * sizeof (REAL));
          }
    }
  gint64 rest = nc - full * NR, width = rest > VL ? NR : VL;
  if (rest > 0)
    {
      to += full * NR * kc;
      b += full * NR;
      for (gint64 k = 0; k < kc; k++)
        {
          gint64 i = 0;
          for (; i < rest; i++)
            to[k * width + i] = b[k * ldb + i];
          for (; i < width; i++)
            to[k * width + i] = 0;
        }
    }
}

/* Few rows of A do not pay for a copy of B: whole panels are read where they are. b_packed: room for one panel. */
static void
NAME (direct_block) (gint64 mc, gint64 nc, gint64 kc, gboolean kmajor, REAL alpha, const REAL *a_packed, const REAL *b,
                     gint64 ldb, REAL *b_packed, REAL beta, REAL *c, gint64 ldc)
{
  const gint64 n_panels = (mc + MR - 1) / MR, whole = nc / NR * NR;
  for (gint64 j = 0; j < whole; j += NR)
    for (gint64 p = 0; p < n_panels; p++)
      {
        const gint64 i = NAME (panel_row) (mc, n_panels, p);
        const int mr = (int) (NAME (panel_row) (mc, n_panels, p + 1) - i);
        const REAL *a = a_packed + p * MR * KCS;
        if (kmajor)
          NAME (micro_columns) (mr, 2, kc, alpha, a, KCS, b + j, ldb, beta, c + i * ldc + j, ldc, NR);
        else
          NAME (micro_rows) (mr, 2, kc, alpha, a, KCS, b + j, ldb, beta, c + i * ldc + j, ldc, NR);
      }
  if (whole == nc)
    return;
  NAME (pack_b) (FALSE, kc, nc - whole, b + whole, ldb, b_packed);
  NAME (ortrain_cpu_gemm_block) (mc, nc - whole, kc, kmajor, alpha, a_packed, b_packed, beta, c + whole, ldc);
}

/* Whether C' = B · A' costs fewer copies than C = A · B' does: the second copies B whole to turn it, the first turns A,
 * and C before and after, and reads the rows of B where they are. Of both, each element of C has the same bits. */
static inline gboolean
NAME (is_turned_cheaper) (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, gint64 ldb)
{
  /* A' lies in the room for a block of B. Rows whole pages apart would push each other out of the cache. */
  return !trans_a && trans_b && 2 * m * (k + 2 * n) <= n * k && (m + NR) * k <= (gint64) NC * KC &&
         ldb * (gint64) sizeof (REAL) % 4096 != 0;
}

/* a: [m, k], b: [n, k]. */
static void
NAME (turned_tile) (gint64 m, gint64 n, gint64 k, gint64 depth, REAL alpha, const REAL *a, gint64 lda, const REAL *b,
                    gint64 ldb, REAL beta, REAL *c, gint64 ldc, REAL *c_turned, REAL *a_turned)
{
  const gint64 ldt = (m + NR - 1) / NR * NR; /* of the room below */
  const gint64 room = MC / MR * MR * KCS / ldt, most = room / MR * MR;
  for (gint64 pc = 0; pc < k; pc += depth)
    NAME (pack_b) (TRUE, MIN (depth, k - pc), m, a + pc, lda, a_turned + pc * ldt);
  for (gint64 jc = 0; jc < n; jc += most)
    {
      const gint64 nc = MIN (most, n - jc), n_panels = (nc + MR - 1) / MR;
      if (beta != 0)
        NAME (ortrain_cpu_transpose) (m, nc, c + jc, ldc, c_turned, ldt);
      for (gint64 pc = 0; pc < k; pc += depth)
        for (gint64 p = 0; p < n_panels; p++)
          {
            const gint64 i = NAME (panel_row) (nc, n_panels, p);
            const int mr = (int) (NAME (panel_row) (nc, n_panels, p + 1) - i);
            const gint64 kc = MIN (depth, k - pc);
            for (gint64 j = 0; j < m; j += NR)
              {
                const int n_valid = (int) MIN (NR, m - j), nv = n_valid > VL ? 2 : 1;
                NAME (micro_rows)
                (mr, nv, kc, alpha, b + (jc + i) * ldb + pc, ldb, a_turned + pc * ldt + j * kc, nv * VL,
                 pc == 0 ? beta : 1, c_turned + i * ldt + j, ldt, n_valid);
              }
          }
      NAME (ortrain_cpu_transpose) (nc, m, c_turned, ldt, c + jc, ldc);
    }
}

static void
NAME (ortrain_cpu_gemm_tile) (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, REAL alpha,
                              const REAL *a, gint64 lda, const REAL *b, gint64 ldb, REAL beta, REAL *c, gint64 ldc,
                              void *scratch)
{
  REAL *a_packed = scratch, *b_packed = a_packed + (MC / MR) * MR * KCS;
  const gint64 n_blocks = (k + KC - 1) / KC, depth = (k + n_blocks - 1) / n_blocks; /* no short one at the end */
  if (NAME (is_turned_cheaper) (trans_a, trans_b, m, n, k, ldb))
    {
      NAME (turned_tile) (m, n, k, depth, alpha, a, lda, b, ldb, beta, c, ldc, a_packed, b_packed);
      return;
    }
  /* Reading a row of a page each is slow. */
  const gboolean is_direct = !trans_b && m <= 5 * MR && ldb * (gint64) sizeof (REAL) <= 4096;
  for (gint64 jc = 0; jc < n; jc += NC)
    {
      gint64 nc = MIN (NC, n - jc);
      for (gint64 pc = 0; pc < k; pc += depth)
        {
          gint64 kc = MIN (depth, k - pc);
          const REAL *b_block = trans_b ? b + jc * ldb + pc : b + pc * ldb + jc;
          if (!is_direct)
            NAME (pack_b) (trans_b, kc, nc, b_block, ldb, b_packed);
          for (gint64 ic = 0; ic < m; ic += MC)
            {
              gint64 mc = MIN (MC, m - ic);
              NAME (pack_a) (trans_a, mc, kc, trans_a ? a + pc * lda + ic : a + ic * lda + pc, lda, a_packed);
              if (is_direct)
                NAME (direct_block)
              (mc, nc, kc, trans_a, alpha, a_packed, b_block, ldb, b_packed, pc == 0 ? beta : 1, c + ic * ldc + jc,
               ldc);
              else NAME (ortrain_cpu_gemm_block) (mc, nc, kc, trans_a, alpha, a_packed, b_packed, pc == 0 ? beta : 1,
                                                  c + ic * ldc + jc, ldc);
            }
        }
    }
}

#undef V
#undef E
#undef NR
#undef KCS
#undef MICRO_CASE
#undef MICRO_DISPATCH
#undef ELEMENT
#undef MULTIPLY_ADD
