/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The loops of pooling over one plane (one channel of one image), included by ortrain-cpu-pool.c with REAL, NAME(x),
 * LOWEST and IS_FLOAT defined. Rows of the output along w are worked on in pieces, tap by tap, so that the loops
 * vectorise. */

#define PIECE 128

static void
NAME (max_plane) (const Pool *pool, const REAL *source, REAL *restrict dest, guint8 *restrict places,
                  gint64 *restrict indices, gint64 first_index)
{
  const gint64 *in = pool->in, *out = pool->out, step = pool->stride[2];
  for (gint64 row = 0; row < out[0] * out[1]; row++)
    {
      gint64 d0 = row / out[1] * pool->stride[0] - pool->pad[0], h0 = row % out[1] * pool->stride[1] - pool->pad[1];
      for (gint64 w0 = 0; w0 < out[2]; w0 += PIECE)
        {
          gint64 n = MIN (PIECE, out[2] - w0);
          REAL best[PIECE];
          gint32 place[PIECE];
          for (gint64 i = 0; i < n; i++)
            {
              best[i] = LOWEST;
              place[i] = -1;
            }
          for (gint32 t = 0; t < pool->n_taps; t++)
            {
              const PoolTap *tap = &pool->taps[t];
              gint64 d = d0 + tap->offset[0], h = h0 + tap->offset[1];
              gint64 low = MAX (tap->low - w0, 0), high = MIN (tap->high - w0, n);
              if (d < 0 || d >= in[0] || h < 0 || h >= in[1])
                continue;
              const REAL *restrict from = source + (d * in[1] + h) * in[2] + w0 * step - pool->pad[2] + tap->offset[2];
#if IS_FLOAT
#define TAKES(v, i) ((v > best[i]) | (v != v) | (place[i] < 0))
#else
#define TAKES(v, i) ((v > best[i]) | (place[i] < 0))
#endif
#define MAX_LOOP(expression)                                                                                           \
  for (gint64 i = low; i < high; i++)                                                                                  \
    {                                                                                                                  \
      REAL v = from[expression];                                                                                       \
      gboolean takes = TAKES (v, i);                                                                                   \
      best[i] = takes ? v : best[i];                                                                                   \
      place[i] = takes ? t : place[i];                                                                                 \
    }
              if (step == 1)
                MAX_LOOP (i)
              else if (step == 2)
                MAX_LOOP (2 * i)
              else
                MAX_LOOP (step * i)
#undef MAX_LOOP
#undef TAKES
            }
          gint64 at = row * out[2] + w0;
          for (gint64 i = 0; i < n; i++)
            dest[at + i] = best[i];
          if (places != NULL)
            for (gint64 i = 0; i < n; i++)
              places[at + i] = (guint8) place[i];
          if (indices != NULL)
            for (gint64 i = 0; i < n; i++)
              {
                const PoolTap *tap = &pool->taps[MAX (place[i], 0)];
                gint64 d = d0 + tap->offset[0], h = h0 + tap->offset[1];
                gint64 w = (w0 + i) * step - pool->pad[2] + tap->offset[2];
                indices[at + i] =
                    first_index + (pool->column_major ? (w * in[1] + h) * in[0] + d : (d * in[1] + h) * in[2] + w);
              }
        }
    }
}

#if IS_FLOAT

