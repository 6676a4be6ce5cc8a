/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-normalization.c, with REAL and R(name) defined. No include guard. */
#include "ortrain-cpu-row-statistics.h"

/* The widened operands of a worker. */
typedef struct
{
  OrtrainRowsBuffer x, dy, scale, bias, y;
} R (Buffers);

static inline void
R (buffers_init) (R (Buffers) * self)
{
  ortrain_rows_buffer_init (&self->x);
  ortrain_rows_buffer_init (&self->dy);
  ortrain_rows_buffer_init (&self->scale);
  ortrain_rows_buffer_init (&self->bias);
}

static inline void
R (row_statistics) (const NormRun *run, gint64 at, R (Buffers) * buffers, REAL *mean, REAL *inverse)
{
  const NormPlan *plan = run->plan;
  R (ortrain_row_statistics)
  (&run->x, at, plan->n, plan->step, plan->centred, plan->epsilon, &buffers->x, mean, inverse);
}

/* ---- Over the last axes: x [rows, n]. y may be x. ---- */
static void
R (layer_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  R (Buffers) buffers;
  R (buffers_init) (&buffers);
  for (gint64 r = begin; r < end; r++)
    {
      const gint64 at = r * plan->n;
      REAL mean, inverse;
      R (row_statistics) (run, at, &buffers, &mean, &inverse);
      if (run->mean_out.data)
        R (ortrain_rows_put) (&run->mean_out, r, mean, FALSE);
      if (run->inverse_out.data)
        R (ortrain_rows_put) (&run->inverse_out, r, inverse, FALSE);
      for (gint64 i = 0; i < plan->n; i += plan->step)
        {
          const gint64 size = MIN (plan->step, plan->n - i);
          const REAL *x = R (ortrain_rows_read) (&run->x, at + i, size, &buffers.x);
          const REAL *scale = R (ortrain_rows_read) (&run->scale, i, size, &buffers.scale);
          REAL *y = R (ortrain_rows_target) (&run->y, at + i, &buffers.y);
          if (run->bias.data)
            {
              const REAL *bias = R (ortrain_rows_read) (&run->bias, i, size, &buffers.bias);
              ORTRAIN_INDEPENDENT
              for (gint64 j = 0; j < size; j++)
                y[j] = (x[j] - mean) * inverse * scale[j] + bias[j];
            }
          else
            ORTRAIN_INDEPENDENT
          for (gint64 j = 0; j < size; j++)
            y[j] = (x[j] - mean) * inverse * scale[j];
          R (ortrain_rows_store) (&run->y, at + i, size, &buffers.y);
        }
    }
}

/* Adds Σ dy·g and Σ dy·g·(x - mean) of one row, or of a piece of it. */
static inline void
R (row_dots) (const REAL *dy, const REAL *x, const REAL *scale, REAL mean, gint64 n, double *sum, double *dot)
{
  gint64 i = 0;
  double total_a = 0, total_b = 0;
  while (n - i >= ORTRAIN_LANES)
    {
      R (OrtrainLanes) a = { 0 }, b = { 0 };
      const gint64 end = MIN (n, i + ORTRAIN_LANE_BLOCK);
      for (; i + ORTRAIN_LANES <= end; i += ORTRAIN_LANES)
        ORTRAIN_EACH_LANE
      for (int k = 0; k < ORTRAIN_N_LANE_VECTORS (a); k++)
        {
          const gint64 at = i + k * ORTRAIN_LANES / ORTRAIN_N_LANE_VECTORS (a);
          const R (OrtrainLane) t = *(const R (OrtrainLane) *) (dy + at) * *(const R (OrtrainLane) *) (scale + at);
          a.v[k] += t;
          b.v[k] += t * (*(const R (OrtrainLane) *) (x + at) - mean);
        }
      total_a += R (ortrain_lanes_join) (a);
      total_b += R (ortrain_lanes_join) (b);
    }
  for (; i < n; i++)
    {
      double t = dy[i] * scale[i];
      total_a += t;
      total_b += t * (x[i] - mean);
    }
  *sum += total_a;
  *dot += total_b;
}

/* One row: dx, and its terms of part [2, n], the parameters' gradients (NULL: none). dx may be dy. */
static inline void
R (layer_grad_row) (const NormRun *run, gint64 r, REAL *part, R (Buffers) * buffers)
{
  const NormPlan *plan = run->plan;
  const gint64 n = plan->n, at = r * n;
  REAL mean = 0, inverse, k1 = 0, k2 = 0;
  if (run->inverse.data)
    {
      mean = run->mean.data ? R (ortrain_rows_get) (&run->mean, r) : 0;
      inverse = R (ortrain_rows_get) (&run->inverse, r);
    }
  else
    R (row_statistics) (run, at, buffers, &mean, &inverse);
  if (run->y.data)
    {
      double sum = 0, dot = 0;
      for (gint64 i = 0; i < n; i += plan->step)
        {
          const gint64 size = MIN (plan->step, n - i);
          const REAL *x = R (ortrain_rows_read) (&run->x, at + i, size, &buffers->x);
          const REAL *dy = R (ortrain_rows_read) (&run->dy, at + i, size, &buffers->dy);
          R (row_dots) (dy, x, R (ortrain_rows_read) (&run->scale, i, size, &buffers->scale), mean, size, &sum, &dot);
        }
      k1 = plan->centred ? (REAL) (sum / (double) n) : 0;
      k2 = (REAL) (dot * inverse * inverse / (double) n);
    }
  for (gint64 i = 0; i < n; i += plan->step)
    {
      const gint64 size = MIN (plan->step, n - i);
      const REAL *x = R (ortrain_rows_read) (&run->x, at + i, size, &buffers->x);
      const REAL *dy = R (ortrain_rows_read) (&run->dy, at + i, size, &buffers->dy);
      if (part)
        {
          REAL *part_scale = part + i, *part_bias = part + n + i;
          ORTRAIN_INDEPENDENT
          for (gint64 j = 0; j < size; j++)
            {
              part_scale[j] += dy[j] * ((x[j] - mean) * inverse);
              part_bias[j] += dy[j];
            }
        }
      if (run->y.data)
        {
          const REAL *scale = R (ortrain_rows_read) (&run->scale, i, size, &buffers->scale);
          REAL *dx = R (ortrain_rows_target) (&run->y, at + i, &buffers->y);
          ORTRAIN_INDEPENDENT
          for (gint64 j = 0; j < size; j++)
            dx[j] = inverse * (dy[j] * scale[j] - k1 - (x[j] - mean) * k2);
          R (ortrain_rows_store) (&run->y, at + i, size, &buffers->y);
        }
    }
}

