/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Convolutions with one channel in and one channel out per group, a vector of channels at a time, included by
 * ortrain-cpu-conv.c after ortrain-cpu-conv-template.h. The planes of CVL channels are turned round to
 * [position][channel] in the workspace, the source with zeros around it: then every tap is a whole vector, however
 * narrow the planes are, and the sums stay in registers over all taps. */

#define CVL (64 / (int) sizeof (REAL))

/* Sums in registers: positions of a product, taps of a weights' gradient. */
#if defined(__AVX512F__)
#define BLOCKED_SUMS 8
#define BLOCKED_TURNS 2
#else
#define BLOCKED_SUMS 4
#define BLOCKED_TURNS 1
#endif
#if BLOCKED_SUMS == 8
#define BLOCKED_CASES(X, ...)                                                                                          \
  X (1, __VA_ARGS__)                                                                                                   \
  X (2, __VA_ARGS__)                                                                                                   \
  X (3, __VA_ARGS__) X (4, __VA_ARGS__) X (5, __VA_ARGS__) X (6, __VA_ARGS__) X (7, __VA_ARGS__) X (8, __VA_ARGS__)
#else
#define BLOCKED_CASES(X, ...) X (1, __VA_ARGS__) X (2, __VA_ARGS__) X (3, __VA_ARGS__) X (4, __VA_ARGS__)
#endif
#define BLOCKED_CASE(n, name, ...)                                                                                     \
  case n:                                                                                                              \
    NAME (name) (n, __VA_ARGS__);                                                                                      \
    break;

typedef struct
{
  REAL *source;  /* [padded d][padded h][padded w][channel] */
  REAL *turned;  /* [plane][channel]: a plane as it comes, then dest */
  REAL *weights; /* [tap][channel]: of the whole kernel; sums of a gradient */
} NAME (BlockedMemory);

static NAME (BlockedMemory) NAME (find_blocked_memory) (const OrtrainConv *conv, char *workspace, guint worker)
{
  const OrtrainConvBlocked *blocked = &conv->blocked;
  REAL *memory = (REAL *) (workspace + worker * blocked->thread_bytes);
  NAME (BlockedMemory)
  found = { memory, memory + blocked->padded_plane * CVL,
            memory + (blocked->padded_plane + MAX (conv->source_plane, conv->dest_plane)) * CVL };
  return found;
}

/* n_channels planes, [channel][position] → [position][CVL] */
static void
NAME (turn_plane) (const REAL *from, gint64 n_channels, gint64 plane, REAL *to)
{
  if (n_channels < CVL)
    memset (to, 0, (gsize) (plane * CVL) * sizeof (REAL));
  ortrain_cpu_gemm_get_core (sizeof (REAL) == 8)->transpose.CORE (n_channels, plane, from, plane, to, CVL);
}

/* Into the middle of the zeros, which stay. */
static void
NAME (turn_source) (const OrtrainConv *conv, const REAL *from, gint64 n_channels, const NAME (BlockedMemory) * memory)
{
  typedef NAME (W) W;
  const OrtrainConvBlocked *blocked = &conv->blocked;
  const gint64 *source = conv->source, *padded = blocked->padded, *before = blocked->before;
  if (blocked->padded_plane == conv->source_plane)
    {
      NAME (turn_plane) (from, n_channels, conv->source_plane, memory->source);
      return;
    }
  NAME (turn_plane) (from, n_channels, conv->source_plane, memory->turned);
  const W *restrict row = (const W *) memory->turned;
  for (gint64 d = 0; d < source[0]; d++)
    for (gint64 h = 0; h < source[1]; h++, row += source[2])
      {
        W *restrict to = (W *) memory->source + ((d + before[0]) * padded[1] + h + before[1]) * padded[2] + before[2];
        for (gint64 i = 0; i < source[2]; i++)
          to[i] = row[i];
      }
}

