/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-loss.c, with REAL, R(name) and EXP(x) defined. No include guard. */

/* log Σ e^x of one row, in one pass over memory: the maximum moves block by block. */
static inline double
R (log_sum_exp) (const REAL *x, gint64 n)
{
  REAL top = -INFINITY;
  double sum = 0;
  for (gint64 i = 0; i < n; i += 2048)
    {
      gint64 size = MIN (2048, n - i);
      REAL here = R (ortrain_lane_max) (x + i, size);
      if (here > top)
        {
          sum = sum == 0 ? 0 : sum * exp ((double) top - here);
          top = here;
        }
      /* nothing but -inf so far: a NaN must still be seen */
      sum += R (ortrain_lane_sum_exp) (x + i, size, isinf (top) && top < 0 ? 0 : top);
    }
  return top + log (sum);
}

/* The loss of one position: its logits lie `step` apart. */
static inline double
R (position_loss) (const LossRun *run, const REAL *x, gint64 step, gint64 target, double lse)
{
  const LossPlan *plan = run->plan;
  const REAL *weights = run->weights;
  double weight = weights ? weights[target] : 1;
  double loss = (1 - plan->smoothing) * weight * (lse - x[target * step]);
  if (plan->smoothing != 0)
    {
      double sum = 0;
      if (step == 1)
        sum = weights ? R (ortrain_lane_dot) (x, weights, plan->n, 0) : R (ortrain_lane_sum) (x, plan->n, 0);
      else
        for (gint64 c = 0; c < plan->n; c++)
          sum += x[c * step] * (weights ? (double) weights[c] : 1);
      loss += plan->smoothing / (double) plan->n * (run->weight_sum * lse - sum);
    }
  return loss;
}

/* Positions [begin, end) of outer · inner; sums of the chunk go to its place in `parts`. */
static void
R (loss_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  REAL *lse_out = run->lse_out, *loss_out = run->loss_out;
  double sum = 0, weight = 0;
  for (gint64 i = begin; i < end;)
    {
      gint64 at = i / plan->inner * plan->n * plan->inner + i % plan->inner, width = 1;
      const REAL *x = (const REAL *) run->logits + at;
      double lse[LOSS_TILE];
      if (plan->inner == 1)
        lse[0] = R (log_sum_exp) (x, plan->n);
      else
        {
          REAL top[LOSS_TILE];
          width = MIN (MIN (LOSS_TILE, plan->inner - i % plan->inner), end - i);
          for (gint64 j = 0; j < width; j++)
            {
              top[j] = -INFINITY;
              lse[j] = 0;
            }
          for (gint64 c = 0; c < plan->n; c++)
            for (gint64 j = 0; j < width; j++)
              top[j] = x[c * plan->inner + j] > top[j] ? x[c * plan->inner + j] : top[j];
          for (gint64 c = 0; c < plan->n; c++)
            for (gint64 j = 0; j < width; j++)
              lse[j] += EXP (x[c * plan->inner + j] - top[j]);
          for (gint64 j = 0; j < width; j++)
            lse[j] = top[j] + log (lse[j]);
        }
      for (gint64 j = 0; j < width; j++, i++)
        {
          gint64 target;
          double loss = 0;
          if (lse_out)
            lse_out[i] = (REAL) lse[j];
          if (read_target (run, i, &target))
            {
              loss = R (position_loss) (run, x + j, plan->inner, target, lse[j]);
              weight += run->weights ? ((const REAL *) run->weights)[target] : 1;
            }
          if (plan->reduction == REDUCTION_NONE)
            loss_out[i] = (REAL) loss;
          sum += loss;
        }
    }
  run->parts[begin / plan->grain * 2] = sum;
  run->parts[begin / plan->grain * 2 + 1] = weight;
}

