/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-batch-norm.c, with REAL and R(name) defined. No include guard. */

/* Sums down `width` columns of rows that lie `pitch` apart: Σ a and Σ a·(x - shift), in double. With x NULL only the
 * first. Whole tiles have a fixed width, so that the sums stay in registers. */
#define COLUMN_LOOP(width, pair)                                                                                       \
  for (gint64 first = 0; first < rows; first += 32)                                                                    \
    {                                                                                                                  \
      REAL part_a[NORM_TILE] = { 0 }, part_b[NORM_TILE] = { 0 };                                                       \
      gint64 last = MIN (rows, first + 32);                                                                            \
      for (gint64 r = first; r < last; r++)                                                                            \
        for (gint64 j = 0; j < (width); j++)                                                                           \
          {                                                                                                            \
            part_a[j] += a[r * pitch + j];                                                                             \
            if (pair)                                                                                                  \
              part_b[j] += a[r * pitch + j] * (x[r * pitch + j] - shift[j]);                                           \
          }                                                                                                            \
      for (gint64 j = 0; j < (width); j++)                                                                             \
        {                                                                                                              \
          sum_a[j] += part_a[j];                                                                                       \
          if (pair)                                                                                                    \
            sum_b[j] += part_b[j];                                                                                     \
        }                                                                                                              \
    }

static void
R (column_sums) (const REAL *restrict a, const REAL *restrict x, const REAL *restrict shift, gint64 rows, gint64 pitch,
                 gint64 width, double *restrict sum_a, double *restrict sum_b)
{
  if (width == NORM_TILE && x == NULL)
    COLUMN_LOOP (NORM_TILE, FALSE)
  else if (width == NORM_TILE)
    COLUMN_LOOP (NORM_TILE, TRUE)
  else if (x == NULL)
    COLUMN_LOOP (width, FALSE)
  else
    COLUMN_LOOP (width, TRUE)
}
#undef COLUMN_LOOP

/* Σ (x - shift)² down columns */
static void
R (column_squares) (const REAL *restrict x, const REAL *restrict shift, gint64 rows, gint64 pitch, gint64 width,
                    double *restrict sum)
{
  for (gint64 first = 0; first < rows; first += 32)
    {
      REAL part[NORM_TILE] = { 0 };
      gint64 last = MIN (rows, first + 32);
      for (gint64 r = first; r < last; r++)
        for (gint64 j = 0; j < width; j++)
          {
            REAL d = x[r * pitch + j] - shift[j];
            part[j] += d * d;
          }
      for (gint64 j = 0; j < width; j++)
        sum[j] += part[j];
    }
}

/* Statistics of one unit: mean and Σ (x - mean)² of a plane, or of the columns of a chunk of rows. The second sum reads
 * what the first has brought into the cache. */
static void
R (stat_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *x = run->x;
  gint64 channels = plan->channels;
  for (gint64 u = begin; u < end; u++)
    if (plan->planes)
      {
        const REAL *plane = x + u * plan->inner;
        double mean = R (ortrain_lane_sum) (plane, plan->inner, 0) / (double) plan->inner;
        run->parts[2 * u] = mean;
        run->parts[2 * u + 1] = R (ortrain_lane_sum_square) (plane, plan->inner, (REAL) mean);
        /* the shift was rounded: take out what that added */
        double off = mean - (REAL) mean;
        run->parts[2 * u + 1] -= off * off * (double) plan->inner;
      }
    else
      {
        gint64 first = u * plan->rows_per_unit, rows = MIN (plan->rows_per_unit, plan->rows - first);
        double *mean = run->parts + 2 * u * channels, *square = mean + channels;
        for (gint64 c = 0; c < channels; c += NORM_TILE)
          {
            gint64 width = MIN (NORM_TILE, channels - c);
            const REAL *tile = x + first * channels + c;
            REAL shift[NORM_TILE];
            for (gint64 j = 0; j < width; j++)
              mean[c + j] = square[c + j] = 0;
            R (column_sums) (tile, NULL, NULL, rows, channels, width, mean + c, NULL);
            for (gint64 j = 0; j < width; j++)
              {
                mean[c + j] /= (double) rows;
                shift[j] = (REAL) mean[c + j];
              }
            R (column_squares) (tile, shift, rows, channels, width, square + c);
            for (gint64 j = 0; j < width; j++)
              square[c + j] -= (mean[c + j] - shift[j]) * (mean[c + j] - shift[j]) * (double) rows;
          }
      }
}

