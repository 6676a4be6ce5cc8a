/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loops of the convolutions, included by ortrain-cpu-conv.c once for float and once for double, with REAL, NAME(x)
 * and CORE (f32 or f64) defined. See ortrain-cpu-conv-private.h for the form. */

#define CVL (64 / (int) sizeof (REAL))
typedef REAL NAME (W) __attribute__ ((vector_size (64), aligned (__alignof__(REAL)), may_alias));
typedef gint32 NAME (Bits) __attribute__ ((vector_size (64), aligned (4), may_alias));

/* A block of columns: its rows (of the grid, along w), one after the other. */
typedef struct
{
  gint64 n_columns;
  gint64 n_rows, w0, w1;                 /* each row covers positions w0 … w1 */
  gint64 base[ORTRAIN_CONV_MAX_COLUMNS]; /* of the row's first source element, from the channel's plane in image 0 */
  gint32 d[ORTRAIN_CONV_MAX_COLUMNS], h[ORTRAIN_CONV_MAX_COLUMNS]; /* source coordinates without the tap's offset */
  gint64 image0, n_images, row0;
  gint64 image_stride, origin; /* of the source's images; image0's first element */
} NAME (Block);

static void
NAME (find_block) (const OrtrainConv *conv, const OrtrainConvPhase *phase, gint64 index, NAME (Block) * block)
{
  const gint64 *grid = phase->grid, rows_per_image = grid[0] * grid[1];
  gint64 rows;
  block->w0 = 0;
  block->w1 = grid[2];
  if (phase->many_images)
    {
      block->image0 = index * phase->images_per_block;
      block->n_images = MIN (phase->images_per_block, conv->n_images - block->image0);
      block->row0 = 0;
      rows = rows_per_image;
    }
  else
    {
      gint64 columns = index % phase->column_blocks, r = index / phase->column_blocks % phase->row_blocks;
      block->image0 = index / (phase->column_blocks * phase->row_blocks);
      block->n_images = 1;
      block->w0 = grid[2] * columns / phase->column_blocks;
      block->w1 = grid[2] * (columns + 1) / phase->column_blocks;
      block->row0 = rows_per_image * r / phase->row_blocks;
      rows = rows_per_image * (r + 1) / phase->row_blocks - block->row0;
    }
  block->n_rows = 0;
  const gint64 image_stride = conv->n_groups * conv->source_channels * conv->source_plane;
  block->image_stride = image_stride;
  block->origin = block->image0 * image_stride;
  for (gint64 n = 0; n < block->n_images; n++)
    for (gint64 r = block->row0; r < block->row0 + rows; r++)
      {
        gint64 d = r / grid[1] * conv->step[0], h = r % grid[1] * conv->step[1], i = block->n_rows++;
        block->d[i] = (gint32) d;
        block->h[i] = (gint32) h;
        block->base[i] = (block->image0 + n) * image_stride + (d * conv->source[1] + h) * conv->source[2] +
                         block->w0 * conv->step[2];
      }
  block->n_columns = block->n_rows * (block->w1 - block->w0);
}

/* gather_row () where the source is only shifted: whole images under the tap's mask, or rows of one image in one run.
 * FALSE: the run would leave the tensor, which ends at its first and last elements only. */
