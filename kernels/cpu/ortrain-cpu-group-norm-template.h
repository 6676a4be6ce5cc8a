/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-group-norm.c, with REAL and R(name) defined. No include guard. */
#include "ortrain-cpu-row-statistics.h"

/* The widened operands of a worker. */
typedef struct
{
  OrtrainRowsBuffer x, dy, y;
} R (Buffers);

static inline void
R (buffers_init) (R (Buffers) * self)
{
  ortrain_rows_buffer_init (&self->x);
  ortrain_rows_buffer_init (&self->dy);
}

/* The statistics of row r: read from operands, or computed. */
static inline void
R (get_statistics) (const GroupRun *run, gint64 r, R (Buffers) * buffers, REAL *mean, REAL *inverse)
{
  const GroupPlan *plan = run->plan;
  if (run->inverse.data)
    {
      *mean = R (ortrain_rows_get) (&run->mean, r * plan->per_group);
      *inverse = R (ortrain_rows_get) (&run->inverse, r * plan->per_group);
      return;
    }
  R (ortrain_row_statistics)
  (&run->x, r * plan->n, plan->n, plan->step, TRUE, plan->epsilon, &buffers->x, mean, inverse);
}

/* y = (x - mean)·(scale/deviation) + bias, or statistics. y may be x. */
static void
R (group_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GroupRun *run = data;
  const GroupPlan *plan = run->plan;
  R (Buffers) buffers;
  R (buffers_init) (&buffers);
  for (gint64 r = begin; r < end; r++)
    {
      const gint64 at = r * plan->n, first = r % plan->groups * plan->per_group;
      REAL mean, inverse;
      R (get_statistics) (run, r, &buffers, &mean, &inverse);
      for (gint64 k = 0, c = r * plan->per_group; !run->y.data && k < plan->per_group; k++, c++)
        {
          if (run->mean_out.data)
            R (ortrain_rows_put) (&run->mean_out, c, mean, FALSE);
          if (run->inverse_out.data)
            R (ortrain_rows_put) (&run->inverse_out, c, inverse, FALSE);
          if (run->factor_out.data)
            R (ortrain_rows_put) (&run->factor_out, c, inverse * R (ortrain_rows_get) (&run->scale, first + k), FALSE);
        }
      for (gint64 i = 0; run->y.data && i < plan->n; i += plan->step)
        {
          const gint64 size = MIN (plan->step, plan->n - i);
          const REAL *x = R (ortrain_rows_read) (&run->x, at + i, size, &buffers.x);
          REAL *y = R (ortrain_rows_target) (&run->y, at + i, &buffers.y);
          for (gint64 j = 0; j < size;) /* a channel, or as much of it as the piece has */
            {
              const gint64 k = (i + j) / plan->inner, last = MIN (size, (k + 1) * plan->inner - i);
              REAL a = inverse * R (ortrain_rows_get) (&run->scale, first + k);
              REAL b = R (ortrain_rows_get) (&run->bias, first + k);
              ORTRAIN_INDEPENDENT
              for (gint64 l = j; l < last; l++)
                y[l] = (x[l] - mean) * a + b;
              j = last;
            }
          R (ortrain_rows_store) (&run->y, at + i, size, &buffers.y);
        }
    }
}

/* parts [per_group, 2] of one row: Σ dy, Σ dy·x̂ */
static inline void
R (group_sums) (const GroupRun *run, gint64 at, REAL mean, REAL inverse, double *parts, R (Buffers) * buffers)
{
  const GroupPlan *plan = run->plan;
  for (gint64 k = 0; k < 2 * plan->per_group; k++)
    parts[k] = 0;
  for (gint64 i = 0; i < plan->n; i += plan->step)
    {
      const gint64 size = MIN (plan->step, plan->n - i);
      const REAL *x = R (ortrain_rows_read) (&run->x, at + i, size, &buffers->x);
      const REAL *dy = R (ortrain_rows_read) (&run->dy, at + i, size, &buffers->dy);
      for (gint64 j = 0; j < size;)
        {
          const gint64 k = (i + j) / plan->inner, last = MIN (size, (k + 1) * plan->inner - i);
          parts[2 * k] += R (ortrain_lane_sum) (dy + j, last - j, 0);
          parts[2 * k + 1] += R (ortrain_lane_dot) (x + j, dy + j, last - j, mean);
          j = last;
        }
    }
  for (gint64 k = 0; k < plan->per_group; k++)
    parts[2 * k + 1] *= inverse;
}

/* dx may be dy. parts [batch, C, 2] */
static void
R (group_grad_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GroupRun *run = data;
  const GroupPlan *plan = run->plan;
  R (Buffers) buffers;
  R (buffers_init) (&buffers);
  for (gint64 r = begin; r < end; r++)
    {
      const gint64 at = r * plan->n, first = r % plan->groups * plan->per_group;
      double *parts = run->parts + 2 * r * plan->per_group, sum = 0, dot = 0;
      REAL mean, inverse;
      R (get_statistics) (run, r, &buffers, &mean, &inverse);
      R (group_sums) (run, at, mean, inverse, parts, &buffers);
      for (gint64 k = 0; k < plan->per_group; k++)
        {
          const REAL scale = R (ortrain_rows_get) (&run->scale, first + k);
          sum += parts[2 * k] * scale;
          dot += parts[2 * k + 1] * scale;
        }
      REAL k1 = (REAL) (sum / (double) plan->n), k2 = (REAL) (dot * inverse / (double) plan->n);
      for (gint64 i = 0; run->y.data && i < plan->n; i += plan->step)
        {
          const gint64 size = MIN (plan->step, plan->n - i);
          const REAL *x = R (ortrain_rows_read) (&run->x, at + i, size, &buffers.x);
          const REAL *dy = R (ortrain_rows_read) (&run->dy, at + i, size, &buffers.dy);
          REAL *dx = R (ortrain_rows_target) (&run->y, at + i, &buffers.y);
          for (gint64 j = 0; j < size;)
            {
              const gint64 k = (i + j) / plan->inner, last = MIN (size, (k + 1) * plan->inner - i);
              REAL a = R (ortrain_rows_get) (&run->scale, first + k);
              ORTRAIN_INDEPENDENT
              for (gint64 l = j; l < last; l++)
                dx[l] = inverse * (dy[l] * a - k1 - (x[l] - mean) * k2);
              j = last;
            }
          R (ortrain_rows_store) (&run->y, at + i, size, &buffers.y);
        }
    }
}

static void
R (group_grad_finish) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GroupRun *run = data;
  const GroupPlan *plan = run->plan;
  gint64 channels = plan->groups * plan->per_group;
  for (gint64 c = begin; c < end; c++)
    {
      double sum = 0, dot = 0;
      for (gint64 b = 0; b < plan->rows / plan->groups; b++)
        {
          sum += run->parts[2 * (b * channels + c)];
          dot += run->parts[2 * (b * channels + c) + 1];
        }
      if (run->dscale.data)
        R (ortrain_rows_put) (&run->dscale, c, dot, run->accumulate >> 1 & 1);
      if (run->dbias.data)
        R (ortrain_rows_put) (&run->dbias, c, sum, run->accumulate >> 2 & 1);
    }
}
