/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The innermost loops of the blocked product: C [mc, nc] from packed blocks of A and B. Included with REAL (the type of
 * C and of the sums), ELEMENT (the type of a packed block's elements), MULTIPLY_ADD (sums, s, b) of a vector of sums,
 * an element and a vector of elements, VL (lanes of a vector), MR, KC and NAME(x) defined. An element is a number, or a
 * pair of 16-bit ones that follow each other along k; kc and KC count elements. */

#ifndef MICRO_CASES
/* clang-format would change these in every run. */
/* clang-format off */
#if MR == 14
#define MICRO_CASES \
  MICRO_CASE (1) MICRO_CASE (2) MICRO_CASE (3) MICRO_CASE (4) MICRO_CASE (5) MICRO_CASE (6) MICRO_CASE (7) \
  MICRO_CASE (8) MICRO_CASE (9) MICRO_CASE (10) MICRO_CASE (11) MICRO_CASE (12) MICRO_CASE (13) MICRO_CASE (14)
#else
#define MICRO_CASES \
  MICRO_CASE (1) MICRO_CASE (2) MICRO_CASE (3) MICRO_CASE (4) MICRO_CASE (5) MICRO_CASE (6)
#endif
/* clang-format on */

#define LANES_2(F, s) F (0, s), F (1, s)
#define LANES_4(F, s) LANES_2 (F, s), F (2, s), F (3, s)
#define LANES_8(F, s) LANES_4 (F, s), F (4, s), F (5, s), F (6, s), F (7, s)
#define LANES_16(F, s)                                                                                                 \
  LANES_8 (F, s), F (8, s), F (9, s), F (10, s), F (11, s), F (12, s), F (13, s), F (14, s), F (15, s)

/* In alpha·sums + beta·C the first product is rounded, and the second one contracted with the sum. Otherwise the
 * compiler might choose differently at an edge than inside, and an element would depend on its position. */
#if defined(__x86_64__)
#define ROUND_FIRST(v) __asm__("" : "+v"(v))
#elif defined(__aarch64__)
#define ROUND_FIRST(v) __asm__("" : "+w"(v))
#else
#define ROUND_FIRST(v) __asm__("" : "+m"(v))
#endif

/* VL × VL in registers: r[j] lane i = r[i] lane j */
#define SHUFFLE_LOW(l, s) ((l) & (s)) ? VL + (l) - (s) : (l)
#define SHUFFLE_HIGH(l, s) ((l) & (s)) ? VL + (l) : (l) + (s)
#define TRANSPOSE_STAGE(s)                                                                                             \
  _Pragma ("GCC unroll 16") for (int i = 0; i < VL; i++) if (!(i & (s)))                                               \
  {                                                                                                                    \
    __typeof__ (r[0]) x = r[i], y = r[i + (s)];                                                                        \
    r[i] = __builtin_shufflevector (x, y, LANES (SHUFFLE_LOW, s));                                                     \
    r[i + (s)] = __builtin_shufflevector (x, y, LANES (SHUFFLE_HIGH, s));                                              \
  }
#endif

typedef REAL NAME (V) __attribute__ ((vector_size (VL * sizeof (REAL)), aligned (__alignof__(REAL)), may_alias));
typedef ELEMENT NAME (E)
    __attribute__ ((vector_size (VL * sizeof (ELEMENT)), aligned (__alignof__(ELEMENT)), may_alias));

#define V NAME (V)
#define E NAME (E)
#define NR (2 * VL)
#define KCS (KC + 64 / (int) sizeof (ELEMENT))

/* Columns that do not fill a vector: the arithmetic of whole ones through a buffer, so that an edge has the bits it
 * would have inside. sums: [mr][2] vectors. Once for all sizes, or most of the code would be edges. */
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
          ROUND_FIRST (v);
          if (beta != 0)
            v += beta * row[j];
          row[j] = v;
        }
      memcpy (to, tile, (gsize) n_valid * sizeof (REAL));
    }
}

/* mr × nv·VL of C; mr, nv and kmajor are constants where this is inlined. */
static inline __attribute__ ((always_inline)) void
NAME (micro) (const int mr, const int nv, const int kmajor, gint64 kc, REAL alpha, const ELEMENT *restrict a, gint64 as,
              const ELEMENT *restrict b, gint64 bs, REAL beta, REAL *restrict c, gint64 ldc, int n_valid)
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
      E b0 = *(const E *) b;
      E b1 = nv > 1 ? *(const E *) (b + VL) : b0;
#pragma GCC unroll 16
      for (int i = 0; i < mr; i++)
        {
          ELEMENT s = kmajor ? a[i] : a[i * as];
          acc[i][0] = MULTIPLY_ADD (acc[i][0], s, b0);
          if (nv > 1)
            acc[i][1] = MULTIPLY_ADD (acc[i][1], s, b1);
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
              ROUND_FIRST (v);
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
      NAME (micro) (r, 2, kmajor, kc, alpha, a, as, b, bs, beta, c, ldc, n_valid);                                     \
    else                                                                                                               \
      NAME (micro) (r, 1, kmajor, kc, alpha, a, as, b, bs, beta, c, ldc, n_valid);                                     \
    break;

#define MICRO_DISPATCH(suffix, kmajor_)                                                                                \
  static void NAME (micro_##suffix) (int mr, int nv, gint64 kc, REAL alpha, const ELEMENT *a, gint64 as,               \
                                     const ELEMENT *b, gint64 bs, REAL beta, REAL *c, gint64 ldc, int n_valid)         \
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
NAME (ortrain_cpu_gemm_block) (gint64 mc, gint64 nc, gint64 kc, gboolean kmajor, REAL alpha, const ELEMENT *a_packed,
                               const ELEMENT *b_packed, REAL beta, REAL *c, gint64 ldc)
{
  gint64 n_panels = (mc + MR - 1) / MR;
  for (gint64 j = 0; j < nc; j += NR)
    {
      int n_valid = (int) MIN (NR, nc - j), nv = n_valid > VL ? 2 : 1;
      const ELEMENT *b = b_packed + j * kc;
      for (gint64 p = 0; p < n_panels; p++)
        {
          gint64 i = NAME (panel_row) (mc, n_panels, p);
          int mr = (int) (NAME (panel_row) (mc, n_panels, p + 1) - i);
          const ELEMENT *a = a_packed + p * MR * KCS;
          if (kmajor)
            NAME (micro_columns) (mr, nv, kc, alpha, a, KCS, b, nv * VL, beta, c + i * ldc + j, ldc, n_valid);
          else
            NAME (micro_rows) (mr, nv, kc, alpha, a, KCS, b, nv * VL, beta, c + i * ldc + j, ldc, n_valid);
        }
    }
}
