/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-loss.c, with REAL, R(name) and EXP(x) defined. No include guard. */

/* log Σ e^x of the row at `at`, in one pass over memory: the maximum moves block by block. */
static inline double
R (log_sum_exp) (const OrtrainRows *x, gint64 at, gint64 n, OrtrainRowsBuffer *buffer)
{
  REAL top = -INFINITY;
  double sum = 0;
  for (gint64 i = 0; i < n; i += LOSS_BLOCK)
    {
      gint64 size = MIN (LOSS_BLOCK, n - i);
      const REAL *block = R (ortrain_rows_read) (x, at + i, size, buffer);
      REAL here = R (ortrain_lane_max) (block, size);
      if (here > top)
        {
          sum = sum == 0 ? 0 : sum * exp ((double) top - here);
          top = here;
        }
      /* nothing but -inf so far: a NaN must still be seen */
      sum += R (ortrain_lane_sum_exp) (block, size, isinf (top) && top < 0 ? 0 : top);
    }
  return top + log (sum);
}

/* lse [width]: the same of positions side by side, whose classes lie `inner` apart */
static void
R (log_sum_exp_columns) (const OrtrainRows *x, gint64 at, gint64 n, gint64 inner, gint64 width, double *lse,
                         OrtrainRowsBuffer *buffer)
{
  REAL top[LOSS_TILE];
  for (gint64 j = 0; j < width; j++)
    {
      top[j] = -INFINITY;
      lse[j] = 0;
    }
  for (gint64 c = 0; c < n; c++)
    {
      const REAL *row = R (ortrain_rows_read) (x, at + c * inner, width, buffer);
      for (gint64 j = 0; j < width; j++)
        top[j] = row[j] > top[j] ? row[j] : top[j];
    }
  for (gint64 c = 0; c < n; c++)
    {
      const REAL *row = R (ortrain_rows_read) (x, at + c * inner, width, buffer);
      for (gint64 j = 0; j < width; j++)
        lse[j] += EXP (row[j] - top[j]);
    }
  for (gint64 j = 0; j < width; j++)
    lse[j] = top[j] + log (lse[j]);
}

static inline double
R (weight_of) (const LossRun *run, gint64 c)
{
  return run->weights.data ? R (ortrain_rows_get) (&run->weights, c) : 1;
}

/* Σ w·x over the classes of one position */
static double
R (weighted_sum) (const LossRun *run, gint64 at)
{
  const LossPlan *plan = run->plan;
  OrtrainRowsBuffer x_buffer, w_buffer;
  double sum = 0;
  if (plan->inner > 1)
    {
      for (gint64 c = 0; c < plan->n; c++)
        sum += R (ortrain_rows_get) (&run->logits, at + c * plan->inner) * R (weight_of) (run, c);
      return sum;
    }
  ortrain_rows_buffer_init (&x_buffer);
  ortrain_rows_buffer_init (&w_buffer);
  for (gint64 i = 0; i < plan->n; i += plan->step)
    {
      const gint64 size = MIN (plan->step, plan->n - i);
      const REAL *x = R (ortrain_rows_read) (&run->logits, at + i, size, &x_buffer);
      sum += run->weights.data
                 ? R (ortrain_lane_dot) (x, R (ortrain_rows_read) (&run->weights, i, size, &w_buffer), size, 0)
                 : R (ortrain_lane_sum) (x, size, 0);
    }
  return sum;
}

/* The loss of one position, whose logits begin at `at`. */
static inline double
R (position_loss) (const LossRun *run, gint64 at, gint64 target, double lse)
{
  const LossPlan *plan = run->plan;
  double weight = R (weight_of) (run, target), x = R (ortrain_rows_get) (&run->logits, at + target * plan->inner);
  double loss = (1 - plan->smoothing) * weight * (lse - x);
  if (plan->smoothing != 0)
    loss += plan->smoothing / (double) plan->n * (run->weight_sum * lse - R (weighted_sum) (run, at));
  return loss;
}

