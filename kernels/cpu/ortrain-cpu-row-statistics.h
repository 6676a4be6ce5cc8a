/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included once per width by kernels that normalize rows, with REAL and R(name) defined. No include guard. */

/* Mean and 1/deviation of the row of n at `at`, read in pieces of `step`; mean 0 where it is not centred. */
static inline void
R (ortrain_row_statistics) (const OrtrainRows *x, gint64 at, gint64 n, gint64 step, gboolean centred, double epsilon,
                            OrtrainRowsBuffer *buffer, REAL *mean, REAL *inverse)
{
  double m = 0, square = 0;
  if (centred)
    {
      for (gint64 i = 0; i < n; i += step)
        {
          const gint64 size = MIN (step, n - i);
          m += R (ortrain_lane_sum) (R (ortrain_rows_read) (x, at + i, size, buffer), size, 0);
        }
      m /= (double) n;
    }
  for (gint64 i = 0; i < n; i += step)
    {
      const gint64 size = MIN (step, n - i);
      square += R (ortrain_lane_sum_square) (R (ortrain_rows_read) (x, at + i, size, buffer), size, (REAL) m);
    }
  square /= (double) n;
  double off = m - (REAL) m;
  *mean = (REAL) m;
  *inverse = (REAL) (1 / sqrt (square - off * off + epsilon));
}
