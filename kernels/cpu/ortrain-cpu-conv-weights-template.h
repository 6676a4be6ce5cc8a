/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The gradient of a convolution's weights, included by ortrain-cpu-conv-template.h, whose blocks and rows it uses. */

typedef struct
{
  const OrtrainConv *conv;
  const REAL *dest, *source;
  REAL *weights;
  gboolean accumulate;
  char *workspace;
  REAL *partial; /* [n_splits][group][(c, t)][row] when the sum is cut */
} NAME (WeightJob);

/* Rows of the gathered matrix as panels of A: [(c, t)][kcs] over the columns of a block. */
static void
NAME (pack_gathered_rows) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const NAME (Block) * block,
                           gint64 m0, gint64 mc, const REAL *source, const REAL *source_begin, const REAL *source_end,
                           gint64 mr, gint64 kcs, REAL *restrict to)
{
  const gint64 n_panels = (mc + mr - 1) / mr;
  for (gint64 p = 0; p < n_panels; p++)
    {
      gint64 i0 = mc * p / n_panels, i1 = mc * (p + 1) / n_panels;
      for (gint64 i = i0; i < i1; i++)
        {
          gint64 c = (m0 + i) / phase->n_taps, t = (m0 + i) % phase->n_taps;
          NAME (gather_row)
          (conv, phase, block, &phase->taps[t], source + c * conv->source_plane, source_begin, source_end,
           to + p * mr * kcs + (i - i0) * kcs);
        }
    }
}

/* dest [n, row, q] of a block, turned round, as panels of B: [q][row]. */
static void
NAME (pack_dest) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const NAME (Block) * block, gint64 group,
                  gint64 n0, gint64 nc, const OrtrainCpuGemmCore *core, const REAL *dest, REAL *restrict to)
{
  const gint64 nr = core->nr, vl = core->vl, kc = block->n_columns;
  const gint64 run = block->n_columns / block->n_images, first = block->row0 * conv->dest[2] + block->w0;
  for (gint64 j = 0; j < nc; j += nr, to += nr * kc)
    {
      gint64 n = MIN (nr, nc - j), width = n > vl ? nr : vl;
      if (n < width)
        for (gint64 k = 0; k < kc; k++)
          for (gint64 l = n; l < width; l++)
            to[k * width + l] = 0;
      for (gint64 i = 0; i < block->n_images; i++)
        core->transpose.CORE (
            n, run,
            dest + (((block->image0 + i) * conv->n_groups + group) * conv->dest_channels + n0 + j) * conv->dest_plane +
                first,
            conv->dest_plane, to + i * run * width, width);
    }
}

/* [m (c, t)][n row] → weights (row, c, t) */
static void
NAME (store_weights) (const OrtrainConv *conv, const OrtrainConvPhase *phase, gint64 group, gint64 m0, gint64 m,
                      gint64 n0, gint64 n, const REAL *tile, gint64 ldt, REAL *weights, gboolean accumulate)
{
  const gint64 n_taps = phase->n_taps;
  for (gint64 j = 0; j < n; j++)
    {
      REAL *row = weights + group * conv->weight_group + (n0 + j) * conv->weight_row;
      for (gint64 i = 0; i < m; i++)
        {
          REAL *to = row + (m0 + i) / n_taps * conv->weight_channel + phase->taps[(m0 + i) % n_taps].index;
          *to = tile[i * ldt + j] + (accumulate ? *to : 0);
        }
    }
}

/* The same when all taps are there and the channels follow each other: a transposition. */
static void
NAME (store_weights_dense) (const OrtrainConv *conv, gint64 group, gint64 m0, gint64 m, gint64 n0, gint64 n,
                            const REAL *tile, gint64 ldt, REAL *weights, gboolean accumulate)
{
  REAL *to = weights + group * conv->weight_group + n0 * conv->weight_row + m0;
  if (!accumulate)
    {
      ortrain_cpu_gemm_get_core (sizeof (REAL) == 8)->transpose.CORE (m, n, tile, ldt, to, conv->weight_row);
      return;
    }
  for (gint64 j0 = 0; j0 < n; j0 += 16)
    for (gint64 i = 0; i < m; i++)
      for (gint64 j = j0; j < MIN (n, j0 + 16); j++)
        to[j * conv->weight_row + i] += tile[i * ldt + j];
}

