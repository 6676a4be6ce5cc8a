/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-conv-cost.h"

static inline gint64
ceil_div (gint64 a, gint64 b)
{
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

gint64
ortrain_conv_kernel_extent (const OrtrainConvGeometry *geometry, guint i)
{
  return (geometry->kernel[i] - 1) * geometry->dilation[i] + 1;
}

gboolean
ortrain_conv_find_rows (const OrtrainConvProblem *problem, guint i, gint64 first, gint64 last, gint64 *other_first,
                        gint64 *n_other, gint64 *pad)
{
  const gint64 stride = problem->geometry.stride[i], extent = ortrain_conv_kernel_extent (&problem->geometry, i);
  const gint64 pad_begin = problem->geometry.pad_begin[i];
  gint64 low, high, pad_end;
  if (problem->product == ORTRAIN_CONV_GRAD_INPUT)
    {
      low = MAX (0, ceil_div (first + pad_begin - extent + 1, stride));
      high = last - 1 + pad_begin < 0 ? 0 : MIN (problem->small[i], (last - 1 + pad_begin) / stride + 1);
      *pad = pad_begin + first - low * stride;
      pad_end = (high - low - 1) * stride + extent - (last - first) - *pad;
    }
  else
    {
      const gint64 begin = first * stride - pad_begin, end = (last - 1) * stride - pad_begin + extent;
      low = MAX (0, begin);
      high = MIN (problem->large[i], end);
      *pad = low - begin;
      pad_end = end - high;
    }
  *other_first = low;
  *n_other = high - low;
  return high > low && *pad >= 0 && pad_end > -stride;
}

/* Positions and taps along one dimension that meet inside. */
static gint64
count_pairs (const OrtrainConvProblem *problem, guint i)
{
  const OrtrainConvGeometry *geometry = &problem->geometry;
  gint64 n = 0;
  for (gint64 k = 0; k < geometry->kernel[i]; k++)
    {
      const gint64 offset = k * geometry->dilation[i] - geometry->pad_begin[i];
      const gint64 low = MAX (0, ceil_div (-offset, geometry->stride[i]));
      const gint64 room = problem->large[i] - 1 - offset;
      n += room < 0 ? 0 : MAX (0, MIN (problem->small[i], room / geometry->stride[i] + 1) - low);
    }
  return n;
}

static double
count_products (const OrtrainConvProblem *problem)
{
  return (double) problem->n_images * (double) count_pairs (problem, 0) * (double) count_pairs (problem, 1) *
         (double) count_pairs (problem, 2);
}

#define WEIGHTS_CACHE_BYTES (768 * 1024)
#define SLAB_CACHE_BYTES (768 * 1024)
#define PARTIAL_SUM_BYTES (2 * 1024 * 1024)
#define ITEMS_PER_THREAD 3
#define FIXED_ITEMS 16
#define MIN_ITEM_FLOPS 4e6

static double
slab_bytes (const OrtrainConvProblem *problem, guint axis, gint64 images, gint64 units, gint64 rows)
{
  const gboolean grad_input = problem->product == ORTRAIN_CONV_GRAD_INPUT, grouped = problem->geometry.groups > 1;
  const gint64 *cut_side = grad_input ? problem->large : problem->small;
  gint64 other_first, n_other, pad;
  double cut_plane = (double) (cut_side[0] * cut_side[1] * cut_side[2]) / (double) cut_side[axis] * (double) rows;
  const gint64 *side = grad_input ? problem->small : problem->large;
  gint64 n = rows;
  if (ortrain_conv_find_rows (problem, axis, 0, rows, &other_first, &n_other, &pad))
    n = MIN (side[axis], n_other + (rows < cut_side[axis] ? pad : 0));
  double other_plane = (double) (side[0] * side[1] * side[2]) / (double) side[axis] * (double) n;
  double cut_channels = (double) (grad_input ? problem->large_channels : problem->small_channels);
  double other_channels = (double) (grad_input ? problem->small_channels : problem->large_channels);
  cut_channels = grouped ? cut_channels * (double) units : (double) units;
  other_channels *= grouped ? (double) units : 1;
  return (cut_plane * cut_channels + other_plane * other_channels) * (double) images * sizeof (float);
}

/* Slabs small enough for the cache, and enough of them for the threads. By shape alone when the partition is fixed. */
void
ortrain_conv_plan_cut (const OrtrainConvProblem *problem, guint axis, OrtrainConvCut *cut)
{
  const double flops = 2 * count_products (problem) *
                       (double) (problem->geometry.groups * problem->large_channels * problem->small_channels);
  const gboolean grad_input = problem->product == ORTRAIN_CONV_GRAD_INPUT, grouped = problem->geometry.groups > 1;
  const gint64 *kernel = problem->geometry.kernel;
  const gint64 n_units = grouped      ? problem->geometry.groups
                         : grad_input ? problem->large_channels
                                      : problem->small_channels;
  const gint64 rows = (grad_input ? problem->large : problem->small)[axis];
  const gint64 granule = !grouped ? 16 : MAX (1, 16 / MIN (problem->small_channels, problem->large_channels));
  const double unit_bytes = (double) (kernel[0] * kernel[1] * kernel[2]) * sizeof (float) *
                            (grouped      ? (double) (problem->small_channels * problem->large_channels)
                             : grad_input ? (double) problem->small_channels
                                          : (double) problem->large_channels);
  gint64 target = problem->fixed_partition  ? FIXED_ITEMS
                  : problem->n_threads == 1 ? 1
                                            : problem->n_threads * ITEMS_PER_THREAD;
  target = CLAMP ((gint64) (flops / MIN_ITEM_FLOPS), 1, target);

  gint64 units = (gint64) CLAMP (WEIGHTS_CACHE_BYTES / unit_bytes, 1.0, (double) n_units);
  cut->units = MIN (n_units, MAX (granule, units / granule * granule));
  if (grouped)
    /* Channels of one group see no other group's: the fewest that keep vectors full make the smallest slabs. */
    while (cut->units > granule && slab_bytes (problem, axis, 1, cut->units, rows) > SLAB_CACHE_BYTES)
      cut->units = MAX (granule, cut->units / 2 / granule * granule);
  cut->unit_cuts = ceil_div (n_units, cut->units);
  const double image_bytes = slab_bytes (problem, axis, 1, cut->units, rows);
  cut->images = (gint64) CLAMP (SLAB_CACHE_BYTES / image_bytes, 1.0, (double) problem->n_images);
  cut->rows = rows;
  while (image_bytes > SLAB_CACHE_BYTES && cut->rows > 2 * ortrain_conv_kernel_extent (&problem->geometry, axis) &&
         slab_bytes (problem, axis, 1, cut->units, cut->rows) > SLAB_CACHE_BYTES)
    cut->rows = (cut->rows + 1) / 2;

  /* More items: first fewer images in each, then fewer rows, then fewer units. */
  const gint64 images_wanted = ceil_div (target, cut->unit_cuts * ceil_div (rows, cut->rows));
  cut->images = MIN (cut->images, MAX (1, problem->n_images / MIN (images_wanted, problem->n_images)));
  cut->image_cuts = ceil_div (problem->n_images, cut->images);
  while (cut->unit_cuts * cut->image_cuts * ceil_div (rows, cut->rows) < target &&
         cut->rows > 4 * ortrain_conv_kernel_extent (&problem->geometry, axis))
    cut->rows = (cut->rows + 1) / 2;
  cut->row_cuts = ceil_div (rows, cut->rows);
  while (cut->unit_cuts * cut->image_cuts * cut->row_cuts < target && cut->units >= 4 * granule)
    {
      cut->units = (cut->units / 2 + granule - 1) / granule * granule;
      cut->unit_cuts = ceil_div (n_units, cut->units);
    }
  /* Even parts, but for the rest. */
  cut->images = ceil_div (problem->n_images, cut->image_cuts);
  cut->image_cuts = ceil_div (problem->n_images, cut->images);
  cut->rows = ceil_div (rows, cut->row_cuts);
  if (grad_input)
    cut->rows = ceil_div (cut->rows, problem->geometry.stride[axis]) * problem->geometry.stride[axis];
  cut->row_cuts = ceil_div (rows, cut->rows);
  cut->chunks = CLAMP (ceil_div (target, cut->unit_cuts), 1, cut->image_cuts * cut->row_cuts);
  if (problem->product == ORTRAIN_CONV_GRAD_WEIGHTS)
    while (cut->chunks > 1 && (double) (cut->chunks * n_units) * unit_bytes > PARTIAL_SUM_BYTES)
      cut->chunks--; /* each has a sum of its own */
}

static double
round_up (gint64 channels)
{
  return (double) ((channels + 15) / 16 * 16);
}

/* In cycles of one core with vectors of 16. The cost of the primitive per product, with its code for these channels,
 * and that of the reorders: a cycle for an element, of which those of the side that has no cut in its channels are
 * moved once per cut. */
double
ortrain_conv_estimate_library (const OrtrainConvProblem *problem, const OrtrainConvCut *cut)
{
  const gint64 large = problem->large_channels, small = problem->small_channels, groups = problem->geometry.groups;
  const gint64 *kernel = problem->geometry.kernel;
  const double positions = count_products (problem);
  double product;
  if (large == 1 && small == 1)
    product = positions * round_up (groups) / 16;
  else if (groups > 1 && (large < 16 || small < 16))
    {
      gint64 lanes = large % 8 == 0 && small % 8 == 0 ? 8 : 4;
      product = positions * (double) (groups * large * small) / (double) (2 * lanes);
    }
  else if (large <= 3 && problem->product != ORTRAIN_CONV_GRAD_INPUT)
    product = positions * (double) (groups * large) * round_up (small) / 32 / 0.75;
  else
    product = positions * (double) groups * round_up (large) * round_up (small) / 32 / 0.85;
  if (problem->pairs)
    product *= 0.6;
  const double planes = (double) (problem->n_images * groups);
  double large_elements = planes * (double) (large * problem->large[0] * problem->large[1] * problem->large[2]);
  double small_elements = planes * (double) (small * problem->small[0] * problem->small[1] * problem->small[2]);
  double weights = (double) (groups * large * small * kernel[0] * kernel[1] * kernel[2]);
  const double redundant = groups > 1 ? 1 : (double) cut->unit_cuts;
  if (problem->product == ORTRAIN_CONV_GRAD_INPUT)
    small_elements *= redundant;
  else
    large_elements *= redundant;
  weights *=
      problem->product == ORTRAIN_CONV_GRAD_WEIGHTS ? (double) (cut->image_cuts * cut->row_cuts) : (double) cut->chunks;
  const double calls = (double) (cut->unit_cuts * cut->image_cuts * cut->row_cuts);
  /* The input's gradient reads them as they are, or nearly. */
  weights *= problem->product == ORTRAIN_CONV_GRAD_INPUT ? 1 : 2;
  return product + large_elements + small_elements + weights + calls * 4000;
}

/* ---- ours ---- */

/* Gathering 16 columns of one row of the matrix: whole vectors where rows follow each other, else the start of each
 * row costs too, and with a stride every element. */
static double
gather_cycles (const OrtrainConv *conv, const OrtrainConvPhase *phase)
{
  const double length =
      (double) (phase->grid[2] * (phase->many_images && phase->shifted ? phase->grid[0] * phase->grid[1] : 1));
  if (phase->shifted && !phase->many_images)
    return 7.5;
  if (conv->step[2] == 1)
    return 8 + 16 / length * (2 * (double) ceil_div ((gint64) length, 16) + (phase->shifted ? 2 : 7));
  return 3 + 16 * 1.2 + 16 / length * 7;
}

static double
depthwise_cycles (const OrtrainConv *conv)
{
  double cycles = 0;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      const double length = (double) phase->grid[2];
      const gboolean unit = conv->step[2] == 1 && phase->stride[2] == 1;
      double row = unit ? 20 + 2 * length / 16 : 20 + 1.2 * length;
      if (unit && phase->n_taps <= 32 && length >= 16)
        row = 11 + 2 * (double) ceil_div (phase->grid[2], 16);
      cycles += (double) (conv->n_images * conv->n_groups * phase->grid[0] * phase->grid[1]) * phase->n_taps * row;
    }
  return cycles;
}

