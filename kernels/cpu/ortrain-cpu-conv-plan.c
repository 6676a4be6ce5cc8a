/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prepares the kernels of a convolution: phases and taps, cuts, and the algorithm. */
#include "cpu/ortrain-cpu-conv-cost.h"
#include "cpu/ortrain-cpu-conv-library.h"
#include "cpu/ortrain-cpu-device-private.h"

#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-copy-private.h"

#include <string.h>

/* With a fixed partition, work is cut as for this many threads, however many there are: estimates, and so the
 * algorithm, depend on the cut. */
#define FIXED_THREADS 4

static gint64
ceil_div (gint64 a, gint64 b)
{
  return a >= 0 ? (a + b - 1) / b : -((-a) / b);
}

static gint64
floor_div (gint64 a, gint64 b)
{
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static gint64
positive_mod (gint64 a, gint64 b)
{
  gint64 r = a % b;
  return r < 0 ? r + b : r;
}

static gboolean
refuse (const OrtrainKernelSetup *setup, GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: %s", setup->op_type, what);
  return FALSE;
}

/* small: the side that the strides make small (the output of Conv, the input of ConvTranspose); large: the other one */
static gboolean
read_geometry (const OrtrainKernelSetup *setup, const OrtrainOperand *weights, const OrtrainOperand *large,
               const OrtrainOperand *small, gboolean transposed, OrtrainConvGeometry *geometry, GError **error)
{
  const OrtrainAttributes *attributes = setup->attributes;
  if (weights->rank < 3 || weights->rank > 5 || large->rank != weights->rank || small->rank != weights->rank)
    return refuse (setup, error, "only one to three spatial dimensions are supported");
  const guint n = weights->rank - 2, shift = 3 - n;
  *geometry = (OrtrainConvGeometry){
    .kernel = { 1, 1, 1 },
    .stride = { 1, 1, 1 },
    .dilation = { 1, 1, 1 },
    .groups = ortrain_attributes_get_int (attributes, "group", 1),
  };
  gsize n_strides, n_dilations, n_pads, n_output_padding;
  const gint64 *strides = ortrain_attributes_get_ints (attributes, "strides", &n_strides);
  const gint64 *dilations = ortrain_attributes_get_ints (attributes, "dilations", &n_dilations);
  const gint64 *pads = ortrain_attributes_get_ints (attributes, "pads", &n_pads);
  const gint64 *output_padding = ortrain_attributes_get_ints (attributes, "output_padding", &n_output_padding);
  const char *auto_pad = ortrain_attributes_get_string (attributes, "auto_pad", "NOTSET");
  gboolean output_shape = transposed && ortrain_attributes_has (attributes, "output_shape");
  if ((strides != NULL && n_strides != n) || (dilations != NULL && n_dilations != n) ||
      (pads != NULL && n_pads != 2 * n) || (output_padding != NULL && n_output_padding != n))
    return refuse (setup, error,
                   "strides, dilations, pads or output_padding do not fit the number of spatial dimensions");
  for (guint i = 0; i < n; i++)
    {
      guint at = shift + i;
      geometry->kernel[at] = weights->dims[2 + i];
      geometry->stride[at] = strides != NULL ? strides[i] : 1;
      geometry->dilation[at] = dilations != NULL ? dilations[i] : 1;
      if (geometry->stride[at] < 1 || geometry->dilation[at] < 1 || geometry->kernel[at] < 1 ||
          geometry->stride[at] > G_MAXINT32 || geometry->dilation[at] > G_MAXINT32 || geometry->kernel[at] > G_MAXINT32)
        return refuse (setup, error, "strides, dilations and kernel sizes must be positive");
      gint64 extent = (geometry->kernel[at] - 1) * geometry->dilation[at] + 1;
      gboolean upper = g_str_equal (auto_pad, "SAME_UPPER"), same = upper || g_str_equal (auto_pad, "SAME_LOWER");
      if (same || output_shape)
        {
          /* The padding that is missing for the sizes that are already known. */
          gint64 total = (small->dims[2 + i] - 1) * geometry->stride[at] + extent - large->dims[2 + i];
          if (transposed)
            total += output_padding != NULL ? output_padding[i] : 0;
          total = MAX (total, 0);
          geometry->pad_begin[at] = upper ? total / 2 : total - total / 2;
        }
      else if (pads != NULL && !g_str_equal (auto_pad, "VALID"))
        geometry->pad_begin[at] = pads[i];
    }
  if (geometry->groups < 1)
    return refuse (setup, error, "group must be positive");
  return TRUE;
}

static OrtrainConv *
new_conv (const OrtrainKernelSetup *setup, const OrtrainConvGeometry *geometry, GError **error)
{
  gint64 n_taps;
  if (!ortrain_checked_n_elements (geometry->kernel, 3, &n_taps) || n_taps > G_MAXINT32 / 64)
    {
      refuse (setup, error, "the kernel is too large");
      return NULL;
    }
  OrtrainConv *conv = g_try_new0 (OrtrainConv, 1);
  if (conv != NULL)
    {
      conv->taps = g_try_new0 (OrtrainConvTap, (gsize) n_taps);
      conv->phases = g_try_new0 (OrtrainConvPhase, (gsize) n_taps);
    }
  if (conv == NULL || conv->taps == NULL || conv->phases == NULL)
    {
      if (conv != NULL)
        {
          g_free (conv->taps);
          g_free (conv->phases);
        }
      g_free (conv);
      ortrain_kernel_refuse_memory (setup, error);
      return NULL;
    }
  conv->n_taps = n_taps;
  conv->geometry = *geometry;
  conv->n_groups = geometry->groups;
  conv->n_threads = ortrain_cpu_get_n_threads (setup);
  conv->cut_threads = ortrain_cpu_has_fixed_partition (setup) ? FIXED_THREADS : conv->n_threads;
  return conv;
}

static void
free_conv (gpointer data)
{
  OrtrainConv *conv = data;
  ortrain_cpu_conv_library_free (conv->library);
  for (guint p = 0; p < conv->n_phases; p++)
    g_free (conv->phases[p].masks);
  g_free (conv->blocked.offsets);
  g_free (conv->blocked.runs);
  g_free (conv->blocked.first_run);
  g_free (conv->taps);
  g_free (conv->phases);
  g_free (conv);
}

static void
set_sides (OrtrainConv *conv, const OrtrainOperand *source, const OrtrainOperand *dest)
{
  const guint n = source->rank - 2, shift = 3 - n;
  conv->is_double = source->dtype == ORTRAIN_DTYPE_FLOAT64;
  conv->n_images = source->dims[0];
  conv->source_channels = source->dims[1] / conv->n_groups;
  conv->dest_channels = dest->dims[1] / conv->n_groups;
  for (guint i = 0; i < 3; i++)
    {
      conv->source[i] = i < shift ? 1 : source->dims[2 + i - shift];
      conv->dest[i] = i < shift ? 1 : dest->dims[2 + i - shift];
      conv->step[i] = 1;
    }
  conv->source_plane = conv->source[0] * conv->source[1] * conv->source[2];
  conv->dest_plane = conv->dest[0] * conv->dest[1] * conv->dest[2];
}

/* Appends the tap to the phase if it ever meets the source. */
static void
add_tap (const OrtrainConv *conv, OrtrainConvPhase *phase, gint64 index, const gint64 *offset)
{
  OrtrainConvTap *tap = &phase->taps[phase->n_taps];
  gint64 low = 0, high = 0;
  for (guint i = 0; i < 3; i++)
    {
      low = MAX (0, ceil_div (-offset[i], conv->step[i]));
      high = MIN (phase->grid[i], floor_div (conv->source[i] - 1 - offset[i], conv->step[i]) + 1);
      if (low >= high)
        return;
      tap->offset[i] = (gint32) offset[i];
    }
  tap->low = (gint32) MIN (low, G_MAXINT32);
  tap->high = (gint32) MIN (high, G_MAXINT32);
  tap->index = (gint32) index;
  phase->n_taps++;
}

static void
tap_position (const OrtrainConvGeometry *geometry, gint64 index, gint64 *position)
{
  gint64 w = geometry->kernel[2], h = geometry->kernel[1];
  gint64 k[3] = { index / (w * h), index / w % h, index % w };
  for (guint i = 0; i < 3; i++)
    position[i] = k[i] * geometry->dilation[i] - geometry->pad_begin[i];
}

static void
build_forward (OrtrainConv *conv, const OrtrainConvGeometry *geometry)
{
  OrtrainConvPhase *phase = &conv->phases[0];
  conv->n_phases = 1;
  phase->taps = conv->taps;
  for (guint i = 0; i < 3; i++)
    {
      conv->step[i] = geometry->stride[i];
      phase->grid[i] = conv->dest[i];
      phase->stride[i] = 1;
    }
  for (gint64 t = 0; t < conv->n_taps; t++)
    {
      gint64 offset[3];
      tap_position (geometry, t, offset);
      add_tap (conv, phase, t, offset);
    }
}

/* dest is the large side: position p gets from source position s through tap k when p = s · stride + position (k). */
static void
build_backward (OrtrainConv *conv, const OrtrainConvGeometry *geometry)
{
  gint64 reached = 0, used = 0;
  for (gint64 t = 0; t < conv->n_taps; t++)
    {
      gint64 position[3], residue[3];
      tap_position (geometry, t, position);
      for (guint i = 0; i < 3; i++)
        residue[i] = positive_mod (position[i], geometry->stride[i]);
      gboolean seen = FALSE;
      for (guint p = 0; p < conv->n_phases && !seen; p++)
        seen = memcmp (conv->phases[p].start, residue, sizeof residue) == 0;
      if (seen || residue[0] >= conv->dest[0] || residue[1] >= conv->dest[1] || residue[2] >= conv->dest[2])
        continue;
      OrtrainConvPhase *phase = &conv->phases[conv->n_phases];
      phase->taps = conv->taps + used;
      gint64 n = 1;
      for (guint i = 0; i < 3; i++)
        {
          phase->start[i] = residue[i];
          phase->stride[i] = geometry->stride[i];
          phase->grid[i] = ceil_div (conv->dest[i] - residue[i], geometry->stride[i]);
          n *= phase->grid[i];
        }
      for (gint64 u = t; u < conv->n_taps; u++)
        {
          gint64 offset[3];
          gboolean same = TRUE;
          tap_position (geometry, u, position);
          for (guint i = 0; i < 3; i++)
            {
              same = same && positive_mod (position[i], geometry->stride[i]) == residue[i];
              offset[i] = floor_div (residue[i] - position[i], geometry->stride[i]);
            }
          if (same)
            add_tap (conv, phase, u, offset);
        }
      if (phase->n_taps == 0)
        continue; /* its place in the list is used by the next one */
      used += phase->n_taps;
      reached += n;
      conv->n_phases++;
    }
  conv->prefill = reached < conv->dest_plane;
}

/* See OrtrainConvPhase.shifted. FALSE: no memory for the masks. */
static gboolean
find_shifted (const OrtrainConv *conv, OrtrainConvPhase *phase)
{
  const gint64 *grid = phase->grid;
  const gint64 lanes = conv->is_double ? 8 : 16;
  for (guint i = 0; i < 3; i++)
    if (conv->step[i] != 1 || grid[i] != conv->source[i])
      return TRUE;
  phase->shifted = TRUE;
  if (!phase->many_images)
    return TRUE;
  phase->mask_stride = (conv->source_plane + lanes - 1) / lanes * lanes;
  gsize size = conv->is_double ? sizeof (gint64) : sizeof (gint32);
  gint8 *masks = g_try_malloc0_n ((gsize) phase->n_taps * (gsize) phase->mask_stride, size);
  phase->masks = masks;
  if (masks == NULL && phase->n_taps > 0)
    return FALSE;
  for (guint t = 0; t < phase->n_taps; t++)
    for (gint64 i = 0; i < conv->source_plane; i++)
      {
        const gint32 *offset = phase->taps[t].offset;
        gint64 d = i / (grid[1] * grid[2]) + offset[0], h = i / grid[2] % grid[1] + offset[1],
               w = i % grid[2] + offset[2];
        if (d >= 0 && d < grid[0] && h >= 0 && h < grid[1] && w >= 0 && w < grid[2])
          memset (masks + ((gsize) t * (gsize) phase->mask_stride + (gsize) i) * size, 0xff, size);
      }
  return TRUE;
}

#define MANY_IMAGES_BELOW 256

/* Blocks of columns, and cuts of the rows where the columns are few. No cut changes the result's bits: each element is
 * summed up in one go. The order that does (the bias first or last) depends on shapes alone. */
static gboolean
plan_product (OrtrainConv *conv, OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainCpuGemmCore *core = ortrain_cpu_gemm_get_core (conv->is_double);
  const gint64 wanted = (gint64) conv->cut_threads * 3;
  gint64 max_rows = 1, max_tile = 0, max_columns = 1;
  conv->n_chunks = 0;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      OrtrainConvPhase *phase = &conv->phases[p];
      gint64 plane = phase->grid[0] * phase->grid[1] * phase->grid[2], rows = phase->grid[0] * phase->grid[1];
      gint64 target = conv->cut_threads == 1
                          ? ORTRAIN_CONV_MAX_COLUMNS
                          : CLAMP (conv->n_images * plane * conv->n_groups / wanted, 128, ORTRAIN_CONV_MAX_COLUMNS);
      gint64 columns;
      phase->first_chunk = conv->n_chunks;
      phase->many_images = plane < MANY_IMAGES_BELOW;
      phase->row_blocks = phase->column_blocks = phase->images_per_block = 1;
      if (phase->many_images)
        {
          gint64 most = MAX (1, target / MAX (plane, 1));
          phase->n_blocks = ceil_div (conv->n_images, most);
          phase->images_per_block = ceil_div (conv->n_images, MAX (phase->n_blocks, 1));
          columns = phase->images_per_block * plane;
        }
      else
        {
          if (phase->grid[2] > ORTRAIN_CONV_MAX_COLUMNS)
            {
              phase->column_blocks = ceil_div (phase->grid[2], ORTRAIN_CONV_MAX_COLUMNS);
              phase->row_blocks = rows;
              columns = ceil_div (phase->grid[2], phase->column_blocks);
            }
          else
            {
              phase->row_blocks = ceil_div (rows, MAX (1, target / phase->grid[2]));
              columns = ceil_div (rows, phase->row_blocks) * phase->grid[2];
            }
          phase->n_blocks = conv->n_images * phase->row_blocks * phase->column_blocks;
        }
      if (!find_shifted (conv, phase))
        return ortrain_kernel_refuse_memory (setup, error);
      phase->direct = !phase->many_images && phase->stride[0] == 1 && phase->stride[1] == 1 && phase->stride[2] == 1 &&
                      !ortrain_dtype_is_half (conv->dest_dtype);
      gint64 chunks = phase->n_blocks * conv->n_groups;
      phase->row_cuts = 1;
      if (conv->cut_threads > 1 && chunks > 0 && chunks < wanted)
        phase->row_cuts = CLAMP (ceil_div (wanted, chunks), 1, MAX (1, conv->dest_channels / 48));
      conv->n_chunks += chunks * phase->row_cuts;
      gint64 m = ceil_div (conv->dest_channels, phase->row_cuts);
      max_rows = MAX (max_rows, m);
      max_columns = MAX (max_columns, columns);
      if (!phase->direct)
        max_tile = MAX (max_tile, m * ((columns + 15) & ~(gint64) 15));
    }
  conv->max_rows = max_rows;
  conv->max_columns = max_columns;
  conv->a_bytes = (ortrain_cpu_gemm_core_a_bytes (core) + 63) & ~(gsize) 63;
  conv->b_bytes = ((gsize) (ORTRAIN_CONV_KC * (max_columns + core->nr)) * core->element_size + 63) & ~(gsize) 63;
  conv->tile_bytes = ((gsize) max_tile * core->element_size + 63) & ~(gsize) 63;
  conv->thread_bytes = conv->a_bytes + conv->b_bytes + conv->tile_bytes;
  conv->algorithm =
      conv->source_channels == 1 && conv->dest_channels == 1 ? ORTRAIN_CONV_DEPTHWISE : ORTRAIN_CONV_GATHER;
  if (conv->is_mixed && conv->algorithm == ORTRAIN_CONV_GATHER)
    ortrain_conv_plan_wide (conv, core->mr * conv->n_taps, conv->has_bias ? max_rows : 0);
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      setup->flops += 2.0 * (double) conv->n_images * (double) (phase->grid[0] * phase->grid[1] * phase->grid[2]) *
                      (double) (conv->n_groups * conv->dest_channels * conv->source_channels) * (double) phase->n_taps;
    }
  return TRUE;
}