/* Positions [begin, end) of outer · inner; sums of the chunk go to its place in `parts`. */
static void
R (loss_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  OrtrainRowsBuffer buffer;
  double sum = 0, weight = 0;
  ortrain_rows_buffer_init (&buffer);
  for (gint64 i = begin; i < end;)
    {
      gint64 at = i / plan->inner * plan->n * plan->inner + i % plan->inner, width = 1;
      double lse[LOSS_TILE];
      if (plan->inner == 1)
        lse[0] = R (log_sum_exp) (&run->logits, at, plan->n, &buffer);
      else
        {
          width = MIN (MIN (LOSS_TILE, plan->inner - i % plan->inner), end - i);
          R (log_sum_exp_columns) (&run->logits, at, plan->n, plan->inner, width, lse, &buffer);
        }
      for (gint64 j = 0; j < width; j++, i++)
        {
          gint64 target;
          double loss = 0;
          if (run->lse_out.data)
            R (ortrain_rows_put) (&run->lse_out, i, lse[j], FALSE);
          if (read_target (run, i, &target))
            {
              loss = R (position_loss) (run, at + j, target, lse[j]);
              weight += R (weight_of) (run, target);
            }
          if (plan->reduction == REDUCTION_NONE)
            R (ortrain_rows_put) (&run->loss_out, i, loss, FALSE);
          sum += loss;
        }
    }
  run->parts[begin / plan->grain * 2] = sum;
  run->parts[begin / plan->grain * 2 + 1] = weight;
}

/* The values that the gradient of a position needs in addition to its logits. */
typedef struct
{
  gint64 target; /* -1: does not count */
  REAL a, b, hit, shift;
} R (Position);

/* dlogits [n] of one position at `at`: a·e^(x - lse) - b·w, less `hit` at the target */
static void
R (loss_grad_row) (const LossRun *run, gint64 at, const R (Position) * position)
{
  const LossPlan *plan = run->plan;
  const REAL a = position->a, b = position->b, shift = position->shift;
  const gint64 step = plan->types.narrow ? LOSS_PIECE : plan->step;
  OrtrainRowsBuffer x_buffer, w_buffer, dx_buffer;
  ortrain_rows_buffer_init (&x_buffer);
  ortrain_rows_buffer_init (&w_buffer);
  for (gint64 i = 0; i < plan->n; i += step)
    {
      const gint64 size = MIN (step, plan->n - i), hit = position->target - i;
      const REAL *x = R (ortrain_rows_read) (&run->logits, at + i, size, &x_buffer);
      const REAL *w = run->weights.data ? R (ortrain_rows_read) (&run->weights, i, size, &w_buffer) : NULL;
      REAL *dx = R (ortrain_rows_target) (&run->y, at + i, &dx_buffer);
      if (b == 0)
        ORTRAIN_INDEPENDENT
      for (gint64 c = 0; c < size; c++)
        dx[c] = a * EXP (x[c] - shift);
      else ORTRAIN_INDEPENDENT
      for (gint64 c = 0; c < size; c++)
        dx[c] = a * EXP (x[c] - shift) - b * (w ? w[c] : 1);
      if (hit >= 0 && hit < size)
        dx[hit] -= position->hit;
      R (ortrain_rows_store) (&run->y, at + i, size, &dx_buffer);
    }
}

/* The same of positions [width] side by side */
static void
R (loss_grad_columns) (const LossRun *run, gint64 at, gint64 width, const R (Position) * positions)
{
  const LossPlan *plan = run->plan;
  const gboolean narrow = ortrain_dtype_is_half (run->y.dtype);
  const gint64 inner = plan->inner;
  gint64 target[LOSS_TILE];
  REAL a[LOSS_TILE], b[LOSS_TILE], shift[LOSS_TILE];
  OrtrainRowsBuffer x_buffer, dx_buffer;
  ortrain_rows_buffer_init (&x_buffer);
  for (gint64 j = 0; j < width; j++)
    {
      target[j] = positions[j].target;
      a[j] = positions[j].a;
      b[j] = positions[j].b;
      shift[j] = positions[j].shift;
    }
  for (gint64 c = 0; c < plan->n; c++)
    {
      REAL w = (REAL) R (weight_of) (run, c);
      const REAL *x = R (ortrain_rows_read) (&run->logits, at + c * inner, width, &x_buffer);
      REAL *dx = R (ortrain_rows_target) (&run->y, at + c * inner, &dx_buffer);
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < width; j++)
        dx[j] = target[j] < 0 ? 0 : a[j] * EXP (x[j] - shift[j]) - b[j] * w;
      for (gint64 j = 0; narrow && j < width; j++)
        dx[j] -= target[j] == c ? positions[j].hit : 0;
      R (ortrain_rows_store) (&run->y, at + c * inner, width, &dx_buffer);
    }
  for (gint64 j = 0; !narrow && j < width; j++)
    if (target[j] >= 0)
      ((REAL *) run->y.data)[at + target[j] * inner + j] -= positions[j].hit;
}