static void
NAME (clear_source) (const OrtrainConv *conv, const NAME (BlockedMemory) * memory)
{
  if (conv->blocked.padded_plane != conv->source_plane)
    memset (memory->source, 0, (gsize) (conv->blocked.padded_plane * CVL) * sizeof (REAL));
}

static inline gboolean
NAME (is_row_inside) (const OrtrainConv *conv, const gint32 *offset, gint64 d, gint64 h)
{
  return (guint64) (d + offset[0]) < (guint64) conv->source[0] && (guint64) (h + offset[1]) < (guint64) conv->source[1];
}

/* n positions that follow each other, over the taps of some runs; n is a constant where this is inlined. Steps are in
 * elements, which addresses can be scaled by. */
static inline __attribute__ ((always_inline)) void
NAME (blocked_sums) (const int n, const REAL *source, const REAL *weights, const OrtrainConvTapRun *run,
                     const OrtrainConvTapRun *end, gint64 step, const NAME (W) * bias, REAL *to, gint64 stride)
{
  typedef NAME (W) W;
  W sums[BLOCKED_SUMS];
#pragma GCC unroll 16
  for (int i = 0; i < n; i++)
    sums[i] = *bias;
  for (; run < end; run++)
    {
      const REAL *from = source + run->first;
      const W w0 = *(const W *) (weights + run->weights[0]);
      if (run->n_taps == 1)
        {
#pragma GCC unroll 16
          for (int i = 0; i < n; i++)
            sums[i] += w0 * *(const W *) (from + i * step);
          continue;
        }
      /* One position reads through a tap the element that the position before reads through the next tap. */
      const W w1 = *(const W *) (weights + run->weights[1]);
      if (run->n_taps == 2)
        {
#pragma GCC unroll 16
          for (int i = 0; i <= n; i++)
            {
              const W x = *(const W *) (from + i * CVL);
              if (i < n)
                sums[i] += w0 * x;
              if (i > 0)
                sums[i - 1] += w1 * x;
            }
          continue;
        }
      const W w2 = *(const W *) (weights + run->weights[2]);
#pragma GCC unroll 16
      for (int i = 0; i < n + 2; i++)
        {
          const W x = *(const W *) (from + i * CVL);
          if (i < n)
            sums[i] += w0 * x;
          if (i > 0 && i <= n)
            sums[i - 1] += w1 * x;
          if (i > 1)
            sums[i - 2] += w2 * x;
        }
    }
#pragma GCC unroll 16
  for (int i = 0; i < n; i++)
    *(W *) (to + i * stride) = sums[i];
}