static gboolean
check_channels (OrtrainKernelSetup *setup, const OrtrainOperand *a, gint64 a_per_group, const OrtrainOperand *b,
                gint64 b_per_group, gint64 groups, GError **error)
{
  if (a->dims[0] != b->dims[0] || a->dims[1] != a_per_group * groups || b->dims[1] != b_per_group * groups)
    return refuse (setup, error, "the numbers of channels, filters and groups do not fit together");
  return TRUE;
}

#define SCATTER_COLUMN_ELEMENTS (192 * 1024)
#define SCATTER_MOST_ELEMENTS (1024 * 1024)
#define SCATTER_COLUMNS 512
#define SCATTER_FEW_COLUMNS 128
#define SCATTER_ITEMS 16

/* The cut of the scattered form. FALSE: the weights are no matrix for it, or it would need too much workspace. */
static gboolean
plan_scatter (OrtrainConv *conv, const OrtrainKernelSetup *setup)
{
  const OrtrainConvGeometry *geometry = &conv->geometry;
  OrtrainConvScatter *scatter = &conv->scatter;
  gboolean still = conv->n_taps == 1; /* nothing moves: as in a matrix product */
  for (guint i = 0; i < 3; i++)
    still = still && geometry->stride[i] == 1 && geometry->pad_begin[i] == 0 && conv->source[i] == conv->dest[i];
  if (!still && conv->forward)
    return FALSE;
  const gint64 plane = conv->source_plane, n_rows = conv->source[0] * conv->source[1];
  const gint64 element_bytes = conv->is_double ? sizeof (double) : sizeof (float);
  if (plane < 1 || conv->source_channels < 1 || conv->n_images < 1)
    return FALSE;
  *scatter = (OrtrainConvScatter){ .images = 1, .rows = n_rows, .channel_steps = 1 };
  scatter->direct = still && (plane >= SCATTER_FEW_COLUMNS || conv->n_images == 1);
  if (plane < SCATTER_FEW_COLUMNS && !scatter->direct)
    scatter->images =
        CLAMP (MIN (2 * SCATTER_FEW_COLUMNS / plane, SCATTER_COLUMN_ELEMENTS / (plane * conv->source_channels)), 1,
               conv->n_images);
  else if (!scatter->direct)
    scatter->rows = CLAMP (SCATTER_COLUMNS / conv->source[2], 1, n_rows);
  const gint64 n_columns = scatter->images * scatter->rows * conv->source[2];
  gint64 channel_elements, merged_elements = scatter->images > 1 ? conv->source_channels * n_columns : 0;
  if (!ortrain_checked_mul_i64 (n_columns, conv->n_taps, &channel_elements) ||
      (!scatter->direct && channel_elements > SCATTER_MOST_ELEMENTS))
    return FALSE;
  if (!scatter->direct)
    scatter->channel_steps = ceil_div (conv->dest_channels, MAX (1, SCATTER_COLUMN_ELEMENTS / channel_elements));
  if (conv->cut_threads > 1)
    {
      const gint64 items = ceil_div (conv->n_images, scatter->images) * conv->n_groups;
      const gint64 least_channels = MAX (1, 32 / conv->n_taps);
      scatter->channel_steps =
          MAX (scatter->channel_steps, MIN (ceil_div (SCATTER_ITEMS, items), conv->dest_channels / least_channels));
    }
  scatter->channel_steps = CLAMP (scatter->channel_steps, 1, conv->dest_channels);
  if (!scatter->direct)
    scatter->column_elements =
        (ceil_div (conv->dest_channels, scatter->channel_steps) * channel_elements + 15) & ~(gint64) 15;
  scatter->thread_bytes = ((gsize) ((scatter->column_elements + merged_elements) * element_bytes) + 63) & ~(gsize) 63;
  return TRUE;
}

