/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-softmax.c, with REAL, R(name) and EXP(x) defined. No include guard. y may be
 * x, or dx be dy: the loops carry nothing from one element to the next, as ivdep declares. */

/* y = e^(x - shift); adds their sum to total. */
static inline void
R (exp_row) (const REAL *x, REAL *y, gint64 n, REAL shift, double *total)
{
  for (gint64 i = 0; i < n; i += 1024)
    {
      gint64 end = MIN (n, i + 1024);
      ORTRAIN_INDEPENDENT
      for (gint64 j = i; j < end; j++)
        y[j] = EXP (x[j] - shift);
      *total += R (ortrain_lane_sum) (y + i, end - i, 0);
    }
}

/* x [n] contiguous */
static void
R (softmax_row) (const SoftmaxRun *run, gboolean logarithm, gint64 at, gint64 n)
{
  const OrtrainRows *a = &run->a, *y = &run->y;
  const gint64 step = run->plan->step;
  OrtrainRowsBuffer a_buffer, y_buffer;
  REAL top = -INFINITY;
  double sum = 0;
  ortrain_rows_buffer_init (&a_buffer);
  for (gint64 i = 0; i < n; i += step)
    {
      const gint64 size = MIN (step, n - i);
      REAL here = R (ortrain_lane_max) (R (ortrain_rows_read) (a, at + i, size, &a_buffer), size);
      top = here > top ? here : top;
    }
  if (logarithm)
    {
      for (gint64 i = 0; i < n; i += step)
        {
          const gint64 size = MIN (step, n - i);
          sum += R (ortrain_lane_sum_exp) (R (ortrain_rows_read) (a, at + i, size, &a_buffer), size, top);
        }
      REAL norm = (REAL) (top + log (sum));
      for (gint64 i = 0; i < n; i += step)
        {
          const gint64 size = MIN (step, n - i);
          const REAL *from = R (ortrain_rows_read) (a, at + i, size, &a_buffer);
          REAL *to = R (ortrain_rows_target) (y, at + i, &y_buffer);
          ORTRAIN_INDEPENDENT
          for (gint64 j = 0; j < size; j++)
            to[j] = from[j] - norm;
          R (ortrain_rows_store) (y, at + i, size, &y_buffer);
        }
      return;
    }
  /* exponentials that the buffer does not hold until the sum is known are computed again */
  const gboolean held = n <= step || !ortrain_dtype_is_half (y->dtype);
  for (gint64 i = 0; i < n; i += step)
    {
      const gint64 size = MIN (step, n - i);
      const REAL *from = R (ortrain_rows_read) (a, at + i, size, &a_buffer);
      R (exp_row) (from, R (ortrain_rows_target) (y, at + i, &y_buffer), size, top, &sum);
    }
  REAL scale = (REAL) (1 / sum);
  for (gint64 i = 0; i < n; i += step)
    {
      const gint64 size = MIN (step, n - i);
      REAL *to = R (ortrain_rows_target) (y, at + i, &y_buffer);
      if (!held)
        R (exp_row) (R (ortrain_rows_read) (a, at + i, size, &a_buffer), to, size, top, &sum);
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < size; j++)
        to[j] *= scale;
      R (ortrain_rows_store) (y, at + i, size, &y_buffer);
    }
}

/* `width` columns side by side, n rows apart by `inner` */
static void
R (softmax_columns) (const SoftmaxRun *run, gboolean logarithm, gint64 at, gint64 n, gint64 inner, gint64 width)
{
  const OrtrainRows *a = &run->a, *y = &run->y;
  /* exponentials wait for their sum in y where it is as wide as they are */
  const gboolean kept = !logarithm && !ortrain_dtype_is_half (y->dtype);
  OrtrainRowsBuffer a_buffer, y_buffer;
  REAL top[SOFTMAX_TILE], sum[SOFTMAX_TILE], scratch[SOFTMAX_TILE];
  double total[SOFTMAX_TILE];
  ortrain_rows_buffer_init (&a_buffer);
  for (gint64 j = 0; j < width; j++)
    {
      top[j] = -INFINITY;
      total[j] = 0;
    }
  for (gint64 k = 0; k < n; k++)
    {
      const REAL *x = R (ortrain_rows_read) (a, at + k * inner, width, &a_buffer);
      for (gint64 j = 0; j < width; j++)
        top[j] = x[j] > top[j] ? x[j] : top[j];
    }
  for (gint64 first = 0; first < n; first += 64)
    {
      gint64 last = MIN (n, first + 64);
      for (gint64 j = 0; j < width; j++)
        sum[j] = 0;
      for (gint64 k = first; k < last; k++)
        {
          const REAL *x = R (ortrain_rows_read) (a, at + k * inner, width, &a_buffer);
          REAL *to = kept ? R (ortrain_rows_target) (y, at + k * inner, &y_buffer) : scratch;
          ORTRAIN_INDEPENDENT
          for (gint64 j = 0; j < width; j++)
            {
              REAL e = EXP (x[j] - top[j]);
              to[j] = e;
              sum[j] += e;
            }
        }
      for (gint64 j = 0; j < width; j++)
        total[j] += sum[j];
    }
  for (gint64 j = 0; j < width; j++)
    sum[j] = logarithm ? (REAL) (top[j] + log (total[j])) : (REAL) (1 / total[j]);
  for (gint64 k = 0; k < n; k++)
    {
      REAL *to = R (ortrain_rows_target) (y, at + k * inner, &y_buffer);
      if (kept)
        ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < width; j++)
        to[j] *= sum[j];
      else
      {
        const REAL *x = R (ortrain_rows_read) (a, at + k * inner, width, &a_buffer);
        ORTRAIN_INDEPENDENT
        for (gint64 j = 0; j < width; j++)
          to[j] = logarithm ? x[j] - sum[j] : EXP (x[j] - top[j]) * sum[j];
      }
      R (ortrain_rows_store) (y, at + k * inner, width, &y_buffer);
    }
}