static inline gboolean
NAME (gather_shifted) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const NAME (Block) * block,
                       const OrtrainConvTap *tap, const REAL *source, const REAL *source_begin, const REAL *source_end,
                       REAL *restrict to)
{
  typedef NAME (W) W;
  typedef NAME (Bits) Bits;
  const gint64 shift = ((gint64) tap->offset[0] * conv->source[1] + tap->offset[1]) * conv->source[2] + tap->offset[2];
  if (phase->masks != NULL)
    {
      const gint64 plane = conv->source_plane, image_stride = block->image_stride;
      const gint64 padded = phase->mask_stride;
      const REAL *mask = (const REAL *) phase->masks + (tap - phase->taps) * padded;
      const REAL *from = source + block->origin + shift;
      if (from < source_begin || from + (block->n_images - 1) * image_stride + padded > source_end)
        return FALSE;
      if (padded == CVL)
        {
          const Bits keep = *(const Bits *) mask;
          for (gint64 n = 0; n < block->n_images; n++, from += image_stride, to += plane)
            *(Bits *) to = *(const Bits *) from & keep;
        }
      else
        for (gint64 n = 0; n < block->n_images; n++, from += image_stride, to += plane)
          for (gint64 i = 0; i < padded; i += CVL)
            *(Bits *) (to + i) = *(const Bits *) (from + i) & *(const Bits *) (mask + i);
      return TRUE;
    }
  const gint64 length = conv->source[2], n = block->n_columns;
  const REAL *from = source + block->base[0] + shift;
  if (block->n_images != 1 || block->w1 - block->w0 != length || from < source_begin ||
      from + ((n + CVL - 1) & ~(gint64) (CVL - 1)) > source_end)
    return FALSE;
  for (gint64 i = 0; i < n; i += CVL)
    *(W *) (to + i) = *(const W *) (from + i);
  if (tap->offset[0] != 0 || tap->offset[1] != 0)
    for (gint64 r = 0; r < block->n_rows; r++)
      if ((guint64) (block->d[r] + tap->offset[0]) >= (guint64) conv->source[0] ||
          (guint64) (block->h[r] + tap->offset[1]) >= (guint64) conv->source[1])
        for (gint64 i = 0; i < length; i++)
          to[r * length + i] = 0;
  for (gint64 i = 0; i < tap->low; i++)
    for (gint64 r = 0; r < block->n_rows; r++)
      to[r * length + i] = 0;
  for (gint64 i = tap->high; i < length; i++)
    for (gint64 r = 0; r < block->n_rows; r++)
      to[r * length + i] = 0;
  return TRUE;
}

/* One row (c, t) of the gathered matrix for the columns of a block. Whole vectors are copied: `to` has room for one
 * more, and the surplus is overwritten by the next row. */
static inline void
NAME (gather_row) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const NAME (Block) * block,
                   const OrtrainConvTap *tap, const REAL *source, const REAL *source_begin, const REAL *source_end,
                   REAL *restrict to)
{
  if (phase->shifted && NAME (gather_shifted) (conv, phase, block, tap, source, source_begin, source_end, to))
    return;
  typedef NAME (W) W;
  const gint64 length = block->w1 - block->w0, step = conv->step[2];
  const gint64 low = CLAMP (tap->low - block->w0, 0, length), high = CLAMP (tap->high - block->w0, low, length);
  const gint64 shift = ((gint64) tap->offset[0] * conv->source[1] + tap->offset[1]) * conv->source[2] + tap->offset[2];
  const guint64 depth = (guint64) conv->source[0], height = (guint64) conv->source[1];
  for (gint64 r = 0; r < block->n_rows; r++, to += length)
    {
      if ((guint64) (block->d[r] + tap->offset[0]) >= depth || (guint64) (block->h[r] + tap->offset[1]) >= height ||
          low >= high)
        {
          for (gint64 i = 0; i < length; i++)
            to[i] = 0;
          continue;
        }
      const REAL *from = source + block->base[r] + shift;
      if (step == 1)
        {
          if (length == 1)
            {
              to[0] = from[0];
              continue;
            }
          if (G_LIKELY (from >= source_begin && from + ((length + CVL - 1) & ~(gint64) (CVL - 1)) <= source_end))
            {
              for (gint64 i = 0; i < length; i += CVL)
                *(W *) (to + i) = *(const W *) (from + i);
            }
          else
            for (gint64 i = low; i < high; i++)
              to[i] = from[i];
        }
      else if (step == 2)
        for (gint64 i = low; i < high; i++)
          to[i] = from[i * 2];
      else
        for (gint64 i = low; i < high; i++)
          to[i] = from[i * step];
      for (gint64 i = 0; i < low; i++)
        to[i] = 0;
      for (gint64 i = high; i < length; i++)
        to[i] = 0;
    }
}

/* Row k of kc, [n] and room for a vector more, into panels of B. */
static inline void
NAME (store_row) (REAL *restrict row, gint64 n, gint64 k, gint64 kc, gint64 nr, gint64 vl, REAL *restrict to)
{
  const gint64 padded = (n + vl - 1) / vl * vl;
  for (gint64 j = n; j < padded; j++)
    row[j] = 0;
  gint64 j = 0;
  if (nr * (gint64) sizeof (REAL) == 128)
    for (; j + nr <= padded; j += nr)
      memcpy (to + j * kc + k * nr, row + j, 128);
  else
    for (; j + nr <= padded; j += nr)
      memcpy (to + j * kc + k * nr, row + j, (gsize) nr * sizeof (REAL));
  if (j < padded)
    memcpy (to + j * kc + k * vl, row + j, (gsize) vl * sizeof (REAL));
}