#define BLOCKED_MOST_BYTES (1024 * 1024)
#define BLOCKED_ITEMS 16
#define BLOCKED_ITEM_SUMS 65536

/* Taps that follow each other, forwards or backwards, where positions do too. */
static void
find_tap_runs (OrtrainConv *conv, gint64 lanes)
{
  OrtrainConvBlocked *blocked = &conv->blocked;
  guint n = 0;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      const gint32 *offsets = blocked->offsets + (phase->taps - conv->taps);
      blocked->first_run[p] = n;
      for (guint t = 0; t < phase->n_taps;)
        {
          const OrtrainConvTap *taps = &phase->taps[t];
          const gint32 by = t + 1 < phase->n_taps ? offsets[t + 1] - offsets[t] : 0;
          OrtrainConvTapRun *run = &blocked->runs[n++];
          gint32 length = 1;
          if (conv->step[2] == 1 && ABS (by) == lanes)
            while (length < 3 && t + (guint) length < phase->n_taps &&
                   offsets[t + (guint) length] == offsets[t] + length * by &&
                   taps[length].offset[0] == taps[0].offset[0] && taps[length].offset[1] == taps[0].offset[1])
              length++;
          *run = (OrtrainConvTapRun){ .offset = { taps[0].offset[0], taps[0].offset[1] }, .n_taps = length };
          run->first = by >= 0 ? offsets[t] : offsets[t] + (length - 1) * by;
          for (gint32 k = 0; k < length; k++)
            run->weights[by >= 0 ? k : length - 1 - k] = taps[k].index * (gint32) lanes;
          t += (guint) length;
        }
    }
  blocked->first_run[conv->n_phases] = n;
}