/* Items: [channel block][image] */
static void
NAME (run_blocked) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  typedef NAME (W) W;
  const NAME (Job) *job = data;
  const OrtrainConv *conv = job->conv;
  const OrtrainConvBlocked *blocked = &conv->blocked;
  const NAME (BlockedMemory) memory = NAME (find_blocked_memory) (conv, job->workspace, worker);
  W *dest = (W *) memory.turned;
  gint64 block = -1, channel0 = 0, n_channels = 0;
  W bias = { 0 };
  NAME (clear_source) (conv, &memory);
  for (gint64 item = begin; item < end; item++)
    {
      const gint64 image = item % conv->n_images;
      if (item / conv->n_images != block)
        {
          block = item / conv->n_images;
          channel0 = block * CVL;
          n_channels = MIN (CVL, conv->n_groups - channel0);
          NAME (turn_plane) (job->weights + channel0 * conv->n_taps, n_channels, conv->n_taps, memory.weights);
          for (gint64 c = 0; c < n_channels && job->bias != NULL; c++)
            bias[c] = job->bias[channel0 + c];
        }
      NAME (turn_source)
      (conv, job->source + (image * conv->n_groups + channel0) * conv->source_plane, n_channels, &memory);
      for (gint64 i = 0; i < conv->dest_plane && conv->prefill; i++)
        dest[i] = bias;
      for (guint p = 0; p < conv->n_phases; p++)
        {
          const OrtrainConvPhase *phase = &conv->phases[p];
          const gint64 length = phase->grid[2], cuts = (length + BLOCKED_SUMS - 1) / BLOCKED_SUMS;
          const gint64 least = length / cuts, n_longer = length % cuts;
          const gint64 step = conv->step[2] * CVL, stride = phase->stride[2] * CVL;
          for (gint64 d = 0; d < phase->grid[0]; d++)
            for (gint64 h = 0; h < phase->grid[1]; h++)
              {
                const gint64 sd = d * conv->step[0], sh = h * conv->step[1];
                const gint64 y =
                    (phase->start[0] + d * phase->stride[0]) * conv->dest[1] + phase->start[1] + h * phase->stride[1];
                const REAL *from = memory.source + (sd * blocked->padded[1] + sh) * blocked->padded[2] * CVL;
                REAL *to = memory.turned + (y * conv->dest[2] + phase->start[2]) * CVL;
                const OrtrainConvTapRun *run = blocked->runs + blocked->first_run[p],
                                        *end = blocked->runs + blocked->first_run[p + 1];
                while (run < end && !NAME (is_row_inside) (conv, run->offset, sd, sh))
                  run++;
                while (run < end && !NAME (is_row_inside) (conv, end[-1].offset, sd, sh))
                  end--;
                for (gint64 cut = 0, n; cut < cuts; cut++, from += n * step, to += n * stride)
                  {
                    n = least + (cut < n_longer ? 1 : 0);
                    switch (n)
                      {
                        BLOCKED_CASES (BLOCKED_CASE, blocked_sums, from, memory.weights, run, end, step, &bias, to,
                                       stride)
                      default:
                        break;
                      }
                  }
              }
        }
      ortrain_cpu_gemm_get_core (sizeof (REAL) == 8)
          ->transpose.CORE (conv->dest_plane, n_channels, memory.turned, CVL,
                            job->dest + (image * conv->n_groups + channel0) * conv->dest_plane, conv->dest_plane);
    }
}

static void
NAME (blocked_run) (const OrtrainConv *conv, OrtrainThreadPool *pool, const void *source, const void *weights,
                    const void *bias, void *dest, void *workspace)
{
  NAME (Job) job = { conv, source, weights, bias, dest, workspace };
  const gint64 n_blocks = (conv->n_groups + CVL - 1) / CVL;
  ortrain_parallel_for (pool, n_blocks * conv->n_images, conv->blocked.grain, NAME (run_blocked), &job);
}

/* ---- the gradient of the weights: taps of one row of the kernel at a time ---- */

