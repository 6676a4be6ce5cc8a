/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-normalization.c, with REAL and R(name) defined. No include guard. */

/* Mean and 1/deviation of one row; mean 0 for the root mean square form. */
static inline void
R (row_statistics) (const NormPlan *plan, const REAL *x, gint64 n, REAL *mean, REAL *inverse)
{
  double m = plan->centred ? R (ortrain_lane_sum) (x, n, 0) / (double) n : 0;
  double square = R (ortrain_lane_sum_square) (x, n, (REAL) m) / (double) n, off = m - (REAL) m;
  *mean = (REAL) m;
  *inverse = (REAL) (1 / sqrt (square - off * off + plan->epsilon));
}

/* ---- Over the last axes: x [rows, n]. y may be x. ---- */
static void
R (layer_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *scale = run->scale, *bias = run->bias;
  for (gint64 r = begin; r < end; r++)
    {
      const REAL *x = (const REAL *) run->x + r * plan->n;
      REAL *y = (REAL *) run->y + r * plan->n, mean, inverse;
      R (row_statistics) (plan, x, plan->n, &mean, &inverse);
      if (run->mean_out)
        ((REAL *) run->mean_out)[r] = mean;
      if (run->inverse_out)
        ((REAL *) run->inverse_out)[r] = inverse;
      if (bias)
        ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < plan->n; j++)
        y[j] = (x[j] - mean) * inverse * scale[j] + bias[j];
      else ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < plan->n; j++)
        y[j] = (x[j] - mean) * inverse * scale[j];
    }
}

/* Σ dy·g and Σ dy·g·(x - mean) of one row */
static inline void
R (row_dots) (const REAL *dy, const REAL *x, const REAL *scale, REAL mean, gint64 n, double *sum, double *dot)
{
  gint64 i = 0;
  double total_a = 0, total_b = 0;
  while (n - i >= ORTRAIN_LANES)
    {
      REAL a[ORTRAIN_LANES] = { 0 }, b[ORTRAIN_LANES] = { 0 };
      gint64 end = MIN (n, i + ORTRAIN_LANE_BLOCK);
      for (; i + ORTRAIN_LANES <= end; i += ORTRAIN_LANES)
        for (int j = 0; j < ORTRAIN_LANES; j++)
          {
            REAL t = dy[i + j] * scale[i + j];
            a[j] += t;
            b[j] += t * (x[i + j] - mean);
          }
      total_a += R (ortrain_lane_sum) (a, ORTRAIN_LANES, 0);
      total_b += R (ortrain_lane_sum) (b, ORTRAIN_LANES, 0);
    }
  for (; i < n; i++)
    {
      double t = dy[i] * scale[i];
      total_a += t;
      total_b += t * (x[i] - mean);
    }
  *sum = total_a;
  *dot = total_b;
}

/* One chunk of rows: dx, and the chunk's share of the parameters' gradients. dx may be dy. */
static void
R (layer_grad_chunk) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *scale = run->scale;
  gint64 n = plan->n;
  gboolean params = run->dscale || run->dbias;
  for (gint64 chunk = begin; chunk < end; chunk++)
    {
      gint64 first = chunk * plan->rows_per_chunk, last = MIN (plan->rows, first + plan->rows_per_chunk);
      double *sums = run->parts + 2 * chunk * n; /* of the scale, then of the bias */
      REAL *part_scale = (REAL *) run->table + 2 * chunk * n, *part_bias = part_scale + n;
      if (params)
        for (gint64 j = 0; j < 2 * n; j++)
          {
            part_scale[j] = 0;
            sums[j] = 0;
          }
      for (gint64 r = first; r < last; r++)
        {
          const REAL *x = (const REAL *) run->x + r * n, *dy = (const REAL *) run->dy + r * n;
          REAL mean = 0, inverse;
          if (run->inverse)
            {
              mean = run->mean ? ((const REAL *) run->mean)[r] : 0;
              inverse = ((const REAL *) run->inverse)[r];
            }
          else
            R (row_statistics) (plan, x, n, &mean, &inverse);
          REAL k1 = 0, k2 = 0;
          if (run->y)
            {
              double sum, dot;
              R (row_dots) (dy, x, scale, mean, n, &sum, &dot);
              k1 = plan->centred ? (REAL) (sum / (double) n) : 0;
              k2 = (REAL) (dot * inverse * inverse / (double) n);
            }
          if (params)
            {
              ORTRAIN_INDEPENDENT
              for (gint64 j = 0; j < n; j++)
                {
                  part_scale[j] += dy[j] * ((x[j] - mean) * inverse);
                  part_bias[j] += dy[j];
                }
              if ((r - first) % 32 == 31 || r + 1 == last)
                for (gint64 j = 0; j < 2 * n; j++)
                  {
                    sums[j] += part_scale[j];
                    part_scale[j] = 0;
                  }
            }
          if (run->y)
            {
              REAL *dx = (REAL *) run->y + r * n;
              ORTRAIN_INDEPENDENT
              for (gint64 j = 0; j < n; j++)
                dx[j] = inverse * (dy[j] * scale[j] - k1 - (x[j] - mean) * k2);
            }
        }
    }
}

