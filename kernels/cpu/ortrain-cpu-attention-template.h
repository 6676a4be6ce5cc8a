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
      if (plan->mask.row == 0)
        rows = MIN (rows, 1);
      for (gint64 r = row; r < row + rows; r++)
        {
          gint64 at = b * plan->mask.batch + h * plan->mask.head + r * plan->mask.row, lo = 0, hi = plan->n_keys;
          if (plan->mask.kind == MASK_BOOL)
            {
              const guint8 *mask = (const guint8 *) run->mask.data + at;
              while (hi > 0 && !mask[hi - 1])
                hi--;
              while (lo < hi && !mask[lo])
                lo++;
            }
          else
            {
              while (hi > 0 && R (ortrain_rows_get) (&run->mask, at + hi - 1) <= (REAL) MASKED)
                hi--;
              while (lo < hi && R (ortrain_rows_get) (&run->mask, at + lo) <= (REAL) MASKED)
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

/* x [n]: scores of one row for the keys from `first` on; adds the mask's (or the bias's) row. */
static inline void
R (add_mask) (const AttentionPlan *plan, const AttentionMask *self, const OrtrainRows *rows, gint64 b, gint64 h,
              gint64 row, gint64 first, REAL *restrict x, gint64 n)
{
  gint64 at = b * self->batch + h * self->head + row * self->row + first * self->key;
  if (self->kind == MASK_BOOL)
    {
      const guint8 *restrict mask = (const guint8 *) rows->data + at;
      REAL masked = (REAL) plan->masked_value;
      if (self->key)
        for (gint64 j = 0; j < n; j++)
          x[j] += mask[j] ? 0 : masked;
      else if (!*mask)
        for (gint64 j = 0; j < n; j++)
          x[j] += masked;
    }
  else if (self->kind == MASK_ADD)
    {
      OrtrainRowsBuffer buffer;
      const gint64 step = self->key ? ortrain_rows_get_step (&plan->types, n) : 1;
      const REAL same = self->key ? 0 : R (ortrain_rows_get) (rows, at);
      ortrain_rows_buffer_init (&buffer);
      for (gint64 i = 0; self->key && i < n; i += step)
        {
          const gint64 size = MIN (step, n - i);
          const REAL *restrict mask = R (ortrain_rows_read) (rows, at + i, size, &buffer);
          for (gint64 j = 0; j < size; j++)
            x[i + j] += mask[j];
        }
      for (gint64 j = 0; !self->key && j < n; j++)
        x[j] += same;
    }
}

static inline void
R (add_masks) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *x, gint64 n)
{
  const AttentionPlan *plan = run->plan;
  if (plan->bias.kind != MASK_NONE)
    R (add_mask) (plan, &plan->bias, &run->bias, b, h, row, first, x, n);
  R (add_mask) (plan, &plan->mask, &run->mask, b, h, row, first, x, n);
}

/* Whether row's mask lets nothing through. */
static gboolean
R (is_blind) (const AttentionRun *run, gint64 b, gint64 h, gint64 row)
{
  const AttentionPlan *plan = run->plan;
  const gint64 at = b * plan->mask.batch + h * plan->mask.head + row * plan->mask.row;
  for (gint64 j = 0; j < plan->n_keys; j++)
    {
      gint64 i = at + j * plan->mask.key;
      if (plan->mask.kind == MASK_NONE || (plan->mask.kind == MASK_BOOL && ((const guint8 *) run->mask.data)[i]) ||
          (plan->mask.kind == MASK_ADD && !(R (ortrain_rows_get) (&run->mask, i) == -INFINITY)))
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
      gint64 u = ((plan->mask.batch ? b : 0) * plan->mask_heads + (plan->mask.head ? h : 0)) * plan->n_blocks + block;
      *first = run->ranges[2 * u];
      *last = run->ranges[2 * u + 1];
    }
}

/* Rows [first, first + n) of one head as a product reads or writes them: where they lie, or with 16 bits in `buffer`. */
typedef struct
{
  REAL *rows;
  gint64 pitch, first, n;
} R (Tile);

/* at: the element at which row 0 begins. What the tile holds already is not widened again: a tile that begins at the same
 * row grows. */
static void
R (read_tile) (R (Tile) * self, const OrtrainRows *operand, const AttentionOperand *shape, gint64 at, gint64 first,
               gint64 n, REAL *buffer)
{
  if (!ortrain_dtype_is_half (operand->dtype))
    {
      *self = (R (Tile)){ (REAL *) operand->data + at + first * shape->pitch, shape->pitch, first, n };
      return;
    }
  const gint64 held = self->rows == buffer && self->first == first ? self->n : 0;
  *self = (R (Tile)){ buffer, shape->width, first, MAX (held, n) };
  for (gint64 r = held; r < n; r++)
    {
      const gint64 row = at + (first + r) * shape->pitch;
      /* what lies behind is the row of the next head where heads are packed, and of this one where not */
      for (gint64 i = 0; i < shape->width; i += 32)
        __builtin_prefetch ((const guint16 *) operand->data + row + shape->width + i);
      ortrain_rows_widen (operand, row, shape->width, (float *) buffer + r * shape->width);
    }
}

/* Rows that are computed: zeroed if so wished. */
static R (Tile) R (open_tile) (const OrtrainRows *operand, const AttentionOperand *shape, gint64 at, gint64 first,
                               gint64 n, REAL *buffer, gboolean clear)
{
  const gboolean narrow = ortrain_dtype_is_half (operand->dtype);
  R (Tile) self = { buffer, shape->width, first, n };
  if (operand->data == NULL)
    return (R (Tile)){ 0 };
  if (!narrow)
    {
      self.rows = (REAL *) operand->data + at + first * shape->pitch;
      self.pitch = shape->pitch;
    }
  for (gint64 r = 0; clear && r < n; r++)
    memset (self.rows + r * self.pitch, 0, (gsize) shape->width * sizeof (REAL));
  return self;
}

/* Rounds what was computed in a buffer. */
static void
R (close_tile) (const R (Tile) * self, const OrtrainRows *operand, const AttentionOperand *shape, gint64 at)
{
  if (self->rows != NULL && ortrain_dtype_is_half (operand->dtype))
    for (gint64 r = 0; r < self->n; r++)
      ortrain_rows_narrow (operand, at + (self->first + r) * shape->pitch, shape->width,
                           (const float *) self->rows + r * self->pitch);
}

/* x [keys]: the scores of one row become probabilities; returns the logarithm of the sum of their exponentials. */
static inline double
R (softmax_row) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *x, gint64 keys)
{
  const AttentionPlan *plan = run->plan;
  R (add_masks) (run, b, h, row, first, x, keys);
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
  REAL scale = (REAL) (1 / sum);
  if (isnan (sum) && (plan->guard == GUARD_NAN || (plan->guard == GUARD_BLIND && R (is_blind) (run, b, h, row))))
    {
      memset (x, 0, (gsize) keys * sizeof (REAL));
      return INFINITY;
    }
  for (gint64 j = 0; j < keys; j++)
    x[j] *= scale;
  return top + log (sum);
}