/* dlogits = g·[(1 - s)·w_t·(p - onehot) + s/n·(W·p - w)]; dlogits may be the logits. */
static void
R (loss_grad_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  double scale = plan->reduction == REDUCTION_NONE ? 0 : R (ortrain_rows_get) (&run->dloss, 0);
  double part = plan->smoothing / (double) plan->n;
  if (plan->reduction == REDUCTION_MEAN)
    scale /= get_divisor (R (ortrain_rows_get) (&run->total_weight, 0));
  for (gint64 i = begin; i < end;)
    {
      gint64 at = i / plan->inner * plan->n * plan->inner + i % plan->inner;
      gint64 width = MIN (MIN (LOSS_TILE, plan->inner - i % plan->inner), end - i);
      R (Position) positions[LOSS_TILE];
      for (gint64 j = 0; j < width; j++)
        {
          R (Position) *position = &positions[j];
          gboolean counts = read_target (run, i + j, &position->target);
          double g = plan->reduction == REDUCTION_NONE ? R (ortrain_rows_get) (&run->dloss, i + j) : scale;
          double own = counts ? (1 - plan->smoothing) * R (weight_of) (run, position->target) : 0;
          position->a = counts ? (REAL) (g * (own + part * run->weight_sum)) : 0;
          position->b = counts ? (REAL) (g * part) : 0;
          position->hit = counts ? (REAL) (g * own) : 0;
          position->shift = R (ortrain_rows_get) (&run->lse_in, i + j);
          position->target = counts ? position->target : -1;
        }
      if (plan->inner > 1)
        R (loss_grad_columns) (run, at, width, positions);
      else if (positions[0].target < 0)
        clear_elements (&run->y, at, plan->n);
      else
        R (loss_grad_row) (run, at, positions);
      i += width;
    }
}

/* Negative log-likelihood: -w[t]·x[t], x [outer, n, inner]. */
static void
R (nll_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  double sum = 0, total = 0;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 target;
      double loss = 0;
      if (read_target (run, i, &target))
        {
          double weight = R (weight_of) (run, target);
          gint64 at = (i / plan->inner * plan->n + target) * plan->inner + i % plan->inner;
          loss = -weight * R (ortrain_rows_get) (&run->logits, at);
          total += weight;
        }
      if (plan->reduction == REDUCTION_NONE)
        R (ortrain_rows_put) (&run->loss_out, i, loss, FALSE);
      sum += loss;
    }
  run->parts[begin / plan->grain * 2] = sum;
  run->parts[begin / plan->grain * 2 + 1] = total;
}

static void
R (nll_grad_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  for (gint64 i = begin; i < end;)
    {
      gint64 at = i / plan->inner * plan->n * plan->inner + i % plan->inner;
      gint64 width = MIN (plan->inner - i % plan->inner, end - i);
      if (plan->inner == 1)
        clear_elements (&run->y, at, plan->n);
      else
        for (gint64 c = 0; c < plan->n; c++)
          clear_elements (&run->y, at + c * plan->inner, width);
      for (gint64 j = 0; j < width; j++, i++)
        {
          gint64 target;
          if (!read_target (run, i, &target))
            continue;
          double g = R (ortrain_rows_get) (&run->dloss, plan->reduction == REDUCTION_NONE ? i : 0);
          if (plan->reduction == REDUCTION_MEAN)
            g /= get_divisor (run->total);
          R (ortrain_rows_put) (&run->y, at + target * plan->inner + j, -g * R (weight_of) (run, target), FALSE);
        }
    }
}

static void
R (store_totals) (const LossRun *run, double sum, double weight)
{
  const LossPlan *plan = run->plan;
  if (plan->reduction != REDUCTION_NONE && run->loss_out.data)
    R (ortrain_rows_put)
  (&run->loss_out, 0, plan->reduction == REDUCTION_MEAN ? sum / get_divisor (weight) : sum, FALSE);
  if (run->total_out.data)
    R (ortrain_rows_put) (&run->total_out, 0, weight, FALSE);
}

static double
R (sum_weights) (const LossRun *run)
{
  double sum = 0;
  if (run->weights.data == NULL)
    return (double) run->plan->n;
  for (gint64 c = 0; c < run->plan->n; c++)
    sum += R (ortrain_rows_get) (&run->weights, c);
  return sum;
}

/* The weight of all targets that count; for gradients that were not handed it. */
static double
R (total_weight) (const LossRun *run)
{
  double total = 0;
  for (gint64 i = 0; i < run->plan->outer * run->plan->inner; i++)
    {
      gint64 target;
      if (read_target (run, i, &target))
        total += R (weight_of) (run, target);
    }
  return total;
}
