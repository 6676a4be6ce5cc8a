/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analysis/ortrain-initializer-heuristics-private.h"

#include "core/ortrain-dtype-private.h"

#include <math.h>
#include <string.h>

/* The number that a mask adds to masked scores; no weight is that large. */
#define FAR_BELOW (-1e4)
/* Some exporters write -100, as the models do. */
#define BELOW (-100.0)
#define TOLERANCE 2e-3
/* So many equal numbers at the beginning are taken for all: a large file of zeros is not read for that. */
#define MANY_EQUAL 65536

double
ortrain_initializer_heuristics_get (OrtrainDType dtype, const guint8 *data, gint64 i)
{
  const guint8 *at = data + (gsize) i * ortrain_dtype_get_size (dtype);
  float single;
  double wide;
  guint16 half;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      memcpy (&single, at, sizeof single);
      return (double) single;
    }
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    {
      memcpy (&wide, at, sizeof wide);
      return wide;
    }
  memcpy (&half, at, sizeof half);
  return (double) ortrain_dtype_widen (dtype, half);
}

/* Zeros, and one large negative number. */
static gboolean
is_mask (OrtrainDType dtype, const guint8 *data, gint64 n)
{
  double low = 0;
  for (gint64 i = 0; i < n; i++)
    {
      const double x = ortrain_initializer_heuristics_get (dtype, data, i);
      if (low == 0 && i >= MANY_EQUAL)
        return FALSE;
      if (x == 0 || x == low)
        continue;
      if (low == 0 && x <= BELOW)
        low = x;
      else if (!(x <= FAR_BELOW))
        return FALSE;
    }
  return low < 0;
}

/* Each column holds the sines, or the cosines, of the multiples of one angle: rows 0, 1 and 2 determine that. */
static gboolean
is_sinusoid (OrtrainDType dtype, const guint8 *data, gint64 n_rows, gint64 n_columns)
{
  gboolean moves = FALSE;
  if (n_rows < 3 || n_columns < 2)
    return FALSE;
  for (gint64 j = 0; j < n_columns; j++)
    {
      const double a = ortrain_initializer_heuristics_get (dtype, data, j),
                   b = ortrain_initializer_heuristics_get (dtype, data, n_columns + j);
      const double c = ortrain_initializer_heuristics_get (dtype, data, 2 * n_columns + j);
      const gboolean is_cosine = fabs (a - 1) <= TOLERANCE && fabs (c - (2 * b * b - 1)) <= TOLERANCE;
      const gboolean is_sine = fabs (a) <= TOLERANCE && fabs (c * c - 4 * b * b * (1 - b * b)) <= TOLERANCE;
      if ((!is_cosine && !is_sine) || fabs (b) > 1 + TOLERANCE)
        return FALSE;
      moves = moves || fabs (b - a) > 0.1;
    }
  return moves;
}

/* Each row of the last axis rises or falls evenly, as a bias by distance does: on both sides of one position. */
static gboolean
is_ramp (OrtrainDType dtype, const guint8 *data, gint64 n_rows, gint64 n_columns)
{
  gboolean moves = FALSE;
  if (n_columns < 5)
    return FALSE;
  for (gint64 i = 0; i < n_rows; i++)
    {
      guint n_turns = 0;
      double span = 0;
      for (gint64 j = 1; j < n_columns; j++)
        span = MAX (span, fabs (ortrain_initializer_heuristics_get (dtype, data, i * n_columns + j) -
                                ortrain_initializer_heuristics_get (dtype, data, i * n_columns)));
      for (gint64 j = 1; j + 1 < n_columns; j++)
        {
          const double bend = ortrain_initializer_heuristics_get (dtype, data, i * n_columns + j - 1) +
                              ortrain_initializer_heuristics_get (dtype, data, i * n_columns + j + 1) -
                              2 * ortrain_initializer_heuristics_get (dtype, data, i * n_columns + j);
          n_turns += !(fabs (bend) <= TOLERANCE * span);
        }
      if (n_turns > 1)
        return FALSE;
      moves = moves || span > 0;
    }
  return moves;
}

static gboolean
is_grid (OrtrainDType dtype, const guint8 *data, gint64 n)
{
  double lowest = INFINITY, highest = -INFINITY;
  for (gint64 i = 0; i < n; i++)
    {
      const double x = ortrain_initializer_heuristics_get (dtype, data, i);
      if (!isfinite (x) || 2 * x != rint (2 * x))
        return FALSE;
      lowest = MIN (lowest, x);
      highest = MAX (highest, x);
    }
  return highest - lowest > 1;
}

