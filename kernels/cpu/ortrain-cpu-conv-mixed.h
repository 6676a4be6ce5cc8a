/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Convolutions whose operands have 16 bits or are of several types: the gathered form of ortrain-cpu-conv-template.h in
 * float32, which includes this where it is float32. A channel's part that a block of columns sees is widened before its
 * taps are gathered, weights are widened while they are packed, and a result of 16 bits is rounded once from its tile.
 */

static inline const void *
mixed_at (const void *data, OrtrainDType dtype, gint64 i)
{
  return (const guint8 *) data + i * (ortrain_dtype_is_half (dtype) ? 2 : 4);
}

/* Widened operands, in a thread's part of the workspace. */
typedef struct
{
  float *begin, *end; /* of the channel and its margins */
  float *channel;     /* [image of the block][conv->span_stride] */
  float *row;
  gint64 first, n;      /* of the plane's elements */
  gint64 image0;        /* of the block */
  gint64 channel_index; /* that is there, -1: none */
} Wide;

/* From now on, the block's rows begin in the widened source. */
static Wide
wide_begin (const OrtrainConv *conv, const OrtrainConvPhase *phase, Block_f32 *block, char *memory)
{
  Wide self = { .image0 = block->image0, .channel_index = -1 };
  const gint64 rows = block->n_rows / block->n_images;
  self.begin = (float *) (memory + conv->a_bytes + conv->b_bytes + conv->tile_bytes);
  self.end = (float *) ((char *) self.begin + conv->span_bytes);
  self.channel = self.begin + conv->span_margin;
  self.row = self.end;
  ortrain_conv_find_span (conv, phase, block->row0, rows, &self.first, &self.n);
  for (gint64 i = 0; i < block->n_rows; i++)
    {
      const gint64 image = i / rows;
      block->base[i] += image * conv->span_stride - block->origin - image * block->image_stride - self.first;
    }
  block->image_stride = conv->span_stride;
  block->origin = -self.first;
  return self;
}

/* index: of the channel among all of an image */
static void
wide_load (Wide *self, const OrtrainConv *conv, gint64 n_images, gint64 index, const void *source)
{
  if (self->channel_index == index)
    return;
  self->channel_index = index;
  for (gint64 i = 0; i < n_images; i++)
    {
      const gint64 plane = (self->image0 + i) * conv->n_groups * conv->source_channels + index;
      ortrain_cpu_widen (conv->source_dtype, self->channel + i * conv->span_stride,
                         mixed_at (source, conv->source_dtype, plane * conv->source_plane + self->first), self->n);
    }
}

/* [n] from channel0; stored after the rows' widened elements. */
static const float *
wide_get_bias (const Wide *self, const OrtrainConv *conv, const void *bias, gint64 channel0, gint64 n)
{
  float *to = (float *) ((char *) self->row + conv->row_bytes);
  ortrain_cpu_widen (conv->bias_dtype, to, mixed_at (bias, conv->bias_dtype, channel0), n);
  return to;
}

static void
pack_columns_mixed (Wide *wide, const OrtrainConv *conv, const OrtrainConvPhase *phase, const Block_f32 *block,
                    gint64 group, gint64 k0, gint64 k1, const void *source, gint64 nr, gint64 vl, float *restrict to)
{
  float row[ORTRAIN_CONV_MAX_COLUMNS + 64 + CVL] __attribute__ ((aligned (64)));
  for (gint64 k = k0; k < k1; k++)
    {
      wide_load (wide, conv, block->n_images, group * conv->source_channels + k / phase->n_taps, source);
      gather_row_f32 (conv, phase, block, &phase->taps[k % phase->n_taps], wide->channel, wide->begin, wide->end, row);
      store_row_f32 (row, block->n_columns, k - k0, k1 - k0, nr, vl, to);
    }
}

/* Rows of the weights as panels of A, as in pack_weights. */
static void
pack_weights_mixed (const Wide *wide, const OrtrainConv *conv, const OrtrainConvPhase *phase, const void *weights,
                    gint64 group, gint64 m0, gint64 mc, gint64 k0, gint64 k1, gint64 mr, gint64 kcs, float *restrict to)
{
  const OrtrainDType dtype = conv->weights_dtype;
  const gint64 n_panels = (mc + mr - 1) / mr, n_taps = phase->n_taps, all = conv->n_taps;
  const gboolean dense = n_taps == all && conv->n_phases == 1 && conv->weight_channel == n_taps;
  const gboolean kmajor = is_kmajor_f32 (conv, phase);
  for (gint64 p = 0; p < n_panels; p++)
    {
      const gint64 i0 = mc * p / n_panels, n = mc * (p + 1) / n_panels - i0;
      const gint64 first = group * conv->weight_group + (m0 + i0) * conv->weight_row;
      float *restrict panel = to + p * mr * kcs;
      for (gint64 i = 0; dense && i < n; i++)
        ortrain_cpu_widen (dtype, panel + i * kcs, mixed_at (weights, dtype, first + i * conv->weight_row + k0),
                           k1 - k0);
      for (gint64 k = k0, run; !dense && k < k1; k += run)
        {
          const gint64 t = k % n_taps, channel = first + k / n_taps * conv->weight_channel;
          run = MIN (n_taps - t, k1 - k);
          if (conv->weight_row == all)
            ortrain_cpu_widen (dtype, wide->row, mixed_at (weights, dtype, channel), n * all);
          else
            for (gint64 i = 0; i < n; i++)
              ortrain_cpu_widen (dtype, wide->row + i * all, mixed_at (weights, dtype, channel + i * conv->weight_row),
                                 all);
          for (gint64 l = 0; l < run; l++)
            {
              const float *from = wide->row + phase->taps[t + l].index;
              for (gint64 i = 0; i < n; i++)
                panel[kmajor ? (k + l - k0) * mr + i : i * kcs + k + l - k0] = from[i * all];
            }
        }
    }
}

