/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-attention.c, with REAL, R(name), EXP(x) and GEMM defined. No include guard. */

/* The keys [first, last) that some row of a query block may look at, for each part of the mask that is not the same
 * everywhere. Masked scores vanish exactly next to any score that is not masked; a block with a row of masked scores
 * only keeps all its keys. */
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
      if (plan->fills)
        for (gint64 j = 0; j < n; j++)
          x[j] = mask[j * self->key] ? x[j] : masked;
      else if (self->key)
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

/* Rows [first, first + n) of one head as a product reads or writes them: where they lie, or with 16 bits in `buffer`.
 */
typedef struct
{
  REAL *rows;
  gint64 pitch, first, n;
} R (Tile);

/* at: the element at which row 0 begins. Rows that the tile holds already are not widened again: a tile that begins at
 * the same row grows. */
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
      /* the next row in memory belongs to the next head where heads are packed, and to this one where not */
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

/* Rounds the results that were computed in a buffer. */
static void
R (close_tile) (const R (Tile) * self, const OrtrainRows *operand, const AttentionOperand *shape, gint64 at)
{
  if (self->rows != NULL && ortrain_dtype_is_half (operand->dtype))
    for (gint64 r = 0; r < self->n; r++)
      ortrain_rows_narrow (operand, at + (self->first + r) * shape->pitch, shape->width,
                           (const float *) self->rows + r * self->pitch);
}

/* Where heads that share something sum its gradients: NULL, or of one slice. */
typedef struct
{
  REAL *dbias, *positions[N_POSITIONS]; /* positions [positions, width] */
  gint64 pitch[N_POSITIONS];
} R (Shared);

#include "ortrain-cpu-attention-positions-template.h"

/* x [n] become exponentials, against the largest, and a factor makes probabilities of them. Returns the logarithm of
 * their sum without that factor. */
static inline double
R (exponentiate) (REAL *x, gint64 n, double *sum)
{
  REAL top = R (ortrain_lane_max) (x, n);
  *sum = 0;
  for (gint64 j = 0; j < n; j += 512)
    {
      gint64 size = MIN (512, n - j);
      ORTRAIN_INDEPENDENT
      for (gint64 i = j; i < j + size; i++)
        x[i] = EXP (x[i] - top);
      *sum += R (ortrain_lane_sum) (x + j, size, 0);
    }
  return top + log (*sum);
}

static void
R (soften) (REAL *x, gint64 n)
{
  double sum;
  R (exponentiate) (x, n, &sum);
  for (gint64 j = 0; j < n; j++)
    x[j] *= (REAL) (1 / sum);
}

/* Factors of a row's probabilities, [keys]: 0, or the scale of the kept ones. */
static inline const REAL *
R (draw_row) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *p, gint64 keys)
{
  const AttentionPlan *plan = run->plan;
  REAL *restrict factors = p + plan->dropout.factors;
  const REAL kept = (REAL) run->kept;
  const gint64 begin = ((b * plan->heads + h) * plan->n_queries + row) * plan->n_keys + first;
  for (gint64 i = begin - begin % 4; i < begin + keys; i += ORTRAIN_CPU_PHILOX_WORDS)
    {
      guint32 words[ORTRAIN_CPU_PHILOX_WORDS];
      const gint64 from = MAX (i, begin), to = MIN (i + ORTRAIN_CPU_PHILOX_WORDS, begin + keys);
      ortrain_cpu_philox_draw (&run->key, (guint64) i / 4, words);
      for (gint64 j = from; j < to; j++)
        factors[j - begin] = (words[j - i] >> 8) >= run->threshold ? kept : 0;
    }
  return factors;
}

static inline void
R (drop) (REAL *restrict x, const REAL *restrict factors, gint64 n)
{
  ORTRAIN_INDEPENDENT
  for (gint64 j = 0; j < n; j++)
    x[j] = factors[j] > 0 ? x[j] * factors[j] : 0;
}

/* x [keys]: the scores of one row become probabilities; returns the logarithm of the sum of their exponentials. */
static inline double
R (softmax_row) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *x, gint64 keys)
{
  const AttentionPlan *plan = run->plan;
  double sum;
  R (add_masks) (run, b, h, row, first, x, keys);
  const double lse = R (exponentiate) (x, keys, &sum);
  REAL scale = (REAL) (1 / sum);
  if (isnan (sum) && (plan->guard == GUARD_NAN || (plan->guard == GUARD_BLIND && R (is_blind) (run, b, h, row))))
    {
      memset (x, 0, (gsize) keys * sizeof (REAL));
      return INFINITY;
    }
  for (gint64 j = 0; j < keys; j++)
    x[j] *= scale;
  return lse;
}