/* Depthwise, a vector of channels at a time: the zeros around the source. FALSE: it would need too much workspace; an
 * error only where there is no memory. */
static gboolean
plan_blocked (OrtrainConv *conv, gboolean weights, gboolean *no_memory)
{
  OrtrainConvBlocked *blocked = &conv->blocked;
  const gint64 lanes = conv->is_double ? 8 : 16;
  gint64 last[3] = { 0 }, n_used = 0;
  *blocked = (OrtrainConvBlocked){ .tap_cuts = 1 };
  for (guint p = 0; p < conv->n_phases; p++)
    for (guint t = 0; t < conv->phases[p].n_taps; t++)
      for (guint i = 0; i < 3; i++)
        {
          const gint64 offset = conv->phases[p].taps[t].offset[i];
          blocked->before[i] = MAX (blocked->before[i], -offset);
          last[i] = MAX (last[i], (conv->phases[p].grid[i] - 1) * conv->step[i] + offset);
        }
  const gint64 most = BLOCKED_MOST_BYTES / 64;
  blocked->padded_plane = 1;
  for (guint i = 0; i < 3; i++)
    {
      blocked->padded[i] = MAX (conv->source[i], last[i] + 1) + blocked->before[i];
      if (blocked->padded[i] > most)
        return FALSE;
      blocked->padded_plane *= blocked->padded[i];
    }
  const gint64 vectors = blocked->padded_plane + MAX (conv->source_plane, conv->dest_plane) + conv->n_taps;
  if (vectors > most)
    return FALSE;
  blocked->thread_bytes = (gsize) vectors * 64;
  for (guint p = 0; p < conv->n_phases; p++)
    n_used = MAX (n_used, conv->phases[p].taps - conv->taps + conv->phases[p].n_taps);
  blocked->offsets = g_try_new0 (gint32, (gsize) n_used + 1);
  *no_memory = blocked->offsets == NULL;
  if (!weights)
    {
      blocked->runs = g_try_new0 (OrtrainConvTapRun, (gsize) n_used + 1);
      blocked->first_run = g_try_new0 (guint, (gsize) conv->n_phases + 1);
      *no_memory = *no_memory || blocked->runs == NULL || blocked->first_run == NULL;
    }
  for (gint64 t = 0; t < n_used && !*no_memory; t++)
    {
      const gint32 *offset = conv->taps[t].offset;
      gint64 at = 0;
      for (guint i = 0; i < 3; i++)
        at = at * blocked->padded[i] + offset[i] + blocked->before[i];
      blocked->offsets[t] = (gint32) (at * lanes);
    }
  if (!weights && !*no_memory)
    find_tap_runs (conv, lanes);
  const gint64 n_blocks = ceil_div (conv->n_groups, lanes);
  blocked->tap_cuts = CLAMP (ceil_div (BLOCKED_ITEMS, n_blocks), 1, MAX (1, conv->n_taps / 64));
  blocked->grain = CLAMP (BLOCKED_ITEM_SUMS / MAX (conv->dest_plane * conv->n_taps, 1), 1, conv->n_images);
  return !*no_memory;
}

