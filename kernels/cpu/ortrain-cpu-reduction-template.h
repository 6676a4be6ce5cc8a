/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by ortrain-cpu-reduction.c, with REAL, R(name) and EXP(x) defined. No include guard. */

/* The contiguous case: n elements that all go into one result. */
static inline double
R (row) (ReduceOp op, const REAL *restrict x, gint64 n, double acc, REAL shift)
{
  switch (op)
    {
    case REDUCE_SUM:
      return acc + R (ortrain_lane_sum) (x, n, 0);
    case REDUCE_ABS:
      return acc + R (ortrain_lane_sum_abs) (x, n, 0);
    case REDUCE_SQUARE:
      return acc + R (ortrain_lane_sum_square) (x, n, 0);
    case REDUCE_EXP:
      return acc + R (ortrain_lane_sum_exp) (x, n, shift);
    case REDUCE_MAX:
    case REDUCE_MIN:
      {
        double best = op == REDUCE_MAX ? R (ortrain_lane_max) (x, n) : R (ortrain_lane_min) (x, n);
        if (op == REDUCE_MAX ? best > acc : best < acc)
          acc = best;
        if (isnan (R (ortrain_lane_sum) (x, n, 0))) /* a NaN, or infinities of both signs: look closer */
          for (gint64 i = 0; i < n; i++)
            if (isnan (x[i]))
              acc = NAN;
        return acc;
      }
    case REDUCE_PROD:
      for (gint64 i = 0; i < n; i++)
        acc *= x[i];
      return acc;
    }
  return acc;
}

/* The other case: `rows` rows of `width` neighbours, each column a result of its own. acc [width]. Sixteen rows are
 * added as singles, then joined in double. */
#define COLUMNS(expr)                                                                                                  \
  for (gint64 r = 0; r < rows; r += REDUCE_ROWS)                                                                       \
    {                                                                                                                  \
      REAL part[REDUCE_TILE] = { 0 };                                                                                  \
      gint64 end = MIN (rows, r + REDUCE_ROWS), k = r;                                                                 \
      for (; k + 4 <= end; k += 4)                                                                                     \
        {                                                                                                              \
          const REAL *restrict v0 = v + k * stride, *restrict v1 = v0 + stride, *restrict v2 = v1 + stride,            \
                               *restrict v3 = v2 + stride;                                                             \
          for (gint64 j = 0; j < width; j++)                                                                           \
            {                                                                                                          \
              REAL x = v0[j], a = (expr), b, c, d;                                                                     \
              x = v1[j];                                                                                               \
              b = (expr);                                                                                              \
              x = v2[j];                                                                                               \
              c = (expr);                                                                                              \
              x = v3[j];                                                                                               \
              d = (expr);                                                                                              \
              part[j] += (a + b) + (c + d);                                                                            \
            }                                                                                                          \
        }                                                                                                              \
      for (; k < end; k++)                                                                                             \
        for (gint64 j = 0; j < width; j++)                                                                             \
          {                                                                                                            \
            REAL x = v[k * stride + j];                                                                                \
            part[j] += (expr);                                                                                         \
          }                                                                                                            \
      for (gint64 j = 0; j < width; j++)                                                                               \
        acc[j] += part[j];                                                                                             \
    }

static void
R (columns) (ReduceOp op, const REAL *restrict v, gint64 rows, gint64 stride, gint64 width, double *restrict acc,
             const REAL *restrict shift)
{
  switch (op)
    {
    case REDUCE_SUM:
      COLUMNS (x)
      break;
    case REDUCE_ABS:
      COLUMNS (x < 0 ? -x : x)
      break;
    case REDUCE_SQUARE:
      COLUMNS (x * x)
      break;
    case REDUCE_EXP:
      COLUMNS (EXP (x - shift[j]))
      break;
    case REDUCE_MAX:
      for (gint64 r = 0; r < rows; r++)
        for (gint64 j = 0; j < width; j++)
          {
            double x = v[r * stride + j];
            acc[j] = x > acc[j] || x != x ? x : acc[j];
          }
      break;
    case REDUCE_MIN:
      for (gint64 r = 0; r < rows; r++)
        for (gint64 j = 0; j < width; j++)
          {
            double x = v[r * stride + j];
            acc[j] = x < acc[j] || x != x ? x : acc[j];
          }
      break;
    case REDUCE_PROD:
      for (gint64 r = 0; r < rows; r++)
        for (gint64 j = 0; j < width; j++)
          acc[j] *= v[r * stride + j];
      break;
    }
}
#undef COLUMNS

/* The same where elements of 16 bits are widened first: as many rows at a time as are added as singles. at: of the
 * first row, in elements */
static void
R (column_rows) (const ReduceRun *run, gint64 at, gint64 rows, gint64 stride, gint64 width, double *restrict acc,
                 const REAL *restrict shift)
{
  if (!ortrain_dtype_is_half (run->plan->dtype))
    {
      R (columns) (run->op, (const REAL *) run->x + at, rows, stride, width, acc, shift);
      return;
    }
  float tile[REDUCE_ROWS * REDUCE_TILE];
  const guint16 *from = (const guint16 *) run->x + at;
  for (gint64 r = 0; r < rows; r += REDUCE_ROWS, from += REDUCE_ROWS * stride)
    {
      const gint64 n = MIN (REDUCE_ROWS, rows - r);
      if (stride == width)
        ortrain_dtype_widen_n (run->plan->dtype, tile, from, n * width);
      else
        for (gint64 k = 0; k < n; k++)
          ortrain_dtype_widen_n (run->plan->dtype, tile + k * width, from + k * stride, width);
      R (columns) (run->op, (const REAL *) (gconstpointer) tile, n, width, width, acc, shift);
    }
}