/* Joins the units of each channel in order, and makes what the other passes need of it. */
static void
R (stat_channels) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *scale = run->scale, *bias = run->bias, *old_mean = run->mean, *old_var = run->var;
  REAL *table = run->table;
  gint64 channels = plan->channels;
  for (gint64 c = begin; c < end; c++)
    {
      double count = 0, mean = 0, square = 0;
      for (gint64 u = 0; u < plan->units_per_channel; u++)
        {
          gint64 at = plan->planes ? 2 * (u * channels + c) : 2 * u * channels + c;
          gint64 second = plan->planes ? at + 1 : at + channels;
          double n = plan->planes ? (double) plan->inner
                                  : (double) MIN (plan->rows_per_unit, plan->rows - u * plan->rows_per_unit);
          double delta = run->parts[at] - mean, total = count + n;
          mean += delta * n / total;
          square += run->parts[second] + delta * delta * count * n / total;
          count = total;
        }
      double var = square / count, inverse = 1 / sqrt (var + plan->epsilon);
      table[c] = (REAL) mean;
      table[channels + c] = (REAL) (inverse * scale[c]);
      table[2 * channels + c] = bias[c];
      if (run->new_mean)
        ((REAL *) run->new_mean)[c] = (REAL) (plan->momentum * old_mean[c] + (1 - plan->momentum) * mean);
      if (run->new_var)
        ((REAL *) run->new_var)[c] = (REAL) (plan->momentum * old_var[c] + (1 - plan->momentum) * var);
      if (run->saved_mean)
        ((REAL *) run->saved_mean)[c] = (REAL) mean;
      if (run->saved_inverse)
        ((REAL *) run->saved_inverse)[c] = (REAL) inverse;
    }
}

/* table [3, C] from stored statistics: mean, scale / deviation, bias */
static void
R (stored_channels) (const NormRun *run)
{
  const REAL *scale = run->scale, *bias = run->bias, *mean = run->mean, *var = run->var;
  gint64 channels = run->plan->channels;
  REAL *table = run->table;
  for (gint64 c = 0; c < channels; c++)
    {
      table[c] = mean[c];
      table[channels + c] = (REAL) (scale[c] / sqrt (var[c] + run->plan->epsilon));
      table[2 * channels + c] = bias[c];
    }
}

/* y = (x - mean)·a + bias; y may be x */
static void
R (apply_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *x = run->x;
  gint64 channels = plan->channels;
  const REAL *mean = run->table, *a = mean + channels, *bias = a + channels;
  REAL *y = run->y;
  if (plan->planes)
    for (gint64 u = begin; u < end; u++)
      {
        gint64 c = u % channels, at = u * plan->inner;
        REAL m = mean[c], f = a[c], b = bias[c];
        ORTRAIN_INDEPENDENT
        for (gint64 j = at; j < at + plan->inner; j++)
          y[j] = (x[j] - m) * f + b;
      }
  else
    for (gint64 r = begin; r < end; r++)
      {
        const REAL *from = x + r * channels;
        REAL *to = y + r * channels;
        ORTRAIN_INDEPENDENT
        for (gint64 c = 0; c < channels; c++)
          to[c] = (from[c] - mean[c]) * a[c] + bias[c];
      }
}