/* Whether the environment leaves an algorithm in the choice: ORTRAIN_CONV names one for tests and comparisons, which is
 * taken wherever it can be. */
static gboolean
is_wanted (const char *name, gboolean *forced)
{
  const char *wanted = g_getenv ("ORTRAIN_CONV");
  *forced = g_strcmp0 (wanted, name) == 0;
  return wanted == NULL || *wanted == 0 || *forced;
}

/* A kernel that sees the whole image from its one position: its taps are channels, of a matrix product. FALSE where it
 * is not so, or where a bias is no row of the result. */
static gboolean
plan_matrix (OrtrainConv *conv, OrtrainKernelSetup *setup, OrtrainConvProduct product, gint64 small_per_group,
             gint64 large_per_group)
{
  const gboolean source_is_large = product != ORTRAIN_CONV_GRAD_INPUT;
  const gint64 *small = source_is_large ? conv->dest : conv->source,
               *large = source_is_large ? conv->source : conv->dest;
  const OrtrainConvGeometry *geometry = &conv->geometry;
  gboolean forced;
  if (!is_wanted ("matrix", &forced))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    if (small[i] != 1 || large[i] != geometry->kernel[i] || geometry->pad_begin[i] != 0 ||
        (geometry->kernel[i] > 1 && geometry->dilation[i] > 1))
      return FALSE;
  if (conv->has_bias && (conv->n_groups > 1 || (!source_is_large && conv->n_taps > 1)))
    return FALSE;
  const gint64 groups = conv->n_groups, wide = large_per_group * conv->n_taps, weights = small_per_group * wide;
  OrtrainCpuGemm *matrix = &conv->matrix;
  *matrix = (OrtrainCpuGemm){ .is_double = conv->is_double,
                              .alpha = 1,
                              .n_batch = groups,
                              .has_bias = conv->has_bias,
                              .bias_column_stride = 1,
                              .bias_scale = 1 };
  ortrain_conv_set_matrix_dtypes (conv, product);
  switch (product)
    {
    case ORTRAIN_CONV_FORWARD: /* [n, wide] · [small, wide]ᵀ */
      matrix->trans_b = TRUE;
      matrix->m = conv->n_images;
      matrix->n = matrix->c_stride = small_per_group;
      matrix->k = matrix->ldb = matrix->a_stride = wide;
      matrix->lda = groups * wide;
      matrix->b_stride = weights;
      matrix->ldc = groups * small_per_group;
      /* Libraries read long transposed rows against the grain. */
      matrix->own = matrix->m > 4 && matrix->k >= 2048;
      break;
    case ORTRAIN_CONV_GRAD_INPUT: /* [n, small] · [small, wide] */
      matrix->m = conv->n_images;
      matrix->n = matrix->ldb = matrix->c_stride = wide;
      matrix->k = matrix->a_stride = small_per_group;
      matrix->lda = groups * small_per_group;
      matrix->b_stride = weights;
      matrix->ldc = groups * wide;
      break;
    case ORTRAIN_CONV_GRAD_WEIGHTS: /* [n, small]ᵀ · [n, wide] */
      matrix->trans_a = TRUE;
      matrix->m = matrix->a_stride = small_per_group;
      matrix->n = matrix->ldc = matrix->b_stride = wide;
      matrix->k = conv->n_images;
      matrix->lda = groups * small_per_group;
      matrix->ldb = groups * wide;
      matrix->c_stride = weights;
      break;
    }
  ortrain_cpu_gemm_plan (matrix, conv->n_threads, ortrain_cpu_has_fixed_partition (setup));
  conv->algorithm = ORTRAIN_CONV_MATRIX;
  setup->flops = 2.0 * (double) conv->n_images * (double) groups * (double) weights;
  return TRUE;
}

