/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <math.h>
#include <string.h>

#include "common/ortrain-operands.h"
#include "core/ortrain-function-private.h"

/* GridSample: the elements of the input that a point of the grid reads along each axis. For every device. */

#define ORTRAIN_GRID_SAMPLE_MAX_AXES 3

typedef enum
{
  ORTRAIN_GRID_SAMPLE_NEAREST,
  ORTRAIN_GRID_SAMPLE_LINEAR,
  ORTRAIN_GRID_SAMPLE_CUBIC,
} OrtrainGridSampleMode;

typedef enum
{
  ORTRAIN_GRID_SAMPLE_ZEROS,
  ORTRAIN_GRID_SAMPLE_BORDER,
  ORTRAIN_GRID_SAMPLE_REFLECTION,
} OrtrainGridSamplePadding;

/* x: [batch, channels, dims…], grid: [batch, points…, r], y: [batch, channels, points…] */
typedef struct
{
  OrtrainGridSampleMode mode;
  OrtrainGridSamplePadding padding;
  gboolean align_corners;
  guint r;                             /* spatial axes */
  gint64 batch, channels, n_in, n_out; /* n_in, n_out: elements of one plane, points of one image */
  gint64 dims[ORTRAIN_GRID_SAMPLE_MAX_AXES], strides[ORTRAIN_GRID_SAMPLE_MAX_AXES];
} OrtrainGridSample;

/* Along one axis: up to four elements with weights, and the derivatives of the weights by the coordinate of the grid.
 */
typedef struct
{
  gint64 at[4]; /* -1: outside, reads as zero */
  double weight[4], slope[4];
} OrtrainGridSampleTaps;

/* From attributes and operands: why they do not fit together, or NULL. */
static inline const char *
ortrain_grid_sample_init (OrtrainGridSample *self, const char *mode, const char *padding, gboolean align_corners,
                          const OrtrainOperand *x, const OrtrainOperand *grid)
{
  if (x->rank < 3 || x->rank > 2 + ORTRAIN_GRID_SAMPLE_MAX_AXES || grid->rank != x->rank ||
      grid->dims[x->rank - 1] != x->rank - 2 || grid->dims[0] != x->dims[0])
    return "input and grid do not fit together";
  self->mode = g_str_equal (mode, "nearest") ? ORTRAIN_GRID_SAMPLE_NEAREST
               : g_str_equal (mode, "cubic") ? ORTRAIN_GRID_SAMPLE_CUBIC
                                             : ORTRAIN_GRID_SAMPLE_LINEAR;
  self->padding = g_str_equal (padding, "border")       ? ORTRAIN_GRID_SAMPLE_BORDER
                  : g_str_equal (padding, "reflection") ? ORTRAIN_GRID_SAMPLE_REFLECTION
                                                        : ORTRAIN_GRID_SAMPLE_ZEROS;
  self->align_corners = align_corners;
  self->r = x->rank - 2;
  self->batch = x->dims[0];
  self->channels = x->dims[1];
  self->n_in = ortrain_kernel_product (x->dims, 2, x->rank);
  self->n_out = ortrain_kernel_product (grid->dims, 1, grid->rank - 1);
  ortrain_copy_strides (self->r, x->dims + 2, self->strides);
  memcpy (self->dims, x->dims + 2, sizeof (gint64) * self->r);
  return self->n_in == 0 && self->n_out > 0 ? "there is nothing to sample" : NULL;
}

/* How many elements a point reads along an axis. */
ORTRAIN_FUNCTION guint
ortrain_grid_sample_get_n_taps (OrtrainGridSampleMode mode)
{
  return mode == ORTRAIN_GRID_SAMPLE_NEAREST ? 1 : mode == ORTRAIN_GRID_SAMPLE_LINEAR ? 2 : 4;
}