/* dest: of the input's shape, zero before */
static void
NAME (max_grad_plane) (const Pool *pool, const REAL *restrict dy, const guint8 *restrict places,
                       const gint64 *restrict indices, gint64 first_index, REAL *restrict dx)
{
  const gint64 *in = pool->in, *out = pool->out, n_in = in[0] * in[1] * in[2];
  memset (dx, 0, (gsize) n_in * sizeof (REAL));
  for (gint64 row = 0; row < out[0] * out[1]; row++)
    {
      gint64 d0 = row / out[1] * pool->stride[0] - pool->pad[0], h0 = row % out[1] * pool->stride[1] - pool->pad[1];
      gint64 base = (d0 * in[1] + h0) * in[2] - pool->pad[2], at = row * out[2];
      for (gint64 i = 0; i < out[2]; i++, at++)
        {
          gint64 to;
          if (indices != NULL)
            {
              to = indices[at] - first_index;
              if (pool->column_major)
                {
                  gint64 d = to % in[0], h = to / in[0] % in[1], w = to / (in[0] * in[1]);
                  to = (d * in[1] + h) * in[2] + w;
                }
              if (to < 0 || to >= n_in)
                continue;
            }
          else
            {
              guint8 place = places[at];
              if (place >= pool->n_taps)
                continue; /* a window of padding alone */
              to = base + i * pool->stride[2] + pool->taps[place].shift;
              if (to < 0 || to >= n_in)
                continue;
            }
          dx[to] += dy[at];
        }
    }
}

static void
NAME (average_plane) (const Pool *pool, const REAL *source, REAL *restrict dest)
{
  const gint64 *in = pool->in, *out = pool->out, step = pool->stride[2];
  for (gint64 row = 0; row < out[0] * out[1]; row++)
    {
      gint64 od = row / out[1], oh = row % out[1];
      gint64 d0 = od * pool->stride[0] - pool->pad[0], h0 = oh * pool->stride[1] - pool->pad[1];
      REAL *restrict to = dest + row * out[2];
      for (gint64 i = 0; i < out[2]; i++)
        to[i] = 0;
      for (gint32 t = 0; t < pool->n_taps; t++)
        {
          const PoolTap *tap = &pool->taps[t];
          gint64 d = d0 + tap->offset[0], h = h0 + tap->offset[1];
          if (d < 0 || d >= in[0] || h < 0 || h >= in[1])
            continue;
          const REAL *from = source + (d * in[1] + h) * in[2] - pool->pad[2] + tap->offset[2];
          if (step == 1)
            for (gint64 i = tap->low; i < tap->high; i++)
              to[i] += from[i];
          else
            for (gint64 i = tap->low; i < tap->high; i++)
              to[i] += from[i * step];
        }
      double rows = (double) pool_count (pool, 0, od) * (double) pool_count (pool, 1, oh);
      for (gint64 i = 0; i < out[2]; i++)
        {
          double count = rows * (double) pool_count (pool, 2, i);
          to[i] = count > 0 ? (REAL) (to[i] / count) : 0;
        }
    }
}

static void
NAME (average_grad_plane) (const Pool *pool, const REAL *restrict dy, REAL *restrict dx)
{
  const gint64 *in = pool->in, *out = pool->out, step = pool->stride[2];
  memset (dx, 0, (gsize) (in[0] * in[1] * in[2]) * sizeof (REAL));
  for (gint64 row = 0; row < out[0] * out[1]; row++)
    {
      gint64 od = row / out[1], oh = row % out[1];
      gint64 d0 = od * pool->stride[0] - pool->pad[0], h0 = oh * pool->stride[1] - pool->pad[1];
      double rows = (double) pool_count (pool, 0, od) * (double) pool_count (pool, 1, oh);
      for (gint64 w0 = 0; w0 < out[2]; w0 += PIECE)
        {
          gint64 n = MIN (PIECE, out[2] - w0);
          REAL share[PIECE];
          for (gint64 i = 0; i < n; i++)
            {
              double count = rows * (double) pool_count (pool, 2, w0 + i);
              share[i] = count > 0 ? (REAL) (dy[row * out[2] + w0 + i] / count) : 0;
            }
          for (gint32 t = 0; t < pool->n_taps; t++)
            {
              const PoolTap *tap = &pool->taps[t];
              gint64 d = d0 + tap->offset[0], h = h0 + tap->offset[1];
              gint64 low = MAX (tap->low - w0, 0), high = MIN (tap->high - w0, n);
              if (d < 0 || d >= in[0] || h < 0 || h >= in[1])
                continue;
              REAL *restrict to = dx + (d * in[1] + h) * in[2] + w0 * step - pool->pad[2] + tap->offset[2];
              for (gint64 i = low; i < high; i++)
                to[i * step] += share[i];
            }
        }
    }
}