/* The sums of n taps over all rows of dest that they see; n is a constant where this is inlined. */
static inline __attribute__ ((always_inline)) void
NAME (blocked_tap_sums) (const int n, const OrtrainConv *conv, const OrtrainConvTap *taps, const gint32 *offsets,
                         const REAL *source, const REAL *dest, NAME (W) * weights)
{
  typedef NAME (W) W;
  const OrtrainConvBlocked *blocked = &conv->blocked;
  const OrtrainConvPhase *phase = &conv->phases[0];
  const gint64 step = conv->step[2] * CVL;
  gint64 offset[BLOCKED_SUMS], low = phase->grid[2], high = 0;
  W sums[BLOCKED_TURNS][BLOCKED_SUMS];
#pragma GCC unroll 8
  for (int k = 0; k < n; k++)
    {
      offset[k] = offsets[k];
      low = MIN (low, taps[k].low);
      high = MAX (high, taps[k].high);
      sums[0][k] = weights[taps[k].index];
      for (int u = 1; u < BLOCKED_TURNS; u++)
        sums[u][k] = (W){ 0 };
    }
  for (gint64 d = 0; d < phase->grid[0]; d++)
    for (gint64 h = 0; h < phase->grid[1]; h++)
      {
        const gint64 sd = d * conv->step[0], sh = h * conv->step[1];
        if (!NAME (is_row_inside) (conv, taps->offset, sd, sh))
          continue;
        const REAL *from = source + (sd * blocked->padded[1] + sh) * blocked->padded[2] * CVL + low * step;
        const REAL *y = dest + ((d * phase->grid[1] + h) * phase->grid[2] + low) * CVL;
        gint64 i = low;
        for (; i + BLOCKED_TURNS <= high; i += BLOCKED_TURNS)
#pragma GCC unroll 2
          for (int u = 0; u < BLOCKED_TURNS; u++, from += step, y += CVL)
            {
              const W v = *(const W *) y;
#pragma GCC unroll 8
              for (int k = 0; k < n; k++)
                sums[u][k] += v * *(const W *) (from + offset[k]);
            }
        if (BLOCKED_TURNS > 1 && i < high)
          {
            const W v = *(const W *) y;
#pragma GCC unroll 8
            for (int k = 0; k < n; k++)
              sums[0][k] += v * *(const W *) (from + offset[k]);
          }
      }
#pragma GCC unroll 8
  for (int k = 0; k < n; k++)
    {
      for (int u = 1; u < BLOCKED_TURNS; u++)
        sums[0][k] += sums[u][k];
      weights[taps[k].index] = sums[0][k];
    }
}

/* Items: [channel block][cut of the taps] */
static void
NAME (blocked_weight_items) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  typedef NAME (W) W;
  const NAME (WeightJob) *job = data;
  const OrtrainConv *conv = job->conv;
  const OrtrainConvBlocked *blocked = &conv->blocked;
  const OrtrainConvPhase *phase = &conv->phases[0];
  const NAME (BlockedMemory) memory = NAME (find_blocked_memory) (conv, job->workspace, worker);
  NAME (clear_source) (conv, &memory);
  for (gint64 item = begin; item < end; item++)
    {
      const gint64 channel0 = item / blocked->tap_cuts * CVL, cut = item % blocked->tap_cuts;
      const gint64 n_channels = MIN (CVL, conv->n_groups - channel0);
      const guint first = (guint) (phase->n_taps * cut / blocked->tap_cuts);
      const guint last = (guint) (phase->n_taps * (cut + 1) / blocked->tap_cuts);
      for (guint t = first; t < last; t++)
        ((W *) memory.weights)[phase->taps[t].index] = (W){ 0 };
      for (gint64 image = 0; image < conv->n_images; image++)
        {
          const gint64 plane0 = image * conv->n_groups + channel0;
          NAME (turn_source) (conv, job->source + plane0 * conv->source_plane, n_channels, &memory);
          NAME (turn_plane) (job->dest + plane0 * conv->dest_plane, n_channels, conv->dest_plane, memory.turned);
          for (guint t = first, n; t < last; t += n)
            {
              const OrtrainConvTap *taps = &phase->taps[t];
              for (n = 1; n < BLOCKED_SUMS && t + n < last && taps[n].offset[0] == taps[0].offset[0] &&
                          taps[n].offset[1] == taps[0].offset[1];)
                n++;
              switch (n)
                {
                  BLOCKED_CASES (BLOCKED_CASE, blocked_tap_sums, conv, taps, blocked->offsets + t, memory.source,
                                 memory.turned, (W *) memory.weights)
                default:
                  break;
                }
            }
        }
      for (gint64 c = 0; c < n_channels; c++)
        for (guint t = first; t < last; t++)
          {
            REAL *to = job->weights + (channel0 + c) * conv->weight_group + phase->taps[t].index;
            *to = memory.weights[phase->taps[t].index * CVL + c] + (job->accumulate ? *to : 0);
          }
    }
}

#undef CVL
#undef BLOCKED_SUMS
#undef BLOCKED_TURNS
#undef BLOCKED_CASES
#undef BLOCKED_CASE