double
ortrain_conv_estimate_product (const OrtrainConv *conv)
{
  if (conv->algorithm == ORTRAIN_CONV_DEPTHWISE)
    return depthwise_cycles (conv);
  double cycles = 0;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      const double columns =
          (double) (conv->n_images * conv->n_groups * phase->grid[0] * phase->grid[1] * phase->grid[2]);
      const double k = (double) conv->source_channels * phase->n_taps, m = (double) conv->dest_channels;
      const gboolean dense = phase->n_taps == conv->n_taps && conv->weight_channel == conv->n_taps;
      cycles += columns / 16 * k * (m / 2 / 0.88 + (double) phase->row_cuts * gather_cycles (conv, phase)) +
                (double) (phase->n_blocks * conv->n_groups) * k * m * (dense ? 0.1 : 1) +
                columns * m *
                    (phase->direct           ? 0.1
                     : phase->stride[2] == 1 ? 0.3
                                             : 1.3);
    }
  return cycles;
}

double
ortrain_conv_estimate_weights (const OrtrainConv *conv)
{
  const OrtrainConvPhase *phase = &conv->phases[0];
  const double columns = (double) (conv->n_images * conv->n_groups * phase->grid[0] * phase->grid[1] * phase->grid[2]);
  if (conv->algorithm == ORTRAIN_CONV_DEPTHWISE)
    return columns * phase->n_taps * (0.2 + 15.0 / (double) phase->grid[2] + (conv->step[2] == 1 ? 0 : 1));
  const double k = (double) conv->source_channels * phase->n_taps, n = (double) conv->dest_channels;
  return columns * k *
             (round_up (conv->dest_channels) / 32 / 0.76 + (double) conv->n_tiles * gather_cycles (conv, phase) / 16) +
         columns * n * 0.3 * (double) conv->m_tiles + (double) (conv->n_splits * conv->n_groups) * k * n * 0.5;
}