/* n elements from `at` on that go into one result. */
static double
R (segment) (const ReduceRun *run, gint64 at, gint64 n, double acc, REAL shift)
{
  if (!ortrain_dtype_is_half (run->plan->dtype))
    return R (row) (run->op, (const REAL *) run->x + at, n, acc, shift);
  float tile[REDUCE_SEGMENT];
  ortrain_dtype_widen_n (run->plan->dtype, tile, (const guint16 *) run->x + at, n);
  return R (row) (run->op, (const REAL *) (gconstpointer) tile, n, acc, shift);
}

/* The results of one tile, as they leave. */
static inline void
R (store) (const ReduceRun *run, gint64 kept, gint64 tile, const double *restrict acc)
{
  const ReducePlan *plan = run->plan;
  gint64 at = tile * plan->tile_width, width = plan->inner_kept ? MIN (plan->tile_width, plan->inner - at) : 1;
  gint64 index = plan->inner_kept ? kept * plan->inner + at : kept;
  if (run->shift_out)
    {
      REAL *shift = (REAL *) run->shift_out + index;
      for (gint64 j = 0; j < width; j++)
        shift[j] = isinf (acc[j]) ? 0 : (REAL) acc[j];
      return;
    }
  const REAL *shift = run->shift ? (const REAL *) run->shift + index : NULL;
  gint64 step = plan->inner_out;
  const gint64 first = offset_of (kept, plan->n_kept, plan->kept_size, plan->kept_out) + at * step;
  if (ortrain_dtype_is_half (plan->out_dtype))
    {
      for (gint64 j = 0; j < width; j++)
        store_half (run, first + j * step, finalize (plan, acc[j], shift ? shift[j] : 0));
      return;
    }
  REAL *y = (REAL *) run->y + first;
  for (gint64 j = 0; j < width; j++)
    {
      double total = finalize (plan, acc[j], shift ? shift[j] : 0);
      y[j * step] = (REAL) (run->accumulate ? y[j * step] + total : total);
    }
}

/* One unit of work: a range of reduced rows for one kept index and one tile of the inner dimension. Parts of a split
 * reduction go to `partials`, in double. */
static void
R (units) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ReduceRun *run = data;
  const ReducePlan *plan = run->plan;
  const REAL *shift = run->shift;
  for (gint64 u = begin; u < end; u++)
    {
      gint64 split = plan->splits == 1 ? 0 : u % plan->splits, t = plan->splits == 1 ? u : u / plan->splits;
      gint64 tile = plan->tiles == 1 ? 0 : t % plan->tiles, kept = plan->tiles == 1 ? t : t / plan->tiles;
      gint64 base = offset_of (kept, plan->n_kept, plan->kept_size, plan->kept_in);
      gint64 first = split * plan->rows_per_split, last = MIN (plan->n_rows, first + plan->rows_per_split);
      double local[REDUCE_TILE], *acc = plan->splits == 1 ? local : run->partials + u * plan->tile_width;
      if (plan->inner_kept)
        {
          gint64 at = tile * plan->tile_width, width = MIN (plan->tile_width, plan->inner - at);
          const REAL *tile_shift = shift ? shift + kept * plan->inner + at : NULL;
          for (gint64 j = 0; j < width; j++)
            acc[j] = run->identity;
          if (plan->n_reduced <= 1)
            R (column_rows)
          (run, base + at + first * plan->reduced_in[0], last - first, plan->reduced_in[0], width, acc, tile_shift);
          else /* runs along the innermost of the reduced dimensions */
              for (gint64 r = first; r < last;)
          {
            gint64 size = plan->reduced_size[plan->n_reduced - 1], within = r % size;
            gint64 n = MIN (size - within, last - r);
            R (column_rows)
            (run, base + at + offset_of (r, plan->n_reduced, plan->reduced_size, plan->reduced_in), n,
             plan->reduced_in[plan->n_reduced - 1], width, acc, tile_shift);
            r += n;
          }
        }
      else
        {
          double total = run->identity;
          for (gint64 s = first; s < last; s++)
            {
              gint64 r = plan->segments == 1 ? s : s / plan->segments, at = (s - r * plan->segments) * REDUCE_SEGMENT;
              gint64 n = MIN (REDUCE_SEGMENT, plan->inner - at);
              total =
                  R (segment) (run, base + at + offset_of (r, plan->n_reduced, plan->reduced_size, plan->reduced_in), n,
                               total, shift ? shift[kept] : 0);
            }
          *acc = total;
        }
      if (plan->splits == 1)
        R (store) (run, kept, tile, acc);
    }
}

/* Joins the parts of split reductions in the order of the splits. */
static void
R (finish) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ReduceRun *run = data;
  const ReducePlan *plan = run->plan;
  for (gint64 t = begin; t < end; t++)
    {
      double acc[REDUCE_TILE];
      const double *part = run->partials + t * plan->splits * plan->tile_width;
      for (gint64 j = 0; j < plan->tile_width; j++)
        acc[j] = part[j];
      for (gint64 s = 1; s < plan->splits; s++)
        for (gint64 j = 0; j < plan->tile_width; j++)
          acc[j] = combine (run->op, acc[j], part[s * plan->tile_width + j]);
      R (store) (run, t / plan->tiles, t % plan->tiles, acc);
    }
}