/* One query block of one head: scores [rows, keys] live in the worker's scratch memory only, and so does what is widened,
 * a tile of keys at a time. */
static void
R (forward_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  REAL *p = (REAL *) run->scratch + (gsize) worker * plan->scratch_elements;
  R (Tile) k = { 0 }, v = { 0 };
  for (gint64 u = begin; u < end; u++)
    {
      gint64 block = u % plan->n_blocks, h = u / plan->n_blocks % plan->heads, b = u / plan->n_blocks / plan->heads;
      gint64 row = block * plan->block, rows = MIN (plan->block, plan->n_queries - row), first, last;
      R (find_range) (run, b, h, block, &first, &last);
      const gint64 keys = last - first, start = first - first % plan->tile;
      R (Tile) q = { 0 };
      if (block == 0) /* another head */
        k = v = q;
      R (read_tile) (&q, &run->q, &plan->q, base_of (&plan->q, b, h), row, rows, p + plan->q.buffer);
      for (gint64 t = start; t < last; t += plan->tile)
        {
          const gint64 lo = MAX (first, t), n = MIN (last, t + plan->tile) - lo;
          R (read_tile) (&k, &run->k, &plan->k, base_of (&plan->k, b, h), lo, n, p + plan->k.buffer);
          GEMM (FALSE, TRUE, rows, n, plan->q.width, (REAL) plan->scale, q.rows, q.pitch, k.rows, k.pitch, 0,
                p + lo - first, keys);
        }
      for (gint64 r = 0; r < rows; r++)
        {
          double lse = R (softmax_row) (run, b, h, row + r, first, p + r * keys, keys);
          if (run->lse.data)
            R (ortrain_rows_put) (&run->lse, (b * plan->heads + h) * plan->n_queries + row + r, lse, FALSE);
        }
      const gint64 at = base_of (&plan->y, b, h);
      R (Tile) y = R (open_tile) (&run->y, &plan->y, at, row, rows, p + plan->y.buffer, FALSE);
      for (gint64 t = start; t < last; t += plan->tile)
        {
          const gint64 lo = MAX (first, t), n = MIN (last, t + plan->tile) - lo;
          R (read_tile) (&v, &run->v, &plan->v, base_of (&plan->v, b, h), lo, n, p + plan->v.buffer);
          GEMM (FALSE, FALSE, rows, plan->v.width, n, 1, p + lo - first, keys, v.rows, v.pitch, t > start, y.rows,
                y.pitch);
        }
      R (close_tile) (&y, &run->y, &plan->y, at);
    }
}