/* |x|^p by squaring: p may be any number */
static inline REAL
NAME (power) (REAL x, gint64 p)
{
  REAL a = x < 0 ? -x : x, r = 1;
  if (p == 2)
    return a * a;
  for (; p > 0; p >>= 1, a *= a)
    if (p & 1)
      r *= a;
  return r;
}

/* dy · dy/dx of y = (Σ |x|^p)^(1/p): sign (x) · (|x| / y)^(p-1), whose base is at most 1 */
static inline REAL
NAME (lp_slope) (REAL x, REAL y, gint64 p, REAL dy)
{
  return x == 0 || y == 0 ? 0 : (x > 0 ? dy : -dy) * NAME (power) (x / y, p - 1);
}

static void
NAME (lp_plane) (const Pool *pool, const REAL *source, REAL *restrict dest)
{
  const gint64 *in = pool->in, *out = pool->out, step = pool->stride[2];
  for (gint64 row = 0; row < out[0] * out[1]; row++)
    {
      gint64 d0 = row / out[1] * pool->stride[0] - pool->pad[0], h0 = row % out[1] * pool->stride[1] - pool->pad[1];
      for (gint64 i = 0; i < out[2]; i++)
        {
          double sum = 0;
          for (gint32 t = 0; t < pool->n_taps; t++)
            {
              const PoolTap *tap = &pool->taps[t];
              gint64 d = d0 + tap->offset[0], h = h0 + tap->offset[1];
              if (d >= 0 && d < in[0] && h >= 0 && h < in[1] && i >= tap->low && i < tap->high)
                sum +=
                    NAME (power) (source[(d * in[1] + h) * in[2] + i * step - pool->pad[2] + tap->offset[2]], pool->p);
            }
          dest[row * out[2] + i] = (REAL) (pool->p == 1   ? sum
                                           : pool->p == 2 ? sqrt (sum)
                                                          : pow (sum, 1.0 / (double) pool->p));
        }
    }
}

static void
NAME (lp_grad_plane) (const Pool *pool, const REAL *dy, const REAL *source, const REAL *y, REAL *restrict dx)
{
  const gint64 *in = pool->in, *out = pool->out, step = pool->stride[2];
  memset (dx, 0, (gsize) (in[0] * in[1] * in[2]) * sizeof (REAL));
  for (gint64 row = 0; row < out[0] * out[1]; row++)
    {
      gint64 d0 = row / out[1] * pool->stride[0] - pool->pad[0], h0 = row % out[1] * pool->stride[1] - pool->pad[1];
      for (gint64 i = 0; i < out[2]; i++)
        {
          REAL norm = y[row * out[2] + i], g = dy[row * out[2] + i];
          for (gint32 t = 0; t < pool->n_taps; t++)
            {
              const PoolTap *tap = &pool->taps[t];
              gint64 d = d0 + tap->offset[0], h = h0 + tap->offset[1];
              if (d < 0 || d >= in[0] || h < 0 || h >= in[1] || i < tap->low || i >= tap->high)
                continue;
              gint64 at = (d * in[1] + h) * in[2] + i * step - pool->pad[2] + tap->offset[2];
              dx[at] += NAME (lp_slope) (source[at], norm, pool->p, g);
            }
        }
    }
}

/* ---- one window over the whole plane ---- */

/* Sums run in lanes, joined in a fixed order: they vectorise, and are more accurate than one long sum. */
static double
NAME (sum_power) (const REAL *restrict x, gint64 n, gint64 p)
{
  REAL lanes[32] = { 0 };
  double total = 0;
  gint64 i = 0;
  if (p == 0) /* the plain sum */
    for (; i + 32 <= n; i += 32)
      for (int l = 0; l < 32; l++)
        lanes[l] += x[i + l];
  else
    for (; i + 32 <= n; i += 32)
      for (int l = 0; l < 32; l++)
        lanes[l] += NAME (power) (x[i + l], p);
  for (; i < n; i++)
    total += p == 0 ? x[i] : NAME (power) (x[i], p);
  for (int l = 0; l < 32; l++)
    total += lanes[l];
  return total;
}

