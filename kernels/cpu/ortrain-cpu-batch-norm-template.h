/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-batch-norm.c, with REAL and R(name) defined. No include guard. */

/* Sums down `width` columns of rows that lie `pitch` apart, those of x `x_pitch`: Σ a and Σ a·(x - shift), in double.
 * With x NULL only the first. Whole tiles have a fixed width, so that the sums stay in registers. */
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
              part_b[j] += a[r * pitch + j] * (x[r * x_pitch + j] - shift[j]);                                         \
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
                 gint64 x_pitch, gint64 width, double *restrict sum_a, double *restrict sum_b)
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

/* `width` columns of rows [first, first + n) of x: [rows, C] as they lie, or with 16 bits in `buffer`, [n, NORM_TILE].
 */
static inline const REAL *
R (read_columns) (const OrtrainRows *x, gint64 channels, gint64 first, gint64 n, gint64 c, gint64 width, float *buffer,
                  gint64 *pitch)
{
  const gboolean narrow = ortrain_dtype_is_half (x->dtype);
  *pitch = narrow ? NORM_TILE : channels;
  if (!narrow)
    return (const REAL *) x->data + first * channels + c;
  for (gint64 r = 0; r < n; r++)
    ortrain_rows_widen (x, (first + r) * channels + c, width, buffer + r * NORM_TILE);
  return (gconstpointer) buffer;
}

/* Statistics of a plane: mean and Σ (x - mean)². The second sum reads elements that the first has brought into the
 * cache. */
static inline void
R (plane_statistics) (const NormRun *run, gint64 at, double *mean_out, double *square_out, OrtrainRowsBuffer *buffer)
{
  const NormPlan *plan = run->plan;
  double mean = 0, square = 0;
  for (gint64 i = 0; i < plan->inner; i += plan->step)
    {
      const gint64 size = MIN (plan->step, plan->inner - i);
      mean += R (ortrain_lane_sum) (R (ortrain_rows_read) (&run->x, at + i, size, buffer), size, 0);
    }
  mean /= (double) plan->inner;
  for (gint64 i = 0; i < plan->inner; i += plan->step)
    {
      const gint64 size = MIN (plan->step, plan->inner - i);
      square += R (ortrain_lane_sum_square) (R (ortrain_rows_read) (&run->x, at + i, size, buffer), size, (REAL) mean);
    }
  /* the shift was rounded: subtract the part that this added */
  double off = mean - (REAL) mean;
  *mean_out = mean;
  *square_out = square - off * off * (double) plan->inner;
}

/* The same of columns [c, c + width) of a chunk of rows. */
static void
R (column_statistics) (const NormRun *run, gint64 first, gint64 rows, gint64 c, gint64 width, double *mean,
                       double *square)
{
  const NormPlan *plan = run->plan;
  const gint64 piece = ortrain_dtype_is_half (run->x.dtype) ? NORM_PIECE : rows;
  float buffer[NORM_PIECE * NORM_TILE];
  REAL shift[NORM_TILE];
  gint64 pitch;
  for (gint64 j = 0; j < width; j++)
    mean[j] = square[j] = 0;
  for (gint64 r = 0; r < rows; r += piece)
    {
      const gint64 n = MIN (piece, rows - r);
      const REAL *tile = R (read_columns) (&run->x, plan->channels, first + r, n, c, width, buffer, &pitch);
      R (column_sums) (tile, NULL, NULL, n, pitch, 0, width, mean, NULL);
    }
  for (gint64 j = 0; j < width; j++)
    {
      mean[j] /= (double) rows;
      shift[j] = (REAL) mean[j];
    }
  for (gint64 r = 0; r < rows; r += piece)
    {
      const gint64 n = MIN (piece, rows - r);
      const REAL *tile = R (read_columns) (&run->x, plan->channels, first + r, n, c, width, buffer, &pitch);
      R (column_squares) (tile, shift, n, pitch, width, square);
    }
  for (gint64 j = 0; j < width; j++)
    square[j] -= (mean[j] - shift[j]) * (mean[j] - shift[j]) * (double) rows;
}

/* Statistics of planes, or of the columns of chunks of rows. */
static void
R (stat_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  gint64 channels = plan->channels;
  OrtrainRowsBuffer buffer;
  ortrain_rows_buffer_init (&buffer);
  for (gint64 u = begin; u < end; u++)
    if (plan->planes)
      R (plane_statistics) (run, u * plan->inner, &run->parts[2 * u], &run->parts[2 * u + 1], &buffer);
    else
      {
        gint64 first = u * plan->rows_per_unit, rows = MIN (plan->rows_per_unit, plan->rows - first);
        double *mean = run->parts + 2 * u * channels, *square = mean + channels;
        for (gint64 c = 0; c < channels; c += NORM_TILE)
          R (column_statistics) (run, first, rows, c, MIN (NORM_TILE, channels - c), mean + c, square + c);
      }
}