/* Coordinates: each component, along the last axis, varies along one of the other axes alone. */
static gboolean
is_coordinates (OrtrainTensor *tensor, const guint8 *data)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  guint n_wide = 0;
  for (gsize i = 0; i + 1 < rank; i++)
    n_wide += dims[i] > 1;
  if (n_wide < 2 || rank > ORTRAIN_MAX_RANK || dims[rank - 1] > 8)
    return FALSE;
  for (gint64 k = 0; k < dims[rank - 1]; k++)
    {
      guint32 along = 0; /* bit i: the component is a function of axis i */
      gboolean varies = FALSE;
      for (gsize i = 0; i + 1 < rank; i++)
        if (dims[i] > 1)
          along |= 1u << i;
      for (gint64 at = k; at < n && along != 0; at += dims[rank - 1])
        {
          const double x = ortrain_initializer_heuristics_get (dtype, data, at);
          gint64 stride = dims[rank - 1];
          varies = varies || x != ortrain_initializer_heuristics_get (dtype, data, k);
          for (gsize i = rank - 1; i-- > 0; stride *= dims[i])
            if ((along >> i & 1) &&
                ortrain_initializer_heuristics_get (dtype, data, k + at / stride % dims[i] * stride) != x)
              along &= ~(1u << i);
        }
      if (along == 0 || !varies)
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_no_number (OrtrainDType dtype, const guint8 *data, gint64 n)
{
  for (gint64 i = 0; i < n; i++)
    if (!isfinite (ortrain_initializer_heuristics_get (dtype, data, i)))
      return TRUE;
  return FALSE;
}

static guint
count_wide_axes (OrtrainTensor *tensor)
{
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  guint n = 0;
  for (gsize i = 0; i < rank; i++)
    n += dims[i] != 1;
  return n;
}

gboolean
ortrain_initializer_heuristics_are (OrtrainTensor *tensor, double number)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  const guint8 *data = n > 0 ? ortrain_tensor_peek_unaligned (tensor) : NULL;
  for (gint64 i = 0; data != NULL && i < MIN (n, MANY_EQUAL); i++)
    if (ortrain_initializer_heuristics_get (dtype, data, i) != number)
      return FALSE;
  return data != NULL;
}

gboolean
ortrain_initializer_heuristics_are_equal (OrtrainTensor *tensor)
{
  const guint8 *data = ortrain_tensor_get_n_elements (tensor) > 0 ? ortrain_tensor_peek_unaligned (tensor) : NULL;
  return data != NULL && ortrain_initializer_heuristics_are (
                             tensor, ortrain_initializer_heuristics_get (ortrain_tensor_get_dtype (tensor), data, 0));
}

const char *
ortrain_initializer_heuristics_explain (OrtrainTensor *tensor, gboolean broadcast, gboolean *is_weak)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  const guint8 *data = n > 0 ? ortrain_tensor_peek_unaligned (tensor) : NULL;
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  *is_weak = FALSE;
  if (data == NULL || (ortrain_initializer_heuristics_are_equal (tensor) &&
                       ortrain_initializer_heuristics_get (dtype, data, 0) > BELOW))
    return NULL;
  if (is_mask (dtype, data, n))
    return "mask";
  if (broadcast && has_no_number (dtype, data, n))
    return "mask";
  if (rank >= 2 && is_sinusoid (dtype, data, dims[rank - 2], dims[rank - 1]))
    return "sinusoids of positions";
  if (broadcast && count_wide_axes (tensor) >= 2 && is_ramp (dtype, data, n / dims[rank - 1], dims[rank - 1]))
    return "distances of positions";
  *is_weak = TRUE;
  if (broadcast && count_wide_axes (tensor) >= 2 && is_grid (dtype, data, n))
    return "grid of positions";
  return NULL;
}

const char *
ortrain_initializer_heuristics_explain_grid (OrtrainTensor *tensor)
{
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  const guint8 *data = n > 0 ? ortrain_tensor_peek_unaligned (tensor) : NULL;
  return data != NULL && !ortrain_initializer_heuristics_are_equal (tensor) &&
                 (is_grid (ortrain_tensor_get_dtype (tensor), data, n) || is_coordinates (tensor, data))
             ? "positions"
             : NULL;
}