/* Rows k0 … k1 of the gathered matrix as panels of B. */
static void
NAME (pack_columns) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const NAME (Block) * block, gint64 k0,
                     gint64 k1, const REAL *source, const REAL *source_begin, const REAL *source_end, gint64 nr,
                     gint64 vl, REAL *restrict to)
{
  REAL row[ORTRAIN_CONV_MAX_COLUMNS + 64 + CVL] __attribute__ ((aligned (64)));
  const gint64 kc = k1 - k0, n = block->n_columns;
  gint64 c = k0 / phase->n_taps, t = k0 % phase->n_taps;
  if (phase->shifted && !phase->many_images && conv->n_taps == 1 && block->w1 - block->w0 == conv->source[2] &&
      phase->taps[0].offset[0] == 0 && phase->taps[0].offset[1] == 0 && phase->taps[0].offset[2] == 0)
    {
      /* A kernel of one element: rows of the source as they are. */
      const REAL *from = source + block->base[0];
      for (gint64 k = 0; k < kc; k++)
        {
          const REAL *row_from = from + (k0 + k) * conv->source_plane;
          gint64 j = 0;
          for (; j + nr <= n; j += nr)
            memcpy (to + j * kc + k * nr, row_from + j, (gsize) nr * sizeof (REAL));
          if (j < n)
            {
              gint64 width = n - j > vl ? nr : vl;
              REAL *last = to + j * kc + k * width;
              for (gint64 i = 0; i < width; i++)
                last[i] = j + i < n ? row_from[j + i] : 0;
            }
        }
      return;
    }
  for (gint64 k = 0; k < kc; k++)
    {
      NAME (gather_row)
      (conv, phase, block, &phase->taps[t], source + c * conv->source_plane, source_begin, source_end, row);
      NAME (store_row) (row, n, k, kc, nr, vl, to);
      if (++t == phase->n_taps)
        {
          t = 0;
          c++;
        }
    }
}

/* Whether the panels of A are [k][mr] rather than [row][kcs]: where the rows of a panel are nearer to each other in
 * memory than the elements of a row, and taps are too few to be copied in runs. */
static inline gboolean
NAME (is_kmajor) (const OrtrainConv *conv, const OrtrainConvPhase *phase)
{
  return conv->weight_row < conv->weight_channel && phase->n_taps < 8;
}

/* Rows of the weights as panels of A. */
static void
NAME (pack_weights) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const REAL *weights, gint64 m0, gint64 mc,
                     gint64 k0, gint64 k1, gint64 mr, gint64 kcs, REAL *restrict to)
{
  const gint64 n_panels = (mc + mr - 1) / mr, n_taps = phase->n_taps;
  const gboolean all = n_taps == conv->n_taps && conv->n_phases == 1, dense = all && conv->weight_channel == n_taps;
  const gboolean kmajor = NAME (is_kmajor) (conv, phase);
  const REAL *weights_end = weights + conv->weight_group;
  for (gint64 p = 0; p < n_panels; p++)
    {
      const gint64 i0 = mc * p / n_panels, i1 = mc * (p + 1) / n_panels;
      REAL *restrict panel = to + p * mr * kcs;
      if (dense)
        {
          for (gint64 i = i0; i < i1; i++)
            memcpy (panel + (i - i0) * kcs, weights + (m0 + i) * conv->weight_row + k0,
                    (gsize) (k1 - k0) * sizeof (REAL));
          continue;
        }
      for (gint64 k = k0, run; k < k1; k += run)
        {
          const gint64 c = k / n_taps, t = k % n_taps;
          const REAL *first = weights + c * conv->weight_channel + (m0 + i0) * conv->weight_row;
          run = MIN (n_taps - t, k1 - k);
          if (kmajor)
            {
              for (gint64 l = 0; l < run; l++)
                {
                  const REAL *from = first + phase->taps[t + l].index;
                  REAL *restrict row = panel + (k + l - k0) * mr;
                  for (gint64 i = 0; i < i1 - i0; i++)
                    row[i] = from[i * conv->weight_row];
                }
              continue;
            }
          const gint64 whole = (run + CVL - 1) & ~(gint64) (CVL - 1);
          for (gint64 i = i0; i < i1; i++, first += conv->weight_row)
            {
              REAL *restrict row = panel + (i - i0) * kcs + k - k0;
              if (all && first + t + whole <= weights_end)
                for (gint64 l = 0; l < run; l += CVL)
                  *(NAME (W) *) (row + l) = *(const NAME (W) *) (first + t + l);
              else if (all)
                for (gint64 l = 0; l < run; l++)
                  row[l] = first[t + l];
              else
                for (gint64 l = 0; l < run; l++)
                  row[l] = first[phase->taps[t + l].index];
            }
        }
    }
}