/* Planes turned round, half a cycle for an element, and about two vectors' sums in a cycle. */
double
ortrain_conv_estimate_blocked (const OrtrainConv *conv, gboolean weights)
{
  const OrtrainConvBlocked *blocked = &conv->blocked;
  const double blocks = (double) ceil_div (conv->n_groups, 16), images = (double) conv->n_images;
  const double turned = (double) (conv->source_plane + conv->dest_plane) * 8 + (double) blocked->padded_plane;
  double sums = 0;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      const double rows = (double) (phase->grid[0] * phase->grid[1]);
      sums += rows * phase->n_taps * (double) phase->grid[2] * (weights ? 0.55 : 0.45) +
              rows * (weights ? 2.5 * phase->n_taps : 40);
    }
  return blocks *
         (images * (turned * (weights ? (double) blocked->tap_cuts : 1) + sums) + 16.0 * (double) conv->n_taps);
}

/* A library's product, which packs its operands anew for every call, and the additions: whole rows where the stride
 * is 1. */
double
ortrain_conv_estimate_scatter (const OrtrainConv *conv)
{
  const OrtrainConvScatter *scatter = &conv->scatter;
  const double columns = (double) (conv->n_images * conv->n_groups * conv->source_plane);
  const double k = (double) conv->source_channels, m = (double) (conv->dest_channels * conv->n_taps);
  const double run = (double) (scatter->images * scatter->rows * conv->source[2]);
  const double slabs = columns / run, length = (double) conv->source[2];
  double cycles = columns * m * k / 32 / 0.85 + slabs * m * k * 0.6 +
                  columns * k * (double) scatter->channel_steps * (scatter->images > 1 ? 0.7 : 0.2) + slabs * 2000;
  if (!scatter->direct)
    cycles += columns * m * (0.15 + (conv->geometry.stride[2] == 1 ? 0.1 + 20 / length : 1.3 + 20 / length));
  return cycles;
}