/* Back between low and high from outside, as between mirrors; *sign: of the derivative. */
ORTRAIN_FUNCTION double
ortrain_grid_sample_reflect (double x, double low, double high, double *sign)
{
  const double range = high - low;
  *sign = 1;
  if (range <= 0)
    {
      *sign = 0;
      return low;
    }
  if (x >= low && x <= high)
    return x;
  const gboolean below = x < low;
  const double distance = below ? low - x : x - high;
  const double turns = floor (distance / range), rest = distance - turns * range;
  /* an even number of turns leads back from the mirror that was passed, an odd one from the other */
  const gboolean even = floor (turns / 2) * 2 == turns;
  *sign = even ? -1 : 1;
  return even == below ? low + rest : high - rest;
}

/* The element at i of an axis of n. */
ORTRAIN_FUNCTION gint64
ortrain_grid_sample_place (const OrtrainGridSample *self, gint64 i, gint64 n)
{
  if (i >= 0 && i < n)
    return i;
  if (self->padding == ORTRAIN_GRID_SAMPLE_ZEROS)
    return -1;
  if (self->padding == ORTRAIN_GRID_SAMPLE_REFLECTION)
    {
      const double low = self->align_corners ? 0 : -0.5;
      double sign;
      i = (gint64) ortrain_grid_sample_reflect ((double) i, low, (double) n - 1 - low, &sign);
    }
  return CLAMP (i, 0, n - 1);
}

/* coordinate: from -1 to 1 along an axis of n elements. In double, also for narrower types: an element's neighbour must
 * not be read because of a rounding. */
ORTRAIN_FUNCTION void
ortrain_grid_sample_find_taps (const OrtrainGridSample *self, double coordinate, gint64 n, OrtrainGridSampleTaps *taps)
{
  const double a = -0.75, size = (double) n, low = self->align_corners ? 0 : -0.5, high = size - 1 - low;
  double scale = self->align_corners ? (size - 1) / 2 : size / 2, sign = 1;
  double x = self->align_corners ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
  /* a coordinate far out, or none at all, must not overflow the index */
  if (!(fabs (x) < 1e9))
    {
      x = x != x ? -1e9 : CLAMP (x, -1e9, 1e9);
      scale = 0;
    }
  if (self->mode == ORTRAIN_GRID_SAMPLE_NEAREST)
    x = rint (x);
  /* cubic: the elements are looked for outside one by one, as PyTorch and ONNX Runtime do */
  if (self->mode != ORTRAIN_GRID_SAMPLE_CUBIC && (x < low || x > high))
    {
      if (self->padding == ORTRAIN_GRID_SAMPLE_BORDER)
        {
          x = CLAMP (x, 0, size - 1);
          scale = 0;
        }
      else if (self->padding == ORTRAIN_GRID_SAMPLE_REFLECTION)
        x = ortrain_grid_sample_reflect (x, low, high, &sign);
    }
  scale *= sign;
  const double base = floor (x), t = x - base;
  const gint64 i = (gint64) base;
  if (self->mode == ORTRAIN_GRID_SAMPLE_NEAREST)
    {
      taps->at[0] = ortrain_grid_sample_place (self, (gint64) rint (x), n);
      taps->weight[0] = 1;
      taps->slope[0] = 0;
    }
  else if (self->mode == ORTRAIN_GRID_SAMPLE_LINEAR)
    for (int k = 0; k < 2; k++)
      {
        taps->at[k] = ortrain_grid_sample_place (self, i + k, n);
        taps->weight[k] = k == 0 ? 1 - t : t;
        taps->slope[k] = k == 0 ? -scale : scale;
      }
  else
    for (int k = 0; k < 4; k++)
      {
        const double d = t - (k - 1), m = fabs (d), s = d < 0 ? -1 : 1;
        taps->at[k] = ortrain_grid_sample_place (self, i + k - 1, n);
        if (m <= 1)
          {
            taps->weight[k] = ((a + 2) * m - (a + 3)) * m * m + 1;
            taps->slope[k] = s * scale * (3 * (a + 2) * m - 2 * (a + 3)) * m;
          }
        else
          {
            taps->weight[k] = ((a * m - 5 * a) * m + 8 * a) * m - 4 * a;
            taps->slope[k] = s * scale * ((3 * a * m - 10 * a) * m + 8 * a);
          }
      }
}