#if MIXED
static void depthwise_weights_mixed (const NAME (WeightJob) * job, gint64 channel, guint worker);
static void store_weights_mixed (const OrtrainConv *conv, gint64 group, gint64 m0, gint64 m, gint64 n0, gint64 n,
                                 const float *tile, gint64 ldt, void *weights, gboolean accumulate);
#endif

static void
NAME (finish_weights) (const NAME (WeightJob) * job, gint64 group, gint64 m0, gint64 m, gint64 n0, gint64 n,
                       const REAL *tile, gint64 ldt)
{
  const OrtrainConv *conv = job->conv;
#if MIXED
  if (ortrain_dtype_is_half (conv->weights_dtype))
    {
      store_weights_mixed (conv, group, m0, m, n0, n, tile, ldt, job->weights, job->accumulate);
      return;
    }
#endif
  if (conv->phases[0].n_taps == conv->n_taps && conv->weight_channel == conv->n_taps)
    NAME (store_weights_dense) (conv, group, m0, m, n0, n, tile, ldt, job->weights, job->accumulate);
  else
    NAME (store_weights) (conv, &conv->phases[0], group, m0, m, n0, n, tile, ldt, job->weights, job->accumulate);
}

static void
NAME (weight_chunks) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NAME (WeightJob) *job = data;
  const OrtrainConv *conv = job->conv;
  const OrtrainConvPhase *phase = &conv->phases[0];
  const OrtrainCpuGemmCore *core = ortrain_cpu_gemm_get_core (sizeof (REAL) == 8);
  const gint64 m_all = conv->source_channels * phase->n_taps, n_all = conv->dest_channels;
  char *memory = job->workspace + worker * conv->thread_bytes;
  REAL *a = (REAL *) memory, *b = (REAL *) (memory + conv->a_bytes);
  const REAL *source_end = job->source + conv->n_images * conv->n_groups * conv->source_channels * conv->source_plane;
  for (gint64 index = begin; index < end; index++)
    {
      gint64 mt = index % conv->m_tiles, nt = index / conv->m_tiles % conv->n_tiles;
      gint64 split = index / (conv->m_tiles * conv->n_tiles) % conv->n_splits;
      gint64 group = index / (conv->m_tiles * conv->n_tiles * conv->n_splits);
      gint64 m0 = m_all * mt / conv->m_tiles, m = m_all * (mt + 1) / conv->m_tiles - m0;
      gint64 n0 = n_all * nt / conv->n_tiles, n = n_all * (nt + 1) / conv->n_tiles - n0;
      gint64 block0 = phase->n_blocks * split / conv->n_splits, block1 = phase->n_blocks * (split + 1) / conv->n_splits;
      REAL *c = (REAL *) (memory + conv->a_bytes + conv->b_bytes);
      gint64 ldc = n;
      if (conv->n_splits > 1)
        {
          c = job->partial + ((split * conv->n_groups + group) * m_all + m0) * n_all + n0;
          ldc = n_all;
        }
      const REAL *source = job->source + group * conv->source_channels * conv->source_plane;
      for (gint64 i = block0; i < block1; i++)
        {
          NAME (Block) block;
          NAME (find_block) (conv, phase, i, &block);
#if MIXED
          Wide wide;
          if (conv->is_mixed)
            {
              wide = wide_begin (conv, phase, &block, memory);
              pack_dest_mixed (&wide, conv, &block, group, n0, n, core, job->dest, b);
            }
          else
#endif
            NAME (pack_dest) (conv, phase, &block, group, n0, n, core, job->dest, b);
          for (gint64 i0 = 0; i0 < m; i0 += core->mc)
            {
              gint64 mc = MIN (core->mc, m - i0);
#if MIXED
              if (conv->is_mixed)
                pack_gathered_rows_mixed (&wide, conv, phase, &block, group, m0 + i0, mc, job->source, core->mr,
                                          core->kcs, a);
              else
#endif
                NAME (pack_gathered_rows)
              (conv, phase, &block, m0 + i0, mc, source, job->source, source_end, core->mr, core->kcs, a);
              core->block.CORE (mc, n, block.n_columns, FALSE, 1, a, b, i == block0 ? 0 : 1, c + i0 * ldc, ldc);
            }
        }
      if (conv->n_splits == 1)
        NAME (finish_weights) (job, group, m0, m, n0, n, c, ldc);
    }
}

