/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-attention.c, with REAL, R(name), EXP(x) and GEMM defined. No include guard. */

/* The keys [first, last) that some row of a query block may look at, for each part of the mask that is not the same
 * everywhere. Masked scores vanish exactly beside any other; a block with a row that has no other is left whole. */
static void
R (range_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 block = u % plan->n_blocks, h = u / plan->n_blocks % plan->mask_heads;
      gint64 b = u / plan->n_blocks / plan->mask_heads;
      gint64 row = block * plan->block, rows = MIN (plan->block, plan->n_queries - row);
      gint64 first = plan->n_keys, last = 0;
      if (plan->mask_row == 0)
        rows = MIN (rows, 1);
      for (gint64 r = row; r < row + rows; r++)
        {
          gint64 at = b * plan->mask_batch + h * plan->mask_head + r * plan->mask_row, lo = 0, hi = plan->n_keys;
          if (plan->mask_kind == MASK_BOOL)
            {
              const guint8 *mask = (const guint8 *) run->mask + at;
              while (hi > 0 && !mask[hi - 1])
                hi--;
              while (lo < hi && !mask[lo])
                lo++;
            }
          else
            {
              const REAL *mask = (const REAL *) run->mask + at;
              while (hi > 0 && mask[hi - 1] <= (REAL) MASKED)
                hi--;
              while (lo < hi && mask[lo] <= (REAL) MASKED)
                lo++;
            }
          if (lo == hi) /* nothing to look at */
            {
              first = 0;
              last = plan->n_keys;
              break;
            }
          first = MIN (first, lo);
          last = MAX (last, hi);
        }
      run->ranges[2 * u] = (gint32) first;
      run->ranges[2 * u + 1] = (gint32) last;
    }
}

/* x [n]: scores of one row for the keys from `first` on; adds its mask. */
static inline void
R (add_mask) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *restrict x, gint64 n)
{
  const AttentionPlan *plan = run->plan;
  gint64 at = b * plan->mask_batch + h * plan->mask_head + row * plan->mask_row + first * plan->mask_key;
  if (plan->mask_kind == MASK_BOOL)
    {
      const guint8 *restrict mask = (const guint8 *) run->mask + at;
      REAL masked = (REAL) plan->masked_value;
      if (plan->mask_key)
        for (gint64 j = 0; j < n; j++)
          x[j] += mask[j] ? 0 : masked;
      else if (!*mask)
        for (gint64 j = 0; j < n; j++)
          x[j] += masked;
    }
  else if (plan->mask_kind == MASK_ADD)
    {
      const REAL *restrict mask = (const REAL *) run->mask + at;
      for (gint64 j = 0; j < n; j++)
        x[j] += mask[plan->mask_key ? j : 0];
    }
}

/* Whether row's mask lets nothing through. */
static gboolean
R (is_blind) (const AttentionRun *run, gint64 b, gint64 h, gint64 row)
{
  const AttentionPlan *plan = run->plan;
  const gint64 at = b * plan->mask_batch + h * plan->mask_head + row * plan->mask_row;
  for (gint64 j = 0; j < plan->n_keys; j++)
    {
      gint64 i = at + j * plan->mask_key;
      if (plan->mask_kind == MASK_NONE || (plan->mask_kind == MASK_BOOL && ((const guint8 *) run->mask)[i]) ||
          (plan->mask_kind == MASK_ADD && !(((const REAL *) run->mask)[i] == -INFINITY)))
        return FALSE;
    }
  return TRUE;
}

static inline void
R (find_range) (const AttentionRun *run, gint64 b, gint64 h, gint64 block, gint64 *first, gint64 *last)
{
  const AttentionPlan *plan = run->plan;
  *first = 0;
  *last = plan->n_keys;
  if (plan->has_ranges)
    {
      gint64 u = ((plan->mask_batch ? b : 0) * plan->mask_heads + (plan->mask_head ? h : 0)) * plan->n_blocks + block;
      *first = run->ranges[2 * u];
      *last = run->ranges[2 * u + 1];
    }
}

