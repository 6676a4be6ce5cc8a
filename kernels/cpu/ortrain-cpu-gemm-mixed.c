/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-gemm-mixed-private.h"

#include "cpu/ortrain-cpu-level-private.h"
#include "ortrain-cpu-families.h"

#include <stdlib.h>
#include <string.h>

/* Products with operands of 16 bits. Blocks of A and B are widened while they are packed, sums are of float32; a result
 * of 16 bits is summed up in a tile of float32 first, and rounded once. */

/* ---- instruction sets of this machine ---- */

#define DECLARE_LEVEL(level)                                                                                           \
  extern const OrtrainCpuMixedCore ortrain_cpu_mixed_core_##level;                                                     \
  extern const OrtrainCpuConverter ortrain_cpu_converter_##level;
DECLARE_LEVEL (baseline)
DECLARE_LEVEL (v3)
DECLARE_LEVEL (v4)
extern const OrtrainCpuMixedCore ortrain_cpu_mixed_core_bf16;

static const OrtrainCpuMixedCore *
get_core (OrtrainDType a, OrtrainDType b)
{
  static const OrtrainCpuMixedCore *const cores[ORTRAIN_CPU_N_LEVELS] = {
    [ORTRAIN_CPU_LEVEL_BASELINE] = &ortrain_cpu_mixed_core_baseline,
#ifdef ORTRAIN_CPU_HAVE_V3
    [ORTRAIN_CPU_LEVEL_V3] = &ortrain_cpu_mixed_core_v3,
#endif
#ifdef ORTRAIN_CPU_HAVE_V4
    [ORTRAIN_CPU_LEVEL_V4] = &ortrain_cpu_mixed_core_v4,
#endif
  };
#ifdef ORTRAIN_CPU_HAVE_BF16
  if (a == ORTRAIN_DTYPE_BFLOAT16 && b == ORTRAIN_DTYPE_BFLOAT16 && ortrain_cpu_has_bf16 ())
    return &ortrain_cpu_mixed_core_bf16;
#endif
  return cores[ortrain_cpu_get_level ()];
}

static const OrtrainCpuConverter *
get_converter (void)
{
  static const OrtrainCpuConverter *const converters[ORTRAIN_CPU_N_LEVELS] = {
    [ORTRAIN_CPU_LEVEL_BASELINE] = &ortrain_cpu_converter_baseline,
#ifdef ORTRAIN_CPU_HAVE_V3
    [ORTRAIN_CPU_LEVEL_V3] = &ortrain_cpu_converter_v3,
#endif
#ifdef ORTRAIN_CPU_HAVE_V4
    [ORTRAIN_CPU_LEVEL_V4] = &ortrain_cpu_converter_v4,
#endif
  };
  return converters[ortrain_cpu_get_level ()];
}

void
ortrain_cpu_widen (OrtrainDType dtype, float *restrict to, const void *restrict from, gint64 n)
{
  get_converter ()->widen (dtype, to, from, n);
}

void
ortrain_cpu_narrow (OrtrainDType dtype, void *restrict to, const float *restrict from, gint64 n)
{
  get_converter ()->narrow (dtype, to, from, n);
}

/* ---- memory of a thread: packed blocks, rows that are on their way, and a tile of C ---- */

#define TILE_M 1024
#define TILE_N 512
#define ALIASED_STRIDE 2048          /* bytes: rows of C that lie multiples of this apart evict each other from L1 */
#define ROW_FLOATS (16 * (256 + 16)) /* [VL][KCS] of the widest level */

typedef struct
{
  float tile[TILE_M * TILE_N];
  float row[ROW_FLOATS];
  guint8 packed[];
} Scratch;

static void
free_scratch (gpointer scratch)
{
  free (scratch);
}

static Scratch *
get_scratch (void)
{
  static GPrivate scratch = G_PRIVATE_INIT (free_scratch);
  void *address = g_private_get (&scratch);
  if (G_UNLIKELY (address == NULL))
    {
      const OrtrainCpuMixedCore *wide = get_core (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32);
      const OrtrainCpuMixedCore *pairs = get_core (ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BFLOAT16);
      gsize bytes = MAX (wide->a_bytes + wide->b_bytes, pairs->a_bytes + pairs->b_bytes);
      if (posix_memalign (&address, 4096, sizeof (Scratch) + bytes) != 0)
        return NULL;
      g_private_set (&scratch, address);
    }
  return address;
}