typedef struct
{
  const OrtrainConv *conv;
  const REAL *source, *weights, *bias;
  REAL *dest;
  char *workspace;
} NAME (Job);

/* bias: of the tile's rows, or NULL */
static void
NAME (scatter_tile) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const NAME (Block) * block, gint64 m0,
                     gint64 mc, const REAL *tile, gint64 ldt, const REAL *bias, REAL *dest, gint64 group)
{
  const gint64 length = block->w1 - block->w0, rows = block->n_rows / block->n_images, height = phase->grid[1];
  const gboolean plain =
      phase->stride[0] == 1 && phase->stride[1] == 1 && phase->stride[2] == 1 && length == conv->dest[2];
  for (gint64 i = 0; i < mc; i++)
    {
      REAL add = bias != NULL ? bias[i] : 0;
      const REAL *restrict from = tile + i * ldt;
      for (gint64 n = 0; n < block->n_images; n++)
        {
          REAL *restrict plane =
              dest + (((block->image0 + n) * conv->n_groups + group) * conv->dest_channels + m0 + i) * conv->dest_plane;
          if (plain)
            {
              REAL *restrict to = plane + block->row0 * length;
              for (gint64 j = 0; j < rows * length; j++)
                to[j] = from[j] + add;
              from += rows * length;
              continue;
            }
          for (gint64 r = block->row0; r < block->row0 + rows; r++, from += length)
            {
              gint64 d = phase->start[0] + r / height * phase->stride[0],
                     h = phase->start[1] + r % height * phase->stride[1];
              REAL *restrict to =
                  plane + (d * conv->dest[1] + h) * conv->dest[2] + phase->start[2] + block->w0 * phase->stride[2];
              gint64 stride = phase->stride[2];
              if (stride == 2)
                for (gint64 j = 0; j < length; j++)
                  to[j * 2] = from[j] + add;
              else
                for (gint64 j = 0; j < length; j++)
                  to[j * stride] = from[j] + add;
            }
        }
    }
}

#if MIXED
#include "cpu/ortrain-cpu-conv-mixed.h"
#endif

