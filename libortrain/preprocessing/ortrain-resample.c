/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "preprocessing/ortrain-resample-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"

#include <math.h>

/* The source of each new pixel of an axis: `n` neighbours from `first` on, with weights whose sum is 1. */
typedef struct
{
  gint64 *first;
  gint64 *n;
  float *weights; /* n_most for each new pixel */
  gint64 n_most;
} Axis;

static void
axis_clear (Axis *self)
{
  g_free (self->first);
  g_free (self->n);
  g_free (self->weights);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Axis, axis_clear)

static gboolean
axis_init (Axis *self, gint64 n_old, gint64 n_new)
{
  const double scale = (double) n_old / (double) n_new, reach = MAX (scale, 1.0);
  gsize n_weights;
  self->n_most = (gint64) ceil (reach) * 2 + 1;
  if (!ortrain_checked_mul ((gsize) n_new, (gsize) self->n_most, &n_weights))
    return FALSE;
  self->first = g_try_new (gint64, n_new);
  self->n = g_try_new (gint64, n_new);
  self->weights = g_try_new (float, n_weights);
  if (self->first == NULL || self->n == NULL || self->weights == NULL)
    return FALSE;
  for (gint64 i = 0; i < n_new; i++)
    {
      const double centre = scale * ((double) i + 0.5);
      const gint64 first = MAX ((gint64) (centre - reach + 0.5), 0);
      const gint64 n = MIN ((gint64) (centre + reach + 0.5), n_old) - first;
      float *weights = self->weights + i * self->n_most;
      double sum = 0;
      for (gint64 j = 0; j < n; j++)
        sum += fmax (1 - fabs ((double) (first + j) + 0.5 - centre) / reach, 0);
      for (gint64 j = 0; j < n; j++)
        weights[j] = (float) (fmax (1 - fabs ((double) (first + j) + 0.5 - centre) / reach, 0) / sum);
      self->first[i] = first;
      self->n[i] = n;
    }
  return TRUE;
}

/* rows: [n_rows, width] → [n_rows, new_width] */
static void
resample_columns (const Axis *axis, const float *from, gint64 n_rows, gint64 width, float *to, gint64 new_width)
{
  for (gint64 row = 0; row < n_rows; row++, from += width, to += new_width)
    for (gint64 x = 0; x < new_width; x++)
      {
        const float *weights = axis->weights + x * axis->n_most, *pixels = from + axis->first[x];
        float sum = 0;
        for (gint64 j = 0; j < axis->n[x]; j++)
          sum += weights[j] * pixels[j];
        to[x] = sum;
      }
}

/* [height, width] → [new_height, width] */
static void
resample_rows (const Axis *axis, const float *from, gint64 width, float *to, gint64 new_height)
{
  for (gint64 y = 0; y < new_height; y++, to += width)
    {
      const float *weights = axis->weights + y * axis->n_most, *pixels = from + axis->first[y] * width;
      for (gint64 x = 0; x < width; x++)
        to[x] = weights[0] * pixels[x];
      for (gint64 j = 1; j < axis->n[y]; j++)
        for (gint64 x = 0; x < width; x++)
          to[x] += weights[j] * pixels[j * width + x];
    }
}

gboolean
ortrain_resample (const float *from, gint64 channels, gint64 height, gint64 width, float *to, gint64 new_height,
                  gint64 new_width, GError **error)
{
  g_auto (Axis) columns = { NULL }, rows = { NULL };
  g_autofree float *between = NULL; /* [height, new_width] */
  gsize n_between;
  const gboolean fits = ortrain_checked_mul ((gsize) height, (gsize) new_width, &n_between);
  if (fits)
    between = g_try_new (float, n_between);
  if (between == NULL || !axis_init (&columns, width, new_width) || !axis_init (&rows, height, new_height))
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                   "Cannot allocate memory to resize a picture of %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT
                   " to %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " (width x height)",
                   width, height, new_width, new_height);
      return FALSE;
    }
  for (gint64 c = 0; c < channels; c++)
    {
      resample_columns (&columns, from + c * height * width, height, width, between, new_width);
      resample_rows (&rows, between, new_width, to + c * new_height * new_width, new_height);
    }
  return TRUE;
}