/* The code that oneDNN generates for a convolution takes some milliseconds to make and memory that no plan shows: it
 * must be estimated to save this share of the time, or this many cycles in each call. */
#define LIBRARY_SAVED_SHARE 0.3
#define LIBRARY_SAVED_CYCLES 5e5

/* The algorithm that is estimated to be the fastest. small, large: the sides of the strides. */
static gboolean
choose_algorithm (OrtrainConv *conv, OrtrainKernelSetup *setup, OrtrainConvProduct product, const OrtrainOperand *small,
                  const OrtrainOperand *large, GError **error)
{
  const gboolean weights = product == ORTRAIN_CONV_GRAD_WEIGHTS, source_is_large = product != ORTRAIN_CONV_GRAD_INPUT;
  double cycles = weights ? ortrain_conv_estimate_weights (conv) : ortrain_conv_estimate_product (conv);
  gboolean forced, no_memory = FALSE;
  if (!weights && !conv->is_mixed && is_wanted ("scatter", &forced) && plan_scatter (conv, setup))
    {
      double scattered = ortrain_conv_estimate_scatter (conv);
      if (forced || scattered < cycles)
        {
          conv->algorithm = ORTRAIN_CONV_SCATTER;
          cycles = scattered;
        }
    }
  if (conv->algorithm == ORTRAIN_CONV_DEPTHWISE && !conv->is_mixed && is_wanted ("blocked", &forced) &&
      plan_blocked (conv, weights, &no_memory))
    {
      double blocked = ortrain_conv_estimate_blocked (conv, weights);
      if (forced || blocked < cycles)
        {
          conv->algorithm = ORTRAIN_CONV_BLOCKED;
          cycles = blocked;
        }
    }
  if (no_memory)
    return ortrain_kernel_refuse_memory (setup, error);
  const double least_cycles = cycles - MIN (cycles * LIBRARY_SAVED_SHARE, LIBRARY_SAVED_CYCLES);
  if (!conv->is_double && !(conv->is_mixed && conv->has_bias) && is_wanted ("onednn", &forced) &&
      (forced || least_cycles > 0))
    {
      OrtrainConvProblem problem = { .product = product,
                                     .geometry = conv->geometry,
                                     .n_images = conv->n_images,
                                     .large_channels = large->dims[1] / conv->n_groups,
                                     .small_channels = small->dims[1] / conv->n_groups,
                                     .n_threads = conv->n_threads,
                                     .fixed_partition = ortrain_cpu_has_fixed_partition (setup) };
      ortrain_conv_set_problem_dtypes (conv, &problem);
      memcpy (problem.large, source_is_large ? conv->source : conv->dest, sizeof problem.large);
      memcpy (problem.small, source_is_large ? conv->dest : conv->source, sizeof problem.small);
      conv->library = ortrain_cpu_conv_library_new (&problem, forced ? G_MAXDOUBLE : least_cycles, &no_memory);
      if (no_memory)
        return ortrain_kernel_refuse_memory (setup, error);
      if (conv->library != NULL)
        conv->algorithm = ORTRAIN_CONV_LIBRARY;
    }
  if (conv->algorithm != ORTRAIN_CONV_GATHER)
    for (guint p = 0; p < conv->n_phases; p++)
      g_clear_pointer (&conv->phases[p].masks, g_free);
  switch (conv->algorithm)
    {
    case ORTRAIN_CONV_GATHER:
      setup->workspace_bytes = conv->thread_bytes * conv->n_threads + conv->partial_bytes;
      break;
    case ORTRAIN_CONV_SCATTER:
      setup->workspace_bytes = conv->scatter.thread_bytes * conv->n_threads;
      break;
    case ORTRAIN_CONV_LIBRARY:
      setup->workspace_bytes = ortrain_cpu_conv_library_get_workspace_bytes (conv->library);
      break;
    case ORTRAIN_CONV_BLOCKED:
      setup->workspace_bytes = conv->blocked.thread_bytes * conv->n_threads;
      break;
    case ORTRAIN_CONV_DEPTHWISE:
      if (conv->is_mixed)
        ortrain_conv_plan_wide_planes (conv, weights);
      setup->workspace_bytes = conv->is_mixed ? conv->thread_bytes * conv->n_threads : 0;
      break;
    case ORTRAIN_CONV_MATRIX:
    case ORTRAIN_CONV_N_ALGORITHMS:
      break;
    }
  return TRUE;
}