void
ortrain_cpu_gemm_mixed_enter_worker (void)
{
  get_scratch ();
}

/* ---- one thread ---- */

static inline gsize
get_size (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT32 ? 4 : 2;
}

static inline const void *
get_address (const OrtrainCpuMatrix *self, gint64 row, gint64 column)
{
  const gint64 i = self->transposed ? column * self->ld + row : row * self->ld + column;
  return (const guint8 *) self->data + i * (gint64) get_size (self->dtype);
}

static float
get_number (const OrtrainCpuMatrix *self, gint64 row, gint64 column)
{
  const void *address = get_address (self, row, column);
  return self->dtype == ORTRAIN_DTYPE_FLOAT32 ? *(const float *) address
                                              : ortrain_dtype_widen (self->dtype, *(const guint16 *) address);
}

/* The last resort when there is no memory for blocks: slow, and right. */
static float
dot (gint64 k, const OrtrainCpuMatrix *a, gint64 row, const OrtrainCpuMatrix *b, gint64 column)
{
  float sum = 0;
  for (gint64 l = 0; l < k; l++)
    sum += get_number (a, row, l) * get_number (b, l, column);
  return sum;
}

static void
scale (gint64 m, gint64 n, float beta, float *c, gint64 ldc)
{
  for (gint64 i = 0; i < m; i++)
    for (gint64 j = 0; j < n; j++)
      c[i * ldc + j] = beta != 0 ? beta * c[i * ldc + j] : 0;
}

/* The size of the parts, when there are as few as possible of at most `most`; a multiple of step. */
static inline gint64
cut_evenly (gint64 extent, gint64 most, gint64 step)
{
  const gint64 parts = (extent + most - 1) / most, part = (extent + parts - 1) / parts;
  return MIN (most, (part + step - 1) / step * step);
}

static void
multiply (Scratch *scratch, gint64 m, gint64 n, gint64 k, float alpha, const OrtrainCpuMatrix *a,
          const OrtrainCpuMatrix *b, float beta, float *c, gint64 ldc)
{
  if (k <= 0 || alpha == 0)
    {
      scale (m, n, beta, c, ldc);
      return;
    }
  const OrtrainCpuMixedCore *core = get_core (a->dtype, b->dtype);
  const gint64 mc_most = cut_evenly (m, core->mc, 1), kc_most = cut_evenly (k, core->kc, 2);
  void *a_packed = scratch->packed, *b_packed = scratch->packed + core->a_bytes;
  for (gint64 jc = 0; jc < n; jc += core->nc)
    {
      const gint64 nc = MIN (core->nc, n - jc);
      for (gint64 pc = 0; pc < k; pc += kc_most)
        {
          const gint64 kc = MIN (kc_most, k - pc);
          core->pack_b (b->dtype, b->transposed, kc, nc, get_address (b, pc, jc), b->ld, b_packed, scratch->row);
          for (gint64 ic = 0; ic < m; ic += mc_most)
            {
              const gint64 mc = MIN (mc_most, m - ic);
              core->pack_a (a->dtype, a->transposed, mc, kc, get_address (a, ic, pc), a->ld, a_packed, scratch->row);
              core->block (mc, nc, kc, a->transposed, alpha, a_packed, b_packed, pc == 0 ? beta : 1, c + ic * ldc + jc,
                           ldc);
            }
        }
    }
}

void
ortrain_cpu_gemm_mixed (gint64 m, gint64 n, gint64 k, float alpha, const OrtrainCpuMatrix *a, const OrtrainCpuMatrix *b,
                        float beta, float *c, gint64 ldc)
{
  Scratch *scratch = get_scratch ();
  if (scratch != NULL)
    multiply (scratch, m, n, k, alpha, a, b, beta, c, ldc);
  else
    for (gint64 i = 0; i < m; i++)
      for (gint64 j = 0; j < n; j++)
        c[i * ldc + j] = alpha * dot (k, a, i, b, j) + (beta != 0 ? beta * c[i * ldc + j] : 0);
}