static void
NAME (run_chunk) (const NAME (Job) * job, gint64 index, guint worker)
{
  const OrtrainConv *conv = job->conv;
  const OrtrainConvPhase *phase = conv->phases;
  for (guint p = 1; p < conv->n_phases && conv->phases[p].first_chunk <= index; p++)
    phase = &conv->phases[p];
  index -= phase->first_chunk;
  const gint64 cut = index % phase->row_cuts, group = index / phase->row_cuts % conv->n_groups;
  const gint64 m0 = conv->dest_channels * cut / phase->row_cuts;
  const gint64 m = conv->dest_channels * (cut + 1) / phase->row_cuts - m0;
  NAME (Block) block;
  NAME (find_block) (conv, phase, index / (phase->row_cuts * conv->n_groups), &block);

  const OrtrainCpuGemmCore *core = ortrain_cpu_gemm_get_core (sizeof (REAL) == 8);
  char *memory = job->workspace + worker * conv->thread_bytes;
  REAL *a = (REAL *) memory, *b = (REAL *) (memory + conv->a_bytes), *c;
  gint64 ldc;
  REAL beta = 0;
  const REAL *bias = job->bias != NULL ? job->bias + group * conv->dest_channels + m0 : NULL;
#if MIXED
  Wide wide;
  if (conv->is_mixed)
    {
      wide = wide_begin (conv, phase, &block, memory);
      if (job->bias != NULL)
        bias = wide_get_bias (&wide, conv, job->bias, group * conv->dest_channels + m0, m);
    }
#endif
  if (phase->direct)
    {
      c = job->dest + ((block.image0 * conv->n_groups + group) * conv->dest_channels + m0) * conv->dest_plane +
          block.row0 * conv->dest[2] + block.w0;
      ldc = conv->dest_plane;
      if (bias != NULL)
        {
          beta = 1;
          for (gint64 i = 0; i < m; i++)
            {
              REAL value = bias[i];
              for (gint64 j = 0; j < block.n_columns; j++)
                c[i * ldc + j] = value;
            }
        }
    }
  else
    {
      c = (REAL *) (memory + conv->a_bytes + conv->b_bytes);
      ldc = (block.n_columns + CVL - 1) & ~(gint64) (CVL - 1);
    }
  const gint64 k = conv->source_channels * phase->n_taps;
  if (k == 0 && beta == 0)
    for (gint64 i = 0; i < m; i++)
      memset (c + i * ldc, 0, (gsize) block.n_columns * sizeof (REAL));
  const REAL *source = job->source + group * conv->source_channels * conv->source_plane;
  const REAL *source_end = job->source + conv->n_images * conv->n_groups * conv->source_channels * conv->source_plane;
  const REAL *weights = job->weights + group * conv->weight_group;
  for (gint64 k0 = 0; k0 < k; k0 += ORTRAIN_CONV_KC)
    {
      gint64 k1 = MIN (k, k0 + ORTRAIN_CONV_KC);
#if MIXED
      if (conv->is_mixed)
        pack_columns_mixed (&wide, conv, phase, &block, group, k0, k1, job->source, core->nr, core->vl, b);
      else
#endif
        NAME (pack_columns) (conv, phase, &block, k0, k1, source, job->source, source_end, core->nr, core->vl, b);
      for (gint64 i0 = 0; i0 < m; i0 += core->mc)
        {
          gint64 mc = MIN (core->mc, m - i0);
#if MIXED
          if (conv->is_mixed)
            pack_weights_mixed (&wide, conv, phase, job->weights, group, m0 + i0, mc, k0, k1, core->mr, core->kcs, a);
          else
#endif
            NAME (pack_weights) (conv, phase, weights, m0 + i0, mc, k0, k1, core->mr, core->kcs, a);
          core->block.CORE (mc, block.n_columns, k1 - k0, NAME (is_kmajor) (conv, phase), 1, a, b, k0 == 0 ? beta : 1,
                            c + i0 * ldc, ldc);
        }
    }
#if MIXED
  if (!phase->direct && ortrain_dtype_is_half (conv->dest_dtype))
    {
      scatter_tile_mixed (conv, phase, &block, m0, m, c, ldc, bias, job->dest, group);
      return;
    }
#endif
  if (!phase->direct)
    NAME (scatter_tile) (conv, phase, &block, m0, m, c, ldc, bias, job->dest, group);
}

static void
NAME (run_chunks) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  for (gint64 i = begin; i < end; i++)
    NAME (run_chunk) (data, i, worker);
}

/* ---- one channel in, one channel out: no product to speak of, rows are combined directly ---- */

/* A row whose middle is summed up in registers, over all taps at once; only the ends, where taps fall off, are done one
 * by one. FALSE when the row is too short for it. */
static inline gboolean
NAME (depthwise_row) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const REAL *source, const REAL *weights,
                      REAL first, gint64 d, gint64 h, REAL *restrict to)
{
  typedef NAME (W) W;
  const REAL *from[32];
  REAL w[32];
  gint64 low[32], high[32], left = 0, right = phase->grid[2];
  guint n = 0;
  if (phase->n_taps > 32)
    return FALSE;
  for (guint t = 0; t < phase->n_taps; t++)
    {
      const OrtrainConvTap *tap = &phase->taps[t];
      gint64 sd = d * conv->step[0] + tap->offset[0], sh = h * conv->step[1] + tap->offset[1];
      if (sd < 0 || sd >= conv->source[0] || sh < 0 || sh >= conv->source[1])
        continue;
      from[n] = source + (sd * conv->source[1] + sh) * conv->source[2] + tap->offset[2];
      w[n] = weights[tap->index];
      low[n] = tap->low;
      high[n] = tap->high;
      left = MAX (left, tap->low);
      right = MIN (right, tap->high);
      n++;
    }
  if (right - left < CVL)
    return FALSE;
  for (gint64 i = left; i < right; i += CVL)
    {
      gint64 at = MIN (i, right - CVL); /* the last vector overlaps: it gives the same sums again */
      W sum = first - (W){ 0 };
      for (guint t = 0; t < n; t++)
        sum += w[t] * *(const W *) (from[t] + at);
      *(W *) (to + at) = sum;
    }
  const gint64 n_ends = left + phase->grid[2] - right;
  for (gint64 e = 0; e < n_ends; e++)
    {
      gint64 i = e < left ? e : right + e - left;
      REAL sum = first;
      for (guint t = 0; t < n; t++)
        if (i >= low[t] && i < high[t])
          sum += w[t] * from[t][i];
      to[i] = sum;
    }
  return TRUE;
}