/* Adds the cuts of the sum in their order: rows of [(c, t)]. Several rows are stored at once, since each of them alone
 * would be a column of the weights. */
static void
NAME (add_splits) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NAME (WeightJob) *job = data;
  const OrtrainConv *conv = job->conv;
  const gint64 m_all = conv->source_channels * conv->phases[0].n_taps, n = conv->dest_channels;
  const gint64 all = conv->n_groups * m_all * n;
  for (gint64 i = begin, rows; i < end; i += rows)
    {
      rows = MIN (MIN (32, end - i), m_all - i % m_all);
      REAL *restrict to = job->partial + i * n;
      for (gint64 s = 1; s < conv->n_splits; s++)
        {
          const REAL *restrict from = to + s * all;
          for (gint64 j = 0; j < rows * n; j++)
            to[j] += from[j];
        }
      NAME (finish_weights) (job, i / m_all, i % m_all, rows, 0, n, to, n);
    }
}

/* Adds one image's part of the sum of a tap: whole vectors to sums, the remaining elements to *total. */
static void
NAME (depthwise_weight_image) (const OrtrainConv *conv, const OrtrainConvPhase *phase, const OrtrainConvTap *tap,
                               const REAL *source, const REAL *dest, NAME (W) * vector_sums, double *total)
{
  const gint64 step = conv->step[2];
  NAME (W) sums = *vector_sums;
  REAL tail_mask[2 * CVL];
  memset (tail_mask, 0, sizeof tail_mask / 2);
  memset (tail_mask + CVL, 0xff, sizeof tail_mask / 2);
  for (gint64 r = 0; r < phase->grid[0] * phase->grid[1]; r++)
    {
      gint64 d = r / phase->grid[1] * conv->step[0] + tap->offset[0];
      gint64 h = r % phase->grid[1] * conv->step[1] + tap->offset[1];
      if (d < 0 || d >= conv->source[0] || h < 0 || h >= conv->source[1])
        continue;
      const REAL *x = source + (d * conv->source[1] + h) * conv->source[2] + tap->offset[2];
      const REAL *y = dest + r * phase->grid[2];
      gint64 i = tap->low;
      if (step == 1)
        for (; i + CVL <= tap->high; i += CVL)
          sums += *(const NAME (W) *) (y + i) * *(const NAME (W) *) (x + i);
      if (step == 1 && tap->high - tap->low >= CVL && i < tap->high)
        {
          /* The rest in one vector that overlaps the finished elements, whose lanes are masked. */
          gint64 at = tap->high - CVL;
          NAME (Bits) v = *(const NAME (Bits) *) (x + at) & *(const NAME (Bits) *) (tail_mask + (tap->high - i));
          NAME (Bits) u = *(const NAME (Bits) *) (y + at) & *(const NAME (Bits) *) (tail_mask + (tap->high - i));
          sums += (NAME (W)) v * (NAME (W)) u;
          i = tap->high;
        }
      REAL rest = 0;
      for (; i < tap->high; i++)
        rest += y[i] * x[i * step];
      *total += rest;
    }
  *vector_sums = sums;
}

static void
NAME (depthwise_weight_chunks) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NAME (WeightJob) *job = data;
  const OrtrainConv *conv = job->conv;
  const OrtrainConvPhase *phase = &conv->phases[0];
  for (gint64 channel = begin; channel < end; channel++)
    {
#if MIXED
      if (conv->is_mixed)
        {
          depthwise_weights_mixed (job, channel, worker);
          continue;
        }
#endif
      for (guint t = 0; t < phase->n_taps; t++)
        {
          NAME (W) sums = { 0 };
          double total = 0;
          for (gint64 image = 0; image < conv->n_images; image++)
            NAME (depthwise_weight_image)
          (conv, phase, &phase->taps[t], job->source + (image * conv->n_groups + channel) * conv->source_plane,
           job->dest + (image * conv->n_groups + channel) * conv->dest_plane, &sums, &total);
          for (int l = 0; l < CVL; l++)
            total += sums[l];
          REAL *to = job->weights + channel * conv->weight_group + phase->taps[t].index;
          *to = (REAL) (total + (job->accumulate ? *to : 0));
        }
    }
}