/* Chunks of rows, and the share of each in the parameters' gradients. */
static void
R (layer_grad_chunk) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  gint64 n = plan->n;
  gboolean params = run->dscale.data || run->dbias.data;
  R (Buffers) buffers;
  R (buffers_init) (&buffers);
  for (gint64 chunk = begin; chunk < end; chunk++)
    {
      gint64 first = chunk * plan->rows_per_chunk, last = MIN (plan->rows, first + plan->rows_per_chunk);
      double *sums = run->parts + 2 * chunk * n; /* of the scale, then of the bias */
      REAL *part = (REAL *) run->table + 2 * chunk * n;
      if (params)
        for (gint64 j = 0; j < 2 * n; j++)
          {
            part[j] = 0;
            sums[j] = 0;
          }
      for (gint64 r = first; r < last; r++)
        {
          R (layer_grad_row) (run, r, params ? part : NULL, &buffers);
          if (params && ((r - first) % 32 == 31 || r + 1 == last))
            for (gint64 j = 0; j < 2 * n; j++)
              {
                sums[j] += part[j];
                part[j] = 0;
              }
        }
    }
}

static void
R (layer_grad_finish) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  for (gint64 j = begin; j < end; j++)
    {
      double scale = 0, bias = 0;
      for (gint64 chunk = 0; chunk < plan->chunks; chunk++)
        {
          scale += run->parts[2 * chunk * plan->n + j];
          bias += run->parts[(2 * chunk + 1) * plan->n + j];
        }
      if (run->dscale.data)
        R (ortrain_rows_put) (&run->dscale, j, scale, run->accumulate >> 1 & 1);
      if (run->dbias.data)
        R (ortrain_rows_put) (&run->dbias, j, bias, run->accumulate >> 2 & 1);
    }
}

/* ---- LRN: y = x · s^-β, s = bias + α/size · Σ x² over the window of channels around. One plane of `inner` per unit.
 * ---- */
static inline double
R (lrn_scale) (const NormRun *run, gint64 at, gint64 c)
{
  const NormPlan *plan = run->plan;
  gint64 first = MAX (0, c - (plan->size - 1) / 2), last = MIN (plan->channels - 1, c + plan->size / 2);
  double sum = 0;
  for (gint64 k = first; k <= last; k++)
    {
      double x = R (ortrain_rows_get) (&run->x, at + k * plan->inner);
      sum += x * x;
    }
  return plan->bias + plan->alpha / (double) plan->size * sum;
}

static void
R (lrn_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 at = u / plan->inner * plan->channels * plan->inner + u % plan->inner;
      for (gint64 c = 0; c < plan->channels; c++)
        {
          double x = R (ortrain_rows_get) (&run->x, at + c * plan->inner);
          double y = x * pow (R (lrn_scale) (run, at, c), -plan->beta);
          R (ortrain_rows_put) (&run->y, at + c * plan->inner, y, FALSE);
        }
    }
}

/* dx_i = dy_i·s_i^-β - 2αβ/size · x_i · Σ_{j whose window holds i} dy_j·x_j·s_j^(-β-1) */
static void
R (lrn_grad_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  gint64 before = (plan->size - 1) / 2, after = plan->size / 2;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 at = u / plan->inner * plan->channels * plan->inner + u % plan->inner;
      double *scales = run->parts + (gint64) worker * 2 * plan->channels, *terms = scales + plan->channels;
      for (gint64 c = 0; c < plan->channels; c++)
        {
          double x = R (ortrain_rows_get) (&run->x, at + c * plan->inner);
          double dy = R (ortrain_rows_get) (&run->dy, at + c * plan->inner);
          scales[c] = R (lrn_scale) (run, at, c);
          terms[c] = dy * x * pow (scales[c], -plan->beta - 1);
        }
      for (gint64 c = 0; c < plan->channels; c++)
        {
          double x = R (ortrain_rows_get) (&run->x, at + c * plan->inner);
          double dy = R (ortrain_rows_get) (&run->dy, at + c * plan->inner);
          double sum = 0;
          for (gint64 k = MAX (0, c - after); k <= MIN (plan->channels - 1, c + before); k++)
            sum += terms[k];
          double dx = dy * pow (scales[c], -plan->beta) - 2 * plan->alpha * plan->beta / (double) plan->size * x * sum;
          R (ortrain_rows_put) (&run->y, at + c * plan->inner, dx, FALSE);
        }
    }
}
