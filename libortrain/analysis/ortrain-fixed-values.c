/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analysis/ortrain-fixed-values-private.h"

#include "analysis/ortrain-initializer-heuristics-private.h"
#include "core/ortrain-dtype-private.h"

#include <math.h>

/* Every test here ends at the first number that does not fit; weights have one among their first numbers. */

#define TOLERANCE 1e-4
#define MIN_BINS 4

typedef struct
{
  OrtrainDType dtype;
  const guint8 *data;
  gint64 n, rows, columns; /* as a matrix: the first axis, and all others */
  gint64 row_stride, column_stride;
} Numbers;

static double
at (const Numbers *x, gint64 row, gint64 column)
{
  return ortrain_initializer_heuristics_get (x->dtype, x->data, row * x->row_stride + column * x->column_stride);
}

static Numbers
transposed (const Numbers *x)
{
  Numbers y = *x;
  y.rows = x->columns;
  y.columns = x->rows;
  y.row_stride = x->column_stride;
  y.column_stride = x->row_stride;
  return y;
}

/* 0, 1, 2, …: the values of which an expectation is computed. */
static gboolean
are_bins (const Numbers *x)
{
  if (x->n < MIN_BINS)
    return FALSE;
  for (gint64 i = 0; i < x->n; i++)
    if (ortrain_initializer_heuristics_get (x->dtype, x->data, i) != (double) i)
      return FALSE;
  return TRUE;
}

/* Each column is a sinusoid of the row's number, times anything: x[k + 1] + x[k - 1] = 2 cos (angle) x[k]. So are the
 * matrices of Fourier and cosine transforms, under any window. Each of their columns has another angle; in a matrix
 * that is filled with one sine all have the same. */
static gboolean
is_harmonic (const Numbers *x, gint64 first, gint64 n_rows, gint64 stride)
{
  gint64 n_angles = 0;
  double overall = 0, before = 2;
  if (n_rows < 5 || x->columns < 3)
    return FALSE;
  for (gint64 j = 0; j < MIN (x->columns, 4); j++)
    for (gint64 k = 0; k < 5; k++)
      overall = MAX (overall, fabs (at (x, first + k * stride, j)));
  if (overall == 0)
    return FALSE;
  for (gint64 j = 0; j < x->columns; j++)
    {
      double products = 0, squares = 0, largest = 0;
      for (gint64 k = 1; k < 4; k++)
        {
          const double b = at (x, first + k * stride, j);
          products += b * (at (x, first + (k - 1) * stride, j) + at (x, first + (k + 1) * stride, j));
          squares += b * b;
        }
      const double factor = squares > 0 ? products / squares : 2;
      /* five rows tell weights apart, so that not all of a mapped file is read for it */
      for (gint64 k = 0; k < 5; k++)
        largest = MAX (largest, fabs (at (x, first + k * stride, j)));
      for (gint64 k = 1; k < 4 && largest > 1e-5 * overall; k++)
        if (!(fabs (at (x, first + (k - 1) * stride, j) + at (x, first + (k + 1) * stride, j) -
                    factor * at (x, first + k * stride, j)) <= 2e-2 * largest))
          return FALSE;
      for (gint64 k = 0; k < n_rows; k++)
        {
          const double value = fabs (at (x, first + k * stride, j));
          if (!isfinite (value))
            return FALSE;
          largest = MAX (largest, value);
        }
      if (largest <= 1e-5 * overall) /* a sine that is zero, but for rounding */
        continue;
      if (fabs (factor) > 2 + 1e-3)
        return FALSE;
      for (gint64 k = 1; k + 1 < n_rows; k++)
        if (fabs (at (x, first + (k - 1) * stride, j) + at (x, first + (k + 1) * stride, j) -
                  factor * at (x, first + k * stride, j)) > 2e-3 * largest)
          return FALSE;
      n_angles += fabs (factor - before) > 1e-3;
      before = factor;
    }
  return n_angles >= 3 && 2 * n_angles >= x->columns;
}

/* The cosines before the sines, or both alternating, or with another factor at the first frequency. */
static gboolean
are_sinusoids (const Numbers *x)
{
  const gint64 half = x->rows / 2, rest = x->rows - half;
  return is_harmonic (x, 0, x->rows, 1) || is_harmonic (x, 1, x->rows - 1, 1) ||
         (is_harmonic (x, 0, half, 1) && is_harmonic (x, half, rest, 1)) ||
         (is_harmonic (x, 0, rest, 2) && is_harmonic (x, 1, half, 2));
}

/* Numbers that a filter bank does not have. Weights have one among their first numbers, so only one page of a file is
 * read. */
static gboolean
begins_with_negative (const Numbers *x)
{
  for (gint64 i = 0; i < MIN (x->n, 1024); i++)
    if (ortrain_initializer_heuristics_get (x->dtype, x->data, i) < 0)
      return TRUE;
  return FALSE;
}