/* bias: of the tile's rows, or NULL */
static void
scatter_tile_mixed (const OrtrainConv *conv, const OrtrainConvPhase *phase, const Block_f32 *block, gint64 m0,
                    gint64 mc, float *tile, gint64 ldt, const float *bias, void *dest, gint64 group)
{
  const gint64 length = block->w1 - block->w0, rows = block->n_rows / block->n_images, height = phase->grid[1];
  const gint64 stride = phase->stride[2];
  const gboolean plain = phase->stride[0] == 1 && phase->stride[1] == 1 && stride == 1 && length == conv->dest[2];
  guint16 line[ORTRAIN_CONV_MAX_COLUMNS], *half = dest;
  for (gint64 i = 0; i < mc; i++)
    {
      float *restrict from = tile + i * ldt;
      for (gint64 j = 0; bias != NULL && j < block->n_columns; j++)
        from[j] += bias[i];
      for (gint64 n = 0; n < block->n_images; n++, from += rows * length)
        {
          guint16 *plane =
              half + (((block->image0 + n) * conv->n_groups + group) * conv->dest_channels + m0 + i) * conv->dest_plane;
          if (plain)
            {
              ortrain_cpu_narrow (conv->dest_dtype, plane + block->row0 * length, from, rows * length);
              continue;
            }
          ortrain_cpu_narrow (conv->dest_dtype, line, from, rows * length);
          for (gint64 r = 0; r < rows; r++)
            {
              const gint64 d = phase->start[0] + (block->row0 + r) / height * phase->stride[0];
              const gint64 h = phase->start[1] + (block->row0 + r) % height * phase->stride[1];
              guint16 *restrict to =
                  plane + (d * conv->dest[1] + h) * conv->dest[2] + phase->start[2] + block->w0 * stride;
              for (gint64 j = 0; j < length; j++)
                to[j * stride] = line[r * length + j];
            }
        }
    }
}

/* ---- the gradient of the weights ---- */

static void
pack_gathered_rows_mixed (Wide *wide, const OrtrainConv *conv, const OrtrainConvPhase *phase, const Block_f32 *block,
                          gint64 group, gint64 m0, gint64 mc, const void *source, gint64 mr, gint64 kcs,
                          float *restrict to)
{
  const gint64 n_panels = (mc + mr - 1) / mr;
  for (gint64 p = 0; p < n_panels; p++)
    {
      const gint64 i0 = mc * p / n_panels, i1 = mc * (p + 1) / n_panels;
      for (gint64 i = i0; i < i1; i++)
        {
          const gint64 c = (m0 + i) / phase->n_taps, t = (m0 + i) % phase->n_taps;
          wide_load (wide, conv, block->n_images, group * conv->source_channels + c, source);
          gather_row_f32 (conv, phase, block, &phase->taps[t], wide->channel, wide->begin, wide->end,
                          to + p * mr * kcs + (i - i0) * kcs);
        }
    }
}

/* dest [n, row, q] of a block, turned round, as panels of B: [q][row]. */
static void
pack_dest_mixed (const Wide *wide, const OrtrainConv *conv, const Block_f32 *block, gint64 group, gint64 n0, gint64 nc,
                 const OrtrainCpuGemmCore *core, const void *dest, float *restrict to)
{
  const gint64 nr = core->nr, vl = core->vl, kc = block->n_columns;
  const gint64 run = block->n_columns / block->n_images, first = block->row0 * conv->dest[2] + block->w0;
  for (gint64 j = 0; j < nc; j += nr, to += nr * kc)
    {
      const gint64 n = MIN (nr, nc - j), width = n > vl ? nr : vl;
      for (gint64 k = 0; k < kc; k++)
        for (gint64 l = n; l < width; l++)
          to[k * width + l] = 0;
      for (gint64 i = 0; i < block->n_images; i++)
        {
          const gint64 channel = ((block->image0 + i) * conv->n_groups + group) * conv->dest_channels + n0 + j;
          for (gint64 l = 0; l < n; l++)
            ortrain_cpu_widen (conv->dest_dtype, wide->row + l * run,
                               mixed_at (dest, conv->dest_dtype, (channel + l) * conv->dest_plane + first), run);
          core->transpose.f32 (n, run, wide->row, run, to + i * run * width, width);
        }
    }
}

/* [m (c, t)][n row] → weights (row, c, t) of 16 bits */
static void
store_weights_mixed (const OrtrainConv *conv, gint64 group, gint64 m0, gint64 m, gint64 n0, gint64 n, const float *tile,
                     gint64 ldt, void *weights, gboolean accumulate)
{
  const OrtrainConvPhase *phase = &conv->phases[0];
  const OrtrainDType dtype = conv->weights_dtype;
  guint16 *half = weights;
  for (gint64 j = 0; j < n; j++)
    {
      guint16 *row = half + group * conv->weight_group + (n0 + j) * conv->weight_row;
      for (gint64 i = 0; i < m; i++)
        {
          const gint64 c = (m0 + i) / phase->n_taps, t = (m0 + i) % phase->n_taps;
          guint16 *to = row + c * conv->weight_channel + phase->taps[t].index;
          *to = ortrain_dtype_narrow (dtype, tile[i * ldt + j] + (accumulate ? ortrain_dtype_widen (dtype, *to) : 0));
        }
    }
}