static void NAME (blocked_weight_items) (gpointer data, gint64 begin, gint64 end, guint worker);

static void
NAME (conv_grad_weight_run) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *dest, const void *source,
                             void *weights, gboolean accumulate, void *workspace)
{
  const OrtrainConvPhase *phase = &conv->phases[0];
  NAME (WeightJob) job = { conv, dest, source, weights, accumulate, workspace };
  job.partial = (REAL *) ((char *) workspace + conv->n_threads * conv->thread_bytes);
  const gsize element_size = ortrain_dtype_is_half (conv->weights_dtype) ? 2 : sizeof (REAL);
  if (phase->n_taps < conv->n_taps && !accumulate)
    memset (weights, 0, (gsize) (conv->n_groups * conv->weight_group) * element_size);
  if (phase->n_taps == 0 || phase->n_blocks == 0)
    {
      if (!accumulate)
        memset (weights, 0, (gsize) (conv->n_groups * conv->weight_group) * element_size);
      return;
    }
  if (conv->algorithm == ORTRAIN_CONV_DEPTHWISE)
    {
      ortrain_parallel_for (pool, conv->n_groups, 4, NAME (depthwise_weight_chunks), &job);
      return;
    }
  if (conv->algorithm == ORTRAIN_CONV_BLOCKED)
    {
      gint64 n_items = (conv->n_groups + CVL - 1) / CVL * conv->blocked.tap_cuts;
      ortrain_parallel_for (pool, n_items, 1, NAME (blocked_weight_items), &job);
      return;
    }
  gint64 n_chunks = conv->n_groups * conv->n_splits * conv->m_tiles * conv->n_tiles;
  ortrain_parallel_for (pool, n_chunks, 1, NAME (weight_chunks), &job);
  if (conv->n_splits > 1)
    ortrain_parallel_for (pool, conv->n_groups * conv->source_channels * phase->n_taps, 32, NAME (add_splits), &job);
}

#if MIXED
static void
depthwise_weights_mixed (const NAME (WeightJob) * job, gint64 channel, guint worker)
{
  const OrtrainConv *conv = job->conv;
  const OrtrainConvPhase *phase = &conv->phases[0];
  NAME (W) *sums = (NAME (W) *) (job->workspace + worker * conv->thread_bytes);
  double *totals = (double *) (sums + phase->n_taps);
  float *source = (float *) (totals + phase->n_taps), *dest = source + conv->source_plane;
  memset (sums, 0, phase->n_taps * (sizeof *sums + sizeof *totals));
  for (gint64 image = 0; image < conv->n_images; image++)
    {
      const gint64 plane = image * conv->n_groups + channel;
      ortrain_cpu_widen (conv->source_dtype, source,
                         mixed_at (job->source, conv->source_dtype, plane * conv->source_plane), conv->source_plane);
      ortrain_cpu_widen (conv->dest_dtype, dest, mixed_at (job->dest, conv->dest_dtype, plane * conv->dest_plane),
                         conv->dest_plane);
      for (guint t = 0; t < phase->n_taps; t++)
        NAME (depthwise_weight_image) (conv, phase, &phase->taps[t], source, dest, &sums[t], &totals[t]);
    }
  for (guint t = 0; t < phase->n_taps; t++)
    {
      for (int l = 0; l < CVL; l++)
        totals[t] += sums[t][l];
      void *to =
          (void *) mixed_at (job->weights, conv->weights_dtype, channel * conv->weight_group + phase->taps[t].index);
      float before = 0;
      if (job->accumulate)
        ortrain_cpu_widen (conv->weights_dtype, &before, to, 1);
      float sum = (float) (totals[t] + before);
      if (ortrain_dtype_is_half (conv->weights_dtype))
        sum = ortrain_double_to_odd_float (totals[t] + before);
      ortrain_cpu_narrow (conv->weights_dtype, to, &sum, 1);
    }
}
#endif
