/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included by ortrain-cpu-attention-template.h: the terms that relative attention has more. No include guard. */

/* Positions of one head: rows [first, first + n) of their keys or queries, and products with them, [., n]. */
typedef struct
{
  const AttentionPositions *plan;
  R (Tile) rows;
  REAL *products, *dproducts;
  gint32 *scratch; /* for a row of the index */
} R (Positions);

static void
R (read_positions) (const AttentionRun *run, guint i, gint64 h, REAL *p, R (Positions) * self)
{
  const AttentionPositions *positions = &run->plan->positions[i];
  *self = (R (Positions)){ positions };
  if (!positions->used)
    return;
  self->products = p + positions->products;
  self->dproducts = p + positions->dproducts;
  self->scratch = (gint32 *) (p + positions->row);
  R (read_tile)
  (&self->rows, &run->positions[i], &positions->side, h * positions->side.head_step, positions->first, positions->n,
   p + positions->side.buffer);
}

/* The data of a head that its blocks of queries share. The products of all keys with the queries of positions: [keys,
 * n]. */
static void
R (start_positions) (const AttentionRun *run, gint64 b, gint64 h, REAL *p, R (Positions) * of_keys,
                     R (Positions) * of_queries)
{
  const AttentionPlan *plan = run->plan;
  R (Tile) k = { 0 };
  R (read_positions) (run, POSITION_KEYS, h, p, of_keys);
  R (read_positions) (run, POSITION_QUERIES, h, p, of_queries);
  const gint64 n = of_queries->plan->n;
  for (gint64 t = 0; t < plan->n_keys && of_queries->plan->used; t += plan->tile)
    {
      const gint64 rows = MIN (plan->tile, plan->n_keys - t);
      R (read_tile) (&k, &run->k, &plan->k, base_of (&plan->k, b, h), t, rows, p + plan->k.buffer);
      GEMM (FALSE, TRUE, rows, n, plan->k.width, (REAL) of_queries->plan->scale, k.rows, k.pitch, of_queries->rows.rows,
            of_queries->rows.pitch, 0, of_queries->products + t * n, n);
    }
}

/* The products of a block of queries with the keys of those positions that its scores read: *lo is the first of them,
 * beyond those of `self`. Returns how many. */
static gint64
R (find_span) (const AttentionRun *run, const R (Positions) * self, gint64 row, gint64 rows, gint64 first, gint64 last,
               gint64 *lo)
{
  *lo = 0;
  if (!self->plan->compact)
    return self->plan->n;
  const gint32 *table = get_index_row (run, self->plan, row + rows - 1, NULL);
  gint32 least = G_MAXINT32, most = 0;
  for (gint64 d = first; d < last + rows - 1; d++)
    {
      least = MIN (least, table[d]);
      most = MAX (most, table[d]);
    }
  *lo = least;
  return most - least + 1;
}

/* p [rows, keys]: scores of a block of queries and the keys [first, last); adds both terms. */
static void
R (add_positions) (const AttentionRun *run, R (Positions) * of_keys, R (Positions) * of_queries, const R (Tile) * q,
                   gint64 first, gint64 last, REAL *p)
{
  const AttentionPlan *plan = run->plan;
  const gint64 keys = last - first;
  gint64 lo, n;
  if (of_keys->plan->used)
    {
      n = R (find_span) (run, of_keys, q->first, q->n, first, last, &lo);
      GEMM (FALSE, TRUE, q->n, n, plan->q.width, (REAL) of_keys->plan->scale, q->rows, q->pitch,
            of_keys->rows.rows + lo * of_keys->rows.pitch, of_keys->rows.pitch, 0, of_keys->products, n);
      for (gint64 r = 0; r < q->n; r++)
        {
          const gint32 *restrict index = get_index_row (run, of_keys->plan, q->first + r, of_keys->scratch) + first;
          const REAL *restrict from = of_keys->products + r * n - lo;
          REAL *restrict x = p + r * keys;
          for (gint64 j = 0; j < keys; j++)
            x[j] += from[index[j]];
        }
    }
  if (of_queries->plan->used)
    {
      n = of_queries->plan->n;
      for (gint64 r = 0; r < q->n; r++)
        {
          const gint32 *restrict index =
              get_index_row (run, of_queries->plan, q->first + r, of_queries->scratch) + first;
          const REAL *restrict from = of_queries->products + first * n;
          REAL *restrict x = p + r * keys;
          for (gint64 j = 0; j < keys; j++)
            x[j] += from[j * n + index[j]];
        }
    }
}