/* The gradient of a parameter: output `k`, in its place or added to what is there. */
static inline void
R (put) (REAL *to, double value, guint64 accumulate, guint k)
{
  *to = (REAL) (accumulate >> k & 1 ? *to + value : value);
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
      if (run->dscale)
        R (put) ((REAL *) run->dscale + j, scale, run->accumulate, 1);
      if (run->dbias)
        R (put) ((REAL *) run->dbias + j, bias, run->accumulate, 2);
    }
}

/* ---- Over groups of channels: x [rows = batch · groups, n = per_group · inner] ---- */
static void
R (group_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *scale = run->scale, *bias = run->bias;
  for (gint64 r = begin; r < end; r++)
    {
      const REAL *x = (const REAL *) run->x + r * plan->n;
      REAL *y = (REAL *) run->y + r * plan->n, mean, inverse;
      gint64 c = r % plan->groups * plan->per_group;
      R (row_statistics) (plan, x, plan->n, &mean, &inverse);
      for (gint64 k = 0; k < plan->per_group; k++)
        {
          REAL a = inverse * scale[c + k], b = bias[c + k];
          ORTRAIN_INDEPENDENT
          for (gint64 j = k * plan->inner; j < (k + 1) * plan->inner; j++)
            y[j] = (x[j] - mean) * a + b;
        }
    }
}

/* dx may be dy. parts [batch, C, 2]: Σ dy, Σ dy·x̂ */
static void
R (group_grad_rows) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *scale = run->scale;
  gint64 inner = plan->inner;
  for (gint64 r = begin; r < end; r++)
    {
      const REAL *x = (const REAL *) run->x + r * plan->n, *dy = (const REAL *) run->dy + r * plan->n;
      REAL mean, inverse;
      gint64 c = r % plan->groups * plan->per_group;
      double *parts = run->parts + 2 * r * plan->per_group, sum = 0, dot = 0;
      R (row_statistics) (plan, x, plan->n, &mean, &inverse);
      for (gint64 k = 0; k < plan->per_group; k++)
        {
          parts[2 * k] = R (ortrain_lane_sum) (dy + k * inner, inner, 0);
          parts[2 * k + 1] = R (ortrain_lane_dot) (x + k * inner, dy + k * inner, inner, mean) * inverse;
          sum += parts[2 * k] * scale[c + k];
          dot += parts[2 * k + 1] * scale[c + k];
        }
      if (run->y == NULL)
        continue;
      REAL *dx = (REAL *) run->y + r * plan->n;
      REAL k1 = (REAL) (sum / (double) plan->n), k2 = (REAL) (dot * inverse / (double) plan->n);
      for (gint64 k = 0; k < plan->per_group; k++)
        {
          REAL a = scale[c + k];
          ORTRAIN_INDEPENDENT
          for (gint64 j = k * inner; j < (k + 1) * inner; j++)
            dx[j] = inverse * (dy[j] * a - k1 - (x[j] - mean) * k2);
        }
    }
}

static void
R (group_grad_finish) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  gint64 channels = plan->groups * plan->per_group;
  for (gint64 c = begin; c < end; c++)
    {
      double sum = 0, dot = 0;
      for (gint64 b = 0; b < plan->rows / plan->groups; b++)
        {
          sum += run->parts[2 * (b * channels + c)];
          dot += run->parts[2 * (b * channels + c) + 1];
        }
      if (run->dscale)
        R (put) ((REAL *) run->dscale + c, dot, run->accumulate, 1);
      if (run->dbias)
        R (put) ((REAL *) run->dbias + c, sum, run->accumulate, 2);
    }
}

/* ---- LRN: y = x · s^-β, s = bias + α/size · Σ x² over the window of channels around. One plane of `inner` per unit.
 * ---- */
static inline double
R (lrn_scale) (const NormPlan *plan, const REAL *x, gint64 c)
{
  gint64 first = MAX (0, c - (plan->size - 1) / 2), last = MIN (plan->channels - 1, c + plan->size / 2);
  double sum = 0;
  for (gint64 k = first; k <= last; k++)
    sum += (double) x[k * plan->inner] * x[k * plan->inner];
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
      const REAL *x = (const REAL *) run->x + at;
      REAL *y = (REAL *) run->y + at;
      for (gint64 c = 0; c < plan->channels; c++)
        y[c * plan->inner] = (REAL) (x[c * plan->inner] * pow (R (lrn_scale) (plan, x, c), -plan->beta));
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
      const REAL *x = (const REAL *) run->x + at, *dy = (const REAL *) run->dy + at;
      REAL *dx = (REAL *) run->y + at;
      double *scales = run->parts + (gint64) worker * 2 * plan->channels, *terms = scales + plan->channels;
      for (gint64 c = 0; c < plan->channels; c++)
        {
          scales[c] = R (lrn_scale) (plan, x, c);
          terms[c] = (double) dy[c * plan->inner] * x[c * plan->inner] * pow (scales[c], -plan->beta - 1);
        }
      for (gint64 c = 0; c < plan->channels; c++)
        {
          double sum = 0;
          for (gint64 k = MAX (0, c - after); k <= MIN (plan->channels - 1, c + before); k++)
            sum += terms[k];
          dx[c * plan->inner] = (REAL) (dy[c * plan->inner] * pow (scales[c], -plan->beta) -
                                        2 * plan->alpha * plan->beta / (double) plan->size * x[c * plan->inner] * sum);
        }
    }
}