/* ---- with a bias, and into any type ---- */

/* The initial values of the sums of row i: [n] of beta · C + bias_scale · bias. row: a buffer for widened elements. */
static void
start_row (const OrtrainCpuMixedProduct *p, gint64 i, gint64 j0, gint64 n, float *restrict to, float *restrict row)
{
  if (p->beta == 0)
    memset (to, 0, (gsize) n * sizeof (float));
  else
    {
      ortrain_cpu_widen (p->c_dtype, row, (guint8 *) p->c + (i * p->ldc + j0) * (gint64) get_size (p->c_dtype), n);
      for (gint64 j = 0; j < n; j++)
        to[j] = p->beta * row[j];
    }
  if (p->bias == NULL)
    return;
  const guint8 *bias = (const guint8 *) p->bias +
                       (i * p->bias_row_stride + j0 * p->bias_column_stride) * (gint64) get_size (p->bias_dtype);
  ortrain_cpu_widen (p->bias_dtype, row, bias, p->bias_column_stride == 0 ? 1 : n);
  if (p->bias_column_stride == 0)
    for (gint64 j = 0; j < n; j++)
      to[j] += p->bias_scale * row[0];
  else
    for (gint64 j = 0; j < n; j++)
      to[j] += p->bias_scale * row[j];
}

static void
run_plain (const OrtrainCpuMixedProduct *p)
{
  for (gint64 i = 0; i < p->m; i++)
    for (gint64 j = 0; j < p->n; j++)
      {
        float sum, number;
        start_row (p, i, j, 1, &sum, &number);
        sum += p->alpha * dot (p->k, &p->a, i, &p->b, j);
        ortrain_cpu_narrow (p->c_dtype, (guint8 *) p->c + (i * p->ldc + j) * (gint64) get_size (p->c_dtype), &sum, 1);
      }
}

/* Whether sums are made in C itself, and not in the tile. */
static gboolean
is_in_place (const OrtrainCpuMixedProduct *p)
{
  const OrtrainCpuMixedCore *core = get_core (p->a.dtype, p->b.dtype);
  return p->c_dtype == ORTRAIN_DTYPE_FLOAT32 &&
         (p->k <= core->kc || p->m < core->mr || p->ldc * (gint64) sizeof (float) % ALIASED_STRIDE != 0);
}

/* A part of C, [m, n] from (i0, j0), through the tile or in its place */
static void
run_part (const OrtrainCpuMixedProduct *p, Scratch *scratch, gint64 i0, gint64 m, gint64 j0, gint64 n)
{
  OrtrainCpuMatrix a = p->a, b = p->b;
  a.data = get_address (&p->a, i0, 0);
  b.data = get_address (&p->b, 0, j0);
  const gint64 size = (gint64) get_size (p->c_dtype);
  guint8 *c = (guint8 *) p->c + (i0 * p->ldc + j0) * size;
  const gboolean in_place = is_in_place (p), starts = p->bias != NULL || (!in_place && p->beta != 0);
  float *sums = in_place ? (float *) c : scratch->tile;
  const gint64 lds = in_place ? p->ldc : n;
  for (gint64 i = 0; starts && i < m; i++)
    start_row (p, i0 + i, j0, n, sums + i * lds, scratch->row);
  multiply (scratch, m, n, p->k, p->alpha, &a, &b, starts ? 1 : in_place ? p->beta : 0, sums, lds);
  for (gint64 i = 0; !in_place && i < m; i++)
    ortrain_cpu_narrow (p->c_dtype, c + i * p->ldc * size, sums + i * lds, n);
}

void
ortrain_cpu_mixed_product_run (const OrtrainCpuMixedProduct *self)
{
  Scratch *scratch = get_scratch ();
  if (scratch == NULL)
    {
      run_plain (self);
      return;
    }
  const gint64 tile_m = is_in_place (self) ? MAX (self->m, 1) : TILE_M, tile_n = TILE_N;
  for (gint64 j = 0; j < self->n; j += tile_n)
    for (gint64 i = 0; i < self->m; i += tile_m)
      run_part (self, scratch, i, MIN (tile_m, self->m - i), j, MIN (tile_n, self->n - j));
}