/* Each row is one hump over zeros, and the humps move to the right: filters of a spectrum. */
static gboolean
is_filter_bank (const Numbers *x)
{
  gint64 last_begin = -1, n_humps = 0, n_wide = 0, n_zeros = 0;
  if (x->rows < 3 || x->columns < 4)
    return FALSE;
  for (gint64 i = 0; i < x->rows; i++)
    {
      gint64 begin = -1, end = -1;
      gboolean falls = FALSE;
      for (gint64 j = 0; j < x->columns; j++)
        {
          const double value = at (x, i, j), before = j > 0 ? at (x, i, j - 1) : 0;
          if (!(value >= 0) || (value > 0 && end >= 0) || (falls && value > before * (1 + TOLERANCE)))
            return FALSE;
          falls = falls || value < before * (1 - TOLERANCE);
          begin = begin < 0 && value > 0 ? j : begin;
          end = begin >= 0 && end < 0 && value == 0 ? j : end;
          n_zeros += value == 0;
        }
      if (begin < 0)
        continue;
      if (begin < last_begin)
        return FALSE;
      n_humps += begin > last_begin;
      n_wide += (end < 0 ? x->columns : end) - begin > 1;
      last_begin = begin;
    }
  return n_humps >= 3 && n_wide >= 2 && n_zeros >= x->rows;
}

/* Each filter is its own mirror image in all its axes at once, or the negative of that. */
static gboolean
are_symmetric (const Numbers *x, gint64 n_filter)
{
  gboolean varies = FALSE;
  if (n_filter < 2)
    return FALSE;
  for (gint64 f = 0; f < x->n / n_filter; f++)
    {
      gboolean is_even = TRUE, is_odd = TRUE;
      gint64 n_not_zero = 0;
      double largest = 0;
      for (gint64 i = 0; i < n_filter; i++)
        {
          const double value = ortrain_initializer_heuristics_get (x->dtype, x->data, f * n_filter + i);
          largest = MAX (largest, fabs (value));
          n_not_zero += value != 0;
        }
      for (gint64 i = 0; i < n_filter / 2; i++)
        {
          const double a = ortrain_initializer_heuristics_get (x->dtype, x->data, f * n_filter + i),
                       b = ortrain_initializer_heuristics_get (x->dtype, x->data, (f + 1) * n_filter - 1 - i);
          is_even = is_even && fabs (a - b) <= TOLERANCE * largest;
          is_odd = is_odd && fabs (a + b) <= TOLERANCE * largest;
        }
      if (!is_even && !is_odd)
        return FALSE;
      varies = varies || (n_not_zero > 1 && (!is_even || n_not_zero < n_filter));
      for (gint64 i = 1; i < n_filter && n_not_zero > 1 && !varies; i++)
        varies = fabs (ortrain_initializer_heuristics_get (x->dtype, x->data, f * n_filter + i) -
                       ortrain_initializer_heuristics_get (x->dtype, x->data, f * n_filter)) > TOLERANCE * largest;
    }
  return varies;
}

const char *
ortrain_fixed_values_explain (OrtrainTensor *tensor, gboolean kernel)
{
  Numbers x = { .dtype = ortrain_tensor_get_dtype (tensor), .n = ortrain_tensor_get_n_elements (tensor) };
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  x.data = x.n > 0 ? ortrain_tensor_peek_unaligned (tensor) : NULL;
  if (x.data == NULL || x.n < 2 || rank < 1 || ortrain_initializer_heuristics_are_equal (tensor))
    return NULL;
  x.rows = dims[0];
  x.columns = x.n / x.rows;
  x.row_stride = x.columns;
  x.column_stride = 1;
  const Numbers y = transposed (&x);
  if (rank >= 2 && (x.rows == 1 || x.columns == 1) && are_bins (&x))
    return "bins";
  if (are_sinusoids (&x) || are_sinusoids (&y))
    return "sinusoids";
  if (!begins_with_negative (&x) && (is_filter_bank (&x) || is_filter_bank (&y)))
    return "filter bank";
  if (kernel && rank >= 3 && are_symmetric (&x, x.n / (dims[0] * dims[1])))
    return "symmetric filters";
  return NULL;
}

gboolean
ortrain_fixed_values_are_binary (OrtrainTensor *tensor)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  const guint8 *data = n > 0 ? ortrain_tensor_peek_unaligned (tensor) : NULL;
  gint64 n_ones = 0;
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  gboolean is_identity = rank == 2 && dims[0] == dims[1];
  if (ortrain_initializer_heuristics_are_equal (tensor))
    return FALSE;
  for (gint64 i = 0; data != NULL && i < n; i++)
    {
      const double value = ortrain_initializer_heuristics_get (dtype, data, i);
      if (value != 0 && value != 1)
        return FALSE;
      n_ones += value == 1;
      is_identity = is_identity && (value == 1) == (i / dims[0] == i % dims[0]);
    }
  return n_ones > 0 && n_ones < n && !is_identity;
}