/* Σ dy and Σ dy·(x - mean) of one unit */
static void
R (grad_sum_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *x = run->x, *dy = run->dy, *mean = run->mean;
  gint64 channels = plan->channels;
  for (gint64 u = begin; u < end; u++)
    if (plan->planes)
      {
        gint64 at = u * plan->inner;
        run->parts[2 * u] = R (ortrain_lane_sum) (dy + at, plan->inner, 0);
        run->parts[2 * u + 1] = x ? R (ortrain_lane_dot) (x + at, dy + at, plan->inner, mean[u % channels]) : 0;
      }
    else
      {
        gint64 first = u * plan->rows_per_unit, rows = MIN (plan->rows_per_unit, plan->rows - first);
        double *sum = run->parts + 2 * u * channels, *dot = sum + channels;
        for (gint64 c = 0; c < channels; c++)
          sum[c] = dot[c] = 0;
        for (gint64 c = 0; c < channels; c += NORM_TILE)
          {
            const REAL *tile = dy + first * channels + c, *x_tile = x ? x + first * channels + c : NULL;
            gint64 width = MIN (NORM_TILE, channels - c);
            R (column_sums) (tile, x_tile, mean ? mean + c : NULL, rows, channels, width, sum + c, dot + c);
          }
      }
}

/* The gradient of a parameter: output `k`, in its place or added to what is there. */
static inline void
R (put) (REAL *to, double value, guint64 accumulate, guint k)
{
  *to = (REAL) (accumulate >> k & 1 ? *to + value : value);
}

/* Joins them; table [4, C]: mean, a, Σ dy / n, Σ dy·x̂ / (n · deviation) */
static void
R (grad_channels) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *scale = run->scale, *mean = run->mean;
  REAL *table = run->table;
  gint64 channels = plan->channels;
  double n = (double) (plan->rows * plan->inner);
  for (gint64 c = begin; c < end; c++)
    {
      double sum = 0, dot = 0, inverse;
      for (gint64 u = 0; u < plan->units_per_channel; u++)
        {
          gint64 at = plan->planes ? 2 * (u * channels + c) : 2 * u * channels + c;
          sum += run->parts[at];
          dot += run->parts[plan->planes ? at + 1 : at + channels];
        }
      if (plan->frozen)
        inverse = 1 / sqrt (((const REAL *) run->var)[c] + plan->epsilon);
      else
        inverse = ((const REAL *) run->inverse)[c];
      table[c] = mean ? mean[c] : 0;
      table[channels + c] = (REAL) (inverse * scale[c]);
      table[2 * channels + c] = (REAL) (sum / n);
      table[3 * channels + c] = (REAL) (dot * inverse * inverse / n);
      if (run->dscale)
        R (put) ((REAL *) run->dscale + c, dot * inverse, run->accumulate, 1);
      if (run->dbias)
        R (put) ((REAL *) run->dbias + c, sum, run->accumulate, 2);
    }
}

/* dx = a·(dy - Σdy/n - (x - mean)·k), or a·dy with frozen statistics; dx may be dy */
static void
R (grad_apply_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const REAL *x = run->x, *dy = run->dy;
  gint64 channels = plan->channels;
  const REAL *mean = run->table, *a = mean + channels, *k1 = a + channels, *k2 = k1 + channels;
  REAL *dx = run->y;
  for (gint64 u = begin; u < end; u++)
    if (plan->planes)
      {
        gint64 c = u % channels, at = u * plan->inner;
        REAL m = mean[c], f = a[c], b = k1[c], k = k2[c];
        if (plan->frozen)
          {
            ORTRAIN_INDEPENDENT
            for (gint64 j = at; j < at + plan->inner; j++)
              dx[j] = dy[j] * f;
          }
        else
          {
            ORTRAIN_INDEPENDENT
            for (gint64 j = at; j < at + plan->inner; j++)
              dx[j] = f * (dy[j] - b - (x[j] - m) * k);
          }
      }
    else
      {
        gint64 at = u * channels;
        if (plan->frozen)
          {
            ORTRAIN_INDEPENDENT
            for (gint64 c = 0; c < channels; c++)
              dx[at + c] = dy[at + c] * a[c];
          }
        else
          {
            ORTRAIN_INDEPENDENT
            for (gint64 c = 0; c < channels; c++)
              dx[at + c] = a[c] * (dy[at + c] - k1[c] - (x[at + c] - mean[c]) * k2[c]);
          }
      }
}