/* Conv (x, w, b): dest = y; org.ortrain::ConvGradInput (dy, w, shape): dest = dx; ConvTranspose (x, w, b): dest = y */
gboolean
ortrain_conv_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *source = &setup->inputs[0], *weights = &setup->inputs[1], *dest = &setup->outputs[0];
  const gboolean forward = g_str_equal (setup->op_type, "Conv"),
                 transposed = g_str_equal (setup->op_type, "ConvTranspose");
  OrtrainConvGeometry geometry;
  if (!read_geometry (setup, weights, forward ? source : dest, forward ? dest : source, transposed, &geometry, error))
    return FALSE;
  /* weights: [of the small side, per group of the large side, kernel…] */
  const OrtrainOperand *small = forward ? dest : source, *large = forward ? source : dest;
  if (weights->dims[0] % geometry.groups != 0)
    return refuse (setup, error, "the filters cannot be divided into the groups");
  if (!check_channels (setup, small, weights->dims[0] / geometry.groups, large, weights->dims[1], geometry.groups,
                       error))
    return FALSE;
  OrtrainConv *conv = new_conv (setup, &geometry, error);
  if (conv == NULL)
    return FALSE;
  setup->constants = conv;
  setup->constants_free = free_conv;
  set_sides (conv, source, dest);
  /* input 2 of ConvGradInput is a shape */
  conv->has_bias = (forward || transposed) && setup->n_inputs > 2 && setup->inputs[2].dtype != ORTRAIN_DTYPE_UNDEFINED;
  ortrain_conv_set_dtypes (conv, source, dest, weights, conv->has_bias ? &setup->inputs[2] : NULL);
  const gint64 small_per_group = weights->dims[0] / geometry.groups, large_per_group = weights->dims[1];
  conv->weight_group = small_per_group * large_per_group * conv->n_taps;
  conv->weight_row = forward ? large_per_group * conv->n_taps : conv->n_taps;
  conv->weight_channel = forward ? conv->n_taps : large_per_group * conv->n_taps;
  if (dest->n_elements == 0)
    return TRUE;
  conv->forward = forward;
  if (plan_matrix (conv, setup, forward ? ORTRAIN_CONV_FORWARD : ORTRAIN_CONV_GRAD_INPUT, small_per_group,
                   large_per_group))
    return TRUE;
  if (forward)
    build_forward (conv, &geometry);
  else
    build_backward (conv, &geometry);
  if (!plan_product (conv, setup, error))
    return FALSE;
  return choose_algorithm (conv, setup, forward ? ORTRAIN_CONV_FORWARD : ORTRAIN_CONV_GRAD_INPUT, small, large, error);
}

