/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-softmax.c, with REAL, R(name) and EXP(x) defined. No include guard. y may be
 * x, or dx be dy: the loops carry nothing from one element to the next, which is what ivdep says. */

/* y = e^(x - shift); returns the sum. */
static inline double
R (exp_row) (const REAL *x, REAL *y, gint64 n, REAL shift)
{
  double total = 0;
  for (gint64 i = 0; i < n; i += 1024)
    {
      gint64 end = MIN (n, i + 1024);
      ORTRAIN_INDEPENDENT
      for (gint64 j = i; j < end; j++)
        y[j] = EXP (x[j] - shift);
      total += R (ortrain_lane_sum) (y + i, end - i, 0);
    }
  return total;
}

/* x [n] contiguous */
static void
R (softmax_row) (gboolean logarithm, const REAL *x, REAL *y, gint64 n)
{
  REAL top = R (ortrain_lane_max) (x, n);
  if (logarithm)
    {
      REAL norm = (REAL) (top + log (R (ortrain_lane_sum_exp) (x, n, top)));
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < n; j++)
        y[j] = x[j] - norm;
      return;
    }
  REAL scale = (REAL) (1 / R (exp_row) (x, y, n, top));
  ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < n; j++)
    y[j] *= scale;
}

/* `width` columns side by side, n rows apart by `inner` */
static void
R (softmax_columns) (gboolean logarithm, const REAL *x, REAL *y, gint64 n, gint64 inner, gint64 width)
{
  REAL top[SOFTMAX_TILE], sum[SOFTMAX_TILE];
  double total[SOFTMAX_TILE];
  for (gint64 j = 0; j < width; j++)
    {
      top[j] = -INFINITY;
      total[j] = 0;
    }
  for (gint64 k = 0; k < n; k++)
    for (gint64 j = 0; j < width; j++)
      top[j] = x[k * inner + j] > top[j] ? x[k * inner + j] : top[j];
  for (gint64 first = 0; first < n; first += 64)
    {
      gint64 last = MIN (n, first + 64);
      for (gint64 j = 0; j < width; j++)
        sum[j] = 0;
      for (gint64 k = first; k < last; k++)
        ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < width; j++)
        {
          REAL e = EXP (x[k * inner + j] - top[j]);
          if (!logarithm)
            y[k * inner + j] = e;
          sum[j] += e;
        }
      for (gint64 j = 0; j < width; j++)
        total[j] += sum[j];
    }
  for (gint64 j = 0; j < width; j++)
    sum[j] = logarithm ? (REAL) (top[j] + log (total[j])) : (REAL) (1 / total[j]);
  for (gint64 k = 0; k < n; k++)
    ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < width; j++)
    y[k * inner + j] = logarithm ? x[k * inner + j] - sum[j] : y[k * inner + j] * sum[j];
}

/* softmax: dx = y·(dy - Σ dy·y); logarithm of it: dx = dy - e^y · Σ dy */
static void
R (grad_row) (gboolean logarithm, const REAL *dy, const REAL *y, REAL *dx, gint64 n)
{
  REAL sum = (REAL) (logarithm ? R (ortrain_lane_sum) (dy, n, 0) : R (ortrain_lane_dot) (dy, y, n, 0));
  if (logarithm)
    ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < n; j++)
    dx[j] = dy[j] - EXP (y[j]) * sum;
  else ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < n; j++)
    dx[j] = y[j] * (dy[j] - sum);
}

static void
R (grad_columns) (gboolean logarithm, const REAL *dy, const REAL *y, REAL *dx, gint64 n, gint64 inner, gint64 width)
{
  double total[SOFTMAX_TILE] = { 0 };
  REAL sum[SOFTMAX_TILE];
  for (gint64 k = 0; k < n; k++)
    for (gint64 j = 0; j < width; j++)
      total[j] += logarithm ? dy[k * inner + j] : (double) dy[k * inner + j] * y[k * inner + j];
  for (gint64 j = 0; j < width; j++)
    sum[j] = (REAL) total[j];
  for (gint64 k = 0; k < n; k++)
    ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < width; j++)
    {
      gint64 at = k * inner + j;
      dx[at] = logarithm ? dy[at] - EXP (y[at]) * sum[j] : y[at] * (dy[at] - sum[j]);
    }
}

static void
R (hardmax) (const REAL *x, REAL *y, gint64 n, gint64 inner)
{
  gint64 best = 0;
  for (gint64 k = 1; k < n; k++)
    if (x[k * inner] > x[best * inner])
      best = k;
  for (gint64 k = 0; k < n; k++)
    y[k * inner] = k == best;
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
      const REAL *a = (const REAL *) run->a + at, *b = run->b ? (const REAL *) run->b + at : NULL;
      REAL *y = (REAL *) run->y + at;
      switch (plan->kind)
        {
        case SOFTMAX:
        case LOG_SOFTMAX:
          if (plan->inner == 1)
            R (softmax_row) (plan->kind == LOG_SOFTMAX, a, y, plan->n);
          else
            R (softmax_columns) (plan->kind == LOG_SOFTMAX, a, y, plan->n, plan->inner, width);
          break;
        case SOFTMAX_GRAD:
        case LOG_SOFTMAX_GRAD:
          if (plan->inner == 1)
            R (grad_row) (plan->kind == LOG_SOFTMAX_GRAD, a, b, y, plan->n);
          else
            R (grad_columns) (plan->kind == LOG_SOFTMAX_GRAD, a, b, y, plan->n, plan->inner, width);
          break;
        case HARDMAX:
          for (gint64 j = 0; j < width; j++)
            R (hardmax) (a + j, y + j, plan->n, plan->inner);
          break;
        }
    }
}