/* One row: scores x [keys] become probabilities again, their gradient dx that of the products q·k (NULL: not wanted).
 * dbias: where the gradients of the slice of the bias are summed, or NULL. */
static inline void
R (softmax_grad_row) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *x, REAL *dx,
                      gint64 keys, REAL *dbias)
{
  const AttentionPlan *plan = run->plan;
  const REAL lse = R (ortrain_rows_get) (&run->lse, (b * plan->heads + h) * plan->n_queries + row);
  if (isinf (lse) && lse > 0) /* a guarded row */
    {
      memset (x, 0, (gsize) keys * sizeof (REAL));
      if (dx)
        memset (dx, 0, (gsize) keys * sizeof (REAL));
      return;
    }
  R (add_masks) (run, b, h, row, first, x, keys);
  ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < keys; j++)
    x[j] = EXP (x[j] - lse);
  if (!dx)
    return;
  REAL dot = (REAL) R (ortrain_lane_dot) (x, dx, keys, 0), scale = (REAL) plan->scale;
  if (dbias == NULL)
    {
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < keys; j++)
        dx[j] = x[j] * (dx[j] - dot) * scale;
      return;
    }
  REAL *restrict db = dbias + row * plan->bias.row + first * plan->bias.key;
  for (gint64 j = 0; j < keys; j++)
    dx[j] = x[j] * (dx[j] - dot);
  if (plan->bias.key)
    for (gint64 j = 0; j < keys; j++)
      db[j] += dx[j];
  else
    *db += (REAL) R (ortrain_lane_sum) (dx, keys, 0);
  for (gint64 j = 0; j < keys; j++)
    dx[j] *= scale;
}

/* Heads u of [batch, heads]: in each, blocks of queries in order, so that dk and dv add up in order, in float32 where
 * they have 16 bits. Probabilities are made again from lse. */