/* One channel of one image; first: its bias */
static void
NAME (depthwise_plane) (const OrtrainConv *conv, const REAL *source, const REAL *weights, REAL first, REAL *dest)
{
  for (gint64 i = 0; i < conv->dest_plane; i++)
    dest[i] = first;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      const gboolean unit = conv->step[2] == 1 && phase->stride[2] == 1;
      for (gint64 r = 0; r < phase->grid[0] * phase->grid[1]; r++)
        {
          gint64 d = r / phase->grid[1], h = r % phase->grid[1];
          gint64 at = (phase->start[0] + d * phase->stride[0]) * conv->dest[1] + phase->start[1] + h * phase->stride[1];
          REAL *restrict to = dest + at * conv->dest[2] + phase->start[2];
          if (unit && NAME (depthwise_row) (conv, phase, source, weights, first, d, h, to))
            continue;
          for (guint t = 0; t < phase->n_taps; t++)
            {
              const OrtrainConvTap *tap = &phase->taps[t];
              gint64 sd = d * conv->step[0] + tap->offset[0], sh = h * conv->step[1] + tap->offset[1];
              if (sd < 0 || sd >= conv->source[0] || sh < 0 || sh >= conv->source[1])
                continue;
              const REAL *from = source + (sd * conv->source[1] + sh) * conv->source[2] + tap->offset[2];
              REAL w = weights[tap->index];
              gint64 step = conv->step[2], stride = phase->stride[2];
              if (step == 1 && stride == 1)
                for (gint64 i = tap->low; i < tap->high; i++)
                  to[i] += w * from[i];
              else if (stride == 1 && step == 2)
                for (gint64 i = tap->low; i < tap->high; i++)
                  to[i] += w * from[2 * i];
              else
                for (gint64 i = tap->low; i < tap->high; i++)
                  to[i * stride] += w * from[i * step];
            }
        }
    }
}

#if MIXED
static void
depthwise_plane_mixed (const NAME (Job) * job, gint64 plane, gint64 channel, guint worker)
{
  const OrtrainConv *conv = job->conv;
  float *source = (float *) (job->workspace + worker * conv->thread_bytes), *weights = source + conv->source_plane;
  float *dest = weights + conv->weight_group, bias = 0;
  if (job->bias != NULL)
    ortrain_cpu_widen (conv->bias_dtype, &bias, mixed_at (job->bias, conv->bias_dtype, channel), 1);
  ortrain_cpu_widen (conv->source_dtype, source, mixed_at (job->source, conv->source_dtype, plane * conv->source_plane),
                     conv->source_plane);
  ortrain_cpu_widen (conv->weights_dtype, weights,
                     mixed_at (job->weights, conv->weights_dtype, channel * conv->weight_group), conv->weight_group);
  NAME (depthwise_plane) (conv, source, weights, bias, dest);
  ortrain_cpu_narrow (conv->dest_dtype, (void *) mixed_at (job->dest, conv->dest_dtype, plane * conv->dest_plane), dest,
                      conv->dest_plane);
}
#endif

static void
NAME (run_depthwise) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NAME (Job) *job = data;
  const OrtrainConv *conv = job->conv;
  for (gint64 plane = begin; plane < end; plane++)
    {
      const gint64 channel = plane % conv->n_groups;
#if MIXED
      if (conv->is_mixed)
        {
          depthwise_plane_mixed (job, plane, channel, worker);
          continue;
        }
#endif
      NAME (depthwise_plane)
      (conv, job->source + plane * conv->source_plane, job->weights + channel * conv->weight_group,
       job->bias != NULL ? job->bias[channel] : 0, job->dest + plane * conv->dest_plane);
    }
}

static void
NAME (depthwise_run) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *source, const void *weights,
                      const void *bias, void *dest, void *workspace)
{
  NAME (Job) job = { conv, source, weights, bias, dest, workspace };
  gint64 grain = CLAMP (65536 / MAX (conv->dest_plane * conv->n_taps, 1), 1, 1024);
  ortrain_parallel_for (pool, conv->n_images * conv->n_groups, grain, NAME (run_depthwise), &job);
}

static void
NAME (gather_run) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *source, const void *weights,
                   const void *bias, void *dest, void *workspace)
{
  NAME (Job) job = { conv, source, weights, bias, dest, workspace };
  ortrain_parallel_for (pool, conv->n_chunks, 1, NAME (run_chunks), &job);
}

#include "cpu/ortrain-cpu-conv-weights-template.h"

#undef CVL