/* Joins the units of each channel in order, and computes the values that the other passes need. */
static void
R (stat_channels) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
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
      const double var = square / count;
      const REAL inverse = (REAL) (1 / sqrt (var + plan->epsilon)); /* as it is saved */
      table[c] = (REAL) mean;
      table[channels + c] = inverse * R (ortrain_rows_get) (&run->scale, c);
      table[2 * channels + c] = R (ortrain_rows_get) (&run->bias, c);
      const double keep = plan->momentum;
      if (run->new_mean.data)
        R (ortrain_rows_put)
      (&run->new_mean, c, keep * R (ortrain_rows_get) (&run->mean, c) + (1 - keep) * mean, FALSE);
      if (run->new_var.data)
        R (ortrain_rows_put) (&run->new_var, c, keep * R (ortrain_rows_get) (&run->var, c) + (1 - keep) * var, FALSE);
      if (run->saved_mean.data)
        R (ortrain_rows_put) (&run->saved_mean, c, mean, FALSE);
      if (run->saved_inverse.data)
        R (ortrain_rows_put) (&run->saved_inverse, c, inverse, FALSE);
      if (run->factor.data)
        R (ortrain_rows_put) (&run->factor, c, table[channels + c], FALSE);
    }
}

/* table [3, C] from stored statistics: mean, scale / deviation, bias */
static void
R (stored_channels) (const NormRun *run)
{
  gint64 channels = run->plan->channels;
  REAL *table = run->table;
  for (gint64 c = 0; c < channels; c++)
    {
      table[c] = R (ortrain_rows_get) (&run->mean, c);
      table[channels + c] = (REAL) (R (ortrain_rows_get) (&run->scale, c) /
                                    sqrt (R (ortrain_rows_get) (&run->var, c) + run->plan->epsilon));
      table[2 * channels + c] = R (ortrain_rows_get) (&run->bias, c);
    }
}

/* y = (x - mean)·a + bias; y may be x. Units: planes or rows, in pieces. */
static void
R (apply_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const gint64 channels = plan->channels, n = plan->planes ? plan->inner : channels;
  const REAL *mean = run->table, *a = mean + channels, *bias = a + channels;
  OrtrainRowsBuffer x_buffer, y_buffer;
  ortrain_rows_buffer_init (&x_buffer);
  for (gint64 u = begin; u < end; u++)
    for (gint64 i = 0; i < n; i += plan->step)
      {
        const gint64 size = MIN (plan->step, n - i), at = u * n + i;
        const REAL *x = R (ortrain_rows_read) (&run->x, at, size, &x_buffer);
        REAL *y = R (ortrain_rows_target) (&run->y, at, &y_buffer);
        if (plan->planes)
          {
            REAL m = mean[u % channels], f = a[u % channels], b = bias[u % channels];
            ORTRAIN_INDEPENDENT
            for (gint64 j = 0; j < size; j++)
              y[j] = (x[j] - m) * f + b;
          }
        else
          {
            ORTRAIN_INDEPENDENT
            for (gint64 j = 0; j < size; j++)
              y[j] = (x[j] - mean[i + j]) * a[i + j] + bias[i + j];
          }
        R (ortrain_rows_store) (&run->y, at, size, &y_buffer);
      }
}

/* Σ dy and Σ dy·(x - mean) of a plane; without x only the first */
static inline void
R (plane_grad_sums) (const NormRun *run, gint64 at, gint64 c, double *sum, double *dot, OrtrainRowsBuffer *x_buffer,
                     OrtrainRowsBuffer *dy_buffer)
{
  const NormPlan *plan = run->plan;
  const REAL mean = run->x.data ? R (ortrain_rows_get) (&run->mean, c) : 0;
  *sum = *dot = 0;
  for (gint64 i = 0; i < plan->inner; i += plan->step)
    {
      const gint64 size = MIN (plan->step, plan->inner - i);
      const REAL *dy = R (ortrain_rows_read) (&run->dy, at + i, size, dy_buffer);
      *sum += R (ortrain_lane_sum) (dy, size, 0);
      if (run->x.data)
        *dot += R (ortrain_lane_dot) (R (ortrain_rows_read) (&run->x, at + i, size, x_buffer), dy, size, mean);
    }
}

/* The same of columns [c, c + width) of a chunk of rows */
static void
R (column_grad_sums) (const NormRun *run, gint64 first, gint64 rows, gint64 c, gint64 width, double *sum, double *dot)
{
  const NormPlan *plan = run->plan;
  const gint64 piece = plan->types.narrow ? NORM_PIECE : rows;
  float x_buffer[NORM_PIECE * NORM_TILE], dy_buffer[NORM_PIECE * NORM_TILE];
  REAL shift[NORM_TILE];
  for (gint64 j = 0; j < width; j++)
    {
      sum[j] = dot[j] = 0;
      shift[j] = run->mean.data ? R (ortrain_rows_get) (&run->mean, c + j) : 0;
    }
  for (gint64 r = 0; r < rows; r += piece)
    {
      gint64 pitch, x_pitch = 0;
      const gint64 n = MIN (piece, rows - r);
      const REAL *dy = R (read_columns) (&run->dy, plan->channels, first + r, n, c, width, dy_buffer, &pitch),
                 *x = NULL;
      if (run->x.data)
        x = R (read_columns) (&run->x, plan->channels, first + r, n, c, width, x_buffer, &x_pitch);
      R (column_sums) (dy, x, shift, n, pitch, x_pitch, width, sum, dot);
    }
}