/* dlogits = g·[(1 - s)·w_t·(p - onehot) + s/n·(W·p - w)]; dlogits may be the logits. */
static void
R (loss_grad_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  const REAL *weights = run->weights, *lse = run->lse_in, *dloss = run->dloss;
  double scale = plan->reduction == REDUCTION_NONE ? 0 : dloss[0];
  double part = plan->smoothing / (double) plan->n;
  if (plan->reduction == REDUCTION_MEAN)
    scale /= *(const REAL *) run->total_weight;
  for (gint64 i = begin; i < end;)
    {
      gint64 at = i / plan->inner * plan->n * plan->inner + i % plan->inner;
      gint64 width = MIN (MIN (LOSS_TILE, plan->inner - i % plan->inner), end - i), n = plan->n, inner = plan->inner;
      const REAL *x = (const REAL *) run->logits + at;
      REAL *dx = (REAL *) run->y + at;
      gint64 target[LOSS_TILE];
      REAL a[LOSS_TILE], b[LOSS_TILE], hit[LOSS_TILE], shift[LOSS_TILE];
      for (gint64 j = 0; j < width; j++)
        {
          gboolean counts = read_target (run, i + j, &target[j]);
          double g = plan->reduction == REDUCTION_NONE ? dloss[i + j] : scale;
          double own = counts ? (1 - plan->smoothing) * (weights ? weights[target[j]] : 1) : 0;
          a[j] = counts ? (REAL) (g * (own + part * run->weight_sum)) : 0;
          b[j] = counts ? (REAL) (g * part) : 0;
          hit[j] = counts ? (REAL) (g * own) : 0;
          shift[j] = lse[i + j];
          target[j] = counts ? target[j] : -1;
        }
      if (inner == 1)
        {
          REAL a0 = a[0], b0 = b[0], shift0 = shift[0];
          if (target[0] < 0)
            memset (dx, 0, (gsize) n * sizeof (REAL));
          else if (b0 == 0)
            ORTRAIN_INDEPENDENT
          for (gint64 c = 0; c < n; c++)
            dx[c] = a0 * EXP (x[c] - shift0);
          else ORTRAIN_INDEPENDENT
          for (gint64 c = 0; c < n; c++)
            dx[c] = a0 * EXP (x[c] - shift0) - b0 * (weights ? weights[c] : 1);
        }
      else
        for (gint64 c = 0; c < n; c++)
          {
            REAL w = weights ? weights[c] : 1;
            ORTRAIN_INDEPENDENT
            for (gint64 j = 0; j < width; j++)
              dx[c * inner + j] = target[j] < 0 ? 0 : a[j] * EXP (x[c * inner + j] - shift[j]) - b[j] * w;
          }
      for (gint64 j = 0; j < width; j++)
        if (target[j] >= 0)
          dx[target[j] * inner + j] -= hit[j];
      i += width;
    }
}

/* Negative log-likelihood: -w[t]·x[t], x [outer, n, inner]. */
static void
R (nll_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const LossRun *run = data;
  const LossPlan *plan = run->plan;
  const REAL *weights = run->weights;
  REAL *loss_out = run->loss_out;
  double sum = 0, total = 0;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 target;
      double loss = 0;
      if (read_target (run, i, &target))
        {
          double weight = weights ? weights[target] : 1;
          gint64 at = (i / plan->inner * plan->n + target) * plan->inner + i % plan->inner;
          loss = -weight * ((const REAL *) run->logits)[at];
          total += weight;
        }
      if (plan->reduction == REDUCTION_NONE)
        loss_out[i] = (REAL) loss;
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
  const REAL *weights = run->weights, *dloss = run->dloss;
  REAL *dx = run->y;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 target, at = i / plan->inner * plan->n * plan->inner + i % plan->inner;
      for (gint64 c = 0; c < plan->n; c++)
        dx[at + c * plan->inner] = 0;
      if (!read_target (run, i, &target))
        continue;
      double g = plan->reduction == REDUCTION_NONE ? dloss[i] : dloss[0];
      if (plan->reduction == REDUCTION_MEAN)
        g /= run->total;
      dx[at + target * plan->inner] = (REAL) (-g * (weights ? weights[target] : 1));
    }
}

static void
R (store_totals) (const LossRun *run, double sum, double weight)
{
  const LossPlan *plan = run->plan;
  if (plan->reduction != REDUCTION_NONE && run->loss_out)
    *(REAL *) run->loss_out = (REAL) (plan->reduction == REDUCTION_MEAN ? sum / weight : sum);
  if (run->total_out)
    *(REAL *) run->total_out = (REAL) weight;
}

static double
R (sum_weights) (const LossRun *run)
{
  double sum = 0;
  if (run->weights == NULL)
    return (double) run->plan->n;
  for (gint64 c = 0; c < run->plan->n; c++)
    sum += ((const REAL *) run->weights)[c];
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
        total += run->weights ? ((const REAL *) run->weights)[target] : 1;
    }
  return total;
}