/* softmax: dx = y·(dy - Σ dy·y); logarithm of it: dx = dy - e^y · Σ dy */
static void
R (grad_row) (const SoftmaxRun *run, gboolean logarithm, gint64 at, gint64 n)
{
  const gint64 step = run->plan->step;
  OrtrainRowsBuffer dy_buffer, y_buffer, dx_buffer;
  double total = 0;
  ortrain_rows_buffer_init (&dy_buffer);
  ortrain_rows_buffer_init (&y_buffer);
  for (gint64 i = 0; i < n; i += step)
    {
      const gint64 size = MIN (step, n - i);
      const REAL *dy = R (ortrain_rows_read) (&run->a, at + i, size, &dy_buffer);
      total += logarithm ? R (ortrain_lane_sum) (dy, size, 0)
                         : R (ortrain_lane_dot) (dy, R (ortrain_rows_read) (&run->b, at + i, size, &y_buffer), size, 0);
    }
  REAL sum = (REAL) total;
  for (gint64 i = 0; i < n; i += step)
    {
      const gint64 size = MIN (step, n - i);
      const REAL *dy = R (ortrain_rows_read) (&run->a, at + i, size, &dy_buffer);
      const REAL *y = R (ortrain_rows_read) (&run->b, at + i, size, &y_buffer);
      REAL *dx = R (ortrain_rows_target) (&run->y, at + i, &dx_buffer);
      if (logarithm)
        ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < size; j++)
        dx[j] = dy[j] - EXP (y[j]) * sum;
      else ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < size; j++)
        dx[j] = y[j] * (dy[j] - sum);
      R (ortrain_rows_store) (&run->y, at + i, size, &dx_buffer);
    }
}

static void
R (grad_columns) (const SoftmaxRun *run, gboolean logarithm, gint64 at, gint64 n, gint64 inner, gint64 width)
{
  OrtrainRowsBuffer dy_buffer, y_buffer, dx_buffer;
  double total[SOFTMAX_TILE] = { 0 };
  REAL sum[SOFTMAX_TILE];
  ortrain_rows_buffer_init (&dy_buffer);
  ortrain_rows_buffer_init (&y_buffer);
  for (gint64 k = 0; k < n; k++)
    {
      const REAL *dy = R (ortrain_rows_read) (&run->a, at + k * inner, width, &dy_buffer);
      const REAL *y = R (ortrain_rows_read) (&run->b, at + k * inner, width, &y_buffer);
      for (gint64 j = 0; j < width; j++)
        total[j] += logarithm ? dy[j] : (double) dy[j] * y[j];
    }
  for (gint64 j = 0; j < width; j++)
    sum[j] = (REAL) total[j];
  for (gint64 k = 0; k < n; k++)
    {
      const REAL *dy = R (ortrain_rows_read) (&run->a, at + k * inner, width, &dy_buffer);
      const REAL *y = R (ortrain_rows_read) (&run->b, at + k * inner, width, &y_buffer);
      REAL *dx = R (ortrain_rows_target) (&run->y, at + k * inner, &dx_buffer);
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < width; j++)
        dx[j] = logarithm ? dy[j] - EXP (y[j]) * sum[j] : y[j] * (dy[j] - sum[j]);
      R (ortrain_rows_store) (&run->y, at + k * inner, width, &dx_buffer);
    }
}

static void
R (hardmax) (const SoftmaxRun *run, gint64 at, gint64 n, gint64 inner)
{
  gint64 best = 0;
  for (gint64 k = 1; k < n; k++)
    if (R (ortrain_rows_get) (&run->a, at + k * inner) > R (ortrain_rows_get) (&run->a, at + best * inner))
      best = k;
  for (gint64 k = 0; k < n; k++)
    R (ortrain_rows_put) (&run->y, at + k * inner, k == best, FALSE);
}

/* Units: rows when the axis is the last one, tiles of columns otherwise. */
static void
R (units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const SoftmaxRun *run = data;
  const SoftmaxPlan *plan = run->plan;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 at = u / plan->tiles * plan->n * plan->inner + u % plan->tiles * SOFTMAX_TILE;
      gint64 width = MIN (SOFTMAX_TILE, plan->inner - u % plan->tiles * SOFTMAX_TILE);
      switch (plan->kind)
        {
        case SOFTMAX:
        case LOG_SOFTMAX:
          if (plan->inner == 1)
            R (softmax_row) (run, plan->kind == LOG_SOFTMAX, at, plan->n);
          else
            R (softmax_columns) (run, plan->kind == LOG_SOFTMAX, at, plan->n, plan->inner, width);
          break;
        case SOFTMAX_GRAD:
        case LOG_SOFTMAX_GRAD:
          if (plan->inner == 1)
            R (grad_row) (run, plan->kind == LOG_SOFTMAX_GRAD, at, plan->n);
          else
            R (grad_columns) (run, plan->kind == LOG_SOFTMAX_GRAD, at, plan->n, plan->inner, width);
          break;
        case HARDMAX:
          for (gint64 j = 0; j < width; j++)
            R (hardmax) (run, at + j, plan->n, plan->inner);
          break;
        }
    }
}