/* org.ortrain::ConvGradWeight (dy, x, shape of w) */
gboolean
ortrain_conv_prepare_grad_weight (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *x = &setup->inputs[1], *weights = &setup->outputs[0];
  OrtrainConvGeometry geometry;
  if (!read_geometry (setup, weights, x, dy, FALSE, &geometry, error))
    return FALSE;
  if (weights->dims[0] % geometry.groups != 0)
    return refuse (setup, error, "the filters cannot be divided into the groups");
  if (!check_channels (setup, dy, weights->dims[0] / geometry.groups, x, weights->dims[1], geometry.groups, error))
    return FALSE;
  OrtrainConv *conv = new_conv (setup, &geometry, error);
  if (conv == NULL)
    return FALSE;
  setup->constants = conv;
  setup->constants_free = free_conv;
  setup->can_accumulate = 1;
  set_sides (conv, x, dy);
  ortrain_conv_set_dtypes (conv, x, dy, weights, NULL);
  conv->weight_channel = conv->n_taps;
  conv->weight_row = weights->dims[1] * conv->n_taps;
  conv->weight_group = conv->dest_channels * conv->weight_row;
  if (weights->n_elements == 0 ||
      plan_matrix (conv, setup, ORTRAIN_CONV_GRAD_WEIGHTS, conv->dest_channels, conv->source_channels))
    return TRUE;
  if (dy->n_elements > 0)
    build_forward (conv, &geometry);
  OrtrainConvPhase *phase = &conv->phases[0];
  const gint64 plane = conv->dest_plane, rows = phase->grid[0] * phase->grid[1];
  const OrtrainCpuGemmCore *core = ortrain_cpu_gemm_get_core (conv->is_double);
  conv->algorithm =
      conv->source_channels == 1 && conv->dest_channels == 1 ? ORTRAIN_CONV_DEPTHWISE : ORTRAIN_CONV_GATHER;
  setup->flops = 2.0 * (double) dy->n_elements * (double) conv->source_channels * (double) phase->n_taps;
  if (phase->n_taps == 0 || conv->algorithm == ORTRAIN_CONV_DEPTHWISE)
    {
      phase->n_blocks = phase->n_taps == 0 ? 0 : 1;
      return phase->n_taps == 0 || choose_algorithm (conv, setup, ORTRAIN_CONV_GRAD_WEIGHTS, dy, x, error);
    }
  /* The sum's order hangs on the blocks and the splits: shapes alone decide them. */
  phase->row_blocks = phase->column_blocks = phase->images_per_block = 1;
  phase->many_images = plane <= ORTRAIN_CONV_KC / 2;
  if (phase->many_images)
    {
      phase->images_per_block = ORTRAIN_CONV_KC / plane;
      phase->n_blocks = ceil_div (conv->n_images, phase->images_per_block);
    }
  else
    {
      if (phase->grid[2] > ORTRAIN_CONV_KC)
        {
          phase->column_blocks = ceil_div (phase->grid[2], ORTRAIN_CONV_KC);
          phase->row_blocks = rows;
        }
      else
        phase->row_blocks = ceil_div (rows, ORTRAIN_CONV_KC / phase->grid[2]);
      phase->n_blocks = conv->n_images * phase->row_blocks * phase->column_blocks;
    }
  if (!find_shifted (conv, phase))
    return ortrain_kernel_refuse_memory (setup, error);
  const gint64 m = conv->source_channels * phase->n_taps, n = conv->dest_channels;
  conv->m_tiles = ceil_div (m, 288);
  conv->n_tiles = ceil_div (n, 256);
  const gint64 tiles = conv->n_groups * conv->m_tiles * conv->n_tiles;
  conv->n_splits = tiles >= 8 ? 1 : CLAMP (ceil_div (16, tiles), 1, MAX (1, phase->n_blocks / 2));
  conv->max_rows = ceil_div (m, conv->m_tiles);
  conv->max_columns = ceil_div (n, conv->n_tiles);
  conv->a_bytes = (ortrain_cpu_gemm_core_a_bytes (core) + 63) & ~(gsize) 63;
  conv->b_bytes = ((gsize) (ORTRAIN_CONV_KC * (conv->max_columns + core->nr)) * core->element_size + 63) & ~(gsize) 63;
  conv->tile_bytes =
      conv->n_splits > 1 ? 0 : ((gsize) (conv->max_rows * conv->max_columns) * core->element_size + 63) & ~(gsize) 63;
  conv->thread_bytes = conv->a_bytes + conv->b_bytes + conv->tile_bytes;
  if (conv->is_mixed)
    ortrain_conv_plan_wide (conv, core->nr * ORTRAIN_CONV_KC, 0);
  conv->partial_bytes = conv->n_splits > 1 ? (gsize) (conv->n_splits * conv->n_groups * m * n) * core->element_size : 0;
  return choose_algorithm (conv, setup, ORTRAIN_CONV_GRAD_WEIGHTS, dy, x, error);
}
