/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocked matrix product, written once for float and double: included by ortrain-cpu-gemm-core.c with REAL, IREAL,
 * VL (elements of a vector), MR, KC, MC, NC and NAME(x) defined. Vectors are the compiler's own, so the same text
 * serves every instruction set.
 *
 * C [m, n] = alpha · A [m, k] · B [k, n] + beta · C. The product is cut into blocks of KC × NC of B and MC × KC of A,
 * copied
 * ("packed") so that the innermost loop reads both with constant strides:
 *   B: panels of NR = 2·VL columns, [k][NR] (the last one VL wide when that is enough);
 *   A: panels of up to MR rows, either [row][KCS] (rows of A contiguous in memory) or [k][MR] (columns contiguous).
 * Each element of C is the sum over k in order, within blocks of KC: the bits do not depend on how m and n are cut. */

typedef REAL NAME (V) __attribute__ ((vector_size (VL * sizeof (REAL)), aligned (__alignof__(REAL)), may_alias));

#define V NAME (V)
#define NR (2 * VL)
#define KCS (KC + 64 / (int) sizeof (REAL))

/* Columns that do not fill a vector: the arithmetic of whole ones through a buffer, so that an edge has the bits it would
 * have inside. sums: [mr][2] vectors. Once for all sizes, or most of the code would be edges. */
static __attribute__ ((noinline)) void
NAME (store_edge) (int mr, int nv, REAL alpha, const V *sums, REAL beta, REAL *restrict c, gint64 ldc, int n_valid)
{
  for (int i = 0; i < mr; i++)
    {
      REAL tile[NR] = { 0 };
      REAL *to = c + i * ldc;
      V *row = (V *) tile;
      if (beta != 0)
        memcpy (tile, to, (gsize) n_valid * sizeof (REAL));
      for (int j = 0; j < nv; j++)
        {
          V v = alpha * sums[2 * i + j];
          if (beta != 0)
            v += beta * row[j];
          row[j] = v;
        }
      memcpy (to, tile, (gsize) n_valid * sizeof (REAL));
    }
}

/* mr × nv·VL of C; mr, nv and kmajor are constants where this is inlined. */
static inline __attribute__ ((always_inline)) void
NAME (micro) (const int mr, const int nv, const int kmajor, gint64 kc, REAL alpha, const REAL *restrict a,
              const REAL *restrict b, gint64 bs, REAL beta, REAL *restrict c, gint64 ldc, int n_valid)
{
  V acc[MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < mr; i++)
    {
      acc[i][0] = (V){ 0 };
      acc[i][1] = (V){ 0 };
      /* The rows of C lie far apart: fetch them while the sums are made. */
      __builtin_prefetch (c + i * ldc, 1);
      if (nv > 1)
        __builtin_prefetch (c + i * ldc + VL, 1);
    }
  for (gint64 k = 0; k < kc; k++)
    {
      V b0 = *(const V *) b;
      V b1 = nv > 1 ? *(const V *) (b + VL) : b0;
#pragma GCC unroll 16
      for (int i = 0; i < mr; i++)
        {
          REAL s = kmajor ? a[i] : a[i * KCS];
          acc[i][0] += s * b0;
          if (nv > 1)
            acc[i][1] += s * b1;
        }
      a += kmajor ? MR : 1;
      b += bs;
    }
  if (n_valid == nv * VL)
    {
#pragma GCC unroll 16
      for (int i = 0; i < mr; i++)
        {
          V *row = (V *) (c + i * ldc);
          for (int j = 0; j < nv; j++)
            {
              V v = alpha * acc[i][j];
              if (beta != 0)
                v += beta * row[j];
              row[j] = v;
            }
        }
    }
  else
    {
      V sums[MR * 2];
#pragma GCC unroll 16
      for (int i = 0; i < mr; i++)
        {
          sums[2 * i] = acc[i][0];
          sums[2 * i + 1] = acc[i][1];
        }
      NAME (store_edge) (mr, nv, alpha, sums, beta, c, ldc, n_valid);
    }
}

#define MICRO_CASE(r)                                                                                                  \
  case r:                                                                                                              \
    if (nv > 1)                                                                                                        \
      NAME (micro) (r, 2, kmajor, kc, alpha, a, b, bs, beta, c, ldc, n_valid);                                         \
    else                                                                                                               \
      NAME (micro) (r, 1, kmajor, kc, alpha, a, b, bs, beta, c, ldc, n_valid);                                         \
    break;