static gint64
NAME (find_max) (const REAL *x, gint64 n)
{
  gint64 best = 0;
  for (gint64 i = 1; i < n; i++)
    if (x[i] > x[best] || (x[i] != x[i] && x[best] == x[best]))
      best = i;
  return best;
}

/* One plane, the index-th. a, b, c: inputs 0 to 2 of it, to: output 0 */
static void
NAME (pool_plane) (const PoolJob *job, gint64 index, const REAL *a, const REAL *b, const REAL *c, REAL *to)
{
  const Pool *pool = job->pool;
  const gint64 n_in = pool->in[0] * pool->in[1] * pool->in[2], n_out = pool->out[0] * pool->out[1] * pool->out[2];
  switch (pool->kind)
    {
    case POOL_MAX:
      NAME (max_plane)
      (pool, a, to, pool->bytes && job->outputs[1] != NULL ? (guint8 *) job->outputs[1] + index * n_out : NULL,
       !pool->bytes && job->outputs[1] != NULL ? (gint64 *) job->outputs[1] + index * n_out : NULL, index * n_in);
      break;
    case POOL_MAX_GRAD:
      NAME (max_grad_plane)
      (pool, a, pool->bytes ? (const guint8 *) job->inputs[1] + index * n_out : NULL,
       pool->bytes ? NULL : (const gint64 *) job->inputs[1] + index * n_out, index * n_in, to);
      break;
    case POOL_AVERAGE:
      NAME (average_plane) (pool, a, to);
      break;
    case POOL_AVERAGE_GRAD:
      NAME (average_grad_plane) (pool, a, to);
      break;
    case POOL_LP:
      NAME (lp_plane) (pool, a, to);
      break;
    case POOL_LP_GRAD:
      NAME (lp_grad_plane) (pool, a, b, c, to);
      break;
    case POOL_GLOBAL_AVERAGE:
      *to = (REAL) (NAME (sum_power) (a, n_in, 0) / (double) n_in);
      break;
    case POOL_GLOBAL_AVERAGE_GRAD:
      {
        REAL share = (REAL) (*a / (double) n_in), *restrict dx = to;
        for (gint64 i = 0; i < n_in; i++)
          dx[i] = share;
      }
      break;
    case POOL_GLOBAL_MAX:
      *to = a[NAME (find_max) (a, n_in)];
      break;
    case POOL_GLOBAL_MAX_GRAD:
      memset (to, 0, (gsize) n_in * sizeof (REAL));
      to[NAME (find_max) (b, n_in)] = *a;
      break;
    case POOL_GLOBAL_LP:
      {
        double sum = NAME (sum_power) (a, n_in, pool->p);
        *to = (REAL) (pool->p == 1 ? sum : pool->p == 2 ? sqrt (sum) : pow (sum, 1.0 / (double) pool->p));
      }
      break;
    case POOL_GLOBAL_LP_GRAD:
      {
        REAL *restrict dx = to;
        for (gint64 i = 0; i < n_in; i++)
          dx[i] = NAME (lp_slope) (b[i], *c, pool->p, *a);
      }
      break;
    }
}

static void
NAME (pool_planes) (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PoolJob *job = data;
  const gint64 *sizes = job->pool->sizes;
  const REAL *a = job->inputs[0], *b = job->inputs[1], *c = job->inputs[2];
  for (gint64 plane = begin; plane < end; plane++)
    NAME (pool_plane)
  (job, plane, a + plane * sizes[0], b != NULL ? b + plane * sizes[1] : NULL, c != NULL ? c + plane * sizes[2] : NULL,
   (REAL *) job->outputs[0] + plane * sizes[3]);
}

#endif

#undef PIECE
