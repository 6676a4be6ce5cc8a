/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The scattered form of a convolution, included by ortrain-cpu-conv.c once for float and once for double, with REAL and
 * NAME(x) defined:
 *   column [(row, t), q] = sum over c of  W (row, t; c) · source [n, g, c, q]
 * is an ordinary product, whose columns are then added to the places of dest that they reach. Unlike the gathered form
 * it does nothing for positions outside of the source, and needs few source channels no more than many. With a kernel
 * of one element that moves nothing, the columns are dest itself. */

typedef struct
{
  const OrtrainConv *conv;
  const REAL *source, *weights, *bias;
  REAL *dest;
  char *workspace;
} NAME (ScatterJob);

/* One column row (row, t) of some rows of the source: added to a plane of dest. */
static void
NAME (scatter_add) (const OrtrainConv *conv, const gint64 *tap, gint64 row0, gint64 n_rows, const REAL *restrict from,
                    REAL *restrict plane)
{
  const gint64 *stride = conv->geometry.stride, *dest = conv->dest, length = conv->source[2];
  const gint64 low = tap[2] >= 0 ? 0 : MIN (length, (-tap[2] + stride[2] - 1) / stride[2]);
  const gint64 room = dest[2] - 1 - tap[2], high = room < 0 ? 0 : MIN (length, room / stride[2] + 1);
  for (gint64 r = row0; r < row0 + n_rows; r++, from += length)
    {
      const gint64 d = r / conv->source[1] * stride[0] + tap[0], h = r % conv->source[1] * stride[1] + tap[1];
      if (d < 0 || d >= dest[0] || h < 0 || h >= dest[1])
        continue;
      REAL *restrict to = plane + (d * dest[1] + h) * dest[2] + tap[2];
      if (stride[2] == 1)
        for (gint64 i = low; i < high; i++)
          to[i] += from[i];
      else
        for (gint64 i = low; i < high; i++)
          to[i * stride[2]] += from[i];
    }
}

static void
NAME (scatter_item) (const NAME (ScatterJob) * job, gint64 index, guint worker)
{
  const OrtrainConv *conv = job->conv;
  const OrtrainConvScatter *scatter = &conv->scatter;
  const gint64 step = index % scatter->channel_steps, group = index / scatter->channel_steps % conv->n_groups;
  const gint64 image0 = index / (scatter->channel_steps * conv->n_groups) * scatter->images;
  const gint64 n_images = MIN (scatter->images, conv->n_images - image0);
  const gint64 channel0 = conv->dest_channels * step / scatter->channel_steps;
  const gint64 n_channels = conv->dest_channels * (step + 1) / scatter->channel_steps - channel0;
  const gint64 n_taps = conv->n_taps, m = n_channels * n_taps, source_rows = conv->source[0] * conv->source[1];
  const gint64 *kernel = conv->geometry.kernel, dest_stride = conv->n_groups * conv->dest_channels * conv->dest_plane;
  const gint64 source_stride = conv->n_groups * conv->source_channels * conv->source_plane;
  const REAL *source = job->source + image0 * source_stride + group * conv->source_channels * conv->source_plane;
  const REAL *weights = job->weights + group * conv->weight_group + channel0 * conv->weight_row;
  REAL *dest = job->dest + image0 * dest_stride + (group * conv->dest_channels + channel0) * conv->dest_plane;
  REAL *columns = (REAL *) (job->workspace + worker * scatter->thread_bytes),
       *merged = columns + scatter->column_elements;
  for (gint64 n = 0; n < n_images; n++)
    for (gint64 c = 0; c < n_channels && (!scatter->direct || job->bias != NULL); c++)
      {
        const REAL first = job->bias != NULL ? job->bias[group * conv->dest_channels + channel0 + c] : 0;
        REAL *restrict plane = dest + n * dest_stride + c * conv->dest_plane;
        for (gint64 i = 0; i < conv->dest_plane; i++)
          plane[i] = first;
      }
  for (gint64 row0 = 0; row0 < source_rows; row0 += scatter->rows)
    {
      const gint64 n_rows = MIN (scatter->rows, source_rows - row0), run = n_rows * conv->source[2];
      const gint64 n = n_images * run, lda = conv->forward ? conv->weight_row : conv->weight_channel;
      const REAL *b = source + row0 * conv->source[2];
      gint64 ldb = conv->source_plane;
      if (n_images > 1)
        {
          for (gint64 c = 0; c < conv->source_channels; c++)
            for (gint64 i = 0; i < n_images; i++)
              memcpy (merged + c * n + i * run, b + i * source_stride + c * conv->source_plane,
                      (gsize) run * sizeof (REAL));
          b = merged;
          ldb = n;
        }
      REAL *to = scatter->direct ? dest + row0 * conv->source[2] : columns;
      NAME (ortrain_cpu_gemm)
      (!conv->forward, FALSE, m, n, conv->source_channels, 1, weights, lda, b, ldb,
       scatter->direct && job->bias != NULL ? 1 : 0, to, scatter->direct ? conv->dest_plane : n);
      if (scatter->direct)
        continue;
      for (gint64 c = 0; c < n_channels; c++)
        for (gint64 i = 0; i < n_images; i++)
          for (gint64 t = 0; t < n_taps; t++)
            {
              const gint64 at[3] = { t / (kernel[1] * kernel[2]), t / kernel[2] % kernel[1], t % kernel[2] };
              gint64 tap[3];
              for (guint k = 0; k < 3; k++)
                tap[k] = at[k] * conv->geometry.dilation[k] - conv->geometry.pad_begin[k];
              NAME (scatter_add)
              (conv, tap, row0, n_rows, columns + (c * n_taps + t) * n + i * run,
               dest + i * dest_stride + c * conv->dest_plane);
            }
    }
}

static void
NAME (scatter_items) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  for (gint64 i = begin; i < end; i++)
    NAME (scatter_item) (data, i, worker);
}

static void
NAME (scatter_run) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *source, const void *weights,
                    const void *bias, void *dest, void *workspace)
{
  NAME (ScatterJob) job = { conv, source, weights, bias, dest, workspace };
  const gint64 n_slabs = (conv->n_images + conv->scatter.images - 1) / conv->scatter.images;
  ortrain_parallel_for (pool, n_slabs * conv->n_groups * conv->scatter.channel_steps, 1, NAME (scatter_items), &job);
}