/* One query block of one head: scores [rows, keys] live in the worker's scratch memory only. */
static void
R (forward_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  REAL *p = (REAL *) run->scratch + (gsize) worker * plan->scratch_elements;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 block = u % plan->n_blocks, h = u / plan->n_blocks % plan->heads, b = u / plan->n_blocks / plan->heads;
      gint64 row = block * plan->block, rows = MIN (plan->block, plan->n_queries - row), first, last;
      R (find_range) (run, b, h, block, &first, &last);
      gint64 keys = last - first;
      const REAL *q = (const REAL *) run->q + base_of (&plan->q, b, h) + row * plan->q.pitch;
      const REAL *k = (const REAL *) run->k + base_of (&plan->k, b, h) + first * plan->k.pitch;
      const REAL *v = (const REAL *) run->v + base_of (&plan->v, b, h) + first * plan->v.pitch;
      REAL *y = (REAL *) run->y + base_of (&plan->y, b, h) + row * plan->y.pitch;
      GEMM (FALSE, TRUE, rows, keys, plan->q.width, (REAL) plan->scale, q, plan->q.pitch, k, plan->k.pitch, 0, p, keys);
      for (gint64 r = 0; r < rows; r++)
        {
          REAL *x = p + r * keys, scale;
          R (add_mask) (run, b, h, row + r, first, x, keys);
          REAL top = R (ortrain_lane_max) (x, keys);
          double sum = 0;
          for (gint64 j = 0; j < keys; j += 512)
            {
              gint64 n = MIN (512, keys - j);
              ORTRAIN_INDEPENDENT
              for (gint64 i = j; i < j + n; i++)
                x[i] = EXP (x[i] - top);
              sum += R (ortrain_lane_sum) (x + j, n, 0);
            }
          double lse = top + log (sum);
          scale = (REAL) (1 / sum);
          if (isnan (sum) &&
              (plan->guard == GUARD_NAN || (plan->guard == GUARD_BLIND && R (is_blind) (run, b, h, row + r))))
            {
              lse = INFINITY;
              memset (x, 0, (gsize) keys * sizeof (REAL));
            }
          else
            for (gint64 j = 0; j < keys; j++)
              x[j] *= scale;
          if (run->lse)
            ((REAL *) run->lse)[(b * plan->heads + h) * plan->n_queries + row + r] = (REAL) lse;
        }
      GEMM (FALSE, FALSE, rows, plan->v.width, keys, 1, p, keys, v, plan->v.pitch, 0, y, plan->y.pitch);
    }
}

static void
R (clear_rows) (REAL *x, gint64 rows, const AttentionOperand *operand)
{
  for (gint64 r = 0; r < rows; r++)
    memset (x + r * operand->pitch, 0, (gsize) operand->width * sizeof (REAL));
}

/* One head: blocks of queries in order, so that dk and dv add up in order. Probabilities are made again from lse. */
static void
R (backward_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  REAL *p = (REAL *) run->scratch + (gsize) worker * plan->scratch_elements;
  REAL *dp = p + (gsize) plan->block * (gsize) plan->n_keys;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 h = u % plan->heads, b = u / plan->heads;
      REAL *dq = run->dq ? (REAL *) run->dq + base_of (&plan->q, b, h) : NULL;
      REAL *dk = run->dk ? (REAL *) run->dk + base_of (&plan->k, b, h) : NULL;
      REAL *dv = run->dv ? (REAL *) run->dv + base_of (&plan->v, b, h) : NULL;
      if (dk)
        R (clear_rows) (dk, plan->n_keys, &plan->k);
      if (dv)
        R (clear_rows) (dv, plan->n_keys, &plan->v);
      for (gint64 block = 0; block < plan->n_blocks; block++)
        {
          gint64 row = block * plan->block, rows = MIN (plan->block, plan->n_queries - row), first, last;
          R (find_range) (run, b, h, block, &first, &last);
          gint64 keys = last - first;
          const REAL *q = (const REAL *) run->q + base_of (&plan->q, b, h) + row * plan->q.pitch;
          const REAL *k = (const REAL *) run->k + base_of (&plan->k, b, h) + first * plan->k.pitch;
          const REAL *v = (const REAL *) run->v + base_of (&plan->v, b, h) + first * plan->v.pitch;
          const REAL *dy = (const REAL *) run->dy + base_of (&plan->y, b, h) + row * plan->y.pitch;
          GEMM (FALSE, TRUE, rows, keys, plan->q.width, (REAL) plan->scale, q, plan->q.pitch, k, plan->k.pitch, 0, p,
                keys);
          if (dq || dk)
            GEMM (FALSE, TRUE, rows, keys, plan->v.width, 1, dy, plan->y.pitch, v, plan->v.pitch, 0, dp, keys);
          for (gint64 r = 0; r < rows; r++)
            {
              REAL *x = p + r * keys, *dx = dp + r * keys;
              REAL lse = ((const REAL *) run->lse)[(b * plan->heads + h) * plan->n_queries + row + r];
              if (isinf (lse) && lse > 0) /* a guarded row */
                {
                  memset (x, 0, (gsize) keys * sizeof (REAL));
                  memset (dx, 0, (gsize) keys * sizeof (REAL));
                  continue;
                }
              R (add_mask) (run, b, h, row + r, first, x, keys);
              ORTRAIN_INDEPENDENT
              for (gint64 j = 0; j < keys; j++)
                x[j] = EXP (x[j] - lse);
              if (!dq && !dk)
                continue;
              REAL dot = (REAL) R (ortrain_lane_dot) (x, dx, keys, 0), scale = (REAL) plan->scale;
              ORTRAIN_INDEPENDENT
              for (gint64 j = 0; j < keys; j++)
                dx[j] = x[j] * (dx[j] - dot) * scale;
            }
          if (dv)
            GEMM (TRUE, FALSE, keys, plan->v.width, rows, 1, p, keys, dy, plan->y.pitch, 1, dv + first * plan->v.pitch,
                  plan->v.pitch);
          if (dq)
            GEMM (FALSE, FALSE, rows, plan->q.width, keys, 1, dp, keys, k, plan->k.pitch, 0, dq + row * plan->q.pitch,
                  plan->q.pitch);
          if (dk)
            GEMM (TRUE, FALSE, keys, plan->k.width, rows, 1, dp, keys, q, plan->q.pitch, 1, dk + first * plan->k.pitch,
                  plan->k.pitch);
        }
    }
}
