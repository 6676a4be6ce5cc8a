/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prepares convolutions with operands of 16 bits, or of several types. */
#include "cpu/ortrain-cpu-conv-private.h"
#include "cpu/ortrain-cpu-level-private.h"

void
ortrain_conv_set_dtypes (OrtrainConv *conv, const OrtrainOperand *source, const OrtrainOperand *dest,
                         const OrtrainOperand *weights, const OrtrainOperand *bias)
{
  conv->source_dtype = source->dtype;
  conv->dest_dtype = dest->dtype;
  conv->weights_dtype = weights->dtype;
  conv->bias_dtype = bias != NULL ? bias->dtype : ORTRAIN_DTYPE_UNDEFINED;
  conv->is_mixed = ortrain_dtype_is_half (conv->source_dtype) || ortrain_dtype_is_half (conv->dest_dtype) ||
                   ortrain_dtype_is_half (conv->weights_dtype) || ortrain_dtype_is_half (conv->bias_dtype);
}

void
ortrain_conv_plan_wide (OrtrainConv *conv, gint64 row_elements, gint64 bias_elements)
{
  gint64 most = 0, images = 1, shift = 0;
  for (guint p = 0; p < conv->n_phases; p++)
    {
      const OrtrainConvPhase *phase = &conv->phases[p];
      const gint64 rows = phase->grid[0] * phase->grid[1], n = phase->many_images ? 1 : phase->row_blocks;
      for (gint64 i = 0; i < n && rows > 0; i++)
        {
          const gint64 row0 = rows * i / n;
          gint64 first, count;
          ortrain_conv_find_span (conv, phase, row0, rows * (i + 1) / n - row0, &first, &count);
          most = MAX (most, count);
        }
      images = MAX (images, phase->images_per_block);
      for (guint t = 0; t < phase->n_taps; t++)
        {
          const gint32 *offset = phase->taps[t].offset;
          shift = MAX (shift, ABS ((offset[0] * conv->source[1] + offset[1]) * conv->source[2] + offset[2]));
        }
    }
  /* A tap that would read further is gathered row by row. */
  conv->span_margin = (MIN (shift, 4096) + 47) & ~(gint64) 15;
  conv->span_stride = (most + 15) & ~(gint64) 15;
  conv->span_bytes = (gsize) (2 * conv->span_margin + images * conv->span_stride) * sizeof (float);
  conv->row_bytes = ((gsize) row_elements * sizeof (float) + 63) & ~(gsize) 63;
  conv->thread_bytes +=
      conv->span_bytes + conv->row_bytes + (((gsize) bias_elements * sizeof (float) + 63) & ~(gsize) 63);
}

/* A channel of one image of both sides, and its weights or their sums. */
void
ortrain_conv_plan_wide_planes (OrtrainConv *conv, gboolean weights)
{
  const gsize planes = (gsize) (conv->source_plane + conv->dest_plane) * sizeof (float);
  const gsize of_taps = (gsize) conv->n_taps * (weights ? 64 + sizeof (double) : sizeof (float));
  conv->thread_bytes = (planes + of_taps + 63) & ~(gsize) 63;
}

void
ortrain_conv_find_span (const OrtrainConv *conv, const OrtrainConvPhase *phase, gint64 row0, gint64 n_rows,
                        gint64 *first, gint64 *n)
{
  gint64 low[2], high[2];
  const gint64 rows[2][2] = { { row0 / phase->grid[1], (row0 + n_rows - 1) / phase->grid[1] },
                              { row0 % phase->grid[1], (row0 + n_rows - 1) % phase->grid[1] } };
  for (guint i = 0; i < 2; i++)
    {
      gint64 least = 0, most = 0;
      for (guint t = 0; t < phase->n_taps; t++)
        {
          least = t == 0 ? phase->taps[t].offset[i] : MIN (least, phase->taps[t].offset[i]);
          most = t == 0 ? phase->taps[t].offset[i] : MAX (most, phase->taps[t].offset[i]);
        }
      low[i] = CLAMP (rows[i][0] * conv->step[i] + least, 0, conv->source[i]);
      high[i] = CLAMP (rows[i][1] * conv->step[i] + most + 1, low[i], conv->source[i]);
    }
  if (rows[0][0] != rows[0][1] || high[0] - low[0] > 1)
    {
      low[1] = 0;
      high[1] = conv->source[1];
    }
  *first = (low[0] * conv->source[1] + low[1]) * conv->source[2];
  *n = high[0] > low[0] ? ((high[0] - 1) * conv->source[1] + high[1]) * conv->source[2] - *first : 0;
  *n = MAX (*n, 0);
}

void
ortrain_conv_set_matrix_dtypes (OrtrainConv *conv, OrtrainConvProduct product)
{
  OrtrainCpuGemm *matrix = &conv->matrix;
  const gboolean of_weights = product == ORTRAIN_CONV_GRAD_WEIGHTS;
  if (!conv->is_mixed)
    return;
  matrix->a_dtype = of_weights ? conv->dest_dtype : conv->source_dtype;
  matrix->b_dtype = of_weights ? conv->source_dtype : conv->weights_dtype;
  matrix->c_dtype = of_weights ? conv->weights_dtype : conv->dest_dtype;
  matrix->bias_dtype = conv->bias_dtype;
}

void
ortrain_conv_set_problem_dtypes (const OrtrainConv *conv, OrtrainConvProblem *problem)
{
  const gboolean of_weights = problem->product == ORTRAIN_CONV_GRAD_WEIGHTS;
  const gboolean source_is_large = problem->product != ORTRAIN_CONV_GRAD_INPUT;
  problem->large_dtype = source_is_large ? conv->source_dtype : conv->dest_dtype;
  problem->small_dtype = source_is_large ? conv->dest_dtype : conv->source_dtype;
  problem->weights_dtype = conv->weights_dtype;
  problem->pairs = conv->source_dtype == ORTRAIN_DTYPE_BFLOAT16 &&
                   (of_weights ? conv->dest_dtype : conv->weights_dtype) == ORTRAIN_DTYPE_BFLOAT16 &&
                   ortrain_cpu_has_bf16 ();
}