/* One query block of one head: scores [rows, keys] live in the worker's scratch memory only, and so do widened
 * operands, a tile of keys at a time. */
static void
R (forward_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  REAL *p = (REAL *) run->scratch + (gsize) worker * plan->scratch_elements;
  R (Tile) k = { 0 }, v = { 0 };
  R (Positions) of_keys, of_queries;
  gint64 head = -1; /* whose products with positions there are */
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
      if (plan->is_relative)
        {
          if (u / plan->n_blocks != head)
            {
              R (start_positions) (run, b, h, p, &of_keys, &of_queries);
              head = u / plan->n_blocks;
              k = (R (Tile)){ 0 }; /* its place was used */
            }
          R (add_positions) (run, &of_keys, &of_queries, &q, first, last, p);
        }
      for (gint64 r = 0; r < rows; r++)
        {
          double lse = R (softmax_row) (run, b, h, row + r, first, p + r * keys, keys);
          if (run->drops)
            R (drop) (p + r * keys, R (draw_row) (run, b, h, row + r, first, p, keys), keys);
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

/* One row: scores x [keys] become probabilities again, their gradient dx that of the products q·k, and with positions
 * that of the scores (NULL: not wanted). dbias: where the gradients of the slice of the bias are summed, or NULL.
 * factors: those of dropout for dx, or NULL. */
static inline void
R (softmax_grad_row) (const AttentionRun *run, gint64 b, gint64 h, gint64 row, gint64 first, REAL *x, REAL *dx,
                      gint64 keys, REAL *dbias, const REAL *factors)
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
  if (lse < (REAL) LOST) /* the number of keys is not in it */
    R (soften) (x, keys);
  else
    {
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < keys; j++)
        x[j] = EXP (x[j] - lse);
    }
  if (!dx)
    return;
  if (factors != NULL)
    R (drop) (dx, factors, keys);
  REAL dot = (REAL) R (ortrain_lane_dot) (x, dx, keys, 0), scale = plan->is_relative ? 1 : (REAL) plan->scale;
  if (dbias == NULL)
    {
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < keys; j++)
        dx[j] = x[j] * (dx[j] - dot) * scale;
      if (plan->fills) /* replaced scores have no gradient */
        {
          const gint64 at = b * plan->mask.batch + h * plan->mask.head + row * plan->mask.row + first * plan->mask.key;
          const guint8 *restrict mask = (const guint8 *) run->mask.data + at;
          for (gint64 j = 0; j < keys; j++)
            dx[j] = mask[j * plan->mask.key] ? dx[j] : 0;
        }
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
R (backward_heads) (const AttentionRun *run, gint64 begin, gint64 end, guint worker, const R (Shared) * shared)
{
  const AttentionPlan *plan = run->plan;
  REAL *p = (REAL *) run->scratch + (gsize) worker * plan->scratch_elements;
  REAL *dbias = shared ? shared->dbias : NULL;
  REAL *dp = run->dq.data || run->dk.data || shared ? p + (gsize) plan->block * (gsize) plan->n_keys : NULL;
  const REAL scale = plan->is_relative ? (REAL) plan->scale : 1;
  R (Positions) of_keys, of_queries;
  for (gint64 u = begin; u < end; u++)
    {
      const gint64 h = u % plan->heads, b = u / plan->heads, q_at = base_of (&plan->q, b, h);
      const gint64 k_at = base_of (&plan->k, b, h), v_at = base_of (&plan->v, b, h), y_at = base_of (&plan->y, b, h);
      R (Tile) q = { 0 }, k = { 0 }, v = { 0 }, dy = { 0 };
      R (Tile) dk = R (open_tile) (&run->dk, &plan->k, k_at, 0, plan->n_keys, p + plan->dk_buffer, TRUE);
      R (Tile) dv = R (open_tile) (&run->dv, &plan->v, v_at, 0, plan->n_keys, p + plan->dv_buffer, TRUE);
      if (plan->is_relative)
        R (start_positions) (run, b, h, p, &of_keys, &of_queries);
      if (plan->is_relative && dp)
        R (start_position_gradients) (run, &of_queries);
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
          if (plan->is_relative)
            R (add_positions) (run, &of_keys, &of_queries, &q, first, last, p);
          for (gint64 r = 0; r < rows; r++)
            {
              const REAL *factors = run->drops ? R (draw_row) (run, b, h, row + r, first, p, keys) : NULL;
              R (softmax_grad_row)
              (run, b, h, row + r, first, p + r * keys, dp ? dp + r * keys : NULL, keys, dbias, factors);
              if (factors != NULL)
                R (drop) (p + r * keys, factors, keys);
            }
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
                  GEMM (FALSE, FALSE, rows, plan->q.width, n, scale, dp + lo - first, keys, k.rows, k.pitch, t > start,
                        dq.rows, dq.pitch);
                }
              if (plan->is_relative)
                R (add_key_gradients) (run, &of_keys, &q, first, last, dp, &dq, shared);
              R (close_tile) (&dq, &run->dq, &plan->q, q_at);
            }
          else if (plan->is_relative && shared)
            R (add_key_gradients) (run, &of_keys, &q, first, last, dp, NULL, shared);
          if (dk.rows)
            GEMM (TRUE, FALSE, keys, plan->k.width, rows, scale, dp, keys, q.rows, q.pitch, 1,
                  dk.rows + first * dk.pitch, dk.pitch);
          if (plan->is_relative && dp)
            R (add_query_gradients) (run, &of_queries, row, rows, first, last, dp);
        }
      if (plan->is_relative && dp)
        R (finish_position_gradients) (run, b, h, p, &of_queries, &dk, shared);
      R (close_tile) (&dk, &run->dk, &plan->k, k_at);
      R (close_tile) (&dv, &run->dv, &plan->v, v_at);
    }
}