static void
R (grad_sum_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const gint64 channels = plan->channels;
  OrtrainRowsBuffer x_buffer, dy_buffer;
  ortrain_rows_buffer_init (&x_buffer);
  ortrain_rows_buffer_init (&dy_buffer);
  for (gint64 u = begin; u < end; u++)
    if (plan->planes)
      R (plane_grad_sums)
  (run, u * plan->inner, u % channels, &run->parts[2 * u], &run->parts[2 * u + 1], &x_buffer, &dy_buffer);
  else
  {
    gint64 first = u * plan->rows_per_unit, rows = MIN (plan->rows_per_unit, plan->rows - first);
    double *sum = run->parts + 2 * u * channels, *dot = sum + channels;
    for (gint64 c = 0; c < channels; c += NORM_TILE)
      R (column_grad_sums) (run, first, rows, c, MIN (NORM_TILE, channels - c), sum + c, dot + c);
  }
}

/* Joins them; table [4, C]: mean, a, Σ dy / n, Σ dy·x̂ / (n · deviation) */
static void
R (grad_channels) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
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
        inverse = 1 / sqrt (R (ortrain_rows_get) (&run->var, c) + plan->epsilon);
      else
        inverse = R (ortrain_rows_get) (&run->inverse, c);
      table[c] = run->mean.data ? R (ortrain_rows_get) (&run->mean, c) : 0;
      table[channels + c] = (REAL) (inverse * R (ortrain_rows_get) (&run->scale, c));
      table[2 * channels + c] = (REAL) (sum / n);
      table[3 * channels + c] = (REAL) (dot * inverse * inverse / n);
      if (run->dscale.data)
        R (ortrain_rows_put) (&run->dscale, c, dot * inverse, run->accumulate >> 1 & 1);
      if (run->dbias.data)
        R (ortrain_rows_put) (&run->dbias, c, sum, run->accumulate >> 2 & 1);
    }
}

/* dx [n] of one piece, of a channel or (channel -1) of channels from `first` on; a·dy with frozen statistics */
static inline void
R (grad_apply) (const NormRun *run, const REAL *dy, const REAL *x, REAL *dx, gint64 n, gint64 channel, gint64 first)
{
  const gint64 channels = run->plan->channels;
  const REAL *mean = run->table, *a = mean + channels, *k1 = a + channels, *k2 = k1 + channels;
  if (channel >= 0)
    {
      REAL m = mean[channel], f = a[channel], b = k1[channel], k = k2[channel];
      if (run->plan->frozen)
        ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < n; j++)
        dx[j] = dy[j] * f;
      else ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < n; j++)
        dx[j] = f * (dy[j] - b - (x[j] - m) * k);
      return;
    }
  mean += first;
  a += first;
  k1 += first;
  k2 += first;
  if (run->plan->frozen)
    ORTRAIN_INDEPENDENT
  for (gint64 c = 0; c < n; c++)
    dx[c] = dy[c] * a[c];
  else ORTRAIN_INDEPENDENT
  for (gint64 c = 0; c < n; c++)
    dx[c] = a[c] * (dy[c] - k1[c] - (x[c] - mean[c]) * k2[c]);
}

/* dx = a·(dy - Σdy/n - (x - mean)·k); dx may be dy. Units: planes or rows. */
static void
R (grad_apply_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const NormRun *run = data;
  const NormPlan *plan = run->plan;
  const gint64 channels = plan->channels, n = plan->planes ? plan->inner : channels;
  OrtrainRowsBuffer x_buffer, dy_buffer, dx_buffer;
  ortrain_rows_buffer_init (&x_buffer);
  ortrain_rows_buffer_init (&dy_buffer);
  for (gint64 u = begin; u < end; u++)
    for (gint64 i = 0; i < n; i += plan->step)
      {
        const gint64 size = MIN (plan->step, n - i), at = u * n + i;
        const REAL *dy = R (ortrain_rows_read) (&run->dy, at, size, &dy_buffer), *x = NULL;
        REAL *dx = R (ortrain_rows_target) (&run->y, at, &dx_buffer);
        if (!plan->frozen)
          x = R (ortrain_rows_read) (&run->x, at, size, &x_buffer);
        R (grad_apply) (run, dy, x, dx, size, plan->planes ? u % channels : -1, i);
        R (ortrain_rows_store) (&run->y, at, size, &dx_buffer);
      }
}