#define MICRO_DISPATCH(suffix, kmajor_)                                                                                \
  static void NAME (micro_##suffix) (int mr, int nv, gint64 kc, REAL alpha, const REAL *a, const REAL *b, gint64 bs,   \
                                     REAL beta, REAL *c, gint64 ldc, int n_valid)                                      \
  {                                                                                                                    \
    enum                                                                                                               \
    {                                                                                                                  \
      kmajor = kmajor_                                                                                                 \
    };                                                                                                                 \
    switch (mr)                                                                                                        \
      {                                                                                                                \
        MICRO_CASES                                                                                                    \
      default:                                                                                                         \
        break;                                                                                                         \
      }                                                                                                                \
  }
MICRO_DISPATCH (rows, 0)
MICRO_DISPATCH (columns, 1)

/* Rows of panel p when mc rows are spread evenly over the fewest panels. */
static inline gint64
NAME (panel_row) (gint64 mc, gint64 n_panels, gint64 p)
{
  return mc * p / n_panels;
}

static void
NAME (ortrain_cpu_gemm_block) (gint64 mc, gint64 nc, gint64 kc, gboolean kmajor, REAL alpha, const REAL *a_packed,
                               const REAL *b_packed, REAL beta, REAL *c, gint64 ldc)
{
  gint64 n_panels = (mc + MR - 1) / MR;
  for (gint64 j = 0; j < nc; j += NR)
    {
      int n_valid = (int) MIN (NR, nc - j), nv = n_valid > VL ? 2 : 1;
      const REAL *b = b_packed + j * kc;
      for (gint64 p = 0; p < n_panels; p++)
        {
          gint64 i = NAME (panel_row) (mc, n_panels, p);
          int mr = (int) (NAME (panel_row) (mc, n_panels, p + 1) - i);
          const REAL *a = a_packed + p * MR * KCS;
          if (kmajor)
            NAME (micro_columns) (mr, nv, kc, alpha, a, b, nv * VL, beta, c + i * ldc + j, ldc, n_valid);
          else
            NAME (micro_rows) (mr, nv, kc, alpha, a, b, nv * VL, beta, c + i * ldc + j, ldc, n_valid);
        }
    }
}

/* ---- packing ---- */

#define SHUFFLE_LOW(l, s) ((l) & (s)) ? VL + (l) - (s) : (l)
#define SHUFFLE_HIGH(l, s) ((l) & (s)) ? VL + (l) : (l) + (s)
#define TRANSPOSE_STAGE(s)                                                                                             \
  _Pragma ("GCC unroll 16") for (int i = 0; i < VL; i++) if (!(i & (s)))                                               \
  {                                                                                                                    \
    V x = r[i], y = r[i + (s)];                                                                                        \
    r[i] = __builtin_shufflevector (x, y, LANES (SHUFFLE_LOW, s));                                                     \
    r[i + (s)] = __builtin_shufflevector (x, y, LANES (SHUFFLE_HIGH, s));                                              \
  }

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

static void
NAME (ortrain_cpu_gemm_tile) (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, REAL alpha,
                              const REAL *a, gint64 lda, const REAL *b, gint64 ldb, REAL beta, REAL *c, gint64 ldc,
                              void *scratch)
{
  REAL *a_packed = scratch, *b_packed = a_packed + (MC / MR) * MR * KCS;
  for (gint64 jc = 0; jc < n; jc += NC)
    {
      gint64 nc = MIN (NC, n - jc);
      for (gint64 pc = 0; pc < k; pc += KC)
        {
          gint64 kc = MIN (KC, k - pc);
          NAME (pack_b) (trans_b, kc, nc, trans_b ? b + jc * ldb + pc : b + pc * ldb + jc, ldb, b_packed);
          for (gint64 ic = 0; ic < m; ic += MC)
            {
              gint64 mc = MIN (MC, m - ic);
              NAME (pack_a) (trans_a, mc, kc, trans_a ? a + pc * lda + ic : a + ic * lda + pc, lda, a_packed);
              NAME (ortrain_cpu_gemm_block)
              (mc, nc, kc, trans_a, alpha, a_packed, b_packed, pc == 0 ? beta : 1, c + ic * ldc + jc, ldc);
            }
        }
    }
}

#undef V
#undef NR
#undef KCS
#undef MICRO_CASE
#undef MICRO_DISPATCH
#undef SHUFFLE_LOW
#undef SHUFFLE_HIGH
#undef TRANSPOSE_STAGE