static void
R (backward_heads) (const AttentionRun *run, gint64 begin, gint64 end, guint worker, REAL *dbias)
{
  const AttentionPlan *plan = run->plan;
  REAL *p = (REAL *) run->scratch + (gsize) worker * plan->scratch_elements;
  REAL *dp = run->dq.data || run->dk.data || dbias ? p + (gsize) plan->block * (gsize) plan->n_keys : NULL;
  for (gint64 u = begin; u < end; u++)
    {
      const gint64 h = u % plan->heads, b = u / plan->heads, q_at = base_of (&plan->q, b, h);
      const gint64 k_at = base_of (&plan->k, b, h), v_at = base_of (&plan->v, b, h), y_at = base_of (&plan->y, b, h);
      R (Tile) q = { 0 }, k = { 0 }, v = { 0 }, dy = { 0 };
      R (Tile) dk = R (open_tile) (&run->dk, &plan->k, k_at, 0, plan->n_keys, p + plan->dk_buffer, TRUE);
      R (Tile) dv = R (open_tile) (&run->dv, &plan->v, v_at, 0, plan->n_keys, p + plan->dv_buffer, TRUE);
      for (gint64 block = 0; block < plan->n_blocks; block++)
        {
          gint64 row = block * plan->block, rows = MIN (plan->block, plan->n_queries - row), first, last;
          R (find_range) (run, b, h, block, &first, &last);
          const gint64 keys = last - first, start = first - first % plan->tile;
          R (read_tile) (&q, &run->q, &plan->q, q_at, row, rows, p + plan->q.buffer);
          R (read_tile) (&dy, &run->dy, &plan->y, y_at, row, rows, p + plan->y.buffer);
          for (gint64 t = start; t < last; t += plan->tile)
            {
              const gint64 lo = MAX (first, t), n = MIN (last, t + plan->tile) - lo;
              R (read_tile) (&k, &run->k, &plan->k, k_at, lo, n, p + plan->k.buffer);
              GEMM (FALSE, TRUE, rows, n, plan->q.width, (REAL) plan->scale, q.rows, q.pitch, k.rows, k.pitch, 0,
                    p + lo - first, keys);
              if (!dp)
                continue;
              R (read_tile) (&v, &run->v, &plan->v, v_at, lo, n, p + plan->v.buffer);
              GEMM (FALSE, TRUE, rows, n, plan->v.width, 1, dy.rows, dy.pitch, v.rows, v.pitch, 0, dp + lo - first,
                    keys);
            }
          for (gint64 r = 0; r < rows; r++)
            R (softmax_grad_row) (run, b, h, row + r, first, p + r * keys, dp ? dp + r * keys : NULL, keys, dbias);
          if (dv.rows)
            GEMM (TRUE, FALSE, keys, plan->v.width, rows, 1, p, keys, dy.rows, dy.pitch, 1, dv.rows + first * dv.pitch,
                  dv.pitch);
          if (run->dq.data)
            {
              R (Tile) dq = R (open_tile) (&run->dq, &plan->q, q_at, row, rows, p + plan->dq_buffer, FALSE);
              for (gint64 t = start; t < last; t += plan->tile)
                {
                  const gint64 lo = MAX (first, t), n = MIN (last, t + plan->tile) - lo;
                  R (read_tile) (&k, &run->k, &plan->k, k_at, lo, n, p + plan->k.buffer);
                  GEMM (FALSE, FALSE, rows, plan->q.width, n, 1, dp + lo - first, keys, k.rows, k.pitch, t > start,
                        dq.rows, dq.pitch);
                }
              R (close_tile) (&dq, &run->dq, &plan->q, q_at);
            }
          if (dk.rows)
            GEMM (TRUE, FALSE, keys, plan->k.width, rows, 1, dp, keys, q.rows, q.pitch, 1, dk.rows + first * dk.pitch,
                  dk.pitch);
        }
      R (close_tile) (&dk, &run->dk, &plan->k, k_at);
      R (close_tile) (&dv, &run->dv, &plan->v, v_at);
    }
}

static void
R (backward_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  R (backward_heads) (data, begin, end, worker, NULL);
}

/* One part of the heads that read the same slice of the bias, in order. */
static void
R (bias_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  const AttentionMask *bias = &plan->bias;
  for (gint64 u = begin; u < end; u++)
    {
      const gint64 slice = u / plan->parts, part = u % plan->parts;
      REAL *sums = run->sums ? (REAL *) run->sums + part * plan->slices * plan->slice_elements : run->dbias.data;
      sums += slice * plan->slice_elements;
      if (run->sums || !run->accumulates)
        memset (sums, 0, (gsize) plan->slice_elements * sizeof (REAL));
      for (gint64 m = part * plan->members / plan->parts; m < (part + 1) * plan->members / plan->parts; m++)
        {
          const gint64 first = bias->batch ? (bias->head ? slice : slice * plan->heads) : bias->head ? slice : 0;
          const gint64 head = first + (bias->head ? m * plan->heads : m);
          R (backward_heads) (run, head, head + 1, worker, sums);
        }
    }
}

static void
R (sum_parts) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  const gint64 n = plan->slices * plan->slice_elements;
  for (gint64 i = begin; i < end; i++)
    {
      REAL sum = 0;
      for (gint64 part = 0; part < plan->parts; part++)
        sum += ((const REAL *) run->sums)[part * n + i];
      R (ortrain_rows_put) (&run->dbias, i, sum, run->accumulates);
    }
}