static void
R (start_position_gradients) (const AttentionRun *run, const R (Positions) * of_queries)
{
  if (of_queries->plan->used)
    memset (of_queries->dproducts, 0, (gsize) (run->plan->n_keys * of_queries->plan->n) * sizeof (REAL));
}

/* ds [rows, keys]: gradients of the scores of a block. To dq, which may be NULL, and the gradients of the keys. */
static void
R (add_key_gradients) (const AttentionRun *run, R (Positions) * of_keys, const R (Tile) * q, gint64 first, gint64 last,
                       const REAL *ds, const R (Tile) * dq, const R (Shared) * shared)
{
  const AttentionPlan *plan = run->plan;
  const REAL scale = (REAL) of_keys->plan->scale;
  const gint64 keys = last - first, pitch = of_keys->rows.pitch, width = plan->q.width;
  gint64 lo;
  if (!of_keys->plan->used)
    return;
  const gint64 n = R (find_span) (run, of_keys, q->first, q->n, first, last, &lo);
  memset (of_keys->dproducts, 0, (gsize) (q->n * n) * sizeof (REAL));
  for (gint64 r = 0; r < q->n; r++)
    {
      const gint32 *restrict index = get_index_row (run, of_keys->plan, q->first + r, of_keys->scratch) + first;
      REAL *restrict to = of_keys->dproducts + r * n - lo;
      const REAL *restrict x = ds + r * keys;
      for (gint64 j = 0; j < keys; j++)
        to[index[j]] += x[j];
    }
  if (dq)
    GEMM (FALSE, FALSE, q->n, width, n, scale, of_keys->dproducts, n, of_keys->rows.rows + lo * pitch, pitch, 1,
          dq->rows, dq->pitch);
  if (shared && shared->positions[POSITION_KEYS])
    {
      const gint64 to = shared->pitch[POSITION_KEYS];
      GEMM (TRUE, FALSE, n, width, q->n, scale, of_keys->dproducts, n, q->rows, q->pitch, 1,
            shared->positions[POSITION_KEYS] + (of_keys->plan->first + lo) * to, to);
    }
}

/* The same, to the gradients of the products of keys with the queries of positions. */
static void
R (add_query_gradients) (const AttentionRun *run, R (Positions) * of_queries, gint64 row, gint64 rows, gint64 first,
                         gint64 last, const REAL *ds)
{
  const gint64 keys = last - first, n = of_queries->plan->n;
  for (gint64 r = 0; r < rows && of_queries->plan->used; r++)
    {
      const gint32 *restrict index = get_index_row (run, of_queries->plan, row + r, of_queries->scratch) + first;
      REAL *restrict to = of_queries->dproducts + first * n;
      const REAL *restrict x = ds + r * keys;
      ORTRAIN_INDEPENDENT
      for (gint64 j = 0; j < keys; j++)
        to[j * n + index[j]] += x[j];
    }
}

/* After all blocks of a head: to dk, and the gradients of the queries of positions. */
static void
R (finish_position_gradients) (const AttentionRun *run, gint64 b, gint64 h, REAL *p, const R (Positions) * of_queries,
                               const R (Tile) * dk, const R (Shared) * shared)
{
  const AttentionPlan *plan = run->plan;
  const AttentionPositions *positions = of_queries->plan;
  const REAL scale = (REAL) positions->scale;
  const gint64 n = positions->n, width = plan->k.width;
  R (Tile) k = { 0 };
  if (!positions->used)
    return;
  if (dk->rows)
    GEMM (FALSE, FALSE, plan->n_keys, width, n, scale, of_queries->dproducts, n, of_queries->rows.rows,
          of_queries->rows.pitch, 1, dk->rows, dk->pitch);
  if (!shared || !shared->positions[POSITION_QUERIES])
    return;
  const gint64 to = shared->pitch[POSITION_QUERIES];
  for (gint64 t = 0; t < plan->n_keys; t += plan->tile)
    {
      const gint64 rows = MIN (plan->tile, plan->n_keys - t);
      R (read_tile) (&k, &run->k, &plan->k, base_of (&plan->k, b, h), t, rows, p + plan->k.buffer);
      GEMM (TRUE, FALSE, n, width, rows, scale, of_queries->dproducts + t * n, n, k.rows, k.pitch, 1,
            shared->positions[POSITION_QUERIES] + positions->first * to, to);
    }
}