static void
R (backward_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  R (backward_heads) (data, begin, end, worker, NULL);
}

/* Zeros for the sums of a part of a slice, unless they are added to the output's contents. */
static R (Shared) R (open_shared) (const AttentionRun *run, gint64 slice, gint64 part)
{
  const AttentionPlan *plan = run->plan;
  R (Shared) self = { NULL };
  if (plan->has_dbias)
    {
      self.dbias = run->sums ? (REAL *) run->sums + part * plan->slices * plan->slice_elements : run->dbias.data;
      self.dbias += slice * plan->slice_elements;
      if (run->sums || !(run->accumulates >> 3 & 1))
        memset (self.dbias, 0, (gsize) plan->slice_elements * sizeof (REAL));
    }
  for (guint i = 0; i < N_POSITIONS; i++)
    {
      const AttentionPositions *positions = &plan->positions[i];
      const AttentionOperand *side = &positions->side;
      if (!positions->has_gradient)
        continue;
      self.pitch[i] = side->pitch;
      self.positions[i] = (REAL *) run->dpositions[i].data + slice * side->head_step;
      if (positions->sums_offset > 0)
        {
          self.pitch[i] = side->width;
          self.positions[i] = (REAL *) ((guint8 *) run->call->workspace + positions->sums_offset) +
                              (part * plan->heads + slice) * positions->positions * side->width;
        }
      for (gint64 r = 0; r < positions->positions && (positions->sums_offset > 0 || !(run->accumulates >> (3 + i) & 1));
           r++)
        memset (self.positions[i] + r * self.pitch[i], 0, (gsize) side->width * sizeof (REAL));
    }
  return self;
}

/* One part of the heads that read the same slice, in order. */
static void
R (shared_units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const AttentionRun *run = data;
  const AttentionPlan *plan = run->plan;
  const gboolean by_batch = plan->has_dbias && plan->bias.batch, by_head = !plan->has_dbias || plan->bias.head;
  for (gint64 u = begin; u < end; u++)
    {
      const gint64 slice = u / plan->parts, part = u % plan->parts;
      const R (Shared) shared = R (open_shared) (run, slice, part);
      for (gint64 m = part * plan->members / plan->parts; m < (part + 1) * plan->members / plan->parts; m++)
        {
          const gint64 first = by_batch && !by_head ? slice * plan->heads : slice;
          const gint64 head = first + (by_head ? m * plan->heads : m);
          R (backward_heads) (run, head, head + 1, worker, &shared);
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
      R (ortrain_rows_put) (&run->dbias, i, sum, run->accumulates >> 3 & 1);
    }
}

/* Rows of [heads, positions]. */
static void
R (sum_positions) (const AttentionRun *run, guint i, gint64 begin, gint64 end)
{
  const AttentionPlan *plan = run->plan;
  const AttentionPositions *self = &plan->positions[i];
  const REAL *sums = (const REAL *) ((const guint8 *) run->call->workspace + self->sums_offset);
  const gint64 width = self->side.width, n = plan->heads * self->positions * width;
  for (gint64 row = begin; row < end; row++)
    {
      const gint64 at = row / self->positions * self->side.head_step + row % self->positions * self->side.pitch;
      for (gint64 c = 0; c < width; c++)
        {
          REAL sum = 0;
          for (gint64 part = 0; part < plan->parts; part++)
            sum += sums[part * n + row * width + c];
          R (ortrain_rows_put) (&run->dpositions[i], at + c, sum, run->accumulates >> (3 + i) & 1);
        }
    }
}

static void
R (sum_position_keys) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  R (sum_positions) (data, POSITION_KEYS, begin, end);
}

static void
R (sum_position_queries) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  R (sum_positions) (data, POSITION_QUERIES, begin, end);
}
